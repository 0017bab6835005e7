"""GPT-2 124M on one process: zr beside PyTorch eager, in fp32 and bf16, and beside what the machine can do."""
import pathlib
import statistics

import measure
from measure import result, without

BATCH = 4


def peaks(seq, env=None):
    """What `zr info --bench` says of this machine and model, now."""
    return measure.run_json([measure.ZR, "info", "--bench", "--json", "--preset", "gpt2-124m", "--batch", BATCH,
                             "--seq", seq], 300, env)


def fma(told):
    """FLOP/s of fused multiply-adds on all cores, at the level that runs."""
    return next((level["fma_f32_all_flops"] for level in told["levels"] if level["level"] == told["level"]), None)


def model_flops(told):
    """Of a step: the products, and the rest, which is attention without regard to its mask, as the papers count."""
    return told["flops"] / (1.0 - told["rest_flops_share"])


def needed_attention(told):
    """FLOPs of a step's attention that the mask leaves: half."""
    return 0.5 * (model_flops(told) - told["flops"])


def limits(turns, name, seq, measured):
    """Beside the machine's limit: the kernels' rate for each product where AVX-512 is, the peak below it."""
    what, level = f"{name}, T {seq}: share of the ", measured[0]["level"]
    if why := turns.why_not(name):
        return without(what + "machine's limit", why)
    step_sec = turns.median_ms(name) / 1e3
    bound_sec = statistics.median(told["bound_sec"]["f32"] + needed_attention(told) / fma(told) for told in measured)
    result(what + "bound: each product at its own rate, attention at the peak", round(bound_sec / step_sec, 3),
           ">= 0.8" if level.startswith("v4") else None, "", f"bound {bound_sec:.3f} s, step {step_sec:.3f} s")
    peak, rate = statistics.median(fma(told) for told in measured), model_flops(measured[0]) / step_sec
    result(what + "measured fp32 peak", round(rate / peak, 3), ">= 0.7" if level == "v3" else None, "",
           f"{rate / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s; attention counted without regard to its mask")
    return None


def machine_limits(turns, name, seq, before, env=None):
    """The machine's rates are measured before and after, for they drift with what else runs on it."""
    limits(turns, name, seq, [before, peaks(seq, env)])


def compare(options, machine, seq):
    steps, rounds = (3, 1) if options.quick else (4, 2) if seq == 1024 else (9, 3)
    sizes = {"batch": BATCH, "seq": seq, "steps": steps}
    products = machine["bf16_products"]
    systems = {"zr fp32": lambda: measure.gpt2_zr(**sizes), "PyTorch fp32": lambda: measure.gpt2_torch(**sizes),
               "zr bf16": lambda: measure.gpt2_zr(bf16=True, **sizes)}
    # Without bf16 instructions a step of PyTorch's takes ten minutes. zr takes none that are slower than those of fp32.
    instructions = products or "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    if instructions:
        systems["PyTorch bf16"] = lambda: measure.gpt2_torch(bf16=True, **sizes)
    before = peaks(seq) if seq == 1024 else None
    turns = measure.Turns(rounds, systems)

    turns.speed(f"fp32, T {seq}: zr / PyTorch", "zr fp32", "PyTorch fp32", ">= 1.4")
    if seq == 1024:
        machine_limits(turns, "zr fp32", seq, before)
        memory(turns)
    if instructions:
        turns.speed(f"bf16, T {seq}: zr / PyTorch", "zr bf16", "PyTorch bf16", ">= 1.4")
    turns.speed(f"zr, T {seq}: bf16 / fp32", "zr bf16", "zr fp32", ">= 1.6" if products else ">= 0.9")


def memory(turns):
    what, wanted = "fp32, T 1024: peak resident set, zr / PyTorch", "<= 0.5"
    if why := turns.why_not("zr fp32", "PyTorch fp32"):
        return without(what, why, wanted)
    ours, theirs = turns.rss_bytes("zr fp32"), turns.rss_bytes("PyTorch fp32")
    return result(what, round(ours / theirs, 3), wanted, "x", f"{ours / 1e9:.2f} GB against {theirs / 1e9:.2f} GB")


def forced(options, machine):
    """The level without AVX-512 and bf16 products, on a machine that has more."""
    if machine["kernels"] in ("v2", "v3", "base"):
        return
    env = {"ZR_KERNELS": "v3"}
    sizes = {"batch": BATCH, "seq": 1024, "steps": 3 if options.quick else 4, "env": env}
    before = peaks(1024, env)
    turns = measure.Turns(1 if options.quick else 2, {
        "zr v3 fp32": lambda: measure.gpt2_zr(**sizes),
        "zr v3 bf16": lambda: measure.gpt2_zr(bf16=True, **sizes)})
    machine_limits(turns, "zr v3 fp32", 1024, before, env)
    turns.speed("zr at level v3, T 1024: bf16 / fp32", "zr v3 bf16", "zr v3 fp32", ">= 0.9")


def main():
    options, machine = measure.options(), measure.info()
    compare(options, machine, 64)
    compare(options, machine, 1024)
    if options.long:
        forced(options, machine)


main()
