/**
 * Text into pieces by regular expressions, one after the other: what an expression finds is a piece, and so is what
 * lies between two finds; the next expression cuts each of these. Matching is PCRE2's, on Unicode properties.
 *
 * Text need not be UTF-8: each stretch that is valid is cut as a text of its own, and each byte that belongs to no
 * character is a piece.
 */
#ifndef ZR_DATA_SPLIT_H
#define ZR_DATA_SPLIT_H

#include "zr/base.h"

/** The expression of GPT-2's tokenizer, which the pre-tokenizer ByteLevel stands for. */
#define ZR__SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define ZR__SPLIT_MOST 8 /* expressions */

/** Constant once it is open: any number of threads may use it. */
typedef struct zr__split zr__split;

/** `where` names the file and key in messages. ZR_ERR_DATA: no expression, or one that means something else,
 * or nothing, to PCRE2. */
ZR_NODISCARD zr_status zr__split_open(const char *const *expression, int n, const char *where, zr__split **split);
void zr__split_close(zr__split **split);

/** XXH3-64 of the expressions and the version of Unicode that they are read by. */
uint64_t zr__split_hash(const zr__split *split);

typedef zr_status (*zr__split_fn)(void *arg, const char *piece, int64_t bytes);

/** What matching a text takes besides the expressions: one thread's, for any number of stretches of that text. */
typedef struct zr__matcher zr__matcher;

/** fn is given the pieces of stretches of `text`, from whose beginning messages count bytes. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__matcher_open(const zr__split *split, const char *text, zr__split_fn fn, void *arg,
                                        zr__matcher **matcher);
void zr__matcher_close(zr__matcher **matcher);

/** Pieces of a stretch in their order; together they are the stretch, which is cut as a text of its own. ZR_ERR_DATA:
 * an expression needs too much time or memory for this text. ZR_ERR_MEMORY; what fn says. */
ZR_NODISCARD zr_status zr__matcher_cut(zr__matcher *matcher, const char *stretch, int64_t bytes);

/** The last place, from `from` on, where this text surely may be cut in two: the pieces of both parts are those of the
 * whole, whatever comes behind the text. 0: no such place, or not known for these expressions. */
int64_t zr__split_cut(const zr__split *split, const char *text, int64_t from, int64_t bytes);

#endif
