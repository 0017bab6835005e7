/**
 * Frequencies of a rotary embedding (zr_rotary_table), for the kernels of processors and GPUs. The header is plain C,
 * and CUDA kernels include it as C++.
 */
#ifndef ZR_DEVICE_ROTARY_H
#define ZR_DEVICE_ROTARY_H

#include <math.h>

#include "device/operands.h"
#include "zr/ops.h"

/** Rule for the frequencies of a table's pairs, in one form for all kinds. The usual frequency of pair j is f =
 * theta^(-2j/D). The rule replaces f by p f + (1 - p) f / factor, where the part p in [0, 1] depends on the pair. */
typedef struct zr__rotary {
    double theta; /* base, already enlarged for kind DYNAMIC */
    double factor;
    /* limits between which the part p changes: pairs for YARN (p falls from 1 to 0), turns for LLAMA3 (p rises from 0
     * to 1) */
    double low, high;
    double original; /* for LLAMA3: length in tokens of sequences before scaling */
    zr_rotary_kind kind;
    int64_t half;   /* number of pairs, D/2 */
    int64_t first;  /* position of the table's first row */
    double enlarge; /* factor by which cosines and sines are multiplied */
} zr__rotary;

/** Return the index of the pair that makes `turns` full turns in `original` tokens. The index is a real number. */
static inline double zr__rotary_pair(double turns, const zr_op_attr *attr)
{
    const double two_pi = 6.283185307179586476925;
    return (double)attr->i[1] * log((double)attr->i[2] / (turns * two_pi)) / (2.0 * log(attr->f[0]));
}

/** Set the limits `low` and `high` for YARN. */
static inline void zr__rotary_yarn(zr__rotary *r, const zr_op_attr *attr)
{
    const double low = zr__rotary_pair(attr->f[4], attr), high = zr__rotary_pair(attr->f[5], attr);
    const double last = (double)attr->i[1] - 1.0;
    r->low = fmax(attr->i[3] ? floor(low) : low, 0.0);
    r->high = fmin(attr->i[3] ? ceil(high) : high, last);
    if (r->low == r->high) r->high += 0.001; /* no division by zero */
}

/** Return the rule of a rotary_table with T rows. */
static inline zr__rotary zr__rotary_of(const zr_kernel_args *args, int64_t T)
{
    const zr_op_attr *attr = &args->op->attr;
    const double D = (double)attr->i[1];
    zr__rotary r;
    r.theta = attr->f[0];
    r.factor = attr->f[1];
    r.low = attr->f[2];
    r.high = attr->f[3];
    r.original = (double)attr->i[2];
    r.kind = (zr_rotary_kind)attr->i[0];
    r.half = attr->i[1] / 2;
    r.first = args->runtime->position;
    r.enlarge = attr->f[6];
    const double length = (double)(r.first + T);
    if (r.kind == ZR_ROTARY_DYNAMIC && length > r.original)
        r.theta *= pow(r.factor * length / r.original - (r.factor - 1.0), D / (D - 2.0));
    if (r.kind == ZR_ROTARY_YARN) zr__rotary_yarn(&r, attr);
    return r;
}

/** Return the angle in radians by which pair j turns from one position to the next. */
static inline ZR__ANYWHERE double zr__rotary_frequency(const zr__rotary *r, int64_t j)
{
    const double usual = pow(r->theta, -(double)j / (double)r->half);
    double kept = 1.0; /* the part p of the usual frequency */
    if (r->kind == ZR_ROTARY_LINEAR) kept = 0.0;
    if (r->kind == ZR_ROTARY_LLAMA3) {
        const double turns = r->original * usual / 6.283185307179586476925;
        kept = (turns - r->low) / (r->high - r->low);
    }
    if (r->kind == ZR_ROTARY_YARN) kept = (r->high - (double)j) / (r->high - r->low);
    kept = kept < 0.0 ? 0.0 : kept > 1.0 ? 1.0 : kept;
    return kept == 1.0 ? usual : (1.0 - kept) * (usual / r->factor) + kept * usual;
}

/* ---- angles of a table ------------------------------------------------------------------------- */

/** Number of positions of a stretch. The angle of a table's row is the sum of two angles: of the first position of the
 * row's stretch, and of the row's offset in the stretch. Sines and cosines are computed in double, only for offsets and
 * stretches, and rows follow from the addition theorem. */
#define ZR__ROTARY_STRETCH 64

/** Cosines and sines of angles in double: rows for the offsets, then rows for the stretches. A row has `half` cosines
 * and then `half` sines. */
typedef struct zr__rotary_angles {
    int64_t offsets, rows; /* number of rows for offsets, and of all rows */
    int64_t stretch;       /* first stretch: stretch k begins at position k * ZR__ROTARY_STRETCH */
} zr__rotary_angles;

static inline ZR__ANYWHERE zr__rotary_angles zr__rotary_angles_of(int64_t first, int64_t T)
{
    zr__rotary_angles a;
    a.offsets = T < ZR__ROTARY_STRETCH ? T : ZR__ROTARY_STRETCH;
    a.stretch = first / ZR__ROTARY_STRETCH;
    a.rows = a.offsets + (first + T - 1) / ZR__ROTARY_STRETCH - a.stretch + 1;
    return a;
}

/** Return the largest number of rows of angles for a table of T rows. Its first row may be inside a stretch. */
static inline int64_t zr__rotary_angles_most(int64_t T)
{
    return (T < ZR__ROTARY_STRETCH ? T : ZR__ROTARY_STRETCH) + (T - 1) / ZR__ROTARY_STRETCH + 2;
}

/** Return the position whose angles are in row i. The table begins at position `first`. */
static inline ZR__ANYWHERE int64_t zr__rotary_angle_position(const zr__rotary_angles *a, int64_t first, int64_t i)
{
    return i < a->offsets ? (first + i) % ZR__ROTARY_STRETCH : (a->stretch + i - a->offsets) * ZR__ROTARY_STRETCH;
}

/** Return the row of angles of the stretch of table row t. The row of its offset is t % ZR__ROTARY_STRETCH. */
static inline ZR__ANYWHERE int64_t zr__rotary_stretch_row(const zr__rotary_angles *a, int64_t first, int64_t t)
{
    return a->offsets + (first + t) / ZR__ROTARY_STRETCH - a->stretch;
}

/* ---- rotary ------------------------------------------------------------------------------------ */

/** Sizes of the op rotary. Token r of the operand x uses row (row + r) % T of the table, or with documents the row (row
 * + r) % T - documents[row + r]. */
typedef struct zr__rotation {
    int64_t tokens, heads, half; /* half: number of pairs of elements in a head, D/2 */
    int64_t T, row;
    const int32_t *documents; /* beginnings of the documents of the micro-batch, or NULL */
    float sign;               /* factor of the sines: 1, or -1 for the inverse rotation */
} zr__rotation;

/** Return the row of the table for token t of x. */
static inline ZR__ANYWHERE int64_t zr__rotation_row(const zr__rotation *r, int64_t t)
{
    return (r->row + t) % r->T - (r->documents ? r->documents[r->row + t] : 0);
}

static inline zr__rotation zr__rotation_of(const zr_kernel_args *args)
{
    const zr_shape *x = &args->in[0].shape, *table = &args->in[1].shape;
    const zr_op_attr *attr = &args->op->attr;
    const int64_t tokens = zr_shape_rows(x), D = table->dim[1];
    const zr__rotation r = {tokens,
                            zr_shape_cols(x) / D,
                            D / 2,
                            table->dim[0],
                            attr->i[1] ? args->runtime->place * tokens : 0,
                            args->n_in > 2 ? (const int32_t *)args->in[2].data : NULL,
                            attr->i[0] ? -1.0f : 1.0f};
    return r;
}

#endif
