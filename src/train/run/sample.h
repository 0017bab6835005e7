/** Texts that the model writes while it trains. */
#ifndef ZR_TRAIN_SAMPLE_H
#define ZR_TRAIN_SAMPLE_H

#include "train/run/run.h"

/** Most bytes of a prompt, and of a text with its prompt that are kept. */
#define ZR__PROMPT_BYTES 1024
#define ZR__SAMPLE_BYTES 8192

/** Open what texts are written with, and try the prompt: rank 0 alone writes, the others only decode with it. */
ZR_NODISCARD zr_status zr__sample_open(zr__run *run);
/** Is one due after this step? */
bool zr__sample_is_due(const zr__run *run);
/** Write one and give rank 0 its line of metrics.jsonl; NULL on the others, and where the weights are of no use.
 * zr_free it. ZR_ERR_STOPPED: the run is asked to end. Collective. */
ZR_NODISCARD zr_status zr__sample_write(zr__run *run, char **line);

#endif
