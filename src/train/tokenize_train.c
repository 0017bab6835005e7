/* A tokenizer learned from texts, as a directory of its own. */
#include "train/new_dir.h"
#include "train/tokenizer_files.h"
#include "train/windows.h"
#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/train.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW_BYTES = 1 << 20 };

static int64_t cut(void *arg, const char *text, int64_t from, int64_t bytes)
{
    return zr_tokenizer_trainer_cut(arg, text, from, bytes);
}

static zr_status use(void *arg, const char *text, int64_t bytes)
{
    return zr_tokenizer_trainer_add(arg, text, bytes);
}

static zr_status count_pieces(const zr_tokenize_train_args *args, zr_tokenizer_trainer *trainer, zr_tokenized *did)
{
    zr__windows w = {.cut = cut, .use = use, .arg = trainer, .progress = args->progress, .progress_arg = args->arg};
    zr_status st = zr__windows_open(&w, args->text, args->n_texts, WINDOW_BYTES);
    for (int i = 0; i < args->n_texts && st == ZR_OK; i++) st = zr__windows_read(&w, i);
    did->bytes = w.all_bytes;
    snprintf(did->note, sizeof(did->note), "%s", w.note);
    zr__windows_close(&w);
    return st;
}

static zr_status learn(const zr_tokenize_train_args *args, char **json, zr_tokenized *did)
{
    zr_tokenizer_trainer *trainer = NULL;
    ZR_TRY(zr_tokenizer_trainer_open(&trainer));
    zr_status st = count_pieces(args, trainer, did);
    if (st == ZR_OK) st = zr_tokenizer_trainer_learn(trainer, args->vocab, json, &did->vocab);
    zr_tokenizer_trainer_close(&trainer);
    return st;
}

/* What is written is what the learned tokenizer is: it is read back before it gets its name. */
static zr_status write_files(const char *tmp, const char *json, zr_tokenized *did)
{
    zr_tokenizer *tokenizer = NULL;
    ZR_TRY(zr__tokenizer_files_write(tmp, json, true));
    ZR_TRY(zr_tokenizer_open(tmp, &tokenizer));
    did->hash = zr_tokenizer_hash(tokenizer);
    const bool whole = zr_tokenizer_vocab(tokenizer) == did->vocab;
    zr_tokenizer_close(&tokenizer);
    ZR_ASSERT(whole);
    return ZR_OK;
}

static zr_status make_dir(const char *out, const char *json, zr_tokenized *did)
{
    char name[PATH_MAX], tmp[PATH_MAX];
    ZR_TRY(zr__new_dir_begin(out, name, tmp));
    zr_status st = write_files(tmp, json, did);
    if (st == ZR_OK) st = zr_dir_commit(tmp, name);
    if (st != ZR_OK) {
        zr__tokenizer_files_remove(tmp, NULL);
        rmdir(tmp);
    }
    return st;
}

static zr_status check_out(const char *out)
{
    DIR *dir = opendir(out);
    int entries = 0;
    ZR_CHECK(dir || errno == ENOENT, ZR_ERR_CREATE, "%s is there and no directory that can be read: %s; name another",
             out, strerror(errno));
    if (!dir) return ZR_OK;
    while (readdir(dir)) entries++;
    closedir(dir);
    ZR_CHECK(entries <= 2, ZR_ERR_CREATE, "the directory %s is not empty; name another, or remove what is in it", out);
    return ZR_OK;
}

zr_status zr_tokenize_train(const zr_tokenize_train_args *args, zr_tokenized *did)
{
    char *json = NULL;
    ZR_CHECK(args && args->text && args->out && did, ZR_ERR_ARG, "zr_tokenize_train was given a NULL pointer");
    ZR_CHECK(args->n_texts >= 1 && args->n_texts <= ZR_TOKENIZE_TEXTS, ZR_ERR_ARG, "%d texts, 1 to %d are possible",
             args->n_texts, ZR_TOKENIZE_TEXTS);
    *did = (zr_tokenized){0};
    ZR_TRY(check_out(args->out));
    zr_status st = learn(args, &json, did);
    if (st == ZR_OK) st = make_dir(args->out, json, did);
    zr_free(json);
    return st;
}
