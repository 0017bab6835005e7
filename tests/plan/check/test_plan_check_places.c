//TEST timeout=60
/* The proof of the memory map finds a packer that forgets the lifetime of one buffer, whichever buffer it is. */
#include "plan/plan_ways.h"

static bool alive_together(const zr_buffer *x, const zr_buffer *y)
{
    return x->first_step <= y->last_step && y->first_step <= x->last_step;
}

static bool share_bytes(const zr_buffer *x, int64_t offset, const zr_buffer *y)
{
    return x->space == y->space && offset < y->offset + y->bytes && y->offset < offset + x->bytes;
}

/* Return the lowest offset at which buffer x overlaps no buffer that is alive at the same time, except the forgotten
 * one. */
static int64_t lowest_without(const zr_plan *plan, const zr_schedule *s, int32_t x, int32_t forgotten)
{
    const zr_buffer *buffer = s->buffer;
    int64_t offset = plan->persistent_bytes[buffer[x].space];
    for (int32_t b = plan->n_persistent; b < s->n_buffers; b++) {
        if (b == x || b == forgotten || !alive_together(&buffer[x], &buffer[b]) ||
            !share_bytes(&buffer[x], offset, &buffer[b]))
            continue;
        offset = buffer[b].offset + buffer[b].bytes;
        b = plan->n_persistent - 1; /* at this offset x may overlap other buffers */
    }
    return offset;
}

/* Move buffer x to an offset where it shares bytes with y, which is alive with it, and check that the proof refuses the
 * plan. */
static void expect_refused(const zr_plan *plan, zr_buffer *x, int64_t offset, const zr_buffer *y)
{
    const int64_t kept = x->offset;
    x->offset = offset;
    if (zr_plan_check(plan) == ZR_OK)
        fail_msg("%s, of steps %d to %d, in the place of %s, of %d to %d, was not noticed", x->what, x->first_step,
                 x->last_step, y->what, y->first_step, y->last_step);
    if (!strstr(zr_error_message(), "share bytes")) fail_msg("\"%s\"", zr_error_message());
    x->offset = kept;
}

/* Pack as if one buffer's lifetime were forgotten: that buffer moves to the lowest free offset, and each other buffer
 * may move onto it. Check that the proof refuses each move onto a buffer that is alive, and return the number of such
 * moves. */
static int forget(const zr_plan *plan, const zr_schedule *s, int32_t forgotten)
{
    int tried = 0;
    zr_buffer *x = &s->buffer[forgotten];
    const int64_t bottom = plan->persistent_bytes[x->space];
    bool met = false;
    for (int32_t b = plan->n_persistent; b < s->n_buffers; b++) {
        zr_buffer *y = &s->buffer[b];
        if (b == forgotten || y->space != x->space || !alive_together(x, y)) continue;
        if (!met && share_bytes(x, bottom, y)) {
            expect_refused(plan, x, bottom, y);
            met = true;
            tried++;
        }
        const int64_t offset = lowest_without(plan, s, b, forgotten);
        if (!share_bytes(y, offset, x)) continue;
        expect_refused(plan, y, offset, x);
        tried++;
    }
    return tried;
}

static void test_forgotten_lifetimes(void **state)
{
    (void)state;
    for (int i = 0; i < MIXED; i++) {
        const zr_layout l = mixed_layout(i);
        zr_plan *plan = plan_of(&l);
        int32_t buffers = 0,
                mattered = 0; /* at the place of a few buffers no other buffer ever lies, forgotten or not */
        for (int k = 0; k < ZR_SCHEDULES; k++)
            for (int32_t b = plan->n_persistent; b < plan->schedule[k].n_buffers; b++) {
                mattered += forget(plan, &plan->schedule[k], b) > 0;
                buffers++;
            }
        assert_true(2 * mattered > buffers);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgotten_lifetimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
