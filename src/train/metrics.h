/** Lines of metrics.jsonl and the document run.json; the key order is part of the interface. */
#ifndef ZR_TRAIN_METRICS_H
#define ZR_TRAIN_METRICS_H

#include "zr/train.h"

#define ZR_LINE_BYTES 768

/** One line with its newline; its length. "loss_scale" stands in it with fp16 only, "noise_scale_tokens"
 *  with train.gradient_noise_scale only. */
int zr__metrics_step(const zr_train_step *step, char line[ZR_LINE_BYTES]);
/** A text that the model wrote after `step` steps; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line);
int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_LINE_BYTES]);

/** run.json; zr_free it. timings NULL: none were asked for. */
ZR_NODISCARD zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
