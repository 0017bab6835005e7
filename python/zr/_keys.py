"""From Python's arguments to a configuration: a file, and overrides of the form key.path=value."""

import contextlib
import json
import os
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

Config = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]


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


def brief(given: Dict[str, Any]) -> List[str]:
    """Overrides of arguments that stand for keys, without those that are None."""
    return [f"{key}={text_of(value)}" for key, value in given.items() if value is not None]


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
