"""SLATE as a dataset of the grid: generated once and cached, or read from a folder."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, JUDGED, OUTLINE, REFERENCES, TEXTS, Equivalence, Outline, Problem, Resolution
from grid.core.types import Case, ToolCall, ToolSpec
from grid.core.util import STRICT, made_once
from grid.datasets.dataset import RecordDataset, Stratum
from grid.datasets.files import fingerprint, folder
from grid.datasets.slate.drafts import (
    CASES,
    ArgumentRecord,
    CaseRecord,
    Draft,
    DraftError,
    SameFunctionRecord,
    ToolRecord,
    read_cases,
    read_tools,
)
from grid.datasets.slate.drafts import TOOLS as TOOLS_FILE
from grid.datasets.slate.shop import (
    ArgumentType,
    Complexity,
    Neighbour,
    Shop,
    Stock,
    StockTool,
    load_all,
    shop,
)
from grid.text.references import final_steps
from grid.worlds.lookup import LookupSimulator, SameFunction, build_entries


@dataclass(config=STRICT)
class Slate(RecordDataset[CaseRecord]):
    """SLATE (egb_slate §3). Without `path`, SLATE is generated from the stock with `library_seed` and `cases`.

    A case is resolved if the outcomes named in its record are reached. A generated record names the outcome of the
    case's last call (§6.1: the final result) and, if the query has further aims, the outcomes of their last calls, but
    only until the named calls depend on at least half of the other calls. If `resolution` is `all`, a case is resolved
    by the outcomes of all calls whose results no other call uses. With a `limit`, the cases are a sample in which query
    categories, and each category's workflows, keep their proportions, unless `order` is `file`. Cases with more than
    `max_substeps` substeps are removed before the sample is drawn.
    """

    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE, BRANCHING, REFERENCES})
    path: str | None = None
    max_substeps: Annotated[int, Field(ge=1)] | None = None
    library_seed: Annotated[int, Field(ge=0)] = 0
    cases: Annotated[int, Field(ge=1, le=100_000)] = 300
    outline: Outline = field(default="given", kw_only=True)
    resolution: Resolution = "last"
    equivalence: Equivalence = "rules"

    @property
    def asks(self) -> Mapping[str, str]:
        """The questions that an evaluator decides: if configured, whether texts mean the same thing; otherwise none."""
        return {TEXTS: "equivalence"} if self.equivalence == JUDGED else {}

    @cached_property
    def root(self) -> Path:
        """The folder that contains `tools.jsonl` and `cases.jsonl`."""
        if self.path is not None:
            return folder("dataset.path", self.path, TOOLS_FILE, CASES)
        return generated(self.library_seed, self.cases)

    @cached_property
    def version(self) -> str:
        """The files' fingerprint."""
        return f"slate-{fingerprint(self.root / TOOLS_FILE, self.root / CASES)}"

    @cached_property
    def tool_records(self) -> dict[str, ToolRecord]:
        """The library's records by name."""
        return read_tools(self.root / TOOLS_FILE)

    @cached_property
    def records(self) -> dict[str, CaseRecord]:
        """All cases by id; raises ConfigError if there is none."""
        cases = read_cases(self.root / CASES, self.tool_records)
        if not cases:
            raise ConfigError("dataset.path", self.path, f"{CASES} holds no case")
        return cases

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The library as planners see it."""
        return MappingProxyType({name: record.spec() for name, record in self.tool_records.items()})

    def chosen(self) -> Sequence[str]:
        """The cases with at most `max_substeps` substeps."""
        longest = self.max_substeps or math.inf
        return [name for name, case in self.records.items() if len(case.visible_plan().substeps) <= longest]

    def strata(self) -> Sequence[Stratum]:
        """Two levels of strata: query categories, then the workflows of a category."""
        return lambda name: self.records[name].category, self.cluster

    def cluster(self, case_id: str) -> str:
        """The workflow from which the case was drawn."""
        return self.records[case_id].workflow

    def problem(self, case_id: str) -> Problem:
        """One case. The lookup simulator stands in for the tools."""
        return self._problems(case_id)

    @cached_property
    def _problems(self) -> Callable[[str], Problem]:
        """The function that makes problems. Problems never change, so the function caches the latest ones."""
        return lru_cache(maxsize=1024)(self._problem)

    def _problem(self, case_id: str) -> Problem:
        record = self.records[case_id]
        reference = record.reference()
        calls: dict[str, ToolCall] = {step: call for step, call in reference.calls.items() if call}
        if self.resolution == "all":
            reference = replace(reference, resolution=tuple(final_steps(calls)))
        entries = build_entries(calls, record.outcomes(), tools=self.tools)
        library = tuple(self.tools.values())
        return Problem(
            case=Case(case_id, record.query, record.visible_plan()),
            reference=reference,
            world=LookupSimulator(entries, frozenset(reference.resolution), self._same_function),
            candidates=lambda case, substep: library,
            library=self.tools,
            same_function={name: same.tool for name, same in self._same_function.items()},
        )

    @cached_property
    def _same_function(self) -> dict[str, SameFunction]:
        return {
            name: SameFunction(record.same_function.tool, record.same_function.arguments)
            for name, record in self.tool_records.items()
            if record.same_function
        }


def generate(target: Path, library_seed: int, cases: int) -> None:
    """Write `tools.jsonl` and `cases.jsonl` into an existing folder."""
    stocks = load_all()
    library = build_library(stocks, random.Random(f"library-{library_seed}"))
    records = build_cases(stocks, shop(library_seed), cases, library_seed)
    for name, lines in ((TOOLS_FILE, library), (CASES, records)):
        text = "".join(json.dumps(line.model_dump(), ensure_ascii=False) + "\n" for line in lines)
        (target / name).write_text(text, encoding="utf-8")


def generated(library_seed: int, cases: int) -> Path:
    """The cached folder for one seed and number of cases; the files are made if there is no such folder yet."""
    return made_once(
        "slate",
        f"{digest_of(generate)}-s{library_seed}-n{cases}",
        (TOOLS_FILE, CASES),
        partial(generate, library_seed=library_seed, cases=cases),
    )


# SLATE's cases: a query, a hierarchical plan with calls and outcomes, and a resolution (egb_slate §3, appendix D).


SHARES: dict[Complexity, float] = {"simple": 0.0, "moderate": 0.1, "complex": 0.8, "advanced": 0.1}
"""The share of cases with each complexity (appendix D, figure 9)."""
User = Literal["buyer", "seller"]


def build_cases(stocks: Sequence[Stock], shop: Shop, count: int, seed: int) -> list[CaseRecord]:
    """Draw `count` cases. Users alternate, complexities follow `SHARES`, and workflows are used equally often.

    Raises:
        ValueError: the stock has no workflow for a user and complexity, or a workflow cannot be made into a case.
    """
    rng = random.Random(f"slate-{seed}")
    of_user: dict[User, list[Complexity]] = {
        "buyer": _complexities((count + 1) // 2, rng),
        "seller": _complexities(count // 2, rng),
    }
    decks: dict[tuple[User, Complexity], Iterator[tuple[Stock, str]]] = {}
    dealt: Counter[str] = Counter()
    cases = []
    for index in range(count):
        user: User = "buyer" if index % 2 == 0 else "seller"
        complexity = of_user[user].pop()
        if (user, complexity) not in decks:
            decks[user, complexity] = _deal(stocks, user, complexity, rng)
        stock, workflow = next(decks[user, complexity])
        draws = random.Random(f"slate-{seed}-{index}")
        try:
            draft = Draft(stock, workflow, shop, draws)
            cases.append(draft.case(f"slate-{index:04d}", seed + dealt[workflow]))
        except DraftError as error:
            raise DraftError(f"{stock.query_category}, workflow {workflow}: {error}") from None
        dealt[workflow] += 1
    return cases


def _complexities(count: int, rng: random.Random) -> list[Complexity]:
    drawn: list[Complexity] = [name for name, share in SHARES.items() for _ in range(round(share * count))]
    drawn = (drawn + ["complex"] * count)[:count]
    rng.shuffle(drawn)
    return drawn


def _deal(
    stocks: Sequence[Stock], user: User, complexity: Complexity, rng: random.Random
) -> Iterator[tuple[Stock, str]]:
    """Endless rounds of all workflows for a user and complexity; each workflow comes with its stock.

    Each round has a new random order.
    """
    deck = [(s, n) for s in stocks for n, w in s.workflows.items() if (w.user, w.complexity) == (user, complexity)]
    if not deck:
        raise ValueError(f"the stock has no {complexity} workflow for a {user}")
    while True:
        yield from rng.sample(deck, len(deck))


# SLATE's tool library: 1,000 tools from the stock. In egb_slate (table 2), a tool has 3.05 arguments on average.


TOOLS = 1000


def build_library(stocks: Iterable[Stock], rng: random.Random) -> list[ToolRecord]:
    """All tools that plans use, their equivalents, and other neighbours up to `TOOLS` tools in total, in random order.

    Raises:
        ValueError: the stock has too few tools, too many of the first two kinds, or two tools with the same name.
    """
    hosts = [(name, tool) for stock in stocks for name, tool in stock.tools.items()]
    used = [_host(name, tool) for name, tool in hosts]
    neighbours = [_neighbour(name, near, host, tool) for host, tool in hosts for name, near in tool.neighbours.items()]
    names = [tool.name for tool in [*used, *neighbours]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the stock names these tools twice: {', '.join(twice)}")
    if len(names) < TOOLS:
        raise ValueError(f"the stock has {len(names)} tools, but {TOOLS} are needed")
    equivalents = [tool for tool in neighbours if tool.same_function]
    others = [tool for tool in neighbours if not tool.same_function]
    library = [*used, *equivalents, *rng.sample(others, TOOLS - len(used) - len(equivalents))]
    rng.shuffle(library)
    return library


def _host(name: str, tool: StockTool) -> ToolRecord:
    return ToolRecord(
        name=name,
        category=tool.category,
        description=tool.description,
        arguments=_arguments(tool.arguments),
        results=list(tool.results),
    )


def _neighbour(name: str, near: Neighbour, host: str, tool: StockTool) -> ToolRecord:
    same = None
    if near.equivalent:
        same = SameFunctionRecord(tool=host, arguments=dict(zip(near.arguments, tool.arguments, strict=True)))
    return ToolRecord(
        name=name,
        category=tool.category,
        description=near.description,
        arguments=_arguments(near.arguments),
        results=list(tool.results) if near.equivalent else near.results,
        same_function=same,
    )


def _arguments(declared: Mapping[str, tuple[ArgumentType, str]]) -> list[ArgumentRecord]:
    return [ArgumentRecord(name=name, type=kind, description=text) for name, (kind, text) in declared.items()]
