#TEST timeout=120 mpi=1
# Check train.accumulation_order layer from the command: losses, evaluations and weights of the order micro, with 1 / k
# of the gathers of stage 3; a run resumed in the other order; plans of both.
. tests/support/command.inc

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test $((i * 7919 % 1000))"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 3, "n_head": 2, "n_embd": 32, "n_positions": 32, "resid_pdrop": 0.1,
           "embd_pdrop": 0.1, "attn_pdrop": 0.1},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_micro_batch_size_per_gpu": 2,
 "gradient_accumulation_steps": 3, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3}, "activation_checkpointing": {"policy": "unit"},
 "train": {"steps": 6, "threads": 1, "eval_interval": 3, "eval_batches": 2, "gradient_noise_scale": true}}
END
train() { dir=$1; shift; "$ZR" train c.json --quiet --train.output_dir="$dir" "$@"; }
layer() { train "$@" --train.accumulation_order=layer; }
scalars() { sed 's/"step_sec".*//; s/"sec":[^,}]*//' "$1/metrics.jsonl" | grep -o '"step":[0-9]*\|"loss":[^,}]*\|"val_loss":[^,}]*\|"grad_norm":[^,}]*'; }
same_all() { same "$1" "$2" && scalars "$1" >a && scalars "$2" >b && grep -q val_loss a && cmp a b >&2; }

check "one micro-batch after the other" train micro --ranks 2
check "layer by layer" layer layer --ranks 2
check "... to the bit, evaluations as well" same_all micro layer
check "... planned and measured" as_planned layer
gathers() { part "$1" measured | grep -o '"all_gather": [0-9]*' | head -1 | tr -dc 0-9; }
check "... with a third of the gathers" test "$(gathers micro)" = $((3 * $(gathers layer)))
for stage in 0 1 2; do
    check "at stage $stage" layer stage-$stage --ranks 2 --zero_optimization.stage=$stage
    check "... to the bit" same_all micro stage-$stage
    check "... planned and measured" as_planned stage-$stage
done
check "in 16 bits, with a loss scale" train half --ranks 2 --fp16.enabled=true --fp16.initial_scale_power=24
check "... layer by layer" layer half-layer --ranks 2 --fp16.enabled=true --fp16.initial_scale_power=24
check "... to the bit" same_all half half-layer
check "... skips the same steps" sh -c 'grep -o "\"skipped\":[0-9]*" half/metrics.jsonl >a; grep -o "\"skipped\":[0-9]*" half-layer/metrics.jsonl >b; grep -q "[1-9]" a && cmp a b'

check "the first part of a run" layer parts --ranks 2 --train.steps=3 --train.save_interval=3
check "... goes on in the other order" train parts --ranks 2 --resume --train.accumulation_order=micro
check "... to the bit" same_all micro parts
check "the first part in the other order" train others --ranks 2 --train.steps=3 --train.save_interval=3
check "... goes on layer by layer" layer others --ranks 2 --resume
check "... to the bit" same_all micro others

check "a trace" layer traced --ranks 2 --trace traced.json --train.steps=2
check "... names the micro-batches" sh -c 'for m in 0 1 2; do grep -q "\"micro\":$m" traced.json || exit 1; done; ! grep -q "\"micro\":3" traced.json'

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "under mpirun" $mpirun -n 2 "$ZR" train c.json --quiet --train.output_dir=mpi --train.accumulation_order=layer
    check "... to the bit" same_all micro mpi
    check "... planned and measured" as_planned mpi
    check "as if on two hosts, under mpirun" $mpirun -n 4 "$ZR" train c.json --quiet --train.output_dir=hosts \
        --train.accumulation_order=layer --parallel.ranks_per_host=2 --zero_optimization.zero_hpz_partition_size=2
    check "... planned and measured" as_planned hosts
else
    skip "layer by layer under mpirun" "no mpirun, or built without MPI"
fi

check "a plan shows both orders" prints 'order of micro-batches' "$ZR" plan c.json --ranks 2 --train.accumulation_order=layer
check "... and which is configured" grep -q '^\* layer .* gathered of' printed
check "... in its head" grep -q '3 micro-batches a step, layer by layer,' printed
check "... and its schedule the micro-batches" sh -c '"$1" plan c.json --ranks 2 --schedule --train.accumulation_order=layer >s && grep -q "micro-batch 3" s && ! grep -q "micro-batch 4" s' sh "$ZR"
check "one micro-batch" train one --ranks 2 --gradient_accumulation_steps=1
check "... in the other order" "$ZR" train c.json --train.output_dir=one-layer --ranks 2 --gradient_accumulation_steps=1 --train.accumulation_order=layer
check "... has no effect, which is said" grep -q 'train.accumulation_order: layer has no effect' err
check "... to the bit" same_all one one-layer
check "too many for a schedule" fails 78 'use fewer micro-batches a step' "$ZR" plan c.json --ranks 2 --gradient_accumulation_steps=100000 --train.accumulation_order=layer
check "no bad word for it" fails 78 'train.accumulation_order' "$ZR" plan c.json --train.accumulation_order=depth
echo "1..$n"
