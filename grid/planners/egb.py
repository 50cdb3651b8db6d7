"""Entropy-Guided Branching (egb_slate §5, algorithms 1 to 3).

The branching (algorithm 1) is implemented once, and the entropy twice: over sampled actions (algorithm 2), and over the
exact distribution of the option's index (algorithm 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, JUDGE, SAMPLE
from grid.core.problem import BRANCHING
from grid.core.types import OptionProbability, Trajectory, Usage
from grid.core.util import STRICT
from grid.episode.acting import Acting, Decision, Path, Rollout, View, begin, perform, rollout, trajectory
from grid.episode.asking import OptionLabels, choice_prompt, fill_arguments, sample_actions, single_pass
from grid.episode.episode import Episode
from grid.episode.tree import Node
from grid.planners.search import Search
from grid.planners.side_by_side import until
from grid.planners.tooltree import RewardedSearch, Share
from grid.planners.votes import entropy, vote


@dataclass(frozen=True, config=STRICT)
class EntropyGuidedBranching(Acting, ABC):
    """Algorithm 1.

    `trajectories` is the budget b of §6.2, including the first pass; `branch_limit` and `step_branch_limit` are the
    pseudocode's B and B_s; `max_candidates` includes 'no tool' or 'finish'. With `parallel`, branches are tried
    concurrently. Of the branches that resolve the case, the first in order still wins, and the branches after it are
    cancelled. The usage of cancelled branches is counted and also shown separately (`Episode.cancelled`), since it
    would not arise if branches were tried one after another (§6.2, table 5).

    `branch_order`: with `step` (lines 17 to 22), all alternatives of the most uncertain step come before any
    alternative of the next step, so that with b = 5 and B_s = 5 one step gets all four branches. With `round_robin`,
    which is not in the paper, the best alternative of each step comes first (the most uncertain step first), then the
    second best of each step, and so on.

    If an answer has several native calls, only the first call counts, since the entropy refers to a single decision.
    """

    trajectories: Annotated[int, Field(ge=1)] = 5
    branch_limit: Annotated[int, Field(ge=0)] = 50
    step_branch_limit: Annotated[int, Field(ge=0)] = 5
    max_candidates: Annotated[int, Field(ge=2)] = 100
    branch_order: Literal["step", "round_robin"] = "step"
    parallel: bool = True

    @abstractmethod
    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """Algorithm 2 or 3: the action, the decision's entropy in nats, and the distribution to branch on."""

    @abstractmethod
    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """Line 29: single-pass selection at the steps after a branching point."""

    async def solve(self, episode: Episode) -> Trajectory:
        """Lines 1 to 38 of algorithm 1."""
        start = begin(episode)
        episode.broke_off(())
        first = await rollout(episode, self.compute_entropy, self, start, max_candidates=self.max_candidates)  # 2-10
        if self.trajectories == 1 or episode.resolved(first.path.state, first.path.steps):  # line 11
            return trajectory(episode, first.path, branched_steps=0)
        budget = min(self.branch_limit, self.trajectories - 1)  # line 23
        planned = list(islice(self._branches(first), budget))
        branches = [
            partial(self._branch, episode, first, index, tool, number)
            for number, (index, tool) in enumerate(planned, start=1)
        ]
        resolving: list[Path] = []

        def resolves(path: Path) -> bool:  # line 32
            if episode.resolved(path.state, path.steps):
                resolving.append(path)
            return bool(resolving)

        asked = len(episode.messages)
        tried = await until(branches, resolves, self.parallel)
        needless = {f"pass{number}" for number in range(len(tried) + 1, len(planned) + 1)}
        later = episode.messages[asked:]
        episode.broke_off(message for message in later if message.decision.partition("/")[0] in needless)
        taken = (step for number, path in enumerate(tried, start=1) for step in path.steps if step.branch == number)
        path = resolving[0] if resolving else first.path  # line 38
        steps = {index for index, _ in planned[: len(tried)]}
        everything = (*first.path.steps, *taken)
        return trajectory(episode, path, everything, branches=len(tried), branched_steps=len(steps))

    def _branches(self, first: Rollout) -> Iterator[tuple[int, str]]:
        """(decision's index, alternative tool), in the order in which branches are tried (lines 15 to 22).

        Decisions are sorted by falling entropy; decisions of equal entropy keep their order in the path. The
        alternatives of a decision, at most B_s, are sorted by falling probability. `branch_order` sets whether all
        alternatives of a decision come together, or the decisions take turns with one alternative each.
        """
        indices = [index for index, decision in enumerate(first.decisions) if decision.entropy is not None]
        indices.sort(key=lambda index: -(first.decisions[index].entropy or 0.0))
        steps = [self._alternatives(index, first.decisions[index]) for index in indices]
        if self.branch_order == "step":
            return chain.from_iterable(steps)
        return (branch for turn in zip_longest(*steps) for branch in turn if branch is not None)

    def _alternatives(self, index: int, decision: Decision) -> list[tuple[int, str]]:
        alternatives = [option for option in decision.options if option.tool != decision.selected]
        alternatives.sort(key=lambda option: -option.probability)
        return [(index, option.tool) for option in alternatives[: self.step_branch_limit]]

    async def _branch(self, episode: Episode, first: Rollout, index: int, tool: str, branch: int) -> Path:
        """Lines 26 to 31: the same prefix, the alternative at the branching point, then newly selected steps."""
        view, decided = first.views[index], first.decisions[index]
        if tool in decided.calls:
            forced = Decision(decided.calls[tool][0], usage=Usage())
        else:
            forced = Decision(*await fill_arguments(episode, view, tool, f"pass{branch}", self))
        path = await perform(episode, view, forced, branch)
        rest = await rollout(episode, self.select_tool, self, path, branch=branch, max_candidates=self.max_candidates)
        return rest.path


@dataclass(frozen=True, config=STRICT)
class EGBSampling(EntropyGuidedBranching):
    """Algorithm 2: the entropy of the votes of `samples` (m) sampled actions; alternatives use the sampled calls.

    Each step after a branching point uses one sample, since a majority of m samples would not be a single pass (line
    29).
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    samples: Annotated[int, Field(ge=1, le=1000)] = 10
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING})

    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """Majority vote of m actions."""
        return vote(*await sample_actions(episode, view, name, self.samples, self))

    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """One sampled action."""
        return await single_pass(episode, view, name, self, several=False)


@dataclass(frozen=True, config=STRICT)
class EGBLogits(EntropyGuidedBranching):
    """Algorithm 3: entropy of the exact distribution over the options' indices.

    Only alternatives with a probability of at least `threshold` (τ) become branches; their arguments are generated only
    when a branch is tried.

    `suffix` sets how the steps after a branching point are decided: `sampled`, by one sampled action for each step, as
    in EGB-Sampling (only these actions may have a `thought`); or `chosen`, by the most probable option, for which the
    arguments are then generated. The paper says only 'single-pass selection' (line 29). We infer from table 5 that the
    paper's selection uses sampled actions: EGB-Logits makes 149.6 forward passes per case, and one distribution takes
    11 passes (lines 4 and 10). 149.6 is 13.6 × 11: one distribution for each step of a first pass of 13.6 steps, and no
    distribution in any suffix. Beyond such a first pass, the numbers of calls of the two estimators are similar: 44.6 −
    13.6 = 31.0 for EGB-Logits, and 176.4 − 136 = 40.4 for sampling with m = 10. Similar numbers are to be expected if
    both estimators have suffixes of the same kind. ReAct's 32.0 calls per case remain unexplained.

    `labels` is `numbers` in the paper. With `names`, the model is asked for a call, as in EGB-Sampling but without a
    thought, and the distribution is the limit of the votes over tools as m grows. The limit holds at temperature 1, if
    calls are sampled with their schema, and to the extent that the model splits calls into the same tokens as its
    tokenizer (`choice`).
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.01
    suffix: Literal["sampled", "chosen"] = "sampled"
    labels: OptionLabels = "numbers"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE, BRANCHING})

    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """The most probable option with its arguments, and the options that reach the threshold (lines 24 to 31)."""
        choice = await episode.choose(choice_prompt(episode, view, self, self.labels), name, view.substep.id)
        tools = view.offer.options
        probabilities = choice.probabilities
        best = max(range(len(tools)), key=lambda k: (probabilities[k], -k))
        action, usage = await fill_arguments(episode, view, tools[best], name, self)
        kept = [OptionProbability(t, p) for t, p in zip(tools, probabilities, strict=True) if p >= self.threshold]
        kept.sort(key=lambda option: -option.probability)
        return Decision(
            action,
            choice.usage + usage,
            tools[best],
            tuple(kept),
            entropy(probabilities),
            choice.unassigned,
            choice.error_bound,
        )

    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """One sampled action, or the most probable option; no entropy is needed."""
        if self.suffix == "sampled":
            return await single_pass(episode, view, name, self, several=False)
        return await self.compute_entropy(episode, view, name)


# ToolTree's search with EGB's entropy: a state branches only if the policy is uncertain there.


@dataclass(frozen=True, config=STRICT)
class EGBTree(RewardedSearch):
    """Tree search that expands a state by the exact entropy of its options (egb_slate algorithm 3, tooltree §3).

    At a state that has not been expanded, one scoring pass gives the distribution over the options. If the
    distribution's entropy is above `entropy_threshold` (nats), the `branching` (K) most probable options become
    children. Otherwise, only the most probable option becomes a child, and the search continues from that child without
    a choice. Options with a probability below `threshold` (EGB's τ) are never children. For each child, arguments are
    drafted once, and r_pre in equation 1 is the probability of the child's option: no judge is asked before a call.
    Rewards, pruning after a call, backup and stopping are as in `RewardedSearch`.

    If an option's child is pruned, for example because the path has already made the same call, the next option is used
    instead. (If all calls that were drafted together are unreadable or do not fit their tools, the first becomes a step
    without a call.)

    `entropy_threshold` is learned on cases outside the test set (`agent-grid threshold`). With a threshold of 0 the
    search branches at every state with an entropy above 0; with a threshold above ln(number of options), at no state.
    `labels`: whether options are identified by number or by name; the two kinds of labels have different entropies and
    need different thresholds.
    """

    entropy_threshold: Annotated[float, Field(ge=0)] = 1.0
    threshold: Share = 0.01
    labels: OptionLabels = "numbers"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE, BRANCHING, JUDGE})

    async def _expand(self, search: Search, node: Node) -> None:
        """Make several children for a state if its entropy is above the threshold, else one child."""
        shares = await search.probabilities(node, self.labels)
        ranked = sorted(shares, key=lambda tool: -shares[tool])
        left = [tool for tool in ranked if shares[tool] >= self.threshold] or ranked[:1]
        wanted = self.branching if (node.entropy or 0.0) > self.entropy_threshold else 1
        while left and (missing := wanted - len(node.open)) > 0:
            tools, left = left[:missing], left[missing:]
            for child, tool in zip(await search.draft(node, tools), tools, strict=True):
                child.share = child.r_pre = shares[tool]
