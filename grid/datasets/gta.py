"""GTA (Wang et al. 2024, "GTA: A Benchmark for General Tool Agents"): queries on images, and fourteen typed tools.

No tool runs: a call on the gold path returns its recorded result, and any other call finds nothing. The figures
therefore only compare planners with each other, on the gold paths' calls. Planners know images only through the tools'
results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, DataError
from grid.core.problem import JUDGED, TEXTS, Answering, Equivalence, Problem, Reference
from grid.core.types import (
    RESULT,
    Case,
    Json,
    Observation,
    Parameter,
    Plan,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import STRICT
from grid.datasets.dataset import FileDataset, Stratum, UnusableError
from grid.datasets.files import folder, read_json
from grid.metrics.closed_set import PlanF1, closed_set_scores
from grid.retrievers.scored import embedder_of
from grid.retrievers.sources import fingerprint as model_fingerprint
from grid.worlds.lookup import Entry, LookupSimulator, build_entries

# Whether an answer to a GTA query is right, according to the authors' evaluator (their `gta_bench.py`).


IMAGE_TOOLS = ("DrawBox", "AddText", "Plot", "TextToImage", "ImageStylization")
"""The tools whose results are images."""
Alike: TypeAlias = Callable[[str, str], float]
"""The cosine similarity of two texts' embeddings; the authors' model is all-mpnet-base-v2."""


@plain_dataclass(frozen=True)
class Lists:
    """A test of an answer.

    The answer must contain one alias from every group in the white list, and no alias from the black list.
    """

    whitelist: tuple[tuple[str, ...], ...]
    blacklist: tuple[tuple[str, ...], ...]

    def allow(self, answer: str) -> bool:
        """Whether an answer is right. Aliases are matched as whole words, ignoring case."""
        said = all(_says(answer, group) for group in self.whitelist)
        return said and not any(_says(answer, group) for group in self.blacklist)


Wanted: TypeAlias = Lists | tuple[str, ...] | None
"""The standard for an answer: lists for facts, right answers for free texts.

None if the query asks for an image.
"""


def answer_score(answer: str | None, wanted: Lists | Sequence[str], alike: Alike | None) -> float | None:
    """An answer's score, from 0 to 1; if `wanted` is lists, the score is 0 or 1.

    For a free text, the score is the similarity to the most similar right answer (0 without an answer), or None if
    `alike` is None.
    """
    if isinstance(wanted, Lists):
        return float(bool(answer) and wanted.allow(answer or ""))
    if alike is None:
        return None
    return max((max(alike(answer, one), 0.0) for one in wanted), default=0.0) if answer else 0.0


def image_score(made: Sequence[ToolCall], gold: Sequence[ToolCall], alike: Alike) -> float:
    """A score from 0 to 1: the product of the similarities of all gold calls that make images.

    The arguments of each such gold call are compared with the arguments of the planner's last call of the same tool.
    If the planner did not call the tool, the score is 0.
    """
    last: Mapping[str, Mapping[str, Json]] = {call.tool: call.arguments for call in made}
    score = 1.0
    for call in gold:
        if call.tool in IMAGE_TOOLS:
            if call.tool not in last:
                return 0.0
            score *= max(alike(json.dumps(dict(call.arguments)), json.dumps(dict(last[call.tool]))), 0.0)
    return score


def _says(answer: str, aliases: Sequence[str]) -> bool:
    return any(re.search(rf"\b{re.escape(alias)}\b", answer, re.IGNORECASE) for alias in aliases)


# GTA's `dataset.json` (Wang et al. 2024, release 0.1.0): the records that can be cases, and the reasons why the others
# cannot.


FILE = "dataset.json"
_MAX_BYTES = 100_000_000
_MOST = 64  # maximum number of tools, files, messages, groups or aliases of a record
_LONGEST_ALIAS = 1_000  # characters
_KEYS: Mapping[str, type] = {"tools": list, "files": list, "dialogs": list}
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "text": "string"}
"""JSON's names for the types of a tool's inputs; a file (image, audio, video, file) is given by its path."""
_PATHS = ("image", "audio", "video", "file")


@plain_dataclass(frozen=True)
class Record:
    """A query with its files (type and path), the calls of its gold path, their results, and the gold answers.

    `conclusion` is the last message of the gold path, or None if the path ends with a tool's result. `tools` has the
    tools that the benchmark offers for the query.
    """

    query: str
    files: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    outcomes: tuple[Mapping[str, Json], ...]
    conclusion: str | None
    wanted: Wanted


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The records by number; raises DataError if the file cannot be read or belongs to another version."""
    rows = read_json(file, _MAX_BYTES)
    if not isinstance(rows, dict) or not rows:
        raise DataError(file, None, "an object with records by number is expected (GTA, release 0.1.0)")
    for number, row in rows.items():
        _check_version(file, number, row)
    return rows


def tools_of(file: Path, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, ToolSpec]:
    """The tools of all records whose tools are valid.

    Raises DataError if tools of the same name have different arguments.
    """
    tools: dict[str, ToolSpec] = {}
    for number, row in rows.items():
        with suppress(UnusableError):
            for name, spec in _tools(row["tools"]).items():
                if tools.setdefault(name, spec).parameters != spec.parameters:
                    raise DataError(
                        file, None, f"record {number:.20}: tool {name!r} has other inputs than in an earlier record"
                    )
    return tools


def _check_version(file: Path, number: str, row: Any) -> None:
    """Refuse a record without GTA's keys.

    The later GTA-2 has `sub_tasks`, tools without inputs, and no answers.
    """
    if not isinstance(row, dict):
        raise DataError(file, None, f"record {number:.20} is not an object (GTA, release 0.1.0)")
    wrong = [key for key, kind in _KEYS.items() if not isinstance(row.get(key), kind)]
    wrong += ["gt_answer"] * ("gt_answer" not in row)
    if wrong or "sub_tasks" in row:
        lacks = f"the key {wrong[0]} is missing or has another form" if wrong else "sub_tasks belong to GTA-2"
        raise DataError(file, None, f"record {number:.20} does not belong to GTA, release 0.1.0: {lacks}")
    if not all(isinstance(tool, dict) and isinstance(tool.get("inputs"), list) for tool in row["tools"]):
        raise DataError(
            file, None, f"record {number:.20} does not belong to GTA, release 0.1.0: a tool has no list of inputs"
        )


def _need(condition: object, reason: str) -> None:
    if not condition:
        raise UnusableError(reason)


def _tools(rows: list[dict[str, Any]]) -> dict[str, ToolSpec]:
    _need(0 < len(rows) <= _MOST, f"the record has no tools, or more than {_MOST} tools")
    found = {}
    for row in rows:
        name = row.get("name")
        _need(isinstance(name, str) and name, "a tool has no name")
        parameters = tuple(map(_parameter, row["inputs"]))
        _need(len(parameters) <= _MOST, f"a tool has more than {_MOST} inputs")
        text = str(row.get("description") or "")
        found[str(name)] = ToolSpec(str(name), text, parameters, (RESULT,), category_of(str(name)))
    return found


def _parameter(row: Any) -> Parameter:
    _need(isinstance(row, dict) and isinstance(row.get("name"), str), "an input of a tool has no name")
    kind = row.get("type")
    _need(kind in _TYPES or kind in _PATHS, f"an input of a tool has the unknown type {kind!r:.40}")
    told = [str(row.get("description") or "")] + [f"path of the {kind}"] * (kind in _PATHS)
    if row.get("default") is not None:
        told.append(f"default: {row['default']!s:.100}")
    text = "; ".join(filter(None, told))
    return Parameter(row["name"], _TYPES.get(kind, "string"), text, required=not row.get("optional"))


def _record(row: dict[str, Any], tools: Mapping[str, ToolSpec]) -> Record:
    first, *rest = row["dialogs"] or [None]
    _need(len(rest) < _MOST, f"the record has more than {_MOST} messages")
    _need(isinstance(first, dict) and first.get("role") == "user", "the dialog does not begin with the user's query")
    query = first.get("content")
    _need(isinstance(query, str) and query.strip(), "the query is empty")
    conclusion = None
    if rest and isinstance(rest[-1], dict) and rest[-1].get("role") == "assistant" and "tool_calls" not in rest[-1]:
        conclusion = rest.pop().get("content")
        _need(isinstance(conclusion, str), "the last message is not a text")
    _need(len(rest) % 2 == 0, "a call has no result, or a result has no call")
    pairs = [(_call(rest[at], tools), _outcome(rest[at], rest[at + 1])) for at in range(0, len(rest), 2)]
    _need(pairs, "the record calls no tool")
    wanted = _wanted(row["gt_answer"])
    _need(wanted is None or conclusion is not None, "the record has a gold answer, but the gold path gives no answer")
    return Record(
        query=str(query).strip(),
        files=_files(row["files"]),
        tools=tuple(tools),
        calls=tuple(call for call, _ in pairs),
        outcomes=tuple(outcome for _, outcome in pairs),
        conclusion=conclusion,
        wanted=wanted,
    )


def _call(message: Any, tools: Mapping[str, ToolSpec]) -> ToolCall:
    """The only call of a message."""
    calls = message.get("tool_calls") if isinstance(message, dict) and message.get("role") == "assistant" else None
    _need(isinstance(calls, list) and len(calls) == 1, "a step is not exactly one call of a tool")
    function = calls[0].get("function") if calls and isinstance(calls[0], dict) else None
    _need(isinstance(function, dict), "a call names no function")
    name, arguments = (function or {}).get("name"), (function or {}).get("arguments")
    _need(
        isinstance(name, str) and name in tools,
        f"the record calls {name!r:.40}, which is not one of the record's tools",
    )
    _need(isinstance(arguments, dict), "the arguments of a call are not an object")
    return ToolCall(str(name), arguments or {})


def _outcome(call: Any, message: Any) -> dict[str, Json]:
    """A tool's result as an outcome. In the file, it is a text, or an object with a type and content."""
    _need(isinstance(message, dict) and message.get("role") == "tool", "a call is not followed by its result")
    name = call["tool_calls"][0]["function"]["name"]
    _need(message.get("name", name) == name, "a result comes from another tool than the call before it")
    content = message.get("content")
    if isinstance(content, dict):
        content = content.get("content")
    _need(content is not None and not isinstance(content, dict), "a result is empty")
    return {RESULT: content}


def _files(rows: list[Any]) -> tuple[tuple[str, str], ...]:
    _need(len(rows) <= _MOST, f"the record has more than {_MOST} files")
    for row in rows:
        told = isinstance(row, dict) and isinstance(row.get("type"), str) and isinstance(row.get("path"), str)
        _need(told, "a file has no type or no path")
    return tuple((row["type"], row["path"]) for row in rows)


def _wanted(answer: Any) -> Wanted:
    """The gold answers. If the file has none (None, [] or {}), the query asks for an image and no answer is wanted."""
    if not answer:
        return None
    if isinstance(answer, dict):
        _need(answer.get("whitelist"), "the whitelist is empty")
        return Lists(_groups(answer["whitelist"]), _groups(answer.get("blacklist") or []))
    _need(isinstance(answer, list) and len(answer) <= _MOST, "the answer has none of the known forms")
    _need(all(isinstance(text, str) for text in answer), "one of the answers is not a text")
    return tuple(answer)


def _groups(rows: Any) -> tuple[tuple[str, ...], ...]:
    _need(isinstance(rows, list) and len(rows) <= _MOST, "the whitelist or blacklist is not a list of groups")
    for row in rows:
        _need(
            isinstance(row, list) and 0 < len(row) <= _MOST,
            "a group of the whitelist or blacklist has no list of aliases",
        )
        short = all(isinstance(alias, str) and len(alias) <= _LONGEST_ALIAS for alias in row)
        _need(short, f"an alias is not a text of at most {_LONGEST_ALIAS} characters")
    return tuple(map(tuple, rows))


@plain_dataclass(frozen=True)
class Gold:
    """A record, with its gold path as a reference and as the entries of a world."""

    number: str
    record: Record
    reference: Reference
    entries: tuple[Entry, ...]

    @property
    def outcomes(self) -> Mapping[str, Mapping[str, Any]]:
        """The results of the gold calls, by substep."""
        return dict(zip(self.reference.calls, self.record.outcomes, strict=True))

    def steps(self, count: int) -> tuple[Step, ...]:
        """The first `count` steps of the gold path."""
        return tuple(
            Step(0, Substep(str(place), "", ""), call, Observation(outcome), written=call)
            for place, (call, outcome) in enumerate(zip(self.record.calls, self.record.outcomes, strict=True))
        )[:count]

    def world(self, place: int | None) -> LookupSimulator:
        """The world in which all gold calls are to be made.

        If `place` is given, only the call at this position in the gold path is to be made; the earlier calls have
        already been made.
        """
        if place is None:
            return LookupSimulator(self.entries, frozenset(self.reference.calls))
        before = {str(number) for number in range(place)}
        obtained = frozenset().union(*(entry.substeps for entry in self.entries if entry.substeps & before))
        wanted = frozenset({str(place)} & self.reference.calls.keys())
        return LookupSimulator(self.entries, wanted, begun=obtained - wanted)


@dataclass(config=STRICT)
class Gta(FileDataset[Gold]):
    """The released queries. `path` is the folder that contains `dataset.json` of release 0.1.0.

    With `mode: end_to_end`, a case is a query, and is resolved when the outcomes of all calls on its gold path have
    been obtained. Other calls and the answer do not affect whether a case is resolved; `answer_score` scores the
    answer. With `step_by_step`, a case is one step of a gold path, with the earlier steps already taken. The step is
    one decision: a call or, after the last call, the answer.

    Args:
        sentence_model: a folder of all-mpnet-base-v2 (sentence-transformers), which scores free texts and images as in
            the authors' evaluator; without this model, free texts and images have no `answer_score`.
        equivalence: how to decide which arguments mean the same thing (`grid.core.problem.Equivalence`).
    """

    mode: Literal["end_to_end", "step_by_step"] = "end_to_end"
    equivalence: Equivalence = "rules"
    sentence_model: str | None = None
    answering: Answering = "after"
    plan_f1: PlanF1 = "links"

    @property
    def asks(self) -> Mapping[str, str]:
        """The question for an evaluator, if one is configured: which texts mean the same thing."""
        return {TEXTS: "equivalence"} if self.equivalence == JUDGED else {}

    @property
    def name(self) -> str:
        """The benchmark's name, followed by the mode."""
        return f"gta-{self.mode}"

    @cached_property
    def files(self) -> Sequence[Path]:
        """The only file, which contains the queries."""
        return (self.folder(FILE) / FILE,)

    @cached_property
    def version(self) -> str:
        """The base class's version, with the fingerprint of the model that compares texts, if there is one."""
        return super().version + (f"-{model_fingerprint(self._model)}" if self._model else "")

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools that the queries offer."""
        return tools_of(self.files[0], self._rows)

    def rows(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """The queries by number."""
        return self._rows.items()

    def record(self, case_id: str, row: dict[str, Any]) -> Gold:
        """A query whose gold path can be replayed."""
        record = _record(row, _tools(row["tools"]))
        calls: dict[str, ToolCall] = {str(place): call for place, call in enumerate(record.calls)}
        outcomes = {str(place): outcome for place, outcome in enumerate(record.outcomes)}
        try:
            entries = build_entries(calls, outcomes, tools=self.tools)
        except ValueError as error:
            raise UnusableError(str(error)) from None
        reference = Reference(dict(calls), tuple(calls), followed=False, answer=record.conclusion)
        return Gold(case_id, record, reference, entries)

    def chosen(self) -> Sequence[str]:
        """The ids of all queries or, if the mode is `step_by_step`, of all steps."""
        return list(self.cases)

    def strata(self) -> Sequence[Stratum]:
        """Two levels of strata: the kinds of wanted answers (facts, a free text or an image), then the queries."""
        return self._kind, self.cluster

    def cluster(self, case_id: str) -> str:
        """The query, because the steps of one query form a cluster."""
        return self.cases[case_id][0].number

    def problem(self, case_id: str) -> Problem:
        """A query, or a step of its gold path."""
        gold, place = self.cases[case_id]
        tools = tuple(self.tools.values())
        return Problem(
            case=Case(
                case_id,
                _query(gold.record),
                Plan(()),
                done=gold.steps(place or 0),
                decisions=None if place is None else 1,
            ),
            reference=gold.reference if place is None else _of_step(gold.reference, place),
            world=gold.world(place),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain="gta",
            own=gold.record.tools,
            measure=partial(measure, gold, self._alike, self.plan_f1)
            if place is None
            else partial(measure_step, gold, place, self._alike, self.plan_f1),
        )

    def _kind(self, case_id: str) -> str:
        wanted = self.cases[case_id][0].record.wanted
        return "image" if wanted is None else "facts" if isinstance(wanted, Lists) else "text"

    @cached_property
    def cases(self) -> dict[str, tuple[Gold, int | None]]:
        """For each case id, its record and, if the mode is `step_by_step`, the step's position in the gold path."""
        if self.mode == "end_to_end":
            return {f"gta-{number}": (gold, None) for number, gold in self.records.items()}
        return {
            f"gta-{number}-{place}": (gold, place)
            for number, gold in self.records.items()
            for place in range(len(gold.record.calls) + (gold.record.conclusion is not None))
        }

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        return read(self.files[0])

    @cached_property
    def _model(self) -> Path | None:
        if self.sentence_model is None:
            return None
        if find_spec("sentence_transformers") is None:
            raise ConfigError(
                "dataset.sentence_model",
                self.sentence_model,
                "a package is not installed: pip install 'agent-grid[dense]'",
            )
        return folder("dataset.sentence_model", self.sentence_model, "modules.json")

    @property
    def _alike(self) -> Alike | None:
        return None if self._model is None else partial(_cosine, self._model)


def measure(gold: Gold, alike: Alike | None, plan_f1: PlanF1, trajectory: Trajectory) -> Mapping[str, Any]:
    """The metrics of `end_to_end`: tool_counts, answer_score and ToolTree's four F1 scores.

    If the query asks for an image, answer_score is `image_score`. If an answer is wanted but was not given,
    answer_score is 0. Without a sentence model, answer_score is None for images and free texts.
    """
    made, wanted = [step.call for step in trajectory.steps if step.call], gold.record.wanted
    if wanted is not None:
        score = answer_score(trajectory.answer, wanted, alike)
    else:
        score = image_score(made, gold.record.calls, alike) if alike else None
    counts = tool_counts([call.tool for call in made], [call.tool for call in gold.record.calls])
    own = closed_set_scores(trajectory, gold.reference, outcomes=gold.outcomes, plan_f1=plan_f1)
    return {"tool_counts": to_json(counts), "answer_score": score, **own}


def measure_step(
    gold: Gold, place: int, alike: Alike | None, plan_f1: PlanF1, trajectory: Trajectory
) -> Mapping[str, Any]:
    """The metrics of `step_by_step`: `step_scores`, ToolTree's F1 scores of a call, and answer_score of an answer.

    If the right decision is to answer, success means that an answer was given, because there is no outcome to obtain.
    """
    step = trajectory.steps[0] if trajectory.steps else None
    calls, wanted = gold.record.calls, gold.record.wanted
    if place < len(calls):
        done, known = gold.steps(place), gold.outcomes
        own = closed_set_scores(trajectory, gold.reference, outcomes=known, done=done, decisions=1, plan_f1=plan_f1)
        return {**step_scores(step, calls[place]), **own}
    scores = step_scores(step, None)
    answered = scores["instruction_accuracy"] == 1
    score = None if wanted is None else answer_score(trajectory.answer if answered else None, wanted, alike)
    return {**scores, "success": answered, "answer_score": score}


def _query(record: Record) -> str:
    files = ", ".join(f"{path} ({kind})" for kind, path in record.files)
    return f"{record.query}\nFiles: {files}" if files else record.query


def _of_step(reference: Reference, place: int) -> Reference:
    """The reference for one step; it contains all calls, because some engines are shown the reference.

    Only the call of the step in question is needed to resolve the case.
    """
    return Reference(
        reference.calls, tuple({str(place)} & reference.calls.keys()), followed=False, answer=reference.answer
    )


def _cosine(model: Path, one: str, other: str) -> float:
    first, second = embedder_of(model).texts([one, other])
    return float(first @ second)


# GTA's metrics, computed as in the authors' evaluator (their `gta_bench.py`).


CATEGORIES = {
    "perception": ("OCR", "ImageDescription", "RegionAttributeDescription", "TextToBbox"),
    "operation": ("DrawBox", "AddText", "GoogleSearch"),
    "logic": ("Calculator", "Solver", "Plot", "MathOCR", "CountGivenObject"),
    "creativity": ("TextToImage", "ImageStylization"),
}
"""The fourteen tools by category."""


def category_of(tool: str) -> str:
    """A tool's category; empty for tools outside `CATEGORIES`, such as those that a pool adds."""
    return next((name for name, tools in CATEGORIES.items() if tool in tools), "")


def tool_counts(made: Sequence[str], gold: Sequence[str]) -> dict[str, list[int]]:
    """For each category, the counts of hits, calls made and gold calls; their sums over all cases give the F1 score.

    As in the published code, every gold call whose tool was called at least once is a hit, so a tool that occurs twice
    in the gold path and was called once gives two hits.
    """
    called = set(made)
    return {
        name: [
            sum(tool in tools and tool in called for tool in gold),
            sum(tool in tools for tool in made),
            sum(tool in tools for tool in gold),
        ]
        for name, tools in CATEGORIES.items()
    }


def step_scores(step: Step | None, gold: ToolCall | None) -> dict[str, float | None]:
    """instruction_accuracy, tool_accuracy and argument_accuracy of one decision.

    `gold` is the right call, or None if the right decision is to answer. instruction_accuracy: the decision was of the
    right kind, a call or an answer. tool_accuracy: the right tool was called. argument_accuracy: the right tool was
    called with exactly the gold arguments. tool_accuracy and argument_accuracy are left out if the right decision is to
    answer. A missing or unreadable decision is wrong by all measures.
    """
    call = step.call if step and not step.malformed else None
    if gold is None:
        return {"instruction_accuracy": float(step is not None and step.finished and not step.malformed)}
    right = call is not None and call.tool == gold.tool
    return {
        "instruction_accuracy": float(call is not None),
        "tool_accuracy": float(right),
        "argument_accuracy": float(right and call is not None and dict(call.arguments) == dict(gold.arguments)),
    }
