//TEST timeout=120
//LINK -Wl,--wrap=open,--wrap=pread,--wrap=pwrite,--wrap=fsync
/* Chunks of rows that are divided into slices of several writers: written by each, read back with their checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "slices_naive.h"

#include "chunk_disk.h"
#include "checkpoint/checkpoint.h"

enum { SLICED_CHUNKS = 256 };

/* Collect a writer's bytes of slice k, row after row; return their number. */
static int64_t take_slice(const zr__slices *s, int64_t k, unsigned char *to)
{
    int64_t n = 0;
    for (int64_t at = s->begin + k * s->slice_bytes; at < s->end; at += s->row_bytes, n += s->slice_bytes)
        memcpy(to + n, content + at, (size_t)s->slice_bytes);
    return n;
}

/* Return the file offset of byte n of slice k. */
static int64_t place_of(const zr__slices *s, int64_t k, int64_t n)
{
    return s->begin + n / s->slice_bytes * s->row_bytes + k * s->slice_bytes + n % s->slice_bytes;
}

static zr_status put_slice(zr__chunk_writer *w, const zr__slices *s, int64_t k, int64_t piece)
{
    static unsigned char bytes[BYTES];
    const int64_t all = take_slice(s, k, bytes);
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < piece ? all - at : piece;
        ZR_TRY(zr__chunk_writer_put(w, s, place_of(s, k, at), bytes + at, n));
    }
    return ZR_OK;
}

/* Write all of `content` with slices in it, by one writer per slice; the first also writes the bytes around the slices.
 */
static zr__manifest_file write_sliced(const zr__slices *s, int64_t piece)
{
    static zr__chunk chunk[SLICED_CHUNKS];
    const char *path = empty_file("content", BYTES);
    zr__manifest_file listed = {.name = "content", .bytes = BYTES, .slices = s, .n_slices = 1};
    for (int64_t k = 0; k < s->row_bytes / s->slice_bytes; k++) {
        zr__chunk_writer *w = NULL;
        int64_t n = 0;
        assert_int_equal(zr__chunk_writer_open(path, k % 2 ? 100 : 1, &w), ZR_OK);
        if (k == 0) assert_int_equal(put_range(w, 0, s->begin, piece), ZR_OK);
        assert_int_equal(put_slice(w, s, k, piece), ZR_OK);
        if (k == 0) assert_int_equal(put_range(w, s->end, BYTES, piece), ZR_OK);
        assert_null(zr__chunk_writer_slices(w, &n));
        assert_int_equal(zr__chunk_writer_end(w), ZR_OK);
        const zr__slices *named = zr__chunk_writer_slices(w, &n);
        assert_int_equal(n, 1);
        assert_memory_equal(named, s, sizeof *s);
        const zr__chunk *mine = zr__chunk_writer_chunks(w, &n);
        assert_true(listed.n_chunks + n <= SLICED_CHUNKS);
        memcpy(chunk + listed.n_chunks, mine, (size_t)n * sizeof *mine);
        listed.n_chunks += n;
        zr__chunk_writer_close(&w);
    }
    qsort(chunk, (size_t)listed.n_chunks, sizeof chunk[0], by_offset);
    listed.chunk = chunk;
    return listed;
}

/* Rows shorter and longer than the pieces written, than a block, and than a chunk. */
static const zr__slices sliced[] = {{70000, 70000 + 7757 * 1280, 1280, 320},
                                    {4096, 4096 + 2000 * 4096, 4096, 1024},
                                    {1, 1 + 9000 * 24, 24, 6},
                                    {1000, 1000 + 2 * 4500000, 4500000, 2250000},
                                    {0, 10000000, 5000000, 50000}};
enum { SLICED = sizeof sliced / sizeof sliced[0] };

static void slices_of_several_writers(void **state)
{
    disk = *(const int *)*state;
    static const int64_t pieces[] = {1280, BYTES};
    for (int i = 0; i < SLICED; i++)
        for (int p = 0; p < 2; p++) {
            const zr__slices *s = &sliced[i];
            const int64_t ends[] = {s->begin, s->end, BYTES};
            static zr__chunk wanted[SLICED_CHUNKS];
            const zr__manifest_file listed = write_sliced(s, pieces[p]);
            check_bytes(in_tempdir("content"), BYTES);
            const int64_t n = naive_chunks(s, 1, ends, 3, p ? NULL : content, wanted);
            assert_int_equal(listed.n_chunks, n);
            for (int64_t c = 0; c < n && p; c++) wanted[c].hash = listed.chunk[c].hash;
            assert_memory_equal(listed.chunk, wanted, (size_t)n * sizeof wanted[0]);
        }
    disk = DIRECT;
}

/* Check that the number of checksums does not grow with the number of rows: apart from the ends, four ranks have four
 * checksums where a single rank has one. */
static void rows_are_not_counted(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    for (int64_t rows = 2; rows <= 1 << 14; rows *= 8) {
        const zr__slices s = {4096, 4096 + (8 << 20), (8 << 20) / rows, (2 << 20) / rows};
        assert_in_range(write_sliced(&s, 1 << 20).n_chunks, RANKS * 2, RANKS * 3 + 3);
    }
}

static void bad_slices_are_refused(void **state)
{
    (void)state;
    static const zr__slices good = {100, 200, 20, 10},
                            bad[] = {{100, 200, 20, 20}, {100, 200, 20, 0},  {100, 195, 20, 10},  {100, 200, 20, 7},
                                     {100, 100, 20, 10}, {-20, 200, 20, 10}, {100, 1020, 20, 10}, {100, 200, 0, 0}};
    zr__chunk_writer *w = NULL;
    int64_t n = 0;
    assert_int_equal(zr__chunk_writer_open(empty_file("bad", 1000), 1, &w), ZR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(zr__chunk_writer_put(w, &bad[i], 100, content, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, &good, 99, content, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, &good, 200, content, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, &good, 110, content, 51), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, &good, 110, content, 50), ZR_OK);
    assert_int_equal(zr__chunk_writer_put(w, &good, 190, content, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 200, content, 1), ZR_OK); /* directly after the last row */
    assert_int_equal(zr__chunk_writer_end(w), ZR_OK);
    const zr__chunk *chunk = zr__chunk_writer_chunks(w, &n);
    assert_int_equal(n, 2);
    assert_true(chunk[0].offset == 110 && chunk[0].bytes == 50 && chunk[1].offset == 200);
    zr__chunk_writer_close(&w);
}

static void failed_writes_of_slices_stay_failed(void **state)
{
    (void)state;
    for (int at = 0; at < 9000; at += 1 + at * 2) {
        zr__chunk_writer *w = NULL;
        assert_int_equal(zr__chunk_writer_open(empty_file("failing", BYTES), 1, &w), ZR_OK);
        write_error = ENOSPC;
        writes_left = at;
        zr_status put = put_slice(w, &sliced[0], 1, 65536), end = zr__chunk_writer_end(w);
        const bool failed = writes_left < 0;
        writes_left = -1;
        assert_true(failed == (at < 7757));
        assert_int_equal(end, failed ? ZR_ERR_IO : ZR_OK);
        assert_true(put == ZR_OK || (put == ZR_ERR_IO && failed));
        if (failed) assert_non_null(strstr(zr_error_message(), "failing: cannot write at byte"));
        zr__chunk_writer_close(&w);
    }
}

static void put_byte_of(const char *name, int64_t at, int byte)
{
    FILE *file = fopen(in_tempdir(name), "r+b");
    assert_true(file && fseek(file, (long)at, SEEK_SET) == 0 && fputc(byte, file) != EOF && fclose(file) == 0);
}

/* Check that slices are read as one file, each byte read once, and every byte is covered by a checksum. */
static void slices_are_read_in_any_order(void **state)
{
    /* A failed check leaves its thread running; separate storage for each kind of disk keeps the next test from
     * overwriting that thread's data. */
    static zr__checked_file opened[CUT_SHORT + 1];
    zr__checked_file *file = &opened[*(const int *)*state];
    disk = *(const int *)*state;
    for (int i = 0; i < SLICED; i++)
        for (int readers = 1; readers <= 3; readers += 2) {
            const zr__manifest_file listed = write_sliced(&sliced[i], 65536);
            const zr__manifest manifest = {.file = &listed, .n_files = 1};
            uint32_t x = 1;
            assert_int_equal(zr__checked_open(tempdir, &manifest, "content", readers, file), ZR_OK);
            read_bytes = 0;
            for (int64_t at = 0, n; at < BYTES; at += n) {
                n = BYTES - at < 30000 ? BYTES - at : 30000;
                assert_int_equal(read_and_compare(file, at, n), ZR_OK);
            }
            assert_true(read_bytes == BYTES || disk == CUT_SHORT);
            for (int t = 0; t < 10; t++) {
                int64_t at = (x = x * 1664525 + 1013904223) % BYTES, n = (x = x * 1664525 + 1013904223) % 500000;
                assert_int_equal(read_and_compare(file, at, n < BYTES - at ? n : BYTES - at), ZR_OK);
            }
            for (int t = 0; t < 10; t++) {
                const int64_t at = (x = x * 1664525 + 1013904223) % BYTES;
                put_byte_of("content", at, content[at] ^ 1);
                file->held.n = 0;
                file->ahead = ZR__NO_CHUNK;
                assert_int_equal(read_and_compare(file, at, 1), ZR_ERR_DATA);
                put_byte_of("content", at, content[at]);
                assert_int_equal(read_and_compare(file, at, 1), ZR_OK);
            }
            zr__checked_close(file);
        }
    disk = DIRECT;
}

int main(void)
{
    static int kinds[] = {DIRECT, NOT_OPENED, NOT_WRITTEN, CUT_SHORT};
    const struct CMUnitTest tests[] = {
        {"slices, direct", slices_of_several_writers, NULL, NULL, &kinds[0]},
        {"slices, O_DIRECT refused by open", slices_of_several_writers, NULL, NULL, &kinds[1]},
        {"slices, O_DIRECT refused by write", slices_of_several_writers, NULL, NULL, &kinds[2]},
        {"slices, writes that take a part", slices_of_several_writers, NULL, NULL, &kinds[3]},
        cmocka_unit_test(rows_are_not_counted),
        cmocka_unit_test(bad_slices_are_refused),
        cmocka_unit_test(failed_writes_of_slices_stay_failed),
        {"slices, read directly", slices_are_read_in_any_order, NULL, NULL, &kinds[0]},
        {"slices, read through the page cache", slices_are_read_in_any_order, NULL, NULL, &kinds[1]},
    };
    return cmocka_run_group_tests(tests, make_content, drop_content);
}
