/** Text for people on stderr and stdout, and JSON on stdout. */
#ifndef ZR_CLI_SHELL_MESSAGE_H
#define ZR_CLI_SHELL_MESSAGE_H

#include "base/json/json_write.h"
#include "base/paths/output.h"
#include "base/text/text.h"
#include "cli/shell/args.h"

#include <limits.h>
#include <stdio.h>

/** A path in a message, never cut: zr__text_escape in scratch of the enclosing block. */
#define CLI_SHOWN(path) zr__text_escape((path), (char[PATH_MAX]){0}, PATH_MAX)

/** Print "zr: " and a message on stderr, control bytes escaped, at most 12 lines. */
void cli_say(const char *format, ...) ZR_PRINTF(1, 2);

/** Print the last failure of this thread. */
void cli_say_error(void);

/** Flush stdout; ZR_ERR_IO when something could not be written. */
ZR_NODISCARD zr_status cli_flush(void);

/** Return whether cli_flush failed because the reader of stdout has left, as `head` does. The command then ends
 * quietly, with 0. */
bool cli_reader_left(void);

/** Check, before anything is written, that stdout is no file that is read (`inputs` as for zr__output_open).
 * ZR_ERR_CREATE. */
ZR_NODISCARD zr_status cli_check_stdout(const char *const *inputs);

/** Output kind of the pictures that commands draw. */
extern const zr__output_kind cli_svg_kind;

/** Return whether a launcher (MPI, Slurm) runs this process. Then stderr is no terminal, whatever isatty says. */
bool cli_launched(void);
#define CLI_BOLD "\033[1m"
#define CLI_PLAIN "\033[0m"

/** Return whether stderr gets colours. */
bool cli_colored(cli_color color);

/** Return whether stdout gets colours. */
bool cli_colored_out(cli_color color);

/** Write the number of parameters and, where only some train, the number that trains: "1.2 M (300 k train)"; returns
 * text. */
const char *cli_params(int64_t params, int64_t trained, char text[80]);

/** Write seconds as "12.3 ms" or "2.5 h"; returns text. */
const char *cli_seconds(double sec, char text[32]);

/** Seconds for one message, in scratch of the enclosing block. */
#define CLI_SECONDS(sec) cli_seconds((sec), (char[32]){0})

/** Append JSON text, as jansson writes it, with characters that a terminal would obey escaped. */
void cli_json_append_shown(zr__text *out, const char *json);

#endif
