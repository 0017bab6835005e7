/* The table of known chat templates, and their recognition in a tokenizer's directory. */
#include "data/text/chat_forms.h"

#include "base/file/folder.h"
#include "base/json/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define MOST_BYTES ((size_t)16 << 20)

/* Text before the system prompt of Llama 3.1 and later. The date is the template's default. */
#define LLAMA31_FACTS "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

#define CHATML(its_name, its_like, its_system)                                                                         \
    {                                                                                                                  \
        .name = its_name, .like = its_like, .system = its_system, .end = "<|im_end|>", .control = {                    \
            "<|im_start|>",                                                                                            \
            "<|im_end|>"                                                                                               \
        }                                                                                                              \
    }
#define LLAMA3(its_name, its_system)                                                                                   \
    {                                                                                                                  \
        .name = its_name, .like = ZR__LIKE_LLAMA3, .system = its_system, .begin = "<|begin_of_text|>",                 \
        .end = "<|eot_id|>", .control = {                                                                              \
            "<|start_header_id|>",                                                                                     \
            "<|end_header_id|>",                                                                                       \
            "<|eot_id|>"                                                                                               \
        }                                                                                                              \
    }
#define MISTRAL(its_name, its_open, its_close, its_lead, ...)                                                          \
    {                                                                                                                  \
        .name = its_name, .like = ZR__LIKE_MISTRAL, .begin = "<s>", .end = "</s>", .open = its_open,                   \
        .close = its_close, .lead = its_lead, __VA_ARGS__                                                              \
    }
static const zr__chat_form forms[] = {
    CHATML("chatml", ZR__LIKE_CHATML, NULL),
    CHATML("qwen2", ZR__LIKE_CHATML, "You are a helpful assistant."),
    CHATML("qwen2.5", ZR__LIKE_CHATML, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    CHATML("qwen3", ZR__LIKE_QWEN3, NULL),
    {.name = "llama2", .like = ZR__LIKE_LLAMA2, .begin = "<s>", .end = "</s>"},
    LLAMA3("llama3", NULL),
    LLAMA3("llama3.1", LLAMA31_FACTS),
    MISTRAL("mistral", "[INST] ", " [/INST]", "", .no_system = true),
    MISTRAL("mistral-v1", " [INST] ", " [/INST]", " ", .late = false),
    MISTRAL("mistral-v3", " ", "", " ", .late = true, .strips = true, .control = {"[INST]", "[/INST]"}),
    MISTRAL("mistral-tekken", "", "", "", .late = true, .control = {"[INST]", "[/INST]"}),
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

/* Known templates: the length of the text in bytes, its XXH3-64, and its form. A newline at the end of the text is
 * left out, as Jinja does. Some templates exist in two spellings, with newlines or with \n in their strings. */
static const struct {
    int64_t bytes;
    uint64_t hash;
    const char *form;
} known[] = {
    {199, 0x4c6e807ee5fe9f4a, "chatml"},      {196, 0xa04f41d813a07b13, "chatml"},
    {328, 0xd5d943bd0bd9082f, "qwen2"},       {333, 0xc79034a9d5f0ae58, "qwen2"},
    {2506, 0x2469c9508f79506e, "qwen2.5"},    {4116, 0x0283f874ff58d644, "qwen3"},
    {815, 0x24f6d97f87d647f5, "llama2"},      {811, 0xcb7c5112dfc4a3b0, "llama2"},
    {389, 0x9799ad6e2dea0594, "llama3"},      {393, 0x866fc8fa50da12fe, "llama3"},
    {4613, 0x6ca7779b7730196a, "llama3.1"},   {3826, 0xc3d57e38f5ff0756, "llama3.1"},
    {470, 0xa5d004210ebce758, "mistral"},     {1057, 0xf89cfc57f651ff3d, "mistral-v1"},
    {3958, 0xc6614466504d495b, "mistral-v3"}, {3944, 0xcae647ce0048756b, "mistral-tekken"},
};

static const zr__chat_form *form_named(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

static const zr__chat_form *form_of(const char *template, size_t bytes)
{
    if (bytes > 0 && template[bytes - 1] == '\n') bytes--;
    const uint64_t hash = XXH3_64bits(template, bytes);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].bytes == (int64_t)bytes && known[i].hash == hash) return form_named(known[i].form);
    return NULL;
}

/* ---- a tokenizer's directory ----------------------------------------------------------------- */

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

/* Copy the text of a special token, which is a string or an object with the string. */
static void take_mark(const json_t *config, const char *key, char mark[ZR__MARK_BYTES])
{
    const json_t *value = json_object_get(config, key);
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (text && strlen(text) < ZR__MARK_BYTES) strcpy(mark, text);
}

static void take_template(zr__chat *chat, const char *template, size_t bytes, const char *place)
{
    chat->form = form_of(template, bytes);
    if (!chat->form) snprintf(chat->unknown, sizeof(chat->unknown), "%s", ZR_SHOWN(place));
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
    if (json_is_string(template)) take_template(chat, json_string_value(template), json_string_length(template), place);
    take_mark(root, "bos_token", chat->begin);
    take_mark(root, "eos_token", chat->end);
    return ZR_OK;
}

/* Read the template from chat_template.jinja, if the directory has this file. It takes precedence over
 * tokenizer_config.json, as in transformers. */
static zr_status read_template(zr__chat *chat, const char *dir)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(read_in(dir, "chat_template.jinja", path, &text, &bytes));
    if (!text) return ZR_OK;
    chat->unknown[0] = '\0';
    take_template(chat, text, bytes, path);
    return ZR_OK;
}

/* List the names of all forms as "a, b or c". */
static const char *names_of_forms(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < FORMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < FORMS ? ", "
                                                 : " or ",
                                 forms[i].name);
    return out;
}
#define NAMES_OF_FORMS() names_of_forms((char[256]){0}, 256)

zr_status zr__chat_find(const char *tokenizer, const char *named, zr__chat *chat)
{
    char dir[PATH_MAX];
    struct stat info;
    *chat = (zr__chat){0};
    if (tokenizer && strcmp(tokenizer, "bytes") != 0) {
        ZR_TRY(zr__path_format(dir, "%s", tokenizer));
        if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode)) zr__path_parent(tokenizer, dir);
        ZR_TRY(read_config(chat, dir));
        ZR_TRY(read_template(chat, dir));
    }
    if (named && strcmp(named, "auto") != 0) {
        chat->unknown[0] = '\0';
        chat->form = form_named(named);
        ZR_CHECK(chat->form, ZR_ERR_CONFIG, "data.chat_template is \"%s\"; expected auto, %s", ZR_SHOWN(named),
                 NAMES_OF_FORMS());
    }
    if (chat->form && !chat->begin[0] && chat->form->begin) strcpy(chat->begin, chat->form->begin);
    if (chat->form && !chat->end[0] && chat->form->end) strcpy(chat->end, chat->form->end);
    return ZR_OK;
}

const char *zr__chat_name(const zr__chat *chat)
{
    return chat->form ? chat->form->name : "none";
}

const char *zr__chat_turn_end(const zr__chat *chat)
{
    return chat->form->like == ZR__LIKE_LLAMA2 || chat->form->like == ZR__LIKE_MISTRAL ? chat->end : chat->form->end;
}

int zr__chat_controls(const zr__chat *chat, const char *control[ZR__CHAT_CONTROLS])
{
    int n = 0;
    if (!chat->form) return 0;
    while (n < ZR__CHAT_CONTROLS - 2 && chat->form->control[n]) {
        control[n] = chat->form->control[n];
        n++;
    }
    if (chat->form->begin) control[n++] = chat->begin;
    if (chat->form->begin) control[n++] = chat->end;
    return n;
}

zr_status zr__chat_want(const zr__chat *chat, const zr_tokenizer *tokenizer, const char *what, const char *key,
                        const char *instead)
{
    const char *control[ZR__CHAT_CONTROLS];
    const bool bytes = strcmp(zr_tokenizer_name(tokenizer), "bytes") == 0;
    ZR_CHECK(!chat->unknown[0], ZR_ERR_UNSUPPORTED,
             "%s: zr does not know the template in %s, and does not execute templates; if it has one of the forms %s, "
             "name the form with %s; otherwise %s",
             what, chat->unknown, NAMES_OF_FORMS(), key, instead);
    ZR_CHECK(chat->form, ZR_ERR_UNSUPPORTED,
             "%s: messages need a chat template, but the tokenizer %s has none; name a form with %s (%s), or %s", what,
             ZR_SHOWN(zr_tokenizer_name(tokenizer)), key, NAMES_OF_FORMS(), instead);
    const int n = zr__chat_controls(chat, control);
    for (int i = 0; i < n && !bytes; i++)
        ZR_CHECK(zr_tokenizer_token(tokenizer, control[i]) >= 0, ZR_ERR_UNSUPPORTED,
                 "%s: the chat template %s uses the token \"%s\", which the tokenizer %s does not have; give the "
                 "tokenizer of a model that was trained on this template, or %s",
                 what, chat->form->name, ZR_SHOWN(control[i]), ZR_SHOWN(zr_tokenizer_name(tokenizer)), instead);
    return ZR_OK;
}
