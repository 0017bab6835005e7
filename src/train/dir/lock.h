/**
 * The lock file of a run's directory. It names the process and host that hold the directory, and has a random key by
 * which other ranks check that they see the same directory. A lock whose process is gone is taken over.
 */
#ifndef ZR_TRAIN_LOCK_H
#define ZR_TRAIN_LOCK_H

#include "zr/base.h"

#define ZR_LOCK_HOLDER_BYTES 192

/** Create the lock file, or take over an existing one whose process is gone (it ran on this host and is not alive, or
 * another process has its number by now), or one that has been empty for ten seconds (its job ended before it wrote
 * its name, or could not remove the file). `gone`: the earlier holder, "" if nothing was taken over. ZR_ERR_CREATE
 * names the holder. When the file cannot be written, an existing lock stays as it was. */
ZR_NODISCARD zr_status zr__lock_take(const char *path, char gone[ZR_LOCK_HOLDER_BYTES]);

/** Remove this process's lock file; if it cannot be removed, empty it, so that any host can take it over. */
void zr__lock_release(const char *path);

/** Return the key in a lock file; 0: no key. */
uint64_t zr__lock_key(const char *path);

#endif
