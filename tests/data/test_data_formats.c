//TEST timeout=30
//LINK -Wl,--wrap=zr_alloc -Wl,--wrap=pread
/* The formats of token files, and every defect that a file can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "support/tempdir.h"
#include "zr/data.h"
#include "data/samples/samples.h"

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

static int allocations, fail_at = -1;

void *__wrap_zr_alloc(size_t bytes)
{
    return allocations++ == fail_at ? NULL : __real_zr_alloc(bytes);
}

ssize_t __real_pread(int fd, void *out, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t bytes, off_t offset);

static const char *touched_by_read; /* a file that is written to while it is being read */
static bool stumbles;               /* whether reads are interrupted or return only half of the bytes */

ssize_t __wrap_pread(int fd, void *out, size_t bytes, off_t offset)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    static int calls;
    if (touched_by_read) utimensat(AT_FDCWD, touched_by_read, times, 0);
    int turn = stumbles ? calls++ % 3 : 2;
    if (turn == 0) errno = EINTR;
    return turn == 0 ? -1 : __real_pread(fd, out, turn == 1 ? (bytes + 1) / 2 : bytes, offset);
}

/* A file image under construction. */
static unsigned char image[1 << 16];
static size_t image_bytes;

static void add_words(int n, const uint32_t *word)
{
    for (int i = 0; i < n; i++)
        for (int b = 0; b < 4; b++) image[image_bytes++] = (unsigned char)(word[i] >> 8 * b);
}

static void add_header(uint32_t magic, uint32_t version, uint32_t count)
{
    const uint32_t word[256] = {magic, version, count};
    image_bytes = 0;
    add_words(256, word);
}

static void add_token(uint32_t token, int bytes)
{
    for (int b = 0; b < bytes; b++) image[image_bytes++] = (unsigned char)(token >> 8 * b);
}

static zr_status open_image(const char *name, int64_t vocab_size, int64_t seq_length, zr_data **data)
{
    *data = NULL;
    return zr_data_open(put_file(name, image, image_bytes), NULL, vocab_size, seq_length, ZR_SEQUENTIAL, 0, data);
}

static void check_read(const char *name, const char *format, int64_t vocab_size, uint32_t first, double bytes_per_token)
{
    zr_data *data;
    int32_t tokens[4], targets[4];
    assert_int_equal(open_image(name, vocab_size, 4, &data), ZR_OK);
    zr_data_info info = zr_data_get_info(data);
    assert_string_equal(info.format, format);
    assert_int_equal(info.tokens, 10);
    assert_int_equal(info.windows, 2);
    assert_true(info.bytes_per_token == bytes_per_token);
    assert_int_equal(zr_data_window(data, 1, tokens, targets), ZR_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tokens[i], (int32_t)first + 4 + i);
        assert_int_equal(targets[i], (int32_t)first + 5 + i);
    }
    zr_data_close(&data);
    assert_null(data);
}

static void four_formats_are_known(void **state)
{
    stumbles = *state != NULL;
    add_header(20240520, 1, 10);
    for (uint32_t i = 0; i < 10; i++) add_token(50000 + i, 2);
    check_read("llmc2.bin", "llm.c uint16", 50257, 50000, 0);
    check_read("llmc2 under another name", "llm.c uint16", 50257, 50000, 0);
    add_header(20240801, 7, 10);
    for (uint32_t i = 0; i < 10; i++) add_token(128000 + i, 4);
    check_read("llmc4.bin", "llm.c uint32", 128256, 128000, 0);
    image_bytes = 0;
    for (uint32_t i = 0; i < 10; i++) add_token(60000 + i, 2);
    check_read("nano.bin", "uint16", 65536, 60000, 0);
    image_bytes = 0;
    for (uint32_t i = 0; i < 10; i++) add_token(240 + i, 1);
    check_read("text.txt", "text", 256, 240, 1);
    stumbles = false;
}

static void refused(zr_status wanted, const char *name, int64_t vocab_size, const char *fragment)
{
    zr_data *data;
    zr_status st = open_image(name, vocab_size, 4, &data);
    if (st == wanted && strstr(zr_error_message(), fragment) && strstr(zr_error_message(), name)) return;
    fail_msg("%s: status %d, message: %s; wanted %d, \"%s\"", name, st, zr_error_message(), wanted, fragment);
}

/* Write n tokens of `bytes` bytes: numbers below `vocab`, not in order. */
static void add_tokens(uint32_t n, uint32_t vocab, int bytes)
{
    image_bytes = 0;
    for (uint32_t i = 0; i < n; i++) add_token((uint32_t)((uint64_t)i * 2654435761u % vocab), bytes);
}

static void opens(const char *name, int64_t vocab, int token_bytes, const char *format, int64_t tokens)
{
    zr_data *data = NULL;
    const zr_data_args args = {
        .path = put_file(name, image, image_bytes), .vocab_size = vocab, .seq_length = 4, .token_bytes = token_bytes};
    if (zr_data_open_with(&args, &data) != ZR_OK) fail_msg("%s: %s", name, zr_error_message());
    assert_string_equal(zr_data_get_info(data).format, format);
    assert_int_equal(zr_data_get_info(data).tokens, tokens);
    zr_data_close(&data);
}

static void contradicts(const char *name, int token_bytes, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    const zr_data_args args = {
        .path = put_file(name, image, image_bytes), .vocab_size = 65536, .seq_length = 4, .token_bytes = token_bytes};
    assert_int_equal(zr_data_open_with(&args, &data), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

static void tokens_of_four_bytes_need_a_key(void **state)
{
    (void)state;
    static const uint32_t vocab[] = {65, 256, 50257, 65536, 128256, 262144};
    for (size_t i = 0; i < sizeof(vocab) / sizeof(vocab[0]); i++) {
        const uint32_t narrow = vocab[i] < 65536 ? vocab[i] : 65536;
        add_tokens(1000, vocab[i], 4);
        refused(ZR_ERR_DATA, "wide.bin", vocab[i], "seem to have 4 bytes (uint32); give data.token_bytes 4, or 2");
        opens("wide.bin", vocab[i], 4, "uint32", 1000);
        opens("wide.bin", vocab[i], 2, "uint16", 2000);
        add_tokens(32, vocab[i], 4);
        refused(ZR_ERR_DATA, "wide.bin", vocab[i], "data.token_bytes");
        add_tokens(31, vocab[i], 4); /* too few to tell */
        opens("wide.bin", vocab[i], 0, "uint16", 62);
        add_tokens(1000, narrow, 2);
        opens("narrow.bin", vocab[i], 0, "uint16", 1000);
        opens("narrow.bin", vocab[i], 2, "uint16", 1000);
    }
    for (uint32_t i = image_bytes = 0; i < 500; i++) { /* int64 */
        add_token(i * 77 % 250, 4);
        add_token(0, 4);
    }
    refused(ZR_ERR_DATA, "long.bin", 256, "seem to have 8 bytes (int64), which zr does not read; write them as uint32");
    opens("long.bin", 256, 4, "uint32", 1000);
    memset(image, 0, 4000); /* zeros are no halves, and neither are a few numbers among them */
    image_bytes = 4000;
    opens("zeros.bin", 256, 0, "uint16", 2000);
    image[400] = 7;
    opens("zeros.bin", 256, 0, "uint16", 2000);
    for (uint32_t i = image_bytes = 0; i < 1000; i++) add_token(i % 2, 2);
    opens("two.bin", 2, 0, "uint16", 1000);
    add_tokens(1001, 256, 2);
    opens("odd.bin", 256, 0, "uint16", 1001);
    contradicts("odd.bin", 4, ZR_ERR_DATA, "2002 bytes, which is no multiple of 4");
    contradicts("odd.bin", 3, ZR_ERR_ARG, "token_bytes is 3");
    add_header(20240520, 1, 10);
    for (uint32_t i = 0; i < 10; i++) add_token(i, 2);
    opens("header.bin", 256, 2, "llm.c uint16", 10);
    contradicts("header.bin", 4, ZR_ERR_CONFIG, "data.token_bytes is 4, but its header says that tokens have 2 bytes");
}

/* Check that a token file with the tokenizer "bytes" has a number of bits per byte. */
static void tokenizer_of_a_token_file(void **state)
{
    (void)state;
    zr_data *data;
    image_bytes = 0;
    for (uint32_t i = 0; i < 10; i++) add_token(i, 2);
    const char *path = put_file("bytes.bin", image, image_bytes);
    assert_int_equal(zr_data_open(path, "bytes", 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_OK);
    assert_true(zr_data_get_info(data).bytes_per_token == 1);
    zr_data_close(&data);
    assert_int_equal(zr_data_open(path, "no/such/dir", 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
}

static void sizes_and_headers_are_checked(void **state)
{
    (void)state;
    image_bytes = 0;
    refused(ZR_ERR_DATA, "empty.txt", 256, "0 tokens");
    refused(ZR_ERR_DATA, "empty.bin", 256, "0 tokens");
    for (int i = 0; i < 4; i++) add_token('a', 1);
    refused(ZR_ERR_DATA, "short.txt", 256, "only 4 tokens (text); at least 5");
    refused(ZR_ERR_CONFIG, "narrow.txt", 255, "vocab_size of at least 256, but it is 255");
    image_bytes = 21;
    refused(ZR_ERR_DATA, "odd.bin", 256, "21 bytes, an odd number");
    add_header(20240520, 1, 10);
    refused(ZR_ERR_DATA, "nothing.bin", 256,
            "the header says 10 tokens of 2 bytes, so 1044 bytes in all; the file has 1024");
    image_bytes += 21;
    refused(ZR_ERR_DATA, "half.bin", 256, "the file has 1045");
    image_bytes = 1000;
    refused(ZR_ERR_DATA, "header.bin", 256, "ends inside its header");
    add_header(20240520, 1, 0);
    refused(ZR_ERR_DATA, "none.bin", 256, "0 tokens");
    add_header(20240520, 7, 0);
    refused(ZR_ERR_DATA, "version.bin", 256, "byte 4: llm.c version 7, wanted 1");
    add_header(20240801, 1, 0);
    refused(ZR_ERR_DATA, "version.bin", 256, "byte 4: llm.c version 1, wanted 7");
    add_header(20240520, 1, 0x80000000u);
    refused(ZR_ERR_DATA, "negative.bin", 256, "byte 8: token count -2147483648");
    add_header(20240520, 1, 0x7fffffffu);
    refused(ZR_ERR_DATA, "huge.bin", 256, "4294968318 bytes in all");
    add_header(__builtin_bswap32(20240520), 1, 0);
    refused(ZR_ERR_DATA, "swapped.bin", 256, "wrong byte order");
}

static void arguments_are_checked(void **state)
{
    (void)state;
    zr_data *data;
    image_bytes = 64;
    assert_int_equal(open_image("a", 0, 4, &data), ZR_ERR_ARG);
    assert_int_equal(open_image("a", (int64_t)1 << 31, 4, &data), ZR_ERR_ARG);
    assert_int_equal(open_image("a", 256, 0, &data), ZR_ERR_ARG);
    assert_int_equal(open_image("a", 256, INT64_MAX, &data), ZR_ERR_ARG);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    zr_data *data;
    const char *path = in_tempdir("not there");
    assert_int_equal(zr_data_open(path, NULL, 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "not there"));
    assert_int_equal(zr_data_open(tempdir, NULL, 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "a directory"));
    path = in_tempdir("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(zr_data_open(path, NULL, 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr_data_open("", NULL, 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
}

static void odd_paths_work(void **state)
{
    (void)state;
    const char *const names[] = {"a b", "-n", "new\nline", "quo\"te'", "\xff\xfe", "\x1b[31m", "%s%n"};
    zr_data *data;
    image_bytes = 64;
    memset(image, 'x', image_bytes);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(open_image(names[i], 256, 4, &data), ZR_OK);
        zr_data_close(&data);
    }
    assert_int_equal(zr_data_open(in_tempdir("gone\x1b[31m\n"), NULL, 256, 4, ZR_SEQUENTIAL, 0, &data),
                     ZR_ERR_NOT_FOUND);
    assert_null(strchr(zr_error_message(), '\x1b'));
    assert_null(strchr(zr_error_message(), '\n'));
    char *longer = calloc(1, 10000);
    memset(longer, 'x', 9999);
    assert_int_equal(zr_data_open(longer, NULL, 256, 4, ZR_SEQUENTIAL, 0, &data), ZR_ERR_NOT_FOUND);
    free(longer);
}

/* Check that the scan of a whole file, with and without a hash, refuses it with `fragment`. The bad token may be
 * anywhere, relative to the scan's blocks and pieces. */
static void check_refuses(const char *name, int64_t vocab_size, const char *fragment)
{
    zr_data *data;
    uint64_t hash;
    assert_int_equal(open_image(name, vocab_size, 4, &data), ZR_OK);
    for (int hashed = 0; hashed < 2; hashed++) {
        assert_int_equal(zr__data_check(data, hashed ? &hash : NULL, NULL, NULL), ZR_ERR_DATA);
        if (!strstr(zr_error_message(), fragment)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), fragment);
    }
    zr_data_close(&data);
}

static void tokens_outside_are_seen_before_a_run(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < 200; bad++) {
        char fragment[96];
        image_bytes = 0;
        for (uint32_t i = 0; i < 200; i++) add_token(i == bad ? 300 : i, 2);
        snprintf(fragment, sizeof(fragment),
                 "token %u (byte %u) is 300, which is not below vocab_size 300 (read as uint16)", bad, 2 * bad);
        check_refuses("one.bin", 300, fragment);
    }
    add_header(20240801, 7, 100);
    for (uint32_t i = 0; i < 100; i++) add_token(i == 99 ? 0xfffffff0u : i, 4);
    check_refuses("last.bin", 1000, "token 99 (byte 1420) is 4294967280");
    add_header(20240520, 1, 100);
    for (uint32_t i = 0; i < 100; i++) add_token(i == 0 ? 65535 : i, 2);
    check_refuses("first.bin", 65535, "token 0 (byte 1024) is 65535");
}

static int64_t seen_bytes, wanted_bytes;

static void on_progress(void *arg, int64_t done, int64_t all)
{
    assert_ptr_equal(arg, &seen_bytes);
    assert_true(done > seen_bytes && done <= all);
    assert_int_equal(all, wanted_bytes);
    seen_bytes = done;
}

/* Check that a file longer than a piece is checked to the end: the only bad token is in its last piece. */
static void long_files_are_checked_to_the_end(void **state)
{
    (void)state;
    const int64_t n = 700000;
    zr_data *data;
    uint64_t hash = 0, again = 0;
    uint16_t *tokens = calloc((size_t)n, 2);
    assert_non_null(tokens);
    wanted_bytes = 2 * n;
    for (int bad = 0; bad < 2; bad++) {
        if (bad) tokens[n - 1] = 500;
        FILE *file = fopen(in_tempdir("long.bin"), "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(tokens, 2, (size_t)n, file), n);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(zr_data_open(in_tempdir("long.bin"), NULL, 500, 4, ZR_SEQUENTIAL, 0, &data), ZR_OK);
        seen_bytes = 0;
        assert_int_equal(zr__data_check(data, bad ? &again : &hash, on_progress, &seen_bytes),
                         bad ? ZR_ERR_DATA : ZR_OK);
        if (!bad) assert_int_equal(seen_bytes, wanted_bytes);
        if (bad) assert_non_null(strstr(zr_error_message(), "token 699999 (byte 1399998) is 500"));
        zr_data_close(&data);
    }
    assert_int_equal(zr_data_open(in_tempdir("long.bin"), NULL, 501, 4, ZR_SEQUENTIAL, 0, &data), ZR_OK);
    assert_int_equal(zr__data_check(data, &again, NULL, NULL), ZR_OK);
    assert_true(hash != again); /* differs in one token at the end */
    zr_data_close(&data);
    free(tokens);
}

/* Check that a program that never checks a whole file still cannot train on a token outside the vocabulary. */
static void tokens_outside_are_seen_when_read(void **state)
{
    (void)state;
    zr_data *data;
    int32_t tokens[4], targets[4];
    image_bytes = 0;
    for (uint32_t i = 0; i < 20000; i++) add_token(i == 10001 ? 777 : 5, 2);
    assert_int_equal(open_image("between.bin", 500, 4, &data), ZR_OK);
    assert_int_equal(zr_data_window(data, 2499, tokens, targets), ZR_OK);
    assert_int_equal(zr_data_window(data, 2500, tokens, targets), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "token 10001 (byte 20002) is 777"));
    zr_data_close(&data);
}

static void changed_files_stop_the_run(void **state)
{
    (void)state;
    zr_data *data;
    int32_t tokens[4], targets[4];
    image_bytes = 0;
    for (uint32_t i = 0; i < 100; i++) add_token('a', 1);
    assert_int_equal(open_image("text", 256, 4, &data), ZR_OK);
    assert_int_equal(zr_data_sample(data, 0, tokens, targets), ZR_OK);
    assert_int_equal(truncate(in_tempdir("text"), 50), 0);
    assert_int_equal(zr_data_sample(data, 0, tokens, targets), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "changed while in use: it has 50 bytes, but had 100 when opened"));
    assert_non_null(strstr(zr_error_message(), "/text"));
    zr_data_close(&data);

    assert_int_equal(open_image("text", 256, 4, &data), ZR_OK);
    touched_by_read = in_tempdir("text");
    assert_int_equal(zr_data_sample(data, 0, tokens, targets), ZR_ERR_IO);
    touched_by_read = NULL;
    assert_non_null(strstr(zr_error_message(), "another program wrote to it"));
    zr_data_close(&data);
}

static void reading_allocates_nothing(void **state)
{
    (void)state;
    zr_data *data;
    int32_t tokens[4], targets[4];
    image_bytes = 5000;
    memset(image, 'x', image_bytes);
    const char *path = put_file("steady", image, image_bytes);
    assert_int_equal(zr_data_open(path, NULL, 256, 4, ZR_SHUFFLED, 0, &data), ZR_OK);
    allocations = 0;
    for (int64_t g = 0; g < 5000; g++) assert_int_equal(zr_data_sample(data, g, tokens, targets), ZR_OK);
    assert_int_equal(allocations, 0);
    zr_data_close(&data);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    zr_data *data;
    image_bytes = 64;
    zr_status st = ZR_ERR_MEMORY;
    int failures = 0;
    for (fail_at = 0; st == ZR_ERR_MEMORY; fail_at++) {
        allocations = 0;
        st = open_image("memory", 256, 4, &data);
        failures += st == ZR_ERR_MEMORY;
    }
    fail_at = -1;
    assert_int_equal(st, ZR_OK);
    assert_int_equal(failures, 18);
    zr_data_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_formats_are_known),
        {.name = "reads may be interrupted", .test_func = four_formats_are_known, .initial_state = &stumbles},
        cmocka_unit_test(tokenizer_of_a_token_file),
        cmocka_unit_test(tokens_of_four_bytes_need_a_key),
        cmocka_unit_test(sizes_and_headers_are_checked),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(odd_paths_work),
        cmocka_unit_test(tokens_outside_are_seen_before_a_run),
        cmocka_unit_test(long_files_are_checked_to_the_end),
        cmocka_unit_test(tokens_outside_are_seen_when_read),
        cmocka_unit_test(changed_files_stop_the_run),
        cmocka_unit_test(reading_allocates_nothing),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
