#include "data/text/parts.h"

#include "base/core/grow.h"
#include "base/text/text.h"
#include "data/text/jsonl.h"

#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count_lines(const char *text, int64_t n)
{
    int64_t lines = 0;
    for (const char *at = text, *end = text + n; (at = memchr(at, '\n', (size_t)(end - at))); at++) lines++;
    return lines;
}

/* Append bytes to `text` until it has n, or until the text ends. */
static zr_status fill(zr__parts *parts, char *text, int64_t n, int64_t *have)
{
    int64_t got = 0;
    if (*have == 0 && parts->rest_n > 0) {
        ZR_ASSERT(parts->rest_n <= n);
        memcpy(text, parts->rest, (size_t)parts->rest_n);
        *have = parts->rest_n;
        parts->rest_n = 0;
    }
    ZR_TRY(zr__stream_read(parts->stream, text + *have, n - *have, &got));
    *have += got;
    return ZR_OK;
}

/* Keep bytes that were read for the next part. */
static zr_status keep(zr__parts *parts, const char *text, int64_t n)
{
    ZR_GROW(parts->rest, parts->rest_room, n, "bytes of text that cannot be cut");
    if (n > 0) memcpy(parts->rest, text, (size_t)n);
    parts->rest_n = n;
    return ZR_OK;
}

/* Skip the row with the names of a table's columns. */
static zr_status skip_columns(zr__parts *parts)
{
    const int64_t n = parts->table.bytes - parts->first, least = n > parts->rest_n ? n : parts->rest_n;
    int64_t have = 0;
    ZR_AUTO_FREE char *row = zr_alloc((size_t)least + 1);
    ZR_CHECK(row, ZR_ERR_MEMORY, "no memory for the columns of %s", parts->file->name);
    ZR_TRY(fill(parts, row, least, &have));
    ZR_CHECK(have == least, ZR_ERR_IO, "%s: the file has changed", parts->file->name);
    parts->first = parts->table.bytes;
    parts->lines_read = count_lines(row, n);
    return keep(parts, row + n, have - n);
}

zr_status zr__parts_begin(zr__parts *parts)
{
    const char separator = zr__shape_separator(parts->shape);
    char head[3]; /* a byte order mark */
    int64_t have = 0;
    parts->first = parts->lines_read = 0;
    if (separator) ZR_TRY(zr__table_open(parts->file, separator, &parts->table));
    ZR_TRY(zr__stream_open(parts->file, &parts->stream));
    ZR_TRY(fill(parts, head, sizeof(head), &have));
    if (parts->shape != ZR__SHAPE_TEXT) parts->first = zr__shape_mark(head, have);
    ZR_TRY(keep(parts, head + parts->first, have - parts->first));
    if (separator) ZR_TRY(skip_columns(parts));
    parts->read = parts->first;
    parts->ended = parts->rest_n == 0 && zr__stream_left(parts->stream) == 0;
    return ZR_OK;
}

void zr__parts_end(zr__parts *parts)
{
    zr__stream_close(&parts->stream);
    zr__table_close(&parts->table);
    zr_free(parts->rest);
    parts->rest = NULL;
    parts->rest_n = parts->rest_room = 0;
}

int64_t zr__parts_done(const zr__parts *parts)
{
    return zr__stream_at(parts->stream);
}

/* Return an offset at which text[0, n) can be cut between two characters. This is n, or the beginning of the last
 * character if that character may be incomplete. */
static int64_t character_cut(const char *text, int64_t n)
{
    int64_t at = n;
    while (at > n - 4 && at > 1 && ((unsigned char)text[at - 1] & 0xc0) == 0x80) at--;
    return at > 1 && (unsigned char)text[at - 1] >= 0xc0 ? at - 1 : n;
}

/* Return the end of the last whole record in the first n bytes of a part, or 0. If the bytes are not a sequence of
 * records, return n: zr__part_run then reports the error. */
static int64_t records_end(const zr__parts *parts, const zr__part *part, int64_t n)
{
    zr__shape_walk walk = {.shape = parts->shape, .text = part->text, .n = n, .first = part->first};
    zr__shape_found found;
    while ((found = zr__shape_next(&walk)) == ZR__RECORD_FOUND) continue;
    return found == ZR__RECORD_BROKEN ? n : walk.end;
}

/* Return the last offset in the first n bytes at which the part may end, or 0 if there is none. The first `from` bytes
 * have been searched before and contain no such offset. Do not call this for the last part, which ends with the
 * file. */
static int64_t part_end(const zr__parts *parts, const zr__part *part, int64_t from, int64_t n)
{
    const char *text = part->text;
    if (parts->shape == ZR__SHAPE_TEXT) {
        const int64_t cut = parts->cut ? parts->cut(parts->of, text, from > 0 ? from : 1, n) : 0;
        return cut > 0 || n < parts->most_bytes ? cut : character_cut(text, n);
    }
    if (parts->shape != ZR__SHAPE_LINES) return records_end(parts, part, n);
    const char *end = memrchr(text + from, '\n', (size_t)(n - from));
    return end ? end - text + 1 : 0;
}

/* Skip the rest of a record that is too long. If records are not lines, skip the rest of the file, because the record's
 * end cannot be found. `have` bytes of the record have been read. */
static zr_status skip_record(zr__parts *parts, zr__part *part, int64_t have)
{
    const char *end = NULL;
    part->too_long = part->last = true;
    for (int64_t n = part->room; parts->shape == ZR__SHAPE_LINES && !end && zr__stream_left(parts->stream) > 0;) {
        parts->read += have;
        have = 0;
        ZR_TRY(fill(parts, part->text, n, &have));
        end = memchr(part->text, '\n', (size_t)have);
    }
    const int64_t used = end ? end + 1 - part->text : have;
    parts->read += used;
    part->last = have == used && (!end || zr__stream_left(parts->stream) == 0);
    parts->ended = part->last;
    return keep(parts, part->text + used, have - used);
}

zr_status zr__part_read(zr__parts *parts, zr__part *part)
{
    const int64_t most = parts->shape ? ZR__LINE_BYTES : parts->most_bytes;
    int64_t have = 0;
    part->too_long = false;
    part->last = parts->ended;
    part->n = 0;
    part->at = parts->read;
    part->first = part->at == parts->first;
    for (int64_t n = parts->usual_bytes, from = 0; part->n == 0 && !part->last; n = 2 * have) {
        const int64_t held = from > 0 ? from : parts->rest_n, left = zr__stream_left(parts->stream);
        if (n > most) n = most;
        if (n < held) n = held;
        if (left < n - held) n = held + left;
        ZR_GROW(part->text, part->room, n, "bytes of text that cannot be cut");
        ZR_TRY(fill(parts, part->text, n, &have));
        part->last = zr__stream_left(parts->stream) == 0;
        part->n = part->last ? have : part_end(parts, part, from, have);
        if (part->n == 0 && parts->shape && have >= most && !part->last) return skip_record(parts, part, have);
        from = have;
    }
    parts->ended = part->last;
    parts->read += part->n;
    return keep(parts, part->text + part->n, have - part->n);
}

void zr__part_free(zr__part *part)
{
    zr_free(part->text);
    part->text = NULL;
    part->room = 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Pass the text of a line to fn, in several pieces if the text is longer than most_bytes. */
static zr_status give_text(const zr__parts *parts, zr__part *part, const char *text, int64_t bytes, zr__text_fn fn,
                           void *arg)
{
    part->found.documents++;
    part->found.text_bytes += bytes;
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at;
        if (n > parts->most_bytes && parts->cut) {
            n = parts->cut(parts->of, text + at, 1, parts->most_bytes);
            if (n == 0) n = character_cut(text + at, parts->most_bytes);
        }
        ZR_TRY(fn(arg, text + at, n, (at == 0 ? ZR__DOCUMENT_BEGINS : 0) | (at + n == bytes ? ZR__DOCUMENT_ENDS : 0)));
    }
    return ZR_OK;
}

/* If bad records are skipped, count this one. Otherwise fail. */
static zr_status refuse_record(const zr__parts *parts, zr__part *part, const char *reason)
{
    if (!parts->skip_bad_lines) part->bad_line = part->line;
    if (!parts->skip_bad_lines) return ZR_FAIL(ZR_ERR_DATA, "%s", reason);
    if (part->found.skipped_lines++ == 0) part->found.first_skipped = part->line;
    return ZR_OK;
}

/* Fail because the rest of a file cannot be divided into records. Skipping bad records does not help. */
static zr_status refuse_rest(zr__part *part, const char *reason)
{
    part->bad_line = part->line;
    part->broken = true;
    return ZR_FAIL(ZR_ERR_DATA, "%s", reason);
}

/* Find the text of a record. If it has no text, set *text to NULL and write the reason. */
static void find_text(const zr__parts *parts, const json_t *record, const char **text, int64_t *bytes,
                      char reason[ZR__REASON_BYTES])
{
    const json_t *value = json_object_get(record, parts->text_key);
    char members[160];
    *text = json_string_value(value);
    *bytes = (int64_t)json_string_length(value);
    if (!*text)
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected a text, as in the first record: this one has %s",
                 ZR_SHOWN(parts->text_key), value ? "not a string" : "missing",
                 zr__jsonl_members(record, members, sizeof(members)));
}

/* Process a record, or a line that is no JSON. */
static zr_status give_record(const zr__parts *parts, zr__part *part, const char *record, int64_t bytes, zr__text_fn fn,
                             void *arg)
{
    char reason[ZR__REASON_BYTES] = "";
    const char *text = NULL;
    json_auto_t *root = NULL;
    int64_t n = 0;
    if ((parts->shape == ZR__SHAPE_VALUES || parts->shape == ZR__SHAPE_ARRAY) && record[0] != '{') {
        snprintf(reason, sizeof(reason), "the record is not a JSON object");
    } else if (parts->line) {
        ZR_TRY(parts->line(parts->line_of, arg, record, bytes, &n, reason));
    } else {
        ZR_TRY(zr__jsonl_object(&parts->table, record, bytes, &root, reason));
        if (!root && !reason[0]) return ZR_OK;
        if (!reason[0] && parts->record) ZR_TRY(parts->record(parts->line_of, arg, root, &n, reason));
        if (!reason[0] && !parts->record) find_text(parts, root, &text, &n, reason);
    }
    if (reason[0]) return refuse_record(parts, part, reason);
    if (text) return n > 0 ? give_text(parts, part, text, n, fn, arg) : ZR_OK;
    part->found.documents += n > 0;
    part->found.text_bytes += n;
    return ZR_OK;
}

static zr_status give_records(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg)
{
    char reason[ZR__REASON_BYTES];
    zr__shape_walk walk = {
        .shape = parts->shape, .text = part->text, .n = part->n, .first = part->first, .whole = part->last};
    zr__shape_found found = ZR__RECORD_NONE;
    const bool lines = parts->shape == ZR__SHAPE_LINES;
    part->line = 1;
    if (part->too_long) {
        part->lines = 1;
        snprintf(reason, sizeof(reason), "the %s is longer than %lld bytes", lines ? "line" : "record",
                 (long long)ZR__LINE_BYTES);
        return lines ? refuse_record(parts, part, reason) : refuse_rest(part, reason);
    }
    for (int64_t at = 0; part->n > 0 && (found = zr__shape_next(&walk)) == ZR__RECORD_FOUND; at = walk.end) {
        part->line = 1 + part->lines + count_lines(part->text + at, walk.begin - at);
        ZR_TRY(give_record(parts, part, part->text + walk.begin, walk.end - walk.begin, fn, arg));
        part->lines += count_lines(part->text + at, walk.end - at);
    }
    if (found != ZR__RECORD_BROKEN) return ZR_OK;
    part->line = 1 + count_lines(part->text, walk.begin);
    return refuse_rest(part, walk.reason);
}

void zr__part_run(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg)
{
    const bool records = parts->shape != ZR__SHAPE_TEXT;
    part->found = (zr__found_texts){0};
    part->lines = part->bad_line = 0;
    part->broken = false;
    part->failed.status = ZR_OK;
    if (!records) part->found = (zr__found_texts){.documents = part->at == 0, .text_bytes = part->n};
    const int where = (part->at == 0 ? ZR__DOCUMENT_BEGINS : 0) | (part->last ? ZR__DOCUMENT_ENDS : 0);
    zr__failure_note(&part->failed, records ? give_records(parts, part, fn, arg) : fn(arg, part->text, part->n, where));
}

zr_status zr__part_take(zr__parts *parts, const zr__part *part, zr__found_texts *all)
{
    const zr__found_texts *found = &part->found;
    const char *name = parts->file->name;
    if (part->bad_line > 0)
        return ZR_FAIL(part->failed.status, "%s:%lld: %s; %s%s", name, (long long)(parts->lines_read + part->bad_line),
                       part->failed.message,
                       part->broken ? "correct the file, or write each record on a line of its own (.jsonl)"
                                    : parts->remedy,
                       parts->or_text ? parts->or_text : "");
    ZR_CHECK(part->failed.status == ZR_OK, part->failed.status, "%s: error in the text from byte %lld on: %s", name,
             (long long)part->at, part->failed.message);
    if (all->skipped_lines == 0 && found->skipped_lines > 0)
        all->first_skipped = parts->lines_read + found->first_skipped;
    all->documents += found->documents;
    all->text_bytes += found->text_bytes;
    all->skipped_lines += found->skipped_lines;
    parts->lines_read += part->lines;
    return ZR_OK;
}
