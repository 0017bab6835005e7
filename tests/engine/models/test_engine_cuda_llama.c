//TEST timeout=300 long=more seeds=200
//STAND_IN
/* Models of the Llama kind on GPUs, on the stand-in of tests/cuda: the losses of the processor, the same bits at every
 * stage, and exactly the planned memory (trainer.h). */
#include "device/device.h"
#include "support/long.h"
#include "engine/trainer.h"

#include <math.h>

/* A Llama with scaled positions and an untied head, and a Qwen3 with a window, norms of heads and a tied head. */
static const zr_llama_config llama = {.num_hidden_layers = 2,
                                      .num_attention_heads = 4,
                                      .num_key_value_heads = 2,
                                      .head_dim = 6,
                                      .hidden_size = 26,
                                      .intermediate_size = 38,
                                      .max_position_embeddings = 17,
                                      .vocab_size = 131,
                                      .rms_norm_eps = 1e-5,
                                      .initializer_range = 0.02,
                                      .rotary = {.kind = ZR_ROTARY_LLAMA3,
                                                 .width = 6,
                                                 .theta = 10000,
                                                 .factor = 4,
                                                 .original = 8,
                                                 .low_freq_factor = 1,
                                                 .high_freq_factor = 4}},
                             qwen3 = {.num_hidden_layers = 3,
                                      .num_attention_heads = 6,
                                      .num_key_value_heads = 2,
                                      .head_dim = 10,
                                      .hidden_size = 22,
                                      .intermediate_size = 34,
                                      .max_position_embeddings = 17,
                                      .vocab_size = 131,
                                      .rms_norm_eps = 1e-6,
                                      .initializer_range = 0.02,
                                      .sliding_window = 5,
                                      .max_window_layers = 1,
                                      .rotary = {.width = 10, .theta = 1000000, .factor = 1},
                                      .tie_word_embeddings = true,
                                      .qk_norm = true};

/* A layout besides the default. */
typedef struct way {
    int stage, ranks, tensor;
    zr_recompute recompute;
    zr_states states;
    bool documents; /* whether rows hold several documents */
} way;

static const way ways[] = {
    {3, 2, 1, ZR_RECOMPUTE_UNIT, ZR_STATES_LEAN, false},
    {1, 1, 2, ZR_RECOMPUTE_NONE, ZR_STATES_PAPER, true},
    {2, 2, 2, ZR_RECOMPUTE_UNIT, ZR_STATES_PAPER, false},
};

/* Fill rows in which documents begin at tokens 3 and 8, or in every second row one later. */
static zr_status documents_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    int32_t *begin = input[2];
    for (int64_t b = 0; b < run->layout.batch; b++)
        for (int64_t t = 0; t < run->layout.seq; t++) {
            const int64_t later = (batch->first_row + b) % 2;
            *begin++ = (int32_t)(t < 3 + later ? 0 : t < 8 + later ? 3 + later : 8 + later);
        }
    return trainer_batch(arg, batch, input);
}

static trainer start(const zr_model *model, zr_dtype dtype, const way *w)
{
    trainer run = trainer_odd();
    run.model = model;
    run.steps = is_long_run() ? 6 : 2;
    run.layout.batch = 2 / w->ranks;
    run.layout.seq = is_long_run() ? 17 : 11;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.norm_first = true;
    run.layout.stage = w->stage;
    run.layout.ranks = w->ranks;
    run.layout.tensor = w->tensor;
    run.layout.recompute = w->recompute;
    run.layout.states = w->states;
    run.layout.documents = w->documents;
    if (w->documents) run.batch = documents_batch;
    return run;
}

/* Check that the losses on GPUs equal the processor's losses in the same layout. A short run takes every second layout,
 * beginning with number `turn`. */
static void check_losses(const zr_model *model, zr_dtype dtype, double bound, size_t turn)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if ((!is_long_run() && (i + turn) % 2) || !is_in_run()) continue;
        trainer want = start(model, dtype, &ways[i]), got = want;
        got.device = zr_device_create_cuda;
        trainer_run(&want);
        trainer_run(&got);
        for (int s = 0; s < want.steps; s++)
            if (!(fabs(got.loss[s] - want.loss[s]) <= bound * want.loss[s]))
                fail_msg("%s, layout %zu, step %d: loss %.9g, the processor's %.9g", zr_dtype_name(dtype), i, s,
                         got.loss[s], want.loss[s]);
        assert_memory_equal(&got.planned, &got.measured.memory, sizeof got.planned);
    }
}

static void against_the_processor(void **state)
{
    (void)state;
    const zr_llama_config *const models[] = {&llama, &qwen3};
    for (int m = 0; m < 2; m++) {
        const zr_model model = zr_llama(models[m]);
        check_losses(&model, ZR_F32, 2e-5, (size_t)m);
        check_losses(&model, ZR_BF16, 2e-2, (size_t)m + 1);
    }
}

/* Check that all stages have the same bits. */
static void stages(void **state)
{
    (void)state;
    const zr_model model = zr_llama(&qwen3);
    for (int tensor = 1; tensor <= 2; tensor++) {
        if (!is_in_run()) continue;
        const way w = {0, 2, tensor, ZR_RECOMPUTE_NONE, ZR_STATES_PAPER, tensor > 1};
        trainer want = start(&model, ZR_BF16, &w);
        want.device = zr_device_create_cuda;
        trainer_run(&want);
        for (int stage = is_long_run() ? 1 : 2 * tensor - 1; stage <= 3; stage += is_long_run() ? 1 : 2) {
            trainer run = want;
            run.layout.stage = stage;
            trainer_run(&run);
            assert_memory_equal(run.loss, want.loss, sizeof(double) * (size_t)want.steps);
            assert_true(run.weights == want.weights);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_the_processor), cmocka_unit_test(stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
