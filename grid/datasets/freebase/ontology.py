"""Freebase's schema as GrailQA releases it: which class a relation leads from and to, which is another's inverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grid.core.errors import DataError
from grid.core.types import Skipped
from grid.datasets.files import MAX_FILE_BYTES
from grid.worlds.sparql.queries import NAME

ROLES, CLASSES, INVERSES = "fb_roles", "fb_types", "reverse_properties"
TOPIC = "common.topic"
"""What every class stands below whose members have names; members of others tie facts together and have none."""
MAX_LINES = 1_000_000


@dataclass(frozen=True)
class Ontology:
    """Relations with the classes that they lead from and to, and what is known of both.

    Attributes:
        roles: by relation its domain and its range, a class or a kind of literal (`type.int`).
        inverses: by relation the one that leads back; where b is the inverse of a, a is that of b.
        parents: by class those that it stands below.
        skipped: lines that cannot be read, and inverses that lead elsewhere.
    """

    roles: Mapping[str, tuple[str, str]]
    inverses: Mapping[str, str]
    parents: Mapping[str, Sequence[str]]
    skipped: Sequence[Skipped] = ()

    def above(self, name: str) -> tuple[str, ...]:
        """A class and all that it stands below, itself first; cycles do no harm."""
        return self._above(name)

    @cached_property
    def _known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _above(self, name: str) -> tuple[str, ...]:
        if name not in self._known:
            found, pending = {name: None}, [name]
            while pending:
                for parent in self.parents.get(pending.pop(), ()):
                    if parent not in found:
                        found[parent] = None
                        pending.append(parent)
            self._known[name] = tuple(found)
        return self._known[name]

    def has_names(self, name: str) -> bool:
        """Whether a class's members are things with names."""
        return TOPIC in self.above(name)

    @cached_property
    def leading_from(self) -> Mapping[str, Sequence[str]]:
        """By class the relations that lead from it, sorted."""
        return self._by_class(0)

    @cached_property
    def leading_to(self) -> Mapping[str, Sequence[str]]:
        """By class, or kind of literal, the relations that lead to it, sorted."""
        return self._by_class(1)

    def _by_class(self, place: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for relation in sorted(self.roles):
            found.setdefault(self.roles[relation][place], []).append(relation)
        return found


def read_ontology(folder: Path) -> Ontology:
    """The three files of a folder; raises DataError where one cannot be read or is too large."""
    skipped: list[Skipped] = []
    roles: dict[str, tuple[str, str]] = {}
    for place, (domain, relation, target) in _lines(folder / ROLES, 3, skipped):
        if roles.setdefault(relation, (domain, target)) != (domain, target):
            skipped.append(Skipped(place, "a relation that has another domain or range already"))
    parents: dict[str, list[str]] = {}
    for _, (name, _, parent) in _lines(folder / CLASSES, 3, skipped):
        parents.setdefault(name, []).append(parent)
    inverses: dict[str, str] = {}
    for place, (one, other) in _lines(folder / INVERSES, 2, skipped):
        if one not in roles or other not in roles:
            continue  # of relations that are not in use
        if roles[one] != roles[other][::-1] or inverses.get(one, other) != other or inverses.get(other, one) != one:
            skipped.append(Skipped(place, "two relations that do not lead to and fro between the same classes"))
            continue
        inverses[one], inverses[other] = other, one
    return Ontology(roles, inverses, parents, tuple(skipped))


def _lines(path: Path, fields: int, skipped: list[Skipped]) -> Iterator[tuple[str, list[str]]]:
    """Each line's place and its fields, less a closing dot; what is no line of so many names is skipped."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(path, None, f"a file of more than {MAX_FILE_BYTES:,} bytes")
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if number > MAX_LINES:
                    raise DataError(path, number, f"more than {MAX_LINES:,} lines")
                found = line.split()
                if len(found) == fields + 1 and found[-1] == ".":
                    found.pop()
                place = f"{path.name}:{number}"
                if found and (len(found) != fields or not all(map(NAME.fullmatch, (found[0], found[-1])))):
                    skipped.append(Skipped(place, f"a line of {fields} names is expected"))
                elif found:
                    yield place, found
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
