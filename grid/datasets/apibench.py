"""APIBench (Patil et al. 2023, "Gorilla"): find the API call that fulfils a user's request, on one of three model hubs.

The answer is one call. A planner answers by calling the tool made from an API's record, and writes the identifying
values itself. The world records the call without saying whether it is right, and the last call counts. If a planner
finishes with code, that code is the answer, and its calls do not count. The answer is compared with the hub's APIs in
the same way as in the authors' code, and is right if the called API has the reference's domain.

Records with the same call and domain become one tool; TensorFlow Hub's 696 records, for example, describe 87 APIs.
Records without a Python call (`./run.sh ...`) do not become tools. A reference that is not among the hub's records
(Hugging Face: about one in ten) is added after them, so that every case can be solved with the available tools.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic.dataclasses import dataclass

from grid.core.problem import Problem, Reference
from grid.core.types import (
    FINISH,
    GIVE_UP,
    NO_TOOL,
    Case,
    Json,
    Observation,
    Parameter,
    Plan,
    Skipped,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import STRICT
from grid.core.world import State, own_state
from grid.datasets.apibench_trees import MAX_BYTES, Code, Subtree, parse
from grid.datasets.dataset import FileDataset, Stratum, UnusableError
from grid.datasets.files import read_jsonl
from grid.worlds.schema import ERROR

# Gorilla's AST accuracy (Patil et al. 2023, §3.4 and the authors' `ast_eval_{hf,tf,th}.py`), without their parser.
#
# An answer is compared with the hub's APIs in their order. For each API, the comparison uses the answer's sub-tree
# whose first child is the API's function. The called API is the first one whose identifying argument values are all in
# that sub-tree's text. The answer is right if that API has the reference's domain, and a hallucination if no API is
# found in this way. Code that cannot be parsed is neither right nor a hallucination.
#
# If no sub-tree has the function, the last sub-tree visited (the innermost one on the left) is used instead, as in the
# authors' code. In `load('bert-base-uncased')`, the last sub-tree is the text in the brackets, so an answer with the
# right value passes even if the name of its function is wrong. Values are searched for as substrings. In
# `BartForConditionalGeneration.load('x')` the last sub-tree is the function. The function contains `ner`, so the answer
# counts as a call of `pipeline('ner')`. For this reason, some invented models on Hugging Face count as calls of
# `pipeline('ner')` and not as hallucinations.
#
# There is one addition: the reference's own record is compared first. Some calls are listed under several domains (3
# calls on Hugging Face, 4 on TensorFlow Hub), and the authors' scorer considers only the first of these domains, so it
# could judge even the reference's own call wrong in the other domains. A call without any identifying value would be
# judged wrong too, because the authors' scorer never finds it; a reference of that kind (1% of Hugging Face's) is
# recognized by its function.


Hub = Literal["huggingface", "tensorflow", "torchhub"]
_MARK, _BEHIND = "api_call", "api_provider"
_FENCED = re.compile(r"\s*```[a-z]*\n(.*?)\n\s*```\s*", re.S)


class Api(NamedTuple):
    """An API: the text of the called function, the identifying values of the call, and the API's domain."""

    function: str
    values: tuple[str, ...]
    domain: str


class Verdict(NamedTuple):
    """The verdict on an answer; both fields are False if the answer cannot be read."""

    right: bool
    hallucinated: bool


class Argument(NamedTuple):
    """One argument of a call: its full text (including the name), its name, and the node of its value."""

    text: str
    name: str | None
    value: ast.AST


def call_in(code: Code) -> ast.Call | None:
    """The call at the start of the code: the first statement, or its first item if it is a bare tuple.

    None if this is not a call.
    """
    first = code.tree.body[0]
    value = first.value if isinstance(first, ast.Expr) else None
    if isinstance(value, ast.Tuple) and value.elts and code.text(value).startswith(code.text(value.elts[0])):
        value = value.elts[0]
    return value if isinstance(value, ast.Call) else None


def arguments_of(code: Code, call: ast.Call) -> Iterator[Argument]:
    """The call's arguments in their order; `*x` and `**x` have no name."""
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    for node in sorted(given, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.keyword) and node.arg:
            yield Argument(code.text(node), node.arg, node.value)
        elif isinstance(node, ast.Compare) and re.match(r"\w+\s*=[^=]", code.text(node)):  # see `apibench_trees.parse`
            yield Argument(code.text(node), code.text(node.left), node.comparators[0])
        else:
            yield Argument(code.text(node), None, node)


def identifying(hub: Hub, code: Code, argument: Argument) -> str | None:
    """The text of an argument that an answer must contain; None if the argument does not distinguish APIs.

    On Hugging Face the text is the argument's value. On TensorFlow Hub it is also the value, but a named argument other
    than `model` keeps its name. On Torch Hub only named arguments whose text contains `repo_or_dir` or `model`
    distinguish APIs, by their values.
    """
    text = argument.text
    if hub == "torchhub":
        named = argument.name and ("repo_or_dir" in text or "model" in text)
        return code.text(argument.value).strip("'") if named else None
    if argument.name and (hub == "huggingface" or "model=" in text or "model =" in text):
        text = code.text(argument.value)
    return text.strip("'")


def read_api(hub: Hub, code: str, domain: str) -> Api | None:
    """The API of a call; None if the code is not a call that can be parsed."""
    parsed = parse(code)
    call = call_in(parsed) if parsed else None
    if parsed is None or call is None:
        return None
    values = (identifying(hub, parsed, argument) for argument in arguments_of(parsed, call))
    return Api(parsed.text(call.func), tuple(value for value in values if value is not None), domain)


def match(subtrees: Sequence[Subtree], apis: Sequence[Api]) -> int | None:
    """The index of the first API that the code calls; None if no API is called.

    An API without identifying values is never found.
    """
    first: dict[str, str] = {}
    for subtree in subtrees:
        first.setdefault(subtree.head, subtree.text)
    for place, api in enumerate(apis):
        text = first.get(api.function, subtrees[-1].text)
        if api.values and all(value in text for value in api.values):
            return place
    return None


def score(answer: str, reference: Api, apis: Sequence[Api]) -> Verdict:
    """The verdict on an answer; `apis` are the hub's APIs."""
    code = parse(answer)
    if code is None:
        return Verdict(right=False, hallucinated=False)
    subtrees = code.subtrees()
    bare = not reference.values and any(subtree.head == reference.function for subtree in subtrees)
    if bare or match(subtrees, [reference]) is not None:
        return Verdict(right=True, hallucinated=False)
    place = match(subtrees, apis)
    return Verdict(place is not None and apis[place].domain == reference.domain, place is None)


def written_call(text: str) -> str | None:
    """The call in an answer that is written as text; None if the answer contains no call.

    Answers are read as the authors read them: the call is the text after `api_call` and its colon, up to the last
    bracket before `api_provider`. If an answer lacks the word `api_call`, the whole answer is the call; unlike in the
    authors' code, a code fence around the answer is removed. The result is None if the text is not code or contains no
    call.
    """
    fenced = _FENCED.fullmatch(text)
    call = fenced[1] if fenced else text
    if _MARK in text:
        part = text.split(_MARK)[1].split(_BEHIND)[0]
        start = part.find(":") if ":" in part else 0
        end = part.rindex(")") if ")" in part else -2
        call = part[start + 2 : end + 1]
    code = parse(call)
    calls = code and any(isinstance(node, ast.Call) for node in ast.walk(code.tree))
    return call if calls else None


# APIs as tools: the call that a record documents, whose arguments the planner writes.
#
# A tool is one API of the hub. A planner sees the record's functionality (the functionality of all records if an API
# has several), domain, description and example call. The arguments that identify an API (a model's name, a repository,
# a handle) are required, and the caller writes their values, as in code. The caller is not limited to the example's
# values, so it can name an API that does not exist. A call is rendered as the code that it represents.


RECORDED = "recorded"
"""The outcome field that contains the call's code."""
_RESERVED = frozenset({FINISH, GIVE_UP, NO_TOOL})
_MOST = 400  # characters that are kept of the functionality in an API's records
_TEXTS = ("domain", "api_name", "api_call", "description")


class Slot(NamedTuple):
    """One argument of a call: its parameter's name, and how its value is written as code.

    `keyword`: the name is written before the value. `quote`: the quotation mark around the value in the record; empty
    if that value is not a string.
    """

    name: str
    keyword: bool
    quote: str


@plain_dataclass(frozen=True)
class Record:
    """An API that can be a tool. `code` is its documented call; `rest` has arguments such as `**kwargs`."""

    code: str
    api: Api
    spec: ToolSpec
    slots: tuple[Slot, ...]
    rest: tuple[str, ...]
    given: Mapping[str, Json]

    def render(self, arguments: Mapping[str, Json]) -> str:
        """The code of a call with these arguments.

        Raises ValueError for an argument's name that is not valid in code.
        """
        slots = {slot.name: slot for slot in self.slots}
        unnamed = [slot for slot in self.slots if not slot.keyword and slot.name in arguments]
        placed = [_value(arguments[slot.name], slot.quote) for slot in unnamed]
        named: list[str] = []
        for name, value in arguments.items():
            slot = slots.get(name, Slot(name, True, "'"))
            if slot.keyword and not name.isidentifier():
                raise ValueError(f"{name:.100} is no name of an argument")
            named += [f"{name}={_value(value, slot.quote)}"] if slot.keyword else []
        splats = [text for text in self.rest if text.startswith("*") and not text.startswith("**")]
        others = [text for text in self.rest if text not in splats]
        return f"{self.api.function}({', '.join([*placed, *splats, *named, *others])})"


def read_record(hub: Hub, records: Sequence[Mapping[str, Any]], name: str) -> Record | str:
    """The tool `name`, made from the first of an API's records, or the reason why the API cannot be a tool.

    Only the functionality in the tool's description comes from all of the API's records.
    """
    data = records[0]
    if not all(isinstance(data.get(key), str) for key in _TEXTS):
        return f"one of these texts is missing: {', '.join(_TEXTS)}"
    code, api = parse(data["api_call"]), read_api(hub, data["api_call"], data["domain"])
    call = call_in(code) if code else None
    if code is None or call is None or api is None:
        return "the api_call is not a readable Python call"
    slots: list[Slot] = []
    parameters: list[Parameter] = []
    given: dict[str, Json] = {}
    rest: list[str] = []
    for argument in arguments_of(code, call):
        if argument.text.startswith("*"):
            rest.append(argument.text)
            continue
        place = len(slots) + 1
        own = argument.name or f"argument_{place}"
        kind, quote, value = _kind(argument.value, code.text(argument.value))
        what = ("Python code, " if kind == "string" and not quote else "") + "as in the example"
        slots.append(Slot(own, argument.name is not None, quote))
        parameters.append(Parameter(own, kind, what, identifying(hub, code, argument) is not None))
        given[own] = value
    uses = "; ".join(dict.fromkeys(_text(one.get("functionality")) for one in records))[:_MOST]
    text = f"{uses} ({data['domain']}): {data['description']} Example: {data['api_call']}"
    spec = ToolSpec(name, text, tuple(parameters), (RECORDED,), data["domain"])
    return Record(data["api_call"], api, spec, tuple(slots), tuple(rest), given)


def names_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A unique name for each record: the API's name, followed by a number if the name is reserved or already taken.

    In a name, blanks become `_`; a record without a name is called `api`.
    """
    taken, found = set(_RESERVED), list[str]()
    counts: dict[str, int] = {}
    for data in records:
        base = "_".join(str(data.get("api_name") or "").split()) or "api"
        name = base
        while name in taken:
            counts[base] = counts.get(base, 1) + 1
            name = f"{base}_{counts[base]}"
        taken.add(name)
        found.append(name)
    return found


def _kind(value: ast.AST, text: str) -> tuple[str, str, Json]:
    """A literal's type, the quotation mark around it, and its value.

    Code that is not a plainly quoted string, a truth value or a number counts as a string without a quotation mark.
    """
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str) and text[:1] in "'\"" and value.value == text[1:-1]:
            return "string", text[0], value.value
        if isinstance(value.value, bool):
            return "boolean", "", value.value
        if isinstance(value.value, int | float):
            return "integer" if isinstance(value.value, int) else "number", "", value.value
    return "string", "", text


def _value(value: Json, quote: str) -> str:
    """A value as code. A string gets the record's quotation marks.

    If the value in the record has no quotation marks, the string is code and is left as it is.
    """
    if not isinstance(value, str):
        return repr(value)
    if not quote:
        return value
    plain = not any(char in value for char in (quote, "\\", "\n", "\r"))
    return f"{quote}{value}{quote}" if plain else repr(value)


def _text(value: Any) -> str:
    """A record's functionality as a text; in some records it is a list."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")


_FILES: Mapping[Hub, str] = {"huggingface": "huggingface", "tensorflow": "tensorflowhub", "torchhub": "torchhub"}
_QUERY = re.compile(r"### ?Instruction:\s*(.*?)\s*(?:\n### ?Output.*|<<<.*)?", re.S)


@plain_dataclass(frozen=True)
class _Question:
    """One usable evaluation pair: the instruction, and the name of the tool that is the reference."""

    query: str
    tool: str


@dataclass(config=STRICT)
class APIBench(FileDataset[_Question]):
    """The evaluation pairs of one hub. `path` is a folder with `api/<hub>_api.jsonl` and `apibench/<hub>_eval.json`.

    For TensorFlow Hub, the first file is `api/tensorflowhub_api.jsonl`. A case is resolved if its last call is right.
    `limit` draws a sample in proportion to the domains' sizes, unless `order` is `file`.
    """

    hub: Hub = "huggingface"

    @property
    def name(self) -> str:
        """The name of the benchmark, including the hub's name."""
        return f"apibench-{self.hub}"

    @cached_property
    def files(self) -> tuple[Path, Path]:
        """The hub's records and the pairs."""
        names = f"api/{_FILES[self.hub]}_api.jsonl", f"apibench/{self.hub}_eval.json"
        root = self.folder(*names)
        return root / names[0], root / names[1]

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """One tool per API."""
        return {name: record.spec for name, record in self._records.items()}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be tools, and pairs that cannot be cases."""
        return (*self._hub[2], *super().skipped)

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The pairs, by their numbers."""
        for number, pair in enumerate(self._pairs, 1):
            yield f"apibench-{self.hub}-{_number(pair, number):04d}", pair

    def record(self, case_id: str, row: Mapping[str, Any]) -> _Question:
        """A pair as a case.

        The instruction is taken from the pair itself. The authors' file of the questions that they put to models has
        the same texts but omits some, so its lines do not match the pairs.
        """
        told, own = row.get("code"), row.get("api_data")
        found = _QUERY.fullmatch(told) if isinstance(told, str) else None
        if not found or not found[1]:
            raise UnusableError("the record has no instruction")
        tool = self._hub[1].get(_key(own)) if isinstance(own, dict) else None
        if tool is None:
            raise UnusableError("the api_call of the reference is not a readable Python call")
        return _Question(re.sub(r"\n\s*\n", "\n", found[1]), tool)

    def strata(self) -> Sequence[Stratum]:
        """Two levels of strata: domains, and the references' calls within each domain."""
        return self._domain, self.cluster

    def cluster(self, case_id: str) -> str:
        """The call of the case's reference, because the authors had several instructions written for each record."""
        return self._gold(case_id).code

    def problem(self, case_id: str) -> Problem:
        """One pair. The case's reference is the call in the pair's own record."""
        question, gold, tools = self.records[case_id], self._gold(case_id), tuple(self.tools.values())
        return Problem(
            case=Case(case_id, question.query, Plan(())),
            reference=Reference({"0": ToolCall(question.tool, gold.given)}, ("0",), followed=False),
            world=CallWorld(self._records, self._apis, gold.api),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function=self._same_function,
            domain=gold.api.domain,
            measure=partial(measure, gold.api, self._apis),
        )

    def _gold(self, case_id: str) -> Record:
        return self._records[self.records[case_id].tool]

    def _domain(self, case_id: str) -> str:
        return self._gold(case_id).api.domain

    @property
    def _records(self) -> dict[str, Record]:
        return self._hub[0]

    @cached_property
    def _apis(self) -> tuple[Api, ...]:
        return tuple(record.api for record in self._records.values())

    @cached_property
    def _same_function(self) -> dict[str, str]:
        """For each tool, the first tool with the same call, regardless of its domain."""
        first: dict[str, str] = {}
        return {name: first.setdefault(record.code, name) for name, record in self._records.items()}

    @cached_property
    def _pairs(self) -> list[dict[str, Any]]:
        return [row for _, row in read_jsonl(self.files[1])]

    @cached_property
    def _hub(self) -> tuple[dict[str, Record], dict[str, str | None], list[Skipped]]:
        """The records that are tools, the name of each API's tool, and the skipped records.

        The hub's records come first, in the hub's order, followed by the pairs' own records. Tool names are keyed by
        the API's `_key`; the name is None if the API cannot be a tool.
        """
        hub = [row for _, row in read_jsonl(self.files[0])]
        apis: dict[str, list[dict[str, Any]]] = {}  # by `_key`, in the order of the hub
        for row in hub:
            apis.setdefault(_key(row), []).append(row)
        for pair in self._pairs:
            if isinstance(own := pair.get("api_data"), dict):
                apis.setdefault(_key(own), [own])
        known: dict[str, str | None] = dict.fromkeys(apis)
        records: dict[str, Record] = {}
        unread: dict[str, str] = {}
        for (key, rows), name in zip(apis.items(), names_of([rows[0] for rows in apis.values()]), strict=True):
            made = read_record(self.hub, rows, name)
            if isinstance(made, Record):
                known[key], records[name] = name, made
            else:
                unread[key] = made
        told = ((f"{self.files[0].name}:{line}", unread.get(_key(row))) for line, row in enumerate(hub, 1))
        return records, known, [Skipped(place, reason) for place, reason in told if reason]


def _key(row: Mapping[str, Any]) -> str:
    """The key that distinguishes an API from others: its call and its domain."""
    return to_json([row.get("api_call"), row.get("domain")])


def _number(pair: Mapping[str, Any], line: int) -> int:
    """A pair's own number, which stays the same if only a part of the file is used, or else the pair's line number."""
    number = pair.get("question_id")
    return number if isinstance(number, int) and 0 < number < 1_000_000 else line


def measure(reference: Api, apis: Sequence[Api], trajectory: Trajectory) -> Mapping[str, Any]:
    """accuracy: the answer calls the right API. hallucinated: the called API does not exist. No call: both False.

    The answer is the final answer if it contains a call that can be read, otherwise the last call that was made.
    """
    code = trajectory.end if isinstance(trajectory.end, str) else ""
    if trajectory.answer and trajectory.answer != code:
        code = written_call(trajectory.answer) or code
    verdict = score(code, reference, apis)
    return {"accuracy": verdict.right, "hallucinated": verdict.hallucinated}


# The world of an APIBench case, which records the calls that are made without saying whether they are right.


@plain_dataclass(frozen=True)
class CallWorld:
    """A call is the answer until the next call is made. The state is the call's code, empty before the first call.

    No API is run. `apis` are the hub's APIs, in the order in which answers are compared with them.
    """

    records: Mapping[str, Record]
    apis: Sequence[Api]
    reference: Api
    branches: ClassVar[bool] = True

    def start(self) -> str:
        """The state before any call."""
        return ""

    async def apply(self, state: State, call: ToolCall) -> tuple[str, Observation]:
        """Record the call as code.

        The call fails if its tool is unknown, a name is not valid in code, or the code is too long.
        """
        before = own_state(state, str)
        record = self.records.get(call.tool)
        if record is None:
            return before, Observation({ERROR: f"there is no tool {call.tool:.200}"}, failed=True)
        try:
            code = record.render(call.arguments)
            size = len(code.encode())
        except ValueError as error:  # also raised for unpaired surrogates
            return before, Observation({ERROR: f"{error!s:.200}"}, failed=True)
        if size > MAX_BYTES:
            return before, Observation({ERROR: f"a call of more than {MAX_BYTES:,} bytes"}, failed=True)
        return code, Observation({RECORDED: code, "status": "this call is the answer now"})

    def resolved(self, state: State) -> bool:
        """Whether the recorded call is right."""
        code = own_state(state, str)
        return bool(code) and score(code, self.reference, self.apis).right

    def answer(self, state: State) -> str | None:
        """The recorded call."""
        return own_state(state, str) or None
