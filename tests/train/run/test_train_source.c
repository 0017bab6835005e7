//TEST timeout=30 threads=1 tsan=1
/* Runs on threads with the program's own samples, and exact steps: what other languages call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/tempdir.h"
#include "zr.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 4, SEQ = 8, STRIDE = SEQ + 3, VOCAB = 32, STEPS = 3, MOST = 16 };

/** What a run asks for and reports. */
typedef struct seen {
    int32_t rows[ROWS * MOST][STRIDE];
    _Atomic int reads;
    int fails_at;            /* sample at which `read` fails, or -1 */
    int stops_at;            /* step at which the run is asked to stop, or 0 */
    int steps, saves, asked; /* events; *asked of zr_train_threads */
    double loss[MOST];
    _Atomic int64_t passed[3]; /* elements of weights, gradients and other states */
    double first_weight;
} seen;

static zr_status read_rows(void *arg, int64_t first, int64_t n, const int32_t **tokens, const int32_t **targets,
                           int64_t *stride)
{
    seen *s = arg;
    assert_int_equal(n, ROWS);
    assert_int_equal(*stride, SEQ);
    s->reads++;
    if (s->fails_at == first) return ZR_FAIL(ZR_ERR_DATA, "no sample %lld", (long long)first);
    *tokens = s->rows[first];
    *targets = s->rows[first] + 1;
    *stride = STRIDE;
    return ZR_OK;
}

static void hear(void *arg, const char *kind, const char *text)
{
    seen *s = arg;
    if (strcmp(kind, "step") == 0) {
        assert_int_equal(sscanf(text, "{\"step\":%*d, \"loss\":%lf", &s->loss[s->steps]), 1);
        if (++s->steps == s->stops_at) __atomic_store_n(&s->asked, 1, __ATOMIC_RELAXED);
    }
    s->saves += strcmp(kind, "saved") == 0;
}

static seen made(void)
{
    seen s = {.fails_at = -1};
    for (int i = 0; i < ROWS * MOST * STRIDE; i++) s.rows[i / STRIDE][i % STRIDE] = (i * 7 + i / 5) % VOCAB;
    return s;
}

static zr_config *config_for(int ranks, const char *name, const char *more)
{
    char out[512];
    zr_config *config = NULL;
    snprintf(out, sizeof(out), "train.output_dir=%s", in_tempdir(name));
    const char *const keys[] = {"model.n_layer=1",
                                "model.n_head=2",
                                "model.n_embd=16",
                                "model.vocab_size=32",
                                "model.n_positions=8",
                                "train_batch_size=4",
                                "train.steps=3",
                                "train.save_end=false",
                                "train.threads=1",
                                "train.save_model=false",
                                out,
                                more};
    assert_int_equal(zr_train_config(NULL, keys, sizeof(keys) / sizeof(keys[0]), ranks, ZR_TRAIN_PLAIN, 0, &config),
                     ZR_OK);
    return config;
}

static zr_status train(seen *s, int ranks, const char *name, char **json)
{
    zr_config *config = config_for(ranks, name, "zero_optimization.stage=2");
    const zr_source source = {read_rows, s};
    const zr_status st = zr_train_threads(config, ranks, false, &source, hear, s, &s->asked, json);
    zr_config_destroy(&config);
    return st;
}

static void a_run_takes_the_programs_samples(void **state)
{
    (void)state;
    char *json = NULL;
    seen one = made(), two = made(), other = made();
    assert_int_equal(train(&one, 1, "one", &json), ZR_OK);
    assert_non_null(strstr(json, "\"steps\":3"));
    zr_free(json);
    assert_true(one.steps == STEPS && one.reads == STEPS);
    assert_int_equal(train(&two, 2, "two", &json), ZR_OK);
    zr_free(json);
    assert_true(two.steps == STEPS && two.reads == 2 * STEPS);
    for (int i = 0; i < STEPS; i++) assert_float_equal(one.loss[i], two.loss[i], 1e-4);
    other.rows[ROWS + 1][3] = (other.rows[ROWS + 1][3] + 1) % VOCAB; /* in the second step */
    assert_int_equal(train(&other, 1, "other", &json), ZR_OK);
    zr_free(json);
    assert_true(other.loss[0] == one.loss[0] && other.loss[1] != one.loss[1]);
}

static void requests_and_failures_end_a_run(void **state)
{
    (void)state;
    static const struct {
        int fails_at, token, stops_at;
        zr_status status;
        const char *message;
    } cases[] = {
        {ROWS, 0, 0, ZR_ERR_DATA, "no sample 4"},
        {-1, VOCAB, 0, ZR_ERR_DATA, "sample 5 of the program: token 3 is 32, but the model has tokens 0 to 31"},
        {-1, -1, 0, ZR_ERR_DATA, "sample 5 of the program: token 3 is -1"},
        {-1, 0, 1, ZR_ERR_STOPPED, "stopped on request after step 1 of 3"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *json = NULL, name[8];
        seen s = made();
        snprintf(name, sizeof(name), "%zu", i);
        s.fails_at = cases[i].fails_at;
        s.stops_at = cases[i].stops_at;
        s.rows[ROWS + 1][3] = cases[i].token;
        assert_int_equal(train(&s, 2, name, &json), cases[i].status);
        assert_non_null(strstr(zr_error_message(), cases[i].message));
        assert_true((json != NULL) == (cases[i].stops_at > 0) && s.steps == 1);
        assert_int_equal(s.saves, cases[i].stops_at);
        zr_free(json);
    }
}

static zr_status fill(void *arg, const char *name, int64_t elems, int64_t first, int64_t n, float *out)
{
    (void)arg, (void)name;
    assert_true(first >= 0 && first + n <= elems);
    for (int64_t i = 0; i < n; i++) out[i] = 0.01f * (float)((first + i) % 7 + 1);
    return ZR_OK;
}

static zr_status take(void *arg, const char *what, const char *name, int64_t elems, int64_t first, int64_t n,
                      const float *in)
{
    seen *s = arg;
    assert_true(first >= 0 && first + n <= elems);
    s->passed[strcmp(what, "weight") == 0 ? 0 : strcmp(what, "grad") == 0 ? 1 : 2] += n;
    if (first == 0 && strcmp(what, "weight") == 0 && strcmp(name, "transformer.wte.weight") == 0)
        s->first_weight = in[0];
    return ZR_OK;
}

static void exact_steps_pass_each_element_once(void **state)
{
    (void)state;
    double weight[4];
    char losses[4][256];
    for (int stage = 0; stage < 4; stage++) {
        char *json = NULL, key[64];
        seen s = made();
        snprintf(key, sizeof(key), "zero_optimization.stage=%d", stage);
        zr_config *config = config_for(2, "unused", key);
        const zr_reference args = {.steps = 2, .source = {read_rows, &s}, .fill = fill, .read = take, .arg = &s};
        assert_int_equal(zr_train_reference(config, 2, &args, &json), ZR_OK);
        const int64_t params = 32 * 16 + 8 * 16 + 2 * 16 + (16 * 48 + 48) + (16 * 16 + 16) + 2 * 16 + (16 * 64 + 64) +
                               (64 * 16 + 16) + 2 * 16;
        assert_true(s.passed[0] == params && s.passed[2] == 2 * params);
        weight[stage] = s.first_weight;
        snprintf(losses[stage], sizeof(losses[stage]), "%.*s", (int)(strstr(json, "\"lr\"") - json), json);
        assert_non_null(strstr(json, "\"transformer.wte.weight\":[32, 16]"));
        assert_true(weight[stage] != 0.01f && weight[stage] == weight[0]);
        assert_string_equal(losses[stage], losses[0]);
        zr_free(json);
        s.fails_at = ROWS;
        assert_int_equal(zr_train_reference(config, 2, &args, &json), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "no sample 4"));
        zr_config_destroy(&config);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    zr_config *config = NULL;
    char *json = NULL;
    seen s = made();
    assert_int_equal(zr_train_config(NULL, NULL, 0, 0, 0, 0, &config), ZR_ERR_ARG);
    assert_int_equal(zr_train_config(NULL, NULL, 0, 1, ZR_TRAIN_RESUMES, 0, &config), ZR_ERR_ARG);
    assert_null(config);
    static const struct {
        const char *key;
        zr_status status;
    } cases[] = {{"data.train=x.txt", ZR_ERR_CONFIG}, {"data.packing=whole", ZR_ERR_UNSUPPORTED}};
    for (int i = 0; i < 2; i++) {
        config = config_for(1, "unused", cases[i].key);
        const zr_source source = {read_rows, &s};
        assert_int_equal(zr_train_threads(config, 1, false, &source, NULL, NULL, NULL, &json), cases[i].status);
        assert_null(json);
        zr_config_destroy(&config);
    }
    assert_int_equal(s.reads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_takes_the_programs_samples, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(requests_and_failures_end_a_run, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(exact_steps_pass_each_element_once, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, tempdir_make, tempdir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
