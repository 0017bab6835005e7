/* Declarations shared by the writer and the reader of manifests, and by tests. */
#ifndef ZR_CHECKPOINT_MANIFEST_H
#define ZR_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

#define ZR_MANIFEST_NAME "manifest.json"
/* Limits on values in a manifest, checked before the values are compared with files. */
#define ZR_MANIFEST_FILES_MAX 1024
#define ZR_MANIFEST_RUN_MAX_BYTES (1 << 20)
#define ZR_MANIFEST_FILE_MAX_BYTES ((int64_t)1 << 48)
#define ZR_MANIFEST_STEP_MAX ((int64_t)1 << 53)
#define ZR_MANIFEST_NAME_MAX 128
#define ZR_MANIFEST_BUILD_MAX 256

/* Number of bytes at the end of every manifest that hold its checksum: `"xxh3": "`, 16 digits, `"}` and a newline. */
#define ZR_MANIFEST_TAIL_BYTES 28

/** Return whether a file of a checkpoint may have this name. */
bool zr__manifest_file_name(const char *name, size_t n);

/** Parse and check a manifest's text. *manifest receives the result, which the caller releases with zr__manifest_free.
 * `name` is the file's name in messages. Error: ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__manifest_parse(const char *name, const char *text, size_t bytes, zr__manifest **manifest);

/** Print a manifest with its checksum to *text, which the caller releases with zr_free. Fail with ZR_ERR_INTERNAL if
 * slices or numbers of chunks are not valid; zr__manifest_write also checks that the chunks cover their file. */
ZR_NODISCARD zr_status zr__manifest_print(const zr__manifest *manifest, char **text, size_t *bytes);

/** Read and check only dir/manifest.json, not the files that it lists. */
ZR_NODISCARD zr_status zr__manifest_load(const char *dir, zr__manifest **manifest);

#endif
