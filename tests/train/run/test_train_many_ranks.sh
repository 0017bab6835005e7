#TEST alone=1 timeout=180 long=1
# Train a tiny model on 256 thread ranks: with the plan's bytes and, with train.reproducible "world", the losses of one
# rank.
. tests/support/command.inc

i=0
while [ $i -lt 2000 ]; do echo "$((i * i)) bottles and $((i % 7)) cans"; i=$((i + 1)); done >text
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 8, "vocab_size": 256},
 "data": {"train": "text", "seq_length": 8}, "train_batch_size": 512, "gradient_clipping": 1.0,
 "train": {"steps": 4, "threads": 1, "reproducible": "world", "eval_interval": 0}}
END_CONFIG
train() { "$ZR" train c.json --quiet --train_micro_batch_size_per_gpu=1 --train.output_dir="$@"; }

check "one rank" train one
check "... four steps" test "$(numbers one | wc -l)" = 4
for layout in 0.1 1.1 2.1 3.1 2.2; do
    stage=${layout%.*} tensor=${layout#*.}
    check "256 ranks, stage $stage, $tensor to a layer" \
        train $layout --ranks 256 --zero_optimization.stage=$stage --parallel.tensor=$tensor
    check "... with the plan's bytes" as_planned $layout
    [ $tensor -gt 1 ] || check "... the losses and weights of one rank" same $layout one
done

# A thousand threads need much address space for stacks, and libraries allocate memory for each.
thousand() {
    sed 's/"train_batch_size": 512/"train_batch_size": 1000/; s/"steps": 4/"steps": 2/; s/, "reproducible": "world"//' c.json >t.json &&
        "$ZR" train t.json --quiet --ranks 1000 --train.output_dir=thousand || return 1
    peak=$(sed -n 's/.*"peak_rss_bytes": *\([0-9]*\).*/\1/p' thousand/run.json) promised=$(sed -n 's/.*"promised_rss_bytes": *\([0-9]*\).*/\1/p' thousand/run.json)
    [ "$peak" -gt 1 ] && [ "$peak" -le "$promised" ] || { echo "$peak of $promised" >&2; return 1; }
}
check "1000 ranks within what is promised" thousand

echo "1..$n"
