"""Two hosts on one machine, made of network namespaces, between which zr trains over TCP.

A host is a network, UTS, IPC and mount namespace. It has its own address, name and /dev/shm, so that MPI sees two
machines and shares no memory between them. The cable is a veth pair whose rate tc limits at both ends.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import measure

ADDRESS = ("10.77.0.1", "10.77.0.2")
SHAPE = "tc qdisc add dev cable"

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
    """The reason why this machine cannot have such hosts."""


class Hosts:
    """Two hosts, for use in a `with` statement. `launch` has the words before a command that start ranks_per_host ranks
    of it on each host. `rate` is the rate of the cable in Mbit/s."""

    def __init__(self, ranks_per_host, rate=1000):
        self.ranks_per_host, self.rate = ranks_per_host, rate

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
        """Start a process that keeps a host's namespaces alive, for at most an hour."""
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
            # A token bucket fills while nothing is sent, and lets that many bytes pass at once, so it is small.
            self.call(*self.enter(host),
                      *f"{SHAPE} root handle 1: tbf rate {self.rate}mbit burst 32kb "
                      "latency 50ms".split())
        try:
            for host in range(2):
                self.call(*self.enter(host), *f"{SHAPE} parent 1:1 handle 2: netem delay 100us".split())
            self.delay = "100 us delay each way"
        except Unavailable:
            self.delay = "no delay: this kernel has no netem"

    def write_agent(self):
        """Write the program that mpirun uses instead of ssh: AGENT HOST WORDS ... runs the words on the second host."""
        agent = self.folder / "agent"
        enter = " ".join(map(str, self.enter(1)))
        agent.write_text(f'#!/bin/sh\n# $1: the host\'s address\nshift\nexec {enter} sh -c "$*"\n')
        agent.chmod(0o755)
        ranks = self.ranks_per_host * len(ADDRESS)
        self.launch = [*map(str, self.enter(0)), *measure.MPIRUN, "-n", str(ranks),
                       "-H", ",".join(f"{address}:{self.ranks_per_host}" for address in ADDRESS),
                       "--mca", "plm_rsh_agent", str(agent), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader",
                       "--mca", "btl_tcp_if_include", "cable", "--mca", "oob_tcp_if_include", "cable"]
        if ranks > measure.CORES:  # no host has more ranks than cores, so MPI would not yield by default
            self.launch += ["--mca", "mpi_yield_when_idle", "1"]

    def look(self):
        """Check that MPI sees two hosts with ranks_per_host ranks each."""
        try:
            ended = measure.run([*self.launch, "sh", "-c", 'echo "$(hostname) $OMPI_COMM_WORLD_LOCAL_SIZE"'], 60)
        except measure.Failed as error:
            raise Unavailable(str(error)) from None
        wanted = [f"zr-host{host} {self.ranks_per_host}" for host in range(2) for _ in range(self.ranks_per_host)]
        if sorted(ended.stdout.splitlines()) != wanted:
            raise Unavailable(f"mpirun does not see two hosts: {ended.stdout.strip()}; Open MPI is needed")

    def crossed(self):
        """Return the bytes that both ends have sent over the cable so far, including headers."""
        ends = [json.loads(self.call(*self.enter(host), *"ip -s -j link show cable".split())) for host in range(2)]
        return sum(end[0]["stats64"]["tx"]["bytes"] for end in ends)

    def measure_link(self):
        """Return the bytes per second of one TCP stream."""
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
        shaped = self.rate * 1e6 / 8
        if rate > 1.1 * shaped:
            raise Unavailable(f"tc does not shape: {rate / 1e6:.0f} MB/s over a link of {shaped / 1e6:.0f}")
        return rate
