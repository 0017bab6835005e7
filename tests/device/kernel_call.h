/* Runs one kernel of a device without a graph: prepare, run and release, with plain arrays. The kernel gets copies of
 * the arrays, so that no access beyond them is missed: fences around host memory, guards in memory of a device. */
#ifndef ZR_TESTS_KERNEL_CALL_H
#define ZR_TESTS_KERNEL_CALL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/core/core.h"
#include "fence.h"
#include "graph/internal.h"
#include "zr/device.h"
#include "zr/graph.h"

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

/* Return the tensor that stands for an absent optional operand. */
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
    bool direct; /* whether the kernel gets the arrays themselves, which are the device's */
} kernel_call;

/* ---- copies of arrays ---------------------------------------------------------------------------- */

/* A copy of a host array. In memory of a device, it has guards on both sides, and is misaligned like the host's array
 * relative to 64 bytes. */
typedef struct kernel_copy {
    void *host;
    int64_t bytes;
    unsigned char *device, *base;
    fence fence; /* if the device's memory is the host's */
} kernel_copy;

enum { KERNEL_GUARD = 64, KERNEL_COPIES = ZR_OP_INS + ZR_OP_OUTS };

static inline int64_t kernel_copy_bytes(const kernel_copy *c)
{
    return c->bytes + 4 * KERNEL_GUARD;
}

/* Copy a host array to a fence. Arrays at odd addresses get odd copies, of whatever size. */
static inline void kernel_put_host(kernel_copy *c)
{
    const bool odd = (uintptr_t)c->host % KERNEL_GUARD != 0 && c->bytes % KERNEL_GUARD == 0;
    c->fence = fence_new(c->bytes, odd ? (int64_t)sizeof(float) : 0, 1);
    c->device = c->fence.memory;
    memcpy(c->device, c->host, (size_t)c->bytes);
}

/* Copy a host array to the device and return the copy. An array that was copied before, such as a result in place of an
 * operand, gets the earlier copy. */
static inline void *kernel_put(zr_device *device, kernel_copy *copies, int *n, void *host, int64_t bytes)
{
    void *memory = NULL;
    if (!host) return NULL;
    for (int i = 0; i < *n; i++)
        if (copies[i].host == host) return copies[i].device;
    kernel_copy *c = &copies[(*n)++];
    *c = (kernel_copy){.host = host, .bytes = bytes};
    if (!device->profile.facts.own_memory) {
        kernel_put_host(c);
        return c->device;
    }
    assert_int_equal(device->ops->alloc(device, kernel_copy_bytes(c), &memory), ZR_OK);
    c->base = memory;
    c->device = c->base + KERNEL_GUARD + (uintptr_t)host % KERNEL_GUARD;
    assert_int_equal(device->ops->fill(device, c->base, 0xa5, kernel_copy_bytes(c)), ZR_OK);
    assert_int_equal(device->ops->copy(device, c->device, host, bytes), ZR_OK);
    return c->device;
}

/* Copy a result back from a fence. Operands are not written, since other threads may use them as well. */
static inline void kernel_take_host(kernel_copy *c)
{
    const size_t bytes = (size_t)c->bytes;
    if (memcmp(c->host, c->device, bytes) != 0) memcpy(c->host, c->device, bytes);
    fence_free(&c->fence);
}

/* Copy a result back to the host's array and check that the guards around the copy are intact. */
static inline void kernel_take(zr_device *device, kernel_copy *c)
{
    if (!device->profile.facts.own_memory) {
        kernel_take_host(c);
        return;
    }
    const int64_t bytes = kernel_copy_bytes(c), first = c->device - c->base;
    void *memory = NULL;
    assert_int_equal(device->ops->alloc_host(device, bytes, &memory), ZR_OK);
    const unsigned char *all = memory;
    assert_int_equal(device->ops->copy(device, memory, c->base, bytes), ZR_OK);
    for (int64_t i = 0; i < first; i++) assert_int_equal(all[i], 0xa5);
    for (int64_t i = first + c->bytes; i < bytes; i++) assert_int_equal(all[i], 0xa5);
    memcpy(c->host, all + first, (size_t)c->bytes);
    device->ops->free_host(device, memory);
    device->ops->free(device, c->base);
}

static inline int64_t kernel_tensor_bytes(const zr_tensor *t)
{
    return t->data ? zr_shape_elems(&t->shape) * zr_dtype_bytes(t->dtype) : 0;
}

/* Return the scratch bytes that the device's facts give for the call's operands. */
static inline int64_t kernel_scratch_bytes(const zr_device *device, const kernel_call *call, const zr_op *op)
{
    zr__value value[ZR_OP_INS + ZR_OP_OUTS] = {{.needed = false}};
    for (int i = 0; i < call->n_in; i++) value[i].info.type = (zr_type){call->in[i].dtype, call->in[i].shape};
    for (int i = 0; i < call->n_out; i++)
        value[call->n_in + i].info.type = (zr_type){call->out[i].dtype, call->out[i].shape};
    const zr_graph graph = {.value = value, .n_values = call->n_in + call->n_out};
    return zr__device_facts_scratch(&device->profile.facts, &graph, op);
}

/* Scratch of a kernel, filled with NaN, because no kernel may rely on zeros. */
typedef struct kernel_scratch {
    void *memory;
    int64_t bytes;
    fence fence; /* if the device's memory is the host's */
} kernel_scratch;

/* Allocate `bytes` of scratch and a guard. */
static inline kernel_scratch kernel_scratch_new(zr_device *device, int64_t bytes)
{
    kernel_scratch s = {.bytes = bytes};
    if (!device->profile.facts.own_memory) {
        s.fence = fence_new(bytes, 0, KERNEL_GUARD);
        s.memory = memset(s.fence.memory, 0xff, (size_t)bytes);
    } else if (bytes > 0) {
        assert_int_equal(device->ops->alloc(device, bytes + KERNEL_GUARD, &s.memory), ZR_OK);
        assert_int_equal(device->ops->fill(device, s.memory, 0xff, bytes + KERNEL_GUARD), ZR_OK);
    }
    return s;
}

/* Free scratch and check that the guard behind it is intact. */
static inline void kernel_scratch_free(zr_device *device, kernel_scratch *s)
{
    unsigned char guard[KERNEL_GUARD];
    fence_free(&s->fence);
    if (!device->profile.facts.own_memory || !s->memory) return;
    assert_int_equal(device->ops->copy(device, guard, (char *)s->memory + s->bytes, KERNEL_GUARD), ZR_OK);
    for (int i = 0; i < KERNEL_GUARD; i++) assert_int_equal(guard[i], 0xff);
    device->ops->free(device, s->memory);
}

/* ---- the call ---------------------------------------------------------------------------------- */

static inline zr_status kernel_run_there(const zr_kernel *kernel, zr_kernel_args *args)
{
    zr_status status = kernel->prepare ? kernel->prepare(args, &args->state) : ZR_OK;
    if (status != ZR_OK) return status;
    status = kernel->run(args);
    if (status == ZR_OK) status = args->device->ops->finish(args->device);
    if (kernel->release) kernel->release(args->state);
    return status;
}

static inline zr_status kernel_run(zr_device *device, const kernel_call *call)
{
    const bool apart = device->profile.facts.own_memory;
    const zr_op_def def = {.name = call->name, .n_out = call->n_out};
    zr_op op = {.def = &def, .attr = call->attr, .n_in = call->n_in, .n_out = call->n_out};
    for (int i = 0; i < call->n_in; i++) op.in[i] = call->in[i].data ? i : ZR_NONE;
    for (int i = 0; i < call->n_out; i++) op.out[i] = call->n_in + i;

    const zr_kernel *kernel = device->ops->kernel(device, call->name);
    if (!kernel) fail_msg("%s has no kernel \"%s\"", device->profile.facts.name, call->name);
    const int64_t bytes = apart ? kernel_scratch_bytes(device, call, &op) : call->scratch_bytes;
    kernel_scratch scratch = kernel_scratch_new(device, bytes);

    kernel_copy copies[KERNEL_COPIES];
    zr_tensor in[ZR_OP_INS], out[ZR_OP_OUTS];
    int n = 0;
    memcpy(in, call->in, sizeof in);
    memcpy(out, call->out, sizeof out);
    zr_kernel_args args = {.device = device,
                           .op = &op,
                           .n_in = call->n_in,
                           .n_out = call->n_out,
                           .in = in,
                           .out = out,
                           .scratch = scratch.memory,
                           .runtime = &call->runtime,
                           .threads = device->profile.facts.threads};
    for (int i = 0; !call->direct && i < call->n_in; i++)
        in[i].data = kernel_put(device, copies, &n, in[i].data, kernel_tensor_bytes(&in[i]));
    for (int i = 0; !call->direct && i < call->n_out; i++)
        out[i].data = kernel_put(device, copies, &n, out[i].data, kernel_tensor_bytes(&out[i]));
    const zr_status status = kernel_run_there(kernel, &args);
    kernel_scratch_free(device, &scratch);
    for (int i = 0; i < n; i++) kernel_take(device, &copies[i]);
    return status;
}

#endif
