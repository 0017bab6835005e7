//TEST timeout=120 tsan=1
/* Tensor parallelism: the same model on M ranks a layer, at every stage. Losses are those of one rank but for rounding,
 * and within one degree the same to the last bit. */
#include "trainer.h"

#include <math.h>

static trainer small(int tensor, int ranks, int stage)
{
    trainer run = trainer_small(NULL, 2, 12);
    run.config = (zr_gpt2_config){.n_layer = 2,
                                  .n_head = 4,
                                  .n_embd = 32,
                                  .n_positions = 16,
                                  .vocab_size = 61, /* padded to 62, to 64 */
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.3,
                                  .attn_pdrop = 0.1,
                                  .resid_pdrop = 0.1,
                                  .embd_pdrop = 0.1};
    run.layout.tensor = tensor;
    run.layout.ranks = ranks;
    run.layout.stage = stage;
    run.layout.batch = 4 / ranks;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 1000;
    run.steps = 4;
    return run;
}

/* Initial values are those of the whole model, whoever has them, and whole tensors are read. */
static void initial_values_are_the_whole_models(void **state)
{
    (void)state;
    trainer one = small(1, 1, 0);
    one.steps = 0;
    trainer_run(&one);
    assert_true(one.weights != 0);
    for (int tensor = 1; tensor <= 4; tensor *= 2)
        for (int ranks = 1; ranks <= 2; ranks++) {
            trainer run = small(tensor, ranks, 3);
            run.steps = 0;
            trainer_run(&run);
            assert_true(run.weights == one.weights);
        }
}

static void close_to(double have, double want, double relative)
{
    if (!(fabs(have - want) <= relative * fabs(want))) fail_msg("%.9g, wanted %.9g within %g", have, want, relative);
}

static void losses_are_those_of_one_rank(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        trainer one = small(1, ranks, 0);
        trainer_run(&one);
        for (int tensor = 2; tensor <= 4; tensor *= 2) {
            trainer first = small(tensor, ranks, 0);
            trainer_run(&first);
            for (int i = 0; i < first.steps; i++) {
                close_to(first.loss[i], one.loss[i], 2e-5);
                close_to(first.norm[i], one.norm[i], 1e-4);
            }
            for (int stage = 0; stage <= 3; stage++)
                for (int recompute = 0; recompute < 3; recompute++) {
                    trainer run = small(tensor, ranks, stage);
                    run.layout.recompute = (zr_recompute)recompute;
                    run.layout.states = stage % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                    run.layout.norm_first = true;
                    run.layout.reduce_bucket_elems = 700;
                    trainer_run(&run);
                    for (int i = 0; i < run.steps; i++) {
                        assert_true(run.loss[i] == first.loss[i]);
                        assert_true(run.norm[i] == first.norm[i]);
                    }
                    assert_true(run.weights == first.weights);
                }
        }
    }
}

/* Each way to keep and move states, against the same on one rank a layer. */
static void every_layout_trains(void **state)
{
    (void)state;
    for (int way = 0; way < 7; way++) {
        trainer run[2];
        for (int k = 0; k < 2; k++) {
            zr_layout *l = &run[k].layout;
            run[k] = small(k ? 2 : 1, 2, 3);
            l->states = way < 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            l->norm_first = l->two_pass = way == 1;
            l->any_ranks = way == 2;
            if (way == 3) l->dtype = l->wire_dtype = ZR_BF16;
            if (way == 4) l->recompute = ZR_RECOMPUTE_UNIT;
            l->offload_checkpoints = way == 4;
            l->fused_buffer = way == 5;
            if (way == 6) l->reduce = ZR_REDUCE_TO_OWNER;
            if (way == 6) l->gather = ZR_GATHER_BROADCAST;
            l->accum = way == 2 ? 2 : 1;
            l->batch = way == 2 ? 1 : 2;
            run[k].clip = way == 0 ? 0 : 1;
            trainer_run(&run[k]);
        }
        const double loss = way == 3 ? 2e-2 : 2e-5, norm = way == 3 ? 5e-2 : 1e-4; /* 8 bits, rounded elsewhere */
        for (int i = 0; i < run[0].steps; i++) {
            close_to(run[1].loss[i], run[0].loss[i], loss);
            close_to(run[1].norm[i], run[0].norm[i], norm);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values_are_the_whole_models),
        cmocka_unit_test(losses_are_those_of_one_rank),
        cmocka_unit_test(every_layout_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
