/* Encodes rendered conversations, and finds the tokens that count for the loss. */
#include "data/text/chat.h"

#include <string.h>

/* A rendered text that is being encoded. */
typedef struct encoding {
    const zr__rendered *r;
    const zr_tokenizer *tokenizer;
    const char *control[ZR__CHAT_CONTROLS];
    int controls;
    int32_t *ids;
    int64_t room, n;
} encoding;

/* Return whether the byte at offset `at` belongs to a span that trains. *span is the index of the span of an earlier
 * byte, and receives the index of the span of this byte. */
static bool trains_at(const zr__rendered *r, int64_t at, int64_t *span)
{
    while (r->span[*span].end <= at) ++*span;
    return r->span[*span].trains;
}

/* Encode bytes [begin, end) of the text as one text. `span` is the index of the span of the first byte. */
static zr_status put_stretch(encoding *e, int64_t begin, int64_t end, int64_t span)
{
    const int64_t first = e->n;
    int64_t n = 0, spelled = 0, at = begin, bytes = 0;
    const char *text = NULL;
    if (begin == end) return ZR_OK;
    ZR_TRY(zr_tokenizer_encode(e->tokenizer, e->r->text.data + begin, end - begin, e->ids + e->n, e->room - e->n, &n));
    e->n += n;
    for (int64_t i = first; i < e->n; i++) {
        ZR_TRY(zr_tokenizer_decode(e->tokenizer, e->ids[i], &text, &bytes));
        spelled += bytes;
    }
    /* A tokenizer may put a space before a text, so that its tokens spell one byte more. */
    at -= spelled - (end - begin);
    ZR_CHECK(at == begin || at == begin - 1, ZR_ERR_UNSUPPORTED,
             "the tokenizer %s changes the text (%lld bytes become %lld), so the tokens of the answer are not known; "
             "use a tokenizer that keeps all bytes",
             zr_tokenizer_name(e->tokenizer), (long long)(end - begin), (long long)spelled);
    for (int64_t i = first; i < e->n; i++) {
        ZR_TRY(zr_tokenizer_decode(e->tokenizer, e->ids[i], &text, &bytes));
        /* a token with only the added space counts as the byte after it */
        if (!trains_at(e->r, at < begin ? begin : at, &span)) e->ids[i] |= ZR__IGNORED;
        at += bytes;
    }
    return ZR_OK;
}

/* Find the first name of a control token in a text. Return its offset, or -1. */
static int64_t find_control(const encoding *e, const char *text, int64_t bytes)
{
    const char *first = NULL;
    for (int i = 0; i < e->controls; i++) {
        const size_t length = strlen(e->control[i]);
        const char *at = length ? memmem(text, (size_t)(first ? first - text : bytes), e->control[i], length) : NULL;
        if (at) first = at;
    }
    return first ? first - text : -1;
}

/* Encode consecutive spans other than control tokens, [from, to), as one text. If a message has the name of a control
 * token, divide the text after the name's first byte, so that the name becomes ordinary tokens. */
static zr_status put_spans(encoding *e, int64_t from, int64_t to)
{
    const zr__rendered *r = e->r;
    int64_t done = from > 0 ? r->span[from - 1].end : 0, done_span = from;
    for (int64_t s = from; s < to; s++) {
        int64_t at = s > 0 ? r->span[s - 1].end : 0, found;
        if (r->span[s].apart && at > done) {
            ZR_TRY(put_stretch(e, done, at, done_span));
            done = at;
            done_span = s;
        }
        while (r->span[s].kind == ZR__SPAN_MESSAGE &&
               (found = find_control(e, r->text.data + at, r->span[s].end - at)) >= 0) {
            at += found + 1;
            ZR_TRY(put_stretch(e, done, at, done_span));
            done = at;
            done_span = s;
        }
    }
    return put_stretch(e, done, r->span[to - 1].end, done_span);
}

static bool is_control(const encoding *e, int64_t span)
{
    return e->r->span[span].kind == ZR__SPAN_CONTROL;
}

zr_status zr__rendered_encode(const zr__rendered *r, const zr__chat *chat, const zr_tokenizer *tokenizer, int32_t *ids,
                              int64_t room, int64_t *n)
{
    encoding e = {.r = r, .tokenizer = tokenizer, .ids = ids, .room = room};
    e.controls = zr__chat_controls(chat, e.control);
    for (int64_t s = 0, next; s < r->n; s = next) {
        next = s + 1;
        if (is_control(&e, s)) {
            ZR_TRY(put_stretch(&e, s > 0 ? r->span[s - 1].end : 0, r->span[s].end, s));
            continue;
        }
        while (next < r->n && !is_control(&e, next)) next++;
        ZR_TRY(put_spans(&e, s, next));
    }
    *n = e.n;
    return ZR_OK;
}
