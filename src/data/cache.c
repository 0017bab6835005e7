#include "data/cache.h"

#include "base/folder.h"
#include "base/text.h"
#include "data/encode.h"
#include "data/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { VERSION = 1, HASHED_BYTES = 56, KEY_BYTES = 512, POLL_MS = 50 };

static const char magic[8] = "zrtokens";

/* A text's place in the cache. */
typedef struct place {
    zr__encoding encoding;
    uint64_t key;
    char path[PATH_MAX], part[PATH_MAX]; /* the file, and what it is called until it is whole */
} place;

/* ---- the header ------------------------------------------------------------------------------ */

static unsigned char *put(unsigned char *at, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++) *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static void write_header(const place *p, const zr__encoded *did, unsigned char head[ZR__CACHE_HEADER_BYTES])
{
    memcpy(head, magic, sizeof(magic));
    unsigned char *at = put(head + sizeof(magic), 4, VERSION);
    at = put(at, 4, (uint64_t)p->encoding.token_bytes);
    at = put(at, 8, p->key);
    at = put(at, 8, (uint64_t)did->tokens);
    at = put(at, 8, (uint64_t)did->text_bytes);
    at = put(at, 8, (uint64_t)did->skipped_lines);
    at = put(at, 8, (uint64_t)did->first_skipped);
    put(at, 8, XXH3_64bits(head, HASHED_BYTES));
}

/* The whole file of this key? One that is none, of another version or damaged, is as good as absent. */
static bool read_header(const place *p, const zr__file *file, zr__cached *made)
{
    unsigned char head[ZR__CACHE_HEADER_BYTES];
    if (file->bytes < ZR__CACHE_HEADER_BYTES) return false;
    if (zr__file_read(file, 0, head, sizeof(head), ZR_ERR_DATA) != ZR_OK) return false;
    *made = (zr__cached){.token_bytes = (int)zr__le(head + 12, 4),
                         .tokens = (int64_t)zr__le(head + 24, 8),
                         .text_bytes = (int64_t)zr__le(head + 32, 8),
                         .skipped_lines = (int64_t)zr__le(head + 40, 8),
                         .first_skipped = (int64_t)zr__le(head + 48, 8)};
    return memcmp(head, magic, sizeof(magic)) == 0 && zr__le(head + 8, 4) == VERSION &&
           zr__le(head + HASHED_BYTES, 8) == XXH3_64bits(head, HASHED_BYTES) && zr__le(head + 16, 8) == p->key &&
           made->token_bytes == p->encoding.token_bytes && made->tokens >= 0 &&
           made->tokens == (file->bytes - ZR__CACHE_HEADER_BYTES) / made->token_bytes &&
           (file->bytes - ZR__CACHE_HEADER_BYTES) % made->token_bytes == 0;
}

static bool is_there(const place *p, zr__cached *made)
{
    zr__file file;
    if (access(p->path, F_OK) != 0 || zr__file_open(p->path, false, &file) != ZR_OK) return false;
    const bool whole = read_header(p, &file, made);
    zr__file_close(&file);
    return whole;
}

/* ---- where ----------------------------------------------------------------------------------- */

static zr_status find_folder(const zr_data_args *args, char folder[PATH_MAX])
{
    char cache[PATH_MAX];
    if (args->cache_dir) return zr__path_join(folder, args->cache_dir, "");
    ZR_TRY(zr__cache_folder("tokens of a text (or name a folder, data.cache_dir)", cache));
    return zr__path_join(folder, cache, "tokens");
}

static zr_status find_place(const zr_data_args *args, place *p)
{
    const zr__encoding *x = &p->encoding;
    char folder[PATH_MAX], what[KEY_BYTES], name[64];
    uint64_t text = 0;
    ZR_TRY(zr__file_pass(x->text, NULL, NULL, &text));
    snprintf(what, sizeof(what), "tokens %d: %016llx %016llx %d %s %d", VERSION, (unsigned long long)text,
             (unsigned long long)zr_tokenizer_hash(x->tokenizer), x->token_bytes, x->lines ? "lines" : "text",
             x->lines && x->skip_bad_lines);
    p->key = XXH3_64bits_withSeed(what, strlen(what), x->lines ? XXH3_64bits(x->text_key, strlen(x->text_key)) : 0);
    ZR_TRY(find_folder(args, folder));
    ZR_TRY(zr__make_folders(folder));
    snprintf(name, sizeof(name), "%016llx.tokens", (unsigned long long)p->key);
    ZR_TRY(zr__path_join(p->path, folder, name));
    snprintf(name, sizeof(name), "%016llx.part", (unsigned long long)p->key);
    ZR_TRY(zr__path_join(p->part, folder, name));
    return ZR_OK;
}

/* ---- who makes it ---------------------------------------------------------------------------- */

/* How far another one is. */
static void tell(const place *p, int fd)
{
    struct stat info;
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
    const zr__encoding *x = &p->encoding;
    if (x->progress && fstat(fd, &info) == 0) x->progress(x->arg, info.st_size / x->token_bytes, x->text->bytes);
    nanosleep(&nap, NULL);
}

/* Hold the unfinished file, which whoever makes it has locked. It may have become the finished one meanwhile, or be
 * gone: then *held is false, and it is looked again. */
static zr_status hold(const place *p, zr__file *file, bool *held)
{
    struct stat mine, there;
    int failed = 0;
    *file = (zr__file){.fd = open(p->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)};
    zr__text_escape(p->part, file->name, sizeof(file->name));
    ZR_CHECK(file->fd >= 0, ZR_ERR_CREATE, "%s: cannot create: %s; data.cache_dir names another folder", file->name,
             strerror(errno));
    while ((failed = flock(file->fd, LOCK_EX | LOCK_NB)) != 0 && (errno == EWOULDBLOCK || errno == EINTR))
        tell(p, file->fd);
    ZR_CHECK(!failed, ZR_ERR_CREATE, "%s: cannot lock: %s; data.cache_dir names a folder elsewhere", file->name,
             strerror(errno));
    *held = fstat(file->fd, &mine) == 0 && stat(p->part, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev;
    return ZR_OK;
}

static zr_status make(const place *p, const zr__file *file, zr__cached *made)
{
    unsigned char head[ZR__CACHE_HEADER_BYTES];
    zr__encoded did;
    ZR_CHECK(ftruncate(file->fd, 0) == 0, ZR_ERR_IO, "%s: cannot write: %s", file->name, strerror(errno));
    ZR_TRY(zr__encode(&p->encoding, file, ZR__CACHE_HEADER_BYTES, &did));
    write_header(p, &did, head);
    ZR_TRY(zr__file_write(file, 0, head, sizeof(head)));
    ZR_TRY(zr__file_sync(file));
    ZR_CHECK(rename(p->part, p->path) == 0, ZR_ERR_IO, "%s: cannot rename: %s", file->name, strerror(errno));
    *made = (zr__cached){p->encoding.token_bytes, did.tokens, did.text_bytes, did.skipped_lines, did.first_skipped};
    return ZR_OK;
}

static zr_status find_or_make(const place *p, zr__cached *made)
{
    while (!is_there(p, made)) {
        zr__file file = {.fd = -1};
        bool held = false, there = false;
        zr_status st = hold(p, &file, &held);
        if (held) there = is_there(p, made); /* it may have been made since */
        if (held && !there) st = make(p, &file, made);
        if (held && (there || st != ZR_OK)) unlink(p->part);
        zr__file_close(&file);
        ZR_TRY(st);
        if (held) break;
    }
    return ZR_OK;
}

zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text, bool lines,
                           char path[PATH_MAX], zr__cached *made)
{
    const int64_t vocab = zr_tokenizer_vocab(tokenizer);
    place p = {.encoding = {.text = text,
                            .tokenizer = tokenizer,
                            .lines = lines,
                            .text_key = args->text_key ? args->text_key : "text",
                            .skip_bad_lines = args->skip_bad_lines,
                            .token_bytes = vocab <= 1 << 8    ? 1
                                           : vocab <= 1 << 16 ? 2
                                                              : 4,
                            .progress = args->progress,
                            .arg = args->arg}};
    ZR_TRY(find_place(args, &p));
    ZR_TRY(find_or_make(&p, made));
    memcpy(path, p.path, sizeof(p.path));
    return ZR_OK;
}
