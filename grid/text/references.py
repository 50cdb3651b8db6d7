"""The arguments of a call: their references to earlier outputs, and whether they fit the call's tool.

`OUTPUT_FROM_STEP_i.j.field` is a field of the output of step i.j (egb_slate §3.4, appendix A).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from grid.core.errors import nearest, one_line
from grid.core.problem import Reference
from grid.core.types import FINISH, RESULT, Json, Observation, Parameter, Step, ToolCall, ToolSpec, to_json

PATTERN = re.compile(r"OUTPUT_FROM_STEP_(\d+(?:\.\d+)*)\.([A-Za-z_]\w*)")
_WITH_PART = re.compile(rf"{PATTERN.pattern}(?:(?<=\.{RESULT})\.([A-Za-z_]\w*))?")
"""A reference; if the result is an object, one of its fields may follow `.result`."""


def reference(step: str, field: str) -> str:
    """The text that refers to a field of a step's output."""
    return f"OUTPUT_FROM_STEP_{step}.{field}"


def answering(steps: Sequence[str]) -> str:
    """The answer that a finish call gives, built from these steps' results; several results become numbered lines."""
    results = [reference(step, RESULT) for step in steps]
    return results[0] if len(results) == 1 else numbered(results)


def numbered(texts: Sequence[str]) -> str:
    """Texts as lines that are numbered from 1."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def found_in(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Every pair (step id, field) to which a call's arguments refer, including in nested values."""
    for text in _texts(call):
        yield from PATTERN.findall(text)


def _texts(call: ToolCall) -> Iterator[str]:
    """The texts in a call's arguments, including those in nested values."""
    pending: list[Json] = list(call.arguments.values())
    for value in pending:  # which grows
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def unreadable(call: ToolCall) -> str | None:
    """A text in a call's arguments that begins like a reference but is not one; None if all references can be read."""
    rest = PATTERN.sub("", to_json(dict(call.arguments)))
    place = rest.find("OUTPUT_FROM_STEP")
    return rest[place : place + 40] if place >= 0 else None


def refers(call: ToolCall) -> bool:
    """Whether any argument of a call may contain a reference."""
    return bool(call.arguments) and "OUTPUT_FROM_STEP_" in str(call.arguments)


def resolve(call: ToolCall, outputs: Mapping[str, Mapping[str, Json]]) -> ToolCall:
    """The call with references replaced by the values in `outputs` (fields by step id); unknown references are kept.

    If an output's field `result` is an object, its fields are also fields of the output: `OUTPUT_FROM_STEP_0.year` and
    `OUTPUT_FROM_STEP_0.result.year` are the same.
    """
    return ToolCall(call.tool, {name: _fill(value, outputs) for name, value in call.arguments.items()})


def outputs_of(steps: tuple[Step, ...] | list[Step]) -> dict[str, Mapping[str, Json]]:
    """The output fields, by step id, of the steps that called a tool."""
    return {step.substep.id: step.observation.content for step in steps if isinstance(step.observation, Observation)}


def _fill(value: Json, outputs: Mapping[str, Mapping[str, Json]]) -> Json:
    if isinstance(value, list):
        return [_fill(item, outputs) for item in value]
    if isinstance(value, dict):
        return {name: _fill(item, outputs) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    whole = _WITH_PART.fullmatch(value)
    if whole:
        found, rest = _read(whole, outputs)
        if not rest:
            return found

    def within(match: re.Match[str]) -> str:
        found, rest = _read(match, outputs)
        return (found if isinstance(found, str) else to_json(found)) + rest

    return _WITH_PART.sub(within, value)


def _read(match: re.Match[str], outputs: Mapping[str, Mapping[str, Json]]) -> tuple[Json, str]:
    """A reference's value (the reference itself if it has none), and the rest of the matched text."""
    step, field, part = match.groups()
    output = outputs.get(step, {})
    parts = _parts(output)
    if part in parts:
        return parts[part], ""
    return output.get(field, parts.get(field, reference(step, field))), f".{part}" if part else ""


def _parts(output: Mapping[str, Json]) -> Mapping[str, Json]:
    """The fields of an output's result if the result is an object; otherwise empty."""
    result = output.get(RESULT)
    return result if isinstance(result, dict) else {}


def without_value(call: ToolCall, outputs: Mapping[str, Mapping[str, Json]]) -> str | None:
    """The reason why a reference in a call has no value in `outputs`; None if all references have values.

    If the step has an output, but without the field, the reason lists the existing fields.
    """
    for text in _texts(call):
        for match in _WITH_PART.finditer(text):
            step, field, part = match.groups()
            if step not in outputs:
                return f"refers to the result of call {step}, which is not an earlier call"
            parts = _parts(outputs[step])
            fields = [*dict.fromkeys([*outputs[step], *parts])]
            wanted = part if part and parts and match[0] == text else field
            if wanted not in fields:
                told = f"the result of call {step} has the fields {', '.join(fields)}{nearest(wanted, fields)}"
                return f"refers to {match[0]}, but {told}"
    return None


def order(calls: Mapping[str, ToolCall]) -> list[str]:
    """The step ids of the calls, sorted by the length of their chains, so that each comes after the steps that it uses.

    Steps with chains of the same length keep the given order. Raises the same error as `chains`.
    """
    chain = chains(calls)
    return sorted(chain, key=chain.__getitem__)


def depth(calls: Mapping[str, ToolCall]) -> int:
    """The number of calls in the longest chain of dependent calls (planning_horizon §3.1); 0 if there are no calls.

    Raises the same error as `chains`.
    """
    return max(chains(calls).values(), default=0)


def chains(calls: Mapping[str, ToolCall]) -> dict[str, int]:
    """For each step, the number of calls in the longest chain of dependent calls that ends with the step.

    Raises:
        ValueError: a reference names a step that makes no call, or references form a cycle.
    """
    needs = {step: [producer for producer, _ in found_in(call)] for step, call in calls.items()}
    for step, producers in needs.items():
        for producer in producers:
            if producer not in calls:
                raise ValueError(f"step {step} refers to the output of step {producer}, which makes no call")
    consumers: dict[str, list[str]] = {step: [] for step in calls}
    for step, producers in needs.items():
        for producer in producers:
            consumers[producer].append(step)
    waiting = {step: len(producers) for step, producers in needs.items()}
    chain = dict.fromkeys((step for step, count in waiting.items() if not count), 1)
    ready = list(chain)
    for producer in ready:
        for step in consumers[producer]:
            waiting[step] -= 1
            chain[step] = max(chain.get(step, 1), chain[producer] + 1)
            if not waiting[step]:
                ready.append(step)
    if len(ready) < len(calls):
        circle = ", ".join(step for step in calls if waiting[step])
        raise ValueError(f"references run in a circle among steps {circle}")
    return {step: chain[step] for step in calls}


def final_steps(calls: Mapping[str, ToolCall]) -> list[str]:
    """The steps whose outputs are not used by any other call, in plan order."""
    used = {producer for call in calls.values() for producer, _ in found_in(call)}
    return [step for step in calls if step not in used]


def needed(reference: Reference) -> frozenset[str]:
    """The steps that resolve a case in its reference, and all steps whose outputs they use, directly or indirectly."""
    found, pending = set(reference.resolution), list(reference.resolution)
    for step in pending:  # which grows
        call = reference.calls.get(step)
        new = {producer for producer, _ in found_in(call)} - found if call else set()
        found |= new
        pending += sorted(new)
    return frozenset(found)


# Checking a call's arguments against its tool: the required form, and the reasons why arguments do not fit.


RESULT_REFERENCE = rf"OUTPUT_FROM_STEP_[0-9]{{1,4}}(\.[0-9]{{1,4}}){{0,3}}\.{RESULT}"
"""The texts that an argument of type RESULT accepts, as a regular expression."""
_RESULT = re.compile(RESULT_REFERENCE)
# `$1`, `$1.x`, `OUTPUT_FROM_STEP_1`, `OUTPUT_FROM_STEP_1.value`: the forms in which models refer to a step's result.
_MEANT = re.compile(r"\s*(?:\$|OUTPUT_FROM_STEP_)([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})(?:\.[A-Za-z_][\w.]*)?\s*")
_REASON = 200  # characters
_KINDS: dict[str, type | tuple[type, ...]] = {
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_EXPRESSIONS = ("pattern", "patternProperties", "propertyNames", "format")  # regular expressions may take forever
_FORBIDDING = ("not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems")  # a text would fit these
_LEFT_OUT = frozenset({*_EXPRESSIONS, *_FORBIDDING, "$ref", "$dynamicRef", "$schema", "$id", "uniqueItems"})
_TAKES_RESULTS = attrgetter("takes_results")
_DATA = ("default", "enum", "const", "examples")  # their values are not schemas


def allowed(tool: ToolSpec, parameter: Parameter) -> tuple[str, ...]:
    """The only values that an argument may have; empty if it may have any value.

    For tools that accept results, the values listed in their schemas are binding. For all other tools, listed values
    are not binding, because even the benchmarks' own calls use unlisted values (4 of 6 listed arguments in 100
    UltraTool cases), and a reference may replace a value.
    """
    return parameter.values if tool.takes_results else ()


def take_results(tools: Iterable[ToolSpec]) -> bool:
    """Whether any tool accepts an earlier call's result.

    This function must be fast, since each decision calls it several times.
    """
    return any(map(_TAKES_RESULTS, tools))


def normalised(arguments: Mapping[str, Json], tool: ToolSpec, offered: Iterable[ToolSpec]) -> dict[str, Json]:
    """The arguments in the required form if the `offered` tools accept results; otherwise unchanged.

    Numbers become texts. A text that refers to a step's result (`$1`, `OUTPUT_FROM_STEP_1`) becomes
    `OUTPUT_FROM_STEP_1.result` if the argument accepts a result, or if the text is the whole answer to a question.
    Elsewhere `$1` may be a price.
    """
    if not take_results(offered):
        return dict(arguments)
    results = {parameter.name for parameter in tool.parameters if parameter.type == RESULT or tool.name == FINISH}
    return {name: _normal(value, name in results) for name, value in arguments.items()}


def _normal(value: Json, result: bool) -> Json:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return to_json(value)
    meant = _MEANT.fullmatch(value) if result and isinstance(value, str) else None
    return reference(meant[1], RESULT) if meant else value


def misfit(call: ToolCall, tool: ToolSpec, exact: bool = False) -> str | None:
    """Why a call does not fit its tool; None if it does.

    All required arguments must have a value (null only if the schema allows it, and no empty text), and no argument may
    be given that the tool lacks. A value must have the argument's type or be a text, since references to earlier
    outputs are texts, and models write numbers as texts. An argument for a result must be a reference to a result. For
    tools that accept results and, with `exact`, for all tools, an argument for a text must be a text. For tools that
    accept results, an argument with listed values must have one of these values. Values that are not texts must also
    fit the argument's JSON schema, if it has one.
    """
    known = {parameter.name: parameter for parameter in tool.parameters}
    for name, value in call.arguments.items():
        if name not in known:
            return f"{tool.name} has no argument {name!r:.80}"
        if why := _wrong(value, known[name], tool, exact or tool.takes_results):
            return f"{name} {why}"
    missing = [name for name, one in known.items() if one.required and not _given(call.arguments, one)]
    return f"{tool.name} without {', '.join(missing)}" if missing else None


def _given(arguments: Mapping[str, Json], parameter: Parameter) -> bool:
    """Whether an argument has a value; null is a value if the argument's schema allows it."""
    value = arguments.get(parameter.name)
    nullable = value is None and parameter.name in arguments and parameter.schema
    return value not in (None, "") or bool(nullable and _unfit(None, parameter.schema) is None)


def _wrong(value: Json, parameter: Parameter, tool: ToolSpec, exact: bool) -> str | None:
    if exact and parameter.type not in _KINDS and not isinstance(value, str):
        return f"is not a text: {to_json(value):.80}"
    if not any(_fits(value, kind) for kind in parameter.kinds):
        return f"is no {' or '.join(parameter.kinds)}"
    if parameter.schema and value is not None and (why := _unfit(value, parameter.schema)):
        return f"does not fit its schema: {one_line(why, _REASON)}"
    if parameter.type == RESULT and not (isinstance(value, str) and _RESULT.fullmatch(value)):
        return f"is {value!r:.80}, which is no earlier step's result: {reference('i', RESULT)} is"
    listed = allowed(tool, parameter)
    return f"is {value!r:.80}, which is none of {', '.join(listed)}" if listed and value not in listed else None


def _fits(value: Json, kind: str) -> bool:
    wanted = _KINDS.get(kind)
    if wanted is None or isinstance(value, str) or value is None:
        return True
    return isinstance(value, wanted) and (kind == "boolean" or not isinstance(value, bool))


def misplaced(call: ToolCall, before: Mapping[str, bool]) -> str | None:
    """Why a reference in a call cannot be filled in; None if all references can be filled in.

    Args:
        call: the call with its references.
        before: whether each step before the call may have a result, by step id.
    """
    for step, _ in found_in(call):
        if step not in before:
            return f"it refers to step {step}, which does not come before it"
        if not before[step]:
            return f"it refers to step {step}, which has no result"
    return None


def _unfit(value: Json, schema: str) -> str | None:
    """Why a value does not fit a JSON schema; None if it fits, or if this cannot be determined.

    A text fits every schema: it may refer to an earlier step's output, and models write numbers as texts.
    """
    error = next(iter(_validator(schema).iter_errors(value)), None)
    if error is None:
        return None
    place = "".join(f"[{part!r}]" for part in error.absolute_path)
    return f"{place} {error.message}".strip()


@lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    # Imported inside this function, because few data sets have JSON schemas for arguments, but an import at the top of
    # the file would make every worker load the package.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checks = {name: _but_texts(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    checks["oneOf"] = checks["anyOf"]  # a text may fit several schemas
    return extend(Draft202012Validator, checks)(_checked(json.loads(schema)))


def _but_texts(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any] | None]:
    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        return None if isinstance(instance, str) else check(validator, value, instance, schema)

    return checked


def _checked(schema: Any) -> Any:
    """A schema without the parts that are not checked."""
    if isinstance(schema, list):
        return [_checked(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
    if "patternProperties" in schema:
        kept.pop("additionalProperties", None)
    return {key: _part(key, value) for key, value in kept.items()}


def _part(key: str, value: Any) -> Any:
    if key in _DATA:
        return value
    if key in ("properties", "dependentSchemas") and isinstance(value, dict):
        return {name: _checked(one) for name, one in value.items()}
    return _checked(value)
