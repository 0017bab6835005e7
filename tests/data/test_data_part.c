//TEST timeout=60 tsan=1
/* Data of which a share is held out: the same records in every case, and no token in both parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "data/tokens/part.h"
#include "support/tempdir.h"
#include "zr/data.h"

enum { RECORDS = 60, SEQ = 16, MOST = 4096 };

static char lines[MOST];

/* Write a file of n records, "r00..", "r01.", with 0 to 5 dots. */
static const char *records(const char *name, int n)
{
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used +=
            (size_t)snprintf(lines + used, sizeof(lines) - used, "{\"text\": \"r%02d%.*s\"}\n", i, i * 7 % 6, ".....");
    return put_file(name, lines, used);
}

static zr_data_args args_of(const char *path, double share, bool held_out)
{
    return (zr_data_args){.path = path,
                          .vocab_size = 256,
                          .seq_length = SEQ,
                          .order = ZR_SEQUENTIAL,
                          .part = {share, held_out},
                          .cache_dir = in_tempdir("cache")};
}

static zr_data *open_data(const zr_data_args *args)
{
    zr_data *data = NULL;
    if (zr_data_open_with(args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    return data;
}

static void refused(const char *path, double share, bool held_out, zr_data_packing packing, const char *says)
{
    zr_data *data = NULL;
    zr_data_args args = args_of(path, share, held_out);
    args.packing = packing;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

/* Read the numbers of the records of a part, each as a sample. Return how many there are. */
static int numbers_of(const char *path, double share, bool held_out, int *number)
{
    zr_data_args args = args_of(path, share, held_out);
    int32_t tokens[SEQ], targets[SEQ];
    args.packing = ZR_PACK_ONE;
    zr_data *data = open_data(&args);
    const zr_data_info info = zr_data_get_info(data);
    assert_int_equal(info.documents, info.windows);
    for (int64_t i = 0; i < info.windows; i++) {
        assert_int_equal(zr_data_sample(data, i, tokens, targets), ZR_OK);
        assert_int_equal(tokens[0], 'r');
        number[i] = (tokens[1] - '0') * 10 + tokens[2] - '0';
    }
    zr_data_close(&data);
    return (int)info.windows;
}

static void records_are_drawn_one_of_each_block(void **state)
{
    (void)state;
    int held[RECORDS], rest[RECORDS], seen[RECORDS] = {0};
    const char *path = records("a.jsonl", RECORDS);
    assert_int_equal(numbers_of(path, 0.25, true, held), 15);
    assert_int_equal(numbers_of(path, 0.25, false, rest), 45);
    bool moves = false;
    for (int i = 0; i < 15; i++) {
        assert_int_equal(held[i] / 4, i);
        moves |= held[i] % 4 != held[0] % 4;
        seen[held[i]]++;
    }
    assert_true(moves); /* not every fourth record */
    for (int i = 0; i < 45; i++) {
        assert_true(i == 0 || rest[i] > rest[i - 1]);
        seen[rest[i]]++;
    }
    for (int i = 0; i < RECORDS; i++) assert_int_equal(seen[i], 1);
}

static void later_records_change_nothing_for_earlier_ones(void **state)
{
    (void)state;
    const double shares[] = {0.05, 0.07, 0.3, 1.0 / 3, 0.5, 0.9, 0.999};
    for (size_t s = 0; s < sizeof(shares) / sizeof(*shares); s++) {
        const zr_data_part held = {shares[s], true}, rest = {shares[s], false};
        int64_t n = 0, block = 0;
        for (int64_t i = 0; i < 100000; i++) {
            assert_int_equal(zr__part_has(&held, i) + zr__part_has(&rest, i), 1);
            n += zr__part_has(&held, i);
            if (!zr__part_has(&held, i)) continue;
            assert_int_equal(zr__part_record(shares[s], block), i);
            block++;
        }
        assert_in_range(n, (int64_t)(shares[s] * 100000) - 1, (int64_t)(shares[s] * 100000) + 1);
    }
    assert_true(zr__part_has(&(zr_data_part){0}, 7));
    assert_true(zr__part_has(&(zr_data_part){1e-300, false}, 7));
    assert_true(zr__part_record(1e-300, 1) > INT32_MAX);
    int few[RECORDS], many[RECORDS];
    const int n = numbers_of(records("few.jsonl", 40), 0.3, true, few);
    assert_in_range(n, 11, 13);
    assert_true(numbers_of(records("many.jsonl", RECORDS), 0.3, true, many) > n);
    assert_memory_equal(few, many, (size_t)n * sizeof(*few));
}

/* Check the tokens of a part in windows over its records, and where its documents begin. */
static void stream_is(const char *path, double share, bool held_out)
{
    int number[RECORDS], n = numbers_of(path, share, held_out, number);
    char text[MOST], begins[MOST];
    int64_t length = 0;
    for (int i = 0; i < n; i++) {
        const int64_t first = length;
        length += snprintf(text + length, sizeof(text) - (size_t)length, "r%02d%.*s\n", number[i], number[i] * 7 % 6,
                           ".....");
        for (int64_t k = first; k < length; k++) begins[k] = k == first;
    }
    zr_data_args args = args_of(path, share, held_out);
    args.packing = ZR_PACK_DOCUMENTS;
    args.documents = true;
    zr_data *data = open_data(&args);
    const zr_data_info info = zr_data_get_info(data);
    assert_int_equal(info.tokens, length);
    assert_int_equal(info.documents, n);
    assert_int_equal(info.windows, (length - 1) / SEQ);
    bool seen[MOST / SEQ] = {false}, moved = false;
    for (int64_t w = 0; w < info.windows; w++) {
        int32_t tokens[SEQ + 1], targets[SEQ], begin[SEQ], ours[SEQ];
        assert_int_equal(zr_data_read(data, w * SEQ, SEQ + 1, tokens), ZR_OK);
        for (int i = 0; i <= SEQ; i++) assert_int_equal(tokens[i], text[w * SEQ + i]);
        assert_int_equal(zr_data_window(data, w, tokens, targets), ZR_OK);
        assert_int_equal(zr_data_documents(data, begin), ZR_OK);
        int64_t at = 0;
        for (int64_t i = 0; i < info.windows; i++) {
            bool is = true;
            for (int k = 0; k < SEQ; k++) is &= tokens[k] == text[i * SEQ + k];
            if (is) at = i;
        }
        for (int i = 0, from = 0; i < SEQ; i++) {
            if (i > 0 && begins[at * SEQ + i]) from = i;
            ours[i] = from;
        }
        assert_memory_equal(begin, ours, sizeof(ours));
        assert_false(seen[at]);
        seen[at] = true;
        assert_true(held_out || at == w);
        moved |= at != w;
    }
    assert_true(moved || !held_out || info.windows < 6);
    zr_data_close(&data);
}

static void windows_skip_the_records_of_the_other_part(void **state)
{
    (void)state;
    const char *path = records("a.jsonl", RECORDS);
    stream_is(path, 0.2, false);
    stream_is(path, 0.2, true);
    stream_is(path, 0.7, false);
    stream_is(path, 0.7, true);
}

static void the_end_of_a_text_is_held_out(void **state)
{
    (void)state;
    int32_t tokens[SEQ + 1];
    char text[1000];
    for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i / 100);
    const char *path = put_file("a.txt", text, sizeof(text));
    zr_data_args args = args_of(path, 0.2, false);
    zr_data *train = open_data(&args);
    args = args_of(path, 0.2, true);
    zr_data *val = open_data(&args);
    assert_int_equal(zr_data_get_info(train).tokens, 800);
    assert_int_equal(zr_data_get_info(val).tokens, 200);
    assert_int_equal(zr_data_read(train, 800 - SEQ, SEQ, tokens), ZR_OK);
    assert_int_equal(tokens[SEQ - 1], 'h');
    assert_int_equal(zr_data_read(train, 800 - SEQ, SEQ + 1, tokens), ZR_ERR_ARG);
    assert_int_equal(zr_data_read(val, 0, SEQ, tokens), ZR_OK);
    assert_int_equal(tokens[0], 'i');
    zr_data_close(&train);
    zr_data_close(&val);
}

static void each_source_is_divided(void **state)
{
    (void)state;
    char text[400], list[3 * PATH_MAX];
    memset(text, 'x', sizeof(text));
    const char *a = put_file("b.txt", text, sizeof(text));
    snprintf(list, sizeof(list), "[{\"path\": \"%s\", \"weight\": 1}, {\"path\": \"%s\", \"weight\": 3}]", a,
             records("c.jsonl", RECORDS));
    zr_data_args args = args_of(list, 0.25, true);
    zr_data *val = open_data(&args);
    int other[RECORDS];
    assert_int_equal(zr_data_get_info(val).documents, numbers_of(in_tempdir("c.jsonl"), 0.25, true, other));
    int32_t tokens[SEQ];
    assert_int_equal(zr_data_read(val, 99, 2, tokens), ZR_OK);
    assert_int_equal(tokens[0], 'x');
    assert_int_equal(tokens[1], 'r');
    zr_data_close(&val);
}

static void a_part_without_a_sample_is_refused(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'x', sizeof(text));
    const char *path = put_file("a.txt", text, sizeof(text)), *few = records("few.jsonl", 3);
    refused(path, 0.05, true, ZR_PACK_AUTO, "data.val is 0.05: of the 200 tokens of ");
    refused(path, 0.05, true, ZR_PACK_AUTO, "a.txt, 10 are held out, but at least 17 must be; give a larger share");
    refused(path, 0.95, false, ZR_PACK_AUTO, "10 remain to train on, but at least 17 must be; give a smaller share");
    refused(few, 0.001, true, ZR_PACK_ONE, "of the 3 records of ");
    refused(few, 0.001, true, ZR_PACK_ONE, "few.jsonl, 0 are held out, but at least 1 must be");
    refused(few, 0.4, true, ZR_PACK_DOCUMENTS, " tokens of ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_drawn_one_of_each_block),
        cmocka_unit_test(later_records_change_nothing_for_earlier_ones),
        cmocka_unit_test(windows_skip_the_records_of_the_other_part),
        cmocka_unit_test(the_end_of_a_text_is_held_out),
        cmocka_unit_test(each_source_is_divided),
        cmocka_unit_test(a_part_without_a_sample_is_refused),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
