/** Settings for text generation in a Hugging Face directory: the tokens that end a text, and how to draw tokens. */
#ifndef ZR_TRAIN_GENERATION_H
#define ZR_TRAIN_GENERATION_H

#include "train/weights/load.h"

/** Tokens that end a text: the end tokens of the model's files, and the token that ends a turn in a chat. */
typedef struct zr__ends {
    int32_t token[ZR_IDS_MOST + 1];
    int n;
} zr__ends;

/** Add a token, unless it is negative or already in the list. */
void zr__ends_add(zr__ends *ends, int32_t token);

/** Find the tokens that end a text: eos_token_id in generation_config.json beside the weights or beside the tokenizer,
 * or else in the config.json of the weights. The value is a number or a list. `tokenizer` is a directory, "bytes" or
 * NULL. Error: ZR_ERR_DATA if a file is damaged or has other values. */
ZR_NODISCARD zr_status zr__ends_find(const zr__loaded *loaded, const char *tokenizer, zr__ends *ends);

#endif
