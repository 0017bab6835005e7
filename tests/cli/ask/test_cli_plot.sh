#TEST timeout=120
# Check `zr plot` and the loss.svg of a run: all kinds of metrics, complete or not, thinned; other files are refused.
. tests/support/command.inc

if command -v xmllint >/dev/null; then whole="xmllint --noout"; else whole="grep -q </svg>"; fi
plot() { "$ZR" plot --quiet "$@" && for f in "$@"; do case $f in *.svg) $whole "$f" || return 1 ;; esac; done; }

# metrics FIRST LAST: print lines of metrics
metrics() {
    awk -v first="$1" -v last="$2" 'BEGIN {
        for (s = first; s <= last; s++) {
            printf "{\"step\":%d, \"loss\":%.9g, \"lr\":%.6g, \"skipped\":0}\n", s, 2 + 8 / (1 + s / 50), 1e-3
            if (s % 100 == 0) printf "{\"step\":%d, \"val_loss\":%.9g, \"val_tokens\":9}\n", s, 2.5 + 8 / (1 + s / 50)
        }}'
}
i=0
while [ $i -lt 200 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_micro_batch_size_per_gpu": 2,
 "optimizer": {"type": "AdamW"}, "train": {"steps": 4, "eval_interval": 2, "eval_batches": 1, "output_dir": "run"}}
END_CONFIG

check "a run leaves its picture" sh -c "$ZR train c.json --quiet --ranks 2 && $whole run/loss.svg"
check "... that of zr plot" sh -c "$ZR plot --quiet run -o a.svg && cmp a.svg run/loss.svg"
check "... with the numbers of the last step" grep -q 'step 1 to 4; last training loss .*lowest validation loss' run/loss.svg
check "... and nothing beside it" sh -c '! ls run | grep -q tmp'
check "one step" sh -c "$ZR train c.json --quiet --train.steps=1 --train.output_dir=one && $whole one/loss.svg"
refused() { mkdir -p other && cp c.json other/config.json && code 73 "$ZR" train c.json --train.output_dir=other && [ ! -e other/loss.svg ]; }
check "a run that is refused draws nothing" refused
cannot() { # a picture that cannot be drawn causes a note, and the run continues
    rm -rf run3
    (trap '' XFSZ; ulimit -f 16; exec "$ZR" train c.json --quiet --train.output_dir=run3 --train.steps=16 --model.n_embd=2) 2>message
    [ -e run3/model/model.safetensors ]
}
check "a picture that has no room does not end a run" cannot
blocked() { # a folder with the picture's name
    mkdir -p run4/loss.svg/in
    "$ZR" train c.json --train.output_dir=run4 2>message && grep -q 'the picture of the loss is not drawn' message &&
        [ -e run4/model/model.safetensors ]
}
check "... nor does one that cannot be written, which is said" blocked

metrics 1 1000 >m.jsonl
check "1,000 steps" plot m.jsonl -o m.svg
check "... in step, and named" sh -c "grep -q 'step 1 to 1000;' m.svg && grep -q 'Loss of m.jsonl' m.svg"
check "... mean and each step" grep -q 'mean of [0-9]* steps; pale: each step' m.svg
# A noisy loss: the smoothed curve, drawn last of the lines of its width, goes on at the end as in the middle.
awk 'BEGIN { srand(1); for (s = 1; s <= 1050; s++) { x = 3 + rand()
    printf "{\"step\":%d, \"loss\":%.6f, \"lr\":1e-3, \"skipped\":0}\n", s, x } }' >noise.jsonl
no_kink() {
    plot noise.jsonl -o noise.svg && python3 - <<'END_PYTHON'
import re
text = open("noise.svg").read()
line = [m for m in re.findall(r'<path[^>]*>', text) if 'stroke-width="1.80"' in m][0]
y = [float(v) for v in re.findall(r'[ML][0-9.]+ ([0-9.]+)', line)]
inner = max(abs(b - a) for a, b in zip(y[20:-40], y[21:-39]))
last = max(abs(b - a) for a, b in zip(y[-12:-1], y[-11:]))
assert len(y) > 500 and last <= 2 * inner, (len(y), last, inner)
END_PYTHON
}
if command -v python3 >/dev/null; then check "no kink at the end" no_kink; else skip "no kink at the end" "no python3"; fi
metrics 1 200000 >long.jsonl
check "200,000 steps are thinned" plot long.jsonl -o long.svg
check "... to less than 150 kB" test "$(wc -c <long.svg)" -lt 150000
check "... and keep their ends" grep -q 'step 1 to 200k; last training loss 2.002' long.svg
(metrics 1 300; metrics 151 200) >back.jsonl
check "a file that goes back: what comes later counts" plot back.jsonl -o back.svg
check "... to its last step" grep -q 'step 1 to 200; .*lowest validation loss 4.1, at step 200' back.svg
(metrics 1 10; printf '{"step":11, "loss":1') >half.jsonl
check "half a last line waits" plot half.jsonl -o half.svg
check "... unseen" grep -q 'step 1 to 10;' half.svg
(metrics 1 10; printf '{"step":11, "loss":1, "lr":1e-3, "skipped":0}') >open.jsonl
check "a whole one without its newline counts" sh -c "$ZR plot --quiet open.jsonl -o o.svg && grep -q 'step 1 to 11; last training loss 1' o.svg"
(metrics 1 10; echo 'what is this'; metrics 11 12) >odd.jsonl
check "a line that is none is left out" sh -c "$ZR plot odd.jsonl -o odd.svg 2>message && grep -q '1 unreadable line left out.* line 11' message"
check "... the others count" grep -q 'step 1 to 12;' odd.svg
{
    echo '{"step":1, "loss":null, "lr":1, "skipped":1}'
    echo '{"step":2, "loss":NaN, "lr":1, "skipped":2}'
} >nan.jsonl
check "no finite loss" plot nan.jsonl -o nan.svg
check "... is said, and marked" sh -c "grep -q 'no finite loss; 2 steps updated nothing' nan.svg && grep -q 'not finite, or' nan.svg"
check "... with no number that is none" sh -c "! grep -Eiq '[\"MLhv](-?nan|-?inf)\b' nan.svg"
(metrics 1 20; echo '{"step":21, "loss":1e300, "lr":1, "skipped":0}'; echo '{"step":22, "loss":-1e300, "lr":1e308, "skipped":1}') >wild.jsonl
awk 'BEGIN { for (s = 1; s < 250; s++) printf "{\"step\":%d, \"loss\":%.9g, \"lr\":%.9g, \"skipped\":0}\n", s, 3e5 + s / 100, 1e-7 * s }' >flat.jsonl
check "labels of large and small numbers" plot flat.jsonl -o flat.svg
check "... tell their ticks apart" sh -c "labels() { sed -n 's/.*text-anchor=\"end\"[^>]*>\([-0-9.e]*\)<.*/\1/p' flat.svg; }; test \$(labels | wc -l) -gt 5 && test \$(labels | wc -l) = \$(labels | sort -u | wc -l)"
check "... and have room beside the axis's name" sh -c "sed -n 's/.*text-anchor=\"end\"[^>]*>\([-0-9.e]*\)<.*/\1/p' flat.svg | awk 'length > 9 { exit 1 }'"
check "values of any size" plot wild.jsonl -o wild.svg
check "... with no number that is none" sh -c "! grep -Eiq '[\"MLhv](-?nan|-?inf)\b' wild.svg"
awk 'BEGIN { for (s = 1; s < 300; s++) printf "{\"step\":%d, \"loss\":%.9g, \"lr\":1, \"skipped\":0}\n", s, 9 * exp(-s / 40) + 1e-3 }' >fall.jsonl
check "a loss over decades: a log scale" sh -c "$ZR plot --quiet fall.jsonl -o f.svg && grep -q 'log scale' f.svg"
check "... otherwise not" sh -c "! grep -q 'log scale' m.svg"
: >empty.jsonl
check "an empty file" plot empty.jsonl -o empty.svg
check "... says so" grep -q 'no step yet' empty.svg

mkdir -p runs/a runs/b 'runs/long name & <odd>'
for r in a b 'long name & <odd>'; do cp m.jsonl "runs/$r/metrics.jsonl"; done
check "several runs" plot runs/a runs/b/ 'runs/long name & <odd>' -o all.svg
check "... by what tells them apart" sh -c "grep -q '>a<' all.svg && grep -q '>b<' all.svg && grep -q '>long name &#38; &#60;odd&#62;<' all.svg"
i=0
while [ $i -lt 60 ]; do mkdir -p "many/r$i" && cp half.jsonl "many/r$i/metrics.jsonl"; i=$((i + 1)); done
check "60 runs" plot many/r* -o many.svg
check "... not all by name" grep -q 'and 20 more' many.svg
check "without -o: loss.svg here" sh -c "$ZR plot --quiet runs/a && $whole loss.svg"
check "JSON" sh -c "$ZR plot --quiet --json runs/a runs/b -o j.svg | grep -q '\"run\":\"runs/b\", \"first_step\":1, \"last_step\":1000'"
check "on standard output" sh -c "$ZR plot --quiet runs/a -o /dev/stdout | grep -q '</svg>'"

check "a file that is none" fails 65 'line 1 holds no metrics' "$ZR" plot text.txt -o x.svg
check "a missing one" fails 66 'nowhere' "$ZR" plot nowhere -o x.svg
check "a directory without metrics" fails 66 'metrics.jsonl' "$ZR" plot many -o x.svg
check "no run" fails 2 'needs the directory' "$ZR" plot
check "an output that cannot be" fails 73 'no/x.svg' "$ZR" plot runs/a -o no/x.svg
check "an output that is an input" fails 73 'would overwrite an input' "$ZR" plot m.jsonl -o m.jsonl
check "... in a run's directory" fails 73 'would overwrite an input' "$ZR" plot runs/a -o runs/a/metrics.jsonl
check "... or no picture" fails 73 'not the expected kind of file (SVG picture)' "$ZR" plot runs/a -o text.txt
check "... is as it was" test "$(grep -c loss m.jsonl)" = 1010
echo "1..$n"
