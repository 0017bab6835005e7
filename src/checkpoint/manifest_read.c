/*
 * Reading manifests. Their own checksum is checked before anything else, and every value before it is compared with
 * files. Memory stays proportional to the length of the text, even if the text contains large numbers.
 */
#include "base/json/json.h"
#include "base/text/text.h"
#include "checkpoint/chunks.h"
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <string.h>

enum { DIGITS = 16 /* hex digits of a hash */ };

typedef struct reader {
    const char *name; /* the manifest's name in messages */
    const char *file; /* name of the listed file whose members are being read, or "" */
    int64_t most;     /* number of hashes that a text of this length can contain */
    int64_t format;
    zr__manifest *m;
    zr__manifest_file *list; /* m->file as a writable array, while it is filled */
} reader;

#define REFUSE_UNLESS(cond, r, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return refuse_manifest((r), __VA_ARGS__);                                                         \
    } while (0)

static zr_status refuse_manifest(const reader *r, const char *format, ...) ZR_PRINTF(2, 3);

static zr_status refuse_manifest(const reader *r, const char *format, ...)
{
    char reason[640];
    ZR_PRINT_ARGS(reason, format);
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s%s%s", r->name, r->file, *r->file ? ": " : "", reason);
}

/* ---- values ---------------------------------------------------------------------------------- */

static zr_status read_integer(const reader *r, const json_t *value, const char *what, int64_t max, int64_t *number)
{
    *number = json_integer_value(value);
    REFUSE_UNLESS(json_is_integer(value) && *number >= 0 && *number <= max, r,
                  "\"%s\": wanted an integer 0 .. %" PRId64 ", got %s", what, max, ZR_JSON_SHOWN(value));
    return ZR_OK;
}

static zr_status read_member(const reader *r, const json_t *object, const char *key, int64_t max, int64_t *number)
{
    return read_integer(r, json_object_get(object, key), key, max, number);
}

static zr_status read_text(const reader *r, const json_t *object, const char *key, const char **text)
{
    const json_t *value = json_object_get(object, key);
    *text = json_string_value(value);
    REFUSE_UNLESS(*text, r, "\"%s\": wanted a text, got %s", key, ZR_JSON_SHOWN(value));
    return ZR_OK;
}

static zr_status read_list(const reader *r, const json_t *object, const char *key, const json_t **list)
{
    *list = json_object_get(object, key);
    REFUSE_UNLESS(json_is_array(*list), r, "\"%s\": wanted a list, got %s", key, ZR_JSON_SHOWN(*list));
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

/* Check the elements of the list "ends". An end must not be a multiple of ZR_CHUNK_BYTES. */
static zr_status check_ends(const reader *r, const json_t *ends, int64_t bytes)
{
    int64_t last = 0, end = 0;
    for (size_t i = 0; i < json_array_size(ends); i++, last = end) {
        ZR_TRY(read_integer(r, json_array_get(ends, i), "ends", bytes, &end));
        REFUSE_UNLESS(end > last && end < bytes && end % ZR_CHUNK_BYTES, r,
                      "an end at %" PRId64 ": ends ascend, are no multiples of %" PRId64 ", and below %" PRId64, end,
                      ZR_CHUNK_BYTES, bytes);
    }
    return ZR_OK;
}

/* Read one entry of "slices": [begin, end, row_bytes, slice_bytes]. */
static zr_status read_place(const reader *r, const json_t *entry, const zr__manifest_file *file, zr__slices *s)
{
    int64_t *const number[] = {&s->begin, &s->end, &s->row_bytes, &s->slice_bytes};
    REFUSE_UNLESS(json_array_size(entry) == 4, r, "\"slices\": wanted four integers, got %s", ZR_JSON_SHOWN(entry));
    for (size_t i = 0; i < 4; i++) ZR_TRY(read_integer(r, json_array_get(entry, i), "slices", file->bytes, number[i]));
    REFUSE_UNLESS(zr__slices_good(s, file->bytes) && s->begin >= (file->n_slices ? s[-1].end : 0), r,
                  "slices of %" PRId64 " bytes, of rows of %" PRId64 " in bytes %" PRId64 " .. %" PRId64
                  ": wanted whole rows of several slices each, in ascending order",
                  s->slice_bytes, s->row_bytes, s->begin, s->end);
    return ZR_OK;
}

static zr_status read_slices(const reader *r, const json_t *object, zr__manifest_file *file)
{
    const json_t *list = NULL;
    ZR_TRY(read_list(r, object, "slices", &list));
    const size_t n = json_array_size(list);
    zr__slices *slices = zr_alloc((n + 1) * sizeof(*slices));
    ZR_CHECK(slices, ZR_ERR_MEMORY, "%s: no memory for %zu slices", r->name, n);
    file->slices = slices;
    for (; file->n_slices < (int64_t)n; file->n_slices++)
        ZR_TRY(read_place(r, json_array_get(list, (size_t)file->n_slices), file, &slices[file->n_slices]));
    return ZR_OK;
}

/* Return the number of chunks in n regions. A region of slices has one chunk for each slice; any other region has one
 * chunk. Stop when the number exceeds the number of hashes that the text can contain. */
static int64_t count_chunks(const reader *r, const zr__manifest_file *file, int64_t n)
{
    for (int64_t i = 0; i < file->n_slices; i++) {
        const zr__slices *s = &file->slices[i];
        for (int64_t at = s->begin, end; at < s->end && n <= r->most; at = end) {
            int64_t o = at, left = s->row_bytes / s->slice_bytes;
            end = zr__slices_limit(s, at);
            for (o += zr__slice_run(s, o); o < end && --left > 0 && n <= r->most; n++) o += zr__slice_run(s, o);
        }
    }
    return n;
}

/* State of listing a file's chunks. Each hash has DIGITS digits, and one space separates two hashes. */
typedef struct listing {
    const reader *r;
    const zr__manifest_file *file;
    const char *hash; /* hash of chunk i; the hashes of later chunks follow */
    int64_t i;
    zr__chunk *chunk;
} listing;

static zr_status list_chunk(listing *l, int64_t offset, int64_t bytes)
{
    uint64_t hash = 0;
    REFUSE_UNLESS(l->i < l->file->n_chunks && hash_at(l->hash, &hash) &&
                      (l->i + 1 == l->file->n_chunks || l->hash[DIGITS] == ' '),
                  l->r, "\"xxh3\": hash %" PRId64 " is not 16 hex digits and a space", l->i);
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
    REFUSE_UNLESS(!s || (sliced ? stop == zr__slices_limit(s, offset) : stop <= s->begin), l->r,
                  "\"ends\" and \"slices\" do not fit each other: a chunk in bytes %" PRId64 " .. %" PRId64
                  " and slices in %" PRId64 " .. %" PRId64,
                  offset, stop, s->begin, s->end);
    if (!sliced) return list_chunk(l, offset, stop - offset);
    int64_t left = s->row_bytes / s->slice_bytes;
    for (int64_t o = offset; o < stop && left-- > 0; o += zr__slice_run(s, o))
        ZR_TRY(list_chunk(l, o, zr__slice_bytes(s, o, stop)));
    return ZR_OK;
}

/* List all chunks of the file. The list "ends" has been checked. */
static zr_status list_chunks(listing *l, const json_t *ends)
{
    size_t next = 0;
    for (int64_t offset = 0, end = 0, stop; offset < l->file->bytes; offset = stop) {
        if (end <= offset) /* take the next element of "ends", or the end of the file after the last element */
            end = next < json_array_size(ends) ? json_integer_value(json_array_get(ends, next++)) : l->file->bytes;
        const int64_t limit = zr__chunk_limit(offset);
        stop = limit < end ? limit : end;
        ZR_TRY(list_region(l, offset, stop));
    }
    return ZR_OK;
}

static zr_status read_chunks(const reader *r, const json_t *object, zr__manifest_file *file)
{
    const char *hashes = NULL;
    const json_t *ends = NULL;
    ZR_TRY(read_list(r, object, "ends", &ends));
    ZR_TRY(check_ends(r, ends, file->bytes));
    if (r->format > 1) ZR_TRY(read_slices(r, object, file));
    ZR_TRY(read_text(r, object, "xxh3", &hashes));
    const int64_t length = (int64_t)strlen(hashes);
    int64_t n = (int64_t)json_array_size(ends) + (file->bytes + ZR_CHUNK_BYTES - 1) / ZR_CHUNK_BYTES;
    n = count_chunks(r, file, n);
    const int64_t wanted = n ? n * (DIGITS + 1) - 1 : 0;
    REFUSE_UNLESS(length == wanted, r, "%" PRId64 " bytes of hashes, its %" PRId64 " chunks have %" PRId64, length, n,
                  wanted);
    zr__chunk *chunk = zr_alloc((size_t)n * sizeof(*chunk));
    ZR_CHECK(chunk, ZR_ERR_MEMORY, "%s: no memory for %" PRId64 " checksums", r->name, n);
    file->chunk = chunk;
    file->n_chunks = n;
    listing l = {.r = r, .file = file, .hash = hashes, .chunk = chunk};
    ZR_TRY(list_chunks(&l, ends));
    ZR_ASSERT(l.i == n);
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status read_file(reader *r, const json_t *object)
{
    const char *name = NULL;
    char *copy = NULL;
    ZR_TRY(read_text(r, object, "name", &name));
    REFUSE_UNLESS(zr__manifest_file_name(name, strlen(name)), r, "\"%s\" is not the name of a file of a checkpoint",
                  ZR_SHOWN(name));
    REFUSE_UNLESS(!zr__manifest_find(r->m, name), r, "the file %s is listed twice", name);
    ZR_TRY(zr__text_copy(name, strlen(name), &copy));
    zr__manifest_file *file = &r->list[r->m->n_files++];
    r->file = file->name = copy;
    ZR_TRY(read_member(r, object, "bytes", ZR_MANIFEST_FILE_MAX_BYTES, &file->bytes));
    ZR_TRY(read_chunks(r, object, file));
    REFUSE_UNLESS(json_object_size(object) == (r->format > 1 ? 5 : 4), r, "it has members that are not known");
    r->file = "";
    return ZR_OK;
}

static zr_status read_files(reader *r, const json_t *root)
{
    const json_t *files = NULL;
    ZR_TRY(read_list(r, root, "files", &files));
    const size_t n = json_array_size(files);
    REFUSE_UNLESS(n >= 1 && n <= ZR_MANIFEST_FILES_MAX, r, "it lists %zu files, wanted 1 to %d", n,
                  ZR_MANIFEST_FILES_MAX);
    r->m->file = r->list = zr_alloc(n * sizeof(*r->list));
    ZR_CHECK(r->list, ZR_ERR_MEMORY, "%s: no memory for %zu files", r->name, n);
    for (size_t i = 0; i < n; i++) ZR_TRY(read_file(r, json_array_get(files, i)));
    return ZR_OK;
}

static bool is_plain(const char *text)
{
    while (*text >= 0x20 && *text <= 0x7e && *text != '"' && *text != '\\') text++;
    return !*text;
}

static zr_status read_root(reader *r, const json_t *root)
{
    const char *build = NULL;
    char *copy = NULL;
    const json_t *run = json_object_get(root, "run");
    ZR_TRY(read_text(r, root, "build", &build));
    REFUSE_UNLESS(strlen(build) <= ZR_MANIFEST_BUILD_MAX && is_plain(build), r,
                  "\"build\": wanted at most %d characters of printable ASCII without quotes, got \"%s\"",
                  ZR_MANIFEST_BUILD_MAX, ZR_SHOWN(build));
    ZR_TRY(zr__text_copy(build, strlen(build), &copy));
    r->m->build = copy;
    ZR_TRY(read_member(r, root, "step", ZR_MANIFEST_STEP_MAX, &r->m->step));
    REFUSE_UNLESS(json_is_object(run), r, "\"run\": wanted an object, got %s", ZR_JSON_SHOWN(run));
    ZR_TRY(zr__json_print(run, &copy));
    r->m->run = copy;
    ZR_TRY(read_files(r, root));
    REFUSE_UNLESS(json_object_size(root) == 6, r, "it has members that are not known"); /* these, format and xxh3 */
    return ZR_OK;
}

/* Check the manifest's own checksum first. If it does not match, the manifest is damaged, and its text is not
 * examined. */
static zr_status check_whole(const char *name, const char *text, size_t bytes)
{
    static const char begin[] = "\"xxh3\": \"", end[] = "\"}\n";
    const size_t digits = sizeof(begin) - 1;
    const char *tail = bytes > ZR_MANIFEST_TAIL_BYTES ? text + bytes - ZR_MANIFEST_TAIL_BYTES : NULL;
    uint64_t hash = 0;
    ZR_CHECK(tail && memcmp(tail, begin, digits) == 0 && hash_at(tail + digits, &hash) &&
                 memcmp(tail + digits + DIGITS, end, sizeof(end) - 1) == 0,
             ZR_ERR_DATA, "%s: it does not end with its checksum, so it is cut off, damaged or not a manifest", name);
    ZR_CHECK(zr__chunk_hash(text, (int64_t)(bytes - ZR_MANIFEST_TAIL_BYTES)) == hash, ZR_ERR_DATA,
             "%s: the manifest is damaged: its checksum does not fit its text", name);
    return ZR_OK;
}

zr_status zr__manifest_parse(const char *name, const char *text, size_t bytes, zr__manifest **manifest)
{
    json_auto_t *root = NULL;
    *manifest = NULL;
    ZR_CHECK(bytes <= ZR_MANIFEST_MAX_BYTES, ZR_ERR_DATA,
             "%s: the manifest has %zu bytes, more than the limit of %" PRId64, name, bytes, ZR_MANIFEST_MAX_BYTES);
    ZR_TRY(check_whole(name, text, bytes));
    ZR_TRY(zr__json_parse_most(text, bytes, ZR_MANIFEST_MAX_BYTES, name, &root));
    ZR_AUTO(zr__manifest_free) zr__manifest *m = zr_alloc(sizeof(*m));
    ZR_CHECK(m, ZR_ERR_MEMORY, "no memory for %zu bytes of a manifest", sizeof(*m));
    reader r = {.name = name, .file = "", .most = (int64_t)(bytes / DIGITS), .m = m};
    ZR_TRY(read_member(&r, root, "format", INT32_MAX, &r.format));
    ZR_CHECK(r.format >= 1 && r.format <= ZR_MANIFEST_FORMAT, ZR_ERR_DATA,
             "%s: format %" PRId64 ", this zr (%s) reads formats 1 to %d%s", name, r.format, zr_version(),
             ZR_MANIFEST_FORMAT,
             r.format > ZR_MANIFEST_FORMAT ? "; it was written by a newer zr, which can read it" : "");
    ZR_TRY(read_root(&r, root));
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
