/* Evaluation of an encoder: its losses, and the quality of its labels or answers. */
#include "train/evaluate/evaluate.h"

#include "config/config.h"
#include "data/labelled/labelled.h"
#include "data/pairs/pairs.h"
#include "train/family/inputs.h"
#include "train/family/paths.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* An evaluation of an encoder. */
typedef struct judge {
    zr__loaded *loaded;
    const zr_eval_args *args;
    zr__samples samples;
    zr_samples kind;
    zr_layout layout;
    int64_t seq, rows, done; /* number of tokens of a row; number of rows of the evaluation, and of completed batches */
    int32_t *label;          /* labels (rows of a batch, S) of the current batch; unused in other tasks */
    int64_t right, labelled; /* number of samples whose label has the largest logit, and of samples with a label */
    const char **names;      /* names of labels of words; NULL in other tasks */
    int32_t *found;          /* two buffers for the tags of a row: right ones, and those found */
    int64_t *number;         /* buffer for the numbers of the samples of a row */
    zr__entities entities;
    int64_t hits;         /* number of masked tokens whose target has the largest logit */
    zr__answers *answers; /* answers found; NULL in other tasks, and if questions may be incomplete */
    void *raw;            /* output of a batch, logits or hits, in the type of the layout */
    float *output;
} judge;

/* ---- opening --------------------------------------------------------------------------------- */

/* Return the order of rows, as in the run's own evaluations (zr__samples_open). */
static zr_data_order order_of(const zr__eval_data *data)
{
    return data->part.share > 0 ? ZR_SHUFFLED : ZR_SEQUENTIAL;
}

/* Open sentence pairs as the run opens them for its evaluations, whose masks depend on the run's seed. If the file has
 * rows that are already masked, these may have any number of predictions. */
static zr_status open_pairs(judge *j, const zr__eval_data *data, const char *tokenizer)
{
    char cache[PATH_MAX];
    const zr__loaded *loaded = j->loaded;
    const zr_config *config = loaded->config;
    zr_pairs_args args = {.path = data->path,
                          .vocab_size = loaded->model.sizes.vocabulary,
                          .seq_length = j->seq,
                          .order = order_of(data),
                          .seed = config ? (uint64_t)config->train.seed : 0,
                          .part = data->part,
                          .tokenizer = tokenizer,
                          .single = j->kind == ZR_SAMPLES_MASKED};
    zr__pairs_keys(config, &args);
    if (zr__pairs_are_ready(data->path) || args.predictions > j->seq) args.predictions = j->seq;
    args.samples = j->layout.samples;
    j->layout.predictions = args.predictions;
    if (config) ZR_TRY(zr__run_cache_find(config, loaded->stored.run, cache, &args.cache_dir));
    return zr_pairs_open(&args, &j->samples.pairs);
}

static zr_status open_labelled(judge *j, const zr__eval_data *data, const char *tokenizer)
{
    const zr__loaded *loaded = j->loaded;
    const zr__family_model *model = &loaded->model;
    zr_labelled_args args = {.path = data->path,
                             .kind = zr__labelled_kind(j->kind),
                             .vocab_size = model->sizes.vocabulary,
                             .seq_length = j->seq,
                             .labels = zr__family_labels(model),
                             .order = order_of(data),
                             .seed = loaded->config ? (uint64_t)loaded->config->train.seed : 0,
                             .part = data->part,
                             .tokenizer = tokenizer,
                             .every_question = true};
    zr__labelled_keys(loaded->config, &args);
    args.samples = j->layout.samples;
    const char *dir = loaded->base[0] ? loaded->base : loaded->stored.path,
               *given = loaded->config ? loaded->config->model.label_names : NULL;
    ZR_TRY(zr__labelled_open(&args, given, dir, &j->samples.labelled));
    if (j->kind != ZR_SAMPLES_TAGS) return ZR_OK;
    return given ? zr__names_split(given, args.labels, &j->names) : zr__hf_label_names(dir, args.labels, &j->names);
}

static zr_status open_samples(judge *j, const zr__eval_data *data)
{
    char found[PATH_MAX];
    const char *tokenizer;
    zr__samples_layout(j->kind, j->loaded->config, &j->layout);
    if (j->layout.samples > j->seq) j->layout.samples = j->seq;
    ZR_TRY(zr__load_tokenizer(j->loaded, found, &tokenizer));
    return zr__samples_are_masked(j->kind) ? open_pairs(j, data, tokenizer) : open_labelled(j, data, tokenizer);
}

/* Return the number of elements of the model's output for a batch, or 0 if the task does not read the output. */
static int64_t output_elems(const judge *j)
{
    const zr_layout *l = &j->layout;
    if (zr__samples_are_masked(j->kind)) return l->batch * l->predictions;
    if (j->kind == ZR_SAMPLES_TAGS) return l->batch * l->seq * zr__family_labels(&j->loaded->model);
    if (j->kind == ZR_SAMPLES_LABELS) return l->batch * l->samples * zr__family_labels(&j->loaded->model);
    return j->answers ? 2 * l->batch * j->seq : 0;
}

/* Find the number of rows, and allocate the buffers for the output of the task. */
static zr_status prepare(judge *j)
{
    const zr_eval_args *args = j->args;
    const zr_config *config = j->loaded->config;
    const int64_t all = zr__samples_info(&j->samples).windows, batch = config ? config->train_batch_size : 0;
    const int64_t step = batch > 0 ? batch : 1;
    j->rows = args->batches > 0 && args->batches <= all / step ? args->batches * step : all;
    if (j->layout.batch > j->rows) j->layout.batch = j->rows;
    const bool answers = j->kind == ZR_SAMPLES_ANSWERS && j->rows == all;
    ZR_CHECK(!args->answers || answers, ZR_ERR_UNSUPPORTED, "%s",
             j->kind == ZR_SAMPLES_ANSWERS ? "answers need all windows of a question; leave out the number of batches"
                                           : "only a model of the task question_answering gives answers");
    if (answers) ZR_TRY(zr__answers_open(j->samples.labelled, 0, 0, &j->answers));
    if (answers) zr__answers_threshold(j->answers, args->null_threshold);
    const int64_t S = j->layout.samples * j->layout.batch, elems = output_elems(j);
    if (elems == 0) return ZR_OK;
    j->label = zr_alloc((size_t)S * sizeof(*j->label));
    j->raw = zr_alloc((size_t)elems * sizeof(float));
    j->output = zr_alloc((size_t)elems * sizeof(float));
    j->found = zr_alloc(2 * (size_t)j->seq * sizeof(*j->found));
    j->number = zr_alloc((size_t)j->layout.samples * sizeof(*j->number));
    ZR_CHECK(j->label && j->raw && j->output && j->found && j->number, ZR_ERR_MEMORY,
             "no memory for an output of %lld elements", (long long)elems);
    return ZR_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Read a row, and keep the labels of its samples. This is a zr__data_fn whose source is a judge. */
static zr_status read_row(void *source, int64_t index, const zr__row *row)
{
    judge *j = source;
    const int64_t S = j->layout.samples;
    ZR_TRY(zr__samples_window(&j->samples, index, row));
    if (row->label) memcpy(j->label + index % j->layout.batch * S, row->label, (size_t)S * sizeof(*row->label));
    return ZR_OK;
}

/* Return the label with the largest of the logits number `at`. Of several equal logits, the first one counts. */
static int32_t best_label(const judge *j, int64_t at)
{
    const int64_t labels = zr__family_labels(&j->loaded->model);
    const float *logits = j->output + at * labels;
    int32_t best = 0;
    for (int32_t k = 1; k < labels; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}

/* Compare the tags of the sentences of a row. `b` is the row's place in its batch. */
static zr_status judge_tags(judge *j, int64_t row, int64_t b)
{
    int64_t n = 0, at = b * j->seq;
    int32_t *right = j->found, *found = j->found + j->seq;
    ZR_TRY(zr__labelled_samples(j->samples.labelled, row, j->number, &n));
    for (int64_t s = 0; s < n; s++) {
        int64_t words = 0;
        const zr__labelled_word *word = zr__labelled_words(j->samples.labelled, j->number[s], &words);
        for (int64_t i = 0; i < words; i++, at++) {
            right[i] = word[i].tag;
            found[i] = best_label(j, at);
        }
        zr__entities_add(&j->entities, j->names, right, found, words);
    }
    return ZR_OK;
}

/* Count the samples of a row whose label has the largest logit. */
static void judge_labels(judge *j, int64_t b)
{
    const int64_t S = j->layout.samples;
    for (int64_t s = b * S; s < (b + 1) * S; s++) {
        const int32_t best = best_label(j, s);
        j->labelled += j->label[s] >= 0;
        j->right += j->label[s] >= 0 && best == j->label[s];
    }
}

/* Count the masked tokens of a row whose target has the largest logit. */
static void judge_masked(judge *j, int64_t b)
{
    const int64_t P = j->layout.predictions;
    for (int64_t k = b * P; k < (b + 1) * P; k++) j->hits += j->output[k] != 0.0f;
}

/* Take the output of a batch. `rows` is the number of rows that are complete, over all batches. */
static zr_status take_output(judge *j, int64_t rows)
{
    const zr__loaded *loaded = j->loaded;
    const zr_graph *graph = loaded->plan->graph[ZR_SCHEDULE_EVAL];
    const zr_value output = zr_graph_get_output(graph);
    const zr_type *type = &zr_graph_value(graph, output)->type;
    ZR_TRY(zr_engine_value(loaded->engine, ZR_SCHEDULE_EVAL, output, j->raw));
    const zr_tensor raw = {.data = j->raw, .dtype = type->dtype, .shape = type->shape};
    for (int64_t i = 0; i < zr_shape_elems(&type->shape); i++) j->output[i] = zr__number_at(&raw, i);
    for (int64_t row = j->done; row < rows; row++) {
        const int64_t b = row - j->done;
        if (j->answers)
            ZR_TRY(zr__answers_add(j->answers, row, j->output + b * 2 * j->seq));
        else if (zr__samples_are_masked(j->kind))
            judge_masked(j, b);
        else if (j->kind == ZR_SAMPLES_TAGS)
            ZR_TRY(judge_tags(j, row, b));
        else
            judge_labels(j, b);
    }
    return ZR_OK;
}

static zr_status end_batch(void *arg, int64_t rows)
{
    judge *j = arg;
    if (j->output) ZR_TRY(take_output(j, rows));
    j->done = rows;
    if (j->args->progress) j->args->progress(j->args->arg, rows * j->seq, j->rows * j->seq);
    return ZR_OK;
}

static void set_entities(const judge *j, zr_eval_result *result)
{
    const zr__entities *e = &j->entities;
    const zr__entities_scored scored = zr__entities_score(e);
    if (e->words > 0) result->accuracy = (double)e->words_right / (double)e->words;
    result->samples = e->words;
    result->entities = e->right;
    result->precision = scored.precision;
    result->recall = scored.recall;
    result->f1 = scored.f1;
}

static zr_status set_scores(judge *j, zr_eval_result *result)
{
    zr__answers_scored scored;
    if (j->labelled > 0) result->accuracy = (double)j->right / (double)j->labelled;
    result->samples = j->labelled;
    if (j->kind == ZR_SAMPLES_TAGS) set_entities(j, result);
    if (zr__samples_are_masked(j->kind) && result->tokens > 0)
        result->masked_lm_accuracy = (double)j->hits / (double)result->tokens;
    if (!j->answers) return ZR_OK;
    ZR_TRY(zr__answers_score(j->answers, &scored));
    result->exact = scored.exact;
    result->f1 = scored.f1;
    result->samples = scored.questions;
    result->lack = scored.lack;
    result->has_exact = scored.has_exact;
    result->has_f1 = scored.has_f1;
    result->no_exact = scored.no_exact;
    result->best_f1 = scored.best_f1;
    result->best_threshold = scored.best_threshold;
    return j->args->answers ? zr__answers_json(j->answers, &result->answers) : ZR_OK;
}

static zr_status evaluate(judge *j, const zr__eval_data *data, zr_eval_result *result)
{
    ZR_TRY(open_samples(j, data));
    ZR_TRY(prepare(j));
    const zr__eval_text text = {.kind = j->kind, .source = j, .read = read_row, .windows = j->rows};
    const zr__eval_watch watch = {end_batch, j};
    ZR_TRY(zr__evaluate_text(j->loaded, &j->layout, &text, &watch, j->args->threads, data->path, result));
    const zr_data_info info = zr__samples_info(&j->samples);
    const char *note = j->samples.labelled ? info.note : "", *cut = info.cut;
    zr__eval_note(result, note);
    zr__eval_note(result, cut);
    if (data->part.share > 0)
        zr__eval_note(result, zr__samples_held_out(j->loaded->config, &j->samples, (char[ZR__HELD_OUT_BYTES]){0}));
    result->stride = j->seq;
    result->bytes = -1;
    result->bits_per_byte = NAN;
    return set_scores(j, result);
}

zr_status zr__evaluate_samples(zr__loaded *loaded, const zr__eval_data *data, int64_t seq, const zr_eval_args *args,
                               zr_eval_result *result)
{
    judge j = {.loaded = loaded,
               .args = args,
               .kind = zr__family_samples(&loaded->model),
               .layout = zr_layout_default(),
               .seq = seq};
    ZR_CHECK(args->stride == 0, ZR_ERR_UNSUPPORTED, "a stride is for windows of a decoder; %s is an encoder",
             loaded->model.family->title);
    j.layout.train = false;
    j.layout.seq = seq;
    j.layout.batch = zr__eval_batch_rows(seq);
    const zr_status st = evaluate(&j, data, result);
    zr__answers_close(&j.answers);
    zr__samples_close(&j.samples);
    zr_free(j.label);
    zr_free(j.names);
    zr_free(j.found);
    zr_free(j.number);
    zr_free(j.raw);
    zr_free(j.output);
    return st;
}
