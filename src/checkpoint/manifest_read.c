/*
 * Reading manifests. Members have a fixed order, so the text is read once, token by token. A member that is missing,
 * unknown or repeated causes the same error. Memory stays proportional to the length of the text, even if the text
 * contains large numbers. Strings have no escapes. Only "run" is arbitrary JSON, of limited size.
 */
#include "base/core/grow.h"
#include "base/json/json_scan.h"
#include "base/text/text.h"
#include "checkpoint/chunks.h"
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16 /* hex digits of a hash */ };

typedef struct parser {
    const char *file; /* the file's name in messages */
    const char *text;
    size_t bytes, at;
    int64_t format;
    zr__manifest *m;
    zr__manifest_file *list; /* m->file as a writable array, while it is filled */
    int64_t room;
} parser;

#define REFUSE_UNLESS(cond, p, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return refuse_manifest((p), __VA_ARGS__);                                                         \
    } while (0)

static zr_status refuse_manifest(const parser *p, const char *format, ...) ZR_PRINTF(2, 3);

static zr_status refuse_manifest(const parser *p, const char *format, ...)
{
    char reason[640];
    ZR_PRINT_ARGS(reason, format);
    return ZR_FAIL(ZR_ERR_DATA, "%s: byte %zu: %s", p->file, p->at, reason);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static zr__json_token next_token(parser *p)
{
    zr__json_token token = zr__json_next(p->text, p->bytes, p->at);
    p->at = token.end;
    return token;
}

static zr_status expect_mark(parser *p, char kind)
{
    zr__json_token token = next_token(p);
    p->at = token.begin;
    REFUSE_UNLESS(token.kind == kind, p, "wanted '%c'", kind);
    p->at = token.end;
    return ZR_OK;
}

/* Read a string that has no escapes. *begin and *n exclude the quotes. */
static zr_status read_string(parser *p, const char *wanted, size_t max, const char **begin, size_t *n)
{
    zr__json_token token = next_token(p);
    p->at = token.begin;
    REFUSE_UNLESS(token.kind == '"' && token.end - token.begin >= 2 && p->text[token.end - 1] == '"', p,
                  "wanted %s in quotes", wanted);
    *begin = p->text + token.begin + 1;
    *n = token.end - token.begin - 2;
    REFUSE_UNLESS(*n <= max, p, "%s of %zu bytes, wanted at most %zu", wanted, *n, max);
    for (size_t i = 0; i < *n; i++)
        REFUSE_UNLESS((*begin)[i] >= 0x20 && (*begin)[i] <= 0x7e && (*begin)[i] != '\\', p, "%s is not plain ASCII",
                      wanted);
    p->at = token.end;
    return ZR_OK;
}

/* Read `"key": ` of the first member of an object. */
static zr_status expect_member(parser *p, const char *key)
{
    size_t n = strlen(key);
    zr__json_token token = next_token(p);
    p->at = token.begin;
    REFUSE_UNLESS(token.end - token.begin == n + 2 && p->text[token.begin] == '"' && p->text[token.end - 1] == '"' &&
                      memcmp(p->text + token.begin + 1, key, n) == 0,
                  p, "wanted the member \"%s\"", key);
    p->at = token.end;
    return expect_mark(p, ':');
}

/* Read the comma and `"key": ` of a member that is not the first. */
static zr_status expect_next(parser *p, const char *key)
{
    ZR_TRY(expect_mark(p, ','));
    return expect_member(p, key);
}

/* Read the comma or the closing bracket after an array's element. Set *more to true after a comma. */
static zr_status expect_more(parser *p, bool *more)
{
    const zr__json_token token = next_token(p);
    *more = token.kind == ',';
    REFUSE_UNLESS(*more || token.kind == ']', p, "wanted ',' or ']'");
    return ZR_OK;
}

static zr_status read_integer(parser *p, const char *what, int64_t max, int64_t *value)
{
    zr__json_token token = next_token(p);
    size_t n = token.end - token.begin, digits = 0;
    p->at = token.begin;
    *value = 0;
    if (token.kind == 'x' && n <= 18 && (n == 1 || p->text[token.begin] != '0'))
        for (; digits < n && p->text[token.begin + digits] >= '0' && p->text[token.begin + digits] <= '9'; digits++)
            *value = *value * 10 + (p->text[token.begin + digits] - '0');
    REFUSE_UNLESS(n > 0 && digits == n && *value <= max, p, "%s: wanted an integer 0 .. %" PRId64, what, max);
    p->at = token.end;
    return ZR_OK;
}

static bool hash_at(const char *text, uint64_t *hash)
{
    *hash = 0;
    for (int i = 0; i < DIGITS; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return false;
        *hash = *hash << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

/* ---- one file's chunks ----------------------------------------------------------------------- */

/* Check and count the elements of the array "ends". An end must not be a multiple of ZR_CHUNK_BYTES. */
static zr_status count_ends(parser *p, int64_t bytes, int64_t *n)
{
    int64_t last = 0, end = 0;
    *n = 0;
    ZR_TRY(expect_mark(p, '['));
    if (zr__json_next(p->text, p->bytes, p->at).kind == ']') return expect_mark(p, ']');
    bool more = true;
    do {
        ZR_TRY(read_integer(p, "\"ends\"", bytes, &end));
        REFUSE_UNLESS(end > last && end < bytes && end % ZR_CHUNK_BYTES, p,
                      "an end at %" PRId64 ": ends ascend, are no multiples of %" PRId64 ", and below %" PRId64, end,
                      ZR_CHUNK_BYTES, bytes);
        last = end;
        ++*n;
        ZR_TRY(expect_more(p, &more));
    } while (more);
    return ZR_OK;
}

/* Read one entry of "slices": [begin, end, row_bytes, slice_bytes]. */
static zr_status read_place(parser *p, const zr__manifest_file *file, zr__slices_list *list)
{
    zr__slices s = {0};
    int64_t *const number[] = {&s.begin, &s.end, &s.row_bytes, &s.slice_bytes};
    for (int i = 0; i < 4; i++) {
        ZR_TRY(expect_mark(p, i ? ',' : '['));
        ZR_TRY(read_integer(p, "\"slices\"", file->bytes, number[i]));
    }
    ZR_TRY(expect_mark(p, ']'));
    REFUSE_UNLESS(zr__slices_good(&s, file->bytes) && s.begin >= (list->n ? list->slices[list->n - 1].end : 0), p,
                  "slices of %" PRId64 " bytes, of rows of %" PRId64 " in bytes %" PRId64 " .. %" PRId64
                  ": wanted whole rows of several slices each, in ascending order",
                  s.slice_bytes, s.row_bytes, s.begin, s.end);
    return zr__slices_add(list, &s);
}

static zr_status read_slices(parser *p, zr__manifest_file *file)
{
    zr__slices_list list = {0};
    bool more = true;
    ZR_TRY(expect_next(p, "slices"));
    ZR_TRY(expect_mark(p, '['));
    if (zr__json_next(p->text, p->bytes, p->at).kind == ']') return expect_mark(p, ']');
    do {
        const zr_status st = read_place(p, file, &list);
        file->slices = list.slices; /* set again for each entry, because the list's memory may move when it grows */
        file->n_slices = list.n;
        ZR_TRY(st);
        ZR_TRY(expect_more(p, &more));
    } while (more);
    return ZR_OK;
}

/* Return the number of chunks in n regions. A region of slices has one chunk for each slice; any other region has one
 * chunk. Stop when the number exceeds the number of hashes that the text can contain. */
static int64_t count_chunks(const parser *p, const zr__manifest_file *file, int64_t n)
{
    const int64_t most = (int64_t)(p->bytes / DIGITS);
    for (int64_t i = 0; i < file->n_slices; i++) {
        const zr__slices *s = &file->slices[i];
        for (int64_t at = s->begin, end; at < s->end && n <= most; at = end) {
            int64_t o = at, left = s->row_bytes / s->slice_bytes;
            end = zr__slices_limit(s, at);
            for (o += zr__slice_run(s, o); o < end && --left > 0 && n <= most; n++) o += zr__slice_run(s, o);
        }
    }
    return n;
}

/* State of listing a file's chunks. In the text, each hash has DIGITS digits, and one space separates two hashes. */
typedef struct listing {
    const parser *p;
    const zr__manifest_file *file;
    const char *hash; /* position of the hash of chunk i in the text */
    int64_t i;
    zr__chunk *chunk;
} listing;

static zr_status list_chunk(listing *l, int64_t offset, int64_t bytes)
{
    uint64_t hash = 0;
    REFUSE_UNLESS(l->i < l->file->n_chunks && hash_at(l->hash, &hash) &&
                      (l->i + 1 == l->file->n_chunks || l->hash[DIGITS] == ' '),
                  l->p, "\"xxh3\": hash %" PRId64 " is not 16 hex digits and a space", l->i);
    l->chunk[l->i++] = (zr__chunk){offset, bytes, hash};
    l->hash += DIGITS + 1;
    return ZR_OK;
}

/* List the chunks of bytes [offset, stop). A chunk ends at an element of "ends" or at a multiple of ZR_CHUNK_BYTES;
 * `offset` and `stop` are two consecutive ends. Inside slices, list all chunks of the region; otherwise list one chunk.
 */
static zr_status list_region(listing *l, int64_t offset, int64_t stop)
{
    const zr__slices *s = zr__slices_from(l->file, offset);
    const bool sliced = s && s->begin <= offset;
    REFUSE_UNLESS(!s || (sliced ? stop == zr__slices_limit(s, offset) : stop <= s->begin), l->p,
                  "\"ends\" and \"slices\" do not fit each other: a chunk in bytes %" PRId64 " .. %" PRId64
                  " and slices in %" PRId64 " .. %" PRId64,
                  offset, stop, s->begin, s->end);
    if (!sliced) return list_chunk(l, offset, stop - offset);
    int64_t left = s->row_bytes / s->slice_bytes;
    for (int64_t o = offset; o < stop && left-- > 0; o += zr__slice_run(s, o))
        ZR_TRY(list_chunk(l, o, zr__slice_bytes(s, o, stop)));
    return ZR_OK;
}

/* List all chunks of the file. The array "ends" has been checked, and its tokens begin at offset `ends` of the text. */
static zr_status list_chunks(listing *l, size_t ends)
{
    parser at = *l->p;
    at.at = ends;
    for (int64_t offset = 0, end = 0, stop; offset < l->file->bytes; offset = stop) {
        if (end <= offset) { /* take the next element of "ends", or the end of the file after the last element */
            zr__json_token token = next_token(&at);
            end = token.kind == 'x' ? strtoll(at.text + token.begin, NULL, 10) : l->file->bytes;
            if (token.kind == 'x') (void)next_token(&at);
        }
        const int64_t limit = zr__chunk_limit(offset);
        stop = limit < end ? limit : end;
        ZR_TRY(list_region(l, offset, stop));
    }
    return ZR_OK;
}

static zr_status read_chunks(parser *p, zr__manifest_file *file)
{
    const char *hashes = NULL;
    size_t ends = 0, length = 0;
    int64_t n = 0;
    ZR_TRY(expect_member(p, "ends"));
    ends = zr__json_next(p->text, p->bytes, p->at).end; /* skip the bracket */
    ZR_TRY(count_ends(p, file->bytes, &n));
    n += (file->bytes + ZR_CHUNK_BYTES - 1) / ZR_CHUNK_BYTES;
    if (p->format > 1) ZR_TRY(read_slices(p, file));
    n = count_chunks(p, file, n);
    ZR_TRY(expect_next(p, "xxh3"));
    ZR_TRY(read_string(p, "hashes", p->bytes, &hashes, &length));
    REFUSE_UNLESS((int64_t)length == (n ? n * (DIGITS + 1) - 1 : 0), p,
                  "%s: %zu bytes of hashes, its %" PRId64 " chunks have %" PRId64, file->name, length, n,
                  n ? n * (DIGITS + 1) - 1 : 0);
    zr__chunk *chunk = zr_alloc((size_t)n * sizeof(*chunk));
    ZR_CHECK(chunk, ZR_ERR_MEMORY, "%s: no memory for %" PRId64 " checksums", p->file, n);
    file->chunk = chunk;
    file->n_chunks = n;
    listing l = {.p = p, .file = file, .hash = hashes, .chunk = chunk};
    ZR_TRY(list_chunks(&l, ends));
    ZR_ASSERT(l.i == n);
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status read_name(parser *p, char **name)
{
    const char *begin = NULL;
    size_t n = 0;
    ZR_TRY(expect_member(p, "name"));
    ZR_TRY(read_string(p, "a file's name", ZR_MANIFEST_NAME_MAX, &begin, &n));
    REFUSE_UNLESS(zr__manifest_file_name(begin, n), p, "\"%.*s\" is not the name of a file of a checkpoint", (int)n,
                  begin);
    for (int i = 0; i < p->m->n_files; i++)
        REFUSE_UNLESS(strlen(p->list[i].name) != n || memcmp(p->list[i].name, begin, n) != 0, p,
                      "the file %.*s is listed twice", (int)n, begin);
    return zr__text_copy(begin, n, name);
}

static zr_status read_file(parser *p)
{
    char *name = NULL;
    ZR_TRY(expect_mark(p, '{'));
    REFUSE_UNLESS(p->m->n_files < ZR_MANIFEST_FILES_MAX, p, "it lists more than %d files", ZR_MANIFEST_FILES_MAX);
    ZR_GROW(p->list, p->room, p->m->n_files + 1, "files of a checkpoint");
    p->m->file = p->list;
    ZR_TRY(read_name(p, &name));
    zr__manifest_file *file = &p->list[p->m->n_files++];
    file->name = name;
    ZR_TRY(expect_next(p, "bytes"));
    ZR_TRY(read_integer(p, "\"bytes\"", ZR_MANIFEST_FILE_MAX_BYTES, &file->bytes));
    ZR_TRY(expect_mark(p, ','));
    ZR_TRY(read_chunks(p, file));
    return expect_mark(p, '}');
}

/* Read "run", which is any JSON object, as text. */
static zr_status read_run(parser *p)
{
    size_t begin = zr__json_next(p->text, p->bytes, p->at).begin;
    p->at = zr__json_skip(p->text, p->bytes, begin);
    REFUSE_UNLESS(p->at < p->bytes, p, "\"run\" does not end"); /* the checksum must follow "run" */
    REFUSE_UNLESS(p->at - begin <= ZR_MANIFEST_RUN_MAX_BYTES, p, "\"run\" of %zu bytes, wanted at most %d",
                  p->at - begin, ZR_MANIFEST_RUN_MAX_BYTES);
    json_auto_t *root = NULL;
    zr_status st = zr__json_parse(p->text + begin, p->at - begin, "run", &root);
    if (st == ZR_ERR_CONFIG) return refuse_manifest(p, "%.300s", zr_error_message());
    ZR_TRY(st);
    REFUSE_UNLESS(json_is_object(root), p, "\"run\" is not an object");
    char *run = NULL;
    ZR_TRY(zr__text_copy(p->text + begin, p->at - begin, &run));
    p->m->run = run;
    return ZR_OK;
}

static zr_status read_object(parser *p)
{
    const char *build = NULL;
    size_t n = 0;
    ZR_TRY(expect_next(p, "build"));
    ZR_TRY(read_string(p, "the build", ZR_MANIFEST_BUILD_MAX, &build, &n));
    char *copy = NULL;
    ZR_TRY(zr__text_copy(build, n, &copy));
    p->m->build = copy;
    ZR_TRY(expect_next(p, "step"));
    ZR_TRY(read_integer(p, "\"step\"", ZR_MANIFEST_STEP_MAX, &p->m->step));
    ZR_TRY(expect_next(p, "run"));
    ZR_TRY(read_run(p));
    ZR_TRY(expect_next(p, "files"));
    ZR_TRY(expect_mark(p, '['));
    bool more = true;
    do {
        ZR_TRY(read_file(p));
        ZR_TRY(expect_more(p, &more));
    } while (more);
    ZR_TRY(expect_mark(p, ','));
    REFUSE_UNLESS(zr__json_next(p->text, p->bytes, p->at).begin == p->bytes - ZR_MANIFEST_TAIL_BYTES, p,
                  "wanted \"xxh3\" and the end");
    return ZR_OK;
}

/* Check the manifest's own checksum first. If it does not match, the manifest is damaged, and its text is not
 * examined. */
static zr_status check_whole(const parser *p)
{
    static const char begin[] = "\"xxh3\": \"", end[] = "\"}\n";
    const size_t digits = sizeof(begin) - 1;
    const char *tail = p->bytes > ZR_MANIFEST_TAIL_BYTES ? p->text + p->bytes - ZR_MANIFEST_TAIL_BYTES : NULL;
    uint64_t hash = 0;
    ZR_CHECK(tail && memcmp(tail, begin, digits) == 0 && hash_at(tail + digits, &hash) &&
                 memcmp(tail + digits + DIGITS, end, sizeof(end) - 1) == 0,
             ZR_ERR_DATA, "%s: it does not end with its checksum, so it is cut off, damaged or not a manifest",
             p->file);
    ZR_CHECK(zr__chunk_hash(p->text, (int64_t)(p->bytes - ZR_MANIFEST_TAIL_BYTES)) == hash, ZR_ERR_DATA,
             "%s: the manifest is damaged: its checksum does not fit its text", p->file);
    return ZR_OK;
}

zr_status zr__manifest_parse(const char *name, const char *text, size_t bytes, zr__manifest **manifest)
{
    *manifest = NULL;
    ZR_CHECK(bytes <= ZR_MANIFEST_MAX_BYTES, ZR_ERR_DATA,
             "%s: the manifest has %zu bytes, more than the limit of %" PRId64, name, bytes, ZR_MANIFEST_MAX_BYTES);
    ZR_AUTO(zr__manifest_free) zr__manifest *m = zr_alloc(sizeof(*m));
    ZR_CHECK(m, ZR_ERR_MEMORY, "no memory for %zu bytes of a manifest", sizeof(*m));
    parser p = {.file = name, .text = text, .bytes = bytes, .m = m};
    ZR_TRY(check_whole(&p));
    ZR_TRY(expect_mark(&p, '{'));
    ZR_TRY(expect_member(&p, "format"));
    ZR_TRY(read_integer(&p, "\"format\"", INT32_MAX, &p.format));
    ZR_CHECK(p.format >= 1 && p.format <= ZR_MANIFEST_FORMAT, ZR_ERR_DATA,
             "%s: format %" PRId64 ", this zr (%s) reads formats 1 to %d%s", name, p.format, zr_version(),
             ZR_MANIFEST_FORMAT,
             p.format > ZR_MANIFEST_FORMAT ? "; it was written by a newer zr, which can read it" : "");
    ZR_TRY(read_object(&p));
    *manifest = ZR_TAKE(m);
    return ZR_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Return the step in the last part of a directory's path, or -1 if it has another form. */
static int64_t named_step(const char *dir)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    size_t end = strlen(dir), begin;
    while (end > 0 && dir[end - 1] == '/') end--;
    for (begin = end; begin > 0 && dir[begin - 1] != '/';) begin--;
    if (end - begin >= sizeof(name) || end - begin < 5) return -1;
    memcpy(name, dir + begin, end - begin);
    name[end - begin] = '\0';
    return zr__checkpoint_step(name);
}

zr_status zr__manifest_load(const char *dir, zr__manifest **manifest)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    ZR_AUTO(zr__manifest_free) zr__manifest *read = NULL;
    *manifest = NULL;
    ZR_TRY(zr__file_open_in(dir, ZR_MANIFEST_NAME, &file));
    ZR_CHECK(file.bytes <= ZR_MANIFEST_MAX_BYTES, ZR_ERR_DATA,
             "%s: the manifest has %lld bytes, more than the limit of %" PRId64, file.name, (long long)file.bytes,
             ZR_MANIFEST_MAX_BYTES);
    ZR_AUTO_FREE char *text = zr_alloc((size_t)file.bytes + 1);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for %lld bytes to read %s", (long long)file.bytes, file.name);
    ZR_TRY(zr__file_read(&file, 0, text, file.bytes, ZR_ERR_DATA));
    ZR_TRY(zr__manifest_parse(file.name, text, (size_t)file.bytes, &read));
    const int64_t named = named_step(dir);
    ZR_CHECK(named < 0 || named == read->step, ZR_ERR_DATA,
             "%s: it is of step %" PRId64 ", but its directory is of step %" PRId64 "'s", file.name, read->step, named);
    *manifest = ZR_TAKE(read);
    return ZR_OK;
}

zr_status zr__manifest_read(const char *dir, zr__manifest **manifest)
{
    ZR_AUTO(zr__manifest_free) zr__manifest *read = NULL;
    *manifest = NULL;
    ZR_TRY(zr__manifest_load(dir, &read));
    for (int i = 0; i < read->n_files; i++) {
        ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
        ZR_TRY(zr__listed_open(dir, read, read->file[i].name, &file));
    }
    *manifest = ZR_TAKE(read);
    return ZR_OK;
}
