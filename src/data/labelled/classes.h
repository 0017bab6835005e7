/** Reads texts with labels from .jsonl files. */
#ifndef ZR_DATA_LABELLED_CLASSES_H
#define ZR_DATA_LABELLED_CLASSES_H

#include "base/file/file.h"
#include "data/labelled/names.h"
#include "data/text/parts.h"

/** Reader of labelled texts, and its counts. */
typedef struct zr__class_reader {
    const zr_labelled_args *args;
    zr__labelled_list *list;
    zr__label_names *names; /* names to collect, while no samples are made; or NULL */
    int form;               /* form of the records of the file that is being read, or -1 before the first one */
    const char *members;    /* members of the records, if they are not "text" and "label"; or NULL */
    int32_t *first;         /* buffer for the tokens of a line's first text */
    int64_t first_room;
    int64_t cut;     /* number of samples that were too long */
    int64_t records; /* number of records read, of all parts */
} zr__class_reader;

/** Shorten two texts of *a and *b tokens to at most `most` tokens together. If there is no second text, *b is
 * ZR__NO_TEXT. */
void zr__labelled_shorten(int64_t most, int64_t *a, int64_t *b);

/** Read the file `path`, and add its counts to `found`. Errors: as zr_labelled_open. */
ZR_NODISCARD zr_status zr__classes_read(zr__class_reader *reader, const zr__file *file, const char *path,
                                        zr__found_texts *found);
void zr__class_reader_free(zr__class_reader *reader);

#endif
