/** Facts about a process and its host, besides zr_host_cores and zr_host_available_bytes. */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include <stdint.h>

/** Return the peak bytes of this process's own anonymous memory; -1: unknown. Mapped files and shared memory (which
 * holds other ranks' windows too) are not included. */
int64_t zr__host_peak_bytes(void);
/** Return the same number from a file like /proc/self/status. */
int64_t zr__host_peak_of(const char *status_path);

/** Return the bytes that a control group leaves of its memory.max, from its folder; -1 without a limit. Cached file
 * pages that the system can drop count as left. */
int64_t zr__host_group_left(const char *group);

/** Write the host's name to `name`, "unknown" if it cannot be read. */
void zr__host_name(char *name, int size);

/** Lower this thread's priority: from here on it takes the processor time that others leave. */
void zr__host_step_back(void);

#endif
