#!/bin/sh
# Train GPT-2 1.5B (48 layers, 1600 wide, T 1024) on one machine with 24 GB. According to the ZeRO paper, this model does
# not fit on a device with 32 GB with data parallelism alone. One rank, stage 3, layout lean, recompute, one micro-batch
# of one sequence per step, no clipping; 10 steps on 10 different sequences.
#
#   bench/gpt2_1.5b.sh TEXT_FILE [TYPE]
#
# TYPE: bf16 (default) or fp32. Prints the losses, the planned bytes and the peak resident set of the whole run, sampled
# from outside, including initialisation and final save. Exit status 1 if the mean of the last three losses is not at
# least 0.5 below the first loss, or if the resident set exceeds 20.5 GB. Needs 21 GB of memory and 7 GB of disk.
set -eu
text=${1:?usage: bench/gpt2_1.5b.sh TEXT_FILE [bf16|fp32]}
type=${2:-bf16}
[ -r "$text" ] || { echo "gpt2_1.5b: cannot read $text" >&2; exit 66; }
text=$(cd "$(dirname "$text")" && pwd)/$(basename "$text")
cd "$(dirname "$0")/.."
make -s
. bench/watch.sh
out=build/gpt2-1.5b
rm -rf "$out"
mkdir -p "$out"
enabled=false
[ "$type" = fp32 ] || enabled=true
cat >"$out/config.json" <<JSON
{
    "model": {"preset": "gpt2-1.5b"},
    "data": {"train": "$text", "tokenizer": "bytes", "order": "sequential"},
    "train_batch_size": 1,
    "bf16": {"enabled": $enabled},
    "optimizer": {"type": "AdamW", "params": {"lr": 2e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
    "zero_optimization": {"stage": 3},
    "memory": {"layout": "lean"},
    "activation_checkpointing": {"policy": "unit"},
    "steps_per_print": 1,
    "train": {"steps": 10, "eval_interval": 0, "output_dir": "$out/run"}
}
JSON
build/zr train "$out/config.json" &
pid=$!
trap 'kill $pid 2>/dev/null || true' INT TERM
watch_rss $pid 0.2
planned=$(sed -n 's/.*"states":\s*[0-9]*, "total":\s*\([0-9]*\), .*/\1/p' "$out/run/run.json" | head -n 1)
sed -n 's/.*"loss":\s*\([0-9.]*\).*/\1/p' "$out/run/metrics.jsonl" | awk -v rss="$highest" -v planned="$planned" -v type="$type" '
    { loss[NR] = $1; printf "%s%s", NR == 1 ? "losses " : " ", $1 }
    END {
        last = (loss[NR] + loss[NR - 1] + loss[NR - 2]) / 3
        printf "\nGPT-2 1.5B, %s: first %.3f, mean of the last three %.3f; planned %.2f GB, resident at most %.2f GB\n", type, loss[1], last, planned / 1e9, rss * 1024 / 1e9
        exit !(NR == 10 && loss[1] - last >= 0.5 && rss * 1024 < 20.5e9)
    }'
