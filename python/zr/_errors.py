"""Exceptions: one class for each status of the library that a program may want to tell apart."""

from typing import Optional


class Error(RuntimeError):
    """A failure in zr. The text is the library's message.

    code: name of the status, such as "ERR_CONFIG".
    trace: functions of the library through which the failure passed, one per line, or "".
    """

    code = "ERR_INTERNAL"

    def __init__(self, message: str, code: Optional[str] = None, trace: str = ""):
        super().__init__(message)
        self.code = code or type(self).code
        self.trace = trace

    def __str__(self) -> str:  # instead of OSError's
        return str(self.args[0])


class ArgumentError(Error, ValueError):
    """An argument with a value that is not allowed, or options that exclude each other."""

    code = "ERR_ARG"


class ConfigError(Error, ValueError):
    """A key or a value of the configuration that is not allowed."""

    code = "ERR_CONFIG"


class DataError(Error, ValueError):
    """Data or weights that cannot be used."""

    code = "ERR_DATA"


class NotFound(Error, FileNotFoundError):
    """A file, a directory or a name that does not exist."""

    code = "ERR_NOT_FOUND"


class Unsupported(Error, NotImplementedError):
    """Something that zr, or this build or machine, cannot do."""

    code = "ERR_UNSUPPORTED"


class MemoryLimit(Error, MemoryError):
    """A plan that needs more memory than there is, or than memory.limit allows."""

    code = "ERR_MEMORY"


class CreateError(Error, OSError):
    """A file or directory that cannot be created."""

    code = "ERR_CREATE"


class FileError(Error, OSError):
    """Reading or writing failed."""

    code = "ERR_IO"


class Diverged(Error, ArithmeticError):
    """Training diverged: losses or weights are not finite."""

    code = "ERR_DIVERGED"


class Stopped(Error):
    """A run ended on request, with a checkpoint."""

    code = "ERR_STOPPED"


_CLASSES = {cls.code: cls for cls in Error.__subclasses__()}


def error(code: str, message: str, trace: str = "") -> Error:
    """Return the exception of a status."""
    return _CLASSES.get(code, Error)(message, code, trace)
