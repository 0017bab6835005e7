/* rotary_table, the cosines and sines of a rotary embedding, and rotary, the rotation of heads. */
#include "device/rotary.h"

#include "device/cpu/shared/rows.h"
#include "device/operands.h"

/* ---- rotary_table ---------------------------------------------------------------------------- */

/* Compute the cosines, and then the sines, of `position` times each frequency. */
static void angle_row(double *row, const double *frequency, int64_t half, int64_t position)
{
    for (int64_t j = 0; j < half; j++) {
        const double angle = (double)position * frequency[j];
        row[j] = cos(angle);
        row[half + j] = sin(angle);
    }
}

/* Compute a row of the table from the row of its stretch and the row of its offset. */
static void table_row(float *out, const double *stretch, const double *offset, int64_t half, double enlarge)
{
    const double *ca = stretch, *sa = stretch + half, *cb = offset, *sb = offset + half;
    float *c = out, *s = out + half;
    ZR_WIDE_LOOP
    for (int64_t j = 0; j < half; j++) {
        c[j] = (float)(enlarge * (ca[j] * cb[j] - sa[j] * sb[j]));
        s[j] = (float)(enlarge * (sa[j] * cb[j] + ca[j] * sb[j]));
    }
}

static zr_status rotary_table(const zr_kernel_args *args)
{
    float *out = args->out[0].data;
    const int64_t T = args->out[0].shape.dim[0], D = args->out[0].shape.dim[1];
    const zr__rotary rule = zr__rotary_of(args, T);
    const zr__rotary_angles a = zr__rotary_angles_of(rule.first, T);
    double *frequency = args->scratch, *angles = frequency + rule.half;
    for (int64_t j = 0; j < rule.half; j++) frequency[j] = zr__rotary_frequency(&rule, j);
#pragma omp parallel num_threads(zr__team(args, T *D))
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a.rows; i++)
            angle_row(angles + i * D, frequency, rule.half, zr__rotary_angle_position(&a, rule.first, i));
#pragma omp for schedule(static)
        for (int64_t t = 0; t < T; t++)
            table_row(out + t * D, angles + zr__rotary_stretch_row(&a, rule.first, t) * D,
                      angles + t % ZR__ROTARY_STRETCH * D, rule.half, rule.enlarge);
    }
    return ZR_OK;
}

/* Return the scratch bytes: the frequencies and the angles. */
static int64_t table_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    (void)facts;
    const int64_t *table = zr__out_type(graph, op, 0)->shape.dim;
    return (int64_t)sizeof(double) * (table[1] / 2 + zr__rotary_angles_most(table[0]) * table[1]);
}

/* ---- rotary ---------------------------------------------------------------------------------- */

/* Rotate n pairs. Their first elements are at x, and their second elements at x + apart. The results have the same
 * layout in y, which may share the memory of x. */
static void rotate_pairs(float *y, const float *x, int64_t apart, const float *c, const float *s, float sign, int64_t n)
{
    float *y2 = y + apart;
    const float *x2 = x + apart;
    ZR_STREAM_LOOP
    for (int64_t j = 0; j < n; j++) {
        const float a = x[j], b = x2[j], sine = sign * s[j];
        y[j] = ZR_FMA(a, c[j], -(b * sine));
        y2[j] = ZR_FMA(b, c[j], a * sine);
    }
}

/* Rotate n whole heads of a token, which begin at element `first`. Together they have at most ZR_CHUNK elements. */
static void rotate_heads(const zr_kernel_args *args, const zr__rotation *r, int64_t first, int64_t n, const float *row)
{
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t D = 2 * r->half;
    float xbuf[ZR_CHUNK], ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, first);
    const float *v = zr__view(xbuf, x->data, x->dtype, first, n * D);
    for (int64_t h = 0; h < n; h++) rotate_pairs(y + h * D, v + h * D, r->half, row, row + r->half, r->sign, r->half);
    zr__settle(out->data, out->dtype, first, y, n * D);
}

/* Rotate one head that has more than ZR_CHUNK elements and begins at element `first`. */
static void rotate_long_head(const zr_kernel_args *args, const zr__rotation *r, int64_t first, const float *row)
{
    enum { PAIRS = ZR_CHUNK / 2 };
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    for (int64_t j = 0; j < r->half; j += PAIRS) {
        const int64_t n = zr__min64(PAIRS, r->half - j), second = first + r->half + j;
        float v[ZR_CHUNK];
        zr__load(v, x->data, x->dtype, first + j, n);
        zr__load(v + PAIRS, x->data, x->dtype, second, n);
        rotate_pairs(v, v, PAIRS, row + j, row + r->half + j, r->sign, n);
        zr__store(out->data, out->dtype, first + j, v, n);
        zr__store(out->data, out->dtype, second, v + PAIRS, n);
    }
}

static zr_status rotary(const zr_kernel_args *args)
{
    const zr__rotation r = zr__rotation_of(args);
    const float *table = args->in[1].data;
    const int64_t D = 2 * r.half, fit = ZR_CHUNK / D;
#pragma omp parallel for num_threads(zr__team(args, r.tokens *r.heads *D)) schedule(static)
    for (int64_t t = 0; t < r.tokens; t++) {
        const float *row = table + zr__rotation_row(&r, t) * D;
        const int64_t first = t * r.heads * D;
        for (int64_t h = 0; h < r.heads; h += fit ? fit : 1)
            if (fit)
                rotate_heads(args, &r, first + h * D, zr__min64(fit, r.heads - h), row);
            else
                rotate_long_head(args, &r, first + h * D, row);
    }
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_rotary)[] = {
    {"rotary_table", .run = rotary_table, .scratch_bytes = table_scratch},
    {"rotary", .run = rotary},
    {0},
};
