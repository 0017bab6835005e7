/* Evaluation of the weights of a directory: finds weights and data, and chooses the way to evaluate them. */
#include "train/evaluate/evaluate.h"

#include "base/paths/shards.h"
#include "train/family/paths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static zr_status find_val(void *arg, const char *path, char found[PATH_MAX])
{
    const zr__loaded *loaded = arg;
    return zr__run_path_find(loaded->config, loaded->stored.run, "data.val", path, found);
}

/* Find the evaluation data: the data of `args` or, if `args` has none, the data of the run. *path is borrowed from
 * `args` or from *found, which must be freed. */
static zr_status find_data(const zr__loaded *loaded, const zr_eval_args *args, char **found, const char **path)
{
    *path = args->data;
    if (!*path && loaded->config && loaded->config->data.val) {
        ZR_TRY(zr__shards_each(loaded->config->data.val, find_val, (void *)loaded, found));
        *path = *found;
    }
    ZR_CHECK(*path, ZR_ERR_ARG, "there is nothing to evaluate on: %s; add --data FILE",
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
    const zr_data_info *info = &windows->info;
    const char *notes[] = {info->form, info->note, info->cut, info->made_again};
    size_t used = 0;
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]) && used < sizeof(result->note); i++)
        if (notes[i][0])
            used +=
                (size_t)snprintf(result->note + used, sizeof(result->note) - used, "%s%s", used ? "; " : "", notes[i]);
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
    const size_t used = strlen(result->note);
    snprintf(result->note + used, sizeof(result->note) - used,
             "%swindows of %d tokens, although the model has %lld positions; --seq gives another length",
             used ? "; " : "", ZR_EVAL_SEQ, (long long)loaded->model.sizes.positions);
}

zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result)
{
    ZR_AUTO(zr__load_close) zr__loaded loaded = {0};
    ZR_AUTO(zr__eval_windows_close) zr__eval_windows windows = {0};
    int64_t seq = 0;
    bool note = false;
    ZR_AUTO_FREE char *found = NULL;
    const char *path = NULL;
    ZR_CHECK(dir && args && result, ZR_ERR_ARG, "zr_eval_dir was given a NULL pointer");
    ZR_TRY(zr__load_open(dir, &loaded));
    ZR_TRY(window_length(&loaded, args, &seq, &note));
    ZR_TRY(find_data(&loaded, args, &found, &path));
    result->accuracy = result->masked_lm_accuracy = result->exact = result->f1 = NAN;
    const bool encoder = zr__family_samples(&loaded.model) != ZR_SAMPLES_NEXT;
    ZR_CHECK(!encoder || (!args->as_text && !args->token_bytes && !args->columns && !args->chat_template), ZR_ERR_ARG,
             "--as-text, --token-bytes, --columns and --chat-template are for decoders, and these weights are an "
             "encoder's");
    if (encoder) {
        ZR_TRY(zr__evaluate_samples(&loaded, path, seq, args, result));
    } else {
        ZR_TRY(zr__eval_windows_open(&loaded, path, seq, args, &windows));
        ZR_TRY(evaluate_windows(&loaded, &windows, args, result));
    }
    if (note) note_length(&loaded, result);
    return ZR_OK;
}
