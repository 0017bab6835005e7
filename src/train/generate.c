#include "train/load.h"
#include "train/paths.h"
#include "train/run_dir.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    zr__loaded loaded;
    const zr_generate_args *args;
    zr_tokenizer *tokenizer;
    int64_t choices; /* tokens to choose from */
    int32_t *tokens; /* prompt and what was added */
    int64_t n_tokens;
    int64_t position; /* tokens in the cache */
    float *logits, *sorted;
} writer;

static zr_status check(const zr_generate_args *args)
{
    ZR_CHECK(args->tokens >= 0 && args->tokens <= INT32_MAX, ZR_ERR_ARG,
             "%lld tokens to generate; 0 or more are possible", (long long)args->tokens);
    ZR_CHECK(isfinite(args->temperature) && args->temperature >= 0.0, ZR_ERR_ARG,
             "a temperature of %g; it must be 0 (likeliest token) or more", args->temperature);
    ZR_CHECK(args->top_k >= 0, ZR_ERR_ARG, "top-k of %lld; it must be 0 (all tokens) or more", (long long)args->top_k);
    return ZR_OK;
}

/** Bytes, where the run says so; or else the files beside the weights, or in the run's model/; what the run was trained
 *  with; or bytes, where the model has as many tokens. */
static zr_status find_tokenizer(const zr__loaded *loaded, char path[PATH_MAX], const char **tokenizer)
{
    const char *said = loaded->config ? loaded->config->data.tokenizer : NULL;
    *tokenizer = path;
    snprintf(path, PATH_MAX, "bytes");
    if (said && strcmp(said, "bytes") == 0) return ZR_OK;
    ZR_CHECK(snprintf(path, PATH_MAX, "%s", loaded->stored.path) < PATH_MAX, ZR_ERR_NOT_FOUND,
             "the path %.60s... is too long", loaded->stored.path);
    if (zr_tokenizer_is_in(path)) return ZR_OK;
    if (loaded->stored.run[0]) ZR_TRY(zr__path_join(path, loaded->stored.run, "model"));
    if (loaded->stored.run[0] && zr_tokenizer_is_in(path)) return ZR_OK;
    if (said) return zr__run_tokenizer_find(loaded->config, loaded->stored.run, path, tokenizer);
    snprintf(path, PATH_MAX, "bytes");
    ZR_CHECK(
        loaded->model.sizes.vocab_size == ZR__BYTES_VOCAB, ZR_ERR_UNSUPPORTED,
        "the model has %lld tokens and no tokenizer: put its tokenizer.json, or vocab.json and merges.txt, into %s",
        (long long)loaded->model.sizes.vocab_size, loaded->stored.path);
    return ZR_OK;
}

static zr_status open_tokenizer(writer *w)
{
    char path[PATH_MAX];
    const char *name = NULL;
    int64_t vocab = w->loaded.model.sizes.vocab_size;
    ZR_TRY(find_tokenizer(&w->loaded, path, &name));
    ZR_TRY(zr_tokenizer_open(name, &w->tokenizer));
    int64_t known = zr_tokenizer_vocab(w->tokenizer);
    w->choices = known < vocab ? known : vocab;
    return ZR_OK;
}

/** What a text without a prompt begins behind: the end of the text before it, or of a line. */
static int32_t first_token(const writer *w)
{
    int32_t token = zr_tokenizer_token(w->tokenizer, "<|endoftext|>");
    if (token < 0) token = zr_tokenizer_token(w->tokenizer, "\n");
    return token >= 0 && token < w->choices ? token : 0;
}

static zr_status encode_prompt(writer *w)
{
    int64_t room = w->args->prompt_bytes + w->args->tokens + 1;
    w->tokens = zr_alloc((size_t)room * sizeof(*w->tokens));
    w->logits = zr_alloc((size_t)w->choices * sizeof(*w->logits));
    w->sorted = zr_alloc((size_t)w->choices * sizeof(*w->sorted));
    ZR_CHECK(w->tokens && w->logits && w->sorted, ZR_ERR_MEMORY, "no memory for %lld tokens", (long long)room);
    ZR_TRY(zr_tokenizer_encode(w->tokenizer, w->args->prompt, w->args->prompt_bytes, w->tokens, room, &w->n_tokens));
    if (w->n_tokens == 0) w->tokens[w->n_tokens++] = first_token(w);
    for (int64_t i = 0; i < w->n_tokens; i++) {
        ZR_CHECK(w->tokens[i] < w->loaded.model.sizes.vocab_size, ZR_ERR_DATA,
                 "token %d of the prompt is outside the model's vocabulary of %lld", w->tokens[i],
                 (long long)w->loaded.model.sizes.vocab_size);
    }
    return ZR_OK;
}

static float number_at(const zr_tensor *tensor, int64_t i)
{
    const uint16_t *half = tensor->data;
    if (tensor->dtype == ZR_BF16) return zr_f32_from_bf16(half[i]);
    if (tensor->dtype == ZR_F16) return zr_f32_from_f16(half[i]);
    return ((const float *)tensor->data)[i];
}

/** Bring the cache up to the last token; its logits are then in w->logits. A full cache is begun anew with
 *  the last half of its tokens, so each token still sees at least that many. */
static zr_status read_tokens(writer *w, int64_t first)
{
    int64_t longest = w->loaded.model.sizes.n_positions;
    zr_tensor output = {0};
    if (w->position + (w->n_tokens - first) > longest) {
        int64_t half = longest > 1 ? longest / 2 : 1;
        first = w->n_tokens > half ? w->n_tokens - half : 0;
        w->position = 0;
    }
    for (int64_t i = first; i < w->n_tokens; i++) {
        ZR_TRY(zr_engine_decode(w->loaded.engine, w->tokens[i], w->position++, &output));
    }
    for (int64_t v = 0; v < w->choices; v++) {
        w->logits[v] = number_at(&output, v);
        ZR_CHECK(isfinite(w->logits[v]), ZR_ERR_DIVERGED,
                 "these weights are of no use: the logit of token %lld after %lld tokens is %g", (long long)v,
                 (long long)w->n_tokens, (double)w->logits[v]);
    }
    return ZR_OK;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static int32_t likeliest(const writer *w)
{
    int32_t best = 0;
    for (int32_t v = 1; v < w->choices; v++) {
        if (w->logits[v] > w->logits[best]) best = v;
    }
    return best;
}

/** Rule out all but the k likeliest; of equals the first stay, so that k = 1 is the likeliest. */
static void keep_likeliest(writer *w, int64_t k)
{
    memcpy(w->sorted, w->logits, (size_t)w->choices * sizeof(*w->sorted));
    qsort(w->sorted, (size_t)w->choices, sizeof(*w->sorted), descending);
    float least = w->sorted[k - 1];
    int64_t equals = 0; /* to keep */
    for (int64_t i = 0; i < k; i++) equals += w->sorted[i] == least;
    for (int64_t v = 0; v < w->choices; v++) {
        bool keep = w->logits[v] > least || (w->logits[v] == least && equals-- > 0);
        if (!keep) w->logits[v] = -INFINITY;
    }
}

/** Draw from softmax(logits / temperature) over the k likeliest. */
static int32_t draw(writer *w, int64_t index)
{
    zr_rng rng = {.seed = w->args->seed, .purpose = ZR_RNG_SAMPLE};
    int32_t last = likeliest(w);
    double top = w->logits[last], sum = 0.0;
    if (w->args->top_k > 0 && w->args->top_k < w->choices) keep_likeliest(w, w->args->top_k);
    for (int64_t v = 0; v < w->choices; v++) sum += exp((w->logits[v] - top) / w->args->temperature);
    double left = zr_rng_uniform(&rng, (uint64_t)index) * sum;
    for (int32_t v = 0; v < w->choices; v++) {
        double weight = exp((w->logits[v] - top) / w->args->temperature);
        if (weight <= 0.0) continue;
        left -= weight;
        last = v;
        if (left < 0.0) break;
    }
    return last;
}

static zr_status write_tokens(writer *w, zr_emit_fn emit, void *arg)
{
    int64_t first = 0;
    for (int64_t i = 0; i < w->args->tokens; i++) {
        const char *text = NULL;
        int64_t bytes = 0;
        ZR_TRY(read_tokens(w, first));
        int32_t token = w->args->temperature > 0.0 ? draw(w, i) : likeliest(w);
        first = w->n_tokens;
        w->tokens[w->n_tokens++] = token;
        ZR_TRY(zr_tokenizer_decode(w->tokenizer, token, &text, &bytes));
        ZR_TRY(emit(arg, text, bytes));
    }
    return ZR_OK;
}

static zr_status generate(writer *w, const char *dir, zr_emit_fn emit, void *arg)
{
    zr_layout layout = ZR_LAYOUT_INIT;
    ZR_TRY(zr__load_open(dir, &w->loaded));
    ZR_TRY(open_tokenizer(w));
    ZR_TRY(encode_prompt(w));
    layout.train = false;
    layout.eval = false;
    layout.decode_len = w->loaded.model.sizes.n_positions;
    ZR_TRY(zr__load_start(&w->loaded, &layout, w->args->threads));
    ZR_TRY(write_tokens(w, emit, arg));
    return ZR_OK;
}

zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg)
{
    ZR_CHECK(dir && args && emit, ZR_ERR_ARG, "zr_generate was given a NULL pointer");
    ZR_TRY(check(args));
    writer w = {.args = args};
    zr_status st = generate(&w, dir, emit, arg);
    zr_tokenizer_close(&w.tokenizer);
    zr_free(w.tokens);
    zr_free(w.logits);
    zr_free(w.sorted);
    zr__load_close(&w.loaded);
    return st;
}
