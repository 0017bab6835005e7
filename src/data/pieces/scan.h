/**
 * Cuts text into pieces like the regular expressions of common tokenizers, by hand-written code. It gives the same
 * pieces as the package `tokenizers` and is faster than a regular expression. split.h chooses between the two.
 */
#ifndef ZR_DATA_SCAN_H
#define ZR_DATA_SCAN_H

#include "data/pieces/classes.h"

/** The expression of GPT-2's tokenizer, used for the pre-tokenizer ByteLevel. */
#define ZR__SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/** The expression of the tokenizers of Llama 3 and GPT-4. */
#define ZR__SPLIT_LLAMA3                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/** The expression of Qwen2's and Qwen3's tokenizers. */
#define ZR__SPLIT_QWEN2                                                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"                \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/** The expression of Qwen3.5's tokenizer. */
#define ZR__SPLIT_QWEN35                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"  \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/** The expression of Mistral's tokenizer Tekken. */
#define ZR__SPLIT_TEKKEN                                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"                       \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"                \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/** The expression of the tokenizers of GPT-4o, Llama 4 and gpt-oss. */
#define ZR__SPLIT_GPT4O                                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                                                   \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/** A known expression. */
typedef struct zr__scan zr__scan;

/** Return the scanner for an expression, or NULL if the expression is not known. */
const zr__scan *zr__scan_find(const char *expression);

/** Return whether a line end may belong to the piece before it. */
bool zr__scan_joins_lines(const zr__scan *scan);

/** Callback that receives a piece. */
typedef zr_status (*zr__split_fn)(void *arg, const char *piece, int64_t bytes);

/** Cut valid UTF-8 into pieces and pass them to fn in order. Together the pieces cover the whole text. Errors: of fn.
 */
ZR_NODISCARD zr_status zr__scan_run(const zr__scan *scan, const zr__classes *classes, const char *text, int64_t bytes,
                                    zr__split_fn fn, void *arg);

#endif
