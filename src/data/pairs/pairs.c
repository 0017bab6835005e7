/* Opens sentence pairs, and numbers their rows through epochs. */
#include "data/pairs/pairs.h"

#include "base/file/file.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "data/pairs/ready.h"
#include "data/samples/order.h"

#include <string.h>

struct zr_pairs {
    char *path;
    zr_data_order order;
    uint64_t seed;
    zr__ready ready;
    zr_pairs_info info;
};

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_ready(zr_pairs *p, const zr_pairs_args *args, const char *path)
{
    zr__file file;
    ZR_TRY(zr__file_open(path, false, &file));
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

static zr_status open_files(zr_pairs *p, const zr_pairs_args *args, const zr__shards *shards)
{
    p->info.files = shards->n;
    ZR_CHECK(shards->n == 1 && zr__text_ends(shards->path[0], ".safetensors"), ZR_ERR_UNSUPPORTED,
             "%s: sentence pairs are read from one .safetensors file of ready rows", shards->path[0]);
    return open_ready(p, args, shards->path[0]);
}

static zr_status check_args(const zr_pairs_args *args)
{
    const int64_t T = args->seq_length, P = args->predictions, S = args->samples;
    ZR_CHECK(args->path, ZR_ERR_ARG, "no path of data was given");
    ZR_CHECK(args->vocab_size >= 1 && args->vocab_size <= INT32_MAX, ZR_ERR_ARG,
             "vocab_size is %lld; it must be from 1 to 2147483647", (long long)args->vocab_size);
    ZR_CHECK(T >= 5 && T < INT32_MAX, ZR_ERR_ARG, "seq_length is %lld; it must be from 5 to 2147483646", (long long)T);
    ZR_CHECK(P >= 1 && P <= T, ZR_ERR_ARG, "predictions is %lld; it must be from 1 to seq_length %lld", (long long)P,
             (long long)T);
    ZR_CHECK(S >= 1 && S <= T, ZR_ERR_ARG, "samples is %lld; it must be from 1 to seq_length %lld", (long long)S,
             (long long)T);
    ZR_CHECK(args->order == ZR_SEQUENTIAL || args->order == ZR_SHUFFLED, ZR_ERR_ARG,
             "%d is not a valid order of samples", (int)args->order);
    ZR_CHECK(args->masked_lm_prob >= 0 && args->masked_lm_prob <= 1, ZR_ERR_ARG,
             "masked_lm_prob is %g; it must be from 0 to 1", args->masked_lm_prob);
    ZR_CHECK(args->short_seq_prob >= 0 && args->short_seq_prob <= 1, ZR_ERR_ARG,
             "short_seq_prob is %g; it must be from 0 to 1", args->short_seq_prob);
    return ZR_OK;
}

zr_status zr_pairs_open(const zr_pairs_args *args, zr_pairs **pairs)
{
    zr__shards shards = {0};
    ZR_TRY(check_args(args));
    zr_pairs *p = zr_alloc(sizeof(*p));
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for %zu bytes of sentence pairs", sizeof(*p));
    *p = (zr_pairs){.order = args->order, .seed = args->seed, .info = {.note = ""}};
    zr_status st = zr__text_copy(args->path, strlen(args->path), &p->path);
    if (st == ZR_OK) st = zr__shards_find(args->path, &shards);
    if (st == ZR_OK) st = open_files(p, args, &shards);
    zr__shards_free(&shards);
    if (st == ZR_OK)
        *pairs = p;
    else
        zr_pairs_close(&p);
    return st;
}

void zr_pairs_close(zr_pairs **pairs)
{
    if (!*pairs) return;
    zr__ready_close(&(*pairs)->ready);
    zr_free((*pairs)->path);
    zr_free(*pairs);
    *pairs = NULL;
}

zr_pairs_info zr_pairs_get_info(const zr_pairs *pairs)
{
    zr_pairs_info info = pairs->info;
    info.path = pairs->path;
    return info;
}

zr_status zr__pairs_check(const zr_pairs *pairs, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    return zr__ready_hash(&pairs->ready, hash, fn, arg);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Find the number of a row in its epoch. */
static zr_status find_row(const zr_pairs *p, int64_t row, int64_t *own)
{
    ZR_CHECK(row >= 0, ZR_ERR_ARG, "the row number is %lld; it must be at least 0", (long long)row);
    const int64_t rows = p->ready.rows, epoch = row / rows;
    ZR_CHECK(epoch <= UINT32_MAX, ZR_ERR_ARG, "row %lld is in epoch %lld; the epoch must be below 2^32", (long long)row,
             (long long)epoch);
    *own = row % rows;
    if (p->order == ZR_SHUFFLED) *own = zr__order_permute(p->seed, (uint32_t)epoch, rows, *own);
    return ZR_OK;
}

zr_status zr_pairs_read(zr_pairs *pairs, int64_t row, const zr_pairs_row *out)
{
    int64_t own = 0;
    ZR_TRY(find_row(pairs, row, &own));
    return zr__ready_read(&pairs->ready, own, out);
}

zr_status zr_pairs_count(zr_pairs *pairs, int64_t row, int64_t counted[ZR_PAIRS_TERMS])
{
    int64_t own = 0;
    ZR_TRY(find_row(pairs, row, &own));
    return zr__ready_count(&pairs->ready, own, counted);
}
