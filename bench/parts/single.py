"""A model on one process: zr compared with PyTorch, eager and compiled, in fp32 and bf16, and with the machine's
limits."""
import pathlib
import statistics

import measure
from measure import result, without

BATCH = 4


def peaks(preset, seq, env=None):
    """Return the current result of `zr info --bench` for this machine and model."""
    return measure.run_json([measure.ZR, "info", "--bench", "--json", "--preset", preset, "--batch", BATCH,
                             "--seq", seq], 300, env)


def fma(told):
    """Return the FLOP/s of fused multiply-adds on all cores, at the processor level in use."""
    return next((level["fma_f32_all_flops"] for level in told["levels"] if level["level"] == told["level"]), None)


def model_flops(told):
    """Return the FLOPs of a step: the products, and attention without regard to its mask, as in the papers."""
    return told["flops"] / (1.0 - told["rest_flops_share"])


def needed_attention(told):
    """Return the FLOPs of a step's attention that are not masked, which are half."""
    return 0.5 * (model_flops(told) - told["flops"])


def limits(turns, system, what, dtype, measured):
    """Compare a step with the machine's limits: with AVX-512, the measured rate of each product; otherwise the fp32
    peak."""
    what, level = f"{what}: share of the ", measured[0]["level"]
    if why := turns.why_not(system):
        return without(what + "machine's limit", why)
    step_sec = turns.median_ms(system) / 1e3
    bound_sec = statistics.median(told["bound_sec"][dtype] + needed_attention(told) / fma(told) for told in measured)
    wanted = {"f32": ">= 0.8" if level.startswith("v4") else None, "bf16": None}[dtype]
    result(what + "bound: each product at its own rate, attention at the fp32 peak", round(bound_sec / step_sec, 3),
           wanted, "", f"bound {bound_sec:.3f} s, step {step_sec:.3f} s")
    if dtype == "f32":
        peak, rate = statistics.median(fma(told) for told in measured), model_flops(measured[0]) / step_sec
        result(what + "measured fp32 peak", round(rate / peak, 3), ">= 0.7" if level == "v3" else None, "",
               f"{rate / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s; attention counted without regard to its mask")
    return None


def has_bf16(machine):
    """Return whether to measure bf16. Without bf16 instructions, a step of PyTorch takes ten minutes. zr does not use
    bf16 instructions that are slower than fp32."""
    return machine["bf16_products"] or "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def compare(options, machine, preset, seq):
    """Time zr, PyTorch eager and PyTorch compiled in turn, in both types."""
    steps, rounds = (3, 1) if options.quick else (4, 2) if seq == 1024 else (9, 3)
    sizes = {"preset": preset, "batch": BATCH, "seq": seq, "steps": steps}
    types = ("fp32", "bf16") if has_bf16(machine) else ("fp32",)
    systems = {}
    for name in types:
        keys = {**sizes, "bf16": name == "bf16"}
        systems[f"zr {name}"] = lambda keys=keys: measure.zr_steps(**keys)
        systems[f"PyTorch {name}"] = lambda keys=keys: measure.torch_steps(**keys)
        systems[f"compiled {name}"] = lambda keys=keys: measure.torch_steps(compiled=True, **keys)
    if "bf16" not in types:
        systems["zr bf16"] = lambda: measure.zr_steps(bf16=True, **sizes)
    # Measure the machine's rates before and after, since they vary with other load.
    before = peaks(preset, seq) if seq == 1024 else None
    turns = measure.Turns(rounds, systems)
    measured = [before, peaks(preset, seq)] if before else []

    for name in types:
        what = f"{preset}, {name}, T {seq}"
        turns.speed(f"{what}: zr / PyTorch", f"zr {name}", f"PyTorch {name}", ">= 1.4")
        turns.speed(f"{what}: zr / PyTorch compiled", f"zr {name}", f"compiled {name}", ">= 1.4")
        if measured:
            limits(turns, f"zr {name}", what, "bf16" if name == "bf16" else "f32", measured)
            memory(turns, what, name)
    turns.speed(f"{preset}, zr, T {seq}: bf16 / fp32", "zr bf16", "zr fp32",
                ">= 1.6" if machine["bf16_products"] else ">= 0.9")


def memory(turns, what, name):
    what, wanted = f"{what}: peak resident set, zr / PyTorch", "<= 0.5" if name == "fp32" else None
    if why := turns.why_not(f"zr {name}", f"PyTorch {name}"):
        return without(what, why, wanted)
    ours, theirs = turns.rss_bytes(f"zr {name}"), turns.rss_bytes(f"PyTorch {name}")
    return result(what, round(ours / theirs, 3), wanted, "x", f"{ours / 1e9:.2f} GB against {theirs / 1e9:.2f} GB")


def forced(options, machine):
    """Measure the level without AVX-512 and bf16 products, on a machine with a higher level."""
    if machine["kernels"] in ("v2", "v3", "base"):
        return
    env, preset = {"ZR_KERNELS": "v3"}, measure.MODELS[0]
    sizes = {"preset": preset, "batch": BATCH, "seq": 1024, "steps": 3 if options.quick else 4, "env": env}
    before = peaks(preset, 1024, env)
    turns = measure.Turns(1 if options.quick else 2, {
        "zr v3 fp32": lambda: measure.zr_steps(**sizes),
        "zr v3 bf16": lambda: measure.zr_steps(bf16=True, **sizes)})
    limits(turns, "zr v3 fp32", f"{preset}, level v3, T 1024", "f32", [before, peaks(preset, 1024, env)])
    turns.speed("zr at level v3, T 1024: bf16 / fp32", "zr v3 bf16", "zr v3 fp32", ">= 0.9")


def main():
    options, machine = measure.options(), measure.info()
    for preset in measure.MODELS:
        compare(options, machine, preset, 64)
        compare(options, machine, preset, 1024)
    if options.long:
        forced(options, machine)


main()
