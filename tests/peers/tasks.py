"""BERT with the heads of fine-tuning, tiny and random, as transformers makes and saves it, beside zr: labels and
answers, tags of words, masked tokens alone, training, a new head on the body of another task, and directories written again. test_hf_tasks.sh starts
it in a virtual environment with transformers: tasks.py ZR FOLDER; ZR the command, FOLDER an empty one.

Prints TAP. Every comparison names its largest difference. A sample is (line, inputs, target, words): the line or the
question of the file that zr reads, the inputs of transformers, the label or the answer's first and last token, and the
tokens of the text with their places.
"""
import json
import pathlib
import random
import subprocess
import sys

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

import tap
from encoder import (BATCH, STEPS, compare_export, compare_steps, compare_weights, loaded, make_model, train,
                     trained_by_torch)
from files import compare_files, tensors_of
from tap import check, zr

ZR, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
LABELS, N_BEST, LONGEST = 3, 20, 30
# Tokens of a row. A row of answers must have room for the default windows, because zr eval has no other ones for such
# a directory.
SEQ = {"sequence_classification": 27, "question_answering": 197, "token_classification": 27, "masked_lm": 27}
PIECES = [*"abcdefg", "##a", "##b", "##cd", "##ef", "##g", "the", "river", "##s", "in", "born", "1912", ".", "?", "an"]
WORDS = ["a", "the", "river", "rivers", "in", "born", "1912", "bad", "cab", "fab", "deef", "cab.", "an", "age", "(a)"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]
# Biases that add the same number to the logits of all tokens.
SHIFTS = {"sequence_classification": (), "question_answering": ("qa_outputs.bias", "layer.1.output.LayerNorm.bias"),
          "token_classification": (), "masked_lm": ()}
TAGS = ["B-X", "I-X", "O"]  # sorted, as zr finds them in data
# What config.json says of the labels of a task.
OWN = {"sequence_classification": {"num_labels": LABELS},
       "token_classification": {"id2label": dict(enumerate(TAGS)), "label2id": {tag: i for i, tag in enumerate(TAGS)}}}
TABLES = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 201}
PRETRAINING = transformers.BertForPreTraining

# type, size of a file
FILES = {"plain": ("float32", None), "bf16, in files": ("bfloat16", "12KB")}

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


# ---- samples -------------------------------------------------------------------------------------


def write_tokenizer(folder):
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def make_tokenizer(task):
    made = tokenizers.BertWordPieceTokenizer(str(FOLDER / "vocab.txt"), lowercase=True)
    made.enable_truncation(SEQ[task], strategy="longest_first")
    return made


def text_of(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def inputs_of(code):
    return {"input_ids": code.ids, "token_type_ids": code.type_ids, "attention_mask": [1] * len(code.ids)}


def labelled_sample(rng):
    """Return one text or two, some of which are too long for a row."""
    line = {"text": text_of(rng, 1, 20), "label": rng.randrange(LABELS)}
    if rng.random() < 0.7:
        line["text_pair"] = text_of(rng, 1, 12)
    return line, inputs_of(CUT.encode(line["text"], line.get("text_pair"))), line["label"]


def question_sample(rng):
    """Return a question that fits into a row with its text, and an answer of whole words."""
    question, context = text_of(rng, 1, 4) + " ?", text_of(rng, 3, 35)
    words = context.split()
    first = rng.randrange(len(words))
    last = min(len(words) - 1, first + rng.randrange(3))
    place = len(" ".join([*words[:first], ""]))
    return answered(question, context, place, " ".join(words[first:last + 1]))


def answered(question, context, place, text):
    """Return a sample with the answer `text` at the place of the context."""
    code = TOKENIZER.encode(question, context)
    inside = [t for t, (a, b) in enumerate(code.offsets)
              if code.type_ids[t] == 1 and b > a and place <= a and b <= place + len(text)]
    line = {"question": question, "context": context, "answers": [{"text": text, "answer_start": place}]}
    return line, inputs_of(code), (inside[0], inside[-1])


def other_answers(sample):
    """Return the sample with other answers, so that losses tell the logits of several tokens apart."""
    line = sample[0]
    ends = [i for i, c in enumerate(line["context"] + " ") if c == " "]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [answered(line["question"], line["context"], a, line["context"][a:b])
            for a, b in ((starts[0], ends[0]), (starts[0], ends[-1]), (starts[-1], ends[-1]))]


def other_labels(sample):
    return [({**sample[0], "label": label}, sample[1], label) for label in range(LABELS)]


def tagged_sample(rng):
    """Return words and tags, of which some are too many for a row. A tag counts at the first token of its word."""
    words = [(word, rng.randrange(len(TAGS))) for word in text_of(rng, 1, 20).split()]
    return tagged(words)


def tagged(words):
    code = CUT.encode([word for word, _ in words], is_pretokenized=True)
    before = [None, *code.word_ids[:-1]]
    target = [words[word][1] if word is not None and word != last else -100 for word, last in zip(code.word_ids, before)]
    return words, inputs_of(code), target


def other_tags(sample):
    return [tagged([(word, (tag + shift) % len(TAGS)) for word, tag in sample[0]]) for shift in range(len(TAGS))]


def masked_sample(rng):
    """Return a row of tokens, of which at least one is masked, and the original tokens of the masked ones."""
    ids = CUT.encode(text_of(rng, 1, 20)).ids
    masked = {1, *(i for i in range(1, len(ids) - 1) if rng.random() < 0.2)}
    return masked_row(ids, masked)


def masked_row(ids, masked):
    hidden = [VOCABULARY.index("[MASK]") if i in masked else token for i, token in enumerate(ids)]
    inputs = {"input_ids": hidden, "token_type_ids": [0] * len(ids), "attention_mask": [1] * len(ids)}
    return (ids, masked), inputs, [token if i in masked else -100 for i, token in enumerate(ids)]


def other_masks(sample):
    ids, _ = sample[0]
    return [masked_row(ids, {1 + k % (len(ids) - 2)}) for k in range(3)]


def write_columns(path, samples):
    path.write_text("\n".join("".join(f"{word} X {TAGS[tag]}\n" for word, tag in words) for words, *_ in samples))


def write_rows(path, samples):
    seq = SEQ["masked_lm"]
    rows = {key: torch.tensor([row[key] + [0] * (seq - len(row[key])) for _, row, _ in samples])
            for key in ("input_ids", "token_type_ids", "attention_mask")}
    labels = torch.tensor([target + [-100] * (seq - len(target)) for *_, target in samples])
    save_file(rows | {"labels": labels}, path)


def write_lines(path, samples):
    path.write_text("".join(json.dumps(sample[0]) + "\n" for sample in samples))


def write_questions(path, samples):
    paragraphs = [{"context": line["context"], "qas": [{"id": f"q{i}", "question": line["question"],
                                                        "answers": line["answers"]}]}
                  for i, (line, *_) in enumerate(samples)]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))


def batch_of(samples):
    """Return inputs of transformers, padded to the longest one."""
    longest = max(len(inputs["input_ids"]) for _, inputs, _ in samples)
    return {key: torch.tensor([inputs[key] + [0] * (longest - len(inputs[key])) for _, inputs, _ in samples])
            for key in samples[0][1]}


# ---- losses and scores ---------------------------------------------------------------------------


def label_loss(model, samples):
    labels = torch.tensor([target for *_, target in samples])
    out = model(**batch_of(samples), labels=labels)
    return same_as(out.loss, cross_entropy(out.logits.double(), labels))


def answer_loss(model, samples):
    """Return the loss over the tokens of each sample. transformers' own loss includes the padding, so it differs if
    there is any."""
    batch = batch_of(samples)
    starts, ends = (torch.tensor(side) for side in zip(*(target for *_, target in samples)))
    out = model(**batch, start_positions=starts, end_positions=ends)
    padding = batch["attention_mask"] == 0
    loss = sum(cross_entropy(logits.double().masked_fill(padding, -torch.inf), targets)
               for logits, targets in ((out.start_logits, starts), (out.end_logits, ends))) / 2
    return loss if padding.any() else same_as(out.loss, loss)


def token_targets(samples):
    longest = max(len(target) for *_, target in samples)
    return torch.tensor([target + [-100] * (longest - len(target)) for *_, target in samples])


def token_loss(model, samples):
    labels = token_targets(samples)
    out = model(**batch_of(samples), labels=labels)
    return same_as(out.loss, cross_entropy(out.logits.double().flatten(0, 1), labels.flatten()))


def same_as(own, loss):
    if abs(own.item() - loss.item()) > 1e-5:
        raise RuntimeError(f"transformers' loss is {own.item()}, not {loss.item()}")
    return loss


def label_scores(model, samples):
    out = model(**batch_of(samples))
    right = sum(int(logits.argmax()) == target for logits, (*_, target) in zip(out.logits, samples))
    return {"accuracy": right / len(samples), "samples": len(samples)}


def token_scores(model, samples, key):
    right = counted = 0
    for sample in samples:
        target = token_targets([sample])
        right += int((model(**batch_of([sample])).logits.argmax(-1) == target)[target >= 0].sum())
        counted += int((target >= 0).sum())
    return {key: right / counted}


def tag_scores(model, samples):
    return token_scores(model, samples, "accuracy")


def masked_scores(model, samples):
    return token_scores(model, samples, "masked_lm_accuracy")


def best_answer(starts, ends, inputs):
    """Return the text between the best tokens, as transformers chooses them of a sample without padding."""
    inside = [t for t, kind in enumerate(inputs["token_type_ids"]) if kind == 1][:-1]
    pairs = [(float(starts[a] + ends[b]), a, b) for a in starts.topk(min(N_BEST, len(starts))).indices.tolist()
             for b in ends.topk(min(N_BEST, len(ends))).indices.tolist()
             if a in inside and b in inside and a <= b < a + LONGEST]
    _, a, b = max(pairs)
    return a, b


def text_between(line, a, b):
    """Return the part of the context from token a to token b. Where transformers does not find the text of the tokens
    in that of their words, it gives the whole words."""
    code = TOKENIZER.encode(line["question"], line["context"])
    first, last = code.offsets[a][0], code.offsets[b][1]
    if "[UNK]" in code.tokens[a:b + 1] or code.tokens[a].startswith("##"):
        first = line["context"].rfind(" ", 0, first) + 1
        last = (line["context"] + " ").find(" ", last)
    return line["context"][first:last]


def answer_scores(model, samples):
    """Return the answers, and the percentage of them that are exactly right. An article at the beginning of an answer
    does not count."""
    found, exact = {}, 0
    for i, sample in enumerate(samples):
        line, inputs, _ = sample
        out = model(**batch_of([sample]))
        a, b = best_answer(out.start_logits[0], out.end_logits[0], inputs)
        found[f"q{i}"] = text_between(line, a, b)
        exact += plain(found[f"q{i}"]) == plain(line["answers"][0]["text"])
    return {"exact_match": 100 * exact / len(samples), "samples": len(samples), "answers": found}


def plain(text):
    kept = "".join(c for c in text.lower() if c.isalnum() or c == " ")
    return [word for word in kept.split() if word not in ("a", "an", "the")]


# class of transformers, term, file, and how samples are made, varied, written, and judged
TASKS = {
    "sequence_classification": (transformers.BertForSequenceClassification, "classification", "samples.jsonl",
                                labelled_sample, other_labels, write_lines, label_loss, label_scores),
    "question_answering": (transformers.BertForQuestionAnswering, "answer", "samples.json",
                           question_sample, other_answers, write_questions, answer_loss, answer_scores),
    "token_classification": (transformers.BertForTokenClassification, "tag", "samples.conll",
                             tagged_sample, other_tags, write_columns, token_loss, tag_scores),
    "masked_lm": (transformers.BertForMaskedLM, "masked_lm", "samples.safetensors",
                  masked_sample, other_masks, write_rows, token_loss, masked_scores),
}


# ---- comparisons ---------------------------------------------------------------------------------


def compare_eval(name, task, folder, model, samples, path):
    """Compare the losses of all samples, those of a few alone with several targets each, so that no difference is
    averaged out, and the answers and labels found in all samples."""
    _, term, file, _, vary, write, loss_of, scores_of = TASKS[task]
    more = ("--predictions", FOLDER / "found.json") if task == "question_answering" else ()
    told = json.loads(zr("eval", folder, "--data", path, "--seq", SEQ[task], "--json", *more))
    pairs = [(told["loss"], loss_of(model, samples).item()), (told[term], told["loss"])]
    for one in [other for sample in samples[:3] for other in vary(sample)]:
        write(FOLDER / file, [one])
        got = json.loads(zr("eval", folder, "--data", FOLDER / file, "--seq", SEQ[task], "--json"))["loss"]
        pairs.append((got, loss_of(model, [one]).item()))
    most = max(abs(got / want - 1) for got, want in pairs)
    check(f"{name}: losses of zr eval", most < 1e-6, f"largest relative difference {most:.2g}")
    wanted = scores_of(model, samples)
    answers = wanted.pop("answers", None)
    differ = {key: (told[key], value) for key, value in wanted.items() if abs(told[key] - value) > 1e-8}
    check(f"{name}: scores of zr eval", not differ, f"{differ or wanted}")
    if answers:
        found = json.loads((FOLDER / "found.json").read_text())
        wrong = [key for key in answers if found.get(key) != answers[key]]
        check(f"{name}: answers", not wrong and found.keys() == answers.keys(),
              ", ".join(f"{found.get(key)!r} {answers[key]!r}" for key in wrong[:3]))


def outputs_of(model, samples):
    """Return the logits of each sample without padding."""
    outs = [model(**batch_of([sample])) for sample in samples]
    return torch.cat([torch.cat([out.start_logits, out.end_logits]).flatten() if "start_logits" in out else
                      out.logits.flatten() for out in outs])


def compare_outputs(name, model, other, samples):
    a, b = outputs_of(model, samples), outputs_of(other, samples)
    off, most = (a - b).abs().max().item(), a.abs().max().item()
    check(f"{name}: logits", off <= 1e-5 * most, f"largest difference {off:.2g}, of logits up to {most:.3g}")


def compare_class(name, folder, kind):
    told = json.loads((folder / "config.json").read_text())["architectures"]
    check(f"{name}: its class", told == [kind.__name__], f"{told}")


def run_files(task, files, samples, path):
    name, kind = f"{task}, {files}", TASKS[task][0]
    dtype, shard = FILES[files]
    folder = FOLDER / "".join(c if c.isalnum() else "-" for c in name)
    make_model(folder, kind, TABLES | OWN.get(task, {}), dtype, shard, 10)
    write_tokenizer(folder)
    if shard:
        check(f"{name}: several files", len(list(folder.glob("model-*-of-*.safetensors"))) > 2)
    model = compare_export(name, folder, kind)
    with torch.no_grad():
        compare_eval(name, task, folder, model, samples, path)

    copy, run, back = (folder.with_name(f"{folder.name}-{word}") for word in ("copy", "run", "back"))
    zr("convert", folder, copy, "--to", "hf", "--quiet")
    compare_files(f"{name}, converted", folder, copy)
    zr("convert", folder, run, "--to", "run", "--quiet")
    zr("convert", run, back, "--quiet")
    compare_files(f"{name}, to a run and back", folder, back)
    compare_class(f"{name}, to a run and back", back, kind)
    with torch.no_grad():
        compare_outputs(f"{name}, to a run and back", model, compare_export(name, back, kind), samples)

    tuned = folder.with_name(f"{folder.name}-tuned")
    losses = train(folder, tuned, {"train": str(path), "seq_length": SEQ[task]}, (),
                   ("--ranks", 2, "--zero_optimization.stage=3"))
    wanted, model = trained_by_torch(
        model, lambda it, step: [TASKS[task][6](it, samples[step * BATCH:(step + 1) * BATCH])])
    compare_steps(name, losses, [step[:1] for step in wanted])  # the sum is the one term
    again = compare_export(f"{name}, trained", tuned / "model", kind)
    compare_class(f"{name}, trained", tuned / "model", kind)
    compare_weights(name, again, model, SHIFTS[task])
    with torch.no_grad():
        compare_outputs(f"{name}, its model", again, loaded(tuned / "model", kind)[0], samples)
        compare_eval(f"{name}, trained", task, tuned / "model", again, samples, path)


# ---- the head of another task --------------------------------------------------------------------


def named_in(told, what):
    """Return the names in a note's line, which may be cut to a few, and the line before them."""
    line = next((line for line in told.splitlines() if what in line), ": ")
    before, names = line.rsplit(": ", 1)
    return set(names.split(";")[0].split(" and ")[0].split(", ")), before


def run_new_head(task, samples, path):
    """Start from the body of a pre-trained model, and compare the new tensors with transformers. The learning rate is
    so small that no weight changes."""
    name, kind = f"{task}, from pre-training", TASKS[task][0]
    folder, run = FOLDER / "pretrained", FOLDER / f"{task}-begun"
    own = {"num_labels": LABELS} if task == "sequence_classification" else {}
    config = {"model": {"init": str(folder), "task": task} | own, "data": {"train": str(path), "seq_length": SEQ[task]},
              "train_batch_size": BATCH, "optimizer": {"type": "AdamW", "params": {"lr": 1e-30}},
              "train": {"steps": 1, "eval_interval": 0, "output_dir": str(run)}}
    (FOLDER / "config.json").write_text(json.dumps(config))
    ended = subprocess.run([ZR, "train", FOLDER / "config.json"], capture_output=True, text=True)
    check(f"{name}: a run", ended.returncode == 0, ended.stderr if ended.returncode else "")
    if ended.returncode:
        return
    _, missing, unknown = loaded(folder, kind)
    new, _ = named_in(ended.stderr, "random values")
    check(f"{name}: the new tensors are transformers' missing ones", new == set(missing), f"{new}, {missing}")
    left, told = named_in(ended.stderr, "does not have")
    check(f"{name}: ... and the other head is left out", left <= set(unknown) and told.endswith(f"({len(unknown)})"),
          f"{told}, {left}, {unknown}")
    begun, pretrained = tensors_of(run / "model"), tensors_of(folder)
    body = [key for key in begun if key not in new]
    check(f"{name}: the body is the same", body and all(begun[key] == pretrained[key] for key in body),
          f"{len(body)} tensors")
    model = compare_export(name, run / "model", kind)
    compare_class(name, run / "model", kind)
    with torch.no_grad():
        compare_eval(name, task, run / "model", model, samples, path)


write_tokenizer(FOLDER)
CUT, TOKENIZER = make_tokenizer("sequence_classification"), make_tokenizer("question_answering")


def main():
    rng = random.Random(1)
    make_model(FOLDER / "pretrained", PRETRAINING, TABLES, scale=10)
    write_tokenizer(FOLDER / "pretrained")
    for task, (_, _, file, make, _, write, *_) in TASKS.items():
        samples, path = [make(rng) for _ in range(STEPS * BATCH)], FOLDER / f"all-{file}"
        write(path, samples)
        for files in FILES:
            run_files(task, files, samples, path)
        if task != "masked_lm":  # the head of pre-training has all of its tensors
            run_new_head(task, samples, path)
    tap.end()


main()
