//TEST timeout=60
/* Steps of tokenizers: the pieces of each pre-tokenizer, as the package tokenizers 0.23.3 has them, places where texts
 * may be cut, and settings that are refused with their place in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "bpe_expect.h"
#include "data/pieces/split.h"
#include "data/tokenizer/tokenizer.h"

enum { CUT_TEXTS = 300, MOST_BYTES = 64 };

static zr__classes *classes;

/* ---- pieces ---------------------------------------------------------------------------------- */

static zr_status note_piece(void *arg, const char *piece, int64_t bytes)
{
    zr__text *out = arg;
    if (out->length > 0) zr__text_append(out, "|", 1);
    zr__text_append(out, piece, (size_t)bytes);
    return ZR_OK;
}

static void expect_pieces(const zr__split *split, const char *text, const char *wanted)
{
    zr__text out = {0};
    zr__matcher *m = NULL;
    assert_int_equal(zr__matcher_open(split, note_piece, &out, &m), ZR_OK);
    assert_int_equal(zr__matcher_cut(m, text, (int64_t)strlen(text), ZR__WHOLE_BEGIN, 0), ZR_OK);
    zr__matcher_close(&m);
    if (strcmp(out.data ? out.data : "", wanted) != 0)
        fail_msg("\"%s\": \"%s\", wanted \"%s\"", text, out.data, wanted);
    zr__text_clear(&out);
}

static void cut_once(zr__cut cut, const char *text, const char *wanted)
{
    zr__split *split = NULL;
    assert_int_equal(zr__split_open(classes, &split), ZR_OK);
    assert_int_equal(zr__split_add(split, cut, "test"), ZR_OK);
    expect_pieces(split, text, wanted);
    zr__split_close(&split);
}

static void behaviors_are_the_packages(void **state)
{
    (void)state;
    static const struct {
        zr__behavior behavior;
        bool invert;
        const char *by_expression, *by_text;
    } known[] = {{ZR__ISOLATED, false, "x|x|a|x|b|x|x| c", "xx|xa|xx|b"},
                 {ZR__REMOVED, false, "a|b| c", "xa|b"},
                 {ZR__CONTIGUOUS, false, "xx|a|x|b|xx| c", "xx|xa|xx|b"},
                 {ZR__WITH_PREVIOUS, false, "x|x|ax|bx|x| c", "xx|xaxx|b"},
                 {ZR__WITH_NEXT, false, "x|xa|xb|x|x c", "xxxa|xxb"},
                 {ZR__ISOLATED, true, "x|x|a|x|b|x|x| c", "xx|xa|xx|b"},
                 {ZR__REMOVED, true, "x|x|x|x|x", "xx|xx"},
                 {ZR__CONTIGUOUS, true, "xx|a|x|b|xx| c", "xx|xa|xx|b"},
                 {ZR__WITH_PREVIOUS, true, "x|xa|xb|x|x c", "xxxa|xxb"},
                 {ZR__WITH_NEXT, true, "x|x|ax|bx|x| c", "xx|xaxx|b"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        zr__cut cut = {.kind = ZR__MATCH_EXPRESSION, .behavior = known[i].behavior, .invert = known[i].invert};
        cut.text = "x+?";
        cut_once(cut, "xxaxbxx c", known[i].by_expression);
        cut.kind = ZR__MATCH_TEXT;
        cut.text = "xx";
        cut_once(cut, "xxxaxxb", known[i].by_text);
    }
}

static void matches_are_the_packages(void **state)
{
    (void)state;
    cut_once((zr__cut){.kind = ZR__MATCH_DIGIT}, "a12 ³४b", "a|1|2| |³|४|b");
    cut_once((zr__cut){.kind = ZR__MATCH_DIGIT, .behavior = ZR__CONTIGUOUS}, "a12 ³४b", "a|12| |³४|b");
    cut_once((zr__cut){.kind = ZR__MATCH_DIGIT}, "a\U00011de3b", "a|\U00011de3|b"); /* a number of Unicode 17 */
    cut_once((zr__cut){.kind = ZR__MATCH_PUNCTUATION}, "a!! (b)_’字。", "a|!|!| |(|b|)|_|’|字|。");
    cut_once((zr__cut){.kind = ZR__MATCH_WORDS, .behavior = ZR__REMOVED, .invert = true}, "it's  a_b é\u0301!?\u3000½x",
             "it|'|s|a_b|é\u0301|!?|½|x");
    cut_once((zr__cut){.kind = ZR__MATCH_SPACE, .behavior = ZR__REMOVED}, "\u2003a b\u3000\nc ", "a|b|c");
    cut_once((zr__cut){.kind = ZR__MATCH_BERT, .behavior = ZR__REMOVED, .invert = true}, "a!b \u3000c’", "a|!|b|c|’");
    cut_once((zr__cut){.kind = ZR__MATCH_SCRIPT, .behavior = ZR__REMOVED, .invert = true}, " ab カ漢ひー1. я b",
             "ab |カ漢ひー|1. |я |b");
    cut_once((zr__cut){.kind = ZR__MATCH_LENGTH, .length = 3}, "aé字bcd e", "aé字|bcd| e");
    /* a set within a set, as in BLOOM's expression */
    cut_once((zr__cut){.kind = ZR__MATCH_EXPRESSION, .text = " ?[^(\\s|[.,!?…。，、।۔،])]+"}, "Hi, (you|all) 字。x",
             "Hi|, (|you|||all|)| 字|。|x");
}

static void bytes_that_are_not_text_are_pieces(void **state)
{
    (void)state;
    cut_once((zr__cut){.kind = ZR__MATCH_SPACE, .behavior = ZR__REMOVED}, "a\xff \xe3\x81 b", "a|\xff|\xe3|\x81|b");
}

/* ---- cuts ------------------------------------------------------------------------------------ */

#define LEVEL(more) "{\"type\": \"ByteLevel\", \"add_prefix_space\": " more "}"
#define DIGITS "{\"type\": \"Digits\", \"individual_digits\": true}, "
#define PUNCTUATION(behavior) "{\"type\": \"Punctuation\", \"behavior\": \"" behavior "\"}, "
#define SPLIT(text, behavior)                                                                                          \
    "{\"type\": \"Split\", \"pattern\": {\"String\": \"" text "\"}, \"behavior\": \"" behavior "\"}, "

/* Check that a text has the same tokens in two parts, wherever a cut is allowed. Return the number of cuts. */
static int cut_texts(const char *normalizer, const char *steps)
{
    static const char *const some[] = {"a", "b", "1", "2", ".", ",", " ", "  ", "\n", "\t", "é", "'s", "ab", "_"};
    char pre[1024], sections[512];
    int cuts = 0;
    snprintf(pre, sizeof(pre), "{\"type\": \"Sequence\", \"pretokenizers\": [%s]}", steps);
    snprintf(sections, sizeof(sections), "\"normalizer\": %s, ", normalizer);
    zr_tokenizer *t =
        opened_text(bpe_json(sections, pre, "\"type\": \"BPE\"", "\"ab\": 256, \"\u0120a\": 257, \"1,\": 258",
                             "[[\"a\", \"b\"], [\"\u0120\", \"a\"], [\"1\", \",\"]]"));
    zr_rng rng = {.seed = 4, .purpose = ZR_RNG_SAMPLE};
    uint64_t drawn = 0;
    for (int round = 0; round < CUT_TEXTS; round++) {
        char text[MOST_BYTES] = "";
        int32_t whole[4 * MOST_BYTES], parts[4 * MOST_BYTES];
        int64_t n = 0, a = 0, b = 0;
        for (int i = 0; i < 10; i++) strcat(text, some[zr_rng_u32(&rng, drawn++) % (sizeof(some) / sizeof(some[0]))]);
        const int64_t bytes = (int64_t)strlen(text), at = zr__tokenizer_cut(t, text, 1, bytes);
        if (at == 0) continue;
        cuts++;
        assert_int_equal(zr_tokenizer_encode(t, text, bytes, whole, 4 * MOST_BYTES, &n), ZR_OK);
        assert_int_equal(zr_tokenizer_encode(t, text, at, parts, 4 * MOST_BYTES, &a), ZR_OK);
        assert_int_equal(zr__tokenizer_encode(t, text + at, bytes - at, true, parts + a, 4 * MOST_BYTES - a, &b),
                         ZR_OK);
        if (a + b != n || memcmp(whole, parts, (size_t)n * sizeof(*whole)) != 0)
            fail_msg("%s: \"%s\" is cut at byte %d", steps, text, (int)at);
    }
    zr_tokenizer_close(&t);
    return cuts;
}

static void cuts_are_where_no_step_minds(void **state)
{
    (void)state;
    static const char *const cut[] = {LEVEL("false"),
                                      DIGITS LEVEL("false"),
                                      PUNCTUATION("Contiguous") LEVEL("false"),
                                      PUNCTUATION("MergedWithPrevious") DIGITS LEVEL("false"),
                                      "{\"type\": \"WhitespaceSplit\"}, " LEVEL("true"),
                                      DIGITS "{\"type\": \"Whitespace\"}, " SPLIT(" ", "MergedWithNext")
                                          LEVEL("false")};
    static const char *const whole[] = {LEVEL("true"), PUNCTUATION("MergedWithNext") LEVEL("false"),
                                        SPLIT(" ", "Removed") LEVEL("false"), SPLIT("b a", "Isolated") LEVEL("false")};
    static const char *const strips[] = {
        "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "{\"type\": \"StripAccents\"}",
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"b a\"}, \"content\": \"\"}",
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \".\"}, \"content\": \" \"}",
        "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[ab]\"}, \"content\": \" \"}"};
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) assert_true(cut_texts("null", cut[i]) > CUT_TEXTS / 4);
    assert_true(cut_texts("{\"type\": \"NFKD\"}", DIGITS LEVEL("false")) > CUT_TEXTS / 4);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) assert_int_equal(cut_texts("null", whole[i]), 0);
    for (size_t i = 0; i < sizeof(strips) / sizeof(strips[0]); i++)
        assert_int_equal(cut_texts(strips[i], LEVEL("false")), 0);
}

/* ---- bytes without tokens -------------------------------------------------------------------- */

static void missing_bytes_are_unknown_or_left_out(void **state)
{
    (void)state;
    static const char vocab[] = "{\"pre_tokenizer\": " BPE_BYTE_LEVEL ", \"model\": {\"type\": \"BPE\", %s\"vocab\": "
                                "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<unk>\": 3}, \"merges\": [[\"a\", \"b\"]]}}";
    char *json = malloc(sizeof(vocab) + 64);
    assert_non_null(json);
    zr_tokenizer *t = NULL;
    const struct {
        const char *settings;
        int32_t wanted[8];
    } known[] = {{"", {2, 2, -1}},
                 {"\"unk_token\": \"<unk>\", ", {2, 3, 3, 2, -1}},
                 {"\"unk_token\": \"<unk>\", \"fuse_unk\": true, ", {2, 3, 2, -1}}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        sprintf(json, vocab, known[i].settings);
        assert_int_equal(open_text(json, &t), ZR_OK);
        expect(t, "abxyab", 6, known[i].wanted);
        zr_tokenizer_close(&t);
    }
    sprintf(json, vocab, "\"byte_fallback\": true, ");
    assert_int_equal(open_text(json, &t), ZR_ERR_DATA);
    assert_non_null(
        strstr(zr_error_message(), "model.byte_fallback is true in a byte-level vocabulary that lacks bytes"));
    sprintf(json, vocab, "\"unk_token\": \"none\", ");
    assert_int_equal(open_text(json, &t), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "model.unk_token is \"none\", which is not in the vocabulary"));
    free(json);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *section, const char *told, const char *message)
{
    char pre[2048], sections[2048] = "";
    const bool cuts = strcmp(section, "pre_tokenizer") == 0;
    zr_tokenizer *t = NULL;
    snprintf(pre, sizeof(pre), "%s", cuts ? told : "{\"type\": \"WhitespaceSplit\"}");
    if (!cuts) snprintf(sections, sizeof(sections), "\"%s\": %s, ", section, told);
    char *json = bpe_json(sections, pre, "\"type\": \"BPE\"", "", "[]");
    if (open_text(json, &t) != ZR_ERR_DATA || !strstr(zr_error_message(), message))
        fail_msg("%s %s: wanted \"%s\", got \"%s\"", section, told, message, t ? "success" : zr_error_message());
    zr_free(json);
}

static void settings_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *section, *told, *message;
    } bad[] = {
        {"pre_tokenizer", "3", "pre_tokenizer has no type"},
        {"pre_tokenizer", "{\"type\": 3}", "pre_tokenizer has no type"},
        {"pre_tokenizer", "{\"type\": \"Digits\"}", "pre_tokenizer (Digits): individual_digits is missing"},
        {"pre_tokenizer", "{\"type\": \"Digits\", \"individual_digits\": 1e400}", ""},
        {"pre_tokenizer", "{\"type\": \"Sequence\", \"pretokenizers\": {}}",
         "pretokenizers is an object; expected a list"},
        {"pre_tokenizer",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Whitespace\"}, {\"type\": \"Other\"}]}",
         "pre_tokenizer.pretokenizers[1] is of type \"Other\"; supported are ByteLevel, Split, Digits"},
        {"pre_tokenizer", "{\"type\": \"Punctuation\", \"behavior\": 1}",
         "(Punctuation): behavior is 1; expected \"Isol"},
        {"pre_tokenizer", "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"ab\"}",
         "delimiter is \"ab\"; expected one"},
        {"pre_tokenizer", "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"\"}",
         "delimiter is \"\"; expected one char"},
        {"pre_tokenizer", "{\"type\": \"FixedLength\", \"length\": 0}", "length is 0; expected an integer from 1 to"},
        {"pre_tokenizer", "{\"type\": \"FixedLength\", \"length\": 99999999999}",
         "length is 99999999999; expected an in"},
        {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\"}}",
         "(Split): pattern is an object; expected"},
        {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": \"a\", \"behavior\": \"Isolated\"}",
         "pattern is \"a\"; expected"},
        {"pre_tokenizer",
         "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Isolated\", \"invert\": 1}",
         "(Split): invert is 1; expected true or false"},
        {"pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": 3}",
         "prepend_scheme is 3"},
        {"pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"split\": 3}",
         "split is 3; expected true"},
        {"pre_tokenizer", "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL("true") ", " LEVEL("true") "]}",
         "pretokenizers[1]: a second ByteLevel"},
        {"pre_tokenizer",
         "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL("false") ", {\"type\": \"Metaspace\", "
                                                                        "\"replacement\": \"_\"}]}",
         "pretokenizers[1]: Metaspace after ByteLevel"},
        {"pre_tokenizer",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Metaspace\", \"replacement\": \"_\"}, " LEVEL(
             "true") "]}",
         "pretokenizers[1]: a second step that puts \" \" before text"},
        {"normalizer", "{\"type\": \"Strip\", \"strip_left\": true}", "normalizer (Strip): strip_right is missing"},
        {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a*\"}, \"content\": \"\"}",
         "normalizer: the regular expression \"a*\" can match an empty text"},
        {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(\"}, \"content\": \"\"}",
         "normalizer: \"(\" is not"},
        {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}}", "(Replace): content is missing"},
        {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\"}]}",
         "normalizer.normalizers[0] is of type \"Precompiled\"; supported are NFC"},
        {"decoder", "{\"type\": \"Strip\", \"content\": \"ab\", \"start\": 1, \"stop\": 0}",
         "content is \"ab\"; expected one"},
        {"decoder", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a\"}, \"content\": \"\"}",
         "pattern has a Regex; in a"},
        {"decoder", "{\"type\": \"ByteLevel\"}", "decoder is of type \"ByteLevel\"; supported are Replace"},
        {"post_processor", "{\"type\": \"Other\"}", "post_processor is of type \"Other\""},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) refused(bad[i].section, bad[i].told, bad[i].message);
}

/* Check that the first piece is not looked for where a normalizer may remove the beginning of a text. */
static void a_first_piece_needs_the_beginning(void **state)
{
    (void)state;
    static const char *const replacement[] = {"_", "\xe2\x96\x81"};
    for (int i = 0; i < 2; i++) {
        char pre[128];
        zr_tokenizer *t = NULL;
        snprintf(pre, sizeof(pre), "{\"type\": \"Metaspace\", \"replacement\": \"%s\", \"prepend_scheme\": \"first\"}",
                 replacement[i]);
        char *json = bpe_json("\"normalizer\": {\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": false}, ",
                              pre, "\"type\": \"BPE\"", "", "[]");
        assert_int_equal(open_text(json, &t), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "pre_tokenizer (Metaspace): prepend_scheme \"first\" with a"));
        zr_free(json);
    }
}

/* Check Sequences within Sequences, and lists that are long. */
static void lists_are_bounded(void **state)
{
    (void)state;
    char deep[2048] = "", many[2048] = "{\"type\": \"Sequence\", \"pretokenizers\": [";
    for (int i = 0; i < 9; i++) strcat(deep, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int i = 0; i < 9; i++) strcat(deep, "]}");
    refused("pre_tokenizer", deep, "is within 8 others of the type Sequence, the limit is 7");
    for (int i = 0; i < 17; i++) strcat(many, i ? ", {\"type\": \"Whitespace\"}" : "{\"type\": \"Whitespace\"}");
    strcat(many, "]}");
    refused("pre_tokenizer", many, "pre_tokenizer.pretokenizers[16]: more than 16 steps");
}

/* Check replacements that together let a text grow, although each alone is allowed. */
static void growth_is_bounded(void **state)
{
    (void)state;
#define NINEFOLD "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaa\"}"
    refused("decoder", "{\"type\": \"Sequence\", \"decoders\": [" NINEFOLD ", " NINEFOLD "]}",
            "decoder.decoders[1] (Replace): this step and those before it may make 100 bytes of one byte of text; the "
            "limit is 64");
    /* U+0644 becomes U+FDFA, of which the second NFKD makes 33 bytes */
    refused("normalizer",
            "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKD\"}, {\"type\": \"Replace\", \"pattern\": "
            "{\"String\": \"\u0644\"}, \"content\": \"\ufdfa\"}, {\"type\": \"NFKD\"}]}",
            "normalizer.normalizers[2]: the normalizer may make 242 bytes of one byte of text");
}

static int open_classes(void **state)
{
    return zr__classes_open(&classes) == ZR_OK ? tempdir_make(state) : -1;
}

static int close_classes(void **state)
{
    zr__classes_close(&classes);
    return tempdir_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaviors_are_the_packages),
        cmocka_unit_test(matches_are_the_packages),
        cmocka_unit_test(bytes_that_are_not_text_are_pieces),
        cmocka_unit_test(cuts_are_where_no_step_minds),
        cmocka_unit_test(missing_bytes_are_unknown_or_left_out),
        cmocka_unit_test(settings_are_refused_with_their_place),
        cmocka_unit_test(a_first_piece_needs_the_beginning),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(growth_is_bounded),
    };
    return cmocka_run_group_tests(tests, open_classes, close_classes);
}
