#include "data/labelled/words.h"

#include "base/core/grow.h"
#include "data/pieces/classes.h"

#include <string.h>

/* ---- white space ----------------------------------------------------------------------------- */

void zr__join_split(const char *text, zr__text *out)
{
    const size_t begin = out->length;
    bool space = false;
    for (int64_t i = 0, length; text[i]; i += length) {
        const uint32_t c = zr__character_at((const unsigned char *)text + i, &length);
        const bool is_space = zr__is_python_space(c);
        if (!is_space && space && out->length > begin) zr__text_append(out, " ", 1);
        if (!is_space) zr__text_append(out, text + i, (size_t)length);
        space = is_space;
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Find the words of the text, which white space and narrow no-break spaces separate. */
static zr_status find_words(zr__words *w)
{
    bool inside = false;
    w->n = 0;
    for (int64_t i = 0, length; w->text[i]; i += length) {
        const uint32_t c = zr__character_at((const unsigned char *)w->text + i, &length);
        const bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0x202f;
        if (!space && !inside) {
            ZR_GROW(w->word, w->word_room, w->n + 2, "words of a text");
            w->word[w->n++].from = (int32_t)i;
        }
        inside = !space;
        if (inside) w->word[w->n - 1].to = (int32_t)(i + length);
    }
    return ZR_OK;
}

zr_status zr__words_divide(zr__words *w, zr__labelled_list *list, const char *text)
{
    const size_t bytes = strlen(text);
    ZR_CHECK(bytes < INT32_MAX, ZR_ERR_DATA, "a text has %zu bytes; it may have up to 2147483646", bytes);
    w->text = text;
    ZR_GROW(w->word, w->word_room, 1, "words of a text");
    ZR_TRY(find_words(w));
    w->word[0].token = 0;
    for (int64_t i = 0; i < w->n; i++) {
        zr__word *word = &w->word[i];
        int64_t n = 0;
        ZR_TRY(zr__labelled_encode(list, text + word->from, word->to - word->from, &n));
        ZR_GROW(w->token, w->token_room, word->token + n, "tokens of a text");
        if (n > 0) memcpy(w->token + word->token, list->encoded, (size_t)n * sizeof(*w->token));
        ZR_CHECK(word->token + n < INT32_MAX, ZR_ERR_DATA, "a text has %lld or more tokens; it may have up to 2^31 - 2",
                 (long long)(word->token + n));
        word[1].token = (int32_t)(word->token + n);
    }
    return ZR_OK;
}

void zr__words_free(zr__words *w)
{
    zr_free(w->word);
    zr_free(w->token);
    *w = (zr__words){.word = NULL};
}

int64_t zr__words_tokens(const zr__words *w)
{
    return w->word[w->n].token;
}

int64_t zr__words_of_token(const zr__words *w, int64_t token)
{
    int64_t low = 0, high = w->n;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (w->word[middle].token <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void zr__words_join(const zr__words *w, int64_t from, int64_t to, zr__text *out)
{
    for (int64_t i = from; i < to; i++) {
        if (i > from) zr__text_append(out, " ", 1);
        zr__text_append(out, w->text + w->word[i].from, (size_t)(w->word[i].to - w->word[i].from));
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Return the index of the last word that begins at or before a character of the text, or -1 if no word does. *inside
 * receives whether the text has this character. If not, the text's last character is used instead. */
static int64_t word_of_character(const zr__words *w, int64_t character, bool *inside)
{
    int64_t at = 0, i = 0, length = 0, word = -1;
    for (; w->text[at] && i <= character; i++) {
        while (word + 1 < w->n && w->word[word + 1].from <= at) word++;
        (void)zr__character_at((const unsigned char *)w->text + at, &length);
        at += length;
    }
    *inside = character >= 0 && i > character;
    return word;
}

/* Set *found to whether the words [from, to) contain an answer, after each run of white space in the answer is replaced
 * by one space. As in Google's run_squad.py and in transformers, any words contain an answer of only white space. */
static zr_status contain(const zr__words *w, int64_t from, int64_t to, const char *answer, bool *found)
{
    ZR_AUTO(zr__text_clear) zr__text words = {0}, wanted = {0};
    zr__words_join(w, from, to, &words);
    zr__join_split(answer, &wanted);
    *found = words.length > 0 && (wanted.length == 0 || strstr(words.data, wanted.data));
    ZR_CHECK(!words.failed && !wanted.failed, ZR_ERR_MEMORY, "no memory for an answer of %zu bytes", strlen(answer));
    return ZR_OK;
}

/* Encode the answer alone. If its tokens occur in the range [*first, *last], narrow the range to their first
 * occurrence. */
static zr_status narrow(const zr__words *w, zr__labelled_list *list, const char *answer, int64_t *first, int64_t *last)
{
    int64_t n = 0;
    ZR_TRY(zr__labelled_encode(list, answer, (int64_t)strlen(answer), &n));
    for (int64_t i = *first; n > 0 && i + n - 1 <= *last; i++) {
        if (memcmp(w->token + i, list->encoded, (size_t)n * sizeof(*w->token)) != 0) continue;
        *first = i;
        *last = i + n - 1;
        break;
    }
    return ZR_OK;
}

static int64_t count_characters(const char *text)
{
    int64_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

zr_status zr__words_answer(const zr__words *w, zr__labelled_list *list, const char *answer, int64_t start, bool *found,
                           int64_t *first, int64_t *last)
{
    bool inside = false, ends_inside = false;
    int64_t begin = word_of_character(w, start, &inside);
    *found = false;
    if (!inside || w->n == 0) return ZR_OK;
    const int64_t characters = count_characters(answer),
                  end = word_of_character(w, start + characters - 1, &ends_inside);
    if (begin < 0) begin = w->n - 1; /* index -1 means the last word, as in Python */
    if (characters > 0) ZR_TRY(contain(w, begin, end + 1, answer, found));
    if (!*found) return ZR_OK;
    *first = w->word[begin].token;
    *last = w->word[end + 1].token - 1;
    return narrow(w, list, answer, first, last);
}
