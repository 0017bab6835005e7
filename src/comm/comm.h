/**
 * comm, internal: the calls that engine, train and cli need beside zr/comm.h: memory of devices, the board on which
 * ranks show their progress, ranks that have ended, the reason why a job ends.
 *
 * comm.c checks arguments and calls a transport (transport.h): self.c (one rank), threads.c (ranks as threads, over
 * barrier.h), mpi*.c (ranks as processes), nccl.c (their memory of GPUs). launcher.c detects MPI launchers.
 */
#ifndef ZR_COMM_COMM_H
#define ZR_COMM_COMM_H

#include "zr/comm.h"

/** Have the pieces of this rank's later calls copied by `copier`; NULL: by the processor again. All ranks do it or
 *  none. Where some ranks are other processes, pieces in memory of GPUs are then moved by NCCL, pieces in the host's
 *  memory as before. NCCL is initialised for each communicator: its first call with a copier is collective then, takes
 *  seconds, needs a stream of the calling thread's current GPU, and frees the staging (staging_bytes 0). Staging is
 *  then memory of the GPU, except ZR_COMM_STAGING_HOST: a piece goes through it in one chunk from (size - 1) *
 *  piece_bytes on. Later copiers must be of the same GPU. The call with NULL is not collective; it leaves the host's
 *  part of the staging, as staging_bytes says. ZR_ERR_UNSUPPORTED, on all ranks alike: NCCL is missing, or two of the
 *  processes share one GPU. Communicators split off this one begin without a copier. */
ZR_NODISCARD zr_status zr__comm_copy_with(zr_comm *comm, const zr_comm_copier *copier);

/** Check that all ranks hold the same 64-bit number. ZR_ERR_CONFIG naming the ranks that differ and `what`. */
ZR_NODISCARD zr_status zr__comm_same(zr_comm *comm, const char *what, uint64_t mine);

/** Make this rank's call that waits now, and every later one, return ZR_ERR_PEER soon ("stopped"). Not collective; from
 *  any thread. It is for a computing thread that failed while another thread of its rank is in a call: join that
 *  thread, then free the memory that the call was given. Communicators split off `comm` are stopped with it; under
 *  threads all communicators of this rank are, under MPI no others. Peers notice it as they do an abort (threads; MPI
 *  ranks that share a window, in a world where all do), or keep waiting until this rank aborts (other MPI ranks). Under
 *  MPI messages that this rank has requested may still arrive: abort then, or leave the memory in place until
 *  zr_comm_destroy. With one rank nothing happens, since it never waits. */
void zr__comm_cancel(zr_comm *comm);

/** Show a number to the host's other ranks; costs a store. */
void zr__comm_show(zr_comm *comm, int i, uint64_t number);

/** Read the board of the world's rank `rank`; false: it is on another host and cannot be seen. */
bool zr__comm_look(const zr_comm *comm, int rank, zr_comm_board *board);

/** Return the world's lowest rank whose process has ended, among the ranks that can be seen from this host; -1: none.
 *  Not meaningful once ranks end because the job is done. */
int zr__comm_gone(const zr_comm *comm);

/** Return how many of the communicator's ranks are in this process, this rank included: all where ranks are threads,
 *  else 1. */
int zr__comm_process_ranks(const zr_comm *comm);

/** Claim to be the rank of this host that tells why the job ends; true for the first that asks. */
bool zr__comm_claim_telling(zr_comm *comm);

/** Return whether a rank of this host has called zr__comm_claim_telling. */
bool zr__comm_told(const zr_comm *comm);

/** Return the MPI library's version line, "" without MPI. */
const char *zr__comm_mpi_version(void);

#endif
