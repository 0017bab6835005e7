#TEST timeout=120
# Check quantised exchanges (zero_quantized_weights, zero_quantized_gradients) from the command: what a plan says, the
# same losses at every stage, and resumed runs, which need the same ranks if gradients are quantised, and the parameters
# as they were sent if these are differences.
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

# Errors of gradients (zeropp_loco_param) go on when a run resumes on the same ranks, at whatever stage.
loco="--zero_optimization.zeropp_loco_param.reset_T=1024 --zero_optimization.zeropp_loco_param.err_beta=0.5"
check "a plan with errors" sh -c '"$0" plan c.json --ranks 2 $1 >out 2>err &&
    grep "^  each rank keeps the errors of its gradients (zeropp_loco_param): [0-9.]* kB$" out' "$ZR" "$loco"
check "... which one rank lacks" sh -c '"$0" plan c.json --ranks 1 $1 >out 2>err && ! grep "each rank keeps" out &&
    grep "zeropp_loco_param keeps no errors" err' "$ZR" "$loco"
check "a run with errors" train fed --ranks 2 $loco
check "... has other losses" sh -c '! cmp -s zero/model/model.safetensors fed/model/model.safetensors'
check "half of it" train fed2 --ranks 2 $loco --zero_optimization.stage=0 --train.steps=4
check "... has a file of errors of both ranks" "$ZR" inspect fed2/step-00000004/gradient_error.safetensors
check "... of the matrices of blocks" grep -q 'transformer.h.0.attn.c_attn.weight *F32 *.32,48.' out
check "... alone" sh -c '! grep -e wte -e bias -e ln_ out'
check "... resumed at another stage, in small buckets, layer by layer" train fed2 --ranks 2 $loco --resume \
    --zero_optimization.stage=3 --zero_optimization.reduce_bucket_size=500 --train.accumulation_order=layer
check "... has the same losses" same fed fed2
check "... and the same errors" cmp fed/step-00000008/gradient_error.safetensors fed2/step-00000008/gradient_error.safetensors
check "half of it" train piped --ranks 2 $loco --train.steps=4
check "... resumed as a pipeline of as many data-parallel ranks" train piped --ranks 4 $loco --resume \
    --parallel.pipeline=2 --parallel.tied_apart=true
check "... has the same losses" same fed piped
check "... and the same errors" cmp fed/step-00000008/gradient_error.safetensors piped/step-00000008/gradient_error.safetensors
check "half of it" train fed3 --ranks 2 $loco --train.steps=4
check "... resumed without its errors" sh -c 'rm -r fed3/model &&
    "$0" train c.json --train.output_dir=fed3 --ranks 2 --resume $1 --zero_optimization.zeropp_loco_param.err_beta=0' "$ZR" "$loco"
check "... says what has changed" grep -q 'note: changed since the checkpoint: .*err_beta was 0.5, and is now 0' err
check "half a run without errors" train fed4 --ranks 2 --train.steps=4
check "... goes on with them" sh -c '"$0" train c.json --train.output_dir=fed4 --ranks 2 --resume $1' "$ZR" "$loco"
check "... which start at zero" grep -q 'note: zeropp_loco_param: the checkpoint has no errors of gradients of these ranks' err
check "errors on other ranks" sh -c '"$0" train c.json --quiet --train.output_dir=fed5 --ranks 2 $1 --train.steps=4 &&
    "$0" train c.json --train.output_dir=fed5 --ranks 4 --resume $1 --quantization.any_ranks=true' "$ZR" "$loco"
check "... start at zero, too" grep -q 'note: zeropp_loco_param: the checkpoint has no errors of gradients of these ranks' err

# In two levels, on four ranks of two hosts, each level has its errors.
hosts="--ranks 4 --parallel.ranks_per_host=2 --collectives.hierarchical=true"
check "a run in two levels" train two $hosts $loco
check "half of it" train two2 $hosts $loco --zero_optimization.stage=1 --train.steps=4
check "... has the errors of partial sums of each host" "$ZR" inspect two2/step-00000004/partial_sum_error.safetensors
check "... of the matrices of blocks" grep -q 'transformer.h.0.attn.c_attn.weight *F32 *.32,48.' out
check "... resumed" train two2 $hosts $loco --zero_optimization.stage=3 --resume
check "... has the same losses" same two two2

# Tensor-parallel ranks save the errors of their columns. Steps that are skipped, here before and after the stop, since
# the loss scale is too large, clear errors.
halves() { # NAME OPTION...
    name=$1; shift
    check "a run, $name" train all "$@" $loco
    check "half of it" train cut "$@" $loco --train.steps=4
    check "... resumed at another stage" train cut "$@" $loco --resume --zero_optimization.stage=3
    check "... has the same losses" same all cut
    check "... and the same errors" cmp all/step-00000008/gradient_error.safetensors cut/step-00000008/gradient_error.safetensors
    rm -r all cut
}
halves 'on tensor-parallel ranks' --ranks 4 --parallel.tensor=2 --model.n_embd=32
halves 'with skipped steps' --ranks 2 --bf16.enabled=false --fp16.enabled=true --fp16.initial_scale_power=24 --fp16.hysteresis=1

# The value "auto" follows the planned time of a step.
auto="--zero_optimization.zero_quantized_weights=auto --zero_optimization.zero_quantized_gradients=auto"
# Write a file of measured rates: of the link, in bytes per second, and of casts, in elements per second. Without the
# latter it has none.
rates() { # FILE LINK [CASTS]
    {
        echo '{"level": "v4", "levels": [{"level": "v4", "fma_f32_all_flops": 1e12, "dot_bf16_all_flops": 2e12}],'
        echo "\"triad_bytes_sec\": 1e11, \"link_bytes_sec\": $2, \"records\": ["
        for codes in ${3:+int8 int4}; do
            echo "{\"codes\": \"$codes\", \"encode_elems_sec\": $3, \"encode_random_elems_sec\": $3, \"decode_elems_sec\": $3}"
            [ "$codes" = int4 ] || echo ,
        done
        echo ']}'
    } >"$1"
}
rates slow.json 1e6 1e9
rates fast.json 1e12 1e7
rates unknown.json 1e6
check "auto on a slow link" "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 --profile slow.json $auto
check "... is true" grep -q 'zero_quantized_weights and zero_optimization.zero_quantized_gradients: auto, set to true, with which a step takes .* s instead of .* s$' err
check "... and plans so" grep -q '^quantised exchanges: ' out
check "auto on a fast link" "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 --profile fast.json $auto
check "... is false" grep -q 'zero_quantized_weights: auto, set to false, since a step of .* s would .*; zero_optimization.zero_quantized_gradients: auto, set to false, since a step of .* s would take ' err
check "... and plans so" sh -c '! grep "^quantised exchanges" out'
check "auto without rates of casts" "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 --profile unknown.json $auto
check "... is false, on processors" grep -q 'zero_quantized_weights: auto, set to false, as the rates of encoding are not known (.*; zero_optimization.zero_quantized_gradients: auto, set to false, as the rates of encoding' err
check "auto on GPUs, whose casts are priced by their bytes" "$ZR" plan c.json --cluster 4090 --ranks 8 --zero_optimization.stage=3 \
    --train_batch_size=32 --model.n_embd=1024 $auto
check "... is true on a slow network" grep -q 'auto, set to true, with which a step takes .* s instead of .* s$' err
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

# Differences are added to parameters that depend on all earlier ones, and so are saved. With sums for any number of ranks
# all losses are the same on other ranks, at other stages.
differences="--zero_optimization.zero_quantized_gradients=false --quantization.weight_differences=true
    --train.reproducible=world"
check "a plan with differences" sh -c '"$0" plan c.json --ranks 2 --zero_optimization.stage=1 $1 >out 2>err &&
    grep "^  differences of trained parameters pass as int4 in blocks of 128: 0.516 bytes each" out' "$ZR" "$differences"
check "... at stage 3 is refused" code 78 "$ZR" plan c.json --ranks 2 --zero_optimization.stage=3 $differences
check "... and a mending is told" grep -q 'quantization.weight_differences: it cannot be used with .*; leave it out, or use stage 2' err
check "... without quantised weights they have no effect" sh -c '"$0" plan c.json --ranks 2 \
    --zero_optimization.zero_quantized_weights=false $1 >out 2>err &&
    grep "quantization.weight_differences has no effect: .*zero_quantized_weights is false" err' "$ZR" "$differences"
check "... the nearest to a limit is not stage 3" sh -c '"$0" plan c.json --ranks 4 --memory.limit=1MB $1 >out 2>err &&
    grep "^Advice: nothing fits 1.00 MB. The nearest is stage 2" out' "$ZR" "$differences"
differences="$differences --train_micro_batch_size_per_gpu=1 --gradient_accumulation_steps"
check "a run with differences" train all --ranks 2 --zero_optimization.stage=2 $differences=4
check "... its checkpoint has the parameters as they were sent" test -f all/step-00000004/sent.safetensors
check "... all of it is sound" "$ZR" verify all/step-00000004
check "half of it" train some --ranks 4 --zero_optimization.stage=1 $differences=2 --train.steps=4
check "... resumed at another stage, on other ranks" train some --resume --ranks 1 --zero_optimization.stage=0 $differences=8
check "... has the same losses" same all some
check "... and the same exact weights" cmp all/model/model.safetensors some/model/model.safetensors
check "a run of whole parameters" train undivided --ranks 2 --zero_optimization.stage=2 $differences=4 \
    --quantization.weight_differences=false --train.steps=4
check "... goes on with differences" sh -c '"$0" train c.json --train.output_dir=undivided --resume --ranks 2 $1=4 \
    --zero_optimization.stage=2 >out 2>err' "$ZR" "$differences"
check "... which begin anew, as is said" grep -q 'note: the checkpoint has no parameters as they were sent' err
echo "1..$n"
