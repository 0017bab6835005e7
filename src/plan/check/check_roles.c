/* Proof that the roles of a run fit together: each op runs in one role, each message that a role receives is sent, in
 * the same order and size, and no role waits forever. */
#include "base/core/scope.h"
#include "plan/check/check.h"

/* Return the role that runs an op, from the plan's own division into stages. */
static int32_t role_of(const zr_plan *plan, zr_schedule_kind kind, int32_t op)
{
    const zr_layout *l = &plan->layout;
    if (l->pipeline == 1) return 0;
    const int32_t last = l->pipeline * l->chunks - 1, at = plan->stage[kind][op], stage = at > last ? last : at;
    const bool turned = l->pipeline_schedule == ZR_PIPELINE_ZB_V && stage >= l->pipeline;
    return turned ? last - stage : stage % l->pipeline;
}

bool zr__is_own(const zr__proof *p, int32_t op)
{
    return role_of(p->plan, p->kind, op) == p->plan->layout.role;
}

/* Return whether two messages are of one channel. */
static bool same_channel(const zr_step *a, int32_t role_a, const zr_step *b, int32_t role_b)
{
    return a->value == b->value && a->peer == role_b && b->peer == role_a;
}

/* Return the index of the next step of a kind in the channel of `like`, a step of role `from`, behind step `at` of role
 * `role`; or n_steps. */
static int32_t next_of(const zr_schedule *s, int32_t role, int32_t at, zr_step_kind kind, const zr_step *like,
                       int32_t from)
{
    while (++at < s->n_steps)
        if (s->step[at].kind == kind && same_channel(like, from, &s->step[at], role)) break;
    return at;
}

/* Check that the channel of step `first`, a SEND of role `from`, has the same messages at both ends. */
static zr_status check_channel(const zr_plans *plans, zr_schedule_kind kind, int32_t from, int32_t first)
{
    const zr_schedule *s = &plans->role[from]->schedule[kind];
    const zr_step *like = &s->step[first];
    ZR_CHECK(like->peer >= 0 && like->peer < plans->n && like->peer != from, ZR_ERR_INTERNAL,
             "role %d sends value %d to role %d, which is none", from, like->value, like->peer);
    const zr_schedule *to = &plans->role[like->peer]->schedule[kind];
    int32_t received = -1, sent = -1;
    for (int32_t i = first; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind != ZR_STEP_SEND || step->value != like->value || step->peer != like->peer) continue;
        received = next_of(to, like->peer, received, ZR_STEP_RECV, like, from);
        sent = sent < 0 ? first : sent;
        ZR_CHECK(received < to->n_steps && to->step[received].micro == step->micro &&
                     to->use[to->step[received].uses].range.count == s->use[step->uses].range.count &&
                     to->use[to->step[received].uses].dtype == s->use[step->uses].dtype,
                 ZR_ERR_INTERNAL, "role %d sends value %d of micro-batch %d to role %d, which receives something else",
                 from, step->value, step->micro, like->peer);
    }
    ZR_CHECK(next_of(to, like->peer, received, ZR_STEP_RECV, like, from) == to->n_steps, ZR_ERR_INTERNAL,
             "role %d receives more messages of value %d than role %d sends", like->peer, like->value, from);
    return ZR_OK;
}

static zr_status check_channels(const zr_plans *plans, zr_schedule_kind kind)
{
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_schedule *s = &plans->role[r]->schedule[kind];
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            bool first = step->kind == ZR_STEP_SEND || step->kind == ZR_STEP_RECV;
            for (int32_t k = 0; k < i && first; k++)
                first =
                    s->step[k].kind != step->kind || s->step[k].value != step->value || s->step[k].peer != step->peer;
            if (!first) continue;
            if (step->kind == ZR_STEP_SEND) {
                ZR_TRY(check_channel(plans, kind, r, i));
                continue;
            }
            const zr_schedule *from = &plans->role[step->peer]->schedule[kind];
            ZR_CHECK(next_of(from, step->peer, -1, ZR_STEP_SEND, step, r) < from->n_steps, ZR_ERR_INTERNAL,
                     "role %d receives value %d, which role %d does not send", r, step->value, step->peer);
        }
    }
    return ZR_OK;
}

/* Return how many steps of `kind` the role `role` has made in the channel of `like`, a step of role `from`. */
static int32_t made_in(const zr_schedule *s, int32_t role, int32_t made, zr_step_kind kind, const zr_step *like,
                       int32_t from)
{
    int32_t n = 0;
    for (int32_t i = 0; i < made; i++) n += s->step[i].kind == kind && same_channel(like, from, &s->step[i], role);
    return n;
}

/* Return whether role r may go on with its next step, given how far all roles are. SENT waits until the message is
 * received, RECEIVED until it is sent, and an exchange between all ranks until all roles have come to it. */
static bool may_go_on(const zr_plans *plans, zr_schedule_kind kind, const int32_t *made, const int32_t *met, int32_t r)
{
    const zr_schedule *s = &plans->role[r]->schedule[kind];
    const zr_step *step = &s->step[made[r]];
    if (zr__asks_all(step) && step->kind != ZR_STEP_TRUST) {
        for (int32_t k = 0; k < plans->n; k++) {
            const zr_schedule *its = &plans->role[k]->schedule[kind];
            const bool there = met[k] == met[r] && made[k] < its->n_steps && its->step[made[k]].kind == step->kind;
            if (!there && met[k] <= met[r]) return false;
        }
        return true;
    }
    if (step->kind != ZR_STEP_SENT && step->kind != ZR_STEP_RECEIVED) return true;
    const bool sends = step->kind == ZR_STEP_SENT;
    const zr_schedule *other = &plans->role[step->peer]->schedule[kind];
    const int32_t there =
        made_in(other, step->peer, made[step->peer], sends ? ZR_STEP_RECEIVED : ZR_STEP_SEND, step, r);
    int32_t own = 0;
    for (int32_t i = 0; i < made[r]; i++)
        own += s->step[i].kind == step->kind && s->step[i].value == step->value && s->step[i].peer == step->peer;
    return there > own;
}

/* Run the steps of all roles in the order of their lists. If one such run ends, every run ends, whatever the times: a
 * step waits only for given steps of other roles, not for what comes first. */
static zr_status check_ends(const zr_plans *plans, zr_schedule_kind kind)
{
    int32_t made[ZR_ROLES] = {0}, met[ZR_ROLES] = {0};
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < plans->n; r++) {
            const zr_schedule *s = &plans->role[r]->schedule[kind];
            while (made[r] < s->n_steps && may_go_on(plans, kind, made, met, r)) {
                met[r] += zr__asks_all(&s->step[made[r]]) && s->step[made[r]].kind != ZR_STEP_TRUST;
                made[r]++;
                moved = true;
            }
        }
    }
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_schedule *s = &plans->role[r]->schedule[kind];
        const zr_step *step = &s->step[made[r]];
        ZR_CHECK(made[r] == s->n_steps, ZR_ERR_INTERNAL,
                 "role %d waits forever in step %d (%s), for role %d with value %d of micro-batch %d", r, made[r],
                 zr_step_kind_name(step->kind), step->peer, step->value, step->micro);
    }
    return ZR_OK;
}

zr_status zr_plans_check(const zr_plans *plans)
{
    for (int32_t r = 0; r < plans->n; r++) ZR_TRY(zr_plan_check(plans->role[r]));
    for (int k = 0; k < ZR_SCHEDULES && plans->n > 1; k++) {
        if (!plans->role[0]->schedule[k].buffer) continue;
        ZR_TRY(check_channels(plans, (zr_schedule_kind)k));
        ZR_TRY(check_ends(plans, (zr_schedule_kind)k));
    }
    return ZR_OK;
}
