/* docs/config.md, written from the table. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

/* A cell must not hold the column's own mark. */
static void add_cell(zr__text *out, const char *text)
{
    zr__text_add(out, " ");
    for (const char *at = text; *at; at++)
        if (*at == '|')
            zr__text_add(out, ", ");
        else
            zr__text_add(out, "%s%c", *at == '*' || *at == '<' ? "\\" : "", *at);
    zr__text_add(out, " |");
}

static void add_row(zr__text *out, const zr_key *key)
{
    char wanted[192];
    zr__text_add(out, "| `%s` |", key->path);
    add_cell(out, zr__key_wanted(key, wanted, sizeof(wanted)));
    zr__text_add(out, " `%s` |", key->standard);
    add_cell(out, key->help);
    if (key->state == ZR_KEY_LIMITED) {
        zr__text_add(out, " only");
        add_cell(out, key->built);
    } else {
        zr__text_add(out, " %s |", key->state == ZR_KEY_BUILT ? "yes" : "no meaning here");
    }
    zr__text_add(out, "\n");
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
    zr__text_add(out, "| key | value | default | what it is | available |\n|---|---|---|---|---|\n");
}

static bool same_section(const zr_key *a, const zr_key *b)
{
    size_t length = section_length(a);
    return length == section_length(b) && strncmp(a->path, b->path, length) == 0;
}

/* Keys of one section stand together, in the order in which sections appear in the table. */
static void add_sections(zr__text *out, const zr_key *key, int n)
{
    for (int i = 0; i < n; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) seen = same_section(&key[i], &key[j]);
        if (seen) continue;
        add_heading(out, &key[i]);
        for (int j = i; j < n; j++)
            if (same_section(&key[i], &key[j])) add_row(out, &key[j]);
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
        "Written from the table of keys in `src/config/table.c`.\n\n"
        "Keys that DeepSpeed has keep its name and meaning; on the command line any key is\n"
        "`--key.path=value`. `\"auto\"` stands for the default and is printed, where it is no value of its own. An\n"
        "unknown key is an error. A value that is not available yet is refused with exit code 69; a key without\n"
        "meaning here prints one line. Integers go up to 2^53.\n");
    add_sections(&out, key, n);
    ZR_TRY(zr__text_take(&out, markdown));
    return ZR_OK;
}
