/**
 * The lock file of a run's directory: it says which process of which host has the directory, and holds a random key
 * by which other ranks tell that it is the same directory that they see. A lock whose process is gone is taken over.
 */
#ifndef ZR_TRAIN_LOCK_H
#define ZR_TRAIN_LOCK_H

#include "zr/base.h"

#define ZR_LOCK_HOLDER_BYTES 192

/** Make the lock file. Of one that is there already and whose process is gone (of this host, and not alive, or another
 *  process has its number by now) the file is taken over; so is one that has been empty for ten seconds, whose job
 * ended before it wrote its name, or could not remove it. `gone` says whose it was, "" otherwise. ZR_ERR_CREATE naming
 * the holder. Where it cannot be written a lock that was there stays as it was. */
ZR_NODISCARD zr_status zr__lock_take(const char *path, char gone[ZR_LOCK_HOLDER_BYTES]);

/** Remove a lock file that is this process's. One that cannot be removed is emptied, for any host to take over. */
void zr__lock_release(const char *path);

/** The key in a lock file; 0: there is none. */
uint64_t zr__lock_key(const char *path);

#endif
