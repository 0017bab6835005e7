//TEST timeout=120
/* Fine-tuning with model.frozen: from a Hugging Face directory, at every stage, with asynchronous and synchronous
 * checkpoints, resumed at another number of ranks. Frozen tensors keep their exact bits and the others learn;
 * impossible settings are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hf_make.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/run.h"

enum { STEPS = 24, KEYS = 24, MESSAGE = 2048, NOTES = 4096, ELEMS = 1 << 13 };

static const zr_gpt2_config hf = {2, 2, 16, 8, 256, 0, 0, 0, 1e-5, 0.02};
static const char *const frozen[] = {"transformer.wte.weight", "transformer.h.0.attn.c_attn.weight",
                                     "transformer.h.0.ln_1.bias", "transformer.h.1.mlp.c_proj.weight"};
#define PATTERNS "[\"wte.*\",\"h.0.*\",\"transformer.h.1.mlp.c_proj.weight\"]"

typedef struct told {
    zr_status status;
    char message[MESSAGE], notes[NOTES];
    double loss[STEPS];
    int steps;
    int64_t states_bytes;
} told;

typedef struct job {
    told *told;
    zr_config *config;
    bool resume;
} job;

static void on_step(void *arg, const zr_train_step *step)
{
    told *t = arg;
    assert_true(t->steps < STEPS);
    t->loss[t->steps++] = step->loss;
}

static void on_note(void *arg, const char *text)
{
    told *t = arg;
    const size_t used = strlen(t->notes);
    snprintf(t->notes + used, NOTES - used, "%s\n", text);
}

static zr_status train_rank(zr_comm *comm, void *arg)
{
    const job *j = arg;
    const zr_observer none = {0}, first = {.arg = j->told, .step = on_step, .note = on_note};
    zr_train_result result = {0};
    zr_status st =
        (j->resume ? zr_train_resume : zr_train_run)(j->config, comm, comm->rank == 0 ? &first : &none, &result);
    if (comm->rank != 0) return st;
    j->told->states_bytes = result.planned.memory.states_bytes;
    snprintf(j->told->message, MESSAGE, "%s", st == ZR_OK ? "" : zr_error_message());
    return st;
}

static const char base[] =
    "{\"model\": {\"init\": \"%s/hf\"}, \"data\": {\"train\": \"%s/text\"}, \"train_batch_size\": "
    "4, \"optimizer\": {\"params\": {\"lr\": 0.01, \"weight_decay\": 0.1}}, \"train\": {\"steps\": "
    "4, \"eval_interval\": 0, \"threads\": 1, \"save_interval\": 2, \"output_dir\": \"%s/%s\"}}";

/* Train in tempdir/`dir`; `keys` are overrides separated by spaces. */
static told train(const char *dir, int ranks, bool resume, const char *keys)
{
    char text[1400], split[600], *override[KEYS];
    told t = {0};
    job j = {.told = &t, .resume = resume};
    int n = 0;
    snprintf(split, sizeof split, "%s", keys);
    for (char *key = strtok(split, " "); key && n < KEYS; key = strtok(NULL, " ")) override[n++] = key;
    snprintf(text, sizeof text, base, tempdir, tempdir, tempdir, dir);
    t.status = zr_config_parse(text, strlen(text), "c.json", (const char *const *) override, n, &j.config);
    if (t.status == ZR_OK) t.status = zr_train_prepare(j.config, ranks, 0);
    if (t.status == ZR_OK)
        t.status = zr_comm_threads_run(ranks, train_rank, &j);
    else
        snprintf(t.message, MESSAGE, "%s", zr_error_message());
    zr_config_destroy(&j.config);
    return t;
}

static told expect_ok(told t)
{
    if (t.status != ZR_OK) fail_msg("status %d: %s", t.status, t.message);
    return t;
}

/* ---- weights ----------------------------------------------------------------------------------- */

static int64_t read_tensor(const char *path, const char *name, float *value)
{
    zr_safetensors *file = NULL;
    if (zr_safetensors_open(in_tempdir(path), &file) != ZR_OK) fail_msg("%s", zr_error_message());
    const zr_safetensors_tensor *t = zr_safetensors_find(file, name);
    const int64_t n = t ? t->elems : 0;
    assert_true(n <= ELEMS);
    if (t) assert_int_equal(zr_safetensors_read_f32(file, t, 0, n, value), ZR_OK);
    zr_safetensors_close(&file);
    return n;
}

static float round_to(zr_dtype dtype, float x)
{
    return dtype == ZR_BF16 ? zr_f32_from_bf16(zr_bf16_from_f32(x)) : x;
}

/* Check that frozen tensors equal the directory's, rounded to the run's type, and that the others have changed. */
static void expect_weights(const char *path, zr_dtype dtype)
{
    static float was[ELEMS], is[ELEMS];
    char from[] = "hf/model.safetensors";
    for (size_t i = 0; i < sizeof frozen / sizeof *frozen; i++) {
        const int64_t n = read_tensor(from, frozen[i], was);
        assert_int_equal(read_tensor(path, frozen[i], is), n);
        for (int64_t e = 0; e < n; e++) was[e] = round_to(dtype, was[e]);
        if (n == 0 || memcmp(was, is, sizeof(float) * (size_t)n) != 0) fail_msg("%s: %s has moved", path, frozen[i]);
    }
    static const char *const others[] = {"transformer.wpe.weight", "transformer.h.1.attn.c_attn.weight"};
    for (int i = 0; i < 2; i++) {
        const int64_t n = read_tensor(from, others[i], was);
        assert_int_equal(read_tensor(path, others[i], is), n);
        if (memcmp(was, is, sizeof(float) * (size_t)n) == 0) fail_msg("%s: %s has not moved", path, others[i]);
    }
}

/* ---- runs --------------------------------------------------------------------------------------- */

static void test_it_learns(void **state)
{
    (void)state;
    const told all = expect_ok(train("all", 1, false, "train.steps=20 optimizer.params.lr=0.03"));
    const told t =
        expect_ok(train("learns", 2, false, "train.steps=20 optimizer.params.lr=0.03 model.frozen=" PATTERNS));
    assert_int_equal(t.steps, 20);
    if (!(t.loss[19] < t.loss[0] - 0.3)) fail_msg("loss from %g to %g", t.loss[0], t.loss[19]);
    assert_float_equal(t.loss[0], all.loss[0], 1e-5);
    assert_true(t.states_bytes < all.states_bytes);
    expect_weights("learns/model/model.safetensors", ZR_F32);
}

/* Check that losses are the same at every stage, with checkpoints from a copy, in place and synchronous. */
static void test_stages(void **state)
{
    (void)state;
    static const char *const saved[] = {"memory.limit=1GB", "checkpoint.async=true", "checkpoint.async=false"};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        told first = {0};
        for (int stage = 0; stage <= 3; stage++) {
            char keys[400], dir[32], path[96];
            snprintf(dir, sizeof dir, "stage%d%d", stage, bf16);
            snprintf(keys, sizeof keys,
                     "zero_optimization.stage=%d bf16.enabled=%s memory.layout=%s %s model.frozen=%s", stage,
                     bf16 ? "true" : "false", stage % 2 ? "lean" : "paper", saved[stage % 3], PATTERNS);
            const told t = expect_ok(train(dir, 2, false, keys));
            if (stage == 0) first = t;
            assert_int_equal(t.steps, 4);
            assert_memory_equal(t.loss, first.loss, sizeof t.loss);
            snprintf(path, sizeof path, "%s/model/model.safetensors", dir);
            expect_weights(path, bf16 ? ZR_BF16 : ZR_F32);
            snprintf(path, sizeof path, "%s/step-00000002/model.safetensors", dir);
            expect_weights(path, bf16 ? ZR_BF16 : ZR_F32);
            snprintf(path, sizeof path, "%s/step-00000002/exp_avg.safetensors", dir);
            static float some[ELEMS];
            assert_int_equal(read_tensor(path, frozen[0], some), 0);
            assert_true(read_tensor(path, "transformer.wpe.weight", some) > 0);
        }
    }
}

/* Check a resume on other ranks, at another stage, and on two tensor-parallel ranks. */
static void test_resume(void **state)
{
    (void)state;
    char keys[300];
    expect_ok(train("resumed", 2, false, "zero_optimization.stage=1 bf16.enabled=true model.frozen=" PATTERNS));
    for (int stage = 3; stage >= 0; stage--) {
        snprintf(keys, sizeof keys, "zero_optimization.stage=%d bf16.enabled=true train.steps=%d %s model.frozen=%s",
                 stage, 12 - 2 * stage, stage == 2 ? "parallel.tensor=2" : "", PATTERNS);
        const told t = expect_ok(train("resumed", 4 - stage % 2 * 2, true, keys));
        assert_int_equal(t.steps, 2);
        expect_weights("resumed/model/model.safetensors", ZR_BF16);
    }
}

/* Check an fp32 run resumed in 16 bits: rounding of the frozen parameters is noted once, and their bits are the rounded
 * ones. */
static void test_resume_rounds(void **state)
{
    (void)state;
    static const char rounded[] = "frozen parameters are rounded to 16 bits";
    expect_ok(train("rounded", 1, false, "model.frozen=" PATTERNS));
    told t = expect_ok(train("rounded", 1, true, "train.steps=6 model.frozen=" PATTERNS));
    assert_null(strstr(t.notes, rounded));
    t = expect_ok(train("rounded", 1, true, "train.steps=8 bf16.enabled=true model.frozen=" PATTERNS));
    assert_non_null(strstr(t.notes, rounded));
    expect_weights("rounded/model/model.safetensors", ZR_BF16);
    t = expect_ok(train("rounded", 1, true, "train.steps=10 bf16.enabled=true model.frozen=" PATTERNS));
    assert_null(strstr(t.notes, rounded));
}

/* Check that a converted directory has no frozen set yet: the first training chooses it, and later ones must keep
 * it. */
static void test_converted(void **state)
{
    (void)state;
    char from[PATH_MAX], to[PATH_MAX];
    zr__converted did;
    snprintf(from, sizeof from, "%s", in_tempdir("hf"));
    snprintf(to, sizeof to, "%s", in_tempdir("tuned"));
    const zr__convert_args args = {.from = from, .to = to, .kind = ZR_CONVERT_RUN, .dtype = ZR_F32};
    if (zr__convert_dir(&args, &did) != ZR_OK) fail_msg("%s", zr_error_message());
    expect_ok(train("tuned", 2, true, "model.frozen=" PATTERNS));
    expect_weights("tuned/model/model.safetensors", ZR_F32);
    const told t = train("tuned", 2, true, "train.steps=6");
    assert_int_equal(t.status, ZR_ERR_CONFIG);
    assert_non_null(strstr(t.message, "model.frozen is null, but "));
}

/* ---- refusals ------------------------------------------------------------------------------------ */

static void refused(told t, zr_status status, const char *why)
{
    assert_int_equal(t.status, status);
    if (!strstr(t.message, why)) fail_msg("\"%s\" does not say \"%s\"", t.message, why);
}

static void test_another_set(void **state)
{
    (void)state;
    static const char why[] = "a resumed run keeps its model";
    expect_ok(train("set", 1, false, "model.frozen=wte.*"));
    refused(train("set", 1, true, "train.steps=6 model.frozen=wpe.*"), ZR_ERR_CONFIG,
            "model.frozen is \"wpe.*\", but \"wte.*\" in step-00000004");
    refused(train("set", 1, true, "train.steps=6"), ZR_ERR_CONFIG, why);
    refused(train("set", 1, true, "train.steps=6 model.frozen=[\"wte.*\",\"h.0.*\"]"), ZR_ERR_CONFIG, why);
    expect_ok(train("set", 1, true, "train.steps=6 model.frozen=[\"wte.*\"]"));
}

static void test_bad_patterns(void **state)
{
    (void)state;
    refused(train("bad", 1, false, "model.frozen=h.2.*"), ZR_ERR_CONFIG,
            "model.frozen: \"h.2.*\" matches no parameter");
    refused(train("bad", 2, false, "model.frozen=[\"wte.*\",\"attn\"]"), ZR_ERR_CONFIG,
            "\"attn\" matches no parameter");
    refused(train("bad", 1, false, "model.frozen=*"), ZR_ERR_CONFIG, "nothing would train");
    refused(train("bad", 1, false, "model.frozen=[]"), ZR_ERR_CONFIG,
            "model.frozen: found [], wanted a pattern of names, a list of one or more, or null for none");
    refused(train("bad", 1, false, "model.frozen=[\"wte.*\",3]"), ZR_ERR_CONFIG, "model.frozen[1]: found 3");
    refused(train("bad", 1, false, "model.frozen={\"path\":\"wte.*\"}"), ZR_ERR_CONFIG, "model.frozen");
    assert_int_not_equal(access(in_tempdir("bad"), F_OK), 0);
}

static int make_inputs(void **state)
{
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 7);
    if (tempdir_make(state) != 0) return -1;
    put_file("text", text, sizeof text);
    hf_make("hf", &hf, NULL, 0);
    hf_randomize("hf", 5, 0.1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_learns),   cmocka_unit_test(test_stages),       cmocka_unit_test(test_resume),
        cmocka_unit_test(test_another_set), cmocka_unit_test(test_bad_patterns), cmocka_unit_test(test_resume_rounds),
        cmocka_unit_test(test_converted),
    };
    return cmocka_run_group_tests(tests, make_inputs, tempdir_remove);
}
