#!/bin/sh
# Copy the sources that plan, run, price and draw schedules to FOLDER, and add a row to their tables: a kind of step,
# ECHO, a stream, SIDE, and an axis of the grid of ranks, TEAM, with its size; and roles that lack a unit.
# Usage: rows.sh FOLDER
set -eu
to=$1
rm -rf "$to/include" "$to/src"
mkdir -p "$to/src"
cp -r include "$to/"
cp -r src/plan src/engine src/simulate src/cli "$to/src/"
cp tests/made_up/echo.c "$to/src/plan/policy/"

# row FILE ANCHOR ROW: insert ROW before the only line that begins with ANCHOR.
row() {
    [ "$(grep -cF -- "    $2" "$to/$1")" = 1 ] || { echo "rows.sh: $1 has not one line of \"$2\"" >&2; exit 1; }
    awk -v anchor="    $2" -v row="    $3" 'index($0, anchor) == 1 { print row } { print }' "$to/$1" >"$to/made"
    mv "$to/made" "$to/$1"
}
row include/zr/schedule.h 'X(COMM, "comm") ' 'X(SIDE, "side") \\'
row include/zr/schedule.h 'X(LOSS, "loss") ' 'X(ECHO, "echo") \\'
row include/zr/schedule.h 'X(ACROSS, "across", 1)' 'X(TEAM, "team", 0) \\'
row src/plan/plan.c '    [ZR_AXIS_ACROSS] = ' '    [ZR_AXIS_TEAM] = made_up_teams,'
row src/plan/list/states.c '    const int64_t ranks = plan->group[u->sum_group].size' \
    '    if (i == made_up_near) u->shard_group = ZR_GROUP_LOCAL;'
row src/plan/list/states.c '    u->elems = u->held' '    u->held = i != made_up_lacked;'
row src/plan/policy/policies.c '&zr__policy_noise,' '&zr__policy_echo,'
row src/engine/walk.c '[ZR_STEP_BATCH] = ' '[ZR_STEP_ECHO] = run_copy,'
row src/cli/draw/picture_lanes.c '[ZR_STEP_CAST] = ' '[ZR_STEP_ECHO] = WORK_COPY,'
# Declare the policy in the header that the table includes, and the rest in the plan's own.
echo 'extern const zr__policy zr__policy_echo;' >"$to/made"
sed -i -e '/^extern const zr__policy /r '"$to/made" "$to/src/plan/policy/policy.h"
echo 'extern int32_t made_up_teams, made_up_near, made_up_lacked;' >"$to/made"
sed -i -e '/^#include "zr.plan.h"/r '"$to/made" "$to/src/plan/list/list.h"
rm "$to/made"
