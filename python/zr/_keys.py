"""From Python's arguments to a configuration: a file, and overrides of the form key.path=value."""

import contextlib
import json
import os
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

Config = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]

# Keys of which the command's options, and arguments of this package, are short names.
_SHORT = {
    "preset": "model.preset",
    "stage": "zero_optimization.stage",
    "batch": "train_micro_batch_size_per_gpu",
    "seq": "data.seq_length",
    "tensor": "parallel.tensor",
    "memory": "memory.limit",
    "steps": "train.steps",
    "output_dir": "train.output_dir",
}


def text_of(value: Any) -> str:
    """Write a value as an override or option has it: a text as it is, anything else as JSON."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return json.dumps(value.item() if hasattr(value, "item") else value, allow_nan=False)


def flatten(keys: Mapping[str, Any], head: str = "") -> List[str]:
    """List keys as overrides. Objects become dotted keys: {"train": {"steps": 5}} is train.steps=5.

    >>> flatten({"train": {"steps": 5}, "optimizer.type": "Lion"})
    ['train.steps=5', 'optimizer.type=Lion']
    """
    overrides: List[str] = []
    for key, value in keys.items():
        if isinstance(value, Mapping):
            overrides += flatten(value, f"{head}{key}.")
        else:
            overrides.append(f"{head}{key}={text_of(value)}")
    return overrides


def short(given: Dict[str, Any]) -> List[str]:
    """List the arguments of a function that are short names of keys as overrides, without those that are None.

    >>> short({"stage": 2, "seq": None, "callbacks": ()})
    ['zero_optimization.stage=2']
    """
    return flatten({key: given[name] for name, key in _SHORT.items() if given.get(name) is not None})


@contextlib.contextmanager
def file_of(config: Config) -> Iterator[Optional[str]]:
    """Give the path of a configuration: its own, of a temporary file for a dict, or None."""
    if config is None or not isinstance(config, Mapping):
        yield None if config is None else os.fspath(config)
        return
    with tempfile.TemporaryDirectory(prefix="zr-") as folder:
        path = os.path.join(folder, "CONFIG.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(config, out)
        yield path
