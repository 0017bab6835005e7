#TEST timeout=120
# Check that zr inspect, verify and convert show, check and convert tensors, and name damaged ones.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
 "train": {"steps": 8, "threads": 1, "save_interval": 4, "keep_last": 2, "output_dir": "run"}}
END
"$ZR" train c.json --ranks 2 --quiet
says() { # PATTERN CODE COMMAND...: a message
    pattern=$1
    shift
    code "$@" && grep -q -e "$pattern" err.now || { echo "no \"$pattern\"" >&2; return 1; }
}
shows() { # PATTERN COMMAND...: a result
    pattern=$1
    shift
    "$@" >shown && grep -q -e "$pattern" shown || { echo "no \"$pattern\"" >&2; return 1; }
}
damage() { printf x | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

# ---- inspect
check "a run is its newest checkpoint" shows '^run/step-00000008$' "$ZR" inspect run
check "... with all of them" grep -q '^checkpoints  step-00000008' shown
check "... the older one too" grep -q '^  *step-00000004' shown
check "... who wrote it" grep -q '^layout       2 ranks, stage 0, F32, lean, optimizer adamw' shown
check "... seed and samples" sh -c 'grep -q "^seed  *1234" shown && grep -q "^samples  *64 consumed" shown'
check "... weights and both moments" test "$(grep -c '^  transformer.wte.weight  *F32  *\[256,16\]' shown)" = 3
check "a checkpoint of the run" shows '^step         4,' "$ZR" inspect run/step-00000004/
check "from within it" shows '^step         4,' sh -c 'cd run/step-00000004 && "$0" inspect .' "$ZR"
mkdir copied && cp -r run/step-00000004 copied
check "a folder with a checkpoint that was copied" shows '^copied/step-00000004$' "$ZR" inspect copied
check "a Hugging Face directory" shows '^kind  *Hugging Face directory' "$ZR" inspect run/model
check "one file" shows '^kind  *safetensors file' "$ZR" inspect run/model/model.safetensors
check "without reading" shows 'transformer.wte.weight  *F32  *\[256,16\] *$' "$ZR" inspect run/model --no-norms
check "as JSON" sh -c '"$0" inspect run --json >json && grep -q "\"step\":8, \"build\":\"" json &&
    grep -q "\"checkpoints\":\[{\"name\":\"step-00000008\", \"step\":8, \"whole\":true" json && grep -q "\"norm\":" json' "$ZR"
# A name with C1's CSI and a right-to-left mark is printed with JSON escapes, which read back the same.
named=$(printf 'run-\302\233[2J-\342\200\256-\303\244')
cp -r run "$named"
plain() { # COMMAND...: prints JSON that has the name, and nothing that a terminal would obey
    "$@" >json && grep -q -F "$(printf 'run-\\u009b[2J-\\u202e-\303\244')" json || return 1
    ! LC_ALL=C grep -q "$(printf '\302\233')" json && ! LC_ALL=C grep -q "$(printf '\342\200\256')" json
}
check "JSON without what a terminal obeys" plain "$ZR" inspect "$named" --json
check "... of verify" plain "$ZR" verify "$named" --json
check "... of report" plain "$ZR" report "$named" --json -o page.html
rm -rf "$named"
# The norm of a tensor with known values: 3, 4 and a NaN.
header='{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"c":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}}'
{ printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
  printf '\000\000\100\100\000\000\200\100'; printf '\300\177\200\100'; printf '\0\0\0\0\0\0\0\0'; } >known.safetensors
check "L2 norms" shows '^  a  *F32  *\[2\]  *5$' "$ZR" inspect known.safetensors
check "... without what is not finite, which is counted" grep -q '^  b  *BF16  *\[2\]  *4  1 NOT FINITE' shown
check "... and - for types that zr does not read" grep -q '^  c  *I64  *\[1\]  *-$' shown
check "nothing there" says 'nope is not there' 66 "$ZR" inspect nope
mkdir empty
check "a directory with nothing in it" says 'no checkpoint' 66 "$ZR" inspect empty
check "a file of another kind" says 'not a safetensors file' 65 "$ZR" inspect text.txt

# ---- verify
check "a whole run" shows '^run/step-00000004: whole (every byte' "$ZR" verify run
check "... its weights, which have no checksums" grep -q '^run/model: whole (structure and finite numbers: it has no' shown
check "as JSON" shows '^{"whole":true, "parts":\[{"path":"run/step-00000008", "kind":"checkpoint"' "$ZR" verify run --json
for place in model.safetensors:5000 exp_avg.safetensors:20 exp_avg_sq.safetensors:34000 config.json:40 manifest.json:60; do
    rm -rf bad && cp -r run bad && damage bad/step-00000008/${place%:*} ${place#*:}
    check "a byte of ${place%:*}" says "step-00000008/${place%:*}" 65 "$ZR" verify bad/step-00000008
done
rm -rf bad && cp -r run bad && damage bad/step-00000004/model.safetensors 5000 && damage bad/step-00000008/exp_avg.safetensors 9000
check "damage in two checkpoints" code 65 "$ZR" verify bad
check "... is named, a line each" test "$(grep -c '^  bad/step-.* are damaged (tensor transformer' out)" = 2
check "... with the tensor, as JSON too" sh -c '! "$0" verify bad --json >json 2>&1; grep -q "^{\"whole\":false" json' "$ZR"
check "inspect shows which tensor" says 'are damaged' 65 "$ZR" inspect bad
check "... and the others" sh -c 'test "$(grep -c DAMAGED out)" = 1 && test "$(grep -c "F32" out)" -gt 40'
check "damaged weights are not evaluated" says 'are damaged' 65 "$ZR" eval bad/step-00000004
check "... nor converted" says 'are damaged' 65 "$ZR" convert bad/step-00000004 new
check "... and leave nothing" test ! -e new -a ! -e new.tmp
rm bad/step-00000008/manifest.json
check "a checkpoint without a manifest" says 'manifest.json' 65 "$ZR" verify bad/step-00000008
check "... is passed over by inspect, which says so" says 'step-00000008 is skipped: .*manifest.json' 65 "$ZR" inspect bad
cp -r run/model nan && printf '\000\000\300\177' | dd of=nan/model.safetensors bs=1 seek=4100 conv=notrunc 2>/dev/null
check "weights that are not finite" says 'transformer.wte.weight: 1 numbers are not finite, the first is element 1' 65 "$ZR" verify nan
cp -r run/model short && sed -i 's/"n_layer": 1/"n_layer": 2/' short/config.json
check "weights that are not all there" says 'transformer.h.1' 65 "$ZR" verify short
head -c 30000 run/model/model.safetensors >cut.safetensors
check "a file that is cut" says 'cut.safetensors' 65 "$ZR" verify cut.safetensors

# ---- convert
check "a run to a Hugging Face directory" says 'exported: a Hugging Face directory with the .* weights of run/step-00000008' 0 \
    "$ZR" convert run exported
check "... is what the run itself leaves" sh -c 'cmp exported/model.safetensors run/model/model.safetensors && cmp exported/config.json run/model/config.json && ls exported >1 && ls run/model | grep -v "^trained.json$" | cmp - 1'
check "never over what is there" says 'exported is there already' 73 "$ZR" convert run exported
check "... nor over a file" says 'c.json is there already' 73 "$ZR" convert run c.json
check "where nothing can be" code 73 "$ZR" convert run no/folder/here
check "on a disk that is full" code 74 sh -c 'ulimit -f 8 && exec "$0" convert run full' "$ZR"
check "... a run neither" code 74 sh -c 'ulimit -f 8 && exec "$0" convert exported full' "$ZR"
check "... and nothing is left" test ! -e full -a ! -e full.tmp
mkdir taken.tmp
check "beside another that makes it" says 'taken.tmp' 73 "$ZR" convert run taken
check "... which stays" test -d taken.tmp -a ! -e taken
for type in bf16 f16; do
    check "rounded to $type" "$ZR" convert run in-$type --dtype $type --quiet
    check "... in half the space" sh -c 'test $(($(wc -c <in-'$type'/model.safetensors) - 4096)) = $((($(wc -c <exported/model.safetensors) - 4096) / 2))'
    check "... evaluates nearly as before" sh -c '"$0" eval exported --data text.txt --json >1 && "$0" eval in-'$type' --data text.txt --json >2 &&
        sed "s/.*\"loss\":\([0-9.]*\).*/\1/" 1 2 | awk "NR == 1 { a = \$1 } END { d = a - \$1; exit !(d < 0.02 && d > -0.02) }"' "$ZR"
done
check "... with the type in config.json" grep -q '"torch_dtype": "float16"' in-f16/config.json
check "rounding what is rounded changes nothing" sh -c '"$0" convert in-bf16 again --to hf --dtype bf16 --quiet && cmp again/model.safetensors in-bf16/model.safetensors' "$ZR"
check "a type of no kind" says 'f32, bf16 or f16' 2 "$ZR" convert run new --dtype int8
check "a checkpoint of a checkpoint" code 2 "$ZR" convert run new --to run
check "one file" says 'one file' 2 "$ZR" convert run/model/model.safetensors new
check "a Hugging Face directory to a run" says '--resume continues it' 0 "$ZR" convert exported tuned
check "... that is whole" "$ZR" verify tuned
check "... with the same weights" sh -c 'cmp tuned/step-00000000/model.safetensors exported/model.safetensors'
check "a run goes on from it" says 'goes on after step 0 of 4, from tuned/step-00000000' 0 \
    "$ZR" train c.json --train.output_dir=tuned --resume --train.steps=4
check "... and says that the moments are not there" grep -q 'no states of the optimizer adamw, so they start at zero' err
check "... as from model.init" sh -c '"$0" train c.json --quiet --train.output_dir=init --train.steps=4 --model.init=exported &&
    cmp init/model/model.safetensors tuned/model/model.safetensors' "$ZR"
"$ZR" convert exported other --quiet
check "another model does not" says 'model.n_head is 4, but 2' 78 "$ZR" train c.json --train.output_dir=other --resume --model.n_head=4
check "... with another epsilon neither" says 'model.layer_norm_epsilon' 78 "$ZR" train c.json --train.output_dir=other --resume --model.layer_norm_epsilon=0.1

# ---- eval and generate
check "a checkpoint evaluates on the run's own text" sh -c '"$0" eval run/step-00000008 --json >1 && "$0" eval run --json >2 && cmp 1 2' "$ZR"
cut -d, -f1 1 >a1
check "... and generates" sh -c '"$0" generate run/step-00000008 --tokens 9 >1 && "$0" generate run --tokens 9 >2 && cmp 1 2' "$ZR"
ln -s run/step-00000008 best
check "a checkpoint that a link names" sh -c '"$0" eval best --data text.txt --json | cut -d, -f1 | cmp - a1' "$ZR"
cp -r run/model step-143000
check "a Hugging Face directory by a checkpoint's name" shows '^kind  *Hugging Face directory' "$ZR" inspect step-143000
cp -r run longer && cp init/model/model.safetensors longer/model && "$ZR" eval longer --json | cut -d, -f1 >4
check "a model that was written last is what is evaluated" sh -c '! cmp -s 4 a1 && [ -s 4 ]'
touch -t 200001010000 longer/model/model.safetensors
check "a checkpoint that is newer is" sh -c '"$0" eval longer --json | cut -d, -f1 | cmp - a1' "$ZR"
touch -t 210001010000 longer/model/model.safetensors
check "... and one that is older is not" sh -c '! "$0" eval longer --json | cut -d, -f1 | cmp -s - a1' "$ZR"
# The same of a model in several files, by its index.
mv longer/model/model.safetensors longer/model/model-00001-of-00001.safetensors
"$ZR" inspect init/model --json --no-norms | grep -o '"name":"[^"]*"' | grep transformer | sort -u | sed 's/"name"://' >names
{ echo '{"weight_map": {'; sed 's|$|: "model-00001-of-00001.safetensors"|; $!s/$/,/' names; echo '}}'; } \
    >longer/model/model.safetensors.index.json
check "a model of several files that was written last" sh -c '"$0" eval longer --json | cut -d, -f1 | cmp - 4' "$ZR"
touch -t 200001010000 longer/model/model.safetensors.index.json
check "... and one older than a checkpoint" sh -c '"$0" eval longer --json | cut -d, -f1 | cmp - a1' "$ZR"
rm -r run/model
check "a run without a model is its newest checkpoint" sh -c '"$0" eval run --json >3 && cut -d, -f1 2 >a; "$0" eval run/step-00000008 --json | cmp - 3' "$ZR"
echo "1..$n"
