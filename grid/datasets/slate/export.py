"""SLATE's files for publication: tools, cases, the simulator's tables, a card, a one-file scorer, and their hashes."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from grid.code_digest import digest_of
from grid.core.errors import ConfigError
from grid.core.types import Case, Parameter, ToolCall, to_json
from grid.core.untrusted import shown
from grid.datasets.slate import scoring
from grid.datasets.slate.dataset import Slate, generate
from grid.datasets.slate.quality import Figure, figures
from grid.datasets.slate.scoring import (
    DATA_FILES,
    MANIFEST,
    METRICS,
    Calls,
    Estimate,
    ScoredCase,
    Verdict,
    estimated,
    judged,
    scored_case,
    verified,
)
from grid.datasets.slate.shop import load_all, shop
from grid.datasets.slate.stats import categories, contradictions, statistics
from grid.retrievers.scored import BM25
from grid.text.references import needed
from grid.worlds.lookup import LookupSimulator, default_outcome

CARD, SCORER = "README.md", "score.py"
_NOTICE = """
This file is taken from agent-grid's source code as it stands (licence: Apache-2.0) by `python -m grid.datasets.slate
--export`; it needs Python 3.11 and nothing else. The data beside it has the licence CC BY 4.0.
"""


def simulator_tables(dataset: Slate) -> list[dict[str, Any]]:
    """A record for each case: its calls with their outcomes, equivalent tools, and the default outcome.

    Arguments are concrete: references in the plan are replaced by earlier outcomes. The tools listed under
    `same_function` repeat a tool that the case calls; their `arguments` map their own argument names to that tool's
    argument names.
    """
    found = []
    for case_id in dataset.records:
        world = dataset.problem(case_id).world
        assert isinstance(world, LookupSimulator)  # noqa: S101 - it is the only one of this dataset
        called = {entry.call.tool for entry in world.entries}
        found.append(
            {
                "case_id": case_id,
                "entries": [
                    {
                        "tool": entry.call.tool,
                        "arguments": dict(entry.call.arguments),
                        "outcome": dict(entry.outcome.content),
                        "substeps": sorted(entry.substeps, key=_place),
                    }
                    for entry in world.entries
                ],
                "same_function": {
                    name: {"tool": same.tool, "arguments": dict(same.arguments)}
                    for name, same in sorted(world.same_function.items())
                    if same.tool in called
                },
                "default": dict(default_outcome("{tool}").content),
            }
        )
    return found


def scored_cases(dataset: Slate) -> dict[str, ScoredCase]:
    """The cases as the scorer sees them."""
    parameters: dict[str, dict[str, Parameter]] = {
        name: {one.name: one for one in tool.parameters} for name, tool in dataset.tools.items()
    }
    return {
        table["case_id"]: scored_case(dataset.records[table["case_id"]].model_dump(), table, parameters)
        for table in simulator_tables(dataset)
    }


def scorer() -> str:
    """The source of the standalone scorer."""
    return standalone(scoring.__name__, ["main"], f"{(scoring.__doc__ or '').strip()}\n{_NOTICE}")


def data(dataset: Slate) -> dict[str, bytes]:
    """The contents of the data files by name: the dataset's two files unchanged, and the simulator's tables."""
    tables = "".join(f"{to_json(table)}\n" for table in simulator_tables(dataset)).encode()
    own = {name: (dataset.root / name).read_bytes() for name in DATA_FILES[:2]}
    return {**own, DATA_FILES[2]: tables}


def export(dataset: Slate, folder: Path, card: str) -> list[Path]:
    """Write all files into a new or empty folder, and return their paths; equal arguments always yield equal bytes.

    Raises:
        ConfigError: the folder is not empty, or cannot be written.
        DataError: a data file of the dataset has changed since it was exported.
    """
    files = {**data(dataset), SCORER: scorer().encode(), CARD: card.encode()}
    files[MANIFEST] = f"{json.dumps(manifest(dataset, files), indent=2, ensure_ascii=False)}\n".encode()
    empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(
            "--export", str(folder), f"a folder to which files can be written ({error.strerror})"
        ) from None
    return [folder / name for name in files]


def empty(folder: Path) -> None:
    """Raise ConfigError if a path exists and is not a folder, or is a folder that is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("--export", str(folder), "a folder that is new or empty, because nothing is overwritten")


def manifest(dataset: Slate, files: dict[str, bytes]) -> dict[str, Any]:
    """The version, the generator of the data (None if unknown), and the size and SHA-256 of each file."""
    return {
        "name": "SLATE",
        "version": dataset.version,
        "generator": generator_of(dataset),
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
    }


def generator_of(dataset: Slate) -> Any:
    """The settings and the code that generated the data.

    For a folder, the generator in its manifest, or None.

    Raises:
        DataError: a data file has changed since it was exported.
    """
    if dataset.path is None:
        code = digest_of(generate)
        return {"library_seed": dataset.library_seed, "cases": dataset.cases, "code": code}
    return verified(dataset.root).get("generator") if (dataset.root / MANIFEST).exists() else None


def _place(substep: str) -> list[int]:
    return [int(part) for part in substep.split(".")]


# SLATE's dataset card: Markdown with a head for dataset hubs. Every figure is measured when the card is written.
#
# The text is in `card.md`, a template without figures.


_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_AGAIN = "contradictions to the shop: outcomes computed again, people and their orders"
_LEAST = 0.001
_TEXTS = Path(__file__).parent / "card.md"


def card(dataset: Slate, seeds: Sequence[int] = ()) -> str:
    """The card of a generated SLATE, of an exported folder, or of files from another source.

    The figures of a generated SLATE are shown next to the figures of other library `seeds`.

    Raises:
        DataError: a file in an exported folder has changed since it was exported.
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
    """Two tables: the baselines, and the ceiling that retrieval sets."""
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
    """The YAML head of the card, for dataset hubs."""
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
    """A text with the number of contradictions between cases and the shop, and the number of the cases' outcomes."""
    cases = list(dataset.records.values())
    found = contradictions(cases, load_all(), shop(dataset.library_seed))
    return f"{len(found)} in {sum(len(case.outcomes()) for case in cases)} outcomes"


def example(dataset: Slate) -> str:
    """A code block with the first case's query and its first substep with a call, as in the file."""
    case = next(iter(dataset.records.values()))
    substeps = [one.model_dump() for one in case.substeps() if one.call][:1]
    text = json.dumps({"query": case.query, "substeps": substeps}, indent=2, ensure_ascii=False)
    fence = "`" * max([3, *(1 + len(run) for run in re.findall("`+", text))])
    return f"{fence}json\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table. The first column is for text, the others are for figures."""
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


# Baselines on SLATE without a model, computed case by case: the retriever's first tool, chance, and the reference.


OFFERED = 50
"""Number of tools offered at a substep, in addition to `no tool`, as in the default setting."""
_REFERENCE, _FIRST, _CHANCE = "the reference (oracle)", "the retriever's first", "chance"


@dataclass(frozen=True)
class Baseline:
    """A baseline for planners.

    If `bound`, the baseline gives no arguments; its success is computed with correct arguments.
    """

    name: str
    success: Estimate
    tool_match: Estimate
    action: Estimate
    bound: bool


@dataclass(frozen=True)
class Ceiling:
    """The ceiling that retrieval sets, as shares.

    `recall`: the share of the reference's calls whose tool is offered. `all_offered`: the share of cases in which the
    tools of all calls are offered. `resolvable`: the share of cases in which every call that the resolution needs has
    its tool, or a tool with the same function, among the offered tools.
    """

    recall: float
    all_offered: float
    resolvable: float


@dataclass(frozen=True)
class Offer:
    """A substep: the reference's tool (None: no tool), the offered tools (best first), and the correct tools.

    `right` has the reference's tool and all tools with its function. `taken` says whether the resolution needs this
    call.
    """

    tool: str | None
    offered: tuple[str, ...]
    right: frozenset[str]
    taken: bool

    @property
    def chance(self) -> float:
        """The probability of any single option if one of the offered tools or `no tool` is drawn at random."""
        return 1 / (len(self.offered) + 1)


def offers(dataset: Slate) -> dict[str, list[Offer]]:
    """For each case, the substeps with the tools that BM25 offers."""
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
    """The ceiling that retrieval sets, computed from the offered tools."""
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
    """Three baselines: the reference (scored by the scorer), the retriever's first tool at each substep, and chance."""
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
    """The verdict on calling the first tool, with correct arguments if it has the reference's function."""
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
    """The expected verdict if one of the options is drawn at random at each substep."""
    calls = [one for one in substeps if one.tool]
    return Verdict(
        prod(len(one.right & set(one.offered)) * one.chance for one in calls if one.taken),
        mean((one.tool in one.offered) * one.chance for one in calls) if calls else None,
        mean(1 - one.chance if one.tool else one.chance for one in substeps),
    )


# One file that needs only Python: the source text of some of the project's functions and of everything that they use.
#
# Others can therefore score with the same code as the grid, instead of a copy that may diverge from it.


_OWN = "grid."


class _Module:
    """The source of a module, with its top-level definitions and its top-level imports by name."""

    def __init__(self, name: str) -> None:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(f"there is no module {name}")
        self.name, self.source = name, Path(spec.origin).read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    found |= {one.id: node for one in ast.walk(target) if isinstance(one, ast.Name)}
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """For each imported name, its module and the imported part, which is "" if the module itself is imported."""
        found: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                found |= {one.asname or one.name: (one.name, "") for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
        return found

    def text(self, node: ast.stmt) -> str:
        """A definition as in the file, with its decorators and with a string after it that documents it."""
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)])
        place = self.tree.body.index(node)
        below = self.tree.body[place + 1 : place + 2]
        documented = isinstance(node, ast.Assign | ast.AnnAssign) and below and _is_text(below[0])
        last = below[0].end_lineno if documented else node.end_lineno
        return "\n".join(self.source.splitlines()[first - 1 : last])


def standalone(module: str, roots: Sequence[str], heading: str) -> str:
    """The file: a docstring, imports, and the definitions of `roots` with everything they use, module by module.

    Raises:
        ValueError: a definition needs a package outside the standard library, or two modules define the same name.
    """
    modules: dict[str, _Module] = {}
    wanted: dict[str, set[str]] = {}  # for each module, the names of the definitions that the file needs
    outside: set[tuple[str, str, str]] = set()

    def take(name: str, names: Sequence[str]) -> None:
        if name not in modules:
            modules[name] = _Module(name)
        own = modules[name]
        taken = wanted.get(name, set())
        new = [one for one in names if one not in taken]
        wanted[name] = taken | set(new)
        for one in new:
            for used in _used(own.definitions[one]):
                if used in own.definitions:
                    take(name, [used])
                elif used in own.imports:
                    source, part = own.imports[used]
                    if source.startswith(_OWN) and used == part:
                        take(source, [part])
                    elif source.partition(".")[0] in sys.stdlib_module_names:
                        outside.add((source, part, used))
                    else:
                        raise ValueError(
                            f"{name}: {used} of {source} cannot be part of a file that must run without packages"
                        )

    take(module, roots)
    order = _ordered(modules, wanted)
    _check_names(wanted)
    blocks = [f'"""{heading.strip()}\n"""', "from __future__ import annotations", _imports(outside)]
    for name in order:
        nodes = sorted({id(n): n for n in (modules[name].definitions[one] for one in wanted[name])}.values(), key=_line)
        blocks.append(f"# {name.replace('.', '/')}.py")
        blocks += [modules[name].text(node) for node in nodes]
    return "\n\n\n".join([*blocks, 'if __name__ == "__main__":\n    sys.exit(main())']) + "\n"


def _used(node: ast.stmt) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _ordered(modules: dict[str, _Module], wanted: dict[str, set[str]]) -> list[str]:
    """The modules in order: each module comes after the modules whose definitions it uses."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        used = {one for wants in wanted[name] for one in _used(modules[name].definitions[wants])}
        for source, _ in (modules[name].imports[one] for one in sorted(used & modules[name].imports.keys())):
            if source in modules and source != name:
                visit(source)
        order.append(name)

    for name in wanted:
        visit(name)
    return order


def _check_names(wanted: dict[str, set[str]]) -> None:
    owner: dict[str, str] = {}
    for module, names in wanted.items():
        for name in names:
            if owner.setdefault(name, module) != module:
                raise ValueError(f"{name} is defined in {owner[name]} and in {module}")


def _imports(outside: set[tuple[str, str, str]]) -> str:
    """The import lines. `outside` has triples: module, imported part ("": the whole module), and name in the file."""
    whole, parts = [], dict[str, list[str]]()
    for module, part, name in sorted(outside):
        if part:
            parts.setdefault(module, []).append(part if part == name else f"{part} as {name}")
        else:
            whole.append(f"import {module}" if module == name else f"import {module} as {name}")
    return "\n".join([*whole, *(f"from {module} import {', '.join(names)}" for module, names in parts.items())])


def _line(node: ast.stmt) -> int:
    return node.lineno


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
