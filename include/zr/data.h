/**
 * data: texts, token files and tokenizers. The tokens of a source, one file or several, are cut into windows of T
 * tokens and the token after. The window and source of a global sample depend on (order, seed, weights, sample index)
 * alone, so any number of ranks, micro-batches or a resumed run see the same samples.
 *
 * Files are read with pread into a buffer made at open, never mapped; nothing is allocated after open but by
 * zr_data_read_ahead, once. An object serves one thread at a time.
 */
#ifndef ZR_DATA_H
#define ZR_DATA_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizers ------------------------------------------------------------------------------ */

typedef struct zr_tokenizer zr_tokenizer;

/** GPT-2's token between documents. */
#define ZR_END_OF_TEXT "<|endoftext|>"

/** Open the tokenizer called `name`: "bytes" (a token is a byte value, vocabulary 256), or else a path: of a directory
 *  with the files of a byte-level BPE tokenizer as GPT-2's (tokenizer.json, else vocab.json and merges.txt), or of a
 *  tokenizer.json. It is constant once open: any number of threads may use it at the same time.
 *
 *  Text need not be UTF-8: a byte that belongs to no character is split from its neighbours, and the bytes of a text's
 *  tokens are always the text's. Added tokens (<|endoftext|>) are recognised in the text and never inserted: a
 *  post_processor, truncation and padding are ignored.
 *
 *  ZR_ERR_NOT_FOUND a file is missing; ZR_ERR_DATA a file is damaged (message: file and fault), or the tokenizer is of
 *  an unsupported kind, which is named: another model, a normalizer, another pre-tokenizer than ByteLevel after any
 *  number of Split. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer);
ZR_API void zr_tokenizer_close(zr_tokenizer **tokenizer);

ZR_API const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
ZR_API int64_t zr_tokenizer_vocab(const zr_tokenizer *tokenizer);
/** Hash everything that decides a text's ids (XXH3-64). Two tokenizers of the same hash give any text the same tokens.
 */
ZR_API uint64_t zr_tokenizer_hash(const zr_tokenizer *tokenizer);

/** Encode text[0, bytes) into `tokens` (room); *n is the number of tokens. ZR_ERR_ARG when `room` is too small: `bytes`
 *  tokens are always enough. Takes at most O(n log n) time for any text, except in the tokenizer's own regular
 *  expressions: ZR_ERR_DATA where they exceed their limits. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes,
                                                  int32_t *tokens, int64_t room, int64_t *n);

/** Return the one token that the whole of `text` is (ZR_END_OF_TEXT), of up to 64 bytes; -1: it is several tokens, or
 *  unknown. */
ZR_API int32_t zr_tokenizer_token(const zr_tokenizer *tokenizer, const char *text);

/** Return the text of one token: *text (borrowed, not terminated), *bytes. ZR_ERR_ARG outside the vocabulary. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text,
                                                  int64_t *bytes);

/* ---- learning a tokenizer -------------------------------------------------------------------- */

/* ---- texts, once ----------------------------------------------------------------------------- */

/* ---- text and tokens ------------------------------------------------------------------------- */

typedef struct zr_data zr_data;

/** W = floor((tokens-1)/T) whole windows lie in a source; window i is tokens [iT, iT+T].
 *
 *  SEQUENTIAL: sample g is window g mod W.
 *  SHUFFLED:   an epoch has W' = max(1, floor((tokens-T)/T)) windows [o+iT, o+iT+T], with
 *              o = f(seed, epoch) mod min(T, tokens-T), so that every o fits; sample g belongs to epoch
 *              floor(g/W'), and a bijection keyed by (seed, epoch) says which window it is.
 *
 *  Several sources: samples come in blocks of ZR_DATA_MIX. In each, source s has c_s of them, its weight's share, what
 *  is left over going to the largest remainders. A bijection keyed by (seed, block) puts sample i of block b at
 *  place p; places [c_0 + ... + c_(s-1), ... + c_s) are those of source s, and the j-th of them is its own sample
 *  b c_s + j, which its own order, as above, makes a window. So each sample costs the same, and none needs those before
 *  it. */
typedef enum zr_data_order { ZR_SEQUENTIAL, ZR_SHUFFLED } zr_data_order;
#define ZR_DATA_MIX 4096

/** Description of opened data. */
typedef struct zr_data_info {
    const char *path;       /* path as given; borrowed from the data */
    const char *format;     /* format of the first file: "text", "jsonl", "uint16" (headerless), "llm.c uint16", "llm.c
                               uint32", "Megatron uint16", "Megatron int32" */
    const char *note;       /* a line for the user about a file that may not be text, or bad lines left out; "" */
    const char *made_again; /* a line for the user about damaged tokens in the cache; "" */
    int64_t files, sources;
    int64_t bytes; /* bytes of all files; of the cache's where texts are tokenized */
    int64_t tokens;
    int64_t windows;        /* W, of all sources */
    int64_t epoch_samples;  /* with one source, samples before an order repeats: W, shuffled W'; with several, samples
                               before each has been seen whole */
    int64_t skipped_lines;  /* bad lines of .jsonl files, left out */
    double bytes_per_token; /* mean bytes of text; 0 when unknown (a token file without a tokenizer) */
} zr_data_info;

/** Options of zr_data_open_with. Zeros are the defaults, except for path and sizes. */
typedef struct zr_data_args {
    /** A file, symbolic links followed; a pattern such as "train_*.bin", for the matching files in order of their
     *  names; or a list of these as JSON, ["a.txt", "b_*.txt"], read as one text. Or sources, [{"path": PATH or list,
     *  "weight": 0.7}, ...]. A source's files are all of one kind. */
    const char *path;
    const char *tokenizer; /* tokenizer of texts; NULL: "bytes" */
    int64_t vocab_size;    /* token ids must lie below */
    int64_t seq_length;    /* T >= 1; each source needs T+1 tokens */
    zr_data_order order;
    uint64_t seed;         /* seed of the order; source s > 0 has its own seed, derived from it and s */
    const char *text_key;  /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;   /* else they are errors */
    const char *cache_dir; /* directory of the tokens of texts; NULL: zr/tokens in the user's cache */
    bool cache_is_whole;   /* the same data have just been opened on this host: tokens in the cache are not checked for
                              damage */
    zr_progress_fn progress; /* progress in bytes of text: while a text is hashed, then while it is tokenized, by this
                                process or another, or its tokens are read; NULL */
    void *arg;
} zr_data_args;

/**
 * Open data for training or evaluation. Each file is checked; few stay open.
 *
 * Formats: llm.c's (256 int32: magic 20240520 version 1, uint16; or magic 20240801 version 7, uint32), known by the
 * magic number; Megatron-LM's uint16 or int32, X.bin with X.idx beside it; nanoGPT's headerless uint16, known by the
 * name ending in ".bin"; ".jsonl", lines that are objects with a text; any other file is text.
 *
 * Text with the tokenizer "bytes" is read directly. Other text and .jsonl is tokenized once, into a file of the cache
 * named by contents, tokenizer and keys; other processes of this host that need the same file wait for it. Tokens
 * found in the cache are read once, whole, and made again where their hash is not the recorded one. A text of any
 * length passes through up to eight threads, each with some MiB; a line of .jsonl, of up to 16 MiB, takes about 30
 * times its length where it is one word that cannot be cut, and up to 75 where it consists of other members; one such
 * line at a time. Each text of a .jsonl file is followed by the tokenizer's ZR_END_OF_TEXT, where that is one token,
 * else by a newline. The tokens of a text are those of the whole text, with one exception: where there is no place to
 * cut it in 1 MiB, it is cut before a character. Where the tokenizer can be cut in no text,
 * a plain text of up to 4 MiB is tokenized whole, and a longer one refused.
 *
 * Errors: ZR_ERR_NOT_FOUND missing, unreadable, not a regular file, a pattern without a match; ZR_ERR_DATA size,
 * header, index or a line of .jsonl are wrong (message: file, offset or line, found, wanted); ZR_ERR_CONFIG text whose
 * tokenizer has more tokens than vocab_size, an invalid list or weights; ZR_ERR_UNSUPPORTED tokenizer unknown, or its
 * text too long; ZR_ERR_CREATE, ZR_ERR_IO the cache cannot be written; ZR_ERR_ARG sizes.
 */
ZR_API ZR_NODISCARD zr_status zr_data_open_with(const zr_data_args *args, zr_data **data);
/** Open data with defaults for the other options. */
ZR_API ZR_NODISCARD zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size,
                                           int64_t seq_length, zr_data_order order, uint64_t seed, zr_data **data);
ZR_API void zr_data_close(zr_data **data);

ZR_API zr_data_info zr_data_get_info(const zr_data *data);

/** Return the number of all tokens, of all sources. */
ZR_API int64_t zr_data_tokens(const zr_data *data);
/** Return W: the non-overlapping windows from the start of each source, for evaluation. */
ZR_API int64_t zr_data_windows(const zr_data *data);

/** Read sample g: tokens (T), targets (T), each target the token after. ZR_ERR_DATA a token outside the vocabulary
 *  (file, position); ZR_ERR_IO the file changed since it was opened or cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/** Prefetch samples first .. first+n-1, which will be asked for next, on a thread of the object's own; zr_data_sample
 *  waits for it if need be. n must be the same each time; the windows that fit into ZR_DATA_AHEAD_BYTES are prefetched.
 *  Errors are reported by zr_data_sample. The first call allocates the memory and starts the thread (ZR_ERR_MEMORY);
 *  from then on zr_data_window may not be called. */
#define ZR_DATA_AHEAD_BYTES ((int64_t)4 << 20)
ZR_API ZR_NODISCARD zr_status zr_data_read_ahead(zr_data *data, int64_t first, int64_t n);

/** Return the bytes of memory of a prefetch of n samples of seq_length tokens; 0: not even one sample fits. */
ZR_API int64_t zr_data_ahead_bytes(int64_t seq_length, int64_t n);

/** Read tokens first .. first+n-1 of all sources, one after the other; n is at most T+1. Errors as zr_data_sample;
 *  ZR_ERR_ARG: the range exceeds the tokens. Not after zr_data_read_ahead, as zr_data_window. */
ZR_API ZR_NODISCARD zr_status zr_data_read(zr_data *data, int64_t first, int64_t n, int32_t *tokens);

/** Read window w of zr_data_windows, whatever the order. */
ZR_API ZR_NODISCARD zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);

#ifdef __cplusplus
}
#endif
#endif
