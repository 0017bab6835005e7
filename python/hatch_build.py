"""Build the library and the command with make, and put both into the wheel.

ZR_BUILD names a folder with a finished libzr.so and zr instead; ZR_MAKE has arguments for make, such as CUDA=none;
ZR_LICENSES is set by scripts/wheel.
MPI is left out: an MPI inside a wheel would not be that of mpirun.
"""

import os
import shutil
import subprocess
import sysconfig
import tempfile

os.environ.pop("PIP_BUILD_TRACKER", None)  # with it, hatchling gives pip the metadata only after a whole build

from hatchling.build import *  # noqa: E402,F403, this file is the build backend too
from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # noqa: E402


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        source = os.path.dirname(self.root)
        built = os.environ.get("ZR_BUILD") or self._make(source)
        self.stripped = tempfile.TemporaryDirectory(prefix="zr-")
        for name, to in (("libzr.so", "zr/libzr.so"), ("zr", "zr/bin/zr")):
            path = os.path.join(self.stripped.name, name)
            shutil.copy(os.path.join(built, name), path)
            subprocess.run(["strip", "--strip-unneeded", path], check=True)
            build_data["force_include"][path] = to
        build_data["force_include"][os.path.join(source, "LICENSE")] = "zr/LICENSE"
        if os.environ.get("ZR_LICENSES"):
            self._add_licenses(build_data)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def _add_licenses(self, build_data):
        """Add the licenses of the libraries that auditwheel will copy into the wheel, as Debian has them."""
        command = os.path.join(self.stripped.name, "zr")
        for line in subprocess.run(["ldd", command], check=True, capture_output=True, text=True).stdout.splitlines():
            name = line.split()[0]
            if " => /" not in line or name.split(".")[0] in ("libc", "libm", "libstdc++", "libgcc_s"):
                continue
            file = os.path.basename(os.path.realpath(line.split(" => ")[1].split()[0]))
            found = subprocess.run(["dpkg", "-S", f"*/{file}"], check=True, capture_output=True, text=True).stdout
            package = found.split(":")[0]
            build_data["force_include"][f"/usr/share/doc/{package}/copyright"] = f"zr/licenses/{package}.txt"

    def _make(self, source):
        lacks = subprocess.run([os.path.join(source, "scripts", "deps"), "--check"], capture_output=True, text=True)
        if lacks.returncode:
            missing = lacks.stderr.splitlines()[-1]
            raise SystemExit(f"zr cannot be built here; {missing} (scripts/deps installs them on Debian)")
        words = ["make", "-s", "-C", source, "MPI=none", *os.environ.get("ZR_MAKE", "").split()]
        try:
            subprocess.run([*words, f"-j{os.cpu_count() or 1}"], check=True)
            facts = subprocess.run([*words, "info"], check=True, capture_output=True, text=True).stdout
        except subprocess.CalledProcessError as failure:
            raise SystemExit(f"zr could not be built; make's messages are above ({failure})") from None
        folder = next(line.split()[1] for line in facts.splitlines() if line.startswith("folder "))
        return os.path.join(source, folder)

    def finalize(self, version, build_data, artifact_path):
        self.stripped.cleanup()
