//TEST np=2,3,4 timeout=200
/* Pipelines of processes, on one host and on pretended ones: losses, norms and weights have the bits of one pipeline
 * rank, in every schedule and at every stage. Each run also compares planned with measured memory and traffic
 * (trainer.h), and the bytes that MPI was given with those that cross hosts. */
#include "engine/layout_variants.h"

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm/mpi_create.h"
#include "engine/walk.h"

#include <mpi.h>

static int64_t sent_bytes, received_bytes;

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

/* Worlds with other numbers of ranks on a host: all, half of them, one. */
enum { WORLDS = 3 };
static zr_comm *world[WORLDS];
static int host_ranks[WORLDS];
static bool concurrent[WORLDS];

/* End all ranks if a check failed: the peers of the failed rank wait in a collective call. */
static void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d: %s: %s\n%s", world[0]->rank, what, zr_error_message(), zr_error_trace());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Check the bytes from other hosts: on the rank of each role that gets most, as many as planned. With one data-parallel
 * rank they are all that MPI is given in messages. */
static zr_status check_across(trainer *run, zr_engine *engine, zr_comm *comm)
{
    enum { MOST = 8 };
    zr_measured m;
    double all[MOST], most = 0;
    zr_engine_measured(engine, &m);
    const int64_t here = m.across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_PIPELINE], steps = m.steps;
    const double mine = (double)here;
    const zr_plan *plan = engine->plan;
    ZR_TRY(zr_comm_scalars(comm, &mine, 1, all));
    for (int r = 0; r < comm->size; r++)
        if (r / run->layout.ranks == plan->layout.role && all[r] > most) most = all[r];
    const int64_t planned = plan->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_PIPELINE];
    ZR_CHECK((int64_t)most == planned * steps, ZR_ERR_INTERNAL, "from other hosts: planned %lld a step, %.0f in %lld",
             (long long)planned, most, (long long)steps);
    ZR_CHECK(run->layout.ranks > 1 || received_bytes == here, ZR_ERR_INTERNAL, "%lld bytes in messages, %lld counted",
             (long long)received_bytes, (long long)here);
    /* each message is sent once */
    double sums[2] = {(double)sent_bytes, (double)received_bytes}, both[2 * MOST];
    ZR_TRY(zr_comm_scalars(comm, sums, 2, both));
    for (int r = sums[0] = sums[1] = 0; r < comm->size; r++)
        for (int i = 0; i < 2; i++) sums[i] += both[2 * r + i];
    ZR_CHECK(sums[0] == sums[1], ZR_ERR_INTERNAL, "%.0f bytes sent, %.0f received", sums[0], sums[1]);
    return ZR_OK;
}

/* Count messages from here, behind those of the start. */
static zr_status count_from_here(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)engine, (void)comm;
    sent_bytes = received_bytes = 0;
    return ZR_OK;
}

/* Half of the pipelines have the tied table on two ranks. */
static void train(const trainer *want, int P, int schedule, int in)
{
    const bool chunks =
        schedule == ZR_PIPELINE_INTERLEAVED || schedule == ZR_PIPELINE_BREADTH || schedule == ZR_PIPELINE_ZB_V;
    trainer got = *want;
    got.layout.pipeline = P;
    got.layout.chunks = chunks ? 2 : 1;
    got.layout.pipeline_schedule = (zr_pipe_schedule)schedule;
    got.layout.recompute = (schedule + want->layout.stage) % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
    got.layout.host_ranks = host_ranks[in];
    got.lanes = concurrent[in];
    got.layout.tied_apart = schedule != ZR_PIPELINE_ZB_V && (schedule + want->layout.stage / 2) % 2;
    got.before = count_from_here;
    got.after = check_across;
    expect(trainer_rank(world[in], &got) == ZR_OK, "a pipeline");
    expect(world[in]->rank > 0 || layout_same(want, &got), "a pipeline has the bits of one rank");
}

static void every_schedule(void **state)
{
    (void)state;
    const int ranks = world[0]->size;
    for (int P = 2; P <= ranks; P++)
        for (int stage = 0; stage <= 3 && ranks % P == 0; stage++) {
            trainer want = layout_trainer(ranks / P, stage == 1 ? ZR_F32 : ZR_BF16, 2 * P, 0.5);
            want.config.n_layer = P < 4 ? 5 : 8;
            want.layout.stage = stage;
            want.layout.eval = false;
            want.steps = 2;
            if (world[0]->rank == 0) trainer_run(&want);
            for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++) train(&want, P, s, (s + stage) % WORLDS);
        }
}

int main(int argc, char **argv)
{
    zr_comm *usual = NULL;
    if (zr_comm_mpi_start(&argc, &argv, &usual) != ZR_OK) return 1;
    const int ranks = usual->size;
    zr_comm_destroy(&usual);
    for (int w = 0; w < WORLDS; w++) {
        host_ranks[w] = w == 0 ? ranks : w == 1 && ranks % 2 == 0 ? ranks / 2 : 1;
        const zr__mpi_options options = {.ranks_per_node = host_ranks[w], .chunk_bytes = 5000};
        if (zr__comm_mpi_create(&options, &world[w]) != ZR_OK) return 1;
        concurrent[w] = world[w]->concurrent;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int w = 0; w < WORLDS; w++) zr_comm_destroy(&world[w]);
    zr_comm_mpi_stop();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
