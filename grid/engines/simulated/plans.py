"""The plans that the simulated policy writes: drafts, refusals, and drafts rewritten in the light of a critique."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from grid.core.engine import PlanAnswer, Prompt, ToolCallAnswer
from grid.core.plan_answers import ChainAnswer, MessagesAnswer
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT, Json
from grid.engines.places import Place, takes_answer
from grid.engines.plan_writing import plan_text, refusal_text
from grid.engines.simulated.calls import results
from grid.engines.simulated.difficulty import uniforms
from grid.engines.simulated.refining import CANNOT, REASON, UNFOUNDED, Draft, faults, numbers, says

if TYPE_CHECKING:
    from grid.engines.simulated.policy import Policy

Arguments: TypeAlias = Literal["right", "misspelt", "wrong"]


def options(wanted: ToolCallAnswer | PlanAnswer) -> tuple[str, ...]:
    """The options: the tools, and to call none where that is allowed."""
    return (*(tool.name for tool in wanted.tools), *([NO_TOOL] if wanted.may_decline else []))


def predicted(policy: Policy, prompt: Prompt, wanted: ChainAnswer | MessagesAnswer, base: int, index: int) -> str:
    """The plan, or the next steps, in the form wanted."""
    if isinstance(wanted, ChainAnswer):
        asked = PlanAnswer(wanted.tools, wanted.least, wanted.most, wanted.may_decline)
    else:
        outlined = policy.places.is_outlined(prompt)  # otherwise a turn may end before so many are made
        asked = PlanAnswer(wanted.tools, wanted.count if outlined else 1, wanted.count, outlined)
    calls = plan(policy, prompt, asked, base, index, wanted.may_refuse)
    if calls and calls[0]["tool"] == REJECT:
        return refusal_text(REASON)
    return plan_text(wanted, calls, [f"Here it takes {call['tool']}." for call in calls])


def plan(
    policy: Policy, prompt: Prompt, wanted: PlanAnswer, base: int, index: int, may_refuse: bool = False
) -> list[dict[str, Json]]:
    """The rest of the case; all but its first step are planned without the observations before them."""
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
        calls.append(policy.call(place, *decided, before, answers))
        before[place.number] = True
    return calls


def _refusal(policy: Policy, prompt: Prompt, wanted: PlanAnswer) -> list[dict[str, Json]]:
    """A call of REJECT, and what else the form of the plan wants."""
    place = policy.places.at(prompt)
    rest = [NO_TOOL] * (wanted.least - 1) if wanted.may_decline else [FINISH] if takes_answer(wanted.tools) else []
    return [policy.call(place, tool, "right", {}, takes_answer(wanted.tools)) for tool in (REJECT, *rest)]


def _rewritten(
    policy: Policy, prompt: Prompt, wanted: PlanAnswer, draft: Draft, uniform: float
) -> list[dict[str, Json]]:
    """The draft, but where the critique names a step: a wrong one is set right, a right one spoilt."""
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
            calls.append(policy.call(place, tool, arguments, before, answers))
        elif at < len(draft.calls) and (place is not None or number not in named):
            calls.append(call)
        before[number] = True
    return calls


def _spoilt(place: Place, names: tuple[str, ...], uniform: float) -> tuple[str, Arguments]:
    """The right step made wrong: in its arguments where it has any, else by another tool."""
    others = [name for name in names if name not in (place.right, NO_TOOL, FINISH, GIVE_UP, REJECT)]
    if (place.call and place.call.arguments) or place.right == FINISH or not others:
        return place.right, "wrong"
    return others[int(uniform * len(others))], "wrong"
