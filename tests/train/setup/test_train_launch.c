//TEST timeout=60
/* Measured training steps in a file: they are read back, and refused when the file is damaged. */
#include "support/tempdir.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "train/launch/launch.h"
#include "zr/simulate.h"

static const zr_device_facts here = {.name = "this machine"};

static int setup(void **state)
{
    int rc = tempdir_make(state);
    setenv("XDG_CACHE_HOME", in_tempdir("cache"), 1);
    return rc;
}

static zr_step_sample sample[] = {
    {.kind = "linear",
     .narrow = true,
     .cost = {.flops = 2e6, .product = {{100, 100, 100}}, .memory_bytes = 6e4},
     .sec = 1.5e-3},
    {.kind = "attention", .cost = {.flops = 1e5, .pairs = 4160, .head = 64, .memory_bytes = 1e4}, .sec = 2e-5},
    {.kind = "gather", .ranks = 4, .across = true, .cost = {.wire_bytes = 3e5}, .sec = 1.0 / 3}};

static zr_launch some_launch(int ranks, int hosts)
{
    return (zr_launch){.transport = "mpi",
                       .ranks = ranks,
                       .hosts = hosts,
                       .threads = 2,
                       .cores = 3,
                       .around_sec = 1.0 / 7,
                       .sample = sample,
                       .n_samples = 3,
                       .beside = true,
                       .lost = 0.3,
                       .late = 0.2,
                       .spread = 1.0 / 9,
                       .across_bytes_sec = 1e9 / 7,
                       .wait = {{1e-3, 0.1}, {1e-2, 0}},
                       .n_waits = 2};
}

static void test_there_and_back(void **state)
{
    (void)state;
    const zr_launch launch = some_launch(4, 2);
    zr_launch back;
    assert_int_equal(zr__launch_recall(&here, "mpi", 4, 2, &back), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__launch_remember(&here, &launch), ZR_OK);
    assert_int_equal(zr__launch_recall(&here, "mpi", 4, 2, &back), ZR_OK);
    assert_string_equal(back.transport, "mpi");
    assert_true(back.ranks == 4 && back.hosts == 2 && back.threads == 2 && back.cores == 3 && back.beside);
    assert_true(back.around_sec == launch.around_sec && back.lost == 0.3 && back.late == 0.2);
    assert_true(back.spread == launch.spread && back.across_bytes_sec == launch.across_bytes_sec);
    assert_int_equal(back.n_waits, 2);
    assert_memory_equal(back.wait, launch.wait, 2 * sizeof *launch.wait);
    assert_int_equal(back.n_samples, 3);
    for (int i = 0; i < 3; i++) {
        const zr_step_sample *a = &back.sample[i], *b = &sample[i];
        assert_string_equal(a->kind, b->kind);
        assert_true(a->narrow == b->narrow && a->ranks == b->ranks && a->across == b->across && a->sec == b->sec);
        assert_memory_equal(&a->cost, &b->cost, sizeof a->cost);
    }
    zr__launch_clear(&back);
    assert_true(!back.sample && back.n_samples == 0);
    /* Each transport, number of ranks and number of hosts has its own file. */
    assert_int_equal(zr__launch_recall(&here, "threads", 4, 2, &back), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__launch_recall(&here, "mpi", 4, 1, &back), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr__launch_recall(&here, "mpi", 2, 2, &back), ZR_ERR_NOT_FOUND);
}

static void overwrite(const char *from, const char *to)
{
    char path[PATH_MAX + 512] = "", text[8192];
    DIR *dir = opendir(in_tempdir("cache/zr"));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strncmp(e->d_name, "steps-", 6) == 0) snprintf(path, sizeof path, "%s/cache/zr/%s", tempdir, e->d_name);
    closedir(dir);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *at = strstr(text, from);
    if (!at) fail_msg("no %s in %s", from, text);
    file = fopen(path, "w");
    fprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(file);
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const change[][2] = {{"{", "["},
                                            {"\"ranks\"", "\"rank\""},
                                            {"\"lost\": 0.3", "\"lost\": 1.5"},
                                            {"\"late\": 0.2", "\"late\": 1"},
                                            {"\"across_bytes_sec\"", "\"across\""},
                                            {"142857142.85714287", "0"},
                                            {"\"cores\": 3", "\"cores\": 0"},
                                            {"\"linear\"", "7"},
                                            {"0.0015", "0"},
                                            {"0.0015", "\"\""},
                                            {"2000000.0", "-2000000.0"},
                                            {"60000.0", "1e-300"},
                                            {"0.14285714285714285", "-1.0"},
                                            {"\"waits\"", "\"wait\""},
                                            {"\"this machine", "\"that machine"}};
    const zr_launch launch = some_launch(4, 2);
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        zr_launch back;
        assert_int_equal(zr__launch_remember(&here, &launch), ZR_OK);
        if (i == sizeof change / sizeof *change - 1) { /* make it another machine's file, by its member "machine" */
            overwrite("\"machine\": \"", "\"machine\": \"not ");
        } else {
            overwrite(change[i][0], change[i][1]);
        }
        if (zr__launch_recall(&here, "mpi", 4, 2, &back) != ZR_ERR_DATA) fail_msg("%s is believed", change[i][1]);
        assert_true(!back.sample && back.n_samples == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_damaged, setup, tempdir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
