/** Where the ranks of a training run are, and a watch over them: one thread of a process looks at their boards
 *  (zr_comm_look) from time to time, and nothing is asked of who works but to show where it is. */
#ifndef ZR_TRAIN_HANG_H
#define ZR_TRAIN_HANG_H

#include "zr/train.h"

/** Parts of a run, each with a limit of its own. */
typedef enum zr__phase {
    ZR__PHASE_START,
    ZR__PHASE_TRAIN,
    ZR__PHASE_TRAIN_AND_SAVE, /* updates wait for the disk */
    ZR__PHASE_EVALUATE,
    ZR__PHASE_SAVE,
    ZR__PHASE_END,
    ZR__PHASES
} zr__phase;

/** "start" ... as zr_observer.reached has it. */
const char *zr__phase_name(zr__phase phase);

/** What the board of a rank shows of its run: the phase, and steps done. */
enum { ZR__PHASE_SHOWN = ZR_ENGINE_SHOWN + 2 };
uint64_t zr__phase_shown(zr__phase phase, int64_t steps);

typedef struct zr__hang zr__hang;

/** Begin to watch. *hang stays NULL where the observer has no `hang`, and on thread ranks that rank 0 watches. */
ZR_NODISCARD zr_status zr__hang_create(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                       zr__hang **hang);
/** All is at its end. The other functions take a NULL too. */
void zr__hang_destroy(zr__hang **hang);

/** The names of its steps are known from here on; it must outlive the watch. */
void zr__hang_plan(zr__hang *hang, const zr_plan *plan);
/** A training step took so long; the limit follows with "auto". */
void zr__hang_took(zr__hang *hang, double sec);

/** The limits, for people; "" where nobody watches, or where they are those of "auto". */
#define ZR__LIMITS_BYTES 160
const char *zr__hang_limits(zr__hang *hang, char text[ZR__LIMITS_BYTES]);

#endif
