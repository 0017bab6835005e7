/*
 * Moves pieces in memory of GPUs by NCCL, between ranks that are processes. The MPI transport still exchanges scalars
 * and does barriers. It also exchanges the identities by which NCCL's ranks find each other. A call issues work to the
 * copier's stream, and waits until the stream has completed the work, unless the caller orders its work by the stream
 * (zr_comm_copier.in_stream).
 *
 * NCCL's communicators are non-blocking: NCCL's functions return before the peers have arrived. Therefore every wait is
 * a loop in this file. The loop ends early if NCCL reports a failure or this rank is stopped. Then NCCL's communicator
 * is aborted, which removes its pending work from the stream. If no thread waits for the work here, a thread of this
 * file looks for failures: all other waits for the stream then end, too.
 *
 * An exchange moves pieces in chunks. One chunk of every peer's piece is received into the staging in GPU memory. The
 * callback reads the chunk there before the next chunk is requested. Both steps run in order on one stream, so two
 * halves of the staging would not overlap.
 */
#include "base/core/core.h"
#include "comm/nccl_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/library.h"

/* Time limit of NCCL's finalization, in seconds. Normally it takes far less, since it waits for no peer. */
static const double END_SEC = 5;

static zr_status load_library(zr__nccl_functions *f)
{
#define NAME(function) #function,
    static const char *const files[] = {"libnccl.so.2", NULL};
    static const char *const names[] = {ZR__NCCL_FUNCTIONS(NAME) NULL};
    static const zr__library nccl = {"NCCL", "ranks of several processes", files, names};
    char why[256];
    const zr_status st = zr__library_open(&nccl, f);
    if (st == ZR_OK) return ZR_OK;
    snprintf(why, sizeof why, "%s", zr_error_message());
    return ZR_FAIL(st, "%s; or " ZR__NCCL_INSTEAD, why);
}

static cudaStream_t stream_of(const zr__nccl *me)
{
    return me->copier.stream;
}

/* ---- failures ---------------------------------------------------------------------------------- */

static void abort_nccl(zr__nccl *me)
{
    if (me->ranks) (void)me->f.ncclCommAbort(me->ranks);
    me->ranks = NULL;
}

zr_status zr__nccl_lose(zr__nccl *me, zr_status st)
{
    zr__failure_note(&me->failed, st);
    abort_nccl(me);
    return st;
}

/* Fail with the first line of NCCL's error message. Read the message before aborting the communicator, since the abort
 * discards it. */
static zr_status nccl_failed(zr__nccl *me, ncclResult_t result, const char *call)
{
    char text[160] = "";
    const char *last = me->f.ncclGetLastError(me->ranks);
    if (last) snprintf(text, sizeof text, "%.*s", (int)strcspn(last, "\n"), last);
    return zr__nccl_lose(me, ZR_FAIL(result == ncclRemoteError ? ZR_ERR_PEER : ZR_ERR_COMM, "rank %d: %s: %s%s%s",
                                     zr__comm_name(me->comm), call, me->f.ncclGetErrorString(result), *text ? ": " : "",
                                     text));
}

zr_status zr__nccl_gpu_failed(zr__nccl *me, cudaError_t error, const char *call)
{
    return zr__nccl_lose(
        me, ZR_FAIL(ZR_ERR_COMM, "rank %d: %s: the GPU: %s", zr__comm_name(me->comm), call, cudaGetErrorString(error)));
}

/* ---- waits ------------------------------------------------------------------------------------- */

static zr_status poll_transport(zr__nccl *me)
{
    const zr_status st = me->poll(me->comm, true);
    if (st == ZR_OK) return ZR_OK;
    return zr__nccl_lose(me, zr_error_frame(st, __func__, __FILE__, __LINE__));
}

ncclResult_t zr__nccl_state(const zr__nccl *me)
{
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = me->f.ncclCommGetAsyncError(me->ranks, &state);
    return asked == ncclSuccess ? state : asked;
}

zr_status zr__nccl_await(zr__nccl *me, ncclResult_t result, const char *call)
{
    for (int polls = 0; result == ncclInProgress; polls++) {
        ZR_TRY(poll_transport(me));
        zr__comm_relax(polls);
        result = zr__nccl_state(me);
    }
    return result == ncclSuccess ? ZR_OK : nccl_failed(me, result, call);
}

zr_status zr__nccl_await_stream(zr__nccl *me, const char *call)
{
    enum { STATE_POLLS = 16 }; /* number of polls between two queries of NCCL's state, since a query takes a lock */
    cudaError_t gpu;
    for (int polls = 0; (gpu = cudaStreamQuery(stream_of(me))) == cudaErrorNotReady; polls++) {
        ZR_TRY(poll_transport(me));
        const ncclResult_t state = polls % STATE_POLLS == STATE_POLLS - 1 ? zr__nccl_state(me) : ncclSuccess;
        if (state != ncclSuccess && state != ncclInProgress) return nccl_failed(me, state, call);
        zr__comm_relax(polls);
    }
    (void)cudaGetLastError(); /* clear the error "not ready"; otherwise a later launch would seem to fail */
    return gpu == cudaSuccess ? ZR_OK : zr__nccl_gpu_failed(me, gpu, call);
}

zr_status zr__nccl_begin_call(zr__nccl *me)
{
    pthread_mutex_lock(&me->lock);
    zr_status st = poll_transport(me);
    if (st == ZR_OK && !me->ranks) st = zr__failure_tell(&me->failed);
    if (st == ZR_OK) return ZR_OK;
    pthread_mutex_unlock(&me->lock);
    return zr_error_frame(st, __func__, __FILE__, __LINE__);
}

/* End a collective that zr__nccl_begin_call has begun: wait until its work is in the stream, and has completed unless
 * the caller orders its work by the stream. */
static zr_status end_call(zr__nccl *me, ncclResult_t result, const char *call)
{
    zr__comm_wait(me->comm);
    zr_status st = zr__nccl_await(me, result, call);
    if (st == ZR_OK && !me->copier.in_stream) st = zr__nccl_await_stream(me, call);
    zr__comm_wait(me->comm);
    pthread_mutex_unlock(&me->lock);
    return st;
}

/* ---- failures of work that no thread waits for here --------------------------------------------- */

static void look(zr__nccl *me)
{
    const zr_status st = me->poll(me->comm, false);
    const ncclResult_t state = st == ZR_OK ? zr__nccl_state(me) : ncclSuccess;
    if (st != ZR_OK) (void)!zr__nccl_lose(me, st);
    if (state != ncclSuccess && state != ncclInProgress) (void)!nccl_failed(me, state, me->what);
    if (me->ranks && me->watched_fn) me->watched_fn(me->watched_arg);
}

static void *watch(void *arg)
{
    enum { PAUSE_NSEC = 10000000 };
    zr__nccl *me = arg;
    struct timespec until;
    pthread_mutex_lock(&me->lock);
    while (!me->ends) {
        if (me->ranks) look(me);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PAUSE_NSEC;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!me->ends && pthread_cond_timedwait(&me->ended, &me->lock, &until) != ETIMEDOUT) continue;
    }
    pthread_mutex_unlock(&me->lock);
    return NULL;
}

zr_status zr__nccl_watch(zr__nccl *me)
{
    if (me->watched || !me->copier.in_stream) return ZR_OK;
    me->watched = pthread_create(&me->watch, NULL, watch, me) == 0;
    ZR_CHECK(me->watched, ZR_ERR_MEMORY, "rank %d: cannot start the thread that looks for failures of NCCL",
             zr__comm_name(me->comm));
    return ZR_OK;
}

static void stop_watch(zr__nccl *me)
{
    if (!me->watched) return;
    pthread_mutex_lock(&me->lock);
    me->ends = true;
    pthread_cond_signal(&me->ended);
    pthread_mutex_unlock(&me->lock);
    pthread_join(me->watch, NULL);
}

zr_status zr__nccl_failure(zr__nccl *me)
{
    pthread_mutex_lock(&me->lock);
    const zr_status st = zr__failure_tell(&me->failed);
    pthread_mutex_unlock(&me->lock);
    return st;
}

/* ---- begin ------------------------------------------------------------------------------------- */

/* Identity of a rank, which is sent to all other ranks. A host is identified by the same names as in NCCL. */
typedef struct introduction {
    ncclUniqueId id; /* NCCL's id of the communicator; all ranks use rank 0's id */
    char host[64];   /* host name, or the value of NCCL_HOSTID */
    char boot[40];   /* boot id of the host, to distinguish two hosts of equal name; empty with NCCL_HOSTID */
    char bus[24];    /* PCI bus id of the GPU, such as "0000:3b:00.0" */
} introduction;

enum { INTRODUCTION = sizeof(introduction) / sizeof(double) };
_Static_assert(sizeof(introduction) % sizeof(double) == 0 && INTRODUCTION <= ZR_COMM_SCALARS, "one call of scalars");

static void name_host(introduction *mine)
{
    const char *name = getenv("NCCL_HOSTID");
    if (name) {
        snprintf(mine->host, sizeof mine->host, "%s", name);
        return;
    }
    gethostname(mine->host, sizeof mine->host - 1);
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!boot) return;
    if (!fgets(mine->boot, sizeof mine->boot, boot)) mine->boot[0] = '\0';
    fclose(boot);
}

static zr_status introduce(zr__nccl *me, bool together, introduction *mine)
{
    ZR_TRY(load_library(&me->f));
    ZR__TRY_GPU(me, cudaGetDevice(&me->gpu));
    ZR__TRY_GPU(me, cudaDeviceGetPCIBusId(mine->bus, sizeof mine->bus, me->gpu));
    name_host(mine);
    const bool gives = together && me->comm->rank == 0;
    const ncclResult_t result = gives ? me->f.ncclGetUniqueId(&mine->id) : ncclSuccess;
    return result == ncclSuccess ? ZR_OK : nccl_failed(me, result, "ncclGetUniqueId");
}

static bool same_gpu(const introduction *a, const introduction *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0 && strcmp(a->bus, b->bus) == 0;
}

static void read_introduction(const zr__nccl *me, int r, introduction *theirs)
{
    memcpy(theirs, me->comm->table + r * INTRODUCTION, sizeof *theirs);
}

/* Check that no two ranks use the same GPU. Otherwise NCCL would refuse some ranks and leave the others waiting. From
 * NCCL 2.30 on, an environment variable lets ranks share a GPU. */
static zr_status check_gpus(const zr__nccl *me)
{
    const zr_comm *comm = me->comm;
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    introduction a, b;
    for (int r = 0; r < comm->size && !shared; r++) {
        read_introduction(me, r, &a);
        for (int q = r + 1; q < comm->size; q++) {
            read_introduction(me, q, &b);
            ZR_CHECK(!same_gpu(&a, &b), ZR_ERR_UNSUPPORTED,
                     "ranks %d and %d are processes on the same GPU (%s of %s), which NCCL does not support; start no "
                     "more processes than there are GPUs, or " ZR__NCCL_INSTEAD,
                     comm->world_ranks[r], comm->world_ranks[q], a.bus, a.host);
        }
    }
    return ZR_OK;
}

ncclResult_t zr__nccl_init(zr__nccl *me, int size, int rank, const ncclUniqueId *id, int most_blocks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (most_blocks > 0) config.maxCTAs = most_blocks;
    return me->f.ncclCommInitRankConfig(&me->ranks, size, *id, rank, &config);
}

zr_status zr__nccl_meet(zr_comm *comm, zr__nccl *me, bool together)
{
    introduction mine = {.host = ""};
    double words[INTRODUCTION];
    const zr_status st = me ? introduce(me, together, &mine) : ZR_FAIL(ZR_ERR_MEMORY, "no memory for a communicator");
    ZR_TRY(zr_comm_agree(comm, st));
    memcpy(words, &mine, sizeof mine);
    ZR_TRY(comm->ops->scalars(comm, words, INTRODUCTION));
    return check_gpus(me); /* the status is the same on all ranks */
}

/* Create NCCL's communicator of all ranks, which have just met. */
static zr_status connect_ranks(zr__nccl *me)
{
    introduction first;
    read_introduction(me, 0, &first);
    zr__comm_wait(me->comm);
    zr_status st =
        zr__nccl_await(me, zr__nccl_init(me, me->comm->size, me->comm->rank, &first.id, 0), "ncclCommInitRankConfig");
    zr__comm_wait(me->comm);
    return st;
}

static void free_nccl(zr__nccl *me)
{
    pthread_mutex_destroy(&me->lock);
    pthread_cond_destroy(&me->ended);
    zr_free(me);
}

static void abandon(zr__nccl **nccl)
{
    if (!*nccl) return;
    stop_watch(*nccl);
    abort_nccl(*nccl);
    free_nccl(*nccl);
}

zr__nccl *zr__nccl_new(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll)
{
    zr__nccl *me = zr_alloc(sizeof *me);
    if (!me) return NULL;
    pthread_mutex_init(&me->lock, NULL);
    pthread_cond_init(&me->ended, NULL);
    me->comm = comm;
    me->copier = *copier;
    me->poll = poll;
    me->what = "an exchange by NCCL";
    return me;
}

zr_status zr__nccl_create(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll, zr__nccl **nccl)
{
    *nccl = NULL;
    ZR_AUTO(abandon) zr__nccl *me = zr__nccl_new(comm, copier, poll);
    ZR_TRY(zr__nccl_meet(comm, me, true));
    zr_status st = connect_ranks(me);
    if (st == ZR_OK) st = zr__nccl_watch(me);
    ZR_TRY(zr_comm_agree(comm, st));
    *nccl = ZR_TAKE(me);
    return ZR_OK;
}

/* ---- end --------------------------------------------------------------------------------------- */

static void drop_staging(zr__nccl *me)
{
    if (me->staging) (void)cudaFree(me->staging);
    me->staging = NULL;
    me->staging_bytes = 0;
}

/* Finalize NCCL, which first delivers the bytes in flight to peers. If finalization fails or takes too long, abort
 * NCCL. */
static void finalize_nccl(zr__nccl *me)
{
    const double late_sec = zr_clock_sec() + END_SEC;
    ncclResult_t result = me->poll(me->comm, true) == ZR_OK ? me->f.ncclCommFinalize(me->ranks) : ncclRemoteError;
    for (int polls = 0; result == ncclInProgress && zr_clock_sec() < late_sec; polls++) {
        zr__comm_relax(polls);
        result = zr__nccl_state(me);
    }
    if (result != ncclSuccess || me->f.ncclCommDestroy(me->ranks) != ncclSuccess) abort_nccl(me);
    me->ranks = NULL;
}

void zr__nccl_destroy(zr__nccl **nccl)
{
    zr__nccl *me = *nccl;
    *nccl = NULL;
    if (!me) return;
    stop_watch(me);
    if (me->ranks) finalize_nccl(me);
    drop_staging(me);
    free_nccl(me);
}

/* ---- moving bytes ------------------------------------------------------------------------------ */

zr_status zr__nccl_copy_with(zr__nccl *me, const zr_comm_copier *copier)
{
    me->copier = *copier;
    return zr__nccl_watch(me);
}

bool zr__nccl_takes(const zr__nccl *me, const void *memory)
{
    struct cudaPointerAttributes attributes;
    (void)me;
    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess) return attributes.type == cudaMemoryTypeDevice;
    (void)cudaGetLastError();
    return false;
}

zr_status zr__nccl_staging(zr__nccl *me, int64_t bytes, unsigned char **staging)
{
    void *made = NULL;
    drop_staging(me);
    *staging = NULL;
    if (bytes == 0) return ZR_OK;
    ZR__TRY_GPU(me, cudaSetDevice(me->gpu));
    const cudaError_t taken = cudaMalloc(&made, (size_t)bytes);
    if (taken != cudaSuccess) (void)cudaGetLastError();
    ZR_CHECK(taken != cudaErrorMemoryAllocation, ZR_ERR_MEMORY, "no memory on the GPU for %lld bytes of staging",
             (long long)bytes);
    ZR__TRY_GPU(me, taken);
    me->staging = *staging = made;
    me->staging_bytes = bytes;
    ZR__TRY_GPU(me, cudaMemsetAsync(made, 0, (size_t)bytes, stream_of(me)));
    ZR__TRY_GPU(me, cudaStreamSynchronize(stream_of(me)));
    return ZR_OK;
}

/* Combine the results of the calls of an NCCL group in *all. The result is the first failure. Without a failure, it is
 * ncclInProgress if a call is still in progress. */
static void combine_results(ncclResult_t *all, ncclResult_t one)
{
    if (*all == ncclSuccess || (*all == ncclInProgress && one != ncclSuccess)) *all = one;
}

/* Send bytes from send + r * stride_bytes to each rank r, and receive into comm->pieces[r] from each rank r. */
static ncclResult_t swap_pieces(zr__nccl *me, const unsigned char *send, int64_t stride_bytes, int64_t bytes)
{
    const zr_comm *comm = me->comm;
    ncclResult_t all = me->f.ncclGroupStart();
    for (int i = 1; i < comm->size; i++) {
        const int next = (comm->rank + i) % comm->size, before = (comm->rank + comm->size - i) % comm->size;
        combine_results(
            &all, me->f.ncclSend(send + next * stride_bytes, (size_t)bytes, ncclInt8, next, me->ranks, stream_of(me)));
        combine_results(&all, me->f.ncclRecv((void *)comm->pieces[before], (size_t)bytes, ncclInt8, before, me->ranks,
                                             stream_of(me)));
    }
    combine_results(&all, me->f.ncclGroupEnd());
    return all;
}

/* Set comm->pieces. A peer's chunk is in a slot of the staging, and this rank's own chunk is at `own`. */
static void place_slots(zr__nccl *me, const void *own, int64_t slot_bytes)
{
    zr_comm *comm = me->comm;
    for (int r = 0; r < comm->size; r++) comm->pieces[r] = me->staging + (r - (r > comm->rank)) * slot_bytes;
    comm->pieces[comm->rank] = own;
}

zr_status zr__nccl_exchange(zr__nccl *me, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                            int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg)
{
    zr_comm *comm = me->comm;
    const int64_t slot = zr__comm_floor_aligned(me->staging_bytes / (comm->size - 1));
    int64_t chunk;
    ZR_TRY(zr__comm_chunk(comm, slot, grain_bytes, &chunk));
    for (int64_t at = 0, bytes; at < piece_bytes; at += bytes) {
        bytes = piece_bytes - at < chunk ? piece_bytes - at : chunk;
        const unsigned char *from = (const unsigned char *)send + at;
        place_slots(me, from + comm->rank * stride_bytes, slot);
        ZR_TRY(zr__nccl_begin_call(me));
        ZR_TRY(end_call(me, swap_pieces(me, from, stride_bytes, bytes), "an exchange by NCCL"));
        zr__traffic_count(&comm->traffic, ZR_TRAFFIC_REDUCE_SCATTER, (comm->size - 1) * bytes);
        (void)fn(arg, at, bytes, comm->pieces); /* the callback never fails, see transport.h */
    }
    return ZR_OK;
}

/* Gather by sends and receives, since NCCL's own all-gather allows no gaps between pieces. The stream also copies this
 * rank's own piece. comm.c reports a failure of this copy. */
static ncclResult_t gather_apart(zr__nccl *me, const void *mine, unsigned char *out, int64_t stride_bytes,
                                 int64_t piece_bytes)
{
    zr_comm *comm = me->comm;
    for (int r = 0; r < comm->size; r++) comm->pieces[r] = out + r * stride_bytes;
    unsigned char *place = out + comm->rank * stride_bytes;
    if (place != mine) comm->copied = me->copier.copy(me->copier.arg, place, mine, piece_bytes);
    return swap_pieces(me, mine, 0, piece_bytes);
}

zr_status zr__nccl_gather(zr__nccl *me, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes)
{
    zr_comm *comm = me->comm;
    ZR_TRY(zr__nccl_begin_call(me));
    const ncclResult_t result = stride_bytes == piece_bytes ? me->f.ncclAllGather(mine, out, (size_t)piece_bytes,
                                                                                  ncclInt8, me->ranks, stream_of(me))
                                                            : gather_apart(me, mine, out, stride_bytes, piece_bytes);
    zr__traffic_count(&comm->traffic, ZR_TRAFFIC_ALL_GATHER, (comm->size - 1) * piece_bytes);
    return end_call(me, result, "a gather by NCCL");
}

/* Do a reduce-scatter in place, as NCCL allows: the sum replaces this rank's piece of `data`. */
zr_status zr__nccl_reduce_scatter(zr__nccl *me, void *data, zr_dtype dtype, int64_t piece_elems)
{
    const zr_comm *comm = me->comm;
    const int64_t piece_bytes = zr_dtype_span(dtype, piece_elems);
    const ncclDataType_t type = dtype == ZR_F32 ? ncclFloat32 : dtype == ZR_BF16 ? ncclBfloat16 : ncclFloat16;
    ZR_TRY(zr__nccl_begin_call(me));
    const ncclResult_t result = me->f.ncclReduceScatter(data, (unsigned char *)data + comm->rank * piece_bytes,
                                                        (size_t)piece_elems, type, ncclSum, me->ranks, stream_of(me));
    zr__traffic_count(&me->comm->traffic, ZR_TRAFFIC_REDUCE_SCATTER, (comm->size - 1) * piece_bytes);
    return end_call(me, result, "a reduce-scatter by NCCL");
}
