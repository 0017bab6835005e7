#TEST timeout=120
# Check fine-tuning with low-rank adapters from the command: the files of peft, every stage and number of ranks, resume,
# continued adapters, eval, generate and convert of base and adapter together, and refusals by name.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >base.json <<'END'
{"model": {"type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32,
           "intermediate_size": 48, "max_position_embeddings": 32},
 "data": {"train": "text.txt", "seq_length": 32}, "train_batch_size": 4, "train": {"steps": 4, "threads": 1,
 "output_dir": "first"}}
END
cat >c.json <<'END'
{"model": {"init": "base", "lora": {"rank": 4, "dropout": 0.1}}, "data": {"train": "text.txt", "seq_length": 32},
 "train_batch_size": 4, "gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 0.02, "weight_decay": 0.1}},
 "train": {"steps": 6, "threads": 1, "save_interval": 3, "output_dir": "run"}}
END
"$ZR" train base.json --quiet && "$ZR" convert first base --quiet || exit 1
cp base/model.safetensors was
same_run() { numbers "$1" >a && numbers "$2" >b && [ -s a ] && cmp a b >&2 && cmp "$1/model/adapter_model.safetensors" "$2/model/adapter_model.safetensors" >&2; }
loss_of() { "$ZR" eval "$1" --data text.txt --json | sed 's/.*"loss":\([^,}]*\).*/\1/'; }
near() { awk -v a="$(loss_of "$1")" -v b="$(loss_of "$2")" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'; }
files() { (cd "$1" && ls | tr '\n' ' '); }

# ---- runs and their files
check "a plan says how many train" prints 'k (3.71 k train)' "$ZR" plan c.json
check "a run" "$ZR" train c.json --ranks 2
check "... and what can follow" sh -c 'tail -n 1 err | grep -q "^zr: next: zr generate run --prompt TEXT; zr eval run --data FILE; zr convert run DIR (the adapters merged into the model); zr report run$"'
check "... planned is measured" as_planned run
check "... leaves an adapter directory" test "$(files run/model)" = "adapter_config.json adapter_model.safetensors tokenizer.json tokenizer_config.json trained.json "
check "... of peft" grep -q '"peft_type": "LORA"' run/model/adapter_config.json
check "... with rank, alpha and dropout" sh -c 'grep -q "\"r\": 4," run/model/adapter_config.json && grep -q "\"lora_alpha\": 8," run/model/adapter_config.json && grep -q "\"lora_dropout\": 0.1," run/model/adapter_config.json'
check "... and the layers" grep -q '"target_modules": \["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"\]' run/model/adapter_config.json
check "... and names of peft" prints 'base_model.model.model.layers.1.mlp.down_proj.lora_B.weight *F32 *\[32,4\]' "$ZR" inspect run/model
check "... whose losses fall" sh -c 'numbers() { grep "\"loss\"" run/metrics.jsonl | sed "s/.*\"loss\":\([^,]*\).*/\1/"; }; numbers | awk "NR == 1 { a = \$1 } { b = \$1 } END { exit !(b < a) }"'
check "the base keeps its bits" cmp base/model.safetensors was
check "a checkpoint has only adapters" test "$(wc -c <run/step-00000003/model.safetensors)" -lt "$(($(wc -c <was) / 2))"
check "... and is whole" "$ZR" verify run
for stage in 1 2 3; do
    check "stage $stage" "$ZR" train c.json --quiet --ranks 2 --zero_optimization.stage=$stage --train.output_dir=stage$stage
    check "... to the bit" same_run run stage$stage
    check "... planned is measured" as_planned stage$stage
done
check "two tensor-parallel ranks" "$ZR" train c.json --quiet --ranks 2 --parallel.tensor=2 --parallel.sequence=keep --train.output_dir=tensor
losses() { grep '"loss"' "$1/metrics.jsonl" | sed 's/.*"loss":\([^,]*\).*/\1/'; }
close() { losses "$1" >a && losses "$2" | paste a - | awk '{ d = $1 - $2; if (d > 2e-5 || d < -2e-5) bad = 1 } END { exit !(NR > 0 && !bad) }'; }
check "... with the same masks" close run tensor
check "only some layers" "$ZR" train c.json --quiet --model.lora.targets='["layers.0.*","v_proj"]' --train.output_dir=some
check "... by full names, since peft would match more" grep -q '"model.layers.1.self_attn.v_proj"\]' some/model/adapter_config.json
check "bf16 with recompute" "$ZR" train c.json --quiet --bf16.enabled=true --activation_checkpointing.policy=unit --train.output_dir=bf16

# ---- resumed, continued
check "a longer run" "$ZR" train c.json --quiet --ranks 2 --train.steps=9 --train.output_dir=longer
cp -r run again
check "resumed" "$ZR" train c.json --quiet --ranks 2 --train.steps=9 --train.output_dir=again --resume
check "... to the bit" same_run longer again
cp -r run other
check "resumed on other ranks at another stage" "$ZR" train c.json --quiet --ranks 4 --zero_optimization.stage=3 --train.steps=9 --train.output_dir=other --resume
check "... with the same result" near other longer
check "another rank is refused" fails 78 'model.lora.rank is 5, but 4 in step-00000009' "$ZR" train c.json --model.lora.rank=5 --train.steps=12 --train.output_dir=again --resume
mkdir elsewhere && mv base elsewhere/
check "resumed with a base that moved" "$ZR" train c.json --quiet --train.steps=12 --train.output_dir=again --model.init=elsewhere/base --resume
mv elsewhere/base . && cp -r again changed
at=$(($(wc -c <base/model.safetensors) - 4))
printf '\001\002\003\075' | dd of=base/model.safetensors bs=1 seek=$at conv=notrunc 2>dd.err
resume() { "$ZR" train c.json --quiet --train.steps=15 --train.output_dir=changed --resume "$@"; }
check "on a changed base it is refused" fails 65 'model.init: the file has changed since step-00000012 was written .* the same base of its adapters' resume
check "... also at another stage and number of ranks" fails 65 'model.init: the file has changed' resume --ranks 2 --zero_optimization.stage=3
cp was base/model.safetensors
"$ZR" convert base half --to hf --dtype bf16 --quiet
check "... and on one of another size" fails 65 'model.init: the file has .* bytes, but had .* the same base of its adapters' resume --model.init=half
check "... not on the old one" resume
check "from an adapter" "$ZR" train c.json --quiet --model.lora=null --model.lora.init=longer/model --train.output_dir=continued --train.steps=1
check "... whose rank it takes" grep -q '"r": 4,' continued/model/adapter_config.json
check "... and dropout" grep -q '"lora_dropout": 0.1,' continued/model/adapter_config.json
check "... and resumed without the adapter that it began with" "$ZR" train continued/config.json --quiet --model.lora.init=null --train.steps=2 --resume
check "... unless the key is given" "$ZR" train c.json --quiet --model.lora='{"init": "longer/model", "dropout": 0}' --train.output_dir=dry --train.steps=1
check "... which then holds" grep -q '"lora_dropout": 0.0,' dry/model/adapter_config.json

# ---- eval, generate, convert
check "eval: a checkpoint is the adapter" test "$(loss_of run)" = "$(loss_of run/step-00000006)" -a "$(loss_of run)" = "$(loss_of run/model)"
check "... and not the base" test "$(loss_of run)" != "$(loss_of base)"
check "merged" "$ZR" convert run merged --quiet
check "... a plain directory" test "$(files merged)" = "$(files base)"
check "... of the same loss" near run merged
check "... from the adapter alone" sh -c '"$0" convert run/model merged-too --quiet && cmp merged/model.safetensors merged-too/model.safetensors' "$ZR"
check "generate" sh -c '"$0" generate run --prompt "line 1" --tokens 20 >a && "$0" generate merged --prompt "line 1" --tokens 20 | cmp - a' "$ZR"
check "no run is made of an adapter" fails 2 'is an adapter: zr train continues it' "$ZR" convert run/model bad --to run
mkdir moved && mv base run moved/
check "a run that moved with its base" sh -c 'test "$("$0" eval moved/run --data text.txt --json | cut -d, -f1)" = "$("$0" eval moved/run/model --data text.txt --json | cut -d, -f1)"' "$ZR"
mv moved/base moved/run .

# ---- an adapter of peft, of GPT-2
golden=${ZR_SOURCE:-$OLDPWD}/tests/golden
check "peft's directory is read" prints '"tensors":28,' "$ZR" convert "$golden/lora-gpt2/adapter" gpt2 --json
told() { "$ZR" eval "$1" --data "$golden/gpt2-tiny/tokens.bin" --json | sed 's/.*"loss":\([^,}]*\).*/\1/'; }
check "... and merged right" sh -c 'awk -v a="$0" -v b="$1" "BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }"' "$(told "$golden/lora-gpt2/adapter")" "$(told gpt2)"
check "... which changes the loss" test "$(told gpt2)" != "$(told "$golden/gpt2-tiny/model")"

# ---- refusals
refused() { check "$1" fails "$2" "$3" "$ZR" train c.json --quiet --train.output_dir=bad "$4" ${5:+"$5"}; }
refused "no base" 78 'model.lora.rank is 4, but model.init is missing' --model.init=null --model.type=llama
refused "frozen parameters too" 78 'model.frozen: with model.lora all parameters but the adapters are frozen' --model.frozen='*.bias'
refused "an adapter instead of a model" 66 'run/model has an adapter, .* model.lora.init=run/model; or .*zr convert run/model OUT' --model.lora=null --model.init=run/model
refused "... and its run" 65 'run has an adapter, .* model.lora.init=run/' --model.lora=null --model.init=run
refused "no adapter" 66 'adapter_config.json: .*; give an adapter directory of peft' --model.lora=null --model.lora.init=base/model
refused "a target that matches nothing" 78 'model.lora.targets: "c_attn" matches no linear layer' --model.lora.targets=c_attn
refused "alpha 0" 78 'model.lora.alpha: found 0' --model.lora.alpha=0
refused "dropout 1" 78 'model.lora.dropout: found 1' --model.lora.dropout=1
refused "another rank than the adapter's" 78 'model.lora.rank differs from the adapter in model.lora.init, which has 4' --model.lora.init=run/model --model.lora.rank=2
"$ZR" train base.json --quiet --model.num_hidden_layers=1 --train.output_dir=small && "$ZR" convert small one --quiet
check "an adapter of another base" fails 78 'does not fit model.init: .*layers.1.self_attn.q_proj" matches no linear layer' "$ZR" train c.json --quiet --model.lora=null --model.init=one --model.lora.init=run/model --train.output_dir=bad
bad() { # NAME PATTERN SED: an adapter_config.json that is refused
    rm -rf odd && cp -r run/model odd && sed "$3" run/model/adapter_config.json >odd/adapter_config.json
    check "$1" fails "${4:-65}" "$2" "$ZR" eval odd --data text.txt
}
bad "another kind of adapter" 'peft_type is "IA3"; zr reads only "LORA"' 's/LORA/IA3/'
bad "DoRA" 'use_dora is true' 's/"bias"/"use_dora": true, "bias"/'
bad "rsLoRA" 'use_rslora is true' 's/"bias"/"use_rslora": true, "bias"/'
bad "whole modules" 'modules_to_save is \["lm_head"\]' 's/"bias"/"modules_to_save": ["lm_head"], "bias"/'
bad "biases" 'bias is "all"' 's/"none"/"all"/'
bad "another rank" 'lora_A.weight: shape (4, 32); expected (8, 32)' 's/"r": 4/"r": 8/'
bad "PiSSA" 'odd/adapter_config.json: init_lora_weights is "pissa"; .*merge_and_unload' 's/"init_lora_weights": true/"init_lora_weights": "pissa"/'
refused "... to train" 65 'model.lora.init: odd/adapter_config.json: init_lora_weights' --model.lora=null --model.lora.init=odd
check "... to convert" fails 65 'init_lora_weights is "pissa"' "$ZR" convert odd bad
check "... to generate" fails 65 'init_lora_weights is "pissa"' "$ZR" generate odd
check "... to chat" fails 65 'init_lora_weights is "pissa"' "$ZR" generate odd --chat --prompt hello
bad "a base that is not there" 'the base of this adapter, .*nowhere (base_model_name_or_path' "s|\"base_model_name_or_path\": .*,|\"base_model_name_or_path\": \"nowhere\",|" 66
check "no directory is left" test ! -e bad
echo "1..$n"
