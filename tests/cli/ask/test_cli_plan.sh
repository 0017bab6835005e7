#TEST timeout=120 long=more
# Check `zr plan`: the largest model that fits is one that `zr train` starts; choices and advice, pictures, shapes,
# tables.
. tests/support/command.inc

# Models of which all layouts are planned; the largest only in a long run.
cat >wide.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 8, "n_head": 32, "n_embd": 4096, "n_positions": 1024, "vocab_size": 50257},
 "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}, "train_micro_batch_size_per_gpu": 1}
END_CONFIG
hundred="--preset gpt2-350m --memory 1GB" tight="wide.json --ranks 64 --cluster dgx-h100x8 --memory.limit=3.6GB" policy=selective
endless="--max batch --model.n_embd=2 --data.seq_length=1"
if [ -n "${ZR_LONG-}" ]; then
    hundred="--preset zero-100b-317x5120x80 --memory 8GB"
    endless="--max layers --model.n_embd=2 --data.seq_length=1 --train_micro_batch_size_per_gpu=1"
fi

# Print the integer of a JSON key in a file.
number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$2"; }

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32},
 "data": {"train": "text.txt"}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
 "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0, "train": {"steps": 1, "output_dir": "run"}}
END_CONFIG

# Print the keys that max.json sets, as options, but the limit.
free_keys() {
    python3 -c '
import json
show = lambda x: x if isinstance(x, str) else json.dumps(x)
print(*(f"--{key}={show(x)}" for key, x in json.load(open("max.json"))["max"]["keys"].items() if key != "memory.limit"))'
}
# largest WHAT KEY RANKS OPTION...: check that what plan names trains under that limit, and that one more is refused
largest() {
    what=$1 key=$2 ranks=$3
    shift 3
    "$ZR" plan c.json --quiet --json --max "$what" --memory 60MiB --ranks "$ranks" "$@" >max.json || return 1
    most=$(number "$key" max.json)
    [ "$(number needs max.json)" -le 62914560 ] && [ "$(number next_needs max.json)" -gt 62914560 ] || return 1
    keys=$(free_keys)
    rm -rf run
    "$ZR" train c.json --quiet --ranks "$ranks" --memory.limit=60MiB "$@" $keys --"$key=$most" || return 1
    rm -rf run
    code 71 "$ZR" train c.json --quiet --ranks "$ranks" --memory.limit=60MiB "$@" $keys --"$key=$((most + 1))" && [ ! -e run ]
}
layers=model.n_layer batch=train_micro_batch_size_per_gpu
check "the most layers train, one more does not start" largest layers $layers 1
check "... on 2 ranks at stage 3" largest layers $layers 2 --zero_optimization.stage=3
check "... with layout paper, bf16 and units computed again" largest layers $layers 2 --memory.layout=paper \
    --bf16.enabled=true --zero_optimization.stage=2 --activation_checkpointing.policy=unit
check "... with policy auto under that limit" largest layers $layers 1 --activation_checkpointing.policy=auto
check "the largest micro-batch trains, one row more does not start" largest batch $batch 2 --zero_optimization.stage=1
same_plan() {
    sed 's/, "max": .*/}/' max.json >a
    "$ZR" plan c.json --quiet --json --ranks 2 $(free_keys) --memory 60MiB >b && cmp a b
}
check "... and is the plan that is shown" same_plan
check "... with the train_batch_size that goes with it" test "$(number train_batch_size max.json)" = $((most * 2 * 2))
check "in GB as the papers count" prints ' of 60.0 MB' "$ZR" plan c.json --quiet --max layers --memory 60MB
check "a tiny model in a huge memory ends" prints 'but zr tries no more' "$ZR" plan c.json --quiet --memory 64TB $endless
check "memory.limit serves as --memory" prints 'model.n_layer [0-9]* fits: it needs .* of 62.9 MB' \
    "$ZR" plan c.json --quiet --max layers --memory.limit=60MiB
check "so does the profile's memory" prints ' of 32000.0 MB' "$ZR" plan --preset gpt2 --max batch --profile v100-dgx2 --quiet
check "not even one layer" fails 71 'model.n_layer 1 needs' "$ZR" plan c.json --max model --memory 48MiB
# The search begins at the fewest layers that have all frozen parameters.
check "layers with frozen ones" prints 'model.n_layer [1-9][0-9]* fits' \
    "$ZR" plan c.json --quiet --max layers --memory 60MiB --model.frozen='h.1.*'
check "... at policy auto" prints 'model.n_layer [1-9][0-9]* fits' "$ZR" plan c.json --quiet --max layers \
    --memory 60MiB --model.frozen='h.1.*' --activation_checkpointing.policy=auto
check "... of a family" prints 'model.n_layer [1-9][0-9]* fits' \
    "$ZR" plan --preset gpt2 --quiet --max model --memory 500MB --model.frozen='h.5.*'
check "... not even these" fails 71 'model.n_layer 12 needs' \
    "$ZR" plan --preset gpt2 --quiet --max layers --memory 60MB --model.frozen='h.11.*'
check "... that the model has not" fails 78 '"h.2.\*" matches no parameter' \
    "$ZR" plan c.json --quiet --max layers --memory 60MiB --model.frozen='h.2.*'
one="--stage 1 --activation_checkpointing.policy=none" # of many choices, which take long
tiled() { "$ZR" plan --model.vocab_size=256 --quiet --max model --memory "$2" --memory.tile_elems="$1" $one; }
check "a tile is a row at least" prints 'n_embd 768, ' tiled 800 1GB
check "... which is said" grep -q '^(zr tries no wider models: memory.tile_elems 800 is less than a row' printed
check "... but not where memory ends the search" prints 'n_embd [0-9]*, ' tiled 800 100MB
check "... is not" sh -c '! grep "no wider models" printed'
many() { "$ZR" plan --model.vocab_size=4100 --quiet --max model --memory 300MB --memory.tile_elems=256 $one; }
check "... nor has a table more than 4096 tiles" prints 'n_embd 128, ' many
check "... which is said" grep -q '^(zr tries no wider models: memory.tile_elems 256 ' printed
check "... and no width fits" fails 78 'memory.tile_elems is 100; a row of' tiled 100 80GB
check "of an unknown memory" fails 2 'memory' "$ZR" plan c.json --max model
check "of an unknown kind" fails 2 'model, layers or batch' "$ZR" plan c.json --max width --memory 1GiB

# family LIMIT_BYTES OPTION...: find the largest model under the limit, and check that its proportions are usual ones
family() {
    limit=$1
    shift
    "$ZR" plan --preset gpt2 --json --quiet --max model --memory "$limit" "$@" >max.json || return 1
    stage=$(sed 's/.*"stage": \([0-3]\), "model.n_embd".*/\1/' max.json)
    width=$(number model.n_embd max.json) heads=$(number model.n_head max.json) deep=$(number model.n_layer max.json)
    [ "$(number needs max.json)" -le "$limit" ] && [ "$(number next_needs max.json)" -gt "$limit" ] || return 1
    [ $((width % heads)) = 0 ] && [ $((width / heads)) -ge 42 ] && [ $((width / heads)) -le 160 ] &&
        [ $((width / deep)) -ge 10 ] && [ $((width / deep)) -le 400 ]
}
check "the largest model, of usual proportions" family 24000000000 --ranks 8
written() { # a model given by its sizes needs the same memory
    echo '{"model": {"type": "gpt2", "vocab_size": 50257, "n_positions": 1024}, "data": {"train": "text.txt"}}' >sizes.json
    "$ZR" plan sizes.json --quiet --json --ranks 8 --stage "$stage" --bf16.enabled=true --optimizer.type=AdamW --gradient_clipping=1 --batch 1 --seq 1024 \
        --model.n_layer="$deep" --model.n_embd="$width" --model.n_head="$heads" $(free_keys) >written.json || return 1
    [ "$(number params written.json)" = "$(number params max.json)" ] &&
        awk -v t="$(sed 's/.*"states": [0-9]*, "total": \([0-9]*\).*/\1/' written.json)" -v n="$(number needs max.json)" 'BEGIN { d = 1.03 * t + 50331648 - n; exit !(d * d < 4) }'
}
check "... its sizes written out need as much" written
check "... at the stage that shares most" test "$stage" = 3
small=$(number params max.json) wide=$width
check "... more memory" family 80000000000 --ranks 8 --activation_checkpointing.policy=unit
check "... is a wider model" test "$(number params max.json)" -gt "$small" -a "$width" -gt "$wide"
check "... at the stage that is asked for" family 24000000000 --ranks 8 --stage 1 --activation_checkpointing.policy=unit
check "... which is said" test "$stage" = 1
check "... and shares less" test "$(number params max.json)" -lt "$small"
check "... in words" prints 'with model.n_embd [0-9]*, n_head [0-9]*: .* parameters$' \
    "$ZR" plan --preset gpt2 --ranks 8 --max model --memory 2GB --quiet
check "... with the stage" grep -q '^at zero_optimization.stage 3$' printed

v100='--cluster dgx2x25 --ranks 64'
choices() { "$ZR" plan --preset gpt2-350m --batch 32 $v100 --quiet --every "$@" >choices; }
check "times without measured rates" prints 'for products alone' env XDG_CACHE_HOME="$DIR/none" "$ZR" plan c.json --ranks 2
check "... are too short" grep -q '^Times are of products alone, so a step takes longer' printed
check "... but not if all are known" sh -c '! "$0" plan c.json --ranks 2 --profile zen3 | grep "products alone"' "$ZR"
check "all stages and policies" choices
check "... each in a line" sh -c 'for s in 0 1 2 3; do for p in none selective unit; do
    grep -q "^[* ][> ]$s $p " choices || exit 1; done; done'
check "... every spacing" test "$(grep -c ' 0 unit/[0-9]* ' choices)" = 23
check "... one is advised, and why" sh -c 'test "$(grep -c "^[* ]>" choices)" = 1 && grep -q "^Advice: stage" choices &&
    grep -q "arithmetic" choices && grep -q "exposed" choices'
narrow() { "$@" >wide && awk 'length > 80 || /\033/ { print; bad = 1 } END { exit bad }' wide; }
check "... in 80 columns without colour" narrow cat choices
for what in --shapes "$hundred --profile zen3 --quiet" \
    "--preset gpt2 --max batch --memory 8GB --quiet" "--preset gpt2 --max model --memory 1GB --quiet"; do
    check "80 columns: $what" narrow "$ZR" plan $what
done
check "... in colour when asked" prints "$(printf '\033')\[" "$ZR" plan c.json --quiet --color always
check "what fits is fitting" sh -c 'awk "/^[* ][> ][0-3] / { if ((\$0 ~ / yes /) == (\$0 ~ / no /)) exit 1 }" choices'
"$ZR" plan c.json --json --advice --quiet --ranks 2 --stage 1 >one.json
needs() { sed "s/.*\"stage\": 1, \"policy\": \"$1\"[^}]*\"needs\": \([0-9]*\).*/\1/" one.json; }
between=$((($(needs none) + $(needs unit)) / 2))
check "a limit in between: auto is among the choices" prints '^.[ >]1 auto .* yes ' \
    "$ZR" plan c.json --quiet --memory.limit=$between --ranks 2 --stage 1
check "... and its picture says so" "$ZR" plan c.json --quiet --json --memory.limit=$between --ranks 2 --stage 1 \
    --activation_checkpointing.policy=auto --svg auto.svg
check "... in words" grep -q 'to stay within the limit' auto.svg
check "... and is not where it decides nothing" sh -c "! $ZR plan c.json --quiet --memory 1GiB | grep -q ' auto '"
if [ -r /proc/meminfo ]; then
    check "auto by what this host has left says so" sh -c "$ZR plan c.json --activation_checkpointing.policy=auto 2>&1 |
        grep -q 'this host has left'"
else
    skip "auto by what this host has left says so" "no /proc/meminfo"
fi
here="--preset gpt2-124m --memory 1GB --zero_optimization.offload_optimizer.device=none --activation_checkpointing.offload=none"
check "nothing fits: how many ranks would" prints 'nothing fits' "$ZR" plan $here --quiet
ranks=$(tr '\n' ' ' <printed | sed -n 's/.* With \([0-9]*\) ranks stage 3 .*/\1/p')
check "... so many do" sh -c "$ZR plan $here --quiet --ranks ${ranks:-1} | grep -q '3 unit .* yes '"
check "... and no fewer" sh -c "$ZR plan $here --quiet --ranks $((${ranks:-2} - 1)) |
    grep -q '3 unit .* no '"
check "... also beside a baseline that stage 3 does not know" prints 'With [0-9]* ranks' \
    "$ZR" plan $here --quiet --collectives.reduce=all_reduce
check "... also in JSON" prints "\"advice\": null, \"more_ranks\": {\"ranks\": $ranks, .*\"fits\": true}" \
    "$ZR" plan $here --json --advice
# --tokens: values calculated by hand from the step's time and FLOPs in the same document.
speed() { # OPTION...: tokens_per_sec, mfu, days as they should be, of the configured plan
    "$ZR" plan --preset gpt2-xl --ranks 8 --batch 4 --stage 3 --profile h100 --json --advice --quiet --tokens 1e9 "$@" >speed.json &&
        python3 - "$@" <<'END_PYTHON'
import json, math, sys
d = json.load(open("speed.json"))
t, steps = d["time"], math.ceil(1e9 / (8 * 4 * 1024))
close = lambda a, b: abs(a - b) <= 1e-6 * abs(b)
assert close(t["tokens_per_sec"], 8 * 4 * 1024 / t["step_sec"]), t
assert close(t["mfu"], d["flops"]["model"] / 8 / t["step_sec"] / 989e12), t
assert t["steps"] == steps and close(t["days"], steps * t["step_sec"] / 86400), t
END_PYTHON
}
if command -v python3 >/dev/null; then
    check "tokens a second, MFU and days" speed
    cp speed.json full.json
    check "... of a part of the peak, of which MFU is no share" speed --efficiency 0.25
    check "... which takes longer" sh -c 'python3 -c "
import json
a, b = (json.load(open(f))[\"time\"][\"step_sec\"] for f in (\"full.json\", \"speed.json\"))
assert 1.5 * a < b <= 4.0001 * a, (a, b)"'
else
    skip "tokens a second, MFU and days" "no python3 to reckon"
fi
check "... in words, as a bound at peak rates" prints 'configured  *[0-9.]* [kM]  *<= [0-9.]* %  *[0-9.]*  *[0-9]*$' \
    "$ZR" plan --preset gpt2 --ranks 8 --stage 3 --profile h100 --tokens 300e9 --quiet
check "... which is said" grep -q '^  at most, because the rates of products by their sizes were not measured$' printed
check "... and as a number at a part of the peak" prints 'configured  *[0-9.]* [kM]  *[0-9.]* %$' \
    "$ZR" plan --preset gpt2 --ranks 8 --stage 3 --profile h100 --efficiency 0.4 --quiet
# This machine before `zr info --bench`: only the peak of matrix products is known.
unmeasured() { XDG_CACHE_HOME=$PWD/unmeasured "$ZR" plan --preset gpt2-124m --quiet "$@"; }
check "no MFU of products at the peak alone" prints 'default  *[0-9.]* *[kM]*  *?$' unmeasured
check "... which is said" grep -q '^  MFU: not known, because only the peak rate of products was measured$' printed
check "... also in JSON" prints '"mfu": null' unmeasured --json --advice
check "... and how they are reckoned" prints 'take 40 % of the profile' "$ZR" plan --preset gpt2 --profile h100 --efficiency 0.4 --quiet
check "... more than all of it" fails 2 'at most 1' "$ZR" plan --preset gpt2 --efficiency 1.5

tight() { "$ZR" plan $tight --quiet "$@"; }
check "a model that fits with less overlap alone: $tight" sh -c "$ZR plan $tight --quiet >t &&
    grep -q '^[* ][> ]3 $policy b .* yes ' t && tr '\n' ' ' <t | grep -q 'Advice: stage 3 with recompute [a-z]*, .* --zero_optimization.stage3_prefetch_bucket_size=0'"
advised_keys() { # the advised keys, when configured, need the memory that the advice gives
    tight --json --advice >advised.json || return 1
    options=$(tr '\n' ' ' <t | sed 's/.*Advice: \(.*\) Asked: .*/\1/' | tr ' ' '\n' | grep '^--')
    tight --json --advice $options >taken.json &&
        python3 -c '
import json
advised, taken = (json.load(open(name + ".json")) for name in ("advised", "taken"))
assert taken["fits"] and advised["limit"] - advised["advice"]["left"] == taken["needs"], (advised["advice"], taken["needs"])'
}
check "... and says by which keys" advised_keys
check "where all fits nothing lighter is tried" sh -c "! $ZR plan --preset gpt2 --ranks 4 --profile h100 --quiet | grep -q 'prefetch_bucket_size='"

# The plan's own line is called after its origin, and has no speed if it does not fit.
check "a stage that is given is configured" prints '^  \* configured  > advised' "$ZR" plan --preset gpt2 --ranks 4 --stage 1 --profile h100 --quiet
check "... or a policy" prints '^  \* configured  > advised' "$ZR" plan --preset gpt2 --ranks 4 --activation_checkpointing.policy=unit --quiet
check "... otherwise it is the default" prints '^  \* default  > advised' "$ZR" plan --preset gpt2 --ranks 4 --profile h100 --quiet
check "... with its speed" grep -q '^\* default  *[0-9.]* [kM]' printed
check "... or chosen by the memory" prints '^  \* chosen  > advised' "$ZR" plan --preset gpt2 --ranks 4 --memory 4GB --quiet
check "no tokens a second of what does not fit" prints '^\* default  *does not fit$' "$ZR" plan --preset gpt2-350m --ranks 8 --profile h100 --memory.limit=5GB --tokens 1e9 --quiet
check "... but of the advice" grep -q '^> advised  *[0-9.]* [kM] ' printed
check "... nor of a cluster" prints 'step .* if it fitted, which it does not$' "$ZR" simulate --preset llama3-70b --cluster dgx-h100x8 --ranks 8 --tokens 1e9 --quiet
check "... nor days" sh -c '! grep -q "tokens/s\|^days" printed'
unseen='has not yet run on a GPU'
check "times of GPUs are computed" grep -q "$unseen" printed
check "... in a plan" prints "$unseen" "$ZR" plan --preset gpt2 --ranks 8 --cluster dgx-h100x8 --quiet
check "... by a profile" prints "$unseen" "$ZR" plan --preset gpt2 --profile h100 --quiet
check "... in a search" prints "$unseen" "$ZR" simulate --preset gpt2 --cluster dgx-h100x8 --ranks 8 --search --step-tokens 8192 --quiet
check "... beside a sweep's CSV" sh -c '"$0" simulate --preset gpt2 --cluster dgx-h100x8 --ranks 8 --sweep stage=1,2 2>&1 >csv | grep -q "$1" && ! grep -q "$1" csv' "$ZR" "$unseen"
check "... but not of processors" sh -c '! "$0" plan --preset gpt2 --ranks 4 2>&1 | grep "$1"' "$ZR" "$unseen"

check "a preset in fp16" prints ' fp16, ' "$ZR" plan --preset gpt2-124m --fp16.enabled=true --quiet
check "a machine by name" prints 'machine: h100' "$ZR" plan c.json --profile h100
check "... of no name" fails 2 'v100-dgx2' "$ZR" plan c.json --profile abacus
for what in "--profile h10" "--preset gtp2" "--stage 4" "--memory 80Q"; do
    check "an option's unknown value is a mistake of the command line: $what" code 2 "$ZR" plan --preset gpt2 $what
done
check "... near names are named" fails 2 'did you mean h100' "$ZR" plan --preset gpt2 --profile h10
check "... of shapes too" fails 2 'nearest: gpt2-xl' "$ZR" plan --preset gpt2-xxl
check "... also by zr info" fails 2 'nearest: gpt2' "$ZR" info --bench --preset gtp2
check "in a configuration it is one of the configuration" fails 78 'nearest: gpt2' "$ZR" plan c.json --model.preset=gtp2
check "80G is a size" prints 'fits in 80.00 GB' "$ZR" plan --preset gpt2-xl --memory 80G --quiet
for what in a100-40gb a100-80gb h100 h200; do
    check "a machine: $what" prints "machine: $what" "$ZR" plan c.json --profile $what --quiet
done
cat >own.json <<'END_OWN'
{"name": "ours", "flops_f32": 1e13, "flops_bf16": 2e14, "memory_bytes_sec": 1e12, "link_bytes_sec": 1e11, "memory_bytes": "40GB"}
END_OWN
check "a machine of one's own" prints 'machine: ours' "$ZR" plan --preset gpt2-xl --ranks 8 --profile own.json --quiet
check "... its memory" grep -q 'fits in 40.00 GB' printed
sed 's/"link_bytes_sec": 1e11, //' own.json >alone.json
check "... whose links are not known: nor is the time of a step" prints \
    '"step_sec": null, "compute_sec": [0-9.e-]*, "comm_sec": null, "exposed_sec": null' \
    "$ZR" plan --preset gpt2-124m --ranks 2 --profile alone.json --quiet --json --advice
model=gpt2-xl
step_of() { "$ZR" plan --preset $model --json --advice --quiet --profile "$@" | sed -n 's/.*"limit": [0-9]*, "time": {"step_sec": \([0-9.e-]*\),.*/\1/p' | head -1; }
sed 's/2e14/1e14/' own.json >slow.json
check "... its rates" sh -c "awk -v a=$(step_of ./own.json) -v b=$(step_of ./slow.json) 'BEGIN { exit !(b > 1.2 * a && b < 2.1 * a) }'"
sed 's/}/, "narrow_attention": true}/' own.json >narrow.json
check "... the type of its attention" sh -c "awk -v a=$(step_of ./narrow.json) -v b=$(step_of ./own.json) 'BEGIN { exit !(a > 0 && b > 1.2 * a) }'"
# At fp32's peak, attention alone would take longer than all the rest.
check "attention on GPUs is no slower than their 16-bit products" sh -c "awk -v a=$(model="gpt2-124m --batch 32"; step_of h100) 'BEGIN { exit !(a > 0.04 && a < 0.05) }'"
wrong() { echo "$3" >wrong.json; fails "$1" "$2" "$ZR" plan --preset gpt2 --profile wrong.json; }
check "... without a rate that it needs" wrong 65 'memory_bytes_sec.*missing' '{"flops_f32": 1e12}'
check "... of no rate" wrong 65 'flops_f32' '{"flops_f32": -1, "memory_bytes_sec": 1e9}'
check "... of no size" wrong 65 'memory_bytes' '{"flops_f32": 1e12, "memory_bytes_sec": 1e9, "memory_bytes": "much"}'
check "... of no type" wrong 65 'narrow_attention.*true or false' '{"flops_f32": 1e12, "memory_bytes_sec": 1e9, "narrow_attention": 1}'
check "... with a key that is none" wrong 65 'did you mean "flops_bf16"' '{"flops_bf61": 1e12, "flops_f32": 1e12, "memory_bytes_sec": 1e9}'
check "... that is no object" wrong 65 'object' '[1]'
check "... that is no JSON" wrong 65 'wrong.json:' '{'
check "... that is not there" fails 66 'nowhere.json' "$ZR" plan --preset gpt2 --profile nowhere.json
cat >bench.json <<'END_BENCH'
{"processor":"An abacus", "level":"v3", "threads":2, "levels":[{"level":"v3", "fma_f32_flops":1e11, "fma_f32_all_flops":2e11,
 "dot_bf16_flops":null, "dot_bf16_all_flops":null}], "matmul_f32_flops":1.9e11, "matmul_bf16_flops":null, "triad_bytes_sec":2e10,
 "link_bytes_sec":1e10, "shapes":[{"what":"x", "m":4096, "n":3072, "k":768, "dtype":"f32", "flops_per_sec":1e11, "part":1, "count":1}]}
END_BENCH
check "what zr info --bench measured" prints 'machine: An abacus' "$ZR" plan --preset gpt2 --bf16.enabled=false --profile bench.json --quiet
sed 's/"v3"/"cuda"/g; s/null/1e14/g' bench.json >gpu.json
check "... on a GPU: planned as one" sh -c "'$ZR' plan --preset gpt2 --quiet --json --profile gpu.json >a && '$ZR' plan --preset gpt2 --quiet --json --profile h100 >b &&
    cmp a b && '$ZR' plan --preset gpt2 --quiet --json --profile bench.json >b && ! cmp -s a b"
shape() { printf '{"what":"x", "m":%d, "n":%d, "k":768, "dtype":"%s", "flops_per_sec":%s, "part":1, "count":1}' "$@"; }
# Write a profile whose rate in bf16 is $1, after more fp32 products than a profile has rates.
many() {
    printf '{"level":"v4", "levels":[{"level":"v4", "fma_f32_all_flops":2e11, "dot_bf16_all_flops":4e11}], "triad_bytes_sec":2e12,\n "shapes":['
    for i in $(seq 20); do
        if [ $((i % 2)) = 1 ]; then shape 4096 3072 f32 1e11; else shape 3072 4096 f32 1e11; fi
        echo ,
    done
    shape 4096 3072 bf16 "$1"
    echo ']}'
}
many 3e11 >fast.json
many 1e11 >slow.json
check "... products in bf16 behind many in fp32" sh -c "awk -v a=$(step_of ./fast.json --memory 100GB) \
    -v b=$(step_of ./slow.json --memory 100GB) 'BEGIN { exit !(b > 1.2 * a) }'"
json() { "$ZR" plan "$@" >document && python3 -m json.tool document; }
if command -v python3 >/dev/null; then
    for what in "c.json" "c.json --advice --memory 1GiB" "c.json --advice --memory 49MiB" "c.json --max batch --memory 60MiB --every" \
        --shapes; do
        check "a whole document: $what" json $what --json --quiet
    done
else
    skip "whole documents" "no python3 to read them"
fi
check "thousands of layers: what is configured alone" prints 'only the configured choice is planned' \
    "$ZR" plan c.json --quiet --model.n_layer=513 --model.n_embd=2 --activation_checkpointing.policy=unit
check "... too many are refused at once" fails 69 '4096' "$ZR" plan c.json --model.n_layer=4097
check "a schedule has no JSON" fails 2 'schedule' "$ZR" plan c.json --schedule --json
check "--json is the document of a run" sh -c "! $ZR plan c.json --json --quiet | grep -q advice"
check "... with advice when asked" prints '"time": .*"choices": .*"advice": {"stage": ' "$ZR" plan c.json --json --advice

draw() { "$ZR" plan c.json --quiet --json --svg "$@"; }
if command -v xmllint >/dev/null; then well_formed="xmllint --noout"; else well_formed=; fi
for s in 0 1 2 3; do
    for p in none unit selective; do
        file=$s-$p.svg
        check "picture of stage $s, $p" draw $file --ranks 2 --stage $s --activation_checkpointing.policy=$p
        check "... says so" grep -q "ZeRO stage $s, .* recompute $p" $file
        if [ "$well_formed" ]; then check "... is XML" $well_formed $file; fi
    done
done
[ "$well_formed" ] || skip "pictures are XML" "no xmllint"
check "a picture stands alone" sh -c '! grep -Eq "script|href|url\(|@import" *.svg'
check "... names the units" grep -q '>h.1<' 3-unit.svg
check "... draws what is computed again" grep -q 'computed again h' 3-unit.svg
check "... only where it is" sh -c '! grep -Eq "computed again (embedding|final)" 3-none.svg 3-unit.svg'
check "the same plan, the same picture" sh -c "$ZR plan c.json --quiet --json --svg again.svg --ranks 2 --stage 3 \
    --activation_checkpointing.policy=unit && cmp again.svg 3-unit.svg"
check "a picture of 96 layers" "$ZR" plan --preset gpt3-175b --ranks 1024 --stage 3 --json --quiet --svg big.svg
check "... is no larger than 1 MB" test "$(wc -c <big.svg)" -lt 1000000
check "one rank: what is cast" sh -c "$ZR plan c.json --quiet --json --stage 3 --bf16.enabled=true \
    --gradient_accumulation_steps=1 --svg one.svg && grep -q '^.*>cast to another type' one.svg && grep -q 'One rank' one.svg"
check "every 2nd unit" sh -c "$ZR plan c.json --quiet --json --activation_checkpointing.policy=unit \
    --activation_checkpointing.every=2 --svg two.svg && grep -q 'input of every 2 units' two.svg"
priced() { "$ZR" plan --preset gpt2-124m --ranks 4 --batch 4 --profile h100 --quiet --json --svg "$@"; }
check "a picture over time" priced time.svg --stage 3 --activation_checkpointing.policy=unit
check "... says whose, and how much is hidden" grep -q 'as priced for h100: .* a step, communication .* not hidden' time.svg
check "... its axis has a unit" grep -q '>time, ms<' time.svg
check "... boxes have their time" grep -q 'forward h.3, steps [0-9]* to [0-9]*, [0-9.]* [mu]s to ' time.svg
if command -v python3 >/dev/null; then
    cat >overlap.py <<'END_PYTHON'
import re, sys
cell = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)".*><title>(gather: parts become whole|forward) (\S+),')
cells = [(float(x), float(y), float(w), kind, unit) for x, y, w, kind, unit in cell.findall(open(sys.argv[1]).read())]
assert len({y for _, y, _, _, _ in cells}) == 2, "two lanes"
[begin, width] = next([x, w] for x, _, w, kind, unit in cells if kind == "forward" and unit == "h.3")
assert any(unit == "h.4" and kind != "forward" and begin < x + w and x < begin + width for x, _, w, kind, unit in cells)
END_PYTHON
    check "... the next unit is gathered while one computes" python3 overlap.py time.svg
else
    skip "... the next unit is gathered while one computes" "no python3"
fi
check "... of what a box holds its unit is named, not the op" sh -c "grep -q '>h.5<' time.svg && ! grep -Eq '>linear|>gelu|_dx<' time.svg"
check "stages 1 and 2: where parameters come from" sh -c "for s in 1 2; do $ZR plan --preset gpt2-124m --ranks 4 --stage \$s \
    --profile h100 --quiet --json --svg s.svg && grep -q 'gathered unit by unit, ahead of' s.svg && ! grep -q 'not shown' s.svg || exit 1; done"
check "... without overlap before the step" sh -c "$ZR plan --preset gpt2-124m --ranks 4 --stage 1 --profile h100 --quiet --json \
    --svg s.svg --zero_optimization.overlap_comm=false && grep -q 'Parameters stay whole' s.svg"
check "no rates, no time" sh -c "XDG_CACHE_HOME=$DIR/nothing $ZR plan c.json --quiet --json --svg n.svg && grep -q '>step<' n.svg &&
    grep -q 'the axis is time' n.svg"
check "a picture that cannot be written" fails 73 'nowhere' "$ZR" plan c.json --svg nowhere/step.svg

# The bytes that a block keeps for the backward pass, as in docs/memory.md: in bf16, 8 query heads and 4 key-value heads
# of width 64, hidden_size 512, intermediate_size 1024, for 256 tokens.
kept() { # LAYERS TYPE
    "$ZR" plan --quiet --json --model.type=$2 --seq 256 --model.hidden_size=512 --model.intermediate_size=1024 --model.head_dim=64 \
        --model.num_attention_heads=8 --model.num_key_value_heads=4 --model.num_hidden_layers=$1 |
        tr ',{' '\n\n' | sed -n 's/.*"act": *\([0-9]*\).*/\1/p' | head -1
}
check "activations of a block of Llama" test $(($(kept 6 llama) - $(kept 5 llama))) = $((256 * (2 * (2 * 512 + 2 * 512 + 2 * 256 + 2 * 1024) + 4 * 8)))
check "... of Qwen2" test $(($(kept 6 qwen2) - $(kept 5 qwen2))) = $((256 * (2 * (2 * 512 + 2 * 512 + 2 * 256 + 2 * 1024) + 4 * 8)))
check "... of Qwen3" test $(($(kept 6 qwen3) - $(kept 5 qwen3))) = $((256 * (2 * (2 * 512 + 3 * 512 + 3 * 256 + 2 * 1024) + 4 * 8 + 4 * 12)))
check "shapes" "$ZR" plan --shapes
cp out shapes
check "... of the papers and of known models" sh -c 'for s in gpt2-1.5b gpt3-175b megatron-8.3b turing-nlg-17b bloom-176b \
    gpt-neox-20b gpt-1t; do grep -q "^$s " shapes || exit 1; done'
check "... with parameters" grep -q '^gpt2-1.5b  *48  *1600  *25  *1024  *50257  *1.56 G' shapes
check "... type and key/value heads" grep -q '^llama3-8b .* 8.03 G  *llama  *8$' shapes
check "... in JSON too" prints '"name": "llama3-8b", .*"num_key_value_heads": 8, "type": "llama", "params"' "$ZR" plan --shapes --json
check "... as JSON" prints '"name": "gpt2-1.5b", .*"params": 1557611200' "$ZR" plan --shapes --json
check "a trillion on 1024 ranks" "$ZR" plan --preset gpt-1t --ranks 1024 --stage 3 --memory.layout=paper --json --quiet
cp out trillion
check "... has 15.6 GB of model states" awk -v s="$(number states trillion)" 'BEGIN { exit !(s > 15.55e9 && s < 15.7e9) }'
echo "1..$n"
