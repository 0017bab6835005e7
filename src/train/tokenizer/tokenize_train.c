/* Training of a tokenizer on texts, written to a directory of its own. */
#include "checkpoint/checkpoint.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/texts.h"
#include "train/dir/new_dir.h"
#include "train/tokenizer/tokenize.h"
#include "train/tokenizer/tokenizer_files.h"
#include "zr/data.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static zr_status count_pieces(const zr__tokenize_train_args *args, zr__tokenizer_trainer *trainer, zr__tokenized *did)
{
    const zr__texts_args wanted = {.path = args->text,
                                   .n = args->n_texts,
                                   .text_key = args->text_key,
                                   .skip_bad_lines = args->skip_bad_lines,
                                   .progress = args->progress,
                                   .arg = args->arg};
    zr__texts *texts = NULL;
    ZR_TRY(zr__texts_open(&wanted, &texts));
    zr_status st = zr__texts_learn(texts, trainer);
    const zr__texts_info info = zr__texts_get_info(texts);
    did->bytes = info.text_bytes;
    did->documents = info.documents;
    did->skipped_lines = info.skipped_lines;
    snprintf(did->note, sizeof(did->note), "%s", info.note);
    zr__texts_close(&texts);
    return st;
}

static zr_status learn(const zr__tokenize_train_args *args, char **json, zr__tokenized *did)
{
    zr__tokenizer_trainer *trainer = NULL;
    ZR_TRY(zr__tokenizer_trainer_open(&trainer));
    zr_status st = count_pieces(args, trainer, did);
    if (st == ZR_OK) st = zr__tokenizer_trainer_learn(trainer, args->vocab, json, &did->vocab);
    zr__tokenizer_trainer_close(&trainer);
    return st;
}

/* Write the tokenizer's files and read them back, before their directory gets its name, to check that the vocabulary is
 * whole. */
static zr_status write_files(const char *tmp, const char *json, zr__tokenized *did)
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

static zr_status make_dir(const char *out, const char *json, zr__tokenized *did)
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

zr_status zr__tokenize_train(const zr__tokenize_train_args *args, zr__tokenized *did)
{
    char *json = NULL;
    ZR_CHECK(args && args->text && args->out && did, ZR_ERR_ARG, "zr__tokenize_train was given a NULL pointer");
    ZR_CHECK(args->n_texts >= 1 && args->n_texts <= ZR_TOKENIZE_TEXTS, ZR_ERR_ARG, "%d texts, 1 to %d are possible",
             args->n_texts, ZR_TOKENIZE_TEXTS);
    *did = (zr__tokenized){0};
    ZR_TRY(check_out(args->out));
    zr_status st = learn(args, &json, did);
    if (st == ZR_OK) st = make_dir(args->out, json, did);
    zr_free(json);
    return st;
}
