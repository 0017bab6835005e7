/* embedding, embedding_dw, position, position_dw. */
#include <omp.h>

#include "device/cpu/rows.h"

#define EMBEDDING_ROWS 64 /* table rows a thread takes at a time: tokens are not spread evenly over a vocabulary */
#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)

static zr_status check_ids(const int32_t *ids, int64_t n, int64_t T, int64_t V)
{
    int64_t bad = zr__first_outside(ids, n, 0, V);
    ZR_CHECK(bad < 0, ZR_ERR_DATA,
             "token id %d at row %lld, position %lld is outside the vocabulary of %lld: check the data's tokenizer",
             ids[bad], (long long)(bad / T), (long long)(bad % T), (long long)V);
    return ZR_OK;
}

static zr_status embedding(const zr_kernel_args *args)
{
    const zr_tensor *ids = &args->in[0], *table = &args->in[1];
    const int32_t *id = ids->data;
    const int64_t n = zr_shape_elems(&ids->shape), C = zr_shape_cols(&table->shape);
    const size_t row_bytes = (size_t)(C * zr_dtype_bytes(table->dtype));
    ZR_TRY(check_ids(id, n, zr_shape_cols(&ids->shape), table->shape.dim[0]));
#pragma omp parallel for num_threads(zr__team(args, n *C)) schedule(static)
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)args->out[0].data + (size_t)i * row_bytes, (const char *)table->data + (size_t)id[i] * row_bytes,
               row_bytes);
    return ZR_OK;
}

/* acc += row `row` of (rows, C) */
static void row_add(float *restrict acc, const zr_tensor *x, int64_t row, int64_t C)
{
    float buffer[ZR_CHUNK];
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        const float *v = zr__view(buffer, x->data, x->dtype, row * C + c0, n);
        for (int64_t c = 0; c < n; c++) acc[c0 + c] += v[c];
    }
}

/* acc = row of earlier, or 0 when there is none */
static void row_begin(float *restrict acc, const zr_tensor *earlier, int64_t row, int64_t C)
{
    if (earlier->data)
        zr__load(acc, earlier->data, earlier->dtype, row * C, C);
    else
        memset(acc, 0, (size_t)C * sizeof(float));
}

/* Stable sort of keys id << 32 | position by id below V; the result is in keys or in spare. */
static const uint64_t *sort_by_id(uint64_t *keys, uint64_t *spare, int64_t n, int64_t V)
{
    for (int shift = 32; (V - 1) >> (shift - 32) > 0; shift += RADIX_BITS) {
        int64_t start[RADIX + 1] = {0};
        for (int64_t i = 0; i < n; i++) start[(keys[i] >> shift & (RADIX - 1)) + 1]++;
        for (int d = 0; d < RADIX; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < n; i++) spare[start[keys[i] >> shift & (RADIX - 1)]++] = keys[i];
        uint64_t *other = keys;
        keys = spare;
        spare = other;
    }
    return keys;
}

/* First of n sorted keys whose id is at least `id`. */
static int64_t first_of_id(const uint64_t *keys, int64_t n, int64_t id)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((int64_t)(keys[middle] >> 32) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Tokens are sorted by id, so every row of the table is written by one thread, its tokens in order. */
static zr_status embedding_dw(const zr_kernel_args *args)
{
    const zr_tensor *ids = &args->in[0], *dy = &args->in[1], *earlier = &args->in[2], *out = &args->out[0];
    const int32_t *id = ids->data;
    const int64_t n = zr_shape_elems(&ids->shape), V = out->shape.dim[0], C = out->shape.dim[1];
    ZR_TRY(check_ids(id, n, zr_shape_cols(&ids->shape), V));

    uint64_t *keys = args->scratch;
    float *rows = (float *)(keys + 2 * n);
    for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)id[i] << 32 | (uint64_t)i;
    const uint64_t *sorted = sort_by_id(keys, keys + n, n, V);

#pragma omp parallel num_threads(zr__team(args, (n + V) * C))
    {
        float *acc = rows + omp_get_thread_num() * C;
#pragma omp for schedule(dynamic)
        for (int64_t v0 = 0; v0 < V; v0 += EMBEDDING_ROWS) {
            int64_t i = first_of_id(sorted, n, v0);
            for (int64_t v = v0; v < zr__min64(V, v0 + EMBEDDING_ROWS); v++) {
                row_begin(acc, earlier, v, C);
                for (; i < n && (int64_t)(sorted[i] >> 32) == v; i++) row_add(acc, dy, (int64_t)(uint32_t)sorted[i], C);
                zr__store(out->data, out->dtype, v * C, acc, C);
            }
        }
    }
    return ZR_OK;
}

static zr_status position(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *table = &args->in[1], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&x->shape), T = x->shape.dim[1], C = x->shape.dim[2];
    const int64_t first = args->runtime->position, P = table->shape.dim[0];
    ZR_CHECK(first >= 0 && first + T <= P, ZR_ERR_DATA,
             "%lld tokens from position %lld on, but the model has %lld positions: shorten the sequence", (long long)T,
             (long long)first, (long long)P);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float xbuf[ZR_CHUNK], tbuf[ZR_CHUNK], y[ZR_CHUNK];
        for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
            int64_t n = zr__min64(ZR_CHUNK, C - c0);
            const float *a = zr__view(xbuf, x->data, x->dtype, r * C + c0, n);
            const float *b = zr__view(tbuf, table->data, table->dtype, (first + r % T) * C + c0, n);
            for (int64_t c = 0; c < n; c++) y[c] = a[c] + b[c];
            zr__store(out->data, out->dtype, r * C + c0, y, n);
        }
    }
    return ZR_OK;
}

static zr_status position_dw(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *earlier = &args->in[1], *out = &args->out[0];
    const int64_t B = dy->shape.dim[0], T = dy->shape.dim[1], P = out->shape.dim[0], C = out->shape.dim[1];
#pragma omp parallel num_threads(zr__team(args, (B * T + P) * C))
    {
        float *acc = (float *)args->scratch + omp_get_thread_num() * C;
#pragma omp for schedule(static)
        for (int64_t t = 0; t < P; t++) {
            row_begin(acc, earlier, t, C);
            for (int64_t b = 0; t < T && b < B; b++) row_add(acc, dy, b * T + t, C);
            zr__store(out->data, out->dtype, t * C, acc, C);
        }
    }
    return ZR_OK;
}

extern const zr_kernel ZR_LEVEL_NAME(zr__kernels_embedding)[];
const zr_kernel ZR_LEVEL_NAME(zr__kernels_embedding)[] = {
    {"embedding", NULL, embedding, NULL},
    {"embedding_dw", NULL, embedding_dw, NULL},
    {"position", NULL, position, NULL},
    {"position_dw", NULL, position_dw, NULL},
    {NULL, NULL, NULL, NULL},
};
