"""Shared by the parts of bench/run: lines of results, commands under a time limit, systems timed in turn.

A part prints one JSON object per line, with the keys part, what, value, wanted, ok, unit, detail. If there is no value,
detail has the reason. ok is then null if this machine lacks something that the measurement needs, and false if
something failed.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
ZR = BUILD / "zr"
OUT = BUILD / "bench"
PEERS = BUILD / "peers/venv/bin"
PART = pathlib.Path(sys.argv[0]).stem
CORES = len(os.sched_getaffinity(0))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


class Failed(Exception):
    """A command that gave no result. The text names the command and the reason."""


class Missing(Failed):
    """Something that a measurement needs is not on this machine. This does not count as a failure."""


# ---- results -------------------------------------------------------------------------------------


def holds(value, wanted):
    """Return whether a value is as wanted: '>= X', '<= X' or 'X .. Y'."""
    word = wanted.split()
    if word[1] == "..":
        return float(word[0]) <= value <= float(word[2])
    return value >= float(word[1]) if word[0] == ">=" else value <= float(word[1])


def line(what, value, wanted, ok, unit, detail):
    print(json.dumps({"part": PART, "what": what, "value": value, "wanted": wanted, "ok": ok, "unit": unit,
                      "detail": detail}), flush=True)


def result(what, value, wanted=None, unit="", detail=""):
    line(what, value, wanted, None if wanted is None else holds(value, wanted), unit, detail)


def without(what, error, wanted=None):
    """Print a line without a value: "not measured" if something is missing (Missing), otherwise a failure."""
    line(what, None, wanted, None if isinstance(error, Missing) else False, "", str(error))


def adopt(told):
    """Print the result of another program, which has the keys what, [against], wanted, ok, and one of share_of_triad,
    ratio, value."""
    key = next(key for key in ("share_of_triad", "ratio", "value") if told.get(key) is not None)
    value, wanted, speed = told[key], told.get("wanted"), told.get("bytes_per_sec")
    if wanted:  # `ok` tells whether `wanted` is a lower or an upper bound
        wanted = f"{'>=' if told['ok'] == (value >= wanted) else '<='} {wanted:g}"
    what = told["what"] + (f" / {told['against']}" if "against" in told else "")
    return result(what + (", share of triad" if key == "share_of_triad" else ""), value, wanted or None,
                  "x" if key == "ratio" else "", f"{speed / 1e9:.2f} GB/s" if speed else "")


def adopt_program(path, arguments=(), env=None):
    """Run a program that prints one JSON object for each measurement, and print its results."""
    name = path.relative_to(ROOT)
    try:
        ended = run([path, *arguments], 900, {"GOMP_SPINCOUNT": "10000", **(env or {})})
    except Failed as error:
        return without(str(name), error)
    for text in ended.stdout.splitlines():
        if text.startswith("{"):
            adopt(json.loads(text))
    return None


def progress(text):
    print(f"bench: {PART}: {text}", file=sys.stderr, flush=True)


def options(**more):
    """Parse the options. `more` has options of the part itself, each with the keyword arguments of add_argument."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--text", type=pathlib.Path)
    for name, keywords in more.items():
        parser.add_argument(f"--{name}", **keywords)
    OUT.mkdir(parents=True, exist_ok=True)
    # Raise an exception, so that started processes are ended and temporary files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return parser.parse_args()


# ---- commands ------------------------------------------------------------------------------------


class Ended:
    """Result of a command: stdout, stderr, wall_sec, and rss_bytes, the peak memory of the command or of any process
    that it waited for, whichever is higher."""

    def __init__(self, stdout, stderr, wall_sec, rss_bytes):
        self.stdout, self.stderr, self.wall_sec, self.rss_bytes = stdout, stderr, wall_sec, rss_bytes


def end(process, number):
    """Send a signal to a command and to all processes that it started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def run(command, timeout, env=None):
    """Run a command. `env` has variables to set; None removes a variable."""
    command = [str(word) for word in command]
    around = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    with tempfile.TemporaryFile(dir=OUT) as out, tempfile.TemporaryFile(dir=OUT) as err:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT,
                                       env=around, start_new_session=True)
        except OSError as error:
            raise Failed(f"{' '.join(command[:4])} ...: {error}") from None
        late = threading.Event()
        alarm = threading.Timer(timeout, lambda: (late.set(), end(process, signal.SIGKILL)))
        alarm.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)  # wait4 also returns the peak memory
        except BaseException:
            end(process, signal.SIGKILL)
            raise
        finally:
            alarm.cancel()
        wall_sec = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said = err.read().decode(errors="replace")
        if late.is_set():
            raise Failed(f"{' '.join(command[:4])} ...: not done within {timeout} s")
        if process.returncode != 0:
            tail = " / ".join(said.strip().splitlines()[-3:])
            raise Failed(f"{' '.join(command[:4])} ...: exit {process.returncode}: {tail}")
        return Ended(out.read().decode(errors="replace"), said, wall_sec, usage.ru_maxrss * 1024)


def run_json(command, timeout, env=None):
    """Run a command and return its standard output, one JSON document."""
    ended = run(command, timeout, env)
    try:
        return json.loads(ended.stdout)
    except ValueError:
        raise Failed(f"{' '.join(map(str, command[:4]))} ...: no JSON on standard output") from None


def info(env=None):
    return run_json([ZR, "info", "--json"], 60, env)


# ---- training runs -------------------------------------------------------------------------------


class Steps:
    """Results of a run: the times of its steps after the first, in ms; rss_bytes, the peak memory of one rank; and
    further results in `more`."""

    def __init__(self, step_ms, rss_bytes, **more):
        self.step_ms, self.rss_bytes, self.more = step_ms, rss_bytes, more


def random_tokens():
    """Return a token file for every model of MODELS. The speed does not depend on its content."""
    path = OUT / "random.bin"
    if not path.exists():
        rng = random.Random(1234)
        path.write_bytes(struct.pack("<100000H", *(rng.randrange(49152) for _ in range(100_000))))
    return path


def train(config, launch=(), ranks=1, arguments=(), timeout=1800, env=None):
    """Run `zr train` once. `launch` has the words before the command; without them, ranks are threads of one
    process."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=OUT))
    try:
        config = json.loads(json.dumps(config))
        config["train"]["output_dir"] = str(folder / "run")
        (folder / "config.json").write_text(json.dumps(config))
        command = [*launch, ZR, "train", folder / "config.json", *arguments]
        if ranks > 1 and not launch:
            command += ["--ranks", ranks]
        ended = run(command, timeout, env)
        lines = [json.loads(text) for text in (folder / "run/metrics.jsonl").read_text().splitlines()]
        step_ms = [line["step_ms"] for line in lines if "step_ms" in line]
        processes = 1 if launch else ranks  # thread ranks share the memory of one process
        return Steps(step_ms[1:], ended.rss_bytes // processes, wall_sec=ended.wall_sec, stdout=ended.stdout,
                     stderr=ended.stderr, metrics=lines, run=json.loads((folder / "run/run.json").read_text()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def document(model, data, stage, batch, steps, accum, bf16):
    """Return a configuration with the keys that all timed runs have in common."""
    return {
        "model": model,
        "data": data,
        "train_micro_batch_size_per_gpu": batch,
        "gradient_accumulation_steps": accum,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "bf16": {"enabled": bf16},
        "zero_optimization": {"stage": stage},
        "train": {"steps": steps, "eval_interval": 0},
    }


MODELS = ("gpt2-124m", "smollm2-135m")  # presets whose shapes bench/peers/step_torch.py has too


def preset_config(preset="gpt2-124m", stage=0, batch=4, seq=64, steps=7, bf16=False, accum=1):
    """Return the configuration of the same step as in bench/peers/step_torch.py."""
    data = {"train": str(random_tokens()), "seq_length": seq}
    return document({"preset": preset}, data, stage, batch, steps, accum, bf16)


def bytes_config(layers, width, seq, stage, batch, steps, accum=1, bf16=False, **keys):
    """Return the configuration of a small GPT-2 on bytes, with one thread per rank, for ranks that wait for a link.
    `keys` are added to it."""
    text = OUT / "bytes.txt"
    if not text.exists():
        text.write_text("".join(f"the quick brown fox jumps over the lazy dog, {i} times\n" for i in range(4000)))
    model = {"type": "gpt2", "n_layer": layers, "n_head": width // 64, "n_embd": width, "n_positions": seq}
    data = {"train": str(text), "tokenizer": "bytes", "seq_length": seq}
    config = document(model, data, stage, batch, steps, accum, bf16) | keys
    config["train"]["threads"] = 1
    return config


def zr_steps(ranks=1, mpi=False, env=None, arguments=(), **config):
    if mpi and not shutil.which(MPIRUN[0]):
        raise Missing("there is no mpirun")
    launch = [*MPIRUN, "-n", str(ranks)] if mpi else ()
    return train(preset_config(**config), launch, ranks, ["--quiet", *arguments], env=env)


# Keep ops that DeepSpeed compiles on first use in the build folder.
PEERS_ENV = {"TORCH_EXTENSIONS_DIR": str(BUILD / "peers/extensions"), "DS_ACCELERATOR": "cpu"}


def torch_steps(system="single", ranks=1, preset="gpt2-124m", batch=4, seq=64, steps=7, bf16=False, compiled=False,
                offload=None, folder=None):
    """Run steps of a peer. `compiled`: with torch.compile, whose second step does not count either, since it compiles
    the optimizer's kernels. `offload`: DeepSpeed's optimizer states are in host memory ("cpu"), or in files in `folder`
    ("nvme")."""
    need_peers()
    program = ROOT / "bench/peers/step_torch.py"
    alone = ranks == 1 and not offload
    launch = [PEERS / "python"] if alone else [PEERS / "torchrun", "--nproc_per_node", ranks]
    warm_up = 2 if compiled else 1
    more = (["--bf16"] if bf16 else []) + (["--compile"] if compiled else [])
    if offload:
        more += ["--offload", offload, "--folder", folder]
    ended = run([*launch, program, system, "--model", preset, "--batch", batch, "--seq", seq,
                 "--steps", steps - 1 + warm_up, *more], 1800, PEERS_ENV)
    # DeepSpeed also logs to standard output.
    lines = [text for text in ended.stdout.splitlines() if text.startswith('{"system"')]
    if not lines:
        raise Failed(f"step_torch.py {system}: no result on standard output")
    told = json.loads(lines[-1])
    return Steps(told["step_ms"][warm_up:], ended.rss_bytes, update_ms=told["update_ms"][warm_up:])


def need_peers():
    if not (PEERS / "python").exists():
        raise Missing("PyTorch is not installed in build/peers/venv")


def need_deepspeed_op(builder):
    """Compile an op of DeepSpeed, unless it is compiled already. `builder` is its class in deepspeed.ops.op_builder."""
    need_peers()
    program = f"from deepspeed.ops import op_builder; op_builder.{builder}().load()"
    for lock in pathlib.Path(PEERS_ENV["TORCH_EXTENSIONS_DIR"]).glob("**/lock"):
        lock.unlink()  # a killed compilation leaves a lock, for which PyTorch would wait forever
    try:
        run([PEERS / "python", "-c", program], 600, PEERS_ENV)
    except Failed as error:
        raise Missing(f"DeepSpeed's op {builder} cannot be compiled here: {error}") from None


# ---- in turn -------------------------------------------------------------------------------------


class Turns:
    """Systems timed in turn, in several rounds, so that changes in the machine's speed affect all of them. A system is
    a function that returns Steps. A system that fails is recorded in `failed` and skipped from then on."""

    def __init__(self, rounds, systems):
        self.runs, self.failed = {name: [] for name in systems}, {}
        for number in range(rounds):
            for name, system in systems.items():
                if name not in self.failed:
                    self.take(number + 1, name, system)

    def take(self, number, name, system):
        try:
            steps = system()
        except Failed as error:
            progress(f"round {number}: {name}: {error}")
            self.failed[name] = error
            return
        progress(f"round {number}: {name}: {statistics.median(steps.step_ms):.1f} ms a step, "
                 f"{steps.rss_bytes / 1e6:.0f} MB")
        self.runs[name].append(steps)

    def why_not(self, *names):
        """Return the failure of one of the named systems, or None if all have been timed."""
        return next((self.failed[name] for name in names if name in self.failed), None)

    def median_ms(self, name):
        return statistics.median(ms for steps in self.runs[name] for ms in steps.step_ms)

    def rss_bytes(self, name):
        return max(steps.rss_bytes for steps in self.runs[name])

    def speed(self, what, fast, slow, wanted=None):
        """Print the speed of `fast` relative to `slow`."""
        why = self.why_not(fast, slow)
        if why:
            return without(what, why, wanted)
        each = [statistics.median(b.step_ms) / statistics.median(a.step_ms)
                for a, b in zip(self.runs[fast], self.runs[slow])]
        memory = self.rss_bytes(fast) / self.rss_bytes(slow)
        detail = (f"{self.median_ms(fast):.1f} ms against {self.median_ms(slow):.1f} ms; each round "
                  f"{', '.join(f'{ratio:.2f}' for ratio in each)}; memory of a rank {memory:.2f} of the other's")
        return result(what, round(self.median_ms(slow) / self.median_ms(fast), 3), wanted, "x", detail)
