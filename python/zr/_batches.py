"""Batches of tokens from arrays and iterators, as pointers that the library copies from.

int32 tokens are copied once: by the library, from the caller's array into the inputs of the planned memory (copy_made
in src/train/family/samples.c).
"""

import threading
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from . import _library
from ._errors import DataError

_INT32 = np.iinfo(np.int32)
_ON_HOST = (1, 3)  # DLPack's types of devices whose memory the processor reads: CPU, and pinned memory


def array_of(value: Any, what: str) -> np.ndarray:
    """Return an array, or the memory of another library's tensor as an array, by DLPack."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    kind = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
    try:
        device = value.__dlpack_device__()[0]
        if device in _ON_HOST:
            return np.from_dlpack(value)
        why = f"it is on another device (DLPack's type {int(device)}); copy it to the CPU first"
    except Exception as failure:  # of any class: this is another library's code
        why = str(failure)
    raise DataError(f"{what} is a {kind} that cannot be read as an array: {why}")


def tokens_of(value: Any, what: str) -> np.ndarray:
    """Return tokens as an int32 array of two dimensions whose rows are contiguous, without a copy where possible.
    Other integers are converted if all values fit."""
    value = array_of(value, what)
    if value.ndim != 2:
        raise DataError(f"{what} has the shape {value.shape}; expected two dimensions, (rows, tokens)")
    if value.dtype.kind not in "iu":
        raise DataError(f"{what} has the dtype {value.dtype}; expected integers, such as int32")
    if value.dtype != np.int32:
        if value.size and (value.min() < _INT32.min or value.max() > _INT32.max):
            raise DataError(f"{what} has values from {value.min()} to {value.max()}; tokens must fit in int32")
        value = value.astype(np.int32)
    whole = value.strides[1] == value.itemsize and value.flags.aligned
    return value if whole else np.ascontiguousarray(value)


def pair_of(item: Any, what: str) -> Tuple[np.ndarray, np.ndarray]:
    """Split an item of data into tokens and targets: an array (rows, T+1), or a pair of arrays (rows, T)."""
    if isinstance(item, (tuple, list)) and len(item) == 2 and getattr(item[0], "ndim", 2) == 2:
        tokens, targets = tokens_of(item[0], f"{what}, tokens"), tokens_of(item[1], f"{what}, targets")
        if tokens.shape != targets.shape:
            raise DataError(f"{what}: tokens have the shape {tokens.shape}, but targets have {targets.shape}")
        if tokens.strides[0] != targets.strides[0]:
            tokens, targets = np.ascontiguousarray(tokens), np.ascontiguousarray(targets)
        return tokens, targets
    both = tokens_of(item, what)
    return both[:, :-1], both[:, 1:]


class Batches:
    """A zr_source over arrays or an iterator.

    An array has all rows, which are taken in order, again and again. An iterator gives the rows of one training step
    at a time. The array of the current step is kept until the next one is asked for.
    """

    def __init__(self, data: Any, what: str):
        self.failure: Optional[BaseException] = None
        self._what = what
        self._seq = 0
        self._lock = threading.Lock()
        self._all: Optional[Tuple[np.ndarray, np.ndarray]] = None
        self._iterator: Iterator[Any] = iter(())
        self._first = self._taken = -1
        self._now: Tuple[np.ndarray, np.ndarray]
        is_array = isinstance(data, np.ndarray) or hasattr(data, "__dlpack__")
        if is_array or (isinstance(data, tuple) and len(data) == 2):
            self._all = pair_of(data, what)
        else:
            self._iterator = iter(data)
        self._callback = _library.READ_ROWS(self._read)
        self.struct = _library.Source(self._callback, None, 0)

    def begin(self, seq: int) -> None:
        """Set the length of rows, and check the rows of an array."""
        self._seq = seq
        if self._all is not None:
            self._check(self._all, len(self._all[0]), self._what)

    def gather(self, most: int) -> None:
        """Take the rows for evaluations from the iterator: all, or with `most` above 0 at least as many."""
        if self._all is None:
            pairs: List[Tuple[np.ndarray, np.ndarray]] = []
            rows = 0
            while rows < most or most <= 0:
                item = next(self._iterator, None)
                if item is None:
                    break
                what = f"batch {len(pairs)} of {self._what}"
                pairs.append(pair_of(item, what))
                rows += len(pairs[-1][0])
                self._check(pairs[-1], len(pairs[-1][0]), what)
            if not rows:
                raise DataError(f"{self._what} has no rows")
            self._all = np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])
        self.struct.rows = len(self._all[0])

    def _check(self, pair: Tuple[np.ndarray, np.ndarray], rows: int, what: str) -> None:
        if pair[0].shape != (rows, self._seq):
            raise DataError(
                f"{what} has {pair[0].shape[0]} rows of {pair[0].shape[1]} tokens and their targets; "
                f"expected {rows} rows of {self._seq} (train_batch_size, data.seq_length)"
            )

    def _make(self, first: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
        if self._all is not None:
            tokens, targets = self._all
            if not len(tokens):
                raise DataError(f"{self._what} has no rows")
            begin = first % len(tokens)
            if begin + n <= len(tokens):
                return tokens[begin : begin + n], targets[begin : begin + n]
            rows = np.arange(first, first + n) % len(tokens)
            return tokens[rows], targets[rows]
        self._taken += 1
        what = f"batch {self._taken} of {self._what}"
        try:
            item = next(self._iterator)
        except StopIteration:
            raise DataError(
                f"{self._what} ended after {self._taken} batches, before the run's last step (train.steps)"
            ) from None
        pair = pair_of(item, what)
        self._check(pair, n, what)
        return pair

    def _read(self, _arg: Any, first: int, n: int, tokens: Any, targets: Any, stride: Any) -> int:
        with self._lock:  # every rank asks, and an iterator lets other threads run
            try:
                if self.failure is None and first != self._first:
                    self._now = self._make(first, n)
                    self._first = first
            except BaseException as failure:  # noqa: B902, ends the run and is raised again by it
                self.failure = failure
        if self.failure is not None:
            return _library.ERR_DATA
        tokens[0], targets[0] = self._now[0].ctypes.data, self._now[1].ctypes.data
        stride[0] = self._now[0].strides[0] // 4
        return _library.OK
