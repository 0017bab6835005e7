//TEST timeout=60
//LINK -Wl,--wrap=zr__host_peak_bytes
/* The measured memory of a process: the terms subtracted from and added to the resident size, and the promised bound of
 * a run. Stand-ins for the system's files make each number known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tempdir.h"
#include "train/host/limits.h"
#include "train/host/host.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/graph.h"
#include "zr/plan.h"
#include "zr/run.h"

static const char *transport;             /* name of the ranks' transport; NULL: threads */
static int64_t before_bytes, after_bytes; /* peak memory of the process at the beginning and at the end of the run */
static int peaks_asked;

int64_t __wrap_zr__host_peak_bytes(void);
int64_t __wrap_zr__host_peak_bytes(void)
{
    return __atomic_fetch_add(&peaks_asked, 1, __ATOMIC_RELAXED) ? after_bytes : before_bytes;
}

static const char *put(const char *name, const char *text)
{
    FILE *file = fopen(in_tempdir(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return in_tempdir(name);
}

/* Check that pages of files and of shared windows are not counted. Their number at the peak is not known; the anonymous
 * pages now are a lower bound. */
static void peak_without_files_and_windows(void **state)
{
    (void)state;
    assert_int_equal(zr__host_peak_of(put("a", "VmHWM:\t 1000 kB\nRssAnon:\t 500 kB\nRssFile:\t 300 kB\n"
                                               "RssShmem:\t 40 kB\n")),
                     660 * 1024);
    assert_int_equal(zr__host_peak_of(put("b", "VmHWM:\t 1000 kB\nRssAnon:\t 700 kB\nRssFile:\t 300 kB\n"
                                               "RssShmem:\t 40 kB\n")),
                     700 * 1024);
    assert_int_equal(zr__host_peak_of(put("c", "VmHWM:\t 1000 kB\nRssAnon:\t 500 kB\nRssFile:\t 300 kB\n")), -1);
    assert_int_equal(zr__host_peak_of(in_tempdir("none")), -1);
}

/* Check that the free memory of a control group is its limit less its use, where file pages that can be dropped do not
 * count as use. */
static void group_without_its_file_pages(void **state)
{
    (void)state;
    char group[512];
    snprintf(group, sizeof(group), "%s", tempdir);
    put("memory.max", "1000000\n");
    put("memory.current", "700000\n");
    assert_int_equal(zr__host_group_left(group), 300000);
    put("memory.stat", "anon 1\nactive_file 50000\ninactive_file 200000\n");
    assert_int_equal(zr__host_group_left(group), 500000);
    put("memory.current", "1300000\n");
    assert_int_equal(zr__host_group_left(group), 0);
    put("memory.max", "max\n");
    assert_int_equal(zr__host_group_left(group), -1);
}

static char notes[4096];
static void on_note(void *arg, const char *text)
{
    (void)arg;
    size_t used = strlen(notes);
    snprintf(notes + used, sizeof(notes) - used, "%s\n", text);
}

static zr_config *config;
static zr_train_result result;

static zr_status train_rank(zr_comm *comm, void *arg)
{
    (void)arg;
    zr_train_result mine = {0};
    zr_observer observer = {.note = on_note};
    if (transport) comm->transport = transport;
    zr_status st = zr_train_run(config, comm, &observer, &mine);
    if (comm->rank == 0) result = mine;
    return st;
}

static void train(int ranks, int64_t before, int64_t after)
{
    char text[1024], words[2000];
    for (size_t i = 0; i < sizeof(words); i++) words[i] = (char)('a' + i * i % 23);
    words[sizeof(words) - 1] = '\0';
    put("text", words);
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 16}, \"data\": "
             "{\"train\": \"%s/text\"}, \"train_micro_batch_size_per_gpu\": 1, \"train\": {\"steps\": 1, "
             "\"threads\": 1, \"output_dir\": \"%s/run\"}}",
             tempdir, tempdir);
    nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    notes[0] = '\0';
    peaks_asked = 0;
    before_bytes = before;
    after_bytes = after;
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config), ZR_OK);
    if (zr_train_prepare(config, ranks, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_comm_threads_run(ranks, train_rank, NULL) != ZR_OK) fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
}

/* Check the promise for a process: at most 1.03 times the plans of its ranks, plus 48 MiB. */
static void the_promise_is_held(void **state)
{
    (void)state;
    train(1, 1 << 20, 2 << 20);
    int64_t promised = zr__process_bytes(result.planned.memory.total_bytes, 1);
    assert_int_equal(result.promised_rss_bytes, promised);
    assert_int_equal(result.peak_rss_bytes, 2 << 20);
    assert_null(strstr(notes, "more than"));
    train(1, 0, promised);
    assert_int_equal(result.peak_rss_bytes, promised);
    assert_null(strstr(notes, "more than"));
    train(1, 0, promised + 1);
    assert_non_null(strstr(notes, "more than"));
    train(1, promised + 1, promised + 1); /* the process had this size before the run */
    assert_null(strstr(notes, "more than"));
}

/* Check windows: ranks that are threads have their staging in the process's memory, and one promise together. Ranks
 * that are processes have it in shared windows, which are not anonymous memory, and one promise each. */
static void windows_are_added(void **state)
{
    (void)state;
    train(2, 0, 2 << 20);
    int64_t total = result.planned.memory.total_bytes, stage = result.planned.memory.category_bytes[ZR_CATEGORY_BUFFER];
    assert_true(stage > 0);
    assert_int_equal(result.peak_rss_bytes, 2 << 20);
    assert_int_equal(result.promised_rss_bytes, zr__process_bytes(total, 2));
    transport = "mpi";
    train(2, 0, 2 << 20);
    transport = NULL;
    assert_int_equal(result.peak_rss_bytes, (2 << 20) + stage);
    assert_int_equal(result.promised_rss_bytes, zr__process_bytes(total, 1));
}

/* Check that on a device with its own memory, a process holds only the host's part of the plan; the staging of several
 * processes is in their GPUs' memory, except for a small part. */
static void what_a_process_holds_beside_gpus(void **state)
{
    (void)state;
    zr_buffer staging[] = {{.bytes = 4 << 20}, {.bytes = 512}};
    zr_plan plan = {.ranks = 4, .persistent = staging, .n_persistent = 2};
    for (int g = 0; g < ZR_GROUPS; g++) plan.staging[g] = ZR_NONE;
    plan.staging[0] = 0;
    plan.staging[1] = 1;
    plan.group[0].size = plan.group[1].size = 4;
    plan.space_bytes[ZR_SPACE_STAGING] = (4 << 20) + 512;
    plan.memory.space[ZR_SPACE_HOST].total_bytes = 1000;
    plan.memory.total_bytes = 1 << 30; /* the GPU's memory */
    assert_int_equal(zr__plan_staging_bytes(&plan, 1), (4 << 20) + 512);
    plan.profile.facts.own_memory = true;
    const int64_t small = (1 << 20) + 4 * ZR_COMM_STAGING_LEAST + 512, all = (4 << 20) + 512;
    assert_int_equal(zr__plan_staging_bytes(&plan, 1), small);
    assert_int_equal(zr__plan_staging_bytes(&plan, 4), all); /* ranks are threads */
    const int64_t one = zr__plan_process_bytes(&plan, 1) - zr__process_bytes(1000 + small, 1),
                  four = zr__plan_process_bytes(&plan, 4) - zr__process_bytes(1000 + all, 4);
    const int gpus = zr_device_cuda_count(NULL), used = gpus > 0 && gpus < 4 ? gpus : 4;
    assert_int_equal(one, 2LL << 30);
    assert_int_equal(four, (2LL << 30) + (used - 1) * (1LL << 29)); /* more for each further GPU */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_without_files_and_windows),
        cmocka_unit_test(group_without_its_file_pages),
        cmocka_unit_test(the_promise_is_held),
        cmocka_unit_test(windows_are_added),
        cmocka_unit_test(what_a_process_holds_beside_gpus),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
