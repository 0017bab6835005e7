/** Types of an op's operands and outputs, for the scratch functions of kernels. */
#ifndef ZR_DEVICE_CPU_SCRATCH_H
#define ZR_DEVICE_CPU_SCRATCH_H

#include "zr/graph.h"

static inline const zr_type *zr__in_type(const zr_graph *graph, const zr_op *op, int i)
{
    return &zr_graph_value(graph, op->in[i])->type;
}

static inline const zr_type *zr__out_type(const zr_graph *graph, const zr_op *op, int i)
{
    return &zr_graph_value(graph, op->out[i])->type;
}

#endif
