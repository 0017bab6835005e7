//TEST timeout=20
/* Keys of offload: DeepSpeed's own examples, refusals, notes, and the layouts that follow from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/config.h"
#include "support/tempdir.h"
#include "train/setup/setup.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ZERO(...) "{\"zero_optimization\": {" __VA_ARGS__ "}}"
#define KEPT(...) "{\"activation_checkpointing\": {\"policy\": \"unit\", " __VA_ARGS__ "}}"
#define OPTIM "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/d\"}"

static zr_status load(const char *text, zr_config **config)
{
    *config = NULL;
    zr_status st = zr_config_parse(text, strlen(text), "c.json", NULL, 0, config);
    if (st == ZR_OK) st = zr_train_prepare(*config, 2, 0);
    if (st != ZR_OK) zr_config_destroy(config);
    return st;
}

static void expect(zr_status status, const char *text, const char *message)
{
    zr_config *config;
    assert_int_equal(load(text, &config), status);
    assert_string_equal(zr_error_message(), message);
}

static void refusals(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, ZERO("\"offload_optimizer\": \"cpu\""),
           "c.json:1:24: zero_optimization.offload_optimizer: found \"cpu\", wanted an object of keys: {\"device\": "
           "\"cpu\"}");
    expect(ZR_ERR_CONFIG, ZERO("\"offload_param\": 3"),
           "c.json:1:24: zero_optimization.offload_param: wanted an object { ... } of keys");
    expect(
        ZR_ERR_CONFIG, ZERO("\"offload_optimizer\": {\"device\": \"disk\"}"),
        "c.json:1:46: zero_optimization.offload_optimizer.device: found \"disk\", wanted one of none, cpu, nvme, auto");
    expect(
        ZR_ERR_CONFIG, ZERO("\"offload_optimizer\": {\"device\": \"nvme\"}"),
        "c.json:1:46: zero_optimization.offload_optimizer.device: nvme needs a folder on a fast local disk; give its "
        "path as zero_optimization.offload_optimizer.nvme_path, or write \"none\"");
    expect(ZR_ERR_CONFIG, ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}"),
           "c.json:1:54: zero_optimization.offload_param.device: nvme needs a folder on a fast local disk; give its "
           "path as zero_optimization.offload_param.nvme_path, or write \"none\"");
    expect(ZR_ERR_CONFIG, ZERO("\"offload_param\": {\"device\": \"cpu\"}"),
           "c.json: zero_optimization.offload_param.device: parameters are whole on every rank at "
           "zero_optimization.stage 0, so there are no shards to offload; use stage 3, or offload_optimizer alone");
    expect(
        ZR_ERR_UNSUPPORTED,
        ZERO("\"stage\": 3, \"zero_hpz_partition_size\": 2, \"offload_param\": {\"device\": \"cpu\"}"),
        "c.json:1:84: zero_optimization.offload_param.device: it cannot be used with zero_hpz_partition_size 2, which "
        "keeps a second copy of the parameters on the device; leave out one of the two");
    expect(
        ZR_ERR_UNSUPPORTED,
        ZERO("\"stage\": 3, " OPTIM ", \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/e\"}"),
        "c.json:1:132: zero_optimization.offload_param.nvme_path: it differs from nvme_path of offload_optimizer, but "
        "all states of a rank are in the same files; give the same path in both sections (a list of folders stripes "
        "over several disks)");
    expect(ZR_ERR_CONFIG,
           ZERO("\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": [{\"path\": \"a\", \"weight\": 1}]}"),
           "c.json:1:78: zero_optimization.offload_optimizer.nvme_path[0]: found an object, wanted a folder, or a list "
           "of one or more");
    expect(
        ZR_ERR_CONFIG, ZERO("\"offload_param\": {\"nvme_path\": []}"),
        "c.json:1:42: zero_optimization.offload_param.nvme_path: found [], wanted a folder, or a list of one or more");
    expect(
        ZR_ERR_CONFIG, ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 1.5}"),
        "c.json:1:63: zero_optimization.offload_optimizer.ratio: found 1.5, wanted a number from 0 to 1, or \"auto\"");
    expect(ZR_ERR_CONFIG, KEPT("\"offload\": \"disk\""),
           "c.json:1:49: activation_checkpointing.offload: disk needs a folder on a fast local disk; give its path as "
           "zero_optimization.offload_optimizer.nvme_path, or write \"none\"");
    expect(ZR_ERR_CONFIG, KEPT("\"offload\": \"disk\", \"cpu_checkpointing\": true"),
           "c.json:1:49: activation_checkpointing.offload: disk cannot be used together with cpu_checkpointing true, "
           "which keeps checkpoints in the host's memory; leave out one of the two");
    expect(
        ZR_ERR_UNSUPPORTED,
        "{\"activation_checkpointing\": {\"policy\": \"unit\", \"offload\": \"disk\"}, \"zero_optimization\": "
        "{\"offload_optimizer\": {\"nvme_path\": \"/d\"}, \"offload_param\": {\"nvme_path\": \"/e\"}}}",
        "c.json:1:151: zero_optimization.offload_param.nvme_path: it differs from nvme_path of offload_optimizer, but "
        "all bytes of a rank are in the same files; give the same path in both sections (a list of folders stripes "
        "over several disks)");
    expect(ZR_ERR_CONFIG, "{\"aio\": {\"block_size\": 100000}}",
           "c.json:1:10: aio.block_size: 100000 is not a multiple of 4096, the block of a disk; use 102400");
    expect(ZR_ERR_UNSUPPORTED, "{\"aio\": {\"use_gds\": true}}",
           "c.json:1:10: aio.use_gds: true is not available in zr; write false, or leave it out");
    expect(ZR_ERR_CONFIG, ZERO("\"cpu_offload\": 1"),
           "c.json:1:24: zero_optimization.cpu_offload: found 1, wanted one of none, cpu, nvme, auto");
    expect(ZR_ERR_CONFIG, ZERO("\"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"nvme\"}"),
           "c.json:1:67: zero_optimization.offload_optimizer.device: it is also given as "
           "zero_optimization.cpu_offload; leave out one of the two");
    expect(ZR_ERR_UNSUPPORTED, ZERO("\"stage\": 3, \"cpu_offload_param\": true, \"zero_hpz_partition_size\": 2"),
           "c.json:1:36: zero_optimization.cpu_offload_param: it cannot be used with zero_hpz_partition_size 2, which "
           "keeps a second copy of the parameters on the device; leave out one of the two");
    expect(ZR_ERR_UNSUPPORTED, ZERO("\"zenflow\": {\"topk_ratio\": 0.1}"),
           "c.json:1:24: zero_optimization.zenflow: this section is not available in zr; leave it out; "
           "ZenFlow's updates are late and change results; offload_optimizer keeps their bits");
    expect(
        ZR_ERR_UNSUPPORTED, ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"super_offload\": true}"),
        "c.json:1:63: zero_optimization.offload_optimizer.super_offload: true is not available in zr; write false, or "
        "leave it out; offload_optimizer.device cpu updates by the host's processors, with the same bits");
}

/* Return the homes of a configuration's layout. */
static zr_homes homes_of(const char *text)
{
    zr_config *config;
    assert_int_equal(load(text, &config), ZR_OK);
    const zr_homes home = zr__train_layout(config, 2).home;
    zr_config_destroy(&config);
    return home;
}

static void layouts(void **state)
{
    (void)state;
    zr_homes home = homes_of("{}");
    assert_true(home.param == ZR_SPACE_DEVICE && home.grad == ZR_SPACE_DEVICE && home.optim == ZR_SPACE_DEVICE);
    assert_true(home.bucket_elems == 0 && home.buckets == 0 && home.block_bytes == 0 && home.depth == 0);
    home = homes_of(ZERO("\"stage\": 2, " OPTIM));
    assert_true(home.param == ZR_SPACE_DEVICE && home.grad == ZR_SPACE_DISK && home.optim == ZR_SPACE_DISK);
    home =
        homes_of(ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3, \"gradients\": false,"
                      " \"buffer_count\": 8}, \"sub_group_size\": 5000"));
    assert_true(home.grad == ZR_SPACE_DEVICE && home.optim == ZR_SPACE_HOST && home.optim_share == 0.3);
    assert_true(home.bucket_elems == 5000 && home.buckets == 2);
    home = homes_of(ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\", \"ratio\": 0.5}"));
    assert_true(home.param == ZR_SPACE_HOST && home.optim == ZR_SPACE_DEVICE && home.param_share == 0.5);
    home = homes_of(ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0}"));
    assert_true(home.optim == ZR_SPACE_DEVICE && home.grad == ZR_SPACE_DEVICE);
    home = homes_of(ZERO("\"sub_group_size\": 1e9, \"offload_optimizer\": {\"device\": \"cpu\", \"buffer_count\": 5}"));
    assert_true(home.bucket_elems == 0 && home.buckets == 2);
    home = homes_of("{\"aio\": {\"block_size\": 262144, \"queue_depth\": 32}}");
    assert_true(home.block_bytes == 262144 && home.depth == 32);
}

/* Check what a plan makes of the homes: a device in the host's memory has no space of its own, and a whole gradient
 * stays where ops write it. */
static void homes_of_a_plan(void **state)
{
    (void)state;
    static const char *const text[] = {ZERO("\"stage\": 1, \"offload_optimizer\": {\"device\": \"cpu\"}"),
                                       "{\"gradient_accumulation_steps\": 2, \"zero_optimization\": {\"stage\": 1, "
                                       "\"offload_optimizer\": {\"device\": "
                                       "\"cpu\"}}}"};
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&(zr_device_config){.threads = 1}, &device), ZR_OK);
    for (int apart = 0; apart < 2; apart++)
        for (int i = 0; i < 2 - apart; i++) {
            zr_config *config;
            zr_plan *plan = NULL;
            zr_profile profile = device->profile;
            profile.facts.own_memory = apart;
            if (apart) profile.facts.scratch_bytes = zr_device_cuda_scratch;
            assert_int_equal(load(text[i], &config), ZR_OK);
            assert_int_equal(zr__train_plan(config, 2, -1, &profile, &plan), ZR_OK);
            assert_int_equal(plan->layout.home.optim, apart ? ZR_SPACE_HOST : ZR_SPACE_DEVICE);
            assert_int_equal(plan->layout.home.grad, ZR_SPACE_DEVICE);
            char note[ZR_OFFLOAD_NOTE_BYTES];
            zr__train_offload_note(config, &profile.facts, note);
            assert_int_equal(strstr(note, "offload_optimizer.device cpu moves nothing") != NULL, !apart);
            zr_plan_destroy(&plan);
            zr_config_destroy(&config);
        }
    zr_device_destroy(&device);
}

static bool has_note(const zr_config *config, const char *note)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strcmp(zr_config_note(config, i), note) == 0) return true;
    return false;
}

/* Check the examples of DeepSpeed's documentation and of Hugging Face's. */
static void deepspeeds_examples(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": "
        "\"/local_nvme\", \"pin_memory\": true, \"buffer_count\": 4, \"fast_init\": false},"
        " \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/local_nvme\", \"pin_memory\": true,"
        "  \"buffer_count\": 5, \"buffer_size\": 1e8, \"max_in_cpu\": 1e9},"
        " \"overlap_comm\": true, \"contiguous_gradients\": true, \"sub_group_size\": 1e9, \"reduce_bucket_size\": "
        "\"auto\", \"stage3_prefetch_bucket_size\": \"auto\", \"stage3_param_persistence_threshold\": \"auto\","
        " \"stage3_max_live_parameters\": 1e9, \"stage3_max_reuse_distance\": 1e9},"
        " \"aio\": {\"block_size\": 262144, \"queue_depth\": 32, \"thread_count\": 1, \"single_submit\": false,"
        "  \"overlap_events\": true}}",
        "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_use_pin_memory\": true, \"offload_optimizer\": "
        "{\"device\": \"cpu\", \"pin_memory\": true}, \"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true}}}",
        "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"nvme_path\": \"/d\","
        "  \"ratio\": 0.4, \"pipeline_read\": false, \"pipeline_write\": false, \"super_offload\": false,"
        "  \"cpuadam_cores_perc\": 0.8}}}"};
    zr_config *config[3];
    for (int i = 0; i < 3; i++) assert_int_equal(load(text[i], &config[i]), ZR_OK);
    assert_int_equal(config[0]->zero.optim.device, ZR_HOME_NVME);
    assert_int_equal(config[0]->zero.param.device, ZR_HOME_NVME);
    assert_string_equal(config[0]->zero.param.folders, "/local_nvme");
    assert_true(has_note(config[0], "aio: these keys have no effect in zr (docs/config.md says why): thread_count, "
                                    "single_submit, overlap_events"));
    assert_int_equal(config[1]->zero.param.device, ZR_HOME_CPU);
    assert_true(
        has_note(config[2], "zero_optimization.offload_optimizer.nvme_path has no effect: nothing is stored on disk"));
    for (int i = 0; i < 3; i++) zr_config_destroy(&config[i]);
}

static void keys_without_effect(void **state)
{
    (void)state;
    zr_config *config;
    assert_int_equal(load("{\"aio\": {\"queue_depth\": 4}, \"zero_optimization\": {\"sub_group_size\": 7,"
                          " \"offload_optimizer\": {\"ratio\": 0.5}, \"offload_param\": {\"ratio\": 0.5}}}",
                          &config),
                     ZR_OK);
    assert_true(has_note(config, "zero_optimization.offload_optimizer.ratio has no effect: offload_optimizer.device is "
                                 "none"));
    assert_true(has_note(config, "zero_optimization.offload_param.ratio has no effect: stage is 0"));
    assert_true(has_note(config, "zero_optimization.sub_group_size has no effect: no states are offloaded"));
    assert_true(has_note(config, "aio.queue_depth has no effect: nothing is stored on disk"));
    zr_config_destroy(&config);
    assert_int_equal(load(ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0}"), &config), ZR_OK);
    assert_true(has_note(config, "zero_optimization.offload_optimizer.device has no effect: offload_optimizer.ratio is "
                                 "0"));
    zr_config_destroy(&config);
    assert_int_equal(
        load(ZERO("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}, \"cpu_offload\": true"), &config), ZR_OK);
    assert_true(has_note(config, "zero_optimization.offload_param has no effect: parameters are whole on every rank at "
                                 "zero_optimization.stage 2, so there are no shards to offload"));
    assert_int_equal(config->zero.param.device, ZR_HOME_NONE);
    assert_int_equal(config->zero.optim.device, ZR_HOME_CPU);
    zr_config_destroy(&config);
    assert_int_equal(load(ZERO("\"sub_group_size\": 7, " OPTIM), &config), ZR_OK);
    for (int i = 0; i < zr_config_notes(config); i++) assert_null(strstr(zr_config_note(config, i), "has no effect:"));
    zr_config_destroy(&config);
}

/* Find the folders of a configuration with nvme_path `path`, a JSON value. */
static zr_status folders_of(const char *path, zr__folders *folders)
{
    char text[1024];
    zr_config *config;
    snprintf(text, sizeof(text), ZERO("\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": %s}"), path);
    assert_int_equal(load(text, &config), ZR_OK);
    zr_status st = zr__train_folders(config, folders);
    zr_config_destroy(&config);
    return st;
}

/* Check that activation checkpoints alone may be on disk, in the folder of either key. */
static void checkpoints(void **state)
{
    (void)state;
    static const char *const key[] = {"offload_optimizer", "offload_param"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        zr_config *config;
        zr__folders found;
        snprintf(text, sizeof(text),
                 "{\"activation_checkpointing\": {\"policy\": \"unit\", \"offload\": \"disk\"}, \"aio\": "
                 "{\"block_size\": 8192}, \"zero_optimization\": {\"stage\": 3, \"%s\": {\"nvme_path\": \"%s\"}}}",
                 key[i], tempdir);
        assert_int_equal(load(text, &config), ZR_OK);
        for (int k = 0; k < zr_config_notes(config); k++)
            assert_null(strstr(zr_config_note(config, k), "has no effect:"));
        assert_int_equal(zr__train_layout(config, 2).checkpoint_home, ZR_SPACE_DISK);
        assert_int_equal(zr__train_folders(config, &found), ZR_OK);
        assert_int_equal(found.n, 1);
        assert_string_equal(found.path[0], tempdir);
        zr__folders_free(&found);
        zr_config_destroy(&config);
    }
    static const char *const others[] = {"\"offload\": \"none\"", "\"offload\": \"host\"",
                                         "\"cpu_checkpointing\": true"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        zr_config *config;
        snprintf(text, sizeof(text), KEPT("%s"), others[i]);
        assert_int_equal(load(text, &config), ZR_OK);
        assert_int_equal(zr__train_layout(config, 2).checkpoint_home, i == 0 ? ZR_SPACE_DEVICE : ZR_SPACE_HOST);
        zr_config_destroy(&config);
    }
}

static void folders(void **state)
{
    (void)state;
    zr__folders found;
    char text[256];
    const char *dir = tempdir;
    snprintf(text, sizeof(text), "[\"%s\", \"/tmp\"]", dir);
    assert_int_equal(folders_of(text, &found), ZR_OK);
    assert_int_equal(found.n, 2);
    assert_string_equal(found.path[0], dir);
    assert_string_equal(found.path[1], "/tmp");
    zr__folders_free(&found);
    assert_int_equal(folders_of("\"/no/such/folder\"", &found), ZR_ERR_CREATE);
    assert_string_equal(zr_error_message(),
                        "zero_optimization.offload_optimizer.nvme_path: /no/such/folder: No such file "
                        "or directory; make the folder, or name another on a fast local disk");
    zr__folders_free(&found);
    assert_int_equal(folders_of("\"/dev/null\"", &found), ZR_ERR_CREATE);
    assert_string_equal(zr_error_message(), "zero_optimization.offload_optimizer.nvme_path: /dev/null is not a folder; "
                                            "name a folder on a fast local disk");
    zr__folders_free(&found);
    zr_config *config;
    assert_int_equal(load("{}", &config), ZR_OK);
    assert_int_equal(zr__train_folders(config, &found), ZR_OK);
    assert_int_equal(found.n, 0);
    zr__folders_free(&found);
    zr_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(layouts),
        cmocka_unit_test(homes_of_a_plan),
        cmocka_unit_test(deepspeeds_examples),
        cmocka_unit_test(keys_without_effect),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
