/**
 * Interface between comm.c and the transports: self.c, threads.c, mpi*.c, and nccl.c for memory of GPUs.
 *
 * A transport fills zr_comm_ops. comm.c checks arguments before it calls a transport. Calls with a single rank, and
 * calls without bytes, end in comm.c and never reach a transport. A transport counts the bytes of pieces that its rank
 * receives from other ranks (zr__traffic_count), in the code that copies, sends or passes these pieces.
 *
 *     split     Create the communicator of a group. No rank may use this communicator before all its ranks have it.
 *               All ranks of `comm` return the same status.
 *     staging   Set comm->staging as zr_comm_staging describes, and staging_taken_bytes to the bytes that were
 *               allocated. comm.c makes all ranks agree on the status.
 *     room      Do the work of zr__comm_room; NULL in transports that need no memory shared between processes.
 *     exchange  Move a piece from every rank's `send` to every rank. First call zr__comm_chunk, which returns the chunk
 *               length and may fail. Then move the pieces in chunks of this length. For each chunk call fn with
 *               comm->pieces, as zr_comm_arrived_fn describes. fn never fails.
 *     gather    Copy `mine` of all ranks to every rank. Rank r's piece goes to out + r*stride. A rank's own piece may
 *               already lie there.
 *     reduce_scatter
 *               Do the work of zr_comm_reduce_scatter; NULL in transports that do not add.
 *     scalars   Set comm->table[r*n + i] to rank r's mine[i]. Copy the numbers as bytes, because zr_comm_agree sends
 *               text by this call. The table stays valid until the rank's next call. comm.c counts the bytes.
 *     devices   Do the work of zr__comm_copy_with for ranks that are processes; NULL in other transports.
 *     mail, end_mail
 *               Do the work of zr__comm_mail, after which comm.c makes all ranks agree on the status, and of
 *               zr__comm_end_mail. NULL in transports whose channels use no mailboxes.
 *     channel   Do the work of zr__comm_channel. `copier` is not NULL; its `copy` is if the processor copies.
 *     connect   Do the work of zr__comm_connect; NULL in transports without NCCL.
 *     barrier, cancel, abort, destroy
 *               Do the work of zr_comm_barrier, zr__comm_cancel, zr_comm_abort and zr_comm_destroy.
 */
#ifndef ZR_COMM_TRANSPORT_H
#define ZR_COMM_TRANSPORT_H

#include <sched.h>
#include <time.h>

#include "base/core/core.h"
#include "base/number/stream.h"
#include "comm/comm.h"

/** The group that this rank joins in a split. */
typedef struct zr__group {
    int rank, size; /* rank number within the group, and group size; size is 0 if this rank joins no group */
    int first;      /* number of the group's rank 0 in the communicator that is split */
    int color;
} zr__group;

/** Write the world numbers of the group's ranks to `names`, in the group's order. `names` has room for group->size
 * numbers. Call this function only in zr_comm_ops.split, before any other call of `comm`. Until then, comm->table holds
 * the colors and keys of all ranks. */
void zr__group_names(const zr_comm *comm, const zr__group *group, int *names);

/** An end of a channel. A transport's channel begins with this. */
struct zr__channel {
    zr_status (*begin)(zr__channel *channel, void *memory);
    zr_status (*end)(zr__channel *channel);
    void (*close)(zr__channel *channel);
    /* set by comm.c: */
    uint64_t *awaits; /* field of the board that shows for whom this end waits (zr_comm_board.channel) */
    int peer;         /* world number of the rank at the other end */
};

/** Memory for mailboxes. A transport's own struct may begin with this. */
struct zr__mail {
    zr_comm *comm;
    unsigned char *memory; /* the memory, unless other processes can read it */
    int64_t bytes, taken_bytes;
};

/** Return this rank's number in the world, by which error messages identify the rank. */
static inline int zr__comm_name(const zr_comm *comm)
{
    return comm->world_ranks[comm->rank];
}

/** Alignment of slots in staging memory, in bytes. */
#define ZR__COMM_ALIGN_BYTES 64

static inline int64_t zr__comm_floor_aligned(int64_t bytes)
{
    return bytes / ZR__COMM_ALIGN_BYTES * ZR__COMM_ALIGN_BYTES;
}

/** Return the size of a slot in bytes. Each half of the staging has `size` slots, one for each rank. */
static inline int64_t zr__comm_slot(int64_t staging_bytes, int size)
{
    return zr__comm_floor_aligned(staging_bytes / 2 / size);
}

/** Compute the chunk length of an exchange with `room_bytes` for each rank. A chunk consists of whole grains. Its
 * length is the greatest multiple of 64 bytes that fits, so that chunks of an aligned piece begin on cache lines. If no
 * multiple of 64 fits, the chunk has the greatest number of grains that fits. Return ZR_ERR_ARG if not even one grain
 * fits. */
ZR_NODISCARD zr_status zr__comm_chunk(const zr_comm *comm, int64_t room_bytes, int64_t grain_bytes,
                                      int64_t *chunk_bytes);

/** Copy `bytes` bytes of a piece, unless `to` is `from`. The whole piece has piece_bytes bytes. A large piece does not
 * fit the caches, so it is written by streaming stores. Call zr__comm_copied on the same thread before another thread
 * reads the bytes. */
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

/** Complete the copies of a call. A failure is stored in comm->copied and does not end the call, because the other
 * ranks need this rank until the end of the call. comm.c then returns the failure. */
static inline void zr__comm_copied(zr_comm *comm)
{
    zr__stream_end();
    if (!comm->copier.copy) return;
    const zr_status st = comm->copier.finish(comm->copier.arg);
    if (comm->copied == ZR_OK) comm->copied = st;
}

/** Copy a message, and complete the copy. */
ZR_NODISCARD static inline zr_status zr__comm_carry(const zr_comm_copier *copier, void *to, const void *from,
                                                    int64_t bytes)
{
    if (copier->copy) {
        ZR_TRY(copier->copy(copier->arg, to, from, bytes));
        return copier->finish(copier->arg);
    }
    if (bytes < (int64_t)1 << 20)
        memcpy(to, from, (size_t)bytes);
    else
        zr__stream(to, from, bytes);
    zr__stream_end();
    return ZR_OK;
}

/** Mark the beginning or the end of a wait for other ranks on the board. Waits do not nest. */
static inline void zr__comm_wait(zr_comm *comm)
{
    zr_comm_board *b = comm->board; /* written only by this rank */
    __atomic_store_n(&b->awaited, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->group, comm->id, __ATOMIC_RELAXED);
    __atomic_store_n(&b->waits, __atomic_load_n(&b->waits, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/** In a long wait, show on the board the communicator's first rank that is not waiting in this communicator. A rank
 * whose board cannot be read is not shown. `comm` is a zr_comm. */
void zr__comm_late(void *comm);

/** Pause between two polls of a wait. Yield the core after some polls, and sleep in a long wait. */
static inline void zr__comm_relax(int polls)
{
    if (polls >= 4000)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else if (polls >= 100)
        sched_yield();
}

/** Set the boards of the world's ranks. `mine` is this rank's board. A group uses its parent's boards. */
void zr__comm_set_boards(zr_comm *comm, zr_comm_board *mine, zr_comm_board **boards, int n);

/** Initialise the fields that all transports share, for ranks on one host, without staging or traffic. `names` are the
 * ranks' numbers in the world; the transport keeps and frees this table. */
ZR_NODISCARD zr_status zr__comm_init(zr_comm *comm, const zr_comm_ops *ops, const char *transport, int rank, int size,
                                     const int *names);
void zr__comm_finish(zr_comm *comm);

/** Allocate staging that only this rank accesses, or set *staging to NULL for 0 bytes. Set *taken to the number of
 * bytes that were allocated. */
ZR_NODISCARD zr_status zr__comm_alloc_staging(int64_t bytes, unsigned char **staging, int64_t *taken);

/** Allocate the staging in the process's own memory. Transports whose ranks read each other's memory directly use this
 * function as zr_comm_ops.staging. */
ZR_NODISCARD zr_status zr__comm_own_staging(zr_comm *comm, int64_t bytes);

#endif
