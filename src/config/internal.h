/** Internals of config. read.c reads a file: it walks the file's JSON tree, looks up each key in the list of keys and
 * stores each value with value.c. key_list.c makes the list from the rows of table.c and the fields of a family.
 * deepspeed.c has other names of keys and values. model.c finds a configuration's family and its settings. refused.c
 * collects refusals. check.c and resolve.c compare keys with each other. needs.c finds keys that have no effect without
 * other keys, and notes.c tells the user about keys without effect. write.c and example.c print a configuration
 * and an example. state.c holds the memory of a configuration. */
#ifndef ZR_CONFIG_INTERNAL_H
#define ZR_CONFIG_INTERNAL_H

#include "zr/config.h"
#include "base/json/json.h"
#include "base/paths/shards.h"
#include "base/text/text.h"

#define ZR_CONFIG_MAX_KEYS 384
#define ZR_CONFIG_MAX_INT 0x1p53

typedef struct zr__string {
    struct zr__string *next;
    char text[];
} zr__string;

/** Origin of a key's value: default, "auto", file or override. */
typedef struct zr__origin {
    bool given;       /* whether a value other than "auto" was given, in the file, by an override or by zr_config_set */
    bool overridden;  /* whether an override gave the value */
    bool automatic;   /* whether "auto" was given; the value chosen for it is then reported */
    const char *name; /* the key's other name (deepspeed.c) under which it was given, or NULL */
} zr__origin;

struct zr_config_state {
    zr_key *keys;                /* keys of this configuration, with the fields of its family */
    zr__string *unused;          /* paths of given keys without effect, in the order in which they were found */
    struct zr__refusal *refused; /* refused values, collected while the file is read, oldest first */
    zr__string *strings;         /* strings that the configuration owns, newest first */
    zr__string *notes;           /* notes for the user, oldest first */
    const char *name;            /* the file's name in printable form */
    const char *path;            /* the file's path, or NULL if the configuration came from elsewhere */
    zr__origin origin[ZR_CONFIG_MAX_KEYS];
    bool by_memory;     /* whether zr__config_leave_open was called */
    int64_t disk_bytes; /* bytes passed to zr__config_offer_disk, or 0 */
    bool goes_on;       /* whether zr__config_go_on was called */
    bool recipe;        /* whether zr__config_take_recipe was called */
    bool lacks_memory;  /* whether memory ran out for a value that was compared or shown */
    /* `writes_optimizer`, `writes_scheduler`: whether the file, without the overrides, has this section with a type.
     * `is_deepspeeds`: whether the file has a section of DeepSpeed about training (optimizer, scheduler or
     * zero_optimization). */
    bool writes_optimizer, writes_scheduler, is_deepspeeds;
    bool
        family_is_guess; /* whether a model is given, but of no family that zr knows, and the first one stands for it */
};

/** Keys that do not depend on the family, which table.c lists. A family's keys follow after the last key of the section
 * "model". */
extern const zr_key zr__common_keys[];
extern const int zr__common_keys_n;

/** Make the list of keys of a family, or of all families if `family` is NULL, as zr_config_keys does. The list has the
 * keys of every configuration and the keys of the family, and ends with a key whose path is NULL. Free *keys with
 * zr_free. */
ZR_NODISCARD zr_status zr__keys_make(const zr_family *family, zr_key **keys);

static inline const zr_key *zr__keys_of(const zr_config *config)
{
    return config->state->keys;
}

static inline zr__origin *zr__origin_of(const zr_config *config, const zr_key *key)
{
    return &config->state->origin[key - config->state->keys];
}

/** Return the name under which a key was given, for messages. */
static inline const char *zr__key_shown(const zr_config *config, const zr_key *key)
{
    const char *name = zr__origin_of(config, key)->name;
    return name ? name : key->path;
}

/** File from which the values are read, for error messages. */
typedef struct zr__source {
    const char *name;
    const char *text; /* text of the file, or NULL if there is no file */
    size_t bytes;
    const char *const *overrides;
    int n_overrides;
    const zr_config *config; /* configuration that knows the names under which keys were given, or NULL */
} zr__source;

/** Fail with "file:line:column: key.path: message" or, if an override gave the value, with "command line: key.path:
 * message". */
zr_status zr__config_fail(const zr__source *source, const zr__json_place *place, zr_status status, const char *format,
                          ...) ZR_PRINTF(4, 5);

/** First part of the path of a model's key. */
#define ZR_MODEL_SECTION "model."
/** Return the family of a configuration, given the file's JSON tree with the overrides applied: model.type, or the
 * family of the directory model.init or of model.preset, or the first family, which is a guess (`*guess`) if one of
 * them is given. */
const zr_family *zr__config_family(const json_t *root, bool *guess);
/** Refuse a key that no family or only other families have. If another family has the key, the message names this
 * family, and the key with the same meaning in the configuration's own family. */
zr_status zr__config_refuse_key(const zr_config *config, const zr__source *source, const zr__json_place *place,
                                const char *path);
/** Find a field of the family whose value does not divide the value of the field that its zr_field.divides names, if
 * both values are known. *value and *multiple receive the two values. Return NULL if there is no such field. */
const zr_field *zr__config_undivided(const zr_config *config, int64_t *value, int64_t *multiple);

/** Return the key of an override, without "--". *value points to the text after '=', or is NULL if there is no '='. */
const char *zr__override_key(const char *override, size_t *length, const char **value);
/** Parse an override's value as JSON, or as a string if it is not JSON. If `text` is true, the key takes text, so read
 * a number or boolean as text too. Return NULL if memory runs out. */
json_t *zr__override_value(bool text, const char *value);
/** Return the object that holds the member at a dotted path of `length` bytes. Objects on the path are created if
 * missing. *member is the last part of the path. Return NULL if a value on the path is not an object, or if memory runs
 * out. */
json_t *zr__member_object(json_t *root, const char *path, size_t length, const char **member);
/** Store an override in the JSON tree of a file, replacing an existing value. */
ZR_NODISCARD zr_status zr__override_apply(json_t *root, const char *override);

/** Return the key with this path, or a key such as "aio.*" that stands for all keys of a section, or NULL. */
const zr_key *zr__key_find(const zr_key *keys, const char *path);
/** Return a path without its first part, which names the section. */
const char *zr__key_in_section(const char *path);
/** Return the stored value of a key of the type ZR_KEY_SHARE as a share, or 0 if it names files or is NULL. */
double zr__share_of(const char *text);
/** Return whether values of the key are text. */
bool zr__key_is_text(const zr_key *key);
/** A dotted path as a chain of places, one for each part, beginning at the root. If the path has more parts than
 * places, the last place has the rest of the path. */
typedef struct zr__key_place {
    zr__json_place place[5];
    char part[4][128];
} zr__key_place;
/** Split a path at its dots into `out`. Return the place of the last part, which points into `out`. */
const zr__json_place *zr__key_place_of(const char *path, zr__key_place *out);
/** Write zr's own name of the key or section `path` into `out`. `path` may be another name from DeepSpeed's files.
 * Return `out`. */
const char *zr__key_own_name(const char *path, char *out, size_t size);
/** Remove the values that a file gives for the key `path` under other names. */
void zr__key_remove_others(json_t *root, const char *path);
/** Add a list of all other names of keys and sections. */
void zr__key_list_names(zr__text *out);
/** Return the value that zr uses for the value `given` of the key that the file names `path`: another value of
 * deepspeed.c, or `given` itself. The result is a new reference. *note receives a text for the user, or NULL. Return
 * NULL if memory runs out. */
json_t *zr__value_meant(const char *path, const json_t *given, const char **note);
/** Return whether any key begins with `path` and a dot. */
bool zr__key_is_section(const zr_key *keys, const char *path);
/** Return whether the configuration uses the key. Keys of an optimizer or scheduler that is not configured are unused,
 * and so are keys of fp16 unless fp16.enabled is true. */
bool zr__key_is_read(const zr_config *config, const zr_key *key);
/** Find the key or section that the user probably meant by `path`. Write its path into `out` and return `out`, or
 * return NULL if no name is near. */
const char *zr__key_nearest(const zr_key *keys, const char *path, char *out, size_t size);
/** Describe the values that a key takes, such as "an integer from 1 to 8", in `out`. Return `out`. */
const char *zr__key_wanted(const zr_key *key, char *out, size_t size);
#define ZR_WANTED_BYTES 192
/** Call zr__key_wanted with a temporary buffer that lives until the end of the enclosing block. */
#define ZR_WANTED(key) zr__key_wanted((key), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Write the list "a|b|c" as "a, b, c" into `out`. Return `out`. */
const char *zr__choice_list(const char *choices, char *out, size_t size);
/** Call zr__choice_list with a temporary buffer that lives until the end of the enclosing block. */
#define ZR_CHOICES(choices) zr__choice_list((choices), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Find a word in a list such as "a|b|c", ignoring case. Return its index, or -1 if it is not in the list. */
int zr__choice_index(const char *choices, const char *word, size_t length);

/** Add words to `out`, broken into lines of up to `columns` columns, and a final line break. `begin` is put before the
 * first line, and `next` before each later line. */
void zr__add_words(zr__text *out, const char *begin, const char *next, int columns, const char *words);

/** Return the value of a constant JSON text of the program. */
json_t *zr__json_constant(const char *text);
/** Check a value and store it in its field. */
ZR_NODISCARD zr_status zr__value_set(zr_config *config, const zr_key *key, const json_t *value,
                                     const zr__source *source, const zr__json_place *place);
/** Return the value of the key's field as JSON. For a key without a field, return its default. Return NULL if memory
 * runs out, and record it: zr_config_parse and zr_config_resolve then fail at their end. */
json_t *zr__value_get(const zr_config *config, const zr_key *key);
/* Return whether a key has its default value. */
bool zr__value_is_standard(const zr_config *config, const zr_key *key);
/** Store the key's default value in its field. */
ZR_NODISCARD zr_status zr__value_default(zr_config *config, const zr_key *key);
/** Write the value of the key's field in readable form into `out`. Return false if the value is still "auto". */
bool zr__value_text(const zr_config *config, const zr_key *key, char *out, size_t size);

/** Record a key without effect, for zr__config_note_all. */
ZR_NODISCARD zr_status zr__config_unused(zr_config *config, const char *path);
/** Add notes on keys without effect and on values chosen for "auto", one line per section. Call this when all values
 * are resolved. */
ZR_NODISCARD zr_status zr__config_note_all(zr_config *config);

/** Find a given key that must be refused: it has no effect because another key is missing, and without this effect the
 * user gets another result than intended. Return its path and set *advice to the correction. Return NULL if no key must
 * be refused. */
const char *zr__config_needy(const zr_config *config, const char **advice);
/** Add notes on given keys that have no effect because of other keys but are not refused (zr__config_needy), one note
 * for each section and reason. */
ZR_NODISCARD zr_status zr__config_note_needs(zr_config *config);

/** Write advice that names the available values of a ZR_KEY_LIMITED key, such as: write "AdamW", "Adam" or "SGD".
 * Return `out`. */
const char *zr__key_available(const zr_key *key, char *out, size_t size);
/** Call zr__key_available with a temporary buffer that lives until the end of the enclosing block. */
#define ZR_AVAILABLE(key) zr__key_available((key), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Return advice for users of the value `found`, a JSON text, which is not available, or NULL. */
const char *zr__key_instead(const zr_key *key, const char *found);
/** Record the last error message as the refusal of the value or key at `path`. If the value of a known key is not
 * available, `key` is that key. For any other error, `key` is NULL. */
ZR_NODISCARD zr_status zr__refusal_add(zr_config *config, zr_status status, const zr_key *key, bool unknown,
                                       const char *path, const char *found);
/** Fail with one message for all recorded refusals, with one line per section. Return ZR_OK if nothing was refused. */
zr_status zr__refusals_say(zr_config *config);
void zr__refusals_free(zr_config *config);

/** Store a copy of a string that lives as long as the configuration. Return NULL if memory runs out. */
const char *zr__config_keep(zr_config *config, const char *text);
/** If a schedule's lowest learning rate is above its highest, return the key of the lowest rate, and set both rates and
 * the key of the highest rate. Otherwise return NULL. */
const char *zr__config_low_above(const zr_config *config, double *low, double *high, const char **high_path);
#define ZR__LOW_ABOVE "%g is above %s, which is %g; wanted %g or less"

/** Fail with ZR_ERR_CONFIG and the message "file: ...". Use this for errors that are found only when all values are
 * known. */
zr_status zr__config_refuse(const zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);

/** Return the JSON text that the recipe of a small model gives a key, or NULL if the recipe does not set the key. */
const char *zr__recipe_value(const char *path);
/** Return the learning rate of the recipe for a preset: the preset's own rate or, if it has none, the rate of the GPT-3
 * model with the nearest number of parameters. */
const char *zr__recipe_lr(const char *preset, zr_model_sizes sizes);
/** Set the values of the recipe, if zr__config_take_recipe requested it, and add a note that lists them. Call this when
 * the sizes are known. */
ZR_NODISCARD zr_status zr__config_recipe(zr_config *config);

/** Return the first given parameter of optimizer or scheduler that the configured type does not have, or NULL. *type
 * receives the name of the type. */
const char *zr__config_foreign_param(const zr_config *config, const char **type);
#define ZR__FOREIGN_PARAM "%s has no parameter of this name; leave it out"
/** Check keys against each other, except checks that depend on the number of ranks. */
ZR_NODISCARD zr_status zr__config_check(const zr_config *config, const zr__source *source);

#endif
