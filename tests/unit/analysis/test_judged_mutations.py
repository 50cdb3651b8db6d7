"""Chains labelled by mutation: half right, half wrong, and what a judge says of them beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.papers.agreement import errors, overall
from analysis.stats.agreement import against
from grid.core.types import Verdict
from launch import agreement
from launch.agreement import Labelled, by_mutation, compared, labelled


@pytest.fixture(scope="module")
def chains() -> list[Labelled]:
    return list(labelled(60, 3))


@pytest.mark.long
def test_half_are_right_and_the_same_seed_gives_the_same(chains: list[Labelled]) -> None:
    assert len(chains) == 60
    assert sum(one.truth.correct for one in chains) == 30
    assert all(one.truth.errors for one in chains if not one.truth.correct)
    assert {one.family for one in chains} >= {"holistic", "stepwise", "extraneous"}
    assert [one.chain for one in labelled(60, 3)] == [one.chain for one in chains]
    assert [one.chain for one in labelled(60, 4)] != [one.chain for one in chains]


def test_who_says_what_is_true_agrees_with_every_label(chains: list[Labelled]) -> None:
    found = compared("knows", chains, [one.truth for one in chains])
    measured = against(found.plans)
    for name in ("agreement", "kappa", "precision", "recall", "f1", "error_types"):
        assert measured[name].mean == 1
    assert measured["mae"].mean == 0
    assert (found.unreadable, found.contradicted) == (0, 0)
    assert all(row[-1].startswith("0.0" if row[1].startswith("none") else "100.0") for row in
               by_mutation("knows", chains, [one.truth for one in chains]))  # fmt: skip


def test_silence_is_counted_and_a_contradiction_too(chains: list[Labelled]) -> None:
    torn = Verdict(True, frozenset({"E1"}), 0.2)
    found = compared("torn", chains, [None, *[torn] * 59])
    assert (found.unreadable, found.contradicted, found.verdicts) == (1, 59, 59)
    assert against(found.plans)["agreement"].mean == pytest.approx(30 / 59)
    for table in (overall, errors):
        assert table(Path(), [found]) is not None


def test_a_judge_is_held_against_mutations_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "launch"))
    keys = ["model@evaluator=simulated", "--chains", "8", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["agreement.py", *keys])
    assert agreement.main() == 0
    assert "none: the reference" in capsys.readouterr().out
    assert (tmp_path / "out" / "agreement_by_mutation.csv").is_file()


@pytest.mark.parametrize("given", [["one", "two"], ["model@evaluator=simulated", "one", "two"]])
def test_one_folder_or_keys(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["agreement.py", *given])
    assert agreement.main() == 2
    assert "must be one sweep's results folder, or only keys" in capsys.readouterr().err
