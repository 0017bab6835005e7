/** The MPI transport with its choices open: zr_comm_mpi_start makes the usual ones. */
#ifndef ZR_COMM_MPI_CREATE_H
#define ZR_COMM_MPI_CREATE_H

#include "zr/comm.h"

typedef struct zr__mpi_options {
    int ranks_per_node;  /* ranks of a host that share a window; 1: none do; 0: all of them */
    int64_t chunk_bytes; /* the longest message; longer pieces are sent in several */
} zr__mpi_options;

/** Over MPI_COMM_WORLD, which must be initialised. Collective. */
zr_status zr__comm_mpi_create(const zr__mpi_options *options, zr_comm **comm);

#endif
