/** Trained weights as a Hugging Face directory, written by all ranks at once. */
#ifndef ZR_TRAIN_EXPORT_H
#define ZR_TRAIN_EXPORT_H

#include "zr/train.h"

/** Write `dir` (made here): config.json, model.safetensors. Each rank writes the ranges that it owns into one
 *  file, which gets its name only when all of it is on the disk; on failure nothing is left. All ranks return the same.
 *  Collective. */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr_gpt2_config *model, const zr_plan *plan, zr_engine *engine,
                                  zr_comm *comm);

#endif
