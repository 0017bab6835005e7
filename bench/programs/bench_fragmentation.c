/*
 * Fragmentation (M_D): the size of the arena that one training step needs, without the model states. The planner knows
 * all lifetimes. A heap that serves the same requests in the same order does not. For each plan, this program prints
 * the lower bound (the most bytes alive at once), the size of the planner's map relative to this bound, and the sizes
 * of the smallest arenas in which a first-fit heap and a best-fit heap can serve the step, relative to the map.
 *
 *   build/bench/bench_fragmentation
 */
#include <zr.h>

#include "../../tests/plan/policy/plan_bound.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    int64_t offset, bytes;
    int32_t buffer; /* -1: free */
} block;

/* A heap: its blocks in the order of their addresses. Neighbouring free blocks are merged. */
typedef struct heap {
    block *block;
    int32_t n;
    int64_t end; /* highest end of a block allocated so far */
    bool best_fit;
} heap;

static bool heap_take(heap *h, int32_t buffer, int64_t bytes)
{
    int32_t found = -1;
    for (int32_t i = 0; i < h->n; i++) {
        if (h->block[i].buffer >= 0 || h->block[i].bytes < bytes) continue;
        if (found < 0 || h->block[i].bytes < h->block[found].bytes) found = i;
        if (!h->best_fit) break;
    }
    if (found < 0) return false;
    block *b = &h->block[found];
    if (b->bytes > bytes) {
        memmove(b + 1, b, sizeof *b * (size_t)(h->n++ - found));
        b[1] = (block){b->offset + bytes, b[1].bytes - bytes, -1};
        b->bytes = bytes;
    }
    b->buffer = buffer;
    if (b->offset + bytes > h->end) h->end = b->offset + bytes;
    return true;
}

static void heap_give(heap *h, int32_t buffer)
{
    int32_t at = 0;
    while (h->block[at].buffer != buffer) at++;
    h->block[at].buffer = -1;
    for (int32_t i = at; i >= at - 1 && i >= 0; i--) { /* merge with the next block, then with the previous one */
        if (i + 1 >= h->n || h->block[i].buffer >= 0 || h->block[i + 1].buffer >= 0) continue;
        h->block[i].bytes += h->block[i + 1].bytes;
        memmove(&h->block[i + 1], &h->block[i + 2], sizeof *h->block * (size_t)(h->n-- - i - 2));
    }
}

/* Allocate and free the buffers of a training step in its order. Return false if the heap cannot serve a request. */
static bool replay(heap *h, const zr_plan *plan, int64_t limit)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    h->n = 1;
    h->end = 0;
    h->block[0] = (block){0, limit, -1};
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_use *use = s->use + s->step[i].uses;
        for (int pass = 0; pass < 2; pass++)
            for (int32_t u = 0; u < s->step[i].n_uses; u++) {
                int32_t b = use[u].buffer;
                bool again = b < plan->n_persistent;
                for (int32_t v = 0; v < u && !again; v++) again = use[v].buffer == b;
                if (again || s->buffer[b].bytes == 0) continue;
                if (pass == 0 && s->buffer[b].first_step == i && !heap_take(h, b, s->buffer[b].bytes)) return false;
                if (pass == 1 && s->buffer[b].last_step == i) heap_give(h, b);
            }
    }
    return true;
}

/* Return the smallest arena in which the heap can serve the step. A first-fit heap never depends on the end of its
 * arena, so a single run in an unlimited arena is enough. */
static int64_t smallest(heap *h, const zr_plan *plan, int64_t bound)
{
    int64_t low = bound, high = bound;
    if (!h->best_fit) return replay(h, plan, INT64_MAX / 2) ? h->end : -1;
    while (!replay(h, plan, high)) high += high / 8;
    while (high - low > bound / 2000) {
        int64_t middle = low + (high - low) / 2;
        if (replay(h, plan, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static zr_status compare(const char *preset, int stage, zr_recompute policy, const zr_profile *profile)
{
    zr_gpt2_config config;
    ZR_TRY(zr_gpt2_preset(preset, &config));
    zr_layout layout = ZR_LAYOUT_INIT;
    layout.ranks = 4;
    layout.stage = stage;
    layout.dtype = layout.wire_dtype = ZR_BF16;
    layout.seq = config.n_positions;
    layout.batch = 4;
    layout.eval = false;
    layout.states = ZR_STATES_LEAN;
    layout.recompute = policy;
    layout.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    zr_model model = zr_gpt2(&config);
    zr_plan *plan = NULL;
    ZR_TRY(zr_plan_create(&model, &layout, profile, &plan));
    heap h = {.block = calloc((size_t)plan->schedule[ZR_SCHEDULE_TRAIN].n_buffers * 2 + 4, sizeof *h.block)};
    int64_t bound = plan_bound(plan, ZR_SCHEDULE_TRAIN),
            map = plan->space_bytes[ZR_SPACE_DEVICE] - plan->persistent_bytes[ZR_SPACE_DEVICE];
    int64_t first = smallest(&h, plan, bound);
    h.best_fit = true;
    int64_t best = smallest(&h, plan, bound);
    printf("%-10s stage %d  %-9s  %8.1f MB  %9.4f  %13.4f  %12.4f\n", preset, stage,
           policy == ZR_RECOMPUTE_NONE   ? "none"
           : policy == ZR_RECOMPUTE_UNIT ? "unit"
                                         : "selective",
           (double)bound / 1e6, (double)map / (double)bound, (double)first / (double)map, (double)best / (double)map);
    free(h.block);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static zr_status run(void)
{
    static const char *const presets[] = {"gpt2-124m", "gpt2-350m", "gpt2-1.5b"};
    static const zr_recompute policies[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    ZR_TRY(zr_device_create_cpu(&config, &device));
    printf("bf16, lean, 4 ranks, B 4, T 1024; model states apart\n"
           "model      stage    recompute   lower bound  map/bound  first-fit/map  best-fit/map\n");
    for (int p = 0; p < 3; p++)
        for (int stage = 0; stage <= 3; stage += 3)
            for (int r = 0; r < 3; r++) ZR_TRY(compare(presets[p], stage, policies[r], &device->profile));
    zr_device_destroy(&device);
    return ZR_OK;
}

int main(void)
{
    if (run() == ZR_OK) return 0;
    fprintf(stderr, "%s\n", zr_error_message());
    return 1;
}
