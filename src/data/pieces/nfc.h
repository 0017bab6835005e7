/**
 * Unicode's normalization forms, by the library utf8proc. zr__nfc_is finds by a table, without the library, that most
 * text is already normalized. As in the package `tokenizers`, only the combining characters of Unicode 9 are known:
 * newer ones keep their places and do not compose.
 */
#ifndef ZR_DATA_NFC_H
#define ZR_DATA_NFC_H

#include "base/text/text.h"
#include "data/pieces/classes.h"

typedef enum zr__unicode_form { ZR__FORM_C, ZR__FORM_D, ZR__FORM_KC, ZR__FORM_KD } zr__unicode_form;

/** Create the table of the characters that normalization may change, from the library's data. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__nfc_open(zr__unicode_form form, zr__classes **nfc);

/** Return whether a character combines with others, or decomposes, only in versions of Unicode after 9. */
bool zr__nfc_is_newer(int32_t c);

/** Return the version of Unicode that the library uses, such as "15.0.0". */
const char *zr__nfc_version(void);

/** Return whether the text is certainly normalized. Bytes that are not UTF-8 stay unchanged. */
bool zr__nfc_is(const zr__classes *nfc, const char *text, int64_t bytes);

/** Append the normalized text to `out`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__nfc_add(zr__unicode_form form, const zr__classes *nfc, const char *text, int64_t bytes,
                                   zr__text *out);

/* ---- characters ------------------------------------------------------------------------------ */

enum { ZR__NFC_PARTS = 4 }; /* maximum number of characters in the decomposition of a character */

/** Decompose a character completely (NFD) into `part`, as the package `tokenizers` does. Return the number of parts. */
int64_t zr__nfc_decompose(int32_t c, int32_t part[ZR__NFC_PARTS]);

/** Return the combining class of a character in Unicode 9. Return 0 for a newer combining character. */
int zr__nfc_class(const zr__classes *nfc, int32_t c);

/** Sort by combining class the marks that follow each character without a combining class. `room` has space for n
 * characters. */
void zr__nfc_order(const zr__classes *nfc, int32_t *c, int64_t n, int32_t *room);

/** Convert a character to lower case, by Unicode 17. Return the number of characters in `lower`, 1 or 2. */
int64_t zr__lower(int32_t c, int32_t lower[2]);

/** Return the upper case of a character, or -1 if it is not, or may not be, one character. */
int32_t zr__upper(int32_t c);

/** Return whether a character is a mark (category M) in Unicode 9. */
bool zr__is_mark(int32_t c);

/** Return whether Python's repr() prints a character as it is. */
bool zr__is_printable(int32_t c);

#endif
