/** graph, for the planner: Muon's factors, and the op of the step ORTHO, which no model uses (ops/orthogonalize.c). */
#ifndef ZR_GRAPH_GRAPH_H
#define ZR_GRAPH_GRAPH_H

#include "zr/graph.h"

/** Return the factor of the directions of a matrix with `outputs` rows and `inputs` columns. */
double zr__muon_factor(zr_muon_scale scale, int64_t outputs, int64_t inputs);

/** Add to a graph an input, a matrix (rows, cols) of the type ortho->dtype, and the op that makes it orthogonal.
 * `apart` is the distance of its rows in memory, in elements. Return the index of the op. */
int32_t zr__orthogonalize(zr_graph *graph, const zr_ortho *ortho, int64_t rows, int64_t cols, int64_t apart);

#endif
