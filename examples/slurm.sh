#!/bin/sh
# Train under Slurm until the run is done: whenever the time of the job is nearly over, the run saves a checkpoint and
# ends with 75, and the job goes into the queue again. docs/operations.md says more.
#
#   sbatch slurm.sh CONFIG.json OUTPUT_DIR [OPTION...]
#
#SBATCH --job-name=zr
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
# 300 seconds before the end (Slurm may be 60 early) each rank gets SIGUSR1: a step and a save must fit in between.
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
config=${1:?usage: sbatch slurm.sh CONFIG.json OUTPUT_DIR [OPTION...]}
dir=${2:?usage: sbatch slurm.sh CONFIG.json OUTPUT_DIR [OPTION...]}
shift 2

# With --resume the first start, at step 0, is like every other.
srun --mpi=pmix "${ZR:-zr}" train "$config" --train.output_dir="$dir" --resume "$@"
rc=$?

case $rc in
75) # stopped, and saved
    scontrol requeue "$SLURM_JOB_ID"
    exit ;;
82 | 83 | 137 | 139) # a rank hung, was lost or was killed: perhaps a bad node
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "${ZR_RETRIES:-3}" ]; then
        scontrol requeue "$SLURM_JOB_ID"
        exit
    fi ;;
esac
exit $rc
