/** Messages of a run in progress. The observer receives notes and warnings. The rank's board (zr_comm_board) shows the
 * phase and the progress to other ranks of the host, which watch for hangs. */
#ifndef ZR_TRAIN_NOTES_H
#define ZR_TRAIN_NOTES_H

#include "train/run/run.h"

#define ZR__WHY_BYTES 2048
/** Copy the last error message into a buffer, since later calls may overwrite the message. The buffer lives until the
 * end of the enclosing block. */
#define ZR__WHY() zr__run_why((char[ZR__WHY_BYTES]){0})
const char *zr__run_why(char why[ZR__WHY_BYTES]);

/** Show on this rank's board (zr_comm_board) that a phase begins. Also inform the observer, unless the phase is
 * training. */
void zr__run_enter(const zr__run *r, zr__phase phase);

/** Pass a line of text to the observer on rank 0; do nothing on other ranks. */
void zr__run_note(const zr__run *r, const char *format, ...) ZR_PRINTF(2, 3);
/** Report a failed write to the observer on rank 0. If the observer has no function `warn`, use `note`. */
void zr__run_warn(const zr__run *r, const char *format, ...) ZR_PRINTF(2, 3);

/** Progress of long work before the first step. Initialise with zeros. */
typedef struct zr__progress {
    zr__run *run;
    char what[512];   /* description of the work, such as "data.train: looking at all of x.txt" */
    double next_news; /* earliest time of the next progress note (zr_clock_sec); 0 until zr__run_progress is first
                         called */
} zr__progress;
/** Show progress on the rank's board (zr_comm_board), and from time to time pass a note to the observer. This is a
 * zr_progress_fn whose `arg` is a zr__progress. */
void zr__run_progress(void *arg, int64_t done, int64_t all);

#endif
