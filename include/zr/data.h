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
/** Return whether this directory has all files of a tokenizer; zr_tokenizer_open tells whether their kind is supported.
 */
ZR_API bool zr_tokenizer_is_in(const char *dir);
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

/** Return the last place p, from <= p < bytes, at which a text that begins so may safely be cut: the tokens of both
 *  parts are those of the whole, whatever follows after `bytes`. 0: there is no such place, or none can be known for
 *  this tokenizer (its regular expressions are not GPT-2's), which must then encode a text as a whole. */
ZR_API int64_t zr_tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes);

/** Return the text of one token: *text (borrowed, not terminated), *bytes. ZR_ERR_ARG outside the vocabulary. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text,
                                                  int64_t *bytes);

/** Write the text of a tokenizer.json with the tokens of "bytes", for programs that read only such files; zr_free it.
 *  ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_bytes_json(char **json);

/* ---- learning a tokenizer -------------------------------------------------------------------- */

/**
 * Trainer of a byte-level BPE tokenizer (Sennrich et al. 2016). It learns the same merges as the trainer of the
 * package tokenizers: texts are cut by GPT-2's regular expression, and the most frequent pair of neighbouring tokens
 * within pieces becomes a token; of equally frequent pairs the one whose left token, then whose right token, has the
 * lower number. Memory grows with the distinct pieces, not with the texts. Not for several threads at once.
 */
typedef struct zr_tokenizer_trainer zr_tokenizer_trainer;

/** Create a trainer. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_trainer_open(zr_tokenizer_trainer **trainer);
ZR_API void zr_tokenizer_trainer_close(zr_tokenizer_trainer **trainer);

/** Count the pieces of text[0, bytes). A text may come in parts, cut where zr_tokenizer_trainer_cut says.
 *  ZR_ERR_MEMORY; ZR_ERR_DATA: the regular expression gives up on this text, or there are 2^31 distinct pieces. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_trainer_add(zr_tokenizer_trainer *trainer, const char *text, int64_t bytes);
/** Return the last safe cut, as zr_tokenizer_cut does. */
ZR_API int64_t zr_tokenizer_trainer_cut(const zr_tokenizer_trainer *trainer, const char *text, int64_t from,
                                        int64_t bytes);

/** The fewest tokens: one for each byte, and ZR_END_OF_TEXT. */
#define ZR_TOKENIZER_LEAST_VOCAB 257

/** Learn the merges. *json is the text of a tokenizer.json, to be freed with zr_free: 256 bytes in GPT-2's order, the
 *  merges' tokens, and ZR_END_OF_TEXT as the last. *learned: number of tokens, `vocab`, or fewer where no pair is left.
 *  ZR_ERR_ARG: vocab is below ZR_TOKENIZER_LEAST_VOCAB or above 2^31 - 1. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_trainer_learn(const zr_tokenizer_trainer *trainer, int64_t vocab,
                                                         char **json, int64_t *learned);

/* ---- texts, once ----------------------------------------------------------------------------- */

/**
 * Text files read once, in their order and in parts: memory does not grow with them. A plain text is one document; a
 * ".jsonl" file has one in each line, an object with a text. Documents without text are skipped.
 */
typedef struct zr_texts zr_texts;

typedef struct zr_texts_args {
    const char *const *path; /* (n) */
    int n;
    const char *text_key;    /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;     /* else they are errors */
    zr_progress_fn progress; /* progress in bytes of all files; may be NULL */
    void *arg;
} zr_texts_args;

typedef struct zr_texts_info {
    int64_t file_bytes;            /* bytes of all files */
    int64_t documents, text_bytes; /* documents read so far, and the bytes of their texts */
    int64_t skipped_lines;         /* bad lines of .jsonl files, left out so far */
    const char *note;              /* message on bad lines left out, or on the first suspicious file; "" */
} zr_texts_info;

/** Open texts and check all files, which must not change from here on; `args` and the memory that it points to must
 *  stay valid until close. ZR_ERR_NOT_FOUND, ZR_ERR_DATA a file is missing, or no text. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_texts_open(const zr_texts_args *args, zr_texts **texts);
ZR_API void zr_texts_close(zr_texts **texts);
ZR_API zr_texts_info zr_texts_get_info(const zr_texts *texts);

/** Callback for the next n tokens, little-endian, each of zr_texts_encode's token_bytes. */
typedef zr_status (*zr_tokens_fn)(void *arg, const unsigned char *tokens, int64_t n);

/** Give `put` the tokens of all documents, each encoded by zr_tokenizer_encode as a whole, for any number of threads,
 *  and the token `between` documents (negative: none). A thread has a part of 1 MiB at a time (five bytes of memory for
 *  each byte); a part grows until it can be cut (zr_tokenizer_cut). Where a tokenizer knows no such place, a document
 *  is in memory as a whole, and one thread works on a plain text. A line may have 16 MiB; its memory is about 30 times
 *  its length where it is one word that cannot be cut, and up to 75 where it consists of other members. ZR_ERR_DATA
 *  naming file and byte or line; ZR_ERR_IO also where a file has changed; ZR_ERR_MEMORY; the status of `put`. */
ZR_API ZR_NODISCARD zr_status zr_texts_encode(zr_texts *texts, const zr_tokenizer *tokenizer, int token_bytes,
                                              int32_t between, int threads, zr_tokens_fn put, void *arg);

/** Count the pieces of all documents (zr_tokenizer_trainer_add), each cut as a text of its own. Errors as above. */
ZR_API ZR_NODISCARD zr_status zr_texts_learn(zr_texts *texts, zr_tokenizer_trainer *trainer);

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
 * cut it in 1 MiB (zr_tokenizer_cut), it is cut before a character. Where zr_tokenizer_cut knows no place in any text,
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
/** Find whether a path, as in zr_data_args, is text, without tokenizing it. note (may be NULL): a remark on a
 *  suspicious file, or "". */
ZR_API ZR_NODISCARD zr_status zr_data_look(const char *path, bool *text, char *note, size_t size);
ZR_API void zr_data_close(zr_data **data);

/** Read all files once, in parts: every token must lie below vocab_size, or ZR_ERR_DATA naming file, position and
 *  token. *hash (may be NULL): XXH3-64 of the file's bytes, for a text in the cache of its tokens' bytes; for several
 *  files one hash of all, of the source of each and of the way in which sources are mixed. fn (may be NULL) is called
 *  with the progress. A file is not read where no hash is wanted and every value of a token's type is valid. Tokens of
 *  the cache are read where zr_data_open_with has not done so (cache_is_whole): ZR_ERR_DATA where they are damaged.
 *  ZR_ERR_IO as zr_data_sample. */
ZR_API ZR_NODISCARD zr_status zr_data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg);

ZR_API zr_data_info zr_data_get_info(const zr_data *data);
#define ZR_LLMC_HEADER_BYTES 1024
/** Write the header of an llm.c file of `tokens` tokens of token_bytes each, 2 or 4. ZR_ERR_DATA: more than it can
 *  count. */
ZR_API ZR_NODISCARD zr_status zr_llmc_header(int token_bytes, int64_t tokens,
                                             unsigned char header[ZR_LLMC_HEADER_BYTES]);

/** Return the number of all tokens, of all sources. */
ZR_API int64_t zr_data_tokens(const zr_data *data);
/** Return W: the non-overlapping windows from the start of each source, for evaluation. */
ZR_API int64_t zr_data_windows(const zr_data *data);

/** Find where sample g (0, 1, 2 ... over all ranks and steps) begins, in tokens from the first source's first on.
 *  ZR_ERR_ARG when g is negative or its epoch or block reaches 2^32. */
ZR_API ZR_NODISCARD zr_status zr_data_locate(const zr_data *data, int64_t sample, int64_t *first_token);

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
