/* Measurement of a GPU's rates: memory bandwidth by a copy within the GPU's memory, and FLOP/s by a product of two
 * large matrices. */
#include "device/cuda/cuda.h"

#include <stdio.h>

enum { RUNS = 8 };
#define COPY_BYTES ((int64_t)256 << 20)
/* First and last edge of the matrices in timed products. The edge is doubled from product to product, until the last
 * edge, or until a product takes LONG_SEC. */
enum { FIRST_EDGE = 128, LAST_EDGE = 8192 };
#define LONG_SEC 1e-3
#define SCRATCH_BYTES ((int64_t)64 << 20) /* bytes of scratch, more than any product here needs */

/* Measure the seconds that the fastest of several runs takes, after a run that warms up. `run` may return before its
 * work is complete. */
static zr_status fastest(zr_device *device, zr_status (*run)(void *arg), void *arg, double *sec)
{
    *sec = 0;
    for (int i = 0; i <= RUNS; i++) {
        const double begin = zr_clock_sec();
        ZR_TRY(run(arg));
        ZR_TRY(device->ops->finish(device));
        const double took = zr_clock_sec() - begin;
        if (i == 1 || (i > 1 && took < *sec)) *sec = took;
    }
    return ZR_OK;
}

/* ---- memory ------------------------------------------------------------------------------------ */

typedef struct halves {
    zr_device *device;
    char *memory;
} halves;

static zr_status copy_half(void *arg)
{
    const halves *h = arg;
    return h->device->ops->copy(h->device, h->memory + COPY_BYTES, h->memory, COPY_BYTES);
}

/* Measure the bytes/s that copies within the GPU's memory read and write. */
static zr_status copy_rate(zr_device *device, double *bytes_sec)
{
    void *memory;
    double sec;
    ZR_TRY(device->ops->alloc(device, 2 * COPY_BYTES, &memory));
    halves h = {device, memory};
    zr_status st = fastest(device, copy_half, &h, &sec);
    device->ops->free(device, memory);
    ZR_TRY(st);
    *bytes_sec = 2 * (double)COPY_BYTES / sec;
    return ZR_OK;
}

/* ---- products ---------------------------------------------------------------------------------- */

typedef struct product {
    const zr_kernel *kernel;
    zr_kernel_args args;
} product;

static zr_status multiply_once(void *arg)
{
    const product *p = arg;
    return p->kernel->run(&p->args);
}

/* Measure the seconds of a product. `memory` has three matrices and the kernel's scratch. */
static zr_status time_product(zr_device *device, zr_dtype dtype, int64_t edge, char *memory, double *took)
{
    const int64_t bytes = edge * edge * zr_dtype_bytes(dtype);
    const zr_op_def def = {.name = "linear", .n_out = 1};
    const zr_op op = {.def = &def, .n_in = 2, .n_out = 1, .in = {0, 1, ZR_NONE}, .out = {2}};
    const zr_shape square = {2, {edge, edge}};
    zr_tensor tensor[] = {
        {memory, dtype, square}, {memory + bytes, dtype, square}, {memory + 2 * bytes, dtype, square}};
    static const zr_runtime runtime = {0};
    product p = {.kernel = device->ops->kernel(device, "linear")};
    p.args = (zr_kernel_args){.device = device,
                              .op = &op,
                              .n_in = 2,
                              .n_out = 1,
                              .in = tensor,
                              .out = tensor + 2,
                              .scratch = memory + 3 * bytes,
                              .runtime = &runtime,
                              .threads = 1};
    if (p.kernel->prepare) ZR_TRY(p.kernel->prepare(&p.args, &p.args.state));
    zr_status st = fastest(device, multiply_once, &p, took);
    if (p.kernel->release) p.kernel->release(p.args.state);
    return st;
}

/* Fill both operands with normal random numbers. With zeros or NaNs, a chip whose clock depends on its load could run
 * at another rate. For 16-bit operands, fp32 random numbers are computed in the memory of the second and third matrix,
 * and then rounded. */
static zr_status fill_operands(zr_device *device, zr_dtype dtype, int64_t edge, char *memory)
{
    const int64_t n = edge * edge, bytes = n * zr_dtype_bytes(dtype);
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
    char *wide = dtype == ZR_F32 ? memory : memory + bytes;
    device->ops->normal(device, &rng, 0, n, 0.02f, (float *)wide);
    if (dtype != ZR_F32) ZR_TRY(device->ops->cast(device, memory, dtype, wide, ZR_F32, n, NULL));
    ZR_TRY(device->ops->copy(device, memory + bytes, memory, bytes));
    return ZR_OK;
}

/* Measure the FLOP/s of products. Return 0 without failing if they cannot be measured, since the rates are only
 * information for the user. */
static double product_rate(zr_device *device, zr_dtype dtype)
{
    double best = 0, sec = 0;
    for (int64_t edge = FIRST_EDGE; edge <= LAST_EDGE && sec < LONG_SEC; edge *= 2) {
        const int64_t bytes = 3 * edge * edge * zr_dtype_bytes(dtype) + SCRATCH_BYTES;
        void *memory;
        if (device->ops->alloc(device, bytes, &memory) != ZR_OK) return best;
        zr_status st = fill_operands(device, dtype, edge, memory);
        if (st == ZR_OK) st = time_product(device, dtype, edge, memory, &sec);
        device->ops->free(device, memory);
        if (st != ZR_OK) return best;
        const double flops = 2.0 * (double)edge * (double)edge * (double)edge / sec;
        if (flops > best) best = flops;
    }
    return best;
}

void zr__cuda_measure(zr_device *device, zr_dtype dtype)
{
    zr_machine *machine = &device->profile.machine;
    *(dtype == ZR_F32 ? &machine->flops_f32 : &machine->flops_bf16) = product_rate(device, dtype);
}

zr_status zr__cuda_bench(zr_device *device, zr_rates *rates)
{
    double rate = 0;
    *rates = (zr_rates){.threads = 1, .n_levels = 1};
    zr_peak *peak = &rates->peak;
    snprintf(peak->level, sizeof peak->level, "%s", ZR_CUDA_LEVEL);
    ZR_TRY(copy_rate(device, &rate));
    rates->triad = rates->link = (zr_rate){rate, rate};
    rates->matmul_f32 = product_rate(device, ZR_F32);
    rates->matmul_bf16 = product_rate(device, ZR_BF16);
    peak->fma_f32 = (zr_rate){rates->matmul_f32, rates->matmul_f32};
    peak->dot_bf16 = (zr_rate){rates->matmul_bf16, rates->matmul_bf16};
    rates->level[0] = *peak;
    return ZR_OK;
}
