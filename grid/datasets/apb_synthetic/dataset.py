"""Generated planning tasks whose plans are checked by computation (agent_planning_benchmark §3.1, B.4, B.5).

The task families, categories, lengths and numbers of tools are the paper's. The cases are not the paper's: they are
typed programs (`grid.worlds.programs.model`) that are made from an authored stock. A case is a goal, its tools and a
reference chain. Whether a chain reaches the goal depends on the facts that its calls find.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.problem import (
    BOTH,
    BRANCHING,
    DIAGNOSED,
    EXAMINED,
    JUDGED,
    PLANS,
    REFERENCES,
    Examine,
    Problem,
    Reference,
    Scorer,
)
from grid.core.types import (
    Case,
    Family,
    Observation,
    Plan,
    Stage,
    Step,
    Substep,
    TaskKind,
    ToolCall,
    ToolSpec,
    Trajectory,
)
from grid.core.types import Family as TaskFamily
from grid.core.util import STRICT, derive_seed, made_once
from grid.datasets.apb_synthetic.build import NOTE, Built, Draft, build, enough
from grid.datasets.apb_synthetic.stock import (
    CASES,
    STOCK,
    UNSOLVABLE,
    Category,
    Recipe,
    Rule,
    Shape,
    categories,
    expand,
    frames,
    instead_of,
    judged_task,
    read,
    resolving,
    shapes,
    tool_of,
    truth,
    useless,
    write,
)
from grid.datasets.dataset import RecordDataset, Stratum, ordered
from grid.datasets.files import fingerprint
from grid.episode.plan_judging import UNSOLVED, plan_examine
from grid.episode.planning import chain_of
from grid.worlds.layers import REJECT_TOOL
from grid.worlds.programs import search
from grid.worlds.programs.model import Task
from grid.worlds.programs.scoring import diagnose
from grid.worlds.programs.world import ProgramWorld

FAMILIES: tuple[Family, ...] = tuple(name for name in get_args(Family) if name != "stages")
"""The task families that the paper counts. The paper's table 15 also uses `stages`."""
ADAPTER = 3
"""Increase this when the same recipes and stock yield different cases, tools or outcomes."""


_PLAIN = ("holistic", "stepwise")
_HORIZONS = ("stepwise", "stages", "extraneous")
"""The families whose cases may ask for a few calls instead of a whole plan."""


@dataclass(config=STRICT)
class ApbSynthetic(RecordDataset[Recipe]):
    """The cases of one seed in the given task families.

    Step-wise cases start after some calls have already been made, and allow `horizon` decisions. Broken cases start
    after a failed call. Every case offers `reject` in addition to its tools. The scorer decides whether a plan
    succeeds:

    - In most cases, the chain must be correct.
    - In a broken case, the plan must replace the failed call, or reach the goal with other tools.
    - In an unsolvable case, the plan must refuse the task and call nothing.

    Args:
        families: the task families to use; `stages` has the trajectories of `stepwise`, cut early and late.
        horizon: keep only those step-wise, staged and extraneous cases that predict this many calls.
        n_extraneous: keep only those extraneous cases that have this many useless tools.
        counterparts: of the holistic and step-wise cases, keep only those from which chosen cases of other families
            were made. `limit` then counts only the kept cases; the cases made from them are added on top.
        scorer: decides which errors a plan has.
        judge_reference: whether a judge sees the reference (§D.1).
    """

    families: Annotated[list[Family], Field(min_length=1)] = Field(default_factory=lambda: list(FAMILIES))
    horizon: Literal[1, 2, 3] | None = None
    n_extraneous: Literal[2, 4, 6, 8, 10] | None = None
    counterparts: bool = False
    scorer: Scorer = "symbolic"
    judge_reference: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def provides(self) -> frozenset[str]:
        """The features of the data set. These features include `examined` only if a model judges the plans."""
        return frozenset({BRANCHING, DIAGNOSED, REFERENCES, *([EXAMINED] if self.asks else [])})

    @property
    def asks(self) -> Mapping[str, str]:
        """The subjects that an evaluator decides on: plans, if the scorer uses an evaluator; otherwise none."""
        return {PLANS: "scorer"} if self.scorer in (JUDGED, BOTH) else {}

    @cached_property
    def root(self) -> Path:
        """The folder that contains `cases.jsonl`; it is generated the first time."""
        return generated(self.seed)

    @cached_property
    def version(self) -> str:
        """The adapter's version, the fingerprints of the stock and of the recipes, and the seed."""
        stock = fingerprint(*sorted(STOCK.glob("*.yaml")), self.root / CASES)
        return f"apb-synthetic-a{ADAPTER}-{stock}-{self.seed}"

    @cached_property
    def records(self) -> Mapping[str, Recipe]:
        """All cases of the seed by id, including those of other families."""
        return {recipe.id: recipe for recipe in read(self.root / CASES)}

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools of the stock, and `reject`. A case may have variants of tools, with a cost or for more items."""
        found = {REJECT_TOOL.name: REJECT_TOOL}
        for category in categories().values():
            tools = [
                *(tool_of(category, name, 1) for name in category.functions),
                *(instead_of(category, name, 1) for name in category.instead),
                *(useless(category, name, 1) for name in category.useless),
            ]
            found |= {tool.spec.name: tool.spec for tool in tools}
        return found

    def chosen(self) -> Sequence[str]:
        """The ids of the cases with the chosen families, horizon and number of useless tools."""
        return [name for name, recipe in self.records.items() if self._chosen(recipe)]

    def strata(self) -> Sequence[Stratum]:
        """Three levels of strata: task families, their categories, and the categories' goal families."""
        return lambda name: self.records[name].task_family, lambda name: self.records[name].category, self.cluster

    def case_ids(self) -> Sequence[str]:
        """At most `limit` ids of chosen cases; with `counterparts`, also the ids of the cases made from these cases.

        A sample keeps the proportions of task families and categories.
        """
        if not self.counterparts:
            return super().case_ids()
        chosen = self.chosen()
        made = [name for name in chosen if self.records[name].task_family not in _PLAIN]
        bases = {self._base(name) for name in made}
        plain = [name for name in chosen if self.records[name].task_family in _PLAIN and self._base(name) in bases]
        kept = ordered(plain, self.order, self.strata())[: self.limit]
        own = {self._base(name) for name in kept}
        return kept + [name for name in made if self._base(name) in own]

    def cluster(self, case_id: str) -> str:
        """The case's goal family, whose cases share functions and phrasings."""
        return self.records[case_id].family

    def problem(self, case_id: str) -> Problem:
        """One case."""
        return self._problems(case_id)

    def built(self, case_id: str) -> Built:
        """A case's task, with its kind, recipe and solvable task."""
        return build(self.records[case_id])

    def _base(self, case_id: str) -> tuple[str, int | None]:
        """The solvable case from which a case was made, and the number of calls that the case asks for (None: all)."""
        return self.records[case_id].base, self.records[case_id].k

    def _chosen(self, recipe: Recipe) -> bool:
        return (
            recipe.task_family in self.families
            and self.horizon in (None, recipe.k if recipe.task_family in _HORIZONS else self.horizon)
            and self.n_extraneous in (None, recipe.n_extraneous or self.n_extraneous)
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The scores of an aborted episode, which has no plan and therefore no correct plan."""
        return UNSOLVED[self.scorer]

    @cached_property
    def _problems(self) -> Callable[[str], Problem]:
        """The function that makes problems. Problems never change, so the function caches the latest ones."""
        return lru_cache(maxsize=1024)(self._problem)

    def _problem(self, case_id: str) -> Problem:
        built = self.built(case_id)
        task = built.task
        offered = _offered(built)
        tools = {tool.name: tool for tool in offered}
        return Problem(
            case=Case(
                case_id,
                task.query,
                Plan(()),
                done=done_steps(built),
                decisions=task.horizon,
                notes=(NOTE,) if built.kind.task_family == "costs" else (),
                diagnosed=True,
            ),
            reference=reference(built),
            world=ProgramWorld(task),
            candidates=lambda case, substep: offered,
            library=tools,
            same_function={tool.spec.name: tool.stands_for for tool in task.tools.values() if tool.stands_for},
            domain=built.kind.task_category,
            own=tuple(tools),
            measure=partial(measure, task, built.kind, least_cost_of(task)),
            examine=self._examine(built),
            kind=built.kind,
        )

    def _examine(self, built: Built) -> Examine | None:
        """The function that asks a judge about a chain; None if the scorer is symbolic."""
        task, kind = built.task, built.kind
        shown = judged_task(task, kind, done_steps(built))
        return plan_examine(shown, self.scorer, self.judge_reference, partial(truth, task, kind))


def reference(built: Built) -> Reference:
    """The reference of a case. An unsolvable case has the reference of the solvable case from which it was made."""
    task = built.solvable
    calls: dict[str, ToolCall | None] = {
        str(place): ToolCall(name, dict(arguments)) for place, (name, arguments) in enumerate(task.reference)
    }
    behind = len(task.done)
    wanted = tuple(str(behind + number) for number in range(task.horizon)) if task.horizon else resolving(task)
    failing = frozenset(str(place) for place, done in enumerate(task.done) if done.failed)
    return Reference(calls, wanted, followed=False, failing=failing, unsolvable=built.kind.task_family == "unsolvable")


def done_steps(built: Built) -> tuple[Step, ...]:
    """The calls that were made before the prediction begins."""
    return tuple(
        Step(
            0,
            Substep(str(place), "", ""),
            call := ToolCall(done.tool, dict(done.arguments)),
            Observation(dict(done.content), done.failed),
            written=call,
        )
        for place, done in enumerate(built.task.done)
    )


def _offered(built: Built) -> tuple[ToolSpec, ...]:
    """The tools in the task's order; `reject` is inserted at a random place that depends on the seed."""
    specs = [tool.spec for tool in built.task.tools.values()]
    rng = random.Random(derive_seed(built.recipe.seed, "reject", built.recipe.id))
    specs.insert(rng.randint(0, len(specs)), REJECT_TOOL)
    return tuple(specs)


def generate(target: Path, seed: int) -> None:
    """Write `cases.jsonl` into an existing folder."""
    write(draw(seed), target / CASES)


def generated(seed: int) -> Path:
    """The cached folder for one seed; it is generated the first time."""
    key = f"{digest_of(generate)}-s{seed}"
    return made_once("apb_synthetic", key, (CASES,), partial(generate, seed=seed))


# Scores of a chain by the symbolic scorer (agent_planning_benchmark §3.3, §4.2).


def least_cost_of(task: Task) -> Callable[[], int | None]:
    """A function that returns the least cost of solving a task. The search runs when the function is first called."""
    return cache(partial(search.least_cost, task))


def measure(
    task: Task, kind: TaskKind, least_cost: Callable[[], int | None], trajectory: Trajectory
) -> Mapping[str, Any]:
    """A plan's metrics, including `success`; `unrefined_*` only after a critique, costs only in the family `costs`."""
    chain = chain_of(trajectory)
    found = diagnose(task, kind, chain)
    scores: dict[str, Any] = {
        "success": found.correct,
        "plan_correct": found.correct,
        "plan_grade": found.grade,
        "plan_errors": tuple(sorted(found.errors)),
        "behaviour": found.behaviour,
        "refused": found.refused,
        "extraneous_calls": found.extraneous_calls,
        "unresolved_arguments": found.unresolved_arguments,
    }
    if kind.task_family == "costs":
        scores |= {"plan_cost": found.cost, "least_cost": least_cost()}
    if trajectory.unrefined is not None:
        before = diagnose(task, kind, trajectory.unrefined)
        scores |= {
            "unrefined_correct": before.correct,
            "unrefined_grade": before.grade,
            "unrefined_errors": tuple(sorted(before.errors)),
        }
    return scores


# Drawing the cases: the paper's families and counts, in the paper's categories and lengths (§3.1, tables 10, 11).
#
# Step-wise and broken cases have their own bases. Extraneous, unsolvable and costs cases are made from holistic and
# step-wise ones, as in the paper. Step-wise cases come from 300 trajectories, each cut in the middle and used three
# times, to ask for 1, 2 and 3 steps. The same trajectories are also cut early and late to ask for one step (`stages`),
# because table 14's figures for k = 1 equal table 15's figures for the middle stage to the last digit. Of the
# step-wise cases, only those that ask for one step get extraneous tools, because the correctness rates in tables 2 and
# 16 are near table 14's rates for one step.


CATEGORIES: Mapping[str, int] = {
    "Software Development": 43, "System Operations & Web Engineering": 106, "Mathematical Reasoning": 38,
    "Statistical Analysis": 61, "Spreadsheet Manipulation": 63, "Financial Modeling": 70,
    "Expense & Budget Management": 55, "Market Research": 59, "Document & Legal Analysis": 32,
    "Art & Aesthetic Analysis": 63, "Scientific & Nature Exploration": 57, "Graphic Design": 70,
    "Narrative & Emotional Analysis": 78, "Professional Communication": 48, "Information Retrieval": 60,
    "Digital Media & Gaming Analytics": 60, "Creative Storytelling & Writing": 14, "Travel & Itinerary Planning": 38,
    "Logistics & Supply Chain": 12, "Consumer Decision Making": 18, "Event Planning": 30,
    "Health & Nutrition Management": 34,
}  # fmt: skip
"""The number of holistic cases in each category (table 11)."""
BINS: Mapping[range, int] = {range(1, 11): 434, range(11, 21): 590, range(21, 100): 85}
"""The number of holistic cases in each range of steps (table 10)."""
HOLISTIC = 1109
OF_EACH_K, HORIZONS = 300, (1, 2, 3)
EXTRANEOUS, COUNTS_EXTRANEOUS = 150, (2, 4, 6, 8, 10)
"""The number of cases of each kind, holistic and step-wise, that get useless tools. Each of these cases is made once
with each of the given numbers of useless tools."""
BROKEN, OF_EACH_UNSOLVABLE, COSTS = 300, 100, 106
STAGES: tuple[Stage, ...] = ("early", "middle", "late")
MIDDLE: Stage = "middle"
OTHER_STAGES: tuple[Stage, ...] = ("early", "late")
_LENGTHS = {range(4, 6): 36, range(6, 11): 398, range(11, 16): 425, range(16, 21): 165, range(21, 27): 85}
"""The number of cases to draw in each range of lengths, evenly within a range; the mean is the paper's 12.5 steps."""
_BANKS = (6, 7, 7, 8, 9, 9, 10, 11)
"""A case's number of tools is drawn from these numbers; a case that needs more tools has more."""
_MOST_STEPS_COSTS = 10
"""Maximum number of steps of a case with costs. The paper's plans cost 13 on average (table 5), which is the cost of
about five calls."""
_AVOIDED = 0.12
"""Share of queries that forbid a tool by name, among the cases with a function that has a second tool."""


Finish: TypeAlias = Callable[[Recipe, Category, random.Random], Recipe | None]
"""A function that turns a solvable recipe into a recipe of a task family, or returns None if that is not possible."""


def draw(seed: int) -> list[Recipe]:
    """All cases of a seed, the holistic ones first."""
    holistic = Bases("holistic", seed).drawn(HOLISTIC)
    trajectories = Bases("stepwise", seed, _cut_in_the_middle).drawn(OF_EACH_K)
    stepwise = [base.model_copy(update={"id": f"{base.id}-{k}", "k": k}) for k in HORIZONS for base in trajectories]
    return [
        *holistic,
        *stepwise,
        *_extraneous(holistic, [one for one in stepwise if one.k == 1], seed),
        *Bases("broken", seed, _breakable).drawn(BROKEN),
        *_unsolvable(holistic, seed),
        *_costs(holistic, seed),
        *_stages(trajectories, seed),
    ]


def shares(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide a total in proportion to weights (the largest-remainder method)."""
    whole = sum(weights.values())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    found = {name: int(share) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: found[name] - exact[name])[: total - sum(found.values())]:
        found[name] += 1
    return found


class Bases:
    """Draw solvable cases of one task family: no two cases share a query, and no two facts of a case share a value."""

    def __init__(self, task_family: TaskFamily, seed: int, finish: Finish | None = None) -> None:
        self.task_family, self.seed, self.finish = task_family, seed, finish
        self.queries: set[str] = set()
        self.used: Counter[tuple[str, str]] = Counter()

    def drawn(self, count: int) -> list[Recipe]:
        """Draw `count` cases with shares as in `CATEGORIES` and `_LENGTHS`; raises ValueError if one cannot be made."""
        rng = random.Random(derive_seed(self.seed, "apb_synthetic", self.task_family, 0))
        stock = categories()
        quotas = shares(count, {name: CATEGORIES[name] for name in stock})
        names = [name for name, quota in quotas.items() for _ in range(quota)]
        lengths = list(_lengths(count, rng))
        rng.shuffle(names)
        return [
            self._one(stock[name], length, f"{self.task_family}-{number:04d}", rng)
            for number, (name, length) in enumerate(zip(names, lengths, strict=True))
        ]

    def _one(self, category: Category, length: int, name: str, rng: random.Random) -> Recipe:
        for attempt in range(200):
            # Later attempts use longer chains, because some lengths are too short to be cut.
            shape = self._shape(category, length + attempt // 20, rng)
            recipe: Recipe | None = Recipe(
                id=name,
                base=f"{name}-{attempt}",
                task_family=self.task_family,
                category=category.category,
                family=shape.family,
                items=shape.items,
                extras=shape.extras,
                rules=_rules(category, shape, rng),
                avoid=_avoided(category, shape, rng),
                bank=rng.choice(_BANKS),
                seed=self.seed,
            )
            if self.finish is not None and recipe is not None:
                recipe = self.finish(recipe, category, rng)
            if recipe is None:
                continue
            draft = Draft(recipe, category, frames())
            query = draft.query()
            if query not in self.queries and draft.sound():
                self.queries.add(query)
                self.used[category.category, shape.family] += 1
                return recipe
        raise ValueError(f"{name}: no case of {category.category} with about {length} steps can be drawn")

    def _shape(self, category: Category, length: int, rng: random.Random) -> Shape:
        """A shape from one of the least used goal families with about `length` steps, in its bin (or any) of `BINS`."""
        steps = next(bin_ for bin_ in BINS if length in bin_)
        fitting = [shape for shape in shapes(category) if shape.steps in steps] or list(shapes(category))
        nearest = min(abs(shape.steps - length) for shape in fitting)
        near = [shape for shape in fitting if abs(shape.steps - length) <= nearest + 1]
        least = min(self.used[category.category, shape.family] for shape in near)
        left = [shape for shape in near if self.used[category.category, shape.family] == least]
        # Of three shapes, take the one with the fewest tools, because in the paper most calls repeat a tool.
        return min(rng.choices(left, k=3), key=lambda shape: len(shape.functions))


def _lengths(count: int, rng: random.Random) -> Iterator[int]:
    """The numbers of steps to aim for, in random order; their distribution follows the paper's bins."""
    of = {str(number): weight for number, weight in enumerate(_LENGTHS.values())}
    found = []
    for name, share in shares(count, of).items():
        values = list(list(_LENGTHS)[int(name)])
        found += [values[number % len(values)] for number in range(share)]
    yield from rng.sample(found, len(found))


def _rules(category: Category, shape: Shape, rng: random.Random) -> tuple[int, ...]:
    """Draw zero, one or two of the family's constraints that fit the shape; return their indices."""
    family = category.families[shape.family]
    program = expand(category, shape.family, shape.extras, shape.items)
    order = [step.function for step in program.steps]
    fitting = [place for place, rule in enumerate(family.rules) if fits(rule, order)]
    count = rng.choices((0, 1, 2), (3, 5, 2))[0]
    return tuple(sorted(rng.sample(fitting, min(count, len(fitting)))))


def fits(rule: Rule, order: Sequence[str]) -> bool:
    """Whether a rule can apply to a chain that calls these functions in this order, and the chain obeys the rule."""
    if rule.kind == "forbid":
        return rule.of[0] not in order
    if rule.kind == "at_most":
        return rule.of[0] in order
    return set(rule.of) <= set(order) and order.index(rule.of[0]) < order.index(rule.of[1])


def _avoided(category: Category, shape: Shape, rng: random.Random) -> str | None:
    able = [name for name in shape.functions if name in category.instead]
    return rng.choice(able) if able and rng.random() < _AVOIDED else None


def _place(steps: int, k: int, stage: Stage, rng: random.Random) -> int | None:
    """Draw the next call's place in the stage's third of all places, with at least `k` calls left; None if impossible.

    At least one call comes before the place. The paper does not say where it cuts its chains.
    """
    third, many = STAGES.index(stage), steps - 1
    begin, end = (1 + many * part // len(STAGES) for part in (third, third + 1))
    end = min(end, steps - k + 1)
    return rng.randrange(begin, end) if begin < end else None


def steps_of(recipe: Recipe) -> int:
    """The number of calls in the recipe's whole chain."""
    category = categories()[recipe.category]
    return len(expand(category, recipe.family, recipe.extras, recipe.items).steps)


def _cut_in_the_middle(recipe: Recipe, category: Category, rng: random.Random) -> Recipe | None:
    """The recipe, cut in the middle with enough calls left for the longest prediction; None if that is not possible."""
    place = _place(steps_of(recipe), max(HORIZONS), MIDDLE, rng)
    return None if place is None else recipe.model_copy(update={"place": place, "stage": MIDDLE})


def _stages(trajectories: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    """Recipes for all trajectories cut early, then for all trajectories cut late."""
    rng = random.Random(derive_seed(seed, "apb_synthetic", "stages"))
    for stage in OTHER_STAGES:
        for base in trajectories:
            place = _place(steps_of(base), 1, stage, rng)
            own = {"id": f"stages-{base.id}-{stage}", "task_family": "stages", "k": 1, "stage": stage}
            yield base.model_copy(update=own | {"place": place})


def _breakable(recipe: Recipe, category: Category, rng: random.Random) -> Recipe | None:
    """The recipe with a failing call (never the first), whose function has a second tool; None if there is no such."""
    program = expand(category, recipe.family, recipe.extras, recipe.items)
    rules = [category.families[recipe.family].rules[place] for place in recipe.rules]
    limited = {rule.of[0] for rule in rules if rule.kind == "at_most"}
    able = [
        place
        for place, step in enumerate(program.steps)
        if place and step.function in category.instead and step.function not in limited
    ]
    if not able:
        return None
    place = rng.choice(able)
    stage = STAGES[min(2, 3 * place // len(program.steps))]
    return recipe.model_copy(update={"place": place, "k": 1, "stage": stage, "avoid": None})


def _spread(recipes: Sequence[Recipe], count: int, seed: int, *key: str) -> list[Recipe]:
    """Draw `count` of the recipes. Each category gets its share, unless it has too few recipes."""
    rng = random.Random(derive_seed(seed, "apb_synthetic", *key))
    by_category: dict[str, list[Recipe]] = {}
    for recipe in rng.sample(list(recipes), len(recipes)):
        by_category.setdefault(recipe.category, []).append(recipe)
    found: list[Recipe] = []
    while len(found) < count:
        left = {name: CATEGORIES[name] for name, waiting in by_category.items() if waiting}
        if not left:
            raise ValueError(f"{'-'.join(key)}: only {len(found)} of {count} cases can be drawn")
        for name, share in shares(count - len(found), left).items():
            found += by_category[name][:share]
            del by_category[name][:share]
    return found


def _extraneous(holistic: Sequence[Recipe], single: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    """The extraneous cases, made from 150 cases that ask for whole plans and 150 that ask for one next step."""
    bases = _spread(holistic, EXTRANEOUS, seed, "extraneous") + _spread(single, EXTRANEOUS, seed, "extraneous", "1")
    for base in bases:
        for count in COUNTS_EXTRANEOUS:
            yield base.model_copy(
                update={"id": f"extraneous-{base.id}-{count}", "task_family": "extraneous", "n_extraneous": count}
            )


def _unsolvable(holistic: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    """Four unsolvable cases from each base, one of each kind; so a base needs an attachment and a private constant."""
    able = [one for one in holistic if one.avoid is None and _attached(one)]
    for base in _spread(able, OF_EACH_UNSOLVABLE, seed, "unsolvable"):
        for kind in UNSOLVABLE:
            yield base.model_copy(
                update={"id": f"unsolvable-{base.id}-{kind}", "task_family": "unsolvable", "unsolvable": kind}
            )


def _attached(recipe: Recipe) -> bool:
    category = categories()[recipe.category]
    told = expand(category, recipe.family, recipe.extras, recipe.items).told.values()
    return any(category.types[type_].file for type_ in told) and any(category.types[type_].private for type_ in told)


def _costs(holistic: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    short = [one for one in holistic if steps_of(one) <= _MOST_STEPS_COSTS]
    able = [one for one in short if enough(Draft(one, categories()[one.category], frames()))]
    for base in _spread(able, COSTS, seed, "costs"):
        yield base.model_copy(update={"id": f"costs-{base.id}", "task_family": "costs"})
