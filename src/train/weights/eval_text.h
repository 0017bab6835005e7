/** Evaluation of stored weights on a file of any kind. */
#ifndef ZR_TRAIN_EVAL_TEXT_H
#define ZR_TRAIN_EVAL_TEXT_H

#include "train/weights/evaluate.h"
#include "train/weights/load.h"
#include "zr/run.h"

/** Return the number of rows of `seq` tokens in a batch of an evaluation. */
int64_t zr__eval_batch_rows(int64_t seq);

/** Create the engine of `loaded`, evaluate on a text, and set the results that do not depend on its kind. `watch` may
 * be NULL. Errors: as zr_eval_dir. */
ZR_NODISCARD zr_status zr__evaluate_text(zr__loaded *loaded, zr_layout *layout, const zr__eval_text *text,
                                         const zr__eval_watch *watch, int threads, const char *path,
                                         zr_eval_result *result);

#endif
