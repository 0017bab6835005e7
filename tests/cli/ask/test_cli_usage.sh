#TEST timeout=120
# Check help, usage errors, exit codes and refused inputs: one message, the documented code, no file.
. tests/support/command.inc

ok() { n=$((n + 1)); echo "ok $n - $1"; }
not_ok() { n=$((n + 1)); echo "not ok $n - $1"; sed 's/^/# /' err; }

# expect NAME CODE PATTERN COMMAND...: exit code, a message that matches, at most 12 lines, stdout empty
expect() {
    what=$1 code=$2 pattern=$3
    shift 3
    "$@" >out 2>err
    rc=$?
    if [ $rc != "$code" ]; then
        echo "# exit code $rc, wanted $code"; not_ok "$what"
    elif [ -n "$pattern" ] && ! grep -q "$pattern" err; then
        echo "# no \"$pattern\" in the message"; not_ok "$what"
    elif [ "$(wc -l <err)" -gt 12 ] || [ -s out ]; then
        echo "# more than 12 lines, or something on stdout"; not_ok "$what"
    else
        ok "$what"
    fi
}
# shows NAME PATTERN COMMAND...: succeeds and prints it on stdout
shows() {
    what=$1 pattern=$2
    shift 2
    if "$@" >out 2>err && grep -q "$pattern" out; then ok "$what"; else not_ok "$what"; fi
}

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
printf 'abc' >short.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt"}, "train_micro_batch_size_per_gpu": 2,
 "train": {"steps": 3, "output_dir": "run"}}
END

shows "zr --help"             "^Examples"        "$ZR" --help
shows "zr --version"          "^zr [0-9]"        "$ZR" --version
for c in train plan eval generate inspect verify convert info report tokenize init; do
    shows "zr $c --help"      "^Examples"        "$ZR" $c --help
done
for c in train plan simulate; do
    shows "zr $c -h names the keys" "zr $c -h keys"   "$ZR" $c -h
    if [ "$(wc -l <out)" -le 60 ]; then ok "... on a page"; else not_ok "... on a page"; fi
    shows "zr $c -h keys has all" "zero_optimization.stage  *\[" "$ZR" $c -h keys
    if grep -q "train.hang_timeout" out && ! grep -q "^Examples" out; then ok "... alone"; else not_ok "... alone"; fi
done
# Words after -h select options and keys, by their names, values and explanations; a word of nothing is refused.
no_key() { if grep -q "^  $1 " out; then not_ok "... without $1"; else ok "... without $1"; fi; }
shows "zr train -h WORD"      "^  optimizer.params.lr " "$ZR" train -h lr
no_key zero_optimization.stage
shows "... its options"       "^  --max-time TIME"    "$ZR" help train max-time
no_key --resume
shows "... those of all commands" "^  --color WHEN"   "$ZR" train -h color
shows "... the keys that go with them" "^  train.hang_timeout " "$ZR" train -h time
shows "zr help keys WORD"     "^  scheduler.params.warmup_num_steps " "$ZR" help keys WARM-UP
no_key --resume
shows "... by a value"        "^  scheduler.type "    "$ZR" help keys WarmupCosineLR
if [ "$(grep -c '^  [a-z]' out)" -lt 5 ]; then ok "... and few more"; else not_ok "... and few more"; fi
shows "... by two words"      "^  zero_optimization.offload_optimizer.nvme_path " "$ZR" help keys offload nvme_path
no_key zero_optimization.offload_optimizer.pin_memory
shows "... a key without effect" "^  wall_clock_breakdown .* no effect" "$ZR" help keys wall_clock
shows "zr help keys"          "^  train.hang_timeout " "$ZR" help keys
shows "words without keys"    "^  --stride N"         "$ZR" eval -h stride
no_key --batches
shows "zr -h COMMAND"         "^zr plan:"             "$ZR" -h plan
expect "the middle of a word of explanations" 2 'no key .*"mputed"' "$ZR" help keys mputed
expect "a word of no key"     2  'did you mean "lr"'  "$ZR" train -h lrx
expect "... of no option"     2  'no option has "lrr"' "$ZR" eval -h lrr
expect "... of keys alone"    2  'no key .*"gnat"'    "$ZR" help keys gnat
expect "an option of none in help" 2 'unknown option --typo' "$ZR" help train --typo
expect "... after -h"         2  'unknown option --typo' "$ZR" train -h --typo
expect "... of the keys"      2  'such as --typo'             "$ZR" help keys --typo
expect "a command of none"    2  'did you mean "train"' "$ZR" help trian

shows "zr info"               "^kernels"         "$ZR" info
shows "zr info --json"        '"version":'       "$ZR" info --json
shows "zr plan of a preset"   "stage 3"          "$ZR" plan --preset gpt2-1.5b --ranks 64
shows "what fits, as memory.limit" "fits in 50.33 MB.*no .*no .*no .*no" "$ZR" plan c.json --memory 48MiB
shows "FLOPs are integers"    '"model": [0-9]*, "hardware": [0-9]*}' "$ZR" plan c.json --json
shows "zr plan --schedule"    "update"           "$ZR" plan c.json --schedule

expect "no command"           2  "zr --help"          "$ZR"
expect "unknown command"      2  'did you mean "train"' "$ZR" trian
expect "a word that people try" 2 '`zr generate DIR --chat --prompt TEXT` does that' "$ZR" chat run
expect "a shortened option"   2  'did you mean --temperature' "$ZR" generate . --temp 1
expect "... in capitals"      2  'did you mean --ranks' "$ZR" train c.json --Ranks 2
expect "a name in capitals"   66  'did you mean dgx-h100x8' "$ZR" plan c.json --cluster DGX-H100x8
shows "zr help help"          "^Commands"        "$ZR" help help
expect "--resume without a directory" 2 "resume needs train.output_dir" "$ZR" train c.json --resume --train.output_dir=null
expect "a section of keys"    2  "data to train on are --data.train=t.txt" "$ZR" plan c.json --data t.txt
expect "unknown option"       2  "did you mean --ranks" "$ZR" train c.json --rank 2
expect "no value"             2  "needs a value"      "$ZR" train c.json --ranks
expect "no number"            2  '"x"'                "$ZR" train c.json --ranks x
expect "0 ranks"              2  "at least 1"         "$ZR" train c.json --ranks 0
expect "one word too many"    2  "unexpected argument"           "$ZR" train c.json d.json
expect "no configuration"     2  "CONFIG.json"        "$ZR" train
expect "no directory"         2  "directory"          "$ZR" eval
expect "colour of no kind"    2  "auto, always"       "$ZR" info --color=blue
expect "negative temperature" 2  "temperature"        "$ZR" generate . --temperature -1

expect "configuration missing"    66 "nope.json"      "$ZR" train nope.json
expect "unknown key"              78 "train.steps"    "$ZR" train c.json --train.stepps=3
expect "wrong type"               78 "train.steps"    "$ZR" train c.json --train.steps=many
expect "negative number"          78 "train.steps"    "$ZR" train c.json --train.steps=-1
echo '{"train": {"steps": 1}, "train": {"steps": 2}}' >double.json
expect "key twice"                78 "double.json:1"  "$ZR" train double.json
expect "batch that does not hold" 78 "train_batch_size" "$ZR" train c.json --train_batch_size=7 --ranks 2
expect "heads do not divide"      78 "n_head"         "$ZR" train c.json --model.n_head=3
expect "no layers"                78 "n_layer"        "$ZR" train c.json --model.n_layer=0
expect "micro-batch beyond counting" 78 "train_micro_batch_size_per_gpu 9007199254740991" \
    "$ZR" plan c.json --train_micro_batch_size_per_gpu=9007199254740991
expect "... and its arena"        78 "train_micro_batch_size_per_gpu" \
    "$ZR" plan c.json --train_micro_batch_size_per_gpu=1125899906842624
expect "longer than the model"    78 "seq_length"     "$ZR" train c.json --data.seq_length=17
expect "unknown preset"           2 "gpt2-124m"      "$ZR" plan --preset gpt3
expect "tensor parallel"          78 "parallel.tensor" "$ZR" train c.json --parallel.tensor=2
expect "data missing"             66 "nope.txt"       "$ZR" train c.json --data.train=nope.txt
expect "data is a directory"      66 "directory"      "$ZR" train c.json --data.train=.
expect "data too short"           65 "3 tokens"       "$ZR" train c.json --data.train=short.txt
printf 'abc' >odd.bin
expect "odd token file"           65 "odd.bin"        "$ZR" train c.json --data.train=odd.bin
expect "validation missing"       66 "val.txt"        "$ZR" train c.json --data.val=val.txt --ranks 2
expect "memory limit"             71 "memory.limit"   "$ZR" train c.json --memory.limit=40MiB --ranks 2
expect "output under a file"      73 "not a directory" "$ZR" train c.json --train.output_dir=text.txt/run
expect "control bytes escaped"    66 'x1b'            "$ZR" train c.json --data.train="$(printf 'no\033[31mpe')"
expect "directory missing"        66 "nope"           "$ZR" eval nope
expect "no weights"               66 "init"           "$ZR" train c.json --model.init=init
mkdir broken
cat >broken/config.json <<'END'
{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 256}
END
printf '\377\377\377\377\377\377\377\177{' >broken/model.safetensors
expect "broken safetensors"       65 "safetensors"    "$ZR" eval broken --data text.txt
echo '{"model_type": "gpt2", "n_layer": 65537}' >broken/config.json
expect "too many layers to load"  65 "broken/config.json: gpt2: n_layer is 65537" \
    "$ZR" train c.json --model.init=broken
expect "... and to evaluate"      65 "config.json: gpt2: n_layer is 65537" "$ZR" eval broken --data text.txt
rm broken/config.json
mkfifo broken/config.json
expect "a pipe is no model"       66 "config.json: it is .*not a regular file" "$ZR" train c.json --model.init=broken
expect "... nor a run"            66 "config.json: it is .*not a regular file" "$ZR" eval broken
mkdir piped piped/model
mkfifo piped/config.json
: >piped/model/model.safetensors
expect "... nor a run's settings" 66 "config.json: it is .*not a regular file" "$ZR" eval piped
if [ -e run ]; then not_ok "nothing was created"; else ok "nothing was created"; fi

# A folder with a configuration of zr, in whatever form, is no run, for each command that takes one.
mkdir conf plain
"$ZR" init conf/config.json --quiet
cp c.json plain/config.json
for c in eval generate inspect verify "generate --chat --prompt Hi"; do
    expect "zr $c of a configuration" 66 'conf is not a run: .*`zr train conf/config.json`' "$ZR" $c conf
    expect "... without comments" 66 'plain is not a run: ' "$ZR" $c plain/
done
expect "zr convert of a configuration" 66 'conf is not a run: ' "$ZR" convert conf out-conf
expect "weights of a configuration" 65 'model.init: conf has a configuration of zr .*, not a model' "$ZR" train c.json --model.init=conf
echo '{"architectures": ["X"]}' >plain/config.json
expect "... of another model" 65 'model_type' "$ZR" eval plain
name='a "name" of spaces and
newlines'
cp text.txt "$name"
expect "odd names work"           0 ""                "$ZR" train c.json --quiet --data.train="$name" --train.output_dir="out $name"
expect "a run is not overwritten" 73 'x0anewlines holds another run'    "$ZR" train c.json --train.output_dir="out $name"
bytes=$(printf 'no \377 UTF-8')
expect "a name that is no UTF-8"  0 ""                "$ZR" train c.json --quiet --train.output_dir="$bytes"
shows "... and its run is read"   "^loss"             "$ZR" eval "$bytes" --data text.txt
mkdir held
echo "host elsewhere, process 1" >held/lock
expect "a locked directory"       73 "host elsewhere" "$ZR" train c.json --train.output_dir=held
loader=$(ldd "$ZR" 2>/dev/null | sed -n 's|^[[:space:]]*\(/[^ ]*/ld-[^ ]*\) .*|\1|p')
if [ -n "$loader" ]; then
    shows "through the loader" "^zr" env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY "$loader" "$ZR" info
fi
"$ZR" plan c.json 2>err >/dev/full
if [ $? = 74 ]; then ok "full standard output"; else not_ok "full standard output"; fi
echo "1..$n"
