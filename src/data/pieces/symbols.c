#include "data/pieces/symbols.h"

#include "base/text/text.h"

enum { NONE = -1 };
/* Bytes that are not printable are in three ranges: 0 to 32, 127 to 160, and 173. */
enum { BYTES = 256, OTHERS_LOW = 33, OTHERS_HIGH = 67, HIGH_FIRST = 127, HIGH_LAST = 160, SOFT_HYPHEN = 173 };

uint32_t zr__bpe_symbol(unsigned char byte)
{
    if (byte < OTHERS_LOW) return BYTES + byte;
    if (byte == SOFT_HYPHEN) return BYTES + OTHERS_HIGH;
    if (byte < HIGH_FIRST || byte > HIGH_LAST) return byte;
    return BYTES + OTHERS_LOW + (uint32_t)(byte - HIGH_FIRST);
}

/* Return the byte that a character represents in token names, or NONE if it represents no byte. */
static int byte_of(uint32_t character)
{
    if (character < BYTES) return zr__bpe_symbol((unsigned char)character) == character ? (int)character : NONE;
    int other = (int)character - BYTES;
    if (other < OTHERS_LOW) return other;
    if (other < OTHERS_HIGH) return other - OTHERS_LOW + HIGH_FIRST;
    return other == OTHERS_HIGH ? SOFT_HYPHEN : NONE;
}

int64_t zr__bpe_spell(const char *name, int64_t n, char *out)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; bytes++) {
        int64_t length = zr__text_utf8(name + i, n - i);
        unsigned char lead = (unsigned char)name[i];
        uint32_t character = length == 2 ? (lead & 0x1fu) << 6 | ((unsigned char)name[i + 1] & 0x3fu) : lead;
        int byte = length == 1 || length == 2 ? byte_of(character) : NONE;
        if (byte == NONE) return NONE;
        out[bytes] = (char)byte;
        i += length;
    }
    return bytes;
}
