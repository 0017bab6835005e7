"""Trained weights: evaluated, continued as texts, exported, and as arrays."""

import ctypes as c
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _command, _library
from ._errors import NotFound, error
from ._library import check, lib
from ._record import Record

Path = Union[str, "os.PathLike[str]"]


def evaluate(
    directory: Path,
    data: Optional[Path] = None,
    *,
    batches: Optional[int] = None,
    seq: Optional[int] = None,
    stride: Optional[int] = None,
    threads: Optional[int] = None,
    as_text: bool = False,
) -> Record:
    """Compute the loss of trained weights on a file, as `zr eval`: `loss`, `perplexity`, `tokens` and others.

    directory: of a run, a checkpoint, or a Hugging Face directory. data: by default the run's data.val.
    """
    options = _command.options(
        data=data, batches=batches, seq=seq, stride=stride, threads=threads, as_text=as_text, json=True, quiet=True
    )
    return Record(json.loads(_command.run(["eval", os.fspath(directory), *options])))


def generate(
    directory: Path,
    prompt: str = "",
    *,
    tokens: int = 200,
    temperature: Optional[float] = None,
    top_k: Optional[int] = None,
    top_p: Optional[float] = None,
    stop: Union[None, str, Sequence[str]] = None,
    seed: Optional[int] = None,
    chat: bool = False,
    system: Optional[str] = None,
    own_settings: bool = False,
    threads: Optional[int] = None,
) -> str:
    """Continue a text with trained weights, as `zr generate`; return the new text, without the prompt."""
    options = _command.options(
        prompt=prompt,
        tokens=tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        stop=[stop] if isinstance(stop, str) else stop,
        seed=seed,
        chat=chat,
        system=system,
        own_settings=own_settings,
        threads=threads,
        json=True,
        quiet=True,
    )
    return json.loads(_command.run(["generate", os.fspath(directory), *options]))["text"]


def export(source: Path, directory: Path, *, dtype: Optional[str] = None, shard_size: Optional[str] = None) -> None:
    """Write the newest weights of a run or checkpoint as a Hugging Face directory, as `zr convert`.

    dtype: "f32", "bf16" or "f16"; by default the types of the source.
    """
    options = _command.options(dtype=dtype, shard_size=shard_size, quiet=True)
    _command.run(["convert", os.fspath(source), os.fspath(directory), *options])


def _files_of(directory: str) -> List[str]:
    """List the files with the weights of a directory, as transformers names them, or of a run's model/ or newest
    checkpoint."""
    inside = [os.path.join(directory, "model")]
    if os.path.isdir(directory):
        steps = sorted(name for name in os.listdir(directory) if name.startswith("step-") and name[5:].isdigit())
        inside += [os.path.join(directory, name) for name in reversed(steps)]
    for folder in [directory, *inside]:
        index = os.path.join(folder, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index, encoding="utf-8") as text:
                names = sorted(set(json.load(text)["weight_map"].values()))
            return [os.path.join(folder, name) for name in names]
        if os.path.exists(os.path.join(folder, "model.safetensors")):
            return [os.path.join(folder, "model.safetensors")]
    raise NotFound(f"{directory} has no model.safetensors; give a run, a checkpoint or a Hugging Face directory")


_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}


def _read_file(path: str, into: Dict[str, Any]) -> None:
    import numpy as np

    file = c.c_void_p()
    check(lib.zr_safetensors_open(os.fsencode(path), c.byref(file)))
    try:
        for i in range(lib.zr_safetensors_count(file)):
            tensor = lib.zr_safetensors_get(file, i)
            it = tensor.contents
            name, dtype, shape = it.name.decode(), it.dtype.decode(), tuple(it.dim[: it.ndim])
            if name in into:
                raise error("ERR_DATA", f"{path}: the tensor {name} is in another file too")
            if dtype in _DTYPES and it.elems > 0:
                into[name] = np.memmap(path, _DTYPES[dtype], "r", it.offset, shape)
            elif it.loadable:
                into[name] = np.empty(shape, np.float32)
                check(lib.zr_safetensors_read_f32(file, tensor, 0, it.elems, into[name].ctypes.data))
            else:
                raise error("ERR_UNSUPPORTED", f"{path}: numpy has no dtype for {dtype}, the type of {name}")
    finally:
        lib.zr_safetensors_close(c.byref(file))


def load(directory: Path) -> Dict[str, Any]:
    """Return the weights of a directory as numpy arrays by their names in Hugging Face's files.

    directory: of a run (its model/, or else its newest checkpoint), a checkpoint, or a Hugging Face directory. Arrays
    are read-only views of the files, without a copy; bfloat16, for which numpy has no type, is given as float32.
    """
    arrays: Dict[str, Any] = {}
    for path in _files_of(os.fspath(directory)):
        _read_file(path, arrays)
    return arrays
