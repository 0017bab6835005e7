/**
 * train/weights: trained weights on disk. stored.c finds them, load.h makes an engine with them, convert.h changes
 * their form, export.h writes a run's, eval_dir.c and evaluate.h compute their loss, and generate.c with writer.h
 * samples text from them.
 */
#ifndef ZR_TRAIN_WEIGHTS_WEIGHTS_H
#define ZR_TRAIN_WEIGHTS_WEIGHTS_H

#include "zr/tensor.h"

typedef enum zr__stored_kind {
    ZR_STORED_CHECKPOINT, /* with the optimizer's states, and a checksum of every byte */
    ZR_STORED_HF,         /* a Hugging Face directory */
    ZR_STORED_FILE        /* one safetensors file */
} zr__stored_kind;

/** Location of stored weights. */
typedef struct zr__stored {
    zr__stored_kind kind;
    char path[4096];       /* path of the directory, or of the file */
    char run[4096];        /* run that it belongs to; "": none */
    bool from_run;         /* the given path was the run's directory */
    char passed_over[512]; /* name of the first newer checkpoint that is not whole, and the reason; "" */
} zr__stored;

/** Find the weights at a path: a safetensors file, a Hugging Face directory, a checkpoint, or the directory of a run,
 *  which stands for its newest whole checkpoint, and for its model/ where it has no checkpoint; with `model_first` the
 *  other way round, unless the checkpoint was written later. A whole checkpoint has all its files; their contents are
 *  not read. A link that `path` names is followed. ZR_ERR_NOT_FOUND. */
ZR_NODISCARD zr_status zr__stored_find(const char *path, bool model_first, zr__stored *stored);

/** Check that a Hugging Face directory is a model that zr builds, with all of its tensors in their shapes. `note` (size
 *  bytes): tensors that the model does not use, or "". ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__hf_check(const char *dir, char *note, size_t size);

typedef enum zr__convert_to {
    ZR_CONVERT_OTHER, /* a checkpoint, or a run, becomes a Hugging Face directory, and a Hugging Face directory the
                         directory of a run */
    ZR_CONVERT_HF,
    ZR_CONVERT_RUN /* with a checkpoint of step 0, from which zr_train_resume goes on */
} zr__convert_to;

typedef struct zr__convert_args {
    const char *from; /* source, any path that zr__stored_find takes */
    const char *to;   /* target, which must not exist */
    zr__convert_to kind;
    zr_dtype dtype;          /* type of the weights of a Hugging Face directory: rounded to nearest */
    zr_progress_fn progress; /* progress in numbers; may be NULL */
    void *arg;
    int64_t file_bytes; /* most bytes of weights in a Hugging Face file (zr__weights_create); 0: one file */
} zr__convert_args;

/** Result of zr__convert_dir. */
typedef struct zr__converted {
    zr__stored from;
    zr__convert_to kind; /* HF or RUN */
    int64_t tensors, elems;
    int64_t files;  /* of weights */
    bool tokenizer; /* the tokenizer's files were copied */
    char note[512]; /* reason why a run's tokenizer files were not copied; "" */
} zr__converted;

/** Convert one kind of directory of weights to another; `to` appears atomically. Every byte that comes from a
 *  checkpoint is checked. The files of the source's tokenizer are copied, beside the weights or into the run's model/.
 *  ZR_ERR_ARG: a checkpoint would be made of a checkpoint, or of a single file, or not in F32, or its weights in
 *  several files; ZR_ERR_CREATE: `to` exists; ZR_ERR_DATA: the source is damaged, not finite, or no model that zr
 *  builds; ZR_ERR_DTYPE: a weight is beyond the type; ZR_ERR_NOT_FOUND; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__convert_dir(const zr__convert_args *args, zr__converted *did);

#endif
