"""A solvable case in the making: constants, facts, tools, reference chain, and its query."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grid.core.types import Json
from grid.core.util import derive_seed
from grid.datasets.apb_synthetic.records import Recipe
from grid.datasets.apb_synthetic.stock import (
    Category,
    Family,
    Frames,
    MadeStep,
    Program,
    Rule,
    expand,
    instead_of,
    tool_of,
)
from grid.text.references import reference
from grid.worlds.programs.model import (
    Applied,
    Constant,
    Constraint,
    Fact,
    Function,
    Goal,
    Task,
    TypedTool,
    distinct,
    fill,
)

_SLOT = re.compile(r"\{(each )?([^{}]+)\}")
_INNER = re.compile(r"<(\w+)>")
_BEGIN = re.compile(r"(^|[.!?] )([a-z]\S*)")
Chain = list[tuple[str, Mapping[str, Json]]]


@dataclass
class Draft:
    """One case. `values` are the constants' by name, `facts` those of all variables."""

    recipe: Recipe
    category: Category
    frames: Frames
    family: Family = field(init=False)
    program: Program = field(init=False)
    rng: random.Random = field(init=False)
    values: dict[str, str] = field(init=False)
    facts: dict[str, Fact] = field(init=False)
    tools: dict[str, TypedTool] = field(init=False)
    constraints: list[Constraint] = field(default_factory=list)
    opening: str = ""
    further: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        recipe, category = self.recipe, self.category
        self.family = category.families[recipe.family]
        self.program = expand(category, recipe.family, recipe.extras, recipe.items)
        self.rng = random.Random(derive_seed(recipe.seed, "apb_synthetic", recipe.base))
        self.values = self._constants()
        self.facts = self._facts()
        self.tools = {name: tool_of(category, name, recipe.items) for name in self.program.functions}
        self.opening = self.rng.choice(self.family.ask)
        self.further = [self.rng.choice(self.family.also[extra].say) for extra in recipe.extras]
        self._restrict()
        self._fill_up()

    def task(self, query: str = "") -> Task:
        """The task as it stands."""
        return Task(
            query=query or self.query(),
            goals=tuple(
                Goal(fact, want.tag, self.written(want.text))
                for want in self.program.wants
                if isinstance(fact := self.facts[want.variable], Applied)
            ),
            constants=tuple(self.constant(name) for name in self.program.told),
            tools=dict(self.tools),
            reference=tuple(self.reference()),
            constraints=tuple(self.constraints),
        )

    def constant(self, name: str) -> Constant:
        """A constant that the query tells."""
        key = name.partition("[")[0]
        type_ = self.program.told[name]
        said = self.category.types[type_].means if self.category.types[type_].file else key.replace("_", " ")
        return Constant(type_, self.values[name], said)

    def reference(self, broken: int | None = None, replacement: TypedTool | None = None) -> Chain:
        """The steps as calls, in order; steps are counted from 0.

        The call of step `broken` is made, fails, and is made again of `replacement`, which has its function from there.
        """
        made: dict[str, str] = {}
        chain: Chain = []
        standing = dict(self.tools)
        for number, step in enumerate(self.program.steps):
            if number == broken and replacement is not None:
                chain.append(self._call(standing[step.function], step, made))
                standing[step.function] = replacement
            tool = standing[step.function]
            call = self._call(tool, step, made)
            made[step.variable] = reference(str(len(chain)), tool.spec.returns[0])
            chain.append(call)
        return chain

    def _call(self, tool: TypedTool, step: MadeStep, made: Mapping[str, str]) -> tuple[str, Mapping[str, Json]]:
        names = [parameter.name for parameter in tool.spec.parameters]
        found = [made.get(name) or self.values[name] for name in step.arguments]
        return tool.spec.name, dict(zip(names, found, strict=True))

    def query(self, instead: Mapping[str, str] | None = None, extra: str = "", files: bool = True) -> str:
        """The query. `instead` maps constants' names to what stands for them, `extra` is one more sentence."""
        texts = [self.opening, *self.further, extra]
        body = _BEGIN.sub(_begun, " ".join(" ".join(self.written(text, instead) for text in texts if text).split()))
        attached = [self.values[name] for name, type_ in self.program.told.items() if self.category.types[type_].file]
        return f"{body}\nFiles: {', '.join(attached)}" if attached and files else body

    def written(self, text: str, instead: Mapping[str, str] | None = None) -> str:
        """A phrasing with its slots filled in."""

        def one(name: str) -> str:
            if instead and name in instead:
                return instead[name]
            return self.category.types[self.program.told[name]].write.replace("{}", self.values[name])

        def slot(match: re.Match[str]) -> str:
            if match[2].startswith("?"):
                return match[2][1:].split("|")[self.recipe.items > 1]
            if match[1]:
                return _listed(
                    [
                        _INNER.sub(lambda inner, place=place: one(self._named(inner[1], place)), match[2])
                        for place in range(self.recipe.items)
                    ]
                )
            if f"{match[2]}[0]" in self.values:
                return _listed([one(f"{match[2]}[{place}]") for place in range(self.recipe.items)])
            return one(match[2])

        return _SLOT.sub(slot, text)

    @property
    def functions(self) -> dict[str, Function]:
        """Those of the tools, by name."""
        return {part.name: part for tool in self.tools.values() for part in tool.parts}

    def sound(self) -> bool:
        """Whether the values of all facts differ."""
        return distinct(list(self.facts.values()), self.functions)

    def count(self, function: str) -> int:
        """How many steps call a function."""
        return sum(step.function == function for step in self.program.steps)

    def _named(self, key: str, place: int) -> str:
        return f"{key}[{place}]" if f"{key}[{place}]" in self.values else key

    def _constants(self) -> dict[str, str]:
        """A value for each, no two alike."""
        found: dict[str, str] = {}
        for name, type_ in self.program.told.items():
            template = self.category.types[type_].draw or ""
            drawn = (fill(template, self.rng) for _ in range(1000))
            found[name] = next(value for value in drawn if value not in found.values())
        for type_ in {type_ for type_ in self.program.told.values() if self.category.types[type_].ordered}:
            names = [name for name, other in self.program.told.items() if other == type_]
            values = sorted((found[name] for name in names), key=_rank)
            found |= dict(zip(names, values, strict=True))
        return found

    def _facts(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {name: self.constant(name) for name in self.program.told}
        for step in self.program.steps:
            found[step.variable] = Applied(step.function, tuple(found[name] for name in step.arguments))
        return found

    def _restrict(self) -> None:
        """The recipe's constraints, each with its sentence."""
        for place in self.recipe.rules:
            rule = self.family.rules[place]
            text = self.written_rule(rule, self.rng.choice(rule.say))
            self.further.append(text)
            self.constraints.append(self._constraint(rule, text))
            if rule.kind == "forbid":
                self.tools[rule.of[0]] = tool_of(self.category, rule.of[0], self.recipe.items)
        if self.recipe.avoid:
            tool = instead_of(self.category, self.recipe.avoid, self.recipe.items)
            text = self.rng.choice(self.frames.forbid_tool).replace("{tool}", tool.spec.name)
            self.further.append(text)
            self.tools[tool.spec.name] = tool
            self.constraints.append(Constraint("forbid_tool", (tool.spec.name,), text))

    def written_rule(self, rule: Rule, text: str) -> str:
        """A rule's sentence; {n} is how often its first function is called, in words."""
        return text.replace("{n}", self.frames.number_words[self.count(rule.of[0])]) if "{n}" in text else text

    def _constraint(self, rule: Rule, text: str) -> Constraint:
        if rule.kind == "at_most":
            return Constraint("at_most", (rule.of[0], str(self.count(rule.of[0]))), text)
        return Constraint("before" if rule.kind == "before" else "forbid_function", tuple(rule.of), text)

    def _fill_up(self) -> None:
        """Tools of the category that the case does not need, up to the recipe's number; all in seeded order."""
        others = [name for name in self.category.functions if name not in self.tools]
        self.rng.shuffle(others)
        for name in others[: max(0, self.recipe.bank - len(self.tools))]:
            self.tools[name] = tool_of(self.category, name, self.recipe.items)
        self.tools = shuffled(self.tools, self.rng)


def shuffled(tools: Mapping[str, TypedTool], rng: random.Random) -> dict[str, TypedTool]:
    """The tools in another order."""
    names = rng.sample(list(tools), len(tools))
    return {name: tools[name] for name in names}


def _begun(match: re.Match[str]) -> str:
    """A sentence's first word with a capital, but for names such as addresses and branches."""
    word = match[2]
    return match[1] + (word if re.search(r"[@/_\d]", word) else word[0].upper() + word[1:])


def _rank(value: str) -> tuple[int, ...]:
    """By which values of an ordered type are compared: days by the calendar, others by their numbers."""
    try:
        return dt.datetime.strptime(value, "%d %B %Y").timetuple()[:3]
    except ValueError:
        return tuple(int(number) for number in re.findall(r"\d+", value))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
