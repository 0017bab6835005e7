/**
 * Texts as files of tokens, in a folder of the user's cache: made once, by whoever is first, and read by everyone
 * after.
 *
 * A file's name is a hash of the text's bytes, of what decides the tokenizer's ids and of the keys that say what a text
 * is, so that it is never another's. Until it is whole it has a name of its maker's own (host, thread, time), so
 * that several makers do no harm: the first that is through gives the file its name. A lock spares double work where
 * locks are seen, which on a network folder may be on one host alone. Little-endian:
 *
 *   byte 0    "zrtokens"
 *   byte 8    u32 version of this format, u32 bytes of a token: 1, 2 or 4
 *   byte 16   u64 the key, of which the name is made
 *   byte 24   u64 tokens, u64 bytes of text that became them
 *   byte 40   u64 bad lines that were left out, u64 the first of them
 *   byte 56   u64 XXH3-64 of the tokens
 *   byte 64   u64 XXH3-64 of the bytes before
 *   byte 72   tokens
 *
 * A file whose hashes are not those of its bytes is damaged, and is made again.
 */
#ifndef ZR_DATA_CACHE_H
#define ZR_DATA_CACHE_H

#include "base/file.h"
#include "zr/data.h"

#include <limits.h>

#define ZR__CACHE_HEADER_BYTES 72

typedef struct zr__cached {
    int token_bytes;
    int64_t tokens, text_bytes, skipped_lines, first_skipped;
    uint64_t hash; /* XXH3-64 of the tokens */
    bool checked;  /* they were read and have this hash, or were made just now */
    bool damaged;  /* a file of this name was, in whose place this one is */
} zr__cached;

/** The file with the tokens of a text, made where it is not there or damaged. Its tokens are read to see that, unless
 *  args->cache_is_whole. Another process, or thread, that makes it is waited for; where that one ends without it, this
 *  one goes on. `lines`: .jsonl. Errors: zr_data_open_with. */
ZR_NODISCARD zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text,
                                        bool lines, char path[PATH_MAX], zr__cached *made);

#endif
