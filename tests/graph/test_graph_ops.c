//TEST timeout=60
/* The ops that GPT-2 does not have: gradients of activations and, in bf16, of parameters with one use and with several,
 * against finite differences in double; the operands that these ops demand; their costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph_interp.h"

enum { B = 2, T = 3, C = 6, V = 7 };

static const zr_init NORMAL = {ZR_INIT_NORMAL, 0.02};

static zr_graph *graph_new(zr_mode mode, zr_dtype dtype)
{
    zr_graph_spec spec = {.mode = mode, .batch = B, .seq = T, .dtype = dtype, .grad_dtype = dtype};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_graph_unit(graph, "all");
    return graph;
}

static zr_value param(zr_graph *g, zr_shape shape, const char *name)
{
    return zr_param(g, NORMAL, shape, "%s", name);
}

static zr_value ids(zr_graph *g, const char *name)
{
    return zr_input(g, name, ZR_I32, (zr_shape){2, {B, T}});
}

/* Return a value of shape (B, T, C) that depends on a parameter; tokens repeat, so that some of its rows are equal. */
static zr_value source_of(zr_graph *g, const char *table)
{
    return zr_embedding(g, ids(g, "tokens"), param(g, (zr_shape){2, {V, C}}, table));
}

static zr_value source(zr_graph *g)
{
    return source_of(g, "table");
}

/* Make cross entropy of x the losses, so that each element of x (B T cols elements, any shape) has another gradient. */
static void sink(zr_graph *g, zr_value x)
{
    zr_graph_losses(g, zr_cross_entropy(g, x, ids(g, "targets")));
}

static void check(zr_graph *g, const char *what)
{
    if (zr_graph_finish(g) != ZR_OK) fail_msg("%s: %s", what, zr_error_message());
    interp it = interp_create(g, NULL);
    for (int32_t k = 0; k < zr_graph_inputs(g); k++)
        for (int64_t i = 0; i < B * T; i++) it.data[zr_graph_input(g, k)][i] = (double)((3 * i + k) % 4);
    /* documents: in the first row one of two tokens and another, in other rows one for each token */
    for (int64_t i = 0; i < B * T && zr_graph_get_documents(g) != ZR_NONE; i++)
        it.data[zr_graph_get_documents(g)][i] = (double)(i < T ? i % T / 2 * 2 : i % T);
    double error = interp_gradient_error(&it, 1000);
    if (!(error < 1e-7)) fail_msg("%s: gradients off by %g", what, error);
    interp_destroy(&it);
    zr_graph_destroy(&g);
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* A function that applies one or two ops to x of shape (B, T, C). */
typedef zr_value (*path)(zr_graph *g, zr_value x);

static zr_value by_scale(zr_graph *g, zr_value x)
{
    return zr_scale(g, x, -1.75);
}

static zr_value by_square(zr_graph *g, zr_value x)
{
    return zr_mul(g, x, x);
}

static zr_value by_gate(zr_graph *g, zr_value x)
{
    return zr_mul(g, zr_silu(g, x), zr_gelu(g, x));
}

static zr_value by_rmsnorm(zr_graph *g, zr_value x)
{
    zr_value gain = param(g, (zr_shape){1, {C}}, "gain");
    return zr_rmsnorm(g, zr_add(g, x, zr_rmsnorm(g, x, gain, 1e-5)), gain,
                      1e-3); /* the outer norm adds to the gradient of x, and both norms share a gain */
}

/* Normalise each pair of columns separately, with one gain, and then whole rows. */
static zr_value by_groups(zr_graph *g, zr_value x)
{
    zr_value pairs = zr_rmsnorm(g, x, param(g, (zr_shape){1, {2}}, "pair"), 1e-2);
    return zr_rmsnorm_rounded(g, zr_add(g, x, pairs), param(g, (zr_shape){1, {C}}, "row"), 1e-3);
}

static zr_value by_swiglu(zr_graph *g, zr_value x)
{
    return zr_swiglu(g, zr_swiglu(g, x, x), zr_scale(g, x, 2)); /* one value as both operands, and two values */
}

/* Rotate twice, three heads and then one, by tables of different kinds. */
static zr_value by_rotary(zr_graph *g, zr_value x)
{
    const zr_rotary_spec two = {.kind = ZR_ROTARY_LINEAR, .width = 2, .theta = 10, .factor = 3};
    const zr_rotary_spec six = {.kind = ZR_ROTARY_YARN,
                                .width = C,
                                .theta = 1000,
                                .factor = 4,
                                .original = 64,
                                .beta_fast = 32,
                                .beta_slow = 1};
    return zr_rotary(g, zr_rotary(g, x, zr_rotary_table(g, &two)), zr_rotary_table(g, &six));
}

static zr_value by_heads(zr_graph *g, zr_value x)
{
    return zr_merge_heads(g, zr_softmax(g, zr_split_heads(g, x, 2)));
}

static zr_value by_transpose(zr_graph *g, zr_value x)
{
    return zr_transpose(g, zr_softmax(g, zr_transpose(g, x)));
}

/* Concatenate slices that overlap and leave columns out. */
static zr_value by_columns(zr_graph *g, zr_value x)
{
    zr_value left = zr_slice(g, x, 0, 2), middle = zr_slice(g, x, 1, 3), right = zr_slice(g, x, 4, 1);
    return zr_concat(g, zr_concat(g, zr_mul(g, left, left), middle), right);
}

static const struct {
    const char *name;
    path through;
} paths[] = {{"erf", zr_gelu_erf},    {"tanh", zr_tanh},       {"gelu", zr_gelu},     {"relu", zr_relu},
             {"silu", zr_silu},       {"softmax", zr_softmax}, {"scale", by_scale},   {"square", by_square},
             {"gate", by_gate},       {"rmsnorm", by_rmsnorm}, {"heads", by_heads},   {"transpose", by_transpose},
             {"columns", by_columns}, {"groups", by_groups},   {"swiglu", by_swiglu}, {"rotary", by_rotary}};
#define PATHS (int)(sizeof paths / sizeof *paths)

static void test_activations(void **state)
{
    (void)state;
    for (int i = 0; i < PATHS; i++)
        for (int more = 0; more < 2; more++) { /* x is read elsewhere too: gradients add up */
            zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
            zr_value x = source(g), y = paths[i].through(g, x);
            sink(g, more ? zr_add(g, zr_gelu(g, x), y) : y);
            check(g, paths[i].name);
        }
}

/* Check the gradient of a bf16 parameter: partial sums are F32, and the last one is rounded once to the wire's type. */
static void test_parameters(void **state)
{
    (void)state;
    for (int i = 0; i < PATHS; i++)
        for (int more = 0; more < 2; more++) {
            zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_BF16);
            zr_value w = param(g, (zr_shape){3, {B, T, C}}, "w"), x = zr_mul(g, paths[i].through(g, w), source(g));
            sink(g, more ? zr_mul(g, zr_add(g, x, w), w) : x);
            check(g, paths[i].name);
        }
}

/* Check that an operand gets no gradient if nothing needs it. */
static void test_inputs(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_value fixed = zr_input(g, "fixed", ZR_F32, (zr_shape){3, {B, T, C}});
    zr_value x = zr_mul(g, fixed, zr_mul(g, source(g), fixed));
    sink(g, zr_concat(g, fixed, zr_concat(g, x, zr_silu(g, fixed))));
    check(g, "inputs");
}

/* Check a loss of squared errors: each loss is the mean of a row, F32 in a graph of either type. */
static void test_mean(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        zr_graph *g = graph_new(ZR_MODE_TRAIN, d ? ZR_BF16 : ZR_F32);
        zr_value x = source(g), e = zr_add(g, x, zr_scale(g, zr_relu(g, x), -3));
        zr_graph_losses(g, zr_mean(g, zr_mul(g, e, e), ZR_F32));
        check(g, "mean of squares");
        g = graph_new(ZR_MODE_TRAIN, d ? ZR_BF16 : ZR_F32); /* means as activations: over tokens, and over columns */
        x = source(g);
        zr_value w = param(g, (zr_shape){2, {C, V}}, "w"),
                 by_column = zr_mean(g, zr_transpose(g, x), zr_graph_get_spec(g)->dtype);
        zr_value by_row = zr_mean(g, zr_linear(g, by_column, w, ZR_NONE, false), zr_graph_get_spec(g)->dtype);
        zr_graph_losses(g, zr_mean(g, zr_mul(g, by_row, by_row), ZR_F32));
        check(g, "means of means");
    }
}

/* ---- attention --------------------------------------------------------------------------------- */

/* A kind of attention, and the width of its heads, which together may be narrower or wider than the model. */
static const struct {
    zr_attention_spec spec;
    int64_t width;
} kinds[] = {{{.heads = 2, .kv_heads = 2}, 2},
             {{.heads = 4, .kv_heads = 2, .dropout = 0.3}, 3},
             {{.heads = 3, .kv_heads = 1, .window = 2}, 5},
             {{.heads = 2, .kv_heads = 1, .bidirectional = true, .scale = 0.3}, 2},
             {{.heads = 4, .kv_heads = 4, .window = 1, .dropout = 0.2}, 1}};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

/* Project x (B, T, C) to q, k and v, fused or not, and attend. */
static zr_value attend(zr_graph *g, zr_value x, int kind, bool fused)
{
    const zr_attention_spec *spec = &kinds[kind].spec;
    const int64_t q = spec->heads * kinds[kind].width, kv = spec->kv_heads * kinds[kind].width;
    if (fused) {
        zr_value w = param(g, (zr_shape){2, {C, q + 2 * kv}}, "qkv");
        return zr_attend(g, zr_linear(g, x, w, ZR_NONE, false), ZR_NONE, ZR_NONE, spec);
    }
    zr_value wq = param(g, (zr_shape){2, {C, q}}, "q"), wk = param(g, (zr_shape){2, {C, kv}}, "k");
    zr_value wv = param(g, (zr_shape){2, {C, kv}}, "v");
    return zr_attend(g, zr_linear(g, x, wq, ZR_NONE, false), zr_linear(g, x, wk, ZR_NONE, false),
                     zr_linear(g, x, wv, ZR_NONE, false), spec);
}

static void test_attention(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int fused = 0; fused < 2; fused++) {
            zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
            sink(g, attend(g, source(g), kind, fused));
            check(g, "attention");
        }
}

/* Check attention, rotation and positions in rows of several documents. */
static void test_documents(void **state)
{
    (void)state;
    const zr_rotary_spec rotary = {.width = 2, .theta = 10};
    for (int kind = 0; kind < KINDS; kind++)
        for (int fused = 0; fused < 2; fused++) {
            const zr_graph_spec spec = {.mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .documents = true};
            zr_graph *g = NULL;
            assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
            zr_graph_unit(g, "all");
            zr_value x = zr_position(g, source(g), param(g, (zr_shape){2, {T + 1, C}}, "places"));
            sink(g, attend(g, zr_rotary(g, x, zr_rotary_table(g, &rotary)), kind, fused));
            check(g, "documents");
        }
}

/* Check rows taken by index: one row twice, others never; rows of one value in two ways; and rows of a value that is
 * also read as a whole. */
static void test_rows(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
        zr_value x = zr_silu(g, source(g)), one = zr_input(g, "one", ZR_I32, (zr_shape){2, {B, T}});
        zr_value y = zr_rows(g, x, one), other = zr_rows(g, x, zr_input(g, "other", ZR_I32, (zr_shape){2, {B, T}}));
        y = zr_mul(g, y, other);
        sink(g, more ? zr_add(g, y, x) : y);
        if (zr_graph_finish(g) != ZR_OK) fail_msg("rows: %s", zr_error_message());
        interp it = interp_create(g, NULL);
        for (int32_t k = 0; k < zr_graph_inputs(g); k++)
            for (int64_t i = 0; i < B * T; i++) it.data[zr_graph_input(g, k)][i] = (double)((2 * i + k) % 3 % 2 * 2);
        const double error = interp_gradient_error(&it, 1000);
        if (!(error < 1e-7)) fail_msg("rows: gradients off by %g", error);
        interp_destroy(&it);
        zr_graph_destroy(&g);
    }
}

/* Check the choice of places, in whole rows and in rows of several documents: two samples share a document, and a
 * target does not count. */
static void test_places(void **state)
{
    (void)state;
    for (int documents = 0; documents < 2; documents++) {
        const zr_graph_spec spec = {.mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .documents = documents > 0};
        zr_graph *g = NULL;
        assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
        zr_graph_unit(g, "all");
        zr_value targets = zr_input(g, "targets", ZR_I32, (zr_shape){3, {B, 2, C}});
        zr_value x =
            zr_attention(g, zr_linear(g, source(g), param(g, (zr_shape){2, {3 * C, C}}, "w"), ZR_NONE, true), 1, 0);
        zr_graph_losses(g, zr_place_cross_entropy(g, x, targets));
        if (zr_graph_finish(g) != ZR_OK) fail_msg("places: %s", zr_error_message());
        interp it = interp_create(g, NULL);
        for (int64_t i = 0; i < B * 2 * C; i++) it.data[targets][i] = (double)(i * i % (T + 1)) - 1;
        for (int64_t i = 0; i < B * T; i++) it.data[zr_graph_input(g, 1)][i] = (double)(i % 4);
        for (int64_t i = 0; documents && i < B * T; i++)
            it.data[zr_graph_get_documents(g)][i] = (double)(i < T ? i % T / 2 * 2 : 0);
        const double error = interp_gradient_error(&it, 1000);
        if (!(error < 1e-7)) fail_msg("places: gradients off by %g", error);
        interp_destroy(&it);
        zr_graph_destroy(&g);
    }
}

/* Check an output head with a bias, where both parameters train, only one, or none. */
static void test_biased_head(void **state)
{
    (void)state;
    static const char *const frozen[] = {NULL, "head", "bias", "head\nbias"};
    for (int i = 0; i < 4; i++) {
        zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
        zr_value w = param(g, (zr_shape){2, {V, C}}, "head"), b = param(g, (zr_shape){1, {V}}, "bias");
        zr_graph_losses(g, zr_linear_cross_entropy_bias(g, source(g), w, b, ids(g, "targets")));
        zr_graph_freeze(g, frozen[i]);
        check(g, "a head with a bias");
    }
}

/* Check attention of one value to itself, of keys that need no gradient, and of keys that are values. */
static void test_attention_operands(void **state)
{
    (void)state;
    const zr_attention_spec one = {.heads = 2, .kv_heads = 2}, few = {.heads = 3, .kv_heads = 1};
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_value x = source(g);
    sink(g, zr_attend(g, x, x, x, &one));
    check(g, "q, k and v in one");
    g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_value fixed = zr_input(g, "fixed", ZR_F32, (zr_shape){3, {B, T, C}});
    sink(g, zr_attend(g, source(g), fixed, zr_silu(g, source_of(g, "other")), &one));
    check(g, "fixed keys");
    g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    x = source(g);
    zr_value kv = zr_slice(g, x, 0, 2);
    sink(g, zr_attend(g, x, kv, kv, &few));
    check(g, "keys that are values");
}

/* ---- operands ---------------------------------------------------------------------------------- */

static zr_value f32(zr_graph *g, int ndim, int64_t a, int64_t b, int64_t c)
{
    return zr_input(g, "x", ZR_F32, (zr_shape){ndim, {a, b, c}});
}

/* Build in a fresh EVAL graph, then check the status and the message of finishing it. */
#define CASE(status, text, ...)                                                                                        \
    do {                                                                                                               \
        zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);                                                                 \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(zr_graph_finish(g), status);                                                                  \
        if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);       \
        zr_graph_destroy(&g);                                                                                          \
    } while (0)

static void test_refusals(void **state)
{
    (void)state;
    CASE(ZR_ERR_DTYPE, "silu: operand x is I32 (2, 3); wanted F32", zr_silu(g, ids(g, "x")));
    CASE(ZR_ERR_ARG, "relu: operand x (number 0) is missing", zr_relu(g, ZR_NONE));
    CASE(ZR_ERR_DTYPE, "rows: operand index is F32 (2, 3); wanted I32 (*, *)",
         zr_rows(g, f32(g, 3, B, T, C), f32(g, 2, B, T, 0)));
    CASE(ZR_ERR_SHAPE, "rows: operand x is F32 (3, 3, 6); wanted F32 (2, *, *)",
         zr_rows(g, f32(g, 3, T, T, C), ids(g, "i")));
    CASE(ZR_ERR_SHAPE, "place_cross_entropy: operand targets is I32 (2, 3); wanted I32 (2, *, 6)",
         zr_place_cross_entropy(g, f32(g, 3, B, T, C), ids(g, "i")));
    CASE(ZR_ERR_SHAPE, "linear_cross_entropy: operand b is F32 (6); wanted F32 (7)",
         zr_linear_cross_entropy_bias(g, source(g), param(g, (zr_shape){2, {V, C}}, "w"),
                                      param(g, (zr_shape){1, {C}}, "b"), ids(g, "t")));
    CASE(ZR_ERR_ARG, "scale: the factor is inf", zr_scale(g, f32(g, 1, 5, 0, 0), INFINITY));
    CASE(ZR_ERR_SHAPE, "mul: operand b is F32 (3); wanted F32 (2, 3)",
         zr_mul(g, f32(g, 2, B, T, 0), f32(g, 1, T, 0, 0)));
    CASE(ZR_ERR_SHAPE, "rmsnorm: operand gain is F32 (2); wanted F32 (3)",
         zr_rmsnorm(g, f32(g, 2, B, T, 0), f32(g, 1, B, 0, 0), 1e-5));
    CASE(ZR_ERR_ARG, "rmsnorm: eps is 0; wanted above 0", zr_rmsnorm(g, f32(g, 2, B, T, 0), f32(g, 1, T, 0, 0), 0));
    CASE(ZR_ERR_SHAPE, "rmsnorm: operand gain is F32 (2, 3); wanted F32 (6)",
         zr_rmsnorm(g, f32(g, 3, B, T, C), f32(g, 2, B, T, 0), 1e-5)); /* a group is as long as a vector */
    CASE(ZR_ERR_SHAPE, "layernorm: operand gain is F32 (3); wanted F32 (6)",
         zr_layernorm(g, f32(g, 3, B, T, C), f32(g, 1, T, 0, 0), f32(g, 1, T, 0, 0), 1e-5));
    CASE(ZR_ERR_SHAPE, "swiglu: operand up is F32 (3); wanted F32 (2, 3)",
         zr_swiglu(g, f32(g, 2, B, T, 0), f32(g, 1, T, 0, 0)));
    CASE(ZR_ERR_DTYPE, "softmax: operand x is I32", zr_softmax(g, ids(g, "x")));
    CASE(ZR_ERR_DTYPE, "mean: the result is to be BF16; wanted F32 or the graph's F32",
         zr_mean(g, f32(g, 2, B, T, 0), ZR_BF16));
    CASE(ZR_ERR_SHAPE, "slice: 2 columns from 2 on; x has 3", zr_slice(g, f32(g, 2, B, T, 0), 2, 2));
    CASE(ZR_ERR_SHAPE, "slice: 0 columns from 0 on; x has 3", zr_slice(g, f32(g, 2, B, T, 0), 0, 0));
    CASE(ZR_ERR_SHAPE, "slice: 1 columns from -1 on; x has 3", zr_slice(g, f32(g, 2, B, T, 0), -1, 1));
    CASE(ZR_ERR_SHAPE, "concat: operand b is F32 (3, 3); wanted F32 (2, *)",
         zr_concat(g, f32(g, 2, B, T, 0), f32(g, 2, T, T, 0)));
    CASE(ZR_ERR_SHAPE, "transpose: operand x is F32 (3); wanted F32 of 2 dimensions or more",
         zr_transpose(g, f32(g, 1, T, 0, 0)));
    CASE(ZR_ERR_SHAPE, "split_heads: 4 heads do not divide the width 6", zr_split_heads(g, f32(g, 3, B, T, C), 4));
    CASE(ZR_ERR_SHAPE, "split_heads: 0 heads do not divide", zr_split_heads(g, f32(g, 3, B, T, C), 0));
    CASE(ZR_ERR_SHAPE, "merge_heads: operand x is F32 (2, 3, 6); wanted F32 (*, *, *, *)",
         zr_merge_heads(g, f32(g, 3, B, T, C)));
}

/* ---- constants of rotary embeddings ------------------------------------------------------------ */

/* A spec that each kind accepts. */
static const zr_rotary_spec valid = {.width = 8,
                                     .theta = 1e4,
                                     .factor = 8,
                                     .original = 2,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 4,
                                     .beta_fast = 32,
                                     .beta_slow = 1};

/* Check the message with which a table of this kind is refused if `change` changes the valid spec s. */
#define REFUSED(which, text, change)                                                                                   \
    do {                                                                                                               \
        zr_rotary_spec s = valid;                                                                                      \
        s.kind = which;                                                                                                \
        change;                                                                                                        \
        CASE(ZR_ERR_CONFIG, text, zr_rotary_table(g, &s));                                                             \
    } while (0)

static void test_rotary_refusals(void **state)
{
    (void)state;
    REFUSED(ZR_ROTARY_DEFAULT, "the width of a head is 7; wanted an even number of elements, at least 2", s.width = 7);
    REFUSED(ZR_ROTARY_LINEAR, "the width of a head is 0; wanted an even number", s.width = 0);
    REFUSED(ZR_ROTARY_DEFAULT, "rotary_table: theta is 1; wanted a number above 1", s.theta = 1);
    REFUSED(ZR_ROTARY_DEFAULT, "theta is nan", s.theta = NAN);
    REFUSED(ZR_ROTARY_LINEAR, "factor is 0.5; wanted at least 1", s.factor = 0.5);
    REFUSED(ZR_ROTARY_YARN, "factor is inf", s.factor = INFINITY);
    REFUSED(ZR_ROTARY_LLAMA3, "the original length is 0 tokens; wanted at least 1", s.original = 0);
    REFUSED(ZR_ROTARY_DYNAMIC, "the width of a head is 2; kind dynamic wants at least 4", s.width = 2);
    REFUSED(ZR_ROTARY_LLAMA3, "low_freq_factor is 0; wanted a number above 0", s.low_freq_factor = 0);
    REFUSED(ZR_ROTARY_LLAMA3, "high_freq_factor, which must exceed low_freq_factor, is 1; wanted a number above 1",
            s.high_freq_factor = 1);
    REFUSED(ZR_ROTARY_YARN, "beta_slow is 0; wanted a number above 0", s.beta_slow = 0);
    REFUSED(ZR_ROTARY_YARN, "beta_fast, which must exceed beta_slow, is 1", s.beta_fast = 1);
    REFUSED(ZR_ROTARY_YARN, "attention_factor is -1; wanted at least 0", s.attention_factor = -1);
    CASE(ZR_ERR_ARG, "rotary_table: kind is 5, which is not a value of zr_rotary_kind",
         zr_rotary_table(g, &(zr_rotary_spec){.kind = (zr_rotary_kind)5}));
    CASE(ZR_ERR_ARG, "rotary_table: the spec must not be NULL", zr_rotary_table(g, NULL));
    CASE(ZR_ERR_SHAPE, "rotary: the table is for heads of width 8, which does not divide the 6 columns of x",
         zr_rotary(g, f32(g, 3, B, T, C), zr_rotary_table(g, &valid)));
    CASE(ZR_ERR_SHAPE, "rotary: operand table is F32 (3, 8); wanted F32 (6, *)",
         zr_rotary(g, f32(g, 3, B, C, 8), zr_rotary_table(g, &valid)));
    CASE(ZR_ERR_SHAPE, "rotary: the table has 3 columns; wanted an even number",
         zr_rotary(g, f32(g, 3, B, T, C), f32(g, 2, T, 3, 0)));
    CASE(ZR_ERR_SHAPE, "rotary: operand x is F32 (2, 3); wanted F32 (*, *, *)",
         zr_rotary(g, f32(g, 2, B, T, 0), zr_rotary_table(g, &valid)));
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    sink(g, zr_rotary(g, source(g), param(g, (zr_shape){2, {T, C}}, "angles")));
    assert_int_equal(zr_graph_finish(g), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "rotary: the table depends on a parameter"));
    zr_graph_destroy(&g);
}

/* Check that kinds ignore the constants of other kinds. The factor of a table of kind YARN is 0.1 ln(factor) + 1 unless
 * given. */
static void test_rotary_constants(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_BF16);
    const zr_rotary_spec plain = {.width = 4, .theta = 1e6, .factor = -1, .attention_factor = 7};
    zr_rotary_spec yarn = valid;
    yarn.kind = ZR_ROTARY_YARN;
    const double usual = 0.1 * log(8) + 1;
    for (int i = 0; i < 3; i++) {
        if (i == 2) yarn.attention_factor = 1.5;
        const zr_value table = zr_rotary_table(g, i ? &yarn : &plain);
        const zr_value_info *info = zr_graph_value(g, table);
        assert_non_null(info);
        assert_true(zr_graph_get_op(g, info->producer)->attr.f[6] == (i == 0 ? 1 : i == 1 ? usual : 1.5));
    }
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    zr_graph_destroy(&g);
}

static void test_attention_refusals(void **state)
{
    (void)state;
    const zr_attention_spec few = {.heads = 3, .kv_heads = 2}, none = {.heads = 2, .kv_heads = 0};
    const zr_attention_spec good = {.heads = 4, .kv_heads = 2}, back = {.heads = 2, .kv_heads = 2, .window = -1};
    const zr_attention_spec both = {.heads = 2, .kv_heads = 2, .window = 3, .bidirectional = true};
    const zr_attention_spec wild = {.heads = 2, .kv_heads = 2, .scale = INFINITY};
    const zr_attention_spec encoder = {.heads = 2, .kv_heads = 2, .bidirectional = true};
    CASE(ZR_ERR_SHAPE, "attention: 2 key-value heads do not divide 3 query heads",
         zr_attend(g, f32(g, 3, B, T, 6), ZR_NONE, ZR_NONE, &few));
    CASE(ZR_ERR_SHAPE, "attention: 0 key-value heads do not divide 2 query heads",
         zr_attend(g, f32(g, 3, B, T, 6), ZR_NONE, ZR_NONE, &none));
    CASE(ZR_ERR_SHAPE,
         "attention: qkv's last dimension, 17, is no multiple of 8; wanted 4 heads of q and 2 each of k and",
         zr_attend(g, f32(g, 3, B, T, 17), ZR_NONE, ZR_NONE, &good));
    CASE(ZR_ERR_ARG, "attention: the window is -1; wanted 0 or more keys",
         zr_attend(g, f32(g, 3, B, T, 6), ZR_NONE, ZR_NONE, &back));
    CASE(ZR_ERR_UNSUPPORTED, "attention: a window of 3 keys of bidirectional attention",
         zr_attend(g, f32(g, 3, B, T, 6), ZR_NONE, ZR_NONE, &both));
    CASE(ZR_ERR_ARG, "attention: the scale is inf", zr_attend(g, f32(g, 3, B, T, 6), ZR_NONE, ZR_NONE, &wild));
    CASE(ZR_ERR_SHAPE, "attention: 4 heads do not divide the width of q, 6",
         zr_attend(g, f32(g, 3, B, T, 6), f32(g, 3, B, T, 2), f32(g, 3, B, T, 2), &good));
    CASE(ZR_ERR_SHAPE, "attention: k has 8 columns; wanted 4, for 2 key-value heads of q's width 2",
         zr_attend(g, f32(g, 3, B, T, 8), f32(g, 3, B, T, 8), f32(g, 3, B, T, 8), &good));
    CASE(ZR_ERR_SHAPE, "attention: operand v is F32 (2, 3, 2); wanted F32 (2, 3, 4)",
         zr_attend(g, f32(g, 3, B, T, 8), f32(g, 3, B, T, 4), f32(g, 3, B, T, 2), &good));
    CASE(ZR_ERR_ARG, "attention: operand v (number 2) is missing",
         zr_attend(g, f32(g, 3, B, T, 8), f32(g, 3, B, T, 4), ZR_NONE, &good));
    zr_graph_spec spec = {.mode = ZR_MODE_DECODE,
                          .batch = 1,
                          .seq = 1,
                          .cache_len = 4,
                          .dtype = ZR_F32,
                          .grad_dtype = ZR_F32,
                          .tensor = 1};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_graph_unit(g, "all");
    zr_attend(g, f32(g, 3, 1, 1, 6), ZR_NONE, ZR_NONE, &encoder);
    assert_int_equal(zr_graph_finish(g), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "attention: bidirectional attention cannot decode"));
    zr_graph_destroy(&g);
}

/* ---- results and costs ------------------------------------------------------------------------- */

static void check_value(zr_graph *g, zr_value value, zr_dtype dtype, zr_shape shape, double bytes)
{
    const zr_value_info *info = zr_graph_value(g, value);
    assert_non_null(info);
    assert_int_equal(info->type.dtype, dtype);
    assert_true(zr_shape_equal(&info->type.shape, &shape));
    const zr_op *op = zr_graph_get_op(g, info->producer);
    const zr_cost cost = op->def->cost(g, op);
    assert_true(cost.bytes == bytes && cost.flops == 0);
}

static void test_results(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_BF16);
    zr_value x = zr_input(g, "x", ZR_BF16, (zr_shape){3, {B, T, C}}), w = param(g, (zr_shape){1, {C}}, "w");
    const zr_shape same = {3, {B, T, C}};
    const double n = B * T * C;
    check_value(g, zr_silu(g, x), ZR_BF16, same, 4 * n);
    check_value(g, zr_mul(g, x, x), ZR_BF16, same, 6 * n);
    check_value(g, zr_softmax(g, x), ZR_BF16, same, 4 * n);
    check_value(g, zr_rmsnorm(g, x, w, 1e-6), ZR_BF16, same, 4 * n + 2 * C + 4 * B * T);
    check_value(g, zr_rmsnorm_rounded(g, x, param(g, (zr_shape){1, {2}}, "pair"), 1e-6), ZR_BF16, same,
                4 * n + 4 + 4 * B * T * C / 2.0);
    check_value(g, zr_swiglu(g, x, x), ZR_BF16, same, 6 * n);
    zr_value table = zr_rotary_table(g, &(zr_rotary_spec){.width = 2, .theta = 1e4});
    check_value(g, table, ZR_F32, (zr_shape){2, {T, 2}}, 4 * T * 2);
    check_value(g, zr_rotary(g, x, table), ZR_BF16, same, 4 * n + 4 * T * 2);
    check_value(g, zr_mean(g, x, ZR_F32), ZR_F32, (zr_shape){2, {B, T}}, 2 * n + 4 * B * T);
    check_value(g, zr_mean(g, w, ZR_BF16), ZR_BF16, (zr_shape){1, {1}}, 2 * C + 2);
    check_value(g, zr_slice(g, x, 4, 2), ZR_BF16, (zr_shape){3, {B, T, 2}},
                4 * B * T * 2); /* only the columns of the slice */
    check_value(g, zr_concat(g, x, x), ZR_BF16, (zr_shape){3, {B, T, 2 * C}}, 8 * n);
    check_value(g, zr_transpose(g, x), ZR_BF16, (zr_shape){3, {B, C, T}}, 4 * n);
    zr_value heads = zr_split_heads(g, x, 3);
    check_value(g, heads, ZR_BF16, (zr_shape){4, {B, 3, T, C / 3}}, 4 * n);
    check_value(g, zr_merge_heads(g, heads), ZR_BF16, same, 4 * n);
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    zr_graph_destroy(&g);
}

/* Check the FLOPs and pairs of attention: a window never has more than attention to all keys. */
static void test_attention_costs(void **state)
{
    (void)state;
    static const struct {
        int64_t window;
        bool both;
        double pairs; /* of one head */
    } some[] = {{0, false, T * T}, {0, true, T * T}, {1, false, 2 * T}, {2, false, T * T}, {9, false, T * T}};
    for (int i = 0; i < 5; i++) {
        zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
        const zr_attention_spec spec = {
            .heads = 4, .kv_heads = 2, .window = some[i].window, .bidirectional = some[i].both};
        zr_value x = zr_concat(g, source(g), source_of(g, "more")), k = zr_slice(g, x, 0, 6); /* heads of width 3 */
        zr_value y = zr_attend(g, x, k, k, &spec);
        const zr_op *op = zr_graph_get_op(g, zr_graph_value(g, y)->producer);
        zr_cost cost = op->def->cost(g, op);
        assert_true(cost.pairs == B * 4 * some[i].pairs && cost.head == 3);
        assert_true(cost.flops == 2 * 2 * 3 * cost.pairs);
        sink(g, y);
        assert_int_equal(zr_graph_finish(g), ZR_OK);
        for (int32_t n = 0; n < zr_graph_ops(g); n++) {
            op = zr_graph_get_op(g, n);
            if (strcmp(op->def->name, "attention_dx") != 0) continue;
            assert_true(op->def->cost(g, op).flops == 2 * cost.flops);
            assert_int_equal(op->n_out, 3);
        }
        zr_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_operands),
        cmocka_unit_test(test_attention_refusals),
        cmocka_unit_test(test_attention_costs),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_biased_head),
        cmocka_unit_test(test_rotary_refusals),
        cmocka_unit_test(test_rotary_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
