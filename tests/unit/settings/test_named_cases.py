"""`cases` runs those that are named, under the ids that they have among all, and says what it does not find."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.core.errors import ConfigError
from grid.settings.check import Job, check_sweep
from grid.settings.plan import Plan
from grid.sweeps.composing import multirun
from tests.support.configs import job
from tests.support.searched import episode


def plan(root: Path, cases: Any, *others: Mapping[str, Any], **changes: Any) -> Plan:
    made = [job(root, cases=cases, **changes), *(job(root, cases=cases, **(changes | dict(one))) for one in others)]
    names = ("slate", "kqa_synthetic")
    jobs = [Job(one.config, {**one.labels, "dataset": name}) for one, name in zip(made, names, strict=False)]
    return check_sweep(jobs).plan


def cells(found: Plan) -> dict[str, str]:
    return {cell.case_id: cell.cell_id for setting in found.settings for cell in found.cells_of(setting)}


def ids(found: Plan) -> list[str]:
    (only,) = found.case_ids.values()
    return list(only)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return ids(plan(tmp_path_factory.mktemp("every"), "all", dataset__limit=None))


def test_named_cases_run_in_their_order_whatever_the_limit_and_keep_their_ids(tmp_path: Path, every: list[str]) -> None:
    asked = [every[40], every[1], every[40], every[7]]
    found = plan(tmp_path, asked, dataset__limit=2)
    assert ids(found) == [every[40], every[1], every[7]]
    known = cells(plan(tmp_path, "all", dataset__limit=50))
    assert cells(found) == {case_id: known[case_id] for case_id in ids(found)}


def test_ids_in_quotes_are_taken_as_they_are_written() -> None:
    """So the viewer writes them: without quotes some would be numbers, or nothing."""
    odd = ["007", "1_000", "1e5", "null", "true", "a b", "x/y:z@1"]
    quoted = ",".join(f'"{one}"' for one in odd)
    with multirun([f"cases=[{quoted}]"]) as composed:
        one = next(composed)
        assert list(one.config.cases) == odd


def test_a_file_names_a_case_a_line(tmp_path: Path, every: list[str]) -> None:
    (tmp_path / "hard.txt").write_text(f"{every[3]}\n\n  {every[0]}  \n", encoding="utf-8")
    assert ids(plan(tmp_path, str(tmp_path / "hard.txt"))) == [every[3], every[0]]


def test_those_that_failed_there_are_every_case_without_a_success(tmp_path: Path, every: list[str]) -> None:
    outcomes: dict[str, list[bool | None]] = {
        every[0]: [True, False],
        every[1]: [True, True],
        every[2]: [None],
        every[3]: [False],
    }
    rows = [
        episode("react", number, won, trial, dataset="slate[limit=9]", case_id=case)
        for number, (case, trials) in enumerate(outcomes.items())
        for trial, won in enumerate(trials)
    ]
    store.write(tmp_path / "before", {"episodes": rows})
    named = f"failed_of:{tmp_path / 'before'}"
    assert set(ids(plan(tmp_path, named))) == {every[0], every[2], every[3]}
    other = {"_target_": "grid.datasets.kqa.dataset.KqaSynthetic", "limit": 1}
    with pytest.raises(ConfigError, match="a folder of results in which a cell of kqa_synthetic failed"):
        plan(tmp_path, named, {"dataset": other})


def test_each_data_set_has_its_own_and_every_name_is_a_case_of_one(tmp_path: Path, every: list[str]) -> None:
    other = {"_target_": "grid.datasets.kqa.dataset.KqaSynthetic", "limit": 1}
    (known,) = plan(tmp_path, "all", dataset=other).case_ids.values()
    found = plan(tmp_path, [known[0], every[0]], {"dataset": other})
    assert sorted(map(list, found.case_ids.values())) == sorted([[every[0]], [known[0]]])
    with pytest.raises(ConfigError, match=r"'nosuch'.*ids of cases"):
        plan(tmp_path, [known[0], "nosuch", every[0]], {"dataset": other})


@pytest.mark.parametrize(
    ("cases", "why"),
    [
        ([], "at least one id"),
        (True, "ids in brackets"),
        ({"a": 1}, "ids in brackets"),
        ([True], "ids in brackets"),
        ("nosuch.txt", "a file with one id per line"),
        ("failed_of:nosuch", "a folder of results"),
        (["slate-99999"], r"did you mean slate-\d+\?"),
        ([1], "ids of cases of slate"),
    ],
)
def test_what_names_no_case_is_refused(tmp_path: Path, cases: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(tmp_path, cases)


def test_a_file_that_is_no_text_and_halves_of_named_cases_are_refused(tmp_path: Path, every: list[str]) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        plan(tmp_path, str(tmp_path / "bytes"))
    with pytest.raises(ConfigError, match="must be `all` if cases are named"):
        plan(tmp_path, [every[0]], part="test")
    store.write(tmp_path / "won", {"episodes": [episode("react", 0, True, 0)]})
    with pytest.raises(ConfigError, match="in which a cell failed"):
        plan(tmp_path, f"failed_of:{tmp_path / 'won'}")
