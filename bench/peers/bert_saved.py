"""Bytes per token that transformers keeps of a layer of BERT from the forward to the backward pass.

    python bert_saved.py --preset bert-large --seq 128 --bf16 --each

Autograd reports each tensor that it saves (torch.autograd.graph.saved_tensors_hooks). Each storage counts once;
parameters do not count. The bytes of a layer are the difference between models of three layers and of two layers,
which have the same embedding and heads. The bytes per token are the difference between batches of two rows and of one
row; the rest, such as 16-bit copies of weights, does not depend on the batch. Prints one JSON object, with --each also
the saved tensors of a layer, by type and last dimension.
"""
import argparse
import collections
import contextlib
import json

import bert_torch
import torch
import transformers


def name_of(tensor):
    return f"{tensor.dtype} x {list(tensor.shape[-1:])}".removeprefix("torch.")


def saved(options, layers, batch):
    """Return how many bytes autograd saves in a forward pass, by kind of storage."""
    _, width, heads = bert_torch.SIZES[options.preset]
    torch.manual_seed(1234)
    model = bert_torch.make_model(layers, width, heads, options.dropout)
    model.train()
    seen = {tensor.untyped_storage().data_ptr() for tensor in model.parameters()}
    kept, found = [], collections.Counter()

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            kept.append(tensor)  # keep the tensor alive, so that no later tensor gets its address
            found[f"{tensor.dtype} x {list(tensor.shape[-1:])}".removeprefix("torch.")] += storage.nbytes()
        return tensor

    half = torch.autocast("cpu", dtype=torch.bfloat16) if options.bf16 else contextlib.nullcontext()
    rows = bert_torch.make_batch(batch, options.seq, model.config.vocab_size)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), half:
        model(**rows)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=bert_torch.SIZES, default="bert-large")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    layer = []  # bytes of one layer, with one row and with two rows
    for batch in (1, 2):
        more, less = saved(options, 3, batch), saved(options, 2, batch)
        more.subtract(less)
        layer.append(more)
    each = {what: (layer[1][what] - layer[0][what]) / options.seq for what in layer[1]}
    total, width = sum(each.values()), bert_torch.SIZES[options.preset][1]
    told = {"system": "transformers", "model": options.preset, "dtype": "bf16" if options.bf16 else "fp32",
            "version": transformers.__version__, "torch": torch.__version__, "seq": options.seq,
            "layer_bytes_per_token": round(total, 1), "layer_bytes_per_token_and_width": round(total / width, 3),
            "layer_bytes_of_any_batch": sum(layer[0].values()) - round(total * options.seq)}
    if options.each:
        told["each"] = {what: round(nbytes, 1) for what, nbytes in sorted(each.items()) if nbytes > 0}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
