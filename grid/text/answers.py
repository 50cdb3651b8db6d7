"""What a model's answer says: a call, a plan, an outline, a score, a vote, a tool's response.

It is untrusted text, read with limits, never evaluated. An answer may hold several objects. What comes last counts
where words between them take back what came before; where they differ and nothing tells which counts, the answer cannot
be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from grid.core.types import MAX_SCORE, Json, ToolSpec, to_json
from grid.text.calls import Call, calls_in
from grid.text.objects import Found, UnreadableError, objects

MAX_STEPS = 256
NO_CALL = "no JSON object with a tool"
NO_PLAN = "no JSON object with a plan"
NO_OUTLINE = "no JSON object with a list `outline` of texts"
NO_SCORE = f"no JSON object with a score from 0 to {MAX_SCORE}"
NO_VOTE = "no JSON object with the number of the best"
NO_RESPONSE = "no JSON object with a response or an error"
_SCORE = re.compile(rf"\s*([0-9]{{1,3}}(?:\.[0-9]{{1,9}})?)\s*(?:(/|out of)\s*{MAX_SCORE}|(%))?\s*")
_TAKEN_BACK = re.compile(
    r"\b(wait|actually|sorry|oops|mistake|wrong|instead|rather|correct(?:ed|ion|ing)|revis\w+|update[ds]?|fix(?:ed)?"
    r"|reconsider\w*|on second thought|final answer)\b|\bno,",
    re.I,
)
_NO_TOOLS: Mapping[str, ToolSpec] = {}
T = TypeVar("T")


def read_call(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Call:
    """The one call that an answer makes, of NO_TOOL where it says that it takes none.

    Args:
        text: the answer.
        tools: those offered, by name. Arguments without an object of their own are read where all are parameters.

    Raises:
        UnreadableError: why it cannot be told which call is meant.
    """
    return only_one(text, partial(_one_call, tools=tools), NO_CALL)


def read_plan(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> list[Call]:
    """The calls of the object with a list `plan`, or of a list of calls; the plan's thought stands with the first.

    Raises UnreadableError as `read_call`.
    """
    return only_one(text, partial(_plan, tools=tools), NO_PLAN)


def read_outline(text: str) -> list[str]:
    """The texts of the object with a list `outline`. Raises UnreadableError as `read_call`."""
    return only_one(text, _outline, NO_OUTLINE)


def read_score(text: str) -> float:
    """The score, in [0, 1], of the object that has one from 0 to 10. Raises UnreadableError as `read_call`.

    A text counts where it is nothing but the number, as `7`, `7/10` or `70%`. A fraction of 1 alone does not: whoever
    writes 0.7 may mean another scale.
    """
    return only_one(text, _score, NO_SCORE)


def read_vote(text: str, candidates: int) -> int:
    """The number of the best of so many candidates, from 0. Raises UnreadableError as `read_call`."""
    return only_one(text, partial(_vote, candidates=candidates), NO_VOTE)


def read_response(text: str) -> tuple[str, Json]:
    """The error (empty: none) and the response of the object that has either. Raises UnreadableError as `read_call`."""
    return only_one(text, _response, NO_RESPONSE)


def only_one(text: str, read: Callable[[Json], T | None], otherwise: str) -> T:
    """What the text's objects say; those of which `read` makes None are of another kind."""
    places: list[tuple[T | UnreadableError, Found]] = []
    for found in objects(text):
        try:
            meant: T | UnreadableError | None = UnreadableError(found.why) if found.why else read(found.value)
        except UnreadableError as error:
            meant = error
        if meant is not None:
            places.append((meant, found))
    if not places:
        raise UnreadableError(otherwise)
    last, at = places[-1]
    if isinstance(last, UnreadableError):
        raise last
    others = [found for meant, found in places[:-1] if not isinstance(meant, UnreadableError) and meant != last]
    if others and not _TAKEN_BACK.search(text[others[-1].end : at.start]):
        raise UnreadableError("several answers that differ, where one is asked for")
    return last


def _one_call(value: Json, tools: Mapping[str, ToolSpec]) -> Call | None:
    calls = calls_in(value, tools)
    if not calls:
        return None
    if any(call != calls[0] for call in calls[1:]):
        raise UnreadableError(f"{len(calls)} calls, where one is asked for")
    return calls[0]


def _plan(value: Json, tools: Mapping[str, ToolSpec]) -> list[Call] | None:
    if not isinstance(value, dict) or isinstance(value.get("tool_calls"), list):
        return calls_in(value, tools)
    if "plan" not in value:
        return None
    steps = value["plan"]
    if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
        raise UnreadableError(f"a plan that is no list of 1 to {MAX_STEPS} calls")
    plan = []
    for place, step in enumerate(steps, start=1):
        try:
            call = _one_call(step, tools)
        except UnreadableError as error:
            raise UnreadableError(f"entry {place} of the plan: {error}") from None
        if call is None:
            raise UnreadableError(f"entry {place} of the plan is no call")
        plan.append(call)
    thought = value.get("thought")
    if isinstance(thought, str) and plan[0].thought is None:
        plan[0] = replace(plan[0], thought=thought)
    return plan


def _outline(value: Json) -> list[str] | None:
    if not isinstance(value, dict) or "outline" not in value:
        return None
    lines = value["outline"]
    if isinstance(lines, list) and 0 < len(lines) <= MAX_STEPS:
        texts = [" ".join(line.split()) for line in lines if isinstance(line, str)]
        if len(texts) == len(lines) and all(texts):
            return texts
    raise UnreadableError(NO_OUTLINE)


def _score(value: Json) -> float | None:
    if not isinstance(value, dict) or "score" not in value:
        return None
    found = value["score"]
    if isinstance(found, str) and (match := _SCORE.fullmatch(found)):
        number, of_ten, percent = match.groups()
        if of_ten or percent:
            share = float(number) / (100 if percent else MAX_SCORE)
            if share <= 1:
                return share
        else:
            found = float(number) if "." in number else int(number)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= MAX_SCORE:
        raise UnreadableError(NO_SCORE)
    if isinstance(found, float) and 0 < found <= 1:
        raise UnreadableError(NO_SCORE)
    return abs(found) / MAX_SCORE


def _vote(value: Json, candidates: int) -> int | None:
    if not isinstance(value, dict) or "best" not in value:
        return None
    found = value["best"]
    if isinstance(found, str) and found.strip().isdecimal() and found.isascii():
        found = int(found.strip()[:9])
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < candidates:
        raise UnreadableError(f"no number of one of {candidates} candidates")
    return found


def _response(value: Json) -> tuple[str, Json] | None:
    if not isinstance(value, dict) or not ("response" in value or value.get("error")):
        return None
    error = value.get("error") or ""
    return error if isinstance(error, str) else to_json(error), value.get("response")
