"""The command zr, which is part of the package: it answers what needs no arrays and no callbacks."""

import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List

from ._errors import error
from ._library import log

# Exit codes of the command (docs/operations.md) as statuses.
_CODES = {
    2: "ERR_ARG",
    65: "ERR_DATA",
    66: "ERR_NOT_FOUND",
    69: "ERR_UNSUPPORTED",
    71: "ERR_MEMORY",
    73: "ERR_CREATE",
    74: "ERR_IO",
    75: "ERR_STOPPED",
    78: "ERR_CONFIG",
    80: "ERR_DIVERGED",
    82: "ERR_HANG",
    83: "ERR_PEER",
}


def path() -> str:
    """Return the path of the command: of the package, or the one that ZR_COMMAND names."""
    return os.environ.get("ZR_COMMAND") or os.path.join(os.path.dirname(__file__), "bin", "zr")


def main() -> None:
    """Become the command; `zr` on the command line of an installed package."""
    os.execv(path(), ["zr", *sys.argv[1:]])


def options(given: Dict[str, Any]) -> List[str]:
    """Write options for a command line. None leaves an option out, True gives a flag, and a list repeats an option.

    >>> options({"batch": 4, "with_": ["a=1", "b=2"], "seq": None, "every": True})
    ['--batch=4', '--with=a=1', '--with=b=2', '--every']
    """
    words: List[str] = []
    for name, value in given.items():
        name = "--" + name.rstrip("_").replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                words.append(name)
            elif each is not None and each is not False:
                words.append(f"{name}={os.fspath(each) if hasattr(each, '__fspath__') else each}")
    return words


def stream(words: List[str]) -> Iterator[bytes]:
    """Run the command and give its standard output as it is written. Log its notes; raise its failure."""
    with tempfile.TemporaryFile() as notes:
        with subprocess.Popen(
            [path(), *words], bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=notes
        ) as process:
            assert process.stdout is not None
            try:
                while True:
                    piece = process.stdout.read(65536)
                    if not piece:
                        break
                    yield piece
            except BaseException:
                process.kill()
                raise
        notes.seek(0)
        said = notes.read().decode("utf-8", "replace").splitlines()
    lines = [line[4:] if line.startswith("zr: ") else line for line in said]
    if process.returncode == 0:
        for line in lines:
            log.info("%s", line[6:] if line.startswith("note: ") else line)
        return
    text = "\n".join(line for line in lines if not line.startswith("note: "))
    if process.returncode < 0:
        text = f"the command was ended by signal {-process.returncode}. {text}"
    raise error(_CODES.get(process.returncode, "ERR_INTERNAL"), text)


def run(words: List[str]) -> str:
    """Run the command and return its standard output."""
    return b"".join(stream(words)).decode("utf-8", "replace")
