#TEST timeout=120 mpi=1
# Check groups of data-parallel ranks from the command: as thread ranks and under mpirun, on simulated hosts.
. tests/support/command.inc

as_planned() { # DIR KEYS... : with a line of its own for each of these
    part "$1" planned >a && part "$1" measured >b && cmp a b >&2 || return
    shift
    for key; do grep -q "\"$key\": {\"reduce_scatter\": [0-9]*," a || return; done
}

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt"}, "train_batch_size": 16, "gradient_accumulation_steps": 2,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3}, "train": {"steps": 4, "threads": 1, "output_dir": "flat"}}
END
check "flat" "$ZR" train c.json --ranks 4 --quiet
train() { # DIR KEYS... : with four ranks, two a host
    dir=$1
    shift
    "$ZR" train c.json --ranks 4 --quiet --parallel.ranks_per_host=2 --train.output_dir="$dir" "$@"
}
for way in mics_shard_size zero_hpz_partition_size; do
    check "$way" train $way --zero_optimization.$way=2 --collectives.hierarchical=false
    check "... to the bit" same flat $way
    check "... planned and measured, what stays within and goes across beside it" as_planned $way within across across_hosts
done
check "hierarchical, as auto has it between hosts" train levels
check "... to the bit" same flat levels
check "... planned and measured" as_planned levels across_hosts
check "... groups are not named where there are none" sh -c '! grep -q within levels/run.json'
check "... a plan shows what travels between hosts" sh -c "'$ZR' plan c.json --ranks 4 --parallel.ranks_per_host=2 | grep 'across hosts'"
# Ranks that share layers: two on each host, of which two data-parallel ranks make a group.
shared() { # DIR KEYS...
    dir=$1
    shift
    "$ZR" train c.json --ranks 8 --quiet --parallel.tensor=2 --parallel.ranks_per_host=4 --train.output_dir="$dir" "$@"
}
check "two ranks a layer" shared pairs
for way in zero_optimization.mics_shard_size=2 zero_optimization.zero_hpz_partition_size=2 collectives.hierarchical=true; do
    check "... with $way" shared pairs-$way --$way
    check "... to the bit" same pairs pairs-$way
    check "... planned and measured" as_planned pairs-$way data tensor across_hosts
done
whole() { # traffic within groups, across them and between the ranks of a layer adds up to the total
    part "$1" measured | sed 's/^/{"m":/; s/$/}/' >whole.json && python3 - <<'END'
import json
t = json.load(open("whole.json"))["m"]["traffic"]
for kind in "reduce_scatter", "all_gather", "all_reduce", "total":
    assert t["within"][kind] + t["across"][kind] + t["tensor"][kind] == t[kind], (kind, t)
END
}
for way in mics_shard_size zero_hpz_partition_size; do
    check "$way: within, across and of layers are all" whole pairs-zero_optimization.$way=2
done
check "layers on whole hosts: one data-parallel rank a host has no level within" shared hosts-1 \
    --parallel.ranks_per_host=2 --collectives.hierarchical=true
check "... and moves no more" test "$(part pairs measured | sed 's/.*"total": \([0-9]*\), "data".*/\1/')" = \
    "$(part hosts-1 measured | sed 's/.*"total": \([0-9]*\), "data".*/\1/')"
check "a run of shard groups" shared going --zero_optimization.mics_shard_size=2 --train.steps=2 --train.save_interval=2
check "... goes on without them" shared going --resume
check "... to the bit" same pairs going
fewer() { # a key reduces the bytes of gathers across hosts
    gathered() { part "$1" measured | sed 's/.*"across_hosts": {"reduce_scatter": [0-9]*, "all_gather": \([0-9]*\).*/\1/'; }
    [ "$(gathered "pairs-$1")" -gt 0 ] && [ "$(gathered "pairs-$1")" -lt "$(gathered pairs)" ]
}
for way in zero_optimization.mics_shard_size=2 zero_optimization.zero_hpz_partition_size=2 collectives.hierarchical=true; do
    check "fewer bytes between hosts with $way" fewer $way
done
check "layers that reach beyond a host" code 78 shared wide --parallel.ranks_per_host=1 --collectives.hierarchical=true
check "... say what is wanted" grep -q 'parallel.tensor 2 and parallel.ranks_per_host 1: the first must divide the second' err
check "hosts of which the last is not full" code 78 shared odd --ranks 6 --train_batch_size=12 --collectives.hierarchical=true
check "... are refused" grep -q 'in a host of collectives.hierarchical, of 3: a power of two that divides' err
mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    for way in mics_shard_size zero_hpz_partition_size; do
        check "$way under mpirun" $mpirun -n 4 "$ZR" train c.json --quiet --parallel.ranks_per_host=2 \
            --zero_optimization.$way=2 --train.output_dir=mpi-$way
        check "... to the bit" same flat mpi-$way
        check "... planned and measured" as_planned mpi-$way within across across_hosts
    done
else
    skip "groups under mpirun" "no mpirun, or built without MPI"
fi
check "groups that do not divide the ranks" code 78 train odd --zero_optimization.mics_shard_size=3
check "... say what would" grep -q 'mics_shard_size), of 4: a power of two that divides them' err
check "a second partition at stage 2" code 78 train early --zero_optimization.zero_hpz_partition_size=2 --zero_optimization.stage=2
check "... says for which it is" grep -q 'it is for stage 3' err
check "both" code 78 train both --zero_optimization.mics_shard_size=2 --zero_optimization.zero_hpz_partition_size=2
check "... say why not" grep -q 'gathers stay within a group already' err
check "checkpoints on the host" "$ZR" train c.json --ranks 4 --quiet --train.output_dir=offload \
    --activation_checkpointing.policy=unit --activation_checkpointing.cpu_checkpointing=true
check "... to the bit" same flat offload
check "... a plan shows both spaces" sh -c "'$ZR' plan c.json --ranks 4 --activation_checkpointing.policy=unit \
    --activation_checkpointing.cpu_checkpointing=true | grep 'on host: checkpoints'"
check "without a policy there are none" "$ZR" plan c.json --activation_checkpointing.cpu_checkpointing=true
check "... which is said" grep -q "note: activation_checkpointing: nothing is checkpointed, and nothing kept on the host, because policy is none" err
echo "1..$n"
