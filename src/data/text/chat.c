/* Renders conversations in the forms of known chat templates. */
#include "data/text/chat.h"

#include "base/core/grow.h"
#include "data/pieces/classes.h"
#include "data/text/chat_forms.h"

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
static void add_span(zr__rendered *r, const char *text, int64_t bytes, zr__span_kind kind, bool trains)
{
    if (bytes <= 0 || r->failed) return;
    zr__text_append(&r->text, text, (size_t)bytes);
    zr__span *span = r->n < r->room ? r->span : zr__enlarge(r->span, &r->room, r->n + 1, sizeof(*r->span));
    r->failed = r->text.failed || !span;
    if (r->failed) return;
    r->span = span;
    r->span[r->n++] = (zr__span){.end = (int64_t)r->text.length, .kind = kind, .trains = trains};
}

/* A text that is being rendered. */
typedef struct page {
    const zr__chat *chat;
    const zr__message *message;
    int64_t n;
    bool asks;
    zr__rendered *out;
} page;

static void frame(const page *p, const char *text)
{
    add_span(p->out, text, (int64_t)strlen(text), ZR__SPAN_FRAME, p->chat->all);
}

static void control(const page *p, const char *text)
{
    add_span(p->out, text, (int64_t)strlen(text), ZR__SPAN_CONTROL, p->chat->all);
}

static void content(const page *p, const zr__message *m)
{
    add_span(p->out, m->text, m->bytes, ZR__SPAN_MESSAGE, m->trains);
}

/* Add the control token that ends the turn of a message. */
static void end(const page *p, const char *text, bool trains)
{
    add_span(p->out, text, (int64_t)strlen(text), ZR__SPAN_CONTROL, trains);
}

/* Add text of the template to an answer, so that the model learns to write it as it learns the answer. */
static void taught(const page *p, const char *text, const zr__message *m)
{
    add_span(p->out, text, (int64_t)strlen(text), ZR__SPAN_FRAME, m->trains);
}

static const char *const role_name[ZR__ROLES] = {"system", "user", "assistant"};

static bool begins_with_system(const page *p)
{
    return p->n > 0 && p->message[0].role == ZR__SYSTEM;
}

/* ---- white space ----------------------------------------------------------------------------- */

/* Return the bytes of the white space character at the beginning of a text, or 0. White space is what Python's
 * str.strip() removes. */
static int64_t space_bytes(const char *text, int64_t bytes)
{
    int64_t n = bytes > 0 ? zr__text_utf8(text, bytes) : 0;
    return n > 0 && zr__is_python_space(zr__character_at((const unsigned char *)text, &n)) ? n : 0;
}

/* Return the message without white space at both ends. */
static zr__message stripped(zr__message m)
{
    for (int64_t n; (n = space_bytes(m.text, m.bytes)) > 0; m.bytes -= n) m.text += n;
    for (int64_t n = 1; n <= 3 && n <= m.bytes; n++)
        if (space_bytes(m.text + m.bytes - n, n) == n) {
            m.bytes -= n;
            n = 0;
        }
    return m;
}

static zr__message without_lines_before(zr__message m)
{
    for (; m.bytes > 0 && m.text[0] == '\n'; m.bytes--) m.text++;
    return m;
}

static zr__message without_lines_after(zr__message m)
{
    while (m.bytes > 0 && m.text[m.bytes - 1] == '\n') m.bytes--;
    return m;
}

/* ---- ChatML ---------------------------------------------------------------------------------- */

static void begin_turn(const page *p, zr__role role)
{
    control(p, "<|im_start|>");
    frame(p, role_name[role]);
    frame(p, "\n");
}

static void end_turn(const page *p, bool trains)
{
    end(p, "<|im_end|>", trains);
    frame(p, "\n");
}

static void turn(const page *p, const zr__message *m)
{
    begin_turn(p, m->role);
    content(p, m);
    end_turn(p, m->trains);
}

static const char *render_chatml(const page *p)
{
    const char *usual = p->chat->form->system;
    if (usual && !begins_with_system(p)) {
        begin_turn(p, ZR__SYSTEM);
        frame(p, usual);
        end_turn(p, p->chat->all);
    }
    for (int64_t i = 0; i < p->n; i++) turn(p, &p->message[i]);
    if (p->asks) begin_turn(p, ZR__ASSISTANT);
    return NULL;
}

/* Find the first or last place of `what` in a message. */
static const char *find(const zr__message *m, const char *what, bool last)
{
    const char *found = NULL;
    const size_t n = strlen(what);
    for (const char *at = m->text, *end = m->text + m->bytes; (at = memmem(at, (size_t)(end - at), what, n)); at++) {
        found = at;
        if (!last) break;
    }
    return found;
}

/* Divide an answer of Qwen3 into the reasoning between <think> and </think>, and the text after it. */
static void divide_answer(const zr__message *m, zr__message *reasoning, zr__message *rest)
{
    static const char open[] = "<think>", close[] = "</think>";
    const char *first = find(m, close, false), *last = find(m, close, true);
    *rest = *m;
    *reasoning = (zr__message){.role = m->role, .text = m->text, .trains = m->trains};
    if (!first) return;
    rest->text = last + strlen(close);
    rest->bytes = m->text + m->bytes - rest->text;
    *rest = without_lines_before(*rest);
    reasoning->bytes = first - m->text;
    *reasoning = without_lines_after(*reasoning);
    const char *begin = find(reasoning, open, true);
    if (begin) {
        const char *end = reasoning->text + reasoning->bytes;
        reasoning->text = begin + strlen(open);
        reasoning->bytes = end - reasoning->text;
    }
    *reasoning = without_lines_before(*reasoning);
}

/* Return the index of the last message that a user wrote. A user message with the result of a tool does not count. */
static int64_t last_query(const page *p)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    const int64_t a = (int64_t)strlen(open), b = (int64_t)strlen(close);
    for (int64_t i = p->n - 1; i >= 0; i--) {
        const zr__message *m = &p->message[i];
        if (m->role != ZR__USER) continue;
        const bool begins = m->bytes >= a && memcmp(m->text, open, (size_t)a) == 0;
        const bool ends = m->bytes >= b && memcmp(m->text + m->bytes - b, close, (size_t)b) == 0;
        if (!begins || !ends) return i;
    }
    return p->n - 1;
}

static void answer_qwen3(const page *p, int64_t i, int64_t query)
{
    zr__message reasoning, rest;
    divide_answer(&p->message[i], &reasoning, &rest);
    begin_turn(p, ZR__ASSISTANT);
    if (i > query && (i == p->n - 1 || reasoning.bytes > 0)) {
        reasoning = without_lines_after(reasoning);
        rest = without_lines_before(rest);
        taught(p, "<think>\n", &rest);
        content(p, &reasoning);
        taught(p, "\n</think>\n\n", &rest);
    }
    content(p, &rest);
    end_turn(p, rest.trains);
}

static const char *render_qwen3(const page *p)
{
    const int64_t query = last_query(p);
    for (int64_t i = 0; i < p->n; i++) {
        if (p->message[i].role == ZR__ASSISTANT)
            answer_qwen3(p, i, query);
        else
            turn(p, &p->message[i]);
    }
    if (p->asks) begin_turn(p, ZR__ASSISTANT);
    return NULL;
}

/* ---- Llama 3 --------------------------------------------------------------------------------- */

static void begin_header(const page *p, zr__role role)
{
    control(p, "<|start_header_id|>");
    frame(p, role_name[role]);
    control(p, "<|end_header_id|>");
    frame(p, "\n\n");
}

static const char *render_llama3(const page *p)
{
    int64_t i = 0;
    control(p, p->chat->begin);
    if (p->chat->form->system) {
        begin_header(p, ZR__SYSTEM);
        frame(p, p->chat->form->system);
        if (begins_with_system(p)) {
            const zr__message text = stripped(p->message[i++]);
            content(p, &text);
        }
        end(p, "<|eot_id|>", i > 0 ? p->message[0].trains : p->chat->all);
    }
    for (; i < p->n; i++) {
        const zr__message text = stripped(p->message[i]);
        begin_header(p, text.role);
        content(p, &text);
        end(p, "<|eot_id|>", text.trains);
    }
    if (p->asks) begin_header(p, ZR__ASSISTANT);
    return NULL;
}

/* ---- Llama 2 and Mistral --------------------------------------------------------------------- */

/* Return the reason why the messages are not turns of a user and the assistant, or NULL. A system message may come
 * first. */
static const char *not_in_turn(const page *p)
{
    const int64_t first = begins_with_system(p);
    if (first && p->n == 1) return "a system message alone; this chat template wants a user's message after it";
    for (int64_t i = first; i < p->n; i++)
        if (p->message[i].role != ((i - first) % 2 == 0 ? ZR__USER : ZR__ASSISTANT))
            return "the roles are not in turn; this chat template wants an optional system message, then user, "
                   "assistant, user, assistant ...";
    return NULL;
}

static const char *render_llama2(const page *p)
{
    const int64_t first = begins_with_system(p);
    const char *bad = not_in_turn(p);
    for (int64_t i = first; i < p->n && !bad; i++) {
        const zr__message text = stripped(p->message[i]);
        if (text.role == ZR__ASSISTANT) {
            taught(p, " ", &text);
            content(p, &text);
            taught(p, " ", &text);
            end(p, p->chat->end, text.trains);
            continue;
        }
        control(p, p->chat->begin);
        frame(p, "[INST] ");
        if (i == first && first) {
            zr__message user = text, begun = p->message[0];
            frame(p, "<<SYS>>\n");
            content(p, &begun);
            frame(p, "\n<</SYS>>\n\n");
            /* the template strips the system prompt and the message as one text */
            user.bytes += user.text - p->message[i].text;
            user.text = p->message[i].text;
            content(p, &user);
        } else {
            content(p, &text);
        }
        frame(p, " [/INST]");
    }
    return bad;
}

/* Render one of the four forms of Mistral's instructions. `open` and `close` surround a user's message, and `lead`
 * precedes an answer. In the `late` forms, the system prompt is in the last user message, and [INST] and [/INST] are
 * control tokens. */
static const char *render_mistral(const page *p)
{
    const zr__chat_form *f = p->chat->form;
    const int64_t first = begins_with_system(p);
    const char *bad = not_in_turn(p);
    if (first && f->no_system) bad = "a system message, for which this chat template has no place";
    if (first && f->late && p->message[p->n - 1].role == ZR__ASSISTANT)
        bad = "a system message, which this chat template drops if the last message is an answer; put its text into "
              "the first message of the user";
    if (bad) return bad;
    control(p, p->chat->begin);
    for (int64_t i = first; i < p->n; i++) {
        zr__message text = p->message[i];
        if (text.role == ZR__ASSISTANT) {
            if (f->strips) text = stripped(text);
            taught(p, f->lead, &text);
            content(p, &text);
            end(p, p->chat->end, text.trains);
            continue;
        }
        if (f->late) control(p, "[INST]");
        frame(p, f->open);
        if (first && i == (f->late ? p->n - 1 : first)) {
            content(p, &p->message[0]); /* the system prompt */
            frame(p, "\n\n");
        }
        content(p, &text);
        frame(p, f->close);
        if (f->late) control(p, "[/INST]");
    }
    return NULL;
}

/* ---- forms ----------------------------------------------------------------------------------- */

zr_status zr__chat_render(const zr__chat *chat, const zr__message *message, int64_t n, bool asks, zr__rendered *r,
                          const char **reason)
{
    static const char *(*const render[])(const page *) = {[ZR__LIKE_CHATML] = render_chatml,
                                                          [ZR__LIKE_QWEN3] = render_qwen3,
                                                          [ZR__LIKE_LLAMA2] = render_llama2,
                                                          [ZR__LIKE_LLAMA3] = render_llama3,
                                                          [ZR__LIKE_MISTRAL] = render_mistral};
    const page p = {chat, message, n, asks, r};
    ZR_ASSERT(chat->form);
    zr__rendered_clear(r);
    *reason = render[chat->form->like](&p);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a conversation of %lld messages", (long long)n);
    return ZR_OK;
}

zr_status zr__pair_render(const zr__chat *chat, const zr__message *prompt, const zr__message *completion,
                          zr__rendered *r)
{
    zr__rendered_clear(r);
    add_span(r, prompt->text, prompt->bytes, ZR__SPAN_MESSAGE, chat->all);
    const int64_t before = r->n;
    add_span(r, completion->text, completion->bytes, ZR__SPAN_MESSAGE, true);
    if (r->n > before) r->span[before].apart = true;
    add_span(r, chat->end, (int64_t)strlen(chat->end), ZR__SPAN_CONTROL, true);
    ZR_CHECK(!r->failed, ZR_ERR_MEMORY, "no memory to render a text of %lld bytes", (long long)prompt->bytes);
    return ZR_OK;
}
