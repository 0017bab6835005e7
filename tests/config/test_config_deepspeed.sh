#TEST timeout=60
# Check unchanged DeepSpeed files: unsupported sections are listed at once, a line each; the values that replace "auto",
# and the ones that Hugging Face's Trainer would have used.
. tests/support/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}
cp "$ZR_SOURCE"/tests/deepspeed/*.json .
has() { grep -q -F -e "$1" err || { cat err >&2; return 1; }; }
lines() { test "$(wc -l <err)" = "$1" || { cat err >&2; return 1; }; }

for f in zero2_auto zero3_auto; do
    check "$f" "$ZR" plan $f.json --ranks 2
    check "... names the model that it took" grep -q "^model: gpt2, 12 layers, width 768.*none is given: --preset" out
    check "... says nothing twice" test "$(sed 's/^zr: note: \([^:, ]*\)[:,].*/\1/' err | sort | uniq -d)" = ""
    check "... nor that what is auto was not given" sh -c '! grep "not given, set to" err'
    check "... in few lines" test "$(wc -l <err)" -le 14
    check "... buckets as the Trainer has them" has "Trainer uses 589824 (n_embd x n_embd), which --zero_optimization.reduce_bucket_size=589824 sets"
    check "... a section's plain ones together" has "betas [0.9, 0.95], eps 1e-8, weight_decay 0.1"
done
has_all() { for w in "$@"; do has "$w" || return 1; done; }
check "stage 3's thresholds" has_all \
    "stage3_prefetch_bucket_size: auto, set to 50000000; Hugging Face's Trainer uses 530841 (0.9 x n_embd x n_embd)" \
    "stage3_param_persistence_threshold: auto, set to 0; Hugging Face's Trainer uses 7680 (10 x n_embd)"
check "the schedule" has_all "total_num_steps: auto, set to 1000, as Hugging Face's Trainer does" \
    "warmup_max_lr: auto, set to 0.0003, as Hugging Face's Trainer does (the learning rate)" \
    "scheduler: lr is 0 in steps 1 to 2, as in DeepSpeed; warmup_type linear_from_1 avoids it"
sed -n 's|.*, which \(--[a-z0-9_.]*=[0-9.e-]*\) sets$|\1|p' err >asked
check "what is asked for so" sh -c 'test $(wc -l <asked) = 3 && "$0" plan zero3_auto.json --ranks 2 $(cat asked)' "$ZR"
check "... is had, and not spoken of" sh -c '! grep ", which --.* sets" err'
check "another width, other numbers" "$ZR" plan zero3_auto.json --preset gpt2-1.5b --ranks 2
check "... are the model's" has "Trainer uses 2560000 (n_embd x n_embd)"
check "... which is named" grep -q '^model: gpt2-1.5b, 48 layers, width 1600, 25 heads' out

check "offload and more" code 69 "$ZR" plan zero3_offload.json
check "... a line a section" lines 4
check "... how many" has "zero3_offload.json: 2 settings are not available in zr: remove each, or use the value"
check "... what, and what to do instead" has 'zero3_offload.json:23:9: zero_optimization: mics_hierarchical_params_gather true (write false)'
check "... as options" has '  or override them on the command line: --zero_optimization.mics_hierarchical_params_gather=false --elasticity.enabled=false'
options=$(sed -n 's/.*or override them on the command line: //p' err)
check "... then what excludes each other" code 69 "$ZR" plan zero3_offload.json --ranks 8 $options
check "... is said" has 'zero_optimization.offload_param.device: it cannot be used with zero_hpz_partition_size 8'
check "... that make it a plan" "$ZR" plan zero3_offload.json --ranks 8 $options --zero_optimization.zero_hpz_partition_size=1 \
    --zero_optimization.offload_optimizer.device=none
check "another optimizer" code 69 "$ZR" plan bert_lamb.json
check "... what belongs to it goes too" has 'optimizer: type "OneBitLamb" (write "AdamW", "Adam", "SGD", "Lamb", "Lars", "Muon", "Lion" or "AdamW8bit"); remove also the keys that belong to it: params.freeze_step, '
check "monitors" code 69 "$ZR" plan monitors.json
check "... where the curves are" has 'wandb: enabled true (write false); the curves are in metrics.jsonl and loss.svg'
check "... alone" code 69 "$ZR" plan --preset gpt2-124m --wandb.enabled=true
check "... in one line" lines 1
# Clipping that a file does not give; and names without "stage3_", which mean the same.
zero='"zero_optimization": {"stage": 3, "sub_group_size": 0, '
rest='"reduce_bucket_size": "auto"}, "gradient_clipping": 0.5, "train_micro_batch_size_per_gpu": 1}'
echo "{$zero\"stage3_max_live_parameters\": 0, \"stage3_prefetch_bucket_size\": 9000000, $rest" >long.json
echo "{$zero\"max_live_parameters\": 0, \"prefetch_bucket_size\": 9e6, $rest" >short.json
check "names without stage3_" "$ZR" plan short.json --ranks 2 --json
mv out short
check "... plan the same" sh -c '"$0" plan long.json --ranks 2 --json 2>err | cmp - short' "$ZR"
check "... less than with two units in memory" sh -c '! "$0" plan long.json --ranks 2 --json \
    --zero_optimization.stage3_max_live_parameters=auto 2>err | cmp -s - short' "$ZR"
check "an override under the other name" "$ZR" plan short.json --zero_optimization.stage3_max_live_parameters=7
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 2e-5}}, "bf16": {"enabled": true}}' >unclipped.json
clip="note: gradient_clipping is not given: gradients are not clipped; DeepSpeed 0.19.x clips at 1.0"
check "a file without clipping" "$ZR" plan unclipped.json --preset gpt2-124m --ranks 2
check "... a note says" has "$clip"
check "... not if it is given" "$ZR" plan unclipped.json --preset gpt2-124m --ranks 2 --gradient_clipping=0
check "... no note" sh -c '! grep "gradient_clipping is not given" err'
echo '{"optimizer": {"params": {"lr": 2e-5}}}' >recipe.json
check "a rate of 0" "$ZR" plan recipe.json --preset gpt2-124m --optimizer.params.lr=0
check "... is the key's" has "note: optimizer.params.lr is 0, so training does not change the weights"
echo '{"scheduler": {"type": "WarmupDecayLR"}}' >warm.json
check "a written schedule" "$ZR" plan warm.json --preset gpt2-124m
check "... has its own rate, not the recipe's" has "optimizer.params.lr has no effect: the highest learning rate of the schedule is scheduler.params.warmup_max_lr, 0.001"
check "... with a rate that is given" "$ZR" plan warm.json --preset gpt2-124m --scheduler.params.warmup_max_lr=1e-4
check "... says no more" sh -c '! grep "lr has no effect" err'
check "a schedule that ends early" "$ZR" plan recipe.json --preset gpt2-124m --scheduler.type=WarmupDecayLR \
    --scheduler.params.total_num_steps=500
check "... leaves steps without effect" has "note: scheduler: lr is 0 in steps 501 to 1000"
check "a schedule that ends with the run" "$ZR" plan recipe.json --preset gpt2-124m --scheduler.type=WarmupPolyDecayLR
check "... leaves none" sh -c '! grep "lr is 0" err'
check "... nor where a recipe clips" sh -c '"$0" plan recipe.json --preset gpt2-124m 2>err && ! grep "gradient_clipping is not given" err' "$ZR"
printf '{"train": {"stpes": 3, "steps": "many"}, "bf16": {"enabled": 3},\n "optimizer": {"type": "Adagrad"}}' >wrong.json
check "wrong and not available" code 78 "$ZR" plan wrong.json
check "... all of it" has_all "4 settings cannot be used" "did you mean train.steps?" 'found "many"' "found 3" 'wrong.json:2:16: optimizer: type "Adagrad"'
awk 'BEGIN { printf "{"; for (i = 0; i < 5000; i++) printf "\"qwzx%d\": 1,\n ", i; print "\"last\": 1}" }' >many.json
check "thousands of wrong keys" code 78 "$ZR" plan many.json
check "... are not told one by one" test "$(wc -l <err)" -le 12
echo "1..$n"
