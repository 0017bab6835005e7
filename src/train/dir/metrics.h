/** Lines of metrics.jsonl and the document run.json; the key order is part of the interface. */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "zr/run.h"

#define ZR_LINE_BYTES 768

/** A number of a step or of an evaluation. */
typedef struct zr__scalar {
    const char *name;
    double value;
    bool exact; /* true: a line has all its digits; false: nine */
} zr__scalar;
#define ZR_SCALARS 13

/** Collect the numbers of a training step, in the order of a line; return their count. "loss_scale" is among them with
 * fp16 only, "noise_scale_tokens" with train.gradient_noise_scale only. */
int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS]);
/** Collect the numbers of an evaluation; return their count. A line has their names with the prefix "val_". */
int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS]);

/** Write the line of a step, with its newline; return its length. */
int zr__metrics_step(const zr_train_step *step, char line[ZR_LINE_BYTES]);
/** Return the line of a text that the model wrote after `step` steps; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line);
int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_LINE_BYTES]);

/** Return the text of run.json; zr_free it. timings NULL: not measured. */
ZR_NODISCARD zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
