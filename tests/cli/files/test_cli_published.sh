#TEST timeout=90
# BERT as published: directories with the head of masked tokens alone or without a head, GLUE's members and labels by
# name, tags of words, and questions without an answer, each trained, saved and evaluated.
. tests/support/command.inc

python3 - <<'END_PYTHON'
import json, os, random
random.seed(1)
colours, animals, places = ("red", "blue", "green"), ("cat", "dog", "bird"), ("house", "garden")
words = [*colours, *animals, *places, "the", "in", "runs", "where", "what", "color", "is", "?"]
os.mkdir("tok")
open("tok/tokenizer_config.json", "w").write('{"do_lower_case": true}')
open("tok/vocab.txt", "w").write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words) + "\n")
tags = dict.fromkeys(animals, "B-ANIMAL") | dict.fromkeys(places, "B-PLACE") | {"the": "O", "in": "O", "runs": "O"}
for name, n in ("train", 60), ("dev", 12):
    plain, glue, columns, paragraphs = [], [], [], []
    for i in range(n):
        colour, animal, place = (random.choice(one) for one in (colours, animals, places))
        text = f"the {colour} {animal} runs in the {place}"
        plain.append(text)
        glue.append({"idx": i, "sentence1": text, "sentence2": f"the {animal}", "label": animal.upper()})
        # a colour belongs to its animal
        columns.append("".join(f"{word} X {tags.get(word, 'B-ANIMAL')}\n" for word in text.split()).replace(
            f"{animal} X B", f"{animal} X I"))
        other = random.choice([one for one in animals if one != animal])
        paragraphs.append({"context": text, "qas": [
            {"id": f"{i}-0", "question": f"what color is the {animal} ?", "is_impossible": False,
             "answers": [{"text": colour, "answer_start": text.index(colour)}]},
            {"id": f"{i}-1", "question": f"what color is the {other} ?", "is_impossible": True, "answers": []}]})
    open(name + ".txt", "w").write("\n".join(plain) + "\n")
    open(name + ".jsonl", "w").write("".join(json.dumps(one) + "\n" for one in glue))
    open(name + ".conll", "w").write("\n".join(columns))
    json.dump({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}, open(name + ".json", "w"))
END_PYTHON

tune() { # RUN TASK FILES OPTION...: train on train.FILES
    run=$1 task=$2 files=$3
    shift 3
    "$ZR" train --model.type=bert --model.task="$task" --model.hidden_dropout_prob=0 \
        --model.attention_probs_dropout_prob=0 --data.train="train.$files" --data.val="dev.$files" --data.tokenizer=tok \
        --data.seq_length=24 --train_batch_size=8 --train.steps=100 --train.eval_interval=50 --train.threads=1 \
        --optimizer.params.lr=5e-3 --gradient_clipping=1 --bf16.enabled=false --train.output_dir="$run" "$@"
}
small="--model.num_hidden_layers=1 --model.num_attention_heads=2 --model.hidden_size=16 --model.max_position_embeddings=32"
names() { # FILE: the names of its tensors, without the prefix
    python3 -c '
import json, struct, sys
data = open(sys.argv[1], "rb").read()
names = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
print(*sorted(name.removeprefix("bert.") for name in names if name != "__metadata__"))' "$1"
}
change() { # FROM TO CLASS PYTHON: copy a directory; PYTHON changes tensors, a dict of name: (header, bytes)
    cp -r "$1" "$2" && python3 - "$2" "$3" "$4" <<'END_PYTHON'
import json, struct, sys
folder, kind, code = sys.argv[1:]
path = f"{folder}/model.safetensors"
data = open(path, "rb").read()
length, = struct.unpack("<Q", data[:8])
tensors = {name: (one, data[8 + length + one["data_offsets"][0]:8 + length + one["data_offsets"][1]])
           for name, one in json.loads(data[8:8 + length]).items() if name != "__metadata__"}
tensors = eval(code)
header, body = {}, b""
for name, (one, part) in tensors.items():
    header[name] = one | {"data_offsets": [len(body), len(body) + len(part)]}
    body += part
text = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
config = json.load(open(f"{folder}/config.json"))
json.dump(config | {"architectures": [kind]}, open(f"{folder}/config.json", "w"))
END_PYTHON
}

# ---- masked tokens alone
check "a run on masked tokens alone" tune masked masked_lm txt $small --data.max_predictions=4
check "... counts them in the lines of evaluations" grep -q 'val_loss [0-9.]* | [0-9]* masked tokens$' err
check "... and has one loss" sh -c "! grep -q next_sentence masked/metrics.jsonl"
check "... is a model of its class" grep -q '"architectures": \["BertForMaskedLM"\]' masked/model/config.json
none_of() { names "$1" >out.names && ! grep -q "$2" out.names; }
check "... without pooler and head of pairs" none_of masked/model/model.safetensors 'pooler\|seq_relationship'
check "... is evaluated" prints '^accuracy .* masked tokens' "$ZR" eval masked
loss() { sed -n 's/^loss  *//p' "$1"; }
"$ZR" eval masked/model --data dev.txt --seq 24 >one
check "... in its directory" test -n "$(loss one)"
old='{n.removeprefix("bert.").replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta").replace("predictions.bias", "predictions.decoder.bias"): t for n, t in tensors.items()}'
check "names without prefix, of the first files" change masked/model old BertForMaskedLM "$old"
"$ZR" eval old --data dev.txt --seq 24 >two
check "... give the same loss" test "$(loss one)" = "$(loss two)"
check "training starts from it, and goes on" tune again masked_lm txt --model.init=old --train.steps=2 --data.max_predictions=4
check "... with the names that it had" sh -c "strings again/model/model.safetensors | grep -q '\"embeddings.LayerNorm.gamma\"'"
check "... without a task, which its class gives" "$ZR" train --model.init=masked/model --data.train=train.txt \
    --data.seq_length=24 --data.max_predictions=4 --train.steps=1 --train.threads=1 --train.output_dir=class
check "... nothing is new" sh -c "! grep 'new tensors' err"
{ sed 5q train.txt; echo; sed -n 6,20p train.txt; } >pairs.txt
check "pre-training starts from it, with a pooler and a head of pairs that are new" tune both pretraining txt \
    --model.init=masked/model --train.steps=1 --data.max_predictions=4 --data.train=pairs.txt --data.val=pairs.txt
check "... and named" grep -q 'new tensors.*: bert.pooler.dense.weight, bert.pooler.dense.bias, cls.seq_relationship' err
change both/model whole BertForMaskedLM tensors
check "tensors that masked tokens do not need are named" tune less masked_lm txt --model.init=whole --train.steps=1 \
    --data.max_predictions=4
check "... in a note" grep -q 'tensors that the model does not have (4): .*pooler.*; they are not used' err

# ---- the body alone
check "a body" change both/model body BertModel '{n.removeprefix("bert."): t for n, t in tensors.items() if n[:4] != "cls."}'
check "masked tokens, from a body" tune from-body masked_lm txt --model.init=body --train.steps=1 --data.max_predictions=4
check "... with a new head" grep -q 'no head of this task; new tensors.*: cls.predictions.transform.dense.weight' err
check "pairs, from a body" tune pairs-body pretraining txt --model.init=body --train.steps=1 --data.max_predictions=4 \
    --data.train=pairs.txt --data.val=pairs.txt
check "... keep its pooler" sh -c "grep 'new tensors' err | grep 'cls.seq_relationship' | grep -qv pooler"
check "a body alone has nothing to evaluate" fails 65 'the body of the model, but not this head' "$ZR" eval body \
    --data pairs.txt --seq 24
check "... nor to adapt" fails 69 'is no BertForPreTraining: .*the new head would not be trained' tune no pretraining txt \
    --model.init=body --model.lora.rank=2 --data.train=pairs.txt --data.val=pairs.txt

# ---- GLUE's members, and names of labels
check "records of GLUE, with labels by name" tune glue sequence_classification jsonl $small --train.steps=200 --train.seed=2
check "... say their members" grep -q 'train.jsonl: records of sentence1, sentence2, label' err
check "... and the names" grep -q 'model.label_names: the 3 labels of data.train, sorted: BIRD, CAT, DOG$' err
check "... are saved" grep -q '"label_names": \["BIRD", "CAT", "DOG"\]' glue/config.json
check "... also with the weights" sh -c "tr -d '\n ' <glue/model/config.json | grep -q '\"id2label\":{\"0\":\"BIRD\",\"1\":\"CAT\",\"2\":\"DOG\"}'"
check "... learns them" prints '^accuracy       1.0000, of 12 samples' "$ZR" eval glue
check "... in its directory" prints '"accuracy":1, "samples":12' "$ZR" eval glue/model --data dev.jsonl --seq 24 --json
check "... is resumed" "$ZR" train glue/config.json --resume --train.steps=201
check "... but not with other names" fails 78 'model.label_names is .*resumed run keeps its model' "$ZR" train \
    glue/config.json --resume --train.steps=202 --model.label_names='["CAT", "BIRD", "DOG"]'
check "... trains from its own names" tune named sequence_classification jsonl --model.init=glue/model --train.steps=1
check "... without a note" sh -c "! grep label_names err"
check "given names" tune given sequence_classification jsonl $small --train.steps=1 \
    --model.label_names='["DOG", "CAT", "BIRD", "FISH"]'
check "... are those of the outputs" sh -c "tr -d '\n ' <given/model/config.json | grep -q '\"0\":\"DOG\",\"1\":\"CAT\",\"2\":\"BIRD\",\"3\":\"FISH\"'"
check "a label without a name" fails 65 'train.jsonl:[0-9]*: "label" is .*the name of a label of the model' tune no \
    sequence_classification jsonl $small --model.label_names='["DOG", "CAT"]'
check "names that contradict the number" fails 78 'model.num_labels is 4, but there are 3 names' tune no \
    sequence_classification jsonl $small --model.num_labels=4
check "two equal names" fails 78 'has the name DOG twice' tune no sequence_classification jsonl $small \
    --model.label_names='["DOG", "DOG"]'
check "two equal names that are numbers" fails 78 'has the name 1 twice' tune no sequence_classification jsonl $small \
    --model.label_names='["1", "1"]'
sed 's/"label": "[A-Z]*"/"label": 1.5/' train.jsonl >real.jsonl
check "a regression" fails 65 'real.jsonl:1: "label" is 1.5; .*zr classifies, and computes no regression' tune no \
    sequence_classification jsonl $small --data.train=real.jsonl
sed 's/"label": "CAT"/"label": 1/' train.jsonl >mixed.jsonl
check "names and numbers together" fails 65 'some labels are names (BIRD, DOG), and others are numbers' tune no \
    sequence_classification jsonl $small --data.train=mixed.jsonl
sed 's/"label": "BIRD"/"label": 4/; s/"label": "[A-Z]*"/"label": 0/' train.jsonl >numbers.jsonl
check "numbers give the number of labels" tune numbers sequence_classification jsonl $small --train.steps=1 \
    --data.train=numbers.jsonl --data.val=numbers.jsonl
check "... as a note says" grep -q 'model.num_labels: 5, since the labels of data.train are 0 to 4' err
{ cat train.jsonl; echo '{"sentence": "the cat", "label": "CAT"}'; } >forms.jsonl
check "records of two forms" fails 65 'forms.jsonl:61: "sentence1" is missing; expected a text, as in {"sentence1": TEXT.*first record' \
    tune no sequence_classification jsonl $small --data.train=forms.jsonl

# ---- tags of words
check "a run on tags of words" tune tags token_classification conll $small
check "... counts words in the lines of evaluations" grep -q 'val_loss [0-9.]* | 84 words$' err
check "... has the tags of the data" grep -q 'model.label_names: the 4 labels of data.train, sorted: B-ANIMAL, B-PLACE, I-ANIMAL, O$' err
check "... is evaluated by entities" prints '^F1             1.0000' "$ZR" eval tags
check "... and words" prints '^accuracy       1.0000, of 84 words' "$ZR" eval tags
check "... in its directory" prints '"precision":1, "recall":1, "f1":1, "entities":24' "$ZR" eval tags/model \
    --data dev.conll --seq 24 --json
check "... of its class" grep -q 'BertForTokenClassification' tags/model/config.json
check "... on two ranks at stage 3, in packed rows" tune tags2 token_classification conll $small --ranks 2 \
    --train_micro_batch_size_per_gpu=4 --zero_optimization.stage=3 --data.max_samples=3 --data.seq_length=32
check "... are evaluated in such rows" prints 'of 84 words' "$ZR" eval tags2
check "... is resumed" "$ZR" train tags/config.json --resume --train.steps=101
check "from masked tokens" tune from-masked token_classification conll --model.init=masked/model --train.steps=1
check "... with a new head" grep -q 'new tensors.*: classifier.weight, classifier.bias$' err
check "a classifier of texts is not one of tags" tune from-texts token_classification conll --model.init=glue/model \
    --train.steps=1 --model.label_names='["B-ANIMAL", "B-PLACE", "I-ANIMAL", "O"]'
check "... and is begun anew" grep -q 'begin with random values: classifier.weight, classifier.bias' err
sed '2s/X.*//' train.conll >short.conll
check "a word without a tag" fails 65 'short.conll:2: "[a-z]*" has no tag' tune no token_classification conll $small \
    --data.train=short.conll
sed '3s/X .*/X B-SHIP/' dev.conll >ship.conll
check "a tag that the model does not have" fails 65 'ship.conll:3: the tag B-SHIP is none of the 4 labels of the model' \
    "$ZR" eval tags --data ship.conll
check "other data of the task" fails 65 'dev.json' "$ZR" eval tags --data dev.json

# ---- questions without an answer
check "a run on questions that may lack an answer" tune qa question_answering json $small --data.doc_stride=5 \
    --data.max_query_length=10 --train.steps=250
check "... is evaluated" prints '^without        exact match [0-9.]* %, of 12 questions' "$ZR" eval qa --predictions found.json
check "... with the scores of version 2.0" prints '"HasAns_exact":[0-9.]*, "HasAns_f1":[0-9.]*, "NoAns_exact":[0-9.]*, "NoAns_total":12, "best_f1":' \
    "$ZR" eval qa --json
check "... answers no question with a low threshold" prints '^without        exact match 100.0000 %' "$ZR" eval qa --null-threshold -1000
check "... and each with a high one" prints '^without        exact match 0.0000 %' "$ZR" eval qa --null-threshold 1000
lacks() { python3 -c 'import json; found = json.load(open("found.json")); assert len(found) == 24 and "" in found.values()'; }
check "... whose answers may be empty" lacks

echo "1..$n"
