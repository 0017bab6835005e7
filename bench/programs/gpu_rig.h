/*
 * A rig that times single ops of a graph on a device with its own memory. It allocates all values and first runs each
 * op once, so that operands have typical values.
 */
#ifndef GPU_RIG_H
#define GPU_RIG_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <zr.h>

#include "base/core/core.h"
#include "zr/device.h"
#include "zr/graph.h"

enum { ROUNDS = 3, MOST_RUNS = 2000, MOST_OPS = 16 };

/** A device, its queue, and the settings of measurements. */
typedef struct stand {
    zr_device *device;
    zr_queue *queue;
    double target_sec;    /* wanted length of a measurement */
    int64_t vocab;        /* upper bound of token ids in the inputs */
    int64_t document;     /* length of the documents in a row, of graphs with documents */
    bool tells;           /* whether to print each op before it runs, as {"begins":"gelu"} */
    const char **without; /* (n_without) names of ops that must not run */
    int n_without;
} stand;

/* Announce an op or a step, so that a reader knows which one does not return. */
static void tell_begin(const stand *s, const char *op)
{
    if (s->tells) printf("{\"begins\":\"%s\"}\n", op);
    fflush(stdout);
}

/* Return the name in `without` of an op, or of its gradient, or NULL. */
static const char *left_out(const stand *s, const char *op)
{
    static const char *const ends[] = {"", "_dx", "_dw"};
    char name[64];
    for (int i = 0; i < s->n_without; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            snprintf(name, sizeof name, "%s%s", op, ends[k]);
            if (strcmp(name, s->without[i]) == 0) return s->without[i];
        }
    return NULL;
}

/* ---- time -------------------------------------------------------------------------------------- */

typedef struct timing {
    /* function that issues the work; it may return before the work is done */
    zr_status (*run)(void *arg, zr_device *device);
    void *arg;
    double target_sec, sec;
} timing;

static zr_status run_many(const timing *t, zr_device *device, int runs, double *sec)
{
    ZR_TRY(device->ops->finish(device));
    const double begin = zr_clock_sec();
    for (int i = 0; i < runs; i++) ZR_TRY(t->run(t->arg, device));
    ZR_TRY(device->ops->finish(device));
    *sec = (zr_clock_sec() - begin) / runs;
    return ZR_OK;
}

/* Measure the time of one run. This is a task, because outside tasks each operation of the device waits until it is
 * done. */
static zr_status measure_task(void *arg, zr_device *device, int64_t index)
{
    timing *t = arg;
    double sec;
    (void)index;
    ZR_TRY(run_many(t, device, 1, &sec)); /* the first run also loads code */
    ZR_TRY(run_many(t, device, 1, &sec));
    const double wanted = t->target_sec / ROUNDS / (sec > 1e-7 ? sec : 1e-7);
    const int runs = wanted < 1 ? 1 : wanted > MOST_RUNS ? MOST_RUNS : (int)wanted;
    for (int round = 0; round < ROUNDS; round++) {
        ZR_TRY(run_many(t, device, runs, &sec));
        if (round == 0 || sec < t->sec) t->sec = sec;
    }
    return ZR_OK;
}

/* Run a task and wait for it. If it fails, clear the queue's failure. */
static zr_status do_task(const stand *s, zr_status (*run)(void *arg, zr_device *device, int64_t index), void *arg)
{
    const zr_task task = {.run = run, .arg = arg};
    zr_status st = s->device->ops->issue(s->queue, &task), synced = s->device->ops->sync(s->queue);
    return st == ZR_OK ? synced : st;
}

/* Measure the time of one run in seconds, *sec. */
static zr_status measure(const stand *s, zr_status (*run)(void *arg, zr_device *device), void *arg, double *sec)
{
    timing t = {.run = run, .arg = arg, .target_sec = s->target_sec};
    ZR_TRY(do_task(s, measure_task, &t));
    *sec = t.sec;
    return ZR_OK;
}

/* ---- kernels of a graph's ops ------------------------------------------------------------------ */

/** An op with its arrays. */
typedef struct node {
    const zr_op *op;
    const zr_kernel *kernel;
    zr_tensor in[ZR_OP_INS], out[ZR_OP_OUTS];
    zr_kernel_args args;
} node;

/** A graph, and device memory for each of its values. */
typedef struct rig {
    const stand *stand;
    zr_graph *graph;
    int32_t n_values;
    void **data; /* (n_values) */
    void *scratch;
    node node[MOST_OPS];
    int n_nodes;
} rig;

static const zr_runtime runtime = {.seed = 1, .loss_seed = {1.0f}};

static int64_t value_bytes(const rig *r, zr_value value)
{
    const zr_type *type = &zr_graph_value(r->graph, value)->type;
    return zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype);
}

static zr_tensor operand(const rig *r, zr_value value)
{
    if (value == ZR_NONE) return (zr_tensor){NULL, ZR_F32, {0, {0}}};
    const zr_type *type = &zr_graph_value(r->graph, value)->type;
    return (zr_tensor){r->data[value], type->dtype, type->shape};
}

static zr_status make_nodes(rig *r)
{
    zr_device *device = r->stand->device;
    r->n_nodes = zr_graph_ops(r->graph);
    ZR_CHECK(r->n_nodes <= MOST_OPS, ZR_ERR_INTERNAL, "%d ops in a graph", r->n_nodes);
    for (int i = 0; i < r->n_nodes; i++) {
        node *n = &r->node[i];
        n->op = zr_graph_get_op(r->graph, i);
        n->kernel = device->ops->kernel(device, n->op->def->name);
        ZR_CHECK(n->kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel for %s", n->op->def->name);
        for (int k = 0; k < n->op->n_in; k++) n->in[k] = operand(r, n->op->in[k]);
        for (int k = 0; k < n->op->n_out; k++) n->out[k] = operand(r, n->op->out[k]);
        n->args = (zr_kernel_args){.device = device,
                                   .op = n->op,
                                   .n_in = n->op->n_in,
                                   .n_out = n->op->n_out,
                                   .in = n->in,
                                   .out = n->out,
                                   .scratch = r->scratch,
                                   .runtime = &runtime,
                                   .threads = device->profile.facts.threads};
        if (n->kernel->prepare) ZR_TRY(n->kernel->prepare(&n->args, &n->args.state));
    }
    return ZR_OK;
}

static zr_status take_memory(rig *r)
{
    zr_device *device = r->stand->device;
    int64_t scratch_bytes = 0;
    r->n_values = zr_graph_values(r->graph);
    r->data = zr_alloc((size_t)r->n_values * sizeof *r->data);
    ZR_CHECK(r->data, ZR_ERR_MEMORY, "no memory for the table of values");
    memset(r->data, 0, (size_t)r->n_values * sizeof *r->data);
    for (zr_value v = 0; v < r->n_values; v++) ZR_TRY(device->ops->alloc(device, value_bytes(r, v), &r->data[v]));
    for (int32_t i = 0; i < zr_graph_ops(r->graph); i++) {
        const int64_t bytes = zr__device_facts_scratch(&device->profile.facts, r->graph, zr_graph_get_op(r->graph, i));
        if (bytes > scratch_bytes) scratch_bytes = bytes;
    }
    ZR_TRY(device->ops->alloc(device, scratch_bytes + 64, &r->scratch));
    return ZR_OK;
}

/* Fill the parameters with normal random numbers. Zeros would let a chip whose clock depends on its load run faster. */
static zr_status fill_params(rig *r)
{
    zr_device *device = r->stand->device;
    for (int32_t p = 0; p < zr_graph_params(r->graph); p++) {
        const zr_param_info *info = zr_graph_param(r->graph, p);
        const zr_dtype dtype = zr_graph_value(r->graph, info->value)->type.dtype;
        const int64_t n = zr_shape_elems(&info->shape);
        const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
        void *wide;
        ZR_TRY(device->ops->alloc(device, 4 * n, &wide));
        device->ops->normal(device, &rng, (uint64_t)info->first, n, (float)info->init.std, wide);
        zr_status st = device->ops->cast(device, r->data[info->value], dtype, wide, ZR_F32, n, NULL);
        device->ops->free(device, wide);
        ZR_TRY(st);
    }
    return ZR_OK;
}

/* Fill the inputs with token ids. Small ids are more frequent, as in texts. The input of documents gets the beginning
 * of each token's document. */
static zr_status fill_inputs(rig *r)
{
    zr_device *device = r->stand->device;
    const zr_rng rng = {.seed = 2, .purpose = ZR_RNG_INIT};
    for (int32_t i = 0; i < zr_graph_inputs(r->graph); i++) {
        const zr_value input = zr_graph_input(r->graph, i);
        const int64_t bytes = value_bytes(r, input), document = r->stand->document;
        const bool begins = input == zr_graph_get_documents(r->graph);
        const int64_t T = zr_graph_value(r->graph, input)->type.shape.dim[1];
        int32_t *id = zr_alloc((size_t)bytes);
        ZR_CHECK(id, ZR_ERR_MEMORY, "no memory for %lld bytes of tokens", (long long)bytes);
        for (int64_t k = 0; k < bytes / 4; k++)
            id[k] = begins ? (int32_t)(k % T / document * document)
                           : (int32_t)((double)r->stand->vocab * pow(zr_rng_uniform(&rng, (uint64_t)k), 3.0));
        zr_status st = device->ops->copy(device, r->data[input], id, bytes);
        zr_free(id);
        ZR_TRY(st);
    }
    return ZR_OK;
}

static zr_status run_node(void *arg, zr_device *device)
{
    node *n = arg;
    n->args.device = device;
    return n->kernel->run(&n->args);
}

/* Run each op once, in order, so that operands have typical values. Wait for each, so that a failure is its own. */
static zr_status run_all(void *arg, zr_device *device, int64_t index)
{
    rig *r = arg;
    (void)index;
    for (int i = 0; i < r->n_nodes; i++) {
        tell_begin(r->stand, r->node[i].op->def->name);
        ZR_TRY(run_node(&r->node[i], device));
        ZR_TRY(device->ops->finish(device));
    }
    return ZR_OK;
}

static void rig_clear(rig *r)
{
    zr_device *device = r->stand ? r->stand->device : NULL; /* NULL if the rig is empty */
    for (int i = 0; i < r->n_nodes; i++)
        if (r->node[i].kernel && r->node[i].kernel->release) r->node[i].kernel->release(r->node[i].args.state);
    for (zr_value v = 0; r->data && v < r->n_values; v++)
        if (r->data[v]) device->ops->free(device, r->data[v]);
    if (r->scratch) device->ops->free(device, r->scratch);
    zr_free(r->data);
    zr_graph_destroy(&r->graph);
}

static zr_status rig_start(rig *r)
{
    ZR_TRY(zr_graph_finish(r->graph));
    ZR_TRY(take_memory(r));
    ZR_TRY(make_nodes(r));
    ZR_TRY(fill_params(r));
    ZR_TRY(fill_inputs(r));
    ZR_TRY(do_task(r->stand, run_all, r));
    return ZR_OK;
}

static node *find(rig *r, const char *name)
{
    for (int i = 0; i < r->n_nodes; i++)
        if (strcmp(r->node[i].op->def->name, name) == 0) return &r->node[i];
    return NULL;
}

static zr_status measure_node(rig *r, const char *name, double *sec, zr_cost *cost)
{
    node *n = find(r, name);
    ZR_CHECK(n, ZR_ERR_INTERNAL, "the graph has no op %s", name);
    tell_begin(r->stand, name);
    *cost = n->op->def->cost(r->graph, n->op);
    return measure(r->stand, run_node, n, sec);
}

#endif
