"""The same training step as gpt2_torch.py's in zr: runs `zr train` and prints the same JSON object.

    python gpt2_zr.py BUILD_DIR --ranks 2 --stage 3 --batch 2 --seq 64 [--bf16] [--mpi]
"""
import argparse
import json
import pathlib
import random
import shlex
import shutil
import statistics
import struct
import subprocess
import tempfile

LAUNCH = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n {}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--mpi", action="store_true", help="ranks are processes instead of threads")
    options = parser.parse_args()

    folder = pathlib.Path(tempfile.mkdtemp(dir=options.build))
    random.seed(1234)
    tokens = [random.randrange(50257) for _ in range(100_000)]
    (folder / "train.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    config = {
        "model": {"preset": "gpt2-124m"},
        "data": {"train": str(folder / "train.bin"), "seq_length": options.seq},
        "train_micro_batch_size_per_gpu": options.batch,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "bf16": {"enabled": options.bf16},
        "zero_optimization": {"stage": options.stage},
        "train": {"steps": options.steps, "output_dir": str(folder / "run"), "eval_interval": 0},
    }
    (folder / "config.json").write_text(json.dumps(config))
    command = [str(options.build / "zr"), "train", str(folder / "config.json"), "--quiet"]
    if options.mpi:
        command = shlex.split(LAUNCH.format(options.ranks)) + command
    elif options.ranks > 1:
        command += ["--ranks", str(options.ranks)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "step_ms" in line]
    run = json.loads((folder / "run/run.json").read_text())
    step_ms = statistics.median(step["step_ms"] for step in steps[2:])
    print(json.dumps({
        "system": f"zr{options.stage}" + ("-mpi" if options.mpi else ""), "dtype": "bf16" if options.bf16 else "fp32",
        "ranks": options.ranks, "version": run.get("build"), "step_ms": round(step_ms, 1),
        "tokens_per_sec": round(options.batch * options.seq * options.ranks / step_ms * 1e3, 1),
        # Thread ranks share a process: its memory is divided among them.
        "peak_rss_bytes": run["peak_rss_bytes"] // (1 if options.mpi else options.ranks),
        "planned_bytes": run["planned"]["memory"]["total"], "loss": round(steps[-1]["loss"], 4)}))
    shutil.rmtree(folder)


main()
