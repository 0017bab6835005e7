"""What `zr simulate --cluster this` says of a training step before it runs, beside the step as it then runs.

Rates come from `zr info --bench` alone, run just before; none of these models is among those that it trains.
"""
import contextlib
import json
import os
import shutil
import statistics
import tempfile

import measure
from namespaces import Hosts

LAYERS, BATCH = 4, 2
NARROW, WIDE, SHORT, LONG = 192, 384, 96, 320


class Case:
    """A configuration; keys: what of the document differs."""

    def __init__(self, width, seq, stage, bf16=False, accum=1, tensor=1, groups=0):
        self.name = (f"{width} wide, T {seq}, {'bf16' if bf16 else 'fp32'}, stage {stage}" +
                     (f", {accum} micro-batches" if accum > 1 else "") + (f", tensor {tensor}" if tensor > 1 else "") +
                     (f", groups of {groups}" if groups else ""))
        self.document = measure.bytes_config(LAYERS, width, seq, stage, BATCH, 1, accum, bf16)
        self.document["parallel"] = {"tensor": tensor}
        del self.document["train"]["threads"]
        if groups:
            self.document["zero_optimization"]["mics_shard_size"] = groups


class Launch:
    """Ranks that are started together: threads; processes of one host; or processes of two."""

    def __init__(self, name, ranks, cases, mpi=False, rate=None):
        self.name, self.ranks, self.cases, self.mpi, self.rate = name, ranks, cases, mpi, rate
        for case in cases if rate else ():  # both hosts would count all cores as their own
            case.document["train"]["threads"] = 1

    @contextlib.contextmanager
    def words(self):
        """Those before a command."""
        if self.rate:
            with Hosts(self.ranks // 2, self.rate) as hosts:
                yield hosts.launch
        elif not self.mpi:
            yield []
        elif shutil.which(measure.MPIRUN[0]):
            yield [*measure.MPIRUN, "-n", str(self.ranks)]
        else:
            raise measure.Missing("there is no mpirun")

    def told(self):
        """What the simulator has to know of it."""
        words = ["--ranks", self.ranks]
        if self.mpi:
            words += ["--transport", "mpi"]
        if self.rate:
            words += [f"--parallel.ranks_per_host={self.ranks // 2}"]
        return words


def launches():
    """24 configurations."""
    return [
        Launch("1 rank", 1, [Case(NARROW, SHORT, 0), Case(WIDE, LONG, 0), Case(WIDE, SHORT, 0, bf16=True),
                             Case(NARROW, LONG, 0, bf16=True)]),
        Launch("2 ranks", 2, [Case(NARROW, LONG, 0), Case(WIDE, SHORT, 1), Case(NARROW, SHORT, 2, bf16=True, accum=4),
                              Case(WIDE, LONG, 3), Case(WIDE, LONG, 3, bf16=True), Case(WIDE, SHORT, 0, tensor=2)]),
        Launch("4 ranks", 4, [Case(NARROW, SHORT, 0), Case(WIDE, LONG, 2), Case(WIDE, SHORT, 3, bf16=True),
                              Case(NARROW, LONG, 3, groups=2), Case(WIDE, SHORT, 1, tensor=2)]),
        Launch("2 processes", 2, [Case(WIDE, SHORT, 3), Case(NARROW, LONG, 1, bf16=True),
                                  Case(WIDE, LONG, 0, tensor=2)], mpi=True),
        Launch("2 hosts, 1 Gbit/s", 2, [Case(NARROW, LONG, 1), Case(WIDE, SHORT, 3),
                                        Case(NARROW, SHORT, 2, bf16=True, accum=4)], mpi=True, rate=1000),
        Launch("2 hosts of 2, 300 Mbit/s", 4, [Case(NARROW, LONG, 3), Case(WIDE, SHORT, 3, groups=2),
                                               Case(NARROW, SHORT, 2, bf16=True)], mpi=True, rate=300),
    ]


class Simulator:
    """Its own rates, beside those of the user."""

    def __init__(self, folder):
        self.env = {"XDG_CACHE_HOME": folder, "ZR_MPI": None}
        self.config = os.path.join(folder, "config.json")

    def calibrate(self, launch, words):
        """Without a launcher: ranks that are threads, and what a launcher's ranks do not measure."""
        measure.progress(f"zr info --bench, {launch.name}")
        threads = ["--threads", "1"] if launch.rate else []
        measure.run([*words, measure.ZR, "info", "--bench", "--quiet", *threads], 600, self.env)

    def step(self, launch, case):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(case.document, file)
        return measure.run_json([measure.ZR, "simulate", self.config, "--cluster", "this", *launch.told(), "--json",
                                 "--quiet"], 60, self.env)


def train(launch, case, words, step_sec, env):
    """As many steps as take a second, and not so few that one decides."""
    case.document["train"]["steps"] = min(400, max(8, round(1 / step_sec)))
    return measure.train(case.document, words, launch.ranks, ["--quiet", "--timings"], 300, env)


def compare(launch, case, told, runs):
    """The deviation of the time, and that of the exposed communication's share."""
    step_ms = statistics.median(statistics.median(run.step_ms) for run in runs)
    timings = [run.more["run"]["timings"] for run in runs]
    exposed = statistics.median(times["exposed_ms"] / times["step_ms"] for times in timings)
    off = told["step_sec"] * 1e3 / step_ms - 1
    exposed_off = told["exposed_sec"] / told["step_sec"] - exposed
    measure.result(f"{launch.name}: {case.name}: simulated / measured - 1", round(off, 3), None, "",
                   f"{told['step_sec'] * 1e3:.2f} ms, measured {step_ms:.2f}; exposed "
                   f"{told['exposed_sec'] / told['step_sec']:.3f} of it, measured {exposed:.3f}")
    return off, exposed_off


def measure_launch(simulator, launch, rounds):
    """The deviations of its cases."""
    with launch.words() as words:
        simulator.calibrate(launch, words)
        told = [simulator.step(launch, case) for case in launch.cases]
        turns = measure.Turns(rounds, {
            case.name: lambda case=case, told=one: train(launch, case, words, told["step_sec"], simulator.env)
            for case, one in zip(launch.cases, told)})
    for case in launch.cases:
        if why := turns.why_not(case.name):
            raise why
    return [compare(launch, case, one, turns.runs[case.name]) for case, one in zip(launch.cases, told)]


def main():
    options = measure.options()
    rounds, off = 2 if options.quick else 5, []
    folder = tempfile.mkdtemp(dir=measure.OUT)
    try:
        simulator = Simulator(folder)
        for launch in launches():
            try:
                off += measure_launch(simulator, launch, rounds)
            except measure.Failed as error:
                measure.without(launch.name, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if off:
        of = f"of {len(off)} configurations"
        measure.result("median deviation of the step's time", round(statistics.median(abs(a) for a, _ in off), 3),
                       "<= 0.1", "", of)
        measure.result("largest deviation of the step's time", round(max(abs(a) for a, _ in off), 3), "<= 0.2", "", of)
        measure.result("largest difference of the exposed share", round(max(abs(b) for _, b in off), 3), "<= 0.05", "",
                       of)


main()
