/** A checkpoint that is being written: its files, which all ranks write, and its manifest. save.c decides when to write
 * one. */
#ifndef ZR_TRAIN_SAVE_FILES_H
#define ZR_TRAIN_SAVE_FILES_H

#include "train/run/run.h"
#include "zr/checkpoint.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/plan.h"

/** Maximum number of states in a checkpoint: the parameters and four states of the optimizer. */
#define ZR_CHECKPOINT_STATES 5
/** Maximum number of files in a checkpoint: one for each state, and config.json. */
#define ZR__SAVE_FILES (ZR_CHECKPOINT_STATES + 1)

/** A list whose items are gathered from all ranks on rank 0. */
typedef struct zr__save_list {
    void *mine; /* n_mine items of this rank */
    void *all;  /* on rank 0: n_all items of all ranks */
    int64_t n_mine, n_all;
} zr__save_list;

/** A file of the checkpoint. */
typedef struct zr__save_part {
    char name[64];        /* "" if the checkpoint does not have this file */
    zr__save_list chunks; /* checksums of the written chunks (zr_chunk); `all` includes the header's chunks */
    zr__save_list slices; /* regions in which ranks wrote slices of columns (zr_slices) */
} zr__save_part;

typedef struct zr__save {
    zr__run *run;
    int64_t step;                          /* training step of the checkpoint */
    char run_dir[PATH_MAX], tmp[PATH_MAX]; /* tmp: temporary path until the checkpoint is complete */
    int n_states; /* number of states, each in its own file: parameters and states of the optimizer */
    zr__save_part part[ZR__SAVE_FILES]; /* one for each state, and config.json at index ZR_CHECKPOINT_STATES */
    zr__checkpoint_run about;           /* rank 0: record of the run at this step */
    int64_t bytes;
    double waited_sec, async_sec; /* seconds that training waited for the checkpoint; seconds of asynchronous writing */
    /* Fields of the thread that writes: this rank's thread, or the engine's thread in an asynchronous save. */
    double begin_sec, put_sec; /* time of the first written element; seconds from that element to the last sync */
    int file;                  /* index in `part` of the file being written; -1 if no file is open */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    const zr_param_info *param; /* the last parameter written to the open file, or NULL */
    zr_slices slices; /* region of `param` that this rank writes in slices of rows; row_bytes is 0 if it writes only
                         contiguous ranges */
    zr_event *event;  /* events of the engine's thread; NULL if they are not traced */
    int32_t n_events, event_room;
} zr__save;

/** Write the file name of a state into `name`. State 0 is the parameters; states from 1 on are the optimizer's. */
ZR_NODISCARD zr_status zr__state_file(const zr_plan *plan, int state, char *name, size_t size);

/** Return the engine's number of the state that is stored in file number `file`; file 0 holds the parameters. */
int zr__state_of_file(int file);

/** Set the names of all files of the checkpoint. */
ZR_NODISCARD zr_status zr__save_names(zr__save *save);
/** Fill save->about, the record of the run at the checkpoint's step. Rank 0 only. */
ZR_NODISCARD zr_status zr__save_note_run(zr__save *save);
/** Create the files with space for whole tensors. Rank 0 only. */
ZR_NODISCARD zr_status zr__save_make_files(const zr__save *save);

/** Write elements of a state that this rank owns (a callback of zr_sink). The caller passes one state after the other,
 * and calls zr__save_put_end after the last. Fail with ZR_ERR_DIVERGED if a weight is not finite. */
ZR_NODISCARD zr_status zr__save_put(void *save, int state, const zr_param_info *param, int64_t first, int64_t n,
                                    const float *in);
ZR_NODISCARD zr_status zr__save_put_end(void *save);
/** Write the elements that this rank owns of all states, synchronously. */
ZR_NODISCARD zr_status zr__save_put_all(zr__save *save);

/** Gather the checksums of all ranks on rank 0. Collective. */
ZR_NODISCARD zr_status zr__save_gather(zr__save *save);
/** Write the manifest. Rank 0 only. */
ZR_NODISCARD zr_status zr__save_describe(zr__save *save);

void zr__save_clear(zr__save *save);

#endif
