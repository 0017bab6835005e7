#TEST timeout=60
# Check an encoder that is trained on masked tokens and pairs of sentences: both loss terms equal those of the reference
# for any division of the rows among ranks and micro-batches, and a resumed run continues with the same bits.
. tests/support/command.inc
GOLDEN=$ZR_SOURCE/tests/golden/bert-odd

cat >c.json <<'END_CONFIG'
{"model": {"type": "bert", "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0},
 "data": {"order": "sequential", "seq_length": 15, "max_predictions": 15},
 "train_batch_size": 4, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
 "train": {"steps": 10, "eval_interval": 0, "threads": 1}, "steps_per_print": 1}
END_CONFIG
DATA=$GOLDEN/batches.safetensors
train() { # RUN OPTION...
    run=$1
    shift
    "$ZR" train c.json --model.init="$GOLDEN/model" --data.train="$DATA" --train.output_dir="$run" "$@"
}
# as_expected RUN: check that the losses and their terms are the reference's.
as_expected() {
    python3 - "$1" "$GOLDEN/expected.json" <<'END_PYTHON'
import json, sys
line = [json.loads(line) for line in open(f"{sys.argv[1]}/metrics.jsonl")]
want = json.load(open(sys.argv[2]))
assert len(line) == 10, len(line)
for one, loss, norm, terms in zip(line, want["losses"], want["grad_norms"], want["mlm_nsp"]):
    got = [one["loss"], one["grad_norm"], one["masked_lm"], one["next_sentence"]]
    for a, b in zip(got, [loss, norm, *terms]):
        assert abs(a - b) < 2e-5 * b, (one, loss, norm, terms)
END_PYTHON
}
check "a run on ready rows" train one
check "... losses of the reference" as_expected one
check "... and in the lines of steps" grep -q 'masked_lm 3.90750.*next_sentence 0.68022' err
check "... and what can follow: no text" sh -c 'tail -n 1 err | grep -qx "zr: next: zr eval one --data FILE; zr report one"'
check "... as planned" as_planned one
check "... on two ranks, with accumulation" train two --ranks 2 --zero_optimization.stage=3 \
    --train_micro_batch_size_per_gpu=1
check "... losses of the reference" as_expected two
check "... as planned" as_planned two
check "... on one rank, with sums that do not depend on ranks" train world --train.reproducible=world \
    --train_micro_batch_size_per_gpu=1
check "... on four" train worlds --ranks 4 --zero_optimization.stage=2 --train.reproducible=world \
    --train_micro_batch_size_per_gpu=1
check "... the same bits" same world worlds

# a run that is resumed
check "five steps" train part --train.steps=5
check "... five more" train part --resume --train.steps=10
check "... are the same" same one part
python3 - "$DATA" <<'END_PYTHON'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
length, = struct.unpack("<Q", data[:8])
at = 8 + length + json.loads(data[8:8 + length])["next_sentence_label"]["data_offsets"][0]
data[at] ^= 1
open("other.safetensors", "wb").write(data)
data[at:at + 4] = struct.pack("<i", -100)
open("unlabelled.safetensors", "wb").write(data)
END_PYTHON
check "... but not on other rows" fails 65 'data.train' train part --resume --train.steps=11 --data.train=other.safetensors

# evaluation
check "an evaluation during a run" train val --data.val="$DATA" --train.steps=1 --train.eval_interval=1
next_loss() { # the evaluation of all rows is the mean of the losses of steps without updates
    train still --optimizer.params.lr=0 --optimizer.params.weight_decay=0 --train_batch_size=40
    "$ZR" eval "$GOLDEN/model" --data "$DATA" --seq 15 --json >eval.json || return 1
    python3 - <<'END_PYTHON'
import json
step = json.loads(open("still/metrics.jsonl").readline())
got = json.load(open("eval.json"))
for key in "loss", "masked_lm", "next_sentence":
    assert abs(step[key] - got[key]) < 1e-5, (key, step, got)
END_PYTHON
}
check "an evaluation of weights" next_loss
# the probabilities of the first row's two labels add up to 1, if a row without a label does not count
label_probabilities() {
    for labels in "$DATA" other.safetensors unlabelled.safetensors; do
        "$ZR" eval "$GOLDEN/model" --data "$labels" --seq 15 --json >"$(basename "$labels").json" || return 1
    done
    python3 - <<'END_PYTHON'
import json, math
def of(name): return json.load(open(f"{name}.safetensors.json"))["next_sentence"]
others = 39 * of("unlabelled")
p = [math.exp(others - 40 * of(name)) for name in ("batches", "other")]
assert abs(sum(p) - 1) < 1e-3 and min(p) > 0.01, p
END_PYTHON
}
check "... of rows of which one has no label" label_probabilities
check "... on a list of one file" prints 'masked_lm ' "$ZR" eval "$GOLDEN/model" --data "[\"$DATA\"]" --seq 15
python3 - "$DATA" "$GOLDEN/expected.json" <<'END_PYTHON'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
length, = struct.unpack("<Q", data[:8])
first, end = (8 + length + at for at in json.loads(data[8:8 + length])["labels"]["data_offsets"])
labels = [label for label, in struct.iter_unpack("<i", data[first:end])]
predicted = json.load(open(sys.argv[2]))["predicted"]
masked = [i for i, label in enumerate(labels) if label >= 0]
assert len(masked) == len(predicted)
for k, i in enumerate(masked):
    if k % 3:
        labels[i] = predicted[k]
right = sum(labels[i] == token for i, token in zip(masked, predicted))
data[first:end] = struct.pack(f"<{len(labels)}i", *labels)
open("hits.safetensors", "wb").write(data)
json.dump([right / len(masked), len(masked)], open("want.json", "w"))
END_PYTHON
accuracy() {
    "$ZR" eval "$GOLDEN/model" --data hits.safetensors --seq 15 --json >eval.json || return 1
    python3 - <<'END_PYTHON'
import json
got, (share, tokens) = json.load(open("eval.json")), json.load(open("want.json"))
assert abs(got["masked_lm_accuracy"] - share) < 1e-8 and got["tokens"] == tokens, (got, share, tokens)
END_PYTHON
}
check "... with the accuracy of the reference's predictions, for two of three labels" accuracy
cp "$DATA" more.safetensors
check "... but not of two" fails 69 'more.safetensors is the first of 2 files.*ready rows are read from one file' \
    "$ZR" eval "$GOLDEN/model" --data "[\"more.safetensors\", \"other.safetensors\"]" --seq 15
check "... nor is there training on two" fails 69 'ready rows are read from one file' train no \
    --data.train='*.safetensors'
the_val_loss() {
    "$ZR" eval val --json >eval.json || return 1
    python3 - <<'END_PYTHON'
import json
line = [json.loads(line) for line in open("val/metrics.jsonl") if "val_loss" in line][0]
got = json.load(open("eval.json"))
assert abs(line["val_loss"] - got["loss"]) < 1e-6 and abs(line["val_masked_lm"] - got["masked_lm"]) < 1e-6, (line, got)
assert line["val_tokens"] == got["tokens"], (line, got)
END_PYTHON
}
check "... is the run's own" the_val_loss
check "... for people" prints 'next_sentence  0' "$ZR" eval val
check "... with the accuracy" prints '^accuracy       0.0[0-9]*, of [0-9]* masked tokens' "$ZR" eval val

small() { # OPTION...
    "$ZR" train --model.type=bert --model.num_hidden_layers=1 --model.num_attention_heads=2 --model.hidden_size=16 \
        --model.max_position_embeddings=32 --model.vocab_size=60 --train.output_dir=no "$@"
}
# options that an encoder refuses
check "an encoder generates no text" fails 69 'only decoders' "$ZR" generate one --prompt a
check "... takes no key of decoders" fails 78 'data.packing: it is for decoders' small --data.packing=whole
check "... and a decoder none of encoders" fails 78 'data.max_samples: it is for encoders' "$ZR" plan --model.preset=gpt2-124m --data.max_samples=2
echo "a b" >text.txt
check "... needs a tokenizer for text" fails 78 'data.tokenizer is missing' "$ZR" train --model.type=bert --data.train=text.txt
check "... and first of all the text" fails 66 'text-gone.txt: cannot open' "$ZR" train --model.type=bert --data.train=text-gone.txt
check "... and rows with room for a pair" fails 78 'data.seq_length: 4 is too short for a pair' small --data.train="$DATA" --data.seq_length=4 --data.max_predictions=2
check "... predicts no more tokens than a row has" fails 78 'data.max_predictions: 40 is more than data.seq_length 32' small --data.train="$DATA" --data.max_predictions=40
check "... not even the default of longer rows, if it is given" fails 78 \
    'data.max_predictions: 20 is more than data.seq_length 15' train no --data.max_predictions=20
sed 's/, "max_predictions": 15//' c.json >short.json
check "... and by default fewer in short rows" "$ZR" train short.json --model.init="$GOLDEN/model" --data.train="$DATA" \
    --train.output_dir=short --train.steps=1
check "... namely as many as tokens" grep -q '"max_predictions": 15' short/config.json
check "... nor holds more samples than tokens" fails 78 'data.max_samples: 33 is more than data.seq_length 32' small --data.train="$DATA" --data.max_samples=33
check "a plan" prints '"params": 110106428' "$ZR" plan --model.preset=bert-base --data.seq_length=128 --zero_optimization.stage=2 --ranks 4 --json

echo "1..$n"
