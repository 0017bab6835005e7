//TEST timeout=60 tsan=1
/* Several files as one text, several weighted sources, and prefetched samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "support/tempdir.h"
#include "zr/data.h"
#include "data/samples/samples.h"

enum { SEQ = 7, ROOM = 1 << 16 };

static char value[ROOM]; /* the value of data.train */

static zr_data *open_ok(const char *path, zr_data_order order)
{
    zr_data *data = NULL;
    if (zr_data_open(path, NULL, 65536, SEQ, order, 99, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    return data;
}

static void refused(const char *path, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    assert_int_equal(zr_data_open(path, NULL, 65536, SEQ, ZR_SHUFFLED, 99, &data), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
    assert_null(data);
}

static void put_uint16(const char *name, int first, int n)
{
    uint16_t token[4096];
    for (int i = 0; i < n; i++) token[i] = (uint16_t)(first + i);
    put_file(name, token, (size_t)n * sizeof(*token));
}

static void same_windows(zr_data *a, zr_data *b)
{
    int32_t token[2][SEQ], target[2][SEQ];
    assert_int_equal(zr_data_get_info(a).tokens, zr_data_get_info(b).tokens);
    assert_int_equal(zr_data_get_info(a).windows, zr_data_get_info(b).windows);
    for (int64_t g = 0; g < 3 * zr_data_get_info(a).windows; g++) {
        assert_int_equal(zr_data_sample(a, g, token[0], target[0]), ZR_OK);
        assert_int_equal(zr_data_sample(b, g, token[1], target[1]), ZR_OK);
        assert_memory_equal(token[0], token[1], sizeof(token[0]));
        assert_memory_equal(target[0], target[1], sizeof(target[0]));
    }
    for (int64_t w = 0; w < zr_data_get_info(a).windows; w++) {
        assert_int_equal(zr_data_window(a, w, token[0], target[0]), ZR_OK);
        assert_int_equal(zr_data_window(b, w, token[1], target[1]), ZR_OK);
        assert_memory_equal(token[0], token[1], sizeof(token[0]));
    }
}

/* ---- one text -------------------------------------------------------------------------------- */

static void files_are_one_text(void **state)
{
    (void)state;
    put_uint16("all.bin", 0, 203);
    put_uint16("p_1.bin", 0, 100);
    put_uint16("p_10.bin", 100, 3); /* shorter than a window */
    put_uint16("p_2.bin", 103, 100);
    snprintf(value, sizeof(value), "[\"%s/p_1*.bin\", \"%s/p_2.bin\"]", tempdir, tempdir);
    for (zr_data_order order = ZR_SEQUENTIAL; order <= ZR_SHUFFLED; order++) {
        zr_data *whole = open_ok(in_tempdir("all.bin"), order);
        zr_data *pattern = open_ok(in_tempdir("p_*.bin"), order), *list = open_ok(value, order);
        same_windows(whole, pattern);
        same_windows(whole, list);
        assert_int_equal(zr_data_get_info(pattern).files, 3);
        assert_int_equal(zr_data_get_info(pattern).bytes, 406);
        zr_data_close(&whole);
        zr_data_close(&pattern);
        zr_data_close(&list);
    }
}

static void each_file_is_in_the_hash(void **state)
{
    (void)state;
    uint64_t hash[3];
    put_uint16("h_1.bin", 0, 100);
    for (int i = 0; i < 3; i++) {
        put_uint16("h_2.bin", i == 1 ? 101 : 100, 50);
        zr_data *data = open_ok(in_tempdir("h_*.bin"), ZR_SHUFFLED);
        assert_int_equal(zr__data_check(data, &hash[i], NULL, NULL), ZR_OK);
        zr_data_close(&data);
    }
    assert_true(hash[0] != hash[1] && hash[0] == hash[2]);
}

/* Check that the hash of a cached text covers its tokens and nothing else of the source file. */
static void tokens_of_texts_are_in_the_hash(void **state)
{
    (void)state;
    static const char *const image[] = {"{\"a\": \"some text\"}", "{\"b\":\"some text\"}", "{\"a\": \"another!\"}"};
    uint64_t hash[3];
    char cache[1024];
    snprintf(cache, sizeof(cache), "%s/cache", tempdir);
    for (int i = 0; i < 3; i++) {
        const zr_data_args args = {.path = put_file("t.jsonl", image[i], strlen(image[i])),
                                   .vocab_size = 256,
                                   .seq_length = SEQ,
                                   .text_key = i == 1 ? "b" : "a",
                                   .cache_dir = cache};
        zr_data *data = NULL;
        if (zr_data_open_with(&args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
        assert_int_equal(zr__data_check(data, &hash[i], NULL, NULL), ZR_OK);
        zr_data_close(&data);
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2]);
}

static int open_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) skip();
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

/* Check that few files stay open; a closed file that has changed or vanished gives an error when it is read again. */
static void few_files_are_open(void **state)
{
    (void)state;
    char name[32];
    int32_t token[SEQ], target[SEQ];
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "s_%03d.bin", i);
        put_uint16(name, 10 * i, 10);
    }
    const int before = open_files();
    zr_data *data = open_ok(in_tempdir("s_*.bin"), ZR_SEQUENTIAL);
    for (int64_t g = 0; g < 2 * 285; g++) {
        assert_int_equal(zr_data_sample(data, g, token, target), ZR_OK);
        for (int i = 0; i < SEQ; i++) assert_int_equal(target[i], g % 285 * SEQ + i + 1);
    }
    assert_true(open_files() - before <= 4);
    utimensat(AT_FDCWD, in_tempdir("s_100.bin"), times, 0);
    assert_int_equal(zr_data_sample(data, 143, token, target), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "s_100.bin"));
    unlink(in_tempdir("s_110.bin"));
    assert_int_equal(zr_data_sample(data, 157, token, target), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "s_110.bin"));
    assert_int_equal(zr_data_sample(data, 0, token, target), ZR_OK);
    zr_data_close(&data);
}

/* Check that a process close to its limit of open files can still read many shards. */
static void files_are_closed_for_others(void **state)
{
    (void)state;
    char name[32];
    int32_t token[SEQ], target[SEQ];
    struct rlimit all, few;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "e_%02d.bin", i);
        put_uint16(name, 10 * i, 10);
    }
    if (getrlimit(RLIMIT_NOFILE, &all) != 0) skip();
    const int next = open(in_tempdir("e_00.bin"), O_RDONLY);
    assert_true(next >= 0);
    close(next);
    few = (struct rlimit){(rlim_t)next + 1, all.rlim_max}; /* room for one more file */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    zr_data *data = open_ok(in_tempdir("e_*.bin"), ZR_SEQUENTIAL);
    for (int64_t g = 0; g < 28; g++) assert_int_equal(zr_data_sample(data, g, token, target), ZR_OK);
    assert_int_equal(target[SEQ - 1], 28 * SEQ);
    zr_data_close(&data);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
}

/* Check that positions beyond 2^32 work, in sparse files that take no disk space. */
static void a_text_may_be_of_any_length(void **state)
{
    (void)state;
    const int64_t tokens = ((int64_t)3 << 29) + 5;
    const uint16_t end[2] = {11, 12}, begin[3] = {13, 14, 15};
    int32_t token[SEQ], target[SEQ];
    char name[16];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "l_%d.bin", i);
        FILE *file = fopen(put_file(name, "", 0), "wb");
        if (!file) abort();
        if (i == 2) assert_int_equal(fwrite(begin, sizeof(begin), 1, file), 1);
        if (i == 1) assert_int_equal(fseeko(file, (tokens - 2) * 2, SEEK_SET), 0);
        if (i == 1) assert_int_equal(fwrite(end, sizeof(end), 1, file), 1);
        if (fflush(file) != 0 || ftruncate(fileno(file), tokens * 2) != 0) skip();
        fclose(file);
    }
    zr_data *data = open_ok(in_tempdir("l_*.bin"), ZR_SEQUENTIAL);
    assert_int_equal(zr_data_get_info(data).tokens, 3 * tokens);
    const int64_t window = 2 * tokens / SEQ, at = 2 * tokens % SEQ; /* the third file begins within it */
    assert_true(window * SEQ > INT32_MAX);
    assert_int_equal(zr_data_window(data, window, token, target), ZR_OK);
    for (int i = 0; i < SEQ; i++) {
        const int64_t from = i - at;
        assert_int_equal(token[i], from >= -2 && from < 3 ? 13 + from : 0);
    }
    zr_data_close(&data);
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    put_uint16("r_1.bin", 0, 100);
    put_file("r_2.bin", "", 0);
    put_file("r_3.txt", "a text of its own", 17);
    refused(in_tempdir("none_*.bin"), ZR_ERR_NOT_FOUND, "none_*.bin: no file matches this pattern");
    refused(in_tempdir("r_[12].bin"), ZR_ERR_DATA, "r_2.bin: the file holds 0 tokens (uint16); leave it out");
    refused(in_tempdir("r_[13].*"), ZR_ERR_DATA, "r_3.txt is text, but ");
    snprintf(value, sizeof(value), "[\"%s/r_1.bin\", \"%s/gone.bin\"]", tempdir, tempdir);
    refused(value, ZR_ERR_NOT_FOUND, "gone.bin");
    snprintf(value, sizeof(value), "[\"%s/r_1.bin\", 7]", tempdir);
    refused(value, ZR_ERR_CONFIG, "element 1: expected a path");
    snprintf(value, sizeof(value), "[{\"path\": \"%s/r_1.bin\", \"weight\": 0}]", tempdir);
    refused(value, ZR_ERR_CONFIG, "element 0");
    snprintf(value, sizeof(value),
             "[{\"path\": \"%s/r_1.bin\", \"weight\": 1}, {\"path\": \"%s/r_3.txt\", \"weight\": 1e-5}]", tempdir,
             tempdir);
    refused(value, ZR_ERR_CONFIG,
            "r_3.txt: its weight, 1e-05 of 1.00001 in all, gives it less than one sample in 4096");
    snprintf(value, sizeof(value),
             "[{\"path\": \"%s/r_1.bin\", \"weight\": 1e308}, {\"path\": \"%s/r_3.txt\", \"weight\": 1e308}]", tempdir,
             tempdir);
    refused(value, ZR_ERR_CONFIG, "r_1.bin and others: the sum of their weights, inf, is too large");
    refused("[]", ZR_ERR_CONFIG, "expected a path");
}

static void a_name_that_is_there_is_no_pattern(void **state)
{
    (void)state;
    put_uint16("n1.bin", 0, 100);
    put_uint16("n[1].bin", 500, 50);
    zr_data *data = open_ok(in_tempdir("n[1].bin"), ZR_SHUFFLED);
    assert_int_equal(zr_data_get_info(data).tokens, 50);
    zr_data_close(&data);
}

/* ---- sources --------------------------------------------------------------------------------- */

enum { SOURCES = 3, TOKENS = 1000 };

static zr_data *open_mix(const char *weights[SOURCES], zr_data_order order)
{
    char name[16];
    size_t used = 0;
    for (int s = 0; s < SOURCES; s++) {
        snprintf(name, sizeof(name), "m_%d.bin", s);
        put_uint16(name, 10000 * s, TOKENS + s);
        used += (size_t)snprintf(value + used, sizeof(value) - used, "%s{\"path\": \"%s/%s\", \"weight\": %s}",
                                 s ? ", " : "[", tempdir, name, weights[s]);
    }
    snprintf(value + used, sizeof(value) - used, "]");
    return open_ok(value, order);
}

/* Find the source and window of a sample. */
static void find(const zr_data *data, int64_t sample, int *source, int64_t *first)
{
    assert_int_equal(zr__data_locate(data, sample, first), ZR_OK);
    *source = *first < TOKENS ? 0 : *first < 2 * TOKENS + 1 ? 1 : 2;
    *first -= *source == 0 ? 0 : *source == 1 ? TOKENS : 2 * TOKENS + 1;
}

static void a_block_has_each_source_by_its_weight(void **state)
{
    (void)state;
    const int wanted[SOURCES] = {2867, 819, 410}; /* 2867.2, 819.2, 409.6 */
    zr_data *data = open_mix((const char *[]){"0.7", "0.2", "0.1"}, ZR_SHUFFLED);
    assert_int_equal(zr_data_get_info(data).sources, SOURCES);
    int longest = 0;
    for (int64_t block = 0; block < 5; block++) {
        int n[SOURCES] = {0}, source, row = 0;
        int64_t first;
        for (int64_t i = 0; i < ZR_DATA_MIX; i++) {
            find(data, block * ZR_DATA_MIX + i, &source, &first);
            n[source]++;
            row = source == 2 ? row + 1 : 0;
            if (row > longest) longest = row;
        }
        assert_memory_equal(n, wanted, sizeof(n));
    }
    assert_true(longest < 12); /* the third source has a tenth of the samples, at random places */
    zr_data_close(&data);
}

/* Check that each source is read in its own order, as if it were alone. */
static void each_source_has_its_own_epochs(void **state)
{
    (void)state;
    zr_data *data = open_mix((const char *[]){"2", "1", "1"}, ZR_SHUFFLED), *alone = open_ok(in_tempdir("m_0.bin"), 1);
    static int times[TOKENS];
    int64_t n = 0, first, its;
    int source;
    for (int64_t g = 0; g < 3 * ZR_DATA_MIX; g++) {
        find(data, g, &source, &first);
        if (source != 0) continue;
        times[first]++;
        n++;
    }
    assert_int_equal(n, 3 * ZR_DATA_MIX / 2);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(zr__data_locate(alone, i, &its), ZR_OK);
        times[its]--;
    }
    for (int i = 0; i < TOKENS; i++) assert_int_equal(times[i], 0);
    zr_data_close(&alone);
    zr_data_close(&data);
}

static void samples_are_of_their_source(void **state)
{
    (void)state;
    int32_t token[SEQ], target[SEQ];
    int source;
    int64_t first;
    zr_data *data = open_mix((const char *[]){"1", "1", "1"}, ZR_SEQUENTIAL);
    for (int64_t g = 0; g < 1000; g++) {
        find(data, g, &source, &first);
        assert_int_equal(zr_data_sample(data, g, token, target), ZR_OK);
        for (int i = 0; i < SEQ; i++) assert_int_equal(target[i], 10000 * source + first + i + 1);
    }
    assert_int_equal(zr_data_window(data, zr_data_get_info(data).windows - 1, token, target), ZR_OK);
    assert_int_equal(token[0], 20000 + (TOKENS + 1) / SEQ * SEQ - SEQ);
    assert_int_equal(zr__data_locate(data, INT64_MAX, &first), ZR_ERR_ARG);
    zr_data_close(&data);
}

/* Check that weights are in the hash, because they are part of the data that a run has trained on. */
static void weights_are_in_the_hash(void **state)
{
    (void)state;
    uint64_t a, b;
    zr_data *data = open_mix((const char *[]){"1", "1", "1"}, ZR_SHUFFLED);
    assert_int_equal(zr__data_check(data, &a, NULL, NULL), ZR_OK);
    zr_data_close(&data);
    data = open_mix((const char *[]){"1", "1", "2"}, ZR_SHUFFLED);
    assert_int_equal(zr__data_check(data, &b, NULL, NULL), ZR_OK);
    zr_data_close(&data);
    assert_true(a != b);
}

/* Check that the assignment of files to sources is in the hash: the first source has one of three files, then two. */
static void sources_are_in_the_hash(void **state)
{
    (void)state;
    uint64_t hash[2];
    char name[16];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "w_%d.bin", i);
        put_uint16(name, 100 * i, 100);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(value, sizeof(value),
                 "[{\"path\": [\"%s/w_0.bin\"%s \"%s/w_1.bin\"%s \"%s/w_2.bin\"], \"weight\": 1}]", tempdir,
                 i == 0 ? "], \"weight\": 1}, {\"path\": [" : ",", tempdir,
                 i == 1 ? "], \"weight\": 1}, {\"path\": [" : ",", tempdir);
        zr_data *data = open_ok(value, ZR_SHUFFLED);
        assert_int_equal(zr__data_check(data, &hash[i], NULL, NULL), ZR_OK);
        zr_data_close(&data);
    }
    assert_true(hash[0] != hash[1]);
}

/* Check that the order of samples never changes between versions, so that a resumed run continues with the same
 * samples. */
static void the_order_stays(void **state)
{
    (void)state;
    static const int64_t sample[] = {0, 1, 2, 3, 146, 147, 148, 149}; /* an epoch has 142 samples */
    static const int64_t one[] = {144, 74, 32, 39, 103, 719, 614, 950};
    static const int64_t block[] = {0, 1, 2, 3, ZR_DATA_MIX, ZR_DATA_MIX + 1, ZR_DATA_MIX + 2, ZR_DATA_MIX + 3};
    static const int64_t mixed[] = {1461, 296, 1130, 660, 955, 2458, 406, 332};
    int64_t first;
    zr_data *mix = open_mix((const char *[]){"0.7", "0.2", "0.1"}, ZR_SHUFFLED);
    zr_data *alone = open_ok(in_tempdir("m_0.bin"), ZR_SHUFFLED);
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
        assert_int_equal(zr__data_locate(alone, sample[i], &first), ZR_OK);
        assert_int_equal(first, one[i]);
        assert_int_equal(zr__data_locate(mix, block[i], &first), ZR_OK);
        assert_int_equal(first, mixed[i]);
    }
    zr_data_close(&alone);
    zr_data_close(&mix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_one_text),
        cmocka_unit_test(each_file_is_in_the_hash),
        cmocka_unit_test(tokens_of_texts_are_in_the_hash),
        cmocka_unit_test(few_files_are_open),
        cmocka_unit_test(files_are_closed_for_others),
        cmocka_unit_test(a_text_may_be_of_any_length),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(a_name_that_is_there_is_no_pattern),
        cmocka_unit_test(a_block_has_each_source_by_its_weight),
        cmocka_unit_test(each_source_has_its_own_epochs),
        cmocka_unit_test(samples_are_of_their_source),
        cmocka_unit_test(weights_are_in_the_hash),
        cmocka_unit_test(sources_are_in_the_hash),
        cmocka_unit_test(the_order_stays),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
