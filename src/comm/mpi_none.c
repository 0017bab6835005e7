/* Replaces mpi.c in builds without MPI. Starting MPI fails with a message. */
#include "zr/comm.h"
#include "comm/comm.h"

zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm)
{
    (void)argc, (void)argv;
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_mpi_start needs a place for the communicator");
    *comm = NULL;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED,
                   "the launcher started %d ranks, but this zr was built without MPI; "
                   "build it with mpicc in PATH, or run ranks as threads with --ranks",
                   zr_comm_mpi_launched());
}

void zr_comm_mpi_stop(void)
{
}

const char *zr__comm_mpi_version(void)
{
    return "";
}
