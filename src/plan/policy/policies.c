/* Lists the policies that take part in a plan. Their hooks are called in the order of the list. */
#include "plan/policy/policy.h"

static const zr__policy *const policies[] = {
    &zr__policy_noise, &zr__policy_save, &zr__policy_recompute, &zr__policy_homes, &zr__policy_residency,
};
enum { POLICIES = sizeof policies / sizeof *policies };

zr_status zr__policies_check(const zr_layout *layout)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->check) ZR_TRY(policies[i]->check(layout));
    return ZR_OK;
}

const zr__policy *zr__policies_choose(const zr_layout *layout)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->chooses && policies[i]->chooses(layout)) return policies[i];
    return NULL;
}

zr_status zr__policies_add_buffers(zr_plan *plan)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->add_buffers) ZR_TRY(policies[i]->add_buffers(plan));
    return ZR_OK;
}

void zr__policies_round(zr__list *l)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->round) policies[i]->round(l);
}

void zr__policies_gradient(zr__list *l, int32_t unit, const zr_state *gradient)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->gradient) policies[i]->gradient(l, unit, gradient);
}

void zr__policies_norm(zr__list *l, zr__id norm)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->norm) policies[i]->norm(l, norm);
}

void zr__policies_rewrite(zr__list *l)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i]->rewrite) policies[i]->rewrite(l);
}
