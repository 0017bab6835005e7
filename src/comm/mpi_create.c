/** Creates, splits, cancels and destroys communicators of MPI processes. */
#include "comm/mpi_create.h"
#include "comm/mpi_comm.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

/* Default maximum length of a message in bytes. Sending 1 MiB takes far longer than a round trip, so that the link is
 * used well. The wait for the first message is still short. */
#define CHUNK_BYTES ((int64_t)1 << 20)
#define CHUNK_BYTES_MAX ((int64_t)1 << 30) /* limit of MPI-3.1, whose counts are ints */

/* ---- ends ------------------------------------------------------------------------------------ */

/* Cancel a communicator, and all communicators split off this one. */
static void cancel_tree(zr__comm_mpi *me)
{
    atomic_store(&me->cancelled, true);
    /* Leave the sleeping barrier, since a rank that sleeps there does not check `cancelled`. This barrier exists only
     * if the node has all ranks of `comm`; a rank then has the same number in both. */
    if (me->barrier) zr__barrier_leave(me->barrier, me->comm.rank);
    for (zr__comm_mpi *part = me->parts; part; part = part->sibling) cancel_tree(part);
}

static void cancel_mpi(zr_comm *comm)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    pthread_mutex_lock(&me->world->lock);
    cancel_tree(me);
    pthread_mutex_unlock(&me->world->lock);
}

static void abort_mpi(zr_comm *comm, int code)
{
    MPI_Abort(((zr__comm_mpi *)comm)->world->all, code);
}

/* Link a split communicator to its parent. Cancelling the parent then cancels the part too. If the parent is already
 * cancelled, cancel the part now. */
static void attach_part(zr__comm_mpi *part)
{
    zr__comm_mpi *parent = part->parent;
    pthread_mutex_lock(&part->world->lock);
    part->sibling = parent->parts;
    parent->parts = part;
    if (atomic_load(&parent->cancelled)) cancel_tree(part);
    pthread_mutex_unlock(&part->world->lock);
}

static void detach_part(zr__comm_mpi *part)
{
    pthread_mutex_lock(&part->world->lock);
    zr__comm_mpi **at = &part->parent->parts;
    while (*at && *at != part) at = &(*at)->sibling;
    if (*at) *at = part->sibling;
    pthread_mutex_unlock(&part->world->lock);
}

bool zr__mpi_runs(void)
{
    int started = 0, finished = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    return started && !finished;
}

void zr__mpi_cancel(int n, MPI_Request *request)
{
    for (int i = 0; i < n && zr__mpi_runs(); i++) {
        if (request[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request[i]);
        MPI_Request_free(&request[i]);
    }
}

static void destroy_mpi(zr_comm *comm)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    const bool runs = zr__mpi_runs(), alone = runs && me->comm.board && zr__mpi_is_alone(me);
    if (me->parent) detach_part(me);
    if (!runs) atomic_store(&me->cancelled, true); /* NCCL's destruction must not poll MPI, which has ended */
    zr__nccl_destroy(&me->nccl);
    for (int half = 0; half < 2; half++) zr__mpi_cancel(me->flight[half].n, me->flight[half].request);
    if (runs && !alone) {
        zr__mpi_drop_staging(me);
        zr__mpi_close_shared(me);
        if (me->node != MPI_COMM_NULL) MPI_Comm_free(&me->node);
        if (me->all != MPI_COMM_NULL) MPI_Comm_free(&me->all);
    }
    /* A rank that is alone (zr__mpi_is_alone) frees neither MPI windows, because that would wait for the other ranks of
     * the node, nor communicators: a new communicator could reuse the number of an old one and receive its undelivered
     * messages. */
    if (me->staging_window == MPI_WIN_NULL) zr_free(me->staging);
    if (!me->parent) zr_free(me->boards);
    zr_free(me->stagings);
    zr_free(me->statuses);
    if (!me->unfinished) zr_free(me->scalars);
    for (int half = 0; half < 2; half++) {
        zr_free(me->flight[half].request);
        zr_free(me->flight[half].peer);
    }
    zr_free(me->node_rank);
    zr_free(me->names);
    pthread_mutex_destroy(&me->lock);
    pthread_mutex_destroy(&me->turn);
    pthread_cond_destroy(&me->moved);
    pthread_cond_destroy(&me->more);
    zr__comm_finish(comm);
    zr_free(me);
}

static void drop_mpi(zr__comm_mpi **me)
{
    if (*me) destroy_mpi(&(*me)->comm);
}

static zr_status devices_mpi(zr_comm *comm, const zr_comm_copier *copier)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    if (me->nccl && copier) {
        ZR_TRY(zr__nccl_copy_with(me->nccl, copier));
    } else if (copier) {
        ZR_TRY(zr__nccl_create(comm, copier, zr__mpi_poll, &me->nccl));
        comm->staging = NULL;
        comm->staging_bytes = comm->staging_taken_bytes = 0;
    } else if (me->nccl) {
        zr__nccl_destroy(&me->nccl);
        comm->staging = me->staging;
        comm->staging_bytes = comm->staging_taken_bytes = me->staging_bytes;
    }
    return ZR_OK;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static zr_status split_mpi(zr_comm *comm, const zr__group *group, zr_comm **sub);

static const zr_comm_ops ops_mpi = {
    .destroy = destroy_mpi,
    .split = split_mpi,
    .staging = zr__mpi_staging,
    .room = zr__mpi_room,
    .exchange = zr__mpi_exchange,
    .gather = zr__mpi_gather,
    .reduce_scatter = zr__mpi_reduce_scatter,
    .scalars = zr__mpi_scalars,
    .barrier = zr__mpi_barrier,
    .cancel = cancel_mpi,
    .abort = abort_mpi,
    .devices = devices_mpi,
    .mail = zr__mpi_mail,
    .end_mail = zr__mpi_end_mail,
    .channel = zr__mpi_channel,
    .connect = zr__mpi_connect,
};

/* Allocate and fill the tables of a communicator. This function does not communicate. */
static zr_status fill_tables(zr__comm_mpi *me, int rank, int size)
{
    me->names = zr_alloc((size_t)size * sizeof *me->names);
    ZR_TRY(zr__comm_init(&me->comm, &ops_mpi, "mpi", rank, size, me->names));
    if (!me->parent) me->boards = zr_alloc((size_t)size * sizeof *me->boards);
    me->node_rank = zr_alloc((size_t)size * sizeof *me->node_rank);
    for (int half = 0; half < 2; half++) {
        me->flight[half].request = zr_alloc(2 * (size_t)size * sizeof(MPI_Request));
        me->flight[half].peer = zr_alloc(2 * (size_t)size * sizeof(int));
    }
    me->statuses = zr_alloc(2 * (size_t)size * sizeof *me->statuses);
    me->stagings = zr_alloc((size_t)size * sizeof *me->stagings);
    me->scalars = zr_alloc((1 + (size_t)size) * ZR_COMM_SCALARS * sizeof *me->scalars);
    ZR_CHECK(me->names && me->node_rank && me->flight[0].request && me->flight[1].request && me->flight[0].peer &&
                 me->flight[1].peer && me->statuses && me->stagings && me->scalars && (me->parent || me->boards),
             ZR_ERR_MEMORY, "no memory for the tables of %d ranks", size);
    if (!me->parent) me->boards[rank] = &me->own_board;
    zr__comm_mpi *world = me->world;
    zr__comm_set_boards(&me->comm, world->boards[world->comm.rank], world->boards, world->comm.size);
    me->comm.processes_seen = world->comm.processes_seen;
    return ZR_OK;
}

/* Waits for the courier end after some milliseconds. The wall clock may be set back meanwhile. */
static void init_moved(pthread_cond_t *moved)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(moved, &attr);
    pthread_condattr_destroy(&attr);
}

/* Create a communicator, either of the world (`parent` is NULL) or of a part of `parent`. This function does not
 * communicate. The caller must fill in me->names. */
static zr_status create_alone(zr__comm_mpi *parent, int rank, int size, zr__comm_mpi **made)
{
    ZR_AUTO(drop_mpi) zr__comm_mpi *me = zr_alloc(sizeof *me);
    ZR_CHECK(me, ZR_ERR_MEMORY, "no memory for a communicator");
    me->all = me->node = MPI_COMM_NULL;
    me->shared_window = me->staging_window = MPI_WIN_NULL;
    me->parent = parent;
    me->world = parent ? parent->world : me;
    strcpy(me->folder, "/dev/shm"); /* until find_folder finds the folder of the first window */
    pthread_mutex_init(&me->lock, NULL);
    pthread_mutex_init(&me->turn, NULL);
    pthread_cond_init(&me->more, NULL);
    init_moved(&me->moved);
    ZR_TRY(fill_tables(me, rank, size));
    *made = ZR_TAKE(me);
    return ZR_OK;
}

static zr_status number_node_ranks(zr__comm_mpi *me)
{
    MPI_Group all, node;
    ZR__TRY_MPI(MPI_Comm_group(me->all, &all));
    ZR__TRY_MPI(MPI_Comm_group(me->node, &node));
    for (int r = 0; r < me->comm.size; r++) {
        ZR__TRY_MPI(MPI_Group_translate_ranks(all, 1, &r, node, &me->node_rank[r]));
        if (me->node_rank[r] == MPI_UNDEFINED) me->node_rank[r] = -1;
    }
    MPI_Group_free(&node);
    MPI_Group_free(&all);
    return ZR_OK;
}

/* Create me->node, and find the numbers of its ranks. Two ranks of a group share a window if they share one in the
 * world. local_rank and local_size count all ranks of the host, even if ranks_per_node is smaller. */
static zr_status find_node(zr__comm_mpi *me, int ranks_per_node)
{
    MPI_Comm host = MPI_COMM_NULL;
    int code;
    ZR__MPI_WAIT(me, code, MPI_Comm_split_type(me->all, MPI_COMM_TYPE_SHARED, me->comm.rank, MPI_INFO_NULL, &host));
    if (code != MPI_SUCCESS) return zr__mpi_fail(code, "MPI_Comm_split_type", ZR_ERR_COMM);
    MPI_Comm_rank(host, &me->comm.local_rank);
    MPI_Comm_size(host, &me->comm.local_size);
    if (me->parent)
        me->node_number = me->parent->node_number;
    else if (ranks_per_node > 0)
        me->node_number = me->comm.local_rank / ranks_per_node;
    ZR__MPI_WAIT(me, code, MPI_Comm_split(host, me->node_number, me->comm.local_rank, &me->node));
    MPI_Comm_free(&host);
    if (code != MPI_SUCCESS) return zr__mpi_fail(code, "MPI_Comm_split", ZR_ERR_COMM);
    ZR__TRY_MPI(MPI_Comm_set_errhandler(me->node, MPI_ERRORS_RETURN));
    ZR__TRY_MPI(MPI_Comm_size(me->node, &me->node_size));
    return number_node_ranks(me);
}

/* Connect the ranks of me->all: find this rank's node, and open the memory that the node's ranks share. */
static zr_status connect_ranks(zr__comm_mpi *me, int ranks_per_node)
{
    ZR__TRY_MPI(MPI_Comm_set_errhandler(me->all, MPI_ERRORS_RETURN));
    ZR_TRY(find_node(me, ranks_per_node));
    ZR_TRY(zr__mpi_open_shared(me));
    int level = 0;
    MPI_Query_thread(&level);
    /* Treat remote ranks as connected by a network link. With ZR_MPI=p2p, ranks of one host count as remote too. */
    me->comm.second_thread = level >= MPI_THREAD_SERIALIZED;
    me->comm.concurrent = zr__mpi_has_remote(me) && me->comm.second_thread;
    return ZR_OK;
}

static zr_status connect_world(zr__comm_mpi *me, const zr__mpi_options *options)
{
    int64_t longest = options->chunk_bytes < CHUNK_BYTES_MAX ? options->chunk_bytes : CHUNK_BYTES_MAX;
    me->chunk_bytes = longest > ZR__COMM_ALIGN_BYTES ? zr__comm_floor_aligned(longest) : ZR__COMM_ALIGN_BYTES;
    ZR__TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &me->all));
    return connect_ranks(me, options->ranks_per_node);
}

zr_status zr__comm_mpi_create(const zr__mpi_options *options, zr_comm **comm)
{
    *comm = NULL;
    int rank = 0, size = 0;
    ZR__TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    ZR__TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    ZR_AUTO(drop_mpi) zr__comm_mpi *me = NULL;
    zr_status st = create_alone(NULL, rank, size, &me);
    int made = st == ZR_OK, all_made = 0;
    ZR__TRY_MPI(MPI_Allreduce(&made, &all_made, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (made && !all_made) st = ZR_FAIL(ZR_ERR_MEMORY, "another rank has no memory for the tables of %d ranks", size);
    for (int r = 0; r < size && made; r++) me->names[r] = r;
    if (st == ZR_OK) st = connect_world(me, options);
    /* A host may lack room for its windows. All ranks then fail, so that rank 0 reports it. */
    if (me && me->all != MPI_COMM_NULL) st = zr_comm_agree(&me->comm, st);
    ZR_TRY(st);
    *comm = &ZR_TAKE(me)->comm;
    return ZR_OK;
}

/* Connect the ranks of a group. `me` is this rank's communicator of the group. A rank outside all groups must call the
 * function too, with `me` NULL. */
static zr_status connect_part(zr__comm_mpi *parent, zr__comm_mpi *me, const zr__group *group)
{
    MPI_Comm all = MPI_COMM_NULL;
    int color = me ? group->first : MPI_UNDEFINED;
    int code;
    ZR_TRY(zr__mpi_check_parts(parent, me != NULL));
    ZR__MPI_WAIT(parent, code, MPI_Comm_split(parent->all, color, group->rank, &all));
    if (code != MPI_SUCCESS) return zr__mpi_fail(code, "MPI_Comm_split", ZR_ERR_COMM);
    if (!me) return ZR_OK;
    me->all = all;
    me->chunk_bytes = parent->chunk_bytes;
    return connect_ranks(me, 0);
}

/* Split a communicator. Steps that may fail on one rank alone come before MPI calls. Otherwise the peers would wait in
 * MPI for the failed rank. */
static zr_status split_mpi(zr_comm *comm, const zr__group *group, zr_comm **sub)
{
    zr__comm_mpi *parent = (zr__comm_mpi *)comm;
    ZR_AUTO(drop_mpi) zr__comm_mpi *part = NULL;
    zr_status st = ZR_OK;
    if (group->size > 0) st = create_alone(parent, group->rank, group->size, &part);
    if (part) zr__group_names(comm, group, part->names);
    ZR_TRY(zr_comm_agree(comm, st));
    ZR_TRY(zr_comm_agree(comm, connect_part(parent, part, group)));
    if (!part) return ZR_OK;
    attach_part(part);
    *sub = &ZR_TAKE(part)->comm;
    return ZR_OK;
}

/* ---- MPI itself ------------------------------------------------------------------------------ */

const char *zr__comm_mpi_version(void)
{
    static _Thread_local char line[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(line, &length);
    /* Cut the text at the first newline or comma. The rest describes MPICH's build or Open MPI's package. */
    line[strcspn(line, "\n,")] = '\0';
    for (char *c = line; *c; c++)
        if (*c == '\t') *c = ' ';
    return line;
}

static zr_status start_library(int *argc, char ***argv)
{
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started)
        MPI_Query_thread(&level);
    else
        MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level);
    ZR_CHECK(level >= MPI_THREAD_FUNNELED, ZR_ERR_UNSUPPORTED,
             "%s was initialised without thread support; MPI_THREAD_FUNNELED is needed", zr__comm_mpi_version());
    return ZR_OK;
}

zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm)
{
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_mpi_start needs a place for the communicator");
    *comm = NULL;
    const char *way = getenv("ZR_MPI");
    bool p2p = way && strcmp(way, "p2p") == 0;
    ZR_CHECK(!way || !*way || p2p, ZR_ERR_CONFIG, "ZR_MPI is \"%s\"; the only value is p2p (use no shared windows)",
             way);
    ZR_TRY(start_library(argc, argv));

    int size = 0, launched = zr_comm_mpi_launched();
    ZR__TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    ZR_CHECK(launched == 0 || launched == size, ZR_ERR_UNSUPPORTED,
             "the launcher started %d ranks, but %s counts %d, so the launcher belongs to another MPI; use the mpirun "
             "of this MPI library",
             launched, zr__comm_mpi_version(), size);
    zr__mpi_options options = {.ranks_per_node = p2p ? 1 : 0, .chunk_bytes = CHUNK_BYTES};
    ZR_TRY(zr__comm_mpi_create(&options, comm));
    return ZR_OK;
}

void zr_comm_mpi_stop(void)
{
    if (zr__mpi_runs()) MPI_Finalize();
}
