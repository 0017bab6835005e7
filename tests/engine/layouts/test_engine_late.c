//TEST timeout=120
/* A device that does all work as late as possible: only when a thread waits for it. If the host, another queue or
 * another rank used a result that the device has not computed yet, the bits would differ. The device can also report
 * the times of its tasks on simulated clocks, one for each queue. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/layout_variants.h"
#include "engine/walk.h"
#include "plan/cost/cost.h"
#include "train/control/control.h"

typedef struct call {
    enum { RUN, COPY, SUM, SQUARE, SQUARE_UPDATE, UPDATE, FILL, CAST, TOTAL, NORMAL, WAIT } what;
    zr_device *device;
    void *out;
    const void *in;
    int64_t n, first; /* n: number of elements, or of bytes for a copy */
    zr_dtype out_dtype, dtype;
    bool flag;  /* for SUM: accumulate; for SQUARE, SQUARE_UPDATE: exact */
    int number; /* for SUM: number of pieces; for FILL: the byte */
    const void *piece[8];
    const zr_kernel *kernel;
    zr_kernel_args args;
    zr_runtime runtime;
    const zr_optimizer *optimizer;
    zr_update_args update;
    zr_rng rng;
    float std;
    zr_casting casting; /* with `flag`, its numbers are in `rounding` */
    zr_rounding rounding;
    struct lane *other; /* for WAIT: lane whose first n calls must be made before */
} call;

/* The calls requested of a queue; calls [done, asked) have not been made yet. */
enum { CALLS = 512, MARKS = 4096, LANES = 2 };
typedef struct lane {
    zr_device *device; /* device of the queue's tasks */
    zr_queue *queue;
    call call[CALLS];
    int64_t asked, done;
    int64_t noted;         /* value of `asked` at the noted point */
    int64_t marked[MARKS]; /* for each mark, by its ticket: value of `asked` when the mark was set */
} lane;

/* The simulated clock of a queue. A task begins when the queue is free, the queue's waits have ended, and the host has
 * issued the task. */
typedef struct simulated_clock {
    const zr_queue *queue;
    bool threaded;
    /* free: time from which the queue is free; awaited: latest end of the work that it waits for */
    double free_sec, awaited_sec;
    double marked_sec[MARKS]; /* for each mark, by its ticket: value of free_sec when the mark was set */
} simulated_clock;

/* The lanes of a thread. A thread that walks a schedule has one for each of its queues, computing and copies; a queue's
 * thread has one for that queue. */
static _Thread_local struct {
    lane lane[LANES];
    int n_lanes;
    lane *running; /* the lane whose task the thread runs */
    int64_t most;  /* the maximum number of computing calls pending at a time */
    int overtook;  /* number of copies made before pending computing calls that precede them in the list */
    bool fails;    /* whether the next copy fails */
    simulated_clock clock[ZR_STREAMS];
    int n_clocks;
    double host_sec;         /* time of the thread that walks the schedule */
    int32_t simulated_steps; /* number of steps of the schedule whose times are simulated; 0: report real times */
} own;
static zr_device_ops plain, late;   /* filled once */
static bool is_apart, copies_early; /* whether the device has its own memory; whether it copies at once */
static int64_t latest;              /* own.most of rank 0 */
static int overtaken;               /* own.overtook of rank 0 */

static zr_status do_until(lane *l, int64_t n);

static zr_status do_call(const call *c)
{
    zr_kernel_args args = c->args;
    zr_casting casting = c->casting;
    args.runtime = &c->runtime;
    switch (c->what) {
    case RUN:
        return c->kernel->run(&args);
    case COPY:
        return plain.copy(c->device, c->out, c->in, c->n);
    case SUM:
        return plain.sum(c->device, c->out, c->out_dtype, c->flag, c->piece, c->number, c->dtype, c->n);
    case SQUARE:
        return plain.square(c->device, c->in, c->dtype, c->n, c->flag, c->first, c->out);
    case SQUARE_UPDATE:
        return plain.square_update(c->device, c->optimizer, &c->update, c->flag, c->first, c->out);
    case UPDATE:
        return plain.update(c->device, c->optimizer, &c->update);
    case FILL:
        return plain.fill(c->device, c->out, c->number, c->n);
    case CAST:
        casting.rounding = c->flag ? &c->rounding : NULL;
        return plain.cast(c->device, c->out, c->out_dtype, c->in, c->dtype, c->n, &casting);
    case TOTAL:
        return plain.total(c->device, c->in, c->n, c->out);
    case NORMAL:
        plain.normal(c->device, &c->rng, (uint64_t)c->first, c->n, c->std, c->out);
        break;
    case WAIT:
        return do_until(c->other, c->n);
    }
    return ZR_OK;
}

static zr_status do_until(lane *l, int64_t n)
{
    while (l->done < n) ZR_TRY(do_call(&l->call[l->done++ % CALLS]));
    return ZR_OK;
}

static zr_status put(lane *l, const call *c)
{
    ZR_TRY(do_until(l, l->asked + 1 - CALLS));
    l->call[l->asked++ % CALLS] = *c;
    if (l == own.lane && l->asked - l->done > own.most) own.most = l->asked - l->done;
    return ZR_OK;
}

static zr_status ask(const call *c)
{
    return own.running && c->device == own.running->device ? put(own.running, c) : do_call(c); /* outside tasks */
}

static zr_status late_run(const zr_kernel_args *args)
{
    call c = {.what = RUN, .device = args->device, .args = *args, .runtime = *args->runtime};
    c.kernel = plain.kernel(args->device, args->op->def->name);
    return ask(&c);
}

static const zr_kernel *late_kernel(zr_device *device, const char *op)
{
    enum { KERNELS = 64 };
    static _Thread_local zr_kernel kernel[KERNELS];
    static _Thread_local int n;
    const zr_kernel *its = plain.kernel(device, op);
    if (!its) return NULL;
    for (int i = 0; i < n; i++)
        if (strcmp(kernel[i].op, op) == 0) return &kernel[i];
    if (n == KERNELS) abort();
    kernel[n] = *its;
    kernel[n].run = late_run;
    return &kernel[n++];
}

static zr_status late_copy(zr_device *device, void *to, const void *from, int64_t bytes)
{
    const bool fails = own.fails && own.running == &own.lane[1];
    if (fails) own.fails = false;
    ZR_CHECK(!fails, ZR_ERR_IO, "a copy fails");
    return ask(&(call){.what = COPY, .device = device, .out = to, .in = from, .n = bytes});
}

static zr_status late_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                          int n_pieces, zr_dtype dtype, int64_t n)
{
    call c = {.what = SUM,
              .device = device,
              .out = out,
              .out_dtype = out_dtype,
              .flag = accumulate,
              .number = n_pieces,
              .dtype = dtype,
              .n = n};
    if (n_pieces > 8) abort();
    memcpy(c.piece, pieces, sizeof *pieces * (size_t)n_pieces);
    return ask(&c);
}

static zr_status late_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                             zr_square *square)
{
    return ask(&(call){.what = SQUARE,
                       .device = device,
                       .in = x,
                       .dtype = dtype,
                       .n = n,
                       .flag = exact,
                       .first = first,
                       .out = square});
}

static zr_status late_square_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args,
                                    bool exact, int64_t first, zr_trust *trust)
{
    return ask(&(call){.what = SQUARE_UPDATE,
                       .device = device,
                       .flag = exact,
                       .first = first,
                       .out = trust,
                       .optimizer = optimizer,
                       .update = *args});
}

static zr_status late_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    return ask(&(call){.what = UPDATE, .device = device, .optimizer = optimizer, .update = *args});
}

static zr_status late_fill(zr_device *device, void *x, int byte, int64_t bytes)
{
    return ask(&(call){.what = FILL, .device = device, .out = x, .number = byte, .n = bytes});
}

static zr_status late_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                           const zr_casting *casting)
{
    const bool rounds = casting && casting->rounding;
    return ask(&(call){.what = CAST,
                       .device = device,
                       .out = out,
                       .out_dtype = out_dtype,
                       .in = in,
                       .dtype = dtype,
                       .n = n,
                       .flag = rounds,
                       .casting = casting ? *casting : (zr_casting){NULL},
                       .rounding = rounds ? *casting->rounding : (zr_rounding){.first = 0}});
}

static zr_status late_total(zr_device *device, const float *x, int64_t n, zr_exact *sum)
{
    return ask(&(call){.what = TOTAL, .device = device, .in = x, .n = n, .out = sum});
}

static void late_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    call c = {.what = NORMAL, .device = device, .rng = *rng, .first = (int64_t)first, .n = n, .std = std, .out = out};
    (void)!ask(&c);
}

static zr_status late_finish(zr_device *device)
{
    lane *l = own.running;
    return l && device == l->device ? do_until(l, l->asked) : plain.finish(device);
}

static zr_status late_note(zr_device *device)
{
    lane *l = own.running;
    if (l && device == l->device) l->noted = l->asked;
    return ZR_OK;
}

static zr_status late_reach(zr_device *device)
{
    lane *l = own.running;
    return l && device == l->device ? do_until(l, l->noted) : ZR_OK;
}

/* ---- simulated clocks -------------------------------------------------------------------------- */

/* A task whose times are reported as simulated. */
typedef struct timed_task {
    zr_task task;
    bool is_timed;
    double free_sec, begin_sec, end_sec;
} timed_task;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static simulated_clock *clock_of(const zr_queue *queue)
{
    for (int i = 0; i < own.n_clocks; i++)
        if (own.clock[i].queue == queue) return &own.clock[i];
    fail_msg("a queue that was not created");
    return NULL;
}

/* Return a duration of 1 to 16 seconds for a step. */
static double some_sec(int32_t step)
{
    return 1 + ((uint32_t)(step + 1) * 2654435761u >> 28);
}

/* Advance the queue's clock by a task. */
static timed_task time_task(const zr_queue *queue, const zr_task *task)
{
    timed_task timed = {.task = *task, .is_timed = own.simulated_steps > 0 && task->ended};
    if (!timed.is_timed) return timed;
    simulated_clock *c = clock_of(queue);
    timed.free_sec = c->free_sec;
    timed.begin_sec = later(later(c->free_sec, c->awaited_sec), own.host_sec);
    timed.end_sec = c->free_sec = timed.begin_sec + some_sec((int32_t)(task->index % own.simulated_steps));
    return timed;
}

/* Make a queue's clock wait for a mark. The host itself waits for the mark of a queue with a thread, unless the waiting
 * queue has a thread, too. */
static void wait_simulated(const zr_queue *queue, zr_mark mark)
{
    if (!mark.queue) return;
    simulated_clock *c = clock_of(queue);
    const simulated_clock *other = clock_of(mark.queue);
    double *waits = other->threaded && !c->threaded ? &own.host_sec : &c->awaited_sec;
    *waits = later(*waits, other->marked_sec[mark.ticket % MARKS]);
}

/* ---- queues ------------------------------------------------------------------------------------ */

static zr_status late_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue)
{
    ZR_TRY(plain.queue_create(device, config, queue));
    if (own.n_clocks == ZR_STREAMS) abort();
    const bool threaded = config->runs == ZR_QUEUE_THREAD || config->runs == ZR_QUEUE_HOST;
    own.clock[own.n_clocks++] = (simulated_clock){.queue = *queue, .threaded = threaded};
    if (threaded) return ZR_OK;
    if (own.n_lanes == LANES) abort();
    lane *l = &own.lane[own.n_lanes++];
    l->queue = *queue;
    l->device = (*queue)->device;
    return ZR_OK;
}

/* Return a queue's lane; NULL if a thread runs the queue. */
static lane *lane_of(const zr_queue *queue)
{
    for (int i = 0; i < own.n_lanes; i++)
        if (own.lane[i].queue == queue) return &own.lane[i];
    return NULL;
}

/* Tasks that were issued, in order. There are many entries, because a thread may lag behind by thousands of tasks of
 * other queues. */
enum { TASKS = 1 << 16 };
static timed_task task_of[TASKS];
static atomic_int n_tasks;

static zr_status run_task(void *arg, zr_device *device, int64_t index)
{
    const zr_task *task = &((const timed_task *)arg)->task;
    return task->run(task->arg, device, index);
}

/* Run a task of a queue with a thread; all calls are made before the task ends. */
static zr_status run_beside(void *arg, zr_device *device, int64_t index)
{
    lane *l = own.running = own.lane;
    l->device = device;
    zr_status st = run_task(arg, device, index), late_st = do_until(l, l->asked);
    own.running = NULL;
    return st != ZR_OK ? st : late_st;
}

static void end_task(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec)
{
    const timed_task *t = arg;
    if (t->is_timed)
        t->task.ended(t->task.arg, index, t->free_sec, t->begin_sec, t->end_sec);
    else
        t->task.ended(t->task.arg, index, free_sec, begin_sec, end_sec);
}

static zr_status issue_to(lane *l, const zr_task *task)
{
    lane *before = own.running;
    own.running = l;
    zr_status st = plain.issue(l->queue, task);
    own.running = before;
    if (st != ZR_OK || l == own.lane || !copies_early) return st;
    st = do_until(l, l->asked);
    own.overtook += own.lane->done < own.lane->asked;
    return st;
}

static zr_status late_issue(zr_queue *queue, const zr_task *task)
{
    lane *l = lane_of(queue);
    timed_task *kept = &task_of[atomic_fetch_add(&n_tasks, 1) % TASKS];
    *kept = time_task(queue, task);
    const zr_task issued = {l ? run_task : run_beside, task->ended ? end_task : NULL, kept, task->index};
    return l ? issue_to(l, &issued) : plain.issue(queue, &issued);
}

static zr_mark late_mark(zr_queue *queue)
{
    const zr_mark mark = plain.mark(queue);
    lane *l = lane_of(queue);
    simulated_clock *c = clock_of(queue);
    if (l) l->marked[mark.ticket % MARKS] = l->asked;
    c->marked_sec[mark.ticket % MARKS] = c->free_sec;
    return mark;
}

/* Make a queue wait for a mark. If a thread runs the queue, make the other lane's calls now. Otherwise make them when
 * the queue reaches the wait. */
static zr_status late_await(zr_queue *queue, zr_mark mark)
{
    lane *l = lane_of(queue), *other = mark.queue ? lane_of(mark.queue) : NULL;
    const int64_t n = other ? other->marked[mark.ticket % MARKS] : 0;
    wait_simulated(queue, mark);
    if (l && other && l != other) ZR_TRY(put(l, &(call){.what = WAIT, .other = other, .n = n}));
    if (!l && other) ZR_TRY(do_until(other, n));
    return plain.await(queue, mark);
}

static zr_status late_sync(zr_queue *queue)
{
    lane *l = lane_of(queue);
    zr_status st = l ? do_until(l, l->asked) : ZR_OK, its = plain.sync(queue);
    return st != ZR_OK ? st : its;
}

static void make_tables(const zr_device_ops *ops)
{
    plain = late = *ops;
    late.kernel = late_kernel;
    late.copy = late_copy;
    late.sum = late_sum;
    late.square = late_square;
    late.square_update = late_square_update;
    late.update = late_update;
    late.fill = late_fill;
    late.cast = late_cast;
    late.total = late_total;
    late.normal = late_normal;
    late.finish = late_finish;
    late.note = late_note;
    late.reach = late_reach;
    late.queue_create = late_queue_create;
    late.issue = late_issue;
    late.mark = late_mark;
    late.await = late_await;
    late.sync = late_sync;
}

static void make_late(trainer *run, zr_device *device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)run;
    pthread_mutex_lock(&lock);
    if (!plain.kernel) make_tables(device->ops);
    pthread_mutex_unlock(&lock);
    device->ops = &late;
    device->profile.facts.own_memory = is_apart;
    memset(&own, 0, sizeof own);
}

static zr_status note_most(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)engine;
    if (comm->rank != 0) return ZR_OK;
    latest = own.most;
    overtaken = own.overtook;
    return ZR_OK;
}

/* ---- the same bits ----------------------------------------------------------------------------- */

static void compare(const trainer *want, trainer run, const char *what)
{
    run.tune = make_late;
    run.after = note_most;
    latest = 0;
    trainer_run(&run);
    layout_assert_same(want, &run, what);
    assert_true(latest > 1);
}

/* Check that on one rank only the host waits: for a batch, and for the norm or before each update. */
static void one_rank(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage += 3)
        for (int accum = 1; accum <= 2; accum++)
            for (int clip = 0; clip <= 1; clip++)
                for (int v = 0; v < 3; v++) {
                    trainer want = layout_trainer(1, ZR_BF16, accum, 0.5 * clip);
                    want.layout.stage = stage;
                    if (!layout_vary(&want, &layout_variants[v])) continue;
                    trainer_run(&want);
                    compare(&want, want, layout_variants[v].name);
                    assert_true(latest > 50);
                }
}

/* Check that ways to keep and move give the same bits on several ranks, each way at two of the stages. */
static void several_ranks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        trainer want = layout_trainer(ranks, ZR_F32, ranks - 1, 0.5);
        trainer_run(&want);
        for (int stage = 0; stage <= 3; stage++)
            for (int v = 0; v < LAYOUT_VARIANTS; v++) {
                trainer run = want;
                run.layout.stage = stage;
                if ((v + stage) % 2 == 0 && layout_vary(&run, &layout_variants[v]))
                    compare(&want, run, layout_variants[v].name);
            }
    }
}

/* Check that groups of one rank exchange nothing, but still copy. */
static void groups_of_one(void **state)
{
    (void)state;
    for (int hpz = 0; hpz <= 1; hpz++) {
        trainer want = layout_trainer(2, ZR_F32, 2, 0.5);
        want.layout.stage = 3;
        if (hpz)
            want.layout.hpz_ranks = 1;
        else
            want.layout.shard_ranks = 1;
        trainer_run(&want);
        compare(&want, want, "groups of one rank");
    }
}

/* ---- saves ------------------------------------------------------------------------------------- */

static zr_status hash_state(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    uint64_t *hash = arg;
    (void)state, (void)param, (void)first;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        *hash = *hash * UINT64_C(0x100000001b3) + bits;
    }
    return ZR_OK;
}

static zr_status no_more(void *arg)
{
    (void)arg;
    return ZR_OK;
}

static zr_status save_alone(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    *(uint64_t *)run->arg = 0;
    ZR_TRY(zr_engine_save(engine, &(zr_sink){.put = hash_state, .end = no_more, .arg = run->arg}));
    return zr_engine_save_end(engine);
}

/* Check a save that no further step follows, as at a stop: the states are written from their copy when the device has
 * made the copy. */
static void saved_behind_no_step(void **state)
{
    (void)state;
    for (int way = ZR_SAVE_COPY; way <= ZR_SAVE_IN_PLACE; way++) {
        uint64_t saved[3] = {0};
        /* 0: on the processor; 1: on the late device; 2: on the late device with its own memory */
        for (int how = 0; how <= 2; how++) {
            trainer run = layout_trainer(1, ZR_F32, 1, 0.5);
            run.layout.save = (zr_save)way;
            run.after = save_alone;
            run.arg = &saved[how];
            is_apart = how == 2;
            if (how > 0) run.tune = make_late;
            trainer_run(&run);
        }
        is_apart = false;
        assert_true(saved[0] != 0 && saved[1] == saved[0] && saved[2] == saved[0]);
    }
}

/* ---- streams ----------------------------------------------------------------------------------- */

/* Check that the comm stream runs in parallel on a late device. */
static void lanes(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage += 2) {
        trainer want = layout_trainer(2, ZR_F32, 1, 0.5);
        want.lanes = true;
        want.layout.stage = stage;
        if (stage == 3) want.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
        if (!layout_vary(&want, &layout_variants[1])) continue;
        trainer_run(&want);
        compare(&want, want, "the comm stream beside");
    }
}

/* Check that model states may be in host memory or on disk. */
static void homes(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        const zr_space space = way < 3 ? ZR_SPACE_HOST : ZR_SPACE_DISK;
        trainer want = layout_trainer(2, ZR_BF16, 1, way % 3 == 1 ? 0.5 : 0);
        want.lanes = way % 3 == 2;
        want.layout.stage = way % 3 + 1;
        if (way % 2) want.layout.optimizer = zr_lamb(ZR_LAMB_NVIDIA, NULL);
        want.layout.home.optim = space;
        want.layout.home.param = way == 5 ? space : ZR_SPACE_DEVICE;
        want.layout.home.grad = way > 3 ? space : ZR_SPACE_DEVICE;
        want.layout.home.block_bytes = ZR_DISK_ALIGN;
        want.layout.save = way < 3 ? (zr_save)way : way > 3 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
        want.layout.states = way == 5 ? ZR_STATES_PAPER : ZR_STATES_LEAN;
        want.layout.reduce_bucket_elems = 350;
        trainer_run(&want);
        compare(&want, want, "states in another space");
        for (int early = 0; early <= 1; early++) { /* copies as late, and then as early, as the plan's waits allow */
            is_apart = true;
            copies_early = early;
            compare(&want, want, "states in another space, copies in a queue of their own");
            is_apart = copies_early = false;
        }
    }
}

/* Check that on a device with separate memory, copies of checkpoints and saved states run in parallel with computation,
 * as late or as early as the plan allows. Checkpoints on disk do so on every device. */
static void copies_apart(void **state)
{
    (void)state;
    for (int tensor = 1; tensor <= 2; tensor++)
        for (int way = 0; way < 4; way++) {
            const bool overlap = way & 1, disk = way & 2;
            trainer want = layout_trainer(tensor == 1 ? 2 : 1, ZR_F32, 2, 0.5);
            want.config.n_head = 2;
            want.config.n_embd = 24;
            want.layout.tensor = tensor;
            want.layout.stage = 3 * overlap;
            want.layout.overlap = overlap;
            want.layout.recompute = ZR_RECOMPUTE_UNIT;
            want.layout.checkpoint_home = disk ? ZR_SPACE_DISK : ZR_SPACE_HOST;
            want.layout.accum_order = disk && overlap ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
            want.layout.partition_checkpoints = tensor > 1;
            want.layout.save = ZR_SAVE_COPY;
            want.steps = 4;
            trainer_run(&want);
            compare(&want, want, "checkpoints in another space");
            for (int early = 0; early <= 1; early++) {
                is_apart = true;
                copies_early = early;
                compare(&want, want, "copies in a queue of their own");
                assert_true(overtaken > 0 || !early || !overlap); /* otherwise fetched on demand */
                is_apart = copies_early = false;
            }
        }
}

/* ---- overlap ----------------------------------------------------------------------------------- */

enum { STEPS = 600 };

typedef struct traced {
    zr_step_time time[STEPS];
    bool ran[STEPS];
} traced;

static void note_time(void *arg, const zr_event *event)
{
    traced *t = arg;
    t->time[event->step] = (zr_step_time){event->begin_sec, event->end_sec};
    t->ran[event->step] = true;
}

static double planned_sec(const zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t step)
{
    const zr_step_kind its = plan->schedule[kind].step[step].kind;
    (void)me;
    return its == ZR_STEP_REPEAT || its == ZR_STEP_END ? 0 : some_sec(step); /* REPEAT and END are not issued */
}

/* Run a training step on simulated clocks, and trace it. */
static zr_status trace_step(trainer *run, zr_engine *engine, traced *t)
{
    zr_step_result result;
    const zr_step_args args = {.step = 1, .lr = run->lr, .clip = run->clip, .batch = trainer_batch, .arg = run};
    for (int i = 0; i < own.n_clocks; i++) own.clock[i].free_sec = own.clock[i].awaited_sec = 0;
    own.host_sec = 0;
    own.simulated_steps = engine->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    ZR_CHECK(own.simulated_steps <= STEPS, ZR_ERR_INTERNAL, "%d steps are too many", own.simulated_steps);
    zr__engine_watch(engine, note_time, t);
    const zr_status st = zr_engine_step(engine, &args, &result);
    zr__engine_watch(engine, NULL, NULL);
    own.simulated_steps = 0;
    return st;
}

/* Return the seconds in which a step of a stream runs at the same time as a kernel. */
static double seconds_beside(const zr_schedule *s, const traced *t, zr_stream stream)
{
    double sec = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int32_t k = 0; k < s->n_steps && t->ran[i] && s->step[i].stream == stream; k++)
            if (t->ran[k] && s->step[k].stream == ZR_STREAM_COMPUTE)
                sec += fmax(
                    fmin(t->time[i].end_sec, t->time[k].end_sec) - fmax(t->time[i].begin_sec, t->time[k].begin_sec), 0);
    return sec;
}

/* Check that every step of a training step ran at its planned time for the same durations. Set run->arg to the seconds
 * in which exchanges and copies run at the same time as kernels. */
static zr_status overlaps_as_planned(trainer *run, zr_engine *engine, zr_comm *comm)
{
    traced t = {.ran = {false}};
    const zr_plan *plan = engine->plan;
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr__pricer pricer = {.step_sec = planned_sec, .queues = zr__plan_queues(plan, run->lanes)};
    zr_step_time planned[STEPS];
    ZR_TRY(trace_step(run, engine, &t));
    if (comm->rank > 0) return ZR_OK;
    ZR_TRY(zr__plans_times_by(&ZR__ALONE(plan), &pricer, (zr_step_time *[]){planned}));
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step_kind kind = s->step[i].kind;
        const bool issued = kind != ZR_STEP_REPEAT && kind != ZR_STEP_END && s->step[i].when != ZR_WHEN_LATER;
        ZR_CHECK(t.ran[i] == issued, ZR_ERR_INTERNAL, "step %d (%s): traced is %d", i, zr_step_kind_name(kind),
                 t.ran[i]);
        if (!issued) continue;
        ZR_CHECK(t.time[i].begin_sec == planned[i].begin_sec && t.time[i].end_sec == planned[i].end_sec,
                 ZR_ERR_INTERNAL, "step %d (%s) takes from %g to %g s, planned from %g to %g s", i,
                 zr_step_kind_name(kind), t.time[i].begin_sec, t.time[i].end_sec, planned[i].begin_sec,
                 planned[i].end_sec);
    }
    double *beside_sec = run->arg;
    beside_sec[0] = seconds_beside(s, &t, ZR_STREAM_COMM);
    beside_sec[1] = seconds_beside(s, &t, ZR_STREAM_COPY);
    return ZR_OK;
}

/* Check that on a device with several queues, kernels, exchanges and copies run at the times of the plan. Exchanges
 * overlap kernels if overlap_comm is on, and copies of checkpoints always do. */
static void overlap(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++)
        for (int way = 0; way < 8; way++) {
            double beside_sec[2] = {-1, -1};
            trainer run = layout_trainer(2, ZR_BF16, 1, way & 1 ? 0.5 : 0);
            run.layout.stage = stage;
            run.layout.overlap = way & 2;
            run.lanes = run.layout.overlap;
            run.layout.reduce_bucket_elems = 350;
            run.layout.recompute = ZR_RECOMPUTE_UNIT;
            run.layout.checkpoint_home = way & 4 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            run.after_first = overlaps_as_planned;
            run.arg = beside_sec;
            run.tune = make_late;
            is_apart = true;
            trainer_run(&run);
            is_apart = false;
            assert_true(beside_sec[0] >= 0 && (beside_sec[0] > 0) == run.layout.overlap);
            assert_true(beside_sec[1] >= 0 && (beside_sec[1] > 0) == (run.layout.checkpoint_home == ZR_SPACE_HOST));
        }
}

/* Run a training step in which a copy fails. */
static zr_status step_and_fail(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {.step = 1, .lr = run->lr, .clip = run->clip, .batch = trainer_batch, .arg = run};
    zr_step_result result;
    own.fails = true;
    const zr_status st = zr_engine_step(engine, &args, &result);
    ZR_CHECK(st == ZR_ERR_IO, ZR_ERR_INTERNAL, "a copy was to fail: %s", zr_error_message());
    return comm->size > 1 ? st : ZR_OK;
}

static zr_status save_all(zr_engine *engine, uint64_t *hash)
{
    return zr_engine_save(engine, &(zr_sink){.put = hash_state, .end = no_more, .arg = hash});
}

/* Check that, after a step ended by a failed copy of a save, the save still delivers the current states, and not the
 * previous save's states, which the buffers still hold. */
static zr_status save_and_fail(trainer *run, zr_engine *engine, zr_comm *comm)
{
    uint64_t before = 0, failed = 0, after = 0;
    zr_step_result result;
    const zr_step_args args = {.step = 7, .lr = run->lr, .clip = run->clip, .batch = trainer_batch, .arg = run};
    ZR_TRY(save_all(engine, &before));
    ZR_TRY(zr_engine_save_end(engine));
    ZR_TRY(zr_engine_step(engine, &args, &result));
    ZR_TRY(save_all(engine, &failed));
    ZR_TRY(step_and_fail(run, engine, comm));
    ZR_TRY(zr_engine_save_end(engine));
    ZR_TRY(save_all(engine, &after));
    ZR_TRY(zr_engine_save_end(engine));
    ZR_CHECK(before != after && failed == after, ZR_ERR_INTERNAL, "other states were saved than there are");
    return ZR_OK;
}

/* Check that a copy that fails ends the step, is named in the error, and stops the comm stream's queue that waits for
 * it; on one rank the next step gives the bits of a run without the failed step. */
static void copies_fail(void **state)
{
    (void)state;
    trainer want = layout_trainer(1, ZR_F32, 1, 0.5);
    want.layout.recompute = ZR_RECOMPUTE_UNIT;
    want.layout.checkpoint_home = ZR_SPACE_HOST;
    trainer_run(&want);
    is_apart = true;
    trainer run = want;
    run.after_first = step_and_fail;
    compare(&want, run, "behind a step that failed");
    run.layout.save = ZR_SAVE_COPY;
    run.after_first = save_and_fail;
    run.tune = make_late;
    trainer_run(&run);
    run.layout.save = ZR_SAVE_NONE;
    run.after_first = step_and_fail;
    run.layout.ranks = 2;
    run.tune = make_late;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "a copy fails (step "));
    is_apart = false;
}

static void shared_layers(void **state)
{
    (void)state;
    for (int sequence = ZR_SEQUENCE_OFF; sequence <= ZR_SEQUENCE_REGATHER; sequence++) {
        trainer want = trainer_odd();
        want.layout.ranks = 2;
        want.layout.tensor = 2;
        want.layout.sequence = (zr_sequence)sequence;
        want.config.n_head = 2;
        want.config.n_embd = 24;
        want.clip = 0.5;
        want.layout.norm_first = true;
        want.steps = 3;
        trainer_run(&want);
        compare(&want, want, "ranks that share layers");
    }
}

/* Check that losses and gradients that are not finite are detected and named as on other devices. */
static void not_finite(void **state)
{
    (void)state;
    char said[1024];
    for (int rank_free_sums = 0; rank_free_sums <= 1; rank_free_sums++) {
        trainer want = layout_trainer(2, ZR_F16, 1, 0.5);
        want.scaler = (zr__loss_scaler){
            .scale = 0x1p22, .min_scale = 1, .dynamic = true, .window = 100, .hysteresis = 1, .hysteresis_left = 1};
        want.layout.rank_free_sums = rank_free_sums;
        trainer_run(&want);
        assert_true(want.skipped[0] && want.bad_param[0] >= 0);
        trainer run = want;
        run.tune = make_late;
        trainer_run(&run);
        for (int i = 0; i < want.steps; i++) {
            assert_int_equal(want.skipped[i], run.skipped[i]);
            assert_int_equal(want.bad_param[i], run.bad_param[i]);
        }
        assert_true(want.weights == run.weights);
        if (rank_free_sums) continue; /* no step ends the run */
        run.layout.states = ZR_STATES_LEAN;
        run.layout.norm_first = false;
        run.clip = 0;
        for (int ranks = 1; ranks <= 2; ranks++) {
            run.layout.ranks = ranks;
            for (int i = 0; i < 2; i++) {
                run.tune = i ? make_late : NULL;
                assert_int_equal(zr_comm_threads_run(ranks, trainer_rank, &run), ZR_ERR_DIVERGED);
                const char *text = strstr(zr_error_message(), "the gradient of"); /* skip the name of the first rank */
                assert_non_null(text);
                if (i) assert_string_equal(text, said);
                snprintf(said, sizeof said, "%s", text);
            }
            assert_non_null(strstr(said, "is not finite in step 1"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(several_ranks),
        cmocka_unit_test(groups_of_one),
        cmocka_unit_test(lanes),
        cmocka_unit_test(homes),
        cmocka_unit_test(copies_apart),
        cmocka_unit_test(copies_fail),
        cmocka_unit_test(shared_layers),
        cmocka_unit_test(overlap),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(saved_behind_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
