// An encoder of one's own: bytes of a text are masked, and the model guesses them from both sides.
//
// The layers are BERT's (zr_layer_encoder), with norms before each part and names of their own. It trains with ZeRO
// stage 2 on two ranks of this process.
#include <stdio.h>
#include <zr.h>

enum { B = 8, T = 32, MASKED = 5, STEPS = 120, RANKS = 2, WIDTH = 64, LAYERS = 2, BYTES = 128 };
static const char text[] = "the cat sat on the mat. a dog ran to the gate. we met at the end of the day. the sun set. ";

static void build_encoder(zr_graph *graph, const void *config)
{
    (void)config;
    const int64_t rows = zr_graph_get_spec(graph)->batch;
    const zr_shape tokens = {2, {rows, T}}, masked = {2, {rows, MASKED}};
    const zr_init weight = {ZR_INIT_NORMAL, 0.05};
    zr_value bytes = zr_input(graph, "bytes", ZR_I32, tokens);
    zr_value places = zr_input(graph, "places", ZR_I32, masked);
    zr_value targets = zr_input(graph, "targets", ZR_I32, masked);

    zr_graph_unit(graph, "embedding");
    zr_value table = zr_param(graph, weight, (zr_shape){2, {BYTES, WIDTH}}, "bytes");
    zr_value positions = zr_param(graph, weight, (zr_shape){2, {T, WIDTH}}, "positions");
    zr_value x = zr_position(graph, zr_embedding(graph, bytes, table), positions);
    for (int i = 0; i < LAYERS; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "layer.%d.", i);
        zr_graph_unit(graph, "layer.%d", i);
        x = zr_layer_encoder(graph, x,
                             &(zr_encoder_spec){.heads = 4,
                                                .eps = 1e-5,
                                                .dropout = 0.05,
                                                .std = 0.05,
                                                .pre_layer_norm = true,
                                                .prefix = prefix,
                                                .name[ZR_ENCODER_INNER] = "mlp.up",
                                                .name[ZR_ENCODER_OUTPUT] = "mlp.down"});
    }
    zr_graph_unit(graph, "head");
    x = zr_layer_norm(graph, zr_rows(graph, x, places), 1e-5, "norm");
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, table, targets));
}

// Row r of the run reads the text from a place of its own: the same at any number of ranks. Byte 0 stands for a mask.
static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    int32_t *bytes = input[0], *places = input[1], *targets = input[2];
    for (int64_t b = 0; b < B; b++) {
        const int64_t row = batch->step * B * RANKS + batch->first_row + b;
        const int64_t start = row * 977 % (int64_t)(sizeof text - 1 - T);
        for (int64_t t = 0; t < T; t++) bytes[b * T + t] = text[start + t];
        for (int64_t i = 0; i < MASKED; i++) {
            const int64_t t = (row * 7 + i * 6) % T;
            places[b * MASKED + i] = (int32_t)t;
            targets[b * MASKED + i] = text[start + t];
            bytes[b * T + t] = 0;
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
        if (st == ZR_OK && comm->rank == 0 && (step % 20 == 0 || step == STEPS - 1))
            printf("step %3lld  loss %.4f\n", (long long)step + 1, result.loss);
    }
    zr_engine_destroy(&engine);
    return st;
}

static zr_status run_rank(zr_comm *comm, void *arg)
{
    (void)arg;
    const zr_model model = {.name = "encoder", .build = build_encoder};
    zr_layout layout = zr_layout_default();
    layout.ranks = RANKS, layout.stage = 2, layout.batch = B, layout.seq = T, layout.eval = false;
    layout.optimizer = zr_adamw(0.9, 0.99, 1e-8, 0.01);
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
    fprintf(stderr, "own_encoder: %s\n%s", zr_error_message(), zr_error_trace());
    return 1;
}
