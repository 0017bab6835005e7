/*
 * Learns merges. Every distinct piece of the texts is a word, which has a count and consists of tokens. A table holds
 * how often each pair of neighbouring tokens occurs in all words. A heap holds the pairs that may merge. Each of these
 * pairs has a list of the words in which it occurs, so a merge visits only these words. The merge also corrects the
 * counts of the neighbouring pairs.
 *
 * Each merge makes a token whose bytes no earlier merge has made. Reason: if a part of a word begins and ends at token
 * boundaries, no merge has crossed its ends, so the part was merged as if it were a whole word. Parts with equal bytes
 * therefore always consist of the same tokens: if "abc" is "ab" and "c" in one word, it is not "a" and "bc" in another.
 * So after a merge has made some bytes, every part with these bytes between token boundaries is this one token, and no
 * later merge can make them again.
 *
 * Since each merge's token is new, and all pairs that a merge creates contain its token, a pair first appears during
 * the merge that makes the later of its two tokens, and no later merge creates it again. Each pair therefore enters the
 * heap only once.
 */
#include "base/core/grow.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer.h"
#include "zr/data.h"

#include <string.h>
#include <xxhash.h>

enum { NONE = -1, LEAST_ROOM = 64 };

/* ---- arrays and tables ----------------------------------------------------------------------- */

#define MAKE_ROOM(array, room, n) ZR_GROW(array, room, n, "things that a tokenizer is learned from")

/* A hash table whose entries are indices into an array of the caller. */
typedef struct slots {
    int32_t *number; /* NONE in a free slot */
    int64_t mask;
} slots;

/* Ensure that n entries fill at most half of the table. If the table must grow, replace it by an empty table and set
 * *made. The caller must then insert all entries again. */
static zr_status slots_for(slots *s, int64_t n, bool *made)
{
    int64_t room = s->number ? s->mask + 1 : LEAST_ROOM;
    *made = !s->number || 2 * n > room;
    if (!*made) return ZR_OK;
    while (room < 4 * n) room *= 2;
    int32_t *number = zr_alloc((size_t)room * sizeof(*number));
    ZR_CHECK(number, ZR_ERR_MEMORY, "no memory to learn a tokenizer");
    for (int64_t i = 0; i < room; i++) number[i] = NONE;
    zr_free(s->number);
    *s = (slots){number, room - 1};
    return ZR_OK;
}

/* Distinct byte strings, numbered in the order in which they were added. */
typedef struct strings {
    char *text;
    int64_t *end; /* end of each string in `text` */
    int64_t n, text_room, end_room;
    slots slots;
} strings;

static const char *string_at(const strings *s, int64_t i, int64_t *bytes)
{
    int64_t begin = i ? s->end[i - 1] : 0;
    *bytes = s->end[i] - begin;
    return s->text + begin;
}

/* Return the string's slot in the table, or the free slot where it can be inserted. */
static int32_t *string_slot(const strings *s, const char *text, int64_t bytes)
{
    int64_t slot = (int64_t)XXH3_64bits(text, (size_t)bytes) & s->slots.mask, its = 0;
    for (; s->slots.number[slot] != NONE; slot = (slot + 1) & s->slots.mask) {
        const char *there = string_at(s, s->slots.number[slot], &its);
        if (its == bytes && memcmp(there, text, (size_t)bytes) == 0) break;
    }
    return &s->slots.number[slot];
}

/* Find the string's number, and add the string if it is new. `text` must not point into s->text, which may move. */
static zr_status string_note(strings *s, const char *text, int64_t bytes, int32_t *number)
{
    bool made;
    int64_t its = 0, used = s->n ? s->end[s->n - 1] : 0;
    ZR_TRY(slots_for(&s->slots, s->n + 1, &made));
    for (int64_t i = 0; made && i < s->n; i++) {
        const char *there = string_at(s, i, &its);
        *string_slot(s, there, its) = (int32_t)i;
    }
    int32_t *slot = string_slot(s, text, bytes);
    if (*slot == NONE) {
        ZR_CHECK(s->n < INT32_MAX, ZR_ERR_DATA, "the texts have more than %d distinct pieces", INT32_MAX);
        MAKE_ROOM(s->text, s->text_room, used + bytes);
        MAKE_ROOM(s->end, s->end_room, s->n + 1);
        memcpy(s->text + used, text, (size_t)bytes);
        s->end[s->n] = used + bytes;
        *slot = (int32_t)s->n++;
    }
    *number = *slot;
    return ZR_OK;
}

static void strings_free(strings *s)
{
    zr_free(s->text);
    zr_free(s->end);
    zr_free(s->slots.number);
}

/* ---- words ----------------------------------------------------------------------------------- */

struct zr__tokenizer_trainer {
    zr__classes *classes;
    zr__split *split;
    strings words;
    int64_t *count; /* count of each word */
    int64_t count_room;
};

static zr_status open_split(zr__tokenizer_trainer *t)
{
    ZR_TRY(zr__classes_open(&t->classes));
    ZR_TRY(zr__split_open(t->classes, &t->split));
    return zr__split_add(t->split, (zr__cut){ZR__MATCH_EXPRESSION, .text = ZR__SPLIT_GPT2}, "GPT-2's tokenizer");
}

zr_status zr__tokenizer_trainer_open(zr__tokenizer_trainer **trainer)
{
    *trainer = zr_alloc(sizeof(**trainer));
    ZR_CHECK(*trainer, ZR_ERR_MEMORY, "no memory to learn a tokenizer");
    const zr_status st = open_split(*trainer);
    if (st != ZR_OK) zr__tokenizer_trainer_close(trainer);
    return st;
}

void zr__tokenizer_trainer_close(zr__tokenizer_trainer **trainer)
{
    if (!*trainer) return;
    zr__split_close(&(*trainer)->split);
    zr__classes_close(&(*trainer)->classes);
    strings_free(&(*trainer)->words);
    zr_free((*trainer)->count);
    zr_free(*trainer);
    *trainer = NULL;
}

static zr_status count_piece(void *arg, const char *piece, int64_t bytes)
{
    zr__tokenizer_trainer *t = arg;
    int32_t word = 0;
    ZR_TRY(string_note(&t->words, piece, bytes, &word));
    MAKE_ROOM(t->count, t->count_room, t->words.n);
    t->count[word]++;
    return ZR_OK;
}

zr_status zr__tokenizer_trainer_add(zr__tokenizer_trainer *trainer, const char *text, int64_t bytes)
{
    ZR_AUTO(zr__matcher_close) zr__matcher *matcher = NULL;
    ZR_TRY(zr__matcher_open(trainer->split, count_piece, trainer, &matcher));
    return zr__matcher_cut(matcher, text, bytes, ZR__WHOLE_BEGIN, 0);
}

int64_t zr__tokenizer_trainer_cut(const zr__tokenizer_trainer *trainer, const char *text, int64_t from, int64_t bytes)
{
    return zr__split_cut(trainer->split, text, from, bytes);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* An entry of a linked list of words; both fields are indices. */
typedef struct place {
    int32_t word;
    int64_t next;
} place;

typedef struct pair {
    zr__bpe_pair of;
    int64_t count;
    int64_t places; /* list of the words that contain the pair; empty after the pair has entered the heap */
} pair;

/* A pair in the heap. The pair with the highest count comes first; among equal counts, the pair with the lowest token
 * numbers. */
typedef struct candidate {
    int64_t count; /* count of the pair when it entered the heap */
    zr__bpe_pair of;
    int32_t pair;
    int64_t places;
} candidate;

typedef struct learner {
    const zr__tokenizer_trainer *from;
    strings tokens;
    int32_t *symbols; /* tokens of all words; a word's tokens begin at the offset of the word's bytes */
    int64_t *length;  /* number of tokens left in each word */
    pair *pairs;
    int64_t n_pairs, pairs_room;
    slots slots; /* hash table of pairs */
    place *places;
    int64_t n_places, places_room, free_place;
    int32_t *found; /* indices of new pairs that are not in the heap yet */
    int64_t n_found, found_room;
    candidate *heap;
    int64_t n_heap, heap_room;
    zr__bpe_pair *merges;
    int64_t n_merges, merges_room;
    char *both; /* buffer for the joined text of two tokens */
    int64_t both_room;
} learner;

static int32_t *pair_slot(const learner *l, zr__bpe_pair of)
{
    int64_t slot = (int64_t)XXH3_64bits(&of, sizeof(of)) & l->slots.mask;
    for (; l->slots.number[slot] != NONE; slot = (slot + 1) & l->slots.mask) {
        const zr__bpe_pair there = l->pairs[l->slots.number[slot]].of;
        if (there.left == of.left && there.right == of.right) break;
    }
    return &l->slots.number[slot];
}

static zr_status find_pair(learner *l, zr__bpe_pair of, int32_t *number)
{
    bool made;
    ZR_TRY(slots_for(&l->slots, l->n_pairs + 1, &made));
    for (int64_t i = 0; made && i < l->n_pairs; i++) *pair_slot(l, l->pairs[i].of) = (int32_t)i;
    int32_t *slot = pair_slot(l, of);
    if (*slot == NONE) {
        ZR_CHECK(l->n_pairs < INT32_MAX, ZR_ERR_MEMORY, "the texts have more than %d distinct pairs", INT32_MAX);
        MAKE_ROOM(l->pairs, l->pairs_room, l->n_pairs + 1);
        l->pairs[l->n_pairs] = (pair){.of = of, .places = NONE};
        *slot = (int32_t)l->n_pairs++;
    }
    *number = *slot;
    return ZR_OK;
}

/* Record that a pair occurs in a word. All calls for a word come in a row, so comparing with the last entry avoids
 * duplicates. */
static zr_status note_place(learner *l, int32_t number, int32_t word)
{
    int64_t first = l->pairs[number].places, made = l->free_place;
    if (first != NONE && l->places[first].word == word) return ZR_OK;
    if (first == NONE) {
        MAKE_ROOM(l->found, l->found_room, l->n_found + 1);
        l->found[l->n_found++] = number;
    }
    if (made != NONE) {
        l->free_place = l->places[made].next;
    } else {
        MAKE_ROOM(l->places, l->places_room, l->n_places + 1);
        made = l->n_places++;
    }
    l->places[made] = (place){word, first};
    l->pairs[number].places = made;
    return ZR_OK;
}

/* Add `by` to a pair's count. If the count grows, record that the pair occurs in the word. */
static zr_status change(learner *l, int32_t left, int32_t right, int64_t by, int32_t word)
{
    int32_t number = 0;
    ZR_TRY(find_pair(l, (zr__bpe_pair){left, right}, &number));
    l->pairs[number].count += by;
    if (by > 0) ZR_TRY(note_place(l, number, word));
    return ZR_OK;
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool goes_before(const candidate *a, const candidate *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->of.left != b->of.left ? a->of.left < b->of.left : a->of.right < b->of.right;
}

static zr_status heap_push(learner *l, candidate c)
{
    MAKE_ROOM(l->heap, l->heap_room, l->n_heap + 1);
    int64_t i = l->n_heap++;
    for (; i > 0 && goes_before(&c, &l->heap[(i - 1) / 2]); i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = c;
    return ZR_OK;
}

/* Replace the first entry of the heap with `c`, and restore the heap's order. */
static void heap_replace(learner *l, candidate c)
{
    int64_t i = 0;
    for (int64_t child = 1; child < l->n_heap; child = 2 * i + 1) {
        if (child + 1 < l->n_heap && goes_before(&l->heap[child + 1], &l->heap[child])) child++;
        if (!goes_before(&l->heap[child], &c)) break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = c;
}

static void free_places(learner *l, int64_t first)
{
    while (first != NONE) {
        int64_t next = l->places[first].next;
        l->places[first].next = l->free_place;
        l->free_place = first;
        first = next;
    }
}

static zr_status queue_found(learner *l)
{
    for (int64_t i = 0; i < l->n_found; i++) {
        pair *p = &l->pairs[l->found[i]];
        if (p->count > 0)
            ZR_TRY(heap_push(l, (candidate){p->count, p->of, l->found[i], p->places}));
        else
            free_places(l, p->places);
        p->places = NONE;
    }
    l->n_found = 0;
    return ZR_OK;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Merge a pair everywhere in a word, from left to right, and correct the counts of neighbouring pairs. At each merge,
 * the tokens on the left are already merged, and the tokens on the right are not. */
static zr_status merge_word(learner *l, int32_t word, zr__bpe_pair of, int32_t into)
{
    const strings *words = &l->from->words;
    int32_t *s = l->symbols + (word ? words->end[word - 1] : 0);
    const int64_t n = l->length[word], count = l->from->count[word];
    int64_t kept = 0;
    for (int64_t i = 0; i < n;) {
        if (s[i] != of.left || i + 1 == n || s[i + 1] != of.right) {
            s[kept++] = s[i++];
            continue;
        }
        if (kept > 0) {
            ZR_TRY(change(l, s[kept - 1], of.left, -count, word));
            ZR_TRY(change(l, s[kept - 1], into, count, word));
        }
        s[kept++] = into;
        i += 2;
        if (i < n) {
            ZR_TRY(change(l, of.right, s[i], -count, word));
            ZR_TRY(change(l, into, s[i], count, word));
        }
    }
    l->length[word] = kept;
    return ZR_OK;
}

static zr_status token_of(learner *l, zr__bpe_pair of, int32_t *token)
{
    int64_t n = 0, m = 0;
    const char *left = string_at(&l->tokens, of.left, &n), *right = string_at(&l->tokens, of.right, &m);
    MAKE_ROOM(l->both, l->both_room, n + m);
    memcpy(l->both, left, (size_t)n);
    memcpy(l->both + n, right, (size_t)m);
    ZR_TRY(string_note(&l->tokens, l->both, n + m, token));
    ZR_ASSERT(*token == l->n_merges + ZR__BPE_BYTES);
    return ZR_OK;
}

static zr_status merge_first(learner *l)
{
    const candidate c = l->heap[0];
    int32_t into = 0;
    heap_replace(l, l->heap[--l->n_heap]);
    ZR_TRY(token_of(l, c.of, &into));
    MAKE_ROOM(l->merges, l->merges_room, l->n_merges + 1);
    l->merges[l->n_merges++] = c.of;
    for (int64_t at = c.places; at != NONE; at = l->places[at].next)
        ZR_TRY(merge_word(l, l->places[at].word, c.of, into));
    free_places(l, c.places);
    return queue_found(l);
}

static zr_status merge_all(learner *l, int64_t tokens)
{
    while (l->tokens.n < tokens && l->n_heap > 0) {
        candidate c = l->heap[0];
        const int64_t count = l->pairs[c.pair].count;
        if (c.count != count) { /* the entry is outdated, since the pair's count has changed */
            c.count = count;
            heap_replace(l, c);
            continue;
        }
        if (count < 1) break;
        ZR_TRY(merge_first(l));
    }
    return ZR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Add the 256 bytes as tokens, in the order of their GPT-2 symbols. */
static zr_status note_bytes(learner *l, int32_t token[ZR__BPE_BYTES])
{
    for (int others = 0; others < 2; others++)
        for (int byte = 0; byte < ZR__BPE_BYTES; byte++) {
            const char text = (char)byte;
            const bool other = zr__bpe_symbol((unsigned char)byte) >= ZR__BPE_BYTES;
            if (other == (others == 1)) ZR_TRY(string_note(&l->tokens, &text, 1, &token[byte]));
        }
    return ZR_OK;
}

static zr_status take_words(learner *l)
{
    const strings *words = &l->from->words;
    int32_t token[ZR__BPE_BYTES];
    int64_t bytes = words->n ? words->end[words->n - 1] : 0;
    l->symbols = zr_alloc((size_t)(bytes + 1) * sizeof(*l->symbols));
    l->length = zr_alloc((size_t)(words->n + 1) * sizeof(*l->length));
    ZR_CHECK(l->symbols && l->length, ZR_ERR_MEMORY, "no memory to learn a tokenizer");
    ZR_TRY(note_bytes(l, token));
    for (int64_t i = 0; i < bytes; i++) l->symbols[i] = token[(unsigned char)words->text[i]];
    for (int32_t w = 0; w < words->n; w++) {
        int64_t begin = w ? words->end[w - 1] : 0;
        l->length[w] = words->end[w] - begin;
        for (int64_t i = begin + 1; i < words->end[w]; i++)
            ZR_TRY(change(l, l->symbols[i - 1], l->symbols[i], l->from->count[w], w));
    }
    return queue_found(l);
}

static zr_status learn(learner *l, int64_t vocab, char **json, int64_t *learned)
{
    ZR_TRY(take_words(l));
    ZR_TRY(merge_all(l, vocab - 1));
    const zr__bpe_told told = {.text = l->tokens.text,
                               .end = l->tokens.end,
                               .tokens = l->tokens.n,
                               .merges = l->merges,
                               .n_merges = l->n_merges,
                               .end_of_text = true};
    ZR_TRY(zr__bpe_print(&told, json));
    *learned = l->tokens.n + 1;
    return ZR_OK;
}

zr_status zr__tokenizer_trainer_learn(const zr__tokenizer_trainer *trainer, int64_t vocab, char **json,
                                      int64_t *learned)
{
    ZR_CHECK(vocab >= ZR_TOKENIZER_LEAST_VOCAB && vocab <= INT32_MAX, ZR_ERR_ARG,
             "the vocabulary has %lld tokens; it must have %d (all bytes and " ZR_END_OF_TEXT ") to %d tokens",
             (long long)vocab, ZR_TOKENIZER_LEAST_VOCAB, INT32_MAX);
    learner l = {.from = trainer, .free_place = NONE};
    zr_status st = learn(&l, vocab, json, learned);
    strings_free(&l.tokens);
    zr_free(l.symbols);
    zr_free(l.length);
    zr_free(l.pairs);
    zr_free(l.slots.number);
    zr_free(l.places);
    zr_free(l.found);
    zr_free(l.heap);
    zr_free(l.merges);
    zr_free(l.both);
    return st;
}
