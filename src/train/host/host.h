/**
 * Facts about a process and its host: processors, memory, names, and whether the system grants a run its memory and
 * threads (room.c). This room holds what a rank computes on and within which limits: device.h chooses the processor or
 * a GPU, limits.h says how much memory a plan may take.
 */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include "zr/base.h"

/** Return the processors that this process may use, at least 1: its affinity, capped by the CPU quota of its control
 *  group. */
int zr__host_cores(void);

/** Return the bytes that can still be allocated without swapping or being killed: the smaller of MemAvailable and the
 *  rest of the control groups' limits; -1 when neither is known. */
int64_t zr__host_available_bytes(void);

/** Check that the system would give this process `bytes` more memory and `threads` more threads at once, by taking them
 *  and giving them back: libraries that fail to get a thread or memory end the program. ZR_ERR_MEMORY naming the
 *  resource that was refused, and by which limit. */
ZR_NODISCARD zr_status zr__host_room(int64_t bytes, int threads);

/** Write the processor's model name as the system gives it, in printable ASCII; "unknown". */
void zr__host_processor(char *name, size_t size);

/** Return the peak bytes of this process's own anonymous memory; -1: unknown. Mapped files and shared memory (which
 * holds other ranks' windows too) are not included. */
int64_t zr__host_peak_bytes(void);
/** Return the same number from a file like /proc/self/status. */
int64_t zr__host_peak_of(const char *status_path);

/** Return the bytes that a control group leaves of its memory.max, from its folder; -1 without a limit. Cached file
 * pages that the system can drop count as left. */
int64_t zr__host_group_left(const char *group);

/** Read a file's first line that begins with `key`, without the key and its newline; false and "": the file or the line
 * is missing. */
bool zr__host_line(const char *path, const char *key, char *line, int size);

/** Write the host's name to `name`, "unknown" if it cannot be read. */
void zr__host_name(char *name, int size);

/** Lower this thread's priority: from here on it takes the processor time that others leave. */
void zr__host_step_back(void);

#endif
