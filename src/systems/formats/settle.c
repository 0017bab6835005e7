/* Settings that follow from others: numbers of ranks, samples and layers that systems count in their own ways. */
#include "systems/formats/formats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Names of the options that hold the degree of context parallelism (zr__system.context_option). */
static const char *const context[] = {"with.context-parallel-size", "with.context_parallel_degree",
                                      "with.sequence_parallel_size"};

/* Return the value of a setting as a number, or `otherwise` if it is not given. */
static int64_t number(const zr__settings *list, const char *name, int64_t otherwise)
{
    const char *value = zr__settings_value(list, name);
    return value ? (int64_t)strtod(value, NULL) : otherwise;
}

static zr_status set(zr__settings *list, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, value);
    return zr__settings_add(list, name, text, 0);
}

/* Return the number of ranks that do not share a sample: tensor x pipeline x context is the number that do. */
static int64_t data_ranks(const zr__settings *ours, int64_t ranks, int64_t *share)
{
    *share = number(ours, "parallel.tensor", 1) * number(ours, "parallel.pipeline", 1);
    for (size_t i = 0; i < sizeof(context) / sizeof(*context); i++) *share *= number(ours, context[i], 1);
    return *share > 0 ? ranks / *share : 0;
}

/* Return the name in the file of a setting of ours. */
static const char *from(const zr__settings *ours, const char *name)
{
    const zr__setting *s = zr__settings_find(ours, name);
    return s && s->from ? s->from : name;
}

static zr_status settle_batch(const char *name, zr__settings *ours, int64_t ranks)
{
    int64_t share;
    const int64_t data = data_ranks(ours, ranks, &share), micro = number(ours, "train_micro_batch_size_per_gpu", 1);
    const int64_t local = number(ours, "local", 0), all = number(ours, "global", local * data);
    if (all <= 0) return ZR_OK;
    ZR_CHECK(data > 0 && data * share == ranks, ZR_ERR_CONFIG,
             "%s: %" PRId64 " ranks are not a multiple of tensor x pipeline x context parallelism, %" PRId64
             "; give the number of ranks: --ranks N",
             name, ranks, share);
    ZR_CHECK(micro > 0 && all % (micro * data) == 0, ZR_ERR_CONFIG,
             "%s: %s %" PRId64 " is not a multiple of %s %" PRId64 " x %" PRId64
             " data-parallel ranks; change one of them, or give the number of ranks: --ranks N",
             name, from(ours, "global"), all, from(ours, "train_micro_batch_size_per_gpu"), micro, data);
    const int64_t steps = all / (micro * data), given = number(ours, "gradient_accumulation_steps", steps);
    ZR_CHECK(given == steps, ZR_ERR_CONFIG,
             "%s: %s %" PRId64 " and %s %" PRId64 " contradict each other: %s %" PRId64 " x %" PRId64
             " data-parallel ranks makes %" PRId64 " micro-batches; leave out one of them",
             name, from(ours, "global"), all, from(ours, "gradient_accumulation_steps"), given,
             from(ours, "train_micro_batch_size_per_gpu"), micro, data, steps);
    return zr__settings_find(ours, "gradient_accumulation_steps") ? ZR_OK
                                                                  : set(ours, "gradient_accumulation_steps", steps);
}

/* Replace the "auto" of options that transformers computes from the width of the model. */
static zr_status settle_auto(zr__settings *ours, int64_t width)
{
    static const struct {
        const char *name;
        double squares, widths;
    } computed[] = {{"with.reduce_bucket_size", 1, 0},
                    {"with.stage3_prefetch_bucket_size", .9, 0},
                    {"with.stage3_param_persistence_threshold", 0, 10}};
    for (size_t i = 0; i < sizeof(computed) / sizeof(*computed); i++) {
        zr__setting *s = zr__settings_find(ours, computed[i].name);
        char text[32], *copy = NULL;
        if (!s || strcmp(s->value, "auto") != 0) continue;
        const double w = (double)width;
        snprintf(text, sizeof(text), "%.0f", floor(computed[i].squares * w * w + computed[i].widths * w));
        ZR_TRY(zr__text_copy(text, strlen(text), &copy));
        zr_free(s->value);
        s->value = copy;
    }
    return ZR_OK;
}

/* Fail if a number that only this file reads is none, such as the "gpu" of torchrun. */
static zr_status check_counts(const char *name, const zr__settings *ours)
{
    static const char *const counts[] = {"ranks", "hosts", "per_host", "global", "local", "layers_per_chunk"};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const char *value = zr__settings_value(ours, counts[i]);
        char *end;
        const double count = value ? strtod(value, &end) : 1;
        ZR_CHECK(!value || (end != value && !*end && count >= 1 && count <= 1e12 && count == floor(count)),
                 ZR_ERR_CONFIG, "%s: %s is %s; wanted a whole number from 1", name, from(ours, counts[i]),
                 ZR_SHOWN(value));
    }
    return ZR_OK;
}

zr_status zr__format_settle(const char *name, zr__settings *ours, int64_t ranks, int64_t layers, int64_t width)
{
    ZR_TRY(check_counts(name, ours));
    ZR_TRY(settle_auto(ours, number(ours, "model.n_embd", number(ours, "model.hidden_size", width))));
    const int64_t product = number(ours, "hosts", 1) * number(ours, "per_host", 0);
    if (!zr__settings_find(ours, "ranks") && product > 0) ZR_TRY(set(ours, "ranks", product));
    const int64_t shard = number(ours, "shard", 0);
    if (shard > 0) {
        int64_t share;
        data_ranks(ours, 0, &share);
        share *= shard * number(ours, "with.data_parallel_replicate_degree", 1);
        const int64_t known = ranks ? ranks : number(ours, "ranks", share);
        ZR_CHECK(known == share, ZR_ERR_CONFIG,
                 "%s: %s %" PRId64 " makes %" PRId64 " ranks with the other degrees, but there are %" PRId64
                 "; change one of them, or give -1 for all ranks that are left",
                 name, from(ours, "shard"), shard, share, known);
        if (!zr__settings_find(ours, "ranks")) ZR_TRY(set(ours, "ranks", share));
    }
    if (ranks == 0) ranks = number(ours, "ranks", 1);
    ZR_TRY(settle_batch(name, ours, ranks));
    const int64_t each = number(ours, "layers_per_chunk", 0);
    if (each <= 0) return ZR_OK;
    layers = number(ours, "model.n_layer", number(ours, "model.num_hidden_layers", layers));
    const int64_t stages = number(ours, "parallel.pipeline", 1);
    ZR_CHECK(layers > 0 && layers % (each * stages) == 0, ZR_ERR_CONFIG,
             "%s: %s %" PRId64 " x %" PRId64 " pipeline ranks does not divide the %" PRId64 " layers of the model",
             name, from(ours, "layers_per_chunk"), each, stages, layers);
    return zr__settings_find(ours, "parallel.chunks") ? ZR_OK : set(ours, "parallel.chunks", layers / (each * stages));
}

zr_status zr__format_derive(zr__settings *ours, int64_t ranks, int64_t per_host, int64_t layers)
{
    int64_t share;
    const int64_t data = data_ranks(ours, ranks, &share), steps = number(ours, "gradient_accumulation_steps", 1),
                  micro = number(ours, "train_micro_batch_size_per_gpu", 1),
                  stages = number(ours, "parallel.pipeline", 1) * number(ours, "parallel.chunks", 1);
    if (per_host < 1 || per_host > ranks) per_host = ranks;
    ZR_TRY(set(ours, "ranks", ranks));
    ZR_TRY(set(ours, "hosts", ranks / per_host));
    ZR_TRY(set(ours, "per_host", per_host));
    ZR_TRY(set(ours, "global", micro * steps * data));
    ZR_TRY(set(ours, "local", micro * steps));
    return layers % stages == 0 ? set(ours, "layers_per_chunk", layers / stages) : ZR_OK;
}
