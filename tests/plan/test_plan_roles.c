//TEST timeout=60
/* Numbers over the plans of several roles, made by hand: two layouts of one model stand for two roles. */
#include <string.h>

#include "plan_make.h"
#include "plan/cost/cost.h"
#include "train/dir/report.h"

static zr_profile profile_with(bool own_memory)
{
    zr_profile profile = plan_profile;
    profile.facts.own_memory = own_memory;
    return profile;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Check that the totals have the sums of FLOPs and the maxima of all other numbers, although each of the two plans has
 * some of the maxima, and that a report has the totals. */
static void test_totals(void **state)
{
    (void)state;
    const zr_profile profile = profile_with(true);
    zr_layout l = plan_layout(0, 4, ZR_BF16, 2);
    zr_plan *whole = plan_gpt2(&plan_small, &l, &profile);
    l = plan_layout(3, 4, ZR_BF16, 2);
    l.recompute = ZR_RECOMPUTE_UNIT;
    l.home.optim = ZR_SPACE_HOST;
    l.home.optim_share = 1;
    l.host_ranks = 2;
    zr_plan *sharded = plan_gpt2(&plan_small, &l, &profile);
    const zr_plans plans = {.role = {whole, sharded}, .n = 2, .own = 1}, one = {.role = {sharded}, .n = 1};
    const zr__totals t = zr__plans_total(&plans);
    const int gather = ZR_TRAFFIC_ALL_GATHER;
    assert_true(whole->memory.total_bytes > sharded->memory.total_bytes);
    assert_true(whole->traffic.bytes[gather] < sharded->traffic.bytes[gather]);
    assert_int_equal(t.memory.total_bytes, whole->memory.total_bytes);
    assert_int_equal(t.memory.states_bytes, whole->memory.states_bytes);
    assert_int_equal(t.memory.space[ZR_SPACE_HOST].total_bytes, sharded->memory.space[ZR_SPACE_HOST].total_bytes);
    for (int c = 0; c < ZR_CATEGORIES; c++)
        assert_int_equal(t.memory.category_bytes[c],
                         larger(whole->memory.category_bytes[c], sharded->memory.category_bytes[c]));
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) {
        assert_int_equal(t.traffic.bytes[k], larger(whole->traffic.bytes[k], sharded->traffic.bytes[k]));
        assert_int_equal(t.across[ZR_BORDER_HOST].bytes[k], sharded->across[ZR_BORDER_HOST].bytes[k]);
    }
    assert_true(t.across[ZR_BORDER_HOST].bytes[gather] > 0);
    assert_true(sharded->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE] > 0);
    assert_memory_equal(t.copied, sharded->copied, sizeof(t.copied));
    assert_true(t.flops_model == whole->flops_model + sharded->flops_model);
    assert_true(t.flops_hardware == whole->flops_hardware + sharded->flops_hardware);
    assert_true(t.flops_hardware > t.flops_model);
    const zr_report report = zr__report_planned(&plans), alone = zr__report_planned(&one);
    assert_true(report.flops_model == t.flops_model && report.flops_hardware == t.flops_hardware);
    assert_memory_equal(&report.memory, &t.memory, sizeof(t.memory));
    assert_memory_equal(&report.traffic, &t.traffic, sizeof(t.traffic));
    assert_memory_equal(report.across, t.across, sizeof(t.across));
    assert_memory_equal(report.copied, t.copied, sizeof(t.copied));
    assert_memory_equal(&alone.memory, &sharded->memory, sizeof(alone.memory));
    assert_true(alone.flops_hardware == sharded->flops_hardware);
    zr_plan_destroy(&whole);
    zr_plan_destroy(&sharded);
}

/* Check that the fullest role is that with the most bytes under the memory limit, which are other bytes on a device
 * with its own memory than on a processor, and that it does not depend on the order of the roles. */
static void test_fullest_role(void **state)
{
    (void)state;
    for (int own_memory = 0; own_memory < 2; own_memory++) {
        const zr_profile profile = profile_with(own_memory);
        zr_layout l = plan_layout(1, 2, ZR_F32, 1);
        l.recompute = ZR_RECOMPUTE_SELECTIVE;
        zr_plan *device = plan_gpt2(&plan_small, &l, &profile);
        l.stage = 3;
        l.home = (zr_homes){.param = ZR_SPACE_HOST, .optim = ZR_SPACE_HOST, .param_share = 1, .optim_share = 1};
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.checkpoint_home = ZR_SPACE_HOST;
        l.batch = 2;
        zr_plan *host = plan_gpt2(&plan_small, &l, &profile), *fullest = own_memory ? device : host;
        assert_true(device->memory.total_bytes > host->memory.total_bytes);
        assert_true(zr__memory_taken(&device->memory) < zr__memory_taken(&host->memory));
        for (int32_t n = 2; n <= 3; n++) {
            zr_plans plans = {.role = {device, host, device}, .n = n};
            assert_ptr_equal(zr__fullest_role(&plans), fullest);
            plans = (zr_plans){.role = {host, device, host}, .n = n};
            assert_ptr_equal(zr__fullest_role(&plans), fullest);
        }
        zr_plan_destroy(&device);
        zr_plan_destroy(&host);
    }
}

/* Check that the proof refuses steps and buffers of a unit that the role does not hold. */
static void test_lacked(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        const zr_layout l = plan_layout(stage, 2, ZR_BF16, 1);
        zr_plans plans = {.role = {plan_gpt2(&plan_small, &l, &plan_profile)}, .n = 1};
        zr_plan *plan = plans.role[0];
        for (int32_t u = 0; u < plan->n_units; u++) {
            assert_true(plan->unit[u].held);
            plan->unit[u].held = false;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            assert_non_null(strstr(zr_error_message(), "this role does not hold"));
            plan->unit[u].held = true;
        }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr__plans_clear(&plans);
        assert_null(plans.role[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_fullest_role),
        cmocka_unit_test(test_lacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
