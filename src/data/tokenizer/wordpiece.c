#include "data/tokenizer/wordpiece.h"

#include <string.h>

enum { NONE = -1, PREFIX = sizeof(ZR__WORDPIECE_PREFIX) - 1, SHORT_BYTES = 512, CHARACTER_BYTES = 4 };

void zr__wordpiece_finish(zr__bpe *bpe)
{
    for (int32_t token = 0; token < bpe->vocab; token++) {
        const int64_t bytes = zr__bpe_bytes(bpe, token);
        if (!bpe->spelled[token]) continue;
        if (bytes > bpe->longest[0]) bpe->longest[0] = bytes; /* a name with the prefix may also begin a word */
        if (bytes > PREFIX + bpe->longest[1] &&
            memcmp(bpe->text + bpe->begin[token], ZR__WORDPIECE_PREFIX, PREFIX) == 0)
            bpe->longest[1] = bytes - PREFIX;
    }
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Return whether a word has too many characters. */
static bool is_too_long(const zr__bpe *bpe, const char *word, int64_t bytes)
{
    int64_t characters = 0;
    if (bytes <= bpe->most_characters || bytes > CHARACTER_BYTES * bpe->most_characters)
        return bytes > bpe->most_characters;
    for (int64_t i = 0; i < bytes; i++) characters += ((unsigned char)word[i] & 0xc0) != 0x80;
    return characters > bpe->most_characters;
}

/* Divide a word, which follows PREFIX unused bytes, into tokens, and destroy it: the prefix is written over the bytes
 * before each further token. Return the number of tokens, or 0 if no token fits at some position. */
static int64_t divide(const zr__bpe *bpe, char *word, int64_t bytes, int32_t *tokens)
{
    int64_t n = 0;
    for (int64_t at = 0, length; at < bytes; at += length) {
        const int64_t prefix = at > 0 ? PREFIX : 0, left = bytes - at, most = bpe->longest[at > 0];
        char *name = word + at - prefix;
        int32_t token = NONE;
        if (prefix) memcpy(name, ZR__WORDPIECE_PREFIX, PREFIX);
        for (length = left < most ? left : most; length > 0; length--) {
            const bool cuts = length < left && ((unsigned char)word[at + length] & 0xc0) == 0x80;
            token = cuts ? NONE : zr__bpe_find(bpe, name, prefix + length);
            if (token != NONE) break;
        }
        if (token == NONE) return 0;
        tokens[n++] = token;
    }
    return n;
}

zr_status zr__wordpiece_word(const zr__bpe *bpe, const char *word, int64_t bytes, int32_t *tokens, int64_t *n)
{
    char few[PREFIX + SHORT_BYTES], *copy = few;
    tokens[0] = bpe->unknown;
    *n = 1;
    if (is_too_long(bpe, word, bytes)) return ZR_OK;
    if (bytes > SHORT_BYTES) copy = zr_alloc((size_t)bytes + PREFIX);
    ZR_CHECK(copy, ZR_ERR_MEMORY, "no memory for a word of %lld bytes", (long long)bytes);
    memcpy(copy + PREFIX, word, (size_t)bytes);
    *n = divide(bpe, copy + PREFIX, bytes, tokens);
    if (copy != few) zr_free(copy);
    if (*n > 0) return ZR_OK;
    tokens[0] = bpe->unknown;
    *n = 1;
    return ZR_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Texts before which decoding drops the space. */
static const char *const tidied[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};

/* Return the bytes of the space before a token: 1, or 0 if decoding drops the space. The token only has to begin with
 * one of the texts: "'st" begins with "'s". */
static size_t space_before(const zr__bpe *bpe, const char *name, int64_t bytes)
{
    for (size_t i = 0; bpe->tidies && i < sizeof(tidied) / sizeof(tidied[0]); i++) {
        const size_t n = strlen(tidied[i]);
        if (bytes >= (int64_t)n && memcmp(name, tidied[i], n) == 0) return 0;
    }
    return 1;
}

/* Return the text of a token. The text of an added token that is searched for in normalized text is normalized too. */
static const char *text_of(const zr__bpe *bpe, int32_t token, int64_t *bytes)
{
    for (int64_t i = 0; i < bpe->later.n; i++) {
        if (bpe->later.added[i].token != token) continue;
        *bytes = bpe->later.added[i].bytes;
        return bpe->later.added[i].text;
    }
    *bytes = zr__bpe_bytes(bpe, token);
    return bpe->text + bpe->begin[token];
}

void zr__wordpiece_say(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, zr__text *out)
{
    bool first = true;
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = 0;
        const char *name = text_of(bpe, tokens[i], &bytes);
        const bool inside = bytes >= PREFIX && memcmp(name, ZR__WORDPIECE_PREFIX, PREFIX) == 0;
        if (bpe->special[tokens[i]] && !special) continue;
        if (!first && inside) {
            name += PREFIX;
            bytes -= PREFIX;
        } else if (!first) {
            zr__text_append(out, " ", space_before(bpe, name, bytes));
        }
        zr__text_append(out, name, (size_t)bytes);
        first = false;
    }
}
