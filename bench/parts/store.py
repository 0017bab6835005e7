"""States on disk: rates of the store that reads and writes them, compared with fio's on the same disk."""
import json
import os
import pathlib
import shutil
import statistics
import tempfile

import measure
from measure import result, without

BLOCK_BYTES, DEPTH = 1 << 20, 8
WANTED = ">= 0.8"
WAYS = {  # value of ZR_STORE, and arguments
    "io_uring": ("io_uring", []),
    "threads": ("threads", []),
    "io_uring, pages of 4 kB as fio's": ("io_uring", ["--small-pages"]),
}


def fio(folder, total_bytes, kind, engine):
    """Return fio's rate. For "mixed", one queue has as many transfers in flight as the store has in both directions
    together."""
    mixed = kind == "mixed"
    command = ["fio", "--name=zr", f"--directory={folder}", f"--filename={kind}.fio", f"--size={total_bytes}",
               f"--bs={BLOCK_BYTES}", f"--ioengine={engine}", "--direct=1", "--fallocate=posix", "--group_reporting",
               "--output-format=json", f"--iodepth={DEPTH * (2 if mixed else 1)}"]
    command += ["--rw=rw", "--rwmixread=50"] if mixed else [f"--rw={kind}"]
    told = measure.run_json(command, 900)["jobs"][0]
    return sum(told[way]["bw_bytes"] for way in ("read", "write"))


def written_before(folder, total_bytes):
    """Write all blocks of fio's files first, as the store does with its files, since writes to new blocks have other
    rates."""
    for kind in ("read", "write", "mixed"):
        with open(folder / f"{kind}.fio", "wb") as file:
            for _ in range(0, total_bytes, BLOCK_BYTES):
                file.write(b"\xa5" * BLOCK_BYTES)
            os.fsync(file.fileno())  # data not on the disk yet would be written while fio is timed


def fio_rates(folder, total_bytes):
    return {kind: fio(folder, total_bytes, kind, "io_uring") for kind in ("read", "write", "mixed")}


def store_rates(folder, total_bytes, way):
    name, arguments = WAYS[way]
    command = [measure.OUT / "bench_store", *arguments, folder, total_bytes, BLOCK_BYTES, DEPTH]
    return measure.run_json(command, 900, {"ZR_STORE": name})


def compare(kind, way, ours, peer):
    a, b = ([rates[kind] for rates in some] for some in (ours, peer))
    each = ", ".join(f"{x / y:.2f}" for x, y in zip(a, b))
    what = {"read": "reads", "write": "writes", "mixed": "reads beside writes"}[kind]
    result(f"{what}, {way}, beside fio", round(statistics.median(a) / statistics.median(b), 3),
           WANTED if kind == "mixed" else None, "x",
           f"{statistics.median(a) / 1e9:.2f} against {statistics.median(b) / 1e9:.2f} GB/s; each round {each}")


def in_turn(folder, total_bytes, rounds):
    written_before(folder, total_bytes)
    ours, peer = {way: [] for way in WAYS}, []
    for number in range(rounds):
        for way in list(ours):
            try:
                ours[way].append(store_rates(folder, total_bytes, way))
            except measure.Failed as error:
                without(f"the store by {way}", measure.Missing(error) if way != "threads" else error, WANTED)
                del ours[way]
        peer.append(fio_rates(folder, total_bytes))
        measure.progress(f"round {number + 1}: fio {json.dumps(peer[-1])}; " +
                         "; ".join(f"{way} {json.dumps(runs[-1])}" for way, runs in ours.items()))
    for way, runs in ours.items():
        for kind in ("mixed", "read", "write"):
            compare(kind, way, runs, peer)


def main():
    options = measure.options()
    folder = pathlib.Path(tempfile.mkdtemp(dir=measure.OUT))
    try:
        if not shutil.which("fio"):
            raise measure.Missing("fio is not installed")
        in_turn(folder, (256 if options.quick else 1024) * BLOCK_BYTES, 1 if options.quick else 5)
    except measure.Failed as error:
        without("reads beside writes, beside fio", error, WANTED)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
