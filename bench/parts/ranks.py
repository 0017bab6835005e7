"""GPT-2 124M, fp32, on 2 ranks x B 2: every stage, compared with one process on all cores and with peers."""
import statistics

import measure

RANKS = 2
STAGES = (0, 1, 2, 3)


def ours(sizes):
    systems = {"one process": lambda: measure.zr_steps(batch=2 * RANKS, **sizes)}
    for stage in STAGES:
        systems[f"stage {stage}"] = lambda stage=stage: measure.zr_steps(RANKS, stage=stage, batch=2, **sizes)
    return systems


def theirs(sizes):
    names = {"DDP": "ddp", "FSDP2": "fsdp2", **{f"DeepSpeed {stage}": f"ds{stage}" for stage in STAGES}}
    return {name: lambda system=system: measure.torch_steps(system, RANKS, batch=2, **sizes)
            for name, system in names.items()}


def long_sequences(options):
    sizes = {"seq": 1024, "steps": 3 if options.quick else 4}
    turns = measure.Turns(1 if options.quick else 2, ours(sizes))
    for stage in STAGES:
        turns.speed(f"T 1024: stage {stage} / one process", f"stage {stage}", "one process", ">= 0.92")


def short_wanted(stage):
    return ">= 0.75" if stage == 0 else ">= 0.85"


def micro_batches(options):
    """Measure steps of several micro-batches. Thread ranks do not compute while they communicate, so all communication
    is exposed; it is reported as a share of the step."""
    sizes = {"seq": 64, "accum": 4, "steps": 2 if options.quick else 4, "arguments": ["--timings"]}
    turns = measure.Turns(1 if options.quick else 2, ours(sizes))
    for stage in STAGES:
        name, what = f"stage {stage}", f"T 64, 4 micro-batches: stage {stage}"
        turns.speed(f"{what} / one process", name, "one process", short_wanted(stage))
        exposed = f"{what}: exposed communication, share of the step"
        if why := turns.why_not(name):
            measure.without(exposed, why, "<= 0.15")
            continue
        told = [run.more["run"]["timings"] for run in turns.runs[name]]
        each = [times["exposed_ms"] / times["step_ms"] for times in told]
        measure.result(exposed, round(statistics.median(each), 3), "<= 0.15", "",
                       f"waiting for the other rank included; each round {', '.join(f'{one:.2f}' for one in each)}")


def short_sequences(options):
    sizes = {"seq": 64, "steps": 4 if options.quick else 8}
    mpi = {"stage 3, mpirun": lambda: measure.zr_steps(RANKS, mpi=True, stage=3, batch=2, **sizes)}
    turns = measure.Turns(1 if options.quick else 2, {**ours(sizes), **mpi, **theirs(sizes)})
    for stage in STAGES:
        turns.speed(f"T 64: stage {stage} / one process", f"stage {stage}", "one process", short_wanted(stage))
    turns.speed("T 64: stage 3 under mpirun / one process", "stage 3, mpirun", "one process")
    for stage in STAGES:
        turns.speed(f"T 64: stage {stage} / DeepSpeed's", f"stage {stage}", f"DeepSpeed {stage}", ">= 2.5")
    turns.speed("T 64: stage 0 / DDP", "stage 0", "DDP", ">= 1.4")
    turns.speed("T 64: stage 3 / FSDP2", "stage 3", "FSDP2", ">= 3")
    if options.long:
        half(options)


def half(options):
    """Measure the same in bf16, for the tables in the documentation, without wanted values."""
    sizes = {"seq": 64, "steps": 4 if options.quick else 8, "bf16": True}
    turns = measure.Turns(1, {**ours(sizes), **theirs(sizes)})
    for stage in STAGES:
        turns.speed(f"bf16, T 64: stage {stage} / DeepSpeed's", f"stage {stage}", f"DeepSpeed {stage}")
    turns.speed("bf16, T 64: stage 0 / DDP", "stage 0", "DDP")
    turns.speed("bf16, T 64: stage 3 / FSDP2", "stage 3", "FSDP2")


def main():
    options = measure.options()
    short_sequences(options)
    micro_batches(options)
    long_sequences(options)


main()
