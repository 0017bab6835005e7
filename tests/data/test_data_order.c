//TEST timeout=30
/* Every epoch visits every window once, and a sample's window depends on its index alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/samples/order.h"
#include "support/tempdir.h"
#include "zr/data.h"
#include "data/samples/samples.h"

static void permutation_is_a_bijection(void **state)
{
    (void)state;
    static unsigned char seen[5000];
    const int64_t sizes[] = {1000, 1023, 1024, 1025, 4095, 4097, 5000};
    for (int64_t n = 1; n <= 300 + (int64_t)(sizeof(sizes) / sizeof(sizes[0])); n++) {
        int64_t size = n <= 300 ? n : sizes[n - 301];
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof(seen));
            for (int64_t i = 0; i < size; i++) {
                int64_t to = zr__order_permute(42, epoch, size, i);
                assert_in_range(to, 0, size - 1);
                assert_int_equal(seen[to]++, 0);
            }
        }
    }
}

/* Check that with more than 2^32 windows, permuted indices stay in range and neighbours differ. */
static void permutation_of_many_windows(void **state)
{
    (void)state;
    int64_t n = ((int64_t)1 << 40) + 12345, last = -1;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t to = zr__order_permute(7, 0, n, i);
        assert_true(to >= 0 && to < n);
        assert_int_not_equal(to, last);
        last = to;
    }
}

/* Check that an element's new place is close to uniform over seeds: chi-square with 9 degrees of freedom is below 27.9
 * in 99.9 % of cases. */
static void permutation_is_fair(void **state)
{
    (void)state;
    int count[10] = {0};
    double chi = 0;
    for (uint64_t seed = 0; seed < 10000; seed++) count[zr__order_permute(seed, 0, 10, 3)]++;
    for (int i = 0; i < 10; i++) chi += (count[i] - 1000.0) * (count[i] - 1000.0) / 1000;
    assert_true(chi < 27.9);
}

/* Return a token that is never 0: a short file with a NUL byte is not taken for text. */
static unsigned char token_at(int64_t i)
{
    return (unsigned char)((i * 31 + i / 255) % 255 + 1);
}

static zr_data *open_tokens(int64_t tokens, int64_t seq_length, zr_data_order order, uint64_t seed)
{
    static unsigned char text[4096];
    zr_data *data = NULL;
    for (int64_t i = 0; i < tokens; i++) text[i] = token_at(i);
    const char *path = put_file("tokens", text, (size_t)tokens);
    assert_int_equal(zr_data_open(path, NULL, 256, seq_length, order, seed, &data), ZR_OK);
    return data;
}

/* Check, for a small file, that an epoch's windows are complete, T apart, with one common offset, and all visited. */
static void check_epochs(int64_t tokens, int64_t seq_length)
{
    zr_data *data = open_tokens(tokens, seq_length, ZR_SHUFFLED, 1234);
    int64_t n = zr_data_get_info(data).epoch_samples;
    int64_t wanted = (tokens - seq_length) / seq_length;
    assert_int_equal(n, wanted > 1 ? wanted : 1);
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        unsigned char seen[4096] = {0};
        int64_t offset = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t first = 0;
            assert_int_equal(zr__data_locate(data, epoch * n + i, &first), ZR_OK);
            assert_true(first >= 0 && first + seq_length < tokens);
            assert_true(offset < 0 || first % seq_length == offset);
            offset = first % seq_length;
            assert_true(first / seq_length < n);
            assert_int_equal(seen[first / seq_length]++, 0);
        }
    }
    zr_data_close(&data);
}

static void every_epoch_visits_every_window_once(void **state)
{
    (void)state;
    for (int64_t seq_length = 1; seq_length <= 9; seq_length++)
        for (int64_t tokens = seq_length + 1; tokens <= 6 * seq_length + 3; tokens++) check_epochs(tokens, seq_length);
    check_epochs(4000, 13);
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    zr_data *a = open_tokens(4000, 8, ZR_SHUFFLED, 1), *b = open_tokens(4000, 8, ZR_SHUFFLED, 2);
    int64_t n = zr_data_get_info(a).epoch_samples, same_seed = 0, same_epoch = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t first, other, later;
        assert_int_equal(zr__data_locate(a, i, &first), ZR_OK);
        assert_int_equal(zr__data_locate(b, i, &other), ZR_OK);
        assert_int_equal(zr__data_locate(a, n + i, &later), ZR_OK);
        same_seed += first == other;
        same_epoch += first == later;
    }
    assert_true(same_seed < 10 && same_epoch < 10);
    zr_data_close(&a);
    zr_data_close(&b);
}

/* Check that all offsets below T occur, so that no token is always left out except at the very ends. */
static void offsets_cover_the_window(void **state)
{
    (void)state;
    unsigned char seen[8] = {0};
    for (uint32_t epoch = 0; epoch < 200; epoch++) seen[zr__order_offset(5, epoch, 8)] = 1;
    for (int i = 0; i < 8; i++) assert_int_equal(seen[i], 1);
}

static void sequential_wraps_at_the_last_whole_window(void **state)
{
    (void)state;
    int32_t tokens[8], targets[8];
    zr_data *data = open_tokens(43, 8, ZR_SEQUENTIAL, 9);
    assert_int_equal(zr_data_get_info(data).windows, 5);
    assert_int_equal(zr_data_get_info(data).tokens, 43);
    for (int64_t g = 0; g < 13; g++) {
        assert_int_equal(zr_data_sample(data, g, tokens, targets), ZR_OK);
        for (int64_t i = 0; i < 8; i++) {
            int64_t at = g % 5 * 8 + i;
            assert_int_equal(tokens[i], token_at(at));
            assert_int_equal(targets[i], token_at(at + 1));
        }
    }
    zr_data_close(&data);
}

/* Check the end of the text: with 41 tokens the fifth window's last target is the last token; with 40 tokens that
 * window is incomplete. */
static void last_window_needs_its_target(void **state)
{
    (void)state;
    zr_data *data = open_tokens(41, 8, ZR_SEQUENTIAL, 0);
    assert_int_equal(zr_data_get_info(data).windows, 5);
    zr_data_close(&data);
    data = open_tokens(40, 8, ZR_SEQUENTIAL, 0);
    assert_int_equal(zr_data_get_info(data).windows, 4);
    zr_data_close(&data);
}

static void shuffled_samples_are_the_tokens_located(void **state)
{
    (void)state;
    int32_t tokens[8], targets[8];
    zr_data *data = open_tokens(1000, 8, ZR_SHUFFLED, 77);
    for (int64_t g = 0; g < 300; g += 7) {
        int64_t first;
        assert_int_equal(zr__data_locate(data, g, &first), ZR_OK);
        assert_int_equal(zr_data_sample(data, g, tokens, targets), ZR_OK);
        for (int64_t i = 0; i < 8; i++) {
            int64_t at = first + i;
            assert_int_equal(tokens[i], token_at(at));
            assert_int_equal(targets[i], token_at(at + 1));
        }
    }
    zr_data_close(&data);
}

static void impossible_samples_are_refused(void **state)
{
    (void)state;
    int32_t tokens[8], targets[8];
    int64_t first;
    zr_data *data = open_tokens(100, 8, ZR_SHUFFLED, 0);
    assert_int_equal(zr_data_sample(data, -1, tokens, targets), ZR_ERR_ARG);
    assert_int_equal(zr__data_locate(data, INT64_MAX, &first), ZR_ERR_ARG);
    assert_int_equal(zr_data_window(data, zr_data_get_info(data).windows, tokens, targets), ZR_ERR_ARG);
    assert_int_equal(zr_data_window(data, -1, tokens, targets), ZR_ERR_ARG);
    zr_data_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_of_many_windows),
        cmocka_unit_test(permutation_is_fair),
        cmocka_unit_test(every_epoch_visits_every_window_once),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(offsets_cover_the_window),
        cmocka_unit_test(sequential_wraps_at_the_last_whole_window),
        cmocka_unit_test(last_window_needs_its_target),
        cmocka_unit_test(shuffled_samples_are_the_tokens_located),
        cmocka_unit_test(impossible_samples_are_refused),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
