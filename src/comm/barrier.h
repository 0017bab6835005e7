/**
 * A barrier in memory that all its ranks can access. The ranks are threads or processes. A waiting rank spins briefly
 * and then sleeps in the kernel, so there may be more ranks than cores.
 *
 * Passing the barrier orders memory: writes of any rank before the barrier are visible to every rank after the barrier.
 */
#ifndef ZR_COMM_BARRIER_H
#define ZR_COMM_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct zr__barrier {
    _Atomic uint32_t word;    /* 2 * the number of completed barriers, plus 1 (LEFT) if a rank has left for good */
    _Atomic uint32_t arrived; /* number of ranks that wait in the current barrier */
    _Atomic uint32_t leaver;  /* 1 + the number of the first rank that left for good, or 0 if all ranks are present */
    uint32_t size;
    uint32_t spins; /* number of polls before a wait sleeps; 0 if they are not to spin */
} zr__barrier;

/** Initialise a barrier for `size` ranks. `host_ranks` is the number of all ranks that share the host's cores. */
void zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);

/** Wait for all ranks. Return 0 if all have arrived, or 1 + the number of a rank that has left for good. In a long wait
 * call late(arg) about four times a second. */
int zr__barrier_wait(zr__barrier *barrier, void (*late)(void *arg), void *arg);

/** Leave for good. All present and later waits of other ranks then end and return 1 + `rank`. */
void zr__barrier_leave(zr__barrier *barrier, int rank);

#endif
