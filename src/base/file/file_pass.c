/* Reads a whole file once, and gives all its bytes to a function and to a hash. */
#define XXH_STATIC_LINKING_ONLY /* makes the hash state a complete type, so that struct pass can contain it */
#include "base/file/file.h"

#include <xxhash.h>

/* Buffers of a pass. A piece is small enough to stay in the processor's cache until both the hash and the function have
 * read it. */
typedef struct pass {
    unsigned char piece[ZR__FILE_PIECE_BYTES]; /* the first member, because it needs the alignment of zr_alloc */
    XXH3_state_t state;
} pass;

static zr_status read_pieces(const zr__file *file, int64_t first, pass *p, zr__piece_fn fn, void *arg, bool hashed)
{
    for (int64_t at = first, bytes; at < file->bytes; at += bytes) {
        bytes = file->bytes - at < ZR__FILE_PIECE_BYTES ? file->bytes - at : ZR__FILE_PIECE_BYTES;
        ZR_TRY(zr__file_read(file, at, p->piece, bytes, ZR_ERR_IO));
        if (hashed) (void)XXH3_64bits_update(&p->state, p->piece, (size_t)bytes);
        if (fn) ZR_TRY(fn(arg, at, p->piece, bytes));
    }
    return zr__file_unchanged(file);
}

zr_status zr__file_pass_from(const zr__file *file, int64_t first, zr__piece_fn fn, void *arg, uint64_t *hash)
{
    ZR_AUTO_FREE pass *p = zr_alloc(sizeof(*p));
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for %zu bytes to read %s", sizeof(*p), file->name);
    (void)XXH3_64bits_reset(&p->state);
    ZR_TRY(read_pieces(file, first, p, fn, arg, hash != NULL));
    if (hash) *hash = XXH3_64bits_digest(&p->state);
    return ZR_OK;
}

zr_status zr__file_pass(const zr__file *file, zr__piece_fn fn, void *arg, uint64_t *hash)
{
    return zr__file_pass_from(file, 0, fn, arg, hash);
}

uint64_t zr__hash_join(uint64_t first, uint64_t second)
{
    return XXH3_64bits_withSeed(&second, sizeof(second), first);
}
