/* Reads conversations from records: messages as in OpenAI's and ShareGPT's files, prompts with answers, and prompts
 * with completions that are messages. */
#include "data/text/forms.h"

#include "base/core/grow.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "data/text/jsonl.h"

#include <stdio.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* Return whether a message has a member. A member that is null or an empty list counts as missing: programs that write
 * tables as JSON give each message all members. */
static bool has(const json_t *one, const char *name)
{
    const json_t *value = json_object_get(one, name);
    return value && !json_is_null(value) && (!json_is_array(value) || json_array_size(value) > 0);
}

static bool has_null(const json_t *value)
{
    const char *name;
    json_t *one;
    size_t i;
    bool any = json_is_null(value);
    json_object_foreach((json_t *)value, name, one) any = any || has_null(one);
    json_array_foreach(value, i, one) any = any || has_null(one);
    return any;
}

/* Return a copy of a value without its members and elements that are null, as TRL removes them; NULL if memory is
 * short. */
static json_t *without_nulls(json_t *value)
{
    const char *name;
    json_t *one;
    size_t i;
    if (!has_null(value)) return json_incref(value);
    json_t *copy = json_is_object(value) ? json_object() : json_array();
    json_object_foreach(value, name, one)
    {
        if (copy && !json_is_null(one) && json_object_set_new(copy, name, without_nulls(one)) != 0) goto failed;
    }
    json_array_foreach(value, i, one)
    {
        if (copy && !json_is_null(one) && json_array_append_new(copy, without_nulls(one)) != 0) goto failed;
    }
    return copy;
failed:
    json_decref(copy);
    return NULL;
}

/* ---- one message ----------------------------------------------------------------------------- */

/* Roles, the names that other files have for them, and the name that templates know. */
static const struct {
    const char *name, *role;
} roles[] = {{"user", "user"},           {"assistant", "assistant"}, {"system", "system"},
             {"developer", "developer"}, {"tool", "tool"},           {"human", "user"},
             {"gpt", "assistant"},       {"observation", "tool"},    {"function_call", "assistant"}};

/* Read the member that says whether the loss counts a message: "weight" 0 or 1 as in OpenAI's files, "train" or
 * "training" as in axolotl's. *said receives whether there is one, and *trains its value. If it is bad, write the
 * reason. */
static void read_switch(const json_t *one, int64_t number, bool *said, bool *trains, char *reason)
{
    static const char *const names[] = {"weight", "train", "training"};
    const char *first = NULL;
    *said = *trains = false;
    if (has(one, "train_detail"))
        snprintf(reason, ZR__REASON_BYTES, "message %lld: \"train_detail\" is not supported; divide the message",
                 (long long)number);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && !reason[0]; k++) {
        const json_t *value = json_object_get(one, names[k]);
        const double weight = json_number_value(value);
        const bool fits = k == 0 ? json_is_number(value) && (weight == 0 || weight == 1) : json_is_boolean(value);
        const bool its = k == 0 ? weight == 1 : json_is_true(value);
        if (!value || json_is_null(value)) continue;
        if (!fits)
            snprintf(reason, ZR__REASON_BYTES, "message %lld: \"%s\" is %s; expected %s", (long long)number, names[k],
                     ZR_JSON_SHOWN(value), k == 0 ? "0 or 1" : "true or false");
        else if (first && *trains != its)
            snprintf(reason, ZR__REASON_BYTES, "message %lld: \"%s\" and \"%s\" contradict each other",
                     (long long)number, first, names[k]);
        first = names[k];
        *said = true;
        *trains = its;
    }
}

/* Check a list of parts, which must all be texts. *bytes receives the length of the texts. */
static void read_parts(const json_t *parts, int64_t number, int64_t *bytes, char *reason)
{
    json_t *part;
    size_t i;
    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        *bytes += (int64_t)json_string_length(text);
        if (type && strcmp(type, "text") == 0 && json_is_string(text)) continue;
        snprintf(reason, ZR__REASON_BYTES,
                 "message %lld: part %zu of \"content\" is %s; zr trains on text, so each part must be {\"type\": "
                 "\"text\", \"text\": TEXT}",
                 (long long)number, i + 1, type ? ZR_JSON_SHOWN(json_object_get(part, "type")) : ZR_JSON_SHOWN(part));
        return;
    }
}

/* Make a list of calls from the text of ShareGPT's function_call: one call {"name", "arguments"}, or a list of calls.
 */
static json_t *make_calls(const json_t *text)
{
    json_auto_t *said = json_is_string(text) ? zr__json_loads(json_string_value(text), JSON_REJECT_DUPLICATES) : NULL;
    json_auto_t *calls = json_is_array(said) ? json_incref(said) : json_pack("[O]", said);
    json_auto_t *made = json_array();
    json_t *call;
    size_t i;
    if (!said || json_array_size(calls) == 0) return NULL;
    json_array_foreach(calls, i, call)
    {
        json_t *name = json_object_get(call, "name"), *arguments = json_object_get(call, "arguments");
        if (!json_is_string(name) || !arguments) return NULL;
        if (json_array_append_new(made, json_pack("{s:s, s:{s:O, s:O}}", "type", "function", "function", "name", name,
                                                  "arguments", arguments)) != 0)
            return NULL;
    }
    return ZR_TAKE(made);
}

/* The members of a message, and their names in the file. */
typedef struct message {
    const char *role_name, *content_name;
    const char *role;  /* in the file */
    const char *known; /* the role that templates know */
    const json_t *content;
} message;

/* Make the message that the template gets. Return NULL if memory is short, or if a function_call is no call. */
static json_t *make_message(const json_t *one, const message *m)
{
    const bool usual = strcmp(m->role_name, "role") == 0 && strcmp(m->content_name, "content") == 0;
    if (strcmp(m->role, "function_call") == 0)
        return json_pack("{s:s, s:s, s:o}", "role", m->known, "content", "", "tool_calls", make_calls(m->content));
    json_auto_t *kept = without_nulls((json_t *)one);
    if (usual && strcmp(m->role, m->known) == 0) return ZR_TAKE(kept);
    json_auto_t *own = json_copy(kept), *content = json_incref(json_object_get(kept, m->content_name));
    (void)json_object_del(own, m->role_name);
    (void)json_object_del(own, m->content_name);
    if (json_object_set_new(own, "role", json_string(m->known)) != 0) return NULL;
    if (content && json_object_set(own, "content", content) != 0) return NULL;
    return ZR_TAKE(own);
}

/* Write why a message's content is bad, or "". */
static void check_content(const json_t *one, const json_t *content, int64_t number, const char *name, int64_t *bytes,
                          char *reason)
{
    const bool missing = !content || json_is_null(content);
    *bytes += (int64_t)(json_string_length(content) + json_array_size(json_object_get(one, "tool_calls")));
    if (json_is_array(content)) read_parts(content, number, bytes, reason);
    if (json_is_string(content) || json_is_array(content) || (missing && has(one, "tool_calls"))) return;
    snprintf(reason, ZR__REASON_BYTES, "message %lld: \"%s\" is %s; expected a text, or a list of parts",
             (long long)number, name, missing ? "missing" : ZR_JSON_SHOWN(content));
}

/* Find the role and the content of a message. If one is bad, write the reason. */
static void find_members(const zr__form_found *found, const json_t *one, int64_t number, message *m, int64_t *bytes,
                         char *reason)
{
    const bool from = !found->role && !json_object_get(one, "role") && json_object_get(one, "from");
    char shown[160];
    m->role_name = found->role ? found->role : from ? "from" : "role";
    m->content_name = found->content ? found->content : from ? "value" : "content";
    m->content = json_object_get(one, m->content_name);
    m->role = json_string_value(json_object_get(one, m->role_name));
    m->known = NULL;
    for (size_t i = 0; m->role && i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(m->role, roles[i].name) == 0) m->known = roles[i].role;
    if (!json_is_object(one))
        snprintf(reason, ZR__REASON_BYTES,
                 "message %lld is %s; expected an object such as {\"role\": \"user\", \"content\": TEXT}",
                 (long long)number, ZR_JSON_SHOWN(one));
    else if (m->known)
        check_content(one, m->content, number, m->content_name, bytes, reason);
    else
        snprintf(reason, ZR__REASON_BYTES,
                 "message %lld: \"%s\" is %s; expected system, developer, user, assistant or tool, or ShareGPT's "
                 "human, gpt, observation or function_call, and the message has %s",
                 (long long)number, m->role_name, ZR_JSON_SHOWN(json_object_get(one, m->role_name)),
                 zr__jsonl_members(one, shown, sizeof(shown)));
}

/* Append a message of a record. If it is bad, write the reason. */
static zr_status add_message(const zr__form_found *found, const json_t *one, zr__talk *talk, char *reason)
{
    const int64_t number = talk->n + 1;
    message m;
    zr__turn turn = {0};
    find_members(found, one, number, &m, &talk->bytes, reason);
    if (!reason[0]) read_switch(one, number, &turn.switched, &turn.trains, reason);
    if (reason[0]) return ZR_OK;
    json_t *made = make_message(one, &m);
    if (!made && strcmp(m.role, "function_call") == 0) {
        snprintf(reason, ZR__REASON_BYTES,
                 "message %lld: the function_call is no JSON of the form {\"name\": ..., \"arguments\": ...}",
                 (long long)number);
        return ZR_OK;
    }
    ZR_TRY(zr__talk_add(talk, made));
    talk->turn[talk->n - 1].switched = turn.switched;
    talk->turn[talk->n - 1].trains = turn.trains;
    return ZR_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

static zr_status add_list(const zr__form_found *found, const json_t *record, zr__slot slot, zr__talk *talk,
                          char *reason)
{
    const json_t *list = json_object_get(record, found->member[slot]);
    json_t *one;
    size_t i;
    if (!json_is_array(list)) zr__form_refuse(found, record, slot, "a list of messages", reason);
    json_array_foreach(list, i, one)
    {
        if (!reason[0]) ZR_TRY(add_message(found, one, talk, reason));
    }
    return ZR_OK;
}

static zr_status add_system(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    const char *text = NULL;
    int64_t bytes = 0;
    if (!found->member[ZR__SLOT_SYSTEM]) return ZR_OK;
    if (!zr__form_text(found, record, ZR__SLOT_SYSTEM, &text, &bytes, reason) || bytes == 0) return ZR_OK;
    return zr__talk_say(talk, "system", text, bytes);
}

/* Take the tools, a list or its JSON text, and further variables of the template. */
static zr_status take_tools(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    const char *name = found->member[ZR__SLOT_TOOLS];
    json_t *tools = name ? json_object_get(record, name) : NULL;
    json_t *more = json_object_get(record, "chat_template_kwargs");
    const char *text = json_string_value(tools), *own = zr__chat_own_variable(more);
    if (reason[0]) return ZR_OK;
    if (more && !json_is_null(more) && !json_is_object(more))
        snprintf(reason, ZR__REASON_BYTES, "\"chat_template_kwargs\" is %s; expected an object", ZR_JSON_SHOWN(more));
    else if (own)
        snprintf(reason, ZR__REASON_BYTES, "\"chat_template_kwargs\" has \"%s\", which zr sets itself; leave it out",
                 own);
    else if (json_is_object(more))
        talk->more = json_incref(more);
    if (reason[0]) return ZR_OK;
    if (!tools || json_is_null(tools) || (text && !text[0])) return ZR_OK;
    talk->tools = text ? zr__json_loads(text, JSON_REJECT_DUPLICATES) : without_nulls(tools);
    if (!json_is_array(talk->tools))
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected a list of tools, or its JSON text", ZR_SHOWN(name),
                 ZR_JSON_SHOWN(tools));
    return ZR_OK;
}

zr_status zr__read_list(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    ZR_TRY(add_system(found, record, talk, reason));
    if (!reason[0]) ZR_TRY(add_list(found, record, ZR__SLOT_LIST, talk, reason));
    return take_tools(found, record, talk, reason);
}

zr_status zr__read_lists(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    ZR_TRY(add_list(found, record, ZR__SLOT_PROMPT, talk, reason));
    talk->prompt = talk->n;
    if (!reason[0]) ZR_TRY(add_list(found, record, ZR__SLOT_ANSWER, talk, reason));
    if (!reason[0] && talk->n == talk->prompt)
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is empty, so nothing is trained",
                 ZR_SHOWN(found->member[ZR__SLOT_ANSWER]));
    return take_tools(found, record, talk, reason);
}

/* Append the earlier turns of a record: a list of pairs of texts. */
static zr_status add_history(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    const char *name = found->member[ZR__SLOT_HISTORY];
    const json_t *list = name ? json_object_get(record, name) : NULL;
    json_t *pair;
    size_t i;
    bool fits = !list || json_is_null(list) || json_is_array(list);
    json_array_foreach(list, i, pair)
    {
        const json_t *asked = json_array_get(pair, 0), *said = json_array_get(pair, 1);
        fits = fits && json_array_size(pair) == 2 && json_is_string(asked) && json_is_string(said);
        if (!fits) break;
        ZR_TRY(zr__talk_say(talk, "user", json_string_value(asked), (int64_t)json_string_length(asked)));
        ZR_TRY(zr__talk_say(talk, "assistant", json_string_value(said), (int64_t)json_string_length(said)));
    }
    if (!fits) snprintf(reason, ZR__REASON_BYTES, "\"%s\" is not a list of pairs [PROMPT, ANSWER]", ZR_SHOWN(name));
    return ZR_OK;
}

/* Append the message of the user. Its text is the prompt and, on the next line, the input. A template may also place
 * both by itself. */
static zr_status add_prompt(const char *prompt, int64_t prompt_bytes, const char *input, int64_t input_bytes,
                            zr__talk *talk)
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    if (prompt_bytes > 0) zr__text_append(&text, prompt, (size_t)prompt_bytes);
    if (prompt_bytes > 0 && input_bytes > 0) zr__text_append(&text, "\n", 1);
    if (input_bytes > 0) zr__text_append(&text, input, (size_t)input_bytes);
    ZR_CHECK(!text.failed, ZR_ERR_MEMORY, "no memory for a prompt");
    talk->bytes += (int64_t)text.length;
    return zr__talk_add(talk, json_pack("{s:s, s:s%, s:s%, s:s%}", "role", "user", "content",
                                        text.data ? text.data : "", text.length, "instruction", prompt,
                                        (size_t)prompt_bytes, "input", input, (size_t)input_bytes));
}

zr_status zr__read_turns(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    const char *prompt = NULL, *input = "", *answer = NULL;
    int64_t prompt_bytes = 0, input_bytes = 0, answer_bytes = 0;
    if (!zr__form_text(found, record, ZR__SLOT_PROMPT, &prompt, &prompt_bytes, reason)) return ZR_OK;
    if (!zr__form_text(found, record, ZR__SLOT_ANSWER, &answer, &answer_bytes, reason)) return ZR_OK;
    if (found->member[ZR__SLOT_INPUT] && !zr__form_text(found, record, ZR__SLOT_INPUT, &input, &input_bytes, reason))
        return ZR_OK;
    ZR_TRY(add_system(found, record, talk, reason));
    if (!reason[0]) ZR_TRY(add_history(found, record, talk, reason));
    if (reason[0]) return ZR_OK;
    ZR_TRY(add_prompt(prompt, prompt_bytes, input, input_bytes, talk));
    ZR_TRY(zr__talk_say(talk, "assistant", answer, answer_bytes));
    return take_tools(found, record, talk, reason);
}
