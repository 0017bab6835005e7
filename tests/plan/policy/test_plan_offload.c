//TEST timeout=60 tsan=1
/* Activation checkpoints kept in host memory or on disk between forward and backward pass: the place of each buffer,
 * the copies, that everything else is unchanged, and that faults are noticed. */
#include "engine/layout_variants.h"
#include "plan/cost/cost.h"

static void same_steps(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++) {
        assert_memory_equal(&a->loss[i], &b->loss[i], sizeof a->loss[i]);
        assert_memory_equal(&a->norm[i], &b->norm[i], sizeof a->norm[i]);
    }
    assert_true(a->weights == b->weights);
}

/* Check that offloaded checkpoints change no bit of losses, norms and weights, at every stage, with every policy, in
 * one pass and in two. The trainer checks the plan, and that measured bytes equal planned ones. */
static void test_same_bits(void **state)
{
    (void)state;
    const zr_recompute policies[] = {ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_SELECTIVE};
    for (int stage = 0; stage <= 3; stage += 3)
        for (int policy = 0; policy < 2; policy++)
            for (int way = 0; way < 3; way++) {
                trainer run = layout_trainer(2, ZR_BF16, way == 0 ? 2 : 1, way == 2 ? 0.5 : 0);
                run.layout.stage = stage;
                run.layout.recompute = policies[policy];
                run.layout.recompute_every = policy == 0 ? 1 + way : 1;
                if (way > 0) run.layout.states = ZR_STATES_LEAN;
                run.layout.two_pass = way == 2;
                trainer_run(&run);
                for (int disk = 0; disk < 2; disk++) {
                    const zr_space home = disk ? ZR_SPACE_DISK : ZR_SPACE_HOST;
                    trainer there = run;
                    there.layout.checkpoint_home = home;
                    trainer_run(&there);
                    same_steps(&run, &there);
                    assert_true(there.planned.space[home].category_bytes[ZR_CATEGORY_CHECKPOINT] > 0);
                    assert_int_equal(there.planned.category_bytes[ZR_CATEGORY_CHECKPOINT], 0);
                }
            }
}

enum {
    BYTES = 4 * 2 * 17 * 57, /* bytes of a checkpoint: B x T x C values in fp32 */
    PIECE_BYTES =
        4 * 2 * 17 * 58 / 2 /* bytes of a checkpoint's piece on one of two tensor-parallel ranks, where C is 58 */
};

static zr_plan *plan_on(int64_t layers, zr_space home, bool apart, zr_accum_order order, int64_t accum, int tensor)
{
    trainer run = trainer_odd();
    run.config.n_layer = layers;
    run.layout.recompute = ZR_RECOMPUTE_UNIT;
    run.layout.recompute_every = 1;
    run.layout.checkpoint_home = home;
    run.layout.accum = accum;
    run.layout.accum_order = order;
    run.layout.accum_ahead = 2;
    if (tensor > 1) {
        run.config.n_head = 2;
        run.config.n_embd = 58;
        run.layout.tensor = tensor;
        run.layout.partition_checkpoints = true;
    }
    zr_model model = trainer_model(&run);
    zr_profile profile = {0};
    profile.facts.threads = 1;
    profile.facts.own_memory = apart;
    zr_plan *plan = NULL;
    if (zr_plan_create(&model, &run.layout, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static zr_plan *plan_of(int64_t layers, zr_space home)
{
    return plan_on(layers, home, false, ZR_ACCUM_MICRO, 1, 1);
}

static int64_t transient_bytes(const zr_plan *plan, zr_space space)
{
    return plan->space_bytes[space] - plan->persistent_bytes[space];
}

/* Check the bytes of checkpoints: the input of every block but the first's, which is the embedding's output as well, B
 * x T x C values each. If they are on the host or on disk, the device's memory grows with the layers only by their
 * states, and host memory does not grow by checkpoints on disk. */
static void test_bytes(void **state)
{
    (void)state;
    static const zr_space homes[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_DISK};
    for (int i = 0; i < 3; i++) {
        zr_plan *few = plan_of(4, homes[i]), *many = plan_of(12, homes[i]);
        const int64_t grain = homes[i] == ZR_SPACE_DISK ? ZR_DISK_ALIGN : 64,
                      checkpoint = (BYTES + grain - 1) / grain * grain;
        for (zr_space s = 0; s < ZR_SPACES; s++) {
            assert_int_equal(few->memory.space[s].category_bytes[ZR_CATEGORY_CHECKPOINT],
                             s == homes[i] ? 4 * checkpoint : 0);
            assert_int_equal(many->memory.space[s].category_bytes[ZR_CATEGORY_CHECKPOINT],
                             s == homes[i] ? 12 * checkpoint : 0);
        }
        const int64_t grows = (many->memory.total_bytes - many->memory.states_bytes) -
                              (few->memory.total_bytes - few->memory.states_bytes);
        assert_true(i == 0 ? grows > 0 : grows == 0);
        if (homes[i] == ZR_SPACE_DISK) assert_int_equal(many->space_bytes[ZR_SPACE_DISK], 12 * checkpoint);
        zr_plan_destroy(&few);
        zr_plan_destroy(&many);
    }
}

/* Check that every copy from or to disk begins at the beginning of a buffer in memory, which begins at a block. */
static void check_blocks(const zr_plan *plan)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int copies = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int side = 0; side < 2 && s->step[i].kind == ZR_STEP_COPY; side++) {
            const zr_use *use = &s->use[s->step[i].uses + side], *other = &s->use[s->step[i].uses + !side];
            if (s->buffer[other->buffer].space != ZR_SPACE_DISK) continue;
            copies++;
            assert_true(use->range.first == 0 && use->range.by.elems == 0 && !use->each);
            assert_int_equal(s->buffer[use->buffer].offset % ZR_DISK_ALIGN, 0);
        }
    assert_true(copies > 0);
}

/* Check the bytes copied from and to disk, in all orders of micro-batches, whole and in pieces, and on a device with
 * its own memory, where they pass through host memory. The memory through which they pass does not depend on the number
 * of layers. */
static void test_disk(void **state)
{
    (void)state;
    enum { FEW = 5, MANY = 12, ACCUM = 3 };
    for (int way = 0; way < 12; way++) {
        const bool apart = way & 1;
        const zr_accum_order order = (zr_accum_order)(way / 2 % 3);
        const int tensor = way < 6 ? 1 : 2, at_once[] = {1, ACCUM, 2}; /* micro-batches whose checkpoints are on disk */
        const zr_space near = apart ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        zr_plan *few = plan_on(FEW, ZR_SPACE_DISK, apart, order, ACCUM, tensor),
                *plan = plan_on(MANY, ZR_SPACE_DISK, apart, order, ACCUM, tensor);
        const int64_t bytes = tensor == 1 ? BYTES : PIECE_BYTES, all = (int64_t)MANY * ACCUM * bytes,
                      kept = (bytes + ZR_DISK_ALIGN - 1) / ZR_DISK_ALIGN;
        assert_int_equal(plan->copied[ZR_SPACE_DISK][near], all);
        assert_int_equal(plan->copied[near][ZR_SPACE_DISK], all);
        assert_int_equal(plan->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE], apart ? all : 0);
        assert_int_equal(plan->copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST], apart ? all : 0);
        assert_int_equal(plan->space_bytes[ZR_SPACE_DISK], at_once[order] * MANY * kept * ZR_DISK_ALIGN);
        /* transient memory does not grow with the layers; buffers may be packed differently, by less than one
         * checkpoint */
        for (zr_space space = ZR_SPACE_DEVICE; space <= ZR_SPACE_HOST; space++)
            if (transient_bytes(plan, space) - transient_bytes(few, space) >= bytes)
                fail_msg("way %d: %lld bytes in space %s with %d layers, %lld with %d", way,
                         (long long)transient_bytes(few, space), zr_space_name(space), FEW,
                         (long long)transient_bytes(plan, space), MANY);
        check_blocks(plan);
        assert_true(plan->has_stream[ZR_STREAM_FETCH] && plan->has_stream[ZR_STREAM_STORE]);
        assert_int_equal(plan->windows, ZR_NONE);
        zr_plan_destroy(&few);
        zr_plan_destroy(&plan);
    }
}

/* Check that a plan without checkpoints takes no memory for a disk. */
static void test_nothing_to_keep(void **state)
{
    (void)state;
    trainer run = trainer_odd();
    zr_model model = trainer_model(&run);
    zr_profile profile = {.facts.threads = 1};
    zr_plan *without = NULL, *with = NULL;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &without), ZR_OK);
    run.layout.checkpoint_home = ZR_SPACE_DISK;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &with), ZR_OK);
    assert_memory_equal(with->space_bytes, without->space_bytes, sizeof with->space_bytes);
    assert_int_equal(with->passing_disk, ZR_NONE);
    run.layout.checkpoint_home = ZR_SPACE_STAGING;
    zr_plan_destroy(&with);
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &with), ZR_ERR_UNSUPPORTED);
    assert_string_equal(zr_error_message(),
                        "activation checkpoints in space \"staging\": \"device\", \"host\" and \"disk\" are built");
    zr_plan_destroy(&without);
}

/* Return the n-th step of a stream. */
static int32_t nth_of(const zr_schedule *s, zr_stream stream, int n)
{
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].stream == stream && n-- == 0) return i;
    fail();
    return -1;
}

/* Make fault number n in a plan with checkpoints on disk. Return false if the plan has no place for this fault. */
static bool make_fault(zr_plan *plan, int n)
{
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *stores = &s->step[nth_of(s, ZR_STREAM_STORE, 1)], *fetches = &s->step[nth_of(s, ZR_STREAM_FETCH, 1)];
    zr_use *stored = &s->use[stores->uses], *fetched = &s->use[fetches->uses];
    const zr_use *other = &s->use[s->step[nth_of(s, ZR_STREAM_FETCH, 2)].uses];
    switch (n) {
    case 0: /* the checkpoint of another unit is read */
        fetched[0].buffer = other[0].buffer;
        return true;
    case 1: /* some elements are missing */
        fetched[0].range.count = fetched[1].range.count = fetched[0].range.count - 1;
        return true;
    case 2: /* a checkpoint is not written */
        stores->kind = ZR_STEP_ZERO;
        stores->n_uses = 0;
        return true;
    case 3: /* ... or written over another one */
        stored[1].buffer = s->use[s->step[nth_of(s, ZR_STREAM_STORE, 0)].uses + 1].buffer;
        return true;
    case 4: /* two checkpoints share bytes */
        s->buffer[fetched[0].buffer].offset = s->buffer[other[0].buffer].offset;
        return true;
    case 5: /* a checkpoint does not begin with a block */
        s->buffer[fetched[0].buffer].offset += 64;
        plan->space_bytes[ZR_SPACE_DISK] += ZR_DISK_ALIGN;
        return true;
    case 6: /* memory does not begin with a block */
        s->buffer[fetched[1].buffer].offset += 64;
        return true;
    case 7: /* a copy is in the wrong queue */
        fetches->stream = ZR_STREAM_COPY;
        return true;
    case 8: /* checkpoints may be read before they are written */
        for (int32_t i = 0; i < s->n_steps; i++)
            if (s->step[i].stream == ZR_STREAM_FETCH) s->step[i].n_waits = 0;
        return true;
    case 9: /* ... and used before they are read */
        for (int32_t i = 0; i < s->n_steps; i++)
            for (int32_t w = s->step[i].waits; w < s->step[i].waits + s->step[i].n_waits; w++)
                if (s->step[s->wait[w].step].stream == ZR_STREAM_FETCH) s->step[i].n_waits = 0;
        return true;
    case 10: /* a step other than a copy uses a checkpoint on disk */
        for (int32_t u = 0; u < s->n_uses; u++)
            if (s->use[u].buffer == fetched[1].buffer && !s->use[u].writes) s->use[u].buffer = fetched[0].buffer;
        return true;
    case 11: /* the disk is too small */
        plan->space_bytes[ZR_SPACE_DISK] -= ZR_DISK_ALIGN;
        return true;
    default:
        return false;
    }
}

static void test_faults(void **state)
{
    (void)state;
    bool made = true;
    for (int way = 0; way < 4; way++) {
        int n = 0;
        for (made = true; made; n++) {
            zr_plan *plan = plan_on(6, ZR_SPACE_DISK, way & 1, way & 2 ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO, 2, 1);
            made = make_fault(plan, n);
            if (made && zr_plan_check(plan) == ZR_OK) fail_msg("fault %d of way %d is not noticed", n, way);
            zr_plan_destroy(&plan);
        }
        assert_int_equal(n, 13); /* 12 faults were made, and the 13th call found none */
    }
}

/* Check that policy auto fits its limit when checkpoints on the host count as the same memory. */
static void test_auto(void **state)
{
    (void)state;
    for (int percent = 60; percent <= 100; percent += 20) {
        trainer run = trainer_odd();
        run.config.n_layer = 8;
        run.layout.batch = 16;
        zr_model model = trainer_model(&run);
        zr_profile profile = {0};
        profile.facts.threads = 1;
        zr_plan *unit = NULL, *chosen = NULL;
        run.layout.recompute = ZR_RECOMPUTE_UNIT;
        run.layout.recompute_every = 1;
        run.layout.checkpoint_home = ZR_SPACE_HOST;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &unit), ZR_OK);
        const int64_t least = zr__memory_taken(&unit->memory);
        assert_true(least > unit->memory.total_bytes);
        run.layout.recompute = ZR_RECOMPUTE_AUTO;
        run.layout.limit_bytes = least * 100 / percent;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &chosen), ZR_OK);
        assert_in_range(zr__memory_taken(&chosen->memory), 1, run.layout.limit_bytes);
        zr_plan_destroy(&unit);
        zr_plan_destroy(&chosen);
    }
}

/* Check that copies have a stream of their own, and that a copy to the host waits for its input. */
static void test_copies(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(4, ZR_SPACE_HOST);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int away = 0, back = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_COPY) continue;
        const zr_buffer *from = &s->buffer[s->use[s->step[i].uses].buffer];
        assert_int_equal(s->step[i].stream, ZR_STREAM_COPY);
        away += from->space == ZR_SPACE_DEVICE;
        back += from->space == ZR_SPACE_HOST;
        assert_true(s->step[i].n_waits > 0 || from->space == ZR_SPACE_HOST);
    }
    assert_int_equal(away, 4);
    assert_int_equal(back, 4);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_bytes),  cmocka_unit_test(test_disk),
        cmocka_unit_test(test_nothing_to_keep), cmocka_unit_test(test_faults), cmocka_unit_test(test_auto),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
