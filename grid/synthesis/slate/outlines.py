"""Plans before there is any tool: a query taken apart into steps and substeps, in words (egb_slate §3.3, figure 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain
from grid.synthesis.slate.items import FORM, Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.plans import EXAMPLE, GOAL, KINDS, LENGTH, parts_of
from grid.synthesis.slate.rules import broken, copied, normal
from grid.synthesis.slate.shapes import Shape
from grid.synthesis.slate.tools import notes
from grid.synthesis.slate.wishes import Wish

_RULES = (
    "Rules:",
    "- High-level steps, each with substeps. A substep says what it is for, and in which context.",
    "- Nobody knows yet which tools there are. No tool is named, and no function.",
    "- A substep that calls a tool looks up, checks, computes or changes one thing. One without a tool decides, "
    "compares or tells.",
    "- The first call needs nothing but what the query says; each later one needs something that came before.",
    "- The last call resolves the query.",
    "- The goal is one sentence without names, numbers or dates.",
)
_SHORT = {name: part["purpose"] if isinstance(part, dict) else part for name, part in EXAMPLE.items()}
_FORM = (f"Answer with JSON only, as in this short example of another domain: {to_json(_SHORT)}",)


@dataclass(frozen=True)
class Outline:
    """A wish's plan in words: its goal, and the texts of its steps `i` and substeps `i.j`."""

    wish: Wish
    goal: str
    texts: Mapping[str, str]

    @property
    def calling(self) -> list[str]:
        """The numbers of the substeps that call a tool."""
        return [number for number, calls in self.wish.shape.numbered() if calls]

    def lines(self) -> Iterator[str]:
        """The plan as prompts show it."""
        calling = {*self.calling}
        for number, text in self.texts.items():
            yield (
                f"{number} {text}"
                if "." not in number
                else f"  {number} {text}{' (calls a tool)' * (number in calling)}"
            )


async def of_wish(asker: Asker, domain: Domain, wish: Wish) -> list[Settled[Outline]]:
    """The plan of a query."""
    shape = wish.shape
    sections = (
        Section(
            "role", ("You take apart what a user asks for, before it is known by which tools it is done.", *_RULES)
        ),
        notes(domain),
        Section(
            "task",
            (
                f"Query of a {shape.user}: {wish.text}",
                f"The plan is {shape.complexity}. {KINDS[shape.complexity]} Its parts are:",
                *parts_of(shape),
            ),
        ),
    )
    texts = dict.fromkeys([GOAL, *_numbers(shape)], text_schema(LENGTH))
    return [await asker.settle(Item(wish.key, sections, _FORM, object_schema(texts, [*texts]), _checking(wish)))]


def _numbers(shape: Shape) -> list[str]:
    """Of steps and substeps, in their order."""
    found = list[str]()
    for i, substeps in enumerate(shape.steps, 1):
        found += [str(i), *(f"{i}.{j}" for j, _ in enumerate(substeps, 1))]
    return found


def _checking(wish: Wish) -> Callable[[Mapping[str, Json]], Checked[Outline]]:
    parts = [GOAL, *_numbers(wish.shape)]

    def check(answer: Mapping[str, Json]) -> Checked[Outline]:
        if answer.keys() != {*parts}:
            return Checked((), (broken("shape", f"The parts of the plan are {', '.join(parts)}, and all of them."),))
        if problems := [*_problems({name: answer[name] for name in parts})]:
            return Checked((), tuple(problems))
        texts = {name: str(answer[name]) for name in parts[1:]}
        return Checked((Outline(wish, str(answer[GOAL]), texts),), ())

    return check


def _problems(texts: Mapping[str, Any]) -> Iterator[Broken]:
    seen: dict[str, str] = {}
    for name, text in texts.items():
        if not isinstance(text, str):
            yield broken(FORM, f"The answer has the form that is asked for: {name} is a text.")
            continue
        if not text.strip():
            yield broken("text", f"{name} is a sentence.")
        yield from copied(text, _SHORT.values(), name)
        if "." in name and (other := seen.setdefault(normal(text), name)) != name:
            yield broken("duplicate", f"{other} and {name} say the same: write another text for {name}.")
