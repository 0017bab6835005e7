#TEST timeout=60
# What the documentation tells a newcomer to type works.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$ZR_SOURCE" || exit 1
losses() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
# The texts are the project's own pages, which change: what must hold is that a good part of the first loss is gone.
falls() { losses "$1" | awk 'NR == 1 { first = $1 } END { exit !(NR > 1 && $1 > 0 && $1 < 0.75 * first) }'; }

"$ZR" train examples/tiny.json --ranks 2 --quiet --train.steps=40 --train.output_dir="$tmp/tiny" >"$tmp/out"
result $? 'examples/tiny.json trains'
falls "$tmp/tiny"
result $? "its loss falls: from $(losses "$tmp/tiny" | head -n 1) to $(losses "$tmp/tiny" | tail -n 1)"
"$ZR" generate "$tmp/tiny" --prompt 'the ' --tokens 40 >"$tmp/text" && [ "$(wc -c <"$tmp/text")" -ge 40 ]
result $? 'its weights write'

# ZeRO-R's configurations C1 to C5, on 2 x 2 ranks: what they keep where changes no loss.
for c in c1 c2 c3 c4 c5; do
    "$ZR" train "examples/$c.json" --ranks 4 --quiet --train.steps=20 --train.output_dir="$tmp/$c" >"$tmp/out" &&
        losses "$tmp/$c" >"$tmp/$c.losses" && falls "$tmp/$c"
    result $? "examples/$c.json trains on 4 ranks, and its loss falls"
    cmp "$tmp/c1.losses" "$tmp/$c.losses"
    result $? '... with the losses of c1.json'
done

sed -n '/^```json$/,/^```$/p' README.md | grep -v '^```' >"$tmp/config.json"
"$ZR" plan "$tmp/config.json" --ranks 2 >"$tmp/plan" && grep -q 'stage 3' "$tmp/plan"
result $? "README's configuration is planned"
cp ARCHITECTURE.md "$tmp/train.txt"
cp README.md "$tmp/val.txt"
(cd "$tmp" && "$ZR" train config.json --ranks 2 --quiet --train.steps=3 --zero_optimization.stage=3 >out && [ -d runs/first/model ])
result $? "README's configuration trains"
