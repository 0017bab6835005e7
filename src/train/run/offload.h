/** Offloaded model states of a run. */
#ifndef ZR_TRAIN_RUN_OFFLOAD_H
#define ZR_TRAIN_RUN_OFFLOAD_H

#include "train/run/run.h"

/** Create the run's engine: allocate its memory and, if states are on disk, reserve their bytes in the folders that the
 * configuration names. Collective. Errors: ZR_ERR_CREATE for a folder, and the errors of zr_engine_create_on. */
ZR_NODISCARD zr_status zr__run_create_engine(zr__run *r);

/** Report where offloaded states are stored and the disk traffic that this costs, or report that an offload has no
 * effect on this device. */
void zr__run_tell_offload(const zr__run *r);

#endif
