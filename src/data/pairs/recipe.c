#include "data/pairs/recipe.h"

#include "base/core/grow.h"
#include "base/number/rng.h"

#include <math.h>
#include <string.h>

enum { STREAM_DIVIDE, STREAM_SAMPLE }; /* random streams of ZR_RNG_PAIRS */
enum {
    DRAW_BITS = 28, /* each document and each sample has 2^DRAW_BITS random numbers */
    LEAST = 2,      /* minimum target length of a sample, in tokens */
};
#define USUAL_MASKED 0.15

/* Return the number of the tokens [CLS] and [SEP] of a sample. */
static int64_t extra(const zr__recipe *r)
{
    return r->single ? 2 : 3;
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* The sequence of random numbers of a document or a sample. */
typedef struct draws {
    zr_rng rng;
    uint64_t next;
    uint32_t word[4];
} draws;

static draws draws_of(const zr__recipe *r, uint32_t epoch, uint32_t stream, int64_t number)
{
    return (draws){.rng = {.seed = r->seed, .purpose = ZR_RNG_PAIRS, .stream = stream, .step = epoch},
                   .next = (uint64_t)number << DRAW_BITS};
}

static uint32_t draw(draws *d)
{
    if (d->next % 4 == 0) zr__rng_block(&d->rng, d->next / 4, d->word);
    return d->word[d->next++ % 4];
}

/* Draw a number from 0 to n - 1. */
static int64_t draw_below(draws *d, int64_t n)
{
    const uint64_t high = draw(d), low = draw(d);
    return (int64_t)((high << 32 | low) % (uint64_t)n);
}

static bool draw_chance(draws *d, double probability)
{
    return draw(d) < probability * 0x1p32;
}

/* Return the number of heads in n tosses of a coin. */
static int64_t draw_heads(draws *d, int64_t n)
{
    int64_t heads = 0;
    for (; n > 0; n -= 32) {
        const uint32_t coins = draw(d);
        heads += __builtin_popcount(n < 32 ? coins & (((uint32_t)1 << n) - 1) : coins);
    }
    return heads;
}

/* ---- dividing -------------------------------------------------------------------------------- */

/* Choose B from another document: its sentences from a random one on, until they have at least `wanted` tokens or the
 * document ends. */
static void choose_other(const zr__corpus *c, int64_t document, int64_t wanted, draws *d, zr__sample *s)
{
    int64_t other = draw_below(d, c->documents - 1);
    other += other >= document;
    const zr__corpus_document *from = &c->document[other];
    const int64_t start = from->sentence + draw_below(d, from[1].sentence - from->sentence);
    s->random = true;
    s->b = from->token;
    s->b_n = 0;
    for (int64_t i = from->sentence; i < start; i++) s->b += c->length[i];
    for (int64_t i = start; i < from[1].sentence && (i == start || s->b_n < wanted); i++) s->b_n += c->length[i];
}

static zr_status add_sample(zr__sample_list *samples, zr__sample s)
{
    ZR_GROW(samples->sample, samples->room, samples->n + 1, "samples of a text");
    samples->sample[samples->n++] = s;
    return ZR_OK;
}

/* Divide the tokens [from, to) of a document into single texts. */
static zr_status divide_single(int64_t from, int64_t to, int64_t target, zr__sample_list *samples)
{
    for (int64_t n; from < to; from += n) {
        n = to - from < target ? to - from : target;
        ZR_TRY(add_sample(samples, (zr__sample){.a = from, .a_n = n}));
    }
    return ZR_OK;
}

zr_status zr__recipe_divide(const zr__recipe *r, uint32_t epoch, int64_t document, zr__sample_list *samples)
{
    const zr__corpus *c = r->corpus;
    const int64_t end = c->document[document + 1].sentence, most = r->seq_length - extra(r);
    draws d = draws_of(r, epoch, STREAM_DIVIDE, document);
    const int64_t target = draw_chance(&d, r->shorter) ? LEAST + draw_below(&d, most - LEAST + 1) : most;
    int64_t token = c->document[document].token;
    if (r->single) return divide_single(token, c->document[document + 1].token, target, samples);
    for (int64_t first = c->document[document].sentence, next; first < end; first = next) {
        zr__sample s = {.a = token};
        int64_t all = 0;
        for (next = first; next < end && all < target; next++) all += c->length[next];
        const int64_t a_end = next - first > 1 ? first + 1 + draw_below(&d, next - first - 1) : next;
        for (int64_t i = first; i < a_end; i++) s.a_n += c->length[i];
        s.b = token + s.a_n;
        s.b_n = all - s.a_n;
        if (s.b_n == 0 || draw_chance(&d, 0.5)) choose_other(c, document, target - s.a_n, &d, &s);
        if (s.random) next = a_end; /* the next sample begins with the sentences that B replaced */
        token += s.random ? s.a_n : all;
        ZR_TRY(add_sample(samples, s));
    }
    return ZR_OK;
}

/* ---- one sample ------------------------------------------------------------------------------ */

/* Shorten A and B to at most `most` tokens together: remove one token at a time from the longer one, or from B if both
 * are equally long. */
static void shorten(int64_t most, int64_t *a, int64_t *b)
{
    const int64_t shorter = *a < *b ? *a : *b;
    if (*a + *b <= most) return;
    if (2 * shorter <= most) {
        if (*a > *b)
            *a = most - *b;
        else
            *b = most - *a;
    } else {
        *b = most / 2;
        *a = most - *b;
    }
}

void zr__recipe_parts(const zr__recipe *r, const zr__sample *s, int64_t *a, int64_t *b)
{
    *a = s->a_n;
    *b = s->b_n;
    shorten(r->seq_length - extra(r), a, b);
}

int64_t zr__recipe_length(const zr__recipe *r, const zr__sample *s)
{
    int64_t a = 0, b = 0;
    zr__recipe_parts(r, s, &a, &b);
    return a + b + extra(r);
}

int64_t zr__recipe_predictions(const zr__recipe *r, const zr__sample *s)
{
    const int64_t length = zr__recipe_length(r, s), room = length - extra(r);
    int64_t n = (int64_t)rint((double)length * r->masked); /* round half to even, as Python does */
    if (n < 1) n = 1;
    if (n > room) n = room;
    return n < r->predictions ? n : r->predictions;
}

/* ---- masking --------------------------------------------------------------------------------- */

/* Find the first tokens of the words of a sample that begins at `row`. Without whole_words each token is a word. Return
 * the number of words. */
static int64_t find_words(const zr__recipe *r, const int32_t *row, int64_t a, int64_t b)
{
    int64_t n = 0;
    for (int64_t i = 1; i < a + b + extra(r) - 1; i++) {
        const bool inside = r->whole_words && i != 1 && i != a + 2 && r->corpus->continues[row[i]];
        if (i != a + 1 && !inside) r->candidate[n++] = (int32_t)i;
    }
    return n;
}

/* Return the end of the word that begins at `from`. */
static int64_t word_end(const zr__recipe *r, const int32_t *row, int64_t a, int64_t b, int64_t from)
{
    int64_t end = from + 1;
    while (r->whole_words && end != a + 1 && end < a + b + extra(r) - 1 && r->corpus->continues[row[end]]) end++;
    return end;
}

/* Choose `most` tokens of a sample to predict, or fewer if no remaining word is short enough. */
static void choose(const zr__recipe *r, const int32_t *row, int64_t a, int64_t b, int64_t most, draws *d)
{
    const int64_t words = find_words(r, row, a, b);
    memset(r->chosen, 0, (size_t)(a + b + extra(r)) * sizeof(*r->chosen));
    for (int64_t i = 0, left = most; i < words && left > 0; i++) {
        const int64_t other = i + draw_below(d, words - i);
        const int32_t from = r->candidate[other];
        r->candidate[other] = r->candidate[i];
        const int64_t n = word_end(r, row, a, b, from) - from;
        if (n > left) continue;
        memset(r->chosen + from, true, (size_t)n * sizeof(*r->chosen));
        left -= n;
    }
}

/* Return the token that replaces a predicted token. */
static int32_t replacement(const zr__corpus *c, int32_t token, draws *d)
{
    const int64_t kind = draw_below(d, 10);
    if (kind < 8) return c->mask;
    return kind == 8 ? token : (int32_t)draw_below(d, c->vocab);
}

zr_status zr__recipe_write(const zr__recipe *r, uint32_t epoch, int64_t number, const zr__sample *s, int64_t at,
                           const zr_pairs_row *row, int64_t *n)
{
    zr__corpus *c = r->corpus;
    draws d = draws_of(r, epoch, STREAM_SAMPLE, number);
    int32_t *tokens = row->tokens + at;
    int64_t a = 0, b = 0;
    zr__recipe_parts(r, s, &a, &b);
    const int64_t a_front = draw_heads(&d, s->a_n - a), b_front = draw_heads(&d, s->b_n - b), length = a + b + extra(r);
    tokens[0] = c->cls;
    ZR_TRY(zr__tokens_read(c->tokens, s->a + a_front, a, r->stage, tokens + 1));
    tokens[a + 1] = c->sep;
    if (!r->single) ZR_TRY(zr__tokens_read(c->tokens, s->b + b_front, b, r->stage, tokens + a + 2));
    tokens[length - 1] = c->sep;
    choose(r, tokens, a, b, zr__recipe_predictions(r, s), &d);
    for (int64_t i = 0; i < length; i++) {
        row->segments[at + i] = i >= a + 2;
        row->documents[at + i] = (int32_t)at;
        if (!r->chosen[i]) continue;
        row->masked[*n] = (int32_t)(at + i);
        row->masked_targets[(*n)++] = tokens[i];
        tokens[i] = replacement(c, tokens[i], &d);
    }
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

zr_status zr__recipe_open(const zr_pairs_args *args, zr__corpus *corpus, zr__recipe *r)
{
    const size_t T = (size_t)args->seq_length;
    *r = (zr__recipe){.corpus = corpus,
                      .seq_length = args->seq_length,
                      .predictions = args->predictions,
                      .masked = args->masked_lm_prob > 0 ? args->masked_lm_prob : USUAL_MASKED,
                      .shorter = args->short_seq_prob,
                      .whole_words = args->whole_words,
                      .single = args->single,
                      .seed = args->seed};
    r->candidate = zr_alloc(T * sizeof(*r->candidate));
    r->chosen = zr_alloc(T * sizeof(*r->chosen));
    r->stage = zr_alloc(T * sizeof(uint32_t)); /* a file stores a token in at most 4 bytes */
    ZR_CHECK(r->candidate && r->chosen && r->stage, ZR_ERR_MEMORY, "no memory for a sample of %zu tokens", T);
    return ZR_OK;
}

void zr__recipe_close(zr__recipe *r)
{
    zr_free(r->candidate);
    zr_free(r->chosen);
    zr_free(r->stage);
    *r = (zr__recipe){.corpus = NULL};
}
