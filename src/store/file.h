/** Files of a store. A file is created without a name, and all its bytes are reserved at once. */
#ifndef ZR_STORE_FILE_H
#define ZR_STORE_FILE_H

#include "base/text/text.h"

typedef struct zr__store_file {
    int fd;      /* file descriptor, or -1 if the file is closed */
    bool direct; /* whether transfers bypass the page cache; memory, offsets and lengths are then aligned */
    bool cached; /* whether transfers leave data in the page cache, which must then be dropped */
    int64_t bytes;
    char folder[ZR_SHOWN_BYTES]; /* printable form of the folder's path, for messages */
} zr__store_file;

/** Create a file of `bytes` bytes in the folder. `spare` is memory of spare_bytes bytes that may be overwritten; both
 * are multiples of ZR_STORE_ALIGN. Fail as zr__store_create does. */
ZR_NODISCARD zr_status zr__store_file_create(const char *folder, int64_t bytes, void *spare, int64_t spare_bytes,
                                             const char *owner, zr__store_file *file);
void zr__store_file_close(zr__store_file *file);

/** Start to write a range of a cached file to the disk. */
void zr__store_file_push(const zr__store_file *file, int64_t at, int64_t bytes);
/** Drop a range of a cached file from the page cache. If `written`, first wait until the range is on the disk. Return 0
 * or a negative errno. */
int zr__store_file_drop(const zr__store_file *file, int64_t at, int64_t bytes, bool written);

#endif
