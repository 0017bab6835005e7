//TEST timeout=60 tsan=0
/* A device whose memory the host must not touch: it is accessible only while one of the device's queues runs a task.
 * The engine's work on the host must go through copies, and then no bit changes. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "layout_variants.h"

/* The memory of one rank's device, a single arena. Ranks lend their memory to each other during calls, so it is open
 * while any queue works. */
static _Thread_local struct {
    void *memory;
    size_t bytes;
} own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int tasks; /* number of tasks running now, on all ranks */
static struct {
    void *memory;
    size_t bytes;
} arenas[8];
static int n_arenas, protections;
static zr_device_ops plain, guarded;
static bool is_apart; /* the device has separate memory: exchanges and copies have their own queues */

static void protect(int access)
{
    for (int i = 0; i < n_arenas; i++)
        if (arenas[i].memory && mprotect(arenas[i].memory, arenas[i].bytes, access) != 0) abort();
    protections += access == PROT_NONE;
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    if (tasks++ == 0) protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void leave(void)
{
    pthread_mutex_lock(&lock);
    if (--tasks == 0) protect(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

/* Tasks of queues, wrapped between enter and leave; a queue with a thread runs its tasks later. */
enum { TASKS = 4096 };
static struct wrapped {
    zr_task task;
} wrapped[TASKS];
static int n_wrapped;

static zr_status run_wrapped(void *arg, zr_device *device, int64_t index)
{
    const zr_task task = ((struct wrapped *)arg)->task;
    enter();
    zr_status st = task.run(task.arg, device, index);
    leave();
    return st;
}

static zr_status guarded_issue(zr_queue *queue, const zr_task *task)
{
    pthread_mutex_lock(&lock);
    struct wrapped *w = &wrapped[n_wrapped++ % TASKS];
    w->task = *task;
    pthread_mutex_unlock(&lock);
    const zr_task inside = {run_wrapped, NULL, w, task->index};
    return plain.issue(queue, &inside);
}

static zr_status guarded_alloc(zr_device *device, int64_t bytes, void **memory)
{
    (void)device;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    own.bytes = ((size_t)bytes + page) / page * page;
    own.memory = *memory = mmap(NULL, own.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ZR_CHECK(own.memory != MAP_FAILED, ZR_ERR_MEMORY, "no memory for %lld bytes", (long long)bytes);
    pthread_mutex_lock(&lock);
    arenas[n_arenas].memory = own.memory;
    arenas[n_arenas++].bytes = own.bytes;
    if (tasks > 0) protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
    return ZR_OK;
}

static void guarded_free(zr_device *device, void *memory)
{
    (void)device;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_arenas; i++)
        if (arenas[i].memory == memory) arenas[i].memory = NULL;
    pthread_mutex_unlock(&lock);
    munmap(memory, own.bytes);
}

static void guard(trainer *run, zr_device *device)
{
    (void)run;
    pthread_mutex_lock(&lock);
    plain = guarded = *device->ops;
    guarded.issue = guarded_issue;
    guarded.alloc = guarded_alloc;
    guarded.free = guarded_free;
    device->ops = &guarded;
    device->profile.facts.own_memory = is_apart;
    pthread_mutex_unlock(&lock);
}

static void compare(trainer run)
{
    trainer guarded_run = run;
    guarded_run.tune = guard;
    trainer_run(&run);
    n_arenas = protections = 0;
    trainer_run(&guarded_run);
    assert_true(protections > run.steps);
    for (int i = 0; i < run.steps; i++) {
        assert_memory_equal(&run.loss[i], &guarded_run.loss[i], sizeof run.loss[i]);
        assert_memory_equal(&run.norm[i], &guarded_run.norm[i], sizeof run.norm[i]);
    }
    assert_true(run.weights == guarded_run.weights);
}

static void test_one_rank(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage += 3)
        for (int accum = 1; accum <= 2; accum++) {
            trainer run = layout_trainer(1, ZR_BF16, accum, 0.5);
            run.layout.stage = stage;
            run.layout.states = ZR_STATES_LEAN;
            run.layout.save = (zr_save)(stage > 0 ? accum : 0);
            compare(run);
            run.layout.home.optim = ZR_SPACE_HOST;
            compare(run);
            run.layout.home.optim = ZR_SPACE_DISK;
            run.layout.home.block_bytes = ZR_DISK_ALIGN;
            run.layout.save = stage > 0 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
            compare(run);
        }
}

/* Check that ranks may read each other's memory, each while its own queue runs a call. */
static void test_two_ranks(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = layout_trainer(2, ZR_F32, 2, 0.5);
        run.layout.stage = stage;
        run.layout.save = (zr_save)(stage % 3);
        compare(run);
    }
}

static void test_apart(void **state)
{
    (void)state;
    is_apart = true;
    for (int ranks = 1; ranks <= 2; ranks++) {
        trainer run = layout_trainer(ranks, ZR_F32, 1, 0.5);
        run.layout.stage = 3;
        run.layout.recompute = ZR_RECOMPUTE_UNIT;
        run.layout.checkpoint_home = ZR_SPACE_HOST;
        run.layout.save = ZR_SAVE_COPY;
        compare(run);
        run.layout.home = (zr_homes){ZR_SPACE_DISK, ZR_SPACE_DISK, ZR_SPACE_DISK, 1, 1, 0, 0, ZR_DISK_ALIGN, 0};
        run.layout.save = ZR_SAVE_IN_PLACE;
        compare(run);
    }
    is_apart = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
