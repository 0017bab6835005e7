/**
 * data/text: reads documents from text files. This header divides a text file into parts that can be processed
 * independently, so that memory does not grow with the file. encode.h encodes parts on several threads, jsonl.h reads a
 * record's object, forms.h finds the form of records, record.h and talk.h render a record with a chat template
 * (chat.h), and kind.h refuses files that are not text.
 *
 * A part of a plain text ends where the tokenizer can cut the text (zr__tokenizer_cut). Therefore the parts together
 * have the same tokens as the whole text. A part grows, up to a limit, until there is a cut. A part of a file of
 * records (shape.h) consists of whole records, and each record is a document.
 */
#ifndef ZR_DATA_PARTS_H
#define ZR_DATA_PARTS_H

#include "base/core/core.h"
#include "base/file/file.h"
#include "data/files/stream.h"
#include "data/files/table.h"
#include "data/text/shape.h"

#include <jansson.h>

/** Position of a piece of text in its document, as bits. */
enum { ZR__DOCUMENT_BEGINS = 1, ZR__DOCUMENT_ENDS = 2 };

/** Callback that receives a document's text, or a piece of it, and its position `where`. */
typedef zr_status (*zr__text_fn)(void *arg, const char *text, int64_t bytes, int where);

/** Function that processes a line; `of` is zr__parts.line_of, and `arg` the argument of zr__part_run. *bytes receives
 * the length of the line's texts, or 0 for none. If the line is bad, `reason` says why, otherwise it is "". */
typedef zr_status (*zr__line_fn)(const void *of, void *arg, const char *line, int64_t n, int64_t *bytes, char *reason);
/** Function like zr__line_fn for a record, which is an object. */
typedef zr_status (*zr__record_fn)(const void *of, void *arg, const json_t *record, int64_t *bytes, char *reason);

/** A file, how to read it, and the current position in it. Members that are not used must be zeros. */
typedef struct zr__parts {
    const zr__file *file;
    /** Function that finds a cut, like zr__tokenizer_cut, with `of` as the first argument. If NULL, no cuts are known,
     * and a plain text of up to most_bytes is one part. */
    int64_t (*cut)(const void *of, const char *text, int64_t from, int64_t bytes);
    const void *of;
    int64_t usual_bytes;  /* usual size of a part in bytes */
    int64_t most_bytes;   /* maximum bytes of a part; a longer text without a cut is cut between two characters */
    zr__shape shape;      /* how the records follow each other; the next members apply only to files of records */
    const char *text_key; /* key of the text in each record */
    /* function for records; or for lines, which are then no JSON; both are NULL if each record has one text */
    zr__record_fn record;
    zr__line_fn line;
    const void *line_of;
    bool skip_bad_lines;
    const char *remedy;  /* advice against a bad line, such as "use --bad-lines skip to skip such records" */
    const char *or_text; /* advice for a file that is a text without records, appended to other advice; or NULL */
    /* Current position, set by zr__parts_begin: */
    zr__stream *stream;
    zr__table table;
    int64_t first;            /* offset in the text of the first part */
    int64_t read, lines_read; /* bytes of the text in parts so far; number of lines that zr__part_take has counted */
    char *rest;               /* bytes that were read behind the last part */
    int64_t rest_n, rest_room;
    bool ended; /* whether no part follows */
} zr__parts;

/** Counts of texts found in parts. */
typedef struct zr__found_texts {
    int64_t documents, text_bytes; /* number of documents that have text, and total bytes of their texts */
    int64_t skipped_lines, first_skipped;
} zr__found_texts;

typedef struct zr__part {
    char *text;
    int64_t room, n, at; /* room, n: capacity and length of `text` in bytes; at: offset of the part in the text */
    bool too_long;       /* whether the part is a record above ZR__LINE_BYTES, which was skipped */
    bool first, last;    /* whether the part is the first or the last one of the file */
    /* Results of zr__part_run: */
    zr__found_texts found; /* counts of the part's texts; first_skipped is a line number within the part, from 1 */
    int64_t lines;         /* number of lines that end in the part */
    int64_t line;          /* line number of the current record within the part, from 1 */
    int64_t bad_line;      /* line of the record that is bad, or 0 */
    bool broken;           /* whether the file cannot be divided into records from that line on */
    zr__failure failed;
} zr__part;

/** Start reading at the beginning of the file. The byte order mark of a file of records is skipped. Call zr__parts_end
 * also after an error. Errors: as zr__stream_read and zr__table_open. */
ZR_NODISCARD zr_status zr__parts_begin(zr__parts *parts);
void zr__parts_end(zr__parts *parts);
/** Return how many bytes of the file have been read. */
int64_t zr__parts_done(const zr__parts *parts);
/** Read the next part. At the end of the file part->n is 0 and part->too_long is false. Errors: as zr__stream_read. */
ZR_NODISCARD zr_status zr__part_read(zr__parts *parts, zr__part *part);
/** Pass the texts of the part to fn. Different threads may process different parts. An error of fn or of a line is
 * stored in the part. */
void zr__part_run(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg);
/** Add the part's counts to `all`. Call this function for the parts in file order. If the part failed, return its
 * error, naming file and position. */
ZR_NODISCARD zr_status zr__part_take(zr__parts *parts, const zr__part *part, zr__found_texts *all);
void zr__part_free(zr__part *part);

#endif
