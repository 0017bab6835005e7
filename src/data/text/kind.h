/** Detects files that were given as text but are not text. Such files have the magic number of another format, or bytes
 * that texts do not contain. */
#ifndef ZR_DATA_KIND_H
#define ZR_DATA_KIND_H

#include "base/file/file.h"

/** Fail with ZR_ERR_DATA if the file's text, unpacked if it is compressed, begins like another format, such as Parquet
 * or PDF. The message names the format and gives advice. If `tokens` is true, the file should hold uint16 tokens: it is
 * not unpacked, and short magic numbers are ignored, since tokens may equal them by chance. */
ZR_NODISCARD zr_status zr__data_refuse_kind(const zr__file *file, bool tokens);

/** Store a remark in `note` if the path of a text has the ending of a format that zr__data_refuse_kind refuses, such as
 * .xz. Otherwise store "". */
void zr__data_note_name(const zr__file *file, const char *path, char *note, size_t size);

/** Check the beginning, middle and end of a text, or the beginning if it is compressed. Fail with ZR_ERR_DATA if at
 * least one byte in sixteen is NUL, because the file is then binary. If the text has fewer NULs, or bytes that are not
 * UTF-8, `note` receives a remark; otherwise it receives "". */
ZR_NODISCARD zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size);

#endif
