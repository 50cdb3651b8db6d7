"""Which cases there are: the paper's families and counts, in the paper's categories and lengths (§3.1, tables 10, 11).

Step-wise and broken cases have bases of their own; extraneous, unsolvable and costs are made of holistic and step-wise
ones, as the paper's are. Step-wise cases are 300 trajectories, cut in the middle and asked for 1, 2 and 3 steps; the
same are cut early and late too, for one step (`stages`): table 14's k = 1 is table 15's middle, to the last digit.
Extraneous tools are put into the cases of one step, as the levels of tables 2 and 16 show.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from grid.core.types import Family as TaskFamily
from grid.core.types import Stage
from grid.core.util import derive_seed
from grid.datasets.apb_synthetic import build
from grid.datasets.apb_synthetic.draft import Draft
from grid.datasets.apb_synthetic.records import UNSOLVABLE, Recipe
from grid.datasets.apb_synthetic.stock import Category, Rule, Shape, categories, expand, frames, shapes

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
"""Holistic cases by category (table 11)."""
BINS: Mapping[range, int] = {range(1, 11): 434, range(11, 21): 590, range(21, 100): 85}
"""Holistic cases by steps (table 10)."""
HOLISTIC = 1109
OF_EACH_K, HORIZONS = 300, (1, 2, 3)
EXTRANEOUS, COUNTS_EXTRANEOUS = 150, (2, 4, 6, 8, 10)
"""Bases of either kind, and tools added."""
BROKEN, OF_EACH_UNSOLVABLE, COSTS = 300, 100, 106
STAGES: tuple[Stage, ...] = ("early", "middle", "late")
MIDDLE: Stage = "middle"
OTHER_STAGES: tuple[Stage, ...] = ("early", "late")
_LENGTHS = {range(4, 6): 36, range(6, 11): 398, range(11, 16): 425, range(16, 21): 165, range(21, 27): 85}
"""Where lengths are sought; inside a range they are even. Their mean is the paper's 12.5."""
_BANKS = (6, 7, 7, 8, 9, 9, 10, 11)
"""How many tools a case has, where it does not need more."""
_MOST_STEPS_COSTS = 10
"""Of cases with costs: the paper's plans cost 13 on average (table 5), which is about five calls."""
_AVOIDED = 0.12
"""Share of cases with a tool that the query forbids by name."""


Finish: TypeAlias = Callable[[Recipe, Category, random.Random], Recipe | None]
"""What makes a solvable recipe one of a task family; None where it cannot be one."""


def draw(seed: int) -> list[Recipe]:
    """All cases of a seed, holistic first."""
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
    """A number shared out in proportion, by the largest remainders."""
    whole = sum(weights.values())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    found = {name: int(share) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: found[name] - exact[name])[: total - sum(found.values())]:
        found[name] += 1
    return found


class Bases:
    """Draws solvable cases of one task family: no two with one query, and none whose facts' values are alike."""

    def __init__(self, task_family: TaskFamily, seed: int, finish: Finish | None = None) -> None:
        self.task_family, self.seed, self.finish = task_family, seed, finish
        self.queries: set[str] = set()
        self.used: Counter[tuple[str, str]] = Counter()

    def drawn(self, count: int) -> list[Recipe]:
        """So many, in the categories' shares and with the lengths' distribution."""
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
            # Some lengths are too short for what is to be cut out of them.
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
        """One of the wanted bin, near the length, of a family that was used least."""
        steps = next(bin_ for bin_ in BINS if length in bin_)
        fitting = [shape for shape in shapes(category) if shape.steps in steps] or list(shapes(category))
        nearest = min(abs(shape.steps - length) for shape in fitting)
        near = [shape for shape in fitting if abs(shape.steps - length) <= nearest + 1]
        least = min(self.used[category.category, shape.family] for shape in near)
        left = [shape for shape in near if self.used[category.category, shape.family] == least]
        # Of three the one with the fewest tools: as in the paper, most calls repeat a tool.
        return min(rng.choices(left, k=3), key=lambda shape: len(shape.functions))


def _lengths(count: int, rng: random.Random) -> Iterator[int]:
    """Steps to be sought, in random order, in the paper's bins."""
    of = {str(number): weight for number, weight in enumerate(_LENGTHS.values())}
    found = []
    for name, share in shares(count, of).items():
        values = list(list(_LENGTHS)[int(name)])
        found += [values[number % len(values)] for number in range(share)]
    yield from rng.sample(found, len(found))


def _rules(category: Category, shape: Shape, rng: random.Random) -> tuple[int, ...]:
    """None, one or two of the family's constraints that the shape can have."""
    family = category.families[shape.family]
    program = expand(category, shape.family, shape.extras, shape.items)
    order = [step.function for step in program.steps]
    fitting = [place for place, rule in enumerate(family.rules) if fits(rule, order)]
    count = rng.choices((0, 1, 2), (3, 5, 2))[0]
    return tuple(sorted(rng.sample(fitting, min(count, len(fitting)))))


def fits(rule: Rule, order: Sequence[str]) -> bool:
    """Whether a chain of these functions can have the rule, and keeps to it."""
    if rule.kind == "forbid":
        return rule.of[0] not in order
    if rule.kind == "at_most":
        return rule.of[0] in order
    return set(rule.of) <= set(order) and order.index(rule.of[0]) < order.index(rule.of[1])


def _avoided(category: Category, shape: Shape, rng: random.Random) -> str | None:
    able = [name for name in shape.functions if name in category.instead]
    return rng.choice(able) if able and rng.random() < _AVOIDED else None


def _place(steps: int, k: int, stage: Stage, rng: random.Random) -> int | None:
    """A place in a third of those that a next call may stand at, with k calls left; None where there is none.

    One call at least was made before. The paper does not say where it cuts.
    """
    third, many = STAGES.index(stage), steps - 1
    begin, end = (1 + many * part // len(STAGES) for part in (third, third + 1))
    end = min(end, steps - k + 1)
    return rng.randrange(begin, end) if begin < end else None


def steps_of(recipe: Recipe) -> int:
    """How many calls the recipe's whole chain has."""
    category = categories()[recipe.category]
    return len(expand(category, recipe.family, recipe.extras, recipe.items).steps)


def _cut_in_the_middle(recipe: Recipe, category: Category, rng: random.Random) -> Recipe | None:
    """The recipe cut where so many calls are left as the longest prediction has."""
    place = _place(steps_of(recipe), max(HORIZONS), MIDDLE, rng)
    return None if place is None else recipe.model_copy(update={"place": place, "stage": MIDDLE})


def _stages(trajectories: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    """The trajectories cut early, and cut late."""
    rng = random.Random(derive_seed(seed, "apb_synthetic", "stages"))
    for stage in OTHER_STAGES:
        for base in trajectories:
            place = _place(steps_of(base), 1, stage, rng)
            own = {"id": f"stages-{base.id}-{stage}", "task_family": "stages", "k": 1, "stage": stage}
            yield base.model_copy(update=own | {"place": place})


def _breakable(recipe: Recipe, category: Category, rng: random.Random) -> Recipe | None:
    """One of its calls behind the first fails, for whose function there is another tool."""
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
    """So many of them, in the categories' shares as far as they reach."""
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
    """Of 150 whole plans and 150 single next steps."""
    bases = _spread(holistic, EXTRANEOUS, seed, "extraneous") + _spread(single, EXTRANEOUS, seed, "extraneous", "1")
    for base in bases:
        for count in COUNTS_EXTRANEOUS:
            yield base.model_copy(
                update={"id": f"extraneous-{base.id}-{count}", "task_family": "extraneous", "n_extraneous": count}
            )


def _unsolvable(holistic: Sequence[Recipe], seed: int) -> Iterator[Recipe]:
    """All four kinds of each base, which has an attachment therefore."""
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
    able = [one for one in short if build.enough(Draft(one, categories()[one.category], frames()))]
    for base in _spread(able, COSTS, seed, "costs"):
        yield base.model_copy(update={"id": f"costs-{base.id}", "task_family": "costs"})
