"""Two hosts of one rank each over TCP, on one machine: how much of the communication is hidden under compute.

A host is a network, UTS, IPC and mount namespace: its own address, its own name and its own /dev/shm, so that MPI
sees two machines and shares no memory. A veth pair, shaped to 1 Gbit/s by tc at both ends, is the cable.
"""
import functools
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import measure
from measure import result, without

STAGES = (1, 2, 3)
LAYERS, WIDTH, SEQ = 24, 256, 64  # the first gather and the last reduction cannot be hidden: many units make them few
ADDRESS = ("10.77.0.1", "10.77.0.2")
RATE_BYTES_SEC = 1e9 / 8
SHAPE = "tc qdisc add dev cable"
AIM, CONDITION = 1.75, "1.5 .. 2.1"  # compute / communication that the batch is chosen for, and that it must reach
SHARE = "exposed communication, share of the time that it ran"
IN_TRACE = "stage 3: gathers that ran under an op, in the trace"
RUNNING = ("forward", "backward", "replay")

RECEIVER = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 7777))
print("ready", flush=True)
peer, _ = server.accept()
peer.recv(1, socket.MSG_WAITALL)
begin, got = time.perf_counter(), 0
while data := peer.recv(1 << 20):
    got += len(data)
print(got / (time.perf_counter() - begin), flush=True)
"""
SENDER = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 7777))
peer.sendall(bytes(1) + bytes(1 << 25))
peer.close()
"""


class Unavailable(measure.Missing):
    """Why there can be no such hosts here."""


class Hosts:
    """with Hosts() as hosts: hosts.launch are the words before a command that runs it on both."""

    def __enter__(self):
        self.holder, self.folder = [], None
        try:
            self.check()
            self.folder = pathlib.Path(tempfile.mkdtemp(dir=measure.OUT))
            self.holder = [self.hold() for _ in ADDRESS]
            self.furnish()
            self.connect()
            self.write_agent()
            self.look()
            self.link_bytes_sec = self.measure_link()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.holder:
            measure.end(process, signal.SIGKILL)
            process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def check(self):
        if os.geteuid() != 0:
            raise Unavailable("namespaces and a shaped link need root")
        for tool in ("unshare", "nsenter", "ip", "tc", "mpirun"):
            if not shutil.which(tool):
                raise Unavailable(f"there is no {tool}")

    def call(self, *command):
        ended = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        if ended.returncode != 0:
            raise Unavailable(f"{' '.join(map(str, command[-6:]))}: {ended.stderr.strip()}")
        return ended.stdout

    def hold(self):
        """A process that keeps a host's namespaces; it ends by itself should nobody end it."""
        process = subprocess.Popen(["unshare", "--uts", "--ipc", "--mount", "--net", "sleep", "3600"],
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        comm = pathlib.Path(f"/proc/{process.pid}/comm")
        for _ in range(500):
            if process.poll() is not None:
                raise Unavailable(f"unshare: {process.stderr.read().strip()}")
            if comm.read_text().strip() == "sleep":
                return process
            time.sleep(0.01)
        raise Unavailable("unshare does not come to its command")

    def enter(self, host):
        return ["nsenter", "-t", self.holder[host].pid, "--uts", "--ipc", "--mount", "--net", "--"]

    def furnish(self):
        for host in range(2):
            self.call(*self.enter(host), "hostname", f"zr-host{host}")
            self.call(*self.enter(host), "mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
            self.call(*self.enter(host), "ip", "link", "set", "lo", "up")

    def connect(self):
        first, second = (process.pid for process in self.holder)
        self.call(*f"ip link add cable netns {first} type veth peer name cable netns {second}".split())
        for host, address in enumerate(ADDRESS):
            self.call(*self.enter(host), "ip", "addr", "add", f"{address}/24", "dev", "cable")
            self.call(*self.enter(host), "ip", "link", "set", "cable", "up")
            self.call(*self.enter(host), *f"{SHAPE} root handle 1: tbf rate 1gbit burst 256kb latency 50ms".split())
        try:
            for host in range(2):
                self.call(*self.enter(host), *f"{SHAPE} parent 1:1 handle 2: netem delay 100us".split())
            self.delay = "100 us delay each way"
        except Unavailable:
            self.delay = "no delay: this kernel has no netem"

    def write_agent(self):
        """What mpirun takes for ssh: AGENT HOST WORDS ... runs the words on the second host."""
        agent = self.folder / "agent"
        enter = " ".join(map(str, self.enter(1)))
        agent.write_text(f'#!/bin/sh\n# $1: the host\'s address\nshift\nexec {enter} sh -c "$*"\n')
        agent.chmod(0o755)
        self.launch = [*map(str, self.enter(0)), *measure.MPIRUN, "-n", "2", "-H", ",".join(f"{a}:1" for a in ADDRESS),
                       "--mca", "plm_rsh_agent", str(agent), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                       "--mca", "btl_tcp_if_include", "cable", "--mca", "oob_tcp_if_include", "cable"]

    def look(self):
        """That MPI takes them for two hosts: a rank each, and nobody beside it."""
        try:
            ended = measure.run([*self.launch, "sh", "-c", 'echo "$(hostname) $OMPI_COMM_WORLD_LOCAL_SIZE"'], 60)
        except measure.Failed as error:
            raise Unavailable(str(error)) from None
        if sorted(ended.stdout.split("\n")[:2]) != ["zr-host0 1", "zr-host1 1"]:
            raise Unavailable(f"mpirun does not see two hosts: {ended.stdout.strip()}; Open MPI is needed")

    def measure_link(self):
        """Bytes a second of one TCP stream."""
        python = shutil.which("python3")
        with subprocess.Popen([*map(str, self.enter(1)), python, "-c", RECEIVER, ADDRESS[1]], stdout=subprocess.PIPE,
                              text=True) as receiver:
            try:
                receiver.stdout.readline()
                measure.run([*self.enter(0), python, "-c", SENDER, ADDRESS[1]], 30)
                rate = float(receiver.stdout.readline())
            except measure.Failed as error:
                raise Unavailable(f"the link carries nothing: {error}") from None
            finally:
                receiver.kill()
        if rate > 1.1 * RATE_BYTES_SEC:
            raise Unavailable(f"tc does not shape: {rate / 1e6:.0f} MB/s over a link of 125")
        return rate


# ---- the runs ------------------------------------------------------------------------------------


def config(stage, batch, steps):
    text = measure.OUT / "bytes.txt"
    if not text.exists():
        text.write_text("".join(f"the quick brown fox jumps over the lazy dog, {i} times\n" for i in range(4000)))
    return {
        "model": {"type": "gpt2", "n_layer": LAYERS, "n_head": WIDTH // 64, "n_embd": WIDTH, "n_positions": SEQ},
        "data": {"train": str(text), "tokenizer": "bytes", "seq_length": SEQ},
        "train_micro_batch_size_per_gpu": batch,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": stage},
        "train": {"steps": steps, "eval_interval": 0, "threads": 1},
    }


def train(stage, batch, steps, launch=(), arguments=()):
    return measure.train(config(stage, batch, steps), launch, 2, ["--json", "--quiet", *arguments], 600,
                         {"ZR_MPI": None})


def link_sec(run, hosts):
    """What the step's traffic takes at the link's rate; the two directions are independent."""
    return run.more["run"]["planned"]["traffic"]["total"] / hosts.link_bytes_sec


@functools.cache
def choose_batch(stage, hosts):
    """The batch whose step computes AIM times as long as it communicates: a line through two thread-rank runs."""
    few, many = 2, 8
    runs = [train(stage, batch, 4) for batch in (few, many)]
    low, high = (statistics.median(run.step_ms) / 1e3 for run in runs)
    slope = max((high - low) / (many - few), 1e-4)
    wanted = AIM * link_sec(runs[0], hosts)
    return min(64, max(1, math.ceil(few + (wanted - low) / slope)))


def timings(run):
    return json.loads(run.more["stdout"])["timings"]


class Stage:
    """Steps on one host and on two, in turn, and what they say of the communication."""

    def __init__(self, stage, batch, hosts, options):
        rounds, steps = (1, 4) if options.quick else (2, 8)
        turns = measure.Turns(rounds, {"one host": lambda: train(stage, batch, steps),
                                       "two hosts": lambda: train(stage, batch, steps, hosts.launch, ["--timings"])})
        if why := turns.why_not("one host", "two hosts"):
            raise why
        runs = turns.runs["two hosts"]
        self.batch, self.total = batch, link_sec(runs[0], hosts)
        self.local, self.remote = turns.median_ms("one host") / 1e3, turns.median_ms("two hosts") / 1e3
        self.compute, self.exposed, self.comm = (
            statistics.median(timings(run)[key] for run in runs) / 1e3
            for key in ("compute_ms", "exposed_ms", "comm_ms"))
        self.ratio = self.compute / self.total


def measure_stage(stage, hosts, options):
    at = Stage(stage, choose_batch(stage, hosts), hosts, options)
    if not measure.holds(at.ratio, CONDITION):  # the machine has become faster or slower since
        at = Stage(stage, max(1, round(at.batch * AIM / at.ratio)), hosts, options)
    result(f"stage {stage}: compute / communication, the condition", round(at.ratio, 2), CONDITION, "x",
           f"B {at.batch} a rank, T {SEQ}, {at.compute:.3f} s; communication {at.total:.3f} s at the link's rate")
    result(f"stage {stage}: {SHARE}", round(at.exposed / at.comm, 3), "<= 0.15", "",
           f"{at.exposed:.3f} s of {at.comm:.3f} s; {at.exposed / at.total:.2f} of the {at.total:.3f} s that the "
           f"traffic takes at the link's rate; step {at.remote:.3f} s on two hosts, {at.local:.3f} s as threads of one")


def union(spans):
    """Sorted, without overlaps."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end])
    return merged


def overlap(begin, end, spans):
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)


def under_compute(events):
    """Of all gathers, the share of their number and of their time that lies under an op of the same rank."""
    events = [event for event in events if event.get("ph") == "X"]
    gathers, hidden, hidden_us = 0, 0, 0.0
    total_us = sum(event["dur"] for event in events if event["cat"] == "gather")
    for rank in {event["pid"] for event in events}:
        spans = union((e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == rank and e["cat"] in RUNNING)
        for event in (e for e in events if e["pid"] == rank and e["cat"] == "gather"):
            under_us = overlap(event["ts"], event["ts"] + event["dur"], spans)
            gathers, hidden, hidden_us = gathers + 1, hidden + (under_us > 0), hidden_us + under_us
    return gathers, hidden, hidden_us / max(total_us, 1e-9)


def trace(hosts):
    path = measure.OUT / "hosts-trace.json"
    try:
        train(3, choose_batch(3, hosts), 4, hosts.launch, ["--trace", path, "--trace-steps", "2:4"])
        gathers, hidden, share = under_compute(json.loads(path.read_text())["traceEvents"])
    except measure.Failed as error:
        return without(IN_TRACE, error, ">= 0.8")
    return result(IN_TRACE, round(hidden / max(gathers, 1), 3), ">= 0.8", "",
                  f"{hidden} of {gathers}, {100 * share:.0f} % of their time; {path.relative_to(measure.ROOT)}")


def main():
    options = measure.options()
    try:
        with Hosts() as hosts:
            result("link, one TCP stream", round(hosts.link_bytes_sec / 1e6, 1), None, "MB/s",
                   f"veth and tbf, 1 Gbit/s; {hosts.delay}")
            for stage in STAGES:
                try:
                    measure_stage(stage, hosts, options)
                except measure.Failed as error:
                    without(f"stage {stage}: {SHARE}", error, "<= 0.15")
            trace(hosts)
    except Unavailable as why:
        measure.progress(f"NO TWO HOSTS HERE: {why}")
        for stage in STAGES:
            without(f"stage {stage}: {SHARE}", why, "<= 0.15")
        without(IN_TRACE, why, ">= 0.8")


main()
