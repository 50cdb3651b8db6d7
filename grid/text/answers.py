"""The contents of a model's answer: a call, a plan, an outline, a score, a vote, a tool's response.

An answer is untrusted text, read with limits, and never evaluated. An answer may contain several objects, of which the
last one counts. If earlier objects differ from the last one, the text before the last object must retract them;
otherwise the answer is unreadable.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from grid.core.types import (
    BETWEEN,
    ERRORS,
    GRADES,
    MAX_SCORE,
    NO_TOOL,
    Chain,
    ChainCall,
    Json,
    ToolSpec,
    Verdict,
    to_json,
)
from grid.text.calls import Call, calls_in
from grid.text.objects import Found, UnreadableError, objects

# A judge's verdict on a plan: untrusted text, read with the limits of `grid.text.objects`.


NO_VERDICT = "no JSON object with is_correct"
MOST_REASONING = 2_000
"""The maximum length of the reasoning that is kept, in characters."""
_NEAR = 1e-6
_ERROR = re.compile(r"\s*([Ee][1-6])(?![0-9])")
_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_LISTS = ("error_list", "errors")


def read_verdict(text: str, errors: bool = True) -> Verdict:
    """The verdict in the object that contains `is_correct`.

    With `errors` the object must contain a grade, and judge all six errors or list those that hold; else neither is
    read. Error keys may have text after their number (`E2_TASK_COMPLETENESS`), a separate object may have the errors,
    and the grade's key may be `score`. Yes and 1 are true, no and 0 false. Raises UnreadableError as `read_call` does.
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
    if isinstance(listed, list):  # a list of the errors that the plan has
        if not all(isinstance(name, str) and _ERROR.match(name) for name in listed):
            raise UnreadableError("a list of errors that holds something else than E1 to E6")
        return frozenset(_named(str(name)) for name in listed)
    found: dict[str, bool] = {}
    for name, holds in (listed if isinstance(listed, dict) else value).items():
        if _ERROR.match(name):
            true = _truth(holds, name)
            if found.setdefault(_named(name), true) != true:
                raise UnreadableError(f"{_named(name)} stands in it twice, with different values")
    if missing := [name for name in ERRORS if name not in found]:
        raise UnreadableError(f"no {missing[0]}, where all of E1 to E6 are asked for")
    return frozenset(name for name, holds in found.items() if holds)


def _named(key: str) -> str:
    return match[1].upper() if (match := _ERROR.match(key)) else ""


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


# The contents of a model's answer: a call, a plan, an outline, a score, a vote, a tool's response.


MAX_STEPS = 256
NO_CALL = "no JSON object with a tool"
NO_PLAN = "no JSON object with a plan"
NO_OUTLINE = "no JSON object with a list `outline` of texts"
NO_SCORE = f"no JSON object with a score from 0 to {MAX_SCORE}"
NO_VOTE = "no JSON object with the number of the best"
NO_RESPONSE = "no JSON object with a response or an error"
_PLAN_LENGTH = f"a plan that is not a list of 1 to {MAX_STEPS} calls"
_SCORE = re.compile(rf"\s*([0-9]{{1,3}}(?:\.[0-9]{{1,9}})?)\s*(?:(/|out of)\s*{MAX_SCORE}|(%))?\s*")
_TAKEN_BACK = re.compile(
    r"\b(wait|actually|sorry|oops|mistake|wrong|instead|rather|correct(?:ed|ion|ing)|revis\w+|update[ds]?|fix(?:ed)?"
    r"|reconsider\w*|on second thought|final answer)\b|\bno,",
    re.I,
)
_NO_TOOLS: Mapping[str, ToolSpec] = {}
T = TypeVar("T")


def read_call(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Call:
    """The one call in an answer; a call to NO_TOOL if the answer states that it calls no tool.

    Args:
        text: the answer.
        tools: the offered tools, by name. Arguments may be given beside the tool's name instead of in a separate
            object, if all arguments are parameters of the tool.

    Raises:
        UnreadableError: the intended call cannot be determined; the error contains the reason.
    """
    return only_one(text, partial(_one_call, tools=tools), NO_CALL)


def read_plan(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> list[Call]:
    """The calls in an object with a list `plan` or `tool_calls`, or in a list of calls.

    The first call receives the plan's thought if it has none. Raises UnreadableError as `read_call` does.
    """
    return only_one(text, partial(_plan, tools=tools), NO_PLAN)


def read_outline(text: str) -> list[str]:
    """The texts in an object's list `outline`. Raises UnreadableError as `read_call` does."""
    return only_one(text, _outline, NO_OUTLINE)


def read_score(text: str) -> float:
    """The score in [0, 1], from an object's score of 0 to 10. Raises UnreadableError as `read_call` does.

    A score written as text counts if it consists only of the number, as in `7`, `7/10` or `70%`. A bare decimal number
    above 0 and up to 1 does not count, since a model that writes 0.7 may use a different scale.
    """
    return only_one(text, _score, NO_SCORE)


def read_vote(text: str, candidates: int) -> int:
    """The position, counted from 0, of the best of `candidates` candidates. Raises UnreadableError as `read_call`."""
    return only_one(text, partial(_vote, candidates=candidates), NO_VOTE)


def read_response(text: str) -> tuple[str, Json]:
    """The error (empty if none) and the response, from an object with at least one of them. Raises as `read_call`."""
    return only_one(text, _response, NO_RESPONSE)


def only_one(text: str, read: Callable[[Json], T | None], otherwise: str) -> T:
    """The meaning of the last object in a text, if all readable earlier objects agree with it or are retracted.

    Objects for which `read` returns None are ignored. Raises UnreadableError if the text is too long, the last object
    cannot be read, or an earlier one differs and is not retracted, or, with `otherwise`, if there is no such object.
    """
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
        calls = calls_in(value, tools)
        if calls and len(calls) > MAX_STEPS:
            raise UnreadableError(_PLAN_LENGTH)
        return calls
    if "plan" not in value:
        return None
    steps = value["plan"]
    if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
        raise UnreadableError(_PLAN_LENGTH)
    plan = []
    for place, step in enumerate(steps, start=1):
        try:
            call = _one_call(step, tools)
        except UnreadableError as error:
            raise UnreadableError(f"entry {place} of the plan: {error}") from None
        if call is None:
            raise UnreadableError(f"entry {place} of the plan is not a call")
        plan.append(call)
    if plan[0].thought is None and isinstance(thought := value.get("thought"), str):
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


# Whether a plan declines a request: one rule for all scorers of plans (agent_planning_benchmark §4.2.3, C.4, C.6).
#
# A plan declines by the status REJECT or, if it calls nothing, by stating openly that the request cannot be carried
# out; if information is missing, asking the user for it also counts. A judge reads the plan's text; without a judge,
# rules look in the text for words that deny an ability, state a lack, or refuse explicitly.


MISSING_INFORMATION = "missing_information"
"""The kind of unsolvable request for which it is right to ask the user for information (figure 41)."""
MOST_CALLS = 1
"""Maximum number of calls in a plan that a judge may pass: "only a termination/reporting step" (figure 41)."""
_CANNOT = (
    r"\bcan\s?not\b", r"\b(?:ca|could)n'?t\b", r"\bcould not\b", r"\b(?:unable|not able) to\b",
    r"\b(?:im|not |in|un|not be )(?:possible|feasible|solvable)\b", r"\b(?:refus|reject|declin)(?:e[ds]?|s|ed|ing)\b",
)  # fmt: skip
_LACKS = (
    r"\bmissing\b", r"\b(?:unavailable|inaccessible|unspecified)\b", r"\black(?:s|ing)?\b", r"\boffline\b",
    r"\bnot (?:yet |been )*(?:available|accessible|provided|given|told|attached|supplied|specified|included|stated)\b",
    r"\b(?:do|does|did)(?: not|n't) (?:have|know|see)\b", r"\bnone of the(?:se)?(?: \w+)? tools\b",
    r"\bno (?:\w+ ){0,2}tools? (?:that|which|can|for|to|is|are|here|among|offered|available|does|supports?)\b",
)  # fmt: skip
_DECLINES = re.compile("|".join((*_CANNOT, *_LACKS)))
_ASKS = re.compile(
    r"\?|\bclarification\b"
    r"|\bplease (?:\w+ ){0,2}(?:tell|provide|specify|clarify|confirm|share|give|name|send|attach|upload|let me know)\b"
)


def declines(chain: Chain) -> bool:
    """Whether a plan is an explicit refusal, by its status or, if it calls nothing, by its text."""
    return chain.refusal is not None or (not chain.calls and _DECLINES.search(_plain(chain.plan)) is not None)


def passes(chain: Chain, unsolvable_kind: str | None) -> bool:
    """Whether a plan is right for an unsolvable request: it calls nothing, and declines or asks the user.

    Asking the user for information is right only if information is missing.
    """
    if chain.calls:
        return False
    return declines(chain) or (unsolvable_kind == MISSING_INFORMATION and asks_back(chain))


def asks_back(chain: Chain) -> bool:
    """Whether a plan calls nothing and asks for missing information."""
    return not chain.calls and _ASKS.search(_plain(chain.refusal or chain.plan)) is not None


def may_pass(chain: Chain) -> bool:
    """Whether a judge has to decide if a plan passes: it has at most one call, and it has text or the status REJECT.

    Only a judge can tell whether the called tool merely reports that the work is finished.
    """
    return len(chain.calls) <= MOST_CALLS and (chain.refusal is not None or bool(chain.plan.strip()))


def _plain(words: str) -> str:
    return " ".join(words.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())


# Short answers, compared with the right answers token by token as in HotpotQA's official evaluation (the same as
# SQuAD's), and the parts of answers to several questions.


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_NUMBERED = re.compile(r"\s*([0-9]{1,3})\s*[.):]\s+(.*)", re.DOTALL)


def normalised(text: str) -> str:
    """A text in lower case, with single spaces; ASCII punctuation and articles are removed."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(given: str, right: str) -> bool:
    """Whether both answers are equal after normalisation."""
    return normalised(given) == normalised(right)


def f1(given: str, right: str) -> float:
    """Harmonic mean of token precision and recall; 0 if only one answer is yes, no or noanswer, or both are empty."""
    one, other = normalised(given), normalised(right)
    if one != other and (one in _CLOSED or other in _CLOSED):
        return 0.0
    tokens, wanted = one.split(), other.split()
    shared = sum((Counter(tokens) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(tokens), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def parts_of(answer: str | None, count: int) -> tuple[str, ...]:
    """The answers to `count` questions, in order; an empty text for each question if the answers cannot be separated.

    For one question, the whole text is the answer. For several questions, the text is read as lines or as texts
    separated by `; ` on one line. They are numbered from 1 (text before number 1 is ignored, and text without a number
    belongs to the preceding number) or, if none has the number 1, there must be `count` of them.
    """
    text = (answer or "").strip()
    if count == 1:
        return (text,)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    pieces = [piece.strip() for piece in text.split(BETWEEN)] if len(lines) == 1 else []
    ways = [parts for parts in (_numbered(lines), _numbered(pieces)) if parts] or [lines, pieces]
    return next((tuple(parts) for parts in ways if len(parts) == count), ("",) * count)


def _numbered(lines: list[str]) -> list[str]:
    """The texts after the numbers 1, 2, ... in this order; empty if no text has the number 1."""
    parts: list[str] = []
    for line in lines:
        match = _NUMBERED.fullmatch(line)
        if match and int(match[1]) == len(parts) + 1:
            parts.append(match[2].strip())
        elif parts:
            parts[-1] = f"{parts[-1]} {line}"
    return parts


# A prediction in an answer: a chain of calls, the messages of the next steps, or a refusal (agent_planning_benchmark).
#
# An answer is untrusted text, read with the limits of `grid.text.objects`. Names and arguments are kept as written,
# since a scorer decides whether a tool does not exist or is called wrongly. An answer is refused, with the reason, if
# it cannot be read as a plan: it is in prose, an entry has no name, there are more calls than MAX_STEPS, or the number
# of messages is wrong.


NO_CHAIN = "no JSON object with a list `tool_chain`, and no refusal"
NO_MESSAGES = "no message with `tool_calls`, and no refusal"
_REFUSED = frozenset({"reject", "rejected"})
_ARGUMENTS = ("parameter_description", "parameter_descriptions", "arguments", "parameters")
_REASONS = ("reason", "thought", "explanation")


class Predicted(NamedTuple):
    """The calls that an answer predicts, in order; None for a step without a call.

    `refusal` is the reason for a refusal; None if the request is not refused. If an answer contains both a refusal and
    a plan, both are kept, so that a scorer can see that the answer does not end with the refusal. A plan without calls
    may be a question to the user; a scorer decides whether it is one. `plan` is the summary before the calls; `said` is
    the text of the last step without a call.
    """

    calls: tuple[ChainCall | None, ...]
    refusal: str | None = None
    plan: str = ""
    said: str = ""

    def chain(self, first: int) -> Chain:
        """The calls as a chain, numbered from `first`, with the refusal and the text."""
        return Chain(tuple(call for call in self.calls if call), self.refusal, self.plan or self.said, first)


def read_chain(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Predicted:
    """Read the object with a list `tool_chain` or with the status REJECT; a bare list of entries counts too.

    Args:
        text: the answer; Markdown, prose and thoughts around the object are ignored.
        tools: the offered tools, by name. A tool's name with a common addition (`functions.search`) stands for the
            tool. Without tools, all names are kept as written.

    Raises:
        UnreadableError: no plan can be read; the error contains the reason.
    """
    return only_one(text, partial(_chain, tools=tools), NO_CHAIN)


def read_messages(text: str, count: int, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Predicted:
    """Read exactly `count` messages, each with at most one call; or the object with the status REJECT.

    Two or more messages must be in a list; a single message need not be. Raises UnreadableError as `read_chain` does.
    """
    return only_one(text, partial(_messages, count=count, tools=tools), NO_MESSAGES)


def read_draft(text: str) -> Predicted:
    """Read the prediction in a draft of any form: a chain, messages, or a list `plan` of calls.

    Raises UnreadableError as `read_chain` does.
    """
    return only_one(text, _draft, NO_CHAIN)


def _draft(value: Json) -> Predicted | None:
    plan = value.get("plan") if isinstance(value, dict) else value
    if isinstance(plan, list) and len(plan) > MAX_STEPS:
        raise UnreadableError(f"a plan of {len(plan):,} calls, {MAX_STEPS} at most")
    if isinstance(value, dict) and isinstance(plan, list):
        read = [_call(entry, f"entry {place} of the plan", _NO_TOOLS) for place, entry in enumerate(plan, start=1)]
        return Predicted(tuple(ChainCall(call.tool, call.arguments) if call else None for call in read))
    return _chain(value, _NO_TOOLS) or _messages(value, len(value) if isinstance(value, list) else 1, _NO_TOOLS)


def chain_text(plan: Predicted) -> str:
    """A plan as text: an object with a list `tool_chain`; for a refusal without calls, only its status and reason."""
    refusal: dict[str, Json] = {} if plan.refusal is None else {"status": "REJECT", "reason": plan.refusal}
    if refusal and not plan.calls:
        return to_json(refusal)
    entries: list[Json] = [_entry_of(call) for call in plan.calls]
    return to_json(refusal | {"plan": plan.plan, "tool_chain": entries})


def messages_text(plan: Predicted) -> str:
    """Steps as text: one message, or a list of messages; for a refusal without calls, only its status and reason."""
    refusal: dict[str, Json] = {} if plan.refusal is None else {"status": "REJECT", "reason": plan.refusal}
    if refusal and not plan.calls:
        return to_json(refusal)
    messages: list[Json] = []
    for call in plan.calls:
        thought = plan.said if call is None else call.reason
        function: Json = {} if call is None else {"name": call.name, "arguments": dict(call.arguments)}
        calls: list[Json] = [] if call is None else [{"type": "function", "function": function}]
        messages.append(refusal | {"role": "assistant", "thought": thought, "tool_calls": calls})
    return to_json(messages[0] if len(messages) == 1 else messages)


def _entry_of(call: ChainCall | None) -> Json:
    if call is None:
        return {"name": NO_TOOL, "parameter_description": {}, "reason": ""}
    return {"name": call.name, "parameter_description": dict(call.arguments), "reason": call.reason}


def _chain(value: Json, tools: Mapping[str, ToolSpec]) -> Predicted | None:
    if isinstance(value, list):
        entries = [item for item in value if isinstance(item, dict)]
        if len(entries) < len(value) or not all("name" in entry and "role" not in entry for entry in entries):
            return None
        return Predicted(_calls(value, tools))
    if not isinstance(value, dict):
        return None
    refusal, chain = _refusal(value), value.get("tool_chain")
    if refusal is not None and chain is None:
        return Predicted((), refusal)
    if "tool_chain" not in value:
        return None
    if not isinstance(chain, list):
        raise UnreadableError("a tool_chain that is not a list")
    plan = value.get("plan")
    return Predicted(_calls(chain, tools), refusal, plan if isinstance(plan, str) else "")


def _calls(entries: list[Json], tools: Mapping[str, ToolSpec]) -> tuple[ChainCall | None, ...]:
    if len(entries) > MAX_STEPS:
        raise UnreadableError(f"a tool_chain of {len(entries):,} calls, {MAX_STEPS} at most")
    return tuple(_entry(entry, f"entry {place} of the tool_chain", tools) for place, entry in enumerate(entries))


def _entry(entry: Json, where: str, tools: Mapping[str, ToolSpec]) -> ChainCall | None:
    """A call, or None for an entry whose name indicates that no tool is called."""
    if not isinstance(entry, dict):
        raise UnreadableError(f"{where} is not an object")
    if not isinstance(entry.get("name"), str) or not str(entry["name"]).strip():
        raise UnreadableError(f"{where} has no name")
    given = [key for key in _ARGUMENTS if key in entry]
    if len(given) > 1:
        raise UnreadableError(f"{where} has both {given[0]} and {given[1]}")
    arguments = entry[given[0]] if given else {}
    if isinstance(arguments, str) and not arguments.lstrip().startswith("{"):
        raise UnreadableError(f"{where} has a {given[0]} that is not an object")
    call = _call({"name": entry["name"], "arguments": arguments}, where, tools)
    reason = next((str(entry[key]) for key in _REASONS if isinstance(entry.get(key), str)), "")
    return ChainCall(call.tool, call.arguments, reason) if call else None


def _call(value: Json, where: str, tools: Mapping[str, ToolSpec]) -> Call | None:
    try:
        found = calls_in(value, tools)
    except UnreadableError as error:
        raise UnreadableError(f"{where}: {error}") from None
    if not found or len(found) != 1:
        raise UnreadableError(f"{where} is not one call")
    return None if found[0].tool == NO_TOOL else found[0]


def _messages(value: Json, count: int, tools: Mapping[str, ToolSpec]) -> Predicted | None:
    entries: list[Json] = value if isinstance(value, list) else [value]
    if not any(isinstance(item, dict) and "tool_calls" in item for item in entries):
        sole = entries[0] if len(entries) == 1 else None
        refusal = _refusal(sole) if isinstance(sole, dict) else None
        return None if refusal is None else Predicted((), refusal)
    if len(entries) != count:
        raise UnreadableError(f"{len(entries):,} messages, where {count} are wanted")
    read = [_message(entry, f"message {place}", tools) for place, entry in enumerate(entries)]
    said = next((words for call, words in reversed(read) if call is None), "")
    refusals = (_refusal(entry) for entry in entries if isinstance(entry, dict))
    refusal = next((reason for reason in refusals if reason is not None), None)
    return Predicted(tuple(call for call, _ in read), refusal, said=said)


def _message(entry: Json, where: str, tools: Mapping[str, ToolSpec]) -> tuple[ChainCall | None, str]:
    """The call in a message, if there is one, and the message's text."""
    if not isinstance(entry, dict):
        raise UnreadableError(f"{where} is not an object")
    if entry.get("role", "assistant") != "assistant":
        raise UnreadableError(f"{where} has the role {entry['role']!r:.40}, where it is the assistant's")
    calls = entry.get("tool_calls")
    if not isinstance(calls, list):
        raise UnreadableError(f"{where} has no list tool_calls")
    words = next((str(entry[key]) for key in ("thought", "content") if isinstance(entry.get(key), str)), "")
    if not calls:
        return None, words
    if len(calls) > 1:
        raise UnreadableError(f"{where} has {len(calls):,} calls, where it has one or none")
    function = calls[0].get("function") if isinstance(calls[0], dict) else None
    named = function if isinstance(function, dict) else calls[0]
    if not isinstance(named, dict) or not isinstance(named.get("name"), str) or not str(named["name"]).strip():
        raise UnreadableError(f"the call of {where} has no name")
    call = _call({"name": named["name"], "arguments": named.get("arguments", {})}, where, tools)
    return ChainCall(call.tool, call.arguments, words) if call else None, words


def _refusal(value: dict[str, Json]) -> str | None:
    """The reason that a refusal object gives; None if the object is not a refusal."""
    status, reason = value.get("status"), value.get("reason")
    if not isinstance(status, str) or status.strip().casefold() not in _REFUSED:
        return None
    return reason if isinstance(reason, str) else ""
