"""The data of an episode's page, which are read from the files when the page is requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.tables.failure_cells import asked_for
from analysis.viewer.index import Index, Setting
from grid.core.types import NO_TOOL, to_json
from grid.core.untrusted import loads
from grid.store import sql

# A call next to the reference's call, argument by argument.


SAME, OTHER, LACKING, FURTHER = "same", "different", "missing", "not in the reference"


@dataclass(frozen=True)
class Argument:
    """An argument's value in each call, None if the call lacks it; `mark` compares both ("" without a reference)."""

    name: str
    chosen: str | None
    reference: str | None
    mark: str


@dataclass(frozen=True)
class Compared:
    """The chosen call and the reference's call, with their arguments; a tool is None if no tool was called.

    `known` is false if there is no reference for the decision.
    """

    tool: str | None
    reference: str | None
    known: bool
    arguments: Sequence[Argument]

    @property
    def tool_differs(self) -> bool:
        """Whether the tool differs from the reference's; it also differs if only one of the two calls a tool."""
        return self.known and (self.tool or NO_TOOL) != (self.reference or NO_TOOL)

    @property
    def differs(self) -> bool:
        """Whether the tool or any argument differs."""
        return self.tool_differs or any(one.mark not in ("", SAME) for one in self.arguments)


def compared(step: Mapping[str, Any], call: Mapping[str, Any] | None) -> Compared:
    """A row of `steps` next to a call of its case's reference.

    If `call` is None, there is no reference for this decision.

    Both calls are given as they were written; references to earlier outputs are not replaced.
    """
    own = written(step)
    if call is None:
        return Compared(
            step["chosen_tool"], None, False, [Argument(name, value, None, "") for name, value in own.items()]
        )
    theirs = _arguments(call["arguments"])
    arguments = [_argument(name, own, theirs) for name in dict.fromkeys([*theirs, *own])]
    return Compared(step["chosen_tool"], call["tool"], True, arguments)


def written(step: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a step's call, each as JSON; texts are unchanged.

    They are given as the model wrote them or, if these cannot be read, as they were run; empty if there are none.
    """
    whole = _loaded(step["written"])
    if isinstance(whole, dict) and isinstance(whole.get("arguments"), dict):
        return _values(whole["arguments"])
    return _arguments(step["arguments"])


def aligned(steps: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], followed: bool) -> list[int | None]:
    """For each step, the index of the reference's call with which it is compared; None if there is no such call.

    If an outline is followed, this is the call of the step's substep; otherwise the first call of the same tool that is
    not compared with an earlier step.
    """
    if followed:
        places = {call["substep_id"]: place for place, call in enumerate(calls)}
        return [places.get(step["substep_id"]) for step in steps]
    found: list[int | None] = [None] * len(steps)
    left = [place for place, call in enumerate(calls) if call["tool"]]
    for at, step in enumerate(steps):
        same = next((place for place in left if calls[place]["tool"] == step["chosen_tool"]), None)
        if same is not None:
            found[at] = same
            left.remove(same)
    return found


def _argument(name: str, own: Mapping[str, str], theirs: Mapping[str, str]) -> Argument:
    mark = (
        LACKING if name not in own else FURTHER if name not in theirs else SAME if own[name] == theirs[name] else OTHER
    )
    return Argument(name, own.get(name), theirs.get(name), mark)


def _arguments(text: str | None) -> dict[str, str]:
    found = _loaded(text)
    return _values(found) if isinstance(found, dict) else {} if found is None else {"": str(text)}


def _values(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else to_json(value) for name, value in found.items()}


def _loaded(text: str | None) -> Any:
    """The value of a JSON text in a column; a text that is not JSON because it was cut to fit stays a string."""
    if text is None:
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


Row = Mapping[str, Any]
SIDES = 6
"""Maximum number of branches that are shown side by side."""
_OPTIONS = 12  # maximum number of bars for one decision
_STEPS = 400  # maximum number of decisions on one page
_CELL = "cell_id = $cell AND attempt_id = $attempt"
_EPISODE = "SELECT * FROM $files WHERE cell_id = $cell QUALIFY " + sql.COUNTS


@dataclass(frozen=True)
class Decision:
    """A row of `steps` next to the reference; `asked` are the numbers of the requests for this decision.

    `options` are the likeliest options, and `more` is the number of options left out.
    """

    row: Row
    calls: Compared
    options: Sequence[Row]
    more: int
    asked: Sequence[int]


@dataclass(frozen=True)
class Sibling:
    """An episode of the same case: another one, or the shown episode itself."""

    cell: str
    setting: Setting
    trial: int
    success: bool | None


@dataclass(frozen=True)
class EpisodePage:
    """The data of a page of one episode.

    `case` is None if the case's row is lost. `left_out` is the number of the path's decisions that are not shown.
    `missed` are the reference's calls that the planner was asked for (`failure_cells.asked_for`) and with which no
    decision of the path is compared. `branches` are all branches of the episode.
    """

    row: Row
    setting: Setting
    case: Row | None
    decisions: Sequence[Decision]
    left_out: int
    missed: Sequence[Row]
    branches: Sequence[int]
    siblings: Sequence[Sibling]


def find(index: Index, cell: str) -> tuple[Row, Setting] | None:
    """The row of an episode in the index, and its setting; None if the index has no such episode.

    Raises:
        StoreError: a file cannot be read.
    """
    held = index.ask("SELECT setting FROM e WHERE cell_id = $cell", {"cell": cell})
    rows = index.rows("episodes", _EPISODE, {"cell": cell}) if held else []
    if not rows:
        return None
    return rows[0], next(one for one in index.settings if one.key == held[0][0])


def page(index: Index, cell: str, branch: int | None) -> EpisodePage | None:
    """An episode with the decisions of its path, or of the given branch; None if there is no such episode.

    Raises:
        StoreError: a file cannot be read.
    """
    found = find(index, cell)
    if found is None:
        return None
    row, setting = found
    steps = _steps(index, row)
    case = case_of(index, row)
    shown = _shown(steps, branch)
    calls = case["calls"] if case else []
    ids = [call["substep_id"] for call in calls]
    calls = calls[asked_for(ids, row["horizon_k"], shown[0]["substep_id"] if shown else None)]
    places = aligned(shown, calls, bool(case and case["followed"]))
    asked = _requests(index, row)
    decisions = [
        _decision(step, None if place is None else calls[place], bool(case and case["followed"]), asked)
        for step, place in zip(shown[:_STEPS], places, strict=False)
    ]
    missed = [call for place, call in enumerate(calls) if call["tool"] and place not in places]
    branches = sorted({step["branch"] for step in steps})
    return EpisodePage(
        row, setting, case, decisions, max(len(shown) - _STEPS, 0), missed, branches, _siblings(index, row, setting)
    )


def sides(index: Index, row: Row, first: int) -> tuple[list[int], list[tuple[str, dict[int, Decision]]]]:
    """Up to SIDES branches from `first` on, and for each substep its last decision in each of these branches.

    Raises:
        StoreError: a file cannot be read.
    """
    steps = _steps(index, row)
    branches = [branch for branch in sorted({step["branch"] for step in steps}) if branch >= first][:SIDES]
    case = case_of(index, row)
    followed = bool(case and case["followed"])
    calls = {call["substep_id"]: call for call in case["calls"]} if case and followed else {}
    found: dict[tuple[int, str], dict[int, Decision]] = {}
    for step in steps:
        if step["branch"] in branches:
            at = found.setdefault((step["step"], step["substep_id"]), {})
            at[step["branch"]] = _decision(step, calls.get(step["substep_id"]), followed, {})
    return branches, [(f"{substep}", found[place, substep]) for place, substep in sorted(found)]


def case_of(index: Index, row: Row) -> Row | None:
    """The case of an episode; None if its row is lost. Raises StoreError."""
    query = "SELECT * FROM $files WHERE digest = $digest LIMIT 1"
    rows = index.rows("cases", query, {"digest": row["case_digest"]}) if row["case_digest"] else []
    return rows[0] if rows else None


def of_try(index: Index, table: str, row: Row, order: str) -> list[dict[str, Any]]:
    """The rows of an episode's latest attempt in a table, ordered by the SQL `order`. Raises StoreError."""
    query = f"SELECT * FROM $files WHERE {_CELL} ORDER BY {order}, file_index, file_row_number"
    return index.rows(table, query, {"cell": row["cell_id"], "attempt": row["attempt_id"]})


def _steps(index: Index, row: Row) -> list[dict[str, Any]]:
    return of_try(index, "steps", row, "branch, step")


def _shown(steps: Sequence[Row], branch: int | None) -> list[Row]:
    """The decisions of the branch, if given; else those of the scored path or, without one, of the first pass."""
    if branch is None and any(step["on_path"] for step in steps):
        return sorted((step for step in steps if step["on_path"]), key=lambda step: int(step["step"]))
    return [step for step in steps if step["branch"] == (branch or 0)]


def _decision(step: Row, call: Row | None, followed: bool, asked: Mapping[tuple[str, str], Sequence[int]]) -> Decision:
    known = call if call is not None or not followed else None
    options = sorted(step["options"] or [], key=lambda option: -(option["probability"] or 0.0))
    numbers = asked.get((f"pass{step['branch']}", str(step["substep_id"])), ())
    return Decision(step, compared(step, known), options[:_OPTIONS], max(len(options) - _OPTIONS, 0), numbers)


def _requests(index: Index, row: Row) -> dict[tuple[str, str], list[int]]:
    """The numbers of an episode's requests, by the pass and substep in their names."""
    query = f"SELECT message, decision FROM $files WHERE {_CELL} ORDER BY message"
    rows = index.rows("messages", query, {"cell": row["cell_id"], "attempt": row["attempt_id"]})
    found: dict[tuple[str, str], list[int]] = {}
    for request in rows:
        parts = request["decision"].split("/")
        if len(parts) > 1:
            found.setdefault((parts[0], parts[1]), []).append(request["message"])
    return found


def _siblings(index: Index, row: Row, setting: Setting) -> list[Sibling]:
    """The episodes of the same case in the same place, including this one, planner by planner."""
    settings = {one.key: one for one in index.of_place(setting.place)}
    query = (
        "SELECT cell_id, setting, trial, success FROM e\n"
        "WHERE setting IN $settings AND case_id = $case::cases ORDER BY trial, cell_id"
    )
    rows = index.ask(query, {"settings": list(settings), "case": row["case_id"]})
    found = [Sibling(cell, settings[key], trial, success) for cell, key, trial, success in rows]
    return sorted(found, key=lambda one: (one.setting.planner, one.trial))
