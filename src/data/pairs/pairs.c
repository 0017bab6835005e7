/* Opens sentence pairs, and numbers their rows through epochs. */
#include "data/pairs/pairs.h"

#include "base/file/file.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "data/pairs/groups.h"
#include "data/pairs/ready.h"
#include "data/samples/order.h"
#include "data/samples/samples.h"

#include <string.h>

struct zr_pairs {
    char *path;
    zr_data_order order;
    uint64_t seed;
    int64_t seq_length, predictions, samples;
    bool is_ready;
    zr__ready ready; /* used if is_ready; otherwise the members from corpus to row_samples are used */
    zr__corpus corpus;
    zr__recipe recipe;
    zr__groups groups;
    zr__row_sample *row_samples; /* buffer for the samples of a row */
    zr_pairs_info info;
};

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_ready(zr_pairs *p, const zr_pairs_args *args, const char *path)
{
    zr__file file;
    ZR_TRY(zr__file_open(path, false, &file));
    p->is_ready = true;
    p->info.bytes = file.bytes;
    zr__file_close(&file);
    ZR_TRY(zr__ready_open(args, path, &p->ready));
    p->info.format = "safetensors";
    p->info.rows = p->info.samples = p->ready.rows;
    p->info.tokens = p->ready.tokens;
    p->info.without_prediction = p->ready.without_prediction;
    p->info.filled = (double)p->ready.tokens / ((double)p->ready.rows * (double)args->seq_length);
    return ZR_OK;
}

static zr_status open_texts(zr_pairs *p, const zr_pairs_args *args, const zr__shards *files)
{
    const zr__epoch *e = NULL;
    ZR_TRY(zr__corpus_open(args, files, &p->corpus));
    ZR_TRY(zr__recipe_open(args, &p->corpus, &p->recipe));
    ZR_TRY(zr__groups_open(&p->recipe, args->samples, &p->groups));
    ZR_TRY(zr__rows_epoch(&p->groups.rows, 0, &e));
    p->row_samples = zr_alloc((size_t)args->samples * sizeof(*p->row_samples));
    ZR_CHECK(p->row_samples, ZR_ERR_MEMORY, "no memory for a row of samples");
    p->info = (zr_pairs_info){.format = "text",
                              .note = p->corpus.opening.note,
                              .files = files->n,
                              .bytes = p->corpus.tokens->bytes,
                              .rows = e->begin[p->groups.n].row,
                              .samples = e->begin[p->groups.n].sample,
                              .documents = p->corpus.documents,
                              .sentences = p->corpus.sentences,
                              .tokens = p->corpus.tokens->total};
    p->info.filled = (double)e->tokens / ((double)p->info.rows * (double)args->seq_length);
    return ZR_OK;
}

static bool is_ready(const zr__shards *files)
{
    bool any = false;
    for (int64_t i = 0; i < files->n; i++) any = any || zr__text_ends(files->path[i], ".safetensors");
    return any;
}

bool zr__pairs_are_ready(const char *value)
{
    ZR_AUTO(zr__shards_free) zr__shards files = {0};
    return zr__shards_find(value, &files) == ZR_OK && is_ready(&files);
}

static zr_status open_files(zr_pairs *p, const zr_pairs_args *args, const zr__shards *shards)
{
    p->info.files = shards->n;
    ZR_CHECK(!shards->weighted, ZR_ERR_UNSUPPORTED,
             "%s: sentence pairs are not drawn from several sources with weights; give one list of files",
             ZR_SHOWN(shards->path[0]));
    if (!is_ready(shards)) return open_texts(p, args, shards);
    ZR_CHECK(shards->n == 1, ZR_ERR_UNSUPPORTED,
             "%s is the first of %lld files, of which at least one is a .safetensors file; ready rows are read from "
             "one file, so join the tensors of all rows in it",
             ZR_SHOWN(shards->path[0]), (long long)shards->n);
    return open_ready(p, args, shards->path[0]);
}

static zr_status check_args(const zr_pairs_args *args)
{
    const int64_t T = args->seq_length, P = args->predictions, S = args->samples;
    ZR_TRY(zr__data_args_check(args->path, args->vocab_size, T, 5, args->order));
    ZR_CHECK(P >= 1 && P <= T, ZR_ERR_ARG, "predictions is %lld; it must be from 1 to seq_length %lld", (long long)P,
             (long long)T);
    ZR_CHECK(S >= 1 && S <= T, ZR_ERR_ARG, "samples is %lld; it must be from 1 to seq_length %lld", (long long)S,
             (long long)T);
    ZR_CHECK(args->masked_lm_prob >= 0 && args->masked_lm_prob <= 1, ZR_ERR_ARG,
             "masked_lm_prob is %g; it must be from 0 to 1", args->masked_lm_prob);
    ZR_CHECK(args->short_seq_prob >= 0 && args->short_seq_prob <= 1, ZR_ERR_ARG,
             "short_seq_prob is %g; it must be from 0 to 1", args->short_seq_prob);
    return ZR_OK;
}

zr_status zr_pairs_open(const zr_pairs_args *args, zr_pairs **pairs)
{
    ZR_AUTO(zr__shards_free) zr__shards shards = {0};
    ZR_TRY(check_args(args));
    ZR_AUTO(zr_pairs_close) zr_pairs *p = zr_alloc(sizeof(*p));
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for %zu bytes of sentence pairs", sizeof(*p));
    *p = (zr_pairs){.order = args->order,
                    .seed = args->seed,
                    .seq_length = args->seq_length,
                    .predictions = args->predictions,
                    .samples = args->samples,
                    .info = {.note = ""}};
    ZR_TRY(zr__text_copy(args->path, strlen(args->path), &p->path));
    ZR_TRY(zr__shards_find(args->path, &shards));
    ZR_TRY(open_files(p, args, &shards));
    *pairs = ZR_TAKE(p);
    return ZR_OK;
}

void zr_pairs_close(zr_pairs **pairs)
{
    if (!*pairs) return;
    zr__ready_close(&(*pairs)->ready);
    zr__groups_close(&(*pairs)->groups);
    zr__recipe_close(&(*pairs)->recipe);
    zr__corpus_close(&(*pairs)->corpus);
    zr_free((*pairs)->row_samples);
    zr_free((*pairs)->path);
    zr_free(*pairs);
    *pairs = NULL;
}

zr_pairs_info zr_pairs_get_info(const zr_pairs *pairs)
{
    zr_pairs_info info = pairs->info;
    info.path = pairs->path;
    info.memory_bytes = (int64_t)sizeof(*pairs);
    info.memory_bytes += pairs->ready.row_room * (int64_t)sizeof(*pairs->ready.row);
    if (!pairs->is_ready) info.memory_bytes += zr__corpus_bytes(&pairs->corpus) + zr__groups_bytes(&pairs->groups);
    return info;
}

zr_status zr__pairs_check(const zr_pairs *pairs, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    return pairs->is_ready ? zr__ready_hash(&pairs->ready, hash, fn, arg)
                           : zr__tokens_check(pairs->corpus.tokens, hash, fn, arg);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A row: its epoch, and its number in the epoch, in the order of the text. */
typedef struct place {
    uint32_t epoch;
    int64_t own;
} place;

/* Find the place of a row. Epochs of ready rows have equal numbers of rows. */
static zr_status find_row(zr_pairs *p, int64_t row, place *found)
{
    const int64_t rows = p->info.rows;
    if (!p->is_ready) return zr__rows_find(&p->groups.rows, p->order, p->seed, row, &found->epoch, &found->own);
    ZR_CHECK(row >= 0, ZR_ERR_ARG, "the row number is %lld; it must be at least 0", (long long)row);
    *found = (place){0, row % rows};
    if (p->order == ZR_SEQUENTIAL) return ZR_OK;
    ZR_CHECK(row / rows <= UINT32_MAX, ZR_ERR_ARG, "row %lld is in epoch %lld; the epoch must be below 2^32",
             (long long)row, (long long)(row / rows));
    found->epoch = (uint32_t)(row / rows);
    found->own = zr__order_permute(p->seed, found->epoch, rows, found->own);
    return ZR_OK;
}

/* Write the samples of a row one after the other, and pad the row. */
static zr_status write_row(zr_pairs *p, uint32_t epoch, int64_t samples, const zr_pairs_row *out)
{
    int64_t at = 0, predicted = 0;
    for (int64_t i = 0; i < p->samples; i++) {
        const zr__row_sample *s = &p->row_samples[i];
        if (out->first) out->first[i] = i < samples ? (int32_t)at : 0;
        if (out->next) out->next[i] = i < samples && !p->recipe.single ? s->sample->random : -1;
        if (i >= samples) continue;
        ZR_TRY(zr__recipe_write(&p->recipe, epoch, s->number, s->sample, at, out, &predicted));
        at += zr__recipe_length(&p->recipe, s->sample);
    }
    for (int64_t i = at; i < p->seq_length; i++) {
        out->tokens[i] = out->segments[i] = 0;
        out->documents[i] = (int32_t)at;
    }
    for (int64_t i = predicted; i < p->predictions; i++) {
        out->masked[i] = 0;
        out->masked_targets[i] = -1;
    }
    return ZR_OK;
}

zr_status zr_pairs_read(zr_pairs *pairs, int64_t row, const zr_pairs_row *out)
{
    place found;
    int64_t samples = 0;
    ZR_TRY(find_row(pairs, row, &found));
    if (pairs->is_ready) return zr__ready_read(&pairs->ready, found.own, out);
    ZR_TRY(zr__groups_row(&pairs->groups, found.epoch, found.own, pairs->row_samples, &samples));
    return write_row(pairs, found.epoch, samples, out);
}
