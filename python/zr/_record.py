"""Results as objects: a JSON object whose members are attributes."""

import json
from typing import Any, Dict, Iterator, List


class Record:
    """A JSON object of zr. Members are attributes and items; to_dict() returns the object itself.

    >>> r = Record({"memory": {"total": 3}, "stage": 2})
    >>> r.memory.total, r["stage"]
    (3, 2)
    """

    def __init__(self, members: Dict[str, Any]):
        self._members = members

    def to_dict(self) -> Dict[str, Any]:
        """Return a copy of the JSON object."""
        return json.loads(json.dumps(self._members))

    def __getitem__(self, name: str) -> Any:
        value = self._members[name]
        return Record(value) if isinstance(value, dict) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._members:
            raise AttributeError(f"{type(self).__name__} has no {name}; it has {', '.join(self._members)}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *(m for m in self._members if m.isidentifier())]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and other._members == self._members

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self._members, indent=1)})"
