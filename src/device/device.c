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

zr_status zr__check_rounding(zr_dtype out_dtype, zr_dtype dtype, const zr_rounding *rounding)
{
    ZR_CHECK(!rounding || (zr_dtype_is_record(out_dtype) && out_dtype != dtype), ZR_ERR_DTYPE,
             "a cast of %s to %s cannot be rounded at random, only a cast to a type with records", zr_dtype_name(dtype),
             zr_dtype_name(out_dtype));
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
