/** Creation of the MPI transport with choices that zr_comm_mpi_start makes itself; tests make others. */
#ifndef ZR_COMM_MPI_CREATE_H
#define ZR_COMM_MPI_CREATE_H

#include "zr/comm.h"

typedef struct zr__mpi_options {
    int ranks_per_node;  /* ranks of a host that share a window; 1: no ranks do; 0: all ranks of the host */
    int64_t chunk_bytes; /* the longest message; longer pieces are sent in several */
} zr__mpi_options;

/** Create the communicator of MPI_COMM_WORLD; MPI must be initialised. Collective. */
zr_status zr__comm_mpi_create(const zr__mpi_options *options, zr_comm **comm);

#endif
