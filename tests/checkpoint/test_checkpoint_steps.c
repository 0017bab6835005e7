//TEST timeout=60
/* The checkpoints of a run's directory are listed, begun over remains, and removed, and nothing else is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "checkpoint_make.h"
#include "support/tempdir.h"

static char run[128];

static int fresh(void **state)
{
    static int n;
    (void)state;
    snprintf(run, sizeof run, "%s/run%d", tempdir, n++);
    return mkdir(run, 0777);
}

static const char *at(const char *name)
{
    return made_path(run, name);
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs("words", file) < 0 || fclose(file)) abort();
}

static bool there(const char *name)
{
    struct stat st;
    return lstat(at(name), &st) == 0;
}

static void newest_first(void **state)
{
    (void)state;
    int64_t *step = NULL, n = 1;
    assert_int_equal(zr_checkpoint_list(run, &step, &n), ZR_OK);
    assert_null(step);
    assert_int_equal(n, 0);
    static const char *const names[] = {"step-00000010", "step-123456789", "step-00000002", "step-00000002.tmp",
                                        "step-0000003",  "step-000000004", "model",         "latest",
                                        "metrics.jsonl", "step-00000000"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) assert_int_equal(mkdir(at(names[i]), 0777), 0);
    touch(at("step-00000007")); /* a file with the name of a checkpoint is listed; opening it fails */
    assert_int_equal(zr_checkpoint_list(run, &step, &n), ZR_OK);
    static const int64_t wanted[] = {123456789, 10, 7, 2, 0};
    assert_int_equal(n, 5);
    assert_memory_equal(step, wanted, sizeof wanted);
    zr_free(step);
    assert_int_equal(zr_checkpoint_list(at("nowhere"), &step, &n), ZR_ERR_NOT_FOUND);
    zr__manifest *m = NULL;
    assert_int_equal(zr__manifest_read(at("step-00000007"), &m), ZR_ERR_DATA);
    assert_int_equal(zr__manifest_read(at("step-00000010"), &m), ZR_ERR_NOT_FOUND);
}

static void what_a_dead_attempt_left_goes(void **state)
{
    (void)state;
    assert_int_equal(zr__checkpoint_begin(run, 4), ZR_OK);
    assert_int_equal(made_fill(at("step-00000004.tmp"), 3), ZR_OK);
    touch(at("step-00000004.tmp/config.json.tmp"));
    touch(at("step-00000004.tmp/model.safetensors.tmp"));
    assert_int_equal(made_checkpoint(run, 4), ZR_OK);
    assert_false(there("step-00000004.tmp"));
    assert_int_equal(made_check(at("step-00000004"), 4), ZR_OK);
    /* An existing checkpoint is not overwritten, complete or not. */
    assert_int_equal(zr__checkpoint_begin(run, 4), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "step-00000004: it exists already"));
    assert_int_equal(made_check(at("step-00000004"), 4), ZR_OK);
    assert_int_equal(zr__checkpoint_begin(run, -1), ZR_ERR_ARG);
    assert_int_equal(zr__checkpoint_begin(at("nowhere"), 5), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__checkpoint_commit(run, 5), ZR_ERR_IO); /* never begun */
    assert_false(there("step-00000005"));
}

static void one_goes_and_others_stay(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 3; step++) assert_int_equal(made_checkpoint(run, step), ZR_OK);
    touch(at("step-00000002/manifest.json")); /* damaged checkpoints are removed as well */
    assert_int_equal(zr__checkpoint_remove(run, 2), ZR_OK);
    assert_int_equal(zr__checkpoint_remove(run, 2), ZR_OK);
    assert_int_equal(zr__checkpoint_remove(run, 9), ZR_OK);
    assert_false(there("step-00000002") || there("step-00000002.tmp"));
    assert_int_equal(made_check(at("step-00000001"), 1), ZR_OK);
    assert_int_equal(made_check(at("step-00000003"), 3), ZR_OK);
    assert_int_equal(zr__checkpoint_remove(at("nowhere"), 1), ZR_ERR_NOT_FOUND);
}

/* Check that a foreign file in a checkpoint is not removed, but that the checkpoint loses its name. */
static void foreign_files_stay(void **state)
{
    (void)state;
    static const char *const foreign[] = {"notes.txt", "sub", ".safetensors", "sub.json"};
    for (int i = 0; i < 4; i++) {
        char path[256];
        assert_int_equal(made_checkpoint(run, i), ZR_OK);
        snprintf(path, sizeof path, "step-0000000%d/%s", i, foreign[i]);
        if (i % 2)
            mkdir(at(path), 0777);
        else
            touch(at(path));
        assert_int_equal(zr__checkpoint_remove(run, i), ZR_ERR_IO);
        assert_non_null(strstr(zr_error_message(), foreign[i]));
        snprintf(path, sizeof path, "step-0000000%d", i);
        assert_false(there(path));
        snprintf(path, sizeof path, "step-0000000%d.tmp/%s", i, foreign[i]);
        assert_true(there(path));
        snprintf(path, sizeof path, "step-0000000%d.tmp/model.safetensors", i);
        assert_false(there(path));
        assert_int_equal(zr__checkpoint_begin(run, i), ZR_ERR_IO);
    }
}

/* Check that a link in place of a checkpoint, of its remains or of a file in it is removed, and its target stays. */
static void links_are_not_followed(void **state)
{
    (void)state;
    mkdir(at("victim"), 0777);
    touch(at("victim/model.safetensors"));
    assert_int_equal(symlink(at("victim"), at("step-00000001")), 0);
    assert_int_equal(zr__checkpoint_remove(run, 1), ZR_OK);
    assert_int_equal(symlink(at("victim"), at("step-00000002.tmp")), 0);
    assert_int_equal(made_checkpoint(run, 2), ZR_OK);
    assert_int_equal(made_check(at("step-00000002"), 2), ZR_OK);
    assert_int_equal(symlink(at("victim/model.safetensors"), at("step-00000002/more.safetensors")), 0);
    assert_int_equal(zr__checkpoint_remove(run, 2), ZR_OK);
    touch(at("step-00000003")); /* a plain file */
    assert_int_equal(zr__checkpoint_remove(run, 3), ZR_OK);
    assert_int_equal(symlink(at("victim/model.safetensors"), at("latest.tmp")), 0);
    unlink(at("latest"));
    assert_int_equal(symlink(at("victim/model.safetensors"), at("latest")), 0);
    assert_int_equal(made_checkpoint(run, 4), ZR_OK);
    char text[16] = "";
    FILE *file = fopen(at("victim/model.safetensors"), "r");
    assert_int_equal(fread(text, 1, sizeof text, file), 5);
    fclose(file);
    assert_string_equal(text, "words");
    assert_false(there("step-00000001") || there("step-00000001.tmp") || there("step-00000002") ||
                 there("step-00000002.tmp") || there("step-00000003") || there("step-00000003.tmp"));
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup(test, fresh)
    const struct CMUnitTest tests[] = {FRESH(newest_first), FRESH(what_a_dead_attempt_left_goes),
                                       FRESH(one_goes_and_others_stay), FRESH(foreign_files_stay),
                                       FRESH(links_are_not_followed)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
