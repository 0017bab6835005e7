#define XXH_STATIC_LINKING_ONLY /* makes the hash's state a complete type, so that it can be a member of a struct */
#include "data/tokens/cache.h"

#include "base/file/folder.h"
#include "base/text/text.h"
#include "data/text/chat_forms.h"
#include "data/text/encode.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/shard.h"

#include "base/core/core.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* Maximum bytes of a text that is tokenized in one part because the tokenizer knows no cuts: a document of .jsonl, or a
 * whole plain text. The limits bound memory, since another process may be training on this machine. */
#define STRETCH_MOST_BYTES ((int64_t)1 << 20)
#define WHOLE_MOST_BYTES ((int64_t)4 << 20)

enum { VERSION = 6, HASHED_BYTES = 72, KEY_BYTES = 512, NAME_BYTES = 96, POLL_MS = 50 };

static const char magic[8] = "zrtokens";

/* The key of a text in the token cache, and the paths of its files. */
typedef struct place {
    zr__encoding encoding;
    uint64_t form, key;                    /* form: hash of the form of records, 0 for texts */
    bool is_whole;                         /* whether to trust the header instead of checking the hash of the tokens */
    char folder[PATH_MAX], path[PATH_MAX]; /* folder: path of the cache's folder; path: path of the token file */
    char lock[PATH_MAX]; /* path of the lock file, where the creator of the tokens writes its progress */
} place;

/* ---- the header ------------------------------------------------------------------------------ */

static unsigned char *put_le(unsigned char *at, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++) *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static void write_header(const place *p, const zr__encoded *did, uint64_t hash,
                         unsigned char head[ZR__CACHE_HEADER_BYTES])
{
    memcpy(head, magic, sizeof(magic));
    unsigned char *at = put_le(head + sizeof(magic), 4, VERSION);
    at = put_le(at, 4, (uint64_t)p->encoding.token_bytes);
    at = put_le(at, 8, p->key);
    at = put_le(at, 8, (uint64_t)did->tokens);
    at = put_le(at, 8, (uint64_t)did->found.text_bytes);
    at = put_le(at, 8, (uint64_t)did->found.skipped_lines);
    at = put_le(at, 8, (uint64_t)did->found.first_skipped);
    at = put_le(at, 8, hash);
    at = put_le(at, 8, (uint64_t)did->documents);
    put_le(at, 8, XXH3_64bits(head, HASHED_BYTES));
}

/* Read the header. Return whether the file has this key, the current version, and the size given in the header. */
static bool read_header(const place *p, const zr__file *file, zr__cached *made)
{
    unsigned char head[ZR__CACHE_HEADER_BYTES];
    if (file->bytes < ZR__CACHE_HEADER_BYTES) return false;
    if (zr__file_read(file, 0, head, sizeof(head), ZR_ERR_DATA) != ZR_OK) return false;
    *made = (zr__cached){.token_bytes = (int)zr__le(head + 12, 4),
                         .tokens = (int64_t)zr__le(head + 24, 8),
                         .text_bytes = (int64_t)zr__le(head + 32, 8),
                         .skipped_lines = (int64_t)zr__le(head + 40, 8),
                         .first_skipped = (int64_t)zr__le(head + 48, 8),
                         .hash = zr__le(head + 56, 8),
                         .documents = (int64_t)zr__le(head + 64, 8)};
    const int64_t bytes = file->bytes - ZR__CACHE_HEADER_BYTES;
    return memcmp(head, magic, sizeof(magic)) == 0 && zr__le(head + 8, 4) == VERSION &&
           zr__le(head + HASHED_BYTES, 8) == XXH3_64bits(head, HASHED_BYTES) && zr__le(head + 16, 8) == p->key &&
           made->token_bytes == p->encoding.token_bytes && made->tokens >= 0 && made->documents >= 0 &&
           made->documents <= bytes / ZR__CACHE_DOCUMENT_BYTES && made->tokens <= bytes / made->token_bytes &&
           made->tokens * made->token_bytes + made->documents * ZR__CACHE_DOCUMENT_BYTES == bytes;
}

/* ---- the tokens ------------------------------------------------------------------------------ */

/* A pass over the tokens of a cache file. */
typedef struct reading {
    const zr__encoding *encoding;
    int64_t bytes; /* size of the cache file */
} reading;

/* Report the progress of the pass over a cache file. All progress is reported in bytes of text, so convert it. */
static zr_status tell_of_tokens(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const reading *r = arg;
    const zr__encoding *x = r->encoding;
    const double share = (double)(at + bytes) / (double)r->bytes;
    (void)piece;
    if (x->progress) x->progress(x->arg, (int64_t)(share * (double)x->parts.file->bytes), x->parts.file->bytes);
    return ZR_OK;
}

/* Check the tokens against the hash in the header. A file that cannot be read counts as damaged. Return ZR_ERR_MEMORY
 * as an error, because it says nothing about the file. */
static zr_status check_tokens(const place *p, const zr__file *file, const zr__cached *made, bool *whole)
{
    uint64_t hash = 0;
    reading r = {&p->encoding, file->bytes};
    const zr_status st = zr__file_pass_from(file, ZR__CACHE_HEADER_BYTES, tell_of_tokens, &r, &hash);
    if (st == ZR_ERR_MEMORY) return st;
    *whole = st == ZR_OK && hash == made->hash;
    return ZR_OK;
}

typedef enum found { ABSENT, DAMAGED, WHOLE } found;

static zr_status look_at(const place *p, zr__cached *made, found *there)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    *there = ABSENT;
    if (access(p->path, F_OK) != 0 || zr__file_open(p->path, false, &file) != ZR_OK) return ZR_OK;
    bool whole = read_header(p, &file, made);
    if (whole && !p->is_whole) {
        ZR_TRY(check_tokens(p, &file, made, &whole));
        made->checked = whole;
    }
    *there = whole ? WHOLE : DAMAGED;
    return ZR_OK;
}

/* ---- where ----------------------------------------------------------------------------------- */

static zr_status find_folder(const zr_data_args *args, char folder[PATH_MAX])
{
    char cache[PATH_MAX];
    ZR_CHECK(!args->cache_dir || args->cache_dir[0], ZR_ERR_CONFIG,
             "data.cache_dir is empty; give a directory (\".\" is the current one), or null for the user's cache");
    if (args->cache_dir) return zr__path_join(folder, args->cache_dir, "");
    ZR_TRY(zr__cache_folder("tokens of a text (or name a folder, data.cache_dir)", cache));
    return zr__path_join(folder, cache, "tokens");
}

/* Report the progress of hashing the text. */
static zr_status tell_of_pass(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const zr__encoding *x = arg;
    (void)piece;
    if (x->progress) x->progress(x->arg, at + bytes, x->parts.file->bytes);
    return ZR_OK;
}

/* Write everything about instruction data that affects tokens, other than the text, the tokenizer and the form. */
static zr_status instruct_key(const zr__instruct *x, char key[KEY_BYTES / 2])
{
    key[0] = '\0';
    if (!x) return ZR_OK;
    const bool pairs = x->found->kind == ZR__LINES_PAIR;
    /* in their order, which a template shows if it prints an object */
    char *variables = json_dumps(x->chat.variables, JSON_COMPACT);
    ZR_CHECK(variables, ZR_ERR_MEMORY, "no memory for the variables of a chat template");
    snprintf(key, KEY_BYTES / 2, " %s %016llx %016llx %s %s %s %d", pairs ? "pairs" : "messages",
             pairs ? 0 : (unsigned long long)x->chat.hash,
             pairs ? 0 : (unsigned long long)XXH3_64bits(variables, strlen(variables)), x->chat.date, x->chat.begin,
             x->chat.end, (int)x->loss_on);
    free(variables);
    return ZR_OK;
}

static zr_status find_place(const zr_data_args *args, place *p)
{
    zr__encoding *x = &p->encoding;
    char what[KEY_BYTES], how[KEY_BYTES / 2];
    uint64_t text = 0;
    ZR_TRY(instruct_key(x->instruct, how));
    ZR_TRY(find_folder(args, p->folder));
    zr_status st = zr__make_folders(p->folder);
    ZR_CHECK(st == ZR_OK, st, "%s; tokens of texts are kept there; name another directory with data.cache_dir",
             zr_error_message());
    ZR_TRY(zr__file_pass(x->parts.file, tell_of_pass, x, &text));
    snprintf(what, sizeof(what), "tokens %d: %016llx %016llx %d %s %d%s", VERSION, (unsigned long long)text,
             (unsigned long long)zr_tokenizer_hash(x->tokenizer), x->token_bytes,
             x->sentences     ? "sentences"
             : x->parts.shape ? "lines"
                              : "text",
             x->parts.shape && x->parts.skip_bad_lines, how);
    p->key = XXH3_64bits_withSeed(what, strlen(what), p->form);
    ZR_TRY(zr__path_format(p->path, "%s/%016llx.tokens", p->folder, (unsigned long long)p->key));
    return zr__path_format(p->lock, "%s/%016llx.lock", p->folder, (unsigned long long)p->key);
}

/* ---- unfinished files ------------------------------------------------------------------------ */

/* Write the prefix with which this host's unfinished files for this key begin: the key and a hash of the host's name.
 * In a file's name, the thread and the time follow the prefix. Therefore two creators never write to the same file,
 * even if locks do not work. */
static void name_parts(const place *p, char name[NAME_BYTES])
{
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(name, NAME_BYTES, "%016llx.%016llx.", (unsigned long long)p->key,
             (unsigned long long)XXH3_64bits(host, strlen(host)));
}

static zr_status name_part(const place *p, char path[PATH_MAX])
{
    struct timespec now = {0};
    char start[NAME_BYTES];
    name_parts(p, start);
    clock_gettime(CLOCK_REALTIME, &now);
    return zr__path_format(path, "%s/%s%ld.%lld%09ld.part", p->folder, start, (long)gettid(), (long long)now.tv_sec,
                           now.tv_nsec);
}

/* Remove this host's unfinished files whose thread no longer exists. */
static void remove_rests(const place *p)
{
    char start[NAME_BYTES];
    name_parts(p, start);
    DIR *dir = opendir(p->folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        long thread = 0;
        const bool mine = strncmp(e->d_name, start, strlen(start)) == 0;
        if (mine && sscanf(e->d_name + strlen(start), "%ld", &thread) == 1 && kill((pid_t)thread, 0) != 0 &&
            errno == ESRCH)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir) closedir(dir);
}

/* ---- who makes it ---------------------------------------------------------------------------- */

/* Context for reporting this process's progress to waiting processes and to the caller. */
typedef struct teller {
    const place *p;
    int lock;
} teller;

static void tell_waiting(void *arg, int64_t done, int64_t all)
{
    const teller *t = arg;
    const zr__encoding *x = &t->p->encoding;
    unsigned char number[8];
    put_le(number, sizeof(number), (uint64_t)done);
    (void)!pwrite(t->lock, number, sizeof(number), 0); /* if this fails, waiting processes just see no progress */
    if (x->progress) x->progress(x->arg, done, all);
}

/* Report the progress of the process that is creating the file. Then sleep for a moment. */
static void await_maker(const place *p, int lock)
{
    unsigned char number[8];
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
    const zr__encoding *x = &p->encoding;
    const int64_t all = x->parts.file->bytes;
    if (x->progress && pread(lock, number, sizeof(number), 0) == (ssize_t)sizeof(number)) {
        const uint64_t done = zr__le(number, sizeof(number));
        x->progress(x->arg, done < (uint64_t)all ? (int64_t)done : all, all);
    }
    nanosleep(&nap, NULL);
}

/* Wait for the lock. The lock only avoids double work and is not needed for correctness. On a network file system each
 * host may have its own lock, or locks may not work at all. If the previous holder has removed the lock file, set *held
 * to false. The caller must then look for the tokens again. */
static zr_status hold_lock(const place *p, zr__file *lock, bool *held)
{
    struct stat mine, there;
    *lock = (zr__file){.fd = open(p->lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)};
    zr__text_escape(p->lock, lock->name, sizeof(lock->name));
    ZR_CHECK(lock->fd >= 0, ZR_ERR_CREATE,
             "%s: cannot create this file of the token cache: %s; name another directory with data.cache_dir",
             lock->name, zr__error_text(errno));
    while (flock(lock->fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR))
        await_maker(p, lock->fd);
    *held = fstat(lock->fd, &mine) == 0 && stat(p->lock, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev;
    return ZR_OK;
}

/* Give the finished file its final name atomically. If another host has created a complete file of this name meanwhile,
 * keep that file, since others read it. */
static zr_status publish(const place *p, const zr__file *file, const char *part)
{
    zr__cached its;
    found there;
    if (link(part, p->path) == 0) return ZR_OK;
    ZR_TRY(look_at(p, &its, &there));
    if (there == WHOLE || rename(part, p->path) == 0) return ZR_OK;
    const int error = errno;
    ZR_TRY(look_at(p, &its, &there)); /* another process may have finished the file */
    ZR_CHECK(there == WHOLE, ZR_ERR_IO, "%s: cannot rename: %s", file->name, strerror(error));
    return ZR_OK;
}

/* The file being written, and the current offset in the file. */
typedef struct output {
    const zr__file *file;
    int64_t at;
    int token_bytes;
    zr__file index;      /* temporary file with the index of documents, which is finally copied behind the tokens */
    int64_t index_bytes; /* bytes written to `index` */
    XXH3_state_t hash;
} output;

static zr_status put_tokens(void *arg, const unsigned char *tokens, int64_t n)
{
    output *o = arg;
    ZR_TRY(zr__file_write(o->file, o->at, tokens, n * o->token_bytes));
    (void)XXH3_64bits_update(&o->hash, tokens, (size_t)(n * o->token_bytes));
    o->at += n * o->token_bytes;
    return ZR_OK;
}

static zr_status put_documents(void *arg, const zr__document *document, int64_t n)
{
    output *o = arg;
    unsigned char entry[64 * ZR__CACHE_DOCUMENT_BYTES], *at = entry;
    for (int64_t i = 0; i < n; i++) {
        at = put_le(at, 8, (uint64_t)document[i].first);
        at = put_le(at, 8, (uint64_t)document[i].answer);
        if (at < entry + sizeof(entry) && i < n - 1) continue;
        ZR_TRY(zr__file_write(&o->index, o->index_bytes, entry, at - entry));
        o->index_bytes += at - entry;
        at = entry;
    }
    return ZR_OK;
}

/* Copy the index of documents behind the tokens. */
static zr_status append_index(output *o)
{
    unsigned char piece[4096];
    for (int64_t at = 0, n; at < o->index_bytes; at += n) {
        n = o->index_bytes - at < (int64_t)sizeof(piece) ? o->index_bytes - at : (int64_t)sizeof(piece);
        ZR_TRY(zr__file_read(&o->index, at, piece, n, ZR_ERR_IO));
        ZR_TRY(zr__file_write(o->file, o->at, piece, n));
        (void)XXH3_64bits_update(&o->hash, piece, (size_t)n);
        o->at += n;
    }
    return ZR_OK;
}

/* Create the temporary file of the index. It has no name, so that it vanishes with this process. */
static zr_status open_index(const char *part, zr__file *index)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_format(path, "%s.index.part", part));
    ZR_TRY(zr__file_create(path, index));
    unlink(path);
    return ZR_OK;
}

/* Write the tokens, and then the index of documents. */
static zr_status write_body(const place *p, int lock, const char *part, output *out, zr__encoded *did)
{
    teller t = {p, lock};
    zr__encoding x = p->encoding;
    (void)XXH3_64bits_reset(&out->hash);
    x.put = put_tokens;
    x.put_documents = put_documents;
    x.put_arg = out;
    x.progress = tell_waiting;
    x.arg = &t;
    if (x.parts.shape) ZR_TRY(open_index(part, &out->index));
    ZR_TRY(zr__encode(&x, did));
    return append_index(out);
}

static zr_status write_tokens(const place *p, int lock, const char *part, const zr__file *file, zr__cached *made)
{
    unsigned char head[ZR__CACHE_HEADER_BYTES];
    zr__encoded did = {0};
    const int token_bytes = p->encoding.token_bytes;
    output out = {.file = file, .at = ZR__CACHE_HEADER_BYTES, .token_bytes = token_bytes, .index = {.fd = -1}};
    zr_status st = write_body(p, lock, part, &out, &did);
    zr__file_close(&out.index);
    ZR_TRY(st);
    const uint64_t hash = XXH3_64bits_digest(&out.hash);
    write_header(p, &did, hash, head);
    ZR_TRY(zr__file_write(file, 0, head, sizeof(head)));
    ZR_TRY(zr__file_sync(file));
    *made = (zr__cached){.token_bytes = token_bytes,
                         .tokens = did.tokens,
                         .documents = did.documents,
                         .text_bytes = did.found.text_bytes,
                         .skipped_lines = did.found.skipped_lines,
                         .first_skipped = did.found.first_skipped,
                         .hash = hash,
                         .checked = true};
    return ZR_OK;
}

static zr_status make_tokens(const place *p, int lock, zr__cached *made)
{
    char part[PATH_MAX];
    zr__file file;
    remove_rests(p);
    ZR_TRY(name_part(p, part));
    ZR_TRY(zr__file_create(part, &file));
    zr_status st = write_tokens(p, lock, part, &file, made);
    zr__file_close(&file);
    if (st == ZR_OK) st = publish(p, &file, part);
    unlink(part);
    return st;
}

static zr_status find_or_make(const place *p, zr__cached *made)
{
    bool damaged = false, held = false;
    for (found there = ABSENT; !held;) {
        zr__file lock = {.fd = -1};
        ZR_TRY(look_at(p, made, &there));
        if (there == WHOLE) break;
        damaged |= there == DAMAGED;
        zr_status st = hold_lock(p, &lock, &held);
        if (held) st = look_at(p, made, &there); /* another process may have finished the file meanwhile */
        if (held && st == ZR_OK && there != WHOLE) st = make_tokens(p, lock.fd, made);
        if (held) unlink(p->lock);
        zr__file_close(&lock);
        ZR_TRY(st);
    }
    made->damaged = damaged;
    return ZR_OK;
}

/* Find the form of a file of records, and how to read it. *how receives NULL if each record has one text. */
static zr_status find_instruct(const zr_data_args *args, const zr_tokenizer *tokenizer, zr__parts *parts,
                               zr__form_found *records, zr__instruct *instruct, const zr__instruct **how)
{
    ZR_TRY(zr__form_find(parts, args->columns, args->text_key, records));
    parts->text_key = records->member[ZR__SLOT_TEXT];
    if (records->kind == ZR__LINES_TEXT) return ZR_OK;
    ZR_TRY(zr__instruct_open(tokenizer, records, args, parts->file->name, instruct));
    *how = instruct;
    return ZR_OK;
}

zr_status zr__cache_tokens(const zr_data_args *args, const zr_tokenizer *tokenizer, const zr__file *text,
                           zr__shape shape, zr__text_form form, char path[PATH_MAX], zr__cached *made)
{
    const bool lines = form != ZR__TEXT_PLAIN;
    const int64_t vocab = zr_tokenizer_vocab(tokenizer);
    const int32_t end = zr__tokenizer_separator(tokenizer);
    zr__parts parts = {.file = text,
                       .most_bytes = STRETCH_MOST_BYTES,
                       .shape = form == ZR__TEXT_SENTENCES ? ZR__SHAPE_LINES : shape,
                       .skip_bad_lines = args->skip_bad_lines,
                       .remedy = form == ZR__TEXT_SENTENCES ? "put each sentence on a line of its own"
                                                            : "use data.bad_lines \"skip\" to skip such records",
                       .or_text = form == ZR__TEXT_SENTENCES || zr__shape_is_lines(text->name)
                                      ? NULL
                                      : ", or give data.format \"text\" to read the file as text"};
    ZR_AUTO(zr__form_close) zr__form_found records = {0};
    ZR_AUTO(zr__instruct_close) zr__instruct instruct = {0};
    const zr__instruct *how = NULL;
    ZR_CHECK(lines || text->bytes <= WHOLE_MOST_BYTES || zr__encode_cuts(tokenizer), ZR_ERR_UNSUPPORTED,
             "%s: %lld bytes; the tokenizer %s does not say where text may be cut, so up to %lld bytes are tokenized "
             "here, whole; write the tokens to a file with `zr tokenize`, or the text as .jsonl, a document a line",
             text->name, (long long)text->bytes, zr_tokenizer_name(tokenizer), (long long)WHOLE_MOST_BYTES);
    if (form == ZR__TEXT_JSONL) ZR_TRY(find_instruct(args, tokenizer, &parts, &records, &instruct, &how));
    place p = {.encoding = {.parts = parts,
                            .tokenizer = tokenizer,
                            .instruct = how,
                            .sentences = form == ZR__TEXT_SENTENCES,
                            .separator = end == ZR__NO_SEPARATOR ? zr_tokenizer_token(tokenizer, "\n") : end,
                            .token_bytes = how                ? 4
                                           : vocab <= 1 << 8  ? 1
                                           : vocab <= 1 << 16 ? 2
                                                              : 4,
                            .progress = args->progress,
                            .arg = args->arg},
               .form = form == ZR__TEXT_JSONL ? zr__hash_join(zr__form_hash(&records), (uint64_t)shape) : 0,
               .is_whole = args->cache_is_whole};
    ZR_TRY(find_place(args, &p));
    ZR_TRY(find_or_make(&p, made));
    made->kind = records.kind;
    const bool usual = records.kind == ZR__LINES_TEXT && strcmp(records.said, "text") == 0;
    snprintf(made->said, sizeof(made->said), "%s%s", usual ? "" : records.said,
             how && how->chat.form && how->chat.form->plain ? ", in Alpaca's prompt (data.chat_template alpaca)" : "");
    memcpy(path, p.path, sizeof(p.path));
    return ZR_OK;
}
