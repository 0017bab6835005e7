"""Write tests/tokenizers: small learned tokenizers in the forms of Llama's, Mistral's and Qwen's, and the tokens that
the package tokenizers makes of texts. test_data_tokenizers.c compares. fixtures.py FOLDER"""
import base64
import json
import pathlib
import sys

from mixed import (DEEPSEEK, FLAGGED, LLAMA3, QWEN2, QWEN35, SPACE, TEKKEN, by_characters, byte_level, flags, mixed, symbols,
                   wordpiece)
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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


# For BERT: the order of marks, characters that are dropped or become several, long words, special tokens.
BERT_TEXTS = [
    "\u302e\u302a\u1d165 a\U0001d165\u0301\u302ee\u302e\U0001d165 \U0001d15e\u302e\u0316 \u302e\u200b\U0001d165\ufffd\U0001d165",
    "\u302e\U0001d165 \u302e\u200b\U0001d165 \u302e\u0301\ufffd\U0001d165", "a\u00adb\u200cc\u061cd\ufffde\x7ff\x0bg\x0ch\u0085i\u2028j\u0890k\ue000l", "İstanbul ΣΑΣ ΐ Ǖ ẞ ǅ \u1e9b\u0323 Ԓ ꟋℲ \U00010d50\u1c89",
    "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff \U0002b81f\U0002b820\U0002b91f\U0002b920\U0002ceaf\U0002ceb0 x\U0002f800y",
    "x" * 99 + "e", "e" * 100 + " " + "e" * 101, "é" * 100 + " " + "字a" * 60, "e\u0301" * 100, "[CLS] a [MASK]b[SEP] [mask] [PAD][UNK] ##the the## # #",
    "it's, they've; we're . I'm \" do not \" ? ! can't 'n' \u2013 \u2014 \u0085\u166d\u2e43\u1b7d\u111c9", "\uac00\ud7a3\u1100\u1161\u11a8 한\u302e",
    "\u0344\u0958\ufb1d\u212b\u00c5\u2126 \U0001d160\U00011938\u0149 \ufb01 Ⅷ ²", "[MASK]", "a [MASK]  b", "x_y-z a.b", "\t\n\r",
]


def learn(pattern, size):
    made = byte_level(models.BPE(), pattern)
    made.train_from_iterator([LEARNED], trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(made.to_str())["model"]


def model_of(told, **more):
    return models.BPE(told["vocab"], [tuple(merge) for merge in told["merges"]], **more)


def characters():
    """Return a function that makes a BPE model with a vocabulary like SentencePiece's: special tokens, bytes, then
    learned tokens."""
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
    """Return a BPE model that lacks the tokens of many characters and of most bytes."""
    names = ["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", SPACE, *"abcdeht", "th", "the", SPACE + "th"]
    merges = [("t", "h"), ("th", "e"), (SPACE, "th")]
    return models.BPE({name: i for i, name in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=fuse,
                      byte_fallback=True)


def across():
    """Return a BPE model with merges across words, which no tokenizer of SentencePiece has."""
    names = ["<unk>", "<s>", "</s>", SPACE, *"abcdeh", "t", "e" + SPACE, "he" + SPACE, "the" + SPACE, SPACE + "t",
             "e" + SPACE + "t", "he"]
    merges = [("e", SPACE + "t"), (SPACE, "t"), ("h", "e"), ("e", SPACE), ("h", "e" + SPACE), ("t", "he" + SPACE)]
    return models.BPE({name: i for i, name in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=True)


def stepped(pre, normalizer=None, decoder=None, alphabet=(), size=400, **more):
    """Return a learned BPE tokenizer with these steps. It lacks the characters or bytes that the texts lack."""
    made = Tokenizer(models.BPE(**more))
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizers.Sequence(pre)
    made.decoder = decoder or decoders.ByteLevel()
    special = ["<|endoftext|>", *filter(None, [more.get("unk_token")])]
    made.train_from_iterator([LEARNED], trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=list(alphabet), limit_alphabet=150, special_tokens=special,
        show_progress=False))
    return made


def steps():
    """Tokenizers like those of SmolLM2 and StarCoder, Falcon, DeepSeek and Command R, and one with many other steps."""
    pre, byte = pre_tokenizers, pre_tokenizers.ByteLevel
    digits, plain = pre.Digits(individual_digits=True), byte(add_prefix_space=False)
    deepseek = [pre.Split(Regex(text), "isolated") for text in (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)]
    yield "smollm", stepped([digits, plain])
    yield "falcon", stepped([pre.Punctuation("contiguous"), plain, pre.Digits(individual_digits=False),
                             pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")], unk_token="<unk>", fuse_unk=True)
    yield "deepseek", stepped([*deepseek, byte(add_prefix_space=False, use_regex=False)], alphabet=byte.alphabet())
    yield "inverted", stepped([pre.Split(Regex(LLAMA3), "removed", invert=True), byte(use_regex=False)],
                              normalizers.NFC())
    yield "words", stepped(
        [pre.WhitespaceSplit(), pre.Sequence([pre.Split("isn", "merged_with_next"), pre.Punctuation("removed")]),
         pre.Metaspace(SPACE)],
        normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex("[0-9]{2,}"), "#"),
                              normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]),
        decoders.Sequence([decoders.Metaspace(SPACE), decoders.Fuse()]), unk_token="<unk>")


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
    marks = "\U0001d165\u302e " * 1000  # in the order of normalized text
    yield "bert", wordpiece(LEARNED + marks, 700)
    yield "bert_cased", wordpiece(LEARNED, 700, strip_accents=False, lowercase=False)
    yield "bert_bare", wordpiece(LEARNED, 400, flags(True), clean_text=False, handle_chinese_chars=False)
    flagged = byte_level(model_of(qwen), QWEN2, normalizers.NFC())
    for name, made in ("flags", flagged), ("flags2", by_characters(chars(), True)):
        made.add_tokens(flags(name == "flags2"))
        yield name, made
    yield from steps()


def tekken_file(told):
    """Return the vocabulary in Mistral's own form, with 20 special tokens, two tokens that compete, and two too
    many."""
    byte = {c: b for b, c in symbols().items()}
    names = sorted(told["vocab"], key=told["vocab"].get)
    spelled = [bytes(byte[c] for c in name) for name in names]
    spelled[-2:-2] = [b"qz", b"zq"]
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(spelled), "default_vocab_size": len(spelled) + 18,
              "default_num_special_tokens": 20, "version": "v3"}
    return {"config": config, "vocab": [{"rank": i, "token_bytes": base64.b64encode(s).decode(), "token_str": "\0"}
                                        for i, s in enumerate(spelled)]}


def expected_of_tekken(told):
    """Return the texts with their tokens according to tiktoken, which mistral-common uses."""
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
        texts = TEXTS + BERT_TEXTS if "bert" in name else TEXTS
        rows = [(text, made.encode(text, add_special_tokens=False).ids) for text in texts]
        expected[name] = {"ends": made.encode("").ids, "rows": [
            {"text": text, "ids": ids, "back": made.decode(ids, skip_special_tokens=False),
             "plain": made.decode(ids)} for text, ids in rows]}
        if told["model"]["type"] == "BPE" and "▁" not in told["model"]["vocab"]:
            broken = bytes.fromhex("41e08080e0a0f08080f09080eda080ed9ff4908080f48fc0c1f5ff80c241f09f98")
            spelled = [made.token_to_id(symbols()[b]) for b in broken]
            spelled = [token for token in spelled if token is not None]
            expected[name]["broken"] = {"ids": spelled, "back": made.decode(spelled)}
        odd = [i * 7919 % made.get_vocab_size() for i in range(300)]
        expected[name]["odd"] = made.decode(odd, skip_special_tokens=False)
    told = tekken_file(learn(TEKKEN, 330))
    (FOLDER / "tekken_own.json").write_text(json.dumps(told, separators=(",", ":")) + "\n")
    expected["tekken_own"] = {"ends": [1], "rows": expected_of_tekken(told)}
    rows = json.dumps(expected, separators=(",", ":")).replace('},{"text"', '},\n{"text"')
    (FOLDER / "expected.json").write_text(rows + "\n")


main()
