/* rotary_table: the cosines and sines of rotary embeddings, an op without operands; rotary: the rotation of heads. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- rotary_table ---------------------------------------------------------------------------- */

static zr_status table_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 0));
    out[0] = (zr_type){ZR_F32, ZR_SHAPE(graph->spec.seq, op->attr.i[1])};
    return ZR_OK;
}

static const zr_op_def rotary_table = ZR__OP("rotary_table", .infer = table_infer, .cheap = true);

/* Check that a constant of a rotary embedding is finite, and at least `low`, or greater than `low` if `above` is true.
 */
static zr_status check_number(const char *name, double number, double low, bool above)
{
    ZR_CHECK(isfinite(number) && (above ? number > low : number >= low), ZR_ERR_CONFIG,
             "rotary_table: %s is %g; wanted %s %g", name, number, above ? "a number above" : "at least", low);
    return ZR_OK;
}

/* Check the constants that only kind LLAMA3 or only kind YARN uses. */
static zr_status check_borders(const zr_rotary_spec *spec)
{
    if (spec->kind == ZR_ROTARY_LLAMA3) {
        ZR_TRY(check_number("low_freq_factor", spec->low_freq_factor, 0, true));
        return check_number("high_freq_factor, which must exceed low_freq_factor,", spec->high_freq_factor,
                            spec->low_freq_factor, true);
    }
    if (spec->kind != ZR_ROTARY_YARN) return ZR_OK;
    ZR_TRY(check_number("beta_slow", spec->beta_slow, 0, true));
    ZR_TRY(check_number("beta_fast, which must exceed beta_slow,", spec->beta_fast, spec->beta_slow, true));
    return check_number("attention_factor", spec->attention_factor, 0, false);
}

static zr_status check_spec(const zr_rotary_spec *spec)
{
    ZR_CHECK(spec, ZR_ERR_ARG, "rotary_table: the spec must not be NULL");
    ZR_CHECK((unsigned)spec->kind <= ZR_ROTARY_YARN, ZR_ERR_ARG,
             "rotary_table: kind is %d, which is not a value of zr_rotary_kind", (int)spec->kind);
    ZR_CHECK(spec->width >= 2 && spec->width % 2 == 0, ZR_ERR_CONFIG,
             "rotary_table: the width of a head is %" PRId64 "; wanted an even number of elements, at least 2",
             spec->width);
    ZR_TRY(check_number("theta", spec->theta, 1, true));
    if (spec->kind == ZR_ROTARY_DEFAULT) return ZR_OK;
    ZR_TRY(check_number("factor", spec->factor, 1, false));
    if (spec->kind == ZR_ROTARY_LINEAR) return ZR_OK;
    ZR_CHECK(spec->original >= 1, ZR_ERR_CONFIG,
             "rotary_table: the original length is %" PRId64 " tokens; wanted at least 1", spec->original);
    ZR_CHECK(spec->kind != ZR_ROTARY_DYNAMIC || spec->width > 2, ZR_ERR_CONFIG,
             "rotary_table: the width of a head is 2; kind dynamic wants at least 4");
    return check_borders(spec);
}

zr_value zr_rotary_table(zr_graph *graph, const zr_rotary_spec *spec)
{
    if (zr__graph_closed(graph)) return ZR_NONE;
    const zr_status status = check_spec(spec);
    zr__graph_latch(graph, status);
    if (status != ZR_OK) return ZR_NONE;
    const bool yarn = spec->kind == ZR_ROTARY_YARN;
    const double usual = yarn ? 0.1 * log(spec->factor) + 1 : 1;
    const zr_op_attr attr = {
        .i = {spec->kind, spec->width, spec->original, spec->truncate},
        .f = {spec->theta, spec->factor, spec->low_freq_factor, spec->high_freq_factor, spec->beta_fast,
              spec->beta_slow, yarn && spec->attention_factor > 0 ? spec->attention_factor : usual},
    };
    return zr__apply(graph, &rotary_table, &attr, 0, NULL);
}

/* ---- rotary ---------------------------------------------------------------------------------- */

static zr_status rotary_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int64_t T = op->attr.i[1];
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(zr__want(graph, op, 0, "x", spec->dtype, zr__tokens_shape(T, ZR__ANY)));
    const zr_shape *x = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "table", ZR_F32, ZR_SHAPE(T ? T : x->dim[1], ZR__ANY)));
    ZR_TRY(zr__want_optional(graph, op, 2, "documents", ZR_I32, zr__documents_shape(T, x)));
    const int64_t D = zr_shape_cols(&zr__in(graph, op, 1)->shape), cols = zr_shape_cols(x);
    ZR_CHECK(D % 2 == 0, ZR_ERR_SHAPE, "rotary: the table has %" PRId64 " columns; wanted an even number", D);
    ZR_CHECK(cols % D == 0, ZR_ERR_SHAPE,
             "rotary: the table is for heads of width %" PRId64 ", which does not divide the %" PRId64 " columns of x",
             D, cols);
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, spec->dtype), *x};
    return ZR_OK;
}

/* Contribute the gradient: dy rotated by the opposite angles. */
static zr_status rotary_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_op_attr attr = {.i = {!op->attr.i[0], op->attr.i[1]}};
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[1], op->in[2]};
    ZR_CHECK(!zr_grad_needed(graph, op->in[1]), ZR_ERR_UNSUPPORTED,
             "rotary: the table depends on a parameter; wanted the result of zr_rotary_table");
    return zr__contribute(graph, op->in[0], op->def, &attr, op->n_in, in);
}

static const zr_op_def rotary = ZR__OP("rotary", .infer = rotary_infer, .adjoint = rotary_adjoint, .cheap = true,
                                       .in_place = {1}, .keeps_cut = true, .keeps_tokens = true);

zr_value zr_rotary(zr_graph *graph, zr_value x, zr_value table)
{
    const zr_op_attr attr = {.i = {0, zr__own_tokens(graph, x)}};
    const zr_value documents = zr__graph_documents(graph);
    return zr__apply(graph, &rotary, &attr, documents == ZR_NONE ? 2 : 3, (zr_value[]){x, table, documents});
}
