//TEST timeout=20
/* Philox against its published test vectors; normal numbers independent of how they are split into calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/number/normal.h"

/* Test vectors of philox4x32-10: Salmon et al., SC11, Random123's kat_vectors. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t out[4];
        const uint32_t *c = known[i].counter, *k = known[i].key;
        zr__philox(c[0], c[1], c[2], c[3], k[0], k[1], out);
        assert_memory_equal(out, known[i].out, sizeof(out));
    }
}

static void counter_words(void **state)
{
    (void)state;
    const zr_rng rng = {.seed = 0x299f31d0a4093822u, .purpose = 3, .stream = 0x707344, .step = 0x13198a2e};
    uint32_t out[4];
    zr__rng_block(&rng, 0x85a308d3243f6a88u, out);
    const uint32_t known[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(out, known, sizeof(out));
}

static void elements_of_a_block(void **state)
{
    (void)state;
    const zr_rng rng = {.seed = 5, .purpose = ZR_RNG_DROPOUT, .stream = 2, .step = 7};
    uint32_t out[4];
    zr__rng_block(&rng, 11, out);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(zr_rng_u32(&rng, 44 + i), out[i]);
        double u = zr_rng_uniform(&rng, 44 + i);
        assert_true(u >= 0 && u < 1 && u == out[i] / 4294967296.0);
    }
}

static void normal_does_not_depend_on_cuts(void **state)
{
    (void)state;
    enum { N = 1001 };
    const uint64_t first = ((uint64_t)1 << 34) + 3;
    const zr_rng rng = {.seed = 1234};
    float whole[N], cut[N];
    zr_rng_normal(&rng, first, N, whole);
    for (int64_t piece = 1; piece <= 9; piece++) {
        memset(cut, 0, sizeof(cut));
        for (int64_t at = 0; at < N; at += piece)
            zr_rng_normal(&rng, first + (uint64_t)at, at + piece < N ? piece : N - at, cut + at);
        assert_memory_equal(cut, whole, sizeof(cut));
    }
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    static float x[N];
    const zr_rng rng = {.seed = 42};
    double moment[5] = {0};
    zr_rng_normal(&rng, 0, N, x);
    for (int i = 0; i < N; i++)
        for (int k = 1; k < 5; k++) moment[k] += pow(x[i], k) / N;
    /* Five standard errors: sqrt(1/N), sqrt(2/N), sqrt(15/N), sqrt(96/N). */
    assert_true(fabs(moment[1]) < 5 * sqrt(1.0 / N));
    assert_true(fabs(moment[2] - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(moment[3]) < 5 * sqrt(15.0 / N));
    assert_true(fabs(moment[4] - 3) < 5 * sqrt(96.0 / N));
}

/* Check that radius and direction are accurate, also where two series meet, and at the smallest and largest radius. */
static void radius_and_direction_are_accurate(void **state)
{
    (void)state;
    const uint32_t edge[] = {0u, 0x40000000u, 0x80000000u, 0xB504F333u, 0xC0000000u, 0xE0000000u};
    for (uint32_t i = 0; i < 1u << 20; i++) {
        uint32_t word = i < 1u << 14 ? edge[i % 6] + i / 6 - (1u << 10) : i * 0x9E3779B9u;
        double u = ((word >> 1) + 0.5) * 0x1p-31, angle = 6.283185307179586 * (word * 0x1p-32);
        double radius = sqrt(-2 * log(u));
        float c, s;
        zr__normal_direction(word, &c, &s);
        assert_true(fabs(zr__normal_radius(word) - radius) <= 2.5e-7 * radius);
        assert_true(fabs(c - cos(angle)) <= 1.5e-7 && fabs(s - sin(angle)) <= 1.5e-7);
    }
}

/* Check that normal numbers have fixed bits that do not depend on a compiler or mathematical library. */
static void normal_has_its_bits(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float x[N];
    const zr_rng rng = {.seed = 42};
    uint64_t hash = 0;
    zr_rng_normal(&rng, 0, N, x);
    for (int i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        hash = hash * 0x5851F42D4C957F2Du + bits;
    }
    assert_true(hash == 0xFA33C4680C1F9BECu);
}

/* Check that the number of normals beyond each whole sigma, out of 2^24, fits the normal distribution within five
 * standard errors. */
static void normal_has_its_tails(void **state)
{
    (void)state;
    enum { N = 1 << 24, PIECE = 1 << 16, TAILS = 5 };
    static float x[PIECE];
    const zr_rng rng = {.seed = 7};
    int64_t beyond[2][TAILS] = {{0}};
    float largest = 0;
    for (int64_t first = 0; first < N; first += PIECE) {
        zr_rng_normal(&rng, (uint64_t)first, PIECE, x);
        for (int i = 0; i < PIECE; i++) {
            float size = fabsf(x[i]);
            assert_true(size < 6.7f); /* neither infinite nor NaN */
            if (size > largest) largest = size;
            for (int t = 0; t < TAILS; t++) beyond[x[i] > 0][t] += size > (float)t;
        }
    }
    assert_true(largest > 4.8f);
    for (int side = 0; side < 2; side++) {
        for (int t = 0; t < TAILS; t++) {
            double wanted = N * 0.5 * erfc(t / sqrt(2.0));
            assert_true(fabs((double)beyond[side][t] - wanted) < 5 * sqrt(wanted));
        }
    }
}

static void every_word_matters(void **state)
{
    (void)state;
    const zr_rng base = {.seed = 1, .purpose = 1, .stream = 1, .step = 1};
    zr_rng other[] = {base, base, base, base, base};
    other[0].seed = 2;
    other[1].seed = ((uint64_t)1 << 32) + 1;
    other[2].purpose = 2;
    other[3].stream = 2;
    other[4].step = 2;
    for (int i = 0; i < 5; i++) assert_int_not_equal(zr_rng_u32(&base, 9), zr_rng_u32(&other[i], 9));
    assert_int_not_equal(zr_rng_u32(&base, 9), zr_rng_u32(&base, 9 + ((uint64_t)1 << 34)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),          cmocka_unit_test(counter_words),
        cmocka_unit_test(elements_of_a_block),    cmocka_unit_test(normal_does_not_depend_on_cuts),
        cmocka_unit_test(normal_has_its_moments), cmocka_unit_test(radius_and_direction_are_accurate),
        cmocka_unit_test(normal_has_its_bits),    cmocka_unit_test(normal_has_its_tails),
        cmocka_unit_test(every_word_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
