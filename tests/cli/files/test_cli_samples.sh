#TEST timeout=120
# Check the texts that a run's model generates during training: the same at any number of ranks and stage, the same as
# by `zr generate` with the run's weights, and the same in the report.
. tests/support/command.inc

i=0
while [ $i -lt 200 ]; do echo "line $i of a small <b>text</b>, \"made\" for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
 "optimizer": {"params": {"lr": 0.01}},
 "train": {"steps": 30, "eval_interval": 10, "eval_batches": 1, "threads": 1, "reproducible": "world", "output_dir": "one",
           "sample_tokens": 40, "sample_prompt": "line <"}}
END_CONFIG
train() { "$ZR" train c.json --quiet "$@"; }
samples() { grep '"sample"' "$1/metrics.jsonl"; }
alike() { samples "$1" >a && samples "$2" >b && [ -s a ] && cmp a b; }
check "a run" train
check "... writes every eval_interval steps" [ "$(samples one | sed 's/, "sample".*//' | tr '\n' ' ')" = '{"step":10 {"step":20 {"step":30 ' ]
python3 - one/metrics.jsonl >text.last <<'END_PYTHON'
import json, sys
print([json.loads(line)["sample"] for line in open(sys.argv[1]) if '"sample"' in line][-1])
END_PYTHON
check "... the last as zr generate does, beyond the context too" sh -c "$ZR generate one --quiet --prompt 'line <' --tokens 40 --seed 1234 >made && cmp made text.last"
check "... planned is measured" python3 -c "
import json
run = json.load(open('one/run.json'))
assert run['planned'] == run['measured']"
check "... the losses are those without" sh -c "$ZR train c.json --quiet --train.sample_tokens=0 --train.output_dir=none &&
    for run in one none; do grep -v '\"sample\"' \$run/metrics.jsonl | sed 's/\"step_ms\".*//' >\$run.losses; done && cmp one.losses none.losses"
for stage in 1 2 3; do
    check "stage $stage on two ranks" train --ranks 2 --zero_optimization.stage=$stage --train.output_dir=s$stage
    check "... the same texts" alike one s$stage
    check "... planned is measured" python3 -c "
import json
run = json.load(open('s$stage/run.json'))
assert run['planned'] == run['measured']"
done
check "a run that ends where a text is due" train --train.output_dir=due --train.steps=20 --train.save_interval=20
grep -v '"step":20, "sample"' due/metrics.jsonl >lines && cat lines >due/metrics.jsonl
check "... goes on, though it was killed before that" train --ranks 2 --train.output_dir=due --train.save_interval=20 --resume
check "... and writes it" alike one due
check "it ends in time" code 75 "$ZR" train c.json --quiet --train.output_dir=slow --train.save_interval=20 --max-time 2s \
    --model.n_embd=512 --model.n_head=8 --model.n_layer=6 --model.n_positions=1024 --train.steps=1000000 \
    --train.eval_interval=1 --train.eval_batches=1 --train.sample_tokens=1000
check "a run that ends earlier" train --train.output_dir=again --train.steps=15 --train.save_interval=15
check "... goes on" train --train.output_dir=again --train.save_interval=15 --resume
check "... with the same texts, and that of its first end" sh -c "grep '\"sample\"' again/metrics.jsonl | grep -v 'step\":15,' >a && grep '\"sample\"' one/metrics.jsonl >b && cmp a b &&
    [ \$(grep -c 'step\":15, \"sample' again/metrics.jsonl) = 1 ]"

check "the report has them" "$ZR" report --quiet one
check "... nothing of them is HTML" sh -c "grep -q 'after step 30' one/report.html && ! grep -q '<b>text' one/report.html"
check "... as JSON" sh -c "$ZR report --json one | python3 -c '
import json, sys
texts = json.load(sys.stdin)[\"runs\"][0][\"samples\"]
assert texts == [json.loads(line) for line in open(\"one/metrics.jsonl\") if \"\\\"sample\\\"\" in line]'"
check "... in letters" prints 'what the model writes after step 30' "$ZR" report one
check "... no line is left out" sh -c "! $ZR report one | grep -q 'left out'"
check "a picture is drawn as before" sh -c "$ZR plot --quiet one -o one.svg 2>plot.err && ! grep -q . plot.err"

python3 -c "
import sys
sys.stdout.buffer.write(bytes(i % 100 if i % 2 == 0 else 0 for i in range(4000)))" >ascii.bin
check "a prompt that is not the model's" fails 65 'token id 195 of the tokenizer bytes, but the model.s vocabulary' train --data.train=ascii.bin --data.val=null \
    --data.tokenizer=bytes --model.vocab_size=128 --train.sample_prompt=Å --train.output_dir=x
check "... is refused before the first step" [ ! -e x/metrics.jsonl ]
check "a long one" fails 78 'train.sample_prompt has 1025 bytes' train --train.sample_prompt="$(printf %1025s x)" --train.output_dir=x
check "ranks that share layers" fails 69 'train.sample_tokens cannot be used with parallel.tensor' train --ranks 2 --parallel.tensor=2 --train.output_dir=x
"$ZR" tokenize --quiet --train 300 text.txt -o learned && "$ZR" tokenize --quiet --tokenizer learned text.txt -o tokens.bin
check "tokens without their tokenizer" fails 78 'train.sample_tokens: token files need a tokenizer' train --data.train=tokens.bin --data.val=null \
    --train.output_dir=x
check "... with it" train --data.train=tokens.bin --data.val=null --data.tokenizer=learned --train.output_dir=tokens
check "... make texts" [ "$(samples tokens | wc -l)" = 3 ]
echo "1..$n"
