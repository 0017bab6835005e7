//TEST timeout=60 tsan=1 long=more
/* Rows of several documents: losses, norms and gradients equal the interpreter's in every layout; each document has the
 * loss and the gradient that it has alone in a row; models that cannot keep documents apart are refused. */
#include "support/dtype_array.h"
#include "engine/engine_truth.h"
#include "support/long.h"
#include "base/number/exact.h"

#include <math.h>

/* ---- models ---------------------------------------------------------------------------------- */

enum { WORDS = 61 };

static const zr_gpt2_config gpt2_config = {.n_layer = 2,
                                           .n_head = 6,
                                           .n_embd = 36,
                                           .n_positions = 160,
                                           .vocab_size = WORDS,
                                           .layer_norm_epsilon = 1e-5,
                                           .initializer_range = 0.2};
/* The second layer has a window. */
static const zr_llama_config llama_config = {.num_hidden_layers = 2,
                                             .max_window_layers = 1,
                                             .sliding_window = 7,
                                             .hidden_size = 36,
                                             .intermediate_size = 48,
                                             .num_attention_heads = 6,
                                             .num_key_value_heads = 2,
                                             .head_dim = 12,
                                             .max_position_embeddings = 160,
                                             .vocab_size = WORDS,
                                             .rms_norm_eps = 1e-6,
                                             .initializer_range = 0.2,
                                             .qk_norm = true,
                                             .rotary = {.width = 12, .theta = 100}};

static zr_model model_at(int i)
{
    return i ? zr_llama(&llama_config) : zr_gpt2(&gpt2_config);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Documents of two rows, of one token, and with borders at the edges of blocks of 64 tokens. */
enum { T = 140, ROWS = 2, DOCUMENTS = 9, SHORT = 12 };
static const struct {
    int64_t row, first, end;
} document[DOCUMENTS] = {{0, 0, 5}, {0, 5, 64}, {0, 64, 65},  {0, 65, 128}, {0, 128, T},
                         {1, 0, 1}, {1, 1, 70}, {1, 70, 139}, {1, 139, T}};

/* Fill a row of T tokens with documents. The last token of a document has no target, except at the end of the row. */
static void fill_packed(const trainer *run, const zr_batch *batch, int64_t b, void *const *input)
{
    const int64_t seq = run->layout.seq, row = batch->first_row + b;
    int32_t *tokens = (int32_t *)input[0] + b * seq, *targets = (int32_t *)input[1] + b * seq;
    int32_t *begin = (int32_t *)input[2] + b * seq;
    for (int64_t t = 0; t < seq; t++) {
        bool last = false;
        for (int d = 0; d < DOCUMENTS; d++) {
            /* in a shorter row, documents are shorter in proportion, and some have no token */
            const int64_t first = document[d].first * seq / T, end = document[d].end * seq / T;
            if (document[d].row != row % ROWS || t < first || t >= end) continue;
            begin[t] = (int32_t)first;
            last = t + 1 == end && end < seq;
        }
        tokens[t] = trainer_token(run, batch->step, row, t);
        targets[t] = last ? -1 : trainer_token(run, batch->step, row, t + 1);
        *batch->counted -= last;
    }
}

static zr_status packed_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    for (int64_t b = 0; b < run->layout.batch; b++) fill_packed(run, batch, b, input);
    return ZR_OK;
}

/* Fill a row for each document, with padding after it. */
static zr_status alone_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    int32_t *tokens = input[0], *targets = input[1];
    for (int64_t d = 0; d < DOCUMENTS; d++) {
        const int64_t row = document[d].row, first = document[d].first, n = document[d].end - first;
        for (int64_t t = 0; t < T; t++) {
            const bool counts = t + 1 < n || (t + 1 == n && document[d].end == T);
            tokens[d * T + t] = t < n ? trainer_token(run, batch->step, row, first + t) : 0;
            targets[d * T + t] = counts ? trainer_token(run, batch->step, row, first + t + 1) : -1;
            *batch->counted -= !counts;
        }
    }
    return ZR_OK;
}

static trainer packed(const zr_model *model, int64_t seq)
{
    trainer run = trainer_small(model, ROWS, seq);
    run.config.vocab_size = WORDS;
    run.layout.documents = true;
    run.batch = packed_batch;
    return run;
}

/* ---- every layout ---------------------------------------------------------------------------- */

/* Check that losses, norms and gradients equal the interpreter's, with and without tensor and sequence parallelism. */
static void truth_of_all_layouts(void **state)
{
    (void)state;
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    int turn = 0;
    for (int m = 0; m < 2; m++) {
        const zr_model model = model_at(m);
        trainer one = packed(&model, SHORT);
        truth t = truth_make(&one, ROWS);
        for (int tensor = 1; tensor <= 3; tensor++)
            for (int sequence = 0; sequence < (tensor > 1 ? 3 : 1); sequence++)
                for (int ranks = 1; ranks <= 2; ranks++, turn++)
                    for (int stage = 0; stage <= 3; stage++) {
                        trainer run = packed(&model, SHORT);
                        if (stage != turn % 4 && !is_long_run()) continue;
                        run.layout.tensor = tensor;
                        run.layout.sequence = (zr_sequence)sequence;
                        run.layout.ranks = ranks;
                        run.layout.batch = ROWS / ranks;
                        run.layout.stage = stage;
                        run.layout.recompute = policy[(turn + stage) % 3];
                        run.layout.partition_checkpoints = tensor > 1 && zr_recomputes(run.layout.recompute);
                        truth_check(&t, &run);
                    }
        truth_free(&t);
    }
}

/* Check that bits do not depend on the stage, the policy of recomputation, or where checkpoints are. */
static void same_bits(void **state)
{
    (void)state;
    for (int way = 0; way < 12; way++) {
        const zr_model model = model_at(way % 2);
        trainer first = packed(&model, SHORT);
        first.layout.dtype = first.layout.wire_dtype = dtypes[way / 2 % 3];
        first.layout.tensor = 1 + way / 6;
        first.steps = 3;
        trainer_run(&first);
        for (int other = 0; other < 4; other++) {
            trainer run = first;
            run.layout.stage = 3 - other;
            run.layout.recompute = other % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_SELECTIVE;
            run.layout.checkpoint_home = other > 1 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            run.layout.partition_checkpoints = other > 0 && first.layout.tensor > 1;
            run.threads = 1 + other % 2 * 2;
            trainer_run(&run);
            assert_memory_equal(run.loss, first.loss, sizeof run.loss);
            assert_memory_equal(run.norm, first.norm, sizeof run.norm);
            assert_true(run.weights == first.weights);
        }
    }
}

/* ---- packed and alone ------------------------------------------------------------------------ */

typedef struct gradients {
    float *of; /* gradients of all parameters, in the order of the model */
    double evaluated;
} gradients;

static zr_status keep_gradient(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy(((gradients *)arg)->of + param->first + first, in, sizeof *in * (size_t)n);
    return ZR_OK;
}

static zr_status keep_results(trainer *run, zr_engine *engine, zr_comm *comm)
{
    gradients *g = run->arg;
    int64_t counted = 0;
    const zr_batch batch = {.counted = &counted};
    zr_exact sum = {0};
    (void)comm;
    ZR_TRY(zr_engine_read(engine, ZR_STATE_GRAD, keep_gradient, g));
    ZR_TRY(zr_engine_eval(engine, &batch, run->batch, run, &sum));
    g->evaluated = zr__exact_value(&sum);
    return ZR_OK;
}

/* Check that each document has the loss and the gradient that it has alone in a row, up to the order of sums. */
static void packed_equals_alone(void **state)
{
    (void)state;
    enum { MOST = 1 << 16 };
    static float of[2][MOST];
    for (int way = 0; way < 4; way++) {
        const zr_model model = model_at(way % 2);
        const bool narrow = way / 2;
        trainer run[2] = {packed(&model, T), trainer_small(&model, DOCUMENTS, T)};
        gradients found[2] = {{.of = of[0]}, {.of = of[1]}};
        run[1].config.vocab_size = WORDS;
        run[1].batch = alone_batch;
        for (int i = 0; i < 2; i++) {
            run[i].layout.dtype = narrow ? ZR_BF16 : ZR_F32;
            run[i].layout.wire_dtype = ZR_F32;
            run[i].lr = 0;
            run[i].after_first = keep_results;
            run[i].arg = &found[i];
            memset(of[i], 0, sizeof of[i]);
            trainer_run(&run[i]);
        }
        assert_int_equal(run[0].counted[0], run[1].counted[0]);
        const double slack = narrow ? 2e-3 : 2e-6;
        assert_float_equal(run[0].loss[0], run[1].loss[0], slack * run[1].loss[0]);
        assert_float_equal(found[0].evaluated, found[1].evaluated, slack * found[1].evaluated);
        double error = 0, square = 0;
        for (int64_t i = 0; i < MOST; i++) {
            error += pow((double)of[0][i] - of[1][i], 2);
            square += pow(of[1][i], 2);
        }
        assert_true(square > 0);
        if (!(sqrt(error / square) < (narrow ? 2e-2 : 1e-5)))
            fail_msg("%s: gradients differ by %g of their norm", model.name, sqrt(error / square));
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const trainer *run, zr_status status, const char *says)
{
    trainer other = *run;
    assert_int_equal(zr_comm_threads_run(1, trainer_rank, &other), status);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

static zr_status wrong_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    ZR_TRY(packed_batch(arg, batch, input));
    memcpy((int32_t *)input[2] + SHORT + 2, run->token_arg, 2 * sizeof(int32_t));
    return ZR_OK;
}

/* Build a model that adds positions, but mixes tokens without zr_attend. */
static void build_other(zr_graph *g, const void *config)
{
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_shape tokens = {2, {spec->batch, spec->seq}};
    zr_graph_unit(g, "all");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {WORDS, 8}}, "table");
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table);
    (void)config;
    x = zr_position(g, x, table);
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, table, zr_input(g, "targets", ZR_I32, tokens)));
}

static void refusals(void **state)
{
    (void)state;
    const zr_model gpt2 = model_at(0);
    static const int32_t wrong[][2] = {{0, 1}, {3, 3}, {-1, -1}, {2, 4}, {SHORT, SHORT}};
    for (int i = 0; i < 5; i++) {
        trainer bad = packed(&gpt2, SHORT);
        bad.batch = wrong_batch;
        bad.token_arg = (void *)(uintptr_t)wrong[i];
        refused(&bad, ZR_ERR_ARG, "the batch callback says that the document of token");
    }
    const zr_model other = {.name = "other", .build = build_other};
    const trainer run = packed(&other, SHORT);
    refused(&run, ZR_ERR_UNSUPPORTED, "the model attends without zr_attend");
    zr_graph *graph = NULL;
    const zr_graph_spec decode = {.mode = ZR_MODE_DECODE, .batch = 1, .seq = 1, .cache_len = 4, .documents = true};
    assert_int_equal(zr_graph_create(&decode, &graph), ZR_ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_of_all_layouts),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(packed_equals_alone),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
