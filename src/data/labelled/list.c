#include "data/labelled/list.h"

#include "base/core/grow.h"
#include "base/file/file.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>
#include <xxhash.h>

zr_status zr__labelled_list_open(const zr_tokenizer *tokenizer, zr__labelled_list *list)
{
    *list = (zr__labelled_list){.tokenizer = tokenizer};
    ZR_TRY(zr__tokenizer_special(tokenizer, "[CLS]", &list->cls));
    return zr__tokenizer_special(tokenizer, "[SEP]", &list->sep);
}

void zr__labelled_list_free(zr__labelled_list *list)
{
    zr_free(list->token);
    zr_free(list->sample);
    zr_free(list->word);
    zr_free(list->encoded);
    *list = (zr__labelled_list){.token = NULL};
}

uint64_t zr__labelled_list_hash(const zr__labelled_list *list)
{
    const int32_t special[] = {list->cls, list->sep};
    uint64_t hash = XXH3_64bits(special, sizeof(special));
    hash = zr__hash_join(hash, XXH3_64bits(list->token, (size_t)list->tokens * sizeof(*list->token)));
    for (int64_t i = 0; i < list->samples; i++) {
        const zr__labelled_sample *s = &list->sample[i];
        const int32_t numbers[] = {s->a_n, s->b_n, s->label, s->begin, s->end};
        hash = zr__hash_join(hash, XXH3_64bits(numbers, sizeof(numbers)));
    }
    return list->words > 0 ? zr__hash_join(hash, XXH3_64bits(list->word, (size_t)list->words * sizeof(*list->word)))
                           : hash;
}

int64_t zr__labelled_list_bytes(const zr__labelled_list *list)
{
    return (list->token_room + list->encoded_room) * (int64_t)sizeof(*list->token) +
           list->sample_room * (int64_t)sizeof(*list->sample) + list->word_room * (int64_t)sizeof(*list->word);
}

zr_status zr__labelled_encode(zr__labelled_list *list, const char *text, int64_t bytes, int64_t *n)
{
    ZR_GROW(list->encoded, list->encoded_room, zr_tokenizer_room(list->tokenizer, bytes), "tokens of a text");
    return zr_tokenizer_encode(list->tokenizer, text, bytes, list->encoded, list->encoded_room, n);
}

zr_status zr__labelled_add_tokens(zr__labelled_list *list, const int32_t *token, int64_t n)
{
    ZR_GROW(list->token, list->token_room, list->tokens + n, "tokens of texts");
    if (n > 0) memcpy(list->token + list->tokens, token, (size_t)n * sizeof(*token));
    list->tokens += n;
    return ZR_OK;
}

zr_status zr__labelled_add_word(zr__labelled_list *list, zr__labelled_word word)
{
    ZR_GROW(list->word, list->word_room, list->words + 1, "tagged words");
    list->word[list->words++] = word;
    return ZR_OK;
}

zr_status zr__labelled_add(zr__labelled_list *list, zr__labelled_sample sample)
{
    ZR_GROW(list->sample, list->sample_room, list->samples + 1, "samples");
    list->sample[list->samples++] = sample;
    return ZR_OK;
}

/* Copy n tokens of a text into a row from index `at` on, and append [SEP]. Return the index after [SEP]. */
static int64_t write_text(const zr__labelled_list *list, int64_t first, int64_t n, int64_t at, int32_t *tokens)
{
    if (n > 0) memcpy(tokens + at, list->token + first, (size_t)n * sizeof(*tokens));
    tokens[at + n] = list->sep;
    return at + n + 1;
}

void zr__labelled_write(const zr__labelled_list *list, const zr__labelled_sample *s, int64_t at,
                        const zr_labelled_row *row)
{
    const int64_t second = at + zr__labelled_second(s), end = at + zr__labelled_length(s);
    if (row->tokens) {
        row->tokens[at] = list->cls;
        const int64_t behind = write_text(list, s->a, s->a_n, at + 1, row->tokens);
        if (s->b_n != ZR__NO_TEXT) (void)write_text(list, s->b, s->b_n, behind, row->tokens);
    }
    for (int64_t i = at; row->segments && i < end; i++) row->segments[i] = i >= second;
    for (int64_t i = at; row->documents && i < end; i++) row->documents[i] = (int32_t)at;
}
