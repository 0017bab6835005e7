/**
 * The lock file of a run's directory. The file names the process and the host that use the directory. A random key in
 * it lets the other ranks check that they see the same directory. If the named process has ended, another process can
 * take over the lock.
 */
#ifndef ZR_TRAIN_LOCK_H
#define ZR_TRAIN_LOCK_H

#include "zr/base.h"

#define ZR_LOCK_HOLDER_BYTES 192

/** Create the lock file, or take over an abandoned lock. A lock is abandoned if the process that it names ran on this
 * host and has ended, even if a new process has the same number. A lock file that has been empty for ten seconds is
 * also abandoned: the process that created it must have ended before it wrote its name. `gone` receives the text of a
 * lock that was taken over, or "". Fail with ZR_ERR_CREATE, naming the holder, if another job holds the lock. If the
 * file cannot be written, an existing lock is unchanged. */
ZR_NODISCARD zr_status zr__lock_take(const char *path, char gone[ZR_LOCK_HOLDER_BYTES]);

/** Remove this process's lock file. If that fails, empty the file, so that a process of any host can take over the
 * lock. */
void zr__lock_release(const char *path);

/** Return the key in a lock file, or 0 if the file has no key. errno is 0, or says why the file could not be read. */
uint64_t zr__lock_key(const char *path);

#endif
