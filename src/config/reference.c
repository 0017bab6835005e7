/* Prints docs/config.md from the table of keys. */
#include "config/config.h"
#include "config/internal.h"

#include <ctype.h>
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

static void add_reference_key(zr__text *out, const zr_key *key)
{
    zr__text plain = {0}, item = {0};
    /* Capitalise the help text, unless its first word is a file name, a key, a value or "zr". */
    int first = (int)strcspn(key->help, " "), name = (int)strcspn(key->help, ".:_/0123456789");
    bool word = name >= first && strncmp(key->help, "zr ", 3) != 0;
    zr__text_add(&plain, "`%s`: %s (`%s`). %c%s.", key->path, ZR_WANTED(key), key->standard,
                 word ? toupper((unsigned char)key->help[0]) : key->help[0], key->help + 1);
    if (key->families) zr__text_add(&plain, " Only of model.type %s.", key->families);
    if (key->state == ZR_KEY_LIMITED) zr__text_add(&plain, " Available: only %s.", ZR_CHOICES(key->built));
    if (!plain.failed) add_escaped(&item, plain.data);
    if (!item.failed && item.data) zr__add_words(out, "-", " ", MOST_COLUMNS, item.data);
    if (plain.failed || item.failed) out->failed = true;
    zr__text_clear(&plain);
    zr__text_clear(&item);
}

static size_t section_length(const zr_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot ? (size_t)(dot - key->path) : 0;
}

static bool have_one_heading(const zr_key *a, const zr_key *b)
{
    size_t length = section_length(a);
    return length == section_length(b) && strncmp(a->path, b->path, length) == 0;
}

/* Add the keys in the section of `first`. If `without` is true, add only keys without an effect; otherwise only keys
 * with an effect. */
static void add_section_keys(zr__text *out, const zr__keys *keys, const zr_key *first, bool without)
{
    const char *title = without ? "\nAccepted, but without effect in zr:\n\n" : "";
    for (const zr_key *key = first; key < zr__keys_end(keys); key++) {
        if (!have_one_heading(first, key) || (key->state == ZR_KEY_NO_MEANING) != without) continue;
        zr__text_add(out, "%s", title);
        title = "";
        add_reference_key(out, key);
    }
}

zr_status zr__config_reference(char **markdown)
{
    zr__text out = {0};
    zr__keys all = {0};
    const zr__keys *keys = &all;
    *markdown = NULL;
    ZR_TRY(zr__keys_make(NULL, &all));
    zr__text_add(
        &out, "# CONFIG.json\n\n"
              "All keys, with their values and, in brackets, their defaults. Written from the table in "
              "`src/config/table.c`.\n\n"
              "Keys that DeepSpeed has keep its name and meaning. On the command line any key is `--key.path=value`.\n"
              "`\"auto\"` means the default, unless `\"auto\"` is one of the key's own values; zr prints what it takes "
              "for it.\n"
              "An unknown key is an error. A value that is not available yet is refused with exit code 69.\n"
              "Some keys of DeepSpeed are accepted but have no effect; zr then prints why. Integers go up to 2^53.\n"
              "In the file `//` begins a comment. `zr init` writes a first configuration.\n\n");
    zr__text names = {0};
    zr__key_list_names(&names);
    out.failed |= names.failed;
    if (names.data) zr__add_words(&out, "Other names that files of DeepSpeed have:", "", MOST_COLUMNS, names.data);
    zr__text_clear(&names);
    /* List the keys of a section together. Sections are in the order of their first keys in the table. */
    for (const zr_key *key = keys->key; key < zr__keys_end(keys); key++) {
        const zr_key *first = keys->key;
        while (!have_one_heading(key, first)) first++;
        if (first != key) continue;
        const char *title = section_length(key) ? key->path : "Top level";
        zr__text_add(&out, "\n## %.*s\n\n", (int)strcspn(title, "."), title);
        add_section_keys(&out, keys, key, false);
        add_section_keys(&out, keys, key, true);
    }
    zr_free(all.key);
    return zr__text_take(&out, markdown);
}
