/**
 * Cutting text into pieces by a list of regular expressions: each match of the first one is a piece, and so is the text
 * between two matches; the next expression cuts each piece further. PCRE2 does the matching, on Unicode
 * properties.
 *
 * Text need not be UTF-8: each valid stretch is cut as a separate text, and each byte that belongs to no character is a
 * piece.
 */
#ifndef ZR_DATA_SPLIT_H
#define ZR_DATA_SPLIT_H

#include "zr/base.h"

/** The expression of GPT-2's tokenizer, which the pre-tokenizer ByteLevel stands for. */
#define ZR__SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define ZR__SPLIT_MOST 8 /* expressions */

/** A list of compiled expressions. It is constant once open, so that any number of threads may use it. */
typedef struct zr__split zr__split;

/** Compile the expressions; `where` names the file and key in messages. ZR_ERR_DATA: an expression is missing, or
 * PCRE2 gives it another meaning or none. */
ZR_NODISCARD zr_status zr__split_open(const char *const *expression, int n, const char *where, zr__split **split);
void zr__split_close(zr__split **split);

/** Return XXH3-64 of the expressions and of PCRE2's Unicode version. */
uint64_t zr__split_hash(const zr__split *split);

typedef zr_status (*zr__split_fn)(void *arg, const char *piece, int64_t bytes);

/** Working memory of one thread for matching any number of stretches of one text. */
typedef struct zr__matcher zr__matcher;

/** Prepare to give fn the pieces of stretches of `text`; messages count bytes from its beginning. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__matcher_open(const zr__split *split, const char *text, zr__split_fn fn, void *arg,
                                        zr__matcher **matcher);
void zr__matcher_close(zr__matcher **matcher);

/** Give fn the pieces of a stretch in order, which together are the stretch; it is cut as a separate text.
 * ZR_ERR_DATA: an expression needs too much time or memory for this text. ZR_ERR_MEMORY; the errors of fn. */
ZR_NODISCARD zr_status zr__matcher_cut(zr__matcher *matcher, const char *stretch, int64_t bytes);

/** Return the last place >= `from` at which the text may safely be cut in two, so that both parts have the same
 * pieces as the whole, whatever text follows. 0: there is no safe place, or none is known for these expressions. */
int64_t zr__split_cut(const zr__split *split, const char *text, int64_t from, int64_t bytes);

#endif
