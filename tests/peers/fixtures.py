"""Write tests/tokenizers: small learned tokenizers in the forms of Llama's, Mistral's and Qwen's, and the tokens that
the package tokenizers makes of texts. tests/test_data_tokenizers.c compares. fixtures.py FOLDER"""
import base64
import json
import pathlib
import sys

from mixed import FLAGGED, LLAMA3, QWEN2, QWEN35, SPACE, TEKKEN, by_characters, byte_level, flags, mixed, symbols
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

FOLDER = pathlib.Path(sys.argv[1])
LEARNED = mixed(200000, 7) + "The cat's dog isn't Home. " * 500
TEXTS = [
    "", " ", "a", "  two  spaces ", "It's we'LL I'M 'ſ ''ve 'sun don't", "eBay NaOH HTTPServer iPhone ǅungla",
    "x1234567 3.14 ²½Ⅷ٣",
    "one\r\n\r\n  two\n\n\tthree \n four   ", "!?\n\n...//\n#_a __b", "é e\u0301 Å \u212b ne\u0301 \u0958 क़ हिन्दी",
    "한국어 \u1112\u1161\u11ab",
    "日本語の文章 中文。字", "العَرَبِيَّة עִבְרִית ภาษาไทย", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽!", "<s>a</s> <unk>b<|endoftext|> [INST]",
    "a\u00a0b\u3000c\u2003\u0085d",
    "▁a ▁ b", "<0x0A><0x41>", "\n", "a" * 50, "tab\t\tend\t", FLAGGED,
    "the cat eats the hat, the éé ée xyz thxythe", "qzq zqzq", LEARNED[:700],
]


def learn(pattern, size):
    made = byte_level(models.BPE(), pattern)
    made.train_from_iterator([LEARNED], trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(made.to_str())["model"]


def model_of(told, **more):
    return models.BPE(told["vocab"], [tuple(merge) for merge in told["merges"]], **more)


def characters():
    """A vocabulary as of SentencePiece: special tokens, bytes, then learned tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE)
    made.train_from_iterator([LEARNED], trainers.BpeTrainer(vocab_size=320, limit_alphabet=120, show_progress=False))
    told = json.loads(made.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    names += [name for name in sorted(told["vocab"], key=told["vocab"].get) if name not in ("\n", "\r", "\t")]
    known = {name: i for i, name in enumerate(names)}
    merges = [tuple(merge) for merge in told["merges"] if all(part in known for part in (*merge, "".join(merge)))]
    return lambda: models.BPE(known, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def unknown(fuse):
    """Characters outside the vocabulary; only some bytes have tokens."""
    names = ["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", SPACE, *"abcdeht", "th", "the", SPACE + "th"]
    merges = [("t", "h"), ("th", "e"), (SPACE, "th")]
    return models.BPE({name: i for i, name in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=fuse,
                      byte_fallback=True)


def across():
    """Merges across words, as no tokenizer of SentencePiece has them."""
    names = ["<unk>", "<s>", "</s>", SPACE, *"abcdeh", "t", "e" + SPACE, "he" + SPACE, "the" + SPACE, SPACE + "t",
             "e" + SPACE + "t", "he"]
    merges = [("e", SPACE + "t"), (SPACE, "t"), ("h", "e"), ("e", SPACE), ("h", "e" + SPACE), ("t", "he" + SPACE)]
    return models.BPE({name: i for i, name in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=True)


def kinds():
    yield "unknown", by_characters(unknown(False), True)
    yield "unknown_fused", by_characters(unknown(True), False)
    yield "across", by_characters(across(), True)
    llama, qwen, tekken, chars = learn(LLAMA3, 330), learn(QWEN2, 310), learn(TEKKEN, 310), characters()
    begin, end = "<|begin_of_text|>", "<|end_of_text|>"
    yield "llama3", byte_level(model_of(llama, ignore_merges=True), LLAMA3, None, [begin, end], begin)
    yield "qwen2", byte_level(model_of(qwen), QWEN2, normalizers.NFC(), ["<|endoftext|>", "<|im_end|>"])
    yield "qwen35", byte_level(model_of(qwen), QWEN35, normalizers.NFC(), ["<|endoftext|>"])
    yield "nemo", byte_level(model_of(tekken), TEKKEN, None, ["<s>", "</s>"], "<s>")
    yield "llama2", by_characters(chars(), True)
    yield "mistral", by_characters(chars(), False)
    yield "gemma", by_characters(chars(), False, "gemma")
    yield "always", by_characters(chars(), False, "always", True)
    flagged = byte_level(model_of(qwen), QWEN2, normalizers.NFC())
    for name, made in ("flags", flagged), ("flags2", by_characters(chars(), True)):
        made.add_tokens(flags(name == "flags2"))
        yield name, made


def tekken_file(told):
    """The vocabulary in Mistral's own form, with 20 special tokens, two tokens that compete, and two too many."""
    byte = {c: b for b, c in symbols().items()}
    names = sorted(told["vocab"], key=told["vocab"].get)
    spelled = [bytes(byte[c] for c in name) for name in names]
    spelled[-2:-2] = [b"qz", b"zq"]
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(spelled), "default_vocab_size": len(spelled) + 18,
              "default_num_special_tokens": 20, "version": "v3"}
    return {"config": config, "vocab": [{"rank": i, "token_bytes": base64.b64encode(s).decode(), "token_str": "\0"}
                                        for i, s in enumerate(spelled)]}


def expected_of_tekken(told):
    """By tiktoken, which mistral-common uses."""
    import tiktoken
    ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in told["vocab"][:-2]}
    its = tiktoken.Encoding("small", pat_str=TEKKEN, mergeable_ranks=ranks, special_tokens={})
    return [{"text": text, "ids": [20 + i for i in its.encode(text, disallowed_special=())]} for text in TEXTS
            if "<s>" not in text and "[INST]" not in text]


def main():
    expected = {}
    for name, made in kinds():
        told = json.loads(made.to_str())
        if name in ("qwen2", "llama2"):  # the older way to write merges
            told["model"]["merges"] = [" ".join(merge) for merge in told["model"]["merges"]]
        (FOLDER / f"{name}.json").write_text(json.dumps(told, separators=(",", ":")) + "\n")
        rows = [(text, made.encode(text, add_special_tokens=False).ids) for text in TEXTS]
        expected[name] = {"begin": made.encode("").ids, "rows": [
            {"text": text, "ids": ids, "back": made.decode(ids, skip_special_tokens=False),
             "plain": made.decode(ids)} for text, ids in rows]}
        if "▁" not in told["model"]["vocab"]:
            broken = bytes.fromhex("41e08080e0a0f08080f09080eda080ed9ff4908080f48fc0c1f5ff80c241f09f98")
            spelled = [made.token_to_id(symbols()[b]) for b in broken]
            expected[name]["broken"] = {"ids": spelled, "back": made.decode(spelled)}
        odd = [i * 7919 % made.get_vocab_size() for i in range(300)]
        expected[name]["odd"] = made.decode(odd, skip_special_tokens=False)
    told = tekken_file(learn(TEKKEN, 330))
    (FOLDER / "tekken_own.json").write_text(json.dumps(told, separators=(",", ":")) + "\n")
    expected["tekken_own"] = {"begin": [1], "rows": expected_of_tekken(told)}
    rows = json.dumps(expected, separators=(",", ":")).replace('},{"text"', '},\n{"text"')
    (FOLDER / "expected.json").write_text(rows + "\n")


main()
