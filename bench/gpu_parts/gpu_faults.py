"""What bench/gpu does when a kernel fails: it runs the program again so that the failure names its place, remembers the
family of kernels, and lets later parts, and later calls, go on without this family."""
import hashlib
import json
import os
import pathlib
import re

import gpu_tools
from gpu_measure import LOGS, Exited, Late, Slow, tail
from measure import OUT, Failed, Missing

MEMORY = pathlib.Path(os.environ.get("GPU_BROKEN", OUT / "gpu-broken.json"))
# Each family is a file of src/device/cuda/kernels, with the ops and steps whose names do not begin with the family's.
FAMILIES = {
    "arrange": ("slice", "concat", "transpose", "split_heads", "merge_heads"), "attention": (), "attention_cached": (),
    "attention_dx": (), "cross_entropy": ("place_cross_entropy",), "elementwise": (
        "gelu", "relu", "silu", "tanh", "swiglu", "add", "mul", "scale", "dropout", "fill"),
    "embedding": ("rows", "position"), "layernorm": ("rmsnorm",), "linear": ("bias", "cuda_products"),
    "linear_cross_entropy": (), "optimizer": ("adamw", "update", "square_update", "trust"), "rotary": (),
    "shards": ("cast", "square", "sum", "loss", "count", "reduce", "reduce_scatter", "norm"), "softmax": ("mean",)}
# A training step of GPT-2 uses these.
GPT2 = ("attention", "attention_dx", "elementwise", "embedding", "layernorm", "linear", "linear_cross_entropy",
        "optimizer", "shards")
# The failure synchronizes each step, so that it names the step of the kernel itself.
SLOWLY = {"CUDA_LAUNCH_BLOCKING": "1", "ZR_DEBUG_SYNC": "1"}
STEP = re.compile(r"step \d+ of the schedule(?: \w+)?(?:,| \() ?(\w+)(?: of ([\w.]+))?")
KERNEL_FILE = re.compile(r"kernels/(\w+)\.cu")
RUNNING = re.compile(r"^\*? *\d+ +\S+ +\d+ .*?(\w+)(?:<.*>)?\(", re.MULTILINE)  # of cuda-gdb's "info cuda kernels"
REFUSED = re.compile(r"Device not supported|not supported on this|Failed to initialize|Unable to .*debugger",
                     re.IGNORECASE)
ERRORS = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error)")


def family_of(name):
    """Return the family of an op, a step or a test, or None."""
    known = [(len(word), family) for family, words in FAMILIES.items() for word in (family, *words)
             if name == word or name.startswith(word + "_")]
    return max(known)[1] if known else None


# ---- families that failed --------------------------------------------------------------------------


def program_digest(path):
    return hashlib.sha1(path.read_bytes()).hexdigest()


def recall(bench, zr):
    """Read which families failed in earlier calls, of the same programs."""
    bench.digest = program_digest(zr)
    try:
        told = json.loads(MEMORY.read_text())
        bench.known = told["families"] if told["zr"] == bench.digest else {}
    except (OSError, ValueError, KeyError):
        bench.known = {}
    bench.broken = {family: why for family, why in bench.known.items() if family not in bench.options.trust}
    for family, why in bench.broken.items():
        print(f"without the kernels of {family}, which failed in an earlier call: {why}; --trust {family} uses them")


def remember(bench, family, why):
    """Let later parts and calls go on without a family. Return a remark for the table."""
    with bench.lock:
        if family is None or family in bench.options.trust or family in bench.broken:
            return ""
        bench.known[family] = bench.broken[family] = why
        MEMORY.write_text(json.dumps({"zr": bench.digest, "families": bench.known}, indent=1) + "\n")
    return f"; from here on without {family}"


def ops_without(bench):
    """Return the names of all ops of the families that failed."""
    return [op for family in bench.broken for op in (family, *FAMILIES[family])]


def why_without(bench, family):
    return f"without {family}, which failed: {bench.broken[family]}"


def need(bench, families):
    """Raise an exception if one of the families has failed."""
    lost = [why_without(bench, family) for family in families if family in bench.broken]
    if lost:
        raise Missing("; ".join(lost))


# ---- asking again ----------------------------------------------------------------------------------


def keep_log(name, text):
    (LOGS / f"{name}.log").write_text(text)


def place_in(text):
    """Return the family that a failure's text names, and the words that name it."""
    step = STEP.search(text)
    if step:
        return family_of(step.group(1)), step.group(0)
    file = KERNEL_FILE.search(text)
    return (file.group(1) if file and file.group(1) in FAMILIES else None), file.group(0) if file else ""


def ask_slowly(bench, name, words, limit, env):
    """Run a failed program again, step by step. Return the family that it names, and what to say."""
    try:
        ended = bench.command(words, limit, {**(env or {}), **SLOWLY}, ask=True)
        keep_log(f"{name}.slowly", ended.stdout + ended.stderr)
        return None, "step by step it passes"
    except Late as error:
        return None, f"not asked again: {error}"
    except Slow as error:
        keep_log(f"{name}.slowly", error.ended.stdout + error.ended.stderr + error.where)
        family, place = place_in(error.ended.stdout + error.ended.stderr + error.where)
        return family, f"step by step it hangs {'in ' + place if place else 'too'}"
    except Exited as error:
        keep_log(f"{name}.slowly", error.ended.stdout + error.ended.stderr)
        family, place = place_in(error.ended.stdout + error.ended.stderr)
        return family, f"step by step: {'in ' + place if place else 'the same'}"


def find_sanitizer():
    found = gpu_tools.find("compute-sanitizer")
    if not found:
        raise Missing("there is no compute-sanitizer")
    return found


def under_sanitizer(bench, tool, words, limit, env=None):
    """Return the result of a program under compute-sanitizer, its exit code and the number of errors."""
    inner = ["sh", "-c", '"$@"; echo "exit $?"', "sh", find_sanitizer(), "--tool", tool, *words]
    ended = bench.command(inner, limit, env, merged=True)
    refused, found = REFUSED.search(ended.stdout), ERRORS.search(ended.stdout)
    if refused:
        raise Missing(f"refused: {refused.group(0)}")
    code = int(ended.stdout.rstrip().rpartition("exit ")[2])
    if not found:
        raise Exited(code, f"no summary, exit {code}: {tail(ended)}", ended)
    return ended, code, sum(int(n) for n in found.groups() if n)


def ask_sanitizer(bench, name, words, limit, env):
    try:
        ended, _, errors = under_sanitizer(bench, "memcheck", words, limit, env)
    except Failed as error:
        return f"compute-sanitizer: {str(error)[:90]}"
    keep_log(f"{name}.memcheck", ended.stdout)
    first = re.search(r"^=+ +((?:Invalid|Misaligned|Illegal|Unspecified|Program hit)\b.*)", ended.stdout, re.MULTILINE)
    at = re.search(r"^=+ +at (.*)", ended.stdout, re.MULTILINE)
    said = " ".join(found.group(1) for found in (first, at) if found)
    return f"compute-sanitizer: {errors} errors" + (f": {said[:160]}" if said else "")


def heard(name, hangs):
    """Keep what the debugger said about a program that hangs. Return the family that it names, and a remark."""
    if not hangs.where:
        return None, hangs.asked
    keep_log(f"{name}.hangs", hangs.where)
    family, place = place_in(hangs.where)
    kernels = RUNNING.findall(hangs.where.split("Thread", 1)[0])
    named = f"the kernel {kernels[0]}" if kernels else place or f"no kernel, see {name}.hangs.log"
    return family, f"{hangs.asked} names {named}"


def examine(bench, name, words, limit, env=None, hangs=None, family=None):
    """Ask a program that failed again: step by step, and if it did not hang, under compute-sanitizer. `hangs`: the
    exception of a program that was not done in time; it is not run again if its family is known. Return the family, or
    the one that the answers name, and a remark."""
    said = []
    if hangs:
        found, remark = heard(name, hangs)
        family = family or found
        said.append(remark)
    if not (hangs and family):
        found, remark = ask_slowly(bench, name, words, limit, env)
        family = family or found
        said.append(remark)
    if not hangs:
        said.append(ask_sanitizer(bench, name, words, limit, env))
    return family, "; ".join(said)


def examine_run(bench, command, error):
    """Examine a run of `zr train` that failed: again, for two steps, each step of the schedule by itself. A run that
    hangs then ends by itself and names the step."""
    hangs = error if isinstance(error, Slow) else None
    again = [*command, "--train.steps=2", "--train.hang_timeout=3", f"--train.output_dir={command[2].parent / 'again'}"]
    family, remark = examine(bench, f"train-{bench.part}", again, 15, None, hangs)
    return remark + remember(bench, family, f"a training step, in the part {bench.part}")
