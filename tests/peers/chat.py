"""Whether zr renders and tokenizes conversations as transformers does with the models' own chat templates.
test_chat_peers.sh starts it: chat.py LIBZR FOLDER RENDER CASES TEMPLATES...; LIBZR the shared library, FOLDER an empty
one, RENDER the program tests/data/template/test_data_template, CASES its cases.json, TEMPLATES folders with files
NAME.jinja, the wheel of trl, or the source package of llama-cpp-python.

Prints TAP. Jinja2 must give the results in CASES. Each template renders 50 random conversations with tools, lists of
parts, reasoning and roles out of turn: the texts must be equal, or both refuse. Then each reads plain conversations
with the tokenizer "bytes": the tokens that count must be the template's {% generation %} blocks, or else begin where
transformers' generation prompt ends and end with the answer. The templates of llama-cpp-python also get a tokenizer with
their special tokens: tokens must be equal, and the tokens that count must spell the answers with their end tokens.
"""
import ctypes
import json
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import zipfile

import tokenizers
import transformers
from transformers.utils import chat_template_utils

from library import Part
from tap import compare, end

LIBZR, FOLDER, RENDER, CASES = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
CONVERSATIONS, SEQ = 50, 4096
WORDS = ["a", "the", "Zürich", "apples", "  two", "it's", "\n", "\n\n", "数", "😀", "12345", "no", "{x}", "\tif", "end."]
DATE = "2024-07-26"
# files of the source package, and names of templates in its test
FILES = ["Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct",
         "meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct",
         "mistralai-Mistral-Nemo-Instruct-2407"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": 'say "so"', "parameters": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "the city"}, "days": {"type": "integer", "enum": [1, 2]},
        "more": {"type": "object", "properties": {"u": {"type": "array", "items": {"type": "string"}}}}}}}},
         {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
NAMED = ["teknium/OpenHermes", "(NOTE: Old pre-v1", "(mistralai 'v1' template", "(mistralai 'v3' template"]


class Args(ctypes.Structure):
    """zr_data_args of zr/data.h."""
    _fields_ = [("path", ctypes.c_char_p), ("tokenizer", ctypes.c_char_p), ("vocab_size", ctypes.c_int64),
                ("seq_length", ctypes.c_int64), ("order", ctypes.c_int), ("seed", ctypes.c_uint64),
                ("text_key", ctypes.c_char_p), ("packing", ctypes.c_int), ("part", Part),
                ("chat_template", ctypes.c_char_p), ("chat_date", ctypes.c_char_p),
                ("chat_template_kwargs", ctypes.c_char_p), ("columns", ctypes.c_char_p),
                ("loss_on", ctypes.c_int), ("as_text", ctypes.c_bool), ("token_bytes", ctypes.c_int),
                ("documents", ctypes.c_bool), ("skip_bad_lines", ctypes.c_bool), ("cache_dir", ctypes.c_char_p),
                ("cache_is_whole", ctypes.c_bool), ("progress", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


class Day(chat_template_utils.datetime):
    """A clock that has stopped."""
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(DATE)


def templates(path):
    """Return the templates, as pairs of a name and a text."""
    if path.is_dir():
        return [(file.stem, file.read_bytes().decode()) for file in sorted(path.glob("*.jinja"))]
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as package:
            names = sorted(name for name in package.namelist() if name.endswith(".jinja"))
            return [(pathlib.Path(name).stem, package.read(name).decode()) for name in names]
    found = []
    with tarfile.open(path) as package:
        at = {member.name.split("/", 1)[-1]: member for member in package.getmembers()}
        for name in FILES:
            file = package.extractfile(at[f"vendor/llama.cpp/models/templates/{name}.jinja"])
            found.append((name, file.read().decode()))
        test = package.extractfile(at["vendor/llama.cpp/tests/test-chat-template.cpp"]).read().decode()
    for name in NAMED:
        text = re.compile(r'template_str= \*/ "((?:\\.|[^"\\])*)"').search(test, test.index(name))[1]
        found.append((name.strip("("), json.loads(f'"{text}"')))
    return found


def train(model, trainer):
    model.train_from_iterator([" ".join(WORDS) * 3, "system user assistant [INST] [/INST] You are a helpful"] * 9, trainer)


def like_gpt2(marks):
    """Return a byte-level BPE."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    train(model, tokenizers.trainers.BpeTrainer(vocab_size=500, show_progress=False,
                                                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    model.add_special_tokens([tokenizers.AddedToken(mark, normalized=False) for mark in marks])
    return model


def like_llama(marks):
    """Return a BPE by characters with byte fallback, which puts a space before each text between special tokens."""
    first = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    steps = [tokenizers.normalizers.Prepend("\u2581"), tokenizers.normalizers.Replace(" ", "\u2581")]
    model.normalizer = tokenizers.normalizers.Sequence(steps)
    spells = tokenizers.decoders
    model.decoder = spells.Sequence([spells.Replace("\u2581", " "), spells.ByteFallback(), spells.Fuse(),
                                     spells.Strip(" ", 1, 0)])
    train(model, tokenizers.trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=first))
    told = json.loads(model.to_str())
    told["added_tokens"] = told["added_tokens"][:1]
    told["model"].update({"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True})
    model = tokenizers.Tokenizer.from_str(json.dumps(told))
    model.add_special_tokens([tokenizers.AddedToken(mark, normalized=False) for mark in marks])
    return model


def tokenizer_of(folder, template):
    """Write a tokenizer with the special tokens that the template names. transformers reads it."""
    marks = sorted(set(re.findall(r"<\|[a-z_]+\|>", template)) - {"<|python_tag|>"})
    if "bos_token" in template and "<|start_header_id|>" in template:
        bos, eos = "<|begin_of_text|>", "<|eot_id|>"
    elif "<|im_end|>" in template:
        bos, eos = None, "<|im_end|>"
    else:
        bos, eos = "<s>", "</s>"
        marks += ["[INST]", "[/INST]"] if "[INST]" in template and "AVAILABLE_TOOLS" in template else []
    marks = sorted(set(marks) | {mark for mark in (bos, eos) if mark})
    model = (like_llama if eos == "</s>" and "[INST] " in template else like_gpt2)(marks)
    folder.mkdir()
    model.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, "eos_token": eos,
              "chat_template": template}
    config.update({"bos_token": bos} if bos else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True), eos


def text_of(rng):
    return "".join(rng.choice(["", " "]) + rng.choice(WORDS) for _ in range(rng.randint(1, 12)))


def conversation(rng, template):
    """Return a conversation that the template and zr take: a system prompt, if the template keeps it, and turns."""
    keeps = "loop.last and system_message" not in template and "Only user and assistant roles are supported!" not in template
    messages = [{"role": "system", "content": text_of(rng)}] if keeps and rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 3)):
        messages += [{"role": "user", "content": "q" + text_of(rng)}, {"role": "assistant", "content": text_of(rng)}]
    return messages + ([{"role": "user", "content": "q" + text_of(rng)}] if rng.random() < 0.2 else [])


def odd_content(rng):
    kind = rng.random()
    if kind < 0.8:
        return text_of(rng) if rng.random() < 0.95 else ""
    return [{"type": "text", "text": text_of(rng)} for _ in range(rng.randint(0, 3))] if kind < 0.95 else None


def odd_value(rng, depth=0):
    kind = rng.randint(0, 7 if depth < 2 else 5)
    if kind < 4:
        return [None, rng.random() < 0.5, rng.randint(-5, 10**12), rng.choice([1.0, 0.1, 1e-7, 1e22, -2.5, 1e16])][kind]
    if kind < 6:
        return text_of(rng)
    items = [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return items if kind == 6 else {rng.choice(["key", "Ab", "数", "x y"]) + str(i): item for i, item in enumerate(items)}


def odd_answer(rng):
    """Return an answer, with the results of the tools that it calls."""
    answer = {"role": "assistant", "content": odd_content(rng)}
    if rng.random() < 0.2:
        answer[rng.choice(["reasoning_content", "thinking"])] = text_of(rng)
    if rng.random() < 0.7:
        return [answer]
    arguments = rng.choice([{"city": text_of(rng), "days": 2, "o": odd_value(rng)}, {}, '{"city": "x"}'])
    call = {"type": "function", "id": "abcdefghi", "function": {"name": "weather", "arguments": arguments}}
    answer["tool_calls"] = [call] * rng.randint(1, 2)
    result = {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": text_of(rng)}
    return [answer, *[result] * len(answer["tool_calls"])]


def odd_case(rng):
    """Return the variables of a conversation that templates may refuse."""
    messages = [{"role": rng.choice(["system"] * 4 + ["developer", "assistant"]), "content": odd_content(rng)}]
    messages = messages if rng.random() < 0.5 else []
    for _ in range(rng.randint(0, 3)):
        messages += [{"role": "user", "content": odd_content(rng)}] * rng.choice([1] * 9 + [2]) + odd_answer(rng)
    messages = [{key: value for key, value in message.items() if value is not None} for message in messages]
    # later versions of transformers pass reasoning under all of its names
    messages = getattr(chat_template_utils, "_alias_reasoning_fields", list)(messages)
    case = {"messages": messages, "asks": rng.random() < 0.5, "more": {"bos_token": "<s>", "eos_token": "</s>"}}
    if rng.random() < 0.2:
        case["more"]["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.3:
        case["tools"] = TOOLS[:rng.randint(1, 2)]
    return case


def rendered(template, case):
    """Return the text that transformers renders, and where it is generated; or None and the reason."""
    try:
        texts, places = chat_template_utils.render_jinja_template(
            [case["messages"]], tools=case.get("tools"), chat_template=template, add_generation_prompt=case["asks"],
            return_assistant_tokens_mask="endgeneration" in template, **case["more"])
        return texts[0], places[0] if places else []
    except Exception as error:  # any exception of Jinja2 or Python is a refusal
        return None, repr(error)


def render_differs(rng, file, template):
    """Return how zr's texts of odd conversations differ from transformers', or None."""
    cases = [odd_case(rng) for _ in range(CONVERSATIONS)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    did = subprocess.run([RENDER, file], input=lines, capture_output=True, text=True)
    if did.returncode:
        return did.stderr
    for case, line in zip(cases, did.stdout.splitlines()):
        wanted, why = rendered(template, case)
        got = json.loads(line)
        if got.get("text") != wanted:
            return f"{json.dumps(case)}: {got.get('text', got.get('error'))!r} for {wanted if wanted is not None else why!r}"
    return None


def counted(targets, text):
    """Return the stretches of the text that count, as begin and end. Target i is byte i + 1."""
    runs, begin = [], None
    for at in range(1, len(text) + 1):
        counts = at < len(text) and targets[at - 1] >= 0
        if counts and begin is None:
            begin = at
        elif not counts and begin is not None:
            runs.append((begin, at))
            begin = None
    return runs


def answers_of(template, messages):
    """Return the text of a conversation as bytes, and for each answer the bytes where it begins and a text with which it
    ends; None if the template refuses the conversation or leaves out a text."""
    case = {"messages": messages, "asks": False, "more": {}}
    text, places = rendered(template, case)
    if text is None or any(message["content"].strip() not in text for message in messages):
        return None
    places = [(begin, end) for begin, end in places if begin < end]
    if places:
        ends = sorted({end for _, end in places} - {begin for begin, _ in places})  # blocks side by side are one answer
        begins = sorted({begin for begin, _ in places} - {end for _, end in places})
        return text.encode(), [(len(text[:begin].encode()), text[begin:end].encode()) for begin, end in zip(begins, ends)]
    answers = []
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            prompt, _ = rendered(template, {"messages": messages[:i], "asks": True, "more": {}})
            if prompt is None or not text.startswith(prompt):
                return None  # no answer of transformers to compare with
            if not message["content"].strip():
                return None  # an answer that cannot be recognised by its text
            answers.append((len(prompt.encode()), message["content"].strip().encode()))
    return text.encode(), answers


def masks_differ(lib, rng, file, template):
    """Return how zr's bytes and the answers among them differ from transformers', or None."""
    talks = [conversation(rng, template) for _ in range(CONVERSATIONS)]
    talks = [talk for talk in talks if answers_of(template, talk)]
    if not talks:
        return None  # the template refuses all
    file = pathlib.Path(file)
    for talk, (tokens, targets) in zip(talks, read_tokens(lib, file.parent, talks, 256, None, file)):
        text, answers = answers_of(template, talk)
        if bytes(tokens[:len(text)]) != text or any(tokens[len(text):]):
            return f"{bytes(tokens[:len(text)])!r} for {text!r}"
        runs = counted(targets, text)
        if [begin for begin, _ in runs] != [begin for begin, _ in answers]:
            return f"answers begin at {runs} in {text!r}, wanted {answers}"
        for (begin, end), (_, wanted) in zip(runs, answers):
            exact = "endgeneration" in template
            if text[begin:end] != wanted if exact else not text[begin:end].rstrip().endswith(wanted[-4:]):
                return f"{text[begin:end]!r} counts for {wanted!r}"
    return None


def fail_if(lib, status):
    if status:
        raise RuntimeError(lib.zr_error_message().decode())


def read_tokens(lib, folder, lines, vocab, tokenizer, template=None):
    """Return the tokens and targets of each line, as zr reads them."""
    file = folder / "x.jsonl"
    file.write_text("".join(json.dumps({"messages": line}) + "\n" for line in lines))
    args = Args(path=str(file).encode(), tokenizer=tokenizer and str(tokenizer).encode(), vocab_size=vocab,
                seq_length=SEQ, cache_dir=str(folder / "cache").encode(),
                chat_template=template and str(template).encode())
    data, found = ctypes.c_void_p(), []
    fail_if(lib, lib.zr_data_open_with(ctypes.byref(args), ctypes.byref(data)))
    tokens, targets = (ctypes.c_int32 * SEQ)(), (ctypes.c_int32 * SEQ)()
    for i in range(len(lines)):
        fail_if(lib, lib.zr_data_window(data, ctypes.c_int64(i), tokens, targets))
        found.append((list(tokens), list(targets)))
    lib.zr_data_close(ctypes.byref(data))
    return found


def differs(tokenizer, eos, messages, got):
    """Return how zr's tokens and targets of a conversation differ from the expected ones, or None."""
    tokens, targets = got
    wanted = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    if tokens[:len(wanted)] != wanted or any(tokens[len(wanted):]):
        return f"{tokenizer.decode(tokens[:len(wanted)])!r} for {tokenizer.decode(wanted)!r}"
    answers, run = [], []
    for target in targets[:len(wanted)]:
        if target >= 0:
            run.append(target)
        elif run:
            answers.append(tokenizer.decode(run))
            run = []
    answers += [tokenizer.decode(run)] if run else []
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    if len(answers) != len(said):
        return f"{len(answers)} answers count, wanted {len(said)}"
    for answer, text in zip(answers, said):
        # a token that begins in the template and ends in the answer does not count
        if not answer.endswith(eos) or not answer.removesuffix(eos).strip().endswith(text.strip()[-4:]):
            return f"{answer!r} counts for {text!r}"
    return None


def case_differs(case):
    """Return how Jinja2's result of a case of CASES differs from the one there, or None."""
    messages = [{"role": "system", "content": " sys \u00e4'\" "}, {"role": "user", "content": "hi\n"},
                {"role": "assistant", "content": "yo", "n": [1, 1.5, None]}]
    got, why = rendered(case[0], {"messages": messages, "asks": True, "more": {"bos_token": "<s>"}})
    return None if got == case[1] else f"{case}: Jinja2 makes {got!r} ({why})"


def tokens_differ(lib, rng, folder, template):
    """Return how zr's tokens of plain conversations differ from transformers', or None."""
    tokenizer, eos = tokenizer_of(folder, template)
    lines = [conversation(rng, template) for _ in range(CONVERSATIONS)]
    got = read_tokens(lib, folder, lines, len(tokenizer), folder)
    return next(filter(None, (differs(tokenizer, eos, line, its) for line, its in zip(lines, got))), None)


def main():
    lib = ctypes.CDLL(LIBZR)
    lib.zr_error_message.restype = ctypes.c_char_p
    chat_template_utils.datetime = Day
    rng = random.Random(5)
    compare("Jinja2 makes the results in cases.json", lambda: next(
        filter(None, map(case_differs, json.loads(CASES.read_text()))), None))
    for path in map(pathlib.Path, sys.argv[5:]):
        for number, (name, template) in enumerate(templates(path), 1):
            template = template.removesuffix("\n") if number % 2 else template
            folder = FOLDER / f"{path.name}-{number}"
            folder.mkdir()
            file = folder / "template.jinja"
            file.write_text(template, newline="")
            compare(f"{name}: {CONVERSATIONS} odd conversations", render_differs, rng, file, template)
            compare(f"{name}: bytes and answers of plain conversations", masks_differ, lib, rng, file, template)
            if path.suffix == ".gz":
                compare(f"{name}: tokens", tokens_differ, lib, rng, folder / "tokenizer", template)
    end()


main()
