//TEST timeout=60
/* Pieces of text: hand-written scanners against the same regular expressions by PCRE2, and the normalization form C
 * against utf8proc's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/pieces/nfc.h"
#include "data/pieces/split.h"

enum { MOST = 64, LENGTH = 12, ROUNDS = 30000 };

/* ---- scanners -------------------------------------------------------------------------------- */

/* Ends of the pieces of a text. */
typedef struct pieces {
    const char *text;
    int64_t end[8 * MOST];
    int n;
} pieces;

static zr_status note_piece(void *arg, const char *piece, int64_t bytes)
{
    pieces *p = arg;
    p->end[p->n++] = piece + bytes - p->text;
    return ZR_OK;
}

static pieces cut(const zr__split *split, const char *text, int64_t bytes)
{
    pieces p = {.text = text};
    zr__matcher *m = NULL;
    assert_int_equal(zr__matcher_open(split, note_piece, &p, &m), ZR_OK);
    assert_int_equal(zr__matcher_cut(m, text, bytes, ZR__WHOLE_BEGIN, 0), ZR_OK);
    zr__matcher_close(&m);
    return p;
}

static zr__split *opened(const zr__classes *classes, const char *expression)
{
    zr__split *split = NULL;
    assert_int_equal(zr__split_open(classes, &split), ZR_OK);
    assert_int_equal(zr__split_add(split, (zr__cut){.kind = ZR__MATCH_EXPRESSION, .text = expression}, "test"), ZR_OK);
    return split;
}

/* Characters of all classes. All are in Unicode 14, the version that PCRE2 may have. */
static const char *const characters[] = {
    "a",  "b",        "s",      "S",      "t",      "r",      "e",      "v",      "l",      "L",      "m",  "D",
    "A",  "Z",        "é",      "É",      "ǅ",      "ʰ",      "ª",      "ß",      "ſ",      "\u212a", "я",  "Я",
    "字", "한",       "あ",     "ا",      "ท",      "ह",      "\u0301", "\u094d", "\u0e31", "\u20dd", "1",  "2",
    "٣",  "Ⅷ",        "²",      "½",      "①",      "_",      "‿",      "'",      "'",      "’",      "!",  "/",
    ".",  "😀",        "\u200d", "\ufeff", "€",      " ",      " ",      " ",      "\t",     "\n",     "\r", "\r\n",
    "\v", "\xc2\x85", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000", "\u180e", "\u200b", "\x7f",   "𝐀",  "𝟘",
    "ⓐ",  "\xff",     "\u0660", "ꟽ",      "ⅷ",      "Ⓐ"};
enum { CHARACTERS = sizeof(characters) / sizeof(characters[0]) };

static void scanners_cut_like_expressions(void **state)
{
    (void)state;
    static const char *const known[] = {ZR__SPLIT_GPT2,   ZR__SPLIT_LLAMA3, ZR__SPLIT_QWEN2,
                                        ZR__SPLIT_QWEN35, ZR__SPLIT_TEKKEN, ZR__SPLIT_GPT4O};
    zr__classes *classes = NULL;
    zr_rng rng = {.seed = 8, .purpose = ZR_RNG_SAMPLE};
    uint64_t drawn = 0;
    assert_int_equal(zr__classes_open(&classes), ZR_OK);
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        char wrapped[768]; /* expression with the same meaning, for which zr has no scanner */
        const char *one = known[k], *other = wrapped;
        zr__split *scan = NULL, *match = NULL;
        snprintf(wrapped, sizeof(wrapped), "(?:%s)", one);
        assert_non_null(zr__scan_find(one));
        assert_null(zr__scan_find(other));
        scan = opened(classes, one);
        match = opened(classes, other);
        assert_true(zr__split_hash(scan) != zr__split_hash(match));
        for (int round = 0; round < ROUNDS; round++) {
            char text[8 * MOST] = "";
            const uint32_t n = 1 + zr_rng_u32(&rng, drawn++) % LENGTH;
            for (uint32_t i = 0; i < n; i++) strcat(text, characters[zr_rng_u32(&rng, drawn++) % CHARACTERS]);
            const int64_t bytes = (int64_t)strlen(text);
            const pieces a = cut(scan, text, bytes), b = cut(match, text, bytes);
            if (a.n != b.n || memcmp(a.end, b.end, (size_t)a.n * sizeof(a.end[0])) != 0)
                fail_msg("expression %d cuts \"%s\" otherwise", (int)k, text);
        }
        zr__split_close(&scan);
        zr__split_close(&match);
    }
    zr__classes_close(&classes);
}

static void characters_have_classes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        zr__class its;
    } known[] = {{"A", ZR__UPPER},      {"ǅ", ZR__UPPER},      {"z", ZR__LOWER},  {"ʰ", ZR__LETTER},
                 {"字", ZR__LETTER},    {"7", ZR__NUMBER},     {"Ⅷ", ZR__NUMBER}, {"\u0301", ZR__MARK},
                 {"²", ZR__FIGURE},     {"_", ZR__WORD},       {"ⓐ", ZR__WORD},   {"\xc2\x85", ZR__SPACE},
                 {"\u3000", ZR__SPACE}, {"\u180e", ZR__OTHER}, {"!", ZR__OTHER},  {"Ā", ZR__UPPER},
                 {"ā", ZR__LOWER},      {"Ĺ", ZR__UPPER},      {"ĺ", ZR__LOWER},  {"😀", ZR__OTHER}};
    zr__classes *classes = NULL;
    assert_int_equal(zr__classes_open(&classes), ZR_OK);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        int64_t n = 0;
        const char *text = known[i].text;
        if (zr__class_at(classes, (const unsigned char *)text, &n) != known[i].its) fail_msg("class of %s", text);
        assert_int_equal(n, strlen(text));
        assert_true(zr__class_behind(classes, text, 0, n, ZR__BIT(known[i].its)));
        assert_true(zr__class_before(classes, text, n, ZR__BIT(known[i].its)));
    }
    assert_true(zr__class_before(classes, "a\x81", 2, ZR__BIT(ZR__OTHER)));
    assert_false(zr__class_before(classes, "a\x81", 2, ZR__WORDS));
    zr__classes_close(&classes);
}

/* ---- normalization --------------------------------------------------------------------------- */

static void expect_form(zr__unicode_form form, const zr__classes *nfc, const char *text, int64_t bytes, zr__text *out)
{
    static const utf8proc_option_t options[] = {
        UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *wanted = NULL;
    const utf8proc_ssize_t n =
        utf8proc_map((const utf8proc_uint8_t *)text, bytes, &wanted, UTF8PROC_STABLE | options[form]);
    out->length = 0;
    assert_true(n >= 0);
    assert_int_equal(zr__nfc_add(form, nfc, text, bytes, out), ZR_OK);
    if ((int64_t)out->length != n || memcmp(out->data, wanted, (size_t)n) != 0)
        fail_msg("form %d of \"%s\"", (int)form, text);
    if (zr__nfc_is(nfc, text, bytes)) assert_true(n == bytes && memcmp(text, wanted, (size_t)n) == 0);
    free(wanted);
}

static int64_t put(char *out, int32_t c)
{
    return utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

/* Check the normalization of each character, between letters and before a mark. */
static void normalize_characters(zr__unicode_form form)
{
    zr__classes *nfc = NULL;
    zr__text out = {0};
    assert_int_equal(zr__nfc_open(form, &nfc), ZR_OK);
    for (int32_t c = 1; c < 0x110000; c++) {
        char text[32];
        int64_t n = 0;
        if (zr__nfc_is_newer(c) || (c >= 0xd800 && c < 0xe000) || (c > 0x30000 && c < 0xe0000) || c > 0xe1000) continue;
        text[n++] = 'e';
        n += put(text + n, c);
        n += put(text + n, 0x301);
        n += put(text + n, c);
        n += put(text + n, 0x323);
        text[n] = '\0';
        expect_form(form, nfc, text, n, &out);
    }
    zr__text_clear(&out);
    zr__classes_close(&nfc);
}

static void characters_are_normalized(void **state)
{
    (void)state;
    for (int form = ZR__FORM_C; form <= ZR__FORM_KD; form++) normalize_characters((zr__unicode_form)form);
}

static void normalize_sequences(zr__unicode_form form)
{
    static const int32_t some[] = {
        'e',    'o',    ' ',    0x301,  0x323,  0x302, 0x31b, 0x327, 0x345,  0xea,   0x1ec7, 0x212b, 0x344,   0x1100,
        0x1161, 0x11a8, 0xac00, 0xac01, 0x915,  0x93c, 0x94d, 0x9c7, 0x9be,  0x958,  0x3099, 0x304b, 0xfb1d,  0xff76,
        0xff9e, 0x3131, 0x314f, 0xfdfa, 0x2460, 0x5d0, 0x5b7, 0x5bc, 0x200d, 0xf900, 0xb47,  0xb3e,  0x1f600, 0xe31};
    enum { SOME = sizeof(some) / sizeof(some[0]) };
    zr__classes *nfc = NULL;
    zr__text out = {0};
    zr_rng rng = {.seed = 9, .purpose = ZR_RNG_SAMPLE};
    assert_int_equal(zr__nfc_open(form, &nfc), ZR_OK);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        char text[128];
        int64_t n = 0;
        for (uint64_t i = 0; i < 2 + round % 20; i++) n += put(text + n, some[zr_rng_u32(&rng, 32 * round + i) % SOME]);
        text[n] = '\0';
        expect_form(form, nfc, text, n, &out);
    }
    zr__text_clear(&out);
    zr__classes_close(&nfc);
}

static void sequences_are_normalized(void **state)
{
    (void)state;
    for (int form = ZR__FORM_C; form <= ZR__FORM_KD; form++) normalize_sequences((zr__unicode_form)form);
}

/* Check that bytes that are not UTF-8 stay unchanged, and that many marks in sequence do not take quadratic time. */
static void any_bytes_are_normalized(void **state)
{
    (void)state;
    enum { MARKS = 500000 };
    static const char odd[] = "\xff\xcc\x81"
                              "e\xcc\x81\xcc\xff\xcc\x81",
                      wanted[] = "\xff\xcc\x81\xc3\xa9\xcc\xff\xcc\x81";
    zr__classes *nfc = NULL;
    zr__text out = {0};
    char *marks = malloc(2 * MARKS);
    assert_non_null(marks);
    assert_int_equal(zr__nfc_open(ZR__FORM_C, &nfc), ZR_OK);
    assert_int_equal(zr__nfc_add(ZR__FORM_C, nfc, odd, sizeof(odd) - 1, &out), ZR_OK);
    assert_int_equal(out.length, sizeof(wanted) - 1);
    assert_memory_equal(out.data, wanted, sizeof(wanted) - 1);
    for (int i = 0; i < MARKS; i++) memcpy(marks + 2 * i, i % 2 ? "\u0323" : "\u0301", 2);
    out.length = 0;
    assert_int_equal(zr__nfc_add(ZR__FORM_C, nfc, marks, 2 * MARKS, &out), ZR_OK);
    assert_int_equal(out.length, 2 * MARKS);
    assert_memory_equal(out.data, "\u0323\u0323", 4);
    zr__text_clear(&out);
    zr__classes_close(&nfc);
    free(marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scanners_cut_like_expressions), cmocka_unit_test(characters_have_classes),
        cmocka_unit_test(characters_are_normalized),     cmocka_unit_test(sequences_are_normalized),
        cmocka_unit_test(any_bytes_are_normalized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
