#include "data/text/record.h"

#include "base/core/grow.h"

#include <stdio.h>
#include <string.h>

/* number of bytes that are read first to find the kind of a file */
enum { LOOK_BYTES = 1 << 16 };

static const char pair_wanted[] = "{\"prompt\": TEXT, \"completion\": TEXT}",
                  messages_wanted[] = "{\"messages\": [{\"role\": ..., \"content\": TEXT}, ...]}";

/* ---- the kind of a file ---------------------------------------------------------------------- */

/* Find the kind of a line. *decides receives whether the line determines the kind of the file, because it has one of
 * the kinds. */
static zr_status kind_of_line(const char *line, int64_t bytes, const char *text_key, zr__lines_kind *kind,
                              bool *decides, bool *blank)
{
    char reason[ZR__REASON_BYTES];
    json_auto_t *root = NULL;
    ZR_TRY(zr__jsonl_object(line, bytes, "", &root, blank, reason));
    *kind = ZR__LINES_TEXT;
    *decides = json_object_get(root, text_key) != NULL;
    if (!*decides && json_object_get(root, "messages"))
        *kind = ZR__LINES_MESSAGES;
    else if (!*decides && json_object_get(root, "prompt") && json_object_get(root, "completion"))
        *kind = ZR__LINES_PAIR;
    *decides = *decides || *kind != ZR__LINES_TEXT;
    return ZR_OK;
}

/* Look in the first n bytes for the record that decides the kind of the file: the first record that has one of the
 * kinds or, unless `skips`, the first that is not blank. If `whole`, the file has only these n bytes, and *found is
 * always true. */
static zr_status look_at_records(zr__shape shape, const char *text, int64_t n, bool whole, const char *text_key,
                                 bool skips, zr__lines_kind *kind, bool *found)
{
    const int64_t mark = zr__shape_mark(text, n);
    zr__shape_walk walk = {.shape = shape, .text = text + mark, .n = n - mark, .first = true, .whole = whole};
    bool decides = false, blank = true;
    while (zr__shape_next(&walk) == ZR__RECORD_FOUND) {
        ZR_TRY(kind_of_line(walk.text + walk.begin, walk.end - walk.begin, text_key, kind, &decides, &blank));
        *found = decides || (!blank && !skips);
        if (*found) return ZR_OK;
    }
    *found = whole;
    return ZR_OK;
}

zr_status zr__lines_kind_of(const zr__file *file, zr__shape shape, const char *text_key, bool skips,
                            zr__lines_kind *kind)
{
    ZR_AUTO_FREE char *text = NULL;
    int64_t room = 0;
    bool found = false;
    *kind = ZR__LINES_TEXT;
    for (int64_t n = LOOK_BYTES; file->bytes > 0 && !found && n <= ZR__LINE_BYTES; n *= 4) {
        const int64_t some = n < file->bytes ? n : file->bytes;
        ZR_GROW(text, room, some, "bytes of the first line of a file");
        ZR_TRY(zr__file_read(file, 0, text, some, ZR_ERR_IO));
        ZR_TRY(look_at_records(shape, text, some, some == file->bytes, text_key, skips, kind, &found));
    }
    return ZR_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

zr_status zr__instruct_open(const zr_tokenizer *tokenizer, zr__lines_kind kind, const zr_data_args *args,
                            const char *file, zr__instruct *x)
{
    *x = (zr__instruct){.kind = kind, .tokenizer = tokenizer, .loss_on = args->loss_on};
    ZR_TRY(zr__chat_find(zr_tokenizer_name(tokenizer), args->chat_template, args->chat_date, &x->chat));
    x->chat.all = args->loss_on == ZR_LOSS_ON_ALL;
    if (kind == ZR__LINES_MESSAGES)
        return zr__chat_want(&x->chat, tokenizer, file, "data.chat_template",
                             "write the lines as {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}");
    /* a completion ends with the tokenizer's own end-of-text token, or else with ZR_END_OF_TEXT, or else with a
     * newline */
    if (!x->chat.end[0] || zr_tokenizer_token(tokenizer, x->chat.end) < 0)
        strcpy(x->chat.end, zr_tokenizer_token(tokenizer, ZR_END_OF_TEXT) >= 0 ? ZR_END_OF_TEXT : "\n");
    return ZR_OK;
}

void zr__instruct_close(zr__instruct *x)
{
    zr__chat_close(&x->chat);
}

/* Read a member that is a text. If it is missing or not a text, write the reason. */
static bool read_text(const json_t *root, const char *key, const char *wanted, zr__message *m, char *reason)
{
    const json_t *value = json_object_get(root, key);
    char members[160];
    m->text = json_string_value(value);
    m->bytes = (int64_t)json_string_length(value);
    if (!m->text)
        snprintf(reason, ZR__REASON_BYTES,
                 "\"%s\" is %s; the first line of this file has %s, so each line must, but this one has %s%s", key,
                 json_is_array(value) ? "a list"
                 : value              ? "not a text"
                                      : "missing",
                 wanted, zr__jsonl_members(root, members, sizeof(members)),
                 json_is_array(value) ? "; write lists of messages as one list in \"messages\"" : "");
    return m->text;
}

static zr_status render_pair(const zr__instruct *x, const json_t *root, zr__rendered *r, int64_t *bytes, char *reason)
{
    zr__message prompt = {.role = ZR__USER}, completion = {.role = ZR__ASSISTANT};
    if (!read_text(root, "prompt", pair_wanted, &prompt, reason)) return ZR_OK;
    if (!read_text(root, "completion", pair_wanted, &completion, reason)) return ZR_OK;
    *bytes = prompt.bytes + completion.bytes;
    if (completion.bytes == 0) snprintf(reason, ZR__REASON_BYTES, "\"completion\" is empty, so nothing is trained");
    return reason[0] ? ZR_OK : zr__pair_render(&x->chat, &prompt, &completion, r);
}

/* Return whether a message has a member. A member that is null or an empty list counts as missing: programs that write
 * tables as JSON give each message all members. */
static bool has(const json_t *one, const char *name)
{
    const json_t *value = json_object_get(one, name);
    return value && !json_is_null(value) && (!json_is_array(value) || json_array_size(value) > 0);
}

/* Read the member that says whether the loss counts a message: "weight" 0 or 1 as in OpenAI's files, "train" or
 * "training" as in axolotl's. Without this member, *trains does not change. If its value is bad, write the reason. */
static bool read_switch(const json_t *one, size_t i, bool *trains, char *reason)
{
    static const char *const names[] = {"weight", "train", "training"};
    const char *said = NULL;
    bool on = false;
    if (has(one, "train_detail"))
        snprintf(reason, ZR__REASON_BYTES, "message %zu: \"train_detail\" is not supported; divide the message", i + 1);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && !reason[0]; k++) {
        const json_t *value = json_object_get(one, names[k]);
        const double number = json_number_value(value);
        const bool fits = k == 0 ? json_is_number(value) && (number == 0 || number == 1) : json_is_boolean(value);
        const bool its = k == 0 ? number == 1 : json_is_true(value);
        if (!value || json_is_null(value)) continue;
        if (!fits)
            snprintf(reason, ZR__REASON_BYTES, "message %zu: \"%s\" is %s; expected %s", i + 1, names[k],
                     ZR_JSON_SHOWN(value), k == 0 ? "0 or 1" : "true or false");
        else if (said && on != its)
            snprintf(reason, ZR__REASON_BYTES, "message %zu: \"%s\" and \"%s\" contradict each other", i + 1, said,
                     names[k]);
        said = names[k];
        *trains = on = its;
    }
    return !reason[0];
}

/* Read message i of a conversation. If it is bad, write the reason. */
static bool read_message(const json_t *one, size_t i, zr__message *m, char *reason)
{
    static const char *const name[ZR__ROLES] = {"system", "user", "assistant"};
    const json_t *said = json_object_get(one, "role"), *content = json_object_get(one, "content");
    const char *role = json_string_value(said);
    char members[160];
    int which = 0;
    while (role && which < ZR__ROLES && strcmp(role, name[which]) != 0) which++;
    if (!role || which == ZR__ROLES)
        snprintf(reason, ZR__REASON_BYTES,
                 "message %zu: \"role\" is %s; expected \"system\", \"user\" or \"assistant\", and the message has %s",
                 i + 1, ZR_JSON_SHOWN(said), zr__jsonl_members(one, members, sizeof(members)));
    else if (!json_is_string(content))
        snprintf(reason, ZR__REASON_BYTES, "message %zu: \"content\" is %s; expected a text", i + 1,
                 json_is_array(content) ? "not a text but a list of parts"
                 : content              ? "not a text"
                                        : "missing");
    else if (has(one, "tool_calls") || has(one, "reasoning_content"))
        snprintf(reason, ZR__REASON_BYTES,
                 "message %zu: \"tool_calls\" and \"reasoning_content\" are not supported; write them into \"content\"",
                 i + 1);
    if (reason[0]) return false;
    *m = (zr__message){
        .role = (zr__role)which, .text = json_string_value(content), .bytes = (int64_t)json_string_length(content)};
    return true;
}

/* Read the messages of a conversation, and decide which of them the loss counts. *bytes receives the length of their
 * texts. If a message is bad, write the reason. */
static void read_messages(const zr__instruct *x, const json_t *list, zr__message *message, int64_t *bytes, char *reason)
{
    const size_t n = json_array_size(list);
    size_t last = n; /* index of the last answer */
    for (size_t i = 0; i < n && !reason[0]; i++) {
        if (!read_message(json_array_get(list, i), i, &message[i], reason)) return;
        *bytes += message[i].bytes;
        if (message[i].role == ZR__ASSISTANT) last = i;
    }
    for (size_t i = 0; i < n && !reason[0]; i++) {
        const bool answer = message[i].role == ZR__ASSISTANT;
        message[i].trains = x->loss_on == ZR_LOSS_ON_ALL || (x->loss_on == ZR_LOSS_ON_LAST ? i == last : answer);
        (void)read_switch(json_array_get(list, i), i, &message[i].trains, reason);
    }
}

/* Return the reason why a conversation cannot be trained on, or NULL. */
static const char *nothing_to_learn(const zr__message *message, size_t n)
{
    bool answer = false;
    for (size_t i = 0; i < n; i++) {
        if (message[i].trains) return NULL;
        answer = answer || message[i].role == ZR__ASSISTANT;
    }
    return answer ? "each answer is switched off (weight 0, train false), so nothing is trained"
                  : "no message has the role \"assistant\", so nothing is trained";
}

static zr_status render_messages(const zr__instruct *x, const json_t *root, zr__rendered *r, int64_t *bytes,
                                 char *reason)
{
    const json_t *list = json_object_get(root, "messages");
    const size_t n = json_array_size(list);
    const char *bad = NULL;
    if (!json_is_array(list)) {
        char members[160];
        snprintf(reason, ZR__REASON_BYTES,
                 "\"messages\" is %s; the first line of this file has %s, so each line must, but this one has %s",
                 list ? "not a list" : "missing", messages_wanted, zr__jsonl_members(root, members, sizeof(members)));
        return ZR_OK;
    }
    if (json_array_size(json_object_get(root, "tools")) > 0) {
        snprintf(reason, ZR__REASON_BYTES, "\"tools\" are not supported; write them into the system message");
        return ZR_OK;
    }
    ZR_AUTO_FREE zr__message *message = zr_alloc((n + 1) * sizeof(*message));
    ZR_CHECK(message, ZR_ERR_MEMORY, "no memory for %zu messages", n);
    read_messages(x, list, message, bytes, reason);
    if (!reason[0]) bad = *bytes > 0 ? nothing_to_learn(message, n) : "the messages have no text";
    if (!reason[0] && !bad) ZR_TRY(zr__chat_render(&x->chat, message, (int64_t)n, false, r, &bad));
    if (bad) snprintf(reason, ZR__REASON_BYTES, "%s", bad);
    return ZR_OK;
}

zr_status zr__record_render(const zr__instruct *x, const char *line, int64_t n, zr__rendered *r, int64_t *bytes,
                            char reason[ZR__REASON_BYTES])
{
    json_auto_t *root = NULL;
    bool blank = false;
    const bool pair = x->kind == ZR__LINES_PAIR;
    *bytes = 0;
    zr__rendered_clear(r);
    ZR_TRY(zr__jsonl_object(line, n, pair ? pair_wanted : messages_wanted, &root, &blank, reason));
    if (!blank && !reason[0]) ZR_TRY((pair ? render_pair : render_messages)(x, root, r, bytes, reason));
    if (reason[0]) *bytes = 0;
    return ZR_OK;
}
