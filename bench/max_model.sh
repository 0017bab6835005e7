#!/bin/sh
# Check `zr plan --max layers`. For each limit, train the model with the most layers that fit by plan for two steps under
# this limit, and watch its resident set from outside. A model with one more layer must be refused (exit status 71).
#
#   bench/max_model.sh [LIMIT ...]
#
# LIMIT: in GiB or MiB; default 1GiB 2GiB 4GiB. Exit status 1 if a check fails.
set -eu
[ $# -gt 0 ] || set -- 1GiB 2GiB 4GiB
cd "$(dirname "$0")/.."
make -s
. bench/watch.sh
out=build/max-model
rm -rf "$out"
mkdir -p "$out"
i=0
while [ $i -lt 400 ]; do echo "the quick brown fox jumps over the lazy dog, $i times"; i=$((i + 1)); done >"$out/text.txt"
cat >"$out/config.json" <<JSON
{
    "model": {"type": "gpt2", "n_head": 16, "n_embd": 1024, "n_positions": 256},
    "data": {"train": "$out/text.txt", "tokenizer": "bytes"},
    "train_batch_size": 1,
    "bf16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 3},
    "activation_checkpointing": {"policy": "auto"},
    "train": {"steps": 2, "eval_interval": 0}
}
JSON
echo '| limit | layers | planned | resident at most | of the limit | one layer more |'
echo '|---|---|---|---|---|---|'
rc=0
for limit in "$@"; do
    layers=$(build/zr plan "$out/config.json" --max layers --memory "$limit" --json --quiet |
        sed -n 's/.*"model.n_layer": *\([0-9]*\).*/\1/p')
    build/zr train "$out/config.json" --quiet --memory.limit="$limit" --model.n_layer="$layers" \
        --train.output_dir="$out/run-$limit" &
    watch_rss $! 0.02 || rc=1
    more=0
    build/zr train "$out/config.json" --quiet --memory.limit="$limit" --model.n_layer=$((layers + 1)) \
        --train.output_dir="$out/more-$limit" 2>"$out/refused" || more=$?
    [ $more = 71 ] && [ ! -e "$out/more-$limit" ] || rc=1
    planned=$(sed -n 's/.*"states":\s*[0-9]*, "total":\s*\([0-9]*\), .*/\1/p' "$out/run-$limit/run.json" | head -n 1)
    echo "$limit $layers ${planned:-0} $highest $more" | awk '{
        bytes = $1 * ($1 ~ /GiB/ ? 1024 ^ 3 : 1024 ^ 2)
        printf "| %.3f GB | %d | %.3f GB | %.3f GB | %.1f %% | exit %d |\n", bytes / 1e9, $2, $3 / 1e9, $4 * 1024 / 1e9, 100 * $4 * 1024 / bytes, $5
        exit !($4 * 1024 <= bytes && $4 > 0) }' || rc=1
    cat "$out/refused" >&2
    rm -rf "$out/run-$limit"
done
[ $rc = 0 ] || echo "max_model: a limit did not hold" >&2
exit $rc
