/**
 * Facts about a process and its host: processors, memory, names, and whether the system grants a run its memory and
 * threads (room.c). The other files of this folder decide on the resources of a rank: device.h chooses the processor or
 * a GPU, and limits.h tells how much memory a plan may take.
 */
#ifndef ZR_TRAIN_HOST_H
#define ZR_TRAIN_HOST_H

#include "zr/base.h"

/** Return the number of processors that this process may use, at least 1: its affinity, limited by the CPU quota of its
 * control group. */
int zr__host_cores(void);

/** Return the bytes that can still be allocated without swapping or being killed: the smaller of MemAvailable and the
 * memory left under the limits of the control groups. Return -1 if neither is known. */
int64_t zr__host_available_bytes(void);

/** Check that the system would grant this process `bytes` more memory and `threads` more threads at once, by allocating
 * and releasing them. Without this check, a library that fails to get memory or a thread would end the program. Fail
 * with ZR_ERR_MEMORY, naming the refused resource and the limit. */
ZR_NODISCARD zr_status zr__host_room(int64_t bytes, int threads);

/** Write the processor's model name in printable ASCII, or "unknown". */
void zr__host_processor(char *name, size_t size);

/** Return the peak bytes of this process's own anonymous memory, or -1 if unknown. Mapped files and shared memory
 * (which includes other ranks' windows) are not counted. */
int64_t zr__host_peak_bytes(void);
/** Return the peak of zr__host_peak_bytes, read from a file in the format of /proc/self/status. */
int64_t zr__host_peak_of(const char *status_path);

/** Return the bytes left under memory.max of the control group with this folder, or -1 if it has no limit. Cached file
 * pages that the system can drop count as free. */
int64_t zr__host_group_left(const char *group);

/** Read the first line that begins with `key`, without the key and the newline. Return false, with an empty line, if
 * the file or the line does not exist. */
bool zr__host_line(const char *path, const char *key, char *line, int size);

/** Write the host's name to `name`, or "unknown" if it cannot be read. */
void zr__host_name(char *name, int size);

/** Lower this thread's priority, so that it uses only processor time that other threads leave. */
void zr__host_step_back(void);

#endif
