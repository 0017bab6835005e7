/* JSON on stdout, as commands print it. */
#include "cli/shell/message.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

void cli_json_print(FILE *out, const char *text, int64_t bytes)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    int64_t escaped = 0;
    fputc('"', out);
    for (;;) {
        int64_t n = zr__text_json(text, bytes, escape, &escaped);
        fwrite(text, 1, (size_t)n, out);
        fputs(escape, out);
        if (n == bytes) break;
        text += n + escaped;
        bytes -= n + escaped;
    }
    fputc('"', out);
}

/** Return the bytes of the next character of JSON, and what replaces it if a terminal would obey it, otherwise "". */
static int64_t next_shown(const char *json, char escape[ZR_JSON_ESCAPE_BYTES])
{
    int64_t escaped = 0, n = zr__text_utf8(json, (int64_t)strnlen(json, 4));
    if (n <= 1 || zr__text_json(json, n, escape, &escaped) > 0) escape[0] = '\0';
    return n > 1 ? n : 1; /* quotes, brackets and escapes of JSON are ASCII */
}

void cli_json_append_shown(zr__text *out, const char *json)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    for (int64_t n; *json; json += n) {
        n = next_shown(json, escape);
        zr__text_append(out, *escape ? escape : json, *escape ? strlen(escape) : (size_t)n);
    }
}

void cli_json_put_text(FILE *out, const char *json)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    for (int64_t n; *json; json += n) {
        n = next_shown(json, escape);
        fwrite(*escape ? escape : json, 1, *escape ? strlen(escape) : (size_t)n, out);
    }
}

zr_status cli_json_finish(zr__json_out *json, FILE *out)
{
    char *text = NULL;
    ZR_TRY(zr__text_take(&json->text, &text));
    fprintf(out, "%s\n", text);
    zr_free(text);
    return ZR_OK;
}

const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, text) : "null";
}
