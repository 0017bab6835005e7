/**
 * plan/cost: numbers that are read off a finished plan.
 * Bytes of memory and traffic (account.c), the time of a step on a machine's profile (price.c, profiles.c), the queues
 * on which its streams run (queues.c), the fullest moment of its memory (fullest.c). Nothing here changes a plan.
 */
#ifndef ZR_PLAN_COST_H
#define ZR_PLAN_COST_H

#include "zr/plan.h"

/* Return the bytes that a step brings into one rank; for steps with an owner, into the owner (REDUCE) or into each
 * other rank (BROADCAST). */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
