//TEST timeout=20 needs=/proc/self
//LINK -Wl,--wrap=open,--wrap=unlink
/* The directory of a run: another job that appears and disappears between the check and the lock, locks whose process
 * has ended, and metrics that are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "support/tempdir.h"
#include "train/dir/run_dir.h"

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

/* Whether files cannot be removed from their folder. */
static bool keeps_all;
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    if (!keeps_all) return __real_unlink(path);
    errno = EACCES;
    return -1;
}

/* Limit the size of files to `bytes`, like a full disk. */
static void set_room(rlim_t bytes)
{
    struct rlimit most;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &most), 0);
    signal(SIGXFSZ, SIG_IGN); /* an error instead of a signal */
    most.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
}

/* Check that each listed file alone is recognized as belonging to an earlier run. */
static void rests_of_a_run_are_not_written_over(void **state)
{
    (void)state;
    static const char *const names[] = {"left/config.json", "left/metrics.jsonl", "left/run.json", "left/model",
                                        "left/model.tmp",   "left/model.old",     "left/latest",   "left/best"};
    assert_int_equal(mkdir(in_tempdir("left"), 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_file(names[i], "theirs", 6);
        assert_int_equal(zr__run_dir_check(in_tempdir("left")), ZR_ERR_CREATE);
        if (!strstr(zr_error_message(), strchr(names[i], '/') + 1)) fail_msg("%s: %s", names[i], zr_error_message());
        assert_int_equal(remove(in_tempdir(names[i])), 0);
        assert_int_equal(zr__run_dir_check(in_tempdir("left")), ZR_OK);
    }
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
        FILE *file = fopen(in_tempdir(names[i]), "rb"); /* the other job's file is untouched */
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

/* Check that a run removes its own lock, even after its directory was renamed, and leaves another job's lock at the old
 * place. */
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

/* Write this process's lock with one word replaced. */
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

/* Check that a lock is taken over only where its process is certainly gone. */
static void locks_that_were_left(void **state)
{
    (void)state;
    static const struct {
        const char *word, *by;
        bool gone;
    } locks[] = {{"host ", "elsewhere", false},
                 {"process ", "1", true},         /* alive, but started at another time */
                 {"process ", "999999999", true}, /* no process has this number */
                 {"started ", "7", true},         /* an earlier process had this number */
                 {"boot ", "before-a-restart", true},
                 {"space ", "pid:[1]", false}, /* another container's process, which cannot be seen */
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
        read_back("lock", now, sizeof now); /* now this process's lock, with its own key */
        assert_memory_equal(now, mine, strcspn(mine, "\n"));
        assert_true(zr__lock_key(in_tempdir("lock")) != key);
        assert_false(taken(gone));
    }
    snprintf(host, sizeof host, "%.*s, process 999999999\n", (int)strcspn(mine, ","), mine);
    put_file("lock", host, strlen(host)); /* the lock names neither boot nor container */
    assert_false(taken(gone));
    remove(in_tempdir("lock"));
    put_file("theirs", mine, strlen(mine));
    assert_int_equal(symlink("theirs", in_tempdir("lock")), 0);
    assert_false(taken(gone));
    remove(in_tempdir("lock"));
}

/* Write this process's lock as if its process were gone. */
static void put_dead_lock(char text[1024])
{
    char gone[ZR_LOCK_HOLDER_BYTES];
    remove(in_tempdir("lock"));
    assert_true(taken(gone));
    read_back("lock", text, 1024);
    put_lock(text, "process ", "999999999");
    read_back("lock", text, 1024);
}

/* Check that if the owner's name cannot be written because the disk is full, the old lock stays, and the next job takes
 * it over. */
static void a_full_disk_keeps_the_name_in_a_lock(void **state)
{
    (void)state;
    char dead[1024], now[1024], gone[ZR_LOCK_HOLDER_BYTES];
    put_dead_lock(dead);
    for (rlim_t room = 0; room < 60; room += 20) {
        set_room(room);
        assert_int_equal(zr__lock_take(in_tempdir("lock"), gone), ZR_ERR_CREATE);
        set_room(RLIM_INFINITY);
        if (!strstr(zr_error_message(), "cannot write ")) fail_msg("%s", zr_error_message());
        read_back("lock", now, sizeof now);
        assert_string_equal(now, dead);
    }
    assert_true(taken(gone));
    assert_non_null(strstr(gone, "process 999999999"));
    remove(in_tempdir("lock"));
    set_room(20); /* a new lock without its owner's name does not stay either */
    assert_int_equal(zr__lock_take(in_tempdir("lock"), gone), ZR_ERR_CREATE);
    set_room(RLIM_INFINITY);
    assert_int_equal(access(in_tempdir("lock"), F_OK), -1);
}

/* Check that a shorter owner's name leaves no rest of a longer one. */
static void a_lock_that_is_taken_over_is_as_long_as_it_is(void **state)
{
    (void)state;
    char dead[1024], now[1024], gone[ZR_LOCK_HOLDER_BYTES];
    put_dead_lock(dead);
    FILE *file = fopen(in_tempdir("lock"), "ab");
    assert_non_null(file);
    fputs("a line more\n", file);
    fclose(file);
    assert_true(taken(gone));
    read_back("lock", now, sizeof now);
    assert_null(strstr(now, "a line more"));
}

/* Check that when two jobs find a lock at once, the second leaves it to the first. */
static void a_lock_that_another_takes_over(void **state)
{
    (void)state;
    char dead[1024], now[1024], gone[ZR_LOCK_HOLDER_BYTES];
    put_dead_lock(dead);
    int fd = open(in_tempdir("lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_false(taken(gone));
    read_back("lock", now, sizeof now);
    assert_string_equal(now, dead);
    close(fd);
    assert_true(taken(gone));
}

/* Check that the lock of a process that has ended, but that its parent has not waited for, is free. */
static void a_lock_of_a_process_that_has_ended(void **state)
{
    (void)state;
    char mine[1024], gone[ZR_LOCK_HOLDER_BYTES], path[64], word[64], line[1024] = "";
    siginfo_t info;
    remove(in_tempdir("lock"));
    assert_true(taken(gone));
    read_back("lock", mine, sizeof mine);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)child);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    line[fread(line, 1, sizeof line - 1, file)] = '\0';
    fclose(file);
    const char *at = strrchr(line, ')') + 1; /* field 22 is the start time */
    for (int field = 2; field < 21; field++) at = strchr(at + 1, ' ');
    snprintf(word, sizeof word, "%llu", strtoull(at, NULL, 10));
    put_lock(mine, "started ", word);
    read_back("lock", mine, sizeof mine);
    snprintf(word, sizeof word, "%ld", (long)child);
    put_lock(mine, "process ", word);
    assert_true(taken(gone));
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Make the lock `sec` seconds old. */
static void set_age(time_t sec)
{
    const struct timespec then[2] = {{.tv_sec = time(NULL) - sec}, {.tv_sec = time(NULL) - sec}};
    assert_int_equal(utimensat(AT_FDCWD, in_tempdir("lock"), then, 0), 0);
}

/* Check a lock without an owner's name: its maker will either write the name soon, or never. */
static void a_lock_without_a_name(void **state)
{
    (void)state;
    char now[1024], gone[ZR_LOCK_HOLDER_BYTES];
    put_file("lock", "", 0);
    assert_false(taken(gone));
    assert_non_null(strstr(zr_error_message(), "has not written its name into"));
    assert_non_null(strstr(zr_error_message(), "start again 10 seconds from now, and its lock is taken over"));
    set_age(60);
    int fd = open(in_tempdir("lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_false(taken(gone)); /* another job is taking it over */
    close(fd);
    assert_true(taken(gone));
    assert_string_equal(gone, "its lock has no name");
    read_back("lock", now, sizeof now);
    assert_true(strncmp(now, "host ", 5) == 0);
    put_file("lock", "no name of a process\n", 21); /* a text whose owner cannot be known */
    set_age(60);
    assert_false(taken(gone));
    remove(in_tempdir("lock"));
}

/* Check that a lock that cannot be removed is emptied of its owner's name, so that other hosts need not ask for the
 * owner. */
static void a_lock_that_stays(void **state)
{
    (void)state;
    char gone[ZR_LOCK_HOLDER_BYTES];
    remove(in_tempdir("lock"));
    assert_true(taken(gone));
    keeps_all = true;
    zr__lock_release(in_tempdir("lock"));
    keeps_all = false;
    struct stat info;
    assert_int_equal(stat(in_tempdir("lock"), &info), 0);
    assert_int_equal(info.st_size, 0);
    set_age(60);
    assert_true(taken(gone));
    zr__lock_release(in_tempdir("lock"));
    assert_int_equal(access(in_tempdir("lock"), F_OK), -1);
}

/* Check that a run removes no lock but its own. */
static void a_lock_that_has_become_another_jobs(void **state)
{
    (void)state;
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    char mine[1024];
    assert_int_equal(zr__run_dir_open(&dir, in_tempdir("taken"), "{}"), ZR_OK);
    read_back("taken/lock", mine, sizeof mine);
    put_lock(mine, "key ", "0000000000000001");
    assert_int_equal(rename(in_tempdir("lock"), in_tempdir("taken/lock")), 0);
    zr__run_dir_close(&dir);
    assert_int_equal(access(in_tempdir("taken/lock"), F_OK), 0);
    assert_true(zr__lock_key(in_tempdir("taken/lock")) == 1);
}

/* ---- metrics ---------------------------------------------------------------------------------- */

/* Check that lines after the resumed step are cut, and also the incomplete last line of a killed run. */
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
    } cuts[] = {{2, {one, two, eval, half}, 3, {true, false, 1.5, 2}},
                {2, {one, two, half}, 2, {false, false, INFINITY, 2}},
                {1, {one, two, eval}, 1, {false, false, INFINITY, 1}},
                {0, {one, two}, 0, {false, false, INFINITY, 0}},
                {5, {one, two, eval}, 3, {false, false, 1.5, 2}},
                {2, {one, two, eval, two}, 4, {true, false, 1.5, 2}},
                {1, {half}, 0, {false, false, INFINITY, 0}},
                {3, {one, two, half}, 2, {false, false, INFINITY, 2}},
                {3, {half}, 0, {false, false, INFINITY, 0}},
                {2, {one, two, eval, "{\"step\":3}\n"}, 3, {true, false, 1.5, 2}},
                {2, {one, two, eval, sample}, 4, {true, true, 1.5, 2}},
                {2, {one, two, sample, "{\"step\":3}\n"}, 3, {false, true, INFINITY, 2}},
                {3, {one, two, sample, "{\"step\":3}\n"}, 4, {false, false, INFINITY, 2}}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        char text[400] = "", kept[400] = "", now[400];
        bool there = false;
        zr__run_made made = {!cuts[i].made.evaluation, !cuts[i].made.sample, 0, -1};
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
        assert_int_equal(made.last_step, cuts[i].made.last_step);
        if (made.evaluation) assert_true(made.val_loss == 1.5);
    }
}

/* Check that the files of an earlier run are not cut as long as the next run can still be refused. */
static void metrics_are_cut_last(void **state)
{
    (void)state;
    static const char text[] = "{\"step\":1, \"loss\":1}\n{\"step\":2, \"loss\":1}\n";
    char now[400];
    bool there = false;
    zr__run_made made;
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    put_file("run/metrics.jsonl", text, sizeof text - 1);
    assert_int_equal(mkdir(in_tempdir("run/config.json.tmp"), 0777), 0);
    assert_int_equal(zr__run_dir_reopen(&dir, in_tempdir("run"), &there), ZR_OK);
    assert_int_equal(zr__run_dir_continue(&dir, 1, "{}", &made), ZR_ERR_CREATE);
    zr__run_dir_close(&dir);
    read_back("run/metrics.jsonl", now, sizeof now);
    assert_string_equal(now, text);
    assert_int_equal(rmdir(in_tempdir("run/config.json.tmp")), 0);
}

/* ---- weights ---------------------------------------------------------------------------------- */

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

/* Check that the step of weights is read from the file beside them, whatever run.json contains; without that file from
 * run.json, otherwise it is unknown. */
static void the_step_of_weights(void **state)
{
    (void)state;
    static const struct {
        /* model, tmp, old: content of trained.json in the folder, or "" if the folder lacks this file; run: content
         * of run.json; NULL: the folder or the file does not exist */
        const char *model, *tmp, *old, *run;
        const char *name;
        int64_t step;
    } kept[] = {{NULL, NULL, NULL, "{\"steps\":9}", NULL, -1},
                {"{\"step\":5}", NULL, NULL, NULL, "model", 5},
                {"{\"step\":5}", NULL, NULL, "{\"steps\":2}", "model", 5},
                {"{\"step\":5}", NULL, NULL, "{\"steps\":9}", "model", 5},
                {"{\"step\":5, \"val_loss\":1.5}\n", NULL, NULL, NULL, "model", 5},
                {"", NULL, NULL, "{\"steps\":9}", "model", 9},
                {"{}", NULL, NULL, "{\"steps\":9}", "model", 9},
                {"{\"step\":-3}", NULL, NULL, "{\"steps\":9}", "model", 9},
                {"", NULL, NULL, NULL, "model", ZR_STEP_UNKNOWN},
                {"{\"st", NULL, NULL, "{\"steps\"", "model", ZR_STEP_UNKNOWN},
                {"{\"step\":5}", "{\"step\":7}", NULL, NULL, "model.tmp/model.safetensors", 7},
                {"{\"step\":5}", "{\"step\":4}", "{\"step\":3}", NULL, "model", 5},
                {"{\"step\":5}", "", NULL, NULL, "model.tmp/model.safetensors", ZR_STEP_UNKNOWN},
                {NULL, NULL, "{\"step\":3}", "{\"steps\":2}", "model.old", 3}};
    static const char *const folders[] = {"weights/model", "weights/model.tmp", "weights/model.old"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        const char *name = "", *texts[] = {kept[i].model, kept[i].tmp, kept[i].old};
        char path[64];
        int64_t step = 0;
        zr__run_dir dir = ZR_RUN_DIR_INIT;
        nftw(in_tempdir("weights"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(mkdir(in_tempdir("weights"), 0777), 0);
        for (int t = 0; t < 3; t++) {
            if (!texts[t]) continue;
            assert_int_equal(mkdir(in_tempdir(folders[t]), 0777), 0);
            snprintf(path, sizeof path, "%s/model.safetensors", folders[t]);
            put_text(path, "");
            snprintf(path, sizeof path, "%s/trained.json", folders[t]);
            if (texts[t][0]) put_text(path, texts[t]);
        }
        if (kept[i].run) put_text("weights/run.json", kept[i].run);
        snprintf(dir.path, sizeof dir.path, "%s", in_tempdir("weights"));
        assert_int_equal(zr__run_dir_weights(&dir, &name, &step), ZR_OK);
        if (step != kept[i].step) fail_msg("case %d: %lld", (int)i, (long long)step);
        assert_true(!name == !kept[i].name && (!name || strcmp(name, kept[i].name) == 0));
    }
    /* The weights are in model/; model.old has other files, which an earlier run has left. */
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    const char *name;
    int64_t step;
    snprintf(dir.path, sizeof dir.path, "%s", in_tempdir("weights"));
    assert_int_equal(rename(in_tempdir("weights/model.old"), in_tempdir("weights/model")), 0);
    assert_int_equal(remove(in_tempdir("weights/run.json")), 0);
    assert_int_equal(mkdir(in_tempdir("weights/model.old"), 0777), 0);
    assert_int_equal(zr__run_dir_weights(&dir, &name, &step), ZR_OK);
    assert_int_equal(step, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rests_of_a_run_are_not_written_over),
                                       cmocka_unit_test(a_run_between_look_and_lock),
                                       cmocka_unit_test(a_directory_that_is_renamed_before_it_is_closed),
                                       cmocka_unit_test(locks_that_were_left),
                                       cmocka_unit_test(a_full_disk_keeps_the_name_in_a_lock),
                                       cmocka_unit_test(a_lock_that_is_taken_over_is_as_long_as_it_is),
                                       cmocka_unit_test(a_lock_that_another_takes_over),
                                       cmocka_unit_test(a_lock_of_a_process_that_has_ended),
                                       cmocka_unit_test(a_lock_without_a_name),
                                       cmocka_unit_test(a_lock_that_stays),
                                       cmocka_unit_test(a_lock_that_has_become_another_jobs),
                                       cmocka_unit_test(metrics_are_cut),
                                       cmocka_unit_test(metrics_are_cut_last),
                                       cmocka_unit_test(the_step_of_weights)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
