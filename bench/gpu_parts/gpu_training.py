"""The parts of bench/gpu that train: speed, memory, ranks, the losses of the processor, idle time, the largest
model."""
import json
import statistics

from gpu_checks import cube_rate, product_rate
from gpu_measure import CONTEXT_BYTES, Late
from measure import OUT, Failed

# Wanted FLOP/s of a model relative to the rate of its own products, which is an upper bound: the rest of a step is
# attention and memory-bound kernels.
OF_PRODUCTS = {"small": ">= 0.65", "big": ">= 0.75"}
CONTEXT = f"<= {CONTEXT_BYTES / 1e9:.2f}"
RANKS = "<= 1.15"
GOLDEN = {"fp32": "<= 2e-05", "bf16": "<= 0.02"}
# wanted idle share of a step; time of the two events of each schedule step in a traced step
IDLE, EVENTS_SEC = 0.02, 2e-6

# Peak FLOP/s of bf16 products without sparsity, from data sheets. Of several matching names, the longest counts.
PEAKS = {"H100": 989e12, "H200": 989e12, "H100 PCIe": 756e12, "GH200": 989e12, "A100": 312e12}


def peak_of(name):
    fitting = [known for known in PEAKS if known in name]
    return PEAKS[max(fitting, key=len)] if fitting else None


# ---- runs that several parts look at -------------------------------------------------------------


def steps_of(bench, which):
    full, quick = {"small": (16, 6), "big": (10, 5), "fp32": (8, 5)}[which]
    return 3 if bench.options.tiny else quick if bench.options.quick else full


def small(bench):
    return bench.largest(bench.sizes["small"][1], bench.sizes["small_batches"], steps_of(bench, "small"))


def big(bench):
    return bench.largest(bench.sizes["big"][1], bench.sizes["big_batches"], steps_of(bench, "big"), limit=100)


def small_fp32(bench):
    return bench.largest(bench.sizes["small"][1], bench.sizes["fp32_batches"], steps_of(bench, "fp32"), "fp32")


# ---- training ------------------------------------------------------------------------------------


def breakdown(bench, name, which, batch, dtype):
    """Report the time of each kind of schedule step, from a separate run, since timing slows a run."""
    config = bench.config(bench.sizes[which][1], batch, 5, dtype)
    timings = bench.train(config, arguments=["--timings"], limit=100).run["timings"]
    bench.details.setdefault("timings", {})[f"{name} {dtype}"] = timings
    kinds = sorted(timings["kinds"], key=lambda kind: -kind["ms"])[:7]
    shares = ", ".join(f"{kind['kind']} {100 * kind['ms'] / timings['step_ms']:.0f} %" for kind in kinds)
    bench.row(f"{name} {dtype}: where the time goes", round(timings["step_ms"], 3), None, None, "ms", shares)


def mfu(bench, name, which, batch, run, dtype):
    sec = run.step_ms() / 1e3
    rate, seq = run.run["planned"]["flops"]["model"] / sec, bench.sizes["seq"]
    what = f"{name} {dtype}, B {batch}, T {seq}"
    speed = f"{1e3 * sec:.2f} ms a step, {batch * seq / sec:.0f} tokens/s"
    bench.details.setdefault("training", {})[f"{name} {dtype}"] = {
        "batch": batch, "step_ms": run.step_ms(), "flops_per_sec": rate, "taken_bytes": run.taken,
        "planned_bytes": run.run["planned"]["memory"]["total"], "wall_sec": run.wall_sec, "losses": run.losses()}
    bench.speed(f"{what}: model's FLOPs", round(rate / 1e12, 2), None, "TFLOP/s", speed)
    if dtype == "bf16" and bench.peak:
        bench.speed(f"{what}: MFU", round(rate / bench.peak, 4), None, "", f"of {bench.peak / 1e12:.0f} TFLOP/s")
    elif dtype == "bf16":
        bench.row(f"{what}: MFU", None, None, None, "", f"no peak is known for {bench.gpu['name']}")
    wanted = OF_PRODUCTS[which] if dtype == "bf16" else None
    with bench.measuring(f"{what}: share of its products' rate", wanted):
        own = product_rate(bench, dtype, bench.sizes["torch"][which][2])
        bench.speed(f"{what}: share of its products' rate", round(rate / own, 4), wanted, "",
                    f"of {own / 1e12:.1f} TFLOP/s, measured")
    with bench.measuring(f"{what}: share of the large product"):
        cube = cube_rate(bench, dtype)
        bench.speed(f"{what}: share of the large product", round(rate / cube, 4), None, "",
                    f"of {cube / 1e12:.1f} TFLOP/s, measured")


def training(bench):
    for which, make, dtype in (("small", small, "bf16"), ("big", big, "bf16"), ("small", small_fp32, "fp32")):
        name = bench.sizes[which][0]
        with bench.measuring(f"{name} {dtype}"):
            batch, run = make(bench)
            mfu(bench, name, which, batch, run, dtype)
            breakdown(bench, name, which, batch, dtype)


# ---- memory --------------------------------------------------------------------------------------


def as_planned(bench, what, run):
    same = run.run["planned"]["memory"] == run.run["measured"]["memory"]
    total = run.run["measured"]["memory"]["total"]
    bench.row(f"{what}: measured is planned", "yes" if same else "no", "yes", same, "", f"{total / 1e9:.3f} GB")


def beside_plan(bench, what, run, planned):
    """Report the memory of the context and the libraries, which the plan does not include."""
    if run.taken is None or run.taken < planned:
        seen = "nothing" if run.taken is None else f"{run.taken / 1e9:.2f} GB"
        bench.row(f"{what}: GPU memory beside the plan", None, CONTEXT, None, "",
                  f"from outside {seen} is seen of {planned / 1e9:.2f} GB planned")
        return
    bench.result(f"{what}: GPU memory beside the plan", round((run.taken - planned) / 1e9, 3), CONTEXT, "GB",
                 f"{run.taken / 1e9:.3f} GB taken, {planned / 1e9:.3f} planned")


def memory(bench):
    for which, make in (("small", small), ("big", big)):
        name = bench.sizes[which][0]
        with bench.measuring(name, CONTEXT):
            batch, run = make(bench)
            as_planned(bench, f"{name} bf16, B {batch}", run)
            beside_plan(bench, f"{name} bf16, B {batch}", run, run.run["planned"]["memory"]["total"])


# ---- ranks ---------------------------------------------------------------------------------------


def one_gpu_beside(bench):
    name, model = bench.sizes["small"]
    batch, steps = bench.sizes["ranks_batch"], steps_of(bench, "small")
    what = f"{name} bf16: 4 ranks x B {batch // 4}, stage 3 / 1 x B {batch}"
    with bench.measuring(what, RANKS):
        one = bench.train(bench.config(model, batch, steps))
        four = bench.train(bench.config(model, batch // 4, steps, stage=3), ranks=4)
        bench.speed(what, round(four.step_ms() / one.step_ms(), 3), RANKS, "x",
                    f"{four.step_ms():.2f} ms against {one.step_ms():.2f}")


def same_bits(bench):
    name, model = bench.sizes["small"]
    what = f"{name} bf16, 2 ranks: losses of the stages, to the bit"
    with bench.measuring(what, "the same"):
        runs = [bench.train(bench.config(model, bench.sizes["stages_batch"], 5, stage=stage), ranks=2)
                for stage in range(4)]
        differ = [stage for stage in range(4) if runs[stage].numbers() != runs[0].numbers()]
        bench.row(what, "the same" if not differ else "others", "the same", not differ, "",
                  f"last {runs[0].losses()[-1]:.9g}" + (f"; stages {differ} differ from stage 0" if differ else ""))


def pipeline(bench):
    """Compare a pipeline of 2 thread ranks, which copy messages to each other, with one rank."""
    name, model = bench.sizes["small"]
    what = f"{name} bf16, pipeline of 2 ranks: losses of one rank, to the bit"
    with bench.measuring(what, "the same"):
        alone, piped = (bench.train(bench.config(model, 1, 3, extra={"gradient_accumulation_steps": 4,
                                                                     "parallel": {"pipeline": ranks}}), ranks=ranks)
                        for ranks in (1, 2))
        same = piped.numbers() == alone.numbers()
        bench.row(what, "the same" if same else "others", "the same", same, "",
                  f"last {piped.losses()[-1]:.9g}; {piped.step_ms():.2f} ms against {alone.step_ms():.2f}")


def ranks(bench):
    one_gpu_beside(bench)
    same_bits(bench)
    pipeline(bench)


# ---- golden --------------------------------------------------------------------------------------


def apart(ours, theirs):
    """Return the largest relative difference, or infinity if a number is missing."""
    if len(ours) != len(theirs) or not ours or None in ours + theirs:
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def golden(bench):
    quick = bench.options.quick or bench.options.tiny
    steps, seq = 4 if quick else 10, bench.sizes["golden_seq"]
    for name, model in (bench.sizes["golden"], bench.sizes["small"]):
        for dtype, wanted in GOLDEN.items():
            what = f"{name} {dtype}: apart from the processor"
            with bench.measuring(what, wanted):
                runs = [bench.train(bench.config(model, 2, steps, dtype, seq, device=device))
                        for device in ("cuda", "cpu")]
                ours, theirs = (run.losses() for run in runs)
                worst = apart(ours, theirs)
                bench.details.setdefault("golden", {})[f"{name} {dtype}"] = {"cuda": ours, "cpu": theirs}
                bench.result(what, float(f"{worst:.3g}"), wanted, "",
                             f"losses, relative, the largest of {steps}; {ours[0]:.6g} to {ours[-1]:.6g}")


# ---- idle ----------------------------------------------------------------------------------------


def union(spans):
    """Return the time in which at least one of the spans runs."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def idle_shares(trace, compute_only=False):
    """Return, for each training step of rank 0, the fraction of the time in which no schedule step ran, and the spans
    of its schedule steps."""
    steps = {}
    streams = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"]
               if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == 0}
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or event["pid"] != 0:
            continue
        if streams.get(event["tid"]) == "compute" or not compute_only:
            spans = steps.setdefault(event["args"]["training_step"], [])
            spans.append((event["ts"], event["ts"] + event["dur"]))
    if not steps:
        raise Failed("the trace has no steps")
    return [1 - union(spans) / (max(end for _, end in spans) - min(begin for begin, _ in spans))
            for spans in steps.values()], steps


def idle(bench):
    name, model = bench.sizes["small"]
    batch, path = bench.sizes["traced_batch"], OUT / "gpu_trace.json"
    what = f"{name} bf16, B {batch}, T {bench.sizes['seq']}: idle share"
    with bench.measuring(what):
        path.unlink(missing_ok=True)
        plain = bench.train(bench.config(model, batch, steps_of(bench, "small")))
        bench.train_now(bench.config(model, batch, 8), 1, ["--trace", path, "--trace-steps", "5:8"], None, 60)
        trace = json.loads(path.read_text())
        shares, steps = idle_shares(trace)
        busy_ms = [union(spans) / 1e3 for spans in steps.values()]
        wanted = IDLE + EVENTS_SEC * max(map(len, steps.values())) / (1e-3 * plain.step_ms())
        compute = statistics.median(idle_shares(trace, True)[0])
        bench.speed(what, round(statistics.median(shares), 4), f"<= {wanted:.3f}", "",
                    f"between the first and the last event of a step; its stream compute alone {compute:.3f}; busy "
                    f"{statistics.median(busy_ms):.2f} ms, a step that is not traced takes {plain.step_ms():.2f}")


# ---- the largest model ---------------------------------------------------------------------------


def wide(bench, layers, steps):
    model = {**bench.sizes["wide"], "n_layer": layers}
    optimizer = {"type": "AdamW", "params": {"lr": bench.sizes["wide_lr"]}}
    return bench.config(model, 1, steps, stage=3, extra={
        "gradient_clipping": 0.0, "optimizer": optimizer, "memory": {"layout": "lean"},
        "activation_checkpointing": {"policy": "unit"}})


def most_layers(bench, free):
    """Return the largest number of layers that fits by plan, and the planned bytes. The bytes are expected to grow
    linearly with the layers, but the result does not rely on this."""
    def total(layers):
        return bench.plan(wide(bench, layers, 1))["memory"]["total"] + CONTEXT_BYTES

    two, four = total(2), total(4)
    layers = max(1, min(bench.sizes["most_layers"], 4 + int((free - four) // max(1, (four - two) // 2))))
    while layers > 1 and total(layers) > free:
        layers -= 1
    while layers < bench.sizes["most_layers"] and total(layers + 1) <= free:
        layers += 1
    return layers, total(layers) - CONTEXT_BYTES


def largest(bench):
    width = bench.sizes["wide"]["n_embd"]
    what = f"{width} wide, lean, recompute, B 1"
    with bench.measuring(f"{what}: measured is planned"):
        as_planned(bench, f"{what}: 1 layer", bench.train(wide(bench, 1, 2)))
    with bench.measuring(f"{what}: the largest"):
        layers, planned = most_layers(bench, bench.gpu["memory_free"])
        params = bench.plan(wide(bench, layers, 1))["params"]
        bench.row(f"{what}: layers that fit by plan", layers, None, None, "",
                  f"{params / 1e9:.2f} billion parameters, {planned / 1e9:.2f} GB of "
                  f"{bench.gpu['memory_free'] / 1e9:.2f}")
        # The run is killed before it writes its weights, for which the disk may have no room.
        run = bench.train(wide(bench, layers, 1000), stop_after=5, limit=100)
        losses = run.losses()[:5]
        told = f"{layers} layers, {params / 1e9:.2f} billion parameters"
        bench.row(f"{told}: the loss falls", round(losses[-1], 4), f"< {losses[0]:.4f}", losses[-1] < losses[0], "",
                  f"{', '.join(f'{loss:.4f}' for loss in losses)}; {run.step_ms():.1f} ms a step, {run.wall_sec:.0f} s "
                  "with start; killed after 5 steps, so that no weights are written")
        beside_plan(bench, told, run, planned)
