#include "cli/cli.h"

#include "base/text.h"

#include <math.h>

void cli_json_print(FILE *out, const char *text, int64_t bytes)
{
    fputc('"', out);
    for (int64_t i = 0; i < bytes;) {
        const unsigned char *at = (const unsigned char *)text + i;
        int64_t n = zr__text_utf8((const char *)at, bytes - i);
        if (n == 0) {
            fputs("\\ufffd", out);
        } else if (at[0] < 0x20 || at[0] == 0x7f) {
            fprintf(out, "\\u%04x", at[0]);
        } else if (at[0] == '"' || at[0] == '\\') {
            fprintf(out, "\\%c", at[0]);
        } else {
            fwrite(at, 1, (size_t)n, out);
        }
        i += n ? n : 1;
    }
    fputc('"', out);
}

const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, text) : "null";
}
