/** train/host: facts about a process and its host: processors, memory and names. The other files of this folder choose
 * a rank's resources: device.h the processor or a GPU, and limits.h the memory that a plan may take. */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include "zr/base.h"

/** Return the number of processors that this process may use, at least 1. The number is limited by the process's
 * affinity and by the CPU quota of its control group. */
int zr__host_cores(void);

/** Return the number of bytes that can be allocated without swapping and without being killed. This is the minimum of
 * MemAvailable and the memory left under the limits of the control groups. Return -1 if both are unknown. */
int64_t zr__host_available_bytes(void);

/** Check that the system would grant this process `bytes` more memory and, at the same time, `threads` more threads. To
 * find out, allocate and release them. Without this check, a library that fails to get memory or a thread would end
 * the program. Fail with ZR_ERR_MEMORY. The message names the refused resource and the limit. */
ZR_NODISCARD zr_status zr__host_room(int64_t bytes, int threads);

/** Write the processor's model name in printable ASCII, or "unknown", to `name`. */
void zr__host_processor(char *name, size_t size);

/** Return the peak of this process's anonymous memory in bytes, or -1 if it is unknown. Mapped files and shared memory,
 * such as the windows of other ranks, do not count. */
int64_t zr__host_peak_bytes(void);
/** Return the same number as zr__host_peak_bytes, read from a file in the format of /proc/self/status. */
int64_t zr__host_peak_of(const char *status_path);

/** Return the bytes left under memory.max of the control group in the folder `group`. Return -1 if the group has no
 * limit. Cached file pages that the system can drop count as free. */
int64_t zr__host_group_left(const char *group);

/** Read the first line of a file that begins with `key` into `line`, without the key and the newline. If the line or
 * the file does not exist, set `line` to "" and return false. */
bool zr__host_line(const char *path, const char *key, char *line, int size);

/** Write the host's name to `name`, or "unknown" if it cannot be read. */
void zr__host_name(char *name, int size);

/** Lower this thread's priority, so that other threads get processor time first. */
void zr__host_step_back(void);

#endif
