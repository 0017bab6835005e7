"""Muon beside AdamW on the same step: the time that Muon adds, compared with the FLOPs of its iteration at the rate of
the step's own products."""
import statistics

import measure
from measure import result, without

LAYERS, WIDTH, SEQ, TOKENS = 2, 768, 1024, 4096  # two blocks of GPT-2 124M
WANTED = "<= 1.15"
OPTIMIZERS = {"AdamW": {"lr": 1e-4}, "Muon": {"lr": 0.01, "adam_lr": 1e-4}}


def train(name, ranks, bf16, steps):
    config = measure.bytes_config(LAYERS, WIDTH, SEQ, 0, TOKENS // SEQ // ranks, steps, bf16=bf16)
    config["train"]["threads"] = max(1, measure.CORES // ranks)
    config["optimizer"] = {"type": name, "params": OPTIMIZERS[name]}
    return measure.train(config, ranks=ranks, arguments=["--quiet", "--timings"])


def rate_of(kinds, *names):
    """Return the FLOPs of one rank's steps of these kinds, and their FLOP/s."""
    rows = [row for row in kinds if row["kind"].split()[0] in names]
    flops, seconds = sum(row["flops"] for row in rows), sum(row["ms"] for row in rows) / 1e3
    return flops, flops / seconds


def compare(ranks, bf16, options):
    name = f"{ranks} rank{'s' if ranks > 1 else ''}, {'bf16' if bf16 else 'fp32'}, {TOKENS} tokens a step"
    steps, rounds = (3, 1) if options.quick else (5, 3)
    turns = measure.Turns(rounds, {each: lambda each=each: train(each, ranks, bf16, steps) for each in OPTIMIZERS})
    if why := turns.why_not(*OPTIMIZERS):
        return without(f"{name}: added time / FLOPs of the iteration", why, WANTED)
    kinds = [run.more["run"]["timings"]["kinds"] for run in turns.runs["Muon"]]
    flops = rate_of(kinds[0], "ortho")[0]
    products = statistics.median(rate_of(each, "linear", "linear_dx", "linear_dw")[1] for each in kinds)
    adam_ms, muon_ms = (turns.median_ms(each) for each in OPTIMIZERS)
    bound_ms = flops / products * 1e3
    return result(f"{name}: added time / FLOPs of the iteration at the rate of the step's products",
                  round((muon_ms - adam_ms) / bound_ms, 3), WANTED, "",
                  f"AdamW {adam_ms:.0f} ms, Muon {muon_ms:.0f}; {flops / 1e9:.0f} GFLOP a rank, products "
                  f"{products / 1e9:.0f} GFLOP/s")


def main():
    options = measure.options()
    for ranks, bf16 in ((1, False), (1, True), (2, False)):
        compare(ranks, bf16, options)


main()
