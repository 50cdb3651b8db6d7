"""SLATE's scorer that stands alone gives the verdicts that the grid gives, on the same calls."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from analysis import load
from analysis.load import baselines as reports
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.core.types import Json, ToolCall
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.export import baselines, ceiling, export, offers, scored_cases
from grid.datasets.slate.scoring import METRICS, estimated
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.worlds.lookup import LookupSimulator
from tests.support.configs import setting_of

CASES = 30


@pytest.fixture(scope="module")
def slate() -> Slate:
    return Slate(cases=CASES)


@pytest.fixture(scope="module")
def exported(slate: Slate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slate") / "export"
    export(slate, folder, "# A card\n")
    return folder


@pytest.fixture(scope="module")
def scorer(exported: Path) -> Iterator[ModuleType]:
    """The exported file as a module of its own, which shares no class with the grid."""
    spec = importlib.util.spec_from_file_location("exported_score", exported / "score.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def run(exported: Path, predictions: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """As its users run it: without this project, and without any package."""
    command = [sys.executable, "-I", "-S", str(exported / "score.py"), str(predictions), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=predictions.parent)


def write(path: Path, runs: Mapping[str, Mapping[str, ToolCall | None]]) -> Path:
    lines = [
        json.dumps({"case_id": case, "calls": {step: call and vars_of(call) for step, call in calls.items()}})
        for case, calls in runs.items()
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def vars_of(call: ToolCall) -> dict[str, Any]:
    return {"tool": call.tool, "arguments": dict(call.arguments)}


def forms(value: Json, rng: random.Random) -> list[Json]:
    """A value in other forms, and other values that look like it."""
    found: list[Json] = [
        value,
        None,
        "",
        [value],
        {"value": value},
        "something else",
        0,
        True,
        f"{value}",
        f" {value} ",
    ]
    if isinstance(value, bool):
        return [*found, not value, "yes", "no", int(value)]
    if isinstance(value, int | float):
        money = f"{value:,.2f}"
        found += [value + 1, float(value), money, f"${money}", f"USD {money}", f"{money} dollars", f"€{value}", -value]
        return [*found, f"{value} kg", f"{value}%", f"{value} days", f"{value} month", [value, value]]
    if isinstance(value, str):
        words = value.split()
        found += [
            value.upper(),
            value.lower(),
            f"#{value}",
            f'"{value}"',
            f"{value}.",
            value.replace("-", " "),
            value[:-1],
        ]
        found += [" ".join(reversed(words)), ", ".join(words), list[Json](words), f"{value} {value}", value.swapcase()]
        found += [value.replace(" ", "  "), value.replace("and", "&"), "".join(rng.sample(value, len(value)))]
        try:
            day = dt.date.fromisoformat(value)
        except ValueError:
            return found
        for one in (day, day + dt.timedelta(days=1), day.replace(year=day.year + 1) if day.day < 29 else day):
            found += [f"{one:%B} {one.day}, {one.year}", f"{one:%m/%d/%Y}", f"{one:%d/%m/%Y}", f"{one:%m/%d/%y}"]
            found += [
                f"{one.day} {one:%b}",
                f"{one:%m-%d}",
                f"{one:%m/%d}",
                f"{one}T15:00:00",
                f"{one:%A}, {one:%b} {one.day}",
            ]
    return found


def perturbed(slate: Slate, call: ToolCall, rng: random.Random) -> Iterator[ToolCall]:
    """Many calls near to one that is right, some of which mean the same."""
    arguments = dict(call.arguments)
    yield call
    yield ToolCall("no_such_tool", arguments)
    yield ToolCall(rng.choice(list(slate.tools)), arguments)
    for name, value in arguments.items():
        yield ToolCall(call.tool, {key: one for key, one in arguments.items() if key != name})
        for other in forms(value, rng):
            yield ToolCall(call.tool, {**arguments, name: other})
    for extra in (None, "", "x", 0):
        yield ToolCall(call.tool, {**arguments, "another": extra})
    for name, record in slate.tool_records.items():
        same = record.same_function
        if same and same.tool == call.tool:
            own = {theirs: mine for mine, theirs in same.arguments.items()}
            renamed = {own.get(key, key): value for key, value in arguments.items()}
            yield ToolCall(name, renamed)
            yield ToolCall(name, arguments)
            yield ToolCall(call.tool, renamed)
            for key, value in renamed.items():
                yield ToolCall(name, {**renamed, key: rng.choice(forms(value, rng))})
    for _ in range(10):
        yield ToolCall(call.tool, {key: rng.choice(forms(value, rng)) for key, value in arguments.items()})


@pytest.mark.long
def test_every_call_means_the_same_to_both(slate: Slate, exported: Path, scorer: ModuleType) -> None:
    rng, found = random.Random(1), {True: 0, False: 0}
    cases = scorer.read_scored_cases(exported)
    for case_id, case in cases.items():
        world = slate.problem(case_id).world
        assert isinstance(world, LookupSimulator)
        for entry in world.entries:
            step = min(entry.substeps)
            for call in perturbed(slate, entry.call, rng):
                state, _ = asyncio.run(world.apply(world.start(), call))
                own = scorer.obtained(case, {step: scorer.ToolCall(call.tool, call.arguments)})
                assert own == state, (case_id, call)
                found[bool(state)] += 1
    assert min(found.values()) > 1000, found


def test_the_file_is_the_grids_own_source_and_nothing_else(exported: Path) -> None:
    text = (exported / "score.py").read_text(encoding="utf-8")
    assert "grid." not in "".join(line for line in text.splitlines() if line.startswith(("import", "from")))
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F", str(exported / "score.py")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    own = (Path(__file__).parents[3] / "grid/worlds/equivalence.py").read_text(encoding="utf-8")
    start = own.index("def equivalent(")
    assert own[start : own.index("\n\n\n", start)] in text


@pytest.mark.long
@pytest.mark.parametrize(("planner", "skill"), [("react", 0.8), ("zero_shot", 0.5), ("react", 1.0)])
def test_metrics_are_those_of_a_sweep(slate: Slate, exported: Path, tmp_path: Path, planner: str, skill: float) -> None:
    model = {"tool_skill": skill, "argument_skill": skill, "malformed": 0.1}
    setting = setting_of(
        {"cases": CASES, "limit": None}, model_values=model, dataset="slate", model="simulated", planner=planner
    )
    built = build(setting, BudgetConfig())
    case_ids = built.dataset.case_ids()
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    episodes = {row["case_id"]: row for row in rows["episodes"]}
    case_of = {row["cell_id"]: row["case_id"] for row in rows["episodes"]}
    calls: dict[str, dict[str, ToolCall | None]] = {case: {} for case in episodes}
    for row in rows["steps"]:
        if row["chosen_tool"] is not None:  # what could not be read is left out
            called = row["arguments"] is not None
            call = ToolCall(row["chosen_tool"], json.loads(row["arguments"])) if called else None
            calls[case_of[row["cell_id"]]][row["substep_id"]] = call
    if planner == "react":  # the other is offered the tools of the whole query
        compared_with_a_reports(slate, tmp_path / "results", rows)
    found = run(exported, write(tmp_path / "calls.jsonl", calls), "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert report["version"] == built.dataset.version
    assert len(report["per_case"]) == len(episodes) == CASES
    for case, row in episodes.items():
        own = [report["per_case"][case][name] for name in METRICS]
        assert own == pytest.approx([float(row["success"]), row["tool_match_rate"], row["action_accuracy"]]), case
    assert report["metrics"]["execution_success_rate"]["mean"] == np.mean([row["success"] for row in episodes.values()])
    if skill < 1:
        assert 0 < report["metrics"]["tool_match_rate"]["mean"] < 1


def compared_with_a_reports(slate: Slate, root: Path, rows: Any) -> None:
    """A card's baselines are those of a report on the same cases."""
    store.write(root, {name: rows[name] for name in ("episodes", "steps")})
    reported = reports.baselines(root, load.episodes(root)).set_index("planner")
    offered = offers(slate)
    _, first, chance = baselines(slate, scored_cases(slate), offered)
    for own, name in ((first, reports.FIRST), (chance, reports.CHANCE)):
        assert own.tool_match.mean == pytest.approx(reported["tool_match_rate_mean"][name])
        assert own.action.mean == pytest.approx(reported["action_accuracy_mean"][name])
    assert ceiling(offered).all_offered == pytest.approx(reported["success_mean"][reports.CEILING])


def test_references_in_arguments_take_what_the_calls_returned(slate: Slate, exported: Path, tmp_path: Path) -> None:
    runs = {case: record.reference().calls for case, record in slate.records.items()}
    found = run(exported, write(tmp_path / "reference.jsonl", runs))
    assert found.returncode == 0
    assert found.stdout.count("100.0%  [") == len(METRICS)
    first = {case: dict(list(calls.items())[:1]) for case, calls in runs.items()}
    report = json.loads(run(exported, write(tmp_path / "first.jsonl", first), "--json").stdout)
    assert report["metrics"]["execution_success_rate"]["mean"] == 0
    steps = np.mean([1 / len(calls) for calls in runs.values()])
    assert report["metrics"]["action_identification_accuracy"]["mean"] == pytest.approx(steps)


def test_cases_left_out_count_as_wrong_unless_a_subset_is_asked_for(
    slate: Slate, exported: Path, tmp_path: Path
) -> None:
    case, record = next(iter(slate.records.items()))
    path = write(tmp_path / "one.jsonl", {case: record.reference().calls})
    found = json.loads(run(exported, path, "--json").stdout)
    assert (found["cases"], found["left_out"]) == (CASES, CASES - 1)
    assert found["metrics"]["execution_success_rate"]["mean"] == pytest.approx(1 / CASES)
    found = json.loads(run(exported, path, "--json", "--subset").stdout)
    assert (found["cases"], found["left_out"]) == (1, 0)
    assert found["metrics"]["execution_success_rate"] == {"mean": 1, "low": None, "high": None}


BAD = [
    ('{"case_id": "slate-9999", "calls": {}}', 1, "unknown case 'slate-9999'"),
    ('{"case_id": ["slate-0000"], "calls": {}}', 1, "unknown case"),
    ('{"case_id": "slate-0000", "calls": {}}\n{"case_id": "slate-0001", "cal', 2, "broken JSON"),
    ('{"case_id": "slate-0000", "calls": {}}\n{"case_id": "slate-0000", "calls": {}}', 2, "comes twice"),
    ('{"case_id": "slate-0000", "call": {}}', 1, "`calls` must be an object"),
    ('{"case_id": "slate-0000", "calls": {"99.1": null}}', 1, "no substep '99.1'"),
    ('{"case_id": "slate-0000", "calls": {"1.1": {"tool": "a"}}}', 1, "substep 1.1: a call must be"),
    ('{"case_id": "slate-0000", "calls": {"1.1": {"tool": "a", "arguments": "b"}}}', 1, "substep 1.1: a call must be"),
    ('{"case_id": "slate-0000", "calls": {"1.1": {"tool": "a", "arguments": {"x": NaN}}}}', 1, "broken JSON"),
    ("[]", 1, "a JSON object is expected"),
    ("[" * 100_000, 1, "broken JSON"),
    ("\n", None, "the file has no predictions"),
]


@pytest.mark.long
@pytest.mark.parametrize(("text", "line", "said"), BAD)
def test_what_is_no_prediction_is_one_line_with_its_place(
    exported: Path, tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    found = run(exported, path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"error: {path}{f':{line}' if line else ''}: ")
    assert said in found.stderr


def test_an_unknown_tool_is_a_wrong_call(exported: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "calls.jsonl", {"slate-0000": {"1.1": ToolCall("\x1b[2J", {"\u202e": ["x"]})}})
    assert run(exported, path).returncode == 0


def test_a_missing_file_is_one_line(exported: Path, tmp_path: Path) -> None:
    found = run(exported, tmp_path / "nowhere.jsonl")
    assert found.returncode == 2
    assert found.stderr.endswith("nowhere.jsonl: no such file\n")


@pytest.mark.long
def test_intervals_cover_what_was_planted() -> None:
    """Of clusters whose cases are alike; and they are the same every time."""
    rng, covered, rounds = random.Random(3), 0, 200
    for _ in range(rounds):
        rates = [rng.betavariate(2, 3) for _ in range(40)]
        values = [(str(place), float(rng.random() < rate)) for place, rate in enumerate(rates) for _ in range(4)]
        one = estimated(values, draws=200)
        assert one == estimated(values, draws=200)
        assert one.low is not None
        assert one.high is not None
        covered += one.low <= 0.4 <= one.high
    assert 0.88 <= covered / rounds <= 0.99
    alike = estimated([(str(place), 1.0) for place in range(20)])
    assert alike.mean == alike.high == 1
    assert alike.low == pytest.approx(0.025 ** (1 / 20)), "Clopper-Pearson's of 20 out of 20"
    assert estimated([("a", 1.0), ("a", 0.0)]) == (0.5, None, None)


def test_baselines_are_measured(slate: Slate) -> None:
    offered = offers(slate)
    reference, first, chance = baselines(slate, scored_cases(slate), offered)
    assert reference.success.mean == reference.tool_match.mean == reference.action.mean == 1
    assert 1 > first.tool_match.mean > chance.tool_match.mean > 0
    assert chance.success.mean < first.success.mean <= ceiling(offered).resolvable <= 1
    assert ceiling(offered).all_offered <= ceiling(offered).resolvable <= 1
