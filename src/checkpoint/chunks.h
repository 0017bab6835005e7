/* Declarations shared by the writer and the readers of chunks. */
#ifndef ZR_CHECKPOINT_CHUNKS_H
#define ZR_CHECKPOINT_CHUNKS_H

#include "base/file/file_queue.h"
#include "checkpoint/checkpoint.h"

/** Return the highest offset at which a chunk that begins at `offset` may end. */
static inline int64_t zr__chunk_limit(int64_t offset)
{
    return (offset / ZR_CHUNK_BYTES + 1) * ZR_CHUNK_BYTES;
}

/** Return the XXH3-64 hash of n bytes, the checksum of chunks and manifests. */
uint64_t zr__chunk_hash(const void *bytes, int64_t n);

/** A growing list of chunks. Set it to zeros before the first use. Release `chunk` with zr_free. */
typedef struct zr__chunk_list {
    zr__chunk *chunk;
    int64_t n, room;
} zr__chunk_list;
ZR_NODISCARD zr_status zr__chunk_add(zr__chunk_list *list, zr__chunk chunk);

/* ---- the slice that contains the byte at `offset`; slices->begin <= offset < slices->end -------- */

/** Return whether `slices` is valid in a file of `bytes` bytes. The range must lie in the file and consist of whole
 * rows, and each row must consist of two or more whole slices. */
bool zr__slices_good(const zr__slices *slices, int64_t bytes);
/** Return the end of the region (zr__region) that begins at `offset`. All chunks of the region end at or before the
 * returned offset. */
int64_t zr__slices_limit(const zr__slices *slices, int64_t offset);
/** Return the number of bytes from `offset` to the end of the slice in this row. */
int64_t zr__slice_run(const zr__slices *slices, int64_t offset);
/** Return the offset of the byte that follows n bytes of the slice from `offset` on, where n <= zr__slice_run. It may
 * be in the next row. After the slice's last byte, return slices->end. */
int64_t zr__slice_after(const zr__slices *slices, int64_t offset, int64_t n);
/** Return how many of the file's bytes [offset, end) belong to the slice that contains `offset`. */
int64_t zr__slice_bytes(const zr__slices *slices, int64_t offset, int64_t end);
/** Compute the XXH3-64 hash of the bytes in [offset, end) that belong to the slice that contains `offset`. `bytes`
 * holds the file's bytes from `offset` on. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__slice_hash(const zr__slices *slices, int64_t offset, int64_t end, const unsigned char *bytes,
                                      uint64_t *hash);

/** A growing list of slices. Set it to zeros before the first use. Release `slices` with zr_free. */
typedef struct zr__slices_list {
    zr__slices *slices;
    int64_t n, room;
} zr__slices_list;
ZR_NODISCARD zr_status zr__slices_add(zr__slices_list *list, const zr__slices *slices);

/** Bytes [offset, end) of a file that are read together: one chunk, or several chunks of slices, whose bytes
 * interleave. */
typedef struct zr__region {
    int64_t offset, end;
    int64_t first, n;         /* first: index of the region's first chunk; n: number of the region's chunks */
    const zr__slices *slices; /* slices to which the region's chunks belong, or NULL if the region is a single chunk */
} zr__region;
/** Return the first slices that end after the byte at `offset`, or NULL. The file's slices must be in ascending order.
 */
const zr__slices *zr__slices_from(const zr__manifest_file *file, int64_t offset);
/** Return the region that contains chunk i. The file's chunks and slices must be in ascending order. */
zr__region zr__region_of(const zr__manifest_file *file, int64_t i);

/* ---- files ------------------------------------------------------------------------------------- */

/** Open a file of a checkpoint. Fail with ZR_ERR_DATA naming the file if it is missing, not in the manifest, a link, or
 * not of the manifest's size. */
ZR_NODISCARD zr_status zr__listed_open(const char *dir, const zr__manifest *manifest, const char *name, zr__file *file);

#define ZR__NO_CHUNK (-1)

/** A file of a checkpoint, read region by region. Bytes are returned only after their checksums have been checked. */
typedef struct zr__checked_file {
    zr__file file;
    const zr__manifest_file *listed;
    zr__file_queue queue;
    bool direct;
    int part;        /* index of the queue's part that holds the last loaded region */
    zr__region held; /* the region that is loaded and checked; its n is 0 if no region is loaded */
    int64_t ahead;   /* first chunk of the region being prefetched into the other part, or ZR__NO_CHUNK */
} zr__checked_file;

/** Open a file like zr__listed_open. `readers` is the number of ranks of this host that read the file at once. One or
 * two readers bypass the page cache, and each prefetches the next region in a thread of its own. More readers use the
 * page cache, because they share the disk and read the same chunks. `readers` 0 means one reader that uses the page
 * cache, because the file will be read again soon. Call zr__checked_close even after a failure. */
ZR_NODISCARD zr_status zr__checked_open(const char *dir, const zr__manifest *manifest, const char *name, int readers,
                                        zr__checked_file *file);
void zr__checked_close(zr__checked_file *file);
/** Read the region of chunk i, and check all its chunks. If the region before it was loaded last,
 * begin to prefetch the next region. Error: ZR_ERR_DATA naming file and bytes. */
ZR_NODISCARD zr_status zr__checked_load(zr__checked_file *file, int64_t i);
/** Read bytes [offset, offset + n) of the file. Each chunk is checked before bytes are copied from it. `tensor` is the
 * name of the tensor that has the bytes, for messages, or NULL. Fail with ZR_ERR_DATA, also if the file ends too
 * early. */
ZR_NODISCARD zr_status zr__checked_read(zr__checked_file *file, int64_t offset, int64_t n, const char *tensor,
                                        void *out);

/** Read and parse the header of a safetensors file from checked bytes. Free tensors->header even after a failure. */
ZR_NODISCARD zr_status zr__checked_tensors(zr__checked_file *file, zr_safetensors *tensors);

#endif
