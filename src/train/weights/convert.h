/** Declarations shared by the two conversions of zr__convert_dir: to a Hugging Face directory and to a run's directory.
 */
#ifndef ZR_TRAIN_CONVERT_H
#define ZR_TRAIN_CONVERT_H

#include "checkpoint/checkpoint.h"
#include "train/family/family.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"
#include "zr/graph.h"

#include <limits.h>

/* Name of a checkpoint's weights file. */
#define ZR_CONVERT_WEIGHTS "model.safetensors"

typedef struct zr__convert {
    const zr__convert_args *args;
    zr__converted *did;
    char tmp[PATH_MAX]; /* path of the directory while it is made */
    char dir[PATH_MAX]; /* tmp, or the directory in it that gets the weights */
    zr__family_model model;
    zr_graph *graph;
    zr_tensor_spec *specs;
    zr_manifest *manifest; /* from a checkpoint: */
    zr_chunk_reader *reader;
    zr_weights *weights;  /* or from a Hugging Face directory */
    zr__weights_out *out; /* to a Hugging Face directory */
    char file[PATH_MAX];  /* or to a checkpoint: */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    float *piece;
    int64_t done;
} zr__convert;

/** Read every tensor, and write it to c->out or c->writer. */
ZR_NODISCARD zr_status zr__convert_copy(zr__convert *c);

/** Copy the files of the source's tokenizer into `dir`, which is made if there are any. A missing tokenizer is no
 * error: did->note says why a run's tokenizer is gone. */
ZR_NODISCARD zr_status zr__convert_tokenizer(const zr__convert *c, const char *dir);

/** Make a run's directory in c->tmp. */
ZR_NODISCARD zr_status zr__convert_run(zr__convert *c);

#endif
