/**
 * A barrier in memory that all its ranks, threads or processes, can access: waiters spin briefly, then sleep in the
 * kernel, so ranks may outnumber cores.
 *
 * Passing it orders memory: writes of any rank before it are visible to every rank after it.
 */
#ifndef ZR_COMM_BARRIER_H
#define ZR_COMM_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct zr__barrier {
    _Atomic uint32_t word;    /* 2 * barriers completed, + 1 once a rank has left for good */
    _Atomic uint32_t arrived; /* ranks waiting in the barrier in progress */
    _Atomic uint32_t leaver;  /* 1 + the rank that left first, 0 while none has */
    uint32_t size;
    uint32_t spins; /* looks before sleeping; 0 when the host's ranks outnumber its cores */
} zr__barrier;

/** Initialise a barrier for `size` of the `host_ranks` ranks that share the host's cores. */
void zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);

/** Wait for all ranks. Return 0 when all have arrived; 1 + the leaver's rank when a rank has left for good. */
int zr__barrier_wait(zr__barrier *barrier);

/** Leave for good: all present and later waiters learn that `rank` will not arrive again. */
void zr__barrier_leave(zr__barrier *barrier, int rank);

#endif
