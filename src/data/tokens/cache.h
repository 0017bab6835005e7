/**
 * Tokens of texts in a folder of the user's cache: each text is tokenized once, by the first process that needs it,
 * and later processes read the file.
 *
 * A file's name is a hash of the text's bytes, of the tokenizer and of the keys that select the text, so that different
 * tokens never share a name. An unfinished file has a name of its own (host, thread, time), so that several makers do
 * no harm: the first to finish gives its file the final name. A lock saves double work; on a network folder it may work
 * within one host only. Little-endian:
 *
 *   byte 0    "zrtokens"
 *   byte 8    u32 version of this format, u32 bytes of a token: 1, 2 or 4
 *   byte 16   u64 the key, from which the name is made
 *   byte 24   u64 tokens, u64 bytes of text that they encode
 *   byte 40   u64 bad lines that were left out, u64 the first such line
 *   byte 56   u64 XXH3-64 of the tokens
 *   byte 64   u64 XXH3-64 of the bytes before
 *   byte 72   tokens
 *
 * A file whose bytes do not match its hashes is damaged, and is made again.
 */
#ifndef ZR_DATA_CACHE_H
#define ZR_DATA_CACHE_H

#include "base/file/file.h"
#include "zr/data.h"

#include <limits.h>

#define ZR__CACHE_HEADER_BYTES 72

typedef struct zr__cached {
    int token_bytes;
    int64_t tokens, text_bytes, skipped_lines, first_skipped;
    uint64_t hash; /* XXH3-64 of the tokens */
    bool checked;  /* the tokens were made just now, or were read and match the hash */
    bool damaged;  /* a damaged file of the same name was replaced */
} zr__cached;

/** Find the file of a text's tokens, or make it if it is missing or damaged. Its tokens are read to check them,
 * unless args->cache_is_whole. While another process or thread makes the file, wait; if that one ends without it, make
 * it here. `lines`: .jsonl. Errors: zr_data_open_with. */
ZR_NODISCARD zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text,
                                        bool lines, char path[PATH_MAX], zr__cached *made);

#endif
