#TEST timeout=240 mpi=1 long=more build=tests/zr_fault
# Check that a failure of one process of several ends the job at once, with its own message and exit code, whatever
# groups of ranks there are. The peers are in another call then, so the failed rank must not wait for them.
here=${ZR_SOURCE:-$PWD}/tests
. tests/support/command.inc
mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -z "$mpirun" ] || ! command -v ${mpirun%% *} >/dev/null || ! "$ZR" info | grep -q '^transports .*mpi'; then
    skip "a rank that fails alone" "no mpirun, or built without MPI"
    echo "1..$n"
    exit
fi
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1 ZR_STORE=threads
i=0
while [ $i -lt 100 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
# Between micro-batches and between batches of an evaluation ranks agree, which must not make a later failure agreed.
cat >c.json <<'END_JSON'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 16},
 "data": {"train": "text.txt", "val": "val.txt"}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 1,
 "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "nvme"},
                       "offload_optimizer": {"device": "nvme", "nvme_path": "nvme"}},
 "train": {"steps": 1, "threads": 1, "eval_batches": 2, "hang_timeout": 60, "output_dir": "run"}}
END_JSON
cp text.txt val.txt
mkdir nvme
zo=zero_optimization

# lone RANK VARIABLES... -- ARGUMENTS: run four processes, of which only this one has the variables.
lone() {
    who=$1 set=
    shift
    while [ "$1" != -- ]; do set="$set $1" && shift; done
    shift
    rm -rf run
    WHO=$who SET=$set $mpirun -n 4 sh -c '
        [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK-}}" != $WHO ] || export $SET
        exec "$0" train c.json --quiet "$@"' "$FAULTY" "$@" >out 2>err
}
told() { # NAME CODE PATTERN: the last run ended with this code, and with one message
    check "$1" test $rc = "$2"
    check "... with its cause" said_once "$3"
}

if [ -n "${SAN-}" ] || ! ${CC:-cc} -shared -fPIC -O1 -o faults.so "$here/preload/fs_faults.c" -ldl; then
    skip "a rank whose disk fails" "no library is preloaded with sanitizers"
    echo "1..$n"
    exit
fi
disk() { # NAME KIND AT FOLDER PATTERN ARGUMENTS: a read or write of rank 2 fails
    name=$1 pattern=$5
    kind=$2 at=$3 under=$4
    shift 5
    lone 2 LD_PRELOAD="$DIR/faults.so" FS_FAULT_CALL="$kind" FS_FAULT_AT="$at" FS_FAULT_UNDER="$DIR/$under" -- "$@"
    rc=$?
    told "$name" 74 "$pattern"
}
store='rank 2: cannot [a-z]* .* of .*: Input/output error (step [0-9]* of the schedule, copy of'
disk "tensor-parallel ranks, in a step" read 15 nvme "$store" --parallel.tensor=2
disk "shard groups, in a step" write 14 nvme "$store" --$zo.mics_shard_size=2
disk "second partitions, in a step" read 15 nvme "$store" --$zo.offload_param.device=none --$zo.zero_hpz_partition_size=2
disk "collectives of two levels, in a step" read 15 nvme "$store" --parallel.ranks_per_host=2
disk "in an evaluation" read 45 nvme "$store" --parallel.tensor=2
disk "reading a batch" read 23 text.txt 'rank 2: text.txt: cannot read at byte [1-9]' --parallel.tensor=2
disk "writing a checkpoint" write 1 run 'rank 2: run/step-00000001.tmp/.*: cannot write' --parallel.tensor=2 --train.save_interval=1
export ZR_MPI=p2p
disk "without shared memory, in a step" read 15 nvme "$store" --parallel.tensor=2
unset ZR_MPI
lone 2 ZR_FAULT=alloc:3 -- --parallel.tensor=2
rc=$?
told "without memory at the start" 71 'another rank has no memory'

# Two groups of ranks need shared memory. There is room for one group, or for none.
small() { unshare -m sh -c 'mount -t tmpfs -o size=$0 tmpfs /dev/shm && exec "$@"' "$@"; }
if small 1m true 2>/dev/null; then
    wide="--model.n_embd=512 --model.n_positions=128 --$zo.stage=2 --$zo.offload_param.device=none --$zo.offload_optimizer.device=none"
    rm -rf run
    small 16m $mpirun -n 4 "$ZR" train c.json --quiet --parallel.tensor=2 $wide >out 2>err
    rc=$?
    told "too little shared memory for all groups" 71 'of 4 ranks .* takes 19.92 MB .*/dev/shm has only .* MB left of 16.78 MB'
    check "... and how to mend it" grep -q 'remount,size=.*--shm-size.*reduce_bucket_size.*ZR_MPI=p2p' err
    if $mpirun --version | grep -q 'Open MPI'; then
        rm -rf run
        export OMPI_MCA_osc_sm_backing_directory="$DIR"
        check "... unless MPI has the memory elsewhere" small 16m $mpirun -n 4 "$ZR" train c.json --quiet --parallel.tensor=2 $wide
        unset OMPI_MCA_osc_sm_backing_directory
    fi
else
    skip "too little shared memory for all groups" "no mount namespace for this user"
fi
[ -n "${ZR_LONG-}" ] || { echo "1..$n"; exit; }

# Every place: reads and writes of the store, of data and of checkpoints, and allocations.
save="--train.save_interval=1 --train.steps=2"
for groups in --parallel.tensor=2 --$zo.mics_shard_size=2 --parallel.ranks_per_host=2; do
    for at in 2 6 11 20 35 50 65 80 100 120; do
        for kind in read write; do
            rm -f log
            lone 2 LD_PRELOAD="$DIR/faults.so" FS_FAULT_CALL=$kind FS_FAULT_AT=$at FS_FAULT_UNDER="$DIR/nvme" FS_FAULT_LOG="$DIR/log" -- $groups $save
            rc=$?
            [ $rc = 0 ] && grep -q '^failures 0' log || told "$kind $at with $groups" 74 'rank 2: '
        done
    done
done
for at in 1 2 3 4 5 6 8 12 20; do
    for kind in read write fsync open; do
        for under in run val.txt; do
            rm -f log
            lone 2 LD_PRELOAD="$DIR/faults.so" FS_FAULT_CALL=$kind FS_FAULT_AT=$at FS_FAULT_UNDER="$DIR/$under" FS_FAULT_LOG="$DIR/log" -- --parallel.tensor=2 $save
            rc=$?
            check "$kind $at of $under" test $rc = 74 -o $rc = 0 -o $rc = 78
        done
    done
done
for at in 2 4 8 12 15 450 500 550 600 650 700 750 800 850 900 950 1000 1050 1100 1150 1200 1250 1300; do
    lone 2 ZR_FAULT=alloc:$at -- --parallel.tensor=2 $save
    rc=$?
    told "allocation $at" 71 'memory'
done
echo "1..$n"
