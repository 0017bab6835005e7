/** Print the fastest candidates of `zr simulate --search`, and why other candidates are slower. */
#include "cli/simulate/search.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "simulate/simulate.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEXT 10  /* maximum number of candidates shown after the fastest */
#define MISSED 3 /* maximum number of candidates shown that do not fit */
#define LEAST_PART 0.005

/* ---- why a way is slower ------------------------------------------------------------------------ */

enum { RECOMPUTE, PRODUCTS, MEMORY, LAUNCHES, WAITS, PARTS = WAITS + ZR_CAUSES };

/** Divide the time of a step into parts. Divide the time of matrix products into computation and recomputation in
 * proportion to their FLOPs. */
static void step_parts(const cli_trial *made, double sec[PARTS])
{
    const zr_simulation *s = &made->simulation;
    const double needed = made->report.flops_model / made->report.flops_hardware;
    sec[PRODUCTS] = s->product_sec * needed;
    sec[RECOMPUTE] = s->product_sec - sec[PRODUCTS];
    sec[MEMORY] = s->memory_sec;
    sec[LAUNCHES] = s->launch_sec;
    for (int i = 0; i < ZR_CAUSES; i++) sec[WAITS + i] = s->exposed_sec[i];
}

static const char *part_words(int part, char text[48])
{
    static const char *const words[] = {[RECOMPUTE] = "computing again",
                                        [PRODUCTS] = "slower products",
                                        [MEMORY] = "memory traffic",
                                        [LAUNCHES] = "launches"};
    if (part < WAITS)
        snprintf(text, 48, "%s", words[part]);
    else
        snprintf(text, 48, "waits for %s", zr__cause_name((zr_cause)(part - WAITS)));
    return text;
}

/** Compare a candidate with the fastest candidate, for equal numbers of samples. Set part[i] to the candidate's
 * additional time in part i, as a share of the step time of the fastest candidate. */
static void losses_of(const cli_way *best, const cli_way *way, double part[PARTS])
{
    double its[PARTS];
    const zr_simulation *b = &best->made.simulation, *w = &way->made.simulation;
    const double step = b->price.step_sec;
    /* samples per step of the fastest candidate, divided by samples per step of this candidate */
    const double scale = b->samples_sec * step / (w->samples_sec * w->price.step_sec);
    step_parts(&best->made, part);
    step_parts(&way->made, its);
    for (int i = 0; i < PARTS; i++) part[i] = (its[i] * scale - part[i]) / step;
}

/** Write the two parts in which a candidate loses the most time into `text`. Return `text`. */
static const char *why_slower(const cli_way *best, const cli_way *way, char text[128])
{
    double part[PARTS];
    char words[48];
    size_t length = 0;
    losses_of(best, way, part);
    snprintf(text, 128, "as fast");
    for (int turn = 0; turn < 2 && length < 128; turn++) {
        int most = 0;
        for (int i = 1; i < PARTS; i++)
            if (part[i] > part[most]) most = i;
        if (part[most] < LEAST_PART) break;
        const int n = snprintf(text + length, 128 - length, "%s%s +%.0f %%", turn ? ", " : "", part_words(most, words),
                               100 * part[most]);
        length += n > 0 ? (size_t)n : 0;
        part[most] = 0;
    }
    return text;
}

/* ---- names -------------------------------------------------------------------------------------- */

static const char *policy_name(const cli_way *w)
{
    return zr__recompute_name(w->policy);
}

/** Write a recompute policy and a place of checkpoints, such as "unit/4 Pa+cpu", into `text`. Return `text`. */
static const char *recompute_words(const cli_way *w, char text[48])
{
    char every[24] = "";
    if (w->every > 1) snprintf(every, sizeof(every), "/%lld", (long long)w->every);
    snprintf(text, 48, "%s%s%s%s", policy_name(w), every, w->pieces ? " Pa" : "",
             w->host ? (w->pieces ? "+cpu" : " cpu") : "");
    return text;
}

static const char *group_name(const cli_way *w, char text[48])
{
    snprintf(text, 48, "-");
    if (w->mics > 0) snprintf(text, 48, "mics %lld", (long long)w->mics);
    if (w->hpz > 1) snprintf(text, 48, "hpZ %lld", (long long)w->hpz);
    return text;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/** Return an object of the keys that turn the configuration into a candidate. The name of a member is the path of its
 * key, such as "zero_optimization.stage". A key that keeps its configured value may be left out. */
static json_t *keys_of(const cli_searched *s, const cli_way *w)
{
    const zr_config *c = s->config;
    json_t *keys = json_object();
    cli_json_set(keys, "zero_optimization.stage", json_integer(w->stage));
    if (w->tensor > 1 || c->parallel.tensor > 1) cli_json_set(keys, "parallel.tensor", json_integer(w->tensor));
    cli_json_set(keys, "train_micro_batch_size_per_gpu", json_integer(w->batch));
    cli_json_set(keys, "gradient_accumulation_steps", json_integer(w->accum));
    cli_json_set(keys, "activation_checkpointing.policy", json_string(policy_name(w)));
    if (w->every > 1 || c->recompute.every > 1)
        cli_json_set(keys, "activation_checkpointing.every", json_integer(w->every));
    if (w->pieces || c->recompute.partition)
        cli_json_set(keys, "activation_checkpointing.partition_activations", json_boolean(w->pieces));
    if (w->host || c->recompute.cpu)
        cli_json_set(keys, "activation_checkpointing.cpu_checkpointing", json_boolean(w->host));
    if (c->recompute.offload == ZR_OFFLOAD_HOST)
        cli_json_set(keys, "activation_checkpointing.offload", json_string("none"));
    if (w->mics != c->zero.mics_shard_ranks)
        cli_json_set(keys, "zero_optimization.mics_shard_size", json_integer(w->mics));
    if (w->hpz != c->zero.hpz_partition_ranks)
        cli_json_set(keys, "zero_optimization.zero_hpz_partition_size", json_integer(w->hpz));
    if (w->in.bucket_elems > 0) {
        cli_json_set(keys, "zero_optimization.reduce_bucket_size", json_integer(w->in.bucket_elems));
        cli_json_set(keys, "zero_optimization.allgather_bucket_size", json_integer(w->in.bucket_elems));
    }
    if (w->in.prefetch_elems > 0)
        cli_json_set(keys, "zero_optimization.stage3_prefetch_bucket_size", json_integer(w->in.prefetch_elems));
    if (w->in.overlap != c->zero.overlap_comm)
        cli_json_set(keys, "zero_optimization.overlap_comm", json_boolean(w->in.overlap == ZR_SWITCH_ON));
    if (w->in.levels != c->collectives.hierarchical)
        cli_json_set(keys, "collectives.hierarchical",
                     w->in.levels == ZR_SWITCH_AUTO ? json_string("auto") : json_boolean(w->in.levels == ZR_SWITCH_ON));
    if (w->in.once != c->reduce_once)
        cli_json_set(keys, "gradient_reduction", json_string(w->in.once ? "step" : "micro"));
    return keys;
}

/** Return the keys grouped into sections, as in a CONFIG.json: "a.b" becomes member "b" of object "a". */
static json_t *sections_of(json_t *keys)
{
    json_t *root = json_object(), *value;
    const char *key;
    json_object_foreach(keys, key, value)
    {
        char section[64];
        const char *dot = strchr(key, '.');
        json_t *object = root;
        if (dot) {
            snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
            object = json_object_get(root, section);
            if (!object) {
                object = json_object();
                cli_json_set(root, section, object);
            }
        }
        (void)json_object_set(object, dot ? dot + 1 : key, value);
    }
    return root;
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static json_t *way_json(const cli_searched *s, const cli_way *w)
{
    char words[48], text[128];
    double part[PARTS];
    const cli_way *best = s->best[0];
    json_t *object = json_object(), *keys = keys_of(s, w), *loses = w == best ? json_null() : json_object();
    losses_of(best, w, part);
    for (int i = 0; w != best && i < PARTS; i++) cli_json_set(loses, part_words(i, words), json_real(part[i]));
    cli_json_set(object, "keys", keys);
    cli_json_set(object, "config", sections_of(keys));
    cli_simulated_json(object, &w->made, s->o->tokens);
    cli_json_set(object, "host_bytes", json_integer(w->made.host_bytes));
    cli_json_set(object, "loses", loses);
    cli_json_set(object, "why",
                 w == best  ? json_null()
                 : !w->fits ? json_string("does not fit")
                            : json_string(why_slower(best, w, text)));
    return object;
}

zr_status cli_searched_json(const cli_searched *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < s->n_best && i <= NEXT; i++) (void)json_array_append_new(list, way_json(s, s->best[i]));
    for (int64_t i = 0; i < s->n_missed && i < MISSED; i++)
        (void)json_array_append_new(list, way_json(s, s->missed[i]));
    return cli_json_put(stdout, list);
}

/* ---- text --------------------------------------------------------------------------------------- */

static void print_way_keys(const cli_searched *s, const cli_way *w)
{
    json_t *keys = keys_of(s, w), *sections = sections_of(keys), *value;
    const char *key;
    json_object_foreach(keys, key, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        const bool quoted = text && text[0] == '"';
        if (text) printf("  --%s=%.*s\n", key, (int)strlen(text) - 2 * quoted, text + quoted);
        free(text);
    }
    char *text = json_dumps(sections, JSON_INDENT(2));
    if (text) printf("in a CONFIG.json\n%s\n", text);
    free(text);
    json_decref(sections);
    json_decref(keys);
}

static void print_way(const cli_searched *s, const cli_way *w, int64_t place)
{
    const cli_way *best = s->best[0];
    char number[24] = "-", speed[24] = "-", batch[32], again[48], group[48], needs[128], text[192] = "";
    if (place > 0) snprintf(number, sizeof(number), "%lld", (long long)place);
    snprintf(batch, sizeof(batch), "%lld x %lld", (long long)w->batch, (long long)w->accum);
    if (!w->fits)
        snprintf(text, sizeof(text), "does not fit: needs %s", cli_needs(s, &w->made, needs));
    else if (w != best)
        why_slower(best, w, text);
    if (w->fits) snprintf(speed, sizeof(speed), "%.4g", w->made.simulation.samples_sec);
    printf("%3s %9s %9s %5lld %6lld %9s  %-17s %-8s %s\n", number, speed,
           ZR_SIZE((double)w->made.report.memory.total_bytes), (long long)w->stage, (long long)w->tensor, batch,
           recompute_words(w, again), group_name(w, group), text);
}

void cli_searched_print(const cli_searched *s)
{
    const cli_way *best = s->best[0];
    const zr_simulation *b = &best->made.simulation;
    printf("the fastest of %lld ways on %d devices of %s, from %lld plans: %s a step, %.4g samples/s, %.1f TFLOP/s\n",
           (long long)s->ways, s->target.ranks, s->target.cluster.name, (long long)s->tried,
           CLI_SECONDS(b->price.step_sec), b->samples_sec, b->flops_sec / 1e12);
    if (s->o->tokens > 0)
        printf("%.3g days for %.3g tokens\n", cli_simulated_days(&best->made, s->o->tokens), s->o->tokens);
    if (cli_target_computed(&s->target)) puts(CLI_GPU_REMARK);
    print_way_keys(s, best);
    const bool several = best->accum > 1;
    if (best->more[several].batch > 0)
        printf("the smallest micro-batch tried that does not fit, %lld samples, needs %s\n",
               (long long)best->more[several].batch, cli_needs(s, &best->more[several].made, (char[128]){0}));
    printf("\n    samples/s    memory stage tensor     batch  recompute         group    loses by, of the fastest's "
           "time\n");
    for (int64_t i = 0; i < s->n_best && i <= NEXT; i++) print_way(s, s->best[i], i + 1);
    for (int64_t i = 0; i < s->n_missed && i < MISSED; i++) print_way(s, s->missed[i], 0);
}
