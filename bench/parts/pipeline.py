"""Pipelines: beside data parallelism on one machine, and beside ZeRO stage 3 on two hosts with a slow link, where the
simulator predicts both."""
import shutil
import statistics
import tempfile

import measure
from simulate import Case, Launch, Simulator, measure_launch

MICROS = 8
BUBBLE = 1 / (MICROS + 1)  # of two pipeline ranks, as a share of the step
LOCAL = f"two processes of one thread, {MICROS} micro-batches: throughput of a pipeline / of data parallelism"
FASTEST = "2 hosts, 300 Mbit/s: shapes for which the pipeline is faster than stage 3"
OFF = "2 hosts, 300 Mbit/s: largest deviation of the predicted step time"
SHAPES = ((384, 96, 8, 8), (256, 64, 12, 4), (512, 64, 4, 8))  # width, tokens, layers, micro-batches


def train(pipeline, steps):
    config = measure.bytes_config(8, 384, 128, 0, 2, steps, MICROS if pipeline > 1 else MICROS // 2)
    config["parallel"] = {"pipeline": pipeline}
    return measure.train(config, [*measure.MPIRUN, "-n", "2"], 2, ["--quiet"], 300)


def one_machine(options):
    """Both have the same rows in a step: the ranks of a pipeline compute half of the layers for all micro-batches."""
    if not shutil.which(measure.MPIRUN[0]):
        return measure.without(LOCAL, "there is no mpirun")
    steps = 3 if options.quick else 8
    turns = measure.Turns(2 if options.quick else 4, {"pipeline": lambda: train(2, steps), "data": lambda: train(1, steps)})
    return turns.speed(LOCAL, "pipeline", "data", f">= {0.9 * (1 - BUBBLE):.2f}")


def two_hosts(options):
    cases = [[Case(2, width, seq, stage, accum=accum, layers=layers, pipeline=pipeline)
              for stage, pipeline in ((3, 1), (0, 2))] for width, seq, layers, accum in SHAPES]
    launch = Launch("2 hosts, 300 Mbit/s", [case for pair in cases for case in pair], mpi=True, rate=300)
    folder = tempfile.mkdtemp(dir=measure.OUT)
    simulator = Simulator(folder)
    try:
        simulator.calibrate(Launch("threads", launch.cases), [])  # rates that runs under a launcher leave out
        measure_launch(simulator, launch, 1 if options.quick else 3)
    except measure.Failed as error:
        measure.without(FASTEST, error, ">= 1")
        return measure.without(OFF, error, "<= 0.1")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    won, right, off = 0, 0, []
    for (zero, pipe), (width, seq, layers, accum) in zip(cases, SHAPES):
        told, took = ([statistics.median(row[0] for row in rows) for rows in pair]
                      for pair in ((zero.told, pipe.told), (zero.runs, pipe.runs)))
        won += took[1] < took[0]
        right += (told[1] < told[0]) == (took[1] < took[0])
        off += [abs(a / b - 1) for a, b in zip(told, took)]
        measure.result(f"{layers} layers, {width} wide, T {seq}, {accum} micro-batches: step at stage 3 / of the pipeline",
                       round(took[0] / took[1], 2), None, "x",
                       f"{took[0]:.1f} ms against {took[1]:.1f}; predicted {told[0]:.1f} and {told[1]:.1f}")
    measure.result(FASTEST, won, ">= 1", "", f"of {len(cases)}; the simulator names the faster one for {right}")
    return measure.result(OFF, round(max(off), 3), "<= 0.1", "", f"of {len(off)} configurations")


def main():
    options = measure.options()
    one_machine(options)
    two_hosts(options)


if __name__ == "__main__":
    main()
