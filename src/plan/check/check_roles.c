/* Proof that the plans of all roles fit together: they divide the model in the same way, each unit has one owner, both
 * ends of a channel have the same messages, and no role waits forever. */
#include "base/core/scope.h"
#include "plan/check/check.h"
#include "plan/cost/cost.h"

/* Return the row of a table that has a stage. */
static int32_t row_of(const zr_pipe_table *table, int32_t stage)
{
    int32_t i = 0;
    while (table->cell[i].kind == ZR_PIPE_REST || table->cell[i].stage != stage) i++;
    return i / table->columns;
}

/* Return the role that runs an op, from the plan's own division into stages. */
static int32_t role_of(const zr_plan *plan, zr_schedule_kind kind, int32_t op)
{
    const zr_layout *l = &plan->layout;
    if (l->pipeline == 1) return 0;
    const int32_t last = l->pipeline * l->chunks - 1, at = plan->stage[kind][op], stage = at > last ? last : at;
    if (l->pipeline_schedule == ZR_PIPELINE_TABLE && l->train) return row_of(l->pipeline_table, stage);
    const bool turned = l->pipeline_schedule == ZR_PIPELINE_ZB_V && stage >= l->pipeline;
    return turned ? last - stage : stage % l->pipeline;
}

bool zr__is_own(const zr__proof *p, int32_t op)
{
    return role_of(p->plan, p->kind, op) == p->plan->layout.role;
}

bool zr__trains(const zr__proof *p, int32_t unit)
{
    const zr_plan_unit *u = &p->plan->unit[unit];
    return u->elems > 0 && u->owned && !zr_graph_unit_info(p->graph, unit)->frozen;
}

static int64_t staging_bytes(const zr_plan *plan, int32_t group)
{
    return plan->staging[group] == ZR_NONE ? 0 : plan->persistent[plan->staging[group]].bytes;
}

/* Check that the owner of a unit, and no other role, trains it, and that all roles that hold it know each other. Other
 * roles may only hold copies. */
static zr_status check_owner(const zr_plans *plans, int32_t unit)
{
    const zr_plan_unit *first = &plans->role[0]->unit[unit];
    ZR_CHECK(first->owner >= 0 && first->owner < plans->n && first->roles >> first->owner & 1, ZR_ERR_INTERNAL,
             "unit %d belongs to role %d, which does not hold it", unit, first->owner);
    const bool trains = plans->role[first->owner]->unit[unit].trains;
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan_unit *u = &plans->role[r]->unit[unit];
        const bool owns = r == first->owner;
        ZR_CHECK(u->owner == first->owner && u->owned == owns && u->roles == first->roles &&
                     u->held == (u->roles >> r & 1) && u->trains == (owns && trains) &&
                     u->copied == (u->held && !owns && trains),
                 ZR_ERR_INTERNAL, "unit %d belongs to role %d, but role %d trains it, or has no copy", unit,
                 first->owner, r);
    }
    return ZR_OK;
}

/* Check that all plans divide each graph in the same way, and that ranks of several roles have the same staging memory,
 * which they allocate together. */
static zr_status check_division(const zr_plans *plans)
{
    const zr_plan *first = plans->role[0];
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        ZR_CHECK(plan->layout.role == r && plan->layout.pipeline == plans->n && plan->stages == first->stages &&
                     plan->n_units == first->n_units,
                 ZR_ERR_INTERNAL, "plan %d is for role %d of %d, with %d stages", r, plan->layout.role,
                 plan->layout.pipeline, plan->stages);
        for (int32_t g = ZR_GROUP_PIPELINE; g < ZR_GROUPS; g++) /* the groups that contain the slowest axis */
            ZR_CHECK(staging_bytes(plan, g) == staging_bytes(first, g), ZR_ERR_INTERNAL,
                     "role %d has %lld bytes of staging memory for group %d, role 0 has %lld", r,
                     (long long)staging_bytes(plan, g), g, (long long)staging_bytes(first, g));
        for (int k = 0; k < ZR_SCHEDULES; k++)
            for (int32_t i = 0; plan->stage[k] && i < zr_graph_ops(plan->graph[k]); i++)
                ZR_CHECK(plan->stage[k][i] == first->stage[k][i], ZR_ERR_INTERNAL,
                         "op %d is in stage %d in role %d, and in stage %d in role 0", i, plan->stage[k][i], r,
                         first->stage[k][i]);
    }
    for (int32_t u = 0; u < first->n_units; u++) ZR_TRY(check_owner(plans, u));
    return ZR_OK;
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* The proof for one schedule of all roles. Arrays are indexed by role, then by channel (zr_step.channel). */
typedef struct roles {
    const zr_plans *plans;
    zr_schedule_kind kind;
    bool stale;                                 /* whether no flush came before the training step */
    int32_t *other[ZR_ROLES];                   /* number of the channel at the other end */
    int32_t *begun[ZR_ROLES], *ended[ZR_ROLES]; /* number of messages so far: SEND or RECV, and SENT or RECEIVED */
    int32_t made[ZR_ROLES], met[ZR_ROLES];      /* steps so far, and exchanges of all ranks among them */
} roles;

static const zr_schedule *schedule_of(const roles *p, int32_t role)
{
    return &p->plans->role[role]->schedule[p->kind];
}

static bool begins(const zr_step *step)
{
    return step->kind == ZR_STEP_SEND || step->kind == ZR_STEP_RECV;
}

/* Return the next step behind `at` that begins a message of a channel, or n_steps. */
static int32_t next_begun(const zr_schedule *s, int32_t channel, int32_t at)
{
    while (++at < s->n_steps && (s->step[at].channel != channel || !begins(&s->step[at]))) continue;
    return at;
}

/* Return the first step of role `role` that begins a message of the channel of `like`, a step of role `from`; or
 * n_steps. */
static int32_t first_at_other_end(const roles *p, int32_t role, const zr_step *like, int32_t from)
{
    const zr_schedule *s = schedule_of(p, role);
    const zr_step_kind wanted = like->kind == ZR_STEP_SEND ? ZR_STEP_RECV : ZR_STEP_SEND;
    int32_t i = 0;
    while (i < s->n_steps && (s->step[i].kind != wanted || s->step[i].value != like->value || s->step[i].peer != from))
        i++;
    return i;
}

/* Check that the channel whose first step is step `first` of role r has the same messages at both ends. */
static zr_status check_channel(const roles *p, int32_t r, int32_t first)
{
    const zr_schedule *s = schedule_of(p, r);
    const zr_step *like = &s->step[first];
    ZR_CHECK(like->peer >= 0 && like->peer < p->plans->n && like->peer != r && like->rounds >= 1, ZR_ERR_INTERNAL,
             "step %d of role %d passes value %d to or from role %d, %lld messages at a time", first, r, like->value,
             like->peer, (long long)like->rounds);
    const zr_schedule *t = schedule_of(p, like->peer);
    int32_t i = first, j = first_at_other_end(p, like->peer, like, r);
    ZR_CHECK(j < t->n_steps, ZR_ERR_INTERNAL, "role %d passes value %d to or from role %d, which does not", r,
             like->value, like->peer);
    const int32_t other = p->other[r][like->channel] = t->step[j].channel;
    for (; i < s->n_steps && j < t->n_steps; i = next_begun(s, like->channel, i), j = next_begun(t, other, j)) {
        const zr_step *a = &s->step[i], *b = &t->step[j];
        const zr_use *from = &s->use[a->uses], *to = &t->use[b->uses];
        ZR_CHECK(a->value == like->value && b->value == like->value && a->peer == like->peer && b->peer == r &&
                     a->micro == b->micro && a->when == b->when && a->rounds == like->rounds &&
                     b->rounds == like->rounds && from->range.count == to->range.count && from->dtype == to->dtype,
                 ZR_ERR_INTERNAL, "value %d of micro-batch %d in role %d is something else in role %d", like->value,
                 a->micro, r, like->peer);
    }
    ZR_CHECK(i == s->n_steps && j == t->n_steps, ZR_ERR_INTERNAL,
             "roles %d and %d pass different numbers of messages of value %d", r, like->peer, like->value);
    return ZR_OK;
}

static zr_status check_channels(const roles *p)
{
    for (int32_t r = 0; r < p->plans->n; r++) {
        const zr_schedule *s = schedule_of(p, r);
        for (int32_t c = 0; c < s->n_channels; c++) {
            const int32_t first = next_begun(s, c, -1);
            ZR_CHECK(first < s->n_steps, ZR_ERR_INTERNAL, "channel %d of role %d has no message", c, r);
            ZR_TRY(check_channel(p, r, first));
        }
    }
    return ZR_OK;
}

/* ---- waits ------------------------------------------------------------------------------------- */

static bool asks_all_roles(const zr_step *step)
{
    return zr__asks_all(step) && step->kind != ZR_STEP_TRUST;
}

/* Return whether role r may go on with its next step. SENT waits until the message is received, RECEIVED until it is
 * sent, and an exchange between all ranks until all roles have come to it. */
static bool may_go_on(const roles *p, int32_t r)
{
    const zr_step *step = &schedule_of(p, r)->step[p->made[r]];
    if (!zr__runs(step, true, p->stale, true)) return true;
    for (int32_t k = 0; asks_all_roles(step) && k < p->plans->n; k++) {
        const zr_schedule *its = schedule_of(p, k);
        const bool there =
            p->met[k] == p->met[r] && p->made[k] < its->n_steps && its->step[p->made[k]].kind == step->kind;
        if (!there && p->met[k] <= p->met[r]) return false;
    }
    if (step->kind != ZR_STEP_SENT && step->kind != ZR_STEP_RECEIVED) return true;
    const int32_t own = p->ended[r][step->channel], other = p->other[r][step->channel];
    return (step->kind == ZR_STEP_SENT ? p->ended : p->begun)[step->peer][other] > own;
}

/* Make the next step of role r. Check that no more messages are on their way than the channel has room for. */
static zr_status go_on(roles *p, int32_t r)
{
    const zr_step *step = &schedule_of(p, r)->step[p->made[r]++];
    if (!zr__runs(step, true, p->stale, true)) return ZR_OK;
    p->met[r] += asks_all_roles(step);
    if (step->channel < 0) return ZR_OK;
    (begins(step) ? p->begun : p->ended)[r][step->channel]++;
    const int32_t begun = p->begun[r][step->channel], ended = p->ended[r][step->channel];
    ZR_CHECK(ended <= begun && (!begins(step) || begun - ended <= step->rounds), ZR_ERR_INTERNAL,
             "step %d of role %d (%s): %d messages of value %d have begun, and %d have ended", p->made[r] - 1, r,
             zr_step_kind_name(step->kind), begun, step->value, ended);
    return ZR_OK;
}

/* Run the steps of all roles in the order of their lists. If one such run ends, every run ends, whatever the times: a
 * step waits only for given steps of other roles, not for what comes first. */
static zr_status check_ends(roles *p)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < p->plans->n; r++)
            for (; p->made[r] < schedule_of(p, r)->n_steps && may_go_on(p, r); moved = true) ZR_TRY(go_on(p, r));
    }
    for (int32_t r = 0; r < p->plans->n; r++) {
        const zr_schedule *s = schedule_of(p, r);
        const zr_step *step = &s->step[p->made[r]];
        ZR_CHECK(p->made[r] == s->n_steps, ZR_ERR_INTERNAL,
                 "role %d waits forever in step %d (%s), in cell %d%c%d, for role %d with value %d of micro-batch %d",
                 r, p->made[r], zr_step_kind_name(step->kind), step->stage, step->action ? step->action : '?',
                 step->micro, step->peer, step->value, step->micro);
        for (int32_t c = 0; c < s->n_channels; c++)
            ZR_CHECK(p->begun[r][c] == p->ended[r][c], ZR_ERR_INTERNAL, "role %d leaves messages of channel %d", r, c);
    }
    return ZR_OK;
}

static zr_status check_roles(const zr_plans *plans, zr_schedule_kind kind, bool stale)
{
    roles p = {.plans = plans, .kind = kind, .stale = stale};
    size_t room = 0;
    for (int32_t r = 0; r < plans->n; r++) room += 3 * (size_t)schedule_of(&p, r)->n_channels;
    ZR_AUTO_FREE int32_t *number = zr_alloc(sizeof *number * (room + 1));
    ZR_CHECK(number, ZR_ERR_MEMORY, "no memory to check %zu channels", room);
    int32_t *at = number;
    for (int32_t r = 0; r < plans->n; r++) {
        const int32_t n = schedule_of(&p, r)->n_channels;
        p.other[r] = at;
        p.begun[r] = at + n;
        p.ended[r] = at + 2 * n;
        at += 3 * n;
    }
    ZR_TRY(check_channels(&p));
    return check_ends(&p);
}

zr_status zr_plans_check(const zr_plans *plans)
{
    for (int32_t r = 0; r < plans->n; r++) ZR_TRY(zr_plan_check(plans->role[r]));
    return zr__plans_fit(plans);
}

zr_status zr__plans_fit(const zr_plans *plans)
{
    ZR_TRY(check_division(plans));
    for (int k = 0; k < ZR_SCHEDULES && plans->n > 1; k++)
        for (int stale = 0; plans->role[0]->schedule[k].buffer && stale < 2; stale++)
            ZR_TRY(check_roles(plans, (zr_schedule_kind)k, stale));
    return ZR_OK;
}
