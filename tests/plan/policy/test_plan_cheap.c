//TEST timeout=60
/* Cheap ops are recomputed in the backward pass under every policy: which ops, when, the memory that this saves, and
 * that it never costs memory or traffic. */
#include <string.h>

#include "plan/cheap_kept.h"
#include "plan_bound.h"
#include "plan/plan_make.h"

#include "plan/cost/cost.h"

enum { B = 2, T = 64, C = 96, HEADS = 4, V = 50 };

static zr_layout layout_of(zr_dtype dtype)
{
    zr_layout l = zr_layout_default();
    l.batch = B;
    l.seq = T;
    l.dtype = l.wire_dtype = dtype;
    l.eval = false;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return l;
}

static zr_gpt2_config small(int64_t layers)
{
    return (zr_gpt2_config){.n_layer = layers,
                            .n_head = HEADS,
                            .n_embd = C,
                            .n_positions = T,
                            .vocab_size = V,
                            .resid_pdrop = 0.1,
                            .layer_norm_epsilon = 1e-5,
                            .initializer_range = 0.02};
}

static zr_plan *plan_of(const zr_model *model, const zr_layout *layout)
{
    zr_plan *plan = plan_make(model, layout, &plan_profile);
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static int64_t steps(const zr_plan *plan, zr_step_kind kind, const char *replayed)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int64_t n = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        n += s->step[i].kind == kind &&
             (!replayed ||
              (s->step[i].replay &&
               strcmp(zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], s->step[i].op)->def->name, replayed) == 0));
    return n;
}

/* ---- GPT-2 ----------------------------------------------------------------------------------- */

/* Check the bytes of a block. A block keeps, for each token, its input, attention's inputs and output, the middle of
 * the residual stream and the GELU's input: 10 C numbers, and one fp32 number a head for attention. */
static void test_bytes(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int d = 0; d < 3; d++) {
        zr_layout l = layout_of(type[d]);
        zr_gpt2_config few = small(3), many = small(8);
        zr_plan *less = plan_gpt2(&few, &l, &plan_profile), *more = plan_gpt2(&many, &l, &plan_profile);
        int64_t block = B * T * (10 * C * zr_dtype_bytes(type[d]) + 4 * HEADS);
        assert_int_equal(more->memory.category_bytes[ZR_CATEGORY_ACT] - less->memory.category_bytes[ZR_CATEGORY_ACT],
                         5 * block);
        assert_int_equal(more->memory.category_bytes[ZR_CATEGORY_CHECKPOINT], 0); /* no policy asks for checkpoints */
        assert_int_equal(steps(more, ZR_STEP_RUN, "gelu"), 8);
        assert_int_equal(steps(more, ZR_STEP_RUN, "layernorm"),
                         16); /* two in each block; the final norm's backward comes next */
        assert_float_equal(more->flops_hardware, more->flops_model, 0);
        zr_plan_destroy(&less);
        zr_plan_destroy(&more);
    }
}

static zr_value gated_param(zr_graph *g, const char *name, int64_t i, zr_shape shape)
{
    return zr_param(g, (zr_init){ZR_INIT_NORMAL, 0.02}, shape, "%s.%d", name, (int)i);
}

/* Build *config blocks like LLaMA's: norms without a mean, a gated product. */
static void build_gated(zr_graph *g, const void *config)
{
    const zr_shape tokens = {2, {B, T}}, gains = {1, {C}}, wide = {2, {C, 2 * C}};
    zr_graph_unit(g, "table");
    zr_value table = gated_param(g, "table", 0, (zr_shape){2, {V, C}});
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table);
    for (int64_t i = 0; i < *(const int64_t *)config; i++) {
        zr_graph_unit(g, "block.%d", (int)i);
        zr_value h = zr_rmsnorm(g, x, gated_param(g, "gain.1", i, gains), 1e-5);
        h = zr_linear(g, h, gated_param(g, "qkv", i, (zr_shape){2, {C, 3 * C}}), ZR_NONE, false);
        h = zr_linear(g, zr_attention(g, h, HEADS, 0), gated_param(g, "out", i, (zr_shape){2, {C, C}}), ZR_NONE, false);
        x = zr_add(g, x, h);
        zr_value n = zr_rmsnorm(g, x, gated_param(g, "gain.2", i, gains), 1e-5);
        zr_value up = zr_linear(g, n, gated_param(g, "up", i, wide), ZR_NONE, false);
        h = zr_mul(g, zr_silu(g, zr_linear(g, n, gated_param(g, "gate", i, wide), ZR_NONE, false)), up);
        h = zr_linear(g, h, gated_param(g, "down", i, (zr_shape){2, {2 * C, C}}), ZR_NONE, false);
        x = zr_add(g, x, h);
    }
    zr_graph_unit(g, "head");
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, table, zr_input(g, "targets", ZR_I32, tokens)));
}

/* Check the bytes of a gated block. It keeps its input, attention's inputs and output, the middle of the residual
 * stream, both halves of the gate and their product: 6 C + 3 * 2 C; its norms and SiLU are recomputed. */
static void test_gated(void **state)
{
    (void)state;
    const int64_t few = 3, many = 8;
    zr_layout l = layout_of(ZR_BF16);
    zr_plan *less = plan_of(&(zr_model){.name = "gated", .build = build_gated, .config = &few}, &l),
            *more = plan_of(&(zr_model){.name = "gated", .build = build_gated, .config = &many}, &l);
    assert_int_equal(more->memory.category_bytes[ZR_CATEGORY_ACT] - less->memory.category_bytes[ZR_CATEGORY_ACT],
                     5 * B * T * (12 * C * 2 + 4 * HEADS));
    assert_int_equal(steps(more, ZR_STEP_RUN, "rmsnorm"), 16);
    assert_int_equal(steps(more, ZR_STEP_RUN, "silu"), 8);
    zr_plan_destroy(&less);
    zr_plan_destroy(&more);
}

enum { WIDE = 2 * C, D = C / HEADS, KV = 2 * D };

static zr_value gated_product(zr_graph *g, zr_value x, const char *name, int64_t i, int64_t cols)
{
    const int64_t rows = zr_shape_cols(&zr_graph_value(g, x)->type.shape);
    return zr_linear(g, x, gated_param(g, name, i, (zr_shape){2, {rows, cols}}), ZR_NONE, false);
}

/* Build *config blocks like Llama 3's: rotary embeddings, half as many key-value heads as query heads, SwiGLU. */
static void build_rotary(zr_graph *g, const void *config)
{
    const zr_shape tokens = {2, {B, T}}, gains = {1, {C}};
    const zr_rotary_spec rotary = {.width = D, .theta = 1e4};
    const zr_attention_spec heads = {.heads = HEADS, .kv_heads = HEADS / 2};
    zr_graph_unit(g, "table");
    zr_value table = gated_param(g, "table", 0, (zr_shape){2, {V, C}});
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table);
    for (int64_t i = 0; i < *(const int64_t *)config; i++) {
        zr_graph_unit(g, "block.%d", (int)i);
        zr_value turn = zr_rotary_table(g, &rotary);
        zr_value n = zr_rmsnorm_rounded(g, x, gated_param(g, "gain.1", i, gains), 1e-5);
        zr_value q = zr_rotary(g, gated_product(g, n, "q", i, C), turn);
        zr_value k = zr_rotary(g, gated_product(g, n, "k", i, KV), turn);
        zr_value h = zr_attend(g, q, k, gated_product(g, n, "v", i, KV), &heads);
        x = zr_add(g, x, gated_product(g, h, "o", i, C));
        n = zr_rmsnorm_rounded(g, x, gated_param(g, "gain.2", i, gains), 1e-5);
        h = zr_swiglu(g, gated_product(g, n, "gate", i, WIDE), gated_product(g, n, "up", i, WIDE));
        x = zr_add(g, x, gated_product(g, h, "down", i, C));
    }
    zr_graph_unit(g, "head");
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, table, zr_input(g, "targets", ZR_I32, tokens)));
}

/* Return the buffer of operand or output i of an op's step. */
static int32_t buffer_of(const zr_schedule *s, int32_t step, int i)
{
    return s->use[s->step[step].uses + i].buffer;
}

/* Check the bytes of a rotary block. It keeps its input, q and k after the rotation, v, attention's output, the middle
 * of the residual stream, and both operands of SwiGLU. Norms, SwiGLU and the table, which has no operands, are
 * recomputed. The table is not kept from one block to the next, rotations are in place, and the gradients of SwiGLU
 * take the places of dy and up. */
static void test_rotary(void **state)
{
    (void)state;
    const int64_t few = 3, many = 8;
    zr_layout l = layout_of(ZR_BF16);
    zr_plan *less = plan_of(&(zr_model){.name = "rotary", .build = build_rotary, .config = &few}, &l),
            *more = plan_of(&(zr_model){.name = "rotary", .build = build_rotary, .config = &many}, &l);
    assert_int_equal(more->memory.category_bytes[ZR_CATEGORY_ACT] - less->memory.category_bytes[ZR_CATEGORY_ACT],
                     5 * B * T * ((4 * C + 2 * KV + 2 * WIDE) * 2 + 4 * HEADS));
    assert_int_equal(steps(more, ZR_STEP_RUN, "rmsnorm"), 16);
    assert_int_equal(steps(more, ZR_STEP_RUN, "swiglu"), 8);
    assert_int_equal(steps(more, ZR_STEP_RUN, "rotary_table"), 8);
    assert_int_equal(steps(more, ZR_STEP_RUN, "rotary"), 0);
    const zr_schedule *s = &more->schedule[ZR_SCHEDULE_TRAIN];
    int turns = 0, gates = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        const char *name = zr_graph_get_op(more->graph[ZR_SCHEDULE_TRAIN], s->step[i].op)->def->name;
        if (strcmp(name, "rotary") == 0) turns += buffer_of(s, i, 2) == buffer_of(s, i, 0);
        if (strcmp(name, "swiglu_dx") == 0)
            gates += buffer_of(s, i, 3) == buffer_of(s, i, 0) && buffer_of(s, i, 4) == buffer_of(s, i, 2);
    }
    assert_int_equal(turns, 4 * 8);
    assert_int_equal(gates, 8);
    /* The table has a quarter of the input's bytes, k a half: 19.75 inputs pass in the forward and 44.75 in the
     * backward pass. */
    zr__layer layer;
    assert_int_equal(zr__plan_layer(more, &layer), ZR_OK);
    assert_int_equal(layer.input_bytes, B * T * C * 2);
    assert_int_equal(2 * layer.passed_bytes, 129 * layer.input_bytes);
    assert_int_equal(layer.least_bytes, 53 * layer.input_bytes);
    zr_plan_destroy(&less);
    zr_plan_destroy(&more);
}

static const zr_bert_config encoder = {.num_hidden_layers = 4,
                                       .num_attention_heads = HEADS,
                                       .hidden_size = C,
                                       .intermediate_size = 4 * C,
                                       .max_position_embeddings = T,
                                       .vocab_size = V,
                                       .type_vocab_size = 2,
                                       .hidden_dropout_prob = 0.1,
                                       .attention_probs_dropout_prob = 0.1,
                                       .layer_norm_eps = 1e-12,
                                       .initializer_range = 0.02};

static zr__layer layer_of_encoder(const zr_bert_config *config, zr_layout l)
{
    zr__layer layer;
    l.predictions = 8;
    l.samples = 1;
    const zr_model model = zr_bert(config);
    zr_plan *plan = plan_of(&model, &l);
    assert_int_equal(zr__plan_layer(plan, &layer), ZR_OK);
    zr_plan_destroy(&plan);
    return layer;
}

/* Check the bytes that a layer of BERT keeps, and its passes. For each token it keeps the inputs of both norms,
 * attention's inputs and output, and the GELU's input: 10 C numbers, and one fp32 number a head. With norms after
 * additions, the last norm's output is the input of the next unit. It is recomputed there, but kept at stage 3, with
 * the statistics of its row, because its parameters would have to be gathered. */
static void test_encoder(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16};
    for (int pre = 0; pre < 2; pre++)
        for (int d = 0; d < 2; d++)
            for (int stage = 2; stage <= 3; stage++) {
                const int64_t e = zr_dtype_bytes(type[d]);
                zr_bert_config config = encoder;
                config.pre_layer_norm = pre;
                zr_layout l = layout_of(type[d]);
                l.ranks = 2;
                l.stage = stage;
                const zr__layer layer = layer_of_encoder(&config, l);
                /* whether no layer's output is kept in addition to the input of its norm */
                const bool crosses = pre || stage < 3;
                const int64_t kept = (crosses ? 10 : 11) * C * e + 4 * HEADS + (crosses ? 0 : 2 * 4);
                assert_int_equal(layer.kept_bytes, B * T * kept);
                assert_int_equal(layer.passed_bytes, B * T * C * e * (pre ? 77 : crosses ? 81 : 79));
                assert_int_equal(layer.least_bytes, B * T * C * e * (pre ? 57 : crosses ? 56 : 55));
                assert_int_equal(layer.input_bytes, B * T * C * e);
            }
}

/* Check a layer of BERT over four tensor-parallel ranks. A rank has a quarter of the columns of arrays of heads and of
 * the MLP's hidden layer, and only these bytes count. Sums over the ranks end a pass. With sequence parallelism a rank
 * has a quarter of the tokens, and also keeps the gathered inputs of attention and of the MLP. */
static void test_encoder_over_ranks(void **state)
{
    (void)state;
    zr_layout l = layout_of(ZR_F32);
    l.tensor = 4;
    zr__layer layer = layer_of_encoder(&encoder, l);
    assert_int_equal(layer.input_bytes, B * T * C * 4);
    assert_int_equal(layer.kept_bytes, B * T * (4 * C * 4 + HEADS));
    assert_int_equal(4 * layer.passed_bytes, 235 * layer.input_bytes);
    assert_int_equal(4 * layer.least_bytes, 131 * layer.input_bytes);

    l.sequence = ZR_SEQUENCE_KEEP;
    layer = layer_of_encoder(&encoder, l);
    assert_int_equal(layer.input_bytes, B * T * C);
    assert_int_equal(layer.kept_bytes, B * T * (18 * C + HEADS + 2 * 2));
}

/* Check that a recomputed op runs right before the first op that reads it, and that its wide output dies there. */
static void test_order(void **state)
{
    (void)state;
    zr_gpt2_config config = small(4);
    zr_layout l = layout_of(ZR_F32);
    zr_plan *plan = plan_gpt2(&config, &l, &plan_profile);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int seen = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (!s->step[i].replay) continue;
        const zr_op *again = zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], s->step[i].op);
        const zr_op *next = zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], s->step[i + 1].op);
        assert_int_equal(s->step[i + 1].kind, ZR_STEP_RUN);
        assert_string_equal(next->def->name, "linear_dw");
        assert_int_equal(next->in[0], again->out[0]);
        const zr_buffer *made = &s->buffer[s->use[s->step[i].uses + again->n_in].buffer];
        assert_int_equal(made->first_step, i);
        assert_int_equal(made->last_step, i + 1);
        seen++;
    }
    assert_int_equal(seen, 3 * 4);
    zr_plan_destroy(&plan);
}

/* Check at every stage, with every policy and layout, that recomputing cheap ops leaves the traffic the same and never
 * raises the bytes in use. */
static void test_costs_nothing(void **state)
{
    (void)state;
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    zr_gpt2_config config = small(5);
    zr_model model = zr_gpt2(&config), kept = cheap_kept(&model);
    for (int stage = 0; stage <= 3; stage++)
        for (int p = 0; p < 3; p++)
            for (int lean = 0; lean < 3; lean++) {
                zr_layout l = layout_of(ZR_BF16);
                l.ranks = 2;
                l.stage = stage;
                l.recompute = policy[p];
                l.states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                l.norm_first = l.two_pass = lean == 2;
                zr_plan *a = plan_of(&model, &l), *b = plan_of(&kept, &l);
                int64_t least = plan_bound(a, ZR_SCHEDULE_TRAIN), before = plan_bound(b, ZR_SCHEDULE_TRAIN);
                if (policy[p] == ZR_RECOMPUTE_UNIT)
                    assert_int_equal(least, before);
                else
                    assert_true(least < before && a->memory.total_bytes < b->memory.total_bytes);
                assert_memory_equal(&a->traffic, &b->traffic, sizeof a->traffic);
                assert_int_equal(steps(a, ZR_STEP_GATHER, NULL), steps(b, ZR_STEP_GATHER, NULL));
                if (policy[p] == ZR_RECOMPUTE_NONE) {
                    l.recompute = ZR_RECOMPUTE_KEEP; /* keeps what `kept` keeps */
                    zr_plan *c = plan_of(&model, &l);
                    assert_memory_equal(&b->memory, &c->memory, sizeof b->memory);
                    assert_int_equal(steps(c, ZR_STEP_RUN, NULL), steps(b, ZR_STEP_RUN, NULL));
                    for (int32_t i = 0; i < c->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++)
                        assert_false(c->schedule[ZR_SCHEDULE_TRAIN].step[i].replay);
                    zr_plan_destroy(&c);
                }
                zr_plan_destroy(&a);
                zr_plan_destroy(&b);
            }
}

/* ---- a user's cheap op: y = x + s, whose adjoint reads neither ------------------------------------ */

static zr_status offset_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(graph, op->in[0])->type;
    return ZR_OK;
}

static zr_status offset_ds_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(graph, op->out[0])->type;
    return ZR_OK;
}

static zr_cost offset_cost(const zr_graph *graph, const zr_op *op)
{
    return (zr_cost){.bytes = 8.0 * (double)zr_shape_elems(&zr_graph_value(graph, op->in[0])->type.shape)};
}

static const zr_op_def offset_ds = {.name = "offset_ds", .n_out = 1, .infer = offset_ds_infer, .cost = offset_cost};

static zr_status offset_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]), ds = zr_grad_begin(graph, op->in[1], NULL);
    zr_graph_op(graph, &offset_ds, NULL, 1, &dy, &ds);
    zr_grad_end(graph, op->in[1], ds);
    if (zr_grad_needed(graph, op->in[0])) zr_grad_pass(graph, op->in[0], dy);
    return ZR_OK;
}

static const zr_op_def offset = {
    .name = "offset", .n_out = 1, .infer = offset_infer, .adjoint = offset_adjoint, .cost = offset_cost, .cheap = true};

/* ---- models -------------------------------------------------------------------------------------- */

static zr_value parameter(zr_graph *g, int ndim, const char *name)
{
    return zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, ndim == 2 ? (zr_shape){2, {C, C}} : (zr_shape){1, {C}}, "%s",
                    name);
}

static zr_value dense(zr_graph *g, zr_value x, const char *name)
{
    return zr_linear(g, x, parameter(g, 2, name), ZR_NONE, false);
}

static zr_value shifted(zr_graph *g, zr_value x)
{
    zr_value y = ZR_NONE;
    zr_graph_op(g, &offset, NULL, 2, (zr_value[]){x, parameter(g, 1, "s")}, &y);
    return y;
}

static zr_value normed(zr_graph *g, zr_value x)
{
    return zr_layernorm(g, x, parameter(g, 1, "gain"), parameter(g, 1, "bias"), 1e-5);
}

/* Values that a body may read: x of another unit, an input that needs no gradient, norm parameters of another unit. */
typedef struct given {
    zr_value x, wide, gain, bias;
} given;

static zr_value plain(zr_graph *g, const given *in)
{
    return dense(g, zr_gelu(g, dense(g, in->x, "a")), "b");
}

static zr_value chain(zr_graph *g, const given *in)
{
    return dense(g, zr_gelu(g, zr_gelu(g, zr_gelu(g, dense(g, in->x, "a")))), "b");
}

static zr_value unread(zr_graph *g, const given *in)
{
    return zr_add(g, in->x, normed(g, dense(g, in->x, "a")));
}

static zr_value elsewhere(zr_graph *g, const given *in)
{
    zr_value y = zr_gelu(g, dense(g, in->x, "a"));
    zr_graph_unit(g, "next");
    return dense(g, y, "b");
}

static zr_value norm_elsewhere(zr_graph *g, const given *in)
{
    zr_value y = normed(g, zr_add(g, in->x, dense(g, in->x, "a")));
    zr_graph_unit(g, "next");
    return dense(g, y, "b");
}

static zr_value norm_in_two_units(zr_graph *g, const given *in)
{
    zr_value y = normed(g, zr_add(g, in->x, dense(g, in->x, "a")));
    zr_graph_unit(g, "next");
    zr_value z = dense(g, y, "b");
    zr_graph_unit(g, "after next");
    return zr_add(g, z, dense(g, y, "c"));
}

static zr_value input_dead(zr_graph *g, const given *in)
{
    return dense(g, shifted(g, zr_add(g, in->x, dense(g, in->x, "a"))), "b");
}

static zr_value input_kept(zr_graph *g, const given *in)
{
    zr_value h = zr_add(g, in->x, dense(g, in->x, "a")), n = dense(g, normed(g, h), "b");
    return zr_add(g, n, dense(g, shifted(g, h), "c"));
}

static zr_value input_dies_before(zr_graph *g, const given *in)
{
    zr_value h = zr_add(g, in->x, dense(g, in->x, "a")), y = dense(g, shifted(g, h), "c");
    return zr_add(g, y, dense(g, normed(g, h), "b"));
}

static zr_value foreign_parameters(zr_graph *g, const given *in)
{
    return dense(g, zr_layernorm(g, dense(g, in->x, "a"), in->gain, in->bias, 1e-5), "b");
}

/* Build a body whose backward ops read no parameter, so that at stage 3 a recomputed op that reads one would need a
 * gather of its own. */
static zr_value not_gathered(zr_graph *g, const given *in)
{
    zr_value y = dense(g, in->wide, "a");
    return zr_add(g, y, zr_gelu(g, shifted(g, in->wide)));
}

static const struct body {
    const char *name;
    zr_value (*build)(zr_graph *, const given *);
    int64_t gelu, layernorm, offset; /* number of recomputed ops of each kind */
    int64_t whole;                   /* number of further norms that are recomputed where parameters stay whole */
} bodies[] = {
    {"plain", plain, 1, 0, 0, 0},
    {"chain", chain, 2, 0, 0, 0}, /* every other GELU */
    {"unread", unread, 0, 0, 0, 0},
    {"elsewhere", elsewhere, 1, 0, 0, 0},
    {"norm elsewhere", norm_elsewhere, 0, 0, 0, 1},
    {"norm in two units", norm_in_two_units, 0, 0, 0, 0},
    {"input dead", input_dead, 0, 0, 0, 0},
    {"input kept", input_kept, 0, 1, 1, 0},
    {"input dies before", input_dies_before, 0, 1, 0, 0},
    {"foreign parameters", foreign_parameters, 0, 0, 0, 0},
    {"not gathered", not_gathered, 0, 0, 0, 0},
};

static void build(zr_graph *g, const void *config)
{
    const struct body *body = config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    zr_shape tokens = {2, {spec->batch, spec->seq}}, wide = {3, {spec->batch, spec->seq, C}};
    given in = {.wide = zr_input(g, "wide", spec->dtype, wide)};
    zr_graph_unit(g, "tables");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {V, C}}, "table");
    in.gain = parameter(g, 1, "gain of tables");
    in.bias = parameter(g, 1, "bias of tables");
    in.x = dense(g, zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table), "mixed");
    zr_graph_unit(g, "body");
    zr_value y = zr_add(g, in.x, body->build(g, &in));
    zr_graph_unit(g, "head");
    y = zr_linear(g, zr_gelu(g, y), table, ZR_NONE, true);
    zr_graph_losses(g, zr_cross_entropy(g, y, zr_input(g, "targets", ZR_I32, tokens)));
}

static void test_which(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int stage = 0; stage <= 3; stage += 3) {
            zr_model model = {.name = bodies[i].name, .build = build, .config = &bodies[i]}, kept = cheap_kept(&model);
            zr_layout l = layout_of(ZR_F32);
            l.ranks = 2;
            l.stage = stage;
            l.prefetch_elems = 0;
            zr_plan *plan = plan_of(&model, &l), *before = plan_of(&kept, &l);
            int64_t gelu = steps(plan, ZR_STEP_RUN, "gelu"), norm = steps(plan, ZR_STEP_RUN, "layernorm"),
                    user = steps(plan, ZR_STEP_RUN, "offset");
            if (gelu != bodies[i].gelu || norm != bodies[i].layernorm + (stage < 3) * bodies[i].whole ||
                user != bodies[i].offset)
                fail_msg("%s: gelu %d, layernorm %d, offset %d times again", bodies[i].name, (int)gelu, (int)norm,
                         (int)user);
            assert_true(plan_bound(plan, ZR_SCHEDULE_TRAIN) <= plan_bound(before, ZR_SCHEDULE_TRAIN));
            assert_memory_equal(&plan->traffic, &before->traffic, sizeof plan->traffic);
            zr_plan_destroy(&plan);
            zr_plan_destroy(&before);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_encoder),
        cmocka_unit_test(test_encoder_over_ranks),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_costs_nothing),
        cmocka_unit_test(test_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
