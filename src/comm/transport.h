/**
 * Interface between comm.c and the transports: self.c, threads.c, mpi*.c, and nccl.c for the memory of GPUs.
 *
 * A transport fills zr_comm_ops; comm.c checks arguments and handles one rank and empty calls, so that a transport sees
 * neither. A transport counts the bytes of pieces that its rank receives from others (zr_traffic_count), at the place
 * where it copies, sends or hands them over.
 *
 *     split     Make the communicator of a group; no rank uses it before all have it. All ranks of
 *               `comm` return the same status.
 *     staging   Set comm->staging as zr_comm_staging says, and staging_taken_bytes to the bytes really
 *               allocated; comm.c makes all ranks agree on the status.
 *     exchange  Move the piece of every rank's `send` for rank `to`, or for all ranks, to its receiver, and call
 *               fn there with comm->pieces as zr_comm_arrived_fn says, in chunks of zr__comm_chunk, which must
 *               be called, and may fail, before any byte is moved. fn never fails.
 *     gather    Move `mine` of rank `from`, or of all ranks, to every rank: rank r's to out + r*stride,
 *               where a rank's own may lie already.
 *     reduce_scatter
 *               Do as zr_comm_reduce_scatter; NULL in transports that do not add.
 *     scalars   Set comm->table[r*n + i] = rank r's mine[i], byte by byte: agree sends text this way. The
 *               table stays valid until the rank's next call. comm.c counts the bytes.
 *     devices   Do as zr__comm_copy_with for ranks that are processes; NULL in other transports.
 *     barrier, cancel, abort, destroy
 *               Do as zr_comm_barrier, zr__comm_cancel, zr_comm_abort and zr_comm_destroy.
 */
#ifndef ZR_COMM_TRANSPORT_H
#define ZR_COMM_TRANSPORT_H

#include <sched.h>
#include <time.h>

#include "base/number/stream.h"
#include "zr/comm.h"

/** Group that this rank joins in a split. */
typedef struct zr__group {
    int rank, size; /* size 0: this rank joins no group */
    int first;      /* the group's rank 0, by its number in the communicator that is split */
    int color;
} zr__group;

/** List the group's ranks in their order, by their numbers in the world: names (size). Reads colors and keys from
 *  comm->table, so no call of `comm` may come between zr_comm_ops.split and this. */
void zr__group_names(const zr_comm *comm, const zr__group *group, int *names);

/** Return this rank's number in the world, which messages name. */
static inline int zr__comm_name(const zr_comm *comm)
{
    return comm->world_ranks[comm->rank];
}

/** Value of `to` or `from` for all ranks. */
#define ZR__ALL (-1)

/** Alignment of slots in staging memory. */
#define ZR__COMM_ALIGN_BYTES 64

static inline int64_t zr__comm_floor_aligned(int64_t bytes)
{
    return bytes / ZR__COMM_ALIGN_BYTES * ZR__COMM_ALIGN_BYTES;
}

/** Return the bytes that each half of the staging has for every one of `size` ranks. */
static inline int64_t zr__comm_slot(int64_t staging_bytes, int size)
{
    return zr__comm_floor_aligned(staging_bytes / 2 / size);
}

/** Return whether `which` is `rank` or ZR__ALL. */
static inline bool zr__comm_is(int which, int rank)
{
    return which == ZR__ALL || which == rank;
}

/** Return the piece of an exchange for rank r. */
static inline const unsigned char *zr__comm_piece(const void *send, int64_t stride_bytes, int r)
{
    return (const unsigned char *)send + r * stride_bytes;
}

/** Find the length of the chunks of an exchange with `room_bytes` for each rank: the largest number of whole grains
 *  that is also a multiple of 64, so that chunks of an aligned piece begin on cache lines; if there is no room for
 *  that, the largest number of whole grains. Element sizes divide 64, so with them a chunk is the room, rounded down to
 *  64. ZR_ERR_ARG: there is no room for a grain. */
ZR_NODISCARD zr_status zr__comm_chunk(const zr_comm *comm, int64_t room_bytes, int64_t grain_bytes,
                                      int64_t *chunk_bytes);

/** Copy bytes of a piece of `piece_bytes`; nothing happens where `to` is `from`. Bytes of a large piece bypass the
 *  caches, where they would not stay anyway. zr__comm_copied must follow on the same thread before another thread may
 *  read them. */
static inline void zr__comm_copy(zr_comm *comm, void *to, const void *from, int64_t bytes, int64_t piece_bytes)
{
    if (to == from) return;
    if (comm->copier.copy) {
        if (comm->copied == ZR_OK) comm->copied = comm->copier.copy(comm->copier.arg, to, from, bytes);
    } else if (piece_bytes < (int64_t)1 << 20)
        memcpy(to, from, (size_t)bytes);
    else
        zr__stream(to, from, bytes);
}

/** Complete the copies of a call. A failure stays in comm->copied, so that the ranks stay in step, and comm.c returns
 *  it when the call has ended. */
static inline void zr__comm_copied(zr_comm *comm)
{
    zr__stream_end();
    if (!comm->copier.copy) return;
    const zr_status st = comm->copier.finish(comm->copier.arg);
    if (comm->copied == ZR_OK) comm->copied = st;
}

/** Mark the begin, or the end, of a wait for other ranks on the board. Waits do not nest. */
static inline void zr__comm_wait(zr_comm *comm)
{
    uint64_t *waits = &comm->board->waits; /* written by this rank alone */
    __atomic_store_n(waits, __atomic_load_n(waits, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/** Give up the core after some polls of a wait, and sleep between polls when the wait is long. */
static inline void zr__comm_relax(int polls)
{
    if (polls >= 4000)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else if (polls >= 100)
        sched_yield();
}

/** Set the world's boards, `mine` being this rank's; a group has its parent's. */
void zr__comm_set_boards(zr_comm *comm, zr_comm_board *mine, zr_comm_board **boards, int n);

/** Initialise the common part, for ranks that are all on one host: no staging, no traffic. The transport keeps and
 *  frees `names`, the ranks' numbers in the world. */
ZR_NODISCARD zr_status zr__comm_init(zr_comm *comm, const zr_comm_ops *ops, const char *transport, int rank, int size,
                                     const int *names);
void zr__comm_finish(zr_comm *comm);

/** Allocate staging that this rank alone accesses, NULL for 0 bytes; *taken: the bytes really allocated. */
ZR_NODISCARD zr_status zr__comm_alloc_staging(int64_t bytes, unsigned char **staging, int64_t *taken);

/** zr_comm_ops.staging of transports whose ranks read each other's memory directly: in memory of the process. */
ZR_NODISCARD zr_status zr__comm_own_staging(zr_comm *comm, int64_t bytes);

#endif
