/* embedding, rows and position: look up rows of a table by token id, rows of a value by index, and rows of a table by
 * position in the sequence. */
#include "graph/internal.h"

#include <inttypes.h>

/* Infer the type of a table's gradient, with rows of width C. The number of rows is taken from the prepared output,
 * because no operand shows it. */
static zr_status prepared_table(const zr_graph *graph, const zr_op *op, int64_t C, zr_type *out)
{
    ZR_TRY(zr__want_prepared(graph, op, out));
    out->shape = ZR_SHAPE(out->shape.dim[0], C);
    return ZR_OK;
}

/* ---- embedding ------------------------------------------------------------------------------- */

static zr_status embedding_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(zr__want(graph, op, 0, "ids", ZR_I32, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    ZR_TRY(zr__want(graph, op, 1, "table", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *ids = zr__in(graph, op, 0)->shape.dim, *table = zr__in(graph, op, 1)->shape.dim;
    out[0] = (zr_type){graph->spec.dtype, ZR_SHAPE(ids[0], ids[1], table[1])};
    return zr__want_optional(graph, op, 2, "earlier", graph->spec.dtype, out[0].shape);
}

/* Count only the table rows that are looked up. A look-up in one tile of the table is assumed to write a part of the
 * rows in proportion to the size of the tile. */
static zr_cost embedding_cost(const zr_graph *graph, const zr_op *op)
{
    double rows = (double)zr_shape_elems(&zr__in(graph, op, 0)->shape);
    if (zr__in_has(op, 2)) rows *= (double)zr__in(graph, op, 1)->shape.dim[0] / (double)op->attr.i[1];
    double row_bytes =
        (double)zr_shape_cols(&zr__out(graph, op, 0)->shape) * (double)zr_dtype_bytes(zr__out(graph, op, 0)->dtype);
    return (zr_cost){.flops = 0, .bytes = rows * (4 + 2 * row_bytes)};
}

static zr_status embedding_dw_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want(graph, op, 0, "ids", ZR_I32, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *ids = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "dy", graph->spec.dtype, ZR_SHAPE(ids[0], ids[1], ZR__ANY)));
    int64_t C = zr_shape_cols(&zr__in(graph, op, 1)->shape);
    ZR_TRY(prepared_table(graph, op, C, &out[0]));
    return zr__want_optional(graph, op, 2, "earlier", ZR_F32, out[0].shape);
}

static const zr_op_def embedding_dw = ZR__OP("embedding_dw", .infer = embedding_dw_infer, .in_place = {3});

static zr_status embedding_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {op->in[0], zr_grad_of(graph, op->out[0])};
    ZR_TRY(zr__accumulate(graph, op->in[1], &embedding_dw, &op->attr, 2, in));
    if (zr__in_has(op, 2) && zr_grad_needed(graph, op->in[2])) zr_grad_pass(graph, op->in[2], in[1]);
    return ZR_OK;
}

static const zr_op_def embedding = {
    .name = "embedding",
    .n_out = 1,
    .infer = embedding_infer,
    .adjoint = embedding_adjoint,
    .cost = embedding_cost,
    .in_place = {3},
    .takes_pieces = true,
};

/* Look up the table's row for each id. If the table is cut, each rank looks up only the ids of its own rows and yields
 * zeros for all other ids, so the sum over the ranks is exact. The sum over tiles is exact too, because each tile adds
 * its rows to the zeros of earlier tiles. */
zr_value zr_embedding(zr_graph *graph, zr_value ids, zr_value table)
{
    const bool cut = zr__is_cut_table(graph, "embedding", table);
    const int32_t tiles = zr__tiles(graph, table);
    zr_value y = ZR_NONE;
    for (int32_t i = 0; i < tiles; i++) {
        zr_op_attr attr = {0};
        if (cut || tiles > 1) zr__table_rows(graph, table + i, attr.i);
        y = zr__apply(graph, &embedding, &attr, y == ZR_NONE ? 2 : 3, (zr_value[]){ids, table + i, y});
    }
    return cut ? zr__between_layers(graph, y) : y;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static zr_status rows_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want(graph, op, 0, "index", ZR_I32, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *index = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "x", graph->spec.dtype, zr__tokens_shape(op->attr.i[0], index[0])));
    out[0] = (zr_type){graph->spec.dtype, ZR_SHAPE(index[0], index[1], zr_shape_cols(&zr__in(graph, op, 1)->shape))};
    return ZR_OK;
}

/* Count only the rows of x that are taken. */
static zr_cost rows_cost(const zr_graph *graph, const zr_op *op)
{
    const zr_type *y = zr__out(graph, op, 0);
    const double elems = (double)zr_shape_elems(&y->shape), indices = (double)zr_shape_rows(&y->shape);
    return (zr_cost){.flops = 0, .bytes = 4 * indices + 2 * elems * (double)zr_dtype_bytes(y->dtype)};
}

/* Infer the type of dx. The number of rows of x is taken from the prepared output, because no operand shows it. */
static zr_status rows_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_prepared(graph, op, out));
    ZR_TRY(zr__want(graph, op, 0, "index", ZR_I32, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *index = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "dy", graph->spec.dtype, ZR_SHAPE(index[0], index[1], zr_shape_cols(&out[0].shape))));
    return zr__want_optional(graph, op, 2, "earlier", graph->spec.dtype, out[0].shape);
}

static const zr_op_def rows_dx = ZR__OP("rows_dx", .infer = rows_dx_infer, .in_place = {3});

static zr_status rows_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {op->in[0], zr_grad_of(graph, op->out[0])};
    return zr__accumulate(graph, op->in[1], &rows_dx, &op->attr, 2, in);
}

static const zr_op_def take_rows = {
    .name = "rows",
    .n_out = 1,
    .infer = rows_infer,
    .adjoint = rows_adjoint,
    .cost = rows_cost,
    .keeps_tokens = true,
};

/* Take the rows. If a rank has only its own tokens, it yields zeros for rows of other ranks, so the sum over the ranks
 * is exact. Each rank then computes only the gradient of its own tokens. */
zr_value zr_rows(zr_graph *graph, zr_value x, zr_value index)
{
    const zr_op_attr attr = {.i = {zr__own_tokens(graph, x)}};
    zr_value y = zr__apply(graph, &take_rows, &attr, 2, (zr_value[]){index, x}), sum = ZR_NONE;
    if (attr.i[0] == 0 || y == ZR_NONE) return y;
    graph->value[y].info.tokens = false;
    zr__tensor_sum(graph, y, &sum);
    return sum;
}

/* ---- position -------------------------------------------------------------------------------- */

static zr_status position_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(zr__want(graph, op, 0, "x", spec->dtype, zr__tokens_shape(op->attr.i[0], ZR__ANY)));
    const zr_type *x = zr__in(graph, op, 0);
    ZR_TRY(zr__want_optional(graph, op, 2, "documents", ZR_I32, zr__documents_shape(op->attr.i[0], &x->shape)));
    ZR_TRY(zr__want(graph, op, 1, "table", spec->dtype, ZR_SHAPE(ZR__ANY, zr_shape_cols(&x->shape))));
    int64_t positions = zr__in(graph, op, 1)->shape.dim[0], seq = op->attr.i[0] ? op->attr.i[0] : x->shape.dim[1];
    int64_t tokens = spec->mode == ZR_MODE_DECODE ? spec->cache_len : seq;
    ZR_CHECK(tokens <= positions, ZR_ERR_SHAPE,
             "position: a sequence of %" PRId64 " tokens needs as many rows; the table has %" PRId64, tokens,
             positions);
    out[0] = *x;
    return ZR_OK;
}

static zr_cost position_cost(const zr_graph *graph, const zr_op *op)
{
    const zr_type *x = zr__in(graph, op, 0);
    double bytes = (double)zr_dtype_bytes(x->dtype);
    int64_t rows = zr_shape_rows(&x->shape), seq = op->attr.i[0] ? op->attr.i[0] : x->shape.dim[1];
    double elems =
        2 * (double)zr_shape_elems(&x->shape) + (double)(rows < seq ? rows : seq) * (double)zr_shape_cols(&x->shape);
    return (zr_cost){.flops = 0, .bytes = elems * bytes};
}

static zr_status position_dw_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const int dy = op->n_in == 3; /* the operand before dy is documents */
    ZR_TRY(zr__want(graph, op, dy, "dy", graph->spec.dtype, zr__tokens_shape(op->attr.i[0], ZR__ANY)));
    const zr_shape *rows = &zr__in(graph, op, dy)->shape;
    if (dy > 0) ZR_TRY(zr__want(graph, op, 0, "documents", ZR_I32, zr__documents_shape(op->attr.i[0], rows)));
    ZR_TRY(prepared_table(graph, op, zr_shape_cols(rows), &out[0]));
    return zr__want_optional(graph, op, dy + 1, "earlier", ZR_F32, out[0].shape);
}

static const zr_op_def position_dw = ZR__OP("position_dw", .infer = position_dw_infer);

static zr_status position_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], dy = zr_grad_of(graph, op->out[0]);
    const bool documents = op->n_in > 2;
    const zr_value in[] = {documents ? op->in[2] : dy, dy};
    ZR_TRY(zr__accumulate(graph, op->in[1], &position_dw, &op->attr, documents ? 2 : 1, in));
    if (zr_grad_needed(graph, x)) zr_grad_pass(graph, x, dy);
    return ZR_OK;
}

static const zr_op_def position = {
    .name = "position",
    .n_out = 1,
    .infer = position_infer,
    .adjoint = position_adjoint,
    .cost = position_cost,
    .in_place = {1},
    .keeps_tokens = true,
};

zr_value zr_position(zr_graph *graph, zr_value x, zr_value table)
{
    const zr_op_attr attr = {.i = {zr__own_tokens(graph, x)}};
    const zr_value documents = zr__graph_documents(graph);
    return zr__apply(graph, &position, &attr, documents == ZR_NONE ? 2 : 3, (zr_value[]){x, table, documents});
}
