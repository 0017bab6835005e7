#TEST timeout=60 long=more
# Check that the commands that the documentation gives to a newcomer work.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$ZR_SOURCE" || exit 1
losses() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
# The texts are the project's own pages, which change, so only a large decrease from the first loss is checked.
falls() { losses "$1" | awk 'NR == 1 { first = $1 } END { exit !(NR > 1 && $1 > 0 && $1 < 0.75 * first) }'; }

"$ZR" train examples/tiny.json --ranks 2 --quiet --train.steps=25 --train.output_dir="$tmp/tiny" >"$tmp/out"
result $? 'examples/tiny.json trains'
falls "$tmp/tiny"
result $? "its loss falls: from $(losses "$tmp/tiny" | head -n 1) to $(losses "$tmp/tiny" | tail -n 1)"
"$ZR" generate "$tmp/tiny" --prompt 'the ' --tokens 40 >"$tmp/text" && [ "$(wc -c <"$tmp/text")" -ge 40 ]
result $? 'its weights write'

# The logits of a user-defined model equal the values calculated from its weights: the vector of x times the head, plus
# the bias. This holds on both ranks, each with its own numbers; after training, the largest logit is that of 3 x + 1.
make -s -C "$ZR_SOURCE" "${ZR_BUILD#"$ZR_SOURCE"/}/examples/own_prediction" && "$ZR_BUILD/examples/own_prediction" >"$tmp/own"
result $? 'examples/own_prediction runs'
awk '$1 == "rank" { of = $5 + 0; said[of] = $2; for (v = 0; v < 8; v++) logit[of, v] = $(6 + v) + 0; follows[of] = $(NF - 1); n++ }
    $1 != "rank" { w[$1, $2] = $3 }
    END { for (x = 0; x < 8; x++) {
              bad += said[x] != int(x / 4) || follows[x] != (3 * x + 1) % 8
              for (v = 0; v < 8; v++) {
                  sum = w["bias", v]
                  for (i = 0; i < 6; i++) sum += w["table", 6 * x + i] * w["head", 8 * i + v]
                  off = sum - logit[x, v]
                  bad += off > 1e-4 || off < -1e-4
                  all += sum * sum
              } }
          exit !(n == 8 && bad == 0 && all > 10) }' "$tmp/own"
result $? '... its logits are those of its weights, on the ranks that asked, and it has learnt'

# A user-defined encoder of zr's layers learns to predict masked bytes.
make -s -C "$ZR_SOURCE" "${ZR_BUILD#"$ZR_SOURCE"/}/examples/own_encoder" && "$ZR_BUILD/examples/own_encoder" >"$tmp/encoder" &&
    awk '$1 == "step" { if (!first) first = $4; last = $4; n++ } END { exit !(n == 7 && last > 0 && last < 0.4 * first) }' "$tmp/encoder"
result $? "examples/own_encoder trains: $(tail -n 1 "$tmp/encoder")"

# ZeRO-R's configurations C1 to C5, on 2 x 2 ranks: where they keep checkpoints changes no loss. There are enough blocks
# for checkpoints to be larger than the buffers. A short run has fewer steps, which are enough for losses to decrease
# and to differ.
steps=12
[ -z "${ZR_LONG-}" ] || steps=20
part() { sed -n "s/^ \"$2\":\(.*\),\$/\1/p" "$tmp/$1/run.json"; }
bytes_of() { part "$1" measured | sed "s/.*\"$2\": {[^}]*\"total\": *\([0-9]*\).*/\1/"; }
for c in c1 c2 c3 c4 c5; do
    "$ZR" train "examples/$c.json" --ranks 4 --quiet --train.steps=$steps --model.n_layer=6 --train.output_dir="$tmp/$c" >"$tmp/out" &&
        losses "$tmp/$c" >"$tmp/$c.losses" && falls "$tmp/$c"
    result $? "examples/$c.json trains on 4 ranks, and its loss falls"
    cmp "$tmp/c1.losses" "$tmp/$c.losses"
    result $? '... with the losses of c1.json'
    part $c planned >"$tmp/planned" && part $c measured >"$tmp/measured" && [ -s "$tmp/planned" ] && cmp "$tmp/planned" "$tmp/measured"
    result $? '... measured is planned'
    echo "# $c: $(bytes_of $c device) bytes on the device, $(bytes_of $c host) on the host"
done
[ "$(bytes_of c1 device)" -gt "$(bytes_of c2 device)" ] && [ "$(bytes_of c2 device)" -ge "$(bytes_of c4 device)" ] &&
    [ "$(bytes_of c4 device)" -ge "$(bytes_of c5 device)" ] && [ "$(bytes_of c5 host)" -gt "$(bytes_of c4 host)" ]
result $? "C1 takes more on the device than C2, that no less than C4, nor that than C5, which takes some on the host"

sed -n '/^```json$/,/^```$/p' README.md | grep -v '^```' >"$tmp/config.json"
"$ZR" plan "$tmp/config.json" --ranks 2 >"$tmp/plan" && grep -q 'stage 3' "$tmp/plan"
result $? "README's configuration is planned"
cp ARCHITECTURE.md "$tmp/train.txt"
cp README.md "$tmp/val.txt"
(cd "$tmp" && "$ZR" train config.json --ranks 2 --quiet --train.steps=3 --zero_optimization.stage=3 >out && [ -d runs/first/model ])
result $? "README's configuration trains"
