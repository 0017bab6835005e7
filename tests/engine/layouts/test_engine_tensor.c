//TEST timeout=120 tsan=1 long=more
/* Tensor parallelism: the same model on M ranks per layer, at every stage. Losses equal a single rank's up to rounding,
 * and are the same to the last bit within one degree. */
#include "support/long.h"
#include "engine/trainer.h"
#include "train/control/control.h"

#include <math.h>

static trainer small(int tensor, int ranks, int stage)
{
    trainer run = trainer_small(NULL, 2, 12);
    run.config = (zr_gpt2_config){.n_layer = 2,
                                  .n_head = 4,
                                  .n_embd = 32,
                                  .n_positions = 16,
                                  .vocab_size = 61, /* padded to 62 for two ranks, and to 64 for four */
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

/* Check that initial values equal the whole model's on any rank, and whole tensors are read. */
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

/* Check that at another stage, with each recompute policy and each way to keep values for the backward pass, the run
 * has the bits of `first`. A short run checks a third of these combinations; which third depends on the stage and on
 * `first`. */
static void same_bits(const trainer *first, int stage)
{
    const int share = first->layout.ranks + first->layout.tensor / 2 + (first->layout.sequence != ZR_SEQUENCE_OFF);
    for (int way = 0; way < 8; way++) {
        if ((way + stage + share) % 3 != 0 && !is_long_run()) continue;
        trainer run = small(first->layout.tensor, first->layout.ranks, stage);
        if (way == 3) continue; /* without a policy there are no checkpoints */
        run.layout.sequence = first->layout.sequence;
        if (way % 2 && run.layout.sequence) run.layout.sequence = ZR_SEQUENCE_REGATHER;
        run.layout.recompute = way == 7 ? ZR_RECOMPUTE_PAPER : way == 6 ? ZR_RECOMPUTE_UNIT : (zr_recompute)(way % 3);
        run.layout.recompute_every = way == 6 ? 2 : 1;
        run.layout.partition_checkpoints = way > 3; /* P_a, P_a+cpu */
        run.layout.checkpoint_home = way > 4 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        run.layout.overlap = way % 2;
        run.layout.save = (zr_save)(way % 3);
        run.layout.states = stage % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        run.layout.norm_first = true;
        run.layout.reduce_bucket_elems = 700;
        trainer_run(&run);
        for (int i = 0; i < run.steps; i++) {
            assert_true(run.loss[i] == first->loss[i]);
            assert_true(run.norm[i] == first->norm[i]);
        }
        assert_true(run.weights == first->weights);
    }
}

static void losses_are_those_of_one_rank(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        trainer one = small(1, ranks, 0);
        trainer_run(&one);
        for (int tensor = 2; tensor <= 4; tensor *= 2)
            for (int tokens = 0; tokens < 2; tokens++) {
                trainer first = small(tensor, ranks, 0);
                first.layout.sequence = tokens ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
                trainer_run(&first);
                for (int i = 0; i < first.steps; i++) {
                    close_to(first.loss[i], one.loss[i], 2e-5);
                    close_to(first.norm[i], one.norm[i], 1e-4);
                }
                for (int stage = 0; stage <= 3; stage++) same_bits(&first, stage);
            }
    }
}

/* Check that each way to keep and move states gives the losses of the same way without tensor parallelism. */
static void every_layout_trains(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        const int way = i % 5;
        trainer run[2];
        for (int k = 0; k < 2; k++) {
            zr_layout *l = &run[k].layout;
            run[k] = small(k ? 2 : 1, 2, 3);
            if (i > 4) l->sequence = i % 2 ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_REGATHER;
            l->states = way < 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            l->norm_first = l->two_pass = way == 1;
            l->rank_free_sums = way == 2;
            if (way == 3) l->dtype = l->wire_dtype = ZR_BF16;
            if (way == 4) l->recompute = ZR_RECOMPUTE_UNIT;
            l->checkpoint_home = way == 4 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            l->accum = way == 2 ? 2 : 1;
            l->batch = way == 2 ? 1 : 2;
            run[k].clip = way == 0 ? 0 : 1;
            trainer_run(&run[k]);
        }
        /* bf16, which has 8 significant bits, is rounded at other places */
        const double loss = way == 3 ? 2e-2 : 2e-5, norm = way == 3 ? 5e-2 : 1e-4;
        for (int step = 0; step < run[0].steps; step++) {
            close_to(run[1].loss[step], run[0].loss[step], loss);
            close_to(run[1].norm[step], run[0].norm[step], norm);
        }
    }
}

/* ---- states of whole tensors ------------------------------------------------------------------- */

enum { STATES = 3, MOST_ELEMS = 1 << 16 }; /* parameters, two moments of Adam */
static float given[STATES][MOST_ELEMS], again[STATES][MOST_ELEMS];

static zr_status put_whole(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy((float *)arg + param->first + first, in, (size_t)n * sizeof *in);
    return ZR_OK;
}

static zr_status take_whole(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    memcpy(out, (const float *)arg + param->first + first, (size_t)n * sizeof *out);
    return ZR_OK;
}

static int state_of(int i)
{
    return i == 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + i - 1;
}

static zr_status read_states(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    float(*to)[MOST_ELEMS] = run->arg;
    for (int i = 0; i < STATES; i++) ZR_TRY(zr_engine_read(engine, state_of(i), put_whole, to[i]));
    return ZR_OK;
}

static zr_status fill_states(trainer *run, zr_engine *engine, zr_comm *comm)
{
    for (int i = 0; i < STATES; i++) ZR_TRY(zr_engine_fill(engine, state_of(i), take_whole, given[i]));
    return read_states(run, engine, comm);
}

/* Check that the states of 2 x 2 ranks are unchanged after they were read and filled on other grids: 1 x 1, 1 x 4, 3 x
 * 1, and 2 x 2 again. */
static void states_know_no_degree(void **state)
{
    (void)state;
    static const int grid[][2] = {{1, 1}, {1, 4}, {3, 1}, {2, 2}};
    trainer run = small(2, 2, 2);
    run.after = read_states;
    run.arg = given;
    trainer_run(&run);
    for (int k = 0; k < 4; k++) {
        trainer other = small(grid[k][1], grid[k][0], k % 4);
        other.steps = 0;
        other.after = fill_states;
        other.arg = again;
        memset(again, 0, sizeof again);
        trainer_run(&other);
        assert_memory_equal(again, given, sizeof given);
        memcpy(given, again, sizeof given);
    }
    assert_true(given[0][0] != 0 && given[1][0] != 0 && given[2][0] != 0);
}

/* ---- uneven parts ----------------------------------------------------------------------------- */

/* Fill a batch in which one target in three does not count. */
static zr_status some_targets(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    ZR_TRY(trainer_batch(arg, batch, input));
    int32_t *targets = input[1];
    for (int64_t i = 0; i < run->layout.batch * run->layout.seq; i++)
        if ((batch->first_row * run->layout.seq + i) % 3 == 0) targets[i] = -100;
    return ZR_OK;
}

/* Check that losses are right where the last rank has only padding of the vocabulary, where targets do not count, with
 * the comm stream in parallel, and with a loss scale at which steps are skipped. */
static void uneven_parts(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        trainer one = small(1, 2, 2);
        if (way == 0) one.config.vocab_size = 5;
        if (way == 1) one.batch = some_targets;
        one.lanes = way == 2;
        if (way == 3) {
            one.layout.dtype = one.layout.wire_dtype = ZR_F16;
            one.layout.norm_first = true;
            one.scaler = (zr__loss_scaler){
                .scale = 0x1p22, .dynamic = true, .min_scale = 1, .window = 100, .hysteresis = 1, .hysteresis_left = 1};
        }
        trainer_run(&one);
        for (int tokens = 0; tokens < 2; tokens++) {
            trainer run = one;
            run.layout.tensor = 4;
            run.layout.sequence = tokens ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
            trainer_run(&run);
            for (int i = 0; i < run.steps; i++) {
                assert_int_equal(run.skipped[i], one.skipped[i]);
                close_to(run.loss[i], one.loss[i], way == 3 ? 2e-2 : 2e-5);
            }
            assert_true(way != 3 || one.skipped[0]);
        }
    }
}

static int32_t too_large(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    return step == 1 && row == 1 && t == 3 ? 61 : 1;
}

/* Check that a token that is in no rank's part of the vocabulary is an error on all ranks. */
static void a_token_of_nobody(void **state)
{
    (void)state;
    trainer run = small(4, 1, 0);
    run.token = too_large;
    assert_int_equal(zr_comm_threads_run(4, trainer_rank, &run), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "61"));
}

/* Build a model without any split tensor, for a degree that divides no size: pieces end in padding. */
static void build_uncut(zr_graph *g, const void *config)
{
    enum { WIDE = 5, WORDS = 7 };
    const zr_init normal = {ZR_INIT_NORMAL, 0.5};
    (void)config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_shape tokens = {2, {spec->batch, spec->seq}}, square = {2, {WIDE, WIDE}};
    zr_graph_unit(g, "embed");
    zr_value wte = zr_param(g, normal, (zr_shape){2, {WORDS, WIDE}}, "wte");
    zr_value x = zr_embedding(g, zr_input(g, "ids", ZR_I32, tokens), wte);
    for (int i = 0; i < 3; i++) {
        zr_graph_unit(g, "h.%d", i);
        x = zr_add(g, x,
                   zr_linear(g, zr_gelu(g, zr_linear(g, x, zr_param(g, normal, square, "in.%d", i), ZR_NONE, 0)),
                             zr_param(g, normal, square, "out.%d", i), ZR_NONE, 0));
    }
    zr_graph_unit(g, "head");
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, wte, zr_input(g, "targets", ZR_I32, tokens)));
}

/* Build a model in which the embedding's sum is the first block's checkpoint, products of two units read one norm, and
 * one op's result is not read. */
static void build_bare(zr_graph *g, const void *config)
{
    enum { WIDE = 8, WORDS = 7 };
    const zr_init normal = {ZR_INIT_NORMAL, 0.5};
    (void)config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_shape tokens = {2, {spec->batch, spec->seq}}, square = {2, {WIDE, WIDE}};
    zr_graph_unit(g, "embed");
    zr_value wte = zr_param_cut(g, normal, (zr_shape){2, {WORDS, WIDE}}, (zr_cut){0, 1}, "wte");
    zr_value x = zr_embedding(g, zr_input(g, "ids", ZR_I32, tokens), wte), norm = ZR_NONE;
    for (int i = 0; i < 4; i++) {
        zr_graph_unit(g, "h.%d", i);
        if (i % 2 == 0) norm = zr_rmsnorm(g, x, zr_param(g, normal, (zr_shape){1, {WIDE}}, "gain.%d", i), 1e-5);
        zr_value h = zr_linear(g, norm, zr_param_cut(g, normal, square, (zr_cut){1, 1}, "in.%d", i), ZR_NONE, false);
        zr_value dead = zr_gelu(g, h);
        (void)dead;
        h = zr_linear(g, zr_silu(g, h), zr_param_cut(g, normal, square, (zr_cut){0, 1}, "out.%d", i), ZR_NONE, false);
        x = zr_add(g, x, h);
    }
    zr_graph_unit(g, "head");
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, wte, zr_input(g, "targets", ZR_I32, tokens)));
}

static void checkpoints_of_joins(void **state)
{
    (void)state;
    const zr_model model = {.name = "bare", .build = build_bare};
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_SELECTIVE,
                                          ZR_RECOMPUTE_PAPER};
    trainer one = trainer_small(&model, 2, 6);
    one.config.vocab_size = 7;
    one.steps = 3;
    trainer_run(&one);
    for (int sequence = 0; sequence < 3; sequence++)
        for (int p = 0; p < 4; p++)
            for (int kept = 0; kept < 3; kept++) {
                trainer run = one;
                run.layout.tensor = 2;
                run.layout.sequence = (zr_sequence)sequence;
                run.layout.recompute = policy[p];
                run.layout.partition_checkpoints = kept > 0;
                run.layout.checkpoint_home = kept > 1 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                run.layout.overlap = kept != 1;
                trainer_run(&run);
                for (int i = 0; i < run.steps; i++) {
                    close_to(run.loss[i], one.loss[i], 2e-5);
                    close_to(run.norm[i], one.norm[i], 1e-4);
                }
            }
}

static void pieces_that_do_not_divide_are_padded(void **state)
{
    (void)state;
    const zr_model model = {.name = "uncut", .build = build_uncut};
    for (int tensor = 1; tensor <= 3; tensor++) {
        trainer whole = trainer_small(&model, 1, 7);
        whole.config.vocab_size = 7;
        whole.steps = 3;
        whole.layout.tensor = tensor;
        whole.layout.recompute = ZR_RECOMPUTE_UNIT;
        trainer_run(&whole);
        assert_true(whole.loss[2] > 0 && whole.loss[2] != whole.loss[0]);
        for (int offload = 0; offload < 2; offload++) {
            trainer run = whole;
            run.layout.partition_checkpoints = true;
            run.layout.checkpoint_home = offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            trainer_run(&run);
            const zr_space space = offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            const int64_t piece = ((35 + tensor - 1) / tensor * 4 + 63) / 64 * 64;
            assert_int_equal(run.planned.space[space].category_bytes[ZR_CATEGORY_CHECKPOINT], 3 * piece);
            assert_int_equal(run.measured.memory.space[space].category_bytes[ZR_CATEGORY_CHECKPOINT], 3 * piece);
            for (int i = 0; i < run.steps; i++) assert_true(run.loss[i] == whole.loss[i]);
            assert_true(run.weights == whole.weights);
        }
    }
}

/* Build a model with a whole layer of 7 outputs, whose bias no degree shares equally. */
static void build_odd(zr_graph *g, const void *config)
{
    (void)config;
    enum { C = 12, N = 7, V = 24 };
    const zr_init normal = {ZR_INIT_NORMAL, 0.3};
    const zr_shape ids = {2, {zr_graph_get_spec(g)->batch, zr_graph_get_spec(g)->seq}};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, ids), targets = zr_input(g, "targets", ZR_I32, ids);
    zr_graph_unit(g, "tables");
    zr_value x = zr_embedding(g, tokens, zr_param_table(g, normal, V, C, "table"));
    zr_graph_unit(g, "body");
    zr_value in = zr_param(g, normal, (zr_shape){2, {C, N}}, "in"),
             bias = zr_param(g, normal, (zr_shape){1, {N}}, "bias");
    x = zr_gelu(g, zr_linear(g, x, in, bias, false));
    x = zr_linear(g, x, zr_param(g, normal, (zr_shape){2, {N, C}}, "out"), ZR_NONE, false);
    zr_graph_unit(g, "head");
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, zr_param_table(g, normal, V, C, "head"), targets));
}

static void vectors_that_ranks_cannot_share(void **state)
{
    (void)state;
    const zr_model model = {.name = "odd", .build = build_odd};
    for (int dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
        trainer one = small(1, 1, 0);
        one.model = &model;
        one.config.vocab_size = 24;
        one.lr = 0.01;
        one.layout.dtype = one.layout.wire_dtype = (zr_dtype)dtype;
        trainer_run(&one);
        for (int way = 0; way < 8; way++) { /* the last four ways accumulate two micro-batches */
            trainer run = one;
            run.layout.tensor = 2 + way / 2 % 2;
            run.layout.ranks = 1 + way % 2;
            run.layout.accum = 1 + way / 4;
            run.layout.batch = 4 / run.layout.ranks / run.layout.accum;
            run.layout.stage = way < 4 ? way : 7 - way;
            run.layout.sequence = way % 2 ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_REGATHER;
            trainer_run(&run);
            for (int i = 0; i < run.steps; i++) {
                close_to(run.loss[i], one.loss[i], dtype == ZR_F32 ? 1e-5 : 1e-2);
                close_to(run.norm[i], one.norm[i], dtype == ZR_F32 ? 1e-4 : 5e-2);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_know_no_degree),
        cmocka_unit_test(checkpoints_of_joins),
        cmocka_unit_test(initial_values_are_the_whole_models),
        cmocka_unit_test(losses_are_those_of_one_rank),
        cmocka_unit_test(every_layout_trains),
        cmocka_unit_test(uneven_parts),
        cmocka_unit_test(vectors_that_ranks_cannot_share),
        cmocka_unit_test(a_token_of_nobody),
        cmocka_unit_test(pieces_that_do_not_divide_are_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
