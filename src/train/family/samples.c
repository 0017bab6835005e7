#include "train/family/samples.h"

#include "data/pairs/pairs.h"
#include "data/samples/samples.h"
#include "train/family/inputs.h"
#include "zr/run.h"

void zr__samples_layout(const zr_family *family, const zr_config *config, zr_layout *layout)
{
    zr_pairs_args args = {.seq_length = layout->seq};
    const bool pairs = family->samples == ZR_SAMPLES_PAIRS;
    if (pairs) zr__pairs_keys(config, &args);
    layout->documents = pairs || (config && config->data.packing == ZR_PACKING_WHOLE);
    layout->predictions = args.predictions;
    layout->samples = args.samples;
}

int64_t zr__pairs_predictions(int64_t seq)
{
    return (3 * seq + 19) / 20;
}

void zr__pairs_keys(const zr_config *config, zr_pairs_args *args)
{
    args->predictions = config ? config->data.max_predictions : zr__pairs_predictions(args->seq_length);
    args->samples = config ? config->data.max_samples : 1;
    args->masked_lm_prob = config ? config->data.masked_lm_prob : 0.15;
    args->short_seq_prob = config ? config->data.short_seq_prob : 0.1;
    args->whole_words = config && config->data.whole_words;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zr_status open_pairs(const zr_config *config, const zr_data_args *like, zr_pairs **pairs)
{
    zr_pairs_args args = {.path = like->path,
                          .vocab_size = like->vocab_size,
                          .seq_length = like->seq_length,
                          .order = like->order,
                          .seed = like->seed,
                          .tokenizer = like->tokenizer,
                          .cache_dir = like->cache_dir,
                          .cache_is_whole = like->cache_is_whole,
                          .progress = like->progress,
                          .arg = like->arg};
    zr__pairs_keys(config, &args);
    return zr_pairs_open(&args, pairs);
}

zr_status zr__samples_open(const zr_config *config, const char *path, zr_data_order order, bool first,
                           zr_progress_fn progress, void *arg, zr__samples *samples)
{
    zr_data_args args = {.path = path,
                         .vocab_size = zr_config_sizes(config).vocabulary,
                         .seq_length = config->data.seq_length,
                         .order = order,
                         .seed = (uint64_t)config->train.seed,
                         .cache_is_whole = !first,
                         .progress = progress,
                         .arg = arg};
    *samples = (zr__samples){0};
    zr__data_keys(config, &args);
    if (config->model.family->samples == ZR_SAMPLES_PAIRS) return open_pairs(config, &args, &samples->pairs);
    return zr_data_open_with(&args, &samples->tokens);
}

void zr__samples_close(zr__samples *samples)
{
    zr_data_close(&samples->tokens);
    zr_pairs_close(&samples->pairs);
}

bool zr__samples_are_open(const zr__samples *samples)
{
    return samples->tokens || samples->pairs;
}

/* ---- facts ----------------------------------------------------------------------------------- */

zr_data_info zr__samples_info(const zr__samples *samples)
{
    if (samples->tokens) return zr_data_get_info(samples->tokens);
    const zr_pairs_info info = zr_pairs_get_info(samples->pairs);
    return (zr_data_info){.path = info.path,
                          .format = info.format,
                          .note = info.note,
                          .cut = "",
                          .made_again = "",
                          .files = info.files,
                          .sources = 1,
                          .bytes = info.bytes,
                          .tokens = info.tokens,
                          .windows = info.rows,
                          .epoch_samples = info.rows,
                          .documents = info.documents,
                          .filled = info.filled};
}

bool zr__samples_take_time(const zr__samples *samples)
{
    const bool made = samples->pairs && zr_pairs_get_info(samples->pairs).sentences > 0;
    return made || zr__samples_info(samples).bytes > ZR_TRAIN_AHEAD_BYTES;
}

int64_t zr__samples_memory_bytes(const zr__samples *samples)
{
    return samples->pairs ? zr_pairs_get_info(samples->pairs).memory_bytes : 0;
}

zr_status zr__samples_check(const zr__samples *samples, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    return samples->pairs ? zr__pairs_check(samples->pairs, hash, fn, arg)
                          : zr__data_check(samples->tokens, hash, fn, arg);
}

/* ---- rows ------------------------------------------------------------------------------------ */

zr_status zr__samples_read(void *source, int64_t index, const zr__row *row)
{
    const zr__samples *samples = source;
    if (samples->pairs) return zr_pairs_read(samples->pairs, index, &row->pairs);
    ZR_TRY(zr_data_sample(samples->tokens, index, row->tokens, row->targets));
    return row->documents ? zr_data_documents(samples->tokens, row->documents) : ZR_OK;
}

zr_status zr__samples_window(void *source, int64_t index, const zr__row *row)
{
    const zr__samples *samples = source;
    if (samples->pairs) return zr_pairs_read(samples->pairs, index, &row->pairs);
    ZR_TRY(zr_data_window(samples->tokens, index, row->tokens, row->targets));
    return row->documents ? zr_data_documents(samples->tokens, row->documents) : ZR_OK;
}

zr_status zr__samples_count(const zr__samples *samples, const zr_layout *layout, int64_t index, int64_t *counted)
{
    const int64_t all[ZR_PAIRS_TERMS] = {layout->predictions, layout->samples};
    int64_t its[ZR_PAIRS_TERMS];
    ZR_TRY(zr_pairs_count(samples->pairs, index, its));
    for (int t = 0; t < ZR_PAIRS_TERMS; t++) counted[t] -= all[t] - its[t];
    return ZR_OK;
}
