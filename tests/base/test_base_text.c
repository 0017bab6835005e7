//TEST timeout=20
/* Numbers, names and paths as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/text/text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void numbers(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *g9, *shortest;
    } number[] = {
        {0, "0", "0"},
        {0.1, "0.1", "0.1"},
        {1.0 / 3, "0.333333333", "0.3333333333333333"},
        {3e-4, "0.0003", "0.0003"},
        {1e-8, "1e-08", "1e-8"},
        {1e-12, "1e-12", "1e-12"},
        {5e8, "500000000", "500000000"},
        {9007199254740992.0, "9.00719925e+15", "9007199254740992"},
        {-2.5, "-2.5", "-2.5"},
        {NAN, "nan", "nan"},
        {INFINITY, "inf", "inf"},
        {-INFINITY, "-inf", "-inf"},
    };
    for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++) {
        char out[ZR_NUMBER_BYTES];
        assert_string_equal(zr__text_g9(number[i].x, out), number[i].g9);
        assert_string_equal(zr__text_shortest(number[i].x, out), number[i].shortest);
    }
}

static void shortest_reads_back(void **state)
{
    (void)state;
    zr_rng rng = {.seed = 3};
    for (uint64_t i = 0; i < 20000; i += 2) {
        char out[ZR_NUMBER_BYTES];
        double x = ldexp(zr_rng_uniform(&rng, i) + 0.5, (int)(zr_rng_u32(&rng, i + 1) % 600) - 300);
        assert_true(strtod(zr__text_shortest(x, out), NULL) == x);
    }
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"};
    char out[ZR_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof(comma) / sizeof(comma[0]); i++) {
        if (!setlocale(LC_NUMERIC, comma[i])) continue;
        assert_string_equal(zr__text_g9(-1.5e-7, out), "-1.5e-07");
        assert_string_equal(zr__text_shortest(0.25, out), "0.25");
    }
    setlocale(LC_NUMERIC, "C");
}

/* Check that sizes shown to people have one unit, by powers of 1000. */
static void sizes_for_people(void **state)
{
    (void)state;
    static const struct {
        double bytes;
        const char *text;
    } size[] = {
        {0, "0 B"},         {999, "999 B"},      {1000, "1.00 kB"},  {50331648, "50.33 MB"}, {2147483648, "2.15 GB"},
        {32e9, "32.00 GB"}, {-1500, "-1.50 kB"}, {16e12, "16.00 TB"}};
    char out[ZR_SIZE_BYTES];
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++)
        assert_string_equal(zr__text_size(size[i].bytes, out), size[i].text);
}

static void byte_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } count[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"2GiB", (int64_t)2 << 30},
        {"32 GB", 32000000000},
        {"1.5KiB", 1536},
        {"7B", 7},
        {"80G", 80000000000},
        {"512M", 512000000},
        {"3 kB", 3000},
        {"16Gi", (int64_t)16 << 30},
        {"1TiB", (int64_t)1 << 40},
        {"8gb", 8000000000},
        {"8 gB", 8000000000},
        {"2gib", (int64_t)2 << 30},
        {"512m", 512000000},
        {"4 mi", (int64_t)4 << 20},
        {"8bg", -1},
        {"", -1},
        {"GiB", -1},
        {"-1", -1},
        {"80GG", -1},
        {"2GiBs", -1},
        {"1e3", -1},
        {"9007199254740993", -1},
        {"99999999TB", -1},
        {"0x10", -1},
        {"1.2345KB", -1},
        {"99999999999999999999999", -1},
    };
    for (size_t i = 0; i < sizeof(count) / sizeof(count[0]); i++) {
        int64_t bytes = -1;
        bool good = zr__text_bytes(count[i].text, &bytes);
        assert_int_equal(good, count[i].bytes >= 0);
        if (good) assert_int_equal(bytes, count[i].bytes);
    }
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(zr__text_distance("", ""), 0);
    assert_int_equal(zr__text_distance("stage", "stage"), 0);
    assert_int_equal(zr__text_distance("", "abc"), 3);
    assert_int_equal(zr__text_distance("kitten", "sitting"), 3);
    assert_int_equal(zr__text_distance("stpes", "steps"), 1);
    assert_int_equal(zr__text_distance("steps", "step"), 1);
    assert_int_equal(zr__text_distance("H100", "h100"), 0);
    assert_int_equal(zr__text_distance("STpes", "steps"), 1);
    assert_int_equal(zr__text_distance("sTEps", "stpes"), 1);
}

static void nearest_names(void **state)
{
    (void)state;
    static const char *const names[] = {"steps", "seed", "threads"};
    assert_string_equal(zr__text_nearest("stesp", names, 3), "steps");
    assert_string_equal(zr__text_nearest("thread", names, 3), "threads");
    assert_string_equal(zr__text_nearest("thr", names, 3), "threads");
    assert_string_equal(zr__text_nearest("SEED", names, 3), "seed");
    assert_null(zr__text_nearest("th", names, 3));
    assert_null(zr__text_nearest("optimizer", names, 3));
    assert_null(zr__text_nearest("x", names, 0));
}

static void control_bytes_are_escaped(void **state)
{
    (void)state;
    char out[64], small[8];
    assert_string_equal(zr__text_escape("a\033[31m\n\\b\x7f", out, sizeof(out)), "a\\x1b[31m\\x0a\\\\b\\x7f");
    assert_string_equal(zr__text_escape("naïve", out, sizeof(out)), "naïve");
    assert_string_equal(zr__text_escape("a\xc2\x9b"
                                        "31m",
                                        out, sizeof(out)),
                        "a\\xc2\\x9b31m");
    assert_string_equal(zr__text_escape("a\xffz\x9b"
                                        "31m",
                                        out, sizeof(out)),
                        "a\xffz\\x9b31m");
    assert_string_equal(zr__text_escape("123é678", small, sizeof(small)), "123...");
    assert_string_equal(zr__text_escape("1234567", small, sizeof(small)), "1234567");
    assert_string_equal(zr__text_escape("12345678", small, sizeof(small)), "1234...");
}

/* Check that characters that would hide or reorder parts of a name are escaped. */
static void characters_that_are_not_shown_are_escaped(void **state)
{
    (void)state;
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    char out[64], small[8];
    for (uint32_t c = 0x80; c < 0x10000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue; /* surrogates are no characters */
        char text[8] = "", wanted[32] = "";
        bool is = false;
        if (c < 0x800)
            snprintf(text, sizeof text, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
        else
            snprintf(text, sizeof text, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)),
                     (int)(0x80 | (c & 0x3f)));
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) is |= c >= hidden[i].first && c <= hidden[i].last;
        for (size_t i = 0; i < strlen(text); i++) snprintf(wanted + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
        assert_string_equal(zr__text_escape(text, out, sizeof out), is ? wanted : text);
    }
    assert_string_equal(zr__text_escape("txt\xe2\x80\xae"
                                        "cod.\xf0\x9f\x98\x80",
                                        out, sizeof(out)),
                        "txt\\xe2\\x80\\xaecod.\xf0\x9f\x98\x80");
    assert_string_equal(zr__text_escape("12\xe2\x80\xae", small, sizeof(small)), "12...");
}

static void growing(void **state)
{
    (void)state;
    zr__text text = {0};
    char *data;
    for (int i = 0; i < 1000; i++) zr__text_add(&text, "%03d", i);
    assert_int_equal(zr__text_take(&text, &data), ZR_OK);
    assert_int_equal(strlen(data), 3000);
    assert_memory_equal(data + 3 * 537, "537", 3);
    zr_free(data);
    assert_int_equal(zr__text_take(&text, &data), ZR_OK);
    assert_string_equal(data, "");
    zr_free(data);
}

static void utf8_characters(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t bytes, want;
    } cases[] = {{"a", 1, 1},
                 {"\xc3\xa4", 2, 2},
                 {"\xe2\x82\xac", 3, 3},
                 {"\xf0\x9f\x98\x80", 4, 4},
                 {"\xc3\xa4", 1, 0},
                 {"\xff", 1, 0},
                 {"\xc0\xaf", 2, 0},
                 {"\xed\xa0\x80", 3, 0},
                 {"\xe0\x80\xaf", 3, 0},
                 {"\xf4\x90\x80\x80", 4, 0},
                 {"\xa4", 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(zr__text_utf8(cases[i].text, cases[i].bytes), cases[i].want);
}

static void json_strings(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t bytes, plain;
        const char *escape;
        int64_t escaped;
    } cases[] = {{"", 0, 0, "", 0},
                 {"plain", 5, 5, "", 1},
                 {"a\xc3\xa4\"b", 5, 3, "\\\"", 1},
                 {"\\", 1, 0, "\\\\", 1},
                 {"ab\n", 3, 2, "\\u000a", 1},
                 {"\0", 1, 0, "\\u0000", 1},
                 {"\x7f", 1, 0, "\\u007f", 1},
                 {"\xc2\xa0 \xc2\x9b[", 6, 3, "\\u009b", 2}, /* CSI of C1 */
                 {"a\xe2\x80\xae", 4, 1, "\\u202e", 3},      /* right-to-left override */
                 {"\xe2\x81\xa9", 3, 0, "\\u2069", 3},
                 {"a\xff", 2, 1, "\xef\xbf\xbd", 1},
                 {"a\xc3\xa4", 2, 1, "\xef\xbf\xbd", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char escape[ZR_JSON_ESCAPE_BYTES];
        int64_t escaped = 0;
        assert_int_equal(zr__text_json(cases[i].text, cases[i].bytes, escape, &escaped), cases[i].plain);
        assert_string_equal(escape, cases[i].escape);
        assert_int_equal(escaped, cases[i].escaped);
    }
}

static void words_of_a_shell(void **state)
{
    (void)state;
    assert_string_equal(ZR_WORD("runs/a-1_b.c"), "runs/a-1_b.c");
    assert_string_equal(ZR_WORD("to kens"), "'to kens'");
    assert_string_equal(ZR_WORD("~/$a"), "'~/$a'");
    assert_string_equal(ZR_WORD(""), "''");
    assert_string_equal(ZR_WORD("it's"), "$'it\\'s'");
    assert_string_equal(ZR_WORD("a\nb\\c"), "$'a\\x0ab\\\\c'");
    char small[8];
    assert_string_equal(zr__text_word("a long name", small, sizeof(small)), "'a l'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(shortest_reads_back),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(sizes_for_people),
        cmocka_unit_test(byte_counts),
        cmocka_unit_test(distances),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(control_bytes_are_escaped),
        cmocka_unit_test(characters_that_are_not_shown_are_escaped),
        cmocka_unit_test(growing),
        cmocka_unit_test(utf8_characters),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(words_of_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
