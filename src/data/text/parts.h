/**
 * data/text: documents of texts. This header divides a text file into parts that can be processed independently, in
 * memory that does not grow with the file; encode.h encodes them by several threads, jsonl.h finds the text of a line,
 * and kind.h refuses files that are no text.
 *
 * A part of a plain text ends at a cut of the tokenizer (zr__tokenizer_cut), so that the parts together have the same
 * tokens as the whole text; a part grows until there is a cut, up to a limit. A part of a .jsonl file is whole lines,
 * each a document.
 */
#ifndef ZR_DATA_PARTS_H
#define ZR_DATA_PARTS_H

#include "base/core/core.h"
#include "base/file/file.h"

/** Settings of reading a file, and the position in it. Zero-initialise fields that are not set. */
typedef struct zr__parts {
    const zr__file *file;
    /** Find a cut as zr__tokenizer_cut does, for the object `of`. NULL: no cuts are known, so a document is one part.
     */
    int64_t (*cut)(const void *of, const char *text, int64_t from, int64_t bytes);
    const void *of;
    int64_t usual_bytes;  /* usual size of a part */
    int64_t most_bytes;   /* limit of a document without a cut: above it, it is cut between two characters */
    bool lines;           /* .jsonl, and: */
    const char *text_key; /* of each line */
    bool skip_bad_lines;
    const char *key_named, *skip_named; /* names of text_key and skip_bad_lines in messages */
    /* Position: */
    int64_t read, lines_read; /* bytes read, and lines of the parts taken by zr__part_take */
} zr__parts;

/** Counts of the texts in parts. */
typedef struct zr__found_texts {
    int64_t documents, text_bytes; /* documents with a text, and the bytes of their texts */
    int64_t skipped_lines, first_skipped;
} zr__found_texts;

typedef struct zr__part {
    char *text;
    int64_t room, n, at; /* n bytes from byte `at` of the file on */
    bool too_long;       /* the part stands for a line above the limit */
    /* Results: */
    zr__found_texts found; /* first_skipped: counted from the part's first line, 1 */
    int64_t lines, bad_line;
    zr__failure failed;
} zr__part;

/** Take a document's text, or a stretch of one; `ends`: the document of a line ends with it. */
typedef zr_status (*zr__text_fn)(void *arg, const char *text, int64_t bytes, bool ends);

/** Begin to read; the byte order mark of a .jsonl file is skipped. */
ZR_NODISCARD zr_status zr__parts_begin(zr__parts *parts);
/** Read the next part; at the end part->n is 0 and too_long false. ZR_ERR_MEMORY, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__part_read(zr__parts *parts, zr__part *part);
/** Give fn the texts of the part, on any thread. An error of fn or of a line is kept in the part. */
void zr__part_run(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg);
/** Add the part's counts to `all`, in the order of parts. If the part failed, return its error, naming file and
 * place. */
ZR_NODISCARD zr_status zr__part_take(zr__parts *parts, const zr__part *part, zr__found_texts *all);
/** Free the part's memory. */
void zr__part_free(zr__part *part);

#endif
