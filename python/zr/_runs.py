"""Training runs, whose ranks are threads of this process."""

import atexit
import ctypes as c
import json
import os
import queue
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from . import _batches, _keys, _library, _weights
from ._errors import ArgumentError, Error, Stopped
from ._library import lib, log
from ._record import Record

Callback = Callable[[str, Dict[str, Any]], Any]
_STOP, _SAVE = 1, 2  # bits of what zr_train_threads reads in *asked
_live: "weakref.WeakSet[Run]" = weakref.WeakSet()
_process: List[int] = []  # of the first run


def check_process() -> None:
    """Refuse to train in a process that was forked after training: threads of libraries are absent from it."""
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise Error("this process was forked from one in which zr had trained; start it by spawn instead of fork")


@atexit.register
def _end_all() -> None:
    """At the end of the program let runs finish, or stop them after an exception."""
    for run in list(_live):
        if hasattr(sys, "last_value"):
            run.stop()
        run._ended.wait()


class Run:
    """A training run in this process; train() and resume() start it. It trains in the background.

    Iterating gives the lines of metrics.jsonl as they are made: dicts with "step", "loss" and so on, or with
    "val_loss". After the last line, the loop raises the run's failure if there is one. wait() returns the results.
    In a `with` statement, leaving the block waits for the run; an exception stops it with a checkpoint first.

    Ctrl+C in wait() or in the loop stops the run with a checkpoint, and then raises KeyboardInterrupt. A second
    Ctrl+C does not wait.

    output_dir: directory of the run, with checkpoints, metrics.jsonl and at the end model/.
    config: the complete configuration, a dict.
    metrics: the lines so far.
    """

    def __init__(
        self,
        config: _library.Config,
        ranks: int,
        resumes: bool,
        data: Optional[_batches.Batches],
        val: Optional[_batches.Batches],
        callbacks: Sequence[Callback],
    ):
        check_process()
        self.config: Dict[str, Any] = json.loads(config.json())
        self.output_dir: str = self.config["train"]["output_dir"]
        self.metrics: List[Dict[str, Any]] = []
        self.ranks = ranks
        self._callbacks = list(callbacks)
        for callback in self._callbacks:
            if not callable(callback):
                raise ArgumentError(f"callbacks has {callback!r}; expected functions f(kind, values)")
        self._lines: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        self._asked = c.c_int(0)
        self._lock = threading.Lock()  # for changes of _asked
        self._saved = threading.Event()
        self._ended = threading.Event()  # and not Thread.join(), which takes a thread for ended after Ctrl+C
        self._told = False  # whether the program called stop()
        self._hearing: Set[int] = set()  # threads that are in callbacks
        self._result: Optional[Record] = None
        self._failure: Optional[BaseException] = None
        self._hears = _library.EVENT(self._event)
        self._sources = [source for source in (data, val) if source]
        for source in self._sources:
            source.begin(self.config["data"]["seq_length"])
        if val:
            val.gather(self.config["train"]["eval_batches"] * self.config["train_batch_size"])
        for note in config.notes():
            log.info("%s", note)
        self._thread = threading.Thread(target=self._train, args=(config, resumes), name="zr", daemon=True)
        _live.add(self)
        self._thread.start()

    # ---- on the run's threads ----

    def _train(self, config: _library.Config, resumes: bool) -> None:
        result = c.c_void_p()
        status = lib.zr_train_threads(
            config.pointer, self.ranks, resumes, self._hears, None, c.byref(self._asked), c.byref(result)
        )
        if result:
            self._result = Record(json.loads(_library.take_text(result)))
        own = self._failure or next((source.failure for source in self._sources if source.failure), None)
        if status != _library.OK:
            failed = _library.failure(status)
            if own is not None:
                own.__context__ = failed
            self._failure = own or failed
        self._callbacks, self._sources = [], []
        self._ended.set()
        self._saved.set()
        self._lines.put(None)

    def _event(self, _arg: Any, kind: bytes, text: bytes) -> None:
        self._hearing.add(threading.get_ident())
        try:
            self._hear(kind.decode(), text.decode("utf-8", "replace"))
        except BaseException as failure:  # noqa: B902, ends the run, which raises it
            self._failure = self._failure or failure
            self._ask(_STOP)
        finally:
            self._hearing.discard(threading.get_ident())

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("note", "warn"):
            (log.info if kind == "note" else log.warning)("%s", text)
            return
        values = json.loads(text)
        if kind == "start":
            self.output_dir = values["output_dir"]
        elif kind == "saved":
            self._ask(0, _SAVE)
            self._saved.set()
        else:
            self.metrics.append(values)
            self._lines.put(values)
        for callback in self._callbacks:
            if callback(kind, values):
                self._ask(_STOP)

    # ---- for the program ----

    def _ask(self, wanted: int, done: int = 0) -> None:
        with self._lock:
            self._asked.value = (self._asked.value | wanted) & ~done

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        while True:
            line = self._patiently(self._lines.get)
            if line is None:
                self._lines.put(None)  # for other loops
                break
            yield line
        self.wait()

    def _patiently(self, wait: Callable[[], Any]) -> Any:
        if threading.get_ident() in self._hearing:
            raise ArgumentError("a callback cannot wait for its own run, which waits for it; to stop it return True")
        try:
            return wait()
        except KeyboardInterrupt:
            self._ask(_STOP)
            self._ended.wait()
            raise

    @property
    def running(self) -> bool:
        """Whether the run still trains."""
        return not self._ended.is_set()

    @property
    def losses(self) -> List[float]:
        """The losses of the steps so far; NaN for a step of which no target counts."""
        return [float("nan") if m["loss"] is None else m["loss"] for m in list(self.metrics) if "loss" in m]

    def stop(self) -> None:
        """Ask the run to end after the current step, with a checkpoint. wait() then raises Stopped."""
        self._told = True
        self._ask(_STOP)

    def checkpoint(self) -> None:
        """Write a checkpoint now, and wait for it; a callback does not wait."""
        self._saved.clear()
        self._ask(_SAVE)
        if threading.get_ident() in self._hearing:
            return
        if not self.running:
            self.wait()
            return
        self._patiently(self._saved.wait)

    def wait(self) -> Record:
        """Wait for the end of the run. Return its results, the JSON of `zr train --json`, or raise its failure."""
        self._patiently(self._ended.wait)
        _live.discard(self)
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is not None:
            self._ask(_STOP)
            self._ended.wait()
            return
        try:
            self.wait()
        except Stopped:
            if not self._told:
                raise

    def evaluate(self, data: Optional[str] = None, **options: Any) -> Record:
        """Evaluate the weights of the run's directory (zr.evaluate)."""
        return _weights.evaluate(self.output_dir, data, **options)

    def generate(self, prompt: str = "", **options: Any) -> Any:
        """Continue a text with the weights of the run's directory (zr.generate)."""
        return _weights.generate(self.output_dir, prompt, **options)

    def save(self, directory: str, **options: Any) -> None:
        """Write the newest weights of the run as a Hugging Face directory (zr.export)."""
        _weights.export(self.output_dir, directory, **options)

    def load(self) -> Dict[str, Any]:
        """Return the newest weights of the run as arrays (zr.load)."""
        return _weights.load(self.output_dir)

    def __repr__(self) -> str:
        steps = self.config["train"]["steps"]
        state = "running" if self.running else "failed" if self._failure else "done"
        done = f"step {self.metrics[-1]['step']} of {steps}" if self.metrics else f"{steps} steps"
        loss = f", loss {self.losses[-1]:.4f}" if self.losses else ""
        return f"Run({self.output_dir!r}, {state}, {done}{loss})"


def _source(given: Any, key: str, name: str, overrides: List[str]) -> Optional[_batches.Batches]:
    """Return a source of samples for arrays and iterators. A path, or a dict of keys, is added to the overrides."""
    if isinstance(given, (str, os.PathLike)):
        given = {key: given}
    if isinstance(given, Mapping):
        overrides += _keys.flatten(given, "data.")
        return None
    if given is not None and not any(hasattr(given, name) for name in ("__iter__", "__getitem__", "__dlpack__")):
        raise ArgumentError(
            f"{name} is {given!r}; expected a path, a dict of keys such as {{{key!r}: ...}}, an array or an iterator"
        )
    return None if given is None else _batches.Batches(given, name)


def _start(
    path: _keys.Config, overrides: List[str], ranks: int, how: int, data: Any, val: Any, callbacks: Sequence[Callback]
) -> Run:
    train, evals = _source(data, "train", "data", overrides), _source(val, "val", "val", overrides)
    structs = train.struct if train else None, evals.struct if evals else None
    with _keys.file_of(path) as file:
        config = _library.Config(file, overrides, ranks, how, int(time.time()), *structs)
    return Run(config, ranks, bool(how & _library.RESUMES), train, evals, callbacks)


def train(
    config: _keys.Config = None,
    *,
    data: Any = None,
    val: Any = None,
    ranks: int = 1,
    preset: Optional[str] = None,
    stage: Optional[int] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    tensor: Optional[int] = None,
    memory: Optional[str] = None,
    steps: Optional[int] = None,
    output_dir: Optional[str] = None,
    callbacks: Sequence[Callback] = (),
    **keys: Any,
) -> Run:
    """Start a training run, as `zr train` does, and return it while it trains.

    config: a path of a CONFIG.json, or a dict with its keys. Without it, as on the command line, types are bf16 and a
        micro-batch has one sample if the keys do not say otherwise.
    data: a path of a text or token file (key data.train); or a dict with keys of the section data; or an array of
        integers (rows, T+1), whose rows are taken in order, again and again; or an iterator that gives for each
        training step an array (train_batch_size, T+1). In place of an array (rows, T+1), a pair (tokens, targets) of
        arrays (rows, T) may be given. Targets of -1 do not count. T is data.seq_length. Arrays are numpy's, or tensors
        of any library that has DLPack, on the CPU.
    val: data for the evaluations every train.eval_interval steps: a path (data.val), an array as above, or an iterator
        of arrays, from which the first train.eval_batches batches are taken before the run.
    ranks: number of threads that train together.
    memory: limit of each rank, such as "8GB"; what is not given of stage, recompute and micro-batch is then chosen.
    callbacks: functions f(kind, values), called on a thread of the run. kind is "start", "step", "eval" or "saved". A
        true result stops the run with a checkpoint, and an exception also raises it in the program.

    >>> run = train(
    ...     model={"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 8},
    ...     data=np.arange(32 * 9).reshape(32, 9) % 64, steps=3, train_batch_size=4, output_dir=tmp + "/run",
    ... )
    >>> [line["step"] for line in run]
    [1, 2, 3]
    >>> run.wait().steps
    3
    """
    given, own, overrides = _keys.short(locals()), _keys.flatten(keys), []
    if config is None:
        if not any(o.startswith(("fp16=", "fp16.enabled=true")) for o in own):
            overrides.append("bf16.enabled=true")
        if memory is None:
            overrides.append("train_micro_batch_size_per_gpu=1")
    how = _library.CHOOSES if memory is not None else 0
    return _start(config, overrides + given + own, ranks, how, data, val, callbacks)


def resume(
    directory: str,
    *,
    data: Any = None,
    val: Any = None,
    ranks: Optional[int] = None,
    steps: Optional[int] = None,
    callbacks: Sequence[Callback] = (),
    **keys: Any,
) -> Run:
    """Continue the run of a directory from its newest checkpoint, as `zr train --resume` does.

    data: as for train(); by default the file that the run was started with. An iterator must begin with the batch
        after the last step of the checkpoint; an array continues at the right row by itself. val: as for train().
    ranks: by default as many as run.json in the directory says, or 1.
    """
    path = os.path.join(directory, "config.json")
    if ranks is None:
        ranks = 1
        report = os.path.join(directory, "run.json")
        if os.path.exists(report):
            with open(report, encoding="utf-8") as text:
                ranks = int(json.load(text)["ranks"])
    overrides = _keys.short({"steps": steps}) + _keys.flatten(keys)
    return _start(path, overrides, ranks, _library.RESUMES, data, val, callbacks)
