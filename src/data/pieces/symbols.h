/**
 * The characters that represent bytes in the names of tokens of byte-level BPE, as in GPT-2.
 */
#ifndef ZR_DATA_SYMBOLS_H
#define ZR_DATA_SYMBOLS_H

#include <stdint.h>

/** Return the character that represents a byte in token names, as in GPT-2. Printable bytes of Latin-1 represent
 * themselves. The other bytes, in order, are represented by U+0100 and the following characters. */
uint32_t zr__bpe_symbol(unsigned char byte);
/** Convert a token's name (UTF-8, n bytes) to the bytes that its characters represent. `out` needs space for n bytes.
 * Return the number of bytes, or -1 if a character represents no byte. */
int64_t zr__bpe_spell(const char *name, int64_t n, char *out);

#endif
