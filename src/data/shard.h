/** One file of tokens: which format, where they are in it. */
#ifndef ZR_DATA_SHARD_H
#define ZR_DATA_SHARD_H

#include "base/file.h"
#include "zr/data.h"

#define ZR__NOTE_BYTES (ZR_FILE_NAME_BYTES + 160)

/** A little-endian number of up to 8 bytes. */
static inline uint64_t zr__le(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

typedef struct zr__shard {
    char *path;    /* it is opened by; of a text with a tokenizer other than bytes, that of its tokens */
    zr__file file; /* fd -1: closed for now */
    char name[ZR_FILE_NAME_BYTES]; /* as messages show it: of such a text, the text's */
    const char *format;            /* as zr_data_info has it */
    int token_bytes;               /* 1, 2 or 4 */
    int64_t first_byte;            /* of token 0 */
    int64_t tokens;
    int64_t begin;                        /* tokens of the files before this one */
    int64_t text_bytes;                   /* that became these tokens; -1: not known */
    int64_t skipped_lines, first_skipped; /* bad ones, left out */
    uint64_t hash;                        /* of tokens in the cache, XXH3-64, as their file says */
    bool checked;                         /* and they have it: they were read, or made, when this was opened */
} zr__shard;

/** What opening needs beside the path, and gathers. */
typedef struct zr__opening {
    const zr_data_args *args;
    zr_tokenizer *tokenizer;             /* NULL until a text needs one */
    char note[ZR__NOTE_BYTES];           /* the first thing that is to be said of a file, "" */
    char made_again[2 * ZR__NOTE_BYTES]; /* the first file of the cache that was damaged, "" */
} zr__opening;

/** Open a file and learn what it is; a text that must be tokenized is, unless its tokens are in the cache. The file
 *  stays open. Errors: zr_data_open_with. Close it in either case. */
ZR_NODISCARD zr_status zr__shard_open(zr__opening *opening, const char *path, zr__shard *shard);
void zr__shard_close(zr__shard *shard);

/** Is it a text, plain or .jsonl (`lines`)? What is odd about a plain one goes into `note`. */
ZR_NODISCARD zr_status zr__shard_is_text(const char *path, bool *text, bool *lines, char *note, size_t size);

#endif
