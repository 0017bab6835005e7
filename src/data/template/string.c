/* Texts with marks, and the methods of Python's strings. */
#include "data/template/values.h"

#include "base/text/text.h"
#include "data/pieces/classes.h"
#include "data/pieces/nfc.h"

#include <string.h>

enum { CAPITAL_SIGMA = 0x3a3 };

/* ---- building -------------------------------------------------------------------------------- */

static zr_status make_room(zr__run *r, void **array, int64_t *room, int64_t n, int64_t wanted, int64_t each)
{
    void *more = NULL;
    if (wanted <= *room) return ZR_OK;
    const int64_t next = wanted > 2 * *room ? wanted + 16 : 2 * *room;
    ZR_TRY(zr__pool_take(&r->pool, next * each, &more));
    if (n > 0) memcpy(more, *array, (size_t)(n * each));
    *array = more;
    *room = next;
    return ZR_OK;
}

/* Append a mark, or lengthen the last one. */
static zr_status add_mark(zr__run *r, zr__builder *b, int64_t end, int32_t source, bool generated)
{
    zr__mark *last = b->marks > 0 ? &b->mark[b->marks - 1] : NULL;
    void *mark = b->mark;
    b->marked = b->marked || source != ZR__FROM_TEMPLATE || generated;
    if (last && last->source == source && last->generated == generated) {
        last->end = end;
        return ZR_OK;
    }
    ZR_TRY(zr__run_work(r, 1));
    ZR_TRY(make_room(r, &mark, &b->mark_room, b->marks, b->marks + 1, sizeof(*b->mark)));
    b->mark = mark;
    b->mark[b->marks++] = (zr__mark){end, source, generated};
    return ZR_OK;
}

static zr_status add_bytes(zr__run *r, zr__builder *b, const char *text, int64_t bytes)
{
    void *to = b->text;
    ZR_TRY(zr__run_work(r, 1 + bytes / 64));
    ZR_TRY(make_room(r, &to, &b->room, b->bytes, b->bytes + bytes, 1));
    b->text = to;
    if (bytes > 0) memcpy(b->text + b->bytes, text, (size_t)bytes);
    b->bytes += bytes;
    return ZR_OK;
}

zr_status zr__build_bytes(zr__run *r, zr__builder *b, const char *text, int64_t bytes, int32_t source)
{
    if (bytes == 0 && source == ZR__FROM_TEMPLATE) return ZR_OK;
    ZR_TRY(add_bytes(r, b, text, bytes));
    return add_mark(r, b, b->bytes, source, false);
}

zr_status zr__build_text(zr__run *r, zr__builder *b, const char *text)
{
    return zr__build_bytes(r, b, text, (int64_t)strlen(text), ZR__FROM_TEMPLATE);
}

/* Return the index of the mark of byte `at`. */
static int64_t mark_at(const zr__string *s, int64_t at)
{
    int64_t low = 0, high = s->marks - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (s->mark[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

zr_status zr__build_slice(zr__run *r, zr__builder *b, const zr__string *s, int64_t from, int64_t to)
{
    if (s->marks == 0) return zr__build_bytes(r, b, s->text + from, to - from, ZR__FROM_TEMPLATE);
    const int64_t base = b->bytes - from;
    int64_t i = mark_at(s, from);
    /* empty parts at the beginning belong to the slice, too */
    while (i > 0 && s->mark[i - 1].end == from && (i == 1 ? 0 : s->mark[i - 2].end) == from) i--;
    ZR_TRY(add_bytes(r, b, s->text + from, to - from));
    for (; i < s->marks; i++) {
        const int64_t end = s->mark[i].end < to ? s->mark[i].end : to;
        ZR_TRY(add_mark(r, b, base + end, s->mark[i].source, s->mark[i].generated));
        if (s->mark[i].end >= to && (i + 1 == s->marks || s->mark[i + 1].end > to)) break;
    }
    return ZR_OK;
}

zr_status zr__build_string(zr__run *r, zr__builder *b, const zr__string *s)
{
    return zr__build_slice(r, b, s, 0, s->bytes);
}

zr_status zr__build_generated(zr__run *r, zr__builder *b, const zr__string *s)
{
    const zr__mark whole = {.end = s->bytes, .source = ZR__FROM_TEMPLATE}, *mark = s->marks > 0 ? s->mark : &whole;
    const int64_t base = b->bytes;
    ZR_TRY(add_bytes(r, b, s->text, s->bytes));
    for (int64_t i = 0; i < (s->marks > 0 ? s->marks : 1); i++)
        ZR_TRY(add_mark(r, b, base + mark[i].end, mark[i].source, true));
    return ZR_OK;
}

zr_status zr__build_instead(zr__run *r, zr__builder *b, const zr__string *s, int64_t from, const char *text,
                            int64_t bytes)
{
    const zr__mark none = {.source = ZR__FROM_TEMPLATE};
    const zr__mark *mark = s->marks > 0 ? &s->mark[mark_at(s, from)] : &none;
    ZR_TRY(add_bytes(r, b, text, bytes));
    return add_mark(r, b, b->bytes, mark->source, mark->generated);
}

zr_status zr__build_done(zr__run *r, const zr__builder *b, zr__value *out)
{
    zr__string *s = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*s), &s));
    s->text = b->text ? b->text : "";
    s->bytes = b->bytes;
    if (b->marked) {
        s->mark = b->mark;
        s->marks = b->marks;
    }
    *out = (zr__value){.kind = ZR__STRING, .string = s};
    return ZR_OK;
}

zr_status zr__string_of(zr__run *r, const char *text, int64_t bytes, int32_t source, zr__value *out)
{
    zr__string *s = NULL;
    zr__mark *mark = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*s), &s));
    *s = (zr__string){.text = text, .bytes = bytes};
    *out = (zr__value){.kind = ZR__STRING, .string = s};
    if (source == ZR__FROM_TEMPLATE) return ZR_OK;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*mark), &mark));
    *mark = (zr__mark){.end = bytes, .source = source};
    s->mark = mark;
    s->marks = 1;
    return ZR_OK;
}

zr_status zr__string_slice(zr__run *r, const zr__string *s, int64_t from, int64_t to, zr__value *out)
{
    zr__builder b = {0};
    zr__string *slice = NULL;
    if (s->marks <= 1) { /* the slice shares the text */
        zr__mark *mark = NULL;
        ZR_TRY(zr__pool_take(&r->pool, sizeof(*slice), &slice));
        *slice = (zr__string){.text = s->text + from, .bytes = to - from, .marks = s->marks, .safe = s->safe};
        if (s->marks == 1) {
            ZR_TRY(zr__pool_take(&r->pool, sizeof(*mark), &mark));
            *mark = s->mark[0];
            mark->end = to - from;
            slice->mark = mark;
        }
        *out = (zr__value){.kind = ZR__STRING, .string = slice};
        return ZR_OK;
    }
    ZR_TRY(zr__build_slice(r, &b, s, from, to));
    return zr__build_done(r, &b, out);
}

/* ---- characters ------------------------------------------------------------------------------ */

int64_t zr__string_length(const zr__string *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->bytes; i++) n += ((unsigned char)s->text[i] & 0xc0) != 0x80;
    return n;
}

int64_t zr__string_step(const zr__string *s, int64_t at)
{
    int64_t end = at + 1;
    while (end < s->bytes && ((unsigned char)s->text[end] & 0xc0) == 0x80) end++;
    return end - at;
}

/* Return the offset of the character before `at`. */
static int64_t step_back(const zr__string *s, int64_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)s->text[at] & 0xc0) == 0x80);
    return at;
}

int64_t zr__string_find(const zr__string *s, const zr__string *what, int64_t at)
{
    if (at > s->bytes) return -1;
    if (what->bytes == 0) return at;
    const char *found = memmem(s->text + at, (size_t)(s->bytes - at), what->text, (size_t)what->bytes);
    return found ? found - s->text : -1;
}

/* Return whether the character at `at` is in the set, or is white space if there is no set. */
static bool is_in_set(const zr__string *s, int64_t at, const zr__string *set)
{
    int64_t bytes = zr__string_step(s, at);
    if (!set) return zr__is_python_space(zr__character_at((const unsigned char *)s->text + at, &bytes));
    for (int64_t i = 0, n; i < set->bytes; i += n) {
        n = zr__string_step(set, i);
        if (n == bytes && memcmp(set->text + i, s->text + at, (size_t)n) == 0) return true;
    }
    return false;
}

zr_status zr__string_strip(zr__run *r, const zr__string *s, const zr__string *set, bool left, bool right,
                           zr__value *out)
{
    int64_t from = 0, to = s->bytes;
    const int64_t each = 1 + (set ? set->bytes / 4 : 0); /* work for a character */
    ZR_TRY(zr__run_work(r, 2 * each));
    for (; left && from < to && is_in_set(s, from, set); from += zr__string_step(s, from))
        ZR_TRY(zr__run_work(r, each));
    for (; right && to > from && is_in_set(s, step_back(s, to), set); to = step_back(s, to))
        ZR_TRY(zr__run_work(r, each));
    return zr__string_slice(r, s, from, to, out);
}

/* Convert a character. *n receives the number of bytes of `out`, or 0 if the result is not known. */
static void convert(uint32_t c, bool upper, char out[8], int64_t *n)
{
    int32_t to[2] = {0};
    int64_t many = 1;
    *n = 0;
    if (upper)
        to[0] = zr__upper((int32_t)c);
    else
        many = zr__lower((int32_t)c, to);
    if (to[0] < 0 || (!upper && c == CAPITAL_SIGMA)) return; /* a sigma's small letter depends on its place */
    for (int64_t i = 0; i < many; i++) *n += zr__character_put(to[i], out + *n);
}

zr_status zr__string_case(zr__run *r, const zr__string *s, zr__case to, zr__value *out)
{
    zr__builder b = {0};
    bool begins = true; /* whether a word begins here; in title case a word ends at white space and some others */
    ZR_TRY(zr__run_work(r, s->bytes / 16));
    for (int64_t at = 0, n = 0, made = 0; at < s->bytes; at += n) {
        char text[8];
        const uint32_t c = zr__character_at((const unsigned char *)s->text + at, &n);
        const bool upper = to == ZR__UPPER_CASE || (begins && to != ZR__LOWER_CASE);
        convert(c, upper, text, &made);
        if (made == 0)
            return zr__run_bad(r, "the %s case of U+%04X is not supported", upper ? "upper" : "lower", (unsigned)c);
        ZR_TRY(zr__build_instead(r, &b, s, at, text, made));
        begins = to == ZR__TITLE_CASE && (zr__is_python_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c)));
    }
    if (s->bytes == 0) ZR_TRY(zr__build_string(r, &b, s));
    return zr__build_done(r, &b, out);
}

/* ---- several strings ------------------------------------------------------------------------- */

/* Replace "": put the new text before each character and at the end. */
static zr_status put_between(zr__run *r, zr__builder *b, const zr__string *s, const zr__string *new, int64_t most)
{
    int64_t at = 0;
    for (int64_t n = 0; n != most; n++) {
        ZR_TRY(zr__build_string(r, b, new));
        if (at == s->bytes) break;
        const int64_t end = at + zr__string_step(s, at);
        ZR_TRY(zr__build_slice(r, b, s, at, end));
        at = end;
    }
    return at < s->bytes ? zr__build_slice(r, b, s, at, s->bytes) : ZR_OK;
}

zr_status zr__string_replace(zr__run *r, const zr__string *s, const zr__string *old, const zr__string *new,
                             int64_t most, zr__value *out)
{
    zr__builder b = {0};
    int64_t at = 0, found;
    ZR_TRY(zr__run_work(r, s->bytes / 64));
    if (old->bytes == 0) {
        ZR_TRY(put_between(r, &b, s, new, most));
        return zr__build_done(r, &b, out);
    }
    for (int64_t n = 0; n != most && (found = zr__string_find(s, old, at)) >= 0; n++) {
        if (found > at) ZR_TRY(zr__build_slice(r, &b, s, at, found));
        ZR_TRY(zr__build_string(r, &b, new));
        at = found + old->bytes;
    }
    if (at < s->bytes || s->bytes == 0) ZR_TRY(zr__build_slice(r, &b, s, at, s->bytes));
    return zr__build_done(r, &b, out);
}

static zr_status add_part(zr__run *r, const zr__string *s, int64_t from, int64_t to, zr__list *list)
{
    zr__value part;
    ZR_TRY(zr__string_slice(r, s, from, to, &part));
    return zr__list_append(r, list, part);
}

/* Divide at white space, and leave no white space at the ends of parts. */
static zr_status split_words(zr__run *r, const zr__string *s, int64_t most, zr__list *list)
{
    for (int64_t at = 0, n = 0;; n++) {
        while (at < s->bytes && is_in_set(s, at, NULL)) at += zr__string_step(s, at);
        int64_t end = at;
        if (at == s->bytes) return ZR_OK;
        if (n == most) end = s->bytes;
        while (end < s->bytes && !is_in_set(s, end, NULL)) end += zr__string_step(s, end);
        ZR_TRY(add_part(r, s, at, end, list));
        at = end;
    }
}

/* Find the last occurrence of `what` that ends at or before `end`. *found receives its offset or a negative number. */
static zr_status find_last(zr__run *r, const zr__string *s, const zr__string *what, int64_t end, int64_t *found)
{
    for (*found = end - what->bytes; *found >= 0; --*found) {
        ZR_TRY(zr__run_work(r, 1 + what->bytes / 64));
        if (memcmp(s->text + *found, what->text, (size_t)what->bytes) == 0) break;
    }
    return ZR_OK;
}

zr_status zr__string_split(zr__run *r, const zr__string *s, const zr__string *by, int64_t most, bool from_right,
                           zr__value *out)
{
    int64_t at = 0, end = s->bytes, found;
    ZR_TRY(zr__list_make(r, ZR__A_LIST, 4, out));
    zr__list *list = out->list;
    if (by && by->bytes == 0) return zr__run_bad(r, "split() has an empty separator");
    ZR_TRY(zr__run_work(r, s->bytes / 16));
    if (from_right && most >= 0) {
        if (!by) return zr__run_bad(r, "rsplit() with a number and no separator is not supported");
        for (int64_t n = 0; n != most; n++) {
            ZR_TRY(find_last(r, s, by, end, &found));
            if (found < 0) break;
            ZR_TRY(add_part(r, s, found + by->bytes, end, list));
            end = found;
        }
        ZR_TRY(add_part(r, s, 0, end, list));
        for (int64_t i = 0; i < list->n / 2; i++) {
            const zr__value swapped = list->item[i];
            list->item[i] = list->item[list->n - 1 - i];
            list->item[list->n - 1 - i] = swapped;
        }
        return ZR_OK;
    }
    if (!by) return split_words(r, s, most, list);
    for (int64_t n = 0; n != most && (found = zr__string_find(s, by, at)) >= 0; n++) {
        ZR_TRY(add_part(r, s, at, found, list));
        at = found + by->bytes;
    }
    return add_part(r, s, at, s->bytes, list);
}

zr_status zr__string_join(zr__run *r, const zr__string *between, const zr__list *list, zr__value *out)
{
    zr__builder b = {0};
    for (int64_t i = 0; i < list->n; i++) {
        if (i > 0) ZR_TRY(zr__build_string(r, &b, between));
        ZR_TRY(zr__print(r, &b, &list->item[i]));
    }
    return zr__build_done(r, &b, out);
}
