//TEST timeout=60 long=more
/* Plans with model states in host memory and on disk, at every stage and in many layouts: the proof accepts them, the
 * memory on the device does not depend on the model, and the bytes copied are those of formulas. */
#include <string.h>

#include "base/number/rng.h"
#include "long.h"
#include "plan_make.h"

static const zr_rng seed = {.seed = 38, .purpose = ZR_RNG_INIT};
static uint64_t drawn;

static int draw(int n)
{
    const int value = (int)(zr_rng_uniform(&seed, drawn++) * n);
    return value < n ? value : n - 1;
}

static zr_space draw_home(void)
{
    static const zr_space home[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_DISK};
    return home[draw(3)];
}

static zr_layout draw_layout(zr_profile *profile)
{
    static const int64_t bucket[] = {0, 700, 2048, 9000};
    zr_layout l = plan_layout(draw(4), 1 + draw(4), draw(3) ? ZR_BF16 : ZR_F32, draw(2) ? 3 : 1);
    profile->facts.apart = draw(2);
    l.batch = 2;
    l.accum_order = draw(2) ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
    l.tensor = 1 + draw(2);
    l.states = draw(2) ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    l.norm_first = draw(2);
    l.two_pass = l.norm_first && l.states == ZR_STATES_LEAN && l.accum == 1 && draw(2);
    l.home = (zr_homes){draw_home(), draw_home(), draw_home(), 1, 1, bucket[draw(4)], draw(4), 0, 0};
    if (l.stage < 3) l.home.param = ZR_SPACE_DEVICE;
    if (l.stage < 2 && l.accum == 1) l.home.grad = ZR_SPACE_DEVICE;
    if (draw(3) == 0) l.home.param_share = 0.5;
    if (draw(3) == 0) l.home.optim_share = 0.3;
    l.save = draw(3) == 0 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
    l.prefetch_elems = draw(2) ? 60000 : 0;
    l.overlap = draw(4) > 0;
    l.recompute = draw(2) ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
    l.offload_checkpoints = l.recompute == ZR_RECOMPUTE_UNIT && draw(2);
    if (l.tensor == 1 && draw(2)) l.decode_len = 16;
    switch (draw(8)) {
    case 0:
        l.rank_free_sums = l.ranks != 3 && !l.two_pass;
        break;
    case 1:
        l.reduce_once = true;
        break;
    case 2:
        l.reduce = ZR_REDUCE_TO_OWNER;
        l.gather = ZR_GATHER_BROADCAST;
        break;
    case 3:
        l.persist_elems = 1000;
        break;
    case 4:
        l.shard_ranks = l.ranks == 4 ? 2 : 0;
        break;
    case 5:
        l.micro_squares = l.ranks * l.accum > 1;
        break;
    default:
        break;
    }
    return l;
}

static void print_layout(const zr_layout *l, const zr_profile *profile)
{
    print_error(
        "stage %d, %d x %d ranks, %s, accum %lld, %s%s%s, homes %s %s %s, shares %g %g, bucket %lld x %d, apart "
        "%d, order %d, free %d, once %d, owner %d, shard %d, save %d, persist %lld\n",
        l->stage, l->ranks, l->tensor, zr_dtype_name(l->dtype), (long long)l->accum,
        l->states == ZR_STATES_LEAN ? "lean" : "paper", l->norm_first ? ", norm" : "",
        l->two_pass ? ", two passes" : "", zr_space_name(l->home.param), zr_space_name(l->home.grad),
        zr_space_name(l->home.optim), l->home.param_share, l->home.optim_share, (long long)l->home.bucket_elems,
        l->home.buckets, profile->facts.apart, (int)l->accum_order, l->rank_free_sums, l->reduce_once,
        l->reduce == ZR_REDUCE_TO_OWNER, l->shard_ranks, (int)l->save, (long long)l->persist_elems);
}

static void test_all_plans_are_proved(void **state)
{
    (void)state;
    const int n = is_long_run() ? 4000 : 500;
    int made = 0;
    for (int i = 0; i < n; i++) {
        zr_profile profile = plan_profile;
        const zr_layout l = draw_layout(&profile);
        const zr_model model = zr_gpt2(&plan_small);
        zr_plan *plan = NULL;
        zr_status st = zr_plan_create(&model, &l, &profile, &plan);
        if (st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_CONFIG) continue;
        if (st == ZR_OK) st = zr_plan_check(plan);
        if (st != ZR_OK) {
            print_layout(&l, &profile);
            fail_msg("%s", zr_error_message());
        }
        made++;
        zr_plan_destroy(&plan);
    }
    print_message("%d of %d\n", made, n);
    assert_true(made > n / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans_are_proved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
