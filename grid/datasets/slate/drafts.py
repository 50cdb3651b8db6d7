"""One case in the making: a workflow filled with values of the shop, its calls made, its texts written."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from grid.core.types import ToolCall
from grid.datasets.slate import values
from grid.datasets.slate.expressions import ExpressionError
from grid.datasets.slate.outcomes import Ledger, Outcome, type_of
from grid.datasets.slate.records import CallRecord, CaseRecord, StepRecord, SubstepRecord
from grid.datasets.slate.shop import Scene, Shop
from grid.datasets.slate.stock import Stock, StockTool, Substep, Workflow
from grid.datasets.slate.values import Value
from grid.text.references import final_steps, found_in, reference

DRAWS = 300
"""How often a workflow's values are drawn anew until its conditions hold."""
SLOT = re.compile(r"\{([a-z]\w*(?:\.\w+)*)\}")
OUTPUT = re.compile(r"(\d+\.\d+)\.(\w+)")
# The same without a dot: conditions are expressions, and a name there begins with a letter.
_IN_CONDITION = re.compile(r"(?<![\w.])(\d+)\.(\d+)\.([a-z]\w*)")


class DraftError(ValueError):
    """A workflow that cannot be made into a case; the text names what is wrong."""


class Draft:
    """A workflow with its values drawn and its calls made.

    Args:
        stock: the category.
        workflow: the name of one of its workflows.
        shop: the seed's shop.
        rng: what all is drawn from.

    Raises:
        DraftError: a value, a rule or an argument's type is wrong, or no draw of `DRAWS` meets the conditions.
    """

    def __init__(self, stock: Stock, workflow: str, shop: Shop, rng: random.Random):
        self.stock, self.name, self.shop, self.rng = stock, workflow, shop, rng
        self.workflow: Workflow = stock.workflows[workflow]
        for _ in range(DRAWS):
            self.scene: Scene = shop.scene(rng)
            self.ledger = Ledger(stock, shop)
            self.outputs: dict[str, Outcome] = {}
            self.calls: dict[str, CallRecord] = {}
            self.own = self._values()
            for place, substep in self.workflow.calls():
                self.calls[place] = self._call(place, substep)
            failed = next((one for one in self.workflow.must if not self._holds(one)), None)
            if failed is None:
                return
        raise DraftError(f"none of {DRAWS} draws meets {failed!r}")

    def case(self, case_id: str, turn: int) -> CaseRecord:
        """The case; `turn` picks the query, and of each substep's sayings the one that goes with that query."""
        queries = self.workflow.queries
        plan = [
            StepRecord(
                text=self._write(step.step),
                substeps=[
                    SubstepRecord(
                        id=f"{i}.{j}",
                        text=self._write(sub.say[turn % len(sub.say)]),
                        call=self.calls.get(f"{i}.{j}"),
                    )
                    for j, sub in enumerate(step.substeps, 1)
                ],
            )
            for i, step in enumerate(self.workflow.plan, 1)
        ]
        return CaseRecord(
            case_id=case_id,
            user=self.workflow.user,
            category=self.stock.query_category,
            complexity=self.workflow.complexity,
            workflow=self.name,
            query=self._write(queries[turn % len(queries)]),
            plan=plan,
            resolution=_resolution(self.calls),
        )

    def known(self, name: str) -> Value | None:
        """The value of a workflow's own name or of a field of the scene, if there is one."""
        if name in self.own:
            return self.own[name]
        thing, _, field = name.partition(".")
        found = self.scene.get(thing)
        value = found.get(field) if isinstance(found, Mapping) else found if not field else None
        return value if not isinstance(value, Mapping) else None

    def _values(self) -> dict[str, Value]:
        own: dict[str, Value] = {}
        self.own = own
        for name, text in self.workflow.values.items():
            spec = values.parse(text)
            try:
                if spec.kind == "follows":
                    own[name] = self.ledger.value(spec.words[0], {**self.scene, **own})
                elif spec.kind == "offset":
                    own[name] = values.draw(spec, self.rng, {spec.words[0]: self.known(spec.words[0])}, {})
                else:
                    own[name] = values.draw(spec, self.rng, {}, self.shop.pools)
            except ValueError as error:
                raise DraftError(f"value {name}: {error}") from None
        return own

    def _call(self, place: str, substep: Substep) -> CallRecord:
        tool = self.stock.tools.get(substep.call or "")
        if tool is None or substep.call is None:
            raise DraftError(f"{place}: no tool {substep.call!r}")
        given: dict[str, Value] = {}
        shown: dict[str, Any] = {}
        for name, source in substep.arguments.items():
            given[name] = self._source(place, name, source)
            output = OUTPUT.fullmatch(source)
            shown[name] = reference(output[1], output[2]) if output else values.plain(given[name])
            _fits(place, tool, name, given[name])
        try:
            self.outputs[place] = self.ledger.outcome(substep.call, given)
        except ExpressionError as error:
            raise DraftError(f"{place} {substep.call}: {error}") from None
        wrong = [f"{name} is {value!r}" for name, value in self.outputs[place].items() if type_of(value) == "boolean"]
        if wrong or any(not isinstance(value, Value) for value in self.outputs[place].values()):
            raise DraftError(f"{place} {substep.call}: a result is a text, a number or a date; {', '.join(wrong)}")
        outcome = {name: values.plain(value) for name, value in self.outputs[place].items()}
        return CallRecord(tool=substep.call, arguments=shown, outcome=outcome)

    def _source(self, place: str, argument: str, source: str) -> Value:
        if output := OUTPUT.fullmatch(source):
            value = self.outputs.get(output[1], {}).get(output[2])
            if value is None:
                raise DraftError(f"{place} argument {argument}: no earlier output {source}")
            return value
        known = self.known(source)
        if known is None:
            raise DraftError(f"{place} argument {argument}: {source!r} is no value, field of the scene or output")
        return known

    def _holds(self, condition: str) -> bool:
        names = {f"out_{i}_{name}": value for i, outcome in self._numbered() for name, value in outcome.items()}
        text = _IN_CONDITION.sub(lambda found: f"out_{found[1]}_{found[2]}_{found[3]}", condition)
        try:
            return bool(self.ledger.value(text, {**self.scene, **self.own, **names}))
        except ExpressionError as error:
            raise DraftError(f"condition {condition!r}: {error}") from None

    def _numbered(self) -> list[tuple[str, Outcome]]:
        return [(place.replace(".", "_"), outcome) for place, outcome in self.outputs.items()]

    def _write(self, template: str) -> str:
        """A text with its slots filled; what comes twice in it is written the same way."""
        texts: dict[str, str] = {}
        for name in SLOT.findall(template):
            value = self.known(name)
            if value is None:
                raise DraftError(f"text uses {{{name}}}, which is no value and no field of the scene")
            texts.setdefault(name, values.written(value, self.rng))
        return " ".join(SLOT.sub(lambda slot: texts[slot[1]], template).split())


def _resolution(calls: Mapping[str, CallRecord]) -> list[str]:
    """The last call, and the last ones of other aims until at least half of the rest lead to one of them."""
    made = {place: ToolCall(call.tool, call.arguments) for place, call in calls.items()}
    resolving, leading = list[str](), set[str]()
    for place in reversed(final_steps(made)):
        if not resolving or 2 * len(leading - {*resolving}) < len(made) - len(resolving):
            resolving.insert(0, place)
            leading |= _leading_to(place, made)
    return resolving


def _leading_to(place: str, calls: Mapping[str, ToolCall]) -> set[str]:
    """A call and those whose results it needs, at first or second hand."""
    found = {place}
    for producer, _ in found_in(calls[place]):
        found |= _leading_to(producer, calls)
    return found


def _fits(place: str, tool: StockTool, argument: str, value: Value) -> None:
    declared = tool.arguments.get(argument, ("none", ""))[0]
    given = type_of(value)
    if given != declared and (given, declared) != ("integer", "number"):
        raise DraftError(f"{place} argument {argument} is {declared}, but {value!r} is {given}")
