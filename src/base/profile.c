/*
 * Rates of matrix products by their sizes.
 */
#include <math.h>

#include "zr/base.h"

zr_product_sizes zr_product_sizes_of(int64_t m, int64_t n, int64_t k)
{
    int64_t low = m < n ? m : n, high = m < n ? n : m;
    if (k <= low) return (zr_product_sizes){{k, low, high}};
    return k < high ? (zr_product_sizes){{low, k, high}} : (zr_product_sizes){{low, high, k}};
}

/* How far apart in size: 0 for equal ones, 1 for one size that is e times the other's. */
static double distance(zr_product_sizes a, zr_product_sizes b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += fabs(log((double)a.size[i] / (double)b.size[i]));
    return sum;
}

double zr_profile_flops(const zr_profile *profile, bool bf16, zr_product_sizes sizes)
{
    double flops = bf16 ? profile->flops_bf16 : profile->flops_f32, nearest = INFINITY;
    for (int i = 0; i < profile->n_products && sizes.size[0] > 0; i++) {
        const zr_product_rate *product = &profile->product[i];
        double apart = distance(sizes, product->sizes);
        if (product->bf16 != bf16 || apart >= nearest) continue;
        nearest = apart;
        flops = product->flops;
    }
    return flops;
}
