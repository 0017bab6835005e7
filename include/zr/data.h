/**
 * data: texts, token files and tokenizers. The tokens of a source (one file or several) are divided into windows of T
 * tokens and the following token. Window and source of a global sample depend only on (order, seed, weights, sample
 * index), so runs with any number of ranks or micro-batches, and resumed runs, see the same samples.
 *
 * Files are read with pread into a buffer allocated at open, never mapped. After open nothing is allocated, except once
 * by zr_data_read_ahead. An object serves one thread at a time.
 */
#ifndef ZR_DATA_H
#define ZR_DATA_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizers ------------------------------------------------------------------------------ */

typedef struct zr_tokenizer zr_tokenizer;

/** Token that GPT-2 puts between documents. */
#define ZR_END_OF_TEXT "<|endoftext|>"

/** Open the tokenizer `name`. The name is "bytes" (a token is a byte value; vocabulary 256), or the path of a
 * tokenizer.json or of a directory with the files of a byte-level BPE tokenizer like GPT-2's (tokenizer.json, else
 * vocab.json and merges.txt). An open tokenizer is constant: any number of threads may use it at once.
 *
 *  Text need not be UTF-8: a byte that belongs to no character is split from its neighbours. The bytes of a text's
 * tokens are always exactly the text. Added tokens (<|endoftext|>) are recognised in the text and never inserted: a
 *  post_processor, truncation and padding are ignored.
 *
 *  Errors: ZR_ERR_NOT_FOUND if a file is missing; ZR_ERR_DATA if a file is damaged (the message names file and fault)
 * or the tokenizer is of an unsupported kind, which the message names: another model, a normalizer, or pre-tokenizers
 * other than any number of Split followed by ByteLevel. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer);
ZR_API void zr_tokenizer_close(zr_tokenizer **tokenizer);

ZR_API const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
ZR_API int64_t zr_tokenizer_vocab(const zr_tokenizer *tokenizer);
/** Return an XXH3-64 hash of everything that determines a text's token ids. Two tokenizers with the same hash give any
 * text the same tokens. */
ZR_API uint64_t zr_tokenizer_hash(const zr_tokenizer *tokenizer);

/** Encode text[0, bytes) into `tokens`, which has space for `room` tokens; *n receives their number. Fail with
 * ZR_ERR_ARG if `room` is too small (`bytes` is always enough). Takes at most O(bytes log bytes) time, not counting
 * regular expressions of the tokenizer's own; fail with ZR_ERR_DATA if these exceed their limits. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes,
                                                  int32_t *tokens, int64_t room, int64_t *n);

/** Return the single token whose text is all of `text` (such as ZR_END_OF_TEXT, up to 64 bytes), or -1 if `text` is
 * several tokens or unknown. */
ZR_API int32_t zr_tokenizer_token(const zr_tokenizer *tokenizer, const char *text);

/** Store the text of one token in *text (borrowed, not terminated) and its length in *bytes. Fail with ZR_ERR_ARG if
 * the token is outside the vocabulary. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text,
                                                  int64_t *bytes);

/* ---- text and tokens ------------------------------------------------------------------------- */

typedef struct zr_data zr_data;

/** Orders of samples. A source has W = floor((tokens-1)/T) whole windows; window i is tokens [iT, iT+T].
 *
 *  SEQUENTIAL: sample g is window g mod W.
 *  SHUFFLED:   an epoch has W' = max(1, floor((tokens-T)/T)) windows [o+iT, o+iT+T], with
 *              o = f(seed, epoch) mod min(T, tokens-T), so that every o fits; sample g belongs to epoch
 *              floor(g/W'), and a bijection keyed by (seed, epoch) maps g to its window.
 *
 *  Several sources: samples come in blocks of ZR_DATA_MIX. In each block, c_s samples are from source s, in proportion
 * to its weight; the rest after rounding down goes to the largest remainders. A bijection keyed by (seed, block) maps
 * sample i of block b to position p. Positions [c_0 + ... + c_(s-1), c_0 + ... + c_s) belong to source s; the j-th of
 * them is the source's own sample b c_s + j, which its order (above) maps to a window. So every sample costs the same,
 * and no sample depends on earlier ones. */
typedef enum zr_data_order { ZR_SEQUENTIAL, ZR_SHUFFLED } zr_data_order;
#define ZR_DATA_MIX 4096

/** Description of open data. */
typedef struct zr_data_info {
    const char *path;       /* path as given; owned by the data object */
    const char *format;     /* format of the first file: "text", "jsonl", "uint16" (headerless), "llm.c uint16",
                               "llm.c uint32", "Megatron uint16" or "Megatron int32" */
    const char *note;       /* one line for the user if a file may not be text or bad lines were skipped, else "" */
    const char *made_again; /* one line for the user if cached tokens were damaged, else "" */
    int64_t files, sources;
    int64_t bytes; /* total bytes of the files, or of their cache files if texts are tokenized */
    int64_t tokens;
    int64_t windows;        /* W, summed over all sources */
    int64_t epoch_samples;  /* with one source: number of samples before the order repeats, which is W, or W' if
                               shuffled; with several: number of samples until each source has been seen completely */
    int64_t skipped_lines;  /* number of bad lines of .jsonl files that were skipped */
    double bytes_per_token; /* mean text bytes of a token; 0 if unknown (a token file without a tokenizer) */
} zr_data_info;

/** Options of zr_data_open_with. Zero means the default, except for path and sizes. */
typedef struct zr_data_args {
    /** Data files. Either the path of a file (symbolic links are followed), or a pattern such as "train_*.bin" for the
     * matching files sorted by name, or a JSON list of paths and patterns, ["a.txt", "b_*.txt"], read as one text; or
     * several sources with weights, [{"path": PATH or list, "weight": 0.7}, ...]. All files of a source must be of one
     * kind. */
    const char *path;
    const char *tokenizer; /* tokenizer of texts; NULL for "bytes" */
    int64_t vocab_size;    /* size of the vocabulary; token ids must be below it */
    int64_t seq_length;    /* T, the tokens of a window, at least 1; each source must have at least T+1 tokens */
    zr_data_order order;
    uint64_t seed;           /* seed of the order; source s > 0 uses a seed derived from it and s */
    const char *text_key;    /* key of the text in a line of .jsonl; NULL for "text" */
    bool skip_bad_lines;     /* whether bad lines of .jsonl are skipped; otherwise they are errors */
    const char *cache_dir;   /* directory for the tokens of texts; NULL for zr/tokens in the user's cache */
    bool cache_is_whole;     /* whether to skip checking cached tokens for damage, because the same data have just been
                                opened on this host */
    zr_progress_fn progress; /* called with the progress in bytes of text, first while a text is hashed, then while
                                it is tokenized (by this process or another) or its tokens are read; may be NULL */
    void *arg;
} zr_data_args;

/**
 * Open data for training or evaluation. Every file is checked, and only a few files stay open.
 *
 * Formats: llm.c's (256 int32: magic 20240520 version 1, uint16; or magic 20240801 version 7, uint32), recognised by
 * the magic number; Megatron-LM's uint16 or int32, X.bin with X.idx beside it; nanoGPT's headerless uint16, recognised
 * by a name ending in ".bin"; ".jsonl", whose lines are objects with a text; any other file is text.
 *
 * Text is read directly with the tokenizer "bytes". Otherwise text and .jsonl are tokenized once into a cache file
 * named after contents, tokenizer and keys; other processes of this host that need the same file wait for it. Cached
 * tokens are read completely once, and created again if their hash is not the recorded one.
 *
 * Memory: a text of any length passes through up to eight threads, each with some MiB. A line of .jsonl (up to 16 MiB)
 * takes about 30 times its length in memory if its text is one word that cannot be cut, and up to 75 times if the line
 * consists of members other than the text; only one such line is processed at a time.
 *
 * Each text of a .jsonl file is followed by the tokenizer's ZR_END_OF_TEXT if that is one token, else by a newline. A
 * text has the tokens that it would have if it were encoded as a whole, with one exception: 1 MiB of text without a
 * position at which it can be cut is cut between two characters. If the tokenizer allows cuts in no text, a plain text
 * of up to 4 MiB is tokenized whole, and a longer one is refused.
 *
 * Errors: ZR_ERR_NOT_FOUND if a file is missing, unreadable or not regular, or a pattern matches nothing; ZR_ERR_DATA
 * if the size, header, index or a line of .jsonl is wrong (the message has file, offset or line, value found, value
 * wanted); ZR_ERR_CONFIG if a text's tokenizer has more tokens than vocab_size, or a list or weights are invalid;
 * ZR_ERR_UNSUPPORTED if the tokenizer is unknown, or the text too long for it; ZR_ERR_CREATE or ZR_ERR_IO if the cache
 * cannot be written; ZR_ERR_ARG for sizes.
 */
ZR_API ZR_NODISCARD zr_status zr_data_open_with(const zr_data_args *args, zr_data **data);
/** Open data with defaults for all other options. */
ZR_API ZR_NODISCARD zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size,
                                           int64_t seq_length, zr_data_order order, uint64_t seed, zr_data **data);
ZR_API void zr_data_close(zr_data **data);

ZR_API zr_data_info zr_data_get_info(const zr_data *data);

/** Return the number of tokens in all sources. */
ZR_API int64_t zr_data_tokens(const zr_data *data);
/** Return W, the number of non-overlapping windows from the start of each source, used for evaluation. */
ZR_API int64_t zr_data_windows(const zr_data *data);

/** Read sample g into tokens (T) and targets (T), where each target is the token that follows. Errors: ZR_ERR_DATA for
 * a token outside the vocabulary (with file and position); ZR_ERR_IO if the file has changed since it was opened or
 * cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/** Prefetch samples first to first+n-1, which the caller will read next, on a thread of the data object; zr_data_sample
 * waits for this thread if necessary. n must be the same in each call. At most the windows that fit into
 * ZR_DATA_AHEAD_BYTES are prefetched. zr_data_sample reports errors. The first call allocates the memory and starts the
 * thread (ZR_ERR_MEMORY); after that call zr_data_window must not be called. */
#define ZR_DATA_AHEAD_BYTES ((int64_t)4 << 20)
ZR_API ZR_NODISCARD zr_status zr_data_read_ahead(zr_data *data, int64_t first, int64_t n);

/** Return the memory in bytes needed to prefetch n samples of seq_length tokens, or 0 if not even one sample fits. */
ZR_API int64_t zr_data_ahead_bytes(int64_t seq_length, int64_t n);

/** Read tokens first to first+n-1, where the tokens of all sources are numbered one source after the other; n is at
 * most T+1. Errors: the errors of zr_data_sample, and ZR_ERR_ARG if the range exceeds the tokens. Must not be called
 * after zr_data_read_ahead. */
ZR_API ZR_NODISCARD zr_status zr_data_read(zr_data *data, int64_t first, int64_t n, int32_t *tokens);

/** Read window w, 0 <= w < zr_data_windows, whatever the order of the samples. */
ZR_API ZR_NODISCARD zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);

#ifdef __cplusplus
}
#endif
#endif
