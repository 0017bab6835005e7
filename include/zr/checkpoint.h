/**
 * checkpoint: weights on disk: safetensors files (a strict reader, a writer of ranges), checkpoints with a checksum
 * over every byte, Hugging Face directories, and atomic creation of files.
 *
 * All input is untrusted: every size is checked against the file's size before it is used. Paths are plain bytes.
 * Reading goes through pread; a reader may be used by several threads at once.
 */
#ifndef ZR_CHECKPOINT_H
#define ZR_CHECKPOINT_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ----------------------------------------------------------------------------------- */

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct zr_safetensors zr_safetensors;

/** A tensor of a file; all borrowed from the reader. */
typedef struct zr_safetensors_tensor {
    const char *name;  /* UTF-8 */
    const char *dtype; /* the file's spelling: "F32", "I64" ... */
    bool loadable;     /* F32, BF16 or F16 */
    int ndim;          /* any number */
    const int64_t *dim;
    int64_t elems;
    int64_t offset; /* first byte of the tensor, from the start of the file */
    int64_t bytes;
} zr_safetensors_tensor;

/** Open and check a file's header: sizes, JSON, names, types and that the tensors tile the rest of the
 *  file exactly (two empty tensors in one place do not).
 *  ZR_ERR_NOT_FOUND missing, unreadable, not a regular file; ZR_ERR_DATA naming file and tensor. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_open(const char *path, zr_safetensors **st);
ZR_API void zr_safetensors_close(zr_safetensors **st);

ZR_API int64_t zr_safetensors_count(const zr_safetensors *st);
/** Return tensor i, in the order of their bytes. */
ZR_API const zr_safetensors_tensor *zr_safetensors_get(const zr_safetensors *st, int64_t i);
/** Return the tensor of that name; NULL: the file has none. */
ZR_API const zr_safetensors_tensor *zr_safetensors_find(const zr_safetensors *st, const char *name);

/** Read elements [first, first+n) as fp32 into `out` (n). BF16 and F16 are widened exactly. ZR_ERR_DATA the tensor is
 *  of another type; ZR_ERR_IO the file changed since it was opened, or cannot be read; ZR_ERR_ARG the range. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_read_f32(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                      int64_t first, int64_t n, float *out);

/** A tensor by name and shape. */
typedef struct zr_tensor_spec {
    const char *name;
    zr_shape shape;
} zr_tensor_spec;

/** Create a file of fp32 tensors, all zero, at its full size: header padded with spaces so that data begin at a
 *  multiple of 4096 (for direct I/O), tensors in the order given, metadata {"format":"pt"}. Refuses to replace anything
 * (ZR_ERR_CREATE); ZR_ERR_IO on a full disk; ZR_ERR_ARG on duplicate or empty names or sizes that overflow. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n);

/** Write elements [first, first+n) of a tensor. BF16 and F16 are rounded to nearest; a finite number beyond their range
 *  is ZR_ERR_DTYPE. ZR_ERR_IO; ZR_ERR_ARG the range; ZR_ERR_STATE the file was not opened with attach. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                   int64_t first, int64_t n, const float *in);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint of a run is the directory RUN_DIR/step-00001000: config.json, model.safetensors, one more safetensors
 * file for each state of the optimizer, and manifest.json, which is written last and has checksums of every byte of
 * these files, its own included. A checkpoint does not depend on the layout that wrote it: a file holds whole tensors,
 * whichever rank wrote which range.
 *
 * A file is cut into chunks: at every multiple of ZR_CHUNK_BYTES of its offset, and at the ends of each range that one
 * writer wrote in one go. Chunks tile the file, and each has an XXH3-64 of its own, so that the reader of a part
 * checks that part alone.
 *
 * Tensor-parallel ranks write the columns of a matrix: a slice of every row, one rank's slice beside the other's.
 * There a chunk is the part of one slice between two multiples of ZR_CHUNK_BYTES, all its rows under one checksum
 * (zr_slices); else the manifest would grow with the number of rows. Chunks whose bytes interleave are read together.
 *
 * A save: zr_checkpoint_begin; zr_safetensors_create for each file; each writer writes its ranges (zr_chunk_writer),
 * the headers and small files get their hashes by zr_chunks_of_file; zr_manifest_write; zr_checkpoint_commit. All
 * steps but those of the writers are done by one process. No call here is collective. */

#define ZR_CHUNK_BYTES ((int64_t)4 << 20)

/** Bytes of a file from `offset` on, never across a multiple of ZR_CHUNK_BYTES, and their XXH3-64. They are contiguous,
 *  except where `offset` lies in slices: there they are bytes of the slice in which `offset` stands. */
typedef struct zr_chunk {
    int64_t offset, bytes;
    uint64_t hash;
} zr_chunk;

/** Bytes [begin, end) of a file that are rows of row_bytes, each row of two or more slices of slice_bytes. The first
 *  slices of all rows belong together, all second slices, and so on. */
typedef struct zr_slices {
    int64_t begin, end, row_bytes, slice_bytes;
} zr_slices;

/** Writer of ranges of a file that has its full size already (zr_safetensors_create). Any number of writers, in threads
 *  or processes, may write one file, each its own ranges; a writer serves one thread. Bytes bypass the page cache
 *  (O_DIRECT) where the file system allows it, except the ends of a range outside multiples of 4096. It has a thread
 *  and two buffers: it writes one buffer while the caller fills and hashes the other. */
typedef struct zr_chunk_writer zr_chunk_writer;

/** Open a writer. writers: number of this process's writers that write at once; their buffers together take 16 MiB, up
 *  to 128 writers. ZR_ERR_NOT_FOUND the file is missing, not a regular file, or a symbolic link; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_open(const char *path, int writers, zr_chunk_writer **writer);
/** Write n bytes at byte `offset`; they are copied. Offsets ascend: a put that begins where the last one ended
 *  continues its range, any other begins a new range. Nothing may lie past the end of the file. ZR_ERR_ARG the offset
 *  or n; ZR_ERR_STATE after zr_chunk_writer_end; ZR_ERR_IO naming file and byte, perhaps of an earlier put. A writer
 *  that has failed returns the same status from every later call: bytes that the system dropped once it may report as
 *  synced later. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_put(zr_chunk_writer *writer, int64_t offset, const void *bytes,
                                                  int64_t n);
/** Finish: all bytes are written and on the disk (fsync), or the call fails. Called once, after the last put.
 *  ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_end(zr_chunk_writer *writer);
/** Return the *n chunks written, ascending; owned by the writer. NULL and 0 before zr_chunk_writer_end has succeeded.
 */
ZR_API const zr_chunk *zr_chunk_writer_chunks(const zr_chunk_writer *writer, int64_t *n);
/** Close a writer, at any time; the contents of the file are undefined if it was not ended. NULL is fine. */
ZR_API void zr_chunk_writer_close(zr_chunk_writer **writer);

/** Read bytes [first, end) of a file back and hash them: for headers, and for small files whole (end -1: the file's
 *  end). Free *chunk with zr_free; NULL where the range is empty. ZR_ERR_NOT_FOUND; ZR_ERR_ARG the range does not lie
 *  in the file; ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunks_of_file(const char *path, int64_t first, int64_t end, zr_chunk **chunk,
                                                int64_t *n);

/** A file of a checkpoint: letters, digits, '.', '_' and '-' in its name, which begins with a letter or digit. */
typedef struct zr_manifest_file {
    const char *name;
    int64_t bytes;
    const zr_chunk *chunk; /* ascending, when it was read */
    int64_t n_chunks;
    const zr_slices *slices; /* ascending and each once, when it was read */
    int64_t n_slices;
} zr_manifest_file;

/** manifest.json: one JSON object, its members always in this order:
 *    {"format": 1, "build": VERSION, "step": N, "run": {...},
 *     "files": [{"name": NAME, "bytes": N, "ends": [ends of chunks that are no multiple of ZR_CHUNK_BYTES, nor the
 *                file's own, ascending], "xxh3": "a hash for each chunk, 16 hex digits, a space between"}, ...],
 *     "xxh3": "XXH3-64 of all bytes before this member"}
 *  and a newline. "format" first and "xxh3" last stay so in every format to come.
 *
 *  Where a file has slices it is {"format": 2, ...}, and each of its files has, behind "ends",
 *    "slices": [[begin, end, row_bytes, slice_bytes], ...]
 *  ascending. "ends" has their beginnings and ends, and none between; hashes stand in the order of the chunks' first
 *  bytes. A zr that knows no slices reads format 1 alone, and says so of format 2. */
typedef struct zr_manifest {
    int64_t step;
    const char *build; /* printable ASCII without quotes and backslashes */
    const char *run;   /* JSON text of "run", an object: the train layer's */
    const zr_manifest_file *file;
    int n_files;
} zr_manifest;

/** Newest format that is read. A manifest without slices is written as format 1. */
#define ZR_MANIFEST_FORMAT 2
/** Largest manifest that is written or read. */
#define ZR_MANIFEST_MAX_BYTES ((int64_t)256 << 20)

/** Write dir/manifest.json and sync it. Chunks may come in any order, slices also more than once. ZR_ERR_INTERNAL
 *  chunks that do not tile a file, or anything else that a reader would refuse; ZR_ERR_CREATE a manifest exists;
 *  ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_manifest_write(const char *dir, const zr_manifest *manifest);
/** Read and check dir/manifest.json, and that its files exist: regular files of the recorded sizes, neither they nor
 *  dir a symbolic link. The files' contents are not read. Free it with zr_manifest_free. Takes memory for about three
 *  times the file's size. ZR_ERR_NOT_FOUND the directory is missing, or has no manifest (an unfinished checkpoint);
 *  ZR_ERR_DATA naming the file and the fault: damaged, a newer format (both are named), a step that is not the
 *  directory's, a file that is missing, of another size, or no regular file; ZR_ERR_IO, also for a file that exists and
 *  may not be opened. */
ZR_API ZR_NODISCARD zr_status zr_manifest_read(const char *dir, zr_manifest **manifest);
ZR_API void zr_manifest_free(zr_manifest **manifest);

/** Reader of one safetensors file of a checkpoint, for one thread: every chunk is read once, together with the chunks
 *  whose bytes interleave with its own, into a buffer of at most ZR_CHUNK_BYTES, checked, and kept for all consecutive
 *  reads from it. */
typedef struct zr_chunk_reader zr_chunk_reader;

/** Open dir/name, check the header's chunks and parse the tensors. `manifest` is borrowed until the reader is closed.
 *  readers: number of this host's ranks that read this file at once. With one or two, each has a thread and a second
 *  buffer, which prefetch the next chunk, past the page cache, while the caller uses this one. ZR_ERR_DATA naming the
 *  file: damaged (bytes), missing, not in the manifest, a link, of another size, not a safetensors file; ZR_ERR_IO;
 *  ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_open(const char *dir, const zr_manifest *manifest, const char *name,
                                                   int readers, zr_chunk_reader **reader);
/** Read elements [first, first+n) of an F32 tensor into `out` (n). An element is written to `out` only after its chunk
 *  has been checked. ZR_ERR_DATA naming file, bytes and tensor where a chunk is damaged, or the tensor is missing or of
 *  another type; ZR_ERR_ARG the range; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_f32(zr_chunk_reader *reader, const char *tensor, int64_t first, int64_t n,
                                                  float *out);
/** Return names, types and shapes (zr_safetensors_count, _get, _find). Data must not be read through it: that would
 *  bypass the checks. */
ZR_API const zr_safetensors *zr_chunk_reader_tensors(const zr_chunk_reader *reader);
ZR_API void zr_chunk_reader_close(zr_chunk_reader **reader);

/** Check every byte of a checkpoint. `report` (size bytes): a line for each damage, "FILE: what", and for each file
 *  that is not in the manifest, which is harmless; "" without either. fn (may be NULL) is called with the progress.
 *  ZR_ERR_DATA when there is any damage, its message the first; ZR_ERR_NOT_FOUND and ZR_ERR_DATA as zr_manifest_read;
 *  ZR_ERR_IO a file cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report,
                                                   size_t size);

#define ZR_CHECKPOINT_NAME_BYTES 32
/** Write the name of a step's checkpoint, "step-00001000": at least 8 digits. step >= 0. */
ZR_API void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES]);

/** List the steps of everything in run_dir that has a checkpoint's name, newest first, whole or not (zr_manifest_read
 *  tells which). Free *step with zr_free; NULL without any. ZR_ERR_NOT_FOUND run_dir; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n);

/** Make the empty directory run_dir/step-N.tmp, in which a checkpoint is built; leftovers of a dead attempt are removed
 *  first. ZR_ERR_STATE a checkpoint of this step exists: it is saved already, or the caller removes it if it is known
 *  to be damaged; ZR_ERR_CREATE; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_begin(const char *run_dir, int64_t step);
/** Rename step-N.tmp, whose files are all synced, to step-N, atomically; then replace run_dir/latest, a
 *  text file with the name and a newline. `latest` is for people and other tools: zr reads the directories.
 *  ZR_ERR_CREATE: step-N exists, whole and on the disk, and only `latest` could not be written; ZR_ERR_IO: step-N may
 *  exist, whole. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_commit(const char *run_dir, int64_t step);
/** Remove step-N, and step-N.tmp. step-N is first renamed to step-N.tmp, so that no incomplete checkpoint has its name.
 *  Only files of a checkpoint are removed (*.json, *.safetensors); a link is removed itself, never followed. ZR_OK
 *  where neither exists. ZR_ERR_IO naming the file that could not be removed; a foreign file, which stays in
 *  step-N.tmp. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_remove(const char *run_dir, int64_t step);

/* ---- Hugging Face directories ---------------------------------------------------------------- */

/** Names of the tensors in the files of one kind of model. */
typedef struct zr_hf_names {
    const char *prefix;           /* prefix of every name in some files, absent in others */
    const char *const *redundant; /* tensors of some files that are not needed, NULL at the end; an entry with a leading
                                     dot is the end of a name */
} zr_hf_names;

/** The numbers of a GPT-2's config.json, its key names. */
typedef struct zr_hf_gpt2 {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon, initializer_range;
    bool tie_word_embeddings; /* always true: anything else is refused */
} zr_hf_gpt2;

/** Read dir/config.json. Absent keys get transformers' defaults; unknown keys are ignored. ZR_ERR_NOT_FOUND the file is
 *  missing; ZR_ERR_DATA naming the field whose value is not GPT-2 as zr computes it. */
ZR_API ZR_NODISCARD zr_status zr_hf_gpt2_read(const char *dir, zr_hf_gpt2 *config);

/** Return GPT-2's names: prefix "transformer.", and as redundant the tied head and the attention masks of old files. */
ZR_API const zr_hf_names *zr_hf_gpt2_names(void);

/** The weights of a directory: model.safetensors, or the files that model.safetensors.index.json
 *  names (inside the directory). */
typedef struct zr_weights zr_weights;

/** Open the weights of a directory. `names` is borrowed. */
ZR_API ZR_NODISCARD zr_status zr_weights_open(const char *dir, const zr_hf_names *names, zr_weights **weights);
ZR_API void zr_weights_close(zr_weights **weights);

/** Read elements [first, first+n) of a tensor as fp32; ZR_ERR_DATA when the weights have no tensor of that name. */
ZR_API ZR_NODISCARD zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                              float *out);

#ifdef __cplusplus
}
#endif
#endif
