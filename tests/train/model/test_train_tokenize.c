//TEST timeout=30
//LINK -Wl,--wrap=zr__llmc_header,--wrap=zr__host_cores
/* zr__tokenize with faults on the way, or with texts larger than a test can use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "data/tokenizer/bpe_make.h"
#include "support/tempdir.h"
#include "zr/data.h"
#include "data/tokens/texts.h"
#include "train/tokenizer/tokenize.h"

enum { WINDOW = 1 << 20 };

static zr__tokenize_args args_of(const char *const *text, int n, const char *out)
{
    return (zr__tokenize_args){.tokenizer = "bytes", .texts = {.path = text, .n = n}, .out = out, .threads = 1};
}

static void expect_failure(const zr__tokenize_args *args, zr_status wanted, const char *message)
{
    zr__tokenized did;
    struct stat info;
    zr_status st = zr__tokenize(args, &did);
    if (st != wanted || !strstr(zr_error_message(), message))
        fail_msg("wanted %s and \"%s\", got %s: %s", zr_status_text(wanted), message, zr_status_text(st),
                 zr_error_message());
    assert_int_not_equal(stat(args->out, &info), 0);
}

static const char *put_windows(const char *name, int n)
{
    char *text = zr_alloc((size_t)n * WINDOW);
    for (int i = 0; i < n * WINDOW; i++) text[i] = i % 7 ? 'a' : ' ';
    const char *path = put_file(name, text, (size_t)n * WINDOW);
    zr_free(text);
    return path;
}

/* ---- texts that change ----------------------------------------------------------------------- */

static void append_once(void *arg, int64_t done, int64_t all)
{
    FILE *file = done < all ? fopen(arg, "ab") : NULL;
    if (file && (fputs("more", file) < 0 || fclose(file))) abort();
}

/* Check that when a text's size differs from the size counted at the beginning, no file of tokens is made. */
static void texts_must_not_change(void **state)
{
    (void)state;
    char second[PATH_MAX];
    const char *text[] = {put_windows("first.txt", 2), put_file("second.txt", "a b c", 5)};
    zr__tokenize_args args = args_of(text, 2, in_tempdir("out.bin"));
    snprintf(second, sizeof(second), "%s", text[1]);
    args.texts.progress = append_once;
    args.texts.arg = second;
    expect_failure(&args, ZR_ERR_IO, "second.txt: the file changed while in use");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t header_limit = INT32_MAX;
static int windows;

zr_status __wrap_zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES]);
zr_status __real_zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES]);

zr_status __wrap_zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES])
{
    return __real_zr__llmc_header(token_bytes, tokens > header_limit ? (int64_t)INT32_MAX + 1 : tokens, header);
}

static void count_windows(void *arg, int64_t done, int64_t all)
{
    (void)arg, (void)done, (void)all;
    windows++;
}

/* Check too many tokens, with a stand-in for the header that can count only to a million and a half: the second of four
 * windows exceeds it, and the others are not read. */
static void too_many_tokens_are_refused_when_they_come(void **state)
{
    (void)state;
    const char *text[] = {put_windows("four.txt", 4)};
    zr__tokenize_args args = args_of(text, 1, in_tempdir("many.bin"));
    args.texts.progress = count_windows;
    header_limit = 3 * WINDOW / 2;
    expect_failure(&args, ZR_ERR_DATA, "too many for the header of llm.c");
    header_limit = INT32_MAX;
    assert_int_equal(windows, 1);
}

static int cores = 1;

int __wrap_zr__host_cores(void);

int __wrap_zr__host_cores(void)
{
    return cores;
}

static void large_machines_get_no_more_threads_than_there_are(void **state)
{
    (void)state;
    const char *text[] = {put_file("few.txt", "some words of text", 18)};
    zr__tokenized did;
    zr__tokenize_args args = args_of(text, 1, in_tempdir("few.bin"));
    args.threads = ZR_TOKENIZE_THREADS + 1;
    expect_failure(&args, ZR_ERR_ARG, "257 threads, 1 to 256 are possible");
    args.threads = 0;
    cores = 1000;
    assert_int_equal(zr__tokenize(&args, &did), ZR_OK);
    assert_int_equal(did.tokens, 18);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Check a regular expression that tries all ways to cut a word before it fails. */
static void what_takes_too_long_is_named(void **state)
{
    (void)state;
    char *json = bpe_json("",
                          "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
                          "\"(?:a|aa|a(?:aa))+!\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", "
                          "\"add_prefix_space\": false, \"use_regex\": false}]}",
                          "\"type\": \"BPE\"", "\"ab\": 256", "[]");
    const char *text[] = {put_file("slow.txt", "a! aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b!", 60)};
    zr__tokenize_args args = args_of(text, 1, in_tempdir("slow.bin"));
    args.tokenizer = put_file("tokenizer.json", json, strlen(json));
    expect_failure(&args, ZR_ERR_DATA,
                   "slow.txt: error in the text from byte 0 on: the tokenizer's regular expression "
                   "failed at byte 2 of the text");
    zr_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_must_not_change),
        cmocka_unit_test(too_many_tokens_are_refused_when_they_come),
        cmocka_unit_test(large_machines_get_no_more_threads_than_there_are),
        cmocka_unit_test(what_takes_too_long_is_named),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
