/*
 * Loops over rows for two sorts of kernels. Some kernels need all of a row before they write any of it ("rows that are
 * kept"). Other kernels process each piece of a row independently ("pieces of rows", "pieces that are moved").
 */
#ifndef ZR_DEVICE_CUDA_ROWS_H
#define ZR_DEVICE_CUDA_ROWS_H

#include <initializer_list>

#include "device/cuda/launch.h"

/* ---- rows that are kept ------------------------------------------------------------------------ */

/* Kept rows. A row of C elements is processed by one warp, or by one block whose number of warps depends only on C. The
 * order of a row's sums therefore depends only on C and the type. Each thread processes every lanes-th chunk. If
 * PACKED, chunks are aligned to 16 bytes, and a thread keeps its chunks in registers, so that memory is read once.
 * Otherwise every pass reads the elements again, one by one. */
constexpr int ZR__ROW_KEPT = 32;   /* maximum number of elements that a thread keeps */
constexpr int ZR__ROW_LANES = 512; /* maximum number of threads of a row */

/* Launch kernel(args..., lanes) for rows of C elements: `packed` for packed rows, otherwise `other`. lanes is the
 * number of threads for each row. aligned: whether the rows' arrays are aligned to 16 bytes. */
template <typename T, typename... Params, typename... Args>
zr_status zr__each_row(cudaStream_t stream, int64_t rows, int64_t C, bool aligned, void (*packed)(Params...),
                       void (*other)(Params...), const Args &...args)
{
    const int64_t wanted = ZR__WARP * zr__ceil_div(C, ZR__WARP * ZR__ROW_KEPT);
    const int lanes = (int)(wanted < ZR__ROW_LANES ? wanted : ZR__ROW_LANES);
    const int threads = lanes == ZR__WARP ? 4 * ZR__WARP : lanes;
    const bool keeps = aligned && C % zr__chunk_elems<T> == 0 && C <= (int64_t)ZR__ROW_LANES * ZR__ROW_KEPT;
    void (*const kernel)(Params...) = keeps ? packed : other;
    ZR_LAUNCH(stream, kernel, zr__blocks(rows, threads / lanes), (unsigned)threads, 0, args..., lanes);
    return zr__launched();
}

/* Position of a thread: its current row, the step to its next row, its index among the row's threads, and the number of
 * threads for each row. */
struct zr__row_place {
    int64_t row, step;
    int lane, lanes;
};

__device__ __forceinline__ zr__row_place zr__row_place_of(int lanes)
{
    const int thread = (int)threadIdx.x;
    if (lanes != ZR__WARP) return {blockIdx.x, gridDim.x, thread, lanes};
    const int64_t rows = blockDim.x / ZR__WARP;
    return {blockIdx.x * rows + thread / ZR__WARP, gridDim.x * rows, thread % ZR__WARP, lanes};
}

/* Reduce x over all threads of a row. */
template <typename Op>
__device__ __forceinline__ float zr__row_all(const zr__row_place &at, float x, Op op, float neutral)
{
    return at.lanes == ZR__WARP ? zr__warp_all(x, op) : zr__block_all(x, op, neutral);
}

/* Call f(k, c) for each chunk of the thread. c is the index of the chunk's first element in the row. k is the chunk's
 * index among the thread's chunks, or always 0 if not PACKED. */
template <typename T, bool PACKED, typename F>
__device__ __forceinline__ void zr__row_chunks(const zr__row_place &at, int64_t C, F f)
{
    constexpr int V = zr__chunk_elems<T>;
    if constexpr (PACKED) {
#pragma unroll
        for (int k = 0; k < ZR__ROW_KEPT / V; k++) {
            const int c = (k * at.lanes + at.lane) * V;
            if (c < (int)C) f(k, (int64_t)c);
        }
    } else
        for (int64_t c = (int64_t)at.lane * V; c < C; c += (int64_t)at.lanes * V) f(0, c);
}

/* Return whether element c is inside the row. A packed row has only whole chunks, so all elements of its chunks are
 * inside. */
template <bool PACKED> __device__ __forceinline__ bool zr__row_has(int64_t c, int64_t C)
{
    return PACKED || c < C;
}

/* Load the chunk that begins at element c. Elements beyond the row's end are 0. */
template <bool PACKED, int V, typename T>
__device__ __forceinline__ void zr__row_get(float (&out)[V], const T *row, int64_t c, int64_t C)
{
    if constexpr (PACKED)
        zr__get_all<V>(out, row, c);
    else
        for (int v = 0; v < V; v++) out[v] = c + v < C ? zr__get(row, c + v) : 0.0f;
}

template <bool PACKED, int V, typename T>
__device__ __forceinline__ void zr__row_put(T *row, int64_t c, int64_t C, const float (&in)[V])
{
    if constexpr (PACKED)
        zr__put_all<V>(row, c, in);
    else
        for (int v = 0; v < V; v++)
            if (c + v < C) zr__put(row, c + v, in[v]);
}

/* Unpack the elements of a chunk to fp32. */
template <int V, typename T> __device__ __forceinline__ void zr__chunk_get(float (&out)[V], const zr__chunk &chunk, T *)
{
    alignas(16) T raw[V];
    *(zr__chunk *)raw = chunk;
    for (int v = 0; v < V; v++) out[v] = zr__get(raw, v);
}

/* The elements of a row that a thread keeps. */
template <typename T, bool PACKED> struct zr__row_kept {
    static constexpr int V = zr__chunk_elems<T>;
    const T *row;
    zr__chunk chunk[PACKED ? ZR__ROW_KEPT / V : 1];

    __device__ __forceinline__ void read(const zr__row_place &at, int64_t C)
    {
        if constexpr (PACKED)
            zr__row_chunks<T, true>(at, C, [&](int k, int64_t c) { chunk[k] = *(const zr__chunk *)(row + c); });
    }
    __device__ __forceinline__ void get(float (&out)[V], int k, int64_t c, int64_t C) const
    {
        if constexpr (PACKED)
            zr__chunk_get(out, chunk[k], (T *)nullptr);
        else
            zr__row_get<false>(out, row, c, C);
    }
};

/* Return n / by. 32-bit division is used if both numbers fit into 32 bits, as they usually do, because it is several
 * times faster than 64-bit division. */
__device__ __forceinline__ int64_t zr__divide(int64_t n, int64_t by)
{
    return ((n | by) >> 32) == 0 ? (int64_t)((uint32_t)n / (uint32_t)by) : n / by;
}

/* ---- pieces of rows ---------------------------------------------------------------------------- */

constexpr int ZR__PIECE_THREADS = 256;

/* Assignment of pieces to threads: 2^log threads work side by side on a row. */
struct zr__piece_grid {
    dim3 blocks;
    int log;
};

static inline zr__piece_grid zr__piece_grid_of(int64_t rows, int64_t pieces)
{
    int log = 0;
    while (((int64_t)1 << log) < pieces && (1 << log) < ZR__PIECE_THREADS) log++;
    const int64_t across = zr__ceil_div(pieces, ZR__PIECE_THREADS);
    return {dim3(zr__blocks(rows, ZR__PIECE_THREADS >> log), (unsigned)(across < 1024 ? across : 1024)), log};
}

/* Process the rows that belong to the block with index `block` among `blocks` blocks. For each row, compute at =
 * f.row(row), the values that all pieces of the row share, then call f.piece(at, i) for the thread's pieces i. */
template <typename F>
__device__ __forceinline__ void zr__pieces_of(int64_t block, int64_t blocks, int64_t rows, int64_t pieces, int log,
                                              const F &f)
{
    const int lanes = 1 << log, thread = (int)threadIdx.x;
    const int64_t in_block = ZR__PIECE_THREADS >> log;
    for (int64_t row = block * in_block + (thread >> log); row < rows; row += blocks * in_block) {
        const auto at = f.row(row);
        for (int64_t i = (int64_t)blockIdx.y * lanes + (thread & (lanes - 1)); i < pieces;
             i += (int64_t)gridDim.y * lanes)
            f.piece(at, i);
    }
}

template <typename F>
__global__ void __launch_bounds__(ZR__PIECE_THREADS) zr__pieces_kernel(int64_t rows, int64_t pieces, int log, F f)
{
    zr__pieces_of(blockIdx.x, gridDim.x, rows, pieces, log, f);
}

template <typename F> zr_status zr__each_piece(cudaStream_t stream, int64_t rows, int64_t pieces, F f)
{
    if (rows <= 0 || pieces <= 0) return ZR_OK;
    const zr__piece_grid grid = zr__piece_grid_of(rows, pieces);
    ZR_LAUNCH(stream, zr__pieces_kernel<F>, grid.blocks, ZR__PIECE_THREADS, 0, rows, pieces, grid.log, f);
    return zr__launched();
}

/* ---- pieces that are moved --------------------------------------------------------------------- */

constexpr int ZR__MOVE_ROWS =
    4; /* number of pieces, one of each row, that a thread reads before it writes the first piece */

/* Call f.put(at, i, f.get(at, i)) for each piece i of each row, where at = f.row(row). */
template <typename F>
__global__ void __launch_bounds__(ZR__PIECE_THREADS) zr__moves_kernel(int64_t rows, int64_t pieces, int log, F f)
{
    const int lanes = 1 << log, thread = (int)threadIdx.x;
    const int64_t next = ZR__PIECE_THREADS >> log, in_block = next * ZR__MOVE_ROWS;
    for (int64_t row = blockIdx.x * in_block + (thread >> log); row < rows; row += gridDim.x * in_block) {
        decltype(f.row(row)) at[ZR__MOVE_ROWS];
#pragma unroll
        /* Beyond the last row, the same row is read twice but written once, which saves a branch. */
        for (int j = 0; j < ZR__MOVE_ROWS; j++) at[j] = f.row(row + j * next < rows ? row + j * next : row);
        for (int64_t i = (int64_t)blockIdx.y * lanes + (thread & (lanes - 1)); i < pieces;
             i += (int64_t)gridDim.y * lanes) {
            decltype(f.get(at[0], i)) value[ZR__MOVE_ROWS];
#pragma unroll
            for (int j = 0; j < ZR__MOVE_ROWS; j++) value[j] = f.get(at[j], i);
#pragma unroll
            for (int j = 0; j < ZR__MOVE_ROWS; j++)
                if (row + j * next < rows) f.put(at[j], i, value[j]);
        }
    }
}

template <typename F> zr_status zr__each_move(cudaStream_t stream, int64_t rows, int64_t pieces, F f)
{
    if (rows <= 0 || pieces <= 0) return ZR_OK;
    const zr__piece_grid grid = zr__piece_grid_of(zr__ceil_div(rows, ZR__MOVE_ROWS), pieces);
    ZR_LAUNCH(stream, zr__moves_kernel<F>, grid.blocks, ZR__PIECE_THREADS, 0, rows, pieces, grid.log, f);
    return zr__launched();
}

/* Mover of pieces between arrays of the same type: it copies bytes. zr__move_values converts pieces of V elements
 * between arrays of different types. `to` and `from` are indices of pieces. */
template <typename E> struct zr__move_bytes {
    E *out;
    const E *in;

    __device__ E get(int64_t from) const
    {
        return in[from];
    }
    __device__ E zero() const
    {
        return E();
    }
    __device__ void put(int64_t to, E value) const
    {
        out[to] = value;
    }
};

template <int V> struct zr__values {
    float of[V];
};

template <int V> struct zr__move_values {
    zr__array out, in;

    __device__ zr__values<V> get(int64_t from) const
    {
        zr__values<V> value;
        zr__get_all<V>(value.of, in, from * V);
        return value;
    }
    __device__ zr__values<V> zero() const
    {
        return {};
    }
    __device__ void put(int64_t to, const zr__values<V> &value) const
    {
        zr__put_all<V>(out, to * V, value.of);
    }
};

/* Call f(mover, V) with a mover for pieces of V elements. V divides each of `sizes`, which are lengths of rows and runs
 * in elements. */
template <typename F>
zr_status zr__with_mover(const zr_tensor *out, const zr_tensor *in, std::initializer_list<int64_t> sizes, F f)
{
    const int64_t width = zr_dtype_bytes(out->dtype);
    const bool same = out->dtype == in->dtype;
    const int64_t V = same ? (int64_t)sizeof(zr__chunk) / width : ZR__PACK;
    bool packed = zr__are_aligned(out->data, in->data);
    for (int64_t size : sizes) packed = packed && size % V == 0;
    if (same && packed) return f(zr__move_bytes<zr__chunk>{(zr__chunk *)out->data, (const zr__chunk *)in->data}, V);
    if (same && width == 4) return f(zr__move_bytes<uint32_t>{(uint32_t *)out->data, (const uint32_t *)in->data}, 1);
    if (same) return f(zr__move_bytes<uint16_t>{(uint16_t *)out->data, (const uint16_t *)in->data}, 1);
    if (packed) return f(zr__move_values<ZR__PACK>{zr__array_of(out), zr__array_of(in)}, V);
    return f(zr__move_values<1>{zr__array_of(out), zr__array_of(in)}, 1);
}

#endif
