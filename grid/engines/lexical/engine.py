"""The lexical engine: a training-free policy that matches words. The engine is not a language model.

The engine sees only the prompt's sections, as a language model would. Options are scored by BM25 (with the square root
of the usual IDF) against the present substep and, with less weight, its goal, the whole query and the latest history.
The option 'no tool' has no words of its own; its score rises if the substep's words indicate, according to lists
learned from data, that no tool is needed (`arguments.needs_none`). Any option's score rises if a trace in the prompt's
memory chose that option at a substep with similar words (`arguments`). A temperature turns the scores into a
distribution; samples are drawn with Gumbel noise from the request's seed. Arguments are filled by name and type from
the history's outputs and the values in the texts. Without an outline the engine works through the query's clauses one
by one (`arguments.clauses`). If a prompt has demonstrations, the engine adapts a demonstration's plan, preferably one
that fits well (`plans_left`). The engine is useful for smoke runs, for statistics and for measuring the grid; its
results say nothing about language models.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import islice, takewhile
from typing import Annotated, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import (
    CHOOSE,
    SAMPLE,
    ChainAnswer,
    Choice,
    ChoiceAnswer,
    FunctionsAnswer,
    Home,
    MessagesAnswer,
    OutlineAnswer,
    PlanAnswer,
    Prompt,
    Sampled,
    SchemaAnswer,
    ScoreAnswer,
    TextAnswer,
    ThoughtAnswer,
    ToolCallAnswer,
    VerdictAnswer,
    VoteAnswer,
)
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT, RESULT, UNKNOWN, Json, Usage, to_json
from grid.core.util import STRICT
from grid.engines.lexical import arguments, judge, plan_judge
from grid.engines.lexical.arguments import fill, needs_none, unlabelled
from grid.engines.places import count_tokens, name_of, plan_text, prompt_tokens, takes_answer
from grid.text.answers import Predicted, read_call, read_draft, read_plan
from grid.text.objects import UnreadableError
from grid.text.references import PATTERN, allowed, reference, take_results
from grid.text.words import stems

T = TypeVar("T")
MOST_AHEAD = 64
"""The maximum number of calls in a plan of which only the next steps are used."""


@dataclass(frozen=True, config=STRICT)
class Lexical:
    """The engine `lexical`. `temperature` divides the BM25 scores; each weight is for one part of a prompt.

    `least_temperature`: lower temperatures of planners are raised to this value. At temperature 0 all trials of a case
    would be equal.
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
        """`n` completions as JSON, or as text if the answer is a text. Sample i depends only on seed and i."""
        answer, temperature = prompt.answer, max(temperature, self.least_temperature)
        if isinstance(answer, ChoiceAnswer | FunctionsAnswer | SchemaAnswer):
            raise TypeError("choose() answers a choice; this engine cannot answer with functions or free schemas")
        if isinstance(answer, TextAnswer):
            texts = [said(prompt)] * n
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
        """Return softmax(score / temperature) over the options; this counts as one scoring pass.

        A judge returns `judge.distribution`. With demonstrations, an option gets the share of the plans whose next call
        it is; if no plan's next call is offered, all options are equal.
        """
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
            probabilities = _softmax(self._scores(arguments.pointed(prompt), options) / self.temperature)
        return Choice(tuple(probabilities.tolist()), usage)

    def _ways(self, prompt: Prompt) -> list[tuple[list[Call], float]]:
        """The remaining calls of each demonstration's plan, with the plan's score; empty without demonstrations."""
        if not prompt.entries("demonstrations"):
            return []
        question = Counter(stems(arguments.query(prompt)))
        return plans_left(prompt, lambda texts: bm25(question, texts) / self.temperature)

    def _outline(self, prompt: Prompt) -> Sequence[str]:
        """The remaining calls of the demonstration that fits best, as text, or the query's clauses."""
        ways = self._ways(prompt)
        best = max(ways, key=lambda way: way[1])[0] if ways else []
        texts = [" ".join([str(call["tool"]), *map(str, arguments_of(call).values())]) for call in best]
        return texts or arguments.clauses(arguments.query(prompt))

    def _plan(self, prompt: Prompt, answer: PlanAnswer, temperature: float, seed: int, index: int) -> list[Call]:
        """The rest of a demonstration's plan, or a call for each remaining part of the outline or query."""
        offered = {tool.name for tool in answer.tools}
        ways = [way for way in self._ways(prompt) if all(call["tool"] in offered for call in way[0])]
        if ways:
            scores = np.array([score for _, score in ways])
            order = _order(scores, temperature, seed, index)
            calls = _nth([ways[place][0] for place in order], arguments.rejected_before(prompt))
            calls = calls[: answer.most] or [{"tool": FINISH, "arguments": {}}]
            return calls + [{"tool": NO_TOOL, "arguments": {}}] * (answer.least - len(calls))
        done = arguments.steps_done(prompt)
        left = answer.least if answer.may_decline else len(arguments.clauses(arguments.query(prompt))) - done
        call, answers = ToolCallAnswer(answer.tools, answer.may_decline), takes_answer(answer.tools)
        results, calls = arguments.results(prompt), list[Call]()
        for place in range(max(min(left, answer.most - answers), 1 - answers)):
            here = self._at(arguments.at(prompt, done + place), call, results)
            calls.append(here.filled(call, here.drawn(temperature, seed, index * answer.most + place)))
            results = (reference(arguments.id_of(here.prompt), RESULT), *results)
        return _with_answer(calls, prompt, arguments.first_number(prompt) + done) if answers else calls

    def _predicted(
        self, prompt: Prompt, answer: ChainAnswer | MessagesAnswer, temperature: float, seed: int, index: int
    ) -> str:
        """The plan as a chain, or its next steps as messages; the engine never refuses and never changes a draft."""
        guided = bool(arguments.outline(prompt))
        if not guided and {tool.name for tool in answer.tools} <= {REJECT}:
            return plan_text(answer, [])
        if isinstance(answer, ChainAnswer):
            plan = PlanAnswer(answer.tools, answer.least, answer.most, answer.may_decline)
            return plan_text(answer, self._plan(prompt, plan, temperature, seed, index))
        if arguments.is_done(prompt) and not takes_answer(answer.tools):
            return plan_text(answer, [])
        plan = PlanAnswer(answer.tools, answer.count if guided else 1, MOST_AHEAD, guided)
        return plan_text(answer, self._plan(prompt, plan, temperature, seed, index)[: answer.count])

    def _calls(self, prompt: Prompt, answer: ToolCallAnswer, n: int, temperature: float, seed: int) -> list[str]:
        decline = NO_TOOL if answer.may_decline else FINISH
        named = {tool.name for tool in answer.tools} | {decline}
        ways = [(calls or [{"tool": decline, "arguments": {}}], score) for calls, score in self._ways(prompt)]
        ways = [(calls, score) for calls, score in ways if calls[0]["tool"] in named]
        if ways:
            scores, rank = np.array([score for _, score in ways]), arguments.rejected_before(prompt)
            orders = (_order(scores, temperature, seed, index) for index in range(n))
            return [to_json(_nth([ways[place][0][0] for place in order], rank)) for order in orders]
        here, known, texts = (
            self._at(arguments.pointed(prompt), answer, arguments.results(prompt)),
            dict[str, str](),
            [],
        )
        for index in range(n):
            option = here.drawn(temperature, seed, index)
            if option not in known:
                known[option] = to_json(here.filled(answer, option))
            texts.append(known[option])
        return texts

    def _votes(self, prompt: Prompt, n: int, temperature: float, seed: int) -> list[str]:
        """Votes, drawn with scores for how well the candidates' words match the request."""
        candidates = next(section for section in prompt.sections if section.kind == "candidates").options
        scores = self._scores(arguments.pointed(prompt), candidates) / self.temperature
        votes = [_order(scores, temperature, seed, index)[0] for index in range(n)]
        return [to_json({"best": vote, "explanation": "Its words fit best."}) for vote in votes]

    def _at(self, prompt: Prompt, answer: ToolCallAnswer, results: Sequence[str]) -> _Point:
        """A decision with its options, except refusal and, if there are no results, tools that take results.

        If no option would remain, all options are kept.
        """
        options = _options(prompt, answer.may_decline)
        scores = self._scores(prompt, options) / self.temperature
        out = {tool.name for tool in answer.tools if not results and tool.takes_results} | {REJECT}
        kept = [place for place, option in enumerate(options) if name_of(option) not in out]
        if not kept:  # the tool is already chosen, and only its arguments are filled
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
        scores = bm25(query, options) + self.memory_weight * arguments.shares(prompt, options, frozenset(substep))
        for index in documents(tuple(options)).no_tool:
            if needs_none(substep):
                scores[index] += self.no_tool_bonus
        if arguments.is_done(prompt):
            for index in documents(tuple(options)).finish:
                scores[index] += self.no_tool_bonus
        return scores


def _options(prompt: Prompt, may_decline: bool) -> tuple[str, ...]:
    """The prompt's options, in the prompt's order: the tools' texts, including `no_tool` or `finish`.

    If `no_tool` is allowed but not among these texts, it is the last option.
    """
    section = next(section for section in prompt.sections if section.kind == "tools")
    options = section.options or section.entries[1:]
    return (*options, NO_TOOL) if may_decline and NO_TOOL not in map(name_of, options) else options


def _with_answer(calls: list[Call], prompt: Prompt, first: int) -> list[Call]:
    """The plan up to its finish, whose answer is the last result, if any; `first` is the first call's number."""
    kept = list(takewhile(lambda call: call["tool"] != FINISH, calls))
    return [*kept, _answered(reference(str(first + len(kept) - 1), RESULT) if kept else last_result(prompt))]


def _answered(last: str | None) -> Call:
    """A finish that answers with a result, or with UNKNOWN if there is no result."""
    return {"tool": FINISH, "arguments": {"answer": last or UNKNOWN}}


class _Point(NamedTuple):
    """A decision: its prompt, its options with their scores, and the results that calls may use (the latest first)."""

    prompt: Prompt
    options: Sequence[str]
    scores: np.ndarray
    results: Sequence[str]

    def drawn(self, temperature: float, seed: int, index: int) -> str:
        """The option that is drawn; after rejected answers, the next option in the drawn order."""
        order = _order(self.scores, temperature, seed, index)
        return self.options[order[arguments.rejected_before(self.prompt) % len(order)]]

    def filled(self, answer: ToolCallAnswer, option: str) -> Call:
        """The call of an option; a call of `no_tool` if the answer has no tool with the option's name."""
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
    """The indices in drawn order, the first a sample of softmax(logits / temperature); at 0, the highest come first."""
    if temperature > 0:
        uniform = np.random.default_rng((seed, index)).random(len(logits))
        logits = logits / temperature - np.log(-np.log(uniform))
    order: list[int] = np.argsort(-logits, kind="stable").tolist()
    return order


def _nth(ranked: Sequence[T], rank: int) -> T:
    """The entry after the first `rank` distinct entries, which were rejected; if all were rejected, start over."""
    if not rank:
        return ranked[0]
    others = {to_json(one): one for one in reversed(ranked)}
    distinct = [others[text] for text in dict.fromkeys(map(to_json, ranked))]
    return distinct[rank % len(distinct)]


# The lexical engine's texts: a thought, a lesson or a critique of a draft, written without understanding.


def said(prompt: Prompt) -> str:
    """A thought if the prompt asks for one, a critique if the prompt shows a draft, else a lesson."""
    if isinstance(prompt.answer, ThoughtAnswer):
        return thought(prompt)
    return critique(prompt) if prompt.entries("draft") else lesson(prompt)


def thought(prompt: Prompt) -> str:
    """The clause of the query, or the substep, that comes next."""
    if arguments.is_done(prompt):
        return "Nothing is left to be done."
    return arguments.pointed(prompt).entries("request")[-1].partition(": ")[2].partition(" ")[2]


def lesson(prompt: Prompt) -> str:
    """A reflection without understanding: names the step whose call has the fewest words in common with its substep."""
    calls = [entry for entry in prompt.entries("history") if " returned " in entry]
    if not calls:
        return "No tool was called; look again at which substeps take one."

    def overlap(entry: str) -> float:
        said, _, done = entry.partition(" -> ")
        words = set(stems(said))
        return len(words & set(stems(done.partition(" returned ")[0]))) / max(len(words), 1)

    said = min(calls, key=overlap).partition(" -> ")[0]
    return f"The call at substep {said!r} fits its words least; another tool may be meant there."


def critique(prompt: Prompt) -> str:
    """A critique that names the planned call that shares the fewest words with the request."""
    draft: Predicted = read_draft(prompt.entries("draft")[-1])
    request, calls = set(stems(arguments.query(prompt))), [call for call in draft.calls if call]
    if not calls:
        return "The draft calls no tool; look again at what the request takes."

    def overlap(text: str) -> float:
        words = set(stems(text))
        return len(words & request) / max(len(words), 1)

    texts = [" ".join([call.name, *map(str, call.arguments.values())]) for call in calls]
    least = min(texts, key=overlap)
    return f"The call {least[:200]!r} shares fewest words with the request; another tool may be meant there."


# BM25 over a prompt's options, each of which is a document.


K1, B = 1.2, 0.6  # saturation and length normalisation
_NO_WORDS: tuple[Counter[str], int] = (Counter(), 0)


def bm25(query: Mapping[str, float], options: Sequence[str]) -> np.ndarray:
    """The BM25 score of each option for the weighted query, with the square root of the IDF; shape (options,)."""
    found = documents(tuple(options))
    scores = [0.0] * len(options)
    for stem, weight in query.items():
        containing = found.postings.get(stem, ())
        if containing:
            idf = math.sqrt(math.log(1 + (len(options) - len(containing) + 0.5) / (len(containing) + 0.5)))
            for index, frequency in containing:
                scores[index] += weight * idf * frequency * (K1 + 1) / (frequency + found.norm[index])
    return np.array(scores)


class Documents(NamedTuple):
    """Options prepared for BM25.

    The fields are (option, frequency) pairs by stem, each option's length norm, and the indices of `no_tool` and
    `finish`.
    """

    postings: dict[str, list[tuple[int, int]]]
    norm: list[float]
    no_tool: tuple[int, ...]
    finish: tuple[int, ...]


@lru_cache(maxsize=256)  # each entry has about 100 kB
def documents(options: tuple[str, ...]) -> Documents:
    """The prepared options; each set of options is prepared once."""
    names = [name_of(option) for option in options]
    wordless = (NO_TOOL, GIVE_UP, REJECT)
    counted = [_NO_WORDS if name in wordless else _counts(text) for name, text in zip(names, options, strict=True)]
    lengths = np.array([length for _, length in counted], dtype=np.float64)
    norm: list[float] = (K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))).tolist()
    postings: dict[str, list[tuple[int, int]]] = {}
    for index, (counts, _) in enumerate(counted):
        for stem, frequency in counts.items():
            postings.setdefault(stem, []).append((index, frequency))
    places = {wanted: tuple(i for i, name in enumerate(names) if name == wanted) for wanted in (NO_TOOL, FINISH)}
    return Documents(postings, norm, places[NO_TOOL], places[FINISH])


@lru_cache(maxsize=65536)
def _counts(option: str) -> tuple[Counter[str], int]:
    tokens = stems(option)
    return Counter(tokens), len(tokens)


# The lexical engine's plans, without a language model: a demonstration's plan, preferably one that fits well, with the
# plan's slots filled anew.
#
# A value in the plan that occurs in the demonstration's question is a slot. Both questions are aligned word by word,
# and the slot gets the words at its place in the prompt's question. The rest of the plan stays the same.


Call = dict[str, Json]
_TOKEN = re.compile(r"\w+|[^\w\s]")
_STEP = re.compile(r"(\d{1,4})(?:\.\d+)* .*?-> (?:.*? )?(\{\"tool\".*\}) (returned|failed:) \{")
_UNSEEN = re.compile(r"(\d{1,4})(?:\.\d+)* .*?-> (?:.*? )?(\{\"tool\".*\})$")
_MOST_WORDS = 300  # words of each question that are aligned
_MADE_WEIGHT = 5.0  # weight of each step already taken that a plan contains, relative to BM25 scores


@plain_dataclass(frozen=True)
class _Made:
    """A step of the history; a step whose result is not shown counts as a success."""

    number: int
    call: Call
    succeeded: bool


def plans_left(prompt: Prompt, scores: Callable[[Sequence[str]], np.ndarray]) -> list[tuple[list[Call], float]]:
    """The rest of each demonstration's plan, with a score of how well the plan fits.

    A plan is left out if one of its remaining calls has failed before.

    Args:
        prompt: has demonstrations, a query, and the steps so far in its history.
        scores: gives the similarity of texts to the query, shape (texts,).
    """
    solved = [pair for pair in map(_solved, prompt.entries("demonstrations")) if pair]
    made = [step for step in map(_made, prompt.entries("history")) if step]
    failed = [step.call for step in made if not step.succeeded]
    following = arguments.first_number(prompt) + arguments.steps_done(prompt)
    listed = _listed(prompt)
    plans = [_adapted(plan, text, arguments.query(prompt), listed) for text, plan in solved]
    left = [_left(plan, made, following) for plan in plans]
    near = scores([text for text, _ in solved])
    shared = np.array([len(plan) - len(calls) for plan, calls in zip(plans, left, strict=True)])
    fits = near + _MADE_WEIGHT * shared
    return [(calls, float(fit)) for calls, fit in zip(left, fits, strict=True) if not any(c in failed for c in calls)]


def last_result(prompt: Prompt) -> str | None:
    """A reference to the result of the last successful step; None if there is no such step.

    A result is skipped if a finish with this result was refused.
    """
    made = [step for step in map(_made, prompt.entries("history")) if step]
    refused = [arguments_of(step.call).get("answer") for step in made if not step.succeeded]
    results = [reference(str(step.number), RESULT) for step in reversed(made) if step.succeeded]
    return next((found for found in results if found not in refused), None)


def _solved(entry: str) -> tuple[str, list[Call]] | None:
    """A demonstration's question, which may have several lines, and its plan."""
    solved, found, behind = entry.partition("\nPlan: ")
    if not found:
        return None
    try:
        calls = read_plan(behind.partition("\n")[0])
    except UnreadableError:
        return None
    return solved.removeprefix("Query: "), [{"tool": call.tool, "arguments": call.arguments} for call in calls]


def _made(entry: str) -> _Made | None:
    seen = _STEP.match(entry)
    found = seen or _UNSEEN.match(entry)
    if not found:
        return None
    try:
        call = read_call(found[2])
    except UnreadableError:
        return None
    succeeded = seen is None or seen[3] == "returned"
    return _Made(int(found[1]), {"tool": call.tool, "arguments": call.arguments}, succeeded)


def _left(plan: Sequence[Call], made: Sequence[_Made], following: int) -> list[Call]:
    """The plan's calls that have not been made yet; their references use the steps' numbers in the whole path."""
    places: dict[int, int] = {}
    left: list[Call] = []
    for index, call in enumerate(plan):
        wanted = _renumbered(call, places)
        known = next((step.number for step in made if step.succeeded and step.call == wanted), None)
        places[index] = following + len(left) if known is None else known
        if known is None:
            left.append(wanted)
    return left


def _renumbered(call: Call, places: Mapping[int, int]) -> Call:
    return call | {"arguments": {name: _renumber(value, places) for name, value in arguments_of(call).items()}}


def _renumber(value: Json, places: Mapping[int, int]) -> Json:
    if not isinstance(value, str):
        return value
    known = {str(place): str(number) for place, number in places.items()}
    return PATTERN.sub(lambda found: reference(known.get(found[1], found[1]), found[2]), value)


def _adapted(plan: Sequence[Call], solved: str, question: str, listed: Mapping[str, frozenset[str]]) -> list[Call]:
    """The plan, with words from the prompt's question in the plan's slots.

    An argument with `listed` values changes only to one of these values.
    """
    slots = _Slots(solved, question)
    adapted = []
    for call in plan:
        filled = dict(arguments_of(call))
        for name, value in filled.items():
            found = slots.fill(value) if isinstance(value, str) else value
            if found in listed.get(f"{call['tool']}.{name}", (found,)):
                filled[name] = found
        adapted.append(call | {"arguments": filled})
    return adapted


def _listed(prompt: Prompt) -> dict[str, frozenset[str]]:
    """The possible values of each argument for which a tool lists values, keyed by `tool.argument`."""
    tools = prompt.answer.tools if isinstance(prompt.answer, ToolCallAnswer | PlanAnswer) else ()
    return {
        f"{tool.name}.{one.name}": frozenset(values)
        for tool in tools
        for one in tool.parameters
        if (values := allowed(tool, one))
    }


def arguments_of(call: Call) -> dict[str, Json]:
    """The arguments of a call, by name."""
    return cast(dict[str, Json], call["arguments"])


class _Slots:
    """A solved question and the prompt's question, aligned word by word."""

    def __init__(self, solved: str, question: str) -> None:
        self._question = question
        self._there, self._here = (list(islice(_TOKEN.finditer(text), _MOST_WORDS)) for text in (solved, question))
        self._words = [token[0].lower() for token in self._there]
        here = [token[0].lower() for token in self._here]
        self._blocks = SequenceMatcher(None, self._words, here, autojunk=False).get_opcodes()

    def fill(self, value: str) -> str:
        """The words of the prompt's question at the place where the solved question has the value.

        If the solved question does not have the value, or the place is empty, the value itself is returned.
        """
        wanted = [token.lower() for token in _TOKEN.findall(value)]
        if not wanted or PATTERN.fullmatch(value):
            return value
        for start in range(len(self._words) - len(wanted) + 1):
            if self._words[start : start + len(wanted)] == wanted:
                first, last = self._place(start, 0), self._place(start + len(wanted), 1)
                if first < last:
                    return self._question[self._here[first].start() : self._here[last - 1].end()]
        return value

    def _place(self, place: int, end: int) -> int:
        """The word boundary in the prompt's question that corresponds to the boundary `place` in the solved question.

        `end` is 1 for the boundary after a value, else 0.
        """
        for kind, low, high, to_low, to_high in self._blocks:
            if low + end <= place < high + end:
                if kind == "equal":
                    return to_low + place - low
                inside = to_low + min(place - low, to_high - to_low)
                return to_high if end and place == high else inside
        return len(self._here)
