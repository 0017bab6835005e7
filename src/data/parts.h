/**
 * A text file in parts, each of which can be worked on alone: memory does not grow with the file.
 *
 * A part of a plain text ends where a tokenizer allows it (zr_tokenizer_cut), so the tokens of the parts are those of
 * the whole; it grows until there is such a place, up to a limit. A part of a .jsonl file is whole lines, each a
 * document.
 */
#ifndef ZR_DATA_PARTS_H
#define ZR_DATA_PARTS_H

#include "base/file.h"

enum { ZR__PART_MESSAGE_BYTES = 512 };

/** How a file is read; zero-initialise what is not said. */
typedef struct zr__parts {
    const zr__file *file;
    /** As zr_tokenizer_cut, of what is `of`. NULL: no place is known in any text, so a document is one part. */
    int64_t (*cut)(const void *of, const char *text, int64_t from, int64_t bytes);
    const void *of;
    int64_t usual_bytes;  /* of a part */
    int64_t most_bytes;   /* of a document without a place to cut it: then it is cut before a character */
    bool lines;           /* .jsonl, and: */
    const char *text_key; /* of each line */
    bool skip_bad_lines;
    const char *key_named, *skip_named; /* how messages call these two */
    /* Where it is: */
    int64_t read, lines_read; /* bytes, and lines of the parts that were told */
} zr__parts;

/** What was found in parts. */
typedef struct zr__found_texts {
    int64_t documents, text_bytes; /* with a text, and of the texts */
    int64_t skipped_lines, first_skipped;
} zr__found_texts;

typedef struct zr__part {
    char *text;
    int64_t room, n, at; /* n bytes from byte `at` of the file on */
    bool too_long;       /* it stands for a line that is longer than any may be */
    /* What came of it: */
    zr__found_texts found; /* first_skipped: from the part's first line, 1, on */
    int64_t lines, bad_line;
    zr_status status;
    char message[ZR__PART_MESSAGE_BYTES];
} zr__part;

/** A document's text, or a stretch of one; `ends`: a line's document ends with it. */
typedef zr_status (*zr__text_fn)(void *arg, const char *text, int64_t bytes, bool ends);

/** Begin: a byte order mark of a .jsonl file is passed over. */
ZR_NODISCARD zr_status zr__parts_begin(zr__parts *parts);
/** The next part; part->n is 0 and too_long false at the end. ZR_ERR_MEMORY, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__part_read(zr__parts *parts, zr__part *part);
/** Give fn the texts of the part, on any thread; what it says, and what lines hold, stays in the part. */
void zr__part_run(const zr__parts *parts, zr__part *part, zr__text_fn fn, void *arg);
/** Add what the part found, in the order of parts. A failure of the part, by file and place. */
ZR_NODISCARD zr_status zr__part_take(zr__parts *parts, const zr__part *part, zr__found_texts *all);
/** Drop its memory. */
void zr__part_free(zr__part *part);

#endif
