//TEST timeout=120
//LINK -Wl,--wrap=open,--wrap=write,--wrap=pwrite,--wrap=fsync,--wrap=rename,--wrap=mkdir,--wrap=fallocate,--wrap=ftruncate,--wrap=unlink,--wrap=unlinkat,--wrap=renameat
/* Checkpoints are saved and removed, and the machine stops at every write, sync and rename: afterwards the disk has the
 * old state or the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint_make.h"
#include "fs_replay.h"
#include "support/tempdir.h"

/* The number of recorded calls at the end of each phase, and the newest checkpoint from then on. */
enum { PHASES = 5 };
static const int64_t newest[PHASES] = {0, 1, 2, 2, 3}; /* 0: none */
static int until[PHASES];

static void record(const char *run)
{
    fs_replay_start(run);
    until[0] = replay.n_past;
    assert_int_equal(made_checkpoint(run, 1), ZR_OK);
    until[1] = replay.n_past;
    assert_int_equal(made_checkpoint(run, 2), ZR_OK);
    until[2] = replay.n_past;
    assert_int_equal(zr__checkpoint_remove(run, 1), ZR_OK);
    until[3] = replay.n_past;
    assert_int_equal(zr__checkpoint_begin(run, 3), ZR_OK); /* an abandoned attempt */
    assert_int_equal(made_fill(made_path(run, "step-00000003.tmp"), 3), ZR_OK);
    assert_int_equal(made_checkpoint(run, 3), ZR_OK);
    until[4] = replay.n_past;
    fs_told = NULL;
}

/* Check that `latest` names a complete checkpoint or does not exist. */
static void check_latest(const char *dir)
{
    char line[64] = "", name[ZR_CHECKPOINT_NAME_BYTES + 1];
    FILE *file = fopen(made_path(dir, "latest"), "r");
    if (!file) return;
    line[fread(line, 1, sizeof line - 1, file)] = '\0';
    fclose(file);
    for (int64_t step = 1; step <= 4; step++) {
        zr_checkpoint_name(step, name);
        if (made_check(made_path(dir, name), step) != ZR_OK) continue;
        if (strcmp(line, strcat(name, "\n")) == 0) return;
    }
    fail_msg("latest holds \"%s\"", line);
}

/* Check that every checkpoint with its final name is complete, to the last byte. Return the newest; 0: none. */
static int64_t check_all(const char *dir)
{
    int64_t *step = NULL, n = 0, found = 0;
    assert_int_equal(zr_checkpoint_list(dir, &step, &n), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        char name[ZR_CHECKPOINT_NAME_BYTES];
        zr_checkpoint_name(step[i], name);
        if (made_check(made_path(dir, name), step[i]) != ZR_OK) fail_msg("%s", zr_error_message());
        if (i == 0) found = step[0];
    }
    zr_free(step);
    check_latest(dir);
    return found;
}

static void clear(const char *dir)
{
    if (nftw(dir, tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS)) abort();
}

static void the_old_state_or_the_new(void **state)
{
    (void)state;
    char run[128], dir[128];
    int seen[PHASES][2] = {{0}};
    snprintf(run, sizeof run, "%s/run", tempdir);
    snprintf(dir, sizeof dir, "%s/crashed", tempdir);
    mkdir(run, 0777);
    record(run);
    assert_true(replay.n_past > 100);
    for (int calls = 0, phase = 0; calls <= replay.n_past; calls++) {
        while (phase + 1 < PHASES && calls >= until[phase + 1]) phase++;
        int next = phase + 1 < PHASES ? phase + 1 : phase;
        for (int fate = 0; fate < FS_FATES; fate++) {
            fs_replay_put(dir, calls, (fs_fate)fate);
            int64_t found = check_all(dir);
            /* The effect of a call that has returned is on disk, whatever happens. */
            if (found != newest[phase] && found != newest[next])
                fail_msg("call %d, fate %d: step %d, wanted %d or %d", calls, fate, (int)found, (int)newest[phase],
                         (int)newest[next]);
            seen[phase][found == newest[next]]++;
            if (calls == until[phase] && found != newest[phase]) fail_msg("phase %d is not on the disk", phase);
            /* A new run saves its next checkpoint over any remains. */
            if (fate == FS_BY_LOT + calls % 4 || (fate == FS_ALL && calls % 4 == 0)) {
                if (made_checkpoint(dir, found + 1) != ZR_OK) fail_msg("%s", zr_error_message());
                assert_int_equal(check_all(dir), found + 1);
            }
            clear(dir);
        }
    }
    for (int phase = 0; phase + 1 < PHASES; phase++) {
        assert_true(seen[phase][1] > 0);
        assert_true(seen[phase][0] > 0 || newest[phase] == newest[phase + 1]);
    }
    fs_replay_end();
}

/* Check that the replay detects losses and torn writes after a save without sync. */
static void carelessness_is_found(void **state)
{
    (void)state;
    char run[128], dir[128];
    int lost = 0, torn = 0, kept = 0;
    snprintf(run, sizeof run, "%s/careless", tempdir);
    snprintf(dir, sizeof dir, "%s/crashed", tempdir);
    mkdir(run, 0777);
    fs_replay_start(run);
    mkdir(made_path(run, "d"), 0777);
    int fd = open(made_path(run, "d/file"), O_CREAT | O_WRONLY, 0666);
    static char text[4000];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 4; i++) assert_int_equal(pwrite(fd, text, 1000, i * 1000), 1000); /* without a sync */
    close(fd);
    rename(made_path(run, "d"), made_path(run, "whole"));
    fs_told = NULL;
    for (int fate = 0; fate < FS_FATES; fate++) {
        fs_replay_put(dir, replay.n_past, (fs_fate)fate);
        char read[5000];
        FILE *file = fopen(made_path(dir, "whole/file"), "r");
        size_t n = file ? fread(read, 1, sizeof read, file) : 0;
        if (file) fclose(file);
        bool same = n == sizeof text && memcmp(read, text, n) == 0;
        lost += n == 0;
        kept += same;
        torn += n > 0 && !same;
        clear(dir);
    }
    assert_true(lost > 0 && kept > 0 && torn > 0);
    fs_replay_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(carelessness_is_found),
                                       cmocka_unit_test(the_old_state_or_the_new)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
