/**
 * Cuts text into pieces by a list of regular expressions. Each match of the first expression is a piece, and so is the
 * text between two matches. Each further expression cuts these pieces again. PCRE2 does the matching, with Unicode
 * properties. Known expressions need no PCRE2 (scan.h). The text need not be UTF-8: each valid range is cut as a
 * separate text, and each invalid byte is a piece.
 */
#ifndef ZR_DATA_SPLIT_H
#define ZR_DATA_SPLIT_H

#include "data/pieces/scan.h"

/** The expression of GPT-2's tokenizer, used for the pre-tokenizer ByteLevel. */
#define ZR__SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define ZR__SPLIT_MOST 8 /* maximum number of expressions */

/** A list of compiled expressions. It never changes, so any number of threads may use it. */
typedef struct zr__split zr__split;

/** Compile the expressions. If there is only one, and hand-written code exists for it, use that code with the table
 * `classes` (unless NULL), which must exist as long as the list. `where` names the file and key in messages. Fail with
 * ZR_ERR_DATA if the list is empty, or if PCRE2 does not support an expression or interprets it differently from the
 * tokenizer's regex engine. */
ZR_NODISCARD zr_status zr__split_open(const char *const *expression, int n, const zr__classes *classes,
                                      const char *where, zr__split **split);
void zr__split_close(zr__split **split);

/** Return the XXH3-64 hash of the expressions and of the version of Unicode. */
uint64_t zr__split_hash(const zr__split *split);

/** Working memory of one thread for cutting ranges of text. */
typedef struct zr__matcher zr__matcher;

/** Prepare to cut texts into pieces for fn. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__matcher_open(const zr__split *split, zr__split_fn fn, void *arg, zr__matcher **matcher);
void zr__matcher_close(zr__matcher **matcher);

/** Cut a range of text into pieces, as if no text came before or after it, and pass the pieces to fn in order. Together
 * the pieces cover the whole range. Messages name the position of the range in the whole text, `at`. Errors:
 * ZR_ERR_DATA if an expression needs too much time or memory for this text; ZR_ERR_MEMORY; and errors of fn. */
ZR_NODISCARD zr_status zr__matcher_cut(zr__matcher *matcher, const char *range, int64_t bytes, int64_t at);

/** Return whether the character before text[at] is certainly neither white space nor U+2581. */
bool zr__split_solid_before(const char *text, int64_t at);

/** Return the last offset >= `from` at which the text may safely be cut in two, or 0 if none is known. A cut is safe if
 * both parts together have the same pieces as the whole, for every text that may follow. */
int64_t zr__split_cut(const zr__split *split, const char *text, int64_t from, int64_t bytes);

#endif
