#TEST timeout=120
# Check LAMB, LARS, Lion and AdamW8bit from the command: the same losses at every stage and number of ranks, also when a
# run is resumed on another number; the defaults of each variant; refusals.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
 "optimizer": {"type": "Lamb", "params": {"lr": 0.01, "weight_decay": 0.01, "max_coeff": 0.3, "bias_correction": false}},
 "scheduler": {"type": "WarmupExpDecayLR", "params": {"warmup_num_steps": 3, "decay_step": 4, "lr_offset": 0.001}},
 "train": {"steps": 8, "threads": 1, "reproducible": "world"}}
END
train() { dir=$1; shift; "$ZR" train c.json --quiet --train.output_dir="$dir" "$@"; }
numbers() { sed 's/, "step_ms".*//' "$1/metrics.jsonl"; }
same() { numbers "$1" >a && numbers "$2" >b && cmp a b; }

check "LAMB trains" train one
check "... at stage 3 on two ranks with the same numbers" sh -c '"$0" train c.json --quiet --train.output_dir=two --ranks 2 --zero_optimization.stage=3' "$ZR"
check "... namely these" same one two
check "half a run on four ranks" train four --ranks 4 --zero_optimization.stage=1 --train.steps=4
check "... goes on, on one rank" train four --resume --zero_optimization.stage=0
check "... with the same numbers" same one four
check "... its checkpoint has the states of Adam" sh -c 'cat four/step-*/*.json | grep -q exp_avg_sq'

# The first losses are equal, because the weights are; the last ones differ by the variant.
last() { tail -n 1 "$1/metrics.jsonl" | sed 's/.*"loss": \([0-9.e-]*\),.*/\1/'; }
check "the LAMB of apex" train nvidia --optimizer.params.variant=nvidia --optimizer.params.max_coeff=10
params='"params": {"lr": 0.01, "weight_decay": 0.01, "max_coeff": 0.3, "bias_correction": false}'
sed "s/\"type\": \"Lamb\", $params/\"type\": \"Lars\", \"params\": {\"lr\": 0.01, \"trust_coefficient\": 0.02}/" c.json >lars.json
check "LARS" "$ZR" train lars.json --quiet --train.output_dir=lars
check "... with momentum, unless it is set" sh -c 'cat lars/step-*/*.json | grep -q momentum_buffer'
check "... is another optimizer" test "$(last one)" != "$(last nvidia)"
check "... each" test "$(last nvidia)" != "$(last lars)"
sed "s/$params/\"params\": {\"variant\": \"nvidia\"}/; s/\"gradient_clipping\": 1.0,//" c.json >nvidia.json
check "the defaults of apex" "$ZR" train nvidia.json --train.steps=1 --train.output_dir=defaults
check "... are said" grep -q 'gradient_clipping: not given, set to 1, which is max_grad_norm of NVIDIA' err
check "... and resolved" sh -c 'grep -q "\"eps\": 1e-6" defaults/config.json && grep -q "\"weight_decay\": 0.01" defaults/config.json'
check "a setting of another variant" code 78 "$ZR" plan nvidia.json --optimizer.params.max_coeff=0.3
check "... is refused" grep -q 'max_coeff: it is a setting of variant deepspeed, but optimizer.params.variant is nvidia' err

# Optimizers with smaller states: the numbers of any number of ranks, and of a run that is resumed on another.
for kind in Lion AdamW8bit; do
    sed "s/\"type\": \"Lamb\", $params/\"type\": \"$kind\", \"params\": {\"lr\": 0.003, \"weight_decay\": 0.1}/" c.json >small.json
    small() { dir=$kind-$1; shift; "$ZR" train small.json --quiet --train.output_dir="$dir" "$@"; }
    check "$kind trains" small one
    check "... half a run on four ranks" small four --ranks 4 --zero_optimization.stage=1 --train.steps=4
    check "... goes on, on two ranks at stage 3" small four --resume --ranks 2 --zero_optimization.stage=3 --train.steps=8
    check "... with the same numbers" same $kind-one $kind-four
    check "... and the same checkpoint" cmp $kind-one/step-00000008/exp_avg.safetensors $kind-four/step-00000008/exp_avg.safetensors
    check "... states in host memory" small host --ranks 2 --zero_optimization.stage=2 --zero_optimization.offload_optimizer.device=cpu
    check "... have the same numbers" same $kind-one $kind-host
    check "... states on disk" small disk --ranks 2 --zero_optimization.stage=2 --zero_optimization.offload_optimizer.device=nvme \
        --zero_optimization.offload_optimizer.nvme_path=.
    check "... have the same numbers" same $kind-one $kind-disk
    check "... in bf16, as planned" small bf16 --ranks 2 --bf16.enabled=true
done
check "states of 8 bits go on in fp32" "$ZR" train small.json --train.output_dir=AdamW8bit-one --resume --train.steps=10 --optimizer.type=AdamW
check "... all of them" sh -c '! grep "start at zero" err'
check "... and back" "$ZR" train small.json --quiet --train.output_dir=AdamW8bit-one --resume --train.steps=12
check "Lion goes on" "$ZR" train small.json --train.output_dir=AdamW8bit-one --resume --train.steps=14 --optimizer.type=Lion
check "... and its rates are named" grep -q 'Lion goes on with lr 0.003, betas .* and weight_decay 0.1 (optimizer.params)' err
echo "1..$n"
