/**
 * comm, internal: the calls that engine, train and cli need beside zr/comm.h. They cover memory of GPUs, the board on
 * which ranks show their progress, ranks that have ended, and the choice of the rank that reports why a job ends.
 *
 * comm.c checks arguments and calls a transport (transport.h): self.c (one rank), threads.c (ranks as threads, over
 * barrier.h), mpi*.c (ranks as processes) or nccl.c (memory of GPUs, for ranks as processes). launcher.c detects MPI
 * launchers.
 */
#ifndef ZR_COMM_COMM_H
#define ZR_COMM_COMM_H

#include "zr/comm.h"

/** Let `copier` copy the pieces of this rank's later calls, or let the processor copy them again if `copier` is NULL.
 * Either all ranks call this function or none does. If ranks are processes, NCCL then moves pieces in memory of GPUs;
 * the copier does not affect pieces in the host's memory. A communicator's first call with a copier initialises NCCL.
 * That first call is collective, takes seconds, needs a stream of the calling thread's current GPU, and frees the
 * staging (staging_bytes becomes 0). Staging allocated afterwards is memory of the GPU, plus at most
 * ZR_COMM_STAGING_HOST bytes of the host's memory. NCCL moves a piece in one chunk if the staging has (size - 1) *
 * piece_bytes or more. Later copiers must be of the same GPU. A call with NULL is not collective; the call keeps only
 * the host's part of the staging, and sets staging_bytes to that part's size. Return ZR_ERR_UNSUPPORTED, on all ranks,
 * if NCCL is missing or two of the processes share a GPU. Communicators split off this one begin without a copier. */
ZR_NODISCARD zr_status zr__comm_copy_with(zr_comm *comm, const zr_comm_copier *copier);

/** Check that all ranks pass the same 64-bit number. Return ZR_ERR_CONFIG if they do not, with a message that names
 * `what` and the ranks that differ. */
ZR_NODISCARD zr_status zr__comm_same(zr_comm *comm, const char *what, uint64_t mine);

/** Make this rank's current wait in a call, and every later call, return ZR_ERR_PEER ("stopped") soon. Not collective;
 * any thread may call it. Use it when the computing thread has failed while another thread of the rank is in a call:
 * afterwards join that other thread, and free the memory that its call used. Communicators split off `comm` are stopped
 * too. If ranks are threads, all other communicators of this rank are also stopped; under MPI they are not. Peers see
 * an abort if ranks are threads, or if all ranks of an MPI world share a window. In other MPI worlds, peers keep
 * waiting until this rank aborts. Under MPI, messages that this rank has requested may still arrive: abort, or keep the
 * memory until zr_comm_destroy. With one rank the function does nothing, since a single rank never waits. */
void zr__comm_cancel(zr_comm *comm);

/** Show a number to the host's other ranks, in slot i of this rank's board. A call costs one store. */
void zr__comm_show(zr_comm *comm, int i, uint64_t number);

/** Read the board of the world's rank `rank`. Return false if that rank's board cannot be seen, because it is on
 * another host. */
bool zr__comm_look(const zr_comm *comm, int rank, zr_comm_board *board);

/** Return the world's lowest rank whose process has ended, or -1 if none has. Only ranks that this host can see are
 * examined. The result means nothing once ranks end because the job is done. */
int zr__comm_gone(const zr_comm *comm);

/** Return how many of the communicator's ranks run in this process: `size` if ranks are threads, else 1. */
int zr__comm_process_ranks(const zr_comm *comm);

/** Claim to be the rank of this host that reports why the job ends. Return true for the first rank that calls, false
 * for later ranks. */
bool zr__comm_claim_telling(zr_comm *comm);

/** Return whether any rank of this host has called zr__comm_claim_telling. */
bool zr__comm_told(const zr_comm *comm);

/** Return the version line of the MPI library, or "" if zr was built without MPI. */
const char *zr__comm_mpi_version(void);

#endif
