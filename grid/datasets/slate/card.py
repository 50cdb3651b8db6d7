"""SLATE's dataset card: Markdown with the head that dataset hubs read. Every figure is measured when it is written.

The words stand in `card.md`, a template without a figure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from grid.core.types import Case, ToolCall, to_json
from grid.core.untrusted import shown
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.export import data, generator_of, scored_cases
from grid.datasets.slate.quality import Figure, figures
from grid.datasets.slate.scoring import METRICS, Calls, Estimate, ScoredCase, Verdict, estimated, judged
from grid.datasets.slate.shop import shop
from grid.datasets.slate.stats import categories, contradictions, statistics
from grid.datasets.slate.stock import load_all
from grid.retrievers.bm25 import BM25
from grid.text.references import needed

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_AGAIN = "contradictions to the shop: outcomes computed again, people and their orders"
_LEAST = 0.001
_TEXTS = Path(__file__).parent / "card.md"


def card(dataset: Slate, seeds: Sequence[int] = ()) -> str:
    """The card of a generated SLATE, of an exported folder, or of files that something else made.

    A generated one stands beside those of other library `seeds`.

    Raises:
        DataError: an exported folder's file is not the one that was exported.
    """
    made = generator_of(dataset)
    sets = [dataset]
    if dataset.path is None:
        sets += [Slate(library_seed=seed, cases=dataset.cases) for seed in seeds if seed != dataset.library_seed]
    names = [f"seed {one.library_seed}" if dataset.path is None else "here" for one in sets]
    graded, described = [figures(one) for one in sets], [statistics(one) for one in sets]
    computed = [again(one) for one in sets] if dataset.path is None else []
    texts = Environment(  # noqa: S701 - Markdown; what comes from the files stands in a fence or in code
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return texts.from_string(_TEXTS.read_text(encoding="utf-8")).render(
        head=head(len(dataset.records), made is not None),
        generator=to_json(made).replace("`", "'") if made else None,
        cases=len(dataset.records),
        tools=len(dataset.tools),
        version=dataset.version,
        offered=OFFERED,
        example=example(dataset),
        statistics=table(
            ["", "paper", *names],
            (
                [of[0].name, f"{of[0].paper:g}", *(f"{one.ours:.4g}" for one in of)]
                for of in zip(*described, strict=True)
            ),
        ),
        categories=table(
            ["category", "tools", "share", "in plans"],
            ([shown(one.name), str(one.tools), _share(one.share), str(one.used)] for one in categories(dataset)),
        ),
        quality=table(
            ["", "target", *names],
            [
                *([[_AGAIN, "none", *computed]] if computed else []),
                *([of[0].name, of[0].target, *map(_value, of)] for of in zip(*graded, strict=True)),
            ],
        ),
        **compared(dataset),
        missed=[f"{one.name}, {_shown(one)} ({one.target})" for one in graded[0] if one.holds is False],
        hashes=table(
            ["file", "bytes", "SHA-256"],
            [
                [f"`{name}`", f"{len(it):,}", f"`{hashlib.sha256(it).hexdigest()}`"]
                for name, it in data(dataset).items()
            ],
        ),
    )


def compared(dataset: Slate) -> dict[str, str]:
    """The tables of baselines and of what retrieval leaves possible."""
    offered = offers(dataset)
    best = ceiling(offered)
    shares = {
        "calls whose tool is offered (recall)": best.recall,
        "cases with the tools of all calls offered": best.all_offered,
        "cases with all tools offered that the resolution takes": best.resolvable,
    }
    rows = map(_baseline, baselines(dataset, scored_cases(dataset), offered))
    return {
        "baselines": table(["", "execution success", "tool match", "action identification"], rows),
        "ceiling": table(["", "here"], [[name, _share(value)] for name, value in shares.items()]),
    }


def head(cases: int, own: bool) -> str:
    """The YAML that hubs read."""
    fields: dict[str, Any] = {
        "pretty_name": "SLATE (agent-grid)" if own else "Plans of tool calls in SLATE's format",
        "license": "cc-by-4.0" if own else "unknown",
        "language": ["en"],
        "multilinguality": ["monolingual"],
        "size_categories": [next((size for most, size in _SIZES if cases < most), "100K<n<1M")],
        "task_categories": ["text-generation"],
        "annotations_creators": ["machine-generated"],
        "source_datasets": ["original"],
        "tags": ["tool-use", "function-calling", "agents", "planning", "benchmark", "synthetic", "e-commerce"],
        "viewer": False,
    }
    kept = fields if own else {key: fields[key] for key in ("pretty_name", "license", "size_categories", "viewer")}
    return f"---\n{yaml.safe_dump(kept, sort_keys=False)}---"


def again(dataset: Slate) -> str:
    """How many contradictions to its shop, among how many outcomes."""
    cases = list(dataset.records.values())
    found = contradictions(cases, load_all(), shop(dataset.library_seed))
    return f"{len(found)} in {sum(len(case.outcomes()) for case in cases)} outcomes"


def example(dataset: Slate) -> str:
    """The first case's query and its first substep with a call, as they stand in the file, in a fence."""
    case = next(iter(dataset.records.values()))
    substeps = [one.model_dump() for one in case.substeps() if one.call][:1]
    text = json.dumps({"query": case.query, "substeps": substeps}, indent=2, ensure_ascii=False)
    fence = "`" * max([3, *(1 + len(run) for run in re.findall("`+", text))])
    return f"{fence}json\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _value(one: Figure) -> str:
    return f"{_shown(one)} (missed)" if one.holds is False else _shown(one)


def _shown(one: Figure) -> str:
    return f"{one.value:.3g}{'%' if one.unit == '%' else ''}"


def _baseline(one: Baseline) -> list[str]:
    bound = "at most " if one.bound else ""
    return [one.name, bound + _estimate(one.success), _estimate(one.tool_match), _estimate(one.action)]


def _estimate(one: Estimate) -> str:
    """A share with its interval."""
    bounds = f" [{_share(one.low)}, {_share(one.high)}]" if one.low is not None and one.high is not None else ""
    return f"{_share(one.mean)}{bounds}"


def _share(value: float) -> str:
    return "<0.1%" if 0 < value < _LEAST else f"{value:.1%}"


# What needs no model on SLATE: the retriever's first tool, chance, and the reference itself; measured case by case.


OFFERED = 50
"""Tools that are offered at a substep, as in the default setting; `no tool` stands beside them."""
_REFERENCE, _FIRST, _CHANCE = "the reference (oracle)", "the retriever's first", "chance"


@dataclass(frozen=True)
class Baseline:
    """One that planners are held against. `bound`: it has no arguments; its success is that of right ones."""

    name: str
    success: Estimate
    tool_match: Estimate
    action: Estimate
    bound: bool


@dataclass(frozen=True)
class Ceiling:
    """What retrieval leaves possible, as shares.

    `recall`: of the reference's calls those whose tool is offered. `all_offered`: cases in which it is for every call.
    `resolvable`: cases in which it, or a tool with the same function, is for every call that the resolution takes.
    """

    recall: float
    all_offered: float
    resolvable: float


@dataclass(frozen=True)
class Offer:
    """A substep: the reference's tool (None: no tool), what is offered, best first, and who would do.

    `right` are the tool and those with the same function; `taken`: the resolution needs this call.
    """

    tool: str | None
    offered: tuple[str, ...]
    right: frozenset[str]
    taken: bool

    @property
    def chance(self) -> float:
        """The probability of one option among the tools and `no tool`."""
        return 1 / (len(self.offered) + 1)


def offers(dataset: Slate) -> dict[str, list[Offer]]:
    """What each substep of each case is offered by BM25."""
    index = BM25(top_k=OFFERED).index(dataset.tools)
    found = {}
    for record in dataset.records.values():
        plan, reference = record.visible_plan(), record.reference()
        asked, taken = Case(record.case_id, record.query, plan), needed(reference)
        repeats: dict[str, set[str]] = {}
        for name, same in dataset.problem(record.case_id).same_function.items():
            repeats.setdefault(same, set()).add(name)
        found[record.case_id] = [
            Offer(
                call.tool if call else None,
                tuple(tool.name for tool in index.retrieve(asked, shown)),
                frozenset({call.tool, *repeats.get(call.tool, ())}) if call else frozenset(),
                shown.id in taken,
            )
            for shown, call in ((shown, reference.calls[shown.id]) for shown in plan.substeps)
        ]
    return found


def ceiling(offered: Mapping[str, Sequence[Offer]]) -> Ceiling:
    """What retrieval leaves possible."""
    calls = [[one for one in substeps if one.tool] for substeps in offered.values()]
    hits = [[one.tool in one.offered for one in substeps] for substeps in calls]
    return Ceiling(
        mean(hit for substeps in hits for hit in substeps),
        mean(map(all, hits)),
        mean(all(one.right & set(one.offered) for one in substeps if one.taken) for substeps in calls),
    )


def baselines(
    dataset: Slate, scored: Mapping[str, ScoredCase], offered: Mapping[str, Sequence[Offer]]
) -> list[Baseline]:
    """The reference, measured by the scorer itself; the retriever's first tool, called at every substep; chance."""
    ways: dict[str, Callable[[str], Verdict]] = {
        _REFERENCE: lambda one: judged(scored[one], dataset.records[one].reference().calls),
        _FIRST: lambda one: _first(scored[one], dataset.records[one].reference().calls, offered[one]),
        _CHANCE: lambda one: _chance(offered[one]),
    }
    found = []
    for name, verdict in ways.items():
        rows = [(case.workflow, verdict(one)) for one, case in scored.items()]
        success, tool_match, action = (
            estimated([(workflow, value) for workflow, row in rows if (value := row[index]) is not None])
            for index in range(len(METRICS))
        )
        found.append(Baseline(name, success, tool_match, action, bound=name != _REFERENCE))
    return found


def _first(case: ScoredCase, calls: Calls, substeps: Sequence[Offer]) -> Verdict:
    """The reference's calls where the first tool does what they do, and calls that mean nothing elsewhere."""
    made = {}
    for (place, call), one in zip(calls.items(), substeps, strict=True):
        first = one.offered[0] if one.offered else ""
        made[place] = call if first in one.right else ToolCall(first, {})
    called = [one for one in substeps if one.tool]
    return Verdict(
        judged(case, made).success,
        mean(one.offered[:1] == (one.tool,) for one in called) if called else None,
        len(called) / len(substeps),
    )


def _chance(substeps: Sequence[Offer]) -> Verdict:
    """Expected values."""
    calls = [one for one in substeps if one.tool]
    return Verdict(
        prod(len(one.right & set(one.offered)) * one.chance for one in calls if one.taken),
        mean((one.tool in one.offered) * one.chance for one in calls) if calls else None,
        mean(1 - one.chance if one.tool else one.chance for one in substeps),
    )
