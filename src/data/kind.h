/** What a file is that was given as text: by how it begins, and by bytes that no text has. */
#ifndef ZR_DATA_KIND_H
#define ZR_DATA_KIND_H

#include "base/file.h"

/** ZR_ERR_DATA for a file that begins as one of a format that is neither text nor tokens, with its name and what to do.
 *  `tokens`: it is to be read as uint16 tokens, which may well begin with any two or three bytes. */
ZR_NODISCARD zr_status zr__data_refuse_kind(const zr__file *file, bool tokens);

/** Look at a text's beginning, middle and end: ZR_ERR_DATA when one NUL in sixteen bytes says that it is none. Of less,
 *  and of what is not UTF-8, a line in `note`; "" when there is nothing to say. */
ZR_NODISCARD zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size);

#endif
