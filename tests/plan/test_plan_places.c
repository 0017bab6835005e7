#include "plan/list/list.h"
//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc
/* Places of values: when an output may take the place of an input, that the proof notices a wrong place, the output of
 * decoding; sizes that do not fit, and planning while each allocation fails in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <zr.h>

enum { T = 4, C = 8, V = 7 };

static int allocs_left = INT32_MAX;
void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return allocs_left-- > 0 ? __real_zr_alloc(bytes) : NULL;
}

/* ---- a user's op: two sums, each may overwrite the first operand ------------ */

static zr_status both_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = out[1] = zr_graph_value(graph, op->in[0])->type;
    return ZR_OK;
}

static zr_cost both_cost(const zr_graph *graph, const zr_op *op)
{
    (void)graph;
    (void)op;
    return (zr_cost){0};
}

static const zr_op_def both = {.name = "both", .n_out = 2, .infer = both_infer, .cost = both_cost, .in_place = {1, 1}};

/* Build y, z = both(a, b). `config` determines which values a and b are, and so which operands may be overwritten. */
static void build(zr_graph *g, const void *config)
{
    const char *asked = config;
    zr_shape tokens = {2, {1, zr_graph_get_spec(g)->seq}}, wide = {3, {1, zr_graph_get_spec(g)->seq, C}};
    zr_graph_unit(g, "all");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {V, C}}, "table");
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table);
    zr_value a = x, b = x;
    if (strcmp(asked, "dies") == 0) b = zr_gelu(g, x);
    if (strcmp(asked, "lives") == 0) b = zr_gelu(g, x);
    if (strcmp(asked, "input") == 0) a = zr_input(g, "wide", zr_graph_get_spec(g)->dtype, wide);
    zr_value out[2] = {ZR_NONE, ZR_NONE};
    zr_graph_op(g, &both, NULL, 2, (zr_value[]){a, b}, out);
    zr_value y = zr_add(g, out[0], out[1]);
    if (strcmp(asked, "lives") == 0) y = zr_add(g, y, x);
    zr_graph_losses(g,
                    zr_cross_entropy(g, zr_linear(g, y, table, ZR_NONE, true), zr_input(g, "targets", ZR_I32, tokens)));
}

static zr_layout layout_of(void)
{
    zr_layout l = zr_layout_default();
    l.seq = T;
    l.train = false;
    return l;
}

static zr_status plan_status(const zr_model *model, const zr_layout *layout, zr_plan **plan)
{
    zr_profile profile = {
        .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 16, .scratch_bytes = zr_device_cpu_scratch}};
    return zr_plan_create(model, layout, &profile, plan);
}

static zr_plan *plan_of(const zr_model *model, const zr_layout *layout)
{
    zr_plan *plan = NULL;
    if (plan_status(model, layout, &plan) != ZR_OK) fail_msg("plan: %s", zr_error_message());
    if (zr_plan_check(plan) != ZR_OK) fail_msg("check: %s", zr_error_message());
    return plan;
}

static const zr_use *uses_of(const zr_plan *plan, const char *op)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_EVAL];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_RUN &&
            strcmp(zr_graph_get_op(plan->graph[ZR_SCHEDULE_EVAL], s->step[i].op)->def->name, op) == 0)
            return s->use + s->step[i].uses;
    fail_msg("no step runs %s", op);
    return NULL;
}

/* Check that an output takes the place only of an activation that dies at the op and is only one of its operands, and
 * that only one output takes it. */
static void test_in_place(void **state)
{
    (void)state;
    static const char *const asked[] = {"dies", "lives", "input", "twice"};
    for (int i = 0; i < 4; i++) {
        zr_model model = {.name = "places", .build = build, .config = asked[i]};
        zr_layout layout = layout_of();
        zr_plan *plan = plan_of(&model, &layout);
        const zr_use *use = uses_of(plan, "both"); /* a, b, y, z */
        assert_int_equal(use[2].buffer == use[0].buffer, i == 0);
        assert_int_not_equal(use[3].buffer, use[0].buffer);
        assert_int_not_equal(use[3].buffer, use[2].buffer);
        zr_plan_destroy(&plan);
    }
}

/* ---- parts of a parameter's gradient ---- */

/* Infer the type of weigh_dw, which may write the sum over its first operand, the sum of earlier contributions. */
static zr_status whole_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(graph, op->out[0])->type;
    return ZR_OK;
}

static const zr_op_def weigh_dw = {
    .name = "weigh_dw", .n_out = 1, .infer = whole_infer, .cost = both_cost, .in_place = {1}};
static const zr_op_def look = {.name = "look", .n_out = 1, .infer = both_infer, .cost = both_cost};

/* Contribute the gradient of w. attr.i[0] is 1 if weigh_dw reads the earlier contribution a second time, and 2 if
 * another op reads it too. */
static zr_status weigh_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]), earlier = ZR_NONE, seen = ZR_NONE;
    zr_value dw = zr_grad_begin(graph, op->in[1], &earlier);
    if (earlier != ZR_NONE && op->attr.i[0] == 2) zr_graph_op(graph, &look, NULL, 1, &earlier, &seen);
    if (earlier != ZR_NONE && op->attr.i[0] == 1) seen = earlier;
    zr_graph_op(graph, &weigh_dw, NULL, 3, (zr_value[]){earlier, dy, seen}, &dw);
    zr_grad_end(graph, op->in[1], dw);
    zr_grad_pass(graph, op->in[0], dy);
    return ZR_OK;
}

static const zr_op_def weigh = {
    .name = "weigh", .n_out = 1, .infer = both_infer, .adjoint = weigh_adjoint, .cost = both_cost};

/* Build a model with one parameter in two ops: its gradient has two parts. */
static void build_parts(zr_graph *g, const void *config)
{
    zr_shape tokens = {2, {1, zr_graph_get_spec(g)->seq}};
    zr_graph_unit(g, "all");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {V, C}}, "table");
    zr_value w = zr_param(g, (zr_init){ZR_INIT_ONE, 0}, (zr_shape){1, {C}}, "w");
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), table);
    for (int i = 0; i < 2; i++) {
        zr_value y = ZR_NONE;
        zr_graph_op(g, &weigh, config, 2, (zr_value[]){x, w}, &y);
        x = y;
    }
    zr_graph_losses(g, zr_cross_entropy(g, x, zr_input(g, "targets", ZR_I32, tokens)));
}

/* Check that the first part of a gradient is made at the place of the whole if its only reader adds the rest in place,
 * but not if another op, or that op a second time, reads it too. */
static void test_parts_of_a_gradient(void **state)
{
    (void)state;
    for (int64_t reads = 0; reads <= 2; reads++) {
        const zr_op_attr attr = {.i = {reads}};
        zr_model model = {.name = "parts", .build = build_parts, .config = &attr};
        zr_layout layout = layout_of();
        layout.train = true;
        layout.eval = false;
        layout.optimizer = zr_sgd(0, false, 0);
        zr_plan *plan = plan_of(&model, &layout);
        const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        const zr_value whole = zr_graph_param(g, 1)->grad;
        const zr_value part = zr_graph_get_op(g, zr_graph_value(g, whole)->producer)->in[0];
        assert_int_equal(zr_graph_value(g, part)->param, 1);
        assert_int_equal(s->value[part].buffer == s->value[whole].buffer, reads == 0);
        zr_plan_destroy(&plan);
    }
}

/* Check that an output over an operand that is read later is noticed: although all uses are in order, the proof names
 * the value that was overwritten. */
static void test_wrong_place_is_noticed(void **state)
{
    (void)state;
    zr_model model = {.name = "places", .build = build, .config = "lives"};
    zr_layout layout = layout_of();
    zr_plan *plan = plan_of(&model, &layout);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_EVAL];
    int32_t right = uses_of(plan, "both")[2].buffer, wrong = uses_of(plan, "both")[0].buffer;
    for (int32_t u = 0; u < s->n_uses; u++)
        if (s->use[u].buffer == right) s->use[u].buffer = wrong;
    for (int32_t v = 0; v < zr_graph_values(plan->graph[ZR_SCHEDULE_EVAL]); v++)
        if (s->value[v].buffer == right) s->value[v].buffer = wrong;
    s->buffer[wrong].offset =
        plan->space_bytes[ZR_SPACE_DEVICE]; /* the buffer lives longer now: move it out of the way of all others */
    plan->space_bytes[ZR_SPACE_DEVICE] += s->buffer[wrong].bytes;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "was given to value"));
    zr_plan_destroy(&plan);
}

/* Check that only ops that the losses depend on are run. */
static void build_idle(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "all");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {V, C}}, "table");
    zr_value ids = zr_input(g, "ids", ZR_I32, (zr_shape){2, {1, zr_graph_get_spec(g)->seq}});
    zr_value x = zr_embedding(g, ids, table);
    zr_gelu(g, zr_gelu(g, x));
    zr_graph_losses(g, zr_cross_entropy(g, x, ids));
}

static void test_idle_ops(void **state)
{
    (void)state;
    zr_model model = {.name = "idle", .build = build_idle};
    zr_layout layout = layout_of();
    zr_plan *plan = plan_of(&model, &layout);
    int runs = 0;
    for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_EVAL].n_steps; i++)
        runs += plan->schedule[ZR_SCHEDULE_EVAL].step[i].kind == ZR_STEP_RUN;
    assert_int_equal(zr_graph_ops(plan->graph[ZR_SCHEDULE_EVAL]), 4);
    assert_int_equal(runs, 2);
    zr_plan_destroy(&plan);
}

/* ---- decoding ---- */

/* Build a model whose output is not computed last: its losses, which nothing reads, come after it. */
static void build_early(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "all");
    zr_value table = zr_param(g, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {V, C}}, "table");
    zr_value token = zr_input(g, "token", ZR_I32, (zr_shape){2, {1, 1}}), x = zr_embedding(g, token, table);
    zr_graph_output(g, zr_linear(g, x, table, ZR_NONE, true));
    for (int i = 0; i < 4; i++)
        x = zr_gelu(g, zr_linear(g, zr_linear(g, x, table, ZR_NONE, true), table, ZR_NONE, false));
    zr_graph_losses(g, zr_cross_entropy(g, x, token));
}

static void test_output_is_kept(void **state)
{
    (void)state;
    zr_model model = {.name = "early", .build = build_early};
    zr_layout layout = layout_of();
    layout.eval = false;
    layout.decode_len = 3;
    zr_plan *plan = plan_of(&model, &layout);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_DECODE];
    int32_t output = s->value[zr_graph_get_output(plan->graph[ZR_SCHEDULE_DECODE])].buffer;
    for (int32_t b = plan->n_persistent; b < s->n_buffers; b++)
        if (b != output && s->buffer[b].last_step > s->buffer[output].first_step)
            assert_int_not_equal(s->buffer[b].offset, s->buffer[output].offset);
    s->buffer[s->n_buffers - 1].offset = s->buffer[output].offset;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "share bytes while both may be in use"));
    zr_plan_destroy(&plan);
}

/* ---- sizes ---- */

static const zr_gpt2_config tiny = {.n_layer = 2,
                                    .n_head = 2,
                                    .n_embd = 8,
                                    .n_positions = T,
                                    .vocab_size = V,
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.02};

static zr_layout training(int stage, int ranks)
{
    zr_layout l = layout_of();
    l.train = true;
    l.stage = stage;
    l.ranks = ranks;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    return l;
}

static void expect_refused(const zr_gpt2_config *config, zr_layout layout, const char *text)
{
    zr_model model = zr_gpt2(config);
    zr_plan *plan = NULL;
    assert_int_equal(plan_status(&model, &layout, &plan), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

static void test_sizes_that_do_not_fit(void **state)
{
    (void)state;
    zr_layout l = training(2, 3);
    l.reduce_bucket_elems = l.gather_bucket_elems = INT64_MAX; /* the bucket holds the whole model */
    zr_model model = zr_gpt2(&tiny);
    zr_plan_destroy(&(zr_plan *){plan_of(&model, &l)});
    assert_true(zr__plan_bucket_elems(INT64_MAX, 3, ZR_SHARD_ALIGN) > INT64_MAX - 2 * 3 * ZR_SHARD_ALIGN);

    const zr_device_facts facts = {.threads = 2, .panel_bytes = 1 << 20};
    const zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_graph_unit(graph, "all");
    zr_value w = zr_param(graph, (zr_init){ZR_INIT_NORMAL, 1}, (zr_shape){2, {64, 64}}, "w");
    zr_value x = zr_input(graph, "x", ZR_F32, (zr_shape){2, {(int64_t)1 << 50, 64}});
    zr_linear(graph, x, w, ZR_NONE, true);
    assert_true(zr_device_cpu_scratch(&facts, graph, zr_graph_get_op(graph, 0)) > INT64_MAX / 2);
    zr_graph_destroy(&graph);

    zr_gpt2_config vast = tiny;
    vast.n_embd = 300000000;
    expect_refused(&vast, training(0, 2), "do not fit 63 bits");
    l = training(0, 2);
    l.accum = INT64_MAX;
    expect_refused(&tiny, l, "9223372036854775807 micro-batches");
    zr_gpt2_config cut = tiny; /* in many equal buckets */
    cut.n_embd = 256;
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t bucket = 32; bucket <= 4096; bucket *= 2)
            for (int shift = 0; shift <= 1; shift++) {
                l = training(stage, 2);
                l.accum = INT64_MAX / 2 + 1;
                if (shift) l.accum = INT64_MAX;
                l.reduce_bucket_elems = l.gather_bucket_elems = bucket;
                expect_refused(&cut, l, "micro-batches");
            }
    l = training(0, 1);
    l.batch = INT64_MAX / 4 / T / 32; /* each value fits, all values together do not */
    expect_refused(&tiny, l, "do not fit 63 bits");
}

/* Check that the buckets of a step are only counted. */
static void test_buckets_are_no_steps(void **state)
{
    (void)state;
    zr_gpt2_config wide = tiny;
    wide.n_embd = 1024;
    wide.vocab_size = 100000;
    zr_layout l = training(3, 2);
    l.gather_bucket_elems = l.reduce_bucket_elems = 1;
    zr_model model = zr_gpt2(&wide);
    zr_plan *plan = plan_of(&model, &l);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t moves = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (zr_step_traits_of(step->kind).move == ZR_MOVE_NONE || step->unit < 0) continue;
        assert_int_equal(zr_step_buckets(step), plan->unit[step->unit].shard_elems / ZR_SHARD_ALIGN);
        assert_int_equal(step->range.count, plan->unit[step->unit].shard_elems);
        moves++;
    }
    assert_true(s->n_steps < 200 && moves > 8);
    zr_plan_destroy(&plan);
}

/* Check that planning ends with an error, and leaks nothing, whichever allocation fails. */
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&tiny);
    zr_layout l = training(3, 2);
    l.decode_len = T;
    int n = 0;
    for (zr_status status = ZR_ERR_MEMORY; status != ZR_OK; n++) {
        zr_plan *plan = NULL;
        allocs_left = n;
        status = plan_status(&model, &l, &plan);
        allocs_left = INT32_MAX;
        if (status == ZR_OK)
            zr_plan_destroy(&plan);
        else
            assert_int_equal(status, ZR_ERR_MEMORY);
        assert_true(n < 1000);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_parts_of_a_gradient),
        cmocka_unit_test(test_wrong_place_is_noticed),
        cmocka_unit_test(test_output_is_kept),
        cmocka_unit_test(test_idle_ops),
        cmocka_unit_test(test_sizes_that_do_not_fit),
        cmocka_unit_test(test_buckets_are_no_steps),
        cmocka_unit_test(test_each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
