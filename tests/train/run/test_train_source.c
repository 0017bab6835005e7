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
    double loss[MOST], val_loss;
    int evals, val_tokens;
    _Atomic int64_t passed[3]; /* elements of weights, gradients and other states */
    _Atomic int64_t filled;    /* elements of the optimizer's states that were asked for */
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
    if (strcmp(kind, "eval") != 0) return;
    s->evals++;
    assert_int_equal(sscanf(text, "{\"step\":%*d, \"val_loss\":%lf, \"val_tokens\":%d", &s->val_loss, &s->val_tokens),
                     2);
}

static seen made(void)
{
    seen s = {.fails_at = -1};
    for (int i = 0; i < ROWS * MOST * STRIDE; i++) s.rows[i / STRIDE][i % STRIDE] = (i * 7 + i / 5) % VOCAB;
    return s;
}

static zr_config *config_with(int ranks, const char *name, const char *more, const zr_source *train,
                              const zr_source *val)
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
    assert_int_equal(
        zr_train_config(NULL, keys, sizeof(keys) / sizeof(keys[0]), ranks, ZR_TRAIN_PLAIN, 0, train, val, &config),
        ZR_OK);
    return config;
}

static zr_config *config_for(int ranks, const char *name, const char *more)
{
    return config_with(ranks, name, more, NULL, NULL);
}

static zr_status train(seen *s, int ranks, const char *name, char **json)
{
    const zr_source source = {read_rows, s, 0};
    zr_config *config = config_with(ranks, name, "zero_optimization.stage=2", &source, NULL);
    const zr_status st = zr_train_threads(config, ranks, false, hear, s, &s->asked, json);
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

static zr_status read_val(void *arg, int64_t first, int64_t n, const int32_t **tokens, const int32_t **targets,
                          int64_t *stride)
{
    seen *s = arg;
    assert_true(first == 0 && n == ROWS);
    s->reads++;
    *tokens = s->rows[0];
    *targets = s->rows[0] + 1;
    *stride = STRIDE;
    return ZR_OK;
}

/* At a learning rate of 0, rows have the same loss in evaluations as in training. Each rank asks for them once. */
static void evaluations_take_the_programs_samples(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        char *json = NULL;
        seen s = made(), own = made();
        const zr_source train = {read_rows, &s, 0}, val = {read_val, &own, ROWS};
        zr_config *config = config_with(ranks, ranks == 1 ? "v1" : "v2", "optimizer.params.lr=0", &train, &val);
        assert_int_equal(zr_train_threads(config, ranks, false, hear, &s, NULL, &json), ZR_OK);
        assert_true(s.evals == 1 && s.val_tokens == ROWS * SEQ && own.reads == ranks);
        assert_float_equal(s.val_loss, s.loss[0], 1e-6);
        zr_free(json);
        zr_config_destroy(&config);
    }
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

static zr_status fill(void *arg, const char *state, const char *name, int64_t elems, int64_t first, int64_t n,
                      float *out)
{
    seen *s = arg;
    (void)name;
    assert_true(first >= 0 && first + n <= elems);
    const bool weight = strcmp(state, "weight") == 0;
    if (!weight) s->filled += n;
    for (int64_t i = 0; i < n; i++) out[i] = (weight ? 0.01f : 1e-4f) * (float)((first + i) % 7 + 1);
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
        const zr_reference args = {.steps = 2, .source = {read_rows, &s, 0}, .fill = fill, .read = take, .arg = &s};
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
        assert_int_equal(s.filled, 0);
        zr_reference later = args;
        later.updates = 3;
        assert_int_equal(zr_train_reference(config, 2, &later, &json), ZR_OK);
        assert_int_equal(s.filled, (stage == 0 ? 2 : 1) * 2 * params); /* each rank fills what it updates */
        zr_free(json);
        later.updates = -1;
        assert_int_equal(zr_train_reference(config, 2, &later, &json), ZR_ERR_ARG);
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
    assert_int_equal(zr_train_config(NULL, NULL, 0, 0, 0, 0, NULL, NULL, &config), ZR_ERR_ARG);
    assert_int_equal(zr_train_config(NULL, NULL, 0, 1, ZR_TRAIN_RESUMES, 0, NULL, NULL, &config), ZR_ERR_ARG);
    assert_null(config);
    static const struct {
        const char *key;
        zr_status status;
    } cases[] = {{"data.train=x.txt", ZR_ERR_CONFIG},
                 {"data.val=x.txt", ZR_ERR_CONFIG},
                 {"data.packing=whole", ZR_ERR_UNSUPPORTED},
                 {"train.eval_interval=1", ZR_ERR_DATA}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const zr_source source = {read_rows, &s, 0}, none = {read_rows, &s, 0};
        config = config_with(1, "unused", cases[i].key, &source, &none);
        assert_int_equal(zr_train_threads(config, 1, false, NULL, NULL, NULL, &json), cases[i].status);
        assert_null(json);
        zr_config_destroy(&config);
    }
    assert_int_equal(s.reads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_takes_the_programs_samples, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(evaluations_take_the_programs_samples, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(requests_and_failures_end_a_run, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(exact_steps_pass_each_element_once, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, tempdir_make, tempdir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
