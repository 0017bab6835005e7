/** Lines of metrics.jsonl and the document run.json; the key order is part of the interface. */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "zr/train.h"

#define ZR_LINE_BYTES 768

/** A number of a step or of an evaluation. */
typedef struct zr__scalar {
    const char *name;
    double value;
    bool exact; /* in a line with all its digits; else with nine */
} zr__scalar;
#define ZR_SCALARS 13

/** Collect the numbers of a training step, in the order of a line; how many. "loss_scale" is among them with fp16 only,
 * "noise_scale_tokens" with train.gradient_noise_scale only. */
int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS]);
/** The same of an evaluation; a line has them with "val_" before their names. */
int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS]);

/** One line with its newline; its length. */
int zr__metrics_step(const zr_train_step *step, char line[ZR_LINE_BYTES]);
/** A text that the model wrote after `step` steps; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line);
int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_LINE_BYTES]);

/** run.json; zr_free it. timings NULL: none were asked for. */
ZR_NODISCARD zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
