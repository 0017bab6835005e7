/**
 * Cuts text into pieces by a list of steps, as the pre-tokenizers of the package `tokenizers` do. Each step finds
 * matches in the pieces of the step before it, and makes pieces of the matches and of the text between them. Regular
 * expressions are matched by PCRE2 with Unicode properties, or by hand-written code if they are known (scan.h). Other
 * steps change pieces (normalize.h). The text need not be UTF-8: each valid range is cut as a separate text, and each
 * invalid byte is a piece.
 */
#ifndef ZR_DATA_SPLIT_H
#define ZR_DATA_SPLIT_H

#include "data/pieces/normalize.h"
#include "data/pieces/scan.h"

enum { ZR__SPLIT_MOST = 16 /* maximum number of steps */ };

/** Kind of matches that a step finds. split.c has a function for each kind. */
typedef enum zr__match_kind {
    ZR__MATCH_EXPRESSION,  /* matches of the regular expression `text` */
    ZR__MATCH_SCRIPT,      /* stretches of one script (scripts.h) */
    ZR__MATCH_TEXT,        /* occurrences of `text` */
    ZR__MATCH_SPACE,       /* each white space character */
    ZR__MATCH_DIGIT,       /* each number */
    ZR__MATCH_PUNCTUATION, /* each punctuation character */
    ZR__MATCH_WORDS,       /* words, and runs of other characters except white space */
    ZR__MATCH_BERT,        /* words and punctuation characters of BERT (zr__bert_next) */
    ZR__MATCH_LENGTH,      /* every `length` characters, and the rest */
    ZR__MATCH_KINDS,
} zr__match_kind;

/** Rule by which matches and the text between them become pieces. */
typedef enum zr__behavior {
    ZR__ISOLATED,      /* each match is a piece */
    ZR__REMOVED,       /* matches are left out */
    ZR__CONTIGUOUS,    /* consecutive matches are one piece */
    ZR__WITH_PREVIOUS, /* a match belongs to the text before it */
    ZR__WITH_NEXT,     /* a match belongs to the text after it */
} zr__behavior;

typedef struct zr__cut {
    zr__match_kind kind;
    zr__behavior behavior;
    bool invert; /* whether the text between matches counts as the matches */
    const char *text;
    int64_t length;
} zr__cut;

/** A list of steps. It does not change after the last step is added, so any number of threads may use it. */
typedef struct zr__split zr__split;

/** Create an empty list, which leaves a text as one piece. `classes` must exist as long as the list. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__split_open(const zr__classes *classes, zr__split **split);
void zr__split_close(zr__split **split);

/** Add a step. `where` names the file and key in messages. Errors: ZR_ERR_DATA if there are too many steps, or if PCRE2
 * does not support an expression or interprets it differently from the tokenizer's regex engine; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__split_add(zr__split *split, zr__cut cut, const char *where);
/** Add a step that changes pieces. `first`: whether something is prepended only to the first piece of a whole text.
 * Errors: as for zr__split_add and zr__changes_add. */
ZR_NODISCARD zr_status zr__split_add_change(zr__split *split, zr__change_kind kind, const char *from, const char *to,
                                            bool first, const char *where);

/** Return the XXH3-64 hash of the steps and of the versions of Unicode that they use. */
uint64_t zr__split_hash(const zr__split *split);
/** Return the maximum number of bytes of pieces that one byte of text may become; or of characters, if `characters` and
 * the steps only make a character of a space or put one before pieces. */
int64_t zr__split_growth(const zr__split *split, bool characters);
/** Return whether pieces may be in memory that the matcher overwrites before it cuts the next one. */
bool zr__split_moves(const zr__split *split);

/** Append a text with `to` in place of each match of the first step. Errors: as for zr__matcher_cut. */
ZR_NODISCARD zr_status zr__split_replace(const zr__split *split, const char *text, int64_t bytes, const char *to,
                                         zr__text *out);

/** Working memory of one thread for cutting ranges of text. */
typedef struct zr__matcher zr__matcher;

/** Prepare to cut texts into pieces for fn. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__matcher_open(const zr__split *split, zr__split_fn fn, void *arg, zr__matcher **matcher);
void zr__matcher_close(zr__matcher **matcher);

/** Cut a range of text into pieces, as if no text came before or after it, and pass the pieces to fn in order. Messages
 * name the position of the range in the whole text, `at`. Errors: ZR_ERR_DATA if an expression needs too much time or
 * memory for this text; ZR_ERR_MEMORY; and errors of fn. */
ZR_NODISCARD zr_status zr__matcher_cut(zr__matcher *matcher, const char *range, int64_t bytes, zr__begins begins,
                                       int64_t at);

/** Return whether the character before text[at] is certainly neither white space nor U+2581. */
bool zr__split_solid_before(const char *text, int64_t at);

/** Return the last offset >= `from` at which the text may safely be cut in two, or 0 if none is known. A cut is safe if
 * both parts together have the same pieces as the whole, for every text that may follow. */
int64_t zr__split_cut(const zr__split *split, const char *text, int64_t from, int64_t bytes);

#endif
