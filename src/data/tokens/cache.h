/**
 * Tokens of texts in a folder of the user's cache. Each text is tokenized once, by the first process that needs it, and
 * later processes read the file.
 *
 * A file's name is a hash of the text's bytes, of the tokenizer and of the keys that select the text, so different
 * tokens never share a name. An unfinished file has a name of its own (host, thread, time), so several creators do no
 * harm: the first one to finish gives its file the final name. A lock saves double work; on a network folder it may
 * work only within one host. Format, little-endian:
 *
 *   byte 0    "zrtokens"
 *   byte 8    u32 version of this format, u32 bytes of a token: 1, 2 or 4
 *   byte 16   u64 the key, from which the name is made
 *   byte 24   u64 tokens, u64 bytes of text that they encode
 *   byte 40   u64 bad lines that were skipped, u64 the first such line
 *   byte 56   u64 XXH3-64 of the tokens
 *   byte 64   u64 XXH3-64 of bytes 0 to 63
 *   byte 72   tokens
 *
 * A file whose bytes do not match its hashes is damaged, and is created again.
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
    bool checked;  /* whether the tokens were just created, or were read and match the hash */
    bool damaged;  /* whether a damaged file of the same name was replaced */
} zr__cached;

/** Find the file of a text's tokens, or create it if it is missing or damaged. Unless args->cache_is_whole, read the
 * file's tokens to check them. If another process or thread is creating the file, wait for it, and create the file here
 * if the other one fails. `lines` is whether the text is .jsonl. Errors: those of zr_data_open_with. */
ZR_NODISCARD zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text,
                                        bool lines, char path[PATH_MAX], zr__cached *made);

#endif
