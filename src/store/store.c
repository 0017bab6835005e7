/*
 * A store: a memory space on disk. It is cut into blocks, which are assigned to the files in turn. A read or write is
 * cut into transfers that do not cross the border of a block. Up to `depth` transfers are in flight at a time. Each
 * direction has its own I/O backend (zr__mover), transfers and slots of the passing buffer, so that one thread can read
 * while another writes.
 */
#include "store/store.h"

#include "store/file.h"
#include "store/transfer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    DEPTH_MAX = 1024,
    BLOCK_MAX = 1 << 30, /* io_uring returns the bytes of a transfer as a number of 31 bits */
    TRIES = 1000         /* number of attempts without progress, one per millisecond, after which a transfer fails */
};

/* A range of a file, in bytes; begin == end if empty. */
typedef struct range {
    int64_t begin, end;
} range;

/* State of the transfers in one direction. */
typedef struct lane {
    bool writes;
    pthread_mutex_t lock;
    void *object; /* the mover's instance for this direction */
    zr__transfer *transfer, *idle;
    int n_flying;
    unsigned char *slot[ZR_PASSING_SLOTS]; /* NULL from zr__passing_slots(depth) on */
    bool used[ZR_PASSING_SLOTS];           /* whether a transfer uses the slot */
    range *moved;                          /* range of each file that the current call has moved */
    atomic_llong bytes;
} lane;

struct zr__store {
    const zr__mover *mover;
    int64_t bytes, block_bytes;
    int n_files;
    zr__store_file *file;
    lane lane[2]; /* reads, writes */
    bool pinned;
    char owner[ZR_SHOWN_BYTES];
};

/* A read or write of a caller. */
typedef struct call {
    zr__store *store;
    lane *lane;
    unsigned char *memory;
    int64_t offset, left; /* bytes for which no transfer has begun: their offset in the space, and their number */
    const char *what;
    zr_status status;
} call;

/* ---- one transfer ------------------------------------------------------------------------------ */

static int64_t round_up(int64_t bytes)
{
    return (bytes + ZR_STORE_ALIGN - 1) / ZR_STORE_ALIGN * ZR_STORE_ALIGN;
}

/* Record the first failure of the call. */
static void fail(call *c, const zr__transfer *t, int error)
{
    const char *why = error ? strerror(error) : t->writes ? "no byte was written" : "the file is too short";
    if (c->status != ZR_OK) return;
    c->status =
        ZR_FAIL(ZR_ERR_IO, "%s: cannot %s %s: byte %lld of a file in the folder %s, %lld bytes: %s%s", c->store->owner,
                t->writes ? "write" : "read", c->what, (long long)t->begin, c->store->file[t->file].folder,
                (long long)t->whole, why, error == ENOSPC ? "; free space there" : "");
}

/* Return a transfer to the list of idle transfers, and its slot to its lane. */
static void retire(lane *l, zr__transfer *t)
{
    if (t->slot >= 0) l->used[t->slot] = false;
    t->next = l->idle;
    l->idle = t;
}

static void begin(call *c, zr__transfer *t)
{
    const int error = c->store->mover->begin(c->lane->object, t);
    if (error == 0) {
        c->lane->n_flying++;
    } else {
        fail(c, t, -error);
        retire(c->lane, t);
    }
}

static int free_slot(const lane *l)
{
    for (int i = 0; i < ZR_PASSING_SLOTS; i++)
        if (l->slot[i] && !l->used[i]) return i;
    return -1;
}

/* Begin the next transfer of the call. Return false if it must wait for a transfer in flight. */
static bool begin_next(call *c)
{
    const zr__store *s = c->store;
    lane *l = c->lane;
    zr__transfer *t = l->idle;
    if (!t) return false;
    const int64_t block = c->offset / s->block_bytes, within = c->offset % s->block_bytes;
    int64_t n = s->block_bytes - within < c->left ? s->block_bytes - within : c->left;
    const int file = (int)(block % s->n_files);
    bool passes = false;
    if (s->file[file].direct) {
        passes = (uintptr_t)c->memory % ZR_STORE_ALIGN != 0 || n < ZR_STORE_ALIGN;
        if (!passes) n -= n % ZR_STORE_ALIGN;
    }
    const int slot = passes ? free_slot(l) : -1;
    if (passes && slot < 0) return false;

    l->idle = t->next;
    *t = (zr__transfer){.fd = s->file[file].fd, .writes = l->writes, .memory = c->memory, .bytes = n, .slot = slot};
    t->begin = t->at = block / s->n_files * s->block_bytes + within;
    t->file = file;
    t->whole = n;
    if (passes) {
        t->target = c->memory;
        t->memory = l->slot[slot];
        t->bytes = round_up(n);
        l->used[slot] = true;
        if (l->writes) {
            memcpy(t->memory, c->memory, (size_t)n);
            memset(t->memory + n, 0, (size_t)(t->bytes - n));
        }
    }
    c->memory += n;
    c->offset += n;
    c->left -= n;
    begin(c, t);
    return true;
}

/* Complete a transfer when all its bytes have moved: copy them out of the passing buffer, or start to write them from
 * the page cache to the disk. */
static void complete(call *c, zr__transfer *t)
{
    lane *l = c->lane;
    const zr__store_file *file = &c->store->file[t->file];
    range *moved = &l->moved[t->file];
    if (t->slot >= 0 && !l->writes) memcpy(t->target, l->slot[t->slot], (size_t)t->whole);
    if (!file->cached) return;
    if (l->writes) zr__store_file_push(file, t->begin, t->whole);
    if (moved->begin == moved->end || t->begin < moved->begin) moved->begin = t->begin;
    if (t->begin + t->whole > moved->end) moved->end = t->begin + t->whole;
}

/* Advance a transfer by the bytes that have moved. Return 0 or a negative errno. If a direct transfer ends within a
 * block of ZR_STORE_ALIGN bytes, this block is transferred again. */
static int advance(const call *c, zr__transfer *t)
{
    int64_t n = t->result < t->bytes ? t->result : t->bytes;
    if (n < 0 && n != -EINTR && n != -EAGAIN) return (int)n;
    if (n > 0 && n < t->bytes && c->store->file[t->file].direct) n -= n % ZR_STORE_ALIGN;
    if (n > 0) {
        t->memory += n;
        t->at += n;
        t->bytes -= n;
        t->tries = 0;
        return 0;
    }
    if (++t->tries == TRIES) return n < 0 ? (int)n : -EIO;
    if (n == -EAGAIN) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}

/* Wait for the end of one transfer. Continue it if bytes are left and the call has not failed. */
static void end_one(call *c)
{
    zr__transfer *t = c->store->mover->await(c->lane->object);
    c->lane->n_flying--;
    const int error = t->result == 0 ? 0 : advance(c, t);
    if (t->result == 0 || error) {
        fail(c, t, -error);
    } else if (t->bytes > 0 && c->status == ZR_OK) {
        begin(c, t);
        return;
    } else if (t->bytes == 0) {
        complete(c, t);
    }
    retire(c->lane, t);
}

/* ---- one call ---------------------------------------------------------------------------------- */

/* Drop the bytes that the call has moved from the page cache, as soon as they are on the disk. */
static void drop_moved(call *c)
{
    for (int f = 0; f < c->store->n_files; f++) {
        range *moved = &c->lane->moved[f];
        const int64_t n = moved->end - moved->begin;
        if (n == 0) continue;
        const zr__transfer all = {.writes = c->lane->writes, .file = f, .begin = moved->begin, .whole = n};
        /* Include the rest of the last page, which belongs to no other data: the system drops only whole pages. */
        const int error = zr__store_file_drop(&c->store->file[f], moved->begin, round_up(n), c->lane->writes);
        if (error) fail(c, &all, -error);
        *moved = (range){0};
    }
}

static zr_status move(zr__store *s, bool writes, int64_t offset, void *memory, int64_t bytes, const char *what)
{
    ZR_ASSERT(offset >= 0 && offset % ZR_STORE_ALIGN == 0 && bytes >= 0 && bytes <= s->bytes - offset);
    lane *l = &s->lane[writes];
    call c = {.store = s, .lane = l, .memory = memory, .offset = offset, .left = bytes, .what = what};
    pthread_mutex_lock(&l->lock);
    while (l->n_flying > 0 || (c.left > 0 && c.status == ZR_OK)) {
        while (c.left > 0 && c.status == ZR_OK && begin_next(&c)) {
        }
        if (l->n_flying > 0) end_one(&c);
    }
    drop_moved(&c);
    pthread_mutex_unlock(&l->lock);
    if (c.status == ZR_OK) atomic_fetch_add(&l->bytes, bytes);
    return c.status;
}

zr_status zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what)
{
    return move(store, false, offset, to, bytes, what);
}

zr_status zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes, const char *what)
{
    return move(store, true, offset, (void *)from, bytes, what);
}

/* ---- the store --------------------------------------------------------------------------------- */

static zr_status check_config(const zr__store_config *config)
{
    ZR_CHECK(config->n_folders >= 1, ZR_ERR_ARG, "states on disk need at least one folder");
    ZR_CHECK(config->block_bytes >= ZR_STORE_ALIGN && config->block_bytes <= BLOCK_MAX &&
                 config->block_bytes % ZR_STORE_ALIGN == 0,
             ZR_ERR_ARG, "blocks of %lld bytes for states on disk; a multiple of %d up to %d is needed",
             (long long)config->block_bytes, ZR_STORE_ALIGN, BLOCK_MAX);
    ZR_CHECK(config->depth >= 1 && config->depth <= DEPTH_MAX, ZR_ERR_ARG,
             "%d transfers at a time from and to disk; a number from 1 to %d is needed", config->depth, DEPTH_MAX);
    ZR_ASSERT(config->bytes >= 0 && config->passing && (uintptr_t)config->passing % ZR_STORE_ALIGN == 0);
    return ZR_OK;
}

/* Return the bytes of file `f`: its whole blocks, and the last partial block of the space if the file has it. */
static int64_t bytes_of_file(const zr__store_config *config, int f)
{
    const int64_t bytes = round_up(config->bytes), blocks = bytes / config->block_bytes, n = config->n_folders;
    const int64_t whole = blocks / n + (f < blocks % n);
    return whole * config->block_bytes + (f == blocks % n ? bytes % config->block_bytes : 0);
}

static zr_status create_files(zr__store *s, const zr__store_config *config)
{
    s->file = zr_alloc(sizeof(*s->file) * (size_t)config->n_folders);
    ZR_CHECK(s->file, ZR_ERR_MEMORY, "no memory for %d files", config->n_folders);
    for (; s->n_files < config->n_folders; s->n_files++)
        ZR_TRY(zr__store_file_create(config->folder[s->n_files], bytes_of_file(config, s->n_files), config->passing,
                                     zr__passing_bytes(config->block_bytes, config->depth), s->owner,
                                     &s->file[s->n_files]));
    return ZR_OK;
}

/* Choose the I/O backend (zr__mover) that ZR_STORE names. Without ZR_STORE choose the first one that works on this
 * machine. */
static zr_status create_movers(zr__store *s, int depth)
{
    const zr__mover *asked;
    ZR_TRY(zr__mover_asked(&asked));
    zr_status st = ZR_OK;
    for (int i = 0; zr__movers[i] && !s->mover; i++) {
        const zr__mover *mover = asked ? asked : zr__movers[i];
        void *object[2] = {NULL, NULL};
        st = mover->create(depth, &object[0]);
        if (st == ZR_OK) st = mover->create(depth, &object[1]);
        if (st == ZR_OK) {
            s->mover = mover;
            for (int w = 0; w < 2; w++) s->lane[w].object = object[w];
        } else {
            mover->destroy(object[0]);
            if (asked) return st;
        }
    }
    return st;
}

static zr_status create_lane(zr__store *s, const zr__store_config *config, bool writes)
{
    lane *l = &s->lane[writes];
    const int slots = zr__passing_slots(config->depth);
    l->writes = writes;
    l->transfer = zr_alloc(sizeof(*l->transfer) * (size_t)config->depth);
    l->moved = zr_alloc(sizeof(*l->moved) * (size_t)config->n_folders);
    ZR_CHECK(l->transfer && l->moved, ZR_ERR_MEMORY, "no memory for %d transfers from and to disk", config->depth);
    for (int i = config->depth - 1; i >= 0; i--) {
        l->transfer[i].next = l->idle;
        l->idle = &l->transfer[i];
    }
    for (int i = 0; i < slots; i++)
        l->slot[i] = (unsigned char *)config->passing + (writes * slots + i) * config->block_bytes;
    return ZR_OK;
}

static zr_status create(zr__store *s, const zr__store_config *config)
{
    for (int w = 0; w < 2; w++) ZR_TRY(create_lane(s, config, w));
    ZR_TRY(create_movers(s, config->depth));
    return create_files(s, config);
}

zr_status zr__store_create(const zr__store_config *config, zr__store **store)
{
    *store = NULL;
    ZR_TRY(check_config(config));
    ZR_AUTO(zr__store_destroy) zr__store *s = zr_alloc(sizeof(*s));
    ZR_CHECK(s, ZR_ERR_MEMORY, "no memory for %zu bytes", sizeof(*s));
    s->bytes = config->bytes;
    s->block_bytes = config->block_bytes;
    zr__text_escape(config->owner, s->owner, sizeof s->owner);
    for (int w = 0; w < 2; w++) pthread_mutex_init(&s->lane[w].lock, NULL);
    ZR_TRY(create(s, config));
    *store = ZR_TAKE(s);
    return ZR_OK;
}

void zr__store_destroy(zr__store **store)
{
    zr__store *s = *store;
    *store = NULL;
    if (!s) return;
    for (int w = 0; w < 2; w++) {
        lane *l = &s->lane[w];
        if (s->mover) s->mover->destroy(l->object);
        pthread_mutex_destroy(&l->lock);
        zr_free(l->transfer);
        zr_free(l->moved);
    }
    for (int f = 0; f < s->n_files; f++) zr__store_file_close(&s->file[f]);
    zr_free(s->file);
    zr_free(s);
}

bool zr__store_pin(zr__store *store, void *memory, int64_t bytes)
{
    store->pinned = bytes > 0;
    for (int w = 0; w < 2 && store->pinned; w++)
        store->pinned = store->mover->pin(store->lane[w].object, memory, bytes);
    return store->pinned;
}

zr__store_facts zr__store_facts_of(const zr__store *store)
{
    zr__store_facts facts = {.transfers = store->mover->name, .direct = true, .pinned = store->pinned};
    for (int f = 0; f < store->n_files; f++)
        if (store->file[f].bytes > 0 && !store->file[f].direct) facts.direct = false;
    facts.read_bytes = atomic_load(&store->lane[0].bytes);
    facts.written_bytes = atomic_load(&store->lane[1].bytes);
    return facts;
}
