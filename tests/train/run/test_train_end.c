//TEST timeout=120 env=MALLOC_MMAP_THRESHOLD_=1048576
//LINK -Wl,--wrap=open,--wrap=write,--wrap=pwrite,--wrap=fsync,--wrap=rename,--wrap=mkdir,--wrap=fallocate,--wrap=ftruncate
//LINK -Wl,--wrap=zr_data_sample,--wrap=zr_data_window,--wrap=zr_engine_step,--wrap=zr__train_threads
//LINK -Wl,--wrap=zr__engine_probe,--wrap=zr__report_measured
/* The ends of runs: whatever fails on whichever rank, model/ holds the last good weights, complete, or nothing; a run
 * that is asked to stop leaves its weights in a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/fs_record.h"
#include "support/known_rates.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "zr/data.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <math.h>
#include <stdatomic.h>

enum { RANKS_MAX = 3, MESSAGE_BYTES = 2048 };

static const char *const whole[] = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                    NULL};
static const char *const whole_checkpoint[] = {
    "config.json", "model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors", "manifest.json", NULL};

/* The fault of a run, and the time at which it occurs. */
typedef struct plot {
    int64_t bad_sample; /* global index of a sample that cannot be read, -1: none */
    bool bad_window;    /* whether the evaluation data cannot be read */
    int64_t bad_step;   /* index from 0 of the step that diverges, -1: none */
    bool mixed;         /* whether the bad step has updated some units */
    bool no_loss;       /* whether the loss of the bad step is not finite, so that it is skipped */
    int stop_at;        /* number of the call of `stop`, on rank stop_rank, that returns true; 0: no call does */
    int stop_rank;
    bool uneven;           /* whether rank r has r + 1 threads */
    int moved;             /* unplanned bytes: 1 within the total traffic, 2 across a border */
    const char *rename_to; /* new name of rank 0's directory after the first step; "": the directory is removed */
} plot;
static plot it;

/* The outcome of the run. */
static struct outcome {
    zr_status status[RANKS_MAX];
    char message[RANKS_MAX][MESSAGE_BYTES];
    zr_train_result result; /* rank 0's result */
    int evals, alarms;      /* alarms: notes that something is not as planned */
    _Atomic int asked, samples;
} end;

zr_status __real_zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);
zr_status __wrap_zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets);
zr_status __wrap_zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets)
{
    end.samples++;
    if (sample == it.bad_sample) return ZR_FAIL(ZR_ERR_DATA, "sample %d is spoilt", (int)sample);
    return __real_zr_data_sample(data, sample, tokens, targets);
}

zr_status __real_zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);
zr_status __wrap_zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets);
zr_status __wrap_zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets)
{
    if (it.bad_window && window == 1) return ZR_FAIL(ZR_ERR_IO, "window 1 is gone");
    return __real_zr_data_window(data, window, tokens, targets);
}

/* Make the loss of the bad step's batch not finite in later probes too. */
zr_status __real_zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);
zr_status __wrap_zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);
zr_status __wrap_zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result)
{
    zr_status st = __real_zr__engine_probe(engine, args, result);
    if (st == ZR_OK && it.no_loss && args->step == it.bad_step) result->loss = NAN;
    return st;
}

zr_status __real_zr__report_measured(const zr_report *planned, const zr_measured *measured, zr_report *report);
zr_status __wrap_zr__report_measured(const zr_report *planned, const zr_measured *measured, zr_report *report);
zr_status __wrap_zr__report_measured(const zr_report *planned, const zr_measured *measured, zr_report *report)
{
    zr_status st = __real_zr__report_measured(planned, measured, report);
    if (it.moved == 1) report->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] += 4;
    if (it.moved == 2) report->across[0].bytes[ZR_TRAFFIC_ALL_GATHER] += 4;
    return st;
}

zr_status __real_zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);
zr_status __wrap_zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);
zr_status __wrap_zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result)
{
    if (args->step != it.bad_step) return __real_zr_engine_step(engine, args, result);
    *result = (zr_step_result){.loss = NAN, .skipped = true, .bad_param = -1};
    if (it.no_loss)
        return zr__engine_probe(engine, args, result) == ZR_OK ? (result->loss = NAN, ZR_OK) : ZR_ERR_INTERNAL;
    if (it.mixed && __real_zr_engine_step(engine, args, result) == ZR_OK) result->skipped = false;
    return ZR_FAIL(ZR_ERR_DIVERGED, "a gradient is bad");
}

static _Thread_local int own_rank;

int __wrap_zr__train_threads(const zr_config *config, int local_ranks);
int __wrap_zr__train_threads(const zr_config *config, int local_ranks)
{
    (void)config, (void)local_ranks;
    return it.uneven ? 1 + own_rank : 1;
}

static void on_step(void *arg, const zr_train_step *step)
{
    (void)arg;
    if (step->step != 1 || !it.rename_to) return;
    if (it.rename_to[0])
        assert_int_equal(rename(in_tempdir("run"), in_tempdir(it.rename_to)), 0);
    else
        nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    (void)arg, (void)eval;
    end.evals++;
}

static void on_note(void *arg, const char *text)
{
    (void)arg;
    end.alarms += strstr(text, "not what was planned") != NULL;
}

static bool stop_here(void *arg)
{
    (void)arg;
    return ++end.asked == it.stop_at;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static zr_status train_rank(zr_comm *comm, void *arg)
{
    zr_train_result result = {0};
    own_rank = comm->rank;
    zr_observer observer = {
        .step = on_step, .eval = on_eval, .note = on_note, .stop = comm->rank == it.stop_rank ? stop_here : never};
    zr_status st = zr_train_run(arg, comm, &observer, &result);
    end.status[comm->rank] = st;
    snprintf(end.message[comm->rank], MESSAGE_BYTES, "%s", st == ZR_OK ? "" : zr_error_message());
    if (comm->rank == 0) end.result = result;
    return st;
}

static void clear(const char *name)
{
    nftw(in_tempdir(name), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* Train in tempdir/`dir` with overrides (NULL at the end) and the fault in `it`. */
static zr_status train(const char *dir, int ranks, const char *const *overrides)
{
    char text[1200], data[4000];
    zr_config *config = NULL;
    int n = 0;
    while (overrides[n]) n++;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)('a' + i * i % 23);
    put_file("text", data, sizeof data);
    snprintf(text, sizeof text,
             "{\"model\": {\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 8}, \"data\": {\"train\": "
             "\"%s/text\", \"val\": \"%s/text\", \"order\": \"sequential\"}, \"train_micro_batch_size_per_gpu\": 1, "
             "\"optimizer\": {\"params\": {\"lr\": 0.01}}, \"train\": {\"steps\": 6, \"eval_interval\": 0, "
             "\"eval_batches\": 3, \"threads\": 1, \"output_dir\": \"%s/%s\"}}",
             tempdir, tempdir, tempdir, dir);
    memset(&end, 0, sizeof end);
    clear(dir);
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", overrides, n, &config), ZR_OK);
    if (zr_train_prepare(config, ranks, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    zr_status st = zr_comm_threads_run(ranks, train_rank, config);
    zr_config_destroy(&config);
    return st;
}

static plot nothing(void)
{
    return (plot){.bad_sample = -1, .bad_step = -1};
}

static bool there(const char *name)
{
    return access(in_tempdir(name), F_OK) == 0;
}

static size_t read_all(const char *name, char *bytes, size_t room)
{
    FILE *file = fopen(in_tempdir(name), "rb");
    if (!file) fail_msg("no %s: %s", name, end.message[0]);
    size_t n = fread(bytes, 1, room, file);
    fclose(file);
    return n;
}

/* Check that the file has the weights that `steps` undisturbed steps give. */
static void expect_weights(const char *name, int steps, int ranks, const char *const *overrides)
{
    static char want[1 << 17], have[1 << 17];
    const char *all[12];
    char count[32];
    int n = 0;
    struct outcome kept = end;
    while (overrides[n]) all[n] = overrides[n], n++;
    snprintf(count, sizeof count, "train.steps=%d", steps);
    all[n] = count;
    all[n + 1] = NULL;
    plot before = it;
    it = nothing();
    if (train("reference", ranks, all) != ZR_OK) fail_msg("%s", zr_error_message());
    it = before;
    end = kept;
    size_t bytes = read_all("reference/model/model.safetensors", want, sizeof want);
    assert_true(bytes > 10000 && bytes < sizeof want);
    assert_int_equal(read_all(name, have, sizeof have), bytes);
    if (memcmp(want, have, bytes) != 0) fail_msg("%s: not the weights after %d steps; %s", name, steps, end.message[0]);
}

/* Check a run that was stopped: its checkpoint has the weights after `steps` steps, `latest` names it, and there is no
 * model/. */
static void expect_stopped(int steps, int ranks, const char *const *overrides)
{
    char name[64], latest[64] = "", weights[128];
    zr_checkpoint_name(steps, name);
    snprintf(weights, sizeof weights, "run/%s/model.safetensors", name);
    expect_weights(weights, steps, ranks, overrides);
    read_all("run/latest", latest, sizeof latest - 1);
    assert_string_equal(strtok(latest, "\n"), name);
    snprintf(weights, sizeof weights, "run/%s, continue with --resume", name);
    if (!strstr(end.message[0], weights)) fail_msg("\"%s\" is not in: %s", weights, end.message[0]);
    assert_false(there("run/model") || end.result.saved);
}

/* Check that every rank has the same status, and that rank 0's message contains `text`. */
static void expect_status(int ranks, zr_status status, const char *text)
{
    for (int r = 0; r < ranks; r++)
        if (end.status[r] != status)
            fail_msg("rank %d: status %d, wanted %d: %s", r, end.status[r], status, end.message[r]);
    if (!strstr(end.message[0], text)) fail_msg("\"%s\" is not in: %s", text, end.message[0]);
    assert_false(there("run/model.tmp") || there("run/lock"));
}

/* ---- the directory --------------------------------------------------------------------------- */

/* Check that wherever the machine stops, model/ is complete or absent, and that at the end of the run it is there for
 * good. */
static void a_model_is_committed_whole(void **state)
{
    (void)state;
    static const char *const keys[] = {"zero_optimization.stage=2", NULL};
    it = nothing();
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        fs_record_start(in_tempdir("run/model"), whole);
        clear("run");
        assert_int_equal(train("run", ranks, keys), ZR_OK);
        assert_string_equal(fs.fault, "");
        assert_true(fs_named(in_tempdir("run/model")));
        fs_record_start(NULL, NULL);
        expect_status(ranks, ZR_OK, "");
        assert_string_equal(end.result.model_dir, in_tempdir("run/model"));
    }
}

/* Check the failure of any one call: before the first step the run leaves no files; later it leaves the weights, and
 * the message contains their place. */
static void calls_that_fail(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    static const fs_call calls[] = {FS_FSYNC, FS_PWRITE, FS_RENAME, FS_FALLOCATE};
    int before = 0, after = 0, elsewhere = 0;
    it = nothing();
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int at = 1;; at++) {
            fs_record_start(in_tempdir("run/model"), whole);
            fs_record_fail(calls[c], at, calls[c] == FS_FALLOCATE ? ENOSPC : EIO);
            zr_status st = train("run", 2, keys);
            bool failed = fs.failures > 0;
            assert_string_equal(fs.fault, "");
            fs_record_start(NULL, NULL);
            if (!failed) break;
            if (end.result.steps == 0) {
                before++;
                assert_int_equal(st, ZR_ERR_IO);
                assert_false(there("run/model") || there("run/model.tmp") || there("run/config.json"));
                continue;
            }
            after++;
            bool named = there("run/model");
            elsewhere += !named;
            if (st != ZR_OK && !strstr(end.message[0], named ? "run/model" : "run/model.tmp"))
                fail_msg("call %d of kind %d: the message does not say where: %s", at, calls[c], end.message[0]);
            assert_true(st == ZR_OK || st == ZR_ERR_IO);
            expect_weights(named ? "run/model/model.safetensors" : "run/model.tmp/model.safetensors", 6, 2, keys);
            assert_true(there(named ? "run/model/config.json" : "run/model.tmp/config.json"));
        }
    assert_true(before > 5 && after > 5 && elsewhere > 0);
}

static void a_directory_that_is_renamed(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    it = nothing();
    it.rename_to = "moved";
    assert_int_equal(train("run", 2, keys), ZR_OK);
    assert_non_null(strstr(end.result.model_dir, "/moved/model"));
    expect_weights("moved/model/model.safetensors", 6, 2, keys);
    assert_true(there("moved/run.json") && !there("moved/lock") && !there("run"));
    it.rename_to = ""; /* remove the directory, with the reserved space and the metrics */
    assert_int_equal(train("run", 2, keys), ZR_ERR_IO);
    assert_non_null(strstr(end.message[0], "run/model; metrics.jsonl was removed while the run wrote it"));
    expect_weights("run/model/model.safetensors", 6, 2, keys);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Check a sample that cannot be read: sample 7 with 2 rows a step is rank 1's in step 4. Sample 7 with 4 rows a step,
 * and sample 11 with 8 rows, is rank 1's in the second micro-batch of step 2; with 8 rows more micro-batches follow. */
static void data_that_goes_bad(void **state)
{
    (void)state;
    static const char *const layouts[][4] = {{"memory.layout=paper", "zero_optimization.stage=1", NULL},
                                             {"memory.layout=lean", "zero_optimization.stage=3", NULL},
                                             {"memory.layout=lean", "gradient_clipping=1", NULL},
                                             {"memory.norm=two_pass", NULL},
                                             {"bf16.enabled=true", NULL},
                                             {"train.reproducible=world", NULL},
                                             {"gradient_accumulation_steps=2", NULL},
                                             {"gradient_accumulation_steps=4", NULL}};
    static const int bad[] = {7, 7, 7, 7, 7, 7, 7, 11}, steps[] = {3, 3, 3, 3, 3, 3, 1, 1};
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
        it = nothing();
        it.bad_sample = bad[l];
        assert_int_not_equal(train("run", 2, layouts[l]), ZR_OK);
        expect_status(2, ZR_ERR_DATA, "rank 1: sample ");
        assert_int_equal(end.result.steps, steps[l]);
        assert_true(end.result.saved && there("run/run.json"));
        expect_weights("run/model/model.safetensors", steps[l], 2, layouts[l]);
    }
    it = nothing();
    it.bad_sample = 1;
    assert_int_not_equal(train("run", 2, layouts[0]), ZR_OK);
    expect_status(2, ZR_ERR_DATA, "nothing was trained yet");
    assert_false(there("run/model"));
}

static void evaluation_that_goes_bad(void **state)
{
    (void)state;
    static const char *const keys[] = {"train.eval_interval=2", NULL};
    it = nothing();
    it.bad_window = true;
    assert_int_not_equal(train("run", 2, keys), ZR_OK);
    expect_status(2, ZR_ERR_IO, "window 1 is gone; the weights after step 2 are in ");
    expect_weights("run/model/model.safetensors", 2, 2, keys);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* Check that when one rank is asked to stop, all stop at once, and the weights are saved before anything else. */
static void one_rank_is_asked(void **state)
{
    (void)state;
    static const char *const keys[] = {"train.eval_interval=2", NULL};
    /* asked after step 1; after step 2; after each of the 3 batches of step 2's evaluation */
    static const int steps[] = {1, 2, 2, 2, 2, 3};
    for (int at = 1; at <= 6; at++)
        for (int rank = 0; rank < 2; rank++) {
            it = nothing();
            it.stop_at = at;
            it.stop_rank = rank;
            assert_int_not_equal(train("run", 2, keys), ZR_OK);
            expect_status(2, ZR_ERR_STOPPED, "stopped on request after step ");
            assert_int_equal(end.result.steps, steps[at - 1]);
            assert_int_equal(end.evals, at == 6);
            assert_int_equal(end.asked, at);
            expect_stopped(steps[at - 1], 2, keys);
        }
}

/* Check that a checkpoint that cannot be written leaves no partial files, and that its weights are written to the space
 * reserved for model/. */
static void checkpoints_that_fail(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    static const fs_call calls[] = {FS_FSYNC, FS_PWRITE, FS_RENAME, FS_FALLOCATE};
    int as_weights = 0;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int at = 1;; at++) {
            it = nothing();
            it.stop_at = 2;
            fs_record_start(in_tempdir("run/step-00000002"), whole_checkpoint);
            fs_record_fail(calls[c], at, calls[c] == FS_FALLOCATE ? ENOSPC : EIO);
            assert_int_not_equal(train("run", 2, keys), ZR_OK);
            bool failed = fs.failures > 0, early = end.result.steps == 0;
            assert_string_equal(fs.fault, "");
            fs_record_start(NULL, NULL);
            if (!failed) break;
            if (early) continue; /* a failure before the first step: no checkpoint begins */
            if (there("run/step-00000002")) {
                expect_weights("run/step-00000002/model.safetensors", 2, 2, keys);
            } else {
                as_weights++;
                expect_status(2, ZR_ERR_IO, "the checkpoint could not be written: ");
                assert_non_null(strstr(end.message[0], "the weights after step 2 are in "));
                expect_weights("run/model/model.safetensors", 2, 2, keys);
            }
            assert_false(there("run/step-00000002.tmp"));
        }
    assert_true(as_weights > 5);
}

/* Check a stop between micro-batches: the step is undone, at every stage, and measured memory and traffic equal the
 * planned. */
static void a_step_is_left(void **state)
{
    (void)state;
    static const char *const layouts[][4] = {
        {"gradient_accumulation_steps=4", "zero_optimization.stage=0", NULL},
        {"gradient_accumulation_steps=4", "zero_optimization.stage=1", "bf16.enabled=true", NULL},
        {"gradient_accumulation_steps=4", "zero_optimization.stage=2", "memory.layout=paper", NULL},
        {"gradient_accumulation_steps=4", "zero_optimization.stage=3", NULL}};
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
        for (int at = 2; at <= 6; at += 4) { /* before the third micro-batch of step 1 or of step 2 */
            it = nothing();
            it.stop_at = at;
            it.stop_rank = 1;
            assert_int_not_equal(train("run", 2, layouts[l]), ZR_OK);
            expect_status(2, ZR_ERR_STOPPED, "stopped on request after step ");
            assert_int_equal(end.result.steps, at == 6);
            assert_int_equal(end.samples, 2 * (at == 6 ? 4 + 2 : 2)); /* no micro-batch was read after the stop */
            if (at == 6) expect_stopped(1, 2, layouts[l]);
            assert_true(there("run/run.json")); /* the comparison of measured traffic uses whole steps only */
            assert_memory_equal(&end.result.measured.memory, &end.result.planned.memory, sizeof(zr_memory));
            assert_int_equal(end.alarms, 0); /* without a finished step, its traffic and loss are unknown */
            assert_int_equal(isnan(end.result.loss) != 0, at == 2);
            if (at == 6)
                assert_memory_equal(&end.result.measured.traffic, &end.result.planned.traffic, sizeof(zr_traffic));
        }
}

/* Check ranks with different numbers of threads, as on unlike hosts: each rank has scratch for its own threads. */
static void ranks_with_other_threads(void **state)
{
    (void)state;
    static const char *const keys[] = {"zero_optimization.stage=1", NULL};
    it = nothing();
    assert_int_equal(train("run", 2, keys), ZR_OK);
    int64_t even_bytes = end.result.planned.memory.total_bytes;
    it.uneven = true;
    assert_int_equal(train("run", 2, keys), ZR_OK);
    assert_true(end.result.planned.memory.total_bytes > even_bytes); /* the memory of rank 1, which rank 0 reports */
    assert_memory_equal(&end.result.measured.memory, &end.result.planned.memory, sizeof(zr_memory));
    assert_int_equal(end.alarms, 0);
}

/* Check that unplanned bytes are noted once and do not fail the run. */
static void traffic_that_was_not_planned(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    for (int moved = 0; moved < 3; moved++) {
        it = nothing();
        it.moved = moved;
        assert_int_equal(train("run", 2, keys), ZR_OK);
        assert_int_equal(end.alarms, moved > 0);
    }
}

/* ---- losses and weights that are not finite -------------------------------------------------- */

static void steps_that_cannot_be_skipped(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    it = nothing();
    it.bad_step = 3;
    assert_int_not_equal(train("run", 2, keys), ZR_OK);
    expect_status(2, ZR_ERR_DIVERGED, "memory.layout paper; the weights after step 3 are in ");
    expect_weights("run/model/model.safetensors", 3, 2, keys);
    it.mixed = true;
    assert_int_not_equal(train("run", 2, keys), ZR_OK);
    expect_status(2, ZR_ERR_DIVERGED, "two_pass");
    assert_non_null(strstr(end.message[0], "a mixture"));
    assert_false(there("run/model") || end.result.saved);
}

/* Check that a run that ends before any step has updated a unit saves no model. */
static void all_steps_skipped(void **state)
{
    (void)state;
    static const char *const keys[] = {"memory.layout=paper", NULL};
    it = nothing();
    it.bad_step = 0;
    it.no_loss = true;
    it.bad_sample = 1;
    assert_int_not_equal(train("run", 1, keys), ZR_OK);
    expect_status(1, ZR_ERR_DATA, "sample 1 is spoilt; nothing was trained yet");
    assert_false(there("run/model") || end.result.saved);
    assert_true(end.result.steps == 1 && end.result.skipped == 1);
}

/* Check a last step whose loss is not finite because of its batch: the weights are saved, but the run does not
 * succeed. */
static void a_last_loss_that_is_not_finite(void **state)
{
    (void)state;
    static const char *const keys[] = {"memory.layout=paper", NULL};
    it = nothing();
    it.bad_step = 5;
    it.no_loss = true;
    assert_int_not_equal(train("run", 2, keys), ZR_OK);
    expect_status(2, ZR_ERR_DIVERGED, "the last loss");
    expect_weights("run/model/model.safetensors", 5, 2, keys);
}

/* Check too large a learning rate: weights that are not finite, or whose loss is not finite, are not saved. */
static void rates_beyond_reason(void **state)
{
    (void)state;
    static const char *const rate[] = {"optimizer.params.lr=1e38", "optimizer.params.lr=1e25"};
    static const char *const layout[] = {"memory.layout=paper", "memory.layout=lean", "memory.norm=two_pass"};
    for (int r = 0; r < 2; r++)
        for (int l = 0; l < 3; l++)
            for (int many = 0; many < 2; many++) {
                const char *const keys[] = {rate[r], layout[l], many ? "train.steps=30" : "train.steps=3", NULL};
                it = nothing();
                assert_int_not_equal(train("run", 2, keys), ZR_OK);
                expect_status(2, ZR_ERR_DIVERGED, "were not saved: ");
                assert_false(there("run/model") || end.result.saved);
            }
}

/* Check a last update that goes too far although the losses of all steps are finite. */
static void a_last_update_beyond_reason(void **state)
{
    (void)state;
    static const char *const no_loss[] = {"optimizer.params.lr=1e25", "train.steps=1", "train.eval_interval=1", NULL};
    static const char *const no_weights[] = {"optimizer.params.lr=3e38", "optimizer.params.weight_decay=1000",
                                             "train.steps=1", NULL};
    it = nothing();
    assert_int_not_equal(train("run", 2, no_loss), ZR_OK);
    expect_status(2, ZR_ERR_DIVERGED, "were not saved: with these weights, the loss on the batch of step 1 is ");
    assert_int_equal(end.evals, 1);
    assert_int_not_equal(train("run", 2, no_weights), ZR_OK);
    expect_status(2, ZR_ERR_DIVERGED, " is not finite");
    assert_int_equal(end.result.steps, 1);
    assert_true(isfinite(end.result.loss));
    assert_false(there("run/model") || end.result.saved);
}

static zr_status no_text(void *arg, const char *text, int64_t bytes)
{
    (void)arg, (void)text, (void)bytes;
    return ZR_OK;
}

/* Check that every command refuses weights with one NaN, and names the tensor. */
static void weights_that_are_not_finite(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    char init[200];
    it = nothing();
    assert_int_equal(train("good", 1, keys), ZR_OK);
    zr_safetensors *file = NULL;
    assert_int_equal(zr__safetensors_attach(in_tempdir("good/model/model.safetensors"), &file), ZR_OK);
    const float bad = NAN;
    assert_int_equal(
        zr__safetensors_write(file, zr_safetensors_find(file, "transformer.h.0.mlp.c_fc.weight"), 17, 1, &bad), ZR_OK);
    zr_safetensors_close(&file);
    snprintf(init, sizeof init, "model.init=%s/good/model", tempdir);
    const char *const from[] = {
        init, "model.n_layer=\"auto\"", "model.n_head=\"auto\"", "model.n_embd=\"auto\"", "model.n_positions=\"auto\"",
        NULL};
    clear("run");
    assert_int_not_equal(train("run", 2, from), ZR_OK);
    expect_status(2, ZR_ERR_DATA, "h.0.mlp.c_fc.weight: element 17 is ");
    assert_false(there("run"));
    zr_eval_result result;
    zr_eval_args eval = {.threads = 1};
    assert_int_equal(zr_eval_dir(in_tempdir("good"), &eval, &result), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "h.0.mlp.c_fc.weight: element 17 is "));
    zr_generate_args args = {.prompt = "a", .prompt_bytes = 1, .tokens = 1, .threads = 1};
    assert_int_equal(zr_generate(in_tempdir("good"), &args, no_text, NULL), ZR_ERR_DATA);
}

/* Check that finite weights whose activations overflow are refused. */
static void weights_that_overflow(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL};
    float huge[8];
    it = nothing();
    assert_int_equal(train("good", 1, keys), ZR_OK);
    zr_safetensors *file = NULL;
    assert_int_equal(zr__safetensors_attach(in_tempdir("good/model/model.safetensors"), &file), ZR_OK);
    for (int i = 0; i < 8; i++) huge[i] = 3e38f;
    assert_int_equal(zr__safetensors_write(file, zr_safetensors_find(file, "transformer.ln_f.weight"), 0, 8, huge),
                     ZR_OK);
    zr_safetensors_close(&file);
    zr_eval_result result;
    zr_eval_args eval = {.threads = 1};
    assert_int_equal(zr_eval_dir(in_tempdir("good"), &eval, &result), ZR_ERR_DIVERGED);
    zr_generate_args args = {.prompt = "a", .prompt_bytes = 1, .tokens = 9, .threads = 1};
    assert_int_equal(zr_generate(in_tempdir("good"), &args, no_text, NULL), ZR_ERR_DIVERGED);
}

static int make_all(void **state)
{
    return tempdir_make(state) || set_rates(in_tempdir("cache")) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_committed_whole),     cmocka_unit_test(calls_that_fail),
        cmocka_unit_test(a_directory_that_is_renamed),    cmocka_unit_test(data_that_goes_bad),
        cmocka_unit_test(evaluation_that_goes_bad),       cmocka_unit_test(one_rank_is_asked),
        cmocka_unit_test(checkpoints_that_fail),          cmocka_unit_test(a_step_is_left),
        cmocka_unit_test(ranks_with_other_threads),       cmocka_unit_test(all_steps_skipped),
        cmocka_unit_test(traffic_that_was_not_planned),   cmocka_unit_test(steps_that_cannot_be_skipped),
        cmocka_unit_test(a_last_loss_that_is_not_finite), cmocka_unit_test(rates_beyond_reason),
        cmocka_unit_test(a_last_update_beyond_reason),    cmocka_unit_test(weights_that_are_not_finite),
        cmocka_unit_test(weights_that_overflow)};
    return cmocka_run_group_tests(tests, make_all, tempdir_remove);
}
