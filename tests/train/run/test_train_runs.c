//TEST timeout=120 tsan=1
/* Whole runs: fp16's loss scale from step to step, runs that diverge, evaluation independent of the number of ranks, a
 * memory limit from the host, and weights that are read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/tempdir.h"
#include "train/dir/metrics.h"
#include "train/dir/report.h"
#include "train/host/device.h"
#include "train/host/limits.h"
#include "train/setup/setup.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <jansson.h>
#include <math.h>

enum { STEPS_MAX = 80, RANKS_MAX = 4, NOTES_BYTES = 32768 };

/* The record of a run: steps and notes told by rank 0, status and message of each rank. */
typedef struct job {
    zr_config *config;
    zr_train_step step[STEPS_MAX];
    double val_loss[STEPS_MAX];
    int64_t val_tokens[STEPS_MAX];
    int steps, evals;
    int32_t schedule_steps; /* number of steps in all schedules */
    char notes[NOTES_BYTES];
    zr_status status[RANKS_MAX];
    bool agreed[RANKS_MAX];
    char message[RANKS_MAX][512];
    zr_train_result result; /* rank 0's result */
} job;

static void on_start(void *arg, const zr_train_info *info)
{
    job *j = arg;
    for (int k = 0; k < ZR_SCHEDULES; k++) j->schedule_steps += info->plan->schedule[k].n_steps;
}

static void on_step(void *arg, const zr_train_step *step)
{
    job *j = arg;
    assert_true(j->steps < STEPS_MAX);
    j->step[j->steps++] = *step;
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    job *j = arg;
    assert_true(j->evals < STEPS_MAX);
    j->val_tokens[j->evals] = eval->val_tokens;
    j->val_loss[j->evals++] = eval->val_loss;
}

static void on_note(void *arg, const char *text)
{
    job *j = arg;
    size_t used = strlen(j->notes);
    snprintf(j->notes + used, sizeof(j->notes) - used, "%s\n", text);
}

static zr_status train(zr_comm *comm, void *arg)
{
    job *j = arg;
    zr_train_result result = {0};
    zr_observer observer = {.arg = j, .start = on_start, .step = on_step, .eval = on_eval, .note = on_note};
    zr_status st = zr_train_run(j->config, comm, &observer, &result);
    j->status[comm->rank] = st;
    j->agreed[comm->rank] = result.agreed;
    if (st != ZR_OK) snprintf(j->message[comm->rank], sizeof(j->message[0]), "%s", zr_error_message());
    if (comm->rank == 0) j->result = result;
    return st;
}

/* Train a small model in tempdir/run, with overrides (NULL at the end). */
static zr_status run(job *j, int ranks, const char *const *overrides)
{
    char text[1024], data[3000];
    int n = 0;
    while (overrides[n]) n++;
    for (size_t i = 0; i < sizeof(data); i++) data[i] = (char)('a' + i * i % 23);
    put_file("text", data, sizeof(data));
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 16}, \"data\": {\"train\": "
             "\"%s/text\", \"val\": \"%s/text\"}, \"train_micro_batch_size_per_gpu\": 1, \"train\": {\"steps\": 4, "
             "\"eval_interval\": 0, \"threads\": 1, \"output_dir\": \"%s/run\"}}",
             tempdir, tempdir, tempdir);
    memset(j, 0, sizeof(*j));
    nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", overrides, n, &j->config), ZR_OK);
    if (zr_train_prepare(j->config, ranks, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    zr_status st = zr_comm_threads_run(ranks, train, j);
    zr_config_destroy(&j->config);
    assert_null(strstr(j->notes, "please report")); /* measured bytes equal the planned ones */
    return st;
}

static job it;

static void expect_ok(int ranks, const char *const *overrides)
{
    if (run(&it, ranks, overrides) != ZR_OK) fail_msg("%s", zr_error_message());
}

/* Check that a scale far above fp16's range is halved in every step, even if that skips more steps than a run may
 * otherwise skip. */
static void the_scale_comes_down(void **state)
{
    (void)state;
    static const char *const keys[] = {"fp16.enabled=true", "fp16.initial_scale_power=60", "fp16.hysteresis=1",
                                       "train.steps=60", NULL};
    for (int ranks = 1; ranks <= 2; ranks++) {
        expect_ok(ranks, keys);
        int64_t skipped = it.result.skipped;
        assert_int_equal(it.steps, 60);
        assert_in_range(skipped, ZR_TRAIN_MAX_SKIPPED + 1, 58);
        for (int i = 0; i < it.steps; i++) {
            assert_true(it.step[i].loss_scale == ldexp(1, 60 - (i < skipped ? i : (int)skipped)));
            assert_int_equal(it.step[i].skipped, i < skipped ? i + 1 : skipped);
            assert_true(isfinite(it.step[i].loss));
        }
        assert_true(it.step[59].loss < it.step[0].loss);
        assert_non_null(strstr(it.notes, "step 1 updated nothing: the gradient of "));
        assert_non_null(strstr(it.notes, " is not finite, the loss scale goes from 1.152921504606847e+18 to "
                                         "5.764607523034235e+17 (1 skipped so far)\n"));
    }
}

static void hysteresis_is_told(void **state)
{
    (void)state;
    static const char *const keys[] = {"fp16.enabled=true", "fp16.initial_scale_power=50", "train.steps=3", NULL};
    expect_ok(2, keys);
    assert_int_equal(it.result.skipped, 3);
    assert_true(it.step[0].loss_scale == 0x1p50 && it.step[1].loss_scale == 0x1p50 && it.step[2].loss_scale == 0x1p49);
    assert_non_null(strstr(it.notes, "is not finite, the loss scale stays 1125899906842624 (1 skipped so far)\n"));
    assert_non_null(
        strstr(it.notes, "is not finite, the loss scale goes from 1125899906842624 to 562949953421312 (2 "));
}

/* Check that every rank returns the same status and message, without waiting for another. */
static void expect_diverged(int ranks, const char *text)
{
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(it.status[rank], ZR_ERR_DIVERGED);
        assert_true(it.agreed[rank]);
        assert_string_equal(it.message[rank], it.message[0]);
    }
    if (!strstr(it.message[0], text)) fail_msg("%s\nwas to hold: %s", it.message[0], text);
}

static void a_static_scale_stays(void **state)
{
    (void)state;
    static const char *const keys[] = {"fp16.enabled=true", "fp16.loss_scale=1e30", "train.steps=30", NULL};
    assert_int_equal(run(&it, 2, keys), ZR_ERR_DIVERGED);
    expect_diverged(2, "lower the learning rate or fp16.loss_scale, ");
    assert_int_equal(it.result.steps, ZR_TRAIN_MAX_SKIPPED);
    for (int i = 0; i < it.steps; i++) assert_true(it.step[i].loss_scale == 1e30);
}

/* Check runs whose weights overflow after one step: the lean layout with one micro-batch cannot skip the next step
 * unless the norm is known first, for clipping or by a second pass. */
static void runs_that_diverge(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        char zero[64];
        snprintf(zero, sizeof(zero), "zero_optimization.stage=%d", stage);
        const char *const fused[] = {zero, "optimizer.params.lr=3e38", "train.steps=30", NULL};
        const char *const first[] = {zero, "optimizer.params.lr=3e38", "train.steps=30", "gradient_clipping=1", NULL};
        const char *const twice[] = {zero, "optimizer.params.lr=3e38", "train.steps=30", "memory.norm=two_pass", NULL};
        for (int way = 0; way < 2; way++) {
            assert_int_equal(run(&it, 2, way == 0 ? first : twice), ZR_ERR_DIVERGED);
            expect_diverged(2, "training diverged: 20 steps in a row had no finite gradient, the last at step 21 (");
            assert_int_equal(it.result.skipped, ZR_TRAIN_MAX_SKIPPED);
        }
        assert_int_equal(run(&it, 2, fused), ZR_ERR_DIVERGED);
        expect_diverged(2, " is not finite in step 2; ");
        expect_diverged(2, "memory.norm two_pass");
        assert_int_equal(it.result.steps, 1);
        assert_int_equal(access(in_tempdir("run/lock"), F_OK), -1);
    }
}

/* Check that windows divided over the ranks give the same loss: losses are summed exactly. */
static void evaluation_does_not_depend_on_ranks(void **state)
{
    (void)state;
    static const char *const still[] = {"optimizer.params.lr=0", "train.steps=1", "train.eval_interval=1",
                                        "train.eval_batches=0", NULL};
    double want = 0.0;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        expect_ok(ranks, still);
        assert_int_equal(it.evals, 1);
        if (ranks == 1) want = it.val_loss[0];
        assert_true(it.val_loss[0] == want && want > 1.0);
    }
}

/* Check the number of batches evaluated: the text has 187 windows of 16 tokens, 93 batches of 2 and one more window. */
static void evaluation_is_of_so_many_batches(void **state)
{
    (void)state;
    static const struct {
        const char *batches;
        int64_t windows;
    } want[] = {{"train.eval_batches=1", 2},    {"train.eval_batches=92", 184}, {"train.eval_batches=93", 186},
                {"train.eval_batches=94", 187}, {"train.eval_batches=95", 187}, {"train.eval_batches=0", 187}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const char *const keys[] = {"train.steps=1", "train.eval_interval=1", want[i].batches, NULL};
        expect_ok(2, keys);
        assert_int_equal(it.evals, 1);
        assert_int_equal(it.val_tokens[0], 16 * want[i].windows);
    }
}

/* Check that a skipped step does not move the learning rate: the schedule counts updates. */
static void skipped_steps_do_not_warm_up(void **state)
{
    (void)state;
    static const char *const keys[] = {"fp16.enabled=true",
                                       "fp16.initial_scale_power=40",
                                       "fp16.hysteresis=1",
                                       "scheduler.type=WarmupLR",
                                       "scheduler.params.warmup_num_steps=40",
                                       "scheduler.params.warmup_type=linear",
                                       "train.steps=40",
                                       NULL};
    expect_ok(1, keys);
    int skipped = (int)it.result.skipped;
    assert_in_range(skipped, 2, 38);
    for (int i = 1; i < it.steps; i++) {
        int64_t before = i > 1 ? i - 1 - it.step[i - 2].skipped : 0, updates = i - it.step[i - 1].skipped;
        bool rises =
            updates > before && updates > 1; /* in DeepSpeed's schedule the second step has the rate of the first */
        assert_true(rises ? it.step[i].lr > it.step[i - 1].lr : it.step[i].lr == it.step[i - 1].lr);
    }
}

static void world_is_the_same_everywhere(void **state)
{
    (void)state;
    static job first;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
        for (int stage = 0; stage <= 3; stage += 3) {
            char zero[64];
            snprintf(zero, sizeof(zero), "zero_optimization.stage=%d", stage);
            const char *const keys[] = {zero,
                                        "train.reproducible=world",
                                        "train_batch_size=4",
                                        "train.eval_interval=1",
                                        "gradient_clipping=0.5",
                                        NULL};
            expect_ok(ranks, keys);
            if (ranks == 1 && stage == 0) first = it;
            assert_int_equal(it.steps, 4);
            assert_int_equal(it.evals, 4);
            for (int i = 0; i < it.steps; i++) {
                assert_true(it.step[i].loss == first.step[i].loss);
                assert_true(it.step[i].grad_norm == first.step[i].grad_norm);
                assert_true(it.val_loss[i] == first.val_loss[i]);
            }
        }
    }
}

/* Return the configuration saved by the last run, and check that it gives exactly that run's plan. */
static zr_config *saved_config(int ranks)
{
    zr_config *saved = NULL;
    zr_device *device = NULL;
    zr_plans plans;
    assert_int_equal(zr_config_load(in_tempdir("run/config.json"), NULL, 0, &saved), ZR_OK);
    assert_int_equal(zr_train_prepare(saved, ranks, 0), ZR_OK);
    zr_device_config wanted = {.threads = zr__train_threads(saved, ranks)};
    assert_int_equal(zr_device_create_cpu(&wanted, &device), ZR_OK);
    assert_int_equal(zr__train_plans(saved, ranks, -1, &device->profile, &plans), ZR_OK);
    zr_report report = zr__report_planned(&plans);
    assert_memory_equal(&report, &it.result.planned, sizeof(report));
    zr__plans_clear(&plans);
    zr_device_destroy(&device);
    return saved;
}

/* Check that policy auto determines a limit if none is given, reports it in a note and saves it. */
static void a_limit_that_was_not_given(void **state)
{
    (void)state;
    static const char *const keys[] = {"activation_checkpointing.policy=auto", "train.steps=1", NULL};
    if (zr__train_host_limit(1) == 0) skip();
    expect_ok(2, keys);
    assert_non_null(strstr(it.notes, "activation_checkpointing.policy auto: memory.limit is set to "));
    zr_config *saved = saved_config(2);
    assert_true(saved->memory.limit_bytes > 1 << 20);
    assert_int_equal(saved->recompute.policy, ZR_RECOMPUTE_AUTO);
    zr_config_destroy(&saved);
}

/* Check a limit between the plans without recompute and with policy unit: some ops are recomputed, fewer than with
 * policy unit. */
static void a_limit_that_was_given(void **state)
{
    (void)state;
    static const char batch[] = "train_micro_batch_size_per_gpu=4", layers[] = "model.n_layer=6";
    static const char policy[] = "activation_checkpointing.policy=auto";
    const char *const none[] = {batch, layers, NULL};
    const char *const unit[] = {batch, layers, "activation_checkpointing.policy=unit", NULL};
    static job all;
    char limit[64];
    expect_ok(2, unit);
    all = it;
    expect_ok(2, none);
    int64_t total = (it.result.planned.memory.total_bytes + all.result.planned.memory.total_bytes) / 2;
    double loss = it.result.loss, least = it.result.planned.flops_hardware;
    snprintf(limit, sizeof(limit), "memory.limit=%lld", (long long)zr__process_bytes(total, 1));
    const char *const some[] = {batch, layers, policy, limit, NULL};
    expect_ok(2, some);
    assert_null(strstr(it.notes, "memory.limit"));
    assert_true(it.result.planned.memory.total_bytes <= total);
    assert_true(it.result.planned.flops_hardware > least);
    assert_true(it.result.planned.flops_hardware < all.result.planned.flops_hardware);
    assert_true(it.result.loss == loss);
    zr_config *saved = saved_config(2);
    zr_config_destroy(&saved);
    const char *const little[] = {batch, layers, policy, "memory.limit=48MiB", NULL};
    assert_int_equal(run(&it, 2, little), ZR_ERR_MEMORY);
    assert_non_null(
        strstr(it.message[0], "but memory.limit is 50.33 MB; use a higher zero_optimization.stage, a smaller "));
}

/* Check that a rank's TFLOP/s count recompute; the other rates are over all ranks. */
static void rates_count_what_ran(void **state)
{
    (void)state;
    static const char *const keys[] = {"activation_checkpointing.policy=unit", "train.steps=2", NULL};
    expect_ok(2, keys);
    const zr_report *planned = &it.result.planned;
    assert_true(planned->flops_hardware > 1.1 * planned->flops_model);
    for (int i = 0; i < it.steps; i++) {
        const zr_train_step *s = &it.step[i];
        assert_int_equal(s->tokens, 2 * 16);
        assert_true(fabs(s->tflops * 1e12 * 2 * s->step_sec / planned->flops_hardware - 1) < 1e-9);
        assert_true(fabs(s->tokens_per_sec * s->step_sec / 32 - 1) < 1e-9);
        assert_true(fabs(s->samples_per_sec * s->step_sec / 2 - 1) < 1e-9);
    }
}

/* Check that keys of the schedule may change the bytes moved, the bytes kept or recompute, but never the losses. */
static void keys_of_the_schedule_change_the_plan_alone(void **state)
{
    (void)state;
    static const struct {
        const char *stage, *key, *beside;
        bool same_bytes; /* the same bytes, in other calls */
    } change[] = {
        {"3", "memory.layout=paper", "steps_per_print=1", false},
        {"3", "memory.norm=two_pass", "gradient_clipping=1", false},
        {"1", "activation_checkpointing.policy=unit", "steps_per_print=1", false},
        {"1", "activation_checkpointing.policy=selective", "steps_per_print=1", false},
        {"1", "activation_checkpointing.every=2", "activation_checkpointing.policy=unit", false},
        {"3", "zero_optimization.stage3_prefetch_bucket_size=0", "steps_per_print=1", false},
        {"3", "zero_optimization.overlap_comm=false", "steps_per_print=1", false},
        {"3", "zero_optimization.stage3_param_persistence_threshold=300", "steps_per_print=1", false},
        {"3", "zero_optimization.stage3_model_persistence_threshold=31",
         "zero_optimization.stage3_param_persistence_threshold=300", false},
        {"3", "zero_optimization.stage3_max_live_parameters=1e9", "steps_per_print=1", false},
        {"3", "zero_optimization.stage3_max_reuse_distance=1e9", "steps_per_print=1", false},
        {"1", "collectives.reduce=all_reduce", "steps_per_print=1", false},
    };
    static job base;
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        char zero[64];
        snprintf(zero, sizeof(zero), "zero_optimization.stage=%s", change[i].stage);
        const char *const without[] = {zero, "bf16.enabled=true", "model.n_layer=4", change[i].beside, NULL};
        const char *const with[] = {zero, "bf16.enabled=true", "model.n_layer=4", change[i].beside, change[i].key,
                                    NULL};
        expect_ok(2, without);
        base = it;
        expect_ok(2, with);
        for (int s = 0; s < it.steps; s++) {
            if (it.step[s].loss != base.step[s].loss || it.step[s].grad_norm != base.step[s].grad_norm)
                fail_msg("%s: step %d: loss %.9g, without %.9g", change[i].key, s + 1, it.step[s].loss,
                         base.step[s].loss);
        }
        bool same = memcmp(&it.result.planned, &base.result.planned, sizeof(it.result.planned)) == 0;
        if (same != change[i].same_bytes)
            fail_msg("%s: the plan's bytes are %s", change[i].key, same ? "the same" : "others");
        if (same && it.schedule_steps == base.schedule_steps) fail_msg("%s: the same calls", change[i].key);
    }
}

/* Check that masters are saved in fp32 whatever the run's type, and that weights read back in the run's type give its
 * last evaluation. */
static void weights_are_read_back(void **state)
{
    (void)state;
    static const char *const type[] = {"bf16.enabled=false", "bf16.enabled=true", "fp16.enabled=true"};
    for (size_t i = 0; i < sizeof(type) / sizeof(type[0]); i++) {
        const char *const keys[] = {type[i],
                                    "zero_optimization.stage=3",
                                    "train.eval_interval=4",
                                    "train.eval_batches=0",
                                    "fp16.initial_scale_power=8",
                                    NULL};
        const zr_eval_args args = {.threads = 1};
        zr_eval_result result = {0};
        expect_ok(2, keys);
        json_t *model = json_load_file(in_tempdir("run/model/config.json"), 0, NULL);
        assert_string_equal(json_string_value(json_object_get(model, "torch_dtype")), "float32");
        json_decref(model);
        if (zr_eval_dir(in_tempdir("run"), &args, &result) != ZR_OK) fail_msg("%s", zr_error_message());
        assert_int_equal(it.evals, 1);
        if (!(fabs(result.loss - it.val_loss[0]) < 1e-5))
            fail_msg("%s: %.9g, in the run %.9g", type[i], result.loss, it.val_loss[0]);
    }
}

static void the_loss_scale_is_in_the_line(void **state)
{
    (void)state;
    char line[ZR_METRICS_LINE_BYTES];
    zr__scalar scalar[ZR_SCALARS];
    zr_train_step step = {.step = 1, .mfu = NAN, .skipped = 3};
    int n = zr__metrics_line(1, "", scalar, zr__metrics_step_scalars(&step, scalar), line);
    assert_int_equal(n, strlen(line));
    assert_null(strstr(line, "loss_scale"));
    step.loss_scale = 0x1p40;
    n = zr__metrics_line(1, "", scalar, zr__metrics_step_scalars(&step, scalar), line);
    assert_int_equal(n, strlen(line));
    assert_non_null(strstr(line, ", \"skipped\":3, \"data_wait_ms\":0, \"loss_scale\":1099511627776}\n"));
}

/* Check that a setting of the user is kept. */
static void messages_between_gpus(void **state)
{
    (void)state;
    unsetenv("CUDA_MODULE_LOADING");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
    zr__train_prepare_messages();
    assert_string_equal(getenv("CUDA_MODULE_LOADING"), "EAGER");
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "16");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    zr__train_prepare_messages();
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_between_gpus),
        cmocka_unit_test(the_loss_scale_is_in_the_line),
        cmocka_unit_test(the_scale_comes_down),
        cmocka_unit_test(hysteresis_is_told),
        cmocka_unit_test(a_static_scale_stays),
        cmocka_unit_test(runs_that_diverge),
        cmocka_unit_test(evaluation_does_not_depend_on_ranks),
        cmocka_unit_test(evaluation_is_of_so_many_batches),
        cmocka_unit_test(skipped_steps_do_not_warm_up),
        cmocka_unit_test(world_is_the_same_everywhere),
        cmocka_unit_test(a_limit_that_was_not_given),
        cmocka_unit_test(a_limit_that_was_given),
        cmocka_unit_test(rates_count_what_ran),
        cmocka_unit_test(keys_of_the_schedule_change_the_plan_alone),
        cmocka_unit_test(weights_are_read_back),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
