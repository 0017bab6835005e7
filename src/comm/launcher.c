/* Detects the launcher that started this process, by its environment alone, without MPI. */
#include "zr/comm.h"

#include <stdlib.h>

static int count_in(const char *variable)
{
    const char *text = getenv(variable);
    long count = text ? strtol(text, NULL, 10) : 0;
    return count >= 1 && count <= 1 << 24 ? (int)count : 0;
}

int zr_comm_mpi_launched(void)
{
    int count = count_in("OMPI_COMM_WORLD_SIZE"); /* Open MPI's mpirun */
    if (count == 0) count = count_in("PMI_SIZE"); /* MPICH's mpirun and its relatives */
    /* A batch shell has the job's SLURM_NTASKS and SLURM_PROCID too; only srun sets a step. */
    if (count == 0 && getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID")) {
        count = count_in("SLURM_STEP_NUM_TASKS");
        if (count == 0) count = count_in("SLURM_NTASKS");
    }
    return count;
}
