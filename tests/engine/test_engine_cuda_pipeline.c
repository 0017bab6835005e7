//TEST timeout=100 long=more seeds=50
//STAND_IN
/* Pipelines of thread ranks with GPUs, on the stand-in of tests/cuda: losses, norms and weights have the bits of one
 * pipeline rank. Each run also compares planned with measured memory and traffic on every rank (trainer.h), and the
 * recorder proves the order of all accesses. */
#include "engine/layout_variants.h"
#include "support/long.h"

/* Return a trainer of one pipeline rank. It has few numbers, because the stand-in's kernels are slow. */
static trainer small(int ranks, int stage)
{
    trainer want = layout_trainer(ranks, ZR_F32, 4, 0.5);
    want.config.n_layer = 3;
    want.config.n_head = 1;
    want.config.n_embd = 15;
    want.config.vocab_size = 37;
    want.layout.stage = stage;
    want.layout.batch = 1;
    want.layout.seq = 5;
    want.layout.eval = false;
    want.steps = 2;
    want.device = zr_device_create_cuda;
    return want;
}

static void compare(const trainer *want, int P, zr_pipe_schedule schedule, bool overlap)
{
    trainer got = *want;
    got.layout.pipeline = P;
    got.layout.chunks = schedule == ZR_PIPELINE_BREADTH || schedule == ZR_PIPELINE_ZB_V ? 2 : 1;
    got.layout.pipeline_schedule = schedule;
    got.layout.overlap = overlap;
    got.layout.tied_apart = P == 3;
    trainer_run(&got);
    layout_assert_same(want, &got, "a pipeline on GPUs");
}

/* Check two schedules at two stages, one of them with two data-parallel ranks, and messages that share the queue of
 * computation. With three pipeline ranks the tied table is on two of them. */
static void schedules(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage += is_long_run() ? 1 : 2) {
        trainer want = small(1 + stage / 2, stage);
        trainer_run(&want);
        compare(&want, 2, stage == 0 ? ZR_PIPELINE_ZB_V : ZR_PIPELINE_BREADTH, true);
        compare(&want, 3, stage == 0 ? ZR_PIPELINE_1F1B : ZR_PIPELINE_GPIPE, stage > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
