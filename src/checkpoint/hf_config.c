/* config.json of a Hugging Face directory, of any family: read and written according to the family's declaration. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 256, KEY_BYTES = 128 };

/* A config.json being read. */
typedef struct reading {
    char file[SHOWN_BYTES]; /* printable path, for messages */
    char key[KEY_BYTES];    /* key of the field being read, as config.json spells it, for messages */
    const json_t *root;
    const zr_family *family;
    zr_model_config *config;
} reading;

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_nothing(const char *json)
{
    return strcmp(json, "null") == 0 || strcmp(json, "\"auto\"") == 0;
}

/* Return the value, as JSON text, of a field that config.json lacks. */
static const char *fallback_of(const zr_field *field)
{
    return field->fallback ? field->fallback : field->standard;
}

/* Return whether 0 or NAN stands for null in a field. */
static bool takes_null(const zr_field *field)
{
    return is_nothing(fallback_of(field)) || strcmp(field->standard, "null") == 0;
}

/* Return a value of a family's declaration, which is written as JSON text. Convert a string without jansson's parser,
 * which reads blocks of 16 bytes and could read past the end of the string's memory. */
static json_t *declared(const char *text)
{
    if (is_nothing(text)) return json_null();
    return *text == '"' ? json_stringn(text + 1, strlen(text) - 2) : zr__json_loads(text, JSON_DECODE_ANY);
}

/* Return whether two values are equal. The integer 1 equals the real number 1.0. */
static bool equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static bool equals_declared(const json_t *value, const char *text)
{
    json_auto_t *wanted = declared(text);
    return wanted && equal(value, wanted);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Write the i-th key of a field in config.json to `key`: first its main key, then its second key (zr_field.twin), then
 * the keys that are only read. Return false after the last key. */
static bool nth_key(const zr_field *field, int i, char key[KEY_BYTES])
{
    const char *at = field->also;
    if (i == 0) return snprintf(key, KEY_BYTES, "%s", field->key) > 0;
    if (field->twin && i == 1) return snprintf(key, KEY_BYTES, "%s", field->twin) > 0;
    for (i -= field->twin ? 2 : 1; at && i > 0; i--) at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL;
    return at && snprintf(key, KEY_BYTES, "%.*s", (int)strcspn(at, "|"), at) > 0;
}

/* Return the member of an object at a path of `n` bytes, or NULL. */
static const json_t *member_at(const json_t *object, const char *path, size_t n)
{
    for (size_t part; object; path += part + 1, n -= part + 1) {
        const char *dot = memchr(path, '.', n);
        part = dot ? (size_t)(dot - path) : n;
        char name[KEY_BYTES];
        snprintf(name, sizeof(name), "%.*s", (int)part, path);
        object = json_object_get(object, name);
        if (!dot) break;
    }
    return object;
}

/* config.json may have two objects with the same meaning. Refuse a value that is in only one of them: transformers
 * reads only one object, so it might ignore the value. */
static zr_status check_twin(const reading *r, const zr_field *field)
{
    const char *keys[] = {field->key, field->twin};
    const json_t *value[2] = {0};
    size_t object[2];
    for (int i = 0; i < 2; i++) {
        const char *dot = keys[i] ? strrchr(keys[i], '.') : NULL;
        if (!dot) return ZR_OK;
        object[i] = (size_t)(dot - keys[i]);
        if (!json_is_object(member_at(r->root, keys[i], object[i]))) return ZR_OK;
        value[i] = member_at(r->root, keys[i], strlen(keys[i]));
    }
    const int has = value[0] && !json_is_null(value[0]) ? 0 : 1, lacks = 1 - has;
    ZR_CHECK(!value[has] || json_is_null(value[has]) || equals_declared(value[has], field->standard) ||
                 (value[lacks] && !json_is_null(value[lacks])),
             ZR_ERR_DATA, "%s: %s is %s, but %.*s, which means the same as %.*s, lacks it; give one of the two objects",
             r->file, keys[has], ZR_JSON_SHOWN(value[has]), (int)object[lacks], keys[lacks], (int)object[has],
             keys[has]);
    return ZR_OK;
}

/* Find the value of a field, or NULL if config.json lacks it, and store the key where it was found in r->key. Two keys
 * of the field must not have different values. */
static zr_status find_value(reading *r, const zr_field *field, const json_t **value)
{
    char key[KEY_BYTES];
    snprintf(r->key, sizeof(r->key), "%s", field->key);
    *value = NULL;
    /* skip a choice, which may be found under a further key, such as "type" */
    if (field->type != ZR_FIELD_CHOICE) ZR_TRY(check_twin(r, field));
    for (int i = 0; nth_key(field, i, key); i++) {
        const json_t *one = member_at(r->root, key, strlen(key));
        if (!one || (*value && json_is_null(one))) continue;
        ZR_CHECK(!*value || json_is_null(*value) || equal(one, *value), ZR_ERR_DATA,
                 "%s: %s is %s, but %s is %s; they mean the same, so give one of them", r->file, r->key,
                 ZR_JSON_SHOWN(*value), key, ZR_JSON_SHOWN(one));
        snprintf(r->key, sizeof(r->key), "%s", key);
        *value = one;
    }
    return ZR_OK;
}

/* Return whether a path is a key of some field. */
static bool is_key(const zr_family *family, const char *path)
{
    char key[KEY_BYTES];
    for (const zr_field *field = family->field; field->key; field++)
        for (int i = 0; nth_key(field, i, key); i++)
            if (strcmp(key, path) == 0) return true;
    return false;
}

/* Refuse members of an object that zr does not know. At the top level of the file, unknown members are ignored, because
 * most of them do not concern the model. An object that contains fields of the model describes one feature completely,
 * so an unknown member might change it. */
static zr_status check_object(const reading *r, const char *path, size_t n)
{
    const json_t *object = member_at(r->root, path, n);
    const char *name;
    json_t *value;
    ZR_CHECK(!object || json_is_object(object) || json_is_null(object), ZR_ERR_DATA,
             "%s: %.*s is %s; expected an object or null", r->file, (int)n, path, ZR_JSON_SHOWN(object));
    json_object_foreach((json_t *)object, name, value)
    {
        char key[2 * KEY_BYTES];
        snprintf(key, sizeof(key), "%.*s.%s", (int)n, path, name);
        ZR_CHECK(json_is_null(value) || is_key(r->family, key), ZR_ERR_DATA,
                 "%s: unsupported architecture: %s is %s, and zr does not know this key", r->file, ZR_SHOWN(key),
                 ZR_JSON_SHOWN(value));
    }
    return ZR_OK;
}

static zr_status check_objects(const reading *r, const zr_field *field)
{
    char key[KEY_BYTES];
    for (int i = 0; nth_key(field, i, key); i++) {
        const char *dot = strrchr(key, '.');
        if (dot) ZR_TRY(check_object(r, key, (size_t)(dot - key)));
    }
    return ZR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zr_status read_int(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    const double most = field->max < INT32_MAX ? field->max : INT32_MAX;
    const int64_t number = json_integer_value(value);
    ZR_CHECK(json_is_integer(value) && (double)number >= field->min && (double)number <= most, ZR_ERR_DATA,
             "%s: %s is %s; expected an integer from %.0f to %.0f", r->file, r->key, ZR_JSON_SHOWN(value), field->min,
             most);
    memcpy(out, &number, sizeof(number));
    return ZR_OK;
}

static zr_status read_real(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    const double number = json_number_value(value);
    ZR_CHECK(json_is_number(value) && number >= field->min && number <= field->max, ZR_ERR_DATA,
             "%s: %s is %s; expected a number from %g to %g", r->file, r->key, ZR_JSON_SHOWN(value), field->min,
             field->max);
    memcpy(out, &number, sizeof(number));
    return ZR_OK;
}

static zr_status read_bool(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    (void)field;
    const bool yes = json_is_true(value);
    ZR_CHECK(json_is_boolean(value), ZR_ERR_DATA, "%s: %s is %s; expected true or false", r->file, r->key,
             ZR_JSON_SHOWN(value));
    memcpy(out, &yes, sizeof(yes));
    return ZR_OK;
}

/* Print the list a|b|c as a", "b", "c; the caller prints the first and the last quote. Return `out`. */
static const char *print_choices(const char *choices, char out[SHOWN_BYTES])
{
    size_t used = 0;
    for (; *choices && used + 3 < SHOWN_BYTES; choices++)
        used += (size_t)snprintf(out + used, SHOWN_BYTES - used, *choices == '|' ? "\", \"" : "%c", *choices);
    return out;
}

static zr_status read_choice(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    char words[SHOWN_BYTES] = "";
    const char *word = json_string_value(value), *at = field->choices;
    for (int index = 0; word && at; index++) {
        const size_t n = strcspn(at, "|");
        if (strlen(word) == n && strncmp(at, word, n) == 0) {
            memcpy(out, &index, sizeof(index));
            return ZR_OK;
        }
        at = at[n] ? at + n + 1 : NULL;
    }
    return ZR_FAIL(ZR_ERR_DATA, "%s: unsupported architecture: %s is %s; zr computes %s only with \"%s\"", r->file,
                   r->key, ZR_JSON_SHOWN(value), r->family->title, print_choices(field->choices, words));
}

/* Read token ids. Some files have the id -1 for no token; zr keeps this id when it writes the file again. */
static zr_status read_ids(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    (void)field;
    const size_t n = json_is_array(value) ? json_array_size(value) : !json_is_null(value);
    zr_ids ids = {.n = (int64_t)n};
    bool fits = n <= ZR_IDS_MOST;
    for (size_t i = 0; fits && i < n; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        ids.id[i] = json_integer_value(one);
        fits = json_is_integer(one) && ids.id[i] >= -1 && ids.id[i] <= INT32_MAX;
    }
    ZR_CHECK(fits, ZR_ERR_DATA, "%s: %s is %s; expected a token id, a list of up to %d, or null", r->file, r->key,
             ZR_JSON_SHOWN(value), ZR_IDS_MOST);
    memcpy(out, &ids, sizeof(ids));
    return ZR_OK;
}

/* Read a list that has one word for each layer. */
static zr_status read_layers(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    const size_t first = strcspn(field->choices, "|"), n = json_array_size(value);
    int64_t count = 1;
    size_t i = 0;
    for (; i < n && json_string_length(json_array_get(value, i)) == first &&
           strncmp(json_string_value(json_array_get(value, i)), field->choices, first) == 0;
         i++)
        count++;
    while (i < n && json_is_string(json_array_get(value, i)) &&
           strcmp(json_string_value(json_array_get(value, i)), field->choices + first + 1) == 0)
        i++;
    ZR_CHECK(json_is_array(value) && i == n, ZR_ERR_DATA,
             "%s: unsupported architecture: %s is %s; zr computes %s only with layers of \"%.*s\" followed by layers "
             "of \"%s\"",
             r->file, r->key, ZR_JSON_SHOWN(value), r->family->title, (int)first, field->choices,
             field->choices + first + 1);
    const zr_field *layers = zr_family_meaning(r->family, "layers");
    int64_t wanted;
    memcpy(&wanted, r->config->bytes + layers->offset, sizeof(wanted));
    ZR_CHECK(wanted == 0 || (int64_t)n == wanted, ZR_ERR_DATA, "%s: %s has %zu elements, but %s is %lld", r->file,
             r->key, n, layers->key, (long long)wanted);
    memcpy(out, &count, sizeof(count));
    return ZR_OK;
}

/* Return whether a value, or each element of a list, equals a declared value, which is JSON text. */
static bool all_equal(const json_t *value, const char *text)
{
    size_t i;
    const json_t *one;
    if (!json_is_array(value) || json_array_size(value) == 0) return equals_declared(value, text);
    json_array_foreach(value, i, one) if (!equals_declared(one, text)) return false;
    return true;
}

/* Check a field for which zr computes only one value. */
static zr_status read_fixed(const reading *r, const zr_field *field, const json_t *value, void *out)
{
    (void)out;
    const bool usual = all_equal(value, field->standard) || (field->same && all_equal(value, field->same));
    ZR_CHECK(usual, ZR_ERR_DATA, "%s: unsupported architecture: %s is %s; zr computes %s only with %s%s%s%s%s", r->file,
             r->key, ZR_JSON_SHOWN(value), r->family->title, field->standard, field->same ? " or " : "",
             field->same ? field->same : "", field->help ? "; " : "", field->help ? field->help : "");
    return ZR_OK;
}

typedef zr_status (*read_fn)(const reading *r, const zr_field *field, const json_t *value, void *out);
static const read_fn readers[] = {
    [ZR_FIELD_INT] = read_int,       [ZR_FIELD_REAL] = read_real, [ZR_FIELD_BOOL] = read_bool,
    [ZR_FIELD_CHOICE] = read_choice, [ZR_FIELD_IDS] = read_ids,   [ZR_FIELD_FIXED] = read_fixed,
    [ZR_FIELD_LAYERS] = read_layers};

static zr_status read_field(reading *r, const zr_field *field)
{
    const json_t *value = NULL;
    void *out = r->config->bytes + field->offset;
    const bool in_file = field->place != ZR_FIELD_IN_CONFIG;
    if (in_file)
        ZR_TRY(find_value(r, field, &value));
    else
        snprintf(r->key, sizeof(r->key), "%s", field->key);
    if (value && !(json_is_null(value) && takes_null(field))) return readers[field->type](r, field, value, out);
    const char *text = in_file ? fallback_of(field) : field->standard;
    if (value || is_nothing(text)) { /* null, or a default that zr_family.complete finds: store 0 or NAN */
        memset(out, 0, zr_field_bytes(field->type));
        if (field->type == ZR_FIELD_REAL) memcpy(out, &(double){NAN}, sizeof(double));
        return ZR_OK;
    }
    json_auto_t *missing = declared(text);
    ZR_CHECK(missing, ZR_ERR_MEMORY, "no memory for the default of %s", field->key);
    return readers[field->type](r, field, missing, out);
}

/* Check that the value of a field divides the value of another field, if the declaration says so. */
static zr_status check_divides(const reading *r, const zr_field *field)
{
    int64_t value, multiple;
    if (!field->divides) return ZR_OK;
    memcpy(&value, r->config->bytes + field->offset, sizeof(value));
    memcpy(&multiple, r->config->bytes + zr_family_field(r->family, field->divides)->offset, sizeof(multiple));
    ZR_CHECK(!value || multiple % value == 0, ZR_ERR_DATA, "%s: %s %lld is not a multiple of %s %lld", r->file,
             field->divides, (long long)multiple, field->key, (long long)value);
    return ZR_OK;
}

/* Print the names of all families as "a", "b" or "c". Return `text`. */
static const char *any_family(char text[SHOWN_BYTES])
{
    size_t used = 0;
    const zr_family *family;
    for (int i = 0; (family = zr_family_at(i)) && used < SHOWN_BYTES; i++) {
        const char *between = i == 0 ? "" : zr_family_at(i + 1) ? ", " : " or ";
        used += (size_t)snprintf(text + used, SHOWN_BYTES - used, "%s\"%s\"", between, family->name);
    }
    return text;
}

/* Return why a type of model that is similar to one of zr's families is not read, as the end of a message, or "". */
static const char *why_not(const char *type)
{
    static const struct {
        const char *type, *why;
    } similar[] = {
        {"roberta",
         "; RoBERTa is not read as BERT, since its positions begin behind the number of the padding token, two "
         "separators divide a pair, and its tokens are byte-level BPE"},
        {"xlm-roberta", "; XLM-RoBERTa is not read as BERT, since its positions begin behind the number of the padding "
                        "token, two separators divide a pair, and its tokens are of SentencePiece"},
        {"distilbert",
         "; DistilBERT is not read as BERT, since it has no segments, its classifier has a ReLU, and all of "
         "its keys and tensors have other names"},
    };
    for (size_t i = 0; type && i < sizeof(similar) / sizeof(similar[0]); i++)
        if (strcmp(type, similar[i].type) == 0) return similar[i].why;
    return "";
}

static zr_status read_settings(reading *r)
{
    char known[SHOWN_BYTES] = "";
    const json_t *type = json_object_get(r->root, "model_type");
    const char *name = json_string_value(type);
    r->family = name ? zr_family_find(name) : NULL;
    ZR_CHECK(r->family, ZR_ERR_DATA, "%s: unsupported architecture: model_type is %s; expected %s%s", r->file,
             ZR_JSON_SHOWN(type), any_family(known), why_not(name));
    for (const zr_field *field = r->family->field; field->key; field++) ZR_TRY(read_field(r, field));
    ZR_TRY(zr__hf_read_task(r->file, r->root, r->family, r->config));
    /* Look at unknown members last: if an unknown value such as a new rope_type brings its own members, the message
     * must name that value. */
    for (const zr_field *field = r->family->field; field->key; field++)
        if (field->place != ZR_FIELD_IN_CONFIG) ZR_TRY(check_objects(r, field));
    for (const zr_field *field = r->family->field; field->key; field++) ZR_TRY(check_divides(r, field));
    if (r->family->complete) r->family->complete(r->config);
    if (r->family->check(r->config) == ZR_OK) return ZR_OK;
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s", r->file, zr_error_message());
}

zr_status zr_hf_read(const char *dir, const zr_family **family, zr_model_config *config)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    zr_model_config read = {0};
    ZR_TRY(zr__path_of_input(path, dir, "config.json"));
    ZR_TRY(zr__json_load_data(path, &root));
    reading r = {.root = root, .config = &read};
    zr__text_escape(path, r.file, sizeof(r.file));
    ZR_TRY(read_settings(&r));
    *config = read;
    *family = r.family;
    return ZR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static double real_at(const zr_field *field, const zr_model_config *config)
{
    double number;
    memcpy(&number, config->bytes + field->offset, sizeof(number));
    return number;
}

static json_t *int_json(const zr_field *field, const void *value)
{
    int64_t number;
    memcpy(&number, value, sizeof(number));
    return number == 0 && takes_null(field) ? json_null() : json_integer(number);
}

static json_t *choice_json(const zr_field *field, const void *value)
{
    int index;
    const char *at = field->choices;
    memcpy(&index, value, sizeof(index));
    while (index-- > 0) at += strcspn(at, "|") + 1;
    return json_stringn(at, strcspn(at, "|"));
}

static json_t *ids_json(const void *value)
{
    zr_ids ids;
    memcpy(&ids, value, sizeof(ids));
    if (ids.n == 0) return json_null();
    if (ids.n == 1) return json_integer(ids.id[0]);
    json_t *list = json_array();
    for (int64_t i = 0; i < ids.n; i++) json_array_append_new(list, json_integer(ids.id[i]));
    return list;
}

static json_t *value_json(const zr_field *field, const zr_model_config *config)
{
    const void *value = config->bytes + field->offset;
    switch (field->type) {
    case ZR_FIELD_INT:
        return int_json(field, value);
    case ZR_FIELD_REAL:
        return isnan(real_at(field, config)) && takes_null(field) ? json_null() : json_real(real_at(field, config));
    case ZR_FIELD_BOOL:
        return json_boolean(*(const bool *)value);
    case ZR_FIELD_CHOICE:
        return choice_json(field, value);
    case ZR_FIELD_IDS:
        return ids_json(value);
    case ZR_FIELD_LAYERS:
    case ZR_FIELD_FIXED:
        break;
    }
    return declared(field->standard);
}

/* Set the member of an object at a path, and take ownership of `value`. Create missing objects on the path. Return
 * nonzero on failure. */
static int set_at(json_t *object, const char *path, json_t *value)
{
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        char name[KEY_BYTES];
        snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
        json_t *child = json_object_get(object, name);
        if (!json_is_object(child)) {
            child = json_object();
            json_object_set_new(object, name, child);
        }
        object = child;
    }
    return json_object_set_new(object, path, value);
}

/* Write null for the object of a key such as "rope_scaling.factor", if all members of the object were left out. Return
 * nonzero on failure. */
static int set_no_object(json_t *root, const char *key)
{
    const char *dot = strrchr(key, '.');
    char path[KEY_BYTES];
    if (!dot || member_at(root, key, (size_t)(dot - key))) return 0;
    snprintf(path, sizeof(path), "%.*s", (int)(dot - key), key);
    return set_at(root, path, json_null());
}

/* Add a field to the JSON object `root`, under its key and under its second key (zr_field.twin). Leave out a key inside
 * a nested object if its absence means the same value. Leave out the second key if the field has no value, or if its
 * absence means the same value. A choice always has its second key, because other members depend on it. Return nonzero
 * on failure. */
static int set_field(json_t *root, const zr_field *field, const zr_model_config *config)
{
    const bool absent = field->type == ZR_FIELD_FIXED && field->fallback && is_nothing(field->fallback);
    if (field->place == ZR_FIELD_IN_CONFIG || field->type == ZR_FIELD_LAYERS || absent) return 0;
    json_auto_t *value = value_json(field, config);
    const bool usual = strchr(field->key, '.') && value && equals_declared(value, fallback_of(field));
    int failed = !value;
    if (!usual && value) failed |= set_at(root, field->key, json_incref(value));
    const bool twin = field->twin && value && !json_is_null(value) && !(usual && field->type != ZR_FIELD_CHOICE);
    if (twin) failed |= set_at(root, field->twin, json_incref(value));
    return failed;
}

/* Add the keys of the source that the family does not know, and the record of its files. Return nonzero on failure. */
static int set_source(json_t *root, const zr_family *family, const zr__hf_source *source, bool record)
{
    const char *key;
    json_t *value;
    int failed = 0;
    if (!source) return 0;
    json_object_foreach(source->keys, key, value)
    {
        if (json_object_get(root, key) || is_key(family, key)) continue;
        failed |= json_object_set(root, key, value);
    }
    if (record && json_object_size(source->files) > 0) failed |= json_object_set(root, ZR_HF_FILES_KEY, source->files);
    return failed;
}

static json_t *config_json(const zr_family *family, const zr_model_config *config, zr_dtype dtype)
{
    const char *type = dtype == ZR_BF16 ? "bfloat16" : dtype == ZR_F16 ? "float16" : "float32";
    json_auto_t *root = json_object();
    int failed = !root;
    failed |= json_object_set_new(root, "architectures", json_pack("[s]", zr_family_architecture(family, config)));
    failed |= json_object_set_new(root, "model_type", json_string(family->name));
    for (const zr_field *field = family->field; field->key; field++) failed |= set_field(root, field, config);
    for (const zr_field *field = family->field; field->key; field++)
        if (field->place != ZR_FIELD_IN_CONFIG) failed |= set_no_object(root, field->key);
    /* transformers 4 and 5 have different keys for the type of the weights */
    failed |= json_object_set_new(root, "torch_dtype", json_string(type));
    failed |= json_object_set_new(root, "dtype", json_string(type));
    return failed ? NULL : ZR_TAKE(root);
}

zr_status zr__hf_write_like(const char *dir, const zr_family *family, const zr_model_config *config,
                            const zr__hf_source *source, zr_dtype dtype, bool record)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir, "config.json"));
    json_auto_t *root = config_json(family, config, dtype);
    ZR_CHECK(root, ZR_ERR_ARG, "a number of the configuration is not finite, or there is no memory for its text");
    ZR_CHECK(!set_source(root, family, source, record) && !zr__hf_write_labels(root, family, config), ZR_ERR_MEMORY,
             "no memory for the keys of config.json");
    return zr__json_put(path, root);
}

zr_status zr_hf_write(const char *dir, const zr_family *family, const zr_model_config *config)
{
    return zr__hf_write_like(dir, family, config, NULL, ZR_F32, false);
}
