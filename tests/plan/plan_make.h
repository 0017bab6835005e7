/* Makes a plan, or fails the test with the planner's message. */
#ifndef PLAN_MAKE_H
#define PLAN_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <zr.h>

#include "zr/device.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/plan.h"

/* A processor with bf16 products. */
static const zr_profile plan_profile = {.facts = {.name = "test",
                                                  .threads = 2,
                                                  .bf16_products = true,
                                                  .panel_bytes = 1 << 20,
                                                  .scratch_bytes = zr_device_cpu_scratch}};

/* A small model with sizes that have few common divisors. */
static const zr_gpt2_config plan_small = {.n_layer = 3,
                                          .n_head = 3,
                                          .n_embd = 57,
                                          .n_positions = 19,
                                          .vocab_size = 131,
                                          .layer_norm_epsilon = 1e-5,
                                          .initializer_range = 0.02};

static inline zr_layout plan_layout(int stage, int ranks, zr_dtype dtype, int64_t accum)
{
    zr_layout l = zr_layout_default();
    l.stage = stage;
    l.ranks = ranks;
    l.dtype = l.wire_dtype = dtype;
    l.seq = 16;
    l.accum = accum;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    return l;
}

static inline zr_plan *plan_make(const zr_model *model, const zr_layout *layout, const zr_profile *profile)
{
    zr_plan *plan = NULL;
    if (zr_plan_create(model, layout, profile, &plan) != ZR_OK) fail_msg("plan: %s", zr_error_message());
    return plan;
}

static inline zr_plan *plan_gpt2(const zr_gpt2_config *config, const zr_layout *layout, const zr_profile *profile)
{
    zr_model model = zr_gpt2(config);
    return plan_make(&model, layout, profile);
}

#endif
