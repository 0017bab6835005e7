/* A small model of several loss terms, and the batches on which it is trained: "tokens" counts a quarter of all tokens,
 * "classes" the first token of most rows, and "nothing" none at all. */
#ifndef TERMS_MODEL_H
#define TERMS_MODEL_H

#include "trainer.h"

enum { TERMS_WORDS = 48, TERMS_WIDTH = 16, TERMS_CLASSES = 3 };

typedef struct terms_config {
    int terms; /* number of the model's terms, the first ones in its list */
} terms_config;

static inline zr_value terms_losses(zr_graph *g, zr_value x, const char *name)
{
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const zr_value w =
        zr_param(g, (zr_init){ZR_INIT_NORMAL, 0.3}, (zr_shape){2, {TERMS_CLASSES, TERMS_WIDTH}}, "%s.head", name);
    const zr_value targets = zr_input(g, name, ZR_I32, (zr_shape){2, {spec->batch, spec->seq}});
    return zr_cross_entropy(g, zr_linear(g, x, w, ZR_NONE, true), targets);
}

static inline void terms_build(zr_graph *g, const void *config)
{
    enum { HIDDEN = 2 * TERMS_WIDTH };
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const int terms = ((const terms_config *)config)->terms;
    const zr_shape tokens = {2, {spec->batch, spec->seq}}, width = {1, {TERMS_WIDTH}};
    const zr_init normal = {ZR_INIT_NORMAL, 0.2};
    zr_graph_unit(g, "embedding");
    const zr_value table = zr_param_cut(g, normal, (zr_shape){2, {TERMS_WORDS, TERMS_WIDTH}}, (zr_cut){0, 1}, "table");
    zr_value x = zr_embedding(g, zr_input(g, "input", ZR_I32, tokens), table);
    const zr_value targets = zr_input(g, "targets", ZR_I32, tokens);
    for (int i = 0; i < 3; i++) {
        zr_graph_unit(g, "h.%d", i);
        const zr_value gain = zr_param(g, (zr_init){ZR_INIT_ONE, 0}, width, "h.%d.gain", i),
                       up = zr_param_cut(g, normal, (zr_shape){2, {TERMS_WIDTH, HIDDEN}}, (zr_cut){1, 1}, "h.%d.up", i),
                       down = zr_param_cut(g, normal, (zr_shape){2, {HIDDEN, TERMS_WIDTH}}, (zr_cut){0, 1}, "h.%d.down",
                                           i);
        const zr_value y = zr_gelu(g, zr_linear(g, zr_rmsnorm(g, x, gain, 1e-5), up, ZR_NONE, false));
        x = zr_add(g, x, zr_linear(g, y, down, ZR_NONE, false));
    }
    zr_graph_unit(g, "heads");
    zr_graph_loss_term(g, "tokens", zr_linear_cross_entropy(g, x, table, targets));
    if (terms > 1) zr_graph_loss_term(g, "classes", terms_losses(g, x, "classes"));
    if (terms > 2) zr_graph_loss_term(g, "nothing", terms_losses(g, x, "nothing"));
}

/* Return the target of a token in a term, or -1 if its loss does not count. */
static inline int32_t terms_target(int term, int64_t step, int64_t row, int64_t t)
{
    const zr_rng rng = {.seed = 5, .purpose = ZR_RNG_SHUFFLE, .stream = (uint32_t)term, .step = (uint32_t)step};
    const uint32_t x = zr_rng_u32(&rng, (uint64_t)(row * 1000 + t));
    if (term == 0) return x % 4 ? -1 : (int32_t)(x / 4 % TERMS_WORDS);
    return term == 2 || t > 0 || row % 3 == 2 ? -1 : (int32_t)(x % TERMS_CLASSES);
}

static inline int terms_of(const trainer *run)
{
    return ((const terms_config *)run->model->config)->terms;
}

/* Count the losses of a micro-batch, and fill its inputs if `input` is not NULL. */
static inline zr_status terms_read(const trainer *run, const zr_batch *batch, void *const *input)
{
    const int64_t seq = run->layout.seq;
    for (int64_t i = 0; i < run->layout.batch * seq; i++) {
        const int64_t row = batch->first_row + i / seq, t = i % seq;
        if (input) ((int32_t *)input[0])[i] = (int32_t)((7 * row + 5 * t + batch->step) % TERMS_WORDS);
        for (int term = 0; term < terms_of(run); term++) {
            const int32_t target = terms_target(term, batch->step, row, t);
            batch->counted[term] -= target < 0;
            if (input) ((int32_t *)input[term + 1])[i] = target;
        }
    }
    return ZR_OK;
}

static inline zr_status terms_batch(void *arg, const zr_batch *batch, void *const *input)
{
    return terms_read(arg, batch, input);
}

static inline zr_status terms_count(void *arg, const zr_batch *batch)
{
    return terms_read(arg, batch, NULL);
}

/* Return a trainer of the first `terms` terms. `model` is to be filled. */
static inline trainer terms_trainer(zr_model *model, int terms, int ranks, int64_t accum)
{
    static const terms_config config[] = {{0}, {1}, {2}, {3}};
    *model = (zr_model){.name = "terms", .build = terms_build, .config = &config[terms]};
    trainer run = trainer_small(model, 1, 12);
    run.batch = terms_batch;
    run.count = terms_count;
    run.steps = 3;
    run.clip = 0;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    return run;
}

#endif
