/* A disk with limited O_DIRECT or with injected failures, and test data for it. A test that includes this header links
 * with -Wl,--wrap= of open, pread, pwrite and fsync. */
#ifndef CHUNK_DISK_H
#define CHUNK_DISK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/chunks.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __wrap_fsync(int fd);

static enum { DIRECT, NOT_OPENED, NOT_WRITTEN, CUT_SHORT } disk; /* support of O_DIRECT */
static int write_error;                                          /* errno of the failing write; -1: it writes no byte */
static atomic_int sync_error;                                    /* errno of the next fsync; 0: it succeeds */
static atomic_int writes_left = -1;                              /* number of writes until one fails; < 0: none fails */
static atomic_int directs, plains;                               /* number of direct and of buffered writes */
static atomic_int writes_behind;                                 /* number of writes after the failed one */

static void count_direct(const void *bytes, size_t n, off_t at)
{
    assert_int_equal(at % 4096, 0);
    assert_int_equal(n % 4096, 0);
    assert_int_equal((uintptr_t)bytes % 4096, 0);
    directs++;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (flags & O_DIRECT && disk == NOT_OPENED) {
        errno = EINVAL;
        return -1;
    }
    /* The machine's own disk may refuse O_DIRECT; the counters then count the writer's fallback. */
    int fd = __real_open(path, flags, mode);
    return fd;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
    writes_behind++;
    if (writes_left >= 0 && writes_left-- == 0) {
        writes_behind = 0;
        errno = write_error;
        return write_error < 0 ? 0 : -1;
    }
    if (direct && disk == NOT_WRITTEN) {
        errno = EINVAL;
        return -1;
    }
    if (direct) {
        count_direct(bytes, n, at);
        if (disk == CUT_SHORT && n > 4096) return __real_pwrite(fd, bytes, 4096, at);
        return __real_pwrite(fd, bytes, n, at);
    }
    plains++;
    return __real_pwrite(fd, bytes, disk == CUT_SHORT ? (n + 1) / 2 : n, at);
}

ssize_t __real_pread(int fd, void *bytes, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t at);

static int64_t unreadable = -1;    /* offset of a byte whose reads fail; -1: none */
static _Atomic int64_t read_bytes; /* bytes read by all calls */
static atomic_int interrupts;      /* reads left that fail with EINTR */

ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t at)
{
    bool direct = fd >= 0 && fcntl(fd, F_GETFL) & O_DIRECT;
    errno = direct && disk == NOT_WRITTEN ? EINVAL : EIO;
    if (errno == EINVAL || (at <= unreadable && unreadable < at + (off_t)n)) return -1;
    if (interrupts > 0 && interrupts-- > 0) {
        errno = EINTR;
        return -1;
    }
    if (direct) {
        count_direct(bytes, n, at);
    } else {
        plains++;
    }
    const ssize_t done = __real_pread(fd, bytes, disk != CUT_SHORT ? n : direct && n > 4096 ? 4096 : (n + 1) / 2, at);
    if (done > 0) read_bytes += done;
    return done;
}

int __wrap_fsync(int fd)
{
    int error =
        atomic_exchange(&sync_error, 0); /* cleared when reported, because Linux reports a lost write only once */
    errno = error;
    (void)fd; /* no real fsync: it takes time, and durability is tested elsewhere */
    return error ? -1 : 0;
}

/* ---- bytes ------------------------------------------------------------------------------------ */

enum { BYTES = 10 * 1000 * 1000 + 123 };

static unsigned char *content; /* BYTES bytes */

static int make_content(void **state)
{
    content = malloc(BYTES);
    uint64_t x = 88172645463325252u;
    for (int64_t i = 0; content && i < BYTES; i++)
        content[i] = (unsigned char)((x = x * 6364136223846793005u + 1) >> 56);
    if (content) content[BYTES - 1] = 1;
    return content ? tempdir_make(state) : -1;
}

static int drop_content(void **state)
{
    free(content);
    return tempdir_remove(state);
}

static const char *empty_file(const char *name, int64_t bytes)
{
    const char *path = put_file(name, "", 0);
    assert_int_equal(truncate(path, bytes), 0);
    return path;
}

/* Check that `bytes` bytes are equal, by memcmp first: assert_memory_equal alone goes byte by byte and is slow. */
static void check_same(const unsigned char *have, const unsigned char *want, int64_t bytes)
{
    if (memcmp(have, want, (size_t)bytes) != 0) assert_memory_equal(have, want, (size_t)bytes);
}

static void check_bytes(const char *path, int64_t bytes)
{
    unsigned char *read = malloc((size_t)bytes + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(read, 1, (size_t)bytes + 1, file), bytes);
    check_same(read, content, bytes);
    fclose(file);
    free(read);
}

/* Write the range [first, end) in pieces of at most `piece` bytes. */
static zr_status put_range(zr__chunk_writer *w, int64_t first, int64_t end, int64_t piece)
{
    for (int64_t n; first < end; first += n) {
        n = end - first < piece ? end - first : piece;
        ZR_TRY(zr__chunk_writer_put(w, NULL, first, content + first, n));
    }
    return ZR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const zr__chunk *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static zr_status read_and_compare(zr__checked_file *file, int64_t first, int64_t n)
{
    static unsigned char bytes[BYTES + 1];
    bytes[n] = 77;
    ZR_TRY(zr__checked_read(file, first, n, "some", bytes));
    check_same(bytes, content + first, n);
    assert_int_equal(bytes[n], 77);
    return ZR_OK;
}

#endif
