//TEST timeout=180 long=more env=MALLOC_MMAP_THRESHOLD_=1048576
//LINK -Wl,--wrap=zr_engine_resume,--wrap=fsync
/* Resumed runs: their state is bitwise the saved one, at any number of ranks and in any layout, and the steps that
 * follow equal the uninterrupted run's, where that is promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/known_rates.h"
#include "support/long.h"
#include "support/tempdir.h"
#include "told_run.h"
#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/run.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <xxhash.h>

#ifndef STEPS_AFTER
#define STEPS_AFTER 3 /* number of steps after a checkpoint, for every pair of layouts */
#endif

enum { DATA_BYTES = 400 };

/* ---- the state -------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t loaded;

/* Hash each element with its position, so that the sum does not depend on how the elements are distributed over ranks.
 */
static uint64_t hash_of(int state, const char *name, int64_t first, int64_t n, const float *in)
{
    uint64_t sum = 0, name_hash = XXH3_64bits(name, strlen(name));
    for (int64_t i = 0; i < n; i++) {
        struct {
            uint64_t name, place;
            uint32_t state, bits;
        } one = {.name = name_hash, .place = (uint64_t)(first + i), .state = (uint32_t)state};
        memcpy(&one.bits, &in[i], sizeof one.bits);
        sum += XXH3_64bits(&one, sizeof one);
    }
    return sum;
}

static zr_status add_hash(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    uint64_t sum = hash_of(*(const int *)arg, param->name, first, n, in);
    pthread_mutex_lock(&mutex);
    loaded += sum;
    pthread_mutex_unlock(&mutex);
    return ZR_OK;
}

static int slots; /* slots of the optimizer */

zr_status __real_zr_engine_resume(zr_engine *engine, int64_t updates);
zr_status __wrap_zr_engine_resume(zr_engine *engine, int64_t updates);
zr_status __wrap_zr_engine_resume(zr_engine *engine, int64_t updates)
{
    for (int s = 0; s <= slots; s++)
        if (zr_engine_read(engine, s == 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + s - 1, add_hash, &s) != ZR_OK)
            return ZR_ERR_INTERNAL;
    return __real_zr_engine_resume(engine, updates);
}

/* Skip fsync: other tests check that files reach the disk, and here it would take most of the time. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

static const char *const adam_files[] = {"model", "exp_avg", "exp_avg_sq"};

/* Return the same hash for a checkpoint's files. */
static uint64_t saved_state(const char *checkpoint)
{
    uint64_t sum = 0;
    char name[160];
    static float elements[1 << 16];
    for (int s = 0; s <= slots; s++) {
        zr_safetensors *file = NULL;
        snprintf(name, sizeof name, "%s/%s.safetensors", checkpoint,
                 slots == 1 && s ? "momentum_buffer" : adam_files[s]);
        if (zr_safetensors_open(in_tempdir(name), &file) != ZR_OK) fail_msg("%s", zr_error_message());
        for (int64_t i = 0; i < zr_safetensors_count(file); i++) {
            const zr_safetensors_tensor *t = zr_safetensors_get(file, i);
            assert_true(t->elems <= (int64_t)(sizeof elements / sizeof elements[0]));
            assert_int_equal(zr_safetensors_read_f32(file, t, 0, t->elems, elements), ZR_OK);
            sum += hash_of(s, t->name, 0, t->elems, elements);
        }
        zr_safetensors_close(&file);
    }
    return sum;
}

/* ---- runs ------------------------------------------------------------------------------------- */

static const char base[] =
    "{\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 8, \"dropout\": 0.1}, \"data\": "
    "{\"train\": \"%s/text\"}, \"train_batch_size\": 12, \"train_micro_batch_size_per_gpu\": 1, \"optimizer\": "
    "{\"params\": {\"lr\": 0.01, \"weight_decay\": 0.1}}, \"gradient_clipping\": 0.5, \"scheduler\": {\"type\": "
    "\"WarmupLR\", \"params\": {\"warmup_num_steps\": 5, \"warmup_max_lr\": 0.01}}, \"train\": {\"steps\": 6, "
    "\"eval_interval\": 0, \"threads\": 1, \"save_interval\": 3, \"output_dir\": \"%s/%s\"}}";

/* Train in tempdir/`dir`; `keys` are overrides separated by spaces. A pass over the text is 49 samples, so the fifth
 * step of 12 begins a new pass. */
static told train(const char *dir, int ranks, bool resume, const char *format, ...)
{
    char text[1400], keys[600], *override[KEYS];
    va_list args;
    int n = 0;
    static told t; /* too large for the stack */
    job j = {.told = &t, .resume = resume};
    memset(&t, 0, sizeof t);
    va_start(args, format);
    vsnprintf(keys, sizeof keys, format, args);
    va_end(args);
    for (char *key = strtok(keys, " "); key && n < KEYS; key = strtok(NULL, " ")) override[n++] = key;
    snprintf(text, sizeof text, base, tempdir, tempdir, dir);
    if (zr_config_parse(text, strlen(text), "c.json", (const char *const *) override, n, &j.config) != ZR_OK ||
        zr_train_prepare(j.config, ranks, 0) != ZR_OK)
        fail_msg("%s: %s", format, zr_error_message());
    slots = j.config->optimizer.type != ZR_OPTIMIZER_SGD ? 2 : j.config->optimizer.momentum > 0;
    loaded = 0;
    t.status = zr_comm_threads_run(ranks, train_rank, j.config ? (void *)&j : NULL);
    t.state = loaded;
    zr_config_destroy(&j.config);
    return t;
}

static void expect_ok(const told *t)
{
    if (t->status != ZR_OK) fail_msg("status %d: %s\n%s", t->status, t->message, t->notes);
    if (strstr(t->notes, "not what was planned")) fail_msg("%s", t->notes);
}

static void clear(const char *dir)
{
    nftw(in_tempdir(dir), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *file = fopen(in_tempdir(from), "rb");
    if (!file) fail_msg("no %s", from);
    put_file(to, bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
}

/* Make a run that was killed after the checkpoint `step` of `from` was written. */
static void copy_run(const char *from, const char *to, int64_t step)
{
    static const char *const files[] = {"config.json",         "manifest.json",          "model.safetensors",
                                        "exp_avg.safetensors", "exp_avg_sq.safetensors", "momentum_buffer.safetensors"};
    char name[64], a[200], b[200];
    clear(to);
    assert_int_equal(mkdir(in_tempdir(to), 0700), 0);
    snprintf(a, sizeof a, "%s/metrics.jsonl", from);
    snprintf(b, sizeof b, "%s/metrics.jsonl", to);
    copy_file(a, b);
    zr_checkpoint_name(step, name);
    snprintf(b, sizeof b, "%s/%s", to, name);
    assert_int_equal(mkdir(in_tempdir(b), 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(a, sizeof a, "%s/%s/%s", from, name, files[i]);
        snprintf(b, sizeof b, "%s/%s/%s", to, name, files[i]);
        if (access(in_tempdir(a), F_OK) == 0) assert_int_equal(link(in_tempdir(a), in_tempdir(b)), 0);
    }
}

/* Check that the steps of `t` are bitwise the steps of `whole`. */
static void expect_steps(const told *whole, const told *t, const char *what)
{
    assert_true(t->steps > 0);
    const zr_train_step *from = whole->step;
    while (from->step != t->step[0].step) {
        from++;
        assert_true(from < whole->step + whole->steps);
    }
    for (int i = 0; i < t->steps; i++) {
        const zr_train_step *a = &from[i], *b = &t->step[i];
        const bool same_norm = a->grad_norm == b->grad_norm || (isnan(a->grad_norm) && isnan(b->grad_norm));
        if (a->step != b->step || a->loss != b->loss || !same_norm || a->lr != b->lr || a->skipped != b->skipped ||
            a->loss_scale != b->loss_scale)
            fail_msg("%s: step %d: loss %.17g, norm %.17g, lr %.17g; wanted %.17g, %.17g, %.17g", what, (int)b->step,
                     b->loss, b->grad_norm, b->lr, a->loss, a->grad_norm, a->lr);
    }
}

/* ---- all layouts into all ---------------------------------------------------------------------- */

enum { RANKS = 4, STAGES = 4, LAYOUTS = RANKS * STAGES };

static const char *layout_keys(int layout, bool bf16, int steps)
{
    static char text[200];
    snprintf(text, sizeof text, "zero_optimization.stage=%d bf16.enabled=%s train.steps=%d", layout % STAGES,
             bf16 ? "true" : "false", steps);
    return text;
}

/* Return whether the short run has this pair. In fp32 any three of the ranks and stages before and after take all
 * combinations, and the fourth follows from these three; in bf16 any two do, and the others follow from these. */
static bool is_chosen(int a, int b, bool bf16)
{
    static const int turned[STAGES] = {0, 2, 3, 1};
    const int was = a / STAGES, from = a % STAGES, is = b / STAGES, to = b % STAGES;
    if (is_long_run()) return true;
    return bf16 ? is == (was ^ from) && to == (was ^ turned[from]) : (was + from + is + to) % 4 == 0;
}

/* Save in each layout and resume in each layout: the state is the same. With the same number of ranks, the steps equal
 * the uninterrupted run's; with another number, they are the same at every stage. */
static void all_pairs(bool bf16, int steps)
{
    static told whole[RANKS], first[RANKS][RANKS];
    char dir[32], what[80];
    uint64_t state[RANKS];
    memset(first, 0, sizeof first);
    for (int a = 0; a < LAYOUTS; a++) {
        const int ranks = 1 + a / STAGES;
        snprintf(dir, sizeof dir, "saved%d", a);
        told t = train(dir, ranks, false, "%s train.save_interval=3 train.keep_last=9",
                       layout_keys(a, bf16, a % STAGES ? 3 : steps));
        expect_ok(&t);
        if (a % STAGES == 0) whole[ranks - 1] = t;
        snprintf(what, sizeof what, "%s/step-00000003", dir);
        if (a % STAGES == 0) state[ranks - 1] = saved_state(what);
        assert_true(saved_state(what) == state[ranks - 1]);
    }
    for (int a = 0; a < LAYOUTS; a++)
        for (int b = 0; b < LAYOUTS; b++) {
            const int was = a / STAGES, is = b / STAGES;
            if (!is_chosen(a, b, bf16)) continue;
            snprintf(dir, sizeof dir, "saved%d", a);
            copy_run(dir, "run", 3);
            told t = train("run", 1 + is, true, "%s train.save_interval=0", layout_keys(b, bf16, steps));
            expect_ok(&t);
            snprintf(what, sizeof what, "%d ranks, stage %d to %d ranks, stage %d", was + 1, a % STAGES, is + 1,
                     b % STAGES);
            if (t.state != state[was]) fail_msg("%s: another state", what);
            assert_int_equal(t.steps, steps - 3);
            if (was == is) expect_steps(&whole[is], &t, what);
            if (first[was][is].steps == 0) first[was][is] = t;
            expect_steps(&first[was][is], &t, what);
        }
    for (int a = 0; a < LAYOUTS; a++) {
        snprintf(dir, sizeof dir, "saved%d", a);
        clear(dir);
    }
}

static void every_layout_into_every(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) all_pairs(bf16, 3 + STEPS_AFTER);
}

/* ---- other changes at a resume ----------------------------------------------------------------- */

/* Check changes of type and memory layout: the saved states are the fp32 masters. The fp16 loss scale begins too high,
 * so that its first steps are skipped; resumed runs keep the scale. */
static void every_type_into_every(void **state)
{
    (void)state;
    static const char *const types[] = {
        "bf16.enabled=false",
        "bf16.enabled=true",
        "fp16.enabled=true fp16.initial_scale_power=25 fp16.hysteresis=1 fp16.loss_scale_window=2",
    };
    static const char *const layouts[] = {"memory.layout=lean", "memory.layout=paper"};
    for (int from = 0; from < 6; from++) {
        clear("whole");
        told whole = train("whole", 2, false, "%s %s train.keep_last=9 zero_optimization.stage=2 train.steps=9",
                           types[from / 2], layouts[from % 2]);
        expect_ok(&whole);
        for (int to = 0; to < 6; to++) {
            copy_run("whole", "run", 6);
            told t =
                train("run", 2, true, "%s %s zero_optimization.stage=3 train.steps=9", types[to / 2], layouts[to % 2]);
            expect_ok(&t);
            assert_true(t.state == saved_state("whole/step-00000006"));
            assert_int_equal(t.steps, 3);
            if (from / 2 == to / 2) expect_steps(&whole, &t, types[to / 2]);
            if (from / 2 != to / 2) assert_non_null(strstr(t.notes, "16.enabled was"));
        }
        if (from / 2 == 2) assert_true(whole.step[5].skipped > 0 && whole.step[5].loss_scale < 0x1p25);
    }
}

/* Check other changes that keep the losses: the groups of ranks, buckets, micro-batches; and with `world` the number of
 * ranks. */
static void other_groups_and_batches(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        const char *keys;
    } as[] = {
        {1, "train.reproducible=world train_micro_batch_size_per_gpu=2"},
        {2, "train.reproducible=world train_micro_batch_size_per_gpu=2 zero_optimization.stage=3"},
        {4, "train.reproducible=world train_micro_batch_size_per_gpu=2 zero_optimization.stage=1"},
        {4, "train.reproducible=world train_micro_batch_size_per_gpu=2 zero_optimization.stage=3 "
            "zero_optimization.mics_shard_size=2"},
        {4, "train.reproducible=world train_micro_batch_size_per_gpu=2 zero_optimization.stage=2 "
            "zero_optimization.reduce_bucket_size=100 zero_optimization.allgather_bucket_size=64"},
    };
    enum { N = sizeof as / sizeof as[0] };
    told whole = {.steps = 0};
    for (int a = 0; a < N; a++) {
        clear("whole");
        told now = train("whole", as[a].ranks, false, "train_batch_size=16 train.keep_last=9 %s", as[a].keys);
        expect_ok(&now);
        if (a == 0) whole = now;
        expect_steps(&whole, &now, as[a].keys);
        for (int b = 0; b < N; b++) {
            copy_run("whole", "run", 3);
            told t = train("run", as[b].ranks, true, "train_batch_size=16 %s", as[b].keys);
            expect_ok(&t);
            assert_true(t.state == saved_state("whole/step-00000003"));
            expect_steps(&whole, &t, as[b].keys);
        }
    }
}

/* Check that the position in the data is a number of samples: a batch of another size begins after the last sample. */
static void another_batch(void **state)
{
    (void)state;
    clear("whole");
    told whole = train("whole", 1, false, "train.keep_last=9 model.dropout=0");
    expect_ok(&whole);
    copy_run("whole", "run", 3);
    /* 36 samples are done. With 6 a step, the next step has half of the samples of the old step 4, so its loss differs,
     * and two steps at rate 0 have the old step's mean loss. */
    told t = train("run", 1, true,
                   "train_batch_size=6 train.steps=5 model.dropout=0 scheduler=null "
                   "optimizer.params.lr=0");
    expect_ok(&t);
    assert_int_equal(t.steps, 2);
    double mean = 0.5 * (t.step[0].loss + t.step[1].loss);
    assert_true(fabs(mean - whole.step[3].loss) < 1e-5 && t.step[0].loss != whole.step[3].loss);
    assert_non_null(strstr(t.notes, "train_batch_size was 12, and is now 6"));
}

static void optimizers(void **state)
{
    (void)state;
    static const char sgd[] = "optimizer.type=SGD optimizer.params.momentum=0.9";
    clear("whole");
    told whole = train("whole", 2, false, "%s train.keep_last=9", sgd);
    expect_ok(&whole);
    copy_run("whole", "run", 3);
    told t = train("run", 2, true, "%s", sgd);
    expect_ok(&t);
    assert_true(t.state == saved_state("whole/step-00000003"));
    expect_steps(&whole, &t, sgd);
    copy_run("whole", "run", 3);
    told other = train("run", 2, true, "optimizer.type=AdamW");
    expect_ok(&other);
    assert_non_null(strstr(other.notes, "no states of the optimizer adamw, so they start at zero"));
    assert_non_null(strstr(other.notes, "optimizer.type was \"SGD\", and is now \"AdamW\""));
    assert_true(other.step[2].loss < other.step[0].loss + 1);
}

/* ---- notes and refusals ------------------------------------------------------------------------ */

static void a_run_without_a_checkpoint(void **state)
{
    (void)state;
    clear("run");
    told t = train("run", 2, true, "train.save_interval=0 train.save_end=false");
    expect_ok(&t);
    assert_int_equal(t.steps, 6);
    assert_non_null(strstr(t.notes, "there is no checkpoint in "));
    told again = train("run", 2, true, "train.steps=9"); /* the last run's weights would be lost */
    assert_int_equal(again.status, ZR_ERR_CREATE);
    assert_non_null(strstr(again.message, "left no checkpoint to continue from"));
    nftw(in_tempdir("run/model"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    told anew = train("run", 2, true, "train.save_interval=0"); /* without model/, like a run that was killed */
    expect_ok(&anew);
    expect_steps(&t, &anew, "anew");
}

static void a_run_is_lengthened(void **state)
{
    (void)state;
    clear("run");
    told t = train("run", 2, false, "train.save_interval=4");
    expect_ok(&t);
    assert_int_equal(access(in_tempdir("run/step-00000006"), F_OK), 0); /* the last step has a checkpoint */
    told more = train("run", 2, true, "train.steps=8 train.save_interval=4");
    expect_ok(&more);
    assert_int_equal(more.steps, 2);
    assert_non_null(strstr(more.notes, "train.steps was 6, and is now 8"));
    assert_non_null(strstr(more.notes, "goes on after step 6 of 8"));
    clear("whole");
    told whole = train("whole", 2, false, "train.steps=8");
    expect_ok(&whole);
    expect_steps(&whole, &more, "longer");
    assert_int_equal(access(in_tempdir("run/model.old"), F_OK), -1);
    told less = train("run", 2, true, "train.steps=7");
    assert_int_equal(less.status, ZR_ERR_CONFIG);
    assert_non_null(strstr(less.message, "train.steps is 7, but step-00000008 has done 8 steps"));
    told same = train("run", 2, true, "train.steps=8"); /* no steps are left */
    expect_ok(&same);
    assert_int_equal(same.steps, 0);
    assert_true(same.result.loss == whole.step[7].loss);
}

/* Check that a run stopped and resumed three times equals the uninterrupted run. */
static void a_run_is_stopped(void **state)
{
    (void)state;
    clear("whole");
    clear("run");
    told whole = train("whole", 2, false, "train.save_interval=0");
    expect_ok(&whole);
    stop_after = 1;
    for (int i = 0; i < 3; i++) {
        told t = train("run", 2, i > 0, "train.save_interval=0 train.keep_last=1 checkpoint.every=2");
        assert_int_equal(t.status, ZR_ERR_STOPPED);
        expect_steps(&whole, &t, "stopped");
    }
    stop_after = 0;
    told t = train("run", 2, true, "train.save_interval=0 train.save_end=false");
    expect_ok(&t);
    assert_int_equal(t.steps, 3);
    expect_steps(&whole, &t, "after three stops");
    assert_int_equal(access(in_tempdir("run/step-00000001"), F_OK), -1);
    assert_int_equal(access(in_tempdir("run/step-00000002"), F_OK), 0); /* kept for good */
    assert_int_equal(access(in_tempdir("run/step-00000003"), F_OK), 0);
}

static void other_models_and_data(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *message;
        zr_status status;
    } refused[] = {
        {"model.n_layer=3", "model.n_layer is 3, but 2 in step-00000003", ZR_ERR_CONFIG},
        {"model.layer_norm_epsilon=1e-6", "model.layer_norm_epsilon", ZR_ERR_CONFIG},
        {"model.vocab_size=300", "model.vocab_size", ZR_ERR_CONFIG},
    };
    char data[DATA_BYTES];
    clear("whole");
    told whole = train("whole", 2, false, "train.steps=3");
    expect_ok(&whole);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        told t = train("whole", 2, true, "%s", refused[i].keys);
        assert_int_equal(t.status, refused[i].status);
        if (!strstr(t.message, refused[i].message)) fail_msg("\"%s\": %s", refused[i].message, t.message);
    }
    copy_file("text", "kept");
    memset(data, 'x', sizeof data);
    put_file("text", data, sizeof data);
    told other = train("whole", 2, true, "train.steps=6");
    assert_int_equal(other.status, ZR_ERR_DATA);
    assert_non_null(strstr(other.message, "data.train: the file has changed since step-00000003 was written"));
    put_file("text", data, sizeof data - 1);
    other = train("whole", 2, true, "train.steps=6");
    assert_int_equal(other.status, ZR_ERR_DATA);
    assert_non_null(strstr(other.message, "the file has 399 bytes, but had 400 when"));
    copy_file("kept", "text");
    told t = train("whole", 2, true, "train.steps=6");
    expect_ok(&t);
}

static void flip(const char *name, long at)
{
    FILE *file = fopen(in_tempdir(name), "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int c = getc(file);
    fseek(file, at, SEEK_SET);
    putc(c ^ 4, file);
    fclose(file);
}

/* Check that with one wrong bit in the manifest, in a header or in the moments, the run resumes from the checkpoint
 * before, and a note contains the reason. */
static void damaged_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        long at;
    } bits[] = {{"manifest.json", 40}, {"model.safetensors", 20}, {"exp_avg_sq.safetensors", 6000}};
    char name[160];
    clear("whole");
    told whole = train("whole", 2, false, "train.steps=8 train.save_interval=2 train.keep_last=9");
    expect_ok(&whole);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        snprintf(name, sizeof name, "whole/step-0000000%d/%s", 8 - 2 * (int)i, bits[i].file);
        flip(name, bits[i].at);
        told refused = train("whole", 1 + (int)i, true, "train.steps=9"); /* weights of a later step exist */
        assert_int_equal(refused.status, ZR_ERR_CREATE);
        snprintf(name, sizeof name, "holds weights after step %d (model), and its newest checkpoint", i == 0 ? 8 : 9);
        if (!strstr(refused.message, name)) fail_msg("no \"%s\" in: %s", name, refused.message);
        nftw(in_tempdir("whole/model"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
        told t = train("whole", 1 + (int)i, true, "train.steps=9 train.save_interval=0 train.save_end=false");
        snprintf(name, sizeof name, "step-0000000%d is skipped: ", 8 - 2 * (int)i);
        if (!strstr(t.notes, name)) fail_msg("no \"%s\" in: %s%s", name, t.notes, t.message);
        snprintf(name, sizeof name, "goes on after step %d of 9", 6 - 2 * (int)i);
        if (!strstr(t.notes, name)) fail_msg("no \"%s\" in: %s%s", name, t.notes, t.message);
        expect_ok(&t);
    }
    flip("whole/step-00000002/model.safetensors", 5000);
    nftw(in_tempdir("whole/model"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    told none = train("whole", 2, true, "train.steps=9");
    assert_int_equal(none.status, ZR_ERR_DATA);
    assert_non_null(strstr(none.message, "none of its 4 checkpoints is complete"));
}

static int make_all(void **state)
{
    char data[DATA_BYTES];
    if (tempdir_make(state) || set_rates(in_tempdir("cache"))) return -1;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)('a' + i * i % 23);
    put_file("text", data, sizeof data);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout_into_every),
                                       cmocka_unit_test(every_type_into_every),
                                       cmocka_unit_test(other_groups_and_batches),
                                       cmocka_unit_test(another_batch),
                                       cmocka_unit_test(optimizers),
                                       cmocka_unit_test(a_run_without_a_checkpoint),
                                       cmocka_unit_test(a_run_is_lengthened),
                                       cmocka_unit_test(a_run_is_stopped),
                                       cmocka_unit_test(other_models_and_data),
                                       cmocka_unit_test(damaged_checkpoints)};
    return cmocka_run_group_tests(tests, make_all, tempdir_remove);
}
