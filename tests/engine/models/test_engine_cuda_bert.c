//TEST timeout=300 long=more seeds=200
//STAND_IN
/* BERT on GPUs, on the stand-in of tests/cuda: rows of several samples with dropout and LAMB. The losses of both terms
 * are the processor's, all stages and homes of states give the same bits, and memory is exactly as planned
 * (trainer.h). */
#include "device/device.h"
#include "support/long.h"
#include "engine/trainer.h"

#include <math.h>

enum { VOCABULARY = 131, PREDICTIONS = 5, SAMPLES = 3 };

static const zr_bert_config post = {.num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .hidden_size = 22,
                                    .intermediate_size = 38,
                                    .max_position_embeddings = 24,
                                    .vocab_size = VOCABULARY,
                                    .type_vocab_size = 2,
                                    .hidden_dropout_prob = 0.1,
                                    .attention_probs_dropout_prob = 0.1,
                                    .layer_norm_eps = 1e-12,
                                    .initializer_range = 0.02},
                            pre = {.num_hidden_layers = 2,
                                   .num_attention_heads = 6,
                                   .hidden_size = 30,
                                   .intermediate_size = 42,
                                   .max_position_embeddings = 24,
                                   .vocab_size = VOCABULARY,
                                   .type_vocab_size = 2,
                                   .hidden_dropout_prob = 0.1,
                                   .attention_probs_dropout_prob = 0.1,
                                   .layer_norm_eps = 1e-12,
                                   .initializer_range = 0.02,
                                   .pre_layer_norm = true};

/* ---- rows -------------------------------------------------------------------------------------- */

static uint32_t draw(int64_t step, int64_t row, int64_t t)
{
    const zr_rng rng = {.seed = 9, .purpose = ZR_RNG_SHUFFLE, .stream = 3, .step = (uint32_t)step};
    return zr_rng_u32(&rng, (uint64_t)(row * 4096 + t));
}

/* Return the number of samples of a row. Every third row is full, and the next one is padding alone. */
static int64_t samples_of(int64_t row)
{
    return row % 3 == 0 ? SAMPLES : row % 3 == 1 ? 0 : 1 + row / 3 % 2;
}

/* Return the first token of sample i of a row; of the sample after the last, the first token of the padding. */
static int64_t begin_of(const trainer *run, int64_t row, int64_t i)
{
    const int64_t n = samples_of(row), T = run->layout.seq, used = n == SAMPLES ? T : n * (T / SAMPLES) + row % 2;
    return i < n ? i * (T / SAMPLES) : n == 0 ? 0 : used;
}

/* Return whether a token is predicted: its sample's third token and, where it has five, the last but one. */
static bool is_predicted(int64_t t, int64_t begin, int64_t end)
{
    return t == begin + 2 || (end - begin > 4 && t == end - 2);
}

static void fill_row(const trainer *run, int64_t step, int64_t row, int32_t *const in[7])
{
    const int64_t T = run->layout.seq, n = samples_of(row);
    int64_t predicted = 0;
    for (int64_t i = 0; i <= n; i++) {
        const int64_t begin = begin_of(run, row, i), end = i < n ? begin_of(run, row, i + 1) : T;
        if (i < n) in[4][i] = (int32_t)begin, in[5][i] = (int32_t)(draw(step, row, T + i) % 2);
        for (int64_t t = begin; t < end; t++) {
            in[0][t] = i < n ? (int32_t)(draw(step, row, t) % VOCABULARY) : 0;
            in[1][t] = i < n && 2 * (t - begin) > end - begin;
            in[6][t] = (int32_t)begin;
            if (i == n || predicted == PREDICTIONS || !is_predicted(t, begin, end)) continue;
            in[2][predicted] = (int32_t)t;
            in[3][predicted++] = (int32_t)(draw(step, row, 2 * T + t) % VOCABULARY);
        }
    }
    for (int64_t k = predicted; k < PREDICTIONS; k++) in[2][k] = 0, in[3][k] = -1;
    for (int64_t k = n; k < SAMPLES; k++) in[4][k] = 0, in[5][k] = -1;
}

static zr_status fill_rows(const trainer *run, const zr_batch *batch, void *const *input)
{
    const int64_t T = run->layout.seq, width[7] = {T, T, PREDICTIONS, PREDICTIONS, SAMPLES, SAMPLES, T};
    int32_t spare[7][32], *in[7];
    for (int64_t b = 0; b < run->layout.batch; b++) {
        for (int i = 0; i < 7; i++) in[i] = input ? (int32_t *)input[i] + b * width[i] : spare[i];
        fill_row(run, batch->step, batch->first_row + b, in);
        for (int64_t k = 0; k < PREDICTIONS; k++) batch->counted[0] -= in[3][k] < 0;
        for (int64_t k = 0; k < SAMPLES; k++) batch->counted[1] -= in[5][k] < 0;
    }
    return ZR_OK;
}

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    return fill_rows(arg, batch, input);
}

static zr_status count_batch(void *arg, const zr_batch *batch)
{
    return fill_rows(arg, batch, NULL);
}

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
                   .batch = fill_batch,
                   .count = count_batch};
    run.layout.batch = 4 / w->ranks / w->accum;
    run.layout.accum = w->accum;
    run.layout.seq = is_long_run() ? 24 : 12;
    run.layout.documents = true;
    run.layout.predictions = PREDICTIONS;
    run.layout.samples = SAMPLES;
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
    const zr_bert_config *const configs[] = {&post, &pre};
    for (int m = 0; m < 2; m++) {
        const zr_model model = zr_bert(configs[m]);
        for (int i = 0; i < WAYS; i++)
            for (int t = 0; t < 3; t++)
                if ((is_long_run() || (i + t + m) % 3 == 0) && is_in_run())
                    check_losses(&model, types[t], &ways[i], bound[t]);
    }
}

/* Check that all stages, and all homes of states, have the same bits. */
static void stages(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        if (!is_in_run()) continue;
        const zr_model model = zr_bert(m ? &pre : &post);
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
