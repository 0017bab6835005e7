"""Whether zr makes samples of questions and finds answers as transformers 4.57 does. test_squad_peers.sh starts
it: squad.py LIBZR FOLDER; LIBZR the shared library, FOLDER an empty one.

Prints TAP. Articles are random words with accents, Chinese characters, strange white space and characters that are
dropped. Samples must be equal to the last integer. Logits are random, with many equal ones, so that the order of equal
answers counts as well.
"""
import collections
import ctypes
import json
import logging
import pathlib
import random
import sys

import transformers
from transformers.data.metrics import squad_metrics
from transformers.data.processors import squad

from tap import check, end

ZR, FOLDER = ctypes.CDLL(sys.argv[1]), pathlib.Path(sys.argv[2])
CLASSES, ANSWERS = 0, 1
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
    _fields_ = [("exact", ctypes.c_double), ("f1", ctypes.c_double), ("questions", ctypes.c_int64)]


ZR.zr_error_message.restype = ctypes.c_char_p
ZR.zr_labelled_get_info.restype = Info
ZR.zr_free.restype = None


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
         (ctypes.c_void_p * 6)(*(ctypes.addressof(part) for part in parts)))
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


def check_training(data, path, sizes):
    seq, stride, query, samples = sizes
    examples = squad.SquadV1Processor()._create_examples(data, "train")
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


def decode_peer(examples, features, results, n_best, longest):
    nbest = FOLDER / "nbest.json"
    predictions = squad_metrics.compute_predictions_logits(
        examples, features, results, n_best, longest, True, str(FOLDER / "predictions.json"), str(nbest), None, False,
        False, 0.0, TOKENIZER)
    return predictions, json.loads(nbest.read_text())


def decode(labelled, info, sizes, step, n_best, longest):
    """Return the answers' JSON, the lists of answers, and EM and F1."""
    seq, _, _, samples = sizes
    answers, text, scored = ctypes.c_void_p(), ctypes.c_void_p(), Scored()
    call("zr__answers_open", labelled, ctypes.c_int64(n_best), ctypes.c_int64(longest), ctypes.byref(answers))
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
    wanted, wanted_lists = decode_peer(examples, features, results, n_best, longest)
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
check_comparing()
check_classes()
end()
