#include "device/device.h"

#include <string.h>

/* Maximum number of elements of an operand. It is more than the memory of any machine can hold, and small enough that
 * index computations in kernels cannot overflow an int64_t. */
#define COUNTED_ELEMS_MAX ((int64_t)1 << 48)

void zr_device_destroy(zr_device **device)
{
    if (!*device) return;
    (*device)->ops->destroy(*device);
    *device = NULL;
}

static bool can_cast(zr_dtype dtype)
{
    return zr_dtype_is_float(dtype) || zr_dtype_is_record(dtype);
}

zr_status zr__check_cast(zr_dtype out_dtype, zr_dtype dtype, const zr_casting *casting)
{
    ZR_CHECK(out_dtype == dtype || (can_cast(out_dtype) && can_cast(dtype)), ZR_ERR_DTYPE,
             "cannot cast %s to %s; wanted F32, BF16, F16 or a type with records", zr_dtype_name(dtype),
             zr_dtype_name(out_dtype));
    if (!casting) return ZR_OK;
    ZR_CHECK((!casting->rounding && !casting->feedback) || (out_dtype != dtype && zr_dtype_is_record(out_dtype)),
             ZR_ERR_ARG, "a cast of %s to %s cannot round at random or keep errors, only a cast that makes records",
             zr_dtype_name(dtype), zr_dtype_name(out_dtype));
    ZR_CHECK(!casting->added || zr_dtype_is_record(out_dtype) != zr_dtype_is_record(dtype), ZR_ERR_ARG,
             "a cast of %s to %s cannot add an array, only a cast that makes records or reads them",
             zr_dtype_name(dtype), zr_dtype_name(out_dtype));
    ZR_CHECK(!casting->added || zr_dtype_is_float(casting->added_dtype), ZR_ERR_DTYPE,
             "a cast cannot add an array of %s; wanted F32, BF16 or F16", zr_dtype_name(casting->added_dtype));
    return ZR_OK;
}

const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op)
{
    for (; list && list->op; list++)
        if (strcmp(list->op, op) == 0) return list;
    return NULL;
}

const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op)
{
    const zr_kernel *found = zr__kernel_find(user, op);
    for (; !found && *family; family++) found = zr__kernel_find(*family, op);
    return found;
}

static bool are_counted(const zr_graph *graph, const zr_value *value, int n)
{
    for (int i = 0; i < n; i++)
        if (value[i] != ZR_NONE && zr_shape_elems(&zr_graph_value(graph, value[i])->type.shape) > COUNTED_ELEMS_MAX)
            return false;
    return true;
}

bool zr__op_is_counted(const zr_graph *graph, const zr_op *op)
{
    return are_counted(graph, op->in, op->n_in) && are_counted(graph, op->out, op->n_out);
}
