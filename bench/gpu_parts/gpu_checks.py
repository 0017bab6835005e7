"""The parts of bench/gpu that run programs: tests, tests under compute-sanitizer, and the benchmark of kernels."""
import collections
import concurrent.futures
import glob
import json
import os
import pathlib
import re

import gpu_faults
from gpu_measure import LOGS, Exited, Slow, tail
from measure import BUILD, OUT, Failed, Missing, holds

AT_ONCE = 4
TEST_SEC = 25  # limit of a test, a debugger's question included, and of each repetition
APART = "<= 0.01"  # of bf16 results, which are rounded to 8 bits
TAP = {"CMOCKA_MESSAGE_OUTPUT": "TAP", "OMP_NUM_THREADS": "2"}


def programs():
    """Return the tests that were built for a GPU, by name."""
    found = sorted(glob.glob(os.environ.get("GPU_TESTS", str(BUILD / "tests/gpu_test_*"))))
    return {pathlib.Path(path).name.removeprefix("gpu_").removeprefix("test_"): path
            for path in found if os.access(path, os.X_OK)}


def shell(bench, words, limit):
    """Run a program, and return its output and its exit code, since a failed test has results too."""
    ended = bench.command(["sh", "-c", '"$@"; echo "exit $?"', "sh", *words], limit, TAP, merged=True, ask=True)
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
    """Run a test. If it fails or hangs, find out more, and go on without the family of kernels that it tests."""
    hangs = None
    try:
        ended, code = shell(bench, [path], TEST_SEC)
    except Slow as error:
        hangs, ended, code = error, error.ended, "none"
    passed, failed, skipped, lines = count(ended.stdout)
    gpu_faults.keep_log(name, ended.stdout)
    good = code == 0 and failed == 0 and passed + skipped > 0
    detail = f"{ended.wall_sec:.1f} s" + (f", {skipped} skipped" if skipped else "")
    if not good:
        first = f"hangs, ended after {ended.wall_sec:.0f} s" if hangs else lines[0] if lines else tail(ended)
        detail += f"; {failed} failed, exit {code}: {first}"
        family, remark = gpu_faults.examine(bench, name, [path], TEST_SEC, TAP, hangs,
                                            gpu_faults.family_of(name.removeprefix("device_")))
        detail += f"; {remark}{gpu_faults.remember(bench, family, f'the test {name}: {first}')}; see {name}*.log"
    return passed, failed + (not good and not failed), skipped, good, detail


def tell_test(bench, name, told):
    passed, failed, skipped, good, detail = told
    bench.row(name, passed, "all", good, "passed", detail)
    return passed, failed, skipped


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

def sanitize(bench, tool, name, path):
    """Return the number of errors that the tool has found, the exit code of the program, and the time."""
    try:
        ended, code, errors = gpu_faults.under_sanitizer(bench, tool, [path], 90, TAP)
    except Slow as error:
        raise Missing(str(error)) from None
    except Exited as error:
        gpu_faults.keep_log(f"{tool}-{name}", error.ended.stdout)
        raise
    gpu_faults.keep_log(f"{tool}-{name}", ended.stdout)
    return errors, code, ended.wall_sec


def sanitizers(bench):
    found = programs()
    # quick tests, since they may take a hundred times as long
    names = [name for name in found if name.startswith("device_")
             and gpu_faults.family_of(name.removeprefix("device_")) not in bench.broken]
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


Told = collections.namedtuple("Told", "lines said begun code hangs")


def run_bench_gpu(bench, group):
    """Run a group of bench_gpu without the families that have failed. Return its results, its messages, the family
    that it began last, its exit code, and the exception if it was not done in time."""
    program = pathlib.Path(os.environ.get("BENCH_GPU", OUT / "bench_gpu"))
    if not program.exists():
        raise Missing(f"{program} was not built")
    words = [program, "--json", *(["--tiny"] if bench.options.tiny else []),
             *(["--seconds", "0.03"] if bench.options.quick or bench.options.tiny else []),
             *(word for op in gpu_faults.ops_without(bench) for word in ("--without", op)), group]
    hangs = None
    try:
        ended, code = shell(bench, words, 0.6 * bench.left())
    except Slow as error:
        hangs, ended, code = error, error.ended, "none"
    lines = [json.loads(text) for text in ended.stdout.splitlines() if text.startswith("{") and text.endswith("}")]
    failed = next((line for line in lines if line.get("failed")), None)
    before = lines[:lines.index(failed)] if failed else lines  # what follows may fail because of the first failure
    begun = next((gpu_faults.family_of(line["begins"]) for line in reversed(before) if "begins" in line), None)
    said = [text for text in ended.stdout.splitlines() if not text.startswith("{")]
    return Told([line for line in lines if "begins" not in line], said, begun, code, hangs)


def measure_kernels(bench, group):
    """Return the results of a group of bench_gpu, also if it failed afterwards, and its messages. If a family of
    kernels fails, measure the others without it."""
    def asked(told):
        return f"; {gpu_faults.heard(f'bench_gpu-{group}', told.hangs)[1]}" if told.hangs else ""

    told = run_bench_gpu(bench, group)
    while (told.hangs or told.code != 0) and told.begun and told.begun not in bench.broken:
        why = f"bench_gpu {group}: {'hangs' if told.hangs else (told.said or ['no message'])[0][:160]}"
        passed = gpu_faults.remember(bench, told.begun, why)
        if not passed:
            break  # it is trusted, and would fail again
        bench.without(f"{group}: {told.begun}", Failed(why + asked(told) + passed))
        told = run_bench_gpu(bench, group)
    bench.details.setdefault("kernels", []).extend(told.lines)
    if told.code != 0 and not any(line.get("failed") for line in told.lines):
        raise Failed(f"{told.hangs or f'bench_gpu: exit {told.code}'}: {' / '.join(told.said[-3:])}{asked(told)}")
    return told.lines, told.said


def kernels_of(bench, group):
    return bench.once(f"kernels {group}", lambda: measure_kernels(bench, group))


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
        elif line.get("without"):
            bench.without(f"{line['group']}: {line['what']}",
                          Missing(gpu_faults.why_without(bench, gpu_faults.family_of(line["without"]))))


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
    done = {line["what"]: line for line in lines if "sec" in line}
    for forward in done.values():
        backward = done.get(forward["what"] + "_dx")
        if not backward:
            continue
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


def tell_apart(bench):
    """Report how far the fast attention is from the plain one, whose operands are the same numbers in fp32."""
    lines, said = kernels_of(bench, "apart")
    tell_failures(bench, lines, said)
    for line in lines:
        if "apart" in line:
            what, remark = f"{line['what']}: apart from the plain kernel", ""
            if not holds(line["apart"], APART):
                remark = gpu_faults.remember(bench, gpu_faults.family_of(line["what"].rsplit(" ", 1)[1]), what)
            bench.result(what, line["apart"], APART, "", "root mean square, relative" + remark)


def tell_heads(bench):
    """Compare the head of GPT-2's vocabulary with one of a multiple of 64 rows."""
    lines, said = kernels_of(bench, "head")
    tell_failures(bench, lines, said)
    done = [line for line in lines if "sec" in line]
    for line in done:
        bench.speed(line["what"], round(line["flops_per_sec"] / 1e12, 1), None, "TFLOP/s",
                    f"{1e3 * line['sec']:.3f} ms")
    for own, padded in zip(done[::2], done[1::2]):
        bench.speed(f"{own['what']} / padded", round(own["sec"] / padded["sec"], 3), None, "x", "time")


def measure_groups(bench, **tell):
    for group, function in tell.items():
        with bench.measuring(f"bench_gpu {group}"):
            function(bench)


def products(bench):
    measure_groups(bench, cube=lambda b: tell_products(b, "cube"), product=lambda b: tell_products(b, "product"),
                   head=tell_heads)


def attention(bench):
    measure_groups(bench, apart=tell_apart, attention=tell_attention)


def bandwidth(bench):
    measure_groups(bench, memory=tell_memory)
