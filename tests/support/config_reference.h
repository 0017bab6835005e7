/* Prints docs/config.md from the table of keys. */
#ifndef ZR_TESTS_CONFIG_REFERENCE_H
#define ZR_TESTS_CONFIG_REFERENCE_H

#include "config/config.h"
#include "config/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 120 };

/* Add text. Outside backquotes, escape the characters that Markdown would read as markup or HTML. */
static void add_escaped(zr__text *out, const char *text)
{
    for (bool code = false; *text; text++) {
        if (*text == '`') code = !code;
        zr__text_add(out, "%s%c", !code && (*text == '*' || *text == '<') ? "\\" : "", *text);
    }
}

/* Lists of keys on the page, in the order in which a section has them. */
typedef enum key_list { HAS_EFFECT, ONE_VALUE, NO_EFFECT } key_list;

static key_list list_of(const zr_key *key)
{
    if (key->state == ZR_KEY_NO_MEANING) return NO_EFFECT;
    return key->state == ZR_KEY_LIMITED && !strchr(key->built, '|') ? ONE_VALUE : HAS_EFFECT;
}

/* Add an item of a list, broken into lines. The item begins with the names of keys, which `help` explains. */
static void add_item(zr__text *out, zr__text *names, const char *help)
{
    /* Capitalise the help text, unless its first word is a file name, a key, a value or "zr". */
    const size_t first = strcspn(help, " "), name = strcspn(help, ".:_/0123456789");
    const bool word = name >= first && strncmp(help, "zr ", 3) != 0;
    ZR_AUTO(zr__text_clear) zr__text item = {0};
    zr__text_add(names, "%c%s.", word ? toupper((unsigned char)help[0]) : help[0], help + 1);
    if (!names->failed) add_escaped(&item, names->data);
    if (!item.failed && item.data) zr__add_words(out, "-", " ", MOST_COLUMNS, item.data);
    if (names->failed || item.failed) out->failed = true;
    zr__text_clear(names);
}

/* Return whether a help text explains each choice, as in "cpu: the processor". */
static bool explains(const char *help, const char *choices)
{
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|') {
        char word[64];
        snprintf(word, sizeof(word), " %.*s: ", (int)strcspn(at, "|"), at);
        if (!strstr(help, word)) return false;
    }
    return true;
}

/* Add the values that a key takes. Leave out an upper limit that only means "the largest number" (2^53, 3.4e+38). Add
 * nothing for true and false, for a string, and for choices that the help text explains. */
static void add_values(zr__text *out, const zr_key *key)
{
    const char *choices = key->state == ZR_KEY_LIMITED ? key->built : key->choices;
    if (key->type == ZR_KEY_BOOL || key->type == ZR_KEY_STRING || (choices && explains(key->help, choices))) return;
    if (choices) {
        zr__text_add(out, "one of %s%s. ", ZR_CHOICES(choices), key->chosen ? ", auto" : "");
        return;
    }
    const char *wanted = ZR_WANTED(key), *end = strstr(wanted, " to 2^53");
    if (!end) end = strstr(wanted, " to 3.4e+38");
    wanted += strncmp(wanted, "an ", 3) == 0 ? 3 : strncmp(wanted, "a ", 2) == 0 ? 2 : 0;
    zr__text_add(out, "%.*s. ", end ? (int)(end - wanted) : (int)strlen(wanted), wanted);
}

static void add_key_with_effect(zr__text *out, const zr_key *key)
{
    zr__text item = {0};
    zr__text_add(&item, "`%s` (`%s`): ", key->path, key->standard);
    add_values(&item, key);
    add_item(out, &item, key->help);
}

static size_t section_length(const zr_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot ? (size_t)(dot - key->path) : 0;
}

/* Return the first key of the section of a key. */
static const zr_key *section_of(const zr_key *keys, const zr_key *key)
{
    const size_t length = section_length(key);
    const zr_key *first = keys;
    while (section_length(first) != length || strncmp(first->path, key->path, length) != 0) first++;
    return first;
}

/* Return whether a key of the section has an effect. */
static bool has_effect(const zr_key *keys, const zr_key *section)
{
    for (const zr_key *key = section; key->path; key++)
        if (section_of(keys, key) == section && list_of(key) == HAS_EFFECT) return true;
    return false;
}

/* Return whether a key belongs to a list of a section. `section` is NULL for all sections in which no key has an
 * effect. */
static bool is_listed(const zr_key *keys, const zr_key *section, key_list list, const zr_key *key)
{
    const zr_key *own = section_of(keys, key);
    return list_of(key) == list && (section ? own == section : !has_effect(keys, own));
}

/* Add the keys of a list, one item for all keys with the same help text. If a key has only one available value, add the
 * value in brackets. */
static void add_list(zr__text *out, const zr_key *keys, const zr_key *section, key_list list)
{
    const char *title = list == ONE_VALUE ? "\nOnly the default is available:\n\n" : "\nWithout effect:\n\n";
    for (const zr_key *key = keys; key->path; key++) {
        zr__text item = {0};
        bool told = false;
        if (!is_listed(keys, section, list, key)) continue;
        for (const zr_key *other = keys; other->path; other++) {
            if (!is_listed(keys, section, list, other) || strcmp(key->help, other->help) != 0) continue;
            told |= other < key;
            zr__text_add(&item, "%s`%s`", item.data ? ", " : "", other->path);
            if (list == ONE_VALUE) zr__text_add(&item, " (`%s`)", other->standard);
        }
        zr__text_add(&item, ": ");
        zr__text_add(out, "%s", title);
        title = "";
        if (told)
            zr__text_clear(&item);
        else
            add_item(out, &item, key->help);
    }
}

/* Add the keys of a section that have an effect. Before keys that only some families have, add a line with the names of
 * these families. */
static void add_section(zr__text *out, const zr_key *keys, const zr_key *section)
{
    const char *families = NULL;
    for (const zr_key *key = section; key->path; key++) {
        if (!is_listed(keys, section, HAS_EFFECT, key)) continue;
        if (key->families && (!families || strcmp(families, key->families) != 0))
            zr__text_add(out, "\nOnly of model.type %s:\n\n", key->families);
        if (!key->families && families) zr__text_add(out, "\nOf every model.type:\n\n");
        families = key->families;
        add_key_with_effect(out, key);
    }
}

/* Write the reference of all keys as Markdown text (docs/config.md). Free *markdown with zr_free. */
static zr_status config_reference(char **markdown)
{
    zr__text out = {0};
    ZR_AUTO_FREE zr_key *keys = NULL;
    *markdown = NULL;
    ZR_TRY(zr__keys_make(NULL, &keys));
    zr__text_add(
        &out,
        "# CONFIG.json\n\n"
        "All keys, with defaults in brackets. Values follow where they are not true and false, a string, or "
        "explained.\n"
        "`zr help keys WORD` prints the keys about a word.\n\n"
        "Keys that DeepSpeed has keep its name and meaning. On the command line a key is `--key.path=value`.\n"
        "`\"auto\"` means the default, unless it is one of the key's own values; zr prints what it takes for it.\n"
        "An unknown key is an error. A value that is not available is refused with exit code 69.\n"
        "Keys without effect are accepted with a note. Integers go up to 2^53, numbers up to 3.4e38.\n"
        "In the file `//` begins a comment. `zr init` writes a first configuration, and `make docs` this page.\n\n");
    ZR_AUTO(zr__text_clear) zr__text names = {0};
    zr__key_list_names(&names);
    out.failed |= names.failed;
    if (names.data) zr__add_words(&out, "Older names of DeepSpeed are read, too:", "", MOST_COLUMNS, names.data);
    /* List the keys of a section together. Sections are in the order of their first keys in the table. */
    for (const zr_key *key = keys; key->path; key++) {
        if (section_of(keys, key) != key || !has_effect(keys, key)) continue;
        const char *title = section_length(key) ? key->path : "Top level";
        zr__text_add(&out, "\n## %.*s\n\n", (int)strcspn(title, "."), title);
        add_section(&out, keys, key);
        add_list(&out, keys, key, ONE_VALUE);
        add_list(&out, keys, key, NO_EFFECT);
    }
    zr__text_add(&out, "\n## Other sections\n");
    add_list(&out, keys, NULL, ONE_VALUE);
    add_list(&out, keys, NULL, NO_EFFECT);
    return zr__text_take(&out, markdown);
}

#endif
