/**
 * Internals of config. A file is read by read.c, which walks its tree by the keys of table.c and takes each value with
 * value.c; refused.c gathers refusals; check.c and resolve.c compare keys with each other; notes.c tells the user which
 * keys have no effect; write.c, reference.c and example.c print. state.c holds the memory of a configuration.
 */
#ifndef ZR_CONFIG_INTERNAL_H
#define ZR_CONFIG_INTERNAL_H

#include "zr/config.h"
#include "base/json/json.h"
#include "base/paths/shards.h"
#include "base/text/text.h"

#define ZR_CONFIG_MAX_KEYS 224
#define ZR_CONFIG_MAX_INT 0x1p53

typedef struct zr__string {
    struct zr__string *next;
    char text[];
} zr__string;

/** The giver of a key's value. */
typedef struct zr__origin {
    bool given;      /* the file, an override or zr_config_set, with another value than "auto" */
    bool overridden; /* an override */
    bool automatic;  /* "auto" was given: its value is reported when all is settled */
} zr__origin;

struct zr_config_state {
    zr__string *unused;          /* paths of given keys that have no effect, oldest first */
    struct zr__refusal *refused; /* refused values, oldest first, while the file is read */
    zr__string *strings;         /* newest first */
    zr__string *notes;           /* oldest first */
    const char *name;            /* the file's name, printable */
    const char *path;            /* the file's path; NULL: it came from elsewhere */
    zr__origin origin[ZR_CONFIG_MAX_KEYS];
    bool by_memory; /* zr__config_leave_open was called */
    bool goes_on;   /* zr__config_go_on was called */
    bool recipe;    /* zr__config_take_recipe was called */
};

/** The keys of zr_config_keys: for (const zr_key *key = zr__keys; key < zr__keys_end; key++). */
extern const zr_key zr__keys[];
extern const zr_key *const zr__keys_end;

static inline zr__origin *zr__origin_of(const zr_config *config, const zr_key *key)
{
    return &config->state->origin[key - zr__keys];
}

/** Origin of values, for messages. */
typedef struct zr__source {
    const char *name; /* the file */
    const char *text; /* NULL: no file */
    size_t bytes;
    const char *const *overrides;
    int n_overrides;
} zr__source;

/** Fail with "file:line:column: key.path: message", or "command line: key.path: message" when an override gave the
 * value. */
zr_status zr__config_fail(const zr__source *source, const zr__json_place *place, zr_status status, const char *format,
                          ...) ZR_PRINTF(4, 5);

/** Return the key part of an override, without "--"; *value points after '=', or is NULL without one. */
const char *zr__override_key(const char *override, size_t *length, const char **value);
/** Parse an override's value for a key (NULL: not known): JSON, or else a string. NULL: out of memory. */
json_t *zr__override_value(const zr_key *key, const char *value);
/** Find the object that holds the member at a dotted path of `length` bytes, creating objects on the way; *member: the
 * last part of the path. NULL: a value on the way is not an object, or out of memory. */
json_t *zr__member_object(json_t *root, const char *path, size_t length, const char **member);
/** Put an override into the tree of a file, replacing an existing value. */
ZR_NODISCARD zr_status zr__override_apply(json_t *root, const char *override);

/** Return the key of this path ("*" included) or NULL. */
const zr_key *zr__key_find(const char *path);
/** The places of a dotted path, from the root; parts beyond the last stay with it. */
typedef struct zr__key_place {
    zr__json_place place[5];
    char part[4][128];
} zr__key_place;
/** Split a path at its dots; return the last place, which borrows from `out`. */
const zr__json_place *zr__key_place_of(const char *path, zr__key_place *out);
/** Return whether keys begin with "path.". */
bool zr__key_is_section(const char *path);
/** Return whether the configuration uses the key: it does not use parameters of other optimizers and schedulers, nor
 * fp16's without fp16.enabled. */
bool zr__key_is_read(const zr_config *config, const zr_key *key);
/** Find the key or section that was probably meant, in `out`, or NULL. */
const char *zr__key_nearest(const char *path, char *out, size_t size);
/** Print the values that a key takes, "an integer from 1 to 8". Returns `out`. */
const char *zr__key_wanted(const zr_key *key, char *out, size_t size);
#define ZR_WANTED_BYTES 192
/** The same in scratch of the enclosing block. */
#define ZR_WANTED(key) zr__key_wanted((key), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Print "a, b, c" for "a|b|c". Returns `out`. */
const char *zr__choice_list(const char *choices, char *out, size_t size);
/** The same in scratch of the enclosing block. */
#define ZR_CHOICES(choices) zr__choice_list((choices), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Find a word in "a|b|c", ignoring case; return its position, or -1. */
int zr__choice_index(const char *choices, const char *word, size_t length);

/** Add words, broken into lines of up to `columns` that begin with `begin` and `next`, and a line break. */
void zr__add_words(zr__text *out, const char *begin, const char *next, int columns, const char *words);

/** Check a value and store it in its field. */
ZR_NODISCARD zr_status zr__value_set(zr_config *config, const zr_key *key, const json_t *value,
                                     const zr__source *source, const zr__json_place *place);
/** Return the field's value as JSON, the default for keys without field; NULL: out of memory. */
json_t *zr__value_get(const zr_config *config, const zr_key *key);
/** Store the default in the key's field. */
ZR_NODISCARD zr_status zr__value_default(zr_config *config, const zr_key *key);
/** Print the field's value for people; false: it still is "auto". */
bool zr__value_text(const zr_config *config, const zr_key *key, char *out, size_t size);

/** Remember a key without effect, for zr__config_note_all. */
ZR_NODISCARD zr_status zr__config_unused(zr_config *config, const char *path);
/** Add notices, one line per section, about keys without effect and about values chosen for "auto"; call it when all
 * is settled. */
ZR_NODISCARD zr_status zr__config_note_all(zr_config *config);

/** Print "write "AdamW", "Adam" or "SGD"" for a LIMITED key. Returns `out`. */
const char *zr__key_available(const zr_key *key, char *out, size_t size);
/** The same in scratch of the enclosing block. */
#define ZR_AVAILABLE(key) zr__key_available((key), (char[ZR_WANTED_BYTES]){0}, ZR_WANTED_BYTES)
/** Remember the failure that the value or key at `path` has just caused. key: the key if its value is not available. */
ZR_NODISCARD zr_status zr__refusal_add(zr_config *config, zr_status status, const zr_key *key, bool unknown,
                                       const char *path, const char *found);
/** Fail with one message for all remembered failures, one line per section; ZR_OK when there are no failures. */
zr_status zr__refusals_say(zr_config *config);
void zr__refusals_free(zr_config *config);

/** Keep a copy of a string; NULL: out of memory. */
const char *zr__config_keep(zr_config *config, const char *text);
/** Add a notice, once. */
ZR_NODISCARD zr_status zr__config_note(zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);
/** Fail with ZR_ERR_CONFIG "file: message", for errors found only when all values are known. */
zr_status zr__config_refuse(const zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);

/** Return the value of a key in the recipe of a small model, as JSON; NULL: the recipe does not set it. */
const char *zr__recipe_value(const char *path);
/** Fill in the recipe if it was requested (zr__config_take_recipe), once sizes are known. */
ZR_NODISCARD zr_status zr__config_recipe(zr_config *config);

/** Check keys that do not depend on the number of ranks against each other. */
ZR_NODISCARD zr_status zr__config_check(const zr_config *config, const zr__source *source);

#endif
