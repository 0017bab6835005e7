#TEST timeout=120
# Check data.val as a share of data.train, early stopping, and the best weights: messages, refusals, the same held-out
# data on all ranks, when a run resumes, and in `zr eval`.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do
    echo "line $i of a small text" >>text.txt
    echo "{\"text\": \"line $i of a small text\"}" >>lines.jsonl
    echo "{\"prompt\": \"what is $i?\", \"completion\": \" number $i\"}" >>pairs.jsonl
    echo "{\"instruction\": \"say $i\", \"input\": \"\", \"output\": \"number $i\"}" >>alpaca.jsonl
    i=$((i + 1))
done
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "dropout": 0},
 "data": {"train": "lines.jsonl", "val": 0.1, "cache_dir": "cache"}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
 "train": {"steps": 6, "eval_interval": 3, "eval_batches": 0, "threads": 1, "reproducible": "world"}}
END
train() { "$ZR" train c.json --train.output_dir="$@"; }
val() { grep -o '"val_loss":[^,]*' "$1/metrics.jsonl"; }

# ---- a share
check "a share of records" train one
check "... is said" grep -qx 'zr: note: data.val 0.1: the 30 records of data.train are held out of training, of 300 in all' err
check "... on four ranks" train four --ranks 4
check "... is the same" sh -c 'grep -q "the 30 records of data.train are held out" err && [ "$1" ] && test "$1" = "$2"' - "$(val one)" "$(val four)"
check "... whatever the seed" sh -c '"$0" eval one --json >a && "$0" train c.json --train.seed=7 --train.output_dir=seed --quiet &&
    "$0" eval seed --json >b && test "$(grep -o "\"tokens\":[0-9]*" a)" = "$(grep -o "\"tokens\":[0-9]*" b)"' "$ZR"
of_eval() { sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$1" | cut -c1-7; }
check "... is what zr eval reads" sh -c '"$0" eval one --json >eval.json' "$ZR"
check "... with the loss of the run" test "$(of_eval eval.json)" = "$(val one | tail -n 1 | cut -d: -f2 | cut -c1-7)"
check "... and says so" sh -c '"$0" eval one 2>&1 | grep -q "note: data.val 0.1: the 30 records of data.train are held out of training"' "$ZR"
check "... or its checkpoint" sh -c '"$0" eval one/step-00000006 --json >a && test "$(cut -d, -f1 a)" = "$(cut -d, -f1 eval.json)"' "$ZR"
check "a run that resumes" train half --train.steps=3 --quiet
check "... goes on" train half --resume
check "... with the same data" same one half
check "... not with another share" fails 78 'data.val is 0.2, but 0.1 in step-00000006; a resumed run holds out the same share of data.train' \
    train half --resume --data.val=0.2 --train.steps=9
check "... nor with a file" fails 78 'data.val is "text.txt", but 0.1 in' train half --resume --data.val=text.txt --train.steps=9
check "... nor a share in place of a file" sh -c '"$0" train c.json --quiet --data.val=text.txt --train.output_dir=file &&
    "$0" train c.json --quiet --resume --train.output_dir=file --train.steps=9 2>said; grep -q "data.val is 0.1, but .text.txt. in" said' "$ZR"
check "a share of a text" train text --data.train=text.txt
check "... is its end" grep -q 'data.val 0.1: the last [0-9]* tokens of data.train are held out of training, of [0-9]* in all' err
check "a share of prompts" train prompts --data.train=pairs.jsonl --ranks 2
check "... of whole records" grep -q 'the 30 records of data.train are held out of training, of 300' err
check "a share of packed records" train whole --data.train=pairs.jsonl --data.packing=whole
check "a share of records of another form" train alpaca --data.train=alpaca.jsonl --model.n_positions=256
check "... is said" grep -q 'the 30 records of data.train are held out of training, of 300' err
check "... and their form once" test "$(grep -c 'note: alpaca.jsonl: 300 records of instruction' err)" = 1
check "a share with an interval of 0" train never --train.eval_interval=0
check "... is held out too" sh -c 'grep -q "the 30 records of data.train are held out" err && ! grep -q "data.val has no effect" err'

check "a share of 0" fails 78 'c.json.*\|command line: data.val: found 0, wanted a number above 0 and below 1, a path, or a list of paths' train no --data.val=0
check "... of 1" fails 78 'data.val: found 1, wanted a number above 0 and below 1' train no --data.val=1
check "... of 1.5" fails 78 'data.val: found 1.5, wanted a number' train no --data.val=1.5
check "... below 0" fails 78 'data.val: found -0.1, wanted a number' train no --data.val=-0.1
check "... in percent" fails 78 'data.val: found "5%"; a share of data.train is written as a number, such as 0.05' train no --data.val=5%
sed 's/0.1, "cache/"0.1", "cache/' c.json >quoted.json
check "... in quotes" fails 78 'found "0.1"; a share of data.train is written as a number.*"./0.1"' "$ZR" train quoted.json --train.output_dir=no
sed 's/"val": 0.1/"val": 0.1, "val": "text.txt"/' c.json >twice.json
check "... given twice" fails 78 'val' "$ZR" train twice.json --train.output_dir=no
check "... under its name elsewhere" fails 78 'val_set_size: unknown key; in zr it is data.val, with a share of data.train such as 0.05' "$ZR" train c.json --val_set_size=0.1
check "too small a share" fails 78 'data.val is 0.001: of the 300 records of lines.jsonl, 0 are held out, but at least 1 must be; give a larger share' \
    train no --data.val=0.001
check "... of a text" fails 78 'data.val is 0.001: of the [0-9]* tokens of text.txt, [0-9]* are held out, but at least 33 must be' \
    train no --data.val=0.001 --data.train=text.txt
check "too large a share" fails 78 'data.val is 0.999: of the [0-9]* tokens of text.txt, [0-9]* remain to train on, but at least 33 must be; give a smaller' \
    train no --data.val=0.999 --data.train=text.txt
check "... and no run is left" test ! -e no

# ---- early stopping: a rate that is much too high
early() { "$ZR" train c.json --train.steps=60 --train.eval_interval=2 --optimizer.params.lr=0.3 \
    --train.early_stopping_patience=3 --train.save_interval=2 --train.keep_last=99 --train.output_dir="$@"; }
check "a run whose loss does not fall" early early
check "... ends" grep -q 'note: the run ends after step [0-9]* of 60: val_loss was not lower than the [0-9.]* of step [0-9]* in 3 evaluations in a row (train.early_stopping_patience 3)' err
check "... with its best weights" grep -q 'note: train.keep_best: true, because of train.early_stopping_patience' err
check "... which it names" grep -q 'the weights of the lowest val_loss, [0-9.]* after step [0-9]*, are in early/best' err
last=$(ls -d early/step-* | tail -n 1 | sed 's/.*step-0*//')
best=$(sed -n 's/.*"best_step":\([0-9]*\).*/\1/p' early/run.json)
check "... three evaluations after them" test "$last" = $((best + 6))
check "... which run.json tells" grep -q '"stopped_early":true' early/run.json
check "... and zr report too" sh -c '"$0" report early --quiet -o page.html && grep -q "$1 of 60, stopped early" page.html' "$ZR" "$last"
check "... of which is the lowest loss" test "$(val early | cut -d: -f2 | sort -g | head -n 1)" = \
    "$(sed -n 's/.*"val_loss":\([^ }]*\).*/\1/p' early/best/trained.json)"
check "... with a checkpoint" test -d "early/step-$(printf %08d "$last")"
check "... evaluates, with the loss of that evaluation" test "$("$ZR" eval early/best --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' | cut -c1-7)" = \
    "$(val early | cut -d: -f2 | sort -g | head -n 1 | cut -c1-7)"
check "... also by its name alone" sh -c 'cd early && "$0" eval best' "$ZR"
check "... converts" "$ZR" convert early/best exported
check "... generates" "$ZR" generate early/best --prompt line --tokens 4
check "... is still there when older checkpoints are removed" sh -c '"$0" train c.json --quiet --train.steps=60 --train.eval_interval=2 \
    --optimizer.params.lr=0.3 --train.early_stopping_patience=3 --train.save_interval=1 --train.keep_last=1 --train.output_dir=rotated &&
    test "$(ls -d rotated/step-* | wc -l)" = 1 && cmp rotated/best/model.safetensors early/best/model.safetensors' "$ZR"
cp -r early ended
check "it is over when it is started again" early ended --resume
check "... which is said" grep -q "the run ends after step $last of 60" err
check "... without a step" test "$(grep -c '"loss"' ended/metrics.jsonl)" = "$last"
check "with more patience it goes on" early ended --resume --train.early_stopping_patience=5
check "... to its end" test "$(grep -c '"loss"' ended/metrics.jsonl)" -gt "$last"
# From each checkpoint, which was written before the evaluation of its step.
again() { # STEP: go on from this checkpoint
    rm -rf again && mkdir again && cp -r early/metrics.jsonl early/config.json "early/step-$(printf %08d "$1")" again
    early again --resume --quiet && test "$(numbers again)" = "$(numbers early)" && test "$(val again)" = "$(val early)" &&
        cmp again/model/model.safetensors early/model/model.safetensors
}
check "a run that resumes before the best evaluation ends at the same step" again $((best - 2))
check "... at it" again "$best"
check "... after it" again $((best + 2))
check "... one before its end" again $((best + 4))
check "a run that writes only its last checkpoint" early late --train.save_interval=0 --quiet
check "... counts the evaluation of that step once" sh -c '"$0" train late/config.json --resume 2>&1 | grep -q "ends after step $1 of 60.* in 3 evaluations in a row"' "$ZR" "$last"
mv late/metrics.jsonl lines
check "... also if it is made again" sh -c '"$0" train late/config.json --resume 2>&1 | grep -q "ends after step $1 of 60.* in 3 evaluations in a row"' "$ZR" "$last"
threshold() { early "$@" --train.early_stopping_threshold=100; }
check "a threshold that no loss passes" threshold high
check "... ends the run at once" grep -q 'ends after step 8 of 60: val_loss was not lower than the [0-9.]* of step 2 by more than 100 in 3' err
check "patience without evaluations" fails 78 'train.early_stopping_patience: needs evaluations, but there are none (there is no data.val)' \
    early no --data.val=null
check "... or an interval" fails 78 'early_stopping_patience: needs evaluations, but there are none (train.eval_interval is 0)' \
    early no --train.eval_interval=0
check "a threshold without patience" fails 78 'train.early_stopping_threshold: it has no effect alone; give train.early_stopping_patience too' \
    train no --train.early_stopping_threshold=0.1
check "patience without the best weights" early bare --train.keep_best=false --quiet
check "... keeps none" test ! -e bare/best

# ---- encoders
python3 - <<'END_PYTHON'
import json, os, random
random.seed(1)
colours, animals = ("red", "blue", "green"), ("cat", "dog", "bird")
os.mkdir("tok")
open("tok/tokenizer_config.json", "w").write('{"do_lower_case": true}')
open("tok/vocab.txt", "w").write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *colours, *animals, "the", "runs", "what", "?"]))
texts, paragraphs, documents = [], [], []
for i in range(40):
    colour, animal = random.choice(colours), random.choice(animals)
    text = f"the {colour} {animal} runs"
    texts.append(json.dumps({"text": text, "label": animals.index(animal)}) + "\n")
    paragraphs.append({"context": text, "qas": [{"id": f"{i}-{k}", "question": f"what {animal} ?", "answers": [
        {"text": colour, "answer_start": text.index(colour)}]} for k in range(2)]})
    documents.append((text + " the the\n") * 4 + "\n")
open("labels.jsonl", "w").write("".join(texts))
json.dump({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}, open("squad.json", "w"))
open("documents.txt", "w").write("".join(documents))
END_PYTHON
encoder() { # RUN TASK DATA OPTION...
    run=$1 task=$2 data=$3
    shift 3
    "$ZR" train --model.type=bert --model.task="$task" --model.hidden_dropout_prob=0 --model.attention_probs_dropout_prob=0 \
        --model.num_hidden_layers=1 --model.num_attention_heads=2 --model.hidden_size=16 --model.max_position_embeddings=32 \
        --data.train="$data" --data.val=0.25 --data.tokenizer=tok --data.seq_length=24 --data.cache_dir=cache \
        --train_batch_size=4 --train.steps=4 --train.eval_interval=2 --train.eval_batches=0 --train.threads=1 --optimizer.params.lr=1e-3 --bf16.enabled=false \
        --train.output_dir="$run" "$@"
}
held() { grep -q "data.val 0.25: the $1 of data.train are held out of training, of $2 in all" err; }
as_the_run() { # RUN: zr eval has the loss of the run's last evaluation
    "$ZR" eval "$1" --json >a && test "$(sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' a | head -n 1 | cut -c1-6)" = \
        "$(val "$1" | tail -n 1 | cut -d: -f2 | cut -c1-6)"
}
check "a share of labelled texts" encoder labels sequence_classification labels.jsonl --model.num_labels=3
check "... of records" held "10 records" 40
check "... is evaluated" as_the_run labels
check "... with its accuracy" grep -q '"samples":10' a
check "a share of questions" encoder answers question_answering squad.json --data.doc_stride=4 --data.max_query_length=6
check "... with their texts" held "20 questions" 80
check "... is evaluated" as_the_run answers
check "a share of sentence pairs" encoder pairs pretraining documents.txt --data.max_predictions=4
check "... of whole documents" held "10 documents" 40
check "... is evaluated" as_the_run pairs
check "... on two ranks" encoder pairs2 pretraining documents.txt --data.max_predictions=4 --ranks 2
check "... in the same documents" held "10 documents" 40
check "too small a share of questions" fails 78 'data.val is 0.001: of the 40 paragraphs with questions of squad.json, 0 are held out' \
    encoder no question_answering squad.json --data.doc_stride=4 --data.max_query_length=6 --data.val=0.001
check "... of documents" fails 78 'data.val is 0.03: of the 40 documents of documents.txt, 1 are held out, but at least 2 must be' \
    encoder no pretraining documents.txt --data.max_predictions=4 --data.val=0.03
echo "1..$n"
