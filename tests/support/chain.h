/* A chain of matrices: a model with exactly units * rows * cols parameters. The input x (B,T,rows) is multiplied by
 * matrices of shapes (rows,cols), (cols,rows), (rows,cols) ... in turn, each in a unit of its own; the last product is
 * the logits. Tensor-parallel ranks divide the columns of (rows,cols) and the rows of (cols,rows). */
#ifndef ZR_TESTS_CHAIN_H
#define ZR_TESTS_CHAIN_H

#include "zr/models.h"

#include <inttypes.h>

typedef struct chain_config {
    int64_t units, rows, cols;
} chain_config;

enum { UNITS_MAX = 1 << 16 };

static bool chain_fits(zr_graph *graph, const chain_config *c)
{
    bool positive = c->units >= 1 && c->units <= UNITS_MAX && c->rows >= 1 && c->cols >= 1;
    if (!positive)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "chain: %" PRId64 " matrices of (%" PRId64 ", %" PRId64 "); wanted 1 to %d, of positive sizes",
                       c->units, c->rows, c->cols, UNITS_MAX);
    else if (zr_graph_get_spec(graph)->tensor > 1 && c->units % 2 != 0)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "chain: %" PRId64 " matrices cannot be shared by tensor-parallel ranks: an even number is "
                       "wanted, each pair cut by columns and then by rows",
                       c->units);
    else if (zr_graph_get_spec(graph)->mode == ZR_MODE_DECODE)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "chain: it has no tokens to decode");
    else
        return true;
    return false;
}

static void chain_build(zr_graph *graph, const void *config)
{
    const chain_config *c = config;
    if (!chain_fits(graph, c)) return;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    zr_value x = zr_input(graph, "x", spec->dtype, ZR_SHAPE(spec->batch, spec->seq, c->rows));
    int64_t from = c->rows, to = c->cols;
    for (int64_t i = 0; i < c->units; i++) {
        zr_graph_unit(graph, "%" PRId64, i);
        zr_init init = {.kind = ZR_INIT_NORMAL, .std = 0.02};
        /* Cut the matrices alternately by columns and by rows, as Megatron cuts the matrices of a block. In this way
         * each pair of matrices needs only one sum over the ranks. */
        zr_cut cut = {.dim = i % 2 == 0 ? 1 : 0, .parts = 1};
        zr_value w = zr_param_cut(graph, init, ZR_SHAPE(from, to), cut, "%" PRId64 ".weight", i);
        x = zr_linear(graph, x, w, ZR_NONE, false);
        int64_t next = from;
        from = to;
        to = next;
    }
    zr_value targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_cross_entropy(graph, x, targets));
}

/* `config` is borrowed. */
static zr_model chain_model(const chain_config *config)
{
    return (zr_model){.name = "chain", .build = chain_build, .config = config};
}

#endif
