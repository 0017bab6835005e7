/**
 * checkpoint: weights on disk. This layer reads and writes safetensors files, checkpoints with a checksum over every
 * byte, and Hugging Face directories. Files are created atomically.
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

/** Name and shape of a tensor to be written. */
typedef struct zr_tensor_spec {
    const char *name;
    zr_shape shape;
} zr_tensor_spec;

/** Create a safetensors file at its full size, with fp32 tensors that are all zero. The tensors have the given order,
 * and the metadata are {"format":"pt"}. The header is padded with spaces, so that the data begin at a multiple of
 * 4096 bytes for direct I/O. Errors: ZR_ERR_CREATE if the path exists; ZR_ERR_IO if the disk is full; ZR_ERR_ARG if a
 * name is empty or used twice, or a size overflows. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n);

/** Open a file made by zr_safetensors_create for writing and reading. Any number of threads and processes may do so at
 * once if they write different ranges. Close the file with zr_safetensors_close. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_attach(const char *path, zr_safetensors **st);

/** Write elements [first, first+n) of a tensor. For BF16 and F16 tensors, elements are rounded to nearest. Errors:
 * ZR_ERR_DTYPE if a finite number exceeds the type's range; ZR_ERR_IO; ZR_ERR_ARG if the range is not inside the
 * tensor; ZR_ERR_STATE if the file was not opened with zr_safetensors_attach. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                   int64_t first, int64_t n, const float *in);

/** Make all writes durable (fsync). Every writer calls this function. Afterwards one writer gives the file its final
 * name. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_sync(const zr_safetensors *st);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint of a run is a directory such as RUN_DIR/step-00001000. It holds config.json, model.safetensors, one
 * safetensors file for each state of the optimizer, and manifest.json. The manifest is written last. The manifest has
 * checksums of every byte of all files, including the manifest itself. Files hold whole tensors, whichever rank wrote
 * which range. A checkpoint therefore does not depend on the layout of the run that wrote it.
 *
 * Each file is divided into chunks, and each chunk has its own XXH3-64 hash. A reader of a part of the file therefore
 * checks only that part. A chunk ends at every multiple of ZR_CHUNK_BYTES, and also where a contiguous range of one
 * writer begins or ends.
 *
 * With tensor parallelism, the columns of a matrix are divided among the ranks. Each rank then writes a slice of
 * every row, between the slices of other ranks (zr_slices). If each slice were a chunk, the manifest would grow with
 * the number of rows. A chunk of such a matrix therefore consists of all slices of one rank between two multiples of
 * ZR_CHUNK_BYTES. Chunks whose bytes interleave are read together.
 *
 * A save has five steps. First call zr_checkpoint_begin, and create each file with zr_safetensors_create. Second,
 * each writer writes its ranges (zr_chunk_writer). Third, zr_chunks_of_file hashes the headers and small files.
 * Fourth, zr_manifest_write writes the manifest. Last, zr_checkpoint_commit gives the directory its final name. One
 * process takes all steps except the second. No function in this section is collective. */

#define ZR_CHUNK_BYTES ((int64_t)4 << 20)

/** Chunk of a file: `bytes` bytes from `offset` on, and their XXH3-64 hash. No chunk crosses a multiple of
 * ZR_CHUNK_BYTES. A chunk is contiguous, except in slices of rows (zr_slices): there it consists of slices of one rank.
 */
typedef struct zr_chunk {
    int64_t offset, bytes;
    uint64_t hash;
} zr_chunk;

/** Bytes [begin, end) of a file with a matrix whose columns are divided among ranks. The matrix has rows of row_bytes.
 * Each row consists of two or more slices of slice_bytes. Each rank owns the slices at one position, for example the
 * first slice of every row. */
typedef struct zr_slices {
    int64_t begin, end, row_bytes, slice_bytes;
} zr_slices;

/** Writer of ranges of a file that already has its full size (zr_safetensors_create). Any number of threads and
 * processes may write to one file, each with its own writer. Writes bypass the page cache (O_DIRECT) if the file system
 * allows this. Only the bytes at the ends of a range, before its first and after its last multiple of 4096, pass
 * through the page cache. A writer has a thread and two buffers. The thread writes one buffer while the caller fills
 * and hashes the other one. */
typedef struct zr_chunk_writer zr_chunk_writer;

/** Open a writer. `writers` is the number of writers that this process uses at once. The buffers of up to 128 writers
 * take 16 MiB together. Errors: ZR_ERR_NOT_FOUND if the file is missing, is not a regular file or is a symbolic link;
 * ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_open(const char *path, int writers, zr_chunk_writer **writer);
/** Copy n bytes, to be written at `offset` in the file. Offsets must ascend. A put that begins at the end of the last
 * put continues the same range; any other put begins a new range. All bytes must lie inside the file. Errors:
 * ZR_ERR_ARG for the offset or n; ZR_ERR_STATE after zr_chunk_writer_end; ZR_ERR_IO naming the file and the byte, if
 * the bytes of this put or of an earlier put could not be written. After a failure, every later call returns the same
 * status, because the system may report a later fsync as successful although it has dropped bytes. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_put(zr_chunk_writer *writer, int64_t offset, const void *bytes,
                                                  int64_t n);
/** Finish after the last put. Return ZR_OK only if all bytes are on the disk (fsync). Call this exactly once. Error:
 * ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_end(zr_chunk_writer *writer);
/** Return the written chunks in ascending order, and store their number in *n. The writer owns them. Before
 * zr_chunk_writer_end has succeeded, return NULL and set *n to 0. */
ZR_API const zr_chunk *zr_chunk_writer_chunks(const zr_chunk_writer *writer, int64_t *n);
/** Close a writer, which may be NULL. If zr_chunk_writer_end has not been called, the contents of the file are
 * undefined. */
ZR_API void zr_chunk_writer_close(zr_chunk_writer **writer);

/** Read bytes [first, end) of a file, and return their chunks with hashes. An `end` of -1 means the end of the file.
 * Use this for headers and small files. Free *chunk with zr_free; *chunk is NULL if the range is empty. Errors:
 * ZR_ERR_NOT_FOUND; ZR_ERR_ARG if the range is not inside the file; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunks_of_file(const char *path, int64_t first, int64_t end, zr_chunk **chunk,
                                                int64_t *n);

/** Manifest entry of one file of a checkpoint. The file's name begins with a letter or digit. It may contain letters,
 * digits, '.', '_' and '-'. */
typedef struct zr_manifest_file {
    const char *name;
    int64_t bytes;
    const zr_chunk *chunk; /* chunks of the file; ascending if the manifest was read from disk */
    int64_t n_chunks;
    const zr_slices *slices; /* slices of the file; ascending and unique if the manifest was read from disk */
    int64_t n_slices;
} zr_manifest_file;

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
typedef struct zr_manifest {
    int64_t step;
    const char *build; /* version of zr that wrote the checkpoint: printable ASCII without quotes and backslashes */
    const char *run;   /* JSON text of the member "run", whose contents the train layer defines */
    const zr_manifest_file *file;
    int n_files;
} zr_manifest;

/** Newest manifest format that zr reads. Manifests without slices are written as format 1. */
#define ZR_MANIFEST_FORMAT 2
/** Maximum size in bytes of a manifest that zr reads or writes. */
#define ZR_MANIFEST_MAX_BYTES ((int64_t)256 << 20)

/** Write dir/manifest.json and make it durable (fsync). Chunks may be in any order, and slices may have duplicates.
 * Errors: ZR_ERR_INTERNAL if the chunks do not cover a file exactly, or if a reader would refuse the manifest for
 * another reason; ZR_ERR_CREATE if a manifest exists; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_manifest_write(const char *dir, const zr_manifest *manifest);
/** Read and check dir/manifest.json. Also check that the checkpoint's files exist, are regular files and have the
 * recorded sizes. The contents of the files are not read. Neither the files nor `dir` may be symbolic links. The
 * call needs about three times the manifest's size in memory. Free the result with zr_manifest_free. Errors:
 * - ZR_ERR_NOT_FOUND if the directory is missing or has no manifest (an unfinished checkpoint)
 * - ZR_ERR_DATA if the manifest is damaged or has a newer format, or if its step differs from the directory's
 * - ZR_ERR_DATA if a file is missing, has another size or is not regular; the message names file and fault
 * - ZR_ERR_IO if a file exists but cannot be opened, or if reading fails */
ZR_API ZR_NODISCARD zr_status zr_manifest_read(const char *dir, zr_manifest **manifest);
ZR_API void zr_manifest_free(zr_manifest **manifest);

/** Reader of one safetensors file of a checkpoint, for one thread. It reads each chunk into a buffer of at most
 * ZR_CHUNK_BYTES and checks the chunk's hash. Consecutive reads from the same chunk use this buffer. Chunks of slices
 * whose bytes interleave are read together. */
typedef struct zr_chunk_reader zr_chunk_reader;

/** Open dir/name, check the header's chunks and parse the list of tensors. `manifest` is borrowed until the reader is
 * closed. `readers` is the number of this host's ranks that read the file at once. With one or two readers, each
 * reader has a thread and a second buffer. The thread prefetches the next chunk, bypassing the page cache, while the
 * caller uses the current chunk. Errors: ZR_ERR_DATA naming the file if it is missing, damaged (the message then also
 * gives the bytes), not in the manifest, a link, of another size or not a safetensors file; ZR_ERR_IO; ZR_ERR_MEMORY.
 */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_open(const char *dir, const zr_manifest *manifest, const char *name,
                                                   int readers, zr_chunk_reader **reader);
/** Read elements [first, first+n) of an F32 tensor into `out` (n). Each chunk is checked before its elements are
 * written to `out`. Errors: ZR_ERR_DATA naming file, bytes and tensor if a chunk is damaged, or if the tensor is
 * missing or has another type; ZR_ERR_ARG if the range is not inside the tensor; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_f32(zr_chunk_reader *reader, const char *tensor, int64_t first, int64_t n,
                                                  float *out);
/** Return the file's list of tensors, to look up names, types and shapes (zr_safetensors_count, _get, _find). Do not
 * read data through the result, because such reads would bypass the checks. */
ZR_API const zr_safetensors *zr_chunk_reader_tensors(const zr_chunk_reader *reader);
ZR_API void zr_chunk_reader_close(zr_chunk_reader **reader);

/** Check every byte of a checkpoint. `report` (size bytes) receives one line "FILE: TEXT" for each damaged range or
 * file. It also receives a line for each file that is not in the manifest; such a file is not an error. Without lines,
 * `report` is "". fn receives the progress and may be NULL. Errors: ZR_ERR_DATA with the first damage in the message;
 * ZR_ERR_NOT_FOUND and ZR_ERR_DATA as from zr_manifest_read; ZR_ERR_IO if a file cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report,
                                                   size_t size);

#define ZR_CHECKPOINT_NAME_BYTES 32
/** Write the name of the checkpoint of a step to `name`, such as "step-00001000". The number has at least 8 digits.
 * `step` must not be negative. */
ZR_API void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES]);

/** List the steps of all checkpoints in run_dir, newest first. Only names are compared, so a checkpoint may be
 * incomplete; use zr_manifest_read to check it. Free *step with zr_free; *step is NULL if there is no checkpoint.
 * Errors: ZR_ERR_NOT_FOUND if run_dir is missing; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n);

/** Create the empty directory run_dir/step-N.tmp for a new checkpoint, after removing the remains of a failed attempt.
 * Errors: ZR_ERR_STATE if a checkpoint of this step exists (if it is damaged, remove it first); ZR_ERR_CREATE;
 * ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_begin(const char *run_dir, int64_t step);
/** Rename step-N.tmp to step-N atomically. All its files must have been synced before. Then replace run_dir/latest, a
 * text file with the checkpoint's name and a newline. `latest` is for users and other tools; zr itself lists the
 * directories. Errors: ZR_ERR_CREATE if step-N is complete and on the disk but `latest` could not be written; ZR_ERR_IO
 * otherwise. After ZR_ERR_IO a complete step-N may exist too. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_commit(const char *run_dir, int64_t step);
/** Remove step-N and step-N.tmp. Return ZR_OK if neither exists. step-N is first renamed to step-N.tmp, so that an
 * incomplete checkpoint never has the final name. Only files that a checkpoint may have (*.json, *.safetensors) are
 * removed. Links are removed, not followed. Fail with ZR_ERR_IO naming a file that could not be removed, or a foreign
 * file, which stays in step-N.tmp. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_remove(const char *run_dir, int64_t step);

/* ---- Hugging Face directories ---------------------------------------------------------------- */

/** Read dir/config.json of any family into its struct. Missing keys get the defaults of Hugging Face transformers.
 * Unknown keys are ignored, but not in objects with a member that zr knows. Errors: ZR_ERR_NOT_FOUND if the file is
 * missing; ZR_ERR_DATA if model_type is not a family, or if zr does not support the value of a field, which the message
 * names. */
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
