/** The peak FLOP/s of a rank, the reference for mfu. */
#include "train/run/run.h"

#include "train/measure/measure.h"

/** Return the dtype whose peak rate is the reference for this rank's matrix products. For fp16 this is F32 on
 * processors, since they compute fp16 products in fp32. On GPUs it is BF16, since fp16 products are as fast as bf16
 * products. */
static zr_dtype rate_dtype(const zr__run *r)
{
    const zr_device_facts *facts = &r->device->profile.facts;
    const zr_dtype dtype = r->plan->layout.dtype;
    if (facts->own_memory) return dtype == ZR_F32 ? ZR_F32 : ZR_BF16;
    return dtype == ZR_BF16 && facts->bf16_products ? ZR_BF16 : ZR_F32;
}

double zr__run_peak_flops(const zr__run *r)
{
    const zr_machine *machine = &r->device->profile.machine;
    return rate_dtype(r) == ZR_BF16 ? machine->flops_bf16 : machine->flops_f32;
}

void zr__run_know_peak(zr__run *r)
{
    zr_rates rates;
    if (zr__rates_recall(&r->device->profile.facts, &rates) == ZR_OK)
        zr__rates_profile(&rates, rate_dtype(r), r->comm->size, r->comm->local_size, &r->device->profile);
    else
        r->device->ops->measure(r->device, rate_dtype(r));
    zr__disk_profile(r->comm->local_size, &r->device->profile);
}
