/* What the writer and the readers of chunks share. */
#ifndef ZR_CHECKPOINT_CHUNKS_H
#define ZR_CHECKPOINT_CHUNKS_H

#include "base/file_queue.h"
#include "zr/checkpoint.h"

/** Where a chunk that begins at `offset` ends at the latest. */
static inline int64_t zr__chunk_limit(int64_t offset)
{
    return (offset / ZR_CHUNK_BYTES + 1) * ZR_CHUNK_BYTES;
}

/** XXH3-64, by which chunks and manifests are checked. */
uint64_t zr__chunk_hash(const void *bytes, int64_t n);

/** Chunks in a list that grows. Zero-initialise; zr_free chunk. */
typedef struct zr__chunk_list {
    zr_chunk *chunk;
    int64_t n, room;
} zr__chunk_list;
ZR_NODISCARD zr_status zr__chunk_add(zr__chunk_list *list, zr_chunk chunk);

/** Open a file of a checkpoint that has the manifest's size. ZR_ERR_DATA naming the file: missing, not in the manifest,
 * a link, of another size. */
ZR_NODISCARD zr_status zr__listed_open(const char *dir, const zr_manifest *manifest, const char *name, zr__file *file);

#define ZR__NO_CHUNK (-1)

/** A file of a checkpoint of which only checked bytes are given out, a chunk at a time. */
typedef struct zr__checked_file {
    zr__file file;
    const zr_manifest_file *listed;
    zr__file_queue queue;
    bool direct;
    int part;             /* of the queue, with the chunk loaded last */
    int64_t held, loaded; /* the chunk that is there, checked, or ZR__NO_CHUNK; the one that was asked for last */
    int64_t ahead;        /* the chunk that the other part reads or has read; ZR__NO_CHUNK */
} zr__checked_file;

/** As zr__listed_open. readers: so many ranks of this host read at once. One or two read past the page cache, and each
 * reads the next chunk in a thread of its own; more of them read by turns anyway, and the same chunks, which the page
 * cache then keeps, as it does for 0 (one reader, of what is read again soon). Close it in either case. */
ZR_NODISCARD zr_status zr__checked_open(const char *dir, const zr_manifest *manifest, const char *name, int readers,
                                        zr__checked_file *file);
void zr__checked_close(zr__checked_file *file);
/** Read chunk i and check it: ZR_ERR_DATA naming file and bytes. While chunks are asked for in a row, the next is read
 * meanwhile. */
ZR_NODISCARD zr_status zr__checked_load(zr__checked_file *file, int64_t i);
/** Bytes [offset, offset + n) of the file, all checked before the first is copied from its chunk. `tensor` (may be
 * NULL): whose they are, for the message. ZR_ERR_DATA also where the file ends before. */
ZR_NODISCARD zr_status zr__checked_read(zr__checked_file *file, int64_t offset, int64_t n, const char *tensor,
                                        void *out);

/** A safetensors file's tensors, from checked bytes. */
ZR_NODISCARD zr_status zr__checked_tensors(zr__checked_file *file, zr_safetensors *tensors);

#endif
