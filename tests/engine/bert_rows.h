/* Small BERT models, and rows of several samples and padding on which they are trained. */
#ifndef BERT_ROWS_H
#define BERT_ROWS_H

#include "trainer.h"

enum { BERT_WORDS = 131, BERT_PREDICTIONS = 5, BERT_SAMPLES = 3 };

static const zr_bert_config bert_post = {.num_hidden_layers = 2,
                                         .num_attention_heads = 2,
                                         .hidden_size = 22,
                                         .intermediate_size = 38,
                                         .max_position_embeddings = 24,
                                         .vocab_size = BERT_WORDS,
                                         .type_vocab_size = 2,
                                         .hidden_dropout_prob = 0.1,
                                         .attention_probs_dropout_prob = 0.1,
                                         .layer_norm_eps = 1e-12,
                                         .initializer_range = 0.02},
                            bert_pre = {.num_hidden_layers = 2,
                                        .num_attention_heads = 6,
                                        .hidden_size = 30,
                                        .intermediate_size = 42,
                                        .max_position_embeddings = 24,
                                        .vocab_size = BERT_WORDS,
                                        .type_vocab_size = 2,
                                        .hidden_dropout_prob = 0.1,
                                        .attention_probs_dropout_prob = 0.1,
                                        .layer_norm_eps = 1e-12,
                                        .initializer_range = 0.02,
                                        .pre_layer_norm = true};

static inline uint32_t bert_draw(int64_t step, int64_t row, int64_t t)
{
    const zr_rng rng = {.seed = 9, .purpose = ZR_RNG_SHUFFLE, .stream = 3, .step = (uint32_t)step};
    return zr_rng_u32(&rng, (uint64_t)(row * 4096 + t));
}

/* Return the number of samples of a row. Every third row is full, and the next one is padding alone. */
static inline int64_t bert_samples(int64_t row)
{
    return row % 3 == 0 ? BERT_SAMPLES : row % 3 == 1 ? 0 : 1 + row / 3 % 2;
}

/* Return the first token of sample i of a row; of the sample after the last, the first token of the padding. */
static inline int64_t bert_begin(const trainer *run, int64_t row, int64_t i)
{
    const int64_t n = bert_samples(row), T = run->layout.seq,
                  used = n == BERT_SAMPLES ? T : n * (T / BERT_SAMPLES) + row % 2;
    return i < n ? i * (T / BERT_SAMPLES) : n == 0 ? 0 : used;
}

/* Return whether a token is predicted: its sample's third token and, where it has five, the last but one. */
static inline bool bert_predicts(int64_t t, int64_t begin, int64_t end)
{
    return t == begin + 2 || (end - begin > 4 && t == end - 2);
}

static inline void bert_row(const trainer *run, int64_t step, int64_t row, int32_t *const in[7])
{
    const int64_t T = run->layout.seq, n = bert_samples(row);
    int64_t predicted = 0;
    for (int64_t i = 0; i <= n; i++) {
        const int64_t begin = bert_begin(run, row, i), end = i < n ? bert_begin(run, row, i + 1) : T;
        if (i < n) in[4][i] = (int32_t)begin, in[5][i] = (int32_t)(bert_draw(step, row, T + i) % 2);
        for (int64_t t = begin; t < end; t++) {
            in[0][t] = i < n ? (int32_t)(bert_draw(step, row, t) % BERT_WORDS) : 0;
            in[1][t] = i < n && 2 * (t - begin) > end - begin;
            in[6][t] = (int32_t)begin;
            if (i == n || predicted == BERT_PREDICTIONS || !bert_predicts(t, begin, end)) continue;
            in[2][predicted] = (int32_t)t;
            in[3][predicted++] = (int32_t)(bert_draw(step, row, 2 * T + t) % BERT_WORDS);
        }
    }
    for (int64_t k = predicted; k < BERT_PREDICTIONS; k++) in[2][k] = 0, in[3][k] = -1;
    for (int64_t k = n; k < BERT_SAMPLES; k++) in[4][k] = 0, in[5][k] = -1;
}

static inline zr_status bert_rows(const trainer *run, const zr_batch *batch, void *const *input)
{
    const int64_t T = run->layout.seq,
                  width[7] = {T, T, BERT_PREDICTIONS, BERT_PREDICTIONS, BERT_SAMPLES, BERT_SAMPLES, T};
    int32_t spare[7][32], *in[7];
    for (int64_t b = 0; b < run->layout.batch; b++) {
        for (int i = 0; i < 7; i++) in[i] = input ? (int32_t *)input[i] + b * width[i] : spare[i];
        bert_row(run, batch->step, batch->first_row + b, in);
        for (int64_t k = 0; k < BERT_PREDICTIONS; k++) batch->counted[0] -= in[3][k] < 0;
        for (int64_t k = 0; k < BERT_SAMPLES; k++) batch->counted[1] -= in[5][k] < 0;
    }
    return ZR_OK;
}

static inline zr_status bert_batch(void *arg, const zr_batch *batch, void *const *input)
{
    return bert_rows(arg, batch, input);
}

static inline zr_status bert_count(void *arg, const zr_batch *batch)
{
    return bert_rows(arg, batch, NULL);
}

#endif
