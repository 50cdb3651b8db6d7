"""APIBench (Patil et al. 2023, "Gorilla"): which API call does what a user asks for, on one of three model hubs.

The answer is one call. A planner gives it by calling the tool that stands for an API's record (`tools.py`), with the
identifying values written by itself; the world takes the call down and says nothing of its worth, and the last call
counts. Code that a planner finishes with is its answer too, and counts before what it called. Either is held against
the hub's APIs as the authors do it (`scorer.py`): right when the API called is of the reference's domain.

Records of the same call and domain are one tool: TensorFlow Hub has 696 records of 87 APIs. Those that are no Python
call (`./run.sh ...`) are none. A reference that is not among the hub's records (Hugging Face: about one in ten) is
added behind them, so that every case can be solved with the tools there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Plan, Skipped, ToolCall, ToolSpec, Trajectory, to_json
from grid.datasets.apibench.scorer import Api, Hub, score, written_call
from grid.datasets.apibench.tools import Record, names_of, read_record
from grid.datasets.apibench.world import CallWorld
from grid.datasets.files import fingerprint, folder, read_jsonl
from grid.datasets.sampling import Order, ordered

ADAPTER = 1
"""Raise when the same files give other cases, tools or scores."""
_FILES: Mapping[Hub, str] = {"huggingface": "huggingface", "tensorflow": "tensorflowhub", "torchhub": "torchhub"}
_QUERY = re.compile(r"### ?Instruction:\s*(.*?)\s*(?:\n### ?Output.*|<<<.*)?", re.S)


@plain_dataclass(frozen=True)
class _Question:
    """One usable pair."""

    query: str
    tool: str


@dataclass(config=STRICT)
class APIBench:
    """The evaluation pairs of one hub. `path` is a folder with `api/<hub>_api.jsonl` and `apibench/<hub>_eval.json`.

    A case is resolved when the call made last is right. `limit` draws a sample in which domains have their shares.
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    hub: Hub = "huggingface"
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @cached_property
    def _files(self) -> tuple[Path, Path]:
        """The hub's records and the pairs."""
        names = f"api/{_FILES[self.hub]}_api.jsonl", f"apibench/{self.hub}_eval.json"
        root = folder("dataset.path", self.path, *names)
        return root / names[0], root / names[1]

    @cached_property
    def version(self) -> str:
        """The hub, the adapter's version, and the files' fingerprint."""
        return f"apibench-{self.hub}-a{ADAPTER}-{fingerprint(*self._files)}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """One tool an API."""
        return {name: record.spec for name, record in self._records.items()}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be tools, and pairs that cannot be cases."""
        return self._read[2]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self._domain, self.cluster))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The call of its reference: the authors had several instructions written for a record."""
        return self._gold(case_id).code

    def problem(self, case_id: str) -> Problem:
        """One pair. Its reference is the call of its own record."""
        question, gold, tools = self._read[0][case_id], self._gold(case_id), tuple(self.tools.values())
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
        return self._records[self._read[0][case_id].tool]

    def _domain(self, case_id: str) -> str:
        return self._gold(case_id).api.domain

    @property
    def _records(self) -> dict[str, Record]:
        return self._read[1]

    @cached_property
    def _apis(self) -> tuple[Api, ...]:
        return tuple(record.api for record in self._records.values())

    @cached_property
    def _same_function(self) -> dict[str, str]:
        """Tools by the first that has the same call, for whatever domain."""
        first: dict[str, str] = {}
        return {name: first.setdefault(record.code, name) for name, record in self._records.items()}

    @cached_property
    def _read(self) -> tuple[dict[str, _Question], dict[str, Record], list[Skipped]]:
        """The cases, the records that are tools, in the order of the hub and then of the pairs, and what is neither."""
        hub, pairs = ([row for _, row in read_jsonl(path)] for path in self._files)
        own = [pair["api_data"] for pair in pairs if isinstance(pair.get("api_data"), dict)]
        apis: dict[str, list[dict[str, Any]]] = {}  # by what tells them apart, in the order of the hub
        for row in hub:
            apis.setdefault(_key(row), []).append(row)
        for row in own:
            apis.setdefault(_key(row), [row])
        known: dict[str, str | None] = dict.fromkeys(apis)  # each API's tool
        records: dict[str, Record] = {}
        unread: dict[str, str] = {}
        for (key, rows), name in zip(apis.items(), names_of([rows[0] for rows in apis.values()]), strict=True):
            made = read_record(self.hub, rows, name)
            if isinstance(made, Record):
                known[key], records[name] = name, made
            else:
                unread[key] = made
        told = ((f"{self._files[0].name}:{line}", unread.get(_key(row))) for line, row in enumerate(hub, 1))
        skipped = [Skipped(place, reason) for place, reason in told if reason]
        questions: dict[str, _Question] = {}
        for number, pair in enumerate(pairs, 1):
            case_id = f"apibench-{self.hub}-{_number(pair, number):04d}"
            question = _question(pair, known)
            if isinstance(question, str) or case_id in questions:
                skipped.append(Skipped(case_id, question if isinstance(question, str) else "its number is taken"))
            else:
                questions[case_id] = question
        if not questions:
            raise ConfigError("dataset.path", self.path, f"{self._files[1].name} holds no pair that can be a case")
        return questions, records, skipped


def _key(row: Mapping[str, Any]) -> str:
    """What tells an API from others: its call and the domain that it is for."""
    return to_json([row.get("api_call"), row.get("domain")])


def _number(pair: Mapping[str, Any], line: int) -> int:
    """A pair's number, which parts of the file keep; its line where it has none."""
    number = pair.get("question_id")
    return number if isinstance(number, int) and 0 < number < 1_000_000 else line


def _question(pair: Mapping[str, Any], known: Mapping[str, str | None]) -> _Question | str:
    """A pair as a case; why it cannot be one where it cannot.

    The instruction is taken from the pair itself. The file of questions that the authors asked models has the same
    texts, but leaves some out, so that its lines are not those of the pairs.
    """
    told, own = pair.get("code"), pair.get("api_data")
    found = _QUERY.fullmatch(told) if isinstance(told, str) else None
    if not found or not found[1]:
        return "it has no instruction"
    tool = known.get(_key(own)) if isinstance(own, dict) else None
    if tool is None:
        return "the call of its reference is no Python call that can be read"
    return _Question(re.sub(r"\n\s*\n", "\n", found[1]), tool)


def measure(reference: Api, apis: Sequence[Api], trajectory: Trajectory) -> Mapping[str, Any]:
    """accuracy: the last word is a right call. hallucinated: it is a call of no API. Neither without a call.

    The last word is the final answer where it holds a call that can be read, else the call that was made last.
    """
    code = trajectory.end if isinstance(trajectory.end, str) else ""
    if trajectory.answer and trajectory.answer != code:
        code = written_call(trajectory.answer) or code
    verdict = score(code, reference, apis)
    return {"accuracy": verdict.right, "hallucinated": verdict.hallucinated}
