"""A database as a value: what tools change is copied first, and what they leave alone is shared by all versions.

A database of the package is a pydantic model whose fields are tables (records by their keys), or small lists and
objects. A version is a base, which nobody ever changes, and beside it the records that are other than in the base.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, eq=False)
class Version:
    """A database's state: `records` by table and key (None: deleted), and `parts`, fields that are no tables."""

    base: BaseModel
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def working(self, writing: bool) -> Any:
        """A database for one call to work on. Without `writing` its tables' records are not copied."""
        found: dict[str, Any] = {}
        for name in type(self.base).model_fields:
            value = self._part(name)
            is_table = isinstance(value, dict)
            found[name] = Table(value, self.records.get(name, {}), writing) if is_table else deepcopy(value)
        return type(self.base).model_construct(**found)

    def behind(self, worked: Any) -> Version:
        """The version that a call leaves, from the database that it worked on; this one where nothing changed."""
        records, parts = dict[str, Mapping[str, Any]](), dict[str, Any]()
        for name in type(self.base).model_fields:
            value = getattr(worked, name)
            if isinstance(value, Table):
                if changed := value.changed():
                    records[name] = {**self.records.get(name, {}), **changed}
            elif written(value) != written(self._part(name)):
                parts[name] = value
        if not records and not parts:
            return self
        return Version(self.base, {**self.records, **records}, {**self.parts, **parts})

    def same(self, other: Version) -> bool:
        """Whether two versions of one base are equal, as the package's hashes of them would be."""
        for name in self.parts.keys() | other.parts.keys():
            if written(self._part(name)) != written(other._part(name)):
                return False
        for name in self.records.keys() | other.records.keys():
            mine, theirs, base = self.records.get(name, {}), other.records.get(name, {}), getattr(self.base, name)
            for key in mine.keys() | theirs.keys():
                if written(mine.get(key, base.get(key))) != written(theirs.get(key, base.get(key))):
                    return False
        return True

    def _part(self, name: str) -> Any:
        return self.parts.get(name, getattr(self.base, name))


class Table(MutableMapping[str, Any]):
    """Records of a base with those of a version over them; what is taken out for `writing` is a copy of its own."""

    def __init__(self, base: Mapping[str, Any], over: Mapping[str, Any], writing: bool) -> None:
        self._base, self._over, self._writing = base, over, writing
        self._own: dict[str, Any] = {}

    def changed(self) -> dict[str, Any]:
        """The records that are other than before; None where deleted."""
        return {key: one for key, one in self._own.items() if written(one) != written(self._before(key))}

    def _before(self, key: str) -> Any:
        return self._over[key] if key in self._over else self._base.get(key)

    def __getitem__(self, key: str) -> Any:
        """A record; raises KeyError."""
        found = self._own[key] if key in self._own else self._before(key)
        if found is None:
            raise KeyError(key)
        if self._writing and key not in self._own:
            found = self._own[key] = deepcopy(found)
        return found

    def __setitem__(self, key: str, record: Any) -> None:
        """Add or replace a record."""
        self._own[key] = record

    def __delitem__(self, key: str) -> None:
        """Delete a record; raises KeyError."""
        if key not in self:
            raise KeyError(key)
        self._own[key] = None

    def __contains__(self, key: object) -> bool:
        """Whether there is such a record."""
        return isinstance(key, str) and (self._own[key] if key in self._own else self._before(key)) is not None

    def __iter__(self) -> Iterator[str]:
        """The keys: the base's in their order, behind them what was added."""
        for keys, earlier in ((self._base, ()), (self._over, (self._base,)), (self._own, (self._base, self._over))):
            yield from (key for key in list(keys) if key in self and not any(key in one for one in earlier))

    def __len__(self) -> int:
        """How many records there are."""
        return sum(1 for _ in self)


def written(value: Any) -> str:
    """A record or part as the package writes it before it takes a hash."""
    return json.dumps(_plain(value), sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(warnings=False)
    return [_plain(item) for item in value] if isinstance(value, list) else value
