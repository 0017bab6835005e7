/** Opens one file of tokens, and finds its format and the location of the tokens. */
#ifndef ZR_DATA_SHARD_H
#define ZR_DATA_SHARD_H

#include "base/file/file.h"
#include "data/text/forms.h"
#include "data/text/shape.h"
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
    char *path;                    /* path of the file to open; for a text with cached tokens, the cache file */
    zr__file file;                 /* the open file; fd is -1 while it is closed */
    char name[ZR_FILE_NAME_BYTES]; /* name in messages; for a text with cached tokens, the text's name */
    const char *format;            /* name of the format, as in zr_data_info */
    int token_bytes;               /* bytes per token: 1, 2 or 4 */
    int64_t first_byte;            /* file offset of token 0 */
    int64_t tokens;
    bool lines;                           /* whether the file has records, which are documents */
    char said[ZR__SAID_BYTES];            /* the members of its records, for messages, or "" */
    bool answers_only;                    /* whether ZR__IGNORED marks tokens that do not count for the loss */
    int64_t documents;                    /* number of documents in the file's index; 0 if it has no index */
    int64_t first_document;               /* number of documents in the indexes of all previous files */
    int64_t begin;                        /* number of tokens in all previous files */
    int64_t text_bytes;                   /* bytes of text that the tokens encode, or -1 if unknown */
    int64_t skipped_lines, first_skipped; /* number of bad lines, and line number of the first one */
    uint64_t hash;                        /* XXH3-64 of cached tokens, from their file's header */
    bool checked; /* whether the tokens are known to match `hash`, because they were read or created during opening */
} zr__shard;

/** Arguments for opening files, and the notes collected while opening. */
typedef struct zr__opening {
    const zr_data_args *args;
    zr_tokenizer *tokenizer;             /* tokenizer; NULL until a text needs it */
    bool sentences;                      /* whether files must be texts with a sentence on each line */
    char note[ZR__NOTE_BYTES];           /* the first note on a file, or "" */
    char made_again[2 * ZR__NOTE_BYTES]; /* a note on the first damaged cache file that was created again, or "" */
} zr__opening;

/** Open a file and find its format. A text is tokenized if its tokens are not cached. The file stays open. Errors: as
 * zr_data_open_with. Call zr__shard_close even after a failure. */
ZR_NODISCARD zr_status zr__shard_open(zr__opening *opening, const char *path, zr__shard *shard);
void zr__shard_close(zr__shard *shard);

/** Set *text to whether the file is a text, and *shape to how its records follow each other. With `as_text` any file is
 * a text without records. `note` receives a remark if the text is suspicious or its name suggests another format,
 * otherwise "". */
ZR_NODISCARD zr_status zr__shard_is_text(const char *path, bool as_text, bool *text, zr__shape *shape, char *note,
                                         size_t size);

#endif
