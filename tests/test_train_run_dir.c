//TEST timeout=20 needs=/proc/self
//LINK -Wl,--wrap=open
/* The directory of a run: another job that comes and goes between the look at it and its lock, locks whose process is
 * gone, and metrics that are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
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

/* ---- locks ------------------------------------------------------------------------------------ */

static void read_back(const char *name, char *text, size_t size)
{
    FILE *file = fopen(in_tempdir(name), "rb");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* A lock as this process writes it, with one word replaced. */
static void put_lock(const char *mine, const char *word, const char *by)
{
    char text[1024];
    const char *at = strstr(mine, word);
    assert_non_null(at);
    at += strlen(word);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - mine), mine, by, at + strcspn(at, ",\n"));
    put_file("lock", text, strlen(text));
}

static bool taken(char gone[ZR_LOCK_HOLDER_BYTES])
{
    zr_status st = zr__lock_take(in_tempdir("lock"), gone);
    if (st != ZR_OK && !strstr(zr_error_message(), "in use by another job")) fail_msg("%s", zr_error_message());
    return st == ZR_OK;
}

/* Taken over only where it is certain that nobody has it. */
static void locks_that_were_left(void **state)
{
    (void)state;
    static const struct {
        const char *word, *by;
        bool gone;
    } locks[] = {{"host ", "elsewhere", false},
                 {"process ", "1", true},         /* alive, and started at another time */
                 {"process ", "999999999", true}, /* no number of a process */
                 {"started ", "7", true},         /* this number had another process */
                 {"boot ", "before-a-restart", true},
                 {"space ", "pid:[1]", false}, /* another container's: it cannot be seen */
                 {"key ", "0000000000000001", false}};
    char mine[1024], now[1024], gone[ZR_LOCK_HOLDER_BYTES], host[1100];
    remove(in_tempdir("lock"));
    assert_true(taken(gone));
    assert_string_equal(gone, "");
    read_back("lock", mine, sizeof mine);
    uint64_t key = zr__lock_key(in_tempdir("lock"));
    assert_true(key != 0);
    assert_false(taken(gone)); /* this process is alive */
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        put_lock(mine, locks[i].word, locks[i].by);
        if (taken(gone) != locks[i].gone) fail_msg("%s%s", locks[i].word, locks[i].by);
        if (!locks[i].gone) continue;
        assert_true(strncmp(gone, "host ", 5) == 0);
        read_back("lock", now, sizeof now); /* it is this process's now, with a key of its own */
        assert_memory_equal(now, mine, strcspn(mine, "\n"));
        assert_true(zr__lock_key(in_tempdir("lock")) != key);
        assert_false(taken(gone));
    }
    put_file("lock", "", 0); /* not written yet: somebody is about to */
    assert_false(taken(gone));
    snprintf(host, sizeof host, "%.*s, process 999999999\n", (int)strcspn(mine, ","), mine);
    put_file("lock", host, strlen(host)); /* whose processes these numbers are of is not said */
    assert_false(taken(gone));
    remove(in_tempdir("lock"));
    put_file("theirs", mine, strlen(mine));
    assert_int_equal(symlink("theirs", in_tempdir("lock")), 0);
    assert_false(taken(gone));
    remove(in_tempdir("lock"));
}

/* ---- metrics ---------------------------------------------------------------------------------- */

/* What stands behind the step is cut, and half a line of a run that was killed. */
static void metrics_are_cut(void **state)
{
    (void)state;
    static const char one[] = "{\"step\":1, \"loss\":1}\n", two[] = "{\"step\":2, \"loss\":1}\n",
                      eval[] = "{\"step\":2, \"val_loss\":1.5, \"val_tokens\":8}\n", half[] = "{\"step\":3, \"lo",
                      sample[] = "{\"step\":2, \"sample\":\"a \\\"val_loss\\\"\"}\n";
    static const struct {
        int64_t step;
        const char *text[4];
        int kept;
        zr__run_made made;
    } cuts[] = {{2, {one, two, eval, half}, 3, {true, false, 1.5}},
                {2, {one, two, half}, 2, {false, false, INFINITY}},
                {1, {one, two, eval}, 1, {false, false, INFINITY}},
                {0, {one, two}, 0, {false, false, INFINITY}},
                {5, {one, two, eval}, 3, {false, false, 1.5}},
                {2, {one, two, eval, two}, 4, {true, false, 1.5}},
                {1, {half}, 0, {false, false, INFINITY}},
                {2, {one, two, eval, "{\"step\":3}\n"}, 3, {true, false, 1.5}},
                {2, {one, two, eval, sample}, 4, {true, true, 1.5}},
                {2, {one, two, sample, "{\"step\":3}\n"}, 3, {false, true, INFINITY}},
                {3, {one, two, sample, "{\"step\":3}\n"}, 4, {false, false, INFINITY}}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        char text[400] = "", kept[400] = "", now[400];
        bool there = false;
        zr__run_made made = {!cuts[i].made.evaluation, !cuts[i].made.sample, 0};
        zr__run_dir dir = ZR_RUN_DIR_INIT;
        for (int t = 0; t < 4 && cuts[i].text[t]; t++) {
            strcat(text, cuts[i].text[t]);
            if (t < cuts[i].kept) strcat(kept, cuts[i].text[t]);
        }
        put_file("run/metrics.jsonl", text, strlen(text));
        assert_int_equal(zr__run_dir_reopen(&dir, in_tempdir("run"), &there), ZR_OK);
        assert_true(there);
        assert_int_equal(zr__run_dir_continue(&dir, cuts[i].step, "{}", &made), ZR_OK);
        assert_int_equal(zr__metrics_write(&dir.metrics, "next\n", 5), ZR_METRICS_NO_NEWS);
        zr__run_dir_close(&dir);
        strcat(kept, "next\n");
        read_back("run/metrics.jsonl", now, sizeof now);
        assert_string_equal(now, kept);
        assert_int_equal(made.evaluation, cuts[i].made.evaluation);
        assert_int_equal(made.sample, cuts[i].made.sample);
        assert_true(made.best_loss == cuts[i].made.best_loss);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_between_look_and_lock),
                                       cmocka_unit_test(a_directory_that_is_renamed_before_it_is_closed),
                                       cmocka_unit_test(locks_that_were_left), cmocka_unit_test(metrics_are_cut)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
