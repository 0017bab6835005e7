//TEST timeout=60
/* Adjoints: the gradients of every op and of a whole model against finite differences in double, and the rules for
 * values and for parameters' gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/models.h"
#include "graph_interp.h"

/* Finite differences use the five-point formula with step 1e-3 in double: truncation and rounding are both near 1e-12
 * of the loss, gradients are compared down to 1e-4. */
#define TOLERANCE 1e-7

enum { B = 2, T = 3, C = 5, V = 7 };

static const zr_init NORMAL = {ZR_INIT_NORMAL, 0.02};

static zr_shape shape(int ndim, int64_t a, int64_t b, int64_t c)
{
    return (zr_shape){ndim, {a, b, c}};
}

static zr_graph *graph_new(zr_dtype dtype, zr_dtype grad_dtype)
{
    zr_graph_spec spec = {
        .mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .dtype = dtype, .grad_dtype = grad_dtype, .tensor = 1};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_graph_unit(graph, "all");
    return graph;
}

static zr_value matrix(zr_graph *graph, int64_t rows, int64_t cols, const char *name)
{
    return zr_param(graph, NORMAL, shape(2, rows, cols, 0), "%s", name);
}

static zr_value vector(zr_graph *graph, int64_t n, const char *name)
{
    return zr_param(graph, NORMAL, shape(1, n, 0, 0), "%s", name);
}

/* Return a value of shape (B, T, C) that depends on a parameter. */
static zr_value source(zr_graph *graph)
{
    zr_value ids = zr_input(graph, "tokens", ZR_I32, shape(2, B, T, 0));
    return zr_embedding(graph, ids, matrix(graph, V, C, "table"));
}

/* Make cross entropy over x's last dimension the losses, so that each element of x has another gradient. */
static void sink(zr_graph *graph, zr_value x)
{
    zr_value targets = zr_input(graph, "targets", ZR_I32, shape(2, B, T, 0));
    zr_graph_losses(graph, zr_cross_entropy(graph, x, targets));
}

/* Fill the inputs: tokens repeat, so that the gradients of a table's rows add up; one target is -1, to be ignored. */
static void fill_inputs(interp *it)
{
    for (int32_t k = 0; k < zr_graph_inputs(it->graph); k++) {
        zr_value input = zr_graph_input(it->graph, k);
        for (int64_t i = 0; i < interp_elems(it, input); i++) it->data[input][i] = (double)((3 * i + k) % 4);
        if (k == 1) it->data[input][2] = -1;
    }
}

static void check_gradients(zr_graph *graph, const interp_kernel *extra, int64_t samples)
{
    interp it = interp_create(graph, extra);
    fill_inputs(&it);
    double error = interp_gradient_error(&it, samples);
    if (!(error < TOLERANCE)) print_message("error %g\n", error);
    assert_true(error < TOLERANCE);
    interp_destroy(&it);
}

static void finish_and_check(zr_graph *graph)
{
    zr_status status = zr_graph_finish(graph);
    if (status != ZR_OK) print_message("%s\n", zr_error_message());
    assert_int_equal(status, ZR_OK);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

static int count_ops(const zr_graph *graph, const char *name)
{
    int n = 0;
    for (int32_t i = 0; i < zr_graph_ops(graph); i++) n += strcmp(zr_graph_get_op(graph, i)->def->name, name) == 0;
    return n;
}

static const zr_value_info *grad_info(const zr_graph *graph, int32_t param)
{
    return zr_graph_value(graph, zr_graph_param(graph, param)->grad);
}

/* ---- each op --------------------------------------------------------------------------------- */

static void test_embedding_and_cross_entropy(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    sink(graph, source(graph));
    finish_and_check(graph);
}

static void test_position(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value table = matrix(graph, T + 2, C, "places"); /* two rows are never used */
    sink(graph, zr_position(graph, source(graph), table));
    finish_and_check(graph);
}

static void test_linear(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        bool transposed = variant & 1;
        zr_graph *graph = graph_new(ZR_F32, ZR_F32);
        zr_value w = transposed ? matrix(graph, V, C, "w") : matrix(graph, C, V, "w");
        zr_value b = variant & 2 ? vector(graph, V, "b") : ZR_NONE;
        sink(graph, zr_linear(graph, source(graph), w, b, transposed));
        finish_and_check(graph);
    }
}

/* Check an op that computes both the head and its losses: with a separate weight or with the table, and with its losses
 * as the graph's or read by another op. */
static void test_linear_cross_entropy(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        bool tied = variant & 1, read = variant & 2;
        zr_graph *graph = graph_new(ZR_F32, ZR_F32);
        zr_value ids = zr_input(graph, "tokens", ZR_I32, shape(2, B, T, 0)), table = matrix(graph, V, C, "table");
        zr_value x = zr_gelu(graph, zr_embedding(graph, ids, table)), w = tied ? table : matrix(graph, V + 2, C, "w");
        zr_value targets = zr_input(graph, "targets", ZR_I32, shape(2, B, T, 0));
        zr_value losses = zr_linear_cross_entropy(graph, x, w, targets);
        zr_graph_losses(graph, read ? zr_gelu(graph, losses) : losses); /* gelu gives each loss another gradient */
        assert_int_equal(zr_graph_finish(graph), ZR_OK);
        zr_value taken = zr_graph_get_loss_term(graph, 0);
        const zr_op *from = zr_graph_get_op(graph, zr_graph_value(graph, taken)->producer);
        assert_string_equal(from->def->name, read ? "gelu" : "linear_cross_entropy_dx");
        check_gradients(graph, NULL, 1000);
        zr_graph_destroy(&graph);
    }
}

static void test_layernorm(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value gain = vector(graph, C, "gain"), bias = vector(graph, C, "bias");
    sink(graph, zr_layernorm(graph, source(graph), gain, bias, 1e-5));
    finish_and_check(graph);
}

static void test_gelu(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    sink(graph, zr_gelu(graph, source(graph)));
    finish_and_check(graph);
}

static void test_add(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value x = source(graph);
    sink(graph, zr_add(graph, x, zr_gelu(graph, x)));
    finish_and_check(graph);
}

static void test_dropout(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    sink(graph, zr_dropout(graph, source(graph), 0.4));
    assert_int_equal(count_ops(graph, "dropout"), 1);
    finish_and_check(graph);
}

static void test_attention(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        zr_graph *graph = graph_new(ZR_F32, ZR_F32);
        zr_value w = matrix(graph, C, 3 * 6, "w");
        zr_value qkv = zr_linear(graph, source(graph), w, ZR_NONE, false);
        sink(graph, zr_attention(graph, qkv, 2, dropout ? 0.3 : 0));
        finish_and_check(graph);
    }
}

/* ---- sums of gradients ------------------------------------------------------------------------ */

static void test_value_used_three_times(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value gain = vector(graph, C, "gain"), bias = vector(graph, C, "bias"), x = source(graph);
    zr_value normed = zr_layernorm(graph, x, gain, bias, 1e-5);
    sink(graph, zr_add(graph, zr_add(graph, x, zr_gelu(graph, x)), normed));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    /* layernorm_dx adds the sum's gradient itself, because it comes first; gelu's gradient needs an add. */
    assert_int_equal(count_ops(graph, "add"), 3);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

static void test_same_value_twice_in_one_op(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value x = source(graph);
    sink(graph, zr_add(graph, x, x));
    finish_and_check(graph);
}

/* Check that w = p + q + p can be used as a weight: the gradient of w is passed on to p and q, whose gradients must be
 * separate values. */
static void test_parameters_as_operands_of_add(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_BF16, ZR_BF16);
    zr_value p = matrix(graph, C, V, "p"), q = matrix(graph, C, V, "q");
    zr_value w = zr_add(graph, zr_add(graph, p, q), p);
    sink(graph, zr_linear(graph, source(graph), w, ZR_NONE, false));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    for (int32_t i = 0; i < zr_graph_params(graph); i++) assert_int_equal(grad_info(graph, i)->kind, ZR_VALUE_GRAD);
    assert_int_not_equal(zr_graph_param(graph, 0)->grad, zr_graph_param(graph, 1)->grad);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

/* Check an op in which one parameter is both gain and bias, so that it makes two contributions to one gradient at the
 * same time. */
static void test_same_parameter_twice_in_one_op(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_BF16);
    zr_value gain = vector(graph, C, "gain");
    sink(graph, zr_layernorm(graph, source(graph), gain, gain, 1e-5));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    assert_int_equal(grad_info(graph, 0)->kind, ZR_VALUE_GRAD);
    assert_int_equal(grad_info(graph, 0)->type.dtype, ZR_BF16);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

/* Check a gradient whose op cannot fold in an earlier sum (a layer norm's parameters shared by two layers): an add ends
 * the sum. */
static void test_parameter_used_twice_without_folding(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_BF16, ZR_BF16);
    zr_value gain = vector(graph, C, "gain"), bias = vector(graph, C, "bias"), w = matrix(graph, C, C, "w");
    zr_value x = zr_layernorm(graph, source(graph), gain, bias, 1e-5);
    x = zr_linear(graph, x, w, ZR_NONE, false);
    sink(graph, zr_layernorm(graph, zr_linear(graph, x, w, ZR_NONE, true), gain, bias, 1e-5));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    for (int32_t p = 0; p < 2; p++) {
        assert_int_equal(grad_info(graph, p)->kind, ZR_VALUE_GRAD);
        const zr_op *last = zr_graph_get_op(graph, grad_info(graph, p)->producer);
        assert_string_equal(last->def->name, "add");
        for (int k = 0; k < 2; k++) assert_int_equal(zr_graph_value(graph, last->in[k])->type.dtype, ZR_F32);
    }
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

/* Check the gradient of a table shared by head and embedding: the head's contribution is kept in F32, added to the
 * embedding's, and the sum is rounded once. */
static void test_tied_embedding(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_BF16, ZR_BF16);
    zr_value ids = zr_input(graph, "tokens", ZR_I32, shape(2, B, T, 0)), table = matrix(graph, V, C, "table");
    zr_value x = zr_embedding(graph, ids, table);
    zr_graph_unit(graph, "final");
    sink(graph, zr_linear(graph, zr_gelu(graph, x), table, ZR_NONE, true));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    const zr_value_info *grad = grad_info(graph, 0);
    assert_int_equal(grad->kind, ZR_VALUE_GRAD);
    assert_int_equal(grad->type.dtype, ZR_BF16);
    assert_int_equal(grad->param, 0);
    const zr_op *last = zr_graph_get_op(graph, grad->producer);
    assert_string_equal(last->def->name, "embedding_dw");
    assert_int_equal(last->unit, 0);
    const zr_value_info *earlier = zr_graph_value(graph, last->in[2]);
    assert_int_equal(earlier->kind, ZR_VALUE_ACT);
    assert_int_equal(earlier->type.dtype, ZR_F32);
    assert_string_equal(zr_graph_get_op(graph, earlier->producer)->def->name, "linear_dw");
    assert_int_equal(zr_graph_get_op(graph, earlier->producer)->unit, 1);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

static void test_unused_parameter(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    vector(graph, C, "never");
    zr_value dead = vector(graph, C, "dead"); /* used, but not on the way to the losses */
    zr_value x = source(graph);
    zr_layernorm(graph, x, dead, dead, 1e-5);
    sink(graph, x);
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    assert_int_equal(zr_graph_param(graph, 0)->grad, ZR_NONE);
    assert_int_equal(zr_graph_param(graph, 1)->grad, ZR_NONE);
    assert_int_not_equal(zr_graph_param(graph, 2)->grad, ZR_NONE);
    assert_int_equal(count_ops(graph, "layernorm_dx"), 0);
    check_gradients(graph, NULL, 1000);
    zr_graph_destroy(&graph);
}

/* Check that only needed gradients are computed: a weight's input has none if no parameter feeds it. */
static void test_constants_get_no_gradient(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    zr_value fixed = zr_input(graph, "fixed", ZR_F32, shape(3, B, T, C));
    sink(graph, zr_linear(graph, fixed, matrix(graph, C, V, "w"), ZR_NONE, false));
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    assert_int_equal(count_ops(graph, "linear_dx"), 0);
    assert_int_equal(count_ops(graph, "linear_dw"), 1);
    zr_graph_destroy(&graph);
}

/* ---- a whole model ---------------------------------------------------------------------------- */

static const zr_gpt2_config ODD = {.n_layer = 2,
                                   .n_head = 3,
                                   .n_embd = 57,
                                   .n_positions = 9,
                                   .vocab_size = 11,
                                   .embd_pdrop = 0.1,
                                   .resid_pdrop = 0.2,
                                   .attn_pdrop = 0.3,
                                   .layer_norm_epsilon = 1e-5,
                                   .initializer_range = 0.02};

static zr_graph *gpt2_graph(zr_graph_spec spec, const zr_gpt2_config *config)
{
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_model model = zr_gpt2(config);
    model.build(graph, model.config);
    zr_status status = zr_graph_finish(graph);
    if (status != ZR_OK) print_message("%s\n", zr_error_message());
    assert_int_equal(status, ZR_OK);
    return graph;
}

static void test_gpt2(void **state)
{
    (void)state;
    zr_graph *graph = gpt2_graph(
        (zr_graph_spec){
            .mode = ZR_MODE_TRAIN, .batch = 2, .seq = 7, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        &ODD);
    assert_int_equal(count_ops(graph, "dropout"), 2 * 5);
    check_gradients(graph, NULL, 5);
    zr_graph_destroy(&graph);
}

/* Check that producers come before readers, that each value has one producer, and that kinds and types are as
 * promised. */
static void test_gpt2_values(void **state)
{
    (void)state;
    zr_graph *graph = gpt2_graph(
        (zr_graph_spec){
            .mode = ZR_MODE_TRAIN, .batch = 2, .seq = 7, .dtype = ZR_BF16, .grad_dtype = ZR_F32, .tensor = 1},
        &ODD);
    int32_t n = zr_graph_values(graph), last_unit = 0;
    int *writes = calloc((size_t)n, sizeof *writes);
    bool backward = false;
    for (int32_t i = 0; i < zr_graph_ops(graph); i++) {
        const zr_op *op = zr_graph_get_op(graph, i);
        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] != ZR_NONE) assert_true(zr_graph_value(graph, op->in[k])->producer < i);
        for (int k = 0; k < op->n_out; k++) {
            assert_int_equal(zr_graph_value(graph, op->out[k])->producer, i);
            assert_int_equal(zr_graph_value(graph, op->out[k])->unit, op->unit);
            writes[op->out[k]]++;
        }
        assert_true(backward ? op->backward && op->unit <= last_unit : op->backward || op->unit >= last_unit);
        backward = op->backward;
        last_unit = op->unit;
    }
    for (zr_value v = 0; v < n; v++) {
        const zr_value_info *info = zr_graph_value(graph, v);
        bool computed = info->kind == ZR_VALUE_ACT || info->kind == ZR_VALUE_GRAD;
        assert_int_equal(writes[v], computed ? 1 : 0);
        if (info->kind == ZR_VALUE_GRAD) assert_int_equal(info->unit, zr_graph_param(graph, info->param)->unit);
    }
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        assert_int_equal(grad_info(graph, p)->kind, ZR_VALUE_GRAD);
        assert_int_equal(grad_info(graph, p)->type.dtype, ZR_F32);
        assert_true(zr_shape_equal(&grad_info(graph, p)->type.shape, &zr_graph_param(graph, p)->shape));
    }
    free(writes);
    zr_graph_destroy(&graph);
}

/* Check that decoding one token at a time against a cache gives the losses of the whole sequence. */
static void test_gpt2_decode(void **state)
{
    (void)state;
    enum { LENGTH = 6 };
    zr_graph *whole = gpt2_graph(
        (zr_graph_spec){
            .mode = ZR_MODE_EVAL, .batch = 1, .seq = LENGTH, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        &ODD);
    zr_graph *step = gpt2_graph((zr_graph_spec){.mode = ZR_MODE_DECODE,
                                                .batch = 1,
                                                .seq = 1,
                                                .cache_len = LENGTH,
                                                .dtype = ZR_F32,
                                                .grad_dtype = ZR_F32,
                                                .tensor = 1},
                                &ODD);
    interp all = interp_create(whole, NULL), one = interp_create(step, NULL);
    zr_value targets = zr_graph_input(whole, 1), losses = zr_graph_get_loss_term(whole, 0);
    for (int64_t i = 0; i < LENGTH; i++) {
        all.data[zr_graph_input(whole, 0)][i] = (double)(5 * i % 11);
        all.data[targets][i] = (double)(7 * i % 11);
    }
    assert_true(interp_run(&all));
    for (int64_t i = 0; i < LENGTH; i++) {
        one.position = i;
        one.data[zr_graph_input(step, 0)][0] = (double)(5 * i % 11);
        assert_true(interp_run(&one));
        const double *logits = one.data[zr_graph_get_output(step)];
        double sum = 0;
        for (int v = 0; v < 11; v++) sum += exp(logits[v]);
        double loss = log(sum) - logits[(int64_t)all.data[targets][i]];
        assert_true(fabs(loss - all.data[losses][i]) < 1e-12);
    }
    interp_destroy(&all);
    interp_destroy(&one);
    zr_graph_destroy(&whole);
    zr_graph_destroy(&step);
}

/* ---- graphs that cannot be differentiated ------------------------------------------------------ */

static void test_training_needs_losses(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    source(graph);
    assert_int_equal(zr_graph_finish(graph), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "zr_graph_losses"));
    zr_graph_destroy(&graph);
}

static void test_training_needs_a_parameter(void **state)
{
    (void)state;
    zr_graph *graph = graph_new(ZR_F32, ZR_F32);
    sink(graph, zr_input(graph, "logits", ZR_F32, shape(3, B, T, C)));
    assert_int_equal(zr_graph_finish(graph), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "no parameter"));
    zr_graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_and_cross_entropy),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_cross_entropy),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_value_used_three_times),
        cmocka_unit_test(test_same_value_twice_in_one_op),
        cmocka_unit_test(test_parameters_as_operands_of_add),
        cmocka_unit_test(test_same_parameter_twice_in_one_op),
        cmocka_unit_test(test_parameter_used_twice_without_folding),
        cmocka_unit_test(test_tied_embedding),
        cmocka_unit_test(test_unused_parameter),
        cmocka_unit_test(test_constants_get_no_gradient),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_gpt2_values),
        cmocka_unit_test(test_gpt2_decode),
        cmocka_unit_test(test_training_needs_losses),
        cmocka_unit_test(test_training_needs_a_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
