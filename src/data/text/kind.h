/** Recognising files that are no text although they were named as one: by their first bytes, and by bytes that no
 * text has. */
#ifndef ZR_DATA_KIND_H
#define ZR_DATA_KIND_H

#include "base/file/file.h"

/** Refuse a file that begins as a format that is neither text nor tokens: ZR_ERR_DATA with its name and advice.
 * `tokens`: it is read as uint16 tokens, which may begin with any two or three bytes by chance. */
ZR_NODISCARD zr_status zr__data_refuse_kind(const zr__file *file, bool tokens);

/** Look at the beginning, middle and end of a text. ZR_ERR_DATA: one byte in sixteen, or more, is NUL, so it is no
 * text. `note`: a line about fewer NULs or bytes that are not UTF-8, or "". */
ZR_NODISCARD zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size);

#endif
