/**
 * Renders records for fine-tuning: prompts with their completions, and conversations (forms.h). All records of a file
 * have the form of its first one.
 */
#ifndef ZR_DATA_RECORD_H
#define ZR_DATA_RECORD_H

#include "data/text/forms.h"
#include "data/text/jsonl.h"

/** Settings for converting the records of a file to tokens. */
typedef struct zr__instruct {
    const zr__form_found *found;
    zr__chat chat;
    const zr_tokenizer *tokenizer;
    zr_data_loss_on loss_on; /* what the loss counts */
} zr__instruct;

/** Choose the settings for records of a form, by chat_template, chat_template_kwargs and loss_on of `args`. `file` is
 * the name of the file in messages. Errors: as zr__chat_find and zr__chat_want. Close the result with
 * zr__instruct_close, also after an error. */
ZR_NODISCARD zr_status zr__instruct_open(const zr_tokenizer *tokenizer, const zr__form_found *found,
                                         const zr_data_args *args, const char *file, zr__instruct *instruct);
void zr__instruct_close(zr__instruct *instruct);

/** Render a record into `rendered`. *bytes receives the length of its texts. If the record is bad, `reason` says why,
 * otherwise it is "". Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__record_render(const zr__instruct *instruct, const json_t *record, zr__rendered *rendered,
                                         int64_t *bytes, char *reason);

#endif
