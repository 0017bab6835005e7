/* Checks the operands of ops and counts their bytes, for infer and cost functions. */
#include "graph/internal.h"

#include <stdio.h>

enum { TYPE_BYTES = 120 };

bool zr__in_has(const zr_op *op, int i)
{
    return i < op->n_in && op->in[i] != ZR_NONE;
}

const zr_type *zr__in(const zr_graph *graph, const zr_op *op, int i)
{
    return &graph->value[op->in[i]].info.type;
}

const zr_type *zr__out(const zr_graph *graph, const zr_op *op, int i)
{
    return &graph->value[op->out[i]].info.type;
}

/* Format a type as text, such as "F32 (2, *, 64)". */
#define TYPE_TEXT(dtype, shape) type_text((dtype), (shape), (char[TYPE_BYTES]){0})
static const char *type_text(zr_dtype dtype, const zr_shape *shape, char text[TYPE_BYTES])
{
    size_t used = (size_t)snprintf(text, TYPE_BYTES, "%s (", zr_dtype_name(dtype));
    for (int i = 0; i < shape->ndim; i++) {
        const char *comma = i ? ", " : "";
        if (shape->dim[i] == ZR__ANY)
            used += (size_t)snprintf(text + used, TYPE_BYTES - used, "%s*", comma);
        else
            used += (size_t)snprintf(text + used, TYPE_BYTES - used, "%s%lld", comma, (long long)shape->dim[i]);
    }
    snprintf(text + used, TYPE_BYTES - used, ")");
    return text;
}

static bool shape_matches(const zr_shape *shape, const zr_shape *wanted)
{
    if (shape->ndim != wanted->ndim) return false;
    for (int i = 0; i < shape->ndim; i++)
        if (wanted->dim[i] != ZR__ANY && wanted->dim[i] != shape->dim[i]) return false;
    return true;
}

zr_status zr__want_in(const zr_op *op, int i, const char *name)
{
    ZR_CHECK(zr__in_has(op, i), ZR_ERR_ARG, "%s: operand %s (number %d) is missing", op->def->name, name, i);
    return ZR_OK;
}

zr_status zr__want(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, zr_shape shape)
{
    ZR_TRY(zr__want_in(op, i, name));
    const zr_type *given = zr__in(graph, op, i);
    if (given->dtype == dtype && shape_matches(&given->shape, &shape)) return ZR_OK;
    const zr_type *first = i > 0 && zr__in_has(op, 0) ? zr__in(graph, op, 0) : NULL;
    return ZR_FAIL(given->dtype == dtype ? ZR_ERR_SHAPE : ZR_ERR_DTYPE, "%s: operand %s is %s; wanted %s%s%s",
                   op->def->name, name, TYPE_TEXT(given->dtype, &given->shape), TYPE_TEXT(dtype, &shape),
                   first ? " for a first operand " : "", first ? TYPE_TEXT(first->dtype, &first->shape) : "");
}

zr_status zr__want_ndim(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, int ndim)
{
    ZR_TRY(zr__want_in(op, i, name));
    const zr_type *given = zr__in(graph, op, i);
    if (given->dtype == dtype && given->shape.ndim >= ndim) return ZR_OK;
    return ZR_FAIL(given->dtype == dtype ? ZR_ERR_SHAPE : ZR_ERR_DTYPE,
                   "%s: operand %s is %s; wanted %s of %d dimensions or more", op->def->name, name,
                   TYPE_TEXT(given->dtype, &given->shape), zr_dtype_name(dtype), ndim);
}

zr_status zr__want_optional(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype,
                            zr_shape shape)
{
    return zr__in_has(op, i) ? zr__want(graph, op, i, name, dtype, shape) : ZR_OK;
}

zr_status zr__want_at_most(const zr_op *op, int n)
{
    ZR_CHECK(op->n_in <= n, ZR_ERR_ARG, "%s: %d operands given, at most %d wanted", op->def->name, (int)op->n_in, n);
    return ZR_OK;
}

bool zr__probability_ok(zr_graph *graph, const char *what, double p)
{
    if (!(p >= 0 && p < 1)) zr_graph_error(graph, ZR_ERR_ARG, "%s: dropout is %g; wanted 0 <= p < 1", what, p);
    return !zr__graph_closed(graph);
}

zr_status zr__want_prepared(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_CHECK(op->out[0] != ZR_NONE, ZR_ERR_ARG, "%s: the output must come from zr_grad_begin", op->def->name);
    *out = *zr__out(graph, op, 0);
    return ZR_OK;
}

zr_dtype zr__out_dtype(const zr_graph *graph, const zr_op *op, int out, zr_dtype otherwise)
{
    return op->out[out] == ZR_NONE ? otherwise : zr__out(graph, op, out)->dtype;
}

zr_dtype zr__sum_dtype(const zr_graph *graph, const zr_op *op, int out)
{
    return zr__out_dtype(graph, op, out, ZR_F32);
}

zr_shape zr__row_shape(zr_shape shape)
{
    if (shape.ndim > 1)
        shape.ndim--;
    else
        shape.dim[0] = 1;
    shape.dim[shape.ndim] = 0;
    return shape;
}

zr_shape zr__with_cols(zr_shape shape, int64_t cols)
{
    shape.dim[shape.ndim - 1] = cols;
    return shape;
}

static double type_bytes(const zr_type *type)
{
    return (double)zr_shape_elems(&type->shape) * (double)zr_dtype_bytes(type->dtype);
}

double zr__bytes(const zr_graph *graph, const zr_op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->n_in; i++)
        if (zr__in_has(op, i)) bytes += type_bytes(zr__in(graph, op, i));
    for (int i = 0; i < op->n_out; i++) bytes += type_bytes(zr__out(graph, op, i));
    return bytes;
}

zr_cost zr__cost_bytes(const zr_graph *graph, const zr_op *op)
{
    return (zr_cost){.flops = 0, .bytes = zr__bytes(graph, op)};
}
