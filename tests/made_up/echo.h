/* Declarations of the build with a made-up kind of step, stream and axis. */
#ifndef MADE_UP_ECHO_H
#define MADE_UP_ECHO_H

#include <string.h>

#include "plan/policy/policy.h"
#include "zr/plan.h"

#define MADE_UP_ECHO "echo of a gradient"

/* Whether plans made from now on have the made-up policy. */
extern bool made_up_echoes;

/* Number of ranks along the axis TEAM of plans made from now on, which all do the same; the index of a unit whose
 * states are shared only by ranks of a group LOCAL, or -1; and the index of a unit that the role does not hold, or -1.
 */
extern int32_t made_up_teams, made_up_near, made_up_lacked;

/* Return the buffer that holds a unit's echo. */
int32_t made_up_echo_of(const zr_plan *plan, int32_t unit);

#endif
