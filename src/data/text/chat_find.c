/* Finds the chat template of a tokenizer, and its control tokens. */
#include "base/core/grow.h"
#include "base/file/folder.h"
#include "base/json/json.h"
#include "data/text/chat.h"
#include "data/text/chat_forms.h"
#include "data/tokenizer/tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#define MOST_BYTES ((size_t)16 << 20)

/* ---- templates ------------------------------------------------------------------------------- */

/* Read a template. A template that cannot be read is an error only when it is needed. */
static zr_status take_template(zr__chat *chat, const char *text, size_t bytes, const char *place)
{
    zr__template_close(&chat->template);
    chat->unread[0] = '\0';
    chat->hash = XXH3_64bits(text, bytes);
    const zr_status st = zr__template_read(text, (int64_t)bytes, ZR_SHOWN(place), &chat->template);
    if (st != ZR_ERR_DATA && st != ZR_ERR_UNSUPPORTED) return st;
    snprintf(chat->unread, sizeof(chat->unread), "%s", zr_error_message());
    return ZR_OK;
}

/* Read a file of the directory. *text receives NULL if the file does not exist. */
static zr_status read_in(const char *dir, const char *name, char path[PATH_MAX], char **text, size_t *bytes)
{
    *text = NULL;
    ZR_TRY(zr__path_join(path, dir, name));
    if (!zr__path_is_in(dir, name)) return ZR_OK;
    return zr__json_read_most(path, MOST_BYTES, text, bytes);
}

/* Return the template of tokenizer_config.json: a text, or the text named "default" of a list. */
static const json_t *template_in(const json_t *config)
{
    const json_t *template = json_object_get(config, "chat_template"), *one;
    size_t i;
    if (!json_is_array(template)) return template;
    json_array_foreach(template, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0) return json_object_get(one, "template");
    }
    return NULL;
}

/* Make the special tokens of a file variables of the template. A token is a text, or an object with the text. `ends`:
 * whether they also begin and end texts. */
static zr_status take_marks(zr__chat *chat, const json_t *config, bool ends)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(config, names[i]);
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
        char *mark = !ends ? NULL : i == 0 ? chat->begin : i == 1 ? chat->end : NULL;
        if (!text) continue;
        if (mark && strlen(text) < ZR__MARK_BYTES) strcpy(mark, text);
        ZR_CHECK(json_object_set_new(chat->variables, names[i], json_string(text)) == 0, ZR_ERR_MEMORY,
                 "no memory for the special tokens of a chat template");
    }
    return ZR_OK;
}

static zr_status read_config(zr__chat *chat, const char *dir)
{
    char path[PATH_MAX], place[PATH_MAX + 32];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    ZR_TRY(read_in(dir, "tokenizer_config.json", path, &text, &bytes));
    if (!text) return ZR_OK;
    ZR_TRY(zr__json_parse_reals(text, bytes, MOST_BYTES, path, &root));
    const json_t *template = template_in(root);
    snprintf(place, sizeof(place), "chat_template in %s", path);
    if (json_is_string(template))
        ZR_TRY(take_template(chat, json_string_value(template), json_string_length(template), place));
    chat->listed = json_object_get(root, "added_tokens_decoder") != NULL;
    return take_marks(chat, root, true);
}

/* Read special_tokens_map.json, as transformers does if tokenizer_config.json does not list the added tokens. */
static zr_status read_map(zr__chat *chat, const char *dir)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    if (chat->listed) return ZR_OK;
    ZR_TRY(read_in(dir, "special_tokens_map.json", path, &text, &bytes));
    if (!text) return ZR_OK;
    ZR_TRY(zr__json_parse_reals(text, bytes, MOST_BYTES, path, &root));
    return take_marks(chat, root, false);
}

/* Read the template from chat_template.jinja, if the directory has this file. It takes precedence over
 * tokenizer_config.json, as in transformers. */
static zr_status read_template(zr__chat *chat, const char *dir)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(read_in(dir, "chat_template.jinja", path, &text, &bytes));
    return text ? take_template(chat, text, bytes, path) : ZR_OK;
}

static zr_status add_control(zr__chat *chat, const char *text)
{
    if (!text || !text[0] || strlen(text) >= ZR__MARK_BYTES) return ZR_OK;
    for (int64_t i = 0; i < chat->controls; i++)
        if (strcmp(chat->control[i], text) == 0) return ZR_OK;
    ZR_GROW(chat->control, chat->control_room, chat->controls + 1, "control tokens of a chat template");
    strcpy(chat->control[chat->controls++], text);
    return ZR_OK;
}

/* Make a talk of a question, and perhaps an answer, whose contents are `texts`, or lists of one part. */
static zr_status make_talk(bool parts, bool answered, zr__talk *talk)
{
    static const char *const role[] = {"user", "assistant"}, *const text[] = {"a", "b"};
    for (int i = 0; i < 1 + answered; i++) {
        json_t *content = parts ? json_pack("[{s:s, s:s}]", "type", "text", "text", text[i]) : json_string(text[i]);
        ZR_TRY(zr__talk_add(talk, json_pack("{s:s, s:o}", "role", role[i], "content", content)));
        talk->turn[i].trains = i == 1;
    }
    return ZR_OK;
}

/* Find the token that ends an answer: the control token that follows an answer. */
static zr_status find_turn_end(zr__chat *chat)
{
    ZR_AUTO(zr__talk_clear) zr__talk talk = {0};
    ZR_AUTO(zr__rendered_free) zr__rendered r = {0};
    const char *reason = NULL;
    int64_t end = 0, at, bytes = 0;
    strcpy(chat->turn_end, chat->end);
    ZR_TRY(make_talk(false, true, &talk));
    ZR_TRY(zr__chat_render(chat, &talk, false, &r, &reason));
    if (reason || (chat->form && chat->form->plain)) return ZR_OK;
    for (int64_t i = 0; i < r.n; i++)
        if (r.span[i].message) end = r.span[i].end;
    at = zr__chat_control_in(chat, r.text.data + end, (int64_t)r.text.length - end, &bytes);
    if (at >= 0) snprintf(chat->turn_end, sizeof(chat->turn_end), "%.*s", (int)bytes, r.text.data + end + at);
    return ZR_OK;
}

/* Find out whether the template takes lists of parts as contents: then it shows only the part's text of a list of one
 * part. */
static zr_status find_joins(zr__chat *chat)
{
    ZR_AUTO(zr__talk_clear) zr__talk talk = {0};
    ZR_AUTO(zr__rendered_free) zr__rendered r = {0};
    const char *reason = NULL;
    int64_t shown = 0;
    chat->joins = false;
    ZR_TRY(make_talk(true, false, &talk));
    ZR_TRY(zr__chat_render(chat, &talk, false, &r, &reason));
    for (int64_t i = 0; i < r.n; i++)
        if (r.span[i].message) shown += r.span[i].end - (i > 0 ? r.span[i - 1].end : 0);
    chat->joins = reason || shown != 1;
    return ZR_OK;
}

/* Take zr's own template of a form. */
static zr_status take_form(zr__chat *chat, const zr__chat_form *form)
{
    if (!chat->begin[0] && form->begin) strcpy(chat->begin, form->begin);
    if (!chat->end[0] && form->end) strcpy(chat->end, form->end);
    ZR_TRY(take_template(chat, form->template, strlen(form->template), form->name));
    ZR_ASSERT(chat->template);
    chat->form = form;
    chat->joins = true;
    if (form->plain) return ZR_OK; /* its end is the tokenizer's, which zr__chat_want knows */
    for (int i = 0; i < ZR__FORM_CONTROLS; i++) ZR_TRY(add_control(chat, form->control[i]));
    if (form->begin) ZR_TRY(add_control(chat, chat->begin));
    if (form->begin) ZR_TRY(add_control(chat, chat->end));
    const int failed = json_object_set_new(chat->variables, "bos_token", json_string(chat->begin)) |
                       json_object_set_new(chat->variables, "eos_token", json_string(chat->end));
    ZR_CHECK(!failed, ZR_ERR_MEMORY, "no memory for the special tokens of a chat template");
    return find_turn_end(chat);
}

const char *zr__chat_own_variable(const json_t *variables)
{
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (json_object_get(variables, own[i])) return own[i];
    return NULL;
}

/* Take further variables of the template. */
static zr_status take_more(zr__chat *chat, const char *more)
{
    if (!more) return ZR_OK;
    json_auto_t *given = zr__json_loads(more, JSON_REJECT_DUPLICATES);
    ZR_CHECK(json_is_object(given), ZR_ERR_CONFIG,
             "data.chat_template_kwargs is %s; expected an object such as {\"enable_thinking\": false}",
             given ? ZR_JSON_SHOWN(given) : ZR_SHOWN(more));
    const char *own = zr__chat_own_variable(given);
    ZR_CHECK(!own, ZR_ERR_CONFIG, "data.chat_template_kwargs: zr sets \"%s\" by each record; leave it out", own);
    ZR_CHECK(json_object_update(chat->variables, given) == 0, ZR_ERR_MEMORY,
             "no memory for the variables of a chat template");
    return ZR_OK;
}

/* Take the template that data.chat_template names: a form, or a file. */
static zr_status take_named(zr__chat *chat, const char *named)
{
    const zr__chat_form *form = zr__chat_form_named(named);
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    if (form) return take_form(chat, form);
    ZR_CHECK(zr__text_ends(named, ".jinja"), ZR_ERR_CONFIG,
             "data.chat_template is \"%s\"; expected auto, %s, or a file with a template (its name ends in .jinja)",
             ZR_SHOWN(named), ZR__CHAT_FORMS());
    ZR_TRY(zr__json_read_most(named, MOST_BYTES, &text, &bytes));
    return take_template(chat, text, bytes, named);
}

zr_status zr__chat_find(const char *tokenizer, const char *named, const char *date, const char *more, zr__chat *chat)
{
    char dir[PATH_MAX];
    struct stat info;
    struct tm day = {0};
    *chat = (zr__chat){.variables = json_object()};
    ZR_CHECK(chat->variables, ZR_ERR_MEMORY, "no memory for a chat template");
    const char *end = date ? strptime(date, "%Y-%m-%d", &day) : "";
    ZR_CHECK(end && !*end && (!date || strlen(date) < sizeof(chat->date)), ZR_ERR_CONFIG,
             "data.chat_date is \"%s\"; expected a date, YYYY-MM-DD", ZR_SHOWN(date));
    strcpy(chat->date, date ? date : ZR__CHAT_DATE);
    if (tokenizer && strcmp(tokenizer, "bytes") != 0) {
        ZR_TRY(zr__path_format(dir, "%s", tokenizer));
        if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode)) zr__path_parent(tokenizer, dir);
        ZR_TRY(read_config(chat, dir));
        ZR_TRY(read_map(chat, dir));
        ZR_TRY(read_template(chat, dir));
    }
    if (named && strcmp(named, "auto") != 0) ZR_TRY(take_named(chat, named));
    return take_more(chat, more);
}

void zr__chat_close(zr__chat *chat)
{
    zr__template_close(&chat->template);
    json_decref(chat->variables);
    zr_free(chat->control);
    *chat = (zr__chat){0};
}

const char *zr__chat_name(const zr__chat *chat)
{
    return chat->form ? chat->form->name : chat->template ? "own" : "none";
}

/* Find the control tokens of a template that is not zr's: the special tokens of the tokenizer that it contains. */
static zr_status find_controls(zr__chat *chat, const zr_tokenizer *tokenizer)
{
    const char *text = NULL, *name;
    json_t *value;
    for (int64_t i = 0; (text = zr__tokenizer_special_text(tokenizer, i)); i++)
        if (zr__template_contains(chat->template, text)) ZR_TRY(add_control(chat, text));
    json_object_foreach(chat->variables, name, value)
    {
        if (strcmp(name, "bos_token") == 0 || strcmp(name, "eos_token") == 0)
            ZR_TRY(add_control(chat, json_string_value(value)));
    }
    ZR_TRY(find_joins(chat));
    return find_turn_end(chat);
}

void zr__chat_set_end(zr__chat *chat, const zr_tokenizer *tokenizer)
{
    if (chat->end[0] && zr_tokenizer_token(tokenizer, chat->end) >= 0) return;
    strcpy(chat->end, zr_tokenizer_token(tokenizer, ZR_END_OF_TEXT) >= 0 ? ZR_END_OF_TEXT : "\n");
}

/* Let a form without control tokens end answers as the tokenizer ends texts. */
static zr_status set_plain(zr__chat *chat, const zr_tokenizer *tokenizer)
{
    zr__chat_set_end(chat, tokenizer);
    ZR_CHECK(json_object_set_new(chat->variables, "eos_token", json_string(chat->end)) == 0, ZR_ERR_MEMORY,
             "no memory for the special tokens of a chat template");
    if (strcmp(chat->end, "\n") != 0) ZR_TRY(add_control(chat, chat->end));
    return find_turn_end(chat);
}

zr_status zr__chat_want(zr__chat *chat, const zr_tokenizer *tokenizer, const char *what, const char *key,
                        const char *instead)
{
    const bool bytes = strcmp(zr_tokenizer_name(tokenizer), "bytes") == 0;
    ZR_CHECK(!chat->unread[0], ZR_ERR_UNSUPPORTED,
             "%s: the chat template cannot be used: %s; correct it, or name one of zr's own forms with %s (%s), or %s",
             what, chat->unread, key, ZR__CHAT_FORMS(), instead);
    ZR_CHECK(chat->template, ZR_ERR_UNSUPPORTED,
             "%s: messages need a chat template, but the tokenizer %s has none; name a form with %s (%s), or %s", what,
             ZR_SHOWN(zr_tokenizer_name(tokenizer)), key, ZR__CHAT_FORMS(), instead);
    if (!chat->form) return find_controls(chat, tokenizer);
    if (chat->form->plain) return set_plain(chat, tokenizer);
    for (int64_t i = 0; i < chat->controls && !bytes; i++)
        ZR_CHECK(zr_tokenizer_token(tokenizer, chat->control[i]) >= 0, ZR_ERR_UNSUPPORTED,
                 "%s: the chat template %s uses the token \"%s\", which the tokenizer %s does not have; give the "
                 "tokenizer of a model that was trained on this template, or %s",
                 what, chat->form->name, ZR_SHOWN(chat->control[i]), ZR_SHOWN(zr_tokenizer_name(tokenizer)), instead);
    return ZR_OK;
}
