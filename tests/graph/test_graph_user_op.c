//TEST timeout=20
/* A user's op defined in the user's own file with public headers only: y = s * x with a learned scale s for each
 * column, its adjoint, and adjoints that break the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/ops.h"
#include "graph_interp.h"

enum { B = 2, T = 3, C = 5 };

/* ---- the op ---------------------------------------------------------------------------------- */

static zr_status scale_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_type *x = &zr_graph_value(graph, op->in[0])->type, *s = &zr_graph_value(graph, op->in[1])->type;
    ZR_CHECK(zr_shape_elems(&s->shape) == zr_shape_cols(&x->shape), ZR_ERR_SHAPE,
             "scale: %lld factors for %lld columns", (long long)zr_shape_elems(&s->shape),
             (long long)zr_shape_cols(&x->shape));
    out[0] = *x;
    return ZR_OK;
}

static zr_cost scale_cost(const zr_graph *graph, const zr_op *op)
{
    double elems = (double)zr_shape_elems(&zr_graph_value(graph, op->in[0])->type.shape);
    return (zr_cost){.flops = elems, .bytes = 8 * elems};
}

static zr_status scale_ds_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(graph, op->out[0])->type;
    return ZR_OK;
}

static const zr_op_def scale_dx = {
    .name = "scale_dx", .n_out = 1, .infer = scale_infer, .cost = scale_cost, .in_place = {1}};
static const zr_op_def scale_ds = {.name = "scale_ds", .n_out = 1, .infer = scale_ds_infer, .cost = scale_cost};

static zr_status scale_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], s = op->in[1], dy = zr_grad_of(graph, op->out[0]), earlier = ZR_NONE;
    if (zr_grad_needed(graph, s)) {
        zr_value ds = zr_grad_begin(graph, s, &earlier);
        zr_graph_op(graph, &scale_ds, NULL, 3, (zr_value[]){dy, x, earlier}, &ds);
        zr_grad_end(graph, s, ds);
    }
    if (zr_grad_needed(graph, x)) {
        zr_value dx = zr_grad_begin(graph, x, NULL);
        zr_graph_op(graph, &scale_dx, NULL, 2, (zr_value[]){dy, s}, &dx);
        zr_grad_end(graph, x, dx);
    }
    return ZR_OK;
}

static const zr_op_def scale = {
    .name = "scale", .n_out = 1, .infer = scale_infer, .adjoint = scale_adjoint, .cost = scale_cost};

static void run_scale(interp *it, const zr_op *op)
{
    int64_t n = interp_elems(it, op->in[0]), cols = interp_elems(it, op->in[1]);
    for (int64_t i = 0; i < n; i++) interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * interp_in(it, op, 1)[i % cols];
}

static void run_scale_ds(interp *it, const zr_op *op)
{
    double *ds = interp_sum(it, op, 0, interp_in(it, op, 2));
    int64_t n = interp_elems(it, op->in[0]), cols = interp_elems(it, op->out[0]);
    for (int64_t i = 0; i < n; i++) ds[i % cols] += interp_in(it, op, 0)[i] * interp_in(it, op, 1)[i];
}

static const interp_kernel kernels[] = {
    {"scale", run_scale}, {"scale_dx", run_scale}, {"scale_ds", run_scale_ds}, {NULL, NULL}};

/* ---- models with it ---------------------------------------------------------------------------- */

static zr_graph *graph_new(void)
{
    zr_graph_spec spec = {
        .mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .dtype = ZR_BF16, .grad_dtype = ZR_BF16, .tensor = 1};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_graph_unit(graph, "all");
    return graph;
}

static zr_value apply(zr_graph *graph, const zr_op_def *def, zr_value x, zr_value s)
{
    zr_value y = ZR_NONE;
    zr_graph_op(graph, def, NULL, 2, (zr_value[]){x, s}, &y);
    return y;
}

/* Build a model: table look-up, `first` and then `scale` by the same parameter s, losses. */
static zr_graph *model(const zr_op_def *first)
{
    zr_graph *graph = graph_new();
    zr_init init = {ZR_INIT_NORMAL, 1};
    zr_value s = zr_param(graph, init, (zr_shape){1, {C}}, "s");
    zr_value table = zr_param(graph, init, (zr_shape){2, {7, C}}, "table");
    zr_value x = zr_embedding(graph, zr_input(graph, "tokens", ZR_I32, (zr_shape){2, {B, T}}), table);
    x = apply(graph, &scale, zr_gelu(graph, apply(graph, first, x, s)), s);
    zr_value targets = zr_input(graph, "targets", ZR_I32, (zr_shape){2, {B, T}});
    zr_graph_losses(graph, zr_cross_entropy(graph, x, targets));
    return graph;
}

static void test_gradients(void **state)
{
    (void)state;
    zr_graph *graph = model(&scale);
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    const zr_value_info *ds = zr_graph_value(graph, zr_graph_param(graph, 0)->grad);
    assert_int_equal(ds->kind, ZR_VALUE_GRAD);
    assert_int_equal(ds->type.dtype, ZR_BF16);
    interp it = interp_create(graph, kernels);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < B * T; i++) it.data[zr_graph_input(graph, k)][i] = (2 * i + k) % C;
    assert_true(interp_gradient_error(&it, 100) < 1e-7);
    interp_destroy(&it);
    zr_graph_destroy(&graph);
}

static void expect(zr_graph *graph, zr_status status, const char *text)
{
    zr_status given = zr_graph_finish(graph);
    if (!strstr(zr_error_message(), text)) print_message("%s\n", zr_error_message());
    assert_int_equal(given, status);
    assert_non_null(strstr(zr_error_message(), text));
    zr_graph_destroy(&graph);
}

static void test_shape_error(void **state)
{
    (void)state;
    zr_graph *graph = graph_new();
    zr_value x = zr_input(graph, "x", ZR_BF16, (zr_shape){2, {B, T}});
    zr_value s = zr_param(graph, (zr_init){ZR_INIT_ONE, 0}, (zr_shape){1, {C}}, "s");
    assert_int_equal(apply(graph, &scale, x, s), ZR_NONE);
    expect(graph, ZR_ERR_SHAPE, "unit \"all\": scale: 5 factors for 3 columns");
}

/* ---- adjoints that break the rules --------------------------------------------------------------- */

static zr_status forgetful_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_grad_pass(graph, op->in[0], zr_grad_of(graph, op->out[0]));
    return ZR_OK;
}

static void test_a_missing_contribution_is_found(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.name = "forgetful";
    def.adjoint = forgetful_adjoint;
    expect(model(&def), ZR_ERR_STATE, "adjoint of forgetful: operand 1 was given 0 gradients; wanted 1");
}

static zr_status greedy_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    for (int i = 0; i < 2; i++) zr_grad_pass(graph, op->in[0], dy);
    return ZR_OK;
}

static void test_a_contribution_too_many_is_found(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.adjoint = greedy_adjoint;
    expect(model(&def), ZR_ERR_STATE, "more contributions than the 1 uses");
}

static zr_status wrong_type_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], s = op->in[1], dy = zr_grad_of(graph, op->out[0]);
    zr_value ds = zr_grad_begin(graph, s, NULL);
    zr_graph_op(graph, &scale_dx, NULL, 2, (zr_value[]){dy, s}, &ds); /* has x's shape instead of s's */
    zr_grad_end(graph, s, ds);
    zr_grad_pass(graph, x, dy);
    return ZR_OK;
}

static void test_a_gradient_of_another_type_is_found(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.adjoint = wrong_type_adjoint;
    expect(model(&def), ZR_ERR_SHAPE, "scale_dx: output 0 is BF16 (2, 3, 5); the gradient that it becomes is F32 (5)");
}

static zr_status losses_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_grad_losses(graph, op->in[0], op->in[1]); /* x is not the graph's losses: nothing happens */
    zr_grad_losses(graph, zr_graph_get_loss_term(graph, 0), op->in[0]);
    return ZR_OK;
}

static void test_losses_of_another_type_are_found(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.adjoint = losses_adjoint;
    expect(model(&def), ZR_ERR_ARG, "is not of their type");
    zr_graph *graph = model(&scale);
    zr_grad_losses(graph, zr_graph_get_loss_term(graph, 0), zr_graph_get_loss_term(graph, 0));
    expect(graph, ZR_ERR_STATE, "only an adjoint");
}

static zr_status failing_adjoint(zr_graph *graph, const zr_op *op)
{
    (void)graph;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "%s has no adjoint for this", op->def->name);
}

static void test_an_adjoint_may_fail(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.adjoint = failing_adjoint;
    expect(model(&def), ZR_ERR_UNSUPPORTED, "unit \"all\": scale has no adjoint for this");
}

/* Check that an op without an adjoint stops gradients: its inputs get none. */
static void test_no_adjoint_stops_gradients(void **state)
{
    (void)state;
    zr_op_def def = scale;
    def.adjoint = NULL;
    zr_graph *graph = model(&def);
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    assert_int_not_equal(zr_graph_param(graph, 0)->grad, ZR_NONE);
    assert_int_equal(zr_graph_param(graph, 1)->grad, ZR_NONE);
    zr_graph_destroy(&graph);
}

/* ---- misuse of building ------------------------------------------------------------------------- */

static void test_values_are_written_once(void **state)
{
    (void)state;
    zr_graph *graph = graph_new();
    zr_value x = zr_input(graph, "x", ZR_BF16, (zr_shape){2, {B, C}});
    zr_value s = zr_param(graph, (zr_init){ZR_INIT_ONE, 0}, (zr_shape){1, {C}}, "s");
    zr_value y = apply(graph, &scale, x, s);
    zr_graph_op(graph, &scale, NULL, 2, (zr_value[]){x, s}, &y);
    expect(graph, ZR_ERR_STATE, "scale: output 0 is already written");
}

static void test_values_of_this_graph_only(void **state)
{
    (void)state;
    zr_graph *graph = graph_new();
    apply(graph, &scale, 17, 18);
    expect(graph, ZR_ERR_ARG, "scale: operand 0 is 17, which is no value of this graph");
}

static void test_incomplete_definition(void **state)
{
    (void)state;
    static const zr_op_def half = {.name = "half", .n_out = 1, .infer = scale_infer};
    zr_graph *graph = graph_new();
    apply(graph, &half, 0, 0);
    expect(graph, ZR_ERR_ARG, "half: name, infer and cost must be given");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_shape_error),
        cmocka_unit_test(test_a_missing_contribution_is_found),
        cmocka_unit_test(test_a_contribution_too_many_is_found),
        cmocka_unit_test(test_a_gradient_of_another_type_is_found),
        cmocka_unit_test(test_losses_of_another_type_are_found),
        cmocka_unit_test(test_an_adjoint_may_fail),
        cmocka_unit_test(test_no_adjoint_stops_gradients),
        cmocka_unit_test(test_values_are_written_once),
        cmocka_unit_test(test_values_of_this_graph_only),
        cmocka_unit_test(test_incomplete_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
