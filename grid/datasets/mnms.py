"""m&m's (Ma et al. 2024): requests, each with a plan that uses one or more of 33 multi-modal tools.

No tool is run: a call returns only names. Like the benchmark's own plan metrics, the figures therefore tell whether the
right calls were made with the right links. The figures say nothing about the content of real outputs.
"""

from __future__ import annotations

import ast
import hashlib
import re
import string
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import Problem, Reference
from grid.core.types import (
    Case,
    Json,
    Observation,
    Plan,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import STRICT
from grid.core.world import State, own_state
from grid.datasets.dataset import FileDataset, Stratum, UnusableError
from grid.datasets.mnms_records import (
    SPECS,
    SUFFIXES,
    TOOLS,
    Calls,
    Kind,
    Record,
    Split,
    as_links,
    as_references,
    read_record,
    read_rows,
)
from grid.metrics.closed_set import PlanF1, closed_set_scores
from grid.text import references
from grid.worlds.schema import ERROR

# The tools of m&m's are simulated: a call returns only names; no image is drawn and no text is written.
#
# A call that fits its tool returns a handle such as `image-3fa91c07` for each field of its output. The handle depends
# on the call alone, so a call has the same handles in all cases, and handles reveal nothing about a reference.


_FIELDS = "|".join(sorted({field for tool in TOOLS.values() for field in tool.gives}))
_HANDLE = re.compile(rf"\b(?:{_FIELDS})-[0-9a-f]{{8}}\b")
_SHOWN = 80  # characters shown of a value in an error
_WANTED: Mapping[Kind, str] = {
    "image": "an image file of the request or an earlier image",
    "audio": "an audio file of the request",
    "objects": "an earlier list of objects",
    "object": "an earlier object",
    "integer": "a number or an earlier one",
    "text": "a text, in which earlier texts and numbers may stand",
}


class _RefusedError(Exception):
    """The reason why a call does not fit and is refused."""


@plain_dataclass(frozen=True)
class MadeState:
    """The calls that succeeded, as sorted pairs (tool, digest of the call). A call made twice is listed twice."""

    calls: tuple[tuple[str, str], ...] = ()

    @cached_property
    def handles(self) -> Mapping[str, Kind]:
        """The handles that the calls returned, with their kinds."""
        return {f"{field}-{digest}": kind for tool, digest in self.calls for field, kind in TOOLS[tool].gives.items()}


@plain_dataclass(frozen=True)
class MnmsWorld:
    """One case's tools.

    A case is resolved when all calls of one of its `plans` were made, each as often as in the plan.

    Other calls may be made as well. Two calls are equal if their values are equal for the scorer, which compares them
    as texts, ignoring case. Arguments for images, audio and objects accept an earlier output of their kind, or one of
    `files` with a suffix of that kind; any other value is refused with a reason. A text may contain earlier texts and
    numbers, but no other handle; a number has a digit or is an earlier number. Calls with missing arguments, or with
    arguments that the tool does not have, are refused too.
    """

    files: frozenset[str]
    plans: tuple[MadeState, ...] = ()
    begin: MadeState = MadeState()
    branches: ClassVar[bool] = True

    def start(self) -> MadeState:
        """The state after the calls that precede the case."""
        return self.begin

    async def apply(self, state: State, call: ToolCall) -> tuple[MadeState, Observation]:
        """The new state, and the handles by output field; `{"error"}` if the call does not fit."""
        return self.respond(own_state(state, MadeState), call)

    def respond(self, state: MadeState, call: ToolCall) -> tuple[MadeState, Observation]:
        """The same as `apply`."""
        try:
            self._check(state, call)
        except _RefusedError as refused:
            return state, Observation({ERROR: str(refused)}, failed=True)
        digest = _digest(call)
        outputs: dict[str, Json] = {field: f"{field}-{digest}" for field in TOOLS[call.tool].gives}
        return MadeState(tuple(sorted((*state.calls, (call.tool, digest))))), Observation(outputs)

    def resolved(self, state: State) -> bool:
        """Whether all calls of at least one plan were made."""
        made = Counter(own_state(state, MadeState).calls)
        return any(Counter(plan.calls) <= made for plan in self.plans)

    def answer(self, state: State) -> str | None:
        """None, because handles are not answers."""
        return None

    def run(self, plan: Calls) -> tuple[list[Step], MadeState, str | None]:
        """A plan's steps from the empty state up to the first failure, the state after them, and the error, if any."""
        state, steps = MadeState(), list[Step]()
        for place, written in enumerate(map(as_references, plan)):
            call = references.resolve(written, references.outputs_of(steps))
            state, observation = self.respond(state, call)
            if observation.failed:
                return steps, state, str(observation.content[ERROR])
            steps.append(Step(0, Substep(str(place), "", ""), call, observation, written=written))
        return steps, state, None

    def _check(self, state: MadeState, call: ToolCall) -> None:
        tool = TOOLS.get(call.tool)
        if tool is None:
            raise _RefusedError(f"there is no tool {call.tool:.60}")
        missing = [name for name in tool.takes if call.arguments.get(name) in (None, "")]
        unknown = [name for name in call.arguments if name not in tool.takes]
        if missing or unknown:
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"takes no {', '.join(unknown)[:_SHOWN]}"] if unknown else []
            raise _RefusedError(f"the call of {call.tool} {' and '.join(parts)}")
        for name, kind in tool.takes.items():
            if not self._fits(kind, call.arguments[name], state.handles):
                shown = str(call.arguments[name])[:_SHOWN]
                raise _RefusedError(f"{name} of {call.tool} must be {_WANTED[kind]}, not {shown}")

    def _fits(self, kind: Kind, value: Json, handles: Mapping[str, Kind]) -> bool:
        if isinstance(value, list | dict | None):
            return False
        text = str(value)
        if kind not in ("text", "integer"):
            return handles.get(text) == kind or (text in self.files and text.endswith(SUFFIXES.get(kind, ("\0",))))
        held = _HANDLE.findall(text)
        if "OUTPUT_FROM_STEP" in text or any(handles.get(handle) not in ("text", "integer") for handle in held):
            return False
        if kind == "integer" and held:
            return handles.get(text) == "integer"
        return kind == "text" or any(map(str.isdigit, text))


def _digest(call: ToolCall) -> str:
    """Eight hexadecimal digits, which are the same for calls of one tool whose values are equal for the scorer."""
    values = {name: str(value).lower() for name, value in sorted(call.arguments.items())}
    return hashlib.blake2b(to_json([call.tool, values]).encode(), digest_size=4).hexdigest()


@plain_dataclass(frozen=True)
class _Usable:
    """A record whose plans can be run, its world with the end states of all plans, and the steps of the first plan."""

    record: Record
    world: MnmsWorld
    steps: tuple[Step, ...]

    def behind(self, place: int) -> MnmsWorld:
        """The world of one call of the plan.

        The world starts after the plan's earlier calls, and this call resolves the case.
        """
        own = self.record.plans[0]
        begin, end = (self.world.run(own[:count])[1] for count in (place, place + 1))
        return MnmsWorld(self.world.files, (end,), begin)

    def closed_set(
        self, trajectory: Trajectory, reference: Reference, place: int | None, plan_f1: PlanF1
    ) -> Mapping[str, Any]:
        """ToolTree's four F1 scores, for a path or for one of its steps; they ignore alternatives to the reference.

        If a call contains an earlier output literally, even inside a text, this counts as a reference to the output.
        """
        done = self.steps[: place or 0]
        plan, made = made_plan((*done, *trajectory.steps)), [step for step in trajectory.steps if step.call]
        steps = tuple(
            replace(step, substep=Substep(str(number), "", ""), written=as_references(plan[number]))
            for number, step in enumerate(made, len(done))
        )
        concrete = {step.substep.id: step.call for step in self.steps if step.call}
        outcomes = {step.substep.id: step.observation.content for step in self.steps if step.observation}
        decisions = None if place is None else 1
        path = replace(trajectory, steps=steps)
        return closed_set_scores(path, reference, concrete, outcomes, done, decisions, plan_f1)


@dataclass(config=STRICT)
class Mnms(FileDataset[_Usable]):
    """The requests of one file. `path` is a folder with `<split>.json`, as released.

    `mode=end_to_end`: a case is a request, and is resolved when all calls of its plan have been made with the plan's
    arguments and links, in any order; other calls make no difference. `step_by_step`: a case is one call of a plan,
    which must be made in one decision, after the plan's earlier calls. With `alternatives`, a path may also follow one
    of the further plans that the release gives for a request. The path is then compared with the plan whose tools are
    most similar to the path's tools (as with the scorer's option `use_best_match`, which the authors' own command does
    not use).
    """

    split: Split = "test_human_verified_filtered"
    mode: Literal["end_to_end", "step_by_step"] = "end_to_end"
    alternatives: bool = False
    plan_f1: PlanF1 = "links"

    def __post_init__(self) -> None:
        if self.alternatives and self.mode == "step_by_step":
            raise ConfigError(
                "dataset.alternatives", True, "false, because step_by_step takes the steps from the reference"
            )

    @property
    def name(self) -> str:
        """The benchmark's name, followed by the split."""
        return f"mnms-{self.split}"

    @cached_property
    def files(self) -> Sequence[Path]:
        """The file of the split."""
        name = f"{self.split}.json"
        return (self.folder(name) / name,)

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The closed set of tools.

        No file defines these tools, but this property also raises the error for a missing file of requests.
        """
        return SPECS if self.files else {}

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The requests by id."""
        return ((f"mnms-{name}", row) for name, row in read_rows(self.files[0]))

    def record(self, case_id: str, row: Mapping[str, Any]) -> _Usable:
        """A request whose plans can be run."""
        record = read_record(row, self.alternatives)
        world, ends = MnmsWorld(record.files), list[MadeState]()
        for plan in record.plans:
            _, end, error = world.run(plan)
            if error:
                raise UnusableError(f"the plan does not run: {error}")
            if not labels_of(plan).tools:
                raise UnusableError("the scorer finds no call in the plan")
            ends.append(end)
        return _Usable(record, MnmsWorld(record.files, tuple(ends)), tuple(world.run(record.plans[0])[0]))

    def chosen(self) -> Sequence[str]:
        """The ids of all requests or, if the mode is `step_by_step`, of all steps."""
        return list(self._cases)

    def strata(self) -> Sequence[Stratum]:
        """The lengths of plans and, within a length, the plans' tools."""
        return lambda case_id: str(len(self._steps(case_id))), self.cluster

    def cluster(self, case_id: str) -> str:
        """The tools of the case's plan, in order, because the authors wrote the requests for given chains of tools."""
        return "\n".join(step.call.tool for step in self._steps(case_id) if step.call)

    def problem(self, case_id: str) -> Problem:
        """One request, or one step of a request. The problem offers the closed set of tools."""
        name, place = self._cases[case_id]
        used = self.records[name]
        calls = {str(number): as_references(call) for number, call in enumerate(used.record.plans[0])}
        last, done, world = tuple(calls), used.steps[: place or 0], used.world
        measured = partial(measure, tuple(map(labels_of, used.record.plans)))
        if place is not None:
            last, world = (str(place),), used.behind(place)
            measured = partial(measure_step, used.record.plans[0][place], done)
        tools, reference = tuple(SPECS.values()), Reference(calls, last, followed=False)
        return Problem(
            case=Case(case_id, used.record.query, Plan(()), done=done, decisions=None if place is None else 1),
            reference=reference,
            world=world,
            candidates=lambda case, substep: tools,
            library=SPECS,
            same_function={},
            measure=lambda trajectory: {
                **measured(trajectory),
                **used.closed_set(trajectory, reference, place, self.plan_f1),
            },
        )

    def _steps(self, case_id: str) -> tuple[Step, ...]:
        return self.records[self._cases[case_id][0]].steps

    @cached_property
    def _cases(self) -> dict[str, tuple[str, int | None]]:
        """For each case id, its record and, if cases are steps, the place of the call."""
        if self.mode == "end_to_end":
            return {name: (name, None) for name in self.records}
        return {
            f"{name}-{place}": (name, place) for name, used in self.records.items() for place in range(len(used.steps))
        }


def measure(golds: Sequence[Labels], trajectory: Trajectory) -> Mapping[str, Any]:
    """m&m's metrics for a path (`plan_scores`)."""
    made = labels_of(made_plan(trajectory.steps))
    return plan_scores(nearest(golds, made), made)


def measure_step(gold: ToolCall, done: Sequence[Step], trajectory: Trajectory) -> Mapping[str, Any]:
    """The metrics (`step_scores`) that compare the plan's call with the decision that followed the steps in `done`."""
    made = made_plan((*done, *trajectory.steps))[len(done) :]
    return step_scores(gold, made[0] if made else None)


# The metrics of m&m's (Ma et al. 2024, §4; the authors' `mnms/evaluation`), one case at a time.
#
# The authors' scorer writes a plan as lines of Python, parses each line, and compares the results. We do the same,
# because it affects which values are equal: texts are compared ignoring case, numbers as texts, and a call whose line
# cannot be parsed (because of a line break, or a backslash at the end of a value) does not count on either side.
# Nothing is evaluated.
#
# Where the authors' scorer divides sums over all cases (argument names and values, edges), a case's column is computed
# from the case's own sums.


_KINDS = {name.replace(" ", "_"): name for name in TOOLS}
_LINK = re.compile(r"<node-\d+>\.\w+")
_LONGEST = 20_000  # maximum length of a line that is parsed, in characters
_SEPARATOR = "--"


class _UnwritableError(Exception):
    """Raised if the authors' scorer cannot write a plan as code; such a plan counts as a plan without calls."""


@plain_dataclass(frozen=True)
class Labels:
    """The labels that are compared, one per call in each list: `tool`, `tool--names` and `tool--name=value`.

    Names are sorted.
    """

    tools: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[str, ...]

    @cached_property
    def edges(self) -> frozenset[str]:
        """The pairs of tools of which the second is called directly after the first."""
        return frozenset(map(_SEPARATOR.join, zip(self.tools, self.tools[1:], strict=False)))


def labels_of(plan: Sequence[ToolCall], first: int = 0) -> Labels:
    """The labels of a plan whose first call has the place `first`.

    The plan's links refer to calls by place (`mnms_records.Calls`).
    """
    try:
        lines = [line for place, call in enumerate(plan, first) for line in _line(place, call).split("\n")]
    except _UnwritableError:
        lines = []
    found = [read for read in map(_read, lines) if read]
    return Labels(
        tuple(tool for tool, _ in found),
        tuple(_SEPARATOR.join([tool, *arguments]) for tool, arguments in found),
        tuple(_SEPARATOR.join([tool, *map("=".join, arguments.items())]) for tool, arguments in found),
    )


def _line(place: int, call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={_value(value)}" for name, value in call.arguments.items())
    return f"output{place} = {call.tool.replace(' ', '_')}({arguments})"


def _value(value: Json) -> str:
    """A value as code: a link as `output0['text']`, a text with links as an f-string, anything else as a string."""
    if not isinstance(value, str):
        return f'"{value}"'
    if value.startswith("<node-") and " " not in value:
        return _output(value)
    if "<node-" in value:
        return 'f"{}"'.format(_filled(value).replace('"', '\\"'))
    return '"{}"'.format(value.replace('"', '\\"'))


def _output(link: str) -> str:
    try:
        return f"output{int(link[6 : link.index('>')])}['{link[link.index('.') + 1 :]}']"
    except ValueError:
        raise _UnwritableError from None


def _filled(text: str) -> str:
    """Fill in a text's links as `str.format` does: braces in the text itself are also treated as fields.

    A number in such braces stands for the link with that number. A field with more than a number is refused, even if
    `format` could process it, because a format specification can ask for gigabytes.
    """
    links = [_output(link) for link in _LINK.findall(text)]
    filled: list[str] = []
    fields: list[str] = []
    try:
        for before, field, form, conversion in string.Formatter().parse(_LINK.sub("{}", text)):
            filled.append(before)
            if field is None:
                continue
            if form or conversion or (field and not field.isdecimal()):
                raise _UnwritableError
            fields.append(field)
            filled.append(links[int(field) if field else fields.count("") - 1])
    except (ValueError, IndexError):
        raise _UnwritableError from None
    if "" in fields and any(fields):
        raise _UnwritableError
    return "".join(filled)


def _read(line: str) -> tuple[str, dict[str, str]] | None:
    """The tool and the arguments (sorted by name) of a line of code; None if the line is not a call."""
    if len(line) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes
            tree = ast.parse(line.strip())
        assigned = next((node for node in ast.walk(tree) if isinstance(node, ast.Assign)), None)
        if assigned is None or not isinstance(assigned.targets[0], ast.Name):
            return None
        made = assigned.value
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
            return None
        arguments = {keyword.arg or "": ast.unparse(keyword.value).lower() for keyword in made.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return made.func.id, dict(sorted(arguments.items()))


def made_plan(steps: Sequence[Step]) -> Calls:
    """The calls made, including failed ones, as a plan whose links refer to places."""
    plan: list[ToolCall] = []
    places: dict[str, int] = {}
    handles: dict[str, tuple[int, str]] = {}
    for step in steps:
        if step.call is None:
            continue
        place = len(plan)
        plan.append(as_links(step.written or step.call, places, handles))
        places[step.substep.id] = place
        if step.observation and not step.observation.failed:
            for field, value in step.observation.content.items():
                handles.setdefault(str(value), (place, field))
    return tuple(plan)


def nearest(golds: Sequence[Labels], made: Labels) -> Labels:
    """Among the reference and the alternatives, the plan whose tools are most similar to the called tools.

    If several plans are equally similar, the first of them is chosen.
    """
    return max(golds, key=lambda gold: round(100 * (_f1(set(gold.tools), set(made.tools)) or 0.0), 2))


def plan_scores(gold: Labels, made: Labels) -> dict[str, Any]:
    """The columns of one case.

    argument_name_f1, argument_value_f1, edge_f1: the F1 of two sets of labels; None if both sets are empty.
    plan_accuracy, plan_names_accuracy, plan_values_accuracy: whether two lists of labels are equal. edit_distance: 1
    minus the Levenshtein ratio of the two lists of tools; this ratio is 2 LCS / (length + length), and all tools
    outside the closed set count as the same tool. tool_counts: for each tool, three numbers that are 0 or 1: whether it
    is a hit (called and in the reference), whether it was called, and whether it is in the reference. The scorer's tool
    F1 is the mean over the tools of 2 hits / (predicted + gold), where each count is summed over the cases; it is 0 for
    a tool if both sums are 0.
    """
    return {
        "argument_name_f1": _f1(set(gold.names), set(made.names)),
        "argument_value_f1": _f1(set(gold.values), set(made.values)),
        "edge_f1": _f1(gold.edges, made.edges),
        "plan_accuracy": made.tools == gold.tools,
        "plan_names_accuracy": made.names == gold.names,
        "plan_values_accuracy": made.values == gold.values,
        "edit_distance": 1 - _ratio(gold.tools, made.tools),
        "tool_counts": _counts({_KINDS[tool] for tool in gold.tools}, {_KINDS.get(tool, "") for tool in made.tools}),
    }


def step_scores(gold: ToolCall, made: ToolCall | None) -> dict[str, Any]:
    """The columns, as defined by GTA, of one step that was taken after the reference's own earlier steps.

    instruction_accuracy: a call was made. tool_accuracy: the call has the right tool. argument_accuracy: the call also
    has the right arguments, compared as texts ignoring case, with links to the same outputs. tool_counts: the same
    numbers as for plans, for this step.
    """
    right = made is not None and made.tool == gold.tool
    return {
        "instruction_accuracy": float(made is not None),
        "tool_accuracy": float(right),
        "argument_accuracy": float(right and made is not None and _compared(made) == _compared(gold)),
        "tool_counts": _counts({gold.tool}, {made.tool} if made else set()),
    }


def _counts(gold: Set[str], made: Set[str]) -> str:
    """For each tool of the closed set, as JSON: whether it is a hit, was called, and is in the reference."""
    return to_json({name: [int(name in gold & made), int(name in made), int(name in gold)] for name in TOOLS})


def _compared(call: ToolCall) -> dict[str, str]:
    return {name: str(value).lower() for name, value in call.arguments.items()}


def _f1(gold: Set[str], made: Set[str]) -> float | None:
    return 2 * len(gold & made) / (len(gold) + len(made)) if gold or made else None


def _ratio(one: Sequence[str], other: Sequence[str]) -> float:
    """Twice the longest common subsequence divided by the sum of the lengths; 1 for two empty lists."""
    row = [0] * (len(other) + 1)
    for left in one:
        above = row
        row = [0]
        for place, right in enumerate(other):
            row.append(above[place] + 1 if _KINDS.get(left) == _KINDS.get(right) else max(above[place + 1], row[-1]))
    return 2 * row[-1] / (len(one) + len(other)) if one or other else 1.0
