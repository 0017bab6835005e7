/** Declarations shared by the two conversions of zr__convert_dir: to a Hugging Face directory, and to a run's
 * directory. */
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
    char tmp[PATH_MAX]; /* temporary path of the new directory */
    char dir[PATH_MAX]; /* directory into which the weights are written: `tmp` or a subdirectory of `tmp` */
    zr__family_model model;
    zr_graph *graph;
    zr_tensor_spec *specs;
    zr_manifest *manifest; /* source: a checkpoint */
    zr_chunk_reader *reader;
    zr_weights *weights;  /* source: a Hugging Face directory */
    zr__weights_out *out; /* target: a Hugging Face directory */
    char file[PATH_MAX];  /* target: a checkpoint's weights file */
    zr_safetensors *layout;
    zr_chunk_writer *writer;
    float *piece;
    int64_t done;
} zr__convert;

/** Copy every tensor from the source to the target, c->out or c->writer. */
ZR_NODISCARD zr_status zr__convert_copy(zr__convert *c);

/** Copy the source's tokenizer files into `dir`, which is created if there are any. A missing tokenizer is no error: if
 * a run's tokenizer cannot be found, did->note tells why. */
ZR_NODISCARD zr_status zr__convert_tokenizer(const zr__convert *c, const char *dir);

/** Create a run's directory in c->tmp: a checkpoint of step 0 and an empty metrics.jsonl. */
ZR_NODISCARD zr_status zr__convert_run(zr__convert *c);

#endif
