#include "cli/cli.h"

#include "base/text.h"

#include <math.h>

void cli_json_print(FILE *out, const char *text, int64_t bytes)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    fputc('"', out);
    for (;;) {
        int64_t n = zr__text_json(text, bytes, escape);
        fwrite(text, 1, (size_t)n, out);
        fputs(escape, out);
        if (n == bytes) break;
        text += n + 1;
        bytes -= n + 1;
    }
    fputc('"', out);
}

const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, text) : "null";
}
