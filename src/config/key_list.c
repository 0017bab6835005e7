/* Makes lists of keys: the rows of table.c, and in the section "model" the fields of families. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

/* A list that is being made. In one allocation, the keys are followed by their texts. */
typedef struct making {
    zr_key *key;
    int n;
    char *text; /* end of the texts so far */
} making;

/* Append a text to the texts of the list, and return it. */
static const char *add_text(making *m, const char *begin, const char *text, size_t n)
{
    char *added = m->text;
    m->text += sprintf(added, "%s%.*s", begin, (int)n, text) + 1;
    return added;
}

/* ---- keys of fields -------------------------------------------------------------------------- */

static zr_key_type type_of(const zr_field *field)
{
    static const zr_key_type type[] = {
        [ZR_FIELD_INT] = ZR_KEY_INT,       [ZR_FIELD_REAL] = ZR_KEY_NUMBER, [ZR_FIELD_BOOL] = ZR_KEY_BOOL,
        [ZR_FIELD_CHOICE] = ZR_KEY_CHOICE, [ZR_FIELD_IDS] = ZR_KEY_IDS,     [ZR_FIELD_FIXED] = ZR_KEY_BOOL};
    const bool word = field->type == ZR_FIELD_FIXED && field->standard[0] == '"';
    return word ? ZR_KEY_STRING : type[field->type];
}

static zr_key key_of(making *m, const zr_field *field)
{
    const bool fixed = field->type == ZR_FIELD_FIXED, word = field->standard[0] == '"';
    zr_key key = {.path = add_text(m, ZR_MODEL_SECTION, field->key, strlen(field->key)),
                  .type = type_of(field),
                  .min = field->min,
                  .max = field->max,
                  .choices = field->choices,
                  .standard = field->standard,
                  .help = field->help,
                  .offset = fixed ? SIZE_MAX : offsetof(zr_config, model.config) + field->offset,
                  .field = field};
    if (!fixed) return key;
    key.state = ZR_KEY_LIMITED;
    key.built = add_text(m, "", field->standard + word, strlen(field->standard) - 2 * word);
    if (word && !key.choices) key.choices = key.built;
    return key;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_key(const zr_key *a, const zr_key *b)
{
    return strcmp(a->path, b->path) == 0 && a->type == b->type && a->min == b->min && a->max == b->max &&
           same_text(a->choices, b->choices) && same_text(a->standard, b->standard) && same_text(a->help, b->help);
}

/* Add a key. If the list already has an identical key, add only the name of this family to it. */
static void add_key(making *m, zr_key key, const zr_family *family)
{
    for (zr_key *had = m->key; had < m->key + m->n; had++) {
        if (!had->field || !same_key(had, &key)) continue;
        char *begin = m->text;
        m->text += sprintf(begin, "%s, %s", had->families, family->name) + 1;
        had->families = begin;
        return;
    }
    key.families = family->name;
    m->key[m->n++] = key;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int count_names(const char *families)
{
    int n = 1;
    for (; *families; families++) n += *families == ',';
    return n;
}

/* Set the allowed values of model.type: the names of all families, then those names in the key table (table.c) that no
 * family has, which are reserved for planned families. */
static void set_types(making *m, zr_key *type)
{
    const zr_family *family;
    const char *planned = type->choices;
    char *begin = m->text;
    type->standard = m->text;
    m->text += sprintf(m->text, "\"%s\"", zr_family_at(0)->name) + 1;
    type->built = begin = m->text;
    for (int f = 0; (family = zr_family_at(f)); f++) m->text += sprintf(m->text, "%s%s", f ? "|" : "", family->name);
    m->text++;
    type->choices = m->text;
    m->text += sprintf(m->text, "%s", begin);
    for (size_t n; *planned; planned += n + (planned[n] == '|')) {
        n = strcspn(planned, "|");
        if (zr__choice_index(begin, planned, n) < 0) m->text += sprintf(m->text, "|%.*s", (int)n, planned);
    }
    m->text++;
}

/* Return an upper bound of the bytes of a list's texts. */
static size_t text_bytes(int *fields)
{
    const zr_family *family;
    size_t names = 64, bytes = 0;
    *fields = 0;
    for (int f = 0; (family = zr_family_at(f)); f++) {
        names += strlen(family->name) + 2;
        for (const zr_field *field = family->field; field->key; field++, ++*fields)
            bytes += strlen(ZR_MODEL_SECTION) + strlen(field->key) + strlen(field->standard) + 2;
    }
    return bytes + names * (size_t)(*fields + 3);
}

static void add_family(making *m, const zr_family *family)
{
    for (const zr_field *field = family->field; field->key; field++)
        if (field->place != ZR_FIELD_IN_HF) add_key(m, key_of(m, field), family);
}

/* Add the keys of one family, or of all families. In a list of all families, a key that some families lack has the
 * names of the families that have it. */
static void add_families(making *m, const zr_family *only)
{
    const zr_family *family;
    int families = 0;
    for (; (family = zr_family_at(families)); families++)
        if (!only || family == only) add_family(m, family);
    for (zr_key *key = m->key; key < m->key + m->n; key++)
        if (key->field && (only || count_names(key->families) == families)) key->families = NULL;
}

zr_status zr__keys_make(const zr_family *only, zr_key **keys)
{
    const zr_family *family;
    int fields, i = 0;
    for (int f = 0; (family = zr_family_at(f)); f++) ZR_TRY(zr_family_check(family));
    const size_t bytes = text_bytes(&fields), rows = (size_t)(zr__common_keys_n + fields + 1);
    making m = {.key = zr_alloc(rows * sizeof(zr_key) + bytes)};
    ZR_CHECK(m.key, ZR_ERR_MEMORY, "out of memory for the keys of a configuration");
    m.text = (char *)(m.key + rows);
    for (; strncmp(zr__common_keys[i].path, ZR_MODEL_SECTION, strlen(ZR_MODEL_SECTION)) == 0; i++)
        m.key[m.n++] = zr__common_keys[i];
    set_types(&m, &m.key[0]);
    add_families(&m, only);
    for (; i < zr__common_keys_n; i++) m.key[m.n++] = zr__common_keys[i];
    *keys = m.key;
    if (!only || m.n <= ZR_CONFIG_MAX_KEYS) return ZR_OK;
    zr_free(ZR_TAKE(*keys));
    return ZR_FAIL(ZR_ERR_INTERNAL, "%s has too many fields", only->name);
}

zr_status zr_config_keys(zr_key **keys)
{
    *keys = NULL;
    return zr__keys_make(NULL, keys);
}
