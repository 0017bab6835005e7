/* Reads YAML into settings, with libyaml. */
#include "systems/formats/formats.h"

#include <yaml.h>

enum { DEPTH = 16, PATH = 256 };

/* A YAML text being read. */
typedef struct reading {
    yaml_parser_t parser;
    const char *what;
    zr__settings *list;
} reading;

static zr_status next(reading *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event)) return ZR_OK;
    const yaml_parser_t *p = &r->parser;
    ZR_CHECK(p->error != YAML_MEMORY_ERROR, ZR_ERR_MEMORY, "no memory to read %s", r->what);
    return ZR_FAIL(ZR_ERR_CONFIG, "%s:%zu:%zu: not YAML: %s%s%s", r->what, p->problem_mark.line + 1,
                   p->problem_mark.column + 1, p->problem ? p->problem : "it cannot be read", p->context ? ", " : "",
                   p->context ? p->context : "");
}

static bool is_null(const yaml_event_t *event)
{
    static const char *const word[] = {"", "~", "null", "Null", "NULL"};
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++)
        if (strcmp((const char *)event->data.scalar.value, word[i]) == 0) return true;
    return false;
}

static zr_status read_node(reading *r, yaml_event_t *event, const char *path, int depth, zr__text *item);

/* Read the pairs of a mapping whose beginning was read. */
static zr_status read_pairs(reading *r, const char *path, int depth)
{
    for (;;) {
        yaml_event_t key;
        char name[PATH];
        ZR_TRY(next(r, &key));
        const bool end = key.type == YAML_MAPPING_END_EVENT, word = key.type == YAML_SCALAR_EVENT;
        const int line = (int)key.start_mark.line + 1;
        if (word) snprintf(name, sizeof(name), "%s%s%s", path, *path ? "." : "", (const char *)key.data.scalar.value);
        yaml_event_delete(&key);
        if (end) return ZR_OK;
        ZR_CHECK(word, ZR_ERR_CONFIG, "%s:%d: a key is not a plain word; write it as NAME: VALUE", r->what, line);
        yaml_event_t value;
        ZR_TRY(next(r, &value));
        const zr_status st = read_node(r, &value, name, depth, NULL);
        yaml_event_delete(&value);
        ZR_TRY(st);
    }
}

/* Read the elements of a list whose beginning was read, as one value. */
static zr_status read_list(reading *r, const char *path, int line, int depth)
{
    ZR_AUTO(zr__text_clear) zr__text value = {0};
    for (;;) {
        yaml_event_t event;
        ZR_TRY(next(r, &event));
        const bool end = event.type == YAML_SEQUENCE_END_EVENT;
        const zr_status st = end ? ZR_OK : read_node(r, &event, path, depth, &value);
        yaml_event_delete(&event);
        ZR_TRY(st);
        if (end) break;
    }
    ZR_CHECK(!value.failed, ZR_ERR_MEMORY, "no memory for the settings of %s", r->what);
    return value.data ? zr__settings_add(r->list, path, value.data, line) : ZR_OK;
}

/* Read the value that begins with `event`. A word of a list is added to `item`. */
static zr_status read_node(reading *r, yaml_event_t *event, const char *path, int depth, zr__text *item)
{
    const int line = (int)event->start_mark.line + 1;
    ZR_CHECK(depth < DEPTH, ZR_ERR_CONFIG, "%s:%d: %s is nested more than %d levels deep", r->what, line, path, DEPTH);
    if (event->type == YAML_SCALAR_EVENT) {
        const char *value = (const char *)event->data.scalar.value;
        if (item) zr__text_add(item, "%s%s", item->length ? "," : "", value);
        return item || is_null(event) ? ZR_OK : zr__settings_add(r->list, path, value, line);
    }
    ZR_CHECK(event->type != YAML_ALIAS_EVENT, ZR_ERR_CONFIG,
             "%s:%d: %s is an alias (*NAME), which zr does not read; write the value itself", r->what, line, path);
    ZR_CHECK(!item, ZR_ERR_CONFIG, "%s:%d: %s is a list of lists or of mappings; expected a list of words", r->what,
             line, path);
    if (event->type == YAML_SEQUENCE_START_EVENT) return read_list(r, path, line, depth + 1);
    return read_pairs(r, path, depth + 1);
}

static zr_status read_document(reading *r)
{
    for (;;) {
        yaml_event_t event;
        ZR_TRY(next(r, &event));
        const yaml_event_type_t type = event.type;
        const int line = (int)event.start_mark.line + 1;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT) continue;
        ZR_CHECK(type == YAML_MAPPING_START_EVENT, ZR_ERR_CONFIG,
                 "%s:%d: no configuration: expected JSON { ... }, YAML lines NAME: VALUE, TOML lines NAME = VALUE, or "
                 "a command line with --options",
                 r->what, line);
        return read_pairs(r, "", 0);
    }
}

zr_status zr__settings_read_yaml(const char *text, size_t bytes, const char *what, zr__settings *list)
{
    reading r = {.what = what, .list = list};
    ZR_CHECK(yaml_parser_initialize(&r.parser), ZR_ERR_MEMORY, "no memory to read %s", what);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    const zr_status st = read_document(&r);
    yaml_parser_delete(&r.parser);
    return st;
}
