/* What kinds of devices share. */
#ifndef ZR_DEVICE_DEVICE_H
#define ZR_DEVICE_DEVICE_H

#include "zr/device.h"

/** The kernel of this op in a list that op NULL ends; NULL: it has none, or there is no list. */
const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op);
/** In the user's list, then in the families (NULL last). */
const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op);
/** Have the op's operands so few elements that kernels can count with them? */
bool zr__op_is_counted(const zr_graph *graph, const zr_op *op);

#endif
