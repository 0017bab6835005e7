/** Detection of files that were named as text but are not, by their first bytes and by bytes that texts do not have. */
#ifndef ZR_DATA_KIND_H
#define ZR_DATA_KIND_H

#include "base/file/file.h"

/** Fail with ZR_ERR_DATA if the file begins like a format that is neither text nor tokens; the message has the format's
 * name and advice. `tokens` is true for a file of uint16 tokens, which may begin with any two or three bytes by
 * chance. */
ZR_NODISCARD zr_status zr__data_refuse_kind(const zr__file *file, bool tokens);

/** Check beginning, middle and end of a text. Fail with ZR_ERR_DATA if at least one byte in sixteen is NUL, since such
 * a file is not text. `note` receives a line about fewer NULs or bytes that are not UTF-8, or "". */
ZR_NODISCARD zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size);

#endif
