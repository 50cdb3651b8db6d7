"""The rows of a cell (its steps, case, requests and costs) and of an attempt, and limits on the values in all rows."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from grid import store
from grid.core.engine import Role, Section, Source
from grid.core.errors import ErrorKind, Status
from grid.core.metric import split
from grid.core.problem import Problem, Reference
from grid.core.types import BETWEEN, NO_TOOL, Step, Substep, ToolSpec, Trajectory, Usage, to_json
from grid.core.util import Once
from grid.episode.episode import Episode
from grid.episode.options import Retrieved
from grid.episode.requests import Message
from grid.metrics.scores import SUCCESS, replacements
from grid.metrics.stepwise import tool_matches
from grid.settings.roles import Prices, money
from grid.settings.setting import Keep
from grid.store.scanning import EpisodeRow
from grid.store.schema import SCORES, SOURCE, SPENT, TEXT
from grid.store.schema import TABLES as SCHEMAS
from grid.store.writing import values_of

Ranked = Callable[[Step], Sequence[ToolSpec]]
"""A function that returns the tools retrieved for a decision, best first."""

_MAX_TEXT = 200_000  # maximum length of a text in a row, in characters


def step_rows(
    cell_id: str,
    attempt_id: str,
    trajectory: Trajectory,
    reference: Reference,
    ranked: Ranked,
    forgiving: bool = False,
) -> list[dict[str, Any]]:
    """One row per decision; if planners follow the reference, each decision is compared with it.

    `step` is the position in the outline or, without an outline, the decision's position on its path. `n_options` also
    counts `no_tool` or `finish`. `reference_rank` is the position of the reference's tool among the retrieved tools,
    from 0. From `n_options` and `reference_rank`, one can compute without a model how often the retriever's first tool,
    or a random tool, would match. `replaced` has the names that `forgiving` tools used in place of unknown names, in
    the form `{parameter: [given, taken]}`.
    """
    on_path = {id(step) for step in trajectory.steps}
    outline = reference.calls if reference.followed else dict.fromkeys(s.substep.id for s in trajectory.decisions)
    places = {substep: index for index, substep in enumerate(outline)}
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "branch": step.branch,
            "step": places[step.substep.id],
            "substep_id": step.substep.id,
            "substep": step.substep.text,
            "on_path": id(step) in on_path,
            **_against(step, reference, ranked),
            "chosen_tool": step.chosen,
            "thought": step.thought,
            "written": step.written.text() if step.written else None,
            "arguments": to_json(dict(step.call.arguments)) if step.call else None,
            "observation": step.observation.text() if step.observation else None,
            "failed": step.observation.failed if step.observation else None,
            "replaced": _replaced(step) if forgiving else None,
            "entropy": step.entropy,
            "n_options": len(step.candidates) + 1 if step.candidates else None,
            "options": [{"tool": o.tool, "probability": o.probability} for o in step.options],
            "unassigned": step.unassigned,
            "error_bound": step.error_bound,
            "input_tokens": step.input_tokens,
            "cached_input_tokens": step.cached_input_tokens,
            "output_tokens": step.output_tokens,
        }
        for step in trajectory.decisions
    ]


def ranked_of(problem: Problem | None) -> Ranked:
    """A function that returns the tools retrieved for a decision, best first (none without a problem).

    Planners do not see these.
    """
    known: dict[tuple[Substep | None, str], Sequence[ToolSpec]] = {}

    def ranked(step: Step) -> Sequence[ToolSpec]:
        key = (None if step.whole_query else step.substep, step.sought)
        if key not in known:
            known[key] = Retrieved.of(problem).tools(problem.case, *key) if problem else ()
        return known[key]

    return ranked


def _against(step: Step, reference: Reference, ranked: Ranked) -> dict[str, Any]:
    call = reference.calls.get(step.substep.id)
    known = reference.followed and step.substep.id in reference.calls
    return {
        "tool_required": call is not None if known else None,
        "reference_tool": (call.tool if call else NO_TOOL) if known else None,
        "tool_matches": tool_matches(step, reference) if known else None,
        "reference_rank": _rank(call.tool, step, ranked) if known and call else None,
    }


def _replaced(step: Step) -> str | None:
    """The column `replaced` of a step; None if nothing was replaced."""
    found = replacements(step)
    given = step.call.arguments if step.call else {}
    return to_json({name: [given.get(name), taken] for name, taken in found.items()}) if found else None


def _rank(tool: str, step: Step, ranked: Ranked) -> int | None:
    """The position of a tool among the retrieved tools; None if it was not offered (only the best are candidates)."""
    place = _places(ranked(step)).get(tool)
    return place if place is not None and place < len(step.candidates) else None


_places: Once[Sequence[ToolSpec], dict[str, int]] = Once(
    lambda tools: {tool.name: place for place, tool in reversed([*enumerate(tools)])}  # first position of each name
)


def score_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Success, and maps of all other metrics that have a value."""
    numbers, texts = split({name: value for name, value in values.items() if value is not None and name != SUCCESS})
    return {SUCCESS: values.get(SUCCESS), SCORES: numbers, TEXT: storable(texts) if texts else texts}


def storable(row: dict[str, Any]) -> dict[str, Any]:
    """The row itself, its texts changed so that a table can store them: no unpaired surrogates, and not too long."""
    for key, value in row.items():
        kind = type(value)
        if kind is str:
            if len(value) > _MAX_TEXT or not value.isascii():
                row[key] = _text(value)
        elif kind is list and value:
            row[key] = [_plain(part) for part in value]
    return row


def _plain(part: Any) -> Any:
    """An entry of a list (a text, a struct of plain values, or any other value), in a form that a table can store."""
    return storable(part) if isinstance(part, dict) else _text(part) if isinstance(part, str) else part


def _text(text: str) -> str:
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode()


# The row of a case: its request, and its reference.


_DIGITS = 32
_MOST_CASES = 2048  # maximum number of cases whose rows are cached; beyond that, all are dropped
_case_rows: dict[str, tuple[Mapping[str, Any], tuple[Any, ...], dict[str, Any]]] = {}


def case_row(problem: Problem) -> dict[str, Any]:
    """A case in its setting: query, outline (after any disturbance by the setting), and the reference's calls in order.

    A substep that needs no tool has a call without a tool. `digest` identifies the contents: equal cases of several
    settings share one row in the table. In memory, trials of a case share a row object if the calls are the same
    object.
    """
    case, reference = problem.case, problem.reference
    calls, of_reference = reference.calls, (reference.followed, reference.ordered, reference.answer)
    told = (problem.domain, case.query, case.messages, case.plan, of_reference)
    known = _case_rows.get(case.id)
    if known is None or known[0] is not calls or known[1] != told:
        if len(_case_rows) >= _MOST_CASES:
            _case_rows.clear()
        _case_rows[case.id] = known = calls, told, storable(_case_row(problem))
    return known[2]


def _case_row(problem: Problem) -> dict[str, Any]:
    case, reference = problem.case, problem.reference
    row: dict[str, Any] = {
        "case_id": case.id,
        "domain": problem.domain or None,
        "query": case.query,
        "messages": [message.text for message in case.messages],
        "outline": [{"id": part.id, "goal": part.goal, "text": part.text} for part in case.plan.substeps],
        "calls": [
            {
                "substep_id": substep,
                "tool": call.tool if call else None,
                "arguments": to_json(dict(call.arguments)) if call else None,
            }
            for substep, call in reference.calls.items()
        ],
        "followed": reference.followed,
        "ordered": reference.ordered,
        "answer": reference.answer,
    }
    text = to_json(row).encode("utf-8", "replace")
    return {"digest": hashlib.sha256(text).hexdigest()[:_DIGITS], **row}


# Requests and answers for the tables, and which cells' requests are kept; a section of a prompt is seldom stored more
# than once.


Row = dict[str, Any]
TABLES: Sequence[store.Table] = ("messages", "sections")
"""The tables of transcripts."""
_TRANSCRIPTS_MAX_TEXT = 1_000_000  # maximum characters of an answer, and of an entry or option of a section
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_MOST_KNOWN = 200_000  # digests; beyond that, all are dropped, as a section written twice does no harm


class Room:
    """The space for a sweep's transcripts: after `most` bytes, `Keep.rest` says which cells' requests are kept.

    `since` has the time when the space was used up, and the number of this run's cells that had ended by then; it is
    None until then, and if `Keep.rest` would change nothing.
    """

    def __init__(self, root: Path, keep: Keep, most: int) -> None:
        self.keep, self._most, self._used = keep, most, store.size(root, TABLES)
        self.since: tuple[dt.datetime, int] | None = None
        self._cells = 0
        self.took(0, 0)

    def took(self, cells: int, written: int) -> None:
        """Count cells that have ended, and the bytes that were written for their requests."""
        self._cells, self._used = self._cells + cells, self._used + written
        if self.since is None and self._used >= self._most and self.keep.rest() != self.keep:
            self.since, self.keep = (dt.datetime.now(dt.UTC), self._cells), self.keep.rest()


def transcript_rows(
    cell_id: str, attempt_id: str, messages: Sequence[Message], known: set[str]
) -> dict[str, list[store.Values]]:
    """Rows of `messages`, in the order of requests, and of `sections` that are not in `known`; adds these to `known`.

    The rows have no column names, because rows with names would take twice the time.
    """
    if len(known) > _MOST_KNOWN:
        known.clear()
    found: dict[str, list[store.Values]] = {"sections": [], "messages": []}
    for place, message in enumerate(messages):
        sections = message.prompt.sections
        digests = [section.digest for section in sections]
        found["messages"].append((cell_id, attempt_id, place, *_message(message, digests)))
        if not known.issuperset(digests):
            fresh = {one: section for one, section in zip(digests, sections, strict=True) if one not in known}
            found["sections"] += [_section(one, section) for one, section in fresh.items()]
            known.update(digests)
    return found


def _message(message: Message, digests: list[str]) -> store.Values:
    """The columns `role` to `altered`."""
    answers, altered = _verbatim("answer", message.answers)
    return (
        message.role,
        message.decision,
        "choose" if message.n is None else "sample",
        _kind(type(message.prompt.answer).__name__),
        message.seed,
        message.n,
        message.temperature,
        message.max_tokens,
        digests,
        answers,
        message.probabilities,
        _reasons(message.unreadable) if message.unreadable else (),
        altered,
    )


def _section(digest: str, section: Section) -> store.Values:
    (entries, one), (options, other) = _verbatim("entry", section.entries), _verbatim("option", section.options)
    return digest, section.kind, entries, options, "; ".join(filter(None, (one, other))) or None


def _verbatim(what: str, texts: Sequence[str]) -> tuple[Sequence[str], str | None]:
    """The texts as stored, and the changes to texts that are too long or that a table cannot store."""
    if all(map(str.isascii, texts)) and max(map(len, texts), default=0) <= _TRANSCRIPTS_MAX_TEXT:
        return texts, None
    kept, told = [], []
    for place, text in enumerate(texts):
        if len(text) > _TRANSCRIPTS_MAX_TEXT:
            told.append(f"{what} {place} is cut after {_TRANSCRIPTS_MAX_TEXT:,} of {len(text):,} characters")
            text = text[:_TRANSCRIPTS_MAX_TEXT]
        if not text.isascii() and _HALF_PAIR.search(text):
            told.append(f"unpaired surrogates in {what} {place} are written as ?")
            text = _HALF_PAIR.sub("?", text)
        kept.append(text)
    return kept, "; ".join(told) or None


def _reasons(unreadable: Mapping[int, str]) -> list[dict[str, Any]]:
    return [{"place": place, "why": why} for place, why in unreadable.items()]


@cache
def _kind(answer: str) -> str:
    """The kind of an answer, from its class's name: `tool_call` for ToolCallAnswer."""
    words = re.findall(r"[A-Z][a-z]+", answer.removesuffix("Answer"))
    return "_".join(words).lower()


# The costs of each role for a cell, and how the cell ended, as columns of its row.


_NONE = Usage()
_NAMES = tuple(vars(_NONE))


def costs_of(roles: Collection[Role], prices: Prices, spent: Mapping[Role, Usage]) -> dict[str, Any]:
    """The map `costs` with the costs of each role of a setting, and `money`, the money of all roles together.

    A role's tokens are null if the tokens of some of its answers were not counted. Money is null if a price or a number
    of tokens is unknown.
    """
    spent = dict.fromkeys(roles, _NONE) | dict(spent)
    costs = {
        role: {**usage.known(), "money": money({role: prices[role]}, spent) if role in prices else None}
        for role, usage in spent.items()
    }
    return {"costs": costs, "money": money(prices, spent)}


def spent_in(episode: Mapping[str, Any]) -> dict[Role, Usage]:
    """The usage of each role, from an episode's row, without the tokens of roles with uncounted answers."""
    return {
        role: Usage(*[episode["costs"][role][name] or 0 for name in _NAMES])
        for role in SPENT
        if role in episode["costs"]
    }


def spent_by_columns(row: Mapping[str, Any]) -> dict[Role, Usage]:
    """The usage of each role, from a row of `episodes` in the joined form."""
    return {
        role: Usage(**{name: row[column] or 0 for name, column in columns.items()}) for role, columns in SPENT.items()
    }


def summed(spent: Iterable[Mapping[Role, Usage]]) -> dict[Role, Usage]:
    """The total usage of each role; planners and tools may ask the same role."""
    total: dict[Role, Usage] = {}
    for part in spent:
        for role, usage in part.items():
            total[role] = total[role] + usage if role in total else usage
    return total


def larger(one: Usage, other: Usage) -> Usage:
    """For each count, the larger of the two values."""
    return Usage(**{name: max(getattr(one, name), getattr(other, name)) for name in _NAMES})


# How an episode ended and which resources it used, as columns of its row.


_CANCELLED = ("llm_calls", "forward_passes", "input_tokens", "output_tokens")
_MAX_MESSAGE = 2000  # maximum length of an error message, in characters


def outcome_columns(
    episode: Episode | None, trajectory: Trajectory, status: Status, kind: ErrorKind | None, message: str | None
) -> dict[str, Any]:
    """The columns about how an episode ended, and about its work until the end."""
    return {
        "status": status,
        "error_kind": kind,
        "error_message": message[:_MAX_MESSAGE] if message else None,
        "answer": trajectory.answer or None,
        "n_steps": len(trajectory.steps),
        "budget_reached": episode.budget_reached if episode else None,
        "tool_calls": episode.tool_calls if episode else 0,
        "resolved_checks": episode.resolved_checks if episode else 0,
        "replans": trajectory.replans,
        "branches": trajectory.branches,
        "draft": episode.plans.draft if episode else None,
        "branched_steps": trajectory.branched_steps,
    }


def taken(episode: Episode | None, trajectory: Trajectory) -> dict[str, Any]:
    """Scores about an episode's decisions and, for planners that cancel paths, about the cost of cancelled paths."""
    cancelled = episode.cancelled if episode else None
    spent = cancelled.known() if cancelled else {}
    return {
        "unassigned": _mean(step.unassigned for step in trajectory.decisions),
        **{f"cancelled_{name}": spent[name] for name in _CANCELLED if name in spent},
    }


def source_columns(sources: Iterable[Source]) -> dict[str, str | None]:
    """The columns that say, according to the acting model's server, which model answered.

    If there are several values for a column, they are joined.
    """
    told = zip(*sources, strict=True)
    joined = [BETWEEN.join(sorted(set(filter(None, names)))) or None for names in told]
    return dict(zip(SOURCE, joined or [None] * len(SOURCE), strict=True))


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are no such values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def time_columns(passed: float, own: float, now: dt.datetime) -> dict[str, Any]:
    """The seconds that passed, the part that counts for the case's deadline, and the time of the end."""
    return {"wall_seconds": passed, "case_seconds": own, "created_at": now}


# Attempts at a chunk: the results of its cells, and the row of an attempt.


_ORDER = ("episodes", "steps", "nodes", "improvements", "cases", *TABLES)  # order of taking; episodes are added last
ENDED, DIED = "ended", "died"  # an attempt's status


class Outcome(NamedTuple):
    """A cell's episode row, its rows of other tables, and its requests, if they are kept."""

    episode: Row
    rows: Mapping[store.Table, list[Row]]
    messages: Sequence[Message] = ()


def untold(episode: Mapping[str, Any]) -> bool:
    """Whether a cell's success is unknown because something other than the agent went wrong.

    This is so if the cell failed for a reason other than the agent, or if an answer of a judge or an evaluator could
    not be read. The result is False if success is null and nothing went wrong, for example if there is no judge.
    """
    if episode[SUCCESS] is not None:
        return False
    return episode["status"] != Status.OK or any(episode[name] for name in SILENT)


SILENT = ("judge_failures", "evaluator_failures")
"""Metrics that count the unreadable answers of judges and evaluators."""


@dataclass
class ChunkResult:
    """The sums over a chunk's ended cells, and the rows of these cells until the rows are taken.

    `unknown` counts the cells that are `untold`, and `kept` counts the cells whose requests are kept. `sections` has
    the digests of cases and of prompt sections that already have rows.
    """

    cells: int = 0
    ok: int = 0
    unknown: int = 0
    kept: int = 0
    spent: dict[Role, Usage] = field(default_factory=lambda: dict.fromkeys(SPENT, Usage()))
    sections: set[str] = field(default_factory=set)
    _rows: dict[str, deque[store.Values]] = field(default_factory=lambda: {table: deque() for table in _ORDER})

    @property
    def usage(self) -> Usage:
        """The usage of all roles together."""
        return sum(self.spent.values(), Usage())

    @property
    def failed(self) -> int:
        """The number of cells that did not end well."""
        return self.cells - self.ok

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a cell that has ended."""
        episode, rows, messages = outcome
        self.count(episode["status"], spent_in(episode))
        self.unknown += untold(episode)
        self.kept += episode["n_messages"] is not None
        if messages:
            names = episode["cell_id"], episode["attempt_id"]
            for table, values in transcript_rows(*names, messages, self.sections).items():
                self._rows[table] += values
        for table, found in {**rows, "cases": self._fresh(rows.get("cases", []))}.items():
            self._rows[table] += [values_of(table, row) for row in found]
        self._rows["episodes"].append(values_of("episodes", episode))  # last, so that its other rows are there first

    def _fresh(self, cases: list[Row]) -> list[Row]:
        """The cases that were not added before; from now on, they count as added."""
        fresh = [row for row in cases if row["digest"] not in self.sections]
        self.sections.update(row["digest"] for row in fresh)
        return fresh

    def count(self, status: str, spent: Mapping[Role, Usage]) -> None:
        """Add an episode to the sums, but not to the rows."""
        self.cells += 1
        self.ok += status == Status.OK
        for role, usage in spent.items():
            self.spent[role] += usage

    def take_all(self) -> dict[str, list[store.Values]]:
        """The rows that were not taken before, by table, in the order in which cells ended; any thread may call this.

        If an episode's row is included, so are all other rows of its cell. Rows of cells that end during the call may
        be included too.
        """
        return {table: [rows.popleft() for _ in range(len(rows))] for table, rows in self._rows.items()}

    def take(self) -> dict[str, list[Row]]:
        """The rows of `take_all` as dictionaries by column name; transcripts are taken too, but not returned."""
        made: dict[str, Any] = {"episodes": EpisodeRow}
        return {
            table: [made.get(table, dict)(zip(SCHEMAS[table].names, row, strict=True)) for row in rows]
            for table, rows in self.take_all().items()
            if table not in TABLES
        }


def attempt_row(
    attempt_id: str,
    setting_id: str,
    prices: Prices,
    result: ChunkResult,
    seconds: float,
    made: Any,
    died_with: int | None = None,
) -> dict[str, Any]:
    """The row of an attempt. If its worker died and wrote no row, `died_with` is the number of the attempt's cells."""
    return {
        "attempt_id": attempt_id,
        "setting_id": setting_id,
        "status": ENDED if died_with is None else DIED,
        "cells": result.cells if died_with is None else died_with,
        "ok": result.ok,
        "failed": result.failed,
        "seconds": seconds,
        **result.usage.known(),
        "money": money(prices, result.spent),
        "created_at": made,
    }
