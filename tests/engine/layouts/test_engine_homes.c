//TEST timeout=120 long=more
/* The home of model states changes no bit: with optimizer states in host memory, every way to keep, move, save and
 * recompute gives the bits of states on the device, planned bytes equal measured bytes in every space, and the device
 * keeps few buckets of the states. */
#include "engine/layout_variants.h"
#include "support/long.h"

enum { BUCKET = 352, BUCKETS = 3 };

static trainer in_host(const trainer *want)
{
    trainer got = *want;
    got.layout.home.optim = ZR_SPACE_HOST;
    got.layout.home.bucket_elems = BUCKET;
    got.layout.home.buckets = BUCKETS;
    return got;
}

/* Check that all optimizer states are in host memory and none on the device. */
static void check_bytes(const trainer *device, const trainer *host)
{
    const zr_memory *on = &device->planned, *off = &host->planned;
    const int64_t states = on->space[ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_OPTIM];
    assert_true(states > 0);
    assert_int_equal(off->space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_OPTIM],
                     states + on->space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_OPTIM]);
    assert_int_equal(off->states_bytes, on->states_bytes - states);
    /* At most three states for updates and one for casts, few buckets of each. */
    assert_true(off->space[ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_OPTIM] <= BUCKETS * (3 + 1) * 4 * BUCKET);
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) assert_int_equal(device->traffic.bytes[k], host->traffic.bytes[k]);
}

static void check(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    static int share;
    const int shares = is_long_run() ? 1 : 4;
    trainer want = layout_trainer(ranks, dtype, accum, clip);
    want.layout.reduce_bucket_elems = 700;
    trainer_run(&want);
    trainer got = in_host(&want);
    trainer_run(&got);
    layout_assert_same(&want, &got, "states in the host's space");
    check_bytes(&want, &got);
    if (dtype != ZR_F32 && ranks > 1) { /* masters are cast, bucket by bucket too */
        trainer lean[2] = {want, got};
        for (int i = 0; i < 2; i++) {
            lean[i].layout.states = ZR_STATES_LEAN;
            lean[i].layout.stage = 3;
            lean[i].layout.prefetch_elems = 1;
            trainer_run(&lean[i]);
        }
        layout_assert_same(&want, &lean[1], "masters in the host's space");
        check_bytes(&lean[0], &lean[1]);
    }
    layout_check(&got, share++ % shares, shares);
}

static void test_same_bits(void **state)
{
    (void)state;
    check(1, ZR_F32, 1, 0.5);
    check(1, ZR_BF16, 2, 0);
    check(2, ZR_BF16, 1, 0);
    check(2, ZR_F16, 2, 0.5);
    check(3, ZR_BF16, 1, 0.5);
    check(4, ZR_F32, 1, 0);
}

/* Check that groups within the data-parallel ranks work with host states, combined with tensor parallelism too. */
static void test_groups(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        trainer want = layout_trainer(4, ZR_BF16, 2, 0.5);
        want.layout.stage = way == 1 ? 3 : 2;
        want.layout.host_ranks = 2;
        want.layout.shard_ranks = way == 0 ? 2 : 0;
        want.layout.hpz_ranks = way == 1 ? 2 : 0;
        want.layout.hierarchical = way >= 2;
        want.layout.states = way == 3 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        want.layout.reduce_bucket_elems = 700;
        trainer_run(&want);
        trainer got = in_host(&want);
        trainer_run(&got);
        layout_assert_same(&want, &got, "groups, states in the host's space");
    }
}

/* Check gradients in host memory that are summed over the ranks once a step. */
static void test_sums_once(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        trainer want = layout_trainer(3, ZR_BF16, 2, 0.5);
        want.layout.stage = way;
        want.layout.reduce_once = true;
        trainer_run(&want);
        trainer got = in_host(&want);
        got.layout.home.grad = ZR_SPACE_HOST;
        trainer_run(&got);
        layout_assert_same(&want, &got, "sums in the host's space");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_sums_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
