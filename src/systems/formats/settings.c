/* Lists of settings, and the syntax of a configuration, which is recognised by its content. */
#include "systems/formats/formats.h"
#include "base/core/grow.h"
#include "base/json/json.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- lists ----------------------------------------------------------------------------------- */

bool zr__same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

bool zr__same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    size_t i = 0;
    while (a[i] && (tolower((unsigned char)a[i]) == tolower((unsigned char)b[i]) || (a[i] == ' ' && b[i] == ','))) i++;
    if (!a[i] && !b[i]) return true;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return end_a != a && end_b != b && !*end_a && !*end_b && x == y;
}

zr_status zr__settings_add(zr__settings *list, const char *name, const char *value, int line)
{
    ZR_CHECK(list->n < ZR__SETTINGS_MOST, ZR_ERR_CONFIG, "line %d: more than %d settings, which no configuration has",
             line, ZR__SETTINGS_MOST);
    ZR_GROW(list->one, list->room, list->n + 1, "settings");
    ZR_AUTO_FREE char *own_name = NULL;
    ZR_TRY(zr__text_copy(name, strlen(name), &own_name));
    zr__setting *setting = &list->one[list->n];
    ZR_TRY(zr__text_copy(value, strlen(value), &setting->value));
    setting->name = ZR_TAKE(own_name);
    setting->line = line;
    list->n++;
    return ZR_OK;
}

zr__setting *zr__settings_find(const zr__settings *list, const char *name)
{
    for (int64_t i = 0; i < list->n; i++)
        if (zr__same_name(list->one[i].name, name)) return &list->one[i];
    return NULL;
}

const char *zr__settings_value(const zr__settings *list, const char *name)
{
    const zr__setting *setting = zr__settings_find(list, name);
    return setting ? setting->value : NULL;
}

void zr__settings_clear(zr__settings *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        zr_free(list->one[i].name);
        zr_free(list->one[i].value);
    }
    zr_free(list->one);
    *list = (zr__settings){0};
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A JSON text being read. */
typedef struct reading {
    const char *text, *name;
    size_t bytes;
    zr__settings *list;
} reading;

/* Append a value to `out`. A list of numbers has brackets, as in JSON; words of a list are separated by commas. */
static void add_value(zr__text *out, const json_t *value)
{
    const bool brackets = json_is_number(json_array_get(value, 0));
    if (json_is_string(value)) zr__text_add(out, "%s", json_string_value(value));
    if (json_is_boolean(value)) zr__text_add(out, "%s", json_is_true(value) ? "true" : "false");
    if (json_is_integer(value)) zr__text_add(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) zr__text_add(out, "%s", ZR_SHORTEST(json_real_value(value)));
    if (brackets) zr__text_add(out, "[");
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (i) zr__text_add(out, ",");
        add_value(out, json_array_get(value, i));
    }
    if (brackets) zr__text_add(out, "]");
}

static zr_status add_json(const reading *r, const json_t *object, const zr__json_place *parent)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        const zr__json_place place = {parent, name, 0};
        char path[256];
        ZR_AUTO(zr__text_clear) zr__text text = {0};
        int line = 0, column;
        if (json_is_object(value)) {
            ZR_TRY(add_json(r, value, &place));
            continue;
        }
        if (json_is_null(value)) continue;
        add_value(&text, value);
        ZR_CHECK(!text.failed, ZR_ERR_MEMORY, "no memory for the settings of %s", r->name);
        zr__json_path(&place, path, sizeof(path));
        zr__json_find(r->text, r->bytes, &place, &line, &column);
        ZR_TRY(zr__settings_add(r->list, path, text.data ? text.data : "", line));
    }
    return ZR_OK;
}

static zr_status read_json(const char *text, size_t bytes, const char *name, zr__settings *list)
{
    json_auto_t *root = NULL;
    ZR_AUTO_FREE char *plain = NULL;
    ZR_TRY(zr__text_copy(text, bytes, &plain));
    zr__json_blank_comments(plain, bytes);
    ZR_TRY(zr__json_parse(plain, bytes, name, &root));
    const reading r = {plain, name, bytes, list};
    const zr__json_place top = {0};
    return add_json(&r, root, &top);
}

/* ---- lines NAME = VALUE ---------------------------------------------------------------------- */

static bool is_name(int c)
{
    return isalnum(c) || c == '_' || c == '-' || c == '.';
}

/* Copy text[0, n) without blanks at both ends, quotes and brackets, up to a comment. */
static void add_plain(zr__text *out, const char *text, size_t n)
{
    char quote = 0;
    for (size_t i = 0; i < n; i++) {
        if (!quote && text[i] == '#') break;
        if (quote ? text[i] == quote : text[i] == '"' || text[i] == '\'') {
            quote = quote ? 0 : text[i];
        } else if (quote || !strchr("[]() \t\r", text[i])) {
            zr__text_append(out, text + i, 1);
        }
    }
    if (out->length && out->data[out->length - 1] == ',') out->data[--out->length] = '\0';
}

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* Read a line of TOML or Python: [SECTION], or NAME = VALUE, and nothing else but comments. */
static zr_status read_line(const char *line, size_t n, const char *name, int at, char section[128], zr__settings *list)
{
    size_t word = 0;
    while (word < n && is_name((unsigned char)line[word])) word++;
    size_t equals = word;
    while (equals < n && strchr(" \t", line[equals])) equals++;
    if (line[0] == '[' && memchr(line, ']', n)) {
        snprintf(section, 128, "%.*s.", (int)strcspn(line + 1, "]"), line + 1);
        return ZR_OK;
    }
    ZR_CHECK(word > 0 && equals < n && line[equals] == '=', ZR_ERR_CONFIG,
             "%s:%d: expected NAME = VALUE or [SECTION], found \"%.*s\"", name, at, (int)(n < 60 ? n : 60), line);
    ZR_AUTO(zr__text_clear) zr__text key = {0};
    ZR_AUTO(zr__text_clear) zr__text value = {0};
    zr__text_add(&key, "%s%.*s", section, (int)word, line);
    add_plain(&value, line + equals + 1, n - equals - 1);
    ZR_CHECK(!key.failed && !value.failed, ZR_ERR_MEMORY, "no memory for the settings of %s", name);
    if (!value.data || zr__same_value(value.data, "none")) return ZR_OK;
    return zr__settings_add(list, key.data, value.data, at);
}

/* Read lines of TOML or Python. In Python, code follows the settings. */
static zr_status read_lines(const char *text, const char *name, zr__settings *list)
{
    char section[128] = "";
    for (int at = 1; *text; at++) {
        const size_t n = strcspn(text, "\n");
        const size_t blank = strspn(text, " \t\r");
        if (begins(text, "import ") || begins(text, "from ") || begins(text, "def ")) return ZR_OK;
        if (blank < n && text[blank] != '#') ZR_TRY(read_line(text + blank, n - blank, name, at, section, list));
        text += n + (text[n] == '\n');
    }
    return ZR_OK;
}

/* ---- which syntax ---------------------------------------------------------------------------- */

/* Return whether a line, outside of comments, has a word that begins with two dashes and a letter. */
static bool has_flag(const char *line, size_t n)
{
    for (size_t i = 0; i + 2 < n && line[i] != '#'; i++)
        if (line[i] == '-' && line[i + 1] == '-' && isalpha((unsigned char)line[i + 2]) &&
            (i == 0 || strchr(" \t\"'(", line[i - 1])))
            return true;
    return false;
}

/* Return whether a line is a section or an assignment with blanks around '=', unlike those of a shell. */
static bool is_assignment(const char *line, size_t n)
{
    size_t i = 0;
    if (n > 2 && line[0] == '[' && isalpha((unsigned char)line[1]) && memchr(line, ']', n)) return true;
    while (i < n && is_name((unsigned char)line[i])) i++;
    return i > 0 && i + 2 < n && strncmp(line + i, " = ", 3) == 0;
}

/* Return whether any line is of a kind. */
static bool any_line(const char *text, bool (*is)(const char *line, size_t n))
{
    while (*text) {
        const size_t n = strcspn(text, "\n");
        if (is(text, n)) return true;
        text += n + (text[n] == '\n');
    }
    return false;
}

/* Read the lines "#zr NAME VALUE", which every syntax but JSON has as comments. */
static zr_status read_own(const char *text, zr__settings *list)
{
    for (int at = 1; *text; at++) {
        const size_t n = strcspn(text, "\n");
        char name[128], value[256];
        if (begins(text, "#zr ") && sscanf(text, "#zr %120s %255[^\n]", name, value) == 2) {
            memmove(name + 3, name, strlen(name) + 1);
            memcpy(name, "zr.", 3);
            ZR_TRY(zr__settings_add(list, name, value, at));
        }
        text += n + (text[n] == '\n');
    }
    return ZR_OK;
}

zr_status zr__settings_read(const char *text, size_t bytes, const char *name, zr__settings *list)
{
    ZR_AUTO_FREE char *copy = NULL;
    zr__json_skip_mark(&text, &bytes);
    ZR_CHECK(!memchr(text, '\0', bytes), ZR_ERR_CONFIG, "%s: it has a byte 0, so it is not a text", name);
    ZR_TRY(zr__text_copy(text, bytes, &copy));
    const char *first = copy + strspn(copy, " \t\r\n");
    if (*first == '{' || begins(first, "//")) return read_json(copy, bytes, name, list);
    ZR_TRY(read_own(copy, list));
    if (any_line(copy, is_assignment)) return read_lines(copy, name, list);
    if (any_line(copy, has_flag)) return zr__settings_read_flags(copy, bytes, name, list);
    return zr__settings_read_yaml(copy, bytes, name, list);
}
