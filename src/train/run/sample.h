/** Sample texts that the model generates during training. */
#ifndef ZR_TRAIN_SAMPLE_H
#define ZR_TRAIN_SAMPLE_H

#include "train/run/run.h"
#include "zr/base.h"

/** Maximum bytes of a prompt (PROMPT), and of the stored part of a sample with its prompt (SAMPLE). */
#define ZR__PROMPT_BYTES 1024
#define ZR__SAMPLE_BYTES 8192

/** Open the tokenizer and check the prompt on rank 0, which writes the text. The other ranks only take part in
 * decoding. Collective. */
ZR_NODISCARD zr_status zr__sample_open(zr__run *run);
/** Generate a sample after the current step, and write it into metrics.jsonl. If the weights have diverged, write
 * nothing. Fail with ZR_ERR_STOPPED if the run is asked to stop. Collective. */
ZR_NODISCARD zr_status zr__sample_write(zr__run *run);

#endif
