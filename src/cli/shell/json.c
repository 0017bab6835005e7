#include "cli/shell/cli.h"

#include "base/text/text.h"

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

void cli_json_put_text(FILE *out, const char *json)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    for (int64_t n; *json; json += n) {
        int64_t escaped = 0;
        n = zr__text_utf8(json, (int64_t)strnlen(json, 4));
        if (n > 1 && zr__text_json(json, n, escape, &escaped) == 0) {
            fputs(escape, out);
            continue;
        }
        n = n > 1 ? n : 1; /* quotes, brackets and escapes of JSON are ASCII */
        fwrite(json, 1, (size_t)n, out);
    }
}

const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, text) : "null";
}
