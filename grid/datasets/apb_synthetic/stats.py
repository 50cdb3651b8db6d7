"""The margins of a seed beside the paper's (agent_planning_benchmark §3.1, tables 10 and 11)."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table

from grid.core.chains import Chain
from grid.core.types import to_json
from grid.datasets.apb_synthetic.build import Built
from grid.datasets.apb_synthetic.checks import broken_rules
from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.datasets.apb_synthetic.draw import BINS, CATEGORIES, COUNTS_EXTRANEOUS, HORIZONS, STAGES
from grid.datasets.apb_synthetic.records import UNSOLVABLE
from grid.datasets.apb_synthetic.rules import problems
from grid.datasets.apb_synthetic.stock import categories
from grid.worlds.programs import search
from grid.worlds.programs.scoring import diagnose

FAMILIES = {"holistic": 1109, "stepwise": 900, "extraneous": 1500, "broken": 300, "unsolvable": 400, "costs": 106}
STAGED = 300
"""Cases of each stage (table 15)."""
MEAN_STEPS, MEAN_TOOLS = 12.48, 9.4
LEAST_GOAL_FAMILIES = 60


@dataclass(frozen=True)
class Margin:
    """One figure: the paper's (None: it has none), ours, and how far ours may be from it."""

    name: str
    paper: float | None
    ours: float
    tolerance: float = 0

    @property
    def holds(self) -> bool:
        """Whether ours is within the tolerance."""
        return self.paper is None or abs(self.ours - self.paper) <= self.tolerance + 1e-9


def margins(cases: Sequence[Built]) -> list[Margin]:
    """All figures; tools are counted without `reject` and without those that a setting adds."""
    families = Counter[str](case.kind.task_family for case in cases)
    holistic = [case for case in cases if case.kind.task_family == "holistic"]
    lengths = [len(case.task.reference) for case in holistic]
    categories = Counter(case.kind.task_category for case in holistic)
    return [
        *(Margin(f"{name} cases", paper, families[name]) for name, paper in FAMILIES.items()),
        *_kinds(cases),
        *(Margin(name, paper, categories[name]) for name, paper in CATEGORIES.items()),
        Margin("mean steps", MEAN_STEPS, fmean(lengths), 0.25),
        *(
            Margin(_bin(steps), paper, sum(length in steps for length in lengths), 5)
            for steps, paper in BINS.items()
        ),
        Margin("tools a query", MEAN_TOOLS, fmean(len(case.task.tools) for case in holistic), 0.25),
        Margin("different tools called", None, fmean(len(set(dict(case.task.reference))) for case in holistic)),
        Margin("wanted facts", None, fmean(len(set(case.task.wanted)) for case in holistic)),
        Margin("constraints", None, fmean(len(case.task.constraints) for case in holistic)),
        Margin("goal families", None, len({case.recipe.family for case in cases})),
        Margin("different queries, of the holistic", None, len({case.task.query for case in holistic})),
        Margin("words a query", None, fmean(len(case.task.query.split()) for case in holistic)),
    ]  # fmt: skip


def baselines(cases: Sequence[Built]) -> list[Margin]:
    """What refusing everything comes to: its share of successes by task family, on every tenth case."""
    nothing = Chain((), "it cannot be carried out")
    found = []
    for name in FAMILIES:
        chosen = [case for case in cases if case.kind.task_family == name][::10]
        passed = [diagnose(case.task, case.kind, nothing).correct for case in chosen]
        found.append(Margin(f"refusing everything, success on {name}", None, fmean(passed)))
    return found


def _kinds(cases: Sequence[Built]) -> Iterator[Margin]:
    stepwise = [case.kind for case in cases if case.kind.task_family == "stepwise"]
    single = [kind for kind in stepwise if kind.horizon_k == 1]
    single += [case.kind for case in cases if case.kind.task_family == "stages"]
    for k in HORIZONS:
        yield Margin(f"step-wise, k {k}", 300, sum(kind.horizon_k == k for kind in stepwise))
    for stage in STAGES:
        yield Margin(f"one next step, {stage}", STAGED, sum(kind.stage == stage for kind in single))
    extraneous = [case.kind for case in cases if case.kind.task_family == "extraneous"]
    for count in COUNTS_EXTRANEOUS:
        yield Margin(f"extraneous, n_e {count}", 300, sum(kind.n_extraneous == count for kind in extraneous))
    yield Margin("extraneous, k 1", 750, sum(kind.horizon_k == 1 for kind in extraneous))
    yield Margin("extraneous, holistic", 750, sum(kind.horizon_k is None for kind in extraneous))
    for name in UNSOLVABLE:
        yield Margin(f"unsolvable, {name}", 100, sum(case.kind.unsolvable_kind == name for case in cases))


def _bin(steps: range) -> str:
    return f"of more than {steps.start - 1} steps" if steps.stop > 99 else f"of {steps.start} to {steps.stop - 1} steps"


def tables(dataset: ApbSynthetic) -> Iterator[Table | str]:
    """The margins beside the paper's, and what refusing everything comes to, of all cases of the seed."""
    cases = [dataset.built(name) for name in dataset.records]
    table = Table(title=f"{len(cases)} cases, {dataset.version}")
    for column in ("margin", "paper", "here", "allowed", "holds"):
        table.add_column(column, justify="left" if column == "margin" else "right")
    for one in (*margins(cases), *baselines(cases)):
        allowed = "" if one.paper is None else f"± {one.tolerance:g}" if one.tolerance else "exact"
        paper = "" if one.paper is None else f"{one.paper:g}"
        table.add_row(one.name, paper, f"{one.ours:.5g}", allowed, "yes" if one.holds else "NO")
    yield table
    tasks = [case.task for case in cases if case.kind.task_family == "costs"]
    spent = [sum(task.tools[tool].cost or 0 for tool, _ in task.reference) for task in tasks]
    least = sum(cost == search.least_cost(task) for cost, task in zip(spent, tasks, strict=True))
    yield f"the reference is one of least cost in {least} of {len(tasks)} cases with costs"


def broken(dataset: ApbSynthetic) -> Iterator[str]:
    """Every rule that the stock or a case of the seed breaks, and every margin that is missed."""
    yield from problems(categories())
    cases = [dataset.built(name) for name in dataset.records]
    for built in cases:
        yield from broken_rules(built)
    for one in (*margins(cases), *baselines(cases)):
        if not one.holds:
            yield f"{one.name}: {one.ours:.5g}, and the paper has {one.paper}"


def written(dataset: ApbSynthetic, case_id: str) -> Iterator[str]:
    """A case as a person reads it: query, tools, calls made, reference, wanted facts and constraints."""
    built = dataset.built(case_id)
    task, kind = built.task, built.kind
    yield f"{kind.task_category}; {built.recipe.family}"
    yield from (line for part in task.query.splitlines() for line in textwrap.wrap(part, 110))
    yield "  tools:"
    for tool in task.tools.values():
        mark = "-" if tool.extraneous else "=" if tool.stands_for else " "
        parameters = ", ".join(parameter.name for parameter in tool.spec.parameters)
        yield f"   {mark} {tool.spec.name}({parameters}): {tool.spec.description}"
    for number, done in enumerate(task.done):
        yield f"  done {number} {done.tool} {to_json(dict(done.arguments))} -> {to_json(dict(done.content))}"
    reference = task.reference or built.solvable.reference
    for number, (name, arguments) in list(enumerate(reference))[len(task.done) :]:
        asked = task.horizon is None or number < len(task.done) + task.horizon
        yield f"  {'call' if asked else 'later'} {number} {name} {to_json(dict(arguments))}"
    for goal in task.goals:
        yield f"  wanted: {goal.text} [{goal.tag}]"
    for constraint in task.constraints:
        yield f"  constraint: {constraint.kind} {' '.join(constraint.arguments)}"
    if task.unsolvable:
        yield f"  unsolvable, {task.unsolvable}: {search.derivable(task)}"
