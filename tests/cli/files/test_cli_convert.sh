#TEST timeout=60
# Check zr convert: the files of a tokenizer are copied in both directions; weights in several files; types.
. tests/support/tokenizer.inc
. tests/support/command.inc

make_tokenizer tokenizer
echo '{"tokenizer_class": "GPT2Tokenizer"}' >tokenizer/tokenizer_config.json
i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 260},
 "data": {"train": "text.txt", "tokenizer": "tokenizer"}, "train_batch_size": 4,
 "train": {"steps": 4, "threads": 1, "save_interval": 2, "eval_interval": 0, "output_dir": "run"}}
END
"$ZR" train c.json --quiet
member() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"; } # NAME FILE
files() { (cd "$1" && ls | tr '\n' ' '); }
same_text() { "$ZR" generate "$1" --prompt 'line 1' --tokens 20 >a && "$ZR" generate run --prompt 'line 1' --tokens 20 | cmp - a; }

# ---- the tokenizer
check "a run" "$ZR" convert run exported
check "... with its tokenizer" test "$(files exported)" = "config.json model.safetensors tokenizer.json tokenizer_config.json "
check "... as it was" cmp exported/tokenizer.json tokenizer/tokenizer.json
check "... generates alone" same_text exported
check "a checkpoint" prints '"files":1, "tokenizer":true' "$ZR" convert run/step-00000002 older --json
check "... has it too" cmp older/tokenizer.json tokenizer/tokenizer.json
check "a Hugging Face directory" "$ZR" convert exported tuned
check "... has it in model/" test "$(files tuned/model)" = "tokenizer.json tokenizer_config.json "
check "... whole" "$ZR" verify tuned
check "... generates" same_text tuned
check "... goes on" "$ZR" train c.json --quiet --train.output_dir=tuned --resume --train.save_interval=0
check "... and leaves nothing of it behind" test "$(cd tuned && ls -d model* | tr '\n' ' ')" = "model "
check "files that zr does not read" sh -c 'cp -r exported odd && echo "{}" >odd/tokenizer.json && echo "{}" >odd/added_tokens.json && "$0" convert odd also-odd --to hf --quiet' "$ZR"
check "... are copied" sh -c 'cmp odd/tokenizer.json also-odd/tokenizer.json && cmp odd/added_tokens.json also-odd/added_tokens.json'
check "settings alone are no tokenizer" sh -c 'cp -r exported alone && rm alone/tokenizer.json && "$0" convert alone also-alone --to hf --json | grep -q "\"tokenizer\":false" && test -s also-alone/tokenizer_config.json' "$ZR"
mv run/model away && mv tokenizer nowhere
check "a tokenizer that is gone" sh -c '"$0" convert run without 2>message && grep -q "no tokenizer goes along: data.tokenizer: .*does not exist" message' "$ZR"
check "... keeps nothing from being made" test "$(files without)" = "config.json model.safetensors "
mv away run/model
check "... but in the run's model/ it is found" sh -c '"$0" convert run with --quiet && cmp with/tokenizer.json nowhere/tokenizer.json' "$ZR"
rm -r run/step-*
check "a run that kept no checkpoint" sh -c '"$0" convert run kept --quiet && cmp kept/model.safetensors exported/model.safetensors' "$ZR"

# ---- several files
"$ZR" eval exported --data text.txt --json | cut -d, -f1 >wanted
check "several files" sh -c '"$0" convert exported several --to hf --shard-size 20kB --json >told' "$ZR"
check "... so many" test "$(ls several/model-0*-of-0*.safetensors | wc -l)" -eq "$(member files told)" -a "$(member files told)" -gt 1
last=$(printf %05d "$(member files told)")
check "... by the names that transformers gives them" test -f several/model-00001-of-$last.safetensors -a -f several/model-$last-of-$last.safetensors -a ! -e several/model.safetensors
check "... each so large at most" test "$(wc -c several/model-0* | awk '$2 != "total" && $1 > 4096 + 20000' | wc -l)" = 0
check "... with the size of all" grep -q "\"total_size\": $((4 * $(member weights told)))\$" several/model.safetensors.index.json
check "... are the same weights" sh -c '"$0" eval several --data text.txt --json | cut -d, -f1 | cmp - wanted' "$ZR"
check "... and one file again" sh -c '"$0" convert several one --to hf --shard-size 5GB --quiet && cmp one/model.safetensors exported/model.safetensors' "$ZR"
check "... and a run" sh -c '"$0" convert several begun --quiet && cmp begun/step-00000000/model.safetensors tuned/step-00000000/model.safetensors' "$ZR"
check "a file that is missing" sh -c 'cp -r several less && rm less/model-00002-*'
check "... is named, for training" fails 66 'less: model-00002-of-.* is missing, in which model.safetensors.index.json places' "$ZR" \
    train --model.init=less --data text.txt
check "... and to convert" fails 66 'less: model-00002-of-.*copy it into the directory' "$ZR" convert less no
check "a file that is cut short" sh -c 'cp -r exported cut && head -c 20000 exported/model.safetensors >cut/model.safetensors'
check "... is to be copied again" fails 65 'bytes after the header; copy the file again' "$ZR" convert cut no
check "enough for all is one file" sh -c '"$0" convert exported single --to hf --shard-size 5GB --quiet && cmp single/model.safetensors exported/model.safetensors && test ! -e single/model.safetensors.index.json' "$ZR"
check "less than a tensor: a file each" prints '"tensors":28, .*"files":28,' "$ZR" convert exported each --to hf --shard-size 1 --json
for type in bf16 f16; do
    "$ZR" convert exported in-$type --to hf --dtype $type --quiet
    check "several files in $type" "$ZR" convert exported several-$type --to hf --dtype $type --shard-size 20kB --quiet
    check "... are one in $type" sh -c '"$0" convert several-'$type' one-'$type' --to hf --dtype '$type' --shard-size 5GB --quiet && cmp one-'$type'/model.safetensors in-'$type'/model.safetensors' "$ZR"
    check "... and a run of fp32" sh -c '"$0" convert several-'$type' run-'$type' --quiet && "$0" convert run-'$type' back-'$type' --shard-size 5GB --quiet && cmp back-'$type'/model.safetensors in-'$type'/model.safetensors' "$ZR"
done
sed '/"torch_dtype"/d' exported/config.json >several/config.json
check "the type under its newer name" sh -c '"$0" convert several newer --to hf --dtype bf16 --quiet && grep -q "\"dtype\": \"bfloat16\"" newer/config.json && ! grep torch_dtype newer/config.json' "$ZR"
check "a size that is none" fails 2 'shard-size is "many"' "$ZR" convert exported new --to hf --shard-size many
check "... nor 0" fails 2 'shard-size is "0"' "$ZR" convert exported new --to hf --shard-size 0
check "a checkpoint in several files" fails 2 'in one file' "$ZR" convert exported new --shard-size 5GB
check "a disk that is full" code 74 sh -c 'ulimit -f 40 && exec "$0" convert exported full --to hf --shard-size 20kB' "$ZR"
check "... leaves nothing" test ! -e full -a ! -e full.tmp
check "a disk that fills before the tokenizer is there" code 74 sh -c 'ulimit -f 2 && exec "$0" convert exported full --to hf' "$ZR"
check "... leaves nothing" test ! -e full -a ! -e full.tmp
check "never over what is there" fails 73 'several is there already' "$ZR" convert exported several --to hf --shard-size 20kB

# ---- what is not converted
cp -r exported odd-numbers
size=$(wc -c <exported/model.safetensors)
printf '\000\000\300\177' | dd of=odd-numbers/model.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
check "weights that are no numbers" fails 65 'must be finite' "$ZR" convert odd-numbers new --to hf
check "... nor to a run" fails 65 'must be finite' "$ZR" convert odd-numbers new --to run
check "... leave nothing" test ! -e new -a ! -e new.tmp
cp -r tuned/step-00000000 damaged
sed -i 's/"n_head": 2/"n_head": 1/' damaged/config.json
check "a checkpoint with other numbers of its model" fails 65 'config.json' "$ZR" convert damaged new
echo "1..$n"
