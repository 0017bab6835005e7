/* embedding, embedding_dw, rows, rows_dx, position and position_dw. */
#include "device/cuda/indices.h"
#include "device/cuda/rows.h"
#include "device/cuda/scratch.h"
#include "device/operands.h"

namespace
{

/* ---- tokens ------------------------------------------------------------------------------------ */

/* Ids of a micro-batch, and the range of the table's rows that the op has. For a table of positions, `documents` are
 * the beginnings of the documents of the micro-batch, and a token's position in its document takes the place of its id.
 * For the op rows, ids are indices into the tokens of a row of the batch. */
struct token_ids {
    const int32_t *id;
    int64_t n, first, rows;
    const int32_t *documents;
    zr__sequence sequence;
    int64_t indices; /* for the op rows, number of indices in a row of the batch; otherwise 0 */

    /* Return the row of token i in the op's part of the table, or `rows` if the token's row is in another part. */
    __device__ int64_t row_of(int64_t i) const
    {
        if (documents) return zr__sequence_position(&sequence, documents, i);
        const int64_t row = (indices ? i / indices * sequence.T : 0) + id[i] - first;
        return row >= 0 && row < rows ? row : rows;
    }
};

/* Set *tokens to the op's tokens. The next `finish` fails if an id is outside the vocabulary. */
zr_status tokens_of(const zr_kernel_args *args, int64_t rows, token_ids *tokens)
{
    const zr_tensor *ids = &args->in[0];
    /* Number of rows of the whole table if its rows are split over ranks or in tiles, else 0. */
    const int64_t *attr = args->op->attr.i, all = attr[0];
    *tokens = {(const int32_t *)ids->data,
               zr_shape_elems(&ids->shape),
               all ? args->runtime->place * attr[1] + attr[2] : 0,
               rows,
               nullptr,
               {},
               0};
    return zr__check_indices(args, ids, "token id", 0, all ? all : rows);
}

/* Set *tokens to the row numbers, the operand `index` of op `rows` or `rows_dx`. x: the array from which rows are
 * taken, or its gradient. */
zr_status indices_of(const zr_kernel_args *args, const zr_tensor *x, token_ids *tokens)
{
    const zr_tensor *index = &args->in[0];
    const zr__sequence s = zr__sequence_of(args, &x->shape);
    *tokens = {(const int32_t *)index->data, zr_shape_elems(&index->shape), s.row, zr_shape_rows(&x->shape), nullptr, s,
               zr_shape_cols(&index->shape)};
    return zr__check_indices(args, index, "index", 0, s.T, true);
}

/* ---- embedding --------------------------------------------------------------------------------- */

/* Functor that copies the table's row of each token, in pieces. A token whose row is in another part of the table gets
 * zeros, or with `keeps` stays unchanged. */
template <typename M> struct look_up {
    M mover;
    token_ids tokens;
    int64_t C;
    bool keeps;

    struct place {
        int64_t to, from;
    };
    __device__ place row(int64_t i) const
    {
        const int64_t row = tokens.row_of(i);
        return {i * C, row < tokens.rows ? row * C : -1};
    }
    __device__ auto get(place at, int64_t i) const
    {
        return at.from < 0 ? mover.zero() : mover.get(at.from + i);
    }
    template <typename E> __device__ void put(place at, int64_t i, const E &value) const
    {
        if (at.from >= 0 || !keeps) mover.put(at.to + i, value);
    }
};

zr_status copy_rows(const zr_kernel_args *args, const zr_tensor *table, const token_ids &tokens)
{
    const zr_tensor *out = &args->out[0];
    const zr_tensor *earlier = args->n_in > 2 ? &args->in[2] : nullptr; /* rows that earlier tiles have looked up */
    const int64_t C = zr_shape_cols(&table->shape);
    if (earlier && earlier->data != out->data)
        ZR_TRY(zr__cuda_cast(args->device, out->data, out->dtype, earlier->data, earlier->dtype,
                             zr_shape_elems(&out->shape), NULL));
    return zr__with_mover(out, table, {C}, [&](auto mover, int64_t V) {
        return zr__each_move(zr__stream_of(args), tokens.n, C / V,
                             look_up<decltype(mover)>{mover, tokens, C / V, earlier != nullptr});
    });
}

zr_status run_embedding(const zr_kernel_args *args)
{
    const zr_tensor *table = &args->in[1];
    token_ids tokens;
    ZR_TRY(tokens_of(args, table->shape.dim[0], &tokens));
    return copy_rows(args, table, tokens);
}

zr_status run_rows(const zr_kernel_args *args)
{
    token_ids tokens;
    ZR_TRY(indices_of(args, &args->in[1], &tokens));
    return copy_rows(args, &args->in[1], tokens);
}

/* ---- tokens in the order of their rows --------------------------------------------------------- */

/* A stable sort of tokens by the indices of their rows, one digit at a time, lowest digit first. The tokens of a row
 * keep their order. The kernels count how often each digit occurs in each tile of tokens. The counts give the offsets
 * to which a tile's tokens of each digit are moved. */
constexpr int sort_threads = 256, sort_warps = sort_threads / ZR__WARP, digit_bits = 8;
constexpr int sort_turns = ZR__CUDA_SORT_TILE / sort_threads;
static_assert(ZR__CUDA_SORT_DIGITS == 1 << digit_bits && ZR__CUDA_SORT_DIGITS == sort_threads,
              "a thread for each digit");

/* One round of the sort, by one digit. If `in` is NULL, the tokens are in their original order. */
struct sort_round {
    token_ids tokens;
    const uint32_t *in;
    uint32_t *out;
    uint32_t *counts; /* counts of tokens (digits, tiles), which sort_scan replaces by offsets */
    int64_t tiles;
    int shift;

    __device__ uint32_t token(int64_t i) const
    {
        return in ? in[i] : (uint32_t)i;
    }
    __device__ int digit(uint32_t token) const
    {
        return (int)(tokens.row_of(token) >> shift & (ZR__CUDA_SORT_DIGITS - 1));
    }
};

__global__ void __launch_bounds__(sort_threads) sort_count(sort_round s)
{
    ZR_SHARED_ARRAY(uint32_t, own, [ZR__CUDA_SORT_DIGITS]);
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < sort_turns; k++) {
        const int64_t i = (int64_t)blockIdx.x * ZR__CUDA_SORT_TILE + k * sort_threads + threadIdx.x;
        if (i >= s.tokens.n) continue;
        atomicAdd(&own[s.digit(s.token(i))], 1u);
    }
    __syncthreads();
    s.counts[threadIdx.x * s.tiles + blockIdx.x] = own[threadIdx.x];
}

/* Return the sum of x over the lanes below this lane. */
__device__ __forceinline__ uint32_t sum_below(uint32_t x)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    uint32_t sum = x;
    for (int by = 1; by < ZR__WARP; by *= 2) {
        const uint32_t below = __shfl_sync(ZR__ALL_LANES, sum, lane >= by ? lane - by : lane);
        if (lane >= by) sum += below;
    }
    return sum - x;
}

constexpr int scan_threads = 1024;

/* Replace each of n counts by the sum of the counts before it, and set *rows_with_many to 0. Only one block runs; each
 * of its threads processes consecutive counts. */
__global__ void __launch_bounds__(scan_threads) sort_scan(uint32_t *counts, int64_t n, uint32_t *rows_with_many)
{
    ZR_SHARED_ARRAY(uint32_t, part, [ZR__WARP]);
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int64_t each = (n + scan_threads - 1) / scan_threads, begin = threadIdx.x * each;
    const int64_t end = begin + each < n ? begin + each : n;
    uint32_t sum = 0;
    for (int64_t i = begin; i < end; i++) sum += counts[i];
    const uint32_t below = sum_below(sum);
    if (lane == ZR__WARP - 1) part[warp] = below + sum;
    __syncthreads();
    const uint32_t before = sum_below(part[lane]);
    uint32_t at = __shfl_sync(ZR__ALL_LANES, before, warp) + below;
    for (int64_t i = begin; i < end; i++) {
        const uint32_t count = counts[i];
        counts[i] = at;
        at += count;
    }
    if (threadIdx.x == 0) *rows_with_many = 0; /* prepare for find_rows, which runs after the sort */
}

/* Return the mask of the warp's lanes whose token has this lane's digit, or 0 if `there` is false. */
__device__ __forceinline__ unsigned same_digit(int digit, bool there)
{
    unsigned same = __ballot_sync(ZR__ALL_LANES, there);
    for (int bit = 0; bit < digit_bits; bit++) {
        const unsigned set = __ballot_sync(ZR__ALL_LANES, digit >> bit & 1);
        same &= digit >> bit & 1 ? set : ~set;
    }
    return there ? same : 0;
}

/* Move the tokens of a tile to their offsets in the order of this round. Each warp moves consecutive tokens of the
 * tile. */
__global__ void __launch_bounds__(sort_threads) sort_move(sort_round s)
{
    /* offset of each warp's next token, for each digit */
    ZR_SHARED_ARRAY(uint32_t, next, [sort_warps][ZR__CUDA_SORT_DIGITS]);
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int64_t first = (int64_t)blockIdx.x * ZR__CUDA_SORT_TILE + warp * (sort_turns * ZR__WARP) + lane;
    for (int w = 0; w < sort_warps; w++) next[w][threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < sort_turns; k++) {
        const int64_t i = first + k * ZR__WARP;
        if (i < s.tokens.n) atomicAdd(&next[warp][s.digit(s.token(i))], 1u);
    }
    __syncthreads();
    uint32_t at = s.counts[threadIdx.x * s.tiles + blockIdx.x];
    for (int w = 0; w < sort_warps; w++) {
        const uint32_t count = next[w][threadIdx.x];
        next[w][threadIdx.x] = at;
        at += count;
    }
    __syncthreads();
    for (int k = 0; k < sort_turns; k++) {
        const int64_t i = first + k * ZR__WARP;
        const bool there = i < s.tokens.n;
        const uint32_t token = there ? s.token(i) : 0;
        const int digit = s.digit(token);
        const unsigned same = same_digit(digit, there), below = same & ((1u << lane) - 1);
        if (there) s.out[next[warp][digit] + __popc(below)] = token;
        __syncwarp(); /* all lanes must have read next[] before it changes */
        if (there && below == 0) next[warp][digit] += __popc(same);
        __syncwarp(); /* it must have changed before it is read again */
    }
}

/* ---- embedding_dw ------------------------------------------------------------------------------ */

/* Sorted tokens: the tokens of row v are order[first[v]] to order[first[v + 1] - 1]. */
struct sorted_tokens {
    token_ids tokens;
    const uint32_t *order;
    uint32_t *first;
    /* number of rows with more than ZR__CUDA_MANY_TOKENS tokens, followed by their indices in any order */
    uint32_t *many;

    __device__ int64_t row_at(int64_t i) const
    {
        return tokens.row_of(order[i]);
    }
};

/* Find the first token of each row, and list the rows with many tokens. Each row has its own thread. One further thread
 * stores the end of the last row's tokens. */
__global__ void find_rows(sorted_tokens t)
{
    const int64_t n = t.tokens.n, rows = t.tokens.rows;
    for (int64_t v = zr__first(); v <= rows; v += zr__step()) {
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (t.row_at(middle) < v)
                low = middle + 1;
            else
                high = middle;
        }
        t.first[v] = (uint32_t)low;
        if (v < rows && low + ZR__CUDA_MANY_TOKENS < n && t.row_at(low + ZR__CUDA_MANY_TOKENS) == v)
            t.many[1 + atomicAdd(&t.many[0], 1u)] = (uint32_t)v;
    }
}

/* Sort the tokens by kernels that run one after the other, and find the first token of each row. */
zr_status sort_tokens(const zr_kernel_args *args, const token_ids &tokens, sorted_tokens *sorted)
{
    const zr__cuda_token_places at = zr__cuda_token_places_of(tokens.n, tokens.rows);
    cudaStream_t stream = zr__stream_of(args);
    uint32_t *words = (uint32_t *)args->scratch, *spare = words + at.order[0];
    sort_round s = {tokens, nullptr, words + at.order[1], words + at.counts, at.tiles, 0};
    *sorted = {tokens, nullptr, words + at.first, words + at.many};
    for (; tokens.rows >> s.shift > 0; s.shift += digit_bits) {
        ZR_LAUNCH(stream, sort_count, (unsigned)at.tiles, sort_threads, 0, s);
        ZR_LAUNCH(stream, sort_scan, 1, scan_threads, 0, s.counts, at.tiles * ZR__CUDA_SORT_DIGITS, sorted->many);
        ZR_LAUNCH(stream, sort_move, (unsigned)at.tiles, sort_threads, 0, s);
        sorted->order = s.out;
        s.in = s.out;
        s.out = spare;
        spare = (uint32_t *)s.in;
    }
    ZR_LAUNCH(stream, find_rows, zr__blocks(tokens.rows + 1, 256), 256, 0, *sorted);
    return zr__launched();
}

/* Number of rows of dy that a thread reads before it adds them. few_batch is for rows of the table with few tokens,
 * many_batch for rows with many. */
constexpr int few_batch = 4, many_batch = ZR__WARP;

/* Functor that computes dtable[v] = earlier[v] + the sum of dy over the tokens of row v, in the tokens' order. A piece
 * has V elements. */
template <typename T, int V> struct row_sums {
    sorted_tokens sorted;
    zr__array dtable, earlier;
    const T *dy;
    int64_t C;
    bool in_place; /* whether dtable and earlier share memory, so that rows without tokens need no write */

    struct place {
        int64_t row, begin, end;
    };
    __device__ place row(int64_t v) const
    {
        return {v, sorted.first[v], sorted.first[v + 1]};
    }
    __device__ void piece(place at, int64_t piece) const
    {
        const int64_t c = piece * V, count = at.end - at.begin;
        float sum[V] = {}, x[few_batch][V];
        if (count > ZR__CUDA_MANY_TOKENS || (in_place && count == 0)) return;
        if (earlier.data) zr__get_all<V>(sum, earlier, at.row * C + c);
        for (int64_t i = at.begin; i < at.end; i += few_batch) {
#pragma unroll
            /* Beyond the last token, token i is read again but not added, which saves a branch. */
            for (int j = 0; j < few_batch; j++) {
                const int64_t token = sorted.order[i + j < at.end ? i + j : i];
                zr__get_all<V>(x[j], dy, token * C + c);
            }
#pragma unroll
            for (int j = 0; j < few_batch; j++)
                for (int v = 0; v < V; v++)
                    if (i + j < at.end) sum[v] = sum[v] + x[j][v];
        }
        zr__put_all<V>(dtable, at.row * C + c, sum);
    }

    /* Add the tokens of a row with many tokens, in column c. Each thread processes one column, and all threads of a
     * warp the same row. Each lane reads the index of one token of a batch, so that the rows of the whole batch are
     * loaded at the same time. */
    __device__ void many_of(place at, int64_t c) const
    {
        const int lane = (int)threadIdx.x % ZR__WARP;
        const bool there = c < C;
        const int64_t column = there ? c : 0;
        float sum = earlier.data ? zr__get(earlier, at.row * C + column) : 0.0f, x[many_batch];
        /* The index is in range, because this row has more tokens than a warp has lanes. */
        uint32_t next = sorted.order[at.begin + lane];
        for (int64_t i = at.begin; i < at.end; i += many_batch) {
            const uint32_t own = next;
            if (i + many_batch + lane < at.end) next = sorted.order[i + many_batch + lane];
#pragma unroll
            for (int j = 0; j < many_batch; j++) x[j] = zr__get(dy, __shfl_sync(ZR__ALL_LANES, own, j) * C + column);
#pragma unroll
            for (int j = 0; j < many_batch; j++)
                if (i + j < at.end) sum = sum + x[j];
        }
        if (there) zr__put(dtable, at.row * C + c, sum);
    }

    /* Rows with many tokens are cut into parts of ZR__PIECE_THREADS columns. Part p is assigned to block p mod
     * `blocks`. Process all parts of the block with index `block`. */
    __device__ void many(int64_t block, int64_t blocks) const
    {
        const int64_t tiles = (C + ZR__PIECE_THREADS - 1) / ZR__PIECE_THREADS, parts = sorted.many[0] * tiles;
        for (int64_t part = block; part < parts; part += blocks) {
            const int64_t which = part / tiles;
            many_of(row(sorted.many[1 + which]), (part - which * tiles) * ZR__PIECE_THREADS + threadIdx.x);
        }
    }
};

/* Add the tokens of all rows. For each blockIdx.y, the first many_blocks blocks process the rows with many tokens,
 * which take longest, and the remaining blocks process the other rows. */
template <typename F>
__global__ void __launch_bounds__(ZR__PIECE_THREADS)
    sum_rows(int64_t rows, int64_t pieces, int log, unsigned many_blocks, F f)
{
    if (blockIdx.x < many_blocks)
        f.many((int64_t)blockIdx.y * many_blocks + blockIdx.x, (int64_t)gridDim.y * many_blocks);
    else
        zr__pieces_of(blockIdx.x - many_blocks, gridDim.x - many_blocks, rows, pieces, log, f);
}

template <typename T, int V> zr_status sum_tokens(const zr_kernel_args *args, const sorted_tokens &sorted, const T *dy)
{
    const zr_tensor *out = &args->out[0], *earlier = &args->in[2];
    const int64_t C = zr_shape_cols(&out->shape);
    const row_sums<T, V> f = {.sorted = sorted,
                              .dtable = zr__array_of(out),
                              .earlier = zr__array_of(earlier),
                              .dy = dy,
                              .C = C,
                              .in_place = earlier->data == out->data};
    const int64_t parts = sorted.tokens.n / (ZR__CUDA_MANY_TOKENS + 1) * zr__ceil_div(C, ZR__PIECE_THREADS);
    const unsigned many_blocks = (unsigned)(parts < 512 ? parts : 512);
    zr__piece_grid grid = zr__piece_grid_of(sorted.tokens.rows, C / V);
    grid.blocks.x += many_blocks;
    ZR_LAUNCH(zr__stream_of(args), (sum_rows<row_sums<T, V>>), grid.blocks, ZR__PIECE_THREADS, 0, sorted.tokens.rows,
              C / V, grid.log, many_blocks, f);
    return zr__launched();
}

/* Compute the gradient of a table. The operands are ids or documents, dy and earlier. */
zr_status sum_by_row(const zr_kernel_args *args, const token_ids &tokens)
{
    const zr_tensor *dy = &args->in[1], *earlier = &args->in[2], *out = &args->out[0];
    sorted_tokens sorted;
    ZR_TRY(sort_tokens(args, tokens, &sorted));
    const bool packed =
        zr_shape_cols(&out->shape) % ZR__PACK == 0 && zr__are_aligned(out->data, earlier->data, dy->data);
    return zr__typed(dy->dtype, [&]<typename T>(T *) {
        return packed ? sum_tokens<T, ZR__PACK>(args, sorted, (const T *)dy->data)
                      : sum_tokens<T, 1>(args, sorted, (const T *)dy->data);
    });
}

zr_status run_embedding_dw(const zr_kernel_args *args)
{
    token_ids tokens;
    ZR_TRY(tokens_of(args, args->out[0].shape.dim[0], &tokens));
    return sum_by_row(args, tokens);
}

zr_status run_rows_dx(const zr_kernel_args *args)
{
    token_ids tokens;
    ZR_TRY(indices_of(args, &args->out[0], &tokens));
    return sum_by_row(args, tokens);
}

/* ---- position ---------------------------------------------------------------------------------- */

/* Functor that computes y = x + the table's row of each position. Each element of x is read before the same element of
 * y is written, so y may share the memory of x. */
template <typename T, int V> struct add_positions {
    T *y;
    const T *x, *table;
    int64_t C, first;
    zr__sequence s;
    const int32_t *documents; /* beginnings of the documents of the micro-batch, or nullptr */

    struct place {
        int64_t row, position;
    };
    __device__ place row(int64_t r) const
    {
        const int64_t flat = s.row + r, begin = documents ? documents[flat] : 0;
        return {r * C, (first + flat - zr__divide(flat, s.T) * s.T - begin) * C};
    }
    __device__ zr__values<V> get(place at, int64_t i) const
    {
        zr__values<V> a, b;
        zr__get_all<V>(a.of, x, at.row + i * V);
        zr__get_all<V>(b.of, table, at.position + i * V);
        for (int v = 0; v < V; v++) a.of[v] = a.of[v] + b.of[v];
        return a;
    }
    __device__ void put(place at, int64_t i, const zr__values<V> &value) const
    {
        zr__put_all<V>(y, at.row + i * V, value.of);
    }
};

zr_status run_position(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *table = &args->in[1], *out = &args->out[0];
    const zr__sequence s = zr__sequence_of(args, &x->shape);
    const int32_t *documents = args->n_in > 2 ? (const int32_t *)args->in[2].data : nullptr;
    const int64_t rows = zr_shape_rows(&x->shape), C = zr_shape_cols(&x->shape);
    const int64_t first = args->runtime->position, P = table->shape.dim[0];
    ZR_CHECK(first >= 0 && first + s.T <= P, ZR_ERR_DATA,
             "%lld tokens from position %lld on, but the model has %lld positions: shorten the sequence",
             (long long)s.T, (long long)first, (long long)P);
    return zr__typed(x->dtype, [&]<typename T>(T *) {
        constexpr int V = zr__chunk_elems<T>;
        T *to = (T *)out->data;
        const T *from = (const T *)x->data, *added = (const T *)table->data;
        if (C % V == 0 && zr__are_aligned(to, from, added))
            return zr__each_move(zr__stream_of(args), rows, C / V,
                                 add_positions<T, V>{to, from, added, C, first, s, documents});
        return zr__each_move(zr__stream_of(args), rows, C,
                             add_positions<T, 1>{to, from, added, C, first, s, documents});
    });
}

constexpr int position_batch = 4; /* number of rows of dy that a thread reads before it adds them */

/* Functor that computes dtable[t] = earlier[t] + the sum of the rows of dy at position t, added in ascending order. */
template <typename T, int V> struct position_sums {
    zr__array dtable, earlier;
    const T *dy;
    int64_t rows, C;
    zr__sequence s;

    struct place {
        int64_t t, /* position */
            first; /* index of this rank's first row at the position */
    };
    __device__ place row(int64_t t) const
    {
        return {t, t < s.T ? (t - s.row % s.T + s.T) % s.T : rows};
    }
    __device__ void piece(place at, int64_t i) const
    {
        const int64_t c = i * V;
        float sum[V] = {}, x[position_batch][V];
        if (earlier.data) zr__get_all<V>(sum, earlier, at.t * C + c);
        for (int64_t r = at.first; r < rows; r += position_batch * s.T) {
#pragma unroll
            for (int j = 0; j < position_batch; j++)
                zr__get_all<V>(x[j], dy, (r + j * s.T < rows ? r + j * s.T : r) * C + c);
#pragma unroll
            for (int j = 0; j < position_batch; j++)
                for (int v = 0; v < V; v++)
                    if (r + j * s.T < rows) sum[v] = sum[v] + x[j][v];
        }
        zr__put_all<V>(dtable, at.t * C + c, sum);
    }
};

/* Compute the gradient of a position table for rows of several documents. The operands are documents, dy and earlier.
 * The computation is the gradient of a look-up with positions as ids. */
zr_status run_position_dw_of_documents(const zr_kernel_args *args)
{
    const zr_shape *dy = &args->in[1].shape;
    const int32_t *documents = (const int32_t *)args->in[0].data;
    return sum_by_row(
        args, {nullptr, zr_shape_rows(dy), 0, args->out[0].shape.dim[0], documents, zr__sequence_of(args, dy), 0});
}

zr_status run_position_dw(const zr_kernel_args *args)
{
    if (args->n_in > 2) return run_position_dw_of_documents(args);
    const zr_tensor *dy = &args->in[0], *out = &args->out[0];
    const zr__array dtable = zr__array_of(out), earlier = zr__array_of(&args->in[1]);
    const zr__sequence s = zr__sequence_of(args, &dy->shape);
    const int64_t rows = zr_shape_rows(&dy->shape), P = out->shape.dim[0], C = out->shape.dim[1];
    const bool packed = C % ZR__PACK == 0 && zr__are_aligned(dtable, earlier, dy->data);
    return zr__typed(dy->dtype, [&]<typename T>(T *) {
        const T *from = (const T *)dy->data;
        cudaStream_t stream = zr__stream_of(args);
        if (packed)
            return zr__each_piece(stream, P, C / ZR__PACK,
                                  position_sums<T, ZR__PACK>{dtable, earlier, from, rows, C, s});
        return zr__each_piece(stream, P, C, position_sums<T, 1>{dtable, earlier, from, rows, C, s});
    });
}

} // namespace

ZR_CUDA_KERNELS(embedding) = {
    zr__kernel("embedding", run_embedding),
    zr__kernel("embedding_dw", run_embedding_dw),
    zr__kernel("rows", run_rows),
    zr__kernel("rows_dx", run_rows_dx),
    zr__kernel("position", run_position),
    zr__kernel("position_dw", run_position_dw),
    {},
};
