/**
 * checkpoint: safetensors files (safetensors.h), checkpoints in chunks with checksums (chunks.h, manifest.h), the
 * directories of a run's checkpoints (run_steps.c), Hugging Face directories (hf.h, weights.c) and adapter directories
 * of peft (adapter.c). This header declares functions that the layers train and cli need besides zr/checkpoint.h. They
 * write these files and directories, and read checkpoints with their checksums.
 */
#ifndef ZR_CHECKPOINT_CHECKPOINT_H
#define ZR_CHECKPOINT_CHECKPOINT_H

#include "base/file/commit.h"
#include "zr/checkpoint.h"

/* ---- safetensors ------------------------------------------------------------------------------ */

/** Return whether a tensor in a file has this shape. */
bool zr__safetensors_has_shape(const zr_safetensors_tensor *tensor, const zr_shape *shape);
/** Print a tensor's dimensions into `text`, as "(2, 3)" or, if they are more than ZR_MAX_DIMS, their number. Return
 * `text`. */
const char *zr__safetensors_print_dims(const zr_safetensors_tensor *tensor, char text[ZR_QUOTE_BYTES]);
/** Return the path by which the file was opened. */
const char *zr__safetensors_path(const zr_safetensors *st);

/** Name and shape of a tensor to be written. */
typedef struct zr__tensor_spec {
    const char *name;
    zr_shape shape;
} zr__tensor_spec;

/** Create a safetensors file at its full size, with tensors that are all zero. Tensor i has the type dtype[i]: F32,
 * BF16 or F16; if `dtype` is NULL, all are F32. The tensors have the given order, and the metadata are
 * {"format":"pt"}. The header is padded with spaces, so that the data begin at a multiple of 4096 bytes for direct I/O.
 * Errors: ZR_ERR_CREATE if the path exists; ZR_ERR_IO if the disk is full; ZR_ERR_ARG if a name is empty or used twice,
 * or a size overflows. */
ZR_NODISCARD zr_status zr__safetensors_create(const char *path, const zr_dtype *dtype, const zr__tensor_spec *spec,
                                              int64_t n);

/** Open a file made by zr__safetensors_create for writing and reading. Any number of threads and processes may do so at
 * once if they write different ranges. Close the file with zr_safetensors_close. */
ZR_NODISCARD zr_status zr__safetensors_attach(const char *path, zr_safetensors **st);

/** Write elements [first, first+n) of a tensor. For BF16 and F16 tensors, elements are rounded to nearest. Errors:
 * ZR_ERR_DTYPE if a finite number exceeds the type's range; ZR_ERR_IO; ZR_ERR_ARG if the range is not inside the
 * tensor; ZR_ERR_STATE if the file was not opened with zr__safetensors_attach. */
ZR_NODISCARD zr_status zr__safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                             int64_t first, int64_t n, const float *in);

/* ---- checkpoints ------------------------------------------------------------------------------ */

/* Each file of a checkpoint is divided into chunks, and each chunk has its own XXH3-64 hash. To read a part of a
 * file, only the chunks of this part are checked. A chunk ends at every multiple of ZR_CHUNK_BYTES, and also where a
 * contiguous range of one writer begins or ends.
 *
 * With tensor parallelism, the columns of a matrix are divided among the ranks. Each rank then writes a slice of
 * every row, between the slices of other ranks (zr__slices). If each slice were a chunk, the manifest would grow with
 * the number of rows. A chunk of such a matrix therefore consists of all slices of one rank between two multiples of
 * ZR_CHUNK_BYTES. Chunks whose bytes interleave are read together.
 *
 * A save has five steps. First call zr__checkpoint_begin, and create each file with zr__safetensors_create. Second,
 * each writer writes its ranges (zr__chunk_writer). Third, zr__manifest_describe hashes the headers and small
 * files. Fourth, zr__manifest_write writes the manifest. Last, zr__checkpoint_commit gives the directory its final
 * name. One process takes all steps except the second. No function in this section is collective. */

#define ZR_CHUNK_BYTES ((int64_t)4 << 20)

/** Chunk of a file: `bytes` bytes from `offset` on, and their XXH3-64 hash. No chunk crosses a multiple of
 * ZR_CHUNK_BYTES. A chunk is contiguous, except in slices of rows (zr__slices): there it consists of slices of one
 * rank.
 */
typedef struct zr__chunk {
    int64_t offset, bytes;
    uint64_t hash;
} zr__chunk;

/** Bytes [begin, end) of a file with a matrix whose columns are divided among ranks. The matrix has rows of row_bytes.
 * Each row consists of two or more slices of slice_bytes. Each rank owns the slices at one position, for example the
 * first slice of every row. */
typedef struct zr__slices {
    int64_t begin, end, row_bytes, slice_bytes;
} zr__slices;

/** Writer of ranges of a file that already has its full size (zr__safetensors_create). Any number of threads and
 * processes may write to one file, each with its own writer. Writes bypass the page cache (O_DIRECT) if the file system
 * allows this. Only the bytes at the ends of a range, before its first and after its last multiple of 4096, pass
 * through the page cache. A writer has a thread and two buffers. The thread writes one buffer while the caller fills
 * and hashes the other one. */
typedef struct zr__chunk_writer zr__chunk_writer;

/** Open a writer. `writers`: number of writers that this process uses at once. It sets the size of a writer's
 * buffer, so that the buffers of up to 128 writers take at most 16 MiB in total. Errors: ZR_ERR_NOT_FOUND if the file
 * is missing, is not a regular file or is a symbolic link; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__chunk_writer_open(const char *path, int writers, zr__chunk_writer **writer);
/** Copy n bytes, to be written at `offset` in the file. Offsets must ascend. A put that begins at the end of the last
 * put continues the same range; any other put begins a new range. All bytes must lie inside the file.
 *
 * If `slices` is not NULL, the bytes belong to one slice, that is, to a range of columns. The bytes of one row are
 * followed by the bytes of the same columns of the next row. One writer must write a whole slice, in ascending order,
 * without other puts in between. Writers of neighbouring slices must pass the same `slices`.
 *
 * Errors: ZR_ERR_ARG for the offset or n, or if the bytes are outside the slices; ZR_ERR_STATE after
 * zr__chunk_writer_end; ZR_ERR_IO naming the file and the byte, if the bytes of this put or of an earlier put could not
 * be written. After a failure, every later call returns the same status, because the system may report a later fsync as
 * successful although it has dropped bytes. */
ZR_NODISCARD zr_status zr__chunk_writer_put(zr__chunk_writer *writer, const zr__slices *slices, int64_t offset,
                                            const void *bytes, int64_t n);
/** Finish after the last put. Return ZR_OK only if all bytes are on the disk (fsync). Call this exactly once. Error:
 * ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__chunk_writer_end(zr__chunk_writer *writer);
/** Return the written chunks in ascending order, and store their number in *n. The writer owns them. Before
 * zr__chunk_writer_end has succeeded, return NULL and set *n to 0. */
const zr__chunk *zr__chunk_writer_chunks(const zr__chunk_writer *writer, int64_t *n);
/** Close a writer, which may be NULL. If zr__chunk_writer_end has not been called, the contents of the file are
 * undefined. */
void zr__chunk_writer_close(zr__chunk_writer **writer);

/** Read bytes [first, end) of a file, and return their chunks with hashes. An `end` of -1 means the end of the file.
 * Use this for headers and small files. Free *chunk with zr_free; *chunk is NULL if the range is empty. Errors:
 * ZR_ERR_NOT_FOUND; ZR_ERR_ARG if the range is not inside the file; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__chunks_of_file(const char *path, int64_t first, int64_t end, zr__chunk **chunk, int64_t *n);

/** Manifest entry of one file of a checkpoint. The file's name begins with a letter or digit. It may contain letters,
 * digits, '.', '_' and '-'. */
typedef struct zr__manifest_file {
    const char *name;
    int64_t bytes;
    const zr__chunk *chunk; /* chunks of the file; ascending if the manifest was read from disk */
    int64_t n_chunks;
    const zr__slices *slices; /* slices of the file; ascending and unique if the manifest was read from disk */
    int64_t n_slices;
} zr__manifest_file;

/** Contents of manifest.json. The file is one JSON object and a newline. Its members always have this order:
 *    {"format": 1, "build": VERSION, "step": N, "run": {...},
 *     "files": [{"name": NAME, "bytes": N, "ends": [OFFSET, ...], "xxh3": "HASH HASH ..."}, ...],
 *     "xxh3": HASH}
 * "ends" lists the ends of chunks in ascending order, except multiples of ZR_CHUNK_BYTES and the end of the file. A
 * file's "xxh3" has one hash of 16 hex digits for each chunk, in the order of the chunks' first bytes. The last
 * "xxh3" is the XXH3-64 hash of all bytes before this member. In every future format "format" stays first and "xxh3"
 * last.
 *
 * If any file has slices, "format" is 2. Each file with slices then also has this member after "ends":
 *    "slices": [[begin, end, row_bytes, slice_bytes], ...]
 * The entries are in ascending order. "ends" then includes the begin and the end of the slices, but no offset between
 * them. A version of zr that does not know slices reads only format 1, and reports format 2 as unsupported. */
typedef struct zr__manifest {
    int64_t step;
    const char *build; /* version of zr that wrote the checkpoint: printable ASCII without quotes and backslashes */
    const char *run;   /* JSON text of the member "run", as zr__json_print prints it; the train layer defines it */
    const zr__manifest_file *file;
    int n_files;
} zr__manifest;

/** Newest manifest format that zr reads. Manifests without slices are written as format 1. */
#define ZR_MANIFEST_FORMAT 2
/** Maximum size in bytes of a manifest that zr reads or writes. */
#define ZR_MANIFEST_MAX_BYTES ((int64_t)256 << 20)

/** Write dir/manifest.json and make it durable (fsync). Chunks may be in any order, and slices may have duplicates.
 * Errors: ZR_ERR_INTERNAL if the chunks do not cover a file exactly, or if a reader would refuse the manifest for
 * another reason; ZR_ERR_CREATE if a manifest exists; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__manifest_write(const char *dir, const zr__manifest *manifest);
/** Read and check dir/manifest.json. Also check that the checkpoint's files exist, are regular files and have the
 * recorded sizes. The contents of the files are not read. Neither the files nor `dir` may be symbolic links. The
 * call needs about four times the manifest's size in memory. Free the result with zr__manifest_free. Errors:
 * - ZR_ERR_NOT_FOUND if the directory is missing or has no manifest (an unfinished checkpoint)
 * - ZR_ERR_DATA if the manifest is damaged or has a newer format, or if its step differs from the directory's
 * - ZR_ERR_DATA if a file is missing, has another size or is not regular; the message names file and fault
 * - ZR_ERR_IO if a file exists but cannot be opened, or if reading fails */
ZR_NODISCARD zr_status zr__manifest_read(const char *dir, zr__manifest **manifest);
void zr__manifest_free(zr__manifest **manifest);

/** Reader of one safetensors file of a checkpoint, for one thread. It reads each chunk into a buffer of at most
 * ZR_CHUNK_BYTES and checks the chunk's hash. Consecutive reads from the same chunk use this buffer. Chunks of slices
 * whose bytes interleave are read together. */
typedef struct zr__chunk_reader zr__chunk_reader;

/** Open dir/name, check the header's chunks and parse the list of tensors. `manifest` is borrowed until the reader is
 * closed. `readers` is the number of this host's ranks that read the file at once. With one or two readers, each
 * reader has a thread and a second buffer. The thread prefetches the next chunk, bypassing the page cache, while the
 * caller uses the current chunk. Errors: ZR_ERR_DATA naming the file if it is missing, damaged (the message then also
 * gives the bytes), not in the manifest, a link, of another size or not a safetensors file; ZR_ERR_IO; ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__chunk_reader_open(const char *dir, const zr__manifest *manifest, const char *name,
                                             int readers, zr__chunk_reader **reader);
/** Read elements [first, first+n) of an F32 tensor into `out` (n). Each chunk is checked before its elements are
 * written to `out`. Errors: ZR_ERR_DATA naming file, bytes and tensor if a chunk is damaged, or if the tensor is
 * missing or has another type; ZR_ERR_ARG if the range is not inside the tensor; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__chunk_reader_f32(zr__chunk_reader *reader, const char *tensor, int64_t first, int64_t n,
                                            float *out);
/** Return the file's list of tensors, to look up names, types and shapes (zr_safetensors_count, _get, _find). Do not
 * read data through the result, because such reads would bypass the checks. */
const zr_safetensors *zr__chunk_reader_tensors(const zr__chunk_reader *reader);
void zr__chunk_reader_close(zr__chunk_reader **reader);

/** Return the step in a checkpoint's name, 1000 for "step-00001000", or -1 if the name has another form. */
int64_t zr__checkpoint_step(const char *name);
/** Create the empty directory run_dir/step-N.tmp for a new checkpoint, after removing the remains of a failed attempt.
 * Errors: ZR_ERR_STATE if a checkpoint of this step exists (if it is damaged, remove it first); ZR_ERR_CREATE;
 * ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__checkpoint_begin(const char *run_dir, int64_t step);
/** Rename step-N.tmp to step-N atomically. All its files must have been synced before. Then replace run_dir/latest, a
 * text file with the checkpoint's name and a newline. `latest` is for users and other tools; zr itself lists the
 * directories. Errors: ZR_ERR_CREATE if step-N is complete and on the disk but `latest` could not be written; ZR_ERR_IO
 * otherwise. After ZR_ERR_IO a complete step-N may exist too. */
ZR_NODISCARD zr_status zr__checkpoint_commit(const char *run_dir, int64_t step);
/** Remove step-N and step-N.tmp. Return ZR_OK if neither exists. step-N is first renamed to step-N.tmp, so that an
 * incomplete checkpoint never has the final name. Only files that a checkpoint may have (*.json, *.safetensors) are
 * removed. Links are removed, not followed. Fail with ZR_ERR_IO naming a file that could not be removed, or a foreign
 * file, which stays in step-N.tmp. */
ZR_NODISCARD zr_status zr__checkpoint_remove(const char *run_dir, int64_t step);

/** Return the slices that were written, in ascending order, and their number in *n; the writer owns them. Until
 * zr__chunk_writer_end has succeeded, return NULL and set *n to 0. */
const zr__slices *zr__chunk_writer_slices(const zr__chunk_writer *writer, int64_t *n);

/** Describe the file dir/name for a manifest. If `tensors` is true, the file is a safetensors file: only the hashes of
 * its header's chunks are computed here, and `written` has the n chunks of its tensors with their hashes. Otherwise the
 * hashes of all chunks are computed here.
 * `name` is borrowed; free file->chunk with zr_free, also after a failure. Errors: as for zr__chunks_of_file, and
 * ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__manifest_describe(const char *dir, const char *name, bool tensors, const zr__chunk *written,
                                             int64_t n, zr__manifest_file *file);

/** Return the entry of the file called `name`, or NULL if the manifest does not list it. */
const zr__manifest_file *zr__manifest_find(const zr__manifest *manifest, const char *name);

/** Check every byte of one file of a checkpoint against the checksums, before the file is read. If memory allows, later
 * reads come from the page cache. Errors: ZR_ERR_DATA naming the file and the first damage; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__checkpoint_check_file(const char *dir, const zr__manifest *manifest, const char *name);

/* ---- Hugging Face directories ------------------------------------------------------------------- */

/** Check that the weights fit a model: each of the n wanted tensors must be present, loadable and of the wanted shape.
 * Otherwise fail with ZR_ERR_DATA and a list of the missing or wrong tensors. Names match with and without the family's
 * prefix. `note` (`size` bytes, may be NULL) receives the names of tensors that the model does not want, except
 * redundant tensors (zr_hf_names). Without unwanted tensors, `note` becomes "". */
ZR_NODISCARD zr_status zr__weights_check(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n,
                                         char *note, size_t size);

/** Return whether a tensor belongs to the head of a task (zr_hf_names.heads). */
bool zr__hf_is_of_head(const zr_hf_names *names, const char *tensor);
/** Return whether a tensor has a different meaning in each task that has it (zr_hf_names.outputs). */
bool zr__hf_is_output(const zr_hf_names *names, const char *tensor);
/** Return whether the files have a tensor, in any spelling of its name. */
bool zr__weights_have(const zr_weights *weights, const char *name);
/** Return whether the files of another task have a tensor with the same meaning. */
bool zr__weights_share(const zr_weights *weights, const char *name);

/** Files of an adapter directory of peft (adapter.c), and the prefix of the names of tensors in it. */
#define ZR_ADAPTER_CONFIG "adapter_config.json"
#define ZR_ADAPTER_SINGLE "adapter_model.safetensors"
#define ZR_ADAPTER_PREFIX "base_model.model."

/** Name of an adapter's weights in the older format of PyTorch, which zr does not read, and advice for its users. */
#define ZR_ADAPTER_PICKLED "adapter_model.bin"
#define ZR_ADAPTER_PICKLED_REMEDY                                                                                      \
    "zr does not read " ZR_ADAPTER_PICKLED "; load the adapter with peft and save it again, which writes "             \
    "safetensors: PeftModel.from_pretrained(BASE, DIR).save_pretrained(OUT)"

/** An adapter directory of peft. */
typedef struct zr__adapter {
    /* rank, alpha, dropout and adapted layers; the list of layers is borrowed from `targets` or elsewhere */
    zr_lora lora;
    /* full names of the layers in the file, one per line, owned by this struct; NULL if `lora` borrows its list from
     * elsewhere */
    char *targets;
    char base[4096];    /* path of the base model; "" if unknown */
    bool by_columns;    /* whether the adapted weights have the shape (inputs, outputs), as in GPT-2 */
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

/** Read the record of a Hugging Face directory or of a checkpoint. `weights` are the weights of the directory. If they
 * are NULL, files and types come only from a record in config.json. Errors: ZR_ERR_NOT_FOUND, ZR_ERR_DATA,
 * ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__hf_source_read(const char *dir, const zr_weights *weights, zr__hf_source **source);
void zr__hf_source_free(zr__hf_source **source);
/** Give the record other names of labels, one on each line of a text: id2label and label2id of its config.json. If
 * *source is NULL, create an empty record. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__hf_source_label(zr__hf_source **source, const char *names);
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
    zr_dtype dtype;              /* type of all tensors if their types are not kept: F32, BF16 or F16 */
    /* maximum bytes of tensors in a file; tensors are assigned to files in order, and a tensor that is larger gets a
     * separate file, as with max_shard_size of transformers. 0 keeps the files of the source, or writes one file if
     * they are unknown */
    int64_t file_bytes;
} zr__weights_form;

/** Plan of the weight files in a directory. If all tensors fit in one file, it is model.safetensors. Otherwise the
 * files have the names of the source's files, or model-00001-of-00003.safetensors and so on, and there is an index,
 * model.safetensors.index.json. */
typedef struct zr__weights_out zr__weights_out;

/** Assign n tensors to files; no file is written yet. `spec` and the source are borrowed. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__weights_create(const char *dir, const zr__weights_form *form, const zr__tensor_spec *spec,
                                          int64_t n, zr__weights_out **out);
void zr__weights_out_close(zr__weights_out **out);
/** Return the number of files (_files), or the type of most elements (_dtype). */
int64_t zr__weights_out_files(const zr__weights_out *out);
zr_dtype zr__weights_out_dtype(const zr__weights_out *out);

/** Create all files at their full size, with tensors that are all zero, and the index. `suffix` is appended to the name
 * of model.safetensors or of the index, to show that the weights are not complete; "" for none. On failure, files may
 * be left (zr__weights_remove). Errors: as zr__safetensors_create. */
ZR_NODISCARD zr_status zr__weights_make(const zr__weights_out *out, const char *suffix);

/** Open the files that zr__weights_make created with `suffix`, for writing. Any number of threads and processes may do
 * so at once if they write different ranges. Close with zr_weights_close. */
ZR_NODISCARD zr_status zr__weights_attach(const char *dir, const zr_hf_names *names, const char *suffix,
                                          zr_weights **weights);
/** Write elements [first, first+n) of a tensor. Errors: as zr__safetensors_write. */
ZR_NODISCARD zr_status zr__weights_write(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                         const float *in);
/** Make all writes durable (fsync). Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__weights_sync(const zr_weights *weights);

/** Remove the weight files of a directory that were made with `suffix`, and their index. */
void zr__weights_remove(const char *dir, const char *suffix);

/** Find whether the transformers class of a directory is the model's class, so that the weights have the model's head.
 * A directory without a class has the family's first task. Errors: as zr__hf_source_read. */
ZR_NODISCARD zr_status zr__hf_has_head(const char *dir, const zr_family *family, const zr_model_config *config,
                                       bool *has);

/** Read the names of n labels in id2label of a directory's config.json. *names receives an array of n names in one
 * allocation, for zr_free, or NULL if the file has another number of names. */
ZR_NODISCARD zr_status zr__hf_label_names(const char *dir, int64_t n, const char ***names);

#endif
