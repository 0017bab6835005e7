/** One file of tokens: its format, and where the tokens are in it. */
#ifndef ZR_DATA_SHARD_H
#define ZR_DATA_SHARD_H

#include "base/file/file.h"
#include "zr/data.h"

#define ZR__NOTE_BYTES (ZR_FILE_NAME_BYTES + 160)

/** Read a little-endian number of up to 8 bytes. */
static inline uint64_t zr__le(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

typedef struct zr__shard {
    char *path;                    /* path to open; of a text whose tokens are in the cache, the cache's file */
    zr__file file;                 /* fd -1: closed for now */
    char name[ZR_FILE_NAME_BYTES]; /* name in messages; of a text, the text's even if its tokens are in the cache */
    const char *format;            /* see zr_data_info */
    int token_bytes;               /* 1, 2 or 4 */
    int64_t first_byte;            /* of token 0 */
    int64_t tokens;
    int64_t begin;                        /* tokens of the files before this one */
    int64_t text_bytes;                   /* bytes of text that the tokens encode; -1: not known */
    int64_t skipped_lines, first_skipped; /* bad lines */
    uint64_t hash;                        /* XXH3-64 of tokens in the cache, from their file's header */
    bool checked;                         /* the tokens match it: they were read, or made, when this was opened */
} zr__shard;

/** Arguments of opening files, and the notes that opening collects. */
typedef struct zr__opening {
    const zr_data_args *args;
    zr_tokenizer *tokenizer;             /* NULL until a text needs one */
    char note[ZR__NOTE_BYTES];           /* the first note on a file, or "" */
    char made_again[2 * ZR__NOTE_BYTES]; /* a note on the first damaged file of the cache, or "" */
} zr__opening;

/** Open a file and find its format; a text is tokenized if its tokens are not in the cache. The file stays open.
 * Errors: zr_data_open_with. Close it in either case. */
ZR_NODISCARD zr_status zr__shard_open(zr__opening *opening, const char *path, zr__shard *shard);
void zr__shard_close(zr__shard *shard);

/** Find whether the file is a text, plain or .jsonl (`lines`). `note` is a remark on an odd plain text, or "". */
ZR_NODISCARD zr_status zr__shard_is_text(const char *path, bool *text, bool *lines, char *note, size_t size);

#endif
