//TEST timeout=60
/* Drawing from the likeliest tokens by number (top-k) and by share (top-p), several samples of one prompt, and texts
 * that end a sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hf_make.h"
#include "zr/checkpoint.h"
#include "zr/run.h"

#include <math.h>

enum { C = 4, V = 256, T = 8, SAMPLES = 4, DRAWS = 400 };

static const zr_gpt2_config known_sizes = {1, 1, C, T, V, 0, 0, 0, 1e-5, 0.02};
static const zr_gpt2_config random_sizes = {2, 2, 8, T, V, 0, 0, 0, 1e-5, 0.02};

/* Make two models. "known": the logits are 2 for B, 1 for D, M, X and Z, else 0, whatever the text before. "random":
 * each logit depends on all tokens in the cache. */
static int set_up(void **state)
{
    static float table[V][C];
    const float first[C] = {1};
    const hf_tensor known[] = {{"transformer.wte.weight", &table[0][0]}, {"transformer.ln_f.bias", first}};
    if (tempdir_make(state)) return -1;
    table['B'][0] = 2;
    table['D'][0] = table['M'][0] = table['X'][0] = table['Z'][0] = 1;
    hf_make("known", &known_sizes, known, 2);
    hf_make("random", &random_sizes, NULL, 0);
    hf_randomize("random", 3, 1.2);
    return 0;
}

/* The outcome of a call: the text of each sample, and the number of pieces of the first. */
typedef struct texts {
    zr__text text[SAMPLES];
    zr_generated did[SAMPLES];
    int n, pieces;
} texts;

static zr_status on_text(void *arg, const char *text, int64_t bytes)
{
    texts *t = arg;
    t->pieces += t->n == 0;
    for (int64_t i = 0; i < bytes; i++) { /* write each byte as two letters, so that no byte ends the string */
        unsigned char byte = (unsigned char)text[i];
        zr__text_add(&t->text[t->n], "%c%c", 'a' + byte / 16, 'a' + byte % 16);
    }
    return ZR_OK;
}

static zr_status on_done(void *arg, const zr_generated *did)
{
    texts *t = arg;
    assert_true(t->n < SAMPLES && did->sample == t->n);
    t->did[t->n++] = *did;
    return ZR_OK;
}

static texts generate(const char *dir, zr_generate_args args)
{
    texts t = {0};
    args.prompt_bytes = (int64_t)strlen(args.prompt);
    args.threads = 1;
    args.done = on_done;
    if (zr_generate(in_tempdir(dir), &args, on_text, &t) != ZR_OK) fail_msg("%s", zr_error_message());
    return t;
}

static const char *text_of(const texts *t, int i)
{
    return t->text[i].data ? t->text[i].data : "";
}

static void forget(texts *t)
{
    for (int i = 0; i < SAMPLES; i++) zr__text_clear(&t->text[i]);
}

/* ---- the share of the likeliest ----------------------------------------------------------------- */

/* Draw tokens, and count B, D, M, X and Z. Return the number of different tokens drawn, after checking that they are
 * the first ones of this list. If other tokens were drawn, return more than 5. */
static int kinds(int64_t k, double p, double temperature, int counts[5])
{
    static const char likeliest[] = "BDMXZ";
    texts t = generate(
        "known", (zr_generate_args){
                     .prompt = "A", .tokens = DRAWS, .temperature = temperature, .top_k = k, .top_p = p, .seed = 21});
    int others = 0, n = 0;
    memset(counts, 0, 5 * sizeof *counts);
    for (const char *at = text_of(&t, 0); *at; at += 2) {
        const char *found = strchr(likeliest, (at[0] - 'a') * 16 + at[1] - 'a');
        if (found && *found)
            counts[found - likeliest]++;
        else
            others++;
    }
    forget(&t);
    if (others) return 5 + others;
    for (int i = 0; i < 5; i++) {
        n += counts[i] > 0;
        assert_true(counts[i] == 0 || n == i + 1); /* of equally likely tokens, the first ones are drawn */
    }
    return n;
}

static void a_share_keeps_the_fewest_that_have_it(void **state)
{
    (void)state;
    int counts[5];
    /* Shares of all tokens: B has the weight e^2, each of D, M, X and Z has e, and the sum is e^2 + 4e + 251. */
    const double all = exp(2) + 4 * exp(1) + 251;
    assert_int_equal(kinds(0, 0.5 * exp(2) / all, 1, counts), 1);
    assert_int_equal(kinds(0, 0.999 * exp(2) / all, 1, counts), 1);
    assert_int_equal(kinds(0, 1.001 * exp(2) / all, 1, counts), 2);
    assert_int_equal(kinds(0, (exp(2) + 3.5 * exp(1)) / all, 1, counts), 5);
    assert_true(kinds(0, 0.5, 1, counts) > 5);
    /* With top-k 5, a share is relative to the sum of the five likeliest. */
    const double five = exp(2) + 4 * exp(1);
    assert_int_equal(kinds(5, 0.999 * exp(2) / five, 1, counts), 1);
    assert_int_equal(kinds(5, (exp(2) + 1.5 * exp(1)) / five, 1, counts), 3);
    assert_int_equal(kinds(5, 1, 1, counts), 5);
    assert_int_equal(kinds(5, 0.999, 1, counts), 5);
    /* The temperature is applied first: at the lower one, B alone exceeds the share. */
    assert_int_equal(kinds(5, 0.6, 1, counts), 3);
    assert_int_equal(kinds(5, 0.6, 0.5, counts), 1);
    /* The tokens that may be drawn keep the ratios of their probabilities. */
    assert_int_equal(kinds(0, 1.001 * exp(2) / all, 1, counts), 2);
    assert_float_equal(counts[0] / (double)DRAWS, exp(2) / (exp(2) + exp(1)), 0.06);
}

static void a_share_of_all_changes_nothing(void **state)
{
    (void)state;
    zr_generate_args args = {.prompt = "abc", .tokens = 30, .temperature = 1, .seed = 4};
    texts none = generate("random", args);
    args.top_p = 1;
    texts all = generate("random", args);
    assert_string_equal(text_of(&none, 0), text_of(&all, 0));
    forget(&none);
    forget(&all);
}

/* ---- samples ------------------------------------------------------------------------------------ */

static void samples_are_those_of_their_seeds(void **state)
{
    (void)state;
    const char *const prompts[] = {"", "a", "abc", "abcdefgh", "abcdefghijk"}; /* up to T tokens, and more */
    const int64_t tokens[] = {1, 4, 20};
    for (int p = 0; p < 5; p++) {
        for (int n = 0; n < 3; n++) {
            zr_generate_args args = {
                .prompt = prompts[p], .tokens = tokens[n], .temperature = 1, .seed = 6, .samples = SAMPLES};
            texts all = generate("random", args);
            assert_int_equal(all.n, SAMPLES);
            args.samples = 0;
            for (int i = 0; i < SAMPLES; i++, args.seed++) {
                texts one = generate("random", args);
                assert_int_equal(one.n, 1);
                assert_string_equal(text_of(&all, i), text_of(&one, 0));
                assert_true(all.did[i].seed == args.seed && all.did[i].tokens == tokens[n] && !all.did[i].stopped);
                assert_int_equal(strlen(text_of(&one, 0)), 2 * tokens[n]);
                forget(&one);
            }
            if (tokens[n] > 1) assert_string_not_equal(text_of(&all, 0), text_of(&all, 1));
            forget(&all);
        }
    }
}

/* ---- the end of a sample ------------------------------------------------------------------------ */

static void a_sample_ends_before_a_text(void **state)
{
    (void)state;
    zr_generate_args args = {
        .prompt = "A", .tokens = 60, .temperature = 1, .top_k = 5, .seed = 2, .samples = SAMPLES, .n_stop = 0};
    texts whole = generate("known", args);
    const char *const stop[] = {"MD", "ZXB"}; /* stop texts end some samples, and the number of tokens the others */
    args.stop = stop;
    args.n_stop = 2;
    texts ended = generate("known", args);
    int stopped = 0;
    for (int i = 0; i < SAMPLES; i++) {
        const char *a = strstr(text_of(&whole, i), "enee"), *b = strstr(text_of(&whole, i), "fkfiec");
        assert_true(a == NULL || (a - text_of(&whole, i)) % 2 == 0);
        const char *first = !a || (b && b < a) ? b : a;
        size_t length = first ? (size_t)(first - text_of(&whole, i)) : strlen(text_of(&whole, i));
        assert_int_equal(strlen(text_of(&ended, i)), length);
        assert_memory_equal(text_of(&ended, i), text_of(&whole, i), length);
        assert_int_equal(ended.did[i].stopped, first != NULL);
        int64_t tokens = first ? (int64_t)length / 2 + (first == a ? 2 : 3) : 60;
        assert_int_equal(ended.did[i].tokens, tokens);
        stopped += ended.did[i].stopped;
    }
    assert_true(stopped > 0);
    forget(&whole);
    forget(&ended);
}

/* Check that text held back as the beginning of a stop text is reported when the sample ends. */
static void what_is_held_back_is_told_at_the_end(void **state)
{
    (void)state;
    const char *const stop[] = {"BBBBBB"};
    const zr_generate_args args = {.prompt = "A", .tokens = 5, .stop = stop, .n_stop = 1};
    texts t = generate("known", args); /* B is the likeliest */
    assert_string_equal(text_of(&t, 0), "ececececec");
    assert_true(!t.did[0].stopped && t.pieces == 1);
    forget(&t);
    zr_generate_args longer = args;
    longer.tokens = 9;
    t = generate("known", longer);
    assert_string_equal(text_of(&t, 0), "");
    assert_true(t.did[0].stopped && t.did[0].tokens == 6 && t.pieces == 0);
    forget(&t);
    longer.n_stop = 0;
    t = generate("known", longer);
    assert_int_equal(t.pieces, 9); /* a token at a time */
    forget(&t);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    const char *const empty[] = {"a", ""};
    const zr_generate_args bad[] = {
        {.prompt = "A", .tokens = 1, .top_p = -0.1},
        {.prompt = "A", .tokens = 1, .top_p = 1.5},
        {.prompt = "A", .tokens = 1, .top_p = NAN},
        {.prompt = "A", .tokens = 1, .samples = -1},
        {.prompt = "A", .tokens = 1, .stop = empty, .n_stop = 2},
    };
    const char *const fragment[] = {"top-p of -0.1", "top-p of 1.5", "top-p of", "-1 samples", "an empty text"};
    texts t = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(zr_generate(in_tempdir("known"), &bad[i], on_text, &t), ZR_ERR_ARG);
        assert_non_null(strstr(zr_error_message(), fragment[i]));
    }
    assert_int_equal(t.pieces, 0);
}

/* ---- tokens that end a text, and answers ------------------------------------------------------- */

static void put_settings(const char *text)
{
    put_file("known/generation_config.json", text, strlen(text));
}

static void a_text_ends_at_end_tokens(void **state)
{
    (void)state;
    /* the likeliest token is B (66) */
    static const char *const ends[] = {"{\"eos_token_id\": 66}", "{\"eos_token_id\": [1, 66]}"};
    zr_generate_args args = {.prompt = "A", .tokens = 5};
    for (int i = 0; i < 2; i++) {
        put_settings(ends[i]);
        texts t = generate("known", args);
        assert_string_equal(text_of(&t, 0), "");
        assert_true(t.did[0].stopped && t.did[0].tokens == 1);
        forget(&t);
    }
    args.past_end = true;
    texts t = generate("known", args);
    assert_string_equal(text_of(&t, 0), "ececececec");
    assert_true(!t.did[0].stopped && t.did[0].tokens == 5);
    forget(&t);
    args.past_end = false;
    put_settings("{\"eos_token_id\": [65, 67]}");
    t = generate("known", args);
    assert_string_equal(text_of(&t, 0), "ececececec");
    forget(&t);
    put_settings("{\"eos_token_id\": \"B\"}");
    args.prompt_bytes = 1;
    assert_int_equal(zr_generate(in_tempdir("known"), &args, on_text, &t), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "eos_token_id has \"B\"; expected the number of a token"));
}

static void settings_of_a_directory(void **state)
{
    (void)state;
    zr_sampling s;
    put_settings("{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": null}");
    assert_int_equal(zr_sampling_of_dir(in_tempdir("known"), &s), ZR_OK);
    assert_true(s.temperature == 0.6 && s.top_p == 0.9 && s.top_k == 50);
    put_settings("{\"temperature\": 0.6}");
    assert_int_equal(zr_sampling_of_dir(in_tempdir("known"), &s), ZR_OK);
    assert_true(s.temperature == 0 && s.top_p == 1 && s.top_k == 0);
    put_settings("{\"do_sample\": true, \"top_p\": 2}");
    assert_int_equal(zr_sampling_of_dir(in_tempdir("known"), &s), ZR_ERR_DATA);
    unlink(in_tempdir("known/generation_config.json"));
    assert_int_equal(zr_sampling_of_dir(in_tempdir("known"), &s), ZR_ERR_NOT_FOUND);
}

/* Check that a message is converted to text by the chat template. The random model depends on the whole text. */
static void a_message_is_rendered(void **state)
{
    (void)state;
    zr_generate_args args = {
        .prompt = "x", .tokens = 3, .chat = true, .chat_template = "mistral-tekken", .system = "b"};
    texts answer = generate("random", args);
    texts same = generate("random", (zr_generate_args){.prompt = "<s>[INST]b\n\nx[/INST]", .tokens = 3});
    texts other = generate("random", (zr_generate_args){.prompt = "x", .tokens = 3});
    assert_string_equal(text_of(&answer, 0), text_of(&same, 0));
    assert_string_not_equal(text_of(&answer, 0), text_of(&other, 0));
    forget(&answer);
    forget(&same);
    forget(&other);
    args.chat_template = NULL;
    args.prompt_bytes = 1;
    assert_int_equal(zr_generate(in_tempdir("random"), &args, on_text, &answer), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "has none; name a form"));
    args.chat_template = "mistral";
    assert_int_equal(zr_generate(in_tempdir("random"), &args, on_text, &answer), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "no place"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_keeps_the_fewest_that_have_it),
        cmocka_unit_test(a_share_of_all_changes_nothing),
        cmocka_unit_test(samples_are_those_of_their_seeds),
        cmocka_unit_test(a_sample_ends_before_a_text),
        cmocka_unit_test(what_is_held_back_is_told_at_the_end),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_text_ends_at_end_tokens),
        cmocka_unit_test(settings_of_a_directory),
        cmocka_unit_test(a_message_is_rendered),
    };
    return cmocka_run_group_tests(tests, set_up, tempdir_remove);
}
