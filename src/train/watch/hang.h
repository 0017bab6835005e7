/** Detection of hung ranks in a training run: one thread of a process reads the ranks' boards (zr__comm_look) from time
 * to time, and working ranks only have to show where they are. */
#ifndef ZR_TRAIN_HANG_H
#define ZR_TRAIN_HANG_H

#include "engine/engine.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"

/** Phases of a run, each with a time limit of its own. */
typedef enum zr__phase {
    ZR__PHASE_START,
    ZR__PHASE_TRAIN,
    ZR__PHASE_TRAIN_AND_SAVE, /* updates wait for the disk */
    ZR__PHASE_EVALUATE,
    ZR__PHASE_SAVE,
    ZR__PHASE_END,
    ZR__PHASES
} zr__phase;

/** Return the name of a phase, "start" ..., as zr_observer.reached gets it. */
const char *zr__phase_name(zr__phase phase);

/** Place on a rank's board of a number with its phase and steps done, which zr__phase_shown makes. */
enum { ZR__PHASE_SHOWN = ZR_ENGINE_SHOWN + 2 };
uint64_t zr__phase_shown(zr__phase phase, int64_t steps);

typedef struct zr__hang zr__hang;

/** Begin to watch. *hang becomes NULL if the observer has no `hang`, and on thread ranks that rank 0 watches. */
ZR_NODISCARD zr_status zr__hang_create(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                       zr__hang **hang);
/** Stop the watch. This function and those below accept a NULL hang. */
void zr__hang_destroy(zr__hang **hang);

/** Set the plan, whose steps messages name from now on; it must outlive the watch. */
void zr__hang_plan(zr__hang *hang, const zr_plan *plan);
/** Record the seconds of a training step, which determine the limit with "auto". */
void zr__hang_took(zr__hang *hang, double sec);

/** Describe the limits, for people to read; "" if this rank does not watch, or with "auto". */
#define ZR__LIMITS_BYTES 160
const char *zr__hang_limits(zr__hang *hang, char text[ZR__LIMITS_BYTES]);

#endif
