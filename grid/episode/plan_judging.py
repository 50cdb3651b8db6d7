"""A model as the judge of plans: what it is asked, and what its verdict makes of a case (agent_planning_benchmark §C).

Data sets call `plan_examine`. What rules decide is decided by rule: behind a broken tool only whether another tool was
a reasonable way on is asked, and of a request that cannot be carried out only plans that may be a refusal
(`grid.text.refusals`). A plan that calls an extraneous tool has the error E5, whatever the judge says (C.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from grid.core.chains import ALTER, OTHER, REFUSE, REPLACE, RETRY, Chain, TaskKind, Verdict
from grid.core.engine import Prompt, Section
from grid.core.problem import BOTH, Evaluator, Examine, Scorer
from grid.core.types import REJECT, Step, ToolCall, ToolSpec, Trajectory, to_json
from grid.core.verdicts import PLAN, STEPS, VerdictAnswer
from grid.episode import plan_prompts, plan_text
from grid.episode.chains import chain_of
from grid.episode.prompts import tools_section
from grid.text.refusals import declines, may_pass

SYMBOLIC = "symbolic"
Truth = Callable[[Chain], Verdict]
"""What is true of a plan, where that can be computed."""
KNOWN_SOLUTION = "A known solution:"
UNSOLVED: Mapping[str, Mapping[str, Any]] = {
    "symbolic": {},
    "judge": {"success": False, "plan_correct": False, "plan_grade": 0.0},
    "both": {"judged_correct": False, "judged_grade": 0.0},
}
"""By scorer what a judge would say of an episode that broke off and left no plan: nobody is asked."""
EXTRANEOUS_ERROR = "E5"
MOST_WITH_EXTRANEOUS, MOST_STEPWISE_WITH_EXTRANEOUS = 0.8, 0.6
"""The best grades of a plan with one error that is not trivial, of whole plans and of next steps (C.1)."""


@dataclass(frozen=True)
class JudgedTask:
    """A planning task as a judge may see it. No planner is shown it.

    `tools` are those offered, REJECT left out. `reference` is a known solution, from behind `done` on; empty: none.
    `extraneous` names the distractors, `costs` has the tools' costs, where there are some, `policy` the case's rules.
    """

    query: str
    kind: TaskKind
    tools: tuple[ToolSpec, ...]
    reference: tuple[ToolCall, ...] = ()
    done: tuple[Step, ...] = ()
    extraneous: tuple[str, ...] = ()
    broken: str | None = None
    replacement: str | None = None
    costs: Mapping[str, int] = field(default_factory=dict)
    policy: str = ""


def executed_examine(task: JudgedTask, reference_shown: bool = True) -> Examine:
    """What `Problem.examine` is where plans are carried out (agent_planning_benchmark §5.1, table 3).

    Of the plan that was carried out (`Trajectory.planned`) plan_correct, plan_grade, plan_errors and
    judge_contradicted, of its draft before a critique unrefined_*; nothing where a planner wrote none. A draft that was
    left as it was is judged once. Success is left to the world. `reference_shown` is as for `plan_examine`.
    """
    return partial(_executed, task, reference_shown)


async def _executed(
    task: JudgedTask, reference_shown: bool, trajectory: Trajectory, evaluator: Evaluator
) -> Mapping[str, Any]:
    plan, draft = trajectory.planned, trajectory.unrefined
    if plan is None:
        return {}
    asking = _Asking(task, reference_shown, None, evaluator)
    found = await asking.about(plan, "plan")
    own = {f"plan_{key}": value for key, value in _told(found.verdict).items()}
    own |= {"judge_contradicted": found.contradicted}
    if draft is not None:
        before = found if draft == plan else await asking.about(draft, "unrefined")
        own |= {f"unrefined_{key}": value for key, value in _told(before.verdict).items()}
    return own


def plan_examine(
    task: JudgedTask, scorer: Scorer, reference_shown: bool = True, truth: Truth | None = None
) -> Examine | None:
    """What `Problem.examine` is for a scorer; None for the symbolic one alone.

    With `judge`, success and plan_* (behaviour, behind a broken tool) are the judge's; with `both`, judged_* are, and
    all else is left to what is computed. Either way judge_contradicted is told. All are None where the judge's answers
    cannot be read after all retries.

    `reference_shown`: the judge sees the known solution; otherwise it is blind (§D.1). `truth` is for engines that
    judge with a planted accuracy, and for no prompt.
    """
    return None if scorer == SYMBOLIC else partial(_examined, task, scorer, reference_shown, truth)


def by_rule(task: JudgedTask, trajectory: Trajectory) -> Mapping[str, Any]:
    """What no judge is needed for: refused, extraneous_calls, plan_cost and exact_match, where they apply.

    Behind a broken tool also behaviour and success, where the rule tells them (`behaviour_by_rule`).
    """
    chain = chain_of(trajectory)
    own: dict[str, Any] = {"refused": declines(chain)}
    if task.extraneous:
        own |= {"extraneous_calls": extraneous_calls(task, chain)}
    if task.reference:
        own |= {"exact_match": same_as_reference(chain, task)}
    if task.costs:
        known = [task.costs.get(call.name) for call in chain.calls]
        own |= {"plan_cost": None if None in known else float(sum(cost or 0 for cost in known))}
    if task.kind.task_family == "broken" and (behaviour := behaviour_by_rule(task, chain)):
        own |= {"behaviour": behaviour, "success": behaviour == REPLACE}
    return own


def extraneous_calls(task: JudgedTask, chain: Chain) -> int:
    """How many of the calls that count are of extraneous tools."""
    return sum(call.name in task.extraneous for call in chain.calls[: task.kind.horizon_k])


def same_as_reference(chain: Chain, task: JudgedTask) -> bool:
    """Whether a plan calls the tools of the known solution in its order, with whatever arguments (§D.2)."""
    return [call.name for call in chain.calls] == [call.tool for call in task.reference[: task.kind.horizon_k]]


async def _examined(
    task: JudgedTask,
    scorer: Scorer,
    reference_shown: bool,
    truth: Truth | None,
    trajectory: Trajectory,
    evaluator: Evaluator,
) -> Mapping[str, Any]:
    asking = _Asking(task, reference_shown, truth, evaluator)
    chain = chain_of(trajectory)
    found = await asking.about(chain, "plan")
    if scorer == BOTH:
        alike = {"exact_match": same_as_reference(chain, task)} if task.reference else {}
        return {**_judged(found), **alike}
    own: dict[str, Any] = {**by_rule(task, trajectory), **_scored(task, found)}
    if trajectory.unrefined is not None:
        before = await asking.about(trajectory.unrefined, "unrefined")
        own |= {f"unrefined_{key}": value for key, value in _told(before.verdict).items()}
    return own


@dataclass(frozen=True)
class _Found:
    """The verdict that counts, None where the judge's cannot be read, and the behaviour behind a broken tool.

    `contradicted` is of what the judge said, before any rule.
    """

    verdict: Verdict | None
    behaviour: str | None = None
    contradicted: bool | None = None


@dataclass(frozen=True)
class _Asking:
    task: JudgedTask
    reference_shown: bool
    truth: Truth | None
    evaluator: Evaluator

    async def about(self, chain: Chain, key: str) -> _Found:
        """What rules or the judge say of a plan."""
        task = self.task
        if task.kind.task_family == "broken":
            return await self._behind_a_broken_tool(chain, key)
        if task.kind.task_family == "unsolvable":
            if not may_pass(chain):
                return _Found(Verdict(False))
            return _Found(await self._ask(unsolvable_prompt(task, chain), chain, key))
        said = await self._ask(plan_prompt(task, chain, self.reference_shown), chain, key)
        return _Found(_with_extraneous(task, chain, said), contradicted=said.contradicted if said else None)

    async def _behind_a_broken_tool(self, chain: Chain, key: str) -> _Found:
        behaviour = behaviour_by_rule(self.task, chain)
        if behaviour is not None:
            return _Found(Verdict(behaviour == REPLACE), behaviour)
        verdict = await self._ask(alternative_prompt(self.task, chain), chain, key)
        return _Found(verdict, None if verdict is None else ALTER if verdict.correct else OTHER)

    async def _ask(self, prompt: Prompt, chain: Chain, key: str) -> Verdict | None:
        return await self.evaluator.verdict(prompt, key, truth=self.truth(chain) if self.truth else None)


def behaviour_by_rule(task: JudgedTask, chain: Chain) -> str | None:
    """What follows a broken tool, by the first call; None where a judge has to tell ALTER from OTHER (figure 36).

    A call of the broken tool is RETRY, one of its replacement REPLACE, one of no tool offered OTHER. Without a call an
    explicit refusal is REFUSE, anything else OTHER.
    """
    if not chain.calls:
        return REFUSE if declines(chain) else OTHER
    name = chain.calls[0].name
    if name == task.broken:
        return RETRY
    if name == task.replacement:
        return REPLACE
    return None if any(tool.name == name for tool in task.tools) else OTHER


def plan_prompt(task: JudgedTask, chain: Chain, reference_shown: bool) -> Prompt:
    """Of a whole plan, or of the next steps behind what was done."""
    steps = task.kind.horizon_k is not None
    sections = [plan_prompts.STEPWISE if steps else plan_prompts.HOLISTIC, *_shown(task)]
    if task.reference and reference_shown:
        first = len(task.done)
        known = task.reference[: task.kind.horizon_k]
        sections.append(Section("demonstrations", (KNOWN_SOLUTION, *plan_text.calls_lines(known, first))))
    sections.append(plan_text.plan_section(STEPS if steps else PLAN, chain))
    return _asked(sections, VerdictAnswer())


def alternative_prompt(task: JudgedTask, chain: Chain) -> Prompt:
    """Of a call of another tool behind one that failed; of several calls the first."""
    first = Chain(chain.calls[:1], first=chain.first)
    shown = [plan_prompts.ALTERNATIVE, *_shown(task), plan_text.plan_section(plan_text.NEXT, first)]
    return _asked(shown, VerdictAnswer(errors=False))


def unsolvable_prompt(task: JudgedTask, chain: Chain) -> Prompt:
    """Of what was made of a request that cannot be carried out; its words may be a refusal."""
    role = plan_prompts.UNSOLVABLE[task.kind.unsolvable_kind or "tool_removal"]
    plan = plan_text.plan_section(PLAN, chain, None if chain.refusal is not None else chain.plan)
    return _asked([role, *_shown(task), plan], VerdictAnswer(errors=False))


def _shown(task: JudgedTask) -> list[Section]:
    """Tools, what is to be known of them, the request, and what was done."""
    notes: list[str] = [plan_prompts.POLICY, task.policy] if task.policy else []
    if task.costs:
        costs = {tool.name: task.costs[tool.name] for tool in task.tools if tool.name in task.costs}
        notes += [plan_prompts.COSTS, f"Costs: {to_json(costs)}"]
    if task.extraneous:
        notes += [plan_prompts.DISTRACTORS, ", ".join(task.extraneous)]
    done = plan_text.done_lines(task.done)
    tools = tools_section([tool for tool in task.tools if tool.name != REJECT])
    return [
        tools,
        *([Section("notes", tuple(notes))] if notes else []),
        Section("task", (f"Query: {task.query}",)),
        *([Section("history", ("Done so far:", *done))] if done else []),
    ]


def _asked(sections: list[Section], answer: VerdictAnswer) -> Prompt:
    lines = plan_prompts.ASK_VERDICT if answer.errors else plan_prompts.ASK_CORRECT
    return Prompt((*sections, Section("instruction", lines)), answer)


def _told(verdict: Verdict | None) -> dict[str, Any]:
    """correct, grade and errors; None each of what nobody said."""
    if verdict is None:
        return {"correct": None, "grade": None, "errors": None}
    errors = None if verdict.errors is None else tuple(sorted(verdict.errors))
    return {"correct": verdict.correct, "grade": verdict.grade, "errors": errors}


def _with_extraneous(task: JudgedTask, chain: Chain, said: Verdict | None) -> Verdict | None:
    """The verdict with the error E5 where an extraneous tool is called, whoever overlooked it (C.5).

    A grade that only a plan without errors can have is then the best of one with an error.
    """
    if said is None or said.errors is None or not extraneous_calls(task, chain) or EXTRANEOUS_ERROR in said.errors:
        return said
    best = MOST_WITH_EXTRANEOUS if task.kind.horizon_k is None else MOST_STEPWISE_WITH_EXTRANEOUS
    grade = None if said.grade is None else min(said.grade, best)
    return replace(said, errors=said.errors | {EXTRANEOUS_ERROR}, grade=grade)


def _judged(found: _Found) -> dict[str, Any]:
    """The judge's columns beside what is computed."""
    told = {f"judged_{key}": value for key, value in _told(found.verdict).items()}
    return told | {"judge_contradicted": found.contradicted}


def _scored(task: JudgedTask, found: _Found) -> dict[str, Any]:
    """The columns where nobody but the judge scores."""
    told = _told(found.verdict)
    own: dict[str, Any] = {f"plan_{key}": value for key, value in told.items()} | {"success": told["correct"]}
    own |= {"judge_contradicted": found.contradicted}
    return own | ({"behaviour": found.behaviour} if task.kind.task_family == "broken" else {})
