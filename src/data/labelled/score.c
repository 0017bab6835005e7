/* SQuAD's evaluation of one answer, version 1.1. */
#include "data/labelled/final.h"
#include "data/labelled/words.h"
#include "data/pieces/nfc.h"

#include <string.h>

/* ---- normalizing ----------------------------------------------------------------------------- */

/* Return whether a character is one of Python's string.punctuation. */
static bool is_punctuation(uint32_t c)
{
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
}

/* If the last word of `out`, which begins at offset `word`, is an article, replace it by a space. */
static void drop_article(zr__text *out, size_t word)
{
    static const char *const article[] = {"a", "an", "the"};
    for (size_t i = 0; i < sizeof(article) / sizeof(article[0]); i++) {
        const size_t n = strlen(article[i]);
        if (out->length != word + n || memcmp(out->data + word, article[i], n) != 0) continue;
        out->length = word;
        zr__text_append(out, " ", 1);
        return;
    }
}

/* Append a text in lower case, without punctuation and articles. */
static void add_plain(const zr__classes *classes, const char *text, zr__text *out)
{
    size_t word = out->length; /* offset of the last word of `out` */
    for (int64_t i = 0, length; text[i]; i += length) {
        int32_t lower[2];
        const int32_t c = (int32_t)zr__character_at((const unsigned char *)text + i, &length);
        const int64_t parts = zr__lower(c, lower);
        for (int64_t k = 0; k < parts && !is_punctuation((uint32_t)lower[k]); k++) {
            char utf8[4];
            const unsigned its = ZR__BIT(zr__class_of(classes, (uint32_t)lower[k]));
            const bool inside = its & (ZR__LETTERS | ZR__NUMBERS);
            if (!inside) drop_article(out, word);
            zr__text_append(out, utf8, (size_t)zr__character_put(lower[k], utf8));
            if (!inside) word = out->length;
        }
    }
    drop_article(out, word);
}

/* Append a text as SQuAD's evaluation normalizes it: in lower case, without punctuation and articles, and with a single
 * space between two words. */
static void normalize(const zr__classes *classes, const char *text, zr__text *out)
{
    ZR_AUTO(zr__text_clear) zr__text plain = {0};
    add_plain(classes, text, &plain);
    if (plain.data) zr__join_split(plain.data, out);
    out->failed |= plain.failed;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Return the length of the word at the beginning of a text, which ends at a space or with the text. */
static size_t word_length(const char *text)
{
    return strcspn(text, " ");
}

/* Return the beginning of the next word. */
static const char *next_word(const char *text)
{
    text += word_length(text);
    return *text ? text + 1 : text;
}

static int64_t count_words(const char *text)
{
    int64_t n = 0;
    for (; *text; text = next_word(text)) n++;
    return n;
}

/* Return how often the word at `word` occurs in text[0, end), or in the whole text if `end` is NULL. */
static int64_t count_word(const char *text, const char *end, const char *word)
{
    const size_t n = word_length(word);
    int64_t found = 0;
    for (; *text && text != end; text = next_word(text)) found += word_length(text) == n && memcmp(text, word, n) == 0;
    return found;
}

/* Return the number of words that two texts have in common. A repeated word counts as often as it occurs in the text
 * that has fewer of it. */
static int64_t common_words(const char *a, const char *b)
{
    int64_t same = 0;
    for (const char *word = a; *word; word = next_word(word))
        same += count_word(a, word, word) < count_word(b, NULL, word);
    return same;
}

static double f1_of(const char *answer, const char *right)
{
    const int64_t same = common_words(answer, right);
    if (same == 0) return 0;
    const double precision = (double)same / (double)count_words(answer),
                 recall = (double)same / (double)count_words(right);
    return 2 * precision * recall / (precision + recall);
}

zr_status zr__answer_compare(const zr__classes *classes, const char *answer, const char *right, bool *exact, double *f1)
{
    ZR_AUTO(zr__text_clear) zr__text a = {0}, b = {0};
    normalize(classes, answer, &a);
    normalize(classes, right, &b);
    const char *x = a.data ? a.data : "", *y = b.data ? b.data : "";
    *exact = strcmp(x, y) == 0;
    *f1 = f1_of(x, y);
    ZR_CHECK(!a.failed && !b.failed, ZR_ERR_MEMORY, "no memory to compare an answer of %zu bytes", strlen(answer));
    return ZR_OK;
}
