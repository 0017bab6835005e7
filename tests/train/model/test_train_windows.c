//TEST timeout=60
/* Evaluation by overlapping windows, for a model whose losses depend on a token's position in its window and follow a
 * formula: the window in which each token counts, the number of tokens, and the bytes of text; also with the tokenizer
 * of the weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hf_make.h"
#include "data/tokenizer/bpe_make.h"
#include "zr/data.h"
#include "zr/checkpoint.h"
#include "zr/run.h"

#include <math.h>

enum { C = 4, V = 260, T = 8, TOKENS = 83 };

static float table[V][C], place[T][C];
static const float ones[C] = {1, 1, 1, 1};
static int32_t token[TOKENS];

static zr_gpt2_config sizes(int64_t vocab)
{
    return (zr_gpt2_config){1, 1, C, T, vocab, 0, 0, 0, 1e-5, 0.02};
}

/* Write a model whose attention and hidden layer are zeros: the last norm's input is the sum of the token's row and its
 * place's row. */
static void write_model(const char *name, int64_t vocab)
{
    const zr_rng rng = {.seed = 5};
    const zr_gpt2_config hf = sizes(vocab);
    for (int i = 0; i < V * C; i++) table[i / C][i % C] = (float)(zr_rng_uniform(&rng, (uint64_t)i) - 0.5);
    for (int i = 0; i < T * C; i++) place[i / C][i % C] = (float)(zr_rng_uniform(&rng, (uint64_t)(i + V * C)) - 0.5);
    const hf_tensor known[] = {{"transformer.wte.weight", &table[0][0]},
                               {"transformer.wpe.weight", &place[0][0]},
                               {"transformer.ln_f.weight", ones}};
    hf_make(name, &hf, known, 3);
}

/* Return the loss of `target` after `token_before` at place p of its window. */
static double loss_at(int32_t token_before, int p, int32_t target, int vocab)
{
    double x[C], mean = 0, square = 0, sum = 0, logit = 0;
    for (int c = 0; c < C; c++) x[c] = (double)table[token_before][c] + place[p][c];
    for (int c = 0; c < C; c++) mean += x[c] / C;
    for (int c = 0; c < C; c++) square += pow(x[c] - mean, 2) / C;
    for (int v = 0; v < vocab; v++) {
        double dot = 0;
        for (int c = 0; c < C; c++) dot += (x[c] - mean) / sqrt(square + 1e-5) * table[v][c];
        sum += exp(dot);
        if (v == target) logit = dot;
    }
    return log(sum) - logit;
}

/* Return the mean loss with each target counted once: all targets of the first window, and the last S targets of each
 * later window, or fewer at the text's end. *count: number of targets. */
static double expected_loss(int64_t stride, int64_t tokens, int vocab, int64_t *count)
{
    double sum = 0;
    *count = 0;
    for (int64_t end = T; end < tokens - 1 + stride; end += stride) { /* end: the window's last target */
        for (int64_t target = end == T ? 1 : end - stride + 1; target <= end && target < tokens; target++, ++*count)
            sum += loss_at(token[target - 1], (int)(target - 1 - (end - T)), token[target], vocab);
    }
    return sum / (double)*count;
}

static zr_eval_result evaluate(const char *dir, const char *file, int64_t stride)
{
    const zr_eval_args args = {.data = in_tempdir(file), .threads = 1, .stride = stride};
    zr_eval_result result = {0};
    if (zr_eval_dir(in_tempdir(dir), &args, &result) != ZR_OK)
        fail_msg("stride %d: %s", (int)stride, zr_error_message());
    return result;
}

static void put_tokens(const char *name, int64_t n)
{
    unsigned char bytes[2 * TOKENS];
    for (int64_t i = 0; i < n; i++) {
        bytes[2 * i] = (unsigned char)token[i];
        bytes[2 * i + 1] = (unsigned char)(token[i] >> 8);
    }
    put_file(name, bytes, (size_t)(2 * n));
}

static void random_tokens(int vocab)
{
    const zr_rng rng = {.seed = 9};
    for (int i = 0; i < TOKENS; i++) token[i] = (int32_t)(zr_rng_uniform(&rng, (uint64_t)i) * vocab);
}

/* ---- which tokens ------------------------------------------------------------------------------- */

static void every_token_counts_once_where_it_should(void **state)
{
    (void)state;
    int64_t count = 0;
    write_model("model", V);
    random_tokens(V);
    put_tokens("text.bin", TOKENS);
    for (int64_t stride = 1; stride <= T; stride++) {
        double wanted = expected_loss(stride, TOKENS, V, &count);
        zr_eval_result got = evaluate("model", "text.bin", stride);
        assert_float_equal(got.loss, wanted, 1e-5);
        assert_float_equal(got.perplexity, exp(wanted), 1e-3);
        assert_int_equal(got.tokens, count);
        assert_int_equal(got.tokens, TOKENS - 1);
        assert_int_equal(got.stride, stride);
        assert_int_equal(got.seq, T);
    }
}

/* Check that without a stride the rest of the text is left out, as in a run's own evaluations. */
static void without_a_stride_the_rest_of_the_text_is_left_out(void **state)
{
    (void)state;
    enum { WHOLE = (TOKENS - 1) / T * T };
    int64_t count = 0;
    zr_eval_result none = evaluate("model", "text.bin", 0), all = evaluate("model", "text.bin", T);
    assert_int_equal(none.tokens, WHOLE);
    assert_int_equal(none.stride, T);
    assert_float_equal(none.loss, expected_loss(T, WHOLE + 1, V, &count), 1e-5);
    assert_int_equal(all.tokens, TOKENS - 1);
    put_tokens("whole.bin", WHOLE + 1);
    none = evaluate("model", "whole.bin", 0);
    all = evaluate("model", "whole.bin", T);
    assert_true(none.loss == all.loss && none.tokens == all.tokens);
    assert_true(fabs(evaluate("model", "whole.bin", 3).loss - all.loss) > 1e-3); /* the difference is visible */
}

static void a_text_of_one_window_is_enough(void **state)
{
    (void)state;
    int64_t count = 0;
    put_tokens("one.bin", T + 1);
    for (int64_t stride = 1; stride <= T; stride++) {
        zr_eval_result got = evaluate("model", "one.bin", stride);
        assert_int_equal(got.tokens, T);
        assert_float_equal(got.loss, expected_loss(stride, T + 1, V, &count), 1e-5);
    }
}

static void a_count_of_batches_is_so_many_tokens(void **state)
{
    (void)state;
    for (int64_t stride = 1; stride <= T; stride++) {
        const zr_eval_args args = {.data = in_tempdir("text.bin"), .threads = 1, .stride = stride, .batches = 3};
        zr_eval_result got;
        int64_t count = 0;
        assert_int_equal(zr_eval_dir(in_tempdir("model"), &args, &got), ZR_OK);
        assert_float_equal(got.loss, expected_loss(stride, 3 * T + 1, V, &count), 1e-5);
        assert_int_equal(got.tokens, count);
    }
}

typedef struct told {
    int64_t done, all, calls;
} told;

static void on_progress(void *arg, int64_t tokens, int64_t of_tokens)
{
    told *t = arg;
    assert_true(tokens > t->done && tokens <= of_tokens);
    *t = (told){tokens, of_tokens, t->calls + 1};
}

static void progress_ends_with_all_tokens(void **state)
{
    (void)state;
    told t = {0};
    const zr_eval_args args = {
        .data = in_tempdir("text.bin"), .threads = 1, .stride = 2, .progress = on_progress, .arg = &t};
    zr_eval_result got;
    assert_int_equal(zr_eval_dir(in_tempdir("model"), &args, &got), ZR_OK);
    assert_true(t.calls > 0);
    assert_int_equal(t.done, got.tokens);
    assert_int_equal(t.all, got.tokens);
}

/* ---- the weights' own tokenizer ----------------------------------------------------------------- */

static void put_tokenizer(const char *dir)
{
    char name[128];
    char *json = bpe_json("", BPE_BYTE_LEVEL, "\"type\": \"BPE\"", "\"ab\": 256, \"abc\": 257", "[\"a b\", \"ab c\"]");
    snprintf(name, sizeof name, "%s/tokenizer.json", dir);
    put_file(name, json, strlen(json));
    zr_free(json);
}

/* Return the bytes of the first n targets. */
static int64_t bytes_of_targets(int64_t n)
{
    int64_t bytes = 0;
    for (int64_t i = 1; i <= n; i++) bytes += token[i] == 256 ? 2 : token[i] == 257 ? 3 : 1;
    return bytes;
}

static void text_is_read_through_the_tokenizer(void **state)
{
    (void)state;
    static const char text[] = "abc ab a\nabcabcab xabc\xc3\xa9 abab cab and some more of the abc";
    zr_tokenizer *tokenizer = NULL;
    int64_t n = 0, count = 0;
    write_model("model", V);
    put_tokenizer("model");
    put_file("abc.txt", text, sizeof text - 1);
    assert_int_equal(zr_tokenizer_open(in_tempdir("model"), &tokenizer), ZR_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, sizeof text - 1, token, TOKENS, &n), ZR_OK);
    zr_tokenizer_close(&tokenizer);
    assert_in_range(n, 3 * T, (int)sizeof text - 10);
    put_tokens("abc.bin", n);
    const char *const files[] = {"abc.txt", "abc.bin"}; /* its tokens stand for the same text */
    for (int i = 0; i < 2; i++) {
        for (int64_t stride = 1; stride <= T; stride += 7) {
            zr_eval_result got = evaluate("model", files[i], stride);
            double wanted = expected_loss(stride, n, V, &count);
            assert_float_equal(got.loss, wanted, 1e-5);
            assert_int_equal(got.tokens, count);
            assert_int_equal(got.bytes, bytes_of_targets(count));
            assert_float_equal(got.bits_per_byte, wanted * (double)count / log(2) / (double)got.bytes, 1e-4);
            assert_string_equal(got.data, in_tempdir(files[i]));
        }
    }
}

static void what_no_tokenizer_knows_has_no_bytes(void **state)
{
    (void)state;
    random_tokens(V);
    token[5] = V - 1; /* in the model's vocabulary, but not in the tokenizer's */
    put_tokens("text.bin", TOKENS);
    zr_eval_result got = evaluate("model", "text.bin", 3);
    assert_true(isnan(got.bits_per_byte) && got.bytes == -1 && isfinite(got.loss));
    write_model("plain", V);
    got = evaluate("plain", "text.bin", 3);
    assert_true(isnan(got.bits_per_byte) && got.bytes == -1 && isfinite(got.loss));
}

static void a_text_of_few_tokens_is_too_short(void **state)
{
    (void)state;
    const zr_eval_args text = {.data = in_tempdir("abc.txt"), .threads = 1};
    const zr_eval_args brief = {.data = put_file("brief.txt", "abc abc abc", 11), .threads = 1};
    zr_eval_result result;
    const zr_eval_args strided = {.data = brief.data, .threads = 1, .stride = 2};
    assert_int_equal(zr_eval_dir(in_tempdir("model"), &text, &result), ZR_OK);
    assert_int_equal(zr_eval_dir(in_tempdir("model"), &brief, &result), ZR_ERR_DATA);
    assert_int_equal(zr_eval_dir(in_tempdir("model"), &strided, &result), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "brief.txt: "));
    assert_non_null(strstr(zr_error_message(), "at least 9 are needed"));
}

/* Check that each source has its own windows, and that a stride shorter than a window, with windows that reach into the
 * next source, is refused. */
static void several_sources_have_windows_side_by_side(void **state)
{
    (void)state;
    char both[1024];
    zr_eval_result got;
    snprintf(both, sizeof both, "[{\"path\": \"%s\", \"weight\": 1}, {\"path\": \"%s\", \"weight\": 1}]",
             in_tempdir("text.bin"), in_tempdir("one.bin"));
    zr_eval_args args = {.data = both, .threads = 1};
    if (zr_eval_dir(in_tempdir("plain"), &args, &got) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(got.tokens, (TOKENS - 1) / T * T + T);
    args.stride = 4;
    assert_int_equal(zr_eval_dir(in_tempdir("plain"), &args, &got), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "2 sources"));
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void refused(const char *dir, const char *file, int64_t stride, zr_status wanted, const char *fragment)
{
    const zr_eval_args args = {.data = in_tempdir(file), .threads = 1, .stride = stride};
    zr_eval_result result = {0};
    zr_status st = zr_eval_dir(in_tempdir(dir), &args, &result);
    if (st != wanted || !strstr(zr_error_message(), fragment))
        fail_msg("%s, %s: status %d, %s", dir, file, st, zr_error_message());
}

static void bad_input_is_named(void **state)
{
    (void)state;
    put_tokens("short.bin", T);
    refused("model", "text.bin", T + 1, ZR_ERR_ARG, "a stride of 9 tokens; windows have 8, so 1 .. 8");
    refused("model", "text.bin", -1, ZR_ERR_ARG, "a stride of -1");
    refused("model", "short.bin", 2, ZR_ERR_DATA, "at least 9 are needed (seq_length 8 and one more)");
    refused("model", "none.txt", 2, ZR_ERR_NOT_FOUND, "none.txt");
    refused("plain", "abc.txt", 2, ZR_ERR_UNSUPPORTED, "put its tokenizer.json");
    put_file("model/tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}", 30);
    refused("model", "abc.txt", 2, ZR_ERR_DATA, "Unigram");
    assert_int_equal(evaluate("model", "text.bin", 2).bytes, -1); /* tokens need no tokenizer */
    put_file("model/tokenizer.json", "{", 1);
    refused("model", "abc.txt", 2, ZR_ERR_DATA, "tokenizer.json");
}

static int set_up(void **state)
{
    if (tempdir_make(state)) return -1;
    return setenv("XDG_CACHE_HOME", tempdir, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_counts_once_where_it_should),
        cmocka_unit_test(without_a_stride_the_rest_of_the_text_is_left_out),
        cmocka_unit_test(a_text_of_one_window_is_enough),
        cmocka_unit_test(a_count_of_batches_is_so_many_tokens),
        cmocka_unit_test(progress_ends_with_all_tokens),
        cmocka_unit_test(text_is_read_through_the_tokenizer),
        cmocka_unit_test(what_no_tokenizer_knows_has_no_bytes),
        cmocka_unit_test(a_text_of_few_tokens_is_too_short),
        cmocka_unit_test(several_sources_have_windows_side_by_side),
        cmocka_unit_test(bad_input_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tempdir_remove);
}
