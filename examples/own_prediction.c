// Predictions of a model of one's own: trained by a few steps on two ranks at stage 3, then asked.
//
// The model learns that 3 x + 1 (modulo 8) follows x: a table of vectors, and a head that makes logits of them. In
// evaluation mode it names the logits, and zr_engine_value reads them behind zr_engine_eval. Each rank asks about
// numbers of its own; the ranks print what they hold of the weights, so that the logits can be computed by hand:
// logits of x = vector x times head + bias (test_examples.sh does).
#include <stdio.h>
#include <zr.h>

enum { B = 4, RANKS = 2, STEPS = 60, V = 8, WIDTH = 6 };

static void build(zr_graph *graph, const void *config)
{
    (void)config;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init random = {ZR_INIT_NORMAL, 0.5}, zero = {ZR_INIT_ZERO, 0};
    const zr_shape numbers = {2, {spec->batch, spec->seq}};
    zr_graph_unit(graph, "model");
    zr_value table = zr_param(graph, random, (zr_shape){2, {V, WIDTH}}, "table");
    zr_value head = zr_param(graph, random, (zr_shape){2, {WIDTH, V}}, "head");
    zr_value bias = zr_param(graph, zero, (zr_shape){1, {V}}, "bias");
    zr_value x = zr_input(graph, "x", ZR_I32, numbers);
    zr_value next = zr_input(graph, "next", ZR_I32, numbers);
    zr_value logits = zr_linear(graph, zr_embedding(graph, x, table), head, bias, false);
    zr_graph_losses(graph, zr_cross_entropy(graph, logits, next));
    if (spec->mode == ZR_MODE_EVAL) zr_graph_output(graph, logits); // what a prediction reads
}

// All numbers in turn. A prediction needs no targets: what stands there goes into a loss that nobody looks at.
static zr_status fill(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    for (int b = 0; b < B; b++) {
        const int32_t x = (int32_t)((batch->first_row + b) % V);
        ((int32_t *)input[0])[b] = x;
        ((int32_t *)input[1])[b] = (3 * x + 1) % V;
    }
    return ZR_OK;
}

static zr_status predict(zr_engine *engine, const zr_plan *plan, int rank)
{
    float logits[B][V]; // (B, T, V), T is 1
    zr_exact losses = {0};
    const zr_batch batch = {.first_row = (int64_t)rank * B};
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_EVAL];
    zr_status st = zr_engine_eval(engine, &batch, fill, NULL, &losses);
    if (st == ZR_OK) st = zr_engine_value(engine, ZR_SCHEDULE_EVAL, zr_graph_get_output(graph), logits);
    for (int b = 0; st == ZR_OK && b < B; b++) {
        char line[256];
        int n = 0, best = 0;
        for (int v = 0; v < V; v++) {
            n += snprintf(line + n, sizeof line - (size_t)n, " %.6f", logits[b][v]);
            if (logits[b][v] > logits[b][best]) best = v;
        }
        printf("rank %d logits of %d:%s, so %d follows\n", rank, rank * B + b, line, best);
    }
    return st;
}

static zr_status print_weights(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg;
    for (int64_t i = 0; i < n; i++) printf("%s %lld %.9g\n", param->name, (long long)(first + i), in[i]);
    return ZR_OK;
}

static zr_status train(zr_comm *comm, zr_device *device, const zr_plan *plan)
{
    zr_engine *engine = NULL;
    zr_step_result result;
    zr_status st = zr_engine_create(plan, device, comm, 1234, &engine);
    if (st == ZR_OK) st = zr_engine_fill(engine, ZR_STATE_PARAM, NULL, NULL);
    for (int64_t step = 0; st == ZR_OK && step < STEPS; step++)
        st = zr_engine_step(engine, &(zr_step_args){.step = step, .lr = 0.05, .batch = fill}, &result);
    if (st == ZR_OK) st = predict(engine, plan, comm->rank);
    if (st == ZR_OK) st = zr_engine_read(engine, ZR_STATE_PARAM, print_weights, NULL);
    zr_engine_destroy(&engine);
    return st;
}

static zr_status run_rank(zr_comm *comm, void *arg)
{
    (void)arg;
    const zr_model model = {.name = "next", .build = build};
    zr_layout layout = zr_layout_default(); // fp32; with an evaluation schedule
    layout.ranks = RANKS, layout.stage = 3, layout.batch = B, layout.seq = 1;
    layout.optimizer = zr_adamw(0.9, 0.99, 1e-8, 0.0);
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_status st = zr_device_create_cpu(&(zr_device_config)ZR_DEVICE_CONFIG_INIT, &device);
    if (st == ZR_OK) st = zr_plan_create(&model, &layout, &device->profile, &plan);
    if (st == ZR_OK) st = train(comm, device, plan);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    return st;
}

int main(void)
{
    if (zr_comm_threads_run(RANKS, run_rank, NULL) == ZR_OK) return 0;
    fprintf(stderr, "own_prediction: %s\n%s", zr_error_message(), zr_error_trace());
    return 1;
}
