/**
 * Reads instruction data: the lines of .jsonl files for fine-tuning. A line has a prompt and its completion, or the
 * messages of a conversation. All lines of a file have the kind of its first line.
 */
#ifndef ZR_DATA_RECORD_H
#define ZR_DATA_RECORD_H

#include "base/file/file.h"
#include "base/json/json.h"
#include "data/text/chat.h"
#include "data/text/jsonl.h"
#include "data/text/shape.h"

typedef enum zr__lines_kind {
    ZR__LINES_TEXT,     /* {"text": TEXT} */
    ZR__LINES_PAIR,     /* {"prompt": TEXT, "completion": TEXT} */
    ZR__LINES_MESSAGES, /* {"messages": [{"role": ROLE, "content": TEXT}, ...]} */
} zr__lines_kind;

/** Forms of records, for messages. */
#define ZR__RECORD_FORMS                                                                                               \
    "{\"text\": TEXT}, {\"prompt\": TEXT, \"completion\": TEXT} or {\"messages\": [{\"role\": ..., \"content\": "      \
    "TEXT}, ...]}"

/** Find the kind of a file of records from its first record. A record with the member text_key has a text. If bad lines
 * are skipped, the first record that has one of the kinds decides. Errors: ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__lines_kind_of(const zr__file *file, zr__shape shape, const char *text_key,
                                         bool skip_bad_lines, zr__lines_kind *kind);

/** Settings for converting the lines of a file to tokens. */
typedef struct zr__instruct {
    zr__lines_kind kind;
    zr__chat chat;
    const zr_tokenizer *tokenizer;
    zr_data_loss_on loss_on;  /* what the loss counts */
    char end[ZR__MARK_BYTES]; /* text of the token that follows a completion */
} zr__instruct;

/** Choose the settings for lines of this kind, by chat_template and loss_on of `args`. `file` is the name of the file
 * in messages. Errors: as zr__chat_find and zr__chat_want. Close the result with zr__instruct_close, also after an
 * error. */
ZR_NODISCARD zr_status zr__instruct_open(const zr_tokenizer *tokenizer, zr__lines_kind kind, const zr_data_args *args,
                                         const char *file, zr__instruct *instruct);
void zr__instruct_close(zr__instruct *instruct);

/** Render a line into `rendered`. *bytes receives the length of the line's texts, or 0 for a line of only white space.
 * If the line is bad, `reason` says why, otherwise it is "". Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__record_render(const zr__instruct *instruct, const char *line, int64_t n,
                                         zr__rendered *rendered, int64_t *bytes, char reason[ZR__REASON_BYTES]);

#endif
