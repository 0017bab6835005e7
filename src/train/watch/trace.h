/** A trace of training steps in Chrome's trace event format, for Perfetto or chrome://tracing. Rank 0 writes one file
 * for all ranks, which is valid after each step. All ranks run the same schedule, so they send only the times of
 * events. */
#ifndef ZR_TRAIN_TRACE_H
#define ZR_TRAIN_TRACE_H

#include "train/dir/run_dir.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

typedef struct zr__trace zr__trace;

/** Create a trace with buffers for the events of one training step, a few MiB at most. `plan` and wanted->path are
 * borrowed. Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trace_create(const zr_plan *plan, const zr_trace *wanted, zr__trace **trace);
void zr__trace_destroy(zr__trace **trace);

/** Create the file. An existing file is replaced only if it is an older trace or empty. Fail with ZR_ERR_CREATE,
 * without any change, for every other existing file, for the run's data, and for a file that the run writes in the open
 * `dir`. Other errors: ZR_ERR_IO. Rank 0 only. */
ZR_NODISCARD zr_status zr__trace_open(zr__trace *trace, const zr__run_dir *dir, const zr_config *config);

/** Determine the trace's time zero on the clock of each rank. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__trace_align(zr__trace *trace, zr_comm *comm);

/** Return whether this training step (from 0) is traced. */
bool zr__trace_wants(const zr__trace *trace, int64_t step);
/** Record an event of a traced step. The thread of the event's stream calls this. */
void zr__trace_event(zr__trace *trace, const zr_event *event);
/** Discard the events of an aborted step. */
void zr__trace_drop(zr__trace *trace);
/** Write the events of all ranks after a traced step. Collective; comm->table is overwritten. A failed write on rank 0
 * is no error here; zr__trace_note reports it. */
ZR_NODISCARD zr_status zr__trace_collect(zr__trace *trace, zr_comm *comm, int64_t step);

/** Return a message about the trace that was not reported yet, or NULL. */
const char *zr__trace_note(zr__trace *trace);

#endif
