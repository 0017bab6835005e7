/** What a process knows of itself and its host, beside zr_host_cores and zr_host_available_bytes. */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include <stdint.h>

/** Peak of this process's own anonymous memory; -1 when unknown. Mapped files and shared memory (which
 *  holds other ranks' windows too) are not in it. */
int64_t zr__host_peak_bytes(void);
/** The same from a file like /proc/self/status. */
int64_t zr__host_peak_of(const char *status_path);

/** What a control group's folder says that the group leaves of its memory.max; -1 without one. Pages of files that the
 *  system can drop count as left. */
int64_t zr__host_group_left(const char *group);

/** The host's name into `name`, "unknown" when there is none. */
void zr__host_name(char *name, int size);

/** From here on this thread takes the processor time that others leave. */
void zr__host_step_back(void);

#endif
