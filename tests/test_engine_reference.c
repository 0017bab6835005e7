//TEST timeout=120 tsan=1
/* Engines against the double-precision interpreter at sizes where nothing divides: width 57, 3 heads, 131 tokens; losses,
 * gradients and their norm on 1, 3 and 6 ranks, every stage, with dropout; and a model whose weight is the sum of two. */
#include "graph_interp.h"
#include "trainer.h"

enum { ROWS = 6, LONGEST = 64 * 1024 };

static double reference_loss, reference_norm;
static interp reference;
static zr_graph *whole;
static float got[64][LONGEST];

/* The interpreter's weights are the model's initial ones. */
static void set_weights(trainer *run)
{
    zr_rng rng = {.seed = run->seed, .purpose = ZR_RNG_INIT};
    for (int32_t p = 0; p < zr_graph_params(whole); p++) {
        const zr_param_info *param = zr_graph_param(whole, p);
        int64_t n = zr_shape_elems(&param->shape);
        zr_rng_normal(&rng, (uint64_t)param->first, n, got[0]);
        for (int64_t i = 0; i < n; i++)
            reference.data[param->value][i] = param->init.kind == ZR_INIT_NORMAL ? got[0][i] * (float)param->init.std : param->init.kind == ZR_INIT_ONE;
    }
}

/* One graph of the whole batch is the truth for every layout. */
static void compute_reference(trainer *run)
{
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN, .batch = ROWS, .seq = run->layout.seq};
    assert_int_equal(zr_graph_create(&spec, &whole), ZR_OK);
    zr_gpt2(&run->config).build(whole, &run->config);
    assert_int_equal(zr_graph_finish(whole), ZR_OK);
    reference = interp_create(whole, NULL);
    reference.seed = run->seed;
    set_weights(run);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t t = 0; t < spec.seq; t++) {
            reference.data[zr_graph_input(whole, 0)][r * spec.seq + t] = trainer_token(run, 0, r, t);
            reference.data[zr_graph_input(whole, 1)][r * spec.seq + t] = trainer_token(run, 0, r, t + 1);
        }
    assert_true(interp_run(&reference));
    zr_value losses = zr_graph_get_losses(whole);
    reference_loss = reference_norm = 0;
    for (int64_t i = 0; i < ROWS * spec.seq; i++) reference_loss += reference.data[losses][i] / (double)(ROWS * spec.seq);
    for (int32_t p = 0; p < zr_graph_params(whole); p++)
        for (int64_t i = 0; i < zr_shape_elems(&zr_graph_param(whole, p)->shape); i++)
            reference_norm += pow(reference.data[zr_graph_param(whole, p)->grad][i], 2);
    reference_norm = sqrt(reference_norm);
}

static zr_status keep(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg;
    for (int32_t p = 0; p < zr_graph_params(whole); p++)
        if (strcmp(zr_graph_param(whole, p)->name, param->name) == 0) memcpy(got[p] + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static zr_status keep_gradients(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read_grad(engine, keep, NULL);
}

static void check(trainer *run)
{
    memset(got, 0xff, sizeof got);
    trainer_run(run);
    assert_float_equal(run->loss[0], reference_loss, 2e-6 * reference_loss);
    assert_float_equal(run->norm[0], reference_norm, 1e-5 * reference_norm);
    for (int32_t p = 0; p < zr_graph_params(whole); p++) {
        const zr_param_info *param = zr_graph_param(whole, p);
        const double *want = reference.data[param->grad];
        double largest = 0, worst = 0;
        for (int64_t i = 0; i < zr_shape_elems(&param->shape); i++) {
            largest = fmax(largest, fabs(want[i]));
            worst = fmax(worst, fabs(want[i] - got[p][i]));
        }
        if (!(worst <= 2e-5 * largest)) fail_msg("gradient of %s off by %g of %g", param->name, worst, largest);
    }
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (int dropout = 0; dropout <= 1; dropout++) {
        trainer run = trainer_odd();
        run.steps = 1;
        run.after_first = keep_gradients;
        if (dropout) run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0.15;
        compute_reference(&run);
        static const int cut[][3] = {{1, 1, 6}, {1, 3, 2}, {3, 1, 2}, {3, 2, 1}, {6, 1, 1}}; /* ranks, accum, batch */
        for (size_t c = 0; c < sizeof cut / sizeof *cut; c++)
            for (int stage = 0; stage <= 3; stage++) {
                run.layout.ranks = cut[c][0];
                run.layout.accum = cut[c][1];
                run.layout.batch = cut[c][2];
                run.layout.stage = stage;
                check(&run);
            }
        interp_destroy(&reference);
        zr_graph_destroy(&whole);
    }
}

/* ---- a parameter used as itself ---- */

enum { WIDE = 5 };

static void build_sum(zr_graph *g, const void *config)
{
    (void)config;
    int64_t B = zr_graph_get_spec(g)->batch;
    zr_graph_unit(g, "tables");
    zr_init normal = {ZR_INIT_NORMAL, 1.0};
    zr_value p = zr_param(g, normal, (zr_shape){2, {WIDE, WIDE}}, "p"), q = zr_param(g, normal, (zr_shape){2, {WIDE, WIDE}}, "q");
    zr_value ids = zr_input(g, "ids", ZR_I32, (zr_shape){2, {B, 1}}), targets = zr_input(g, "targets", ZR_I32, (zr_shape){2, {B, 1}});
    zr_graph_losses(g, zr_cross_entropy(g, zr_embedding(g, ids, zr_add(g, p, q)), targets));
}

static zr_status sum_batch(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    for (int b = 0; b < 2; b++) {
        ((int32_t *)input[0])[b] = (int32_t)(batch->first_row + b) % WIDE;
        ((int32_t *)input[1])[b] = (int32_t)(batch->first_row + b + 1) % WIDE;
    }
    return ZR_OK;
}

static float sum_grad[2][WIDE * WIDE];
static zr_status keep_sum(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg;
    memcpy(sum_grad[param->name[0] == 'q'] + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static zr_status train_sum(zr_comm *comm, void *arg)
{
    (void)arg;
    zr_model model = {"sum", build_sum, NULL};
    zr_layout layout = ZR_LAYOUT_INIT;
    zr_device_config wanted = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_engine *engine = NULL;
    zr_step_result first = {0}, result = {0};
    layout.ranks = 2;
    layout.stage = 3;
    layout.batch = 2;
    layout.optimizer = zr_sgd(0, false, 0);
    zr_status st = zr_device_create_cpu(&wanted, &device);
    if (st == ZR_OK) st = zr_plan_create(&model, &layout, &device->profile, &plan);
    if (st == ZR_OK) st = zr_engine_create(plan, device, comm, 1, &engine);
    if (st == ZR_OK) st = zr_engine_fill(engine, NULL, NULL);
    for (int i = 0; i < 5 && st == ZR_OK; i++) {
        zr_step_args args = {.step = i, .lr = 0.5, .batch = sum_batch};
        st = zr_engine_step(engine, &args, i ? &result : &first);
    }
    if (st == ZR_OK) st = zr_engine_read_grad(engine, keep_sum, NULL);
    if (st == ZR_OK && !(result.loss < first.loss)) st = ZR_FAIL(ZR_ERR_INTERNAL, "loss %g, then %g", first.loss, result.loss);
    zr_engine_destroy(&engine);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    return st;
}

/* w = p + q: both get the whole gradient of w, bit for bit. */
static void test_parameters_added(void **state)
{
    (void)state;
    zr_status st = zr_comm_threads_run(2, train_sum, NULL);
    if (st != ZR_OK) fail_msg("%s", zr_error_message());
    assert_memory_equal(sum_grad[0], sum_grad[1], sizeof sum_grad[0]);
    assert_true(sum_grad[0][0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_odd_sizes), cmocka_unit_test(test_parameters_added)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
