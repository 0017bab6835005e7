/* The time limits of a rank in each phase. test_cli_hang.sh tests the messages about ranks that exceed them. */
#include "train/watch/hang.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static double limit_after(int64_t given_sec, int64_t steps, double slowest_sec, zr__phase phase)
{
    zr__hang h = {.given_sec = given_sec, .n_steps = steps, .lock = PTHREAD_MUTEX_INITIALIZER};
    h.last_sec[3] = slowest_sec;
    return limit_of(&h, phase);
}

/* Check the limits: the given time, or ten times the slowest of the last steps and at least a minute. */
static void limits(void **state)
{
    (void)state;
    static const int times[ZR__PHASES] = {5, 1, 5,
                                          2, 5, 5}; /* start, step, step that saves too, evaluation, save, end */
    for (int p = 0; p < ZR__PHASES; p++) {
        assert_true(limit_after(7, 0, 0, (zr__phase)p) == 7 * times[p]);
        assert_true(limit_after(7, 9, 100, (zr__phase)p) == 7 * times[p]);
        assert_true(limit_after(0, 9, 1, (zr__phase)p) == 60 * times[p]);
        assert_true(limit_after(0, 9, 100, (zr__phase)p) == 1000 * times[p]);
    }
}

/* Check that the first step has the limit of the start phase, because no step has been timed yet. */
static void first_step(void **state)
{
    (void)state;
    assert_true(limit_after(0, 0, 0, ZR__PHASE_TRAIN) == 300);
    assert_true(limit_after(0, 1, 2, ZR__PHASE_TRAIN) == 60);
    assert_true(limit_after(7, 0, 0, ZR__PHASE_TRAIN) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits), cmocka_unit_test(first_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
