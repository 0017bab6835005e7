/** A checkpoint that is being written: the files into which all ranks write, and the manifest. save.c decides when a
 * checkpoint is written. */
#ifndef ZR_TRAIN_SAVE_FILES_H
#define ZR_TRAIN_SAVE_FILES_H

#include "train/ranks/ranks.h"

/** Maximum number of states in a checkpoint: the parameters, states of the optimizer, the parameters as they are sent,
 * and errors of gradients. */
#define ZR_CHECKPOINT_STATES (1 + ZR_SLOT_ERROR + ZR_ERROR_LEVELS)
#define ZR_STATE_FILE_BYTES 64
/** Maximum number of files in a checkpoint: one for each state, config.json, and adapter_config.json. */
#define ZR__SAVE_FILES (ZR_CHECKPOINT_STATES + 2)

/** A list whose items are gathered on rank 0. */
typedef struct zr__save_list {
    void *mine; /* array of n_mine items of this rank */
    void *all;  /* rank 0: array of n_all items of all ranks */
    int64_t n_mine, n_all;
} zr__save_list;

/** A file of the checkpoint. */
typedef struct zr__save_part {
    char name[ZR_STATE_FILE_BYTES]; /* file name; "" if the checkpoint lacks this file */
    zr__save_list chunks;           /* checksums of the written chunks (zr__chunk) */
    zr__save_list slices;           /* regions in which ranks wrote slices of rows (zr__slices) */
} zr__save_part;

typedef struct zr__save {
    const zr__ranks *ranks;
    const zr_plan *plan;
    int64_t step;                          /* training step of the checkpoint */
    char run_dir[PATH_MAX], tmp[PATH_MAX]; /* directory of the run; path of the checkpoint until it is complete */
    int n_states;                          /* number of states (zr__state_files), each with its own file */
    bool adapters;                         /* whether the model has adapters, which alone are then saved */
    /* files of the states; config.json at index ZR_CHECKPOINT_STATES; then adapter_config.json of a model with adapters
     */
    zr__save_part part[ZR__SAVE_FILES];
    zr__checkpoint_run about; /* on rank 0: record of the run at this step */
    int64_t bytes;
    double waited_sec, async_sec; /* seconds for which training waited; seconds of asynchronous writing */
    /* Fields used only by the writing thread. In an asynchronous save this is the engine's thread, and otherwise the
     * rank's own thread. */
    double begin_sec, put_sec; /* time of the first write; seconds from the first write to the last sync */
    int file;                  /* index in `part` of the file being written; -1 if no file is open */
    zr_safetensors *layout;
    zr__chunk_writer *writer;
    const zr_param_info *param; /* the last parameter written to the open file, or NULL */
    zr__slices slices;          /* region of `param` that this rank writes in slices; row_bytes is 0 without slices */
    zr_event *event;            /* events of the engine's thread; NULL if they are not traced */
    int32_t n_events, event_room;
} zr__save;

/** Return the number of files with states. File 0 has the parameters. The states of the optimizer follow, then, with
 * quantization.weight_differences, the parameters as they are sent (ZR_STATE_SENT), and then the errors of gradients at
 * each level (ZR_STATE_ERROR), if the plan keeps any. */
int zr__state_files(const zr_plan *plan);

/** Write the name of a file with a state into `name`. */
void zr__state_file(const zr_plan *plan, int file, char name[ZR_STATE_FILE_BYTES]);

/** Return the number by which the engine knows the state in a file. */
int zr__state_of_file(const zr_plan *plan, int file);

/** List the tensors of a file with a state, in the order of the model. A tensor with errors has the errors of the
 * level's ranks one after the other along its first dimension. Free *specs with zr_free. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__state_specs(const zr_plan *plan, int file, zr__tensor_spec **specs, int64_t *n);

/** Return the bytes of the tensors in all files with states. */
double zr__state_bytes(const zr_plan *plan);

/** Set the names of all files of the checkpoint. */
void zr__save_names(zr__save *save);
/** Create the files and reserve space for whole tensors in them. `init` is model.init, the base of adapters. Rank 0
 * only. */
ZR_NODISCARD zr_status zr__save_make_files(const zr__save *save, const zr__family_model *model, const char *init,
                                           const zr__hf_source *source);

/** Write elements that this rank owns into the file of a state. This is a callback of zr_sink. The caller passes one
 * state after the other, and calls zr__save_put_end after the last state. Fail with ZR_ERR_DIVERGED if a weight is not
 * finite. */
ZR_NODISCARD zr_status zr__save_put(void *save, int state, const zr_param_info *param, int64_t first, int64_t n,
                                    const float *in);
ZR_NODISCARD zr_status zr__save_put_end(void *save);
/** Write the elements that this rank owns, of all states, synchronously. */
ZR_NODISCARD zr_status zr__save_put_all(zr__save *save);

/** Gather the checksums of all ranks on rank 0. Collective. */
ZR_NODISCARD zr_status zr__save_gather(zr__save *save);
/** Write the manifest. Rank 0 only. */
ZR_NODISCARD zr_status zr__save_describe(zr__save *save);

void zr__save_clear(zr__save *save);

#endif
