#include "cli/cli.h"

#include <math.h>

/** Bytes of the UTF-8 sequence that starts at text, 0 when there is none. */
static int64_t sequence(const unsigned char *text, int64_t bytes)
{
    int64_t n = text[0] < 0x80                      ? 1
                : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                : (text[0] & 0xf0) == 0xe0          ? 3
                : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                    : 0;
    if (n == 0 || n > bytes) return 0;
    for (int64_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool surrogate = text[0] == 0xed && text[1] > 0x9f;
    bool beyond = text[0] == 0xf4 && text[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

void cli_json_print(FILE *out, const char *text, int64_t bytes)
{
    fputc('"', out);
    for (int64_t i = 0; i < bytes;) {
        const unsigned char *at = (const unsigned char *)text + i;
        int64_t n = sequence(at, bytes - i);
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
