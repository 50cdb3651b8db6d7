"""The paper's order: queries, plans, tools, their categories, merged tools, arguments and outcomes (appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.errors import UnfinishedError
from grid.core.types import Json, to_json
from grid.datasets.slate.records import CaseRecord, ToolRecord
from grid.datasets.slate.stats import names_tool
from grid.engines.answer_schema import object_schema
from grid.synthesis.slate import merging, outcomes, outlines, queries, shapes, substeps, tools, wishes
from grid.synthesis.slate.asking import Asker, Settled, kept
from grid.synthesis.slate.config import Construction, Domain
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.nearby import Nearby, nearby
from grid.synthesis.slate.outlines import Outline
from grid.synthesis.slate.plans import OFFERED, Planned, Workflow
from grid.synthesis.slate.queries import Query
from grid.synthesis.slate.rules import NAME, broken
from grid.synthesis.slate.tools import (
    EXAMPLE,
    RULES,
    SHOWN,
    Written,
    distinct,
    line,
    notes,
    pattern_schema,
    tool_problems,
    tool_schema,
)
from grid.synthesis.slate.wishes import Wish

Say = Callable[[str], None]


async def cases(asker: Asker, wanted: Construction, say: Say) -> tuple[list[ToolRecord], list[CaseRecord]]:
    """The stages up to whole cases, queries first: the library with `sizes.tools` of each topic, and the cases.

    Raises:
        UnfinishedError: a stage kept nothing.
        ConfigError: the retriever.
        EngineError, DataError, StoreError: as `construct`.
    """
    near = nearby(wanted.retriever, say)
    grounded = await _grounded(asker, wanted, await _outlines(asker, wanted), near, say)
    library = await _categorised(asker, wanted, grounded, say)
    library, plans = await _merged(asker, wanted, library, grounded, near, say)
    library = await _filled(asker, wanted, library)
    if len(library) < 2:
        raise UnfinishedError("stage tools: a library of 1 tool leaves nothing to choose; raise sizes.tools")
    asked = [Query(one.plan.key, plan, one.text, None) for one, plan in zip(grounded, plans, strict=True)]
    written = await asker.run("substeps", (substeps.of_query(asker, wanted.domain, query) for query in asked))
    outlined = kept(written, lambda _: None)
    asker.end()
    known = {tool.name: tool for tool in library}
    played = await asker.run("outcomes", (outcomes.of_case(asker, wanted.domain, one, known) for one in outlined))
    found = kept(played, outcomes.coherent())
    asker.end()
    return library, found


async def _outlines(asker: Asker, wanted: Construction) -> list[Outline]:
    """Queries and their plans in words, topics in turn, so that a larger set begins as a smaller one does."""
    domain, sizes = wanted.domain, wanted.sizes
    drawn = {
        topic: shapes.drawn(wanted.seed, topic, domain.users, wanted.complexity, sizes.workflows * sizes.queries)
        for topic in domain.topics
    }
    said = await asker.run("queries", (wishes.of_topic(asker, domain, topic, drawn[topic]) for topic in drawn))
    texts = kept(said, queries.distinct())
    asker.end()
    planned = await asker.run("plans", (outlines.of_wish(asker, domain, wish) for wish in _in_turn(texts)))
    found = kept(planned, lambda _: None)
    asker.end()
    return found


def _in_turn(texts: Sequence[Wish]) -> list[Wish]:
    by_topic = [[wish for wish in texts if wish.topic == topic] for topic in dict.fromkeys(one.topic for one in texts)]
    return [wish for row in zip_longest(*by_topic) for wish in row if wish is not None]


async def _grounded(
    asker: Asker, wanted: Construction, plans: Sequence[Outline], near: Nearby, say: Say
) -> list[Grounded]:
    made = await asker.run("tools", [of_outlines(asker, wanted.domain, plans, near)])
    found = kept(made, lambda _: None)
    asker.end()
    new = sum(len(one.made) for one in found)
    calls = sum(len(one.plan.calls) for one in found)
    own = sum(tool in one.made for one in found for _, tool in one.plan.calls)
    say(f"tools: {new} made for {len(found)} plans; {calls - own} of {calls} calls use one that an earlier plan made")
    return found


async def _categorised(asker: Asker, wanted: Construction, grounded: Sequence[Grounded], say: Say) -> list[ToolRecord]:
    """The plans' tools with their categories; one that no answer sorted is in the topic of its first query."""
    made = [(tool, one.plan.topic) for one in grounded for tool in one.made]
    every = [tool for tool, _ in made]
    batches = [every[start : start + merging.AT_A_TIME] for start in range(0, len(every), merging.AT_A_TIME)]
    lanes = (merging.categorised(asker, wanted.domain, number, batch) for number, batch in enumerate(batches))
    sorted_ones = {tool.name: tool for tool in kept(await asker.run("categories", lanes), lambda _: None)}
    asker.end()
    if left := [tool.name for tool, _ in made if tool.name not in sorted_ones]:
        names = ", ".join(left)
        say(f"categories: {len(left)} tools that no answer sorted are in the topic of their first query: {names}")
    return [sorted_ones.get(tool.name) or tool.model_copy(update={"category": topic}) for tool, topic in made]


async def _merged(
    asker: Asker,
    wanted: Construction,
    library: Sequence[ToolRecord],
    grounded: Sequence[Grounded],
    near: Nearby,
    say: Say,
) -> tuple[list[ToolRecord], list[Workflow]]:
    """The library after the merges, and the plans that call what their tools became.

    Plans that call the same tools in the same order have the key of the first: their cases are a cluster.
    """
    apart = merging.neighbours([one.plan for one in grounded])
    groups = list(merging.together(library, near))
    lanes = (merging.merged(asker, wanted.domain, key, own, apart) for key, own in groups)
    into: dict[str, ToolRecord] = {}
    for one in kept(await asker.run("merging", lanes), lambda _: None):
        into |= one.into
    asker.end()
    named = {tool.name: into.get(tool.name, tool) for tool in library}
    found = list({tool.name: tool for tool in named.values()}.values())
    say(f"merging: {len(library)} tools became {len(found)}")
    plans = [merging.rewritten(one.plan, named) for one in grounded]
    first: dict[tuple[str, ...], str] = {}
    return found, [replace(plan, key=first.setdefault(plan.signature(), plan.key)) for plan in plans]


async def _filled(asker: Asker, wanted: Construction, library: Sequence[ToolRecord]) -> list[ToolRecord]:
    """The library with as many further tools of each topic as `sizes.tools` asks for (figure 13)."""
    lacking = {
        topic: (wanted.sizes.tools - len(own), own)
        for topic in wanted.domain.topics
        if len(own := [tool for tool in library if tool.category == topic]) < wanted.sizes.tools
    }
    if not lacking:
        return [*library]
    lanes = (tools.of_topic(asker, wanted.domain, topic, count, own) for topic, (count, own) in lacking.items())
    found = [*library, *kept(await asker.run("more_tools", lanes), tools.distinct(library))]
    asker.end()
    return found


# The tools of plans: near ones of the library are used again, others made (egb_slate §3.3, figure 11).


_CHOICE = (
    "- A tool of the list is used again wherever it does what a substep needs. Only for what none of them does is a "
    "new one described, such as other queries can use too.",
    "- The first call's arguments are all stated by the query. Each later call takes a result of an earlier one.",
    "- Two neighbouring substeps never call the same tool, and different calls use different tools where they can.",
    "- What the last call returns resolves the query.",
    "- A tool's name is not the text of a substep in other form.",
    "New tools:",
)
_FORM = (
    "Answer with JSON only, as in this example of another domain: under `use` the tool of each substep that calls one, "
    "under `new` those that are not in the list, which may be none:",
    to_json({"use": {"1.2": EXAMPLE.name}, "new": [SHOWN]}),
)


class _Answer(BaseModel):
    use: dict[str, str]
    new: list[Written]


@dataclass(frozen=True)
class Grounded:
    """A plan with its tools; `made` are those that were not in the library before."""

    plan: Workflow
    text: str
    made: tuple[ToolRecord, ...]


async def of_outlines(
    asker: Asker, domain: Domain, outlines: Sequence[Outline], nearby: Nearby
) -> list[Settled[Grounded]]:
    """The tools of plans, one plan after another: each is offered the nearest of what those before have made."""
    found: list[Settled[Grounded]] = []
    library: list[ToolRecord] = []
    for outline in outlines:
        offered = nearby(outline.wish.text, library, OFFERED)
        listed = ("Tools that are there:", *map(line, offered)) if offered else ("No tool is there yet.",)
        sections = (
            Section(
                "role",
                ("You choose the tools by which an assistant carries out a plan.", "Rules:", *_CHOICE, *RULES[1:]),
            ),
            notes(domain),
            Section("tools", listed),
            Section(
                "task",
                (
                    f"Query of a {outline.wish.shape.user}: {outline.wish.text}",
                    f"Goal: {outline.goal}",
                    "Plan:",
                    *outline.lines(),
                    f"Substeps that call a tool: {', '.join(outline.calling)}.",
                ),
            ),
        )
        item = Item(outline.wish.key, sections, _FORM, _schema(outline), _checking(outline, offered, tuple(library)))
        settled = await asker.settle(item)
        found.append(settled)
        library += [tool for one in settled.products for tool in one.made]
    return found


def _checking(
    outline: Outline, offered: Sequence[ToolRecord], library: Sequence[ToolRecord]
) -> Callable[[Mapping[str, Json]], Checked[Grounded]]:
    def check(answer: Mapping[str, Json]) -> Checked[Grounded]:
        given = _Answer.model_validate(answer)
        if given.use.keys() != {*outline.calling}:
            told = f"Under `use` stand {', '.join(outline.calling)}, and nothing else."
            return Checked((), (broken("shape", told),))
        problems = [*_new_problems(given, outline, library), *_use_problems(given, outline, offered)]
        if problems:
            return Checked((), tuple(problems))
        made = tuple(tool.record("") for tool in given.new)
        return Checked((Grounded(_workflow(outline, given.use, [*offered, *made]), outline.wish.text, made),), ())

    return check


def _new_problems(given: _Answer, outline: Outline, library: Sequence[ToolRecord]) -> Iterator[Broken]:
    rule = distinct([EXAMPLE, *library])
    for tool in given.new:
        own = [*tool_problems(tool)]
        yield from own
        if tool.name not in given.use.values():
            yield broken("unused", f"{tool.name:.60}: no substep calls this new tool; leave it out.")
        if not own and (repeated := rule(tool.record(""))):
            yield repeated
        for number in [number for number, name in given.use.items() if name == tool.name]:
            if names_tool(outline.texts[number], tool.name):
                yield broken("names tool", f"{tool.name:.60} says in its name what {number} says: call it otherwise.")


def _use_problems(given: _Answer, outline: Outline, offered: Sequence[ToolRecord]) -> Iterator[Broken]:
    known = {tool.name for tool in offered} | {tool.name for tool in given.new}
    for number, name in given.use.items():
        if name not in known:
            yield broken("unknown tool", f"Substep {number} calls {name!r:.60}, which is neither in the list nor new.")
    for (first, _), (second, _) in pairwise(outline.wish.shape.numbered()):
        if given.use.get(first) is not None and given.use.get(first) == given.use.get(second):
            yield broken("neighbours", f"Substeps {first} and {second} both call {given.use[first]:.60}.")


def _workflow(outline: Outline, use: Mapping[str, str], tools: Sequence[ToolRecord]) -> Workflow:
    named, wish, texts = {tool.name: tool for tool in tools}, outline.wish, outline.texts
    steps = tuple(
        (
            texts[str(i)],
            tuple(
                Planned(f"{i}.{j}", texts[f"{i}.{j}"], named[use[f"{i}.{j}"]] if calls else None)
                for j, calls in enumerate(substeps, 1)
            ),
        )
        for i, substeps in enumerate(wish.shape.steps, 1)
    )
    return Workflow(wish.key, wish.topic, wish.shape.user, wish.shape.complexity, outline.goal, steps)


def _schema(outline: Outline) -> dict[str, Any]:
    use = dict.fromkeys(outline.calling, pattern_schema(NAME))
    new = {"type": "array", "items": tool_schema(), "maxItems": len(use)}
    whole = {"new": new, "use": object_schema(use, [*use])}
    return object_schema(whole, [*whole])
