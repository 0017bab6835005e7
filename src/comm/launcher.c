/* Detects the MPI launcher that started this process. Only environment variables are read, without calling MPI. */
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
    int count = count_in("OMPI_COMM_WORLD_SIZE"); /* set by Open MPI's mpirun */
    if (count == 0) count = count_in("PMI_SIZE"); /* set by mpirun of MPICH and related libraries */
    /* Only processes that srun started have SLURM_STEP_ID. The batch shell of a Slurm job also has SLURM_NTASKS and
     * SLURM_PROCID, but was not started as a rank. */
    if (count == 0 && getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID")) {
        count = count_in("SLURM_STEP_NUM_TASKS");
        if (count == 0) count = count_in("SLURM_NTASKS");
    }
    return count;
}
