#!/bin/sh
# Train with nanoGPT's recipe for the processor of a laptop (train_shakespeare_char), bench/nanogpt.json, on bytes
# instead of characters. nanoGPT reports a validation loss of about 1.88.
#
#   bench/nanogpt.sh TEXT_FILE [LIMIT]
#
# TEXT_FILE: Tiny Shakespeare. Trains at stages 0 and 3, on 1 and 2 ranks, then in 16 bits, and prints the loss of the
# whole validation text in nats per byte. Exit status 1 if a loss is above LIMIT (1.93), or if a loss in 16 bits differs
# by more than 1 % from the loss in fp32.
set -eu
text=${1:?usage: bench/nanogpt.sh TEXT_FILE [LIMIT]}
limit=${2:-1.93}
[ -r "$text" ] || { echo "nanogpt: cannot read $text" >&2; exit 66; }
text=$(cd "$(dirname "$text")" && pwd)/$(basename "$text")
cd "$(dirname "$0")/.."
make -s

out=build/nanogpt
rm -rf "$out"
mkdir -p "$out"
size=$(wc -c <"$text")
head -c $((size * 9 / 10)) "$text" >"$out/train.txt"
tail -c +$((size * 9 / 10 + 1)) "$text" >"$out/val.txt"

echo '| type | ranks | stage | validation loss | seconds |'
echo '|---|---|---|---|---|'
rc=0
for how in 'fp32 1 0' 'fp32 1 3' 'fp32 2 0' 'fp32 2 3' 'bf16 1 0' 'bf16 2 3' 'fp16 1 0' 'fp16 2 3'; do
    set -- $how
    run=$out/run-$1-$2-$3
    type_option=
    ranks_option=
    [ "$1" = fp32 ] || type_option="--$1.enabled=true"
    [ "$2" = 1 ] || ranks_option="--ranks $2"
    build/zr train bench/nanogpt.json --quiet $type_option $ranks_option --data.tokenizer=bytes \
        --data.train="$out/train.txt" --data.val="$out/val.txt" --train.eval_interval=2000 --train.eval_batches=0 \
        --zero_optimization.stage="$3" --train.output_dir="$run" >/dev/null
    loss=$(sed -n 's/.*"val_loss": *\([0-9.eE+-]*\).*/\1/p' "$run/metrics.jsonl" | tail -n 1)
    wall=$(sed -n 's/.*"wall_sec": *\([0-9.eE+-]*\).*/\1/p' "$run/run.json" | head -n 1)
    [ -n "${fp32:-}" ] || fp32=$loss
    echo "| $1 | $2 | $3 | $loss | $wall |"
    awk -v loss="$loss" -v limit="$limit" -v fp32="$fp32" \
        'BEGIN { off = loss / fp32 - 1; exit !(loss != "" && loss + 0 <= limit + 0 && off * off <= 1e-4) }' || rc=1
done
[ $rc = 0 ] || echo "nanogpt: a validation loss is above $limit, or 1 % off the first" >&2
exit $rc
