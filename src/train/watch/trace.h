/** A trace of training steps in Chrome's trace event format, for Perfetto or chrome://tracing: rank 0 writes one file
 * for all ranks, valid after each step. All ranks run the same schedule, so only event times travel. */
#ifndef ZR_TRAIN_TRACE_H
#define ZR_TRAIN_TRACE_H

#include "train/dir/run_dir.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

typedef struct zr__trace zr__trace;

/** Allocate room for the events of one training step, a few MiB at most. Plan and wanted->path are borrowed.
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trace_create(const zr_plan *plan, const zr_trace *wanted, zr__trace **trace);
void zr__trace_destroy(zr__trace **trace);

/** Create the file. It may replace only an older trace or an empty file, and neither the run's data nor a file that the
 * run writes in the open `dir`: ZR_ERR_CREATE, and the file stays as it is. ZR_ERR_IO. Rank 0. */
ZR_NODISCARD zr_status zr__trace_open(zr__trace *trace, const zr__run_dir *dir, const zr_config *config);

/** Set the trace's time zero on the clocks of all ranks. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__trace_align(zr__trace *trace, zr_comm *comm);

/** Return whether this training step (from 0) is traced. */
bool zr__trace_wants(const zr__trace *trace, int64_t step);
/** Record an event of a traced step. Called on the thread of the event's stream. */
void zr__trace_event(zr__trace *trace, const zr_event *event);
/** Discard the events of an aborted step. */
void zr__trace_drop(zr__trace *trace);
/** Write the events of all ranks after a traced step. Collective; comm->table is overwritten. A failed write on rank 0
 * is no error, but in zr__trace_note. */
ZR_NODISCARD zr_status zr__trace_collect(zr__trace *trace, zr_comm *comm, int64_t step);

/** Return a message about the trace for the user; NULL: no new message. */
const char *zr__trace_note(zr__trace *trace);

#endif
