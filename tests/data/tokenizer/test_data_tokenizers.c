//TEST timeout=60
/* Tokenizers in the forms of Llama's, Mistral's, Qwen's and BERT's: tests/tokenizers has small ones, and the tokens
 * that the package tokenizers 0.23.3 makes of texts (tests/peers/fixtures.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/tokenizer/tokenizer.h"
#include "support/mutate_bytes.h"
#include "support/tempdir.h"
#include "zr/data.h"

enum { ROOM = 1 << 16 };

static int32_t tokens[ROOM];
static json_t *expected;

static const char *fixture(const char *name)
{
    static char path[PATH_MAX];
    const char *source = getenv("ZR_SOURCE");
    snprintf(path, sizeof(path), "%s/tests/tokenizers/%s.json", source ? source : ".", name);
    return path;
}

static zr_tokenizer *opened(const char *path)
{
    zr_tokenizer *t = NULL;
    if (zr_tokenizer_open(path, &t) != ZR_OK) fail_msg("%s", zr_error_message());
    return t;
}

static zr_tokenizer *known(const char *name)
{
    return opened(fixture(name));
}

static int64_t encode(const zr_tokenizer *t, const char *text)
{
    const int64_t bytes = (int64_t)strlen(text);
    int64_t n = 0;
    assert_true(zr_tokenizer_room(t, bytes) <= ROOM);
    if (zr_tokenizer_encode(t, text, bytes, tokens, zr_tokenizer_room(t, bytes), &n) != ZR_OK)
        fail_msg("\"%s\": %s", text, zr_error_message());
    return n;
}

static void expect_ids(const char *name, const char *text, const int32_t *got, int64_t n, const json_t *ids)
{
    for (int64_t i = 0; i < n && i < (int64_t)json_array_size(ids); i++)
        if (got[i] != json_integer_value(json_array_get(ids, (size_t)i)))
            fail_msg("%s: \"%s\": token %d is %d, expected %d", name, text, (int)i, got[i],
                     (int)json_integer_value(json_array_get(ids, (size_t)i)));
    if (n != (int64_t)json_array_size(ids))
        fail_msg("%s: \"%s\": %d tokens, expected %d", name, text, (int)n, (int)json_array_size(ids));
}

static void expect_back(const char *name, const zr_tokenizer *t, int64_t n, bool special, const json_t *wanted)
{
    char *text = NULL;
    int64_t bytes = 0;
    if (!wanted) return;
    assert_int_equal(zr_tokenizer_text(t, tokens, n, special, &text, &bytes), ZR_OK);
    if (bytes != (int64_t)json_string_length(wanted) || memcmp(text, json_string_value(wanted), (size_t)bytes) != 0)
        fail_msg("%s: the text is \"%s\", expected \"%s\"", name, text, json_string_value(wanted));
    zr_free(text);
}

static void compare(const char *name, const json_t *its)
{
    zr_tokenizer *t = known(name);
    const zr_tokenizer_ends ends = zr_tokenizer_get_ends(t);
    size_t i;
    json_t *row;
    for (int64_t k = 0; k < ends.n_begin; k++) tokens[k] = ends.begin[k];
    for (int64_t k = 0; k < ends.n_end; k++) tokens[ends.n_begin + k] = ends.end[k];
    expect_ids(name, "ends", tokens, ends.n_begin + ends.n_end, json_object_get(its, "ends"));
    json_array_foreach(json_object_get(its, "rows"), i, row)
    {
        const char *text = json_string_value(json_object_get(row, "text"));
        const int64_t n = encode(t, text);
        expect_ids(name, text, tokens, n, json_object_get(row, "ids"));
        expect_back(name, t, n, true, json_object_get(row, "back"));
        expect_back(name, t, n, false, json_object_get(row, "plain"));
    }
    const json_t *broken = json_object_get(its, "broken"), *ids = json_object_get(broken, "ids");
    for (i = 0; i < json_array_size(ids); i++) tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    expect_back(name, t, (int64_t)json_array_size(ids), true, json_object_get(broken, "back"));
    for (int64_t k = 0; k < 300; k++) tokens[k] = (int32_t)(k * 7919 % zr_tokenizer_vocab(t));
    expect_back(name, t, 300, true, json_object_get(its, "odd"));
    zr_tokenizer_close(&t);
}

static void tokens_are_the_packages(void **state)
{
    (void)state;
    const char *name;
    json_t *its;
    json_object_foreach(expected, name, its) compare(name, its);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void documents_are_separated(void **state)
{
    (void)state;
    zr_tokenizer *t = known("qwen2");
    assert_int_equal(zr_tokenizer_get_ends(t).separator, zr_tokenizer_token(t, ZR_END_OF_TEXT));
    zr_tokenizer_close(&t);
    t = known("llama2");
    assert_int_equal(zr_tokenizer_get_ends(t).separator, -1);
    assert_int_equal(zr__tokenizer_separator(t), ZR__NO_SEPARATOR);
    assert_int_equal(zr_tokenizer_token(t, "\n"), 3 + '\n');
    assert_int_equal(zr_tokenizer_token(t, "</s>"), 2);
    zr_tokenizer_close(&t);
    t = known("tekken_own");
    assert_int_equal(zr_tokenizer_get_ends(t).separator, 2);
    zr_tokenizer_close(&t);
}

static char *read_fixture(const char *name, size_t *bytes)
{
    FILE *file = fopen(fixture(name), "rb");
    char *text = malloc(1 << 20);
    assert_non_null(file);
    assert_non_null(text);
    *bytes = fread(text, 1, (1 << 20) - 1, file);
    text[*bytes] = '\0';
    fclose(file);
    return text;
}

/* Check that the eos_token of tokenizer_config.json, as a text or as an object, separates documents. */
static void configurations_name_the_end(void **state)
{
    (void)state;
    static const char *const config[] = {
        "{\"eos_token\": \"</s>\", \"model_max_length\": 1000000000000000019884624838656}",
        "{\"eos_token\": {\"content\": \"</s>\"}}", "{\"eos_token\": null}", "{\"eos_token\": \"nothing\"}"};
    size_t bytes = 0;
    char *text = read_fixture("llama2", &bytes);
    assert_int_equal(mkdir(in_tempdir("own"), 0777), 0);
    put_file("own/tokenizer.json", text, bytes);
    for (int i = 0; i < 4; i++) {
        put_file("own/tokenizer_config.json", config[i], strlen(config[i]));
        zr_tokenizer *t = opened(in_tempdir("own"));
        assert_int_equal(zr_tokenizer_get_ends(t).separator, i < 2 ? 2 : -1);
        zr_tokenizer_close(&t);
    }
    free(text);
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* Check that encoding both parts of a text gives the whole's tokens, wherever a cut is allowed. */
static void cuts_change_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3",  "qwen2",  "qwen35", "nemo",      "llama2",
                                        "mistral", "always", "bert",   "bert_cased"};
    static const char *const parts[] = {" ",    "\n", "\t",     "\r",     "\v",  "a",      "B",  "'",
                                        "s",    "7",  "!",      "/",      "é",   "\u0301", "한", "<s>",
                                        "\xff", "字", "\u00a0", "\u2581", "the", "\u3000"};
    enum { NAMES = sizeof(names) / sizeof(names[0]), PARTS = sizeof(parts) / sizeof(parts[0]), ROUNDS = 3000 };
    zr_rng rng = {.seed = 5, .purpose = ZR_RNG_SAMPLE};
    for (int k = 0; k < NAMES; k++) {
        zr_tokenizer *t = known(names[k]);
        int cuts = 0;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            char text[96] = "";
            int64_t n = 0, m = 0;
            for (uint64_t i = 0; i < 8; i++) strcat(text, parts[zr_rng_u32(&rng, 8 * round + i) % PARTS]);
            const int64_t bytes = (int64_t)strlen(text), cut = zr__tokenizer_cut(t, text, 1, bytes);
            if (cut == 0) continue;
            cuts++;
            const int64_t whole = encode(t, text);
            int32_t *two = tokens + ROOM / 2;
            assert_int_equal(zr_tokenizer_encode(t, text, cut, two, ROOM / 2, &n), ZR_OK);
            assert_int_equal(zr__tokenizer_encode(t, text + cut, bytes - cut, true, two + n, ROOM / 4, &m), ZR_OK);
            if (n + m != whole || memcmp(tokens, two, (size_t)whole * sizeof(*tokens)) != 0)
                fail_msg("%s: cut at %d of \"%s\"", names[k], (int)cut, text);
        }
        assert_true(cuts > ROUNDS / 16);
        zr_tokenizer_close(&t);
    }
    zr_tokenizer *t = known("across"); /* its merges join words */
    assert_int_equal(zr__tokenizer_cut(t, "a b", 1, 3), 0);
    zr_tokenizer_close(&t);
    t = known("flags"); /* one of its added tokens contains a space */
    assert_int_equal(zr__tokenizer_cut(t, "a b", 1, 3), 0);
    zr_tokenizer_close(&t);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Check that a million characters without a space are one word. Quadratic time would be hours. */
static void long_words_take_no_longer(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N);
    int32_t *ids = malloc(3 * (size_t)N * sizeof(*ids));
    static const char *const names[] = {"llama2", "llama3", "qwen2", "nemo", "bert", "bert_cased"};
    static const char *const units[] = {"e", "th", "\u0301", "\n", " ", "字", "\u302e"};
    assert_true(text && ids);
    const double begin = zr_clock_sec();
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        zr_tokenizer *t = known(names[k]);
        for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
            const size_t length = strlen(units[u]);
            int64_t n = 0;
            for (size_t i = 0; i + length <= N; i += length) memcpy(text + i, units[u], length);
            assert_int_equal(zr_tokenizer_encode(t, text, N / length * length, ids, 3 * N, &n), ZR_OK);
            assert_true(n > 0 || k >= 4); /* BERT drops marks and white space */
        }
        zr_tokenizer_close(&t);
    }
    assert_true(zr_clock_sec() - begin < 300);
    free(text);
    free(ids);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Replace `from` in a fixture, and check that the result is refused with the message. */
static void refused(const char *name, const char *from, const char *to, const char *message)
{
    size_t bytes = 0;
    char *text = read_fixture(name, &bytes), *at = strstr(text, from), *made = malloc(bytes + strlen(to) + 1);
    zr_tokenizer *t = NULL;
    if (!at || !made) fail_msg("%s has no %s", name, from);
    const int n = sprintf(made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    const char *file = strcmp(name, "tekken_own") == 0 ? "tekken.json" : "tokenizer.json";
    const zr_status st = zr_tokenizer_open(put_file(file, made, (size_t)n), &t);
    if (st != ZR_ERR_DATA || !strstr(zr_error_message(), message) || !strstr(zr_error_message(), file))
        fail_msg("%s for %s: expected \"%s\", got %s: %s", to, from, message, zr_status_text(st), zr_error_message());
    assert_null(t);
    free(text);
    free(made);
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    refused("qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"Nmt\"}", "normalizer is of type \"Nmt\"; supported are NFC,");
    refused("qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"Sequence\"}",
            "normalizer.normalizers is missing; expected a list of steps");
    refused("llama2", "{\"String\":\" \"}", "{\"String\":\"\"}",
            "normalizer.normalizers[1] (Replace): pattern is an object; expected {\"String\"");
    refused("llama2", "{\"String\":\" \"}", "{\"Regex\":\"^ \"}",
            "normalizer.normalizers[1]: \"^\" in the regular expression \"^ \" is not supported");
    refused("llama2", "\"prepend\":", "\"pre\":", "normalizer.normalizers[0] (Prepend): prepend is missing");
    refused("llama2", "{\"type\":\"Fuse\"}", "{\"type\":\"CTC\"}",
            "decoder.decoders[2] is of type \"CTC\"; supported are");
    refused("llama2", "\"start\":1", "\"start\":-1", "decoder.decoders[3] (Strip): start is -1; expected an integer");
    refused("llama2", "\"unk_token\":\"<unk>\"", "\"unk_token\":\"none\"", "model.unk_token is \"none\"");
    refused("mistral", "\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"", "prepend_scheme is \"last\"");
    refused("mistral", "\"replacement\":\"\\u2581\"", "\"replacement\":\"__\"",
            "pre_tokenizer (Metaspace): replacement is \"__\"; expected one character");
    refused("mistral", "{\"type\":\"Metaspace\"", "{\"type\":\"Spaces\"", "pre_tokenizer is of type \"Spaces\"");
    refused("llama3", "\"TemplateProcessing\"", "\"Other\"", "post_processor.processors[1] is of type \"Other\"");
    refused("llama3", "{\"Sequence\":{\"id\":\"A\"", "{\"Sequence\":{\"id\":\"B\"", "post_processor.single has");
    refused("llama3", "\"ids\":[330]", "\"ids\":[3300]", "post_processor has token 3300");
    refused("llama3", "\"ids\":[330]", "\"no\":[330]", "post_processor.special_tokens has no ids");
    refused("bert", "\"lowercase\":true", "\"lower\":true",
            "normalizer (BertNormalizer): lowercase is missing; expected true or false");
    refused("bert", "\"strip_accents\":null", "\"strip_accents\":0", "(BertNormalizer): strip_accents is 0; expected");
    refused("bert", "\"BertNormalizer\"", "\"NFC\"", "normalizer is of type \"NFC\", only BertNormalizer");
    refused("bert", "\"BertPreTokenizer\"", "\"Whitespace\"", "pre_tokenizer is of type \"Whitespace\", only Bert");
    refused("bert", "subword_prefix\":\"##\"", "subword_prefix\":\"@@\"", "model.continuing_subword_prefix is \"@@\"");
    refused("bert", "\"prefix\":\"##\"", "\"prefix\":\"\"", "decoder.prefix is \"\"");
    refused("bert", "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"none\"", "model.unk_token is \"none\"");
    refused("bert", "per_word\":100", "per_word\":0", "model.max_input_chars_per_word is 0; it must be");
    refused("bert", "\"type\":\"WordPiece\",\"unk", "\"type\":\"Unigram\",\"unk", "only BPE and WordPiece are");
    refused("tekken_own", "\"pattern\"", "\"no\"", "config.pattern is missing");
    refused("tekken_own", "\"default_vocab_size\":", "\"default_vocab_size\":9", "do not fit each other");
    refused("tekken_own", "\"rank\":7,", "\"rank\":8,", "rank 8 at place 7");
    refused("tekken_own", "\"token_bytes\":\"IQ==\"", "\"token_bytes\":\"I?==\"", "are not base64");
}

#define SIXTEEN "0123456789abcdef"
#define TENFOLD "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}"

/* Check that short files cannot let a short text grow without limit. */
static void growth_is_bounded(void **state)
{
    (void)state;
    char many[4096] = "\"ids\":[330", long_token[2048] = "\"id\":330,\"content\":\"";
    refused("llama2", "\"content\":\"\\u2581\"}", "\"content\":\"" SIXTEEN SIXTEEN "\\u2581\"}",
            "may make 35 bytes of one byte of text and put 105 bytes before a text; the limit for each is 64");
    refused("llama2", "\"prepend\":\"\\u2581\"", "\"prepend\":\"" SIXTEEN SIXTEEN SIXTEEN SIXTEEN "x\"",
            "put 65 bytes before a text; the limit for each is 64");
    refused("qwen2", "{\"type\":\"NFC\"}", "{\"type\":\"Sequence\",\"normalizers\":[" TENFOLD "," TENFOLD "]}",
            "may make 100 bytes of one byte of text and put 0 bytes");
    for (int i = 0; i < 64; i++) strcat(many, ",330");
    refused("llama3", "\"ids\":[330", many, "puts more than 64 tokens at one end of a text");
    memset(long_token + strlen(long_token), 'x', 1025);
    refused("llama3", "\"id\":330,\"content\":\"", long_token, "bytes; the limit is 1024");
}

static void sentencepiece_is_told_what_to_run(void **state)
{
    (void)state;
    zr_tokenizer *t = NULL;
    assert_int_equal(mkdir(in_tempdir("spm"), 0777), 0);
    put_file("spm/tokenizer.model", "x", 1);
    assert_int_equal(zr_tokenizer_open(in_tempdir("spm"), &t), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "tokenizer.model"));
    assert_non_null(strstr(zr_error_message(), "save_pretrained"));
}

/* Write the vocabulary of a fixture as a vocab.txt into the folder "lines". */
static void put_vocab_lines(const char *name, const char *ends)
{
    zr_tokenizer *t = known(name);
    char all[1 << 16];
    size_t n = 0;
    for (int32_t token = 0; token < zr_tokenizer_vocab(t); token++) {
        const char *text = NULL;
        int64_t bytes = 0;
        assert_int_equal(zr_tokenizer_decode(t, token, &text, &bytes), ZR_OK);
        n += (size_t)sprintf(all + n, "%.*s%s", (int)bytes, text, ends);
    }
    put_file("lines/vocab.txt", all, n);
    zr_tokenizer_close(&t);
}

/* Check that a vocab.txt with a tokenizer_config.json gives the same tokenizer as the corresponding tokenizer.json. */
static void vocabularies_of_lines(void **state)
{
    (void)state;
    static const char *const config[] = {"{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true}",
                                         "{\"do_lower_case\": false, \"mask_token\": {\"content\": \"[MASK]\"}}"};
    static const char *const names[] = {"bert", "bert_cased"};
    zr_tokenizer *t = NULL;
    assert_int_equal(mkdir(in_tempdir("lines"), 0777), 0);
    put_vocab_lines("bert", "\n");
    assert_int_equal(zr_tokenizer_open(in_tempdir("lines"), &t), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), config[0])); /* an example that works */
    assert_false(zr__tokenizer_is_in(in_tempdir("lines")));
    for (int i = 0; i < 2; i++) {
        put_vocab_lines(names[i], i ? "\r\n" : "\n");
        put_file("lines/tokenizer_config.json", config[i], strlen(config[i]));
        assert_true(zr__tokenizer_is_in(in_tempdir("lines")));
        zr_tokenizer *whole = known(names[i]);
        t = opened(in_tempdir("lines"));
        assert_true(zr_tokenizer_hash(t) == zr_tokenizer_hash(whole));
        assert_int_equal(encode(t, "The cat, Ångström [MASK]"), encode(whole, "The cat, Ångström [MASK]"));
        zr_tokenizer_close(&t);
        zr_tokenizer_close(&whole);
    }
    static const struct {
        const char *config, *vocab, *message;
    } bad[] = {{"{\"tokenizer_class\": \"XLNetTokenizer\"}", NULL, "tokenizer_class is \"XLNetTokenizer\""},
               {"{\"do_basic_tokenize\": false}", NULL, "do_basic_tokenize is false"},
               {"{\"never_split\": [\"x\"]}", NULL, "never_split is"},
               {"{\"sep_token\": \"</s>\"}", NULL, "sep_token is \"</s>\""},
               {"{\"do_lower_case\": 1}", NULL, "lowercase is 1.0; expected true or false"},
               {"{}", "[PAD]\n\n[UNK]\n", "vocab.txt: line 2 is empty; each line must"},
               {"{}", "[PAD]\nthe\nthe\n", "vocab.txt: line 3 repeats the token \"the\" of line 2"},
               {"{}", "[PAD]\n\xff\n", "vocab.txt: line 2 is not UTF-8"},
               {"{}", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "there is no token [MASK]"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put_file("lines/tokenizer_config.json", bad[i].config, strlen(bad[i].config));
        if (bad[i].vocab) put_file("lines/vocab.txt", bad[i].vocab, strlen(bad[i].vocab));
        const zr_status st = zr_tokenizer_open(in_tempdir("lines"), &t);
        if (st != ZR_ERR_DATA || !strstr(zr_error_message(), bad[i].message))
            fail_msg("%s: expected \"%s\", got %d: %s", bad[i].config, bad[i].message, st, zr_error_message());
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

static int replay(const char *file, const uint8_t *bytes, size_t n)
{
    static const char text[] = "It's <s> e\u0301 हिन्दी  12345\r\n\xff</s> <strip> word";
    zr_tokenizer *t = NULL;
    const zr_status st = zr_tokenizer_open(put_file(file, bytes, n), &t);
    int64_t found = 0;
    if (st != ZR_OK) {
        assert_null(t);
        if (st != ZR_ERR_DATA || !strstr(zr_error_message(), file)) fail_msg("%d: %s", st, zr_error_message());
        return 0;
    }
    const int64_t room = zr_tokenizer_room(t, sizeof(text) - 1);
    int32_t *ids = malloc((size_t)room * sizeof(*ids));
    char *back = NULL;
    assert_non_null(ids);
    if (zr_tokenizer_encode(t, text, sizeof(text) - 1, ids, room, &found) == ZR_OK) {
        assert_int_equal(zr_tokenizer_text(t, ids, found, false, &back, &found), ZR_OK);
        zr_free(back);
    }
    free(ids);
    zr_tokenizer_close(&t);
    return 1;
}

/* Check that randomly damaged files are read, or refused with one message that names the file. */
static void damaged_files(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2", "llama3", "flags2", "tekken_own", "bert"};
    enum { ROUNDS = 250, MOST = 1 << 16 };
    static uint8_t damaged[MOST];
    for (uint32_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        const char *file = strcmp(names[k], "tekken_own") == 0 ? "tekken.json" : "tokenizer.json";
        mutator m = mutator_make(k);
        size_t bytes = 0;
        char *text = read_fixture(names[k], &bytes);
        int read = 0;
        assert_true(bytes < MOST / 2);
        assert_int_equal(replay(file, (const uint8_t *)text, bytes), 1);
        for (int round = 0; round < ROUNDS; round++) {
            memcpy(damaged, text, bytes);
            read += replay(file, damaged, mutate_bytes(&m, damaged, bytes, MOST));
        }
        assert_in_range(read, 1, ROUNDS - 1);
        free(text);
    }
}

static int make_all(void **state)
{
    expected = json_load_file(fixture("expected"), JSON_ALLOW_NUL, NULL);
    return expected ? tempdir_make(state) : -1;
}

static int remove_all(void **state)
{
    json_decref(expected);
    return tempdir_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_packages),     cmocka_unit_test(documents_are_separated),
        cmocka_unit_test(configurations_name_the_end), cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(long_words_take_no_longer),   cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(growth_is_bounded),           cmocka_unit_test(sentencepiece_is_told_what_to_run),
        cmocka_unit_test(vocabularies_of_lines),       cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
