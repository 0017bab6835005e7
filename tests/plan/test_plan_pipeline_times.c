//TEST timeout=120 long=more
/* Times of pipelines: all roles together against an independent longest path, and against the formulas of schedules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/cost/cost.h"
#include "plan/program/pipeline.h"
#include "plan_ways.h"
#include "support/long.h"

enum { RANKS = 6, CHUNKS = 4, MICROS = 24, STAGES = RANKS * CHUNKS, ROOM = 3 * MICROS * CHUNKS };

/* ---- a pricer of equal times ------------------------------------------------------------------- */

/* Prices in which each pass F, I and W of a stage takes one second and B two, a message `message_sec`, and all else
 * nothing. */
typedef struct even {
    zr__pricer base;
    double message_sec;
    double part[3][STAGES + 1]; /* time of an op of each pass and stage */
} even;

enum { PASS_F, PASS_I, PASS_W };

/* Return the pass of an op that runs: I gives gradients of values, W gives only gradients of parameters. */
static int pass_of(const zr_graph *g, const zr_op *op)
{
    bool values = false;
    for (int j = 0; j < op->n_out; j++) values |= zr_graph_value(g, op->out[j])->param < 0;
    return !op->backward ? PASS_F : values ? PASS_I : PASS_W;
}

static double even_sec(const zr__pricer *base, const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const even *me = (const even *)base;
    const zr_step *step = &plan->schedule[kind].step[index];
    if (step->kind == ZR_STEP_RECEIVED) return me->message_sec;
    if (step->kind != ZR_STEP_RUN || step->replay) return 0;
    return me
        ->part[pass_of(plan->graph[kind], zr_graph_get_op(plan->graph[kind], step->op))][plan->stage[kind][step->op]];
}

/* Divide each pass of a stage into equal parts, one for each of its ops. */
static void find_parts(const zr_plans *plans, even *e)
{
    int32_t n[3][STAGES + 1] = {{0}};
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            if (step->kind != ZR_STEP_RUN || step->replay || step->micro > 0) continue;
            const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
            n[pass_of(g, zr_graph_get_op(g, step->op))][plan->stage[ZR_SCHEDULE_TRAIN][step->op]]++;
        }
    }
    for (int pass = 0; pass < 3; pass++)
        for (int32_t s = 0; s < plans->role[0]->stages; s++) {
            assert_true(n[pass][s] > 0);
            e->part[pass][s] = 1.0 / n[pass][s];
        }
}

/* ---- the longest path -------------------------------------------------------------------------- */

/* The actions of all ranks, each with its end, which grows until it is later than all that the action waits for. */
typedef struct path {
    zr_pipe_action list[RANKS][ROOM];
    double end[RANKS][ROOM], idle[RANKS], length;
    int32_t n[RANKS];
} path;

static double end_of(const zr__pipe *p, const path *t, zr_pipe_kind kind, int32_t stage, int32_t micro)
{
    const int32_t r = zr__pipe_rank(p, stage);
    for (int32_t i = 0; i < t->n[r]; i++) {
        const zr_pipe_action a = t->list[r][i];
        const bool back = kind == ZR_PIPE_B && a.kind == ZR_PIPE_I;
        if ((a.kind == kind || back) && a.stage == stage && a.micro == micro) return t->end[r][i];
    }
    fail_msg("stage %d, micro-batch %d: no action", stage, micro);
    return 0;
}

/* Return the time at which an action may begin by the ends so far. `message` is the time between two ranks. */
static double ready(const zr__pipe *p, const path *t, int32_t r, int32_t i, double message)
{
    const zr_pipe_action a = t->list[r][i];
    const bool forward = a.kind == ZR_PIPE_F, last = a.stage == p->ranks * p->chunks - 1;
    const int32_t from = a.stage + (forward ? -1 : 1);
    double at = i > 0 ? t->end[r][i - 1] : 0;
    if (a.kind == ZR_PIPE_W || (forward ? a.stage == 0 : last)) return at;
    const double sent = end_of(p, t, forward ? ZR_PIPE_F : ZR_PIPE_B, from, a.micro),
                 takes = zr__pipe_rank(p, from) == r ? 0 : message;
    return fmax(at, sent + takes);
}

static void find_path(const zr__pipe *p, path *t, double message)
{
    *t = (path){.length = 0};
    for (int32_t r = 0; r < p->ranks; r++) t->n[r] = zr__pipe_list(p, r, t->list[r]);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < p->ranks; r++)
            for (int32_t i = 0; i < t->n[r]; i++) {
                const double end = ready(p, t, r, i, message) + (t->list[r][i].kind == ZR_PIPE_B ? 2 : 1);
                moved |= end > t->end[r][i];
                t->end[r][i] = end;
                t->length = fmax(t->length, end);
            }
    }
    for (int32_t r = 0; r < p->ranks; r++) t->idle[r] = t->length - 3.0 * p->micros * p->chunks;
}

/* ---- prices ------------------------------------------------------------------------------------ */

/* Plan all roles for a model in which each stage has a block. A tied table is on two stages. */
static void plan_roles(const zr__pipe *p, int stage, bool tied, zr_plans *plans)
{
    const zr_llama_config model = {.num_hidden_layers = p->ranks * p->chunks * 2,
                                   .num_attention_heads = 3,
                                   .num_key_value_heads = 3,
                                   .head_dim = 18,
                                   .hidden_size = 54,
                                   .intermediate_size = 100,
                                   .max_position_embeddings = 16,
                                   .vocab_size = 131,
                                   .rms_norm_eps = 1e-5,
                                   .initializer_range = 0.02,
                                   .rotary = {.width = 18, .theta = 1e4},
                                   .tie_word_embeddings = tied};
    const zr_model m = zr_llama(&model);
    zr_layout l = layout_of(stage, 1, ZR_F32, p->micros);
    l.pipeline = p->ranks;
    l.chunks = p->chunks;
    l.pipeline_schedule = p->schedule;
    l.eval = false;
    *plans = (zr_plans){.n = p->ranks};
    for (l.role = 0; l.role < p->ranks; l.role++) plans->role[l.role] = plan_make(&m, &l, &plan_profile);
}

/* Return the idle time of a rank by the formula of the schedule, in passes of a chunk, or NAN where none holds. */
static double formula(const zr__pipe *p)
{
    const int32_t others = p->ranks - 1;
    switch (p->schedule) {
    case ZR_PIPELINE_GPIPE:
    case ZR_PIPELINE_1F1B:
    case ZR_PIPELINE_INTERLEAVED:
        return 3 * others;
    case ZR_PIPELINE_BREADTH:
        return p->micros >= p->ranks ? 3 * others : NAN;
    case ZR_PIPELINE_ZB_H1:
        return p->micros >= p->ranks ? others : NAN;
    case ZR_PIPELINE_ZB_V:
        return others;
    case ZR_PIPELINE_TABLE:
        break;
    }
    return NAN;
}

static void close_to(double have, double want)
{
    if (!(fabs(have - want) <= 1e-9 * fabs(want) + 1e-9)) fail_msg("have %.17g, want %.17g", have, want);
}

/* Check the price of all roles of a schedule if messages take no time. */
static void check_price(const zr__pipe *p, bool apart)
{
    static path t;
    zr_plans plans;
    zr_price price;
    plan_roles(p, p->micros % 4, p->micros % 3 == 0, &plans);
    even e = {.base = {.step_sec = even_sec}};
    for (int s = 0; s < ZR_STREAMS && apart; s++) e.base.queues.of[s] = (int8_t)s;
    find_parts(&plans, &e);
    find_path(p, &t, 0);
    assert_int_equal(zr__plans_price_by(&plans, &e.base, &price), ZR_OK);
    close_to(price.step_sec, t.length);
    close_to(price.compute_sec, 3 * p->micros * p->chunks);
    close_to(price.bubble_sec, t.idle[price.role]);
    close_to(price.exposed_sec, price.bubble_sec);
    const double idle = formula(p), share = zr__pipe_bubble(p);
    assert_true(isnan(idle) == isnan(share));
    if (!isnan(idle)) close_to(price.bubble_sec, idle);
    if (!isnan(idle)) close_to(price.bubble_sec / price.step_sec, share);
    for (int32_t r = 0; r < plans.n; r++) { /* a role alone never waits */
        assert_int_equal(zr__plans_price_by(&ZR__ALONE(plans.role[r]), &e.base, &price), ZR_OK);
        close_to(price.step_sec, price.compute_sec);
        zr_plan_destroy(&plans.role[r]);
    }
}

/* Check the price of all roles if a message takes a quarter of a pass, in queues beside computing. Where passes forward
 * and backward alternate, messages come while the rank computes something else. With all forward passes first, the
 * first stage receives the next gradient only when the backward pass of its last block has ended. */
static void check_messages(const zr__pipe *p)
{
    static path t;
    zr_plans plans;
    zr_price price;
    plan_roles(p, 1, false, &plans);
    even e = {.base = {.step_sec = even_sec}, .message_sec = 0.25};
    for (int s = 0; s < ZR_STREAMS; s++) e.base.queues.of[s] = (int8_t)s;
    find_parts(&plans, &e);
    find_path(p, &t, e.message_sec);
    assert_int_equal(zr__plans_price_by(&plans, &e.base, &price), ZR_OK);
    const bool all_first =
        p->schedule == ZR_PIPELINE_GPIPE || p->schedule == ZR_PIPELINE_BREADTH || p->micros < p->ranks;
    if (all_first)
        assert_true(price.step_sec >= t.length - 1e-9 &&
                    price.step_sec <= t.length + 2 * e.message_sec * p->micros * p->chunks);
    else
        close_to(price.step_sec, t.length);
    close_to(price.comm_sec, e.message_sec * p->micros *
                                 (p->chunks * (price.role > 0) + p->chunks * (price.role < p->ranks - 1) +
                                  (p->schedule == ZR_PIPELINE_ZB_V
                                       ? 0
                                       : (p->chunks - 1) * ((price.role == 0) + (price.role == p->ranks - 1)))));
    for (int32_t r = 0; r < plans.n; r++) zr_plan_destroy(&plans.role[r]);
}

static void test_prices(void **state)
{
    (void)state;
    int32_t tried = 0;
    for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++)
        for (int32_t P = 2; P <= RANKS; P++)
            for (int32_t v = 1; v <= CHUNKS; v++)
                for (int32_t k = 1; k <= MICROS; k++) {
                    const zr__pipe p = {(zr_pipe_schedule)s, P, v, k, NULL};
                    if (zr__pipe_check(&p) != ZR_OK) continue;
                    if (!is_long_run() && (P * 7 + v * 5 + k * 3 + s) % 19 != 0) continue;
                    check_price(&p, tried % 2);
                    if (tried++ % 3 == 0 || is_long_run()) check_messages(&p);
                }
    printf("# %d pipelines\n", tried);
    assert_true(tried > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
