"""Trained weights: evaluated, continued as texts, exported, and as arrays."""

import codecs
import ctypes as c
import json
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

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
    given = locals()
    words = ["eval", os.fspath(given.pop("directory")), *_command.options(given), "--json"]
    return Record(json.loads(_command.run(words)))


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
    past_end: bool = False,
    chat: bool = False,
    system: Optional[str] = None,
    chat_template: Optional[str] = None,
    own_settings: bool = False,
    threads: Optional[int] = None,
    stream: bool = False,
) -> Any:
    """Continue a text with trained weights, as `zr generate`; return the new text, without the prompt.

    stream: return an iterator that gives the text in pieces, as tokens are made. Closing it ends the generation.
    """
    given = locals()
    del given["stream"]
    words = ["generate", os.fspath(given.pop("directory")), *_command.options(given)]
    pieces = _pieces(words, 0 if chat else len(os.fsencode(prompt)))
    return pieces if stream else "".join(pieces)


def _pieces(words: List[str], prompt_bytes: int) -> Iterator[str]:
    """Give what the command prints, without the prompt at its beginning and the newline at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = b""  # a newline that may be the last byte
    for piece in _command.stream(words):
        new = held + piece[prompt_bytes:]
        prompt_bytes = max(0, prompt_bytes - len(piece))
        held = b"\n" if new.endswith(b"\n") else b""
        text = decoder.decode(new[: len(new) - len(held)])
        if text:
            yield text
    text = decoder.decode(b"", True)
    if text:
        yield text


def export(source: Path, directory: Path, *, dtype: Optional[str] = None, shard_size: Optional[str] = None) -> None:
    """Write the newest weights of a run or checkpoint as a Hugging Face directory, as `zr convert`.

    dtype: "f32", "bf16" or "f16"; by default the types of the source.
    """
    given = locals()
    places = [os.fspath(given.pop(name)) for name in ("source", "directory")]
    _command.run(["convert", *places, *_command.options(given), "--quiet"])


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
                into[name] = np.memmap(path, _DTYPES[dtype], "c", it.offset, shape)
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
    are views of the files, without a copy: what a program writes to them stays in its memory (copy on write).
    torch.from_numpy takes them. bfloat16, for which numpy has no type, is given as float32.
    """
    arrays: Dict[str, Any] = {}
    for path in _files_of(os.fspath(directory)):
        _read_file(path, arrays)
    return arrays
