"""Shared by the parts of bench/gpu: rows of results, commands with a time limit, training runs and their GPU memory."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import threading
import time

import gpu_tools
import measure
from measure import BUILD, OUT, ROOT, Failed, Missing, holds

ZR = pathlib.Path(os.environ.get("ZR", BUILD / "zr")).resolve()
LOGS = OUT / "gpu-logs"
ASK_SEC = 8  # most seconds that a debugger may take
NO_MEMORY = 71  # exit status of `zr train`
CONTEXT_BYTES = 1 << 30  # memory besides the plan that zr reserves for CUDA and its libraries
WIDTHS = (58, 16, 11, 8)


class Late(Missing):
    """The time of a part, or of all parts, is over."""


class Slow(Failed):
    """A command has exceeded its own time limit. `where` is what the debugger `asked` said about it, if it was asked;
    otherwise `asked` is the reason."""

    def __init__(self, text, ended, asked="", where=""):
        super().__init__(text)
        self.ended, self.asked, self.where = ended, asked, where


class Exited(Failed):
    """A command has ended with an exit code other than 0."""

    def __init__(self, code, text, ended):
        super().__init__(text)
        self.code, self.ended = code, ended


# ---- sizes ---------------------------------------------------------------------------------------

FULL = {
    "small": ("124M", {"preset": "gpt2-124m"}), "big": ("1.5B", {"preset": "gpt2-1.5b"}),
    "torch": {"small": (12, 12, 768), "big": (48, 25, 1600)},  # layers, heads, width
    "golden": ("tiny", {"type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 128}),
    "wide": {"type": "gpt2", "n_head": 40, "n_embd": 5120, "n_positions": 1024},
    "vocab": 50257, "seq": 1024, "golden_seq": 128, "most_layers": 200, "wide_lr": 2e-4,
    "small_batches": [32, 16, 8, 4], "big_batches": [32, 16, 8, 4, 2, 1], "fp32_batches": [16, 8, 4],
    "traced_batch": 16, "ranks_batch": 16, "stages_batch": 2,
    "attention": {"batch": 8, "heads": 16, "dims": [64, 128], "seqs": [1024, 4096]},
}
# The same settings with models of a few thousand parameters, for the stand-in, on which speeds have no meaning.
TINY = {
    **FULL,
    "small": ("small", {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 16, "n_positions": 16,
                        "vocab_size": 100}),
    "big": ("big", {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "vocab_size": 100}),
    "torch": {"small": (1, 1, 16), "big": (2, 2, 32)},
    "golden": ("tiny", {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 24, "n_positions": 16,
                        "vocab_size": 100}),
    "wide": {"type": "gpt2", "n_head": 2, "n_embd": 32, "n_positions": 16, "vocab_size": 100},
    "vocab": 100, "seq": 16, "golden_seq": 16, "most_layers": 3, "wide_lr": 2e-3,
    "small_batches": [4, 2], "big_batches": [2, 1], "fp32_batches": [2],
    "traced_batch": 4, "ranks_batch": 4, "stages_batch": 1,
    "attention": {"batch": 1, "heads": 2, "dims": [16, 32], "seqs": [16, 32]},
}


def tokens(vocab):
    """Return a token file in which small ids are more frequent, as in texts, so that a model learns within a few
    steps."""
    path = OUT / f"gpu_tokens_{vocab}.bin"
    if not path.exists():
        rng = random.Random(1234)
        path.write_bytes(struct.pack("<400000H", *(int(vocab * rng.random() ** 3) for _ in range(400_000))))
    return path


# ---- what the GPU's memory holds -----------------------------------------------------------------


class Watcher(threading.Thread):
    """A thread that samples the used GPU memory from outside until `end`, and keeps the maximum increase in bytes."""

    def __init__(self, bench):
        super().__init__(daemon=True)
        self.smi, self.most, self.over = bench.smi, 0, threading.Event()
        self.process, self.bench = None, bench
        self.before = taken_now(bench)

    def run(self):
        if not self.smi:
            while not self.over.is_set():
                with contextlib.suppress(Failed):
                    self.most = max(self.most, taken_now(self.bench))
            return
        self.process = subprocess.Popen([*self.smi, "-lms", "100"], stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        for text in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.most = max(self.most, int(text) << 20)

    def end(self):
        """Stop sampling. Return the bytes, or None if no increase was seen."""
        self.over.set()
        if self.process:
            self.process.kill()
        self.join(5)
        if self.process:
            self.process.wait()
        return max(0, self.most - self.before) or None


def find_smi():
    """Return the command that prints the used memory in MiB of the GPU that zr uses first, or None."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={first}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        int(ended.stdout.split()[0])
        return command
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def taken_now(bench):
    if bench.smi:
        return int(bench.command(bench.smi, 30).stdout.split()[0]) << 20
    gpu = json.loads(bench.command([ZR, "info", "--json"], 30).stdout)["gpus"][0]
    return gpu["memory"] - gpu["memory_free"]


# ---- the command ---------------------------------------------------------------------------------


class Ended:
    def __init__(self, stdout, stderr, wall_sec):
        self.stdout, self.stderr, self.wall_sec = stdout, stderr, wall_sec


class Run:
    """Results of `zr train`: metrics of its steps, run.json (None if it was stopped), and the bytes of GPU memory that
    it took."""

    def __init__(self, steps, run, taken, wall_sec):
        self.steps, self.run, self.taken, self.wall_sec = steps, run, taken, wall_sec

    def step_ms(self):
        """Return the median time of a step, without the first steps, which create handles and load code."""
        times = [step["step_ms"] for step in self.steps]
        return statistics.median(times[min(3, len(times) // 2):])

    def losses(self):
        return [step["loss"] for step in self.steps]

    def numbers(self):
        """Return the numbers that must be equal to the last bit."""
        return [{key: value for key, value in step.items() if key in ("step", "loss", "grad_norm", "skipped")}
                for step in self.steps]


class Bench:
    def __init__(self, options, path, end):
        self.options, self.path, self.end = options, path, end
        self.sizes = TINY if options.tiny else FULL
        self.part, self.part_end = "", end
        self.rows, self.details, self.machine, self.gpu, self.peak, self.smi = [], {}, {}, {}, None, None
        self.live, self.lock, self.stopped = set(), threading.RLock(), False
        self.memory = {}  # results that several parts use
        # families of kernels that failed, with the reason, and with those that --trust names; identity of the programs;
        # the module gpu_faults
        self.broken, self.known, self.digest, self.faults = {}, {}, "", None
        self.references = {}  # the processor's losses, by the names of the runs (gpu_smoke.py)

    # -- rows --

    def row(self, what, value, wanted=None, ok=None, unit="", detail=""):
        self.rows.append({"part": self.part, "what": what, "value": value, "wanted": wanted, "ok": ok, "unit": unit,
                          "detail": detail})
        print(text_of(self.rows[-1]), flush=True)
        with (LOGS / "table.txt").open("a") as table:
            print(f"{self.part}: {text_of(self.rows[-1])}", file=table)
        self.write()

    def result(self, what, value, wanted=None, unit="", detail=""):
        self.row(what, value, wanted, None if wanted is None else holds(value, wanted), unit, detail)

    def speed(self, what, value, wanted=None, unit="", detail=""):
        """Report a speed. With tiny models, it has no meaning and is not compared with the wanted value."""
        ok = None if wanted is None or self.options.tiny else holds(value, wanted)
        self.row(what, value, wanted, ok, unit, detail)

    def without(self, what, error, wanted=None):
        self.row(what, None, wanted, None if isinstance(error, Missing) else False, "", str(error))

    @contextlib.contextmanager
    def measuring(self, what, wanted=None):
        """Report a failure in this context as a row, and continue."""
        try:
            yield
        except Failed as error:
            self.without(what, error, wanted)

    def write(self):
        document = {"machine": self.machine, "quick": self.options.quick, "tiny": self.options.tiny,
                    "rows": self.rows, "details": self.details}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(document, indent=1) + "\n")
        new.replace(self.path)

    # -- commands --

    def left(self):
        return max(0, min(self.end, self.part_end) - time.monotonic())

    def end_all(self):
        with self.lock:
            self.stopped = True
            for process in self.live:
                measure.end(process, signal.SIGKILL)

    def command(self, words, limit, env=None, until=None, merged=False, ask=False):
        """Run a command. `until` is called repeatedly, and ends the command without a failure when it returns True.
        `ask`: if the command hangs, a debugger asks it where it stands, in the last third of the limit."""
        words = [str(word) for word in words]
        name, given = " ".join([pathlib.Path(words[0]).name, *words[1:3]]), min(limit, self.left())
        if given <= 0:
            raise Late(f"no time was left for {name}")
        with tempfile.TemporaryFile(dir=OUT) as out, tempfile.TemporaryFile(dir=OUT) as err:
            begin = time.monotonic()
            try:
                with self.lock:
                    if self.stopped:
                        raise Failed(f"{name}: stopped")
                    process = subprocess.Popen(words, stdout=out, stderr=out if merged else err, cwd=ROOT,
                                               stdin=subprocess.DEVNULL, start_new_session=True,
                                               env={**os.environ, **(env or {})})
                    self.live.add(process)
            except OSError as error:
                raise Failed(f"{name}: {error}") from None
            asking = min(ASK_SEC, given / 3) if ask else 0
            asked = []
            ended_by = self.wait(process, begin + given - asking, until,
                                 lambda: asked.extend(gpu_tools.ask(process.pid, asking)) if ask else None)
            wall_sec = time.monotonic() - begin
            out.seek(0)
            err.seek(0)
            ended = Ended(out.read().decode(errors="replace"), err.read().decode(errors="replace"), wall_sec)
        if ended_by == "time" and given < limit:
            raise Late(f"{name}: ended after the {given:.0f} s that were left")
        if ended_by == "time":
            heard, where = asked or (None, "")
            raise Slow(f"{name}: not done within {given - asking:.0f} s: {tail(ended)}", ended, heard or where,
                       where if heard else "")
        if ended_by is None and process.returncode != 0:
            raise Exited(process.returncode, f"{name}: exit {process.returncode}: {tail(ended)}", ended)
        return ended

    def wait(self, process, end, until, late):
        why = None
        try:
            while process.poll() is None and not why:
                if until and until():
                    why = "until"
                elif time.monotonic() > end:
                    why = "time"
                    late()
                else:
                    time.sleep(0.02)
        finally:
            gpu_tools.end_group(process)
            with self.lock:
                self.live.discard(process)
        return why

    def once(self, name, make):
        """Return the result of `make`, or raise its failure. `make` is called once for each name, whatever parts
        request it."""
        if name not in self.memory:
            try:
                self.memory[name] = make()
            except Late:
                raise  # another part may have enough time
            except Failed as error:
                self.memory[name] = error
        if isinstance(self.memory[name], Failed):
            raise self.memory[name]
        return self.memory[name]

    # -- training --

    def config(self, model, batch, steps, dtype="bf16", seq=None, stage=0, device="cuda", extra=None):
        document = {
            "device": device,
            "model": model,
            "data": {"train": str(tokens(self.sizes["vocab"])), "seq_length": seq or self.sizes["seq"]},
            "train_micro_batch_size_per_gpu": batch,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
            "bf16": {"enabled": dtype == "bf16"},
            "zero_optimization": {"stage": stage},
            "train": {"steps": steps, "eval_interval": 0},
        }
        return {**document, **(extra or {})}

    def plan(self, config, ranks=1):
        """Return the result of `zr plan` for a configuration."""
        path = OUT / "gpu_plan.json"
        path.write_text(json.dumps(config))
        return json.loads(self.command([ZR, "plan", path, "--json", "--quiet", "--ranks", ranks], 60).stdout)

    def fits(self, config, ranks=1):
        return ranks * (self.plan(config, ranks)["memory"]["total"] + CONTEXT_BYTES) <= self.gpu["memory_free"]

    def train(self, config, ranks=1, arguments=(), stop_after=None, limit=60):
        """Run a configuration, or return the earlier result of the same run. With stop_after, the run is killed after
        this number of steps and writes no weights."""
        key = json.dumps(["train", config, ranks, [str(word) for word in arguments], stop_after])
        return self.once(key, lambda: self.train_now(config, ranks, arguments, stop_after, limit))

    def train_now(self, config, ranks, arguments, stop_after, limit, env=None):
        if config["device"] == "cuda":
            self.faults.need(self, self.faults.GPT2)
        around = place(weights_bytes(config["model"]), stop_after is not None)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="zr-bench-gpu-", dir=around))
        metrics = folder / "run/metrics.jsonl"
        watcher = None
        try:
            document = {**config, "train": {**config["train"], "output_dir": str(folder / "run")}}
            (folder / "config.json").write_text(json.dumps(document))
            command = [ZR, "train", folder / "config.json", "--quiet", *arguments]
            if config["device"] == "cuda":
                watcher = Watcher(self)
                watcher.start()
            command += ["--ranks", ranks] if ranks > 1 else []
            ended = self.run_train(command, config, limit,
                                   (lambda: count_lines(metrics) >= stop_after) if stop_after else None, env)
            taken, watcher = watcher.end() if watcher else None, None
            steps = [json.loads(text) for text in metrics.read_text().splitlines()]
            run = None if stop_after else json.loads((folder / "run/run.json").read_text())
            return Run([step for step in steps if "loss" in step], run, taken, ended.wall_sec)
        finally:
            if watcher:
                watcher.end()
            shutil.rmtree(folder, ignore_errors=True)

    def run_train(self, command, config, limit, until, env):
        """Run `zr train`. If it fails on a GPU, find out where."""
        try:
            return self.command(command, limit, env, until, ask=config["device"] == "cuda")
        except (Exited, Slow) as error:
            if config["device"] != "cuda" or getattr(error, "code", None) == NO_MEMORY:
                raise
            raise Failed(f"{error}; {self.faults.examine_run(self, command, error)}") from None

    def largest(self, model, batches, steps, dtype="bf16", limit=60):
        """Return the run with the largest batch of the list that fits, by the plan and by the exit status of `zr train`
        (71)."""
        for batch in batches:
            config = self.config(model, batch, steps, dtype)
            if not self.once(json.dumps(["fits", config]), lambda c=config: self.fits(c)):
                continue
            try:
                return batch, self.train(config, limit=limit)
            except Exited as error:
                if error.code != NO_MEMORY:
                    raise
        raise Failed(f"no batch of {batches} fits {self.gpu['memory_free'] / 1e9:.1f} GB")


def tail(ended):
    lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return " / ".join(lines[-3:])[-400:]


def count_lines(path):
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


PRESETS = {"gpt2-124m": 124_440_000, "gpt2-1.5b": 1_560_000_000}


def weights_bytes(model):
    """Return the approximate bytes of a run's weights on disk."""
    params = PRESETS.get(model.get("preset"))
    if params is None:
        params = 12 * model.get("n_layer", 12) * model["n_embd"] ** 2 + model["n_embd"] * (
            model.get("vocab_size", 50257) + model["n_positions"])
    return 4 * params


def place(weights, on_disk):
    """Return a folder with room for a run: in memory, where writing takes no time, or with on_disk preferably on the
    disk."""
    folders = [pathlib.Path("/dev/shm"), OUT]
    for folder in reversed(folders) if on_disk else folders:
        with contextlib.suppress(OSError):
            if shutil.disk_usage(folder).free > 1.2 * weights + (256 << 20) and os.access(folder, os.W_OK):
                return folder
    raise Missing(f"neither {folders[0]} nor {folders[1]} has room for {weights / 1e9:.1f} GB of weights")


# ---- the table -----------------------------------------------------------------------------------


def mark(row):
    if row["value"] is None:
        return "skipped" if row["ok"] is None else "FAILED"
    return {None: "", True: "ok", False: "MISSED"}[row["ok"]]


def cells(row):
    value = row["value"]
    value = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return [row["what"], f"{value} {row['unit']}".strip(), row["wanted"] or "", mark(row), row["detail"]]


def text_of(row):
    return "  ".join([cell.ljust(width) for cell, width in zip(cells(row), WIDTHS)] + [cells(row)[4]]).rstrip()
