"""NVIDIA's tools for programs on GPUs: where they are, and where a program that hangs stands.

    python3 gpu_tools.py cuobjdump

prints the path of a tool. Exit status 1: it is not here.
"""
import contextlib
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parts"))
import measure

KIT = pathlib.Path(__file__).resolve().parents[2] / "tools"  # tools that an unpacked kit brought
# A package for Python has the programs of CUDA in one of these folders of its folder nvidia/*.
FOLDERS = ("bin", "compute-sanitizer", "nsight-compute")
TOOLS = ("compute-sanitizer", "cuda-gdb", "ncu", "cuobjdump")


def packages():
    """Yield the folders of packages of this Python, of the active environment and of each Python in PATH."""
    homes = [os.environ.get("VIRTUAL_ENV"), sys.prefix, sys.base_prefix]
    homes += [str(pathlib.Path(folder).parent) for folder in os.environ.get("PATH", "").split(":")
              if folder and glob.glob(f"{glob.escape(folder)}/python3*")]
    for home in dict.fromkeys(filter(None, homes)):
        yield from glob.glob(f"{glob.escape(home)}/lib/python3*/site-packages")


def find(name):
    """Return the path of a tool, or None: from PATH, the kit, an installation of CUDA, or a package for Python."""
    cuda = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    places = [KIT, *(KIT / folder for folder in FOLDERS)]
    places += [pathlib.Path(home, folder) for home in filter(None, cuda) for folder in FOLDERS]
    places += sorted(map(pathlib.Path, glob.glob("/opt/nvidia/nsight-compute/*")), reverse=True)
    places += [pathlib.Path(home) for site in packages() for folder in FOLDERS
               for home in sorted(glob.glob(f"{glob.escape(site)}/nvidia/*/{folder}"), reverse=True)]
    found = shutil.which(name)
    # the program in a package's folder bin only starts the one beside its libraries
    while found is None and places:
        found = shutil.which(str(places.pop(0) / name))
    return found


# ---- a program that hangs --------------------------------------------------------------------------


def end_group(process):
    """Kill a command and all processes that it started. Do not wait long: a driver may hold a process that is dead."""
    measure.end(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def last_child(pid):
    """Return the process that a process waits for: the last of its children's children."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return last_child(int(children[0])) if children else pid


def ask(pid, limit):
    """Return the name of the debugger and what it says about a process: the kernels that run, and its threads. Return
    the reason in the second place, and None in the first, if no debugger could say anything."""
    debugger = find("cuda-gdb") or shutil.which("gdb")
    if not debugger:
        return None, "there is neither cuda-gdb nor gdb"
    name = pathlib.Path(debugger).name
    orders = ["set pagination off", *(["info cuda kernels", "bt 8"] if name == "cuda-gdb" else []),
              "thread apply all bt 12"]
    words = [debugger, "-nx", "-batch", "-p", str(last_child(pid)),
             *(word for order in orders for word in ("-ex", order))]
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        except OSError as error:
            return None, f"{name}: {error}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        end_group(process)
        out.seek(0)
        told = out.read().decode(errors="replace")
    return name if told else None, told or f"{name} said nothing within {limit:.0f} s"


if __name__ == "__main__":
    path = find(sys.argv[1])
    print(path or f"gpu_tools.py: there is no {sys.argv[1]}", file=sys.stdout if path else sys.stderr)
    sys.exit(0 if path else 1)
