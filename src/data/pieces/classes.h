/**
 * Classes of characters, as the regular expressions of the package `tokenizers` see them (Unicode 16). The pieces of a
 * text and the borders of added tokens depend only on the classes of characters.
 */
#ifndef ZR_DATA_CLASSES_H
#define ZR_DATA_CLASSES_H

#include "zr/base.h"

/** Class of a character, by its Unicode category. Characters of the classes UPPER to NUMBER, and WORD, belong to words
 * (\w). */
typedef enum zr__class {
    ZR__OTHER,
    ZR__UPPER,  /* Lu and Lt */
    ZR__LOWER,  /* Ll */
    ZR__LETTER, /* Lm and Lo */
    ZR__MARK,   /* M */
    ZR__NUMBER, /* Nd and Nl */
    ZR__FIGURE, /* No: a number that does not belong to words */
    ZR__SPACE,  /* white space (\s) */
    ZR__WORD,   /* a character outside L, M and N that belongs to words, such as "_" */
} zr__class;

/** Sets of classes, as bits. */
#define ZR__BIT(its) (1u << (its))
#define ZR__LETTERS (ZR__BIT(ZR__UPPER) | ZR__BIT(ZR__LOWER) | ZR__BIT(ZR__LETTER))
#define ZR__NUMBERS (ZR__BIT(ZR__NUMBER) | ZR__BIT(ZR__FIGURE))
#define ZR__WORDS (ZR__LETTERS | ZR__BIT(ZR__MARK) | ZR__BIT(ZR__NUMBER) | ZR__BIT(ZR__WORD))

enum { ZR__CHARACTERS = 0x110000, ZR__CLASS_PAGES = 256, ZR__CLASS_PAGE = 256, ZR__CLASS_MANY = 15 };

/** Table of the classes: character c has the class page[place[c / 256]][c % 256]. */
typedef struct zr__classes {
    uint8_t place[ZR__CHARACTERS / ZR__CLASS_PAGE];
    uint8_t page[ZR__CLASS_PAGES][ZR__CLASS_PAGE];
} zr__classes;

/** Create the table. It never changes, so any number of threads may use it. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__classes_open(zr__classes **classes);
/** Create a table of other classes: character c has the class number[c], which is below 256. Errors: ZR_ERR_MEMORY;
 * ZR_ERR_INTERNAL if more than ZR__CLASS_PAGES of its pages differ. */
ZR_NODISCARD zr_status zr__classes_of(const uint8_t number[ZR__CHARACTERS], zr__classes **classes);
/** Create a table of other classes, numbered from 0 to 8, from n entries of a run-length code of the characters from
 * U+0000 on. An entry is length * 16 + class, or length * 16 + ZR__CLASS_MANY for 256 * length characters of class 0.
 * Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__classes_make(const uint16_t *range, size_t n, zr__classes **classes);
void zr__classes_close(zr__classes **classes);

/** Return the character at `text`, which must be valid UTF-8, and its length in bytes. */
static inline uint32_t zr__character_at(const unsigned char *text, int64_t *bytes)
{
    uint32_t c = text[0];
    *bytes = 1;
    if (c >= 0xf0) {
        c = (c & 7) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 | (text[3] & 0x3fu);
        *bytes = 4;
    } else if (c >= 0xe0) {
        c = (c & 15) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
        *bytes = 3;
    } else if (c >= 0x80) {
        c = (c & 31) << 6 | (text[1] & 0x3fu);
        *bytes = 2;
    }
    return c;
}

/** Write a character in UTF-8. Return its number of bytes. */
static inline int64_t zr__character_put(int32_t character, char out[4])
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const uint32_t c = (uint32_t)character;
    const int64_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int64_t i = n - 1; i > 0; i--) out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 63));
    out[0] = (char)(n == 1 ? c : lead[n] | c >> 6 * (n - 1));
    return n;
}

/** Return whether the methods `split` and `strip` of Python's strings take a character for white space. */
static inline bool zr__is_python_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/** Return whether Unicode counts a character as white space. */
static inline bool zr__is_white(uint32_t c)
{
    return zr__is_python_space(c) && !(c >= 0x1c && c <= 0x1f);
}

/** Return the class of a character. */
static inline unsigned zr__class_of(const zr__classes *classes, uint32_t c)
{
    return classes->page[classes->place[c / ZR__CLASS_PAGE]][c % ZR__CLASS_PAGE];
}

/** Return the class of the character at `text`, which must be valid UTF-8, and its length in bytes. */
static inline unsigned zr__class_at(const zr__classes *classes, const unsigned char *text, int64_t *bytes)
{
    return zr__class_of(classes, zr__character_at(text, bytes));
}

/** Return whether the character that ends at `at` (_before) or begins at `at` (_behind) has a class of the set. An
 * incomplete or missing character has the class OTHER. */
bool zr__class_before(const zr__classes *classes, const char *text, int64_t at, unsigned set);
bool zr__class_behind(const zr__classes *classes, const char *text, int64_t at, int64_t bytes, unsigned set);

#endif
