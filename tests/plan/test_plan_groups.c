//TEST timeout=60
/* Memory and traffic of groups within the data-parallel ranks, against their formulas: MiCS (Zhang et al. 2022),
 * ZeRO++'s second partition (Wang et al. 2023, section 3.2), collectives in two levels. */
#include <string.h>

#include "support/chain.h"
#include "gpt2_sizes.h"
#include "plan_make.h"
#include "plan/list/place.h"

static zr_plan *plan_of(const zr_layout *layout)
{
    zr_plan *plan = plan_gpt2(&plan_small, layout, &plan_profile);
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static int64_t scalars(int64_t senders)
{
    return ZR_NORM_SCALARS * 8 * senders;
}

static void same_traffic(const zr_traffic *traffic, int64_t reduced, int64_t gathered, int64_t agreed)
{
    assert_int_equal(traffic->bytes[ZR_TRAFFIC_REDUCE_SCATTER], reduced);
    assert_int_equal(traffic->bytes[ZR_TRAFFIC_ALL_GATHER], gathered);
    assert_int_equal(traffic->bytes[ZR_TRAFFIC_ALL_REDUCE], agreed);
}

/* Check MiCS: states are sharded over m ranks. A micro-batch's gradients are summed within m ranks in the wire's type,
 * then across the G groups as fp32 partial sums; once a step each group gets the sums of the others. Parameters stay
 * within m. */
static void test_shard_groups(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    for (int stage = 1; stage <= 3; stage++)
        for (int m = 2; m <= 8; m *= 2)
            for (int64_t k = 1; k <= 4; k += 3) {
                const int64_t N = 16, G = N / m, P = gpt2_padded(&s, N), sum = k > 1 ? 4 : 2;
                zr_layout l = plan_layout(stage, (int)N, ZR_BF16, k);
                l.shard_ranks = m;
                zr_plan *plan = plan_of(&l);
                const int64_t param = stage == 3 ? 2 * P / m : 2 * P, optim = 12 * P / m;
                const int64_t grad = (stage == 1 ? 2 * P : k > 1 ? 0 : 2 * P / m) + (k > 1 ? 4 * P / m : 0);
                assert_int_equal(plan->memory.states_bytes, param + grad + optim);
                const int64_t sums = gpt2_share(sum * P / m, G), partial = k * gpt2_share(4 * P / m, G);
                const int64_t params = gpt2_share(2 * (stage == 3 ? k * gpt2_gathered(&s, N) : P), m);
                same_traffic(&plan->traffic, gpt2_share(k * 2 * P, m) + partial, params + sums, scalars(N - 1));
                same_traffic(&plan->across[ZR_BORDER_GROUP], partial, sums, scalars(N - m));
                same_traffic(&plan->across[ZR_BORDER_HOST], 0, 0, 0);
                zr_plan_destroy(&plan);
            }
}

/* Return whether two ranks are in the same group of 12 data-parallel ranks, in shard groups of m, with M
 * tensor-parallel ranks each. */
static bool in_group(int32_t group, int a, int b, int m, int M)
{
    return ((group & ZR_GROUP_TENSOR) || a % M == b % M) && ((group & ZR_GROUP_LOCAL) || a / M % m == b / M % m) &&
           ((group & ZR_GROUP_ACROSS) || a / M / m == b / M / m);
}

/* Check every set of axes: members are in the order of their ranks, and those of a rank's group that are on another
 * host or in another shard group are counted as if one by one. No rank has more than the rank that a plan reports. */
static void same_members(const zr_plan *plan, int32_t g, int m, int M)
{
    const int all = 12 * M, host = plan->layout.host_ranks;
    const int most[] = {zr__plan_most_across(plan, g, ZR_BORDER_GROUP), zr__plan_most_across(plan, g, ZR_BORDER_HOST)};
    for (int r = 0; r < all; r++) {
        int hosts = 0, groups = 0, others = -1, before = 0, first = -1;
        for (int other = 0; other < all; other++) {
            if (!in_group(g, r, other, m, M)) continue;
            if (first < 0) first = other;
            others++;
            before += other < r;
            hosts += other / host != r / host;
            groups += other / M / m != r / M / m;
        }
        assert_int_equal(plan->group[g].size, 1 + others);
        assert_int_equal(zr__plan_place(plan, g, r), before);
        assert_int_equal(first + zr__plan_member(plan, g, before), r);
        assert_int_equal(zr__plan_across(plan, g, ZR_BORDER_HOST, r, 100 * others), 100 * hosts);
        assert_int_equal(zr__plan_across(plan, g, ZR_BORDER_GROUP, r, 100 * others), 100 * groups);
        assert_true(zr__plan_across(plan, g, ZR_BORDER_GROUP, most[0], 100 * others) >= 100 * groups);
        assert_true(zr__plan_across(plan, g, ZR_BORDER_HOST, most[1], 100 * others) >= 100 * hosts);
    }
}

static void test_borders(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * 2 * 12; i++) {
        const int M = i % 2 ? 3 : 1, m = i / 2 % 2 ? 4 : 2, host = 1 + i / 4;
        zr_layout l = plan_layout(2, 12, ZR_F32, 1);
        l.tensor = M;
        l.shard_ranks = m;
        l.host_ranks = host;
        if (12 % host != 0) continue;
        zr_plan *plan = plan_of(&l);
        for (int32_t g = 0; g < ZR_GROUPS; g++) same_members(plan, g, m, M);
        if (M == 1) {
            /* Sums of a micro-batch are made within m ranks, then across groups; the plan reports the traffic of the
             * rank that receives most across a host's border. */
            const zr_traffic *hosts = &plan->across[ZR_BORDER_HOST];
            if (host % m == 0)
                assert_true((hosts->bytes[ZR_TRAFFIC_REDUCE_SCATTER] == 0) == (host == 12));
            else
                assert_true(hosts->bytes[ZR_TRAFFIC_REDUCE_SCATTER] >
                            plan->across[ZR_BORDER_GROUP].bytes[ZR_TRAFFIC_REDUCE_SCATTER]);
        }
        zr_plan_destroy(&plan);
    }
}

/* Check that one group of all ranks, with no other group, plans the same as the flat layout. */
static void test_one_group(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = plan_layout(stage, 4, ZR_F32, 2);
        zr_plan *flat = plan_of(&l);
        l.shard_ranks = l.host_ranks = 4;
        l.hierarchical = true;
        zr_plan *one = plan_of(&l);
        assert_memory_equal(&flat->memory, &one->memory, sizeof flat->memory);
        assert_memory_equal(&flat->traffic, &one->traffic, sizeof flat->traffic);
        assert_int_equal(one->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_ALL_GATHER], 0);
        zr_plan_destroy(&flat);
        zr_plan_destroy(&one);
    }
}

/* Check that values from other roles cross the border of every group, and of hosts that have no rank of both roles. */
static void test_roles(void **state)
{
    (void)state;
    for (int host = 1; host <= 8; host *= 2)
        for (int32_t role = 0; role < 2; role++) {
            zr_layout l = plan_layout(2, 4, ZR_F32, 4);
            l.pipeline = 2;
            l.role = role;
            l.shard_ranks = 2;
            l.host_ranks = host;
            zr_plan *plan = plan_of(&l);
            const int64_t all = plan->traffic.bytes[ZR_TRAFFIC_PIPELINE];
            assert_true(all > 0);
            assert_int_equal(plan->across[ZR_BORDER_GROUP].bytes[ZR_TRAFFIC_PIPELINE], all);
            assert_int_equal(plan->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_PIPELINE], host == 8 ? 0 : all);
            assert_int_equal(plan->across[ZR_BORDER_TENSOR].bytes[ZR_TRAFFIC_PIPELINE], 0);
            zr_plan_destroy(&plan);
        }
}

/* Check that groups with the same ranks have one staging memory: with one rank on each host, ACROSS has all ranks. */
static void test_same_group(void **state)
{
    (void)state;
    zr_layout l = plan_layout(2, 4, ZR_F32, 2);
    l.shard_ranks = 1;
    zr_plan *plan = plan_of(&l);
    assert_int_equal(zr_plan_staging(plan, ZR_GROUP_ACROSS), zr_plan_staging(plan, ZR_GROUP_ALL));
    assert_int_equal(zr_plan_staging(plan, ZR_GROUP_DATA), zr_plan_staging(plan, ZR_GROUP_ALL));
    assert_int_equal(zr_plan_staging(plan, ZR_GROUP_LOCAL), zr_plan_staging(plan, ZR_GROUP_SELF));
    assert_int_not_equal(zr_plan_staging(plan, ZR_GROUP_ALL), ZR_NONE);
    int32_t stagings = 0;
    for (int32_t b = 0; b < plan->n_persistent; b++) stagings += plan->persistent[b].space == ZR_SPACE_STAGING;
    assert_int_equal(stagings, 2);
    zr_plan_destroy(&plan);
}

/* Check hosts of m ranks with collectives first within and then across hosts: 1/m of the flat layout's bytes cross
 * hosts, reductions as fp32. */
static void test_two_levels(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    for (int stage = 0; stage <= 3; stage++)
        for (int half = 0; half < 2; half++) {
            const int64_t N = 8, m = 4, G = N / m, P = gpt2_padded(&s, N), e = half ? 2 : 4;
            zr_layout l = plan_layout(stage, (int)N, half ? ZR_BF16 : ZR_F32, 1);
            l.host_ranks = (int)m;
            zr_plan *flat = plan_of(&l);
            l.hierarchical = true;
            zr_plan *plan = plan_of(&l);
            assert_int_equal(plan->memory.states_bytes, flat->memory.states_bytes);
            const int64_t gathered = e * (stage == 3 ? gpt2_gathered(&s, N) : P);
            same_traffic(&flat->across[ZR_BORDER_HOST], e * P / N * (N - m), gathered / N * (N - m), scalars(N - m));
            same_traffic(&plan->across[ZR_BORDER_HOST], gpt2_share(4 * P / m, G), gpt2_share(gathered / m, G),
                         scalars(N - m));
            assert_int_equal(plan->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_REDUCE_SCATTER] * m,
                             flat->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_REDUCE_SCATTER] * 4 / e);
            assert_int_equal(plan->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_ALL_GATHER] * m,
                             flat->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_ALL_GATHER]);
            zr_plan_destroy(&flat);
            zr_plan_destroy(&plan);
        }
}

/* Check hpZ: a step's gradients and the first gather of each parameter cross hosts, the gather only once whatever the
 * number of micro-batches; a rank holds P/m parameters more. */
static void test_second_partition(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    for (int64_t k = 1; k <= 3; k++) {
        const int64_t N = 8, m = 2, P = gpt2_padded(&s, N);
        zr_layout l = plan_layout(3, (int)N, ZR_BF16, k);
        l.host_ranks = (int)m;
        zr_plan *flat = plan_of(&l);
        l.hpz_ranks = (int)m;
        zr_plan *plan = plan_of(&l);
        assert_int_equal(plan->memory.states_bytes, flat->memory.states_bytes + 2 * P / m);
        same_traffic(&flat->across[ZR_BORDER_HOST], k * 2 * P / N * (N - m), k * 2 * gpt2_gathered(&s, N) / N * (N - m),
                     scalars(N - m));
        same_traffic(&plan->across[ZR_BORDER_HOST], k * 2 * P / N * (N - m), 2 * P / N * (N - m), scalars(N - m));
        zr_plan_destroy(&flat);
        zr_plan_destroy(&plan);
    }
}

/* Check that one rank owns each shard, or with tensor parallelism each part of a shard. */
static void same_owners(const zr_layout *l)
{
    const chain_config chain = {.units = 2, .rows = 8, .cols = 8};
    const zr_model model = chain_model(&chain);
    zr_plan *plan = plan_make(&model, l, &plan_profile);
    bool owned[64] = {false};
    for (int r = 0; r < plan->ranks; r++) {
        const int shard = zr__plan_shard(plan, r), place = zr__plan_place(plan, ZR_GROUP_TENSOR, r);
        const int part = shard * l->tensor + place;
        assert_true(part < plan->ranks && !owned[part]);
        owned[part] = true;
    }
    zr_plan_destroy(&plan);
}

static void test_owners(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 6, 8, 16};
    for (int i = 0; i < 5; i++)
        for (int tensor = 1; tensor <= 4; tensor *= 2)
            for (int near = 1; near <= 8; near *= 2) {
                zr_layout flat = plan_layout(3, ranks[i], ZR_F32, 1);
                flat.tensor = tensor;
                same_owners(&flat);
                if (ranks[i] % near != 0) continue;
                zr_layout groups = flat, levels = flat, copies = flat, both = flat;
                groups.shard_ranks = both.shard_ranks = copies.hpz_ranks = near;
                levels.host_ranks = both.host_ranks = near * tensor;
                levels.hierarchical = both.hierarchical = true;
                same_owners(&groups);
                same_owners(&levels);
                same_owners(&copies);
                same_owners(&both);
            }
}

static void refused(zr_layout l, zr_status want, const char *text)
{
    zr_model model = zr_gpt2(&plan_small);
    zr_plan *plan = NULL;
    assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), want);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

static void test_refused(void **state)
{
    (void)state;
    zr_layout l = plan_layout(3, 6, ZR_F32, 1);
    l.shard_ranks = 3;
    refused(l, ZR_ERR_CONFIG, "3 ranks in a shard group (mics_shard_size), of 6: a power of two that divides them");
    l.shard_ranks = 4;
    refused(l, ZR_ERR_CONFIG, "a power of two that divides them");
    l.shard_ranks = 0;
    l.hpz_ranks = 2;
    l.stage = 2;
    refused(l, ZR_ERR_CONFIG, "it is for stage 3");
    l.stage = 3;
    l.shard_ranks = 2;
    refused(l, ZR_ERR_CONFIG, "gathers stay within a group already");
    l.hpz_ranks = 0;
    l.reduce = ZR_REDUCE_NCCL;
    refused(l, ZR_ERR_UNSUPPORTED, "leave nccl out");
    l = plan_layout(3, 4, ZR_F32, 1);
    l.hierarchical = true; /* on one host, since host_ranks is 0 */
    l.shard_ranks = 2;
    refused(l, ZR_ERR_UNSUPPORTED,
            "mics_shard_size 2 with collectives.hierarchical, on hosts of 4 data-parallel ranks");
    l.shard_ranks = 4;
    zr_plan *plan = plan_of(&l);
    zr_plan_destroy(&plan);
    l.shard_ranks = 0;
    l.hpz_ranks = 1;
    l.host_ranks = 2;
    refused(l, ZR_ERR_UNSUPPORTED,
            "zero_hpz_partition_size 1 with collectives.hierarchical, on hosts of 2 data-parallel ranks");
    l = plan_layout(3, 4, ZR_F32, 1);
    l.host_ranks = 3;
    refused(l, ZR_ERR_CONFIG, "3 ranks a host (parallel.ranks_per_host), of 4");
    l.host_ranks = -2;
    refused(l, ZR_ERR_CONFIG, "-2 ranks a host");
    l.host_ranks = 2; /* hosts of two ranks without hierarchical collectives are compatible with NCCL */
    l.reduce = ZR_REDUCE_NCCL;
    plan = plan_of(&l);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_groups),     cmocka_unit_test(test_borders),
        cmocka_unit_test(test_one_group),        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_same_group),       cmocka_unit_test(test_two_levels),
        cmocka_unit_test(test_second_partition), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
