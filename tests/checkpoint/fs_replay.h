/* Records the calls of the file system with all bytes written (fs_record.h), and reconstructs every content that a disk
 * may have when the machine stops between two calls. Only fsync guarantees anything: of a file's bytes written since
 * its last sync, any part may be there, in any order, cut at any sector; the same holds for a folder's names since its
 * last sync. For a test that links with fs_record.h's flags and with
 *
 *   -Wl,--wrap=unlink,--wrap=unlinkat,--wrap=renameat */
#ifndef FS_REPLAY_H
#define FS_REPLAY_H

#include "support/fs_record.h"
#include "zr/base.h"

int __real_unlink(const char *path);
int __real_unlinkat(int folder, const char *path, int flags);
int __real_renameat(int from, const char *path, int to, const char *name);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int folder, const char *path, int flags);
int __wrap_renameat(int from, const char *path, int to, const char *name);

enum { FS_EVENTS = 1024, FS_FILES = 128, FS_NAMES = 24, FS_NAME_BYTES = 64, FS_FILE_ROOM = 1 << 14, FS_SECTOR = 512 };

/* A recorded call. Each new node gets a number of its own, even if the real file system reuses an inode for it. */
typedef struct fs_past {
    int kind;
    /* for WRITE, SIZE and SYNC: the node; for MAKE, MOVE and DROP: the folder of a name, and the node of the name */
    int node, folder;
    char name[FS_NAME_BYTES], to[FS_NAME_BYTES];
    char *bytes;
    off_t at, n;
} fs_past;

typedef struct fs_name {
    char name[FS_NAME_BYTES];
    int node;
} fs_name;

/* A file's bytes or a folder's names, as they are on disk. */
typedef struct fs_content {
    char bytes[FS_FILE_ROOM];
    off_t n;
    fs_name name[FS_NAMES];
    int n_names;
} fs_content;

static struct fs_replay {
    fs_past past[FS_EVENTS];
    int n_past;
    ino_t number[FS_FILES]; /* inode of each node; 0: the file is gone */
    bool folder[FS_FILES];
    int n_nodes;
    fs_content disk[FS_FILES];
    zr_rng rng;
    uint64_t drawn;
} replay;

/* ---- recording ------------------------------------------------------------------------------- */

static inline int fs_node_of(ino_t number)
{
    for (int i = 0; i < replay.n_nodes; i++)
        if (replay.number[i] == number) return i;
    return -1;
}

static inline int fs_node_make(ino_t number, bool folder)
{
    int old = fs_node_of(number);
    if (old >= 0) replay.number[old] = 0;
    if (replay.n_nodes == FS_FILES) abort();
    replay.number[replay.n_nodes] = number;
    replay.folder[replay.n_nodes] = folder;
    return replay.n_nodes++;
}

/* Return the node of a path's folder and write its last component to `name`; -1: the folder is not recorded. */
static inline int fs_split(int folder, const char *path, char name[FS_NAME_BYTES])
{
    char up[4200];
    struct stat st;
    const char *slash = strrchr(path, '/');
    snprintf(name, FS_NAME_BYTES, "%s", slash ? slash + 1 : path);
    snprintf(up, sizeof up, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return fstatat(folder, up, &st, 0) == 0 ? fs_node_of(st.st_ino) : -1;
}

static inline void fs_keep(const fs_event *e)
{
    fs_past *p = &replay.past[replay.n_past];
    struct stat st = {0};
    int folder;
    if (replay.n_past == FS_EVENTS) abort();
    *p = (fs_past){.kind = (int)e->kind, .at = e->at, .n = e->n, .node = -1};
    if (e->kind == FS_MAKE || e->kind == FS_MOVE || e->kind == FS_DROP) {
        p->folder = fs_split(e->folder, e->path, p->name);
        if (p->folder < 0) return;
        const char *now = e->path;
        if (e->kind == FS_MOVE) {
            folder = fs_split(e->folder, now = e->to, p->to);
            if (folder != p->folder) abort(); /* a move between folders is not supported */
        }
        if (e->kind != FS_DROP && fstatat(e->folder, now, &st, AT_SYMLINK_NOFOLLOW) != 0) abort();
        if (e->kind == FS_MAKE) p->node = fs_node_make(st.st_ino, S_ISDIR(st.st_mode));
        if (e->kind == FS_MOVE) p->node = fs_node_of(st.st_ino);
    } else {
        if (fstat(e->fd, &st) != 0) abort();
        p->node = fs_node_of(st.st_ino);
        if (p->node < 0) return;
    }
    if (e->kind == FS_WRITE) {
        p->bytes = malloc((size_t)e->n);
        if (!p->bytes || e->at + e->n > FS_FILE_ROOM) abort();
        memcpy(p->bytes, e->bytes, (size_t)e->n);
    }
    replay.n_past++;
}

/* Start recording everything below an empty folder. */
static inline void fs_replay_start(const char *folder)
{
    struct stat st;
    if (stat(folder, &st) != 0) abort();
    replay.n_past = replay.n_nodes = 0;
    replay.rng = (zr_rng){.seed = 5, .purpose = ZR_RNG_SHUFFLE};
    fs_node_make(st.st_ino, true);
    fs_told = fs_keep;
}

static inline void fs_replay_end(void)
{
    fs_told = NULL;
    for (int i = 0; i < replay.n_past; i++) free(replay.past[i].bytes);
    replay.n_past = 0;
}

int __wrap_unlink(const char *path)
{
    int failed = __real_unlink(path);
    fs_tell(!failed, (fs_event){FS_DROP, .folder = AT_FDCWD, .path = path});
    return failed;
}

int __wrap_unlinkat(int folder, const char *path, int flags)
{
    int failed = __real_unlinkat(folder, path, flags);
    fs_tell(!failed, (fs_event){FS_DROP, .folder = folder, .path = path});
    return failed;
}

int __wrap_renameat(int from, const char *path, int to, const char *name)
{
    int failed = __real_renameat(from, path, to, name);
    fs_tell(!failed, (fs_event){FS_MOVE, .folder = from, .path = path, .to = name});
    return failed;
}

/* ---- replaying ------------------------------------------------------------------------------- */

/* The outcome for data that were not synced. */
typedef enum fs_fate {
    FS_NOTHING, /* neither names nor bytes are on disk */
    FS_NAMED,   /* names are on disk, bytes are not */
    FS_UNNAMED, /* bytes are on disk, names are not */
    FS_ALL,
    FS_BY_LOT, /* random, with writes reordered and torn; each further number is another random outcome */
    FS_FATES = 12
} fs_fate;

static inline uint32_t fs_draw(uint32_t n)
{
    return zr_rng_u32(&replay.rng, replay.drawn++) % n;
}

static inline void fs_name_drop(fs_content *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++)
        if (strcmp(c->name[i].name, name) == 0) {
            c->name[i] = c->name[--c->n_names];
            return;
        }
}

static inline void fs_name_set(fs_content *c, const char *name, int node)
{
    fs_name_drop(c, name);
    if (c->n_names == FS_NAMES) abort();
    snprintf(c->name[c->n_names].name, FS_NAME_BYTES, "%s", name);
    c->name[c->n_names++].node = node;
}

/* Apply sectors [first, end) of a call's data to the disk; (0, INT_MAX) applies all. */
static inline void fs_apply(const fs_past *p, off_t first, off_t end)
{
    bool named = p->kind == FS_MAKE || p->kind == FS_MOVE || p->kind == FS_DROP;
    fs_content *c = &replay.disk[named ? p->folder : p->node];
    if (p->kind == FS_MOVE || p->kind == FS_DROP) fs_name_drop(c, p->name);
    if (p->kind == FS_MAKE || p->kind == FS_MOVE) fs_name_set(c, p->kind == FS_MAKE ? p->name : p->to, p->node);
    if (p->kind == FS_SIZE) {
        if (p->n > c->n) memset(c->bytes + c->n, 0, (size_t)(p->n - c->n));
        c->n = p->n;
    }
    if (p->kind != FS_WRITE) return;
    for (off_t at = p->at; at < p->at + p->n; at++)
        if (at / FS_SECTOR >= first && at / FS_SECTOR < end) {
            if (at > c->n) memset(c->bytes + c->n, 0, (size_t)(at - c->n));
            c->bytes[at] = p->bytes[at - p->at];
            if (c->n <= at) c->n = at + 1;
        }
}

static inline int fs_subject(const fs_past *p)
{
    return p->kind == FS_MAKE || p->kind == FS_MOVE || p->kind == FS_DROP ? p->folder : p->node;
}

/* Compute a node's content on disk after the first `end` calls: everything synced, and the part of the rest that `fate`
 * selects. */
static inline void fs_settle(int node, int end, fs_fate fate)
{
    int open[FS_EVENTS], n = 0;
    replay.disk[node].n = replay.disk[node].n_names = 0;
    for (int i = 0; i < end; i++) {
        const fs_past *p = &replay.past[i];
        if (fs_subject(p) != node) continue;
        if (p->kind != FS_SYNC) open[n++] = i;
        for (int j = 0; p->kind == FS_SYNC && j < n; j++) fs_apply(&replay.past[open[j]], 0, INT32_MAX);
        if (p->kind == FS_SYNC) n = 0;
    }
    bool lot = fate >= FS_BY_LOT, folder = replay.folder[node];
    if (!lot && fate != FS_ALL && fate != (folder ? FS_NAMED : FS_UNNAMED)) return;
    for (int i = 0; lot && !folder && i + 1 < n; i++) { /* bytes in any order; names are journaled: some get lost */
        int j = i + (int)fs_draw((uint32_t)(n - i)), held = open[i];
        open[i] = open[j];
        open[j] = held;
    }
    for (int i = 0; i < n; i++) {
        off_t first = lot ? (off_t)fs_draw(4) : 0, end_sector = lot ? first + (off_t)fs_draw(16) : INT32_MAX;
        if (!lot || fs_draw(2)) fs_apply(&replay.past[open[i]], first, end_sector);
    }
}

static inline void fs_put(const char *path, int node)
{
    char below[4200];
    const fs_content *c = &replay.disk[node];
    if (!replay.folder[node]) {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(c->bytes, 1, (size_t)c->n, file) != (size_t)c->n || fclose(file)) abort();
        return;
    }
    if (__real_mkdir(path, 0777) != 0) abort();
    for (int i = 0; i < c->n_names; i++) {
        snprintf(below, sizeof below, "%.4096s/%s", path, c->name[i].name);
        fs_put(below, c->name[i].node);
    }
}

/* Create at `path`, which does not exist, a content that the disk may have after the first `calls` calls. */
static inline void fs_replay_put(const char *path, int calls, fs_fate fate)
{
    replay.drawn = (uint64_t)calls * 100000 + (uint64_t)fate * 1000000000;
    for (int node = 0; node < replay.n_nodes; node++) fs_settle(node, calls, fate);
    fs_put(path, 0);
}

#endif
