/* Printing docs/config.md from the table of keys. */
#include "config/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 120 };

/* Add the words of `text` as a list item, with later lines indented. Characters that Markdown would read as markup
 * or HTML are escaped, except between backquotes. */
static void add_item(zr__text *out, const char *text)
{
    int column = 1;
    zr__text_add(out, "-");
    for (bool code = false; *text;) {
        int length = (int)strcspn(text, " "), marks = 0;
        for (int i = 0; i < length; i++) marks += text[i] == '*' || text[i] == '<';
        if (column + 1 + length + marks > MOST_COLUMNS) {
            zr__text_add(out, "\n ");
            column = 1;
        }
        column += 1 + length + marks;
        zr__text_add(out, " ");
        for (int i = 0; i < length; i++) {
            if (text[i] == '`') code = !code;
            zr__text_add(out, "%s%c", !code && (text[i] == '*' || text[i] == '<') ? "\\" : "", text[i]);
        }
        text += length;
        text += strspn(text, " ");
    }
    zr__text_add(out, "\n");
}

static void add_choices(zr__text *out, const char *choices)
{
    for (; *choices; choices++) zr__text_add(out, *choices == '|' ? ", " : "%c", *choices);
}

static void add_key(zr__text *out, const zr_key *key)
{
    char wanted[192];
    zr__text item = {0};
    zr__text_add(&item, "`%s`: ", key->path);
    add_choices(&item, zr__key_wanted(key, wanted, sizeof(wanted)));
    /* names of files, keys and values keep their lower case */
    int first = (int)strcspn(key->help, " "), name = (int)strcspn(key->help, ".:_/0123456789");
    bool word = name >= first && strncmp(key->help, "zr ", 3) != 0;
    zr__text_add(&item, " (`%s`). %c%s.", key->standard, word ? toupper((unsigned char)key->help[0]) : key->help[0],
                 key->help + 1);
    if (key->state == ZR_KEY_LIMITED) {
        zr__text_add(&item, " Available: only ");
        add_choices(&item, key->built);
        zr__text_add(&item, ".");
    }
    if (item.failed) out->failed = true;
    if (item.data) add_item(out, item.data);
    zr__text_clear(&item);
}

static size_t section_length(const zr_key *key)
{
    const char *dot = strchr(key->path, '.');
    return dot ? (size_t)(dot - key->path) : 0;
}

static void add_heading(zr__text *out, const zr_key *key)
{
    size_t length = section_length(key);
    if (length)
        zr__text_add(out, "\n## %.*s\n\n", (int)length, key->path);
    else
        zr__text_add(out, "\n## Top level\n\n");
}

static bool same_section(const zr_key *a, const zr_key *b)
{
    size_t length = section_length(a);
    return length == section_length(b) && strncmp(a->path, b->path, length) == 0;
}

/* Add the keys of the first key's section, either those with an effect here or those without. */
static void add_keys(zr__text *out, const zr_key *key, int n, bool without)
{
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (!same_section(key, &key[i]) || (key[i].state == ZR_KEY_NO_MEANING) != without) continue;
        if (first && without) zr__text_add(out, "\nWithout a meaning here:\n\n");
        first = false;
        add_key(out, &key[i]);
    }
}

/* Keys of one section stand together, in the order in which sections appear in the table. */
static void add_sections(zr__text *out, const zr_key *key, int n)
{
    for (int i = 0; i < n; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) seen = same_section(&key[i], &key[j]);
        if (seen) continue;
        add_heading(out, &key[i]);
        add_keys(out, &key[i], n - i, false);
        add_keys(out, &key[i], n - i, true);
    }
}

zr_status zr_config_reference(char **markdown)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    zr__text out = {0};
    zr__text_add(
        &out,
        "# CONFIG.json\n\n"
        "Written from the table of keys in `src/config/table.c`: a key, its values, its default in brackets.\n\n"
        "Keys that DeepSpeed has keep its name and meaning. On the command line any key is `--key.path=value`.\n"
        "`\"auto\"` stands for the default, which is printed, unless `\"auto\"` is one of the key's own values.\n"
        "An unknown key is an error. A value that is not available yet is refused with exit code 69.\n"
        "A key without a meaning here is accepted, and one line says why it has no effect. Integers go up to 2^53.\n"
        "In the file `//` begins a comment. `zr init` writes one to begin with.\n");
    add_sections(&out, key, n);
    ZR_TRY(zr__text_take(&out, markdown));
    return ZR_OK;
}
