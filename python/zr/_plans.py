"""Plans and simulations, by the commands `zr plan` and `zr simulate`.

The parameters of plan, simulate and search are the options of the commands. They are spelled once, in the signatures:
locals() passes them on.
"""

import copy
import json
import os
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import _command, _keys
from ._record import Record


class _Question:
    """A command, with a configuration and options from the arguments of a function."""

    def __init__(self, command: str, given: Dict[str, Any]):
        self._command, self._config, keys = command, copy.deepcopy(given.pop("config")), given.pop("keys")
        self._words = [*_command.options(given), *(f"--{o}" for o in _keys.flatten(keys))]

    def ask(self, *more: str) -> str:
        with _keys.file_of(self._config) as path:
            return _command.run([self._command, *([path] if path else []), *self._words, *more])


class _Answer(Record):
    """The JSON of a command, with its text and its picture, which are made when they are asked for."""

    def __init__(self, question: _Question, *more: str):
        self._question = question
        self._text: Optional[str] = None
        super().__init__(json.loads(question.ask("--json", *more)))

    def text(self) -> str:
        """Return what the command prints for people."""
        if self._text is None:
            self._text = self._question.ask("--quiet", "--color=never")
        return self._text

    def svg(self) -> str:
        """Return the command's picture as SVG."""
        with tempfile.TemporaryDirectory(prefix="zr-") as folder:
            path = os.path.join(folder, "picture.svg")
            self._question.ask("--json", "--quiet", f"--svg={path}")
            with open(path, encoding="utf-8") as picture:
                return picture.read()

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return self.text()


class Plan(_Answer):
    """Memory, traffic and FLOPs of a training step; attributes are the members of `zr plan --json`.

    Sizes are bytes of a rank: `memory.total`, `memory.optim` and so on; `traffic.total` is what it receives in a step.
    repr() is the text of `zr plan`, and notebooks show its picture.
    """


class Simulation(_Answer):
    """Time and memory of a training step on a cluster; attributes are the members of `zr simulate --json`.

    `step_sec`, `tokens_per_sec`, `mfu`, `exposed_sec`, `fits`, `bound_by`, `memory.total` and others. repr() is the text
    of `zr simulate`, and notebooks show a step over time.
    """


class Search:
    """The answer of `zr simulate --search`: the ways to train that fit, the fastest first.

    Items are records with `keys`, `config`, `step_sec` and what a Simulation has. `best` is the first.
    """

    def __init__(self, ways: List[Dict[str, Any]]):
        self._ways = ways

    @property
    def best(self) -> Record:
        """The way that zr recommends."""
        return self[0]

    def to_list(self) -> List[Dict[str, Any]]:
        """Return a copy of the JSON."""
        return json.loads(json.dumps(self._ways))

    def __len__(self) -> int:
        return len(self._ways)

    def __getitem__(self, index: int) -> Record:
        return Record(self._ways[index])

    def __iter__(self) -> Iterator[Record]:
        return map(Record, self._ways)

    def __repr__(self) -> str:
        best = self._ways[0]
        return f"Search({len(self)} ways; best: {json.dumps(best['keys'])}, step_sec {best['step_sec']:.4g})"


def plan(
    config: _keys.Config = None,
    *,
    preset: Optional[str] = None,
    ranks: Optional[int] = None,
    stage: Optional[int] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    tensor: Optional[int] = None,
    memory: Optional[str] = None,
    disk: Optional[str] = None,
    max: Optional[str] = None,  # noqa: A002, the name of the option
    cluster: Optional[str] = None,
    profile: Optional[str] = None,
    tokens: Optional[float] = None,
    efficiency: Optional[float] = None,
    system: Optional[str] = None,
    with_: Union[None, str, Sequence[str]] = None,
    from_: Optional[str] = None,
    every: bool = False,
    advice: bool = False,
    **keys: Any,
) -> Plan:
    """Plan a training step without running it, as `zr plan`. Arguments are its options; further keywords are keys.

    config: a path of a CONFIG.json, or a dict with its keys.

    >>> p = plan(preset="gpt2-124m", ranks=8, stage=3, zero_optimization={"allgather_bucket_size": 2**20})
    >>> p.stage, p.memory.states < p.memory.total
    (3, True)
    """
    given = locals()
    more = ["--advice"] if given.pop("advice") else []
    return Plan(_Question("plan", given), *more)


def simulate(
    config: _keys.Config = None,
    *,
    cluster: str,
    ranks: int,
    preset: Optional[str] = None,
    stage: Optional[int] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    tensor: Optional[int] = None,
    memory: Optional[str] = None,
    disk: Optional[str] = None,
    tokens: Optional[float] = None,
    system: Optional[str] = None,
    with_: Union[None, str, Sequence[str]] = None,
    transport: Optional[str] = None,
    straggler: Optional[float] = None,
    jitter: Optional[float] = None,
    seed: Optional[int] = None,
    **keys: Any,
) -> Simulation:
    """Estimate the time of a training step on a cluster, as `zr simulate`. Arguments are as for plan().

    >>> s = simulate(preset="llama3-8b", cluster="dgx-h100x8", ranks=64, stage=3)
    >>> s.fits, 0 < s.mfu < 1
    (True, True)
    """
    return Simulation(_Question("simulate", locals()))


def search(
    config: _keys.Config = None,
    *,
    cluster: str,
    ranks: int,
    preset: Optional[str] = None,
    step_tokens: Optional[float] = None,
    stage: Optional[int] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    tensor: Optional[int] = None,
    memory: Optional[str] = None,
    disk: Optional[str] = None,
    system: Optional[str] = None,
    with_: Union[None, str, Sequence[str]] = None,
    **keys: Any,
) -> Search:
    """Find the fastest way to train that fits in memory, as `zr simulate --search`. What is not given is searched.

    >>> search(preset="gpt2-124m", cluster="dgx-h100x8", ranks=8, batch=4).best.fits
    True
    """
    return Search(json.loads(_Question("simulate", locals()).ask("--search", "--json")))
