/**
 * checkpoint: safetensors files (safetensors.h), checkpoints in chunks with checksums (chunks.h, manifest.h), the
 * directories of a run's checkpoints (run_steps.c), Hugging Face directories (hf.h, weights.c) and adapter directories
 * of peft (adapter.c). This header
 * declares functions that the layers train and cli need besides zr/checkpoint.h. They write safetensors files and
 * Hugging Face directories, and check single files.
 */
#ifndef ZR_CHECKPOINT_CHECKPOINT_H
#define ZR_CHECKPOINT_CHECKPOINT_H

#include "base/file/commit.h"
#include "zr/checkpoint.h"

/** Return whether a tensor in a file has this shape. */
bool zr__safetensors_has_shape(const zr_safetensors_tensor *tensor, const zr_shape *shape);
/** Print a tensor's dimensions into `text`, as "(2, 3)" or, if they are more than ZR_MAX_DIMS, their number. Return
 * `text`. */
const char *zr__safetensors_print_dims(const zr_safetensors_tensor *tensor, char text[ZR_QUOTE_BYTES]);
/** Return the path by which the file was opened. */
const char *zr__safetensors_path(const zr_safetensors *st);

/** Create a file like zr_safetensors_create, but give tensor i the type dtype[i]: F32, BF16 or F16. If `dtype` is NULL,
 * all are F32. */
ZR_NODISCARD zr_status zr__safetensors_create_as(const char *path, const zr_dtype *dtype, const zr_tensor_spec *spec,
                                                 int64_t n);

/** Write n bytes of one slice, beginning at `offset`. A slice is a range of columns: after its last column in one row
 * it continues at its first column in the next row. One writer must write a whole slice, in ascending order, without
 * other puts in between. Writers of neighbouring slices must pass the same `slices`. If `slices` is NULL, do the same
 * as zr_chunk_writer_put. Errors: as zr_chunk_writer_put, and ZR_ERR_ARG if the bytes are outside the slices. */
ZR_NODISCARD zr_status zr__chunk_writer_put_sliced(zr_chunk_writer *writer, const zr_slices *slices, int64_t offset,
                                                   const void *bytes, int64_t n);

/** Return the slices that were written, in ascending order, and their number in *n; the writer owns them. Until
 * zr_chunk_writer_end has succeeded, return NULL and set *n to 0. */
const zr_slices *zr__chunk_writer_slices(const zr_chunk_writer *writer, int64_t *n);

/** Return the entry of the file called `name`, or NULL if the manifest does not list it. */
const zr_manifest_file *zr__manifest_find(const zr_manifest *manifest, const char *name);

/** Check every byte of one file of a checkpoint against the checksums, before the file is read. If memory allows, later
 * reads come from the page cache. Errors: ZR_ERR_DATA naming the file and the first damage; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__checkpoint_check_file(const char *dir, const zr_manifest *manifest, const char *name);

/** Check that the weights fit a model: each of the n wanted tensors must be present, loadable and of the wanted shape.
 * Otherwise fail with ZR_ERR_DATA and a list of the missing or wrong tensors. Names match with and without the family's
 * prefix. `note` (`size` bytes, may be NULL) receives the names of tensors that the model does not want, except
 * redundant tensors (zr_hf_names). Without unwanted tensors, `note` becomes "". */
ZR_NODISCARD zr_status zr__weights_check(const zr_weights *weights, const zr_tensor_spec *wanted, int64_t n, char *note,
                                         size_t size);

/** Return whether a tensor belongs to the head of a task (zr_hf_names.heads). */
bool zr__hf_is_of_head(const zr_hf_names *names, const char *tensor);
/** Return whether the files have a tensor, in any spelling of its name. */
bool zr__weights_have(const zr_weights *weights, const char *name);

/** Files of an adapter directory of peft (adapter.c), and the prefix of the names of tensors in it. */
#define ZR_ADAPTER_CONFIG "adapter_config.json"
#define ZR_ADAPTER_SINGLE "adapter_model.safetensors"
#define ZR_ADAPTER_PREFIX "base_model.model."

/** Name of the weights of adapters in the older format of PyTorch, which zr does not read, and what to do about it. */
#define ZR_ADAPTER_PICKLED "adapter_model.bin"
#define ZR_ADAPTER_PICKLED_REMEDY                                                                                      \
    "zr does not read " ZR_ADAPTER_PICKLED "; load the adapter with peft and save it again, which writes "             \
    "safetensors: PeftModel.from_pretrained(BASE, DIR).save_pretrained(OUT)"

/** An adapter directory of peft. */
typedef struct zr__adapter {
    zr_lora lora;    /* rank, alpha and dropout, and the adapted layers, borrowed from `targets` or from elsewhere */
    char *targets;   /* full names of the layers in the file, one per line, owned by this struct; NULL if `lora` borrows
                        its list elsewhere */
    char base[4096]; /* path of the base model; "" if unknown */
    bool by_columns; /* whether the adapted weights have the shape (inputs, outputs), as in GPT-2 */
    bool predicts_next; /* whether the model predicts the next token; only for writing */
    int64_t tensors;    /* number of tensors in the file */
} zr__adapter;

/** Return whether a directory has an adapter_config.json. */
bool zr__adapter_is_in(const char *dir);
/** Return the name of the file with an adapter's weights: adapter_model.safetensors, or model.safetensors in a
 * checkpoint. */
const char *zr__adapter_weights(const char *dir);
/** Read adapter_config.json and the names of the tensors. Call zr__adapter_clear afterwards, also on failure. Errors:
 * ZR_ERR_NOT_FOUND; ZR_ERR_DATA naming a key that zr does not support, or a tensor that is no factor. */
ZR_NODISCARD zr_status zr__adapter_read(const char *dir, zr__adapter *adapter);
void zr__adapter_clear(zr__adapter *adapter);
/** Write adapter_config.json in a form that peft reads. Errors: as zr_hf_write. */
ZR_NODISCARD zr_status zr__adapter_write(const char *dir, const zr__adapter *adapter);

/** Add the weights of an adapter directory. The weights own adapter->targets from then on, also on failure. */
ZR_NODISCARD zr_status zr__weights_adapt(zr_weights *weights, const char *dir, zr__adapter *adapter);

/** Return the number of weight files (_files), or file number i in the order of the index file (_file). */
int64_t zr__weights_files(const zr_weights *weights);
const zr_safetensors *zr__weights_file(const zr_weights *weights, int64_t i);

/** Return the total bytes of n files from number `first` on (_bytes), or compute a hash of all these bytes (_hash). The
 * hash reads every byte once, and reports its progress to fn, which may be NULL. Error: ZR_ERR_IO. */
int64_t zr__weights_bytes(const zr_weights *weights, int64_t first, int64_t n);
ZR_NODISCARD zr_status zr__weights_hash(const zr_weights *weights, int64_t first, int64_t n, uint64_t *hash,
                                        zr_progress_fn fn, void *arg);
/** Return the printable path of the file that has a tensor, or of the directory if no file has it. */
const char *zr__weights_file_of(const zr_weights *weights, const char *name);

/** Key in config.json of a checkpoint: the files and types of the directory from which its weights came. */
#define ZR_HF_FILES_KEY "zr_weights"
/** Record of a Hugging Face directory from which weights come: the keys of its config.json, and the file and the type
 * of each tensor. A checkpoint's config.json has the files and types too (ZR_HF_FILES_KEY), so that weights get the
 * same form again when they are exported. */
typedef struct zr__hf_source zr__hf_source;

/** Read the record of a Hugging Face directory or of a checkpoint. `weights` are the weights of the directory. They may
 * be NULL: then only a record in config.json has files and types. Errors: ZR_ERR_NOT_FOUND, ZR_ERR_DATA, ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__hf_source_read(const char *dir, const zr_weights *weights, zr__hf_source **source);
void zr__hf_source_free(zr__hf_source **source);
/** Return whether config.json in the directory has a key with a value other than null. */
bool zr__hf_source_has(const zr__hf_source *source, const char *key);

/** Write dir/config.json as zr_hf_write does, with weights of type `dtype`. If `source` is not NULL, also write the
 * keys of its config.json that the family does not know, such as "use_cache". If `record` is true, add the record of
 * files and types, as in a checkpoint. */
ZR_NODISCARD zr_status zr__hf_write_like(const char *dir, const zr_family *family, const zr_model_config *config,
                                         const zr__hf_source *source, zr_dtype dtype, bool record);

/** Form of weights that are written into a directory. */
typedef struct zr__weights_form {
    const zr_hf_names *names;
    const zr__hf_source *source; /* source of the names of tensors; NULL if the weights come from no directory */
    bool same_types;             /* whether to keep the types of the source, if it has all tensors */
    zr_dtype dtype;              /* otherwise, the type of all tensors: F32, BF16 or F16 */
    int64_t file_bytes; /* maximum bytes of tensors in a file; tensors are assigned to files in order, and a tensor that
                           is larger gets a separate file, as with max_shard_size of transformers. 0 keeps the files of
                           the source, or writes one file if they are unknown */
} zr__weights_form;

/** Plan of the weight files in a directory. If all tensors fit in one file, it is model.safetensors. Otherwise the
 * files have the names of the source's files, or model-00001-of-00003.safetensors and so on, and there is an index,
 * model.safetensors.index.json. */
typedef struct zr__weights_out zr__weights_out;

/** Assign n tensors to files; no file is written yet. `spec` and the source are borrowed. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__weights_create(const char *dir, const zr__weights_form *form, const zr_tensor_spec *spec,
                                          int64_t n, zr__weights_out **out);
void zr__weights_out_close(zr__weights_out **out);
/** Return the number of files (_files), or the type of most elements (_dtype). */
int64_t zr__weights_out_files(const zr__weights_out *out);
zr_dtype zr__weights_out_dtype(const zr__weights_out *out);

/** Create all files at their full size, with tensors that are all zero, and the index. `suffix` is appended to the name
 * model.safetensors or of the index, to show that the weights are not complete; "" for none. On failure, files may be
 * left (zr__weights_remove). Errors: as zr_safetensors_create. */
ZR_NODISCARD zr_status zr__weights_make(const zr__weights_out *out, const char *suffix);

/** Open the files that zr__weights_make created with `suffix`, for writing. Any number of threads and processes may do
 * so at once if they write different ranges. Close with zr_weights_close. */
ZR_NODISCARD zr_status zr__weights_attach(const char *dir, const zr_hf_names *names, const char *suffix,
                                          zr_weights **weights);
/** Write elements [first, first+n) of a tensor. Errors: as zr_safetensors_write. */
ZR_NODISCARD zr_status zr__weights_write(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                         const float *in);
/** Make all writes durable (fsync). Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__weights_sync(const zr_weights *weights);

/** Remove the weight files of a directory that were made with `suffix`, and their index. */
void zr__weights_remove(const char *dir, const char *suffix);

/** Read the names of n labels in id2label of a directory's config.json. *names receives an array of n names in one
 * allocation, for zr_free, or NULL if the file has another number of names. */
ZR_NODISCARD zr_status zr__hf_label_names(const char *dir, int64_t n, const char ***names);

#endif
