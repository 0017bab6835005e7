/** plan/policy: choices of a layout other than the ZeRO stage. Each policy has its own file and an entry in policies.c.
 * Its hooks check a layout, choose among plans, add buffers, or write and rewrite steps. A new policy is a file in this
 * folder and a row of policies.c. Its switch is a field of zr_layout, which src/train/setup/layout.c sets from a key.
 */
#ifndef ZR_PLAN_POLICY_H
#define ZR_PLAN_POLICY_H

#include "plan/list/list.h"
#include "plan/program/program.h"

/* The hooks of a policy, in the order in which they are called while a plan is created. A hook may be NULL. */
typedef struct zr__policy {
    /* Reject an impossible layout with ZR_ERR_CONFIG or ZR_ERR_UNSUPPORTED. */
    zr_status (*check)(const zr_layout *layout);
    /* `chooses` returns whether the layout leaves the choice to this policy. If so, `create` creates plans for the
     * possible choices and returns the best. */
    bool (*chooses)(const zr_layout *layout);
    zr_status (*create)(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan);
    /* Add persistent buffers. */
    zr_status (*add_buffers)(zr_plan *plan);
    /* Write steps at the beginning of a micro-batch of the training schedule. */
    void (*round)(zr__list *l);
    /* Write steps that use a unit's gradient of this micro-batch, when it is complete and not yet reduced. */
    void (*gradient)(zr__list *l, int32_t unit, const zr_state *gradient);
    /* Add operands to the step NORM, which is the newest step of the list. */
    void (*norm)(zr__list *l, zr__id norm);
    /* Rewrite the steps of a complete schedule. */
    void (*rewrite)(zr__list *l);
} zr__policy;

extern const zr__policy zr__policy_noise, zr__policy_save, zr__policy_recompute, zr__policy_residency;
extern const zr__policy zr__policy_homes;

zr_status zr__policies_check(const zr_layout *layout);
/* Return the first policy to which the layout leaves a choice, or NULL if the layout decides everything. */
const zr__policy *zr__policies_choose(const zr_layout *layout);
zr_status zr__policies_add_buffers(zr_plan *plan);
void zr__policies_round(zr__list *l);
void zr__policies_gradient(zr__list *l, int32_t unit, const zr_state *gradient);
void zr__policies_norm(zr__list *l, zr__id norm);
void zr__policies_rewrite(zr__list *l);

/* Create one plan with the recompute policies and checkpoint storage of `mix`, without a search (plan.c). */
zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan);

#endif
