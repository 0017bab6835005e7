/** What the two kinds of directories that zr_convert makes have in common. */
#ifndef ZR_TRAIN_CONVERT_H
#define ZR_TRAIN_CONVERT_H

#include "train/family/inputs.h"

#include <limits.h>

/* The weights of a checkpoint. */
#define ZR_CONVERT_WEIGHTS "model.safetensors"

typedef struct zr__convert {
    const zr_convert_args *args;
    zr_converted *did;
    char tmp[PATH_MAX]; /* of the directory that is made, */
    char dir[PATH_MAX]; /* and in it, where the weights go */
    zr_family_model model;
    zr_graph *graph;
    zr_tensor_spec *specs;
    zr_manifest *manifest; /* from a checkpoint: */
    zr_chunk_reader *reader;
    zr_weights *weights; /* or from a Hugging Face directory */
    zr_weights_out *out; /* to a Hugging Face directory */
    char file[PATH_MAX]; /* or to a checkpoint: */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    float *piece;
    int64_t done;
} zr__convert;

/** Read every tensor, and write it to c->out or c->writer. */
ZR_NODISCARD zr_status zr__convert_copy(zr__convert *c);

/** The files of the source's tokenizer, into `dir`, which is made where it has any. None is no fault: did->note says
 * why a run's is not there any more. */
ZR_NODISCARD zr_status zr__convert_tokenizer(const zr__convert *c, const char *dir);

/** Make a run in c->tmp. */
ZR_NODISCARD zr_status zr__convert_run(zr__convert *c);

#endif
