//TEST timeout=120 tsan=1
//LINK -Wl,--wrap=open,--wrap=pread,--wrap=pwrite,--wrap=fsync,--wrap=zr_alloc
/* Chunks written by several writers, with O_DIRECT or through the page cache, and read back with their checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "checkpoint/chunks.h"
#include "checkpoint_make.h"
#include "chunk_disk.h"

/* ---- writing --------------------------------------------------------------------------------- */

/* Check the chunks of a file divided at chunk boundaries and at `ends`; the last of `ends` is the end of the file. */
static void check_chunks(const zr__chunk *chunk, int64_t n, const int64_t *ends, int n_ends)
{
    int64_t at = 0, i = 0;
    for (int e = 0; e < n_ends; e++)
        for (; at < ends[e]; at += chunk[i++].bytes) {
            int64_t limit = (at / ZR_CHUNK_BYTES + 1) * ZR_CHUNK_BYTES, end = limit < ends[e] ? limit : ends[e];
            assert_true(i < n);
            assert_int_equal(chunk[i].offset, at);
            assert_int_equal(chunk[i].bytes, end - at);
            assert_true(chunk[i].hash == XXH3_64bits(content + at, (size_t)(end - at)));
        }
    assert_int_equal(i, n);
}

typedef struct share {
    const char *path;
    const int64_t *ends;
    int first, n; /* this writer writes every second range from range `first` on; number of ranges of both writers */
    int64_t piece;
    zr__chunk chunk[64];
    int64_t n_chunks;
} share;

static void *write_share(void *arg)
{
    share *s = arg;
    zr__chunk_writer *w = NULL;
    /* the two writers have buffers of different sizes */
    bool good = zr__chunk_writer_open(s->path, s->first ? 100 : 1, &w) == ZR_OK;
    for (int e = s->first; good && e < s->n; e += 2)
        good = put_range(w, e ? s->ends[e - 1] : 0, s->ends[e], s->piece) == ZR_OK;
    good = good && zr__chunk_writer_end(w) == ZR_OK;
    const zr__chunk *chunk = good ? zr__chunk_writer_chunks(w, &s->n_chunks) : NULL;
    if (good && s->n_chunks) memcpy(s->chunk, chunk, (size_t)s->n_chunks * sizeof *chunk);
    if (!good) print_error("%s\n", zr_error_message());
    zr__chunk_writer_close(&w);
    return good ? arg : NULL;
}

/* Write alternate ranges by two concurrent writers. */
static void write_in_turn(const char *path, const int64_t *ends, int n, int64_t piece)
{
    share s[2] = {{path, ends, 0, n, piece, .n_chunks = 0}, {path, ends, 1, n, piece, .n_chunks = 0}};
    zr__chunk all[128];
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, write_share, &s[1]), 0);
    assert_non_null(write_share(&s[0]));
    pthread_join(thread, &done);
    assert_non_null(done);
    memcpy(all, s[0].chunk, sizeof s[0].chunk);
    memcpy(all + s[0].n_chunks, s[1].chunk, (size_t)s[1].n_chunks * sizeof all[0]);
    qsort(all, (size_t)(s[0].n_chunks + s[1].n_chunks), sizeof all[0], by_offset);
    check_chunks(all, s[0].n_chunks + s[1].n_chunks, ends, n);
    check_bytes(path, ends[n - 1]);
}

/* Check that two writers give the same bytes and checksums with each kind of support of O_DIRECT. */
static void ranges_of_two_writers(void **state)
{
    disk = *(const int *)*state;
    static const int64_t large[] =
        {1,       4095,    4096,         4097,    70000, ZR_CHUNK_BYTES - 1, ZR_CHUNK_BYTES + 5, 5000000,
         8388608, 8388609, BYTES - 4096, 9999999, BYTES},
                         tiny[] = {7}, halves[] = {4096, 12288}, whole[] = {2 * ZR_CHUNK_BYTES};
    directs = plains = 0;
    write_in_turn(empty_file("large", BYTES), large, sizeof large / sizeof large[0], 999983);
    write_in_turn(empty_file("large", BYTES), large, sizeof large / sizeof large[0], 65536);
    write_in_turn(empty_file("large", BYTES), large, sizeof large / sizeof large[0], BYTES);
    assert_true(directs == 0 || disk == DIRECT || disk == CUT_SHORT);
    assert_true(plains > 0);
    write_in_turn(empty_file("tiny", 7), tiny, 1, 2);
    write_in_turn(empty_file("halves", 12288), halves, 2, 4096);
    plains = 0;
    write_in_turn(empty_file("whole", 2 * ZR_CHUNK_BYTES), whole, 1, 65536);
    assert_true(disk != DIRECT || directs == 0 || plains == 0); /* aligned ranges are all written directly */
    disk = DIRECT;
}

static void bad_puts_are_refused(void **state)
{
    (void)state;
    zr__chunk_writer *w = NULL;
    int64_t n = 1;
    const char *path = empty_file("bad", 100);
    assert_int_equal(zr__chunk_writer_open(path, 1, &w), ZR_OK);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 10, content + 10, 10), ZR_OK);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 19, content + 19, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 20, content + 20, 81), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 20, content + 20, -1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, INT64_MAX, content, 1), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 20, content + 20, INT64_MAX), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 20, content + 20, 80), ZR_OK);
    assert_null(zr__chunk_writer_chunks(w, &n));
    assert_int_equal(n, 0);
    assert_int_equal(zr__chunk_writer_end(w), ZR_OK);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 100, content, 0), ZR_ERR_STATE);
    assert_int_equal(zr__chunk_writer_end(w), ZR_ERR_STATE);
    assert_non_null(zr__chunk_writer_chunks(w, &n));
    assert_int_equal(n, 1); /* one range, though put in two calls */
    zr__chunk_writer_close(&w);
    zr__chunk_writer_close(&w);
    assert_int_equal(symlink(path, in_tempdir("link")), 0);
    assert_int_equal(zr__chunk_writer_open(in_tempdir("link"), 1, &w), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__chunk_writer_open(in_tempdir("nowhere"), 1, &w), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__chunk_writer_open(tempdir, 1, &w), ZR_ERR_NOT_FOUND);
    assert_null(w);
}

/* Check that a failed write is reported when the writer ends, or earlier, and that later calls still fail. */
static void failed_writes_stay_failed(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EDQUOT, -1};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++)
        for (int at = 0, failures = 1; failures; at++) {
            zr__chunk_writer *w = NULL;
            int64_t n = 1;
            const char *path = empty_file("failing", BYTES);
            assert_int_equal(zr__chunk_writer_open(path, 1, &w), ZR_OK);
            write_error = errors[e];
            writes_left = at;
            zr_status put = put_range(w, 100, BYTES, 500000), end = zr__chunk_writer_end(w);
            failures = writes_left < 0;
            if (failures) assert_in_range(writes_behind, 0, 3); /* writes that were in flight when one failed */
            writes_left = -1;
            if (!failures) assert_true(at > 3); /* head, chunks, tail */
            assert_true(put == ZR_OK || (put == ZR_ERR_IO && failures));
            assert_int_equal(end, failures ? ZR_ERR_IO : ZR_OK);
            if (failures) {
                assert_non_null(strstr(zr_error_message(), "failing: cannot write at byte"));
                assert_int_equal(zr__chunk_writer_end(w), ZR_ERR_IO);
                assert_int_equal(zr__chunk_writer_put(w, NULL, BYTES, content, 0), ZR_ERR_IO);
                assert_null(zr__chunk_writer_chunks(w, &n));
            }
            zr__chunk_writer_close(&w);
        }
}

static void failed_syncs_stay_failed(void **state)
{
    (void)state;
    zr__chunk_writer *w = NULL;
    int64_t n = 1;
    assert_int_equal(zr__chunk_writer_open(empty_file("unsynced", 5000), 1, &w), ZR_OK);
    assert_int_equal(zr__chunk_writer_put(w, NULL, 0, content, 5000), ZR_OK);
    sync_error = EIO;
    assert_int_equal(zr__chunk_writer_end(w), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "unsynced: cannot sync"));
    assert_int_equal(sync_error, 0);
    assert_int_equal(zr__chunk_writer_end(w), ZR_ERR_IO);
    assert_null(zr__chunk_writer_chunks(w, &n));
    zr__chunk_writer_close(&w);
}

/* Check that a writer that is closed early leaves no thread. It may or may not have written its data. */
static void unfinished_writers_close(void **state)
{
    (void)state;
    for (int64_t bytes = 0; bytes <= BYTES; bytes += BYTES / 3) {
        zr__chunk_writer *w = NULL;
        assert_int_equal(zr__chunk_writer_open(empty_file("given up", BYTES), 1, &w), ZR_OK);
        assert_int_equal(put_range(w, 0, bytes, 700000), ZR_OK);
        zr__chunk_writer_close(&w);
        assert_null(w);
    }
}

static void files_are_read_back(void **state)
{
    (void)state;
    zr__chunk *chunk = NULL;
    int64_t n = 0, end = BYTES;
    const char *path = put_file("back", content, BYTES);
    assert_int_equal(zr__chunks_of_file(path, 0, -1, &chunk, &n), ZR_OK);
    check_chunks(chunk, n, &end, 1);
    zr_free(chunk);
    assert_int_equal(zr__chunks_of_file(path, 5, 6, &chunk, &n), ZR_OK);
    assert_int_equal(n, 1);
    assert_true(chunk[0].offset == 5 && chunk[0].bytes == 1 && chunk[0].hash == XXH3_64bits(content + 5, 1));
    zr_free(chunk);
    assert_int_equal(zr__chunks_of_file(path, 7, 7, &chunk, &n), ZR_OK);
    assert_null(chunk);
    assert_int_equal(n, 0);
    assert_int_equal(zr__chunks_of_file(path, 7, 6, &chunk, &n), ZR_ERR_ARG);
    assert_int_equal(zr__chunks_of_file(path, -1, 6, &chunk, &n), ZR_ERR_ARG);
    assert_int_equal(zr__chunks_of_file(path, 0, BYTES + 1, &chunk, &n), ZR_ERR_ARG);
    assert_int_equal(zr__chunks_of_file(in_tempdir("none"), 0, -1, &chunk, &n), ZR_ERR_NOT_FOUND);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void tensors_are_read_in_any_part(void **state)
{
    (void)state;
    const char *run = in_tempdir("parts");
    zr__manifest *m = NULL;
    zr__chunk_reader *r = NULL;
    float value[256];
    char dir[4096];
    mkdir(run, 0777);
    assert_int_equal(made_checkpoint(run, 12), ZR_OK);
    snprintf(dir, sizeof dir, "%s/step-00000012", run);
    assert_int_equal(made_check(dir, 12), ZR_OK);
    assert_int_equal(zr__manifest_read(dir, &m), ZR_OK);
    assert_int_equal(zr__chunk_reader_open(dir, m, "exp_avg.safetensors", 1, &r), ZR_OK);
    for (int64_t first = 0; first <= 200; first += 13)
        for (int64_t n = 0; n <= 200 - first; n += 17) {
            value[n] = -1;
            assert_int_equal(zr__chunk_reader_f32(r, "wte", first, n, value), ZR_OK);
            for (int64_t i = 0; i < n; i++) assert_true(value[i] == made_value(12, 2, first + i));
            assert_true(value[n] == -1);
        }
    assert_int_equal(zr__chunk_reader_f32(r, "wte", 0, 201, value), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_reader_f32(r, "wte", -1, 1, value), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_reader_f32(r, "wte", INT64_MAX, INT64_MAX, value), ZR_ERR_ARG);
    assert_int_equal(zr__chunk_reader_f32(r, "other", 0, 1, value), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "exp_avg.safetensors: no tensor other"));
    /* The safetensors reader itself gives no unchecked byte. */
    const zr_safetensors *st = zr__chunk_reader_tensors(r);
    assert_int_equal(zr_safetensors_count(st), MADE_TENSORS);
    assert_int_equal(zr_safetensors_get(st, 0)->offset % 4096, 0);
    assert_int_equal(zr_safetensors_read_f32(st, zr_safetensors_get(st, 0), 0, 1, value), ZR_ERR_IO);
    zr__chunk_reader_close(&r);
    assert_int_equal(zr__chunk_reader_open(dir, m, "config.json", 1, &r), ZR_ERR_DATA);
    assert_int_equal(zr__chunk_reader_open(dir, m, "none.safetensors", 1, &r), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "does not list the file none.safetensors"));
    assert_null(r);
    zr__manifest_free(&m);
}

/* Write a file of several chunks, divided at the ends of ranges too, and return its manifest entry. */
static zr__manifest_file put_content(const int64_t *ends, int n)
{
    const char *path = empty_file("content", ends[n - 1]);
    zr__chunk_writer *w = NULL;
    zr__manifest_file listed = {.name = "content", .bytes = ends[n - 1]};
    assert_int_equal(zr__chunk_writer_open(path, 1, &w), ZR_OK);
    for (int64_t e = 0, at = 0; e < n; at = ends[e++]) {
        if (e % 2) assert_int_equal(put_range(w, at, ends[e], 1 << 20), ZR_OK);
        if (e % 2) continue;
        zr__chunk_writer *other = NULL; /* a separate range */
        assert_int_equal(zr__chunk_writer_open(path, 1, &other), ZR_OK);
        assert_int_equal(put_range(other, at, ends[e], 1 << 20), ZR_OK);
        assert_int_equal(zr__chunk_writer_end(other), ZR_OK);
        zr__chunk_writer_close(&other);
    }
    assert_int_equal(zr__chunk_writer_end(w), ZR_OK);
    zr__chunk_writer_close(&w);
    static zr__chunk chunk[64];
    for (int64_t at = 0, e = 0; at < listed.bytes; at += chunk[listed.n_chunks++].bytes) {
        int64_t end = zr__chunk_limit(at) < ends[e] ? zr__chunk_limit(at) : ends[e];
        chunk[listed.n_chunks] = (zr__chunk){at, end - at, XXH3_64bits(content + at, (size_t)(end - at))};
        e += end == ends[e];
    }
    listed.chunk = chunk;
    return listed;
}

/* Return whether the file system of the tests has O_DIRECT. */
static bool direct_here(void)
{
    const int fd = __real_open(in_tempdir("content"), O_RDONLY | O_DIRECT);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Check that bytes can be read sequentially and at random places, with a chunk read ahead or not, with each kind of
 * support of O_DIRECT. */
static void bytes_are_read_in_any_order(void **state)
{
    static const int64_t ends[] = {4096, 70000, ZR_CHUNK_BYTES + 5, 5000000, BYTES};
    const zr__manifest_file listed = put_content(ends, 5);
    const zr__manifest manifest = {.file = &listed, .n_files = 1};
    disk = *(const int *)*state;
    for (int readers = 1; readers <= 3; readers++) {
        zr__checked_file file;
        uint32_t x = 1;
        directs = plains = 0;
        interrupts = 2;
        assert_int_equal(zr__checked_open(tempdir, &manifest, "content", readers, &file), ZR_OK);
        for (int64_t i = 0; i < 2; i++) assert_int_equal(zr__checked_load(&file, i), ZR_OK);
        assert_int_equal(file.ahead, readers <= 2 ? 2 : ZR__NO_CHUNK);
        for (int64_t at = 0, n; at < BYTES; at += n) {
            n = BYTES - at < 300000 ? BYTES - at : 300000;
            assert_int_equal(read_and_compare(&file, at, n), ZR_OK);
        }
        for (int i = 0; i < 10; i++) {
            int64_t at = (x = x * 1664525 + 1013904223) % BYTES, n = (x = x * 1664525 + 1013904223) % 5000000;
            assert_int_equal(read_and_compare(&file, at, n < BYTES - at ? n : BYTES - at), ZR_OK);
        }
        assert_int_equal(zr__checked_read(&file, BYTES, 1, NULL, &x), ZR_ERR_DATA);
        zr__checked_close(&file);
        assert_int_equal(interrupts, 0);
        assert_true(directs == 0 || ((disk == DIRECT || disk == CUT_SHORT) && readers <= 2));
        assert_true(directs > 0 || !direct_here() || disk == NOT_OPENED || disk == NOT_WRITTEN || readers == 3);
        assert_true(plains > 0);
    }
    disk = DIRECT;
}

/* Check that an unreadable or damaged chunk fails where it is requested, whichever thread read it ahead; all other
 * chunks can be read. */
static void failed_reads_are_those_of_the_chunk(void **state)
{
    (void)state;
    static const int64_t ends[] = {4096, 70000, ZR_CHUNK_BYTES + 5, 5000000, BYTES};
    const zr__manifest_file listed = put_content(ends, 5);
    const zr__manifest manifest = {.file = &listed, .n_files = 1};
    for (int readers = 1; readers <= 3; readers += 2)
        for (int64_t bad = 0; bad < listed.n_chunks; bad++) {
            const zr__chunk *chunk = &listed.chunk[bad];
            zr__checked_file file;
            unreadable = chunk->offset + chunk->bytes / 2;
            assert_int_equal(zr__checked_open(tempdir, &manifest, "content", readers, &file), ZR_OK);
            for (int64_t i = 0; i < listed.n_chunks; i++)
                assert_int_equal(zr__checked_load(&file, i), i == bad ? ZR_ERR_IO : ZR_OK);
            assert_int_equal(zr__checked_load(&file, bad), ZR_ERR_IO);
            assert_non_null(strstr(zr_error_message(), "content: cannot read at byte"));
            assert_int_equal(read_and_compare(&file, unreadable, 1), ZR_ERR_IO);
            unreadable = -1;
            assert_int_equal(read_and_compare(&file, chunk->offset + chunk->bytes / 2, 1), ZR_OK);
            zr__checked_close(&file);
        }
    assert_int_equal(truncate(in_tempdir("content"), BYTES - 1), 0);
    assert_int_equal(truncate(in_tempdir("content"), BYTES), 0); /* zeroes the last byte */
    zr__checked_file file;
    assert_int_equal(zr__checked_open(tempdir, &manifest, "content", 1, &file), ZR_OK);
    for (int64_t i = 0; i < listed.n_chunks; i++)
        assert_int_equal(zr__checked_load(&file, i), i == listed.n_chunks - 1 ? ZR_ERR_DATA : ZR_OK);
    zr__checked_close(&file);
}

/* Check that a file that shrinks or changes during reading is refused at the read, and none of its bytes are used. */
static void files_that_change_are_noticed(void **state)
{
    (void)state;
    const char *run = in_tempdir("changing");
    zr__manifest *m = NULL;
    char dir[4096];
    mkdir(run, 0777);
    for (int64_t step = 1; step <= 2; step++) {
        zr__chunk_reader *r = NULL;
        float value = -1;
        assert_int_equal(made_checkpoint(run, step), ZR_OK);
        snprintf(dir, sizeof dir, "%s/step-0000000%d", run, (int)step);
        assert_int_equal(zr__manifest_read(dir, &m), ZR_OK);
        assert_int_equal(zr__chunk_reader_open(dir, m, "model.safetensors", 1, &r), ZR_OK);
        FILE *file = fopen(made_path(dir, "model.safetensors"), "r+b");
        fseek(file, zr_safetensors_get(zr__chunk_reader_tensors(r), 1)->offset + 4, SEEK_SET);
        if (step == 1) assert_int_equal(fwrite("x", 1, 1, file), 1);
        fclose(file);
        if (step == 2) assert_int_equal(truncate(made_path(dir, "model.safetensors"), 4100), 0);
        assert_int_equal(zr__chunk_reader_f32(r, "bias", 1, 1, &value), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "model.safetensors"));
        assert_non_null(strstr(zr_error_message(), "(tensor bias)"));
        assert_true(value == -1);
        zr__chunk_reader_close(&r);
        zr__manifest_free(&m);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static atomic_int allocations_left = -1;

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

void *__wrap_zr_alloc(size_t bytes)
{
    return allocations_left >= 0 && allocations_left-- == 0 ? NULL : __real_zr_alloc(bytes);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    const char *run = in_tempdir("memory");
    zr_status st = ZR_ERR_MEMORY;
    char dir[4096], report[64];
    mkdir(run, 0777);
    snprintf(dir, sizeof dir, "%s/step-00000003", run);
    for (int at = 0; st != ZR_OK; at++) {
        assert_int_equal(zr__checkpoint_remove(run, 3), ZR_OK);
        allocations_left = at;
        st = made_checkpoint(run, 3);
        /* The last allocations are for `latest`: the checkpoint then exists, and the status tells the two cases apart.
         */
        if (allocations_left < 0) assert_int_equal(st, access(dir, F_OK) == 0 ? ZR_ERR_CREATE : ZR_ERR_MEMORY);
        allocations_left = -1;
        assert_true(at < 1000);
    }
    assert_int_equal(st, ZR_OK);
    st = ZR_ERR_MEMORY;
    for (int at = 0; st == ZR_ERR_MEMORY; at++) {
        allocations_left = at;
        st = made_check(dir, 3);
        if (st == ZR_OK) st = zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report);
        if (allocations_left < 0) assert_int_equal(st, ZR_ERR_MEMORY);
        allocations_left = -1;
        assert_true(at < 1000);
    }
    assert_int_equal(st, ZR_OK);
}

int main(void)
{
    static int kinds[] = {DIRECT, NOT_OPENED, NOT_WRITTEN, CUT_SHORT};
    const struct CMUnitTest tests[] = {
        {"ranges, direct", ranges_of_two_writers, NULL, NULL, &kinds[0]},
        {"ranges, O_DIRECT refused by open", ranges_of_two_writers, NULL, NULL, &kinds[1]},
        {"ranges, O_DIRECT refused by write", ranges_of_two_writers, NULL, NULL, &kinds[2]},
        {"ranges, writes that take a part", ranges_of_two_writers, NULL, NULL, &kinds[3]},
        cmocka_unit_test(bad_puts_are_refused),
        cmocka_unit_test(failed_writes_stay_failed),
        cmocka_unit_test(failed_syncs_stay_failed),
        cmocka_unit_test(unfinished_writers_close),
        cmocka_unit_test(files_are_read_back),
        {"reads, direct", bytes_are_read_in_any_order, NULL, NULL, &kinds[0]},
        {"reads, O_DIRECT refused by open", bytes_are_read_in_any_order, NULL, NULL, &kinds[1]},
        {"reads, O_DIRECT refused by read", bytes_are_read_in_any_order, NULL, NULL, &kinds[2]},
        {"reads that give a part", bytes_are_read_in_any_order, NULL, NULL, &kinds[3]},
        cmocka_unit_test(failed_reads_are_those_of_the_chunk),
        cmocka_unit_test(tensors_are_read_in_any_part),
        cmocka_unit_test(files_that_change_are_noticed),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, make_content, drop_content);
}
