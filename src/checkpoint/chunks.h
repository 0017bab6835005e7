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

/* ---- slices: of the one in which the byte at `offset` stands, within [slices->begin, slices->end) ---- */

/** Rows of several slices each, whole, in a file of so many bytes. */
bool zr__slices_good(const zr_slices *slices, int64_t bytes);
/** Where a region that begins at `offset`, and every chunk of it, ends. */
int64_t zr__slices_limit(const zr_slices *slices, int64_t offset);
/** From `offset` so many bytes of the slice follow each other. */
int64_t zr__slice_run(const zr_slices *slices, int64_t offset);
/** Where the slice goes on behind n bytes, n <= zr__slice_run; slices->end behind its last. */
int64_t zr__slice_after(const zr_slices *slices, int64_t offset, int64_t n);
/** How many bytes of the slice stand in [offset, end). */
int64_t zr__slice_bytes(const zr_slices *slices, int64_t offset, int64_t end);
/** XXH3-64 of the slice's bytes in [offset, end); `bytes` are the file's from `offset` on. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__slice_hash(const zr_slices *slices, int64_t offset, int64_t end, const unsigned char *bytes,
                                      uint64_t *hash);

/** A list that grows. Zero-initialise; zr_free slices. */
typedef struct zr__slices_list {
    zr_slices *slices;
    int64_t n, room;
} zr__slices_list;
ZR_NODISCARD zr_status zr__slices_add(zr__slices_list *list, const zr_slices *slices);

/** Bytes [offset, end) of a file that are read at once: a chunk, or chunks whose bytes stand between each other's. */
typedef struct zr__region {
    int64_t offset, end;
    int64_t first, n;        /* its chunks */
    const zr_slices *slices; /* NULL: it is one chunk */
} zr__region;
/** Of a file whose slices ascend, those that a byte belongs to; the first that end behind it. NULL: none. */
const zr_slices *zr__slices_at(const zr_manifest_file *file, int64_t offset);
const zr_slices *zr__slices_from(const zr_manifest_file *file, int64_t offset);
/** The region of chunk i of a file whose chunks and slices ascend. */
zr__region zr__region_of(const zr_manifest_file *file, int64_t i);

/* ---- files ------------------------------------------------------------------------------------- */

/** Open a file of a checkpoint that has the manifest's size. ZR_ERR_DATA naming the file: missing, not in the manifest,
 * a link, of another size. */
ZR_NODISCARD zr_status zr__listed_open(const char *dir, const zr_manifest *manifest, const char *name, zr__file *file);

#define ZR__NO_CHUNK (-1)

/** A file of a checkpoint of which only checked bytes are given out, a region at a time. */
typedef struct zr__checked_file {
    zr__file file;
    const zr_manifest_file *listed;
    zr__file_queue queue;
    bool direct;
    int part;        /* of the queue, with the region loaded last */
    zr__region held; /* is there, checked; n 0: none is */
    int64_t ahead;   /* first chunk of the one that the other part reads or has read; ZR__NO_CHUNK */
} zr__checked_file;

/** As zr__listed_open. readers: so many ranks of this host read at once. One or two read past the page cache, and each
 * reads the next chunk in a thread of its own; more of them read by turns anyway, and the same chunks, which the page
 * cache then keeps, as it does for 0 (one reader, of what is read again soon). Close it in either case. */
ZR_NODISCARD zr_status zr__checked_open(const char *dir, const zr_manifest *manifest, const char *name, int readers,
                                        zr__checked_file *file);
void zr__checked_close(zr__checked_file *file);
/** Read the region of chunk i and check all chunks of it: ZR_ERR_DATA naming file and bytes. While regions are asked
 * for in a row, the next is read meanwhile. */
ZR_NODISCARD zr_status zr__checked_load(zr__checked_file *file, int64_t i);
/** Bytes [offset, offset + n) of the file, all checked before the first is copied from its chunk. `tensor` (may be
 * NULL): whose they are, for the message. ZR_ERR_DATA also where the file ends before. */
ZR_NODISCARD zr_status zr__checked_read(zr__checked_file *file, int64_t offset, int64_t n, const char *tensor,
                                        void *out);

/** A safetensors file's tensors, from checked bytes. */
ZR_NODISCARD zr_status zr__checked_tensors(zr__checked_file *file, zr_safetensors *tensors);

#endif
