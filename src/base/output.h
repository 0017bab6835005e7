/**
 * Files that a command writes where the user said so: none of them may be something that it reads, and of what is there
 * already only a file of the same kind is overwritten.
 */
#ifndef ZR_BASE_OUTPUT_H
#define ZR_BASE_OUTPUT_H

#include "base/file.h"

typedef struct zr__output_kind {
    const char *what; /* "trace" */
    const char *head; /* what every such file begins with */
    bool streams;     /* written from beginning to end, so that a pipe will do */
} zr__output_kind;

/**
 * Open the place of an output, making the file where there is none; an older one is not yet truncated.
 *
 * `inputs`: the paths that the command reads, up to a NULL; a directory stands for the weights, configurations and
 * tokenizers in it and in its model/. They are known by device and inode, whatever they are called.
 *
 * ZR_ERR_CREATE, and nothing has changed: the place is an input, holds a file of another kind, cannot be made.
 */
ZR_NODISCARD zr_status zr__output_open(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                       zr__file *file);

/** Open it and write all of it, in place: nothing beside it is touched, and a link stays one. As zr__output_open, and
 *  ZR_ERR_IO, where what is there then may be overwritten again. */
ZR_NODISCARD zr_status zr__output_write(const char *path, const zr__output_kind *kind, const char *const *inputs,
                                        const char *data, size_t bytes);

/** The same looked at without opening it to write, for what is made at the end and should be refused at the start. */
ZR_NODISCARD zr_status zr__output_check(const char *path, const zr__output_kind *kind, const char *const *inputs);

/** Is a stream that is open already, as stdout is, one of the inputs? Then ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__output_check_stream(int fd, const char *name, const char *const *inputs);

#endif
