#include "train/family/samples.h"

#include "base/text/text.h"
#include "config/config.h"
#include "data/labelled/labelled.h"
#include "data/pairs/pairs.h"
#include "data/samples/samples.h"
#include "train/family/inputs.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>

void zr__samples_layout(zr_samples kind, const zr_config *config, zr_layout *layout)
{
    zr_pairs_args args = {.seq_length = layout->seq};
    const bool encoder = kind != ZR_SAMPLES_NEXT;
    zr__pairs_keys(config, &args);
    layout->documents = encoder || (config && config->data.packing == ZR_PACK_WHOLE);
    layout->predictions = zr__samples_are_masked(kind) ? args.predictions
                          : kind == ZR_SAMPLES_TAGS    ? layout->seq /* each token may be a word */
                                                       : 0;
    layout->samples = encoder ? args.samples : 0;
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

void zr__labelled_keys(const zr_config *config, zr_labelled_args *args)
{
    args->samples = config ? config->data.max_samples : 1;
    args->skip_bad_lines = config && config->data.skip_bad_lines;
    if (config) {
        args->doc_stride = config->data.doc_stride;
        args->max_query_length = config->data.max_query_length;
        return;
    }
    /* Weights alone have no keys that a user could set. Rows that are too short for the usual values, 64 and 128, get
     * smaller ones: a quarter of the row for the question, and windows that overlap by half. */
    const int64_t quarter = args->seq_length / 4;
    args->max_query_length = quarter < 64 ? (quarter > 0 ? quarter : 1) : 64;
    const int64_t window = args->seq_length - args->max_query_length - 3;
    args->doc_stride = window >= 128 ? 128 : window > 1 ? window / 2 : 1;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zr_status open_pairs(const zr_config *config, const zr_data_args *like, zr_pairs **pairs)
{
    zr_pairs_args args = {.path = like->path,
                          .vocab_size = like->vocab_size,
                          .seq_length = like->seq_length,
                          .order = like->order,
                          .seed = like->seed,
                          .part = like->part,
                          .tokenizer = like->tokenizer,
                          .single = zr__config_samples(config) == ZR_SAMPLES_MASKED,
                          .as_text = like->as_text,
                          .cache_dir = like->cache_dir,
                          .cache_is_whole = like->cache_is_whole,
                          .progress = like->progress,
                          .arg = like->arg};
    zr__pairs_keys(config, &args);
    return zr_pairs_open(&args, pairs);
}

zr_labelled_kind zr__labelled_kind(zr_samples kind)
{
    return kind == ZR_SAMPLES_ANSWERS ? ZR_LABELLED_ANSWERS
           : kind == ZR_SAMPLES_TAGS  ? ZR_LABELLED_TAGS
                                      : ZR_LABELLED_CLASSES;
}

zr_status zr__names_split(const char *lines, int64_t n, const char ***names)
{
    const size_t bytes = strlen(lines) + 1, pointers = (size_t)n * sizeof(**names);
    const char **all = zr_alloc(pointers + bytes);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the names of %lld labels", (long long)n);
    char *text = memcpy((char *)all + pointers, lines, bytes);
    for (int64_t i = 0; i < n; i++) {
        const size_t its = strcspn(text, "\n");
        all[i] = text;
        text += its + (text[its] != '\0');
        ((char *)all[i])[its] = '\0';
    }
    *names = all;
    return ZR_OK;
}

zr_status zr__labelled_open(zr_labelled_args *args, const char *given, const char *dir, zr_labelled **labelled)
{
    ZR_AUTO_FREE const char **names = NULL;
    if (given)
        ZR_TRY(zr__names_split(given, args->labels, &names));
    else if (dir && args->kind != ZR_LABELLED_ANSWERS)
        ZR_TRY(zr__hf_label_names(dir, args->labels, &names));
    args->label_names = names;
    return zr_labelled_open(args, labelled);
}

static zr_status open_labelled(const zr_config *config, const zr__family_model *model, const zr_data_args *like,
                               zr_labelled **labelled)
{
    zr_labelled_args args = {.path = like->path,
                             .kind = zr__labelled_kind(zr__family_samples(model)),
                             .vocab_size = like->vocab_size,
                             .seq_length = like->seq_length,
                             .labels = zr__family_labels(model),
                             .order = like->order,
                             .seed = like->seed,
                             .part = like->part,
                             .tokenizer = like->tokenizer,
                             .progress = like->progress,
                             .arg = like->arg};
    zr__labelled_keys(config, &args);
    return zr__labelled_open(&args, config->model.label_names, config->model.init, labelled);
}

zr_data_part zr__samples_part(const zr_config *config, bool held_out)
{
    return (zr_data_part){zr__config_val_share(config), held_out};
}

/** Return the order of rows. An evaluation may read only the first rows of an encoder. If the data are a share of
 * data.train, these rows must come from all its parts. */
static zr_data_order order_of(const zr_config *config, bool val)
{
    const bool mixes = zr__config_val_share(config) > 0 && zr__config_samples(config) != ZR_SAMPLES_NEXT;
    return (val ? mixes : config->data.order == ZR_ORDER_SHUFFLED) ? ZR_SHUFFLED : ZR_SEQUENTIAL;
}

zr_status zr__samples_open(const zr_config *config, bool val, bool first, zr_progress_fn progress, void *arg,
                           zr__samples *samples)
{
    const zr_data_part part = zr__samples_part(config, val);
    zr_data_args args = {.path = val && part.share == 0 ? config->data.val : config->data.train,
                         .part = part,
                         .vocab_size = zr_config_sizes(config).vocabulary,
                         .seq_length = config->data.seq_length,
                         .order = order_of(config, val),
                         .seed = (uint64_t)config->train.seed,
                         .cache_is_whole = !first,
                         .progress = progress,
                         .arg = arg};
    *samples = (zr__samples){.kind = zr__config_samples(config)};
    zr__data_keys(config, &args);
    const zr__family_model model = {.family = config->model.family, .config = config->model.config};
    if (zr__samples_are_masked(samples->kind)) return open_pairs(config, &args, &samples->pairs);
    if (samples->kind != ZR_SAMPLES_NEXT) return open_labelled(config, &model, &args, &samples->labelled);
    return zr_data_open_with(&args, &samples->tokens);
}

zr_status zr__samples_take_source(const zr_config *config, const zr_source *source, zr__samples *samples)
{
    const bool trains = source == config->data.source;
    const char *key = trains ? "data.train" : "data.val", *path = trains ? config->data.train : config->data.val;
    *samples = (zr__samples){.kind = zr__config_samples(config)};
    ZR_CHECK(!trains || zr__config_val_share(config) == 0, ZR_ERR_CONFIG,
             "data.val is %s, a share of data.train, but the program gives the samples; give a file as data.val",
             config->data.val);
    ZR_CHECK(!path, ZR_ERR_CONFIG, "%s is %s, but the program gives samples of its own; leave out one of the two", key,
             ZR_SHOWN(path));
    ZR_CHECK(samples->kind == ZR_SAMPLES_NEXT, ZR_ERR_UNSUPPORTED,
             "a %s learns from more than tokens and targets; give a file as %s", config->model.family->title, key);
    ZR_CHECK(config->data.packing != ZR_PACK_WHOLE, ZR_ERR_UNSUPPORTED,
             "data.packing whole packs the documents of files; leave it out for samples that the program gives");
    samples->made = (zr__made_rows){
        .source = source, .seq = config->data.seq_length, .vocabulary = zr_config_sizes(config).vocabulary};
    if (trains) return ZR_OK;
    ZR_CHECK(source->rows > 0, ZR_ERR_DATA, "data.val: the program gives %lld samples; give one or more",
             (long long)source->rows);
    return zr__samples_begin(samples, 0, source->rows);
}

zr_status zr__samples_begin(zr__samples *samples, int64_t first, int64_t n)
{
    zr__made_rows *made = &samples->made;
    if (!made->source || (made->n == n && made->first == first)) return ZR_OK;
    *made =
        (zr__made_rows){.source = made->source, .seq = made->seq, .vocabulary = made->vocabulary, .stride = made->seq};
    ZR_TRY(made->source->read(made->source->arg, first, n, &made->tokens, &made->targets, &made->stride));
    ZR_CHECK(made->tokens && made->targets, ZR_ERR_DATA, "the program gave no tokens or no targets for sample %lld",
             (long long)first);
    made->first = first;
    made->n = n;
    return ZR_OK;
}

void zr__samples_close(zr__samples *samples)
{
    zr_data_close(&samples->tokens);
    zr_pairs_close(&samples->pairs);
    zr_labelled_close(&samples->labelled);
}

bool zr__samples_are_open(const zr__samples *samples)
{
    return samples->tokens || samples->pairs || samples->labelled || samples->made.source;
}

/* ---- facts ----------------------------------------------------------------------------------- */

/** Facts about an encoder's rows as zr_data_info. `info` is a variable of zr_pairs_info or of zr_labelled_info, which
 * have these members in common. */
#define INFO_OF_ROWS(info)                                                                                             \
    (zr_data_info)                                                                                                     \
    {                                                                                                                  \
        .path = (info).path, .format = (info).format, .note = (info).note, .cut = "", .form = "", .made_again = "",    \
        .files = (info).files, .sources = 1, .bytes = (info).bytes, .tokens = (info).tokens, .windows = (info).rows,   \
        .epoch_samples = (info).rows, .documents = (info).documents, .filled = (info).filled                           \
    }

zr_data_info zr__samples_info(const zr__samples *samples)
{
    if (samples->tokens) return zr_data_get_info(samples->tokens);
    if (samples->made.source)
        return (zr_data_info){.path = "",
                              .format = "samples of the program",
                              .note = "",
                              .cut = "",
                              .form = "",
                              .made_again = "",
                              .filled = 1,
                              .windows = samples->made.source->rows,
                              .tokens = samples->made.source->rows * samples->made.seq};
    if (samples->pairs) {
        const zr_pairs_info info = zr_pairs_get_info(samples->pairs);
        return INFO_OF_ROWS(info);
    }
    const zr_labelled_info info = zr_labelled_get_info(samples->labelled);
    zr_data_info rows = INFO_OF_ROWS(info);
    rows.cut = info.cut;
    rows.cut_documents = info.cut_documents;
    rows.skipped_lines = info.skipped_lines;
    return rows;
}

int64_t zr__samples_units(const zr__samples *samples, const char **unit)
{
    const zr_data_info info = zr__samples_info(samples);
    const bool tokens = samples->tokens && info.documents == 0, rows = samples->pairs && info.documents == 0;
    if (unit)
        *unit = tokens                                ? "tokens"
                : rows                                ? "rows"
                : samples->pairs                      ? "documents"
                : samples->kind == ZR_SAMPLES_ANSWERS ? "questions"
                                                      : "records";
    return tokens ? info.tokens : rows ? info.windows : info.documents;
}

const char *zr__samples_held_out(const zr_config *config, const zr__samples *val, char words[ZR__HELD_OUT_BYTES])
{
    const char *unit;
    const long long n = zr__samples_units(val, &unit);
    const bool last = val->tokens && strcmp(unit, "tokens") == 0;
    snprintf(words, ZR__HELD_OUT_BYTES, "data.val %s: the %s%lld %s of data.train are held out of training",
             config->data.val, last ? "last " : "", n, unit);
    return words;
}

bool zr__samples_take_time(const zr__samples *samples)
{
    if (samples->labelled || samples->made.source) return false; /* the samples are in memory */
    const bool made = samples->pairs && zr_pairs_get_info(samples->pairs).sentences > 0;
    return made || zr__samples_info(samples).bytes > ZR_TRAIN_AHEAD_BYTES;
}

int64_t zr__samples_memory_bytes(const zr__samples *samples)
{
    if (samples->tokens) return zr__data_memory_bytes(samples->tokens);
    if (samples->labelled) return zr_labelled_get_info(samples->labelled).memory_bytes;
    return samples->pairs ? zr_pairs_get_info(samples->pairs).memory_bytes : 0;
}

zr_status zr__samples_check(const zr__samples *samples, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    if (samples->labelled) return zr__labelled_check(samples->labelled, hash, fn, arg);
    return samples->pairs ? zr__pairs_check(samples->pairs, hash, fn, arg)
                          : zr__data_check(samples->tokens, hash, fn, arg);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Copy numbers of a program's row, of which the least is `least`, and check that each is one of the vocabulary. */
static zr_status copy_made(const zr__made_rows *made, const char *what, int32_t least, int64_t index,
                           const int32_t *from, int32_t *to)
{
    for (int64_t i = 0; i < made->seq; i++) {
        ZR_CHECK(from[i] >= least && from[i] < made->vocabulary, ZR_ERR_DATA,
                 "sample %lld of the program: %s %lld is %d, but the model has tokens 0 to %lld%s", (long long)index,
                 what, (long long)i, from[i], (long long)made->vocabulary - 1,
                 least < 0 ? " (-1 leaves a target out of the loss)" : "");
        to[i] = from[i];
    }
    return ZR_OK;
}

static zr_status read_made(const zr__made_rows *made, int64_t index, const zr__row *row)
{
    const int64_t at = (index - made->first) * made->stride;
    ZR_ASSERT(index >= made->first && index < made->first + made->n);
    ZR_TRY(copy_made(made, "token", 0, index, made->tokens + at, row->tokens));
    return copy_made(made, "target", -1, index, made->targets + at, row->targets);
}

/* Read a row of an encoder's samples. Rows are the same for training and evaluation. */
static zr_status read_row(const zr__samples *samples, int64_t index, const zr__row *row)
{
    const zr_pairs_row pairs = {.tokens = row->tokens,
                                .segments = row->segments,
                                .documents = row->documents,
                                .masked = row->masked,
                                .masked_targets = row->masked_targets,
                                .first = row->first,
                                .next = row->next};
    const zr_labelled_row labelled = {.tokens = row->tokens,
                                      .segments = row->segments,
                                      .documents = row->documents,
                                      .first = row->first,
                                      .label = row->label,
                                      .answer = row->answer,
                                      .words = row->masked,
                                      .tags = row->masked_targets};
    return samples->pairs ? zr_pairs_read(samples->pairs, index, &pairs)
                          : zr_labelled_read(samples->labelled, index, &labelled);
}

zr_status zr__samples_read(void *source, int64_t index, const zr__row *row)
{
    const zr__samples *samples = source;
    if (samples->made.source) return read_made(&samples->made, index, row);
    if (!samples->tokens) return read_row(samples, index, row);
    ZR_TRY(zr_data_sample(samples->tokens, index, row->tokens, row->targets));
    return row->documents ? zr_data_documents(samples->tokens, row->documents) : ZR_OK;
}

zr_status zr__samples_window(void *source, int64_t index, const zr__row *row)
{
    const zr__samples *samples = source;
    if (samples->made.source) return read_made(&samples->made, index, row);
    if (!samples->tokens) return read_row(samples, index, row);
    ZR_TRY(zr_data_window(samples->tokens, index, row->tokens, row->targets));
    return row->documents ? zr_data_documents(samples->tokens, row->documents) : ZR_OK;
}
