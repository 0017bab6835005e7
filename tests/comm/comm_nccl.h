/* Ranks that are processes with GPUs, for the tests of NCCL: communicators, GPU memory, and calls whose results are
 * copied to the host and checked. Link with --wrap=zr__traffic_count, --wrap=zr_alloc, --wrap=zr_comm_split. */
#ifndef ZR_TESTS_COMM_NCCL_H
#define ZR_TESTS_COMM_NCCL_H

#include "base/core/core.h"
#include "comm/mpi_create.h"
#include "comm_group_checks.h"

#ifdef ZR_GPU
#include <nccl.h>
#else
#include "cuda/nccl.h"
#include "comm/comm.h"
#include "zr/comm.h"
#endif

#include <mpi.h>
#include <stdlib.h>

static int world_rank, world_size, gpus;
static cudaStream_t stream;
static bool on_gpus; /* whether new communicators, and groups split from them, use GPUs */

/* End all ranks, from any rank, if a check failed: the peers of the failed rank wait in a collective call. */
static inline void expect_ok(zr_status st)
{
    if (st == ZR_OK) return;
    fprintf(stderr, "rank %d: %s: %s\n%s\n", world_rank, zr_status_text(st), zr_error_message(), zr_error_trace());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define EXPECT(cond) expect_ok((cond) ? ZR_OK : ZR_FAIL(ZR_ERR_INTERNAL, "line %d: not so: %s", __LINE__, #cond))
#define EXPECT_TEXT(text)                                                                                              \
    expect_ok(strstr(zr_error_message(), (text))                                                                       \
                  ? ZR_OK                                                                                              \
                  : ZR_FAIL(ZR_ERR_INTERNAL, "line %d: not '%s' but '%s'", __LINE__, (text), zr_error_message()))

/* ---- the GPU ----------------------------------------------------------------------------------- */

static inline zr_status copy(void *arg, void *to, const void *from, int64_t bytes)
{
    EXPECT(arg == &stream);
    EXPECT(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, stream) == cudaSuccess);
    return ZR_OK;
}

static inline zr_status finish(void *arg)
{
    EXPECT(arg == &stream && cudaStreamSynchronize(stream) == cudaSuccess);
    return ZR_OK;
}

static inline zr_comm_copier copier(void)
{
    return (zr_comm_copier){copy, finish, &stream, stream, false};
}

static inline unsigned char *take(size_t bytes)
{
    void *memory = NULL;
    EXPECT(cudaMalloc(&memory, bytes) == cudaSuccess);
    return memory;
}

/* Copy between GPU and host memory, and wait for the copy. */
static inline void transfer(void *to, const void *from, size_t bytes)
{
    expect_ok(copy(&stream, to, from, (int64_t)bytes));
    expect_ok(finish(&stream));
}

/* Select this rank's GPU for the calling thread. */
static inline void take_gpu(void)
{
    EXPECT(cudaSetDevice(world_rank % gpus) == cudaSuccess);
}

/* Check that `communicators` NCCL communicators exist. With the real library the number is unknown, and the check
 * passes. */
static inline bool alive(int communicators)
{
#ifdef ZR_GPU
    return communicators >= 0;
#else
    return zr_stand_in_nccl_alive() == (world_size > 1 ? communicators : 0);
#endif
}

/* Check that no GPU memory is allocated and no NCCL communicator exists. */
static inline bool clean(void)
{
#ifdef ZR_GPU
    return true;
#else
    return zr_stand_in_taken() == 0 && alive(0);
#endif
}

/* Return the number of operations requested of NCCL; `aborted` returns the number of communicators aborted. */
static inline long operations(void)
{
#ifdef ZR_GPU
    return 0;
#else
    return zr_stand_in_nccl_operations();
#endif
}

static inline int aborted(void)
{
#ifdef ZR_GPU
    return 0;
#else
    return zr_stand_in_nccl_aborted();
#endif
}

zr_status __real_zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);
zr_status __wrap_zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);
zr_status __wrap_zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub)
{
    const zr_comm_copier gpu = copier();
    ZR_TRY(__real_zr_comm_split(comm, color, key, sub));
    if (*sub && on_gpus) ZR_TRY(zr__comm_copy_with(*sub, &gpu));
    return ZR_OK;
}

/* ---- communicators ----------------------------------------------------------------------------- */

static inline zr_comm *create_host(int ranks_per_node)
{
    zr_comm *comm = NULL;
    zr__mpi_options options = {.ranks_per_node = ranks_per_node, .chunk_bytes = 1000};
    expect_ok(zr__comm_mpi_create(&options, &comm));
    return comm;
}

static inline zr_comm *create(int ranks_per_node)
{
    zr_comm *comm = create_host(ranks_per_node);
    zr_comm_copier gpu = copier();
    expect_ok(zr__comm_copy_with(comm, &gpu));
    on_gpus = true;
    EXPECT(alive(1));
    EXPECT(comm->staging == NULL && comm->staging_bytes == 0);
    return comm;
}

/* Destroy a communicator, and check that all its memory is freed and that a communicator without errors was not
 * aborted. */
static inline void destroy(zr_comm **comm)
{
    const int before = aborted();
    zr_comm_destroy(comm);
    on_gpus = false;
    EXPECT(aborted() == before && clean());
}

/* ---- calls ------------------------------------------------------------------------------------- */

enum { PIECE = 5003, APART = 5100 };

typedef struct arrays {
    unsigned char *gpu;  /* size * APART bytes on the GPU */
    unsigned char *host; /* size * APART bytes on the host */
    size_t bytes;
} arrays;

static inline arrays take_arrays(const zr_comm *comm)
{
    arrays a = {.bytes = (size_t)comm->size * APART};
    a.gpu = take(a.bytes);
    a.host = zr_alloc(a.bytes);
    EXPECT(a.host != NULL);
    return a;
}

static inline void drop_arrays(arrays *a)
{
    zr_free(a->host);
    EXPECT(cudaFree(a->gpu) == cudaSuccess);
}

static inline void stage(zr_comm *comm, int64_t bytes)
{
    void *staging = NULL;
    expect_ok(zr_comm_staging(comm, bytes, &staging));
    EXPECT(comm->staging_taken_bytes >= comm->staging_bytes && comm->staging_bytes == bytes);
}

/* Check an all-gather, and that the bytes between pieces are unchanged. */
static inline void gather_once(zr_comm *comm, int64_t stride, bool in_place, int round)
{
    arrays out = take_arrays(comm), mine = take_arrays(comm);
    const int64_t place = comm->rank * stride;
    memset(out.host, 0xee, out.bytes);
    check_fill(mine.host, comm->rank, -1, round, PIECE);
    if (in_place) memcpy(out.host + place, mine.host, PIECE);
    transfer(out.gpu, out.host, out.bytes);
    transfer(mine.gpu, mine.host, mine.bytes);
    expect_ok(zr_comm_all_gather(comm, in_place ? out.gpu + place : mine.gpu, out.gpu, stride, PIECE));
    transfer(out.host, out.gpu, out.bytes);
    for (int r = 0; r < comm->size; r++) {
        expect_ok(check_bytes(out.host + r * stride, r, -1, round, PIECE, "a gather"));
        for (int64_t i = PIECE; i < stride; i++) EXPECT(out.host[r * stride + i] == 0xee);
    }
    drop_arrays(&mine);
    drop_arrays(&out);
}

/* The pieces of an exchange in the order of their arrival, copied to host memory. */
typedef struct arrival {
    zr_comm *comm;
    const unsigned char *own; /* this rank's own piece */
    int to, round, calls;
    int64_t bytes, longest;
    int left; /* calls until this rank's communicator is cancelled; < 0: never */
} arrival;

static inline zr_status arrive(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    arrival *a = arg;
    unsigned char *host = zr_alloc((size_t)bytes);
    EXPECT(host && first == a->bytes && first % 64 == 0 && bytes > 0);
    EXPECT(pieces[a->comm->rank] == a->own + first);
    for (int r = 0; r < a->comm->size; r++) {
        EXPECT(r == a->comm->rank || (uintptr_t)pieces[r] % 64 == 0);
        transfer(host, pieces[r], (size_t)bytes);
        expect_ok(check_stretch(host, r, a->to, a->round, first, bytes, "an arrival"));
    }
    zr_free(host);
    a->bytes += bytes;
    a->calls++;
    if (bytes > a->longest) a->longest = bytes;
    if (a->left-- == 0) zr__comm_cancel(a->comm);
    return ZR_OK;
}

/* Check that an all-gather in host memory goes through the host transport and uses no NCCL operation. */
static inline void gather_host(zr_comm *comm, int round)
{
    unsigned char *out = zr_alloc((size_t)comm->size * PIECE);
    const long before = operations();
    EXPECT(out != NULL);
    check_fill(out + comm->rank * PIECE, comm->rank, -1, round, PIECE);
    expect_ok(zr_comm_all_gather(comm, out + comm->rank * PIECE, out, PIECE, PIECE));
    for (int r = 0; r < comm->size; r++)
        expect_ok(check_bytes(out + r * PIECE, r, -1, round, PIECE, "a gather on the host"));
    EXPECT(operations() == before);
    zr_free(out);
}

/* Make a call on a rank whose peers do not fail: NCCL itself reports the failure to each rank. */
enum { CALLS = 4 };
static inline zr_status failing_call(zr_comm *comm, int call)
{
    take_gpu();
    arrays a = take_arrays(comm);
    arrival taken = {.comm = comm, .own = a.gpu + comm->rank * APART, .to = comm->rank, .round = 3, .left = -1};
    zr_status st;
    for (int r = 0; r < comm->size; r++) check_fill(a.host + r * APART, comm->rank, r, 3, PIECE);
    transfer(a.gpu, a.host, a.bytes);
    if (call == 0)
        st = zr_comm_exchange(comm, a.gpu, APART, PIECE, 1, arrive, &taken);
    else if (call == 1)
        st = zr_comm_all_gather(comm, a.gpu + comm->rank * APART, a.gpu, APART, PIECE);
    else if (call == 2)
        st = zr_comm_all_gather(comm, a.gpu + comm->rank * PIECE, a.gpu, PIECE, PIECE);
    else
        st = zr_comm_reduce_scatter(comm, a.gpu, ZR_BF16, APART / 2);
    drop_arrays(&a);
    return st;
}

/* Start MPI, select a GPU for each rank of a host, and tell NCCL which host that is. */
static inline void begin_all(int *argc, char ***argv)
{
    zr_comm *comm = NULL;
    char host[32];
    expect_ok(zr_comm_mpi_start(argc, argv, &comm));
    world_rank = comm->rank;
    world_size = comm->size;
    zr_comm_destroy(&comm);
    EXPECT(cudaGetDeviceCount(&gpus) == cudaSuccess);
    snprintf(host, sizeof host, "host %d", world_rank / gpus);
    setenv("NCCL_HOSTID", host, 1);
    take_gpu();
    EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
}

static inline void end_all(void)
{
    EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
    zr_comm_mpi_stop();
}

#endif
