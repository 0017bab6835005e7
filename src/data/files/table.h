/** Rows of comma-separated values (RFC 4180) or tab-separated values. The first row has the names of the columns. A
 * field in quotes may contain separators, line ends and doubled quotes. */
#ifndef ZR_DATA_FILES_TABLE_H
#define ZR_DATA_FILES_TABLE_H

#include "base/file/file.h"

#include <jansson.h>

/** The columns of a file. Set it to zeros before the first use. */
typedef struct zr__table {
    char separator; /* 0: the file is no table */
    json_t *column; /* names of the columns */
    int64_t bytes;  /* bytes of the text up to the end of the first row */
} zr__table;

/** Return the offset behind the row that begins at offset `at`, with its line end; or -1 if text[0, n) ends within the
 * row. If `whole`, nothing follows the text, so its end also ends a row, unless it is within quotes. */
int64_t zr__table_row_end(char separator, const char *text, int64_t n, int64_t at, bool whole);

/** Read the names of the columns. Errors: ZR_ERR_DATA without names, or if two are equal; as zr__stream_head. */
ZR_NODISCARD zr_status zr__table_open(const zr__file *file, char separator, zr__table *table);
void zr__table_close(zr__table *table);

/** Make an object of a row: a member with a text for each column. If the row is bad, set *object to NULL and write the
 * reason. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__table_object(const zr__table *table, const char *row, int64_t bytes, json_t **object,
                                        char *reason, size_t size);

#endif
