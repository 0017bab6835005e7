/**
 * What the transports share. A transport fills zr_comm_ops; comm.c checks arguments and answers for
 * one rank and for empty calls, so a transport sees neither. A transport counts the bytes of pieces
 * that its rank receives from others (zr_traffic_count), there where it copies, sends or hands them over.
 *
 *     split     the communicator of a group; none of its ranks uses it before all have it. All ranks
 *               of `comm` return the same status.
 *     staging   comm->staging as zr_comm_staging says, and in staging_taken_bytes what it really took;
 *               comm.c makes all ranks agree on the status.
 *     exchange  the piece of every rank's `send` for rank `to`, or for all, goes there; there fn is
 *               called with comm->pieces as zr_comm_arrived_fn says, in chunks of zr__comm_chunk, whose
 *               refusal comes before anything moves. fn never fails.
 *     gather    `mine` of rank `from`, or of all, goes to every rank: rank r's to out + r*stride,
 *               where its own may lie already.
 *     reduce_scatter
 *               as zr_comm_reduce_scatter; NULL where nothing adds.
 *     scalars   comm->table[r*n + i] = rank r's mine[i], byte by byte: agree sends text this way. What
 *               ranks find there stays until their next call. comm.c counts them.
 *     devices   zr_comm_copy_with where ranks are processes; NULL where there are none such.
 *     barrier, cancel, abort, destroy
 *               as zr_comm_barrier, zr_comm_cancel, zr_comm_abort and zr_comm_destroy.
 */
#ifndef ZR_COMM_TRANSPORT_H
#define ZR_COMM_TRANSPORT_H

#include "base/stream.h"
#include "zr/comm.h"

/** Ranks of a communicator that become one of their own, and which of them this rank is. */
typedef struct zr__group {
    int rank, size; /* size 0: this rank is in none */
    int first;      /* its rank 0, by the number in the communicator that is split */
    int color;
} zr__group;

/** List the group's ranks in their order, by their numbers in the world: names (size). Colors and keys stand in
 *  comm->table, so no call of `comm` may come between zr_comm_ops.split and this. */
void zr__group_names(const zr_comm *comm, const zr__group *group, int *names);

/** As `to` or `from`: no single rank, all of them. */
#define ZR__ALL (-1)

/** Where things begin in staging memory. */
#define ZR__COMM_ALIGN_BYTES 64

static inline int64_t zr__comm_floor_aligned(int64_t bytes)
{
    return bytes / ZR__COMM_ALIGN_BYTES * ZR__COMM_ALIGN_BYTES;
}

/** Return how much room each half of the staging has for every one of `size` ranks. */
static inline int64_t zr__comm_slot(int64_t staging_bytes, int size)
{
    return zr__comm_floor_aligned(staging_bytes / 2 / size);
}

/** Is `rank` the one that `which` names, or does it name all? */
static inline bool zr__comm_is(int which, int rank)
{
    return which == ZR__ALL || which == rank;
}

/** The piece of an exchange for rank r. */
static inline const unsigned char *zr__comm_piece(const void *send, int64_t stride_bytes, int r)
{
    return (const unsigned char *)send + r * stride_bytes;
}

/** Find how long the chunks of an exchange are that have room for `room_bytes` of each rank: the longest of whole
 * grains that is a multiple of 64 as well, so that chunks begin where cache lines do in an aligned piece; if there is
 * no room for such a one, the longest of whole grains. Elements divide 64: of these a chunk is the room, rounded down
 * to 64. ZR_ERR_ARG: there is no room for a grain. */
zr_status zr__comm_chunk(const zr_comm *comm, int64_t room_bytes, int64_t grain_bytes, int64_t *chunk_bytes);

/** Copy bytes of a piece of `piece_bytes`; to where they are already: nothing happens. Those of a large piece go
 *  past the caches, where they would not stay anyway. zr__comm_copied must follow on the same thread before
 *  another may read them. */
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

/** The copies of a call have happened. A failure of one stays in comm->copied: the ranks stay in step, and comm.c
 *  returns it when the call has ended. */
static inline void zr__comm_copied(zr_comm *comm)
{
    zr__stream_end();
    if (!comm->copier.copy) return;
    const zr_status st = comm->copier.finish(comm->copier.arg);
    if (comm->copied == ZR_OK) comm->copied = st;
}

/** Around every wait for other ranks, one within no other. */
static inline void zr__comm_wait(zr_comm *comm)
{
    uint64_t *waits = &comm->board->waits; /* this rank alone writes it */
    __atomic_store_n(waits, __atomic_load_n(waits, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/** The world's boards, that of this rank in `mine`; a group has its parent's. */
void zr__comm_set_boards(zr_comm *comm, zr_comm_board *mine, zr_comm_board **boards, int n);

/** Fill the common part, as for ranks that are all on one host: no staging, no traffic. The transport keeps and frees
 *  `names`, the ranks' numbers in the world. */
zr_status zr__comm_init(zr_comm *comm, const zr_comm_ops *ops, const char *transport, int rank, int size,
                        const int *names);
void zr__comm_finish(zr_comm *comm);

#endif
