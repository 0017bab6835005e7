/*
 * Benchmark loops that reach the limits of a level, for `zr info --bench`: arithmetic in registers, and the STREAM
 * triad in memory.
 */
#include "device/cpu/peak.h"

#include "device/cpu/shared/amx.h"

/* Number of independent chains of operations. Full speed needs at least (latency of an operation in cycles) x (number
 * of units that execute it) chains. The chains and two operands fit into the vector registers. */
#if ZR_VEC == 16
#define CHAINS 24
#else
#define CHAINS 12
#endif
/* Loop over the chains. The loop is unrolled, so that each chain has its own register. Chains begin with different
 * values, because the compiler would compute equal chains only once. */
#define FOR_CHAINS(i) _Pragma("GCC unroll 32") for (int i = 0; i < CHAINS; i++)

static float any_lane(const zr__vec acc[CHAINS])
{
    zr__vec sum = zr__vec_splat(0.0f);
    FOR_CHAINS(i) sum += acc[i];
    return sum[0];
}

static double fma_f32(int64_t rounds, const float in[2], float *out)
{
    const zr__vec a = zr__vec_splat(in[0]), b = zr__vec_splat(in[1]);
    zr__vec acc[CHAINS];
    FOR_CHAINS(i) acc[i] = b * zr__vec_splat((float)i);
    for (int64_t r = 0; r < rounds; r++) FOR_CHAINS(i) acc[i] = zr__vec_fma(acc[i], a, b);
    *out = any_lane(acc);
    return 2.0 * ZR_VEC * CHAINS * (double)rounds;
}

#if defined(__AMX_BF16__)
/* Multiply bf16 on AMX tiles: add the product of tiles 6 (16,32) and 7 (32,16) to each of the tiles 0 to 5. Six
 * independent sums hide the latency. Tile numbers must be constants in the source, so the code cannot loop over them.
 */
static double dot_bf16(int64_t rounds, const float in[2], float *out)
{
    enum { SIDE = ZR_AMX_SIDE, DEPTH = ZR_AMX_DEPTH, SUMS = 6 };
    uint16_t a[SIDE * DEPTH], b[SIDE * DEPTH];
    float c[SIDE * SIDE];
    for (int i = 0; i < SIDE * DEPTH; i++) {
        a[i] = zr_bf16_from_f32(in[0]);
        b[i] = zr_bf16_from_f32(in[1]);
    }
    ZR_AMX_IN_MEMORY(a);
    ZR_AMX_IN_MEMORY(b);
    zr__amx_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    ZR_AMX_LOAD(6, a, ZR_AMX_ROW_BYTES);
    ZR_AMX_LOAD(7, b, ZR_AMX_ROW_BYTES);
    const int64_t turns = rounds / 8; /* one iteration on tiles takes about as long as eight rounds on vectors */
    for (int64_t r = 0; r < turns; r++) {
        ZR_AMX_MULTIPLY(0, 6, 7);
        ZR_AMX_MULTIPLY(1, 6, 7);
        ZR_AMX_MULTIPLY(2, 6, 7);
        ZR_AMX_MULTIPLY(3, 6, 7);
        ZR_AMX_MULTIPLY(4, 6, 7);
        ZR_AMX_MULTIPLY(5, 6, 7);
    }
    _tile_stored(0, c, ZR_AMX_ROW_BYTES);
    ZR_AMX_IN_MEMORY(c);
    zr__amx_end();
    *out = c[0];
    return 2.0 * SIDE * SIDE * DEPTH * SUMS * (double)turns;
}
#elif defined(__AVX512BF16__)
static double dot_bf16(int64_t rounds, const float in[2], float *out)
{
    const __m512 x = (__m512)zr__vec_splat(in[0]), y = (__m512)zr__vec_splat(in[1]);
    const __m512bh a = _mm512_cvtne2ps_pbh(x, x), b = _mm512_cvtne2ps_pbh(y, y);
    zr__vec acc[CHAINS];
    FOR_CHAINS(i) acc[i] = (zr__vec)y * zr__vec_splat((float)i);
    for (int64_t r = 0; r < rounds; r++) FOR_CHAINS(i) acc[i] = (zr__vec)_mm512_dpbf16_ps((__m512)acc[i], a, b);
    *out = any_lane(acc);
    return 4.0 * ZR_VEC * CHAINS * (double)rounds;
}
#else
#define dot_bf16 NULL
#endif

static void triad(float *restrict a, const float *restrict b, const float *restrict c, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

const zr__peak_ops ZR_LEVEL_NAME(zr__peaks) = {fma_f32, dot_bf16, triad};
const zr_kernel ZR_LEVEL_NAME(zr__kernels_peak)[] = {{0}};
