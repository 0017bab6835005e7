#include "base/core/grow.h"
#include "base/file/file.h"
#include "base/json/json_scan.h"
#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 256, FIRST_BYTES = 1 << 16 };

static zr_status check_size(const char *name, size_t bytes, size_t most)
{
    ZR_CHECK(bytes <= most, ZR_ERR_CONFIG, "%s: the file is larger than %zu bytes, the limit for files of this kind",
             name, most);
    return ZR_OK;
}

/* Read until end of file rather than by size: `fd` may be a pipe, which has no known size. */
static zr_status read_to_end(int fd, const char *name, size_t most, char **text, size_t *bytes)
{
    int64_t room = 0;
    *bytes = 0;
    for (;;) {
        /* Reserve capacity for more bytes and the terminating zero. */
        ZR_GROW(*text, room, *bytes ? (int64_t)*bytes + 2 : FIRST_BYTES, "bytes while reading");
        ssize_t n = read(fd, *text + *bytes, (size_t)room - 1 - *bytes);
        if (n < 0 && errno == EINTR) continue;
        ZR_CHECK(n >= 0, errno == EISDIR ? ZR_ERR_NOT_FOUND : ZR_ERR_IO, "%s: cannot read: %s", name, strerror(errno));
        if (n == 0) return ZR_OK;
        *bytes += (size_t)n;
        ZR_TRY(check_size(name, *bytes, most));
    }
}

/* Open a file. If `pipes` is true, the file may be a pipe, and open() waits for its writer. Otherwise special files are
 * refused, and O_NONBLOCK prevents open() from waiting. A directory is opened, but its first read fails. */
static zr_status open_text(const char *path, const char *name, bool pipes, int *fd)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK));
    if (*fd < 0) return zr__file_missing(path, errno);
    if (pipes || (fstat(*fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))) return ZR_OK;
    close(*fd);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "%s: it is not a regular file", name);
}

static zr_status read_json_text(const char *path, bool pipes, size_t most, char **text, size_t *bytes)
{
    ZR_AUTO_FREE char *all = NULL;
    int fd = -1;
    ZR_TRY(open_text(path, ZR_SHOWN(path), pipes, &fd));
    zr_status st = read_to_end(fd, ZR_SHOWN(path), most, &all, bytes);
    close(fd);
    if (st == ZR_OK) *text = ZR_TAKE(all);
    return st;
}

zr_status zr__json_read(const char *path, char **text, size_t *bytes)
{
    return read_json_text(path, true, ZR_JSON_MAX_BYTES, text, bytes);
}

/* Return the status of reading or parsing a file that is data, not a configuration. */
static zr_status as_data(zr_status st)
{
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message()) : st;
}

zr_status zr__json_read_file(const char *path, char **text, size_t *bytes)
{
    return zr__json_read_most(path, ZR_JSON_MAX_BYTES, text, bytes);
}

zr_status zr__json_read_most(const char *path, size_t most, char **text, size_t *bytes)
{
    return as_data(read_json_text(path, false, most, text, bytes));
}

/* Append a key or an index to a path such as "a.b[1]". Allocate no memory, since messages are needed when memory is
 * short. */
static void add_part(char *out, size_t size, const char *key, size_t index)
{
    size_t used = strlen(out);
    if (key) {
        if (used && used + 1 < size) out[used++] = '.';
        zr__text_escape(key, out + used, size - used);
    } else {
        snprintf(out + used, size - used, "[%zu]", index);
    }
}

static void print_trail(const char *text, const zr__json_trail *trail, char *out, size_t size)
{
    out[0] = '\0';
    for (int i = 0; i < trail->depth; i++) {
        char key[64];
        size_t begin = trail->level[i].begin, end = trail->level[i].end;
        if (trail->level[i].bracket == '{' && end < begin + 2)
            continue; /* no key of this object begins before the byte */
        if (trail->level[i].bracket == '{')
            snprintf(key, sizeof(key), "%.*s", (int)(end - begin - 2), text + begin + 1);
        add_part(out, size, trail->level[i].bracket == '{' ? key : NULL, trail->level[i].index);
    }
}

/* Fail with "name:line:column: key.path: reason" for the byte at offset `at`. */
static zr_status fail_on(const char *text, const char *name, size_t at, const zr__json_trail *trail, const char *reason)
{
    char where[96];
    int line, column;
    zr__json_line(text, at, &line, &column);
    print_trail(text, trail, where, sizeof(where));
    return ZR_FAIL(ZR_ERR_CONFIG, "%s:%d:%d: %s%s%s", ZR_SHOWN(name), line, column, where, *where ? ": " : "",
                   ZR_SHOWN(reason));
}

/* Fail like fail_on, at the token that contains or follows byte `stop`. */
static zr_status fail_at(const char *text, size_t bytes, const char *name, size_t stop, const char *reason)
{
    zr__json_trail trail;
    zr__json_token token;
    (void)zr__json_walk(text, bytes, stop, &trail, &token);
    return fail_on(text, name, token.begin, &trail, reason);
}

/* Check whether a comma is missing at byte `stop`, between two values or between a value and a key. If so, fail with
 * the position of the first value's end, where the comma belongs. Return ZR_OK if the text has a different error. */
static zr_status fail_missing_comma(const char *text, size_t bytes, const char *name, size_t stop)
{
    zr__json_trail trail;
    zr__json_token before = {0}, token = zr__json_next(text, bytes, 0);
    while (token.kind && token.end < stop) {
        before = token;
        token = zr__json_next(text, bytes, token.end);
    }
    const bool ends = before.kind && strchr("\"x}]", before.kind), begins = token.kind && strchr("\"x{[", token.kind);
    if (!ends || !begins) return ZR_OK;
    if (!zr__json_walk(text, bytes, token.begin + 1, &trail, &token) || trail.depth == 0) return ZR_OK;
    const bool key = trail.level[trail.depth - 1].bracket == '{' && !trail.level[trail.depth - 1].value;
    if (key) return ZR_OK; /* after a key, a colon is missing and not a comma */
    return fail_on(text, name, before.end - 1, &trail, "a comma is missing after this value");
}

void zr__json_skip_mark(const char **text, size_t *bytes)
{
    static const char mark[3] = {'\xEF', '\xBB', '\xBF'};
    if (*bytes < sizeof(mark) || memcmp(*text, mark, sizeof(mark)) != 0) return;
    *text += sizeof(mark);
    *bytes -= sizeof(mark);
}

/* Find a common mistake at or before byte `stop`: a comment, single quotes, a comma before a closing bracket, or a
 * Python word such as True. Return its description and store its offset in *at. Return NULL for any other error. */
static const char *common_slip(const char *text, size_t bytes, size_t stop, size_t *at)
{
    zr__json_token token = {0}, before = {0};
    do {
        before = token;
        token = zr__json_next(text, bytes, token.end);
        const char *word = text + token.begin;
        size_t length = token.end - token.begin;
        *at = token.begin;
        if ((token.kind == '}' || token.kind == ']') && before.kind == ',') {
            *at = before.begin;
            return token.kind == '}' ? "remove the comma before the closing }, which JSON does not allow"
                                     : "remove the comma before the closing ], which JSON does not allow";
        }
        if (token.kind != 'x') continue;
        if (*word == '#' || (length > 1 && *word == '/' && (word[1] == '/' || word[1] == '*')))
            return "remove the comment, which JSON does not allow";
        if (*word == '\'') return "write strings in double quotes, \"like this\"";
        if ((length == 4 && (!memcmp(word, "True", 4) || !memcmp(word, "None", 4))) ||
            (length == 5 && !memcmp(word, "False", 5)))
            return "write true, false and null in small letters";
    } while (token.kind && token.begin < stop);
    return NULL;
}

void zr__json_blank_comments(char *text, size_t bytes)
{
    for (size_t at = 0;;) {
        zr__json_token token = zr__json_next(text, bytes, at);
        if (!token.kind) return;
        size_t begin = token.begin;
        while (token.kind == 'x' && begin + 1 < token.end && memcmp(text + begin, "//", 2) != 0) begin++;
        at = token.end;
        if (token.kind != 'x' || begin + 1 >= token.end) continue;
        for (at = begin; at < bytes && text[at] != '\n'; at++)
            if (text[at] != '\r') text[at] = ' ';
    }
}

zr_status zr__json_load_data(const char *path, json_t **root)
{
    char *text = NULL;
    size_t bytes = 0;
    *root = NULL;
    zr_status st = zr__json_read_file(path, &text, &bytes);
    if (st == ZR_OK) st = zr__json_parse_most(text, bytes, ZR_JSON_MAX_BYTES, path, root);
    zr_free(text);
    return st;
}

/* Target of longjmp while jansson reads a text, otherwise NULL. When an allocation fails, the allocator jumps there at
 * once, because jansson 2.14 does not handle the failure: it drops characters, reports a syntax error or frees memory
 * twice. The memory that jansson had allocated leaks. */
static _Thread_local jmp_buf *leave;

void *zr__json_allocated(void *memory)
{
    if (!memory && leave) longjmp(*leave, 1);
    return memory;
}

zr_status zr__json_load(const char *text, size_t bytes, size_t flags, const char *name, json_t **root,
                        json_error_t *error)
{
    jmp_buf here;
    volatile bool left = false;
    *root = NULL;
    leave = &here;
    if (setjmp(here) == 0)
        *root = json_loadb(text, bytes, flags, error);
    else
        left = true;
    leave = NULL;
    ZR_CHECK(!left, ZR_ERR_MEMORY, "%s: no memory to read it", ZR_SHOWN(name));
    /* Replace jansson's text, which names a flag of its interface. Keep the last byte of the array: it is jansson's
     * error code. */
    if (!*root && json_error_code(error) == json_error_null_character)
        snprintf(error->text, sizeof(error->text) - 1, "a text has the character U+0000, which zr does not read");
    return ZR_OK;
}

json_t *zr__json_loads(const char *text, size_t flags)
{
    json_t *root;
    json_error_t error;
    return zr__json_load(text, strlen(text), flags, "JSON", &root, &error) == ZR_OK ? root : NULL;
}

static zr_status parse(const char *text, size_t bytes, size_t most, size_t flags, const char *name, json_t **root)
{
    *root = NULL;
    ZR_TRY(check_size(ZR_SHOWN(name), bytes, most));
    zr__json_skip_mark(&text, &bytes);
    zr__json_trail trail;
    zr__json_token token;
    if (!zr__json_walk(text, bytes, SIZE_MAX, &trail, &token))
        return fail_at(text, bytes, name, SIZE_MAX, "values are nested deeper than 64 levels");
    json_error_t error;
    ZR_TRY(zr__json_load(text, bytes, JSON_REJECT_DUPLICATES | flags, name, root, &error));
    if (*root) return ZR_OK;
    if (zr__file_is_pointer(text, bytes)) return fail_at(text, bytes, name, 0, ZR_POINTER_REMEDY);
    size_t stop = error.position > 0 ? (size_t)error.position : 0, at = 0;
    const char *slip = common_slip(text, bytes, stop, &at);
    if (slip) return fail_at(text, bytes, name, at + 1, slip);
    ZR_TRY(fail_missing_comma(text, bytes, name, stop));
    return fail_at(text, bytes, name, stop, error.text);
}

zr_status zr__json_parse(const char *text, size_t bytes, const char *name, json_t **root)
{
    return parse(text, bytes, ZR_JSON_MAX_BYTES, 0, name, root);
}

zr_status zr__json_parse_most(const char *text, size_t bytes, size_t most, const char *name, json_t **root)
{
    return as_data(parse(text, bytes, most, 0, name, root));
}

zr_status zr__json_parse_reals(const char *text, size_t bytes, size_t most, const char *name, json_t **root)
{
    return as_data(parse(text, bytes, most, JSON_DECODE_INT_AS_REAL, name, root));
}

static void print_place(const zr__json_place *place, char *out, size_t size)
{
    if (!place->parent) return;
    print_place(place->parent, out, size);
    add_part(out, size, place->key, place->index);
}

const char *zr__json_path(const zr__json_place *place, char *out, size_t size)
{
    out[0] = '\0';
    print_place(place, out, size);
    return out;
}

zr_status zr__json_fail(const char *text, size_t bytes, const char *name, const zr__json_place *place, zr_status status,
                        const char *message)
{
    char path[PATH_BYTES];
    int line, column;
    (void)zr__json_find(text, bytes, place, &line, &column);
    zr__json_path(place, path, sizeof(path));
    return ZR_FAIL(status, "%s:%d:%d: %s%s%s", ZR_SHOWN(name), line, column, path, *path ? ": " : "", message);
}

bool zr__json_is_file_name(const char *name)
{
    return strchr(name, '/') || (strlen(name) > strlen(".json") && zr__text_ends(name, ".json"));
}

bool zr__json_bytes(const json_t *json, int64_t *bytes)
{
    if (json_is_string(json)) return zr__text_bytes(json_string_value(json), bytes);
    const double number = json_number_value(json);
    if (!json_is_number(json) || !(number >= 0 && number <= 0x1p53) || number != floor(number)) return false;
    /* An integer above 2^53 may have become 2^53 when converted to double, so compare it as an integer. */
    if (json_is_integer(json) && json_integer_value(json) > (json_int_t)1 << 53) return false;
    *bytes = (int64_t)number;
    return true;
}
