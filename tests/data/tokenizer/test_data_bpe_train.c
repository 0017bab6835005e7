//TEST timeout=30
/* Learning a tokenizer: merges known by hand, and the merges of the package tokenizers where the shared text is
 * installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <xxhash.h>

#include "support/tempdir.h"
#include "zr/data.h"
#include "data/tokenizer/tokenizer.h"

#define SPACE "\xc4\xa0"

static zr__tokenizer_trainer *opened(void)
{
    zr__tokenizer_trainer *trainer = NULL;
    if (zr__tokenizer_trainer_open(&trainer) != ZR_OK) fail_msg("%s", zr_error_message());
    return trainer;
}

/* Learn at most `vocab` tokens and return the text of the tokenizer.json; the caller frees it with zr_free. */
static char *learned(zr__tokenizer_trainer *trainer, int64_t vocab, int64_t *n)
{
    char *json = NULL;
    if (zr__tokenizer_trainer_learn(trainer, vocab, &json, n) != ZR_OK) fail_msg("%s", zr_error_message());
    zr__tokenizer_trainer_close(&trainer);
    assert_null(trainer);
    return json;
}

static char *learned_from(const char *text, size_t bytes, int64_t vocab, int64_t *n)
{
    zr__tokenizer_trainer *trainer = opened();
    if (zr__tokenizer_trainer_add(trainer, text, (int64_t)bytes) != ZR_OK) fail_msg("%s", zr_error_message());
    return learned(trainer, vocab, n);
}

/* Check the merges learned from a text, one per line. */
static void expect(const char *text, int64_t vocab, const char *merges, int64_t tokens)
{
    char there[1024] = "";
    int64_t n = 0;
    char *json = learned_from(text, strlen(text), vocab, &n);
    const char *from = strstr(json, "\"merges\": [");
    assert_non_null(from);
    for (from += 11; *from != ']' && strlen(there) + 2 < sizeof(there); from++)
        if (!strchr(",\"", *from) && !(*from == ' ' && (from[-1] == '\n' || from[-1] == ' ')))
            there[strlen(there)] = *from;
    assert_string_equal(there, merges);
    assert_int_equal(n, tokens);
    zr_free(json);
}

static void merges_are_those_of_hand(void **state)
{
    (void)state;
    /* " ab" three times and "ab" once; one of the four is followed by c */
    expect("ab ab ab abc", 1000, "\na b\n" SPACE " ab\n" SPACE "ab c\n", 260);
    expect("ab ab ab abc", 259, "\na b\n" SPACE " ab\n", 259);
    expect("ab ab ab abc", 257, "", 257);
    expect("", 300, "", 257);
    /* In a run of equal letters the left pairs merge first: aa aa a. */
    expect("aaaaa", 1000, "\na a\naa a\naa aaa\n", 260);
    /* No merge reaches from one piece into the next. */
    expect("x!x!x!", 1000, "", 257);
    /* After "bc" merges, "ab" occurs once less than "xy". */
    expect("bc bc bc bc abc ab xy xy", 259, "\nb c\n" SPACE " bc\n", 259);
}

/* Check that of several most frequent pairs the one with the lowest token ids is merged. The ids are GPT-2's, in which
 * the space comes after the letters. */
static void ties_go_by_numbers(void **state)
{
    (void)state;
    expect("zy ba ab yz", 1000, "\na b\nb a\ny z\nz y\n" SPACE " ab\n" SPACE " ba\n" SPACE " yz\n", 264);
    expect("zy ba ab yz", 259, "\na b\nb a\n", 259);
}

/* Check that a queued count that has become too high is updated before use. */
static void counts_are_kept_up(void **state)
{
    (void)state;
    /* (b, c) 5; (a, b) 4, three followed by c; (d, e) 2 */
    expect("abc abc abc bc bc ab de de", 260, "\nb c\na bc\nd e\n", 260);
    expect("abcabcabcbcbcab\ndede", 260, "\nb c\na bc\nd e\n", 260);
}

static void parts_are_the_whole(void **state)
{
    (void)state;
    static const char *const words[] = {" the", " then", "there", "\n", "  ", " o'er", "'s", "\xc3\xa9t\xc3\xa9",
                                        " 12"};
    static char text[40000];
    zr_rng rng = {.seed = 5, .purpose = ZR_RNG_SAMPLE};
    int64_t whole_n = 0, parts_n = 0, n_parts = 0;
    size_t bytes = 0;
    for (uint64_t i = 0; bytes + 16 < sizeof(text); i++)
        bytes += (size_t)sprintf(text + bytes, "%s", words[zr_rng_u32(&rng, i) % (sizeof(words) / sizeof(words[0]))]);
    char *whole = learned_from(text, bytes, 400, &whole_n);
    zr__tokenizer_trainer *trainer = opened();
    for (size_t at = 0; at < bytes; n_parts++) {
        int64_t window = (int64_t)(bytes - at < 100 ? bytes - at : 100);
        int64_t cut = at + 100 < bytes ? zr__tokenizer_trainer_cut(trainer, text + at, 1, window) : window;
        assert_true(cut > 0);
        assert_int_equal(zr__tokenizer_trainer_add(trainer, text + at, cut), ZR_OK);
        at += (size_t)cut;
    }
    char *parts = learned(trainer, 400, &parts_n);
    assert_true(n_parts > 300);
    assert_int_equal(whole_n, parts_n);
    assert_string_equal(whole, parts);
    zr_free(whole);
    zr_free(parts);
}

/* Check that a learned tokenizer has every byte as a token and decodes any text, whatever it was learned from. */
static void what_was_learned_opens(void **state)
{
    (void)state;
    static const char text[] = "\"quoted\" \\back\\ \xff\xff\xfe \x7f\t\r\n na\xc3\xafve na\xc3\xafve <|endoftext|>";
    zr_tokenizer *t = NULL;
    int32_t tokens[256];
    char all[256];
    int64_t n = 0, vocab = 0;
    char *json = learned_from(text, sizeof(text) - 1, 270, &vocab);
    if (zr_tokenizer_open(put_file("tokenizer.json", json, strlen(json)), &t) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_int_equal(vocab, 270);
    assert_int_equal(zr_tokenizer_vocab(t), vocab);
    assert_int_equal(zr_tokenizer_token(t, "<|endoftext|>"), vocab - 1);
    assert_int_equal(zr_tokenizer_token(t, "!"), 0);
    assert_int_equal(zr_tokenizer_token(t, " "), 220);
    for (int i = 0; i < 256; i++) all[i] = (char)(255 - i);
    assert_int_equal(zr_tokenizer_encode(t, all, 256, tokens, 256, &n), ZR_OK);
    for (int64_t i = 0, at = 0; i < n; i++) {
        const char *piece;
        int64_t bytes = 0;
        assert_int_equal(zr_tokenizer_decode(t, tokens[i], &piece, &bytes), ZR_OK);
        assert_memory_equal(piece, all + at, (size_t)bytes);
        at += bytes;
        if (i == n - 1) assert_int_equal(at, 256);
    }
    zr_tokenizer_close(&t);
    zr_free(json);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    zr__tokenizer_trainer *trainer = opened();
    char *json = NULL;
    int64_t n = 0;
    assert_int_equal(zr__tokenizer_trainer_learn(trainer, 256, &json, &n), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "256 tokens; it must have 257 "));
    assert_int_equal(zr__tokenizer_trainer_learn(trainer, INT64_C(1) << 31, &json, &n), ZR_ERR_ARG);
    assert_null(json);
    zr__tokenizer_trainer_close(&trainer);
}

/* Check that the merges learned from the whole text equal the result of BpeTrainer in the package tokenizers 0.23.3,
 * with ByteLevel's initial alphabet. */
static void shakespeare_is_that_of_tokenizers(void **state)
{
    (void)state;
    static char text[2 << 20];
    const char *shared = getenv("ZR_SHARED");
    char path[PATH_MAX];
    int64_t n = 0;
    snprintf(path, sizeof(path), "%s/data/tinyshakespeare.txt", shared ? shared : "");
    FILE *file = shared ? fopen(path, "rb") : NULL;
    if (!file) {
        print_message("# the text is not here ($ZR_SHARED/data/tinyshakespeare.txt): not compared\n");
        skip();
    }
    size_t bytes = fread(text, 1, sizeof(text), file);
    fclose(file);
    char *json = learned_from(text, bytes, 1000, &n);
    const char *merges = strstr(json, "\"merges\"");
    assert_non_null(merges);
    assert_int_equal(n, 1000);
    assert_int_equal(XXH3_64bits(merges, strlen(merges)), 0x56c25660f04c9b31);
    zr_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_hand),
        cmocka_unit_test(ties_go_by_numbers),
        cmocka_unit_test(counts_are_kept_up),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(what_was_learned_opens),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(shakespeare_is_that_of_tokenizers),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
