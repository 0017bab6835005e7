/* Evaluation of the weights of a directory: finds weights and data, and chooses the way to evaluate them. */
#include "train/evaluate/evaluate.h"

#include "base/paths/shards.h"
#include "config/config.h"
#include "train/family/paths.h"
#include "train/family/samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static zr_status find_val(void *arg, const char *path, char found[PATH_MAX])
{
    const zr__loaded *loaded = arg;
    const char *key = zr__config_val_share(loaded->config) > 0 ? "data.train" : "data.val";
    return zr__run_path_find(loaded->config, loaded->stored.run, key, path, found);
}

/* Find the evaluation data: the data of `args` or, if `args` has none, the data of the run. data->path is borrowed from
 * `args` or from *found, which must be freed. */
static zr_status find_data(const zr__loaded *loaded, const zr_eval_args *args, char **found, zr__eval_data *data)
{
    const zr_config *config = loaded->config;
    *data = (zr__eval_data){.path = args->data};
    if (!data->path && config && config->data.val) {
        data->part = zr__samples_part(config, true);
        ZR_TRY(zr__shards_each(data->part.share > 0 ? config->data.train : config->data.val, find_val, (void *)loaded,
                               found));
        data->path = *found;
    }
    ZR_CHECK(data->path, ZR_ERR_ARG, "there is nothing to evaluate on: %s; add --data FILE",
             loaded->config ? "the run had no data.val" : "a Hugging Face directory names no text");
    return ZR_OK;
}

/* Argument of the callbacks that report the progress of an evaluation in tokens. */
typedef struct teller {
    const zr_eval_args *args;
    const zr__eval_windows *windows;
    int64_t count;
} teller;

static zr_status tell_targets(void *arg, int64_t count)
{
    const teller *t = arg;
    t->args->progress(t->args->arg, zr__eval_windows_targets(t->windows, count),
                      zr__eval_windows_targets(t->windows, t->count));
    return ZR_OK;
}

/** Limit the evaluation to the first `batches` training batches of the file. If `batches` is 0, do not limit it. */
static void limit_windows(const zr__loaded *loaded, zr__eval_windows *windows, int64_t batches)
{
    int64_t batch = windows->seq;
    if (loaded->config && loaded->config->train_batch_size > 0) batch *= loaded->config->train_batch_size;
    if (batches > 0 && batches <= windows->targets / batch) windows->targets = batches * batch;
}

static zr_status evaluate_windows(zr__loaded *loaded, zr__eval_windows *windows, const zr_eval_args *args,
                                  zr_eval_result *result)
{
    zr_layout layout = zr_layout_default();
    int64_t seq = windows->seq;
    layout.train = false;
    layout.documents = windows->documents;
    layout.seq = seq;
    layout.batch = zr__eval_batch_rows(seq);
    limit_windows(loaded, windows, args->batches);
    const int64_t count = zr__eval_windows_count(windows);
    if (layout.batch > count) layout.batch = count;
    const zr__eval_text text = {
        .kind = ZR_SAMPLES_NEXT, .source = windows, .read = zr__eval_windows_read, .windows = count};
    teller t = {args, windows, count};
    const zr__eval_watch watch = {tell_targets, &t};
    ZR_TRY(zr__evaluate_text(loaded, &layout, &text, args->progress ? &watch : NULL, args->threads, windows->info.path,
                             result));
    ZR_CHECK(result->tokens > 0, ZR_ERR_DATA, "%s: no window of %lld tokens has a target that counts",
             windows->info.path, (long long)seq);
    zr__eval_note(result, windows->info.form);
    zr__eval_note(result, windows->info.note);
    zr__eval_note(result, windows->info.cut);
    zr__eval_note(result, windows->info.made_again);
    result->stride = windows->stride;
    result->bytes = windows->bytes;
    double bytes_per_token = (double)windows->bytes / (double)result->tokens;
    result->bits_per_byte = windows->bytes > 0 ? result->loss / log(2.0) / bytes_per_token : NAN;
    return ZR_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Find the length of a window. *note receives whether zr has chosen a shorter length than the model's. */
static zr_status window_length(const zr__loaded *loaded, const zr_eval_args *args, int64_t *seq, bool *note)
{
    const int64_t most = loaded->model.sizes.positions, own = loaded->config ? loaded->config->data.seq_length : 0;
    ZR_CHECK(args->seq >= 0 && args->seq <= most, ZR_ERR_ARG,
             "windows of %lld tokens; the model has %lld positions, so 1 .. %lld are possible", (long long)args->seq,
             (long long)most, (long long)most);
    *seq = args->seq > 0 ? args->seq : own > 0 && own <= most ? own : most;
    *note = args->seq == 0 && own <= 0 && most > ZR_EVAL_SEQ;
    if (*note) *seq = ZR_EVAL_SEQ;
    return ZR_OK;
}

/* Add to the note that zr has chosen the length of windows. */
static void note_length(const zr__loaded *loaded, zr_eval_result *result)
{
    char text[128];
    snprintf(text, sizeof(text),
             "windows of %d tokens, although the model has %lld positions; --seq gives another length", ZR_EVAL_SEQ,
             (long long)loaded->model.sizes.positions);
    zr__eval_note(result, text);
}

zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result)
{
    ZR_AUTO(zr__load_close) zr__loaded loaded = {0};
    ZR_AUTO(zr__eval_windows_close) zr__eval_windows windows = {0};
    int64_t seq = 0;
    bool note = false;
    ZR_AUTO_FREE char *found = NULL;
    zr__eval_data data;
    ZR_CHECK(dir && args && result, ZR_ERR_ARG, "zr_eval_dir was given a NULL pointer");
    ZR_TRY(zr__load_open(dir, &loaded));
    ZR_TRY(window_length(&loaded, args, &seq, &note));
    ZR_TRY(find_data(&loaded, args, &found, &data));
    result->note[0] = '\0';
    result->accuracy = result->masked_lm_accuracy = result->exact = result->f1 = NAN;
    result->precision = result->recall = NAN;
    result->lack = -1;
    const bool encoder = zr__family_samples(&loaded.model) != ZR_SAMPLES_NEXT;
    ZR_CHECK(!encoder || (!args->as_text && !args->token_bytes && !args->columns && !args->chat_template), ZR_ERR_ARG,
             "--as-text, --token-bytes, --columns and --chat-template are for decoders, and these weights are an "
             "encoder's");
    if (encoder) {
        ZR_TRY(zr__evaluate_samples(&loaded, &data, seq, args, result));
    } else {
        ZR_TRY(zr__eval_windows_open(&loaded, &data, seq, args, &windows));
        ZR_TRY(evaluate_windows(&loaded, &windows, args, result));
        if (data.part.share > 0)
            zr__eval_note(result, zr__samples_held_out(loaded.config, &(zr__samples){.tokens = windows.data},
                                                       (char[ZR__HELD_OUT_BYTES]){0}));
    }
    if (note) note_length(&loaded, result);
    return ZR_OK;
}
