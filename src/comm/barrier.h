/**
 * A barrier in memory that all its ranks, threads or processes, can access. Waiting ranks spin briefly, then sleep in
 * the kernel, so ranks may outnumber cores.
 *
 * Passing the barrier orders memory: what any rank wrote before the barrier is visible to every rank after it.
 */
#ifndef ZR_COMM_BARRIER_H
#define ZR_COMM_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct zr__barrier {
    _Atomic uint32_t word;    /* 2 * the number of completed barriers, plus 1 (LEFT) once a rank has left for good */
    _Atomic uint32_t arrived; /* number of ranks that wait in the current barrier */
    _Atomic uint32_t leaver;  /* 1 + the number of the first rank that left for good, or 0 if none has */
    uint32_t size;
    uint32_t spins; /* number of polls before a wait sleeps; 0 when the host's ranks outnumber its cores */
} zr__barrier;

/** Initialise a barrier for `size` ranks. The host runs `host_ranks` ranks in all, which share its cores. */
void zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);

/** Wait for all ranks. Return 0 when all have arrived, or 1 + the number of a rank that has left for good. */
int zr__barrier_wait(zr__barrier *barrier);

/** Leave for good. All present and later waits of other ranks end, and return that `rank` has left. */
void zr__barrier_leave(zr__barrier *barrier, int rank);

#endif
