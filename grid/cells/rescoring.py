"""Score stored episodes again with today's scorers, without asking the acting model.

A folder keeps an episode's calls, their results, and the episode's answer. The trajectory is rebuilt from these parts.
The state after the trajectory is rebuilt by making the same calls again, if the tools are not live and still answer as
they did. If models answered in place of tools, their answers are taken from the transcripts. A part that is neither
kept nor recoverable is Unknown. A scorer that reads an Unknown part gives no value; a reason is given instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, cast

from grid.cells.environment import NOBODY, Environment
from grid.cells.rows import case_row, score_columns, storable
from grid.cells.run import UNRESOLVED, broken_off, unsolved
from grid.core.engine import (
    ACTOR,
    CHOOSE,
    EVALUATOR,
    JUDGE,
    SAMPLE,
    SIMULATOR,
    USER,
    Choice,
    Engine,
    Prompt,
    Role,
    Sampled,
)
from grid.core.errors import EngineError, ErrorKind, GridError, ModelError, Status, UnfinishedError, one_line
from grid.core.metric import checked, declared_by
from grid.core.problem import AFTER, DRAFTED, NOTHING, Judged, Problem
from grid.core.types import (
    FINISH,
    REJECT,
    Chain,
    ChainCall,
    Observation,
    OptionProbability,
    Step,
    Substep,
    ToolCall,
    Trajectory,
    Usage,
)
from grid.core.untrusted import loads
from grid.core.util import can
from grid.core.world import ByAnswer, Conversation, State, resolved_by
from grid.episode.episode import Episode
from grid.metrics.scores import SUCCESS, UNSCORED, solvable
from grid.metrics.stepwise import scored
from grid.planners.refining import Refined
from grid.roles.evaluation import Evaluation
from grid.settings.build import Built
from grid.store.schema import SCORES, TEXT
from grid.store.transcripts import Request
from grid.text import references
from grid.text.answers import read_chain, read_messages
from grid.text.objects import UnreadableError
from grid.worlds import layers

Value = float | str
"""A value in the form in which tables store it: a flag as 0 or 1, a list as JSON."""
RETRIEVED = "retrieval_rate"
"""Our only metric that depends on the tools that were offered."""
SILENCE = "no answer of an evaluator or a judge could be read"
SAID = "an evaluator gave this value; to ask an evaluator again, set model@evaluator=NAME"
_WHILE_IT_RAN = ("expected_success", "unassigned", "cancelled_")
"""Prefixes of the names of metrics that describe a run, not its result."""


class NotStoredError(Exception):
    """A scorer read a part of an episode that is neither kept nor recoverable."""


class Unknown:
    """The placeholder for an unknown value: any access to it, even to its class, raises NotStoredError."""

    def __init__(self, what: str) -> None:
        object.__setattr__(self, "_what", what)

    def _raise(self, *_: object) -> NoReturn:
        raise NotStoredError(object.__getattribute__(self, "_what"))

    __getattr__ = __eq__ = __hash__ = __bool__ = __iter__ = __len__ = __contains__ = __str__ = __lt__ = _raise
    __class__ = property(_raise)


@dataclass(frozen=True)
class Stored:
    """A cell as stored in its folder: its row of `episodes`, its rows of `steps`, and its metrics by name.

    `requests` are the cell's requests; None if they were not kept.
    """

    episode: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    scores: Mapping[str, Value]
    requests: Sequence[Request | None] | None = None


@dataclass(frozen=True)
class Again:
    """The metrics from scoring again; `lacking` has the reasons why stored metrics have no value now, by metric name.

    `why` is the reason if nothing could be measured.
    """

    scores: Mapping[str, Value] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    why: str | None = None


def was_scored(episode: Mapping[str, Any]) -> bool:
    """Whether a cell has scores, that is, whether it ended well or with a failure of the agent (UNRESOLVED)."""
    return not episode["error_kind"] or ErrorKind(episode["error_kind"]) in UNRESOLVED


def needs_requests(built: Built) -> bool:
    """Whether rebuilding the trajectories of cells needs their requests in addition to their steps."""
    planner = built.planner.planner if isinstance(built.planner, Refined) else built.planner
    after = getattr(built.dataset, "answering", None) == AFTER
    return bool(getattr(planner, "writes_plans", False)) or after or bool(_behind(built))


def recorded(built: Built) -> frozenset[str]:
    """The names of metrics that no scorer gives: metrics measured while a cell ran, and the planner's own metrics."""
    own = {metric.name for metric in declared_by(built.planner)}
    told = {name for name in built.metrics if name.startswith(_WHILE_IT_RAN)}
    return frozenset(own | told | NOBODY.failures().keys())


async def score_again(
    built: Built, stored: Stored, disturbance_seed: int, evaluation: Evaluation | None = None
) -> Again:
    """The scores of a cell that `was_scored`, computed with today's code.

    `evaluation`, if given, makes the judgements that need a model. An error of a scorer becomes `why` in the result.

    Raises:
        EngineError, UnfinishedError: the evaluator does not answer.
    """
    episode = stored.episode
    kind = ErrorKind(episode["error_kind"]) if episode["error_kind"] else None
    if episode["case_digest"] is None:  # the cell ended its worker, or its problem could not be built
        return Again(_flat({**UNSCORED, SUCCESS: False, **unsolved(built, episode["case_id"])}))
    try:
        problem = built.problem(episode["case_id"], disturbance_seed)
    except (KeyError, GridError) as error:
        return Again(why=f"the case cannot be built: {one_line(error, 200)}")
    try:
        return await _Scorer(built, stored, problem, kind, evaluation).scores()
    except (EngineError, UnfinishedError):
        raise
    except NotStoredError as error:
        return Again(why=str(error))
    except Exception as error:  # noqa: BLE001 - of a data set that changed, or a plugin's
        return Again(why=f"a scorer failed: {type(error).__name__}: {one_line(error, 200)}")
    finally:
        await layers.close(problem.world)


class _Scorer:
    """Scores one cell."""

    def __init__(
        self, built: Built, stored: Stored, problem: Problem, kind: ErrorKind | None, evaluation: Evaluation | None
    ) -> None:
        self._built, self._stored, self._problem = built, stored, problem
        self._kind, self._evaluation = kind, evaluation
        self._reasons: list[str] = []

    async def scores(self) -> Again:
        """The scores, computed as in `_solved_and_scored` and `_failed` of `run`."""
        built, alone, live = self._built, self._problem, not self._problem.world.branches
        problem = await as_then(built, self._stored, self._evaluation).around(built, alone)
        if case_row(problem)["digest"] != self._stored.episode["case_digest"]:
            raise NotStoredError("the case has changed (query, outline or reference)")
        nothing = {} if live else {NOTHING: alone.world.resolved(alone.world.start())}
        told = {**nothing, **alone.baselines(), "solvable": solvable(alone)}
        found = await trajectory_of(built, problem, self._stored)
        self._reasons += found.unknown
        said = await self._said(problem, found.shown)
        own = self._measured(problem, found.trajectory)
        resolved = self._resolved(problem, found)
        values = self._scored(replace(problem, measure=lambda _: own), found.trajectory, bool(resolved), said)
        if resolved is None and SUCCESS not in {**own, **said}:
            values.pop(SUCCESS)
        if found.offered_unknown:
            values.pop(RETRIEVED, None)
        for name in self._not_asked(problem):
            values.pop(name, None)
        if self._kind is not None and values.get(SUCCESS) is not None:
            values[SUCCESS] = False
        if self._nobody_can_tell(values):
            values[SUCCESS] = None
        again = _flat({**told, **checked(values, built.metrics)})
        return Again(again, dict(self._lacking(again)))

    def _measured(self, problem: Problem, trajectory: Trajectory) -> Mapping[str, Any]:
        """The benchmark's own metrics.

        If an unknown part is needed, the metrics are computed as if there were no unrefined draft; if an unknown part
        is needed even then, there are no metrics.
        """
        for seen in (trajectory, replace(trajectory, unrefined=None)):
            try:
                return problem.measure(seen)
            except NotStoredError as error:
                self._reasons.append(str(error))
        return {}

    def _scored(
        self, problem: Problem, trajectory: Trajectory, resolved: bool, said: Mapping[str, Any]
    ) -> dict[str, Any]:
        """All metrics, except those of milestones if a milestone needs the last state and that state is unknown."""
        try:
            return scored(problem, _plain(trajectory), resolved, said)
        except NotStoredError as error:
            self._reasons.append(str(error))
            plain = replace(problem.reference, milestones=(), forbidden=())
            return scored(replace(problem, reference=plain), _plain(trajectory), resolved, said)

    async def _said(self, problem: Problem, trajectory: Trajectory) -> Mapping[str, Any]:
        """The evaluator's metrics; the evaluator is only asked about episodes that did not break off."""
        if problem.examine is None or (self._evaluation is None and self._kind is None):
            return {}
        if self._kind is not None:
            return unsolved(self._built, self._stored.episode["case_id"])
        try:
            return await problem.examine(trajectory, cast(Evaluation, self._evaluation))
        except NotStoredError as error:
            self._reasons.append(str(error))
            return {}

    def _resolved(self, problem: Problem, found: Remade) -> bool | None:
        """Whether the path resolves the case; None if the state after the path is unknown."""
        if self._kind is not None:
            return False
        steps, reached, world = found.trajectory.steps, self._stored.episode["budget_reached"], problem.world
        if not world.branches and can(type(world), ByAnswer):
            return cast(ByAnswer, world).resolved_by_answer(self._stored.episode["answer"])
        try:
            return resolved_by(world, steps, found.trajectory.end, broken_off(reached, problem.case, steps))
        except NotStoredError:
            return None

    def _not_asked(self, problem: Problem) -> frozenset[str]:
        """The names of metrics that an evaluator gave when the cell ran, if no evaluator is asked now."""
        asked = problem.examine and EVALUATOR in self._built.roles and self._kind is None
        if not asked or self._evaluation is not None or not can(type(self._built.dataset), Judged):
            return frozenset()
        return frozenset(cast(Judged, self._built.dataset).unsolved(self._stored.episode["case_id"]))

    def _nobody_can_tell(self, values: Mapping[str, Any]) -> bool:
        """Whether success is unknown because a judge or evaluator gave no readable answer."""
        if self._evaluation is not None:
            return self._evaluation.undecided and not values.get(SUCCESS)
        before = self._stored.scores
        silent = any(before.get(name) for name in ("judge_failures", "evaluator_failures"))
        return silent and SUCCESS not in before and self._kind is None

    def _lacking(self, again: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
        """The names of stored metrics that have no value now, each with the reason.

        If there is no reason (scorers simply no longer give these metrics), the names are left out.
        """
        asked = EVALUATOR in self._built.roles
        silent = self._evaluation is not None and self._evaluation.failures
        reasons = [*self._reasons, *[SILENCE] * bool(silent), *[SAID] * (asked and self._evaluation is None)]
        for name in self._stored.scores.keys() - again.keys():
            if reasons:
                yield name, "; ".join(dict.fromkeys(reasons))


def _flat(values: Mapping[str, Any]) -> dict[str, Value]:
    """The given metrics, including success, as values that tables store."""
    columns = score_columns(values)
    success = {} if columns[SUCCESS] is None else {SUCCESS: float(columns[SUCCESS])}
    return {**success, **columns[SCORES], **columns[TEXT]}


def _plain(found: Trajectory) -> Trajectory:
    """A trajectory without Unknown parts in its steps; unknown candidates are left empty."""
    steps = tuple(replace(one, candidates=()) if _is_unknown(one.candidates) else one for one in found.steps)
    return replace(found, steps=steps, chain=None, planned=None, unrefined=None)


def _is_unknown(value: object) -> bool:
    return type(value) is Unknown


# The trajectory of a stored episode.


class Remade(NamedTuple):
    """A rebuilt trajectory; `unknown` has a line for each unknown part.

    `shown` is the trajectory for an evaluator, which also needs the text of a plan.
    """

    trajectory: Trajectory
    unknown: Sequence[str]
    offered_unknown: bool
    shown: Trajectory


async def trajectory_of(built: Built, problem: Problem, stored: Stored) -> Remade:
    """The trajectory that a planner returned, rebuilt from stored parts, with the state after the trajectory.

    Raises:
        NotStoredError: a call was too long for a row, or steps are missing.
        EngineError, UnfinishedError: a model that the tools ask does not answer.
    """
    episode, made = stored.episode, _Making(built, problem)
    path = sorted((row for row in stored.steps if row["on_path"]), key=lambda row: int(row["step"]))
    steps, end, why = await _replayed(made, path, episode)
    if len(steps) != episode["n_steps"]:
        raise NotStoredError(f"only {len(steps)} of the {episode['n_steps']} steps are stored")
    rest = [made.whole(row) for row in stored.steps if not row["on_path"]]
    decisions = tuple(sorted([*steps, *rest], key=lambda step: step.branch))
    found = Trajectory(
        steps=steps,
        decisions=decisions,
        end=end,
        branches=episode["branches"] or 0,
        branched_steps=episode["branched_steps"],
        replans=episode["replans"] or 0,
        answer=episode["answer"],
        told_after=_told_after(built, stored),
    )
    found = replace(found, **_plans(built, problem, stored, found))
    wordless = type(found.chain) is Chain and not found.chain.plan and _words(problem, stored, built) is None
    shown = replace(found, chain=cast(Chain, Unknown(_WORDS))) if wordless else found
    offered_unknown = any(_is_unknown(step.candidates) for step in steps)
    unknown = [*filter(None, [why]), *[NOT_OFFERED] * offered_unknown]
    return Remade(found, unknown, offered_unknown, shown)


NOT_OFFERED = "the tools offered at the decisions are not stored and cannot be found again"


class _Making:
    """Makes the steps of a case from stored rows; `offering.turn` is the turn of a conversation."""

    def __init__(self, built: Built, problem: Problem) -> None:
        self.problem, self._drafted = problem, built.dataset.outline == DRAFTED
        self._known = {substep.id: substep for substep in problem.case.plan.substeps}
        self.offering = Episode(
            problem.case,
            problem.world,
            built.engine,
            problem.candidates,
            built.budget,
            0,
            parts=problem.parts,
            query_tools=problem.query_tools,
            retrieved=problem.retrieved,
        )

    def step(self, row: Mapping[str, Any]) -> Step:
        """The step of a row, without the offered tools and without the result of its call."""
        chosen, arguments, written = row["chosen_tool"], _json(row["arguments"]), _json(row["written"])
        known, name, text = self._known.get(row["substep_id"]), row["substep_id"], row["substep"] or ""
        call = None if arguments is None else ToolCall(chosen, arguments)
        return Step(
            branch=row["branch"],
            substep=known if known and known.text == text else Substep(name, text, "", self._drafted and bool(text)),
            call=call,
            observation=None,
            written=None if written is None else ToolCall(written["tool"], written["arguments"]),
            thought=row["thought"],
            malformed=chosen is None,
            finished=chosen == FINISH and call is None,
            entropy=row["entropy"],
            options=tuple(OptionProbability(one["tool"], one["probability"]) for one in row["options"] or ()),
            unassigned=row["unassigned"],
            error_bound=row["error_bound"],
            **{name: row[name] for name in ("input_tokens", "cached_input_tokens", "output_tokens")},
        )

    def whole(
        self, row: Mapping[str, Any], before: Sequence[Step] | None = None, seen: Observation | None = None
    ) -> Step:
        """The step of a row after the steps `before` (None: unknown); `seen`: its result now (None: as stored)."""
        if seen is None and row["observation"] is not None:
            seen = Observation(_json(row["observation"]), bool(row["failed"]))
        step = replace(self.step(row), observation=seen)
        return replace(step, candidates=self._offered(step, row, before))

    def _offered(self, step: Step, row: Mapping[str, Any], before: Sequence[Step] | None) -> tuple[str, ...]:
        """The tools that the retriever finds for a step's substep or the whole query, as many as the run offered.

        The result is empty if no number of offered tools is stored. A set of tools fits if it has the stored number of
        tools and, if the step needs a tool, has the reference's tool exactly if a place of this tool is stored. The
        tools are Unknown if neither set fits, or if both sets fit but differ and no outline was followed.
        """
        most = row["n_options"]
        if most is None:
            return ()
        known = before is not None or self.problem.retrieved == "static"
        substeps = [*[step.substep] * bool(step.substep.text), None] if known else []
        thought = step.thought or "" if self.problem.retrieved == "thought" else ""
        found = [self.offering.options(substep, before or (), thought=thought).tools for substep in substeps]
        if all(len(tools) + 1 != most for tools in found):  # then only the best were offered, which `options` selects
            found = [self.offering.options(substep, before or (), most, thought).tools for substep in substeps]
        fitting = [tuple(tool.name for tool in tools) for tools in found if len(tools) + 1 == most]
        if row["tool_required"]:
            fitting = [
                names for names in fitting if (row["reference_tool"] in names) == (row["reference_rank"] is not None)
            ]
        told = len({frozenset(names) for names in fitting}) == 1 or (fitting and row["tool_required"] is not None)
        return fitting[0] if told else cast(tuple[str, ...], Unknown(NOT_OFFERED))


def _json(text: str | None) -> Any:
    """The value of a step's column that contains JSON; raises NotStoredError if the text was cut."""
    if text is None:
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        raise NotStoredError("a call or its result is not stored in full") from None


async def _replayed(
    made: _Making, rows: Sequence[Mapping[str, Any]], episode: Mapping[str, Any]
) -> tuple[tuple[Step, ...], State, str | None]:
    """The steps of a path, the state after the steps, and, if this state is Unknown, the reason."""
    case, world = made.problem.case, made.problem.world
    steps, turns = list[Step](case.done), len(case.messages)
    why = None if world.branches else "the tools are live, and their state is not stored"
    state = world.start() if why is None else None

    def behind(step: Step) -> None:
        nonlocal state, turns
        steps.append(step)
        if step.finished and turns:
            turns -= 1
            made.offering.turn += 1
            state = state if why else cast(Conversation, world).next_turn(state)

    for row in rows:
        while turns and row["substep_id"].isdecimal() and len(steps) < int(row["substep_id"]):
            behind(_end_of_turn(len(steps)))
        seen = None
        if why is None:
            state, seen, why = await _applied(made, state, steps, row, episode["answer"])
        behind(made.whole(row, steps, seen))
    while turns and episode["status"] == Status.OK:
        behind(_end_of_turn(len(steps)))
    return tuple(steps[len(case.done) :]), cast(State, Unknown(why)) if why else state, why


def _end_of_turn(place: int) -> Step:
    """The step that `Episode.next_turn` adds if a turn ends by itself."""
    return Step(0, Substep(str(place), "", ""), None, None, finished=True)


async def _applied(
    made: _Making, state: State, before: Sequence[Step], row: Mapping[str, Any], answer: str | None
) -> tuple[State, Observation | None, str | None]:
    """The state after a step, the result of its call, and the reason if the state is unknown (see `acting.perform`)."""
    world, step = made.problem.world, made.step(row)
    call = step.call or (step.written if step.finished else None)
    if call is None or row["observation"] is None:  # a plan that is not run has no outcomes
        return (layers.ended(world, state, answer) if step.finished else state), None, None
    if step.finished and references.refers(call):
        call = references.resolve(call, references.outputs_of([*before]))
    try:
        after, seen = await world.apply(state, call)
    except (EngineError, UnfinishedError):
        raise
    except NotStoredError as error:
        return None, None, str(error)
    except Exception as error:  # noqa: BLE001 - whoever answered then is not there now
        return None, None, f"the calls cannot be made again: {type(error).__name__}: {one_line(error, 200)}"
    if storable({"text": seen.text()})["text"] != row["observation"] or seen.failed != row["failed"]:
        return None, None, "the tools give different answers now, so the states after the calls are not known"
    return after, seen, None


# Models that answered on behalf of tools and now repeat their stored answers.


class _Recorded:
    """Replaces a role's engine: a request's first attempt gets the answer that is stored for its last attempt.

    Raises:
        ModelError: no attempt had a readable answer.
        NotStoredError: the answer was not kept.
    """

    provides = frozenset({SAMPLE, CHOOSE})

    def __init__(self, role: Role, requests: Sequence[Request | None] | None) -> None:
        self._role, self._asked, self._last = role, dict[str, str](), dict[str, Request]()
        for one in requests or ():
            if one and one.role == role:
                what, _, tried = one.decision.rpartition("/")
                what = what if tried.startswith("try") else one.decision
                self._asked.setdefault(one.text(), what)
                self._last[what] = one

    async def sample(self, prompt: Prompt, **_: object) -> Sampled:
        """The stored completions, without costs."""
        return Sampled(self._found(prompt).answers, Usage())

    async def choose(self, prompt: Prompt, **_: object) -> Choice:
        """The stored distribution, without costs."""
        return Choice(self._found(prompt).probabilities or (), Usage())

    def _found(self, prompt: Prompt) -> Request:
        found = self._last.get(self._asked.get(prompt.text(), ""))
        if found is None or found.altered or not (found.answers or found.probabilities):
            raise NotStoredError(f"the answers of the {self._role} are not stored (store.transcripts)")
        if found.unreadable:
            raise ModelError("the answer could not be read when the cell ran")
        return found


def _behind(built: Built) -> list[Role]:
    """The roles whose models answer on behalf of a setting's tools."""
    return [role for role in (USER, SIMULATOR) if role in built.roles] + [JUDGE] * built.tools_ask


def as_then(built: Built, stored: Stored, evaluation: Evaluation | None) -> Environment:
    """A cell's environment, in which models repeat their stored answers; the evaluator is the given one."""
    roles = {role: cast(Engine, _Recorded(role, stored.requests)) for role in _behind(built)}
    again = replace(built, roles={**built.roles, **roles})
    grounding = again.grounding(stored.episode["case_id"], 0)
    return Environment(evaluation, again.simulation(0), grounding, again.customer(0))


# Plans that were written before anything was run; their texts and drafts are only in transcripts.


_NOT_RUN = "the plan, as it was before the run, is not stored"
_WORDS = "the words of the plan are not stored (store.transcripts)"
_DRAFT = "the draft of the plan from before the critique is not stored"
_PLANS = ("chain", "messages")
"""The kinds of answers that are plans with reasons (`Request.wanted`)."""


def _plans(built: Built, problem: Problem, stored: Stored, found: Trajectory) -> dict[str, Any]:
    """The fields `chain`, `planned` and `unrefined` of a trajectory."""
    refined = isinstance(built.planner, Refined)
    planner: Any = built.planner.planner if isinstance(built.planner, Refined) else built.planner
    ahead = bool(getattr(planner, "writes_plans", False))
    unrefined = Unknown(_DRAFT) if refined and ahead and stored.episode["status"] == Status.OK else None
    if not problem.case.diagnosed:
        planned = Unknown(_NOT_RUN) if ahead and hasattr(planner, "carried_out") else None
        return {"planned": planned, "unrefined": unrefined}
    predicted = all(step.observation is None for step in found.steps)
    if not ahead or not predicted or (not found.steps and stored.episode["status"] != Status.OK):
        return {"unrefined": unrefined}
    return {"chain": _chain(built, problem, stored, found), "unrefined": unrefined}


def _chain(built: Built, problem: Problem, stored: Stored, found: Trajectory) -> Any:
    """The plan of a diagnosed case; the plan's calls are taken from the steps."""
    calls, refusal = list[ChainCall](), None
    for written in (step.written for step in found.steps):
        if written is not None and written.tool == REJECT:
            refusal = str(written.arguments.get("reason", ""))
        elif written is not None and written.tool != FINISH:
            thought = next(step.thought for step in found.steps if step.written is written)
            calls.append(ChainCall(written.tool, written.arguments, thought or ""))
    words = _words(problem, stored, built)
    told = calls or refusal  # in these cases a plan's text is not a refusal, whatever it says
    if words is None and (not told or problem.case.plan.substeps):
        return Unknown(_WORDS)
    first = found.steps[0].substep.id if found.steps else str(len(problem.case.done))
    return Chain(tuple(calls), refusal, words or "", int(first) if first.isdecimal() else 0)


def _words(problem: Problem, stored: Stored, built: Built) -> str | None:
    """The text that the last readable plan has besides its calls; None if the plan was not kept, or was refined."""
    for asked in reversed(() if isinstance(built.planner, Refined) else stored.requests or ()):
        if asked and asked.role == ACTOR and asked.wanted in _PLANS and asked.answers and not asked.unreadable:
            text, count = asked.answers[0], problem.case.decisions or 1
            try:
                found = read_chain(text) if asked.wanted == _PLANS[0] else read_messages(text, count)
            except UnreadableError:
                return None
            return found.plan or found.said
    return None


def _told_after(built: Built, stored: Stored) -> Any:
    """Whether the answer was requested after the last step (`grid.episode.answering`)."""
    if getattr(built.dataset, "answering", None) != AFTER:
        return False
    if stored.requests is None:
        return Unknown("it is not stored whether the answer was requested after the calls (store.transcripts)")
    return any(asked and asked.role == ACTOR and asked.decision.startswith("answer/") for asked in stored.requests)
