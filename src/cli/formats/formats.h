/** cli/formats: configurations of other systems as arguments of `zr plan`, --from and --emit. from.c turns a file into
 * keys of zr and options of a system; emit.c writes a planned configuration as a file of a system. */
#ifndef ZR_CLI_FORMATS_H
#define ZR_CLI_FORMATS_H

#include "cli/shell/args.h"
#include "systems/formats/formats.h"
#include "zr/config.h"

/** A configuration of another system, from --from. Set it to zeros before the first use. */
typedef struct cli_from {
    const zr__format *format;
    const char *name;          /* name of the file in messages */
    zr__settings theirs, ours; /* settings of the file, and zr's keys for them */
    zr__settings texts;        /* of overrides and options */
    const char *system;        /* name of the system, or NULL */
    int64_t ranks;             /* number of ranks that the file gives, or 0 */
} cli_from;

/** Read --from: a file, or the options themselves. `preset` and `init`, or NULL, name the model; `ranks` is 0 if not
 * given. Print what was read. */
ZR_NODISCARD zr_status cli_from_read(const char *given, const char *preset, const cli_args *args, int64_t ranks,
                                     cli_from *from);
/** Insert the keys of zr before all other overrides, which take precedence. */
ZR_NODISCARD zr_status cli_from_overrides(cli_from *from, cli_args *args);
/** Set the system of --from, or of the format of --emit (or NULL), unless `system` names one, and insert its options
 * before those of the list, which take precedence. */
ZR_NODISCARD zr_status cli_formats_options(cli_from *from, const zr__format *emit, const char **system, cli_list *with);
/** Return whether the file names a model. */
bool cli_from_model(const cli_from *from);
/** Return `st`. If it is an error whose message names a key that came from the file, add the name in the file. */
zr_status cli_from_explain(const cli_from *from, zr_status st);
void cli_from_clear(cli_from *from);

/** What --emit writes. */
typedef struct cli_emit {
    const zr__format *format;
    const char *system;   /* name of the system */
    const cli_list *with; /* options of the system, as NAME=VALUE */
    int64_t ranks, per_host;
    const char *head;             /* lines of the comment at the beginning */
    const zr__settings *comments; /* comments of keys of zr */
} cli_emit;

/** Write a resolved configuration as a file of a system: to `path`, or to stdout if it is NULL. */
ZR_NODISCARD zr_status cli_emit_write(const cli_emit *emit, const zr_config *config, const char *path);
/** Refuse an output that cannot be written, before the work begins. */
ZR_NODISCARD zr_status cli_emit_check(const zr__format *format, const zr_config *config, const char *path);

#endif
