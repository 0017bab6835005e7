"""Structs, statuses and flags that the package mirrors are those of the headers."""
import ctypes
import gc
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import zr
from conftest import MODEL, keys
from zr import _command, _errors, _library

STRUCTS = {"zr_source": _library.Source, "zr_reference": _library.ReferenceArgs, "zr_safetensors_tensor": _library.Tensor}


@pytest.mark.skipif(not shutil.which("gcc"), reason="no compiler")
def test_the_mirrors():
    lines = []
    for name, mirror in STRUCTS.items():
        lines.append(f'P("{name}", sizeof({name}));')
        lines += [f'P("{name}.{field}", offsetof({name}, {field}));' for field, _ in mirror._fields_]
    lines += [f'P("{status}", ZR_{status});' for status in (*_library.STATUSES, "STATUS_COUNT")]
    lines += [f'P("{flag}", ZR_TRAIN_{flag});' for flag in ("RESUMES", "CHOOSES", "PLAIN")]
    with open("mirrors.c", "w") as out:
        out.write('#include <stdio.h>\n#include "zr.h"\n#define P(name, n) printf("%s %zu\\n", name, (size_t)(n))\n')
        out.write("int main(void) { " + "\n".join(lines) + " return 0; }\n")
    include = os.path.join(os.environ["ZR_SOURCE"], "include")
    subprocess.run(["gcc", f"-I{include}", "mirrors.c", "-o", "mirrors"], check=True)
    said = dict(line.split() for line in subprocess.run(["./mirrors"], capture_output=True, text=True).stdout.splitlines())
    found = {name: int(n) for name, n in said.items()}
    wanted = {"STATUS_COUNT": len(_library.STATUSES)}
    for name, mirror in STRUCTS.items():
        wanted[name] = ctypes.sizeof(mirror)
        wanted.update({f"{name}.{field}": getattr(mirror, field).offset for field, _ in mirror._fields_})
    wanted.update({status: i for i, status in enumerate(_library.STATUSES)})
    wanted.update(RESUMES=_library.RESUMES, CHOOSES=_library.CHOOSES, PLAIN=_library.PLAIN)
    assert found == wanted


def test_the_page_says_of_each_function_of_the_headers_how_python_reaches_it():
    source = pathlib.Path(os.environ["ZR_SOURCE"])
    page = (source / "docs" / "python.md").read_text().split("## Functions of the library")[1]
    called, command, absent = (set(re.findall(r"`(zr[_/][\w.]+)`", item)) for item in page.split("\n- ")[1:])
    functions = {}
    for header in (source / "include" / "zr").glob("*.h"):
        functions[f"zr/{header.name}"] = set(re.findall(r"ZR_API[^;({]*?\b(zr_\w+)\(", header.read_text()))
    assert called == set(_library._PROTOTYPES) <= set().union(*functions.values())
    assert not command & absent and command | absent == {name for name, found in functions.items() if found - called}


def test_each_function_that_the_package_calls_is_reached(tokens, monkeypatch):
    reached = set()
    for name in _library._PROTOTYPES:
        original = getattr(_library.lib, name)
        monkeypatch.setattr(_library.lib, name, lambda *args, n=name, f=original: (reached.add(n), f(*args))[1])
    list(zr.train(data=tokens, steps=1, output_dir="run", **keys(**{"train.eval_batches": 3})))  # has a note
    zr.reference_step(None, tokens[:4], model=MODEL)
    zr.export("run", "small", dtype="bf16")
    zr.load("small")
    with pytest.raises(zr.ConfigError):
        zr.train(model={"n_layers": 1})
    zr.version()
    gc.collect()  # of configurations
    assert reached == set(_library._PROTOTYPES)


def test_exit_codes_are_those_of_the_command():
    text = pathlib.Path(os.environ["ZR_SOURCE"], "src", "cli", "shell", "main.c").read_text()
    table = text[text.index("cli_exits[CLI_EXITS] = {") :].split("};")[0]
    pairs = [row.split(",")[:2] for row in table.split("{")[2:]]
    codes = {int(code): status.strip()[3:] for code, status in pairs}
    assert {code: status for code, status in codes.items() if code > 1} == _command._CODES
    assert set(_errors._CLASSES) <= set(_library.STATUSES)
