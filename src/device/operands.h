/**
 * Helpers by which CPU and GPU kernels read the operands and attributes of an op. The header is plain C, and CUDA
 * kernels include it as C++.
 */
#ifndef ZR_DEVICE_OPERANDS_H
#define ZR_DEVICE_OPERANDS_H

#include <string.h>

#include "zr/device.h"

#ifndef ZR__ANYWHERE
#ifdef __CUDACC__
#define ZR__ANYWHERE __host__ __device__
#else
#define ZR__ANYWHERE
#endif
#endif

static inline const zr_type *zr__in_type(const zr_graph *graph, const zr_op *op, int i)
{
    return &zr_graph_value(graph, op->in[i])->type;
}

static inline const zr_type *zr__out_type(const zr_graph *graph, const zr_op *op, int i)
{
    return &zr_graph_value(graph, op->out[i])->type;
}

/* ---- rows of a micro-batch --------------------------------------------------------------------- */

/** Sequences of a micro-batch. A row is one token of the flat micro-batch. */
typedef struct zr__sequence {
    int64_t T, /* number of tokens in a sequence */
        row;   /* index of this rank's first row */
} zr__sequence;

/** Return the sequence length, and the index of the first row of x (position) or dy (position_dw). Attribute 0 of the
 * op is T if this rank holds only some rows of the micro-batch, otherwise 0. */
static inline zr__sequence zr__sequence_of(const zr_kernel_args *args, const zr_shape *x)
{
    const int64_t T = args->op->attr.i[0];
    const zr__sequence s = {T ? T : x->dim[1], T ? args->runtime->place * zr_shape_rows(x) : 0};
    return s;
}

/** Return the position of the rank's row r in its sequence, or in its document if `documents`, the beginnings of the
 * documents of the micro-batch, is not NULL. */
static inline ZR__ANYWHERE int64_t zr__sequence_position(const zr__sequence *s, const int32_t *documents, int64_t r)
{
    return (s->row + r) % s->T - (documents ? documents[s->row + r] : 0);
}

/** Random numbers that dropout uses for the elements of x on this rank. x consists of runs of consecutive elements that
 * use consecutive random numbers. */
typedef struct zr__dropout_runs {
    uint64_t first, /* index of the random number of x's first element */
        stride;     /* number of random numbers from the beginning of a run to the beginning of the next run */
    int64_t length; /* number of elements of a run. All of x is one run, unless this rank has only some columns of x */
} zr__dropout_runs;

/** Return the runs of random numbers for x, which has `elems` elements on this rank. The comment of zr_dropout
 * (zr/ops.h) lists the attributes of the op. */
static inline zr__dropout_runs zr__dropout_runs_of(const zr_kernel_args *args, int64_t elems)
{
    const zr_runtime *now = args->runtime;
    const int64_t sequence = args->op->attr.i[1], columns = args->op->attr.i[2], ranks = args->op->attr.i[3];
    const int64_t row = now->first_row * (sequence ? sequence : elems / args->in[0].shape.dim[0]);
    const zr__dropout_runs by_columns = {(uint64_t)(row + now->place * columns), (uint64_t)(ranks * columns), columns};
    const zr__dropout_runs whole = {(uint64_t)(row + (sequence ? now->place * elems : 0)), 0, elems};
    return columns ? by_columns : whole;
}

/** Return the index of the random number of element i of x. */
static inline ZR__ANYWHERE uint64_t zr__dropout_element(const zr__dropout_runs *runs, int64_t i)
{
    return runs->first + (uint64_t)(i / runs->length) * runs->stride + (uint64_t)(i % runs->length);
}

/* ---- linear_cross_entropy and related ops ------------------------------------------------------ */

/** Operands of linear_cross_entropy or a related op. In the forward pass, dlosses, dx and dw are NULL. In a backward
 * pass that computes no dw, dw is NULL. Attribute 2 of the op is 1 if it has a bias; otherwise b and db are NULL. */
typedef struct zr__loss_operands {
    const zr_tensor *x, *w, *b, *targets, *losses, *dlosses, *dx, *dw, *db;
    const zr_tensor *hits; /* for each row, whether the target has the largest logit; or NULL */
    /* lse, part and earlier are only for ops on a part of the vocabulary. */
    const zr_tensor *lse, /* log-sum-exps, an input of the backward pass */
        *part,            /* partial results of all tiles, the output of the forward pass */
        *earlier;         /* results of earlier tiles: `part`, or the sum of dx in F32; NULL for the first tile */
    int64_t rows, V, C;
    int64_t part_row, /* first row of this tile in `part` */
        numbers;      /* numbers of a row of `part`: log-sum-exp, the target's logit, and perhaps the threshold */
    int64_t first,    /* first token id of this part of the vocabulary */
        valid,        /* number of the part's tokens without padding */
        all;          /* number of tokens in the whole vocabulary */
} zr__loss_operands;

/** Attributes of the ops, in the order of this enum: number of rows in a block of logits; number of rows of the whole
 * table if the op has only a part of the vocabulary (the piece of a tensor-parallel rank, or a tile of it), otherwise
 * 0; and whether there is a bias. Ops on a part also have: number of rows of each rank's piece, first row of the tile
 * in the piece, index of the tile, number of tiles, and whether dw is the only output. A head in tiles has no bias. */
enum {
    ZR__LOSS_BLOCK,
    ZR__LOSS_ALL,
    ZR__LOSS_BIAS,
    ZR__LOSS_PIECE,
    ZR__LOSS_FIRST,
    ZR__LOSS_TILE,
    ZR__LOSS_TILES,
    ZR__LOSS_DW_ALONE
};

/** Return whether the op adds a bias, its last operand, to the logits. */
static inline bool zr__loss_has_bias(const zr_op *op)
{
    return op->attr.i[ZR__LOSS_BIAS] != 0;
}

/** Return whether the op computes gradients. */
static inline bool zr__loss_is_backward(int n_in, const zr_op *op)
{
    return n_in > (zr__loss_has_bias(op) || op->attr.i[ZR__LOSS_ALL] ? 4 : 3);
}

/** Return the index of x among the inputs. w, the targets and the bias follow x. */
static inline int zr__loss_first(int n_in, const zr_op *op)
{
    return !zr__loss_is_backward(n_in, op) ? 0 : op->attr.i[ZR__LOSS_ALL] ? 2 : 1;
}

/** Return the index of dw among the outputs, or -1 if there is no dw. With a bias, db is the next output. */
static inline int zr__loss_dw(int n_in, int n_out, const zr_op *op)
{
    if (!zr__loss_is_backward(n_in, op)) return -1;
    if (op->attr.i[ZR__LOSS_DW_ALONE]) return 0;
    return n_out > (op->attr.i[ZR__LOSS_ALL] ? 1 : 2) ? 1 : -1;
}

static inline zr__loss_operands zr__loss_operands_of(const zr_kernel_args *args)
{
    const zr_tensor *x = args->in + zr__loss_first(args->n_in, args->op);
    const int64_t *attr = args->op->attr.i, all = attr[ZR__LOSS_ALL];
    const bool backward = zr__loss_is_backward(args->n_in, args->op), bias = zr__loss_has_bias(args->op);
    const int dw = zr__loss_dw(args->n_in, args->n_out, args->op), earlier = backward ? 5 : 3;
    zr__loss_operands o;
    memset(&o, 0, sizeof o);
    o.x = x;
    o.w = x + 1;
    o.targets = x + 2;
    if (bias) o.b = x + 3;
    if (!all) o.losses = &args->out[backward ? args->n_out - 1 : 0];
    if (!all && !backward && args->n_out > 1) o.hits = &args->out[1];
    if (all && !backward) {
        o.part = &args->out[0];
        o.numbers = o.part->shape.dim[2];
    }
    if (all && backward) o.lse = &args->in[1];
    if (attr[ZR__LOSS_TILES] > 1 && args->n_in > earlier) o.earlier = &args->in[earlier];
    if (backward) {
        o.dlosses = &args->in[0];
        if (dw != 0) o.dx = &args->out[0];
        if (dw >= 0) o.dw = &args->out[dw];
        if (o.dw && bias) o.db = &args->out[dw + 1];
    }
    o.rows = zr_shape_rows(&x->shape);
    o.V = o.w->shape.dim[0];
    o.C = o.w->shape.dim[1];
    o.all = all ? all : o.V;
    o.part_row = all ? attr[ZR__LOSS_TILE] * o.rows : 0;
    /* During `prepare`, `runtime` is NULL and `first` is not needed. */
    o.first = all && args->runtime ? args->runtime->place * attr[ZR__LOSS_PIECE] + attr[ZR__LOSS_FIRST] : 0;
    o.valid = o.all - o.first < o.V ? o.all - o.first : o.V;
    if (o.valid < 0) o.valid = 0;
    return o;
}

#endif
