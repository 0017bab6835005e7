#!/bin/sh
# Train under plain mpirun until the run is done: it is started again whenever it has stopped with a checkpoint (75), and
# where a rank was lost. SIGTERM, SIGINT and SIGUSR1 to this script stop the run with a checkpoint, and the script ends
# with 75; SIGUSR2 saves, and the run goes on. docs/operations.md says more.
#
#   mpirun-requeue.sh RANKS CONFIG.json OUTPUT_DIR [OPTION...]
#
# MPIRUN: the launcher and its options; ZR: the command; ZR_RETRIES: how often it is started again without a new
# checkpoint in between [3]; ZR_REQUEUE: what is run after a stop from outside, as "scontrol requeue $SLURM_JOB_ID".
set -u
usage='usage: mpirun-requeue.sh RANKS CONFIG.json OUTPUT_DIR [OPTION...]'
ranks=${1:?$usage} config=${2:?$usage} dir=${3:?$usage}
shift 3

# mpirun kills its ranks one second after a SIGTERM, which is no time to save. So it gets SIGUSR1, which it hands on to
# them, and leaves their exit code as it is.
asked=0 pid=
trap 'asked=1; [ -z "$pid" ] || kill -USR1 "$pid"' TERM INT USR1
trap '[ -z "$pid" ] || kill -USR2 "$pid"' USR2

start() { # into rc
    # shellcheck disable=SC2086
    ${MPIRUN:-mpirun} -n "$ranks" "${ZR:-zr}" train "$config" --train.output_dir="$dir" --resume "$@" &
    pid=$!
    while :; do # a signal ends `wait`, not what is waited for
        wait "$pid"
        rc=$?
        [ $rc -gt 128 ] && kill -0 "$pid" 2>/dev/null || break
    done
    pid=
}
newest() { cat "$dir/latest" 2>/dev/null; }

stuck=0 before=$(newest)
while [ $asked = 0 ]; do
    start "$@"
    stuck=$((stuck + 1))
    [ "$(newest)" = "$before" ] || stuck=0
    before=$(newest)
    case $rc in
    75) ;;                         # stopped, and saved: --max-time, or a signal to a rank
    82 | 83 | 137 | 139 | 143) ;; # a rank hung, was lost or was killed
    *) exit $rc ;;
    esac
    [ $stuck -le "${ZR_RETRIES:-3}" ] || exit $rc
done
[ -z "${ZR_REQUEUE:-}" ] || sh -c "$ZR_REQUEUE"
exit 75
