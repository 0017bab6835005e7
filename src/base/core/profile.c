/*
 * Look-ups in a machine's profile: scratch memory of an op, speed of a matrix product, speed of a link.
 */
#include "base/core/core.h"
#include "zr/base.h"

#include <math.h>

int64_t zr__device_facts_scratch(const zr_device_facts *facts, const struct zr_graph *graph, const struct zr_op *op)
{
    return facts->scratch_bytes ? facts->scratch_bytes(facts, graph, op) : 0;
}

bool zr__device_facts_same(const zr_device_facts *a, const zr_device_facts *b)
{
    return a->threads == b->threads && a->bf16_products == b->bf16_products && a->tiles == b->tiles &&
           a->panel_bytes == b->panel_bytes && a->kernels == b->kernels && a->scratch_bytes == b->scratch_bytes;
}

zr_product_sizes zr__product_sizes_of(int64_t m, int64_t n, int64_t k)
{
    int64_t low = m < n ? m : n, high = m < n ? n : m;
    if (k <= low) return (zr_product_sizes){{k, low, high}};
    return k < high ? (zr_product_sizes){{low, k, high}} : (zr_product_sizes){{low, high, k}};
}

/* Return the distance between two products' sizes: the sum of |ln(ratio)| over the three sizes. Equal sizes have
 * distance 0. */
static double distance(zr_product_sizes a, zr_product_sizes b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += fabs(log((double)a.size[i] / (double)b.size[i]));
    return sum;
}

double zr__machine_flops(const zr_machine *machine, bool bf16, zr_product_sizes sizes)
{
    double flops = bf16 ? machine->flops_bf16 : machine->flops_f32, nearest = INFINITY;
    for (int i = 0; i < machine->n_products && sizes.size[0] > 0; i++) {
        const zr_product_rate *product = &machine->product[i];
        double apart = distance(sizes, product->sizes);
        if (product->bf16 != bf16 || apart >= nearest) continue;
        nearest = apart;
        flops = product->flops;
    }
    return flops;
}

zr_link zr__machine_link(const zr_machine *machine)
{
    for (int level = ZR_LINK_LEVELS - 1; level > ZR_LINK_PROCESS; level--)
        if (machine->link[level].bytes_sec > 0) return machine->link[level];
    return machine->link[ZR_LINK_PROCESS];
}
