/* Measurement of the matrix products of a model's step. Each product is timed separately, with the kernels of
 * training. The sum of the times is a lower bound of the step's time under every schedule. */
#include "base/core/core.h"
#include "train/family/samples.h"
#include "train/measure/measure.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MEASURE_SEC 0.06
/* A product that would take more than LONGEST_SEC seconds is timed on a part of its rows, but on at least LEAST_ROWS.
 * With fewer rows, reading the weights would take most of the time. */
#define LONGEST_SEC 0.1
#define LEAST_ROWS 512
#define GUESSED_FLOPS 1e11 /* FLOP/s assumed if the device's peak is unknown */
enum { LEAST_RUNS = 2, ROW_GRAIN = 64, PRODUCTS_OF_HEAD = 6 };

/* Inputs and outputs of a product's kernel. */
typedef struct operands {
    zr_tensor in[ZR_OP_INS], out[ZR_OP_OUTS];
    void *scratch;
} operands;

/* ---- which products -------------------------------------------------------------------------- */

static const char *pass_of(const zr_op *op)
{
    static const char *const names[][2] = {{"linear", "forward"}, {"linear_dx", "dx"}, {"linear_dw", "dw"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(op->def->name, names[i][0]) == 0) return names[i][1];
    return NULL;
}

/** Return whether an op is a fused output head. A fused head computes its matrix products internally and does not store
 * its logits. */
static bool is_head(const zr_graph *graph, const zr_op *op)
{
    bool backward = strcmp(op->def->name, "linear_cross_entropy_dx") == 0;
    if (!backward && strcmp(op->def->name, "linear_cross_entropy") != 0) return false;
    return zr_graph_value(graph, op->in[backward ? 2 : 1])->param >= 0;
}

/** Write the name of a weight to `out`. The name begins with its unit, has no ".weight", and has "*" in place of
 * numbers. For example, "transformer.h.3.mlp.c_fc.weight" becomes "h.*.mlp.c_fc". */
static void name_weight(const zr_graph *graph, int32_t param, char out[ZR_NAME_MAX])
{
    const zr_param_info *info = zr_graph_param(graph, param);
    const char *unit = strstr(info->name, zr_graph_unit_info(graph, info->unit)->name);
    const char *from = unit ? unit : info->name, *suffix = strstr(from, ".weight");
    int n = 0;
    for (; *from && from != suffix; from++) {
        bool digit = isdigit((unsigned char)*from) != 0;
        if (digit && n > 0 && out[n - 1] == '*') continue;
        bool starts = n == 0 || out[n - 1] == '.';
        out[n++] = digit && starts ? '*' : *from;
    }
    out[n] = '\0';
}

static zr__product_timing describe(const zr_graph *graph, const zr_op *op)
{
    char weight[ZR_NAME_MAX];
    const zr_shape *a = &zr_graph_value(graph, op->in[0])->type.shape,
                   *c = &zr_graph_value(graph, op->out[0])->type.shape;
    bool dw = strcmp(op->def->name, "linear_dw") == 0;
    zr__product_timing p = {.dtype = zr_graph_get_spec(graph)->dtype, .m = zr_shape_rows(c), .n = zr_shape_cols(c)};
    p.k = dw ? zr_shape_rows(a) : zr_shape_cols(a);
    name_weight(graph, zr_graph_value(graph, dw ? op->out[0] : op->in[1])->param, weight);
    snprintf(p.what, sizeof(p.what), "%s %s", weight, pass_of(op));
    return p;
}

/* ---- one product ----------------------------------------------------------------------------- */

/** Fill an operand with small values of both signs. With zeros, a chip whose clock depends on its load would run faster
 * than in training. */
static void fill_operand(void *data, zr_dtype dtype, int64_t n)
{
    uint16_t narrow[8];
    float wide[8];
    for (int i = 0; i < 8; i++) {
        wide[i] = (float)(2 * i - 7) / 16.0f;
        narrow[i] = zr_bf16_from_f32(wide[i]);
    }
    if (dtype == ZR_F32)
        for (int64_t i = 0; i < n; i++) ((float *)data)[i] = wide[i * 5 % 8];
    else
        for (int64_t i = 0; i < n; i++) ((uint16_t *)data)[i] = narrow[i * 5 % 8];
}

/** Allocate and fill an operand. An activation gets `rows` rows, a parameter its own shape. */
static zr_status make_tensor(zr_device *device, const zr_graph *graph, zr_value value, int64_t rows, zr_tensor *tensor)
{
    if (value == ZR_NONE) return ZR_OK;
    const zr_value_info *info = zr_graph_value(graph, value);
    zr_shape shape = info->type.shape;
    if (info->param < 0) shape = (zr_shape){2, {rows, zr_shape_cols(&info->type.shape)}};
    int64_t n = zr_shape_elems(&shape);
    tensor->dtype = info->type.dtype;
    tensor->shape = shape;
    const int64_t bytes = zr_dtype_span(tensor->dtype, n);
    void *made = NULL;
    ZR_TRY(device->ops->alloc(device, bytes, &tensor->data));
    if (!device->profile.facts.own_memory) {
        fill_operand(tensor->data, tensor->dtype, n);
        return ZR_OK;
    }
    ZR_TRY(device->ops->alloc_host(device, bytes, &made));
    fill_operand(made, tensor->dtype, n);
    zr_status st = device->ops->copy(device, tensor->data, made, bytes);
    device->ops->free_host(device, made);
    return st;
}

static zr_status make_operands(zr_device *device, const zr_graph *graph, const zr_op *op, int64_t rows, operands *o)
{
    for (int i = 0; i < op->n_in; i++) ZR_TRY(make_tensor(device, graph, op->in[i], rows, &o->in[i]));
    for (int i = 0; i < op->n_out; i++) ZR_TRY(make_tensor(device, graph, op->out[i], rows, &o->out[i]));
    int64_t bytes = zr__device_facts_scratch(&device->profile.facts, graph, op);
    if (bytes > 0) ZR_TRY(device->ops->alloc(device, bytes, &o->scratch));
    return ZR_OK;
}

static void free_operands(zr_device *device, operands *o)
{
    for (int i = 0; i < ZR_OP_INS; i++) device->ops->free(device, o->in[i].data);
    for (int i = 0; i < ZR_OP_OUTS; i++) device->ops->free(device, o->out[i].data);
    device->ops->free(device, o->scratch);
}

static zr_status run_once(const zr_kernel *kernel, const zr_kernel_args *args)
{
    ZR_TRY(kernel->run(args));
    return args->device->ops->finish(args->device);
}

/** Measure the time in seconds of the fastest of several runs, after a warm-up run. */
static zr_status time_runs(const zr_kernel *kernel, const zr_kernel_args *args, double *best)
{
    ZR_TRY(run_once(kernel, args));
    double spent = 0.0;
    for (int runs = 0; runs < LEAST_RUNS || spent < MEASURE_SEC; runs++) {
        double begin = zr_clock_sec();
        ZR_TRY(run_once(kernel, args));
        double sec = fmax(zr_clock_sec() - begin, 1e-9);
        *best = runs == 0 ? sec : fmin(*best, sec);
        spent += sec;
    }
    return ZR_OK;
}

static zr_status time_kernel(zr_device *device, const zr_op *op, const operands *o, double *sec)
{
    static const zr_runtime runtime = {0};
    const zr_kernel *kernel = device->ops->kernel(device, op->def->name);
    ZR_CHECK(kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel \"%s\"", op->def->name);
    zr_kernel_args args = {.device = device,
                           .op = op,
                           .n_in = op->n_in,
                           .n_out = op->n_out,
                           .in = o->in,
                           .out = o->out,
                           .scratch = o->scratch,
                           .runtime = &runtime,
                           .threads = device->profile.facts.threads};
    if (kernel->prepare) ZR_TRY(kernel->prepare(&args, &args.state));
    zr_status st = time_runs(kernel, &args, sec);
    if (kernel->release) kernel->release(args.state);
    return st;
}

/** Return a number of activation rows with which a product takes about LONGEST_SEC or less. Return at least LEAST_ROWS,
 * or all rows if there are fewer. */
static int64_t rows_to_run(const zr_device *device, zr_dtype dtype, double flops, int64_t rows)
{
    const zr_machine *machine = &device->profile.machine;
    double peak = dtype == ZR_BF16 && machine->flops_bf16 > 0.0 ? machine->flops_bf16 : machine->flops_f32;
    double some = (peak > 0.0 ? peak : GUESSED_FLOPS) * LONGEST_SEC / (flops / (double)rows);
    if (some >= (double)rows || rows <= LEAST_ROWS) return rows;
    int64_t part = (int64_t)(some / ROW_GRAIN) * ROW_GRAIN;
    return part > LEAST_ROWS ? part : LEAST_ROWS;
}

static zr_status measure_product(zr_device *device, const zr_graph *graph, const zr_op *op, zr__product_timing *product)
{
    operands o = {.scratch = NULL};
    double sec = 0.0, flops = op->def->cost(graph, op).flops;
    int64_t rows = zr_shape_rows(&zr_graph_value(graph, op->in[0])->type.shape);
    int64_t run = rows_to_run(device, product->dtype, flops, rows);
    zr_status st = make_operands(device, graph, op, run, &o);
    if (st == ZR_OK) st = time_kernel(device, op, &o, &sec);
    free_operands(device, &o);
    ZR_TRY(st);
    product->part = (double)run / (double)rows;
    product->flops_per_sec = flops * product->part / sec;
    return ZR_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static zr_status add_product(zr_device *device, const zr_graph *graph, const zr_op *op, int64_t count,
                             zr__products *all)
{
    zr__product_timing found = describe(graph, op);
    int at = 0;
    for (; at < all->n; at++) {
        const zr__product_timing *p = &all->product[at];
        if (p->m == found.m && p->n == found.n && p->k == found.k && strcmp(p->what, found.what) == 0) break;
    }
    zr__product_timing *product = &all->product[at];
    if (at == all->n) {
        ZR_TRY(measure_product(device, graph, op, &found));
        *product = found;
        all->n++;
    }
    double flops = op->def->cost(graph, op).flops * (double)count;
    product->count += count;
    all->flops += flops;
    all->bound_sec += flops / product->flops_per_sec;
    return ZR_OK;
}

/** Build a graph for one block of a head's rows, from ops with the same matrix products as the fused head. Gradients
 * are F32, since the head adds up its dw over the blocks in F32. The ops of this graph write dw without adding, and are
 * therefore faster than the head, so their time is a lower bound. */
static zr_status make_block(const zr_graph *graph, const zr_op *op, int64_t rows, zr_graph **block)
{
    const zr_param_info *w = zr_graph_param(graph, zr_graph_value(graph, op->in[op->backward ? 2 : 1])->param);
    zr_graph_spec spec = *zr_graph_get_spec(graph);
    spec.batch = 1;
    spec.seq = rows;
    spec.grad_dtype = ZR_F32;
    ZR_TRY(zr_graph_create(&spec, block));
    zr_shape tokens = {2, {1, rows}};
    zr_value ids = zr_input(*block, "ids", ZR_I32, tokens), targets = zr_input(*block, "targets", ZR_I32, tokens);
    zr_graph_unit(*block, "%s", zr_graph_unit_info(graph, w->unit)->name);
    /* make the input a parameter, so that it gets a gradient */
    zr_value table = zr_param(*block, w->init, (zr_shape){2, {1, w->shape.dim[1]}}, "x");
    zr_value weight = zr_param(*block, w->init, w->shape, "%s", w->name);
    zr_value logits = zr_linear(*block, zr_embedding(*block, ids, table), weight, ZR_NONE, true);
    zr_graph_losses(*block, zr_cross_entropy(*block, logits, targets));
    return zr_graph_finish(*block);
}

/** Add the products of `count` blocks with `rows` rows each. */
static zr_status add_blocks(zr_device *device, const zr_graph *graph, const zr_op *op, int64_t rows, int64_t count,
                            zr__products *all)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *block = NULL;
    if (rows == 0 || count == 0) return ZR_OK;
    ZR_TRY(make_block(graph, op, rows, &block));
    for (int32_t i = 0; i < zr_graph_ops(block); i++) {
        const zr_op *product = zr_graph_get_op(block, i);
        bool made = pass_of(product) && (op->backward || !product->backward);
        if (made) ZR_TRY(add_product(device, block, product, count, all));
    }
    return ZR_OK;
}

static zr_status add_head(zr_device *device, const zr_graph *graph, const zr_op *op, zr__products *all)
{
    int64_t rows = zr_shape_rows(&zr_graph_value(graph, op->in[op->backward ? 1 : 0])->type.shape);
    int64_t block = op->attr.i[0];
    ZR_TRY(add_blocks(device, graph, op, block, rows / block, all));
    return add_blocks(device, graph, op, rows % block, 1, all);
}

static bool is_loss(const zr_graph *graph, zr_value value)
{
    for (int t = 0; t < zr_graph_loss_terms(graph); t++)
        if (zr_graph_get_loss_term(graph, t) == value) return true;
    return false;
}

static zr_status measure_graph(zr_device *device, const zr_graph *graph, zr__products *all)
{
    int32_t n = zr_graph_ops(graph);
    all->product = zr_alloc((size_t)n * PRODUCTS_OF_HEAD * sizeof(*all->product));
    ZR_CHECK(all->product || n == 0, ZR_ERR_MEMORY, "no memory to list the products of %d ops", (int)n);
    for (int32_t i = 0; i < n; i++) {
        const zr_op *op = zr_graph_get_op(graph, i);
        /* The forward op of a head never runs if its backward op also computes the losses. */
        const bool forward = strcmp(op->def->name, "linear_cross_entropy") == 0;
        if (forward && !is_loss(graph, op->out[0])) continue;
        if (pass_of(op))
            ZR_TRY(add_product(device, graph, op, 1, all));
        else if (is_head(graph, op))
            ZR_TRY(add_head(device, graph, op, all));
        else
            all->rest_flops += op->def->cost(graph, op).flops;
    }
    return ZR_OK;
}

zr_status zr__products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype, zr_device *device,
                               zr__products *products)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    *products = (zr__products){.n = 0};
    ZR_CHECK(dtype == ZR_F32 || dtype == ZR_BF16, ZR_ERR_DTYPE, "products are measured in F32 or BF16, not in %s",
             zr_dtype_name(dtype));
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                          .batch = batch,
                          .seq = seq,
                          .dtype = dtype,
                          .grad_dtype = dtype,
                          .head_bytes = zr_graph_head_bytes(&device->profile.facts),
                          /* decoders ignore predictions and samples */
                          .predictions = zr__pairs_predictions(seq),
                          .samples = 1};
    ZR_TRY(zr_graph_create(&spec, &graph));
    zr_model_build(model, graph);
    ZR_TRY(zr_graph_finish(graph));
    return measure_graph(device, graph, products);
}

void zr__rates_add_products(zr_rates *rates, const zr__products *products)
{
    for (int i = 0; i < products->n; i++) {
        const zr__product_timing *product = &products->product[i];
        double *best = product->dtype == ZR_BF16 ? &rates->best_bf16 : &rates->best_f32;
        *best = fmax(*best, product->flops_per_sec);
    }
    for (int i = 0; i < products->n && rates->n_products < ZR_PRODUCT_RATES; i++) {
        const zr__product_timing *product = &products->product[i];
        zr_product_rate mean = {.bf16 = product->dtype == ZR_BF16,
                                .sizes = zr__product_sizes_of(product->m, product->n, product->k)};
        double flops = 0.0, sec = 0.0;
        bool before = false;
        for (int j = 0; j < products->n; j++) {
            const zr__product_timing *p = &products->product[j];
            const zr_product_sizes sizes = zr__product_sizes_of(p->m, p->n, p->k);
            if (memcmp(sizes.size, mean.sizes.size, sizeof(sizes.size)) != 0) continue;
            before = before || j < i;
            double work = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
            flops += work;
            sec += work / p->flops_per_sec;
        }
        if (before) continue;
        mean.flops = flops / sec;
        rates->product[rates->n_products++] = mean;
    }
}

void zr__products_clear(zr__products *products)
{
    zr_free(products->product);
    *products = (zr__products){.n = 0};
}
