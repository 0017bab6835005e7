"""States in memory and on disk, measured through the command: memory of large models, and rate of the updates, compared
with DeepSpeed's."""
import json
import os
import pathlib
import shutil
import statistics
import tempfile

import measure
from measure import result, without

LIMIT_BYTES = 4e9
LARGE = ("qwen3-4b", "gpt3-2.7b", "gpt2-1.5b", "gpt2-774m")  # largest first


def homes(folder, params=False, stage=3):
    """Return the section zero_optimization for optimizer states, and with `params` also parameters, in files of a
    folder."""
    disk = {"device": "nvme", "nvme_path": str(folder)}
    return {"stage": stage, "offload_optimizer": disk} | ({"offload_param": disk} if params else {})


def tokens(vocabulary=256):
    """Return a token file that a model can learn, because it repeats few tokens."""
    path = measure.OUT / "learnable.bin"
    if not path.exists():
        path.write_bytes(b"".join((i * i % 97 % vocabulary).to_bytes(2, "little") for i in range(100_000)))
    return path


def config(preset, seq, steps, zero, bf16=True, clip=0.0, accum=1):
    told = measure.document({"preset": preset}, {"train": str(tokens()), "seq_length": seq, "order": "sequential"}, 3, 1,
                            steps, accum, bf16)
    told |= {"zero_optimization": zero, "gradient_clipping": clip, "activation_checkpointing": {"policy": "unit"}}
    told["optimizer"]["params"]["lr"] = 5e-5
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
    """Train a model whose states would exceed the limit in memory. Report its peak memory and its losses."""
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
    """Train the largest model of the list whose states fit on the disk."""
    for preset in LARGE if not options.quick else LARGE[-1:]:
        told = config(preset, 256, 3, homes(folder))
        if disk_bytes(told) <= 0.95 * room(folder):
            return limited(folder, f"{preset}, bf16, T 256, states on disk", told, 24e9)
    return without("the largest model with its states on disk",
                   measure.Missing(f"{room(folder) / 1e9:.1f} GB of disk are free, and {preset} needs "
                                   f"{disk_bytes(told) / 1e9:.1f} GB"))


def both_rates(folder, kind="both"):
    told = measure.run_json([measure.ZR, "info", "--bench", "--json", "--disk", folder], 600)
    return told["disk"][f"{kind}_bytes_sec"]


def triad_rate():
    """Return the bytes per second of the triad, measured alone."""
    told = measure.run([measure.OUT / "bench_memory", "--json", "triad"], 120, {"GOMP_SPINCOUNT": "10000"})
    return json.loads(told.stdout.splitlines()[0])["bytes_per_sec"]


def in_memory(preset, seq, bf16, stage=0):
    """Return a configuration with all states in memory, whose updates come after the backward pass."""
    return config(preset, seq, 4, {"stage": stage}, bf16=bf16, clip=1.0) | {"memory": {"layout": "paper"}}


def updates(run):
    """Return the time of a step's updates in ms, and the bytes that they read and write."""
    rows = [row for row in run.more["run"]["timings"]["kinds"] if row["kind"] == "update"]
    return sum(row["ms"] for row in rows), sum(row["memory_bytes"] for row in rows)


def timed(told):
    return measure.train(told, arguments=["--quiet", "--timings"])


def memory_update(options):
    """Report the bandwidth of a step's updates in memory, relative to the triad."""
    preset, rounds = ("gpt2-124m", 1) if options.quick else ("gpt2-350m", 3)
    for name, bf16 in (("fp32", False), ("bf16", True)):
        what = f"update in memory, AdamW {name}, share of triad"
        try:
            shares = []
            for _ in range(rounds):
                ms, moved = updates(timed(in_memory(preset, 64, bf16)))
                shares.append(moved / ms * 1e3 / triad_rate())
            result(what, round(statistics.median(shares), 3), ">= 0.8", "",
                   f"{preset}; each round {', '.join(f'{share:.2f}' for share in shares)}")
        except measure.Failed as error:
            without(what, error, ">= 0.8")


def disk_update(told, plain):
    """Run a configuration with states on disk. Return Steps with the estimated time of the updates: the time by which a
    step is longer than a step of `plain`, which has all states in memory, plus the time of the updates of `plain`."""
    run = timed(told)
    ms = statistics.median(run.step_ms) - statistics.median(plain.step_ms) + updates(plain)[0]
    return measure.Steps([ms], run.rss_bytes)


def beside_deepspeed(folder, options):
    """Compare updates at stage 3, with clipping and one rank, with DeepSpeed's offload_optimizer, in turn."""
    plain = in_memory("gpt2-124m", 64, True, stage=3)
    stored = plain | {"zero_optimization": homes(folder)}

    def ours(on_disk):
        run = timed(plain)
        return disk_update(stored, run) if on_disk else measure.Steps([updates(run)[0]], run.rss_bytes)

    def theirs(device):
        run = measure.torch_steps("ds3", 1, batch=1, steps=4, bf16=True, offload=device, folder=folder)
        return measure.Steps(run.more["update_ms"], run.rss_bytes)

    for device, builders in (("cpu", ["CPUAdamBuilder"]), ("nvme", ["CPUAdamBuilder", "AsyncIOBuilder"])):
        what = f"update at stage 3: speed of zr / DeepSpeed offload_optimizer {device}"
        try:
            for builder in builders:
                measure.need_deepspeed_op(builder)
        except measure.Failed as error:
            without(what, error)
            continue
        turns = measure.Turns(1 if options.quick else 3,
                              {"zr": lambda device=device: ours(device == "nvme"),
                               "DeepSpeed": lambda device=device: theirs(device)})
        turns.speed(what, "zr", "DeepSpeed")


def update_rate(folder, options):
    """Report the bandwidth of the updates at the end of a step, relative to the folder's rate of simultaneous reads and
    writes."""
    preset, what = "gpt2-124m" if options.quick else "gpt2-350m", "update from disk, share of the disk's rate"
    plain = in_memory(preset, 64, True)
    stored = plain | {"zero_optimization": homes(folder, stage=0)}
    try:
        rounds = 1 if options.quick else 3
        rates, shares = [], []
        moved = sum(planned(stored)["copied"][way] for way in ("disk_to_device", "device_to_disk"))
        for _ in range(rounds):
            rates.append(moved / disk_update(stored, timed(plain)).step_ms[0] * 1e3)
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
        memory_update(options)
        beside_deepspeed(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
