#TEST timeout=90
# Check that fine-tuned BERT learns labels and answers, starts from the body of another task, and is evaluated by
# accuracy, exact match and F1.
. tests/support/command.inc

python3 - <<'END_PYTHON'
import json, os, random
random.seed(1)
colours, animals, verbs, places = ("red", "blue", "green"), ("cat", "dog", "bird"), ("runs", "sings"), ("house", "garden")
words = [*colours, *animals, *verbs, *places, "the", "in", "where", "what", "color", "is", "?"]
os.mkdir("tok")
open("tok/tokenizer_config.json", "w").write('{"do_lower_case": true}')
open("tok/vocab.txt", "w").write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words) + "\n")
for name, n in ("train", 60), ("dev", 12):
    texts, paragraphs = [], []
    for i in range(n):
        colour, animal, verb, place = (random.choice(one) for one in (colours, animals, verbs, places))
        text = f"the {colour} {animal} {verb} in the {place}"
        texts.append({"text": text, "text_pair": f"the {animal}", "label": animals.index(animal)})
        asked = (f"what color is the {animal} ?", colour), (f"where is the {animal} ?", place)
        paragraphs.append({"context": text, "qas": [
            {"id": f"{i}-{k}", "question": question, "answers": [{"text": right, "answer_start": text.index(right)}]}
            for k, (question, right) in enumerate(asked)]})
    open(name + ".jsonl", "w").write("".join(json.dumps(one) + "\n" for one in texts))
    names = [one | {"label": animals[one["label"]]} for one in texts]
    open(name + "-named.jsonl", "w").write("".join(json.dumps(one) + "\n" for one in names))
    json.dump({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}, open(name + ".json", "w"))
END_PYTHON

# options of a small BERT; the options of a task come after the run's name
tune() { # RUN TASK TRAIN DEV OPTION...
    run=$1 task=$2 data=$3 dev=$4
    shift 4
    "$ZR" train --model.type="${type:-bert}" --model.task="$task" --model.hidden_dropout_prob=0 \
        --model.attention_probs_dropout_prob=0 --data.train="$data" --data.val="$dev" --data.tokenizer=tok \
        --data.seq_length=32 --train_batch_size=8 --train.steps=120 --train.eval_interval=60 --train.threads=1 \
        --optimizer.params.lr=5e-3 --gradient_clipping=1 --bf16.enabled=false --train.output_dir="$run" "$@"
}
small="--model.num_hidden_layers=1 --model.num_attention_heads=2 --model.hidden_size=16 --model.max_position_embeddings=64"
labels() { run=$1; shift; tune "$run" sequence_classification train.jsonl dev.jsonl --model.num_labels=3 --train.seed=2 "$@"; }
answers() { run=$1; shift; tune "$run" question_answering train.json dev.json --data.doc_stride=8 --data.max_query_length=10 "$@"; }

check "a run on labels" labels classes $small
check "... counts labels in the lines of evaluations" grep -q 'val_loss [0-9.]* | 12 labels$' err
check "... is evaluated by accuracy" prints '^accuracy       1.0000, of 12 samples' "$ZR" eval classes
check "... in its directory of Hugging Face" prints '"accuracy":1, "samples":12' \
    "$ZR" eval classes/model --data dev.jsonl --seq 32 --json
check "... which says what it is" grep -q '"architectures": \["BertForSequenceClassification"\]' classes/model/config.json
check "... on two ranks at stage 3" labels classes2 $small --ranks 2 --train_micro_batch_size_per_gpu=4 \
    --zero_optimization.stage=3
close() { # FACTOR RUN RUN
    python3 - "$@" <<'END_PYTHON'
import json, sys
a, b = ([json.loads(line) for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[2:])
assert len(a) == len(b) > 80
for x, y in zip(a[:20], b[:20]): # differences in the last bit grow with the steps
    for key in "loss", "val_loss":
        assert (key in x) == (key in y) and (key not in x or abs(x[key] - y[key]) < float(sys.argv[1]) * x[key]), (x, y)
END_PYTHON
}
check "... has the same losses" close 1e-3 classes classes2
check "... is resumed" labels again $small --train.steps=60
check "... with the same samples" "$ZR" train again/config.json --resume --train.steps=120
check "... and bits" same classes again
check "packed rows" labels packed $small --data.max_samples=4
check "... are evaluated" prints 'of 12 samples' "$ZR" eval packed

cp -r classes/model named
python3 - <<'END_PYTHON'
import json
config = json.load(open("named/config.json"))
config["id2label"] = {"0": "cat", "1": "dog", "2": "bird"}
config["label2id"] = {"cat": 0, "dog": 1, "bird": 2}
json.dump(config, open("named/config.json", "w"))
END_PYTHON
check "labels have names in config.json" prints '^accuracy       1.0000' "$ZR" eval named --data dev-named.jsonl --seq 32
check "... also for training, and keep them" labels names --model.init=named --data.train=train-named.jsonl \
    --data.val=dev-named.jsonl --train.steps=2
check "... and they are written again" grep -q '"1": "dog"' names/model/config.json
sed -i 's/"0": "cat", "1": "dog"/"0": "dog", "1": "cat"/' named/config.json
check "... in another order a run is not resumed" fails 65 'data.train: the file has changed .*, or the tokenizer, the names of labels or the keys of data' \
    "$ZR" train names/config.json --train.steps=3 --resume
sed -i 's/"0": "dog", "1": "cat"/"0": "cat", "1": "dog"/' named/config.json
check "... but in the same" "$ZR" train names/config.json --train.steps=3 --resume
check "adapters of a directory with names" labels adapted --model.init=named --model.lora.rank=2 \
    --data.train=train-named.jsonl --data.val=dev-named.jsonl --train.steps=2
check "... are evaluated with these names" prints 'of 12 samples' "$ZR" eval adapted
check "... and are of no type whose head peft would look for" grep -q '"task_type": null' \
    adapted/model/adapter_config.json
check "names are refused where the model has none" fails 65 'or the name of a label of the model' "$ZR" eval classes/model \
    --data dev-named.jsonl --seq 32

check "a run on answers that starts with another task" answers qa --model.init=classes/model --train.steps=150
check "... counts two ends of each answer" grep -q 'val_loss [0-9.]* | 48 ends of answers$' err
check "... says which tensors are new" grep -q 'new tensors.*: qa_outputs.weight, qa_outputs.bias$' err
check "... and which are left out" grep -q 'tensors that the model does not have (4): .*classifier.bias' err
check "... is evaluated by exact match and F1" prints '^F1             100.0000 %' "$ZR" eval qa --predictions found.json
right() {
    python3 - <<'END_PYTHON'
import json
asked = [qa for p in json.load(open("dev.json"))["data"][0]["paragraphs"] for qa in p["qas"]]
assert json.load(open("found.json")) == {qa["id"]: qa["answers"][0]["text"] for qa in asked}
assert "id2label" not in json.load(open("qa/model/config.json"))
END_PYTHON
}
check "... and its answers are written" right
check "... is resumed, although the other task had three labels" "$ZR" train qa/config.json --resume --train.steps=151
# Samples are read in parts, and count against memory.limit.
python3 - <<'END_PYTHON'
import json
text = " ".join(["the red cat runs in the house"] * 20)
asked = [{"id": "", "question": "where is the cat ?", "answers": [{"text": "house", "answer_start": text.index("house")}],
          "votes": [0] * 60}] * 4
paragraphs = [{"context": text, "qas": [one | {"id": f"{i}-{k}"} for k, one in enumerate(asked)]} for i in range(5000)]
json.dump({"data": [{"title": "t", "paragraphs": paragraphs}]}, open("large.json", "w"))
END_PYTHON
check "a large file of questions" answers big $small --data.train=large.json --train.steps=1
check "... takes the memory that is promised" sh -c "grep -q '\"peak_rss_bytes\":[0-9]' big/run.json && ! grep 'of memory at its peak, more than' err"
check "... which a limit must have" fails 71 'the samples of data.train and data.val, which take [0-9.]* MB, need .* but memory.limit is 80' \
    answers none $small --data.train=large.json --memory.limit=80MB
check "... and a choice leaves out" answers chosen $small --data.train=large.json --memory 130MB --train.steps=1 --train_batch_size=auto
check "... as a note says" grep -q 'note: memory.limit: [0-9.]* MB of it hold the samples' err
more=
for task in labels answers; do # data.max_predictions is 20 by default, also for tasks without predictions
    check "$task in rows of 16 tokens" $task short $small --data.seq_length=16 $more --train.steps=1
    check "... are resumed" "$ZR" train short/config.json --resume --train.steps=2
    check "... and evaluated" "$ZR" eval short
    rm -r short
    more="--data.doc_stride=2 --data.max_query_length=4"
done
check "... in windows" prints 'of 24 questions' "$ZR" eval qa --seq 24
check "the weights alone, in rows that are too short for windows of 128 tokens" prints '^F1 ' "$ZR" eval qa/model --data dev.json \
    --seq 32
check "... but not over the data" fails 73 'dev.json' "$ZR" eval qa --data dev.json --predictions dev.json
check "... from some of the windows only losses" prints '^answer ' "$ZR" eval qa --batches 1
check "... and no answers" fails 69 'leave out the number of batches' "$ZR" eval qa --batches 1 --predictions no.json
check "no other task gives answers" fails 69 'question_answering' "$ZR" eval classes --predictions no.json
check "a new head of labels, and a new pooler" labels back --model.init=qa/model --train.steps=1
check "... are named" grep -q 'new tensors.*: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight' err

check "the head of another number of labels does not fit" fails 65 'classifier.weight' labels no --model.init=named \
    --model.num_labels=4
check "adapters have no new head" fails 69 'the new head' labels no --model.init=qa/model --model.lora.rank=2
check "... nor in a plan" fails 69 'the new head' "$ZR" plan --model.init=qa/model --data.seq_length=32 \
    --model.task=sequence_classification --model.lora.rank=2
check "a key of another task" fails 78 'data.max_predictions: it is for another model.task' labels no $small \
    --data.max_predictions=10
for option in model.num_labels=3 model.classifier_dropout=0.2 data.format=text; do
    check "... ${option%=*}" fails 78 "${option%=*}: it is for another model.task; leave it out" answers no $small --$option
    check "... also of a task that a directory gives" fails 78 "${option%=*}: it is for another model.task" "$ZR" train \
        --model.init=qa/model --data.train=train.json --data.tokenizer=tok --train.output_dir=no --$option
done
check "a plan" prints 'parameters' "$ZR" plan classes/config.json
sed 's/BertForSequenceClassification/BertForMultipleChoice/' classes/model/config.json >named/config.json
check "another class of transformers is refused by name" fails 65 \
    'architectures is BertForMultipleChoice; wanted BertForPreTraining, BertForSequenceClassification, BertForQ' \
    "$ZR" eval named --data dev.jsonl
sed 's/"problem_type.*//; s/^{/{"problem_type": "multi_label_classification",/' classes/model/config.json >named/config.json
check "... and another type of problem" fails 65 'problem_type is "multi_label_classification"' "$ZR" eval named \
    --data dev.jsonl

sed 's/"problem_type.*//; s/^{/{"id2label": ["no", "yes"],/; s/"id2label": {/"other": {/' classes/model/config.json \
    >named/config.json
check "... and a list of labels" fails 65 'id2label is not an object' "$ZR" eval named --data dev.jsonl

# Directories of other classes, with the tensors of each.
python3 - <<'END_PYTHON'
import json, os, struct
def read(path):
    data = open(path, "rb").read()
    length, = struct.unpack("<Q", data[:8])
    return {name: (one, data[8 + length + one["data_offsets"][0]:8 + length + one["data_offsets"][1]])
            for name, one in json.loads(data[8:8 + length]).items() if name != "__metadata__"}
def write(folder, kind, tensors):
    config = json.load(open("classes/model/config.json")) | {"architectures": [kind]}
    header, body = {}, b""
    for name, (one, data) in tensors.items():
        header[name] = one | {"data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.mkdir(folder)
    json.dump({name: value for name, value in config.items() if "label" not in name}, open(f"{folder}/config.json", "w"))
    open(f"{folder}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
def zeros(*shape):
    elems = 1
    for n in shape:
        elems *= n
    return {"dtype": "F32", "shape": shape}, bytes(4 * elems)
all = read("classes/model/model.safetensors")
body = {name: value for name, value in all.items() if not name.startswith("classifier.")}
width, words = 16, all["bert.embeddings.word_embeddings.weight"][0]["shape"][0]
head = {"bias": zeros(words), "transform.dense.weight": zeros(width, width), "transform.dense.bias": zeros(width),
        "transform.LayerNorm.weight": zeros(width), "transform.LayerNorm.bias": zeros(width)}
write("body", "BertModel", {name.removeprefix("bert."): value for name, value in body.items()})
write("masked", "BertForMaskedLM", {name: value for name, value in body.items() if ".pooler." not in name} |
      {"cls.predictions." + name: value for name, value in head.items()})
large = dict(all)
large["classifier.weight"] = all["classifier.weight"][0], struct.pack("<f", 3e38) * (3 * width)
write("large", "BertForSequenceClassification", large)
config = json.load(open("large/config.json")) | {"num_labels": 3}
json.dump(config, open("large/config.json", "w"))
END_PYTHON
cp tok/* large
check "labels, from the body alone" labels from-body --model.init=body --train.steps=2
check "... whose pooler is kept" grep -q 'new tensors.*: classifier.weight, classifier.bias$' err
check "... from a model of masked tokens" labels from-masked --model.init=masked --train.steps=2
check "... which has no pooler" grep -q 'new tensors.*: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier' err
check "... and whose head is left out" grep -q 'tensors that the model does not have (5): .*cls.predictions' err
check "answers, from the body alone" answers answers-body --model.init=body --train.steps=2
check "... without the pooler" grep -q 'tensors that the model does not have (2): .*pooler' err
check "a model whose logits overflow is not scored" fails 80 'not finite' "$ZR" eval large --data dev.jsonl --seq 32

type=bert-preln
check "norms before each part: labels" labels before $small --train.steps=20
check "... in a directory of their own class" grep -q 'BertPreLNForSequenceClassification' before/model/config.json
check "... are evaluated" prints 'of 12 samples' "$ZR" eval before/model --data dev.jsonl --seq 32
check "... answers, with the same body" answers after --model.init=before/model --train.steps=2
check "... are evaluated as well" prints 'of 24 questions' "$ZR" eval after
type=bert
check "... but not with norms after each part" fails 78 'model.type' answers no --model.init=before/model

echo "1..$n"
