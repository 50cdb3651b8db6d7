"""Makes OpenTelemetry traces of episodes from the tables' rows, during a sweep or from a finished folder.

Workers do nothing for traces: a thread of the driver reads the rows that workers have written, and sends them to the
collector that the variables OTEL_EXPORTER_OTLP_* name. Token counts and other counts come from the rows. Only the span
of an episode has real times. Within an episode, each span begins a microsecond after the previous span, to show their
order, and has no duration.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from grid import store
from grid.core.engine import ACTOR, SAMPLE
from grid.core.errors import ConfigError, GridError, one_line
from grid.core.types import NO_TOOL
from grid.settings.config import Tracing
from grid.store.transcripts import Request, transcripts

if TYPE_CHECKING:
    import datetime as dt

    from opentelemetry.sdk.trace import ReadableSpan

_AT_ONCE = 100
"""The number of episodes that are read and sent together; together they may have a few thousand spans."""
_SPANS = 512
_LOOK_SECONDS = 2.0
_SHARE = 20
"""Looking for new rows takes at most 1 / _SHARE of the time, so large folders are checked less often."""
_LAST_SECONDS = 10.0
"""The seconds that a sweep waits for a collector at its end, if the collector has accepted all spans so far."""
_EPISODES = [
    "cell_id", "attempt_id", "setting_id", "sweep", "model", "engine", "planner", "dataset", "robustness", "case_id",
    "trial", "seed", "status", "error_kind", "success", "n_steps", "n_messages", "tool_calls", "branches", "money",
    "budget_reached", "wall_seconds", "created_at", "input_tokens", "output_tokens", "cached_input_tokens",
    "reasoning_tokens", "llm_calls", "answer", "judge", "evaluator", "simulator", "critic", "user",
]  # fmt: skip
_TOLD = (
    "setting_id", "sweep", "dataset", "robustness", "case_id", "trial", "status", "success", "n_steps", "tool_calls",
    "branches", "money", "budget_reached", "wall_seconds", "llm_calls",
)  # fmt: skip
_STEPS = [
    "cell_id", "branch", "step", "substep_id", "on_path", "chosen_tool", "arguments", "observation", "failed",
    "entropy", "tool_matches", "input_tokens", "output_tokens",
]  # fmt: skip
_DECIDED = ("branch", "step", "substep_id", "on_path", "chosen_tool", "entropy", "tool_matches")
_MESSAGES = ["cell_id", "message", "role", "decision", "request", "seed", "n", "temperature", "max_tokens"]


def expect_exporter() -> None:
    """Raise ConfigError if the exporter is not installed."""
    try:
        found = find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:  # a parent package is missing
        found = None
    if found is None:
        raise ConfigError("tracing", "otel", "the exporter must be installed: pip install 'agent-grid[otel]'")


def send(root: Path, content: bool, told: Callable[[int], object] = lambda sent: None) -> tuple[int, int]:
    """Send all episodes of a folder; returns the number that the collector accepted, and the number of all episodes.

    Raises:
        StoreError: the folder cannot be read.
    """
    sender, ids = Sender(root, content), _ids(root, None)
    for first in range(0, len(ids), _AT_ONCE):
        if not sender.send(ids[first : first + _AT_ONCE]):
            break
        told(len(sender.sent))
    return len(sender.sent), len(ids)


class Follower:
    """Sends a sweep's episodes after their rows are written, in a separate thread; the sweep never waits for it.

    Episodes that the collector does not accept are sent again later. They are read again from the tables, so they need
    no memory in the meantime. If `tracing` is `none`, the follower does nothing.
    """

    def __init__(self, root: Path, tracing: Tracing, say: Callable[[str], object]) -> None:
        self._root, self._say, self._over, self._failure = root, say, threading.Event(), ""
        self._sender, self._thread = None, threading.Thread(target=self._follow, daemon=True, name="traces")
        if tracing != "none":
            self._after, self._sender = store.newest(root), Sender(root, tracing == "otel_content")

    def __enter__(self) -> Follower:
        if self._sender:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """If the collector answers, spend up to ten seconds sending the last episodes; print how many were not sent."""
        if self._sender is None or self._over.is_set():
            return
        self._over.set()
        self._thread.join(_LAST_SECONDS if self._sender.answers else 0.0)
        self._sender.give_up()
        try:
            made = {*_ids(self._root, self._after)}
        except GridError as error:
            self._say(f"traces: {one_line(error, 300)}")
            return
        left = len(made - self._sender.sent)
        line = f"traces: {len(made) - left:,} of {len(made):,} episodes were sent"
        if left:
            why = self._failure or "the collector at OTEL_EXPORTER_OTLP_ENDPOINT did not accept them"
            line += f"; {left:,} were not sent: {why}; to send all, run agent-grid export otel {self._root}"
        self._say(line)

    def _follow(self) -> None:
        try:
            pause, over = _LOOK_SECONDS, False
            while not over:
                over = self._over.wait(pause)
                began = time.monotonic()
                try:
                    self._look()
                except GridError as error:  # a file was replaced in the meantime, or will be put aside at the run's end
                    self._failure = one_line(error, 300)
                pause = max(_LOOK_SECONDS, _SHARE * (time.monotonic() - began))
        except Exception as error:  # noqa: BLE001 - a sweep goes on without its traces
            self._failure = one_line(f"{type(error).__name__}: {error}", 300)

    def _look(self) -> None:
        if self._sender is None:
            return
        fresh = [one for one in _ids(self._root, self._after) if one not in self._sender.sent]
        for first in range(0, len(fresh), _AT_ONCE):
            if not self._sender.send(fresh[first : first + _AT_ONCE]):
                return


Ids = tuple[str, str]
"""The ids of a cell and of the attempt that made its row."""


def _ids(root: Path, after: dt.datetime | None) -> list[Ids]:
    where = None if after is None else pc.field("created_at") > after
    rows = store.read(root, "episodes", ["cell_id", "attempt_id"], where)
    return list(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))


@dataclass
class Sender:
    """Makes spans from rows and sends them; `answers`: whether the collector accepted the latest spans."""

    root: Path
    content: bool
    sent: set[Ids] = field(default_factory=set)
    answers: bool = True

    def __post_init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # failures are counted, and reported once
        self._exporter: Any = OTLPSpanExporter()

    def send(self, ids: Sequence[Ids]) -> bool:
        """Send episodes; returns whether the collector accepted all of them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = list(_spans(self.root, [cell for cell, _ in ids], self.content))
        for first in range(0, len(spans), _SPANS):
            self.answers = self._exporter.export(spans[first : first + _SPANS]) == SpanExportResult.SUCCESS
            if not self.answers:
                return False
        self.sent.update(ids)
        return True

    def give_up(self) -> None:
        """Send nothing more; spans that the collector has not acknowledged are dropped."""
        self._exporter.shutdown()


# Rows as spans.


def _spans(root: Path, cells: Sequence[str], content: bool) -> Iterator[ReadableSpan]:
    mine = pc.field("cell_id").isin(pa.array(cells, pa.string()))
    steps, asked = _by_cell(root, "steps", _STEPS, mine), _by_cell(root, "messages", _MESSAGES, mine)
    said = transcripts(root, cells) if content else {}
    for row in store.read(root, "episodes", _EPISODES, mine).to_pylist():
        cell = row["cell_id"]
        trace = _Trace(row, content)
        yield trace.episode()
        for place, message in enumerate(asked.get(cell, [])):
            words = said.get(cell, ())
            yield trace.request(message, words[place] if place < len(words) else None)
        for step in steps.get(cell, []):
            yield from trace.decision(step)


def _by_cell(
    root: Path, table: store.Table, names: Sequence[str], mine: pc.Expression
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in store.read(root, table, names, mine).to_pylist():
        found.setdefault(row["cell_id"], []).append(row)
    return found


class _Trace:
    """The spans of one episode, by the GenAI conventions; names of further attributes begin with `agent_grid.`."""

    def __init__(self, row: Mapping[str, Any], content: bool) -> None:
        from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
        from opentelemetry.trace import SpanContext, TraceFlags

        self._row, self._content, self._names, self._places = row, content, names, count()
        self._context, self._flags = SpanContext, TraceFlags(TraceFlags.SAMPLED)
        self._end = int(row["created_at"].timestamp() * 1e6) * 1_000
        self._begin = self._end - int((row["wall_seconds"] or 0.0) * 1e9)
        self._id = _number(f"{row['cell_id']} {row['attempt_id']}", 16)
        self._root = self._new()

    def episode(self) -> ReadableSpan:
        """The span of the whole episode: the invocation of an agent, with its success as an evaluation."""
        from opentelemetry.sdk.trace import Event

        row, names = self._row, self._names
        told = {
            names.GEN_AI_OPERATION_NAME: "invoke_agent",
            names.GEN_AI_AGENT_NAME: row["planner"],
            names.GEN_AI_PROVIDER_NAME: row["engine"],
            names.GEN_AI_REQUEST_MODEL: row["model"],
            names.GEN_AI_CONVERSATION_ID: row["cell_id"],
            names.GEN_AI_USAGE_INPUT_TOKENS: row["input_tokens"],
            names.GEN_AI_USAGE_OUTPUT_TOKENS: row["output_tokens"],
            names.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: row["cached_input_tokens"],
            names.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: row["reasoning_tokens"],
            "error.type": row["error_kind"],
            "agent_grid.requests_kept": row["n_messages"] is not None,
            **{f"agent_grid.{name}": row[name] for name in _TOLD},
        }
        if self._content and row["answer"]:
            told[names.GEN_AI_OUTPUT_MESSAGES] = _said("assistant", [row["answer"]])
        events = []
        if row["success"] is not None:
            scored: dict[str, Any] = {
                names.GEN_AI_EVALUATION_NAME: "success",
                names.GEN_AI_EVALUATION_SCORE_VALUE: float(row["success"]),
            }
            events = [Event("gen_ai.evaluation.result", scored, self._end)]
        return self._span(f"invoke_agent {row['planner']}", told, events=events, failed=row["status"] != "ok")

    def request(self, message: Mapping[str, Any], words: Request | None) -> ReadableSpan:
        """The span of one request to a model."""
        row, names = self._row, self._names
        model = row["model"] if message["role"] == ACTOR else row.get(message["role"]) or row["model"]
        told = {
            names.GEN_AI_OPERATION_NAME: "chat",
            names.GEN_AI_PROVIDER_NAME: row["engine"] if message["role"] == ACTOR else None,
            names.GEN_AI_REQUEST_MODEL: model,
            names.GEN_AI_REQUEST_CHOICE_COUNT: message["n"] if message["request"] == SAMPLE else None,
            names.GEN_AI_REQUEST_TEMPERATURE: message["temperature"],
            names.GEN_AI_REQUEST_MAX_TOKENS: message["max_tokens"],
            names.GEN_AI_REQUEST_SEED: message["seed"],
            **{f"agent_grid.{name}": message[name] for name in ("role", "decision", "request")},
        }
        if words:
            told[names.GEN_AI_INPUT_MESSAGES] = _said("user", [words.text()])
            told[names.GEN_AI_OUTPUT_MESSAGES] = _said("assistant", words.answers)
        return self._span(f"chat {model}", told, self._new(), client=True)

    def decision(self, step: Mapping[str, Any]) -> Iterator[ReadableSpan]:
        """The span of one decision, and the span of its tool call, if there was one."""
        names, tool, own = self._names, step["chosen_tool"], self._new()
        told = {f"agent_grid.{name}": step[name] for name in _DECIDED}
        told[names.GEN_AI_USAGE_INPUT_TOKENS] = step["input_tokens"]
        told[names.GEN_AI_USAGE_OUTPUT_TOKENS] = step["output_tokens"]
        yield self._span(f"decision {step['step']}", told, own)
        if tool is None or tool == NO_TOOL or step["observation"] is None:
            return
        called = {
            names.GEN_AI_OPERATION_NAME: "execute_tool",
            names.GEN_AI_TOOL_NAME: tool,
            "error.type": "tool" if step["failed"] else None,
        }
        if self._content:
            called[names.GEN_AI_TOOL_CALL_ARGUMENTS] = step["arguments"]
            called[names.GEN_AI_TOOL_CALL_RESULT] = step["observation"]
        yield self._span(f"execute_tool {tool}", called, self._new(), own, failed=bool(step["failed"]))

    def _new(self) -> Any:
        self._place = next(self._places)
        return self._context(self._id, _number(f"{self._id} {self._place}", 8), False, self._flags)

    def _span(
        self,
        name: str,
        told: Mapping[str, Any],
        own: Any = None,
        above: Any = None,
        *,
        events: Sequence[Any] = (),
        failed: bool = False,
        client: bool = False,
    ) -> ReadableSpan:
        """A span; `own` is the span's context, or None for the episode's span.

        The times of all spans except the episode's only show the order of the spans.
        """
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind, Status, StatusCode

        attributes = {key: value for key, value in told.items() if value is not None}
        place = min(self._begin + 1_000 * self._place, self._end)
        if own is not None:
            attributes["agent_grid.times"] = "order alone"
        return ReadableSpan(
            name=one_line(name, 200),
            context=own or self._root,
            parent=None if own is None else above or self._root,
            resource=_resource(),
            attributes=attributes,
            events=events,
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=self._begin if own is None else place,
            end_time=self._end if own is None else place,
            instrumentation_scope=_scope(),
        )


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def _said(role: str, texts: Sequence[str]) -> str:
    """The messages of one role, in the format of the GenAI conventions."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for text in texts])


@cache
def _resource() -> Any:
    """The service's name, and the attributes in OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME."""
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource

    return Resource({SERVICE_NAME: "agent-grid"}).merge(OTELResourceDetector().detect())


@cache
def _scope() -> Any:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope("agent-grid")
