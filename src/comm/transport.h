/**
 * What the transports share. A transport fills zr_comm_ops; comm.c checks arguments, counts
 * traffic and answers for one rank and for empty pieces, so a transport sees neither.
 */
#ifndef ZR_COMM_TRANSPORT_H
#define ZR_COMM_TRANSPORT_H

#include "zr/comm.h"

/** Fill the common part: one host of `size` ranks, no staging, no traffic. */
zr_status zr__comm_init(zr_comm *comm, const zr_comm_ops *ops, const char *transport, int rank, int size);
void zr__comm_finish(zr_comm *comm);

#endif
