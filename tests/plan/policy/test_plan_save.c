//TEST timeout=60
/* States that are saved after a step: the memory that the plan takes, its waits, and the price that it gives. */
#include <stdlib.h>

#include "plan/plan_ways.h"
#include "plan/cost/cost.h"
#include "plan/list/list.h"

static const zr_save both[] = {ZR_SAVE_COPY, ZR_SAVE_IN_PLACE};

static zr_plan *saving_plan(zr_layout l, zr_save save)
{
    l.save = save;
    l.home = (zr_homes){.param_share = 1}; /* updates of states off the device would wait for their copies home */
    return plan_of(&l);
}

/* Return the bytes that a rank saves of errors of gradients, as fp32. */
static int64_t error_bytes(const zr_plan *plan)
{
    int64_t elems = 0;
    for (int32_t u = 0; u < plan->n_units; u++)
        for (int level = 0; level < ZR_ERROR_LEVELS; level++)
            if (plan->unit[u].error[level].buffer != ZR_NONE) elems += plan->unit[u].error[level].range.count;
    return 4 * elems;
}

/* Return the number of states of a unit that are saved, besides errors. */
static int64_t states_of(const zr_plan_unit *u)
{
    return 1 + u->n_slots + u->differs;
}

static int64_t own_bytes(const zr_plan *plan)
{
    int64_t bytes = error_bytes(plan);
    for (int32_t u = 0; u < plan->n_units; u++) bytes += 4 * plan->unit[u].own.count * states_of(&plan->unit[u]);
    return bytes;
}

/* Return the bytes of copies of states, in their own types. */
static int64_t copied_bytes(const zr_plan *plan)
{
    int64_t bytes = own_bytes(plan) - error_bytes(plan);
    for (int32_t i = 0; i < plan->n_units; i++) {
        const zr_plan_unit *u = &plan->unit[i];
        if (u->differs) bytes -= u->own.count * (4 - zr_dtype_bytes(plan->layout.dtype));
        for (int s = 0; s < u->n_slots; s++)
            if (u->owned && u->slot[s].dtype != ZR_F32)
                bytes -=
                    4 * u->own.count - zr__round_bytes(ZR_SPACE_HOST, zr_dtype_span(u->slot[s].dtype, u->own.count));
    }
    return plan->save == ZR_SAVE_COPY ? bytes : 0;
}

/* Check that all ranks together save every element once, also in groups, and that the memory of the device and of other
 * spaces is the same as without saving. */
static void test_what_is_taken(void **state)
{
    (void)state;
    for (int i = 0; i < MIXED; i++)
        for (int m = 0; m < 2; m++) {
            const zr_layout l = mixed_layout(i);
            zr_plan *without = saving_plan(l, ZR_SAVE_NONE), *with = saving_plan(l, both[m]);
            zr_save_price price;
            zr_profile rates = with->profile;
            const int64_t *host = with->memory.space[ZR_SPACE_HOST].category_bytes;
            assert_int_equal(zr_plan_check(with), ZR_OK);
            assert_int_equal(zr__plans_price_save(&ZR__ALONE(with), &rates, 1e9, &price), ZR_OK);
            assert_int_equal(price.bytes, own_bytes(with));
            int64_t elems = 0; /* of all states of all ranks */
            for (int32_t u = 0; u < with->n_units; u++) elems += with->unit[u].padded_elems * states_of(&with->unit[u]);
            assert_int_equal((price.bytes - error_bytes(with)) * l.ranks, 4 * elems);
            assert_memory_equal(with->memory.category_bytes, without->memory.category_bytes,
                                sizeof with->memory.category_bytes);
            assert_int_equal(with->memory.total_bytes, without->memory.total_bytes);
            assert_int_equal(with->memory.states_bytes, without->memory.states_bytes);
            /* with states on disk, the memory through which a save passes counts too */
            const int64_t passing =
                with->memory.space[ZR_SPACE_DISK].total_bytes > 0
                    ? host[ZR_CATEGORY_WORK] - without->memory.space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_WORK]
                    : 0;
            assert_int_equal(zr__memory_taken(&with->memory) - zr__memory_taken(&without->memory),
                             copied_bytes(with) + passing);
            assert_int_equal(host[ZR_CATEGORY_PARAM] + host[ZR_CATEGORY_OPTIM], copied_bytes(with));
            assert_memory_equal(&with->traffic, &without->traffic, sizeof with->traffic);
            assert_true(with->flops_hardware == without->flops_hardware);
            assert_int_equal(zr__plans_price_save(&ZR__ALONE(without), &rates, 1e9, &price), ZR_ERR_STATE);
            zr_plan_destroy(&without);
            zr_plan_destroy(&with);
        }
}

/* Check that adding a save changes no other waits: apart from waits for saving steps, each step waits for the same
 * steps as in a plan without saving. */
static void test_other_waits_stay(void **state)
{
    (void)state;
    for (int i = 0; i < MIXED; i++)
        for (int m = 0; m < 2; m++) {
            zr_plan *without = saving_plan(mixed_layout(i), ZR_SAVE_NONE),
                    *with = saving_plan(mixed_layout(i), both[m]);
            const zr_schedule *a = &without->schedule[ZR_SCHEDULE_TRAIN], *b = &with->schedule[ZR_SCHEDULE_TRAIN];
            int32_t *at = calloc((size_t)b->n_steps, sizeof *at), n = 0;
            for (int32_t s = 0; s < b->n_steps; s++) at[s] = b->step[s].when == ZR_WHEN_SAVE ? -1 : n++;
            assert_int_equal(n, a->n_steps);
            for (int32_t s = 0; s < b->n_steps; s++) {
                const zr_step *step = &b->step[s], *same = at[s] < 0 ? NULL : &a->step[at[s]];
                int32_t k = 0;
                if (!same) continue;
                assert_int_equal(same->kind, step->kind);
                for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
                    if (at[b->wait[w].step] < 0) continue;
                    assert_true(k < same->n_waits);
                    assert_int_equal(a->wait[same->waits + k].step, at[b->wait[w].step]);
                    assert_int_equal(a->wait[same->waits + k++].before, b->wait[w].before);
                }
                assert_int_equal(k, same->n_waits);
            }
            free(at);
            zr_plan_destroy(&without);
            zr_plan_destroy(&with);
        }
}

/* Return the last saving step that reads a state of the unit at the place where an update writes it. */
static int32_t last_reader(const zr_plan *plan, int32_t unit)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_step_kind kind = plan->save == ZR_SAVE_COPY ? ZR_STEP_COPY : ZR_STEP_SAVE;
    int32_t last = -1;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].when == ZR_WHEN_SAVE && s->step[i].kind == kind && s->step[i].unit == unit) last = i;
    return last;
}

/* Check that only updates of parameters and of the momentum wait for saving steps, and casts that renew errors, and
 * that each update comes after all saves of its unit's states, by a wait of its own or of an earlier update. */
static void test_updates_wait(void **state)
{
    (void)state;
    for (int i = 0; i < MIXED; i++)
        for (int m = 0; m < 2; m++) {
            zr_plan *plan = saving_plan(mixed_layout(i), both[m]);
            const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
            int32_t awaited = -1, updates = 0;
            for (int32_t k = 0; k < s->n_steps; k++) {
                const zr_step *step = &s->step[k];
                for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
                    const int32_t on = s->wait[w].step;
                    if (s->step[on].when != ZR_WHEN_SAVE || step->when == ZR_WHEN_SAVE) continue;
                    const bool errors = s->step[on].slot >= ZR_SLOT_ERROR; /* which a cast renews */
                    assert_true(errors ? step->kind == ZR_STEP_CAST
                                       : step->kind == ZR_STEP_UPDATE || step->kind == ZR_STEP_DIRECTION);
                    if (errors) continue;
                    if (on > awaited) awaited = on;
                }
                if (step->kind != ZR_STEP_UPDATE) continue;
                updates++;
                if (plan->layout.checkpoint_home != ZR_SPACE_DEVICE)
                    continue; /* updates also wait by later copies on the stream */
                if (awaited < last_reader(plan, step->unit))
                    fail_msg("layout %d, %d: update %d of unit %d after %d, wanted %d", i, m, k, step->unit, awaited,
                             last_reader(plan, step->unit));
            }
            assert_true(updates > 0);
            zr_plan_destroy(&plan);
        }
}

static void expect_refused(const zr_plan *plan, const char *what)
{
    if (zr_plan_check(plan) != ZR_ERR_INTERNAL)
        fail_msg("stage %d, %d ranks: %s is not noticed", plan->layout.stage, plan->ranks, what);
}

/* Check that the proof notices a saving step that does not save the whole of this rank's shard of the state that it
 * names. */
static void test_broken(void **state)
{
    (void)state;
    for (int i = 0; i < MIXED; i += 3)
        for (int m = 0; m < 2; m++) {
            zr_plan *plan = saving_plan(mixed_layout(i), both[m]);
            zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
            for (int32_t k = 0; k < s->n_steps; k++) {
                zr_step *step = &s->step[k];
                const zr_step was = *step;
                zr_use *use = &s->use[step->uses];
                const zr_use had = use[0];
                if (step->when != ZR_WHEN_SAVE) continue;
                step->slot = step->slot < 0 ? 0 : -1;
                if (step->kind == ZR_STEP_SAVE) expect_refused(plan, "another state's name");
                *step = was;
                use[0].range.by = (zr_stride){use[0].range.by.elems + 32, ZR_GROUP_DATA};
                if (plan->ranks > 1) expect_refused(plan, "another stride");
                use[0] = had;
                use[0].range.first += 1;
                expect_refused(plan, "another first element");
                use[0] = had;
                use[0].range.count -= 1;
                expect_refused(plan, "an element less");
                use[0] = had;
                step->kind = step->kind == ZR_STEP_SAVE ? ZR_STEP_ZERO : ZR_STEP_SAVE;
                expect_refused(plan, "another step");
                *step = was;
            }
            assert_int_equal(zr_plan_check(plan), ZR_OK);
            zr_plan_destroy(&plan);
        }
}

/* Check that each wait of saving steps is needed in fp32 too, where parameters are their own masters and others'
 * updates arrive first. */
static void test_waits_in_fp32(void **state)
{
    (void)state;
    int tried = 0;
    for (int stage = 1; stage <= 2; stage++)
        for (int m = 0; m < 2; m++) {
            zr_plan *plan = saving_plan(layout_of(stage, 2, ZR_F32, 2), both[m]);
            zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
            for (int32_t k = 0; k < s->n_steps; k++) {
                zr_step *step = &s->step[k];
                for (int32_t w = 0; w < step->n_waits; w++) {
                    zr_wait *list = s->wait + step->waits, gone = list[w];
                    const int32_t last = step->n_waits - 1;
                    bool saves = step->when == ZR_WHEN_SAVE || s->step[gone.step].when == ZR_WHEN_SAVE;
                    if (!saves) continue;
                    list[w] = list[last];
                    step->n_waits--;
                    expect_refused(plan, "a wait that is lost");
                    step->n_waits++;
                    list[last] = list[w];
                    list[w] = gone;
                    tried++;
                }
            }
            assert_int_equal(zr_plan_check(plan), ZR_OK);
            zr_plan_destroy(&plan);
        }
    assert_true(tried > 20);
}

/* Check the stall of saving. On an infinitely fast disk nothing waits; on a slow one, saving in place stalls as long as
 * the disk takes, less the computing before the first update. Saving from a copy does not depend on the disk: if one
 * core does everything, it stalls for the time of the copy. */
static void test_price(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 4; accum += 3) {
        zr_layout l = layout_of(2, 2, ZR_F32, accum);
        zr_plan *in_place = saving_plan(l, ZR_SAVE_IN_PLACE), *copy = saving_plan(l, ZR_SAVE_COPY);
        zr_profile rates = in_place->profile;
        rates.machine.flops_f32 = 1e9;
        rates.machine.memory_bytes_sec = 1e10;
        zr_save_price a, b, fast;
        zr_price step;
        const double disk = 1e6;
        assert_int_equal(zr_plans_price(&ZR__ALONE(in_place), &rates, &step), ZR_OK);
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(in_place), &rates, disk, &a), ZR_OK);
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(in_place), &rates, 1e15, &fast), ZR_OK);
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(copy), &rates, disk, &b), ZR_OK);
        assert_float_equal(a.write_sec, (double)a.bytes / disk, 1e-9 * a.write_sec);
        assert_float_equal(b.write_sec, a.write_sec, 1e-9 * a.write_sec);
        assert_true(step.step_sec < a.write_sec);
        assert_true(a.stall_sec > a.write_sec - step.step_sec && a.stall_sec < a.write_sec);
        assert_float_equal(fast.stall_sec, 0, 1e-12);
        const double copied_sec = 2 * (double)b.bytes / rates.machine.memory_bytes_sec;
        assert_float_equal(b.stall_sec, copied_sec, 1e-6 * copied_sec);
        copy->profile.facts.own_memory = true; /* the copy overlaps with computing, and only the update waits for it */
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(copy), &rates, disk, &b), ZR_OK);
        assert_true(b.stall_sec < copied_sec / 4);
        copy->profile.facts.own_memory = false;
        rates.machine.link_copies = true;
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(copy), &rates, disk, &b), ZR_OK);
        assert_float_equal(b.stall_sec, copied_sec, 1e-6 * copied_sec);
        assert_int_equal(zr__plans_price_save(&ZR__ALONE(in_place), &rates, 1e15, &fast), ZR_OK);
        assert_float_equal(fast.stall_sec, 0, 1e-12);
        zr_plan_destroy(&in_place);
        zr_plan_destroy(&copy);
    }
}

/* Check that policy auto saves from a copy where the copy fits and needs no more recompute. */
static void test_auto(void **state)
{
    (void)state;
    zr_layout l = layout_of(1, 2, ZR_BF16, 1);
    zr_plan *copy = saving_plan(l, ZR_SAVE_COPY), *plan;
    const int64_t needs = zr__memory_taken(&copy->memory);
    const struct {
        int64_t limit_bytes;
        zr_save chosen;
    } cases[] = {{0, ZR_SAVE_IN_PLACE}, {needs, ZR_SAVE_COPY}, {needs - 1, ZR_SAVE_IN_PLACE}, {1, ZR_SAVE_IN_PLACE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        l.limit_bytes = cases[i].limit_bytes;
        plan = saving_plan(l, ZR_SAVE_AUTO);
        assert_int_equal(plan->save, cases[i].chosen);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
    l.recompute = ZR_RECOMPUTE_AUTO;
    l.limit_bytes = needs; /* a copy just fits beside the activations of policy none */
    plan = saving_plan(l, ZR_SAVE_AUTO);
    assert_true(plan->save == ZR_SAVE_COPY && plan->flops_hardware == copy->flops_hardware);
    zr_plan_destroy(&plan);
    l.limit_bytes = needs - 1;
    plan = saving_plan(l, ZR_SAVE_AUTO);
    assert_true(plan->save == ZR_SAVE_IN_PLACE && plan->flops_hardware == copy->flops_hardware);
    zr_plan_destroy(&plan);
    zr_plan_destroy(&copy);
    l.train = false;
    zr_model model = zr_gpt2(&ways_config);
    l.save = ZR_SAVE_COPY;
    assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), ZR_ERR_CONFIG);
}

/* Check that the proof wants the parameters that ops read saved before another state of their unit: only for the save
 * of that one an update waits. */
static void test_sent_first(void **state)
{
    (void)state;
    zr_layout l = plan_layout(1, 2, ZR_BF16, 1);
    l.weight_records = ZR_I4X128;
    l.weight_differences = true;
    zr_plan *plan = saving_plan(l, ZR_SAVE_IN_PLACE);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *sent = NULL, *last = NULL;
    int32_t unit = 0;
    while (!plan->unit[unit].differs) unit++;
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step *step = &s->step[i];
        if (step->kind != ZR_STEP_SAVE || step->unit != unit) continue;
        if (step->slot == ZR_SLOT_SENT) sent = step;
        if (step->slot < 0) last = step;
    }
    assert_true(sent && last && sent < last);
    const zr_step was = *sent;
    *sent = *last;
    *last = was;
    expect_refused(plan, "a save behind all others");
    assert_non_null(strstr(zr_error_message(), "no other state of its unit follows"));
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_taken), cmocka_unit_test(test_other_waits_stay),
        cmocka_unit_test(test_updates_wait),  cmocka_unit_test(test_broken),
        cmocka_unit_test(test_waits_in_fp32), cmocka_unit_test(test_price),
        cmocka_unit_test(test_auto),          cmocka_unit_test(test_sent_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
