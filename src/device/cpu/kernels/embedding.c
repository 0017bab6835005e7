/* Ops that look up rows of tables by indices: embedding, rows and position, with their gradients (_dw, _dx). */
#include <omp.h>

#include "base/number/sorted.h"
#include "device/cpu/shared/rows.h"
#include "device/operands.h"

#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)

/* Rows of a table that the op has: the whole table, or the rows of a tensor-parallel rank or of a tile. `all` is the
 * number of rows of the whole table, and `first` is the index of the op's first row. */
typedef struct table_part {
    int64_t all, first;
} table_part;

static table_part part_of(const zr_kernel_args *args, int64_t rows)
{
    const int64_t *attr = args->op->attr.i;
    return attr[0] ? (table_part){attr[0], args->runtime->place * attr[1] + attr[2]} : (table_part){rows, 0};
}

static zr_status embedding(const zr_kernel_args *args)
{
    const zr_tensor *ids = &args->in[0], *table = &args->in[1];
    const char *earlier = args->n_in > 2 ? args->in[2].data : NULL; /* rows that earlier tiles have looked up */
    const int32_t *id = ids->data;
    const int64_t n = zr_shape_elems(&ids->shape), C = zr_shape_cols(&table->shape);
    const size_t row_bytes = (size_t)(C * zr_dtype_bytes(table->dtype));
    const int64_t rows = table->shape.dim[0];
    const table_part part = part_of(args, rows);
    ZR_TRY(zr__check_ids("token id", ids, 0, part.all));
#pragma omp parallel for num_threads(zr__team(args, n *C)) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = id[i] - part.first;
        char *out = (char *)args->out[0].data + (size_t)i * row_bytes;
        if (row >= 0 && row < rows)
            memcpy(out, (const char *)table->data + (size_t)row * row_bytes, row_bytes);
        else if (!earlier)
            memset(out, 0, row_bytes);
        else if (earlier != args->out[0].data)
            memcpy(out, earlier + (size_t)i * row_bytes, row_bytes);
    }
    return ZR_OK;
}

/* ---- sums of rows of equal ids ---------------------------------------------------------------- */

/* Set acc to a row of `earlier`, or to 0 if `earlier` has no data. */
static void row_begin(float *restrict acc, const zr_tensor *earlier, int64_t row, int64_t C)
{
    if (earlier->data)
        zr__load(acc, earlier->data, earlier->dtype, row * C, C);
    else
        memset(acc, 0, (size_t)C * sizeof(float));
}

/* Sort keys (id << 32 | position) by id, with a stable sort. All ids are below V. Return the address of the sorted
 * keys, which is `keys` or `spare`. */
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

/* Return the index of the first of n sorted keys whose id is at least `id`. */
static int64_t first_of_id(const uint64_t *keys, int64_t n, int64_t id)
{
    return zr__sorted_below(keys, n, sizeof *keys, 0, id << 32);
}

typedef struct sorted_tokens {
    const uint64_t *key; /* n keys (id << 32 | position), sorted by id */
    int64_t n;
} sorted_tokens;

static int64_t token_id(const sorted_tokens *t, int64_t i)
{
    return (int64_t)(t->key[i] >> 32);
}

static int64_t token_at(const sorted_tokens *t, int64_t i)
{
    return (int64_t)(uint32_t)t->key[i];
}

/* Return whether the gradient is written in place of `earlier`. In place, rows without tokens need no write. */
static bool is_in_place(const zr_kernel_args *args)
{
    return args->in[2].data && args->in[2].data == args->out[0].data;
}

/* Return the first row of the table in share s of `shares`. Shares have equal cost, not equal numbers of rows, because
 * tokens are not distributed evenly over a vocabulary. Writing a row and adding a token are assumed to cost the same.
 */
static int64_t share_begin(const sorted_tokens *t, int64_t V, bool in_place, int s, int shares)
{
    const int64_t each = in_place ? 0 : 1, before = (each * V + t->n) * s / shares;
    int64_t low = 0, high = V;
    if (s == shares) return V;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (each * middle + first_of_id(t->key, t->n, middle) < before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Prefetch a row. The rows of consecutive tokens are far apart, so the processor cannot predict the next row. */
static void row_prefetch(const zr_tensor *x, int64_t row, int64_t C)
{
    const int64_t bytes = C * zr_dtype_bytes(x->dtype);
    for (int64_t b = 0; b < bytes; b += ZR_LINE_BYTES) __builtin_prefetch((const char *)x->data + row * bytes + b);
}

/* Return row v of the gradient: row v of `earlier` plus the rows of dy of all tokens with id v. These tokens begin at
 * index *i of t, and *i is advanced to the token after them. The row is computed in acc. If row v has no tokens and
 * `earlier` is F32, its row in `earlier` is returned instead. */
static const float *table_row(const zr_kernel_args *args, const sorted_tokens *t, int64_t *i, int64_t v, float *acc)
{
    const zr_tensor *dy = &args->in[1], *earlier = &args->in[2];
    const int64_t C = zr_shape_cols(&args->out[0].shape);
    const bool none = *i == t->n || token_id(t, *i) != v;
    if (none && earlier->data && earlier->dtype == ZR_F32) return (const float *)earlier->data + v * C;
    row_begin(acc, earlier, v, C);
    for (; *i < t->n && token_id(t, *i) == v; ++*i) {
        if (*i + 1 < t->n) row_prefetch(dy, token_at(t, *i + 1), C);
        zr__add_to(acc, dy, token_at(t, *i) * C, C);
    }
    return acc;
}

/* Write the rows [begin, end) of a table's gradient. */
static void table_rows(const zr_kernel_args *args, const sorted_tokens *t, int64_t begin, int64_t end, float *acc)
{
    const zr_tensor *out = &args->out[0];
    const int64_t V = zr_shape_rows(&out->shape), C = zr_shape_cols(&out->shape);
    const bool in_place = is_in_place(args);
    const bool past_caches = !in_place && out->dtype == ZR_F32 && V * C * 4 >= ZR_STREAM_BYTES;
    int64_t i = first_of_id(t->key, t->n, begin);
    for (int64_t v = begin; v < end; v++) {
        if (in_place) { /* skip to the row of the next token, since rows without tokens stay unchanged */
            if (i == t->n || token_id(t, i) >= end) break;
            v = token_id(t, i);
        }
        const float *row = table_row(args, t, &i, v, acc);
        if (past_caches)
            zr__stream((float *)out->data + v * C, row, C * 4);
        else
            zr__store(out->data, out->dtype, v * C, row, C);
    }
    zr__stream_end();
}

/* Compute the gradient of a table from the n keys (row << 32 | token) at the beginning of the scratch memory, which has
 * room for two keys for each of the `tokens` tokens. The keys are sorted by row, so that one thread computes a whole
 * row, and adds the row's tokens in order. */
static zr_status sum_by_row(const zr_kernel_args *args, int64_t n, int64_t tokens)
{
    const int64_t V = zr_shape_rows(&args->out[0].shape), C = zr_shape_cols(&args->out[0].shape);
    uint64_t *keys = args->scratch;
    float *rows = (float *)(keys + 2 * tokens);
    const sorted_tokens sorted = {sort_by_id(keys, keys + tokens, n, V), n};

    const bool in_place = is_in_place(args);
    const int shares = zr__team(args, (n + (in_place ? 0 : V)) * C);
#pragma omp parallel for num_threads(shares) schedule(static)
    for (int s = 0; s < shares; s++)
        table_rows(args, &sorted, share_begin(&sorted, V, in_place, s, shares),
                   share_begin(&sorted, V, in_place, s + 1, shares), rows + s * C);
    return ZR_OK;
}

/* Compute the gradient of a table. */
static zr_status embedding_dw(const zr_kernel_args *args)
{
    const zr_tensor *ids = &args->in[0];
    const int32_t *id = ids->data;
    const int64_t tokens = zr_shape_elems(&ids->shape), V = args->out[0].shape.dim[0];
    const table_part part = part_of(args, V);
    ZR_TRY(zr__check_ids("token id", ids, 0, part.all));

    uint64_t *keys = args->scratch;
    int64_t n = 0; /* number of tokens whose rows this rank holds */
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t row = id[i] - part.first;
        if (row >= 0 && row < V) keys[n++] = (uint64_t)row << 32 | (uint64_t)i;
    }
    return sum_by_row(args, n, tokens);
}

/* Return the scratch bytes: two keys for each token, and a row for each thread. */
static int64_t embedding_dw_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_shape *dy = &zr__in_type(graph, op, 1)->shape;
    return 2 * (int64_t)sizeof(uint64_t) * zr_shape_rows(dy) +
           facts->threads * (int64_t)sizeof(float) * zr_shape_cols(dy);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Indices into x, for the ops `rows` and `rows_dx`. */
typedef struct row_indices {
    const int32_t *index; /* (B,P): for each row of the batch, P indices into its T rows of x */
    int64_t n, P, T;
    int64_t first, rows; /* rows of the flat micro-batch on this rank: index of the first row, and number of rows */
} row_indices;

/* Set *r for an array x of this shape. Fail if an index is outside its row of the batch. */
static zr_status indices_of(const zr_kernel_args *args, const zr_shape *x, row_indices *r)
{
    const zr_tensor *index = &args->in[0];
    const zr__sequence s = zr__sequence_of(args, x);
    *r = (row_indices){index->data,     zr_shape_elems(&index->shape), zr_shape_cols(&index->shape), s.T, s.row,
                       zr_shape_rows(x)};
    for (int64_t i = 0; i < r->n; i++)
        ZR_CHECK(r->index[i] >= 0 && r->index[i] < s.T, ZR_ERR_DATA,
                 "index %d at row %lld, position %lld is outside the row of %lld", r->index[i], (long long)(i / r->P),
                 (long long)(i % r->P), (long long)s.T);
    return ZR_OK;
}

/* Return the row of x that index number i selects, or -1 if the row is on another rank. */
static int64_t row_of_index(const row_indices *r, int64_t i)
{
    const int64_t row = i / r->P * r->T + r->index[i] - r->first;
    return row >= 0 && row < r->rows ? row : -1;
}

static zr_status take_rows(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[1];
    row_indices of;
    ZR_TRY(indices_of(args, &x->shape, &of));
    const size_t bytes = (size_t)(zr_shape_cols(&x->shape) * zr_dtype_bytes(x->dtype));
    for (int64_t i = 0; i < of.n; i++) {
        const int64_t row = row_of_index(&of, i);
        char *out = (char *)args->out[0].data + (size_t)i * bytes;
        if (row < 0)
            memset(out, 0, bytes);
        else
            memcpy(out, (const char *)x->data + (size_t)row * bytes, bytes);
    }
    return ZR_OK;
}

/* Compute the gradient of x, in the same way as embedding_dw computes the gradient of a table. */
static zr_status rows_dx(const zr_kernel_args *args)
{
    row_indices of;
    ZR_TRY(indices_of(args, &args->out[0].shape, &of));
    uint64_t *keys = args->scratch;
    int64_t n = 0;
    for (int64_t i = 0; i < of.n; i++) {
        const int64_t row = row_of_index(&of, i);
        if (row >= 0) keys[n++] = (uint64_t)row << 32 | (uint64_t)i;
    }
    return sum_by_row(args, n, of.n);
}

/* ---- position -------------------------------------------------------------------------------- */

static zr_status position(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *table = &args->in[1], *out = &args->out[0];
    const zr__sequence s = zr__sequence_of(args, &x->shape);
    const int32_t *documents = args->n_in > 2 ? args->in[2].data : NULL;
    const int64_t rows = zr_shape_rows(&x->shape), T = s.T, C = zr_shape_cols(&x->shape);
    const int64_t first = args->runtime->position, P = table->shape.dim[0];
    ZR_CHECK(first >= 0 && first + T <= P, ZR_ERR_DATA,
             "%lld tokens from position %lld on, but the model has %lld positions: shorten the sequence", (long long)T,
             (long long)first, (long long)P);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        zr__add_elems(out, r * C, x, r * C, table, (first + zr__sequence_position(&s, documents, r)) * C, C);
    return ZR_OK;
}

/* Compute the gradient of a position table for rows of several documents. The operands are documents, dy and earlier.
 * The computation is the gradient of a look-up with positions as ids. */
static zr_status position_dw_of_documents(const zr_kernel_args *args)
{
    const zr_shape *dy = &args->in[1].shape;
    const zr__sequence s = zr__sequence_of(args, dy);
    const int64_t rows = zr_shape_rows(dy);
    uint64_t *keys = args->scratch;
    for (int64_t r = 0; r < rows; r++)
        keys[r] = (uint64_t)zr__sequence_position(&s, args->in[0].data, r) << 32 | (uint64_t)r;
    return sum_by_row(args, rows, rows);
}

static zr_status position_dw(const zr_kernel_args *args)
{
    if (args->n_in > 2) return position_dw_of_documents(args);
    const zr_tensor *dy = &args->in[0], *earlier = &args->in[1], *out = &args->out[0];
    const zr__sequence s = zr__sequence_of(args, &dy->shape);
    const int64_t rows = zr_shape_rows(&dy->shape), P = out->shape.dim[0], C = out->shape.dim[1];
#pragma omp parallel num_threads(zr__team(args, (rows + P) * C))
    {
        float *acc = (float *)args->scratch + omp_get_thread_num() * C;
#pragma omp for schedule(static)
        for (int64_t t = 0; t < P; t++) {
            row_begin(acc, earlier, t, C);
            /* Add all rows of dy at position t, in the order of the rows. */
            for (int64_t r = (t - s.row % s.T + s.T) % s.T; t < s.T && r < rows; r += s.T)
                zr__add_to(acc, dy, r * C, C);
            zr__store(out->data, out->dtype, t * C, acc, C);
        }
    }
    return ZR_OK;
}

/* Return the scratch bytes: a row for each thread. With documents, return the scratch bytes of embedding_dw. */
static int64_t position_dw_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    if (op->n_in > 2) return embedding_dw_scratch(facts, graph, op);
    return facts->threads * (int64_t)sizeof(float) * zr_shape_cols(&zr__in_type(graph, op, 0)->shape);
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_embedding)[] = {
    {"embedding", .run = embedding},
    {"embedding_dw", .run = embedding_dw, .scratch_bytes = embedding_dw_scratch},
    {"rows", .run = take_rows},
    {"rows_dx", .run = rows_dx, .scratch_bytes = embedding_dw_scratch},
    {"position", .run = position},
    {"position_dw", .run = position_dw, .scratch_bytes = position_dw_scratch},
    {0},
};
