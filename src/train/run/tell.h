/** Messages of a run while it goes: notes and warnings to its observer, phase and progress to the rank's board. */
#ifndef ZR_TRAIN_TELL_H
#define ZR_TRAIN_TELL_H

#include "train/run/run.h"

#define ZR__WHY_BYTES 2048
/** Copy the message of the last failure, which later calls may replace, to scratch of the enclosing block. */
#define ZR__WHY() zr__run_why((char[ZR__WHY_BYTES]){0})
const char *zr__run_why(char why[ZR__WHY_BYTES]);

/** Show on this rank's board that a phase begins; the observer is told of every phase but training. */
void zr__run_enter(const zr__run *r, zr__phase phase);

/** Pass one line of text to rank 0's observer; on other ranks nothing happens. */
void zr__run_note(const zr__run *r, const char *format, ...) ZR_PRINTF(2, 3);
/** Report a failed write to rank 0's observer, through `note` if it has no `warn`. */
void zr__run_warn(const zr__run *r, const char *format, ...) ZR_PRINTF(2, 3);

/** Progress of long work before the first step; zero-initialise. */
typedef struct zr__progress {
    zr__run *run;
    char what[512];   /* "data.train: looking at all of x.txt" */
    double next_news; /* zr_clock_sec of the next note; 0: no progress yet */
} zr__progress;
/** Show progress on the rank's board, and now and then as a note. A zr_progress_fn; arg is a zr__progress. */
void zr__run_progress(void *arg, int64_t done, int64_t all);

#endif
