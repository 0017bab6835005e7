#include "data/text/forms.h"

#include "base/core/grow.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "data/text/jsonl.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* NAME_BYTES: bytes of a member's name in advice */
enum { PART_BYTES = 1 << 16, NAME_BYTES = 44 };

struct zr__form {
    zr__lines_kind kind;
    const char *name[ZR__SLOTS]; /* names of the members, or NULL for members that the form does not have */
    zr__read_fn read;            /* for MESSAGES */
    bool lists;                  /* whether it needs lists of messages as prompt and answer */
    bool alpaca;
};

#define TURNS(...) .kind = ZR__LINES_MESSAGES, .name = {__VA_ARGS__}, .read = zr__read_turns
#define PROMPT [ZR__SLOT_PROMPT]
#define ANSWER [ZR__SLOT_ANSWER]
#define INPUT [ZR__SLOT_INPUT]
#define SYSTEM [ZR__SLOT_SYSTEM]
#define TOOLS [ZR__SLOT_TOOLS] = "tools"

/* The first form whose members a record has is its form. */
static const zr__form forms[] = {
    {.kind = ZR__LINES_MESSAGES, .name = {[ZR__SLOT_LIST] = "messages", TOOLS}, .read = zr__read_list},
    {.kind = ZR__LINES_MESSAGES,
     .name = {[ZR__SLOT_LIST] = "conversations", SYSTEM = "system", TOOLS},
     .read = zr__read_list},
    {TURNS(PROMPT = "instruction", INPUT = "input", ANSWER = "output",
           SYSTEM = "system", [ZR__SLOT_HISTORY] = "history"),
     .alpaca = true},
    {.kind = ZR__LINES_MESSAGES,
     .name = {PROMPT = "prompt", ANSWER = "completion", TOOLS},
     .read = zr__read_lists,
     .lists = true},
    {.kind = ZR__LINES_PAIR, .name = {PROMPT = "prompt", ANSWER = "completion"}},
    {.kind = ZR__LINES_TEXT, .name = {[ZR__SLOT_TEXT] = "text"}},
    {TURNS(PROMPT = "prompt", ANSWER = "response", SYSTEM = "system")},
    {TURNS(PROMPT = "question", ANSWER = "answer", SYSTEM = "system_prompt")},
    {TURNS(PROMPT = "question", ANSWER = "response", SYSTEM = "system_prompt")},
    {TURNS(PROMPT = "query", ANSWER = "response", SYSTEM = "system")},
    {TURNS(PROMPT = "input", ANSWER = "output", SYSTEM = "system")},
    {TURNS(PROMPT = "problem", ANSWER = "solution", SYSTEM = "system")},
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

static bool is_needed(int slot)
{
    return slot <= ZR__SLOT_PROMPT || slot == ZR__SLOT_ANSWER;
}

/* ---- names of members ------------------------------------------------------------------------ */

/* Return the file's name for a member, or NULL for NULL. */
static const char *name_of(const json_t *columns, const char *name)
{
    const char *own = name ? json_string_value(json_object_get(columns, name)) : NULL;
    return own ? own : name;
}

static bool form_has(const zr__form *form, const char *name)
{
    for (int s = 0; s < ZR__SLOTS; s++)
        if (form->name[s] && strcmp(form->name[s], name) == 0) return true;
    return form->read && (strcmp(name, "role") == 0 || strcmp(name, "content") == 0);
}

/* Return whether a form has all members that the user has named. */
static bool form_fits(const zr__form *form, const json_t *columns)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)columns, name, value)
    {
        if (!form_has(form, name)) return false;
    }
    return true;
}

/* Return whether a record has the members of a form. A member that is null is missing. */
static bool record_fits(const zr__form *form, const json_t *columns, const json_t *record)
{
    for (int s = 0; s < ZR__SLOTS; s++) {
        if (!form->name[s] || !is_needed(s)) continue;
        const json_t *value = json_object_get(record, name_of(columns, form->name[s]));
        if (!value || json_is_null(value) || (form->lists && !json_is_array(value))) return false;
    }
    return true;
}

/* Check data.columns. */
static zr_status check_columns(const json_t *columns)
{
    const char *name;
    json_t *value;
    bool any = false;
    ZR_CHECK(json_is_object(columns), ZR_ERR_CONFIG,
             "data.columns is %s; expected an object such as {\"prompt\": \"question\", \"completion\": \"answer\"}",
             ZR_JSON_SHOWN(columns));
    for (int i = 0; i < FORMS; i++) any = any || form_fits(&forms[i], columns);
    json_object_foreach((json_t *)columns, name, value)
    {
        bool known = false;
        for (int i = 0; i < FORMS; i++) known = known || form_has(&forms[i], name);
        ZR_CHECK(known, ZR_ERR_CONFIG,
                 "data.columns: \"%s\" is no member that zr reads; name the members of your records as values, and as "
                 "keys text; messages; prompt, completion; instruction, input, output, system, history; question, "
                 "answer, system_prompt; role, content or tools",
                 ZR_SHOWN(name));
        ZR_CHECK(json_string_length(value) > 0, ZR_ERR_CONFIG, "data.columns: \"%s\" is %s; expected a member's name",
                 ZR_SHOWN(name), ZR_JSON_SHOWN(value));
    }
    ZR_CHECK(any, ZR_ERR_CONFIG,
             "data.columns: no form of records has all of these members together; name those of one form, such as "
             "{\"prompt\": \"question\", \"completion\": \"answer\"}");
    return ZR_OK;
}

static zr_status take_columns(const char *columns, const char *text_key, zr__form_found *found)
{
    const bool renames = text_key && strcmp(text_key, "text") != 0;
    ZR_CHECK(!columns || !renames, ZR_ERR_CONFIG,
             "data.columns and data.text_key cannot be given together; give data.columns {\"text\": \"%s\"}",
             ZR_SHOWN(text_key));
    found->columns = columns   ? zr__json_loads(columns, JSON_REJECT_DUPLICATES)
                     : renames ? json_pack("{s:s}", "text", text_key)
                               : json_object();
    ZR_CHECK(found->columns || columns, ZR_ERR_MEMORY, "no memory for the names of members");
    return check_columns(found->columns);
}

/* ---- the first record ------------------------------------------------------------------------ */

/* Return whether a member of the file is read. */
static bool reads(const zr__form_found *found, const char *name)
{
    for (int s = 0; s < ZR__SLOTS; s++)
        if (found->member[s] && strcmp(found->member[s], name) == 0) return true;
    return false;
}

/* Write which members of the record the form reads, and a needed member of another form that it does not read. */
static void say(zr__form_found *found, const json_t *record)
{
    size_t used = 0;
    const char *other = NULL;
    const size_t size = sizeof(found->said);
    for (int s = 0; s < ZR__SLOTS; s++) {
        const char *usual = found->form->name[s], *own = found->member[s];
        const json_t *value = own ? json_object_get(record, own) : NULL;
        if (!value || json_is_null(value) || used >= size) continue;
        used += (size_t)snprintf(found->said + used, size - used, "%s%.32s", used ? ", " : "", ZR_SHOWN(own));
        if (strcmp(own, usual) != 0 && used < size)
            used += (size_t)snprintf(found->said + used, size - used, " as %s", usual);
    }
    for (int i = 0; i < FORMS && !other; i++)
        for (int s = 0; s < ZR__SLOTS && !other; s++)
            if (forms[i].name[s] && is_needed(s) && record_fits(&forms[i], NULL, record) &&
                !reads(found, forms[i].name[s]))
                other = forms[i].name[s];
    if (other && used < size)
        snprintf(found->said + used, size - used, " (their \"%s\" is not read; data.columns chooses)", other);
}

static void take_form(zr__form_found *found, const zr__form *form, const json_t *record)
{
    found->form = form;
    found->kind = form->kind;
    found->alpaca = form->alpaca;
    for (int s = 0; s < ZR__SLOTS; s++) found->member[s] = name_of(found->columns, form->name[s]);
    found->role = json_string_value(json_object_get(found->columns, "role"));
    found->content = json_string_value(json_object_get(found->columns, "content"));
    say(found, record);
}

/* Return the first member whose value is a list of objects, or NULL. */
static const char *find_list(const json_t *record)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)record, name, value)
    {
        if (json_is_object(json_array_get(value, 0))) return name;
    }
    return NULL;
}

/* Write how to read a record that has no form. */
static void advise(const json_t *record, char *advice, size_t size)
{
    const char *key, *text[2] = {NULL, NULL}, *list = find_list(record);
    char name[2][NAME_BYTES];
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)record, key, value)
    {
        if (json_is_string(value) && n < 2) text[n++] = key;
    }
    if (json_object_get(record, "chosen") && json_object_get(record, "rejected"))
        snprintf(advice, size,
                 "these are preferences, which zr does not train on; data.columns {%s} trains on the better answers",
                 json_is_array(json_object_get(record, "chosen"))
                     ? "\"messages\": \"chosen\""
                     : "\"prompt\": \"prompt\", \"completion\": \"chosen\"");
    else if (json_object_get(record, "input_ids"))
        snprintf(advice, size, "these are tokens, which zr reads from token files (.bin), or from a program in Python");
    else if (list)
        snprintf(advice, size,
                 "if \"%s\" has the records, write it to a file of its own; if these are messages, "
                 "give data.columns {\"messages\": \"%s\"}",
                 zr__text_escape(list, name[0], NAME_BYTES), name[0]);
    else if (n == 2)
        snprintf(advice, size,
                 "name them with data.columns, such as {\"prompt\": \"%s\", \"completion\": \"%s\"}, or "
                 "{\"question\": ..., \"answer\": ...} for a chat template",
                 zr__text_escape(text[0], name[0], NAME_BYTES), zr__text_escape(text[1], name[1], NAME_BYTES));
    else
        snprintf(advice, size, "name them with data.columns, such as {\"text\": \"%s\"}",
                 n ? zr__text_escape(text[0], name[0], NAME_BYTES) : "body");
}

/* Look for the form of a record; a zr__record_fn. End the pass at the first record that has a form. */
static zr_status look_at(const void *of, void *arg, const json_t *record, int64_t *bytes, char *reason)
{
    zr__form_found *found = arg;
    char members[160], advice[ZR__REASON_BYTES / 2];
    (void)of;
    *bytes = 1;
    for (int i = 0; i < FORMS && !found->form; i++)
        if (form_fits(&forms[i], found->columns) && record_fits(&forms[i], found->columns, record))
            take_form(found, &forms[i], record);
    if (found->form) return ZR_FAIL(ZR_ERR_STATE, "no more records are needed");
    const char *text = json_string_value(json_object_get(found->columns, "text"));
    advise(record, advice, sizeof(advice));
    if (text)
        snprintf(
            reason, ZR__REASON_BYTES,
            "\"%s\" is missing; expected a text (data.text_key or data.columns sets the name), and the record has %s",
            ZR_SHOWN(text), zr__jsonl_members(record, members, sizeof(members)));
    else
        snprintf(reason, ZR__REASON_BYTES, "the record has %s, which together are no form that zr reads%s: %s",
                 zr__jsonl_members(record, members, sizeof(members)),
                 json_object_size(found->columns) ? " with these data.columns" : "", advice);
    return ZR_OK;
}

static zr_status look(zr__parts *parts, zr__form_found *found)
{
    ZR_AUTO(zr__part_free) zr__part part = {0};
    zr__found_texts all = {0};
    ZR_TRY(zr__parts_begin(parts));
    while (!parts->ended && !found->form) {
        ZR_TRY(zr__part_read(parts, &part));
        zr__part_run(parts, &part, NULL, found);
        if (!found->form) ZR_TRY(zr__part_take(parts, &part, &all));
    }
    return ZR_OK;
}

zr_status zr__form_find(const zr__parts *like, const char *columns, const char *text_key, zr__form_found *found)
{
    zr__parts parts = *like;
    *found = (zr__form_found){0};
    ZR_TRY(take_columns(columns, text_key, found));
    parts.usual_bytes = PART_BYTES;
    parts.record = look_at;
    const zr_status st = look(&parts, found);
    zr__parts_end(&parts);
    ZR_TRY(st);
    for (int i = 0; i < FORMS && !found->form; i++) /* no record has a form, and bad records are skipped */
        if (forms[i].kind == ZR__LINES_TEXT) take_form(found, &forms[i], NULL);
    return ZR_OK;
}

void zr__form_close(zr__form_found *found)
{
    json_decref(found->columns);
    *found = (zr__form_found){0};
}

uint64_t zr__form_hash(const zr__form_found *found)
{
    uint64_t hash = (uint64_t)found->kind;
    for (int i = 0; i < ZR__SLOTS + 2; i++) {
        const char *name = i < ZR__SLOTS ? found->member[i] : i == ZR__SLOTS ? found->role : found->content;
        hash = zr__hash_join(hash, name ? XXH3_64bits(name, strlen(name)) : (uint64_t)i);
    }
    return zr__hash_join(hash, found->form->lists);
}

/* ---- records --------------------------------------------------------------------------------- */

zr_status zr__form_read(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason)
{
    return found->form->read(found, record, talk, reason);
}

void zr__form_refuse(const zr__form_found *found, const json_t *record, zr__slot slot, const char *wanted, char *reason)
{
    const char *name = found->member[slot];
    const json_t *value = json_object_get(record, name);
    char members[160];
    if (!value || json_is_null(value))
        snprintf(reason, ZR__REASON_BYTES,
                 "\"%s\" is %s; the first record of this file has %s, so each must, but this one has %s",
                 ZR_SHOWN(name), value ? "null" : "missing", found->said,
                 zr__jsonl_members(record, members, sizeof(members)));
    else
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected %s", ZR_SHOWN(name), ZR_JSON_SHOWN(value), wanted);
}

bool zr__form_text(const zr__form_found *found, const json_t *record, zr__slot slot, const char **text, int64_t *bytes,
                   char *reason)
{
    const char *name = found->member[slot];
    const json_t *value = name ? json_object_get(record, name) : NULL;
    *text = json_string_value(value);
    *bytes = (int64_t)json_string_length(value);
    if ((!value || json_is_null(value)) && !is_needed((int)slot)) *text = "";
    if (!*text) zr__form_refuse(found, record, slot, "a text", reason);
    return *text;
}
