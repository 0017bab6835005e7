"""Whether zr reads the forms of records as transformers and TRL do. test_forms_peers.sh starts it: forms.py ZR FOLDER;
ZR the command, FOLDER an empty one.

Prints TAP. With chat templates of the package trl, each form of records in several kinds of files must give the tokens
of apply_chat_template, and the tokens that count must be those of its {% generation %} blocks, or all that follow the
rendered prompt. Then SFTTrainer of TRL prepares the same records: its tokens and masks must be equal. The loss of zr
must be that of transformers in float64, over these tokens.
"""
import csv
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys

os.environ.update({"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""})
import datasets
import tokenizers
import torch
import transformers
import trl

from tap import compare, end

ZR, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
RECORDS, TOLERANCE = 12, 1e-5
WORDS = ["a", "the", "Zürich", "apples", "it's", "\n", "\n\n", "数", "😀", "12345", "no", "{x}", "end.", '"q"', ", ", "\\"]
TEMPLATES = ["qwen2_5_training", "qwen3_training", "llama3_training"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "say", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]


def text_of(rng):
    return "".join(rng.choice(["", " "]) + rng.choice(WORDS) for _ in range(rng.randint(1, 12))).strip() or "a"


def make_model(folder, template):
    """Write a small model with a tokenizer that has the template's special tokens. Return both."""
    begin = ["<|begin_of_text|>"] if "bos_token" in template else []
    marks = sorted({*re.findall(r"<\|[a-z_]+\|>", template), "<|endoftext|>", *begin})
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.train_from_iterator([" ".join(WORDS) * 3, "system user assistant tool"] * 9, tokenizers.trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    model.add_special_tokens([tokenizers.AddedToken(mark, normalized=False) for mark in marks])
    folder.mkdir()
    model.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "chat_template": template}
    config.update({"bos_token": begin[0]} if begin else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    torch.manual_seed(1)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=1024, initializer_range=0.2))
    llama.save_pretrained(folder)
    return llama.double().eval(), tokenizer


def turn(role, text):
    return {"role": role, "content": text}


def talks(rng):
    """Return conversations as messages."""
    found = []
    for i in range(RECORDS):
        talk = [turn("system", text_of(rng))] if i % 3 == 0 else []
        for _ in range(1 + i % 3):
            talk += [turn("user", text_of(rng)), turn("assistant", text_of(rng))]
        found.append(talk)
    return found


def with_tools(talk):
    """Return a conversation in which the first answer calls a tool."""
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}
    at = 1 + (talk[0]["role"] == "system")
    return talk[:at] + [{"role": "assistant", "content": "", "tool_calls": [call]}, turn("tool", "rain")] + talk[at:]


SHAREGPT = {"user": "human", "assistant": "gpt", "system": "system"}


def as_sharegpt(talk):
    return [{"from": SHAREGPT[one["role"]], "value": one["content"]} for one in talk]


def as_parts(talk):
    return [{**one, "content": [{"type": "text", "text": one["content"][:2]}, {"type": "text", "text": one["content"][2:]}]}
            for one in talk]


def pairs(talk):
    """Return the system prompt, the first question and its answer, as texts, or "" for no system prompt."""
    system = talk[0]["content"] if talk[0]["role"] == "system" else ""
    asked = talk[bool(system):]
    return system, asked[0]["content"], asked[1]["content"]


def pair_talk(talk):
    system, asked, said = pairs(talk)
    return ([turn("system", system)] if system else []) + [turn("user", asked), turn("assistant", said)]


def alpaca(talk):
    system, asked, said = pairs(talk)
    return {"instruction": asked, "input": "more" if system else "", "output": said, "text": "not read"}


def alpaca_talk(talk):
    system, asked, said = pairs(talk)
    return [turn("user", asked + ("\nmore" if system else "")), turn("assistant", said)]


def columns(first, second, system=None):
    def make(talk):
        said = pairs(talk)
        return {first: said[1], second: said[2], **({system: said[0]} if system else {})}
    return make


def split(talk):
    """Return the messages before the last answer, and this answer."""
    return talk[:-1], talk[-1:]


# name of a form: a function from messages to a record, one to the messages that it means, and how the file is written
FORMS = {
    "messages": (lambda talk: {"messages": talk}, lambda talk: talk, "jsonl"),
    "messages with parts": (lambda talk: {"messages": as_parts(talk)}, lambda talk: talk, "json"),
    "messages with tools": (lambda talk: {"messages": with_tools(talk), "tools": TOOLS}, with_tools, "jsonl"),
    "conversations, ShareGPT": (lambda talk: {"conversations": as_sharegpt(talk)}, lambda talk: talk, "json"),
    "conversations with roles": (lambda talk: {"conversations": talk}, lambda talk: talk, "gz"),
    "Alpaca": (alpaca, alpaca_talk, "json"),
    "question and answer": (columns("question", "answer", "system_prompt"), pair_talk, "csv"),
    "prompt and response": (columns("prompt", "response", "system"), pair_talk, "tsv"),
    "other names": (columns("q", "a", "s"), pair_talk, "jsonl"),
}
OPTIONS = {"other names": ["--columns", '{"question": "q", "answer": "a", "system_prompt": "s"}']}


def write(name, kind, records):
    path = FOLDER / f"{re.sub('[^a-z]', '-', name.lower())}.{kind}"
    lines = "".join(json.dumps(record) + "\n" for record in records)
    if kind == "json":
        path.write_text(json.dumps(records, indent=2, ensure_ascii=False))
    elif kind == "gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif kind in ("csv", "tsv"):
        with open(path, "w", newline="") as file:
            rows = csv.DictWriter(file, records[0], delimiter="," if kind == "csv" else "\t")
            rows.writeheader()
            rows.writerows(records)
    else:
        path.write_text(lines)
    return path


def zr(*arguments):
    did = subprocess.run([ZR, *map(str, arguments)], capture_output=True, text=True,
                         env={**os.environ, "XDG_CACHE_HOME": str(FOLDER / "cache")})
    if did.returncode:
        raise RuntimeError(did.stderr)
    return did.stdout


def shown(folder, path, options=()):
    """Return the tokens of each record, and which of them count, as zr reads them."""
    lines = zr("tokenize", "--tokenizer", folder, path, "--show", RECORDS, "--json", "--quiet", *options).splitlines()
    return [(one["ids"], one["counts"]) for one in map(json.loads, lines)]


def wanted_of(tokenizer, messages, tools=None):
    made = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
    return made["input_ids"], made["assistant_masks"]


def wanted_completion(tokenizer, prompt, completion):
    before = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
    ids = tokenizer.apply_chat_template(prompt + completion, return_dict=False)
    return ids, [int(i >= len(before)) for i in range(len(ids))]


def differ(got, wanted, tokenizer):
    """Return how tokens and masks differ, or None."""
    if len(got) != len(wanted):
        return f"{len(got)} records, wanted {len(wanted)}"
    for (ids, counts), (wanted_ids, mask) in zip(got, wanted):
        if list(ids) != list(wanted_ids):
            return f"{tokenizer.decode(ids)!r} for {tokenizer.decode(wanted_ids)!r}"
        if list(counts[1:]) != list(mask[1:]):
            return f"{counts} count, wanted {list(mask)}, of {tokenizer.decode(ids)!r}"
    return None


def loss_differs(model, folder, path, wanted):
    """Return how zr's loss differs from that of transformers in float64, or None."""
    total = count = 0
    for ids, mask in wanted:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        losses = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
        total += float((losses * torch.tensor(mask[1:])).sum())
        count += sum(mask[1:])
    got = json.loads(zr("eval", folder, "--data", path, "--seq", 1024, "--json", "--quiet"))
    if got["tokens"] != count or abs(got["loss"] - total / count) > TOLERANCE * total / count:
        return f"loss {got['loss']} of {got['tokens']}, wanted {total / count} of {count}"
    return None


def of_trl(model, tokenizer, records, assistant_only=False):
    """Return the tokens of records and which count, as TRL prepares them."""
    config = trl.SFTConfig(output_dir=str(FOLDER / "trl"), max_length=None, report_to=[], use_cpu=True, bf16=False,
                           assistant_only_loss=assistant_only, dataset_num_proc=None)
    made = trl.SFTTrainer(model=model, args=config, train_dataset=datasets.Dataset.from_list(records),
                          processing_class=tokenizer).train_dataset
    return [(one["input_ids"], [int(label != -100) for label in one["labels"]]) for one in made]


def check_forms(name, folder, model, tokenizer):
    rng = random.Random(3)
    found = talks(rng)
    for form, (make, means, kind) in FORMS.items():
        if "tools" in form and "tools" not in tokenizer.chat_template:
            continue
        path = write(f"{name} {form}", kind, [make(talk) for talk in found])
        tools = TOOLS if "tools" in form else None
        wanted = [wanted_of(tokenizer, means(talk), tools) for talk in found]
        options = OPTIONS.get(form, [])
        compare(f"{name}: {form}", lambda: differ(shown(folder, path, options), wanted, tokenizer))
        if not options:
            compare(f"{name}: {form}, loss", loss_differs, model, folder, path, wanted)
    lists = [dict(zip(("prompt", "completion"), split(talk))) for talk in found]
    path = write(f"{name} lists", "jsonl", lists)
    wanted = [wanted_completion(tokenizer, *split(talk)) for talk in found]
    compare(f"{name}: lists of messages", lambda: differ(shown(folder, path), wanted, tokenizer))
    compare(f"{name}: lists of messages, loss", loss_differs, model, folder, path, wanted)


def check_trl(folder, model, tokenizer):
    model = model.float()
    found = talks(random.Random(4))
    messages = [{"messages": talk} for talk in found]
    lists = [dict(zip(("prompt", "completion"), split(talk))) for talk in found]
    texts = [{"prompt": "q " + pairs(talk)[1].strip(), "completion": " a " + pairs(talk)[2]} for talk in found]
    plain = [{"text": pairs(talk)[2]} for talk in found]
    for name, records, options, assistant_only in (
            ("all of messages", messages, ["--loss-on", "all"], False), ("answers of messages", messages, [], True),
            ("lists of messages", lists, [], False), ("prompts and completions", texts, [], False),
            ("texts", plain, [], False)):
        path = write(f"trl {name}", "jsonl", records)
        compare(f"TRL: {name}", lambda: differ(shown(folder, path, options),
                                             of_trl(model, tokenizer, records, assistant_only), tokenizer))


def main():
    at = pathlib.Path(trl.__file__).parent / "chat_templates"
    for name in TEMPLATES:
        model, tokenizer = make_model(FOLDER / name, (at / f"{name}.jinja").read_text())
        check_forms(name, FOLDER / name, model, tokenizer)
    check_trl(FOLDER / TEMPLATES[0], *make_model(FOLDER / "trl-model", (at / f"{TEMPLATES[0]}.jinja").read_text()))
    end()


main()
