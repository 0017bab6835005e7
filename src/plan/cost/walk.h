/** The walk through the training schedules of all roles, by which plans are priced (walk.c). */
#ifndef ZR_PLAN_COST_WALK_H
#define ZR_PLAN_COST_WALK_H

#include "plan/cost/cost.h"

/** Result of a walk. */
typedef struct zr__walked {
    double step_sec;         /* time of a training step, until all roles have ended it */
    int32_t busiest;         /* role whose compute stream is busy longest */
    double busy[ZR_STREAMS]; /* busy time of each stream of that role, */
    double bubble_sec;       /* and the time for which its compute stream waits for other roles */
    double save_sec;         /* longest busy time of a SAVE stream */
} zr__walked;

/** Walk through a training step that follows another training step, including the gathers of parameters that the
 * previous step has updated. `saves`: whether it saves states. time[role] receives the times of each step as in
 * zr_plans_times; `time` may be NULL. A role without the others is walked as if they never made it wait. Return
 * ZR_ERR_STATE if a plan has no training schedule, or ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__walk_roles(const zr_plans *plans, const zr__pricer *pricer, bool saves,
                                      zr_step_time *const *time, zr__walked *walked);

#endif
