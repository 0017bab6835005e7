/**
 * Texts read a window at a time: files may be larger than memory. A window ends where its tokens, whatever comes behind
 * it, are those of the whole text; where no such place is known it grows.
 */
#ifndef ZR_TRAIN_WINDOWS_H
#define ZR_TRAIN_WINDOWS_H

#include "base/file.h"

typedef struct zr__windows {
    /** The last place, `from` or behind, where the text may be cut; 0: there is none. */
    int64_t (*cut)(void *arg, const char *text, int64_t from, int64_t bytes);
    zr_status (*use)(void *arg, const char *text, int64_t bytes);
    void *arg;
    zr_progress_fn progress; /* of the bytes of all texts; may be NULL */
    void *progress_arg;
    int64_t all_bytes; /* of all texts */
    char note[512];    /* what is odd about the first that is; "" */
    /* The window that is used: */
    const zr__file *file;
    int64_t at; /* in the file */
    /* Its own: */
    const char *const *texts;
    zr__file *text_file; /* of each text, as it was when it was looked at */
    char *text;
    int64_t room, have, done_bytes;
} zr__windows;

/** Look at all texts before anything is written, and take memory for windows of `room` bytes, or of the longest text.
 *  ZR_ERR_NOT_FOUND, ZR_ERR_DATA one is not there or no text; ZR_ERR_MEMORY. zr__windows_close in either case. */
ZR_NODISCARD zr_status zr__windows_open(zr__windows *w, const char *const *texts, int n, int64_t room);
/** All windows of text number `i` in their order. What `use` says; ZR_ERR_IO, also where it has changed. */
ZR_NODISCARD zr_status zr__windows_read(zr__windows *w, int i);
void zr__windows_close(zr__windows *w);

#endif
