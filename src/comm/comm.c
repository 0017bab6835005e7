#include "comm/transport.h"

#include "base/core/core.h"
#include "base/file/file.h"
#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Maximum bytes of a failure's text, which is sent in one call of scalars. A longer text is cut. */
#define TEXT_BYTES (ZR_COMM_SCALARS * sizeof(double))

zr_status zr__comm_init(zr_comm *comm, const zr_comm_ops *ops, const char *transport, int rank, int size,
                        const int *names)
{
    *comm = (zr_comm){.ops = ops, .transport = transport, .rank = rank, .size = size, .world_ranks = names};
    comm->local_rank = rank;
    comm->local_size = size;
    comm->pieces = zr_alloc((size_t)size * sizeof *comm->pieces);
    ZR_CHECK(comm->pieces, ZR_ERR_MEMORY, "no memory for the tables of %d ranks", size);
    return ZR_OK;
}

void zr__comm_finish(zr_comm *comm)
{
    zr_free(comm->pieces);
    comm->pieces = NULL;
}

zr_status zr__comm_alloc_staging(int64_t bytes, unsigned char **staging, int64_t *taken)
{
    const int64_t before = zr__alloc_taken();
    *staging = NULL;
    *taken = 0;
    if (bytes == 0) return ZR_OK;
    *staging = zr_alloc((size_t)bytes);
    ZR_CHECK(*staging, ZR_ERR_MEMORY, "no memory for %" PRId64 " bytes of staging", bytes);
    *taken = zr__alloc_taken() - before;
    return ZR_OK;
}

zr_status zr__comm_own_staging(zr_comm *comm, int64_t bytes)
{
    zr_free(comm->staging);
    return zr__comm_alloc_staging(bytes, &comm->staging, &comm->staging_taken_bytes);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static zr_status check_piece(const zr_comm *comm, int64_t stride_bytes, int64_t piece_bytes)
{
    ZR_CHECK(piece_bytes >= 0, ZR_ERR_ARG, "the piece size is %" PRId64 " bytes; it must not be negative", piece_bytes);
    ZR_CHECK(comm->size == 1 || stride_bytes >= piece_bytes, ZR_ERR_ARG,
             "pieces of %" PRId64 " bytes overlap at a stride of %" PRId64
             " bytes; make the stride as large as a piece",
             piece_bytes, stride_bytes);
    return ZR_OK;
}

static zr_status check_staging(const zr_comm *comm)
{
    ZR_CHECK(comm->size == 1 || comm->staging_bytes / ZR_COMM_STAGING_LEAST >= comm->size, ZR_ERR_ARG,
             "%" PRId64 " bytes of staging for %d ranks; call zr_comm_staging with at least %d for each",
             comm->staging_bytes, comm->size, ZR_COMM_STAGING_LEAST);
    return ZR_OK;
}

static zr_status check_grain(int64_t piece_bytes, int64_t grain_bytes)
{
    ZR_CHECK(grain_bytes >= 1, ZR_ERR_ARG, "the grain is %" PRId64 " bytes; it must be at least 1", grain_bytes);
    ZR_CHECK(piece_bytes % grain_bytes == 0, ZR_ERR_ARG,
             "a piece of %" PRId64 " bytes in grains of %" PRId64
             ", which do not divide it; end the piece with its last grain",
             piece_bytes, grain_bytes);
    return ZR_OK;
}

zr_status zr__comm_chunk(const zr_comm *comm, int64_t room_bytes, int64_t grain_bytes, int64_t *chunk_bytes)
{
    ZR_CHECK(
        grain_bytes <= room_bytes, ZR_ERR_ARG,
        "a grain of %" PRId64 " bytes, but chunks have room for %" PRId64 " (%" PRId64
        " bytes of staging for %d ranks); make the grain shorter, or, unless messages between hosts are the limit, "
        "the staging longer (zr_comm_staging)",
        grain_bytes, room_bytes, comm->staging_bytes, comm->size);
    const int64_t shared = grain_bytes & -grain_bytes; /* largest power of two that divides the grain's bytes */
    const int64_t both = shared < ZR__COMM_ALIGN_BYTES ? grain_bytes * (ZR__COMM_ALIGN_BYTES / shared) : grain_bytes;
    const int64_t unit = both <= room_bytes ? both : grain_bytes;
    *chunk_bytes = room_bytes / unit * unit;
    return ZR_OK;
}

/* ---- channels -------------------------------------------------------------------------------- */

/* Allocate memory for mailboxes that no other rank reads. */
static zr_status take_mail(zr_comm *comm, int64_t bytes, zr__mail **made)
{
    zr__mail *mail = zr_alloc(sizeof *mail);
    ZR_CHECK(mail, ZR_ERR_MEMORY, "no memory for channels");
    *mail = (zr__mail){.comm = comm, .bytes = bytes};
    const zr_status st = zr__comm_alloc_staging(bytes, &mail->memory, &mail->taken_bytes);
    if (st == ZR_OK)
        *made = mail;
    else
        zr_free(mail);
    return st;
}

static void free_mail(zr__mail *mail)
{
    zr_free(mail->memory);
    zr_free(mail);
}

zr_status zr__comm_mail(zr_comm *comm, int64_t bytes, zr__mail **mail)
{
    *mail = NULL;
    ZR_TRY(zr_comm_agree(comm, comm->ops->mail ? comm->ops->mail(comm, bytes, mail) : take_mail(comm, bytes, mail)));
    return ZR_OK;
}

void zr__comm_end_mail(zr__mail **mail)
{
    if (*mail) ((*mail)->comm->ops->end_mail ? (*mail)->comm->ops->end_mail : free_mail)(*mail);
    *mail = NULL;
}

int64_t zr__mail_taken(const zr__mail *mail)
{
    return mail->taken_bytes;
}

zr_status zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                           zr__channel **channel)
{
    const bool sends = route->from == comm->rank;
    ZR_TRY(comm->ops->channel(comm, mail, route, copier ? copier : &(zr_comm_copier){0}, channel));
    (*channel)->awaits = &comm->board->channel[!sends];
    (*channel)->peer = comm->world_ranks[sends ? route->to : route->from];
    return ZR_OK;
}

zr_status zr__comm_connect(zr__mail *mail, void *memory)
{
    if (mail->comm->ops->connect) ZR_TRY(mail->comm->ops->connect(mail, memory));
    return ZR_OK;
}

zr_status zr__channel_begin(zr__channel *channel, void *memory)
{
    return channel->begin(channel, memory);
}

zr_status zr__channel_end(zr__channel *channel)
{
    __atomic_store_n(channel->awaits, 1 + (uint64_t)channel->peer, __ATOMIC_RELAXED);
    const zr_status st = channel->end(channel);
    __atomic_store_n(channel->awaits, 0, __ATOMIC_RELAXED);
    return st;
}

void zr__channel_close(zr__channel *channel)
{
    if (channel) channel->close(channel);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

zr_status zr_comm_staging(zr_comm *comm, int64_t bytes, void **staging)
{
    ZR_CHECK(comm && staging, ZR_ERR_ARG, "zr_comm_staging needs a communicator and a place for the pointer");
    ZR_CHECK(bytes >= 0, ZR_ERR_ARG, "%" PRId64 " bytes of staging memory; the size must not be negative", bytes);
    *staging = NULL;
    comm->staging_bytes = comm->staging_taken_bytes = 0;
    /* Agree on the status. After this agreement every rank's new staging is visible to its peers, so ranks may use it.
     */
    ZR_TRY(zr_comm_agree(comm, comm->ops->staging(comm, bytes)));
    comm->staging_bytes = bytes;
    *staging = comm->staging;
    return ZR_OK;
}

zr_status zr__comm_room(zr_comm *comm, zr_comm *const *group, const int64_t *bytes, int n)
{
    if (comm->size == 1 || !comm->ops->room) return ZR_OK;
    return zr_comm_agree(comm, comm->ops->room(comm, group, bytes, n));
}

/* Callback of an exchange, and the first failure that the callback returned. */
typedef struct arrival {
    zr_comm_arrived_fn fn;
    void *arg;
    zr_status status;
    char text[TEXT_BYTES];
} arrival;

/* Call the callback, until it has failed once. Return ZR_OK even after a failure, because the exchange must go on. If
 * this rank left the exchange midway, its peers would wait forever. */
static zr_status hand_over(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    arrival *t = arg;
    if (t->status != ZR_OK) return ZR_OK;
    t->status = t->fn(t->arg, first_byte, bytes, pieces);
    if (t->status != ZR_OK) snprintf(t->text, sizeof t->text, "%s", zr_error_message());
    return ZR_OK;
}

zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                           int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg)
{
    ZR_CHECK(comm && fn && (send || piece_bytes == 0), ZR_ERR_ARG, "zr_comm_exchange was given a NULL pointer");
    ZR_TRY(check_piece(comm, stride_bytes, piece_bytes));
    ZR_TRY(check_grain(piece_bytes, grain_bytes));
    ZR_TRY(check_staging(comm));
    if (piece_bytes == 0) return ZR_OK;
    if (comm->size == 1) {
        comm->pieces[0] = send;
        return fn(arg, 0, piece_bytes, comm->pieces);
    }
    arrival t = {.fn = fn, .arg = arg};
    zr_status st = comm->ops->exchange(comm, send, stride_bytes, piece_bytes, grain_bytes, hand_over, &t);
    /* If both the callback and the exchange failed, report the failure of the callback, because it is the cause. */
    if (t.status != ZR_OK) return ZR_FAIL(t.status, "%s", t.text);
    ZR_TRY(st);
    return ZR_OK;
}

zr_status zr_comm_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems)
{
    ZR_CHECK(comm && (data || piece_elems == 0), ZR_ERR_ARG, "zr_comm_reduce_scatter was given a NULL pointer");
    ZR_CHECK(zr_dtype_is_float(dtype), ZR_ERR_DTYPE, "NCCL cannot sum %s here, only F32, BF16 and F16",
             zr_dtype_name(dtype));
    ZR_TRY(check_piece(comm, piece_elems, piece_elems));
    if (comm->size == 1 || piece_elems == 0) return ZR_OK;
    ZR_CHECK(comm->ops->reduce_scatter, ZR_ERR_UNSUPPORTED,
             "the transport %s cannot sum by NCCL, which needs a process for each rank, on GPUs", comm->transport);
    ZR_TRY(comm->ops->reduce_scatter(comm, data, dtype, piece_elems));
    return ZR_OK;
}

zr_status zr__comm_copy_with(zr_comm *comm, const zr_comm_copier *copier)
{
    ZR_CHECK(comm && (!copier || (copier->copy && copier->finish)), ZR_ERR_ARG,
             "zr__comm_copy_with was given a NULL pointer");
    if (zr__comm_process_ranks(comm) < comm->size) {
        ZR_CHECK(!copier || (copier->stream && comm->ops->devices), ZR_ERR_UNSUPPORTED,
                 "the transport %s cannot copy this memory: it moves memory of the host, or of GPUs in the order of a "
                 "stream",
                 comm->transport);
        return comm->ops->devices(comm, copier);
    }
    comm->copier = copier ? *copier : (zr_comm_copier){0};
    return ZR_OK;
}

/* Return the first failure among the copies of the last call, and clear it. */
static zr_status copies_status(zr_comm *comm)
{
    const zr_status st = comm->copied;
    comm->copied = ZR_OK;
    return st == ZR_OK ? ZR_OK : zr_error_frame(st, __func__, __FILE__, __LINE__);
}

/* Check that this rank's piece lies outside `out`, or at its own offset in `out`. Otherwise peers would overwrite the
 * piece while it is still being read. */
static zr_status check_mine(const zr_comm *comm, const void *mine, const void *out, int64_t stride_bytes,
                            int64_t piece_bytes)
{
    uintptr_t from = (uintptr_t)mine, to = (uintptr_t)out, piece = (uintptr_t)piece_bytes;
    uintptr_t end = to + (uintptr_t)((comm->size - 1) * stride_bytes) + piece;
    ZR_CHECK(from == to + (uintptr_t)(comm->rank * stride_bytes) || from + piece <= to || from >= end, ZR_ERR_ARG,
             "the piece of rank %d is inside the gathered buffer, but not at its own place", zr__comm_name(comm));
    return ZR_OK;
}

zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes)
{
    ZR_CHECK(comm && ((mine && out) || piece_bytes == 0), ZR_ERR_ARG, "zr_comm_all_gather was given a NULL pointer");
    ZR_TRY(check_piece(comm, stride_bytes, piece_bytes));
    ZR_TRY(check_staging(comm));
    ZR_TRY(check_mine(comm, mine, out, stride_bytes, piece_bytes));
    if (piece_bytes == 0) return ZR_OK;
    if (comm->size == 1) {
        zr__comm_copy(comm, out, mine, piece_bytes, piece_bytes);
        zr__comm_copied(comm);
    } else {
        ZR_TRY(comm->ops->gather(comm, mine, out, stride_bytes, piece_bytes));
    }
    return copies_status(comm);
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* Exchange numbers without counting traffic. zr_comm_agree and zr__comm_same call this function too, and their numbers
 * do not count as traffic. */
static zr_status scalars(zr_comm *comm, const double *mine, int n)
{
    if (comm->size > 1) return comm->ops->scalars(comm, mine, n);
    memmove(comm->alone, mine, (size_t)n * sizeof *mine); /* memmove, since `mine` may overlap the previous table */
    comm->table = comm->alone;
    return ZR_OK;
}

zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all)
{
    ZR_CHECK(comm && mine, ZR_ERR_ARG, "zr_comm_scalars was given a NULL pointer");
    ZR_CHECK(n >= 1 && n <= ZR_COMM_SCALARS, ZR_ERR_ARG, "%d scalars were given in one call; it must be 1 to %d", n,
             ZR_COMM_SCALARS);
    ZR_TRY(scalars(comm, mine, n));
    if (all) memcpy(all, comm->table, (size_t)comm->size * (size_t)n * sizeof *all);
    /* Count traffic here, because scalars() also serves callers whose numbers do not count. */
    zr__traffic_count(&comm->traffic, ZR_TRAFFIC_ALL_REDUCE, (comm->size - 1) * n * (int64_t)sizeof(double));
    return ZR_OK;
}

zr_status zr_comm_barrier(zr_comm *comm)
{
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_barrier needs a communicator");
    if (comm->size > 1) ZR_TRY(comm->ops->barrier(comm));
    return ZR_OK;
}

/* ---- agree ----------------------------------------------------------------------------------- */

/* Exchange the ranks' statuses. Set *first to the first rank that failed, *status to its status, and their_text to its
 * text. If no rank failed, leave *first at -1. After a failure, a second call of scalars sends the text as bytes, so
 * transports need no function for text. */
static zr_status share_failure(zr_comm *comm, zr_status mine, const char *text, int *first, zr_status *status,
                               char *their_text)
{
    const double code = (double)mine;
    double bytes[ZR_COMM_SCALARS];
    ZR_TRY(scalars(comm, &code, 1));
    for (int r = comm->size - 1; r >= 0; r--)
        if (comm->table[r] != (double)ZR_OK) *first = r;
    if (*first < 0) return ZR_OK;
    *status = (zr_status)comm->table[*first];
    memcpy(bytes, text, TEXT_BYTES);
    ZR_TRY(scalars(comm, bytes, ZR_COMM_SCALARS));
    memcpy(their_text, comm->table + *first * ZR_COMM_SCALARS, TEXT_BYTES);
    return ZR_OK;
}

zr_status zr_comm_agree(zr_comm *comm, zr_status mine)
{
    char text[TEXT_BYTES] = "", their_text[TEXT_BYTES] = "";
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_agree needs a communicator");
    if (mine != ZR_OK) snprintf(text, sizeof text, "%s", zr_error_message());

    int first = -1;
    zr_status status = ZR_OK;
    zr_status shared = share_failure(comm, mine, text, &first, &status, their_text);
    /* Report this rank's own failure instead of the failure to exchange statuses. */
    if (shared != ZR_OK && mine != ZR_OK) return ZR_FAIL(mine, "%s", text);
    ZR_TRY(shared);
    /* Several ranks may have failed with different statuses. All ranks return the status of the first failed rank,
     * because a caller may choose its next call by the status. */
    if (mine == status) return zr_error_frame(mine, __func__, __FILE__, __LINE__);
    if (mine != ZR_OK) return ZR_FAIL(status, "%s", text);
    if (first < 0) return ZR_OK;
    char name[32];
    const int length = snprintf(name, sizeof name, "rank %d: ", comm->world_ranks[first]);
    const bool named = strncmp(their_text, name, (size_t)length) == 0;
    return ZR_FAIL(status, "%s%s", named ? "" : name, their_text);
}

/* ---- same ------------------------------------------------------------------------------------ */

/* Return the number that rank r passed to zr__comm_same. Each number was sent as two 32-bit halves, because a double
 * holds a half exactly. */
static uint64_t number_of(const zr_comm *comm, int r)
{
    return ((uint64_t)comm->table[2 * r] << 32) | (uint64_t)comm->table[2 * r + 1];
}

/* Return the lowest of the ranks that passed the most common number. */
static int usual_rank(const zr_comm *comm)
{
    int usual = 0, most = 0;
    for (int r = 0; r < comm->size; r++) {
        int holders = 0;
        for (int q = 0; q < comm->size; q++) holders += number_of(comm, q) == number_of(comm, r);
        if (holders > most) {
            most = holders;
            usual = r;
        }
    }
    return usual;
}

/* Return the first rank whose number differs from `number`, or the communicator's size if no number differs. */
static int odd_rank(const zr_comm *comm, uint64_t number)
{
    int r = 0;
    while (r < comm->size && number_of(comm, r) == number) r++;
    return r;
}

static void list_odd_ranks(const zr_comm *comm, uint64_t usual, char *list, size_t bytes)
{
    size_t at = 0;
    list[0] = '\0';
    for (int r = 0; r < comm->size; r++) {
        if (number_of(comm, r) == usual) continue;
        if (at > bytes - 24) {
            snprintf(list + at, bytes - at, " ...");
            return;
        }
        at += (size_t)snprintf(list + at, bytes - at, "%s%d", at ? ", " : "", comm->world_ranks[r]);
    }
}

/* Print a number into `text`, and return `text`. A number of more than 48 bits is a hash and is printed in hexadecimal.
 * A smaller number is a count and is printed in decimal. */
#define NUMBER_BYTES 24
static const char *print_number(uint64_t number, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, number >> 48 ? "%016" PRIx64 : "%" PRIu64, number);
    return text;
}

zr_status zr__comm_same(zr_comm *comm, const char *what, uint64_t mine)
{
    ZR_CHECK(comm && what, ZR_ERR_ARG, "zr__comm_same was given a NULL pointer");
    double halves[2] = {(double)(mine >> 32), (double)(mine & 0xffffffffu)};
    ZR_TRY(scalars(comm, halves, 2));
    if (odd_rank(comm, mine) == comm->size) return ZR_OK;
    const int usual = usual_rank(comm);
    const uint64_t wanted = number_of(comm, usual);
    const int odd = odd_rank(comm, wanted);
    char list[200], theirs[NUMBER_BYTES], usually[NUMBER_BYTES];
    list_odd_ranks(comm, wanted, list, sizeof list);
    return ZR_FAIL(ZR_ERR_CONFIG,
                   "%s differs between ranks: rank %s differs from rank %d (rank %d has %s, rank %d has %s); start "
                   "every rank with the same program, options and files",
                   what, list, comm->world_ranks[usual], comm->world_ranks[odd],
                   print_number(number_of(comm, odd), theirs), comm->world_ranks[usual], print_number(wanted, usually));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Return whether rank r passed `color` to the split. comm->table holds every rank's color and key. */
static bool has_color(const zr_comm *comm, int r, int color)
{
    return comm->table[2 * r] == color;
}

/* Return whether rank a comes before rank b in a group. Ranks are ordered by key, and ranks with equal keys by their
 * numbers in `comm`. */
static bool is_before(const zr_comm *comm, int a, int b)
{
    const double first = comm->table[2 * a + 1], second = comm->table[2 * b + 1];
    return first < second || (first == second && a < b);
}

static zr__group find_group(const zr_comm *comm, int color)
{
    zr__group group = {.first = comm->rank, .color = color};
    for (int r = 0; r < comm->size && color >= 0; r++) {
        if (!has_color(comm, r, color)) continue;
        group.size++;
        group.rank += is_before(comm, r, comm->rank);
        if (is_before(comm, r, group.first)) group.first = r;
    }
    return group;
}

void zr__group_names(const zr_comm *comm, const zr__group *group, int *names)
{
    int n = 0;
    for (int r = 0; r < comm->size; r++) {
        if (!has_color(comm, r, group->color)) continue;
        int at = n++;
        for (; at > 0 && is_before(comm, r, names[at - 1]); at--) names[at] = names[at - 1];
        names[at] = r;
    }
    for (int i = 0; i < n; i++) names[i] = comm->world_ranks[names[i]];
}

zr_status zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub)
{
    ZR_CHECK(comm && sub, ZR_ERR_ARG, "zr_comm_split needs a communicator and a place for the new one");
    *sub = NULL;
    double mine[2] = {color, key};
    ZR_TRY(scalars(comm, mine, 2));
    const zr__group group = find_group(comm, color);
    ZR_TRY(comm->ops->split(comm, &group, sub));
    comm->splits++;
    if (*sub) (*sub)->id = zr__hash_join(zr__hash_join(comm->id, (uint64_t)comm->splits), (uint64_t)color);
    return ZR_OK;
}

/* ---- the board ------------------------------------------------------------------------------- */

void zr__comm_set_boards(zr_comm *comm, zr_comm_board *mine, zr_comm_board **boards, int n)
{
    comm->board = mine;
    comm->boards = boards;
    comm->n_boards = n;
    /* Write the field only once for a board, since other ranks may read it afterwards. */
    if (mine->process == 0) mine->process = getpid();
}

void zr__comm_fail(zr_comm *comm)
{
    if (comm && comm->size > 1) __atomic_store_n(&comm->board->failed, 1, __ATOMIC_RELAXED);
}

void zr__comm_show(zr_comm *comm, int i, uint64_t number)
{
    __atomic_store_n(&comm->board->shown[i], number, __ATOMIC_RELAXED);
}

void zr__comm_late(void *arg)
{
    zr_comm *comm = arg;
    uint64_t awaited = 0;
    for (int r = 0; r < comm->size && awaited == 0; r++) {
        zr_comm_board b;
        const int name = comm->world_ranks[r];
        if (zr__comm_look(comm, name, &b) && !((b.waits & 1) && b.group == comm->id)) awaited = 1 + (uint64_t)name;
    }
    __atomic_store_n(&comm->board->awaited, awaited, __ATOMIC_RELAXED);
}

bool zr__comm_look(const zr_comm *comm, int rank, zr_comm_board *board)
{
    const zr_comm_board *b = rank >= 0 && rank < comm->n_boards ? comm->boards[rank] : NULL;
    if (!b) return false;
    board->waits = __atomic_load_n(&b->waits, __ATOMIC_RELAXED);
    board->group = __atomic_load_n(&b->group, __ATOMIC_RELAXED);
    board->process = __atomic_load_n(&b->process, __ATOMIC_RELAXED);
    board->awaited = __atomic_load_n(&b->awaited, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) board->channel[i] = __atomic_load_n(&b->channel[i], __ATOMIC_RELAXED);
    board->told = __atomic_load_n(&b->told, __ATOMIC_RELAXED);
    for (int i = 0; i < ZR_COMM_SHOWN; i++) board->shown[i] = __atomic_load_n(&b->shown[i], __ATOMIC_RELAXED);
    return true;
}

bool zr__comm_overlaps(const zr_comm *comm, bool own_memory)
{
    return comm->concurrent || (own_memory && comm->size > 1 && comm->second_thread);
}

int zr__comm_process_ranks(const zr_comm *comm)
{
    return strcmp(comm->transport, "threads") == 0 ? comm->size : 1;
}

int zr__comm_gone(const zr_comm *comm)
{
    zr_comm_board b;
    for (int r = 0; r < comm->n_boards && comm->processes_seen; r++) {
        if (!zr__comm_look(comm, r, &b) || b.process <= 0 || b.process == comm->board->process) continue;
        if (kill((pid_t)b.process, 0) != 0 && errno == ESRCH) return r;
    }
    return -1;
}

/* Return the address of this host's flag, which lies on the board of the host's first rank. The rank that first reports
 * why the job ends sets the flag. */
static uint64_t *told_mark(const zr_comm *comm)
{
    int r = 0;
    while (!comm->boards[r]) r++; /* the loop ends at this rank's own board at the latest */
    return &comm->boards[r]->told;
}

bool zr__comm_claim_telling(zr_comm *comm)
{
    return __atomic_exchange_n(told_mark(comm), 1, __ATOMIC_RELAXED) == 0;
}

bool zr__comm_told(const zr_comm *comm)
{
    return __atomic_load_n(told_mark(comm), __ATOMIC_RELAXED) != 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

void zr__comm_cancel(zr_comm *comm)
{
    if (comm && comm->size > 1) comm->ops->cancel(comm);
}

void zr_comm_abort(zr_comm *comm, int code)
{
    if (comm) comm->ops->abort(comm, code);
}

void zr_comm_destroy(zr_comm **comm)
{
    if (!comm || !*comm) return;
    (*comm)->ops->destroy(*comm);
    *comm = NULL;
}
