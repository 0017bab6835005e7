/** comm, internal: calls for engine, train and cli that the public zr/comm.h does not have. These calls exchange GPU
 * memory, show a rank's progress to other ranks on its board, and detect ranks that have ended. One rank per host
 * claims the right to report why a job ends.
 *
 * comm.c checks arguments and calls a transport (transport.h): self.c (one rank), threads.c (ranks as threads, over
 * barrier.h), mpi*.c (ranks as processes) or nccl*.c (memory of GPUs, for ranks as processes). launcher.c detects MPI
 * launchers. */
#ifndef ZR_COMM_COMM_H
#define ZR_COMM_COMM_H

#include "zr/comm.h"

/**
 * Copy the pieces of this rank's later calls with `copier`, or with the processor if `copier` is NULL. Either all ranks
 * call this function, or no rank does.
 *
 * If ranks are processes, NCCL then moves pieces in memory of GPUs. Pieces in the host's memory are not affected. The
 * first call with a copier initialises NCCL. This first call is collective, takes seconds, needs a stream of the
 * calling thread's current GPU, and frees the staging (staging_bytes becomes 0). Staging allocated afterwards is memory
 * of the GPU, plus at most ZR_COMM_STAGING_HOST bytes of the host's memory. NCCL moves a piece in one chunk if the
 * staging has at least (size - 1) * piece_bytes. Later copiers must be of the same GPU.
 *
 * A call with NULL is not collective. It keeps only the host's part of the staging, and sets staging_bytes to the size
 * of this part. Communicators split off this one begin without a copier. Return ZR_ERR_UNSUPPORTED, on all ranks, if
 * NCCL is missing or two processes share a GPU.
 */
ZR_NODISCARD zr_status zr__comm_copy_with(zr_comm *comm, const zr_comm_copier *copier);

/** Check that the shared memory of every host has room for the staging memory that zr_comm_staging is about to allocate
 * in all n communicators together: bytes[i] in communicator group[i], which is `comm` or split off `comm`. Collective
 * over `comm`; all ranks return the same status. Without this check, some groups could get their memory and then wait
 * for groups that cannot. */
ZR_NODISCARD zr_status zr__comm_room(zr_comm *comm, zr_comm *const *group, const int64_t *bytes, int n);

/** Check that all ranks pass the same 64-bit number. Otherwise return ZR_ERR_CONFIG, with a message that names `what`
 * and the ranks that differ. */
ZR_NODISCARD zr_status zr__comm_same(zr_comm *comm, const char *what, uint64_t mine);

/** Stop this rank's communication: a call that waits now soon returns ZR_ERR_PEER, and so does every later call. Not
 * collective; any thread may call it. Use it when the computing thread has failed while another thread of the rank is
 * in a call. Afterwards join this other thread. The memory that its call used may then be freed, except under MPI.
 *
 * Communicators split off `comm` are stopped too. If ranks are threads, all other communicators of this rank are also
 * stopped; under MPI they are not. Peers notice that this rank has stopped if ranks are threads, or if all ranks of an
 * MPI world share a window. In other MPI worlds, peers wait until this rank calls zr_comm_abort. Under MPI, messages
 * that this rank has requested may still arrive in the memory of its call: call zr_comm_abort, or keep this memory
 * until zr_comm_destroy. With one rank the function does nothing, since a single rank never waits. */
void zr__comm_cancel(zr_comm *comm);

/** Note that this rank has failed alone: its peers may wait for it, and it must not wait for them. Afterwards,
 * zr_comm_destroy does not wait for other ranks, in any communicator of this rank. Under MPI, all other calls of this
 * rank fail with ZR_ERR_PEER. Peers are not woken: they wait until this rank calls zr_comm_abort, so that this rank can
 * report the cause first. With one rank the function does nothing. */
void zr__comm_fail(zr_comm *comm);

/** Write a number to slot i of this rank's board, where the host's other ranks can read it. A call costs one store. */
void zr__comm_show(zr_comm *comm, int i, uint64_t number);

/** Read the board of a rank of the world. Return false if the rank is on another host, where its board cannot be read.
 */
bool zr__comm_look(const zr_comm *comm, int rank, zr_comm_board *board);

/** Return the world's lowest rank whose process has ended, or -1 if none is known. Only ranks with visible boards are
 * examined. Ignore the result when the job is done and ranks end normally. */
int zr__comm_gone(const zr_comm *comm);

/** Return whether exchanges overlap with kernels if a second thread makes the calls. This is so in two cases: calls
 * wait for a network link (zr_comm.concurrent), or devices with their own memory (`own_memory`) copy while they
 * compute. */
bool zr__comm_overlaps(const zr_comm *comm, bool own_memory);

/** Return how many of the communicator's ranks run in this process: `size` if ranks are threads, else 1. */
int zr__comm_process_ranks(const zr_comm *comm);

/** Claim the right to report why the job ends. Only one rank of a host gets this right: return true to the first rank
 * that calls, and false to later ranks. */
bool zr__comm_claim_telling(zr_comm *comm);

/** Return whether any rank of this host has called zr__comm_claim_telling. */
bool zr__comm_told(const zr_comm *comm);

/** A channel from one rank to another. Its messages have one size and arrive in the order in which they are sent. Both
 * ends are opened with the same route. */
typedef struct zr__channel zr__channel;
typedef struct zr__route {
    int from, to;  /* ranks */
    uint64_t id;   /* no other channel of the two ranks has the same id */
    int walk;      /* channels of different walks never have messages on their way at the same time */
    int64_t bytes; /* bytes of a message */
    int depth;     /* number of messages that may be on their way at the same time */
} zr__route;

/** Memory for the messages that a rank sends: the mailboxes of its channels. Ranks of a host that are processes read
 * messages there. Others need no copy, and leave it unused. */
typedef struct zr__mail zr__mail;

/** Bytes of a mailbox besides its messages. */
#define ZR__MAILBOX_HEAD 128
static inline int64_t zr__mailbox_bytes(const zr__route *route)
{
    return ZR__MAILBOX_HEAD + (route->bytes + 63) / 64 * 64 * route->depth;
}

/** Allocate `bytes` for mailboxes: the sum of zr__mailbox_bytes over all channels on which this rank will send. All
 * ranks return the same status. Collective, and so is zr__comm_end_mail, except if this rank has failed alone. Close
 * the channels first. */
ZR_NODISCARD zr_status zr__comm_mail(zr_comm *comm, int64_t bytes, zr__mail **mail);
void zr__comm_end_mail(zr__mail **mail);
/** Return the bytes that were allocated. */
int64_t zr__mail_taken(const zr__mail *mail);

/** Open this rank's end of a channel. Not collective: the call waits for no rank. Before the first message begins, all
 * ranks must have opened their ends of all channels with this `mail`.
 *
 * `copier` copies messages in memory that the processor cannot access, on the thread that uses the channel; NULL: the
 * processor copies. A message whose memory is of a GPU must be complete when it begins, unless copier->in_stream is
 * set, which processes need: then NCCL moves messages in the order of the stream, and no call waits for a message. The
 * stream's later work comes after zr__channel_end. After the last channel of `mail`, call zr__comm_connect then. */
ZR_NODISCARD zr_status zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route,
                                        const zr_comm_copier *copier, zr__channel **channel);

/** Create NCCL's communicators for the channels that were opened with `mail`, on the calling thread's current GPU, and
 * pass one message on each, so that NCCL takes its memory. `memory` is of this GPU, has room for the longest message,
 * and loses its contents. Collective; all ranks return the same status. */
ZR_NODISCARD zr_status zr__comm_connect(zr__mail *mail, void *memory);

/** Begin to pass on the message in `memory`, or to receive a message in it. The call never waits. zr__channel_end waits
 * until the oldest message that has begun is passed on, after which its memory may change, or has come. At most `depth`
 * messages may have begun and not ended. Two threads may use the two directions of a rank at the same time, but only
 * one each direction, and where zr_comm.concurrent is set a third one may make other calls meanwhile. Traffic: the
 * bytes of a message that comes, which its end counts as ZR_TRAFFIC_PIPELINE. */
ZR_NODISCARD zr_status zr__channel_begin(zr__channel *channel, void *memory);
ZR_NODISCARD zr_status zr__channel_end(zr__channel *channel);
/** Close this rank's end. Afterwards the other rank reads no message of this rank's memory. NULL is allowed. */
void zr__channel_close(zr__channel *channel);

/** On a board, in zr_comm_board.channel: the rank's stream, and not a thread, waits for the rank at the other end. */
#define ZR__STREAM_AWAITS ((uint64_t)1 << 32)

/** Return the version line of the MPI library, or "" if zr was built without MPI. */
const char *zr__comm_mpi_version(void);

#endif
