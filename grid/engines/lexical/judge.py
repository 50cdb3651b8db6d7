"""The lexical engine's scores as a judge, computed from words without understanding.

Before a call, the score is the share of the words in its tool and values that also occur in the request or in earlier
results. After the call, the score is the share of the outcome's fields that are not empty, or 0 if the call failed. For
all steps together, the score is the share of calls that did not fail. For two texts, the score is the number of words
that both have, divided by the number of words that either has.
"""

from __future__ import annotations

import re
from math import floor

from grid.core.engine import ChoiceAnswer, Prompt
from grid.core.types import FINISH, MAX_SCORE, Json, to_json
from grid.core.untrusted import loads
from grid.text.words import stems

_FINISH = f'{{"tool": "{FINISH}"'


def is_judging(prompt: Prompt) -> bool:
    """Whether the options of a choice are scores for a call or for two texts."""
    scores = isinstance(prompt.answer, ChoiceAnswer) and len(prompt.answer.options) == MAX_SCORE + 1
    return scores and bool(prompt.entries("proposal") or prompt.entries("texts"))


def answer(prompt: Prompt) -> str:
    """The answer as JSON, with the score rounded to a whole number."""
    kind = "the call's words that are known"
    if prompt.entries("texts"):
        kind = "the words that both texts have"
    elif prompt.entries("outcome"):
        kind = "the outcome's fields that hold something"
    elif len(prompt.entries("proposal")) == 1:
        kind = "the calls that did not fail"
    return to_json({"score": round(score(prompt) * MAX_SCORE), "explanation": f"The share of {kind}."})


def distribution(prompt: Prompt) -> tuple[float, ...]:
    """The score as a distribution over 0 to 10: the two numbers next to it have mass, and its mean is 10 * score."""
    place = score(prompt) * MAX_SCORE
    low = min(floor(place), MAX_SCORE - 1)
    shares = [0.0] * (MAX_SCORE + 1)
    shares[low], shares[low + 1] = low + 1 - place, place - low
    return tuple(shares)


def score(prompt: Prompt) -> float:
    """The score, in [0, 1]."""
    texts = prompt.entries("texts")
    if texts:
        return _alike(texts[1], texts[-1])
    shown = prompt.entries("outcome")
    if not shown:
        proposal = prompt.entries("proposal")
        return _unfailed(prompt) if len(proposal) == 1 else _relevance(prompt)
    return 0.0 if "failed" in shown[0] else _said(shown[-1])


def _unfailed(prompt: Prompt) -> float:
    calls = [line for line in prompt.entries("history") if '{"tool"' in line and _FINISH not in line]
    return sum(" failed: {" not in line for line in calls) / len(calls) if calls else 1.0


def _relevance(prompt: Prompt) -> float:
    known = {stem for kind in ("task", "request", "history") for line in prompt.entries(kind) for stem in stems(line)}
    words = {stem for text in _texts(_read(prompt.entries("proposal")[-1])) for stem in stems(text)}
    return len(words & known) / len(words) if words else 0.0


def _alike(one: str, other: str) -> float:
    """The share of words that two texts have in common; numbers count as words, since they change the meaning."""
    mine, its = ({*stems(text), *re.findall(r"\d+", text)} for text in (one, other))
    return len(mine & its) / len(mine | its) if mine | its else 0.0


def _said(outcome: str) -> float:
    found = _read(outcome)
    fields = list(found.values()) if isinstance(found, dict) else [found]
    return sum(map(bool, map(_texts, fields))) / len(fields) if fields else 0.0


def _read(text: str) -> Json:
    """The text's JSON value, or the text itself if it is not JSON."""
    try:
        found: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def _texts(value: Json) -> list[str]:
    """The texts and numbers within a value, without the names of fields."""
    pending, texts = [value], list[str]()
    for found in pending:  # the list grows during the loop
        if isinstance(found, dict | list):
            pending += found.values() if isinstance(found, dict) else found
        elif found is not None and found != "":
            texts.append(str(found))
    return texts
