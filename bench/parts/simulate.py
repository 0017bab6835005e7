"""Training steps as predicted by `zr simulate --cluster this`, compared with the same steps as measured.

All rates come from `zr info --bench`, which runs before every round of steps, so that changes in the machine's speed
affect both. The models are different from the models that `zr info --bench` trains.
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
    """A configuration for a number of ranks, with its simulated and its measured steps."""

    def __init__(self, ranks, width, seq, stage, bf16=False, accum=1, tensor=1, groups=0, layers=LAYERS, pipeline=1):
        self.ranks = ranks
        self.name = (f"{ranks} rank{'s' if ranks > 1 else ''}, {width} wide, T {seq}, {'bf16' if bf16 else 'fp32'}, "
                     f"stage {stage}" + (f", {accum} micro-batches" if accum > 1 else "") +
                     (f", tensor {tensor}" if tensor > 1 else "") + (f", groups of {groups}" if groups else "") +
                     (f", pipeline {pipeline}" if pipeline > 1 else ""))
        self.document = measure.bytes_config(layers, width, seq, stage, BATCH, 1, accum, bf16)
        self.document["parallel"] = {"tensor": tensor, "pipeline": pipeline}
        del self.document["train"]["threads"]
        if groups:
            self.document["zero_optimization"]["mics_shard_size"] = groups
        self.told, self.runs = [], []


class Launch:
    """Ranks that one run of `zr info --bench` measures: any number of threads, processes of one host, or processes of
    two hosts."""

    def __init__(self, name, cases, mpi=False, rate=None):
        self.name, self.cases, self.mpi, self.rate = name, cases, mpi, rate
        self.ranks = max(case.ranks for case in cases)
        for case in cases if rate else ():  # by default the ranks of each host would use all cores
            case.document["train"]["threads"] = 1

    @contextlib.contextmanager
    def words(self):
        """Yield the words before a command that launch it on the ranks."""
        if self.rate:
            with Hosts(self.ranks // 2, self.rate) as hosts:
                yield hosts.launch
        elif not self.mpi:
            yield []
        elif shutil.which(measure.MPIRUN[0]):
            yield [*measure.MPIRUN, "-n", str(self.ranks)]
        else:
            raise measure.Missing("there is no mpirun")

    def told(self, case):
        """Return the arguments that describe the launch to the simulator."""
        words = ["--ranks", case.ranks]
        if self.mpi:
            words += ["--transport", "mpi"]
        if self.rate:
            words += [f"--parallel.ranks_per_host={self.ranks // 2}"]
        return words


def launches():
    """Return the launches, with 24 configurations in total."""
    return [
        Launch("threads", [Case(1, NARROW, SHORT, 0), Case(1, WIDE, LONG, 0), Case(1, WIDE, SHORT, 0, bf16=True),
                           Case(1, NARROW, LONG, 0, bf16=True), Case(2, NARROW, LONG, 0), Case(2, WIDE, SHORT, 1),
                           Case(2, NARROW, SHORT, 2, bf16=True, accum=4), Case(2, WIDE, LONG, 3),
                           Case(2, WIDE, LONG, 3, bf16=True), Case(2, WIDE, SHORT, 0, tensor=2),
                           Case(4, NARROW, SHORT, 0), Case(4, WIDE, LONG, 2), Case(4, WIDE, SHORT, 3, bf16=True),
                           Case(4, NARROW, LONG, 3, groups=2), Case(4, WIDE, SHORT, 1, tensor=2)]),
        Launch("processes", [Case(2, WIDE, SHORT, 3), Case(2, NARROW, LONG, 1, bf16=True),
                             Case(2, WIDE, LONG, 0, tensor=2)], mpi=True),
        Launch("2 hosts, 1 Gbit/s", [Case(2, NARROW, LONG, 1), Case(2, WIDE, SHORT, 3),
                                     Case(2, NARROW, SHORT, 2, bf16=True, accum=4)], mpi=True, rate=1000),
        Launch("2 hosts, 300 Mbit/s", [Case(4, NARROW, LONG, 3), Case(4, WIDE, SHORT, 3, groups=2),
                                       Case(4, NARROW, SHORT, 2, bf16=True)], mpi=True, rate=300),
    ]


class Simulator:
    """The simulator, with its own measured rates beside the user's."""

    def __init__(self, folder):
        self.env = {"XDG_CACHE_HOME": folder, "ZR_MPI": None}
        self.config = os.path.join(folder, "config.json")

    def calibrate(self, launch, words):
        """Measure the rates of a launch. Without a launcher, `zr info --bench` measures ranks that are threads, and the
        rates that runs under a launcher leave out."""
        measure.progress(f"zr info --bench, {launch.name}")
        threads = ["--threads", "1"] if launch.rate else []
        measure.run([*words, measure.ZR, "info", "--bench", "--quiet", *threads], 600, self.env)

    def step(self, launch, case):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(case.document, file)
        return measure.run_json([measure.ZR, "simulate", self.config, "--cluster", "this", *launch.told(case), "--json",
                                 "--quiet"], 60, self.env)


def train(case, words, step_sec, env):
    """Train for about a second, but at least 8 steps, or 3 long ones, so that no single step decides."""
    case.document["train"]["steps"] = min(400, max(8 if step_sec < 4 else 3, round(1 / step_sec)))
    run = measure.train(case.document, words, case.ranks, ["--quiet", "--timings"], 300, env)
    times = run.more["run"]["timings"]
    return statistics.median(run.step_ms), times["exposed_ms"] / times["step_ms"]


def measure_launch(simulator, launch, rounds):
    with launch.words() as words:
        for number in range(rounds):
            simulator.calibrate(launch, words)
            for case in launch.cases:
                told = simulator.step(launch, case)
                case.told.append((told["step_sec"] * 1e3, told["exposed_sec"] / told["step_sec"]))
                case.runs.append(train(case, words, told["step_sec"], simulator.env))
                measure.progress(f"round {number + 1}: {launch.name}: {case.name}: {case.told[-1][0]:.1f} ms "
                                 f"simulated, {case.runs[-1][0]:.1f} ms measured")


def compare(launch, case):
    """Report the deviation of the step time. Return it, and the deviation of the exposed communication's share."""
    (told_ms, told_share), (step_ms, share) = ([statistics.median(column) for column in zip(*rows)]
                                               for rows in (case.told, case.runs))
    off = told_ms / step_ms - 1
    measure.result(f"{launch.name}: {case.name}: simulated / measured - 1", round(off, 3), None, "",
                   f"{told_ms:.2f} ms, measured {step_ms:.2f}; exposed {told_share:.3f} of it, measured {share:.3f}")
    return off, told_share - share


def main():
    options = measure.options()
    rounds, off = 2 if options.quick else 5, []
    folder = tempfile.mkdtemp(dir=measure.OUT)
    try:
        simulator = Simulator(folder)
        for launch in launches():
            try:
                measure_launch(simulator, launch, rounds)
            except measure.Failed as error:
                measure.without(launch.name, error)
            else:
                off += [compare(launch, case) for case in launch.cases]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if off:
        of = f"of {len(off)} configurations"
        measure.result("median deviation of the step's time", round(statistics.median(abs(a) for a, _ in off), 3),
                       "<= 0.1", "", of)
        measure.result("largest deviation of the step's time", round(max(abs(a) for a, _ in off), 3), "<= 0.2", "", of)
        measure.result("largest difference of the exposed share", round(max(abs(b) for _, b in off), 3), "<= 0.05", "",
                       of)


if __name__ == "__main__":
    main()
