/** A trace of training steps in Chrome's trace event format, for Perfetto or chrome://tracing: rank 0 writes one file
 * of all ranks, whole after each step. Every rank walks the same list of steps, so only their times travel. */
#ifndef ZR_TRAIN_TRACE_H
#define ZR_TRAIN_TRACE_H

#include "train/dir/run_dir.h"
#include "zr/train.h"

typedef struct zr__trace zr__trace;

/** Room for the events of one optimizer step, some MiB at most. Plan and wanted->path are borrowed. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trace_create(const zr_plan *plan, const zr_trace *wanted, zr__trace **trace);
void zr__trace_destroy(zr__trace **trace);

/** Rank 0: make the file. What it may replace is an older trace or an empty file that is not the run's data nor, open
 *  in `dir`, the run's own; anything else is ZR_ERR_CREATE and stays as it is. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trace_open(zr__trace *trace, const zr__run_dir *dir, const zr_config *config);

/** Time begins here, on all ranks' clocks. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__trace_align(zr__trace *trace, zr_comm *comm);

/** Is this step, from 0, traced? */
bool zr__trace_wants(const zr__trace *trace, int64_t step);
/** One of its steps has run, on either stream's thread. */
void zr__trace_event(zr__trace *trace, const zr_event *event);
/** Events of a step that was broken off are no one's. */
void zr__trace_drop(zr__trace *trace);
/** It has ended: write what all ranks did. Collective; comm->table is overwritten. What rank 0 cannot write is no
 *  failure: zr__trace_note. */
ZR_NODISCARD zr_status zr__trace_collect(zr__trace *trace, zr_comm *comm, int64_t step);

/** What the user should know of this trace, NULL: nothing new. */
const char *zr__trace_note(zr__trace *trace);

#endif
