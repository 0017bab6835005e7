/**
 * Reads token files in the format of Megatron-LM. X.bin holds the concatenated tokens of all documents. Its index X.idx
 * has this format (little-endian):
 *
 *   byte 0    "MMIDIDX", two NULs
 *   byte 9    u64 version, 1
 *   byte 17   u8 type of a token: 4 int32, 8 uint16 (files of other types hold no tokens)
 *   byte 18   u64 S sequences, u64 D entries of the table of documents
 *   byte 34   S x int32 length of a sequence, in tokens
 *             S x int64 offset of a sequence in X.bin, in bytes
 *             D x int64 index of a document's first sequence; the last entry is S
 *             S x int8 modes, only where texts and pictures are mixed
 */
#ifndef ZR_DATA_INDEXED_H
#define ZR_DATA_INDEXED_H

#include "base/file/file.h"

/** Check a whole index against the size of its token file. The sequences must cover the file in order and without gaps,
 * because the file is read as one long sequence of tokens. Errors: ZR_ERR_DATA naming file and byte;
 * ZR_ERR_NOT_FOUND. */
ZR_NODISCARD zr_status zr__indexed_read(const char *index, const zr__file *bin, int *token_bytes);

#endif
