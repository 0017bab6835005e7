/*
 * MPI's own reduce-scatter and all-gather of a buffer of 64 MiB, with which bench_reduce compares its results. Prints
 * the best time of several runs, each the time of the slowest process. bench_reduce starts this program under mpirun.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMS = 16 << 20, ROUNDS = 12 };

static void keep_best(double begin, double *best)
{
    double sec = MPI_Wtime() - begin, slowest;
    MPI_Allreduce(&sec, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (*best == 0.0 || slowest < *best) *best = slowest;
}

static void measure(float *whole, float *shard, int size, int rank)
{
    double reduce = 0.0, gather = 0.0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        MPI_Reduce_scatter_block(whole, shard, ELEMS / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        keep_best(begin, &reduce);
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, whole, ELEMS / size, MPI_FLOAT, MPI_COMM_WORLD);
        keep_best(begin, &gather);
    }
    if (rank == 0) printf("%.9g %.9g\n", reduce, gather);
}

int main(int argc, char **argv)
{
    int size = 1, rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *whole = malloc(ELEMS * sizeof *whole), *shard = malloc(ELEMS / (size_t)size * sizeof *shard);
    if (!whole || !shard) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < ELEMS; i++) whole[i] = (float)(i % 1000);
    measure(whole, shard, size, rank);
    free(whole);
    free(shard);
    MPI_Finalize();
    return 0;
}
