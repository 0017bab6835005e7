#TEST timeout=120
# Check rows of several whole lines (data.packing whole): the losses of each line alone in a row, for families with
# learned and with rotary positions, at several numbers of ranks; a run resumed in the middle of an epoch.
. tests/support/command.inc

python3 - <<'END_PYTHON'
import json
room, rows, left, lines = 65, 0, 0, []  # a row has 64 tokens and a last target
for i in range(400):
    prompt, answer = "say " + chr(97 + i % 26) * (1 + i * 7 % 13), "cd" * (1 + i * 5 % 11) + "."
    length = len(prompt) + len(answer) + 1
    if length > left:
        if rows == 8:
            break
        rows, left = rows + 1, room
    left -= length
    lines.append({"prompt": prompt, "completion": answer})
with open("pairs.jsonl", "w") as file:
    file.writelines(json.dumps(line) + "\n" for line in lines)
with open("texts.jsonl", "w") as file:
    file.writelines(json.dumps({"text": line["prompt"] + line["completion"]}) + "\n" for line in lines)
open("lines", "w").write(str(len(lines)))
open("text.txt", "w").write("a text without lines of its own " * 20)
END_PYTHON
lines=$(cat lines)
config() { # MODEL
    cat <<END_CONFIG
{"model": $1, "data": {"train": "pairs.jsonl", "val": "pairs.jsonl", "seq_length": 64, "order": "sequential"},
 "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
 "train": {"steps": 5, "eval_interval": 5, "threads": 1, "eval_batches": 0}}
END_CONFIG
}
config '{"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64}' >gpt2.json
config '{"type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32,
         "sliding_window": 9, "max_position_embeddings": 64, "vocab_size": 256}' >mistral.json
train() { config=$1 dir=$2; shift 2; "$ZR" train "$config.json" --train.output_dir="$dir" --quiet "$@"; }
# all lines in each step
one() { train "$1" "$2" --train_batch_size="$lines" --train_micro_batch_size_per_gpu="$lines"; }
whole() { config=$1 dir=$2; shift 2; train "$config" "$dir" --data.packing=whole --train_batch_size=8 "$@"; }
# close RUN OTHER [TOLERANCE]: check that two runs have the same losses, norms and evaluations, except for the order of
# sums.
close() {
    python3 - "$@" <<'END_PYTHON'
import json, sys
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 2e-6
a, b = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:3])
assert len(a) == len(b) > 5, (len(a), len(b))
for x, y in zip(a, b):
    assert x.get("val_tokens") == y.get("val_tokens"), (x, y)
    for key in {"loss", "grad_norm", "val_loss"} & x.keys():
        bound = (5 * tolerance if key == "grad_norm" else tolerance) * abs(y[key])
        assert abs(x[key] - y[key]) <= bound, f"step {x['step']}: {key} {x[key]}, not {y[key]}"
END_PYTHON
}
for model in gpt2 mistral; do
    check "$model: each line in a row of its own" one $model $model.one
    check "... 8 rows of whole lines" whole $model $model.whole --train_micro_batch_size_per_gpu=4
    check "... have the same losses" close $model.whole $model.one
    check "... as planned" as_planned $model.whole
    check "... on tensor-parallel ranks" whole $model $model.tensor --train_micro_batch_size_per_gpu=8 --ranks 2 \
        --parallel.tensor=2 --parallel.sequence=keep --activation_checkpointing.policy=unit
    check "... that have them too" close $model.tensor $model.one
    check "... and on four" whole $model $model.four --train_micro_batch_size_per_gpu=1 --ranks 4 \
        --zero_optimization.stage=3
    check "... up to the order of sums" close $model.four $model.one
    check "... zr eval" sh -c "$ZR eval $model.whole --json >a && $ZR eval $model.one --data pairs.jsonl --json >b"
    check "... has the same loss" python3 -c '
import json
a, b = (json.load(open(name)) for name in "ab")
assert a["tokens"] == b["tokens"] and abs(a["loss"] - b["loss"]) < 2e-6 * b["loss"], (a, b)'
done
check "texts that are lines" whole gpt2 texts --data.train=texts.jsonl --train.steps=1
check "a text without lines is refused" fails 69 'text.txt (text): records are needed (data.packing whole), and this file has none' \
    whole gpt2 refused --data.train=text.txt
check "... zr eval reads it in windows" prints '"tokens":576' "$ZR" eval gpt2.whole --data text.txt --json
check "lines that are cut" sh -c "$ZR train gpt2.json --data.packing=whole --data.seq_length=16 --train.steps=1 --train_batch_size=1 \
    --train.output_dir=cut 2>&1 | grep 'documents are longer than data.seq_length 16 and are cut at their end'"
check "rows that are mostly padding" sh -c "$ZR train gpt2.json --train_batch_size=1 --train.steps=1 --train.output_dir=padded 2>err.padded"
check "... are told" grep -q '[67]. % of the tokens of data.train are padding; data.packing whole' err.padded
check "... and other rows are not" sh -c "$ZR train gpt2.json --data.packing=whole --train_batch_size=1 --train.steps=1 --train.output_dir=full 2>err.full
    test -s err.full && ! grep padding err.full"

# Of a model with more positions than fit into memory, generation and evaluation allocate only those that they use.
check "a model with many positions" train mistral many --train_batch_size=1 --train.steps=1 --data.packing=whole
sed 's/"max_position_embeddings": 64/"max_position_embeddings": 2000000000/' many/model/config.json >config.many
grep -q 2000000000 config.many && cp config.many many/model/config.json && mv many/model longest
check "... generates" sh -c "$ZR generate longest --prompt 'say a' --tokens 5 --temperature 0 --quiet >made && test -s made"
check "... is evaluated in windows" fails 65 'only 640 tokens' "$ZR" eval longest --data text.txt
check "... of a length that is given" prints '"seq_length":300' "$ZR" eval longest --data text.txt --seq 300 --json
check "... or chosen" sh -c "cat text.txt text.txt text.txt text.txt >more.txt && $ZR eval longest --data more.txt --json 2>told | grep seq_length.:2048
    grep 'windows of 2048 tokens, although the model has 2000000000 positions; --seq gives another length' told"
check "... within the model's" fails 2 'windows of 65 tokens; the model has 64 positions' "$ZR" eval gpt2.one --seq 65

# Three steps are an epoch and a half: a resumed run has the rows of an undisturbed one.
shuffled() { dir=$1; shift; whole gpt2 "$dir" --data.order=shuffled --train_batch_size=4 --train.reproducible=world \
    --train_micro_batch_size_per_gpu=1 --train.save_interval=3 --train.eval_interval=0 --train.steps=6 "$@"; }
check "a run in random order" shuffled all
check "... and its first half" shuffled half --train.steps=3
check "... on more ranks" shuffled more --ranks 2 --zero_optimization.stage=2
check "... with the same bits" same all more
check "... goes on" shuffled half --resume --ranks 2
check "... with the same bits, too" same all half

echo "1..$n"
