//TEST timeout=120 tsan=1
//LINK -Wl,--wrap=zr__comm_channel,--wrap=zr__channel_end
/* Ranks of a pipeline that fail or hang in a cell: all ranks end, and the message names rank, step and cell. Where
 * values have threads of their own, they come while the rank computes. */
#include "engine/trainer.h"
#include "engine/walk.h"
#include "train/watch/hang.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- kernels that see their cell --------------------------------------------------------------- */

/* A cell on a rank. */
typedef struct spot {
    int rank, stage;
    char action;
    int64_t micro;
} spot;

static bool same_spot(const spot *a, const spot *b)
{
    return a->rank == b->rank && a->stage == b->stage && a->action == b->action && a->micro == b->micro;
}

enum { MOST = 256, OPS = 64 };
static struct {
    pthread_mutex_t lock;
    const zr_device_ops *ops; /* of the processor */
    zr_kernel kernel[OPS];    /* the device's kernels, with `run` replaced */
    int n_kernels;
    spot spot[MOST]; /* cells in which a kernel ran */
    int n;
    const spot *fails, *hangs; /* cell whose first kernel fails, or hangs until `over`; or NULL */
    _Atomic bool over;
    /* the first channel to rank 1, for values of the forward pass; number of its messages for which the rank has begun
     * to wait; and whether a kernel in the rank's first cell waits for the second one */
    const zr__channel *into;
    _Atomic int awaited;
    bool waits;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_spot(const spot *at)
{
    pthread_mutex_lock(&seen.lock);
    int i = 0;
    while (i < seen.n && !same_spot(&seen.spot[i], at)) i++;
    assert_true(i < MOST);
    seen.spot[i] = *at;
    if (i == seen.n) seen.n++;
    pthread_mutex_unlock(&seen.lock);
}

/* Run a kernel of the processor. The board says in which cell it runs. */
static zr_status run_seen(const zr_kernel_args *args)
{
    const zr_engine *e = (const zr_engine *)((const char *)args->runtime - offsetof(zr_engine, runtime));
    zr_comm_board board;
    if (!zr__comm_look(e->comm, e->comm->rank, &board)) return ZR_FAIL(ZR_ERR_INTERNAL, "no board");
    const zr__engine_at at = zr__engine_shown(board.shown, ZR_SHOWN_COMPUTE);
    ZR_CHECK(at.walks && !at.ended && at.kind == ZR_STEP_RUN &&
                 zr_graph_get_op(e->plan->graph[at.schedule], at.about) == args->op,
             ZR_ERR_INTERNAL, "the board shows another step");
    const spot here = {e->comm->rank, at.stage, at.action, at.micro};
    add_spot(&here);
    if (seen.fails && same_spot(seen.fails, &here)) return ZR_FAIL(ZR_ERR_DATA, "this kernel fails");
    while (seen.hangs && same_spot(seen.hangs, &here) && !seen.over)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int ms = 0; seen.waits && same_spot(&here, &(spot){1, 1, 'F', 0}) && seen.awaited < 2; ms++) {
        ZR_CHECK(ms < 20000, ZR_ERR_INTERNAL, "no message comes while this rank computes");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return seen.ops->kernel(e->device, args->op->def->name)->run(args);
}

static const zr_kernel *seen_kernel(zr_device *device, const char *name)
{
    const zr_kernel *its = seen.ops->kernel(device, name);
    if (!its) return NULL;
    pthread_mutex_lock(&seen.lock);
    int i = 0;
    while (i < seen.n_kernels && strcmp(seen.kernel[i].op, name) != 0) i++;
    assert_true(i < OPS);
    if (i == seen.n_kernels) {
        seen.kernel[i] = *its;
        seen.kernel[i].op = name;
        seen.kernel[i].run = run_seen;
        seen.n_kernels++;
    }
    pthread_mutex_unlock(&seen.lock);
    return &seen.kernel[i];
}

static void see_kernels(trainer *run, zr_device *device)
{
    static zr_device_ops ops;
    (void)run;
    pthread_mutex_lock(&seen.lock);
    if (!seen.ops) {
        seen.ops = device->ops;
        ops = *device->ops;
        ops.kernel = seen_kernel;
    }
    device->ops = &ops;
    pthread_mutex_unlock(&seen.lock);
}

static trainer piped(zr_pipe_schedule schedule, bool lanes)
{
    trainer run = trainer_odd();
    run.layout.stage = 0;
    run.layout.pipeline = 2;
    run.layout.accum = schedule == ZR_PIPELINE_ZB_V ? 4 : 2;
    run.layout.pipeline_schedule = schedule;
    run.layout.chunks = schedule == ZR_PIPELINE_ZB_V ? 2 : 1;
    run.layout.eval = false;
    run.layout.overlap = true;
    run.config.n_layer = 3;
    run.lanes = lanes;
    run.steps = 1;
    run.tune = see_kernels;
    seen.n = 0;
    seen.fails = seen.hangs = NULL;
    seen.over = false;
    seen.into = NULL;
    seen.awaited = 0;
    return run;
}

/* ---- failures ---------------------------------------------------------------------------------- */

/* Check that each rank runs each action of its stages for each micro-batch. */
static void check_cells(const trainer *run)
{
    const zr_layout *l = &run->layout;
    const bool splits = l->pipeline_schedule == ZR_PIPELINE_ZB_V || l->pipeline_schedule == ZR_PIPELINE_ZB_H1;
    for (const char *action = splits ? "FIW" : "FB"; *action; action++)
        for (int stage = 0; stage < l->pipeline * l->chunks; stage++)
            for (int64_t m = 0; m < l->accum; m++) {
                const int rank = stage >= l->pipeline ? 2 * l->pipeline - 1 - stage : stage;
                const spot at = {rank, stage, *action, m};
                int i = 0;
                while (i < seen.n && !same_spot(&seen.spot[i], &at)) i++;
                if (i == seen.n) fail_msg("no kernel ran in cell %d%c%d of rank %d", stage, *action, (int)m, rank);
            }
}

/* Let a kernel fail in every cell of each rank: no rank waits forever, and the failure is that of the kernel. */
static void fails_in_every_cell(void **state)
{
    (void)state;
    static spot spots[MOST];
    const zr_pipe_schedule schedules[] = {ZR_PIPELINE_1F1B, ZR_PIPELINE_ZB_V};
    for (int s = 0; s < 2; s++) {
        trainer run = piped(schedules[s], false);
        trainer_run(&run);
        check_cells(&run);
        const int n = seen.n;
        memcpy(spots, seen.spot, sizeof spots);
        for (int i = 0; i < n; i++) {
            char wanted[64];
            run = piped(schedules[s], i % 2);
            seen.fails = &spots[i];
            const zr_status st = zr_comm_threads_run(2, trainer_rank, &run);
            snprintf(wanted, sizeof wanted, ", cell %d%c%d)", spots[i].stage, spots[i].action, (int)spots[i].micro);
            const char *text = zr_error_message();
            if (st != ZR_ERR_DATA || atoi(text + 5) != spots[i].rank || !strstr(text, ": this kernel fails (step ") ||
                !strstr(text, wanted))
                fail_msg("rank %d failed in%s, which is said as \"%s\"", spots[i].rank, wanted, text);
        }
    }
}

/* ---- hangs ------------------------------------------------------------------------------------- */

static struct {
    zr_comm *comm;
    char said[1024], of[2][1024];
    int rows;
} told;

static void hear(void *arg, zr_hang_event event, const char *line)
{
    (void)arg;
    if (event == ZR_HANG_RANK && told.rows < 2) snprintf(told.of[told.rows++], sizeof told.of[0], "%s", line);
    if (event != ZR_HANG_OVER || seen.over) return;
    snprintf(told.said, sizeof told.said, "%s", line);
    zr__comm_cancel(told.comm);
    seen.over = true;
}

static zr_status begin_training(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr__comm_show(comm, ZR__PHASE_SHOWN, zr__phase_shown(ZR__PHASE_TRAIN, 0));
    if (comm->rank == 0) zr__hang_plan(*(zr__hang **)run->arg, engine->plan);
    return zr_comm_barrier(comm);
}

/* Run a rank while rank 0 watches for hangs. The plan is gone before the watch: nothing is said of a plan then, since
 * the hang is over. */
static zr_status watched(zr_comm *comm, void *arg)
{
    static const zr_config config = {.train.hang_timeout = 1};
    static const zr_observer observer = {.hang = hear};
    trainer *run = arg;
    zr__hang **watch = run->arg;
    if (comm->rank == 0) {
        told.comm = comm;
        ZR_TRY(zr__hang_create(&config, comm, &observer, watch));
    }
    const zr_status st = trainer_rank(comm, run);
    if (comm->rank == 0) zr__hang_destroy(watch);
    return st;
}

/* Let a rank hang in a cell, and check what is said of it, and of the other rank, which waits for a message. */
static void says_who_waits(void **state)
{
    (void)state;
    static const struct {
        spot at;
        const char *cell; /* in which the other rank waits */
    } hangs[] = {{{0, 0, 'F', 1}, "1F1"}, {{1, 1, 'B', 0}, "0B0"}, {{0, 0, 'B', 0}, NULL}};
    for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++)
        for (int lanes = 0; lanes < 2; lanes++) {
            zr__hang *watch = NULL;
            trainer run = piped(ZR_PIPELINE_1F1B, lanes);
            const spot *at = &hangs[i].at;
            char wanted[3][128];
            run.before = begin_training;
            run.arg = &watch;
            memset(&told, 0, sizeof told);
            seen.hangs = at;
            assert_int_equal(zr_comm_threads_run(2, watched, &run), ZR_ERR_PEER);
            snprintf(wanted[0], sizeof wanted[0], "rank %d has been stuck for ", at->rank);
            snprintf(wanted[1], sizeof wanted[1], " in training step 1, step ");
            snprintf(wanted[2], sizeof wanted[2], ", cell %d%c%d)", at->stage, at->action, (int)at->micro);
            for (int k = 0; k < 3; k++)
                if (!strstr(told.said, wanted[k])) fail_msg("hang %zu: \"%s\" lacks \"%s\"", i, told.said, wanted[k]);
            if (!hangs[i].cell) continue; /* the other rank waits for all ranks */
            snprintf(wanted[0], sizeof wanted[0], "rank %d waits for rank %d in ", !at->rank, at->rank);
            snprintf(wanted[1], sizeof wanted[1], "(received from role %d, cell %s)", at->rank, hangs[i].cell);
            for (int k = 0; k < 2; k++)
                if (!strstr(told.of[!at->rank], wanted[k]))
                    fail_msg("hang %zu: \"%s\" lacks \"%s\"", i, told.of[!at->rank], wanted[k]);
        }
}

/* ---- messages beside computation --------------------------------------------------------------- */

zr_status __real_zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                  zr__channel **channel);
zr_status __wrap_zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                  zr__channel **channel);
zr_status __wrap_zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                  zr__channel **channel)
{
    ZR_TRY(__real_zr__comm_channel(comm, mail, route, copier, channel));
    if (comm->rank == 1 && route->to == 1 && !seen.into) seen.into = *channel;
    return ZR_OK;
}

zr_status __real_zr__channel_end(zr__channel *channel);
zr_status __wrap_zr__channel_end(zr__channel *channel);
zr_status __wrap_zr__channel_end(zr__channel *channel)
{
    seen.awaited += channel == seen.into;
    return __real_zr__channel_end(channel);
}

/* Check that a rank waits for a message while it computes the cell before. */
static void messages_come_beside(void **state)
{
    (void)state;
    trainer want = piped(ZR_PIPELINE_GPIPE, false);
    trainer_run(&want);
    trainer got = piped(ZR_PIPELINE_GPIPE, true);
    seen.waits = true;
    trainer_run(&got);
    seen.waits = false;
    assert_int_equal(seen.awaited, got.layout.accum);
    assert_true(want.weights == got.weights && want.loss[0] == got.loss[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails_in_every_cell), cmocka_unit_test(says_who_waits),
                                       cmocka_unit_test(messages_come_beside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
