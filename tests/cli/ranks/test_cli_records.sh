#TEST timeout=120
# Check quantised exchanges (zero_quantized_weights, zero_quantized_gradients) from the command: what a plan says, the
# same losses at every stage, and resumed runs, which need the same ranks if gradients are quantised.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 3, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "bf16": {"enabled": true},
 "zero_optimization": {"zero_quantized_weights": true, "zero_quantized_gradients": true},
 "train": {"steps": 8, "threads": 1, "save_interval": 4}}
END
train() { "$ZR" train c.json --quiet --train.output_dir="$@"; }
# Print what does not depend on time.
numbers() { sed 's/, "step_ms".*//' "$1/metrics.jsonl"; }
same() { numbers "$1" >1 && numbers "$2" >2 && cmp 1 2; }

check "a plan" "$ZR" plan c.json --ranks 2
check "... says what is quantised" grep -q '^quantised exchanges: .* the matrices of 3 units of blocks' out
check "... not of collectives between hosts, on one host" sh -c '! grep collectives.hierarchical out'
check "... and its bytes" grep -q 'gradients pass as int4 in blocks of 128: 0.516 bytes each' out
check "... beside those of exact exchanges" grep -q '^  exact .* a step' out
check "... and that gradients are reduced once" grep -q 'gradient_reduction: step, because of' err
exact="--zero_optimization.zero_quantized_weights=false --zero_optimization.zero_quantized_gradients=false"
check "... which are those of the plan without the keys, with micro-batches" sh -c '
    four="--ranks 2 --gradient_accumulation_steps=4 --zero_optimization.stage=2"
    "$0" plan c.json $four >out 2>err && row=$(grep "^  exact" out) && "$0" plan c.json $four $1 --json >plain 2>err &&
    bytes=$(grep -o "\"pipeline\": 0, \"total\": [0-9]*" plain | grep -o "[0-9]*$") &&
    test "$(echo "$row" | grep -o "[0-9.]* kB")" = "$(echo "$bytes" | awk "{printf \"%.2f kB\", \$1 / 1000}")"' "$ZR" "$exact"
check "... on one rank nothing passes" sh -c '"$0" plan c.json --ranks 1 >out 2>err && ! grep " pass as" out &&
    grep "^  trained parameters are rounded to int8 in blocks of 128$" out' "$ZR"
check "... and gradients alone are no exchange" sh -c '"$0" plan c.json --ranks 1 \
    --zero_optimization.zero_quantized_weights=false >out 2>err && ! grep quantised out' "$ZR"
check "... with adapters and frozen matrices both are told" sh -c '"$0" plan c.json --ranks 2 --model.lora.rank=4 $1 \
    --zero_optimization.stage=3 --zero_optimization.zero_quantized_nontrainable_weights=true >out 2>err &&
    grep "^  frozen parameters are kept, and pass, as int8 in blocks of 128: 1.016 bytes each" out &&
    ! grep -e "trained parameters" -e "gradients pass" out' "$ZR" "$exact"
check "... and that there are none" sh -c '"$0" plan c.json --ranks 2 --model.frozen="h.*" >out 2>err &&
    grep "^quantised exchanges: none, because" out' "$ZR"
check "a plan without them says nothing" sh -c '"$0" plan c.json --ranks 2 --zero_optimization.zero_quantized_weights=false \
    --zero_optimization.zero_quantized_gradients=false >out 2>err && ! grep quantised out err' "$ZR"

check "a run at stage 0" train zero --ranks 2 --zero_optimization.stage=0
check "a run at stage 3, in small buckets" train three --ranks 2 --zero_optimization.stage=3 \
    --zero_optimization.reduce_bucket_size=500 --zero_optimization.allgather_bucket_size=500
check "... has the same losses" same zero three
check "a run with exact exchanges" train exact --ranks 2 --zero_optimization.zero_quantized_weights=false \
    --zero_optimization.zero_quantized_gradients=false
check "... has others" sh -c '! cmp -s zero/model/model.safetensors exact/model/model.safetensors'

check "half a run" train half --ranks 2 --zero_optimization.stage=1 --train.steps=4
check "... resumed on other ranks" code 78 train half --resume --ranks 4
check "... is refused" grep -q 'zero_quantized_gradients on 4 data-parallel ranks, but on 2 data-parallel ranks when step-00000004' err
check "... resumed on the same ranks" train half --resume --ranks 2 --zero_optimization.stage=2
check "... has the same losses" same zero half
check "half a run goes on on other ranks, if that is wanted" sh -c '
    "$0" train c.json --quiet --train.output_dir=other --ranks 2 --train.steps=4 &&
    "$0" train c.json --train.output_dir=other --ranks 4 --resume --quantization.any_ranks=true' "$ZR"
check "... which is said" grep -q 'note: quantization.any_ranks: gradients are quantised on 4 data-parallel ranks' err

# The value "auto" follows the planned time of a step.
auto="--zero_optimization.zero_quantized_weights=auto --zero_optimization.zero_quantized_gradients=auto"
echo '{"flops_f32": 1e12, "memory_bytes_sec": 1e11, "link_bytes_sec": 1e6}' >slow.json
echo '{"flops_f32": 1e12, "memory_bytes_sec": 1e7, "link_bytes_sec": 1e12}' >fast.json
check "auto on a slow link" "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 --profile slow.json $auto
check "... is true" grep -q 'zero_quantized_weights: auto, set to true, with which a step takes .* s instead of .* s; zero_optimization.zero_quantized_gradients: auto, set to true, ' err
check "... and plans so" grep -q '^quantised exchanges: ' out
check "auto on a fast link" "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 --profile fast.json $auto
check "... is false" grep -q 'zero_quantized_weights: auto, set to false, since a step of .* s would .*; zero_optimization.zero_quantized_gradients: auto, set to false, since a step of .* s would take ' err
check "... and plans so" sh -c '! grep "^quantised exchanges" out'
check "a run with auto" "$ZR" train c.json --train.output_dir=chosen --ranks 2 --train.steps=4 $auto
check "... says what it does, and why" grep -q 'zero_quantized_weights: auto, set to [a-z]*, ' err
check "... writes it down" grep -q '"zero_quantized_weights": \(true\|false\)' chosen/config.json
check "half a run with true" train kept --ranks 2 --zero_optimization.stage=1 --train.steps=4
check "... resumed with auto" "$ZR" train c.json --train.output_dir=kept --resume --ranks 2 $auto
check "... keeps what the checkpoint has" grep -q 'zero_quantized_weights: auto, set to true, as the checkpoint has it' err
check "... and has the same losses" same zero kept

# Stochastic rounding depends on the number of updates, which a resumed run must know before it gathers.
random="--ranks 2 --zero_optimization.stage=1 --quantization.rounding=stochastic"
check "a run with stochastic rounding" train whole $random
check "half of it" train parts $random --train.steps=4
check "... resumed" train parts $random --resume
check "... has the same losses" same whole parts
echo "1..$n"
