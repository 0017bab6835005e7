/**
 * checkpoint: safetensors files (safetensors.h), checkpoints in chunks with checksums (chunks.h, manifest.h; their
 * folders: run_steps.c), and Hugging Face directories (hf.h, weights.c). This header has what train and cli need beside
 * zr/checkpoint.h: writing of safetensors and Hugging Face directories, and checks of single files.
 */
#ifndef ZR_CHECKPOINT_CHECKPOINT_H
#define ZR_CHECKPOINT_CHECKPOINT_H

#include "base/file/commit.h"
#include "zr/checkpoint.h"

/** Return whether a tensor of a file has this shape. */
bool zr__safetensors_has_shape(const zr_safetensors_tensor *tensor, const zr_shape *shape);
/** Return the path by which the file was opened. */
const char *zr__safetensors_path(const zr_safetensors *st);

/** Create the same file with tensors of another type: F32, BF16 or F16. */
ZR_NODISCARD zr_status zr__safetensors_create_as(const char *path, zr_dtype dtype, const zr_tensor_spec *spec,
                                                 int64_t n);

/** Open a created file for writing, and reading; any number of threads and processes may do so, each for its own
 *  ranges. Close it with zr_safetensors_close. */
ZR_NODISCARD zr_status zr__safetensors_attach(const char *path, zr_safetensors **st);

/** Make all writes durable (fsync). Every writer calls this, then one commits the name. */
ZR_NODISCARD zr_status zr__safetensors_sync(const zr_safetensors *st);

/** Write n bytes of one of `slices` in the same way: at the end of a row's slice they continue in the next row, at the
 *  same column. A writer writes all of a slice or nothing of it, in ascending order and not interrupted by another put;
 *  the writers of its neighbours give the same `slices`. NULL: as zr_chunk_writer_put. ZR_ERR_ARG also where the bytes
 *  do not lie in the slices. */
ZR_NODISCARD zr_status zr__chunk_writer_put_sliced(zr_chunk_writer *writer, const zr_slices *slices, int64_t offset,
                                                   const void *bytes, int64_t n);

/** Return the *n slices written to, ascending; owned by the writer. NULL and 0 before zr_chunk_writer_end has
 *  succeeded. */
const zr_slices *zr__chunk_writer_slices(const zr_chunk_writer *writer, int64_t *n);

/** Return the file of that name; NULL: the manifest has none. */
const zr_manifest_file *zr__manifest_find(const zr_manifest *manifest, const char *name);

/** Check every byte of one file of a checkpoint before it is read, from the page cache where memory allows it.
 * ZR_ERR_DATA naming the file and the first damage; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__checkpoint_check_file(const char *dir, const zr_manifest *manifest, const char *name);

/** Find which of n kinds of model dir/config.json describes, by its model_type. ZR_ERR_NOT_FOUND the file is missing;
 *  ZR_ERR_DATA it is another kind. */
ZR_NODISCARD zr_status zr__hf_model_type(const char *dir, const char *const *known, int n, int *which);

/** Write dir/config.json, which transformers' GPT2LMHeadModel loads. Replaces an older one. */
ZR_NODISCARD zr_status zr__hf_gpt2_write(const char *dir, const zr_hf_gpt2 *config);

/** Check that the weights belong to a model: all wanted tensors are present, of that shape and loadable, or
 *  ZR_ERR_DATA with the list. Tensors that are not wanted are named in `note` (size bytes, may be NULL), "" without
 *  any; redundant tensors (zr_hf_names) do not count. A wanted name is found with the prefix or without. */
ZR_NODISCARD zr_status zr__weights_check(const zr_weights *weights, const zr_tensor_spec *wanted, int64_t n, char *note,
                                         size_t size);

/** The files of the weights, in the order of the index. */
int64_t zr__weights_files(const zr_weights *weights);
const zr_safetensors *zr__weights_file(const zr_weights *weights, int64_t i);

/** Return the bytes of all files of the weights; zr__weights_hash reads each byte once and hashes it. fn (may
 *  be NULL) is called with the progress. ZR_ERR_IO. */
int64_t zr__weights_bytes(const zr_weights *weights);
ZR_NODISCARD zr_status zr__weights_hash(const zr_weights *weights, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Writer of weights into a directory, one file at a time: model.safetensors; or, where they exceed the size of a file,
 *  model-00001-of-00003.safetensors and so on, and model.safetensors.index.json. */
typedef struct zr__weights_out zr__weights_out;

/** Create a writer of weights; no file is written yet. spec: (n) borrowed; dtype: F32, BF16 or F16. file_bytes: a file
 *  takes tensors in order while their bytes stay within this limit, and a larger tensor has a file of its own, as with
 *  max_shard_size of transformers; 0: one file has all. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__weights_create(const char *dir, zr_dtype dtype, const zr_tensor_spec *spec, int64_t n,
                                          int64_t file_bytes, zr__weights_out **out);
int64_t zr__weights_out_files(const zr__weights_out *out);

/** Write elements [first, first+n) of tensor number `tensor`; tensors come in the order of spec. Errors as
 *  zr_safetensors_write. */
ZR_NODISCARD zr_status zr__weights_put(zr__weights_out *out, int64_t tensor, int64_t first, int64_t n, const float *in);

/** Finish: all files are on the disk, the index too. Called once, after the last put. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__weights_end(zr__weights_out *out);

/** Remove the files written so far. */
void zr__weights_undo(zr__weights_out *out);
void zr__weights_out_close(zr__weights_out **out);

#endif
