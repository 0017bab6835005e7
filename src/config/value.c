/* Converts a value between JSON and its field in the configuration. */
#include "config/config.h"
#include "config/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char auto_word[] = "auto";

static bool is_word(const json_t *value, const char *word)
{
    return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

/* Return whether a value is one of the available values of a ZR_KEY_LIMITED key. */
static bool is_built(const zr_key *key, const json_t *value)
{
    char number[ZR_NUMBER_BYTES];
    const char *word = json_string_value(value);
    if (json_is_boolean(value)) word = json_is_true(value) ? "true" : "false";
    if (json_is_number(value)) word = zr__text_shortest(json_number_value(value), number);
    return word && zr__choice_index(key->built, word, strlen(word)) >= 0;
}

/* Read an integer, which may be written as 5e8, as in DeepSpeed's files. */
static bool read_key_int(const zr_key *key, const json_t *value, int64_t *out)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number != floor(number)) return false;
    if (number < key->min || number > key->max) return false;
    /* Refuse 2^53 + 1, which rounds to the allowed 2^53 as a double. */
    if (json_is_integer(value) && json_integer_value(value) > (json_int_t)ZR_CONFIG_MAX_INT) return false;
    *out = (int64_t)number;
    return true;
}

/* Read true or false, which may be written as a text, as DeepSpeed allows. */
static bool read_bool(const json_t *value, bool *out)
{
    const char *word = json_string_value(value);
    *out = json_is_true(value) || (word && strcasecmp(word, "true") == 0);
    return *out || json_is_false(value) || (word && strcasecmp(word, "false") == 0);
}

static bool read_key_number(double min, double max, const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && *out >= min && *out <= max;
}

/* Read a list of numbers: two of decay rates, or three of a key's range. If it has another length, set *bad to -1, else
 * to the index of the first number that is wrong. */
static bool read_numbers(const zr_key *key, const json_t *value, double out[3], int64_t *bad)
{
    const bool pair = key->type == ZR_KEY_PAIR;
    const size_t n = pair ? 2 : 3;
    *bad = -1;
    if (json_array_size(value) != n) return false;
    for (size_t i = 0; i < n; i++) {
        *bad = (int64_t)i;
        if (!read_key_number(key->min, pair ? 1 : key->max, json_array_get(value, i), &out[i])) return false;
        if (pair && out[i] == 1) return false;
    }
    return true;
}

/* Return whether the value is a name or a list of names. If not, set *bad to the index of the first element that is not
 * a name, or to -1 if the value is not a list. */
static bool names_fit(const json_t *value, int64_t *bad)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        *bad = json_is_array(value) ? (int64_t)i : -1;
        if (!name || !*name || strchr(name, '\n')) return false;
    }
    *bad = -1;
    return n > 0;
}

static bool names_paths(const zr_key *key)
{
    return key->type == ZR_KEY_PATHS || key->type == ZR_KEY_SHARE;
}

/* Return whether a text is a number, perhaps with a percent sign: a share, and not the path of a file. */
static bool is_share(const char *text)
{
    char *end = NULL;
    if (!strchr("0123456789.", text[0])) return false;
    (void)strtod(text, &end);
    return end > text && (!*end || strcmp(end, "%") == 0);
}

/* Fail for a value of the wrong form. For a list, name the wrong element. */
static zr_status refuse_form(const zr_key *key, const json_t *value, const zr__source *source,
                             const zr__json_place *place)
{
    zr__json_place element = {place, NULL, 0};
    int64_t bad = -1; /* index of the wrong element, or -1 if the value itself is wrong */
    double number[3];
    if (key->type == ZR_KEY_PAIR || key->type == ZR_KEY_TRIPLE) (void)read_numbers(key, value, number, &bad);
    if (names_paths(key)) (void)zr__shards_fit(value, &bad);
    if (key->type == ZR_KEY_NAMES || key->type == ZR_KEY_FOLDERS) (void)names_fit(value, &bad);
    if (bad >= 0) {
        element.index = (size_t)bad;
        value = json_array_get(value, element.index);
        place = &element;
    }
    if (key->state == ZR_KEY_LIMITED && key->choices) /* list only the words that are available */
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "found %s, wanted one of %s", ZR_JSON_SHOWN(value),
                               ZR_CHOICES(key->built));
    if (key->type == ZR_KEY_SHARE && json_is_string(value) && *json_string_value(value))
        return zr__config_fail(source, place, ZR_ERR_CONFIG,
                               "found %s; a share of data.train is written as a number, such as 0.05, and a file of "
                               "this name as \"./%s\"",
                               ZR_JSON_SHOWN(value), ZR_SHOWN(json_string_value(value)));
    return zr__config_fail(source, place, ZR_ERR_CONFIG, "found %s, wanted %s", ZR_JSON_SHOWN(value), ZR_WANTED(key));
}

/* Fail for a value that is not available. */
static zr_status refuse_unbuilt(const zr_key *key, const json_t *value, const zr__source *source,
                                const zr__json_place *place)
{
    const char *advice = zr__key_instead(key, ZR_JSON_SHOWN(value)), *between = advice ? "; " : "",
               *instead = advice ? advice : "";
    if (json_is_object(value))
        return zr__config_fail(source, place, ZR_ERR_UNSUPPORTED,
                               "this section is not available in zr; leave it out%s%s", between, instead);
    return zr__config_fail(source, place, ZR_ERR_UNSUPPORTED, "%s is not available in zr; %s, or leave it out%s%s",
                           ZR_JSON_SHOWN(value), ZR_AVAILABLE(key), between, instead);
}

static bool read_choice(const zr_key *key, const json_t *value, int *out)
{
    if (!json_is_string(value)) return false;
    *out = zr__choice_index(key->choices, json_string_value(value), json_string_length(value));
    return *out >= 0;
}

/* A checked value, in the type of its field. */
typedef union zr__field {
    bool yes;
    zr_config_switch turned;
    int64_t integer;
    double number;
    double list[3];
    const char *string;
    int choice;
    zr_ids ids;
} zr__field;

static const size_t field_bytes[] = {
    [ZR_KEY_BOOL] = sizeof(bool),
    [ZR_KEY_SWITCH] = sizeof(zr_config_switch),
    [ZR_KEY_INT] = sizeof(int64_t),
    [ZR_KEY_NUMBER] = sizeof(double),
    [ZR_KEY_STRING] = sizeof(const char *),
    [ZR_KEY_NAMES] = sizeof(const char *),
    [ZR_KEY_PATHS] = sizeof(const char *),
    [ZR_KEY_FOLDERS] = sizeof(const char *),
    [ZR_KEY_CHOICE] = sizeof(int),
    [ZR_KEY_EITHER] = sizeof(bool),
    [ZR_KEY_PAIR] = sizeof(double[2]),
    [ZR_KEY_TRIPLE] = sizeof(double[3]),
    [ZR_KEY_BYTES] = sizeof(int64_t),
    [ZR_KEY_IDS] = sizeof(zr_ids),
    [ZR_KEY_OBJECT] = sizeof(const char *),
    [ZR_KEY_SHARE] = sizeof(const char *),
    [ZR_KEY_ANY] = 0,
};

/* Read one token id or a list of ids. */
static bool read_ids(const json_t *value, zr_ids *ids)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    *ids = (zr_ids){.n = (int64_t)n};
    if (n < 1 || n > ZR_IDS_MOST) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        ids->id[i] = json_integer_value(one);
        if (!json_is_integer(one) || ids->id[i] < 0 || ids->id[i] > INT32_MAX) return false;
    }
    return true;
}

static bool read_field(const zr_key *key, const json_t *value, zr__field *field)
{
    int choice;
    int64_t bad;
    bool yes;
    switch (key->type) {
    case ZR_KEY_BOOL:
        return read_bool(value, &field->yes);
    case ZR_KEY_SWITCH:
        if (!read_bool(value, &yes)) return false;
        field->turned = yes ? ZR_SWITCH_ON : ZR_SWITCH_OFF;
        return true;
    case ZR_KEY_INT:
        return read_key_int(key, value, &field->integer);
    case ZR_KEY_BYTES:
        return zr__json_bytes(value, &field->integer) && (double)field->integer >= key->min &&
               (double)field->integer <= key->max;
    case ZR_KEY_NUMBER:
        return read_key_number(key->min, key->max, value, &field->number);
    case ZR_KEY_PAIR:
    case ZR_KEY_TRIPLE:
        return read_numbers(key, value, field->list, &bad);
    case ZR_KEY_CHOICE:
        return read_choice(key, value, &field->choice);
    case ZR_KEY_EITHER:
        if (!read_choice(key, value, &choice)) return false;
        field->yes = choice == 1;
        return true;
    case ZR_KEY_IDS:
        return read_ids(value, &field->ids);
    case ZR_KEY_NAMES:
        field->string = json_string_value(value);
        return field->string && names_fit(value, &bad);
    case ZR_KEY_SHARE:
        field->string = json_string_value(value);
        return field->string && *field->string && !is_share(field->string);
    case ZR_KEY_PATHS:
    case ZR_KEY_FOLDERS:
    case ZR_KEY_STRING:
        field->string = json_string_value(value);
        return field->string && *field->string && (!key->choices || read_choice(key, value, &choice));
    case ZR_KEY_OBJECT: /* stored by set_list */
        return false;
    case ZR_KEY_ANY:
        return true;
    }
    return false;
}

static void *field_of(const zr_config *config, const zr_key *key)
{
    return (char *)config + key->offset;
}

/* Store "auto" or null in a field as 0 for an integer, NAN for a number, NULL for a string, or ZR_SWITCH_AUTO for a
 * switch. */
static void store_nothing(zr_config *config, const zr_key *key)
{
    if (key->offset == SIZE_MAX) return;
    memset(field_of(config, key), 0, field_bytes[key->type]);
    if (key->type == ZR_KEY_SWITCH) *(zr_config_switch *)field_of(config, key) = ZR_SWITCH_AUTO;
    if (key->type == ZR_KEY_NUMBER) *(double *)field_of(config, key) = NAN;
}

static zr_status store_field(zr_config *config, const zr_key *key, const zr__field *field)
{
    if (key->offset == SIZE_MAX) return ZR_OK;
    if (!zr__key_is_text(key)) {
        memcpy(field_of(config, key), field, field_bytes[key->type]);
        return ZR_OK;
    }
    const char *kept = zr__config_keep(config, field->string);
    ZR_CHECK(kept, ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
    *(const char **)field_of(config, key) = kept;
    return ZR_OK;
}

static bool standard_is(const zr_key *key, const char *json)
{
    return strcmp(key->standard, json) == 0;
}

/* Convert a string without jansson's parser, which reads blocks of 16 bytes and could read past the end of the string's
 * memory. */
json_t *zr__json_constant(const char *text)
{
    return *text == '"' ? json_stringn(text + 1, strlen(text) - 2) : zr__json_loads(text, JSON_DECODE_ANY);
}

static json_t *standard_json(const zr_key *key)
{
    return zr__json_constant(key->standard);
}

/* Return whether the value is "auto" in the meaning "use the key's default". The result is false if "auto" is one of
 * the key's own values, or if the key takes any string. */
static bool is_auto(const zr_key *key, const json_t *value)
{
    if (!is_word(value, auto_word) || key->type == ZR_KEY_ANY) return false;
    if (!key->choices) return key->type != ZR_KEY_STRING;
    return standard_is(key, "\"auto\"") || zr__choice_index(key->choices, auto_word, strlen(auto_word)) < 0;
}

/* Store a list or an object: names as text with one name per line, others as JSON text. */
static zr_status set_list(zr_config *config, const zr_key *key, const json_t *value, const zr__source *source,
                          const zr__json_place *place)
{
    int64_t bad;
    ZR_AUTO(zr__text_clear) zr__text lines = {0};
    zr__field field;
    char *paths = NULL;
    const bool names = key->type == ZR_KEY_NAMES;
    if (key->type != ZR_KEY_OBJECT && !(names_paths(key) ? zr__shards_fit : names_fit)(value, &bad))
        return refuse_form(key, value, source, place);
    for (size_t i = 0; names && i < json_array_size(value); i++)
        zr__text_add(&lines, "%s%s", i ? "\n" : "", json_string_value(json_array_get(value, i)));
    if (!names) paths = json_dumps(value, JSON_COMPACT);
    field.string = names ? lines.failed ? NULL : lines.data : paths;
    zr_status st = field.string ? store_field(config, key, &field)
                                : ZR_FAIL(ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
    free(paths);
    zr__origin_of(config, key)->given = st == ZR_OK;
    return st;
}

/* Check and store a value. zr__value_meant has already replaced DeepSpeed's own spellings. */
static zr_status set_meant(zr_config *config, const zr_key *key, const json_t *value, const zr__source *source,
                           const zr__json_place *place)
{
    zr__origin *origin = zr__origin_of(config, key);
    origin->given = origin->automatic = false;
    if (is_auto(key, value)) {
        ZR_TRY(zr__value_default(config, key));
        if (key->type == ZR_KEY_SWITCH) store_nothing(config, key); /* also if its default is false */
        origin->automatic = true;
        return ZR_OK;
    }
    if (json_is_null(value) &&
        (standard_is(key, "null") || standard_is(key, "\"auto\"") || standard_is(key, "\"none\"")))
        return zr__value_default(config, key);

    const bool object = key->type == ZR_KEY_OBJECT;
    if (object ? json_is_object(value) : zr__key_is_text(key) && key->type != ZR_KEY_STRING && json_is_array(value))
        return set_list(config, key, value, source, place);

    zr__field field;
    char share[ZR_NUMBER_BYTES];
    const double x = json_number_value(value);
    if (key->type == ZR_KEY_SHARE && json_is_number(value) && x > 0 && x < 1)
        field.string = zr__text_shortest(x, share);
    else if (!read_field(key, value, &field))
        return refuse_form(key, value, source, place);
    if (key->state == ZR_KEY_LIMITED && !is_built(key, value)) return refuse_unbuilt(key, value, source, place);
    if (key->state == ZR_KEY_NO_MEANING) {
        char path[128];
        ZR_TRY(zr__config_unused(config, zr__json_path(place, path, sizeof(path))));
    }
    ZR_TRY(store_field(config, key, &field));
    origin->given = true;
    return ZR_OK;
}

zr_status zr__value_set(zr_config *config, const zr_key *key, const json_t *value, const zr__source *source,
                        const zr__json_place *place)
{
    char path[128];
    const char *note;
    json_auto_t *meant = zr__value_meant(zr__json_path(place, path, sizeof(path)), value, &note);
    ZR_CHECK(meant, ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
    ZR_TRY(set_meant(config, key, meant, source, place));
    return note ? zr__config_note(config, "%s: %s", path, note) : ZR_OK;
}

zr_status zr__value_default(zr_config *config, const zr_key *key)
{
    zr__field field;
    if (standard_is(key, "null") || standard_is(key, "\"auto\"")) {
        store_nothing(config, key);
        return ZR_OK;
    }
    json_auto_t *value = standard_json(key);
    ZR_CHECK(value, ZR_ERR_MEMORY, "out of memory for the default of %s", key->path);
    return read_field(key, value, &field)
               ? store_field(config, key, &field)
               : ZR_FAIL(ZR_ERR_INTERNAL, "the default of %s is not a value of it", key->path);
}

static json_t *choice_json(const zr_key *key, int index)
{
    const char *at = key->choices;
    while (index-- > 0) at += strcspn(at, "|") + 1;
    return json_stringn(at, strcspn(at, "|"));
}

/* Return ids as JSON: null for none, one id as a number, several as a list. */
static json_t *ids_json(const zr_ids *ids)
{
    if (ids->n == 0) return json_null();
    if (ids->n == 1) return json_integer(ids->id[0]);
    json_t *list = json_array();
    for (int64_t i = 0; i < ids->n; i++) json_array_append_new(list, json_integer(ids->id[i]));
    return list;
}

/* Return names as JSON: a single name as a string, several names as a list. */
static json_t *names_json(const char *names)
{
    if (!names) return json_null();
    if (!strchr(names, '\n')) return json_stringn_nocheck(names, strlen(names));
    json_t *list = json_array();
    for (size_t n; *names; names += n + (names[n] != '\0')) {
        n = strcspn(names, "\n");
        json_array_append_new(list, json_stringn_nocheck(names, n));
    }
    return list;
}

/* Return paths, which may be a list as JSON text. */
static json_t *paths_json(const char *paths)
{
    json_t *list = paths ? zr__shards_list(paths) : json_null();
    return list ? list : json_stringn_nocheck(paths, strlen(paths));
}

static json_t *field_json(const zr_key *key, const void *field)
{
    switch (key->type) {
    case ZR_KEY_BOOL:
        return json_boolean(*(const bool *)field);
    case ZR_KEY_SWITCH: {
        zr_config_switch turned = *(const zr_config_switch *)field;
        return turned == ZR_SWITCH_AUTO ? json_string(auto_word) : json_boolean(turned == ZR_SWITCH_ON);
    }
    case ZR_KEY_NUMBER:
        return isnan(*(const double *)field) ? standard_json(key) : json_real(*(const double *)field);
    case ZR_KEY_PAIR:
        return json_pack("[ff]", ((const double *)field)[0], ((const double *)field)[1]);
    case ZR_KEY_TRIPLE:
        return json_pack("[fff]", ((const double *)field)[0], ((const double *)field)[1], ((const double *)field)[2]);
    case ZR_KEY_CHOICE:
        return choice_json(key, *(const int *)field);
    case ZR_KEY_EITHER:
        return choice_json(key, *(const bool *)field);
    case ZR_KEY_INT:
    case ZR_KEY_BYTES: {
        int64_t integer = *(const int64_t *)field;
        const bool none = integer == 0 && (key->min > 0 || standard_is(key, "\"auto\""));
        return none ? standard_json(key) : json_integer(integer);
    }
    case ZR_KEY_STRING: {
        const char *string = *(const char *const *)field;
        return string ? json_stringn_nocheck(string, strlen(string)) : json_null();
    }
    case ZR_KEY_IDS:
        return ids_json(field);
    case ZR_KEY_NAMES:
        return names_json(*(const char *const *)field);
    case ZR_KEY_SHARE: {
        const double share = zr__share_of(*(const char *const *)field);
        return share > 0 ? json_real(share) : paths_json(*(const char *const *)field);
    }
    case ZR_KEY_OBJECT: {
        const char *text = *(const char *const *)field;
        return text ? zr__json_loads(text, 0) : json_null();
    }
    case ZR_KEY_PATHS:
    case ZR_KEY_FOLDERS:
        return paths_json(*(const char *const *)field);
    case ZR_KEY_ANY:
        break;
    }
    return json_null();
}

json_t *zr__value_get(const zr_config *config, const zr_key *key)
{
    json_t *value = key->offset == SIZE_MAX ? standard_json(key) : field_json(key, field_of(config, key));
    if (!value) config->state->lacks_memory = true;
    return value;
}

bool zr__value_is_standard(const zr_config *config, const zr_key *key)
{
    json_auto_t *value = zr__value_get(config, key), *standard = standard_json(key);
    if (!standard) config->state->lacks_memory = true;
    return json_is_null(value) || json_equal(value, standard); /* null: not set */
}

bool zr__value_text(const zr_config *config, const zr_key *key, char *out, size_t size)
{
    json_auto_t *value = zr__value_get(config, key);
    if (value) zr__json_show(value, out, size);
    return value && !is_word(value, auto_word);
}
