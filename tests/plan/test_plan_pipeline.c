//TEST timeout=120
/* Pipelines: lists of actions against formulas, plans of all roles with their proof, and what stages hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost/cost.h"
#include "plan/program/pipeline.h"
#include "plan_ways.h"

/* ---- lists of actions -------------------------------------------------------------------------- */

enum { RANKS = 6, CHUNKS = 4, MICROS = 24, ROOM = 3 * MICROS * CHUNKS };

/* The run of the lists of all ranks, in which F, I and W take one unit of time and B two. */
typedef struct timing {
    zr_pipe_action list[RANKS][ROOM];
    int32_t n[RANKS], idle[RANKS], peak[RANKS];
    int32_t end[2][RANKS * CHUNKS][MICROS]; /* of F and of I, or 0 */
    int32_t length;
    bool ends;
} timing;

static int32_t later(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Run the lists. This shares no code with the planner. */
static void run_lists(const zr__pipe *p, timing *t)
{
    const int32_t stages = p->ranks * p->chunks;
    int32_t at[RANKS] = {0}, now[RANKS] = {0}, work[RANKS] = {0};
    memset(t, 0, sizeof *t);
    for (int32_t r = 0; r < p->ranks; r++) t->n[r] = zr__pipe_list(p, r, t->list[r]);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < p->ranks; r++)
            for (; at[r] < t->n[r]; at[r]++, moved = true) {
                const zr_pipe_action a = t->list[r][at[r]];
                const bool forward = a.kind == ZR_PIPE_F, weights = a.kind == ZR_PIPE_W;
                int32_t begin = now[r];
                if (forward && a.stage > 0) begin = t->end[0][a.stage - 1][a.micro];
                if (weights) begin = t->end[1][a.stage][a.micro];
                if (!forward && !weights) {
                    begin = t->end[0][a.stage][a.micro];
                    if (begin > 0 && a.stage + 1 < stages)
                        begin = t->end[1][a.stage + 1][a.micro] ? later(begin, t->end[1][a.stage + 1][a.micro]) : 0;
                }
                if (begin == 0 && !(forward && a.stage == 0)) break;
                const int32_t takes = a.kind == ZR_PIPE_B ? 2 : 1;
                now[r] = later(begin, now[r]) + takes;
                work[r] += takes;
                if (!weights) t->end[forward ? 0 : 1][a.stage][a.micro] = now[r];
            }
    }
    t->ends = true;
    for (int32_t r = 0; r < p->ranks; r++) {
        t->length = later(t->length, now[r]);
        t->ends &= at[r] == t->n[r];
    }
    for (int32_t r = 0; r < p->ranks; r++) {
        int32_t live = 0;
        t->idle[r] = t->length - work[r];
        for (int32_t i = 0; i < t->n[r]; i++) {
            live += t->list[r][i].kind == ZR_PIPE_F;
            t->peak[r] = later(t->peak[r], live);
            live -= t->list[r][i].kind == ZR_PIPE_B || t->list[r][i].kind == ZR_PIPE_W;
        }
    }
}

/* Check that a list has each action of its rank once, and each kind of a stage in the order of the micro-batches. */
static void check_lists(const zr__pipe *p, const timing *t)
{
    for (int32_t r = 0; r < p->ranks; r++) {
        int32_t next[4][RANKS * CHUNKS] = {{0}};
        for (int32_t i = 0; i < t->n[r]; i++) {
            const zr_pipe_action a = t->list[r][i];
            assert_int_equal(zr__pipe_rank(p, a.stage), r);
            assert_int_equal(a.micro, next[a.kind][a.stage]++);
        }
        for (int32_t c = 0; c < p->chunks; c++) {
            const int32_t s = zr__pipe_stage(p, r, c);
            assert_int_equal(next[ZR_PIPE_F][s], p->micros);
            assert_int_equal(next[ZR_PIPE_B][s] + next[ZR_PIPE_I][s], p->micros);
            assert_int_equal(next[ZR_PIPE_W][s], next[ZR_PIPE_I][s]);
        }
    }
}

static void test_lists(void **state)
{
    (void)state;
    static timing t;
    int32_t tried = 0;
    for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++)
        for (int32_t P = 1; P <= RANKS; P++)
            for (int32_t v = 1; v <= CHUNKS; v++)
                for (int32_t k = 1; k <= MICROS; k++) {
                    const zr__pipe p = {(zr_pipe_schedule)s, P, v, k, NULL};
                    if (zr__pipe_check(&p) != ZR_OK) continue;
                    run_lists(&p, &t);
                    tried++;
                    assert_true(t.ends);
                    check_lists(&p, &t);
                    for (int32_t r = 0; r < P; r++) {
                        const int32_t behind = P - 1 - r;
                        switch (p.schedule) {
                        case ZR_PIPELINE_GPIPE:
                            assert_int_equal(t.idle[r], 3 * (P - 1));
                            assert_int_equal(t.peak[r], k);
                            break;
                        case ZR_PIPELINE_1F1B:
                            assert_int_equal(t.idle[r], 3 * (P - 1));
                            assert_int_equal(t.peak[r], behind + 1 < k ? behind + 1 : k);
                            break;
                        case ZR_PIPELINE_INTERLEAVED: /* idle time of a chunk's passes: 1/v of the rank's */
                            assert_int_equal(t.idle[r], 3 * (P - 1));
                            const int32_t ahead = 2 * behind + (v - 1) * P + 1;
                            assert_int_equal(t.peak[r], ahead < k * v ? ahead : k * v);
                            break;
                        case ZR_PIPELINE_BREADTH:
                            if (k >= P) assert_int_equal(t.idle[r], 3 * (P - 1));
                            assert_int_equal(t.peak[r], k * v);
                            break;
                        case ZR_PIPELINE_ZB_H1:
                            if (k >= P) assert_int_equal(t.idle[r], P - 1);
                            assert_int_equal(t.peak[r], P < k ? P : k);
                            break;
                        case ZR_PIPELINE_ZB_V:
                            assert_int_equal(t.idle[r], P - 1);
                            assert_int_equal(t.peak[r], 2 * P);
                            break;
                        case ZR_PIPELINE_TABLE: /* test_plan_pipe_tables.c */
                            break;
                        }
                    }
                }
    assert_true(tried > 1000);
}

/* ---- plans of all roles ------------------------------------------------------------------------ */

static void test_roles(void **state)
{
    (void)state;
    const zr_gpt2_config model = ways_deeper(7);
    for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++)
        for (int P = 2; P <= 4; P++)
            for (int stage = 0; stage <= 3; stage++)
                for (int recompute = 0; recompute < 2; recompute++) {
                    zr_plans plans;
                    zr_layout l = layout_of(stage, 2, ZR_BF16, 2 * P);
                    l.pipeline = P;
                    l.pipeline_schedule = (zr_pipe_schedule)s;
                    l.chunks =
                        s == ZR_PIPELINE_INTERLEAVED || s == ZR_PIPELINE_BREADTH || s == ZR_PIPELINE_ZB_V ? 2 : 1;
                    l.recompute = recompute ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
                    const zr_status made = ways_plan_roles(&model, l, &plans);
                    if (made != ZR_OK) printf("# %d %d %d: %s\n", s, P, stage, zr_error_message());
                    assert_int_equal(made, ZR_OK);
                    const zr_status st = zr_plans_check(&plans);
                    if (st != ZR_OK) printf("# %d %d %d %d: %s\n", s, P, stage, recompute, zr_error_message());
                    assert_int_equal(st, ZR_OK);
                    int64_t held = 0;
                    for (int32_t r = 0; r < plans.n; r++)
                        for (int32_t u = 0; u < plans.role[r]->n_units; u++) held += plans.role[r]->unit[u].elems;
                    assert_int_equal(held, plans.role[0]->params);
                    ways_drop(&plans);
                }
}

/* Check that the arena does not grow with the number of micro-batches once the pipeline is full. */
static void test_arena(void **state)
{
    (void)state;
    const zr_gpt2_config model = ways_deeper(7);
    for (int s = 0; s <= ZR_PIPELINE_ZB_H1; s++) {
        if (s == ZR_PIPELINE_GPIPE || s == ZR_PIPELINE_BREADTH) continue; /* they keep all micro-batches */
        int64_t bytes[2] = {0};
        for (int i = 0; i < 2; i++) {
            zr_plans plans;
            zr_layout l = layout_of(1, 1, ZR_BF16, i ? 32 : 8);
            l.pipeline = 4;
            l.pipeline_schedule = (zr_pipe_schedule)s;
            l.chunks = s == ZR_PIPELINE_INTERLEAVED ? 2 : 1;
            assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_OK);
            for (int32_t r = 0; r < plans.n; r++) bytes[i] += plans.role[r]->space_bytes[ZR_SPACE_DEVICE];
            ways_drop(&plans);
        }
        assert_true(bytes[1] <= bytes[0] * 102 / 100);
    }
}

/* Check that a rank has room for the messages that it sends, if others cannot read them where they are. */
static void test_mailboxes(void **state)
{
    (void)state;
    zr_profile profile = plan_profile;
    for (int gpu = 0; gpu < 2; gpu++) {
        zr_layout l = layout_of(0, 1, ZR_F32, 8);
        l.pipeline = 2;
        l.role = 1;
        l.pipeline_schedule = ZR_PIPELINE_1F1B;
        profile.facts.own_memory = gpu;
        zr_plan *plan = plan_gpt2(&plan_small, &l, &profile);
        int64_t bytes = -1;
        assert_int_equal(zr__messages_bytes(plan, &bytes), ZR_OK);
        assert_true(gpu ? bytes == 0 : bytes > l.batch * l.seq * plan_small.n_embd * 4);
        zr_plan_destroy(&plan);
    }
}

/* Return the bytes of gradients that a plan keeps. */
static int64_t kept_gradients(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < plan->n_persistent; b++)
        if (plan->persistent[b].category == ZR_CATEGORY_GRAD) bytes += plan->persistent[b].bytes;
    return bytes;
}

/* Check that breadth-first with one reduction a step gathers each unit at most twice a step and reduces it once, for
 * any number of micro-batches, and that at stages 2 and 3 the whole accumulators of only one chunk exist at a time. */
static void test_breadth_once(void **state)
{
    (void)state;
    const zr_gpt2_config model = ways_deeper(12);
    for (int stage = 1; stage <= 3; stage++)
        for (int P = 1; P <= 3; P++) {
            int64_t gathered[ZR_ROLES] = {0};
            for (int64_t accum = 4; accum <= 16; accum *= 2) {
                zr_plans plans;
                zr_layout l = layout_of(stage, 4, ZR_BF16, accum);
                l.eval = false;
                l.pipeline = P;
                l.chunks = P > 1 ? 4 : 1;
                l.pipeline_schedule = ZR_PIPELINE_BREADTH;
                l.accum_order = P > 1 ? ZR_ACCUM_MICRO : ZR_ACCUM_LAYER;
                l.reduce_once = true;
                assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_OK);
                if (zr_plans_check(&plans) != ZR_OK) fail_msg("%s", zr_error_message());
                for (int32_t r = 0; r < P; r++) {
                    const zr_plan *plan = plans.role[r];
                    const int64_t *traffic = plan->traffic.bytes;
                    int64_t others = 0, shards = 0;
                    for (int32_t u = 0; u < plan->n_units; u++) {
                        others += plan->unit[u].padded_elems - plan->unit[u].shard_elems;
                        shards += plan->unit[u].shard_elems;
                    }
                    assert_int_equal(traffic[ZR_TRAFFIC_REDUCE_SCATTER], 4 * others);
                    assert_true(traffic[ZR_TRAFFIC_ALL_GATHER] >= 2 * others);
                    assert_true(traffic[ZR_TRAFFIC_ALL_GATHER] <= (stage == 3 ? 2 : 1) * 2 * others);
                    assert_true(accum == 4 || traffic[ZR_TRAFFIC_ALL_GATHER] == gathered[r]);
                    gathered[r] = traffic[ZR_TRAFFIC_ALL_GATHER];
                    const int64_t peak = plan->memory.space[ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_GRAD];
                    assert_int_equal(kept_gradients(plan), 4 * (shards + (stage == 1 ? others : 0)));
                    /* the last rank also keeps the head's part of a tied table's gradient for each micro-batch */
                    if (stage > 1 && r < P - 1) assert_true(peak < 3 * (shards + others));
                }
                ways_drop(&plans);
            }
        }
}

/* Return the unit of a table that is tied, which all roles number alike. */
static int32_t tied_unit(const zr_plans *plans)
{
    return zr_graph_param(plans->role[0]->graph[ZR_SCHEDULE_TRAIN], 0)->unit;
}

/* Check a tied table on two roles: the first owns it; each micro-batch's part of the gradient travels in fp32, and the
 * updated parameters once a step, a rank's part of them. */
static void test_apart(void **state)
{
    (void)state;
    const zr_gpt2_config model = ways_deeper(7);
    for (int s = 0; s < ZR_PIPELINE_ZB_V; s++)
        for (int stage = 0; stage <= 3; stage++) {
            zr_plans plans;
            const int P = 2 + (s + stage) % 3;
            zr_layout l = layout_of(stage, 2, ZR_BF16, 2 * P);
            l.pipeline = P;
            l.pipeline_schedule = (zr_pipe_schedule)s;
            l.recompute = s % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
            l.chunks = 1;
            l.tied_apart = true;
            if (ways_plan_roles(&model, l, &plans) != ZR_OK) fail_msg("%s", zr_error_message());
            if (zr_plans_check(&plans) != ZR_OK) fail_msg("schedule %d, stage %d: %s", s, stage, zr_error_message());
            const int32_t unit = tied_unit(&plans);
            const zr_plan *first = plans.role[0], *last = plans.role[P - 1];
            const zr_plan_unit *owned = &first->unit[unit], *copy = &last->unit[unit];
            const int64_t crosses = 2 * l.batch * l.seq * model.n_embd, table = 4 * model.vocab_size * model.n_embd,
                          part = 2 * (stage == 0 ? owned->padded_elems : owned->shard_elems);
            assert_true(owned->trains && !owned->copied && copy->copied && !copy->trains);
            assert_int_equal(copy->owner, 0);
            assert_true(copy->master.buffer == ZR_NONE && copy->sums.buffer == ZR_NONE && copy->square == ZR_NONE);
            assert_int_equal(first->traffic.bytes[ZR_TRAFFIC_PIPELINE], l.accum * (crosses + table));
            assert_int_equal(last->traffic.bytes[ZR_TRAFFIC_PIPELINE], l.accum * crosses + part);
            assert_int_equal(last->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_PIPELINE], 0);
            const zr__copied_bytes copied = zr__plans_copied(&plans);
            assert_int_equal(copied.micro_bytes, table);
            assert_int_equal(copied.step_bytes, part);
            ways_drop(&plans);
        }
}

/* Check that the proof refuses each fault of a message of a role. */
static void break_messages(const zr_plans *plans, int32_t role)
{
    zr_schedule *s = &plans->role[role]->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step *step = &s->step[i];
        if (step->channel < 0) continue;
        const zr_step had = *step;
        const bool begins = step->kind == ZR_STEP_SEND || step->kind == ZR_STEP_RECV;
        for (int fault = 0; fault < 5; fault++) {
            if (fault == 0) step->micro ^= 1;
            if (fault == 1) step->peer = role;
            if (fault == 2) step->rounds = begins ? 7 : step->rounds;
            if (fault == 3) step->kind = begins ? ZR_STEP_SENT : ZR_STEP_SEND;
            if (fault == 4) step->when = step->when == ZR_WHEN_STALE ? ZR_WHEN_ALWAYS : ZR_WHEN_STALE;
            const bool changed = memcmp(step, &had, sizeof had) != 0;
            if (changed && (begins || fault != 1) && zr_plans_check(plans) != ZR_ERR_INTERNAL)
                fail_msg("step %d (%s), fault %d is not noticed", (int)i, zr_step_kind_name(had.kind), fault);
            *step = had;
        }
    }
    assert_int_equal(zr_plans_check(plans), ZR_OK);
}

/* Check that the proof refuses a copy that gets other elements than those which the owner has updated, or none, in a
 * training step and in a flush. */
static void break_copies(const zr_plans *plans)
{
    const int32_t unit = tied_unit(plans);
    int parts = 0;
    for (int32_t r = 0; r < plans->n; r++)
        for (int k = 0; k < ZR_SCHEDULES; k++) {
            zr_schedule *s = &plans->role[r]->schedule[k];
            for (int32_t i = 0; i < s->n_steps; i++) {
                zr_step *step = &s->step[i];
                const bool part = k == ZR_SCHEDULE_FLUSH || step->when == ZR_WHEN_STALE;
                if (step->channel < 0 || !part) continue;
                zr_use *use = &s->use[step->uses];
                parts++;
                const zr_use had = *use;
                const int32_t at = step->unit;
                for (int fault = 0; fault < 5; fault++) {
                    if (fault == 0) use->range.first++;
                    if (fault == 1) use->range.count -= 64;
                    if (fault == 2) use->dtype = ZR_F32;
                    if (fault == 3) use->buffer = plans->role[r]->loss;
                    if (fault == 4) step->unit = unit + 1;
                    if (zr_plans_check(plans) != ZR_ERR_INTERNAL)
                        fail_msg("role %d, step %d, fault %d is not noticed", r, (int)i, fault);
                    *use = had;
                    step->unit = at;
                }
            }
        }
    assert_int_equal(parts, 8); /* SEND, SENT, RECV, RECEIVED, twice */
    for (int32_t r = 0; r < plans->n; r++) {
        zr_plan_unit *u = &plans->role[r]->unit[unit], had = *u;
        for (int fault = 0; fault < 5; fault++) {
            if (fault == 0) u->owner ^= 1;
            if (fault == 1) u->roles ^= 2;
            if (fault == 2) u->held = !u->held;
            if (fault == 3) u->trains = !u->trains;
            if (fault == 4) u->copied = !u->copied;
            if (zr_plans_check(plans) != ZR_ERR_INTERNAL) fail_msg("role %d, fault %d is not noticed", r, fault);
            *u = had;
        }
    }
    assert_int_equal(zr_plans_check(plans), ZR_OK);
}

/* Check that the proof refuses a copy of which a part does not come anew after an update. */
static void stale_copy(const zr_plan *plan, int64_t part)
{
    const zr_schedule_kind kinds[] = {ZR_SCHEDULE_TRAIN, ZR_SCHEDULE_FLUSH};
    for (int k = 0; k < 2; k++) {
        const zr_schedule *s = &plan->schedule[kinds[k]];
        for (int whole = 0; whole < 2; whole++) {
            for (int32_t i = 0; i < s->n_steps; i++)
                if (s->step[i].channel >= 0 && (k == 1 || s->step[i].when == ZR_WHEN_STALE))
                    s->use[s->step[i].uses].range.count = whole ? part : part / 4;
            assert_int_equal(zr_plan_check(plan), whole ? ZR_OK : ZR_ERR_INTERNAL);
            assert_true(whole || strstr(zr_error_message(), "of which nothing has written all of the bytes") ||
                        strstr(zr_error_message(), "is not brought up to date by a flush"));
        }
    }
}

/* Check that the proof refuses messages that do not fit together. */
static void test_refused(void **state)
{
    (void)state;
    const zr_gpt2_config model = ways_deeper(4);
    zr_plans plans;
    zr_layout l = layout_of(2, 2, ZR_BF16, 4);
    l.pipeline = 2;
    l.tied_apart = true;
    for (l.stage = 0; l.stage <= 3; l.stage++) {
        assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_OK);
        if (l.stage == 2)
            for (int32_t r = 0; r < 2; r++) break_messages(&plans, r);
        break_copies(&plans);
        stale_copy(plans.role[1], plans.role[1]->unit[tied_unit(&plans)].update.count);
        ways_drop(&plans);
    }
    l.stage = 2;
    l.ranks = 1;
    l.tied_apart = false;
    assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_OK);
    break_messages(&plans, 0);
    plans.role[1]->stage[ZR_SCHEDULE_TRAIN][3] ^= 1;
    assert_int_equal(zr_plans_check(&plans), ZR_ERR_INTERNAL);
    ways_drop(&plans);
    l.tile_elems = 700;
    assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_ERR_UNSUPPORTED);
    ways_drop(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists),    cmocka_unit_test(test_roles),
                                       cmocka_unit_test(test_arena),    cmocka_unit_test(test_breadth_once),
                                       cmocka_unit_test(test_apart),    cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_mailboxes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
