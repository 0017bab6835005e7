/* Declarations that the writer and the reader of manifests share with each other and with tests. */
#ifndef ZR_CHECKPOINT_MANIFEST_H
#define ZR_CHECKPOINT_MANIFEST_H

#include "zr/checkpoint.h"

#define ZR_MANIFEST_NAME "manifest.json"
/* Limits on a manifest's values, checked before they are compared with files. */
#define ZR_MANIFEST_FILES_MAX 1024
#define ZR_MANIFEST_RUN_MAX_BYTES (1 << 20)
#define ZR_MANIFEST_FILE_MAX_BYTES ((int64_t)1 << 48)
#define ZR_MANIFEST_STEP_MAX ((int64_t)1 << 53)
#define ZR_MANIFEST_NAME_MAX 128
#define ZR_MANIFEST_BUILD_MAX 256

/* Bytes of the end of every manifest: `"xxh3": "`, 16 digits, `"}` and a newline. */
#define ZR_MANIFEST_TAIL_BYTES 28

/** Return the step in a checkpoint's name, "step-00001000"; -1: it is another name. */
int64_t zr__checkpoint_step(const char *name);

/** Return whether a file of a checkpoint may have this name. */
bool zr__manifest_file_name(const char *name, size_t n);

/** Parse and check a manifest's text; `name` is the file in messages. ZR_ERR_DATA. zr_manifest_free it. */
ZR_NODISCARD zr_status zr__manifest_parse(const char *name, const char *text, size_t bytes, zr_manifest **manifest);

/** Print a manifest with its checksum; zr_free it. ZR_ERR_INTERNAL: chunks that do not tile a file. */
ZR_NODISCARD zr_status zr__manifest_print(const zr_manifest *manifest, char **text, size_t *bytes);

/** Read and check dir/manifest.json alone, not the files that it lists. */
ZR_NODISCARD zr_status zr__manifest_load(const char *dir, zr_manifest **manifest);

#endif
