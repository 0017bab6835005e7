/** Print the fastest candidates of `zr simulate --search`, and why other candidates are slower. */
#include "cli/plan/choices.h"
#include "cli/simulate/search.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "simulate/simulate.h"
#include "systems/formats/formats.h"

#include <stdio.h>
#include <math.h>
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
static void losses_of(const zr__tried *best, const zr__tried *way, double part[PARTS])
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
static const char *why_slower(const zr__tried *best, const zr__tried *way, char text[128])
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

/** Return a way with the candidate's further keys (zr__free), and with the configuration's values of all other keys. */
static zr__way further_of(const cli_searched *s, const zr__tried *t)
{
    const zr__way *w = &t->way;
    zr__way further = zr__way_of(s->config);
    further.tensor = w->tensor;
    further.pipeline = w->pipeline;
    further.schedule = w->schedule;
    further.chunks = w->chunks;
    further.mics = w->mics;
    further.hpz = w->hpz;
    further.moves = w->moves;
    if (w->policy == ZR_RECOMPUTE_UNIT) further.every = w->every;
    if (zr_recomputes(w->policy) && w->device == ZR_HOME_NONE) further.kept = w->kept;
    if (s->question.free.accum) further.accum = w->accum;
    return further;
}

/** Describe why a candidate is not preferred: it does not fit, it is slower, or it is a tie (ZR__TIE) that costs more.
 * Then name its further keys. */
static void add_why(const cli_searched *s, const zr__tried *t, zr__text *text)
{
    const zr__tried *best = s->best[0];
    const zr__way further = further_of(s, t);
    char room[128];
    const double gain = 100 * (best->sec / t->sec - 1), bytes = (double)(t->made.needs_bytes - best->made.needs_bytes);
    if (!t->fits)
        zr__text_add(text, "does not fit: needs %s", cli_needs(s, &t->made, room));
    else if (zr__is_tie(&s->found, t))
        zr__text_add(text, "a tie: %.1f %% %s, %s %s", fabs(gain), gain < 0 ? "slower" : "faster", ZR_SIZE(fabs(bytes)),
                     bytes < 0 ? "less" : "more");
    else
        zr__text_add(text, "%s", why_slower(best, t, room));
    if (t->further == 0) return;
    zr__text_add(text, ", with");
    zr__way_options(&further, s->config, s->config, s->target.ranks, false, " ", text);
}

/* ---- names -------------------------------------------------------------------------------------- */

/** Write a recompute policy and the places of checkpoints and states, such as "unit/4 Pa+cpu O:host", into `text`.
 * Return `text`. */
static const char *recompute_words(const zr__tried *t, char text[CLI_CHOICE_BYTES + 16])
{
    static const char *const states[] = {"", " O", " OG", " OGP"};
    const char *at = states[zr__train_offload_states(t->way.offload)];
    const bool away = t->way.device != ZR_HOME_NONE && *at;
    char name[CLI_CHOICE_BYTES];
    snprintf(text, CLI_CHOICE_BYTES + 16, "%s%s%s", cli_choice_name(t, true, name), away ? at : "",
             !away                          ? ""
             : t->way.device == ZR_HOME_CPU ? ":host"
                                            : ":disk");
    return text;
}

static const char *group_name(const zr__way *w, char text[48])
{
    snprintf(text, 48, "-");
    if (w->mics > 0) snprintf(text, 48, "mics %lld", (long long)w->mics);
    if (w->hpz > 1) snprintf(text, 48, "hpZ %lld", (long long)w->hpz);
    return text;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/** Return the keys grouped into sections, as in a CONFIG.json: "a.b" becomes member "b" of object "a". */
static json_t *sections_of(json_t *keys)
{
    json_t *root = json_object(), *value;
    const char *key;
    json_object_foreach(keys, key, value)
    {
        json_t *object = root;
        const char *name = key;
        for (const char *dot; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
            char section[64];
            snprintf(section, sizeof(section), "%.*s", (int)(dot - name), name);
            if (!json_object_get(object, section)) cli_json_set(object, section, json_object());
            object = json_object_get(object, section);
        }
        (void)json_object_set(object, name, value);
    }
    return root;
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static json_t *way_json(const cli_searched *s, const zr__tried *w)
{
    char words[48];
    double part[PARTS];
    ZR_AUTO(zr__text_clear) zr__text why = {0};
    const zr__tried *best = s->best[0];
    const zr__way further = further_of(s, w);
    json_t *object = json_object(), *keys = zr__way_keys(&w->way, s->config, s->config, s->target.ranks, true),
           *loses = w == best ? json_null() : json_object();
    losses_of(best, w, part);
    for (int i = 0; w != best && i < PARTS; i++) cli_json_set(loses, part_words(i, words), json_real(part[i]));
    if (w != best) add_why(s, w, &why);
    cli_json_set(object, "keys", keys);
    cli_json_set(object, "config", sections_of(keys));
    cli_simulated_json(object, &w->made, s->o->tokens);
    cli_json_set_all(object, json_pack("{s:I, s:b, s:o, s:o, s:s?}", "step_tokens",
                                       (json_int_t)zr__way_tokens(&w->way, s->config, s->target.ranks), "tie",
                                       w != best && zr__is_tie(&s->found, w), "further",
                                       zr__way_keys(&further, s->config, s->config, s->target.ranks, false), "loses",
                                       loses, "why", why.data));
    return object;
}

/** Return the question as JSON: the memory of a rank, the tokens of the preferred way's step, and the free keys. */
static json_t *question_json(const cli_searched *s)
{
    const zr__way *best = &s->best[0]->way;
    const char *keys[ZR__FREE_KEYS];
    const int n = zr__question_keys(&s->question, best, keys);
    json_t *free = json_array();
    for (int i = 0; i < n; i++) (void)json_array_append_new(free, json_string(keys[i]));
    return json_pack("{s:I, s:I, s:o}", "memory", (json_int_t)s->target.limit_bytes, "step_tokens",
                     (json_int_t)zr__way_tokens(best, s->config, s->target.ranks), "free", free);
}

zr_status cli_searched_json(const cli_searched *s)
{
    json_auto_t *list = json_array();
    for (int64_t i = 0; i < s->n_best && i <= NEXT; i++) (void)json_array_append_new(list, way_json(s, s->best[i]));
    for (int64_t i = 0; i < s->n_missed && i < MISSED; i++)
        (void)json_array_append_new(list, way_json(s, s->missed[i]));
    cli_json_set(json_array_get(list, 0), "question", question_json(s));
    if (s->target.other.system)
        cli_json_set(json_array_get(list, 0), "system", json_string(s->target.other.system->name));
    return cli_json_put(stdout, list);
}

/* ---- text --------------------------------------------------------------------------------------- */

static void print_way_keys(const cli_searched *s, const zr__tried *w)
{
    ZR_AUTO(zr__text_clear) zr__text options = {0};
    zr__way_options(&w->way, s->config, s->config, s->target.ranks, true, "\n  ", &options);
    puts(options.data ? options.data + 1 : "");
    json_auto_t *keys = zr__way_keys(&w->way, s->config, s->config, s->target.ranks, true),
                *sections = sections_of(keys);
    char *text = json_dumps(sections, JSON_INDENT(2));
    if (text) printf("in a CONFIG.json\n%s\n", text);
    free(text);
}

static void print_way(const cli_searched *s, const zr__tried *t, int64_t place)
{
    const zr__way *w = &t->way;
    char number[24] = "-", speed[24] = "-", batch[48], again[CLI_CHOICE_BYTES + 16], group[48];
    ZR_AUTO(zr__text_clear) zr__text why = {0};
    if (place > 0) snprintf(number, sizeof(number), "%lld", (long long)place);
    snprintf(batch, sizeof(batch), "%lld x %lld", (long long)w->rows, (long long)w->accum);
    if (t != s->best[0]) add_why(s, t, &why);
    if (t->fits) snprintf(speed, sizeof(speed), "%.4g", t->made.simulation.samples_sec);
    const int64_t bytes = s->target.other.system ? t->made.needs_bytes : t->made.report.memory.total_bytes;
    printf("%3s %9s %10s %5lld %6lld %9s  %-17s %-8s %s\n", number, speed, ZR_SIZE((double)bytes), (long long)w->stage,
           (long long)w->tensor, batch, recompute_words(t, again), group_name(w, group), why.data ? why.data : "");
}

/** Add the keys of the fastest candidate that `zr plan` does not vary. They are why the answer of `zr plan` may differ.
 * `zr plan` varies the place of checkpoints and, if nothing fits otherwise, buckets and overlap. */
static void add_beyond_plan(const cli_searched *s, zr__text *text)
{
    const zr__way own = zr__way_of(s->config);
    const zr__tried *fastest = s->best[0];
    for (int64_t i = 1; i < s->n_best; i++)
        if (s->best[i]->sec < fastest->sec) fastest = s->best[i];
    zr__way beyond = further_of(s, fastest);
    ZR_AUTO(zr__text_clear) zr__text options = {0};
    beyond.kept = own.kept;
    if (s->found.tier == ZR__TIER_LIGHTER) beyond.moves = own.moves;
    zr__way_options(&beyond, s->config, s->config, s->target.ranks, false, " ", &options);
    if (!options.data) return;
    zr__text_add(text, "\nthe fastest way has keys that `zr plan` does not vary, so that it may name another way:%s",
                 options.data);
}

/** Print what proves the memory and the times of another system, and how to write the preferred way as its
 * configuration. */
static void print_other(const zr__system *system)
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    int n = 0;
    zr__text_add(&text, "%s (%s); times compared with %s", system->title, system->version, system->timed);
    if (system->unproved) zr__text_add(&text, "; not proved: %s", system->unproved);
    zr__text_add(&text, ".");
    for (int i = 0; zr__format_at(i); i++)
        if (zr__format_is_for(zr__format_at(i), system->name))
            zr__text_add(&text, "%s%s", n++ ? " | " : " `zr plan` with these options and --emit ",
                         zr__format_at(i)->name);
    if (n) zr__text_add(&text, " writes the way as a configuration.");
    cli_print_wrapped(text.data ? text.data : "");
}

void cli_searched_print(const cli_searched *s)
{
    const zr__tried *best = s->best[0];
    const zr_simulation *b = &best->made.simulation;
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    zr__text_add(&text,
                 "preferred of %lld ways on %d devices of %s, from %lld plans: %s a step, %.4g samples/s, %.4g "
                 "tokens/s, %.1f TFLOP/s\nasked: ",
                 (long long)s->ways, s->target.ranks, s->target.cluster.name, (long long)s->found.n,
                 CLI_SECONDS(b->price.step_sec), b->samples_sec, b->tokens_sec, b->flops_sec / 1e12);
    zr__add_question(&s->question, &best->way, &text);
    if (!s->target.other.system) add_beyond_plan(s, &text);
    if (best->way.device != ZR_HOME_NONE || best->made.home != ZR_SPACE_DEVICE) {
        zr__text_add(&text, "\nthe offload takes ");
        zr__add_away(&s->where, &best->made, &text);
        const char *assumed = s->target.assumed[best->made.disk_bytes > 0];
        if (assumed[0]) zr__text_add(&text, "\nassumed: %s", assumed);
    }
    cli_print_wrapped(text.data ? text.data : "");
    if (s->o->tokens > 0)
        printf("%.3g days for %.3g tokens\n", cli_simulated_days(&best->made, s->o->tokens), s->o->tokens);
    if (s->target.other.system)
        print_other(s->target.other.system);
    else if (cli_target_computed(&s->target))
        puts(CLI_GPU_REMARK);
    print_way_keys(s, best);
    printf("\n    samples/s %10s stage tensor     batch  recompute         group    loses by, of the first's time\n",
           s->target.other.system ? "nvidia-smi" : "memory");
    for (int64_t i = 0; i < s->n_best && i <= NEXT; i++) print_way(s, s->best[i], i + 1);
    for (int64_t i = 0; i < s->n_missed && i < MISSED; i++) print_way(s, s->missed[i], 0);
}
