/* Declarations of the build with a made-up kind of step and stream. */
#ifndef MADE_UP_ECHO_H
#define MADE_UP_ECHO_H

#include <string.h>

#include "plan/policy/policy.h"
#include "zr/plan.h"

#define MADE_UP_ECHO "echo of a gradient"

/* Whether plans made from now on have the made-up policy. */
extern bool made_up_echoes;

/* Return the buffer that holds a unit's echo. */
int32_t made_up_echo_of(const zr_plan *plan, int32_t unit);

#endif
