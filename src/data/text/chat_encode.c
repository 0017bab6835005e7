/* Encodes rendered conversations, and finds the tokens that count for the loss. */
#include "data/text/chat.h"

#include "base/core/grow.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

/* A rendered text that is being encoded. */
typedef struct encoding {
    const zr__rendered *r;
    const zr_tokenizer *tokenizer;
    const zr__chat *chat;
    int32_t *ids; /* growing array of n tokens */
    int64_t room, n;
} encoding;

/* A stretch of the text that is encoded as one text: bytes [begin, end). `continues` tells that it continues an earlier
 * stretch. */
typedef struct stretch {
    int64_t begin, end;
    bool continues;
    bool exact;    /* whether the tokens spell the bytes of the stretch, except for `added` bytes before them */
    int64_t added; /* 1 if the tokenizer puts a space before the stretch, else 0 */
} stretch;

/* Append the tokens of bytes [begin, end). *spelled receives the number of bytes that they spell. */
static zr_status put_tokens(encoding *e, int64_t begin, int64_t end, bool continues, int64_t *spelled)
{
    const int64_t first = e->n, most = zr_tokenizer_room(e->tokenizer, end - begin);
    const char *text = NULL;
    int64_t n = 0, bytes = 0;
    ZR_GROW(e->ids, e->room, e->n + most, "tokens of a conversation");
    ZR_TRY(
        zr__tokenizer_encode(e->tokenizer, e->r->text.data + begin, end - begin, continues, e->ids + e->n, most, &n));
    e->n += n;
    *spelled = 0;
    for (int64_t i = first; i < e->n; i++) {
        ZR_TRY(zr_tokenizer_decode(e->tokenizer, e->ids[i], &text, &bytes));
        *spelled += bytes;
    }
    return ZR_OK;
}

/* Convert an offset `at` in the rendered text to an offset in the text that the tokens of the stretch spell. *spelled
 * receives this offset, or INT64_MAX if `at` is not before the stretch's end. If the tokenizer changes the text, for
 * example by a normal form, encode the text before `at` and count the bytes of its tokens. */
static zr_status find_spelled(encoding *e, const stretch *s, int64_t at, int64_t *spelled)
{
    const int64_t n = e->n;
    *spelled = at - s->begin + s->added;
    if (at >= s->end) *spelled = INT64_MAX;
    if (at >= s->end || s->exact) return ZR_OK;
    ZR_TRY(put_tokens(e, s->begin, at, s->continues, spelled));
    e->n = n;
    return ZR_OK;
}

/* Return the end of the consecutive spans, from *span on, that have the same `trains`. *span receives the index of the
 * span after them. */
static int64_t end_of_alike(const zr__rendered *r, int64_t *span)
{
    const bool trains = r->span[*span].trains;
    while (*span < r->n && r->span[*span].trains == trains) ++*span;
    return r->span[*span - 1].end;
}

/* Encode a stretch, and mark the tokens that do not count. `span` is the index of the span of its first byte. */
static zr_status put_stretch(encoding *e, stretch s, int64_t span)
{
    const int64_t first = e->n;
    int64_t spelled = 0, at = 0, bytes = 0, end = 0;
    const char *text = NULL;
    bool trains = false;
    if (s.begin == s.end) return ZR_OK;
    ZR_TRY(put_tokens(e, s.begin, s.end, s.continues, &spelled));
    s.added = spelled - (s.end - s.begin);
    s.exact = s.added == 0 || (s.added == 1 && !s.continues);
    const int64_t last = e->n;
    for (int64_t i = first; i < last; at += bytes, i++) {
        ZR_TRY(zr_tokenizer_decode(e->tokenizer, e->ids[i], &text, &bytes));
        while (at >= end) {
            trains = e->r->span[span].trains;
            ZR_TRY(find_spelled(e, &s, end_of_alike(e->r, &span), &end));
        }
        if (!trains) e->ids[i] |= ZR__IGNORED;
    }
    return ZR_OK;
}

/* Encode the whole text. If a message has the name of a control token, divide the text after the name's first byte, so
 * that the name becomes ordinary tokens. */
static zr_status put_spans(encoding *e)
{
    const zr__rendered *r = e->r;
    stretch s = {0};
    int64_t length = 0, first = 0; /* first: index of the span of the stretch's first byte */
    for (int64_t i = 0, at = 0; i < r->n; at = r->span[i++].end) {
        int64_t found = r->span[i].apart ? 0 : -1;
        do {
            if (found >= 0) {
                at += found;
                s.end = at;
                ZR_TRY(put_stretch(e, s, first));
                s = (stretch){.begin = at, .continues = at > 0};
                first = i;
            }
            found = -1;
            if (r->span[i].message)
                found = zr__chat_control_in(e->chat, r->text.data + at, r->span[i].end - at, &length);
            if (found >= 0) found++;
        } while (found > 0);
    }
    s.end = (int64_t)r->text.length;
    return put_stretch(e, s, first);
}

/* Append the tokens with which the tokenizer begins texts. */
static zr_status put_begin(encoding *e)
{
    const zr_tokenizer_ends ends = zr_tokenizer_get_ends(e->tokenizer);
    if (!e->r->begins || ends.n_begin == 0) return ZR_OK;
    ZR_GROW(e->ids, e->room, e->n + ends.n_begin, "tokens of a conversation");
    for (int64_t i = 0; i < ends.n_begin; i++) e->ids[e->n++] = ends.begin[i] | (e->chat->all ? 0 : ZR__IGNORED);
    return ZR_OK;
}

zr_status zr__rendered_encode(const zr__rendered *r, const zr__chat *chat, const zr_tokenizer *tokenizer, int32_t **ids,
                              int64_t *room, int64_t *n)
{
    encoding e = {.r = r, .chat = chat, .tokenizer = tokenizer, .ids = *ids, .room = *room, .n = *n};
    zr_status st = put_begin(&e);
    if (st == ZR_OK) st = put_spans(&e);
    *ids = e.ids;
    *room = e.room;
    *n = e.n;
    return st;
}
