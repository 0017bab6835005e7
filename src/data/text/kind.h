/** Detects files that were given as text but are not text. Such files have the magic number of another format, or bytes
 * that texts do not contain. */
#ifndef ZR_DATA_KIND_H
#define ZR_DATA_KIND_H

#include "base/file/file.h"

/** Fail with ZR_ERR_DATA if the file begins like another format, such as gzip or PDF. The message names the format and
 * gives advice. If `tokens` is true, the file should hold uint16 tokens: short magic numbers are then ignored, since
 * tokens may equal them by chance. */
ZR_NODISCARD zr_status zr__data_refuse_kind(const zr__file *file, bool tokens);

/** Fail with ZR_ERR_DATA if the path of a file that has no records ends like that of a table (.csv, .tsv). `remedy`
 * ends the message. It gives the form of a record, and other ways to pass the data. */
ZR_NODISCARD zr_status zr__data_refuse_table(const zr__file *file, const char *path, const char *remedy);

/** Store a remark in `note` if the path of a text has the ending of a format that zr__data_refuse_kind refuses, such as
 * .gz. Otherwise store "". */
void zr__data_note_name(const zr__file *file, const char *path, char *note, size_t size);

/** Check the beginning, middle and end of a text. Fail with ZR_ERR_DATA if at least one byte in sixteen is NUL, because
 * the file is then binary. If the text has fewer NULs, or bytes that are not UTF-8, `note` receives a remark; otherwise
 * it receives "". */
ZR_NODISCARD zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size);

#endif
