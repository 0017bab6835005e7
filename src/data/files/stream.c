/* Reads files as streams, with zlib and libzstd. */
#include "data/files/stream.h"

#include "base/core/core.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Bytes of compressed data that are read at a time. */
enum { PIECE_BYTES = 1 << 16, MAGIC_BYTES = 4, ANY_GZIP = 15 + 16 /* the largest window, with a header of gzip */ };

struct zr__stream {
    const zr__file *file;
    zr__packing packing;
    int64_t at; /* offset in the file of the next bytes to read */
    unsigned char *piece;
    size_t n, used; /* bytes of `piece`; bytes that the decoder has taken */
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool open;   /* whether `gzip` is to be released */
    bool inside; /* whether the decoder is within a member (gzip) or frame (zstd); a file may have several */
    bool begun;  /* whether a first member was read */
    /* next byte of a compressed text, read ahead to find the text's end; ahead_n is 0 or 1 */
    unsigned char ahead;
    int64_t ahead_n;
    bool ended;
};

zr_status zr__packing_of(const zr__file *file, zr__packing *packing)
{
    unsigned char head[MAGIC_BYTES] = {0};
    const int64_t n = file->bytes < MAGIC_BYTES ? file->bytes : MAGIC_BYTES;
    ZR_TRY(zr__file_read(file, 0, head, n, ZR_ERR_IO));
    *packing = memcmp(head, "\x1f\x8b\x08", 3) == 0       ? ZR__GZIP
               : memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ? ZR__ZSTD
                                                          : ZR__UNPACKED;
    return ZR_OK;
}

/* ---- decoders -------------------------------------------------------------------------------- */

static void *take(void *arg, uInt items, uInt each)
{
    (void)arg;
    return zr_alloc((size_t)items * each);
}

static void give(void *arg, void *memory)
{
    (void)arg;
    zr_free(memory);
}

static zr_status damaged(const zr__stream *s, const char *why)
{
    return ZR_FAIL(ZR_ERR_DATA,
                   "%s: its compressed data (%s) are damaged before byte %" PRId64 ": %s; get the file again",
                   s->file->name, s->packing == ZR__GZIP ? "gzip" : "zstd", s->at - (int64_t)(s->n - s->used), why);
}

/* Begin the next member of a file of gzip. Bytes that begin no member are an error, except for zeros, with which tapes
 * and disks fill their blocks. */
static zr_status begin_member(zr__stream *s)
{
    while (s->begun && s->used < s->n && !s->piece[s->used]) s->used++;
    if (s->used == s->n) return ZR_OK;
    const int status = s->begun ? inflateReset(&s->gzip) : inflateInit2(&s->gzip, ANY_GZIP);
    ZR_CHECK(status == Z_OK, ZR_ERR_MEMORY, "no memory to unpack %s", s->file->name);
    s->open = s->begun = s->inside = true;
    return ZR_OK;
}

/* Unpack bytes of the piece. *n receives how many bytes were written to `out`. */
static zr_status unpack_gzip(zr__stream *s, unsigned char *out, size_t room, size_t *n)
{
    *n = 0;
    if (!s->inside) ZR_TRY(begin_member(s));
    if (!s->inside) return ZR_OK;
    z_stream *z = &s->gzip;
    z->next_in = s->piece + s->used;
    z->avail_in = (uInt)(s->n - s->used);
    z->next_out = out;
    z->avail_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
    const uInt before = z->avail_out;
    const int status = inflate(z, Z_NO_FLUSH);
    *n = before - z->avail_out;
    s->used = s->n - z->avail_in;
    if (status == Z_STREAM_END) s->inside = false;
    ZR_CHECK(status != Z_MEM_ERROR, ZR_ERR_MEMORY, "no memory to unpack %s", s->file->name);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return damaged(s, z->msg ? z->msg : "they are not of gzip");
    return ZR_OK;
}

static zr_status unpack_zstd(zr__stream *s, unsigned char *out, size_t room, size_t *n)
{
    ZSTD_inBuffer in = {s->piece, s->n, s->used};
    ZSTD_outBuffer to = {out, room, 0};
    const size_t left = ZSTD_decompressStream(s->zstd, &to, &in);
    s->used = in.pos;
    *n = to.pos;
    s->inside = left != 0;
    if (ZSTD_isError(left)) return damaged(s, ZSTD_getErrorName(left));
    return ZR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zr_status open_decoder(zr__stream *s)
{
    if (s->packing == ZR__UNPACKED) return ZR_OK;
    s->piece = zr_alloc(PIECE_BYTES);
    s->gzip = (z_stream){.zalloc = take, .zfree = give};
    if (s->packing == ZR__ZSTD) s->zstd = ZSTD_createDStream();
    ZR_CHECK(s->piece && (s->packing != ZR__ZSTD || s->zstd), ZR_ERR_MEMORY, "no memory to unpack %s", s->file->name);
    return ZR_OK;
}

zr_status zr__stream_open(const zr__file *file, zr__stream **stream)
{
    ZR_AUTO(zr__stream_close) zr__stream *s = zr_alloc(sizeof(*s));
    ZR_CHECK(s, ZR_ERR_MEMORY, "no memory to read %s", file->name);
    s->file = file;
    ZR_TRY(zr__packing_of(file, &s->packing));
    ZR_TRY(open_decoder(s));
    *stream = ZR_TAKE(s);
    return ZR_OK;
}

void zr__stream_close(zr__stream **stream)
{
    if (!*stream) return;
    if ((*stream)->open) inflateEnd(&(*stream)->gzip);
    ZSTD_freeDStream((*stream)->zstd);
    zr_free((*stream)->piece);
    zr_free(*stream);
    *stream = NULL;
}

/* Read the next piece of compressed data. */
static zr_status read_piece(zr__stream *s)
{
    const int64_t left = s->file->bytes - s->at;
    s->used = 0;
    s->n = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
    ZR_TRY(zr__file_read(s->file, s->at, s->piece, (int64_t)s->n, ZR_ERR_IO));
    s->at += (int64_t)s->n;
    return ZR_OK;
}

static zr_status read_packed(zr__stream *s, unsigned char *out, int64_t bytes, int64_t *got)
{
    while (*got < bytes) {
        size_t n = 0;
        if (s->used == s->n && s->at < s->file->bytes) ZR_TRY(read_piece(s));
        const size_t used = s->used;
        /* a decoder may still have bytes when it has taken all of the file */
        if (s->used < s->n || s->inside)
            ZR_TRY((s->packing == ZR__GZIP ? unpack_gzip : unpack_zstd)(s, out + *got, (size_t)(bytes - *got), &n));
        *got += (int64_t)n;
        if (n > 0 || s->used > used || s->at < s->file->bytes) continue;
        ZR_CHECK(!s->inside, ZR_ERR_DATA,
                 "%s: its compressed data (%s) end too early, at byte %" PRId64 " of the file; get the file again",
                 s->file->name, s->packing == ZR__GZIP ? "gzip" : "zstd", s->at);
        return ZR_OK;
    }
    return ZR_OK;
}

/* Read bytes of a compressed text, and one more. */
static zr_status read_ahead(zr__stream *s, unsigned char *out, int64_t bytes, int64_t *got)
{
    if (bytes <= 0) return ZR_OK;
    out[0] = s->ahead;
    *got = s->ahead_n;
    s->ahead_n = 0;
    ZR_TRY(read_packed(s, out, bytes, got));
    if (*got == bytes) ZR_TRY(read_packed(s, &s->ahead, 1, &s->ahead_n));
    s->ended = s->ahead_n == 0;
    return ZR_OK;
}

zr_status zr__stream_read(zr__stream *s, void *out, int64_t bytes, int64_t *got)
{
    *got = 0;
    if (s->packing != ZR__UNPACKED) return read_ahead(s, out, bytes, got);
    const int64_t left = zr__stream_left(s), n = bytes < left ? bytes : left;
    ZR_TRY(zr__file_read(s->file, s->at, out, n, ZR_ERR_IO));
    s->at += n;
    *got = n;
    return ZR_OK;
}

int64_t zr__stream_left(const zr__stream *s)
{
    return s->packing == ZR__UNPACKED ? s->file->bytes - s->at : s->ended ? 0 : INT64_MAX;
}

int64_t zr__stream_at(const zr__stream *s)
{
    return s->at;
}

zr_status zr__stream_head(const zr__file *file, void *out, int64_t bytes, int64_t *got)
{
    ZR_AUTO(zr__stream_close) zr__stream *stream = NULL;
    ZR_TRY(zr__stream_open(file, &stream));
    return zr__stream_read(stream, out, bytes, got);
}
