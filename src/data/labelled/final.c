#include "data/labelled/final.h"

#include <string.h>

/* Append the words of a text, as BERT's tokenizer normalizes and divides it, separated by spaces. */
static zr_status add_words(const zr__bert *bert, const char *text, zr__text *out)
{
    ZR_AUTO(zr__text_clear) zr__text normalized = {0};
    zr__bert_word word = {0};
    ZR_TRY(zr__bert_add(bert, text, (int64_t)strlen(text), &normalized));
    while (normalized.data && zr__bert_next(bert, normalized.data, (int64_t)normalized.length, &word)) {
        if (out->length > 0) zr__text_append(out, " ", 1);
        zr__text_append(out, normalized.data + word.from, (size_t)(word.to - word.from));
    }
    return ZR_OK;
}

/* Return whether a byte begins a character other than a space. */
static bool counts(char c)
{
    return c != ' ' && ((unsigned char)c & 0xc0) != 0x80;
}

/* Count the characters of text[0, bytes) other than spaces. */
static int64_t count(const char *text, size_t bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += counts(text[i]);
    return n;
}

/* Return a pointer to character n of a text, counted from 0 without spaces. The text must have more than n characters
 * besides spaces. */
static const char *place_of(const char *text, int64_t n)
{
    while (!counts(*text) || n-- > 0) text++;
    return text;
}

zr_status zr__final_text(const zr__bert *bert, const char *said, const char *original, zr__text *out)
{
    ZR_AUTO(zr__text_clear) zr__text words = {0};
    ZR_TRY(add_words(bert, original, &words));
    const char *found = words.data && *said ? strstr(words.data, said) : NULL;
    const int64_t all = count(original, strlen(original));
    if (found && all == count(words.data, words.length)) {
        const int64_t before = count(words.data, (size_t)(found - words.data)), n = count(found, strlen(said));
        const char *begin = place_of(original, before), *end = place_of(begin, n - 1) + 1;
        while (((unsigned char)*end & 0xc0) == 0x80) end++; /* the rest of the last character */
        zr__text_append(out, begin, (size_t)(end - begin));
    } else {
        zr__text_append(out, original, strlen(original));
    }
    ZR_CHECK(!words.failed && !out->failed, ZR_ERR_MEMORY, "no memory for an answer of %zu bytes", strlen(original));
    return ZR_OK;
}
