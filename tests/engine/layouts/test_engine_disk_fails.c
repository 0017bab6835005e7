//TEST timeout=120 long=more tsan=1
//LINK -Wl,--wrap=zr__store_create,--wrap=zr__store_destroy,--wrap=zr__store_read,--wrap=zr__store_write
/* Failures of disks that hold model states and activation checkpoints. Each read and write of a rank fails once: the
 * run ends on all ranks with a message that names the state and the step, nothing is in flight afterwards, and a new
 * engine that is filled with the states of an earlier step continues with the same bits. A failure at the start ends
 * all ranks with its message. */
#include <stdatomic.h>

#include "all_states.h"
#include "engine/layout_variants.h"
#include "support/long.h"
#include "engine/walk.h"

/* ---- a disk that fails ------------------------------------------------------------------------- */

enum { RANKS = 2 };

static struct {
    _Atomic(zr__store *) store[RANKS]; /* store of each rank */
    atomic_int flying[RANKS];          /* number of calls that have not returned */
    atomic_int calls[2];               /* number of reads and of writes of rank 0 */
    int fails_at[2];                   /* number of the call of rank 0 that fails, from 1; 0: none */
    int poor_rank;                     /* rank whose disk is too small; -1: none */
    const char *window;                /* memory from which rank 0 writes saves: reads into it fail; NULL: none */
    int64_t window_bytes;
    atomic_int failed;
    bool destroyed_early; /* a store was destroyed during a call */
} disk;

static void disk_reset(void)
{
    for (int r = 0; r < RANKS; r++) disk.store[r] = NULL;
    disk.calls[0] = disk.calls[1] = disk.failed = 0;
    disk.fails_at[0] = disk.fails_at[1] = 0;
    disk.poor_rank = -1;
    disk.window = NULL;
}

static int rank_of(const zr__store *store)
{
    int r = 0;
    while (r < RANKS && disk.store[r] != store) r++;
    return r;
}

zr_status __real_zr__store_create(const zr__store_config *config, zr__store **store);
zr_status __wrap_zr__store_create(const zr__store_config *config, zr__store **store);
zr_status __wrap_zr__store_create(const zr__store_config *config, zr__store **store)
{
    const int rank = atoi(config->owner + strlen("rank "));
    ZR_CHECK(rank != disk.poor_rank, ZR_ERR_MEMORY, "%s: the folder is too small", config->owner);
    const zr_status st = __real_zr__store_create(config, store);
    disk.store[rank] = *store;
    return st;
}

void __real_zr__store_destroy(zr__store **store);
void __wrap_zr__store_destroy(zr__store **store);
void __wrap_zr__store_destroy(zr__store **store)
{
    if (*store && disk.flying[rank_of(*store)] > 0) disk.destroyed_early = true;
    __real_zr__store_destroy(store);
}

static bool fails(const zr__store *store, bool writes, const char *memory)
{
    if (rank_of(store) > 0) return false;
    const int number = ++disk.calls[writes];
    const bool saves = disk.window && memory >= disk.window && memory < disk.window + disk.window_bytes;
    if (number != disk.fails_at[writes] && !saves) return false;
    disk.failed++;
    return true;
}

zr_status __real_zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what);
zr_status __wrap_zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what);
zr_status __wrap_zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what)
{
    const int rank = rank_of(store);
    disk.flying[rank]++;
    const zr_status st = fails(store, false, to) ? ZR_FAIL(ZR_ERR_IO, "cannot read %s", what)
                                                 : __real_zr__store_read(store, offset, to, bytes, what);
    disk.flying[rank]--;
    return st;
}

zr_status __real_zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes, const char *what);
zr_status __wrap_zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes, const char *what);
zr_status __wrap_zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes, const char *what)
{
    const int rank = rank_of(store);
    disk.flying[rank]++;
    const zr_status st = fails(store, true, from) ? ZR_FAIL(ZR_ERR_IO, "cannot write %s", what)
                                                  : __real_zr__store_write(store, offset, from, bytes, what);
    disk.flying[rank]--;
    return st;
}

/* ---- runs -------------------------------------------------------------------------------------- */

enum { STEPS = 2, KINDS = 4 };

/* Return a trainer that keeps optimizer states on disk, with `kind` 1 and 2 other states too, and with `kind` 3
 * activation checkpoints. */
static trainer disk_trainer(int ranks, int kind)
{
    trainer run = layout_trainer(ranks, ZR_BF16, 1, 0.5);
    run.config.n_layer = 1;
    run.steps = STEPS;
    run.layout.seq = 8;
    run.layout.stage = kind == 0 ? 1 : 3;
    run.layout.states = kind == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    run.layout.accum = kind == 2 ? 2 : 1;
    run.layout.home.optim = ZR_SPACE_DISK;
    if (kind == 2) run.layout.home.param = run.layout.home.grad = ZR_SPACE_DISK;
    if (kind == 3) {
        run.layout.recompute = ZR_RECOMPUTE_UNIT;
        run.layout.checkpoint_home = ZR_SPACE_DISK;
    }
    run.layout.home.bucket_elems = 1024;
    run.layout.home.buckets = 2;
    run.layout.home.block_bytes = ZR_DISK_ALIGN;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 3000;
    return run;
}

static int32_t second_step(void *arg, int64_t step, int64_t row, int64_t t)
{
    return trainer_token(arg, step + 1, row, t);
}

static zr_status run_ranks(trainer *run)
{
    return zr_comm_threads_run(run->layout.ranks, trainer_rank, run);
}

static void expect_text(const char *text)
{
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

/* Check that a run which is filled with `kept`, the states after the first step, takes the second step of `whole`. */
static void check_resumed(const trainer *whole, states *kept, int kind)
{
    trainer again = disk_trainer(whole->layout.ranks, kind), plain = again;
    again.config.embd_pdrop = again.config.resid_pdrop = again.config.attn_pdrop = 0;
    again.steps = 1;
    again.before = give_all;
    again.arg = kept;
    again.token = second_step;
    again.token_arg = &plain;
    disk_reset();
    trainer_run(&again);
    assert_true(again.loss[0] == whole->loss[1] && again.norm[0] == whole->norm[1]);
    assert_true(again.weights == whole->weights);
}

/* Let each read or write of rank 0 fail, from the creation of the engine to the end of the run. */
static void check_each(int ranks, int kind)
{
    trainer whole = disk_trainer(ranks, kind);
    states *kept = calloc(1, sizeof *kept);
    whole.config.embd_pdrop = whole.config.resid_pdrop = whole.config.attn_pdrop = 0;
    trainer clean = whole;
    clean.after_first = take_all;
    clean.arg = kept;
    disk_reset();
    trainer_run(&clean);
    const int calls[] = {disk.calls[0], disk.calls[1]};
    disk_reset();
    trainer_run(&whole);
    const int after[] = {disk.calls[0], disk.calls[1]}; /* without the reads of take_all */
    assert_true(clean.weights == whole.weights && calls[0] > after[0] && after[0] > 20 && after[1] > 20);
    int walks = 0;
    for (int writes = 0; writes < 2; writes++)
        for (int n = 1; n <= after[writes]; n += is_long_run() ? 1 : 3) {
            trainer got = whole;
            disk_reset();
            disk.fails_at[writes] = n;
            assert_int_equal(run_ranks(&got), ZR_ERR_IO);
            assert_int_equal(disk.failed, 1);
            expect_text(writes ? "cannot write " : "cannot read ");
            expect_text(" of "); /* the unit */
            walks += strstr(zr_error_message(), " of the schedule, copy of ") != NULL;
            for (int r = 0; r < ranks; r++) assert_int_equal(disk.flying[r], 0);
            assert_false(disk.destroyed_early);
            if (n % 16 == 1) check_resumed(&whole, kept, kind);
        }
    assert_true(walks > 10);
    free(kept);
}

static void test_each_transfer(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) check_each(1 + kind % 2, kind);
}

/* ---- failures at the start --------------------------------------------------------------------- */

/* Check on every rank that creation fails with the same message. */
static zr_status create_fails(zr_comm *comm, void *arg)
{
    trainer *run = arg;
    zr_model model = trainer_model(run);
    const zr_device_config wanted = {1, NULL, 0};
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_engine *engine = NULL;
    ZR_TRY(zr_device_create_cpu(&wanted, &device));
    ZR_TRY(zr_plan_create(&model, &run->layout, &device->profile, &plan));
    const zr_status want = disk.poor_rank >= 0 ? ZR_ERR_MEMORY : run->n_folders > 0 ? ZR_ERR_CREATE : ZR_ERR_ARG;
    const char *text = disk.poor_rank >= 0  ? "rank 1: the folder is too small"
                       : run->n_folders > 0 ? run->folder[0]
                                            : "no folder was given";
    const zr_status st = zr_engine_create_on(plan, device, comm, 1, run->folder, run->n_folders, &engine);
    const bool told = st == want && strstr(zr_error_message(), text);
    if (!told) fprintf(stderr, "rank %d: status %d, \"%s\"\n", comm->rank, st, zr_error_message());
    if (st == ZR_OK) zr_engine_destroy(&engine);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    return told ? ZR_OK : ZR_FAIL(ZR_ERR_INTERNAL, "another failure");
}

static void test_start(void **state)
{
    (void)state;
    static const char *const missing[] = {"/tmp/zr-test-no-such-folder"}, *const good[] = {"/tmp"};
    trainer run = disk_trainer(RANKS, 0);
    disk_reset();
    disk.poor_rank = 1;
    run.folder = good;
    run.n_folders = 1;
    assert_int_equal(zr_comm_threads_run(RANKS, create_fails, &run), ZR_OK);
    disk_reset();
    run.folder = missing;
    assert_int_equal(zr_comm_threads_run(RANKS, create_fails, &run), ZR_OK);
    run.folder = NULL;
    run.n_folders = 0;
    assert_int_equal(zr_comm_threads_run(RANKS, create_fails, &run), ZR_OK);
}

/* ---- a save that cannot read -------------------------------------------------------------------- */

static zr_status ignore(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg, (void)state, (void)param, (void)first, (void)n, (void)in;
    return ZR_OK;
}

static zr_status end(void *arg)
{
    *(bool *)arg = true;
    return ZR_OK;
}

static bool save_ended;

static zr_status begin_save(trainer *run, zr_engine *engine, zr_comm *comm)
{
    static const zr_sink sink = {.put = ignore, .end = end, .arg = &save_ended};
    (void)run;
    if (comm->rank > 0) return ZR_OK;
    const zr__window window = zr__window_of(engine, ZR_WINDOW_SAVE);
    disk.window_bytes = window.bytes;
    disk.window = window.memory;
    return zr_engine_save(engine, &sink);
}

static zr_status end_save(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    if (comm->rank > 0) return ZR_OK;
    disk.window = NULL;
    ZR_CHECK(disk.failed > 0, ZR_ERR_INTERNAL, "the save has read nothing");
    ZR_CHECK(zr_engine_save_end(engine) == ZR_ERR_IO && strstr(zr_error_message(), "cannot read "), ZR_ERR_INTERNAL,
             "the save did not fail: %s", zr_error_message());
    ZR_CHECK(zr_engine_saved(engine) && !save_ended, ZR_ERR_INTERNAL, "the save goes on");
    return ZR_OK;
}

/* Check that a save which cannot read a state fails alone, and training continues. */
static void test_save(void **state)
{
    (void)state;
    trainer want = disk_trainer(RANKS, 0), got = want;
    disk_reset();
    trainer_run(&want);
    disk_reset();
    got.layout.save = ZR_SAVE_IN_PLACE;
    got.steps = 2;
    got.before = begin_save;
    got.after_first = end_save;
    /* trainer_steps saves in the second step again, which must succeed */
    trainer_run(&got);
    layout_assert_same(&want, &got, "a save that fails");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_transfer),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
