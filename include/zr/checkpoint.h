/**
 * checkpoint: weights on disk. safetensors files (strict reader, writer of ranges), Hugging Face
 * directories, and files that appear whole or not at all.
 *
 * Everything read is untrusted: no size is believed before it is held against the file's. Paths
 * are plain bytes. Reading goes through pread; a reader may be used by several threads at once.
 */
#ifndef ZR_CHECKPOINT_H
#define ZR_CHECKPOINT_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ----------------------------------------------------------------------------------- */

/** Rename tmp to final (replacing it) and make the name durable (fsync of the folder). The content
 *  must have been synced. Both in one folder. ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_file_commit(const char *tmp, const char *final);

/** The same for a directory, whose files must have been synced: tmp is synced, renamed to final (which is not there, or
 *  empty), and the name made durable. So final is there with all its files or not at all, whenever the machine stops.
 *  ZR_ERR_IO: where tmp is gone, final has the name and is whole, and only its durability is unknown. */
ZR_API ZR_NODISCARD zr_status zr_dir_commit(const char *tmp, const char *final);

/** Write a whole small file: path + ".tmp" is created (an earlier leftover is removed), synced and
 *  committed. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_file_write(const char *path, const void *bytes, int64_t n);

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct zr_safetensors zr_safetensors;

/** A tensor of a file; all borrowed from the reader. */
typedef struct zr_safetensors_tensor {
    const char *name;  /* UTF-8 */
    const char *dtype; /* as spelled: "F32", "I64" ... */
    bool loadable;     /* F32, BF16 or F16 */
    int ndim;          /* any number */
    const int64_t *dim;
    int64_t elems;
    int64_t offset; /* of its first byte, from the start of the file */
    int64_t bytes;
} zr_safetensors_tensor;

/** Open and check a file's header: sizes, JSON, names, types and that the tensors tile the rest of the
 *  file exactly (two empty tensors in one place do not).
 *  ZR_ERR_NOT_FOUND missing, unreadable, not a regular file; ZR_ERR_DATA naming file and tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_open(const char *path, zr_safetensors **st);
ZR_API void zr_safetensors_close(zr_safetensors **st);

ZR_API const char *zr_safetensors_path(const zr_safetensors *st);
ZR_API int64_t zr_safetensors_count(const zr_safetensors *st);
/** Tensor i, in the order of their bytes. */
ZR_API const zr_safetensors_tensor *zr_safetensors_get(const zr_safetensors *st, int64_t i);
/** The tensor of that name, NULL: none. */
ZR_API const zr_safetensors_tensor *zr_safetensors_find(const zr_safetensors *st, const char *name);

/** Elements [first, first+n) as fp32 into `out` (n). BF16 and F16 are widened exactly.
 *  ZR_ERR_DATA the tensor is of another type; ZR_ERR_IO the file changed since it was opened, or cannot be
 *  read; ZR_ERR_ARG the range. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_read_f32(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                      int64_t first, int64_t n, float *out);

/** A tensor by name and shape. */
typedef struct zr_tensor_spec {
    const char *name;
    zr_shape shape;
} zr_tensor_spec;

/** Create a file of fp32 tensors, all zero, at its full size: header padded to 8 bytes, tensors in the
 *  order given, metadata {"format":"pt"}. Refuses to replace anything (ZR_ERR_CREATE); ZR_ERR_IO on a
 *  full disk; ZR_ERR_ARG on duplicate or empty names or sizes that overflow. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n);

/** Open a created file for writing; any number of threads and processes may, each for its own ranges.
 *  Reads too. Close it with zr_safetensors_close. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_attach(const char *path, zr_safetensors **st);

/** Write elements [first, first+n) of an F32 tensor. ZR_ERR_IO; ZR_ERR_ARG the range; ZR_ERR_STATE the
 *  file was not opened with attach. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                   int64_t first, int64_t n, const float *in);

/** Make what was written durable (fsync). Every writer does this, then one commits the name. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_sync(const zr_safetensors *st);

/* ---- Hugging Face directories ---------------------------------------------------------------- */

/** Which of n kinds of model dir/config.json is of, by its model_type. ZR_ERR_NOT_FOUND no such file;
 *  ZR_ERR_DATA it is none of them. */
ZR_API ZR_NODISCARD zr_status zr_hf_model_type(const char *dir, const char *const *known, int n, int *which);

/** How the files of a kind of model name its tensors. */
typedef struct zr_hf_names {
    const char *prefix;           /* some files leave it out of every name, some have it */
    const char *const *redundant; /* tensors that some files hold and nothing needs, NULL at the end; a leading dot: the
                                   * end of such a name */
} zr_hf_names;

/** The numbers of a GPT-2's config.json, its key names. */
typedef struct zr_hf_gpt2 {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon, initializer_range;
    bool tie_word_embeddings; /* always true: anything else is refused */
} zr_hf_gpt2;

/** Read dir/config.json. Keys that are absent have transformers' defaults; unknown keys are left alone.
 *  ZR_ERR_NOT_FOUND no such file; ZR_ERR_DATA naming the field whose value is not GPT-2 as zr
 *  computes it. */
ZR_API ZR_NODISCARD zr_status zr_hf_gpt2_read(const char *dir, zr_hf_gpt2 *config);

/** Write dir/config.json, which transformers' GPT2LMHeadModel loads. Replaces an older one. */
ZR_API ZR_NODISCARD zr_status zr_hf_gpt2_write(const char *dir, const zr_hf_gpt2 *config);

/** "transformer.", and the tied head and the attention masks of old files. */
ZR_API const zr_hf_names *zr_hf_gpt2_names(void);

/** The weights of a directory: model.safetensors, or the files that model.safetensors.index.json
 *  names (inside the directory). */
typedef struct zr_weights zr_weights;

/** `names` is borrowed. */
ZR_API ZR_NODISCARD zr_status zr_weights_open(const char *dir, const zr_hf_names *names, zr_weights **weights);
ZR_API void zr_weights_close(zr_weights **weights);

/** Hold the weights against what a model wants: all there, of that shape and loadable, or ZR_ERR_DATA
 *  with the list. Tensors that nothing wants are named in `note` (size bytes, may be NULL), "" when
 *  there are none; those that are redundant (zr_hf_names) do not count.
 *  A wanted name is found with the prefix or without. */
ZR_API ZR_NODISCARD zr_status zr_weights_check(const zr_weights *weights, const zr_tensor_spec *wanted, int64_t n,
                                               char *note, size_t size);

/** Bytes of all files of the weights, and a hash over all of those bytes, which are read once. fn (may be NULL) is told
 * how far it is. ZR_ERR_IO. */
ZR_API int64_t zr_weights_bytes(const zr_weights *weights);
ZR_API ZR_NODISCARD zr_status zr_weights_hash(const zr_weights *weights, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Elements [first, first+n) of a tensor as fp32; ZR_ERR_DATA when there is none of that name. */
ZR_API ZR_NODISCARD zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                              float *out);

#ifdef __cplusplus
}
#endif
#endif
