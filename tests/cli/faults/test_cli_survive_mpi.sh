#TEST timeout=600 mpi=1 long=1 build=tests/zr_fault
# Check that the launcher, or the other processes, end the job after one process is killed.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/survive.inc"

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -z "$mpirun" ] || ! command -v ${mpirun%% *} >/dev/null || ! "$ZR" info | grep -q '^transports .*mpi'; then
    skip "ranks under mpirun" "no mpirun, or built without MPI"
    echo "1..$n"
    exit
fi
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1
for ranks in 2 3; do
    rm -rf whole
    check "a run of $ranks that nothing disturbs" "$ZR" train c.json --ranks $ranks --quiet --train.output_dir=whole
    survive "$ranks processes" $((ranks - 1)) $mpirun -n $ranks "$ZR" train c.json
done
echo "1..$n"
