"""libzr by ctypes. Structs of the library that are mirrored here are checked against its headers by a test."""

import ctypes as c
import logging
import os
from typing import Any, List, Optional

from . import _errors

log = logging.getLogger("zr")
log.addHandler(logging.NullHandler())

# The status codes of zr/base.h, in order.
STATUSES = (
    "OK", "ERR_ARG", "ERR_SHAPE", "ERR_DTYPE", "ERR_CONFIG", "ERR_DATA", "ERR_NOT_FOUND", "ERR_UNSUPPORTED",
    "ERR_MEMORY", "ERR_CREATE", "ERR_IO", "ERR_STOPPED", "ERR_DIVERGED", "ERR_HANG", "ERR_PEER", "ERR_COMM",
    "ERR_STATE", "ERR_INTERNAL",
)  # fmt: skip
OK, ERR_DATA = 0, STATUSES.index("ERR_DATA")

RESUMES, CHOOSES, PLAIN = 1, 2, 4  # flags of zr_train_config

_address, _i64 = c.c_void_p, c.c_int64
READ_ROWS = c.CFUNCTYPE(c.c_int, _address, _i64, _i64, c.POINTER(_address), c.POINTER(_address), c.POINTER(_i64))
EVENT = c.CFUNCTYPE(None, _address, c.c_char_p, c.c_char_p)
PASS_STATE = c.CFUNCTYPE(c.c_int, _address, c.c_char_p, c.c_char_p, _i64, _i64, _i64, _address)


class Source(c.Structure):
    """zr_source of zr/config.h."""

    _fields_ = [("read", READ_ROWS), ("arg", _address), ("rows", _i64)]


class ReferenceArgs(c.Structure):
    """zr_reference of zr/run.h."""

    _fields_ = [
        ("steps", _i64),
        ("source", Source),
        ("updates", _i64),
        ("fill", PASS_STATE),
        ("read", PASS_STATE),
        ("arg", _address),
    ]


class Tensor(c.Structure):
    """zr_safetensors_tensor of zr/checkpoint.h."""

    _fields_ = [
        ("name", c.c_char_p),
        ("dtype", c.c_char_p),
        ("loadable", c.c_bool),
        ("ndim", c.c_int),
        ("dim", c.POINTER(_i64)),
        ("elems", _i64),
        ("offset", _i64),
        ("bytes", _i64),
    ]


def _open() -> c.CDLL:
    """Load the library of the package, or the one that ZR_LIBRARY names. libgomp reads its settings when it is loaded:
    as in the command, its threads then spin only briefly, unless the user says otherwise."""
    path = os.environ.get("ZR_LIBRARY") or os.path.join(os.path.dirname(__file__), "libzr.so")
    own = not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    if own:
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        return c.CDLL(path)
    finally:
        if own:
            del os.environ["GOMP_SPINCOUNT"]


lib: Any = _open()

_text, _int, _out, _source = c.c_char_p, c.c_int, c.POINTER(_address), c.POINTER(Source)
_PROTOTYPES = {
    "zr_version": (_text, []),
    "zr_error_message": (_text, []),
    "zr_error_trace": (_text, []),
    "zr_free": (None, [_address]),
    "zr_config_destroy": (None, [_out]),
    "zr_config_to_json": (_int, [_address, _out]),
    "zr_config_notes": (_int, [_address]),
    "zr_config_note": (_text, [_address, _int]),
    "zr_train_config": (_int, [_text, c.POINTER(_text), _int, _int, c.c_uint, _i64, _source, _source, _out]),
    "zr_train_threads": (_int, [_address, _int, c.c_bool, EVENT, _address, c.POINTER(_int), _out]),
    "zr_train_reference": (_int, [_address, _int, c.POINTER(ReferenceArgs), _out]),
    "zr_safetensors_open": (_int, [_text, _out]),
    "zr_safetensors_close": (None, [_out]),
    "zr_safetensors_count": (_i64, [_address]),
    "zr_safetensors_get": (c.POINTER(Tensor), [_address, _i64]),
    "zr_safetensors_read_f32": (_int, [_address, c.POINTER(Tensor), _i64, _i64, _address]),
}
for _name, (_result, _arguments) in _PROTOTYPES.items():
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments


def version() -> str:
    """Return the version of the library, such as "0.1.0"."""
    return lib.zr_version().decode()


def failure(status: int) -> _errors.Error:
    """Return the exception for a status that a call on this thread returned."""
    message = lib.zr_error_message().decode("utf-8", "replace")
    return _errors.error(STATUSES[status], message, lib.zr_error_trace().decode("utf-8", "replace"))


def check(status: int) -> None:
    if status != OK:
        raise failure(status)


def take_text(pointer: c.c_void_p) -> str:
    """Return a text that the library has allocated, and free it."""
    assert pointer.value is not None
    text = c.string_at(pointer.value).decode("utf-8", "replace")
    lib.zr_free(pointer)
    return text


class Config:
    """A prepared configuration (zr_train_config). It borrows the sources of samples."""

    def __init__(
        self,
        path: Optional[str],
        overrides: List[str],
        ranks: int,
        how: int,
        now: int = 0,
        train: Optional[Source] = None,
        val: Optional[Source] = None,
    ):
        self.pointer = c.c_void_p()
        array = (c.c_char_p * max(1, len(overrides)))(*[o.encode() for o in overrides])
        name = None if path is None else os.fsencode(path)
        check(lib.zr_train_config(name, array, len(overrides), ranks, how, now, train, val, c.byref(self.pointer)))

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            lib.zr_config_destroy(c.byref(self.pointer))

    def json(self) -> str:
        text = c.c_void_p()
        check(lib.zr_config_to_json(self.pointer, c.byref(text)))
        return take_text(text)

    def notes(self) -> List[str]:
        return [lib.zr_config_note(self.pointer, i).decode() for i in range(lib.zr_config_notes(self.pointer))]
