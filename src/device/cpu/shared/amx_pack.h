/*
 * Panels of operands for AMX tiles. A panel consists of halves of 16 rows of A (or columns of B). A half consists of
 * blocks of 32 elements of k. Elements beyond the edges are 0.
 *
 * A block of bf16 is an AMX tile in memory: 16 rows x 16 words for A, 16 words x 16 columns for B (amx.h).
 *
 * A block of fp32 is three such tiles. An element x is the exact sum of three bf16 parts, since a significand has 24
 * bits in fp32 and 8 in bf16. Part 0 is x without its lower 16 bits. Part 1 is the remainder, rounded to 8 bits. Part
 * 2 is what is left. Exceptions: a part below the smallest normal number (1.2e-38) counts as 0 on tiles, and parts 1
 * and 2 of infinities are NaN.
 */
#ifndef ZR_DEVICE_CPU_AMX_PACK_H
#define ZR_DEVICE_CPU_AMX_PACK_H

#include "device/cpu/shared/amx.h"
#include "device/cpu/shared/micro_kernel.h"
#include "device/cpu/shared/transpose.h"

#if defined(__AMX_BF16__)

#define ZR_AMX_PARTS ZR__TILE_PARTS
#define ZR_AMX_WORDS (ZR_AMX_DEPTH / 2)                /* words in a row of a tile */
#define ZR_AMX_TILE_WORDS (ZR_AMX_SIDE * ZR_AMX_WORDS) /* words in a tile */

/* Block of an operand. p is the index of a row of A or a column of B. If `paired`, the operand is contiguous along p,
 * and each of its vectors has one k; otherwise the vectors run along k. Only n values of p and `left` values of k
 * exist. */
typedef struct zr__amx_block {
    const void *data;
    int64_t from, ld; /* index of the block's first element, and distance between two vectors' elements */
    int64_t n, left;
    bool is_a, paired;
    float *out;
} zr__amx_block;

static inline __mmask32 zr__amx_mask(int64_t n)
{
    return n >= 32 ? ~(__mmask32)0 : n <= 0 ? 0 : ((__mmask32)1 << n) - 1;
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

/* Load a block whose vectors run along k: vector r holds the words of row r. */
__attribute__((always_inline)) static inline void zr__amx_load_rows(zr__vec v[ZR_VEC], const zr__amx_block *b)
{
    const uint16_t *from = (const uint16_t *)b->data + b->from;
    const __mmask32 mask = zr__amx_mask(b->left);
#pragma GCC unroll 16
    for (int r = 0; r < ZR_AMX_SIDE; r++)
        v[r] = r < b->n ? (zr__vec)_mm512_maskz_loadu_epi16(mask, from + r * b->ld) : zr__vec_splat(0.0f);
}

/* Load a block whose vectors run along p: vector w holds pair w of each of the n columns. */
__attribute__((always_inline)) static inline void zr__amx_load_pairs(zr__vec v[ZR_VEC], const zr__amx_block *b)
{
    const uint16_t *from = (const uint16_t *)b->data + b->from;
    const __mmask16 mask = (__mmask16)zr__amx_mask(zr__min64(b->n, ZR_AMX_SIDE));
#pragma GCC unroll 16
    for (int w = 0; w < ZR_AMX_WORDS; w++) {
        const int64_t k = 2 * w;
        const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k < b->left ? mask : 0, from + k * b->ld)),
                      odd = _mm512_cvtepu16_epi32(
                          _mm256_maskz_loadu_epi16(k + 1 < b->left ? mask : 0, from + (k + 1) * b->ld));
        v[w] = (zr__vec)_mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
}

__attribute__((always_inline)) static inline void zr__amx_pack_bf16(const zr__amx_block *b)
{
    zr__vec v[ZR_VEC];
    if (b->paired)
        zr__amx_load_pairs(v, b);
    else
        zr__amx_load_rows(v, b);
    if (b->paired == b->is_a) zr__vec_transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < ZR_VEC; i++) zr__vec_store(b->out + i * ZR_AMX_WORDS, v[i]);
}

/* ---- fp32 ------------------------------------------------------------------------------------ */

/* Load 16 vectors of 16 elements. Vector i begins at element i * ld + first. Elements from `across` on, and vectors
 * from `along` on, are 0. */
__attribute__((always_inline)) static inline void zr__amx_load_f32(zr__vec v[ZR_VEC], const zr__amx_block *b,
                                                                   int64_t first, int64_t along, int64_t across)
{
    const float *from = (const float *)b->data + b->from + first;
    const __mmask16 mask = (__mmask16)zr__amx_mask(zr__min64(across, ZR_VEC));
#pragma GCC unroll 16
    for (int i = 0; i < ZR_VEC; i++)
        v[i] = i < along ? (zr__vec)_mm512_maskz_loadu_ps(mask, from + i * b->ld) : zr__vec_splat(0.0f);
}

typedef uint32_t zr__vec_bits __attribute__((vector_size(ZR_VEC * 4)));

/* Return the next part of every element as fp32, and subtract it from *rest. Parts are taken in order. */
__attribute__((always_inline)) static inline zr__vec zr__amx_take_part(zr__vec *rest, int part)
{
    const uint32_t half = part == 1 ? 0x8000u : 0;
    const zr__vec x = (zr__vec)(((zr__vec_bits)*rest + half) & ((zr__vec_bits){0} + 0xffff0000u));
    *rest -= x;
    return x;
}

/* Split the elements of a pair of vectors, and store each part as a vector of words. */
__attribute__((always_inline)) static inline void zr__amx_split(float *out, zr__vec even, zr__vec odd)
{
#pragma GCC unroll 3
    for (int part = 0; part < ZR_AMX_PARTS; part++) {
        const zr__vec x = zr__amx_take_part(&even, part), y = zr__amx_take_part(&odd, part);
        zr__vec_store(out + part * ZR_AMX_TILE_WORDS, (zr__vec)((zr__vec_bits)x >> 16 | (zr__vec_bits)y));
    }
}

/* Return the even elements of a, then the even elements of b; if `odd` is 1, the odd elements. */
__attribute__((always_inline)) static inline zr__vec zr__amx_every_second(zr__vec a, zr__vec b, int odd)
{
    const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (zr__vec)_mm512_permutex2var_ps((__m512)a, _mm512_add_epi32(lanes, _mm512_set1_epi32(odd)), (__m512)b);
}

/* Pack rows of A: v[r] and w[r] are the first and the second 16 elements of row r. */
__attribute__((always_inline)) static inline void zr__amx_split_rows(float *out, const zr__vec v[ZR_VEC],
                                                                     const zr__vec w[ZR_VEC])
{
#pragma GCC unroll 16
    for (int r = 0; r < ZR_VEC; r++)
        zr__amx_split(out + r * ZR_AMX_WORDS, zr__amx_every_second(v[r], w[r], 0), zr__amx_every_second(v[r], w[r], 1));
}

/* Pack 16 rows of B, which are eight rows of pairs. */
__attribute__((always_inline)) static inline void zr__amx_split_pairs(float *out, const zr__vec v[ZR_VEC])
{
#pragma GCC unroll 8
    for (int r = 0; r < ZR_VEC; r += 2) zr__amx_split(out + r / 2 * ZR_AMX_WORDS, v[r], v[r + 1]);
}

/* Prefetch the block of A (or B) that is two blocks further along k, also beyond the edges. Hardware prefetchers follow
 * fewer streams than a block has rows. */
__attribute__((always_inline)) static inline void zr__amx_prefetch_rows(const zr__amx_block *b)
{
    const float *ahead = (const float *)b->data + b->from + 2 * ZR_AMX_DEPTH;
    for (int r = 0; r < ZR_AMX_SIDE; r++) {
        __builtin_prefetch(ahead + r * b->ld);
        __builtin_prefetch(ahead + r * b->ld + ZR_VEC);
    }
}

__attribute__((always_inline)) static inline void zr__amx_pack_f32(const zr__amx_block *b)
{
    zr__vec v[2][ZR_VEC];
    if (!b->paired) zr__amx_prefetch_rows(b);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const int64_t left = b->left - h * ZR_VEC;
        if (b->paired)
            zr__amx_load_f32(v[h], b, h * ZR_VEC * b->ld, left, b->n);
        else
            zr__amx_load_f32(v[h], b, h * ZR_VEC, b->n, left);
        if (b->paired == b->is_a) zr__vec_transpose(v[h]);
        if (!b->is_a) zr__amx_split_pairs(b->out + h * ZR_VEC / 2 * ZR_AMX_WORDS, v[h]);
    }
    if (b->is_a) zr__amx_split_rows(b->out, v[0], v[1]);
}

/* Make denormals count as 0 in the calling thread's vectors, as they do on tiles, and return the mode to restore. A
 * function that computes in this mode must not be inlined, since compilers move arithmetic across a change of mode. */
static inline unsigned zr__amx_flush_denormals(void)
{
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    return mode;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Pack all blocks. The inner loop follows the dimension in which the operand is contiguous. */
__attribute__((always_inline)) static inline void zr__amx_pack_as(const zr__side *s, bool wide, bool is_a, bool paired,
                                                                  zr__panels_at to, int64_t n, int64_t k0)
{
    const int64_t outer = paired ? to.depth : n, inner = paired ? n : to.depth;
    const int64_t outer_step = paired ? ZR_AMX_DEPTH : ZR_AMX_SIDE, inner_step = paired ? ZR_AMX_SIDE : ZR_AMX_DEPTH;
    const int64_t block = (wide ? ZR_AMX_PARTS : 1) * ZR_AMX_TILE_WORDS;
    for (int64_t i = 0; i < outer; i += outer_step)
        for (int64_t j = 0; j < inner; j += inner_step) {
            const int64_t p = paired ? j : i, k = paired ? i : j;
            const zr__amx_block b = {.data = s->data,
                                     .from = (to.first + p) * s->along + (k0 + k) * s->depth,
                                     .ld = paired ? s->depth : s->along,
                                     .n = n - p,
                                     .left = to.depth - k,
                                     .is_a = is_a,
                                     .paired = paired,
                                     .out = to.out + p * to.words + k / ZR_AMX_DEPTH * block};
            if (wide)
                zr__amx_pack_f32(&b);
            else
                zr__amx_pack_bf16(&b);
        }
}

#define ZR_AMX_PACK_AS(s, wide, is_a, to, n, k0)                                                                       \
    ((s)->along == 1 && (s)->depth != 1 ? zr__amx_pack_as(s, wide, is_a, true, to, n, k0)                              \
                                        : zr__amx_pack_as(s, wide, is_a, false, to, n, k0))

/* Pack n rows of A (or columns of B) in bf16, starting at row to.first. Of each, pack to.depth elements, starting at
 * k = k0. */
static void zr__amx_pack_bf16_side(const zr__side *s, zr__panels_at to, int64_t n, int64_t k0)
{
    if (s->is_a)
        ZR_AMX_PACK_AS(s, false, true, to, n, k0);
    else
        ZR_AMX_PACK_AS(s, false, false, to, n, k0);
}

__attribute__((noinline)) static void zr__amx_split_side(const zr__side *s, zr__panels_at to, int64_t n, int64_t k0)
{
    if (s->is_a)
        ZR_AMX_PACK_AS(s, true, true, to, n, k0);
    else
        ZR_AMX_PACK_AS(s, true, false, to, n, k0);
}

/* Pack rows of A (or columns of B) of fp32. */
static void zr__amx_pack_f32_side(const zr__side *s, zr__panels_at to, int64_t n, int64_t k0)
{
    const unsigned mode = zr__amx_flush_denormals();
    zr__amx_split_side(s, to, n, k0);
    _mm_setcsr(mode);
}

#endif

#endif
