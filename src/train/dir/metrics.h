/**
 * Lines of metrics.jsonl and the document run.json; the key order is part of the interface.
 *
 * A new field of a step's line is a field of zr_train_step (zr/run.h), its value in report_step (train/run/run.c), one
 * row in zr__metrics_step_scalars (metrics.c), from which event files get it too, and a row in docs/guide.md. Tests:
 * test_cli_run.sh (keys), test_train_events.c (count), test_train_runs.c (end of a line). zr plot and zr report draw it
 * if src/cli/draw/curve.[ch] list it.
 */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "zr/run.h"

/** A number of a step or of an evaluation. */
typedef struct zr__scalar {
    const char *name;
    double value;
    bool exact;  /* true: a line has all its digits; false: nine */
    bool absent; /* the run does not measure it */
} zr__scalar;
/** Most numbers of a line; the compiler checks it. */
#define ZR_SCALARS 16
/** Room for a line: its step, and a name and a number of up to 24 characters for each scalar. */
#define ZR_METRICS_LINE_BYTES (64 + 64 * ZR_SCALARS)

/** Collect the numbers of a training step, in the order of a line; return their count. "loss_scale" is among them with
 * fp16 only, "noise_scale_tokens" with train.gradient_noise_scale only. */
int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS]);
/** Collect the numbers of an evaluation; return their count. A line has their names with the prefix "val_". */
int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS]);

/** Write the line of a step or of an evaluation, with its newline; return its length. */
int zr__metrics_step(const zr_train_step *step, char line[ZR_METRICS_LINE_BYTES]);
int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_METRICS_LINE_BYTES]);
/** Return the line of a text that the model wrote after `step` steps; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line);

/** Return the text of run.json; zr_free it. timings NULL: not measured. */
ZR_NODISCARD zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
