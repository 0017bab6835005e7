//TEST timeout=20
/* JSON: strict parsing, bounded depth and size, error positions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/json/json_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/tempdir.h"

static void expect(const char *text, const char *message)
{
    json_t *root;
    assert_int_equal(zr__json_parse(text, strlen(text), "f", &root), ZR_ERR_CONFIG);
    assert_null(root);
    assert_string_equal(zr_error_message(), message);
}

static void errors_name_their_place(void **state)
{
    (void)state;
    expect("", "f:1:1: '[' or '{' expected near end of file");
    expect("{\"a\": 1,}", "f:1:8: a: remove the comma before the closing }, which JSON does not allow");
    expect("{\n \"a\": {\"b\": [1, 1e400]}}", "f:2:17: a.b[1]: real number overflow near '1e400'");
    expect("{\"a\": 1, \"a\": 2}", "f:1:10: a: duplicate object key near '\"a\"'");
    expect("{\"a\": nan}", "f:1:7: a: invalid token near 'nan'");
    expect("{\"a\": 1} x", "f:1:10: end of file expected near 'x'");
    expect("{\"a\": 99999999999999999999}", "f:1:7: a: too big integer near '99999999999999999999'");
    expect("{\"ä\": 1 // no\n}", "f:1:9: ä: remove the comment, which JSON does not allow");
}

static void depth_is_limited(void **state)
{
    (void)state;
    char text[200];
    json_t *root;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_int_equal(zr__json_parse(text, 128, "f", &root), ZR_OK);
    json_decref(root);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_int_equal(zr__json_parse(text, 130, "f", &root), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "values are nested deeper than 64 levels"));
    /* Brackets inside strings do not count towards the depth. */
    memset(text, '[', 130);
    memcpy(text, "[\"", 2);
    memcpy(text + 128, "\"]", 2);
    assert_int_equal(zr__json_parse(text, 130, "f", &root), ZR_OK);
    json_decref(root);
}

static void size_is_limited(void **state)
{
    (void)state;
    size_t bytes = ZR_JSON_MAX_BYTES + 1;
    char *text = zr_alloc(bytes);
    json_t *root;
    memset(text, ' ', bytes);
    text[0] = '[';
    text[bytes - 2] = ']';
    assert_int_equal(zr__json_parse(text, bytes, "f", &root), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "f: the file is larger than 16777216 bytes, the limit for files of this kind");
    assert_int_equal(zr__json_parse_most(text, bytes, bytes, "f", &root), ZR_OK);
    json_decref(root);
    assert_int_equal(zr__json_parse(text, bytes - 1, "f", &root), ZR_OK);
    json_decref(root);
    zr_free(text);
}

static void windows_files_are_welcome(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF{\r\n  \"a\": 1\r\n}\r\n";
    json_t *root;
    assert_int_equal(zr__json_parse(text, sizeof(text) - 1, "f", &root), ZR_OK);
    assert_int_equal(json_integer_value(json_object_get(root, "a")), 1);
    json_decref(root);
}

static void places_are_found(void **state)
{
    (void)state;
    static const char text[] = "{\"x\": {\"a\": [1, {\"q\": 2}]},\n \"b\": {\"é\": 0, \"a\": [5,\n  6]}}";
    const zr__json_place top = {0}, b = {&top, "b", 0}, a = {&b, "a", 0}, second = {&a, NULL, 1}, gone = {&b, "c", 0};
    int line, column;
    char path[16];
    zr__json_find(text, sizeof(text) - 1, &a, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 16);
    zr__json_find(text, sizeof(text) - 1, &second, &line, &column);
    assert_int_equal(line, 3);
    assert_int_equal(column, 3);
    zr__json_find(text, sizeof(text) - 1, &gone, &line, &column);
    assert_int_equal(line, 2);
    assert_string_equal(zr__json_path(&second, path, sizeof(path)), "b.a[1]");
    assert_string_equal(zr__json_path(&top, path, sizeof(path)), "");
}

static void printing_reads_back(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": [0.1, 1e-5, 1.0, 3, -7, true, null], \"b\": {\"c\\n\\\"\": \"\\\\ \\u0001 é\"}, \"d\": {}, \"e\": []}";
    json_t *root, *again;
    char *printed;
    assert_int_equal(zr__json_parse(text, sizeof(text) - 1, "f", &root), ZR_OK);
    assert_int_equal(zr__json_print(root, &printed), ZR_OK);
    assert_non_null(strstr(printed, "[0.1, 1e-5, 1.0, 3, -7, true, null]"));
    assert_int_equal(zr__json_parse(printed, strlen(printed), "again", &again), ZR_OK);
    assert_true(json_equal(root, again));
    json_decref(root);
    json_decref(again);
    zr_free(printed);
}

/* Check that a string as long as a file may be is printed without harm. */
static void long_strings_are_printed(void **state)
{
    (void)state;
    enum { BYTES = 10 << 20 };
    char *text = zr_alloc(BYTES + 1), *printed;
    memset(text, 'x', BYTES);
    text[BYTES / 2] = '"';
    json_t *string = json_stringn(text, BYTES);
    assert_int_equal(zr__json_print(string, &printed), ZR_OK);
    assert_int_equal(strlen(printed), BYTES + 4);
    assert_memory_equal(printed + 1 + BYTES / 2, "\\\"x", 3);
    json_decref(string);
    zr_free(printed);
    zr_free(text);
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    assert_int_equal(zr__json_read("/nonexistent/a\nb", &text, &bytes), ZR_ERR_NOT_FOUND);
    assert_string_equal(zr_error_message(), "/nonexistent/a\\x0ab: cannot open: No such file or directory");
    assert_int_equal(zr__json_read("/", &text, &bytes), ZR_ERR_NOT_FOUND);
    assert_string_equal(zr_error_message(), "/: cannot read: Is a directory");
    assert_int_equal(zr__json_read("/dev/zero", &text, &bytes), ZR_ERR_CONFIG);
    assert_int_equal(zr__json_read("/dev/null", &text, &bytes), ZR_OK);
    assert_int_equal(bytes, 0);
    zr_free(text);
}

/* Check that files longer than the first buffer are read, up to the limit but not one byte beyond. */
static void files_are_read_up_to_a_limit(void **state)
{
    (void)state;
    enum { BYTES = 300000 };
    char *written = zr_alloc(BYTES), *text = NULL;
    size_t bytes = 0;
    for (int i = 0; i < BYTES; i++) written[i] = (char)('a' + i % 23);
    const char *path = put_file("long", written, BYTES);
    assert_int_equal(zr__json_read_most(path, BYTES, &text, &bytes), ZR_OK);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(text, written, BYTES);
    assert_int_equal(text[BYTES], 0);
    zr_free(text);
    assert_int_equal(zr__json_read_most(path, BYTES - 1, &text, &bytes), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "long: the file is larger than 299999 bytes"));
    zr_free(written);
}

static int allocations_left;

static void *allocate_some(size_t bytes)
{
    return zr__json_allocated(allocations_left-- > 0 ? malloc(bytes) : NULL);
}

/* Check that each failing allocation is reported as lack of memory, although jansson then drops characters and reports
 * syntax errors that do not exist. */
static void memory_that_is_not_there(void **state)
{
    (void)state;
    static const char text[] = "{\"a long key, for which more than one piece of memory is wanted\": [1000, \"b\", {}]}";
    json_t *root;
    bool read = false;
    json_set_alloc_funcs(allocate_some, free);
    for (int n = 0; !read; n++) {
        assert_true(n < 200);
        allocations_left = n;
        const zr_status st = zr__json_parse(text, strlen(text), "f", &root);
        read = st == ZR_OK;
        if (!read && st != ZR_ERR_MEMORY) fail_msg("allocation %d: %s", n, zr_error_message());
        assert_true(read || (!root && strcmp(zr_error_message(), "f: no memory to read it") == 0) || n == 0);
        if (read) json_decref(root);
        assert_true(read || n < 100);
    }
    json_set_alloc_funcs(malloc, free);
}

static void documents_are_written(void **state)
{
    (void)state;
    char *text = NULL;
    json_t *root = NULL;
    zr__json_out out = {0};
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "n", INT64_MIN);
    zr__json_add(&out, "x", 0.1);
    zr__json_add(&out, "none", (double)NAN);
    zr__json_add_bool(&out, "yes", true);
    zr__json_break(&out, "\n ");
    zr__json_add(&out, "name", "a\"\x1b[1m");
    zr__json_add(&out, "no name", (const char *)NULL);
    zr__json_open(&out, "list", '[');
    for (int i = 0; i < 2; i++) {
        zr__json_break(&out, "\n  ");
        zr__json_open(&out, NULL, '{');
        zr__json_add(&out, "i", i);
        zr__json_close(&out, '}');
    }
    zr__json_close(&out, ']');
    out.spaced = true;
    zr__json_open(&out, "empty", '[');
    zr__json_close(&out, ']');
    zr__json_add_as(&out, "flops", "%.3f", 1.5);
    zr__json_add_bytes(&out, "bytes", "a\0b", 3);
    out.tight = true;
    zr__json_add(&out, "tight", 2);
    zr__json_close(&out, '}');
    assert_int_equal(zr__text_take(&out.text, &text), ZR_OK);
    assert_string_equal(text, "{\"n\":-9223372036854775808, \"x\":0.1, \"none\":null, "
                              "\"yes\":true,\n \"name\":\"a\\\"\\u001b[1m\", \"no name\":null, \"list\":["
                              "\n  {\"i\":0},\n  {\"i\":1}], \"empty\": [], \"flops\": 1.500, "
                              "\"bytes\": \"a\\u0000b\",\"tight\": 2}");
    assert_int_equal(zr__json_load(text, strlen(text), JSON_ALLOW_NUL, "f", &root, &(json_error_t){0}), ZR_OK);
    assert_non_null(root);
    json_decref(root);
    zr_free(text);
}

/* Check that a value whose text is cut anywhere does not end there. */
static void values_end_where_they_end(void **state)
{
    (void)state;
    static const char *const values[] = {"\"a\\\"b\\\\\\\" c\\\\\"", "\"\"", "[\"\\\"\", {\"]\": 1}]",
                                         "{\"\\\\\": 12, \"}\": []}", "true"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const int64_t n = (int64_t)strlen(values[i]);
        char longer[64];
        for (int64_t cut = 0; cut < n; cut++) assert_int_equal(zr__json_value_end(values[i], cut, 0, false), -1);
        assert_int_equal(zr__json_value_end(values[i], n, 0, true), n);
        snprintf(longer, sizeof(longer), "%s, 1", values[i]);
        assert_int_equal(zr__json_value_end(longer, n + 3, 0, false), n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_their_place),   cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(size_is_limited),           cmocka_unit_test(windows_files_are_welcome),
        cmocka_unit_test(places_are_found),          cmocka_unit_test(printing_reads_back),
        cmocka_unit_test(documents_are_written),     cmocka_unit_test(long_strings_are_printed),
        cmocka_unit_test(files_that_cannot_be_read), cmocka_unit_test(files_are_read_up_to_a_limit),
        cmocka_unit_test(memory_that_is_not_there),  cmocka_unit_test(values_end_where_they_end),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
