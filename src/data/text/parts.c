#include "data/text/parts.h"

#include "base/core/grow.h"
#include "data/text/jsonl.h"

#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

zr_status zr__parts_begin(zr__parts *parts)
{
    char head[3];
    const int64_t n = parts->file->bytes < (int64_t)sizeof(head) ? parts->file->bytes : (int64_t)sizeof(head);
    parts->first = parts->read = parts->lines_read = 0;
    if (parts->shape == ZR__SHAPE_TEXT) return ZR_OK;
    ZR_TRY(zr__file_read(parts->file, 0, head, n, ZR_ERR_IO));
    parts->first = parts->read = zr__shape_mark(head, n);
    return ZR_OK;
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
 * end cannot be found. */
static zr_status skip_record(zr__parts *parts, zr__part *part)
{
    part->too_long = true;
    if (parts->shape != ZR__SHAPE_LINES) parts->read = parts->file->bytes;
    while (parts->read < parts->file->bytes) {
        const int64_t left = parts->file->bytes - parts->read, n = left < part->room ? left : part->room;
        ZR_TRY(zr__file_read(parts->file, parts->read, part->text, n, ZR_ERR_IO));
        const char *end = memchr(part->text, '\n', (size_t)n);
        parts->read += end ? end - part->text + 1 : n;
        if (end) break;
    }
    return ZR_OK;
}

zr_status zr__part_read(zr__parts *parts, zr__part *part)
{
    const int64_t left = parts->file->bytes - parts->read, most = parts->shape ? ZR__LINE_BYTES : parts->most_bytes;
    part->too_long = false;
    part->n = 0;
    part->at = parts->read;
    part->first = part->at == parts->first;
    for (int64_t have = 0, n = parts->usual_bytes; left > 0 && part->n == 0; n = 2 * have) {
        if (n > most) n = most;
        if (n > left) n = left;
        ZR_GROW(part->text, part->room, n, "bytes of text that cannot be cut");
        ZR_TRY(zr__file_read(parts->file, parts->read + have, part->text + have, n - have, ZR_ERR_IO));
        part->n = n == left ? n : part_end(parts, part, have, n);
        if (part->n == 0 && parts->shape && n == most) return skip_record(parts, part);
        have = n;
    }
    parts->read += part->n;
    return ZR_OK;
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

/* Pass the text of a record to fn. */
static zr_status give_record_text(const zr__parts *parts, zr__part *part, const char *record, int64_t bytes,
                                  zr__text_fn fn, void *arg)
{
    char reason[ZR__REASON_BYTES];
    const char *text = NULL;
    json_auto_t *root = NULL;
    int64_t n = 0;
    ZR_TRY(zr__jsonl_text(record, bytes, parts->text_key, parts->key_named, parts->forms, &root, &text, &n, reason));
    if (!text) return refuse_record(parts, part, reason);
    return n > 0 ? give_text(parts, part, text, n, fn, arg) : ZR_OK;
}

/* Pass a record of instruction data to the function for such records. */
static zr_status give_record(const zr__parts *parts, zr__part *part, const char *record, int64_t bytes, void *arg)
{
    char reason[ZR__REASON_BYTES] = "";
    int64_t n = 0;
    ZR_TRY(parts->line(parts->line_of, arg, record, bytes, &n, reason));
    if (reason[0]) return refuse_record(parts, part, reason);
    part->found.documents += n > 0;
    part->found.text_bytes += n;
    return ZR_OK;
}

static int64_t count_lines(const char *text, int64_t n)
{
    int64_t lines = 0;
    for (const char *at = text, *end = text + n; (at = memchr(at, '\n', (size_t)(end - at))); at++) lines++;
    return lines;
}

/* Process the record that `walk` has found. */
static zr_status give(const zr__parts *parts, zr__part *part, const zr__shape_walk *walk, zr__text_fn fn, void *arg)
{
    const char *record = part->text + walk->begin;
    const int64_t bytes = walk->end - walk->begin;
    if (parts->shape != ZR__SHAPE_LINES && record[0] != '{')
        return refuse_record(parts, part, "the record is not a JSON object");
    return parts->line ? give_record(parts, part, record, bytes, arg)
                       : give_record_text(parts, part, record, bytes, fn, arg);
}

static zr_status give_records(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg)
{
    char reason[ZR__REASON_BYTES];
    zr__shape_walk walk = {.shape = parts->shape,
                           .text = part->text,
                           .n = part->n,
                           .first = part->first,
                           .whole = part->at + part->n == parts->file->bytes};
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
        ZR_TRY(give(parts, part, &walk, fn, arg));
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
    const bool begins = part->at == 0, ends = part->at + part->n == parts->file->bytes;
    const int where = (begins ? ZR__DOCUMENT_BEGINS : 0) | (ends ? ZR__DOCUMENT_ENDS : 0);
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
