/*
 * Run one kernel of a device without a graph: prepare, run and release with plain arrays.
 */
#ifndef ZR_TESTS_KERNEL_CALL_H
#define ZR_TESTS_KERNEL_CALL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "zr/device.h"

static inline zr_tensor tensor1(void *data, zr_dtype dtype, int64_t n)
{
    return (zr_tensor){data, dtype, {1, {n}}};
}

static inline zr_tensor tensor2(void *data, zr_dtype dtype, int64_t rows, int64_t cols)
{
    return (zr_tensor){data, dtype, {2, {rows, cols}}};
}

static inline zr_tensor tensor3(void *data, zr_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    return (zr_tensor){data, dtype, {3, {a, b, c}}};
}

/* An optional operand that is not there. */
static inline zr_tensor tensor_absent(void)
{
    return (zr_tensor){NULL, ZR_F32, {0, {0}}};
}

typedef struct kernel_call {
    const char *name;
    zr_op_attr attr;
    int n_in, n_out;
    zr_tensor in[ZR_OP_INS], out[ZR_OP_OUTS];
    zr_runtime runtime;
    int64_t scratch_bytes;
} kernel_call;

static inline zr_status kernel_run(zr_device *device, const kernel_call *call)
{
    const zr_op_def def = {.name = call->name, .n_out = call->n_out};
    zr_op op = {.def = &def, .attr = call->attr, .n_in = call->n_in, .n_out = call->n_out};
    for (int i = 0; i < call->n_in; i++) op.in[i] = call->in[i].data ? i : ZR_NONE;
    for (int i = 0; i < call->n_out; i++) op.out[i] = call->n_in + i;

    const zr_kernel *kernel = device->ops->kernel(device, call->name);
    assert_non_null(kernel);
    void *scratch = zr_alloc((size_t)call->scratch_bytes + 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, (size_t)call->scratch_bytes + 64); /* NaN: nothing may count on zeros */
    zr_kernel_args args = {.op = &op,
                           .n_in = call->n_in,
                           .n_out = call->n_out,
                           .in = call->in,
                           .out = call->out,
                           .scratch = scratch,
                           .runtime = &call->runtime,
                           .threads = device->profile.facts.threads};
    zr_status status = kernel->prepare ? kernel->prepare(&args, &args.state) : ZR_OK;
    if (status == ZR_OK) {
        status = kernel->run(&args);
        if (kernel->release) kernel->release(args.state);
    }
    const unsigned char *end = (const unsigned char *)scratch + call->scratch_bytes;
    for (int i = 0; i < 64; i++) assert_int_equal(end[i], 0xff);
    zr_free(scratch);
    return status;
}

#endif
