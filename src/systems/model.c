/* The walk through a model's graph. */
#include "systems/model.h"

#include "base/core/scope.h"
#include "config/config.h"

#include <math.h>
#include <string.h>

/* ---- what ops keep --------------------------------------------------------------------------- */

/* Marks of values, to count each value once. */
enum { KEPT = 1, ENTERED = 2 };

typedef struct walk {
    const zr__keeps *keeps;
    const zr_graph *graph;
    zr__model *model;
    unsigned char *mark; /* for each value */
    zr_value *piece;     /* for each value, the value that a sum over tensor ranks makes of it, or ZR_NONE */
    int32_t unit;        /* of the op at hand */
    int products;        /* number of products of this unit so far */
    bool half;           /* whether to count what ZR__REDO_HALF keeps of blocks, and not all */
} walk;

static const zr_value_info *info_of(const walk *w, zr_value value)
{
    return zr_graph_value(w->graph, value);
}

static double elems_of(const walk *w, zr_value value)
{
    const zr_shape shape = info_of(w, value)->type.shape;
    double elems = 1;
    for (int i = 0; i < shape.ndim; i++) elems *= (double)shape.dim[i];
    return elems;
}

/* Return the op that writes a value, or NULL for parameters and inputs. Skip gathers over tensor ranks. */
static const zr_op *source_of(const walk *w, zr_value value)
{
    const zr_op *op = zr_graph_get_op(w->graph, info_of(w, value)->producer);
    return op && op->def->join == ZR_JOIN_GATHER ? source_of(w, op->in[0]) : op;
}

static bool is(const zr_op *op, const char *name)
{
    return op && strcmp(op->def->name, name) == 0;
}
static bool is_norm(const zr_op *op)
{
    return is(op, "layernorm") || is(op, "rmsnorm");
}
static bool is_activation(const zr_op *op)
{
    return is(op, "swiglu") || is(op, "gelu") || is(op, "gelu_erf") || is(op, "relu") || is(op, "silu");
}

static void keep_bytes(walk *w, double bytes)
{
    zr__unit *unit = &w->model->unit[w->unit];
    *(w->half ? &unit->kept : &unit->all) += bytes;
}

/* Keep a value for the backward pass, with `bytes` for an element, or 0 for its own type. Weights and inputs are there
 * anyway. */
static void keep(walk *w, zr_value value, double bytes)
{
    const zr_value_info *info = info_of(w, value);
    const zr_op *source = zr_graph_get_op(w->graph, info->producer);
    if (info->kind != ZR_VALUE_ACT) return;
    if (source->def->join == ZR_JOIN_GATHER && !w->keeps->gathered) {
        keep(w, source->in[0], bytes);
        return;
    }
    if (w->mark[value] & KEPT) return;
    w->mark[value] |= KEPT;
    keep_bytes(w, elems_of(w, value) * (bytes > 0 ? bytes : (double)zr_dtype_bytes(info->type.dtype)));
}

static bool is_trained(const walk *w, zr_value weight)
{
    const zr_param_info *param = zr_graph_param(w->graph, info_of(w, weight)->param);
    return !param || !param->frozen;
}

/* The input of a product, which the gradient of its weight needs. */
static void keep_linear(walk *w, const zr_op *op)
{
    const zr__keeps *keeps = w->keeps;
    const zr_op *source = source_of(w, op->in[0]);
    const zr_value output = w->piece[op->out[0]] != ZR_NONE ? w->piece[op->out[0]] : op->out[0];
    if (w->half) {
        if (w->products++ % 2 == 0) keep(w, output, 0);
        return;
    }
    if (!is_trained(w, op->in[1])) return;
    if ((keeps->redo_norms && is_norm(source)) || ((keeps->redo_gates || keeps->redo_mlp) && is_activation(source)))
        return;
    if (keeps->autocast && is_norm(source))
        keep_bytes(w, elems_of(w, op->in[0]) * 2);
    else
        keep(w, op->in[0], 0);
}

static void keep_norm(walk *w, const zr_op *op)
{
    const double elems = elems_of(w, op->in[0]);
    const bool python = w->keeps->transformers && is(op, "rmsnorm") && !w->keeps->redo_norms;
    if (python && !w->keeps->autocast)
        keep_bytes(w, elems * (4 + w->model->value_bytes)); /* a copy in fp32, and the normalised input */
    else
        keep(w, op->in[0], w->keeps->autocast ? 4 : 0);
    if (python && w->keeps->autocast) keep_bytes(w, elems * 4);
    for (int i = 1; i < op->n_out; i++) keep(w, op->out[i], 0);
}

static void keep_attention(walk *w, const zr_op *op)
{
    const zr__keeps *keeps = w->keeps;
    const double queries = elems_of(w, op->out[1]); /* of all heads */
    const double tokens = w->model->tokens, keys = (double)zr_graph_get_spec(w->graph)->seq * (double)keeps->context;
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] != ZR_NONE) keep(w, op->in[i], 0);
    keep(w, op->out[0], 0);
    if (keeps->scores > 0)
        keep_bytes(w, queries * keys * keeps->scores);
    else
        keep(w, op->out[1], 0);
    if (keeps->expanded && op->in[1] != ZR_NONE)
        keep_bytes(w, 2 * w->model->value_bytes * (elems_of(w, op->out[0]) - elems_of(w, op->in[1])));
    if (keeps->expanded) keep_bytes(w, 2 * tokens * keys);
}

static void keep_activation(walk *w, const zr_op *op)
{
    const double elems = elems_of(w, op->out[0]), bytes = w->model->value_bytes;
    if (w->keeps->redo_mlp) return;
    for (int i = 0; i < op->n_in; i++) keep(w, op->in[i], 0);
    if (w->keeps->redo_gates) return;
    if (is(op, "swiglu") && w->keeps->gate_copies) keep_bytes(w, elems * bytes);
    /* gelu_new of transformers is Python code: tanh, the half of x, and 1 + tanh stay too */
    if (is(op, "gelu") && w->keeps->transformers) keep_bytes(w, elems * 3 * bytes);
}

static void keep_head(walk *w, const zr_op *op)
{
    keep(w, op->in[0], 0);
    w->model->head = elems_of(w, op->in[1]);
    w->model->hidden = elems_of(w, op->in[0]) * w->model->value_bytes;
    w->model->logits += elems_of(w, op->in[0]) / (double)info_of(w, op->in[1])->type.shape.dim[1] *
                        (double)info_of(w, op->in[1])->type.shape.dim[0];
}

/* Keep what torchtitan's selective recompute keeps of an op in a block. */
static void keep_half(walk *w, const zr_op *op)
{
    if (is(op, "linear")) keep_linear(w, op);
    if (!is(op, "attention")) return;
    keep(w, op->out[0], 0);
    keep(w, op->out[1], 0);
}

static void keep_op(walk *w, const zr_op *op)
{
    if (is(op, "linear"))
        keep_linear(w, op);
    else if (is_norm(op))
        keep_norm(w, op);
    else if (is(op, "attention"))
        keep_attention(w, op);
    else if (is_activation(op))
        keep_activation(w, op);
    else if (is(op, "dropout"))
        keep_bytes(w, elems_of(w, op->out[0])); /* a mask of bytes */
    else if (is(op, "linear_cross_entropy") || is(op, "linear_cross_entropy_part"))
        keep_head(w, op);
    else if (is(op, "rotary") && w->keeps->rotary_inputs)
        keep(w, op->in[0], 0);
    else if (is(op, "tanh") || is(op, "softmax"))
        keep(w, op->out[0], 0);
    else if (is(op, "mul"))
        for (int i = 0; i < 2; i++) keep(w, op->in[i], 0);
}

/* Count the values that an op of a block takes from units before. */
static void enter(walk *w, const zr_op *op)
{
    for (int i = 0; i < op->n_in; i++) {
        const zr_value_info *info = op->in[i] == ZR_NONE ? NULL : info_of(w, op->in[i]);
        if (!info || info->kind != ZR_VALUE_ACT || info->unit >= op->unit || w->mark[op->in[i]] & ENTERED) continue;
        w->mark[op->in[i]] |= ENTERED;
        w->model->unit[op->unit].input += elems_of(w, op->in[i]) * (w->keeps->autocast ? 4 : w->model->value_bytes);
    }
}

static void walk_ops(walk *w)
{
    for (int32_t i = 0; i < zr_graph_ops(w->graph); i++) {
        const zr_op *op = zr_graph_get_op(w->graph, i);
        if (!op->backward && (op->def->join == ZR_JOIN_SUM || op->def->join == ZR_JOIN_SCATTER))
            w->piece[op->in[0]] = op->out[0];
    }
    for (int32_t i = 0; i < zr_graph_ops(w->graph); i++) {
        const zr_op *op = zr_graph_get_op(w->graph, i);
        const bool inner = op->unit >= 1 && op->unit <= w->model->blocks;
        if (op->backward || op->unit < 0 || op->unit > w->model->blocks + 1) continue;
        if (op->unit != w->unit) w->products = 0;
        w->unit = op->unit;
        if (inner && !w->half) enter(w, op);
        if (!w->half)
            keep_op(w, op);
        else if (inner)
            keep_half(w, op);
    }
}

/* Set what each block keeps, from its inputs and what it would keep without recompute. */
static void recompute(const zr__keeps *keeps, zr__model *model)
{
    for (int64_t u = 0; u <= model->blocks + 1; u++) {
        zr__unit *unit = &model->unit[u];
        const bool inner = u >= 1 && u <= model->blocks;
        const bool redone = inner && (keeps->first == 0 || (u - 1) % keeps->stage_blocks < keeps->first);
        if (inner && keeps->recompute == ZR__REDO_HALF)
            unit->kept += unit->input;
        else if (redone && keeps->recompute == ZR__REDO_BLOCKS)
            unit->kept = keeps->first > 0 || (u - 1) % keeps->every == 0 ? unit->input : 0;
        else
            unit->kept = unit->all;
    }
    if (keeps->recompute == ZR__REDO_NOTHING) return;
    for (int64_t u = 1; u <= model->blocks; u++) {
        double sum = 0;
        for (int64_t k = u; k < u + keeps->every && k <= model->blocks; k++) sum += model->unit[k].all;
        model->redone = fmax(model->redone, sum);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Return the unit whose frozen parameters a unit has, or the unit itself. */
static int32_t base_unit(const zr_graph *graph, int32_t unit)
{
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    for (int32_t u = 0; info->frozen && u < unit; u++) {
        const char *name = zr_graph_unit_info(graph, u)->name;
        const size_t n = strlen(name);
        if (strncmp(info->name, name, n) == 0 && info->name[n] == ',') return u;
    }
    return unit;
}

static zr_status count_weights(const zr_graph *graph, zr__model *model)
{
    model->n_weights = zr_graph_params(graph);
    model->weight = zr_alloc((size_t)model->n_weights * sizeof(*model->weight));
    ZR_CHECK(model->weight, ZR_ERR_MEMORY, "no memory for %d weights", model->n_weights);
    for (int32_t i = 0; i < model->n_weights; i++) {
        const zr_param_info *param = zr_graph_param(graph, i);
        zr__weight *weight = &model->weight[i];
        *weight = (zr__weight){.unit = base_unit(graph, param->unit),
                               .trained = !param->frozen,
                               .elems = 1,
                               .rows = (double)param->shape.dim[0]};
        for (int d = 0; d < param->shape.ndim; d++) weight->elems *= (double)param->shape.dim[d];
        zr__unit *unit = &model->unit[weight->unit];
        *(weight->trained ? &unit->trained : &unit->frozen) += weight->elems;
    }
    model->params = (double)zr_graph_param_elems(graph);
    return ZR_OK;
}

/* Count the elements of the embedding that the last unit uses too. */
static void count_shared(const zr_graph *graph, zr__model *model)
{
    bool counted = false;
    for (int32_t i = 0; i < zr_graph_ops(graph); i++) {
        const zr_op *op = zr_graph_get_op(graph, i);
        if (op->backward || op->unit != model->blocks + 1) continue;
        for (int k = 0; k < op->n_in; k++) {
            const zr_value_info *info = op->in[k] == ZR_NONE ? NULL : zr_graph_value(graph, op->in[k]);
            if (!info || info->kind != ZR_VALUE_PARAM || model->weight[info->param].unit != 0 || counted) continue;
            model->shared += model->weight[info->param].elems;
            if (model->weight[info->param].trained) model->waiting = model->shared;
            counted = true;
        }
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Fill the description of the graph of one tensor rank, and the model with the vocabulary that the system pads. */
static zr_status describe(const zr__run *run, const zr__keeps *keeps, zr_graph_spec *spec, zr_model *model,
                          zr_model_config *padded)
{
    const zr_config *c = run->config;
    const bool encoder = zr__config_samples(c) != ZR_SAMPLES_NEXT, tags = zr__config_samples(c) == ZR_SAMPLES_TAGS;
    const int64_t seq = c->data.seq_length / keeps->context;
    ZR_CHECK(seq * keeps->context == c->data.seq_length, ZR_ERR_ARG,
             "data.seq_length %lld is not a multiple of %s %lld", (long long)c->data.seq_length,
             run->system->context_option, (long long)keeps->context);
    const zr_dtype dtype = c->bf16 ? ZR_BF16 : c->fp16 ? ZR_F16 : ZR_F32;
    *spec = (zr_graph_spec){.mode = ZR_MODE_TRAIN,
                            .batch = c->micro_batch_size,
                            .seq = seq,
                            .dtype = dtype,
                            .grad_dtype = dtype,
                            .tensor = c->parallel.tensor,
                            .sequence = keeps->sequence && c->parallel.tensor > 1,
                            .documents = encoder,
                            .predictions = tags      ? seq
                                           : encoder ? c->data.max_predictions
                                                     : 0,
                            .samples = encoder ? c->data.max_samples : 0};
    *padded = c->model.config;
    zr_model_sizes sizes = zr_family_sizes(c->model.family, padded);
    const int64_t multiple = keeps->vocabulary_multiple;
    if (multiple > 0) sizes.vocabulary = (sizes.vocabulary + multiple - 1) / multiple * multiple;
    if (!keeps->decoder) zr_family_resize(c->model.family, padded, &sizes);
    *model = keeps->decoder ? zr__decoder_model(keeps->decoder) : zr_family_model(c->model.family, padded);
    model->frozen = c->model.frozen;
    model->lora = c->model.lora;
    return ZR_OK;
}

static zr_status walk_graph(const zr_graph *graph, const zr__keeps *keeps, zr__model *model)
{
    const int32_t values = zr_graph_values(graph);
    ZR_AUTO_FREE unsigned char *mark = zr_alloc((size_t)values);
    ZR_AUTO_FREE zr_value *piece = zr_alloc((size_t)values * sizeof(*piece));
    ZR_CHECK(mark && piece, ZR_ERR_MEMORY, "no memory to walk a graph of %d values", values);
    memset(mark, 0, (size_t)values);
    for (int32_t i = 0; i < values; i++) piece[i] = ZR_NONE;
    walk w = {.keeps = keeps, .graph = graph, .model = model, .mark = mark, .piece = piece};
    walk_ops(&w);
    if (keeps->recompute == ZR__REDO_HALF) {
        memset(mark, 0, (size_t)values);
        w.half = true;
        walk_ops(&w);
    }
    recompute(keeps, model);
    return ZR_OK;
}

zr_status zr__model_make(const zr__run *run, const zr__keeps *keeps, zr__model *model)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    zr_graph_spec spec;
    zr_model source;
    zr_model_config padded;
    *model = (zr__model){0};
    ZR_TRY(describe(run, keeps, &spec, &source, &padded));
    ZR_TRY(zr_graph_create(&spec, &graph));
    zr_model_build(&source, graph);
    ZR_TRY(zr_graph_finish(graph));
    const int32_t units = zr_graph_units(graph);
    model->blocks = zr_config_sizes(run->config).layers;
    ZR_CHECK(units >= model->blocks + 2, ZR_ERR_UNSUPPORTED,
             "the model has %d units; --system is for models with an embedding, blocks and a head", units);
    model->unit = zr_alloc((size_t)units * sizeof(*model->unit));
    ZR_CHECK(model->unit, ZR_ERR_MEMORY, "no memory for %d units", units);
    memset(model->unit, 0, (size_t)units * sizeof(*model->unit));
    model->value_bytes = (double)zr_dtype_bytes(spec.dtype);
    model->tokens = (double)(spec.batch * spec.seq);
    ZR_TRY(count_weights(graph, model));
    count_shared(graph, model);
    return walk_graph(graph, keeps, model);
}

void zr__model_clear(zr__model *model)
{
    zr_free(model->unit);
    zr_free(model->weight);
    *model = (zr__model){0};
}

/* ---- sums ------------------------------------------------------------------------------------ */

zr__span zr__span_of(const zr__model *model, int64_t stage, int64_t stages)
{
    return (zr__span){1 + model->blocks * stage / stages, 1 + model->blocks * (stage + 1) / stages};
}

static double elems_in(const zr__model *model, zr__span span, bool trained)
{
    double elems = 0;
    for (int64_t u = span.first; u < span.end; u++)
        elems += model->unit[u].trained + (trained ? 0 : model->unit[u].frozen);
    return elems;
}

double zr__rank_elems(const zr__model *model, int64_t rank, int64_t pp, int64_t chunks, bool trained)
{
    const int64_t head = model->blocks + 1;
    double elems = 0;
    for (int64_t c = 0; c < chunks; c++)
        elems += elems_in(model, zr__span_of(model, c * pp + rank, pp * chunks), trained);
    if (rank == 0) elems += elems_in(model, (zr__span){0, 1}, trained);
    if (rank == pp - 1) elems += elems_in(model, (zr__span){head, head + 1}, trained) + (pp > 1 ? model->shared : 0);
    return elems;
}

double zr__rank_kept(const zr__model *model, int64_t rank, int64_t pp, int64_t chunks)
{
    double kept = 0;
    for (int64_t c = 0; c < chunks; c++) {
        const zr__span span = zr__span_of(model, c * pp + rank, pp * chunks);
        for (int64_t u = span.first; u < span.end; u++) kept += model->unit[u].kept;
    }
    return kept;
}

double zr__largest_block(const zr__model *model)
{
    double most = 0;
    for (int64_t u = 1; u <= model->blocks; u++) most = fmax(most, model->unit[u].all);
    return most;
}

double zr__largest_weight(const zr__model *model)
{
    double most = 0;
    for (int32_t i = 0; i < model->n_weights; i++)
        if (model->weight[i].trained) most = fmax(most, model->weight[i].elems);
    return most;
}

double zr__largest_block_elems(const zr__model *model)
{
    double most = 0;
    for (int64_t u = 1; u <= model->blocks; u++) {
        most = fmax(most, model->unit[u].trained + model->unit[u].frozen);
    }
    return most;
}

double zr__shard_elems(const zr__model *model, int64_t first, int64_t end, int64_t n, bool by_rows, double whole)
{
    double elems = 0;
    for (int32_t i = 0; i < model->n_weights; i++) {
        const zr__weight *w = &model->weight[i];
        const double parts = by_rows ? w->rows : w->elems;
        if (w->unit < first || w->unit >= end) continue;
        elems += w->elems < whole ? w->elems : ceil(parts / (double)n) * (w->elems / parts);
    }
    return elems;
}
