"""Time a pre-training step of BERT in transformers on the processor, for comparison in bench/run.

    python bert_torch.py --preset bert-large --batch 8 --seq 128 --bf16 --compile

The model is transformers' BertForPreTraining with fused attention, random weights and its dropout. The optimizer is
PyTorch's fused AdamW. Every row is full: 15 % of its tokens are predicted, and transformers computes the logits of all
tokens. Prints one JSON object; step_ms has the times of all steps, including the first.
"""
import argparse
import contextlib
import json
import os
import resource
import time

import torch
import transformers

SIZES = {  # layers, width, heads
    "bert-base": (12, 768, 12),
    "bert-large": (24, 1024, 16),
}


def make_model(layers, width, heads, dropout):
    config = transformers.BertConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, attn_implementation="sdpa")
    return transformers.BertForPreTraining(config)


def make_batch(rows, seq, vocabulary):
    shape = rows, seq
    ids = torch.randint(1000, vocabulary, shape)
    labels = torch.where(torch.rand(shape).argsort(1) < round(0.15 * seq), ids, -100)
    return {"input_ids": ids, "token_type_ids": (torch.arange(seq) >= seq // 2).long().expand(shape),
            "attention_mask": torch.ones(shape, dtype=torch.long), "labels": labels,
            "next_sentence_label": torch.randint(0, 2, (rows,))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=SIZES, default="bert-large")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--limit", type=int, default=0, help="bytes of data memory, above which it ends; 0: none")
    options = parser.parse_args()

    if options.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (options.limit, options.limit))
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(1234)
    model = make_model(*SIZES[options.preset], options.dropout)
    vocabulary, parameters = model.config.vocab_size, list(model.parameters())
    model.train()
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if options.compile:
        model = torch.compile(model)
    half = torch.autocast("cpu", dtype=torch.bfloat16) if options.bf16 else contextlib.nullcontext()

    times, loss = [], None
    for _ in range(options.steps):
        batch = make_batch(options.batch, options.seq, vocabulary)
        start = time.perf_counter()
        with half:
            loss = model(**batch).loss
        loss.backward()
        if options.clip > 0:
            torch.nn.utils.clip_grad_norm_(parameters, options.clip)
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.item()
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "system": "transformers", "model": options.preset, "compiled": options.compile,
        "dtype": "bf16" if options.bf16 else "fp32", "version": transformers.__version__,
        "torch": torch.__version__, "step_ms": [round(1e3 * seconds, 3) for seconds in times], "loss": round(loss, 4)}))


if __name__ == "__main__":
    main()
