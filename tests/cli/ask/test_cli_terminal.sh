#TEST timeout=120
# Check the output on a terminal: lines that fit its width, progress of an evaluation, quiet ends, mistyped words.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_OF_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 4,
 "train": {"steps": 12, "eval_interval": 6, "eval_batches": 3, "threads": 1, "output_dir": "run"}}
END_OF_CONFIG

# on COLUMNS COMMAND: its screen, a line for each that was written, also over another, in `screen`
on() {
    COLUMNS=$1 TERM=xterm script -qec "$2" /dev/null </dev/null >raw 2>&1
    rc=$?
    tr '\r' '\n' <raw | sed 's/\x1b\[[0-9;]*[mK]//g' | grep -v '^$' >screen
    return $rc
}
steps() { grep '^step' screen; }
fits() { steps | awk -v most="$1" 'length > most { print; bad = 1 } END { exit bad || !NR }' >&2; }

if command -v script >/dev/null; then
    for wide in 80 60 40 30; do
        rm -rf run
        check "train on $wide columns" on $wide "'$ZR' train c.json"
        check "... every line fits" fits $((wide - 1))
        check "... each steps_per_print leaves a line" test "$(steps | grep -c '^step \(1\|4\|8\|12\)/12 | loss')" = 4
        check "... and evaluations" test "$(steps | grep -c 'val_loss')" = 2
        [ $wide -lt 60 ] || check "... with the time left" test "$(steps | grep -c '^step .*  left [0-9]*:[0-9][0-9]$')" -ge 1
    done
    check "a line over the other" grep -q "$(printf '\rstep 1/12')" raw
    check "eval on a terminal" on 80 "'$ZR' eval run"
    check "... shows how far it is" grep -q '^[0-9. ]*k of [0-9.]* ktok' screen
    check "... and then what it found" grep -q '^loss  ' screen
    check "... and is quiet when asked" on 80 "'$ZR' eval run --quiet"
    check "... then without progress" test "$(grep -c ' of .*tok' screen)" = 0
    printf 'a\033[31mb\303\204\302\233c\342\200\256d\te\r' >prompt
    check "generate on a terminal" on 80 "'$ZR' generate run --prompt \"\$(cat prompt)\" --tokens 1"
    check "... shows what a terminal would obey" grep -qF 'a\x1b[31mbÄ\xc2\x9bc\xe2\x80\xaed	e\x0d' raw
    awk 'BEGIN { for (i = 0; i < 4000; i++) printf "\033" }' >escapes.txt
    printf '\033\033\033\n' >as_is
    printf '\033' >escape
    check "... of a model that writes escapes" "$ZR" train c.json --quiet --data.train=escapes.txt --data.val=escapes.txt \
        --train.steps=40 --optimizer.params.lr=0.05 --train.output_dir=escapes
    set -- "$ZR" generate escapes --prompt "$(cat escape)" --tokens 2 --temperature 0
    check "... in a pipe as they are" sh -c '"$@" | cmp - as_is' sh "$@"
    check "... and in JSON as always" prints '"text":"\\u001b\\u001b"' "$@" --json
    check "... on a terminal shown" on 80 "'$ZR' generate escapes --prompt \"\$(cat escape)\" --tokens 2 --temperature 0"
    check "... all of them" grep -qF '\x1b\x1b\x1b' raw
    check "... and none obeyed" sh -c '! grep -q "$(cat escape)" raw'
    awk 'BEGIN { for (i = 0; i < 2000; i++) printf "\303\204" }' >umlauts.txt
    check "... of a model that writes a byte at a time" "$ZR" train c.json --quiet --data.train=umlauts.txt \
        --data.val=umlauts.txt --train.steps=200 --train.eval_interval=200 --optimizer.params.lr=0.02 --train.output_dir=umlauts
    check "... on a terminal" on 80 "'$ZR' generate umlauts --prompt Ä --tokens 4 --temperature 0"
    check "... whole characters" grep -qF 'ÄÄÄ' raw
else
    skip "a terminal" "no script (util-linux)"
    "$ZR" train c.json --quiet
fi
check "a message with a name that turns text" fails 66 'a\\xe2\\x80\\xaeb' "$ZR" eval "$(printf 'a\342\200\256b')"
check "eval of some batches" "$ZR" eval run --batches 3 --json
check "... are those of the run" sh -c 'grep -o "\"tokens\":96" out && tail -n 1 run/metrics.jsonl >&2 &&
    awk -F"[:,]" "FNR == NR { a = \$2; next } /val_loss/ { b = \$4 } END { exit !(a - b < 1e-5 && b - a < 1e-5) }" out run/metrics.jsonl'
check "more batches than there are" "$ZR" eval run --batches 1000000
check "... are all" sh -c 'cp out some && "$0" eval run | cmp - some' "$ZR"
check "no batches" code 2 "$ZR" eval run --batches 0

# Output that is read only in part: the reader ends before the first byte, or after some.
gone() { { "$@" 2>err.gone; echo $? >rc; } | :; test "$(cat rc)" = 0 -a ! -s err.gone; }
for c in "train -h" "plan --shapes" "info" "plan c.json --schedule" "eval run" "generate run --prompt a --tokens 20"; do
    check "a reader that leaves: zr $c" gone "$ZR" $c
done
check "a reader of one line" sh -c 'for i in 1 2 3 4 5; do "$0" train -h | head -n 1; done 2>&1 | sort | uniq -c | grep "5 zr train"' "$ZR"

for c in train plan eval generate info; do
    check "zr help $c" sh -c '"$0" help $1 >a && "$0" $1 --help | cmp - a' "$ZR" $c
done
check "zr version" sh -c '"$0" --version >a && "$0" version | cmp - a && "$0" -V | cmp - a' "$ZR"
check "help of nothing" code 2 "$ZR" help trian
check "... says what was meant" grep -q 'did you mean "train"' err
says() { # PATTERN CODE COMMAND...: a message
    pattern=$1
    shift
    code "$@" && grep -q -e "$pattern" err.now || { echo "no \"$pattern\"" >&2; return 1; }
}
check "a key without =" says 'after an equals sign: --train.steps=3$' 2 "$ZR" train c.json --train.steps 3
check "a key without value" says 'after an equals sign: --train.steps=VALUE$' 2 "$ZR" train c.json --train.steps
check "a key's last part" says 'after an equals sign: --zero_optimization.overlap_comm=true$' 2 "$ZR" plan c.json --overlap_comm true
printf '{"train": {"steps": 3,},\n "steps_per_print": 2}\n' >slip.json
check "JSON: a comma at the end" says '^zr: slip.json:1:22: train.steps: remove the comma before the closing }' 78 "$ZR" plan slip.json
printf '{"optimizer": {"params": {"betas": [0.9, 0.99,\n]}}}\n' >slip.json
check "... of an array" says '^zr: slip.json:1:46: .*remove the comma before the closing ]' 78 "$ZR" plan slip.json
printf '{\n  "steps_per_print": 2, // "so, {often}"\n  "train": {"stepz": 3}}\n' >slip.json
check "JSON: a comment, and a slip after it" says '^zr: slip.json:3:13: train.stepz: ' 78 "$ZR" plan slip.json
printf '# mine\n{"steps_per_print": 2}\n' >slip.json
check "... as of a shell" says '^zr: slip.json:1:1: remove the comment, which JSON' 78 "$ZR" plan slip.json
printf "{'steps_per_print': 2}\n" >slip.json
check "JSON: single quotes" says 'double quotes' 78 "$ZR" plan slip.json
printf '{"bf16": {"enabled": True}}\n' >slip.json
check "JSON: Python's words" says '^zr: slip.json:1:22: bf16.enabled: .*small letters' 78 "$ZR" plan slip.json
printf '{"train": {"output_dir": "a // b, }"} "x": 2}\n' >slip.json
check "... in a string they are no comment" says "^zr: slip.json:1:37: train: a comma is missing" 78 "$ZR" plan slip.json
echo "1..$n"
