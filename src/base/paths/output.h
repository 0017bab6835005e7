/**
 * base/paths: paths given by the user. shards.h finds data files and their weights. This header opens output files. An
 * output must not be a file that the command reads, and it overwrites only a file of the same kind.
 */
#ifndef ZR_BASE_OUTPUT_H
#define ZR_BASE_OUTPUT_H

#include "base/file/file.h"

typedef struct zr__output_kind {
    const char *what; /* name of the kind for messages, such as "trace" */
    const char *head; /* first bytes of every file of this kind */
    bool streams;     /* whether the output is written from beginning to end, so that it may be a pipe */
} zr__output_kind;

/**
 * Open an output file, creating it if it does not exist. An existing file is not truncated here.
 *
 * `inputs` lists the paths that the command reads, ending with NULL. A directory in this list stands for the weights,
 * configurations and tokenizers in the directory and in its subdirectory model/. Files are compared by device and
 * inode, not by name.
 *
 * Fail with ZR_ERR_CREATE if the file is an input, is of another kind or cannot be created. In this case nothing is
 * changed.
 */
ZR_NODISCARD zr_status zr__output_open(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                       zr__file *file);

/** Open the output and write all its bytes in place: no temporary file is created, and a link stays a link. Errors:
 * ZR_ERR_CREATE as in zr__output_open; ZR_ERR_IO, after which a later call may overwrite the partial file. */
ZR_NODISCARD zr_status zr__output_write(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                        const char *data, size_t bytes);

/** Make the checks of zr__output_open without opening the file for writing. A command calls this at its start, to
 * refuse a wrong path before the work begins. */
ZR_NODISCARD zr_status zr__output_check(const char *path, const zr__output_kind *kind, const char *const *inputs);

/** Return ZR_ERR_CREATE if an open stream, such as stdout, writes to one of the inputs. */
ZR_NODISCARD zr_status zr__output_check_stream(int fd, const char *name, const char *const *inputs);

#endif
