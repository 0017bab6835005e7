"""Two hosts of two ranks each: traffic between the hosts and step times, with flat collectives and with two levels, and
with quantised exchanges (ZeRO++), also as `zr simulate` predicts them.

The model is wide and its batch small, so that communication takes most of a step.
"""
import shutil
import statistics
import tempfile
from types import SimpleNamespace

import measure
from measure import result, without
from namespaces import Hosts, Unavailable
from simulate import Simulator

STAGES = (2, 3)
RANKS_PER_HOST = 2
RANKS = 2 * RANKS_PER_HOST
LAYERS, WIDTH, SEQ, BATCH = 4, 768, 16, 1
WAYS = {"flat": False, "two levels": "auto"}
TRAVELS = "bytes on the cable, two levels / flat"
QUANTISED = ("zero_quantized_weights", "zero_quantized_gradients")
AS_PLANNED = "bytes on the cable, measured / planned"
STEP = "step, two levels / flat"
HALF, SAME = "0.45 .. 0.55", "0.95 .. 1.05"
# For each dtype: wanted traffic of collectives in two levels, relative to flat ones, for gathers and for reductions.
# The partial sums of 16-bit gradients are sent in fp32.
LEAVES = {"fp32": {"gathers": HALF, "reductions": HALF}, "bf16": {"gathers": HALF, "reductions": SAME}}
HEADERS = "1 .. 1.1"  # the interface also counts headers and acknowledgements


def train(hosts, way, stage, bf16, steps):
    """Train, and store in `crossed` the bytes sent over the cable during the run."""
    keys = {"collectives": {"hierarchical": WAYS[way]}}
    config = measure.bytes_config(LAYERS, WIDTH, SEQ, stage, BATCH, steps, bf16=bf16, **keys)
    before = hosts.crossed()
    run = measure.train(config, hosts.launch, RANKS, ["--quiet"], 600, {"ZR_MPI": None})
    run.more["crossed"] = hosts.crossed() - before
    return run


def planned_bytes(run):
    """Return the planned bytes that all ranks send between the hosts in a step."""
    return RANKS * run.more["run"]["planned"]["traffic"]["across_hosts"]["total"]


def step_bytes(short, long):
    """Return the bytes sent over the cable in a step. The start and the end of a run cancel out in the difference of
    two runs."""
    steps = len(long.step_ms) - len(short.step_ms)
    return (long.more["crossed"] - short.more["crossed"]) / steps


def report_bytes(name, way, sent, planned):
    result(f"{name}, {way}: {AS_PLANNED}", round(sent / planned, 4), HEADERS, "",
           f"{sent / 1e6:.2f} MB a step, both directions; planned {planned / 1e6:.2f} MB")


def report_time(name, dtype, turns, hosts):
    """Report the step times. Only fp32 has a wanted value: in bf16 the reductions send as many bytes as flat
    reductions."""
    each = [statistics.median(b.step_ms) / statistics.median(a.step_ms)
            for a, b in zip(turns.runs["flat"], turns.runs["two levels"])]
    shares = []
    for way in WAYS:
        # each direction has a half of the bytes
        link_ms = planned_bytes(turns.runs[way][0]) / 2 / hosts.link_bytes_sec * 1e3
        shares.append(f"{way} {turns.median_ms(way):.0f} ms ({link_ms:.0f} at the link's rate)")
    result(f"{name}: {STEP}", round(statistics.median(each), 3), "<= 0.65" if dtype == "fp32" else None, "",
           f"{'; '.join(shares)}; each round {', '.join(f'{ratio:.2f}' for ratio in each)}")


def measure_stage(hosts, stage, dtype, options):
    """Measure steps of a stage. Return the bytes that a step sends between the hosts, with flat collectives and in two
    levels."""
    name, bf16 = f"stage {stage}, {dtype}", dtype == "bf16"
    rounds, steps = (1, 3) if options.quick else (3, 6)
    short = {way: train(hosts, way, stage, bf16, 1) for way in WAYS}
    turns = measure.Turns(rounds, {way: lambda way=way: train(hosts, way, stage, bf16, steps) for way in WAYS})
    if why := turns.why_not(*WAYS):
        raise why
    sent = {way: step_bytes(short[way], turns.runs[way][0]) for way in WAYS}
    for way in WAYS:
        report_bytes(name, way, sent[way], planned_bytes(turns.runs[way][0]))
    report_time(name, dtype, turns, hosts)
    return sent


def report_parts(dtype, sent):
    """Report gathers and reductions separately. Stage 2 gathers once and reduces once per step, and stage 3 gathers
    once more."""
    gathers = {way: sent[3][way] - sent[2][way] for way in WAYS}
    parts = {"gathers": gathers, "reductions": {way: sent[2][way] - gathers[way] for way in WAYS}}
    for part, wanted in LEAVES[dtype].items():
        flat, levels = (parts[part][way] for way in WAYS)
        result(f"{dtype}: {part}, {TRAVELS}", round(levels / flat, 4), wanted, "",
               f"{levels / 1e6:.2f} MB against {flat / 1e6:.2f}, from the difference of stages 3 and 2")


def quantised_config(quantised, steps):
    """Return a configuration at stage 3 with hpZ, in two levels."""
    config = measure.bytes_config(LAYERS, WIDTH, SEQ, 3, BATCH, steps, bf16=True,
                                  collectives={"hierarchical": "auto"})
    config["zero_optimization"]["zero_hpz_partition_size"] = RANKS_PER_HOST
    for key in QUANTISED:
        config["zero_optimization"][key] = quantised
    return config


def train_quantised(hosts, quantised, steps):
    return measure.train(quantised_config(quantised, steps), hosts.launch, RANKS, ["--quiet"], 600, {"ZR_MPI": None})


def simulate_quantised(hosts, rate):
    """Measure the rates of the launch. Return the milliseconds that a step takes by `zr simulate`, exact and
    quantised."""
    folder = tempfile.mkdtemp(dir=measure.OUT)
    try:
        simulator = Simulator(folder)
        simulator.calibrate(SimpleNamespace(name="one host", rate=None), [])
        simulator.calibrate(SimpleNamespace(name=f"2 hosts, {rate} Mbit/s", rate=rate), hosts.launch)
        told = SimpleNamespace(told=lambda _: ["--ranks", RANKS, "--transport", "mpi",
                                               f"--parallel.ranks_per_host={RANKS_PER_HOST}"])
        return {way: 1e3 * simulator.step(told, SimpleNamespace(
            document=quantised_config(way == "quantised", 1)))["step_sec"] for way in ("exact", "quantised")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report_quantised(rate, wanted, options):
    """Report how many times as fast a step is with quantised exchanges, on a link of `rate` Mbit/s."""
    rounds, steps = (1, 3) if options.quick else (2, 6)
    with Hosts(RANKS_PER_HOST, rate) as hosts:
        told_ms = simulate_quantised(hosts, rate)
        turns = measure.Turns(rounds, {way: lambda way=way: train_quantised(hosts, way == "quantised", steps)
                                       for way in ("exact", "quantised")})
        if why := turns.why_not("exact", "quantised"):
            raise why
    ms = {way: turns.median_ms(way) for way in turns.runs}
    sent = {way: planned_bytes(runs[0]) / RANKS / 1e6 for way, runs in turns.runs.items()}
    result(f"{rate} Mbit/s, bf16, hpZ: step, exact / quantised", round(ms["exact"] / ms["quantised"], 2), wanted, "",
           f"{ms['exact']:.0f} and {ms['quantised']:.0f} ms; across hosts {sent['exact']:.1f} and "
           f"{sent['quantised']:.1f} MB a rank")
    for way in turns.runs:
        result(f"{rate} Mbit/s, {way}: step, simulated / measured", round(told_ms[way] / ms[way], 3), "0.9 .. 1.1", "",
               f"{told_ms[way]:.0f} ms, measured {ms[way]:.0f}")


def main():
    options = measure.options()
    try:
        for rate, wanted in ((300, ">= 2"), (1000, None)):
            try:
                report_quantised(rate, wanted, options)
            except measure.Failed as error:
                without(f"{rate} Mbit/s, quantised exchanges", error, wanted)
        with Hosts(RANKS_PER_HOST) as hosts:
            for dtype in LEAVES:
                try:
                    report_parts(dtype, {stage: measure_stage(hosts, stage, dtype, options) for stage in STAGES})
                except measure.Failed as error:
                    without(f"{dtype}: {TRAVELS}", error, HALF)
    except Unavailable as why:
        measure.progress(f"NO TWO HOSTS HERE: {why}")
        for dtype in LEAVES:
            without(f"{dtype}: {TRAVELS}", why, HALF)
        without(f"fp32: {STEP}", why, "<= 0.65")


main()
