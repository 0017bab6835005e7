//TEST np=2,3,4 timeout=120 long=more
//STAND_IN
/* Training by processes with GPUs, on the stand-ins of tests/cuda: pieces that go through NCCL give the bits of pieces
 * between threads, in every way to keep and move, and planned and counted bytes equal the real ones. Only NCCL's own
 * sums have other bits. */
#include "layout_variants.h"
#include "support/long.h"

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm/mpi_create.h"
#include "engine/walk.h"

#ifndef ZR_GPU
#include "cuda/nccl.h"
#endif

#include <mpi.h>

static zr_comm *comm;

/* End all ranks if a check failed: the peers of the failed rank wait in a collective call. */
static void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d: %s: %s\n%s\n", comm->rank, what, zr_error_message(), zr_error_trace());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Create a device on one of the GPUs, which ranks take in turn. */
static zr_status take_gpu(const zr_device_config *config, zr_device **device)
{
    const int gpus = zr_device_cuda_count(NULL);
    zr_device_config wanted = *config;
    wanted.gpu = gpus > 0 ? comm->rank % gpus : 0;
    return zr_device_create_cuda(&wanted, device);
}

/* Run with threads of rank 0 alone, on one GPU, for the wanted bits. */
static trainer wanted(trainer run)
{
    run.device = take_gpu;
    if (comm->rank == 0)
        expect(zr_comm_threads_run(run.layout.ranks * run.layout.tensor, trainer_rank, &run) == ZR_OK, "threads");
    return run;
}

/* Run on all processes, with one NCCL communicator for each group that moves pieces, and check that all communicators
 * end well. */
static void train(trainer *run, const char *what)
{
    comm->second_thread = run->lanes;
#ifdef ZR_GPU
    expect(trainer_rank(comm, run) == ZR_OK, what);
#else
    const long before = zr_stand_in_nccl_operations();
    expect(trainer_rank(comm, run) == ZR_OK, what);
    expect(zr_stand_in_nccl_operations() > before, what);
    expect(zr_stand_in_nccl_alive() == 0 && zr_stand_in_nccl_aborted() == 0 && zr_stand_in_taken() == 0, what);
#endif
}

static void compare(const trainer *want, trainer run, const char *what)
{
    train(&run, what);
    expect(comm->rank != 0 || layout_same(want, &run), what);
}

/* Return a small trainer, because the stand-in's kernels are slow. */
static trainer small(zr_dtype dtype)
{
    trainer run = layout_trainer(comm->size, dtype, 1, 0.5);
    run.config.n_layer = 2;
    run.config.n_head = 1;
    run.layout.batch = 1;
    run.layout.seq = 7;
    return run;
}

/* Return whether this number of ranks checks a layout variant at a stage. A short run checks one variant at each stage,
 * and another one for each number of ranks. */
static bool takes(int stage, int v, int lanes)
{
    const int turn = 2 * (comm->size - 2) + lanes, shares = 12;
    if (!is_long_run()) return v == (4 * turn + 3 - stage) % LAYOUT_VARIANTS;
    return (stage * LAYOUT_VARIANTS + v) % shares == (comm->size + 5 * lanes) % shares;
}

/* Check that the layouts give the same bits, with one queue and with the comm stream in parallel. Each number of ranks
 * checks some layouts. */
static void layouts(void **state)
{
    (void)state;
    for (int lanes = 0; lanes < 2; lanes++) {
        trainer run = small(lanes ? ZR_F32 : ZR_BF16);
        run.lanes = lanes;
        run.steps = is_long_run() ? 3 : 2;
        const trainer want = wanted(run);
        for (int way = 0; way < 4 * LAYOUT_VARIANTS; way++) {
            const layout_variant *v = &layout_variants[way % LAYOUT_VARIANTS];
            run = want;
            run.layout.stage = way / LAYOUT_VARIANTS;
            if (takes(run.layout.stage, way % LAYOUT_VARIANTS, lanes) && layout_vary(&run, v))
                compare(&want, run, v->name);
        }
    }
}

static zr_status expect_overlap(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)of;
    expect(zr__engine_serial(engine) == !run->layout.overlap, "a queue for exchanges");
    return ZR_OK;
}

/* Check that processes of one host have a queue for exchanges, which then overlap with kernels, unless overlap_comm is
 * off. */
static void overlap(void **state)
{
    (void)state;
    trainer run = small(ZR_F32);
    run.steps = 1;
    const trainer want = wanted(run);
    run = want;
    run.layout.stage = 3;
    run.after = expect_overlap;
    for (int on = 0; on < 2; on++) {
        comm->second_thread = true;
        run.layout.overlap = on;
        expect(trainer_rank(comm, &run) == ZR_OK, "overlap");
        expect(comm->rank != 0 || layout_same(&want, &run), "overlap: bits");
    }
}

/* Check that separate groups within the world give the same bits: of ranks that share states, and of tensor-parallel
 * ranks. */
static void groups(void **state)
{
    (void)state;
    if (comm->size != 4) return;
    const trainer want = wanted(small(ZR_F32));
    for (int stage = 2; stage <= 3; stage++)
        for (int hierarchical = 0; hierarchical < 2; hierarchical++) {
            trainer run = want;
            if (hierarchical != stage - 2 && !is_long_run()) continue;
            run.layout.stage = stage;
            run.layout.host_ranks = 2;
            run.layout.shard_ranks = 2;
            run.layout.hierarchical = hierarchical;
            compare(&want, run, "groups that share states");
        }
}

static void shared_layers(void **state)
{
    (void)state;
    if (comm->size == 3) return;
    trainer run = small(ZR_F32);
    run.config.n_head = 2;
    run.config.n_embd = 24;
    run.layout.ranks = comm->size / 2;
    run.layout.tensor = 2;
    const trainer want = wanted(run);
    run = want;
    run.layout.stage = 3;
    compare(&want, run, "ranks that share layers");
    run.layout.reduce = ZR_REDUCE_NCCL; /* with two ranks: a sum of two numbers has no order */
    compare(&want, run, "ranks that share layers, whose gradients NCCL sums");
}

static void reduced_once(void **state)
{
    (void)state;
    if (comm->size != 2) return;
    trainer run = small(ZR_BF16);
    run.layout.ranks = comm->size;
    run.layout.accum = 2;
    run.layout.reduce_once = true;
    const trainer want = wanted(run);
    run = want;
    run.layout.stage = 2;
    compare(&want, run, "reduced once a step");
    run.layout.reduce = ZR_REDUCE_NCCL;
    compare(&want, run, "reduced once a step, by NCCL");
}

/* ---- calls ------------------------------------------------------------------------------------- */

#ifndef ZR_GPU
/* Return the number of NCCL's operations in a training step at stage 3. */
static int64_t planned_operations(const zr_plan *plan)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int64_t rounds = 1, n = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const int64_t peers = plan->group[step->group].size - 1;
        if (step->kind == ZR_STEP_REPEAT) rounds = step->rounds;
        if (step->kind == ZR_STEP_END) rounds = 1;
        if (step->kind == ZR_STEP_GATHER) n += rounds;
        if (step->kind == ZR_STEP_REDUCE_SCATTER) n += rounds * zr_step_buckets(step) * 2 * peers;
    }
    return n;
}

static size_t taken_at_creation;

static zr_status note_counts(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)engine, (void)of;
    taken_at_creation = zr_stand_in_taken();
    zr_stand_in_count(run->arg);
    return ZR_OK;
}

/* Check the calls of a step. The host waits for the copies of each micro-batch, for what NORM reads, and at the end for
 * two queues. */
static zr_status expect_counts(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)of;
    const zr_stand_in_counts *before = run->arg;
    zr_stand_in_counts now;
    zr_stand_in_count(&now);
    expect(now.operations - before->operations == planned_operations(engine->plan), "a gather is one call of NCCL");
#ifndef ZR_DEBUG
    expect(engine->bound[ZR_SCHEDULE_TRAIN].inputs_apart, "inputs are apart");
#endif
    expect(zr_stand_in_taken() == taken_at_creation, "NCCL has taken its memory at creation");
    expect(now.waits - before->waits == run->layout.accum + 1 + 2, "the host waits for scalars alone");
    return ZR_OK;
}

/* Check that NCCL gathers a whole unit in one call, whatever the size of a bucket, and that the host does not wait for
 * collectives. */
static void calls(void **state)
{
    (void)state;
    zr_stand_in_counts before;
    trainer run = small(ZR_BF16);
    run.steps = 1;
    run.device = take_gpu;
    run.layout.stage = 3;
    run.layout.accum = 2;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 100;
    run.before = note_counts;
    run.after_first = expect_counts;
    run.arg = &before;
    comm->second_thread = true;
    expect(trainer_rank(comm, &run) == ZR_OK, "calls");
}
#endif

/* ---- NCCL's own sums --------------------------------------------------------------------------- */

static bool near(double a, double b, double share)
{
    return a - b <= share * b && b - a <= share * b;
}

/* Check that all stages have the losses of zr's sums up to rounding, and the same bits as each other: in the stand-in,
 * the order in which an element is summed depends on its owner, which is the same at each stage. A short run leaves out
 * stage `left_out`. */
static void sum_by_nccl(trainer run, double share, int left_out)
{
    run.steps = 2;
    const trainer want = wanted(run);
#ifndef ZR_GPU
    trainer first = want;
#endif
    for (int stage = 0; stage <= 3; stage++) {
        if (stage == left_out && !is_long_run()) continue;
        run = want;
        run.layout.reduce = ZR_REDUCE_NCCL;
        run.layout.reduce_bucket_elems = 700;
        run.layout.stage = stage;
        run.layout.states = stage == 3 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        train(&run, "sums by NCCL");
        for (int i = 0; i < run.steps && comm->rank == 0; i++)
            expect(near(run.loss[i], want.loss[i], share) && near(run.norm[i], want.norm[i], 20 * share),
                   "sums by NCCL are near");
#ifndef ZR_GPU
        if (stage == 0) first = run;
        expect(comm->rank != 0 || layout_same(&first, &run), "sums by NCCL at another stage");
        const bool told_apart = comm->size > 2 || (run.layout.wire_dtype != ZR_F32 && run.layout.accum > 1);
        expect(comm->rank != 0 || layout_same(&want, &run) == !told_apart, "it is NCCL that adds");
#endif
    }
}

static void sums_by_nccl(void **state)
{
    (void)state;
    sum_by_nccl(small(ZR_F32), 1e-5, 1);
    trainer run = small(ZR_BF16);
    run.layout.accum = is_long_run() ? 3 : 2;
    sum_by_nccl(run, 2e-3, 2);
    run.layout.wire_dtype = ZR_F32; /* 16-bit parameters, sums in fp32 */
    run.layout.accum = 2;
    sum_by_nccl(run, 1e-3, 3);
}

int main(int argc, char **argv)
{
    char host[32];
    if (zr_comm_mpi_start(&argc, &argv, &comm) != ZR_OK) return 1;
    const int gpus = zr_device_cuda_count(NULL);
    snprintf(host, sizeof host, "host %d", comm->rank / (gpus > 0 ? gpus : 1)); /* hosts with `gpus` ranks each */
    setenv("NCCL_HOSTID", host, 1);
    const struct CMUnitTest tests[] = {
#ifndef ZR_GPU
        cmocka_unit_test(calls),
#endif
        cmocka_unit_test(layouts),       cmocka_unit_test(overlap),      cmocka_unit_test(groups),
        cmocka_unit_test(shared_layers), cmocka_unit_test(reduced_once), cmocka_unit_test(sums_by_nccl)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
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
