//TEST timeout=60 long=more
/* Plans with model states in host memory and on disk, at every stage and in many layouts: the proof accepts them, the
 * device's memory does not depend on the size of the model, and the bytes copied follow formulas. */
#include <math.h>
#include <string.h>

#include "base/number/rng.h"
#include "support/chain.h"
#include "support/long.h"
#include "plan/cost/cost.h"
#include "plan/plan_make.h"

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
    static const int slots[] = {0, 1, 2, 9}; /* with 9, buckets of several units are in the ring */
    zr_layout l = plan_layout(draw(4), 1 + draw(4), draw(3) ? ZR_BF16 : ZR_F32, draw(2) ? 3 : 1);
    profile->facts.own_memory = draw(2);
    l.batch = 2;
    l.accum_order = (zr_accum_order)draw(3);
    l.accum_ahead = 1 + draw(3);
    l.tensor = 1 + draw(2);
    l.states = draw(2) ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    l.norm_first = draw(2);
    l.two_pass = l.norm_first && l.states == ZR_STATES_LEAN && l.accum == 1 && draw(2);
    l.home = (zr_homes){draw_home(), draw_home(), draw_home(), 1, 1, bucket[draw(4)], slots[draw(4)], 0, 0};
    if (l.stage < 3) l.home.param = ZR_SPACE_DEVICE;
    if (l.stage < 2 && l.accum == 1) l.home.grad = ZR_SPACE_DEVICE;
    if (draw(3) == 0) l.home.param_share = 0.5;
    if (draw(3) == 0) l.home.optim_share = 0.3;
    l.save = draw(3) == 0 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
    l.prefetch_elems = draw(2) ? 60000 : 0;
    l.overlap = draw(4) > 0;
    l.recompute = draw(2) ? ZR_RECOMPUTE_UNIT : draw(2) ? ZR_RECOMPUTE_SELECTIVE : ZR_RECOMPUTE_NONE;
    l.recompute_every = 1 + draw(2);
    l.checkpoint_home = draw_home();
    l.partition_checkpoints = draw(2);
    if (l.tensor == 1 && draw(2)) l.decode_len = 16;
    l.vectors_apart = draw(4) == 0;
    l.rank_free_sums = l.ranks != 3 && !l.two_pass && draw(6) == 0;
    l.reduce_once = draw(4) == 0;
    if (draw(3) == 0) l.weight_records = draw(2) ? ZR_I8X128 : ZR_I4X256;
    l.weight_differences = zr_dtype_is_record(l.weight_records) && l.stage < 3 && draw(2);
    if (!l.rank_free_sums && draw(4) == 0) {
        l.grad_records = ZR_I4X128;
        l.reduce_once = true;
        l.error_steps = !l.two_pass && draw(2) ? 1024 : 0;
    }
    if (draw(4) == 0) l.persist_elems = 1000;
    if (draw(4) == 0) l.reuse_elems = 50000;
    l.micro_squares = l.ranks * l.accum > 1 && draw(4) == 0;
    if (l.ranks == 4 && draw(3) == 0) {
        l.host_ranks = 2 * l.tensor;
        switch (draw(3)) {
        case 0:
            l.shard_ranks = 2;
            break;
        case 1:
            l.hpz_ranks = 2;
            break;
        default:
            l.hierarchical = true;
        }
    }
    return l;
}

static void print_layout(const zr_layout *l, const zr_profile *profile)
{
    print_error(
        "stage %d, %d x %d ranks, %s, accum %lld by %s, %s%s%s, homes %s %s %s, shares %g %g, bucket %lld x %d, apart "
        "%d, free %d, once %d, shard %d, hpz %d, levels %d, save %d, persist %lld, "
        "recompute %d every %lld, checkpoints %s in pieces %d\n",
        l->stage, l->ranks, l->tensor, zr_dtype_name(l->dtype), (long long)l->accum,
        l->accum_order == ZR_ACCUM_LAYER ? "layer" : "micro", l->states == ZR_STATES_LEAN ? "lean" : "paper",
        l->norm_first ? ", norm" : "", l->two_pass ? ", two passes" : "", zr_space_name(l->home.param),
        zr_space_name(l->home.grad), zr_space_name(l->home.optim), l->home.param_share, l->home.optim_share,
        (long long)l->home.bucket_elems, l->home.buckets, profile->facts.own_memory, l->rank_free_sums, l->reduce_once,
        l->shard_ranks, l->hpz_ranks, l->hierarchical, (int)l->save, (long long)l->persist_elems, (int)l->recompute,
        (long long)l->recompute_every, zr_space_name(l->checkpoint_home), l->partition_checkpoints);
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

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

enum { BUCKET = 2048 };

static zr_plan *plan_homes(const zr_layout *l, int64_t layers, bool apart)
{
    zr_gpt2_config config = plan_small;
    zr_profile profile = plan_profile;
    config.n_layer = layers;
    profile.facts.own_memory = apart;
    zr_plan *plan = plan_gpt2(&config, l, &profile);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    return plan;
}

static int64_t elems_of(const zr_plan *plan, zr_step_kind kind)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int64_t elems = 0, times = 1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_REPEAT) times = s->step[i].rounds;
        if (s->step[i].kind == ZR_STEP_END) times = 1;
        if (s->step[i].kind == kind) elems += times * s->step[i].range.count;
    }
    return elems;
}

/* Check the bytes that are read from disk and written to it. If the device has its own memory, they pass through host
 * memory, and `up` and `down` are the bytes that are copied to the device and back. */
static void check_copied(const zr_plan *plan, int64_t read, int64_t written, int64_t up, int64_t down)
{
    const int64_t(*copied)[ZR_SPACES] = plan->copied;
    const bool apart = plan->profile.facts.own_memory;
    const zr_space near = apart ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    assert_int_equal(copied[ZR_SPACE_DISK][near], read);
    assert_int_equal(copied[near][ZR_SPACE_DISK], written);
    assert_int_equal(copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE], apart ? up : 0);
    assert_int_equal(copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST], apart ? down : 0);
    assert_int_equal(copied[ZR_SPACE_DISK][apart ? ZR_SPACE_DEVICE : ZR_SPACE_HOST], 0);
    assert_int_equal(copied[ZR_SPACE_DISK][ZR_SPACE_DISK], 0);
}

/* Return the bytes of host memory of a category that offloaded states and their copies take. */
static int64_t in_host(const zr_plan *plan, zr_category category)
{
    return plan->memory.space[ZR_SPACE_HOST].category_bytes[category];
}

/* Check 12 bytes read and 12 written for each element of a master and two moments, 8 and 8 in fp32, and 4 bytes read
 * for each element that is cast. The number of buckets in memory is the layout's, however large the model is. Beside a
 * device with its own memory, the host's processors update the states: gradients go down to it, and parameters go up,
 * and in fp32, where they are the master, down too. */
static void test_optimizer_states_on_disk(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        zr_layout l = plan_layout(i % 4, 1 + i / 4 % 2, i / 8 % 2 ? ZR_F32 : ZR_BF16, i / 16 ? 3 : 1);
        l.states = l.accum == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        l.home.bucket_elems = BUCKET;
        l.home.buckets = 3;
        l.home.optim = ZR_SPACE_DISK;
        int64_t device[2], disk[2];
        for (int many = 0; many < 2; many++) {
            zr_plan *plan = plan_homes(&l, many ? 9 : 3, i / 2 % 2);
            const zr_memory *m = &plan->memory;
            int64_t kept = 0;
            for (int32_t u = 0; u < plan->n_units; u++) kept += plan->unit[u].update.count;
            const int64_t states = l.dtype == ZR_F32 ? 2 : 3, casts = elems_of(plan, ZR_STEP_CAST);
            const bool apart = plan->profile.facts.own_memory;
            const int64_t param = l.dtype == ZR_F32 ? 4
                                  : casts > 0       ? 0
                                                    : 2,
                          grad = l.accum > 1 || l.dtype == ZR_F32 ? 4 : 2;
            assert_int_equal(casts > 0, l.stage == 3 && l.dtype == ZR_BF16 && l.states == ZR_STATES_LEAN);
            check_copied(plan, 4 * (states * kept + casts), 4 * states * kept, param * kept + 4 * casts,
                         (grad + (l.dtype == ZR_F32 ? 4 : 0)) * kept);
            device[many] = m->space[ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_OPTIM];
            disk[many] = m->space[ZR_SPACE_DISK].total_bytes;
            /* casts have buffers of their own, which updates may use later */
            if (apart)
                assert_int_equal(device[many], casts > 0 ? 3 * 4 * BUCKET : 0);
            else
                assert_true(device[many] >= 3 * states * 4 * BUCKET &&
                            device[many] <= 3 * (states + (casts > 0)) * 4 * BUCKET);
            assert_true(disk[many] >= 4 * states * kept && disk[many] < 4 * states * kept + 4096 * 40);
            const int64_t passing = in_host(plan, ZR_CATEGORY_OPTIM), work = in_host(plan, ZR_CATEGORY_WORK);
            const int64_t params = in_host(plan, ZR_CATEGORY_PARAM), grads = in_host(plan, ZR_CATEGORY_GRAD);
            assert_true(apart ? passing >= 3 * states * 4 * BUCKET && passing <= 3 * (states + (casts > 0)) * 4 * BUCKET
                              : passing == 0);
            assert_int_equal(params, apart ? 3 * param * BUCKET : 0);
            assert_int_equal(grads, apart ? 3 * grad * BUCKET : 0);
            assert_true(work > plan->schedule[0].buffer[plan->passing_disk].bytes + 2 * plan->window_bytes);
            assert_int_equal(zr__memory_taken(m), m->total_bytes + work + passing + params + grads);
            assert_int_equal(plan->schedule[0].buffer[plan->passing_disk].bytes, 4 * plan->layout.home.block_bytes);
            assert_int_equal(plan->layout.home.block_bytes, 4 * BUCKET); /* no transfer is larger */
            zr_plan_destroy(&plan);
        }
        assert_true(disk[1] > 2 * disk[0]); /* and the bounds on the device are the same */
    }
}

/* Check the bytes of parameters and gradients on disk: parameters are read for each gather, and once more by the
 * update, which writes them. Gradients are written by each reduction, read by a reduction that adds, by the squares and
 * by the update. */
static void test_parameters_and_gradients_on_disk(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        zr_layout l = plan_layout(3, 1 + i % 3, i / 12 ? ZR_F32 : ZR_BF16, i / 6 % 2 ? 3 : 1);
        const bool apart = i / 3 % 2;
        const int64_t bytes = l.dtype == ZR_F32 ? 4 : 2, wire = l.accum > 1 ? 4 : bytes;
        l.home = (zr_homes){.param_share = 1, .optim_share = 1, .bucket_elems = BUCKET, .param = ZR_SPACE_DISK};
        zr_plan *plan = plan_homes(&l, 3, apart);
        int64_t kept = 0, gathered = 0, embedding = plan->unit[0].update.count;
        for (int32_t u = 0; u < plan->n_units; u++) {
            kept += plan->unit[u].update.count;
            gathered += (u + 1 < plan->n_units ? 2 : 1) * plan->unit[u].update.count; /* the last norm is used once */
            assert_true(plan->unit[u].gathered && plan->unit[u].param_home == ZR_SPACE_DISK);
        }
        assert_true(embedding > 0);
        const int64_t params = bytes * (l.accum * gathered + kept);
        check_copied(plan, params, bytes * kept, params, bytes * kept);
        assert_int_equal(elems_of(plan, ZR_STEP_GATHER) > 0, l.ranks > 1);
        zr_plan_destroy(&plan);

        l.home.param = ZR_SPACE_DEVICE;
        l.home.grad = ZR_SPACE_DISK;
        l.stage = 2;
        plan = plan_homes(&l, 3, apart);
        const bool early = l.ranks == 1 && l.accum == 1; /* squares are taken before the gradient goes home */
        const int64_t read = wire * kept * (l.accum - 1 + !early + 1), written = wire * kept * l.accum;
        check_copied(plan, read, written, read, written);
        zr_plan_destroy(&plan);
    }
}

/* ---- order ---------------------------------------------------------------------------------------------------- */

/* Check that reads and writes overlap, also from one unit to the next: if only the disk takes time, a step takes as
 * long as all reads plus the writes of the last buckets. */
static void test_reads_and_writes_overlap(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        zr_layout l = plan_layout(i % 4, 1, ZR_BF16, 1);
        l.states = i / 4 % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        l.home.bucket_elems = BUCKET;
        l.home.buckets = 3;
        l.home.optim = ZR_SPACE_DISK;
        zr_plan *plan = plan_homes(&l, 6, i / 8);
        zr_profile rates = plan->profile;
        rates.machine =
            (zr_machine){.disk_read_bytes_sec = 1e9, .disk_write_bytes_sec = 1e9, .disk_both_bytes_sec = 2e9};
        zr_price price;
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &price), ZR_OK);
        const zr_space near = i / 8 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        const double read_sec = (double)plan->copied[ZR_SPACE_DISK][near] / 1e9;
        assert_true(fabs(price.disk_sec - read_sec) < 1e-9 * read_sec);
        /* With three buckets, the next bucket is read while the previous one is written. A unit's last bucket is
         * smaller than the bucket written at the same time, which costs a part of a bucket for each of the 8 units and
         * casts. */
        const double bucket_sec = 12 * BUCKET / 1e9, units = l.stage == 3 && l.states == ZR_STATES_LEAN ? 17 : 8;
        if (price.step_sec > read_sec + (1 + units / 2) * bucket_sec)
            fail_msg("case %d: %g s with %g s of reads", i, price.step_sec, read_sec);
        rates.machine.disk_both_bytes_sec = 1e9;
        zr_price shared;
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &shared), ZR_OK);
        const double both = (double)(plan->copied[ZR_SPACE_DISK][near] + plan->copied[near][ZR_SPACE_DISK]) / 1e9;
        assert_true(fabs(shared.disk_sec - both) < 1e-9 * both);
        zr_plan_destroy(&plan);
    }
}

/* Check that copies run ahead from one unit to the next: if updates take somewhat longer than reads, a step takes the
 * time of its computing plus the first read and the last write. */
static void test_reads_run_ahead(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 2; stage++) {
        zr_layout l = plan_layout(stage, 1, ZR_BF16, 1);
        l.home.bucket_elems = BUCKET;
        l.home.buckets = 3;
        l.home.optim = ZR_SPACE_DISK;
        zr_plan *plan = plan_homes(&l, 6, false);
        zr_profile rates = plan->profile;
        rates.machine = (zr_machine){.memory_bytes_sec = 1.5e9,
                                     .link_copies = true, /* one thread computes and issues reads */
                                     .disk_read_bytes_sec = 1e9,
                                     .disk_write_bytes_sec = 1e9,
                                     .disk_both_bytes_sec = 2e9};
        zr_price price;
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &price), ZR_OK);
        const double bucket_sec = 12 * BUCKET / 1e9;
        assert_true(price.disk_sec > 100 * bucket_sec);
        if (price.step_sec > price.compute_sec + 3 * bucket_sec)
            fail_msg("stage %d: %g s with %g s of computing", stage, price.step_sec, price.compute_sec);
        zr_plan_destroy(&plan);
    }
}

/* Check the planner's choice of the number of buckets: with states and casts on disk, and computing that takes 1.5
 * times as long as the transfers, at most 15 % of the transfers are exposed. All units are blocks, except for a small
 * embedding. */
static void test_transfers_hide(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        zr_layout l = plan_layout(i % 4 > 0 ? 3 : 2, 1, i % 4 == 2 ? ZR_F32 : ZR_BF16, 1);
        l.states = ZR_STATES_LEAN;
        l.norm_first = false;
        l.prefetch_elems = 1 << 30;
        l.home.bucket_elems = BUCKET;
        l.home.optim = ZR_SPACE_DISK;
        l.home.param = i % 4 > 1 ? ZR_SPACE_DISK : ZR_SPACE_DEVICE;
        l.recompute = i / 4 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
        zr_plan *plan = plan_homes(&l, 24, false);
        zr_profile rates = plan->profile;
        zr_price alone, price;
        rates.machine = (zr_machine){.flops_f32 = 1e9, .flops_bf16 = 1e9, .link_copies = true};
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &alone), ZR_OK);
        const double bytes =
            (double)(plan->copied[ZR_SPACE_DISK][ZR_SPACE_DEVICE] + plan->copied[ZR_SPACE_DEVICE][ZR_SPACE_DISK]);
        rates.machine.disk_read_bytes_sec = rates.machine.disk_write_bytes_sec = rates.machine.disk_both_bytes_sec =
            bytes * 1.5 / alone.step_sec;
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &price), ZR_OK);
        const double exposed = (price.step_sec - alone.step_sec) / price.disk_sec;
        if (exposed > 0.15)
            fail_msg("case %d, %d buckets: %.3f of the transfers are exposed", i, plan->layout.home.buckets, exposed);
        zr_plan_destroy(&plan);
    }
}

/* Check that sums are not copied from home before they have gone there, even if the ring has a buffer for each unit. */
static void test_sums_go_home_first(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = plan_layout(stage, 2, ZR_BF16, 3);
        l.reduce_once = true;
        l.home = (zr_homes){.param_share = 1, .optim_share = 1, .grad = ZR_SPACE_HOST};
        const chain_config chain = {1, 8, 16};
        const zr_model model = chain_model(&chain);
        zr_plan *plan = plan_make(&model, &l, &plan_profile);
        assert_int_equal(plan->n_units, 1);
        if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
        zr_plan_destroy(&plan);
    }
}

/* Check that whole sums are in host memory, and that after the reduction only this rank's shard is copied home: a part
 * of all ranks' sums or, with shard groups, of the group's. */
static void test_sums_of_groups(void **state)
{
    (void)state;
    for (int shard_ranks = 0; shard_ranks <= 2; shard_ranks += 2) {
        zr_layout l = plan_layout(2, 4, ZR_BF16, 3);
        l.reduce_once = true;
        l.shard_ranks = shard_ranks;
        l.home = (zr_homes){.param_share = 1, .optim_share = 1, .grad = ZR_SPACE_HOST};
        zr_plan *plan = plan_homes(&l, 3, false);
        int64_t elems = 0;
        for (int32_t u = 0; u < plan->n_units; u++) elems += plan->unit[u].padded_elems;
        /* sums of three micro-batches, and the half or quarter that is this rank's shard of the reduction */
        assert_int_equal(plan->copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST], 4 * (3 * elems + elems / (shard_ranks ? 2 : 4)));
        zr_plan_destroy(&plan);
    }
}

/* Check that a part that is read from disk is read before the segment that uses it, and that ranks on processors
 * exchange it only when that segment begins. */
static void test_reads_before_exchanges(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        zr_layout l = plan_layout(3, 2, ZR_BF16, 1);
        l.prefetch_elems = 1;
        l.home = (zr_homes){.param_share = 1, .optim_share = 1, .param = ZR_SPACE_DISK};
        zr_plan *plan = plan_homes(&l, 3, apart);
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        int32_t read = 0, exchanged = 0, runs = 0;
        while (s->step[read].stream != ZR_STREAM_FETCH || s->step[read].unit != 2) read++;
        while (s->step[exchanged].kind != ZR_STEP_GATHER || s->step[exchanged].unit != 2) exchanged++;
        for (int32_t i = read; i < exchanged; i++) runs += s->step[i].kind == ZR_STEP_RUN;
        assert_int_equal(runs > 5, !apart); /* the ops of a block */
        zr_plan_destroy(&plan);
    }
}

/* Check that two buffers for whole parts are enough, however many buckets there are. */
static void test_two_parts(void **state)
{
    (void)state;
    zr_layout l = plan_layout(2, 2, ZR_BF16, 3);
    l.home = (zr_homes){.param_share = 1, .optim_share = 1, .buckets = 5, .grad = ZR_SPACE_HOST};
    zr_plan *plan = plan_homes(&l, 3, false);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int parts = 0;
    for (int32_t b = plan->n_persistent; b < s->n_buffers; b++)
        parts += s->buffer[b].unit < 0 && s->buffer[b].category == ZR_CATEGORY_GRAD;
    assert_int_equal(parts, 2 + 2 + 5); /* in the rounds, for the squares, and for the update's buckets */
    zr_plan_destroy(&plan);
}

/* ---- choices -------------------------------------------------------------------------------------------------- */

/* Check that with a share, the last units are off the device: the fewest that together reach the share. */
static void test_shares(void **state)
{
    (void)state;
    zr_layout l = plan_layout(3, 2, ZR_BF16, 1);
    for (int percent = 0; percent <= 100; percent += 10) {
        l.home =
            (zr_homes){ZR_SPACE_HOST, ZR_SPACE_DEVICE, ZR_SPACE_DISK, percent / 100.0, 1 - percent / 100.0, 0, 0, 0, 0};
        zr_plan *plan = plan_homes(&l, 5, false);
        int64_t away[2] = {0}, most[2] = {0}, last[2] = {0};
        for (int32_t u = plan->n_units - 1; u >= 0; u--) {
            const zr_plan_unit *unit = &plan->unit[u];
            const bool off[] = {unit->param_home == ZR_SPACE_HOST, unit->optim_home == ZR_SPACE_DISK};
            assert_int_equal(plan->persistent[unit->param.buffer].space, unit->param_home);
            assert_int_equal(plan->persistent[unit->slot[1].buffer].space, unit->optim_home);
            for (int k = 0; k < 2; k++) {
                if (!off[k]) continue;
                assert_true(away[k] == most[k]); /* no unit behind it stays */
                away[k] += unit->elems;
                last[k] = unit->elems;
            }
            for (int k = 0; k < 2; k++) most[k] += unit->elems;
        }
        for (int k = 0; k < 2; k++) {
            const double share = k == 0 ? percent / 100.0 : 1 - percent / 100.0;
            assert_true((double)away[k] >= share * (double)plan->params - 1e-6 * (double)plan->params);
            assert_int_equal(away[k] > 0, share > 0);
            assert_true(away[k] == 0 || (double)(away[k] - last[k]) < share * (double)plan->params);
        }
        zr_plan_destroy(&plan);
    }
}

static void test_saves_in_place(void **state)
{
    (void)state;
    const zr_model model = zr_gpt2(&plan_small);
    for (int i = 0; i < 2; i++) {
        zr_layout l = plan_layout(3, 2, ZR_F32, 1);
        zr_plan *plan = NULL;
        *(i ? &l.home.param : &l.home.optim) = ZR_SPACE_DISK;
        l.limit_bytes = INT64_MAX; /* copies would fit */
        l.save = ZR_SAVE_AUTO;
        plan = plan_homes(&l, 3, false);
        assert_int_equal(plan->save, ZR_SAVE_IN_PLACE);
        zr_plan_destroy(&plan);
        l.save = ZR_SAVE_COPY;
        assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), ZR_ERR_UNSUPPORTED);
        assert_non_null(strstr(zr_error_message(), "save in place"));
    }
}

/* Check that a very large part gets larger buckets, so that the plan stays small. */
static void test_large_parts(void **state)
{
    (void)state;
    zr_gpt2_config config = plan_small;
    config.n_embd = 20001;
    config.n_layer = 100;
    zr_layout l = plan_layout(0, 1, ZR_BF16, 1);
    l.home.optim = ZR_SPACE_DISK;
    zr_plan *plan = plan_gpt2(&config, &l, &plan_profile);
    assert_true(plan->params > (int64_t)1 << 38);
    assert_int_equal(plan->layout.home.bucket_elems, 1 << 24);
    assert_true(plan->schedule[0].n_steps < ZR_DISK_ALIGN * 100);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans_are_proved),
        cmocka_unit_test(test_optimizer_states_on_disk),
        cmocka_unit_test(test_parameters_and_gradients_on_disk),
        cmocka_unit_test(test_reads_and_writes_overlap),
        cmocka_unit_test(test_reads_run_ahead),
        cmocka_unit_test(test_transfers_hide),
        cmocka_unit_test(test_sums_go_home_first),
        cmocka_unit_test(test_sums_of_groups),
        cmocka_unit_test(test_reads_before_exchanges),
        cmocka_unit_test(test_two_parts),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_saves_in_place),
        cmocka_unit_test(test_large_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
