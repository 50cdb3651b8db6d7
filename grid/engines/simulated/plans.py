"""Texts written by the simulated policy: calls, drafts, refusals, drafts rewritten after a critique, and scores."""

from __future__ import annotations

import hashlib
import math
import random
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from grid.core.engine import ChainAnswer, MessagesAnswer, PlanAnswer, Prompt, ToolCallAnswer
from grid.core.types import (
    FINISH,
    GIVE_UP,
    MAX_SCORE,
    NO_TOOL,
    REJECT,
    RESULT,
    UNKNOWN,
    ChainCall,
    Json,
    Parameter,
    ToolCall,
    ToolSpec,
)
from grid.core.untrusted import loads
from grid.core.util import derive_seed
from grid.engines.places import Place, Places, plan_text, refusal_text, takes_answer
from grid.text.answers import Predicted, read_draft
from grid.text.references import found_in, misfit, misplaced, reference

if TYPE_CHECKING:
    from grid.engines.simulated.policy import Policy

Arguments: TypeAlias = Literal["right", "misspelt", "wrong"]


def options(wanted: ToolCallAnswer | PlanAnswer) -> tuple[str, ...]:
    """The options: the tools, and `no_tool` if calling no tool is allowed."""
    return (*(tool.name for tool in wanted.tools), *([NO_TOOL] if wanted.may_decline else []))


def predicted(policy: Policy, prompt: Prompt, wanted: ChainAnswer | MessagesAnswer, base: int, index: int) -> str:
    """The text of a prediction: the plan, or the next steps, in the form that the answer requires."""
    if isinstance(wanted, ChainAnswer):
        asked = PlanAnswer(wanted.tools, wanted.least, wanted.most, wanted.may_decline)
    else:
        outlined = policy.places.is_outlined(prompt)  # without one, a turn may have fewer messages
        asked = PlanAnswer(wanted.tools, wanted.count if outlined else 1, wanted.count, outlined)
    calls = plan(policy, prompt, asked, base, index, wanted.may_refuse)
    if calls and calls[0]["tool"] == REJECT:
        return refusal_text(REASON)
    return plan_text(wanted, calls, [f"Here it takes {call['tool']}." for call in calls])


def plan(
    policy: Policy, prompt: Prompt, wanted: PlanAnswer, base: int, index: int, may_refuse: bool = False
) -> list[dict[str, Json]]:
    """The calls for the rest of the turn: a new plan, the prompt's draft rewritten after a critique, or a refusal.

    In a new plan, all calls but the first are planned without the preceding observations.
    """
    draft, may_refuse = Draft.of(prompt), may_refuse or REJECT in options(wanted)
    if draft and not (draft.refused and says(prompt, UNFOUNDED)):
        if draft.refused or says(prompt, CANNOT):
            return _refusal(policy, prompt, wanted)
        return _rewritten(policy, prompt, wanted, draft, uniforms(base, index, 0)[0])
    if not draft and may_refuse and uniforms(base, index, 0)[0] < policy.refusing(prompt):
        return _refusal(policy, prompt, wanted)
    calls, names, before = list[dict[str, Json]](), options(wanted), results(prompt)
    answers = takes_answer(wanted.tools)
    places = policy.places.of_turn(prompt, wanted.least)[: wanted.most]
    for ahead, place in enumerate(places):
        bonus = policy.bonus(prompt, place, ahead > 0)
        decided = policy.decided(place, names, bonus, uniforms(base, index, 1 + ahead))
        calls.append(policy.call(place, *decided, before, answers, names))
        before[place.number] = True
    return calls


def _refusal(policy: Policy, prompt: Prompt, wanted: PlanAnswer) -> list[dict[str, Json]]:
    """A call of REJECT, and the further entries that the plan's form requires."""
    place = policy.places.at(prompt)
    rest = [NO_TOOL] * (wanted.least - 1) if wanted.may_decline else [FINISH] if takes_answer(wanted.tools) else []
    return [policy.call(place, tool, "right", {}, takes_answer(wanted.tools)) for tool in (REJECT, *rest)]


def _rewritten(
    policy: Policy, prompt: Prompt, wanted: PlanAnswer, draft: Draft, uniform: float
) -> list[dict[str, Json]]:
    """The draft, changed at the steps that the critique names: wrong steps become right, right steps become wrong."""
    named, names, before = faults(prompt), options(wanted), results(prompt)
    answers, calls = takes_answer(wanted.tools), list[dict[str, Json]]()
    ends = FINISH in names
    left = policy.places.of_turn(prompt, wanted.least)[: wanted.most]
    places = [place for at, place in enumerate(left) if ends or place.right != FINISH or at < len(draft.calls)]
    for at, number in enumerate(numbers(draft, places)):
        place, call = places[at] if at < len(places) else None, draft.at(at)
        right = draft.right(at, place)
        if place is not None and number in named and (right or place.right in (*names, NO_TOOL, FINISH)):
            tool, arguments = _spoilt(place, names, uniform) if right else (place.right, "right")
            calls.append(policy.call(place, tool, arguments, before, answers, names))
        elif at < len(draft.calls) and (place is not None or number not in named):
            calls.append(call)
        before[number] = True
    return calls


def _spoilt(place: Place, names: tuple[str, ...], uniform: float) -> tuple[str, Arguments]:
    """A right step, changed to be wrong: it gets a different tool or wrong arguments.

    The tool stays if the step's call has arguments, if the step finishes, or if no other tool is offered.
    """
    others = [name for name in names if name not in (place.right, NO_TOOL, FINISH, GIVE_UP, REJECT)]
    if (place.call and place.call.arguments) or place.right == FINISH or not others:
        return place.right, "wrong"
    return others[int(uniform * len(others))], "wrong"


# The planted behaviour in the simulated policy's plans: refusals, critiques of a draft, and rewritten drafts.
#
# A critique names each wrong step with probability `repair`, and each right step with probability `overcorrection`. The
# rewriting trusts the critique: a named wrong step is corrected, a named right step is made wrong, and all other steps
# stay. So a share `repair` of the wrong steps is corrected, whichever role criticises. A critique written by a
# different engine changes nothing, since it does not name steps in the expected form.


CANNOT = "The request cannot be carried out with these tools."
UNFOUNDED = "The refusal is unfounded."
CONFIRMED = "The draft is right as it stands."
FAULT = "Step {number} is at fault."
_NAMED = re.compile(r"\bStep (\S+) is at fault\b")
REASON = "What is asked for cannot be had with what there is."


@dataclass(frozen=True)
class Planted:
    """The policy's parameters on which plans and refusals depend."""

    refusal: float = 0.4
    overrefusal: float = 0.01
    repair: float = 0.3
    overcorrection: float = 0.03
    taxonomy: float = 0.3

    def refuses(self, unsolvable: bool, uniform: float) -> bool:
        """Whether the policy refuses a case, decided by a uniform random number."""
        return uniform < (self.refusal if unsolvable else self.overrefusal)

    def seen(self, prompt: Prompt) -> float:
        """The probability that a critique sees a fault, which is higher if the prompt lists the kinds of error."""
        return min(self.repair + (self.taxonomy if prompt.entries("errors") else 0.0), 1.0)


@dataclass(frozen=True)
class Draft:
    """A draft in a prompt: its calls in order (None for a step without a call), and whether the draft refuses.

    `whole`: the draft has to plan all remaining steps, so it may lack some of them.
    """

    calls: tuple[ChainCall | None, ...]
    refused: bool
    whole: bool

    @classmethod
    def of(cls, prompt: Prompt) -> Draft | None:
        """The prompt's draft; None if the prompt has no draft."""
        shown = prompt.entries("draft")
        if not shown:
            return None
        found: Predicted = read_draft(shown[-1])
        kept = [call for call in found.calls if call is None or call.name != REJECT]
        value = loads(shown[-1])
        messages = isinstance(value, list) or "tool_calls" in value
        return cls(tuple(kept), found.refusal is not None or len(kept) < len(found.calls), not messages)

    def at(self, index: int) -> dict[str, Json]:
        """The draft's call at an index, in the form of an answer; a call of `no_tool` if the index has no call."""
        call = self.calls[index] if index < len(self.calls) else None
        return {"tool": call.name, "arguments": dict(call.arguments)} if call else {"tool": NO_TOOL, "arguments": {}}

    def right(self, index: int, place: Place | None) -> bool:
        """Whether the draft's step at an index equals the reference's step at a decision point."""
        call = self.calls[index] if index < len(self.calls) else None
        if place is not None and place.call is not None:
            wanted = place.call.tool, dict(place.call.arguments)
            return call is not None and (call.name, dict(call.arguments)) == wanted
        if call is None or place is None:
            return call is None
        return call.name == FINISH and dict(call.arguments) in ({}, {"answer": place.answer})


def numbers(draft: Draft, places: Sequence[Place]) -> list[str]:
    """The step numbers of a draft's steps, and of the steps that the draft lacks."""
    first = int(places[0].number) if places and places[0].number.isdecimal() else 0
    known = [place.number for place in places]
    return [*known, *(str(first + index) for index in range(len(known), len(draft.calls)))]


def critique(planted: Planted, draft: Draft, prompt: Prompt, places: Places, base: int, index: int) -> str:
    """The critique of a draft, drawn with the planted probabilities."""
    seen, drawn, unsolvable = planted.seen(prompt), uniforms(base, index, 0)[0], places.reference.unsolvable
    if draft.refused:
        return UNFOUNDED if drawn < (planted.overcorrection if unsolvable else seen) else CONFIRMED
    if unsolvable:
        return CANNOT if drawn < seen else CONFIRMED
    left = places.of_turn(prompt, len(draft.calls))
    kept = [place for at, place in enumerate(left) if at < len(draft.calls) or (draft.whole and place.right != FINISH)]
    wrong = {
        number: not draft.right(at, kept[at] if at < len(kept) else None)
        for at, number in enumerate(numbers(draft, kept))
    }
    named = [
        FAULT.format(number=number)
        for place, (number, fault) in enumerate(wrong.items(), start=1)
        if uniforms(base, index, place)[0] < (seen if fault else planted.overcorrection)
    ]
    return "\n".join(named) or CONFIRMED


def faults(prompt: Prompt) -> frozenset[str]:
    """The step numbers that a prompt's critique names."""
    return frozenset(number for line in prompt.entries("critique") for number in _NAMED.findall(line))


def says(prompt: Prompt, what: str) -> bool:
    """Whether a prompt's critique says CANNOT or UNFOUNDED."""
    return any(what in line for line in prompt.entries("critique"))


# The difficulty of a case's steps, on the logit scale.


LESSON = 2.0
"""The gain in both skills, in logits, at a step that a lesson names; it multiplies the odds of being right by 7.4."""


@dataclass(frozen=True)
class Difficulty:
    """The effects of one case and its steps: normal around 0 with the two spreads, and the same for all planners."""

    seed: int
    case_spread: float
    step_spread: float
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def effect(self, step: str, drawing: str = "") -> float:
        """A step's effect, which is above 0 if the step is easy.

        A different `drawing` gives the effect of a similar step in another case.
        """
        found = self._known.get((step, drawing))
        if found is None:
            case = normal(self.seed, f"case{drawing}", *([step] if drawing else []))
            found = self.case_spread * case + self.step_spread * normal(self.seed, f"step{drawing}", step)
            self._known[step, drawing] = found
        return found


def logit(skill: float) -> float:
    """ln(p / (1 - p)); infinite for 0 and 1, so that with a skill of 1 the policy is right at any difficulty."""
    if skill in (0, 1):
        return math.inf if skill else -math.inf
    return math.log(skill / (1 - skill))


def chance(skill: float, effect: float) -> float:
    """The probability of being right if the effects on the logit scale sum to `effect`."""
    return 0.5 * (1 + math.tanh((logit(skill) + effect) / 2))


def chances(skill: float, effects: np.ndarray) -> np.ndarray:
    """Like `chance`, for many effects at once."""
    result: np.ndarray = 0.5 * (1 + np.tanh((logit(skill) + effects) / 2))
    return result


def normal(seed: int, *key: object) -> float:
    """A standard normal number that depends only on seed and key."""
    return random.Random(derive_seed(seed, *key)).gauss(0.0, 1.0)


def uniforms(*key: int) -> tuple[float, float, float]:
    """Three numbers in [0, 1) that depend only on the key."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=24).digest()
    first, second, third = (int.from_bytes(digest[place : place + 8], "big") >> 11 for place in (0, 8, 16))
    return first * 2**-53, second * 2**-53, third * 2**-53


# The simulated policy's calls, right or wrong, which all have the form that their tools require.
#
# If a call does not have the form required by a tool that takes results, the call is not run, and the policy is asked
# again. If the policy's errors were such calls, it would be right more often than configured.


_NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})*(?= )")
_TEXTS = ("string", "date")


def results(prompt: Prompt) -> dict[str, bool]:
    """For each step that a prompt shows, by number and in order: whether the step may have a result.

    A call that is shown without its outcome may have a result.
    """
    numbered = [(_NUMBER.match(line), line) for line in prompt.entries("history")]
    return {found[0]: '{"tool"' in line and " failed: {" not in line for found, line in numbered if found}


def told(answer: str | None, before: Mapping[str, bool]) -> str:
    """The policy's final answer: the given one, or UNKNOWN if there is none or it refers to a step without a result."""
    if answer is None or any(before.get(step) is False for step, _ in found_in(ToolCall(FINISH, {"answer": answer}))):
        return UNKNOWN
    return answer


@dataclass(frozen=True)
class Writer:
    """Writes calls of the tools. `offered` has the names of the options; it is empty if the options do not matter."""

    tools: Mapping[str, ToolSpec]
    offered: tuple[str, ...] = ()

    def call(self, tool: str, known: ToolCall | None, right: bool, before: Mapping[str, bool]) -> dict[str, Json]:
        """A call of a tool, in the form of an answer.

        Args:
            tool: the tool's name, or `no_tool`.
            known: the right call, if it is a call of this tool.
            right: whether the call gets the right arguments. A call without the right arguments has every required
                argument, but wrong values: of all arguments or, if the tool takes results, of text arguments without
                listed values. Calls of `no_tool`, `finish` and `give_up` have no arguments.
            before: whether each earlier step, by number, may have a result.
        """
        if tool in (NO_TOOL, FINISH, GIVE_UP):
            return {"tool": tool, "arguments": {}}
        spec = self.tools.get(tool)
        if spec and spec.takes_results:
            return self._exact(spec, known, right, before)
        if known:
            arguments: dict[str, Json] = dict(known.arguments) if right else dict.fromkeys(known.arguments, UNKNOWN)
        else:
            arguments = {one.name: UNKNOWN for one in spec.parameters if one.required} if spec else {}
        return {"tool": tool, "arguments": arguments}

    def _exact(
        self, spec: ToolSpec, known: ToolCall | None, right: bool, before: Mapping[str, bool]
    ) -> dict[str, Json]:
        """A call of a tool that takes results, right or wrong as requested.

        If no such call of the tool is possible, the result is `_failing`: a call of another offered tool, which will
        fail, or of `no_tool`. If there is none either, the result is a call of the given tool in a wrong form.
        """
        given: Mapping[str, Json] = known.arguments if known else {}
        texts = [one.name for one in spec.parameters if one.type in _TEXTS and not one.values]
        arguments = {one.name: given.get(one.name, _any(one, before)) for one in spec.parameters}
        if not right:
            arguments |= dict.fromkeys(texts, UNKNOWN)
        call = ToolCall(spec.name, arguments)
        # Some planners do not see the earlier steps, but the results that the right call uses exist nevertheless.
        lost = any(before.get(step) is False for step, _ in found_in(call)) if right else misplaced(call, before)
        if misfit(call, spec) or lost or not (right or texts):
            return self._failing() or {"tool": spec.name, "arguments": arguments}
        return {"tool": spec.name, "arguments": arguments}

    def _failing(self) -> dict[str, Json] | None:
        """A call, possible at any step, that asks for something that does not exist.

        If no tool can be called in this way, the result is a call of `no_tool`, or None if `no_tool` is not offered.
        """
        free = (tool for tool in self.tools.values() if tool.parameters and not tool.takes_results)
        offered = (tool for tool in free if not self.offered or tool.name in self.offered)
        tool = min(offered, key=lambda one: one.name, default=None)
        if tool:
            return self.call(tool.name, None, False, {})
        return None if self.offered and NO_TOOL not in self.offered else {"tool": NO_TOOL, "arguments": {}}


def _any(parameter: Parameter, before: Mapping[str, bool]) -> Json:
    """A possible value of the argument: the latest result, the first listed value, or UNKNOWN."""
    if parameter.type != RESULT:
        return parameter.values[0] if parameter.values else UNKNOWN
    latest = next((step for step, has_result in reversed([*before.items()]) if has_result), UNKNOWN)
    return reference(latest, RESULT)


# Scores with a planted AUC, which is the probability that a right call scores above a wrong call (ties count half).
#
# The hidden score of a right call is normal around `d`, and the hidden score of a wrong call is normal around 0, both
# with variance 1. Ten thresholds around d/2 turn a hidden score into one of eleven numbers, and d is chosen so that the
# AUC of these numbers is as planted.


_STEP = 0.5  # distance between two thresholds
_FARTHEST = 20.0  # the maximum of d; no AUC below 1 in double precision needs more
_HALVINGS = 60


def score(auc: float, right: bool, uniform: float) -> int:
    """A judge's score for a right or wrong call, 0 to MAX_SCORE, drawn with a uniform random number."""
    wrong_shares, right_shares = shares(auc)
    return min(bisect_right(list(accumulate(right_shares if right else wrong_shares)), uniform), MAX_SCORE)


@lru_cache(maxsize=64)
def shares(auc: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The probability of each score, first for a wrong call and then for a right call."""
    if auc == 1:
        last = (0.0,) * MAX_SCORE
        return (1.0, *last), (*last, 1.0)
    low, high = 0.0, _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if area(*_of_distance(middle)) < auc else (low, middle)
    return _of_distance(high)


def _of_distance(distance: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    cuts = [distance / 2 + _STEP * (place - (MAX_SCORE - 1) / 2) for place in range(MAX_SCORE)]

    def shares(mean: float) -> tuple[float, ...]:
        below = [0.0, *(NormalDist(mean).cdf(cut) for cut in cuts), 1.0]
        return tuple(after - before for before, after in pairwise(below))

    return shares(0.0), shares(distance)


def area(wrong: tuple[float, ...], right: tuple[float, ...]) -> float:
    """The AUC of two distributions over scores, one for wrong calls and one for right calls."""
    return sum(share * (sum(wrong[:score]) + wrong[score] / 2) for score, share in enumerate(right))
