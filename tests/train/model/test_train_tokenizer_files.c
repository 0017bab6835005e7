//TEST timeout=20
/* The tokenizer's files beside weights: copied from its directory, or, for the tokenizer "bytes", generated with the
 * same tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "data/tokenizer/bpe_make.h"
#include "support/tempdir.h"
#include "train/tokenizer/tokenize.h"
#include "zr/data.h"

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static bool is_there(const char *name)
{
    struct stat info;
    return stat(in_tempdir(name), &info) == 0;
}

static void make_dir(const char *name)
{
    assert_int_equal(mkdir(in_tempdir(name), 0777), 0);
}

static void bytes_have_files(void **state)
{
    (void)state;
    zr_tokenizer *t = NULL;
    char text[256];
    int32_t tokens[256];
    int64_t n = 0;
    make_dir("bytes");
    assert_int_equal(zr__tokenizer_files_copy("bytes", in_tempdir("bytes")), ZR_OK);
    assert_true(is_there("bytes/tokenizer_config.json"));
    if (zr_tokenizer_open(in_tempdir("bytes"), &t) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_tokenizer_vocab(t), 256);
    for (int i = 0; i < 256; i++) text[i] = (char)i;
    assert_int_equal(zr_tokenizer_encode(t, text, 256, tokens, 256, &n), ZR_OK);
    assert_int_equal(n, 256);
    for (int i = 0; i < 256; i++) assert_int_equal(tokens[i], i);
    zr_tokenizer_close(&t);
    make_dir("none");
    assert_int_equal(zr__tokenizer_files_copy(NULL, in_tempdir("none")), ZR_OK);
    assert_int_equal(rmdir(in_tempdir("none")), 0);
}

static void a_directory_is_copied(void **state)
{
    (void)state;
    char *json = bpe_json("", BPE_BYTE_LEVEL, "\"type\": \"BPE\"", "\"ab\": 256", "[\"a b\"]");
    zr_tokenizer *from = NULL, *to = NULL;
    make_dir("from");
    make_dir("to");
    assert_int_equal(zr__tokenizer_files_copy(in_tempdir("from"), in_tempdir("to")), ZR_ERR_NOT_FOUND);
    put_text("from/tokenizer.json", json);
    put_text("from/tokenizer_config.json", "{\"model_max_length\": 8}");
    put_text("from/README.md", "of no use");
    assert_int_equal(zr__tokenizer_files_copy(in_tempdir("from"), in_tempdir("to")), ZR_OK);
    assert_int_equal(zr_tokenizer_open(in_tempdir("from"), &from), ZR_OK);
    assert_int_equal(zr_tokenizer_open(in_tempdir("to"), &to), ZR_OK);
    assert_int_equal(zr_tokenizer_hash(from), zr_tokenizer_hash(to));
    assert_true(is_there("to/tokenizer_config.json") && !is_there("to/README.md") && !is_there("to/vocab.json"));
    zr_tokenizer_close(&from);
    zr_tokenizer_close(&to);

    make_dir("two");
    put_text("two/vocab.json", "{}");
    put_text("two/merges.txt", "#version: 0.2\n");
    make_dir("again");
    assert_int_equal(zr__tokenizer_files_copy(in_tempdir("two"), in_tempdir("again")), ZR_OK);
    assert_true(is_there("again/vocab.json") && is_there("again/merges.txt") && !is_there("again/tokenizer.json"));

    /* A file of any name is taken as a tokenizer.json. */
    put_text("alone.json", json);
    make_dir("one");
    assert_int_equal(zr__tokenizer_files_copy(in_tempdir("alone.json"), in_tempdir("one")), ZR_OK);
    assert_true(is_there("one/tokenizer.json"));
    assert_int_equal(zr__tokenizer_files_copy(in_tempdir("nothing"), in_tempdir("one")), ZR_ERR_NOT_FOUND);
    zr_free(json);
}

/* Check a file nearly as large as a tokenizer's file may be. */
static void large_files_are_copied(void **state)
{
    (void)state;
    const size_t bytes = 17 << 20;
    char *text = zr_alloc(bytes);
    struct stat info;
    assert_non_null(text);
    memset(text, ' ', bytes);
    put_file("large.json", text, bytes);
    zr_free(text);
    make_dir("large");
    if (zr__tokenizer_files_copy(in_tempdir("large.json"), in_tempdir("large")) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_int_equal(stat(in_tempdir("large/tokenizer.json"), &info), 0);
    assert_int_equal(info.st_size, bytes);
}

static void only_the_same_files_go(void **state)
{
    (void)state;
    make_dir("old");
    make_dir("new");
    put_text("old/tokenizer.json", "a");
    put_text("new/tokenizer.json", "b");
    put_text("old/merges.txt", "same");
    put_text("new/merges.txt", "same");
    put_text("old/vocab.json", "only here");
    put_text("old/config.json", "not a tokenizer's");
    zr__tokenizer_files_remove(in_tempdir("old"), in_tempdir("new"));
    assert_true(is_there("old/tokenizer.json") && !is_there("old/merges.txt") && is_there("old/vocab.json"));
    assert_true(is_there("new/merges.txt"));
    zr__tokenizer_files_remove(in_tempdir("old"), NULL);
    assert_true(!is_there("old/tokenizer.json") && !is_there("old/vocab.json") && is_there("old/config.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_files),
        cmocka_unit_test(a_directory_is_copied),
        cmocka_unit_test(large_files_are_copied),
        cmocka_unit_test(only_the_same_files_go),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
