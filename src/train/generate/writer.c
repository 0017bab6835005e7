/* A text that is drawn token by token, and the texts that end it. */
#include "train/generate/generate.h"

#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- stop texts ------------------------------------------------------------------------------- */

/* Return whether a stop text begins at offset `at` of the held text. With `begun`, the beginning of a stop text at the
 * end of the held text counts too. */
static bool stands_at(const zr__stops *s, int64_t at, bool begun)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = (int64_t)strlen(s->stop[i]), left = (int64_t)s->held.length - at;
        if (length > left && !begun) continue;
        if (memcmp(s->held.data + at, s->stop[i], (size_t)(length < left ? length : left)) == 0) return true;
    }
    return false;
}

/* Return the first offset at which a stop text begins (stands_at), or the length of the held text. */
static int64_t first(const zr__stops *s, bool begun)
{
    int64_t at = 0, n = (int64_t)s->held.length;
    while (at < n && !stands_at(s, at, begun)) at++;
    return at;
}

zr_status zr__stops_add(zr__stops *s, const char *piece, int64_t bytes, int64_t *ready, bool *found)
{
    zr__text_append(&s->held, piece, (size_t)bytes);
    ZR_CHECK(!s->held.failed, ZR_ERR_MEMORY, "no memory for a text of more than %zu bytes", s->held.length);
    *ready = first(s, false);
    *found = *ready < (int64_t)s->held.length;
    /* Look for an incomplete stop text only if there is no complete stop text. A complete stop text ends the text, even
     * if an incomplete stop text begins before it. */
    if (!*found) *ready = first(s, true);
    return ZR_OK;
}

/* ---- tokens ----------------------------------------------------------------------------------- */

/** Return the token before a text without a prompt, if the tokenizer puts no token there: the token that separates
 * documents, or else the token of a newline, or else 0. */
static int32_t first_token(const zr__writer *w)
{
    int32_t token = zr_tokenizer_get_ends(w->tokenizer).separator;
    if (token < 0) token = zr_tokenizer_token(w->tokenizer, "\n");
    return token >= 0 && token < w->choices ? token : 0;
}

/** Encode the prompt, together with the tokens that the tokenizer puts before and after it. An empty prompt has only
 * the tokens before it. */
static zr_status encode_prompt(zr__writer *w, const zr_tokenizer_ends *ends, int64_t room)
{
    const int64_t bytes = w->args->prompt_bytes;
    int64_t n = 0;
    for (int64_t i = 0; i < ends->n_begin; i++) w->tokens[i] = ends->begin[i];
    w->n_tokens = ends->n_begin;
    ZR_TRY(zr_tokenizer_encode(w->tokenizer, w->args->prompt, bytes, w->tokens + w->n_tokens, room - w->n_tokens, &n));
    w->n_tokens += n;
    for (int64_t i = 0; i < ends->n_end && bytes > 0; i++) w->tokens[w->n_tokens++] = ends->end[i];
    return ZR_OK;
}

zr_status zr__writer_open(zr__writer *w)
{
    const zr_tokenizer_ends ends = zr_tokenizer_get_ends(w->tokenizer);
    const int64_t known = zr_tokenizer_vocab(w->tokenizer);
    const int64_t prompt =
        w->prompt ? w->n_prompt : ends.n_begin + zr_tokenizer_room(w->tokenizer, w->args->prompt_bytes) + ends.n_end;
    const int64_t room = prompt + w->args->tokens + 1;
    w->choices = known < w->vocab ? known : w->vocab;
    w->tokens = zr_alloc((size_t)room * sizeof(*w->tokens));
    w->logits = zr_alloc((size_t)w->choices * sizeof(*w->logits));
    w->sorted = zr_alloc((size_t)w->choices * sizeof(*w->sorted));
    ZR_CHECK(w->tokens && w->logits && w->sorted, ZR_ERR_MEMORY, "no memory for %lld tokens", (long long)room);
    if (w->prompt) memcpy(w->tokens, w->prompt, (size_t)w->n_prompt * sizeof(*w->tokens));
    w->n_tokens = w->n_prompt;
    if (!w->prompt) ZR_TRY(encode_prompt(w, &ends, room));
    if (w->n_tokens == 0) w->tokens[w->n_tokens++] = first_token(w);
    for (int64_t i = 0; i < w->n_tokens; i++)
        ZR_CHECK(w->tokens[i] < w->vocab, ZR_ERR_DATA,
                 "the prompt contains token id %d of the tokenizer %s, but the model's vocabulary has only %lld "
                 "tokens: the tokenizer does not belong to this model; put the model's own next to its weights",
                 w->tokens[i], ZR_SHOWN(zr_tokenizer_name(w->tokenizer)), (long long)w->vocab);
    return ZR_OK;
}

/** Decode the tokens from index `first` on into the cache, and store the logits after the last token in w->logits. If
 * the cache would overflow, refill only half of it, with the last tokens. Every later token then has a context of at
 * least half the cache. */
static zr_status read_tokens(zr__writer *w, int64_t first)
{
    int64_t longest = w->longest;
    zr_tensor output = {0};
    if (w->position + (w->n_tokens - first) > longest) {
        int64_t half = longest > 1 ? longest / 2 : 1;
        first = w->n_tokens > half ? w->n_tokens - half : 0;
        w->position = 0;
        w->begun_anew = true;
    }
    for (int64_t i = first; i < w->n_tokens; i++) ZR_TRY(w->decode(w->arg, w->tokens[i], w->position++, &output));
    for (int64_t v = 0; v < w->choices; v++) {
        w->logits[v] = zr__number_at(&output, v);
        ZR_CHECK(isfinite(w->logits[v]), ZR_ERR_DIVERGED,
                 "these weights cannot be used: the logit of token %lld after %lld tokens is %g", (long long)v,
                 (long long)w->n_tokens, (double)w->logits[v]);
    }
    return ZR_OK;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static int32_t likeliest(const zr__writer *w)
{
    int32_t best = 0;
    for (int32_t v = 1; v < w->choices; v++)
        if (w->logits[v] > w->logits[best]) best = v;
    return best;
}

static double weight_of(const zr__writer *w, float logit, double top)
{
    return exp((logit - top) / w->args->temperature);
}

static double sum_weights(const zr__writer *w, double top)
{
    double sum = 0.0;
    for (int64_t v = 0; v < w->choices; v++) sum += weight_of(w, w->logits[v], top);
    return sum;
}

/** Exclude all tokens except the k likeliest. Among equally likely tokens, keep the tokens with the lowest ids, so that
 * k = 1 keeps the result of likeliest(). */
static void keep_likeliest(zr__writer *w, int64_t k)
{
    memcpy(w->sorted, w->logits, (size_t)w->choices * sizeof(*w->sorted));
    qsort(w->sorted, (size_t)w->choices, sizeof(*w->sorted), descending);
    float least = w->sorted[k - 1];
    int64_t equals = 0; /* number of tokens to keep whose logit equals `least` */
    for (int64_t i = 0; i < k; i++) equals += w->sorted[i] == least;
    for (int64_t v = 0; v < w->choices; v++) {
        bool keep = w->logits[v] > least || (w->logits[v] == least && equals-- > 0);
        if (!keep) w->logits[v] = -INFINITY;
    }
}

/** Exclude all tokens except the nucleus: the smallest set of likeliest tokens whose total probability is at least
 * top_p. */
static void keep_share(zr__writer *w, double top, double sum)
{
    double share = 0.0;
    int64_t k = 0;
    memcpy(w->sorted, w->logits, (size_t)w->choices * sizeof(*w->sorted));
    qsort(w->sorted, (size_t)w->choices, sizeof(*w->sorted), descending);
    while (k < w->choices && share < w->args->top_p * sum) share += weight_of(w, w->sorted[k++], top);
    keep_likeliest(w, k);
}

/** Draw a token from softmax(logits / temperature), among the top_k likeliest tokens. With top_p, draw only from their
 * nucleus (keep_share). */
static int32_t draw_token(zr__writer *w, uint64_t seed, int64_t index)
{
    zr_rng rng = {.seed = seed, .purpose = ZR_RNG_SAMPLE};
    int32_t last = likeliest(w);
    double top = w->logits[last];
    if (w->args->top_k > 0 && w->args->top_k < w->choices) keep_likeliest(w, w->args->top_k);
    double sum = sum_weights(w, top);
    if (w->args->top_p > 0.0 && w->args->top_p < 1.0) {
        keep_share(w, top, sum);
        sum = sum_weights(w, top);
    }
    double left = zr_rng_uniform(&rng, (uint64_t)index) * sum;
    for (int32_t v = 0; v < w->choices; v++) {
        double weight = weight_of(w, w->logits[v], top);
        if (weight <= 0.0) continue;
        left -= weight;
        last = v;
        if (left < 0.0) break;
    }
    return last;
}

/** Emit the text of a token. Hold back bytes that may begin a stop text. */
static zr_status emit_token(zr__writer *w, int32_t token, zr_emit_fn emit, void *arg, bool *stopped)
{
    const char *text = NULL;
    int64_t bytes = 0, ready = 0;
    ZR_TRY(zr_tokenizer_decode(w->tokenizer, token, &text, &bytes));
    if (w->stops.n == 0) return emit(arg, text, bytes);
    ZR_TRY(zr__stops_add(&w->stops, text, bytes, &ready, stopped));
    if (ready > 0) ZR_TRY(emit(arg, w->stops.held.data, ready));
    zr__text_drop(&w->stops.held, *stopped ? w->stops.held.length : (size_t)ready);
    return ZR_OK;
}

static bool is_end(const zr__writer *w, int32_t token)
{
    for (int64_t i = 0; i < w->n_ends; i++)
        if (w->end[i] == token) return true;
    return false;
}

static zr_status write_sample(zr__writer *w, zr_generated *did, zr_emit_fn emit, void *arg)
{
    int64_t first = w->n_tokens - 1;
    /* If the cache still has the prompt from an earlier sample, decode only the prompt's last token again. */
    if (did->sample == 0 || w->begun_anew) first = 0;
    w->position = first;
    w->begun_anew = false;
    while (did->tokens < w->args->tokens && !did->stopped) {
        ZR_TRY(read_tokens(w, first));
        int32_t token = w->args->temperature > 0.0 ? draw_token(w, did->seed, did->tokens) : likeliest(w);
        first = w->n_tokens;
        w->tokens[w->n_tokens++] = token;
        did->tokens++;
        did->stopped = is_end(w, token);
        if (!did->stopped) ZR_TRY(emit_token(w, token, emit, arg, &did->stopped));
    }
    const int64_t left = (int64_t)w->stops.held.length;
    if (left > 0) ZR_TRY(emit(arg, w->stops.held.data, left));
    zr__text_drop(&w->stops.held, (size_t)left);
    return ZR_OK;
}

zr_status zr__writer_run(zr__writer *w, zr_emit_fn emit, void *arg)
{
    int64_t prompt = w->n_tokens, samples = w->args->samples > 0 ? w->args->samples : 1;
    w->stops = (zr__stops){.stop = w->args->stop, .n = w->args->n_stop};
    for (int64_t i = 0; i < samples; i++) {
        zr_generated did = {.sample = i, .seed = w->args->seed + (uint64_t)i};
        w->n_tokens = prompt;
        ZR_TRY(write_sample(w, &did, emit, arg));
        if (w->args->done) ZR_TRY(w->args->done(arg, &did));
    }
    return ZR_OK;
}

void zr__writer_close(zr__writer *w)
{
    zr_free(w->tokens);
    zr_free(w->logits);
    zr_free(w->sorted);
    zr__text_clear(&w->stops.held);
}
