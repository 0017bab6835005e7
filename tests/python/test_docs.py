"""The examples in docstrings and in docs/python.md do what they say."""
import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest
import zr

SOURCE = pathlib.Path(os.environ["ZR_SOURCE"])
MODULES = ["zr", *(f"zr.{module.name}" for module in pkgutil.iter_modules(zr.__path__) if module.name != "libzr")]


def names(tmp_path):
    return {"np": np, "tmp": str(tmp_path), **{name: getattr(zr, name) for name in zr.__all__}}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path):
    failed, _ = doctest.testmod(importlib.import_module(name), extraglobs=names(tmp_path))
    assert failed == 0


def test_every_public_function_has_an_example_or_says_which_command_it_is():
    for name in zr.__all__:
        text = getattr(zr, name).__doc__
        assert text and text.strip(), name


def test_the_page():
    failed, tried = doctest.testfile(str(SOURCE / "docs" / "python.md"), False, optionflags=doctest.ELLIPSIS)
    assert failed == 0 and tried > 20


@pytest.mark.parametrize("name, argument, words", [
    ("plan_finetune", "picture.svg", "True .* products\n\nthe fastest of"),
    ("train_on_batches", "20", "step   20  loss"),
    ("check_optimizer", "", "no fault .*agrees.*\nclips_updates .*DIFFERS.*\neach_micro .*DIFFERS"),
])  # fmt: skip
def test_examples(name, argument, words):
    program = SOURCE / "python" / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, "-W", "error", program, *argument.split()],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and done.stderr == "" and re.search(words, done.stdout), done
