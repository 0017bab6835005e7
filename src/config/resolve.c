/* What the file leaves open, settled; and what must fit together. */
#include "config/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* zr_plan cuts shards and buckets at so many elements a rank; config stands below plan. */
enum { SHARD_ALIGN_ELEMS = 32 };

static const char *const size_name[] = {"n_layer", "n_head", "n_embd", "n_positions", "vocab_size"};
enum { SIZES = sizeof(size_name) / sizeof(size_name[0]) };

static int64_t *size_field(zr_config_sizes *sizes, int i)
{
    int64_t *const field[SIZES] = {&sizes->n_layer, &sizes->n_head, &sizes->n_embd, &sizes->n_positions,
                                   &sizes->vocab_size};
    return field[i];
}

/* A value that does not fit with others, at the key it was given by. */
static zr_status fail_key(const zr__source *source, const char *section, const char *name, const char *message)
{
    const zr__json_place top = {0};
    char part[32];
    snprintf(part, sizeof(part), "%.*s", (int)strcspn(section, "."), section);
    const zr__json_place first = {&top, part, 0};
    const char *inner = strchr(section, '.');
    const zr__json_place second = {&first, inner ? inner + 1 : name, 0};
    const zr__json_place third = {&second, name, 0};
    return zr__config_fail(source, inner ? &third : &second, ZR_ERR_CONFIG, "%s", message);
}

/* Parameters of one optimizer or scheduler given to another would be ignored: refuse them. */
static zr_status check_params(const zr_config *config, const zr__source *source, const char *section, unsigned type,
                              const char *type_name)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    size_t length = strlen(section);
    for (int i = 0; i < n; i++) {
        char message[128];
        if (strncmp(key[i].path, section, length) != 0 || !key[i].only || (key[i].only & 1u << type)) continue;
        if (!config->state->given[i]) continue;
        snprintf(message, sizeof(message), "%s has no such parameter; leave it out", type_name);
        return fail_key(source, section, key[i].path + length + 1, message);
    }
    return ZR_OK;
}

static zr_status check_types(const zr_config *config, const zr__source *source)
{
    static const char *const optimizer[] = {"AdamW", "Adam", "SGD"};
    static const char *const scheduler[] = {"a constant learning rate (no scheduler.type)", "WarmupLR", "WarmupDecayLR",
                                            "WarmupCosineLR"};
    ZR_TRY(check_params(config, source, "optimizer.params", config->optimizer.type, optimizer[config->optimizer.type]));
    ZR_TRY(check_params(config, source, "scheduler.params", config->scheduler.type, scheduler[config->scheduler.type]));
    if (config->optimizer.type == ZR_OPTIMIZER_ADAMW && !config->optimizer.adam_w_mode)
        return fail_key(source, "optimizer.params", "adam_w_mode", "false is Adam's, AdamW has decoupled decay");
    if (config->optimizer.nesterov && config->optimizer.momentum == 0)
        return fail_key(source, "optimizer.params", "nesterov", "true needs a momentum above 0");
    if (config->scheduler.warmup_min_lr > config->scheduler.warmup_max_lr)
        return fail_key(source, "scheduler.params", "warmup_min_lr", "above warmup_max_lr");
    if (config->communication_dtype == ZR_CONFIG_BF16 && !config->bf16) {
        const zr__json_place top = {0}, place = {&top, "communication_data_type", 0};
        return zr__config_fail(source, &place, ZR_ERR_UNSUPPORTED,
                               "bf16 is available with bf16.enabled only; available: fp32");
    }
    return ZR_OK;
}

zr_status zr__config_check(const zr_config *config, const zr__source *source)
{
    const zr_config_sizes *sizes = &config->model.sizes;
    char message[160];
    ZR_TRY(check_types(config, source));
    if (config->model.preset && config->model.init)
        return fail_key(source, "model", "preset", "given beside model.init; both give every size, keep one");
    if (sizes->n_head && sizes->n_embd && sizes->n_embd % sizes->n_head != 0) {
        snprintf(message, sizeof(message), "%" PRId64 " heads do not divide n_embd %" PRId64, sizes->n_head,
                 sizes->n_embd);
        return fail_key(source, "model", "n_head", message);
    }
    if (sizes->n_positions && config->data.seq_length > sizes->n_positions) {
        snprintf(message, sizeof(message), "%" PRId64 " is longer than model.n_positions %" PRId64,
                 config->data.seq_length, sizes->n_positions);
        return fail_key(source, "data", "seq_length", message);
    }
    return ZR_OK;
}

zr_status zr_config_set_sizes(zr_config *config, const zr_config_sizes *sizes, const char *origin)
{
    zr_config_sizes from = *sizes;
    for (int i = 0; i < SIZES; i++) {
        int64_t had = *size_field(&config->model.sizes, i), has = *size_field(&from, i);
        if (had != 0 && had != has)
            return zr__config_refuse(config, "model.%s: %" PRId64 " differs from the %" PRId64 " of %s; leave it out",
                                     size_name[i], had, has, origin);
    }
    config->model.sizes = from;
    return ZR_OK;
}

static zr_status resolve_sizes(zr_config *config)
{
    const bool bytes = config->data.tokenizer && strcmp(config->data.tokenizer, "bytes") == 0;
    const int64_t standard[SIZES] = {12, 12, 768, 1024, bytes ? 256 : 50257};
    const char *source = config->model.preset ? "model.preset" : "model.init";
    const bool elsewhere = config->model.preset || config->model.init;
    for (int i = 0; i < SIZES; i++) {
        int64_t *size = size_field(&config->model.sizes, i);
        ZR_CHECK(*size || !elsewhere, ZR_ERR_STATE, "model.%s: %s gives it, and zr_config_set_sizes was not called",
                 size_name[i], source);
        if (*size == 0) *size = standard[i];
    }
    const zr_config_sizes *sizes = &config->model.sizes;
    if (sizes->n_embd % sizes->n_head != 0)
        return zr__config_refuse(config, "model.n_head: %" PRId64 " heads do not divide n_embd %" PRId64, sizes->n_head,
                                 sizes->n_embd);
    if (config->data.seq_length == 0) config->data.seq_length = sizes->n_positions;
    if (config->data.seq_length > sizes->n_positions)
        return zr__config_refuse(config, "data.seq_length: %" PRId64 " is longer than model.n_positions %" PRId64,
                                 config->data.seq_length, sizes->n_positions);
    return ZR_OK;
}

static zr_status bad_batch(const zr_config *config, int64_t micro, int64_t accum, int ranks, const char *advice)
{
    char a[24] = "?", b[24] = "?", c[24] = "?";
    if (config->train_batch_size) snprintf(a, sizeof(a), "%" PRId64, config->train_batch_size);
    if (micro) snprintf(b, sizeof(b), "%" PRId64, micro);
    if (accum) snprintf(c, sizeof(c), "%" PRId64, accum);
    return zr__config_refuse(config,
                             "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks "
                             "does not hold: %s, %s x %s x %d; %s",
                             a, b, c, ranks, advice);
}

static zr_status product(const zr_config *config, int64_t micro, int64_t accum, int ranks, int64_t *batch)
{
    const int64_t most = (int64_t)ZR_CONFIG_MAX_INT;
    if (micro > most / ranks || accum > most / (micro * ranks))
        return bad_batch(config, micro, accum, ranks, "the product is too large");
    *batch = micro * accum * ranks;
    return ZR_OK;
}

/* The batch triangle: two given, or one, or none; the rest follows. */
static zr_status resolve_batch(zr_config *config, int ranks)
{
    int64_t batch = config->train_batch_size, micro = config->micro_batch_size, accum = config->accumulation_steps;
    if (!batch && !micro) ZR_TRY(zr__config_note(config, "train_micro_batch_size_per_gpu: not given, taken as 1"));
    if (!batch && !micro) micro = 1;
    if (!accum && !(batch && micro)) accum = 1;
    if (batch && !(micro && accum)) {
        int64_t known = micro ? micro : accum, rest = 0;
        if (known > batch / ranks) return bad_batch(config, micro, accum, ranks, "the batch is too small");
        rest = batch / (known * ranks);
        if (rest * known * ranks != batch)
            return bad_batch(config, micro, accum, ranks, "the batch is no multiple of the rest");
        *(micro ? &accum : &micro) = rest;
    }
    int64_t whole = 0;
    ZR_TRY(product(config, micro, accum, ranks, &whole));
    if (batch && batch != whole) return bad_batch(config, micro, accum, ranks, "leave one of the three out");
    config->train_batch_size = whole;
    config->micro_batch_size = micro;
    config->accumulation_steps = accum;
    return ZR_OK;
}

static zr_status note_bucket(zr_config *config, const char *name, int64_t elems, int ranks)
{
    int64_t unit = (int64_t)SHARD_ALIGN_ELEMS * ranks, rest = elems % unit;
    if (rest == 0 || !zr_config_given(config, name)) return ZR_OK;
    return zr__config_note(config, "%s: %" PRId64 " is rounded up to %" PRId64 ", a multiple of %d x %d ranks", name,
                           elems, elems - rest + unit, SHARD_ALIGN_ELEMS, ranks);
}

static zr_status resolve_schedule(zr_config *config)
{
    zr_config_scheduler type = config->scheduler.type;
    bool ends = type == ZR_SCHEDULER_WARMUP_DECAY || type == ZR_SCHEDULER_WARMUP_COSINE;
    int64_t warmup = config->scheduler.warmup_num_steps, *total = &config->scheduler.total_num_steps;
    if (*total == 0) *total = config->train.steps;
    if (!ends || *total >= warmup) return ZR_OK;
    return zr__config_note(config,
                           "scheduler.params.total_num_steps: %" PRId64 " is less than warmup_num_steps %" PRId64
                           "; the warm-up comes first",
                           *total, warmup);
}

static zr_status note_autos(zr_config *config)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    for (int i = 0; i < n; i++) ZR_TRY(zr__value_note_auto(config, &key[i]));
    return ZR_OK;
}

zr_status zr_config_resolve(zr_config *config, int ranks)
{
    ZR_CHECK(ranks >= 1, ZR_ERR_ARG, "%d ranks; wanted at least 1", ranks);
    ZR_TRY(resolve_sizes(config));
    ZR_TRY(resolve_batch(config, ranks));
    ZR_TRY(note_bucket(config, "zero_optimization.reduce_bucket_size", config->zero.reduce_bucket_elems, ranks));
    ZR_TRY(note_bucket(config, "zero_optimization.allgather_bucket_size", config->zero.allgather_bucket_elems, ranks));
    if (config->zero.overlap_comm == ZR_SWITCH_AUTO)
        config->zero.overlap_comm = config->zero.stage == 3 ? ZR_SWITCH_ON : ZR_SWITCH_OFF;
    if (config->communication_dtype == ZR_CONFIG_AUTO)
        config->communication_dtype = config->bf16 ? ZR_CONFIG_BF16 : ZR_CONFIG_FP32;
    if (config->grad_accum_dtype == ZR_CONFIG_AUTO) config->grad_accum_dtype = ZR_CONFIG_FP32;
    ZR_TRY(resolve_schedule(config));
    ZR_TRY(note_autos(config));
    return ZR_OK;
}
