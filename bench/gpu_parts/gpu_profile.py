"""The part "profile" of bench/gpu: Nsight Compute's numbers of eight kernels of a training step."""
import csv
import json
import pathlib
import tempfile

import gpu_measure
import gpu_tools
from gpu_measure import LOGS, Exited, Slow, place, weights_bytes
from measure import Failed, Missing

KERNELS = {"forward": "attention", "make_dq": "attention_dx, queries", "make_dk_dv": "attention_dx, keys and values",
           "norm_rows": "layernorm", "norm_dx_rows": "layernorm_dx", "norm_dw_runs": "layernorm_dw",
           "zr__loss_kernel": "linear_cross_entropy, rows of logits", "square_parts": "squares of gradients"}
METRICS = {"gpu__time_duration.sum": "us", "sm__throughput.avg.pct_of_peak_sustained_elapsed": "arithmetic %",
           "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "memory %",
           "sm__warps_active.avg.pct_of_peak_sustained_active": "warps %", "launch__registers_per_thread": "registers"}
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "MemoryWorkloadAnalysis", "WarpStateStats", "SourceCounters")


def number(text):
    return float(text.replace(",", ""))


def tell_kernels(bench, told):
    """Report each kernel of Nsight Compute's table, whose second line has the units."""
    lines = told[told.index('"ID"'):].splitlines() if '"ID"' in told else []
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]
    bench.details["profile"] = rows
    for kernel, what in KERNELS.items():
        row = next((row for row in rows if row["Kernel Name"].split("(")[0].split("<")[0].endswith(kernel)), None)
        if row is None:
            bench.without(f"{what} ({kernel})", Failed("Nsight Compute saw no second launch of it"))
            continue
        shown = {word: number(row[name]) for name, word in METRICS.items() if row.get(name)}
        sec = shown.pop("us", None)
        bench.speed(f"{what} ({kernel})", sec, None, "us", ", ".join(f"{n:.0f} {word}" for word, n in shown.items()))


def profile(bench):
    ncu = gpu_tools.find("ncu")
    if not ncu:
        raise Missing("there is no Nsight Compute (ncu)")
    report = LOGS / "kernels.ncu-rep"
    batch = bench.sizes["small_batches"][-1]
    document = bench.config(bench.sizes["small"][1], batch, 1)
    around = place(weights_bytes(document["model"]), False)
    with tempfile.TemporaryDirectory(dir=around) as folder:
        path = pathlib.Path(folder) / "config.json"
        document["train"]["output_dir"] = f"{folder}/run"
        path.write_text(json.dumps(document))
        # The second launch of each kernel: the first one also loads its code. The GPU's clock is left alone.
        words = [ncu, "--force-overwrite", "--export", report, "--clock-control", "none", "--target-processes", "all",
                 *(word for section in SECTIONS for word in ("--section", section)), "--metrics", ",".join(METRICS),
                 "--kernel-name-base", "function", "--kernel-id", f"::regex:^({'|'.join(KERNELS)})$:2",
                 gpu_measure.ZR, "train", path, "--quiet"]
        try:
            ended = bench.command(words, max(1, bench.left() - 8), merged=True)
            (LOGS / "ncu.log").write_text(ended.stdout)
            told = bench.command([ncu, "--import", report, "--csv", "--page", "raw"], 8).stdout
        except (Exited, Slow) as error:
            raise Missing(f"Nsight Compute: {error}") from None
    tell_kernels(bench, told)
