#TEST build=tests/zr_stand_in timeout=120 mpi=1
# Check processes on GPUs from the command, on the stand-ins of tests/cuda: the bits of thread ranks, measured bytes as
# planned, runs resumed with the other kind of ranks, and the message for more processes than GPUs.
. tests/support/command.inc
GPU=$(dirname "$ZR")/tests/zr_stand_in

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -z "$mpirun" ] || ! command -v ${mpirun%% *} >/dev/null || ! "$ZR" info | grep -q '^transports .*mpi'; then
    skip "processes on GPUs" "no mpirun, or built without MPI"
    echo "1..$n"
    exit
fi
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1


i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 1, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 4, "device": "cuda",
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "train": {"steps": 3, "threads": 1, "eval_interval": 2, "eval_batches": 2, "save_interval": 2, "output_dir": "none"}}
END
threads() { # DIR RANKS KEYS...
    dir=$1 ranks=$2
    shift 2
    "$GPU" train c.json --ranks "$ranks" --quiet --train.output_dir="$dir" "$@"
}
processes() { # DIR RANKS KEYS...
    dir=$1 ranks=$2
    shift 2
    $mpirun -n "$ranks" "$GPU" train c.json --quiet --train.output_dir="$dir" "$@"
}

for stage in 1 3; do
    check "2 threads, stage $stage" threads threads-$stage 2 --zero_optimization.stage=$stage
    check "2 processes, stage $stage" processes processes-$stage 2 --zero_optimization.stage=$stage
    check "... the same bits" same threads-$stage processes-$stage
    check "... planned is measured" as_planned processes-$stage
done
check "threads go on where processes were" threads processes-3 2 --zero_optimization.stage=3 --resume --train.steps=5
check "processes go on where threads were" processes threads-3 2 --zero_optimization.stage=3 --resume --train.steps=5
check "... with the same bits" same threads-3 processes-3
check "a pipeline of 2 processes" processes piped 2 --parallel.pipeline=2 --gradient_accumulation_steps=4
check "... planned is measured" as_planned piped
check "one rank" threads alone 1 --gradient_accumulation_steps=4
check "... the same bits" same alone piped
near() { # A B: losses and norms within 1e-4 of each other
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2 >a
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$2/metrics.jsonl" | cut -d: -f2 >b
    [ -s a ] && paste a b | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $1) exit 1 }'
}
processes zr 2 --zero_optimization.stage=2 >&2
check "NCCL's own sums" processes nccl 2 --zero_optimization.stage=2 --collectives.reduce=nccl
check "... planned is measured" as_planned nccl
check "... near zr's" near zr nccl
check "... not between threads" code 69 threads none 2 --collectives.reduce=nccl
check "... which is said by name" grep -q 'collectives.reduce: nccl sums between processes, and 2 ranks are threads' err
check "... not on processors" code 78 threads none 2 --collectives.reduce=nccl --device=cpu
check "... in a plan" sh -c "'$ZR' plan c.json --device=cuda --collectives.reduce=nccl --ranks 2 --profile h100 --schedule >a && grep 'reduce_scatter ' a >&2 && ! grep 'reduce_scatter ' a | grep -qv 'by NCCL'"
ZR_STAND_IN_NCCL_BYTES=2700000000
export ZR_STAND_IN_NCCL_BYTES
check "communicators that leave no room for CUDA" code 71 processes full 2 --zero_optimization.stage=3
check "... are refused before training" grep -q "NCCL's communicators and CUDA's libraries have taken 8.1. GB of GPU memory beside the plan's .* but the GPU has 8.59 GB; let NCCL take less" err
ZR_STAND_IN_NCCL_BYTES=500000000
check "... or within memory.limit" code 71 processes full 2 --zero_optimization.stage=3 --memory.limit=1.9GB
check "... which the message names" grep -q 'but memory.limit is 1.90 GB' err
check "... or with a pipeline's" code 71 processes full 2 --parallel.pipeline=2 --gradient_accumulation_steps=4 \
    --memory.limit=2.9GB
check "... which have more communicators" grep -q "NCCL's communicators .* have taken [34].[0-9]* GB" err
unset ZR_STAND_IN_NCCL_BYTES
check "more processes than GPUs" code 69 processes none 4 --zero_optimization.stage=2
check "... are refused by name" grep -q 'ranks 0 and 2 are processes on the same GPU (0000:00:00.0 of .*--ranks' err
echo "1..$n"
