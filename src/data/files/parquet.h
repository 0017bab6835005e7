/** The names of a Parquet file's columns, for messages: zr does not read its data. */
#ifndef ZR_DATA_FILES_PARQUET_H
#define ZR_DATA_FILES_PARQUET_H

#include "base/file/file.h"

/** List the names of the columns, such as "\"prompt\", \"answer\"". Return false if the file's footer does not tell
 * them in a form that zr reads, or if the footer has more than 1 MiB. */
bool zr__parquet_columns(const zr__file *file, char *out, size_t size);

#endif
