#TEST timeout=120 mpi=1
# Check --memory alone: stage, recompute policy and micro-batch that are not given are chosen alike by zr plan and zr
# train, kept in the run's directory, and not chosen again when the run is resumed.
. tests/support/command.inc

XDG_CACHE_HOME=$PWD/cache # an empty cache, so that only default rates are used
export XDG_CACHE_HOME
chosen() { sed -n 's/.*chosen for memory.limit [^:]*: \(.*\), [0-9.]* [kMG]*B a rank: .*/\1/p' "$1"; }

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 64, "n_positions": 64},
 "data": {"train": "text.txt"}, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "train": {"steps": 4, "threads": 1, "save_interval": 2}}
END
train() { # DIR KEYS...
    dir=$1
    shift
    "$ZR" train c.json --ranks 2 --train.output_dir="$dir" "$@"
}
key() { sed -n "s/.*\"$2\": \"*\([a-z0-9]*\)\"*,*\$/\1/p" "$1/config.json" | head -n 1; }

check "planned" "$ZR" plan c.json --ranks 2 --memory 56MB --json
plan=$(chosen err)
check "... says what was chosen, and why" grep -q 'zero_optimization.stage [0-3], activation_checkpointing.policy [a-z]*, train_micro_batch_size_per_gpu [0-9]* x gradient_accumulation_steps 1, .* a rank: within 2 % of the fastest that fits by usual rates' err
check "trained" train run --memory 56MB
check "... as planned" test "$(chosen err)" = "$plan"
check "... measured what was planned" as_planned run
stage=$(key run stage) policy=$(key run policy) rows=$(key run train_micro_batch_size_per_gpu)
check "... which the directory keeps" test "zero_optimization.stage $stage, activation_checkpointing.policy $policy, train_micro_batch_size_per_gpu $rows x gradient_accumulation_steps 1" = "$plan"
check "... with the samples of a step" test "$(key run train_batch_size)" = $((2 * rows))
given="--zero_optimization.stage=$stage --activation_checkpointing.policy=$policy --train_micro_batch_size_per_gpu=$rows"
check "all given: a limit" train given --memory 56MB $given
check "... nothing is chosen" sh -c '! grep -q chosen err'
check "... the same losses and weights" same run given
check "half of it" train half --memory 56MB --train.steps=2
check "... goes on by its own configuration" "$ZR" train half/config.json --ranks 2 --resume --train.steps=4
check "... where nothing is chosen" sh -c '! grep -q chosen err'
check "... to the same losses and weights" same run half
mixed=none # the least limit with room for some activations
for limit in 55.5 55 54.5 54 53.5 53; do
    "$ZR" plan c.json --ranks 2 --memory ${limit}MB --json 2>&1 >/dev/null | grep 'policy auto.*fastest' | grep -qv nvme && mixed=${limit}MB
done
check "hardly any room: policy auto" train tight --memory $mixed --train.steps=2
check "... is kept with its limit" test "$(key tight policy)" = auto
rows=$(key tight train_micro_batch_size_per_gpu)
check "... and goes on with what it has" "$ZR" train tight/config.json --ranks 2 --resume --train.steps=4
check "... measured what was planned" as_planned tight
check "... its samples too" test "$(key tight train_micro_batch_size_per_gpu)" = "$rows"
rows=$(key run train_micro_batch_size_per_gpu)
check "half of it, again" train more --memory 56MB --train.steps=2
check "... goes on with other room" train more --memory 70MB --resume
check "... and its samples" test "$(key more train_micro_batch_size_per_gpu)" = "$rows"
check "... to the same losses" same run more
batch="--zero_optimization.stage=1 --activation_checkpointing.policy=none"
check "the batch alone is open" train batch --memory 70MB $batch --train.steps=2
all=$(key batch train_batch_size)
check "... goes on" train batch --memory 70MB $batch --resume
check "... with all samples of a step" test "$(key batch train_batch_size)" = "$all"
check "... as many as are trained" sh -c "[ \$(grep -c '\"tokens\":' batch/metrics.jsonl) = \$(grep -c '\"tokens\":$(grep -o '"tokens":[0-9]*' batch/metrics.jsonl | head -n 1 | sed 's/.*://'),' batch/metrics.jsonl) ]"
check "micro-batches that are given" train batch --memory 70MB $batch --gradient_accumulation_steps=2 --train.steps=6 --resume
check "... stay" test "$(key batch gradient_accumulation_steps)" = 2
check "a batch of which auto is said is spoken of once" train said --memory 70MB --train_batch_size=auto
check "... when it is chosen" sh -c "! grep -q 'train_batch_size: auto, taken' err"

check "a limit by its key is a limit" train limit --memory.limit=56MB
check "... nothing is chosen" test "$(key limit stage) $(key limit policy) $(key limit train_micro_batch_size_per_gpu)" = "0 none 1"
for command in plan train; do
    check "zr $command: two limits" fails 2 '--memory 56MB and --memory.limit are the same setting' "$ZR" $command c.json --memory 56MB --memory.limit=1GB
done
check "parameters that are offloaded" train param --memory 56MB --zero_optimization.offload_param.device=cpu --train.steps=2
check "... are those of stage 3" test "$(key param stage)" = 3
check "... which the run's configuration resumes" "$ZR" train param/config.json --ranks 2 --resume --train.steps=3
check "a step's samples stay" train samples --memory 56MB --train_batch_size=24
check "... as they are" test "$(key samples train_batch_size)" = 24
check "too little" fails 71 'needs .* per rank .* memory.limit is 50.00 MB' train none --memory 50MB
check "... leaves nothing" test ! -e none
check "a plan of it shows what comes nearest" prints 'nothing fits' "$ZR" plan c.json --ranks 2 --memory 50MB
check "... and says so" grep -q 'which comes nearest, .* a rank: nothing fits' err
check "the largest micro-batch is another question" "$ZR" plan c.json --ranks 2 --memory 56MB --max batch --stage 0 --json
check "... at what is configured" grep -q '"stage": 0' out
check "a preset, without a configuration" "$ZR" plan --preset gpt2-124m --memory 8GB --ranks 2 --json
check "... chosen" grep -q 'chosen for memory.limit 8.00 GB' err
check "... a micro-batch that is given stays" "$ZR" plan --preset gpt2-124m --memory 8GB --ranks 2 --batch 2 --json
check "... and is not spoken of" sh -c '! grep -q "per_gpu" err'

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "under mpirun" $mpirun -n 2 "$ZR" train c.json --memory 56MB --train.output_dir=mpi
    check "... the same" same run mpi
else
    skip "under mpirun" "no mpirun, or built without MPI"
fi
echo "1..$n"
