"""Whether zr's tokenizers have the tokens of the package tokenizers, for random combinations of normalizers,
pre-tokenizers and decoders. test_steps_peers.sh starts it: steps.py LIBZR FOLDER [ROUNDS [SEED]]; FOLDER is empty.

Prints TAP. Each type of a step is compared alone on each character between others, and random combinations, with a BPE
model that the package learns, on texts of many scripts. Some vocabularies lack bytes, with an unknown token or without.
"""
import json
import pathlib
import random
import sys

from library import Library
from mixed import DEEPSEEK, GPT4O, LLAMA3, mixed
from tap import check, end
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

ZR, FOLDER = Library(sys.argv[1]), pathlib.Path(sys.argv[2])
ROUNDS, SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 60, int(sys.argv[4]) if len(sys.argv) > 4 else 1
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
PATTERNS = [{"Regex": text} for text in (LLAMA3, GPT4O, BLOOM, DEEPSEEK, r"\p{N}{1,3}", "[0-9][0-9][0-9]", "[\\r\\n]",
                                         r"\s?\p{L}+", "[一-龥぀-ゟ゠-ヿ]+", "e", " +")]
PATTERNS += [{"String": text} for text in (" ", "the", "▁", ".", "字", "\n")]


def byte_level(regex=True, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def metaspace(scheme="always", split=True, replacement="▁"):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": split}


CUTS = [
    *({"type": "Digits", "individual_digits": each} for each in (True, False)),
    *({"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS),
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"},
    {"type": "FixedLength", "length": 5},
    *({"type": "CharDelimiterSplit", "delimiter": c} for c in " e的"),
]
NORMALIZERS = [
    *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")),
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Replace", "pattern": {"String": "e"}, "content": "EE"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": r"[0-9]{2,}"}, "content": ""},
    {"type": "Prepend", "prepend": "▁"}, {"type": "Prepend", "prepend": "x "},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
     "lowercase": True},
]
REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
DECODERS = [
    None, REPLACE, FALLBACK, FUSE, STRIP, {"type": "Strip", "content": "e", "start": 2, "stop": 0}, metaspace(),
    metaspace("never"), {"type": "BPEDecoder", "suffix": "e"},
    {"type": "Sequence", "decoders": [REPLACE, FALLBACK, FUSE, STRIP]},
    {"type": "Sequence", "decoders": [FALLBACK, {"type": "Sequence", "decoders": [metaspace("first"), FUSE]}, STRIP]},
]


def split(rng):
    return {"type": "Split", "pattern": rng.choice(PATTERNS), "behavior": rng.choice(BEHAVIORS),
            "invert": rng.random() < 0.3}


def a_cut(rng):
    return split(rng) if rng.random() < 0.4 else rng.choice(CUTS)


def nested(rng, steps, name, key):
    """Return steps as one step, possibly with a Sequence within the Sequence."""
    if len(steps) == 1 and rng.random() < 0.5:
        return steps[0]
    if len(steps) > 2 and rng.random() < 0.3:
        steps = [steps[0], {"type": "Sequence", key: steps[1:]}]
    return {"type": "Sequence", key: steps}


def pre_tokenizer(rng):
    """Return a pre-tokenizer, and whether it is byte-level."""
    steps = [a_cut(rng) for _ in range(rng.randrange(3))]
    if rng.random() < 0.6:
        steps.append(byte_level(rng.random() < 0.7, rng.random() < 0.3))
        steps += [a_cut(rng) for _ in range(rng.choice([0, 0, 1, 2]))]
        return nested(rng, steps, "pre_tokenizer", "pretokenizers"), True
    if rng.random() < 0.4:
        steps.append(metaspace(rng.choice(["always", "never", "first"]), rng.random() < 0.5, rng.choice("▁▁_")))
    steps = steps or [a_cut(rng)]
    return nested(rng, steps, "pre_tokenizer", "pretokenizers"), False


def normalizer(rng):
    steps = [rng.choice(NORMALIZERS) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    if len([step for step in steps if step["type"] == "BertNormalizer"]) > 1:
        steps = steps[:1]
    return nested(rng, steps, "normalizer", "normalizers") if steps else None


def built(told):
    return Tokenizer.from_str(json.dumps(told))


def shell(normal, pre, decoder=None, model=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normal,
            "pre_tokenizer": pre, "post_processor": None, "decoder": decoder,
            "model": model or {"type": "BPE", "vocab": {}, "merges": []}}


def learned(normal, pre, rng, text):
    """Return the model that the package learns with these steps."""
    made = built(shell(normal, pre))
    full = rng.random() < 0.5
    trainer = trainers.BpeTrainer(
        vocab_size=rng.choice([400, 800, 2000]), limit_alphabet=rng.choice([60, 300, 1000]), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if full else [],
        special_tokens=["<unk>", "<s>"])
    made.train_from_iterator([text], trainer)
    return json.loads(made.to_str())


def drawn(rng, text):
    pre, bytes_too = pre_tokenizer(rng)
    normal = normalizer(rng)
    told = learned(normal, pre, rng, text)
    told["decoder"] = {"type": "ByteLevel"} | byte_level() if bytes_too else rng.choice(DECODERS)
    model = told["model"]
    model["unk_token"], model["fuse_unk"] = rng.choice([None, "<unk>"]), rng.random() < 0.5
    model["ignore_merges"] = rng.random() < 0.2
    if not bytes_too and rng.random() < 0.3:
        model["byte_fallback"] = True
        for b in range(256):
            model["vocab"].setdefault(f"<0x{b:02X}>", len(model["vocab"]))
    made = built(told)
    if rng.random() < 0.3:
        made.add_tokens([AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False),
                         AddedToken("The end", normalized=True), AddedToken("int", single_word=True)])
    return made


def differ(theirs, mine, text):
    """Return where the tokens of a text differ, or an empty text."""
    wanted, got = theirs.encode(text, add_special_tokens=False).ids, mine.encode(text.encode()).tolist()
    if wanted != got:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        names = [theirs.id_to_token(i) for i in wanted[max(0, at - 3):at + 4]]
        mines = [theirs.id_to_token(i) for i in got[max(0, at - 3):at + 4]]
        return f"token {at}: {mines}, wanted {names}"
    if mine.decode(got, True) != theirs.decode(wanted, skip_special_tokens=False):
        return f"decoded {mine.decode(got, True)[:80]!r}, wanted {theirs.decode(wanted, skip_special_tokens=False)[:80]!r}"
    return ""


def opened(theirs):
    (FOLDER / "tokenizer.json").write_text(theirs.to_str())
    return ZR.open(FOLDER)


def compare(name, theirs, texts):
    try:
        mine = opened(theirs)
        for text in texts:
            why = differ(theirs, mine, text)
            if why:
                break
    except RuntimeError as error:
        why = "" if "a normalizer that may remove text is not supported" in str(error) else str(error)
    told = json.loads(theirs.to_str())
    steps = {key: told[key] for key in ("normalizer", "pre_tokenizer", "decoder")}
    check(name, not why, f"{why}: {json.dumps(steps, ensure_ascii=False)}" if why else "")


def characters():
    """Return most characters of Unicode between letters, in parts."""
    ranges = [(1, 0x3400), (0xA000, 0xAC20), (0xD780, 0xD800), (0xF8F0, 0x17010), (0x18A00, 0x20000), (0x2F800, 0x2FA20),
              (0xE0100, 0xE01F0)]
    points = [c for low, high in ranges for c in range(low, high)]
    points += random.Random(3).sample([c for c in range(0x3400, 0x110000) if not 0xD800 <= c < 0xE000], 3000)
    return ["".join(f"a{chr(c)}b1{chr(c)}\u0301 {chr(c)}" for c in points[i:i + 4096])
            for i in range(0, len(points), 4096)]


def all_bytes():
    names = pre_tokenizers.ByteLevel.alphabet()
    return {"type": "BPE", "vocab": {name: i for i, name in enumerate(sorted(names))}, "merges": []}


def alone():
    """Compare steps one by one, with tokens that show where they cut; not UnicodeScripts, because the scripts of a few
    marks changed since the package's version of Unicode."""
    some = characters()
    for step in NORMALIZERS[:6]:
        compare(f"{step['type']}, each character", built(shell(step, byte_level(), byte_level(), all_bytes())), some)
    for part in some:
        names = sorted(set(part))
        pairs = [pair for c in names if c not in "ab1 " for pair in (("a", c), (c, "b"), ("1", c), (" ", c))]
        vocab = {name: i for i, name in enumerate([*names, *map("".join, pairs)])}
        model = {"type": "BPE", "vocab": vocab, "merges": pairs}
        for step in [*CUTS[:3], *CUTS[7:10]]:
            compare(f"{json.dumps(step)}, characters from {ord(part[1]):x}", built(shell(None, step, FUSE, model)), [part])


def main():
    text = mixed(200000, SEED) + "The cat's dog isn't Home. The end <strip> int 12345 " * 300
    texts = [mixed(1 << 16, SEED + 1), " ", "a", "  x  ", "The end", " The end int x", "\n", "e", "字", "12", "'s"]
    alone()
    for i in range(ROUNDS):
        rng = random.Random(SEED * 100000 + i)
        compare(f"combination {i}", drawn(rng, text), texts)
    end()


main()
