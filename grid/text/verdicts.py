"""What a judge's answer says of a plan: untrusted text, read with the limits of `grid.text.answers`."""

from __future__ import annotations

import re
from functools import partial

from grid.core.chains import ERRORS, GRADES, Verdict
from grid.core.types import Json
from grid.text.answers import only_one
from grid.text.objects import UnreadableError

NO_VERDICT = "no JSON object with is_correct"
MOST_REASONING = 2_000
"""Characters of the reasoning that are kept."""
_NEAR = 1e-6
_ERROR = re.compile(r"\s*([Ee][1-6])(?![0-9])")
_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_LISTS = ("error_list", "errors")


def read_verdict(text: str, errors: bool = True) -> Verdict:
    """The verdict of the object that has `is_correct`. With `errors` it must say of all six and have a grade.

    Keys of errors may go on behind their number (`E2_TASK_COMPLETENESS`), errors may stand in a list of their own, the
    grade may be called score; yes and no, 1 and 0 count as true and false. Raises UnreadableError as `read_call`.
    """
    return only_one(text, partial(_verdict, errors=errors), NO_VERDICT)


def _verdict(value: Json, errors: bool) -> Verdict | None:
    if not isinstance(value, dict) or "is_correct" not in value:
        return None
    correct, said = _truth(value["is_correct"], "is_correct"), value.get("reasoning")
    reasoning = said[:MOST_REASONING] if isinstance(said, str) else ""
    if not errors:
        return Verdict(correct, reasoning=reasoning)
    return Verdict(correct, _errors(value), _grade(value), reasoning)


def _errors(value: dict[str, Json]) -> frozenset[str]:
    listed = next((value[name] for name in _LISTS if name in value), None)
    if isinstance(listed, list):  # of those that hold
        if not all(isinstance(name, str) and _ERROR.match(name) for name in listed):
            raise UnreadableError("a list of errors that holds something else than E1 to E6")
        return frozenset(_named(str(name)) for name in listed)
    found: dict[str, bool] = {}
    for name, holds in (listed if isinstance(listed, dict) else value).items():
        if _ERROR.match(name):
            true = _truth(holds, name)
            if found.setdefault(_named(name), true) != true:
                raise UnreadableError(f"{_named(name)} stands in it twice, with different values")
    missing = [name for name in ERRORS if name not in found]
    if missing:
        raise UnreadableError(f"no {missing[0]}, where all of E1 to E6 are asked for")
    return frozenset(name for name, holds in found.items() if holds)


def _named(key: str) -> str:
    match = _ERROR.match(key)
    return match[1].upper() if match else ""


def _grade(value: dict[str, Json]) -> float:
    found = value.get("grade", value.get("score"))
    if isinstance(found, str) and re.fullmatch(r"\s*[01](\.[0-9]{1,6})?\s*", found):
        found = float(found)
    if not isinstance(found, bool) and isinstance(found, int | float):
        for grade in GRADES:
            if abs(found - grade) < _NEAR:
                return grade
    raise UnreadableError(f"no grade of {', '.join(map(str, GRADES))}")


def _truth(value: Json, key: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and value.strip().casefold() in _WORDS:
        return _WORDS[value.strip().casefold()]
    raise UnreadableError(f"{key:.30} that is neither true nor false")
