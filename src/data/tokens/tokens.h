/**
 * A list of token files read as one long sequence of tokens. Only the most recently used files are kept open.
 */
#ifndef ZR_DATA_TOKENS_H
#define ZR_DATA_TOKENS_H

#include "data/tokens/part.h"
#include "data/tokens/shard.h"

/* Maximum number of open files per object. Each rank has two such objects, and a process may have many ranks. */
#define ZR__OPEN_SHARDS 4

typedef struct zr__open_shard {
    int64_t shard;
    uint64_t used; /* value of `clock` at the last use */
} zr__open_shard;

/** A range of the files' tokens, if only parts are read. `first` and `first_document` count all tokens and documents of
 * the files, `token` and `document` only the tokens and documents that are read. */
typedef struct zr__token_range {
    int64_t token, document, first, first_document;
} zr__token_range;

typedef struct zr__tokens {
    zr__shard *shard;
    int64_t n, room;
    int64_t total;              /* number of tokens that are read */
    int64_t bytes;              /* bytes of all files */
    int64_t documents;          /* number of documents, in all indexes, that are read */
    int64_t all, all_documents; /* numbers of tokens and documents in all files */
    zr__token_range *range;     /* ranges that are read, in order; NULL for everything */
    int64_t ranges, range_room;
    int64_t vocab_size;
    zr__open_shard open[ZR__OPEN_SHARDS];
    int n_open;
    uint64_t clock;
} zr__tokens;

/** Create a list with capacity for `shards` files. Call zr__tokens_free even after a failure. */
ZR_NODISCARD zr_status zr__tokens_create(int64_t shards, int64_t vocab_size, zr__tokens **tokens);
void zr__tokens_free(zr__tokens **tokens);

/** Open a file and append it. Errors: as zr_data_open_with. */
ZR_NODISCARD zr_status zr__tokens_add(zr__tokens *tokens, zr__opening *opening, const char *path);

/** Read only a part of the files from number `shard` on: whole records of files of records, else a part of the tokens.
 * If any files are divided, all must be. Errors: ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokens_divide(zr__tokens *tokens, int64_t shard, const zr_data_part *part);

/** Place of a document: its first token, its first token that counts for the loss, and its number of tokens. */
typedef struct zr__document_place {
    int64_t first, answer, n;
} zr__document_place;
/** Find document number `document` of all files. Only documents of files with an index are numbered. Error: ZR_ERR_IO.
 */
ZR_NODISCARD zr_status zr__tokens_document(zr__tokens *tokens, int64_t document, zr__document_place *place);

/** Read the numbers of tokens of n documents of file number `shard`, from the file's document `first` on. Error:
 * ZR_ERR_IO. */
enum { ZR__TOKENS_SIZES = 255 }; /* maximum of n */
ZR_NODISCARD zr_status zr__tokens_sizes(zr__tokens *tokens, int64_t shard, int64_t first, int64_t n, int64_t *size);

/** Find the document to which a token belongs. *begin and *end receive the first token of the document, and the token
 * after its last one. A file without an index is one document. Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokens_find_document(zr__tokens *tokens, int64_t token, int64_t *begin, int64_t *end);

/** Read n tokens, beginning with token `first`, into `out`. There ZR__IGNORED marks tokens that do not count for the
 * loss. `stage` is a buffer for n tokens of 4 bytes. Errors, both naming the file: ZR_ERR_DATA if a token is not below
 * vocab_size; ZR_ERR_IO if a file has changed or can no longer be read. */
ZR_NODISCARD zr_status zr__tokens_read(zr__tokens *tokens, int64_t first, int64_t n, unsigned char *stage,
                                       int32_t *out);

/** Check all tokens, as zr__data_check describes. */
ZR_NODISCARD zr_status zr__tokens_check(zr__tokens *tokens, uint64_t *hash, zr_progress_fn fn, void *arg);

#endif
