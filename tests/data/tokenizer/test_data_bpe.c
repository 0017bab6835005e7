//TEST timeout=30 tsan=1
/* Byte-level BPE: tokenizers made for the test, and GPT-2's own where it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "bpe_expect.h"
#include "data/tokenizer/tokenizer.h"

enum { AB = 256, ABC, SPACE_A, SPACES, END = 267, TOKENS_MOST = 1 << 21 };

#define MODEL "\"type\": \"BPE\""
/* The vocabulary includes white space followed by a space, given by the last bytes of U+0020, U+2003, U+00A0, U+3000
 * (and U+1680), U+0085, CR, VT and FF. */
#define SPACE "\xc4\xa0"
#define MORE                                                                                                           \
    "\"ab\": 256, \"abc\": 257, \"" SPACE "a\": 258, \"" SPACE SPACE "\": 259, \"\xc4\xa5" SPACE "\": 260, "           \
    "\"\xc5\x82" SPACE "\": 261, \"\xc4\xa2" SPACE "\": 262, \"\xc4\xa7" SPACE "\": 263, \"\xc4\x8d" SPACE             \
    "\": 264, \"\xc4\x8b" SPACE "\": 265, \"\xc4\x8c" SPACE "\": 266"
#define MERGES                                                                                                         \
    "[\"a b\", [\"ab\", \"c\"], \"" SPACE " a\", \"" SPACE " " SPACE "\", \"\xc4\xa5 " SPACE "\", \"\xc5\x82 " SPACE   \
    "\", \"\xc4\xa2 " SPACE "\", \"\xc4\xa7 " SPACE "\", \"\xc4\x8d " SPACE "\", \"\xc4\x8b " SPACE                    \
    "\", \"\xc4\x8c " SPACE "\"]"
#define ADDED "\"added_tokens\": [{\"id\": 267, \"content\": \"<end>\", \"normalized\": false}], "

static int32_t tokens[TOKENS_MOST];

static zr_tokenizer *opened(const char *sections, const char *pre_tokenizer, const char *model)
{
    return opened_text(bpe_json(sections, pre_tokenizer, model, MORE, MERGES));
}

static void merges_in_their_order(void **state)
{
    (void)state;
    zr_tokenizer *t = opened(ADDED, BPE_BYTE_LEVEL, MODEL);
    const char *piece;
    int64_t bytes = 0, n = 0;
    assert_int_equal(zr_tokenizer_vocab(t), END + 1);
    EXPECT(t, "abc", ABC);
    EXPECT(t, "aab", 'a', AB);
    EXPECT(t, "ababc ab", AB, ABC, ' ', AB); /* "a b" is before " a" in the list */
    EXPECT(t, "abc<end>abc<end", ABC, END, ABC, '<', 'e', 'n', 'd');
    EXPECT(t, "ab c", AB, ' ', 'c');
    assert_int_equal(zr_tokenizer_decode(t, SPACE_A, &piece, &bytes), ZR_OK);
    assert_int_equal(bytes, 2);
    assert_memory_equal(piece, " a", 2);
    assert_int_equal(zr_tokenizer_decode(t, END, &piece, &bytes), ZR_OK);
    assert_memory_equal(piece, "<end>", 5);
    assert_int_equal(zr_tokenizer_encode(t, "abcabd", 6, tokens, 3, &n), ZR_OK); /* 3 tokens are enough */
    assert_int_equal(n, 3);
    assert_int_equal(zr_tokenizer_encode(t, "abcabd", 6, tokens, 2, &n), ZR_ERR_ARG);
    assert_int_equal(zr_tokenizer_encode(t, "", 0, tokens, 0, &n), ZR_OK);
    assert_int_equal(n, 0);
    zr_tokenizer_close(&t);
}

/* Check other regular expressions for pieces. With ByteLevel's own expression, " ab" would be one piece, in which "a b"
 * merges first. */
static void expressions_cut(void **state)
{
    (void)state;
    zr_tokenizer *t = opened("",
                             "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
                             "{\"Regex\": \"[^\\\\s\\\\p{L}]?\\\\p{L}{1,2}|\\\\s+\"}, \"behavior\": \"Isolated\"}, "
                             "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}",
                             MODEL);
    EXPECT(t, "abc", AB, 'c');
    EXPECT(t, " ab", ' ', AB);
    EXPECT(t, "!abc", '!', AB, 'c');
    assert_int_equal(zr__tokenizer_cut(t, "ab ab", 1, 5), 0); /* zr knows no safe places to cut with this expression */
    zr_tokenizer_close(&t);
}

/* Check that any bytes are decoded again. Invalid UTF-8 bytes end a piece, so that " a" merges. An overlong form does
 * not count as the character that it encodes. */
static void any_bytes_come_back(void **state)
{
    (void)state;
    static char text[1 << 20], back[1 << 20];
    zr_tokenizer *t = opened(ADDED, BPE_BYTE_LEVEL, MODEL);
    zr_rng rng = {.seed = 3, .purpose = ZR_RNG_SAMPLE};
    int64_t n = 0, at = 0;
    for (int64_t i = 0; i < (int64_t)sizeof(text); i++) text[i] = (char)zr_rng_u32(&rng, (uint64_t)i);
    EXPECT(t,
           "a\xff"
           "b",
           'a', 0xff, 'b');
    EXPECT(t, " a\xc1\xa1\xed\xa0\x80", SPACE_A, 0xc1, 0xa1, 0xed, 0xa0, 0x80);
    assert_int_equal(zr_tokenizer_encode(t, text, sizeof(text), tokens, sizeof(text), &n), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        const char *piece;
        int64_t bytes = 0;
        assert_int_equal(zr_tokenizer_decode(t, tokens[i], &piece, &bytes), ZR_OK);
        assert_true(at + bytes <= (int64_t)sizeof(back));
        memcpy(back + at, piece, (size_t)bytes);
        at += bytes;
    }
    assert_int_equal(at, sizeof(text));
    assert_memory_equal(text, back, sizeof(text));
    zr_tokenizer_close(&t);
}

/* Check that a piece of a million bytes that may all merge is encoded quickly: quadratic time would be minutes. */
static void long_pieces_take_no_longer(void **state)
{
    (void)state;
    static char text[1000000];
    zr_tokenizer *t = opened(ADDED, BPE_BYTE_LEVEL, MODEL);
    int64_t n = 0;
    double begin = zr_clock_sec();
    for (size_t i = 0; i < sizeof(text); i++) text[i] = "abc"[i % 3];
    assert_int_equal(zr_tokenizer_encode(t, text, sizeof(text), tokens, sizeof(text), &n), ZR_OK);
    assert_int_equal(n, sizeof(text) / 3 + 1);
    assert_int_equal(tokens[1000], ABC);
    memset(text, ' ', sizeof(text));
    assert_int_equal(zr_tokenizer_encode(t, text, sizeof(text), tokens, sizeof(text), &n), ZR_OK);
    assert_int_equal(n, sizeof(text) / 2);
    assert_int_equal(tokens[0], SPACES);
    memset(text, '<', sizeof(text));
    assert_int_equal(zr_tokenizer_encode(t, text, sizeof(text), tokens, sizeof(text), &n), ZR_OK);
    assert_true(zr_clock_sec() - begin < 20);
    zr_tokenizer_close(&t);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void refused(const char *message, char *json)
{
    zr_tokenizer *t = NULL;
    zr_status st = open_text(json, &t);
    if (st != ZR_ERR_DATA || !strstr(zr_error_message(), message) || !strstr(zr_error_message(), "tokenizer.json"))
        fail_msg("wanted bad data and \"%s\", got %s: %s", message, zr_status_text(st), zr_error_message());
    assert_null(t);
    zr_free(json);
}

static void damage_is_named(void **state)
{
    (void)state;
    refused("token \"abc\" is 258", bpe_json("", BPE_BYTE_LEVEL, MODEL, "\"ab\": 256, \"abc\": 258", "[]"));
    refused("both token 255", bpe_json("", BPE_BYTE_LEVEL, MODEL, "\"ab\": 255", "[]"));
    refused("merge 1: \"xy\" is not a token", bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "[\"xy c\"]"));
    refused("merge 2: \"bc\" is not a token", bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "[\"a b\", \"b c\"]"));
    refused("merge 1 is \"ab\"", bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "[\"ab\"]"));
    refused("merge 1 is neither", bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "[[\"a\"]]"));
    refused("merges is not a list", bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "3"));
    refused("another token in the vocabulary",
            bpe_json("\"added_tokens\": [{\"id\": 0, \"content\": \"ab\"}], ", BPE_BYTE_LEVEL, MODEL, MORE, "[]"));
    refused("empty name", bpe_json("", BPE_BYTE_LEVEL, MODEL, "\"\": 256", "[]"));
    char *cut = bpe_json("", BPE_BYTE_LEVEL, MODEL, MORE, "[]");
    cut[strlen(cut) / 2] = '\0';
    refused("tokenizer.json:1:", cut);
}

static void what_is_not_built_is_named(void **state)
{
    (void)state;
#define SPLIT(rest) "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", " rest "}, " BPE_BYTE_LEVEL "]}"
#define REGEX(text) SPLIT("\"pattern\": {\"Regex\": \"" text "\"}, \"behavior\": \"Isolated\"")
    static const char *const regex[] = {"a^b",     "\\\\w+",  "[a[^b]]", "[a-z&&b]",
                                        "(?<=a)b", "[\\\\S]", "a{2}+",   "\\\\p{No such}+"};
    refused("Unigram", bpe_json("", BPE_BYTE_LEVEL, "\"type\": \"Unigram\"", MORE, MERGES));
    refused("normalizer is of type \"Nmt\"",
            bpe_json("\"normalizer\": {\"type\": \"Nmt\"}, ", BPE_BYTE_LEVEL, MODEL, MORE, MERGES));
    refused("dropout is", bpe_json("", BPE_BYTE_LEVEL, MODEL ", \"dropout\": 0.1", MORE, MERGES));
    refused("pre_tokenizer is of type \"Words\"", bpe_json("", "{\"type\": \"Words\"}", MODEL, MORE, MERGES));
    refused("pre_tokenizer (ByteLevel): add_prefix_space is 1; expected true or false",
            bpe_json("", "{\"type\": \"ByteLevel\", \"add_prefix_space\": 1}", MODEL, MORE, MERGES));
    refused("pre_tokenizer.pretokenizers[0] (Split): behavior is \"removed\"; expected \"Isolated\", \"Removed\"",
            bpe_json("", SPLIT("\"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"removed\""), MODEL, MORE, MERGES));
    refused("can match an empty text", bpe_json("", REGEX("a*"), MODEL, MORE, MERGES));
    refused("behavior is missing", bpe_json("", SPLIT("\"pattern\": {\"Regex\": \"a\"}"), MODEL, MORE, MERGES));
    for (size_t i = 0; i < sizeof(regex) / sizeof(regex[0]); i++) {
        char split[512];
        snprintf(split, sizeof(split), SPLIT("\"pattern\": {\"Regex\": \"%s\"}, \"behavior\": \"Isolated\""), regex[i]);
        refused("is not supported", bpe_json("", split, MODEL, MORE, MERGES));
    }
    refused("is not a valid regular expression", bpe_json("", REGEX("a("), MODEL, MORE, MERGES));
}

static void two_files_are_one(void **state)
{
    (void)state;
    static const char merges[] =
        "#version: 0.2\na b\r\nab c\n" SPACE " a\n" SPACE " " SPACE "\n\xc4\xa5 " SPACE "\n\xc5\x82 " SPACE
        "\n\xc4\xa2 " SPACE "\n\xc4\xa7 " SPACE "\n\xc4\x8d " SPACE "\n\xc4\x8b " SPACE "\n\xc4\x8c " SPACE "\n";
    zr_tokenizer *one = opened("", BPE_BYTE_LEVEL, MODEL), *two = NULL;
    char *vocab = bpe_vocab(MORE);
    assert_int_equal(mkdir(in_tempdir("two"), 0777), 0);
    put_file("two/vocab.json", vocab, strlen(vocab));
    assert_int_equal(zr_tokenizer_open(in_tempdir("two"), &two), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "merges.txt"));
    put_file("two/merges.txt", merges, sizeof(merges) - 1);
    assert_int_equal(zr_tokenizer_open(in_tempdir("two"), &two), ZR_OK);
    assert_true(zr_tokenizer_hash(one) == zr_tokenizer_hash(two));
    zr_tokenizer_close(&two);
    put_file("two/merges.txt", merges, sizeof(merges) - 7); /* one merge less */
    assert_int_equal(zr_tokenizer_open(in_tempdir("two"), &two), ZR_OK);
    assert_true(zr_tokenizer_hash(one) != zr_tokenizer_hash(two));
    zr_tokenizer_close(&two);
    put_file("two/merges.txt", "a b c\n", 6);
    assert_int_equal(zr_tokenizer_open(in_tempdir("two"), &two), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "two/merges.txt: merge 1 is \"a b c\""));
    zr_tokenizer_close(&one);
    zr_free(vocab);
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* Check that encoding both parts of a text separately gives the whole's tokens, wherever a cut is allowed. */
static void cuts_change_nothing(void **state)
{
    (void)state;
    static const char *const parts[] = {" ",
                                        "\n",
                                        "\t",
                                        "\r",
                                        "\v",
                                        "\f",
                                        "\xe1\x9a\x80",
                                        "a",
                                        "b",
                                        "'",
                                        "s",
                                        "7",
                                        "!",
                                        "\xc2\xa0",
                                        "\xc2\x85",
                                        "\xe3\x80\x80",
                                        "\xe3\x81\x82",
                                        "\xe2\x80\x83",
                                        "\xff",
                                        "\xe3\x80",
                                        "<end>"};
    zr_tokenizer *t = opened(ADDED, BPE_BYTE_LEVEL, MODEL);
    zr_rng rng = {.seed = 4, .purpose = ZR_RNG_SAMPLE};
    int64_t cuts = 0;
    for (uint64_t round = 0; round < 20000; round++) {
        char text[64] = "";
        int64_t whole = 0, n = 0, m = 0;
        for (int i = 0; i < 8; i++)
            strcat(text, parts[zr_rng_u32(&rng, 8 * round + (uint64_t)i) % (sizeof(parts) / sizeof(parts[0]))]);
        int64_t bytes = (int64_t)strlen(text), cut = zr__tokenizer_cut(t, text, 1, bytes);
        if (cut == 0) continue;
        cuts++;
        assert_in_range(cut, 1, bytes - 1);
        assert_int_equal(zr_tokenizer_encode(t, text, bytes, tokens, bytes, &whole), ZR_OK);
        assert_int_equal(zr_tokenizer_encode(t, text, cut, tokens + 100, cut, &n), ZR_OK);
        assert_int_equal(zr_tokenizer_encode(t, text + cut, bytes - cut, tokens + 100 + n, bytes, &m), ZR_OK);
        if (n + m != whole || memcmp(tokens, tokens + 100, (size_t)whole * sizeof(*tokens)) != 0)
            fail_msg("round %d: cut at %d of \"%s\"", (int)round, (int)cut, text);
    }
    assert_true(cuts > 5000);
    zr_tokenizer_close(&t);
    static const char *const across[] = {"a b", "<end> "};
    for (size_t i = 0; i < sizeof(across) / sizeof(across[0]); i++) {
        char added[128];
        snprintf(added, sizeof(added), "\"added_tokens\": [{\"id\": 267, \"content\": \"%s\"}], ", across[i]);
        t = opened(added, BPE_BYTE_LEVEL, MODEL);
        assert_int_equal(zr__tokenizer_cut(t, "xx yy", 1, 5), 0); /* a token may reach across */
        zr_tokenizer_close(&t);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct many {
    const zr_tokenizer *tokenizer;
    uint64_t hash;
} many;

static void *encode_much(void *arg)
{
    many *m = arg;
    char text[6000];
    int32_t *mine = zr_alloc(sizeof(text) * sizeof(*mine));
    for (size_t i = 0; i < sizeof(text); i++) text[i] = "ab ca!"[i * i % 6];
    for (int round = 0; mine && round < 20; round++) {
        int64_t n = 0;
        if (zr_tokenizer_encode(m->tokenizer, text, sizeof(text), mine, sizeof(text), &n) == ZR_OK)
            m->hash = XXH3_64bits_withSeed(mine, (size_t)n * sizeof(*mine), m->hash);
    }
    zr_free(mine);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    zr_tokenizer *t = opened(ADDED, BPE_BYTE_LEVEL, MODEL);
    pthread_t thread[4];
    many each[4];
    for (int i = 0; i < 4; i++) {
        each[i] = (many){t, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_much, &each[i]), 0);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 4; i++) assert_true(each[i].hash != 0 && each[i].hash == each[0].hash);
    zr_tokenizer_close(&t);
}

/* ---- GPT-2's own ----------------------------------------------------------------------------- */

/* Check that the tokens of the shared texts match the package tokenizers 0.23.3. */
static void gpt2_is_gpt2(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n;
        uint64_t hash; /* XXH3-64 of int32 */
    } known[] = {{"tinyshakespeare.txt", 338025, 0x3c8c2eb0efe3e03},
                 {"wikitext2-valid.txt", 258659, 0xc1e6c96932cbc497}};
    const char *shared = getenv("ZR_SHARED");
    char path[PATH_MAX];
    zr_tokenizer *t = NULL;
    struct stat info;
    snprintf(path, sizeof(path), "%s/data/gpt2", shared ? shared : "");
    if (!shared || stat(path, &info) != 0) {
        print_message("# GPT-2's vocabulary is not here ($ZR_SHARED/data/gpt2): not compared\n");
        skip();
    }
    if (zr_tokenizer_open(path, &t) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_tokenizer_vocab(t), 50257);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        static char text[TOKENS_MOST];
        int64_t n = 0;
        snprintf(path, sizeof(path), "%s/data/%s", shared, known[i].name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        int64_t bytes = (int64_t)fread(text, 1, sizeof(text), file);
        fclose(file);
        assert_int_equal(zr_tokenizer_encode(t, text, bytes, tokens, TOKENS_MOST, &n), ZR_OK);
        assert_int_equal(n, known[i].n);
        assert_true(XXH3_64bits(tokens, (size_t)n * sizeof(*tokens)) == known[i].hash);
    }
    EXPECT(t, "Hello<|endoftext|> world", 15496, 50256, 995);
    zr_tokenizer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_in_their_order),     cmocka_unit_test(expressions_cut),
        cmocka_unit_test(any_bytes_come_back),       cmocka_unit_test(long_pieces_take_no_longer),
        cmocka_unit_test(damage_is_named),           cmocka_unit_test(what_is_not_built_is_named),
        cmocka_unit_test(two_files_are_one),         cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(threads_share_a_tokenizer), cmocka_unit_test(gpt2_is_gpt2),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
