//TEST timeout=20
/* metrics.jsonl on a disk that takes a line, a part of it or nothing: earlier content stays, lines wait in memory, and
 * lost lines are an error at the end. A limit on the size of files (RLIMIT_FSIZE) stands for the full disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json/json.h"
#include "support/tempdir.h"
#include "train/dir/metrics_file.h"

static const char history[] = "{\"step\":1, \"loss\":1}\n{\"step\":2, \"loss\":1}\n";
#define HISTORY (sizeof history - 1)

static void most_bytes(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int no_signal(void **state)
{
    signal(SIGXFSZ, SIG_IGN);
    return tempdir_make(state);
}

static int no_limit(void **state)
{
    (void)state;
    most_bytes(RLIM_INFINITY);
    return remove(in_tempdir("m")) == 0 ? 0 : -1;
}

static void expect_file(const char *name, const char *wanted)
{
    static char text[4 << 20];
    FILE *file = fopen(in_tempdir(name), "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, wanted);
}

/* Open the file of an earlier run, with its history. */
static zr__metrics_file begin(void)
{
    zr__metrics_file m = ZR_METRICS_FILE_INIT;
    zr__run_made made;
    put_file("m", history, HISTORY);
    assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 2, &made), ZR_OK);
    return m;
}

static zr__metrics_news put(zr__metrics_file *m, const char *line)
{
    return zr__metrics_write(m, line, strlen(line));
}

static void lines_wait_for_room(void **state)
{
    (void)state;
    char wanted[400];
    for (rlim_t room = 0; room < 12; room++) { /* room for none, a part or all of the line */
        zr__metrics_file m = begin();
        most_bytes(HISTORY + room);
        assert_int_equal(put(&m, "{\"step\":3}\n"), room < 11 ? ZR_METRICS_KEPT : ZR_METRICS_NO_NEWS);
        snprintf(wanted, sizeof wanted, "%s%s", history, room < 11 ? "" : "{\"step\":3}\n");
        expect_file("m", wanted);
        assert_int_equal(put(&m, "{\"step\":4}\n"), room < 11 ? ZR_METRICS_NO_NEWS : ZR_METRICS_KEPT);
        expect_file("m", wanted);
        most_bytes(RLIM_INFINITY);
        assert_int_equal(put(&m, "{\"step\":5}\n"), ZR_METRICS_AGAIN);
        assert_int_equal(put(&m, "{\"step\":6}\n"), ZR_METRICS_NO_NEWS);
        snprintf(wanted, sizeof wanted, "%s{\"step\":3}\n{\"step\":4}\n{\"step\":5}\n{\"step\":6}\n", history);
        expect_file("m", wanted);
        assert_int_equal(zr__metrics_end(&m), ZR_OK);
        expect_file("m", wanted);
    }
}

static void lines_are_written_at_the_end(void **state)
{
    (void)state;
    char wanted[400];
    snprintf(wanted, sizeof wanted, "%s{\"step\":3}\n", history);
    for (int closed = 0; closed < 2; closed++) {
        zr__metrics_file m = begin();
        most_bytes(HISTORY);
        assert_int_equal(put(&m, "{\"step\":3}\n"), ZR_METRICS_KEPT);
        most_bytes(RLIM_INFINITY);
        if (closed)
            zr__metrics_close(&m);
        else
            assert_int_equal(zr__metrics_end(&m), ZR_OK);
        expect_file("m", wanted);
    }
}

static void lost_lines_are_an_error(void **state)
{
    (void)state;
    static char line[1000];
    enum { FIT = ZR_METRICS_KEPT_BYTES / (sizeof line - 1) };
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    zr__metrics_file m = begin();
    most_bytes(HISTORY);
    for (int i = 0; i < FIT; i++) assert_int_equal(put(&m, line), i == 0 ? ZR_METRICS_KEPT : ZR_METRICS_NO_NEWS);
    assert_int_equal(put(&m, line), ZR_METRICS_LOST);
    assert_int_equal(put(&m, line), ZR_METRICS_NO_NEWS);
    most_bytes(RLIM_INFINITY);
    assert_int_equal(zr__metrics_end(&m), ZR_ERR_IO);
    if (!strstr(zr_error_message(), "lacks 2 lines")) fail_msg("%s", zr_error_message());
    struct stat st;
    assert_int_equal(stat(in_tempdir("m"), &st), 0); /* kept lines are there */
    assert_int_equal(st.st_size, HISTORY + FIT * (sizeof line - 1));

    m = begin();
    most_bytes(HISTORY + 3);
    assert_int_equal(put(&m, line), ZR_METRICS_KEPT);
    assert_int_equal(zr__metrics_end(&m), ZR_ERR_IO);
    if (!strstr(zr_error_message(), "lacks 1 line that could not be written: File too large") &&
        !strstr(zr_error_message(), "lacks 1 line that could not be written: No space left"))
        fail_msg("%s", zr_error_message());
    expect_file("m", history);
}

/* Check that each outage is reported once when it begins, once when it loses lines, and once when it is over, with its
 * numbers. */
static void each_outage_is_told(void **state)
{
    (void)state;
    static char line[ZR_METRICS_KEPT_BYTES / 2];
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    zr__metrics_file m = begin();
    for (int i = 1; i < 3; i++) {
        most_bytes(1);
        assert_int_equal(put(&m, line), ZR_METRICS_KEPT);
        assert_int_equal(put(&m, line), ZR_METRICS_NO_NEWS);
        assert_int_equal(put(&m, line), ZR_METRICS_LOST);
        for (int k = 0; k < i; k++) assert_int_equal(put(&m, line), ZR_METRICS_NO_NEWS);
        most_bytes(RLIM_INFINITY);
        assert_int_equal(put(&m, "{}\n"), ZR_METRICS_AGAIN);
        assert_int_equal(m.outage.n_late, 2);
        assert_int_equal(m.outage.n_lost, i + 1);
    }
    assert_int_equal(m.n_lost, 5);
    zr__metrics_close(&m);
}

/* Check that a sync writes waiting lines if there is room by then; the outage ends with the next line. */
static void syncing_writes_what_waits(void **state)
{
    (void)state;
    char wanted[400];
    zr__metrics_file m = begin();
    most_bytes(HISTORY);
    assert_int_equal(put(&m, "{\"step\":3}\n"), ZR_METRICS_KEPT);
    assert_int_equal(zr__metrics_sync(&m), ZR_ERR_IO);
    if (!strstr(zr_error_message(), "the last 1 line of metrics.jsonl up to it cannot be written yet: "))
        fail_msg("%s", zr_error_message());
    expect_file("m", history);
    most_bytes(HISTORY + 11);
    assert_int_equal(zr__metrics_sync(&m), ZR_OK);
    snprintf(wanted, sizeof wanted, "%s{\"step\":3}\n", history);
    expect_file("m", wanted);
    assert_int_equal(put(&m, "{\"step\":4}\n"), ZR_METRICS_NO_NEWS); /* still the same outage */
    most_bytes(RLIM_INFINITY);
    assert_int_equal(put(&m, "{\"step\":5}\n"), ZR_METRICS_AGAIN);
    assert_int_equal(m.outage.n_late, 2);
    assert_int_equal(zr__metrics_sync(&m), ZR_OK);
    zr__metrics_close(&m);
    assert_int_equal(zr__metrics_sync(&m), ZR_OK);
}

static void *no_memory(size_t bytes)
{
    (void)bytes;
    return zr__json_allocated(NULL);
}

/* Check that lack of memory while the best loss of a file is read is an error, and is not taken for a file without a
 * loss. */
static void losses_without_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"step\":1, \"val_loss\":1.5, \"val_tokens\":8}\n";
    zr__metrics_file m = ZR_METRICS_FILE_INIT;
    zr__run_made made;
    put_file("m", text, sizeof text - 1);
    json_set_alloc_funcs(no_memory, free);
    assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 1, &made), ZR_ERR_MEMORY);
    json_set_alloc_funcs(malloc, free);
    zr__metrics_close(&m);
    assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 1, &made), ZR_OK);
    assert_true(made.best_loss == 1.5);
    zr__metrics_close(&m);
}

/* Check that a line whose sample has a zero byte counts like others. */
static void samples_with_zeros(void **state)
{
    (void)state;
    static const char text[] = "{\"step\":1, \"loss\":1}\n{\"step\":1, \"sample\":\"a\\u0000b\"}\n";
    zr__metrics_file m = ZR_METRICS_FILE_INIT;
    zr__run_made made;
    put_file("m", text, sizeof text - 1);
    assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 1, &made), ZR_OK);
    assert_true(made.sample && m.bytes == sizeof text - 1);
    zr__metrics_close(&m);
    assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 0, &made), ZR_OK);
    assert_true(!made.sample && m.bytes == 0);
    zr__metrics_close(&m);
}

/* Check that only text appended by this run is cut off: if another process has cut the file, it is not extended with
 * zeros. */
static void a_file_that_someone_has_cut(void **state)
{
    (void)state;
    zr__metrics_file m = begin();
    assert_int_equal(truncate(in_tempdir("m"), 0), 0);
    most_bytes(4);
    assert_int_equal(put(&m, "{\"step\":3}\n"), ZR_METRICS_KEPT);
    expect_file("m", "");
    most_bytes(RLIM_INFINITY);
    assert_int_equal(put(&m, "{\"step\":4}\n"), ZR_METRICS_AGAIN);
    assert_int_equal(zr__metrics_end(&m), ZR_OK);
    expect_file("m", "{\"step\":3}\n{\"step\":4}\n");
}

static void a_file_that_someone_has_removed(void **state)
{
    (void)state;
    zr__metrics_file m = begin();
    assert_int_equal(put(&m, "{\"step\":3}\n"), ZR_METRICS_NO_NEWS);
    assert_int_equal(remove(in_tempdir("m")), 0);
    assert_int_equal(zr__metrics_end(&m), ZR_ERR_IO);
    if (!strstr(zr_error_message(), "was removed while the run wrote it")) fail_msg("%s", zr_error_message());
    put_file("m", "", 0);
}

/* Check that a file that another user has linked to under this name is neither cut nor written. */
static void names_of_other_files(void **state)
{
    (void)state;
    zr__run_made made;
    put_file("victim", history, HISTORY);
    for (int hard = 0; hard < 2; hard++) {
        zr__metrics_file m = ZR_METRICS_FILE_INIT;
        const char *at = in_tempdir("m");
        char path[4096];
        snprintf(path, sizeof path, "%s", in_tempdir("victim"));
        assert_int_equal(hard ? link(path, at) : symlink(path, at), 0);
        assert_int_equal(zr__metrics_continue(&m, in_tempdir("m"), 1, &made), ZR_ERR_CREATE);
        if (hard && !strstr(zr_error_message(), "has 2 hard links")) fail_msg("%s", zr_error_message());
        zr__metrics_close(&m);
        assert_int_equal(zr__metrics_create(&m, in_tempdir("m")), ZR_ERR_CREATE);
        expect_file("victim", history);
        assert_int_equal(unlink(in_tempdir("m")), 0);
    }
    put_file("m", "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(lines_wait_for_room, no_limit),
                                       cmocka_unit_test_teardown(lines_are_written_at_the_end, no_limit),
                                       cmocka_unit_test_teardown(lost_lines_are_an_error, no_limit),
                                       cmocka_unit_test_teardown(each_outage_is_told, no_limit),
                                       cmocka_unit_test_teardown(syncing_writes_what_waits, no_limit),
                                       cmocka_unit_test_teardown(losses_without_memory, no_limit),
                                       cmocka_unit_test_teardown(samples_with_zeros, no_limit),
                                       cmocka_unit_test_teardown(a_file_that_someone_has_cut, no_limit),
                                       cmocka_unit_test_teardown(a_file_that_someone_has_removed, no_limit),
                                       cmocka_unit_test_teardown(names_of_other_files, no_limit)};
    return cmocka_run_group_tests(tests, no_signal, tempdir_remove);
}
