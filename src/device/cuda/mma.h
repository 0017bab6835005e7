/*
 * Tensor cores: products of 16 x 16 by 16 x 8 tiles of bf16 or fp16, summed in fp32, by one warp.
 *
 * Each matrix is distributed over the lanes of the warp in the layout of the PTX ISA's mma.m16n8k16. g = lane / 4 and
 * t = lane % 4. A word of a holds two neighbours of a row of A, and a word of b holds two neighbours of a column of B,
 * the first in the low half. The list names each word by its first element:
 *   - a (16 x 16): a[0] = A[g][2t], a[1] = A[g + 8][2t], a[2] = A[g][2t + 8], a[3] = A[g + 8][2t + 8]
 *   - b (16 x 8): b0 = B[2t][g], b1 = B[2t + 8][g]
 *   - c (16 x 8), in fp32: c[0], c[1] = C[g][2t], C[g][2t + 1]; c[2], c[3] = C[g + 8][2t], C[g + 8][2t + 1]
 * Therefore the results c of two adjacent tiles, rounded to 16 bits, have the layout of the operand a of another
 * product.
 *
 * All lanes of the warp must call these functions together.
 */
#ifndef ZR_DEVICE_CUDA_MMA_H
#define ZR_DEVICE_CUDA_MMA_H

#include "device/cuda/copies.h"

#ifdef __CUDACC__

template <typename T>
__device__ __forceinline__ void zr__mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if constexpr (std::is_same_v<T, zr__bf16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Load four 8 x 8 matrices from shared memory. Lane l passes the address of row l % 8 of matrix l / 8, aligned to 16
 * bytes. With g = l / 4 and t = l % 4, out[i] gets the elements [g][2t] and [g][2t + 1] of matrix i, or [2t][g] and [2t
 * + 1][g] if TRANSPOSED. */
template <bool TRANSPOSED> __device__ __forceinline__ void zr__matrices(uint32_t (&out)[4], const void *row)
{
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(zr__shared_address(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(zr__shared_address(row))
                     : "memory");
}

#else /* the stand-in for tests without a GPU */

/* Widen the neighbours in n words: word i gives value[2 * i] and value[2 * i + 1]. */
template <typename T> ZR_STAND_IN_UNSEEN void zr_stand_in_widen(uint32_t *value, const uint32_t *word, int n)
{
    for (int i = 0; i < 2 * n; i++) {
        const T x = {(uint16_t)(word[i / 2] >> 16 * (i % 2))};
        value[i] = __float_as_uint(zr__get(&x, 0));
    }
}

template <typename T> ZR_STAND_IN_UNSEEN void zr__mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    typedef float four __attribute__((vector_size(16)));
    const int g = zr_stand_in_lane() / 4, t = zr_stand_in_lane() % 4;
    const uint32_t b[2] = {b0, b1};
    uint32_t own[12]; /* the lane's 8 elements of A, then its 4 elements of B */
    four sum = {c[0], c[1], c[2], c[3]};
    zr_stand_in_widen<T>(own, a, 4);
    zr_stand_in_widen<T>(own + 8, b, 2);
    zr_stand_in_exchange(own, 12);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const uint32_t *rows = zr_stand_in_given(4 * g + k % 8 / 2) + k / 8 * 4 + k % 2; /* rows g and g + 8 of A */
        const uint32_t *left = zr_stand_in_given(8 * t + k % 8 / 2) + 8 + k / 8 * 2 + k % 2;
        const uint32_t *right = zr_stand_in_given(8 * t + k % 8 / 2 + 4) + 8 + k / 8 * 2 + k % 2;
        const float upper = __uint_as_float(rows[0]), lower = __uint_as_float(rows[2]);
        const float even = __uint_as_float(*left), odd = __uint_as_float(*right); /* columns 2t and 2t + 1 of B */
        sum += four{upper, upper, lower, lower} * four{even, odd, even, odd};
    }
    for (int i = 0; i < 4; i++) c[i] = sum[i];
}

template <bool TRANSPOSED> void zr__matrices(uint32_t (&out)[4], const void *row)
{
    const int g = zr_stand_in_lane() / 4, t = zr_stand_in_lane() % 4;
    uint32_t words[4];
    zr_stand_in_check((uintptr_t)row % 16 == 0);
    memcpy(words, row, sizeof words);
    zr_stand_in_exchange(words, 4);
    const auto element = [](int matrix, int r, int column) {
        return zr_stand_in_word(8 * matrix + r, column / 2) >> 16 * (column % 2) & 0xffff;
    };
    for (int i = 0; i < 4; i++)
        out[i] = TRANSPOSED ? element(i, 2 * t, g) | element(i, 2 * t + 1, g) << 16 : zr_stand_in_word(8 * i + g, t);
}
#endif

#endif
