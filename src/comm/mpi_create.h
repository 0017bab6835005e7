/** Creates the MPI transport with explicit options, which tests need. zr_comm_mpi_start uses the usual options. */
#ifndef ZR_COMM_MPI_CREATE_H
#define ZR_COMM_MPI_CREATE_H

#include "zr/comm.h"

typedef struct zr__mpi_options {
    int ranks_per_node;  /* number of a host's ranks that share a window: 1 if no ranks share, 0 if all do */
    int64_t chunk_bytes; /* maximum length of a message in bytes; longer pieces are sent as several messages */
} zr__mpi_options;

/** Create the communicator of MPI_COMM_WORLD. MPI must be initialised. Collective. */
zr_status zr__comm_mpi_create(const zr__mpi_options *options, zr_comm **comm);

#endif
