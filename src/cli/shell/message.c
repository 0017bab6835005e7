/* Messages on stderr, flushing of stdout, colours, and formats of numbers. */
#include "zr/comm.h"
#include "cli/shell/args.h"
#include "cli/shell/message.h"

#include <stdio.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINES 12
#define MESSAGE_BYTES 8192

/** Escape text for a terminal: control characters become \xNN. Keep backslashes, because the library has already
 * escaped text that comes from files. */
static void escape_line(const char *text, size_t bytes, char *out, size_t size)
{
    size_t n = 0;
    /* `hidden` is above 0 if the current character must be escaped; `left` counts the character's remaining bytes */
    int64_t hidden = 0, left = 0;
    for (size_t i = 0; i < bytes && n + 5 < size; i++) {
        if (left == 0) {
            hidden = zr__text_hidden(text + i, (int64_t)(bytes - i));
            left = zr__text_utf8(text + i, (int64_t)(bytes - i));
        }
        n += (size_t)snprintf(out + n, size - n, hidden > 0 ? "\\x%02x" : "%c", (unsigned char)text[i]);
        if (left > 0) left--;
    }
    out[n] = '\0';
}

/** Write a message with a single system call, so that the messages of several ranks do not mix. */
static void write_message(const char *message)
{
    char out[2 * MESSAGE_BYTES], shown[MESSAGE_BYTES];
    size_t length = 0;
    for (int n = 0; *message && n < MAX_LINES; n++) {
        size_t bytes = strcspn(message, "\n");
        escape_line(message, bytes, shown, sizeof(shown));
        length += (size_t)snprintf(out + length, sizeof(out) - length, "zr: %s%s\n", n ? "  " : "", shown);
        if (length >= sizeof(out)) length = sizeof(out) - 1;
        message += bytes + (message[bytes] == '\n');
    }
    if (write(STDERR_FILENO, out, length) < 0) return; /* ignore a failure, because it cannot be reported */
}

void cli_say(const char *format, ...)
{
    char message[MESSAGE_BYTES];
    ZR_PRINT_ARGS(message, format);
    write_message(message);
}

void cli_say_error(void)
{
    const char *message = zr_error_message();
    write_message(message[0] ? message : "failed without a message");
}

static bool reader_left;

/** Return whether stdout is a pipe whose reader is gone. */
static bool stdout_hung_up(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

zr_status cli_flush(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return ZR_OK;
    /* The pipe may have failed in an earlier write, whose errno is lost. Therefore poll the pipe. */
    reader_left = errno == EPIPE || stdout_hung_up();
    return ZR_FAIL(ZR_ERR_IO, "cannot write to standard output: %s", strerror(errno ? errno : EIO));
}

bool cli_reader_left(void)
{
    return reader_left;
}

const zr__output_kind cli_svg_kind = {"SVG picture", "<svg ", true};

zr_status cli_check_stdout(const char *const *inputs)
{
    return zr__output_check_stream(STDOUT_FILENO, "standard output", inputs);
}

bool cli_is_terminal(int fd)
{
    const char *term = getenv("TERM");
    const bool launched = zr_comm_mpi_launched() > 0 || getenv("SLURM_PROCID");
    return isatty(fd) && !launched && term && strcmp(term, "dumb") != 0;
}

bool cli_colored(cli_color color, int fd)
{
    const char *none = getenv("NO_COLOR");
    if (color != CLI_COLOR_AUTO) return color == CLI_COLOR_ALWAYS;
    return !(none && none[0]) && cli_is_terminal(fd);
}

const char *cli_params(int64_t params, int64_t trained, char text[80])
{
    if (trained == params)
        snprintf(text, 80, "%s", ZR_AMOUNT((double)params));
    else
        snprintf(text, 80, "%s (%s train)", ZR_AMOUNT((double)params), ZR_AMOUNT((double)trained));
    return text;
}

const char *cli_seconds(double sec, char text[32])
{
    static const struct {
        double least, unit;
        const char *format;
    } scale[] = {{172800, 86400, "%.1f d"}, {7200, 3600, "%.1f h"},  {600, 60, "%.1f min"},
                 {1, 1, "%.2f s"},          {1e-3, 1e-3, "%.1f ms"}, {0, 1e-6, "%.1f us"}};
    size_t i = 0;
    while (i + 1 < sizeof(scale) / sizeof(scale[0]) && sec < scale[i].least) i++;
    snprintf(text, 32, scale[i].format, sec / scale[i].unit);
    return text;
}

void cli_json_append_shown(zr__text *out, const char *json)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    for (int64_t n; *json; json += n) {
        int64_t escaped = 0;
        n = zr__text_utf8(json, (int64_t)strnlen(json, 4));
        const bool obeyed = n > 1 && zr__text_json(json, n, escape, &escaped) == 0;
        n = n > 1 ? n : 1; /* copy an ASCII byte, such as a quote or a bracket, unchanged */
        zr__text_append(out, obeyed ? escape : json, obeyed ? strlen(escape) : (size_t)n);
    }
}
