/* Memory that the ranks of a node share: windows of the staging, boards, and the sleeping barrier. */
#include "comm/mpi_comm.h"

#include "base/text/text.h"
#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The beginning is aligned. Its offset is the same in every process, because processes map memory at the beginning of a
 * page. */
zr_status zr__mpi_window_part(MPI_Win window, int r, unsigned char **part)
{
    MPI_Aint bytes = 0;
    int unit = 0;
    void *base = NULL;
    ZR__TRY_MPI(MPI_Win_shared_query(window, r, &bytes, &unit, &base));
    *part = (unsigned char *)base + (-(uintptr_t)base & (ZR__COMM_ALIGN_BYTES - 1));
    return ZR_OK;
}

/* Return the bytes of shared memory that one rank's part of a window of `bytes` bytes may take, with alignment and the
 * reserve of a twentieth that Open MPI wants. */
static double part_room(int64_t bytes)
{
    const double page = (double)sysconf(_SC_PAGESIZE);
    return 1.05 * ((double)bytes + 2 * page);
}

/* Find the folder of the windows' files from this process's map of the window at the address `at`. It is /dev/shm,
 * unless settings of MPI name another. */
static void find_folder(zr__comm_mpi *me, const void *at)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t begin = 0, end = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
        if ((uintptr_t)at < begin || (uintptr_t)at >= end) continue;
        const char *path = strchr(line, '/'), *name = strrchr(line, '/');
        snprintf(me->folder, sizeof me->folder, "%.*s", path ? (int)(name - path) : 0, path ? path : "");
    }
    if (maps) fclose(maps);
}

#define ADVICE                                                                                                         \
    "exchange less at a time (zero_optimization.reduce_bucket_size and allgather_bucket_size; with parallel.tensor "   \
    "or parallel.pipeline a smaller train_micro_batch_size_per_gpu), or use no shared memory (ZR_MPI=p2p)"

/* Check that windows fit into the host's shared memory. This rank's parts take `bytes`. Containers often limit shared
 * memory to 64 MiB. Without room a write would raise SIGBUS, and Open MPI's allocation would fail on only one rank of
 * the node, and the other ranks would wait for this rank. All ranks of the node return the same status. */
static zr_status check_room(zr__comm_mpi *me, double bytes)
{
    struct statvfs shm;
    const char *folder = me->world->folder;
    const bool known = statvfs(folder, &shm) == 0;
    const double left = known ? (double)shm.f_bavail * (double)shm.f_frsize : INFINITY;
    const double all = known ? (double)shm.f_blocks * (double)shm.f_frsize : INFINITY;
    double mine[2] = {bytes, -left}, sum = 0, least = 0; /* the least room that a rank of the node sees */
    MPI_Request request[2];
    ZR__TRY_MPI(MPI_Iallreduce(&mine[0], &sum, 1, MPI_DOUBLE, MPI_SUM, me->node, &request[0]));
    ZR__TRY_MPI(MPI_Iallreduce(&mine[1], &least, 1, MPI_DOUBLE, MPI_MAX, me->node, &request[1]));
    ZR_TRY(zr__mpi_finish(me, 2, request, NULL));
    ZR_CHECK(sum <= -least, ZR_ERR_MEMORY,
             "the staging memory of %d ranks on this host takes %s of shared memory, but %s has only %s left of %s; "
             "enlarge it (mount -o remount,size=SIZE %s, or docker run --shm-size), " ADVICE,
             me->node_size, ZR_SIZE(sum), folder, ZR_SIZE(-least), ZR_SIZE(all), folder);
    return ZR_OK;
}

zr_status zr__mpi_open_window(zr__comm_mpi *me, int64_t bytes, MPI_Win *window)
{
    MPI_Info info = MPI_INFO_NULL;
    void *base = NULL;
    ZR_TRY(check_room(me, part_room(bytes)));
    ZR__TRY_MPI(MPI_Info_create(&info));
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* hint to allocate pages near the rank that touches them */
    MPI_Aint room = (MPI_Aint)((bytes + 2 * ZR__COMM_ALIGN_BYTES - 1) / ZR__COMM_ALIGN_BYTES * ZR__COMM_ALIGN_BYTES);
    int code;
    ZR__MPI_WAIT(me, code, MPI_Win_allocate_shared(room, 1, info, me->node, &base, window));
    MPI_Info_free(&info);
    if (code != MPI_SUCCESS) {
        *window = MPI_WIN_NULL;
        return zr__mpi_fail(code, "MPI_Win_allocate_shared", ZR_ERR_MEMORY);
    }
    ZR__TRY_MPI(MPI_Win_set_errhandler(*window, MPI_ERRORS_RETURN));
    /* Lock the window until it is freed, since MPI_Win_sync may be called only while the window is locked. */
    ZR__TRY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window));
    return ZR_OK;
}

/* Some MPI libraries also count the alignment and the rest of the last page. These bytes are excluded from *taken. */
zr_status zr__mpi_window_bytes(MPI_Win window, int r, int64_t wanted, int64_t *taken)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    MPI_Aint bytes = 0;
    int unit = 0;
    void *base = NULL;
    ZR__TRY_MPI(MPI_Win_shared_query(window, r, &bytes, &unit, &base));
    *taken = (int64_t)bytes - ZR__COMM_ALIGN_BYTES;
    if (*taken > wanted && *taken - wanted < page) *taken = wanted;
    return ZR_OK;
}

void zr__mpi_close_window(zr__comm_mpi *me, MPI_Win *window)
{
    int code;
    if (*window == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(*window);
    ZR__MPI_WAIT(me, code, MPI_Win_free(window));
    (void)code; /* ignore a failure, since the window is no longer used */
}

/* One rank's part of the memory that a node's ranks share from the start. */
typedef struct shared_part {
    zr__barrier barrier; /* used only in the part of the node's first rank */
    _Alignas(ZR__COMM_ALIGN_BYTES) zr_comm_board board;
} shared_part;

/* Wait for the node's ranks. Afterwards every rank sees the other ranks' writes to the shared memory. */
static zr_status meet_window(zr__comm_mpi *me)
{
    int code;
    ZR__TRY_MPI(MPI_Win_sync(me->shared_window));
    ZR__MPI_WAIT(me, code, MPI_Barrier(me->node));
    if (code != MPI_SUCCESS) return zr__mpi_fail(code, "MPI_Barrier", ZR_ERR_COMM);
    ZR__TRY_MPI(MPI_Win_sync(me->shared_window));
    return ZR_OK;
}

/* Move the boards of this node's ranks into the shared memory. Only the world has boards; groups use the world's
 * boards. */
static zr_status move_board(zr__comm_mpi *me)
{
    for (int r = 0; r < me->comm.size; r++) {
        unsigned char *part = NULL;
        if (me->node_rank[r] < 0) continue;
        ZR_TRY(zr__mpi_window_part(me->shared_window, me->node_rank[r], &part));
        me->boards[r] = &((shared_part *)part)->board;
    }
    zr_comm_board *mine = me->boards[me->comm.rank];
    *mine = me->own_board;
    zr__comm_set_boards(&me->comm, mine, me->boards, me->comm.size);
    return ZR_OK;
}

void zr__mpi_close_shared(zr__comm_mpi *me)
{
    if (me->shared_window != MPI_WIN_NULL && !me->parent) {
        me->own_board = *me->comm.board;
        for (int r = 0; r < me->comm.size; r++) me->boards[r] = NULL;
        me->comm.board = me->boards[me->comm.rank] = &me->own_board;
    }
    zr__mpi_close_window(me, &me->shared_window);
}

zr_status zr__mpi_check_parts(zr__comm_mpi *me, bool joins)
{
    if (zr__mpi_has_remote(me->world) || me->node_size == 1) return ZR_OK;
    return check_room(me, joins ? part_room(sizeof(shared_part)) : 0);
}

zr_status zr__mpi_open_shared(zr__comm_mpi *me)
{
    unsigned char *memory = NULL;
    const bool world = !me->parent, sleeps = !zr__mpi_has_remote(me->world);
    if (me->node_size == 1 || !(world || sleeps)) return ZR_OK;
    ZR_TRY(zr__mpi_open_window(me, sizeof(shared_part), &me->shared_window));
    ZR_TRY(zr__mpi_window_part(me->shared_window, 0, &memory));
    if (world) find_folder(me, memory);
    zr__barrier *barrier = &((shared_part *)memory)->barrier;
    if (me->node_rank[me->comm.rank] == 0) zr__barrier_init(barrier, me->node_size, me->world->comm.local_size);
    if (world) ZR_TRY(move_board(me));
    ZR_TRY(meet_window(me));
    if (sleeps) me->barrier = barrier;
    if (!world) return ZR_OK;
    me->comm.processes_seen = true;
    /* No rank has ended yet, so every process should be visible. If a process is not visible, ranks have separate
     * process ids, for example in containers. A rank then cannot detect that another rank has ended. */
    me->comm.processes_seen = zr__comm_gone(&me->comm) < 0;
    return meet_window(me);
}

/* Allocate the pages of the staging now. check_room is not enough: if several communicators of a host create their
 * staging at the same time, all see the same free space. Linux before 5.14 has no call to allocate pages. There the
 * memset below allocates the pages, or ends the process. */
zr_status zr__mpi_take_pages(const zr__comm_mpi *me, unsigned char *staging, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    const char *folder = me->world->folder;
    uintptr_t begin = (uintptr_t)staging & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
    size_t length = (size_t)bytes + ((uintptr_t)staging - begin);
    int error = madvise((void *)begin, length, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    ZR_CHECK(error != EFAULT && error != ENOMEM, ZR_ERR_MEMORY,
             "%s has no space left for %lld bytes of staging memory; enlarge it (mount -o remount,size=SIZE %s, or "
             "docker run --shm-size), " ADVICE,
             folder, (long long)bytes, folder);
#else
    (void)me;
#endif
    memset(staging, 0, (size_t)bytes);
    return ZR_OK;
}

/* Free the staging. MPI_Win_free waits for the node's ranks, so peers no longer read the staging and no barrier is
 * needed. */
void zr__mpi_drop_staging(zr__comm_mpi *me)
{
    if (me->staging_window == MPI_WIN_NULL) zr_free(me->staging);
    zr__mpi_close_window(me, &me->staging_window);
    me->staging = NULL;
    me->staging_bytes = 0;
}

static zr_status share_staging(zr__comm_mpi *me, int64_t bytes, int64_t *taken)
{
    const zr_comm *comm = &me->comm;
    ZR_TRY(zr__mpi_open_window(me, bytes, &me->staging_window));
    for (int r = 0; r < comm->size; r++)
        if (me->node_rank[r] >= 0) ZR_TRY(zr__mpi_window_part(me->staging_window, me->node_rank[r], &me->stagings[r]));
    me->staging = me->stagings[comm->rank];
    ZR_TRY(zr__mpi_take_pages(me, me->staging, bytes));
    return zr__mpi_window_bytes(me->staging_window, me->node_rank[comm->rank], bytes, taken);
}

/* Return the bytes of staging in the host's memory. With NCCL, pieces in the host's memory are few and small. */
static int64_t host_part(const zr__comm_mpi *me, int64_t bytes)
{
    const int64_t enough = ZR_COMM_STAGING_HOST(me->comm.size);
    return me->nccl && bytes > enough ? enough : bytes;
}

zr_status zr__mpi_room(zr_comm *comm, zr_comm *const *group, const int64_t *bytes, int n)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    double mine = 0;
    for (int i = 0; i < n; i++) {
        const zr__comm_mpi *its = (const zr__comm_mpi *)group[i];
        if (its->node_size > 1) mine += part_room(host_part(its, bytes[i]));
        if (its->staging_window != MPI_WIN_NULL) mine -= (double)its->staging_bytes; /* will be freed first */
    }
    return check_room(me, mine > 0 ? mine : 0);
}

/* Allocate the staging. */
zr_status zr__mpi_staging(zr_comm *comm, int64_t bytes)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    const int64_t host_bytes = host_part(me, bytes);
    ZR_TRY(zr__mpi_poll(comm, true)); /* a rank that has failed alone must not wait for others */
    zr__mpi_drop_staging(me);
    comm->staging = NULL;
    int64_t *taken = &comm->staging_taken_bytes;
    zr_status st = me->node_size > 1 && bytes > 0 ? share_staging(me, host_bytes, taken)
                                                  : zr__comm_alloc_staging(host_bytes, &me->staging, taken);
    if (st == ZR_OK) me->staging_bytes = host_bytes;
    comm->staging = me->staging;
    if (!me->nccl) return st;
    comm->staging_taken_bytes = bytes;
    return st == ZR_OK ? zr__nccl_staging(me->nccl, bytes, &comm->staging) : st;
}
