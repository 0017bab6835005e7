#include "base/shards.h"
#include "train/evaluate.h"
#include "train/inputs.h"
#include "train/load.h"
#include "train/paths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows of a batch are chosen so that it has about so many tokens: enough for matrix products, little memory. */
#define BATCH_TOKENS 1024

static zr_status find_val(void *arg, const char *path, char found[PATH_MAX])
{
    const zr__loaded *loaded = arg;
    return zr__run_path_find(loaded->config, loaded->stored.run, "data.val", path, found);
}

static zr_status open_path(const zr__loaded *loaded, const char *path, int64_t seq, zr_data **data)
{
    int64_t vocab = loaded->model.sizes.vocab_size;
    bool text = false;
    char tokenizer[PATH_MAX];
    zr_data_args args = {.path = path, .vocab_size = vocab, .seq_length = seq};
    if (loaded->config) zr__data_keys(loaded->config, &args);
    if (loaded->config) ZR_TRY(zr__run_tokenizer_find(loaded->config, loaded->stored.run, tokenizer, &args.tokenizer));
    ZR_TRY(zr_data_look(path, &text, NULL, 0));
    ZR_CHECK(args.tokenizer || vocab == ZR__BYTES_VOCAB || !text, ZR_ERR_UNSUPPORTED,
             "%s is text, but the model has %lld tokens and no tokenizer of that size is built in (\"bytes\" has %d); "
             "give a token file",
             path, (long long)vocab, ZR__BYTES_VOCAB);
    ZR_TRY(zr_data_open_with(&args, data));
    return ZR_OK;
}

static zr_status open_data(const zr__loaded *loaded, const char *path, int64_t seq, zr_data **data)
{
    char *found = NULL;
    if (!path && loaded->config && loaded->config->data.val) {
        ZR_TRY(zr__shards_each(loaded->config->data.val, find_val, (void *)loaded, &found));
        path = found;
    }
    ZR_CHECK(path, ZR_ERR_ARG, "there is nothing to evaluate on: %s; add --data FILE",
             loaded->config ? "the run had no data.val" : "a Hugging Face directory names no text");
    zr_status st = open_path(loaded, path, seq, data);
    zr_free(found);
    return st;
}

/* Who is told, in tokens. */
typedef struct teller {
    const zr_eval_args *args;
    int64_t seq, windows;
} teller;

static zr_status tell(void *arg, int64_t windows)
{
    const teller *t = arg;
    t->args->progress(t->args->arg, windows * t->seq, t->windows * t->seq);
    return ZR_OK;
}

/** How much of the file is wanted. */
static int64_t wanted_windows(const zr__loaded *loaded, const zr_data *data, int64_t batches)
{
    int64_t windows = zr_data_windows(data), batch = 1;
    if (loaded->config && loaded->config->train_batch_size > 0) batch = loaded->config->train_batch_size;
    return batches > 0 && batches <= windows / batch ? batches * batch : windows;
}

static zr_status evaluate(zr__loaded *loaded, zr_data *data, int64_t seq, const zr_eval_args *args,
                          zr_eval_result *result)
{
    zr_layout layout = ZR_LAYOUT_INIT;
    layout.train = false;
    layout.seq = seq;
    layout.batch = seq < BATCH_TOKENS ? BATCH_TOKENS / seq : 1;
    int64_t windows = wanted_windows(loaded, data, args->batches);
    if (layout.batch > windows) layout.batch = windows;
    const zr__eval_text text = {loaded->model.family, data, windows};
    teller t = {args, seq, windows};
    const zr__eval_watch watch = {tell, &t};
    ZR_TRY(zr__load_start(loaded, &layout, args->threads));
    zr__eval_part part;
    ZR_TRY(zr__evaluate(loaded->engine, loaded->comm, &loaded->plan->layout, &text, args->progress ? &watch : NULL,
                        &part));
    ZR_TRY(part.data);
    ZR_TRY(zr__evaluate_mean(loaded->comm, &part, &result->loss, &result->tokens));
    ZR_CHECK(isfinite(result->loss), ZR_ERR_DIVERGED,
             "the loss of these weights on this file is %g: they are of no use", result->loss);
    zr_data_info info = zr_data_get_info(data);
    snprintf(result->data, sizeof(result->data), "%s", info.path);
    snprintf(result->note, sizeof(result->note), "%s", info.skipped_lines > 0 ? info.note : "");
    result->params = loaded->plan->params;
    result->perplexity = exp(result->loss);
    result->bits_per_byte = info.bytes_per_token > 0.0 ? result->loss / log(2.0) / info.bytes_per_token : NAN;
    return ZR_OK;
}

zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result)
{
    zr__loaded loaded;
    zr_data *data = NULL;
    zr_status st = ZR_OK;
    ZR_CHECK(dir && args && result, ZR_ERR_ARG, "zr_eval_dir was given a NULL pointer");
    ZR_TRY(zr__load_open(dir, &loaded));
    int64_t seq = loaded.config ? loaded.config->data.seq_length : 0;
    if (seq <= 0 || seq > loaded.model.sizes.n_positions) seq = loaded.model.sizes.n_positions;
    ZR_TRY_GOTO(st, open_data(&loaded, args->data, seq, &data), done);
    ZR_TRY_GOTO(st, evaluate(&loaded, data, seq, args, result), done);
done:
    zr_data_close(&data);
    zr__load_close(&loaded);
    return st;
}
