//TEST np=2,3 timeout=60
//LINK -Wl,--wrap=zr__traffic_count
/* The bytes that training passes to MPI, seen by interposing MPI's own functions, equal the counted bytes and the
 * papers' formulas: every rank sends and receives the same number a step. And with all bytes in messages, every way to
 * keep and move gives the same bits. */
#include "base/core/core.h"
#include "plan/gpt2_sizes.h"
#include "layout_variants.h"

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm/mpi_create.h"

#include <mpi.h>

static int64_t sent_bytes, received_bytes, miscounted_bytes;

static int64_t message_bytes(int count, MPI_Datatype type)
{
    int unit = 0;
    MPI_Type_size(type, &unit);
    return (int64_t)count * unit;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    sent_bytes += message_bytes(count, type);
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    received_bytes += message_bytes(count, type);
    return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

void __real_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes)
{
    __real_zr__traffic_count(traffic, kind, bytes + miscounted_bytes);
}

static zr_comm *comm; /* communicator in which each rank is a node, so that every byte goes through a message */

/* End all ranks if a check failed: the peers of the failed rank wait in a collective call. */
static void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d: %s: %s\n", comm->rank, what, zr_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Start counting after the first step. Its outstanding communication is finished first, so as not to be counted with
 * the later steps. */
static zr_status begin_counting(trainer *run, zr_engine *engine, zr_comm *c)
{
    (void)run;
    ZR_TRY(zr_engine_flush(engine));
    ZR_TRY(zr_comm_barrier(c));
    sent_bytes = received_bytes = 0;
    return ZR_OK;
}

static zr_status check_counted(trainer *run, zr_engine *engine, zr_comm *c)
{
    zr_measured m;
    const zr_layout *l = &run->layout;
    gpt2_sizes sizes = gpt2_count(&run->config);
    int bytes = (int)zr_dtype_bytes(l->dtype);
    zr_traffic want = gpt2_traffic(&sizes, l->stage, c->size, l->accum, bytes, bytes);
    int64_t step = want.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + want.bytes[ZR_TRAFFIC_ALL_GATHER];
    ZR_CHECK(sent_bytes == step * (run->steps - 1) && received_bytes == sent_bytes, ZR_ERR_INTERNAL,
             "stage %d: %lld bytes were sent and %lld received in %d steps; %lld a step were wanted", l->stage,
             (long long)sent_bytes, (long long)received_bytes, run->steps - 1, (long long)step);
    zr_engine_measured(engine, &m);
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
        ZR_CHECK(m.traffic.bytes[k] == want.bytes[k] * m.steps, ZR_ERR_INTERNAL,
                 "stage %d: %s is counted as %lld in %lld steps", l->stage,
                 k == ZR_TRAFFIC_REDUCE_SCATTER ? "reduce_scatter"
                 : k == ZR_TRAFFIC_ALL_GATHER   ? "all_gather"
                                                : "all_reduce",
                 (long long)m.traffic.bytes[k], (long long)m.steps);
    return ZR_OK;
}

static trainer counted(int stage, int64_t accum, zr_dtype dtype)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = comm->size;
    run.layout.accum = accum;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = stage & 1 ? 1000 : ZR_DEFAULT_BUCKET_ELEMS;
    run.steps = 3;
    run.after_first = begin_counting;
    run.after = check_counted;
    return run;
}

static void test_messages_are_the_formula(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t accum = 1; accum <= 2; accum++)
            for (int bf16 = 0; bf16 <= 1; bf16++) {
                trainer run = counted(stage, accum, bf16 ? ZR_BF16 : ZR_F32);
                expect(trainer_rank(comm, &run) == ZR_OK, "training");
            }
}

static void test_layouts(void **state)
{
    (void)state;
    trainer want = layout_trainer(comm->size, ZR_BF16, 1, 0);
    expect(trainer_rank(comm, &want) == ZR_OK, "training");
    for (int stage = 0; stage <= 3; stage++)
        for (int v = 0; v < LAYOUT_VARIANTS; v++) {
            trainer got = want;
            got.layout.stage = stage;
            if (!layout_vary(&got, &layout_variants[v])) continue;
            expect(trainer_rank(comm, &got) == ZR_OK, layout_variants[v].name);
            expect(comm->rank != 0 || layout_same(&want, &got), layout_variants[v].name);
        }
}

/* Check that quantised exchanges, with errors of gradients, have the bits of threads. */
static void test_records(void **state)
{
    (void)state;
    trainer want = layout_trainer(comm->size, ZR_BF16, 2, 0.5);
    want.layout.weight_records = ZR_I8X128;
    want.layout.grad_records = ZR_I4X128;
    want.layout.reduce_once = true;
    want.layout.error_steps = 1024;
    want.layout.error_beta = 0.8;
    trainer_run(&want);
    for (int stage = 0; stage <= 3; stage++) {
        trainer got = want;
        got.layout.stage = stage;
        if (!layout_vary(&got, &layout_variants[stage])) continue;
        expect(trainer_rank(comm, &got) == ZR_OK, "quantised exchanges");
        expect(comm->rank != 0 || layout_same(&want, &got), "quantised exchanges have the bits of threads");
    }
}

/* Check that the norms of trust ratios are exchanged between processes. The trainer compares the counted bytes with the
 * plan. */
static void test_trust_ratios(void **state)
{
    (void)state;
    trainer want = layout_trainer(comm->size, ZR_F32, 1, 0);
    want.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    expect(trainer_rank(comm, &want) == ZR_OK, "training");
    for (int stage = 0; stage <= 3; stage++) {
        trainer got = want;
        got.layout.stage = stage;
        if (!layout_vary(&got, &layout_variants[1]))
            continue; /* variant 1 is the lean layout: one exchange for each unit */
        expect(trainer_rank(comm, &got) == ZR_OK, "LAMB");
        expect(comm->rank != 0 || layout_same(&want, &got), "LAMB has the bits of stage 0");
    }
}

static void test_a_wrong_count_is_noticed(void **state)
{
    (void)state;
    trainer run = counted(2, 1, ZR_F32);
    miscounted_bytes = 1;
    zr_status st = trainer_rank(comm, &run);
    miscounted_bytes = 0;
    expect(st == ZR_ERR_INTERNAL && strstr(zr_error_message(), "is counted as"), "a wrong count");
}

int main(int argc, char **argv)
{
    zr_comm *usual = NULL;
    if (zr_comm_mpi_start(&argc, &argv, &usual) != ZR_OK) return 1;
    zr_comm_destroy(&usual);
    if (zr__comm_mpi_create(&(zr__mpi_options){.ranks_per_node = 1, .chunk_bytes = 5000}, &comm) != ZR_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages_are_the_formula), cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_records), cmocka_unit_test(test_trust_ratios),
                                       cmocka_unit_test(test_a_wrong_count_is_noticed)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_destroy(&comm);
    zr_comm_mpi_stop();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
