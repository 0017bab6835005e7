"""zr for Python: plan, simulate and train transformers with ZeRO.

    >>> import zr
    >>> plan = zr.plan(preset="gpt2-124m", ranks=4, stage=2)
    >>> plan.params
    124439808
    >>> plan.memory.total < 2e9
    True

All arithmetic is done by the library libzr and the command zr, which are in the package. Keys and their meanings are
those of CONFIG.json: https://github.com/zr-train/zr, docs/config.md. docs/python.md describes this module.
"""

from ._errors import ArgumentError, ConfigError, CreateError, DataError, Diverged, Error
from ._errors import FileError, MemoryLimit, NotFound, Stopped, Unsupported
from ._library import version
from ._plans import Plan, Search, Simulation, plan, search, simulate
from ._record import Record
from ._reference import Reference, reference_step
from ._runs import Run, resume, train
from ._weights import evaluate, export, generate, load

__version__ = version()

__all__ = [
    "ArgumentError", "ConfigError", "CreateError", "DataError", "Diverged", "Error", "FileError", "MemoryLimit",
    "NotFound", "Plan", "Record", "Reference", "Run", "Search", "Simulation", "Stopped", "Unsupported", "evaluate",
    "export", "generate", "load", "plan", "reference_step", "resume", "search", "simulate", "train", "version",
]  # fmt: skip
