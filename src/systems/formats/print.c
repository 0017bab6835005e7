/* Prints settings in the syntax of a format, with comments. */
#include "systems/formats/formats.h"
#include "base/json/json.h"

#include <math.h>
#include <stdlib.h>

/* A file being printed. */
typedef struct printing {
    const zr__format *format;
    const zr__settings *theirs, *comments;
    zr__text *out;
} printing;

static bool is_number(const char *value)
{
    char *end;
    (void)strtod(value, &end);
    return *value && !*end;
}

static bool is_bool(const char *value)
{
    return zr__same_value(value, "true") || zr__same_value(value, "false");
}

/* Print the lines of a text as comments. */
static void print_lines(zr__text *out, const char *begin, const char *lines)
{
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        zr__text_add(out, "%s%.*s\n", begin, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

/* Return the comment of the setting of ours that a setting comes from, or NULL. Of several settings that come from the
 * same one, the first has the comment. */
static const char *comment_of(const printing *p, const zr__setting *s)
{
    if (!s->from) return NULL;
    for (const zr__setting *before = p->theirs->one; before < s; before++)
        if (before->from && strcmp(before->from, s->from) == 0) return NULL;
    return zr__settings_value(p->comments, s->from);
}

static void print_comment(const printing *p, const zr__setting *s, const char *begin)
{
    const char *comment = comment_of(p, s);
    if (comment) print_lines(p->out, begin, comment);
}

/* Return whether a setting of ours is only a step on the way to theirs, or has a file of its own kind to be in. */
static bool is_carried(const zr__setting *s, const zr__settings *theirs)
{
    static const char *const never[] = {"system", "hosts", "per_host", "global", "local", "layers_per_chunk"};
    if (s->used || s->plain || strncmp(s->name, "optimizer.", strlen("optimizer.")) == 0) return false;
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        if (strcmp(s->name, never[i]) == 0) return false;
    return strcmp(s->name, "ranks") != 0 || !zr__settings_find(theirs, "nnodes");
}

static void print_own(const printing *p, const zr__settings *ours)
{
    int n = 0;
    for (int64_t i = 0; i < ours->n; i++) {
        if (!is_carried(&ours->one[i], p->theirs)) continue;
        if (n++ == 0)
            zr__text_add(p->out, "# What this file has no settings for, in lines that `zr plan --from` reads:\n");
        zr__text_add(p->out, "#zr %s %s\n", ours->one[i].name, ours->one[i].value);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *value_json(const char *value)
{
    json_t *json = zr__json_loads(value, JSON_DECODE_ANY);
    if (!json) return json_string(value);
    const double number = json_number_value(json);
    if (!json_is_real(json) || number != floor(number) || fabs(number) > 0x1p53) return json;
    json_decref(json);
    return json_integer((json_int_t)number); /* 5e7 is a number of elements */
}

/* Set the member at a path of an object. Return nonzero on failure. */
static int set_member(json_t *object, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    if (!dot) return json_object_set_new(object, path, value);
    char part[128];
    snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
    if (!json_object_get(object, part)) json_object_set_new(object, part, json_object());
    return set_member(json_object_get(object, part), dot + 1, value);
}

/* Return the object "zr": what the file says of itself, and what DeepSpeed has no place for. */
static json_t *own_json(const printing *p, const char *head, const zr__settings *ours)
{
    json_t *own = json_object(), *about = json_array();
    int failed = !own || !about;
    for (const char *line = head; *line;) {
        const size_t n = strcspn(line, "\n");
        failed |= json_array_append_new(about, json_stringn(line, n));
        line += n + (line[n] == '\n');
    }
    for (int64_t i = 0; i < p->theirs->n; i++) {
        const zr__setting *s = &p->theirs->one[i];
        const char *comment = comment_of(p, s);
        if (comment) failed |= json_array_append_new(about, json_sprintf("%s: %s", s->name, comment));
    }
    failed |= json_object_set_new(own, "about", about);
    for (int64_t i = 0; i < ours->n; i++)
        if (is_carried(&ours->one[i], p->theirs))
            failed |= set_member(own, ours->one[i].name, value_json(ours->one[i].value));
    if (!failed) return own;
    json_decref(own);
    return NULL;
}

static zr_status print_json(const printing *p, const char *head, const zr__settings *ours)
{
    json_auto_t *root = json_object();
    ZR_AUTO_FREE char *text = NULL;
    int failed = json_object_set_new(root, "zr", own_json(p, head, ours));
    for (int64_t i = 0; i < p->theirs->n; i++)
        failed |= set_member(root, p->theirs->one[i].name, value_json(p->theirs->one[i].value));
    ZR_CHECK(!failed, ZR_ERR_MEMORY, "no memory for %s", p->format->title);
    ZR_TRY(zr__json_print(root, &text));
    zr__text_add(p->out, "%s\n", text);
    return ZR_OK;
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static void print_yaml_line(const printing *p, const zr__setting *s, const char *indent, const char *name)
{
    const bool word = zr__same_value(s->value, "no") || zr__same_value(s->value, "yes");
    print_comment(p, s, *indent ? "  # " : "# ");
    zr__text_add(p->out, "%s%s: %s%s%s\n", indent, name, word ? "'" : "", s->value, word ? "'" : "");
}

static void print_yaml(const printing *p)
{
    for (int64_t i = 0; i < p->theirs->n; i++)
        if (!strchr(p->theirs->one[i].name, '.')) print_yaml_line(p, &p->theirs->one[i], "", p->theirs->one[i].name);
    for (int64_t i = 0; i < p->theirs->n; i++) {
        const char *name = p->theirs->one[i].name;
        const size_t n = strcspn(name, ".") + 1;
        bool first = strlen(name) >= n;
        for (int64_t j = 0; j < i && first; j++) first = strncmp(p->theirs->one[j].name, name, n) != 0;
        if (!first) continue;
        zr__text_add(p->out, "%.*s:\n", (int)n - 1, name);
        for (int64_t j = i; j < p->theirs->n; j++)
            if (strncmp(p->theirs->one[j].name, name, n) == 0)
                print_yaml_line(p, &p->theirs->one[j], "  ", p->theirs->one[j].name + n);
    }
}

/* ---- shell ----------------------------------------------------------------------------------- */

static bool is_launch(const zr__format *format, const char *name)
{
    const char *found = format->launch ? strstr(format->launch, name) : NULL;
    return found && (found == format->launch || found[-1] == ' ') && strchr(" ", found[strlen(name)]);
}

static void print_option(const printing *p, const zr__setting *s)
{
    if (zr__same_value(s->value, "false")) return;
    print_comment(p, s, "    # ");
    zr__text_add(p->out, "    --%s", s->name);
    if (!zr__same_value(s->value, "true")) zr__text_add(p->out, " ");
    for (const char *at = s->value; *at && !zr__same_value(s->value, "true"); at++)
        zr__text_append(p->out, *at == ',' && !p->format->commas ? " " : at, 1);
    zr__text_add(p->out, "\n");
}

static void print_shell(const printing *p)
{
    const zr__setting *last = NULL;
    zr__text_add(p->out, "launch=(\n");
    for (int64_t i = 0; i < p->theirs->n; i++)
        if (is_launch(p->format, p->theirs->one[i].name)) print_option(p, &p->theirs->one[i]);
    zr__text_add(p->out, ")\nargs=(\n");
    for (int64_t i = 0; i < p->theirs->n; i++) {
        const zr__setting *s = &p->theirs->one[i];
        if (strcmp(s->name, "activation-checkpoint") == 0)
            last = s; /* a subcommand, which follows all options */
        else if (!is_launch(p->format, s->name))
            print_option(p, s);
    }
    if (last) {
        print_comment(p, last, "    # ");
        zr__text_add(p->out, "    %s:%s\n", last->name, last->value);
    }
    zr__text_add(p->out, ")\n");
}

/* ---- Python ---------------------------------------------------------------------------------- */

static void print_python(const printing *p)
{
    for (int64_t i = 0; i < p->theirs->n; i++) {
        const zr__setting *s = &p->theirs->one[i];
        print_comment(p, s, "# ");
        if (is_bool(s->value))
            zr__text_add(p->out, "%s = %s\n", s->name, zr__same_value(s->value, "true") ? "True" : "False");
        else
            zr__text_add(p->out, is_number(s->value) ? "%s = %s\n" : "%s = \"%s\"\n", s->name, s->value);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

zr_status zr__format_print(const zr__format *format, const zr__settings *theirs, const char *head,
                           const zr__settings *comments, const zr__settings *ours, zr__text *out)
{
    const printing p = {format, theirs, comments, out};
    if (format->syntax == ZR__SYNTAX_JSON) return print_json(&p, head, ours);
    print_lines(out, "# ", head);
    if (format->syntax == ZR__SYNTAX_YAML) print_yaml(&p);
    if (format->syntax == ZR__SYNTAX_SHELL) print_shell(&p);
    if (format->syntax == ZR__SYNTAX_PYTHON) print_python(&p);
    print_own(&p, ours);
    if (format->command) zr__text_add(out, "\n%s%s", format->command, format->syntax == ZR__SYNTAX_SHELL ? "\n" : "");
    return ZR_OK;
}
