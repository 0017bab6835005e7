/*
 * Speed of ZeRO's two collectives between 2 thread ranks, with a buffer of 64 MiB: the reduction as in a training step
 * (an exchange, and the sum on the device), and the gather. Their bandwidth is compared with the triad at the same
 * time, and with MPI's own collectives between 2 processes.
 *
 *   GOMP_SPINCOUNT=10000 build/bench/bench_reduce [--json] [MPIRUN]
 *
 * MPIRUN is the command that starts build/bench/mpi_collectives, such as 'mpirun -n 2 build/bench/mpi_collectives'.
 *
 * The bandwidth counts the bytes that any implementation must move. In the reduction, each rank reads both pieces of
 * its shard and writes their sum. In the gather, which is in place, each rank reads its own piece and writes it to its
 * peer.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include <zr.h>

#include "base/core/scope.h"
#include "triad.h"

enum { RANKS = 2, PASSES = 3, ROUNDS = 40 };
#define ELEMS ((int64_t)16 << 20)
#define SHARD (ELEMS / RANKS)
#define REDUCE_BYTES (RANKS * 3.0 * SHARD * sizeof(float))
#define GATHER_BYTES (RANKS * (RANKS - 1) * 2.0 * SHARD * sizeof(float))
#define STAGE_BYTES ((int64_t)4 << 20)

typedef struct best {
    double triad, reduce, gather;  /* seconds */
    double mpi_reduce, mpi_gather; /* 0 if not measured */
} best;

typedef struct rank_arrays {
    zr_device *device;
    float *whole, *shard;
} rank_arrays;

static void keep(double *least, double sec)
{
    if (*least == 0.0 || sec < *least) *least = sec;
}

/* ---- between threads ------------------------------------------------------------------------- */

static zr_status arrived(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    const rank_arrays *a = arg;
    const int64_t first = first_byte / (int64_t)sizeof(float), n = bytes / (int64_t)sizeof(float);
    return a->device->ops->sum(a->device, a->shard + first, ZR_F32, false, pieces, RANKS, ZR_F32, n);
}

static zr_status one_round(zr_comm *comm, rank_arrays *a, best *least)
{
    const int64_t piece = SHARD * (int64_t)sizeof(float);
    double begin = zr_clock_sec();
    if (comm->rank == 0) { /* the other rank sleeps during the triad, which uses its shards as arrays */
        triad(omp_get_num_procs(), a->shard, a->whole, a->whole + SHARD, SHARD);
        keep(&least->triad, zr_clock_sec() - begin);
    }
    ZR_TRY(zr_comm_barrier(comm));
    begin = zr_clock_sec();
    ZR_TRY(zr_comm_exchange(comm, a->whole, piece, piece, sizeof(float), arrived, a));
    double end = zr_clock_sec();
    if (comm->rank == 0) keep(&least->reduce, end - begin);
    ZR_TRY(zr_comm_barrier(comm));
    begin = zr_clock_sec();
    ZR_TRY(zr_comm_all_gather(comm, a->whole + comm->rank * SHARD, a->whole, piece, piece));
    end = zr_clock_sec();
    if (comm->rank == 0) keep(&least->gather, end - begin);
    return zr_comm_barrier(comm);
}

static void release(rank_arrays *a)
{
    zr_device_destroy(&a->device);
    zr_free(a->whole);
    zr_free(a->shard);
}

static zr_status run_rank(zr_comm *comm, void *arg)
{
    const zr_device_config config = {.threads = 1};
    ZR_AUTO(release)
    rank_arrays a = {.whole = zr_alloc(ELEMS * sizeof(float)), .shard = zr_alloc(SHARD * sizeof(float))};
    void *stage;
    ZR_CHECK(a.whole && a.shard, ZR_ERR_MEMORY, "no memory for a rank's 96 MiB");
    ZR_TRY(zr_device_create_cpu(&config, &a.device));
    ZR_TRY(zr_comm_staging(comm, STAGE_BYTES, &stage));
    for (int64_t i = 0; i < ELEMS; i++) a.whole[i] = (float)(i % 1000);
    memset(a.shard, 0, SHARD * sizeof(float));
    for (int round = 0; round < ROUNDS; round++) ZR_TRY(one_round(comm, &a, arg));
    return ZR_OK;
}

/* ---- MPI ------------------------------------------------------------------------------------- */

static zr_status run_mpi(const char *command, best *least)
{
    double reduce = 0.0, gather = 0.0;
    FILE *out = popen(command, "r");
    ZR_CHECK(out, ZR_ERR_IO, "cannot start %s", command);
    int found = fscanf(out, "%lf %lf", &reduce, &gather), status = pclose(out);
    ZR_CHECK(found == 2 && status == 0, ZR_ERR_IO, "%s: two times were wanted, status is %d", command, status);
    keep(&least->mpi_reduce, reduce);
    keep(&least->mpi_gather, gather);
    return ZR_OK;
}

static void print_ratio(bool json, const char *what, const char *than, double sec, double mpi_sec, double wanted)
{
    if (mpi_sec == 0.0) return;
    const double ratio = mpi_sec / sec;
    if (json)
        printf("{\"what\":\"%s\",\"against\":\"%s\",\"ratio\":%.4g,\"wanted\":%g,\"ok\":%s}\n", what, than, ratio,
               wanted, ratio >= wanted ? "true" : "false");
    else
        printf("%-24s %6.2f x %s, %g wanted%s\n", what, ratio, than, wanted, ratio >= wanted ? "" : ": NOT REACHED");
}

int main(int argc, char **argv)
{
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const char *mpi = argc > 1 + json ? argv[1 + json] : NULL;
    best least = {0};
    zr_status st = ZR_OK;
    for (int pass = 0; pass < PASSES && st == ZR_OK; pass++) {
        st = zr_comm_threads_run(RANKS, run_rank, &least);
        if (st == ZR_OK && mpi) st = run_mpi(mpi, &least);
    }
    if (st != ZR_OK) {
        fprintf(stderr, "%s\n", zr_error_message());
        return 1;
    }
    const double triad_rate = TRIAD_BYTES * (double)SHARD / least.triad;
    print_share(json, "triad", triad_rate, triad_rate, 0.0);
    print_share(json, "reduction, 2 ranks", REDUCE_BYTES / least.reduce, triad_rate, 0.7);
    print_share(json, "gather, 2 ranks", GATHER_BYTES / least.gather, triad_rate, 0.7);
    print_ratio(json, "reduction, 2 ranks", "MPI_Reduce_scatter_block", least.reduce, least.mpi_reduce, 4.0);
    print_ratio(json, "gather, 2 ranks", "MPI_Allgather", least.gather, least.mpi_gather, 2.0);
    return 0;
}
