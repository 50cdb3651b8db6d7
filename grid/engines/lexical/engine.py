"""The lexical engine: a training-free policy that reads a prompt's words. It is no language model.

It sees what a language model would see, the prompt's sections, and nothing else. Options are scored by BM25 (with the
square root of the usual IDF) against the present substep and, with less weight, its goal, the whole query and the
latest history. 'No tool' has no words of its own: it gains where the substep's words speak against a tool, as was
learned (`needs.py`), and nothing else tells it from the rest. An option gains where a trace in the prompt's memory took
it at a substep of like words (`remembering.py`). The scores become a distribution through a temperature; samples are
drawn with Gumbel noise from the request's seed. Arguments are filled by name and type from the history's outputs and
the values in the texts. Without an outline it takes the query's clauses one after another (`points.py`). Where a prompt
has demonstrations, its plans are the nearest one's (`plans.py`). Good for smoke runs, for statistics and for measuring
the grid; its results say nothing about language models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from itertools import takewhile
from typing import Annotated, ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import (
    CHOOSE,
    SAMPLE,
    Choice,
    ChoiceAnswer,
    FunctionsAnswer,
    Home,
    OutlineAnswer,
    PlanAnswer,
    Prompt,
    Sampled,
    SchemaAnswer,
    ScoreAnswer,
    TextAnswer,
    ToolCallAnswer,
    VoteAnswer,
)
from grid.core.plan_answers import ChainAnswer, MessagesAnswer
from grid.core.strict import STRICT
from grid.core.types import FINISH, NO_TOOL, REJECT, RESULT, UNKNOWN, Usage, to_json
from grid.core.verdicts import VerdictAnswer
from grid.engines.lexical import judge, plan_judge, points, reflecting, remembering
from grid.engines.lexical.arguments import fill
from grid.engines.lexical.bm25 import bm25, documents
from grid.engines.lexical.extraction import unlabelled
from grid.engines.lexical.needs import needs_none
from grid.engines.lexical.plans import Call, arguments_of, last_result, plans_left
from grid.engines.places import name_of, takes_answer
from grid.engines.plan_writing import plan_text
from grid.engines.tokens import count_tokens, prompt_tokens
from grid.text.arguments import take_results
from grid.text.references import reference
from grid.text.words import stems

T = TypeVar("T")
MOST_AHEAD = 64
"""Calls of a plan of which the next steps are taken."""


@dataclass(frozen=True, config=STRICT)
class Lexical:
    """The engine `lexical`. `temperature` divides the BM25 scores; the weights are those of the query's parts.

    `least_temperature`: a planner's lower one counts as this. At 0 every trial of a case would be the same.
    """

    temperature: Annotated[float, Field(gt=0)] = 0.7
    goal_weight: Annotated[float, Field(ge=0)] = 0.5
    task_weight: Annotated[float, Field(ge=0)] = 0.2
    history_weight: Annotated[float, Field(ge=0)] = 0.05
    no_tool_bonus: Annotated[float, Field(ge=0)] = 8.0
    memory_weight: Annotated[float, Field(ge=0)] = 8.0
    least_temperature: Annotated[float, Field(ge=0)] = 0.0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "lexical"
    sampler: ClassVar[None] = None
    version: str = field(default="lexical-6", init=False)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions as JSON, or a lesson for a text answer. Sample i depends on seed and i only."""
        answer, temperature = prompt.answer, max(temperature, self.least_temperature)
        if isinstance(answer, ChoiceAnswer | FunctionsAnswer | SchemaAnswer):
            raise TypeError("a choice is answered by choose(); functions and free schemas by none of its verbs")
        if isinstance(answer, TextAnswer):
            texts = [reflecting.said(prompt)] * n
        elif isinstance(answer, ScoreAnswer):
            texts = [judge.answer(prompt)] * n
        elif isinstance(answer, VerdictAnswer):
            texts = [plan_judge.answer(prompt, answer)] * n
        elif isinstance(answer, VoteAnswer):
            texts = self._votes(prompt, n, temperature, seed)
        elif isinstance(answer, OutlineAnswer):
            texts = [to_json({"outline": [*self._outline(prompt)[: answer.most]]})] * n
        elif isinstance(answer, ChainAnswer | MessagesAnswer):
            texts = [self._predicted(prompt, answer, temperature, seed, i) for i in range(n)]
        elif isinstance(answer, PlanAnswer):
            texts = [to_json({"plan": self._plan(prompt, answer, temperature, seed, i)}) for i in range(n)]
        else:
            texts = self._calls(prompt, answer, n, temperature, seed)
        output = sum(count_tokens(text) for text in texts)
        return Sampled(tuple(texts), Usage(n, 0, n * prompt_tokens(prompt), 0, output))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """softmax(score / temperature) over the options; counts as one scoring pass."""
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        usage = Usage(forward_passes=1, input_tokens=prompt_tokens(prompt))
        if judge.is_judging(prompt):
            return Choice(judge.distribution(prompt), usage)
        options = prompt.answer.options
        ways = self._ways(prompt)
        if ways:
            shares = _softmax(np.array([score for _, score in ways]))
            names = [name_of(option) for option in options]
            decline = NO_TOOL if NO_TOOL in names else FINISH
            taken = [str(calls[0]["tool"]) if calls else decline for calls, _ in ways]
            found = np.array([sum(shares[i] for i, tool in enumerate(taken) if tool == name) for name in names])
            probabilities = found / found.sum() if found.sum() > 0 else np.full(len(names), 1 / len(names))
        else:
            probabilities = _softmax(self._scores(points.pointed(prompt), options) / self.temperature)
        return Choice(tuple(probabilities.tolist()), usage)

    def _ways(self, prompt: Prompt) -> list[tuple[list[Call], float]]:
        """What is left to do by each of the demonstrations' plans, with its score; none without demonstrations."""
        if not prompt.entries("demonstrations"):
            return []
        question = Counter(stems(points.query(prompt)))
        return plans_left(prompt, lambda texts: bm25(question, texts) / self.temperature)

    def _outline(self, prompt: Prompt) -> Sequence[str]:
        """The nearest demonstration's calls in words, or the query's clauses."""
        ways = self._ways(prompt)
        best = max(ways, key=lambda way: way[1])[0] if ways else []
        texts = [" ".join([str(call["tool"]), *map(str, arguments_of(call).values())]) for call in best]
        return texts or points.clauses(points.query(prompt))

    def _plan(self, prompt: Prompt, answer: PlanAnswer, temperature: float, seed: int, index: int) -> list[Call]:
        """The rest of a demonstration's plan, or a call for each point that is left."""
        offered = {tool.name for tool in answer.tools}
        ways = [way for way in self._ways(prompt) if all(call["tool"] in offered for call in way[0])]
        if ways:
            scores = np.array([score for _, score in ways])
            order = _order(scores, temperature, seed, index)
            calls = _nth([ways[place][0] for place in order], points.rejected_before(prompt))
            calls = calls[: answer.most] or [{"tool": FINISH, "arguments": {}}]
            return calls + [{"tool": NO_TOOL, "arguments": {}}] * (answer.least - len(calls))
        done = points.steps_done(prompt)
        left = answer.least if answer.may_decline else len(points.clauses(points.query(prompt))) - done
        call, answers = ToolCallAnswer(answer.tools, answer.may_decline), takes_answer(answer.tools)
        results, calls = points.results(prompt), list[Call]()
        for place in range(max(min(left, answer.most - answers), 1 - answers)):
            here = self._at(points.at(prompt, done + place), call, results)
            calls.append(here.filled(call, here.drawn(temperature, seed, index * answer.most + place)))
            results = (reference(points.id_of(here.prompt), RESULT), *results)
        return _with_answer(calls, prompt, points.first_number(prompt) + done) if answers else calls

    def _predicted(
        self, prompt: Prompt, answer: ChainAnswer | MessagesAnswer, temperature: float, seed: int, index: int
    ) -> str:
        """Its plan as a chain, or the next steps of it as messages; it refuses nothing, and keeps to its draft."""
        guided = bool(points.outline(prompt))
        if not guided and {tool.name for tool in answer.tools} <= {REJECT}:
            return plan_text(answer, [])
        if isinstance(answer, ChainAnswer):
            plan = PlanAnswer(answer.tools, answer.least, answer.most, answer.may_decline)
            return plan_text(answer, self._plan(prompt, plan, temperature, seed, index))
        if points.is_done(prompt) and not takes_answer(answer.tools):
            return plan_text(answer, [])
        plan = PlanAnswer(answer.tools, answer.count if guided else 1, MOST_AHEAD, guided)
        return plan_text(answer, self._plan(prompt, plan, temperature, seed, index)[: answer.count])

    def _calls(self, prompt: Prompt, answer: ToolCallAnswer, n: int, temperature: float, seed: int) -> list[str]:
        decline = NO_TOOL if answer.may_decline else FINISH
        named = {tool.name for tool in answer.tools} | {decline}
        ways = [(calls or [{"tool": decline, "arguments": {}}], score) for calls, score in self._ways(prompt)]
        ways = [(calls, score) for calls, score in ways if calls[0]["tool"] in named]
        if ways:
            scores, rank = np.array([score for _, score in ways]), points.rejected_before(prompt)
            orders = (_order(scores, temperature, seed, index) for index in range(n))
            return [to_json(_nth([ways[place][0][0] for place in order], rank)) for order in orders]
        here, known, texts = self._at(points.pointed(prompt), answer, points.results(prompt)), dict[str, str](), []
        for index in range(n):
            option = here.drawn(temperature, seed, index)
            if option not in known:
                known[option] = to_json(here.filled(answer, option))
            texts.append(known[option])
        return texts

    def _votes(self, prompt: Prompt, n: int, temperature: float, seed: int) -> list[str]:
        """For the candidate whose words fit the request best."""
        candidates = next(section for section in prompt.sections if section.kind == "candidates").options
        scores = self._scores(points.pointed(prompt), candidates) / self.temperature
        votes = [_order(scores, temperature, seed, index)[0] for index in range(n)]
        return [to_json({"best": vote, "explanation": "Its words fit best."}) for vote in votes]

    def _at(self, prompt: Prompt, answer: ToolCallAnswer, results: Sequence[str]) -> _Point:
        """A point with its options: no tool that takes results where there are none, nor to refuse, if others stay."""
        options = _options(prompt, answer.may_decline)
        scores = self._scores(prompt, options) / self.temperature
        out = {tool.name for tool in answer.tools if not results and tool.takes_results} | {REJECT}
        kept = [place for place, option in enumerate(options) if name_of(option) not in out]
        if not kept:  # a tool that was chosen already gets its arguments
            kept = list(range(len(options)))
        return _Point(prompt, [options[place] for place in kept], scores[kept], results)

    def _scores(self, prompt: Prompt, options: Sequence[str]) -> np.ndarray:
        query: dict[str, float] = {}
        request, history = prompt.entries("request"), prompt.entries("history")
        substep = stems(" ".join(map(unlabelled, request[-1:])))
        for weight, entries in (
            (1.0, request[-1:]),
            (self.goal_weight, request[:-1]),
            (self.task_weight, prompt.entries("task")[:1]),
            (self.history_weight, history[-1:]),
        ):
            for stem in stems(" ".join(map(unlabelled, entries))):
                query[stem] = query.get(stem, 0.0) + weight
        scores = bm25(query, options) + self.memory_weight * remembering.shares(prompt, options, frozenset(substep))
        for index in documents(tuple(options)).no_tool:
            if needs_none(substep):
                scores[index] += self.no_tool_bonus
        if points.is_done(prompt):
            for index in documents(tuple(options)).finish:
                scores[index] += self.no_tool_bonus
        return scores


def _options(prompt: Prompt, may_decline: bool) -> tuple[str, ...]:
    """What the prompt offers, in its order: the tools' texts, among them `no_tool` or `finish`.

    Where to call none has a form of its own in the answer, it is the last option.
    """
    section = next(section for section in prompt.sections if section.kind == "tools")
    options = section.options or section.entries[1:]
    return (*options, NO_TOOL) if may_decline and NO_TOOL not in map(name_of, options) else options


def _with_answer(calls: list[Call], prompt: Prompt, first: int) -> list[Call]:
    """The plan up to where it finishes, with the last result for the answer; its first call has this number."""
    kept = list(takewhile(lambda call: call["tool"] != FINISH, calls))
    return [*kept, _answered(reference(str(first + len(kept) - 1), RESULT) if kept else last_result(prompt))]


def _answered(last: str | None) -> Call:
    """To finish with a result; without one it is not known."""
    return {"tool": FINISH, "arguments": {"answer": last or UNKNOWN}}


class _Point(NamedTuple):
    """A decision's prompt, options, their scores, and the results that calls may take, the latest first."""

    prompt: Prompt
    options: Sequence[str]
    scores: np.ndarray
    results: Sequence[str]

    def drawn(self, temperature: float, seed: int, index: int) -> str:
        """An option; on a further try the next best."""
        order = _order(self.scores, temperature, seed, index)
        return self.options[order[points.rejected_before(self.prompt) % len(order)]]

    def filled(self, answer: ToolCallAnswer, option: str) -> Call:
        """The call of an option; of no tool where the answer has none of its name."""
        tool = next((tool for tool in answer.tools if tool.name == name_of(option)), None)
        if tool is None:
            return {"tool": NO_TOOL, "arguments": {}}
        if takes_answer([tool]):
            return _answered(last_result(self.prompt))
        results = self.results if take_results(answer.tools) else None
        given = {} if tool.name == FINISH else fill(tool, self.prompt, results)
        return {"tool": tool.name, "arguments": given}


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max())
    result: np.ndarray = shifted / shifted.sum()
    return result


def _order(logits: np.ndarray, temperature: float, seed: int, index: int) -> list[int]:
    """The places, the best first; the first is an exact sample of softmax(logits / temperature)."""
    if temperature > 0:
        uniform = np.random.default_rng((seed, index)).random(len(logits))
        logits = logits / temperature - np.log(-np.log(uniform))
    order: list[int] = np.argsort(-logits, kind="stable").tolist()
    return order


def _nth(ranked: Sequence[T], rank: int) -> T:
    """Of those that differ the one behind so many that were rejected, from the first again behind the last."""
    if not rank:
        return ranked[0]
    others = {to_json(one): one for one in reversed(ranked)}
    distinct = [others[text] for text in dict.fromkeys(map(to_json, ranked))]
    return distinct[rank % len(distinct)]
