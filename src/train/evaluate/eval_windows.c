/* Windows of a text for an evaluation, with the text length of their targets. */
#include "train/evaluate/evaluate.h"

#include "train/family/inputs.h"

#include "data/samples/samples.h"
#include "train/family/paths.h"

#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

static zr_status open_eval_data(const zr__loaded *loaded, const zr__eval_data *data, const zr_eval_args *how,
                                zr__eval_windows *w)
{
    const char *path = data->path;
    char found[PATH_MAX], cache[PATH_MAX];
    const char *name = NULL;
    bool text = false, said = loaded->config && loaded->config->data.tokenizer;
    int64_t vocab = loaded->model.sizes.vocabulary;
    zr_data_args args = {.path = path, .vocab_size = vocab, .seq_length = w->seq, .part = data->part};
    if (loaded->config) zr__data_keys(loaded->config, &args);
    if (loaded->config) ZR_TRY(zr__run_cache_find(loaded->config, loaded->stored.run, cache, &args.cache_dir));
    if (how->as_text) args.as_text = true;
    if (how->token_bytes) args.token_bytes = (int)how->token_bytes;
    if (how->columns) args.columns = how->columns;
    if (how->chat_template) args.chat_template = how->chat_template;
    ZR_TRY(zr__load_tokenizer(loaded, found, &name));
    ZR_TRY(zr__data_look(path, args.as_text, &text, NULL, 0));
    ZR_CHECK(!text || name, ZR_ERR_UNSUPPORTED,
             "%s is text, but the model has %lld tokens and no tokenizer: put its tokenizer.json, or vocab.json and "
             "merges.txt, into %s, or give a token file",
             path, (long long)vocab, loaded->stored.path);
    if (text || said) args.tokenizer = name;
    zr_status opened = zr_data_open_with(&args, &w->data);
    if (opened == ZR_ERR_UNSUPPORTED && args.packing != ZR_PACK_AUTO) {
        /* The run was trained on lines. If this file has no lines, it is read in windows. */
        args.packing = ZR_PACK_AUTO;
        args.documents = false;
        opened = zr_data_open_with(&args, &w->data);
    }
    ZR_TRY(opened);
    w->documents = args.documents && !w->strides;
    /* For a token file, do not use the tokenizer "bytes" if it was only inferred from a vocabulary of 256 tokens. */
    if (!text && !said && (!name || strcmp(name, "bytes") == 0)) return ZR_OK;
    zr_status st = zr_tokenizer_open(name, &w->tokenizer);
    /* A token file can be read without its tokenizer, but the number of text bytes is then unknown. */
    return st == ZR_ERR_DATA && !text ? ZR_OK : st;
}

zr_status zr__eval_windows_open(const zr__loaded *loaded, const zr__eval_data *data, int64_t seq,
                                const zr_eval_args *args, zr__eval_windows *w)
{
    const char *path = data->path;
    const int64_t stride = args->stride;
    *w = (zr__eval_windows){.seq = seq, .stride = stride ? stride : seq, .strides = stride != 0};
    ZR_CHECK(stride >= 0 && stride <= seq, ZR_ERR_ARG,
             "a stride of %lld tokens; windows have %lld, so 1 .. %lld are possible", (long long)stride, (long long)seq,
             (long long)seq);
    ZR_CHECK(args->token_bytes == 0 || args->token_bytes == 2 || args->token_bytes == 4, ZR_ERR_ARG,
             "tokens of %lld bytes; 2 (uint16) and 4 (uint32) are possible", (long long)args->token_bytes);
    ZR_TRY(open_eval_data(loaded, data, args, w));
    w->info = zr_data_get_info(w->data);
    ZR_CHECK(!w->strides || !w->info.answers_only, ZR_ERR_UNSUPPORTED,
             "%s (%s): a stride is for texts; without it each window is one line", path, w->info.format);
    w->targets = w->strides ? w->info.tokens - 1 : w->info.windows * seq;
    w->bytes = w->tokenizer ? 0 : -1;
    w->window = zr_alloc((size_t)(seq + 1) * sizeof(*w->window));
    ZR_CHECK(w->window, ZR_ERR_MEMORY, "no memory for %lld tokens", (long long)seq + 1);
    ZR_CHECK(w->info.sources == 1 || !w->strides, ZR_ERR_UNSUPPORTED,
             "%s: each of the %lld sources has its own windows; a stride works only with one source", path,
             (long long)w->info.sources);
    return ZR_OK;
}

void zr__eval_windows_close(zr__eval_windows *w)
{
    zr_data_close(&w->data);
    zr_free(w->window);
    w->window = NULL;
    zr_tokenizer_close(&w->tokenizer);
}

/* ---- reading --------------------------------------------------------------------------------- */

int64_t zr__eval_windows_count(const zr__eval_windows *w)
{
    return 1 + (w->targets - w->seq + w->stride - 1) / w->stride;
}

int64_t zr__eval_windows_targets(const zr__eval_windows *w, int64_t count)
{
    const int64_t targets = w->seq + (count - 1) * w->stride;
    return targets < w->targets ? targets : w->targets;
}

/* Add the text length of the targets in bytes to w->bytes. Set w->bytes to -1 (unknown) if a target has no text, for
 * example if the model's vocabulary is larger than the tokenizer's. */
static void count_bytes(zr__eval_windows *w, const int32_t *targets)
{
    for (int64_t t = 0; w->bytes >= 0 && t < w->seq; t++) {
        const char *text = NULL;
        int64_t bytes = 0;
        if (targets[t] < 0) continue;
        bool known = targets[t] < zr_tokenizer_vocab(w->tokenizer) &&
                     zr_tokenizer_decode(w->tokenizer, targets[t], &text, &bytes) == ZR_OK;
        w->bytes = known ? w->bytes + bytes : -1;
    }
}

/* Read a window of an evaluation with a stride. Positions after the last target are padded. The targets of padded
 * positions do not count, and no earlier token attends to these positions. */
static zr_status read_strided(zr__eval_windows *w, int64_t window, int32_t *tokens, int32_t *targets)
{
    const int64_t first = window * w->stride, left = w->targets - first, n = left < w->seq ? left : w->seq;
    ZR_TRY(zr_data_read(w->data, first, n + 1, w->window));
    for (int64_t t = 0; t < w->seq; t++) {
        tokens[t] = t < n ? w->window[t] : 0;
        targets[t] = t < n ? w->window[t + 1] : -1;
    }
    /* Exclude targets that an earlier window has counted. In this window they are only context. */
    for (int64_t t = 0; window > 0 && t < w->seq - w->stride; t++) targets[t] = -1;
    return ZR_OK;
}

zr_status zr__eval_windows_read(void *windows, int64_t window, const zr__row *row)
{
    zr__eval_windows *w = windows;
    ZR_TRY(w->strides ? read_strided(w, window, row->tokens, row->targets)
                      : zr__samples_window(&(zr__samples){.tokens = w->data}, window, row));
    count_bytes(w, row->targets);
    return ZR_OK;
}
