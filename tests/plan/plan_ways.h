/* Plans of one small model in many layouts, for tests of the plan checker. */
#ifndef PLAN_WAYS_H
#define PLAN_WAYS_H

#include <string.h>

#include "plan_make.h"
#include "zr/device.h"
#include "zr/models.h"
#include "zr/plan.h"

static const zr_gpt2_config ways_config = {.n_layer = 2,
                                           .n_head = 3,
                                           .n_embd = 57,
                                           .n_positions = 16,
                                           .vocab_size = 131,
                                           .embd_pdrop = 0.1,
                                           .resid_pdrop = 0.1,
                                           .attn_pdrop = 0.1,
                                           .layer_norm_epsilon = 1e-5,
                                           .initializer_range = 0.02};

static inline zr_layout layout_of(int stage, int ranks, zr_dtype dtype, int64_t accum)
{
    zr_layout l = plan_layout(stage, ranks, dtype, accum);
    l.batch = 2;
    return l;
}

/* Make a plan for processors or, with optimizer states in host memory, for a device with its own memory, beside which
 * the host's processors update them. */
static inline zr_plan *plan_of(const zr_layout *layout)
{
    zr_profile profile = {.facts = {.name = "test",
                                    .threads = 2,
                                    .own_memory = layout->home.optim == ZR_SPACE_HOST,
                                    .panel_bytes = 1 << 16,
                                    .scratch_bytes = zr_device_cpu_scratch}};
    return plan_gpt2(&ways_config, layout, &profile);
}

/* Keep moments in records. */
static inline void use_small_moments(zr_layout *l)
{
    l->optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    l->optimizer.slot_records[0] = ZR_E4M3X256;
    l->optimizer.slot_records[1] = ZR_E5M2X256;
}

/* Train hidden matrices by Muon, with directions of a type. */
static inline void use_muon(zr_layout *l, zr_dtype dtype)
{
    zr_muon_args args = zr_muon_defaults();
    args.ortho.dtype = dtype;
    l->rest = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    l->optimizer = zr_muon(&args);
}

/* Set the options of a layout besides its stage, many at once. Return false if the combination with this stage or
 * number of ranks is invalid. */
enum { WAYS = 14 };
static inline bool choose(zr_layout *l, int way)
{
    bool lean = way == 1 || way == 2 || way == 3 || way == 5 || way == 8;
    l->states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    l->save = (zr_save)(way % 3); /* ZR_SAVE_NONE, from a copy, in place */
    l->micro_squares = way % 4 != 0 && l->ranks * l->accum > 1;
    l->documents = way % 6 == 4;
    l->home.optim = way == 6 ? ZR_SPACE_DISK : way % 5 == 1 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    if (way % 3 != 0) l->optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    if (way == 3 || way == 6 || way == 12) use_muon(l, way == 6 ? ZR_F32 : ZR_BF16);
    switch (way) {
    case 2: /* recompute in two passes */
        l->two_pass = true;
        l->recompute = ZR_RECOMPUTE_UNIT;
        l->recompute_every = 2;
        return true;
    case 3:
        l->recompute = ZR_RECOMPUTE_SELECTIVE;
        return true;
    case 4:
        l->recompute = ZR_RECOMPUTE_UNIT;
        return true;
    case 5: /* sums are wider than parameters, and gathered in larger buckets than they are reduced in */
        l->reduce = ZR_REDUCE_ALL_REDUCE;
        l->wire_dtype = ZR_F32;
        l->reduce_bucket_elems = 5000;
        return l->stage <= 1;
    case 6:
        l->rank_free_sums = true;
        l->accum = 3;
        return (l->ranks & (l->ranks - 1)) == 0;
    case 7:
        l->recompute = ZR_RECOMPUTE_UNIT;
        l->prefetch_elems = 60000;
        l->live_elems = 90000;
        l->reuse_elems = 30000;
        l->persist_elems = 1000;
        return true;
    case 8:
        l->two_pass = true;
        return true;
    case 9: /* buckets are whole units whatever is requested */
        l->reduce = ZR_REDUCE_NCCL;
        l->reduce_bucket_elems = 5000;
        return true;
    case 10: /* gradients reduced once a step */
    case 11:
        l->reduce_once = true;
        l->accum = way == 10 ? 2 : 3;
        l->reduce_bucket_elems = 5000;
        return l->ranks > 1;
    case 12: /* parameters and gradients pass as records, at stages 1 to 3 with masters on disk */
        l->weight_records = ZR_I8X128;
        l->grad_records = ZR_I4X128;
        if (l->stage > 0) l->home.optim = ZR_SPACE_DISK;
        return l->accum == 1;
    case 13:
        l->weight_records = ZR_I4X256;
        l->grad_records = ZR_I8X128;
        use_small_moments(l);
        l->error_steps = 1024;
        l->reduce_once = true;
        l->accum = 3;
        l->weight_differences = l->stage < 3;
        return true;
    default:
        return true;
    }
}

/* Return a layout with several buckets a unit. The layouts cover all stages, paper and lean states, one micro-batch and
 * more in all orders, and groups. */
enum { MIXED = 19 };
static inline zr_layout mixed_layout(int i)
{
    static const struct {
        int stage, ranks;
        zr_states states;
        int64_t accum;
    } mixed[MIXED] = {
        {0, 4, ZR_STATES_PAPER, 1}, {1, 2, ZR_STATES_PAPER, 4}, {1, 3, ZR_STATES_LEAN, 1},  {2, 4, ZR_STATES_PAPER, 1},
        {2, 4, ZR_STATES_LEAN, 4},  {3, 4, ZR_STATES_PAPER, 4}, {3, 3, ZR_STATES_LEAN, 1},  {3, 4, ZR_STATES_LEAN, 4},
        {3, 8, ZR_STATES_PAPER, 4}, {3, 1, ZR_STATES_LEAN, 1},  {1, 4, ZR_STATES_LEAN, 2},  {0, 3, ZR_STATES_PAPER, 3},
        {3, 4, ZR_STATES_LEAN, 2},  {3, 4, ZR_STATES_LEAN, 2},  {1, 2, ZR_STATES_PAPER, 3}, {3, 2, ZR_STATES_LEAN, 3},
        {3, 8, ZR_STATES_PAPER, 2}, {2, 4, ZR_STATES_PAPER, 2}, {0, 2, ZR_STATES_PAPER, 1},
    };
    zr_layout l = layout_of(mixed[i].stage, mixed[i].ranks, ZR_BF16, mixed[i].accum);
    l.states = mixed[i].states;
    l.save = i == 9 ? ZR_SAVE_IN_PLACE : (zr_save)((i + 1) % 3);
    l.reduce_bucket_elems = 9000;
    l.gather_bucket_elems = 7000;
    l.decode_len = 16;
    l.prefetch_elems = i % 2;
    l.micro_squares = i % 2 == 0;
    l.home.optim = i % 4 == 2 || i == 5 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    if (i % 4 == 1 || i == 2 || i == 6 || i == 8) l.optimizer = zr_lamb(ZR_LAMB_NVIDIA, NULL);
    if (i == 3 || i == 11 || i == 13 || i == 16) use_muon(&l, i % 2 ? ZR_BF16 : ZR_F32);
    switch (i) {
    case 2: /* checkpoints are offloaded */
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.checkpoint_home = ZR_SPACE_HOST;
        break;
    case 3: /* hierarchical collectives */
        l.host_ranks = 2;
        l.hierarchical = true;
        break;
    case 4:
        l.rank_free_sums = true;
        break;
    case 5: /* secondary partition */
        l.host_ranks = l.hpz_ranks = 2;
        break;
    case 7: /* small units stay whole */
        l.persist_elems = 1000;
        l.recompute = ZR_RECOMPUTE_SELECTIVE;
        l.home.param = l.home.grad = l.checkpoint_home = ZR_SPACE_DISK;
        l.home.bucket_elems = 4096;
        break;
    case 8:
        l.shard_ranks = 2;
        l.home.param = l.home.grad = ZR_SPACE_HOST;
        break;
    case 9: /* all states are on disk, and gradients wait there for the norm */
        l.norm_first = true;
        l.home = (zr_homes){ZR_SPACE_DISK, ZR_SPACE_DISK, ZR_SPACE_DISK, 1, 1, 4096, 2, 0, 0};
        break;
    case 10: /* gradients reduced once a step: in two levels; in one; with a secondary partition */
        l.reduce_once = l.hierarchical = true;
        l.host_ranks = 2;
        break;
    case 11:
        l.reduce_once = true;
        break;
    case 12:
        l.reduce_once = true;
        l.host_ranks = l.hpz_ranks = 2;
        break;
    case 13: /* all micro-batches pass through a segment before the next one: in two levels; at stage 1 */
        l.host_ranks = 2;
        l.hierarchical = true;
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.accum_order = ZR_ACCUM_LAYER;
        break;
    case 14:
        l.accum_order = ZR_ACCUM_LAYER;
        break;
    case 15: /* two forward passes ahead */
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.checkpoint_home = ZR_SPACE_HOST;
        l.accum_order = ZR_ACCUM_AHEAD;
        l.accum_ahead = 2;
        break;
    case 16: /* exchanges of records: in two levels and with a second partition; layer by layer; at stage 0 */
    case 17:
    case 18:
        l.weight_records = ZR_I8X128;
        l.grad_records = ZR_I4X256;
        l.error_steps = i < 18 ? 1024 : 0;
        l.reduce_once = i < 18;
        if (i == 16) l.host_ranks = l.hpz_ranks = 2;
        l.hierarchical = i == 16;
        if (i == 17) l.accum_order = ZR_ACCUM_LAYER;
        if (i == 17) use_small_moments(&l);
        if (i == 18) l.home.optim = ZR_SPACE_DEVICE;
        l.weight_differences = l.stage < 3;
        break;
    default:
        break;
    }
    return l;
}

static inline void expect_broken(const zr_plan *plan, const char *text)
{
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

/* Swap step i with the next one, and the waits for them. */
static inline void swap_with_next(zr_schedule *s, int32_t i)
{
    const zr_step had = s->step[i];
    s->step[i] = s->step[i + 1];
    s->step[i + 1] = had;
    for (int32_t w = 0; w < s->n_waits; w++)
        if (s->wait[w].step == i || s->wait[w].step == i + 1) s->wait[w].step = 2 * i + 1 - s->wait[w].step;
}

/* ---- roles of a pipeline ----------------------------------------------------------------------- */

static inline zr_gpt2_config ways_deeper(int64_t layers)
{
    zr_gpt2_config c = ways_config;
    c.n_layer = layers;
    return c;
}

/* Plan all roles of a model, until one fails. */
static inline zr_status ways_plan_model(const zr_model *model, zr_layout l, zr_plans *plans)
{
    const zr_profile profile = {
        .facts = {.name = "test", .threads = 2, .panel_bytes = 1 << 16, .scratch_bytes = zr_device_cpu_scratch}};
    zr_status st = ZR_OK;
    *plans = (zr_plans){0};
    for (l.role = 0; l.role < l.pipeline && st == ZR_OK; l.role++, plans->n++)
        st = zr_plan_create(model, &l, &profile, &plans->role[l.role]);
    return st;
}

static inline zr_status ways_plan_roles(const zr_gpt2_config *config, zr_layout l, zr_plans *plans)
{
    const zr_model m = zr_gpt2(config);
    return ways_plan_model(&m, l, plans);
}

static inline void ways_drop(zr_plans *plans)
{
    for (int32_t r = 0; r < ZR_ROLES; r++) zr_plan_destroy(&plans->role[r]);
}

#endif
