/**
 * data: token files and tokenizers. A file of tokens is cut into windows of T tokens and the token
 * after; which window a global sample is follows from (order, seed, sample index) alone, so any number
 * of ranks, micro-batches or a resumed run see the same samples.
 *
 * Files are read with pread into a buffer made at open, never mapped; nothing is allocated after
 * open. An object serves one thread at a time.
 */
#ifndef ZR_DATA_H
#define ZR_DATA_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizers ------------------------------------------------------------------------------ */

typedef struct zr_tokenizer zr_tokenizer;

/** The tokenizer called `name`: "bytes" (a token is a byte value, vocabulary 256), or else a path: of a directory with
 *  the files of a byte-level BPE tokenizer as GPT-2's (tokenizer.json, else vocab.json and merges.txt), or of a
 *  tokenizer.json. Constant once it is open: any number of threads may use it at the same time.
 *
 *  Text need not be UTF-8: a byte that belongs to no character is cut off from what stands beside it, and the bytes of
 * a text's tokens are always the text's. Added tokens (<|endoftext|>) are found in the text; none is put in: a
 *  post_processor, truncation and padding say nothing of how text is cut.
 *
 *  ZR_ERR_NOT_FOUND no such file; ZR_ERR_DATA a damaged one (message: file and what); ZR_ERR_UNSUPPORTED what is not of
 *  this kind, by name: another model, a normalizer, another pre-tokenizer than ByteLevel behind any number of Split. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer);
/** Has this directory the files of a tokenizer? Whether they are of a kind that is read says zr_tokenizer_open. */
ZR_API bool zr_tokenizer_is_in(const char *dir);
ZR_API void zr_tokenizer_close(zr_tokenizer **tokenizer);

ZR_API const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
ZR_API int64_t zr_tokenizer_vocab(const zr_tokenizer *tokenizer);
/** XXH3-64 of all that decides which ids a text has. Two tokenizers of the same hash give any text the same tokens. */
ZR_API uint64_t zr_tokenizer_hash(const zr_tokenizer *tokenizer);

/** Tokens of text[0, bytes) into `tokens` (room); *n is how many. ZR_ERR_ARG when `room` is too
 *  small: `bytes` tokens are always enough. Time grows with the text as n log n at most, whatever the text, but for
 * what the tokenizer's own regular expressions ask for: ZR_ERR_DATA where that is beyond bounds. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes,
                                                  int32_t *tokens, int64_t room, int64_t *n);

/** The token that the whole of `text` is ("<|endoftext|>"), of up to 64 bytes; -1: it is several, or none. */
ZR_API int32_t zr_tokenizer_token(const zr_tokenizer *tokenizer, const char *text);

/** The last place p, from <= p < bytes, at which a text that begins so surely may be cut: the tokens of both parts are
 *  those of the whole, whatever comes behind `bytes`. 0: there is none, or none can be known for this tokenizer (its
 *  regular expressions are not GPT-2's): only a whole text has its tokens then. */
ZR_API int64_t zr_tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes);

/** The text of one token: *text (borrowed, not terminated), *bytes. ZR_ERR_ARG outside the vocabulary. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text,
                                                  int64_t *bytes);

/* ---- token files ----------------------------------------------------------------------------- */

typedef struct zr_data zr_data;

/** W = floor((tokens-1)/T) whole windows lie in a file; window i is tokens [iT, iT+T].
 *
 *  SEQUENTIAL: sample g is window g mod W.
 *  SHUFFLED:   an epoch has W' = max(1, floor((tokens-T)/T)) windows [o+iT, o+iT+T], with
 *              o = f(seed, epoch) mod min(T, tokens-T), so that every o fits; sample g belongs to epoch
 *              floor(g/W'), and a bijection keyed by (seed, epoch) says which window it is. */
typedef enum zr_data_order { ZR_SEQUENTIAL, ZR_SHUFFLED } zr_data_order;

/** What was opened. */
typedef struct zr_data_info {
    const char *path;   /* borrowed from the data */
    const char *format; /* "text", "uint16" (headerless), "llm.c uint16", "llm.c uint32" */
    const char *note;   /* of a text that may be none, a line for the user; "" */
    int64_t bytes;      /* of the file */
    int64_t tokens;
    int64_t windows;        /* W */
    int64_t epoch_samples;  /* samples before an order repeats: W, shuffled W' */
    double bytes_per_token; /* of text; 0 when unknown (a token file without a tokenizer) */
} zr_data_info;

/**
 * Open a file for training or evaluation.
 *
 * Formats: llm.c's (256 int32: magic 20240520 version 1, uint16; or magic 20240801 version 7, uint32),
 * known by the magic number; nanoGPT's headerless uint16, known by the name ending in ".bin"; anything
 * else is text, read through the tokenizer.
 *
 * @param path       a regular file; symbolic links are followed.
 * @param tokenizer  "bytes", or NULL: bytes for text, none for token files.
 * @param vocab_size token ids must lie below: zr_data_check looks at all of them, and every token is looked at
 *                   when it is read.
 * @param seq_length T >= 1; the file needs T+1 tokens.
 *
 * Errors: ZR_ERR_NOT_FOUND missing, unreadable, not a regular file; ZR_ERR_DATA size or
 * header are wrong (message: file, offset, found, wanted); ZR_ERR_CONFIG text whose tokenizer has
 * more tokens than vocab_size; ZR_ERR_UNSUPPORTED tokenizer unknown; ZR_ERR_ARG sizes.
 */
ZR_API ZR_NODISCARD zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size,
                                           int64_t seq_length, zr_data_order order, uint64_t seed, zr_data **data);
ZR_API void zr_data_close(zr_data **data);

/** Read the whole file once, in parts: every token must lie below vocab_size, or ZR_ERR_DATA naming file, position and
 *  token. *hash (may be NULL): XXH3-64 of the file's bytes. fn (may be NULL) is told how far it is. Nothing is read
 * where no hash is wanted and every value of a token's type is one. ZR_ERR_IO as zr_data_sample. */
ZR_API ZR_NODISCARD zr_status zr_data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg);

ZR_API zr_data_info zr_data_get_info(const zr_data *data);
#define ZR_LLMC_HEADER_BYTES 1024
/** The header of an llm.c file of so many tokens, each of token_bytes, 2 or 4. ZR_ERR_DATA: it cannot count them. */
ZR_API ZR_NODISCARD zr_status zr_llmc_header(int token_bytes, int64_t tokens,
                                             unsigned char header[ZR_LLMC_HEADER_BYTES]);

/** All tokens of the file. */
ZR_API int64_t zr_data_tokens(const zr_data *data);
/** W: non-overlapping windows from the start, for evaluation. */
ZR_API int64_t zr_data_windows(const zr_data *data);

/** Where sample g (0, 1, 2 ... over all ranks and steps) begins, in tokens. ZR_ERR_ARG when g is
 *  negative or its epoch reaches 2^32. */
ZR_API ZR_NODISCARD zr_status zr_data_locate(const zr_data *data, int64_t sample, int64_t *first_token);

/** Sample g: tokens (T), targets (T), each target the token after.
 *  ZR_ERR_DATA a token outside the vocabulary (file, position); ZR_ERR_IO the file changed since it was
 *  opened or cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/** Window w of zr_data_windows, whatever the order. */
ZR_API ZR_NODISCARD zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);

#ifdef __cplusplus
}
#endif
#endif
