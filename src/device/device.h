/* Look-up of kernels, and a check of an op's size, for devices of all kinds. */
#ifndef ZR_DEVICE_DEVICE_H
#define ZR_DEVICE_DEVICE_H

#include "zr/device.h"

/** Return the kernel of this op in a list ended by op NULL; NULL: the list, or the kernel in it, does not exist. */
const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op);
/** Search the user's list, then the families (NULL last). */
const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op);
/** Return whether the op's operands have few enough elements for the kernels' counters. */
bool zr__op_is_counted(const zr_graph *graph, const zr_op *op);

#endif
