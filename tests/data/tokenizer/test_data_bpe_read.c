//TEST timeout=30
//LINK -Wl,--wrap=pcre2_jit_stack_create_8
/* Tokenizer files: how supported files are read, and that others are refused rather than misread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "bpe_expect.h"
#include "data/tokenizer/tokenizer.h"

#define MODEL "\"type\": \"BPE\""
#define END_OF_TEXT "<|endoftext|>"
#define REGEX(text) "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" text "\"}, \"behavior\": \"Isolated\"}"
#define NO_REGEX "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SEQUENCE(steps) "{\"type\": \"Sequence\", \"pretokenizers\": [" steps ", " NO_REGEX "]}"

static void expect_refusal(zr_status status, const char *message)
{
    if (status == ZR_ERR_DATA && strstr(zr_error_message(), message)) return;
    fail_msg("wanted a refusal with \"%s\", got %s: %s", message, zr_status_text(status), zr_error_message());
}

static void refused(const char *message, char *json)
{
    zr_tokenizer *t = NULL;
    expect_refusal(open_text(json, &t), message);
    zr_free(json);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static char *with_regex(const char *regex)
{
    char split[512];
    snprintf(split, sizeof(split), SEQUENCE(REGEX("%s")), regex);
    return bpe_json("", split, MODEL, "\"ab\": 256", "[\"a b\"]");
}

static void expressions_mean_the_same_or_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\\\\p{Han}",   "\\\\p{Greek}+", "\\\\p{Letter}",   "\\\\p{Yi}",  "\\\\p{L",
                                      "[\\\\p{Han}]", "a{2}?",         "(?i:straße)",     "(?i:'[sd])", "(?i:'ss)",
                                      "(?i:'|st|b)",  "(?i:oFf)",      "(?i:\\\\p{Lu})b", "(?i:fi)"};
    static const char *const good[] = {"\\\\p{Lu}", "[\\\\p{Lt}\\\\P{^M}]", "a{2,3}?",
                                       "a{2}",      "\\\\p{L&}+",           "(?i:'s|'t|'re|'ve|'m|'ll|'D)"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) refused("is not supported", with_regex(bad[i]));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        zr_tokenizer *t = opened_text(with_regex(good[i]));
        zr_tokenizer_close(&t);
    }
}

/* Check two expressions in sequence: the second one splits the pieces of the first one. */
static void expressions_follow_each_other(void **state)
{
    (void)state;
    static const char more[] = "\"ab\": 256, \"12\": 257, \"b1\": 258", merges[] = "[\"b 1\", \"a b\", \"1 2\"]";
    char *whole = bpe_json("", SEQUENCE(REGEX(".+")), MODEL, more, merges);
    char *once = bpe_json("", SEQUENCE(REGEX("[a-z]+")), MODEL, more, merges);
    char *twice = bpe_json("", SEQUENCE(REGEX("[a-z]+") ", " REGEX("[0-9]")), MODEL, more, merges);
    zr_tokenizer *t = opened_text(whole);
    EXPECT(t, "ab12", 'a', 258, '2');
    zr_tokenizer_close(&t);
    t = opened_text(once);
    EXPECT(t, "ab12", 256, 257);
    zr_tokenizer_close(&t);
    t = opened_text(twice);
    EXPECT(t, "ab12", 256, '1', '2');
    zr_tokenizer_close(&t);
}

static void text_may_stay_whole(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json("", NO_REGEX, MODEL, "\"a\\u0120\": 256", "[[\"a\", \"\\u0120\"]]"));
    EXPECT(t, "a a  b", 256, 256, ' ', 'b');
    assert_int_equal(zr__tokenizer_cut(t, "a a a", 1, 5), 0);
    zr_tokenizer_close(&t);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Check ignore_merges. No merge gives "abc", but with ignore_merges a piece that is a token gets this token. */
static void merges_may_be_ignored(void **state)
{
    (void)state;
    static const char more[] = "\"ab\": 256, \"abc\": 257", merges[] = "[\"a b\"]";
    zr_tokenizer *t = opened_text(bpe_json("", BPE_BYTE_LEVEL, MODEL, more, merges));
    EXPECT(t, "abc", 256, 'c');
    zr_tokenizer_close(&t);
    t = opened_text(bpe_json("", BPE_BYTE_LEVEL, MODEL ", \"ignore_merges\": true", more, merges));
    EXPECT(t, "abc", 257);
    EXPECT(t, "abcd", 256, 'c', 'd');
    zr_tokenizer_close(&t);
}

static void a_model_may_be_known_by_its_merges(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json("", BPE_BYTE_LEVEL, "\"dropout\": null", "\"ab\": 256", "[\"a b\"]"));
    EXPECT(t, "ab", 256);
    zr_tokenizer_close(&t);
    refused("model has no type", bpe_json("", BPE_BYTE_LEVEL, "\"dropout\": null", "\"ab\": 256", "{}"));
}

/* Check that bytes and the characters that represent them convert both ways. */
static void symbols_are_gpt2s(void **state)
{
    (void)state;
    static const struct {
        unsigned char byte;
        uint32_t symbol;
    } known[] = {{0, 0x100},  {' ', 0x120}, {'!', '!'},   {'~', '~'},  {127, 0x121}, {160, 0x142},
                 {161, 0xa1}, {172, 0xac},  {173, 0x143}, {174, 0xae}, {255, 0xff}};
    char spelled[4];
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_int_equal(zr__bpe_symbol(known[i].byte), known[i].symbol);
    for (uint32_t c = 0; c < 0x800; c++) {
        const char two[] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, one = (char)c;
        int64_t n = c < 0x80 ? zr__bpe_spell(&one, 1, spelled) : zr__bpe_spell(two, 2, spelled);
        bool symbol = (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0x143 && c != 0xad);
        assert_int_equal(n, symbol ? 1 : -1);
        if (symbol) assert_int_equal(zr__bpe_symbol((unsigned char)spelled[0]), c);
    }
}

/* ---- added tokens ---------------------------------------------------------------------------- */

#define ADDED(tokens) "\"added_tokens\": [" tokens "], "

static void added_tokens_are_found_longest_first(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json(ADDED("{\"id\": 257, \"content\": \"<a\"}, {\"id\": 258, \"content\": "
                                                 "\"<a>\"}, {\"id\": 259, \"content\": \"a><\"}"),
                                           BPE_BYTE_LEVEL, MODEL, "\"ab\": 256", "[\"a b\"]"));
    EXPECT(t, "<a><a", 258, 257); /* not "<" and "a><" */
    EXPECT(t, "a><a>", 259, 'a', '>');
    EXPECT(t, "<ab", 257, 'b');
    zr_tokenizer_close(&t);
}

/* Check that added tokens that are not normalized are found first, and other added tokens in the text between them. */
static void normalized_tokens_come_later(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json(ADDED("{\"id\": 256, \"content\": \"xyz\", \"normalized\": true}, "
                                                 "{\"id\": 257, \"content\": \"zx\", \"normalized\": false}"),
                                           BPE_BYTE_LEVEL, MODEL, "", "[]"));
    EXPECT(t, "xyzxyz", 'x', 'y', 257, 'y', 'z');
    EXPECT(t, "xyz!zxxyz", 256, '!', 257, 256);
    zr_tokenizer_close(&t);
}

static void added_tokens_may_be_told_twice(void **state)
{
    (void)state;
    zr_tokenizer *t =
        opened_text(bpe_json(ADDED("{\"id\": 256, \"content\": \"<a>\"}, {\"id\": 257, \"content\": \"<b>\"}, "
                                   "{\"id\": 256, \"content\": \"<a>\"}"),
                             BPE_BYTE_LEVEL, MODEL, "", "[]"));
    assert_int_equal(zr_tokenizer_vocab(t), 258);
    EXPECT(t, "<a><b>", 256, 257);
    zr_tokenizer_close(&t);
    refused("257 tokens must be numbered", bpe_json(ADDED("{\"id\": 256, \"content\": \"<a>\"}, "
                                                          "{\"id\": 257, \"content\": \"<a>\"}"),
                                                    BPE_BYTE_LEVEL, MODEL, "", "[]"));
}

static void merges_may_make_an_added_token(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json(ADDED("{\"id\": 256, \"content\": \"ab\"}"), BPE_BYTE_LEVEL, MODEL,
                                           "\"ab\": 256, \"abc\": 257", "[\"a b\", \"ab c\"]"));
    EXPECT(t, "abc", 256, 'c'); /* found before splitting into pieces */
    EXPECT(t, "aab", 'a', 256);
    zr_tokenizer_close(&t);
    refused("merge 1: \"\xc4\xa0"
            "a\" is an added token",
            bpe_json(ADDED("{\"id\": 256, \"content\": \"\xc4\xa0"
                           "a\"}"),
                     BPE_BYTE_LEVEL, MODEL,
                     "\"\xc4\xa0"
                     "a\": 256",
                     "[\"\xc4\xa0 a\"]"));
}

static void names_are_shown_escaped(void **state)
{
    (void)state;
    zr_tokenizer *t = NULL;
    char *json = bpe_json(ADDED("{\"id\": 0, \"content\": \"a\\u001b[31mb\"}"), BPE_BYTE_LEVEL, MODEL,
                          "\"a\\u001b[31mb\": 256", "[]");
    expect_refusal(open_text(json, &t), "\"a\\x1b[31mb\" is token 0 here, but another token in the vocabulary");
    assert_null(strchr(zr_error_message(), '\x1b'));
    zr_free(json);
}

/* ---- two files ------------------------------------------------------------------------------- */

static zr_status open_two(zr_tokenizer **tokenizer)
{
    return zr_tokenizer_open(in_tempdir("two"), tokenizer);
}

static void put_two(const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "two/%s", name);
    put_file(path, text, strlen(text));
}

static void put_vocab(const char *more)
{
    char *vocab = bpe_vocab(more);
    put_two("vocab.json", vocab);
    zr_free(vocab);
}

static void refused_beside(const char *name, const char *text, const char *message)
{
    zr_tokenizer *t = NULL;
    char path[64];
    put_two(name, text);
    expect_refusal(open_two(&t), message);
    assert_non_null(strstr(zr_error_message(), name));
    snprintf(path, sizeof(path), "two/%s", name);
    assert_int_equal(remove(in_tempdir(path)), 0);
}

static void two_files_are_read_as_gpt2s_only(void **state)
{
    (void)state;
    static const char config[] = "tokenizer_config.json", end[] = "\"ab\": 256, \"" END_OF_TEXT "\": 257";
    zr_tokenizer *t = NULL;
    assert_int_equal(mkdir(in_tempdir("two"), 0777), 0);
    put_vocab(end);
    assert_false(zr__tokenizer_is_in(in_tempdir("two")));
    put_two("merges.txt", "a b\n");
    assert_true(zr__tokenizer_is_in(in_tempdir("two")));
    refused_beside("added_tokens.json", "{\"<pad>\": 258}", "supported only in a tokenizer.json");
    refused_beside(config, "{\"tokenizer_class\": \"RobertaTokenizer\"}", "tokenizer_class is \"RobertaTokenizer\"");
    refused_beside(config, "{\"tokenizer_class\": 3}", "tokenizer_class is 3");
    refused_beside(config, "{\"add_prefix_space\": true}", "add_prefix_space is true");
    refused_beside(config, "{\"added_tokens_decoder\": {\"258\": {\"content\": \"<pad>\"}}}", "has \"<pad>\"");
    refused_beside(config, "{\"added_tokens_decoder\"", "two/tokenizer_config.json:1:");
    put_two(config, "{\"tokenizer_class\": \"GPT2TokenizerFast\", \"add_prefix_space\": false, "
                    "\"added_tokens_decoder\": {\"257\": {\"content\": \"" END_OF_TEXT "\"}}}");
    assert_int_equal(open_two(&t), ZR_OK);
    EXPECT(t, "ab" END_OF_TEXT, 256, 257);
    zr_tokenizer_close(&t);
    put_vocab("\"ab</w>\": 256");
    expect_refusal(open_two(&t), "the name \"ab</w>\" ends with </w>");
}

/* Check that the end-of-text token counts as an added token only if tokenizer.json lists it among its added tokens. */
static void end_of_text_is_added_where_it_is_told(void **state)
{
    (void)state;
    zr_tokenizer *t = opened_text(bpe_json("", BPE_BYTE_LEVEL, MODEL, "\"" END_OF_TEXT "\": 256", "[]"));
    EXPECT(t, "<|end", '<', '|', 'e', 'n', 'd');
    assert_int_equal(zr_tokenizer_token(t, END_OF_TEXT), -1);
    zr_tokenizer_close(&t);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Check that a tokenizer.json may be larger than a configuration. */
static void large_files_are_read(void **state)
{
    (void)state;
    enum { SPACES = 17 << 20 };
    char *json = bpe_json("", BPE_BYTE_LEVEL, MODEL, "\"ab\": 256", "[\"a b\"]");
    size_t n = strlen(json);
    char *large = zr_alloc(n + SPACES + 1);
    memset(large, ' ', SPACES);
    memcpy(large + SPACES, json, n);
    zr_tokenizer *t = opened_text(large);
    EXPECT(t, "ab", 256);
    zr_tokenizer_close(&t);
    zr_free(json);
}

static int stacks;

void *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most, void *context);
void *__real_pcre2_jit_stack_create_8(size_t start, size_t most, void *context);

void *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most, void *context)
{
    stacks++;
    return __real_pcre2_jit_stack_create_8(start, most, context);
}

/* Match data are allocated once per text, not for each stretch between added tokens. */
static void stretches_share_what_matching_needs(void **state)
{
    (void)state;
    zr_tokenizer *t =
        opened_text(bpe_json(ADDED("{\"id\": 256, \"content\": \"<a>\"}"), SEQUENCE(REGEX(".+")), MODEL, "", "[]"));
    stacks = 0;
    EXPECT(t, "x<a>y<a>z<a>", 'x', 256, 'y', 256, 'z', 256);
    assert_int_equal(stacks, 1);
    zr_tokenizer_close(&t);
}

/* Check that a tokenizer's hash, by which cached token files are found, changes with everything that may change tokens,
 * and with nothing else. */
static void a_hash_is_of_all_that_decides_tokens(void **state)
{
    (void)state;
    static const char added[] = ADDED("{\"id\": 257, \"content\": \"<a>\", \"normalized\": false}"),
                      later[] = ADDED("{\"id\": 257, \"content\": \"<a>\", \"normalized\": true}"),
                      left[] = ADDED("{\"id\": 257, \"content\": \"<a>\", \"lstrip\": true}"),
                      right[] = ADDED("{\"id\": 257, \"content\": \"<a>\", \"rstrip\": true}"), ab[] = "\"ab\": 256",
                      merge[] = "[\"a b\"]";
    char *json[] = {bpe_json(added, SEQUENCE(REGEX(".+")), MODEL, ab, merge),
                    bpe_json(later, SEQUENCE(REGEX(".+")), MODEL, ab, merge),
                    bpe_json(left, SEQUENCE(REGEX(".+")), MODEL, ab, merge),
                    bpe_json(right, SEQUENCE(REGEX(".+")), MODEL, ab, merge),
                    bpe_json(added, SEQUENCE(REGEX(".+")), MODEL ", \"ignore_merges\": true", ab, merge),
                    bpe_json(added, SEQUENCE(REGEX("..?")), MODEL, ab, merge),
                    bpe_json(added, SEQUENCE(REGEX(".+") ", " REGEX("..?")), MODEL, ab, merge),
                    bpe_json(added, SEQUENCE(REGEX(".+")), MODEL, ab, "[]")};
    enum { N = sizeof(json) / sizeof(json[0]) };
    uint64_t hash[N];
    for (int i = 0; i < N; i++) {
        zr_tokenizer *t = NULL;
        for (int turn = 0; turn < 2; turn++) {
            if (open_text(json[i], &t) != ZR_OK) fail_msg("%s", zr_error_message());
            assert_true(turn == 0 || zr_tokenizer_hash(t) == hash[i]);
            hash[i] = zr_tokenizer_hash(t);
            zr_tokenizer_close(&t);
        }
        for (int k = 0; k < i; k++)
            if (hash[k] == hash[i]) fail_msg("tokenizers %d and %d have one hash", k, i);
        zr_free(json[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_mean_the_same_or_are_refused),
        cmocka_unit_test(expressions_follow_each_other),
        cmocka_unit_test(text_may_stay_whole),
        cmocka_unit_test(merges_may_be_ignored),
        cmocka_unit_test(a_model_may_be_known_by_its_merges),
        cmocka_unit_test(symbols_are_gpt2s),
        cmocka_unit_test(added_tokens_are_found_longest_first),
        cmocka_unit_test(normalized_tokens_come_later),
        cmocka_unit_test(added_tokens_may_be_told_twice),
        cmocka_unit_test(merges_may_make_an_added_token),
        cmocka_unit_test(names_are_shown_escaped),
        cmocka_unit_test(two_files_are_read_as_gpt2s_only),
        cmocka_unit_test(end_of_text_is_added_where_it_is_told),
        cmocka_unit_test(large_files_are_read),
        cmocka_unit_test(stretches_share_what_matching_needs),
        cmocka_unit_test(a_hash_is_of_all_that_decides_tokens),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
