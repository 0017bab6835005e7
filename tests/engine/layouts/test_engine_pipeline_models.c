//TEST timeout=200 tsan=1 long=more
/* Pipelines of other models: with frozen parts, adapters, rows of several documents, several loss terms, encoders. With
 * states and checkpoints in host memory or on disk, with saves and evaluations, they have the bits of one pipeline
 * rank. Each run compares planned with measured bytes on every rank (trainer.h). */
#include "engine/bert_rows.h"
#include "engine/layout_variants.h"
#include "engine/terms_model.h"
#include "support/long.h"
#include "base/number/exact.h"

#include <string.h>

/* ---- models ------------------------------------------------------------------------------------ */

enum { PLAIN, FROZEN, ADAPTED, DOCUMENTS, ROTARY, TERMS, ENCODER, MODELS };

static const zr_llama_config llama = {.num_hidden_layers = 8,
                                      .num_attention_heads = 4,
                                      .num_key_value_heads = 2,
                                      .head_dim = 8,
                                      .hidden_size = 24,
                                      .intermediate_size = 40,
                                      .max_position_embeddings = 17,
                                      .vocab_size = 131,
                                      .rms_norm_eps = 1e-5,
                                      .initializer_range = 0.1,
                                      .rotary = {.width = 8, .theta = 10000, .factor = 1}};

/* Fill rows of documents of five tokens, the first shorter. The last token of a document has no target. */
static zr_status documents_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    const int64_t T = run->layout.seq;
    ZR_TRY(trainer_batch(arg, batch, input));
    for (int64_t i = 0; i < run->layout.batch * T; i++) {
        const int64_t t = i % T, cut = (batch->first_row + i / T) % 5;
        const bool last = t % 5 == cut && t + 1 < T;
        ((int32_t *)input[2])[i] = (int32_t)(t <= cut ? 0 : cut + 1 + (t - cut - 1) / 5 * 5);
        if (last) ((int32_t *)input[1])[i] = -1;
        *batch->counted -= last;
    }
    return ZR_OK;
}

/* Let a run train a model. `model` is filled, and refers to `bert`. */
static void take_model(trainer *run, int which, int variant, zr_model *model, zr_bert_config *bert)
{
    static const char *const frozen[] = {"wpe.*\n*.ln_[12].*\nh.2.*\nh.1.mlp.c_fc.weight", "w?e.*\nh.[01].*",
                                         "w?e.*\nh.*"};
    static const terms_config terms[] = {{2}, {3}};
    *bert = variant % 2 ? bert_pre : bert_post;
    bert->num_hidden_layers = run->config.n_layer;
    *model = which == ROTARY    ? zr_llama(&llama)
             : which == ENCODER ? zr_bert(bert)
             : which == TERMS   ? (zr_model){.name = "terms", .build = terms_build, .config = &terms[variant % 2]}
                                : zr_gpt2(&run->config);
    if (which == FROZEN) model->frozen = frozen[variant];
    if (which == ADAPTED || (which == ROTARY && variant == 0))
        model->lora = (zr_lora){.rank = 3, .alpha = 8, .dropout = 0.1};
    run->model = model;
    run->layout.documents = which == DOCUMENTS || which == ENCODER || (which == ROTARY && variant > 0);
    if (run->layout.documents) run->batch = documents_batch;
    if (which == TERMS) run->batch = terms_batch, run->count = terms_count;
    if (which != ENCODER) return;
    run->batch = bert_batch;
    run->count = bert_count;
    run->layout.predictions = BERT_PREDICTIONS;
    run->layout.samples = BERT_SAMPLES;
}

/* ---- runs -------------------------------------------------------------------------------------- */

/* The losses of an evaluation, by rank, and by term. */
typedef struct evaluated {
    zr_exact sum[16][ZR_LOSS_TERMS];
} evaluated;

static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    evaluated *to = run->arg;
    const zr_layout *l = &run->layout;
    const zr_batch batch = {.step = 5, .first_row = comm->rank % l->ranks * l->batch};
    return zr_engine_eval(engine, &batch, run->batch ? run->batch : trainer_batch, run, to->sum[comm->rank]);
}

static double evaluated_loss(const evaluated *of, int term)
{
    zr_exact sum = {0};
    for (int r = 0; r < 16; r++) zr__exact_merge(&sum, &of->sum[r][term]);
    return zr__exact_value(&sum);
}

static uint32_t drawn;

static int draw(int n)
{
    const zr_rng rng = {.seed = 23, .purpose = ZR_RNG_SHUFFLE};
    return (int)(zr_rng_u32(&rng, drawn++) % (uint32_t)n);
}

static zr_space draw_space(void)
{
    const zr_space spaces[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_DISK};
    return spaces[draw(3)];
}

/* Draw a pipeline of up to `most` ranks, and how it keeps, moves, recomputes and saves. */
static void draw_layout(trainer *run, int most)
{
    zr_layout *l = &run->layout;
    const zr_pipe_schedule way = (zr_pipe_schedule)draw(ZR_PIPELINE_ZB_V + 1);
    l->pipeline_schedule = way;
    l->chunks = way == ZR_PIPELINE_INTERLEAVED || way == ZR_PIPELINE_BREADTH || way == ZR_PIPELINE_ZB_V ? 2 : 1;
    l->pipeline = 2 + draw(most - 1);
    l->accum = way == ZR_PIPELINE_INTERLEAVED ? l->pipeline * (1 + draw(2))
               : way == ZR_PIPELINE_ZB_V      ? 2 * l->pipeline + draw(2)
                                              : 1 + draw(7);
    run->config.n_layer = l->pipeline * l->chunks + draw(2);
    l->states = draw(2) ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    l->recompute = (zr_recompute[]){ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT}[draw(3)];
    l->recompute_every = 1 + draw(2);
    l->reduce_bucket_elems = l->gather_bucket_elems = draw(2) ? 700 : 1 << 20;
    l->home.optim = draw_space();
    l->home.grad = draw(2) ? draw_space() : ZR_SPACE_DEVICE;
    l->home.param = l->stage == 3 && draw(2) ? draw_space() : ZR_SPACE_DEVICE;
    l->home.optim_share = l->home.param_share = draw(2) ? 1 : 0.5;
    l->home.bucket_elems = draw(2) ? 0 : 1024;
    l->home.buckets = draw(2) ? 0 : 2;
    l->home.block_bytes = ZR_DISK_ALIGN;
    l->home.depth = 2;
    const bool disk = l->home.optim == ZR_SPACE_DISK || l->home.param == ZR_SPACE_DISK;
    l->save = (zr_save[]){ZR_SAVE_NONE, ZR_SAVE_IN_PLACE, ZR_SAVE_COPY}[draw(disk ? 2 : 3)];
    if (l->recompute == ZR_RECOMPUTE_UNIT) l->checkpoint_home = draw_space();
    l->overlap = draw(2);
    run->lanes = draw(3) == 0;
}

/* Return a run with the batches and the model of another one, without a pipeline and with all states on the device. */
static trainer without_pipeline(const trainer *run)
{
    trainer plain = layout_trainer(run->layout.ranks, run->layout.dtype, run->layout.accum, run->clip);
    const zr_layout *from = &run->layout;
    zr_layout *l = &plain.layout;
    plain.config = run->config;
    plain.model = run->model;
    plain.batch = run->batch;
    plain.count = run->count;
    plain.steps = run->steps;
    plain.after = run->after;
    l->stage = from->stage;
    l->seq = from->seq;
    l->eval = from->eval;
    l->optimizer = from->optimizer;
    l->documents = from->documents;
    l->predictions = from->predictions;
    l->samples = from->samples;
    return plain;
}

static void drawn_models(void **state)
{
    (void)state;
    const int runs = is_long_run() ? 210 : 56;
    int ran[MODELS] = {0}, refused = 0;
    for (int i = 0; i < runs; i++) {
        drawn = (uint32_t)i * 64;
        zr_model model;
        zr_bert_config bert;
        evaluated of_want = {0}, of_got = {0};
        const zr_dtype dtypes[] = {ZR_F32, ZR_BF16, ZR_F16};
        const int which = i % MODELS;
        trainer got = layout_trainer(1 + draw(2), dtypes[draw(3)], 1, draw(2) ? 0.5 : 0);
        got.steps = 2;
        got.after = evaluate;
        got.layout.stage = draw(4);
        got.layout.seq = 12;
        got.layout.eval = true;
        if (draw(3) == 0) got.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
        draw_layout(&got, which == TERMS ? 2 : 4); /* its model has few units */
        take_model(&got, which, draw(3), &model, &bert);
        const bool ties = which != ROTARY && which != TERMS && got.layout.pipeline_schedule != ZR_PIPELINE_ZB_V;
        got.layout.tied_apart = ties && draw(2);
        trainer want = without_pipeline(&got);
        want.arg = &of_want;
        got.arg = &of_got;
        const zr_status st = zr_comm_threads_run(got.layout.ranks * got.layout.pipeline, trainer_rank, &got);
        if (st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED) {
            printf("# run %d: %s\n", i, zr_error_message());
            refused++;
            continue;
        }
        if (st != ZR_OK) fail_msg("run %d: %s\n%s", i, zr_error_message(), zr_error_trace());
        trainer_run(&want);
        if (!layout_same(&want, &got)) printf("# run %d, model %d\n", i, which);
        layout_assert_same(&want, &got, "a drawn pipeline");
        for (int t = 0; t < ZR_LOSS_TERMS; t++)
            if (evaluated_loss(&of_want, t) != evaluated_loss(&of_got, t)) fail_msg("run %d evaluates otherwise", i);
        assert_true(evaluated_loss(&of_got, 0) > 0);
        assert_memory_equal(want.term, got.term, sizeof want.term);
        ran[which]++;
    }
    printf("# %d of %d refused\n", refused, runs);
    for (int k = 0; k < MODELS; k++) assert_true(ran[k] > runs / MODELS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
