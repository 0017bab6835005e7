/* Renders conversations with chat templates, and finds the bytes of answers. */
#include "data/text/chat.h"

#include "base/core/grow.h"
#include "data/pieces/classes.h"

#include <stdio.h>
#include <string.h>

/* ---- rendered texts -------------------------------------------------------------------------- */

void zr__rendered_clear(zr__rendered *r)
{
    zr__text_drop(&r->text, r->text.length);
    r->n = 0;
    r->failed = false;
}

void zr__rendered_free(zr__rendered *r)
{
    zr__text_clear(&r->text);
    zr_free(r->span);
    *r = (zr__rendered){0};
}

/* Append a span. */
static void add_span(zr__rendered *r, const char *text, int64_t bytes, bool message, bool trains)
{
    if (bytes <= 0 || r->failed) return;
    zr__text_append(&r->text, text, (size_t)bytes);
    zr__span *span = r->n < r->room ? r->span : zr__enlarge(r->span, &r->room, r->n + 1, sizeof(*r->span));
    r->failed = r->text.failed || !span;
    if (r->failed) return;
    r->span = span;
    r->span[r->n++] = (zr__span){.end = (int64_t)r->text.length, .message = message, .trains = trains};
}

/* Search for names of control tokens that begin in the first `most` bytes. */
static int64_t control_before(const zr__chat *chat, const char *text, int64_t bytes, int64_t most, int64_t *length)
{
    int64_t first = -1;
    for (int64_t i = 0; i < chat->controls; i++) {
        const int64_t n = (int64_t)strlen(chat->control[i]), end = most + n - 1 < bytes ? most + n - 1 : bytes;
        const char *at = memmem(text, (size_t)end, chat->control[i], (size_t)n);
        if (!at || (first >= 0 && at - text >= first)) continue;
        first = at - text;
        *length = n;
    }
    return first;
}

/* The part that is searched grows until it has a name, so that the time to find all names of a text is proportional to
 * its length. */
int64_t zr__chat_control_in(const zr__chat *chat, const char *text, int64_t bytes, int64_t *length)
{
    int64_t first = -1;
    for (int64_t most = 64; first < 0 && bytes > 0; most *= 2) {
        first = control_before(chat, text, bytes, most, length);
        if (most >= bytes) break;
    }
    return first;
}

/* ---- answers --------------------------------------------------------------------------------- */

enum { COUNTS = 1, IN_MESSAGE = 2 };

/* Answers for which the messages before them are rendered in any case. */
enum { MOST_RENDERED = 32 };

/* A conversation that is being rendered. */
typedef struct page {
    const zr__chat *chat;
    const zr__message *message;
    int64_t n;
    json_t *json; /* the messages */
    zr__template_text text;
    int64_t answers;      /* for which find_begin was called */
    const char *between;  /* the template's text before the last answer that was rendered for, */
    int64_t bytes, begin; /* its bytes, and where within the model begins to write */
    char *on; /* for each byte: whether the loss counts it, and at last whether it belongs to a message, as bits */
} page;

/* A part of the text that consists of one message's text and the template's text within. */
typedef struct stretch {
    int32_t source;
    int64_t begin, end;   /* its first byte and the byte after its last one */
    int64_t before, next; /* end of the stretch before it, or 0; beginning of the stretch after it, or the text's end */
    int32_t earlier;      /* source of the stretch before it, or ZR__FROM_TEMPLATE */
} stretch;

/* Find the next stretch, from mark *at on. Return false if there is none. */
static bool next_stretch(const zr__template_text *t, int64_t *at, stretch *s)
{
    int64_t begin = *at > 0 ? t->mark[*at - 1].end : 0;
    const stretch last = *s;
    for (; *at < t->n && t->mark[*at].source == ZR__FROM_TEMPLATE; ++*at) begin = t->mark[*at].end;
    if (*at == t->n) return false;
    *s = (stretch){.source = t->mark[*at].source, .begin = begin, .before = last.end, .earlier = last.source};
    s->next = t->bytes;
    for (; *at < t->n; ++*at) {
        const int32_t source = t->mark[*at].source;
        if (source == s->source) s->end = t->mark[*at].end;
        if (source != s->source && source != ZR__FROM_TEMPLATE) {
            s->next = t->mark[*at - 1].end;
            break;
        }
    }
    return true;
}

static zr_status run(const page *p, json_t *messages, bool asks, zr__template_text *text)
{
    const zr__template_args args = {
        .messages = messages, .more = p->chat->variables, .add_generation_prompt = asks, .date = p->chat->date};
    return zr__template_run(p->chat->template, &args, text);
}

/* Return where the model begins to write an answer: after the text that the template's generation prompt has in common
 * with the text before the answer. If the template refuses the messages before the answer, this is the beginning of the
 * message's text. *begin receives it. Error: ZR_ERR_MEMORY.
 *
 * The time to render for each of n answers is proportional to n * n. After MOST_RENDERED answers, one with the same
 * text before it as the last one that was rendered for begins at the same place within. */
static zr_status find_begin(page *p, const stretch *s, int64_t *begin)
{
    const char *b = p->text.text + s->before;
    const int64_t most = s->begin - s->before;
    zr__template_text prompt;
    stretch last = {.source = ZR__FROM_TEMPLATE};
    int64_t at = 0, same = 0;
    *begin = s->before + p->begin;
    if (p->answers++ >= MOST_RENDERED && most == p->bytes && memcmp(b, p->between, (size_t)most) == 0) return ZR_OK;
    *begin = s->begin;
    json_t *before = json_array();
    ZR_CHECK(before, ZR_ERR_MEMORY, "no memory for the messages before an answer");
    for (int32_t i = 0; i < s->source; i++) (void)json_array_append(before, json_array_get(p->json, (size_t)i));
    const zr_status st = run(p, before, true, &prompt);
    if (st == ZR_OK) {
        while (next_stretch(&prompt, &at, &last)) continue;
        const char *a = prompt.text + last.end;
        const int64_t n = prompt.bytes - last.end;
        while (same < n && same < most && a[same] == b[same]) same++;
        if (last.source == s->earlier) *begin = s->before + same;
    }
    zr__template_release(&prompt);
    json_decref(before);
    p->between = b;
    p->bytes = most;
    p->begin = *begin - s->before;
    return st == ZR_ERR_DATA ? ZR_OK : st;
}

/* Return the end of an answer: the end of the first control token after it, or of the message's text. After other
 * messages, only the token that ends an answer counts. */
static int64_t end_of(const page *p, const stretch *s, bool answer)
{
    const zr__chat *chat = p->chat;
    const char *after = p->text.text + s->end;
    int64_t length = 0;
    const int64_t at = zr__chat_control_in(chat, after, s->next - s->end, &length);
    if (at < 0) return s->end;
    const bool ends_turn = strncmp(after + at, chat->turn_end, (size_t)length) == 0 && !chat->turn_end[length];
    return answer || ends_turn ? s->end + at + length : s->end;
}

/* Mark the bytes that the loss counts, in templates without {% generation %} blocks. */
static zr_status mark_answers(page *p)
{
    stretch s = {.source = ZR__FROM_TEMPLATE};
    int32_t done = ZR__FROM_TEMPLATE; /* the last message of which a stretch was found */
    for (int64_t at = 0; next_stretch(&p->text, &at, &s);) {
        if (s.source < 0) continue;
        const zr__message *m = &p->message[s.source];
        const bool answer = m->role == ZR__ASSISTANT;
        int64_t begin = s.begin;
        if (answer && m->trains != p->chat->all && s.source > done) ZR_TRY(find_begin(p, &s, &begin));
        done = s.source > done ? s.source : done;
        const int64_t end = end_of(p, &s, answer);
        memset(p->on + begin, m->trains ? COUNTS : 0, (size_t)(end - begin));
    }
    return ZR_OK;
}

/* Mark the bytes of {% generation %} blocks, except for those of messages that do not count. */
static void mark_generated(const page *p)
{
    const zr__template_text *t = &p->text;
    for (int64_t at = 0, begin = 0, i = 0; at < t->n; begin = t->mark[at - 1].end) {
        bool counts = true;
        for (i = at; i < t->n && t->mark[i].generated == t->mark[at].generated; i++)
            if (t->mark[i].source >= 0) counts = counts && p->message[t->mark[i].source].trains;
        if (t->mark[at].generated) memset(p->on + begin, counts ? COUNTS : 0, (size_t)(t->mark[i - 1].end - begin));
        at = i;
    }
}

/* ---- conversations --------------------------------------------------------------------------- */

/* Return whether a text has only white space. */
static bool is_blank(const char *text, int64_t bytes)
{
    int64_t n = 0;
    for (int64_t at = 0; at < bytes; at += n)
        if (!zr__is_python_space(zr__character_at((const unsigned char *)text + at, &n))) return false;
    return true;
}

/* Set *missing to the index of a message whose text is not in the rendered text, or to -1. */
static zr_status find_missing(const page *p, int64_t *missing)
{
    bool *seen = zr_alloc((size_t)p->n + 1);
    ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory for a conversation of %lld messages", (long long)p->n);
    for (int64_t i = 0; i < p->text.n; i++)
        if (p->text.mark[i].source >= 0) seen[p->text.mark[i].source] = true;
    *missing = -1;
    for (int64_t m = 0; m < p->n && *missing < 0; m++)
        if (!seen[m] && !is_blank(p->message[m].text, p->message[m].bytes)) *missing = m;
    zr_free(seen);
    return ZR_OK;
}

static void add_spans(const page *p, zr__rendered *r)
{
    const zr__template_text *t = &p->text;
    for (int64_t i = 0, at = 0; i < t->n; at = t->mark[i++].end)
        for (; at < t->mark[i].end && t->mark[i].source != ZR__FROM_TEMPLATE; at++) p->on[at] |= IN_MESSAGE;
    for (int64_t at = 0, end = 0; at < t->bytes; at = end) {
        while (end < t->bytes && p->on[end] == p->on[at]) end++;
        add_span(r, t->text + at, end - at, p->on[at] & IN_MESSAGE, p->on[at] & COUNTS);
    }
}

static const char *const role_names[ZR__ROLES] = {"system", "user", "assistant"};

/* Make the messages JSON. */
static zr_status make_json(page *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        const zr__message *m = &p->message[i];
        for (int64_t at = 0, n; at < m->bytes; at += n) {
            n = zr__text_utf8(m->text + at, m->bytes - at);
            ZR_CHECK(n > 0, ZR_ERR_DATA, "byte %lld of message %lld is not UTF-8", (long long)at, (long long)i + 1);
        }
        json_t *one = json_pack("{s:s, s:s%}", "role", role_names[m->role], "content", m->text, (size_t)m->bytes);
        ZR_CHECK(json_array_append_new(p->json, one) == 0, ZR_ERR_MEMORY, "no memory for a conversation");
    }
    return ZR_OK;
}

/* Render the text and mark its bytes. Fail with ZR_ERR_DATA if the template has no form for the messages. */
static zr_status render(page *p, bool asks, zr__rendered *r)
{
    ZR_TRY(make_json(p));
    ZR_TRY(run(p, p->json, asks, &p->text));
    int64_t missing = -1;
    ZR_TRY(find_missing(p, &missing));
    ZR_CHECK(missing < 0, ZR_ERR_DATA, "the chat template leaves out the text of message %lld (%s)",
             (long long)missing + 1, role_names[p->message[missing].role]);
    p->on = zr_alloc((size_t)p->text.bytes + 1);
    ZR_CHECK(p->on, ZR_ERR_MEMORY, "no memory for a conversation of %lld bytes", (long long)p->text.bytes);
    memset(p->on, p->chat->all ? COUNTS : 0, (size_t)p->text.bytes);
    if (zr__template_generates(p->chat->template))
        mark_generated(p);
    else
        ZR_TRY(mark_answers(p));
    add_spans(p, r);
    return ZR_OK;
}

zr_status zr__chat_render(const zr__chat *chat, const zr__message *message, int64_t n, bool asks, zr__rendered *r,
                          const char **reason)
{
    page p = {.chat = chat, .message = message, .n = n, .json = json_array()};
    *reason = NULL;
    zr__rendered_clear(r);
    const zr_status st = p.json ? render(&p, asks, r) : ZR_FAIL(ZR_ERR_MEMORY, "no memory for a conversation");
    zr__template_release(&p.text);
    json_decref(p.json);
    zr_free(p.on);
    if (st == ZR_ERR_DATA) {
        snprintf(r->reason, sizeof(r->reason), "%s", zr_error_message());
        *reason = r->reason;
        return ZR_OK;
    }
    ZR_TRY(st);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a conversation of %lld messages", (long long)n);
    return ZR_OK;
}

zr_status zr__pair_render(const zr__chat *chat, const zr__message *prompt, const zr__message *completion,
                          zr__rendered *r)
{
    zr__rendered_clear(r);
    add_span(r, prompt->text, prompt->bytes, true, chat->all);
    const int64_t before = r->n;
    add_span(r, completion->text, completion->bytes, true, true);
    if (r->n > before) r->span[before].apart = true;
    add_span(r, chat->end, (int64_t)strlen(chat->end), false, true);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a text of %lld bytes", (long long)prompt->bytes);
    return ZR_OK;
}
