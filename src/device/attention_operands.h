/**
 * Operands and sizes of the attention ops, for the kernels of processors and GPUs. The header is plain C, and CUDA
 * kernels include it as C++.
 */
#ifndef ZR_DEVICE_ATTENTION_OPERANDS_H
#define ZR_DEVICE_ATTENTION_OPERANDS_H

#include "device/operands.h"

/** Sizes of an attention op on this rank. */
typedef struct zr__attention_sizes {
    bool fused;      /* whether q, k and v are one operand */
    int64_t B, T, D; /* D: width of a head */
    int64_t H, K;    /* numbers of query heads and of key-value heads of this rank */
    int64_t all;     /* number of query heads of the whole model */
    int64_t group;   /* number of query heads of the whole model that share a key-value head */
    int64_t window;  /* number of keys that a query sees, its own included; 0 for all */
    bool causal;
} zr__attention_sizes;

/** Return the sizes of an op from the shapes of its operands q and k. If k is NULL, q is the fused operand qkv. */
static inline zr__attention_sizes zr__attention_sizes_of(const zr_op_attr *attr, const zr_shape *q, const zr_shape *k)
{
    zr__attention_sizes s;
    const int64_t cols = q->dim[2];
    s.fused = !k;
    s.B = q->dim[0];
    s.T = q->dim[1];
    s.H = attr->i[0];
    s.all = attr->i[2];
    s.group = attr->i[2] / attr->i[3];
    s.window = attr->i[4];
    s.causal = attr->i[5] != 0;
    if (k) {
        s.D = cols / s.H;
        s.K = k->dim[2] / s.D;
    } else {
        s.K = s.H < s.all ? s.H : attr->i[3];
        s.D = cols / (s.H + 2 * s.K);
    }
    return s;
}

/** Return the index of a rank's first query head among the whole model's query heads. */
static inline int64_t zr__attention_first_head(const zr__attention_sizes *s, int64_t place)
{
    return s->H < s->all ? place * s->H : 0;
}

/** Return the index of a rank's first key-value head among the whole model's key-value heads. */
static inline int64_t zr__attention_first_kv(const zr__attention_sizes *s, int64_t place)
{
    return s->K < s->all / s->group ? place * s->K : 0;
}

/** Columns of one operand or gradient. Element d of token t of head `head`, in row `row` of the batch, is at (row * T +
 * t) * stride + first + head * D + d. */
typedef struct zr__head_columns {
    const zr_tensor *x;
    int64_t stride, first; /* elements in a token of x, and the first column */
} zr__head_columns;

typedef struct zr__attention_operands {
    zr__head_columns q, k, v;
} zr__attention_operands;

/** Return the columns of q, k and v in `x`, which is the fused array or the first of three arrays. The function also
 * applies to gradients, which have the same shapes. */
static inline zr__attention_operands zr__attention_operands_of(const zr__attention_sizes *s, const zr_tensor *x)
{
    const int64_t q = s->H * s->D, kv = s->K * s->D;
    zr__attention_operands o;
    o.q.x = x;
    o.k.x = s->fused ? x : x + 1;
    o.v.x = s->fused ? x : x + 2;
    o.q.stride = s->fused ? q + 2 * kv : q;
    o.k.stride = o.v.stride = s->fused ? q + 2 * kv : kv;
    o.q.first = 0;
    o.k.first = s->fused ? q : 0;
    o.v.first = s->fused ? q + kv : 0;
    return o;
}

/* ---- operands of attention and attention_dx ----------------------------------------------------- */

/** Return whether q, k and v are one operand of the op attention. The op has 1 or 3 operands, and perhaps the operand
 * `documents` after them. */
static inline bool zr__attention_is_fused(int n_in)
{
    return n_in <= 2;
}

/** Return whether a kernel needs the ends of documents. It does if queries see later keys of their documents. */
static inline bool zr__attention_needs_ends(const zr_op_attr *attr, bool documents)
{
    return documents && attr->i[5] == 0;
}

/** Return the operand `documents` of the op attention, or NULL if the op does not have it. */
static inline const zr_tensor *zr__attention_documents(const zr_tensor *in, int n_in)
{
    return n_in % 2 == 0 ? in + n_in - 1 : NULL;
}

/** Operands of the op attention_dx besides q, k and v. `documents` is NULL if it is absent. */
typedef struct zr__attention_dx_operands {
    const zr_tensor *dy, *y, *lse, *documents;
} zr__attention_dx_operands;

/** Return these operands from `in`. n_out is 1 if q, k and v are one fused operand, else 3. */
static inline zr__attention_dx_operands zr__attention_dx_operands_of(const zr_tensor *in, int n_in, int n_out)
{
    zr__attention_dx_operands o;
    o.dy = in;
    o.y = in + 1 + n_out;
    o.lse = in + 2 + n_out;
    o.documents = n_in > n_out + 3 ? in + 3 + n_out : NULL;
    return o;
}

#endif
