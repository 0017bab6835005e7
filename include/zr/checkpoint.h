/**
 * checkpoint: weights on disk. safetensors files (strict reader, writer of ranges), checkpoints of which every byte is
 * under a checksum, Hugging Face directories, and files that appear whole or not at all.
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

/** Create a file of fp32 tensors, all zero, at its full size: header padded with spaces so that data begin at a
 *  multiple of 4096 (for direct I/O), tensors in the order given, metadata {"format":"pt"}. Refuses to replace anything
 * (ZR_ERR_CREATE); ZR_ERR_IO on a full disk; ZR_ERR_ARG on duplicate or empty names or sizes that overflow. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n);
/** The same with tensors of another type: F32, BF16 or F16. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_create_as(const char *path, zr_dtype dtype, const zr_tensor_spec *spec,
                                                       int64_t n);

/** Open a created file for writing; any number of threads and processes may, each for its own ranges.
 *  Reads too. Close it with zr_safetensors_close. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_attach(const char *path, zr_safetensors **st);

/** Write elements [first, first+n) of a tensor; BF16 and F16 are rounded to the nearest, and a finite number that they
 *  cannot hold is ZR_ERR_DTYPE. ZR_ERR_IO; ZR_ERR_ARG the range; ZR_ERR_STATE the file was not opened with attach. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                                   int64_t first, int64_t n, const float *in);

/** Make what was written durable (fsync). Every writer does this, then one commits the name. */
ZR_API ZR_NODISCARD zr_status zr_safetensors_sync(const zr_safetensors *st);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint of a run is the directory RUN_DIR/step-00001000: config.json, model.safetensors, one more safetensors
 * file for each state of the optimizer, and manifest.json, which is written last and covers every byte of them, its own
 * included. Nothing in it depends on the layout that wrote it: a file holds whole tensors, whoever wrote which range.
 *
 * A file is cut into chunks: at every multiple of ZR_CHUNK_BYTES of its offset, and where ranges end that one writer
 * wrote in one go. Chunks tile the file, and each has an XXH3-64 of its own, so that whoever reads a part checks what
 * he reads and no more.
 *
 * Ranks that share layers write the columns of a matrix: of every row a slice, one rank's beside the other's. There a
 * chunk is what one slice has between two multiples of ZR_CHUNK_BYTES, all rows of it under one checksum (zr_slices);
 * else the manifest would grow with the number of rows. Chunks whose bytes stand between each other's are read at once.
 *
 * A save: zr_checkpoint_begin; zr_safetensors_create for each file; every writer its ranges (zr_chunk_writer), the
 * headers and small files by zr_chunks_of_file; zr_manifest_write; zr_checkpoint_commit. In between only one process
 * does what is not for every writer. No call here is collective. */

#define ZR_CHUNK_BYTES ((int64_t)4 << 20)

/** Bytes of a file from `offset` on, never across a multiple of ZR_CHUNK_BYTES, and their XXH3-64. They follow each
 *  other, but where `offset` lies in slices: there they are those of the slice in which `offset` stands. */
typedef struct zr_chunk {
    int64_t offset, bytes;
    uint64_t hash;
} zr_chunk;

/** Bytes [begin, end) of a file are rows of row_bytes, and each row is slices of slice_bytes, two or more. The first
 *  slices of all rows belong together, all second ones, and so on. */
typedef struct zr_slices {
    int64_t begin, end, row_bytes, slice_bytes;
} zr_slices;

/** Writes ranges of a file that has its full size already (zr_safetensors_create). Any number of writers, threads or
 *  processes, each its own ranges; one writer is one thread's. Bytes go past the page cache (O_DIRECT) where the file
 *  system allows it, but for what is left at the ends of a range outside multiples of 4096. Takes a thread and two
 *  buffers: it writes one while the caller fills and hashes the other. */
typedef struct zr_chunk_writer zr_chunk_writer;

/** writers: so many of this process write at once; their buffers together take 16 MiB, up to 128 writers.
 * ZR_ERR_NOT_FOUND no such file, not a regular file, a symbolic link; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_open(const char *path, int writers, zr_chunk_writer **writer);
/** Write n bytes at byte `offset`; they are copied. Offsets ascend: what begins where the last put ended goes on with
 *  its range, anything else begins a new one. Nothing may lie past the end of the file.
 *  ZR_ERR_ARG the offset or n; ZR_ERR_STATE after zr_chunk_writer_end; ZR_ERR_IO naming file and byte, perhaps of an
 *  earlier put. A writer that has failed fails in every later call with the same status: what the system dropped once
 *  it may report as synced later. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_put(zr_chunk_writer *writer, int64_t offset, const void *bytes,
                                                  int64_t n);
/** The same for n bytes of one of `slices`: at the end of a row's slice they go on in the next row, at the same column.
 *  Of each of the slices a writer writes all or nothing, in ascending order and not broken off by another put; whoever
 *  writes a slice beside it gives the same `slices`. NULL: as zr_chunk_writer_put. ZR_ERR_ARG also where the bytes do
 *  not lie in the slices. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_put_sliced(zr_chunk_writer *writer, const zr_slices *slices,
                                                         int64_t offset, const void *bytes, int64_t n);
/** All is written and on the disk (fsync), or the call fails. Called once, after the last put. ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_writer_end(zr_chunk_writer *writer);
/** The *n chunks of what was put, ascending; the writer's. NULL and 0 before zr_chunk_writer_end has succeeded. */
ZR_API const zr_chunk *zr_chunk_writer_chunks(const zr_chunk_writer *writer, int64_t *n);
/** The *n slices that were put to, ascending; the writer's. NULL and 0 before zr_chunk_writer_end has succeeded. */
ZR_API const zr_slices *zr_chunk_writer_slices(const zr_chunk_writer *writer, int64_t *n);
/** At any time; a writer that was not ended leaves the file in some state between. NULL is fine. */
ZR_API void zr_chunk_writer_close(zr_chunk_writer **writer);

/** Read bytes [first, end) of a file back and hash them: for headers, and for small files whole (end -1: the file's
 *  end). *chunk is the caller's, zr_free it; NULL where there are no bytes. ZR_ERR_NOT_FOUND; ZR_ERR_ARG the range does
 *  not lie in the file; ZR_ERR_IO; ZR_ERR_MEMORY. */
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

/** The newest that is read. What has no slices is written as format 1. */
#define ZR_MANIFEST_FORMAT 2
/** Larger ones are neither written nor read. */
#define ZR_MANIFEST_MAX_BYTES ((int64_t)256 << 20)

/** Write dir/manifest.json and sync it. Chunks in any order, and slices, which may be there more than once.
 *  ZR_ERR_INTERNAL chunks that do not tile a file, or anything else that a reader would refuse; ZR_ERR_CREATE there is
 * one already; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_manifest_write(const char *dir, const zr_manifest *manifest);
/** Read and check dir/manifest.json, and that its files are there: regular files of that size, neither they nor dir a
 *  symbolic link. Of their bytes nothing is looked at. zr_manifest_free it. Takes memory for about three times the
 *  file's size.
 *  ZR_ERR_NOT_FOUND no such directory, or no manifest in it (a checkpoint that was not finished); ZR_ERR_DATA naming
 * the file and what is wrong with it: damaged, a newer format (both are named), a step that is not the directory's, a
 * file that is missing, of another size, or no regular file; ZR_ERR_IO, also of what is there and may not be opened. */
ZR_API ZR_NODISCARD zr_status zr_manifest_read(const char *dir, zr_manifest **manifest);
ZR_API void zr_manifest_free(zr_manifest **manifest);
/** The file of that name; NULL: none. */
ZR_API const zr_manifest_file *zr_manifest_find(const zr_manifest *manifest, const char *name);

/** Reads one safetensors file of a checkpoint, for one thread of the caller's: every chunk is read once, with
 * those between whose bytes its own stand, into a buffer of at most ZR_CHUNK_BYTES, checked, and serves all that is
 * asked from it in a row. */
typedef struct zr_chunk_reader zr_chunk_reader;

/** Opens dir/name; the header's chunks are checked and the tensors read from them. `manifest` is borrowed until the
 *  reader is closed. readers: so many of this host's ranks read this file at once. One or two have a thread and a
 * second buffer each, which read the next chunk, past the page cache, while the caller uses this one. ZR_ERR_DATA
 * naming the file: damaged (bytes), missing, not in the manifest, a link, of another size, not a safetensors file;
 * ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_open(const char *dir, const zr_manifest *manifest, const char *name,
                                                   int readers, zr_chunk_reader **reader);
/** Elements [first, first+n) of an F32 tensor into `out` (n). Not one element is written to `out` before the chunk it
 *  comes from has been checked. ZR_ERR_DATA naming file, bytes and tensor where a chunk is damaged, or no such tensor,
 *  or of another type; ZR_ERR_ARG the range; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_chunk_reader_f32(zr_chunk_reader *reader, const char *tensor, int64_t first, int64_t n,
                                                  float *out);
/** Names, types and shapes (zr_safetensors_count, _get, _find). Not to be read from: that would pass the checks by. */
ZR_API const zr_safetensors *zr_chunk_reader_tensors(const zr_chunk_reader *reader);
ZR_API void zr_chunk_reader_close(zr_chunk_reader **reader);

/** Check every byte of one file of a checkpoint before it is read, from the page cache where memory allows it.
 * ZR_ERR_DATA naming the file and the first damage; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_check_file(const char *dir, const zr_manifest *manifest, const char *name);

/** Check every byte of a checkpoint. `report` (size bytes): a line for each damage, "FILE: what", and for each file
 * that the manifest does not know, which is harmless; "" when there is nothing to say. fn (may be NULL) is told how far
 * it is. ZR_ERR_DATA when there is any damage, its message the first; ZR_ERR_NOT_FOUND and ZR_ERR_DATA as
 *  zr_manifest_read; ZR_ERR_IO a file cannot be read. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report,
                                                   size_t size);

#define ZR_CHECKPOINT_NAME_BYTES 32
/** "step-00001000": at least 8 digits. step >= 0. */
ZR_API void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES]);

/** The steps of all that bears a checkpoint's name in run_dir, newest first, whether whole or not (zr_manifest_read
 *  tells). *step is the caller's, zr_free it; NULL when there are none. ZR_ERR_NOT_FOUND run_dir; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n);

/** Make the empty directory run_dir/step-N.tmp, in which a checkpoint grows. What a dead attempt left there goes first.
 *  ZR_ERR_STATE there is a checkpoint of this step: it is saved already, or to be removed by who knows it damaged;
 *  ZR_ERR_CREATE; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_begin(const char *run_dir, int64_t step);
/** step-N.tmp, whose files are all synced, becomes step-N, whole or not at all (zr_dir_commit); then run_dir/latest, a
 *  text file with the name and a newline, is replaced. `latest` is for people and other tools: zr reads the
 * directories. ZR_ERR_CREATE: step-N is there, whole and on the disk, and only `latest` could not be written;
 * ZR_ERR_IO: step-N may be there, whole. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_commit(const char *run_dir, int64_t step);
/** Remove step-N, and step-N.tmp: renamed to that first, so that half a checkpoint never has its name. Only files of a
 *  checkpoint are removed (*.json, *.safetensors), and links as such: nothing is followed. None there: ZR_OK.
 *  ZR_ERR_IO naming what could not go; a foreign file, which then stays in step-N.tmp. */
ZR_API ZR_NODISCARD zr_status zr_checkpoint_remove(const char *run_dir, int64_t step);

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

/** The files of the weights, in the order of the index. */
ZR_API int64_t zr_weights_files(const zr_weights *weights);
ZR_API const zr_safetensors *zr_weights_file(const zr_weights *weights, int64_t i);

/** Bytes of all files of the weights, and a hash over all of those bytes, which are read once. fn (may be NULL) is told
 * how far it is. ZR_ERR_IO. */
ZR_API int64_t zr_weights_bytes(const zr_weights *weights);
ZR_API ZR_NODISCARD zr_status zr_weights_hash(const zr_weights *weights, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Elements [first, first+n) of a tensor as fp32; ZR_ERR_DATA when there is none of that name. */
ZR_API ZR_NODISCARD zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n,
                                              float *out);

/** Weights that are written into a directory, a file at a time: model.safetensors; or, where they are more than a file
 *  may have, model-00001-of-00003.safetensors and so on, and model.safetensors.index.json. */
typedef struct zr_weights_out zr_weights_out;

/** spec: (n) borrowed; dtype: F32, BF16 or F16. file_bytes: a file takes tensors in their order up to so many bytes of
 *  them, and a larger tensor is a file of its own, as with max_shard_size of transformers; 0: one file has all. Nothing
 *  is written yet. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_weights_create(const char *dir, zr_dtype dtype, const zr_tensor_spec *spec, int64_t n,
                                                int64_t file_bytes, zr_weights_out **out);
ZR_API int64_t zr_weights_out_files(const zr_weights_out *out);
/** Elements [first, first+n) of tensor number `tensor`; tensors come in the order of spec. As zr_safetensors_write. */
ZR_API ZR_NODISCARD zr_status zr_weights_put(zr_weights_out *out, int64_t tensor, int64_t first, int64_t n,
                                             const float *in);
/** All files are on the disk, the index too; called once, behind the last put. ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_weights_end(zr_weights_out *out);
/** What was written of them is removed. */
ZR_API void zr_weights_undo(zr_weights_out *out);
ZR_API void zr_weights_out_close(zr_weights_out **out);

#ifdef __cplusplus
}
#endif
#endif
