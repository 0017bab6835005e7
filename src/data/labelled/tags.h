/** Reads sentences whose words have tags, from files of columns or from JSON records. */
#ifndef ZR_DATA_LABELLED_TAGS_H
#define ZR_DATA_LABELLED_TAGS_H

#include "base/file/file.h"
#include "data/labelled/names.h"
#include "data/text/parts.h"

/** Reader of tagged sentences, and its counts. */
typedef struct zr__tag_reader {
    const zr_labelled_args *args;
    zr__labelled_list *list;
    zr__label_names *names;       /* names to collect, while no samples are made; or NULL */
    int64_t cut;                  /* number of sentences that were too long */
    int64_t records;              /* number of sentences read, of all parts */
    int64_t columns;              /* number of columns of the file that is being read, or 0 before its first line */
    int64_t first_line;           /* the line that has set `columns` */
    zr__labelled_sample sentence; /* the sentence that is being read; a_n is -1 if it has not begun */
} zr__tag_reader;

/** Read the file `path`, and add its counts to `found`. Errors: as zr_labelled_open. */
ZR_NODISCARD zr_status zr__tags_read(zr__tag_reader *reader, const zr__file *file, const char *path,
                                     zr__found_texts *found);

#endif
