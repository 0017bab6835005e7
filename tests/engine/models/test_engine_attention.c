//TEST timeout=60 long=more
/* Attention with shared key-value heads, windows and both directions, trained on tensor-parallel ranks: losses, norms
 * and gradients against the whole model in double. Key-value heads are cut where the degree divides them, and else
 * whole. */
#include "engine/engine_truth.h"
#include "support/long.h"

enum { C = 12, D = 6, WORDS = 9, TOKENS = 6, ROWS = 2 };

static zr_shape matrix(int64_t rows, int64_t cols)
{
    return (zr_shape){2, {rows, cols}};
}

/* Multiply by a weight whose columns are cut in one part, or not, and add a bias. A bias of keys alone would have no
 * gradient, because all scores of a query grow by the same number. */
static zr_value project(zr_graph *g, zr_value x, int64_t cols, bool cut, const char *name, int layer)
{
    const zr_init normal = {ZR_INIT_NORMAL, 0.4};
    zr_value w = zr_param_cut(g, normal, matrix(C, cols), (zr_cut){1, cut}, "%s.%d", name, layer);
    zr_value b = ZR_NONE;
    if (layer > 0 || *name != 'k')
        b = zr_param_cut(g, normal, (zr_shape){1, {cols}}, (zr_cut){0, cut}, "%s.bias.%d", name, layer);
    return zr_linear(g, x, w, b, false);
}

/* Build a model of two layers of attention. In the second layer, keys and values are the same value. */
static void build(zr_graph *g, const void *config)
{
    const zr_attention_spec *of = config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_init normal = {ZR_INIT_NORMAL, 0.5};
    const bool cut = of->kv_heads % (spec->tensor ? spec->tensor : 1) == 0;
    zr_graph_unit(g, "embed");
    zr_value wte = zr_param_cut(g, normal, matrix(WORDS, C), (zr_cut){0, 1}, "wte");
    zr_value x = zr_embedding(g, zr_input(g, "ids", ZR_I32, matrix(spec->batch, spec->seq)), wte);
    for (int i = 0; i < 2; i++) {
        zr_graph_unit(g, "h.%d", i);
        zr_value norm = zr_rmsnorm(g, x, zr_param(g, normal, (zr_shape){1, {C}}, "gain.%d", i), 1e-5);
        zr_value q = project(g, norm, of->heads * D, true, "q", i), k = project(g, norm, of->kv_heads * D, cut, "k", i);
        zr_value v = i ? k : project(g, norm, of->kv_heads * D, cut, "v", i);
        zr_value out = zr_param_cut(g, normal, matrix(of->heads * D, C), (zr_cut){0, 1}, "out.%d", i);
        x = zr_add(g, x, zr_linear(g, zr_attend(g, q, k, v, of), out, ZR_NONE, false));
    }
    zr_graph_unit(g, "head");
    zr_value targets = zr_input(g, "targets", ZR_I32, matrix(spec->batch, spec->seq));
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, wte, targets));
}

static const zr_attention_spec specs[] = {
    {.heads = 6, .kv_heads = 6, .window = 4},    /* cut at each degree */
    {.heads = 6, .kv_heads = 3, .dropout = 0.2}, /* cut by 3, whole at 2 */
    {.heads = 6, .kv_heads = 2, .window = 3},    /* cut by 2; at 3, the second rank has heads of both */
    {.heads = 6, .kv_heads = 1, .dropout = 0.1}, /* whole at each degree */
    {.heads = 6, .kv_heads = 3, .bidirectional = true, .scale = 0.7},
};
#define SPECS (int)(sizeof specs / sizeof *specs)

static trainer attending(const zr_model *model)
{
    trainer run = trainer_small(model, 1, TOKENS);
    run.config.vocab_size = WORDS;
    run.layout.batch = ROWS;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 100;
    run.steps = 1;
    return run;
}

/* Check that gradients equal the reference on each grid of ranks, with and without shared tokens; stages and recompute
 * policies alternate. */
static void gradients_are_true(void **state)
{
    (void)state;
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    int turn = 0;
    for (int i = 0; i < SPECS; i++) {
        const zr_model model = {.name = "attending", .build = build, .config = &specs[i]};
        trainer run = attending(&model);
        truth t = truth_make(&run, ROWS);
        for (int tensor = 1; tensor <= 3; tensor++)
            for (int sequence = ZR_SEQUENCE_OFF; sequence <= (tensor > 1 ? ZR_SEQUENCE_REGATHER : 0); sequence++)
                for (int ranks = 1; ranks <= 2; ranks++) {
                    run.layout.tensor = tensor;
                    run.layout.sequence = (zr_sequence)sequence;
                    run.layout.ranks = ranks;
                    run.layout.batch = ROWS / ranks;
                    for (int p = 0; p < 3; p++) {
                        if (p != turn % 3 && !is_long_run()) continue;
                        run.layout.recompute = policy[p];
                        run.layout.stage = (turn + p) % 4;
                        truth_check(&t, &run);
                    }
                    turn++;
                }
        truth_free(&t);
    }
}

/* Check that the bits are the same at each stage, with each recompute policy, and with each way to gather tokens. */
static void bits_do_not_move(void **state)
{
    (void)state;
    for (int i = 1; i < 3; i++) {
        const zr_model model = {.name = "attending", .build = build, .config = &specs[i]};
        for (int sequence = 0; sequence < 2; sequence++) {
            trainer first = attending(&model);
            first.layout.tensor = 4 - i;
            first.layout.sequence = sequence ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
            first.steps = 3;
            trainer_run(&first);
            for (int way = 0; way < 4; way++) {
                trainer run = first;
                run.layout.stage = 3 - way % 2;
                run.layout.recompute = way < 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_SELECTIVE;
                if (sequence && way % 2) run.layout.sequence = ZR_SEQUENCE_REGATHER;
                run.threads = 1 + way % 2 * 2;
                trainer_run(&run);
                for (int step = 0; step < run.steps; step++) assert_true(run.loss[step] == first.loss[step]);
                assert_true(run.weights == first.weights);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_true),
        cmocka_unit_test(bits_do_not_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
