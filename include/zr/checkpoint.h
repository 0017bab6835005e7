/**
 * checkpoint: weights on disk. This header has the functions that read safetensors files and Hugging Face directories,
 * and that check checkpoints, which have a checksum over every byte. Runs and `zr convert` write weights.
 *
 * All input is untrusted: every size is checked against the file's size before it is used. Paths are strings of bytes
 * in any encoding. Files are read with pread, so several threads may use one reader at once.
 */
#ifndef ZR_CHECKPOINT_H
#define ZR_CHECKPOINT_H

#include "zr/models.h"
#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct zr_safetensors zr_safetensors;

/** A tensor in a safetensors file. All pointers are borrowed from the reader. */
typedef struct zr_safetensors_tensor {
    const char *name;  /* UTF-8 */
    const char *dtype; /* type as spelled in the file, such as "F32" or "I64" */
    bool loadable;     /* whether zr_safetensors_read_f32 can read the type: F32, BF16 or F16 */
    int ndim;          /* number of dimensions, without limit */
    const int64_t *dim;
    int64_t elems;
    int64_t offset; /* offset of the tensor's first byte from the start of the file */
    int64_t bytes;
} zr_safetensors_tensor;

/** Open a safetensors file and check its header: sizes, JSON, names and types. The tensors must cover the rest of the
 * file exactly. Two empty tensors at the same offset are refused. Errors: ZR_ERR_NOT_FOUND if the file is missing,
 * unreadable or not a regular file; ZR_ERR_DATA with a message that names the file and the tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_open(const char *path, zr_safetensors **st);
ZR_API void zr_safetensors_close(zr_safetensors **st);

ZR_API int64_t zr_safetensors_count(const zr_safetensors *st);
/** Return tensor i, in the order of the tensors' offsets in the file. */
ZR_API const zr_safetensors_tensor *zr_safetensors_get(const zr_safetensors *st, int64_t i);
/** Return the tensor with this name, or NULL if the file has no tensor of this name. */
ZR_API const zr_safetensors_tensor *zr_safetensors_find(const zr_safetensors *st, const char *name);

/** Read elements [first, first+n) of a tensor into `out` (n) as fp32. BF16 and F16 are widened exactly. Errors:
 * ZR_ERR_DATA if the tensor has another type; ZR_ERR_IO if the file cannot be read or has changed since it was
 * opened; ZR_ERR_ARG if the range is not inside the tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_read_f32(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                      int64_t first, int64_t n, float *out);

/** Read elements [first, first+n) of a tensor of the type I32 or I64 into `out` (n). Errors: as for
 * zr_safetensors_read_f32, and ZR_ERR_DATA if an element does not fit into 32 bits. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_read_i32(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                      int64_t first, int64_t n, int32_t *out);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint of a run is a directory such as RUN_DIR/step-00001000. It holds config.json, model.safetensors, one
 * safetensors file for each state of the optimizer, and manifest.json. The manifest is written last. The manifest has
 * checksums of every byte of all files, including the manifest itself. Files hold whole tensors, whichever rank wrote
 * which range. A checkpoint therefore does not depend on the layout of the run that wrote it. No function in this
 * section is collective. */

/** Check every byte of a checkpoint. `report` (size bytes) receives one line "FILE: TEXT" for each damaged range or
 * file. It also receives a line for each file that is not in the manifest, although that is not an error. Without
 * lines, `report` is "". `fn` receives the progress and may be NULL. Errors: ZR_ERR_DATA with the first damage in the
 * message; ZR_ERR_NOT_FOUND if the directory is missing or has no manifest (an unfinished checkpoint); ZR_ERR_IO if a
 * file cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report,
                                                   size_t size);

#define ZR_CHECKPOINT_NAME_BYTES 32
/** Write the name of the checkpoint of a step to `name`, such as "step-00001000". The number has at least 8 digits.
 * `step` must not be negative. */
ZR_API void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES]);

/** List the steps of all checkpoints in run_dir, newest first. Only names are compared, so a checkpoint may be
 * incomplete; use zr_checkpoint_verify to check it. Free *step with zr_free; *step is NULL if there is no checkpoint.
 * Errors: ZR_ERR_NOT_FOUND if run_dir is missing; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n);

/* ---- Hugging Face directories ---------------------------------------------------------------- */

/** Read dir/config.json of any family into its struct. Missing keys get the defaults of Hugging Face transformers.
 * Unknown keys at the top level are ignored. In an object that holds fields of the family, they are errors
 * (ZR_ERR_DATA). Errors: ZR_ERR_NOT_FOUND if the file is missing; ZR_ERR_DATA if model_type is not a family, or if zr
 * does not support the value of a field, which the message names. */
ZR_API ZR_NODISCARD zr_status zr_hf_read(const char *dir, const zr_family **family, zr_model_config *config);

/** Write dir/config.json in a form that transformers loads, replacing an older file. Errors: ZR_ERR_ARG if a number is
 * not finite; ZR_ERR_CREATE; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_hf_write(const char *dir, const zr_family *family, const zr_model_config *config);

/** Reader of the weights in a Hugging Face directory. The weights are in model.safetensors, or in the files that
 * model.safetensors.index.json names. These files must be inside the directory. */
typedef struct zr_weights zr_weights;

/** Open the weights of a directory. `names` is borrowed. */
ZR_API ZR_NODISCARD zr_status zr_weights_open(const char *dir, const zr_hf_names *names, zr_weights **weights);
ZR_API void zr_weights_close(zr_weights **weights);

/** Read elements [first, first+n) of a tensor as fp32. Fail with ZR_ERR_DATA if the weights have no tensor with this
 * name. */
ZR_API ZR_NODISCARD zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                              float *out);

#ifdef __cplusplus
}
#endif
#endif
