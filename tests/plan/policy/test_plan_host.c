//TEST timeout=60
/* Updates by the host's processors beside a device with its own memory: only gradients go down and parameters go up,
 * the updates take the time of the host's memory beside the backward pass, and the proof notices each fault. */
#include <math.h>
#include <string.h>

#include "plan/cost/cost.h"
#include "plan/plan_make.h"

enum { BUCKET = 2048 };

/* Return a layout with optimizer states in host memory, as well as the gradients that outlive their reduction. */
static zr_layout layout_in_host(int stage, int ranks, zr_dtype dtype, zr_states states, int64_t accum)
{
    zr_layout l = plan_layout(stage, ranks, dtype, accum);
    l.states = states;
    l.home.optim = ZR_SPACE_HOST;
    if (stage >= 2 || accum > 1) l.home.grad = ZR_SPACE_HOST;
    l.home.bucket_elems = BUCKET;
    l.home.buckets = 3;
    return l;
}

static zr_plan *plan_beside(const zr_layout *l, int64_t layers)
{
    zr_gpt2_config config = plan_small;
    zr_profile profile = plan_profile;
    config.n_layer = layers;
    profile.facts.own_memory = true;
    zr_plan *plan = plan_gpt2(&config, l, &profile);
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static int64_t updated_elems(const zr_plan *plan)
{
    int64_t elems = 0;
    for (int32_t u = 0; u < plan->n_units; u++) elems += plan->unit[u].update.count;
    return elems;
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

/* Check the bytes that a parameter costs in each direction, and that the device has no optimizer states. */
static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        int stage, ranks;
        zr_dtype dtype;
        zr_states states;
        int64_t accum, down, up;
    } cases[] = {
        /* the minimum: 16-bit gradients down, 16-bit parameters up */
        {0, 1, ZR_BF16, ZR_STATES_LEAN, 1, 2, 2},
        {1, 2, ZR_BF16, ZR_STATES_LEAN, 1, 2, 2},
        {2, 2, ZR_BF16, ZR_STATES_LEAN, 1, 2, 2},
        {1, 2, ZR_BF16, ZR_STATES_PAPER, 1, 2, 2},
        /* gradients that wait in host memory for the norm come back for it, but on one rank they are squared before */
        {2, 1, ZR_BF16, ZR_STATES_PAPER, 1, 2, 2},
        {2, 2, ZR_BF16, ZR_STATES_PAPER, 1, 2, 4},
        {3, 2, ZR_BF16, ZR_STATES_PAPER, 1, 2, 4},
        /* sums over three micro-batches go home three times, and come back twice and for the norm */
        {2, 2, ZR_BF16, ZR_STATES_PAPER, 3, 12, 14},
        /* in fp32 the parameters are the masters, and also go down */
        {1, 2, ZR_F32, ZR_STATES_PAPER, 1, 8, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zr_layout l =
            layout_in_host(cases[i].stage, cases[i].ranks, cases[i].dtype, cases[i].states, cases[i].accum);
        zr_plan *plan = plan_beside(&l, 3);
        const int64_t elems = updated_elems(plan);
        if (plan->copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST] != cases[i].down * elems ||
            plan->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE] != cases[i].up * elems)
            fail_msg("case %zu: %g bytes down and %g up for each parameter", i,
                     (double)plan->copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST] / (double)elems,
                     (double)plan->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE] / (double)elems);
        assert_int_equal(plan->memory.space[ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_OPTIM], 0);
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t k = 0; k < s->n_steps; k++)
            assert_int_equal(s->step[k].kind == ZR_STEP_UPDATE, s->step[k].stream == ZR_STREAM_HOST);
        zr_plan_destroy(&plan);
    }
}

/* Check that units whose states are on the device are updated there, and the others on the host. */
static void test_share(void **state)
{
    (void)state;
    zr_layout l = layout_in_host(1, 2, ZR_BF16, ZR_STATES_PAPER, 1);
    l.home.optim_share = 0.5;
    zr_plan *plan = plan_beside(&l, 3);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int updates[2] = {0};
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_UPDATE) continue;
        const bool on_host = s->step[i].stream == ZR_STREAM_HOST;
        assert_int_equal(on_host, plan->unit[s->step[i].unit].optim_home == ZR_SPACE_HOST);
        updates[on_host]++;
    }
    assert_true(updates[0] > 0 && updates[1] > 0);
    zr_plan_destroy(&plan);
}

/* ---- time ----------------------------------------------------------------------------------------------------- */

/* Check that an update in bf16 moves 28 bytes of host memory for each parameter, that updates overlap with the backward
 * pass if no norm must be known first, and that the step waits for them otherwise. */
static void test_times(void **state)
{
    (void)state;
    for (int lean = 0; lean < 2; lean++) {
        zr_layout l = layout_in_host(1, 1, ZR_BF16, lean ? ZR_STATES_LEAN : ZR_STATES_PAPER, 1);
        l.home.buckets = 0;
        zr_plan *plan = plan_beside(&l, 24);
        const double bytes = 28.0 * (double)updated_elems(plan);
        zr_profile rates = plan->profile;
        rates.machine = (zr_machine){.flops_f32 = 1e9, .flops_bf16 = 1e9, .host_bytes_sec = 1e15};
        zr_price alone, price;
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &alone), ZR_OK);
        assert_true(alone.host_sec == 0); /* unknown */
        rates.machine.host_memory_bytes_sec = bytes / (alone.step_sec / 4);
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &rates, &price), ZR_OK);
        assert_true(fabs(price.host_sec - alone.step_sec / 4) < 1e-9 * alone.step_sec);
        const double exposed = (price.step_sec - alone.step_sec) / price.host_sec;
        if (lean ? exposed > 0.1 : fabs(exposed - 1) > 0.01) fail_msg("%g of the updates are exposed", exposed);
        zr_plan_destroy(&plan);
    }
}

/* ---- faults --------------------------------------------------------------------------------------------------- */

static void expect_said(const zr_plan *plan, const char *text)
{
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

static int32_t find_step(const zr_schedule *s, int32_t from, zr_step_kind kind, zr_stream stream)
{
    while (from < s->n_steps && (s->step[from].kind != kind || s->step[from].stream != stream)) from++;
    assert_true(from < s->n_steps);
    return from;
}

static void test_faults_are_noticed(void **state)
{
    (void)state;
    enum { SUMS, MASTER };
    for (int lean = 0; lean < 2; lean++) {
        const zr_layout l = layout_in_host(1, 2, ZR_BF16, lean ? ZR_STATES_LEAN : ZR_STATES_PAPER, 1);
        zr_plan *plan = plan_beside(&l, 3);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        int32_t update = find_step(s, 0, ZR_STEP_UPDATE, ZR_STREAM_HOST); /* then the first of several buckets */
        while (s->step[update].range.count < BUCKET) update = find_step(s, update + 1, ZR_STEP_UPDATE, ZR_STREAM_HOST);
        const int32_t back = find_step(s, update, ZR_STEP_COPY, ZR_STREAM_RETURN);
        int32_t down = update;
        zr_use *use = &s->use[s->step[update].uses], had = use[SUMS];
        while (s->step[down].kind != ZR_STEP_COPY || s->use[s->step[down].uses + 1].buffer != had.buffer) down--;
        zr_use *from = &s->use[s->step[down].uses], had_from = *from;

        use[SUMS] = *from;
        expect_said(plan, "by other sums than the unit's own");
        use[SUMS] = had;
        from->range.first += 32;
        expect_said(plan, "by other sums than the unit's own");
        *from = had_from;
        const int32_t unit = s->step[down].unit;
        s->step[down].unit = unit == 0 ? 1 : 0;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        s->step[down].unit = unit;

        const zr_step returned = s->step[back];
        s->step[back] = (zr_step){.kind = ZR_STEP_ZERO, .unit = -1, .op = -1, .stream = ZR_STREAM_RETURN};
        expect_said(plan, "is not for stream return");
        s->step[back].stream = ZR_STREAM_COPY;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL); /* parameters do not go back to the device */
        s->step[back] = returned;
        s->use[s->step[back].uses + 1].range.first += 32;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        s->use[s->step[back].uses + 1].range.first -= 32;

        const int32_t square = find_step(s, 0, ZR_STEP_SQUARE, ZR_STREAM_COMPUTE);
        s->step[square].stream = ZR_STREAM_HOST;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        s->step[square].stream = ZR_STREAM_COMPUTE;
        plan->profile.facts.own_memory = false;
        expect_said(plan, "is not for stream host");
        plan->profile.facts.own_memory = true;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that a gradient which is copied to the host before its reduction is noticed. */
static void test_early_copy_is_noticed(void **state)
{
    (void)state;
    for (int lean = 0; lean < 2; lean++) {
        const zr_layout l = layout_in_host(1, 2, ZR_BF16, lean ? ZR_STATES_LEAN : ZR_STATES_PAPER, 1);
        zr_plan *plan = plan_beside(&l, 3);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        const int32_t update = find_step(s, 0, ZR_STEP_UPDATE, ZR_STREAM_HOST);
        const zr_use *sums = &s->use[s->step[update].uses];
        int32_t down = update, reduce = update;
        while (s->step[down].kind != ZR_STEP_COPY || s->use[s->step[down].uses + 1].buffer != sums->buffer) down--;
        while (s->step[reduce].kind != ZR_STEP_REDUCE_SCATTER || s->step[reduce].unit != s->step[update].unit) reduce--;
        /* the sums of the copy and of the reduction change places */
        const zr_step copied = s->step[down];
        s->step[down] = s->step[reduce];
        s->step[reduce] = copied;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        zr_plan_destroy(&plan);
    }
}

/* Swap step i with the next one, and the waits for them. */
static void swap_steps(zr_schedule *s, int32_t i)
{
    const zr_step had = s->step[i];
    s->step[i] = s->step[i + 1];
    s->step[i + 1] = had;
    for (int32_t w = 0; w < s->n_waits; w++)
        if (s->wait[w].step == i || s->wait[w].step == i + 1) s->wait[w].step = 2 * i + 1 - s->wait[w].step;
}

/* Check that a copy of sums between the reductions of two micro-batches is noticed, although waits keep all in order.
 */
static void test_partial_sums_are_noticed(void **state)
{
    (void)state;
    zr_layout l = layout_in_host(1, 1, ZR_BF16, ZR_STATES_PAPER, 2);
    l.home.grad = ZR_SPACE_DEVICE;
    l.home.buckets = 4096; /* no two buckets share a buffer of the ring */
    l.accum_order = ZR_ACCUM_LAYER;
    zr_plan *plan = plan_beside(&l, 3);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t update = s->n_steps - 1; /* the update of the unit whose gradient is complete first */
    while (s->step[update].kind != ZR_STEP_UPDATE) update--;
    const int32_t copied = s->use[s->step[update].uses].buffer;
    int32_t down = update, reduce;
    while (s->step[down].kind != ZR_STEP_COPY || s->use[s->step[down].uses + 1].buffer != copied) down--;
    reduce = down;
    while (s->step[reduce].kind != ZR_STEP_REDUCE_SCATTER || s->step[reduce].unit != s->step[update].unit) reduce--;
    assert_int_equal(s->step[reduce].micro, 1);
    for (int32_t i = down; i > reduce; i--) swap_steps(s, i - 1);
    zr_wait *wait = zr_alloc(sizeof *wait * (size_t)(s->n_waits + 2));
    assert_non_null(wait);
    memcpy(wait, s->wait, sizeof *wait * (size_t)s->n_waits);
    zr_free(s->wait);
    s->wait = wait;
    for (int i = 0; i < 2; i++) { /* the copy waits for the step before, and the reduction for the copy */
        wait[s->n_waits] = (zr_wait){.step = reduce - 1 + i};
        s->step[reduce + i].waits = s->n_waits++;
        s->step[reduce + i].n_waits = 1;
    }
    expect_said(plan, "by other sums than the unit's own");
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_faults_are_noticed),
        cmocka_unit_test(test_early_copy_is_noticed),
        cmocka_unit_test(test_partial_sums_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
