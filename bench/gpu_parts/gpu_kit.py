"""bench/gpu --kit: an archive with all files that bench/gpu needs on a machine with a GPU where zr cannot be built."""
import ctypes
import glob
import json
import lzma
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import gpu_tools
from measure import BUILD, OUT, ROOT, Failed

DESCRIPTION = ROOT / "kit.json"  # exists only in an unpacked kit
OUTSIDE = os.environ.get("LD_LIBRARY_PATH", "")  # for programs that are not in the kit
C_LIBRARY = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libmvec.so",
             "libresolv.so", "libutil.so", "libanl.so")
# the machine's own copies are preferred, since its other programs may need newer ones
COMPILER = ("libstdc++.so", "libgcc_s.so")


# ---- packing -------------------------------------------------------------------------------------


def make_programs():
    """Build zr for the GPUs of CUDA_ARCHS, without MPI, in a separate folder, and return the folder."""
    folder = BUILD / "kit"
    name = folder.relative_to(ROOT)
    done = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", f"B={name}", "MPI=none", f"CUDA_ARCHS={architectures()}",
                           f"{name}/zr", f"{name}/bench/bench_gpu", "gpu-tests"], cwd=ROOT)
    if done.returncode:
        raise Failed(f"make: exit {done.returncode}")
    return folder


def architectures():
    return os.environ.get("CUDA_ARCHS", "all")


def programs(folder):
    """Return the paths of the programs, by their names in the kit. As in bench/gpu, the environment may select
    others."""
    tests = glob.glob(os.environ.get("GPU_TESTS", str(folder / "tests/gpu_test_*")))
    return {"build/zr": pathlib.Path(os.environ.get("ZR", folder / "zr")),
            "build/bench/bench_gpu": pathlib.Path(os.environ.get("BENCH_GPU", folder / "bench/bench_gpu")),
            **{f"build/tests/{pathlib.Path(path).name}": pathlib.Path(path)
               for path in sorted(tests) if os.access(path, os.X_OK)}}


def libraries(paths):
    """Return the shared libraries that the programs load, by name, without the C library."""
    found = {}
    for path in paths:
        for line in subprocess.run(["ldd", path], capture_output=True, text=True).stdout.splitlines():
            name, arrow, target = line.strip().partition(" => ")
            if "not found" in target:
                raise Failed(f"{path}: {name} is missing here")
            if arrow and not name.startswith(C_LIBRARY):
                found[name] = pathlib.Path(target.split(" (")[0])
    return found


def glibc_of(paths):
    """Return the newest version of glibc that one of the files requires."""
    return max((tuple(map(int, pair)) for path in paths
                for pair in re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())), default=(0, 0))


def tools():
    """Return the files of compute-sanitizer, by their names in the kit, or nothing if it is not here. The other tools
    are too large, or of no use on the machine with the GPU."""
    found = gpu_tools.find("compute-sanitizer")
    if not found:
        return {}
    here = pathlib.Path(found).resolve().parent
    folder = next((folder for folder in (here, here.parent / "compute-sanitizer")
                   if (folder / "libsanitizer-collection.so").exists()), None)
    return {f"tools/compute-sanitizer/{path.name}": path for path in sorted(folder.iterdir()) if path.is_file()
            } if folder else {"tools/compute-sanitizer/compute-sanitizer": pathlib.Path(found)}


def pack(target, own, preset, losses):
    """Pack programs, whose names in the kit are the keys of `own`, and the processor's losses."""
    if not any(name.startswith("build/tests/") for name in own):
        raise Failed("no program was built for GPUs: make the kit where nvcc is")
    missing = [path for path in own.values() if not path.exists()]
    if missing:
        raise Failed(f"{missing[0]} was not built")
    shared = libraries(own.values())
    lasting = [path for name, path in shared.items() if not name.startswith(COMPILER)]
    with tempfile.TemporaryDirectory(dir=OUT) as stage:
        stage = pathlib.Path(stage)
        for name, path in own.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, stage / name)
            subprocess.run(["strip", stage / name], check=True)
        for name, path in shared.items():
            place = stage / ("lib/compiler" if name.startswith(COMPILER) else "lib") / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path.resolve(), place)
        brought = tools()
        for name, path in brought.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, stage / name)
        for parts in "bench/parts", "bench/gpu_parts":
            shutil.copytree(ROOT / parts, stage / parts, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(ROOT / "bench/gpu", stage / "bench/gpu")
        (stage / DESCRIPTION.name).write_text(json.dumps(
            {"glibc": glibc_of([*own.values(), *lasting]), "losses": losses}, indent=1) + "\n")
        # The dictionary holds several programs, since they have most of their code in common.
        squeeze = [{"id": lzma.FILTER_LZMA2, "preset": preset, **({"dict_size": 128 << 20} if preset else
                    {"depth": 1, "nice_len": 3})}]
        with lzma.open(target, "wb", filters=squeeze) as file, tarfile.open(fileobj=file, mode="w") as archive:
            for part in sorted(stage.iterdir()):
                archive.add(part, part.name)
    print(f"{target}: {len(own)} programs and {len(shared)} libraries, {'' if brought else 'not '}compute-sanitizer, "
          f"{len(losses)} runs of the processor, {target.stat().st_size / 1e6:.1f} MB; unpack it and run bench/gpu "
          "there")


# ---- unpacked ------------------------------------------------------------------------------------


def described(key):
    """Return a value of an unpacked kit's description, or None."""
    return json.loads(DESCRIPTION.read_text()).get(key) if DESCRIPTION.exists() else None


def tell_libraries(paths):
    """Print each library that the programs load, and each tool, with its place. Fail if a library is missing."""
    found, missing = {}, []
    for path in filter(pathlib.Path.exists, paths):
        listed = subprocess.run([path], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                                text=True).stdout
        for name, arrow, target in (line.strip().partition(" => ") for line in listed.splitlines()):
            if "not found" in target:
                missing.append(f"{name} of {path.name}")
            elif arrow:
                found[name] = target.split(" (")[0].removeprefix(f"{ROOT}/")
    print("libraries: " + ", ".join(f"{name} in {pathlib.Path(path).parent}" for name, path in sorted(found.items())))
    print("tools: " + ", ".join(f"{name} in {pathlib.Path(path).parent}" if path else f"no {name}" for name, path in
                                ((name, gpu_tools.find(name)) for name in gpu_tools.TOOLS)))
    if missing:
        raise Failed(f"missing libraries: {', '.join(dict.fromkeys(missing))}")


def settle():
    """In an unpacked kit, let programs find the kit's libraries. Return whether this is an unpacked kit."""
    if sys.prefix != sys.base_prefix:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)  # zr looks there for NVIDIA's libraries
    if not DESCRIPTION.exists():
        return False
    wanted = tuple(json.loads(DESCRIPTION.read_text())["glibc"])
    name, version = platform.libc_ver()
    if name == "glibc" and tuple(map(int, version.split(".")[:2])) < wanted:
        raise Failed(f"this kit needs glibc {wanted[0]}.{wanted[1]}, this machine has {version}: make the kit on an older "
                     "system, or build zr here")
    folders = [ROOT / "lib"]
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        folders.append(ROOT / "lib/compiler")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*map(str, folders), *([OUTSIDE] if OUTSIDE else [])])
    return True
