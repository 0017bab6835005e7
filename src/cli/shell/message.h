/** Messages for people on stderr and stdout, and JSON on stdout. */
#ifndef ZR_CLI_SHELL_MESSAGE_H
#define ZR_CLI_SHELL_MESSAGE_H

#include "base/json/json_write.h"
#include "base/paths/output.h"
#include "base/text/text.h"
#include "cli/shell/args.h"

#include <limits.h>
#include <stdio.h>

/** Return a path escaped for a message, at its full length. The text is in a temporary buffer that lives until the end
 * of the enclosing block. */
#define CLI_SHOWN(path) zr__text_escape((path), (char[PATH_MAX]){0}, PATH_MAX)

/** Print "zr: " and a message on stderr. Escape control characters, and print at most 12 lines. */
void cli_say(const char *format, ...) ZR_PRINTF(1, 2);

/** Print the error message of the last failure in this thread. */
void cli_say_error(void);

/** Flush stdout. Return ZR_ERR_IO if any output could not be written. */
ZR_NODISCARD zr_status cli_flush(void);

/** Return whether cli_flush failed because the reader of stdout, such as `head`, has exited. The command then ends
 * without a message, with exit code 0. */
bool cli_reader_left(void);

/** Check that stdout is not one of the command's input files, `inputs` (see zr__output_open). Call this function before
 * writing anything. Return ZR_ERR_CREATE if stdout is an input file. */
ZR_NODISCARD zr_status cli_check_stdout(const char *const *inputs);

/** File type of the pictures that commands draw, for zr__output_check and zr__output_write. */
extern const zr__output_kind cli_svg_kind;

#define CLI_BOLD "\033[1m"
#define CLI_PLAIN "\033[0m"

/** Return whether `fd` is a terminal on which text can be coloured and redrawn. Under a launcher (MPI,
 * Slurm), return false, even if isatty says otherwise. */
bool cli_is_terminal(int fd);

/** Return whether to colour text on `fd`, which is STDOUT_FILENO or STDERR_FILENO. */
bool cli_colored(cli_color color, int fd);

/** Write the number of parameters into `text`. If only a part of the parameters is trained, add their number: "1.2 M
 * (300 k train)". Return `text`. */
const char *cli_params(int64_t params, int64_t trained, char text[80]);

/** Write a number of seconds with a suitable unit, such as "12.3 ms" or "2.5 h", into `text`. Return `text`. */
const char *cli_seconds(double sec, char text[32]);

/** Format a number of seconds as cli_seconds does, in a temporary buffer that lives until the end of the enclosing
 * block. */
#define CLI_SECONDS(sec) cli_seconds((sec), (char[32]){0})

/** Append JSON text that jansson wrote. Escape characters that a terminal would interpret. */
void cli_json_append_shown(zr__text *out, const char *json);

#endif
