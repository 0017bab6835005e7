#TEST timeout=120 long=more
# Check that `zr init` writes a configuration that trains unchanged; comments in a configuration; training without one.
. tests/support/command.inc

i=0
while [ $i -lt 200 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
small="--model.n_layer=1 --model.n_embd=16 --model.n_head=2 --model.n_positions=16 --train.steps=2"

check "a configuration" "$ZR" init
check "... that explains its keys" sh -c "grep -c '^ *//' config.json | grep -q '[3-9][0-9]'"
check "... is planned as it is" "$ZR" plan config.json
check "... trains" "$ZR" train config.json $small --data text.txt --train.output_dir=run --quiet --ranks 2
check "... on the text it names" sh -c "cp text.txt train.txt && $ZR train config.json $small --train.output_dir=run2 --quiet"
check "... without a note" sh -c "! $ZR plan config.json 2>&1 >/dev/null | grep ."
check "a run's own is plain JSON" sh -c "! grep -q '//' run/config.json"
cp config.json before
check "is not overwritten" fails 73 'config.json' "$ZR" init
check "... is as it was" cmp config.json before
check "... and another name is wanted" grep -q 'name another file' message
check "on a full disk" fails 74 'full.json: cannot write' sh -c 'ulimit -f 1 && exec "$0" init full.json' "$ZR"
check "... no file is left" test ! -e full.json
check "a text instead of a configuration" fails 78 'text.txt: wanted an object .* is given with --data' "$ZR" train text.txt
check "one of another name" prints 'other.json' "$ZR" init other.json --json --quiet
check "... is the same" cmp config.json other.json
for type in gpt2 llama mistral qwen2 qwen3; do
    check "$type" "$ZR" init $type.json --type $type --quiet
    check "... trains as it is" "$ZR" train $type.json --data text.txt --train.steps=2 --batch 1 --train.output_dir=type-$type --quiet
    check "... as that type" grep -q "\"model_type\": \"$type\"" type-$type/model/config.json
    check "... without a note" sh -c "! $ZR plan $type.json 2>&1 >/dev/null | grep ."
done
check "a small GPT-2 is the default" cmp gpt2.json config.json
check "groups of heads" prints '^model: llama, 4 layers, width 128, 4 heads (2 of keys and values), 256 tokens' "$ZR" plan llama.json
check "an unknown type" fails 2 'expected gpt2, llama, mistral, qwen2, qwen3, bert or bert-preln' "$ZR" init no.json --type gptj
check "a preset" "$ZR" init preset.json --preset llama3-8b
check "... with its next command" grep -q 'zr train preset.json --data TEXT_FILE --data.tokenizer=DIR' err
check "... is planned as it is" prints '^model: llama3-8b, .*128256 tokens' "$ZR" plan preset.json --ranks 64
check "... with the learning rate of its authors" grep -q '"lr": 3e-4' preset.json
check "... and no longer sequences than usual" grep -q '"seq_length": 2048' preset.json
check "... nor more if its longest is shorter" sh -c '"$0" init short.json --preset gpt2-124m --quiet && grep -q "\"seq_length\": 1024" short.json' "$ZR"
check "a preset by its name on Hugging Face" "$ZR" init hub.json --preset meta-llama/Meta-Llama-3-8B
check "... which is said" grep -q 'note: --preset meta-llama/Meta-Llama-3-8B is read as llama3-8b' err
check "... and written as its own name" sh -c 'sed s/hub/preset/ hub.json | cmp - preset.json'
check "... in a plan too" prints '^model: llama3-8b, ' "$ZR" plan --preset Llama-3-8B --ranks 64
check "... which says it" sh -c '"$0" plan --model.preset=Llama-3-8B --ranks 64 --json 2>&1 >/dev/null | grep -q "model.preset Llama-3-8B is read as llama3-8b, a Llama"' "$ZR"
mkdir Llama-3-8B
check "... but not a directory" fails 2 'Llama-3-8B is a directory, .* give --model.init=Llama-3-8B' "$ZR" plan --preset Llama-3-8B
rmdir Llama-3-8B
check "... which is none" fails 2 'nearest: smollm2-135m' "$ZR" init no.json --preset smollm2-135b
check "... has a type" fails 2 'leave out --type' "$ZR" init no.json --preset llama3-8b --type llama
check "... and nothing is written" test ! -e no.json
check "a folder that is not there" fails 73 'no/c.json' "$ZR" init no/c.json

sed 's/"steps": 1000/"stepps": 1000/' config.json >bad.json
line=$(grep -n stepps bad.json | cut -d: -f1)
check "behind comments a place stays what it is" fails 78 "bad.json:$line:9" "$ZR" plan bad.json
printf '{"data": {"train": "a//b.txt"}, // "bf16": 3\r\n "train": {"steps": 2}// end\n}// end' >c.json
check "what stands in a string is none" fails 66 'a//b.txt' "$ZR" train c.json
printf '{"train": {"steps": 2} /* no */}' >c.json
check "no other comments" fails 78 'c.json:1:24: train: remove the comment' "$ZR" plan c.json

check "a preset without a configuration" fails 71 'memory.limit' "$ZR" train --preset gpt2-124m --data text.txt --memory 60MB --ranks 2
check "... trains by a recipe, the help says" prints 'training settings for its size' "$ZR" train -h
small_limit="train --preset gpt2-124m --data text.txt --memory.limit=60MB --ranks 2" # with clipping, two_pass would save room
check "... which clips" fails 71 'memory.norm two_pass' "$ZR" $small_limit
check "... also with another learning rate" fails 71 'memory.norm two_pass' "$ZR" $small_limit --optimizer.params.lr=1e-4
echo '{"optimizer": {"type": "AdamW"}}' >adamw.json
check "... not with a file's optimizer" sh -c "$ZR train adamw.json ${small_limit#train} 2>&1 | grep 'memory.limit' | grep -qv two_pass"
check "... also in a plan" sh -c "$ZR plan --preset gpt2-124m --ranks 2 2>&1 | grep -q 'recipe for this size sets .* gradient_clipping 1.0'"
if [ -n "${ZR_LONG-}" ]; then
    check "... a step, with a note" "$ZR" train --preset gpt2-124m --data text.txt --seq 8 --train.steps=1 --train.output_dir=preset
    check "... which says so" grep -q 'note: model.preset gpt2-124m: the training recipe for this size .* lr 6e-4,' err
    check "... and the run keeps it" sh -c "tr -d ' \n' <preset/config.json | grep -q '\"lr\":0.0006,' &&
        grep -q 'WarmupCosineLR' preset/config.json"
fi
check "... without data" fails 78 'data.train' "$ZR" train --preset gpt2-124m
check "... which is none" fails 2 'gpt2-124m' "$ZR" train --preset gpt9 --data text.txt
"$ZR" tokenize --train 300 text.txt -o tokens --quiet
"$ZR" train llama.json --data text.txt --data.tokenizer=tokens --train.steps=1 --train.output_dir=weights --quiet
check "a run instead of its configuration" fails 66 'weights is a directory; give the configuration in it, weights/config.json' \
    "$ZR" train weights --resume
check "a run instead of its weights" fails 65 'weights is the directory of a run; give that of its weights, weights/model' \
    "$ZR" train --model.init=weights --data text.txt
check "... if it has only checkpoints" fails 65 'bare is the directory of a run without model/; give .* bare/step-' sh -c \
    'cp -r weights bare && rm -r bare/model && exec "$0" train --model.init=bare --data text.txt' "$ZR"
rm -r bare
check "weights without a configuration" "$ZR" train --model.init=weights/model --data text.txt --train.steps=2 --train.output_dir=tuned
check "... by a recipe for fine-tuning" grep -q 'note: model.init weights/model: the training recipe for fine-tuning .* lr 2e-5,' err
check "... with their tokenizer, a note says" grep -q 'note: data.tokenizer: .* the tokenizer of model.init, weights/model' err
check "... which begins at rate / warm-up" grep -q '"step":1,.*"lr":2e-05,' tuned/metrics.jsonl
check "... so nothing is said of rate 0" sh -c '! grep "lr is 0\|rate was 0" err'
echo '{"scheduler": {"type": "WarmupLR"}, "gradient_clipping": 1}' >warm.json
check "a written scheduler" "$ZR" train warm.json --model.init=weights/model --data text.txt --train.steps=2 --train.output_dir=warm
check "... has DeepSpeed's rates" sh -c 'test "$(grep -c "\"lr\":0," warm/metrics.jsonl)" = 2'
check "... which a note says" grep -q 'note: scheduler: lr is 0 in steps 1 to 2, as in DeepSpeed; warmup_type linear_from_1 avoids it' err
check "... and the end of a run that changed nothing" grep -q 'note: the learning rate was 0 in every step' err
check "... not of one that did" "$ZR" train warm.json --model.init=weights/model --data text.txt --train.steps=3 --train.output_dir=warmer
check "... nothing" sh -c '! grep "rate was 0" err'
check "only the rate" "$ZR" train --model.init=weights/model --data text.txt --train.steps=2 --train.output_dir=rate --optimizer.params.lr=1e-4
check "... the recipe lies under it" sh -c 'tr -d " \n" <rate/config.json | grep "\"lr\":0.0001,\"betas\":\[0.9,0.95\].*\"gradient_clipping\":1.0"'
check "... in a plan, too" sh -c '"$0" plan --model.init=weights/model --ranks 2 --json >a && "$0" plan --model.init=weights/model \
    --optimizer.params.lr=1e-4 --ranks 2 --json >b && cmp a b' "$ZR"
echo '{"model": {"init": "weights/model"}, "data": {"train": "text.txt"}, "train": {"output_dir": "tuned", "steps": 3}}' >short.json
check "... resumed by a file without optimizer" "$ZR" train short.json --resume
check "... keeps the run's" sh -c "tr -d ' \n' <tuned/config.json | grep -q '\"lr\":2e-5,' && grep -q '\"warmup_num_steps\": 1' tuned/config.json"
check "... which a note says" grep -q 'note: optimizer, scheduler: keys that are not given are kept from tuned/config.json' err
check "... which the run has" cmp tokens/tokenizer.json tuned/model/tokenizer.json
check "... not if another is given" "$ZR" train --model.init=weights/model --data text.txt --data.tokenizer=bytes --train.steps=1 --train.output_dir=bytes
check "... which gets no note" sh -c '! grep "of model.init, " err'
check "... nor if they have none" sh -c 'cp -r weights bare && rm bare/model/token* && "$0" train --model.init=bare/model --data text.txt \
    --train.steps=1 --train.output_dir=bare-bytes 2>noted && ! grep -q "of model.init, " noted && cat noted' "$ZR"
check "... with one that zr cannot read" sh -c 'cp -r weights odd && echo "{}" >odd/model/tokenizer.json'
check "... the message says why it is read" fails 65 'the tokenizer of model.init, since data.tokenizer is not given' "$ZR" \
    train --model.init=odd/model --data text.txt
check "neither" fails 2 'CONFIG.json or --preset' "$ZR" train --data text.txt
check "... because a key is misspelled" fails 78 'modle: unknown key; did you mean model' "$ZR" train --modle.init=weights/model --data text.txt
check "... or is a section" fails 78 'model: wanted an object .* directory of weights is model.init' "$ZR" train --model=weights/model --data text.txt
check "... or has no equals sign" fails 2 'a directory of weights is --model.init=weights/model' "$ZR" train --model weights/model --data text.txt
check "going on needs the run's configuration" fails 2 'needs a CONFIG.json' "$ZR" train --preset gpt2-124m --resume
check "options stand for keys" "$ZR" train config.json $small --stage 3 --batch 2 --seq 8 --data text.txt --ranks 2 --quiet --train.output_dir=keys
check "... which the run has" sh -c "grep -q '\"stage\": 3' keys/config.json && grep -q '\"seq_length\": 8' keys/config.json &&
    grep -q '\"train_micro_batch_size_per_gpu\": 2' keys/config.json"
echo "1..$n"
