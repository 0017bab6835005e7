/* A small graph that a test builds op by op. */
#ifndef GRAPH_NEW_H
#define GRAPH_NEW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/ops.h"
#include "zr/graph.h"
#include "zr/tensor.h"

enum { B = 2, T = 4, C = 6, V = 9 };

static const zr_init NORMAL = {ZR_INIT_NORMAL, 0.02};

#define SHAPE(n, ...) ((zr_shape){n, {__VA_ARGS__}})

static inline zr_graph *graph_new(zr_mode mode, zr_dtype dtype)
{
    bool decode = mode == ZR_MODE_DECODE;
    zr_graph_spec spec = {.mode = mode,
                          .batch = decode ? 1 : B,
                          .seq = decode ? 1 : T,
                          .cache_len = decode ? T : 0,
                          .dtype = dtype,
                          .grad_dtype = dtype};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_graph_unit(graph, "u");
    return graph;
}

#endif
