"""The simulated policy on one case: it knows the reference, and is right with the configured probabilities."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

from grid.core.engine import (
    CHOOSE,
    SAMPLE,
    ChainAnswer,
    Choice,
    ChoiceAnswer,
    Home,
    MessagesAnswer,
    OutlineAnswer,
    PlanAnswer,
    Prompt,
    Sampled,
    ScoreAnswer,
    TextAnswer,
    ThoughtAnswer,
    ToolCallAnswer,
    VoteAnswer,
)
from grid.core.types import FINISH, GIVE_UP, MAX_SCORE, NO_TOOL, REJECT, Json, ToolSpec, Usage, to_json
from grid.core.util import derive_seed
from grid.engines.places import (
    Place,
    Places,
    count_tokens,
    in_memory,
    is_right,
    lesson,
    name_of,
    named_in_lessons,
    prompt_tokens,
    takes_answer,
)
from grid.engines.simulated import plans
from grid.engines.simulated.plans import (
    LESSON,
    REASON,
    Arguments,
    Difficulty,
    Draft,
    Planted,
    Writer,
    chance,
    critique,
    results,
    told,
    uniforms,
)
from grid.text.calls import listed, misspelt
from grid.text.words import stems

# The policy's decision at one point: the distribution from which it samples, and the distribution that `choose`
# returns.


Shares = dict[str, float]
"""The probabilities of options, which sum to 1; options that are left out have the probability 0."""


@dataclass(frozen=True)
class Deciding:
    """The policy's choices in one case. `tools` is the library, from which the similarity of tools is computed."""

    tool_skill: float
    argument_skill: float
    confusion: float
    calibration: float
    difficulty: Difficulty
    tools: Mapping[str, ToolSpec]
    _known: dict[tuple[str | None, str, bool, tuple[str, ...], float], tuple[Shares, list[float]]] = field(
        default_factory=dict
    )

    def sampled(self, place: Place, names: tuple[str, ...], bonus: float = 0.0) -> Shares:
        """The distribution from which `sample` draws.

        The right option has the probability sigmoid(logit(tool_skill) + effects + bonus); the wrong options share the
        rest.

        The policy finishes after the last call, never earlier. If the right option is not offered, it has no share. If
        the policy's own outline does not name the right tool (`Place.known`), this tool counts as a wrong option. If
        there is no wrong option, the right option has the probability 1, even if it is not offered.
        """
        return self._of(place, names, bonus)[0]

    def draw(self, place: Place, names: tuple[str, ...], bonus: float, uniform: float) -> str:
        """The option drawn with a uniform random number; the order of the names does not matter."""
        shares, bounds = self._of(place, names, bonus)
        return [*shares][min(bisect_right(bounds, uniform), len(shares) - 1)]

    def told(self, place: Place, names: tuple[str, ...], bonus: float = 0.0) -> Shares:
        """The distribution that `choose` returns: at a share `calibration` of the steps, the same as `sampled`.

        These steps are drawn once for a case.

        At the other steps, only the best option is the same as in `sampled`. The probabilities are those of a step with
        a different difficulty, assigned in random order to all options except the best, so that they show neither where
        the policy is wrong nor which option is right.
        """
        true = self.sampled(place, names, bonus)
        if place.step is None:
            return true
        rng = random.Random(derive_seed(self.difficulty.seed, "told", place.step))
        if rng.random() < self.calibration:
            return true
        effect = self.difficulty.effect(place.step, drawing="told") + bonus
        masses = sorted(self._shares(place, names, effect).values(), reverse=True)
        best = max(true, key=lambda name: true[name])
        others = [name for name in true if name != best]
        rng.shuffle(others)
        return dict(zip([best, *others], masses, strict=True))

    def arguments(self, place: Place, bonus: float) -> float:
        """The probability that a call of the right tool gets the right arguments."""
        return chance(self.argument_skill, self.difficulty.effect(str(place.step)) + bonus)

    def _of(self, place: Place, names: tuple[str, ...], bonus: float) -> tuple[Shares, list[float]]:
        key = place.step, place.right, place.known, names, bonus
        found = self._known.get(key)
        if found is None:
            effect = 0.0 if place.step is None else self.difficulty.effect(place.step) + bonus
            shares = self._shares(place, names, effect)
            found = self._known[key] = shares, [*accumulate(shares.values())]
        return found

    def _shares(self, place: Place, names: tuple[str, ...], effect: float) -> Shares:
        wrong = sorted(name for name in names if name not in (place.right, FINISH, GIVE_UP, REJECT))
        offered = place.right in names and place.known
        if place.right == FINISH or not wrong:
            return {place.right: 1.0}
        right = chance(self.tool_skill, effect) if offered else 0.0
        if not place.known and place.right in names:
            wrong.append(place.right)
        spread = shared(self.tools.get(place.right), [self.tools.get(name) for name in wrong], self.confusion)
        shares = {place.right: right} if offered else {}
        return shares | {name: (1 - right) * share for name, share in zip(wrong, spread, strict=True)}


def shared(right: ToolSpec | None, wrong: Sequence[ToolSpec | None], confusion: float) -> list[float]:
    """Each wrong option's share of the probability not given to the right option; the shares sum to 1.

    The part `confusion` of this probability goes to the tools in the order of their similarity to the right tool: the
    most similar tool gets half, the next tool gets half of the remainder, and so on, since a model that errs mostly
    mistakes one tool for one other tool; what then remains of the part goes to the most similar tool. The rest of the
    probability is divided evenly among all wrong options. The option to call no tool (None) is not similar to any tool.
    If there are only such options, or if `right` is None, all options have equal shares.
    """
    tools = [place for place, other in enumerate(wrong) if right and other]
    even = (1 - confusion if tools else 1.0) / len(wrong)
    shares = [even] * len(wrong)
    tools.sort(key=lambda place: -_likeness(right, wrong[place]))
    left = confusion
    for place in tools:
        left /= 2
        shares[place] += left
    if tools:
        shares[tools[0]] += left
    return shares


@lru_cache(maxsize=262144)
def _likeness(first: ToolSpec | None, second: ToolSpec | None) -> float:
    """The number of words shared by two tools' names and descriptions, divided by the number of all their words."""
    one, other = _words(first), _words(second)
    return len(one & other) / len(one | other) if one | other else 0.0


@lru_cache(maxsize=16384)
def _words(tool: ToolSpec | None) -> frozenset[str]:
    return frozenset(stems(f"{tool.name} {tool.description}")) if tool else frozenset()


UNREADABLE = (
    "I would first look at what is known of this request, and then do what fits it.",
    '{"',
    "The tools above do not tell me how to go on. Could you say more?",
)
"""Answers in which even a lenient reader finds no object of the requested form."""
NO_LESSON = "It is not clear which step was at fault. Go through all of them with care."
NOTHING_TO_DO = "See that nothing has to be done."
_LOW = 3  # of MAX_SCORE; the policy gives up below this score
_MOST_CHARACTERS = 400  # maximum length of a drafted substep


@dataclass(frozen=True)
class Policy:
    """An engine for one cell. A step that is planned without the preceding observations loses `foresight` in skill."""

    places: Places
    deciding: Deciding
    foresight: float
    insight: float
    judge_auc: float
    malformed: float
    misspelt: float
    version: str
    planted: Planted
    memory: float
    least_temperature: float = 0.0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "simulated"
    sampler: ClassVar[None] = None

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` answers as text. At any temperature above 0, each answer is right with the configured skill.

        At temperature 0 the same prompt always gets the same answer, whatever the seed; over many cases, the share of
        right answers is the same as at other temperatures.
        """
        drawn = max(temperature, self.least_temperature) > 0
        base, answer = seed if drawn else self._own_seed(prompt), self._answering(prompt)
        texts = tuple([self._text(prompt, answer, base, index) for index in range(n)])
        return Sampled(texts, Usage(n, 0, n * prompt_tokens(prompt), 0, sum(map(count_tokens, texts))))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The distribution over options that the policy reports; a judge has all of it on one score or candidate.

        If the options include neither a tool nor one of the other moves (`no_tool`, finishing, giving up, rejecting),
        the policy cannot tell which option is right, and all options have the same probability.
        """
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        usage, options = Usage(forward_passes=1, input_tokens=prompt_tokens(prompt)), prompt.answer.options
        if prompt.entries("candidates"):
            best = self._best(prompt, self._own_seed(prompt), 0)
            return Choice(tuple(float(number == best) for number in range(len(options))), usage)
        if prompt.entries("proposal"):
            score = self._score(prompt, uniforms(self._own_seed(prompt), 0)[1])
            return Choice(tuple(float(number == score) for number in range(MAX_SCORE + 1)), usage)
        return Choice(self._shares(prompt, tuple(map(name_of, options))), usage)

    def _shares(self, prompt: Prompt, names: tuple[str, ...]) -> tuple[float, ...]:
        if {*names}.isdisjoint((*self.deciding.tools, NO_TOOL, FINISH, GIVE_UP, REJECT)):
            return (1 / len(names),) * len(names)
        place = self.places.at(prompt)
        told = self.deciding.told(place, names, self.bonus(prompt, place))
        refusing = self.refusing(prompt) if REJECT in names else 0.0
        return tuple(refusing if name == REJECT else told.get(name, 0.0) * (1 - refusing) for name in names)

    def _own_seed(self, prompt: Prompt) -> int:
        """The seed for temperature 0, which depends only on the case and the prompt."""
        text = "".join(section.digest for section in prompt.sections)
        digest = hashlib.blake2b(text.encode(), digest_size=8, key=self.deciding.difficulty.seed.to_bytes(8, "big"))
        return int.from_bytes(digest.digest(), "big")

    def _text(self, prompt: Prompt, answer: Callable[[int, int], str], base: int, index: int) -> str:
        malformed, which, _ = uniforms(base, index)
        if malformed < self.malformed and not isinstance(prompt.answer, TextAnswer):
            return UNREADABLE[int(which * len(UNREADABLE))]
        return answer(base, index)

    def _answering(self, prompt: Prompt) -> Callable[[int, int], str]:
        """A function of (seed, sample) that writes an answer of the kind that the prompt requires.

        In the function, random draw 0 is for the whole answer (such as a refusal); draws from 1 on are for its parts.
        """
        wanted = prompt.answer
        if isinstance(wanted, TextAnswer):
            return lambda base, index: self._words(prompt, base, index)
        if isinstance(wanted, ScoreAnswer):
            return lambda base, index: self._judgement(prompt, uniforms(base, index, 1)[0])
        if isinstance(wanted, VoteAnswer):
            return lambda base, index: to_json({"best": self._best(prompt, base, index), "explanation": "It is best."})
        if isinstance(wanted, OutlineAnswer):
            return lambda base, index: to_json({"outline": self._outline(prompt, wanted, base, index)})
        if isinstance(wanted, PlanAnswer):
            return lambda base, index: to_json(_planned(wanted, plans.plan(self, prompt, wanted, base, index)))
        if isinstance(wanted, ChainAnswer | MessagesAnswer):
            return lambda base, index: plans.predicted(self, prompt, wanted, base, index)
        if isinstance(wanted, ToolCallAnswer):
            return self._calling(prompt, wanted)
        raise TypeError("a choice is answered by choose()")

    def _calling(self, prompt: Prompt, wanted: ToolCallAnswer) -> Callable[[int, int], str]:
        place, before = self.places.at(prompt), results(prompt)
        names, bonus, answers = plans.options(wanted), self.bonus(prompt, place), takes_answer(wanted.tools)
        hopeless = self._hopeless(prompt) if GIVE_UP in names else None
        others = names if len(names) > 1 else ()  # if asked for a draft of an impossible call, it calls any tool
        written: dict[tuple[str, Arguments], str] = {}

        def text(base: int, index: int) -> str:
            tool, arguments = self.decided(place, names, bonus, uniforms(base, index, 1))
            if len(names) == 1 and tool != names[0]:  # if asked for a draft, it writes one, even if it is wrong
                tool, arguments = names[0], "wrong"
            if hopeless and hopeless(uniforms(base, index)[2]):
                tool = GIVE_UP
            if REJECT in names and uniforms(base, index, 0)[0] < self.refusing(prompt):
                tool = REJECT
            if (tool, arguments) not in written:
                thought: dict[str, Json] = {"thought": _thought(place, tool)} if wanted.thought else {}
                written[tool, arguments] = to_json(thought | self.call(place, tool, arguments, before, answers, others))
            return written[tool, arguments]

        return text

    def _hopeless(self, prompt: Prompt) -> Callable[[float], bool] | None:
        """A function of a uniform random number that decides whether the policy gives up; None before the first step.

        The policy gives up if, as a judge, it would give a low score to the steps so far.
        """
        if not prompt.entries("history"):
            return None
        right = self.places.failed(prompt) is None
        return lambda uniform: plans.score(self.judge_auc, right, uniform) < _LOW

    def refusing(self, prompt: Prompt) -> float:
        """The probability that the policy refuses at this prompt; it never refuses after the first step."""
        if prompt.entries("history"):
            return 0.0
        return self.planted.refusal if self.places.reference.unsolvable else self.planted.overrefusal

    def _outline(self, prompt: Prompt, wanted: OutlineAnswer, base: int, index: int) -> list[str]:
        """The lines of an outline: one for each call, beginning with the name of the call's tool.

        All lines but the first are planned without observations.
        """
        names, lines = tuple(map(name_of, prompt.entries("tools")[1:])), list[str]()
        for ahead, place in enumerate(self.places.of_turn(prompt, 0)[: wanted.most]):
            if place.step is not None:
                bonus = self.bonus(prompt, place, ahead > 0)
                tool = self.deciding.draw(place, names, bonus, uniforms(base, index, 1 + ahead)[0])
                described = self.deciding.tools[tool].description if tool in self.deciding.tools else ""
                lines.append(f"{tool}: {' '.join(described.split())}"[:_MOST_CHARACTERS])
        return lines or [NOTHING_TO_DO]

    def bonus(self, prompt: Prompt, place: Place, ahead: bool = False) -> float:
        """The gain in skill at a point from a lesson and a trace, minus the loss from planning without observations."""
        added = LESSON if place.number in named_in_lessons(prompt) else 0.0
        added += self.memory if place.step is not None and in_memory(prompt, place.right) else 0.0
        return added - (self.foresight if ahead or place.blind else 0.0)

    def decided(
        self, place: Place, names: tuple[str, ...], bonus: float, drawn: tuple[float, float, float]
    ) -> tuple[str, Arguments]:
        """The tool to call, and whether its arguments are right, right except for a misspelt name, or wrong."""
        tool = self.deciding.draw(place, names, bonus, drawn[0])
        if tool != place.right or not place.known:
            return tool, "wrong"
        if place.call is None:
            return tool, "right"
        right = self.deciding.arguments(place, bonus)
        near = right + (1 - right) * self.misspelt
        return tool, "right" if drawn[1] < right else "misspelt" if drawn[1] < near else "wrong"

    def call(
        self,
        place: Place,
        tool: str,
        arguments: Arguments,
        before: Mapping[str, bool],
        answers: bool,
        offered: tuple[str, ...] = (),
    ) -> dict[str, Json]:
        """The call in the form of an answer; `before` says which earlier steps may have a result.

        `answers`: `finish` requires the answer, which is the final result of the reference. Without `answers`, `finish`
        gets the reference's answer in words if the case asks for the answer in words. `offered`: as in Writer.
        """
        reference = self.places.reference
        if tool == REJECT:
            return {"tool": REJECT, "arguments": {"reason": REASON}}
        if tool == FINISH and answers:
            return {"tool": tool, "arguments": {"answer": told(place.answer, before)}}
        if tool == FINISH and reference.told and reference.answer:
            return {"tool": tool, "arguments": {"answer": reference.answer}}
        known = place.call if place.call is not None and place.call.tool == tool else None
        near = None
        if known and arguments == "misspelt":
            near = misspelt(known, listed(self.deciding.tools.get(tool)))
        right = near is not None or arguments == "right"
        return Writer(self.deciding.tools, offered).call(tool, near or known, right, before)

    def _words(self, prompt: Prompt, base: int, index: int) -> str:
        """A thought if the prompt asks for one, a critique if the prompt shows a draft, else a reflection."""
        if isinstance(prompt.answer, ThoughtAnswer):
            place, names = self.places.at(prompt), tuple(self.deciding.tools)
            return _thought(place, self.decided(place, names, self.bonus(prompt, place), uniforms(base, index, 1))[0])
        draft = Draft.of(prompt)
        if draft is None:
            return self._reflection(prompt, uniforms(base, index, 1)[0])
        return critique(self.planted, draft, prompt, self.places, base, index)

    def _reflection(self, prompt: Prompt, uniform: float) -> str:
        """A lesson that, with probability `insight`, names the first needed step that went wrong.

        Otherwise the lesson names no step.
        """
        if uniform >= self.insight:
            return NO_LESSON
        number = self.places.failed(prompt)
        return NO_LESSON if number is None else lesson(number)

    def _judgement(self, prompt: Prompt, uniform: float) -> str:
        score = self._score(prompt, uniform)
        return to_json({"score": score, "explanation": f"The call is worth {score} of {MAX_SCORE}."})

    def _best(self, prompt: Prompt, base: int, index: int) -> int:
        """The candidate that the policy, as a judge, would score highest; ties are broken at random."""
        drawn = [uniforms(base, index, 1 + place) for place in range(len(prompt.entries("candidates")) - 1)]
        ranks = [
            (plans.score(self.judge_auc, right, score), lot)
            for right, (score, lot, _) in zip(self.places.candidates_right(prompt), drawn, strict=True)
        ]
        return max(range(len(ranks)), key=ranks.__getitem__)

    def _score(self, prompt: Prompt, uniform: float) -> int:
        return plans.score(self.judge_auc, is_right(prompt, self.places), uniform)


def _planned(wanted: PlanAnswer, plan: list[dict[str, Json]]) -> dict[str, Json]:
    """A plan in the form of an answer, after a thought if the answer requires one."""
    thought: dict[str, Json] = {"thought": f"It takes {len(plan)} steps."} if wanted.thought else {}
    return thought | {"plan": [*plan]}


def _thought(place: Place, tool: str) -> str:
    """The thought before a call."""
    if tool == GIVE_UP:
        return f"Step {place.number} cannot be reached like this."
    return f"Step {place.number} takes no tool." if tool == NO_TOOL else f"Step {place.number} takes {tool}."
