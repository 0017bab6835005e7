"""Checkpoints of GPT-2 124M: their speed, compared with plain direct writes and reads on the same disk, and the time
for which training waits for them."""
import json
import mmap
import os
import pathlib
import re
import shutil
import statistics
import tempfile
import time

import measure
from measure import result, without

BLOCK_BYTES = 4 << 20
CACHES = pathlib.Path("/proc/sys/vm/drop_caches")


def blocks(total_bytes):
    """Return a block of incompressible bytes, aligned for direct I/O, and the number of blocks in total_bytes."""
    block = mmap.mmap(-1, BLOCK_BYTES)
    block.write(os.urandom(BLOCK_BYTES))
    return block, total_bytes // BLOCK_BYTES


def write_rate(path, total_bytes):
    """Return the bytes per second of writing block by block with direct I/O, including the sync."""
    block, n = blocks(total_bytes)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    begin = time.perf_counter()
    for _ in range(n):
        os.write(file, block)
    os.fsync(file)
    rate = n * BLOCK_BYTES / (time.perf_counter() - begin)
    os.close(file)
    return rate


def read_rate(path):
    block, n = blocks(path.stat().st_size)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    begin = time.perf_counter()
    for _ in range(n):
        os.readv(file, [block])
    rate = n * BLOCK_BYTES / (time.perf_counter() - begin)
    os.close(file)
    return rate


def train(folder, *arguments, **train_keys):
    """Run `zr train` in the folder and return its messages."""
    config = measure.preset_config(steps=train_keys.pop("steps", 2))
    config["train"] |= {"output_dir": str(folder / "run"), "keep_last": 1, **train_keys}
    (folder / "config.json").write_text(json.dumps(config))
    return measure.run([measure.ZR, "train", folder / "config.json", *arguments], 600).stderr


def said(text, pattern, what):
    found = re.search(pattern, text)
    if not found:
        raise measure.Failed(f"zr train does not say {what}")
    return float(found[1])


def checkpoint_bytes(run):
    return sum(path.stat().st_size for path in run.glob("step-*/*.safetensors"))


def disk(folder, rounds):
    """Measure the rates of saving, of loading and of the disk, in turn."""
    save, write, load, read = [], [], [], []
    plain = folder / "plain"
    for number in range(rounds):
        text = train(folder, "--checkpoint.async=false", save_interval=2)
        total_bytes = checkpoint_bytes(folder / "run")
        save.append(total_bytes / said(text, r"saved step-\d+.*waited ([0-9.e+-]+) s", "how long a checkpoint took"))
        write.append(write_rate(plain, total_bytes))
        if os.access(CACHES, os.W_OK):
            CACHES.write_text("3")
            text = train(folder, "--resume", save_interval=2)
            load.append(total_bytes / said(text, r"read in ([0-9.e+-]+) s", "how long it read"))
            read.append(read_rate(plain))
        shutil.rmtree(folder / "run")
        measure.progress(f"round {number + 1}: saved at {save[-1] / 1e9:.2f} of {write[-1] / 1e9:.2f} GB/s")
    compare("saved, beside plain direct writes", save, write)
    if load:
        compare("resumed, beside plain direct reads", load, read)
    else:
        without("resumed, beside plain direct reads", measure.Missing("the page cache cannot be emptied: not root"),
                ">= 0.8")
    return statistics.median(write)


def compare(what, ours, plain):
    each = ", ".join(f"{a / b:.2f}" for a, b in zip(ours, plain))
    result(what, round(statistics.median(ours) / statistics.median(plain), 3), ">= 0.8", "x",
           f"{statistics.median(ours) / 1e9:.2f} against {statistics.median(plain) / 1e9:.2f} GB/s; each round {each}")


SAVED, STEPS = 8, 14
COPIED, COPIES = 3, 4  # a copy after each third step, four copies in a run


def traced(trace):
    return [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]


def waited_ms(trace):
    """Return for how long the traced steps waited for other streams. A single process has no other streams but copies
    and writes of a checkpoint."""
    return sum(event["args"]["wait_us"] for event in traced(trace) if event["cat"] not in ("save", "copy")) / 1e3


def copied(rounds, **keys):
    """Return the median time of a checkpoint's copy, the median time of a step's updates, and the times of all copies
    (ms)."""
    copies, updates = [], []
    trace = measure.OUT / "trace.json"
    for _ in range(rounds):
        config = measure.preset_config(steps=COPIED * COPIES + 1)
        config["train"] |= {"save_interval": COPIED, "keep_last": 1}
        told = measure.train(config | keys, arguments=["--timings", f"--trace={trace}"], timeout=600)
        of_step = {}
        for event in traced(trace):
            if event["cat"] == "copy":
                step = event["args"]["training_step"]
                of_step[step] = of_step.get(step, 0) + event["dur"] / 1e3
        trace.unlink()
        copies += of_step.values()
        updates.append(next(kind["ms"] for kind in told.more["run"]["timings"]["kinds"] if kind["kind"] == "update"))
    return statistics.median(copies), statistics.median(updates), copies


def stalled(rounds, **keys):
    """Return medians (ms): of the time for which training waited for a checkpoint, during and between the steps after
    it; of the time by which these steps were longer than the steps before; of a step; and of a step's updates."""
    runs = []
    trace = measure.OUT / "trace.json"
    for _ in range(rounds):
        config = measure.preset_config(steps=STEPS)
        config["train"] |= {"save_interval": SAVED, "keep_last": 1}
        config |= keys
        arguments = ["--timings", f"--trace={trace}", f"--trace-steps={SAVED + 1}:{STEPS}"]
        told = measure.train(config, arguments=arguments, timeout=600)
        waited = waited_ms(trace)
        waited += 1e3 * said(told.more["stderr"], rf"saved step-0*{SAVED} .*waited ([0-9.e+-]+) s", "what it waited")
        trace.unlink()
        step_ms = [line["step_ms"] for line in told.more["metrics"] if "step_ms" in line]
        usual = statistics.median(step_ms[2:SAVED])
        kinds = {kind["kind"]: kind["ms"] for kind in told.more["run"]["timings"]["kinds"]}
        runs.append((waited, sum(ms - usual for ms in step_ms[SAVED:]), usual, kinds["update"]))
    return [statistics.median(numbers) for numbers in zip(*runs)]


def stalls(rounds, disk_bytes_sec):
    bytes_saved = 12 * measure.run_json([measure.ZR, "plan", "--preset", "gpt2-124m", "--json"], 60)["params"]
    longer = f"what the {STEPS - SAVED} steps behind a checkpoint take longer, in steps"
    shared = f"with threads that compute on all {measure.CORES} cores"
    enough = {"limit": 1 << 40}
    copy, update, each = copied(rounds, memory=enough)
    result("from a copy: what training waits for that, in updates of a step", round(copy / update, 3), "<= 1", "",
           f"{copy:.0f} ms, where an update takes {update:.0f}; each copy {', '.join(f'{ms:.0f}' for ms in each)}")
    _, behind, usual, update = stalled(rounds, memory=enough)
    result(f"from a copy: {longer}", round(behind / usual, 3), None, "", f"{behind:.0f} ms, {shared}")
    waited, behind, usual, update = stalled(rounds)
    bound = max(1e3 * bytes_saved / disk_bytes_sec - (usual - update), 0)
    result("in place: what training waits beyond the bound, in steps", round((waited - bound) / usual, 3), "<= 0.1", "",
           f"{waited:.0f} ms; the disk takes {1e3 * bytes_saved / disk_bytes_sec:.0f} ms, and {usual - update:.0f} are "
           "computed before the first update")
    result(f"in place: {longer}", round(behind / usual, 3), None, "", f"{behind:.0f} ms, {shared}")


def main():
    options = measure.options()
    folder = pathlib.Path(tempfile.mkdtemp(dir=measure.OUT))
    try:
        disk_bytes_sec = disk(folder, 1 if options.quick else 5)
        stalls(1 if options.quick else 3, disk_bytes_sec)
    except measure.Failed as error:
        without("checkpoints", error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
