/**
 * A list of token files read as one long sequence of tokens. Only the most recently used files are open.
 */
#ifndef ZR_DATA_TOKENS_H
#define ZR_DATA_TOKENS_H

#include "data/tokens/shard.h"

/* Most open files of one object. Each rank has two such objects, and a process may have many ranks. */
#define ZR__OPEN_SHARDS 4

typedef struct zr__open_shard {
    int64_t shard;
    uint64_t used; /* time of the last use, by `clock` */
} zr__open_shard;

typedef struct zr__tokens {
    zr__shard *shard;
    int64_t n, room;
    int64_t total; /* tokens */
    int64_t bytes; /* of all files */
    int64_t vocab_size;
    zr__open_shard open[ZR__OPEN_SHARDS];
    int n_open;
    uint64_t clock;
} zr__tokens;

/** Create a list with room for `shards` files. Free it in either case. */
ZR_NODISCARD zr_status zr__tokens_create(int64_t shards, int64_t vocab_size, zr__tokens **tokens);
void zr__tokens_free(zr__tokens **tokens);

/** Open a file and append it. Errors: zr_data_open_with. */
ZR_NODISCARD zr_status zr__tokens_add(zr__tokens *tokens, zr__opening *opening, const char *path);

/** Read tokens first .. first+n to `out`; `stage`: room for n of 4 bytes. ZR_ERR_DATA: a token is not below
 * vocab_size; ZR_ERR_IO: a file has changed or cannot be read any more. Both name the file. */
ZR_NODISCARD zr_status zr__tokens_read(zr__tokens *tokens, int64_t first, int64_t n, unsigned char *stage,
                                       int32_t *out);

/** Check all tokens as zr__data_check does. */
ZR_NODISCARD zr_status zr__tokens_check(zr__tokens *tokens, uint64_t *hash, zr_progress_fn fn, void *arg);

#endif
