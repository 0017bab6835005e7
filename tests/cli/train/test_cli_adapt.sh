#TEST timeout=120 mpi=1
# Check what policy auto chooses apart from recomputation: how checkpoints are kept where ranks share layers, and how a
# step's samples are split into micro-batches. zr plan and zr train choose alike, and no choice changes a loss.
. tests/support/command.inc

XDG_CACHE_HOME=$PWD/cache # an empty cache, so that no measured rates are used
export XDG_CACHE_HOME
taken() { sed -n 's/.*gradient_accumulation_steps: auto, set to \([0-9]*\), and train_micro_batch_size_per_gpu as \([0-9]*\).*/\1 x \2/p' "$1"; }

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 64, "n_positions": 64},
 "data": {"train": "text.txt"}, "train_batch_size": 32,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3}, "activation_checkpointing": {"policy": "auto"},
 "train": {"steps": 2, "threads": 1}}
END
auto='--train_micro_batch_size_per_gpu=auto --gradient_accumulation_steps=auto'
plan() { # LIMIT KEYS...
    limit=$1
    shift
    "$ZR" plan c.json --ranks 2 --memory.limit="$limit" "$@"
}
train() { # DIR KEYS...
    dir=$1
    shift
    "$ZR" train c.json --ranks 2 --train.output_dir="$dir" "$@"
}

# ---- micro-batches ----

check "room for all" plan 1GB $auto
check "... one micro-batch" test "$(taken err)" = "1 x 16"
check "... says why" grep -q 'the fewest that fit memory.limit with no activation recomputed' err
check "less room" plan 57MB $auto --json
[ -n "$(taken err)" ] && split=$(taken err) || split="none"
check "... more micro-batches" sh -c 'case "$1" in [248]" x "[248]) ;; *) exit 1 ;; esac' - "$split"
check "... nothing is computed again" grep -q 'the fewest that fit memory.limit' err
fewer="--gradient_accumulation_steps=$((${split%% *} / 2))"
check "... with half as many something is" plan 57MB "$fewer" --schedule
check "... " grep -q ' again' out
check "... shown in the text" sh -c "'$ZR' plan c.json --ranks 2 --memory.limit=57MB $auto 2>/dev/null | grep -q '^${split%% *} micro-batches a step'"
check "hardly any room" plan 54150kB $auto # the fp32 panels of a level with AMX tiles need a little more
check "... computes again" grep -q 'set to .*: the best of what fits memory.limit' err
check "no room" plan 51MB $auto
check "... is said" grep -q 'set to .*: nothing fits memory.limit, and this needs the least' err

check "trained" train chosen $auto --memory.limit=57MB
check "... with the micro-batches of the plan" test "$(taken err)" = "$split"
check "... which the directory keeps" grep -q "\"gradient_accumulation_steps\": ${split%% *}," chosen/config.json
check "... planned is measured" as_planned chosen
check "the same by numbers" train given --memory.limit=57MB --gradient_accumulation_steps="${split%% *}" --train_micro_batch_size_per_gpu="${split##* }"
check "... the same losses and weights" same chosen given
check "one step, to go on from" train first $auto --memory.limit=57MB --train.steps=1 --train.save_interval=1
check "resumed with room for fewer micro-batches" train first $auto --memory.limit=1GB --train.save_interval=1 --resume
check "... with those of the checkpoint" test "$(taken err)" = "$split"
check "... as is said" grep -q 'as the checkpoint has it' err
check "... of which none has changed" sh -c '! grep -q "changed since the checkpoint: .*batch\|changed since the checkpoint: gradient" err'
check "... the same losses" same chosen first
check "resumed with half the rows, and room for all at once" train first $auto --memory.limit=1GB --train_batch_size=16 --train.steps=6 --resume
check "... is split anew" test "$(taken err)" = "1 x 8"

# The step is one micro-batch without the two words "auto", without a limit, or with another policy.
for keys in '' '--gradient_accumulation_steps=auto' '--train_micro_batch_size_per_gpu=auto' "$auto --activation_checkpointing.policy=unit"; do
    check "settled: $keys" plan 57MB $keys
    check "... one micro-batch" grep -q '^1 micro-batch a step' out
    check "... and no word of a choice" test -z "$(taken err)"
done
check "settled: no limit" "$ZR" plan c.json --ranks 2 $auto
check "... one micro-batch" grep -q '^1 micro-batch a step' out
check "what knows one micro-batch alone" plan 57MB $auto --zero_optimization.stage=1 --collectives.reduce=all_reduce
check "... gets one" test "$(taken err)" = "1 x 16"

# ---- checkpoints where ranks share layers ----

ac=--activation_checkpointing
tensor() { # LIMIT KEYS...
    limit=$1
    shift
    "$ZR" plan c.json --ranks 4 --tensor 4 --memory.limit="$limit" --model.n_layer=8 "$@"
}
check "side by side" tensor 1GB $ac.policy=none
for name in 'none' 'selective' 'selective Pa' 'unit' 'unit Pa' 'unit Pa+cpu'; do
    check "... $name" grep -q "^..3 $name  *[0-9.]* MB yes" out
done
check "... explained" grep -q 'Pa  with partition_activations, Pa+cpu with that and cpu_checkpointing' out
check "... in 80 columns" awk '!/^parameters/ && length > 80 { exit 1 }' out
check "... not where no layer is shared" sh -c "! '$ZR' plan c.json --ranks 4 | grep -q 'Pa'"
check "configured in pieces" tensor 1GB $ac.policy=unit $ac.partition_activations=true
check "... is marked" grep -q '^\* *3 unit Pa  ' out
check "as JSON" tensor 1GB $ac.policy=none --json --advice
check "... each says how" grep -q '"policy": "unit", "every": 1, .*"partition_activations": true, "cpu_checkpointing": true' out
check "room for all is kept whole" tensor 1GB
check "... by policy auto" grep -q '^\*.*3 auto  ' out
check "less room" tensor 60MB
check "... is kept in pieces" grep -q '^\*.*3 auto Pa  ' out
train4() { # DIR KEYS...
    dir=$1
    shift
    "$ZR" train c.json --ranks 4 --parallel.tensor=4 --model.n_layer=8 --train.output_dir="$dir" "$@"
}
check "trained" train4 pieces --memory.limit=60MB
check "... says so" grep -q 'note: activation_checkpointing.policy auto keeps checkpoints in pieces, as with partition_activations' err
check "... planned is measured" as_planned pieces
check "all kept" train4 all --memory.limit=1GB
check "... says nothing" sh -c '! grep -q "in pieces" err'
check "... the same losses and weights" same pieces all
check "both" train4 both $auto --memory.limit=55MB
check "... planned is measured" as_planned both

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "chosen under mpirun" $mpirun -n 2 "$ZR" train c.json $auto --memory.limit=57MB --train.output_dir=mpi
    check "... alike" test "$(taken err)" = "$split"
    check "... the same losses and weights" same chosen mpi
    check "in pieces under mpirun" $mpirun -n 4 "$ZR" train c.json --parallel.tensor=4 --model.n_layer=8 \
        --memory.limit=60MB --train.output_dir=mpi-pieces
    check "... the same losses and weights" same pieces mpi-pieces
else
    skip "chosen under mpirun" "no mpirun, or built without MPI"
fi
echo "1..$n"
