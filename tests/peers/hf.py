"""What transformers and tokenizers say of zr's files, and zr of theirs. test_hf_peers.sh starts it in a virtual
environment that has both: hf.py ZR LOGITS FOLDER [SHARED]; ZR the command, LOGITS the example, FOLDER an empty one.

Prints TAP. Every comparison names its largest difference.
"""
import json
import math
import pathlib
import random
import subprocess
import sys
import unicodedata

import numpy
import tokenizers
import torch
import transformers

import tap
from tap import check, skip, zr

ZR, LOGITS, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
SHARED = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
SIZES = {"n_layer": 3, "n_head": 4, "n_embd": 64, "n_positions": 128, "vocab_size": 300}
TEXT = "".join(f"line {i} of a text: {i * i % 97} apples, 'tis {'odd' if i % 2 else 'even'}.\n" for i in range(900))

torch.set_grad_enabled(False)
torch.manual_seed(7)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def zr_json(*words):
    return json.loads(zr(*words, "--json"))


# ---- models --------------------------------------------------------------------------------------


def make_model(folder, **more):
    """Return a GPT-2 of random weights as transformers makes and saves it, with biases and norms that are not 0 and
    1."""
    config = transformers.GPT2Config(**SIZES, bos_token_id=299, eos_token_id=299, **more)
    model = transformers.GPT2LMHeadModel(config)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.add_(0.1 * torch.randn_like(weight))
        else:
            weight.mul_(4)  # so that the likeliest token is no near tie
    model.save_pretrained(FOLDER / folder)
    return model.eval()


def loaded(folder, **more):
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER / folder, **more).eval()


def logits_of(folder, tokens):
    made = subprocess.run([LOGITS, FOLDER / folder, *map(str, tokens)], check=True, capture_output=True).stdout
    return torch.from_numpy(numpy.frombuffer(made, numpy.float32).reshape(len(tokens), -1).copy())


def compare_logits(name, folder, model, most=1e-4):
    tokens = [random.Random(3).randrange(model.config.vocab_size) for _ in range(model.config.n_positions)]
    wanted = model(torch.tensor([tokens])).logits[0].float()
    off = (logits_of(folder, tokens) - wanted).abs().max().item()
    check(f"{name}: logits", off <= most, f"largest difference {off:.2g}, of logits up to {wanted.abs().max():.3g}")


def compare_greedy(name, folder, model, tokenizer):
    for prompt in ("line 7 of", "apples", "'tis"):
        ids = tokenizer.encode(prompt)
        made = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=50, min_new_tokens=50,
                              pad_token_id=0, eos_token_id=None)[0].tolist()
        told = zr_json("generate", FOLDER / folder, "--prompt", prompt, "--tokens", 50, "--temperature", 0, "--past-end")
        wanted = tokenizer.decode(made[len(ids):], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        check(f"{name}: 50 tokens behind \"{prompt}\"", told["text"] == wanted and len(made) == len(ids) + 50)


def loss_of(model, tokens, stride):
    """Return the loss as in the guide "Perplexity of fixed-length models": each token counts once. Without a stride,
    the last tokens of the text, which do not fill a window, do not count."""
    length, last, total, end = model.config.n_positions, len(tokens) - 1, 0.0, 0
    if not stride:
        last = last // length * length
    for begin in range(0, last, stride or length):
        before, end = end, min(begin + length, last)
        logits = model(torch.tensor([tokens[begin:end]])).logits[0].double()
        each = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[begin + 1:end + 1]), reduction="none")
        total += each[before - begin:].sum().item()
        if end == last:
            break
    return total / last, last


def compare_perplexity(name, folder, model, tokenizer):
    (FOLDER / "part.txt").write_text(TEXT[:12000])
    tokens = tokenizer.encode(TEXT[:12000])
    for stride in (None, model.config.n_positions, 32):
        loss, n = loss_of(model, tokens, stride)
        words = ("--stride", stride) if stride else ()
        told = zr_json("eval", FOLDER / folder, "--data", FOLDER / "part.txt", *words)
        off = abs(told["perplexity"] / math.exp(loss) - 1)
        check(f"{name}: perplexity, {f'stride {stride}' if stride else 'whole windows'}",
              off <= 1e-4 and told["tokens"] == n, f"relative difference {off:.2g} of {math.exp(loss):.6g}, {n} tokens")


def compare_all(name, folder, model, tokenizer):
    compare_logits(name, folder, model)
    compare_greedy(name, folder, model, tokenizer)
    compare_perplexity(name, folder, model, tokenizer)


def run_models():
    (FOLDER / "text.txt").write_text(TEXT)
    zr("tokenize", "--train", 300, FOLDER / "text.txt", "-o", FOLDER / "tokenizer", "--quiet")
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER / "tokenizer")
    check("transformers reads the tokenizer", tokenizer.eos_token == "<|endoftext|>" and len(tokenizer) == 300)
    model = make_model("theirs", attn_pdrop=0.1, resid_pdrop=0.1, embd_pdrop=0.1)
    tokenizer.save_pretrained(FOLDER / "theirs")
    compare_all("theirs", "theirs", model, tokenizer)

    model.save_pretrained(FOLDER / "sharded", max_shard_size="200KB")
    tokenizer.save_pretrained(FOLDER / "sharded")
    check("theirs in several files", len(list((FOLDER / "sharded").glob("model-*-of-*.safetensors"))) > 2)
    compare_all("theirs in several files", "sharded", model, tokenizer)

    for source, words in (("theirs", ()), ("theirs", ("--shard-size", "200kB")), ("sharded", ())):
        folder = f"converted-{source}-{len(words)}"
        zr("convert", FOLDER / source, FOLDER / folder, "--to", "hf", "--quiet", *words)
        again = loaded(folder)
        same = all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), model.state_dict().values()))
        check(f"{source} converted {' '.join(words)}: the same weights", same)
        read = transformers.AutoTokenizer.from_pretrained(FOLDER / folder)
        check("... and tokenizer", read.encode(TEXT) == tokenizer.encode(TEXT))
    for dtype, torch_dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        zr("convert", FOLDER / "theirs", FOLDER / dtype, "--to", "hf", "--dtype", dtype, "--quiet")
        again, wanted = loaded(dtype, dtype="auto").state_dict(), model.state_dict()
        check(f"converted to {dtype}", all(a.dtype == torch_dtype and torch.equal(a, wanted[k].to(torch_dtype))
                                           for k, a in again.items()))
        compare_logits(f"converted to {dtype}", dtype, loaded(dtype, dtype=torch.float32))
    return tokenizer


def run_training(tokenizer):
    train = {"data": {"train": str(FOLDER / "text.txt"), "val": str(FOLDER / "part.txt"),
                      "tokenizer": str(FOLDER / "theirs"), "seq_length": 64},
             "train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
             "zero_optimization": {"stage": 3}}
    for name, model, ranks in (("own", SIZES | {"type": "gpt2"}, 1), ("tuned", {"init": str(FOLDER / "theirs")}, 2)):
        config = train | {"model": model, "train": {"steps": 60, "eval_interval": 0, "save_interval": 60,
                                                    "output_dir": str(FOLDER / name)}}
        (FOLDER / "config.json").write_text(json.dumps(config))
        zr("train", FOLDER / "config.json", "--ranks", ranks, "--quiet")
        losses = [json.loads(line)["loss"] for line in (FOLDER / name / "metrics.jsonl").read_text().splitlines()]
        check(f"{name}: the loss falls", losses[-1] < 0.7 * losses[0], f"{losses[0]:.4g} to {losses[-1]:.4g}")
        model = loaded(f"{name}/model")
        compare_all(name, f"{name}/model", model, tokenizer)
        read = transformers.AutoTokenizer.from_pretrained(FOLDER / name / "model")
        check(f"{name}: its tokenizer", read.encode(TEXT) == tokenizer.encode(TEXT))
        zr("convert", FOLDER / name, FOLDER / f"{name}-hf", "--quiet", "--shard-size", "200kB")
        again = loaded(f"{name}-hf").state_dict()
        check(f"{name}: its checkpoint in several files", all(torch.equal(a, again[k])
                                                              for k, a in model.state_dict().items()))
    pipe = transformers.pipeline("text-generation", model=str(FOLDER / "tuned-hf"))
    text = pipe("line 7", max_new_tokens=20, do_sample=False)[0]["generated_text"]
    check("a pipeline writes more than the prompt", text.startswith("line 7") and len(text) > 20, repr(text[:40]))


# ---- tokens --------------------------------------------------------------------------------------


def tokens_of_zr(tokenizer, text):
    """Return the tokens of `zr tokenize`, from llm.c's file format: a header of 1024 bytes, then uint16."""
    (FOLDER / "in.txt").write_bytes(text)
    out = FOLDER / "out.bin"
    out.unlink(missing_ok=True)
    zr("tokenize", "--tokenizer", tokenizer, FOLDER / "in.txt", "-o", out, "--quiet")
    return numpy.fromfile(out, numpy.uint16, offset=1024)


# PCRE2 may know no later characters than these (docs/tokenizers.md); without them each category still has some.
KNOWN = unicodedata if unicodedata.unidata_version <= "14.0.0" else unicodedata.ucd_3_2_0


def random_unicode(n):
    rng, made, size = random.Random(11), [], 0
    while size < n:
        top = rng.choice((0x80, 0x800, 0x10000, 0x110000))
        point = rng.randrange(top)
        if not 0xD800 <= point < 0xE000 and KNOWN.category(chr(point)) != "Cn":
            made.append(chr(point))
            size += len(made[-1].encode())
    return "".join(made)


def edge_cases():
    """Return some characters of each category, each between letters, digits, spaces and punctuation."""
    of = {}
    for point in range(0x110000):
        of.setdefault(KNOWN.category(chr(point)), []).append(chr(point))
    made = []
    for category, points in sorted(of.items()):
        if category in ("Cs", "Cn"):
            continue
        for c in points[:3] + points[-3:] + random.Random(category).sample(points, min(12, len(points))):
            made += [f"a{c}b 1{c}2 {c} {c}{c}'s.{c}!\n{c}\t {c}  {c}x", f"'{c}ll {c}'re"]
    return "".join(made)


def compare_tokens(name, folder, theirs, text):
    wanted = numpy.array(theirs.encode(text, add_special_tokens=False).ids)
    got = tokens_of_zr(folder, text.encode())
    same = len(got) == len(wanted) and bool((got == wanted).all())
    at = "" if same else next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    check(f"{name}: {len(text.encode())} bytes", same, f"{len(wanted)} tokens" if same else
          f"differ from token {at}: {got[at:at + 5]}, wanted {wanted[at:at + 5]}, {len(got)} of {len(wanted)}")


def run_tokens():
    texts = {"own text": TEXT, "edges of all categories": edge_cases(), "random UTF-8": random_unicode(1 << 20)}
    random_bytes = random.Random(5).randbytes(1 << 20)
    kinds = {"learned": (FOLDER / "tokenizer", tokenizers.Tokenizer.from_file(str(FOLDER / "tokenizer/tokenizer.json")))}
    gpt2 = SHARED / "data/gpt2" if SHARED else None
    if gpt2 and gpt2.is_dir():
        theirs = tokenizers.ByteLevelBPETokenizer(str(gpt2 / "vocab.json"), str(gpt2 / "merges.txt"))
        kinds["GPT-2"] = (gpt2, theirs)
        texts.update({path.name: path.read_bytes().decode() for path in sorted((SHARED / "data").glob("*.txt"))})
    else:
        skip("GPT-2's vocabulary and texts", "no shared data")
    for kind, (folder, theirs) in kinds.items():
        for name, text in texts.items():
            compare_tokens(f"{kind}, {name}", folder, theirs, text)
        spelled = bytes_of(theirs)
        for name, data in (("random bytes", random_bytes), ("edges", texts["edges of all categories"].encode())):
            got = b"".join(spelled[token] for token in tokens_of_zr(folder, data))
            check(f"{kind}, {name}: the bytes of the tokens are those of the text", got == data)


def bytes_of(theirs):
    """Return each token's bytes, by the alphabet of byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    return {token: bytes(byte[c] for c in name) if all(c in byte for c in name) else name.encode()
            for name, token in theirs.get_vocab().items()}


run_training(run_models())
run_tokens()
tap.end()
