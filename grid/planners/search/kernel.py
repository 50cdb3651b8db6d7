"""What search planners do in one episode: propose, execute with a cache, ask the judge, keep what is best so far.

Independent work runs side by side. Nodes are labelled by their place among their siblings, requests by nodes, and nodes
are made when that work has ended, so that results do not depend on the order of answers: never `draft` or `add` in it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from grid.core.engine import Prompt, Section
from grid.core.errors import VerdictError
from grid.core.types import Step, ToolCall, Trajectory, Usage
from grid.core.world import State
from grid.episode.acting import Acting, Action, Decision, begin, imagine, next_point, perform, trajectory
from grid.episode.asking import OptionLabels, choice_prompt, draft_arguments, sample_actions, single_pass
from grid.episode.episode import Episode
from grid.episode.progress import Executed
from grid.episode.tree import Node
from grid.episode.view import Path, View
from grid.planners.search import evaluating
from grid.planners.search.gate import Repeats, unfit
from grid.planners.side_by_side import every
from grid.planners.votes import entropy
from grid.text import references


class Search:
    """One episode's tree.

    Args:
        episode: the case.
        acting: how calls are asked for; `max_calls` is the depth of a path without an outline.
        oracle_stop: ask whether a complete path resolves the case, and stop where it does (EGB's and LATS' protocol).
        repeats: of calls on a path without an outline.
        look: what a decision sees and may take, where that is not the same as elsewhere.
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

    # --- where a node stands

    def view(self, node: Node, lessons: tuple[str, ...] = ()) -> View | None:
        """The decision point behind a node; None at a path's end."""
        if node.label not in self._views:
            self._views[node.label] = self._view(self._get(node))
        found = self._views[node.label]
        return replace(found, lessons=lessons) if found and lessons else found

    def ended(self, node: Node) -> bool:
        """Whether a node's path is complete: the outline is done, the work was ended, or no call is left."""
        return self.view(node) is None

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
        """Children of each node for the distinct actions among `n` sampled ones, in the order in which they came.

        A child's `share` is that of its samples. What cannot be executed here is a child too, pruned. `siblings` are
        lines about the children that there are already: something else is asked for. Of an answer with several native
        calls the first counts.
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
        """The exact distribution over the options at a node: tool, NO_TOOL or FINISH to probability, with entropy."""
        view = self._point(node)
        asked = choice_prompt(self.episode, view, self.acting, labels)
        choice = await self.episode.choose(asked, f"node{node.label}", view.substep.id)
        node.spent, node.entropy = node.spent + choice.usage, entropy(choice.probabilities)
        shares = dict.fromkeys(view.offer.options, 0.0)
        for option, share in zip(view.offer.options, choice.probabilities, strict=True):
            shares[option] += share  # two tools may have one name
        return shares

    async def draft(self, node: Node, tools: Sequence[str]) -> list[Node]:
        """A child for each tool, its arguments written side by side."""
        view = self._point(node)
        work = [partial(draft_arguments, self.episode, view, tool, f"node{node.label}", self.acting) for tool in tools]
        made = []
        for action, usage in await every(work):
            made.append(self.add(node, action))
            made[-1].spent += usage
        self._leave_undone(made)
        return made

    def _leave_undone(self, made: Sequence[Node]) -> None:
        """Where no call can be run, go on without one, as ReAct does after an answer that cannot be read."""
        if made and all(node.pruned in ("unreadable", "schema") for node in made):
            first = made[0]
            why = "the call does not fit its tool" if first.pruned == "schema" else None
            if why:
                first.action = replace(self._edge(first)[1], call=None, finished=False, unreadable=why)
            first.pruned = None

    def add(self, node: Node, action: Action, share: float | None = None) -> Node:
        """A child for an action; pruned where it cannot be executed there."""
        label, pruned = f"{node.label}.{len(node.children)}", unfit(node, self._point(node), action, self.repeats)
        child = Node(label, len(self.nodes), node, action, share=share, pruned=pruned)
        node.children.append(child)
        self.nodes.append(child)
        return child

    # --- what becomes of them

    async def execute(self, node: Node) -> Path:
        """Run a node's action from its parent's state, once for each state and call (tooltree §3.1)."""
        if node.path is None:
            node.path = await self._performed(node)
        return node.path

    async def execute_all(self, nodes: Sequence[Node]) -> None:
        """Run siblings or others side by side; their order of execution is that in which they are given."""
        for node in nodes:
            self.count(node)
        await every([partial(self.execute, node) for node in nodes])

    def count(self, node: Node) -> None:
        """Give a node its place in the order of execution."""
        if node.execution is None:
            node.execution, self.executions = self.executions, self.executions + 1

    async def simulate(self, node: Node) -> Node:
        """One sampled action after another, to the path's end or a repeated call; the last node. The tree stays."""
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
        """The path with a node's action behind it that is not run: its state stays as it was."""
        if node.path is None:
            view, action = self._edge(node)
            node.path = imagine(view, Decision(action, node.spent))
        return node.path

    async def enact(self, node: Node) -> None:
        """Run an imagined action whose parent's was run: its path is then what happened. One that was run stays."""
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

    # --- what the judge says

    async def pre(self, node: Node) -> float:
        """r_pre(s, a): how promising the judge finds a node's action before it is run."""
        if node.r_pre is None:
            view, action = self._edge(node)
            asked = evaluating.before(self.episode, view, action)
            node.pre_asked, node.r_pre = question(asked), await self.scores.ask(asked, "pre")
        return node.r_pre

    async def post(self, node: Node) -> float:
        """r_post(s, a): what the judge says of what a node's call returned.

        An action without a call returns nothing that could be judged: it has the score that it has before it.
        """
        if node.r_post is None:
            view, action = self._edge(node)
            observation, kind = self._get(node).steps[-1].observation, "post"
            if action.call is None or observation is None:
                asked, kind = evaluating.before(self.episode, view, action), "pre"
            else:
                asked = evaluating.after(self.episode, view, action, observation)
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
        """What the judge says of all steps up to a node together; `planned`: none of them was run."""
        asked = evaluating.so_far(self.episode, self._get(node).lines, planned, lessons)
        return await self.scores.ask(asked, "value", samples, temperature)

    # --- what is best

    def reached(self, node: Node, value: float) -> bool:
        """Take a node's path as the answer if it is better than the best; whether the search may stop.

        A complete path is better than one that is not, then the higher value decides; among equals the first stands.
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
        """Take a node's path as the answer, whatever was the best before; whether the search may stop, as `reached`."""
        if self._best is not None and self._get(node).lines == self._path.lines:
            self.best_value = node.value if self.ended(node) else None
            return self.resolved
        self._best = None
        return self.reached(node, node.value)

    async def run(self, node: Node) -> bool:
        """Execute the imagined actions up to a node, from the root on, whatever they return, as the answer.

        What was executed of them already stays. Returns and values as `reached`, with the node's value.
        """
        last = self.root
        try:
            for edge in reversed([*node.edges()]):
                await self.enact(edge)
                last = edge
        finally:
            if last is not self.root:
                self.reached(last, node.value)
        return self.resolved

    def trajectory(self) -> Trajectory:
        """The best path, and every step that was taken, in the order of the nodes."""
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


# The judge's scores of one episode: one answer for one question, however often it is asked.


T = TypeVar("T")


class Scores:
    """Whatever a search asks its judge."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._known: dict[str, asyncio.Future[Any]] = {}
        self._unscored: VerdictError | None = None

    async def ask(self, prompt: Prompt, kind: str, samples: int = 1, temperature: float = 0.0) -> float:
        """The score in [0, 1], or the mean of several; an answer without a score counts as the lowest."""
        digest = question(prompt)
        work = partial(self._episode.judge, prompt, kind, digest, samples=samples, temperature=temperature)
        try:
            score: float = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return 0.0
        return score

    async def votes(self, prompt: Prompt, candidates: Sequence[str], samples: int, temperature: float) -> list[float]:
        """The share of the votes that each candidate gets; none where no vote can be read."""
        digest = question(prompt, *candidates)
        work = partial(self._episode.vote, prompt, candidates, "vote", digest, samples=samples, temperature=temperature)
        try:
            shares: list[float] = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return [0.0] * len(candidates)
        return shares

    def check(self) -> None:
        """Raise VerdictError where the judge was asked and none of its answers has a score."""
        if self._unscored and all(
            asked.done() and not asked.cancelled() and asked.exception() for asked in self._known.values()
        ):
            raise self._unscored


def question(prompt: Prompt, *candidates: str) -> str:
    """The name of what is asked: equal for equal prompts."""
    text = "".join([*(section.digest for section in prompt.sections), Section("candidates", candidates).digest])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def once(known: dict[Any, asyncio.Future[T]], key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The work's result, also for those who ask for the same while it is being done by who asked first."""
    if (found := known.get(key)) is not None:
        return found.result() if found.done() else await found
    done = known[key] = asyncio.get_running_loop().create_future()
    try:
        result = await work()
    except Exception as error:
        done.set_exception(error)
        done.exception()  # nobody else may ask
        raise
    except BaseException:
        del known[key]
        done.cancel()
        raise
    done.set_result(result)
    return result
