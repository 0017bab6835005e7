/** Tokenization of texts into a token file. */
#include "train/tokenizer/tokenize.h"

#include "base/file/file.h"
#include "base/paths/output.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "data/tokens/texts.h"
#include "train/host/host.h"
#include "zr/data.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    U16_VOCAB = 1 << 16,
    SINGLE_BYTES = 2, /* size of a file of one token without a header */
};

typedef struct tokenizing {
    const zr__tokenize_args *args;
    zr__tokenized *did;
    zr_tokenizer *tokenizer;
    zr__texts_args wanted;
    zr__texts *texts;
    zr__file out;
    char tmp[PATH_MAX];
    int64_t at; /* offset in the output, bytes */
    int32_t between;
    const char *inputs[ZR_TOKENIZE_TEXTS + 2]; /* all files that are read, NULL-terminated */
} tokenizing;

/* ---- output ---------------------------------------------------------------------------------- */

static zr_status make_header(const tokenizing *t, unsigned char header[ZR_LLMC_HEADER_BYTES])
{
    if (t->args->format == ZR_TOKENS_LLMC) ZR_TRY(zr__llmc_header(t->did->token_bytes, t->did->tokens, header));
    return ZR_OK;
}

/* Append tokens to the output. The header is made each time, so that more tokens than it can count are refused when
 * they come, not hours later. */
static zr_status write_tokens(void *arg, const unsigned char *tokens, int64_t n)
{
    tokenizing *t = arg;
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    t->did->tokens += n;
    ZR_TRY(make_header(t, header));
    ZR_TRY(zr__file_write(&t->out, t->at, tokens, n * t->did->token_bytes));
    t->at += n * t->did->token_bytes;
    return ZR_OK;
}

static zr_status write_header(const tokenizing *t)
{
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    if (t->args->format != ZR_TOKENS_LLMC) return ZR_OK;
    ZR_TRY(make_header(t, header));
    return zr__file_write(&t->out, 0, header, sizeof(header));
}

/* ---- texts ----------------------------------------------------------------------------------- */

static zr_status tokenize_texts(tokenizing *t)
{
    int threads = t->args->threads;
    if (threads == 0) threads = zr__host_cores() < ZR_TOKENIZE_THREADS ? zr__host_cores() : ZR_TOKENIZE_THREADS;
    ZR_TRY(zr__texts_encode(t->texts, t->tokenizer, t->did->token_bytes, t->between, threads, write_tokens, t));
    const zr__texts_info info = zr__texts_get_info(t->texts);
    t->did->bytes = info.text_bytes;
    t->did->documents = info.documents;
    t->did->skipped_lines = info.skipped_lines;
    snprintf(t->did->note, sizeof(t->did->note), "%s", info.note);
    return ZR_OK;
}

static zr_status open_texts(tokenizing *t)
{
    const zr__tokenize_args *a = t->args;
    t->wanted = (zr__texts_args){.path = a->text,
                                 .n = a->n_texts,
                                 .text_key = a->text_key,
                                 .skip_bad_lines = a->skip_bad_lines,
                                 .progress = a->progress,
                                 .arg = a->arg};
    ZR_TRY(zr__texts_open(&t->wanted, &t->texts));
    return ZR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zr_status find_between(tokenizing *t)
{
    t->between = zr_tokenizer_token(t->tokenizer, ZR_END_OF_TEXT);
    ZR_CHECK(t->between >= 0, ZR_ERR_DATA, "the tokenizer %s has no token %s to put between texts",
             zr_tokenizer_name(t->tokenizer), ZR_END_OF_TEXT);
    return ZR_OK;
}

static zr_status settle(tokenizing *t)
{
    const zr__tokenize_args *a = t->args;
    ZR_TRY(zr_tokenizer_open(a->tokenizer, &t->tokenizer));
    t->did->vocab = zr_tokenizer_vocab(t->tokenizer);
    t->did->hash = zr_tokenizer_hash(t->tokenizer);
    t->did->token_bytes = t->did->vocab <= U16_VOCAB ? 2 : 4;
    ZR_CHECK(a->format == ZR_TOKENS_LLMC || t->did->token_bytes == 2, ZR_ERR_ARG,
             "the format nanogpt has tokens below 65536, and the tokenizer has %lld; take llmc",
             (long long)t->did->vocab);
    t->between = -1;
    if (a->eot) ZR_TRY(find_between(t));
    ZR_TRY(open_texts(t));
    t->at = a->format == ZR_TOKENS_LLMC ? ZR_LLMC_HEADER_BYTES : 0;
    return ZR_OK;
}

/* Check that an existing output is a token file: without a header it is known by its name alone, and no other file may
 * be overwritten. */
static zr_status check_headerless(const tokenizing *t)
{
    struct stat info;
    zr_data *data = NULL;
    const char *out = t->args->out;
    if (t->args->format != ZR_TOKENS_NANOGPT || stat(out, &info) != 0) return ZR_OK;
    if (info.st_size == 0 || info.st_size == SINGLE_BYTES) return ZR_OK;
    zr_status st = zr_data_open(out, NULL, U16_VOCAB, 1, ZR_SEQUENTIAL, 0, &data);
    bool same = st == ZR_OK && strcmp(zr_data_get_info(data).format, "uint16") == 0;
    zr_data_close(&data);
    ZR_CHECK(same, ZR_ERR_CREATE, "%s is there, and no file of tokens of the format nanogpt: name another file%s%s",
             ZR_SHOWN(out), st == ZR_OK ? "" : "; ", st == ZR_OK ? "" : zr_error_message());
    return ZR_OK;
}

static zr_status check_output(tokenizing *t)
{
    /* The first bytes of the format: a magic number for llm.c; nanoGPT's files are known by their name alone. */
    unsigned char header[ZR_LLMC_HEADER_BYTES];
    char magic[5] = "";
    ZR_TRY(zr__llmc_header(t->did->token_bytes, 0, header));
    if (t->args->format == ZR_TOKENS_LLMC) memcpy(magic, header, 4);
    const zr__output_kind kind = {"file of tokens", magic, false};
    t->inputs[0] = t->args->tokenizer;
    for (int i = 0; i < t->args->n_texts; i++) t->inputs[i + 1] = t->args->text[i];
    ZR_TRY(zr__output_check(t->args->out, &kind, t->inputs));
    ZR_TRY(check_headerless(t));
    return ZR_OK;
}

/* Create the temporary file beside the output, never over an existing file: that may be another command's, or an input
 * that is read. */
static zr_status make_tmp(tokenizing *t)
{
    static const zr__output_kind kind = {"temporary file", "", false};
    struct stat info;
    int n = snprintf(t->tmp, sizeof(t->tmp), "%s.tmp", t->args->out);
    ZR_CHECK(n > 0 && n < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is too long; choose a shorter one", t->args->out);
    ZR_TRY(zr__output_check(t->tmp, &kind, t->inputs));
    bool there = lstat(t->tmp, &info) == 0;
    zr_status st = zr__file_create(t->tmp, &t->out);
    ZR_CHECK(st == ZR_OK, st, "%s%s", zr_error_message(),
             there ? "; a command that makes it is running, or was ended: then remove it" : "");
    return ZR_OK;
}

static zr_status write_all(tokenizing *t)
{
    ZR_TRY(tokenize_texts(t));
    ZR_TRY(write_header(t));
    ZR_TRY(zr__file_sync(&t->out));
    return zr__file_commit(t->tmp, t->args->out);
}

static zr_status tokenize(tokenizing *t)
{
    ZR_TRY(settle(t));
    ZR_TRY(check_output(t));
    ZR_TRY(make_tmp(t));
    zr_status st = write_all(t);
    zr__file_close(&t->out);
    if (st != ZR_OK) unlink(t->tmp);
    return st;
}

static zr_status check_args(const zr__tokenize_args *a)
{
    size_t n = strlen(a->out);
    ZR_CHECK(a->n_texts >= 1 && a->n_texts <= ZR_TOKENIZE_TEXTS, ZR_ERR_ARG, "%d texts, 1 to %d are possible",
             a->n_texts, ZR_TOKENIZE_TEXTS);
    ZR_CHECK(a->threads >= 0 && a->threads <= ZR_TOKENIZE_THREADS, ZR_ERR_ARG, "%d threads, 1 to %d are possible",
             a->threads, ZR_TOKENIZE_THREADS);
    ZR_CHECK(a->format == ZR_TOKENS_LLMC || (n > 4 && strcmp(a->out + n - 4, ".bin") == 0), ZR_ERR_ARG,
             "a file of the format nanogpt is known by its name alone, which must end in .bin");
    return ZR_OK;
}

zr_status zr__tokenize(const zr__tokenize_args *args, zr__tokenized *did)
{
    ZR_CHECK(args && args->tokenizer && args->text && args->out && did, ZR_ERR_ARG,
             "zr__tokenize was given a NULL pointer");
    ZR_TRY(check_args(args));
    *did = (zr__tokenized){0};
    tokenizing *t = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory to tokenize");
    t->args = args;
    t->did = did;
    t->out.fd = -1;
    zr_status st = tokenize(t);
    zr_tokenizer_close(&t->tokenizer);
    zr__texts_close(&t->texts);
    zr_free(t);
    return st;
}
