"""Whether zr renders and tokenizes conversations as transformers does with the models' own chat templates.
test_chat_peers.sh starts it: chat.py LIBZR FOLDER TEMPLATES; LIBZR the shared library, FOLDER an empty one,
TEMPLATES a folder with files NAME.jinja, or the source package of llama-cpp-python.

Prints TAP. Each template gets a tokenizer with its special tokens, and 50 random conversations. zr recognises the
template by itself. Tokens must be equal, and the tokens that count must spell the answers with their end tokens.
"""
import ctypes
import json
import pathlib
import random
import re
import sys
import tarfile

import tokenizers
import transformers

LIBZR, FOLDER, TEMPLATES = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CONVERSATIONS, SEQ = 50, 2048
WORDS = ["a", "the", "Zürich", "apples", "  two", "it's", "\n", "\n\n", "数", "😀", "12345", "no", "{x}", "\tif", "end."]
DATE = "26 Jul 2024"
# files of the source package, and names of templates in its test
FILES = ["Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct",
         "meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct",
         "mistralai-Mistral-Nemo-Instruct-2407"]
NAMED = ["teknium/OpenHermes", "(NOTE: Old pre-v1", "(mistralai 'v1' template", "(mistralai 'v3' template"]


class Args(ctypes.Structure):
    """zr_data_args of zr/data.h."""
    _fields_ = [("path", ctypes.c_char_p), ("tokenizer", ctypes.c_char_p), ("vocab_size", ctypes.c_int64),
                ("seq_length", ctypes.c_int64), ("order", ctypes.c_int), ("seed", ctypes.c_uint64),
                ("text_key", ctypes.c_char_p), ("packing", ctypes.c_int), ("chat_template", ctypes.c_char_p),
                ("documents", ctypes.c_bool), ("skip_bad_lines", ctypes.c_bool), ("cache_dir", ctypes.c_char_p),
                ("cache_is_whole", ctypes.c_bool), ("progress", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


def templates():
    """Return the templates, as pairs of a name and a text."""
    if TEMPLATES.is_dir():
        return [(file.stem, file.read_bytes().decode()) for file in sorted(TEMPLATES.glob("*.jinja"))]
    found = []
    with tarfile.open(TEMPLATES) as package:
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


def fail_if(lib, status):
    if status:
        raise RuntimeError(lib.zr_error_message().decode())


def read_tokens(lib, folder, lines, vocab):
    """Return the tokens and targets of each line, as zr reads them."""
    file = folder / "x.jsonl"
    file.write_text("".join(json.dumps({"messages": line}) + "\n" for line in lines))
    args = Args(path=str(file).encode(), tokenizer=str(folder).encode(), vocab_size=vocab, seq_length=SEQ,
                cache_dir=str(folder / "cache").encode())
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
    wanted = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, date_string=DATE)
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


def main():
    lib = ctypes.CDLL(LIBZR)
    lib.zr_error_message.restype = ctypes.c_char_p
    rng, all_templates = random.Random(5), templates()
    for number, (name, template) in enumerate(all_templates, 1):
        folder = FOLDER / str(number)
        tokenizer, eos = tokenizer_of(folder, template.removesuffix("\n") if number % 2 else template)
        if "strftime_now" in template:
            # transformers would take today's date; zr takes the date that the template has without a clock
            tokenizer.chat_template = template.replace("strftime_now is defined", "false")
        lines = [conversation(rng, template) for _ in range(CONVERSATIONS)]
        why = None
        try:
            got = read_tokens(lib, folder, lines, len(tokenizer))
            for line, its in zip(lines, got):
                why = why or differs(tokenizer, eos, line, its)
        except RuntimeError as error:
            why = str(error)
        print(f"{'not ok' if why else 'ok'} {number} - {name}: {CONVERSATIONS} conversations as in transformers")
        if why:
            print(f"# {why}")
    print(f"1..{len(all_templates)}")


main()
