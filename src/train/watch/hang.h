/** Detection of hung ranks in a training run. Each rank publishes its progress on its board (zr_comm_board), which all
 * ranks of its host can read. In each process, one thread reads the boards regularly (zr__comm_look). */
#ifndef ZR_TRAIN_HANG_H
#define ZR_TRAIN_HANG_H

#include "engine/engine.h"
#include "zr/run.h"

/** Phases of a run. Each phase has its own time limit. */
typedef enum zr__phase {
    ZR__PHASE_START,
    ZR__PHASE_TRAIN,
    /* training steps during an asynchronous save that makes no copy; updates then wait for the disk */
    ZR__PHASE_TRAIN_AND_SAVE,
    ZR__PHASE_EVALUATE,
    ZR__PHASE_SAVE,
    ZR__PHASE_END,
    ZR__PHASES
} zr__phase;

/** Return the name of a phase, such as "start", which is passed to zr_observer.reached. */
const char *zr__phase_name(zr__phase phase);

/** Index in zr_comm_board.shown of the number that encodes the rank's phase and its completed steps (zr__phase_shown).
 */
enum { ZR__PHASE_SHOWN = ZR_ENGINE_SHOWN + 2 * ZR_SHOWN_THREADS };
uint64_t zr__phase_shown(zr__phase phase, int64_t steps);

/** Append `what` to a text, and a number unless it is negative. A signal handler may call this, since it does not use
 * the C library's formatting. */
void zr__hang_append(char *text, size_t size, const char *what, int64_t number);
/** Append to `text` where a rank is, as its board shows it: the phase, the step of the schedule, and in a pipeline the
 * cell, such as " in training step 5, step 34 of the schedule, cell 1B3". A signal handler may call this too. */
void zr__hang_where(const zr_comm_board *board, char *text, size_t size);

typedef struct zr__hang zr__hang;

/** Start to watch for hangs. Set *hang to NULL if the observer has no function `hang`. If ranks are threads of one
 * process, only rank 0 watches, and *hang is NULL on the other ranks. */
ZR_NODISCARD zr_status zr__hang_create(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                       zr__hang **hang);
/** Stop watching. This function and the functions below accept a NULL hang. */
void zr__hang_destroy(zr__hang **hang);

/** Set the plan from which messages take the names of schedule steps. The plan must live until zr__hang_destroy. */
void zr__hang_plan(zr__hang *hang, const zr_plan *plan);
/** Record the duration of a training step. With train.hang_timeout "auto", recent durations determine the limit. */
void zr__hang_took(zr__hang *hang, double sec);

/** Write a description of the limits for the user to `text`, and return `text`. It is "" if this rank does not watch,
 * or if the limit is "auto". */
#define ZR__LIMITS_BYTES 160
const char *zr__hang_limits(zr__hang *hang, char text[ZR__LIMITS_BYTES]);

#endif
