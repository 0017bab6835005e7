/* Declarations shared by the reader and the writer of safetensors files. */
#ifndef ZR_CHECKPOINT_SAFETENSORS_H
#define ZR_CHECKPOINT_SAFETENSORS_H

#include "base/file/file.h"
#include "zr/checkpoint.h"

/* Maximum bytes of a header, set by the format, and of a file, set by zr. The limit of a file exceeds the memory of any
 * machine. It is also low enough that elements times bits per element do not overflow 63 bits. */
#define ZR_SAFETENSORS_HEADER_MAX 100000000
#define ZR_SAFETENSORS_BYTES_MAX ((int64_t)1 << 48)
#define ZR_SAFETENSORS_PREFIX_BYTES 8
/* Number of elements of the stack buffer in which 16-bit tensors are converted to and from F32. */
#define ZR_WIDEN_ELEMS 2048

/** A parsed and checked header. It owns all its memory. */
typedef struct zr__safetensors_header {
    zr_safetensors_tensor *tensor; /* tensors in the order of their bytes in the file */
    int64_t count;
    const zr_safetensors_tensor **by_name; /* pointers to the tensors, sorted by name with strcmp */
    char *names;                           /* memory to which every tensor[i].name points */
    int64_t *dims;                         /* memory to which every tensor[i].dim points */
} zr__safetensors_header;

/** Read the length of the header's text from the file's first 8 bytes. Fail with ZR_ERR_DATA if a header of that length
 * does not fit in the file. */
ZR_NODISCARD zr_status zr__safetensors_header_bytes(const char *name,
                                                    const unsigned char prefix[ZR_SAFETENSORS_PREFIX_BYTES],
                                                    int64_t file_bytes, int64_t *bytes);

/** Parse and check the header's JSON, text[0, bytes). The file has file_bytes bytes, and the tensors' bytes begin after
 * the header. `name` is the file's name in messages. Fail with ZR_ERR_DATA naming file and tensor. Release the header
 * with zr__safetensors_header_free, also after a failure. */
ZR_NODISCARD zr_status zr__safetensors_parse(const char *name, const char *text, int64_t bytes, int64_t file_bytes,
                                             zr__safetensors_header *header);
void zr__safetensors_header_free(zr__safetensors_header *header);

struct zr_safetensors {
    char *path;
    zr__file file;
    bool writable;
    zr__safetensors_header header;
};

/** Return ZR_ERR_ARG unless elements [first, first+n) lie in the tensor. */
ZR_NODISCARD zr_status zr__safetensors_range(const zr_safetensors *st, const zr_safetensors_tensor *tensor,
                                             int64_t first, int64_t n);

#endif
