"""Texts of many scripts, made at random, and tokenizers like those of Llama, Mistral and Qwen, for tokens.py and
fixtures.py."""
import os
import random

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import AddedToken, Regex, Tokenizer  # noqa: E402
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

SPACE = "\u2581"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
HEAD, TAIL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{HEAD}*{TAIL}+|[^\r\n\p{{L}}\p{{N}}]?{HEAD}+{TAIL}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = TEKKEN.replace("+|", f"+{SHORT}|", 1).replace("*|", f"*{SHORT}|", 1).replace(r"|\p{N}|", r"|\p{N}{1,3}|")

DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")

# ---- texts ---------------------------------------------------------------------------------------

SCRIPTS = {
    "Latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "accents": "éèüößñçåÆøŁžıİſǅﬁÀŐ",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВЁЇ", "Greek": "αβγδεζηθικλμνξοπρστυφχψωΆΏ",
    "CJK": "的一是在不了有和人这中大为上个国我以要他時来用們生到作地於出就分對成會可主發年動同工也能下過子說産",
    "Japanese": "あいうえおかきくけこがぎぐげごアイウエオカキクケコガギグーっャ", "Korean": "가각간갇갈나다라마바사아자차카타파하한국어",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئ", "Hebrew": "אבגדהוזחטיכלמנסעפצקרשתםןףץ",
    "Thai": "กขคฆงจฉชซญฐฒณดตถทธนบปผฝพภมยรลวศษสหอฮ",
    "Devanagari": "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहक़ड़",
}
MARKS = {"Latin": "\u0301\u0308\u0323\u0327\u030a", "Arabic": "\u064b\u064e\u064f\u0651\u0654",
         "Hebrew": "\u05b0\u05bc\u05c1",
         "Thai": "\u0e31\u0e34\u0e48\u0e49\u0e33", "Devanagari": "\u093e\u093f\u094d\u0902\u093c\u0947",
         "Korean": "\u11a8\u1161",
         "Japanese": "\u3099\u309a", "Cyrillic": "\u0306\u0308"}
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "🧑‍💻", "✈"]
CODE = ["for (int i = 0; i < n; i++) {\r\n\tx[i] += 1;\n}\n", "def f(a, b=3.14):\n    return a**2 // b  # NaOH eBay\n",
        "<div class=\"x\">&nbsp;</div>\n", "https://example.org/a/b?c=d&e=%20\n", "x = {'a': [1,2,3]};;;//\n\n",
        "$HOME/.local\\bin"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003 ", "\u0085",
          "\u2028", "\r", "\v\f",
          "        ", "\t\t\t", " \r\n \r\n "]
SIGNS = ["!", "?!", "...", "—", "'s", "'S", "'ſ", "'LL", "'re", "''ve", "“", "”", "#", "_", "__a", "(", "))", "€",
         "½", "²", "Ⅷ", "①",
         "\u200d", "\u200b", "\ufeff", "\u0300", "▁", "<s>", "</s>", "<|endoftext|>", "<|im_start|>", "[INST]",
         "<0x0A>", "<unk>", "~"]


def word(rng):
    name = rng.choice(list(SCRIPTS))
    letters = "".join(rng.choices(SCRIPTS[name], k=1 + int(rng.expovariate(0.25))))
    if name in MARKS and rng.random() < 0.5:
        letters = "".join(c + (rng.choice(MARKS[name]) if rng.random() < 0.4 else "") for c in letters)
        if rng.random() < 0.1:
            letters += "".join(rng.choices(MARKS[name], k=3))
    return letters


def mixed(size, seed):
    """Return text of many scripts, with code, white space, digits and marks."""
    rng, made, n = random.Random(seed), [], 0
    while n < size:
        kind = rng.random()
        piece = (word(rng) if kind < 0.5 else rng.choice(SPACES) if kind < 0.75 else rng.choice(SIGNS) if kind < 0.85
                 else "".join(rng.choices("0123456789٣४", k=rng.randrange(1, 9))) if kind < 0.92
                 else rng.choice(EMOJI) if kind < 0.96 else rng.choice(CODE))
        if rng.random() < 0.6:
            piece = " " + piece
        made.append(piece)
        n += len(piece.encode())
    return "".join(made)


def every_character():
    """Return each character between letters, digits, spaces and marks."""
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    rng = random.Random(3)
    some = [c for c in points if c < 0x3400 or 0xA000 <= c < 0xAC80 or 0xD780 <= c < 0x11000]
    some += rng.sample(points, 20000)
    return "".join(f"a{chr(c)}B {chr(c)}1{chr(c)}{chr(c)}!{chr(c)}\n" for c in some)



# ---- tokenizers ----------------------------------------------------------------------------------


def symbols():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return {b: chr(b) if b in plain else chr(next(rest)) for b in range(256)}


def byte_level(model, pattern, normalizer=None, special=(), begin=None):
    made = Tokenizer(model)
    made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(special))
    byte = processors.ByteLevel(trim_offsets=False)
    made.post_processor = byte if not begin else processors.Sequence(
        [byte, processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, made.token_to_id(begin))])])
    return made


def wordpiece(text, size, extra=(), **normalizer):
    """Return a WordPiece tokenizer like BERT's, learned from a text."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(**normalizer), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator([text], trainers.WordPieceTrainer(
        vocab_size=size, limit_alphabet=min(size // 3, 2000), special_tokens=special, show_progress=False))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    made.add_tokens(list(extra))
    return made


def of_ranks(ranks, ignore_merges):
    """Return a BPE model of tokens with ranks, as tiktoken has them: {bytes: rank}."""
    name = symbols()
    spelled = {text: "".join(name[b] for b in text) for text in ranks}
    merges = []
    for text, rank in ranks.items():
        local = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ranks and text[i:] in ranks]
        merges += [(rank, ranks[a], ranks[b], spelled[a], spelled[b]) for a, b in local]
    merges.sort()
    return models.BPE({spelled[text]: rank for text, rank in ranks.items()}, [m[3:] for m in merges],
                      ignore_merges=ignore_merges)


def by_characters(model, legacy, scheme="first", split=False):
    """Return a tokenizer like those that transformers makes of SentencePiece models. `legacy`: as before version
    4.40."""
    made = Tokenizer(model)
    if scheme == "gemma":
        made.normalizer = normalizers.Replace(" ", SPACE)
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif legacy:
        made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=split)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps if scheme in ("never", "gemma") else [*steps, decoders.Strip(" ", 1, 0)])
    made.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in ("<unk>", "<s>", "</s>")])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def flags(accent):
    """Added tokens with all flags, which an ordinary tokenizer has few of. Where tokens are bytes, `tokenizers` decodes
    "é" in an added token as the byte that it stands for, and zr as "é"."""
    return [AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("word", single_word=True, normalized=False),
            AddedToken("<left>", lstrip=True, normalized=True), AddedToken("<right>", rstrip=True, normalized=True),
            AddedToken("né" if accent else "no", single_word=True, normalized=True),
            AddedToken("two words", normalized=True),
            AddedToken("<stri", normalized=False), AddedToken("!", single_word=True, normalized=True)]


FLAGGED = ("a <strip>  b word wordy sword word. <left> <right>  né nés n\u00e9! ne\u0301 two words  two  words<stri"
           "<strip\n<strip>\n<left><right> <left>\u00a0\u3000<left>!!a! ! _word word_ 1word \u00b2word\u0300 "
           "<strip><strip> <right> <strip>  <left>")
