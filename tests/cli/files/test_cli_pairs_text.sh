#TEST timeout=60
# Check an encoder that is trained on text, from which sentence pairs are made: all ranks, and a resumed run, read the
# same rows.
. tests/cli/files/encoder_text.inc
. tests/support/command.inc

encoder_text 1 24 3 9 3 8
text() { # RUN OPTION...
    run=$1
    shift
    "$ZR" train --model.type=bert --model.num_hidden_layers=1 --model.num_attention_heads=2 --model.hidden_size=16 \
        --model.max_position_embeddings=32 --data.train=text.txt --data.val=text.txt --data.tokenizer=tok \
        --data.max_predictions=5 --train_batch_size=8 --train.steps=6 --train.eval_interval=3 --train.threads=1 \
        --optimizer.params.lr=1e-3 --data.cache_dir=cache --train.output_dir="$run" "$@"
}
check "a run on text" text plain
check "... and what can follow: it writes no text" sh -c 'tail -n 1 err | grep -qx "zr: next: zr eval plain; zr report plain"'
check "... on two ranks" text plain2 --ranks 2 --train_micro_batch_size_per_gpu=2 --zero_optimization.stage=3
close() {
    python3 - "$1" "$2" <<'END_PYTHON'
import json, sys
a, b = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:])
assert len(a) == len(b) == 8
for x, y in zip(a, b):
    for key in "loss", "masked_lm", "next_sentence", "val_loss", "val_masked_lm", "val_tokens":
        assert (key in x) == (key in y) and (key not in x or abs(x[key] - y[key]) < 1e-4 * x[key]), (key, x, y)
END_PYTHON
}
check "... has the same losses" close plain plain2
check "... packed rows" text packed --data.max_samples=4 --data.max_predictions=12
check "... is resumed" text again --train.steps=3
check "... is evaluated on rows shorter than data.max_predictions" prints 'masked_lm ' "$ZR" eval packed --seq 8
check "... with the same rows" "$ZR" train again/config.json --resume --train.steps=6
check "... and bits" same plain again

head -c 17000000 /dev/zero | tr '\0' a >long.txt
check "a line that is too long" fails 65 'long.txt:1: the line is longer than 16777216 bytes; put each sentence on a' \
    text no --data.train=long.txt

# weights alone are evaluated with the number of predictions that Google's rule gives for the length
tr '\n' ' ' <text.txt | fold -s -w 400 | sed 's/$/\n/' >wide.txt
by_rule() { # the run has that number: 15 % of 200 tokens
    text rule --train.steps=1 --train.eval_interval=0 --train.seed=0 --model.max_position_embeddings=200 --data.max_predictions=30 &&
        "$ZR" eval rule --data wide.txt --json >run.json && "$ZR" eval rule/model --data wide.txt --seq 200 --json >weights.json &&
        python3 - <<'END_PYTHON'
import json
run, weights = (json.load(open(name + ".json")) for name in ("run", "weights"))
assert run["tokens"] == weights["tokens"], (run, weights)
assert abs(run["loss"] / weights["loss"] - 1) < 1e-3, (run, weights) # bf16 and fp32
END_PYTHON
}
check "weights alone are evaluated as Google's rule says" by_rule

# the configuration that zr init writes
check "a first configuration" "$ZR" init bert.json --type bert
check "... with its next command" grep -q 'zr train bert.json --data TEXT_FILE --data.tokenizer=DIR' err
check "... trains" "$ZR" train bert.json --data text.txt --data.tokenizer=tok --data.cache_dir=cache --train.steps=2 \
    --batch 1 --train.output_dir=first --quiet

echo "1..$n"
