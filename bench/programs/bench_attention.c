#include "base/core/core.h"
/*
 * Time and memory of causal attention, forward and backward, as the sequence grows: the heads of GPT-2 124M, one row,
 * fp32 or bf16. The memory is the outputs of the attention ops (output, log-sum-exp, gradient of qkv) and the larger of
 * their scratches. Their inputs do not count. Prints one JSON line for each T.
 *
 *   GOMP_SPINCOUNT=10000 build/bench/bench_attention [LONGEST_T [THREADS [f32|bf16]]]
 *
 * T is 256, 512, 1024 and so on, up to LONGEST_T (8192).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zr.h>

enum { HEADS = 12, WIDTH = 768, REPEATS = 2 };

/* A graph with one attention op, its backward op and a loss, and an array for each value. */
typedef struct bench {
    zr_device *device;
    zr_graph *graph;
    void **data; /* arrays of the graph's values, (zr_graph_values) */
    void *scratch;
} bench;

static int64_t value_bytes(const bench *b, zr_value value)
{
    const zr_type *type = &zr_graph_value(b->graph, value)->type;
    return zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype);
}

static int64_t scratch_bytes(const bench *b, const zr_op *op)
{
    return zr__device_facts_scratch(&b->device->profile.facts, b->graph, op);
}

static bool is_attention(const zr_op *op)
{
    return strncmp(op->def->name, "attention", 9) == 0;
}

/* Build the graph. qkv is a parameter, so that it gets a gradient. */
static zr_status build(bench *b, int64_t seq, zr_dtype dtype)
{
    const zr_graph_spec spec = {.mode = ZR_MODE_TRAIN, .batch = 1, .seq = seq, .dtype = dtype, .grad_dtype = dtype};
    ZR_TRY(zr_graph_create(&spec, &b->graph));
    zr_graph_unit(b->graph, "attention");
    zr_value qkv = zr_param(b->graph, (zr_init){ZR_INIT_ZERO, 0}, (zr_shape){3, {1, seq, 3 * WIDTH}}, "qkv");
    zr_value targets = zr_input(b->graph, "targets", ZR_I32, (zr_shape){2, {1, seq}});
    zr_graph_losses(b->graph, zr_cross_entropy(b->graph, zr_attention(b->graph, qkv, HEADS, 0.0), targets));
    return zr_graph_finish(b->graph);
}

static zr_status allocate(bench *b, int64_t *made_bytes)
{
    int64_t made = 0, most_scratch = 0;
    b->data = zr_alloc((size_t)zr_graph_values(b->graph) * sizeof *b->data);
    ZR_CHECK(b->data, ZR_ERR_MEMORY, "no memory for the table of values");
    memset(b->data, 0, (size_t)zr_graph_values(b->graph) * sizeof *b->data);
    for (zr_value v = 0; v < zr_graph_values(b->graph); v++)
        ZR_TRY(b->device->ops->alloc(b->device, value_bytes(b, v), &b->data[v]));
    for (int32_t i = 0; i < zr_graph_ops(b->graph); i++) {
        const zr_op *op = zr_graph_get_op(b->graph, i);
        int64_t scratch = scratch_bytes(b, op);
        if (scratch > most_scratch) most_scratch = scratch;
        for (int o = 0; o < op->n_out && is_attention(op); o++) made += value_bytes(b, op->out[o]);
    }
    ZR_TRY(b->device->ops->alloc(b->device, most_scratch + 64, &b->scratch));
    *made_bytes = made + most_scratch;
    return ZR_OK;
}

static void fill(bench *b)
{
    const zr_rng rng = {.seed = 1};
    const zr_value targets = zr_graph_input(b->graph, 0);
    memset(b->data[targets], 0, (size_t)value_bytes(b, targets));
    zr_value qkv = zr_graph_param(b->graph, 0)->value;
    const zr_type *type = &zr_graph_value(b->graph, qkv)->type;
    for (int64_t i = 0; i < zr_shape_elems(&type->shape); i++) {
        const float x = (float)((double)zr_rng_u32(&rng, (uint64_t)i) * 0x1p-31 - 1.0);
        if (type->dtype == ZR_F32)
            ((float *)b->data[qkv])[i] = x;
        else
            ((uint16_t *)b->data[qkv])[i] = zr_bf16_from_f32(x);
    }
}

static zr_tensor operand(const bench *b, zr_value value)
{
    if (value == ZR_NONE) return (zr_tensor){NULL, ZR_F32, {0, {0}}};
    const zr_type *type = &zr_graph_value(b->graph, value)->type;
    return (zr_tensor){b->data[value], type->dtype, type->shape};
}

/* Run an op `repeats` times. *sec receives the shortest time. */
static zr_status run_op(bench *b, const zr_op *op, int repeats, double *sec)
{
    const zr_runtime runtime = {.loss_seed = {1.0f}};
    zr_tensor in[ZR_OP_INS], out[ZR_OP_OUTS];
    for (int i = 0; i < op->n_in; i++) in[i] = operand(b, op->in[i]);
    for (int i = 0; i < op->n_out; i++) out[i] = operand(b, op->out[i]);
    const zr_kernel *kernel = b->device->ops->kernel(b->device, op->def->name);
    ZR_CHECK(kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel for %s", op->def->name);
    zr_kernel_args args = {.device = b->device,
                           .op = op,
                           .n_in = op->n_in,
                           .n_out = op->n_out,
                           .in = in,
                           .out = out,
                           .scratch = b->scratch,
                           .runtime = &runtime,
                           .threads = b->device->profile.facts.threads};
    if (kernel->prepare) ZR_TRY(kernel->prepare(&args, &args.state));
    zr_status st = ZR_OK;
    for (int r = 0; r < repeats && st == ZR_OK; r++) {
        double begin = zr_clock_sec();
        st = kernel->run(&args);
        double took = zr_clock_sec() - begin;
        if (r == 0 || took < *sec) *sec = took;
    }
    if (kernel->release) kernel->release(args.state);
    return st;
}

static void clear(bench *b)
{
    for (zr_value v = 0; b->data && v < zr_graph_values(b->graph); v++)
        if (b->data[v]) b->device->ops->free(b->device, b->data[v]);
    if (b->scratch) b->device->ops->free(b->device, b->scratch);
    zr_free(b->data);
    zr_graph_destroy(&b->graph);
}

static zr_status measure(zr_device *device, int64_t seq, zr_dtype dtype)
{
    ZR_AUTO(clear) bench b = {.device = device};
    int64_t bytes = 0;
    double total = 0.0, forward = 0.0;
    ZR_TRY(build(&b, seq, dtype));
    ZR_TRY(allocate(&b, &bytes));
    fill(&b);
    for (int32_t i = 0; i < zr_graph_ops(b.graph); i++) {
        const zr_op *op = zr_graph_get_op(b.graph, i);
        double sec = 0.0;
        ZR_TRY(run_op(&b, op, is_attention(op) ? REPEATS : 1, &sec));
        if (is_attention(op)) total += sec;
        if (strcmp(op->def->name, "attention") == 0) forward = sec;
    }
    printf("{\"T\":%" PRId64 ", \"sec\":%.6g, \"forward_sec\":%.6g, \"memory_bytes\":%" PRId64 "}\n", seq, total,
           forward, bytes);
    fflush(stdout);
    return ZR_OK;
}

int main(int argc, char **argv)
{
    int64_t longest = argc > 1 ? atoll(argv[1]) : 8192;
    const zr_device_config wanted = {.threads = argc > 2 ? atoi(argv[2]) : (int)sysconf(_SC_NPROCESSORS_ONLN)};
    const zr_dtype dtype = argc > 3 && strcmp(argv[3], "bf16") == 0 ? ZR_BF16 : ZR_F32;
    zr_device *device = NULL;
    zr_status st = zr_device_create_cpu(&wanted, &device);
    for (int64_t seq = 256; seq <= longest && st == ZR_OK; seq *= 2) st = measure(device, seq, dtype);
    zr_device_destroy(&device);
    if (st == ZR_OK) return 0;
    fprintf(stderr, "%s\n", zr_error_message());
    return 1;
}
