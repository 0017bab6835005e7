/*
 * Plain C in place of the instructions for AMX tiles, so that kernels that use tiles are tested on every processor with
 * AVX-512. The Makefile includes this header before the kernels of v4tiles, a level that only tests have.
 *
 * As on a processor, a thread must configure its tiles before it uses them. A thread that does not is aborted.
 */
#ifndef ZR_TESTS_TILES_AMX_H
#define ZR_TESTS_TILES_AMX_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool plain_ready;
static _Thread_local uint32_t plain_tiles[8][16][16];

static inline void plain_configure(const void *config)
{
    uint8_t byte[64];
    memcpy(byte, config, sizeof byte);
    for (int t = 0; t < 8; t++)
        if (plain_ready || byte[0] != 1 || byte[16 + 2 * t] != 64 || byte[48 + t] != 16) abort();
    plain_ready = true;
}

static inline uint32_t (*plain_at(int t))[16]
{
    if (!plain_ready) abort();
    return plain_tiles[t];
}

static inline void plain_zero(int t)
{
    memset(plain_at(t), 0, sizeof plain_tiles[t]);
}

static inline void plain_load(int t, const void *from, size_t stride)
{
    for (int r = 0; r < 16; r++) memcpy(plain_at(t)[r], (const char *)from + (size_t)r * stride, 64);
}

static inline void plain_store(int t, void *to, size_t stride)
{
    for (int r = 0; r < 16; r++) memcpy((char *)to + (size_t)r * stride, plain_at(t)[r], 64);
}

/* Return the fp32 number with these bits, or 0 if it is denormal. */
static inline float plain_number(uint32_t bits)
{
    float x;
    bits = bits & 0x7f800000u ? bits : 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Add a product of tiles to tile c. As on a processor, the products of the first elements of all pairs have a sum of
 * their own, and so have the products of the second elements. */
static inline void plain_multiply(int c, int a, int b)
{
    uint32_t(*sum)[16] = plain_at(c), (*left)[16] = plain_at(a), (*right)[16] = plain_at(b);
    for (int r = 0; r < 16; r++) {
        float first[16] = {0}, second[16] = {0};
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++) {
                first[j] = fmaf(plain_number(left[r][k] << 16), plain_number(right[k][j] << 16), first[j]);
                second[j] =
                    fmaf(plain_number(left[r][k] & 0xffff0000u), plain_number(right[k][j] & 0xffff0000u), second[j]);
            }
        for (int j = 0; j < 16; j++) {
            const float all = plain_number(sum[r][j]) + (first[j] + second[j]);
            memcpy(&sum[r][j], &all, sizeof all);
        }
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) plain_configure(config)
#define _tile_release() (plain_ready = false)
#define _tile_zero(t) plain_zero(t)
#define _tile_loadd(t, from, stride) plain_load(t, from, stride)
#define _tile_stored(t, to, stride) plain_store(t, to, stride)
#define _tile_dpbf16ps(c, a, b) plain_multiply(c, a, b)

/* The kernels use tiles where this is defined. immintrin.h is already included, and does not see it. */
#define __AMX_BF16__ 1

#endif
