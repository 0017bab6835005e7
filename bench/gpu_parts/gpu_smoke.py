"""The part "smoke" of bench/gpu: in seconds, whether a GPU trains at all. Also the processor's losses, which a kit
brings along, and the part "log"."""
import gpu_measure
from gpu_measure import LOGS
from gpu_training import GOLDEN, apart
from measure import Failed

STEPS = 5


def cases(bench):
    """Yield the runs: name, model and type."""
    for (name, model), dtypes in ((bench.sizes["golden"], ("fp32", "bf16")), (bench.sizes["small"], ("bf16",))):
        for dtype in dtypes:
            yield f"{name} {dtype}", model, dtype


def config(bench, model, dtype, device):
    return bench.config(model, 2, STEPS, dtype, bench.sizes["golden_seq"], device=device)


def losses_of_processor(bench):
    """Return the losses of a processor, by the names of the runs."""
    return {name: bench.train(config(bench, model, dtype, "cpu"), stop_after=STEPS, limit=600).losses()[:STEPS]
            for name, model, dtype in cases(bench)}


def smoke(bench):
    told = bench.command([gpu_measure.ZR, "info"], 8, ask=True)
    (LOGS / "info.log").write_text(told.stdout + told.stderr)
    gpus = [line for line in told.stdout.splitlines() if line.startswith("gpu")]
    bench.row("zr info", len(gpus), None, None, "lines", "; ".join(gpus)[:200])
    for name, model, dtype in cases(bench):
        what, wanted = f"{name}: {STEPS} losses, apart from the processor's", GOLDEN[dtype]
        with bench.measuring(what, wanted):
            theirs = bench.references.get(name)
            if not theirs:
                raise Failed("the processor's losses are not known")
            # the first run also loads the libraries from the disk
            limit = max(1, min(12, bench.left() - 0.5))
            ours = bench.train(config(bench, model, dtype, "cuda"), stop_after=STEPS, limit=limit).losses()[:STEPS]
            bench.result(what, float(f"{apart(ours, theirs):.3g}"), wanted, "",
                         f"relative; {', '.join(f'{loss:.5f}' for loss in ours)}")


# ---- the library of products -----------------------------------------------------------------------


def log(bench):
    """Keep what cuBLASLt says about the products of one training step, with the algorithm of each."""
    path = LOGS / "cublaslt.log"
    batch = bench.sizes["small_batches"][-1]
    what = f"{bench.sizes['small'][0]} bf16, B {batch}: products in cuBLASLt's log of one step"
    with bench.measuring(what):
        bench.train_now(bench.config(bench.sizes["small"][1], batch, 1), 1, [], 1, 15,
                        {"CUBLASLT_LOG_LEVEL": "2", "CUBLASLT_LOG_FILE": str(path)})
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        products = [line for line in lines if "cublasLtMatmul]" in line or "cublasLtMatmul(" in line]
        if not products:
            raise Failed(f"cuBLASLt has written {len(lines)} lines, none about a product")
        bench.row(what, len(products), None, None, "", f"{path.name} among the logs")
