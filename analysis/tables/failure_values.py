"""What is wrong with an argument: its value, where it comes from, or only its form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis.tables.failure_cells import FORMAT, SOURCE, VALUE, Taken, Wanted
from grid.core.types import to_json
from grid.text.references import PATTERN
from grid.worlds.equivalence import equivalent

_OPEN = re.compile(r"<[^<>]*>")
_WORDS = re.compile(r"[^\W_]+")
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), 1)
    for name in names.split()
}  # fmt: skip
_FILLERS = frozenset({"the", "a", "an", "of", "and", "in", "at", "on", "to", "for"})
_SHOWN = 48  # characters of a value in a detail
_LONGEST = 2_000  # characters of a value whose words are compared


class Wrong(NamedTuple):
    """What is wrong with one argument: VALUE, SOURCE or FORMAT, a few words, and the results that it should take."""

    kind: str
    text: str
    needs: frozenset[str] = frozenset()


def wrong_arguments(wanted: Wanted, taken: Taken, standing: Mapping[str, Taken], looked_up: bool) -> list[Wrong]:
    """What is wrong with the arguments of a call of the right tool, in the reference's order; empty where nothing is.

    An argument that the scorer accepts is none: one that means the same by the scorer's own rules
    (`grid.worlds.equivalence`), stands for the same result, or is left open by the reference's placeholder. `standing`
    has by the reference's substep the decision that stands for it.
    """
    written = taken.written
    if written is None:
        return []
    found = [
        wrong
        for name, value in wanted.arguments.items()
        if not (looked_up and is_open(name, value)) and (wrong := _wrong(name, value, written, taken.run, standing))
    ]
    accepted = taken.failed is False
    if not accepted:
        more = [name for name, value in written.items() if name not in wanted.arguments and value not in (None, "")]
        found += [Wrong(FORMAT, f"gives {name:.40}, which the reference does not") for name in more]
    if not found and taken.failed and not looked_up:
        found = [
            Wrong(FORMAT, f"{name:.40}={_shown(written[name])} for {_shown(value)}")
            for name, value in wanted.arguments.items()
            if name in written and not PATTERN.search(to_json(value)) and written[name] != value
        ]
    return found


def first_wrong(wrongs: list[Wrong]) -> tuple[str, str]:
    """The kind of a call whose arguments are wrong, and the first words on it: a value first, then a source."""
    kind = next(kind for kind in (VALUE, SOURCE, FORMAT) if any(wrong.kind == kind for wrong in wrongs))
    return kind, next(wrong.text for wrong in wrongs if wrong.kind == kind)


def _wrong(
    name: str,
    value: Any,
    written: Mapping[str, Any],
    run: Mapping[str, Any],
    standing: Mapping[str, Taken],
) -> Wrong | None:
    if name not in written:
        return Wrong(FORMAT, f"lacks {name:.40}", frozenset(step for step, _ in sources_of(value)))
    given, real = written[name], run.get(name, written[name])
    if given == value and not isinstance(value, str | list | dict):
        return None
    wanted_sources, sources = sources_of(value), sources_of(given)
    if not (wanted_sources or sources):
        return _constant(name, value, given)
    expected = _resolved(value, standing) if wanted_sources else value
    if not sources_of(expected) and equivalent(expected, real, name):
        return None
    needs = frozenset(step for step, _ in wanted_sources)
    if wanted_sources and sources:
        mapped = [(own.id, part) for step, part in wanted_sources if (own := standing.get(step))]
        if Counter(mapped) == Counter(sources) or Counter(wanted_sources) == Counter(sources):
            same = _rest(value) == _rest(given)
            return None if same else Wrong(VALUE, f"{name:.40}={_shown(given)} for {_shown(value)}", needs)
        return Wrong(SOURCE, f"{name:.40} refers to {_named(sources)}, not {_named(wanted_sources)}", needs)
    if wanted_sources:
        return Wrong(SOURCE, f"{name:.40}={_shown(given)}, not the result {_named(wanted_sources)}", needs)
    return Wrong(SOURCE, f"{name:.40} refers to {_named(sources)}, not {_shown(value)}")


def _constant(name: str, value: Any, given: Any) -> Wrong | None:
    if equivalent(value, given, name):
        return None
    kind = FORMAT if same_content(value, given) else VALUE
    return Wrong(kind, f"{name:.40}={_shown(given)} for {_shown(value)}")


def is_open(name: str, value: Any) -> bool:
    """Whether the reference leaves an argument open: a placeholder such as `<booking number>`, or its own name."""
    if not isinstance(value, str):
        return False
    return bool(_OPEN.search(value)) or (value != "" and _squeezed(value) == _squeezed(name))


def same_content(value: Any, given: Any) -> bool:
    """Whether two values say the same in another form: the same words and numbers, in whatever order and nesting."""
    mine, its = _content(value), _content(given)
    return bool(mine) and mine == its


def _content(value: Any) -> Counter[str]:
    """The words and numbers of a value, keys of objects left out."""
    found: Counter[str] = Counter()
    pending = [value]
    for part in pending:  # which grows
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif part is not None:
            found.update(_word(word) for word in _WORDS.findall(str(part)[:_LONGEST].casefold()))
    for filler in _FILLERS:
        del found[filler]
    return found


def _word(word: str) -> str:
    if word in _MONTHS:
        return str(_MONTHS[word])
    return word.lstrip("0") or "0" if word.isdecimal() else word


def sources_of(value: Any) -> list[tuple[str, str]]:
    """The results that a value refers to: (step, field)."""
    if not isinstance(value, str | list | dict):
        return []
    text = value if isinstance(value, str) else to_json(value)
    return PATTERN.findall(text) if "OUTPUT_FROM" in text else []


def _resolved(value: Any, standing: Mapping[str, Taken]) -> Any:
    """The reference's value with the results filled in that the path has of its steps."""
    if isinstance(value, list):
        return [_resolved(item, standing) for item in value]
    if isinstance(value, dict):
        return {name: _resolved(item, standing) for name, item in value.items()}
    if not isinstance(value, str):
        return value

    def result(step: str, field: str) -> Any:
        return standing[step].outcome.get(field) if step in standing else None

    whole = PATTERN.fullmatch(value)
    if whole:
        found = result(whole[1], whole[2])
        return value if found is None else found

    def within(match: re.Match[str]) -> str:
        found = result(match[1], match[2])
        return match[0] if found is None else found if isinstance(found, str) else to_json(found)

    return PATTERN.sub(within, value)


def _rest(value: Any) -> Counter[str]:
    """What a value says besides the results that it refers to."""
    return _content(PATTERN.sub(" ", value if isinstance(value, str) else to_json(value)))


def _named(sources: list[tuple[str, str]]) -> str:
    return ", ".join(f"{step}.{field}" for step, field in sources)[:80]


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _shown(value: Any) -> str:
    text = " ".join(to_json(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
