"""Two hosts of one rank each: the part of the communication that is hidden under computation."""
import functools
import json
import math
import statistics

import measure
from measure import result, without
from namespaces import Hosts, Unavailable

CASES = [(stage, accum) for accum in (1, 4) for stage in (1, 2, 3)]  # accum: number of micro-batches in a step
# with many units, the first gather and the last reduction, which cannot overlap, are a small part
LAYERS, WIDTH, SEQ = 24, 256, 64
AIM, CONDITION = 1.75, "1.5 .. 2.1"  # compute / communication for which the batch is chosen, and its bounds
SHARE = "exposed communication, share of the time that it ran"
MICROS, BOUND = 8, 0.5  # for the comparison of orders: micro-batches, and compute / communication
ORDERS = f"stage 3, {MICROS} micro-batches: step of the order micro / step of the order layer"
IN_TRACE = "stage 3: gathers that ran under an op, in the trace"
RUNNING = ("forward", "backward", "replay")


# ---- the runs ------------------------------------------------------------------------------------


def train(stage, accum, batch, steps, launch=(), arguments=()):
    config = measure.bytes_config(LAYERS, WIDTH, SEQ, stage, batch, steps, accum)
    return measure.train(config, launch, 2, ["--json", "--quiet", *arguments], 600, {"ZR_MPI": None})


def link_sec(run, hosts):
    """Return the time of a step's traffic at the link's rate. Both directions are used at the same time."""
    return run.more["run"]["planned"]["traffic"]["total"] / hosts.link_bytes_sec


@functools.cache
def choose_batch(stage, accum, hosts, aim=AIM):
    """Return the batch with which a step computes `aim` times as long as it communicates, from a line through two runs
    with thread ranks."""
    few, many = 2, 8
    runs = [train(stage, accum, batch, 4 if accum == 1 else 2) for batch in (few, many)]
    low, high = (statistics.median(run.step_ms) / 1e3 for run in runs)
    slope = max((high - low) / (many - few), 1e-4)
    wanted = aim * link_sec(runs[0], hosts)
    return min(64, max(1, math.ceil(few + (wanted - low) / slope)))


def timings(run):
    return json.loads(run.more["stdout"])["timings"]


class Stage:
    """Steps on one host and on two hosts, in turn, and the measured communication."""

    def __init__(self, stage, accum, batch, hosts, options):
        rounds, steps = (1, 4) if options.quick else (2, 8)
        if accum > 1:
            steps = 2 if options.quick else 4  # steps with several micro-batches take long
        turns = measure.Turns(rounds, {
            "one host": lambda: train(stage, accum, batch, steps),
            "two hosts": lambda: train(stage, accum, batch, steps, hosts.launch, ["--timings"])})
        if why := turns.why_not("one host", "two hosts"):
            raise why
        runs = turns.runs["two hosts"]
        self.batch, self.total = batch, link_sec(runs[0], hosts)
        self.local, self.remote = turns.median_ms("one host") / 1e3, turns.median_ms("two hosts") / 1e3
        self.compute, self.exposed, self.comm = (
            statistics.median(timings(run)[key] for run in runs) / 1e3
            for key in ("compute_ms", "exposed_ms", "comm_ms"))
        self.ratio = self.compute / self.total


def name_of(stage, accum):
    return f"stage {stage}" + (f", {accum} micro-batches" if accum > 1 else "")


def measure_stage(stage, accum, hosts, options):
    name, at = name_of(stage, accum), Stage(stage, accum, choose_batch(stage, accum, hosts), hosts, options)
    if not measure.holds(at.ratio, CONDITION):  # the speed of the machine has changed since the batch was chosen
        at = Stage(stage, accum, max(1, round(at.batch * AIM / at.ratio)), hosts, options)
    result(f"{name}: compute / communication, the condition", round(at.ratio, 2), CONDITION, "x",
           f"B {at.batch} a rank, T {SEQ}, {at.compute:.3f} s; communication {at.total:.3f} s at the link's rate")
    result(f"{name}: {SHARE}", round(at.exposed / at.comm, 3), "<= 0.15", "",
           f"{at.exposed:.3f} s of {at.comm:.3f} s; {at.exposed / at.total:.2f} of the {at.total:.3f} s that the "
           f"traffic takes at the link's rate; step {at.remote:.3f} s on two hosts, {at.local:.3f} s as threads of one")


def compare_orders(hosts, options):
    """Compare both orders of micro-batches (train.accumulation_order) on two hosts, in turn, with a batch so small that
    the link limits them."""
    batch = choose_batch(3, MICROS, hosts, BOUND)
    runs = {order: functools.partial(train, 3, MICROS, batch, 2 if options.quick else 4, hosts.launch,
                                     [f"--train.accumulation_order={order}"]) for order in ("micro", "layer")}
    turns = measure.Turns(1 if options.quick else 2, runs)
    if why := turns.why_not(*runs):
        raise why
    sec = {order: turns.median_ms(order) / 1e3 for order in runs}
    moved = {order: turns.runs[order][0].more["run"]["measured"]["traffic"] for order in runs}
    texts = [f"{order}: {sec[order]:.2f} s, {moved[order]['all_gather'] / 1e6:.1f} MB gathered of "
             f"{moved[order]['total'] / 1e6:.1f} MB received" for order in runs]
    result(ORDERS, round(sec["micro"] / sec["layer"], 2), ">= 1.5", "x", f"B {batch} a rank; " + "; ".join(texts))


def union(spans):
    """Return the union of spans as a sorted list without overlaps."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end])
    return merged


def overlap(begin, end, spans):
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)


def under_compute(events):
    """Return the fraction of the gathers that overlap with an op of the same rank, by number and by time."""
    events = [event for event in events if event.get("ph") == "X"]
    gathers, hidden, hidden_us = 0, 0, 0.0
    total_us = sum(event["dur"] for event in events if event["cat"] == "gather")
    for rank in {event["pid"] for event in events}:
        spans = union((e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == rank and e["cat"] in RUNNING)
        for event in (e for e in events if e["pid"] == rank and e["cat"] == "gather"):
            under_us = overlap(event["ts"], event["ts"] + event["dur"], spans)
            gathers, hidden, hidden_us = gathers + 1, hidden + (under_us > 0), hidden_us + under_us
    return gathers, hidden, hidden_us / max(total_us, 1e-9)


def trace(hosts):
    path = measure.OUT / "hosts-trace.json"
    try:
        train(3, 1, choose_batch(3, 1, hosts), 4, hosts.launch, ["--trace", path, "--trace-steps", "2:4"])
        gathers, hidden, share = under_compute(json.loads(path.read_text())["traceEvents"])
    except measure.Failed as error:
        return without(IN_TRACE, error, ">= 0.8")
    return result(IN_TRACE, round(hidden / max(gathers, 1), 3), ">= 0.8", "",
                  f"{hidden} of {gathers}, {100 * share:.0f} % of their time; {path.relative_to(measure.ROOT)}")


def main():
    options = measure.options()
    try:
        with Hosts(1) as hosts:
            result("link, one TCP stream", round(hosts.link_bytes_sec / 1e6, 1), None, "MB/s",
                   f"veth and tbf, 1 Gbit/s; {hosts.delay}")
            for stage, accum in CASES:
                try:
                    measure_stage(stage, accum, hosts, options)
                except measure.Failed as error:
                    without(f"{name_of(stage, accum)}: {SHARE}", error, "<= 0.15")
            try:
                compare_orders(hosts, options)
            except measure.Failed as error:
                without(ORDERS, error, ">= 1.5")
            trace(hosts)
    except Unavailable as why:
        measure.progress(f"NO TWO HOSTS HERE: {why}")
        for stage, accum in CASES:
            without(f"{name_of(stage, accum)}: {SHARE}", why, "<= 0.15")
        without(ORDERS, why, ">= 1.5")
        without(IN_TRACE, why, ">= 0.8")


main()
