/** The log of a run: the lines of metrics.jsonl, and the records of the event file. If a file cannot be written, its
 * lines are kept in memory, and a warning is given. A file that is not open, as on all ranks but 0, gets no lines. */
#ifndef ZR_TRAIN_LOG_H
#define ZR_TRAIN_LOG_H

#include "train/run/run.h"

/** Begin the event file. For a resumed run, also record its first step. TensorBoard then drops the data that earlier
 * event files have for this step and later steps. */
void zr__run_log_begin(zr__run *r);
/** Write the scalars of the current step into metrics.jsonl and the event file, and pass them to the observer. Rank 0
 * only. */
void zr__run_log_step(zr__run *r, const zr_train_step *line);
/** Write the scalars of an evaluation after the current step, and pass them to the observer. Rank 0 only. */
void zr__run_log_eval(zr__run *r, const zr_train_eval *line);
/** Write a line of metrics.jsonl, which ends with a newline. */
void zr__run_log_text(zr__run *r, const char *line);

/** For a model with several loss terms, name the results of the terms, and return the number of terms. Return 0 for a
 * model with one term. */
int zr__run_name_terms(const zr_plan *plan, const zr_term_result *result, zr_train_term *term);

#endif
