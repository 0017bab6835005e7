/** config, inside: the reader of values and what a struct remembers of its reading. */
#ifndef ZR_CONFIG_INTERNAL_H
#define ZR_CONFIG_INTERNAL_H

#include "zr/config.h"
#include "base/json.h"
#include "base/shards.h"
#include "base/text.h"

#define ZR_CONFIG_MAX_KEYS 224
#define ZR_CONFIG_MAX_INT 0x1p53

typedef struct zr__string {
    struct zr__string *next;
    char text[];
} zr__string;

/** A key of the file that has no meaning here. */
typedef struct zr__unused {
    struct zr__unused *next;
    const zr_key *key;
    char path[];
} zr__unused;

struct zr_config_state {
    zr__unused *unused;          /* oldest first */
    struct zr__refusal *refused; /* likewise, while the file is read */
    zr__string *strings;         /* newest first */
    zr__string *notes;           /* oldest first */
    const char *name;            /* of the file, printable */
    const char *path;            /* of the file; NULL: it came from elsewhere */
    bool given[ZR_CONFIG_MAX_KEYS];
    bool overridden[ZR_CONFIG_MAX_KEYS];
    bool automatic[ZR_CONFIG_MAX_KEYS]; /* "auto" was given: what it became is told when all is settled */
    bool by_memory;                     /* zr_config_leave_open was called */
    bool goes_on;                       /* zr_config_go_on was called */
    bool recipe;                        /* zr_config_take_recipe was called */
};

/** Where values come from, for messages. */
typedef struct zr__source {
    const char *name; /* the file */
    const char *text; /* NULL: no file */
    size_t bytes;
    const char *const *overrides;
    int n_overrides;
} zr__source;

/** "file:line:column: key.path: message", or "command line: key.path: message" when an override gave it. */
zr_status zr__config_fail(const zr__source *source, const zr__json_place *place, zr_status status, const char *format,
                          ...) ZR_PRINTF(4, 5);

/** The key part of an override, without "--"; *value points behind '=', NULL when there is none. */
const char *zr__override_key(const char *override, size_t *length, const char **value);
/** An override's value for a key (NULL: none known): JSON, or else a string. NULL: out of memory. */
json_t *zr__override_value(const zr_key *key, const char *value);
/** Put an override into the tree of a file, replacing what is there. */
ZR_NODISCARD zr_status zr__override_apply(json_t *root, const char *override);

/** The key of this path ("*" included) or NULL. */
const zr_key *zr__key_find(const char *path);
/** Whether keys begin with "path.". */
bool zr__key_is_section(const char *path);
/** Whether the key says anything as the configuration stands: parameters of other optimizers and schedulers do not, nor
 *  do those of fp16 without fp16.enabled. */
bool zr__key_is_read(const zr_config *config, const zr_key *key);
/** The key or section that was probably meant, or NULL; into `out`. */
const char *zr__key_nearest(const char *path, char *out, size_t size);
/** "an integer from 1 to 8" ... into `out`. */
const char *zr__key_wanted(const zr_key *key, char *out, size_t size);
/** "a, b, c" of "a|b|c". Returns `out`. */
const char *zr__choice_list(const char *choices, char *out, size_t size);
/** Position of a word in "a|b|c", letters' case ignored; -1. */
int zr__choice_index(const char *choices, const char *word, size_t length);

/** Check a value and store it in its field. */
ZR_NODISCARD zr_status zr__value_set(zr_config *config, const zr_key *key, const json_t *value,
                                     const zr__source *source, const zr__json_place *place);
/** The field's value as JSON, the default for keys without field; NULL: out of memory. */
json_t *zr__value_get(const zr_config *config, const zr_key *key);
/** Store the default. */
ZR_NODISCARD zr_status zr__value_default(zr_config *config, const zr_key *key);
/** The field's value for people; false where it still is "auto". */
bool zr__value_text(const zr_config *config, const zr_key *key, char *out, size_t size);

/** Remember a key without a meaning, for zr__config_note_all. */
ZR_NODISCARD zr_status zr__config_unused(zr_config *config, const zr_key *key, const char *path);
/** Tell of keys without a meaning and of what "auto" became, a line a section, when all is settled. */
ZR_NODISCARD zr_status zr__config_note_all(zr_config *config);

/** "write "AdamW", "Adam" or "SGD"", for a LIMITED key. Returns `out`. */
const char *zr__key_available(const zr_key *key, char *out, size_t size);
/** Remember the failure that was just made of the value or key at `path`. key: of a value that is not available. */
ZR_NODISCARD zr_status zr__refusal_add(zr_config *config, zr_status status, const zr_key *key, bool unknown,
                                       const char *path, const char *found);
/** One message of them all, a line a section; ZR_OK when there is none. */
zr_status zr__refusals_say(zr_config *config);
void zr__refusals_free(zr_config *config);

/** Keep a copy of a string; NULL: out of memory. */
const char *zr__config_keep(zr_config *config, const char *text);
/** Add a notice, once. */
ZR_NODISCARD zr_status zr__config_note(zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);
/** ZR_ERR_CONFIG "file: message", for what shows only when everything is known. */
zr_status zr__config_refuse(const zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);

/** The value of a key in the recipe of a small model, as JSON; NULL: the recipe says nothing of it. */
const char *zr__recipe_value(const char *path);
/** Fill in the recipe where it was asked for (zr_config_take_recipe), once sizes are known. */
ZR_NODISCARD zr_status zr__config_recipe(zr_config *config);

/** Checks between keys that need no ranks. */
ZR_NODISCARD zr_status zr__config_check(const zr_config *config, const zr__source *source);

#endif
