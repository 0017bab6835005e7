/** What a process knows of itself and its host, beside zr_host_cores and zr_host_available_bytes. */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include <stdint.h>

/** Peak of this process's own anonymous memory; -1 when unknown. Mapped files and shared memory (which
 *  holds other ranks' windows too) are not in it. */
int64_t zr__host_peak_bytes(void);

/** The host's name into `name`, "unknown" when there is none. */
void zr__host_name(char *name, int size);

#endif
