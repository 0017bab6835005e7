//TEST timeout=20
/* What becomes of the configuration's keys in the layout that is planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/train.h"

#include <stdio.h>
#include <string.h>

static zr_layout layout_of(const char *text, int ranks)
{
    zr_config *config = NULL;
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config), ZR_OK);
    assert_int_equal(zr_train_prepare(config, ranks, 0), ZR_OK);
    zr_layout layout = zr_train_layout(config, ranks);
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
    assert_false(l.norm_first || l.two_pass || l.world || l.fused_buffer);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_NONE);
    assert_int_equal(l.recompute_every, 1);
    assert_int_equal(l.limit_bytes, 0);
    assert_int_equal(l.prefetch_elems, 0); /* overlap_comm is off below stage 3 */
    assert_int_equal(l.live_elems, 0);
    assert_int_equal(l.reuse_elems, 0);
    assert_int_equal(l.persist_elems, 0);
    assert_int_equal(l.persist_model_elems, 0);
    assert_int_equal(l.reduce, ZR_REDUCE_TO_SHARDS);
    assert_int_equal(l.gather, ZR_GATHER_ALL);
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

static void the_schedule(void **state)
{
    (void)state;
    zr_layout l = layout_of("{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 7,"
                            "  \"stage3_param_persistence_threshold\": 11, \"stage3_model_persistence_threshold\": 13,"
                            "  \"stage3_max_live_parameters\": 17, \"stage3_max_reuse_distance\": 19},"
                            " \"memory\": {\"norm\": \"two_pass\", \"limit\": \"1GiB\"}, \"gradient_clipping\": 1,"
                            " \"train\": {\"reproducible\": \"world\"},"
                            " \"activation_checkpointing\": {\"policy\": \"unit\", \"every\": 3},"
                            " \"collectives\": {\"reduce\": \"owner\", \"gather\": \"broadcast\","
                            "  \"buffer\": \"fused\"}}",
                            4);
    assert_int_equal(l.stage, 3);
    assert_int_equal(l.prefetch_elems, 7);
    assert_int_equal(l.persist_elems, 11);
    assert_int_equal(l.persist_model_elems, 13);
    assert_int_equal(l.live_elems, 17);
    assert_int_equal(l.reuse_elems, 19);
    assert_true(l.two_pass && l.norm_first && l.world && l.fused_buffer);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_UNIT);
    assert_int_equal(l.recompute_every, 3);
    assert_int_equal(l.limit_bytes, 0); /* the limit is the check's, policy auto alone plans by it */
    assert_int_equal(l.reduce, ZR_REDUCE_TO_OWNER);
    assert_int_equal(l.gather, ZR_GATHER_BROADCAST);
    l = layout_of(
        "{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false}, \"memory\": {\"layout\": \"paper\"},"
        " \"activation_checkpointing\": {\"policy\": \"selective\"}}",
        2);
    assert_int_equal(l.prefetch_elems, 0);
    assert_int_equal(l.states, ZR_STATES_PAPER);
    assert_int_equal(l.recompute, ZR_RECOMPUTE_SELECTIVE);
    l = layout_of("{\"zero_optimization\": {\"stage\": 1}, \"collectives\": {\"reduce\": \"all_reduce\"}}", 2);
    assert_int_equal(l.reduce, ZR_REDUCE_ALL_REDUCE);
}

/* The arena that policy auto may plan is the largest whose process stays within memory.limit, and not one more. */
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
        assert_true(zr_train_process_bytes(l.limit_bytes, 1) <= limit[i]);
        assert_true(zr_train_process_bytes(l.limit_bytes + 2, 1) > limit[i]);
    }
    /* Less than a process takes by itself: a limit all the same, which nothing meets. */
    zr_layout l = layout_of("{\"activation_checkpointing\": {\"policy\": \"auto\"}, \"memory\": {\"limit\": 1}}", 1);
    assert_int_equal(l.limit_bytes, 1);
    l = layout_of("{\"activation_checkpointing\": {\"policy\": \"auto\"}}", 1);
    assert_int_equal(l.limit_bytes, 0);
}

static void a_share_of_the_host(void **state)
{
    (void)state;
    int64_t one = zr_train_host_limit(1), four = zr_train_host_limit(4);
    if (one == 0) skip();
    assert_true(one < zr_host_available_bytes());
    assert_true(four > one / 8 && four < one / 2); /* what is left changes between the calls */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(number_types),        cmocka_unit_test(the_schedule),
        cmocka_unit_test(the_limit_of_auto), cmocka_unit_test(a_share_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
