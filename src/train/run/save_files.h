/** A checkpoint on its way: its files, which all ranks write, and what is said of them. save.c decides when. */
#ifndef ZR_TRAIN_SAVE_FILES_H
#define ZR_TRAIN_SAVE_FILES_H

#include "train/run/run.h"
#include "zr/checkpoint.h"

/** The states that are saved: parameters, and as many of the optimizer as there may be. */
#define ZR_CHECKPOINT_STATES 5
/** A file for each, and config.json. */
#define ZR__SAVE_FILES (ZR_CHECKPOINT_STATES + 1)

/** A file of the checkpoint. */
typedef struct zr__save_part {
    char name[64];  /* "": there is none */
    zr_chunk *mine; /* what this rank wrote */
    int64_t n_mine;
    zr_slices *my_slices; /* where it wrote columns */
    int64_t n_my_slices;
    zr_chunk *all; /* rank 0: of all ranks, and the header */
    int64_t n_all;
    zr_slices *slices; /* rank 0: of all ranks */
    int64_t n_slices;
} zr__save_part;

typedef struct zr__save {
    zr__run *run;
    int64_t step;                          /* of the checkpoint */
    char run_dir[PATH_MAX], tmp[PATH_MAX]; /* where it is written meanwhile */
    int n_states;                          /* parameters and states of the optimizer, a file each */
    zr__save_part part[ZR__SAVE_FILES];    /* by state; config.json */
    zr__checkpoint_run about;              /* rank 0 */
    int64_t bytes;
    double waited_sec, behind_sec; /* training waited so long for it; so long it was written behind steps */
    /* What writes: this rank's thread, or the engine's behind a step. */
    double begin_sec, put_sec; /* of the first element; from there to the last sync, 0: this rank has none */
    int file;                  /* of the state that is written, -1: none */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    const zr_param_info *param; /* that was put last to this file, NULL: none */
    zr_slices slices;           /* of which this rank writes one; row_bytes 0: all of its bytes follow each other */
    zr_event *event;            /* of what the engine's thread did, where a trace wants it */
    int32_t n_events, event_room;
} zr__save;

/** The file of the state number `state`: 0 parameters, from 1 on the optimizer's. */
ZR_NODISCARD zr_status zr__state_file(const zr_plan *plan, int state, char *name, size_t size);

/** The names of all files. */
ZR_NODISCARD zr_status zr__save_names(zr__save *save);
/** Rank 0: how the run stands. */
ZR_NODISCARD zr_status zr__save_note_run(zr__save *save);
/** Rank 0: the files, of whole tensors. */
ZR_NODISCARD zr_status zr__save_make_files(const zr__save *save);

/** Elements of a state that this rank writes (zr_sink), state by state; ZR_ERR_DIVERGED: a weight is not finite. And
 *  the end of all states. */
ZR_NODISCARD zr_status zr__save_put(void *save, int state, const zr_param_info *param, int64_t first, int64_t n,
                                    const float *in);
ZR_NODISCARD zr_status zr__save_put_end(void *save);
/** All that this rank writes, now. */
ZR_NODISCARD zr_status zr__save_put_all(zr__save *save);

/** Checksums of all ranks, to rank 0. Collective. */
ZR_NODISCARD zr_status zr__save_gather(zr__save *save);
/** Rank 0: the manifest. */
ZR_NODISCARD zr_status zr__save_describe(zr__save *save);

void zr__save_clear(zr__save *save);

#endif
