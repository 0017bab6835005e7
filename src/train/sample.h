/** Texts that the model writes while it trains. */
#ifndef ZR_TRAIN_SAMPLE_H
#define ZR_TRAIN_SAMPLE_H

#include "train/run.h"

/** Most bytes of a text that are kept. */
#define ZR__SAMPLE_BYTES 8192

/** Is one due after this step? */
bool zr__sample_is_due(const zr__run *run);
/** Write one and give rank 0 its line of metrics.jsonl; NULL on the others. zr_free it. Collective. */
ZR_NODISCARD zr_status zr__sample_write(zr__run *run, char **line);

#endif
