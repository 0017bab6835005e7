//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr__barrier_wait,--wrap=sched_yield
#include "base/core/core.h"
#include "comm_threads.h"
#include "comm/comm.h"

static void every_size_moves_the_right_bytes(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        expect_ok(zr_comm_threads_run(sizes[i], check_comm, NULL));
}

static void a_wrong_count_is_noticed(void **state)
{
    (void)state;
    miscounted_bytes = 1;
    zr_status st = zr_comm_threads_run(2, check_comm, NULL);
    miscounted_bytes = 0;
    assert_int_equal(st, ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "traffic"));
}

static void one_rank_needs_no_transport(void **state)
{
    (void)state;
    zr_comm *comm = NULL;
    expect_ok(zr_comm_create_self(&comm));
    assert_int_equal(comm->size, 1);
    expect_ok(check_comm(comm, NULL));
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) assert_int_equal(comm->traffic.bytes[k], 0);
    zr_comm_destroy(&comm);
    assert_null(comm);
    zr_comm_destroy(&comm);
}

/* A failure of rank 2 while the others are, or will be, in a call that needs it. */
typedef struct failure {
    int call;         /* the call in which the others wait */
    bool returns;     /* rank 2 instead returns too early, without failing */
    bool aborts;      /* rank 2 aborts first */
    _Atomic int told; /* number of ranks that got ZR_ERR_PEER because of it */
} failure;

static zr_status fail_on_rank_2(zr_comm *comm, void *arg)
{
    failure *f = arg;
    void *staging;
    ZR_TRY(zr_comm_staging(comm, 4 * ZR_COMM_STAGING_LEAST, &staging));
    if (comm->rank == 2) {
        if (f->aborts) zr_comm_abort(comm, 71);
        return f->returns || f->aborts ? ZR_OK : ZR_FAIL(ZR_ERR_IO, "the disk of this rank is gone");
    }
    zr_status st = check_wait(comm, &f->call);
    f->told += st == ZR_ERR_PEER && strstr(zr_error_message(), "rank 2 ") != NULL;
    return st;
}

static void a_failing_rank_wakes_the_others(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        failure f = {.call = round % 5};
        assert_int_equal(zr_comm_threads_run(4, fail_on_rank_2, &f), ZR_ERR_IO);
        assert_string_equal(zr_error_message(), "rank 2: the disk of this rank is gone");
        assert_int_equal(f.told, 3);
    }
}

static void a_rank_that_returns_too_early_hangs_nobody(void **state)
{
    (void)state;
    failure f = {.returns = true};
    assert_int_equal(zr_comm_threads_run(4, fail_on_rank_2, &f), ZR_ERR_PEER);
    assert_non_null(strstr(zr_error_message(), "rank 2 has returned"));
}

/* Each rank fails in the same call in which it hears of rank 2's failure, and must keep its own failure as the cause.
 */
typedef struct own_failure {
    bool takes; /* the receiving function fails; else the agreed status */
    _Atomic int kept;
} own_failure;

static zr_status take_nothing(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    (void)first, (void)bytes, (void)pieces;
    zr_comm *comm = arg;
    if (comm->rank == 2) zr_comm_abort(comm, 71); /* while the others still read, before all are back */
    return ZR_FAIL(ZR_ERR_DATA, "rank %d has its own trouble", comm->rank);
}

static zr_status fail_by_itself(zr_comm *comm, void *arg)
{
    own_failure *f = arg;
    void *staging;
    unsigned char bytes[4 * 64] = {0};
    zr_status st;
    ZR_TRY(zr_comm_staging(comm, 4 * ZR_COMM_STAGING_LEAST, &staging));
    if (f->takes) {
        st = zr_comm_exchange(comm, bytes, 64, 64, 4, take_nothing, comm);
    } else {
        if (comm->rank == 2) return ZR_FAIL(ZR_ERR_IO, "the disk of this rank is gone");
        st = zr_comm_agree(comm, ZR_FAIL(ZR_ERR_DATA, "rank %d has its own trouble", comm->rank));
    }
    f->kept += st == ZR_ERR_DATA && strstr(zr_error_message(), "has its own trouble") != NULL;
    return ZR_OK;
}

static void a_failure_of_its_own_is_the_cause(void **state)
{
    (void)state;
    own_failure taking = {.takes = true}, agreeing = {.takes = false};
    assert_int_equal(zr_comm_threads_run(4, fail_by_itself, &taking), ZR_ERR_PEER);
    assert_int_equal(taking.kept, 4);
    assert_int_equal(zr_comm_threads_run(4, fail_by_itself, &agreeing), ZR_ERR_IO);
    assert_int_equal(agreeing.kept, 3);
}

/* Check that a barrier that a rank has left is never completed, however often the others enter it. */
static void a_barrier_that_was_left_stays_open(void **state)
{
    (void)state;
    zr__barrier barrier;
    zr__barrier_init(&barrier, 2, 2);
    zr__barrier_leave(&barrier, 1);
    for (int i = 0; i < 4; i++) assert_int_equal(zr__barrier_wait(&barrier, NULL, NULL), 2);
}

/* Check that waiting ranks spin only if they have a core each, and the user does not want threads to. */
static void waiting_ranks_may_spin(void **state)
{
    (void)state;
    zr__barrier barrier;
    unsetenv("OMP_WAIT_POLICY");
    zr__barrier_init(&barrier, 1, 1);
    assert_true(barrier.spins > 0);
    zr__barrier_init(&barrier, 1, 1 << 20);
    assert_int_equal(barrier.spins, 0);
    setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
    zr__barrier_init(&barrier, 1, 1);
    assert_int_equal(barrier.spins, 0);
}

static void an_abort_wakes_the_others(void **state)
{
    (void)state;
    failure f = {.aborts = true};
    assert_int_equal(zr_comm_threads_run(4, fail_on_rank_2, &f), ZR_ERR_PEER);
    assert_string_equal(zr_error_message(), "rank 2 aborted");
    assert_int_equal(f.told, 3);
}

static void calls_may_come_from_a_second_thread(void **state)
{
    (void)state;
    expect_ok(zr_comm_threads_run(3, check_comm_beside, NULL));
}

static zr_status cancel_in_world(zr_comm *comm, void *arg)
{
    return cancel_all_but_0(comm, comm, arg);
}

static void a_call_can_be_stopped(void **state)
{
    (void)state;
    expect_two_stopped(cancel_in_world);
}

static void one_rank_alone_is_not_stopped(void **state)
{
    (void)state;
    zr_comm *comm = NULL;
    expect_ok(zr_comm_create_self(&comm));
    zr__comm_cancel(comm);
    expect_ok(check_comm(comm, NULL));
    zr_comm_destroy(&comm);
    zr__comm_cancel(NULL);
}

/* ---- lent memory ------------------------------------------------------------------------------- */

/* A loan of memory: rank 1 is cancelled while rank 0 reads its memory, or is about to, and must keep the memory until
 * rank 0 has read it. The two are the whole world, or ranks 1 and 2 of a larger one. */
enum { LENT_BYTES = 4096 };
typedef struct loan {
    bool grouped;
    bool early; /* rank 1 is cancelled between rank 0's last look at the barrier and its arrival, which completes it */
    _Atomic int reading;    /* rank 0 has begun to read, or is held in the barrier */
    _Atomic int stopped;    /* the barrier has told rank 1 */
    _Atomic int waits;      /* rank 1 waits for rank 0 */
    _Atomic int given_back; /* rank 1 has returned and reused its memory */
    _Atomic int read_well;
} loan;

static loan *held;                     /* the loan under test, else NULL */
static _Thread_local int lending_rank; /* 1 + the rank whose call this thread runs; 0: none */

static void until(_Atomic int *a, _Atomic int *b)
{
    while (!atomic_load(a) && !atomic_load(b)) usleep(100);
}

/* Let rank 0 complete a barrier as the last to arrive, having seen no rank leave, although rank 1 has left meanwhile.
 */
int __real_zr__barrier_wait(zr__barrier *barrier, void (*late)(void *arg), void *arg);
int __wrap_zr__barrier_wait(zr__barrier *barrier, void (*late)(void *arg), void *arg);
int __wrap_zr__barrier_wait(zr__barrier *barrier, void (*late)(void *arg), void *arg)
{
    if (!held || lending_rank == 0) return __real_zr__barrier_wait(barrier, late, arg);
    if (held->early && lending_rank == 1 && !held->reading) {
        held->reading = 1;
        until(&held->stopped, &held->stopped);
        return 0;
    }
    int leaver = __real_zr__barrier_wait(barrier, late, arg);
    if (lending_rank == 2 && leaver) held->stopped = 1;
    return leaver;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (held && lending_rank == 2) held->waits = 1;
    return __real_sched_yield();
}

static zr_status read_late(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    loan *l = arg;
    if (lending_rank == 2) return ZR_OK; /* only rank 0 reads late */
    l->reading = 1;
    until(&l->waits, &l->given_back);
    zr_status st = check_stretch(pieces[1], 1, 0, 7, first, bytes, "a late exchange");
    l->read_well = st == ZR_OK && !l->given_back;
    return st;
}

static zr_status lend_to_rank_0(zr_comm *comm, void *arg)
{
    static unsigned char sent[2][2 * LENT_BYTES]; /* static: a fault is detected, not a crash */
    loan *l = arg;
    unsigned char *send = sent[comm->rank];
    check_fill(send, comm->rank, 0, 7, LENT_BYTES);
    lending_rank = comm->rank + 1;
    zr_status st = zr_comm_exchange(comm, send, LENT_BYTES, LENT_BYTES, 1, read_late, l);
    lending_rank = 0;
    memset(send, 0xee, sizeof sent[0]);
    if (comm->rank == 1) l->given_back = 1;
    return st;
}

static zr_status stop_rank_1(zr_comm *comm, void *arg)
{
    loan *l = arg;
    void *staging;
    if (l->grouped) ZR_TRY(zr_comm_split(comm, comm->rank == 0 ? -1 : 0, 0, &comm));
    if (!comm) return ZR_OK;
    ZR_TRY(zr_comm_staging(comm, 2 * ZR_COMM_STAGING_LEAST, &staging));
    check_beside_args beside = {.comm = comm, .run = lend_to_rank_0, .arg = l};
    check_beside_start(&beside);
    if (comm->rank == 1) {
        until(&l->reading, &l->reading);
        zr__comm_cancel(comm);
    }
    return check_beside_join(&beside);
}

static void memory_that_is_read_is_not_given_back(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        loan l = {.early = round % 2, .grouped = round / 2};
        held = &l;
        assert_int_equal(zr_comm_threads_run(l.grouped ? 3 : 2, stop_rank_1, &l), ZR_ERR_PEER);
        held = NULL;
        assert_string_equal(zr_error_message(), l.grouped ? "rank 2 was stopped" : "rank 1 was stopped");
        assert_int_equal(l.read_well, 1);
    }
}

/* Check that all ranks return the agreed failure; no rank may get ZR_ERR_PEER from a rank that returned it sooner. */
static zr_status agree_on_a_failure(zr_comm *comm, void *arg)
{
    _Atomic int *agreed = arg;
    zr_status mine = comm->rank == 1 ? ZR_FAIL(ZR_ERR_NOT_FOUND, "no such file") : ZR_OK;
    zr_status st = zr_comm_agree(comm, mine);
    *agreed += st == ZR_ERR_NOT_FOUND;
    return st;
}

static void an_agreed_failure_is_the_same_everywhere(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        _Atomic int agreed = 0;
        assert_int_equal(zr_comm_threads_run(4, agree_on_a_failure, &agreed), ZR_ERR_NOT_FOUND);
        assert_string_equal(zr_error_message(), "rank 1: no such file");
        assert_int_equal(agreed, 4);
    }
}

static zr_status ask_too_much(zr_comm *comm, void *arg)
{
    (void)arg;
    void *staging = comm;
    ZR_TRY(zr_comm_staging(comm, comm->size * ZR_COMM_STAGING_LEAST, &staging));
    /* Only rank 0's allocation can fail; all ranks must be told. */
    zr_status st = zr_comm_staging(comm, comm->rank == 0 ? INT64_MAX : 64, &staging);
    ZR_CHECK(st == ZR_ERR_MEMORY, ZR_ERR_INTERNAL, "staging gave %d", st);
    ZR_CHECK(comm->staging_bytes == 0, ZR_ERR_INTERNAL, "staging counts although it failed");
    return ZR_OK;
}

static void staging_that_does_not_fit_fails_on_all(void **state)
{
    (void)state;
    expect_ok(zr_comm_threads_run(3, ask_too_much, NULL));
}

static zr_status measure_stack(zr_comm *comm, void *arg)
{
    (void)comm;
    pthread_attr_t attr;
    void *base;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, arg);
    pthread_attr_destroy(&attr);
    return ZR_OK;
}

static void a_small_default_stack_is_raised(void **state)
{
    (void)state;
    pthread_attr_t small, before;
    pthread_getattr_default_np(&before);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_setattr_default_np(&small);
    size_t bytes = 0;
    zr_status st = zr_comm_threads_run(1, measure_stack, &bytes);
    pthread_setattr_default_np(&before);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&before);
    expect_ok(st);
    assert_true(bytes >= (size_t)8 << 20);
}

static zr_status tell(zr_comm *comm, void *tellers)
{
    if (zr__comm_claim_telling(comm)) atomic_fetch_add((_Atomic int *)tellers, 1);
    ZR_CHECK(zr__comm_told(comm), ZR_ERR_INTERNAL, "nobody has told");
    return ZR_OK;
}

static void one_rank_tells(void **state)
{
    (void)state;
    _Atomic int tellers = 0;
    expect_ok(zr_comm_threads_run(4, tell, &tellers));
    assert_int_equal(tellers, 1);
}

static void a_group_needs_ranks(void **state)
{
    (void)state;
    assert_int_equal(zr_comm_threads_run(0, check_comm, NULL), ZR_ERR_ARG);
    assert_int_equal(zr_comm_threads_run(2, NULL, NULL), ZR_ERR_ARG);
}

/* Try a sum by NCCL between threads; data must not change. */
static zr_status reduce_by_nccl(zr_comm *comm, void *arg)
{
    float data[] = {1, 2};
    (void)arg;
    const zr_status st = zr_comm_reduce_scatter(comm, data, ZR_F32, 1);
    ZR_CHECK(data[0] == 1 && data[1] == 2, ZR_ERR_INTERNAL, "what is refused was touched");
    return st;
}

static void nothing_adds_between_threads(void **state)
{
    (void)state;
    assert_int_equal(zr_comm_threads_run(2, reduce_by_nccl, NULL), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "transport threads cannot sum by NCCL"));
    assert_int_equal(zr_comm_threads_run(1, reduce_by_nccl, NULL), ZR_OK);
}

/* Check that the launcher is recognized by its environment variables; a batch shell alone is not a launcher. */
static void the_launcher_is_found_in_the_environment(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",     "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",         "SLURM_PROCID", "SLURM_STEP_ID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
    assert_int_equal(zr_comm_mpi_launched(), 0);
    setenv("SLURM_NTASKS", "6", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(zr_comm_mpi_launched(), 0);
    setenv("SLURM_STEP_ID", "0", 1);
    assert_int_equal(zr_comm_mpi_launched(), 6);
    setenv("SLURM_STEP_NUM_TASKS", "3", 1);
    assert_int_equal(zr_comm_mpi_launched(), 3);
    setenv("PMI_SIZE", "4", 1);
    assert_int_equal(zr_comm_mpi_launched(), 4);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    assert_int_equal(zr_comm_mpi_launched(), 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_moves_the_right_bytes),
        cmocka_unit_test(a_wrong_count_is_noticed),
        cmocka_unit_test(one_rank_needs_no_transport),
        cmocka_unit_test(a_failing_rank_wakes_the_others),
        cmocka_unit_test(a_rank_that_returns_too_early_hangs_nobody),
        cmocka_unit_test(a_failure_of_its_own_is_the_cause),
        cmocka_unit_test(a_barrier_that_was_left_stays_open),
        cmocka_unit_test(waiting_ranks_may_spin),
        cmocka_unit_test(an_abort_wakes_the_others),
        cmocka_unit_test(calls_may_come_from_a_second_thread),
        cmocka_unit_test(a_call_can_be_stopped),
        cmocka_unit_test(one_rank_alone_is_not_stopped),
        cmocka_unit_test(memory_that_is_read_is_not_given_back),
        cmocka_unit_test(an_agreed_failure_is_the_same_everywhere),
        cmocka_unit_test(staging_that_does_not_fit_fails_on_all),
        cmocka_unit_test(a_small_default_stack_is_raised),
        cmocka_unit_test(one_rank_tells),
        cmocka_unit_test(a_group_needs_ranks),
        cmocka_unit_test(nothing_adds_between_threads),
        cmocka_unit_test(the_launcher_is_found_in_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
