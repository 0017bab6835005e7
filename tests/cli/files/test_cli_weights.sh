#TEST timeout=60
# Check zr eval, generate and similar commands with trained weights: overlapping windows, samples, fractions and stops;
# weights in several files with an index.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
 "train": {"steps": 150, "threads": 1, "eval_interval": 0, "output_dir": "run"}}
END
"$ZR" train c.json --quiet
member() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"; } # NAME FILE

# ---- eval
check "eval" sh -c '"$0" eval run --json >whole' "$ZR"
check "... whole windows" test "$(member stride whole) $(member seq_length whole)" = "16 16"
check "... of bytes" test "$(member bytes whole)" = "$(member tokens whole)"
check "a stride of a window" sh -c '"$0" eval run --json --stride 16 >all' "$ZR"
check "... counts the end of the text too" test "$(member tokens all)" = $(($(wc -c <text.txt) - 1))
head -c $(($(member tokens whole) + 1)) text.txt >fits.txt
check "... where there is none it is the same" sh -c '"$0" eval run --data fits.txt --json >fits && \
    "$0" eval run --data fits.txt --json --stride 16 | cmp - fits' "$ZR"
check "a shorter one" sh -c '"$0" eval run --json --stride 4 >four' "$ZR"
check "... has seen more before each token" test "$(printf '%s\n' "$(member loss four)" "$(member loss whole)" | sort -g | head -1)" = "$(member loss four)"
check "... and counts all too" test "$(member tokens four)" = "$(member tokens all)"
check "... for people" prints '^windows  *of 16 tokens, of which the last 4 count$' "$ZR" eval run --stride 4
check "as many batches are as many tokens" prints '"tokens":256,' "$ZR" eval run --json --stride 4 --batches 2
check "a longer one is refused" fails 2 'a stride of 17 tokens; windows have 16' "$ZR" eval run --stride 17
check "none is refused" fails 2 'at least 1' "$ZR" eval run --stride 0

# ---- generate
gen() { "$ZR" generate run --prompt 'line 1' --tokens 40 "$@"; }
check "generate" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --seed 7 >seven' "$ZR"
check "... as JSON, with the seed" prints '"tokens":40, "seed":7, "stopped":false, "samples":\[{"text":"' gen --seed 7 --json
check "a share of all is the same" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --seed 7 --top-p 1 | cmp - seven' "$ZR"
gen --temperature 0 >likeliest
check "a small share is the likeliest" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --top-p 0.000001 | cmp - likeliest' "$ZR"
check "three samples" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --seed 6 --samples 3 >three' "$ZR"
for seed in 6 7 8; do
    gen --seed $seed >one
    { echo "==> seed $seed <=="; cat one; [ $seed = 8 ] || echo; } >>wanted
done
check "... are those of their seeds" cmp three wanted
check "... as JSON" prints '"seed":6, .*{"text":.*"seed":6, .*{"text":.*"seed":7, .*{"text":.*"seed":8, ' gen --seed 6 --samples 3 --json
word=$(sed 's/^line 1//' likeliest | head -c 12 | tail -c 3)
check "the text that it stops at" sh -c 'grep -q -F -e "$0" likeliest' "$word"
check "a text to stop at" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --temperature 0 --stop "$1" >stopped' "$ZR" "$word"
check "... is not in it" sh -c '! tail -c +7 stopped | grep -q -F -e "$0"' "$word"
check "... and what stands before it is" sh -c 'head -c $(($(wc -c <stopped) - 1)) stopped >a && head -c $(wc -c <a) likeliest | cmp - a' x
check "... as JSON" prints '"stopped":true' gen --temperature 0 --stop "$word" --json
check "... of several the first" sh -c '"$0" generate run --prompt "line 1" --tokens 40 --temperature 0 --stop none --stop "$1" | cmp - stopped' "$ZR" "$word"
check "no share" fails 2 'top-p' gen --top-p 0
check "more than all" fails 2 'top-p' gen --top-p 1.01
check "no samples" fails 2 'samples' gen --samples 0
check "an empty text to stop at" fails 2 'empty text' gen --stop ''

# ---- an index
mkdir indexed && cp run/model/config.json indexed && cp run/model/model.safetensors indexed/model-00001-of-00001.safetensors
"$ZR" inspect run/model --json --no-norms | grep -o '"name":"[^"]*"' | grep transformer | sort -u | sed 's/"name"://' >names
check "the names of the tensors" test "$(wc -l <names)" = 16
index() { { echo '{"weight_map": {'; sed "s|\$|: \"$1\"|; \$!s/\$/,/" names; echo '}}'; } >indexed/model.safetensors.index.json; }
index model-00001-of-00001.safetensors
check "weights with an index: inspect" prints '^kind  *Hugging Face directory' "$ZR" inspect indexed
check "... verify" prints 'indexed: whole' "$ZR" verify indexed
check "... eval" sh -c '"$0" eval indexed --data text.txt --json | cut -d, -f1 >a && cut -d, -f1 whole | cmp - a' "$ZR"
check "... generate" sh -c '"$0" generate indexed --prompt "line 1" --tokens 40 --seed 7 | cmp - seven' "$ZR"
check "... train" "$ZR" train c.json --quiet --model='{"init": "indexed"}' --train.steps=1 --train.output_dir=tuned
check "... convert" sh -c '"$0" convert indexed started --quiet && cmp started/step-00000000/model.safetensors run/model/model.safetensors' "$ZR"
cp run/model/model.safetensors outside.safetensors
index ../outside.safetensors
for command in inspect verify "eval --data text.txt" generate; do
    check "a file outside: ${command%% *}" fails 65 'is not the name of a file in the directory' "$ZR" $command indexed
done
check "... convert" fails 65 'is not the name of a file in the directory' "$ZR" convert indexed elsewhere
check "... leaves nothing" test ! -e elsewhere
check "... train" fails 65 'is not the name of a file in the directory' "$ZR" train c.json --quiet --model='{"init": "indexed"}' --train.output_dir=none
echo '{"weight_map": ' >indexed/model.safetensors.index.json
check "an index that is no JSON" fails 65 'model.safetensors.index.json' "$ZR" eval indexed --data text.txt

# ---- directories that are not as they should be: each message names the file and what to do
broken() { rm -rf bad && mkdir bad && cp run/model/* bad; }
train() { "$ZR" train --model.init=bad --data text.txt --train.steps=1 --train.output_dir=none --quiet; }
pointer() { printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n' >"bad/$1"; }
broken
pointer model.safetensors
check "a pointer of Git LFS" fails 65 'bad/model.safetensors: .* pointer of Git LFS.*git lfs pull' train
broken
pointer config.json
check "... also in place of JSON" fails 65 'bad/config.json:1:1: .* pointer of Git LFS.*git lfs pull' train
broken
head -c 5 run/model/model.safetensors >bad/model.safetensors
check "a file cut short" fails 65 'it has 5 bytes, but needs at least 8; copy the file again' train
head -c 100 run/model/model.safetensors >bad/model.safetensors
check "... in its header" fails 65 'but the file only 100; copy the file again' train
rm bad/model.safetensors
check "no weights" fails 66 'bad: it holds neither .*; copy all files' train
: >bad/pytorch_model.bin
check "... but the older format" fails 66 'bad: it holds neither .* pytorch_model.bin; .* save_pretrained' train
broken
bytes=$(wc -c <bad/model.safetensors)
printf '\377\377\377\177' | dd of=bad/model.safetensors bs=1 seek=$((bytes - 4)) conv=notrunc 2>dd.err
for command in train "$ZR eval bad --data text.txt" "$ZR generate bad"; do
    check "a number that is none: ${command##*/}" fails 65 '^zr: bad/model.safetensors: tensor .*: element .* is -*nan' $command
done
broken
sed 's/"n_embd": 16/"n_embd": 32/' run/model/config.json >bad/config.json
check "config.json of another model" fails 65 'transformer.*: shape (16.*); expected (32' train
check "... with what to do" grep -q 'config.json and the weights are not of the same model' message
broken
sed 's/"F32"/"F16"/' run/model/model.safetensors >bad/model.safetensors
check "types that do not fill their bytes" fails 65 'bad/model.safetensors: tensor ' train

broken
sed 's/"eos_token_id": null/"eos_token_id": [-1, 3]/' run/model/config.json >bad/config.json
check "an id of no token is read" test "$(grep -c 'id": \[-1, 3\]' bad/config.json) $("$ZR" generate bad --prompt 'line 1' --tokens 5 --temperature 0 --json | grep -c '"tokens":5')" = "1 1"

# ---- dropout of a directory
broken
sed 's/\("[a-z]*_pdrop"\): [0-9.]*/\1: 0.25/' run/model/config.json >bad/config.json
tuned() { "$ZR" train --model.init=bad --data text.txt --train.steps=2 --train.threads=1 --train.save_interval=1 --quiet --train.output_dir="$@"; }
rates() { grep -c '_pdrop": 0.25' "$1/config.json"; }
check "trains with the directory's dropout" tuned dropped
check "... as with the key" tuned keyed --model.dropout=0.25
check "... to the bit" same dropped keyed
check "... and not with another" tuned without --model.dropout=0
check "... whose losses differ" sh -c '! cmp -s "$0" "$1"' dropped/metrics.jsonl without/metrics.jsonl
check "its weights carry it" test "$(rates dropped/model) $(rates without/model)" = "3 0"
check "... and a checkpoint" test "$(rates dropped/step-00000002)" = 3
check "... and what zr convert writes" sh -c '"$0" convert bad converted --quiet && "$0" convert dropped/step-00000002 again --quiet' "$ZR"
check "... of both" test "$(rates converted/step-00000000) $(rates again)" = "3 3"
check "an evaluation is without" test "$("$ZR" eval bad --data text.txt --json | sed 's/.*"loss":\([^,]*\),.*/\1/')" = "$("$ZR" eval run/model --data text.txt --json | sed 's/.*"loss":\([^,]*\),.*/\1/')"
sed -i 's/0.25/0.5/' bad/config.json
check "a run that is resumed keeps its own" "$ZR" train dropped/config.json --train.steps=4 --resume
check "... without a word" sh -c '! grep -q pdrop err'
sed -i 's/0.5/0.25/' bad/config.json
check "... as without the change" "$ZR" train keyed/config.json --quiet --train.steps=4 --resume
check "... to the bit" same dropped keyed

check "a folder that is not there" fails 73 'no/bad.tmp: .*; make the folder above it first' "$ZR" convert run no/bad
check "more tokens than positions" fails 78 'seq_length: 17 is longer than model.n_positions 16; give at most' "$ZR" \
    train --model.init=run/model --data text.txt --seq 17
echo "1..$n"
