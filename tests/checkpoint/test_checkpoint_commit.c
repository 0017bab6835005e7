//TEST timeout=60
//LINK -Wl,--wrap=open,--wrap=write,--wrap=pwrite,--wrap=fsync,--wrap=rename,--wrap=mkdir,--wrap=fallocate,--wrap=ftruncate
/* Files and folders appear complete or not at all, wherever the machine stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/fs_record.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

static void a_file(void **state)
{
    (void)state;
    const char *path = in_tempdir("file");
    fs_record_start(path, NULL);
    for (int i = 1; i <= 2; i++) { /* first new, then over an older file */
        assert_int_equal(zr__file_put(path, "words", 5), ZR_OK);
        assert_string_equal(fs.fault, "");
        assert_true(fs.calls >= 5 * i);
        assert_true(fs_named(path));
    }
}

static void put(const char *path)
{
    assert_int_equal(zr__file_put(path, "words", 5), ZR_OK);
}

static void a_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "two", NULL};
    const char *tmp = in_tempdir("folder.tmp"), *final = in_tempdir("folder");
    fs_record_start(final, names);
    assert_int_equal(mkdir(tmp, 0777), 0);
    put(in_tempdir("folder.tmp/one"));
    put(in_tempdir("folder.tmp/two.part"));
    assert_int_equal(rename(in_tempdir("folder.tmp/two.part"), in_tempdir("folder.tmp/two")), 0);
    assert_int_equal(zr__dir_commit(tmp, final), ZR_OK);
    assert_string_equal(fs.fault, "");
    assert_true(fs_named(final));
}

/* Check that the record of calls (fs_record.h) detects faults. */
static void faults_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"one", NULL};
    const char *tmp = in_tempdir("bad.tmp"), *final = in_tempdir("bad");
    fs_record_start(final, names);
    assert_int_equal(mkdir(tmp, 0777), 0);
    put(in_tempdir("bad.tmp/one"));
    int fd = open(in_tempdir("bad.tmp/one"), O_WRONLY);
    assert_int_equal(pwrite(fd, "w", 1, 0), 1); /* written after the file was synced */
    close(fd);
    assert_int_equal(zr__dir_commit(tmp, final), ZR_OK);
    assert_string_not_equal(fs.fault, "");
    fs_record_start(final, names); /* earlier syncs do not count */
    assert_false(fs_named(final));
    fs_record_start(in_tempdir("late"), names);
    assert_int_equal(mkdir(in_tempdir("late"), 0777), 0);
    put(in_tempdir("late/one"));
    assert_string_not_equal(fs.fault, "");
}

/* Check that a failure of any call leaves the old file or the new one, never a part. */
static void calls_that_fail(void **state)
{
    (void)state;
    const char *path = in_tempdir("kept");
    static const fs_call calls[] = {FS_FSYNC, FS_PWRITE, FS_RENAME};
    int failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int at = 1; at <= 2; at++) {
            char text[8] = "";
            fs_record_start(path, NULL);
            unlink(path);
            assert_int_equal(zr__file_put(path, "older", 5), ZR_OK);
            fs_record_fail(calls[c], at, EIO);
            zr_status st = zr__file_put(path, "newer", 5);
            assert_int_equal(st, fs.failures ? ZR_ERR_IO : ZR_OK);
            failures += fs.failures;
            FILE *file = fopen(path, "r");
            assert_non_null(file);
            assert_int_equal(fread(text, 1, sizeof text, file), 5);
            fclose(file);
            assert_true(strcmp(text, "older") == 0 || strcmp(text, "newer") == 0);
            assert_true(st != ZR_OK || strcmp(text, "newer") == 0);
        }
    assert_int_equal(failures, 4); /* two syncs (file, folder), one write, one rename */
}

/* Check that EINVAL is accepted if a folder is synced, because it means that the file system cannot sync folders, and
 * is a failure if a file is synced. */
static void folders_that_cannot_be_synced(void **state)
{
    (void)state;
    fs_record_start(in_tempdir("kept"), NULL);
    for (int at = 1; at <= 2; at++) {
        fs_record_fail(FS_FSYNC, at, EINVAL);
        assert_int_equal(zr__file_put(in_tempdir("kept"), "newer", 5), at == 1 ? ZR_ERR_IO : ZR_OK);
        assert_int_equal(fs.failures, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file), cmocka_unit_test(a_folder),
                                       cmocka_unit_test(faults_are_found), cmocka_unit_test(calls_that_fail),
                                       cmocka_unit_test(folders_that_cannot_be_synced)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
