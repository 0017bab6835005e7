/**
 * train/weights: trained weights on disk. stored.c finds weights, load.h loads them into an engine, and convert.h
 * converts their format. export.h writes the weights of a run.
 */
#ifndef ZR_TRAIN_WEIGHTS_WEIGHTS_H
#define ZR_TRAIN_WEIGHTS_WEIGHTS_H

#include "zr/tensor.h"

typedef enum zr__stored_kind {
    ZR_STORED_CHECKPOINT, /* a checkpoint: weights and states of the optimizer, with a checksum of every byte */
    ZR_STORED_HF,         /* a Hugging Face directory */
    ZR_STORED_FILE        /* one safetensors file */
} zr__stored_kind;

/** Location of stored weights. */
typedef struct zr__stored {
    zr__stored_kind kind;
    char path[4096]; /* path of the directory or file */
    char run[4096];  /* directory of the run whose checkpoint, best/ or newest weights these are, or "" */
    bool from_run;   /* whether the given path was the run's directory */
    /* name of a newer checkpoint that is incomplete, and the reason; "" if all newer checkpoints are complete */
    char passed_over[512];
} zr__stored;

/** Find the weights at a path, which is a safetensors file, a Hugging Face directory, a checkpoint, or the directory of
 * a run. In a run's directory, use the newest complete checkpoint, or model/ if there is no checkpoint. If
 * `model_first` is set and model/ exists, use model/, unless the checkpoint was written later. A checkpoint is complete
 * if all its files exist; their contents are not read. Follow `path` if it is a symbolic link. Errors:
 * ZR_ERR_NOT_FOUND. */
ZR_NODISCARD zr_status zr__stored_find(const char *path, bool model_first, zr__stored *stored);

/** Check that zr can build the model of a Hugging Face directory, and that the directory has all tensors of the model
 * in their shapes. `note` (of `size` bytes) receives the names of tensors that the model does not use, or "". Errors:
 * ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__hf_check(const char *dir, char *note, size_t size);

typedef enum zr__convert_to {
    /* from a Hugging Face directory to a run; from a checkpoint or a run to a Hugging Face directory */
    ZR_CONVERT_OTHER,
    ZR_CONVERT_HF,
    ZR_CONVERT_RUN /* convert to a run with a checkpoint of step 0, from which zr_train_resume continues */
} zr__convert_to;

typedef struct zr__convert_args {
    const char *from; /* path of the source, of any kind that zr__stored_find accepts */
    const char *to;   /* path of the target, which must not exist */
    zr__convert_to kind;
    /* whether tensors keep the types that they have in the source or in the Hugging Face directory from which a run
     * started; otherwise they get the type `dtype` */
    bool same_types;
    zr_dtype dtype;          /* dtype of the weights in a new Hugging Face directory */
    zr_progress_fn progress; /* function that receives the progress in elements; may be NULL */
    void *arg;
    /* maximum bytes of one weights file in a Hugging Face directory (zr__weights_form). 0 keeps the division into files
     * of the source, or of the directory from which a run started; otherwise there is one file */
    int64_t file_bytes;
} zr__convert_args;

/** Result of zr__convert_dir. */
typedef struct zr__converted {
    zr__stored from;
    zr__convert_to kind; /* kind of the target: ZR_CONVERT_HF or ZR_CONVERT_RUN */
    int64_t tensors, elems;
    zr_dtype dtype; /* type of most weights in the target */
    int64_t files;  /* number of files with weights */
    bool tokenizer; /* whether files of a tokenizer were copied */
    /* names of tensors that were not converted, or reason why a run's tokenizer files were not copied, or "" */
    char note[512];
} zr__converted;

/**
 * Convert a directory of weights to another kind. The target appears atomically. Every byte from a checkpoint is
 * checked. The tokenizer files of the source are copied beside the new weights, or into model/ of a new run.
 *
 * Fail with ZR_ERR_ARG if the source is a single file. If the target is a new run, also fail with ZR_ERR_ARG if
 * the source is a checkpoint, if `dtype` is not F32, or if file_bytes is not 0. Fail with ZR_ERR_CREATE if the target
 * exists. Fail with ZR_ERR_DATA if the source is damaged, not finite, or not a model that zr can build. Fail with
 * ZR_ERR_DTYPE if a weight is too large for the dtype. Other errors: ZR_ERR_NOT_FOUND, ZR_ERR_IO.
 */
ZR_NODISCARD zr_status zr__convert_dir(const zr__convert_args *args, zr__converted *did);

#endif
