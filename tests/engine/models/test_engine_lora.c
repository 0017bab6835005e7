//TEST timeout=200 tsan=1 long=more
/* Low-rank adapters (zr_graph_adapt) in training steps. Gradients equal the double-precision interpreter's with and
 * without tensor parallelism. The base keeps its bits, bits do not depend on the layout, and a model with new adapters
 * computes the losses of its base. */
#include "engine/engine_truth.h"
#include "engine/layout_variants.h"
#include "support/long.h"

enum { ROWS = 4, TOKENS = 12 };

static const zr_gpt2_config gpt2 = {.n_layer = 2,
                                    .n_head = 4,
                                    .n_embd = 16,
                                    .n_positions = 16,
                                    .vocab_size = 48,
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.1};
/* At degree 2 the key/value heads are cut, at degree 4 they are whole on each rank. */
static const zr_llama_config llama = {.num_hidden_layers = 2,
                                      .num_attention_heads = 4,
                                      .num_key_value_heads = 2,
                                      .head_dim = 8,
                                      .hidden_size = 24,
                                      .intermediate_size = 40,
                                      .max_position_embeddings = 16,
                                      .vocab_size = 48,
                                      .rms_norm_eps = 1e-5,
                                      .initializer_range = 0.1,
                                      .rotary = {.width = 8, .theta = 10000, .factor = 1},
                                      .qkv_bias = true};

/* Sizes that three tensor-parallel ranks can divide. */
static const zr_llama_config threes = {.num_hidden_layers = 1,
                                       .num_attention_heads = 6,
                                       .num_key_value_heads = 3,
                                       .head_dim = 4,
                                       .hidden_size = 24,
                                       .intermediate_size = 30,
                                       .max_position_embeddings = 16,
                                       .vocab_size = 48,
                                       .rms_norm_eps = 1e-5,
                                       .initializer_range = 0.1,
                                       .rotary = {.width = 4, .theta = 10000, .factor = 1}};

static zr_model model_of(int family, zr_lora lora)
{
    zr_model model = family == 2 ? zr_llama(&threes) : family ? zr_llama(&llama) : zr_gpt2(&gpt2);
    model.lora = lora;
    return model;
}

/* Fill all parameters with random values, also the adapters' B, which begin with zeros. */
static zr_status fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const zr_rng rng = {.seed = 17, .purpose = ZR_RNG_INIT};
    (void)arg;
    zr_rng_normal(&rng, (uint64_t)(param->first + first), n, out);
    for (int64_t i = 0; i < n; i++) out[i] = 0.15f * out[i] + (param->init.kind == ZR_INIT_ONE ? 1 : 0);
    return ZR_OK;
}

static trainer trainer_of(const zr_model *model)
{
    trainer run = trainer_small(model, 1, TOKENS);
    run.config.vocab_size = 48;
    run.layout.batch = ROWS;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 100;
    run.fill = fill;
    return run;
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* Check the gradients on grids of ranks, with and without shared tokens, up to degree `most`. Stages and recompute
 * policies alternate. */
static void check_gradients(int family, zr_lora lora, int most)
{
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    static int turn = 0;
    const zr_model model = model_of(family, lora);
    trainer run = trainer_of(&model);
    truth t = truth_make(&run, ROWS);
    for (int tensor = family == 2 ? 3 : 1; tensor <= most; tensor *= 2)
        for (int sequence = ZR_SEQUENCE_OFF; sequence <= (tensor > 1 ? ZR_SEQUENCE_REGATHER : 0); sequence++)
            for (int ranks = 1; ranks <= 2; ranks++) {
                run.layout.tensor = tensor;
                run.layout.sequence = (zr_sequence)sequence;
                run.layout.ranks = ranks;
                run.layout.batch = ROWS / ranks;
                for (int stage = 0; stage <= 3; stage++) {
                    if (stage != turn % 4 && tensor > 1 && !is_long_run()) continue;
                    run.layout.recompute = policy[(turn + stage) % 3];
                    run.layout.stage = stage;
                    truth_check(&t, &run);
                }
                turn++;
            }
    truth_free(&t);
}

static void gradients_are_true(void **state)
{
    (void)state;
    for (int family = 0; family < 2; family++) {
        check_gradients(family, (zr_lora){.rank = 4, .alpha = 8}, 4);
        check_gradients(family, (zr_lora){.rank = 2, .alpha = 2, .dropout = 0.2}, 4);
    }
    check_gradients(2, (zr_lora){.rank = 2, .alpha = 3, .dropout = 0.2}, 3);
    check_gradients(0, (zr_lora){.rank = 4, .alpha = 3, .dropout = 0.2, .targets = "c_attn\n*.mlp.c_fc"}, 2);
    check_gradients(1, (zr_lora){.rank = 4, .alpha = 3, .dropout = 0.2, .targets = "q_proj\nv_proj\n1.mlp.up_proj"}, 2);
}

/* ---- bits -------------------------------------------------------------------------------------- */

static zr_status hash_base(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    return param->frozen ? trainer_hash(arg, param, first, n, in) : ZR_OK;
}

/* Add up the hashes of the frozen parameters on all ranks. */
static zr_status keep_base(trainer *run, zr_engine *engine, zr_comm *comm)
{
    uint64_t hash = 0, total = 0;
    double part[4], all[4 * 16];
    ZR_TRY(zr_engine_read(engine, ZR_STATE_PARAM, hash_base, &hash));
    for (int k = 0; k < 4; k++) part[k] = (double)(hash >> 16 * k & 0xffff);
    ZR_TRY(zr_comm_scalars(comm, part, 4, all));
    for (int r = 0; r < comm->size; r++)
        for (int k = 0; k < 4; k++) total += (uint64_t)all[4 * r + k] << 16 * k;
    if (comm->rank == 0) *(uint64_t *)run->arg = total;
    return ZR_OK;
}

/* Train, and check that the base keeps its bits while the adapters move. */
static void run_still(trainer *run)
{
    trainer start = *run;
    uint64_t before = 0, after = 0;
    start.steps = 0;
    start.after = run->after = keep_base;
    start.arg = &before;
    run->arg = &after;
    trainer_run(&start);
    trainer_run(run);
    assert_true(before != 0 && before == after);
    assert_true(run->weights != start.weights);
    run->after = NULL;
    run->arg = NULL;
}

/* Check that every layout gives the same bits. */
static void bits_do_not_move(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        trainer want = layout_trainer(1 + i % 3, (zr_dtype[]){ZR_F32, ZR_BF16, ZR_F16}[i / 2], 1 + i % 2, 0.5);
        zr_model model = zr_gpt2(&want.config);
        model.lora = (zr_lora){.rank = 3, .alpha = 8, .dropout = 0.1};
        want.model = &model;
        run_still(&want);
        layout_check(&want, i % 5, is_long_run() ? 1 : 5);
    }
}

/* Check that initial values of the adapters are the same on every grid of ranks. B has zeros, so the losses equal the
 * base model's. */
static void it_begins_as_the_base(void **state)
{
    (void)state;
    for (int family = 0; family < 2; family++) {
        const zr_model base = model_of(family, (zr_lora){0}), with = model_of(family, (zr_lora){.rank = 4, .alpha = 8});
        trainer one = trainer_of(&base);
        one.fill = NULL;
        trainer_run(&one);
        uint64_t weights = 0;
        for (int tensor = 1; tensor <= 2; tensor++)
            for (int stage = 0; stage <= 3; stage++) {
                trainer run = trainer_of(&with);
                run.fill = NULL;
                run.layout.stage = stage;
                run.layout.tensor = tensor;
                if (tensor == 1) {
                    trainer_run(&run);
                    assert_true(run.loss[0] == one.loss[0]);
                }
                run.steps = 0;
                trainer_run(&run);
                if (weights == 0) weights = run.weights;
                assert_true(run.weights == weights && weights != 0);
            }
    }
}

/* ---- initial values ---------------------------------------------------------------------------- */

static zr_status check_uniform(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)first;
    double *most = arg;
    if (!param->adapter) return ZR_OK;
    const bool is_a = strstr(param->name, ".lora_A.weight") != NULL;
    const double bound = 1 / sqrt((double)param->whole.dim[1]);
    for (int64_t i = 0; i < n; i++) {
        assert_true(is_a ? fabs(in[i]) <= bound * (1 + 1e-7) : in[i] == 0);
        if (!is_a) continue;
        most[0] = fmax(most[0], fabs(in[i]) / bound);
        most[1] += in[i] / bound;
        most[2] += in[i] / bound * in[i] / bound;
        most[3]++;
    }
    return ZR_OK;
}

static zr_status read_initial(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, check_uniform, run->arg);
}

static void initial_values_are_uniform(void **state)
{
    (void)state;
    double most[4] = {0}; /* largest magnitude relative to the bound, sum, sum of squares, number of elements */
    const zr_model model = model_of(1, (zr_lora){.rank = 64, .alpha = 8});
    trainer run = trainer_of(&model);
    run.fill = NULL;
    run.steps = 0;
    run.after = read_initial;
    run.arg = most;
    trainer_run(&run);
    assert_true(most[3] > 20000 && most[0] > 0.999);
    assert_float_equal(most[1] / most[3], 0, 0.015);
    assert_float_equal(most[2] / most[3], 1.0 / 3, 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_true),
        cmocka_unit_test(bits_do_not_move),
        cmocka_unit_test(it_begins_as_the_base),
        cmocka_unit_test(initial_values_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
