/**
 * plan/policy: choices of a layout beside the ZeRO stage, a file each.
 * A policy is a row of policies.c: hooks that check a layout, choose among plans, add buffers, or write and rewrite
 * steps. A new policy belongs here, and needs no change elsewhere.
 */
#ifndef ZR_PLAN_POLICY_H
#define ZR_PLAN_POLICY_H

#include "plan/list/list.h"
#include "plan/program/program.h"

/* A choice of the layout beside the ZeRO stage, in a file of its own. Hooks are called in the order in which a plan is
 * made; NULL: the policy does nothing there. */
typedef struct zr__policy {
    /* Refuse an impossible layout: ZR_ERR_CONFIG, ZR_ERR_UNSUPPORTED. */
    zr_status (*check)(const zr_layout *layout);
    /* Return whether the layout leaves a choice open; create the best of the plans that the choice allows. */
    bool (*chooses)(const zr_layout *layout);
    zr_status (*create)(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan);
    /* Add persistent buffers. */
    zr_status (*add_buffers)(zr_plan *plan);
    /* Write steps at the beginning of a round of training. */
    void (*round)(zr__list *l);
    /* Write steps for a unit's gradient of this micro-batch after it is complete and before it is reduced. */
    void (*gradient)(zr__list *l, int32_t unit, const zr_state *gradient);
    /* Add to NORM, the newest step of the list. */
    void (*norm)(zr__list *l, zr__id norm);
    /* Change the list of a whole schedule. */
    void (*rewrite)(zr__list *l);
} zr__policy;

extern const zr__policy zr__policy_noise, zr__policy_save, zr__policy_recompute, zr__policy_residency;

zr_status zr__policies_check(const zr_layout *layout);
/* Return the first policy whose choice the layout leaves open; NULL if every choice is made. */
const zr__policy *zr__policies_choose(const zr_layout *layout);
zr_status zr__policies_add_buffers(zr_plan *plan);
void zr__policies_round(zr__list *l);
void zr__policies_gradient(zr__list *l, int32_t unit, const zr_state *gradient);
void zr__policies_norm(zr__list *l, zr__id norm);
void zr__policies_rewrite(zr__list *l);

/* Create one plan with these policies (plan.c). */
zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan);

#endif
