/* Builds a graph from values, parameters, inputs and ops. The first error is stored, and zr_graph_finish returns it. */
#include "graph/internal.h"
#include "base/core/grow.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* maximum number of random streams: the generator's counter has 24 bits for the stream */
enum { STREAMS_MAX = 1 << 24 };

/* ---- create, destroy ------------------------------------------------------------------------- */

static zr_status check_spec(const zr_graph_spec *spec)
{
    ZR_CHECK((unsigned)spec->mode <= ZR_MODE_DECODE, ZR_ERR_ARG, "graph: mode is %d, which is not a value of zr_mode",
             (int)spec->mode);
    ZR_CHECK(spec->batch >= 1 && spec->seq >= 1, ZR_ERR_CONFIG,
             "graph: batch is %" PRId64 " and seq is %" PRId64 "; each must be at least 1", spec->batch, spec->seq);
    if (spec->mode == ZR_MODE_DECODE)
        ZR_CHECK(spec->batch == 1 && spec->seq == 1 && spec->cache_len >= 1, ZR_ERR_CONFIG,
                 "graph: decoding needs batch 1, seq 1 and a cache of at least 1 token, but was given %" PRId64
                 ", %" PRId64 " and %" PRId64,
                 spec->batch, spec->seq, spec->cache_len);
    else
        ZR_CHECK(spec->cache_len == 0, ZR_ERR_CONFIG,
                 "graph: cache_len is %" PRId64 ", but must be 0 except for decoding", spec->cache_len);
    ZR_CHECK(spec->tensor >= 0, ZR_ERR_CONFIG, "graph: tensor is %" PRId64 "; wanted 0 or more", spec->tensor);
    ZR_CHECK(spec->tile_elems >= 0, ZR_ERR_CONFIG, "graph: tile_elems is %" PRId64 "; wanted 0 or more",
             spec->tile_elems);
    ZR_CHECK(spec->head_bytes >= 0, ZR_ERR_CONFIG, "graph: head_bytes is %" PRId64 "; wanted 0 or more",
             spec->head_bytes);
    ZR_CHECK(spec->predictions >= 0 && spec->samples >= 0, ZR_ERR_CONFIG,
             "graph: rows of %" PRId64 " predictions and %" PRId64 " samples; wanted 0 or more", spec->predictions,
             spec->samples);
    ZR_CHECK(!spec->documents || spec->mode != ZR_MODE_DECODE, ZR_ERR_CONFIG,
             "graph: documents are set, but decoding has one document");
    ZR_CHECK(zr_dtype_is_float(spec->dtype), ZR_ERR_DTYPE, "graph: dtype is %s; wanted F32, BF16 or F16",
             zr_dtype_name(spec->dtype));
    ZR_CHECK(zr_dtype_is_float(spec->grad_dtype), ZR_ERR_DTYPE, "graph: grad_dtype is %s; wanted F32, BF16 or F16",
             zr_dtype_name(spec->grad_dtype));
    return ZR_OK;
}

zr_status zr_graph_create(const zr_graph_spec *spec, zr_graph **graph)
{
    ZR_CHECK(spec && graph, ZR_ERR_ARG, "graph: spec and graph must not be NULL");
    ZR_TRY(check_spec(spec));
    zr_graph *g = zr_alloc(sizeof *g);
    ZR_CHECK(g, ZR_ERR_MEMORY, "graph: no memory for %zu bytes", sizeof *g);
    g->spec = *spec;
    g->output = g->documents = ZR_NONE;
    g->current_unit = -1;
    *graph = g;
    return ZR_OK;
}

void zr_graph_destroy(zr_graph **graph)
{
    if (!graph || !*graph) return;
    zr_graph *g = *graph;
    zr_free(g->value);
    zr_free(g->op);
    zr_free(g->param);
    zr_free(g->unit);
    zr_free(g->input);
    zr_free(g);
    *graph = NULL;
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool zr__graph_closed(const zr_graph *graph)
{
    return graph->latched != ZR_OK || graph->finished;
}

void zr_graph_error(zr_graph *graph, zr_status status, const char *format, ...)
{
    if (zr__graph_closed(graph)) return;
    graph->latched = status == ZR_OK ? ZR_ERR_ARG : status;
    ZR_PRINT_ARGS(graph->message, format);
}

void zr__graph_latch(zr_graph *graph, zr_status status)
{
    if (status == ZR_OK) return;
    if (graph->current_unit < 0)
        zr_graph_error(graph, status, "%s", zr_error_message());
    else
        zr_graph_error(graph, status, "unit \"%s\": %s", graph->unit[graph->current_unit].name, zr_error_message());
}

/* ---- storage --------------------------------------------------------------------------------- */

/* Check that the value's size in bytes fits 63 bits in any dtype. Then later arithmetic on the sizes of one value
 * cannot overflow. */
static zr_status check_type(const char *what, const zr_type *type)
{
    ZR_CHECK((unsigned)type->dtype < ZR_DTYPES, ZR_ERR_DTYPE, "%s: dtype %d is none of zr_dtype", what,
             (int)type->dtype);
    ZR_CHECK(type->shape.ndim >= 1 && type->shape.ndim <= ZR_MAX_DIMS, ZR_ERR_SHAPE,
             "%s: %d dimensions; wanted 1 to %d", what, type->shape.ndim, ZR_MAX_DIMS);
    int64_t bytes = 4;
    for (int i = 0; i < type->shape.ndim; i++) {
        ZR_CHECK(type->shape.dim[i] >= 1, ZR_ERR_SHAPE, "%s: dimension %d is %" PRId64 "; wanted at least 1", what, i,
                 type->shape.dim[i]);
        ZR_CHECK(!__builtin_mul_overflow(bytes, type->shape.dim[i], &bytes), ZR_ERR_SHAPE,
                 "%s: its bytes do not fit 63 bits", what);
    }
    return ZR_OK;
}

static zr_status value_add(zr_graph *graph, zr_value_kind kind, zr_type type, int32_t unit, int32_t param,
                           zr_value *value)
{
    ZR_GROW(graph->value, graph->value_room, (int64_t)graph->n_values + 1, "values of a graph");
    *value = graph->n_values++;
    graph->value[*value] = (zr__value){
        .info = {.kind = kind, .type = type, .unit = unit, .param = param, .producer = -1},
        .grad = ZR_NONE,
        .whole = ZR_NONE,
        .factor = {ZR_NONE, ZR_NONE},
        .late = -1,
    };
    return ZR_OK;
}

zr_value zr__graph_value_add(zr_graph *graph, zr_value_kind kind, zr_type type, int32_t param)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    zr_value value = ZR_NONE;
    zr_status status = check_type("value", &type);
    if (status == ZR_OK) status = value_add(graph, kind, type, graph->current_unit, param, &value);
    zr__graph_latch(graph, status);
    return status == ZR_OK ? value : ZR_NONE;
}

int32_t zr__graph_stream(zr_graph *graph)
{
    if (graph->streams == STREAMS_MAX)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "graph: it has more than %d dropouts", STREAMS_MAX);
    else
        graph->streams++;
    return graph->streams - 1;
}

/* ---- units, parameters, inputs ---------------------------------------------------------------- */

static zr_status format_name(char name[ZR_NAME_MAX], const char *what, const char *format, va_list args)
{
    int length = vsnprintf(name, ZR_NAME_MAX, format, args);
    ZR_CHECK(length > 0 && length < ZR_NAME_MAX, ZR_ERR_ARG,
             "graph: the name of a %s has %d characters; wanted 1 to %d", what, length, ZR_NAME_MAX - 1);
    return ZR_OK;
}

zr_status zr__graph_unit_add(zr_graph *graph, const zr_unit_info *unit)
{
    ZR_GROW(graph->unit, graph->unit_room, (int64_t)graph->n_units + 1, "units of a graph");
    graph->unit[graph->n_units++] = *unit;
    return ZR_OK;
}

void zr_graph_unit(zr_graph *graph, const char *format, ...)
{
    if (zr__graph_closed(graph)) return;
    zr_unit_info info = {.first_param = graph->n_params, .declared = graph->n_units};
    va_list args;
    va_start(args, format);
    zr_status status = format_name(info.name, "unit", format, args);
    va_end(args);
    if (status == ZR_OK) status = zr__graph_unit_add(graph, &info);
    zr__graph_latch(graph, status);
    if (status == ZR_OK) graph->current_unit = graph->n_units - 1;
}

/* Add a parameter, or one tile of it, with the shape info->shape. */
static zr_status tile_add(zr_graph *graph, zr_param_info *info, zr_value *value)
{
    const zr_type type = {graph->spec.dtype, info->shape};
    ZR_GROW(graph->param, graph->param_room, (int64_t)graph->n_params + 1, "params of a graph");
    ZR_TRY(value_add(graph, ZR_VALUE_PARAM, type, graph->current_unit, graph->n_params, value));
    zr_unit_info *unit = &graph->unit[graph->current_unit];
    info->unit = graph->current_unit;
    info->unit_offset = zr__param_begin(graph, unit, info);
    info->value = *value;
    graph->param[graph->n_params++] = *info;
    unit->n_params++;
    unit->elems = info->unit_offset + zr_shape_elems(&info->shape);
    return ZR_OK;
}

/* Add a parameter. The tiles of a table get consecutive values, and *value is the value of the first tile. */
static zr_status param_add(zr_graph *graph, zr_param_info *info, bool table, zr_value *value)
{
    ZR_CHECK(graph->current_unit >= 0, ZR_ERR_STATE, "parameter %s: call zr_graph_unit before the first parameter",
             info->name);
    ZR_CHECK(!graph->backward, ZR_ERR_STATE, "parameter %s: an adjoint cannot declare parameters", info->name);
    ZR_TRY(check_type(info->name, &(zr_type){graph->spec.dtype, info->whole}));
    const bool random = info->init.kind == ZR_INIT_NORMAL || info->init.kind == ZR_INIT_UNIFORM;
    ZR_CHECK(!random || (isfinite(info->init.std) && info->init.std >= 0), ZR_ERR_CONFIG,
             "parameter %s: the standard deviation of its initial values is %g; wanted a finite number, 0 or above",
             info->name, info->init.std);
    info->fused = info->cut;
    ZR_TRY(zr__cut_shape(graph, info));
    const int64_t all = info->shape.dim[0];
    int64_t total = 0, rows = all;
    if (table) ZR_TRY(zr__tile_rows(graph, info, &rows));
    ZR_CHECK(!__builtin_add_overflow(graph->param_elems, zr_shape_elems(&info->whole), &total), ZR_ERR_CONFIG,
             "parameter %s: the model's parameters do not fit 63 bits", info->name);
    info->first = graph->param_elems;
    info->grad = ZR_NONE;
    info->tile = (zr_tile){.count = (int32_t)((all + rows - 1) / rows)};
    for (; info->tile.index < info->tile.count; info->tile.index++) {
        zr_value added;
        info->tile.first = info->tile.index * rows;
        info->shape.dim[0] = all - info->tile.first < rows ? all - info->tile.first : rows;
        ZR_TRY(tile_add(graph, info, &added));
        if (info->tile.index == 0) *value = added;
    }
    graph->param_elems = total;
    return ZR_OK;
}

static zr_value param_of(zr_graph *graph, zr_param_info info, bool table, const char *format, va_list args)
{
    zr_value value = ZR_NONE;
    zr_status status = format_name(info.name, "parameter", format, args);
    if (status == ZR_OK) status = param_add(graph, &info, table, &value);
    zr__graph_latch(graph, status);
    return status == ZR_OK ? value : ZR_NONE;
}

zr_value zr_param(zr_graph *graph, zr_init init, zr_shape shape, const char *format, ...)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    va_list args;
    va_start(args, format);
    zr_value value = param_of(graph, (zr_param_info){.whole = shape, .init = init}, false, format, args);
    va_end(args);
    return value;
}

zr_value zr_param_cut(zr_graph *graph, zr_init init, zr_shape shape, zr_cut cut, const char *format, ...)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    va_list args;
    va_start(args, format);
    zr_value value = param_of(graph, (zr_param_info){.whole = shape, .cut = cut, .init = init}, false, format, args);
    va_end(args);
    return value;
}

zr_value zr_param_table(zr_graph *graph, zr_init init, int64_t rows, int64_t cols, const char *format, ...)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    const zr_param_info info = {.whole = {2, {rows, cols}}, .cut = {0, 1}, .init = init};
    va_list args;
    va_start(args, format);
    zr_value value = param_of(graph, info, true, format, args);
    va_end(args);
    return value;
}

/* Add a value that the caller fills, without listing it in graph->input. zr_input lists the model's own inputs at once,
 * and end_documents lists the documents as the last input. */
static zr_status input_add(zr_graph *graph, const char *name, zr_type type, zr_value *value)
{
    ZR_TRY(check_type(name, &type));
    return value_add(graph, ZR_VALUE_INPUT, type, -1, -1, value);
}

static zr_status list_input(zr_graph *graph, zr_value value)
{
    ZR_GROW(graph->input, graph->input_room, (int64_t)graph->n_inputs + 1, "inputs of a graph");
    graph->input[graph->n_inputs++] = value;
    return ZR_OK;
}

zr_value zr_input(zr_graph *graph, const char *name, zr_dtype dtype, zr_shape shape)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    zr_value value = ZR_NONE;
    zr_status status = input_add(graph, name, (zr_type){dtype, shape}, &value);
    if (status == ZR_OK) status = list_input(graph, value);
    zr__graph_latch(graph, status);
    return status == ZR_OK ? value : ZR_NONE;
}

zr_value zr__graph_documents(zr_graph *graph)
{
    const zr_type type = {ZR_I32, {2, {graph->spec.batch, graph->spec.seq}}};
    if (!graph->spec.documents || zr__graph_closed(graph)) return ZR_NONE;
    if (graph->documents == ZR_NONE) zr__graph_latch(graph, input_add(graph, "documents", type, &graph->documents));
    return graph->documents;
}

/* Make the documents the last input, so that the model's own inputs keep their numbers. Fail if no attention op reads
 * the documents. */
static zr_status end_documents(zr_graph *graph)
{
    if (!graph->spec.documents) return ZR_OK;
    ZR_CHECK(graph->attends, ZR_ERR_UNSUPPORTED,
             "graph: its rows hold several documents, but the model attends without zr_attend, or not at all; wanted a "
             "model that uses zr_attend, or rows of one document each");
    return list_input(graph, graph->documents);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static zr_status check_operands(const zr_graph *graph, const zr_op *op)
{
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] == ZR_NONE) continue;
        ZR_CHECK(zr__graph_has(graph, op->in[i]), ZR_ERR_ARG, "%s: operand %d is %d, which is no value of this graph",
                 op->def->name, i, (int)op->in[i]);
        const zr_value_info *info = &graph->value[op->in[i]].info;
        bool written = info->producer >= 0 || (info->kind != ZR_VALUE_ACT && info->kind != ZR_VALUE_GRAD);
        ZR_CHECK(written, ZR_ERR_STATE, "%s: operand %d is read before an op writes it", op->def->name, i);
    }
    for (int i = 0; i < op->n_out; i++) {
        if (op->out[i] == ZR_NONE) continue;
        ZR_CHECK(zr__graph_has(graph, op->out[i]), ZR_ERR_ARG, "%s: output %d is %d, which is no value of this graph",
                 op->def->name, i, (int)op->out[i]);
        const zr_value_info *info = &graph->value[op->out[i]].info;
        bool waiting = info->producer < 0 && (info->kind == ZR_VALUE_ACT || info->kind == ZR_VALUE_GRAD);
        ZR_CHECK(waiting, ZR_ERR_STATE, "%s: output %d is already written; a value is written once", op->def->name, i);
    }
    return ZR_OK;
}

/* Check that each output prepared by an adjoint has the type that the op infers. */
static zr_status check_prepared(const zr_graph *graph, const zr_op *op, const zr_type *type)
{
    for (int i = 0; i < op->n_out; i++) {
        ZR_TRY(check_type(op->def->name, &type[i]));
        if (op->out[i] == ZR_NONE) continue;
        const zr_type *wanted = zr__out(graph, op, i);
        if (zr_shape_equal(&type[i].shape, &wanted->shape) && type[i].dtype == wanted->dtype) continue;
        char have[64], want[64];
        zr_shape_print(&type[i].shape, have, sizeof have);
        zr_shape_print(&wanted->shape, want, sizeof want);
        return ZR_FAIL(ZR_ERR_SHAPE, "%s: output %d is %s %s; the gradient that it becomes is %s %s", op->def->name, i,
                       zr_dtype_name(type[i].dtype), have, zr_dtype_name(wanted->dtype), want);
    }
    return ZR_OK;
}

/* Return whether every rank has the whole value, even with sequence parallelism. This is the case for a parameter, an
 * input, and the output of an op without operands, such as a rotary table. */
static bool is_whole_everywhere(const zr_graph *graph, zr_value value)
{
    const zr_value_info *info = &graph->value[value].info;
    return info->kind == ZR_VALUE_PARAM || info->kind == ZR_VALUE_INPUT ||
           (info->producer >= 0 && graph->op[info->producer].n_in == 0);
}

/* Determine whether the op's output is cut among the ranks (`cut`) or holds only this rank's tokens (`tokens`). Fail if
 * the op cannot take operands that are cut or split by tokens. Ops added by adjoints are not checked. */
static zr_status check_cuts(const zr_graph *graph, const zr_op *op, int32_t *cut, bool *tokens)
{
    if (op->backward) return ZR_OK;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] == ZR_NONE) continue;
        const zr_value_info *info = &graph->value[op->in[i]].info;
        ZR_CHECK(*cut == 0 || info->cut == 0 || *cut == info->cut, ZR_ERR_UNSUPPORTED,
                 "%s: one operand is cut in %d parts, another in %d", op->def->name, *cut, info->cut);
        if (info->cut) *cut = info->cut;
        *tokens |= info->tokens;
    }
    for (int i = 0; i < op->n_in && *tokens; i++) {
        const zr_value_info *info = op->in[i] == ZR_NONE ? NULL : &graph->value[op->in[i]].info;
        ZR_CHECK(
            !info || info->tokens || is_whole_everywhere(graph, op->in[i]) || op->def->join != ZR_JOIN_NONE,
            ZR_ERR_UNSUPPORTED,
            "%s: each tensor-parallel rank has only its own tokens of one operand (parallel.sequence), but all tokens "
            "of operand %d: compute both with weights that are cut (an embedding's table, rows of a product), or set "
            "parallel.sequence off",
            op->def->name, i);
    }
    ZR_CHECK(
        !*cut || op->def->keeps_cut, ZR_ERR_UNSUPPORTED,
        "%s: each tensor-parallel rank has only its own columns of an operand: multiply by a weight that is cut by "
        "rows first",
        op->def->name);
    ZR_CHECK(!*tokens || op->def->keeps_tokens, ZR_ERR_UNSUPPORTED,
             "%s: each tensor-parallel rank has only its own tokens of an operand (parallel.sequence): multiply by a "
             "weight that is cut by columns first",
             op->def->name);
    if (op->def->join != ZR_JOIN_NONE) *cut = 0;
    *tokens &= op->def->join == ZR_JOIN_NONE;
    return ZR_OK;
}

/* Record the parameters that an op reads. If the op applies a whole parameter only to this rank's tokens (`tokens`) or
 * columns (`cut`), each rank computes only a part of the parameter's gradient. */
static zr_status read_params(zr_graph *graph, const zr_op *op, bool cut, bool tokens)
{
    for (int i = 0; i < op->n_in && !op->backward; i++) {
        zr__value *v = op->in[i] == ZR_NONE ? NULL : &graph->value[op->in[i]];
        if (!v || v->info.kind != ZR_VALUE_PARAM) continue;
        const zr_param_info *param = &graph->param[v->info.param];
        ZR_CHECK(param->cut.parts == 0 || op->def->takes_pieces, ZR_ERR_UNSUPPORTED,
                 "%s: each tensor-parallel rank has only a piece of %s; wanted a weight that is not cut", op->def->name,
                 param->name);
        ZR_CHECK(param->tile.count <= 1 || op->def->takes_pieces, ZR_ERR_UNSUPPORTED,
                 "memory.tile_elems is %" PRId64
                 ", which cuts %s into %d tiles, but the op %s needs it whole; set memory.tile_elems to 0 (only "
                 "zr_embedding, zr_linear and zr_linear_cross_entropy read tiles)",
                 graph->spec.tile_elems, param->name, param->tile.count, op->def->name);
        ZR_CHECK(!tokens || param->cut.parts == 0, ZR_ERR_UNSUPPORTED,
                 "%s: %s is cut, and of another operand each tensor-parallel rank has other tokens", op->def->name,
                 param->name);
        const bool parts = tokens || (cut && param->cut.parts == 0);
        ZR_CHECK(!v->read || v->parts == parts, ZR_ERR_UNSUPPORTED,
                 parts ? "%s: %s is applied here to a rank's own columns or tokens and elsewhere to all"
                       : "%s: %s is applied here to all columns and tokens and elsewhere to a rank's own",
                 op->def->name, param->name);
        v->read = true;
        v->parts = parts;
    }
    return ZR_OK;
}

static zr_status op_add(zr_graph *graph, zr_op *op)
{
    zr_type type[ZR_OP_OUTS] = {0};
    ZR_CHECK(graph->current_unit >= 0, ZR_ERR_STATE, "%s: call zr_graph_unit before the first op", op->def->name);
    ZR_TRY(check_operands(graph, op));
    int32_t cut = 0;
    bool tokens = false;
    ZR_TRY(check_cuts(graph, op, &cut, &tokens));
    ZR_TRY(read_params(graph, op, cut != 0, tokens));
    ZR_TRY(op->def->infer(graph, op, type));
    ZR_TRY(check_prepared(graph, op, type));
    ZR_GROW(graph->op, graph->op_room, (int64_t)graph->n_ops + 1, "ops of a graph");
    for (int i = 0; i < op->n_out; i++) {
        if (op->out[i] == ZR_NONE) ZR_TRY(value_add(graph, ZR_VALUE_ACT, type[i], op->unit, -1, &op->out[i]));
        graph->value[op->out[i]].info.unit = op->unit;
        graph->value[op->out[i]].info.producer = graph->n_ops;
        graph->value[op->out[i]].info.cut = cut;
        graph->value[op->out[i]].info.tokens |= tokens;
    }
    graph->op[graph->n_ops++] = *op;
    return ZR_OK;
}

static zr_status check_def(const zr_op_def *def, int n_in, const zr_value *in)
{
    ZR_CHECK(def && def->name && def->infer && def->cost, ZR_ERR_ARG, "%s: name, infer and cost must be given",
             def && def->name ? def->name : "op");
    ZR_CHECK(n_in >= 0 && n_in <= ZR_OP_INS && (n_in == 0 || in), ZR_ERR_ARG, "%s: %d operands; wanted 0 to %d",
             def->name, n_in, ZR_OP_INS);
    ZR_CHECK(def->n_out >= 1 && def->n_out <= ZR_OP_OUTS, ZR_ERR_ARG, "%s: %d outputs; wanted 1 to %d", def->name,
             def->n_out, ZR_OP_OUTS);
    return ZR_OK;
}

void zr_graph_op(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n_in, const zr_value *in,
                 zr_value *out)
{
    if (zr__graph_closed(graph)) return;
    zr_status status = check_def(def, n_in, in);
    zr__graph_latch(graph, status);
    if (status != ZR_OK) return;
    zr_op op = {
        .def = def, .n_in = n_in, .n_out = def->n_out, .unit = graph->current_unit, .backward = graph->backward};
    op.of = graph->backward ? graph->adjoint_of : graph->n_ops;
    if (attr) op.attr = *attr;
    for (int i = 0; i < ZR_OP_INS; i++) op.in[i] = i < n_in ? in[i] : ZR_NONE;
    for (int i = 0; i < ZR_OP_OUTS; i++) op.out[i] = out && i < op.n_out ? out[i] : ZR_NONE;
    status = op_add(graph, &op);
    zr__graph_latch(graph, status);
    for (int i = 0; out && status == ZR_OK && i < op.n_out; i++) out[i] = op.out[i];
}

/* ---- end of building -------------------------------------------------------------------------- */

/* Return whether `name` is a valid name of a loss term. The name becomes a key in JSON objects. */
static bool is_term_name(const char *name)
{
    const size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
    return n > 0 && n < ZR_NAME_MAX && name[n] == '\0';
}

/* Return the index of the term with this name or with these losses, or -1 if there is none. */
static int find_term(const zr_graph *graph, const char *name, zr_value losses)
{
    for (int t = 0; t < graph->n_terms; t++)
        if (strcmp(graph->term[t].name, name) == 0 || graph->term[t].losses == losses) return t;
    return -1;
}

void zr_graph_loss_term(zr_graph *graph, const char *name, zr_value losses)
{
    if (zr__graph_closed(graph)) return;
    if (!is_term_name(name))
        zr_graph_error(graph, ZR_ERR_ARG,
                       "graph: a loss term is called \"%s\"; its name must consist of letters, digits and underscores",
                       name ? name : "");
    else if (!zr__graph_has(graph, losses) || graph->value[losses].info.producer < 0 ||
             graph->value[losses].info.type.dtype != ZR_F32)
        zr_graph_error(graph, ZR_ERR_ARG, "graph: the losses must be an F32 value that an op writes");
    else if (find_term(graph, name, losses) >= 0)
        zr_graph_error(graph, ZR_ERR_STATE, "graph: the losses are already named");
    else if (graph->n_terms == ZR_LOSS_TERMS)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "graph: \"%s\" is one loss term too many; a graph has up to %d", name,
                       ZR_LOSS_TERMS);
    else if (graph->value[losses].info.tokens || graph->value[losses].info.cut)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                       "graph: each tensor-parallel rank has only a part of the losses; each must have all of them, as "
                       "from zr_linear_cross_entropy");
    else {
        snprintf(graph->term[graph->n_terms].name, ZR_NAME_MAX, "%s", name);
        graph->term[graph->n_terms++].losses = losses;
    }
}

void zr_graph_losses(zr_graph *graph, zr_value losses)
{
    zr_graph_loss_term(graph, "loss", losses);
}

void zr_graph_output(zr_graph *graph, zr_value output)
{
    if (zr__graph_closed(graph)) return;
    if (!zr__graph_has(graph, output))
        zr_graph_error(graph, ZR_ERR_ARG, "graph: the output is no value of this graph");
    else if (graph->value[output].info.tokens || graph->value[output].info.cut)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "graph: each tensor-parallel rank has a part of the output");
    else
        graph->output = output;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const zr_param_info *const *)a)->name, (*(const zr_param_info *const *)b)->name);
}

/* Check that names are unique, except for the tiles of one table. Checkpoints find parameters by name, so two
 * parameters with the same name would load the same numbers. */
static zr_status check_names(const zr_graph *graph)
{
    if (graph->n_params < 2) return ZR_OK;
    ZR_AUTO_FREE const zr_param_info **sorted = zr_alloc((size_t)graph->n_params * sizeof *sorted);
    ZR_CHECK(sorted, ZR_ERR_MEMORY, "graph: no memory to sort %d names", (int)graph->n_params);
    for (int32_t i = 0; i < graph->n_params; i++) sorted[i] = &graph->param[i];
    qsort(sorted, (size_t)graph->n_params, sizeof *sorted, compare_names);
    for (int32_t i = 1; i < graph->n_params; i++)
        ZR_CHECK(strcmp(sorted[i - 1]->name, sorted[i]->name) != 0 || sorted[i - 1]->first == sorted[i]->first,
                 ZR_ERR_CONFIG, "graph: two parameters are called %s", sorted[i]->name);
    return ZR_OK;
}

zr_status zr_graph_finish(zr_graph *graph)
{
    ZR_CHECK(!graph->finished, ZR_ERR_STATE, "graph: it is already finished and cannot be changed");
    graph->current_unit = -1; /* errors reported before the adjoints run must not name a unit */
    if (graph->latched == ZR_OK) zr__graph_latch(graph, check_names(graph));
    if (graph->latched == ZR_OK) zr__graph_latch(graph, end_documents(graph));
    if (graph->latched == ZR_OK) zr__graph_latch(graph, zr__adapters_end(graph));
    if (graph->latched == ZR_OK) zr__graph_latch(graph, zr__hidden_end(graph));
    if (graph->latched == ZR_OK) zr__graph_latch(graph, zr__part_units(graph));
    if (graph->latched == ZR_OK && graph->spec.mode == ZR_MODE_TRAIN) zr__differentiate(graph);
    ZR_CHECK(graph->latched == ZR_OK, graph->latched, "%s", graph->message);
    graph->finished = true;
    return ZR_OK;
}
