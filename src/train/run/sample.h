/** Sample texts that the model writes while it trains. */
#ifndef ZR_TRAIN_SAMPLE_H
#define ZR_TRAIN_SAMPLE_H

#include "train/run/run.h"
#include "zr/base.h"

/** Limits in bytes: of a prompt, and of the kept part of a text with its prompt. */
#define ZR__PROMPT_BYTES 1024
#define ZR__SAMPLE_BYTES 8192

/** Open the tokenizer and try the prompt on rank 0, which alone writes; other ranks only decode along. Collective. */
ZR_NODISCARD zr_status zr__sample_open(zr__run *run);
/** Write a sample. *line: on rank 0 its line of metrics.jsonl, to be freed with zr_free; NULL on the others, and where
 * the weights have diverged. ZR_ERR_STOPPED: the run is asked to end. Collective. */
ZR_NODISCARD zr_status zr__sample_write(zr__run *run, char **line);

#endif
