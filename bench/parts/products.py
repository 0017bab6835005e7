"""The matrix products of a step of GPT-2 124M, each measured separately: rates relative to the peak of a loop in
registers, at each processor level."""
import measure

options = measure.options()
rounds = 2 if options.quick else 12


def at(level, dtype, tokens):
    env = {"ZR_KERNELS": level} if level else None
    try:
        measure.run([measure.ZR, "info"], 60, env)
    except measure.Failed:
        return measure.without(f"products in {dtype} at level {level}",
                               measure.Missing(f"the processor has no level {level}"))
    return measure.adopt_program(measure.OUT / "bench_products", [dtype, tokens, measure.CORES, rounds], env)


for tokens in (4096, 256):
    for level in ("v3", "v4"):
        at(level, "fp32", tokens)
    at(None, "bf16", tokens)
