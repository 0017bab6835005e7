/**
 * Lines of metrics.jsonl, and the document run.json. The order of their keys is part of the interface.
 *
 * To add a field to a step's line, add it to zr_train_step (zr/run.h) and set it in report_step (train/run/step.c).
 * Then add a row to zr__metrics_step_scalars (metrics.c), which event files use too, and one to docs/operations.md. The
 * tests of the line are test_cli_run.sh (keys), test_train_events.c (count) and test_train_runs.c (end of a line). zr
 * plot and zr report draw the fields that src/cli/draw/curve.[ch] lists.
 */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "zr/run.h"

/** A number of a step or of an evaluation, with its name. */
typedef struct zr__scalar {
    const char *name;
    double value;
    bool exact;  /* whether the value is written with all its digits and not with nine */
    bool absent; /* whether the number is omitted because the run does not measure it */
} zr__scalar;
/** Maximum number of scalars in a line; metrics.c checks at compile time that it is large enough. */
#define ZR_SCALARS 18
/** Maximum length of a line in bytes: 64 for the step, 64 for each scalar with its name, and longer names of loss
 * terms.
 */
#define ZR_METRICS_LINE_BYTES (64 + 64 * ZR_SCALARS + ZR_NAME_MAX * ZR_LOSS_TERMS)

/** List the scalars of a training step, in the order in which a line of metrics.jsonl has them, and return their count.
 * "loss_scale" is included only with fp16, "noise_scale_tokens" only with train.gradient_noise_scale, and "adamw_lr"
 * only with Muon. With several loss terms, the loss of each term follows under the term's name. */
int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS]);
/** List the scalars of an evaluation and return their count. */
int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS]);

/** Write a line with n scalars of a step, including its newline, and return its length in bytes. `prefix` precedes the
 * names of the scalars: "" for a training step, "val_" for an evaluation. */
int zr__metrics_line(int64_t step, const char *prefix, const zr__scalar *scalar, int n,
                     char line[ZR_METRICS_LINE_BYTES]);
/** Return the line for a sample text, which the model generated after `step` steps; zr_free it. Errors: ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line);

struct zr__json_out;
/** Add the further results of a run with train.keep_best or early stopping: "best_val_loss", "best_step" and
 * "stopped_early". */
void zr__metrics_add_best(struct zr__json_out *out, const zr_config *config, const zr_train_result *result);

/** Return the text of run.json; zr_free it. Pass NULL as `timings` if they were not measured. */
ZR_NODISCARD zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
