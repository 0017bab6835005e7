//TEST timeout=60 long=more tsan=gpu seeds=200
//STAND_IN
/* attention_cached: one token at a time. */
#include "attention_check.h"
#include "support/long.h"

/* Check that decoding T tokens one by one gives the result of the whole sequence, and fills the cache with k and v. */
static void check_cached(const level_pair *level, size s, zr_dtype g, int64_t place)
{
    if (!is_in_run()) return;
    const int64_t length = s.T + 2, element = zr_dtype_bytes(g), kv = columns(s, K) * element;
    const double scale = 1.0 / sqrt((double)s.D);
    void *part[PARTS];
    parts_random(s, g, 2.0, part);
    char *cache = array_new(g, 2 * length * columns(s, K)), *y = array_new(g, elems(s, Q));
    zr_runtime runtime = {.place = place};
    reference f = reference_make(s, (float)scale, part, g, &runtime, 0.0);
    forward(&f);
    for (int64_t t = 0; t < s.T; t++) {
        kernel_call call = {.name = "attention_cached", .attr = attributes(s, scale, 0.0), .n_out = 1};
        const size token = {1, 1, s.n_head, s.D, .kv = s.kv, .apart = s.apart};
        char *row[PARTS];
        for (int i = 0; i < PARTS; i++) row[i] = (char *)part[i] + t * columns(s, i) * element;
        call.runtime = runtime;
        call.runtime.position = t;
        call.scratch_bytes = s.n_head * length * 4;
        const int n = tensors_of(token, g, (void *const *)row, call.in);
        call.in[n] = tensor3(cache, g, 2, length, columns(s, K));
        call.n_in = n + 1;
        call.out[0] = tensor3(y + t * width(s) * element, g, 1, 1, width(s));
        run_twice(level, call, 0);
        assert_memory_equal(cache + t * kv, row[K], (size_t)kv);
        assert_memory_equal(cache + (length + t) * kv, row[V], (size_t)kv);
    }
    assert_close("attention_cached", y, g, f.y, elems(s, Q), 1e-5);
}

static void cached_values(const level_pair *level)
{
    for (int g = 0; g < N_DTYPES; g++) {
        check_cached(level, (size)PLAIN(1, 40, 3, 19), dtypes[g], 0);
        check_cached(level, (size)PLAIN(1, 3, 1, 1100), dtypes[g], 0); /* a head wider than a chunk */
        check_cached(level, (size)PLAIN(1, 70, is_long_run() ? 8 : 3, 64), dtypes[g], 0);
        check_cached(level, (size){1, 40, 4, 5, .kv = 2}, dtypes[g], 0);
        check_cached(level, (size){1, 20, 4, 80, .kv = 1, .apart = true}, dtypes[g], 0);
        check_cached(level, (size){1, 24, 2, 16, .window = 9}, dtypes[g], 0);
        check_cached(level, (size){1, 30, 4, 8, .kv = 2, .window = 40, .apart = true}, dtypes[g], 0);
        check_cached(level, (size){1, 9, 2, 8, .kv = 2, .ranks = 3, .whole = true, .apart = true}, dtypes[g], 1);
    }
    /* GPUs process keys in stretches of 128. */
    if (level->one->profile.facts.own_memory) {
        check_cached(level, (size)PLAIN(1, 130, 2, 5), ZR_BF16, 0);
        check_cached(level, (size){1, 140, 2, 5, .kv = 1, .window = 130}, ZR_BF16, 0);
    }
}

static void test_cached(void **state)
{
    (void)state;
    for_every_level(cached_values);
}

static void cache_full(const level_pair *level)
{
    float qkv[6] = {0}, cache[12] = {0}, y[2];
    const size s = PLAIN(1, 1, 1, 2);
    kernel_call call = {.name = "attention_cached", .attr = attributes(s, 1.0, 0.0), .n_in = 2, .n_out = 1};
    call.scratch_bytes = 3 * 4;
    call.in[0] = tensor3(qkv, ZR_F32, 1, 1, 6);
    call.in[1] = tensor3(cache, ZR_F32, 2, 3, 2);
    call.out[0] = tensor3(y, ZR_F32, 1, 1, 2);
    call.runtime.position = 3;
    assert_int_equal(kernel_run(level->one, &call), ZR_ERR_DATA);
    call.runtime.position = 2;
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
}

static void test_cache_full(void **state)
{
    (void)state;
    for_every_level(cache_full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_cache_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
