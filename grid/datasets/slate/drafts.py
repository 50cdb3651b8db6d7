"""A case under construction (a workflow with values from the shop, its calls and its texts), and the files' records.

Outcomes are computed by expressions (`evaluate`) from a call's arguments, the shop and earlier outcomes.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import DataError
from grid.core.problem import Reference
from grid.core.types import Json, Parameter, Plan, ToolCall, ToolSpec
from grid.core.types import Substep as PlanSubstep
from grid.datasets.files import read_jsonl
from grid.datasets.slate.shop import (
    Money,
    Scene,
    Shop,
    Stock,
    StockTool,
    Substep,
    Value,
    Workflow,
    draw,
    fill,
    plain,
    type_of,
    written,
)
from grid.datasets.slate.shop import parse as parse_value
from grid.text import references
from grid.text.references import final_steps, found_in, reference
from grid.worlds.lookup import build_entries

DRAWS = 300
"""Maximum number of times that a workflow's values are drawn until its conditions are met."""
SLOT = re.compile(r"\{([a-z]\w*(?:\.\w+)*)\}")
OUTPUT = re.compile(r"(\d+\.\d+)\.(\w+)")
# A reference to an output in a condition; its replacement starts with a letter and has no dots, as expressions require.
_IN_CONDITION = re.compile(r"(?<![\w.])(\d+)\.(\d+)\.([a-z]\w*)")


class DraftError(ValueError):
    """A workflow cannot be made into a case; the message gives the reason."""


class Draft:
    """A workflow with its values drawn and its calls made.

    Args:
        stock: the category.
        workflow: the name of one of the category's workflows.
        shop: the shop of the seed.
        rng: the random generator for all draws.

    Raises:
        DraftError: a value, a rule or an argument's type is wrong, or none of `DRAWS` draws meets the conditions.
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
        """The case; `turn` selects a query and each substep's text. Raises DraftError for an unknown name in a text."""
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
        """The value with this name (one of the workflow's own values, or a field of the scene), or None."""
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
            spec = parse_value(text)
            try:
                if spec.kind == "follows":
                    own[name] = self.ledger.value(spec.words[0], {**self.scene, **own})
                elif spec.kind == "offset":
                    own[name] = draw(spec, self.rng, {spec.words[0]: self.known(spec.words[0])}, {})
                else:
                    own[name] = draw(spec, self.rng, {}, self.shop.pools)
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
            shown[name] = reference(output[1], output[2]) if output else plain(given[name])
            _fits(place, tool, name, given[name])
        try:
            self.outputs[place] = self.ledger.outcome(substep.call, given)
        except ExpressionError as error:
            raise DraftError(f"{place} {substep.call}: {error}") from None
        wrong = [f"{name} is {value!r}" for name, value in self.outputs[place].items() if type_of(value) == "boolean"]
        if wrong or any(not isinstance(value, Value) for value in self.outputs[place].values()):
            raise DraftError(f"{place} {substep.call}: a result must be a text, a number or a date; {', '.join(wrong)}")
        outcome = {name: plain(value) for name, value in self.outputs[place].items()}
        return CallRecord(tool=substep.call, arguments=shown, outcome=outcome)

    def _source(self, place: str, argument: str, source: str) -> Value:
        if output := OUTPUT.fullmatch(source):
            value = self.outputs.get(output[1], {}).get(output[2])
            if value is None:
                raise DraftError(f"{place} argument {argument}: there is no earlier output {source}")
            return value
        known = self.known(source)
        if known is None:
            raise DraftError(
                f"{place} argument {argument}: {source!r} is neither a value nor a field of the scene nor an output"
            )
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
        """A text with its slots filled. A value that occurs several times is written in the same form each time."""
        texts: dict[str, str] = {}
        for name in SLOT.findall(template):
            value = self.known(name)
            if value is None:
                raise DraftError(f"the text uses {{{name}}}, which is neither a value nor a field of the scene")
            texts.setdefault(name, written(value, self.rng))
        return " ".join(SLOT.sub(lambda slot: texts[slot[1]], template).split())


def _resolution(calls: Mapping[str, CallRecord]) -> list[str]:
    """The last call, and further aims' last calls until the chosen calls depend on at least half of the other calls."""
    made = {place: ToolCall(call.tool, call.arguments) for place, call in calls.items()}
    resolving, leading = list[str](), set[str]()
    for place in reversed(final_steps(made)):
        if not resolving or 2 * len(leading - {*resolving}) < len(made) - len(resolving):
            resolving.insert(0, place)
            leading |= _leading_to(place, made)
    return resolving


def _leading_to(place: str, calls: Mapping[str, ToolCall]) -> set[str]:
    """A call, and all calls whose results it needs directly or indirectly."""
    found = {place}
    for producer, _ in found_in(calls[place]):
        found |= _leading_to(producer, calls)
    return found


def _fits(place: str, tool: StockTool, argument: str, value: Value) -> None:
    declared = tool.arguments.get(argument, ("none", ""))[0]
    given = type_of(value)
    if given != declared and (given, declared) != ("integer", "number"):
        raise DraftError(f"{place} argument {argument} is {declared}, but {value!r} is {given}")


# The outcome of a call, computed from the call's arguments, the shop and earlier calls (egb_slate §3.4).


Outcome = dict[str, Value]


class Ledger:
    """The calls of one case. An identifier issued by a call is the key to the call's arguments and results."""

    def __init__(self, stock: Stock, shop: Shop):
        self.stock, self.shop = stock, shop
        self._issued: dict[str, Mapping[str, Any]] = {}
        self._books: dict[str, Callable[..., Value]] = {
            name: partial(self._book, name, spec) for name, spec in stock.books.items()
        }

    def outcome(self, tool: str, arguments: Mapping[str, Value]) -> Outcome:
        """The outcome of a call; equal arguments yield equal outcomes. Raises ExpressionError if a rule fails.

        Args:
            tool: the name of one of the stock's tools.
            arguments: values by name; dates are `date` objects.
        """
        results: Outcome = {}
        issued = []
        for name, text in self.stock.tools[tool].results.items():
            spec = parse_value(text)
            if spec.kind == "follows":
                results[name] = self.value(spec.words[0], {**arguments, **results})
            else:
                results[name] = fill(spec.words[0], self._digits(tool, name, arguments))
                issued.append(results[name])
        self._issued |= {str(identifier): {**arguments, **results} for identifier in issued}
        return results

    def value(self, expression: str, names: Mapping[str, Any]) -> Any:
        """The value of an expression, which may use records of the shop, issued identifiers and the stock's books."""
        return evaluate(expression, names, self._record, self._books)

    def _record(self, key: str) -> Mapping[str, Any] | None:
        return self._issued.get(key) or self.shop.index.get(key)

    def _digits(self, tool: str, field: str, arguments: Mapping[str, Value]) -> random.Random:
        given = sorted((name, plain(value)) for name, value in arguments.items())
        return random.Random(f"{self.shop.seed}|{tool}|{field}|{given!r}")

    def _book(self, name: str, spec: str, *keys: Value) -> Value:
        return self.shop.book(name, spec, tuple(plain(key) for key in keys))


# The expressions in the stock files. An expression computes a value from other values, the shop and earlier calls.
#
# - `money(quote_id.quote_total * deposit_percent / 100)`
# - `'in time' if request_date <= days_after(order_id.delivered, return_days(sku)) else 'too late'`
#
# A name denotes an argument, a value or a record. `record.field` is a field of a record; `text.field` is a field of the
# record whose key is the text. The stock's books are functions of their keys. Nothing else is evaluated.


MOST_CHARACTERS = 400
Names = Mapping[str, Any]
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _days_after(date: dt.date, days: int) -> dt.date:
    return date + dt.timedelta(days=days)


def _days_between(first: dt.date, last: dt.date) -> int:
    return (last - first).days


def _money(amount: float) -> Money:
    # Half a cent is rounded up, as on a bill; the small term compensates for the error of binary fractions.
    return Money(math.floor(abs(amount) * 100 + 0.5 + 1e-9) / 100 * (1 if amount >= 0 else -1))


def _round(number: float) -> int:
    return math.floor(number + 0.5)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": _round,
    "ceil": math.ceil,
    "floor": math.floor,
    "money": _money,
    "days_after": _days_after,
    "days_between": _days_between,
    "text": str,
}


class ExpressionError(ValueError):
    """An expression cannot be read or evaluated; the message says where."""


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The tree of an expression. Raises ExpressionError if the text is too long or not an expression."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"{text[:60]!r}... has more than {MOST_CHARACTERS} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an expression: {error}") from None


def evaluate(
    text: str, names: Names, record: Callable[[str], Names | None], books: Mapping[str, Callable[..., Value]]
) -> Any:
    """The value of an expression.

    Args:
        text: the expression.
        names: the values of the names in the expression.
        record: a function that returns the record with a given key, or None.
        books: functions by name, in addition to `FUNCTIONS`.

    Raises:
        ExpressionError: the text is not in the language, a name, field or function is unknown, or an operation fails.
    """

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id=name):
                return _named(name, names)
            case ast.Attribute(value=of, attr=field):
                return _field(value(of), field, record)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](value(left), value(right))
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(value(part) for part in parts)
            case ast.BoolOp(values=parts):
                return any(value(part) for part in parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                return value(body) if value(test) else value(other)
            case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARED for op in ops):
                sides = [value(side) for side in (left, *rights)]
                return all(_COMPARED[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                function = FUNCTIONS.get(name) or books.get(name)
                if function is None:
                    raise ExpressionError(
                        f"there is no function or book {name!r}, only {', '.join([*FUNCTIONS, *books])}"
                    )
                return function(*(value(argument) for argument in arguments))
        raise ExpressionError(f"{ast.unparse(node)!r} is not part of the language")

    try:
        return value(parse(text))
    except ExpressionError as error:
        raise ExpressionError(f"{text!r}: {error}") from None
    except (TypeError, ArithmeticError, ValueError) as error:
        raise ExpressionError(f"{text!r}: {error}") from None


def _named(name: str, names: Names) -> Any:
    if name not in names:
        raise ExpressionError(f"there is no name {name!r}, only {', '.join(names)}")
    return names[name]


def _field(of: Any, field: str, record: Callable[[str], Names | None]) -> Any:
    fields = of if isinstance(of, Mapping) else record(of) if isinstance(of, str) else None
    if fields is None:
        raise ExpressionError(f"{of!r} is not the key of a record, so it has no field {field!r}")
    if field not in fields:
        raise ExpressionError(f"there is no field {field!r}, only {', '.join(fields)}")
    return fields[field]


# SLATE's files: `tools.jsonl` and `cases.jsonl`, checked line by line as they are read.


TOOLS, CASES = "tools.jsonl", "cases.jsonl"
T = TypeVar("T", bound="_Record")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ArgumentRecord(_Record):
    """One argument of a tool."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date", "array", "object"]
    description: str


class SameFunctionRecord(_Record):
    """The tool whose function another tool repeats. `arguments` maps the other tool's argument names to this tool's."""

    tool: str
    arguments: dict[str, str]


class ToolRecord(_Record):
    """One line of `tools.jsonl`."""

    name: str = Field(min_length=1)
    category: str
    description: str
    arguments: list[ArgumentRecord]
    results: list[str]
    same_function: SameFunctionRecord | None = None

    def spec(self) -> ToolSpec:
        """The tool as planners see it."""
        parameters = tuple(Parameter(a.name, a.type, a.description) for a in self.arguments)
        return ToolSpec(self.name, self.description, parameters, tuple(self.results), self.category)


class CallRecord(_Record):
    """A reference call and its outcome; arguments may contain `OUTPUT_FROM_STEP_i.j.field`."""

    tool: str
    arguments: dict[str, Any]
    outcome: dict[str, Any] = Field(min_length=1)


class SubstepRecord(_Record):
    """One substep of a plan."""

    id: str = Field(pattern=r"^\d+(\.\d+)+$")
    text: str
    call: CallRecord | None = None


class StepRecord(_Record):
    """One high-level step."""

    text: str
    substeps: list[SubstepRecord] = Field(min_length=1)


class CaseRecord(_Record):
    """One line of `cases.jsonl`. `resolution` names the substeps whose outcomes resolve the case.

    `workflow` names the template from which the case was made. The cases made from one workflow form a cluster.
    """

    case_id: str = Field(min_length=1)
    user: str = Field(min_length=1)
    category: str
    complexity: Literal["simple", "moderate", "complex", "advanced"]
    workflow: str = Field(pattern=r"\S")
    query: str = Field(pattern=r"\S")
    plan: list[StepRecord] = Field(min_length=1)
    resolution: list[str] = Field(min_length=1)

    def substeps(self) -> list[SubstepRecord]:
        """All substeps in plan order."""
        return [substep for step in self.plan for substep in step.substeps]

    def visible_plan(self) -> Plan:
        """The plan without its calls."""
        return Plan(tuple(PlanSubstep(s.id, s.text, step.text) for step in self.plan for s in step.substeps))

    def reference(self) -> Reference:
        """The reference calls and the resolution."""
        calls = {s.id: ToolCall(s.call.tool, s.call.arguments) if s.call else None for s in self.substeps()}
        return Reference(calls, tuple(self.resolution))

    def outcomes(self) -> dict[str, dict[str, Json]]:
        """For each substep id, the outcome of the substep's call."""
        return {s.id: s.call.outcome for s in self.substeps() if s.call}


def read_tools(path: Path) -> dict[str, ToolRecord]:
    """The library by name. Raises DataError for a wrong line or `same_function`, or two different tools of one name."""
    tools: dict[str, ToolRecord] = {}

    def check(tool: ToolRecord) -> None:
        known = tools.get(tool.name)
        if known is not None and known != tool:
            raise ValueError(
                f"tool {tool.name!r} is defined twice with different arguments: "
                f"{[a.name for a in known.arguments]} and {[a.name for a in tool.arguments]}"
            )
        tools[tool.name] = tool

    _read(path, ToolRecord, check)
    for tool in tools.values():
        same = tool.same_function
        if same and same.tool not in tools:
            raise DataError(path, None, f"tool {tool.name!r} is the same as {same.tool!r}, which is not defined")
        if same and not same.arguments.items() <= {(a, b) for a in _names(tool) for b in _names(tools[same.tool])}:
            raise DataError(
                path, None, f"tool {tool.name!r} and {same.tool!r} do not have the arguments that same_function names"
            )
    return tools


def read_cases(path: Path, tools: dict[str, ToolRecord]) -> dict[str, CaseRecord]:
    """The cases by id. Raises DataError with file and line if a line, a call, a reference or a resolution is wrong."""
    cases: dict[str, CaseRecord] = {}

    def check(case: CaseRecord) -> None:
        if case.case_id in cases:
            raise ValueError(f"case {case.case_id!r} comes twice")
        check_case(case, tools)
        cases[case.case_id] = case

    _read(path, CaseRecord, check)
    return cases


def _names(tool: ToolRecord) -> list[str]:
    return [argument.name for argument in tool.arguments]


def _read(path: Path, record: type[T], check: Callable[[T], None]) -> None:
    for line, data in read_jsonl(path, own=True):
        try:
            check(record.model_validate(data))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DataError(path, line, f"{place}={first['input']!r:.80}: {first['msg']}") from None
        except ValueError as error:
            raise DataError(path, line, str(error)) from None


def check_case(case: CaseRecord, tools: dict[str, ToolRecord]) -> None:
    """Raise ValueError if the plan cannot be run as written, or if the resolution names a substep without a call."""
    substeps = case.substeps()
    ids = [substep.id for substep in substeps]
    if len(set(ids)) != len(ids):
        raise ValueError(f"a substep id comes twice among {ids}")
    calls = {s.id: ToolCall(s.call.tool, s.call.arguments) for s in substeps if s.call}
    outcomes = case.outcomes()
    for step, call in calls.items():
        if call.tool not in tools:
            raise ValueError(f"step {step} calls {call.tool!r}, which {TOOLS} does not define")
        unknown = call.arguments.keys() - set(_names(tools[call.tool]))
        if unknown:
            raise ValueError(f"step {step} gives {call.tool} the unknown argument {sorted(unknown)[0]!r}")
    for step, call in calls.items():
        if text := references.unreadable(call):
            raise ValueError(f"step {step}: {text!r} is not a reference of the form OUTPUT_FROM_STEP_i.j.field")
    references.order(calls)
    for step, call in calls.items():
        for producer, field in references.found_in(call):
            if ids.index(producer) > ids.index(step):
                raise ValueError(f"step {step} refers to step {producer}, which comes after it")
            if field not in outcomes[producer]:
                raise ValueError(
                    f"step {step} refers to {producer}.{field}, but that outcome has {list(outcomes[producer])}"
                )
    build_entries(calls, outcomes)
    for step in case.resolution:
        if step not in calls:
            raise ValueError(f"the resolution names step {step!r}, which makes no call")
