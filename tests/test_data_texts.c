//TEST timeout=60 tsan=1
/* .jsonl: what becomes tokens, what is a bad line, and the cache in which the tokens stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "data/encode.h"
#include "tempdir.h"
#include "zr/data.h"

enum { SEQ = 4, ROOM = 4 << 20 };

static zr_data_args args_of(const char *path)
{
    return (zr_data_args){.path = path,
                          .vocab_size = 256,
                          .seq_length = SEQ,
                          .order = ZR_SEQUENTIAL,
                          .cache_dir = in_tempdir("cache/tokens")};
}

static void refused(const zr_data_args *args, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(args, &data), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

/* The text that the windows of a .jsonl file spell, and what is left behind the last one is not looked at. */
static void reads_as(const zr_data_args *args, const char *wanted)
{
    zr_data *data = NULL;
    int32_t token[SEQ], target[SEQ];
    if (zr_data_open_with(args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_data_tokens(data), strlen(wanted));
    for (int64_t w = 0; w < zr_data_windows(data); w++) {
        assert_int_equal(zr_data_window(data, w, token, target), ZR_OK);
        for (int i = 0; i < SEQ; i++) assert_int_equal(token[i], (unsigned char)wanted[w * SEQ + i]);
        assert_int_equal(target[SEQ - 1], (unsigned char)wanted[w * SEQ + SEQ]);
    }
    assert_string_equal(zr_data_get_info(data).format, "jsonl");
    zr_data_close(&data);
}

static void reads(const char *image, const char *wanted)
{
    const zr_data_args args = args_of(put_file("x.jsonl", image, strlen(image)));
    reads_as(&args, wanted);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void texts_stand_behind_each_other(void **state)
{
    (void)state;
    reads("{\"text\": \"first\"}\n{\"text\": \"second\"}\n", "first\nsecond\n");
    reads("{\"text\": \"first\"}\r\n\r\n  \n{\"meta\": {\"a\": [1]}, \"text\": \"second\"}", "first\nsecond\n");
    reads("\xef\xbb\xbf{\"text\": \"\\u00e9\\n\\ud83d\\ude00\"}\n", "\xc3\xa9\n\xf0\x9f\x98\x80\n");
    reads("{\"text\": \"\"}\n{\"text\": \"an empty one says nothing\"}\n", "an empty one says nothing\n");
}

static void the_member_has_a_name(void **state)
{
    (void)state;
    static const char image[] = "{\"text\": \"no\", \"body\": \"the text\"}\n";
    zr_data_args args = args_of(put_file("named.jsonl", image, strlen(image)));
    args.text_key = "body";
    reads_as(&args, "the text\n");
    args.text_key = "title";
    refused(&args, ZR_ERR_DATA, "named.jsonl:1: \"title\" is not there, wanted a text (data.text_key names it)");
}

static const struct {
    const char *line, *says;
    size_t bytes; /* 0: the string's */
} bad[] = {
    {"{\"text\": \"open", "bad.jsonl:3: column ", 0},
    {"{\"text\": 7}", "bad.jsonl:3: \"text\" is no string, wanted a text", 0},
    {"{\"other\": \"x\"}", "bad.jsonl:3: \"text\" is not there", 0},
    {"[\"text\"]", "bad.jsonl:3: not an object", 0},
    {"{\"text\": \"\xff\xfe\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"\\ud800\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"\\u0000\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"a\0b\"}", "bad.jsonl:3: column ", 14},
    {"{\"text\": \"a\", \"text\": \"b\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"a\"} {\"text\": \"b\"}", "bad.jsonl:3: column ", 0},
};

static void bad_lines_are_named_or_left_out(void **state)
{
    (void)state;
    static const char before[] = "{\"text\": \"good\"}\n\n", after[] = "\n{\"text\": \"also good\"}\n";
    char image[256];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const size_t n = bad[i].bytes ? bad[i].bytes : strlen(bad[i].line);
        memcpy(image, before, strlen(before));
        memcpy(image + strlen(before), bad[i].line, n);
        memcpy(image + strlen(before) + n, after, strlen(after));
        zr_data_args args = args_of(put_file("bad.jsonl", image, strlen(before) + n + strlen(after)));
        refused(&args, ZR_ERR_DATA, bad[i].says);
        args.skip_bad_lines = true;
        reads_as(&args, "good\nalso good\n");
        for (int turn = 0; turn < 2; turn++) { /* made, and found in the cache */
            zr_data *data = NULL;
            assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
            assert_int_equal(zr_data_get_info(data).skipped_lines, 1);
            assert_non_null(
                strstr(zr_data_get_info(data).note, "bad.jsonl: 1 bad lines left out, the first is line 3"));
            zr_data_close(&data);
        }
    }
}

static void a_line_has_a_longest_length(void **state)
{
    (void)state;
    FILE *file = fopen(put_file("long.jsonl", "", 0), "wb");
    if (!file) abort();
    fputs("{\"text\": \"short\"}\n{\"text\": \"", file);
    for (int i = 0; i < 17 << 20; i++) fputc('x', file);
    fputs("\"}\n{\"text\": \"again short\"}\n", file);
    fclose(file);
    zr_data_args args = args_of(in_tempdir("long.jsonl"));
    refused(&args, ZR_ERR_DATA, "long.jsonl:2: longer than 16777216 bytes");
    args.skip_bad_lines = true;
    reads_as(&args, "short\nagain short\n");
}

/* Many parts, on several threads: lines are counted and texts stand in their order. */
static void a_long_file_is_read_in_parts(void **state)
{
    (void)state;
    static char wanted[ROOM];
    size_t n = 0;
    FILE *file = fopen(put_file("parts.jsonl", "", 0), "wb");
    if (!file) abort();
    for (int i = 0; n + 4096 < sizeof(wanted); i++) {
        const int letters = i % 7 * i % 1500;
        size_t begin = n;
        n += (size_t)snprintf(wanted + n, 32, "text %d ", i);
        for (int k = 0; k < letters; k++) wanted[n++] = (char)('a' + (i + k) % 26);
        fprintf(file, "{\"text\": \"%.*s\", \"n\": %d}\n", (int)(n - begin), wanted + begin, i);
        wanted[n++] = '\n';
    }
    fclose(file);
    const zr_data_args args = args_of(in_tempdir("parts.jsonl"));
    reads_as(&args, wanted);
    file = fopen(args.path, "ab");
    if (!file) abort();
    fputs("none\n", file);
    fclose(file);
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_ERR_DATA);
    int lines = 1;
    for (size_t i = 0; i < n; i++) lines += wanted[i] == '\n';
    char says[64];
    snprintf(says, sizeof(says), "parts.jsonl:%d: column", lines);
    assert_non_null(strstr(zr_error_message(), says));
}

/* A plain text's parts are all of it, wherever they end. */
static void parts_of_a_text_are_all_of_it(void **state)
{
    (void)state;
    static unsigned char text[ROOM], tokens[ROOM];
    zr_tokenizer *bytes = NULL;
    zr__file in, out;
    zr__encoded did;
    assert_int_equal(zr_tokenizer_open("bytes", &bytes), ZR_OK);
    for (int width = 1; width <= 4; width *= 2) {
        const size_t n = ROOM / 4;
        for (size_t i = 0; i < n; i++)
            text[i] = (unsigned char)(i % 5000 == 17 ? '\n' : width == 4 ? 0x80 : 'a' + i % 26);
        assert_int_equal(zr__file_open(put_file("text", text, n), false, &in), ZR_OK);
        assert_int_equal(zr__file_open(put_file("tokens", "", 0), true, &out), ZR_OK);
        const zr__encoding x = {.text = &in, .tokenizer = bytes, .token_bytes = width};
        assert_int_equal(zr__encode(&x, &out, 3, &did), ZR_OK);
        assert_int_equal(did.tokens, n);
        assert_int_equal(did.text_bytes, n);
        out.bytes = 3 + (int64_t)n * width;
        assert_int_equal(zr__file_read(&out, 3, tokens, (int64_t)n * width, ZR_ERR_DATA), ZR_OK);
        for (size_t i = 0; i < n * (size_t)width; i++)
            assert_int_equal(tokens[i], i % (size_t)width == 0 ? text[i / (size_t)width] : 0);
        zr__file_close(&in);
        zr__file_close(&out);
    }
    zr_tokenizer_close(&bytes);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* The names that end so; *one is the last of them. */
static int cached(const char *ending, char one[PATH_MAX])
{
    int n = 0;
    DIR *dir = opendir(in_tempdir("cache/tokens"));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ending)) continue;
        snprintf(one, PATH_MAX, "%s/cache/tokens/%s", tempdir, e->d_name);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static int empty_cache(void **state)
{
    char one[PATH_MAX];
    (void)state;
    while (cached("", one) > 2) {
        DIR *dir = opendir(in_tempdir("cache/tokens"));
        for (struct dirent *e; (e = readdir(dir));)
            if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
        closedir(dir);
    }
    return 0;
}

static const char image[] = "{\"text\": \"a text in the cache\"}\n";
static const char text[] = "a text in the cache\n";

static void tokens_are_made_once(void **state)
{
    (void)state;
    char one[PATH_MAX], other[PATH_MAX];
    struct stat first, again;
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    assert_int_equal(stat(one, &first), 0);
    reads_as(&args, text);
    const zr_data_args copy = args_of(put_file("copy.jsonl", image, strlen(image)));
    reads_as(&copy, text); /* its contents count, not its name */
    assert_int_equal(cached(".tokens", other), 1);
    assert_int_equal(stat(one, &again), 0);
    assert_true(first.st_ino == again.st_ino && first.st_mtim.tv_nsec == again.st_mtim.tv_nsec);
    zr_data_args skips = args;
    skips.skip_bad_lines = true;
    reads_as(&skips, text);
    assert_int_equal(cached(".tokens", other), 2);
    assert_int_equal(cached(".part", other), 0);
}

static void what_is_damaged_is_made_again(void **state)
{
    (void)state;
    char one[PATH_MAX];
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    for (off_t at = 0; at < 64; at += 3) {
        FILE *file = fopen(one, "r+b");
        if (!file) abort();
        fseeko(file, at, SEEK_SET);
        const int was = fgetc(file);
        fseeko(file, at, SEEK_SET);
        fputc(was ^ 4, file);
        fclose(file);
        zr_data *data = NULL;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        assert_int_equal(zr_data_get_info(data).skipped_lines, 0);
        assert_true(zr_data_get_info(data).bytes_per_token == 19.0 / 20); /* a newline is no text */
        zr_data_close(&data);
        reads_as(&args, text);
    }
    assert_int_equal(truncate(one, 70), 0);
    reads_as(&args, text);
    assert_int_equal(truncate(one, 7), 0);
    reads_as(&args, text);
}

/* What a process that was killed has left is taken over. */
static void a_rest_is_no_hindrance(void **state)
{
    (void)state;
    char one[PATH_MAX], part[PATH_MAX];
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    snprintf(part, sizeof(part), "%.*s.part", (int)(strlen(one) - strlen(".tokens")), one);
    assert_int_equal(rename(one, part), 0);
    assert_int_equal(truncate(part, 1 << 20), 0);
    reads_as(&args, text);
    assert_int_equal(cached(".part", part), 0);
}

static void many_at_once_make_one_file(void **state)
{
    (void)state;
    enum { PROCESSES = 8 };
    char one[PATH_MAX];
    pid_t child[PROCESSES];
    FILE *file = fopen(put_file("many.jsonl", "", 0), "wb");
    if (!file) abort();
    for (int i = 0; i < 20000; i++) fprintf(file, "{\"text\": \"line %d of a text that takes a while\"}\n", i);
    fclose(file);
    const zr_data_args args = args_of(in_tempdir("many.jsonl"));
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] != 0) continue;
        zr_data *data = NULL;
        zr_status st = zr_data_open_with(&args, &data);
        if (st == ZR_OK) st = zr_data_tokens(data) > 20000 ? ZR_OK : ZR_ERR_INTERNAL;
        _exit((int)st);
    }
    kill(child[PROCESSES / 2], SIGKILL); /* whether it has the lock or not */
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        if (i != PROCESSES / 2) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ZR_OK);
    }
    assert_int_equal(cached(".tokens", one), 1);
    assert_int_equal(cached(".part", one), 0);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    char one[PATH_MAX];
    const zr_data_args args = args_of(put_file("fails.jsonl", "{\"text\": 1}\n", 12));
    refused(&args, ZR_ERR_DATA, "fails.jsonl:1");
    assert_int_equal(cached("", one), 2);
    zr_data_args none = args;
    none.cache_dir = put_file("file", "", 0);
    refused(&none, ZR_ERR_CREATE, "file");
}

static void told(void *arg, int64_t done, int64_t all)
{
    int64_t *most = arg;
    assert_true(done <= all);
    if (done > *most) *most = done;
}

static void progress_is_told(void **state)
{
    (void)state;
    int64_t most = 0;
    zr_data *data = NULL;
    zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    args.progress = told;
    args.arg = &most;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(most, strlen(image));
    zr_data_close(&data);
}

static void a_look_makes_nothing(void **state)
{
    (void)state;
    char one[PATH_MAX], note[256];
    bool is_text = false;
    assert_int_equal(zr_data_look(put_file("look.jsonl", image, strlen(image)), &is_text, NULL, 0), ZR_OK);
    assert_true(is_text);
    assert_int_equal(cached("", one), 2);
    assert_int_equal(zr_data_look(put_file("odd.txt", "not UTF-8: \xff, and more", 22), &is_text, note, sizeof(note)),
                     ZR_OK);
    assert_non_null(strstr(note, "byte 11 is not UTF-8"));
    assert_int_equal(zr_data_look(put_file("t.bin", "1234", 4), &is_text, note, sizeof(note)), ZR_OK);
    assert_true(!is_text && !note[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(texts_stand_behind_each_other, empty_cache),
        cmocka_unit_test_setup(the_member_has_a_name, empty_cache),
        cmocka_unit_test_setup(bad_lines_are_named_or_left_out, empty_cache),
        cmocka_unit_test_setup(a_line_has_a_longest_length, empty_cache),
        cmocka_unit_test_setup(a_long_file_is_read_in_parts, empty_cache),
        cmocka_unit_test_setup(parts_of_a_text_are_all_of_it, empty_cache),
        cmocka_unit_test_setup(tokens_are_made_once, empty_cache),
        cmocka_unit_test_setup(what_is_damaged_is_made_again, empty_cache),
        cmocka_unit_test_setup(a_rest_is_no_hindrance, empty_cache),
        cmocka_unit_test_setup(many_at_once_make_one_file, empty_cache),
        cmocka_unit_test_setup(a_failure_leaves_nothing, empty_cache),
        cmocka_unit_test_setup(progress_is_told, empty_cache),
        cmocka_unit_test_setup(a_look_makes_nothing, empty_cache),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
