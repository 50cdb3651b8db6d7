"""The lexical engine's verdicts on plans, reached by comparing names and words, without understanding.

E6: the plan calls a tool that is not listed. E5: a required argument is missing, an unknown argument is given, or the
plan calls a tool that the prompt names as useless. E4: an argument refers to a step that does not precede the call. E2,
if the prompt shows a known solution: the plan omits one of the solution's tools. E2, without a known solution: the plan
has no calls. E1, without a known solution: a whole plan contains less than a third of the request's words. The judge
never reports E3. If the judge is not asked for errors, it accepts every refusal as right, and of other answers only
those whose first call is similar to the failed call (`_alternative`).
"""

from __future__ import annotations

import re
from collections import Counter

from grid.core.engine import PLAN, Prompt, VerdictAnswer
from grid.core.types import ERRORS, Json, to_json
from grid.core.untrusted import DECODER
from grid.engines.places import name_of
from grid.text.references import PATTERN
from grid.text.words import stems

_STEP = re.compile(r"Step (\d{1,9}): (?=\{)")
_PARAMETER = re.compile(r"(?<![^\s,()*:])([^\s,()*:]+)(\*?): ")
_REFUSED = "The request is refused"
_COVERED = 1 / 3
_GRADES = {0: 1.0, 1: 0.6, 2: 0.4}
_WORST = 0.2
Call = tuple[int, str, dict[str, Json]]


def answer(prompt: Prompt, wanted: VerdictAnswer) -> str:
    """The verdict as JSON."""
    plan = prompt.entries("proposal")
    if not wanted.errors:
        refused = any(line.startswith(_REFUSED) for line in plan)
        correct = _alternative(prompt) if not refused and _calls(plan) else refused
        return to_json({"reasoning": "By the words that are alike.", "is_correct": correct})
    errors = _errors(prompt)
    said: dict[str, Json] = {name: name in errors for name in ERRORS}
    grade = _GRADES.get(len(errors), _WORST)
    return to_json({"reasoning": "By names and words.", **said, "grade": grade, "is_correct": not errors})


def _errors(prompt: Prompt) -> set[str]:
    calls, tools = _calls(prompt.entries("proposal")), _tools(prompt)
    known = [name for _, name, _ in _calls(prompt.entries("demonstrations"))]
    useless = {name for line in prompt.entries("notes")[-1:] for name in line.split(", ")}
    begun = {number for number, *_ in _calls(prompt.entries("history"))}
    found: set[str] = set()
    for number, name, arguments in calls:
        if name not in tools:
            found.add("E6")
            continue
        required, every = tools[name]
        if name in useless or not required <= arguments.keys() or not arguments.keys() <= every:
            found.add("E5")
        for step, _ in PATTERN.findall(to_json(arguments)):
            if step.isdecimal() and int(step) not in begun:
                found.add("E4")
        begun.add(number)
    if known:
        found |= {"E2"} if Counter(known) - Counter(name for _, name, _ in calls) else set()
    elif not calls:
        found.add("E2")
    elif prompt.entries("proposal")[0] == PLAN and _covered(prompt, calls) < _COVERED:
        found.add("E1")
    return found


def _alternative(prompt: Prompt) -> bool:
    """Whether, by word overlap, the called tool is more similar to the failed tool than half of the other tools are.

    If there are no other tools, a word in common is enough.
    """
    lines = {name_of(line): set(stems(line)) for line in prompt.entries("tools")[1:]}
    done, taken = _calls(prompt.entries("history")), _calls(prompt.entries("proposal"))
    if not done or not taken or taken[0][1] not in lines:
        return False
    failed = lines.get(done[-1][1], set(stems(done[-1][1])))
    likeness = {name: len(words & failed) / max(len(words | failed), 1) for name, words in lines.items()}
    others = sorted(score for name, score in likeness.items() if name not in (done[-1][1], taken[0][1]))
    return likeness[taken[0][1]] > (others[(len(others) - 1) // 2] if others else 0.0)


def _covered(prompt: Prompt, calls: list[Call]) -> float:
    """The share of the request's words that occur in the called tools' texts and in the calls' arguments."""
    cards = {name_of(line): line for line in prompt.entries("tools")[1:]}
    words = {stem for line in prompt.entries("task") for stem in stems(line.removeprefix("Query: "))}
    said = {stem for _, name, given in calls for stem in (*stems(cards.get(name, "")), *stems(to_json(given)))}
    return len(words & said) / len(words) if words else 1.0


def _calls(lines: tuple[str, ...]) -> list[Call]:
    """The step number, the tool and the arguments of each line that has a call."""
    found: list[Call] = []
    for line in lines:
        match = _STEP.match(line)
        if not match:
            continue
        try:
            call, _ = DECODER.raw_decode(line, match.end())  # the call's result may follow
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict) and isinstance(call.get("arguments"), dict):
            found.append((int(match[1]), str(call.get("tool")), call["arguments"]))
    return found


def _tools(prompt: Prompt) -> dict[str, tuple[set[str], set[str]]]:
    """For each tool name, the required arguments and all arguments of the tool."""
    found = {}
    for line in prompt.entries("tools")[1:]:
        name = name_of(line)
        pairs = _PARAMETER.findall(_inside(line, len(name)))
        found[name] = ({one for one, required in pairs if required}, {one for one, _ in pairs})
    return found


def _inside(line: str, at: int) -> str:
    """The text in the brackets that open at index `at` of a tool's line; empty if no bracket opens there."""
    end = line.find(")", at)
    return f"{line[at + 1 : end]}" if end > at and line[at : at + 1] == "(" else ""
