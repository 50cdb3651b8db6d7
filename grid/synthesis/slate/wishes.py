"""Queries before there is any tool: what users of a topic ask for (egb_slate §3.2, figure 9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.stock import Complexity
from grid.engines.answer_schema import object_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain, slug
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.queries import ANY_TEXT, AS_A_PERSON, EXAMPLE, WORDS, distinct
from grid.synthesis.slate.rules import broken, copied
from grid.synthesis.slate.shapes import Shape
from grid.synthesis.slate.tools import notes

_LEAST_DETAILS: Mapping[Complexity, int] = {"simple": 1, "moderate": 2, "complex": 3, "advanced": 4}
"""Different identifiers, dates, amounts and quantities: words with a digit."""
_RULES = (
    "Rules:",
    AS_A_PERSON,
    "- It has several such details, which tools can take as they stand.",
    "- How the assistant will go about it is not known yet: no tool and no step is named.",
    "- It can be resolved by looking things up, checking them and changing them, without a question back.",
)


class _Answer(BaseModel):
    query: str


@dataclass(frozen=True)
class Wish:
    """A query, by whom, and of which shape its plan will be."""

    key: str
    topic: str
    shape: Shape
    text: str


async def of_topic(asker: Asker, domain: Domain, topic: str, shapes: Sequence[Shape]) -> list[Settled[Wish]]:
    """The queries of a topic, one of each of the `shapes`, one after another."""
    found: list[Settled[Wish]] = []
    for number, shape in enumerate(shapes):
        before = [wish for one in found for wish in one.products]
        told = ("Queries that are there already; write another one, of another wish and with other details:",)
        sections = (
            Section("role", ("You are a user of a service, and write to its assistant.", *_RULES)),
            notes(domain),
            Section(
                "task",
                (
                    f"Topic: {topic}: {domain.topics[topic]}.",
                    f"You are a {shape.user}.",
                    f"The query is {shape.complexity}: it holds {WORDS[shape.complexity][1]}.",
                    *((*told, *(f"- {wish.text}" for wish in before)) if before else ()),
                ),
            ),
        )
        example = to_json({"query": EXAMPLE["query"]})
        form = (f"Answer with JSON only, as in this example of another domain: {example}",)
        key = f"{slug(topic)}-{number:03}"
        item = Item(
            key, sections, form, object_schema({"query": ANY_TEXT}, ["query"]), _checking(key, topic, shape, before)
        )
        found.append(await asker.settle(item))
    return found


def _checking(
    key: str, topic: str, shape: Shape, before: Sequence[Wish]
) -> Callable[[Mapping[str, Json]], Checked[Wish]]:
    words, details = WORDS[shape.complexity][0], _LEAST_DETAILS[shape.complexity]

    def check(answer: Mapping[str, Json]) -> Checked[Wish]:
        wish = Wish(key, topic, shape, _Answer.model_validate(answer).query)
        problems = [*copied(wish.text, (EXAMPLE["query"],), "The query")]
        if len(wish.text.split()) < words:
            problems.append(broken("length", f"Write a query of at least {words} words, with all details."))
        if len(set(re.findall(r"[^\s,;()]*\d[^\s,;()]*", wish.text))) < details:
            problems.append(
                broken("details", f"State {details} or more different identifiers, dates, amounts or quantities.")
            )
        if re.search(r"\b\w+_\w+\b", wish.text):
            problems.append(broken("names tool", "Write words, no names with an underscore."))
        repeated = distinct(before)(wish)
        problems += [repeated] if repeated else []
        return Checked((), tuple(problems)) if problems else Checked((wish,), ())

    return check
