#!/usr/bin/env python3
"""Find the characters that zr and the package tokenizers divide into pieces differently, for docs/tokenizers.md.

    bench/unicode.py [--zr build/zr] [--write]      needs the package tokenizers

Each character of Unicode is put after a letter, after a digit and after a punctuation mark. The tokenizer used here can
merge each of these three with the first byte of the character if both are in one piece. The merges therefore show the
class to which the character belongs. --write writes the table into the page.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/tokenizers.md"
BEGIN, END = "<!-- bench/unicode.py: begin -->\n", "<!-- bench/unicode.py: end -->\n"
# GPT-2's expression in a group, so that zr leaves it to PCRE2
EXPRESSION = r"(?:'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
CLASSES = {"a": "letter", "1": "number", "!": "other"}


def symbols():
    """Return GPT-2's printable character for each byte."""
    others = iter(range(256, 512))
    return [chr(b) if 33 <= b <= 126 or 161 <= b != 173 else chr(next(others)) for b in range(256)]


def write_tokenizer(path):
    """Write a tokenizer with tokens for each byte, for each class's character merged with each first byte of a
    character, and for <|endoftext|>."""
    byte = symbols()
    merges = [[sign, byte[lead]] for sign in CLASSES for lead in range(0xC2, 0xF5)]
    vocab = {token: i for i, token in enumerate(byte + ["".join(pair) for pair in merges])}
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [], "decoder": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": EXPRESSION}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}}))


def lines(tokens):
    """For each character, find the classes whose character was merged with it."""
    found, signs = [], list(CLASSES)
    now = ""
    for token in tokens:
        if token == 10:
            found.append(now)
            now = ""
        elif token >= 256:
            now += signs[(token - 256) // (0xF5 - 0xC2)]
    return found


def zr_tokens(zr, folder, text):
    (folder / "text.txt").write_text(text, encoding="utf-8")
    subprocess.run([zr, "tokenize", "--tokenizer", folder / "tokenizer.json", folder / "text.txt", "-o",
                    folder / "out.bin", "--quiet"], check=True)
    return memoryview((folder / "out.bin").read_bytes()[1024:]).cast("H")


def ranges(points):
    """Join consecutive characters with the same value to ranges, as "first-last" or "only"."""
    out = []
    for point in points:
        if out and point == out[-1][1] + 1:
            out[-1][1] = point
        else:
            out.append([point, point])
    return [f"{first:04X}" if first == last else f"{first:04X}-{last:04X}" for first, last in out]


def table(differing, version):
    """Return the table of (character, class) pairs."""
    told = f"{len(differing)} characters are letters or numbers to `tokenizers` {version}, and neither to zr with this PCRE2:\n"
    for kind in CLASSES.values():
        points = [point for point, its in differing if its == kind]
        if points:
            words = f"- {kind}s ({len(points)}): {', '.join(ranges(points))}"
            told += "\n" + textwrap.fill(words, 118, subsequent_indent="  ", break_on_hyphens=False)
    return told + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--zr", default=ROOT / "build/zr")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    try:
        import tokenizers
    except ImportError:
        sys.exit("the package tokenizers is not here: pip install tokenizers")
    characters = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
    text = "".join("".join(f"{sign}{chr(c)} " for sign in CLASSES) + "\n" for c in characters)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokenizer(folder / "tokenizer.json")
        mine = lines(zr_tokens(options.zr, folder, text))
        peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        theirs = []
        for at in range(0, len(characters), 1 << 14):
            some = characters[at:at + (1 << 14)]
            part = "".join("".join(f"{sign}{chr(c)} " for sign in CLASSES) + "\n" for c in some)
            theirs += lines(peer.encode(part).ids)
    assert len(mine) == len(theirs) == len(characters), "a line for each character"
    odd = [(c, m, t) for c, m, t in zip(characters, mine, theirs) if m != t and (m != "!" or len(t) != 1)]
    assert not odd, f"neither a letter nor a number to zr, but: {odd[:5]}"
    differing = [(c, CLASSES[t]) for c, m, t in zip(characters, mine, theirs) if m != t]
    told = table(differing, tokenizers.__version__)
    print(told, end="")
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + told + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
