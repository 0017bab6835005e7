#TEST timeout=120
# Check Muon from the command: the same losses at every stage and number of ranks, also when a run is resumed on another
# number and stage; learning rates of DeepSpeed's and zr's keys; refusals; the plan's times.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
 "optimizer": {"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1}},
 "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "warmup_type": "linear_from_1"}},
 "train": {"steps": 8, "threads": 1, "reproducible": "world"}}
END
train() { dir=$1; shift; "$ZR" train c.json --quiet --train.output_dir="$dir" "$@"; }
numbers() { sed 's/, "step_ms".*//' "$1/metrics.jsonl"; }
same() { numbers "$1" >a && numbers "$2" >b && cmp a b; }
has() { cat "$1"/step-*/manifest.json | grep -q "$2"; }

check "Muon trains" train one
check "... at stage 3 on two ranks" train two --ranks 2 --zero_optimization.stage=3
check "... with the same numbers" same one two
check "half a run on four ranks" train four --ranks 4 --zero_optimization.stage=1 --train.steps=4 --scheduler.params.total_num_steps=8
check "... goes on, on two ranks at stage 2" train four --resume --ranks 2 --zero_optimization.stage=2 --train.steps=8
check "... with the same numbers" same one four
check "... its checkpoint has the momentum" has four momentum_buffer.safetensors
check "... and the states of AdamW" has four exp_avg_sq.safetensors
check "a pipeline" train pipe --ranks 2 --parallel.pipeline=2 --zero_optimization.stage=1
check "... with the same numbers" same one pipe
check "states on disk" train disk --ranks 2 --zero_optimization.stage=2 --zero_optimization.offload_optimizer.device=nvme --zero_optimization.offload_optimizer.nvme_path=.
check "... with the same numbers" same one disk

# A run of AdamW resumed with Muon begins with new states.
sed 's/"type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003/"type": "AdamW", "params": {"lr": 0.003/' c.json >adamw.json
check "a run of AdamW" "$ZR" train adamw.json --quiet --train.output_dir=other --train.steps=4 --scheduler.params.total_num_steps=8
check "... goes on with Muon" "$ZR" train c.json --train.output_dir=other --resume --train.steps=5
check "... whose states begin at zero" grep -q 'has no states of the optimizer muon, so they start at zero' err

check "a run of Muon goes on with AdamW" "$ZR" train adamw.json --train.output_dir=pipe --resume --train.steps=9
check "... whose states begin at zero" grep -q 'has no states of the optimizer adamw, so they start at zero' err

# What is given of the learning rates decides both.
last() { tail -n 1 "$1/metrics.jsonl" | sed 's/.*"loss": \([0-9.e-]*\),.*/\1/'; }
params='"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1'
sed "s/$params/\"lr\": 1, \"muon_lr\": 0.02, \"adamw\": {\"lr\": 0.003}, \"weight_decay\": 0.1/" c.json >own.json
check "rates of their own" "$ZR" train own.json --quiet --train.output_dir=own
check "... are the same" same one own
check "an iteration in fp32" train wide --optimizer.params.ns_dtype=fp32
check "... differs a little" test "$(last one)" != "$(last wide)"
check "the scale of Moonlight" train moonlight --optimizer.params.adjust_lr_fn=match_rms_adamw
check "... differs" test "$(last wide)" != "$(last moonlight)"
check "some matrices" train some --optimizer.params.matrices=mlp.*
check "... are other ones" test "$(last one)" != "$(last some)"
check "a run that goes on with other matrices" code 78 train some --resume --train.steps=9
check "... is refused" grep -q 'optimizer.params.matrices is null, but "mlp.\*" in step-00000008, which has a momentum only' err
check "... and goes on with the same" train some --resume --train.steps=9 --optimizer.params.matrices=mlp.*

check "patterns without a matrix" code 78 train bad --optimizer.params.matrices=nothing.*
check "... are refused" grep -q 'optimizer.params.matrices: "nothing.\*" matches no trained matrix; the first is transformer' err
check "frozen blocks" code 78 train bad '--model.frozen=h.*'
check "... are refused" grep -q 'the model has no trained matrix in a block' err
check "tensor parallelism" code 69 train bad --ranks 2 --parallel.tensor=2
check "... is refused" grep -q 'optimizer.type Muon with parallel.tensor 2' err
check "the Gram iteration" code 69 train bad --optimizer.params.ns_method=gram
check "... is refused" grep -q 'ns_method: "gram" is not available' err
check "a schedule with a rate of its own" code 78 train bad --scheduler.type=WarmupLR --scheduler.params.warmup_max_lr=0.01
check "... is refused" grep -q 'adamw.lr (adam_lr) 0.003; choose WarmupLR without warmup_max_lr' err

# Both learning rates are shown, the coefficients are read, and a plan says what the iterations take.
rates() { sed 's/.*"lr":\([^,]*\),.*"adamw_lr":\([^,}]*\).*/\1 \2/' one/metrics.jsonl; }
check "metrics have both learning rates" sh -c '[ $(echo "$1" | awk "\$2 > 0 && (\$2 / \$1 - 0.15) ^ 2 < 1e-12" | wc -l) = 8 ]' sh "$(rates)"
check "a line of progress" "$ZR" train c.json --train.output_dir=line --train.steps=1
check "... has both" grep -q 'lr 0.00667 (AdamW 0.001)' err
check "other coefficients" train other_ns '--optimizer.params.ns_coefficients=[3.0, -3.2, 1.2]'
check "... differ" test "$(last one)" != "$(last other_ns)"
check "the time of the iterations" sh -c '"$0" plan c.json --ranks 2 --cluster dgx-h100x8 | tr "\n" " " | grep -q "% of it for Muon.s iterations"' "$ZR"
check "a plan for DeepSpeed" code 69 "$ZR" plan c.json --ranks 2 --system deepspeed
check "... is refused" grep -q 'optimizer.type is Muon, and zr does not know what a step of it needs in DeepSpeed' err

check "a plan with Muon" sh -c '"$0" plan c.json --ranks 2 --schedule >schedule' "$ZR"
for kind in direction gather_direction ortho scatter_direction; do
    check "... has the step $kind" grep -qw "$kind" schedule
done
echo "1..$n"
