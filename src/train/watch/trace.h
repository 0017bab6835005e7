/** A trace of training steps in Chrome's trace event format, for Perfetto or chrome://tracing. Rank 0 writes one file
 * for all ranks. The file is valid JSON after each step. All ranks run the same schedule, so they send only the times
 * of their events. */
#ifndef ZR_TRAIN_TRACE_H
#define ZR_TRAIN_TRACE_H

#include "train/dir/run_dir.h"

typedef struct zr__trace zr__trace;

/** Create a trace with buffers for the events of one training step, a few MiB at most. `plans` and wanted->path are
 * borrowed. Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trace_create(const zr_plans *plans, const zr_trace *wanted, zr__trace **trace);
void zr__trace_destroy(zr__trace **trace);

/** Create the file. Replace an existing file only if it is empty or an older trace. Fail with ZR_ERR_CREATE and change
 * nothing if the path is any other existing file, an input of the run, or a file that the run writes in its open
 * directory `dir`. Other errors: ZR_ERR_IO. Rank 0 only. */
ZR_NODISCARD zr_status zr__trace_open(zr__trace *trace, const zr__run_dir *dir, const zr_config *config);

/** Determine the time zero of the trace on the clock of each rank. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__trace_align(zr__trace *trace, zr_comm *comm);

/** Return whether this training step (from 0) is traced. */
bool zr__trace_wants(const zr__trace *trace, int64_t step);
/** Record an event of a traced step. Only the thread of the event's stream may call this. */
void zr__trace_event(zr__trace *trace, const zr_event *event);
/** Discard the events of an aborted step. */
void zr__trace_drop(zr__trace *trace);
/** Write the events of all ranks after a traced step. If rank 0 fails to write, this function still succeeds, and
 * zr__trace_note reports the failure. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__trace_collect(zr__trace *trace, zr_comm *comm, int64_t step);

/** Return a message about the trace that was not reported yet, or NULL. */
const char *zr__trace_note(zr__trace *trace);

#endif
