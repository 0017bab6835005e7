/* Renders conversations with chat templates, and finds the bytes of answers. */
#include "data/text/chat.h"

#include "base/core/grow.h"
#include "data/pieces/classes.h"
#include "data/text/chat_forms.h"

#include <stdio.h>
#include <string.h>

/* ---- rendered texts -------------------------------------------------------------------------- */

void zr__rendered_clear(zr__rendered *r)
{
    zr__text_drop(&r->text, r->text.length);
    r->n = 0;
    r->failed = r->begins = false;
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

/* Search a growing part of the text until it has a name, so that the time to find all names of a text is proportional
 * to its length. */
int64_t zr__chat_control_in(const zr__chat *chat, const char *text, int64_t bytes, int64_t *length)
{
    int64_t first = -1;
    for (int64_t most = 64; first < 0 && bytes > 0; most *= 2) {
        first = control_before(chat, text, bytes, most, length);
        if (most >= bytes) break;
    }
    return first;
}

zr_status zr__talk_add(zr__talk *talk, json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!talk->messages) talk->messages = json_array();
    ZR_CHECK(json_array_append_new(talk->messages, message) == 0, ZR_ERR_MEMORY, "no memory for a conversation");
    ZR_GROW(talk->turn, talk->room, talk->n + 1, "messages of a conversation");
    talk->turn[talk->n++] = (zr__turn){.answer = role && strcmp(role, "assistant") == 0};
    return ZR_OK;
}

zr_status zr__talk_say(zr__talk *talk, const char *role, const char *text, int64_t bytes)
{
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = zr__text_utf8(text + at, bytes - at);
        ZR_CHECK(n > 0, ZR_ERR_ARG, "byte %lld of message %lld (%s) is not UTF-8", (long long)at,
                 (long long)talk->n + 1, role);
    }
    talk->bytes += bytes;
    return zr__talk_add(talk, json_pack("{s:s, s:s%}", "role", role, "content", text, (size_t)bytes));
}

void zr__talk_clear(zr__talk *talk)
{
    json_decref(talk->messages);
    json_decref(talk->tools);
    json_decref(talk->more);
    zr_free(talk->turn);
    *talk = (zr__talk){0};
}

/* ---- answers --------------------------------------------------------------------------------- */

enum { COUNTS = 1, IN_MESSAGE = 2 };

/* Number of answers for which the messages before them are always rendered. */
enum { MOST_RENDERED = 32 };

/* A conversation that is being rendered. */
typedef struct page {
    const zr__chat *chat;
    const zr__talk *talk;
    json_t *messages, *more; /* messages and variables, as this template takes them */
    zr__template_text text;
    int64_t answers;      /* number of answers for which find_begin was called */
    const char *between;  /* the template's text before the last rendered answer, */
    int64_t bytes, begin; /* its bytes, and the offset in it where the model begins to write */
    char *on; /* for each byte: whether the loss counts it, and at last whether it belongs to a message, as bits */
} page;

/* A part of the text that consists of one message's text and the template's text within. */
typedef struct stretch {
    int32_t source;
    int64_t begin, end;   /* its first byte and the byte after its last one */
    int64_t before, next; /* end of the stretch before it, or 0; beginning of the stretch after it, or the text's end */
    int32_t earlier;      /* source of the stretch before it, or ZR__FROM_TEMPLATE */
} stretch;

/* Find the next stretch, from mark *at on. Return false at the end. */
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
    const zr__template_args args = {.messages = messages,
                                    .tools = p->talk->tools,
                                    .more = p->more,
                                    .add_generation_prompt = asks,
                                    .date = p->chat->date};
    return zr__template_run(p->chat->template, &args, text);
}

/* Render the first n messages, and ask for an answer. */
static zr_status run_first(const page *p, int64_t n, zr__template_text *text)
{
    json_auto_t *before = json_array();
    for (int64_t i = 0; before && i < n; i++)
        ZR_CHECK(json_array_append(before, json_array_get(p->messages, (size_t)i)) == 0, ZR_ERR_MEMORY,
                 "no memory for the messages before an answer");
    ZR_CHECK(before, ZR_ERR_MEMORY, "no memory for the messages before an answer");
    return run(p, before, true, text);
}

/* Return where the model begins to write an answer: after the text that the template's generation prompt has in common
 * with the text before the answer. If the template refuses the messages before the answer, this is the beginning of the
 * message's text. *begin receives it. Error: ZR_ERR_MEMORY.
 *
 * The time to render for each of n answers is proportional to n * n. After MOST_RENDERED answers, an answer with the
 * same text before it as the last rendered answer begins at the same offset in this text. */
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
    const zr_status st = run_first(p, s->source, &prompt);
    if (st == ZR_OK) {
        while (next_stretch(&prompt, &at, &last)) continue;
        const char *a = prompt.text + last.end;
        const int64_t n = prompt.bytes - last.end;
        while (same < n && same < most && a[same] == b[same]) same++;
        if (last.source == s->earlier) *begin = s->before + same;
    }
    zr__template_release(&prompt);
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
    int32_t done = ZR__FROM_TEMPLATE; /* the last message with a stretch so far */
    for (int64_t at = 0; next_stretch(&p->text, &at, &s);) {
        if (s.source < 0) continue;
        const zr__turn *m = &p->talk->turn[s.source];
        const bool answer = m->answer;
        int64_t begin = s.begin;
        if (answer && m->trains != p->chat->all && s.source > done) ZR_TRY(find_begin(p, &s, &begin));
        done = s.source > done ? s.source : done;
        const int64_t end = end_of(p, &s, answer);
        memset(p->on + begin, m->trains ? COUNTS : 0, (size_t)(end - begin));
    }
    return ZR_OK;
}

/* Mark the bytes of {% generation %} blocks, except blocks of messages that do not count. */
static void mark_generated(const page *p)
{
    const zr__template_text *t = &p->text;
    for (int64_t at = 0, begin = 0, i = 0; at < t->n; begin = t->mark[at - 1].end) {
        bool counts = true;
        for (i = at; i < t->n && t->mark[i].generated == t->mark[at].generated; i++)
            if (t->mark[i].source >= 0) counts = counts && p->talk->turn[t->mark[i].source].trains;
        if (t->mark[at].generated) memset(p->on + begin, counts ? COUNTS : 0, (size_t)(t->mark[i - 1].end - begin));
        at = i;
    }
}

/* Mark the bytes of a completion: all that follows the prompt. */
static zr_status mark_completion(page *p)
{
    zr__template_text prompt = {0};
    const zr_status st = run_first(p, p->talk->prompt, &prompt);
    const int64_t n = prompt.bytes;
    const bool begins = st == ZR_OK && n <= p->text.bytes && memcmp(prompt.text, p->text.text, (size_t)n) == 0;
    zr__template_release(&prompt);
    ZR_TRY(st);
    ZR_CHECK(begins, ZR_ERR_DATA,
             "the chat template does not render the prompt alone as it does before the completion, so it is not known "
             "where the completion begins; write both as one list \"messages\"");
    memset(p->on + n, COUNTS, (size_t)(p->text.bytes - n));
    return ZR_OK;
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

/* Return whether a message has text, or calls of tools. */
static bool has_text(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    bool any = json_array_size(json_object_get(message, "tool_calls")) > 0;
    if (json_is_string(content))
        any = any || !is_blank(json_string_value(content), (int64_t)json_string_length(content));
    for (size_t i = 0; i < json_array_size(content) && !any; i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        any = text && !is_blank(json_string_value(text), (int64_t)json_string_length(text));
    }
    return any;
}

/* Check that each message that has a text is in the rendered text. */
static zr_status check_missing(const page *p)
{
    ZR_AUTO_FREE bool *seen = zr_alloc((size_t)p->talk->n + 1);
    ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory for a conversation of %lld messages", (long long)p->talk->n);
    for (int64_t i = 0; i < p->text.n; i++)
        if (p->text.mark[i].source >= 0) seen[p->text.mark[i].source] = true;
    for (int64_t m = 0; m < p->talk->n; m++) {
        const json_t *message = json_array_get(p->messages, (size_t)m);
        ZR_CHECK(seen[m] || !has_text(message), ZR_ERR_DATA,
                 "the chat template leaves out the text of message %lld (%s)", (long long)m + 1,
                 ZR_SHOWN(json_string_value(json_object_get(message, "role"))));
    }
    return ZR_OK;
}

/* Check that the template reads the conversation's members beside texts. */
static zr_status check_known(const zr__chat *chat, const zr__talk *talk)
{
    static const char *const members[] = {"tool_calls", "reasoning_content", "reasoning", "thinking"};
    ZR_CHECK(json_array_size(talk->tools) == 0 || zr__template_reads(chat->template, "tools"), ZR_ERR_DATA,
             "the record has \"tools\", and the chat template does not read them; write them into the system message");
    for (int64_t i = 0; i < talk->n; i++) {
        const json_t *message = json_array_get(talk->messages, (size_t)i);
        const char *role = json_string_value(json_object_get(message, "role"));
        for (size_t k = 0; k < sizeof(members) / sizeof(members[0]); k++) {
            const json_t *value = json_object_get(message, members[k]);
            const bool any = json_is_array(value) ? json_array_size(value) > 0 : json_string_length(value) > 0;
            ZR_CHECK(!any || zr__template_reads(chat->template, members[k]), ZR_ERR_DATA,
                     "message %lld has \"%s\", which the chat template does not read; write it into \"content\"",
                     (long long)i + 1, members[k]);
        }
        ZR_CHECK(!chat->form || (role && strstr("system developer user assistant", role)), ZR_ERR_DATA,
                 "message %lld: zr's form %s has no place for the role \"%s\", only for system, user and assistant; "
                 "the model's own template may have one",
                 (long long)i + 1, chat->form->name, ZR_SHOWN(role));
    }
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

/* Return a message as the template takes it: with one text instead of a list of parts if it joins them, and for zr's
 * own forms with the role system for developer. Return NULL if memory is short. */
static json_t *adapt(const zr__chat *chat, json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    const bool renames = chat->form && role && strcmp(role, "developer") == 0;
    const bool joins = chat->joins && json_is_array(content);
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    if (!renames && !joins) return json_incref(message);
    json_auto_t *copy = json_copy(message);
    if (renames && json_object_set_new(copy, "role", json_string("system")) != 0) return NULL;
    for (size_t i = 0; joins && i < json_array_size(content); i++) {
        const json_t *part = json_object_get(json_array_get(content, i), "text");
        zr__text_append(&text, json_string_value(part), json_string_length(part));
    }
    if (joins && (text.failed ||
                  json_object_set_new(copy, "content", json_stringn(text.data ? text.data : "", text.length)) != 0))
        return NULL;
    return ZR_TAKE(copy);
}

/* Make the messages and variables that the template gets. */
static zr_status make_args(page *p)
{
    const bool more = json_object_size(p->talk->more) > 0;
    p->messages = json_array();
    p->more = more ? json_copy(p->chat->variables) : json_incref(p->chat->variables);
    for (int64_t i = 0; i < p->talk->n; i++) {
        json_t *one = json_array_get(p->talk->messages, (size_t)i);
        ZR_CHECK(json_array_append_new(p->messages, adapt(p->chat, one)) == 0, ZR_ERR_MEMORY,
                 "no memory for a conversation");
    }
    ZR_CHECK(p->messages && p->more && (!more || json_object_update(p->more, p->talk->more) == 0), ZR_ERR_MEMORY,
             "no memory for a conversation");
    return ZR_OK;
}

/* Render the text and mark its bytes. Fail with ZR_ERR_DATA if the template has no form for the messages. */
static zr_status render(page *p, bool asks, zr__rendered *r)
{
    const zr__chat *chat = p->chat;
    ZR_TRY(check_known(chat, p->talk));
    ZR_TRY(make_args(p));
    ZR_TRY(run(p, p->messages, asks, &p->text));
    ZR_TRY(check_missing(p));
    p->on = zr_alloc((size_t)p->text.bytes + 1);
    ZR_CHECK(p->on, ZR_ERR_MEMORY, "no memory for a conversation of %lld bytes", (long long)p->text.bytes);
    memset(p->on, chat->all ? COUNTS : 0, (size_t)p->text.bytes);
    if (p->talk->prompt > 0 && !chat->all)
        ZR_TRY(mark_completion(p));
    else if (zr__template_generates(chat->template))
        mark_generated(p);
    else
        ZR_TRY(mark_answers(p));
    r->begins = chat->form && chat->form->plain;
    add_spans(p, r);
    return ZR_OK;
}

zr_status zr__chat_render(const zr__chat *chat, const zr__talk *talk, bool asks, zr__rendered *r, const char **reason)
{
    page p = {.chat = chat, .talk = talk};
    *reason = NULL;
    zr__rendered_clear(r);
    const zr_status st = render(&p, asks, r);
    zr__template_release(&p.text);
    json_decref(p.messages);
    json_decref(p.more);
    zr_free(p.on);
    if (st == ZR_ERR_DATA) {
        snprintf(r->reason, sizeof(r->reason), "%s", zr_error_message());
        *reason = r->reason;
        return ZR_OK;
    }
    ZR_TRY(st);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a conversation of %lld messages", (long long)talk->n);
    return ZR_OK;
}

zr_status zr__pair_render(const zr__chat *chat, const char *prompt, int64_t prompt_bytes, const char *completion,
                          int64_t completion_bytes, zr__rendered *r)
{
    zr__rendered_clear(r);
    r->begins = true;
    add_span(r, prompt, prompt_bytes, true, chat->all);
    const int64_t before = r->n;
    add_span(r, completion, completion_bytes, true, true);
    if (r->n > before) r->span[before].apart = true;
    add_span(r, chat->end, (int64_t)strlen(chat->end), false, true);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a text of %lld bytes", (long long)prompt_bytes);
    return ZR_OK;
}
