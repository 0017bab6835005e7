/**
 * data/files: files as texts. This header reads a file from its beginning to its end, and unpacks it if it is
 * compressed. table.h reads rows of comma-separated values, and parquet.h the names of a Parquet file's columns.
 *
 * A file is compressed if it begins with the magic number of gzip or zstd, whatever it is called. Memory does not grow
 * with the size of the text, however well it was compressed: a window of at most 128 MiB, and two pieces.
 */
#ifndef ZR_DATA_FILES_STREAM_H
#define ZR_DATA_FILES_STREAM_H

#include "base/file/file.h"

typedef enum zr__packing { ZR__UNPACKED, ZR__GZIP, ZR__ZSTD } zr__packing;

typedef struct zr__stream zr__stream;

/** Find how a file is compressed. Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__packing_of(const zr__file *file, zr__packing *packing);

/** Begin to read a file, which must stay open. Errors: ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stream_open(const zr__file *file, zr__stream **stream);
void zr__stream_close(zr__stream **stream);

/** Read the next `bytes` bytes of the text, or fewer at its end. *got receives their number. Errors: ZR_ERR_DATA if
 * compressed data are damaged or end too early; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stream_read(zr__stream *stream, void *out, int64_t bytes, int64_t *got);

/** Return the number of bytes left. If part of a compressed text has been read, return 0 at its end, and INT64_MAX
 * before. */
int64_t zr__stream_left(const zr__stream *stream);

/** Return how many bytes of the file were read. */
int64_t zr__stream_at(const zr__stream *stream);

/** Read the first `bytes` bytes of a file's text, or fewer if it is shorter. Errors: as zr__stream_read. */
ZR_NODISCARD zr_status zr__stream_head(const zr__file *file, void *out, int64_t bytes, int64_t *got);

#endif
