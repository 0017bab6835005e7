#TEST timeout=240 mpi=1 build=tests/zr_fault
# Check runs with states on disk that are killed in an update or between two updates, or whose disk fails. Each resumes
# from its last checkpoint to the losses and weights of a run in memory. Checkpoints have the same bytes.
here=${ZR_SOURCE:-$PWD}/tests
. tests/support/command.inc
i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "bf16": {"enabled": true},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3}, "train": {"steps": 8, "threads": 1, "save_interval": 2, "keep_last": 9}}
END
mkdir nvme
zo=zero_optimization
disk="--$zo.offload_optimizer.device=nvme --$zo.offload_optimizer.nvme_path=nvme --$zo.offload_param.device=nvme"
small="--$zo.sub_group_size=4096 --aio.block_size=8192"
train() { "$ZR" train c.json --train.output_dir="$@"; }
files() { # DIR DIR: all checkpoints of the first are in the second, byte for byte
    for dir in "$1"/step-*; do
        for file in model exp_avg exp_avg_sq; do
            cmp "$dir/$file.safetensors" "$2/${dir##*/}/$file.safetensors" >&2 || return 1
        done
    done
}
none_left() { test -z "$(ls -A nvme)"; }

check "a run in memory" train none --ranks 2
for async in true false; do
    check "states on disk, checkpoint.async $async" train disk$async --ranks 2 $disk $small --checkpoint.async=$async
    check "... the same to the bit" same none disk$async
    check "... as planned" as_planned disk$async
    check "... and in all checkpoints" files none disk$async
done

# One rank of a process is killed at a phase of step 5: memory and disk are lost between two updates.
for where in update gather backward save; do
    rm -rf killed
    ZR_FAULT=kill:1@$where:5 "$FAULTY" train c.json --train.output_dir=killed --ranks 2 $disk $small >out 2>err
    check "killed in $where" test $? = 137 -a ! -e killed/step-00000008
    check "... leaves nothing in the folder" none_left
    rm -f killed/lock
    check "... goes on on disk" train killed --resume --ranks 2 $disk $small
    check "... the same to the bit" same none killed
done
rm -rf killed
ZR_FAULT=kill:0@update:6 "$FAULTY" train c.json --train.output_dir=killed --ranks 2 $disk $small >out 2>err
rm -f killed/lock
check "... or in memory" train killed --resume --ranks 2 --$zo.stage=1
check "... the same to the bit" same none killed

# A disk that fails.
if [ -z "${SAN-}" ] && ${CC:-cc} -shared -fPIC -O1 -o faults.so "$here/preload/fs_faults.c" -ldl; then
    failing() { # AT ERROR ARGUMENTS
        at=$1 error=$2
        shift 2
        ZR_STORE=threads FS_FAULT_CALL=write FS_FAULT_AT=$at FS_FAULT_ERROR=$error FS_FAULT_UNDER=$DIR/nvme FS_FAULT_LOG=$DIR/log \
            LD_PRELOAD=$DIR/faults.so "$ZR" train c.json --train.output_dir="$@" >out 2>err
    }
    rm -f log
    failing 0 EIO counted --ranks 2 $disk $small
    writes=$(sed -n 's/^write //p' log)
    check "a run writes to its disk" test "${writes:-0}" -gt 100
    for at in 3 $((writes / 3)) $((writes * 2 / 3)); do
        rm -rf broken
        failing $at EIO broken --ranks 2 $disk $small
        check "write $at of $writes fails" test $? = 74
        cp err err.fault
        check "... in one message, which names it" said_once 'rank [01]: cannot write .* of .*: byte [0-9]* of a file in the folder .*nvme'
        check "... goes on" train broken --resume --ranks 2 $disk $small
        check "... the same to the bit" same none broken
    done
    check "... in a step of the schedule" sh -c 'grep -q "(step [0-9]* of the schedule, copy of " err.fault'
else
    skip "a disk that fails" "no library is preloaded with sanitizers"
fi

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "processes" $mpirun -n 2 "$ZR" train c.json --train.output_dir=mpi $disk $small
    check "... the same to the bit" same none mpi
    check "... as planned" as_planned mpi
    check "... and in all checkpoints" files none mpi
    ZR_FAULT=kill:1@update:5 $mpirun -n 2 "$FAULTY" train c.json --train.output_dir=dead $disk $small >out 2>err
    check "a process that is killed in an update" test $? != 0 -a ! -e dead/step-00000008
    check "... leaves nothing in the folder" none_left
    rm -f dead/lock
    check "... goes on on disk" $mpirun -n 2 "$ZR" train c.json --train.output_dir=dead --resume $disk $small
    check "... the same to the bit" same none dead
    if [ -e faults.so ]; then
        rm -rf broken
        ZR_STORE=threads FS_FAULT_CALL=write FS_FAULT_AT=60 FS_FAULT_UNDER=$DIR/nvme LD_PRELOAD=$DIR/faults.so \
            $mpirun -n 2 "$ZR" train c.json --train.output_dir=broken $disk $small >out 2>err
        check "a disk that fails under processes" test $? = 74
        check "... says so" grep -q 'cannot write .* of ' err
    fi
else
    skip "processes" "no mpirun, or built without MPI"
fi
echo "1..$n"
