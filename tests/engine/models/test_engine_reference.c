//TEST timeout=120 tsan=1
/* Engines against the double-precision interpreter at sizes without common divisors: width 57, 3 heads, 131 tokens;
 * losses, gradients and their norm on 1, 3 and 6 ranks, every stage, with dropout. */
#include "engine/engine_truth.h"

static void test_odd_sizes(void **state)
{
    (void)state;
    for (int dropout = 0; dropout <= 1; dropout++) {
        trainer run = trainer_odd();
        run.steps = 1;
        if (dropout) run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0.15;
        static const truth_cut cut[] = {{1, 1, 6}, {1, 3, 2}, {3, 1, 2}, {3, 2, 1}, {6, 1, 1}};
        truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_odd_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
