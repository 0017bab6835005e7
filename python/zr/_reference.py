"""Exact training steps at any stage and layout, with which other implementations are compared."""

import ctypes as c
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np

from . import _batches, _keys, _library, _weights
from ._errors import DataError
from ._library import check, lib
from ._runs import check_process


class Reference:
    """The results of reference_step().

    losses, grad_norms, lrs, skipped: lists with a value for each step. `loss` and `grad_norm` are those of the last.
        A loss is before its step's update, and a norm before clipping.
    weights: arrays in float32 by the parameters' names, after the last step.
    gradients: those of the last step, before clipping; empty if the layout keeps none (memory.layout lean).
    states: for each state of the optimizer, such as "exp_avg", the arrays by name.
    """

    def __init__(self, numbers: Dict[str, Any], arrays: Dict[str, Dict[str, np.ndarray]]):
        finite = lambda x: float("nan") if x is None else x  # noqa: E731
        self.losses: List[float] = [finite(x) for x in numbers["loss"]]
        self.grad_norms: List[float] = [finite(x) for x in numbers["grad_norm"]]
        self.lrs: List[float] = numbers["lr"]
        self.skipped: List[bool] = numbers["skipped"]
        shapes = numbers["shapes"]
        shaped = {s: {n: a.reshape(shapes[n]) for n, a in of.items()} for s, of in arrays.items()}
        self.weights: Dict[str, np.ndarray] = shaped.pop("weight")
        self.gradients: Dict[str, np.ndarray] = shaped.pop("grad", {})
        self.states: Dict[str, Dict[str, np.ndarray]] = shaped

    @property
    def loss(self) -> float:
        """The loss of the last step."""
        return self.losses[-1]

    @property
    def grad_norm(self) -> float:
        """The gradient norm of the last step."""
        return self.grad_norms[-1]

    def __repr__(self) -> str:
        return f"Reference(losses={self.losses}, grad_norms={self.grad_norms}, {len(self.weights)} weights)"


class _Exchange:
    """Arrays that go into and come out of zr_train_reference. Its functions are called on several threads."""

    def __init__(self, weights: Optional[Mapping[str, Any]]):
        self.failure: Optional[BaseException] = None
        self.given = weights
        self.arrays: Dict[str, Dict[str, np.ndarray]] = {}

    def _guard(self, action: Any, *args: Any) -> int:
        try:
            action(*args)
        except BaseException as failure:  # noqa: B902, raised again by reference_step
            self.failure = self.failure or failure
            return _library.ERR_DATA
        return _library.OK

    def fill(self, _arg: Any, name: bytes, elems: int, first: int, n: int, out: int) -> int:
        return self._guard(self._fill, name.decode(), elems, first, n, out)

    def _fill(self, name: str, elems: int, first: int, n: int, out: int) -> None:
        assert self.given is not None
        found = [name] if name in self.given else [
            n for n in self.given if n.endswith("." + name) or name.endswith("." + n)
        ]
        if len(found) != 1:
            raise DataError(f"weights has {len(found)} arrays for {name}; it has {', '.join(list(self.given)[:8])}")
        array = np.asarray(self.given[found[0]])
        if array.size != elems:
            raise DataError(f"weights: {name} has {array.size} elements of shape {array.shape}; expected {elems}")
        to = np.ctypeslib.as_array(c.cast(out, c.POINTER(c.c_float)), (n,))
        to[:] = array.reshape(-1)[first : first + n]

    def read(self, _arg: Any, state: bytes, name: bytes, elems: int, first: int, n: int, source: int) -> int:
        return self._guard(self._read, state.decode(), name.decode(), elems, first, n, source)

    def _read(self, state: str, name: str, elems: int, first: int, n: int, source: int) -> None:
        of = self.arrays.setdefault(state, {})
        array = of[name] if name in of else of.setdefault(name, np.empty(elems, np.float32))
        array[first : first + n] = np.ctypeslib.as_array(c.cast(source, c.POINTER(c.c_float)), (n,))


def reference_step(
    weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]],
    batches: Any,
    *,
    config: _keys.Config = None,
    optimizer: Union[None, str, Mapping[str, Any]] = None,
    ranks: int = 1,
    stage: Optional[int] = None,
    batch: Optional[int] = None,
    **keys: Any,
) -> Reference:
    """Perform exact training steps with given weights and tokens, at any stage and layout, and return the results.

    An author of a sharded optimizer compares with them: losses, gradient norms, gradients, new weights, states. Sums
    have the same bits for every stage, and differ from other summations only by rounding.

    weights: arrays by the names of Hugging Face's files; or a directory with weights, whose config.json then gives the
        model; or None for zr's own initial weights of the model.
    batches: the batch of one step: an array (rows, T+1) or a pair (tokens, targets); or a list of such batches.
    config: a path of a CONFIG.json, or a dict with its keys; further keywords are keys too, such as `model`. Types are
        float32, and the learning rate is constant, if the keys do not say otherwise.
    optimizer: the section optimizer, or only its type, such as "AdamW".
    batch: samples of a micro-batch on each rank; by default each rank has one micro-batch.

    >>> tokens = np.arange(4 * 9).reshape(4, 9)
    >>> model = {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 8}
    >>> one = reference_step(None, tokens, model=model, optimizer="SGD")
    >>> two = reference_step(None, tokens, model=model, optimizer="SGD", ranks=2, stage=3)
    >>> abs(one.loss - two.loss) < 1e-6, one.gradients["transformer.wpe.weight"].shape
    (True, (8, 16))
    """
    check_process()
    several = isinstance(batches, list)
    pairs = [_batches.pair_of(b, f"batch {i} of batches") for i, b in enumerate(batches if several else [batches])]
    if not pairs:
        raise DataError("batches is empty; give at least one")
    rows, seq = pairs[0][0].shape
    given = {
        "memory.layout": "paper",  # which keeps gradients
        "train_batch_size": rows,
        "data.seq_length": seq,
        "train_micro_batch_size_per_gpu": batch,
        "zero_optimization.stage": stage,
        "train.steps": len(pairs),
    }
    if weights is not None and not isinstance(weights, Mapping):
        given["model.init"] = os.fspath(weights)
        weights = _weights.load(weights)
    overrides = _keys.flatten({"optimizer": optimizer} if isinstance(optimizer, Mapping) else {})
    if isinstance(optimizer, str):
        overrides.append(f"optimizer.type={optimizer}")
    with _keys.file_of(config) as path:
        made = _library.Config(
            path, _keys.brief(given) + overrides + _keys.flatten(keys), ranks, _library.PLAIN, 0
        )
    data, exchange = _batches.Batches(iter(pairs), seq), _Exchange(weights)
    fill = _library.FILL(exchange.fill) if weights is not None else _library.FILL()
    args = _library.ReferenceArgs(len(pairs), data.struct, fill, _library.READ_STATE(exchange.read), None)
    text = c.c_void_p()
    status = lib.zr_train_reference(made.pointer, ranks, c.byref(args), c.byref(text))
    failure = exchange.failure or data.failure
    if failure is not None:
        if text:
            lib.zr_free(text)
        raise failure
    check(status)
    return Reference(json.loads(_library.take_text(text)), exchange.arrays)
