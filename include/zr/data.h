/**
 * data: reads texts and token files, and tokenizes texts. A source is one file or several. The tokens of a source are
 * divided into windows of T tokens. The target of a token is the next token of the text. The last target of a window is
 * therefore the token after the window. The window of a sample depends only on the order, the seed, the weights of the
 * sources and the sample's global index. Therefore the samples do not depend on the number of ranks or micro-batches,
 * and a resumed run continues with the same samples.
 *
 * zr_pairs makes the samples of encoders such as BERT, which have masked tokens and pairs of sentences. zr_labelled
 * makes samples for fine-tuning them.
 *
 * Files are read with pread, not mapped, into a buffer that is allocated at open. Later no call allocates memory. An
 * object must not be used by two threads at once.
 */
#ifndef ZR_DATA_H
#define ZR_DATA_H

#include "zr/base.h"
#include "zr/choices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizers ------------------------------------------------------------------------------ */

typedef struct zr_tokenizer zr_tokenizer;

/** Token that GPT-2 puts between documents. */
#define ZR_END_OF_TEXT "<|endoftext|>"

/** Open a tokenizer. `name` has one of the following forms:
 * - "bytes", the tokenizer with 256 tokens, in which a token is a byte;
 * - the path of a tokenizer.json with a BPE like GPT-2's, Llama's, Mistral's or Qwen's, or with a WordPiece like BERT's
 *   (docs/tokenizers.md);
 * - the path of a directory with tokenizer.json, with vocab.json and merges.txt, with BERT's vocab.txt and a
 *   tokenizer_config.json, or with Mistral's tekken.json.
 * An open tokenizer never changes, so any number of threads may use it at once.
 *
 * Text need not be UTF-8: an invalid byte is split from its neighbours. Unless the tokenizer normalizes text or has
 * unknown characters, the bytes of a text's tokens are exactly the text, except for a space before it. Added tokens
 * such as <|endoftext|> are recognised in a text but never inserted. Truncation and padding in tokenizer.json are
 * ignored.
 *
 * Errors: ZR_ERR_NOT_FOUND if a file is missing. ZR_ERR_DATA if a file is damaged, with the file and the fault in the
 * message. ZR_ERR_DATA also if a part of the tokenizer is unsupported, with the file and the part in the message. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer);
ZR_API void zr_tokenizer_close(zr_tokenizer **tokenizer);

ZR_API const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
ZR_API int64_t zr_tokenizer_vocab(const zr_tokenizer *tokenizer);
/** Return an XXH3-64 hash of everything that affects token ids. Tokenizers with the same hash give the same tokens for
 * every text. */
ZR_API uint64_t zr_tokenizer_hash(const zr_tokenizer *tokenizer);

/** Encode text[0, bytes) into `tokens`, which has space for `room` tokens. *n receives the number of tokens. Fail with
 * ZR_ERR_ARG if `room` is too small; zr_tokenizer_room(tokenizer, bytes) is always enough. The time is O(bytes log
 * bytes), apart from regular expressions in the tokenizer's file. Fail with ZR_ERR_DATA if a regular expression exceeds
 * its limits. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes,
                                                  int32_t *tokens, int64_t room, int64_t *n);

/** Return the maximum number of tokens of a text of `bytes` bytes. It is `bytes` unless the tokenizer normalizes text
 * or puts a space before it. */
ZR_API int64_t zr_tokenizer_room(const zr_tokenizer *tokenizer, int64_t bytes);

/** Tokens at the ends of documents, and between documents. */
typedef struct zr_tokenizer_ends {
    /* n_begin tokens before a document and n_end tokens after it, by the tokenizer's post_processor; owned by the
     * tokenizer */
    const int32_t *begin, *end;
    int64_t n_begin, n_end;
    /* token between documents: ZR_END_OF_TEXT if it is a token, else the eos_token of tokenizer_config.json, else -1 */
    int32_t separator;
} zr_tokenizer_ends;
ZR_API zr_tokenizer_ends zr_tokenizer_get_ends(const zr_tokenizer *tokenizer);

/** Return the token whose text is exactly `text`, such as ZR_END_OF_TEXT, or -1 if no token has this text. `text` may
 * have up to 64 bytes. */
ZR_API int32_t zr_tokenizer_token(const zr_tokenizer *tokenizer, const char *text);

/** Store the text of a token in *text, which is borrowed and not null-terminated, and its length in *bytes. Fail with
 * ZR_ERR_ARG if the token is outside the vocabulary. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text,
                                                  int64_t *bytes);

/** Decode n tokens together, like the method `decode` of the package `tokenizers`: bytes that are not UTF-8 become
 * U+FFFD, and a space that the tokenizer puts before texts is removed. Special tokens are left out unless `special`.
 * Free *text with zr_free. Errors: ZR_ERR_ARG if a token is outside the vocabulary; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_tokenizer_text(const zr_tokenizer *tokenizer, const int32_t *tokens, int64_t n,
                                                bool special, char **text, int64_t *bytes);

/* ---- text and tokens ------------------------------------------------------------------------- */

typedef struct zr_data zr_data;

/** Orders of samples. A source has W = floor((tokens-1)/T) windows of T tokens. Window i begins at token iT of the
 * source.
 *
 * SEQUENTIAL: sample g is window g mod W.
 * SHUFFLED:   each epoch is a new permutation of the windows, at a new offset. An epoch has
 *             W' = max(1, floor((tokens-T)/T)) windows. Window i begins at token o+iT, where the offset is
 *             o = f(seed, epoch) mod min(T, tokens-T). Sample g belongs to epoch floor(g/W').
 *             A bijection with the key (seed, epoch) maps g to its window.
 *
 * With several sources, samples are drawn in blocks of ZR_DATA_MIX samples. Each block has c_s samples of source s. c_s
 * is ZR_DATA_MIX times the source's share of all weights, rounded down. The remaining samples are given to the sources
 * with the largest remainders, one to each. A bijection with the key (seed, block) maps sample i of block b to a
 * position. Positions [c_0 + ... + c_(s-1), c_0 + ... + c_s) belong to source s. The j-th of these positions is sample
 * b c_s + j of this source, which is mapped to a window as above. Every sample therefore takes the same time to find,
 * and no sample depends on earlier samples. */
typedef enum zr_data_order { ZR_SEQUENTIAL, ZR_SHUFFLED } zr_data_order;
#define ZR_DATA_MIX 4096

/** Description of open data. */
typedef struct zr_data_info {
    const char *path; /* path as given to zr_data_open; owned by the data object */
    /* format of the first file: "text", "jsonl", "jsonl with prompts", "jsonl with messages", "uint16" or "uint32"
     * (without header), "llm.c uint16", "llm.c uint32", "Megatron uint16" or "Megatron int32". "jsonl" stands for JSON
     * records of any shape */
    const char *format;
    /* one-line warning, or ""; given if a file may not be text, if its name does not say how it is read, or if bad
     * lines were skipped */
    const char *note;
    /* one-line message about documents that are longer than a sample (ZR_PACK_ONE, ZR_PACK_WHOLE), or "" */
    const char *cut;
    /* one-line message about the forms of records, such as "alpaca.json: 52,002 records of instruction, input, output";
     * "" if all records are texts */
    const char *form;
    const char *made_again; /* one-line message that cached tokens were damaged and made again, or "" */
    int64_t files, sources;
    int64_t bytes; /* total bytes of the files, or of their cached tokens if texts are tokenized */
    int64_t tokens;
    int64_t windows; /* number of windows W, summed over all sources */
    /* number of samples in an epoch. With one source it is W in sequential order and W' in shuffled order. With several
     * sources it is the number of samples until each source has been read completely */
    int64_t epoch_samples;
    /* whether any file has prompts or messages; zr_data_args.loss_on then selects their targets */
    bool answers_only;
    int64_t documents; /* number of documents in files of records */
    /* number of documents that are cut because they have more than T+1 tokens (ZR_PACK_ONE, ZR_PACK_WHOLE) */
    int64_t cut_documents;
    int64_t lost_documents; /* number of cut documents whose targets are all cut off */
    int64_t skipped_lines;  /* number of bad lines in .jsonl files that were skipped */
    double bytes_per_token; /* mean number of text bytes per token; 0 if unknown (token file without a tokenizer) */
    /* share of the tokens of all windows that are not padding; 1 unless ZR_PACK_ONE or ZR_PACK_WHOLE pads them */
    double filled;
} zr_data_info;

/** A part of data, for training or for validation. Of records (lines of .jsonl, rows, documents of sentence pairs,
 * paragraphs of questions) one of 1/share is held out, drawn by its number alone, so that no seed changes the choice,
 * and records that are added at the end of the files change nothing for those before. Of other data the last tokens of
 * each source are held out. Both parts are never empty: opening one that has no sample fails with ZR_ERR_CONFIG. */
typedef struct zr_data_part {
    double share;  /* share that is held out, above 0 and below 1; 0 for all data, undivided */
    bool held_out; /* true for the share that is held out, false for the rest */
} zr_data_part;

/** Options of zr_data_open_with. A zero means the default, except for `path` and the sizes. */
typedef struct zr_data_args {
    /** Data files. All files of a source must be of one kind. Forms:
     * - the path of a file; symbolic links are followed
     * - a pattern such as "train_*.bin", for the matching files sorted by name
     * - a JSON list of paths and patterns, read as one text: ["a.txt", "b_*.txt"]
     * - several sources with weights: [{"path": PATH or list, "weight": 0.7}, ...] */
    const char *path;
    const char *tokenizer; /* tokenizer for texts (zr_tokenizer_open); NULL for "bytes" */
    int64_t vocab_size;    /* vocabulary size; every token id must be below this number */
    /* sequence length T, at least 1; each source must have at least T+1 tokens, or one document (ZR_PACK_ONE,
     * ZR_PACK_WHOLE) */
    int64_t seq_length;
    zr_data_order order;
    uint64_t seed;           /* seed of the order of samples, from which the seeds of further sources are derived */
    const char *text_key;    /* key that holds the text in each line of a .jsonl file; NULL for "text" */
    zr_data_packing packing; /* contents of a sample */
    zr_data_part part;       /* zr_data_window returns the windows of held-out data in a fixed random order */
    /* name of a form of conversations, such as "llama3", or the path of a chat template, which ends in ".jinja"; NULL
     * or "auto" for the template in the tokenizer's directory */
    const char *chat_template;
    const char *chat_date; /* today's date in chat templates, YYYY-MM-DD; NULL for 2024-07-26 */
    /* further variables of the chat template, a JSON object such as {"enable_thinking": false}; or NULL */
    const char *chat_template_kwargs;
    /* names of the members of records, a JSON object such as {"prompt": "question", "completion": "answer"}; or NULL */
    const char *columns;
    zr_data_loss_on loss_on; /* targets that count in the loss, in records with prompts or messages */
    bool as_text;            /* whether every file is read as plain text, even if it has JSON records or tokens */
    /* bytes of a token in files without a header: 2 or 4; 0 means 2, but refuse a file whose tokens seem to have 4
     * bytes */
    int token_bytes;
    bool documents;        /* whether zr_data_documents will be called */
    bool skip_bad_lines;   /* whether bad lines of a .jsonl file are skipped; otherwise they are errors */
    const char *cache_dir; /* cache directory for tokenized texts; NULL for zr/tokens in the user's cache */
    /* whether to skip checking cached tokens for damage, because this host has just opened and checked the same data */
    bool cache_is_whole;
    /* callback for the progress in bytes of text, or NULL. Called while a text is hashed, and then while any process
     * tokenizes it or its cached tokens are read */
    zr_progress_fn progress;
    void *arg;
} zr_data_args;

/**
 * Open data for training or evaluation. Every file is checked. Only a few files stay open.
 *
 * Formats. These token files are supported:
 * - llm.c: a header of 256 int32, recognised by its magic number 20240520 (version 1, uint16 tokens) or 20240801
 *   (version 7, uint32 tokens);
 * - Megatron-LM: X.bin with uint16 or int32 tokens, and X.idx beside it;
 * - nanoGPT: uint16 tokens without a header, recognised by a name that ends in ".bin", or uint32 tokens with
 *   token_bytes 4. If token_bytes is 0, a file is refused whose numbers of 2 bytes look like parts of wider tokens.
 * A file has JSON records if its first value is a JSON object, or an array whose first element is one, or if its name
 * ends in ".jsonl" or ".ndjson". The records are a line each (JSON Lines), objects that may span lines, or the elements
 * of an array. A record is an object with a text, with the texts "prompt" and "completion", or with a list "messages"
 * of objects {"role": "system", "user" or "assistant", "content": TEXT}. The first record of a file decides; records of
 * another kind are bad lines. A record with the member text_key has a text. Any other file is text, except that tables
 * (.csv, .tsv, by their names) and files of known other formats (by their first bytes) are refused.
 *
 * Answers. In files with prompts or messages, only answers are targets, unless loss_on or a switch of a message says
 * otherwise. All other targets are -1. A token belongs to an answer if its first byte does. Messages are
 * rendered with the chat template of the tokenizer, a program in the part of Jinja that templates use.
 *
 * Tokenizing. With the tokenizer "bytes", a text file is read directly. Otherwise text and .jsonl files are tokenized
 * once, into a cache file. The cache file's name is a hash of the text file's contents, the tokenizer, text_key and
 * skip_bad_lines. Other processes of this host that need the same cache file wait for it. Cached tokens are read once
 * completely. If the hash of the cached tokens differs from the hash in the cache file, the text is tokenized again.
 *
 * Memory. A text of any length passes through up to eight threads, each with a few MiB. A line of .jsonl may have up
 * to 16 MiB. A line takes about 30 times its length in memory if its text is one word that cannot be cut. A line takes
 * up to 75 times its length if it mostly consists of members other than the text. Only one such line is processed at a
 * time.
 *
 * Tokens. Each document has the tokens at its ends that zr_tokenizer_get_ends describes. Each text of a .jsonl file is
 * followed by the separator, or by a newline if the tokenizer has no separator. A text has the same tokens as if it
 * were encoded as a whole, with one exception: if 1 MiB of text has no position where it can be cut, it is cut between
 * two characters. With a tokenizer that never allows cuts, a plain text of up to 4 MiB is tokenized whole, and a longer
 * text is refused.
 *
 * Errors:
 * ZR_ERR_NOT_FOUND if a file is missing, unreadable or not a regular file, or if a pattern matches no file;
 * ZR_ERR_DATA if a size, header, index or .jsonl line is wrong, or if no line of .jsonl has a text. The message has the
 *   file, the offset or line, the actual value and the expected value;
 * ZR_ERR_CONFIG if the tokenizer has more than vocab_size tokens, if a list or a weight is invalid, or if token_bytes
 *   contradicts a file's header;
 * ZR_ERR_UNSUPPORTED if the tokenizer is unknown, if the text is too long for the tokenizer, if there are messages and
 *   no chat template that zr can use, or if one of the files is not .jsonl for ZR_PACK_ONE or ZR_PACK_WHOLE;
 * ZR_ERR_CREATE or ZR_ERR_IO if the cache file cannot be written;
 * ZR_ERR_ARG for an invalid size.
 */
ZR_API ZR_NODISCARD zr_status zr_data_open_with(const zr_data_args *args, zr_data **data);
/** Open data as zr_data_open_with does, with the default values of all options that are not arguments of this function.
 */
ZR_API ZR_NODISCARD zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size,
                                           int64_t seq_length, zr_data_order order, uint64_t seed, zr_data **data);
ZR_API void zr_data_close(zr_data **data);

ZR_API zr_data_info zr_data_get_info(const zr_data *data);

/** Read a sample into tokens (T) and targets (T). targets[i] is the token that follows tokens[i], or -1 if the loss
 * ignores it. Errors: ZR_ERR_DATA with file and position if a token is outside the vocabulary; ZR_ERR_IO if the file
 * cannot be read or has changed since it was opened. */
ZR_API ZR_NODISCARD zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);

/** Read tokens first to first+n-1. The tokens are numbered through all sources, one source after the other. n is at
 * most T+1. Errors: as for zr_data_sample, and ZR_ERR_ARG if the range exceeds the tokens. */
ZR_API ZR_NODISCARD zr_status zr_data_read(zr_data *data, int64_t first, int64_t n, int32_t *tokens);

/** Read a window into tokens (T) and targets (T), independently of the order of samples. `window` is less than
 * zr_data_info.windows. */
ZR_API ZR_NODISCARD zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);

/** Store where documents begin in the sample or window that was read last. For token i of the window, begin[i] is the
 * index of the first token of its document, or 0 if the document begins before the window. Attention within documents
 * is attention from token i to the tokens begin[i] to i. Padding counts as a document. A file without lines is one
 * document. Fail with ZR_ERR_STATE if zr_data_args.documents was not set, or if nothing has been read. */
ZR_API ZR_NODISCARD zr_status zr_data_documents(const zr_data *data, int32_t *begin);

/* ---- sentence pairs -------------------------------------------------------------------------- */

/**
 * Samples of an encoder that learns masked tokens and next-sentence prediction (Devlin et al. 2018). A sample is
 * [CLS] A [SEP] B [SEP], where A and B are one or more sentences each. A row has seq_length tokens: one sample or
 * several samples, one after the other, and padding.
 */
typedef struct zr_pairs zr_pairs;

/** Options of zr_pairs_open. A zero means the default, except for `path`, the sizes and short_seq_prob. */
typedef struct zr_pairs_args {
    /** Data files: a path, a pattern, or a JSON list of both, as in zr_data_args.path but without weights. Either one
     * .safetensors file of ready rows, or texts. */
    const char *path;
    int64_t vocab_size;  /* vocabulary size; every token id must be below this number */
    int64_t seq_length;  /* sequence length T, at least 5 */
    int64_t predictions; /* maximum number P of predicted tokens in a row, and thereby in a sample */
    int64_t samples;     /* maximum number S of samples in a row; above 1, samples of texts are packed into rows */
    zr_data_order order;
    uint64_t seed; /* seed of the order of rows, of the division of texts into samples, and of the masks */
    zr_data_part part;
    /* Only for texts: */
    const char *tokenizer; /* tokenizer with the tokens [CLS], [SEP] and [MASK] (zr_tokenizer_open) */
    double masked_lm_prob; /* fraction of a sample's tokens that are predicted; 0 for 0.15 */
    double short_seq_prob; /* probability that a document's samples are shorter than a row; 0.1 in BERT's recipe */
    /* whether the tokens of a word are predicted together; a token that begins with ## continues a word */
    bool whole_words;
    bool single;           /* whether a sample is one text, whose label `next` is -1, not a pair */
    bool as_text;          /* as in zr_data_args */
    const char *cache_dir; /* as in zr_data_args */
    bool cache_is_whole;
    zr_progress_fn progress; /* callback for the progress in bytes of text, or NULL, as in zr_data_args */
    void *arg;
} zr_pairs_args;

/** Description of open data. */
typedef struct zr_pairs_info {
    const char *path;   /* path as given to zr_pairs_open; owned by the object */
    const char *format; /* "safetensors", or "text" */
    const char *note;   /* one-line warning, or ""; given if a file may not be text */
    int64_t files;
    int64_t bytes;              /* total bytes of the files, or of their cached tokens if texts are tokenized */
    int64_t rows, samples;      /* number of rows and of samples in the first epoch */
    int64_t documents;          /* for texts: number of documents with at least one sentence */
    int64_t sentences;          /* for texts: number of sentences */
    int64_t tokens;             /* number of tokens in all sentences, or in all ready rows without their padding */
    int64_t without_prediction; /* for ready rows: number of samples that have no predicted token */
    double filled;              /* share of the tokens of the first epoch's rows that are not padding */
    int64_t memory_bytes;       /* bytes of memory that the object holds */
} zr_pairs_info;

/** Memory of one row. A row has at most S samples and P predicted tokens. Unused elements of an array have the value in
 * parentheses. */
typedef struct zr_pairs_row {
    int32_t *tokens;   /* (T) token ids (0) */
    int32_t *segments; /* (T) 0 for [CLS] A [SEP], 1 for B [SEP] (0) */
    /* (T) index in the row of the first token of the token's sample. The padding counts as one more sample */
    int32_t *documents;
    int32_t *masked;         /* (P) indices in the row of the predicted tokens, ascending (0) */
    int32_t *masked_targets; /* (P) original token ids of the predicted tokens (-1) */
    /* Both may be NULL: */
    int32_t *first; /* (S) index in the row of each sample's first token, [CLS] (0) */
    int32_t *next;  /* (S) label of each sample: 0 if B follows A in the text, 1 if B is from another document (-1) */
} zr_pairs_row;

/**
 * Open data for an encoder. Row r depends only on the files, the arguments and r. Therefore the rows do not depend on
 * the number of ranks or micro-batches, and a resumed run continues with the same rows.
 *
 * Ready rows. A .safetensors file has the tensors that transformers' BertForPreTraining takes, of the type I32 or I64:
 * input_ids, labels (the original id of a predicted token, -100 elsewhere), and perhaps token_type_ids (otherwise all
 * 0), attention_mask (otherwise all 1) and next_sentence_label (otherwise no label). The last dimension of all tensors
 * but next_sentence_label is T. The product of the other dimensions is the number of rows; for next_sentence_label it
 * is the product of all dimensions. A row is one sample: its attention_mask must be ones followed by zeros. Each epoch
 * has every row once. In sequential order row r is row r mod rows of the file.
 *
 * Texts. A text file has one sentence on each line, and a blank line between documents. Sentences are tokenized once,
 * into the cache of zr_data_open_with. Samples are made as BERT's recipe makes them: for each document a target length
 * is drawn, T or with short_seq_prob a shorter one. Sentences are collected up to this length and divided at random
 * into A and B. With probability 1/2, or if there is only one sentence, B is replaced by text from another document,
 * and its sentences are used for the next sample. A pair that is too long loses tokens at both ends of its longer part.
 * Of the L tokens of a sample, min(P, max(1, round(masked_lm_prob L))) are predicted, but never [CLS] and [SEP]. A
 * predicted token is replaced by [MASK] in 80% of cases and by a random token of the vocabulary in 10%. In the other
 * 10% it does not change.
 *
 * Single texts. With args->single a sample is [CLS] A [SEP]: consecutive tokens of a document, up to the target length.
 * No token is lost, and one document is enough.
 *
 * Epochs. In sequential order, every epoch has the same rows. In shuffled order, the division of the texts, the pairs,
 * the masks, and the number and order of rows differ between epochs. (BERT's script writes dupe_factor such epochs into
 * a file.)
 *
 * Packing. With samples > 1, samples of neighbouring documents share a row if they fit into T tokens, P predicted
 * tokens and S samples (best fit of decreasing lengths among up to 256 samples). The samples are the same with any
 * number of samples in a row.
 *
 * Memory. Texts need 2 bytes per sentence and 16 bytes per document. The first call for a row of another epoch divides
 * all documents, which takes about a second for 100 million tokens. zr_pairs_read allocates memory for
 * the largest group of neighbouring documents, once.
 *
 * Errors: as zr_data_open_with. Also ZR_ERR_DATA with tensor and row if a ready row is invalid or has more predicted
 * tokens than P, or if texts have fewer than two documents; ZR_ERR_CONFIG if the tokenizer lacks one of the tokens.
 */
ZR_API ZR_NODISCARD zr_status zr_pairs_open(const zr_pairs_args *args, zr_pairs **pairs);
ZR_API void zr_pairs_close(zr_pairs **pairs);

ZR_API zr_pairs_info zr_pairs_get_info(const zr_pairs *pairs);

/** Read a row. Rows are numbered from 0 through all epochs. Errors: ZR_ERR_ARG if the row is negative or in epoch 2^32;
 * ZR_ERR_IO if a file cannot be read or has changed since it was opened; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_pairs_read(zr_pairs *pairs, int64_t row, const zr_pairs_row *out);

/* ---- labelled texts and questions ------------------------------------------------------------ */

/**
 * Samples of an encoder that is fine-tuned: texts with a label, or questions about a text that contains the answer. A
 * sample is [CLS] text [SEP], or [CLS] text or question [SEP] second text [SEP]. A row has seq_length tokens: one
 * sample or several samples, one after the other, and padding.
 */
typedef struct zr_labelled zr_labelled;

/** Kinds of samples: texts and their labels, questions and the place of their answers, or sentences and the tags of
 * their words. */
typedef enum zr_labelled_kind { ZR_LABELLED_CLASSES, ZR_LABELLED_ANSWERS, ZR_LABELLED_TAGS } zr_labelled_kind;

/** Options of zr_labelled_open. A zero means the default, except for `path`, the sizes and `labels`. */
typedef struct zr_labelled_args {
    /* data files: a path, a pattern, or a JSON list of both, as in zr_data_args.path but without weights */
    const char *path;
    zr_labelled_kind kind;
    int64_t vocab_size; /* vocabulary size; every token id must be below this number */
    int64_t seq_length; /* sequence length T, at least 5 */
    int64_t samples;    /* maximum number S of samples in a row; above 1, samples are packed into rows */
    zr_data_order order;
    uint64_t seed;         /* seed of the order of samples */
    zr_data_part part;     /* all questions about one text are in the same part */
    const char *tokenizer; /* one of BERT's tokenizers, with the tokens [CLS] and [SEP] (zr_tokenizer_open) */
    /* Only for ZR_LABELLED_CLASSES and ZR_LABELLED_TAGS: */
    int64_t labels;                 /* number of labels */
    const char *const *label_names; /* array of `labels` names, or NULL if labels have no names */
    /* Only for ZR_LABELLED_CLASSES: */
    bool skip_bad_lines; /* whether bad lines are skipped; otherwise they are errors */
    /* Only for ZR_LABELLED_ANSWERS: */
    int64_t doc_stride;       /* distance in tokens between the beginnings of two windows of a text; 0 for 128 */
    int64_t max_query_length; /* maximum number of tokens of a question; the rest is cut off; 0 for 64 */
    /* whether to keep a question if its answer is not found at answer_start; if false, the question is left out, as in
     * training with transformers */
    bool every_question;
    zr_progress_fn progress; /* callback for the progress in bytes of the files, or NULL */
    void *arg;
} zr_labelled_args;

/** Description of open data. */
typedef struct zr_labelled_info {
    const char *path;   /* path as given to zr_labelled_open; owned by the object */
    const char *format; /* "jsonl with labels", "SQuAD", or "sentences with tags" */
    /* one-line message, or ""; given if bad lines were skipped, if answers were not found, or if records have other
     * members than "text" and "label" */
    const char *note;
    const char *cut; /* one-line message about texts or questions that are too long, or "" */
    int64_t files;
    int64_t bytes;         /* total bytes of the files */
    int64_t rows, samples; /* number of rows and of samples in the first epoch */
    int64_t documents;     /* number of labelled texts, of questions, or of sentences */
    int64_t cut_documents; /* number of texts or questions that were cut; the windows of a text do not count as cuts */
    int64_t lost_answers;  /* number of questions whose answer is not found at answer_start */
    int64_t skipped_lines; /* number of bad lines that were skipped */
    int64_t tokens;        /* number of tokens of all samples */
    double filled;         /* share of the tokens of the first epoch's rows that are not padding */
    int64_t memory_bytes;  /* bytes of memory that the object holds */
} zr_labelled_info;

/** Memory of one row. A member that is NULL is not filled. Unused elements of an array have the value in parentheses.
 */
typedef struct zr_labelled_row {
    int32_t *tokens;   /* (T) token ids (0) */
    int32_t *segments; /* (T) 0 for the first text with its [CLS] and [SEP], 1 for the second text with its [SEP] (0) */
    /* (T) index in the row of the first token of the token's sample. The padding counts as one more sample */
    int32_t *documents;
    int32_t *first;  /* (S) index in the row of each sample's first token, which is [CLS] (0) */
    int32_t *label;  /* (S) label of each sample (-1) */
    int32_t *answer; /* (S, 2) indices in the row of the answer's first and last token (-1) */
    int32_t *words;  /* (T) indices in the row of the first token of each tagged word (0) */
    int32_t *tags;   /* (T) tag of each word in `words` (-1) */
} zr_labelled_row;

/**
 * Open data for fine-tuning an encoder. Row r depends only on the files, the arguments and r, as with zr_pairs.
 *
 * Classes. Each record of a file (zr_data_open_with) is {"text": TEXT, "label": LABEL}, and perhaps "text_pair": TEXT,
 * a second text. Or it has the members of a task of GLUE instead of "text" and "text_pair": "sentence1" and
 * "sentence2", "question1" and "question2", "premise" and "hypothesis", "question" and "sentence", or "sentence". The
 * first record of a file decides, in this order. A label is an integer from 0 to labels - 1, or one of label_names. A
 * sample that is too long loses tokens at the end of its longer text, as with the package `tokenizers` (longest_first):
 * if both texts are longer than half of the row, each keeps half of it.
 *
 * Answers. A file has the format of SQuAD 1.1 or 2.0 (Rajpurkar et al. 2016 and 2018). Its questions become samples as
 * with squad_convert_examples_to_features of transformers 4.57: a question has up to max_query_length tokens, and a
 * text that does not fit beside it becomes several samples, whose windows begin doc_stride tokens apart. `answer` is
 * the place of the first answer of a question. In a window that does not contain the whole answer, and of a question
 * without answer (is_impossible of SQuAD 2.0), it is the place of [CLS] twice. If a question's answer is not at its
 * place in the text (answer_start), the question is left out, or with every_question its samples have the answer -1;
 * info.note says so.
 *
 * Tags. A file has a word on each line, the columns of which are separated by spaces or tabs; the first one is the word
 * and the last one its tag. An empty line ends a sentence, and lines of -DOCSTART- do not count (CoNLL-2003). Or it has
 * records {"tokens": [WORD, ...], "ner_tags": [TAG, ...]}; a tag is one of label_names, or its number. As in run_ner.py
 * of transformers, each word is tokenized alone, its tag counts at its first token, and a sentence that is too long
 * loses its end.
 *
 * Epochs. Each epoch has every sample once. In shuffled order each epoch has another order of samples, and with
 * samples > 1 neighbours in this order share a row as in zr_pairs.
 *
 * Memory. All tokens are kept (4 bytes each), the tokens of a text once for all of its questions, and with answers also
 * the texts.
 *
 * Errors: ZR_ERR_NOT_FOUND if a file is missing or unreadable; ZR_ERR_DATA with file and place if a file is damaged or
 * a line or question is invalid, or if no sample is left; ZR_ERR_CONFIG if the tokenizer lacks a token or has more than
 * vocab_size tokens, or if doc_stride leaves gaps between windows; ZR_ERR_UNSUPPORTED for sources with weights, and for
 * questions with a tokenizer that is not one of BERT's; ZR_ERR_ARG for an invalid size; ZR_ERR_IO; ZR_ERR_MEMORY.
 */
ZR_API ZR_NODISCARD zr_status zr_labelled_open(const zr_labelled_args *args, zr_labelled **labelled);
ZR_API void zr_labelled_close(zr_labelled **labelled);

ZR_API zr_labelled_info zr_labelled_get_info(const zr_labelled *labelled);

/** Read a row. Rows are numbered from 0 through all epochs. Errors: ZR_ERR_ARG if the row is negative or in epoch 2^32;
 * ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_labelled_read(zr_labelled *labelled, int64_t row, const zr_labelled_row *out);

#ifdef __cplusplus
}
#endif
#endif
