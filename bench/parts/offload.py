"""States on disk, from the command: memory of large models, the update's rate, and how much of the transfers computing hides."""
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import threading

import measure
from measure import result, without

LIMIT_BYTES = 4e9
LARGE = ("qwen3-4b", "gpt3-2.7b", "gpt2-1.5b", "gpt2-774m")  # largest first


def homes(folder, params=False, stage=3):
    """The section zero_optimization with optimizer states, and parameters, in files of a folder."""
    disk = {"device": "nvme", "nvme_path": str(folder)}
    return {"stage": stage, "offload_optimizer": disk} | ({"offload_param": disk} if params else {})


def tokens(vocabulary=256):
    """A token file that a model can learn: few tokens, over and over."""
    path = measure.OUT / "learnable.bin"
    if not path.exists():
        path.write_bytes(b"".join((i * i % 97 % vocabulary).to_bytes(2, "little") for i in range(100_000)))
    return path


def config(preset, seq, steps, zero, bf16=True, clip=0.0, accum=1):
    told = measure.document({"preset": preset}, {"train": str(tokens()), "seq_length": seq, "order": "sequential"}, 3, 1,
                            steps, accum, bf16)
    told |= {"zero_optimization": zero, "gradient_clipping": clip, "activation_checkpointing": {"policy": "unit"}}
    told["optimizer"]["params"]["lr"] = 2e-4
    told["train"] |= {"save_end": False, "save_interval": 0, "save_model": False}
    return told


def planned(told):
    path = measure.OUT / "offload-plan.json"
    path.write_text(json.dumps(told))
    return measure.run_json([measure.ZR, "plan", path, "--json", "--quiet"], 300)


def disk_bytes(told):
    return planned(told)["memory"]["spaces"]["disk"]["total"]


def room(folder):
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def limited(folder, name, told, limit_bytes):
    """Trains a model that would not fit the limit in memory: its resident set, and its losses."""
    what = f"{name}: peak resident set"
    try:
        needs = disk_bytes(told)
        if needs > 0.95 * room(folder):
            raise measure.Missing(f"{needs / 1e9:.1f} GB of disk are needed, {room(folder) / 1e9:.1f} GB are free")
        run = measure.train(told, timeout=3000)
    except measure.Failed as error:
        return without(what, error, f"<= {limit_bytes / 1e9:g}")
    losses = [line["loss"] for line in run.more["metrics"] if "loss" in line]
    result(what, round(run.rss_bytes / 1e9, 2), f"<= {limit_bytes / 1e9:g}", "GB",
           f"{needs / 1e9:.1f} GB on disk; {statistics.median(run.step_ms) / 1e3:.1f} s a step; losses "
           f"{', '.join(f'{loss:.3f}' for loss in losses)}")
    return result(f"{name}: the loss falls", round(losses[0] - losses[-1], 3), ">= 0.01", "nats")


def largest(folder, options):
    """The largest model of the list whose states fit the disk."""
    for preset in LARGE if not options.quick else LARGE[-1:]:
        told = config(preset, 256, 3, homes(folder))
        if disk_bytes(told) <= 0.95 * room(folder):
            return limited(folder, f"{preset}, bf16, T 256, states on disk", told, 24e9)
        measure.progress(f"{preset}: {disk_bytes(told) / 1e9:.1f} GB do not fit the {room(folder) / 1e9:.1f} GB free")
    return None


def both_rates(folder, kind="both"):
    told = measure.run_json([measure.ZR, "info", "--bench", "--json", "--disk", folder], 600)
    return told["disk"][f"{kind}_bytes_sec"]


def update_rate(folder, options):
    """Bytes per second of the updates at the end of a step, beside what the folder gives reads and writes together."""
    preset, what = "gpt2-124m" if options.quick else "gpt2-350m", "update from disk, share of the disk's rate"
    runs = {name: config(preset, 64, 4, zero, bf16=True, clip=1.0) for name, zero in
            (("disk", homes(folder, stage=0)), ("memory", {"stage": 0}))}
    for told in runs.values():
        told["memory"] = {"layout": "paper"}
    try:
        rounds = 1 if options.quick else 3
        rates, shares = [], []
        moved = sum(planned(runs["disk"])["copied"][way] for way in ("disk_to_device", "device_to_disk"))
        for _ in range(rounds):
            took = {name: measure.train(told, arguments=["--quiet", "--timings"]) for name, told in runs.items()}
            update_ms = sum(row["ms"] for row in took["memory"].more["run"]["timings"]["kinds"]
                            if row["kind"].startswith("update"))
            sec = (statistics.median(took["disk"].step_ms) - statistics.median(took["memory"].step_ms) + update_ms) / 1e3
            rates.append(moved / sec)
            shares.append(rates[-1] / both_rates(folder))
        result(what, round(statistics.median(shares), 3), ">= 0.8", "",
               f"{statistics.median(rates) / 1e9:.2f} GB/s; each round {', '.join(f'{one:.2f}' for one in shares)}")
    except measure.Failed as error:
        without(what, error, ">= 0.8")


def main():
    options = measure.options()
    folder = pathlib.Path(tempfile.mkdtemp(dir=measure.OUT))
    try:
        preset = "gpt2-350m" if options.quick else "gpt2-1.5b"
        limited(folder, f"{preset}, bf16, T 1024, states on disk", config(preset, 1024, 3, homes(folder)), LIMIT_BYTES)
        limited(folder, f"{preset}, fp32, T 1024, parameters on disk too",
                config(preset, 1024, 3, homes(folder, params=True), bf16=False), LIMIT_BYTES)
        largest(folder, options)
        update_rate(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
