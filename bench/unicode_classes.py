#!/usr/bin/env python3
"""The classes of all characters in the package tokenizers, for the tables of src/data/pieces/classes.c and bert.c.

    bench/unicode_classes.py [--write]      needs the package tokenizers

The package's regular expressions (Oniguruma) show which characters are letters, marks, numbers and white space. An
added token with `single_word` shows which characters belong to words. BertNormalizer and BertPreTokenizer show how BERT
treats a character. Without --write the tables are only compared.
"""
import pathlib
import sys
import textwrap

import tokenizers

PLACE = pathlib.Path(__file__).resolve().parent.parent / "src/data/pieces"
BEGIN, END = "    /* bench/unicode_classes.py: begin */\n", "    /* bench/unicode_classes.py: end */\n"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# In the order of zr__class; ALTERNATING: upper case at even (at odd) characters, lower case at the others.
OTHER, UPPER, LOWER, LETTER, MARK, NUMBER, FIGURE, SPACE, WORD, EVEN_UPPER, ODD_UPPER = range(11)
CONTROL, BLANK, NONSPACING, PUNCTUATION, CONTROL_BLANK = range(1, 6)  # in the order of the classes in bert.c
MANY, LONGEST = 15, 0xFFF  # MANY in an entry means a number of blocks of 256 characters of the class OTHER


def chunks(n):
    return (POINTS[k:k + n] for k in range(0, len(POINTS), n))


def matching(expression):
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(expression), "removed")
    found = set()
    for chunk in chunks(4096):
        left = {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, chunk))) for c in piece}
        found.update(c for c in chunk if c not in left)
    return found


def words():
    """Return the characters before which an added token with single_word is not found."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [], unk_token="a"))
    tokenizer.add_tokens([tokenizers.AddedToken("TTT", single_word=True, normalized=False)])
    token, found = tokenizer.token_to_id("TTT"), set()
    for chunk in chunks(2048):
        made = tokenizer.encode("".join(f"TTT{chr(c)}\x01" for c in chunk))
        at = {begin for id, (begin, _) in zip(made.ids, made.offsets) if id == token}
        found.update(c for i, c in enumerate(chunk) if 5 * i not in at)
    return found


def classes():
    word, made = words(), [OTHER] * 0x110000
    for c in word:
        made[c] = WORD
    for expression, its in ((r"[\p{Lu}\p{Lt}]", UPPER), (r"\p{Ll}", LOWER), (r"[\p{Lm}\p{Lo}]", LETTER),
                            (r"\p{M}", MARK), (r"\p{N}", NUMBER), (r"\s", SPACE)):
        for c in matching(expression):
            assert its in (NUMBER, SPACE) or c in word, hex(c)
            made[c] = FIGURE if its == NUMBER and c not in word else its
    return made


def bert_classes():
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean = tokenizers.normalizers.BertNormalizer(**off | {"clean_text": True})
    strip = tokenizers.normalizers.BertNormalizer(**off | {"strip_accents": True})
    words, made = tokenizers.pre_tokenizers.BertPreTokenizer(), [OTHER] * 0x110000
    for c in POINTS:
        cut = [word for word, _ in words.pre_tokenize_str(f"a{chr(c)}a")]
        dropped = clean.normalize_str(chr(c)) == ""
        if cut == ["a", "a"]:
            made[c] = CONTROL_BLANK if dropped else BLANK
        elif dropped:
            made[c] = CONTROL
        elif len(cut) == 3:
            made[c] = PUNCTUATION
        elif strip.normalize_str(chr(c)) == "":
            made[c] = NONSPACING
    return made


def ranges(made, cases):
    """Return (length, class) of runs of consecutive characters."""
    c = 0
    while c < len(made):
        same = other = c
        while same < len(made) and made[same] == made[c]:
            same += 1
        while cases and other + 1 < len(made) and {made[other], made[other + 1]} == {UPPER, LOWER}:
            other += 1
        if other - c >= 2:
            yield other + 1 - c, EVEN_UPPER if (made[c] == UPPER) == (c % 2 == 0) else ODD_UPPER
            c = other + 1
        else:
            yield same - c, made[c]
            c = same


def table(made, cases):
    entries = []
    for length, its in ranges(made, cases):
        while its == OTHER and length >= 256:
            many = min(length // 256, LONGEST)
            entries.append(many << 4 | MANY)
            length -= 256 * many
        while length:
            some = min(length, LONGEST)
            entries.append(some << 4 | its)
            length -= some
    told = ", ".join(map(str, entries)) + ","
    return textwrap.fill(told, 120, initial_indent="    ", subsequent_indent="    ") + "\n"


def main():
    for place, made in ((PLACE / "classes.c", table(classes(), True)), (PLACE / "bert.c", table(bert_classes(), False))):
        text = place.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        if "--write" in sys.argv[1:]:
            place.write_text(text[:begin] + made + text[end:])
        elif text[begin:end].split() != made.split():
            sys.exit(f"{place}: the table differs from tokenizers {tokenizers.__version__}")


main()
