//TEST timeout=20
/* The planned layout that the configuration's keys give, and the message about a plan that is too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "train/host/limits.h"
#include "train/host/host.h"
#include "train/setup/setup.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/graph.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>

static zr_layout layout_of(const char *text, int ranks)
{
    zr_config *config = NULL;
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, ranks, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_layout layout = zr__train_layout(config, ranks);
    zr_config_destroy(&config);
    return layout;
}

static void defaults(void **state)
{
    (void)state;
    zr_layout l = layout_of("{}", 2);
    assert_int_equal(l.ranks, 2);
    assert_int_equal(l.dtype, ZR_F32);
    assert_int_equal(l.wire_dtype, ZR_F32);
    assert_int_equal(l.states, ZR_STATES_LEAN);
    assert_false(l.norm_first || l.two_pass || l.rank_free_sums);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_NONE);
    assert_int_equal(l.recompute_every, 1);
    assert_int_equal(l.limit_bytes, 0);
    assert_true(l.overlap);
    assert_int_equal(l.prefetch_elems, 50000000);
    assert_int_equal(l.live_elems, 0);
    assert_int_equal(l.reuse_elems, 0);
    assert_int_equal(l.persist_elems, 0);
    assert_int_equal(l.persist_model_elems, 0);
    assert_int_equal(l.reduce, ZR_REDUCE_TO_SHARDS);
}

/* Check that each key reaches its member of the layout. */
static void each_key_is_copied(void **state)
{
    (void)state;
    zr_layout l = layout_of(
        "{\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 1024,"
        " \"allgather_bucket_size\": 2048, \"stage3_prefetch_bucket_size\": 77, \"stage3_max_live_parameters\": 88,"
        " \"stage3_max_reuse_distance\": 99, \"stage3_param_persistence_threshold\": 11,"
        " \"stage3_model_persistence_threshold\": 22, \"sub_group_size\": 33,"
        " \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\", \"ratio\": 0.5, \"buffer_count\": 5},"
        " \"offload_param\": {\"device\": \"nvme\", \"ratio\": 0.25}},"
        " \"aio\": {\"block_size\": 8192, \"queue_depth\": 3}, \"gradient_accumulation_steps\": 3,"
        " \"train_micro_batch_size_per_gpu\": 5, \"data\": {\"seq_length\": 24, \"val\": \"v\"},"
        " \"train\": {\"accumulation_order\": \"layer\", \"gradient_noise_scale\": true},"
        " \"memory\": {\"tile_elems\": 70000}, \"activation_checkpointing\": {\"policy\": \"unit\", \"every\": 2,"
        " \"cpu_checkpointing\": true}}",
        4);
    assert_true(l.ranks == 4 && l.tensor == 1 && l.stage == 3 && l.batch == 5 && l.seq == 24 && l.accum == 3);
    assert_true(l.hpz_ranks == 0 && l.shard_ranks == 0 && l.accum_order == ZR_ACCUM_LAYER && l.eval);
    assert_true(l.reduce_bucket_elems == 1024 && l.gather_bucket_elems == 2048 && l.prefetch_elems == 77);
    assert_true(l.live_elems == 88 && l.reuse_elems == 99 && l.persist_elems == 11 && l.persist_model_elems == 22);
    assert_true(l.home.optim == ZR_SPACE_DISK && l.home.param == ZR_SPACE_DISK && l.home.grad == ZR_SPACE_DISK);
    assert_true(l.home.optim_share == 0.5 && l.home.param_share == 0.25 && l.home.bucket_elems == 33);
    assert_true(l.home.buckets == 2 && l.home.block_bytes == 8192 && l.home.depth == 3);
    assert_true(l.tile_elems == 70000 && l.recompute_every == 2 && l.checkpoint_home == ZR_SPACE_HOST);
    assert_true(l.micro_squares && !l.documents && l.decode_len == 0);

    l = layout_of("{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 2, \"overlap_comm\": false,"
                  " \"offload_optimizer\": {\"device\": \"cpu\", \"gradients\": false}},"
                  " \"parallel\": {\"tensor\": 2, \"sequence\": \"keep\"}, \"gradient_reduction\": \"step\","
                  " \"activation_checkpointing\": {\"policy\": \"unit\", \"partition_activations\": true}}",
                  8);
    assert_true(l.ranks == 4 && l.tensor == 2 && l.shard_ranks == 2 && l.hpz_ranks == 0 && !l.overlap);
    assert_true(l.prefetch_elems == 0 && l.reduce_once && l.partition_checkpoints && l.sequence == ZR_SEQUENCE_KEEP);
    assert_true(l.home.optim == ZR_SPACE_HOST && l.home.grad == ZR_SPACE_DEVICE && l.home.param == ZR_SPACE_DEVICE);
    assert_true(l.home.buckets == 0 && l.home.bucket_elems == 0 && !l.eval && l.accum_order == ZR_ACCUM_MICRO);
    l = layout_of("{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 2}}", 4);
    assert_true(l.hpz_ranks == 2 && l.shard_ranks == 0);

    l = layout_of(
        "{\"train\": {\"sample_tokens\": 5, \"sample_prompt\": \"abc\"}, \"data\": {\"tokenizer\": \"bytes\"}}", 1);
    assert_int_equal(l.decode_len, 9);
    l = layout_of("{\"model\": {\"n_positions\": 7}, \"train\": {\"sample_tokens\": 5, \"sample_prompt\": \"abc\"},"
                  " \"data\": {\"tokenizer\": \"bytes\"}}",
                  1);
    assert_int_equal(l.decode_len, 7);
    l = layout_of(
        "{\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 32, \"max_predictions\": 6, \"max_samples\": 3}}",
        1);
    assert_true(l.documents && l.predictions == 6 && l.samples == 3);
}

/* Check which numbers of ranks on a host make hosts, and collectives of two levels. */
static void hosts_make_levels(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        int ranks, host_ranks;
        bool levels;
    } cases[] = {
        {"\"parallel\": {\"ranks_per_host\": 2}", 4, 2, true},
        {"\"parallel\": {\"ranks_per_host\": 4}", 4, 0, false}, /* one host */
        {"\"parallel\": {\"ranks_per_host\": 1}", 4, 1, false},
        {"\"parallel\": {\"ranks_per_host\": 3}", 6, 3, false}, /* no power of two */
        {"\"parallel\": {\"ranks_per_host\": 4}", 6, 4, false}, /* the last host has fewer */
        {"\"parallel\": {\"ranks_per_host\": 2}, \"collectives\": {\"hierarchical\": false}", 4, 2, false},
        {"\"parallel\": {\"ranks_per_host\": 4, \"tensor\": 2}", 8, 4, false},
        {"\"parallel\": {\"ranks_per_host\": 2}, \"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 2}", 8, 2,
         true},
        {"\"parallel\": {\"ranks_per_host\": 2}, \"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 4}", 8, 2,
         false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{%s}", cases[i].members);
        const zr_layout l = layout_of(text, cases[i].ranks);
        if (l.host_ranks != cases[i].host_ranks || l.hierarchical != cases[i].levels)
            fail_msg("%s, %d ranks: %d ranks a host, levels %d", text, cases[i].ranks, l.host_ranks, l.hierarchical);
    }
}

static void number_types(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        zr_dtype dtype, wire;
        bool norm_first;
    } given[] = {
        {"{\"bf16\": {\"enabled\": true}}", ZR_BF16, ZR_BF16, false},
        {"{\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}", ZR_BF16, ZR_F32, false},
        {"{\"fp16\": {\"enabled\": true}}", ZR_F16, ZR_F16, true},
        {"{\"fp16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}", ZR_F16, ZR_F32, true},
        {"{\"gradient_clipping\": 1}", ZR_F32, ZR_F32, true},
    };
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        zr_layout l = layout_of(given[i].text, 2);
        assert_int_equal(l.dtype, given[i].dtype);
        assert_int_equal(l.wire_dtype, given[i].wire);
        assert_int_equal(l.norm_first, given[i].norm_first);
    }
}

/* Check the optimizer: Adam with `adam_w_mode` false adds decay to the gradient; otherwise Adam is AdamW. */
static void the_optimizer(void **state)
{
    (void)state;
    static const struct {
        const char *type, *params, *name;
        int n_slots;
        double hyper[3];
    } given[] = {
        {"AdamW", "", "adamw", 2, {0.8, 0.7, 1e-5}},
        {"Adam", "", "adamw", 2, {0.8, 0.7, 1e-5}},
        {"Adam", ", \"adam_w_mode\": true", "adamw", 2, {0.8, 0.7, 1e-5}},
        {"Adam", ", \"adam_w_mode\": false", "adam", 2, {0.8, 0.7, 1e-5}},
        {"AdamW8bit", "", "adamw", 2, {0.8, 0.7, 1e-5}},
        {"Lion", ", \"betas\": [0.8, 0.7]", "lion", 1, {0.8, 0.7, 0}},
        {"Lion", "", "lion", 1, {0.9, 0.99, 0}},
        {"SGD", "", "sgd", 0, {0, 0, 0}},
        {"SGD", ", \"momentum\": 0.5", "sgd", 1, {0.5, 0, 0}},
        {"SGD", ", \"momentum\": 0.5, \"nesterov\": true", "sgd", 1, {0.5, 1, 0}},
    };
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        char text[512];
        bool adam = given[i].n_slots == 2;
        snprintf(text, sizeof(text), "{\"optimizer\": {\"type\": \"%s\", \"params\": {\"weight_decay\": 0.25%s%s}}}",
                 given[i].type, adam ? ", \"betas\": [0.8, 0.7], \"eps\": 1e-5" : "", given[i].params);
        zr_optimizer o = layout_of(text, 2).optimizer;
        assert_string_equal(o.name, given[i].name);
        assert_int_equal(o.n_slots, given[i].n_slots);
        assert_true(o.weight_decay == 0.25 && !o.rule);
        for (int k = 0; k < 3; k++) assert_true(o.hyper[k] == given[i].hyper[k]);
        const bool records = strcmp(given[i].type, "AdamW8bit") == 0;
        assert_int_equal(o.slot_records[0], records ? ZR_E4M3X256 : ZR_F32);
        assert_int_equal(o.slot_records[1], records ? ZR_E5M2X256 : ZR_F32);
    }
}

static void the_schedule(void **state)
{
    (void)state;
    zr_layout l = layout_of("{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 7,"
                            "  \"stage3_param_persistence_threshold\": 11, \"stage3_model_persistence_threshold\": 13,"
                            "  \"stage3_max_live_parameters\": 17, \"stage3_max_reuse_distance\": 19},"
                            " \"memory\": {\"norm\": \"two_pass\", \"limit\": \"1GiB\"}, \"gradient_clipping\": 1,"
                            " \"activation_checkpointing\": {\"policy\": \"unit\", \"every\": 3}}",
                            4);
    assert_int_equal(l.stage, 3);
    assert_int_equal(l.prefetch_elems, 7);
    assert_int_equal(l.persist_elems, 11);
    assert_int_equal(l.persist_model_elems, 13);
    assert_int_equal(l.live_elems, 17);
    assert_int_equal(l.reuse_elems, 19);
    assert_true(l.two_pass && l.norm_first && !l.rank_free_sums);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_UNIT);
    assert_int_equal(l.recompute_every, 3);
    assert_int_equal(l.limit_bytes, 0); /* the limit is for the check; only policy auto plans by it */
    l = layout_of(
        "{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false}, \"memory\": {\"layout\": \"paper\"},"
        " \"activation_checkpointing\": {\"policy\": \"selective\"}}",
        2);
    assert_int_equal(l.prefetch_elems, 0);
    assert_int_equal(l.states, ZR_STATES_PAPER);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_SELECTIVE);
    l = layout_of("{\"zero_optimization\": {\"stage\": 1}, \"collectives\": {\"reduce\": \"all_reduce\"}}", 2);
    assert_int_equal(l.reduce, ZR_REDUCE_ALL_REDUCE);
    l = layout_of(
        "{\"device\": \"cuda\", \"collectives\": {\"reduce\": \"nccl\"}, \"parallel\": {\"ranks_per_host\": 2}}", 4);
    assert_true(l.reduce == ZR_REDUCE_NCCL && !l.hierarchical && l.host_ranks == 2);
    /* Where the gradient is kept anyway, its norm needs no second pass. */
    l = layout_of("{\"memory\": {\"norm\": \"two_pass\"}, \"train\": {\"reproducible\": \"world\"}}", 2);
    assert_true(l.rank_free_sums && !l.two_pass);
    l = layout_of("{\"memory\": {\"norm\": \"two_pass\"}, \"gradient_accumulation_steps\": 2}", 2);
    assert_false(l.two_pass);
}

/* ---- plans ---- */

static const char small[] = "{\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 16, "
                            "\"vocab_size\": 64}, \"train_micro_batch_size_per_gpu\": 4}";

/* Plan the small model with overrides, for two ranks. NULL: the configuration refuses them. */
static zr_plan *plan_for(const zr_profile *profile, const char *const *overrides, int n)
{
    zr_config *config = NULL;
    zr_plan *plan = NULL;
    zr_status st = zr_config_parse(small, sizeof(small) - 1, "c.json", overrides, n, &config);
    if (st == ZR_OK) st = zr_train_prepare(config, 2, 0);
    if (st == ZR_OK && zr__train_plan(config, 2, -1, profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
    return plan;
}

static zr_plan *plan_of(const char *const *overrides, int n)
{
    static const zr_profile profile = {.facts = {.name = "test",
                                                 .threads = 2,
                                                 .bf16_products = true,
                                                 .panel_bytes = 1 << 20,
                                                 .scratch_bytes = zr_device_cpu_scratch}};
    return plan_for(&profile, overrides, n);
}

/* Check that any combination of keys is either refused by the configuration, with the key's name, or planned. */
static void what_is_let_through_is_planned(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value[5];
    } choice[] = {
        {"memory.layout", {"lean", "paper"}},
        {"memory.norm", {"one_pass", "two_pass"}},
        {"train.reproducible", {"layout", "world"}},
        {"gradient_accumulation_steps", {"1", "2"}},
        {"gradient_clipping", {"0", "1"}},
        {"collectives.reduce", {"reduce_scatter", "all_reduce"}},
        {"zero_optimization.stage", {"0", "1", "2", "3"}},
        {"activation_checkpointing.policy", {"none", "auto"}},
    };
    enum { CHOICES = sizeof(choice) / sizeof(choice[0]) };
    int at[CHOICES] = {0}, planned = 0, refused = 0, turned = 0;
    while (turned < CHOICES) {
        char room[CHOICES][64];
        const char *overrides[CHOICES];
        for (int i = 0; i < CHOICES; i++) {
            snprintf(room[i], sizeof(room[i]), "%s=%s", choice[i].key, choice[i].value[at[i]]);
            overrides[i] = room[i];
        }
        zr_plan *plan = plan_of(overrides, CHOICES);
        planned += plan != NULL;
        refused += plan == NULL;
        zr_plan_destroy(&plan);
        for (turned = 0; turned < CHOICES; turned++) { /* next combination */
            if (choice[turned].value[++at[turned]]) break;
            at[turned] = 0;
        }
    }
    assert_int_equal(planned + refused, 2 * 2 * 2 * 2 * 2 * 2 * 4 * 2);
    assert_true(planned > 200 && refused > 200);
}

/* Check keys that change the numbers of a run as well as its bytes. */
static void types_and_sums_change_the_plan(void **state)
{
    (void)state;
    zr_plan *usual = plan_of((const char *const[]){"bf16.enabled=true"}, 1);
    zr_plan *wide = plan_of((const char *const[]){"bf16.enabled=true", "communication_data_type=fp32"}, 2);
    zr_plan *world = plan_of((const char *const[]){"bf16.enabled=true", "train.reproducible=world"}, 2);
    zr_plan *full = plan_of(NULL, 0);
    assert_int_equal(wide->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER],
                     2 * usual->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER]);
    assert_true(world->memory.states_bytes > usual->memory.states_bytes);
    assert_true(full->memory.category_bytes[ZR_CATEGORY_PARAM] == 2 * usual->memory.category_bytes[ZR_CATEGORY_PARAM]);
    zr_plan_destroy(&usual);
    zr_plan_destroy(&wide);
    zr_plan_destroy(&world);
    zr_plan_destroy(&full);
}

static void expect_advice(const char *const *overrides, int n, const zr__config_open *tried, const char *advice)
{
    char want[256];
    zr_plan *plan = plan_of(overrides, n);
    snprintf(want, sizeof(want), "memory.limit is 1 B; use %smore ranks (`zr plan` shows each)", advice);
    assert_int_equal(zr__train_memory_check(plan, 1, 1, true, tried), ZR_ERR_MEMORY);
    if (!strstr(zr_error_message(), want)) fail_msg("%s\nwas to hold: %s", zr_error_message(), want);
    if (zr__host_available_bytes() >= 0) {
        snprintf(want, sizeof(want), " are available; use %sa smaller model", advice);
        assert_int_equal(zr__train_memory_check(plan, 0, INT32_MAX, false, tried), ZR_ERR_MEMORY);
        if (!strstr(zr_error_message(), want)) fail_msg("%s\nwas to hold: %s", zr_error_message(), want);
    }
    zr_plan_destroy(&plan);
}

/* Check that the message advises only changes that the configuration does not have yet, that were not tried, and that
 * would have an effect. */
static void too_large_a_plan(void **state)
{
    (void)state;
    expect_advice(NULL, 0, NULL,
                  "a higher zero_optimization.stage, activation_checkpointing.policy unit, a smaller batch or "
                  "seq_length, offload_optimizer.device nvme, or ");
    expect_advice((const char *const[]){"memory.layout=paper", "zero_optimization.stage=3"}, 2, NULL,
                  "activation_checkpointing.policy unit, memory.layout lean, a smaller batch or seq_length, "
                  "offload_optimizer.device nvme, or ");
    expect_advice((const char *const[]){"activation_checkpointing.policy=auto", "zero_optimization.stage=3",
                                        "gradient_clipping=1"},
                  3, NULL, "memory.norm two_pass, a smaller batch or seq_length, offload_optimizer.device nvme, or ");
    expect_advice((const char *const[]){"activation_checkpointing.policy=unit", "zero_optimization.stage=3",
                                        "gradient_clipping=1", "gradient_accumulation_steps=2"},
                  4, NULL, "a smaller batch or seq_length, offload_optimizer.device nvme, or ");
    /* One data-parallel rank, or groups of one rank, divide nothing. */
    static const char *const alone[] = {"parallel.tensor=2", "zero_optimization.mics_shard_size=1"};
    for (int i = 0; i < 2; i++)
        expect_advice(&alone[i], 1, NULL,
                      "activation_checkpointing.policy unit, a smaller batch or seq_length, offload_optimizer.device "
                      "nvme, or ");
    const zr__config_open tried = {.stage = true, .policy = true, .batch = true};
    expect_advice(NULL, 0, &tried, "a smaller seq_length, offload_optimizer.device nvme, or ");
}

/* Check that policy auto may plan an arena up to the size with which the process stays within memory.limit. */
static void the_limit_of_auto(void **state)
{
    (void)state;
    char text[128];
    static const int64_t limit[] = {64 << 20, 100000001, (int64_t)1 << 30, 7777777777, (int64_t)1 << 50};
    for (size_t i = 0; i < sizeof(limit) / sizeof(limit[0]); i++) {
        snprintf(text, sizeof(text),
                 "{\"activation_checkpointing\": {\"policy\": \"auto\"}, \"memory\": {\"limit\": %lld}}",
                 (long long)limit[i]);
        zr_layout l = layout_of(text, 1);
        assert_int_equal(l.recompute, ZR_RECOMPUTE_AUTO);
        assert_true(zr__process_bytes(l.limit_bytes, 1) <= limit[i]);
        assert_true(zr__process_bytes(l.limit_bytes + 2, 1) > limit[i]);
    }
    /* CUDA takes its part from the GPU's memory, and the process takes none of it. */
    const zr_profile gpu = {.facts = {.threads = 1, .own_memory = true, .scratch_bytes = zr_device_cuda_scratch}};
    const char *const limited[] = {"activation_checkpointing.policy=auto", "memory.limit=1100000000"};
    zr_plan *plan = plan_for(&gpu, limited, 2);
    assert_int_equal(plan->layout.limit_bytes, 1100000000 - ((int64_t)1 << 30));
    assert_int_equal(zr__rank_bytes(plan->layout.limit_bytes, &gpu.facts), 1100000000);
    zr_plan_destroy(&plan);
    /* A limit below a process's own memory remains a limit, which no plan meets. */
    zr_layout l = layout_of("{\"activation_checkpointing\": {\"policy\": \"auto\"}, \"memory\": {\"limit\": 1}}", 1);
    assert_int_equal(l.limit_bytes, 1);
    l = layout_of("{\"activation_checkpointing\": {\"policy\": \"auto\"}}", 1);
    assert_int_equal(l.limit_bytes, 0);
}

static void a_share_of_the_host(void **state)
{
    (void)state;
    int64_t one = zr__train_host_limit(1), four = zr__train_host_limit(4);
    if (one == 0) skip();
    assert_true(one < zr__host_available_bytes());
    assert_true(four > one / 8 && four < one / 2); /* in case the free memory changes between the calls */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(each_key_is_copied),
        cmocka_unit_test(hosts_make_levels),
        cmocka_unit_test(number_types),
        cmocka_unit_test(the_optimizer),
        cmocka_unit_test(the_schedule),
        cmocka_unit_test(the_limit_of_auto),
        cmocka_unit_test(a_share_of_the_host),
        cmocka_unit_test(what_is_let_through_is_planned),
        cmocka_unit_test(types_and_sums_change_the_plan),
        cmocka_unit_test(too_large_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
