"""The paper's order of stages: queries, plans, tools, categories, merged tools, arguments and outcomes (appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, zip_longest
from typing import Any, Protocol

import numpy as np
from pydantic import BaseModel, TypeAdapter

from grid.core.engine import Section
from grid.core.errors import ConfigError, UnfinishedError
from grid.core.types import Json, to_json
from grid.datasets.slate.drafts import CaseRecord, ToolRecord
from grid.datasets.slate.stats import names_tool
from grid.engines.answer_schema import object_schema
from grid.retrievers.scored import BM25, Dense, Embedder, best, document
from grid.settings.make import make
from grid.synthesis import config as shapes
from grid.synthesis import queries, substeps, tools
from grid.synthesis.asking import NAME, Asker, Broken, Checked, Item, Settled, broken, kept
from grid.synthesis.config import Construction, Domain, slug
from grid.synthesis.plans import OFFERED, Planned, Workflow
from grid.synthesis.queries import Outline, Query, Wish
from grid.synthesis.substeps import coherent, of_case
from grid.synthesis.tools import (
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

Say = Callable[[str], None]


async def cases(asker: Asker, wanted: Construction, say: Say) -> tuple[list[ToolRecord], list[CaseRecord]]:
    """Run the stages that lead to complete cases, starting with the queries; returns the library and the cases.

    The library has at least `sizes.tools` tools per topic, if the model writes enough of them.

    Raises:
        UnfinishedError: none of a stage's products was kept, or the library has only one tool.
        ConfigError: the retriever cannot be used.
        EngineError, DataError, StoreError: as in `construct`.
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
    played = await asker.run("outcomes", (of_case(asker, wanted.domain, one, known) for one in outlined))
    found = kept(played, coherent())
    asker.end()
    return library, found


async def _outlines(asker: Asker, wanted: Construction) -> list[Outline]:
    """Queries and their plans in prose.

    Topics take turns, so that a larger set starts with the same queries as a smaller set.
    """
    domain, sizes = wanted.domain, wanted.sizes
    drawn = {
        topic: shapes.drawn(wanted.seed, topic, domain.users, wanted.complexity, sizes.workflows * sizes.queries)
        for topic in domain.topics
    }
    said = await asker.run("queries", (queries.of_topic(asker, domain, topic, drawn[topic]) for topic in drawn))
    texts = kept(said, queries.distinct())
    asker.end()
    planned = await asker.run("plans", (queries.of_wish(asker, domain, wish) for wish in _in_turn(texts)))
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
    say(f"tools: {new} new tools for {len(found)} plans; {calls - own} of {calls} calls use a tool of an earlier plan")
    return found


async def _categorised(asker: Asker, wanted: Construction, grounded: Sequence[Grounded], say: Say) -> list[ToolRecord]:
    """The plans' tools, each with a category.

    A tool that no answer categorises gets, as its category, the topic of the first query that uses the tool.
    """
    made = [(tool, one.plan.topic) for one in grounded for tool in one.made]
    every = [tool for tool, _ in made]
    batches = [every[start : start + AT_A_TIME] for start in range(0, len(every), AT_A_TIME)]
    lanes = (categorised(asker, wanted.domain, number, batch) for number, batch in enumerate(batches))
    sorted_ones = {tool.name: tool for tool in kept(await asker.run("categories", lanes), lambda _: None)}
    asker.end()
    if left := [tool.name for tool, _ in made if tool.name not in sorted_ones]:
        names = ", ".join(left)
        say(f"categories: {len(left)} tools that no answer sorted get the topic of their first query: {names}")
    return [sorted_ones.get(tool.name) or tool.model_copy(update={"category": topic}) for tool, topic in made]


async def _merged(
    asker: Asker,
    wanted: Construction,
    library: Sequence[ToolRecord],
    grounded: Sequence[Grounded],
    near: Nearby,
    say: Say,
) -> tuple[list[ToolRecord], list[Workflow]]:
    """The library after the merges, and the plans with the merged tools.

    Plans that call the same tools in the same order all get the key of the first such plan, so that their cases form a
    cluster.
    """
    apart = neighbours([one.plan for one in grounded])
    groups = list(together(library, near))
    lanes = (merged(asker, wanted.domain, key, own, apart) for key, own in groups)
    into: dict[str, ToolRecord] = {}
    for one in kept(await asker.run("merging", lanes), lambda _: None):
        into |= one.into
    asker.end()
    named = {tool.name: into.get(tool.name, tool) for tool in library}
    found = list({tool.name: tool for tool in named.values()}.values())
    say(f"merging: {len(library)} tools became {len(found)}")
    plans = [rewritten(one.plan, named) for one in grounded]
    first: dict[tuple[str, ...], str] = {}
    return found, [replace(plan, key=first.setdefault(plan.signature(), plan.key)) for plan in plans]


async def _filled(asker: Asker, wanted: Construction, library: Sequence[ToolRecord]) -> list[ToolRecord]:
    """The library, with more tools for each topic that has fewer than `sizes.tools` tools (figure 13)."""
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


# The tools of plans: similar tools in the library are reused, missing ones are written (egb_slate §3.3, figure 11).


_CHOICE = (
    "- If a tool in the list does what a substep needs, use that tool. Describe a new tool only for something "
    "that none of them does, and make it one that other queries can use too.",
    "- The query states all arguments of the first call. Each later call uses a result of an earlier one.",
    "- Two substeps in a row never call the same tool. Different calls use different tools if they can.",
    "- The result of the last call resolves the query.",
    "- A tool's name does not repeat the text of a substep.",
    "New tools:",
)
_FORM = (
    "Answer with JSON only, as in this example from another domain: under `use`, the tool of each substep that "
    "calls one; under `new`, the tools that are not in the list, if any:",
    to_json({"use": {"1.2": EXAMPLE.name}, "new": [SHOWN]}),
)


class _Answer(BaseModel):
    use: dict[str, str]
    new: list[Written]


@dataclass(frozen=True)
class Grounded:
    """A plan whose substeps have tools; `text` is its query, `made` has the tools that were written for this plan."""

    plan: Workflow
    text: str
    made: tuple[ToolRecord, ...]


async def of_outlines(
    asker: Asker, domain: Domain, outlines: Sequence[Outline], nearby: Nearby
) -> list[Settled[Grounded]]:
    """Choose tools for one plan after another; each may use tools of earlier plans that are nearest to its query."""
    found: list[Settled[Grounded]] = []
    library: list[ToolRecord] = []
    for outline in outlines:
        offered = nearby(outline.wish.text, library, OFFERED)
        listed = ("Existing tools:", *map(line, offered)) if offered else ("There are no tools yet.",)
        sections = (
            Section(
                "role",
                ("You choose the tools that an assistant uses to carry out a plan.", "Rules:", *_CHOICE, *RULES[1:]),
            ),
            notes(domain),
            Section("tools", listed),
            Section(
                "task",
                (
                    f"Query from a {outline.wish.shape.user}: {outline.wish.text}",
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
            told = f"`use` must have exactly these keys: {', '.join(outline.calling)}."
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
                yield broken(
                    "names tool", f"The name of {tool.name:.60} repeats the text of {number}: choose another name."
                )


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


# Sorting tools into categories, and merging a category's tools that do the same thing (egb_slate §3.3, figure 14).


AT_A_TIME = 15
"""Number of tools that one request categorises; 10 to 20 in the paper (figure 14)."""
TOGETHER = 40
"""Maximum number of tools of one category in a merging request.

Larger categories are split into groups of similar tools.
"""
Pair = frozenset[str]
_CATEGORIES = TypeAdapter(dict[str, str])


class _Merged(Written):
    replaces: list[str]


class _MergedAnswer(BaseModel):
    merged: list[_Merged]


@dataclass(frozen=True)
class Merge:
    """A category's merged tools, keyed by the names of the tools that they replace; unchanged tools are left out."""

    into: Mapping[str, ToolRecord]


async def categorised(
    asker: Asker, domain: Domain, number: int, tools: Sequence[ToolRecord]
) -> list[Settled[ToolRecord]]:
    """Ask for some tools' categories, which are topics of the domain; returns the tools with their categories."""
    topics = [f"- {topic}: {about}" for topic, about in domain.topics.items()]
    sections = (
        Section(
            "role",
            (
                "You sort the tools of a service into categories. Each tool belongs to the category of its main "
                "purpose.",
            ),
        ),
        notes(domain),
        Section("tools", ("Categories:", *topics, "Tools:", *map(line, tools))),
    )
    form = ('Answer with JSON only: an object with the category of each tool, {"name_of_tool": "Category", ...}.',)
    schema = {tool.name: {"enum": [*domain.topics]} for tool in tools}

    def check(answer: Mapping[str, Json]) -> Checked[ToolRecord]:
        given = _CATEGORIES.validate_python(dict(answer))
        right = [tool for tool in tools if given.get(tool.name) in domain.topics]
        wrong = [tool.name for tool in tools if tool not in right]
        problems = [broken("category", f"{name} must be in one of the listed categories.") for name in wrong]
        kept = tuple(tool.model_copy(update={"category": given[tool.name]}) for tool in right)
        return Checked(kept, tuple(problems))

    item = Item(f"{number:03}", sections, form, object_schema(schema, [*schema]), check, len(tools))
    return [await asker.settle(item)]


def together(library: Sequence[ToolRecord], nearby: Nearby) -> Iterator[tuple[str, list[ToolRecord]]]:
    """The groups of tools that share a merging request, by key.

    A group is a whole category or, if the category is too large, up to `TOGETHER` similar tools of the category. A tool
    that would be alone is in no group.
    """
    for category in dict.fromkeys(tool.category for tool in library):
        left = [tool for tool in library if tool.category == category]
        number = 0
        while len(left) > 1:
            near = left if len(left) <= TOGETHER else nearby(line(left[0]), left, TOGETHER)
            yield f"{slug(category)}-{number:03}", near
            left = [tool for tool in left if tool not in near]
            number += 1


async def merged(
    asker: Asker, domain: Domain, key: str, tools: Sequence[ToolRecord], apart: Set[Pair]
) -> list[Settled[Merge]]:
    """Ask for groups of tools that do the same thing, and for the tool that replaces each group.

    Pairs in `apart` are never merged.
    """
    sections = (
        Section(
            "role",
            (
                "You tidy up the tool library of a service: tools that do the same thing become one.",
                "Rules:",
                "- Merge only tools that do the same thing, so that a caller could use either. Keep tools that "
                "are merely similar.",
                "- The merged tool has the name of one of them. Its arguments and results fit all calls of the "
                "tools that it replaces.",
                "- A tool is replaced at most once. If no two tools do the same thing, the list is empty.",
                *RULES[3:],
            ),
        ),
        notes(domain),
        Section("tools", ("Tools:", *map(line, tools))),
    )
    form = (
        "Answer with JSON only. In this example from another domain, one tool replaces two:",
        to_json({"merged": [{"replaces": [SHOWN["name"], "tell_rain_ahead"], **SHOWN}]}),
    )

    def check(answer: Mapping[str, Json]) -> Checked[Merge]:
        given = _MergedAnswer.model_validate(answer).merged
        if problems := [*_problems(given, tools, apart)]:
            return Checked((), tuple(problems))
        records = {one.name: one.record(tools[0].category) for one in given}
        return Checked((Merge({name: records[one.name] for one in given for name in one.replaces}),), ())

    return [await asker.settle(Item(key, sections, form, _merging_schema([tool.name for tool in tools]), check))]


def neighbours(plans: Sequence[Workflow]) -> set[Pair]:
    """Pairs of tools in neighbouring substeps.

    If such a pair were merged, the same tool would be called twice in a row.
    """
    return {
        Pair((one.tool.name, other.tool.name))
        for plan in plans
        for one, other in pairwise(plan.substeps)
        if one.tool and other.tool
    }


def rewritten(plan: Workflow, library: Mapping[str, ToolRecord]) -> Workflow:
    """A plan in which each tool is replaced by the tool that `library` has under the old tool's name."""
    steps = tuple(
        (text, tuple(replace(sub, tool=library[sub.tool.name] if sub.tool else None) for sub in substeps))
        for text, substeps in plan.steps
    )
    return replace(plan, steps=steps)


def _problems(given: Sequence[_Merged], tools: Sequence[ToolRecord], apart: Set[Pair]) -> Iterator[Broken]:
    known, taken = {tool.name for tool in tools}, set[str]()
    for one in given:
        yield from tool_problems(one)
        names = set(one.replaces)
        if len(names) < 2 or len(names) < len(one.replaces):
            yield broken("group", f"{one.name:.60} must replace two or more different tools.")
        for name in sorted(names - known):
            yield broken("unknown tool", f"{one.name:.60} replaces {name!r:.60}, which is not in the list.")
        for name in sorted(names & taken):
            yield broken("twice", f"{name:.60} is replaced twice.")
        if one.name not in names:
            yield broken(
                "name", f"{one.name:.60}: a merged tool must have the name of one of the tools that it replaces."
            )
        for pair in combinations(sorted(names & known), 2):
            if Pair(pair) in apart:
                yield broken(
                    "neighbours", f"Keep {pair[0]} and {pair[1]} separate: a plan calls one right after the other."
                )
        taken |= names


def _merging_schema(names: Sequence[str]) -> dict[str, Any]:
    replaces = {"type": "array", "items": {"enum": [*names]}, "minItems": 2, "maxItems": len(names)}
    groups = {"type": "array", "items": tool_schema(names, replaces=replaces), "maxItems": len(names) // 2}
    return object_schema({"merged": groups}, ["merged"])


# Finding the tools nearest to a text in a growing library, by embeddings or by words (egb_slate §3.3).


class Nearby(Protocol):
    """A search in a library for the tools nearest to a text, nearest first; ties keep the library's order."""

    def __call__(self, text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
        """At most `count` tools of the library, those nearest to the text first."""
        ...


def nearby(config: Mapping[str, Any], say: Callable[[str], None]) -> Nearby:
    """The search for tools that a file in conf/retriever describes: `dense` or `bm25`.

    If the embedding model cannot be loaded, the search compares words instead, and the reason is passed to `say`.

    Raises:
        ConfigError: the retriever is neither `dense` nor `bm25`, or it does not have one of the given keys.
    """
    found = make("retriever", config)
    if isinstance(found, BM25):
        return by_words
    if type(found) is not Dense:
        raise ConfigError("retriever._target_", config["_target_"], "a retriever that ranks a library: dense or bm25")
    try:
        found.check("retriever")
        return ByMeaning(found.embedder("retriever"), found.query_prefix)
    except ConfigError as error:
        say(f"tools are found by the words that they share with a query, because embeddings cannot be used: {error}")
        return by_words


def by_words(text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
    """The tools that are nearest to a text by BM25."""
    named = {tool.name: tool for tool in library}
    index = BM25().index({name: tool.spec() for name, tool in named.items()})
    return [named[tool.name] for tool in index.nearest(text)[:count]] if named else []


class ByMeaning:
    """The tools nearest to a text by the cosine of sentence embeddings; a tool's embedding is computed only once."""

    def __init__(self, embedder: Embedder, query_prefix: str) -> None:
        self._embedder, self._prefix = embedder, query_prefix
        self._known: dict[str, np.ndarray] = {}

    def __call__(self, text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
        """At most `count` tools of the library, those nearest to the text first."""
        if not library:
            return []
        texts = [document(tool.spec()) for tool in library]
        new = [one for one in dict.fromkeys(texts) if one not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.texts(new), strict=True))
        scores = np.stack([self._known[one] for one in texts]) @ self._embedder.texts([self._prefix + text])[0]
        return [library[place] for place in best(scores, count)]
