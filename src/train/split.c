/** How a step's samples are split into micro-batches, where the configuration leaves that open: a larger one moves and
 *  waits less for each sample, a smaller one leaves room for activations that need not be computed again. */
#include "zr/train.h"

#include <inttypes.h>
#include <stdio.h>

/** Most micro-batches of a step that are tried. */
#define SPLITS_MOST 65536

typedef struct search {
    zr_config *config; /* with the split that is tried now */
    int ranks;
    const zr_profile *profile;
    zr_plan *best;
    int64_t best_accum;
    int64_t kept; /* the micro-batches that are to be kept where they fit; 0: none */
} search;

static bool computes_again(const zr_plan *plan)
{
    for (int32_t u = 0; u < plan->n_units; u++)
        if (plan->unit[u].recompute != ZR_RECOMPUTE_NONE) return true;
    return false;
}

static void set(zr_config *config, int64_t rows, int64_t accum)
{
    config->accumulation_steps = accum;
    config->micro_batch_size = rows / accum;
}

/** Takes the plan. */
static zr_status keep_better(search *s, zr_plan *plan, int64_t accum)
{
    bool is_better = true;
    zr_status st = s->best ? zr_plan_better(plan, s->best, &is_better) : ZR_OK;
    if (st == ZR_OK && is_better) {
        zr_plan_destroy(&s->best);
        s->best = plan;
        s->best_accum = accum;
        return ZR_OK;
    }
    zr_plan_destroy(&plan);
    return st;
}

/** last: it fits, and nothing is computed again. What some collectives do not know is more than one micro-batch: that
 * is passed over, and the first must be possible. */
static zr_status try_split(search *s, int64_t rows, int64_t accum, bool *last)
{
    zr_plan *plan = NULL;
    *last = false;
    if (accum == 1 && s->config->train.noise_scale && s->ranks == s->config->parallel.tensor) return ZR_OK;
    set(s->config, rows, accum);
    zr_status st = zr_train_plan(s->config, s->ranks, -1, s->profile, &plan);
    if (accum > 1 && st == ZR_ERR_UNSUPPORTED) return ZR_OK;
    ZR_TRY(st);
    *last = zr_plan_fits(plan) && !computes_again(plan);
    return keep_better(s, plan, accum);
}

/** From the largest micro-batch on, until nothing is computed again: from there smaller ones only move more. */
static zr_status find(search *s, int64_t rows)
{
    bool last = false;
    if (s->kept > 0 && rows % s->kept == 0) ZR_TRY(try_split(s, rows, s->kept, &last));
    if (s->best && zr_plan_fits(s->best)) return ZR_OK;
    s->kept = 0;
    for (int64_t accum = 1; accum <= rows && accum <= SPLITS_MOST && !last; accum++)
        if (rows % accum == 0) ZR_TRY(try_split(s, rows, accum, &last));
    return ZR_OK;
}

static void say(const search *s, char note[ZR_TRAIN_NOTE_BYTES])
{
    const char *why = s->kept > 0               ? "as the checkpoint has it"
                      : !zr_plan_fits(s->best)  ? "nothing fits memory.limit, and this takes the least"
                      : computes_again(s->best) ? "the best of what fits memory.limit"
                                                : "the fewest that fit memory.limit with no activation computed again";
    snprintf(note, ZR_TRAIN_NOTE_BYTES,
             "gradient_accumulation_steps: auto, taken as %" PRId64 ", and train_micro_batch_size_per_gpu as %" PRId64
             ": %s",
             s->best_accum, s->config->micro_batch_size, why);
}

zr_status zr_train_split(zr_config *config, int ranks, const zr_profile *profile, int64_t kept,
                         char note[ZR_TRAIN_NOTE_BYTES])
{
    search s = {.config = config, .ranks = ranks, .profile = profile, .kept = kept};
    note[0] = '\0';
    if (!zr_config_split_open(config)) return ZR_OK;
    const int64_t rows = config->micro_batch_size * config->accumulation_steps;
    zr_status st = find(&s, rows);
    set(config, rows, st == ZR_OK ? s.best_accum : 1);
    if (st == ZR_OK) say(&s, note);
    zr_plan_destroy(&s.best);
    return st;
}
