"""Pre-train a small BERT with transformers on prepared rows, for comparison in bench/run.

    python learn_torch.py prepare TEXT FOLDER        the rows, from the validation text of WikiText-2
    python learn_torch.py train RECIPE FOLDER MODEL SEED
    python learn_torch.py measure FOLDER MODEL...    masked accuracy and losses on the held-out rows, as JSON

RECIPE is a configuration of zr, from which sizes and optimizer are read, with the learning rate of each step as
`rates`. FOLDER has the inputs of BertForPreTraining: in rows.safetensors from the training articles, and in
held.safetensors from held-out articles. text.txt has the sentences of the training articles. labels.jsonl and
labels-held.jsonl have parts of sentences, with label 1 if the longest word is written backwards. MODEL is a Hugging
Face directory.
"""
import json
import pathlib
import random
import sys

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

# With so small a vocabulary every piece is a character, so that a small model learns within a thousand steps.
VOCABULARY, SEQ, PREDICTIONS, MASKED = 120, 32, 5, 0.15
EPOCHS, HELD_EPOCHS = 8, 4  # pairs and masks are drawn anew in each epoch
LABELLED, LABELLED_HELD = 5000, 3000


# ---- the text ------------------------------------------------------------------------------------


def read_articles(text):
    """Return the sentences of each article. A heading with one "=" begins an article; other headings are left out."""
    articles = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("= ") and not line.startswith("= ="):
            articles.append([])
        elif line and not line.startswith("="):
            line = line.replace("<unk>", "unknown").replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
            articles[-1] += [part.strip(" .") + " ." for part in line.split(" . ") if len(part.split()) > 3]
    return articles


def write_tokenizer(folder, sentences):
    made = tokenizers.BertWordPieceTokenizer(lowercase=True)
    made.train_from_iterator(sentences, vocab_size=VOCABULARY, min_frequency=2, show_progress=False)
    words = sorted(made.get_vocab().items(), key=lambda item: item[1])
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in words))
    config = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return made


# ---- rows ----------------------------------------------------------------------------------------


def chunks(document, rng):
    """Return lists of consecutive sentences that together fill a row, like the script of BERT's authors."""
    target = SEQ - 3 if rng.random() >= 0.1 else rng.randint(2, SEQ - 3)
    chunk, length = [], 0
    for i, sentence in enumerate(document):
        chunk.append(sentence)
        length += len(sentence)
        if i + 1 == len(document) or length >= target:
            yield chunk
            chunk, length = [], 0
            target = SEQ - 3 if rng.random() >= 0.1 else rng.randint(2, SEQ - 3)


def pair_of(chunk, documents, own, rng):
    """Return two texts, and whether the second one is from another document."""
    cut = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
    a, b = sum(chunk[:cut], []), sum(chunk[cut:], [])
    other = len(chunk) == 1 or rng.random() < 0.5
    if other:
        document = documents[rng.choice([i for i in range(len(documents)) if i != own])]
        start = rng.randrange(len(document))
        b = sum(document[start:start + 8], [])
    while len(a) + len(b) > SEQ - 3:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if rng.random() < 0.5 else -1)
    return a, b, other


def row_of(a, b, other, made, rng):
    cls, sep, mask = (made.token_to_id(token) for token in ("[CLS]", "[SEP]", "[MASK]"))
    ids, labels = [cls, *a, sep, *b, sep], [-100] * SEQ
    candidates = [t for t, token in enumerate(ids) if token not in (cls, sep)]
    rng.shuffle(candidates)
    for t in candidates[:min(PREDICTIONS, max(1, round(MASKED * len(ids))))]:
        labels[t] = ids[t]
        kind = rng.random()
        ids[t] = mask if kind < 0.8 else ids[t] if kind < 0.9 else rng.randrange(made.get_vocab_size())
    n = len(ids)
    return {"input_ids": ids + [0] * (SEQ - n), "attention_mask": [1] * n + [0] * (SEQ - n), "labels": labels,
            "token_type_ids": [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * (SEQ - n),
            "next_sentence_label": int(other)}


def write_rows(path, documents, made, epochs, seed):
    rng, rows = random.Random(seed), []
    for _ in range(epochs):
        rows += [row_of(*pair_of(chunk, documents, own, rng), made, rng)
                 for own, document in enumerate(documents) for chunk in chunks(document, rng)]
    rng.shuffle(rows)
    save_file({name: torch.tensor([row[name] for row in rows], dtype=torch.int32) for name in rows[0]}, path)
    return len(rows)


def labelled(sentences, rng):
    """Return some words of a sentence that fit into a row. The longest word may be written backwards."""
    while True:
        words = rng.choice(sentences).split()
        words = words[rng.randrange(max(1, len(words) - 5)):]
        words = " ".join(words)[:SEQ - 4].split(" ")[:-1]
        if len(words) >= 3:
            break
    longest, label = max(range(len(words)), key=lambda i: len(words[i])), rng.randrange(2)
    if label:
        words[longest] = words[longest][::-1]
    return {"text": " ".join(words), "label": label}


def write_labels(path, articles, n, seed):
    rng, sentences = random.Random(seed), [sentence for article in articles for sentence in article]
    path.write_text("".join(json.dumps(labelled(sentences, rng)) + "\n" for _ in range(n)))


def prepare(text, folder):
    articles = read_articles(pathlib.Path(text).read_text())
    held = articles[9::10]
    learned = [article for i, article in enumerate(articles) if i % 10 != 9]
    made = write_tokenizer(folder / "tokenizer", [sentence for article in learned for sentence in article])
    told = {"vocabulary": made.get_vocab_size()}
    for name, documents, epochs, seed in (("rows", learned, EPOCHS, 1), ("held", held, HELD_EPOCHS, 2)):
        coded = [[made.encode(sentence, add_special_tokens=False).ids for sentence in article] for article in documents]
        told[name] = write_rows(folder / f"{name}.safetensors", coded, made, epochs, seed)
    write_labels(folder / "labels.jsonl", learned, LABELLED, 3)
    write_labels(folder / "labels-held.jsonl", held, LABELLED_HELD, 4)
    (folder / "text.txt").write_text("\n".join("".join(f"{sentence}\n" for sentence in article) for article in learned))
    print(json.dumps(told))


# ---- training ------------------------------------------------------------------------------------


def batch_of(rows, first, n):
    total = len(rows["input_ids"])
    which = [(first + i) % total for i in range(n)]
    return {name: value[which].long() for name, value in rows.items()}


def train(recipe, folder, out, seed):
    recipe = json.loads(pathlib.Path(recipe).read_text())
    torch.manual_seed(seed)
    model = transformers.BertForPreTraining(transformers.BertConfig(
        **{key: value for key, value in recipe["model"].items() if key != "type"}))
    rows = load_file(folder / "rows.safetensors")
    params = recipe["optimizer"]["params"]
    parts = [[p for p in model.parameters() if p.ndim >= 2], [p for p in model.parameters() if p.ndim < 2]]
    optimizer = torch.optim.AdamW([{"params": parts[0]}, {"params": parts[1], "weight_decay": 0.0}], lr=0.0,
                                  betas=params["betas"], eps=params["eps"], weight_decay=params["weight_decay"])
    model.train()
    n = recipe["train_batch_size"]
    for step, rate in enumerate(recipe["rates"]):
        batch = batch_of(rows, step * n, n)
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["gradient_clipping"])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(out)
    print(json.dumps({"loss": loss.item()}))


@torch.no_grad()
def measure(folder, path):
    model = transformers.BertForPreTraining.from_pretrained(path).eval()
    rows, total, right, counted, following = load_file(folder / "held.safetensors"), 0.0, 0, 0, 0
    n = len(rows["input_ids"])
    for first in range(0, n, 64):
        batch = batch_of(rows, first, min(64, n - first))
        out = model(**batch)
        picked = batch["labels"] >= 0
        logits, labels = out.prediction_logits[picked], batch["labels"][picked]
        total += cross_entropy(logits.double(), labels, reduction="sum").item()
        right += (logits.argmax(-1) == labels).sum().item()
        counted += len(labels)
        following += (out.seq_relationship_logits.argmax(-1) == batch["next_sentence_label"]).sum().item()
    return {"masked_lm": total / counted, "accuracy": right / counted, "masked": counted, "next": following / n}


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    what, *words = sys.argv[1:]
    if what == "prepare":
        prepare(words[0], pathlib.Path(words[1]))
    elif what == "train":
        train(words[0], pathlib.Path(words[1]), words[2], int(words[3]))
    else:
        print(json.dumps([measure(pathlib.Path(words[0]), path) for path in words[1:]]))


main()
