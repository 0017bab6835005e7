//TEST timeout=300 long=more seeds=200
//STAND_IN
/* BERT on GPUs, on the stand-in of tests/cuda: rows of several samples with dropout and LAMB. The losses of both terms
 * are the processor's, all stages and homes of states give the same bits, and memory is exactly as planned
 * (trainer.h). */
#include "device/device.h"
#include "support/long.h"
#include "engine/bert_rows.h"

#include <math.h>

/* ---- runs -------------------------------------------------------------------------------------- */

/* A layout besides the default. */
typedef struct way {
    int stage, ranks, tensor;
    int64_t accum;
    zr_recompute recompute;
    zr_states states;
    zr_sequence sequence;
    zr_space optim; /* home of optimizer states */
} way;

/* Return a trainer with four rows in a step. */
static trainer start(const zr_model *model, zr_dtype dtype, const way *w)
{
    trainer run = {.model = model,
                   .layout = zr_layout_default(),
                   .steps = is_long_run() ? 6 : 2,
                   .lr = 1e-2,
                   .clip = 0.5,
                   .seed = 5,
                   .batch = bert_batch,
                   .count = bert_count};
    run.layout.batch = 4 / w->ranks / w->accum;
    run.layout.accum = w->accum;
    run.layout.seq = is_long_run() ? 24 : 12;
    run.layout.documents = true;
    run.layout.predictions = BERT_PREDICTIONS;
    run.layout.samples = BERT_SAMPLES;
    run.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.norm_first = true;
    run.layout.stage = w->stage;
    run.layout.ranks = w->ranks;
    run.layout.tensor = w->tensor;
    run.layout.recompute = w->recompute;
    run.layout.states = w->states;
    run.layout.sequence = w->sequence;
    run.layout.home.optim = w->optim;
    if (dtype == ZR_F16) run.scaler.scale = 4096; /* a fixed loss scale */
    return run;
}

static void assert_near(const trainer *run, const char *what, int step, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound * fabs(want)))
        fail_msg("%s in %s at stage %d, tensor %d, step %d: %s %.9g, the processor's %.9g", trainer_model(run).name,
                 zr_dtype_name(run->layout.dtype), run->layout.stage, run->layout.tensor, step, what, got, want);
}

/* Compare losses and gradient norms of GPUs with those of the processor, in the same layout. */
static void check_losses(const zr_model *model, zr_dtype dtype, const way *w, double bound)
{
    trainer want = start(model, dtype, w), got = want;
    got.device = zr_device_create_cuda;
    trainer_run(&want);
    trainer_run(&got);
    for (int s = 0; s < want.steps; s++) {
        assert_near(&got, "loss", s, got.loss[s], want.loss[s], bound);
        assert_near(&got, "norm", s, got.norm[s], want.norm[s], 5 * bound);
        for (int t = 0; t < 2; t++) {
            assert_near(&got, "loss of a term", s, got.term[s][t].loss, want.term[s][t].loss, bound);
            assert_int_equal(got.term[s][t].counted, want.term[s][t].counted);
        }
    }
}

static const way plain = {0, 1, 1, 1, ZR_RECOMPUTE_NONE, ZR_STATES_PAPER, ZR_SEQUENCE_OFF, ZR_SPACE_DEVICE};
static const way ways[] = {
    {3, 2, 1, 2, ZR_RECOMPUTE_UNIT, ZR_STATES_LEAN, ZR_SEQUENCE_OFF, ZR_SPACE_DEVICE},
    {1, 1, 2, 1, ZR_RECOMPUTE_NONE, ZR_STATES_PAPER, ZR_SEQUENCE_OFF, ZR_SPACE_DEVICE},
    {2, 1, 2, 1, ZR_RECOMPUTE_UNIT, ZR_STATES_PAPER, ZR_SEQUENCE_KEEP, ZR_SPACE_HOST},
    {2, 2, 1, 1, ZR_RECOMPUTE_SELECTIVE, ZR_STATES_LEAN, ZR_SEQUENCE_OFF, ZR_SPACE_HOST},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void against_the_processor(void **state)
{
    (void)state;
    static const zr_dtype types[] = {ZR_F32, ZR_BF16, ZR_F16};
    static const double bound[] = {2e-5, 2e-2, 5e-3};
    const zr_bert_config *const configs[] = {&bert_post, &bert_pre};
    for (int m = 0; m < 2; m++) {
        const zr_model model = zr_bert(configs[m]);
        for (int i = 0; i < WAYS; i++)
            for (int t = 0; t < 3; t++)
                if ((is_long_run() || (t == i % 3 && m == i % 2)) && is_in_run())
                    check_losses(&model, types[t], &ways[i], bound[t]);
    }
}

/* Check that all stages, and all homes of states, have the same bits. */
static void stages(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        if (!is_in_run()) continue;
        const zr_model model = zr_bert(m ? &bert_pre : &bert_post);
        way w = plain;
        w.ranks = 2, w.tensor = 1 + m;
        trainer want = start(&model, m ? ZR_BF16 : ZR_F16, &w);
        want.device = zr_device_create_cuda;
        trainer_run(&want);
        for (int stage = 1; stage <= 3; stage += is_long_run() ? 1 : 1 + m) {
            trainer run = want;
            run.layout.stage = stage;
            if (stage == 2) run.layout.home.optim = ZR_SPACE_HOST;
            if (stage == 3) run.layout.recompute = ZR_RECOMPUTE_UNIT, run.layout.states = ZR_STATES_LEAN;
            trainer_run(&run);
            assert_memory_equal(run.loss, want.loss, sizeof(double) * (size_t)want.steps);
            assert_memory_equal(run.norm, want.norm, sizeof(double) * (size_t)want.steps);
            assert_true(run.weights == want.weights);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_the_processor), cmocka_unit_test(stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
