//TEST timeout=120 tsan=1 long=more env=MALLOC_MMAP_THRESHOLD_=1048576
//LINK -Wl,--wrap=zr_alloc,--wrap=zr__train_plans,--wrap=fsync
/* Memory refused at any one point of a run, on whichever rank: no hang, a message, no lock and no half-written files.
 * Ranks whose plans differ do not wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/known_rates.h"
#include "support/long.h"
#include "support/tempdir.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <stdatomic.h>

/* Number of allocations until one is refused; 0 or less: none is refused. */
static _Atomic int until;

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return atomic_fetch_sub(&until, 1) == 1 ? NULL : __real_zr_alloc(bytes);
}

/* Skip fsync: other tests check that files reach the disk, and here it would take most of the time. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

/* Number of plans until one recomputes everything; 0 or less: none does. */
static _Atomic int unlike;

zr_status __real_zr__train_plans(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                 zr_plans *plans);
zr_status __wrap_zr__train_plans(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                 zr_plans *plans);
zr_status __wrap_zr__train_plans(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                 zr_plans *plans)
{
    zr_config other = *config;
    if (atomic_fetch_sub(&unlike, 1) == 1) other.recompute.policy = ZR_RECOMPUTE_UNIT;
    return __real_zr__train_plans(&other, ranks, stage, profile, plans);
}

static zr_config *config_of(int ranks)
{
    char text[2000];
    zr_config *config = NULL;
    snprintf(text, sizeof text,
             "{\"model\": {\"type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 8},"
             " \"data\": {\"train\": \"%s/text\", \"val\": \"%s/text\"}, \"train_micro_batch_size_per_gpu\": 1,"
             " \"zero_optimization\": {\"stage\": 2},"
             " \"train\": {\"steps\": 1, \"eval_interval\": 1, \"eval_batches\": 1, \"threads\": 1, \"output_dir\": "
             "\"%s/run\"}}",
             tempdir, tempdir, tempdir);
    assert_int_equal(zr_config_parse(text, strlen(text), "test", NULL, 0, &config), ZR_OK);
    assert_int_equal(zr_train_prepare(config, ranks, 0), ZR_OK);
    return config;
}

static zr_status train(zr_comm *comm, void *arg)
{
    zr_train_result result = {0};
    return zr_train_run(arg, comm, NULL, &result);
}

static bool there(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "run/%s", name);
    return access(in_tempdir(path), F_OK) == 0;
}

static zr_status resume(zr_comm *comm, void *arg)
{
    zr_train_result result = {0};
    return zr_train_resume(arg, comm, NULL, &result);
}

/* Refuse the allocations of `run` one after another, later ones at growing distances, until a run ends before the
 * refused one; `before` (NULL: none) runs without refusals first. Return the number of failed runs. */
static int refuse_each(zr_rank_fn before, zr_config *first, zr_rank_fn run, zr_config *config)
{
    int failures = 0;
    for (int n = 1;; n += 1 + n / (is_long_run() ? 64 : 24)) {
        if (before) assert_int_equal(zr_comm_threads_run(2, before, first), ZR_OK);
        atomic_store(&until, n);
        zr_status st = zr_comm_threads_run(2, run, config);
        int left = atomic_exchange(&until, 0);
        bool refused = left <= 0, unsaved = st == ZR_ERR_IO && strstr(zr_error_message(), "the checkpoint of step");
        if (st != ZR_OK && st != ZR_ERR_MEMORY && !unsaved)
            fail_msg("allocation %d: %d, %s", n, st, zr_error_message());
        if (st != ZR_OK && !*zr_error_message()) fail_msg("allocation %d: no message", n);
        if (there("lock")) fail_msg("allocation %d: the lock stays", n);
        if (there("model") && !there("model/model.safetensors")) fail_msg("allocation %d: half a model", n);
        if (there("config.json") != there("metrics.jsonl")) fail_msg("allocation %d: half a run", n);
        if (there("step-00000001.tmp") || there("step-00000002.tmp")) fail_msg("allocation %d: half a checkpoint", n);
        if (before && !there("step-00000001/manifest.json")) fail_msg("allocation %d: no checkpoint any more", n);
        failures += st != ZR_OK;
        nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
        if (!refused) return failures;
    }
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    char text[1600];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 26);
    put_file("text", text, sizeof text);
    zr_config *plain = config_of(2), *saving = config_of(2), *longer = config_of(2);
    assert_int_equal(zr_config_set(saving, "train.save_interval", "1"), ZR_OK);
    assert_int_equal(zr_config_set(longer, "train.save_interval", "1"), ZR_OK);
    assert_int_equal(zr_config_set(longer, "train.steps", "2"), ZR_OK);
    assert_true(refuse_each(NULL, NULL, train, plain) > 30);
    assert_true(refuse_each(NULL, NULL, train, saving) > 40);
    assert_true(refuse_each(train, saving, resume, longer) > 40);
    zr_config_destroy(&plain);
    zr_config_destroy(&saving);
    zr_config_destroy(&longer);
}

/* Check ranks whose policy auto chooses different mixes, as on hosts that differ. */
static void ranks_that_compute_other_things_again(void **state)
{
    (void)state;
    char text[1600];
    memset(text, 'a', sizeof text);
    put_file("text", text, sizeof text);
    zr_config *config = config_of(2);
    assert_int_equal(zr_config_set(config, "activation_checkpointing.policy", "auto"), ZR_OK);
    atomic_store(&unlike, 2);
    assert_int_equal(zr_comm_threads_run(2, train, config), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "activation_checkpointing.policy auto"));
    assert_false(there("config.json"));
    zr_config_destroy(&config);
}

static int make_all(void **state)
{
    return tempdir_make(state) || set_rates(in_tempdir("cache")) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail),
                                       cmocka_unit_test(ranks_that_compute_other_things_again)};
    return cmocka_run_group_tests(tests, make_all, tempdir_remove);
}
