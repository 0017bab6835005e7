// An op and an optimizer of one's own, in a language model after LLaMA: norms without a mean, gated products. The
// second block's activation function is an op of this file, and the optimizer is Lion (Chen et al. 2023).
//
// zr learns of the op by its definition alone: the planner decides where its results lie, whether they are kept or made
// again for the backward, and what stage 3 gathers for it. So the losses at stage 3 are those of stage 0 to the last
// bit.
#include <stdio.h>
#include <string.h>
#include <zr.h>

enum { B = 4, T = 32, STEPS = 240, RANKS = 2, WIDTH = 48, HEADS = 4, BLOCKS = 2, BYTES = 128, EVERY = 40 };
static const char text[] = "the cat sat on the mat. a dog ran to the gate. we met at the end of the day. ";

// ---- the op: y = max(x, 0)^2, and its gradient: dx = 2 max(x, 0) dy ----

static zr_status like_first(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(graph, op->in[0])->type;
    ZR_CHECK(out[0].dtype == ZR_F32, ZR_ERR_DTYPE, "%s: its kernel reads F32 only", op->def->name);
    return ZR_OK;
}

static zr_cost by_bytes(const zr_graph *graph, const zr_op *op)
{
    return (zr_cost){.bytes =
                         4.0 * (op->n_in + 1) * (double)zr_shape_elems(&zr_graph_value(graph, op->in[0])->type.shape)};
}

static const zr_op_def relu2_dx = {"relu2_dx", 1, like_first, .cost = by_bytes, .in_place = {1}}; // dx over dy

static zr_status relu2_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dx = zr_grad_begin(graph, op->in[0], NULL);
    zr_graph_op(graph, &relu2_dx, NULL, 2, (zr_value[]){zr_grad_of(graph, op->out[0]), op->in[0]}, &dx);
    zr_grad_end(graph, op->in[0], dx);
    return ZR_OK;
}

static const zr_op_def relu2_def = {"relu2", 1, like_first, relu2_adjoint, by_bytes, .cheap = true}; // may run again

static zr_value relu2(zr_graph *graph, zr_value x)
{
    zr_value y = ZR_NONE;
    zr_graph_op(graph, &relu2_def, NULL, 1, &x, &y);
    return y;
}

static zr_status run_relu2(const zr_kernel_args *args)
{
    const float *x = args->in[0].data;
    float *y = args->out[0].data;
    int64_t n = zr_shape_elems(&args->out[0].shape);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] * x[i] : 0;
    return ZR_OK;
}

static zr_status run_relu2_dx(const zr_kernel_args *args)
{
    const float *dy = args->in[0].data, *x = args->in[1].data;
    float *dx = args->out[0].data;
    int64_t n = zr_shape_elems(&args->out[0].shape);
    for (int64_t i = 0; i < n; i++) dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0;
    return ZR_OK;
}

static const zr_kernel kernels[] = {{"relu2", .run = run_relu2}, {"relu2_dx", .run = run_relu2_dx}, {0}};

// ---- the optimizer: one state, a momentum; each weight moves by lr, whatever the gradient's size ----

static void lion(const zr_update_args *args)
{
    const float beta1 = (float)args->hyper[0], beta2 = (float)args->hyper[1], lr = (float)args->lr;
    for (int64_t i = 0; i < args->n; i++) { // in F32: the gradient is too, and there is no 16-bit copy to write
        float g = ((const float *)args->grad)[i] * args->grad_scale, m = args->slot[0][i];
        float way = beta1 * m + (1 - beta1) * g;
        args->weight[i] -= lr * ((float)((way > 0) - (way < 0)) + (float)args->weight_decay * args->weight[i]);
        args->slot[0][i] = beta2 * m + (1 - beta2) * g;
    }
}

// ---- the model ----

static zr_value matrix(zr_graph *graph, const char *name, int i, int64_t rows, int64_t cols)
{
    return zr_param(graph, (zr_init){ZR_INIT_NORMAL, 0.05}, (zr_shape){2, {rows, cols}}, "%s.%d", name, i);
}

static zr_value normed(zr_graph *graph, zr_value x, const char *name, int i)
{
    zr_value gain = zr_param(graph, (zr_init){ZR_INIT_ONE, 0}, (zr_shape){1, {WIDTH}}, "%s.%d", name, i);
    return zr_rmsnorm(graph, x, gain, 1e-6);
}

static void build(zr_graph *graph, const void *config)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_shape tokens = {2, {spec->batch, spec->seq}};
    (void)config;
    zr_graph_unit(graph, "tables");
    zr_value table = matrix(graph, "tokens", 0, BYTES, WIDTH), places = matrix(graph, "places", 0, T, WIDTH);
    zr_value x = zr_position(graph, zr_embedding(graph, zr_input(graph, "bytes", ZR_I32, tokens), table), places);
    for (int i = 0; i < BLOCKS; i++) {
        zr_graph_unit(graph, "block.%d", i);
        zr_value qkv = matrix(graph, "qkv", i, WIDTH, 3 * WIDTH), out = matrix(graph, "out", i, WIDTH, WIDTH);
        zr_value h = zr_linear(graph, normed(graph, x, "norm1", i), qkv, ZR_NONE, false);
        x = zr_add(graph, x, zr_linear(graph, zr_attention(graph, h, HEADS, 0), out, ZR_NONE, false));
        zr_value gate = matrix(graph, "gate", i, WIDTH, 2 * WIDTH), up = matrix(graph, "up", i, WIDTH, 2 * WIDTH);
        zr_value down = matrix(graph, "down", i, 2 * WIDTH, WIDTH), n = normed(graph, x, "norm2", i);
        h = zr_linear(graph, n, gate, ZR_NONE, false);
        h = zr_mul(graph, i == 0 ? zr_silu(graph, h) : relu2(graph, h), zr_linear(graph, n, up, ZR_NONE, false));
        x = zr_add(graph, x, zr_linear(graph, h, down, ZR_NONE, false));
    }
    zr_graph_unit(graph, "head");
    x = normed(graph, x, "norm", 0);
    if (spec->mode == ZR_MODE_DECODE) // one byte at a time: the attention remembers the earlier ones
        zr_graph_output(graph, zr_linear(graph, x, table, ZR_NONE, true));
    else
        zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, table, zr_input(graph, "next", ZR_I32, tokens)));
}

// ---- training and writing ----

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    (void)arg;
    for (int64_t i = 0; i < B * T; i++) {
        int64_t row = batch->step * B * RANKS + batch->first_row + i / T;
        const char *at = text + (row * 31 + i % T) % (int64_t)(sizeof text - 1);
        ((int32_t *)input[0])[i] = at[0];
        ((int32_t *)input[1])[i] = at[1] ? at[1] : text[0];
    }
    return ZR_OK;
}

// The likeliest byte after each, from the first ones of the text on.
static zr_status write_on(zr_engine *engine, char *out)
{
    for (int64_t t = 0; t < T; t++) {
        zr_tensor logits;
        int32_t byte = t < 8 ? text[t] : out[t - 1], best = 0;
        ZR_TRY(zr_engine_decode(engine, byte, t, &logits));
        for (int32_t v = 1; v < BYTES; v++)
            if (((const float *)logits.data)[v] > ((const float *)logits.data)[best]) best = v;
        out[t] = (char)(t < 7 ? text[t + 1] : best);
    }
    return ZR_OK;
}

typedef struct result {
    int stage;
    double loss[STEPS];
    char written[T + 1];
} result;

static zr_status run(zr_comm *comm, zr_engine *engine, result *r)
{
    ZR_TRY(zr_engine_fill(engine, ZR_STATE_PARAM, NULL, NULL));
    for (int64_t step = 0; step < STEPS; step++) {
        zr_step_result done;
        ZR_TRY(zr_engine_step(engine, &(zr_step_args){.step = step, .lr = 1e-3, .batch = fill_batch}, &done));
        if (comm->rank == 0) r->loss[step] = done.loss;
    }
    char written[T];
    ZR_TRY(write_on(engine, written));
    if (comm->rank == 0) memcpy(r->written, written, T);
    return ZR_OK;
}

static zr_status run_rank(zr_comm *comm, void *arg)
{
    result *r = arg;
    const zr_model model = {.name = "own", .build = build};
    const zr_device_config wanted = {.threads = 1, .kernels = kernels};
    zr_layout layout = zr_layout_default();
    layout.ranks = RANKS, layout.stage = r->stage, layout.batch = B, layout.seq = T;
    layout.eval = false, layout.decode_len = T;
    layout.optimizer = (zr_optimizer){.name = "lion",
                                      .n_slots = 1,
                                      .hyper = {0.9, 0.99},
                                      .weight_decay = 0.1,
                                      .rule = lion,
                                      .slot_name = {"momentum"}};
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_engine *engine = NULL;
    zr_status st = zr_device_create_cpu(&wanted, &device);
    if (st == ZR_OK) st = zr_plan_create(&model, &layout, &device->profile, &plan);
    if (st == ZR_OK) st = zr_engine_create(plan, device, comm, 1234, &engine);
    if (st == ZR_OK) st = run(comm, engine, r);
    zr_engine_destroy(&engine);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    return st;
}

int main(void)
{
    static result whole = {.stage = 0}, sharded = {.stage = 3};
    if (zr_comm_threads_run(RANKS, run_rank, &whole) != ZR_OK ||
        zr_comm_threads_run(RANKS, run_rank, &sharded) != ZR_OK) {
        fprintf(stderr, "own_op: %s\n%s", zr_error_message(), zr_error_trace());
        return 1;
    }
    for (int i = 0; i < STEPS; i++)
        if (i % EVERY == 0 || i == STEPS - 1) printf("step %3d  loss %.4f\n", i + 1, sharded.loss[i]);
    bool same = memcmp(whole.loss, sharded.loss, sizeof whole.loss) == 0;
    printf("stages 0 and 3: %s\n%.8s|%s\n", same ? "the same losses" : "DIFFERENT LOSSES", text, sharded.written + 7);
    return same ? 0 : 1;
}
