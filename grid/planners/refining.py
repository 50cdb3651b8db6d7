"""Plans that are criticised and rewritten before they are used (agent_planning_benchmark §5.3, C.7).

There are three requests: one predicts the plan, one writes a critique of the plan, and one rewrites the plan with the
critique in its prompt. The critique comes from the acting model (`self`) or from the role `critic`. With the taxonomy,
the critique goes through the six kinds of error (§3.3) one by one; without it, the critique looks for any error. All
three prompts begin with the same text as the plan's own prompt, so that they share this prefix.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import ACTOR, CRITIC, PlanAnswer, Prompt, Role, Section, TextAnswer
from grid.core.types import Trajectory, Usage
from grid.core.untrusted import shown_lines
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.episode import Episode, Planner
from grid.episode.planning import Asking, Read, WritesPlans

Mode = Literal["none", "self", "critic"]
NOT_REFINED: Mode = "none"
MOST_SHOWN = 12_000
"""Maximum number of characters of a critique that the next prompt shows."""
ASKED = "What the plan is for:"
DRAFT = "The draft of the plan; nothing of it has been run:"
CRITIQUE = "A review of the draft:"
SILENT = "(the review says nothing)"
ERRORS = (
    "Go through these six kinds of error one by one. For each, say whether the draft has it, and where:",
    "E1, goal: it serves a purpose other than the request's, or misunderstands the request.",
    "E2, completeness: a part of the request is left out, or the work ends before everything is done.",
    "E3, constraints: it does something that the request rules out, or does the work in another way than the "
    "request demands.",
    "E4, logic: a step needs something that no earlier step provides, ignores something that is already known, "
    "or leads in a circle.",
    "E5, tool use: a tool is called for something that it does not do, or an argument is missing, wrong or of "
    "the wrong type.",
    "E6, hallucination: it calls a tool that is not listed above under exactly this name, or uses data that "
    "neither the request nor any step provides.",
)
ASK_CRITIQUE = (
    "Review the draft above before it counts: is anything wrong with it, and would it carry out everything that "
    "is asked? If something is wrong, say at which step and how to correct it. If nothing is wrong, say so.",
    "Keep what is sound: do not drop a step that other steps depend on, and do not add a step that nothing "
    "needs. If the draft is right and leads to the goal, confirm it as it stands. It is not an error if another "
    "way would work too.",
    "Answer in words. Do not write the plan again yet.",
)
ASK_REWRITE = (
    "Write the final plan in the form asked for below: correct what the review rightly finds wrong, and leave "
    "the rest of the draft as it is. If nothing is wrong, give the draft again."
)
T = TypeVar("T")


@dataclass(frozen=True, config=STRICT)
class Criticising:
    """The role `critic` has no keys of its own: `refine` configures its requests; `model@critic` sets its model."""


@dataclass(frozen=True, config=STRICT)
class Refining:
    """How plans are refined: the group `refine`.

    Args:
        mode: `none`: plans are not refined; `self`: the acting model criticises its own plan; `critic`: the model of
            the role `critic` criticises the plan (`model@critic`).
        taxonomy: whether the critique goes through the errors E1 to E6, which the prompt explains.
        temperature: the critique's temperature. The rewriting uses the planner's temperature.
        max_tokens: the maximum number of tokens in the critique.
    """

    mode: Mode = NOT_REFINED
    taxonomy: bool = False
    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_tokens: Annotated[int, Field(ge=1)] = 1024

    def around(self, planner: Planner) -> Planner:
        """The planner, with its plans refined. Planners that write no plans are refused earlier (`writes_plans`)."""
        return planner if self.mode == NOT_REFINED else Refined(cast(WritesPlans, planner), self)

    async def __call__(self, episode: Episode, asking: Asking[T], draft: T) -> Read[T]:
        """The plan, rewritten after a critique; None if no rewritten plan can be read.

        If the critique is empty, the next prompt says so. Raises BudgetError if a budget is used up, and ContextError
        if a prompt is too long.
        """
        role: Role = CRITIC if self.mode == "critic" else ACTOR
        told = await episode.sample(
            self.critique_prompt(asking, draft),
            *(*asking.key, "critique"),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            role=role,
        )
        read = await asking.ask(episode, rewrite_prompt(asking, draft, told.texts[0]), *asking.key, "rewrite")
        return read._replace(usage=read.usage + (told.usage if role == ACTOR else Usage()))

    def critique_prompt(self, asking: Asking[T], draft: T) -> Prompt:
        """The plan's own prompt, with the draft added and the plan's instruction replaced by the critique's."""
        errors = Section("errors", ERRORS) if self.taxonomy else prompts.EMPTY
        ask = Section("instruction", ASK_CRITIQUE)
        return prompts.prompt(TextAnswer(), *_before(asking.prompt), _drafted(asking, draft), errors, ask)


def rewrite_prompt(asking: Asking[T], draft: T, critique: str) -> Prompt:
    """The plan's own prompt, followed by the draft and its critique.

    The critique is untrusted: it is cut, and its lines are marked, so that no line can be mistaken for another part of
    the prompt.
    """
    said = "\n".join(f"> {line}" for line in shown_lines(critique[:MOST_SHOWN]).strip().split("\n") if line) or SILENT
    wanted = Section("instruction", (ASK_REWRITE, *asking.prompt.entries("instruction")))
    told, answer = Section("critique", (CRITIQUE, said)), asking.prompt.answer
    if isinstance(answer, PlanAnswer) and answer.native:  # which replaces the instruction
        answer = replace(answer, native=(ASK_REWRITE, *answer.native))
    return prompts.prompt(answer, *_before(asking.prompt), _drafted(asking, draft), told, wanted)


def _before(prompt: Prompt) -> tuple[Section, ...]:
    return tuple(section for section in prompt.sections if section.kind != "instruction")


def _drafted(asking: Asking[Any], draft: object) -> Section:
    return Section("draft", (ASKED, *asking.asked, DRAFT, asking.written(draft)))


def writes_plans(planner: Planner) -> bool:
    """Whether the planner, as configured, writes plans that can be refined."""
    return bool(getattr(planner, "writes_plans", False)) and hasattr(planner, "write")


@plain_dataclass(frozen=True)
class Refined:
    """A planner whose plans are refined."""

    planner: WritesPlans
    refining: Refining

    @property
    def needs(self) -> frozenset[str]:
        """The planner's needs."""
        return self.planner.needs

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens in one answer of the planner."""
        return getattr(self.planner, "max_tokens", None)

    @property
    def fit_tokens(self) -> bool:
        """As the planner."""
        return bool(getattr(self.planner, "fit_tokens", False))

    @property
    def plans_ahead(self) -> bool:
        """As the planner."""
        return bool(getattr(self.planner, "plans_ahead", False))

    @property
    def answers_ahead(self) -> bool:
        """As the planner."""
        return bool(getattr(self.planner, "answers_ahead", False))

    @property
    def temperature(self) -> float | None:
        """The temperature of the planner's answers."""
        return getattr(self.planner, "temperature", None)

    async def solve(self, episode: Episode) -> Trajectory:
        """Like the planner's `solve`, but every plan is refined before it is used."""
        return await self.planner.write(episode, self.refining)
