//TEST timeout=20
/* zr_engine_value reads a value that the model has named at the end of a walk, whatever follows it; a value whose bytes
 * have been reused, or that belongs to another walk, is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "zr.h"

enum { B = 3, T = 2, ROWS = B * T, V = 16, W = 8, LAYERS = 6 };

static bool named;            /* whether the model names its first layer's output; otherwise it names the logits */
static zr_value first, table; /* values of the last graph built */
static float weight[2][V * W];

/* Build a table and linear layers in sequence: the first one's output is long overwritten when the last one has run. */
static void build(zr_graph *g, const void *config)
{
    (void)config;
    const zr_init random = {ZR_INIT_NORMAL, 0.5};
    const zr_shape tokens = {2, {zr_graph_get_spec(g)->batch, T}};
    zr_graph_unit(g, "model");
    table = zr_param(g, random, (zr_shape){2, {V, W}}, "table");
    zr_value x = zr_input(g, "x", ZR_I32, tokens), y = zr_input(g, "y", ZR_I32, tokens);
    zr_value h = zr_embedding(g, x, table);
    for (int i = 0; i < LAYERS; i++) {
        h = zr_linear(g, h, zr_param(g, random, (zr_shape){2, {W, W}}, "w%d", i), ZR_NONE, false);
        if (i == 0) first = h;
    }
    zr_value logits = zr_linear(g, h, zr_param(g, random, (zr_shape){2, {W, V}}, "head"), ZR_NONE, false);
    zr_graph_losses(g, zr_cross_entropy(g, logits, y));
    zr_graph_output(g, named ? first : logits);
}

static zr_status fill(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    for (int r = 0; r < ROWS; r++) {
        ((int32_t *)input[0])[r] = (int32_t)((5 * r + batch->step) % V);
        ((int32_t *)input[1])[r] = r % V;
    }
    return ZR_OK;
}

static zr_status keep(void *arg, const zr_param_info *param, int64_t from, int64_t n, const float *in)
{
    (void)arg;
    const int i = strcmp(param->name, "table") == 0 ? 0 : strcmp(param->name, "w0") == 0 ? 1 : -1;
    if (i >= 0) memcpy(weight[i] + from, in, (size_t)n * sizeof(float));
    return ZR_OK;
}

typedef struct rig {
    zr_device *device;
    zr_plan *plan;
    zr_comm *comm;
    zr_engine *engine;
} rig;

static rig make(void)
{
    rig r = {NULL, NULL, NULL, NULL};
    const zr_model model = {.name = "layers", .build = build};
    zr_layout layout = zr_layout_default();
    layout.batch = B, layout.seq = T;
    layout.optimizer = zr_adamw(0.9, 0.99, 1e-8, 0.0);
    assert_int_equal(zr_device_create_cpu(&(zr_device_config)ZR_DEVICE_CONFIG_INIT, &r.device), ZR_OK);
    assert_int_equal(zr_plan_create(&model, &layout, &r.device->profile, &r.plan), ZR_OK);
    assert_int_equal(zr_comm_create_self(&r.comm), ZR_OK);
    assert_int_equal(zr_engine_create(r.plan, r.device, r.comm, 1, &r.engine), ZR_OK);
    assert_int_equal(zr_engine_fill(r.engine, ZR_STATE_PARAM, NULL, NULL), ZR_OK);
    return r;
}

static void drop(rig *r)
{
    zr_engine_destroy(&r->engine);
    zr_comm_destroy(&r->comm);
    zr_plan_destroy(&r->plan);
    zr_device_destroy(&r->device);
}

static void ok(zr_status st)
{
    if (st != ZR_OK) fail_msg("%s", zr_error_message());
}

static void evaluate(const rig *r, int64_t step)
{
    zr_exact sum = {0};
    const zr_batch batch = {.step = step};
    ok(zr_engine_eval(r->engine, &batch, fill, NULL, &sum));
}

static zr_status no_batch(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg, (void)batch, (void)input;
    return ZR_FAIL(ZR_ERR_DATA, "no batch");
}

static void a_named_value_stays(void **state)
{
    (void)state;
    float out[ROWS][W];
    named = true;
    rig r = make();
    const zr_graph *g = r.plan->graph[ZR_SCHEDULE_EVAL];
    const zr_value value = zr_graph_get_output(g);
    assert_int_equal(zr_shape_elems(&zr_graph_value(g, value)->type.shape), ROWS * W);
    ok(zr_engine_read(r.engine, ZR_STATE_PARAM, keep, NULL));
    for (int64_t step = 0; step < 3; step++) {
        memset(out, 0xff, sizeof out);
        evaluate(&r, step);
        ok(zr_engine_value(r.engine, ZR_SCHEDULE_EVAL, value, out));
        for (int row = 0; row < ROWS; row++)
            for (int j = 0; j < W; j++) {
                double sum = 0;
                for (int k = 0; k < W; k++)
                    sum += (double)weight[0][(5 * row + step) % V * W + k] * weight[1][k * W + j];
                assert_true(fabs(sum - out[row][j]) < 1e-5);
            }
    }
    drop(&r);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    float out[ROWS * V];
    zr_step_result result;
    named = false;
    rig r = make();
    const zr_graph *g = r.plan->graph[ZR_SCHEDULE_EVAL];
    const zr_value logits = zr_graph_get_output(g), losses = zr_graph_get_loss_term(g, 0);
    const zr_schedule_kind eval = ZR_SCHEDULE_EVAL;
    assert_int_equal(zr_engine_value(r.engine, eval, logits, out), ZR_ERR_STATE); /* nothing has run */
    assert_non_null(strstr(zr_error_message(), "call zr_engine_eval just before"));
    assert_int_equal(zr_engine_value(r.engine, ZR_SCHEDULE_TRAIN, 1, out), ZR_ERR_STATE);
    zr_exact sum = {0};
    assert_int_equal(zr_engine_eval(r.engine, &(zr_batch){.step = 0}, no_batch, NULL, &sum), ZR_ERR_DATA);
    assert_int_equal(zr_engine_value(r.engine, eval, logits, out), ZR_ERR_STATE); /* that walk failed */
    const zr_value train_losses = zr_graph_get_loss_term(r.plan->graph[ZR_SCHEDULE_TRAIN], 0);
    assert_int_equal(zr_engine_value(r.engine, ZR_SCHEDULE_TRAIN, train_losses, out), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "call zr_engine_step"));
    evaluate(&r, 0);
    ok(zr_engine_value(r.engine, eval, logits, out));
    ok(zr_engine_value(r.engine, eval, losses, out));
    assert_int_equal(zr_engine_value(r.engine, eval, first, out), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "zr_graph_output"));
    assert_int_equal(zr_engine_value(r.engine, eval, table, out), ZR_ERR_ARG);
    assert_int_equal(zr_engine_value(r.engine, eval, -1, out), ZR_ERR_ARG);
    assert_int_equal(zr_engine_value(r.engine, eval, zr_graph_values(g), out), ZR_ERR_ARG);
    assert_int_equal(zr_engine_value(r.engine, ZR_SCHEDULE_DECODE, logits, out), ZR_ERR_ARG); /* not planned */
    assert_int_equal(zr_engine_value(r.engine, ZR_SCHEDULES, logits, out), ZR_ERR_ARG);
    ok(zr_engine_step(r.engine, &(zr_step_args){.lr = 0.1, .batch = fill}, &result));
    assert_int_equal(zr_engine_value(r.engine, eval, logits, out), ZR_ERR_STATE); /* another walk */
    const zr_value gone =
        zr_graph_get_loss_term(r.plan->graph[ZR_SCHEDULE_TRAIN], 0); /* bytes that the backward pass reuses */
    assert_int_equal(zr_engine_value(r.engine, ZR_SCHEDULE_TRAIN, gone, out), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "any more"));
    drop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_value_stays),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
