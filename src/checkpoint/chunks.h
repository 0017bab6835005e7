/* Declarations that the writer and the readers of chunks share. */
#ifndef ZR_CHECKPOINT_CHUNKS_H
#define ZR_CHECKPOINT_CHUNKS_H

#include "base/file/file_queue.h"
#include "zr/checkpoint.h"

/** Return the limit of a chunk that begins at `offset`: it ends there or before. */
static inline int64_t zr__chunk_limit(int64_t offset)
{
    return (offset / ZR_CHUNK_BYTES + 1) * ZR_CHUNK_BYTES;
}

/** Return XXH3-64, the checksum of chunks and manifests. */
uint64_t zr__chunk_hash(const void *bytes, int64_t n);

/** A list of chunks that grows. Zero-initialise; zr_free chunk. */
typedef struct zr__chunk_list {
    zr_chunk *chunk;
    int64_t n, room;
} zr__chunk_list;
ZR_NODISCARD zr_status zr__chunk_add(zr__chunk_list *list, zr_chunk chunk);

/* ---- slices: of the one in which the byte at `offset` stands, within [slices->begin, slices->end) ---- */

/** Return whether rows and slices are valid in a file of `bytes`: whole rows, of several whole slices each. */
bool zr__slices_good(const zr_slices *slices, int64_t bytes);
/** Return where a region that begins at `offset`, and every chunk of it, ends. */
int64_t zr__slices_limit(const zr_slices *slices, int64_t offset);
/** Return the number of contiguous bytes of the slice from `offset` on. */
int64_t zr__slice_run(const zr_slices *slices, int64_t offset);
/** Return where the slice continues after n bytes, n <= zr__slice_run; slices->end after its last byte. */
int64_t zr__slice_after(const zr_slices *slices, int64_t offset, int64_t n);
/** Count the bytes of the slice in [offset, end). */
int64_t zr__slice_bytes(const zr_slices *slices, int64_t offset, int64_t end);
/** Compute XXH3-64 of the slice's bytes in [offset, end); `bytes` are the file's from `offset` on. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__slice_hash(const zr_slices *slices, int64_t offset, int64_t end, const unsigned char *bytes,
                                      uint64_t *hash);

/** A list of slices that grows. Zero-initialise; zr_free slices. */
typedef struct zr__slices_list {
    zr_slices *slices;
    int64_t n, room;
} zr__slices_list;
ZR_NODISCARD zr_status zr__slices_add(zr__slices_list *list, const zr_slices *slices);

/** Bytes [offset, end) of a file that are read at once: a chunk, or several chunks with interleaved bytes. */
typedef struct zr__region {
    int64_t offset, end;
    int64_t first, n;        /* its chunks */
    const zr_slices *slices; /* NULL: it is one chunk */
} zr__region;
/** Find slices of a file whose slices ascend: _at: the slices that contain the byte at `offset`; _from: the first
 * slices that end after it. NULL: not found. */
const zr_slices *zr__slices_at(const zr_manifest_file *file, int64_t offset);
const zr_slices *zr__slices_from(const zr_manifest_file *file, int64_t offset);
/** Return the region of chunk i of a file whose chunks and slices ascend. */
zr__region zr__region_of(const zr_manifest_file *file, int64_t i);

/* ---- files ------------------------------------------------------------------------------------- */

/** Open a file of a checkpoint that has the manifest's size. ZR_ERR_DATA naming the file: it is missing, not in the
 * manifest, a link, or of another size. */
ZR_NODISCARD zr_status zr__listed_open(const char *dir, const zr_manifest *manifest, const char *name, zr__file *file);

#define ZR__NO_CHUNK (-1)

/** A file of a checkpoint that is read by region and returns checked bytes only. */
typedef struct zr__checked_file {
    zr__file file;
    const zr_manifest_file *listed;
    zr__file_queue queue;
    bool direct;
    int part;        /* part of the queue that holds the region loaded last */
    zr__region held; /* the loaded, checked region; n 0: none */
    int64_t ahead;   /* first chunk of the region that is prefetched into the other part; ZR__NO_CHUNK */
} zr__checked_file;

/** Open a file as zr__listed_open does. readers: number of ranks of this host that read the file at once. One or two
 * readers bypass the page cache, and each prefetches the next region in a thread of its own. With more readers, which
 * share the disk and read the same chunks, the page cache keeps the bytes; so it does for 0 (one reader of a file that
 * is read again soon). Close it in either case. */
ZR_NODISCARD zr_status zr__checked_open(const char *dir, const zr_manifest *manifest, const char *name, int readers,
                                        zr__checked_file *file);
void zr__checked_close(zr__checked_file *file);
/** Read the region of chunk i and check all its chunks: ZR_ERR_DATA naming file and bytes. When regions are loaded
 * in sequence, the next one is prefetched. */
ZR_NODISCARD zr_status zr__checked_load(zr__checked_file *file, int64_t i);
/** Read bytes [offset, offset + n) of the file; each chunk is checked before bytes are copied from it. `tensor` (may
 * be NULL): the tensor that they belong to, for the message. ZR_ERR_DATA, also if the file ends before. */
ZR_NODISCARD zr_status zr__checked_read(zr__checked_file *file, int64_t offset, int64_t n, const char *tensor,
                                        void *out);

/** Read the header of a safetensors file from checked bytes. */
ZR_NODISCARD zr_status zr__checked_tensors(zr__checked_file *file, zr_safetensors *tensors);

#endif
