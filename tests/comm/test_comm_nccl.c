//TEST np=1,2,3,4 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=zr_comm_split
//STAND_IN
/* Ranks that are processes with GPUs: pieces go through NCCL, on the stand-ins of tests/cuda; parts also run on real
 * GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "base/core/core.h"
#include "comm_nccl.h"
#include "comm/comm.h"

#ifndef ZR_GPU
/* ---- checks of every transport ----------------------------------------------------------------- */

/* Run check_comm, which reads the staging memory itself. Therefore make the GPU's memory accessible. */
static void all_calls(void **state)
{
    (void)state;
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        const long before = zr_stand_in_nccl_operations();
        zr_comm *comm = create(ranks_per_node);
        zr_stand_in_touchable(1);
        expect_ok(check_comm(comm, NULL));
        zr_stand_in_touchable(0);
        EXPECT((zr_stand_in_nccl_operations() > before + 100) == (world_size > 1));
        destroy(&comm);
    }
}

static void groups(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    zr_stand_in_touchable(1);
    expect_ok(check_groups(comm, NULL));
    expect_ok(check_grid(comm, world_size == 4 ? 2 : world_size));
    zr_stand_in_touchable(0);
    destroy(&comm);
}

static void calls_may_come_from_a_second_thread(void **state)
{
    (void)state;
    zr_comm *comm = create(1);
    zr_stand_in_touchable(1);
    expect_ok(check_comm_beside(comm, NULL));
    zr_stand_in_touchable(0);
    destroy(&comm);
}

static void a_wrong_count_is_noticed(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    zr_stand_in_touchable(1);
    miscounted_bytes = 1;
    const zr_status st = check_comm(comm, NULL);
    miscounted_bytes = 0;
    zr_stand_in_touchable(0);
    EXPECT(world_size == 1 || (st == ZR_ERR_INTERNAL && strstr(zr_error_message(), "traffic is not")));
    destroy(&comm);
}

#endif

/* ---- memory that the processor cannot touch ---------------------------------------------------- */

/* Exchange once; return the number of calls of the receiving function. */
static int exchange_once(zr_comm *comm, int64_t stride, int round)
{
    arrays a = take_arrays(comm);
    arrival taken = {.comm = comm, .to = comm->rank, .round = round, .left = -1};
    for (int r = 0; r < comm->size; r++) check_fill(a.host + r * stride, comm->rank, r, round, PIECE);
    transfer(a.gpu, a.host, a.bytes);
    taken.own = a.gpu + comm->rank * stride;
    expect_ok(zr_comm_exchange(comm, a.gpu, stride, PIECE, 1, arrive, &taken));
    EXPECT(taken.bytes == PIECE);
    drop_arrays(&a);
    return taken.calls;
}

static void move_all(zr_comm *comm, int chunks)
{
    for (int round = 0; round < 4; round++) {
        const int64_t stride = round % 2 ? APART : PIECE;
        gather_once(comm, stride, round < 2, round);
        EXPECT(exchange_once(comm, stride, round) == chunks);
    }
}

static void memory_of_the_gpu(void **state)
{
    (void)state;
    const int peers = world_size - 1;
    zr_comm *comm = create(0);
    stage(comm, world_size * ZR_COMM_STAGING_LEAST);
    const int slot = peers ? world_size * ZR_COMM_STAGING_LEAST / peers / 64 * 64 : PIECE;
    move_all(comm, (PIECE + slot - 1) / slot);
    stage(comm, peers ? peers * 2560 : 0);
    move_all(comm, peers ? 2 : 1);
    stage(comm, peers * ((PIECE + 63) / 64 * 64)); /* room for exactly one chunk */
    move_all(comm, 1);
    const int64_t moved = 4 * 3 * PIECE * peers;
    EXPECT(comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] >= moved &&
           comm->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] >= moved);
    destroy(&comm);
}

/* ---- NCCL's own sums --------------------------------------------------------------------------- */

enum { SUMMED = 1001 };

/* Return a small multiple of 1/8, so that sums are exact, or a number whose sums are rounded. */
static float summand(int rank, int64_t i, bool exact)
{
    const int k = (int)((i * 37 + rank * 101) % 61) - 30;
    return exact ? (float)k / 8 : (float)k / 7 * (1 + (float)rank);
}

static void put_float(unsigned char *to, int64_t i, zr_dtype dtype, float x)
{
    const uint16_t narrow = dtype == ZR_BF16 ? zr_bf16_from_f32(x) : zr_f16_from_f32(x);
    memcpy(to + i * zr_dtype_bytes(dtype), dtype == ZR_F32 ? (const void *)&x : &narrow, (size_t)zr_dtype_bytes(dtype));
}

static float get_float(const unsigned char *from, int64_t i, zr_dtype dtype)
{
    float wide = 0;
    uint16_t narrow = 0;
    memcpy(dtype == ZR_F32 ? (void *)&wide : &narrow, from + i * zr_dtype_bytes(dtype), (size_t)zr_dtype_bytes(dtype));
    return dtype == ZR_F32 ? wide : dtype == ZR_BF16 ? zr_f32_from_bf16(narrow) : zr_f32_from_f16(narrow);
}

/* Check a sum against the exact value. A rounded sum may differ by one rounding for each summand. */
static void expect_sum(const zr_comm *comm, const unsigned char *data, int64_t at, zr_dtype dtype, bool exact)
{
    const double unit = dtype == ZR_F32 ? 0x1p-24 : dtype == ZR_BF16 ? 0x1p-8 : 0x1p-11;
    double sum = 0, size = 0;
    for (int r = 0; r < comm->size; r++) {
        const double x = summand(r, at, exact);
        sum += x;
        size += x < 0 ? -x : x;
    }
    const double off = get_float(data, at, dtype) - sum, most = exact ? 0 : comm->size * unit * size;
    EXPECT(off <= most && -off <= most);
}

static void reduce_once(zr_comm *comm, zr_dtype dtype, bool exact)
{
    const int64_t bytes = comm->size * SUMMED * zr_dtype_bytes(dtype);
    unsigned char *gpu = take((size_t)bytes), *host = zr_alloc((size_t)bytes);
    const int64_t before = comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER];
    EXPECT(host != NULL);
    for (int64_t i = 0; i < comm->size * SUMMED; i++) put_float(host, i, dtype, summand(comm->rank, i, exact));
    transfer(gpu, host, (size_t)bytes);
    expect_ok(zr_comm_reduce_scatter(comm, gpu, dtype, SUMMED));
    const int64_t received = (comm->size - 1) * SUMMED * zr_dtype_bytes(dtype);
    EXPECT(comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] - before == received);
    unsigned char *was = zr_alloc((size_t)bytes);
    memcpy(was, host, (size_t)bytes);
    transfer(host, gpu, (size_t)bytes);
    for (int64_t i = 0; i < comm->size * SUMMED; i++) {
        if (i / SUMMED == comm->rank)
            expect_sum(comm, host, i, dtype, exact);
        else
            EXPECT(get_float(host, i, dtype) == get_float(was, i, dtype)); /* other rows are unchanged */
    }
    zr_free(was);
    zr_free(host);
    EXPECT(cudaFree(gpu) == cudaSuccess);
}

/* Check that NCCL's sums need no staging. */
static void sums_by_nccl(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    static const zr_dtype dtypes[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int d = 0; d < 3; d++) {
        const long before = operations();
        reduce_once(comm, dtypes[d], true);
        reduce_once(comm, dtypes[d], false);
#ifndef ZR_GPU
        EXPECT(operations() - before == (world_size > 1 ? 2 : 0));
#else
        EXPECT(operations() == before);
#endif
    }
    expect_ok(zr_comm_reduce_scatter(comm, NULL, ZR_F32, 0));
    destroy(&comm);
}

/* Check that sums of memory outside this rank's GPU, of other types and of invalid sizes are refused, by either
 * transport, and change no data. */
static void sums_that_are_refused(void **state)
{
    (void)state;
    float data[] = {1, 2, 3, 4};
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        zr_comm *comm = on_gpu ? create(0) : create_host(0);
        const zr_status st = zr_comm_reduce_scatter(comm, data, ZR_F32, 1);
        EXPECT(st == (world_size > 1 ? ZR_ERR_UNSUPPORTED : ZR_OK));
        if (world_size > 1) EXPECT_TEXT("memory that is not the GPU's of this rank");
        EXPECT(zr_comm_reduce_scatter(comm, data, ZR_I32, 1) == ZR_ERR_DTYPE);
        EXPECT(zr_comm_reduce_scatter(comm, data, ZR_F32, -1) == ZR_ERR_ARG);
        EXPECT(data[0] == 1 && data[1] == 2 && data[2] == 3 && data[3] == 4);
        EXPECT(comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] == 0);
        destroy(&comm);
    }
}

/* Check that calls on host memory still work on a communicator of GPU memory, with the staging that remains. */
static void memory_of_the_host(void **state)
{
    (void)state;
    const int64_t staging[] = {world_size * ZR_COMM_STAGING_LEAST, world_size * 1000, 2 << 20};
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        zr_comm *comm = create(ranks_per_node);
        checker c;
        expect_ok(check_open(&c, comm));
        for (int i = 0; i < 3; i++) {
            stage(comm, staging[i]);
            const long before = operations();
            expect_ok(check_rounds(&c, 60));
            EXPECT(operations() == before);
            gather_once(comm, APART, i % 2, i);
            EXPECT((operations() > before) == (world_size > 1));
        }
        check_close(&c);
        expect_ok(zr__comm_copy_with(comm, NULL));
        EXPECT(comm->staging_bytes == (world_size > 1 ? ZR_COMM_STAGING_HOST(world_size) : 2 << 20));
        gather_host(comm, 7);
        destroy(&comm);
    }
}

static int other_copies;

static zr_status other_copy(void *arg, void *to, const void *from, int64_t bytes)
{
    other_copies++;
    return copy(arg, to, from, bytes);
}

/* Check that switching between host and GPU staging never uses the other's staging, and the last copier set is in
 * effect. */
static void back_and_forth(void **state)
{
    (void)state;
    zr_comm_copier gpu = copier(), other = gpu;
    other.copy = other_copy;
    for (int ranks_per_node = 0; ranks_per_node <= 1; ranks_per_node++) {
        zr_comm *comm = create_host(ranks_per_node);
        expect_ok(zr__comm_copy_with(comm, NULL));
        for (int i = 0; i < 2; i++) {
            stage(comm, world_size * 1000);
            expect_ok(zr__comm_copy_with(comm, &gpu));
            EXPECT(world_size == 1 || (comm->staging == NULL && comm->staging_bytes == 0));
            stage(comm, world_size * 1000);
            gather_once(comm, APART, false, i);
            EXPECT(other_copies == 0);
            expect_ok(zr__comm_copy_with(comm, &other)); /* a single rank changes nothing */
            EXPECT(comm->staging != NULL && alive(1));
            gather_once(comm, APART, false, i);
            EXPECT(other_copies == 1);
            other_copies = 0;
            expect_ok(zr__comm_copy_with(comm, NULL));
            EXPECT(clean());
            EXPECT(comm->staging != NULL && comm->staging_bytes == world_size * 1000);
            gather_host(comm, i);
        }
        destroy(&comm);
    }
}

/* ---- cancellation and failures ----------------------------------------------------------------- */

static zr_status waiting_call(zr_comm *comm, void *call)
{
    return failing_call(comm, *(int *)call);
}

/* Cancel this rank's own call that waits for rank 0, through this communicator or its parent. */
static void stop(zr_comm *comm, zr_comm *stopped, int call)
{
    check_beside_args beside = {.comm = comm, .run = waiting_call, .arg = &call};
    if (world_rank != 0) {
        check_beside_start(&beside);
        usleep(20000);
        zr__comm_cancel(stopped);
        EXPECT(check_beside_join(&beside) == ZR_ERR_PEER);
        EXPECT_TEXT("was stopped");
        EXPECT(cudaStreamQuery(stream) == cudaSuccess);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 joins only now */
    zr__comm_cancel(stopped);
    EXPECT(failing_call(comm, call) == ZR_ERR_PEER);
}

static void a_call_can_be_stopped(void **state)
{
    (void)state;
    for (int call = 0; call < CALLS && world_size > 1; call++) {
        zr_comm *comm = create(call % 2);
        stage(comm, world_size * 1000);
        stop(comm, comm, call);
        EXPECT(alive(0));
        destroy(&comm);
    }
}

/* Check that a call in a group can be cancelled through the world. */
static void a_call_in_a_group_can_be_stopped(void **state)
{
    (void)state;
    if (world_size == 1) return;
    zr_comm *comm = create(0), *group;
    expect_ok(zr_comm_split(comm, 0, world_rank, &group));
    EXPECT(alive(2));
    stage(comm, world_size * 1000);
    stage(group, world_size * 1000);
    stop(group, comm, 1);
    EXPECT(alive(1));
    zr_comm_destroy(&group);
    EXPECT(failing_call(comm, 2) == ZR_ERR_PEER && alive(0));
    destroy(&comm);
}

/* Check that the receiving function can cancel an exchange between two chunks. */
static void stopped_by_its_taker(void **state)
{
    (void)state;
    zr_comm *comm = create(1);
    arrays a = take_arrays(comm);
    arrival taken = {.comm = comm, .own = a.gpu + world_rank * APART, .to = world_rank, .round = 3, .left = 1};
    stage(comm, world_size * 256);
    for (int r = 0; r < comm->size; r++) check_fill(a.host + r * APART, world_rank, r, 3, PIECE);
    transfer(a.gpu, a.host, a.bytes);
    if (world_size > 1) {
        EXPECT(zr_comm_exchange(comm, a.gpu, APART, PIECE, 1, arrive, &taken) == ZR_ERR_PEER);
        EXPECT_TEXT("was stopped");
        EXPECT(taken.calls == 2);
    }
    drop_arrays(&a);
    destroy(&comm);
}

int main(int argc, char **argv)
{
    begin_all(&argc, &argv);
    const struct CMUnitTest tests[] = {
#ifndef ZR_GPU
        cmocka_unit_test(all_calls),
        cmocka_unit_test(groups),
        cmocka_unit_test(calls_may_come_from_a_second_thread),
        cmocka_unit_test(a_wrong_count_is_noticed),
#endif
        cmocka_unit_test(memory_of_the_gpu),
        cmocka_unit_test(sums_by_nccl),
        cmocka_unit_test(sums_that_are_refused),
        cmocka_unit_test(memory_of_the_host),
        cmocka_unit_test(back_and_forth),
        cmocka_unit_test(a_call_can_be_stopped),
        cmocka_unit_test(a_call_in_a_group_can_be_stopped),
        cmocka_unit_test(stopped_by_its_taker),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    end_all();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
