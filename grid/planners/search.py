"""The work of a search in one episode: propose, execute with a cache, ask the judge, keep the best path so far.

Independent work runs concurrently. Node labels are built from positions among siblings, and request names from node
labels. Nodes are created only after concurrent work has ended, so that results do not depend on the order in which
answers arrive. So never call `draft` or `add` within concurrent work.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import JUDGE, SAMPLE, Prompt, ScoreAnswer, Section
from grid.core.errors import BudgetError, VerdictError
from grid.core.problem import BRANCHING
from grid.core.types import NO_TOOL, Observation, Step, ToolCall, Trajectory, Usage
from grid.core.util import STRICT
from grid.core.world import State
from grid.episode import prompts
from grid.episode.acting import Acting, Action, Decision, Path, View, begin, imagine, next_point, perform, trajectory
from grid.episode.asking import OptionLabels, choice_prompt, draft_arguments, sample_actions, single_pass
from grid.episode.episode import Episode
from grid.episode.judging import outcome_section, proposal_section
from grid.episode.progress import Executed
from grid.episode.tree import Node, Pruned
from grid.planners.side_by_side import every
from grid.planners.votes import entropy
from grid.text import references
from grid.text.references import misfit


class Search:
    """One episode's tree.

    Args:
        episode: the case.
        acting: the settings for requests that ask for calls; `max_calls` is the maximum depth of a path without an
            outline.
        oracle_stop: if true, the search asks whether each complete path resolves the case, and stops at the first path
            that does (as in EGB and LATS).
        repeats: which calls may not be repeated on a path without an outline.
        look: changes the view of a decision and its options, for planners whose decisions differ from the usual ones.
    """

    def __init__(
        self,
        episode: Episode,
        acting: Acting,
        *,
        oracle_stop: bool = False,
        repeats: Repeats = "path",
        look: Callable[[View], View] = lambda view: view,
    ) -> None:
        self.episode, self.acting, self.oracle_stop, self.repeats = episode, acting, oracle_stop, repeats
        self._look = look
        self.root = Node(str(episode.turn), len(episode.nodes), None, None, begin(episode))
        self.nodes = episode.nodes
        self.nodes.append(self.root)
        self.executions, self.resolved = 0, False
        self.best_value: float | None = None  # of a complete path
        self._complete: set[tuple[str, ...]] = set()
        self._best: tuple[bool, float] | None = None
        self._path = self._get(self.root)
        self._views: dict[str, View | None] = {}
        self._executed: dict[tuple[State, str], asyncio.Future[Executed]] = {}
        self._steps: dict[str, Step] = {}
        self.scores = Scores(episode)

    # --- a node's decision point

    def view(self, node: Node, lessons: tuple[str, ...] = ()) -> View | None:
        """The decision point after a node; None at a path's end."""
        if node.label not in self._views:
            self._views[node.label] = self._view(self._get(node))
        found = self._views[node.label]
        return replace(found, lessons=lessons) if found and lessons else found

    def ended(self, node: Node) -> bool:
        """Whether a node's path is complete: the outline is done, an action ended the work, or no call is left.

        If the world ended the work in the middle of a plan, all longer plans with the same beginning are complete too.
        """
        return any(self.view(one) is None for one in (*node.edges(), self.root))

    def _view(self, path: Path) -> View | None:
        substep = next_point(self.episode, path, self.acting.max_calls)
        if substep is None:
            return None
        whole = not substep.text
        options = self.episode.options(None if whole else substep, path.steps)
        return self._look(View(substep, path, options, whole, answered=self.episode.case.answered))

    # --- new nodes

    async def propose(
        self, nodes: Sequence[Node], n: int, lessons: tuple[str, ...] = (), siblings: tuple[str, ...] = ()
    ) -> None:
        """Give each node one child per distinct action among `n` samples, in the order of the samples.

        A child's `share` is the share of the samples that proposed its action. An action that cannot be executed at the
        node becomes a pruned child. `siblings` are lines about existing children, for prompts that ask for a different
        action. In an answer with several native calls, only the first call counts.
        """
        found = await every([partial(self._sampled, node, n, lessons, siblings) for node in nodes])
        for node, (actions, usage) in zip(nodes, found, strict=True):
            counts: dict[tuple[str, str], tuple[Action, int]] = {}
            for action in actions:
                key = (action.tool, action.call.text() if action.call else action.unreadable or action.answer or "")
                counts[key] = (counts[key][0], counts[key][1] + 1) if key in counts else (action, 1)
            made = [self.add(node, action, count / n) for action, count in counts.values()]
            made[0].spent += usage
            self._leave_undone(made)

    async def _sampled(
        self, node: Node, n: int, lessons: tuple[str, ...], siblings: tuple[str, ...]
    ) -> tuple[list[Action], Usage]:
        view = replace(self._point(node, lessons), siblings=siblings)
        name = f"node{node.label}" + (f"/{len(node.children)}" if node.children else "")
        return await sample_actions(self.episode, view, name, n, self.acting)

    async def probabilities(self, node: Node, labels: OptionLabels) -> dict[str, float]:
        """The exact probability of each option of a node (a tool, NO_TOOL or FINISH); also sets the node's entropy."""
        view = self._point(node)
        asked = choice_prompt(self.episode, view, self.acting, labels)
        choice = await self.episode.choose(asked, f"node{node.label}", view.substep.id)
        node.spent, node.entropy = node.spent + choice.usage, entropy(choice.probabilities)
        shares = dict.fromkeys(view.offer.options, 0.0)
        for option, share in zip(view.offer.options, choice.probabilities, strict=True):
            shares[option] += share  # two options may have the same name
        return shares

    async def draft(self, node: Node, tools: Sequence[str]) -> list[Node]:
        """Make a child for each tool; the arguments of all calls are requested concurrently."""
        view = self._point(node)
        work = [partial(draft_arguments, self.episode, view, tool, f"node{node.label}", self.acting) for tool in tools]
        made = []
        for action, usage in await every(work):
            made.append(self.add(node, action))
            made[-1].spent += usage
        self._leave_undone(made)
        return made

    def _leave_undone(self, made: Sequence[Node]) -> None:
        """If all children are unreadable or do not fit their tools, turn the first into a step without a call."""
        if made and all(node.pruned in ("unreadable", "schema") for node in made):
            first = made[0]
            why = "the call does not fit its tool" if first.pruned == "schema" else None
            if why:
                first.action = replace(self._edge(first)[1], call=None, finished=False, unreadable=why)
            first.pruned = None

    def add(self, node: Node, action: Action, share: float | None = None) -> Node:
        """Make a child for an action; it is pruned if the action cannot be executed at the node."""
        label, pruned = f"{node.label}.{len(node.children)}", unfit(node, self._point(node), action, self.repeats)
        child = Node(label, len(self.nodes), node, action, share=share, pruned=pruned)
        node.children.append(child)
        self.nodes.append(child)
        return child

    # --- the execution of nodes

    async def execute(self, node: Node) -> Path:
        """Run a node's action from the parent's state.

        The same call is run only once from each state (tooltree §3.1).
        """
        if node.path is None:
            node.path = await self._performed(node)
        return node.path

    async def execute_all(self, nodes: Sequence[Node]) -> None:
        """Run several nodes concurrently; they are numbered for execution in the given order."""
        for node in nodes:
            self.count(node)
        await every([partial(self.execute, node) for node in nodes])

    def count(self, node: Node) -> None:
        """Give a node its place in the order of execution."""
        if node.execution is None:
            node.execution, self.executions = self.executions, self.executions + 1

    async def simulate(self, node: Node) -> Node:
        """Sample and run actions outside the tree, up to the path's end or a repeated call; returns the last node."""
        while (view := self.view(node)) is not None:
            decision = await single_pass(self.episode, view, f"simulated{node.label}", self.acting, several=False)
            step = Node(f"{node.label}.s", len(self.nodes), node, decision.action, spent=decision.usage)
            step.pruned = unfit(node, view, decision.action, self.repeats)
            self.nodes.append(step)
            self._leave_undone([step])
            if step.pruned:
                break
            await self.execute_all([step])
            node = step
        return node

    def imagine(self, node: Node) -> Path:
        """The path extended by a node's action; the action is not run, so the path's state stays the same."""
        if node.path is None:
            view, action = self._edge(node)
            node.path = imagine(view, Decision(action, node.spent))
        return node.path

    async def enact(self, node: Node) -> None:
        """Run a node's imagined action and update the node's path; the parent's action must have been run already.

        An action that was run already is not run again.
        """
        if node.execution is None:
            node.path = await self._performed(node)
            self._views.pop(node.label, None)
            self.count(node)

    async def _performed(self, node: Node) -> Path:
        view, action = self._edge(node)
        path = await perform(self.episode, view, Decision(action, node.spent), execute=self._execute)
        self._steps[node.label] = path.steps[-1]
        return path

    async def _execute(self, state: State, call: ToolCall, steps: tuple[Step, ...]) -> Executed:
        concrete = references.resolve(call, references.outputs_of(steps)) if references.refers(call) else call
        run = partial(self.episode.execute, state, concrete, steps)
        return await once(self._executed, (state, concrete.text()), run)

    # --- the judge's scores

    async def pre(self, node: Node) -> float:
        """r_pre(s, a): how promising the judge finds a node's action before it is run."""
        if node.r_pre is None:
            view, action = self._edge(node)
            asked = before(self.episode, view, action)
            node.pre_asked, node.r_pre = question(asked), await self.scores.ask(asked, "pre")
        return node.r_pre

    async def post(self, node: Node) -> float:
        """r_post(s, a): the judge's score of the result of a node's call.

        An action without a call returns nothing to judge, so it gets the score of an action that has not been run yet.
        """
        if node.r_post is None:
            view, action = self._edge(node)
            observation, kind = self._get(node).steps[-1].observation, "post"
            if action.call is None or observation is None:
                asked, kind = before(self.episode, view, action), "pre"
            else:
                asked = after(self.episode, view, action, observation)
            node.post_asked, node.r_post = question(asked), await self.scores.ask(asked, kind)
        return node.r_post

    async def value(
        self,
        node: Node,
        planned: bool = False,
        lessons: tuple[str, ...] = (),
        samples: int = 1,
        temperature: float = 0.0,
    ) -> float:
        """The judge's score of all steps up to a node, taken together; `planned`: whether none of the steps was run."""
        asked = so_far(self.episode, self._get(node).lines, planned, lessons)
        return await self.scores.ask(asked, "value", samples, temperature)

    # --- the best path

    def reached(self, node: Node, value: float) -> bool:
        """Take a node's path as the answer if it is better than the best so far; returns whether the search may stop.

        A complete path is better than an incomplete path. Of two complete or two incomplete paths, the path with the
        higher value is better. Of equal paths, the first stays the best.
        """
        complete, path = self.ended(node), self._get(node)
        if complete:
            self._complete.add(path.lines)
        if complete and self.oracle_stop and self.episode.resolved(path.state, path.steps):
            self.resolved, value = True, float("inf")
        if self._best is None or (complete, value) > self._best:
            self._best, self._path = (complete, value), path
            self.best_value = value if complete else None
            self.episode.improved(trajectory(self.episode, path), value, node.label)
        return self.resolved

    def settle(self, node: Node) -> bool:
        """Take a node's path as the answer, even if another path was better; returns whether the search may stop."""
        if self._best is not None and self._get(node).lines == self._path.lines:
            self.best_value = node.value if self.ended(node) else None
            return self.resolved
        self._best = None
        return self.reached(node, node.value)

    async def run(self, node: Node) -> bool:
        """Execute the imagined actions from the root to a node, whatever they return; this path may become the answer.

        Actions that were executed already are not executed again, and nothing is executed after the world has ended the
        work. The path's value is the node's value. Like `reached`, it returns whether the search may stop.
        """
        last = self.root
        try:
            for edge in reversed([*node.edges()]):
                if edge.execution is None:
                    await self.enact(edge)
                    last = edge
                if self.ended(edge):
                    break
        finally:
            if last is not self.root:
                self.reached(last, node.value)
        return self.resolved

    def trajectory(self) -> Trajectory:
        """The trajectory with the best path, and with every step that was run, in the order of the nodes."""
        taken = tuple(self._steps[node.label] for node in self.nodes if node.label in self._steps)
        return trajectory(self.episode, self._path, taken, branches=max(len(self._complete) - 1, 0))

    def _get(self, node: Node) -> Path:
        if node.path is None:
            raise RuntimeError(f"node {node.label} was neither executed nor imagined")
        return node.path

    def _point(self, node: Node, lessons: tuple[str, ...] = ()) -> View:
        view = self.view(node, lessons)
        if view is None:
            raise RuntimeError(f"node {node.label} is the end of its path")
        return view

    def _edge(self, node: Node) -> tuple[View, Action]:
        if node.parent is None or node.action is None:
            raise RuntimeError("no edge leads to the root")
        return self._point(node.parent), node.action


# The judge's scores in one episode: each question is answered once, however often it is asked.


T = TypeVar("T")


class Scores:
    """A search's questions to its judge, and the judge's answers."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._known: dict[str, asyncio.Future[Any]] = {}
        self._unscored: VerdictError | None = None

    async def ask(self, prompt: Prompt, kind: str, samples: int = 1, temperature: float = 0.0) -> float:
        """The score in [0, 1], or the mean of several samples; 0 if no answer has a score."""
        digest = question(prompt)
        work = partial(self._episode.judge, prompt, kind, digest, samples=samples, temperature=temperature)
        try:
            score: float = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return 0.0
        return score

    async def votes(self, prompt: Prompt, candidates: Sequence[str], samples: int, temperature: float) -> list[float]:
        """Each candidate's share of the votes; 0 for all candidates if no vote can be read."""
        digest = question(prompt, *candidates)
        work = partial(self._episode.vote, prompt, candidates, "vote", digest, samples=samples, temperature=temperature)
        try:
            shares: list[float] = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return [0.0] * len(candidates)
        return shares

    def check(self) -> None:
        """Raise VerdictError if the judge was asked and none of its answers has a score."""
        if self._unscored and all(
            asked.done() and not asked.cancelled() and asked.exception() for asked in self._known.values()
        ):
            raise self._unscored


def question(prompt: Prompt, *candidates: str) -> str:
    """The identifier of a question; equal prompts have the same identifier."""
    text = "".join([*(section.digest for section in prompt.sections), Section("candidates", candidates).digest])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def once(known: dict[Any, asyncio.Future[T]], key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `work`, which is done only once per key: later callers get the first result or error."""
    if (found := known.get(key)) is not None:
        return found.result() if found.done() else await found
    done = known[key] = asyncio.get_running_loop().create_future()
    try:
        result = await work()
    except Exception as error:
        done.set_exception(error)
        done.exception()  # avoids a warning if nobody else asks
        raise
    except BaseException:
        del known[key]
        done.cancel()
        raise
    done.set_result(result)
    return result


# The questions that a search asks its judge: about a call before it is run, about its result, and about all steps so
# far.
#
# The criteria come from tooltree B.7 and B.8, in our own words. The third prompt is for planners that score states
# (LATS, best-first, tree of thoughts): they all have the same prompt, so that they differ only in their search.


_WHO = "You judge the work of an agent that carries out a request by calling tools one after another."
BEFORE = Section(
    "role",
    (
        _WHO,
        "A call is proposed. It has not been run. Judge how promising it is as the very next step, and do not "
        "imagine what it would return. A coarse score is enough.",
        "Give a low score to a call that belongs to another domain than the one needed, leaves out something "
        "that the request or the tool's arguments require, repeats an earlier call without a new benefit, or "
        "guesses although another tool is more direct.",
    ),
)
AFTER = Section(
    "role",
    (
        _WHO,
        "A call was run. Judge what this one call added to what was known before, not the work as a whole. A "
        "coarse score is enough.",
        "Ask whether its result serves the request or the present substep, whether the result is plausible and "
        "free of errors and contradictions, whether it is to the point, and whether it meets the conditions "
        "that were set.",
    ),
)
SO_FAR = Section(
    "role",
    (
        _WHO,
        "Judge all steps so far together: how likely is it that they lead to the request being carried out or, "
        "if they are complete, that the request was carried out? A coarse score is enough.",
    ),
)
BETTER = Section(
    "role",
    (
        _WHO,
        "Two steps were tried at the same point. Judge the one shown last against the other: give the middle of "
        "the scale if both are equally good, and the best score if the last one brings the request much closer "
        "to completion.",
    ),
)
BEST = Section(
    "role",
    (
        _WHO,
        "Several plans are shown, one step per line, as far as each was worked out. No step of any plan has "
        "been run. For each plan, check whether its steps serve the request in this order, and whether their "
        "arguments can be known.",
    ),
)
WHOLE = Section("proposal", ("Judge all steps above together.",))
PLANNED = Section("proposal", ("Judge all steps above together. None of them has been run.",))
NONE = Section("proposal", ("Call:", "none"))


def before(episode: Episode, view: View, action: Action) -> Prompt:
    """The prompt that asks how promising an action is as the next step (B.7)."""
    return _asked(BEFORE, episode, view.history, prompts.request_section(view.substep), _proposal(view, action))


def after(episode: Episode, view: View, action: Action, observation: Observation) -> Prompt:
    """The prompt that asks what a call has added (B.8); `view` is the context before the call."""
    shown = _proposal(view, action), outcome_section(observation)
    return _asked(AFTER, episode, view.history, prompts.request_section(view.substep), *shown)


def better(episode: Episode, view: View, other: str, action: Action, observation: Observation | None) -> Prompt:
    """The prompt that asks how much better a step is than another step at the same point, shown as `other`."""
    outcome = (outcome_section(observation),) if observation else ()
    shown = Section("siblings", ("The other step:", other)), _proposal(view, action), *outcome
    return _asked(BETTER, episode, view.history, prompts.request_section(view.substep), *shown)


def so_far(episode: Episode, lines: Sequence[str], planned: bool = False, lessons: Sequence[str] = ()) -> Prompt:
    """The prompt that asks for one score for all steps so far; `lines` shows these steps.

    `planned`: whether the steps are only planned, so that none has been run. `lessons`: the lessons from earlier
    failures.
    """
    return _asked(SO_FAR, episode, lines, PLANNED if planned else WHOLE, lessons=lessons)


def best(episode: Episode) -> Prompt:
    """The prompt that asks which candidate is the best; none of the candidates' steps has been run."""
    return prompts.prompt(ScoreAnswer(), BEST, prompts.notes_section(episode), prompts.task_section(episode))


def _asked(
    role: Section, episode: Episode, lines: Sequence[str], *shown: Section, lessons: Sequence[str] = ()
) -> Prompt:
    told = prompts.notes_section(episode), prompts.task_section(episode)
    learned, done = prompts.lessons_section(lessons), prompts.history_section(lines)
    return prompts.prompt(ScoreAnswer(), role, *told, learned, done, *shown)


def _proposal(view: View, action: Action) -> Section:
    if action.tool == NO_TOOL:
        return NONE
    call = action.call or prompts.finishing(action.answer)
    return proposal_section(view.offer.tools[call.tool], call)


# The gate on calls: a call that does not fit its tool's schema is neither executed nor shown to a judge (tooltree
# §4.1).


Repeats = Literal["path", "state"]
"""Which calls may not be repeated: all calls of the path, or only its calls from the same state."""


def unfit(node: Node, view: View, action: Action, repeats: Repeats) -> Pruned | None:
    """The reason why an action cannot be executed at a node with this view; None if it can be executed."""
    if action.unreadable is not None:
        return "unreadable"
    if action.call is None:
        return "given_up" if action.given_up else None
    if misfit(action.call, view.offer.tools[action.call.tool]):
        return "schema"
    return "repeated" if not view.guided and _repeated(node, action.call, repeats) else None


def _repeated(node: Node, call: ToolCall, repeats: Repeats) -> bool:
    """Whether a path already contains a call.

    With an outline, repetition is not checked, since two substeps may make the same call.
    """
    text = call.text()
    for edge in node.edges():
        made = edge.action.call if edge.action else None
        if made and made.text() == text:
            before = edge.parent.path if edge.parent else None
            if repeats == "path" or (before and node.path and before.state == node.path.state):
                return True
    return False


# The keys shared by all planners that search a tree, and the way their search ends.


@dataclass(frozen=True, config=STRICT)
class TreeSearch(Acting, ABC):
    """A search over paths of calls, whose best path is the result; it ends by itself or when `budget.*` is used up.

    `branching` is the number of actions that are proposed at a node. With `oracle_stop`, the search asks whether each
    complete path resolves the case, and ends at the first path that does (the protocol of EGB and LATS); without it,
    the search never asks. `repeats` says which calls may not be repeated on a path without an outline: all calls that
    the `path` has made (tooltree §3.1: A(s) without a_1 to a_t), or only the calls that it made from the same `state`.
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    branching: Annotated[int, Field(ge=1, le=2000)] = 5
    oracle_stop: bool = False
    repeats: Repeats = "path"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING, JUDGE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Search; returns the best path, with every step that was run.

        Raises:
            VerdictError: none of the judge's answers has a score.
        """
        search = Search(episode, self, oracle_stop=self.oracle_stop, repeats=self.repeats, look=self.look)
        with suppress(BudgetError):  # the episode records which budget
            await self.search(search)
        search.scores.check()
        return search.trajectory()

    def look(self, view: View) -> View:
        """The view of a decision and its options; a planner may override this method to change them."""
        return view

    @abstractmethod
    async def search(self, search: Search) -> None:
        """Grow the tree, and report the value of each path that may be the answer (`Search.reached`)."""
