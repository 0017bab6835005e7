/** What this machine has to give: cores and memory, as the kernel and the control groups allow. */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include <stdint.h>

/** Processors this process may use, at least 1: its affinity, capped by the CPU quota of its control group. */
int zr__host_cores(void);

/** Bytes that can still be taken without swapping or being killed: the smaller of MemAvailable and what
 *  the control groups leave; -1 when neither is known. */
int64_t zr__host_available_bytes(void);

/** Peak of this process's own anonymous memory; -1 when unknown. Mapped files and shared memory (which
 *  holds other ranks' windows too) are not in it. */
int64_t zr__host_peak_bytes(void);

/** The host's name into `name`, "unknown" when there is none. */
void zr__host_name(char *name, int size);

#endif
