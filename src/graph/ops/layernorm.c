/* layernorm and rmsnorm normalise over the last dimension. rmsnorm subtracts no mean, has no bias, and may normalise
 * groups of columns separately. */
#include "graph/internal.h"

#include <string.h>

/* Return the shape of a statistic of x: one number for each row, or for each group of G columns of a row if G is
 * smaller than a row. */
static zr_shape statistic_shape(zr_shape x, int64_t G)
{
    const int64_t C = zr_shape_cols(&x);
    return G == C ? zr__row_shape(x) : zr__with_cols(x, C / G);
}

/* Return the number of columns that are normalised together: the length of the gain, operand i, if the gain is a vector
 * whose length divides the C columns of x. Otherwise return C. Only rmsnorm may normalise fewer than C columns. */
static int64_t group_cols(const zr_graph *graph, const zr_op *op, int i, int64_t C, bool grouped)
{
    const zr_shape *gain = grouped && zr__in_has(op, i) ? &zr__in(graph, op, i)->shape : NULL;
    return gain && gain->ndim == 1 && C % gain->dim[0] == 0 ? gain->dim[0] : C;
}

/* ---- adjoint's ops ---------------------------------------------------------------------------- */

/* Return whether the norm subtracts the mean of each row. */
static bool centres(const zr_op *op)
{
    return strncmp(op->def->name, "layernorm", 9) == 0;
}

/* Check the first operands of norm_dx and norm_dw: dy, x, the gain if `gain` is true, then each row's mean (layernorm
 * only) and rstd from the forward op. G columns are normalised together. Set *n to the number of operands checked. */
static zr_status want_row_values(const zr_graph *graph, const zr_op *op, bool gain, int64_t G, int *n)
{
    zr_shape dy = zr__in(graph, op, 0)->shape, rows = statistic_shape(dy, G);
    ZR_TRY(zr__want(graph, op, 1, "x", graph->spec.dtype, dy));
    *n = 2;
    if (gain) ZR_TRY(zr__want(graph, op, (*n)++, "gain", graph->spec.dtype, ZR_SHAPE(G)));
    if (centres(op)) ZR_TRY(zr__want(graph, op, (*n)++, "mean", ZR_F32, rows));
    return zr__want(graph, op, (*n)++, "rstd", ZR_F32, rows);
}

static zr_status norm_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    int n;
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", graph->spec.dtype, 1));
    const zr_type *dy = zr__in(graph, op, 0);
    const int64_t G = group_cols(graph, op, 2, zr_shape_cols(&dy->shape), !centres(op));
    ZR_TRY(want_row_values(graph, op, true, G, &n));
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, dy->dtype), dy->shape};
    return zr__in_has(op, n) ? zr__want(graph, op, n, "earlier", zr__in(graph, op, n)->dtype, dy->shape) : ZR_OK;
}

/* Return the number of columns that are normalised together. rmsnorm_dw finds it from the shape of rstd, operand 2. */
static int64_t group_of_rstd(const zr_graph *graph, const zr_op *op, int64_t C)
{
    const zr_shape *dy = &zr__in(graph, op, 0)->shape, *rstd = zr__in_has(op, 2) ? &zr__in(graph, op, 2)->shape : NULL;
    if (centres(op) || !rstd || rstd->ndim != dy->ndim || C % zr_shape_cols(rstd) != 0) return C;
    const zr_shape row = zr__row_shape(*dy);
    return zr_shape_equal(rstd, &row) ? C : C / zr_shape_cols(rstd);
}

static zr_status norm_dw_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    int n;
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", graph->spec.dtype, 1));
    const int64_t G = group_of_rstd(graph, op, zr_shape_cols(&zr__in(graph, op, 0)->shape));
    ZR_TRY(want_row_values(graph, op, false, G, &n));
    for (int i = 0; i < op->n_out; i++) out[i] = (zr_type){zr__sum_dtype(graph, op, i), ZR_SHAPE(G)};
    return ZR_OK;
}

/* Define the op that computes a norm's dx. dx overwrites dy rather than the sum of earlier contributions, `earlier`,
 * because `earlier` may be absent. */
#define NORM_DX(text) ZR__OP(text, .infer = norm_dx_infer, .in_place = {1})
#define NORM_DW(text, n)                                                                                               \
    {                                                                                                                  \
        .name = text, .n_out = n, .infer = norm_dw_infer, .cost = zr__cost_bytes                                       \
    }
static const zr_op_def layernorm_dx = NORM_DX("layernorm_dx"), rmsnorm_dx = NORM_DX("rmsnorm_dx");
static const zr_op_def layernorm_dw = NORM_DW("layernorm_dw", 2), rmsnorm_dw = NORM_DW("rmsnorm_dw", 1);

/* ---- the norms -------------------------------------------------------------------------------- */

/* Check that the gain is a parameter or an input if ranks have different columns of x. The ranks' parts of the gain's
 * gradient are summed only for a parameter. */
static zr_status check_gain_of_cut(const zr_graph *graph, const zr_op *op)
{
    const zr_value_info *x = zr_graph_value(graph, op->in[0]);
    const zr_value_info *gain = zr__in_has(op, 1) ? zr_graph_value(graph, op->in[1]) : NULL;
    ZR_CHECK(!x->cut || !gain || gain->kind != ZR_VALUE_ACT, ZR_ERR_UNSUPPORTED,
             "%s: each tensor-parallel rank has other columns of x, and an op computes the gain; wanted a parameter",
             op->def->name);
    return ZR_OK;
}

/* Infer the types of the output y and of the row statistics. layernorm takes x, gain, bias and gives y, mean, rstd;
 * rmsnorm takes x, gain and gives y, rstd. */
static zr_status norm_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_CHECK(op->attr.f[0] > 0, ZR_ERR_ARG, "%s: eps is %g; wanted above 0", op->def->name, op->attr.f[0]);
    ZR_TRY(zr__want_at_most(op, op->def->n_out));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 1));
    zr_shape x = zr__in(graph, op, 0)->shape;
    const int64_t G = group_cols(graph, op, 1, zr_shape_cols(&x), !centres(op));
    ZR_TRY(check_gain_of_cut(graph, op));
    out[0] = (zr_type){graph->spec.dtype, x};
    for (int i = 1; i < op->def->n_out; i++) {
        ZR_TRY(zr__want(graph, op, i, i == 1 ? "gain" : "bias", graph->spec.dtype, ZR_SHAPE(G)));
        out[i] = (zr_type){ZR_F32, statistic_shape(x, G)};
    }
    return ZR_OK;
}

/* Add the op for dw before the op for dx, so that dx is the last use of dy and can overwrite it. */
static zr_status norm_adjoint(zr_graph *graph, const zr_op *op)
{
    const bool centred = centres(op);
    const int n = op->def->n_out - 1; /* number of parameters (gain, bias), and also of the statistics stored per row */
    zr_value x = op->in[0], gain = op->in[1], dy = zr_grad_of(graph, op->out[0]);
    zr_value mean = op->out[1], rstd = op->out[n], dw[2] = {ZR_NONE, ZR_NONE};
    bool needed = false;
    for (int i = 0; i < n; i++) {
        if (!zr_grad_needed(graph, op->in[1 + i])) continue;
        dw[i] = zr_grad_begin(graph, op->in[1 + i], NULL);
        needed = true;
    }
    if (needed) {
        const zr_value in[] = {dy, x, mean, rstd};
        const zr_op_attr attr = {.i = {op->attr.i[0]}};
        zr_graph_op(graph, centred ? &layernorm_dw : &rmsnorm_dw, &attr, 2 + n, in, dw);
        for (int i = 0; i < n; i++)
            if (zr_grad_needed(graph, op->in[1 + i])) zr_grad_end(graph, op->in[1 + i], dw[i]);
    }
    if (centred) return zr__accumulate(graph, x, &layernorm_dx, NULL, 5, (zr_value[]){dy, x, gain, mean, rstd});
    return zr__accumulate(graph, x, &rmsnorm_dx, NULL, 4, (zr_value[]){dy, x, gain, rstd});
}

/* Define a norm. If it may normalise groups of columns separately (`groups`), a rank may have only some of the groups
 * of each row. */
#define NORM(text, n, groups)                                                                                          \
    {                                                                                                                  \
        .name = text, .n_out = n, .infer = norm_infer, .adjoint = norm_adjoint, .cost = zr__cost_bytes, .cheap = true, \
        .keeps_cut = groups, .keeps_tokens = true                                                                      \
    }
static const zr_op_def layernorm = NORM("layernorm", 3, false), rmsnorm = NORM("rmsnorm", 2, true);

static zr_value apply_norm(zr_graph *graph, const zr_op_def *def, const zr_value *in, double eps, bool rounded)
{
    zr_value out[3] = {ZR_NONE, ZR_NONE, ZR_NONE};
    zr_graph_op(graph, def, &(zr_op_attr){.i = {rounded}, .f = {eps}}, def->n_out, in, out);
    return out[0];
}

zr_value zr_layernorm(zr_graph *graph, zr_value x, zr_value gain, zr_value bias, double eps)
{
    return apply_norm(graph, &layernorm, (zr_value[]){x, gain, bias}, eps, false);
}

zr_value zr_rmsnorm(zr_graph *graph, zr_value x, zr_value gain, double eps)
{
    return apply_norm(graph, &rmsnorm, (zr_value[]){x, gain}, eps, false);
}

zr_value zr_rmsnorm_rounded(zr_graph *graph, zr_value x, zr_value gain, double eps)
{
    return apply_norm(graph, &rmsnorm, (zr_value[]){x, gain}, eps, true);
}
