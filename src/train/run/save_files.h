/** A checkpoint in progress: its files, which all ranks write, and its manifest; save.c decides when it is written. */
#ifndef ZR_TRAIN_SAVE_FILES_H
#define ZR_TRAIN_SAVE_FILES_H

#include "train/run/run.h"
#include "zr/checkpoint.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/plan.h"

/** Most states of a checkpoint: parameters, and four of the optimizer. */
#define ZR_CHECKPOINT_STATES 5
/** Most files of a checkpoint: one for each state, and config.json. */
#define ZR__SAVE_FILES (ZR_CHECKPOINT_STATES + 1)

/** A list that is gathered on rank 0. */
typedef struct zr__save_list {
    void *mine; /* (n_mine), of this rank */
    void *all;  /* (n_all), rank 0: of all ranks */
    int64_t n_mine, n_all;
} zr__save_list;

/** One file of the checkpoint. */
typedef struct zr__save_part {
    char name[64];        /* "": not a file of this checkpoint */
    zr__save_list chunks; /* zr_chunk: checksums of the written chunks; `all` has the header's too */
    zr__save_list slices; /* zr_slices: regions in which ranks wrote slices of columns */
} zr__save_part;

typedef struct zr__save {
    zr__run *run;
    int64_t step;                          /* step of the checkpoint */
    char run_dir[PATH_MAX], tmp[PATH_MAX]; /* tmp: where it is written until it is complete */
    int n_states;                          /* parameters and states of the optimizer, a file each */
    zr__save_part part[ZR__SAVE_FILES];    /* by state, and config.json at ZR_CHECKPOINT_STATES */
    zr__checkpoint_run about;              /* rank 0: the run at this step */
    int64_t bytes;
    double waited_sec, async_sec; /* seconds that training waited for it; seconds of asynchronous writing */
    /* Fields of the writing thread, which is this rank's or, in an asynchronous save, the engine's. */
    double begin_sec, put_sec; /* clock at the first element; seconds from it to the last sync, 0: no element */
    int file;                  /* index in `part` of the file being written, -1: no file */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    const zr_param_info *param; /* the last parameter written to this file, or NULL */
    zr_slices slices; /* region of `param` that this rank writes by slices of rows; row_bytes 0: ranges only */
    zr_event *event;  /* events of the engine's thread; NULL: not traced */
    int32_t n_events, event_room;
} zr__save;

/** Write the file name of a state into `name`; state 0: parameters, from 1 on the optimizer's. */
ZR_NODISCARD zr_status zr__state_file(const zr_plan *plan, int state, char *name, size_t size);

/** Return the engine's number of the state in the file of that number; file 0: parameters. */
int zr__state_of_file(int file);

/** Set the names of all files. */
ZR_NODISCARD zr_status zr__save_names(zr__save *save);
/** Fill save->about, the record of the run at this step. Rank 0. */
ZR_NODISCARD zr_status zr__save_note_run(zr__save *save);
/** Create the files, which hold whole tensors. Rank 0. */
ZR_NODISCARD zr_status zr__save_make_files(const zr__save *save);

/** Write elements of a state that this rank owns (zr_sink), state by state; ZR_ERR_DIVERGED: a weight is not finite.
 * zr__save_put_end follows the last state. */
ZR_NODISCARD zr_status zr__save_put(void *save, int state, const zr_param_info *param, int64_t first, int64_t n,
                                    const float *in);
ZR_NODISCARD zr_status zr__save_put_end(void *save);
/** Write all states that this rank owns, synchronously. */
ZR_NODISCARD zr_status zr__save_put_all(zr__save *save);

/** Gather the checksums of all ranks on rank 0. Collective. */
ZR_NODISCARD zr_status zr__save_gather(zr__save *save);
/** Write the manifest. Rank 0. */
ZR_NODISCARD zr_status zr__save_describe(zr__save *save);

void zr__save_clear(zr__save *save);

#endif
