/* Ways to keep, offload, recompute and save that must not change any bit, at any stage. */
#ifndef LAYOUT_VARIANTS_H
#define LAYOUT_VARIANTS_H

#include "trainer.h"
#include "zr/plan.h"
#include "zr/tensor.h"

/* Buckets and thresholds for units of some hundred to some thousand elements. */
#define SMALL .reduce_bucket_elems = 700, .gather_bucket_elems = 350
#define WIDE .reduce_bucket_elems = 1 << 20, .gather_bucket_elems = 1 << 20
#define AHEAD .prefetch_elems = 1
#define FAR_AHEAD .prefetch_elems = 14000, .live_elems = 21000
#define LEAN .states = ZR_STATES_LEAN
#define UNIT(every) .recompute = ZR_RECOMPUTE_UNIT, .recompute_every = every
#define SELECTIVE .recompute = ZR_RECOMPUTE_SELECTIVE, .recompute_every = 1
#define KEEP .recompute_every = 1

typedef struct layout_variant {
    const char *name;
    zr_layout set; /* the layout's fields, except stage, ranks, types and the sizes of a step */
} layout_variant;

static const layout_variant layout_variants[] = {
    {"paper", {WIDE, AHEAD, KEEP}},
    {"lean", {SMALL, AHEAD, LEAN, KEEP}},
    {"lean, two passes", {WIDE, AHEAD, LEAN, .two_pass = true, KEEP}},
    {"paper, unit", {SMALL, UNIT(1)}},
    {"lean, cheap outputs kept", {SMALL, AHEAD, LEAN, .recompute = ZR_RECOMPUTE_KEEP, KEEP}},
    {"lean, unit", {SMALL, AHEAD, LEAN, UNIT(1)}},
    {"lean, every 2 units", {WIDE, LEAN, UNIT(2)}},
    {"lean, every 4 units, far ahead", {SMALL, FAR_AHEAD, LEAN, UNIT(4)}},
    {"lean, two passes, every 4 units, far ahead", {SMALL, FAR_AHEAD, LEAN, .two_pass = true, UNIT(4)}},
    {"paper, selective, reuse", {WIDE, AHEAD, .reuse_elems = 8000, SELECTIVE}},
    {"lean, auto, small units whole",
     {SMALL, AHEAD, .persist_elems = 300, LEAN, .recompute = ZR_RECOMPUTE_AUTO, .limit_bytes = 1, KEEP}},
    {"tight thresholds, every 9 units",
     {SMALL, .prefetch_elems = 300, .live_elems = 300, .reuse_elems = 300, .persist_elems = 50, UNIT(9)}},
    {"all units whole", {WIDE, .persist_elems = 1 << 30, KEEP}},
    {"lean, two passes, all units whole, unit", {SMALL, .persist_elems = 1 << 30, LEAN, .two_pass = true, UNIT(1)}},
    {"lean, selective", {WIDE, LEAN, SELECTIVE}},
    {"all-reduce", {SMALL, .reduce = ZR_REDUCE_ALL_REDUCE, KEEP}},
    {"lean, all-reduce, unit", {WIDE, LEAN, .reduce = ZR_REDUCE_ALL_REDUCE, UNIT(1)}},
};
#define LAYOUT_VARIANTS ((int)(sizeof layout_variants / sizeof *layout_variants))

/* Return a narrow trainer, 21 channels wide, so that runs are short, with enough units for groups and for gathers
 * ahead. */
static inline trainer layout_trainer(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    trainer run = trainer_odd();
    run.config.n_layer = 4;
    run.config.n_embd = 21;
    run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0.1;
    run.steps = 3;
    run.clip = clip;
    run.layout.ranks = ranks;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.accum = accum;
    run.layout.norm_first = clip > 0;
    if (dtype == ZR_F16) run.scaler.scale = 4096; /* a fixed loss scale */
    return run;
}

/* Apply a variant to the run; return false where the planner does not support the combination. */
static inline bool layout_vary(trainer *run, const layout_variant *v)
{
    const zr_layout had = run->layout;
    bool one = had.accum == 1 && !had.rank_free_sums;
    if (v->set.two_pass && (!one || had.error_steps > 0)) return false;
    if (v->set.reduce == ZR_REDUCE_ALL_REDUCE && had.stage > (one ? 1 : 0)) return false;
    run->layout = v->set;
    run->layout.size = had.size;
    run->layout.ranks = had.ranks;
    run->layout.tensor = had.tensor;
    run->layout.pipeline = had.pipeline;
    run->layout.chunks = had.chunks;
    run->layout.pipeline_schedule = had.pipeline_schedule;
    run->layout.stage = had.stage;
    run->layout.dtype = had.dtype;
    run->layout.wire_dtype = had.wire_dtype;
    run->layout.batch = had.batch;
    run->layout.seq = had.seq;
    run->layout.accum = had.accum;
    run->layout.accum_order = had.accum_order;
    run->layout.accum_ahead = had.accum_ahead;
    run->layout.norm_first = had.norm_first;
    run->layout.rank_free_sums = had.rank_free_sums;
    run->layout.reduce_once = had.reduce_once;
    run->layout.home = had.home;
    run->layout.tile_elems = had.tile_elems;
    run->layout.vectors_apart = had.vectors_apart;
    run->layout.weight_records = had.weight_records;
    run->layout.weight_differences = had.weight_differences;
    run->layout.frozen_records = had.frozen_records;
    run->layout.grad_records = had.grad_records;
    run->layout.error_steps = had.error_steps;
    run->layout.error_beta = had.error_beta;
    run->layout.stochastic = had.stochastic;
    /* Without lanes, overlap only changes places and waits; the result is compared with a run that has lanes. */
    run->layout.overlap = run->lanes || (v - layout_variants) % 2;
    run->layout.train = run->layout.eval = true;
    run->layout.save = (zr_save)((v - layout_variants) % 3); /* ZR_SAVE_NONE, from a copy, in place */
    run->layout.optimizer = had.optimizer;
    run->layout.rest = had.rest;
    run->layout.hidden = had.hidden;
    return true;
}

static inline bool layout_same(const trainer *want, const trainer *got)
{
    bool same = want->weights == got->weights;
    for (int i = 0; i < want->steps; i++)
        same = same && want->loss[i] == got->loss[i] && want->norm[i] == got->norm[i] && !got->skipped[i];
    return same;
}

static inline void layout_assert_same(const trainer *want, const trainer *got, const char *what)
{
    int last = want->steps - 1;
    if (layout_same(want, got)) return;
    fail_msg("%s, %s: stage %d, %d ranks, %s, %lld micro-batches, clip %g: loss %.9g ... %.9g, wanted %.9g ... %.9g",
             trainer_model(got).name, what, got->layout.stage, got->layout.ranks, zr_dtype_name(got->layout.dtype),
             (long long)got->layout.accum, got->clip, got->loss[0], got->loss[last], want->loss[0], want->loss[last]);
}

/* Check that every `shares`-th combination of variant and stage, starting at `share`, gives the bits of `want`. */
static inline void layout_check(const trainer *want, int share, int shares)
{
    for (int stage = 0; stage <= (want->layout.weight_differences ? 2 : 3); stage++)
        for (int v = 0; v < LAYOUT_VARIANTS; v++) {
            trainer got = *want;
            got.layout.stage = stage;
            if ((v + stage + share) % shares != 0 || !layout_vary(&got, &layout_variants[v])) continue;
            trainer_run(&got);
            layout_assert_same(want, &got, layout_variants[v].name);
        }
}

#endif
