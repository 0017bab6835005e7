/* Tokenization of texts into a token file, and training of a tokenizer on texts. A trained tokenizer is written into a
 * new directory. */
#include "train/tokenizer/tokenize.h"

#include "base/file/commit.h"
#include "base/file/folder.h"
#include "base/paths/output.h"
#include "train/dir/run_files.h"
#include "train/host/host.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    U16_VOCAB = 1 << 16,
    SINGLE_BYTES = 2, /* size of a token file with one token and no header */
};

typedef struct tokenizing {
    const zr__tokenize_args *args;
    zr__tokenized *did;
    zr_tokenizer *tokenizer;
    zr__texts *texts;
    zr__new_file out;
    int64_t at; /* offset in the output file, in bytes */
    int32_t between;
    const char *inputs[ZR_TOKENIZE_TEXTS + 2]; /* paths of all input files; the list ends with NULL */
} tokenizing;

/* ---- output ---------------------------------------------------------------------------------- */

/* Append tokens to the output. Build the header each time without writing it, only because zr__llmc_header fails if
 * there are too many tokens. The error then occurs at once and not after all texts. */
static zr_status write_tokens(void *arg, const unsigned char *tokens, int64_t n)
{
    tokenizing *t = arg;
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    t->did->tokens += n;
    if (t->args->format == ZR_TOKENS_LLMC) ZR_TRY(zr__llmc_header(t->did->token_bytes, t->did->tokens, header));
    ZR_TRY(zr__file_write(&t->out.file, t->at, tokens, n * t->did->token_bytes));
    t->at += n * t->did->token_bytes;
    return ZR_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void tell_texts(const zr__texts *texts, zr__tokenized *did)
{
    const zr__texts_info info = zr__texts_get_info(texts);
    did->bytes = info.text_bytes;
    did->documents = info.documents;
    did->skipped_lines = info.skipped_lines;
    snprintf(did->note, sizeof(did->note), "%s", info.note);
}

/* ---- the file of tokens ------------------------------------------------------------------------------- */

/* Open the tokenizer and the texts, and choose the number of bytes per token. */
static zr_status open_tokenizing(tokenizing *t)
{
    const zr__tokenize_args *a = t->args;
    ZR_TRY(zr_tokenizer_open(a->tokenizer, &t->tokenizer));
    t->did->vocab = zr_tokenizer_vocab(t->tokenizer);
    t->did->hash = zr_tokenizer_hash(t->tokenizer);
    t->did->token_bytes = t->did->vocab <= U16_VOCAB ? 2 : 4;
    ZR_CHECK(a->format == ZR_TOKENS_LLMC || t->did->token_bytes == 2, ZR_ERR_ARG,
             "the format nanogpt has tokens below 65536, and the tokenizer has %lld; take llmc",
             (long long)t->did->vocab);
    t->between = a->eot ? zr__tokenizer_separator(t->tokenizer) : -1;
    ZR_CHECK(t->between != ZR__NO_SEPARATOR, ZR_ERR_DATA,
             "the tokenizer %s has no token %s to put between texts, and no tokenizer_config.json with an eos_token",
             zr_tokenizer_name(t->tokenizer), ZR_END_OF_TEXT);
    ZR_TRY(zr__texts_open(&a->texts, &t->texts));
    t->at = a->format == ZR_TOKENS_LLMC ? ZR_LLMC_HEADER_BYTES : 0;
    return ZR_OK;
}

/* Check that an existing output of the format nanogpt is a token file, since no other file may be overwritten. This
 * format has no header, so check the content. */
static zr_status check_headerless(const tokenizing *t)
{
    struct stat info;
    ZR_AUTO(zr_data_close) zr_data *data = NULL;
    const char *out = t->args->out;
    if (t->args->format != ZR_TOKENS_NANOGPT || stat(out, &info) != 0) return ZR_OK;
    if (info.st_size == 0 || info.st_size == SINGLE_BYTES) return ZR_OK;
    zr_status st = zr_data_open(out, NULL, U16_VOCAB, 1, ZR_SEQUENTIAL, 0, &data);
    bool same = st == ZR_OK && strcmp(zr_data_get_info(data).format, "uint16") == 0;
    ZR_CHECK(same, ZR_ERR_CREATE, "%s exists and is not a token file of the format nanogpt; name another file%s%s",
             ZR_SHOWN(out), st == ZR_OK ? "" : "; ", st == ZR_OK ? "" : zr_error_message());
    return ZR_OK;
}

static zr_status check_output(tokenizing *t)
{
    /* The magic number is the first bytes of an llm.c file. A nanoGPT file has no magic number and is recognised only
     * by its name. */
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    char magic[5] = "";
    ZR_TRY(zr__llmc_header(t->did->token_bytes, 0, header));
    if (t->args->format == ZR_TOKENS_LLMC) memcpy(magic, header, 4);
    const zr__output_kind kind = {"file of tokens", magic, false};
    t->inputs[0] = t->args->tokenizer;
    for (int i = 0; i < t->args->texts.n; i++) t->inputs[i + 1] = t->args->texts.path[i];
    ZR_TRY(zr__output_check(t->args->out, &kind, t->inputs));
    return check_headerless(t);
}

/* Create the temporary file next to the output. Never overwrite an existing file, since it may be an input, or another
 * command may be writing it. */
static zr_status make_tmp(tokenizing *t)
{
    static const zr__output_kind kind = {"temporary file", "", false};
    char tmp[PATH_MAX];
    struct stat info;
    ZR_TRY(zr__path_format(tmp, "%s.tmp", t->args->out));
    ZR_TRY(zr__output_check(tmp, &kind, t->inputs));
    bool there = lstat(tmp, &info) == 0;
    zr_status st = zr__new_file_begin(t->args->out, false, &t->out);
    ZR_CHECK(st == ZR_OK, st, "%s%s", zr_error_message(),
             there ? "; another command is creating it, or was interrupted: then remove it" : "");
    return ZR_OK;
}

static zr_status write_all_tokens(tokenizing *t)
{
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    int threads = t->args->threads;
    if (threads == 0) threads = zr__host_cores() < ZR_TOKENIZE_THREADS ? zr__host_cores() : ZR_TOKENIZE_THREADS;
    ZR_TRY(zr__texts_encode(t->texts, t->tokenizer, t->did->token_bytes, t->between, threads, write_tokens, t));
    tell_texts(t->texts, t->did);
    if (t->args->format != ZR_TOKENS_LLMC) return ZR_OK;
    ZR_TRY(zr__llmc_header(t->did->token_bytes, t->did->tokens, header));
    return zr__file_write(&t->out.file, 0, header, sizeof(header));
}

static zr_status tokenize_into_file(tokenizing *t)
{
    ZR_TRY(open_tokenizing(t));
    ZR_TRY(check_output(t));
    ZR_TRY(make_tmp(t));
    return zr__new_file_end(&t->out, write_all_tokens(t));
}

static zr_status check_texts(int n)
{
    ZR_CHECK(n >= 1 && n <= ZR_TOKENIZE_TEXTS, ZR_ERR_ARG, "%d texts, 1 to %d are possible", n, ZR_TOKENIZE_TEXTS);
    return ZR_OK;
}

static zr_status check_args(const zr__tokenize_args *a)
{
    ZR_TRY(check_texts(a->texts.n));
    ZR_CHECK(a->threads >= 0 && a->threads <= ZR_TOKENIZE_THREADS, ZR_ERR_ARG, "%d threads, 1 to %d are possible",
             a->threads, ZR_TOKENIZE_THREADS);
    ZR_CHECK(a->format == ZR_TOKENS_LLMC || (a->out[0] && zr__text_ends(a->out + 1, ".bin")), ZR_ERR_ARG,
             "a file of the format nanogpt is known by its name alone, which must end in .bin");
    return ZR_OK;
}

zr_status zr__tokenize(const zr__tokenize_args *args, zr__tokenized *did)
{
    ZR_TRY(check_args(args));
    *did = (zr__tokenized){0};
    tokenizing *t = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory to tokenize");
    t->args = args;
    t->did = did;
    zr_status st = tokenize_into_file(t);
    zr_tokenizer_close(&t->tokenizer);
    zr__texts_close(&t->texts);
    zr_free(t);
    return st;
}

/* ---- training -------------------------------------------------------------------------------- */

static zr_status learn_tokenizer(const zr__tokenize_train_args *args, char **json, zr__tokenized *did)
{
    ZR_AUTO(zr__tokenizer_trainer_close) zr__tokenizer_trainer *trainer = NULL;
    ZR_AUTO(zr__texts_close) zr__texts *texts = NULL;
    ZR_TRY(zr__tokenizer_trainer_open(&trainer));
    ZR_TRY(zr__texts_open(&args->texts, &texts));
    const zr_status st = zr__texts_learn(texts, trainer);
    tell_texts(texts, did);
    ZR_TRY(st);
    return zr__tokenizer_trainer_learn(trainer, args->vocab, json, &did->vocab);
}

/* Write the tokenizer's files, and read them back to check that the vocabulary is complete. The caller gives the
 * directory its final name only afterwards. */
static zr_status write_files(const char *tmp, const char *json, zr__tokenized *did)
{
    ZR_AUTO(zr_tokenizer_close) zr_tokenizer *tokenizer = NULL;
    ZR_TRY(zr__tokenizer_files_write(tmp, json, true));
    ZR_TRY(zr_tokenizer_open(tmp, &tokenizer));
    did->hash = zr_tokenizer_hash(tokenizer);
    ZR_ASSERT(zr_tokenizer_vocab(tokenizer) == did->vocab);
    return ZR_OK;
}

static zr_status make_tokenizer_dir(const char *out, const char *json, zr__tokenized *did)
{
    char name[PATH_MAX], tmp[PATH_MAX];
    ZR_TRY(zr__new_dir_begin(out, name, tmp));
    zr_status st = write_files(tmp, json, did);
    if (st == ZR_OK) st = zr__dir_commit(tmp, name);
    if (st != ZR_OK) {
        zr__tokenizer_files_remove(tmp, NULL);
        rmdir(tmp);
    }
    return st;
}

static zr_status check_dir_empty(const char *out)
{
    ZR_AUTO(zr__close_dir) DIR *dir = opendir(out);
    int entries = 0;
    ZR_CHECK(dir || errno == ENOENT, ZR_ERR_CREATE, "%s exists and is not a readable directory: %s; name another", out,
             strerror(errno));
    if (!dir) return ZR_OK;
    while (readdir(dir)) entries++;
    ZR_CHECK(entries <= 2, ZR_ERR_CREATE, "the directory %s is not empty; name another, or remove what is in it", out);
    return ZR_OK;
}

zr_status zr__tokenize_train(const zr__tokenize_train_args *args, zr__tokenized *did)
{
    ZR_AUTO_FREE char *json = NULL;
    ZR_TRY(check_texts(args->texts.n));
    *did = (zr__tokenized){0};
    ZR_TRY(check_dir_empty(args->out));
    ZR_TRY(learn_tokenizer(args, &json, did));
    return make_tokenizer_dir(args->out, json, did);
}
