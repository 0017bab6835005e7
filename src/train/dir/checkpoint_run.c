#include "train/dir/checkpoint_run.h"

#include "base/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum of an integer in the JSON: 2^53, because JSON readers may round larger integers. */
#define MOST 0x1p53

/* ---- writing JSON ----------------------------------------------------------------------------- */

static json_t *print_file_print(const zr__file_print *file)
{
    char hash[20];
    if (file->bytes < 0) return json_null();
    snprintf(hash, sizeof(hash), "%016" PRIx64, file->hash);
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)file->bytes, "xxh3", hash);
}

/** Return the state of a dynamic loss scaler as JSON. Return null for a static scale, which has no state. */
static json_t *print_scaler(const zr__loss_scaler *s)
{
    if (!s->dynamic) return json_null();
    return json_pack("{s:I, s:I, s:I}", "step", (json_int_t)s->step, "last_overflow", (json_int_t)s->last_overflow,
                     "hysteresis_left", (json_int_t)s->hysteresis_left);
}

/** Return the noise averages as JSON without rounding, so that a resumed run continues with the same bits. */
static json_t *print_noise(const zr__noise_scale *n)
{
    if (n->steps == 0) return json_null();
    return json_pack("{s:I, s:f, s:f}", "steps", (json_int_t)n->steps, "gradient", n->gradient, "trace", n->trace);
}

/** Return the evaluations as JSON without rounding. */
static json_t *print_early(const zr__early_stop *e)
{
    if (e->step == 0) return json_null();
    return json_pack("{s:I, s:I, s:I, s:f}", "step", (json_int_t)e->step, "best_step", (json_int_t)e->best_step,
                     "since", (json_int_t)e->since, "best", e->best);
}

void zr__checkpoint_run_sums(zr__checkpoint_run *run, const zr_layout *layout)
{
    const int near = layout->shard_ranks > 0 ? layout->shard_ranks
                     : layout->hierarchical  ? layout->host_ranks / layout->tensor
                                             : 0;
    const bool quantised = zr_dtype_is_record(layout->grad_records);
    run->summing_ranks = quantised ? layout->ranks : 0;
    run->near_ranks = quantised && near > 1 && near < layout->ranks ? near : 0;
}

static json_t *print_sums(const zr__checkpoint_run *run)
{
    if (run->summing_ranks == 0) return json_null();
    return json_pack("{s:i, s:i}", "ranks", run->summing_ranks, "near", run->near_ranks);
}

static json_t *print_record(const zr__checkpoint_run *run, const zr_layout *layout, json_t *config)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:o, s:i, s:i, s:s, s:s, s:s, s:{s:o, s:o}, s:o, s:o, s:o, "
                     "s:o, s:o, s:O}", /**/
                     "seed", (json_int_t)run->seed, "updates", (json_int_t)run->updates, "samples",
                     (json_int_t)run->samples, "skipped", (json_int_t)run->skipped, "skipped_in_row",
                     (json_int_t)run->skipped_in_row, "loss", isfinite(run->loss) ? json_real(run->loss) : json_null(),
                     "loss_scale", run->scaler.scale, "loss_scaler", print_scaler(&run->scaler), "ranks", run->ranks,
                     "stage", layout->stage, "dtype", zr_dtype_name(layout->dtype), "layout",
                     layout->states == ZR_STATES_LEAN ? "lean" : "paper", "optimizer", run->optimizer, "data", "train",
                     print_file_print(&run->prints.train), "val", print_file_print(&run->prints.val), "base",
                     print_file_print(&run->prints.base), "noise_scale", print_noise(&run->noise), "quantised_sums",
                     print_sums(run), "evaluations", print_early(&run->early), "tokenizer",
                     run->tokenizer[0] ? json_string_nocheck(run->tokenizer) : json_null(), "config", config);
}

zr_status zr__checkpoint_run_print(const zr__checkpoint_run *run, const zr_layout *layout, char **json)
{
    json_auto_t *config = NULL;
    *json = NULL;
    ZR_TRY(zr__json_parse(run->config, strlen(run->config), "the resolved configuration", &config));
    json_auto_t *all = print_record(run, layout, config);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the record of a checkpoint");
    return zr__json_print(all, json);
}

/* ---- reading JSON ----------------------------------------------------------------------------- */

typedef struct reader {
    const json_t *object;
    const char *where;
} reader;

static zr_status no_use_of(const reader *r, const char *name)
{
    return ZR_FAIL(ZR_ERR_DATA, "%s: \"%s\" is missing or invalid; another program has written this checkpoint",
                   r->where, name);
}

/** Read an integer member. Fail unless it is at least `least` and at most MOST. */
static zr_status read_count(const reader *r, const char *name, int64_t least, int64_t *count)
{
    const json_t *value = json_object_get(r->object, name);
    *count = json_integer_value(value);
    if (!json_is_integer(value) || *count < least || (double)*count > MOST) return no_use_of(r, name);
    return ZR_OK;
}

static zr_status read_short_text(const reader *r, const char *name, char *text, size_t size)
{
    const json_t *value = json_object_get(r->object, name);
    text[0] = '\0';
    if (json_is_null(value)) return ZR_OK;
    if (!json_is_string(value) || json_string_length(value) >= size) return no_use_of(r, name);
    snprintf(text, size, "%s", json_string_value(value));
    return ZR_OK;
}

static zr_status read_file_print(const reader *r, const char *name, zr__file_print *file)
{
    char hash[20], *end = NULL;
    const json_t *value = json_object_get(r->object, name);
    const reader inner = {value, r->where};
    *file = (zr__file_print){.bytes = -1};
    if (json_is_null(value)) return ZR_OK;
    if (!json_is_object(value)) return no_use_of(r, name);
    ZR_TRY(read_count(&inner, "bytes", 0, &file->bytes));
    ZR_TRY(read_short_text(&inner, "xxh3", hash, sizeof(hash)));
    file->hash = strtoull(hash, &end, 16);
    return end == hash + 16 ? ZR_OK : no_use_of(r, name);
}

static zr_status read_scaler(const reader *r, zr__loss_scaler *s)
{
    const json_t *scale = json_object_get(r->object, "loss_scale"), *value = json_object_get(r->object, "loss_scaler");
    const reader inner = {value, r->where};
    s->scale = json_number_value(scale);
    if (!json_is_number(scale) || !isfinite(s->scale) || s->scale <= 0) return no_use_of(r, "loss_scale");
    s->dynamic = json_is_object(value);
    if (!s->dynamic) return json_is_null(value) ? ZR_OK : no_use_of(r, "loss_scaler");
    ZR_TRY(read_count(&inner, "step", 0, &s->step));
    ZR_TRY(read_count(&inner, "last_overflow", -1, &s->last_overflow));
    return read_count(&inner, "hysteresis_left", 0, &s->hysteresis_left);
}

/** Read the noise averages. If the member is null or missing, the run did not measure the noise, and *n is unchanged.
 */
static zr_status read_noise(const reader *r, zr__noise_scale *n)
{
    const json_t *value = json_object_get(r->object, "noise_scale");
    const json_t *gradient = json_object_get(value, "gradient"), *trace = json_object_get(value, "trace");
    const reader inner = {value, r->where};
    if (!value || json_is_null(value)) return ZR_OK;
    if (!json_is_number(gradient) || !json_is_number(trace)) return no_use_of(r, "noise_scale");
    n->gradient = json_number_value(gradient);
    n->trace = json_number_value(trace);
    return read_count(&inner, "steps", 1, &n->steps);
}

/** Read the numbers of ranks that sum quantised gradients. If the member is null or missing, the run had none. */
static zr_status read_sums(const reader *r, zr__checkpoint_run *run)
{
    const json_t *value = json_object_get(r->object, "quantised_sums");
    const reader inner = {value, r->where};
    int64_t ranks, near;
    if (!value || json_is_null(value)) return ZR_OK;
    ZR_TRY(read_count(&inner, "ranks", 1, &ranks));
    ZR_TRY(read_count(&inner, "near", 0, &near));
    if (ranks > INT32_MAX || near > ranks) return no_use_of(r, "quantised_sums");
    run->summing_ranks = (int)ranks;
    run->near_ranks = (int)near;
    return ZR_OK;
}

/** Read the evaluations. If the member is null or missing, the run had none. */
static zr_status read_early(const reader *r, zr__early_stop *e)
{
    const json_t *value = json_object_get(r->object, "evaluations"), *best = json_object_get(value, "best");
    const reader inner = {value, r->where};
    if (!value || json_is_null(value)) return ZR_OK;
    if (!json_is_number(best)) return no_use_of(r, "evaluations");
    e->best = json_number_value(best);
    ZR_TRY(read_count(&inner, "step", 1, &e->step));
    ZR_TRY(read_count(&inner, "best_step", 0, &e->best_step));
    return read_count(&inner, "since", 0, &e->since);
}

static zr_status read_record(const reader *r, zr__checkpoint_run *run)
{
    int64_t ranks = 0;
    const json_t *loss = json_object_get(r->object, "loss"), *config = json_object_get(r->object, "config");
    const reader data = {json_object_get(r->object, "data"), r->where};
    ZR_TRY(read_count(r, "seed", 0, &run->seed));
    ZR_TRY(read_count(r, "updates", 0, &run->updates));
    ZR_TRY(read_count(r, "samples", 0, &run->samples));
    ZR_TRY(read_count(r, "skipped", 0, &run->skipped));
    ZR_TRY(read_count(r, "skipped_in_row", 0, &run->skipped_in_row));
    ZR_TRY(read_count(r, "ranks", 0, &ranks));
    if (ranks > INT32_MAX) return no_use_of(r, "ranks");
    run->ranks = (int)ranks;
    run->loss = json_is_number(loss) ? json_number_value(loss) : NAN;
    ZR_TRY(read_scaler(r, &run->scaler));
    ZR_TRY(read_noise(r, &run->noise));
    ZR_TRY(read_early(r, &run->early));
    ZR_TRY(read_sums(r, run));
    ZR_TRY(read_short_text(r, "optimizer", run->optimizer, sizeof(run->optimizer)));
    ZR_TRY(read_file_print(&data, "train", &run->prints.train));
    ZR_TRY(read_file_print(&data, "val", &run->prints.val));
    ZR_TRY(read_file_print(r, "base", &run->prints.base));
    ZR_TRY(read_short_text(r, "tokenizer", run->tokenizer, sizeof(run->tokenizer)));
    if (!json_is_object(config)) return no_use_of(r, "config");
    const reader its = {config, r->where};
    if (ranks > 0) ZR_TRY(read_count(&its, "train_micro_batch_size_per_gpu", 1, &run->micro_batch_size));
    if (ranks > 0) ZR_TRY(read_count(&its, "gradient_accumulation_steps", 1, &run->accumulation_steps));
    const json_t *zero = json_object_get(config, "zero_optimization");
    run->quantised[0] = json_is_true(json_object_get(zero, "zero_quantized_weights"));
    run->quantised[1] = json_is_true(json_object_get(zero, "zero_quantized_gradients"));
    return zr__json_print(config, &run->config);
}

zr_status zr__checkpoint_run_read(const char *json, const char *where, zr__checkpoint_run *run)
{
    json_auto_t *root = NULL;
    *run = (zr__checkpoint_run){.config = NULL};
    ZR_TRY(zr__json_parse(json, strlen(json), where, &root));
    const reader r = {root, where};
    return read_record(&r, run);
}

void zr__checkpoint_run_clear(zr__checkpoint_run *run)
{
    zr_free(run->config);
    run->config = NULL;
}

/* ---- comparing configurations ----------------------------------------------------------------- */

typedef struct difference {
    zr__key_fn fn;
    void *arg;
    const zr_key *keys; /* all keys (zr_config_keys) */
} difference;

/** Return whether a value is null or the default of its key. */
static bool is_standard(const difference *d, const char *path, const json_t *value)
{
    if (json_is_null(value)) return true;
    for (const zr_key *key = d->keys; key->path; key++) {
        if (strcmp(key->path, path) != 0) continue;
        json_auto_t *standard = zr__json_loads(key->standard, JSON_DECODE_ANY);
        return standard && json_equal(standard, value);
    }
    return false;
}

static zr_status compare_sections(const difference *d, const char *path, const json_t *then, const json_t *now);

/** If the old value `was` and the new value `is` of a key differ, call the callback. For a section, compare its keys
 * instead. A value is NULL if its configuration lacks the key. */
static zr_status compare_key(const difference *d, const char *path, const char *name, const json_t *was,
                             const json_t *is)
{
    char key[256], *before = NULL, *after = NULL;
    snprintf(key, sizeof(key), "%s%s%s", path, path[0] ? "." : "", name);
    if (json_is_object(is ? is : was)) return compare_sections(d, key, json_is_object(was) ? was : NULL, is);
    /* A key that only the new configuration has, for example because an older version of zr wrote the checkpoint,
     * counts as different only if its value is not the default. */
    if (is && (was ? json_equal(was, is) : is_standard(d, key, is))) return ZR_OK;
    if (was) before = json_dumps(was, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    if (is) after = json_dumps(is, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    zr_status st = (was && !before) || (is && !after) ? ZR_FAIL(ZR_ERR_MEMORY, "no memory to compare configurations")
                                                      : d->fn(d->arg, key, before, after);
    free(before);
    free(after);
    return st;
}

/** Compare one section of two configurations, recursively. The JSON parser's depth limit and the table of keys bound
 * the depth of the recursion. */
static zr_status compare_sections(const difference *d, const char *path, const json_t *then, const json_t *now)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)now, name, value)
        ZR_TRY(compare_key(d, path, name, json_object_get(then, name), value));
    json_object_foreach((json_t *)then, name, value) if (!json_object_get(now, name))
        ZR_TRY(compare_key(d, path, name, value, NULL));
    return ZR_OK;
}

zr_status zr__checkpoint_config_differs(const char *then, const char *now, zr__key_fn fn, void *arg)
{
    json_auto_t *before = NULL, *after = NULL;
    ZR_AUTO_FREE zr_key *keys = NULL;
    difference d = {.fn = fn, .arg = arg};
    ZR_TRY(zr_config_keys(&keys));
    d.keys = keys;
    ZR_TRY(zr__json_parse(then, strlen(then), "the checkpoint's configuration", &before));
    ZR_TRY(zr__json_parse(now, strlen(now), "the configuration", &after));
    return compare_sections(&d, "", before, after);
}
