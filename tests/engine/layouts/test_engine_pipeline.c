//TEST timeout=200 tsan=1
/* Pipelines: losses, norms and weights have the bits of one pipeline rank, in every schedule and at every stage. Each run
 * also compares planned with measured memory and traffic on every rank (trainer.h). */
#include "engine/layout_variants.h"
#include "support/long.h"

#include <string.h>

static void every_schedule(void **state)
{
    (void)state;
    for (int P = 2; P <= 3; P++)
        for (int stage = 0; stage <= 3; stage++) {
            trainer want = layout_trainer(stage % 2 + 1, stage == 1 ? ZR_F32 : ZR_BF16, 2 * P, 0.5);
            want.config.n_layer = 5;
            want.layout.stage = stage;
            want.steps = 2;
            trainer_run(&want);
            for (int s = 0; s < ZR_PIPELINE_TABLE; s++) {
                const bool chunks = s == ZR_PIPELINE_INTERLEAVED || s == ZR_PIPELINE_BREADTH || s == ZR_PIPELINE_ZB_V;
                trainer got = want;
                got.layout.eval = false; /* it is not run here, and may need more gathered parameters */
                got.layout.pipeline = P;
                got.layout.chunks = chunks ? 2 : 1;
                got.layout.pipeline_schedule = (zr_pipeline)s;
                got.layout.recompute = (s + stage) % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
                trainer_run(&got);
                layout_assert_same(&want, &got, "a pipeline");
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
