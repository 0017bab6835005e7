/** Declarations shared by the conversions to a Hugging Face directory and to a run's directory (zr__convert_dir). */
#ifndef ZR_TRAIN_CONVERT_H
#define ZR_TRAIN_CONVERT_H

#include "checkpoint/checkpoint.h"
#include "train/dir/run_files.h"
#include "train/family/family.h"
#include "train/weights/weights.h"

#include <limits.h>

/** Factors of the adapter of one weight. */
typedef struct zr__merge zr__merge;

typedef struct zr__convert {
    const zr__convert_args *args;
    zr__converted *did;
    char tmp[PATH_MAX]; /* temporary path of the new directory */
    char dir[PATH_MAX]; /* directory of the weights: `tmp` or a folder in `tmp` */
    zr__family_model model;
    zr_graph *graph;
    zr__tensor_spec *specs;
    zr__manifest *manifest; /* manifest of the source, if the source is a checkpoint */
    zr__chunk_reader *reader;
    zr_weights *weights;   /* weights of the source, if the source is a Hugging Face directory or has adapters */
    char base[PATH_MAX];   /* directory of the base into which adapters are merged; "" without adapters */
    zr_lora lora;          /* the adapters; its targets are borrowed from `weights` */
    zr_graph *adapters;    /* graph with the adapters, or NULL */
    zr__merge *merge;      /* factors of the adapter of the tensor that is copied, or NULL */
    zr__hf_source *source; /* record of the Hugging Face directory that the weights come from */
    zr__weights_out *out;  /* plan of the target's files, if the target is a Hugging Face directory */
    zr_weights *to;        /* weights of the target, if the target is a Hugging Face directory */
    char file[PATH_MAX];   /* path of the target's weights file, if the target is a checkpoint */
    zr_safetensors *layout;
    zr__chunk_writer *writer;
    float *piece;
    int64_t done;
} zr__convert;

/** Copy every tensor from the source to the target, which is c->to or c->writer. */
ZR_NODISCARD zr_status zr__convert_copy(zr__convert *c);

/** If a tensor has an adapter, read its factors into c->merge. */
ZR_NODISCARD zr_status zr__merge_begin(zr__convert *c, const char *tensor);
/** c->piece holds elements [first, first+n) of the tensor. Add the adapter's part to them: the scaled product of its
 * factors. */
void zr__merge_piece(const zr__convert *c, int64_t first, int64_t n);
void zr__merge_end(zr__convert *c);

/** Copy the tokenizer files of the source into `dir`, and create `dir` if the source has any. A missing tokenizer is
 * not an error. If a run's tokenizer cannot be found, did->note receives the reason. */
ZR_NODISCARD zr_status zr__convert_tokenizer(const zr__convert *c, const char *dir);

/** Create the directory of a run in c->tmp, with a checkpoint of step 0 and an empty metrics.jsonl. */
ZR_NODISCARD zr_status zr__convert_run(zr__convert *c);

#endif
