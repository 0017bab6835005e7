/* Transfers by io_uring. Each transfer is submitted at once. This costs little, since transfers are large. And a
 * transfer that the kernel refuses has certainly not begun. */
#include "store/transfer.h"

#include "base/core/core.h"

#include <errno.h>
#include <liburing.h>
#include <time.h>

enum {
    TRIES = 10000,
    PIECES = 1024
}; /* TRIES: milliseconds after which a busy kernel counts as a failure; PIECES: maximum number of pieces of pinned
      memory */
static const int64_t PIECE_BYTES = 1 << 30; /* bytes of a piece of pinned memory, the kernel's maximum */

typedef struct uring {
    struct io_uring ring;
    int error; /* negative errno of a failure after which no transfer can begin; 0 otherwise */
    unsigned char *pinned;
    int64_t pinned_bytes;
} uring;

static void wait_a_millisecond(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

zr_status zr__uring_create(int depth, void **object)
{
    *object = NULL;
    uring *u = zr_alloc(sizeof(*u));
    ZR_CHECK(u, ZR_ERR_MEMORY, "no memory for %zu bytes", sizeof(*u));
    struct io_uring_params params = {.flags = IORING_SETUP_CLAMP};
    int error = io_uring_queue_init_params((unsigned)depth, &u->ring, &params);
    if (error < 0) {
        zr_free(u);
        return ZR_FAIL(ZR_ERR_UNSUPPORTED, "io_uring is not available here: %s; use ZR_STORE=threads",
                       zr__error_text(-error));
    }
    struct io_uring_probe *probe = io_uring_get_probe_ring(&u->ring);
    const bool works = probe && (params.features & IORING_FEAT_NODROP) != 0 && params.sq_entries >= (unsigned)depth &&
                       io_uring_opcode_supported(probe, IORING_OP_READ) &&
                       io_uring_opcode_supported(probe, IORING_OP_WRITE);
    io_uring_free_probe(probe);
    *object = u;
    if (works) return ZR_OK;
    zr__uring_destroy(u);
    *object = NULL;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "io_uring of this kernel is too old; use ZR_STORE=threads");
}

void zr__uring_destroy(void *object)
{
    uring *u = object;
    if (!u) return;
    io_uring_queue_exit(&u->ring);
    zr_free(u);
}

/* Return the index of the pinned piece that contains the transfer's memory, or -1. */
static int pinned_piece(const uring *u, const zr__transfer *t)
{
    if (!u->pinned || t->memory < u->pinned || t->memory + t->bytes > u->pinned + u->pinned_bytes) return -1;
    const int64_t first = (t->memory - u->pinned) / PIECE_BYTES;
    return (t->memory + t->bytes - 1 - u->pinned) / PIECE_BYTES == first ? (int)first : -1;
}

int zr__uring_begin(void *object, zr__transfer *t)
{
    uring *u = object;
    if (u->error) return u->error;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (!sqe) return -EBUSY;
    const unsigned bytes = (unsigned)t->bytes;
    const uint64_t at = (uint64_t)t->at;
    const int piece = pinned_piece(u, t);
    if (piece >= 0 && t->writes)
        io_uring_prep_write_fixed(sqe, t->fd, t->memory, bytes, at, piece);
    else if (piece >= 0)
        io_uring_prep_read_fixed(sqe, t->fd, t->memory, bytes, at, piece);
    else if (t->writes)
        io_uring_prep_write(sqe, t->fd, t->memory, bytes, at);
    else
        io_uring_prep_read(sqe, t->fd, t->memory, bytes, at);
    io_uring_sqe_set_data(sqe, t);
    int submitted = io_uring_submit(&u->ring);
    for (int i = 0; i < TRIES && (submitted == -EAGAIN || submitted == -EBUSY || submitted == -EINTR); i++) {
        if (submitted != -EINTR) wait_a_millisecond();
        submitted = io_uring_submit(&u->ring);
    }
    if (submitted == 1) return 0;
    /* The transfer's entry is still in the ring, and the next submission would begin it. Therefore submit nothing
     * more. */
    u->error = submitted < 0 ? submitted : -EIO;
    return u->error;
}

zr__transfer *zr__uring_await(void *object)
{
    uring *u = object;
    struct io_uring_cqe *cqe = NULL;
    /* The kernel may use the memory of a transfer until it reports the transfer's end. If waiting fails, poll for the
     * end from time to time. */
    for (int error; (error = io_uring_wait_cqe(&u->ring, &cqe)) != 0 || !cqe;)
        if (error != -EINTR) wait_a_millisecond();
    zr__transfer *t = io_uring_cqe_get_data(cqe);
    t->result = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    return t;
}

bool zr__uring_pin(void *object, void *memory, int64_t bytes)
{
    uring *u = object;
    const int64_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    if (u->pinned || pieces > PIECES) return false;
    ZR_AUTO_FREE struct iovec *piece = zr_alloc(sizeof(*piece) * (size_t)pieces);
    if (!piece) return false;
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t left = bytes - i * PIECE_BYTES;
        piece[i].iov_base = (unsigned char *)memory + i * PIECE_BYTES;
        piece[i].iov_len = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    if (io_uring_register_buffers(&u->ring, piece, (unsigned)pieces) != 0) return false;
    u->pinned = memory;
    u->pinned_bytes = bytes;
    return true;
}
