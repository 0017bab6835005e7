//TEST timeout=20
//LINK -Wl,--wrap=open
/* The directory of a run: another job that comes and goes between the look at it and its lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "tempdir.h"
#include "train/run_dir.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* Another job's file that appears just before the lock is made; NULL: none. */
static const char *left_behind;

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? (mode_t)va_arg(args, int) : 0;
    va_end(args);
    const char *name = strrchr(path, '/');
    if (left_behind && name && strcmp(name, "/lock") == 0) {
        put_file(left_behind, "theirs", 6);
        left_behind = NULL;
    }
    return __real_open(path, flags, mode);
}

static void a_run_between_look_and_lock(void **state)
{
    (void)state;
    static const char *const names[] = {"run/run.json", "run/metrics.jsonl", "run/config.json", "run/model",
                                        "run/model.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zr__run_dir dir = ZR_RUN_DIR_INIT;
        char theirs[8] = "";
        left_behind = names[i];
        assert_int_equal(zr__run_dir_open(&dir, in_tempdir("run"), "{}"), ZR_ERR_CREATE);
        if (!strstr(zr_error_message(), "holds another run")) fail_msg("%s: %s", names[i], zr_error_message());
        assert_null(left_behind);
        assert_int_equal(access(in_tempdir("run/lock"), F_OK), -1);
        FILE *file = fopen(in_tempdir(names[i]), "rb"); /* and nothing of it is touched */
        assert_non_null(file);
        assert_int_equal(fread(theirs, 1, sizeof theirs, file), 6);
        fclose(file);
        assert_string_equal(theirs, "theirs");
        assert_int_equal(remove(in_tempdir(names[i])), 0);
    }
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    assert_int_equal(zr__run_dir_open(&dir, in_tempdir("run"), "{}"), ZR_OK);
    zr__run_dir_close(&dir);
}

/* Its own lock goes, wherever the directory is now; another job's at the old place stays. */
static void a_directory_that_is_renamed_before_it_is_closed(void **state)
{
    (void)state;
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    assert_int_equal(zr__run_dir_open(&dir, in_tempdir("early"), "{}"), ZR_OK);
    assert_int_equal(rename(in_tempdir("early"), in_tempdir("late")), 0);
    assert_int_equal(mkdir(in_tempdir("early"), 0700), 0);
    put_file("early/lock", "theirs", 6);
    assert_int_equal(access(in_tempdir("late/lock"), F_OK), 0);
    zr__run_dir_close(&dir);
    assert_int_equal(access(in_tempdir("late/lock"), F_OK), -1);
    assert_int_equal(access(in_tempdir("early/lock"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_between_look_and_lock),
                                       cmocka_unit_test(a_directory_that_is_renamed_before_it_is_closed)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
