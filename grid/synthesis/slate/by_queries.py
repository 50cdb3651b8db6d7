"""The paper's order: queries, plans, tools, their categories, merged tools, arguments and outcomes (appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

from grid.core.errors import UnfinishedError
from grid.datasets.slate.records import CaseRecord, ToolRecord
from grid.synthesis.slate import grounding, merging, outcomes, outlines, queries, shapes, substeps, tools, wishes
from grid.synthesis.slate.asking import Asker, kept
from grid.synthesis.slate.config import Construction
from grid.synthesis.slate.grounding import Grounded
from grid.synthesis.slate.nearby import Nearby, nearby
from grid.synthesis.slate.outlines import Outline
from grid.synthesis.slate.plans import Workflow
from grid.synthesis.slate.queries import Query
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
    made = await asker.run("tools", [grounding.of_outlines(asker, wanted.domain, plans, near)])
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
