/* Computations of ZeRO's steps: sum of pieces, square norm, exact sums, cast, initial values. */
#include <algorithm>

#include "base/number/normal.h"
#include "device/cuda/exact_sums.h"
#include "device/cuda/records.h"

namespace
{

/* ---- the sum of pieces ------------------------------------------------------------------------- */

constexpr int few_pieces = 64, tree_levels = 12;

/* Functors that load V elements of a piece from element i on: of a type known when the kernel is compiled, or of a type
 * with records. */
template <typename In> struct read_plain {
    template <int V> __device__ void run(float (&out)[V], const void *piece, int64_t i) const
    {
        zr__get_all<V>(out, (const In *)piece, i);
    }
};
struct read_records {
    zr__reader reader;

    template <int V> __device__ void run(float (&out)[V], const void *piece, int64_t i) const
    {
        zr__read_all<V>(out, reader, piece, i);
    }
};

/* Functor that computes the tree sum of the pieces, plus `out` if `accumulate`. Complete subtrees are stored by level,
 * as a binary counter stores its bits: two subtrees of equal size are added at once, which gives a subtree of the next
 * level. At the end the remaining subtrees are added, smallest first. */
template <typename Out, typename Read> struct sum_each {
    Out *out;
    Read read;
    const void *few[few_pieces];
    const void *const *all; /* addresses of the pieces, in GPU memory; NULL if all addresses are in `few` */
    int pieces;
    bool accumulate;

    template <int V> __device__ void run(int64_t i) const
    {
        float level[tree_levels][V] = {}, x[V] = {};
        for (int r = 0; r < pieces; r++) {
            read.template run<V>(x, all ? all[r] : few[r], i);
            bool placed = false;
#pragma unroll
            for (int l = 0; l < tree_levels; l++) {
                if (placed) continue;
                placed = (r >> l & 1) == 0;
                for (int v = 0; v < V; v++) {
                    if (placed)
                        level[l][v] = x[v];
                    else
                        x[v] = level[l][v] + x[v];
                }
            }
        }
        bool any = false;
#pragma unroll
        for (int l = 0; l < tree_levels; l++) {
            if ((pieces >> l & 1) == 0) continue;
            for (int v = 0; v < V; v++) x[v] = any ? level[l][v] + x[v] : level[l][v];
            any = true;
        }
        if (accumulate) {
            float earlier[V];
            zr__get_all<V>(earlier, out, i);
            for (int v = 0; v < V; v++) x[v] = earlier[v] + x[v];
        }
        zr__put_all<V>(out, i, x);
    }
};

/* Make a piece accessible to this GPU. If the piece is in the memory of another GPU of this process, enable peer
 * access. */
zr_status reach_piece(int gpu, const void *piece)
{
    struct cudaPointerAttributes at;
    int can = 0;
    ZR_CUDA(cudaPointerGetAttributes(&at, piece));
    if (at.type != cudaMemoryTypeDevice || at.device == gpu) return ZR_OK;
    ZR_CUDA(cudaDeviceCanAccessPeer(&can, gpu, at.device));
    ZR_CHECK(can, ZR_ERR_UNSUPPORTED,
             "GPU %d cannot read the memory of GPU %d, which ranks that are threads need; start the ranks as processes "
             "(mpirun)",
             gpu, at.device);
    const cudaError_t error = cudaDeviceEnablePeerAccess(at.device, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) ZR_CUDA(error);
    (void)cudaGetLastError();
    return ZR_OK;
}

template <typename Out, typename Read>
zr_status sum_pieces(const zr__cuda_device *cuda, Out *out, bool accumulate, const void *const *pieces, int n_pieces,
                     zr__reader reader, Read read, int64_t n)
{
    sum_each<Out, Read> each = {out, read, {}, NULL, n_pieces, accumulate};
    bool packed = zr__is_aligned(out);
    for (int r = 0; r < n_pieces; r++) packed = packed && zr__can_pack(reader, pieces[r]);
    if (n_pieces <= few_pieces)
        std::copy_n(pieces, n_pieces, each.few);
    else { /* The list is in pageable memory. CUDA usually reads it before the call returns, but does not guarantee
              this. Therefore wait: the caller may change `pieces` after the call. */
        each.all = cuda->room->piece;
        ZR_CUDA(cudaMemcpyAsync(cuda->room->piece, pieces, (size_t)n_pieces * sizeof *pieces, cudaMemcpyHostToDevice,
                                cuda->stream));
        ZR_CUDA(cudaStreamSynchronize(cuda->stream));
    }
    return zr__each(cuda->stream, n, packed, each);
}

/* ---- casts ------------------------------------------------------------------------------------- */

template <typename Out, typename In> struct cast_each {
    Out *out;
    const In *in;

    template <int V> __device__ void run(int64_t i) const
    {
        float x[V];
        zr__get_all<V>(x, in, i);
        zr__put_all<V>(out, i, x);
    }
};

/* Addend of a cast: sign * x, or 0 without an array. */
struct addend {
    zr__array x;
    float sign;

    template <int V> __device__ void add_to(float (&sum)[V], int64_t i) const
    {
        float more[V];
        if (!x.data) return;
        zr__get_all<V>(more, x, i);
        for (int v = 0; v < V; v++) sum[v] += sign * more[v];
    }
};

addend addend_of(const zr_casting *casting)
{
    return casting ? addend{{(void *)casting->added, casting->added_dtype}, casting->sign} : addend{};
}

/* Functor that decodes records. */
struct decode_each {
    zr__array out;
    const void *in;
    zr__reader reader;
    addend added;

    template <int V> __device__ void run(int64_t i) const
    {
        float x[V];
        zr__read_all<V>(x, reader, in, i);
        added.add_to<V>(x, i);
        zr__put_all<V>(out, i, x);
    }
};

constexpr int encoded = ZR__ENCODED, encoded_warp = ZR__ENCODED_WARP;

/* Multiply each 128 elements, of 16 threads, by the Hadamard matrix. */
__device__ __forceinline__ void turn(float (&x)[encoded], int lane)
{
    for (int mask = ZR__RECORD_TURNED / encoded / 2; mask > 0; mask /= 2)
        for (int v = 0; v < encoded; v++) {
            const float other = __shfl_xor_sync(ZR__ALL_LANES, x[v], mask);
            x[v] = lane & mask ? other - x[v] : x[v] + other;
        }
#pragma unroll
    for (int h = encoded / 2; h > 0; h /= 2)
#pragma unroll
        for (int v = 0; v < encoded; v++)
            if ((v & h) == 0) {
                const float a = x[v], b = x[v + h];
                x[v] = a + b;
                x[v + h] = a - b;
            }
}

/* Return the scale of a record of x, whose elements several threads of a warp have. *finite becomes whether all
 * elements are finite. */
__device__ __forceinline__ uint16_t scale_of(const zr__record &its, const float (&x)[encoded], bool up, bool *finite)
{
    const uint32_t most = zr__record_most(its, x);
    *finite = most < 0x7f800000u;
    return zr__record_scale(most, its.largest, up);
}

/* Renew the errors of a record (zr__record_error). y: elements of this thread, `had`: their earlier errors, `code`:
 * their codes as numbers, `scale`: the record's scale. `kept` is the kind of the record of errors, `word` its first
 * word, or NULL beyond the end, and `i` the index in it of this thread's first element. Only the first n of this
 * thread's elements have errors. */
__device__ __forceinline__ void renew_errors(const zr__record &its, const float (&y)[encoded],
                                             const float (&had)[encoded], float (&code)[encoded], float scale,
                                             const zr__record &kept, uint16_t *word, int i, int64_t n,
                                             const zr_feedback &feedback)
{
    float error[encoded];
    bool finite;
    if (its.turns) turn(code, (int)threadIdx.x % ZR__WARP);
    for (int v = 0; v < encoded; v++)
        error[v] = v < n ? zr__record_error(y[v], had[v], code[v] * scale, feedback.beta, feedback.scale) : 0.0f;
    const uint16_t own = scale_of(kept, error, false, &finite);
    const bool drops = zr__record_drops_errors(own);
    if (!word) return;
    if (i == 0) word[0] = drops ? 0 : own;
    for (int v = 0; v < encoded; v += 2) {
        const float divisor = zr__record_divisor(own);
        const uint32_t low = zr__code_of(kept, error[v] / divisor, false, 0),
                       high = zr__code_of(kept, error[v + 1] / divisor, false, 0);
        word[1 + (i + v) / 2] = drops ? 0 : (uint16_t)(low | high << 8);
    }
}

/* Encode n elements of `in`. `packed`: whether elements are read several at a time. Without `at_random`, `rounding` is
 * not used. `kept` is the kind of the records of errors, which are NULL without feedback. */
__global__ void encode_records(uint16_t *out, zr__record its, const void *in, zr__reader reader, addend added,
                               int64_t n, bool packed, bool at_random, zr_rounding rounding, zr__record kept,
                               zr_feedback feedback)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    const int64_t warps = zr__step() / ZR__WARP;
    for (int64_t at = zr__first() / ZR__WARP * encoded_warp; at < n; at += warps * encoded_warp) {
        const int64_t first = at + lane * encoded;
        float x[encoded] = {};
        if (packed && first + encoded <= n) {
            zr__read_all<encoded>(x, reader, in, first);
            added.add_to<encoded>(x, first);
        } else
#pragma unroll
            for (int v = 0; v < encoded; v++) {
                float one[1] = {};
                if (first + v < n) {
                    zr__read_all<1>(one, reader, in, first + v);
                    added.add_to<1>(one, first + v);
                }
                x[v] = one[0];
            }
        int64_t i = first, same = first;
        uint16_t *word = out + zr__record_words(its, &i);
        uint16_t *error = (uint16_t *)feedback.error + zr__record_words(kept, &same);
        const bool there = first - i < n; /* whether the record is not beyond the end */
        float had[encoded] = {}, y[encoded], value[encoded];
        if (feedback.error && !feedback.anew && there) zr__decode<encoded, 8>(had, kept, error, (int)i);
        for (int v = 0; v < encoded; v++) {
            had[v] *= feedback.scale;
            y[v] = feedback.error ? x[v] + had[v] : x[v];
            x[v] = its.turns ? y[v] * (1.0f / ZR__RECORD_TURNED) : y[v];
        }
        if (its.turns) turn(x, lane);
        bool finite;
        const uint16_t scale = scale_of(its, x, at_random, &finite);
        const float divisor = zr__record_divisor(scale);
        if (i == 0 && there) word[0] = scale;
        word += 1 + i * its.bits / 16;
        zr__record_keys keys = {};
        uint32_t filled = 0;
#pragma unroll
        for (int v = 0; v < encoded; v++) {
            const uint64_t index = rounding.first + (uint64_t)(first + v);
            const uint32_t number = at_random ? zr__random_at(rounding.rng, &keys, v == 0, index) : 0;
            const uint32_t code = finite ? zr__code_of(its, x[v] / divisor, at_random, number) : 0;
            value[v] = zr__code_value(its, code);
            filled |= code << (v * its.bits % 16);
            if ((v + 1) * its.bits % 16 > 0) continue;
            if (there) word[v * its.bits / 16] = (uint16_t)filled;
            filled = 0;
        }
        if (feedback.error)
            renew_errors(its, y, had, value, zr_f32_from_bf16(scale), kept, there ? error : NULL, (int)i, n - first,
                         feedback);
    }
}

zr_status encode(cudaStream_t stream, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                 const zr_casting *casting)
{
    constexpr int threads = 256;
    const zr__reader reader = zr__reader_of(dtype);
    const addend added = addend_of(casting);
    const zr_rounding *rounding = casting ? casting->rounding : NULL;
    const zr_feedback *feedback = casting ? casting->feedback : NULL;
    if (n <= 0) return ZR_OK;
    ZR_LAUNCH(stream, encode_records, zr__blocks(n, threads * encoded), threads, 0, (uint16_t *)out,
              zr__record_of(out_dtype), in, reader, added, n, zr__can_pack(reader, in) && zr__is_aligned(added.x.data),
              rounding != NULL, rounding ? *rounding : zr_rounding{}, zr__record_of(zr__error_dtype(out_dtype)),
              feedback ? *feedback : zr_feedback{});
    return zr__launched();
}

/* ---- initial values ---------------------------------------------------------------------------- */

struct normal_each {
    zr_rng rng;
    uint64_t first;
    float std;
    float *out;

    template <int V> __device__ void run(int64_t i) const
    {
        float x[V];
        for (int v = 0; v < V; v++) x[v] = zr__normal_at(&rng, first + (uint64_t)(i + v), std);
        zr__put_all<V>(out, i, x);
    }
};

/* ---- squares ----------------------------------------------------------------------------------- */

constexpr int square_threads = 256, square_run = 4096;
constexpr int64_t none = -1;

__device__ __forceinline__ bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* Operator that returns the smaller of two indices, where -1 stands for no index. */
struct earlier {
    __device__ int64_t operator()(int64_t a, int64_t b) const
    {
        return a < 0 ? b : b < 0 || a < b ? a : b;
    }
};

/* Sum squares in runs of square_run elements. Block number b of `blocks` adds the runs b, b + blocks, and so on. A
 * thread gets the same elements of a run on every GPU, whether x is aligned (`packed`) or not. */
template <typename T> __global__ void square_parts(zr__cuda_room *room, const T *x, int64_t n, bool packed)
{
    double sum = 0;
    int64_t bad = none;
    for (int64_t at = (int64_t)blockIdx.x * square_run; at < n; at += (int64_t)ZR__CUDA_PARTS * square_run)
        for (int64_t i = at + (int64_t)threadIdx.x * ZR__PACK; i < at + square_run; i += square_threads * ZR__PACK) {
            float value[ZR__PACK];
            if (packed && i + ZR__PACK <= n)
                zr__get_all<ZR__PACK>(value, x, i);
            else
                for (int v = 0; v < ZR__PACK; v++) value[v] = i + v < n ? zr__get(x, i + v) : 0.0f;
            for (int v = 0; v < ZR__PACK; v++) {
                sum += (double)value[v] * (double)value[v];
                if (bad < 0 && !is_finite(value[v])) bad = i + v;
            }
        }
    sum = zr__block_all(sum, zr__plus(), 0.0);
    bad = zr__block_all(bad, earlier(), none);
    if (threadIdx.x != 0) return;
    room->part[blockIdx.x] = sum;
    room->bad[blockIdx.x] = bad;
}

/* Add the partial sums, by one block of threads, in an order that depends only on their number. */
__global__ void square_join(const zr__cuda_room *room, int parts, int64_t first, bool sums, zr_square *square)
{
    double sum = 0;
    int64_t bad = none;
    for (int b = (int)threadIdx.x; b < parts; b += square_threads) {
        sum += room->part[b];
        bad = earlier()(bad, room->bad[b]);
    }
    sum = zr__block_all(sum, zr__plus(), 0.0);
    bad = zr__block_all(bad, earlier(), none);
    if (threadIdx.x != 0) return;
    if (sums) square->sum += sum;
    if (bad >= 0 && square->bad < 0) square->bad = first + bad;
}

} // namespace

extern "C" {

zr_status zr__cuda_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                       int n_pieces, zr_dtype dtype, int64_t n)
{
    ZR_CHECK(n_pieces >= 1 && n_pieces <= ZR__CUDA_PIECES, ZR_ERR_ARG, "%d pieces to sum, wanted 1 to %d", n_pieces,
             ZR__CUDA_PIECES);
    ZR_CHECK(!accumulate || out_dtype == ZR_F32, ZR_ERR_DTYPE, "sums are accumulated in F32, not in %s",
             zr_dtype_name(out_dtype));
    ZR_TRY(zr__cuda_begin(device));
    for (int r = 0; r < n_pieces; r++) ZR_TRY(reach_piece(zr__cuda(device)->ordinal, pieces[r]));
    const zr__reader reader = zr__reader_of(dtype);
    const auto add = [&]<typename Out, typename Read>(Out *, Read read) {
        return sum_pieces(zr__cuda(device), (Out *)out, accumulate, pieces, n_pieces, reader, read, n);
    };
    if (zr_dtype_is_record(dtype))
        return zr__cuda_end(device, zr__typed(out_dtype, [&](auto *o) { return add(o, read_records{reader}); }));
    return zr__cuda_end(
        device, zr__typed2(out_dtype, dtype, [&]<typename In>(auto *o, In *) { return add(o, read_plain<In>{}); }));
}

zr_status zr__cuda_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                          zr_square *square)
{
    const zr__cuda_device *cuda = zr__cuda(device);
    if (n == 0) return ZR_OK;
    ZR_TRY(zr__cuda_begin(device));
    const zr_status st = zr__typed(dtype, [&]<typename T>(T *) -> zr_status {
        const T *in = (const T *)x;
        const int64_t runs = zr__ceil_div(n, square_run);
        const int parts = (int)(runs < ZR__CUDA_PARTS ? runs : ZR__CUDA_PARTS);
        ZR_LAUNCH(cuda->stream, (square_parts<T>), (unsigned)parts, square_threads, 0, cuda->room, in, n,
                  zr__is_aligned(in));
        ZR_LAUNCH(cuda->stream, square_join, 1, square_threads, 0, cuda->room, parts, first, !exact, square);
        if (exact) ZR_TRY(zr__exact_all<true>(cuda, in, n, &square->exact));
        return zr__launched();
    });
    return zr__cuda_end(device, st);
}

zr_status zr__cuda_total(zr_device *device, const float *x, int64_t n, zr_exact *sum)
{
    ZR_TRY(zr__cuda_begin(device));
    return zr__cuda_end(device, zr__exact_all<false>(zr__cuda(device), x, n, sum));
}

zr_status zr__cuda_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                        const zr_casting *casting)
{
    const cudaStream_t stream = zr__cuda(device)->stream;
    if (zr_dtype_is_record(out_dtype)) return encode(stream, out, out_dtype, in, dtype, n, casting);
    if (zr_dtype_is_record(dtype)) {
        const decode_each each = {{out, out_dtype}, in, zr__reader_of(dtype), addend_of(casting)};
        return zr__each(stream, n, zr__are_aligned(out, each.added.x), each);
    }
    return zr__typed2(out_dtype, dtype, [&]<typename Out, typename In>(Out *, In *) {
        const cast_each<Out, In> each = {(Out *)out, (const In *)in};
        return zr__each(stream, n, zr__are_aligned(out, in), each);
    });
}

zr_status zr__cuda_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    return zr__each(zr__cuda(device)->stream, n, zr__is_aligned(out), normal_each{*rng, first, std, out});
}
}

ZR_CUDA_KERNELS(shards) = {{}};
