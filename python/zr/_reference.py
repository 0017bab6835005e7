"""Exact training steps at any stage and layout, with which other implementations are compared."""

import ctypes as c
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _batches, _keys, _library, _weights
from ._errors import ArgumentError, DataError
from ._library import check, lib, log
from ._runs import check_process


class Reference:
    """The results of reference_step().

    losses, grad_norms, lrs, skipped: lists with a value for each step. `loss` and `grad_norm` are those of the last.
        A loss is before its step's update, and a norm before clipping.
    weights: arrays in float32 by the parameters' names, after the last step.
    gradients: those of the last step, before clipping; empty if the layout keeps none (memory.layout lean).
    states: for each state of the optimizer, such as "exp_avg", the arrays by name.
    updates: number of updates so far, with those before these steps and without skipped steps.
    """

    def __init__(self, numbers: Dict[str, Any], arrays: Dict[str, Dict[str, np.ndarray]], before: int):
        finite = lambda x: float("nan") if x is None else x  # noqa: E731
        self.losses: List[float] = [finite(x) for x in numbers["loss"]]
        self.grad_norms: List[float] = [finite(x) for x in numbers["grad_norm"]]
        self.lrs: List[float] = numbers["lr"]
        self.skipped: List[bool] = numbers["skipped"]
        self.updates = before + len(self.losses) - sum(self.skipped)
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
        return f"Reference(updates={self.updates}, losses={self.losses}, grad_norms={self.grad_norms}, {len(self.weights)} weights)"


class _Exchange:
    """Arrays that go into and come out of zr_train_reference. Its functions are called on several threads."""

    def __init__(self, given: Mapping[str, Optional[Mapping[str, Any]]]):
        self.failure: Optional[BaseException] = None
        self.given = given  # "weight" and the optimizer's states
        self.used: Dict[str, Dict[str, Tuple[str, np.ndarray]]] = {}  # given arrays by state and parameter
        self.arrays: Dict[str, Dict[str, np.ndarray]] = {}

    def _guard(self, action: Any, *args: Any) -> int:
        try:
            action(*args)
        except BaseException as failure:  # noqa: B902, raised again by reference_step
            self.failure = self.failure or failure
            return _library.ERR_DATA
        return _library.OK

    def fill(self, _arg: Any, state: bytes, name: bytes, elems: int, first: int, n: int, out: int) -> int:
        return self._guard(self._fill, state.decode(), name.decode(), elems, first, n, out)

    def _fill(self, state: str, name: str, elems: int, first: int, n: int, out: int) -> None:
        what = _words(state)
        given = self.given.get(state)
        if given is None:
            raise DataError(f"{what} is missing; a step after other updates needs it")
        found = [name] if name in given else [k for k in given if k.endswith("." + name) or name.endswith("." + k)]
        if len(found) != 1:
            raise DataError(f"{what} has {len(found)} arrays for {name}; it has {', '.join(list(given)[:8])}")
        array = _batches.array_of(given[found[0]], f"{what}: {name}")
        if array.size != elems:
            raise DataError(f"{what}: {name} has {array.size} elements of shape {array.shape}; expected {elems}")
        if array.dtype.kind not in "fV":  # V: bfloat16 of ml_dtypes
            raise DataError(f"{what}: {name} has the dtype {array.dtype}; expected floating-point numbers")
        self.used.setdefault(state, {})[name] = found[0], array
        to = np.ctypeslib.as_array(c.cast(out, c.POINTER(c.c_float)), (n,))
        to[:] = array.reshape(-1)[first : first + n]

    def read(self, _arg: Any, state: bytes, name: bytes, elems: int, first: int, n: int, source: int) -> int:
        return self._guard(self._read, state.decode(), name.decode(), elems, first, n, source)

    def _read(self, state: str, name: str, elems: int, first: int, n: int, source: int) -> None:
        of = self.arrays.setdefault(state, {})
        array = of[name] if name in of else of.setdefault(name, np.empty(elems, np.float32))
        array[first : first + n] = np.ctypeslib.as_array(c.cast(source, c.POINTER(c.c_float)), (n,))


    def check(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Refuse arrays of other shapes than the parameters have, and states that the optimizer lacks. Log weights
        that no parameter took."""
        for state, of in self.used.items():
            for name, (_, array) in of.items():
                if array.shape != tuple(shapes[name]):
                    raise DataError(
                        f"{_words(state)}: {name} has the shape {array.shape}; expected {tuple(shapes[name])}"
                    )
        for state in self.given:
            if state != "weight" and state not in self.used:
                has = ", ".join(s for s in self.arrays if s not in ("weight", "grad")) or "none"
                raise ArgumentError(f"{_words(state)} is not a state of this optimizer, which has {has}")
        taken = {given for given, _ in self.used.get("weight", {}).values()}
        left = [name for name in self.given["weight"] or {} if name not in taken]
        if left:
            log.info("weights that the model does not have are left out: %s", ", ".join(left[:8]))


def _words(state: str) -> str:
    return "weights" if state == "weight" else f"states[{state!r}]"


def reference_step(
    weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]],
    batches: Any,
    *,
    config: _keys.Config = None,
    optimizer: Union[None, str, Mapping[str, Any]] = None,
    states: Optional[Mapping[str, Mapping[str, Any]]] = None,
    updates: int = 0,
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
    states, updates: the optimizer's states before these steps, as in Reference.states, and the number of updates that
        made them, on which bias corrections and the scheduler depend.
    batch: samples of a micro-batch on each rank; by default each rank has one micro-batch.

    >>> tokens = np.arange(4 * 9).reshape(4, 9)
    >>> model = {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 8}
    >>> one = reference_step(None, tokens, model=model, optimizer="SGD")
    >>> two = reference_step(None, tokens, model=model, optimizer="SGD", ranks=2, stage=3)
    >>> abs(one.loss - two.loss) < 1e-6, one.gradients["transformer.wpe.weight"].shape
    (True, (8, 16))

    The second step with the states of the first:

    >>> one = reference_step(None, tokens, model=model, optimizer="AdamW")
    >>> both = reference_step(None, [tokens, tokens], model=model, optimizer="AdamW")
    >>> second = reference_step(
    ...     one.weights, tokens, model=model, optimizer="AdamW", states=one.states, updates=one.updates
    ... )
    >>> second.loss == both.loss, second.updates
    (True, 2)
    """
    check_process()
    several = isinstance(batches, list)
    pairs = [_batches.pair_of(b, f"batch {i} of batches") for i, b in enumerate(batches if several else [batches])]
    if not pairs:
        raise DataError("batches is empty; give at least one")
    rows, seq = pairs[0][0].shape
    if not isinstance(updates, (int, np.integer)) or updates < 0:
        raise ArgumentError(f"updates is {updates}; expected an integer, 0 or more")
    if states is not None and not isinstance(states, Mapping):
        raise ArgumentError(f"states is a {type(states).__name__}; expected a dict, as in Reference.states")
    if updates == 0 and states is not None:
        raise ArgumentError("states are given, but updates is 0; give the number of updates that made them")
    if updates != 0 and weights is None:
        raise ArgumentError(f"updates is {updates}, but weights is None; give the weights after these updates")
    given: Dict[str, Any] = {"memory.layout": "paper", "train_batch_size": rows}  # paper keeps gradients
    if weights is not None and not isinstance(weights, Mapping):
        given["model.init"] = os.fspath(weights)
        weights = _weights.load(weights)
    if optimizer is not None:
        given["optimizer"] = optimizer if isinstance(optimizer, Mapping) else {"type": optimizer}
    short = _keys.short({"stage": stage, "batch": batch, "seq": seq, "steps": updates + len(pairs)})
    with _keys.file_of(config) as path:
        overrides = [*_keys.flatten(given), *short, *_keys.flatten(keys)]
        made = _library.Config(path, overrides, ranks, _library.PLAIN)
    data, exchange = _batches.Batches(iter(pairs), "data"), _Exchange({"weight": weights, **(states or {})})
    data.begin(seq)
    fill = _library.PASS_STATE(exchange.fill) if weights is not None else _library.PASS_STATE()
    read = _library.PASS_STATE(exchange.read)
    args = _library.ReferenceArgs(len(pairs), data.struct, updates, fill, read, None)
    text = c.c_void_p()
    status = lib.zr_train_reference(made.pointer, ranks, c.byref(args), c.byref(text))
    failure = exchange.failure or data.failure
    if failure is not None:
        if text:
            lib.zr_free(text)
        raise failure
    check(status)
    numbers = json.loads(_library.take_text(text))
    exchange.check(numbers["shapes"])
    return Reference(numbers, exchange.arrays, updates)
