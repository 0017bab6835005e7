//TEST timeout=120
/* A pipeline's step of many micro-batches that is priced by two steps with fewer (zr__try without plans) has the
 * numbers of the step that is planned in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "simulate/simulate.h"
#include "train/choose/choose.h"
#include "zr/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 8 };

/** Price a configuration with `keys` in full and by few micro-batches, and compare. */
static void compare(const char *keys)
{
    char text[1024];
    zr_config *config = NULL;
    zr_profile profile;
    zr_cluster cluster;
    zr_plans plans = {0};
    zr__trial full, few;
    snprintf(
        text, sizeof(text),
        "{\"model\": {\"n_layer\": 16, \"n_head\": 8, \"n_embd\": 512, \"n_positions\": 256, \"vocab_size\": 4096}, "
        "\"train_micro_batch_size_per_gpu\": 2, %s}",
        keys);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, RANKS, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_int_equal(zr_profile_named("h100", &profile), ZR_OK);
    assert_int_equal(zr__cluster_named("dgx-h100x8", &cluster), ZR_OK);
    const zr__train_target target = {.ranks = RANKS, .profile = &profile, .cluster = &cluster};
    if (zr__try(&target, config, &full, &plans) != ZR_OK || zr__try(&target, config, &few, NULL) != ZR_OK)
        fail_msg("%s: %s", keys, zr_error_message());
    const zr_simulation *a = &full.simulation, *b = &few.simulation;
    print_message("%s: %.6g s, by few %.6g s; waits %.3g s, %.3g s\n", keys, a->price.step_sec, b->price.step_sec,
                  a->price.bubble_sec, b->price.bubble_sec);
    assert_true(fabs(b->price.step_sec / a->price.step_sec - 1) < 0.01);
    assert_true(fabs(b->price.bubble_sec - a->price.bubble_sec) < 0.01 * a->price.step_sec);
    assert_true(fabs(b->tokens_sec / a->tokens_sec - 1) < 0.01 && fabs(b->mfu / a->mfu - 1) < 0.01);
    for (int c = 0; c < ZR_CAUSES; c++)
        assert_true(fabs(b->exposed_sec[c] - a->exposed_sec[c]) < 0.01 * a->price.step_sec);
    assert_string_equal(a->bound_by, b->bound_by);
    assert_memory_equal(&full.report.memory, &few.report.memory, sizeof(full.report.memory));
    assert_memory_equal(&full.report.traffic, &few.report.traffic, sizeof(full.report.traffic));
    assert_memory_equal(full.report.across, few.report.across, sizeof(full.report.across));
    assert_true(full.report.flops_hardware > 0);
    assert_true(fabs(few.report.flops_hardware / full.report.flops_hardware - 1) < 1e-12);
    assert_true(fabs(few.report.flops_model / full.report.flops_model - 1) < 1e-12);
    assert_int_equal(full.needs_bytes, few.needs_bytes);
    assert_int_equal(full.host_bytes, few.host_bytes);
    assert_true(full.formula_bubble == few.formula_bubble);
    for (int32_t r = 0; r < plans.n; r++) zr_plan_destroy(&plans.role[r]);
    zr_config_destroy(&config);
}

#define PIPELINE(p, k, schedule) "\"gradient_accumulation_steps\": " k ", \"parallel\": {\"pipeline\": " p schedule "}"
#define STAGE(n) ", \"zero_optimization\": {\"stage\": " n "}"

static void test_extrapolated_steps_equal_full_ones(void **state)
{
    (void)state;
    compare(PIPELINE("2", "23", ""));
    compare(PIPELINE("4", "64", "") STAGE("2"));
    compare(PIPELINE("8", "61", "") ", \"activation_checkpointing\": {\"policy\": \"unit\"}");
    compare(PIPELINE("4", "48", ", \"schedule\": \"interleaved\", \"chunks\": 4") STAGE("3"));
    compare(PIPELINE("2", "32", ", \"schedule\": \"zb_h1\"") STAGE("1"));
    compare(PIPELINE("2", "32", ", \"tensor\": 2") ", \"bf16\": {\"enabled\": true}");
    /* these keep the activations of all micro-batches, or settle late, and are planned in full */
    compare(PIPELINE("2", "24", ", \"schedule\": \"gpipe\""));
    compare(PIPELINE("2", "24", ", \"schedule\": \"breadth_first\"") STAGE("3"));
    compare(PIPELINE("2", "24", ", \"schedule\": \"zb_v\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_extrapolated_steps_equal_full_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
