/* linear_cross_entropy: an output head, perhaps with a bias, and its losses, computed in blocks of rows, so that the
 * logits of all rows never exist at once.
 *
 * The backward op computes the logits, losses and gradients of one block at a time, and also returns the losses. The
 * forward op runs only if another op reads its losses. If it does not run, no product is computed twice. */
#include "graph/internal.h"
#include "base/core/core.h"

/* Maximum number of rows in a block if zr_graph_spec.head_bytes is 0. Longer blocks read w and the sum of dw less
 * often, shorter blocks take less memory. The logits of 512 rows of GPT-2 are 103 MB in fp32, and on a processor
 * products of 512 rows are as fast as products of all rows. */
#define BLOCK_ROWS 512
/* Every block length is a multiple of this number of rows, which suits matrix products. Only a single block of all rows
 * may have another length. */
#define BLOCK_GRAIN 16

typedef struct sizes {
    int64_t rows, V, C;
} sizes;

static sizes head_sizes_of(const zr_graph *graph, const zr_op *op, int x)
{
    const zr_shape *shape = &zr__in(graph, op, x)->shape, *w = &zr__in(graph, op, x + 1)->shape;
    return (sizes){zr_shape_rows(shape), w->dim[0], w->dim[1]};
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int64_t zr__head_block(const zr_graph_spec *spec, int64_t rows, int64_t cols)
{
    int64_t most = BLOCK_ROWS;
    if (rows < 1 || cols < 1) return 0;
    if (spec->head_bytes > 0) most = spec->head_bytes / zr_dtype_bytes(spec->dtype) / cols / BLOCK_GRAIN * BLOCK_GRAIN;
    if (most < BLOCK_GRAIN) most = BLOCK_GRAIN;
    if (most > rows) most = rows;
    int64_t even = ceil_div(rows, ceil_div(rows, most)), length = ceil_div(even, BLOCK_GRAIN) * BLOCK_GRAIN;
    return length < rows ? length : rows;
}

static int64_t blocks_of(const zr_op *op, sizes s)
{
    return ceil_div(s.rows, op->attr.i[0]);
}

/* Indices of the attributes in zr_op_attr.i. Kernels read the attributes too (device/operands.h explains all of them).
 * i[0] is the number of rows of a block, and i[ALL] the size of the whole vocabulary. PIECE and later attributes are
 * only for ops on a part of the vocabulary. */
enum { ALL = 1, BIAS, PIECE, FIRST, TILE, TILES, DW_ALONE };

/* Return whether the op adds a bias, its last operand, to the logits. */
static bool has_bias(const zr_op *op)
{
    return op->attr.i[BIAS] != 0;
}

/* Check the operands x, w, targets and perhaps the bias; x is operand number `x`, and the other operands follow x. */
static zr_status want_operands(const zr_graph *graph, const zr_op *op, int x)
{
    ZR_TRY(zr__want(graph, op, x, "x", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *dim = zr__in(graph, op, x)->shape.dim;
    ZR_TRY(zr__want(graph, op, x + 1, "w", graph->spec.dtype, ZR_SHAPE(ZR__ANY, dim[2])));
    ZR_TRY(zr__want(graph, op, x + 2, "targets", ZR_I32, ZR_SHAPE(dim[0], dim[1])));
    const int64_t V = zr__in(graph, op, x + 1)->shape.dim[0];
    if (has_bias(op)) return zr__want(graph, op, x + 3, "b", graph->spec.dtype, ZR_SHAPE(V));
    return zr__want_at_most(op, op->attr.i[TILES] > 1 ? x + 4 : x + 3);
}

/* Set the types of output 1, dw, and of output 2, db if there is a bias. The operand w has the number `w`. */
static void gradient_types(const zr_graph *graph, const zr_op *op, int w, zr_type *out)
{
    const zr_shape *shape = &zr__in(graph, op, w)->shape;
    out[1] = (zr_type){zr__sum_dtype(graph, op, 1), *shape};
    if (has_bias(op)) out[2] = (zr_type){zr__sum_dtype(graph, op, 2), ZR_SHAPE(shape->dim[0])};
}

/* Return the cost of `products` matrix products. The bytes include each operand and output once. All logits are
 * transferred `logits` times between memory and processor. In addition, every block after the first reads w `reads`
 * times. */
static zr_cost head_cost_of(const zr_graph *graph, const zr_op *op, sizes s, int products, int logits, int reads)
{
    double each = (double)zr_dtype_bytes(graph->spec.dtype);
    double V = (double)s.V, rows = (double)s.rows, C = (double)s.C;
    return (zr_cost){.flops = 2.0 * products * rows * V * C,
                     .bytes = zr__bytes(graph, op) + logits * rows * V * each +
                              (double)(blocks_of(op, s) - 1) * reads * V * C * each,
                     .product = zr__product_sizes_of(op->attr.i[0], s.V, s.C)};
}

/* ---- linear_cross_entropy_dx ------------------------------------------------------------------ */

static zr_status head_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(want_operands(graph, op, 1));
    const zr_type *x = zr__in(graph, op, 1);
    ZR_TRY(zr__want(graph, op, 0, "dlosses", ZR_F32, ZR_SHAPE(x->shape.dim[0], x->shape.dim[1])));
    out[0] = *x;
    if (op->n_out > 2) gradient_types(graph, op, 2, out);
    out[op->n_out - 1] = *zr__in(graph, op, 0);
    return ZR_OK;
}

/* Return the cost of the products for logits, dx and dw. dw_out is the number of the output dw, or -1 without dw.
 * Logits are written, read, overwritten with their gradient, and read by the products for dx and dw. w is read by the
 * products for logits and dx. The running sum of dw is read and written for every block but the first. If dw has 16
 * bits, the running sum of several blocks is kept in F32 in the op's scratch memory. This F32 sum is also written for
 * the first block, and read once more to be rounded into dw. */
static zr_cost gradients_cost(const zr_graph *graph, const zr_op *op, int x, int dw_out)
{
    sizes s = head_sizes_of(graph, op, x);
    if (dw_out < 0) return head_cost_of(graph, op, s, 2, 4, 2);
    zr_dtype dw = zr__out(graph, op, dw_out)->dtype, g = graph->spec.dtype;
    zr_cost cost = head_cost_of(graph, op, s, 3, 5, 2);
    int64_t blocks = blocks_of(op, s);
    bool in_dw = dw == ZR_F32 || (blocks == 1 && dw == g);
    int64_t passes = 2 * (in_dw ? blocks - 1 : blocks);
    cost.bytes += (double)passes * (double)s.V * (double)s.C * (double)zr_dtype_bytes(in_dw ? dw : ZR_F32);
    return cost;
}

static zr_cost head_dx_cost(const zr_graph *graph, const zr_op *op)
{
    return gradients_cost(graph, op, 1, op->n_out > 2 ? 1 : -1);
}

/* Define the op with n outputs: dx, dw (only if n is 3 or 4), db (only if n is 4), losses. dx can overwrite x, because
 * a block of x is not needed any more when that block of dx is written. */
#define DX(n)                                                                                                          \
    {                                                                                                                  \
        .name = "linear_cross_entropy_dx", .n_out = n, .infer = head_dx_infer, .cost = head_dx_cost, .in_place = { 2 } \
    }
static const zr_op_def dx_dw_db = DX(4), dx_and_dw = DX(3), dx_alone = DX(2);

/* ---- linear_cross_entropy --------------------------------------------------------------------- */

static zr_status head_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(want_operands(graph, op, 0));
    const int64_t *x = zr__in(graph, op, 0)->shape.dim;
    for (int i = 0; i < op->n_out; i++) out[i] = (zr_type){ZR_F32, ZR_SHAPE(x[0], x[1])};
    return ZR_OK;
}

/* Gradients that an adjoint computes: of x, and if any parameter needs one, of w and the bias. */
typedef struct gradients {
    zr_value of[3];   /* x, w and the bias */
    bool needed[3];   /* for each value in `of`: whether it needs a gradient */
    bool with_params; /* whether the op also computes dw, and db if there is a bias */
} gradients;

/* Begin the gradients of the operands of `op`. x is operand number `x`. out[i] receives the value for the gradient of
 * of[i], or ZR_NONE. */
static gradients begin_gradients(zr_graph *graph, const zr_op *op, int x, zr_value *out)
{
    gradients g = {.of = {op->in[x], op->in[x + 1], has_bias(op) ? op->in[x + 3] : ZR_NONE}};
    for (int i = 0; i < 3; i++) {
        g.needed[i] = g.of[i] != ZR_NONE && zr_grad_needed(graph, g.of[i]);
        g.with_params |= i > 0 && g.needed[i];
        out[i] = g.needed[i] ? zr_grad_begin(graph, g.of[i], NULL) : ZR_NONE;
    }
    return g;
}

/* End the gradients of the parameters, which are outputs 1 and 2. */
static void end_params(zr_graph *graph, const gradients *g, const zr_value *out)
{
    for (int i = 1; i < 3; i++)
        if (g->needed[i]) zr_grad_end(graph, g->of[i], out[i]);
}

/* Add one op that computes the gradients of x, w and the bias, since each needs the gradient of the block's logits. The
 * op computes dx even if only dw is needed, and both dw and db if either is needed. */
static zr_status head_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value out[4] = {ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE};
    const gradients g = begin_gradients(graph, op, 0, out);
    const zr_op_def *def = !g.with_params ? &dx_alone : has_bias(op) ? &dx_dw_db : &dx_and_dw;
    if (def->n_out < 4) out[def->n_out - 1] = ZR_NONE;
    zr_graph_op(graph, def, &op->attr, op->n_in + 1,
                (zr_value[]){zr_grad_of(graph, op->out[0]), op->in[0], op->in[1], op->in[2], op->in[3]}, out);
    if (g.needed[0]) zr_grad_end(graph, g.of[0], out[0]);
    end_params(graph, &g, out);
    zr_grad_losses(graph, op->out[0], out[def->n_out - 1]);
    return ZR_OK;
}

/* Return the cost of a forward op. With `hits`, the op reads the logits once more to compare them with the target's
 * logit. */
static zr_cost forward_cost(const zr_graph *graph, const zr_op *op, bool hits)
{
    return head_cost_of(graph, op, head_sizes_of(graph, op, 0), 1, hits ? 3 : 2, 1);
}

static zr_cost head_cost(const zr_graph *graph, const zr_op *op)
{
    return forward_cost(graph, op, op->n_out > 1);
}

/* Define the op with n outputs: losses, and hits if n is 2. */
#define HEAD(n)                                                                                                        \
    {                                                                                                                  \
        .name = "linear_cross_entropy", .n_out = n, .infer = head_infer, .adjoint = head_adjoint, .cost = head_cost    \
    }
static const zr_op_def losses_alone = HEAD(1), losses_and_hits = HEAD(2);

/* ---- with a vocabulary in parts -------------------------------------------------------------- */

/* A part of the vocabulary consists of the rows of one of M tensor-parallel ranks, or of a tile of the rows. A first
 * pass computes two numbers for each part: the log-sum-exp of its logits, and the target's logit if the target is in
 * the part. The losses are computed from these numbers of all parts. For hits there is a third number, the threshold:
 * the smallest logit with which the target would be ahead of all other tokens in the part. The gradient needs the
 * log-sum-exp over the whole vocabulary, so the backward pass recomputes the logits. */
enum { PAIR = 2, WITH_THRESHOLD = 3 };

/* Set the attributes that say which part of the vocabulary w is. */
static void set_part(const zr_graph *graph, zr_value w, zr_op_attr *attr)
{
    const zr_value_info *table = zr_graph_value(graph, w);
    int64_t rows[3];
    if (!table) return;
    const zr_tile *tile = &zr_graph_param(graph, table->param)->tile;
    zr__table_rows(graph, w, rows);
    attr->i[ALL] = rows[0];
    attr->i[PIECE] = rows[1];
    attr->i[FIRST] = rows[2];
    attr->i[TILE] = tile->index;
    attr->i[TILES] = tile->count;
}

/* Return the attributes of an op on x and w, without those that set_part adds for a part of the vocabulary. */
static zr_op_attr head_attr(const zr_graph *graph, zr_value x, zr_value w, bool bias)
{
    const zr_value_info *info = zr_graph_value(graph, x), *table = zr_graph_value(graph, w);
    const int64_t cols = table ? table->type.shape.dim[0] : 0;
    return (zr_op_attr){
        .i = {info ? zr__head_block(zr_graph_get_spec(graph), zr_shape_rows(&info->type.shape), cols) : 0, 0, bias}};
}

/* Infer the type of the output, `numbers` numbers for each tile and row. */
static zr_status numbers_infer(const zr_graph *graph, const zr_op *op, int64_t numbers, zr_type *out)
{
    ZR_TRY(want_operands(graph, op, 0));
    const int64_t *x = zr__in(graph, op, 0)->shape.dim;
    out[0] = (zr_type){ZR_F32, ZR_SHAPE(op->attr.i[TILES] * x[0], x[1], numbers)};
    return op->attr.i[TILES] > 1 ? zr__want_optional(graph, op, 3, "earlier", ZR_F32, out[0].shape) : ZR_OK;
}

static zr_status pairs_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return numbers_infer(graph, op, PAIR, out);
}

static zr_status thresholds_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return numbers_infer(graph, op, WITH_THRESHOLD, out);
}

/* Return the cost of the first pass. In training, the FLOPs also count as repeated work (`again`), since the backward
 * pass recomputes the logits. */
static zr_cost head_part_cost(const zr_graph *graph, const zr_op *op)
{
    zr_cost c = forward_cost(graph, op, zr__out(graph, op, 0)->shape.dim[2] == WITH_THRESHOLD);
    if (graph->spec.mode == ZR_MODE_TRAIN) c.again = c.flops;
    return c;
}

/* Define the op of the first pass over a part. `rule` is its function infer. */
#define PART(rule)                                                                                                     \
    {                                                                                                                  \
        .name = "linear_cross_entropy_part", .n_out = 1, .infer = rule, .cost = head_part_cost, .in_place = {4},       \
        .takes_pieces = true                                                                                           \
    }
static const zr_op_def part_of_losses = PART(pairs_infer), part_with_hits = PART(thresholds_infer);

static zr_status head_part_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(want_operands(graph, op, 2));
    const zr_type *x = zr__in(graph, op, 2);
    const zr_shape rows = ZR_SHAPE(x->shape.dim[0], x->shape.dim[1]);
    ZR_TRY(zr__want(graph, op, 0, "dlosses", ZR_F32, rows));
    ZR_TRY(zr__want(graph, op, 1, "lse", ZR_F32, rows));
    out[0] = *x;
    if (op->n_out > 1) gradient_types(graph, op, 3, out);
    return ZR_OK;
}

static zr_cost head_part_dx_cost(const zr_graph *graph, const zr_op *op)
{
    return gradients_cost(graph, op, 2, op->n_out > 1 ? 1 : -1);
}

/* Define the backward op of a rank's part with n outputs: dx, dw if n is 2 or 3, and db if n is 3. */
#define PART_DX(n)                                                                                                     \
    {                                                                                                                  \
        .name = "linear_cross_entropy_part_dx", .n_out = n, .infer = head_part_dx_infer, .cost = head_part_dx_cost,    \
        .in_place = {                                                                                                  \
            3                                                                                                          \
        }                                                                                                              \
    }
static const zr_op_def part_dx_dw_db = PART_DX(3), part_dx_and_dw = PART_DX(2), part_dx_alone = PART_DX(1);

/* Infer the types of the outputs for a tile: the F32 sum of dx over the tiles so far, and dw. */
static zr_status tile_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const int dw = op->attr.i[DW_ALONE] ? 0 : 1;
    ZR_TRY(head_part_dx_infer(graph, op, out));
    out[0].dtype = ZR_F32;
    if (op->n_out > dw) out[dw] = (zr_type){zr__sum_dtype(graph, op, dw), zr__in(graph, op, 3)->shape};
    return zr__want_optional(graph, op, 5, "earlier", ZR_F32, zr__in(graph, op, 2)->shape);
}

/* Return the cost of dw alone: the product for dx is left out, and the product for logits is repeated work. */
static zr_cost tile_dw_cost(const zr_graph *graph, const zr_op *op)
{
    zr_cost c = gradients_cost(graph, op, 2, 0);
    c.again = c.flops / 3;
    c.flops -= c.again;
    return c;
}

/* Define the backward op of a tile with n outputs: dx, which overwrites the sum over the tiles so far, and dw if n is
 * 2. */
#define TILE_DX(n)                                                                                                     \
    {                                                                                                                  \
        .name = "linear_cross_entropy_part_dx", .n_out = n, .infer = tile_dx_infer, .cost = head_part_dx_cost,         \
        .in_place = {                                                                                                  \
            6                                                                                                          \
        }                                                                                                              \
    }
static const zr_op_def tile_dx_and_dw = TILE_DX(2), tile_dx_alone = TILE_DX(1);
static const zr_op_def tile_dw = {
    .name = "linear_cross_entropy_part_dw", .n_out = 1, .infer = tile_dx_infer, .cost = tile_dw_cost};

/* Check `all`, the n numbers of every part: shape (tiles B,T,n), or (M,tiles B,T,n) with M ranks. n is 2, or 3 if the
 * op also gives hits. Only the adjoint needs the other operands. w is the last tile, because the previous op has just
 * read that tile. */
static zr_status head_join_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(want_operands(graph, op, 1));
    const int64_t *x = zr__in(graph, op, 1)->shape.dim, M = graph->spec.tensor;
    const int64_t rows = op->attr.i[TILES] * x[0], n = op->n_out > 2 ? WITH_THRESHOLD : PAIR;
    ZR_TRY(zr__want(graph, op, 0, "all", ZR_F32, M > 1 ? ZR_SHAPE(M, rows, x[1], n) : ZR_SHAPE(rows, x[1], n)));
    for (int i = 0; i < op->n_out; i++) out[i] = (zr_type){ZR_F32, ZR_SHAPE(x[0], x[1])};
    return ZR_OK;
}

static zr_status piece_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value out[3] = {ZR_NONE, ZR_NONE, ZR_NONE};
    const gradients g = begin_gradients(graph, op, 1, out);
    const zr_op_def *def = !g.with_params ? &part_dx_alone : has_bias(op) ? &part_dx_dw_db : &part_dx_and_dw;
    /* Sum the ranks' parts of dx, unless zr__all_tokens gathered x. In that case the adjoint of the gather sums them.
     */
    const bool sums = !zr__is_gathered(graph, g.of[0]);
    zr_value dx = out[0];
    if (sums) out[0] = ZR_NONE;
    zr_graph_op(graph, def, &op->attr, op->n_in + 1,
                (zr_value[]){zr_grad_of(graph, op->out[0]), op->out[1], op->in[1], op->in[2], op->in[3], op->in[4]},
                out);
    end_params(graph, &g, out);
    if (!g.needed[0]) return ZR_OK;
    if (sums)
        zr__tensor_sum(graph, out[0], &dx);
    else
        dx = out[0];
    zr_grad_end(graph, g.of[0], dx);
    return ZR_OK;
}

/* Add the op that computes the gradients of a tile's logits, and from them the wanted contributions: `dx`, the sum over
 * this tile and the later tiles, given the sum `later` of the later tiles; and `dw`. */
static zr_value tile_gradients(zr_graph *graph, const zr_op *head, zr_value tile, zr_value later, zr_value dx,
                               zr_value dw, bool need_x)
{
    const zr_value x = head->in[1], targets = head->in[3], dlosses = zr_grad_of(graph, head->out[0]);
    const zr_op_def *def = !need_x ? &tile_dw : dw != ZR_NONE ? &tile_dx_and_dw : &tile_dx_alone;
    zr_op_attr attr = head_attr(graph, x, tile, false);
    set_part(graph, tile, &attr);
    attr.i[DW_ALONE] = !need_x;
    zr_value out[2] = {need_x ? dx : dw, dw};
    zr_graph_op(graph, def, &attr, later == ZR_NONE ? 5 : 6,
                (zr_value[]){dlosses, head->out[1], x, tile, targets, later}, out);
    return out[0];
}

/* Make the unit of a tile the current unit, which new ops belong to. */
static void enter_tile(zr_graph *graph, zr_value tile)
{
    graph->current_unit = zr_graph_param(graph, zr_graph_value(graph, tile)->param)->unit;
}

void zr__head_dw(zr_graph *graph, int32_t head, zr_value tile, zr_value dw)
{
    const zr_op op = graph->op[head]; /* a copy, because graph->op may move */
    enter_tile(graph, tile);
    (void)tile_gradients(graph, &op, tile, ZR_NONE, ZR_NONE, dw, false);
}

/* Add the gradients of the tiles in reverse order, since the last tile has just been used. If the table is also the
 * embedding, the look-up contributes to the gradients of the tiles at the end of the backward pass. Until then, the
 * head's contributions would need as much memory as the table. Therefore they are postponed: dw of a tile is computed
 * just before the look-up's contribution, from recomputed logits. The sum of dx over the tiles is in F32, and is
 * rounded once. */
static zr_status tiles_adjoint(zr_graph *graph, const zr_op *op, int32_t tiles)
{
    const zr_value x = op->in[1], w = op->in[2];
    const bool need_x = zr_grad_needed(graph, x), need_w = zr_grad_needed(graph, w);
    const bool rounds = graph->spec.dtype != ZR_F32;
    const bool sums = graph->spec.tensor > 1 && !zr__is_gathered(graph, x);
    zr_value dx = need_x ? zr_grad_begin(graph, x, NULL) : ZR_NONE, sum = ZR_NONE;
    for (int32_t i = 0; i < tiles; i++) {
        const zr_value tile = w - i;
        const bool now = need_w && !zr__grad_postpone(graph, tile, op->out[0]);
        const zr_value dw = now ? zr_grad_begin(graph, tile, NULL) : ZR_NONE;
        const bool last = i + 1 == tiles && !rounds && !sums;
        enter_tile(graph, tile);
        if (need_x || now) sum = tile_gradients(graph, op, tile, sum, last ? dx : ZR_NONE, dw, need_x);
        if (now) zr_grad_end(graph, tile, dw);
    }
    if (!need_x) return ZR_OK;
    if (rounds) sum = zr__add(graph, sum, ZR_NONE, graph->spec.dtype, sums ? ZR_NONE : dx);
    if (sums) zr__tensor_sum(graph, sum, &dx);
    zr_grad_end(graph, x, dx);
    return ZR_OK;
}

static zr_status head_join_adjoint(zr_graph *graph, const zr_op *op)
{
    const int32_t tiles = zr__tiles(graph, op->in[2]);
    return tiles > 1 ? tiles_adjoint(graph, op, tiles) : piece_adjoint(graph, op);
}

/* Count only the bytes of `all` and of the outputs, not of x, w and targets. */
static zr_cost head_join_cost(const zr_graph *graph, const zr_op *op)
{
    return (zr_cost){.bytes = 4.0 * (double)(zr_shape_elems(&zr__in(graph, op, 0)->shape) +
                                             op->n_out * zr_shape_elems(&zr__out(graph, op, 0)->shape))};
}

/* Define the op with n outputs: losses, log-sum-exps, and hits if n is 3. */
#define JOIN(n)                                                                                                        \
    {                                                                                                                  \
        .name = "linear_cross_entropy_join", .n_out = n, .infer = head_join_infer, .adjoint = head_join_adjoint,       \
        .cost = head_join_cost, .takes_pieces = true, .all_tiles = true                                                \
    }
static const zr_op_def join_losses = JOIN(2), join_hits = JOIN(3);

/* Return whether w is cut among the ranks. If w is cut and the bias is not cut in the same way, latch an error. */
static bool is_cut_head(zr_graph *graph, zr_value w, zr_value b)
{
    const bool cut = zr__is_cut_table(graph, "linear_cross_entropy", w);
    if (b != ZR_NONE && cut != (zr__is_cut(graph, b, 0) == 1))
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                       "linear_cross_entropy: one of w and b is cut over the tensor-parallel ranks; wanted both, or "
                       "neither");
    return cut;
}

zr_value zr_linear_cross_entropy(zr_graph *graph, zr_value x, zr_value w, zr_value targets)
{
    return zr_linear_cross_entropy_bias(graph, x, w, ZR_NONE, targets);
}

/* Build a head whose vocabulary is divided into parts: pieces of ranks, tiles, or both. */
static zr_value head_of_parts(zr_graph *graph, zr_value x, zr_value w, zr_value b, zr_value targets, bool cut,
                              zr_value *hits)
{
    const int32_t tiles = zr__tiles(graph, w);
    zr_value all = ZR_NONE, out[3] = {ZR_NONE, ZR_NONE, ZR_NONE};
    zr_op_attr attr = {0};
    if (tiles > 1 && b != ZR_NONE)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                       "memory.tile_elems is %lld, which cuts %s into %d tiles, but the model's head has a bias for "
                       "this table, with "
                       "which tiles are not built; set memory.tile_elems to 0",
                       (long long)graph->spec.tile_elems, graph->param[graph->value[w].info.param].name, tiles);
    for (int32_t i = 0; i < tiles; i++) {
        const zr_value last = tiles > 1 ? all : b;
        attr = head_attr(graph, x, w + i, b != ZR_NONE);
        set_part(graph, w + i, &attr);
        all = zr__apply(graph, hits ? &part_with_hits : &part_of_losses, &attr, last == ZR_NONE ? 3 : 4,
                        (zr_value[]){x, w + i, targets, last});
    }
    if (cut) all = zr__tensor_gather(graph, all);
    zr_graph_op(graph, hits ? &join_hits : &join_losses, &attr, b == ZR_NONE ? 4 : 5,
                (zr_value[]){all, x, w + tiles - 1, targets, b}, out);
    if (hits) *hits = out[2];
    return out[0];
}

zr_value zr_linear_cross_entropy_bias(zr_graph *graph, zr_value x, zr_value w, zr_value b, zr_value targets)
{
    return zr_linear_cross_entropy_hits(graph, x, w, b, targets, NULL);
}

zr_value zr_linear_cross_entropy_hits(zr_graph *graph, zr_value x, zr_value w, zr_value b, zr_value targets,
                                      zr_value *hits)
{
    const bool cut = is_cut_head(graph, w, b);
    zr_value out[2] = {ZR_NONE, ZR_NONE};
    zr__adapter_refuse(graph, w);
    if (cut) x = zr__all_tokens(graph, x);
    if (cut || zr__tiles(graph, w) > 1) return head_of_parts(graph, x, w, b, targets, cut, hits);
    const zr_op_attr attr = head_attr(graph, x, w, b != ZR_NONE);
    zr_graph_op(graph, hits ? &losses_and_hits : &losses_alone, &attr, b == ZR_NONE ? 3 : 4,
                (zr_value[]){x, w, targets, b}, out);
    if (hits) *hits = out[1];
    return out[0];
}
