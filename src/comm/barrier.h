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

/** For `size` of the `host_ranks` ranks that share the host's cores. */
void zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);

/** 0 when all have come; 1 + the leaver's rank when one never will. */
int zr__barrier_wait(zr__barrier *barrier);

/** `rank` will not come again: everyone who waits, or comes later, is told so. */
void zr__barrier_leave(zr__barrier *barrier, int rank);

#endif
