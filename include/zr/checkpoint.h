/**
 * checkpoint: weights on disk: safetensors files (a strict reader, and a writer of ranges), checkpoints with a checksum
 * over every byte, Hugging Face directories, and atomic creation of files.
 *
 * All input is untrusted: every size is checked against the file's size before it is used. Paths are plain bytes. Files
 * are read with pread, so several threads may use one reader at once.
 */
#ifndef ZR_CHECKPOINT_H
#define ZR_CHECKPOINT_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct zr_safetensors zr_safetensors;

/** A tensor in a file; all pointers are borrowed from the reader. */
typedef struct zr_safetensors_tensor {
    const char *name;  /* UTF-8 */
    const char *dtype; /* type as spelled in the file, such as "F32" or "I64" */
    bool loadable;     /* whether the type is F32, BF16 or F16, which can be read */
    int ndim;          /* number of dimensions, without limit */
    const int64_t *dim;
    int64_t elems;
    int64_t offset; /* offset of the tensor's first byte from the start of the file */
    int64_t bytes;
} zr_safetensors_tensor;

/** Open a file and check its header: sizes, JSON, names and types, and that the tensors cover the rest of the file
 * exactly (two empty tensors at the same offset are refused). Errors: ZR_ERR_NOT_FOUND if the file is missing,
 * unreadable or not a regular file; ZR_ERR_DATA with a message that names file and tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_open(const char *path, zr_safetensors **st);
ZR_API void zr_safetensors_close(zr_safetensors **st);

ZR_API int64_t zr_safetensors_count(const zr_safetensors *st);
/** Return tensor i, counted in the order of the tensors' bytes. */
ZR_API const zr_safetensors_tensor *zr_safetensors_get(const zr_safetensors *st, int64_t i);
/** Return the tensor of that name, or NULL if the file has none. */
ZR_API const zr_safetensors_tensor *zr_safetensors_find(const zr_safetensors *st, const char *name);

/** Read elements [first, first+n) as fp32 into `out` (n). BF16 and F16 are widened exactly. Errors: ZR_ERR_DATA if the
 * tensor has another type; ZR_ERR_IO if the file has changed since it was opened or cannot be read; ZR_ERR_ARG for a
 * range outside the tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_read_f32(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                      int64_t first, int64_t n, float *out);

/** Name and shape of a tensor to be written. */
typedef struct zr_tensor_spec {
    const char *name;
    zr_shape shape;
} zr_tensor_spec;

/** Create a file of fp32 tensors, all zero, at its full size. The header is padded with spaces so that the data
 * begin at a multiple of 4096 (for direct I/O); tensors follow in the order given; the metadata are
 * {"format":"pt"}. Errors: ZR_ERR_CREATE if the path exists; ZR_ERR_IO if the disk is full; ZR_ERR_ARG for
 * duplicate or empty names or sizes that overflow. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n);

/** Open a created file for writing and reading. Any number of threads and processes may do so at once, each writing its
 * own ranges. Close it with zr_safetensors_close. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_attach(const char *path, zr_safetensors **st);

/** Write elements [first, first+n) of a tensor. BF16 and F16 are rounded to nearest. Errors: ZR_ERR_DTYPE if a finite
 * number is beyond the type's range; ZR_ERR_IO; ZR_ERR_ARG for a range outside the tensor; ZR_ERR_STATE if the file was
 * not opened with attach. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                   int64_t first, int64_t n, const float *in);

/** Make all writes durable (fsync). Every writer calls this; then a single writer commits the file's name. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_sync(const zr_safetensors *st);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint of a run is the directory RUN_DIR/step-00001000. It holds config.json, model.safetensors, one more
 * safetensors file for each state of the optimizer, and manifest.json, which is written last and has checksums of every
 * byte of all files, itself included. A checkpoint does not depend on the layout that wrote it: a file holds whole
 * tensors, whichever rank wrote which range.
 *
 * A file is divided into chunks at every offset that is a multiple of ZR_CHUNK_BYTES, and at both ends of each range
 * that one writer wrote without a gap. Chunks cover the file, and each has its own XXH3-64 hash, so that the reader of
 * a part needs to check only that part.
 *
 * Tensor-parallel ranks write the columns of a matrix: each rank writes its slice of every row, next to the other
 * ranks' slices. In such a matrix a chunk is the part of one rank's slices between two multiples of ZR_CHUNK_BYTES,
 * with one checksum for all its rows (zr_slices); otherwise the manifest would grow with the number of rows. Chunks
 * whose bytes interleave are read together.
 *
 * Steps of a save: call zr_checkpoint_begin, then zr_safetensors_create for each file; each writer writes its ranges
 * (zr_chunk_writer); zr_chunks_of_file hashes the headers and small files; then zr_manifest_write and
 * zr_checkpoint_commit. One process takes all steps except those of the writers. No call here is collective. */

#define ZR_CHUNK_BYTES ((int64_t)4 << 20)

/** A chunk: bytes of a file from `offset` on, which never cross a multiple of ZR_CHUNK_BYTES, and their XXH3-64 hash.
 * The bytes are contiguous, unless `offset` lies in slices of rows; then they are bytes of the slices of one rank. */
typedef struct zr_chunk {
    int64_t offset, bytes;
    uint64_t hash;
} zr_chunk;

/** Bytes [begin, end) of a file that are rows of row_bytes, each made of two or more slices of slice_bytes. The first
 * slices of all rows belong to one rank, the second slices to the next rank, and so on. */
typedef struct zr_slices {
    int64_t begin, end, row_bytes, slice_bytes;
} zr_slices;

/** Writer of ranges of a file that already has its full size (zr_safetensors_create). Any number of writers, in threads
 * or processes, may write ranges of one file; a writer serves one thread. Bytes bypass the page cache (O_DIRECT) where
 * the file system allows it, except a range's bytes before its first and after its last multiple of 4096. A writer has
 * a thread and two buffers: it writes one buffer while the caller fills and hashes the other. */
typedef struct zr_chunk_writer zr_chunk_writer;

/** Open a writer. `writers` is the number of writers of this process that write at once; the buffers of up to 128
 * writers together take 16 MiB. Errors: ZR_ERR_NOT_FOUND if the file is missing, not a regular file or a symbolic link;
 * ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_open(const char *path, int writers, zr_chunk_writer **writer);
/** Write n bytes at file offset `offset`; they are copied. Offsets must ascend. A put that begins where the last put
 * ended continues its range; any other put begins a new range. No byte may lie past the end of the file. Errors:
 * ZR_ERR_ARG for the offset or n; ZR_ERR_STATE after zr_chunk_writer_end; ZR_ERR_IO naming file and byte, perhaps for
 * an earlier put. A writer that has failed returns the same status from every later call, because the system may later
 * report bytes as synced that it has dropped. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_put(zr_chunk_writer *writer, int64_t offset, const void *bytes,
                                                  int64_t n);
/** Finish after the last put: return ZR_OK only if all bytes are written and on the disk (fsync). Call once. Error:
 * ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_end(zr_chunk_writer *writer);
/** Return the *n chunks written, in ascending order; the writer owns them. Return NULL and 0 until zr_chunk_writer_end
 * has succeeded. */
ZR_API const zr_chunk *zr_chunk_writer_chunks(const zr_chunk_writer *writer, int64_t *n);
/** Close a writer, at any time. If it was not ended, the contents of the file are undefined. It may be NULL. */
ZR_API void zr_chunk_writer_close(zr_chunk_writer **writer);

/** Read bytes [first, end) of a file and return their chunks with hashes; end -1 stands for the end of the file. Used
 * for headers and whole small files. Free *chunk with zr_free; *chunk is NULL if the range is empty. Errors:
 * ZR_ERR_NOT_FOUND; ZR_ERR_ARG if the range is not inside the file; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunks_of_file(const char *path, int64_t first, int64_t end, zr_chunk **chunk,
                                                int64_t *n);

/** A file of a checkpoint. Its name consists of letters, digits, '.', '_' and '-', and begins with a letter or
 * digit. */
typedef struct zr_manifest_file {
    const char *name;
    int64_t bytes;
    const zr_chunk *chunk; /* in ascending order if the manifest was read from a file */
    int64_t n_chunks;
    const zr_slices *slices; /* in ascending order without duplicates if the manifest was read from a file */
    int64_t n_slices;
} zr_manifest_file;

/** manifest.json: one JSON object, its members always in this order:
 *    {"format": 1, "build": VERSION, "step": N, "run": {...},
 *     "files": [{"name": NAME, "bytes": N, "ends": [ends of chunks that are no multiple of ZR_CHUNK_BYTES, nor the
 *                file's own, ascending], "xxh3": "a hash for each chunk, 16 hex digits, a space between"}, ...],
 *     "xxh3": "XXH3-64 of all bytes before this member"}
 *  and a newline. In every future format "format" stays first and "xxh3" last.
 *
 *  If a file has slices, the manifest is {"format": 2, ...}, and each such file has, after "ends",
 *    "slices": [[begin, end, row_bytes, slice_bytes], ...]
 *  in ascending order. "ends" then includes the slices' begin and end, and no offset between them. Hashes are in the
 * order of the chunks' first bytes. A version of zr without slices reads format 1 only, and reports format 2 as
 * unsupported. */
typedef struct zr_manifest {
    int64_t step;
    const char *build; /* printable ASCII without quotes and backslashes */
    const char *run;   /* JSON object "run" as text; defined by the train layer */
    const zr_manifest_file *file;
    int n_files;
} zr_manifest;

/** Newest format that can be read. A manifest without slices is written as format 1. */
#define ZR_MANIFEST_FORMAT 2
/** Largest manifest that is written or read, in bytes. */
#define ZR_MANIFEST_MAX_BYTES ((int64_t)256 << 20)

/** Write dir/manifest.json and sync it. Chunks may be in any order, and slices may have duplicates. Errors:
 * ZR_ERR_INTERNAL if chunks do not cover a file exactly or a reader would refuse the manifest for another reason;
 * ZR_ERR_CREATE if a manifest exists; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_manifest_write(const char *dir, const zr_manifest *manifest);
/** Read and check dir/manifest.json, and check that its files exist, are regular and have the recorded sizes; neither
 * they nor dir may be symbolic links. The files' contents are not read. Free the result with zr_manifest_free. Takes
 * about three times the file's size in memory. Errors: ZR_ERR_NOT_FOUND if the directory is missing or has no manifest
 * (an unfinished checkpoint); ZR_ERR_DATA naming file and fault if the manifest is damaged, has a newer format (the
 * message names both) or a step other than the directory's, or if a file is missing, has another size or is not
 * regular; ZR_ERR_IO, also if a file exists but may not be opened. */
ZR_API ZR_NODISCARD zr_status zr_manifest_read(const char *dir, zr_manifest **manifest);
ZR_API void zr_manifest_free(zr_manifest **manifest);

/** Reader of one safetensors file of a checkpoint, for one thread. Each chunk is read once, together with chunks whose
 * bytes interleave with its own, into a buffer of at most ZR_CHUNK_BYTES. It is checked and then serves all consecutive
 * reads from it. */
typedef struct zr_chunk_reader zr_chunk_reader;

/** Open dir/name, check the header's chunks and parse the tensors. `manifest` is borrowed until the reader is closed.
 * `readers` is the number of this host's ranks that read this file at once. With one or two readers, each has a thread
 * and a second buffer that prefetch the next chunk, past the page cache, while the caller uses the current one. Errors:
 * ZR_ERR_DATA naming the file if it is damaged (with the bytes), missing, not in the manifest, a link, of another size
 * or not a safetensors file; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_open(const char *dir, const zr_manifest *manifest, const char *name,
                                                   int readers, zr_chunk_reader **reader);
/** Read elements [first, first+n) of an F32 tensor into `out` (n). An element is written to `out` only after its chunk
 * has been checked. Errors: ZR_ERR_DATA naming file, bytes and tensor if a chunk is damaged or the tensor is missing or
 * of another type; ZR_ERR_ARG for a range outside the tensor; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_f32(zr_chunk_reader *reader, const char *tensor, int64_t first, int64_t n,
                                                  float *out);
/** Return the file's tensors, for names, types and shapes (zr_safetensors_count, _get, _find). Do not read data through
 * the result, as this would bypass the checks. */
ZR_API const zr_safetensors *zr_chunk_reader_tensors(const zr_chunk_reader *reader);
ZR_API void zr_chunk_reader_close(zr_chunk_reader **reader);

/** Check every byte of a checkpoint. `report` (size bytes) receives a line "FILE: what" for each damage and for each
 * file that is not in the manifest (which is harmless); otherwise it is "". fn (may be NULL) is called with the
 * progress. Errors: ZR_ERR_DATA if there is any damage, with the first damage as message; ZR_ERR_NOT_FOUND and
 * ZR_ERR_DATA as from zr_manifest_read; ZR_ERR_IO if a file cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report,
                                                   size_t size);

#define ZR_CHECKPOINT_NAME_BYTES 32
/** Write the name of a step's checkpoint, such as "step-00001000", with at least 8 digits. step must not be
 * negative. */
ZR_API void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES]);

/** List the steps of all entries of run_dir that have a checkpoint's name, newest first. These checkpoints may be
 * incomplete, which zr_manifest_read finds out. Free *step with zr_free; *step is NULL if there are no such entries.
 * Errors: ZR_ERR_NOT_FOUND if run_dir is missing; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n);

/** Create the empty directory run_dir/step-N.tmp, in which a checkpoint is built, after removing leftovers of a failed
 * attempt. Errors: ZR_ERR_STATE if a checkpoint of this step exists (a caller that knows this checkpoint to be damaged
 * removes it first); ZR_ERR_CREATE; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_begin(const char *run_dir, int64_t step);
/** Rename step-N.tmp, whose files must all be synced, to step-N atomically. Then replace run_dir/latest, a text file
 * with the name and a newline. `latest` is for people and other tools; zr itself reads the directories. Errors:
 * ZR_ERR_CREATE if step-N is complete and on the disk but `latest` could not be written; ZR_ERR_IO otherwise, when a
 * complete step-N may also exist. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_commit(const char *run_dir, int64_t step);
/** Remove step-N and step-N.tmp; return ZR_OK if neither exists. step-N is first renamed to step-N.tmp, so that an
 * incomplete checkpoint never has the final name. Only files of a checkpoint (*.json, *.safetensors) are removed, and a
 * link is removed itself, never followed. Fail with ZR_ERR_IO naming a file that could not be removed, or a foreign
 * file, which stays in step-N.tmp. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_remove(const char *run_dir, int64_t step);

/* ---- Hugging Face directories ---------------------------------------------------------------- */

/** Names of the tensors in files of one kind of model. */
typedef struct zr_hf_names {
    const char *prefix;           /* prefix that all names have in some files and lack in others */
    const char *const *redundant; /* names of tensors that some files have and zr does not need, ending with NULL; an
                                     entry that begins with a dot matches the end of a name */
} zr_hf_names;

/** Numbers in a GPT-2's config.json, under its key names. */
typedef struct zr_hf_gpt2 {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon, initializer_range;
    bool tie_word_embeddings; /* always true; false is refused */
} zr_hf_gpt2;

/** Read dir/config.json. Missing keys get the defaults of transformers; unknown keys are ignored. Errors:
 * ZR_ERR_NOT_FOUND if the file is missing; ZR_ERR_DATA naming a field whose value zr's GPT-2 does not support. */
ZR_API ZR_NODISCARD zr_status zr_hf_gpt2_read(const char *dir, zr_hf_gpt2 *config);

/** Return GPT-2's names: prefix "transformer.", and as redundant tensors the tied head and the attention masks of old
 * files. */
ZR_API const zr_hf_names *zr_hf_gpt2_names(void);

/** Reader of the weights in a directory: model.safetensors, or the files named by model.safetensors.index.json, which
 * must be inside the directory. */
typedef struct zr_weights zr_weights;

/** Open the weights of a directory. `names` is borrowed. */
ZR_API ZR_NODISCARD zr_status zr_weights_open(const char *dir, const zr_hf_names *names, zr_weights **weights);
ZR_API void zr_weights_close(zr_weights **weights);

/** Read elements [first, first+n) of a tensor as fp32. Fail with ZR_ERR_DATA if the weights have no tensor of that
 * name. */
ZR_API ZR_NODISCARD zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                              float *out);

#ifdef __cplusplus
}
#endif
#endif
