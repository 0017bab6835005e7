/* rotary_table, the cosines and sines of a rotary embedding, and rotary, the rotation of heads. */
#include "device/cuda/launch.h"
#include "device/rotary.h"

namespace
{

/* ---- rotary_table ------------------------------------------------------------------------------ */

/* Cosine and sine of pair i % half at the position of row i / half of the angles. */
struct angles_each {
    double *angles;
    zr__rotary rule;
    zr__rotary_angles a;

    template <int V> __device__ void run(int64_t i) const
    {
        for (int v = 0; v < V; v++) {
            const int64_t r = (i + v) / rule.half, j = (i + v) % rule.half;
            const int64_t position = zr__rotary_angle_position(&a, rule.first, r);
            const double angle = (double)position * zr__rotary_frequency(&rule, j);
            double *row = angles + r * 2 * rule.half;
            row[j] = cos(angle);
            row[rule.half + j] = sin(angle);
        }
    }
};

/* Cosine and sine of pair i % half at the table's row i / half, of the sum of two angles. A difference of two products
 * may be much smaller than they are, so it is computed in double, as the processor does. */
struct table_each {
    float *table;
    const double *angles;
    zr__rotary rule;
    zr__rotary_angles a;

    template <int V> __device__ void run(int64_t i) const
    {
        for (int v = 0; v < V; v++) {
            const int64_t t = (i + v) / rule.half, j = (i + v) % rule.half;
            const double *ca = angles + zr__rotary_stretch_row(&a, rule.first, t) * 2 * rule.half + j,
                         *cb = angles + t % ZR__ROTARY_STRETCH * 2 * rule.half + j;
            const double sa = ca[rule.half], sb = cb[rule.half];
            float *row = table + t * 2 * rule.half;
            row[j] = (float)(rule.enlarge * (*ca * *cb - sa * sb));
            row[rule.half + j] = (float)(rule.enlarge * (sa * *cb + *ca * sb));
        }
    }
};

zr_status run_table(const zr_kernel_args *args)
{
    const zr_tensor *out = &args->out[0];
    const zr__rotary rule = zr__rotary_of(args, out->shape.dim[0]);
    const zr__rotary_angles a = zr__rotary_angles_of(rule.first, out->shape.dim[0]);
    double *angles = (double *)args->scratch;
    ZR_TRY(zr__each(zr__stream_of(args), a.rows * rule.half, false, angles_each{angles, rule, a}));
    const table_each each = {(float *)out->data, angles, rule, a};
    return zr__each(zr__stream_of(args), zr_shape_elems(&out->shape) / 2, false, each);
}

/* ---- rotary ------------------------------------------------------------------------------------ */

/* Rotation of the pairs from i on, which all belong to one head. I is the integer type for divisions of indices: with
 * 32 bits they are several times faster than with 64. */
template <typename I> struct rotate_each {
    zr__array y, x;
    const float *table;
    zr__rotation r;

    template <int V> __device__ void run(int64_t i) const
    {
        const I head = (I)i / (I)r.half, j = (I)i % (I)r.half, token = head / (I)r.heads;
        const int64_t begin = r.documents ? r.documents[r.row + (int64_t)token] : 0;
        const int64_t row = ((int64_t)((I)(r.row % r.T + token) % (I)r.T) - begin) * 2 * r.half;
        const int64_t first = (int64_t)head * 2 * r.half + j, second = first + r.half;
        float a[V], b[V], c[V], s[V];
        zr__get_all<V>(a, x, first);
        zr__get_all<V>(b, x, second);
        zr__get_all<V>(c, table, row + j);
        zr__get_all<V>(s, table, row + r.half + j);
        for (int v = 0; v < V; v++) {
            const float was = a[v], sine = r.sign * s[v];
            a[v] = fmaf(was, c[v], -(b[v] * sine));
            b[v] = fmaf(b[v], c[v], was * sine);
        }
        zr__put_all<V>(y, first, a);
        zr__put_all<V>(y, second, b);
    }
};

template <typename I> zr_status rotate(const zr_kernel_args *args, const zr__rotation &r)
{
    const rotate_each<I> each = {zr__array_of(&args->out[0]), zr__array_of(&args->in[0]),
                                 (const float *)args->in[1].data, r};
    const bool packed = r.half % ZR__PACK == 0 && zr__are_aligned(each.y, each.x, each.table);
    return zr__each(zr__stream_of(args), r.tokens * r.heads * r.half, packed, each);
}

zr_status run_rotary(const zr_kernel_args *args)
{
    const zr__rotation r = zr__rotation_of(args);
    const bool narrow = r.tokens * r.heads * r.half + r.T <= INT32_MAX;
    return narrow ? rotate<uint32_t>(args, r) : rotate<int64_t>(args, r);
}

} // namespace

ZR_CUDA_KERNELS(rotary) = {
    zr__kernel("rotary_table", run_table),
    zr__kernel("rotary", run_rotary),
    {},
};
