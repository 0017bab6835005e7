"""The parts of bench/gpu that run programs: tests, tests under compute-sanitizer, and the benchmark of kernels."""
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil

from gpu_measure import LOGS, Exited, Slow, tail
from measure import BUILD, OUT, Failed, Missing

AT_ONCE = 4
TAP = {"CMOCKA_MESSAGE_OUTPUT": "TAP", "OMP_NUM_THREADS": "2"}


def programs():
    """Return the tests that were built for a GPU, by name."""
    found = sorted(glob.glob(os.environ.get("GPU_TESTS", str(BUILD / "tests/gpu_test_*"))))
    return {pathlib.Path(path).name.removeprefix("gpu_").removeprefix("test_"): path
            for path in found if os.access(path, os.X_OK)}


def keep_log(name, ended):
    (LOGS / f"{name}.log").write_text(ended.stdout + ended.stderr)


def shell(bench, words, limit):
    """Run a program, and return its output and its exit code, since a failed test has results too."""
    ended = bench.command(["sh", "-c", '"$@"; echo "exit $?"', "sh", *words], limit, TAP, merged=True)
    text, _, code = ended.stdout.rstrip().rpartition("exit ")
    ended.stdout = text
    return ended, int(code)


# ---- tests ---------------------------------------------------------------------------------------


def count(text):
    """Count passed, failed and skipped checks, like scripts/test."""
    lines = [line for line in text.splitlines() if re.match(r"(not )?ok\b", line, re.IGNORECASE)]
    skipped = [line for line in lines if re.search(r"# *skip", line, re.IGNORECASE)]
    rest = [line for line in lines if line not in skipped]
    failed = [line for line in rest if line.lower().startswith("not")]
    return len(rest) - len(failed), len(failed), len(skipped), failed


def run_test(bench, name, path):
    ended, code = shell(bench, [path], 120)
    passed, failed, skipped, lines = count(ended.stdout)
    keep_log(name, ended)
    return passed, failed, skipped, code, (lines[0] if lines else tail(ended)), ended.wall_sec


def tell_test(bench, name, told):
    passed, failed, skipped, code, first, sec = told
    good = code == 0 and failed == 0 and passed + skipped > 0
    detail = f"{sec:.1f} s" + (f", {skipped} skipped" if skipped else "")
    if not good:
        detail += f"; {failed} failed, exit {code}: {first}; see {(LOGS / name).relative_to(BUILD.parent)}.log"
    bench.row(name, passed, "all", good, "passed", detail)
    return passed, failed + (not good and not failed), skipped


def side_by_side(bench, names, run, tell, label="{}"):
    """Run several tests at once, and report their results in the order of the names."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {name: pool.submit(run, name) for name in names}
        for name, future in begun.items():
            with bench.measuring(label.format(name)):
                tell(name, future.result())


def tests(bench):
    found = programs()
    if not found:
        return bench.without("tests", Missing("no test was built for GPUs: make gpu-tests, where nvcc is"))
    sums = [0, 0, 0]

    def tell(name, told):
        for i, n in enumerate(tell_test(bench, name, told)):
            sums[i] += n

    # Tests that measure GPU memory run alone.
    alone = [name for name in found if name.startswith("engine")]
    side_by_side(bench, [name for name in found if name not in alone], lambda name: run_test(bench, name, found[name]),
                 tell)
    for name in alone:
        with bench.measuring(name):
            tell(name, run_test(bench, name, found[name]))
    return bench.row("all tests", sums[0], "no failure", sums[1] == 0, "passed",
                     f"{sums[1]} failed, {sums[2]} skipped, of {len(found)} programs")


# ---- compute-sanitizer ---------------------------------------------------------------------------

REFUSED = re.compile(r"Device not supported|not supported on this|Failed to initialize|Unable to .*debugger",
                     re.IGNORECASE)
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error)")


def find_sanitizer():
    found = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not found:
        raise Missing("there is no compute-sanitizer")
    return found


def sanitize(bench, tool, name, path):
    """Return the number of errors that the tool has found, the exit code of the program, and the time."""
    try:
        ended, code = shell(bench, [find_sanitizer(), "--tool", tool, path], 90)
    except Slow as error:
        raise Missing(str(error)) from None
    found = SUMMARY.search(ended.stdout)
    keep_log(f"{tool}-{name}", ended)
    if REFUSED.search(ended.stdout):
        raise Missing(f"refused: {REFUSED.search(ended.stdout).group(0)}")
    if not found:
        raise Exited(code, f"no summary, exit {code}: {tail(ended)}")
    errors = sum(int(n) for n in found.groups() if n)
    return errors, code, ended.wall_sec


def sanitizers(bench):
    found = programs()
    # quick tests, since they may take a hundred times as long
    names = [name for name in found if name.startswith("device_")]
    if not names:
        return bench.without("sanitizers", Missing("no kernel test was built for GPUs"))
    with bench.measuring("sanitizers"):
        # raises an exception if the tool does not support this device
        sanitize(bench, "memcheck", names[0], found[names[0]])
        for tool in ("memcheck", "racecheck"):
            def tell(name, told, tool=tool):
                errors, code, sec = told
                said = "" if errors == 0 and code == 0 else f", exit {code}; see {LOGS.name}/{tool}-{name}.log"
                bench.row(f"{tool}: {name}", errors, "0", not said, "errors", f"{sec:.1f} s{said}")

            side_by_side(bench, names, lambda name, tool=tool: sanitize(bench, tool, name, found[name]), tell,
                         f"{tool}: {{}}")
    return None


# ---- kernels -------------------------------------------------------------------------------------


def measure_kernels(bench, groups):
    """Return the results of bench_gpu, also if it failed afterwards, and its messages."""
    program = pathlib.Path(os.environ.get("BENCH_GPU", OUT / "bench_gpu"))
    if not program.exists():
        raise Missing(f"{program} was not built")
    words = [program, "--json", *(["--tiny"] if bench.options.tiny else []),
             *(["--seconds", "0.03"] if bench.options.quick or bench.options.tiny else []), *groups]
    ended, code = shell(bench, words, 100)
    lines = [json.loads(text) for text in ended.stdout.splitlines() if text.startswith("{")]
    bench.details.setdefault("kernels", []).extend(lines)
    if code != 0 and not any(line.get("failed") for line in lines):
        raise Exited(code, f"bench_gpu: exit {code}: {tail(ended)}")
    said = [text for text in ended.stdout.splitlines() if not text.startswith("{")]
    return lines, said


def kernels_of(bench, group):
    return bench.once(f"kernels {group}", lambda: measure_kernels(bench, [group]))


def cube_rate(bench, dtype="bf16"):
    """Return the FLOP/s of a large product, of matrices with equal sides."""
    lines, said = kernels_of(bench, "cube")
    for line in lines:
        if line["what"].startswith(f"{dtype}, cube: linear") and line["what"].endswith("linear"):
            return line["flops_per_sec"]
    raise Failed(f"no rate of a product in {dtype}: {' / '.join(said[-2:])}")


def product_rate(bench, dtype, width):
    """Return the FLOP/s of all products of a step of GPT-2 with this width, each weighted by its time."""
    lines, said = kernels_of(bench, "product")
    some = [line for line in lines if line["what"].startswith(f"{dtype}, width {width},")]
    if not some or any(line.get("failed") for line in some):
        raise Failed(f"no rate of the products of width {width} in {dtype}: {' / '.join(said[-2:])}")
    return sum(line["flops"] for line in some) / sum(line["sec"] for line in some)


def tell_failures(bench, lines, said):
    for line in lines:
        if line.get("failed"):
            why = next((text for text in said if line["what"] in text), "")
            bench.without(f"{line['group']}: {line['what']}", Failed(why))


def tell_memory(bench):
    lines, said = kernels_of(bench, "memory")
    tell_failures(bench, lines, said)
    for line in lines:
        if "share_of_copy" not in line:
            continue
        speed, wanted = line["bytes_per_sec"] / 1e9, line["wanted"]
        detail = f"{1e3 * line['sec']:.3f} ms"
        if line["what"].startswith("copy"):
            bench.speed(line["what"], round(speed, 1), None, "GB/s", "read and written; " + detail)
        else:
            bench.speed(f"{line['what']}: share of a copy", round(line["share_of_copy"], 3),
                        f">= {wanted:g}" if wanted else None, "", f"{speed:.0f} GB/s, {detail}")


def tell_attention(bench):
    lines, said = kernels_of(bench, "attention")
    tell_failures(bench, lines, said)
    done = [line for line in lines if "sec" in line]
    for forward, backward in zip(done[::2], done[1::2]):
        rate = (forward["flops"] + backward["flops"]) / (forward["sec"] + backward["sec"])
        bench.speed(f"attention {forward['what'].split(':')[0]}", round(rate / 1e12, 1), None, "TFLOP/s",
                    f"forward {forward['flops_per_sec'] / 1e12:.0f} ({1e3 * forward['sec']:.3f} ms), "
                    f"backward {backward['flops_per_sec'] / 1e12:.0f} ({1e3 * backward['sec']:.3f} ms); "
                    "half of a full one counted, backward twice the forward")


def tell_products(bench, group):
    lines, said = kernels_of(bench, group)
    tell_failures(bench, lines, said)
    sets = {}
    for line in lines:
        if "sec" in line:
            name = line["what"].split(":")[0]
            sets.setdefault(name if group == "cube" else ", ".join(name.split(", ")[:2]), []).append(line)
    for name, some in sets.items():
        rate = sum(line["flops"] for line in some) / sum(line["sec"] for line in some)
        least = min(some, key=lambda line: line["flops_per_sec"])
        bench.speed(f"products {name}", round(rate / 1e12, 1), None, "TFLOP/s",
                    f"{len(some)} together; the least {least['what'].removeprefix(name).lstrip(', :')} "
                    f"{least['flops_per_sec'] / 1e12:.0f}")


def kernels(bench):
    told = {"memory": tell_memory, "attention": tell_attention, "cube": lambda b: tell_products(b, "cube"),
            "product": lambda b: tell_products(b, "product")}
    for group, tell in told.items():
        with bench.measuring(f"bench_gpu {group}"):
            tell(bench)
