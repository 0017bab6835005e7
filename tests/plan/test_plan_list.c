//TEST timeout=20
/* Lists of steps as rewrites edit them: ids stay valid, steps are inserted before others, a buffer is replaced in a
 * step's uses, and waits and lifetimes follow from the finished list. */
#include "plan/list/list.h"
#include "plan_make.h"

#include <string.h>

/* Make a plan of two ranks whose flush schedule has no steps, only the persistent buffers. */
static zr_plan *bare_plan(void)
{
    zr_layout l = plan_layout(0, 2, ZR_F32, 1);
    zr_plan *plan = plan_gpt2(&plan_small, &l, &plan_profile);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_FLUSH];
    zr_free(s->step);
    zr_free(s->use);
    zr_free(s->wait);
    zr_free(s->buffer);
    *s = (zr_schedule){0};
    return plan;
}

static zr__id put(zr__list *l, zr_stream stream, int32_t reads, int32_t writes)
{
    zr__id id = zr__list_step(l, ZR_STEP_COPY, stream, -1);
    zr__list_use(l, id, zr__use_all(reads, true, false));
    zr__list_use(l, id, zr__use_all(writes, false, true));
    return id;
}

static void test_edits(void **state)
{
    (void)state;
    zr_plan *plan = bare_plan();
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_FLUSH];
    zr__list l;
    assert_int_equal(zr__list_begin(&l, plan, NULL, s), ZR_OK);
    int32_t b[4];
    for (int i = 0; i < 4; i++) b[i] = zr__list_buffer(&l, ZR_SPACE_DEVICE, ZR_CATEGORY_ACT, -1, "place", 64 << i);
    zr__id first = put(&l, ZR_STREAM_COMPUTE, ZR_NONE, b[0]), second = put(&l, ZR_STREAM_COMPUTE, b[0], b[1]),
           third = put(&l, ZR_STREAM_COMM, b[1], b[2]);
    /* Insert before the second step: its input now goes through another stream and another buffer. */
    zr__list_seek(&l, second);
    zr__id between = put(&l, ZR_STREAM_COMM, b[0], b[3]);
    zr__list_seek(&l, ZR_NONE);
    l.use[l.step[second].uses].buffer = b[3];
    zr__id last = put(&l, ZR_STREAM_COMPUTE, b[2], b[0]);
    zr__list_use(&l, first, zr__use_all(plan->loss, true, true)); /* uses added later still belong to the older step */
    assert_int_equal(l.last[ZR_STREAM_COMM], third);
    assert_int_equal(l.last[ZR_STREAM_COMPUTE], last);
    assert_int_equal(zr__list_finish(&l), ZR_OK);

    /* first, between, second, third, last */
    assert_int_equal(s->n_steps, 5);
    const int streams[] = {ZR_STREAM_COMPUTE, ZR_STREAM_COMM, ZR_STREAM_COMPUTE, ZR_STREAM_COMM, ZR_STREAM_COMPUTE};
    const int reads[] = {ZR_NONE, b[0], b[3], b[1], b[2]}, writes[] = {b[0], b[3], b[1], b[2], b[0]};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(s->step[i].stream, streams[i]);
        assert_int_equal(s->use[s->step[i].uses].buffer, reads[i]);
        assert_int_equal(s->use[s->step[i].uses + 1].buffer, writes[i]);
        assert_int_equal(s->step[i].n_uses, i == 0 ? 3 : 2);
        /* Each step but the first reads from the other stream, where the step before it wrote. */
        assert_int_equal(s->step[i].n_waits, i > 0);
        if (i > 0) assert_int_equal(s->wait[s->step[i].waits].step, i - 1);
    }
    assert_int_equal(s->buffer[b[3]].first_step, 1);
    assert_int_equal(s->buffer[b[3]].last_step, 2);
    assert_int_equal(s->buffer[b[0]].last_step, 4);
    assert_true(between != first && between != last);
    zr__list_end(&l);
    zr_plan_destroy(&plan);
}

/* Check that the first step above the limit is refused, and that later steps are dropped. */
static void test_most_steps(void **state)
{
    (void)state;
    zr_plan *plan = bare_plan();
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_FLUSH];
    zr__list l;
    assert_int_equal(zr__list_begin(&l, plan, NULL, s), ZR_OK);
    for (int32_t i = 0; i < ZR__STEPS_MAX; i++) zr__list_step(&l, ZR_STEP_COPY, ZR_STREAM_COMPUTE, -1);
    assert_int_equal(l.status, ZR_OK);
    assert_int_equal(l.n, ZR__STEPS_MAX);
    assert_int_equal(zr__list_step(&l, ZR_STEP_COPY, ZR_STREAM_COMPUTE, -1), ZR_NONE);
    assert_int_equal(zr__list_finish(&l), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "more than 1048576 steps"));
    zr__list_end(&l);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_edits), cmocka_unit_test(test_most_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
