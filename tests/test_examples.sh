#TEST timeout=60
# What the documentation tells a newcomer to type works.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$ZR_SOURCE" || exit 1
last() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
below() { awk -v loss="$1" -v limit="$2" 'BEGIN { exit !(loss != "" && loss < limit) }'; }

"$ZR" train examples/tiny.json --ranks 2 --quiet --train.steps=40 --train.output_dir="$tmp/tiny" >"$tmp/out"
result $? 'examples/tiny.json trains'
below "$(last "$tmp/tiny")" 3.3
result $? "its loss falls: $(last "$tmp/tiny")"
"$ZR" generate "$tmp/tiny" --prompt 'the ' --tokens 40 >"$tmp/text" && [ "$(wc -c <"$tmp/text")" -ge 40 ]
result $? 'its weights write'

sed -n '/^```json$/,/^```$/p' README.md | grep -v '^```' >"$tmp/config.json"
"$ZR" plan "$tmp/config.json" --ranks 2 >"$tmp/plan" && grep -q 'stage 3' "$tmp/plan"
result $? "README's configuration is planned"
cp ARCHITECTURE.md "$tmp/train.txt"
cp README.md "$tmp/val.txt"
(cd "$tmp" && "$ZR" train config.json --ranks 2 --quiet --train.steps=3 --zero_optimization.stage=3 >out && [ -d runs/first/model ])
result $? "README's configuration trains"
