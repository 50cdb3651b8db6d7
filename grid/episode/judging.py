"""Ask a judge for a score: as text that follows a schema, or as an exact distribution over eleven numbers.

The caller's prompt shows the object to be judged and the criteria. Both forms use the same scale, 0 to 10. The judges
in tooltree (B.7, B.8) score from 0.0 to 1.0 and are instructed to score coarsely; tenths are coarse enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import (
    CHOOSE,
    SAMPLE,
    Choice,
    ChoiceAnswer,
    Prompt,
    Role,
    ScoreAnswer,
    Section,
    VerdictAnswer,
    VoteAnswer,
)
from grid.core.errors import ModelError, VerdictError
from grid.core.types import MAX_SCORE, Observation, ToolCall, ToolSpec, Verdict
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.requests import Requests, again, rejected
from grid.text.answers import read_score, read_verdict, read_vote
from grid.text.objects import UnreadableError

ASK_SCORE = (
    f"Judge what is shown above by the given criteria. The score is a whole number from 0 (worst) to {MAX_SCORE} "
    "(best)."
)
ASK_TEXT = 'Answer with one JSON object: {"score": number, "explanation": why, in one or two sentences}.'
ASK_DIGITS = "Answer with the number of one of these scores, and nothing else:"
SCORES = tuple(
    f"{score} of {MAX_SCORE}" + {0: " (worst)", MAX_SCORE: " (best)"}.get(score, "") for score in range(MAX_SCORE + 1)
)
ASK_VOTE = "Decide which of the candidates above is the most promising."
ASK_VOTE_TEXT = 'Answer with one JSON object: {"best": its number, "explanation": why, in one or two sentences}.'
ASK_VOTE_DIGITS = "Answer with its number, and nothing else."
_MAX_TOKENS = 256
_VERDICT_TOKENS = 640
_IN_WORDS = Section("instruction", (ASK_SCORE, ASK_TEXT))
_IN_DIGITS = Section("instruction", (ASK_SCORE, ASK_DIGITS), SCORES)
T = TypeVar("T")


class Scoring(Protocol):
    """The interface of objects that ask an engine for scores and votes, as `Judging` does."""

    async def score(
        self, requests: Requests, role: Role, prompt: Prompt, *key: object, samples: int = 1, temperature: float = 0.0
    ) -> float:
        """The score in [0, 1] for the object that a prompt shows and `key` names; VerdictError if there is no score."""
        ...

    async def vote(
        self,
        requests: Requests,
        role: Role,
        prompt: Prompt,
        candidates: Sequence[str],
        *key: object,
        samples: int,
        temperature: float,
    ) -> list[float]:
        """Each candidate's share of the votes. Raises VerdictError if there is no vote."""
        ...


@dataclass(frozen=True, config=STRICT)
class Judging:
    """Settings for asking a role for scores: its keys `form`, `max_retries` and `temperature`, as in `judge.form`.

    `text`: an object `{"score", "explanation"}` is sampled, and sampled again, up to `max_retries` times, if it cannot
    be read. `digits`: the score is the expectation over the exact distribution of the eleven scores; no text is
    sampled.

    `temperature` applies to everything that is sampled; it is meant for models that accept only one temperature. None:
    the caller sets the temperature, which is 0 if neither the planner nor the data set has its own.
    """

    form: Literal["text", "digits"] = "text"
    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    temperature: Annotated[float, Field(ge=0)] | None = None

    def at(self, asked: float) -> float:
        """The temperature used if the caller asks for `asked`."""
        return asked if self.temperature is None else self.temperature

    @property
    def verb(self) -> str:
        """The verb that the judge's engine must provide."""
        return CHOOSE if self.form == "digits" else SAMPLE

    async def score(
        self, requests: Requests, role: Role, prompt: Prompt, *key: object, samples: int = 1, temperature: float = 0.0
    ) -> float:
        """The score in [0, 1] that the engine of a role gives; `key` names the judged object.

        In form `text`, `samples` answers are sampled, and the result is the mean over the answers that have a score. In
        form `digits`, the engine is asked once.

        Raises:
            VerdictError: the engine gave no score, even after all retries.
        """
        if self.form == "digits":
            asked = Prompt((*prompt.sections, _IN_DIGITS), ChoiceAnswer(SCORES))
            choice = await _chosen(requests, role, asked, *key)
            return sum(score * share for score, share in enumerate(choice.probabilities)) / MAX_SCORE
        asked = Prompt((*prompt.sections, _IN_WORDS), ScoreAnswer())
        found = await self._sampled(requests, role, asked, read_score, key, samples, temperature)
        return sum(found) / len(found)

    async def vote(
        self,
        requests: Requests,
        role: Role,
        prompt: Prompt,
        candidates: Sequence[str],
        *key: object,
        samples: int,
        temperature: float,
        ask: str = ASK_VOTE,
    ) -> list[float]:
        """Each candidate's share of the votes; `ask` states the question.

        In form `text`, `samples` votes are sampled. In form `digits`, the shares are the exact distribution over the
        candidates.

        Raises:
            VerdictError: the engine gave no vote, even after all retries.
        """
        options, count = tuple(candidates), len(candidates)
        shown = (*prompt.sections, Section("candidates", ("Candidates:",), options))
        if self.form == "digits":
            asked = Prompt((*shown, Section("instruction", (ask, ASK_VOTE_DIGITS))), ChoiceAnswer(options))
            return [*(await _chosen(requests, role, asked, *key)).probabilities]
        asked = Prompt((*shown, Section("instruction", (ask, ASK_VOTE_TEXT))), VoteAnswer(count))
        votes = await self._sampled(
            requests, role, asked, partial(read_vote, candidates=count), key, samples, temperature
        )
        return [votes.count(place) / len(votes) for place in range(count)]

    async def verdict(self, requests: Requests, role: Role, prompt: Prompt, *key: object) -> Verdict:
        """The verdict of a role's engine on a plan, always as text, by default at temperature 0; `key` names the plan.

        Raises:
            VerdictError: the engine gave no verdict, even after all retries.
        """
        wanted = prompt.answer
        errors = not isinstance(wanted, VerdictAnswer) or wanted.errors
        how = Retries(self.at(0.0), self.max_retries, _VERDICT_TOKENS)
        return (await readable(requests, role, prompt, partial(read_verdict, errors=errors), key, how))[0]

    async def _sampled(
        self,
        requests: Requests,
        role: Role,
        prompt: Prompt,
        read: Callable[[str], T],
        key: tuple[object, ...],
        samples: int,
        temperature: float,
    ) -> list[T]:
        how = Retries(self.at(temperature), self.max_retries, _MAX_TOKENS)
        return await readable(requests, role, prompt, read, key, how, samples)


class Retries(NamedTuple):
    """Sampling settings, including the maximum number of retries for answers that cannot be read."""

    temperature: float
    max_retries: int
    max_tokens: int


async def readable(
    requests: Requests,
    role: Role,
    prompt: Prompt,
    read: Callable[[str], T],
    key: tuple[object, ...],
    how: Retries,
    samples: int = 1,
) -> list[T]:
    """The contents of those of the `samples` answers that can be read, after all retries.

    Raises:
        VerdictError: no answer can be read.
    """
    found, why, last = list[T](), "", None
    for tried in range(how.max_retries + 1):
        answers = await requests.sample(
            role,
            again(prompt, last),
            *((*key, f"try{tried}") if tried else key),
            n=samples - len(found),
            temperature=how.temperature,
            max_tokens=how.max_tokens,
        )
        for place in range(len(answers.texts)):
            try:
                found.append(read(answers.read(place)))
            except UnreadableError as error:
                answers.message.unreadable[place] = why = str(error)
        if len(found) == samples:
            break
        last = rejected(answers, tried + 1, how.max_retries + 1)
    if not found:
        raise VerdictError(f"the {role}'s answer has {why}, after {tried + 1} tries ({role}.max_retries)")
    return found


async def _chosen(requests: Requests, role: Role, prompt: Prompt, *key: object) -> Choice:
    """The distribution of a judge's answer; raises VerdictError if no option has any mass."""
    try:
        return await requests.choose(role, prompt, *key)
    except ModelError as error:
        raise VerdictError(f"the {role}'s answer: {error}") from error


def proposal_section(tool: ToolSpec, call: ToolCall) -> Section:
    """The section with the judged call; the call's tool comes first, described as in a list of options."""
    return Section("proposal", ("Tool:", prompts.tool_text(tool), "Call:", call.text()))


def outcome_section(observation: Observation) -> Section:
    """The section with the result of a call."""
    return Section("outcome", ("It failed:" if observation.failed else "It returned:", observation.text()))
