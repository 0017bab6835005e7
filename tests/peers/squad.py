"""Whether zr makes samples of questions and finds answers as transformers 4.57 does. test_squad_peers.sh starts
it: squad.py LIBZR FOLDER; LIBZR the shared library, FOLDER an empty one.

Prints TAP. Articles are random words with accents, Chinese characters, strange white space and characters that are
dropped. Samples must be equal to the last integer. Logits are random, with many equal ones, so that the order of equal
answers counts as well. Half of the questions of one file have no answer, as in SQuAD 2.0. Tagged words are labelled as
in transformers' run_ner.py, and entities counted by seqeval.
"""
import collections
import ctypes
import json
import logging
import pathlib
import random
import subprocess
import sys

import transformers
from transformers.data.metrics import squad_metrics
from transformers.data.processors import squad

from tap import check, end

FOLDER = pathlib.Path(sys.argv[2])
CLASSES, ANSWERS, TAGS = 0, 1, 2
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "river", "Zürich", "naïve", "cafe\u0301", "in", "1912–1920", "(born", "U.S.", "$5.6", "million,", "北京大学",
         "a", "Smith's", "“quoted”", "an", "Ωμέγα", "\u200b", "ﬁre", "İstanbul", "up\u00a0to", "x\u202fy", "e\u00adf", "😀",
         "don't", "twenty-one", "DATA", "ÅNGSTRÖM", "km²", "half½", "...", "well-known", "A.", "unknownword", "re\u0301sume\u0301"]
SPACES = [" "] * 12 + ["  ", "\n", "\t", "\r\n", " \u202f ", "\u3000", "\u00a0", "\n\n"]
# seq_length, doc_stride, max_query_length, samples in a row
SIZES = [(384, 128, 64, 1), (64, 20, 16, 1), (48, 16, 24, 1), (32, 8, 10, 1), (96, 40, 12, 5), (29, 4, 5, 1)]

logging.disable(logging.WARNING)
squad.tqdm = lambda items: items


# ---- zr ------------------------------------------------------------------------------------------


class Library:
    """libzr with its inner functions, zr__..., which it does not export. Their places are in its table of symbols."""

    def __init__(self, path):
        self.own = ctypes.CDLL(path)
        lines = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout.splitlines()
        self.at = {name: int(at, 16) for at, _, name in (line.split() for line in lines if len(line.split()) == 3)}
        known = ctypes.cast(self.own.zr_error_message, ctypes.c_void_p).value
        self.base = known - self.at["zr_error_message"]

    def __getattr__(self, name):
        made = getattr(self.own, name) if not name.startswith("zr__") else self.own._FuncPtr(self.base + self.at[name])
        setattr(self, name, made)
        return made


ZR = Library(sys.argv[1])


class Args(ctypes.Structure):
    """zr_labelled_args of zr/data.h."""
    _fields_ = [("path", ctypes.c_char_p), ("kind", ctypes.c_int), ("vocab_size", ctypes.c_int64),
                ("seq_length", ctypes.c_int64), ("samples", ctypes.c_int64), ("order", ctypes.c_int),
                ("seed", ctypes.c_uint64), ("tokenizer", ctypes.c_char_p), ("labels", ctypes.c_int64),
                ("label_names", ctypes.c_void_p), ("skip_bad_lines", ctypes.c_bool), ("doc_stride", ctypes.c_int64),
                ("max_query_length", ctypes.c_int64), ("every_question", ctypes.c_bool), ("progress", ctypes.c_void_p),
                ("arg", ctypes.c_void_p)]


class Info(ctypes.Structure):
    """zr_labelled_info of zr/data.h."""
    _fields_ = ([(name, ctypes.c_char_p) for name in ("path", "format", "note", "cut")] +
                [(name, ctypes.c_int64) for name in ("files", "bytes", "rows", "samples", "documents", "cut_documents",
                                                     "lost_answers", "skipped_lines", "tokens")] +
                [("filled", ctypes.c_double), ("memory_bytes", ctypes.c_int64)])


class Answer(ctypes.Structure):
    """zr__answer of zr/data.h."""
    _fields_ = [("text", ctypes.c_char_p), ("start", ctypes.c_float), ("end", ctypes.c_float),
                ("probability", ctypes.c_double)]


class Scored(ctypes.Structure):
    """zr__answers_scored of zr/data.h."""
    _fields_ = [("exact", ctypes.c_double), ("f1", ctypes.c_double), ("questions", ctypes.c_int64),
                ("lack", ctypes.c_int64), ("has_exact", ctypes.c_double), ("has_f1", ctypes.c_double),
                ("no_exact", ctypes.c_double), ("best_f1", ctypes.c_double), ("best_threshold", ctypes.c_double)]


class Entities(ctypes.Structure):
    """zr__entities of data/labelled/labelled.h."""
    _fields_ = [(name, ctypes.c_int64) for name in ("right", "found", "both", "words", "words_right")]


class EntitiesScored(ctypes.Structure):
    """zr__entities_scored of data/labelled/labelled.h."""
    _fields_ = [(name, ctypes.c_double) for name in ("precision", "recall", "f1")]


ZR.zr_error_message.restype = ctypes.c_char_p
ZR.zr_labelled_get_info.restype = Info
ZR.zr_free.restype = None
ZR.zr__entities_score.restype = EntitiesScored


def call(function, *args):
    if getattr(ZR, function)(*args) != 0:
        raise RuntimeError(ZR.zr_error_message().decode())


def open_labelled(**args):
    labelled = ctypes.c_void_p()
    call("zr_labelled_open", ctypes.byref(Args(tokenizer=str(FOLDER).encode(), vocab_size=len(VOCAB), **args)),
         ctypes.byref(labelled))
    return labelled, ZR.zr_labelled_get_info(labelled)


def read_row(labelled, row, seq, samples):
    """Return the samples of a row, as tuples of the place in the row, tokens, segments, label, and answer."""
    parts = [(ctypes.c_int32 * n)() for n in (seq, seq, seq, samples, samples, 2 * samples)]
    call("zr_labelled_read", labelled, ctypes.c_int64(row),
         (ctypes.c_void_p * 8)(*(ctypes.addressof(part) for part in parts)))
    tokens, segments, documents, first, label, answer = map(list, parts)
    found, at = [], 0
    for i in range(samples):
        n = documents.count(at)
        if at == seq or tokens[at] != VOCAB["[CLS]"]:
            assert first[i] == 0 and label[i] == -1 and answer[2 * i:2 * i + 2] == [-1, -1]
            continue
        assert first[i] == at and documents[at:at + n] == [at] * n
        place = [index - at if index >= 0 else -1 for index in answer[2 * i:2 * i + 2]]
        found.append((at, tokens[at:at + n], segments[at:at + n], label[i], place))
        at += n
    assert tokens[at:] == [0] * (seq - at) and segments[at:] == [0] * (seq - at) and documents[at:] == [at] * (seq - at)
    return found


# ---- made-up data --------------------------------------------------------------------------------


def make_tokenizer():
    """Write a vocabulary that has some words whole, some in parts and some not at all."""
    rng = random.Random(1)
    basic = transformers.BertTokenizer.__init__.__globals__["BasicTokenizer"](do_lower_case=True)
    words = sorted({word for text in WORDS for word in basic.tokenize(text)})
    pieces = set()
    for word in words:
        if word == "unknownword" or "😀" in word:
            continue
        cut = rng.randint(1, len(word)) if rng.random() < 0.6 else len(word)
        pieces |= {word[:cut]} | ({"##" + word[cut:]} if cut < len(word) else set())
    (FOLDER / "vocab.txt").write_text("".join(name + "\n" for name in MARKS + sorted(pieces)))
    (FOLDER / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    return transformers.BertTokenizer(str(FOLDER / "vocab.txt"), model_max_length=512)


def text_of(rng, n):
    return "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(n))


def answer_of(rng, context):
    """Return a part of a context, mostly of whole words, and sometimes with a wrong position."""
    start = rng.randrange(len(context))
    stop = min(len(context), start + rng.randint(1, 40))
    if rng.random() < 0.7:
        while start > 0 and not context[start - 1].isspace():
            start -= 1
        while stop < len(context) and not context[stop].isspace():
            stop += 1
    text = context[start:stop]
    if rng.random() < 0.1:
        start = rng.randrange(len(context))
    return {"text": text, "answer_start": start}


def make_articles(path):
    rng = random.Random(2)
    data = []
    for article in range(12):
        paragraphs = []
        for _ in range(4):
            context = rng.choice(["", " ", "\n"]) + text_of(rng, rng.choice([2, 20, 60, 150]))
            qas = [{"id": f"q{article}-{len(paragraphs)}-{i}", "question": text_of(rng, rng.randint(1, 20)),
                    "answers": [answer_of(rng, context) for _ in range(rng.randint(1, 3))]} for i in range(5)]
            for qa in qas:
                # of answers without words transformers' counting differs from version 1.1
                qa["answers"] = ([a for a in qa["answers"] if squad_metrics.normalize_answer(a["text"])] or
                                 [{"text": "river", "answer_start": 0}])
            paragraphs.append({"context": context, "qas": qas})
        data.append({"title": f"article {article}", "paragraphs": paragraphs})
    path.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=rng.random() < 0.5))
    return data


def make_lacking(path):
    """Write questions of which half have no answer, as in SQuAD 2.0. Some answers have no words."""
    rng = random.Random(7)
    paragraphs = []
    for i in range(30):
        context = "the river " + text_of(rng, rng.choice([2, 20, 80]))
        qas = []
        for k in range(4):
            answers = [answer_of(rng, context) for _ in range(rng.randint(1, 3))] if rng.random() < 0.5 else []
            if answers and rng.random() < 0.2:
                answers.append({"text": "the", "answer_start": 0})
            qas.append({"id": f"l{i}-{k}", "question": text_of(rng, rng.randint(1, 9)), "answers": answers,
                        "is_impossible": not answers, "plausible_answers": []})
        paragraphs.append({"context": context, "qas": qas})
    data = [{"title": "lacking", "paragraphs": paragraphs}]
    path.write_text(json.dumps({"version": "v2.0", "data": data}))
    return data


def make_white(path):
    """Write questions whose answer is only white space after a word, and one whose answer is not in the context."""
    rng = random.Random(6)
    paragraphs = []
    for i in range(20):
        context = "the " + text_of(rng, rng.choice([2, 30, 90]))
        places = [at for at, character in enumerate(context) if character.isspace()]
        qas = [{"id": f"w{i}-{at}", "question": text_of(rng, 4), "answers": [{"text": context[at], "answer_start": at}]}
               for at in rng.sample(places, 2)]
        paragraphs.append({"context": context, "qas": qas})
    paragraphs[0]["qas"].append({"id": "lost", "question": "a", "answers": [{"text": "nowhere", "answer_start": 0}]})
    data = [{"title": "white", "paragraphs": paragraphs}]
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return data


# ---- samples -------------------------------------------------------------------------------------


def features_of(examples, sizes, training):
    seq, stride, query, _ = sizes
    features = []
    for index, example in enumerate(examples):
        for feature in squad.squad_convert_example_to_features(example, seq, stride, query, "do_not_pad", training):
            feature.example_index, feature.unique_id = index, len(features)
            features.append(feature)
    return features


def check_training(data, path, sizes, processor=squad.SquadV1Processor):
    seq, stride, query, samples = sizes
    examples = processor()._create_examples(data, "train")
    wanted = features_of(examples, sizes, True)
    labelled, info = open_labelled(path=str(path).encode(), kind=ANSWERS, seq_length=seq, samples=samples,
                                   doc_stride=stride, max_query_length=query)
    found = [sample for row in range(info.rows) for sample in read_row(labelled, row, seq, samples)]
    found = [sample[1:3] + sample[4:] for sample in found]
    wanted = [(f.input_ids, f.token_type_ids, [f.start_position, f.end_position]) for f in wanted]
    if samples > 1:  # rows of several samples have them in another order
        found, wanted = sorted(found), sorted(wanted)
    kept = len({qa["id"] for article in data for p in article["paragraphs"] for qa in p["qas"]}) - info.lost_answers
    with_answer = sum(place[0] > 0 for _, _, place in wanted)
    check(f"samples for training, {sizes}", found == wanted and kept == info.documents and info.lost_answers > 0,
          f"{len(wanted)} samples, {with_answer} with the answer, {info.lost_answers} questions left out")
    ZR.zr_labelled_close(ctypes.byref(labelled))


# ---- answers -------------------------------------------------------------------------------------


def logits_of(feature_ids, place, step):
    """Return random logits of a sample, which depend on the question, window and tokens only."""
    rng = random.Random(json.dumps([feature_ids, place, step]))
    return [(round(rng.gauss(0, 3) / step) * step, round(rng.gauss(0, 3) / step) * step) for _ in feature_ids]


def counting(examples, predictions):
    """Return EM and F1 in percent, as version 1.1 of SQuAD's evaluation counts."""
    exact = f1 = 0
    for example in examples:
        said, best = squad_metrics.normalize_answer(predictions[example.qas_id]), 0
        for answer in example.answers:
            right = squad_metrics.normalize_answer(answer["text"])
            same = sum((collections.Counter(said.split()) & collections.Counter(right.split())).values())
            precision, recall = same / max(1, len(said.split())), same / max(1, len(right.split()))
            best = max(best, 2 * precision * recall / (precision + recall) if same else 0)
        exact += any(said == squad_metrics.normalize_answer(answer["text"]) for answer in example.answers)
        f1 += best
    return 100.0 * exact / len(examples), 100.0 * f1 / len(examples)


def decode_peer(examples, features, results, n_best, longest, threshold):
    """`threshold` is that of no answer, or None where each question has one. Return also its odds by question."""
    nbest, odds = FOLDER / "nbest.json", FOLDER / "odds.json"
    lacking = threshold is not None
    predictions = squad_metrics.compute_predictions_logits(
        examples, features, results, n_best, longest, True, str(FOLDER / "predictions.json"), str(nbest), str(odds),
        False, lacking, threshold or 0.0, TOKENIZER)
    return predictions, json.loads(nbest.read_text()), json.loads(odds.read_text()) if lacking else {}


def decode(labelled, info, sizes, step, n_best, longest, threshold=0.0):
    """Return the answers' JSON, the lists of answers, and EM and F1."""
    seq, _, _, samples = sizes
    answers, text, scored = ctypes.c_void_p(), ctypes.c_void_p(), Scored()
    call("zr__answers_open", labelled, ctypes.c_int64(n_best), ctypes.c_int64(longest), ctypes.byref(answers))
    ZR.zr__answers_threshold(answers, ctypes.c_double(threshold))
    for row in reversed(range(info.rows)):
        logits = [(9e9, 9e9)] * seq  # of padding; must not be read
        for at, tokens, _, _, place in read_row(labelled, row, seq, samples):
            logits[at:at + len(tokens)] = logits_of(tokens, 0, step)
        flat = (ctypes.c_float * (2 * seq))(*(logit for pair in logits for logit in pair))
        call("zr__answers_add", answers, ctypes.c_int64(row), flat)
    call("zr__answers_json", answers, ctypes.byref(text))
    predictions = json.loads(ctypes.string_at(text), object_pairs_hook=collections.OrderedDict)
    ZR.zr_free(text)
    lists = {}
    for question in range(info.documents):
        name, found, n = ctypes.c_char_p(), ctypes.POINTER(Answer)(), ctypes.c_int64()
        call("zr__answers_get", answers, ctypes.c_int64(question), ctypes.byref(name), ctypes.byref(found), ctypes.byref(n))
        lists[name.value.decode()] = [(found[i].text.decode(), found[i].start, found[i].end, found[i].probability)
                                      for i in range(n.value)]
    call("zr__answers_score", answers, ctypes.byref(scored))
    ZR.zr__answers_close(ctypes.byref(answers))
    return predictions, lists, scored


def check_answers(data, path, sizes, step, n_best, longest):
    seq, stride, query, samples = sizes
    examples = squad.SquadV1Processor()._create_examples(data, "dev")
    features = features_of(examples, sizes, False)
    results = []
    for feature in features:
        logits = logits_of(feature.input_ids, 0, step)
        results.append(squad.SquadResult(feature.unique_id, [pair[0] for pair in logits], [pair[1] for pair in logits]))
    wanted, wanted_lists, _ = decode_peer(examples, features, results, n_best, longest, None)
    labelled, info = open_labelled(path=str(path).encode(), kind=ANSWERS, seq_length=seq, samples=samples,
                                   doc_stride=stride, max_query_length=query, every_question=True)
    found, lists, scored = decode(labelled, info, sizes, step, n_best, longest)
    ZR.zr_labelled_close(ctypes.byref(labelled))
    far, same = 0, list(lists) == list(wanted_lists)
    for name, its in lists.items():
        other = [(a["text"], a["start_logit"], a["end_logit"], a["probability"]) for a in wanted_lists[name]]
        same = same and [a[:3] for a in its] == [a[:3] for a in other]
        far = max([far] + [abs(a[3] - b[3]) for a, b in zip(its, other)])
    check(f"answers, {sizes}, steps of {step}, {n_best} best of up to {longest} tokens",
          same and found == wanted and far < 1e-12, f"{sum(map(len, lists.values()))} answers")
    theirs = squad_metrics.squad_evaluate(examples, wanted)
    exact, f1 = counting(examples, wanted)
    check("their EM and F1", scored.exact == exact == theirs["exact"] and scored.f1 == f1 and abs(f1 - theirs["f1"]) < 1e-9
          and scored.questions == len(examples) and f1 > 0, f"{scored.exact} {scored.f1}")


def best_of_thresholds(examples, odds, lists):
    """Return the best F1 of all thresholds of no answer."""
    best = {name: next(a["text"] for a in lists[name] if a["text"]) for name in lists}
    f1 = {e.qas_id: max([squad_metrics.compute_f1(a, best[e.qas_id]) for a in golds_of(e)]) for e in examples}
    lacks = {e.qas_id: squad_metrics.compute_f1(golds_of(e)[0], "") if golds_of(e) == [""] else 0 for e in examples}
    return max(sum(f1[name] if odds[name] <= t else lacks[name] for name in odds)
               for t in [-1e9, *odds.values()]) * 100 / len(examples)


def golds_of(example):
    return [a["text"] for a in example.answers if squad_metrics.normalize_answer(a["text"])] or [""]


def check_lacking(data, path, sizes, step, threshold):
    """Compare the answers to questions of which some have none, and the scores of the evaluation of SQuAD 2.0."""
    seq, stride, query, samples = sizes
    examples = squad.SquadV2Processor()._create_examples(data, "dev")
    features = features_of(examples, sizes, False)
    results = []
    for feature in features:
        logits = logits_of(feature.input_ids, 0, step)
        results.append(squad.SquadResult(feature.unique_id, [pair[0] for pair in logits], [pair[1] for pair in logits]))
    wanted, wanted_lists, odds = decode_peer(examples, features, results, 20, 30, threshold)
    labelled, info = open_labelled(path=str(path).encode(), kind=ANSWERS, seq_length=seq, samples=samples,
                                   doc_stride=stride, max_query_length=query, every_question=True)
    found, lists, scored = decode(labelled, info, sizes, step, 20, 30, threshold)
    ZR.zr_labelled_close(ctypes.byref(labelled))
    same = list(lists) == list(wanted_lists)
    for name, its in lists.items():
        same = same and [a[:3] for a in its] == [(a["text"], a["start_logit"], a["end_logit"]) for a in wanted_lists[name]]
    none = sum(not text for text in wanted.values())
    check(f"answers of 2.0, {sizes}, steps of {step}, threshold {threshold}", same and found == wanted,
          f"{none} of {len(wanted)} questions are not answered")
    theirs = squad_metrics.squad_evaluate(examples, wanted)
    got = {"exact": scored.exact, "f1": scored.f1, "total": scored.questions, "HasAns_exact": scored.has_exact,
           "HasAns_f1": scored.has_f1, "NoAns_exact": scored.no_exact, "NoAns_f1": scored.no_exact,
           "NoAns_total": scored.lack}
    far = {key: (value, theirs[key]) for key, value in got.items() if abs(value - theirs[key]) > 1e-9}
    check("their scores", not far and theirs["NoAns_total"] > 0, f"{far or got}")
    best = best_of_thresholds(examples, odds, wanted_lists)
    _, _, again = decode(*reopened(path, sizes), sizes, step, 20, 30, scored.best_threshold)
    check("their best threshold", abs(best - scored.best_f1) < 1e-9 and abs(again.f1 - best) < 1e-9,
          f"F1 {scored.best_f1} with {scored.best_threshold}, {best}, {again.f1}")


def reopened(path, sizes):
    seq, stride, query, samples = sizes
    return open_labelled(path=str(path).encode(), kind=ANSWERS, seq_length=seq, samples=samples, doc_stride=stride,
                         max_query_length=query, every_question=True)


def check_comparing():
    """Compare EM and F1 of single answers, some of which are right."""
    rng, wrong, classes = random.Random(5), 0, ctypes.c_void_p()
    call("zr__classes_open", ctypes.byref(classes))
    for _ in range(4000):
        one = text_of(rng, rng.randint(0, 5))
        two = rng.choice([one, one.upper(), one + " the", text_of(rng, rng.randint(0, 3)) + one, text_of(rng, 2)])
        exact, f1 = ctypes.c_bool(), ctypes.c_double()
        call("zr__answer_compare", classes, one.encode(), two.encode(), ctypes.byref(exact), ctypes.byref(f1))
        example = squad.SquadExample("q", "", "", None, None, "", answers=[{"text": two}])
        wanted = counting([example], {"q": one})
        wrong += (100.0 * exact.value, 100.0 * f1.value) != wanted
    check("single answers are compared like SQuAD's evaluation", wrong == 0, f"{wrong} wrong")


# ---- labelled texts ------------------------------------------------------------------------------


def check_classes():
    fast = transformers.BertTokenizerFast(str(FOLDER / "vocab.txt"))
    rng = random.Random(3)
    for seq in (5, 12, 33):
        lines, wanted = [], []
        for _ in range(400):
            text, pair = text_of(rng, rng.randint(0, 12)), rng.choice([None, text_of(rng, rng.randint(1, 12))])
            lines.append({"text": text, "label": rng.randrange(3)} | ({"text_pair": pair} if pair is not None else {}))
            ids = fast(text, pair, truncation=True, max_length=seq)
            wanted.append((ids["input_ids"], ids["token_type_ids"], lines[-1]["label"]))
        (FOLDER / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        labelled, info = open_labelled(path=str(FOLDER / "labels.jsonl").encode(), kind=CLASSES, seq_length=seq,
                                       samples=1, labels=3)
        found = [read_row(labelled, row, seq, 1)[0][1:4] for row in range(info.rows)]
        check(f"labelled texts of up to {seq} tokens", found == wanted, f"{info.cut_documents} of {len(wanted)} are cut")
        ZR.zr_labelled_close(ctypes.byref(labelled))


# ---- tagged words --------------------------------------------------------------------------------

TAG_NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER"]


def names_of(tags):
    return (ctypes.c_char_p * len(tags))(*(tag.encode() for tag in tags))


def read_tags(labelled, row, seq):
    """Return tokens and labels of a row of one sample, as transformers has them: -100 does not count."""
    parts = [(ctypes.c_int32 * seq)() for _ in range(4)]
    tokens, documents, words, tags = parts
    call("zr_labelled_read", labelled, ctypes.c_int64(row),
         (ctypes.c_void_p * 8)(ctypes.addressof(tokens), None, ctypes.addressof(documents), None, None, None,
                               ctypes.addressof(words), ctypes.addressof(tags)))
    n = list(documents).count(0)
    labels = [-100] * n
    for word, tag in zip(words, tags):
        if tag >= 0:
            labels[word] = tag
    return list(tokens)[:n], labels


def check_tags():
    """Compare the labels of tokens with run_ner.py's tokenize_and_align_labels."""
    fast, rng = transformers.BertTokenizerFast(str(FOLDER / "vocab.txt")), random.Random(8)
    words = [word for word in WORDS if not any(c.isspace() for c in word)]
    for seq in (5, 16, 40):
        sentences = [[(rng.choice(words), rng.randrange(len(TAG_NAMES))) for _ in range(rng.randint(1, 25))]
                     for _ in range(300)]
        path, wanted = FOLDER / "words.txt", []
        path.write_text("\n".join("".join(f"{word} X {TAG_NAMES[tag]}\n" for word, tag in one) for one in sentences))
        for one in sentences:
            code = fast([word for word, _ in one], is_split_into_words=True, truncation=True, max_length=seq)
            ids = code.word_ids()
            labels = [-100 if word is None or word == last else one[word][1] for word, last in zip(ids, [None, *ids])]
            wanted.append((code["input_ids"], labels))
        labelled, info = open_labelled(path=str(path).encode(), kind=TAGS, seq_length=seq, samples=1,
                                       labels=len(TAG_NAMES), label_names=ctypes.cast(names_of(TAG_NAMES), ctypes.c_void_p))
        found = [read_tags(labelled, row, seq) for row in range(info.rows)]
        check(f"tagged words in rows of {seq} tokens", found == wanted, f"{info.cut_documents} of {len(wanted)} are cut")
        ZR.zr_labelled_close(ctypes.byref(labelled))


def check_entities():
    """Compare precision, recall and F1 with seqeval, also of tags that no annotator would write."""
    import seqeval.metrics
    rng, names = random.Random(9), ["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b", "B", "I", "B-a-c", "PER", "."]
    logging.captureWarnings(True)
    for some in (names[:1] + names[1:3] + names[5:7], names):
        right = [[rng.choice(some) for _ in range(rng.randint(1, 12))] for _ in range(400)]
        found = [[tag if rng.random() < 0.7 else rng.choice(some) for tag in one] for one in right]
        entities = Entities()
        for one, other in zip(right, found):
            a, b = ((ctypes.c_int32 * len(one))(*map(names.index, tags)) for tags in (one, other))
            ZR.zr__entities_add(ctypes.byref(entities), names_of(names), a, b, ctypes.c_int64(len(one)))
        scored = ZR.zr__entities_score(ctypes.byref(entities))
        got = scored.precision, scored.recall, scored.f1, entities.words_right / entities.words
        wanted = [measure(right, found) for measure in (seqeval.metrics.precision_score, seqeval.metrics.recall_score,
                                                        seqeval.metrics.f1_score, seqeval.metrics.accuracy_score)]
        check(f"entities of {len(some)} tags", max(abs(a - b) for a, b in zip(got, wanted)) < 1e-12, f"{got}, {wanted}")


TOKENIZER = make_tokenizer()
VOCAB = TOKENIZER.get_vocab()
squad.squad_convert_example_to_features_init(TOKENIZER)
articles = make_articles(FOLDER / "articles.json")
for some in SIZES:
    check_training(articles, FOLDER / "articles.json", some)
check_training(make_white(FOLDER / "white.json"), FOLDER / "white.json", SIZES[1])
for some, step, n_best, longest in [(SIZES[0], 2**-10, 20, 30), (SIZES[1], 2.0, 20, 30), (SIZES[2], 0.5, 64, 6),
                                    (SIZES[3], 1.0, 3, 40), (SIZES[4], 0.25, 20, 30), (SIZES[5], 4.0, 29, 1)]:
    check_answers(articles, FOLDER / "articles.json", some, step, n_best, longest)
lacking = make_lacking(FOLDER / "lacking.json")
check_training(lacking, FOLDER / "lacking.json", SIZES[1], squad.SquadV2Processor)
for some, step, threshold in [(SIZES[0], 2**-10, 0.0), (SIZES[1], 0.5, 0.0), (SIZES[1], 0.5, -9.0), (SIZES[3], 1.0, -11.0),
                              (SIZES[4], 0.25, -6.5)]:
    check_lacking(lacking, FOLDER / "lacking.json", some, step, threshold)
check_comparing()
check_classes()
check_tags()
check_entities()
end()
