"""Tables about a multi-objective HotpotQA: cases, plans, the ceiling set by retrieval, and easy baselines."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from rich.table import Table

from grid.core.problem import Reference
from grid.core.types import FINISH, RESULT, Json, Observation, ToolCall, to_json
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.parts import KINDS, Sample, always, guessed
from grid.metrics.scores import plan_shape
from grid.text import references
from grid.worlds.search import QUESTION, SEARCH, QuestionWorld

_QUOTED = re.compile(r"'.*'|\".*\"")
CEILINGS = (10, 1)
"""The numbers of paragraphs per search for high and for low robustness (planning_horizon §4.4)."""


def overview(dataset: HotpotQAMulti) -> Table:
    """The numbers of paragraphs, questions and unusable records, and how often cases share questions."""
    table = Table("count", "of", title=dataset.version)
    usable = Counter(part.kind for part in dataset.parts), Counter(part.kind for part in dataset.trainings)
    for name, count in {
        "paragraphs that are searched": len(dataset.searched.paragraphs),
        **{f"{kind} questions of cases": usable[0][kind] for kind in KINDS},
        **{f"{kind} questions of demonstrations": usable[1][kind] for kind in KINDS},
        "records that cannot be used": len(dataset.skipped),
    }.items():
        table.add_row(f"{count:,}", name)
    by_kind = [sample for sample in dataset.records.values() if len(sample.parts) > 1]
    stands = Counter(part.id for sample in by_kind for part in sample.parts)
    if stands:
        table.add_row(
            f"{fmean(stands.values()):.1f}", "cases with several questions that contain the same question, mean"
        )
        table.add_row(f"{_sharing(by_kind):.1%}", "of the pairs of such cases share a question")
    return table


def reasons(dataset: HotpotQAMulti) -> Table:
    """The reasons why records were left out, without the quotations from these records."""
    table = Table("records", "left out because", title="left out")
    for reason, count in Counter(_QUOTED.sub("'...'", skip.reason) for skip in dataset.skipped).most_common():
        table.add_row(str(count), f"{reason:.160}")
    return table


def shapes(dataset: HotpotQAMulti) -> Table:
    """The mean shape of the reference plans, in calls, by number of questions (planning_horizon §3.1)."""
    table = Table(
        "questions", "cases", "bridge", "calls", "depth", "breadth", title="reference plans, means over cases"
    )
    for number, own in _by_number(dataset):
        plans = [plan_shape(Reference(sample.calls(), sample.resolution())) for sample in own]
        bridges = [sum(part.kind == KINDS[0] for part in sample.parts) for sample in own]
        means = (fmean(plan[name] for plan in plans) for name in ("plan_nodes", "depth", "breadth"))
        table.add_row(number, str(len(own)), f"{fmean(bridges):.2f}", *(f"{mean:.2f}" for mean in means))
    return table


async def ceilings(dataset: HotpotQAMulti) -> Table:
    """The share of cases that the reference's calls resolve, for each reader and number of paragraphs.

    The reader `evidence` knows the reference's results and needs only the right paragraph; its share is the ceiling
    that retrieval sets. The reader `rules` finds results by rules, in place of a model.
    """
    columns = [f"{reader}, top {most}" for reader in ("evidence", "rules") for most in CEILINGS]
    title = f"cases that the reference's calls resolve, {dataset.retrieval}"
    table = Table("questions", "cases", *columns, title=title)
    for number, own in _by_number(dataset):
        found = defaultdict[str, list[bool]](list)
        for sample in own:
            for most in CEILINGS:
                world = dataset.world(sample).reading(most)
                found[f"evidence, top {most}"].append(await replayed(world.by_reference(), sample))
                found[f"rules, top {most}"].append(await replayed(world, sample))
        table.add_row(number, str(len(own)), *(f"{fmean(found[column]):.1%}" for column in columns))
    return table


def easy(dataset: HotpotQAMulti) -> Table:
    """The shares of cases that are resolved by answering without reading; for guesses, the mean probability."""
    commonest = dataset.constants.overall or "none"
    headers = ("always yes", "always no", f"commonest: {commonest:.40}", "commonest by last function", "guessing")
    table = Table("questions", "cases", *headers, title="cases that are answered correctly without reading")
    for number, own in _by_number(dataset):
        told = [dataset.constants.right(sample) for sample in own]
        shares = [fmean(always(answer, sample) for sample in own) for answer in ("yes", "no")]
        shares += [fmean(one.get(name, False) for one in told) for name in _CONSTANTS]
        shares.append(fmean(map(guessed, own)))
        table.add_row(number, str(len(own)), *(f"{share:.1%}" for share in shares))
    return table


_CONSTANTS = ("constant_success", "constant_by_function_success")


async def replayed(world: QuestionWorld, sample: Sample) -> bool:
    """Whether the reference's calls, followed by a finish with the calls' results, resolve a case."""
    return world.resolved((await observed(world, sample))[1])


async def observed(world: QuestionWorld, sample: Sample) -> tuple[Mapping[str, Observation], object]:
    """The observation of each of the reference's calls, and the state after the finish."""
    state, outputs, seen = world.start(), dict[str, Mapping[str, Json]](), dict[str, Observation]()
    for step, call in sample.calls().items():
        state, seen[step] = await world.apply(state, references.resolve(call, outputs))
        outputs[step] = seen[step].content
    finish = ToolCall(FINISH, {"answer": references.answering(sample.resolution())})
    state, _ = await world.apply(state, references.resolve(finish, outputs))
    return seen, state


def _by_number(dataset: HotpotQAMulti) -> Iterator[tuple[str, list[Sample]]]:
    """The cases with each number of questions that any case has, then all cases if there are several such numbers."""
    samples = list(dataset.records.values())
    numbers = sorted({len(sample.parts) for sample in samples})
    for number in numbers:
        yield str(number), [sample for sample in samples if len(sample.parts) == number]
    if len(numbers) > 1:
        yield "all", samples


def _sharing(samples: Sequence[Sample]) -> float:
    """The share of pairs of cases that have a question in common."""
    ids = [{part.id for part in sample.parts} for sample in samples]
    pairs = [bool(one & other) for one, other in combinations(ids, 2)]
    return fmean(pairs) if pairs else 0.0


def tables(dataset: HotpotQAMulti) -> Iterator[Table]:
    """Every table."""
    yield from (overview(dataset), reasons(dataset), shapes(dataset), asyncio.run(ceilings(dataset)), easy(dataset))


def written(dataset: HotpotQAMulti, case_id: str) -> Iterator[str]:
    """A case: its question, the reference's calls with their paragraphs and results, and two demonstrations."""
    sample = dataset.records[case_id]
    world = dataset.world(sample)
    yield from (sample.query, f"answer: {sample.answer}")
    by_reference, _ = asyncio.run(observed(world.by_reference(), sample))
    by_rules, _ = asyncio.run(observed(world, sample))
    evidence, outputs = sample.evidence(), dict[str, Mapping[str, Json]]()
    for step, call in sample.calls().items():
        question = str(references.resolve(call, outputs).arguments[QUESTION])
        found = evidence[question]
        outputs[step] = {RESULT: found.answer}
        yield f"  {step}. {call.tool} {to_json(dict(call.arguments))}"
        if call.tool == SEARCH:
            titles = [one.title for one in world.corpus.nearest(question, world.paragraphs)]
            yield from (f"     {'*' if title == found.title else ' '} {title}" for title in titles)
        yield from (f"     evidence: {by_reference[step].text()}", f"     rules: {by_rules[step].text()}")
    for place, demonstration in enumerate(dataset.demonstrations(case_id, 2), 1):
        yield f"  demonstration {place}: {demonstration.question}"
        yield from (f"     {call.text()}" for call in demonstration.calls.values())
