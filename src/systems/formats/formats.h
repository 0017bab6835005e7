/**
 * systems/formats: configurations of other training systems, read and written. A configuration is a list of settings,
 * names with values, whatever its syntax: settings.c holds the list and reads JSON, TOML and constants of Python,
 * yaml.c reads YAML, flags.c command lines and shell scripts. A format is the vocabulary of one system in a table of
 * rules, each of which says that some of their settings mean some of ours (megatron.c, torchtitan.c, deepspeed.c,
 * accelerate.c, trainer.c, fsdp2.c). translate.c applies a table in either direction, so that reading and writing
 * cannot differ. settle.c computes what follows from other settings. print.c prints settings in the syntax of a format.
 *
 * Our settings are keys of zr's configuration, and further names:
 *     system          name of the system (zr__system)
 *     with.NAME       option NAME of the system
 *     ranks           number of ranks; or hosts and per_host, whose product it is
 *     file            JSON file of DeepSpeed that holds the rest
 *     model           name or directory of a model
 */
#ifndef ZR_SYSTEMS_FORMATS_H
#define ZR_SYSTEMS_FORMATS_H

#include "base/text/text.h"

/* ---- settings -------------------------------------------------------------------------------- */

/** A setting of a configuration. Values are text, as a person would write them: true, 8, bf16; elements of a list are
 * separated by commas. */
typedef struct zr__setting {
    char *name, *value;
    int line;         /* line in its file, or 0 */
    const char *from; /* for a setting that was translated: name of the first setting that it comes from, or NULL */
    bool used;        /* whether a rule has translated it */
    bool plain;       /* for a setting of ours: a value that needs no mention */
} zr__setting;

enum { ZR__SETTINGS_MOST = 4096 }; /* of a list, which is searched from its start */

/** A list of settings. Set it to zeros before the first use. */
typedef struct zr__settings {
    zr__setting *one;
    int64_t n, room;
} zr__settings;

/** Add a setting. Error: ZR_ERR_CONFIG for more than any configuration has. */
ZR_NODISCARD zr_status zr__settings_add(zr__settings *list, const char *name, const char *value, int line);
/** Return the first setting with this name, or NULL. In names, '-' equals '_'. */
zr__setting *zr__settings_find(const zr__settings *list, const char *name);
/** Return the value of the first setting with this name, or NULL. */
const char *zr__settings_value(const zr__settings *list, const char *name);
void zr__settings_clear(zr__settings *list);
/** Return whether two names are equal, with '-' equal to '_'. */
bool zr__same_name(const char *a, const char *b);
/** Return whether two values are equal: as text without regard to case, or as numbers. */
bool zr__same_value(const char *a, const char *b);

/** Read the settings of a file or a command line. `name` is its name in messages. Names of nested settings are joined
 * by dots. Settings without a value (null) are left out. A line "#zr NAME VALUE" is a setting of ours, with the name
 * "zr.NAME". Fail with ZR_ERR_CONFIG if the text has none of the syntaxes, or a setting twice with different values. */
ZR_NODISCARD zr_status zr__settings_read(const char *text, size_t bytes, const char *name, zr__settings *list);

/** Parts of zr__settings_read. `what` names the text in messages. */
ZR_NODISCARD zr_status zr__settings_read_yaml(const char *text, size_t bytes, const char *what, zr__settings *list);
ZR_NODISCARD zr_status zr__settings_read_flags(const char *text, size_t bytes, const char *what, zr__settings *list);

/* ---- formats --------------------------------------------------------------------------------- */

/** In which direction a rule holds. */
typedef enum zr__rule_kind {
    ZR__RULE_BOTH,
    ZR__RULE_READ,     /* an older or another form, which is not written */
    ZR__RULE_WRITE,    /* also written, and without meaning when read */
    ZR__RULE_STANDARD, /* what their configuration means if it says nothing; nothing is written for these values */
    ZR__RULE_REFUSED,  /* what zr cannot plan; `note` says what to do */
    ZR__RULE_NEAREST,  /* written: the nearest that the system has; `note` says what differs */
} zr__rule_kind;

/** A rule: `theirs` means `ours`. Each side is a list of NAME=VALUE separated by blanks. The value * stands for any
 * value, the same on both sides. What follows '?' is a condition, which must hold in both directions, among the
 * settings that are there when the rule's turn comes, and is neither used nor written: NAME=A|B|C, NAME!=A|B, NAME (it
 * is given) or !NAME (it is not given). Outside of conditions A|B is read as either, and written as A. Rules take turns
 * in the order of the table, and each setting is used once. */
typedef struct zr__rule {
    const char *theirs, *ours;
    zr__rule_kind kind;
    const char *note; /* comment for users where the rule is applied, or NULL */
} zr__rule;
#define ZR__BOTH(t, o)                                                                                                 \
    {                                                                                                                  \
        .theirs = t, .ours = o                                                                                         \
    }
#define ZR__READ(t, o)                                                                                                 \
    {                                                                                                                  \
        .theirs = t, .ours = o, .kind = ZR__RULE_READ                                                                  \
    }
#define ZR__WRITE(t, o)                                                                                                \
    {                                                                                                                  \
        .theirs = t, .ours = o, .kind = ZR__RULE_WRITE                                                                 \
    }
#define ZR__STANDARD(t, o)                                                                                             \
    {                                                                                                                  \
        .theirs = t, .ours = o, .kind = ZR__RULE_STANDARD                                                              \
    }
#define ZR__REFUSED(t, text)                                                                                           \
    {                                                                                                                  \
        .theirs = t, .ours = "", .kind = ZR__RULE_REFUSED, .note = text                                                \
    }
#define ZR__NEAREST(t, o, text)                                                                                        \
    {                                                                                                                  \
        .theirs = t, .ours = o, .kind = ZR__RULE_NEAREST, .note = text                                                 \
    }

typedef enum zr__syntax { ZR__SYNTAX_JSON, ZR__SYNTAX_YAML, ZR__SYNTAX_SHELL, ZR__SYNTAX_PYTHON } zr__syntax;

typedef struct zr__format {
    const char *name, *title;
    zr__syntax syntax;
    const char *signs;    /* names that only this format has, separated by blanks; one may end with '*' */
    const char *idle;     /* names that change neither memory nor time, in the same form */
    const char *timing;   /* names that change only times, in ways that zr does not price; or NULL */
    const char *launch;   /* SHELL: names of the launcher's options */
    const char *systems;  /* names of the systems that it is for, the usual one first */
    const char *needs;    /* names of ours that the file must say, since nothing else of the run does, or NULL */
    bool shapes;          /* whether the file has the sizes of the model */
    bool commas;          /* command lines: whether commas separate the values of an option, not blanks */
    const char *command;  /* SHELL: the line that uses the options, PYTHON: the code after the settings, or NULL */
    bool passes;          /* whether settings that no rule uses are keys of zr's configuration */
    const zr__rule *rule; /* ends with a row whose `theirs` is NULL */
} zr__format;

/** Return the i-th format, or NULL after the last. */
const zr__format *zr__format_at(int i);
/** Find a format by its name. Fail with ZR_ERR_ARG and the names in the message. */
ZR_NODISCARD zr_status zr__format_find(const char *name, const zr__format **format);
/** Return whether a format is for a system. */
bool zr__format_is_for(const zr__format *format, const char *system);
/** Return the format that has the most of these settings, or NULL if none has any of its signs. */
const zr__format *zr__format_of(const zr__settings *theirs);

/** Translate their settings to ours. Settings that no rule uses are listed in `said` if they are known to be idle, or
 * to change only times, one line for each kind; others make it fail with ZR_ERR_CONFIG, with a message that names all
 * of them. `name` is the file's name in messages. */
ZR_NODISCARD zr_status zr__format_read(const zr__format *format, zr__settings *theirs, const char *name,
                                       zr__settings *ours, zr__text *said);
/** Add the options of the system that follow from this format and that it has no settings for. For example, torchtitan
 * computes the loss in 8 chunks. */
ZR_NODISCARD zr_status zr__format_options(const zr__format *format, zr__settings *ours);
/** Compute what follows from other settings of ours. `ranks`, and `layers` and `width` of the model, come from
 * elsewhere if not 0. Names of `ours` that formats use instead of those of zr:
 *     ranks               from hosts and per_host
 *     global              samples of a step over all ranks, from which the micro-batches of a step follow
 *     local               samples of a step of a data-parallel rank, with pipelines
 *     layers_per_chunk    layers of a stage
 *     shard               ranks over which states are sharded, which is checked
 * When reading, settle the keys of zr from these; when writing, add these from the keys. Fail with ZR_ERR_CONFIG if
 * they contradict each other; `name` is the file's name in messages. */
ZR_NODISCARD zr_status zr__format_settle(const char *name, zr__settings *ours, int64_t ranks, int64_t layers,
                                         int64_t width);
ZR_NODISCARD zr_status zr__format_derive(zr__settings *ours, int64_t ranks, int64_t per_host, int64_t layers);
/** Translate our settings to theirs. Fail with ZR_ERR_UNSUPPORTED if the format has nothing for a setting that every
 * system must do itself, such as a stage, or that zr__format.needs names; the message says which values it has. The
 * notes of rules are added to `notes`, one a line. Settings that stay unused have no place in the format. */
ZR_NODISCARD zr_status zr__format_write(const zr__format *format, zr__settings *ours, zr__settings *theirs,
                                        zr__text *notes);
/** Print their settings in the syntax of a format. `head` has the lines of the comment at the beginning. `comments` has
 * the comment of a setting of ours as its value. The settings of ours that no rule used follow as lines "#zr", or in
 * JSON, which has no comments, as the object "zr", which DeepSpeed and zr ignore. */
ZR_NODISCARD zr_status zr__format_print(const zr__format *format, const zr__settings *theirs, const char *head,
                                        const zr__settings *comments, const zr__settings *ours, zr__text *out);

extern const zr__format zr__format_deepspeed, zr__format_accelerate, zr__format_fsdp2, zr__format_torchtitan,
    zr__format_megatron, zr__format_trainer;

#endif
