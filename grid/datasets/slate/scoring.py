"""Score calls on SLATE: execution success, tool match and action identification (egb_slate §6.1).

The predictions are JSON Lines, one case per line. `calls` has, for each substep of the plan, the one call that was
made, or null if there was none:

    {"case_id": "slate-0000", "calls": {"1.1": {"tool": "find_order", "arguments": {"order_id": "A-1"}}, "1.2": null}}

An argument is a value or `OUTPUT_FROM_STEP_i.j.field`, a result of an earlier call in `calls`. Leave out a substep if
it was not reached, or if its answer could not be read; such a substep counts as wrong. A call of a tool that does not
exist is wrong. Cases that are left out also count as wrong, unless --subset is given.

- Execution success rate: the share of cases in which the outcomes of all substeps in the case's `resolution` were
  obtained, no matter by which calls. Calls are compared with the simulator's entries. Dates, numbers and texts that
  mean the same thing in different forms are equal; tools with the same function are equal too.
- Tool match rate: of a case's substeps that need a tool, the share at which the reference's tool was called; averaged
  over cases.
- Action identification accuracy: the share of a case's substeps at which a tool was called if one was needed, or no
  tool was called if none was needed; averaged over cases.

Intervals are 95% intervals from resampling whole workflows, since the cases of one workflow are not independent draws.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from grid.core.errors import DataError
from grid.core.types import Json, Observation, Parameter, ToolCall
from grid.core.untrusted import shown
from grid.datasets.files import read_json, read_jsonl
from grid.text.references import resolve
from grid.worlds.lookup import Entry, SameFunction, by_reference_names, by_rules, candidates

DATA_FILES = ("tools.jsonl", "cases.jsonl", "simulator.jsonl")
MANIFEST = "manifest.json"
METRICS = ("execution_success_rate", "tool_match_rate", "action_identification_accuracy")
DRAWS = 2_000
"""The number of resamples for a bootstrap interval."""
Calls = Mapping[str, ToolCall | None]
"""For each substep, the call that was made; None if no call was made."""


@dataclass(frozen=True)
class ScoredCase:
    """The data for scoring a case: the reference's tool of each substep (None: no tool), and the simulator's tables.

    `default` is the outcome of a call that matches no entry. In its texts, `{tool}` is replaced by the tool's name.
    """

    workflow: str
    tools: Mapping[str, str | None]
    resolution: frozenset[str]
    entries: tuple[Entry, ...]
    same_function: Mapping[str, SameFunction]
    default: Mapping[str, str]


class Verdict(NamedTuple):
    """A case's metrics, in the order of METRICS; `tool_match` is None if no substep needs a tool."""

    success: float
    tool_match: float | None
    action: float


class Estimate(NamedTuple):
    """A mean over cases and its 95% interval. There are no bounds if all cases are of one workflow."""

    mean: float
    low: float | None
    high: float | None


def verified(folder: Path) -> dict[str, Any]:
    """The manifest of an exported folder. Raises DataError if a data file differs from the manifest."""
    path = folder / MANIFEST
    manifest = read_json(path)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise DataError(path, None, "the file is not the manifest of an exported SLATE")
    for name in DATA_FILES:
        entry = files.get(name)
        wanted = entry.get("sha256") if isinstance(entry, dict) else None
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(folder / name, None, f"cannot be read: {error.strerror}") from None
        if found != wanted:
            said = f"its sha256 is {found:.12}..., but {MANIFEST} says {str(wanted)[:12]!r}"
            raise DataError(folder / name, None, f"the file differs from the exported file: {said}")
    return dict(manifest)


def read_scored_cases(folder: Path) -> dict[str, ScoredCase]:
    """The cases of an exported folder by id. Raises DataError with file and line if a record lacks a main key."""
    parameters = {
        tool["name"]: {
            one["name"]: Parameter(one["name"], one["type"], one["description"]) for one in tool["arguments"]
        }
        for tool in _records(folder / DATA_FILES[0], "name", "arguments")
    }
    tables = {table["case_id"]: table for table in _records(folder / DATA_FILES[2], "case_id", "entries")}
    return {
        case["case_id"]: scored_case(case, tables[case["case_id"]], parameters)
        for case in _records(folder / DATA_FILES[1], "case_id", "plan", "resolution")
    }


def scored_case(case: Any, table: Any, parameters: Mapping[str, Mapping[str, Parameter]]) -> ScoredCase:
    """Make a case from its line in the file of cases, its line in the simulator's file, and the tools' parameters."""
    substeps = [substep for step in case["plan"] for substep in step["substeps"]]
    entries = tuple(
        Entry(
            frozenset(entry["substeps"]),
            ToolCall(entry["tool"], entry["arguments"]),
            Observation(entry["outcome"]),
            parameters=parameters[entry["tool"]],
        )
        for entry in table["entries"]
    )
    return ScoredCase(
        case["workflow"],
        {substep["id"]: substep["call"] and substep["call"]["tool"] for substep in substeps},
        frozenset(case["resolution"]),
        entries,
        {name: SameFunction(same["tool"], same["arguments"]) for name, same in table["same_function"].items()},
        table["default"],
    )


def _records(path: Path, *keys: str) -> Iterator[Any]:
    for line, record in read_jsonl(path):
        if missing := [key for key in keys if key not in record]:
            raise DataError(path, line, f"{missing[0]!r} is missing")
        yield record


def read_predictions(path: Path, cases: Mapping[str, ScoredCase]) -> dict[str, Calls]:
    """The calls by case.

    Raises DataError if the file is missing or empty, or with the line of a record that is not a new prediction.
    """
    found: dict[str, Calls] = {}
    if not path.is_file():
        raise DataError(path, None, "no such file")
    for line, record in read_jsonl(path, own=True):
        case_id, calls = record.get("case_id"), record.get("calls")
        if not isinstance(case_id, str) or case_id not in cases:
            raise DataError(path, line, f"unknown case {case_id!r:.80}")
        if case_id in found:
            raise DataError(
                path, line, f"case {case_id!r:.80} comes twice, but a file has the predictions of only one run"
            )
        if not isinstance(calls, dict):
            raise DataError(
                path, line, "`calls` must be an object that has, for each substep, a call or null (no call)"
            )
        if unknown := calls.keys() - cases[case_id].tools.keys():
            raise DataError(path, line, f"case {case_id!r:.80} has no substep {min(unknown)!r:.40}")
        found[case_id] = {step: _call(path, line, step, call) for step, call in calls.items()}
    if not found:
        raise DataError(path, None, "the file has no predictions")
    return found


def _call(path: Path, line: int, step: str, call: Json) -> ToolCall | None:
    if call is None:
        return None
    if isinstance(call, dict) and call.keys() == {"tool", "arguments"}:
        tool, arguments = call["tool"], call["arguments"]
        if isinstance(tool, str) and isinstance(arguments, dict):
            return ToolCall(tool, arguments)
    raise DataError(path, line, f'substep {step}: a call must be {{"tool": text, "arguments": object}} or null')


def obtained(case: ScoredCase, calls: Calls) -> frozenset[str]:
    """The substeps whose outcomes are obtained if the calls are run in the plan's order."""
    outputs: dict[str, Mapping[str, Json]] = {}
    found: frozenset[str] = frozenset()
    for step in case.tools:
        call = calls.get(step)
        if call is None:
            continue
        stated = by_reference_names(resolve(call, outputs), case.same_function)
        meant = by_rules(candidates(case.entries, stated), stated)
        missed = {name: text.replace("{tool}", call.tool) for name, text in case.default.items()}
        outputs[step] = meant[0].outcome.content if meant else missed
        found = found.union(*(entry.substeps for entry in meant))
    return found


def judged(case: ScoredCase, calls: Calls) -> Verdict:
    """A case's metrics."""
    matches, acted = [], []
    for step, tool in case.tools.items():
        call = calls.get(step)
        acted.append(step in calls and (call is None) == (tool is None))
        if tool is not None:
            matches.append(call is not None and call.tool == tool)
    success = float(case.resolution <= obtained(case, calls))
    return Verdict(success, mean(matches) if matches else None, mean(acted))


def estimated(values: Sequence[tuple[str, float]], draws: int = DRAWS) -> Estimate:
    """The mean of the values, and an interval: percentiles of the means of resampled workflows, with seed 0.

    If all workflows have the same mean, resampling is useless. The interval then comes from the Clopper-Pearson bound
    for zero successes in as many trials as there are workflows.
    """
    groups: dict[str, list[float]] = {}
    for workflow, value in values:
        groups.setdefault(workflow, []).append(value)
    sums = [(sum(group), len(group)) for group in groups.values()]
    centre, count = mean(value for _, value in values), len(sums)
    if count < 2:
        return Estimate(centre, None, None)
    if len({total / size for total, size in sums}) == 1:
        unseen = 1 - 0.025 ** (1 / count)
        return Estimate(centre, centre * (1 - unseen), centre + (1 - centre) * unseen)
    rng = random.Random(0)
    means = []
    for _ in range(draws):
        drawn = rng.choices(sums, k=count)
        means.append(sum(total for total, _ in drawn) / sum(size for _, size in drawn))
    means.sort()
    edge = round(0.025 * draws)
    return Estimate(centre, means[edge], means[-1 - edge])


def summary(cases: Mapping[str, ScoredCase], predictions: Mapping[str, Calls], subset: bool) -> dict[str, Any]:
    """The whole report, as JSON."""
    scored = predictions.keys() if subset else cases.keys()
    verdicts = {
        case_id: judged(case, predictions.get(case_id, {})) for case_id, case in cases.items() if case_id in scored
    }
    metrics = {}
    for index, name in enumerate(METRICS):
        values = [(cases[one].workflow, value) for one, v in verdicts.items() if (value := v[index]) is not None]
        metrics[name] = estimated(values)._asdict() if values else None
    return {
        "cases": len(verdicts),
        "cases_in_all": len(cases),
        "left_out": len(verdicts.keys() - predictions.keys()),
        "workflows": len({cases[one].workflow for one in verdicts}),
        "metrics": metrics,
        "interval": f"95%, bootstrap over workflows, {DRAWS} draws, seed 0",
        "per_case": {one: dict(zip(METRICS, verdict, strict=True)) for one, verdict in verdicts.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: 0, or 2 if the data or the predictions cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, help="the predictions, a JSON Lines file")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent, help="the exported folder (default: here)")
    parser.add_argument("--subset", action="store_true", help="score only the cases that the file has")
    parser.add_argument("--json", action="store_true", help="print JSON, with each case's verdict")
    arguments = parser.parse_args(argv)
    try:
        manifest = verified(arguments.data)
        cases = read_scored_cases(arguments.data)
        found = summary(cases, read_predictions(arguments.predictions, cases), arguments.subset)
    except DataError as error:
        print(f"error: {shown(str(error))}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({"version": manifest.get("version"), **found}, indent=2))
        return 0
    print(f"{shown(str(manifest.get('version')))}: {found['cases']} of {found['cases_in_all']} cases, ", end="")
    print(f"{found['workflows']} workflows; {found['left_out']} cases not in the file count as wrong")
    for name, one in found["metrics"].items():
        bounds = f"[{one['low']:6.1%}, {one['high']:6.1%}]" if one and one["low"] is not None else ""
        print(f"{name.replace('_', ' '):32}{one['mean']:7.1%}  {bounds}" if one else f"{name}: no case")
    print(found["interval"])
    return 0
