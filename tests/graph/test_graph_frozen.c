//TEST timeout=60
/* Frozen parameters in a graph: the names that patterns match, the units of frozen parameters, and that trainable
 * parameters get right gradients without any unneeded op. Also vectors in units of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/models.h"
#include "graph_interp.h"

static const zr_gpt2_config tiny = {.n_layer = 3,
                                    .n_head = 2,
                                    .n_embd = 4,
                                    .n_positions = 4,
                                    .vocab_size = 7,
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.02};

static bool vectors_apart;

static zr_status build(zr_mode mode, const char *patterns, zr_graph **graph)
{
    const zr_graph_spec spec = {.mode = mode, .batch = 2, .seq = 3, .vectors_apart = vectors_apart};
    const zr_model model = zr_gpt2(&tiny);
    assert_int_equal(zr_graph_create(&spec, graph), ZR_OK);
    model.build(*graph, model.config);
    zr_graph_freeze(*graph, patterns);
    return zr_graph_finish(*graph);
}

static zr_graph *graph_of(zr_mode mode, const char *patterns)
{
    zr_graph *graph = NULL;
    if (build(mode, patterns, &graph) != ZR_OK) fail_msg("%s: %s", patterns ? patterns : "none", zr_error_message());
    return graph;
}

/* ---- names ------------------------------------------------------------------------------------- */

static int count_frozen(const zr_graph *graph)
{
    int n = 0;
    for (int32_t p = 0; p < zr_graph_params(graph); p++) n += zr_graph_param(graph, p)->frozen;
    return n;
}

static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *patterns;
        int frozen;
    } row[] = {
        {NULL, 0},
        {"", 0},
        {"wte.*", 1},
        {"transformer.wte.weight", 1},
        {"transformer.w?e.*", 2},
        {"h.0.*", 12},
        {"h.[0-1].*", 24},
        {"h.[!0].*", 24},
        {"*.attn.*", 12},
        {"*.bias", 19},
        {"ln_f.bias\nln_f.weight\nln_f.*", 2},
        {"*h.2.mlp.c_fc.weight", 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zr_graph *graph = graph_of(ZR_MODE_TRAIN, row[i].patterns);
        if (count_frozen(graph) != row[i].frozen)
            fail_msg("row %zu: %d parameters, wanted %d", i, count_frozen(graph), row[i].frozen);
        zr_graph_destroy(&graph);
    }
}

static void refused(const char *patterns, const char *why)
{
    zr_graph *graph = NULL;
    assert_int_equal(build(ZR_MODE_EVAL, patterns, &graph), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), why)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), why);
    zr_graph_destroy(&graph);
}

static void test_refusals(void **state)
{
    (void)state;
    char longest[200] = {0};
    memset(longest, 'a', sizeof longest - 1);
    refused("h.3.*", "model.frozen: \"h.3.*\" matches no parameter; the first is transformer.wte.weight");
    refused("wte.*\nattn.*", "model.frozen: \"attn.*\" matches no parameter");
    refused("wte", "\"wte\" matches no parameter");
    refused("[", "\"[\" matches no parameter");
    refused("lm_head.*", "the first is transformer.wte.weight; a tied head is its table");
    refused("wte.*,wpe.*",
            "\"wte.*,wpe.*\" matches no parameter; the first is transformer.wte.weight; several patterns are "
            "a JSON list");
    refused("*", "model.frozen: its patterns match all 40 parameters");
    refused("w?e.*\nh.*\nln_f.*", "match all 40 parameters");
    refused(longest, "a pattern of 199 characters; wanted at most 95");
}

/* ---- units ------------------------------------------------------------------------------------- */

static const zr_param_info *named(const zr_graph *graph, const char *name)
{
    for (int32_t p = 0; p < zr_graph_params(graph); p++)
        if (strcmp(zr_graph_param(graph, p)->name, name) == 0) return zr_graph_param(graph, p);
    fail_msg("%s", name);
    return NULL;
}

/* Check that a unit's parameters are consecutive and either all frozen or all trainable, and that initial values do not
 * change. */
static void test_units(void **state)
{
    (void)state;
    zr_graph *all = graph_of(ZR_MODE_TRAIN, NULL);
    for (int mode = ZR_MODE_TRAIN; mode <= ZR_MODE_EVAL; mode++) {
        zr_graph *graph = graph_of((zr_mode)mode, "wte.*\nh.1.*\n*.ln_2.bias");
        static const char *const name[] = {"embedding, frozen", "h.0, frozen", "h.1, frozen", "h.2, frozen"};
        assert_int_equal(zr_graph_units(all), 5);
        assert_int_equal(zr_graph_units(graph), 9);
        assert_int_equal(zr_graph_params(graph), zr_graph_params(all));
        assert_int_equal(zr_graph_param_elems(graph), zr_graph_param_elems(all));
        int32_t param = 0;
        for (int32_t u = 0; u < zr_graph_units(graph); u++) {
            const zr_unit_info *unit = zr_graph_unit_info(graph, u);
            int64_t elems = 0;
            assert_int_equal(unit->frozen, u >= 5);
            if (u >= 5) assert_string_equal(unit->name, name[u - 5]);
            if (unit->n_params > 0) assert_int_equal(unit->first_param, param);
            for (int32_t i = 0; i < unit->n_params; i++, param++) {
                const zr_param_info *its = zr_graph_param(graph, param), *was = named(all, its->name);
                assert_int_equal(its->frozen, unit->frozen);
                assert_int_equal(its->unit, u);
                assert_int_equal(its->unit_offset, elems);
                assert_int_equal(its->first, was->first);
                assert_int_equal(zr_graph_value(graph, its->value)->param, param);
                assert_int_equal(zr_graph_value(graph, its->value)->unit, was->unit);
                if (its->frozen) assert_int_equal(its->grad, ZR_NONE);
                elems += zr_shape_elems(&its->shape);
            }
            assert_int_equal(unit->elems, elems);
        }
        assert_int_equal(param, zr_graph_params(graph));
        assert_int_equal(zr_graph_unit_info(graph, 2)->n_params, 0); /* h.1 */
        zr_graph_destroy(&graph);
    }
    zr_graph_destroy(&all);
}

/* Check that with vectors_apart no unit has vectors beside matrices, and that a unit of one kind, such as the final
 * norm, stays as it is. */
static void test_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *patterns;
        int32_t units; /* with vectors apart: of 5 units and those of frozen parameters, the blocks are divided */
    } of[] = {{NULL, 8}, {"*.weight", 13}, {"h.1.*", 9}, {"h.0.*.bias\nh.2.ln_*", 10}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        zr_graph *all = graph_of(ZR_MODE_TRAIN, of[i].patterns);
        vectors_apart = true;
        zr_graph *graph = graph_of(ZR_MODE_TRAIN, of[i].patterns);
        vectors_apart = false;
        assert_int_equal(zr_graph_units(graph), of[i].units);
        for (int32_t u = 0, param = 0; u < zr_graph_units(graph); u++) {
            const zr_unit_info *unit = zr_graph_unit_info(graph, u);
            int count[2] = {0};
            for (int32_t k = 0; k < unit->n_params; k++, param++) {
                const zr_param_info *its = zr_graph_param(graph, param), *was = named(all, its->name);
                assert_true(its->unit == u && its->first == was->first && its->frozen == unit->frozen);
                count[its->shape.ndim > 1]++;
            }
            assert_true(count[0] == 0 || count[1] == 0);
            assert_true(unit->declared < 5 && (u >= 5 || unit->declared == u));
            assert_int_equal(unit->vectors, strstr(unit->name, ", vectors") != NULL);
            if (unit->vectors) assert_true(u >= 5 && count[0] > 0);
        }
        for (int32_t k = 0; k < zr_graph_ops(graph); k++)
            assert_int_equal(zr_graph_get_op(graph, k)->unit, zr_graph_get_op(all, k)->unit);
        zr_graph_destroy(&graph);
        zr_graph_destroy(&all);
    }
}

/* ---- gradients ---------------------------------------------------------------------------------- */

/* Check that every trainable parameter has a gradient, and that it agrees with finite differences. */
static void test_gradients(void **state)
{
    (void)state;
    static const char *const patterns[] = {"wte.*", "w?e.*\nh.[01].*", "*.weight", "*.ln_*\nh.1.*", "w?e.*\nh.*"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        zr_graph *graph = graph_of(ZR_MODE_TRAIN, patterns[i]);
        interp it = interp_create(graph, NULL);
        for (int32_t p = 0; p < zr_graph_params(graph); p++)
            assert_int_equal(zr_graph_param(graph, p)->grad == ZR_NONE, zr_graph_param(graph, p)->frozen);
        for (int k = 0; k < 2; k++)
            for (int64_t e = 0; e < 6; e++) it.data[zr_graph_input(graph, k)][e] = (double)((3 * e + k) % 4);
        const double error = interp_gradient_error(&it, 20);
        if (!(error < 1e-6)) fail_msg("%s: error %g", patterns[i], error);
        interp_destroy(&it);
        zr_graph_destroy(&graph);
    }
}

/* Check that no backward op belongs to a unit below the lowest trainable one, and that every output of a backward op is
 * read. */
static void test_nothing_else_is_made(void **state)
{
    (void)state;
    zr_graph *graph = graph_of(ZR_MODE_TRAIN, "w?e.*\nh.[01].*");
    for (int32_t i = 0; i < zr_graph_ops(graph); i++) {
        const zr_op *op = zr_graph_get_op(graph, i);
        if (!op->backward) continue;
        assert_true(op->unit >= 3); /* h.2 */
        for (int k = 0; k < op->n_out; k++) {
            const zr_value_info *out = zr_graph_value(graph, op->out[k]);
            int read = out->kind == ZR_VALUE_GRAD || zr_graph_get_loss_term(graph, 0) == op->out[k];
            for (int32_t j = i + 1; j < zr_graph_ops(graph); j++)
                for (int in = 0; in < zr_graph_get_op(graph, j)->n_in; in++)
                    read += zr_graph_get_op(graph, j)->in[in] == op->out[k];
            if (read == 0) fail_msg("%s: output %d is read by no one", op->def->name, k);
        }
    }
    zr_graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_refusals),  cmocka_unit_test(test_units),
        cmocka_unit_test(test_vectors),  cmocka_unit_test(test_gradients), cmocka_unit_test(test_nothing_else_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
