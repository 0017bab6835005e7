/** Loss over non-overlapping windows of a file, shared out over the ranks. */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "zr/data.h"
#include "zr/engine.h"

/** Mean loss over the first `windows` windows. Every rank makes the same number of calls; rows beyond the last
 *  window are padded with targets that count for nothing. Ranks' sums are added in rank order. A file that
 *  cannot be read fails on all ranks alike. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, zr_comm *comm, const zr_layout *layout, zr_data *data,
                                    int64_t windows, double *loss, int64_t *tokens);

#endif
