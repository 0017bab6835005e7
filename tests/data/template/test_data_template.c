//TEST timeout=60
/* Chat templates: results of Jinja2 for small templates (cases.json), marks, messages, limits.
 *
 * With an argument, the program is not a test but renders conversations for tests/peers/chat.py: the argument names a
 * template, and each line of stdin has variables of it; each line of stdout has "text" and "marks", or "error". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "data/template/template.h"

static const char messages_json[] =
    "[{\"role\": \"system\", \"content\": \" sys \xc3\xa4'\\\" \"}, {\"role\": \"user\", \"content\": \"hi\\n\"}, "
    "{\"role\": \"assistant\", \"content\": \"yo\", \"n\": [1, 1.5, null]}]";

static json_t *messages, *variables;

static int make_variables(void **state)
{
    (void)state;
    messages = json_loads(messages_json, 0, NULL);
    variables = json_pack("{s:s}", "bos_token", "<s>");
    return messages && variables ? 0 : -1;
}

static int drop_variables(void **state)
{
    (void)state;
    json_decref(messages);
    json_decref(variables);
    return 0;
}

/* Execute a template on the messages. */
static zr_status run(const char *text, size_t bytes, zr__template_text *out)
{
    zr__template *template = NULL;
    const zr__template_args args = {
        .messages = messages, .more = variables, .add_generation_prompt = true, .date = "2024-07-26"};
    zr_status st = zr__template_read(text, (int64_t)bytes, "t", &template);
    *out = (zr__template_text){0};
    if (st == ZR_OK) st = zr__template_run(template, &args, out);
    zr__template_close(&template);
    return st;
}

static void fails(const char *text, zr_status wanted, const char *says)
{
    zr__template_text out;
    assert_int_equal(run(text, strlen(text), &out), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
    zr__template_release(&out);
}

/* Check each case of the file: a template, and the text that Jinja2 makes of it, or null if Jinja2 fails. */
static void cases_of_jinja(void **state)
{
    (void)state;
    const char *source = getenv("ZR_SOURCE");
    char path[PATH_MAX];
    json_t *cases = NULL, *one;
    size_t i;
    snprintf(path, sizeof(path), "%s/tests/data/template/cases.json", source ? source : ".");
    if (zr__json_load_data(path, &cases) != ZR_OK) fail_msg("%s; set ZR_SOURCE to the source tree", zr_error_message());
    assert_true(json_array_size(cases) > 100);
    json_array_foreach(cases, i, one)
    {
        const json_t *template = json_array_get(one, 0), *wanted = json_array_get(one, 1);
        zr__template_text out;
        const zr_status st = run(json_string_value(template), json_string_length(template), &out);
        if (json_is_null(wanted) && st != ZR_ERR_DATA && st != ZR_ERR_UNSUPPORTED)
            fail_msg("not refused: %s", json_string_value(template));
        if (json_is_string(wanted) && st != ZR_OK) fail_msg("%s: %s", json_string_value(template), zr_error_message());
        if (json_is_string(wanted) && (out.bytes != (int64_t)json_string_length(wanted) ||
                                       memcmp(out.text, json_string_value(wanted), (size_t)out.bytes) != 0))
            fail_msg("%s\nis %.*s\nfor %s", json_string_value(template), (int)out.bytes, out.text,
                     json_string_value(wanted));
        zr__template_release(&out);
    }
    json_decref(cases);
}

/* Check the marks of a text. `wanted` has a letter for each byte: "." for the template, a digit for the index of a
 * message, in capital letters from A on if it is generated; "(1)" is an empty part. */
static void marks_are(const char *template, const char *wanted)
{
    zr__template_text out;
    char shown[512] = "";
    size_t n = 0;
    int64_t at = 0;
    if (run(template, strlen(template), &out) != ZR_OK) fail_msg("%s", zr_error_message());
    for (int64_t i = 0; i < out.n; i++) {
        const zr__mark *mark = &out.mark[i];
        const char letter = (char)(mark->generated      ? 'B' + mark->source
                                   : mark->source == -1 ? '.'
                                                        : '0' + mark->source);
        assert_true(mark->end >= at && n + 4 < sizeof(shown));
        if (mark->end == at) n += (size_t)snprintf(shown + n, 5, "(%c)", letter);
        for (; at < mark->end && n + 4 < sizeof(shown); at++) shown[n++] = letter;
    }
    assert_int_equal(at, out.bytes);
    assert_string_equal(shown, wanted);
    zr__template_release(&out);
}

static void marks_follow_texts(void **state)
{
    (void)state;
    marks_are("a{{ messages[1].content }}b", ".111.");
    marks_are("{{ messages[1].role }}{{ messages[1].content | trim }}", "....11");
    marks_are("{{ messages[1].content + messages[2].content * 2 }}", "1112222");
    marks_are("{{ (messages[0].content.strip() + 'x')[::-1] }}", ".00000000");
    marks_are("{{ messages[2].content.upper() ~ (messages[2].content | tojson) }}", "22.22.");
    marks_are("{{ messages[1].content.split('i') | join('--') }}", "1..1");
    marks_are("{{ messages[1].content.replace('h', 'xyz') }}", "...11");
    marks_are("{{ messages[1].content | replace('\\n', messages[2].content) }}", "1122");
    marks_are("{% set x %}<{{ messages[2].content }}>{% endset %}{{ x }}{{ x[1:3] }}", ".22.22");
    marks_are("{% macro f(m) %}[{{ m.content }}]{% endmacro %}{{ f(messages[2]) | upper }}", ".22.");
    marks_are("{% generation %}a{{ messages[2].content }}{% endgeneration %}{{ messages[2].content }}", "ADD22");
    marks_are("{{ messages[2].content[2:] }}-{{ messages[1].content[5:] }}", "(2).(1)");
    marks_are("{{ [messages[2].content, 1] }}", "..22.....");
}

static void messages_name_the_line(void **state)
{
    (void)state;
    fails("a\n{% if x %}\n{% elif", ZR_ERR_DATA, "t:3: the tag has no end (%})");
    fails("a\n\n{{ 'x' | urlize }}", ZR_ERR_UNSUPPORTED, "t:3: the filter urlize is not supported by zr");
    fails("{{ 'x' is escaped }}", ZR_ERR_UNSUPPORTED, "t:1: the test escaped is not supported by zr");
    fails("\n{% include 'x' %}", ZR_ERR_UNSUPPORTED, "t:2: the statement include is not supported by zr");
    fails("\n{{ x.format(1) }}", ZR_ERR_UNSUPPORTED, "t:2: the method format is not supported by zr");
    fails("{% for x in y recursive %}{% endfor %}", ZR_ERR_UNSUPPORTED, "recursive");
    fails("{{ f(*x) }}", ZR_ERR_UNSUPPORTED, "t:1: an argument with * is not supported by zr");
    fails("{% macro f() %}{{ varargs }}{% endmacro %}", ZR_ERR_UNSUPPORTED, "varargs");
    fails("x{% if a %}\n\ny", ZR_ERR_DATA, "t:1: the tag has no \"endif\"");
    fails("x{% for a in b %}\n\ny", ZR_ERR_DATA, "t:1: the tag has no \"endfor\"");
    fails("x\n{% endif %}", ZR_ERR_DATA, "t:2: \"endif\" belongs to no tag before it");
    fails("{% if a %}\n{% endfor %}", ZR_ERR_DATA, "t:2: \"endfor\" belongs to no tag before it");
    fails("{{ 0x1F }}", ZR_ERR_UNSUPPORTED, "t:1: the number 0x1F is not supported");
    fails("{# a\n", ZR_ERR_DATA, "t:1: the comment has no end (#})");
    fails("{{ (1 }}", ZR_ERR_DATA, "t:1:");
    fails("a\xff", ZR_ERR_DATA, "t:1: a byte is not UTF-8");
    fails("\n\n{{ missing.x }}", ZR_ERR_DATA, "t:3: missing is undefined");
    fails("{{ missing['xyz'[1:2]] }}", ZR_ERR_DATA, "missing is undefined, so it has no y");
    assert_null(strstr(zr_error_message(), "yz"));
    fails("\n{{ raise_exception('no ' ~ 7) }}", ZR_ERR_DATA, "t:2: the template refuses the messages: no 7");
    fails("{% set x = [1] %}\n{{ x.append(2) }}", ZR_ERR_UNSUPPORTED, "t:2: the method append is not supported");
}

/* Check that operations on long texts and many values count as work. */
static void work_is_bounded(void **state)
{
    (void)state;
    static const char *const operations[] = {"s | length",
                                             "s[-1:]",
                                             "s.strip('bcdefghijklmnopqrstuvwxyz' * 9 ~ 'a')",
                                             "s.split('b')",
                                             "s.rsplit('ab', 1)",
                                             "s.replace('b', '')",
                                             "s.startswith(s)",
                                             "s == s ~ ''",
                                             "s < s",
                                             "'b' in s",
                                             "s.rsplit('a' * 1000 ~ 'b', 1)",
                                             "s | tojson",
                                             "s | upper",
                                             "[s] | string",
                                             "b | int",
                                             "l | join",
                                             "l | select | first",
                                             "u | join"};
    char text[512];
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        snprintf(text, sizeof(text),
                 "{%% set s = 'a' * 1000000 %%}{%% set b = ' ' * 1000000 %%}{%% set l = [''] * 9999 %%}{%% set u = "
                 "[missing] * 9999 %%}{%% for i in range(5000) %%}{%% set x = %s %%}"
                 "{%% endfor %%}",
                 operations[i]);
        fails(text, ZR_ERR_DATA, "");
        if (!strstr(zr_error_message(), "has not ended after") && !strstr(zr_error_message(), "needs more than"))
            fail_msg("%s: %s", operations[i], zr_error_message());
    }
    fails("{% set ns = namespace(a=[0], b=[0]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}"
          "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
          ZR_ERR_DATA, "the template has not ended after");
    fails("{% set ns = namespace(a={'x': 0}, b={'x': 0}) %}{% for i in range(40) %}"
          "{% set ns.a = {'x': ns.a, 'y': ns.a} %}{% set ns.b = {'x': ns.b, 'y': ns.b} %}{% endfor %}"
          "{{ ns.a is eq(ns.b) }}",
          ZR_ERR_DATA, "the template has not ended after");
}

/* Return a template that uses 2000 variables, or attributes of a namespace, in a loop. */
static char *many_names(const char *prefix)
{
    const size_t room = 200000;
    char *text = malloc(room);
    size_t n = (size_t)snprintf(text, room, "{%% set ns = namespace() %%}");
    for (int i = 0; i < 2000; i++) n += (size_t)snprintf(text + n, room - n, "{%% set %sv%d = 1 %%}", prefix, i);
    n += (size_t)snprintf(text + n, room - n,
                          "{%% for i in range(99999) %%}{%% set x = %sv0 + %sv1999 %%}{%% endfor %%}", prefix, prefix);
    assert_true(n < room);
    return text;
}

static void names_are_bounded(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"", "ns."};
    for (int i = 0; i < 2; i++) {
        char *text = many_names(prefixes[i]);
        fails(text, ZR_ERR_DATA, "the template has not ended after");
        free(text);
    }
}

/* Check that no template runs for ever, or takes all memory or stack. */
static void templates_are_bounded(void **state)
{
    (void)state;
    char deep[4096];
    fails("{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% "
          "endfor %}",
          ZR_ERR_DATA, "the chat template needs more than");
    fails("{% set l = range(99999) | list %}{% for i in range(999) %}{{ 1 if -1 in l }}{% endfor %}", ZR_ERR_DATA,
          "the template has not ended after");
    fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ZR_ERR_DATA, "levels of nested parts or calls");
    fails("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          ZR_ERR_DATA, "the chat template needs more than");
    fails("{{ 'a' * 99999999999 }}", ZR_ERR_DATA, "the template has not ended after");
    fails("{{ [1] | tojson(indent=99999999999) }}", ZR_ERR_DATA, "an indent of more than 1000 is not supported");
    fails("{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}", ZR_ERR_DATA,
          "nested more than 200 levels deep");
    fails("{{ range(1000000) | length }}", ZR_ERR_DATA, "range() of more than");
    fails("{{ 9223372036854775 * 99999 }}", ZR_ERR_DATA, "more than 64 bits");
    memset(deep, '(', 3000);
    memcpy(deep, "{{ ", 3);
    deep[3000] = '\0';
    fails(deep, ZR_ERR_UNSUPPORTED, "more than 256 brackets");
    for (int i = 0; i < 2000; i += 2) memcpy(deep + 3 + i, "-+", 2);
    memcpy(deep + 2003, "1 }}", 5);
    fails(deep, ZR_ERR_UNSUPPORTED, "more than 200 levels");
    for (int i = 0; i < 2000; i += 4) memcpy(deep + 3 + i, "not ", 4);
    fails(deep, ZR_ERR_UNSUPPORTED, "more than 200 levels");
    for (int i = 0; i < 2000; i += 2) memcpy(deep + 3 + i, "1+", 2);
    fails(deep, ZR_ERR_DATA, "more than 300 levels");
}

/* ---- rendering for other programs ------------------------------------------------------------ */

static json_t *render(const zr__template *template, const json_t *given)
{
    const zr__template_args args = {.messages = json_object_get(given, "messages"),
                                    .tools = json_object_get(given, "tools"),
                                    .more = json_object_get(given, "more"),
                                    .add_generation_prompt = json_is_true(json_object_get(given, "asks")),
                                    .date = "2024-07-26"};
    zr__template_text out;
    json_t *all = json_object(), *marks = json_array();
    if (zr__template_run(template, &args, &out) != ZR_OK)
        json_object_set_new(all, "error", json_string(zr_error_message()));
    else
        json_object_set_new(all, "text", json_stringn(out.text, (size_t)out.bytes));
    for (int64_t i = 0; i < out.n; i++)
        json_array_append_new(marks, json_pack("[I,i,b]", (json_int_t)out.mark[i].end, (int)out.mark[i].source,
                                               (int)out.mark[i].generated));
    json_object_set_new(all, "marks", marks);
    zr__template_release(&out);
    return all;
}

static int render_lines(const char *path)
{
    zr__template *template = NULL;
    char *text = NULL, *line = NULL;
    size_t bytes = 0, room = 0;
    zr_status st = zr__json_read_file(path, &text, &bytes);
    if (st == ZR_OK) st = zr__template_read(text, (int64_t)bytes, path, &template);
    if (st != ZR_OK) fprintf(stderr, "%s\n", zr_error_message());
    while (st == ZR_OK && getline(&line, &room, stdin) > 0) {
        json_t *given = json_loads(line, JSON_ALLOW_NUL, NULL), *all = render(template, given);
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(all);
        json_decref(given);
    }
    zr__template_close(&template);
    zr_free(text);
    free(line);
    return st != ZR_OK;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_of_jinja),         cmocka_unit_test(marks_follow_texts),
        cmocka_unit_test(messages_name_the_line), cmocka_unit_test(templates_are_bounded),
        cmocka_unit_test(work_is_bounded),        cmocka_unit_test(names_are_bounded)};
    return argc == 2 ? render_lines(argv[1]) : cmocka_run_group_tests(tests, make_variables, drop_variables);
}
