/**
 * Caches the tokens of texts in a folder of the user. The first process that needs a text's tokens writes them to a
 * file, which later processes read.
 *
 * A file's name is a hash of the file's bytes, the tokenizer, the form of its records, and everything else that selects
 * and renders the text: names of members, chat template, its variables, what the loss counts. Therefore different
 * tokens never share a name. The name of an unfinished file contains its creator (host, thread, time). If several
 * processes create the same tokens, the first one to finish gives its file the final name. A lock only avoids double
 * work. On a network folder, the lock may work only within one host. Format, little-endian:
 *
 *   byte 0    "zrtokens"
 *   byte 8    u32 version of this format, u32 bytes of a token: 1, 2 or 4
 *   byte 16   u64 key: the hash in the file's name
 *   byte 24   u64 number of tokens, u64 bytes of the text
 *   byte 40   u64 number of skipped bad lines, u64 line number of the first one
 *   byte 56   u64 XXH3-64 of the tokens and the index
 *   byte 64   u64 number of documents, 0 for a plain text
 *   byte 72   u64 XXH3-64 of bytes 0 to 71
 *   byte 80   tokens; in instruction data, bit 31 of a token says that the loss ignores it as a target
 *   then      index: for each document u64 number of its first token, u64 number of its first token that counts
 *
 * A file whose bytes do not match its hashes is damaged. It is created again.
 */
#ifndef ZR_DATA_CACHE_H
#define ZR_DATA_CACHE_H

#include "base/file/file.h"
#include "data/text/record.h"
#include "zr/data.h"

#include <limits.h>

#define ZR__CACHE_HEADER_BYTES 80
#define ZR__CACHE_DOCUMENT_BYTES 16 /* bytes of an entry of the index */

typedef struct zr__cached {
    int token_bytes;
    int64_t tokens, documents, text_bytes, skipped_lines, first_skipped;
    zr__lines_kind kind;
    char said[ZR__SAID_BYTES]; /* members of the records, for messages */
    uint64_t hash;             /* XXH3-64 of the tokens and the index */
    bool checked; /* whether the tokens are known to match the hash, because they were just created or read */
    bool damaged; /* whether a damaged file of the same name was replaced */
} zr__cached;

/** What a text consists of. */
typedef enum zr__text_form {
    ZR__TEXT_PLAIN, /* one document */
    ZR__TEXT_JSONL, /* records; each record is a document */
    /* a sentence on each line. In the index of documents each line is a document, without tokens at its ends */
    ZR__TEXT_SENTENCES,
} zr__text_form;

/** Find the file of a text's tokens. Create it if it is missing or damaged. Unless args->cache_is_whole, read the
 * file's tokens to check them. If another process or thread is creating the file, wait for it. If that process fails,
 * create the file here. `shape` says how the records of ZR__TEXT_JSONL follow each other. Errors: as zr_data_open_with.
 */
ZR_NODISCARD zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text,
                                        zr__shape shape, zr__text_form form, char path[PATH_MAX], zr__cached *made);

#endif
