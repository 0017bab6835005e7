"""Pre-training of BERT-Large: zr compared with transformers, eager and compiled, in fp32 and bf16, and its memory. Also
rows of several samples compared with rows of one sample.

    bench/parts/bert.py --largest --preset bert-base --limit 4e9

measures only the largest batch, here of a smaller model within 4 GB. The whole part uses BERT-Large and 16 GB.
"""
import collections
import json
import os
import pathlib
import random
import statistics
import struct

import measure
from measure import result, without

PRESET, VOCABULARY = "bert-large", 30522
PREDICTIONS = {128: 20, 512: 80}  # by sequence length, from Google's recipe


def rows(seq, n=64):
    """Return a file of full rows, as in bench/peers/bert_torch.py, but with the number of predictions of the recipe."""
    path = measure.OUT / f"bert-{seq}.safetensors"
    if path.exists():
        return path
    rng = random.Random(1234)
    ids, labels = [], []
    for _ in range(n):
        row = [101] + [rng.randrange(1000, VOCABULARY) for _ in range(seq - 2)] + [102]
        masked = set(rng.sample(range(1, seq - 1), PREDICTIONS[seq]))
        labels += [row[t] if t in masked else -100 for t in range(seq)]
        ids += [103 if t in masked else row[t] for t in range(seq)]
    tensors = {"input_ids": (ids, [n, seq]), "labels": (labels, [n, seq]),
               "token_type_ids": ([int(t >= seq // 2) for t in range(seq)] * n, [n, seq]),
               "attention_mask": ([1] * (n * seq), [n, seq]),
               "next_sentence_label": ([rng.randrange(2) for _ in range(n)], [n])}
    header, body = {}, b""
    for name, (values, shape) in tensors.items():
        part = struct.pack(f"<{len(values)}q", *values)
        header[name] = {"dtype": "I64", "shape": shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def config(seq, batch, steps, bf16, preset=PRESET, **keys):
    told = measure.document({"preset": preset, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
                            {"train": str(rows(seq)), "seq_length": seq, "order": "sequential",
                             "max_predictions": PREDICTIONS[seq]}, 0, batch, steps, 1, bf16)
    told["train"] |= {"save_model": False, "save_end": False}
    return told | keys


def peer(seq, batch, steps, bf16, compiled, preset=PRESET, clip=1, limit=0):
    measure.need_peers()
    warm_up = 2 if compiled else 1
    command = [measure.PEERS / "python", measure.ROOT / "bench/peers/bert_torch.py", "--preset", preset,
               "--batch", batch, "--seq", seq, "--steps", steps - 1 + warm_up, "--clip", clip,
               "--limit", int(limit)]
    command += [word for word, given in (("--bf16", bf16), ("--compile", compiled)) if given]
    ended = measure.run(command, 1800)
    told = json.loads([text for text in ended.stdout.splitlines() if text.startswith('{"system"')][-1])
    return measure.Steps(told["step_ms"][warm_up:], ended.rss_bytes)


def compare(options, seq, batch, bf16):
    name, steps = f"{PRESET}, {'bf16' if bf16 else 'fp32'}, {batch} x {seq} tokens", 3
    turns = measure.Turns(1 if options.quick else 2, {
        "zr": lambda: measure.train(config(seq, batch, steps, bf16), arguments=["--quiet"]),
        "transformers": lambda: peer(seq, batch, steps, bf16, False),
        "compiled": lambda: peer(seq, batch, steps, bf16, True)})
    turns.speed(f"{name}: zr / transformers", "zr", "transformers", ">= 1.5")
    turns.speed(f"{name}: zr / transformers compiled", "zr", "compiled", ">= 1.25")
    what = f"{name}: peak resident set, zr / transformers"
    if why := turns.why_not("zr", "transformers"):
        return without(what, why)
    ours, theirs = turns.rss_bytes("zr"), turns.rss_bytes("transformers")
    return result(what, round(ours / theirs, 3), None, "x", f"{ours / 1e9:.2f} GB against {theirs / 1e9:.2f} GB")


def peak_of_peer(options, seq, batch):
    """Return the peak memory of transformers with a batch, or None if it exceeds the limit. A limit on its data memory
    ends such a run early. It is a little higher, because it also counts writable memory that is never touched."""
    try:
        told = peer(seq, batch, 2, False, False, options.preset, clip=0, limit=1.1 * options.limit + 1e9)
    except measure.Missing:
        raise
    except measure.Failed as error:
        if "memory" not in str(error).lower():
            raise
        return None
    return told.rss_bytes if told.rss_bytes <= options.limit else None


def largest_of_peer(options, seq):
    """Return the largest batch of transformers within the limit, and its peak memory. A line through the peaks of two
    batches gives a guess. From there, growing steps find a batch that is too large, and bisection the largest one that
    fits, in about eight runs of two steps."""
    few, more = 2, 4
    small, peak = peak_of_peer(options, seq, few), peak_of_peer(options, seq, more)
    if small is None or peak is None:
        raise measure.Failed(f"transformers takes more than {options.limit / 1e9:g} GB with a batch of {more}")
    row = max((peak - small) / (more - few), 1)
    fits, too_large = more, None
    batch, stride = max(fits + 1, more + int((options.limit - peak) / row)), 1
    while too_large is None or too_large - fits > 1:
        rss = peak_of_peer(options, seq, batch)
        measure.progress(f"transformers, batch {batch}: {'too large' if rss is None else f'{rss / 1e9:.2f} GB'}")
        if rss is None:
            too_large = batch
            batch = max(fits + 1, batch - stride)
        else:
            fits, peak = batch, rss
            batch = batch + stride if too_large is None else (fits + too_large) // 2
        stride *= 2
    return fits, peak


def largest_of_zr(options, seq):
    """Return the largest batch for which `zr plan` promises that a process stays within the limit. Nothing is
    trained."""
    path = measure.OUT / "largest.json"
    path.write_text(json.dumps(config(seq, 1, 2, False, options.preset, gradient_clipping=0.0)))
    found = measure.run_json([measure.ZR, "plan", path, "--max", "batch", "--memory", int(options.limit), "--json",
                              "--quiet"], 600)
    return found["max"]["train_batch_size"]


def largest_batch(options):
    """Compare the largest batches within a limit, in fp32 with AdamW without clipping: zr's by its plan, then trained
    once, and transformers' by trials. Also report zr's memory at the largest batch of transformers."""
    seq = 128
    where = f"{options.preset}, fp32, T {seq}, {options.limit / 1e9:g} GB"
    what = f"{where}: largest batch, zr / transformers"
    memory = f"{where}: memory at the largest batch of transformers, zr / transformers"
    try:
        theirs, peak = largest_of_peer(options, seq)
        ours = largest_of_zr(options, seq)
        rss = {batch: measure.train(config(seq, batch, 2, False, options.preset, gradient_clipping=0.0),
                                    arguments=["--quiet"]).rss_bytes for batch in (theirs, ours)}
    except measure.Failed as error:
        without(what, error, ">= 1.8")
        return without(memory, error, "<= 0.55")
    if rss[ours] > options.limit:
        without(what, f"zr took {rss[ours] / 1e9:.2f} GB with a batch of {ours}: more than its plan promises", ">= 1.8")
    else:
        result(what, round(ours / theirs, 3), ">= 1.8", "x", f"{ours} against {theirs}")
    return result(memory, round(rss[theirs] / peak, 3), "<= 0.55", "x",
                  f"batch {theirs}: {rss[theirs] / 1e9:.2f} GB against {peak / 1e9:.2f} GB")


def write_text():
    """Write each paragraph of WikiText-2 as a document of sentences, and a WordPiece vocabulary of its characters and
    its most frequent words."""
    text = pathlib.Path(os.environ.get("ZR_SHARED", measure.ROOT / "../shared")) / "data/wikitext2-valid.txt"
    if not text.is_file():
        raise measure.Missing(f"there is no {text}; ZR_SHARED names the folder of data/")
    paragraphs = [line.strip().lower() for line in text.read_text().splitlines() if line.strip() and " = " not in line]
    folder = measure.OUT / "padding"
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("\n\n".join(paragraph.replace(" . ", " .\n") for paragraph in paragraphs) + "\n")
    words = collections.Counter(word for paragraph in paragraphs for word in paragraph.split())
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word, _ in words.most_common(8000) if len(word) > 1]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return folder


def packing(options):
    """Compare tokens per second without padding: rows of up to 16 samples with rows of one sample, both of 512
    tokens."""
    seq, wanted = 512, ">= 1.6"
    what = f"{seq} tokens of real text: rows of several samples / rows of one, tokens but padding"
    model = {"type": "bert", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}
    try:
        folder = write_text()
        tokens, shares = {}, {}
        for samples in (1, 16):
            shares[samples] = measure.run_json([measure.OUT / "bench_padding", folder / "text.txt", folder, seq, 77,
                                                samples], 300)["filled"]
        for _ in range(1 if options.quick else 3):
            for samples in (1, 16):
                data = {"train": str(folder / "text.txt"), "tokenizer": str(folder), "seq_length": seq,
                        "max_predictions": 77, "max_samples": samples}
                told = measure.document(model, data, 0, 2, 4 if options.quick else 9, 1, False)
                steps = measure.train(told, arguments=["--quiet"])
                speed = 2 * seq * shares[samples] / statistics.median(steps.step_ms) * 1e3
                tokens.setdefault(samples, []).append(speed)
    except measure.Failed as error:
        return without(what, error, wanted)
    each = ", ".join(f"{b / a:.2f}" for a, b in zip(tokens[1], tokens[16]))
    return result(what, round(statistics.median(tokens[16]) / statistics.median(tokens[1]), 3), wanted, "x",
                  f"{shares[1]:.1%} and {shares[16]:.1%} of the tokens are no padding; each round {each}")


def main():
    options = measure.options(largest={"action": "store_true"}, preset={"default": PRESET},
                              limit={"type": float, "default": 16e9})
    if options.largest:
        return largest_batch(options)
    packing(options)
    types = (False, True) if measure.info()["bf16_products"] else (False,)
    for bf16 in types:
        compare(options, 128, 8, bf16)
        compare(options, 512, 2, bf16)
    if not options.quick:
        largest_batch(options)
    return None


main()
