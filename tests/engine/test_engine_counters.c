//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=zr_alloc,--wrap=zr__ledger_take,--wrap=zr__traffic_count,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=posix_memalign
/* Checks of the counters: the allocator is interposed and compared with planned and measured memory; the arena is
 * poisoned to find the highest byte written; and each count is broken on purpose, so that the comparison must fail. */
#include "base/core/core.h"
#include "trainer.h"

/* ---- interposed functions ---- */

static struct {
    bool watching;      /* whether a step is running */
    int64_t calls;      /* number of allocations by zr's own code in steps */
    int64_t size[4096]; /* of zr_alloc */
    int n;
    bool break_ledger, break_traffic;
    int64_t more_for; /* size of allocations that get 256 MiB more, which nothing touches */
} seen;

static void note(void)
{
    if (__atomic_load_n(&seen.watching, __ATOMIC_RELAXED)) __atomic_add_fetch(&seen.calls, 1, __ATOMIC_RELAXED);
}

#define WRAP(name, params, args)                                                                                       \
    void *__real_##name params;                                                                                        \
    void *__wrap_##name params;                                                                                        \
    void *__wrap_##name params                                                                                         \
    {                                                                                                                  \
        note();                                                                                                        \
        return __real_##name args;                                                                                     \
    }
WRAP(malloc, (size_t n), (n))
WRAP(calloc, (size_t n, size_t each), (n, each))
WRAP(realloc, (void *p, size_t n), (p, n))
WRAP(aligned_alloc, (size_t align, size_t n), (align, n))

int __real_posix_memalign(void **p, size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    note();
    return __real_posix_memalign(p, align, n);
}

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    note();
    int i = __atomic_fetch_add(&seen.n, 1, __ATOMIC_RELAXED);
    if (i < 4096) seen.size[i] = (int64_t)bytes;
    return __real_zr_alloc(bytes + (seen.more_for && (int64_t)bytes == seen.more_for ? (size_t)256 << 20 : 0));
}

void __real_zr__ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes);
void __wrap_zr__ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes);
void __wrap_zr__ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes)
{
    __real_zr__ledger_take(ledger, category, bytes + (seen.break_ledger && seen.watching ? 64 : 0));
}

void __real_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes)
{
    __real_zr__traffic_count(traffic, kind, bytes + (seen.break_traffic && seen.watching ? 1 : 0));
}

/* ---- the allocator ---- */

static int count_size(int64_t bytes)
{
    int n = 0;
    for (int i = 0; i < seen.n && i < 4096; i++) n += seen.size[i] == bytes;
    return n;
}

static zr_status begin_watching(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)engine;
    ZR_TRY(zr_comm_barrier(comm));
    if (comm->rank == 0) seen.watching = true;
    return zr_comm_barrier(comm);
}

static zr_status end_watching(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)engine;
    ZR_TRY(zr_comm_barrier(comm));
    if (comm->rank == 0) seen.watching = false;
    return zr_comm_barrier(comm);
}

static trainer watched(int stage, int ranks)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.accum = 2;
    run.after_first = begin_watching;
    run.after = end_watching;
    memset(&seen, 0, sizeof seen);
    return run;
}

/* Check that the allocator gave exactly the planned memory, one arena and one staging memory a rank, and a step
 * allocates nothing. */
static void test_allocator(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = watched(stage, 2);
        run.layout.dtype = run.layout.wire_dtype = stage & 1 ? ZR_BF16 : ZR_F32;
        trainer_run(&run);
        int64_t stage_bytes = run.planned.category_bytes[ZR_CATEGORY_BUFFER];
        assert_int_equal(count_size(run.planned.total_bytes - stage_bytes), 2);
        assert_int_equal(count_size(stage_bytes), 2);
        assert_int_equal(count_size(run.planned.total_bytes - stage_bytes + 64), 0);
        assert_int_equal(run.measured.memory.total_bytes, run.planned.total_bytes);
        assert_int_equal(seen.calls, 0);
    }
}

/* A kernel that allocates while it runs, to see the count notice it. */
static const zr_kernel *gelu;
static zr_status greedy_run(const zr_kernel_args *args)
{
    void *volatile p = malloc(100);
    free(p);
    return gelu->run(args);
}

/* Find the device's own kernel. */
static void find_gelu(void)
{
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    gelu = device->ops->kernel(device, "gelu");
    zr_device_destroy(&device);
    assert_non_null(gelu);
}

static void test_allocation_in_a_step_is_seen(void **state)
{
    (void)state;
    static const zr_kernel kernels[] = {{"gelu", .run = greedy_run}, {0}};
    find_gelu();
    trainer run = watched(0, 1);
    run.kernels = kernels;
    trainer_run(&run);
    /* Each of two micro-batches runs gelu once forward and, as it is cheap, once again in the backward pass. */
    assert_int_equal(seen.calls, (run.steps - 1) * 2 * 2 * run.config.n_layer);
}

/* Check that planned and measured differ with 64 bytes too many in the memory counter or one in the traffic counter. */
static void test_broken_counts_are_noticed(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        trainer run = watched(2, 2);
        seen.break_ledger = which == 0;
        seen.break_traffic = which == 1;
        assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_INTERNAL);
        assert_non_null(strstr(zr_error_message(), "planned"));
    }
}

/* Check that an arena or a staging memory that is larger than planned is measured with its real size. */
static void test_more_memory_is_measured(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        trainer run = watched(2, 2);
        trainer_run(&run);
        int64_t stage_bytes = run.planned.category_bytes[ZR_CATEGORY_BUFFER];
        seen.more_for = which ? stage_bytes : run.planned.total_bytes - stage_bytes;
        assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_INTERNAL);
        assert_non_null(strstr(zr_error_message(), "states or total: planned"));
        seen.more_for = 0;
    }
}

/* A transport that moves all pieces twice: each move is counted where it is made, not where it is requested. */
static const zr_comm_ops *threads_ops;
static zr_status gather_twice(zr_comm *comm, const void *mine, void *out, int64_t stride, int64_t bytes)
{
    ZR_TRY(threads_ops->gather(comm, mine, out, stride, bytes));
    return threads_ops->gather(comm, mine, out, stride, bytes);
}

static zr_status take_nothing(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    (void)arg, (void)first_byte, (void)bytes, (void)pieces;
    return ZR_OK;
}

static zr_status exchange_twice(zr_comm *comm, const void *send, int64_t stride, int64_t bytes, int64_t grain,
                                zr_comm_arrived_fn fn, void *arg)
{
    ZR_TRY(threads_ops->exchange(comm, send, stride, bytes, grain, take_nothing, NULL));
    return threads_ops->exchange(comm, send, stride, bytes, grain, fn, arg);
}

static bool doubled_gather;
static zr_status rank_with_doubled_moves(zr_comm *comm, void *arg)
{
    zr_comm_ops ops = *comm->ops;
    const zr_comm_ops *before = comm->ops;
    if (comm->rank == 0) threads_ops = before;
    if (doubled_gather)
        ops.gather = gather_twice;
    else
        ops.exchange = exchange_twice;
    ZR_TRY(zr_comm_barrier(comm));
    comm->ops = &ops;
    zr_status st = trainer_rank(comm, arg);
    comm->ops = before;
    return st;
}

static void test_doubled_moves_are_measured(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        trainer run = trainer_odd();
        run.layout.stage = 3;
        run.layout.ranks = 2;
        doubled_gather = which == 0;
        assert_int_equal(zr_comm_threads_run(2, rank_with_doubled_moves, &run), ZR_ERR_INTERNAL);
        assert_non_null(strstr(zr_error_message(), which ? "traffic 0: planned" : "traffic 1: planned"));
    }
}

/* ---- the arena ---- */

enum { GUARD = 4096, POISON = 0xa5 };

static struct {
    unsigned char *arena;
    int64_t bytes, persistent;
} poisoned;

static zr_status poison_alloc(zr_device *device, int64_t bytes, void **memory)
{
    (void)device;
    poisoned.bytes = bytes;
    /* aligned_alloc, because zr_alloc would count the guard. */
    poisoned.arena = aligned_alloc(64, (size_t)(bytes + GUARD + 63) / 64 * 64);
    if (!poisoned.arena) return ZR_FAIL(ZR_ERR_MEMORY, "no memory");
    memset(poisoned.arena, 0, (size_t)(bytes + GUARD));
    memset(poisoned.arena + poisoned.persistent, POISON, (size_t)(bytes + GUARD - poisoned.persistent));
    *memory = poisoned.arena;
    return ZR_OK;
}

static void poison_free(zr_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void poison(trainer *run, zr_device *device)
{
    static zr_device_ops ops;
    zr_model model = zr_gpt2(&run->config);
    zr_plan *plan = NULL;
    if (zr_plan_create(&model, &run->layout, &device->profile, &plan) != ZR_OK) return;
    poisoned.persistent = plan->persistent_bytes[ZR_SPACE_DEVICE];
    zr_plan_destroy(&plan);
    ops = *device->ops;
    ops.alloc = poison_alloc;
    ops.free = poison_free;
    device->ops = &ops;
}

/* The offset after the last byte written. */
static int64_t written;
static zr_status find_written(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)engine;
    (void)comm;
    written = poisoned.bytes + GUARD;
    while (written > 0 && poisoned.arena[written - 1] == POISON) written--;
    return ZR_OK;
}

static bool is_highest(int64_t bytes) /* buffers begin at multiples of 64, so the last may end up to 63 bytes earlier */
{
    return written <= bytes && written > bytes - 64;
}

static void test_highest_byte(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 <= 1; bf16++)
        for (int accum = 1; accum <= 2; accum++) {
            trainer run = trainer_odd();
            run.layout.stage = 2;
            run.layout.accum = accum;
            run.layout.dtype = run.layout.wire_dtype = bf16 ? ZR_BF16 : ZR_F32;
            run.tune = poison;
            run.after = find_written;
            trainer_run(&run);
            int64_t total = run.planned.total_bytes;
            if (!is_highest(total))
                fail_msg("the highest byte written is %lld, planned are %lld", (long long)written, (long long)total);
            assert_false(is_highest(total + 64)); /* a plan that is wrong by 64 bytes is noticed */
            assert_false(is_highest(total - 64));
        }
}

/* Check that bytes read before they are written do not affect results: a poisoned arena gives a clean one's bits. */
static void test_poison_reaches_no_result(void **state)
{
    (void)state;
    trainer clean = trainer_odd();
    clean.layout.stage = 3;
    clean.layout.accum = 2;
    trainer dirty = clean;
    dirty.tune = poison;
    trainer_run(&clean);
    trainer_run(&dirty);
    assert_memory_equal(clean.loss, dirty.loss, sizeof clean.loss);
    assert_int_equal(clean.weights, dirty.weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_allocation_in_a_step_is_seen),
        cmocka_unit_test(test_broken_counts_are_noticed),
        cmocka_unit_test(test_more_memory_is_measured),
        cmocka_unit_test(test_doubled_moves_are_measured),
        cmocka_unit_test(test_highest_byte),
        cmocka_unit_test(test_poison_reaches_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
