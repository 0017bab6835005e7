//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=pwrite
/* Writing safetensors: the exact bytes, concurrent ranges, and files that never appear incomplete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

static int allocations, fail_at = -1;

void *__wrap_zr_alloc(size_t bytes)
{
    return allocations++ == fail_at ? NULL : __real_zr_alloc(bytes);
}

ssize_t __real_pwrite(int fd, const void *in, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset);

static bool stumbles; /* whether writes are interrupted or take only half of their bytes */

ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset)
{
    static int calls;
    int turn = stumbles ? calls++ % 3 : 2;
    if (turn == 0) errno = EINTR;
    return turn == 0 ? -1 : __real_pwrite(fd, in, turn == 1 ? (bytes + 1) / 2 : bytes, offset);
}

static const zr__tensor_spec two[] = {{"b.weight", {2, {2, 3}}}, {"a", {0, {0}}}};

static size_t read_file(const char *path, char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(bytes, 1, room, file) : 0;
    if (file) fclose(file);
    return n;
}

static void bytes_are_as_the_format_says(void **state)
{
    stumbles = *state != NULL;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]}}";
    const char *path = in_tempdir(stumbles ? "in pieces" : "bytes");
    const float value[2] = {1.0f, -2.5f};
    static char bytes[4096 + 29];
    zr_safetensors *st;
    assert_int_equal(zr__safetensors_create(path, NULL, two, 2), ZR_OK);
    assert_int_equal(zr__safetensors_attach(path, &st), ZR_OK);
    assert_int_equal(zr__safetensors_write(st, zr_safetensors_find(st, "b.weight"), 1, 1, &value[0]), ZR_OK);
    assert_int_equal(zr__safetensors_write(st, zr_safetensors_find(st, "a"), 0, 1, &value[1]), ZR_OK);
    assert_int_equal(zr__file_sync(&st->file), ZR_OK);
    zr_safetensors_close(&st);

    /* Data begins at a multiple of 4096. */
    assert_int_equal(read_file(path, bytes, sizeof(bytes)), 4096 + 28);
    static const unsigned char prefix[8] = {(4096 - 8) & 255, (4096 - 8) >> 8};
    assert_memory_equal(bytes, prefix, 8);
    assert_memory_equal(bytes + 8, header, sizeof(header) - 1);
    for (size_t i = 8 + sizeof(header) - 1; i < 4096; i++) assert_int_equal(bytes[i], ' ');
    static const unsigned char data[28] = {[6] = 0x80, [7] = 0x3f, [26] = 0x20, [27] = 0xc0};
    assert_memory_equal(bytes + 4096, data, 28);
    stumbles = false;
}

static void no_tensors_make_a_file_too(void **state)
{
    (void)state;
    zr_safetensors *st;
    assert_int_equal(zr__safetensors_create(in_tempdir("empty"), NULL, NULL, 0), ZR_OK);
    assert_int_equal(zr_safetensors_open(in_tempdir("empty"), &st), ZR_OK);
    assert_int_equal(zr_safetensors_count(st), 0);
    zr_safetensors_close(&st);
}

/* Each writer writes every fourth piece of every tensor through its own open file. */
enum { WRITERS = 4, PIECE = 777 };

static const zr__tensor_spec many[] = {
    {"w", {2, {300, 401}}}, {"none", {2, {0, 5}}}, {"x", {1, {12345}}}, {"y", {4, {3, 5, 7, 11}}}};

static float value_of(int64_t tensor, int64_t element)
{
    return (float)(tensor * 1000003 + element) * 0.25f;
}

static bool write_share(const char *path, int64_t writer)
{
    float piece[PIECE];
    zr_safetensors *st;
    bool good = zr__safetensors_attach(path, &st) == ZR_OK;
    for (int64_t t = 0; good && t < 4; t++) {
        const zr_safetensors_tensor *tensor = zr_safetensors_find(st, many[t].name);
        for (int64_t first = writer * PIECE; good && first < tensor->elems; first += WRITERS * PIECE) {
            int64_t n = tensor->elems - first < PIECE ? tensor->elems - first : PIECE;
            for (int64_t i = 0; i < n; i++) piece[i] = value_of(t, first + i);
            good = zr__safetensors_write(st, tensor, first, n, piece) == ZR_OK;
        }
    }
    good = good && zr__file_sync(&st->file) == ZR_OK;
    zr_safetensors_close(&st);
    return good;
}

static void check_many(const char *path)
{
    static float values[300 * 401];
    zr_safetensors *st;
    assert_int_equal(zr_safetensors_open(path, &st), ZR_OK);
    for (int64_t t = 0; t < 4; t++) {
        const zr_safetensors_tensor *tensor = zr_safetensors_find(st, many[t].name);
        assert_int_equal(tensor->elems, zr_shape_elems(&many[t].shape));
        assert_int_equal(zr_safetensors_read_f32(st, tensor, 0, tensor->elems, values), ZR_OK);
        for (int64_t i = 0; i < tensor->elems; i++) assert_true(values[i] == value_of(t, i));
    }
    zr_safetensors_close(&st);
}

static void *write_in_thread(void *arg)
{
    return write_share(in_tempdir("threads"), (intptr_t)arg) ? arg : (void *)(intptr_t)-1;
}

static void threads_write_their_ranges(void **state)
{
    (void)state;
    pthread_t thread[WRITERS];
    assert_int_equal(zr__safetensors_create(in_tempdir("threads"), NULL, many, 4), ZR_OK);
    for (intptr_t i = 0; i < WRITERS; i++) pthread_create(&thread[i], NULL, write_in_thread, (void *)i);
    for (intptr_t i = 0; i < WRITERS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        assert_int_equal((intptr_t)result, i);
    }
    check_many(in_tempdir("threads"));
}

static void processes_write_their_ranges(void **state)
{
    (void)state;
    assert_int_equal(zr__safetensors_create(in_tempdir("processes"), NULL, many, 4), ZR_OK);
    for (int64_t i = 0; i < WRITERS; i++)
        if (fork() == 0) _exit(write_share(in_tempdir("processes"), i) ? 0 : 1);
    for (int64_t i = 0; i < WRITERS; i++) {
        int status;
        assert_true(wait(&status) > 0 && status == 0);
    }
    check_many(in_tempdir("processes"));
}

static void impossible_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        zr__tensor_spec spec[2];
        const char *fragment;
    } bad[] = {
        {{{"a", {1, {1}}}, {"a", {1, {1}}}}, "duplicate object key"},
        {{{"", {1, {1}}}, {"a", {1, {1}}}}, "not plain ASCII"},
        {{{"a\"b", {1, {1}}}, {"a", {1, {1}}}}, "not plain ASCII"},
        {{{"a\nb", {1, {1}}}, {"a", {1, {1}}}}, "not plain ASCII"},
        {{{"__metadata__", {1, {1}}}, {"a", {1, {1}}}}, "__metadata__: duplicate object key"},
        {{{"a", {1, {-1}}}, {"b", {1, {1}}}}, "impossible shape"},
        {{{"a", {2, {(int64_t)1 << 40, (int64_t)1 << 40}}}, {"b", {1, {1}}}}, "impossible shape"},
        {{{"a", {1, {((int64_t)1 << 46) - 1}}}, {"b", {1, {2}}}}, "more than 2^48 bytes"},
        {{{"a", {5, {1, 1, 1, 1}}}, {"b", {1, {2}}}}, "5 dimensions"},
    };
    const char *path = in_tempdir("impossible");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zr_status st = zr__safetensors_create(path, NULL, bad[i].spec, 2);
        if (st != ZR_ERR_ARG || !strstr(zr_error_message(), bad[i].fragment))
            fail_msg("status %d: %s; wanted \"%s\"", st, zr_error_message(), bad[i].fragment);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* Check that a file too large for any disk fails at creation and leaves nothing behind. */
static void full_disks_show_at_once(void **state)
{
    (void)state;
    const zr__tensor_spec huge = {"a", {1, {((int64_t)1 << 46) - 1}}};
    assert_int_equal(zr__safetensors_create(in_tempdir("huge"), NULL, &huge, 1), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "no space"));
    assert_int_equal(access(in_tempdir("huge"), F_OK), -1);
}

static void nothing_is_replaced_or_followed(void **state)
{
    (void)state;
    char bytes[8];
    zr_safetensors *st;
    const char *victim = put_file("victim", "victim", 6);
    assert_int_equal(zr__safetensors_create(victim, NULL, two, 2), ZR_ERR_CREATE);
    assert_int_equal(symlink(victim, in_tempdir("link")), 0);
    assert_int_equal(zr__safetensors_create(in_tempdir("link"), NULL, two, 2), ZR_ERR_CREATE);
    assert_int_equal(symlink(in_tempdir("nowhere"), in_tempdir("dangling")), 0);
    assert_int_equal(zr__safetensors_create(in_tempdir("dangling"), NULL, two, 2), ZR_ERR_CREATE);
    assert_int_equal(zr__safetensors_create(in_tempdir("no/folder"), NULL, two, 2), ZR_ERR_CREATE);
    assert_int_equal(access(in_tempdir("nowhere"), F_OK), -1);
    assert_int_equal(read_file(victim, bytes, sizeof(bytes)), 6);
    assert_int_equal(zr__safetensors_create(in_tempdir("real"), NULL, two, 2), ZR_OK);
    assert_int_equal(symlink(in_tempdir("real"), in_tempdir("link2")), 0);
    assert_int_equal(zr__safetensors_attach(in_tempdir("link2"), &st), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr_safetensors_open(in_tempdir("link2"), &st), ZR_OK);
    zr_safetensors_close(&st);
}

static void files_are_committed_whole(void **state)
{
    (void)state;
    char bytes[16];
    struct stat info;
    const char *path = in_tempdir("latest");
    assert_int_equal(zr__file_put(path, "one", 3), ZR_OK);
    assert_int_equal(zr__file_put(path, "second", 6), ZR_OK);
    assert_int_equal(read_file(path, bytes, sizeof(bytes)), 6);
    assert_memory_equal(bytes, "second", 6);
    assert_int_equal(access(in_tempdir("latest.tmp"), F_OK), -1);

    /* A link planted in place of the temporary file is removed, not followed. */
    put_file("victim", "victim", 6);
    assert_int_equal(symlink(in_tempdir("victim"), in_tempdir("latest.tmp")), 0);
    assert_int_equal(zr__file_put(path, "3", 1), ZR_OK);
    assert_int_equal(read_file(in_tempdir("victim"), bytes, sizeof(bytes)), 6);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode));

    assert_int_equal(zr__file_put(in_tempdir("no/latest"), "1", 1), ZR_ERR_CREATE);
    assert_int_equal(zr__file_commit(in_tempdir("gone"), path), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "gone"));
    assert_int_equal(mkdir(in_tempdir("a\nfolder"), 0700), 0);
    assert_int_equal(zr__file_put(in_tempdir("a\nfolder"), "1", 1), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "a\\x0afolder.tmp: cannot rename"));
    assert_int_equal(access(in_tempdir("a\nfolder.tmp"), F_OK), -1);
    assert_int_equal(read_file(path, bytes, sizeof(bytes)), 1);
}

static void names_without_a_folder_are_committed(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(tempdir), 0);
    assert_int_equal(zr__file_put("-plain", "x", 1), ZR_OK);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(access(in_tempdir("-plain"), F_OK), 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    zr_status status = ZR_ERR_MEMORY;
    int failures = 0;
    for (fail_at = 0; status == ZR_ERR_MEMORY; fail_at++) {
        allocations = 0;
        status = zr__safetensors_create(in_tempdir("memory"), NULL, two, 2);
        failures += status == ZR_ERR_MEMORY;
    }
    fail_at = -1;
    assert_int_equal(status, ZR_OK);
    assert_true(failures >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "writes may be interrupted", .test_func = bytes_are_as_the_format_says, .initial_state = &stumbles},
        cmocka_unit_test(bytes_are_as_the_format_says),
        cmocka_unit_test(no_tensors_make_a_file_too),
        cmocka_unit_test(threads_write_their_ranges),
        cmocka_unit_test(processes_write_their_ranges),
        cmocka_unit_test(impossible_files_are_refused),
        cmocka_unit_test(full_disks_show_at_once),
        cmocka_unit_test(nothing_is_replaced_or_followed),
        cmocka_unit_test(files_are_committed_whole),
        cmocka_unit_test(names_without_a_folder_are_committed),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
