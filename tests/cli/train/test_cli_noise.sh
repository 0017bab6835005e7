#TEST timeout=120
# Check train.gradient_noise_scale in metrics.jsonl, run.json, on the terminal and in the report: it changes nothing
# else, a resumed run has the averages of an undisturbed one, and what cannot be measured is refused by the key's name.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test $((i * 7919 % 1000))"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16},
 "data": {"train": "text.txt"}, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
 "zero_optimization": {"stage": 2},
 "train": {"steps": 40, "eval_interval": 0, "gradient_noise_scale": true}}
END_CONFIG
train() { dir=$1; shift; "$ZR" train c.json --train.output_dir="$dir" "$@"; }
noise() { sed -n 's/.*"noise_scale_tokens":\([^},]*\).*/\1/p' "$1/metrics.jsonl"; }
same_noise() { noise "$1" >a && noise "$2" >b && [ -s a ] && cmp a b >&2; }

check "a run on two ranks" train on --ranks 2
check "... ends with words about its batch" grep -q 'noise scale), a step has 64: ' err
check "... its first steps do not know it" test "$(noise on | head -9 | sort -u)" = null
check "... the later ones do" sh -c '[ "$(grep -c "noise_scale_tokens\":[0-9]" on/metrics.jsonl)" = 31 ]'
check "... run.json has the last one" grep -q "\"noise_scale_tokens\":$(noise on | tail -1), \"noise_scale\":\"critical batch about" on/run.json
check "... as planned" as_planned on
check "without it" train off --quiet --ranks 2 --train.gradient_noise_scale=false
check "... the same losses and weights" same on off
check "... and no word of it" sh -c '! grep -q noise_scale off/metrics.jsonl && ! grep -q "\"noise_scale" off/run.json'
check "... one sum less is exchanged" sh -c '"$1" plan c.json --ranks 2 --json >p && "$1" plan c.json --ranks 2 --json --train.gradient_noise_scale=false >q &&
    grep -q "\"all_reduce\": 496," p && grep -q "\"all_reduce\": 336," q' sh "$ZR"
check "at another stage" train three --quiet --ranks 2 --zero_optimization.stage=3
check "... to the last bit" same_noise on three

check "the first part of a run" train parts --quiet --ranks 2 --train.steps=15 --train.save_interval=15
check "... goes on" train parts --quiet --ranks 2 --resume
check "... as if it had never ended" same_noise on parts
check "... and from a checkpoint without averages anew" sh -c '"$1" train c.json --quiet --ranks 2 --train.output_dir=late --train.steps=15 --train.save_interval=15 --train.gradient_noise_scale=false && "$1" train c.json --quiet --ranks 2 --train.output_dir=late --resume' sh "$ZR"
check "... known after ten steps" sh -c '[ "$(grep -c "noise_scale_tokens\":null" late/metrics.jsonl)" = 9 ] && [ "$(grep -c "noise_scale_tokens\":[0-9]" late/metrics.jsonl)" = 16 ]'

check "fp16, whose first steps are skipped" train half --quiet --ranks 2 --fp16.enabled=true --fp16.initial_scale_power=30
check "... counts the others" sh -c 'skipped=$(tail -1 half/metrics.jsonl | sed "s/.*\"skipped\":\([0-9]*\).*/\1/") && [ "$skipped" -gt 0 ] && [ "$(grep -c "noise_scale_tokens\":null" half/metrics.jsonl)" = $((9 + skipped)) ]'

check "the report draws it" sh -c '"$1" report --quiet on off && grep -q "data-quantity=\"noise_scale_tokens\"" report.html' sh "$ZR"
check "... and has its figures" sh -c '"$1" report --json on >r && grep -q "\"noise_scale_tokens\":{\"steps_a_point\":1,\"last\":[0-9]" r' sh "$ZR"
check "... of a run without it there is no picture" sh -c '"$1" report --quiet off && ! grep -q noise_scale_tokens off/report.html' sh "$ZR"

check "one micro-batch is refused by name" fails 78 'train.gradient_noise_scale: .* at least two' train one
check "... also in a plan" fails 78 'train.gradient_noise_scale' "$ZR" plan c.json
check "... and of ranks that share a layer" fails 78 'train.gradient_noise_scale' train one --ranks 2 --parallel.tensor=2 --model.n_head=2
check "... two are enough" train two --quiet --gradient_accumulation_steps=2
check "... and chosen where the split is open" train split --quiet --train_micro_batch_size_per_gpu=auto --gradient_accumulation_steps=auto --train_batch_size=4 --activation_checkpointing.policy=auto --memory.limit=1GB
check "... as two micro-batches" grep -q '"gradient_accumulation_steps": 2' split/config.json
check "... unless a step has one sample" fails 78 'train.gradient_noise_scale' train none --train_micro_batch_size_per_gpu=auto --gradient_accumulation_steps=auto --train_batch_size=1 --activation_checkpointing.policy=auto --memory.limit=1GB
check "no bad word for it" fails 78 'train.gradient_noise_scale' train bad --ranks 2 --train.gradient_noise_scale=7

echo "1..$n"
