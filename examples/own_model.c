// A model of one's own, trained with ZeRO stage 3 on two ranks of this process.
//
// It is no transformer: the next byte of a text is guessed from the last four by embeddings, one table a
// distance, and a residual MLP. The model says nothing of ranks or stages; the layout says both.
#include <stdio.h>
#include <zr.h>

enum { B = 8, T = 32, STEPS = 60, RANKS = 2, CONTEXT = 4, WIDTH = 64, LAYERS = 2, BYTES = 256 };
static const char text[] = "the cat sat on the mat. a dog ran to the gate. we met at the end of the day. the sun set. ";

static void build_mlp(zr_graph *graph, const void *config)
{
    (void)config;
    const zr_init weight = {ZR_INIT_NORMAL, 0.05}, zero = {ZR_INIT_ZERO, 0}, one = {ZR_INIT_ONE, 0};
    const zr_shape width = {1, {WIDTH}}, tokens = {2, {zr_graph_get_spec(graph)->batch, T}};
    zr_graph_unit(graph, "context");
    zr_value x = ZR_NONE;
    for (int i = 0; i < CONTEXT; i++) {
        zr_value ids = zr_input(graph, "earlier bytes", ZR_I32, tokens);
        zr_value table = zr_param(graph, weight, (zr_shape){2, {BYTES, WIDTH}}, "context.%d", i);
        zr_value h = zr_embedding(graph, ids, table);
        x = i == 0 ? h : zr_add(graph, x, h);
    }
    for (int i = 0; i < LAYERS; i++) {
        zr_graph_unit(graph, "mlp.%d", i);
        zr_value gain = zr_param(graph, one, width, "mlp.%d.gain", i);
        zr_value bias = zr_param(graph, zero, width, "mlp.%d.bias", i);
        zr_value up = zr_param(graph, weight, (zr_shape){2, {WIDTH, 4 * WIDTH}}, "mlp.%d.up", i);
        zr_value down = zr_param(graph, weight, (zr_shape){2, {4 * WIDTH, WIDTH}}, "mlp.%d.down", i);
        zr_value h = zr_layernorm(graph, x, gain, bias, 1e-5);
        h = zr_gelu(graph, zr_linear(graph, h, up, ZR_NONE, false));
        x = zr_add(graph, x, zr_linear(graph, h, down, ZR_NONE, false));
    }
    zr_graph_unit(graph, "head");
    zr_value head = zr_param(graph, weight, (zr_shape){2, {WIDTH, BYTES}}, "head");
    zr_value targets = zr_input(graph, "next byte", ZR_I32, tokens);
    zr_graph_losses(graph, zr_cross_entropy(graph, zr_linear(graph, x, head, ZR_NONE, false), targets));
}

// Row r of the run reads the text from a place of its own: the same at any number of ranks.
static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    for (int64_t b = 0; b < B; b++) {
        int64_t row = batch->step * B * RANKS + batch->first_row + b;
        int64_t start = CONTEXT + row * 977 % (int64_t)(sizeof text - 1 - T - CONTEXT);
        for (int64_t t = 0; t < T; t++) {
            for (int i = 0; i < CONTEXT; i++) ((int32_t *)input[i])[b * T + t] = text[start + t - 1 - i];
            ((int32_t *)input[CONTEXT])[b * T + t] = text[start + t];
        }
    }
    return ZR_OK;
}

static zr_status train(zr_comm *comm, zr_device *device, const zr_plan *plan)
{
    zr_engine *engine = NULL;
    zr_status st = zr_engine_create(plan, device, comm, 1234, &engine);
    if (st == ZR_OK) st = zr_engine_fill(engine, ZR_STATE_PARAM, NULL, NULL);
    for (int64_t step = 0; st == ZR_OK && step < STEPS; step++) {
        zr_step_result result;
        st = zr_engine_step(engine, &(zr_step_args){.step = step, .lr = 3e-3, .clip = 1.0, .batch = fill_batch},
                            &result);
        if (st == ZR_OK && comm->rank == 0 && (step % 10 == 0 || step == STEPS - 1))
            printf("step %2lld  loss %.4f\n", (long long)step + 1, result.loss);
    }
    zr_measured now = {0};
    if (st == ZR_OK) zr_engine_measured(engine, &now);
    bool same = now.memory.total_bytes == plan->memory.total_bytes;
    for (int c = 0; c < ZR_CATEGORIES; c++) same &= now.memory.category_bytes[c] == plan->memory.category_bytes[c];
    printf("rank %d  planned %lld bytes, measured %lld: %s\n", comm->rank, (long long)plan->memory.total_bytes,
           (long long)now.memory.total_bytes, same ? "equal in every category" : "DIFFERENT");
    zr_engine_destroy(&engine);
    return st == ZR_OK && !same ? ZR_FAIL(ZR_ERR_INTERNAL, "the plan does not tell what was taken") : st;
}

// What every rank does: its own device and plan, one communicator.
static zr_status run_rank(zr_comm *comm, void *arg)
{
    (void)arg;
    const zr_model model = {.name = "mlp", .build = build_mlp};
    zr_layout layout = zr_layout_default();
    layout.ranks = RANKS, layout.stage = 3, layout.batch = B, layout.seq = T, layout.eval = false;
    layout.optimizer = zr_adamw(0.9, 0.99, 1e-8, 0.1);
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
    fprintf(stderr, "own_model: %s\n%s", zr_error_message(), zr_error_trace());
    return 1;
}
