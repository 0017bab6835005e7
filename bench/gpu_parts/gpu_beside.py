"""The part "torch" of bench/gpu: the same training steps and the same attention in PyTorch on a GPU."""
import json
import os
import shutil
import sys

import gpu_training
from gpu_checks import kernels_of
from gpu_kit import OUTSIDE
from gpu_measure import Exited, Watcher
from measure import PEERS, ROOT, Failed, Missing

SPEED = {"bf16": ">= 1.15", "fp32": ">= 1"}
MEMORY = "<= 0.6"
DEVICE = os.environ.get("GPU_TORCH_DEVICE", "cuda")  # "cpu" only tests this part
NO_MEMORY = 71


def find_python(bench):
    """Return a Python that can import torch and sees a GPU."""
    asked = "import sys, torch; sys.exit(0 if sys.argv[1] == 'cpu' or torch.cuda.is_available() else 3)"
    why = "no Python here has torch"
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), sys.executable, shutil.which("python3"),
                                PEERS / "python")):
        try:
            bench.command([python, "-c", asked, DEVICE], 60, {"LD_LIBRARY_PATH": OUTSIDE})
            return python
        except Exited as error:
            why = "torch sees no GPU" if error.code == 3 else why
        except Missing:
            raise
        except Failed:
            pass
    raise Missing(why)


def torch(bench, words, limit=200):
    python = bench.once("python", lambda: find_python(bench))
    program = ROOT / "bench/gpu_parts/gpu_torch.py"
    # deterministic algorithms require CUBLAS_WORKSPACE_CONFIG
    env = {"LD_LIBRARY_PATH": OUTSIDE, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    told = bench.command([python, "-B", program, *words, "--device", DEVICE], limit, env).stdout
    return json.loads(told.strip().splitlines()[-1])


def torch_training(bench, which, batch, dtype, more=()):
    """Train with PyTorch. Return its results, and the bytes of GPU memory that it took, measured from outside."""
    layers, heads, width = bench.sizes["torch"][which]
    words = ["train", "--layers", layers, "--heads", heads, "--width", width, "--vocab", bench.sizes["vocab"],
             "--seq", bench.sizes["seq"], "--batch", batch, "--steps", 6 if bench.options.quick else 12,
             *(["--bf16"] if dtype == "bf16" else []), *(["--plain"] if bench.options.tiny else []), *more]
    watcher = Watcher(bench)
    watcher.start()
    try:
        told = torch(bench, words)
    finally:
        taken = watcher.end()
    return told, taken


def with_memory(bench, which, batches, dtype, more=()):
    """Train with the largest of these batches for which PyTorch has enough memory."""
    for batch in batches:
        try:
            return batch, *torch_training(bench, which, batch, dtype, more)
        except Exited as error:
            if error.code != NO_MEMORY:
                raise
    raise Failed(f"PyTorch has no memory for any batch of {batches}")


def compare(bench, which, make, batches, dtype, more=()):
    name, model = bench.sizes[which]
    what = f"{name} {dtype}: zr / PyTorch"
    with bench.measuring(what, SPEED[dtype]):
        most, run = make(bench)
        batch, told, taken = with_memory(bench, which, [b for b in batches if b <= most], dtype, more)
        if batch != most:
            run = bench.train(bench.config(model, batch, gpu_training.steps_of(bench, which), dtype))
        bench.details.setdefault("torch", {})[f"{name} {dtype} {' '.join(more)}".strip()] = {**told, "batch": batch}
        bench.speed(what, round(told["step_ms"] / run.step_ms(), 3), SPEED[dtype], "x",
                    f"speed, B {batch}: {run.step_ms():.2f} ms against {told['step_ms']:.2f} of PyTorch "
                    f"{told['version']}, {told['how']}")
        compare_memory(bench, f"{name} {dtype}: memory, zr / PyTorch", run, told, taken)


def compare_memory(bench, what, run, told, taken):
    """Compare the memory of zr and PyTorch: both as reported by the driver, or else zr's by its plan and PyTorch's by
    its allocator."""
    planned = run.run["planned"]["memory"]["total"]
    seen = run.taken and taken and run.taken >= planned
    ours, theirs = (run.taken, taken) if seen else (planned, told["reserved_bytes"])
    if not theirs:
        bench.without(what, Missing("the memory that PyTorch took is not known"), MEMORY)
        return
    bench.speed(what, round(ours / theirs, 3), MEMORY, "x",
                f"{ours / 1e9:.2f} GB against {theirs / 1e9:.2f}, "
                f"{'as the driver tells' if seen else 'by plan and allocator'}; PyTorch's tensors alone "
                f"{told['allocated_bytes'] / 1e9:.2f}")


def attention(bench):
    """Compare bench_gpu's attention kernels with each of PyTorch's implementations."""
    sizes = bench.sizes["attention"]
    with bench.measuring("attention: zr / PyTorch"):
        lines = {line["what"]: line for line in kernels_of(bench, "attention")[0] if "sec" in line}
        told = torch(bench, ["attention", "--batch", sizes["batch"], "--heads", sizes["heads"],
                             "--dims", *sizes["dims"], "--seqs", *sizes["seqs"]], 100)
        bench.details.setdefault("torch", {})["attention"] = told
        for size in told["sizes"]:
            name = f"bf16, D {size['dim']}, T {size['seq']}"
            with bench.measuring(f"attention {name}: zr / PyTorch"):
                attention_of(bench, name, size, [lines.get(f"{name}: {op}") for op in ("attention", "attention_dx")])


def attention_of(bench, name, size, ours):
    if None in ours:
        raise Failed("bench_gpu told no time of it")
    ms = 1e3 * sum(line["sec"] for line in ours)
    for way, times in size["ways"].items():
        theirs = times["forward_ms"] + times["backward_ms"]
        bench.speed(f"attention {name}: zr / PyTorch, {way}", round(theirs / ms, 3), None, "x",
                    f"speed: {ms:.3f} ms against {times['forward_ms']:.3f} + {times['backward_ms']:.3f}")
    for way, why in size["failed"].items():
        bench.without(f"attention {name}: zr / PyTorch, {way}", Missing(why))


def part(bench):
    sizes = bench.sizes
    try:
        bench.once("python", lambda: find_python(bench))
    except Missing as error:
        bench.without("PyTorch beside zr", error)
        return
    compare(bench, "small", gpu_training.small, sizes["small_batches"], "bf16")
    attention(bench)
    compare(bench, "small", gpu_training.small_fp32, sizes["fp32_batches"], "fp32")
    if not bench.options.quick:
        compare(bench, "big", gpu_training.big, [b for b in sizes["big_batches"] if b <= 16], "bf16", ["--blocks"])
