/**
 * base/paths: paths that a user names. shards.h finds the files of data with weights. This header opens output files.
 * An output must not be a file that the command reads, and it overwrites only a file of the same kind.
 */
#ifndef ZR_BASE_OUTPUT_H
#define ZR_BASE_OUTPUT_H

#include "base/file/file.h"

typedef struct zr__output_kind {
    const char *what; /* "trace" */
    const char *head; /* the first bytes of every such file */
    bool streams;     /* written from beginning to end, so that it may be a pipe */
} zr__output_kind;

/**
 * Open an output file, creating it if it does not exist; an older one is not truncated here.
 *
 * `inputs`: the paths that the command reads, up to a NULL; a directory stands for the weights, configurations and
 * tokenizers in it and in its model/. Files are compared by device and inode, not by name.
 *
 * ZR_ERR_CREATE, with nothing changed: the file is an input, has another kind, or cannot be created.
 */
ZR_NODISCARD zr_status zr__output_open(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                       zr__file *file);

/** Open the output and write all of it in place: no other file is touched, and a link stays a link. Errors:
 * zr__output_open; also ZR_ERR_IO, after which a later call may overwrite the partial file. */
ZR_NODISCARD zr_status zr__output_write(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                        const char *data, size_t bytes);

/** Check the same without opening the file for writing: an output that is written at the end is refused at the
 * start. */
ZR_NODISCARD zr_status zr__output_check(const char *path, const zr__output_kind *kind, const char *const *inputs);

/** Return ZR_ERR_CREATE if an open stream, such as stdout, is one of the inputs. */
ZR_NODISCARD zr_status zr__output_check_stream(int fd, const char *name, const char *const *inputs);

#endif
