/** The shape of a text file: how its records follow each other. The first value decides, whatever the file is called. A
 * record is a JSON object. A table, by its name (.csv, .tsv), has a record in each row after the first one. */
#ifndef ZR_DATA_SHAPE_H
#define ZR_DATA_SHAPE_H

#include "base/file/file.h"

typedef enum zr__shape {
    ZR__SHAPE_TEXT,   /* a text without records */
    ZR__SHAPE_LINES,  /* JSON Lines: a record on each line */
    ZR__SHAPE_VALUES, /* records one after the other, which may span lines */
    ZR__SHAPE_ARRAY,  /* a JSON array of records */
    ZR__SHAPE_CSV,    /* rows of comma-separated values, whose first row names the columns (data/files/table.h) */
    ZR__SHAPE_TSV,    /* rows of tab-separated values, with names in the same way */
} zr__shape;

/** Maximum length in bytes of a record. A longer record counts as bad. */
#define ZR__LINE_BYTES ((int64_t)16 << 20)

/** Return whether a path ends in `end`, such as ".json", in small or capital letters, perhaps with ".gz" or ".zst"
 * behind it. */
bool zr__path_ends(const char *path, const char *end);

/** Return what separates the columns of a table, or 0 for other shapes. */
char zr__shape_separator(zr__shape shape);

/** Return whether a path ends in .jsonl or .ndjson. Such a file consists of records, even if its first line is bad. */
bool zr__shape_is_lines(const char *path);

/** Find the shape of a file from its first value: a JSON object, or an array whose first element is one. If `note` is
 * not NULL, it receives a remark if the path of the file does not say what the file is, otherwise "". Errors:
 * ZR_ERR_IO; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__shape_find(const zr__file *file, const char *path, zr__shape *shape, char *note,
                                      size_t size);

typedef enum zr__shape_found {
    ZR__RECORD_FOUND,
    ZR__RECORD_PART,  /* the text ends before the record does, or before it begins */
    ZR__RECORD_NONE,  /* no record follows; only if the text ends with the file */
    ZR__RECORD_BROKEN /* the text is not a sequence of records here */
} zr__shape_found;

/** A pass over the records of text[0, n), which begins with a record or between two records. */
typedef struct zr__shape_walk {
    zr__shape shape;
    const char *text;
    int64_t n;
    bool first;         /* whether no record of the file comes before the text; zr__shape_next clears it */
    bool whole;         /* whether the text ends with the file */
    int64_t begin, end; /* the current record; set `end` to 0 before the first call */
    const char *reason; /* what is wrong, for ZR__RECORD_BROKEN */
} zr__shape_walk;

/** Find the next record. */
zr__shape_found zr__shape_next(zr__shape_walk *walk);

/** Return the bytes of a byte order mark at the beginning of a text: 3, or 0. */
int64_t zr__shape_mark(const char *text, int64_t n);

#endif
