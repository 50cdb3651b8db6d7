"""`agent-grid power`: what it prints of a pilot, and one line for each question that cannot be answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from grid import CONF, store
from grid.core.types import to_json
from launch import power
from launch.main import COMMANDS
from tests.support import searched
from tests.support.in_process import Run, Said, called

CASES, TRIALS = 24, 3
Rates = Mapping[str, float]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "100")
    return called(power.main, monkeypatch, capsys, "--studies", "200")


def pilot(root: Path, rates: Rates, trials: int = TRIALS, **other: Any) -> Path:
    """A sweep where planners succeed at these rates, two cases a cluster, as far as its dataset can be read nowhere."""
    rng = np.random.default_rng(0)
    cells = [
        searched.episode(planner, case, bool(rng.random() < rate), trial, **other)
        for planner, rate in rates.items()
        for case in range(CASES)
        for trial in range(trials)
    ]
    store.write(root, {"episodes": cells})
    return root


def numbers(text: str, name: str) -> list[str]:
    """The table's cells of a row that begins with so many trials."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(f"{name} "))


@pytest.mark.long
def test_a_pilots_table_and_its_cost(run: Run, tmp_path: Path) -> None:
    root = pilot(tmp_path, {"egb_logits": 0.5, "react": 0.4}, money=0.01)
    ended = run(root, "--difference", 20, "--trials", "1,3")
    assert (ended.status, ended.err) == (0, "")
    assert "to see that egb_logits differs from react by +20 points" in ended.out, "react is the reference"
    one, three = (numbers(ended.out, name) for name in ("1", "3"))
    cases = int(one[1])
    assert int(three[1]) < cases
    assert int(one[5].replace(",", "")) == 2 * cases
    assert float(one[7]) == pytest.approx(0.02 * cases), "US dollars of both planners"
    assert one[6] == f"{2 * 1010 * cases:,}", "tokens of both"
    assert ended.out.count("cheapest") == 1
    assert f"run: dataset.limit={cases} trials=1" in ended.out or "trials=3;" in ended.out
    assert "its dataset cannot be read here" in " ".join(ended.out.split())
    assert max(map(len, ended.out.splitlines())) <= 100


def test_the_datasets_own_clusters_bound_what_can_be_seen(run: Run, tmp_path: Path) -> None:
    """gta_generated has 200 cases of 40 templates, the pilot's limit notwithstanding."""
    root = pilot(tmp_path, {"react": 0.4, "sh": 0.5}, config=to_json({"dataset": shipped("gta_generated")}))
    ended = run(root, "--difference", 3, "--trials", "1")
    assert ended.status == 0
    assert "the dataset's 200 cases, in 40 clusters" in " ".join(ended.out.split())
    assert "> 200" in ended.out
    assert "not enough" in ended.out


def shipped(dataset: str) -> dict[str, Any]:
    """The config of a dataset that is generated, limited to the pilot's cases."""
    values: dict[str, Any] = yaml.safe_load((CONF / "dataset" / f"{dataset}.yaml").read_text(encoding="utf-8"))
    return values | {"limit": CASES}


def test_without_a_pilot(run: Run) -> None:
    design = ("--rate", 0.3, "--difference", 5, "--cluster-size", 3, "--icc", 0.2, "--trials", 5)
    four, one = run(*design, "--comparisons", 4), run(*design)
    assert (four.status, one.status) == (0, 0)
    assert "0.05 / 4 comparisons = 0.0125" in " ".join(four.out.split())
    assert "tokens" not in four.out
    assert int(numbers(four.out, "5")[1]) > int(numbers(one.out, "5")[1])


BAD = {
    "difference": (["--rate", "0.3"], "difference=None: must be the difference"),
    "none": (
        ["--rate", "0.3", "--difference", "0"],
        "difference='0': a number of points of success from -100 to 100, but not 0",
    ),
    "large": (["--rate", "0.3", "--difference", "101"], "difference='101'"),
    "word": (["--rate", "0.3", "--difference", "five"], "difference='five'"),
    "nan": (["--rate", "0.3", "--difference", "nan"], "difference='nan'"),
    "impossible": (
        ["--rate", "0.95", "--difference", "10"],
        r"difference=10.0: must be less than 5.0 points above the 95.0% of ",
    ),
    "below": (["--rate", "0.05", "--difference", "-10"], "less than 5.0 points below it$"),
    "power": (["--rate", "0.3", "--difference", "5", "--power", "1"], "power='1': a share above 0 and below 1"),
    "alpha": (["--rate", "0.3", "--difference", "5", "--alpha", "0"], "alpha='0'"),
    "trials": (["--rate", "0.3", "--difference", "5", "--trials", "1,0"], "trials='0': a whole number from 1 to 100"),
    "digits": (["--rate", "0.3", "--difference", "5", "--trials", "9" * 5000], "trials='999"),
    "icc": (["--rate", "0.3", "--difference", "5", "--icc", "1.1"], "icc='1.1'"),
    "rate": (["--rate", "30", "--difference", "5"], "rate='30': a share above 0 and below 1"),
    "both": (["results/x", "--rate", "0.3", "--difference", "5"], "rate=0.3: must be given without a pilot"),
    "size": (["results/x", "--cluster-size", "3", "--difference", "5"], "cluster-size=3: is allowed only with --rate"),
    "nothing": (["--difference", "5"], r"results=\[\]: must be one pilot's folder"),
    "folders": (["a", "b", "--difference", "5"], "must be one pilot's folder"),
    "gone": (["nosuch", "--difference", "5"], "nosuch: no results here"),
    "key": (
        ["nosuch", "datset=x", "--difference", "5"],
        "datset='x': not a key of a pilot; the keys are model, dataset",
    ),
    "planner": (["--simulated", "--difference", "5"], "planner=None: must be two planners"),
    "model": (
        ["--simulated", "planner=a,b", "model=lexical", "--difference", "5"],
        "model='lexical': must be simulated, because",
    ),
    "unknown": (["--simulated", "planner=react,egb_logit", "--difference", "5"], r"did you mean egb_logits\?"),
    "mixed": (["--simulated", "results/x", "--difference", "5"], "simulated='results/x': needs keys of a sweep"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_question_that_cannot_be(name: str, run: Run) -> None:
    arguments, told = BAD[name]
    refused(run(*arguments), told)


def test_a_pilot_without_episodes_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    refused(run(tmp_path, "--difference", "5"), "a pilot needs episodes, and there are none yet")


def refused(ended: Said, told: str) -> None:
    """One line, and exit status 2."""
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    assert re.search(told, line), line
    assert line.isprintable()
    assert len(line) < 2_100


@pytest.mark.long
def test_a_pilot_that_tells_nothing(run: Run, tmp_path: Path) -> None:
    root = pilot(tmp_path / "three", {"react": 0.4, "egb_logits": 0.5, "never": 0.0, "always": 1.0})
    five = ("--difference", 5)
    refused(
        run(root, *five), "planners=None: must be given as --planners A,B, with two of always, egb_logits, never, react"
    )
    refused(run(root, *five, "--planners", "react,egb_logit"), r"'egb_logit': one of .*\(did you mean egb_logits\?\)")
    refused(run(root, *five, "--planners", "react,react"), "two different planners")
    refused(run(root, *five, "--planners", "react"), "two different planners")
    refused(run(root, *five, "--planners", "never,react"), "never succeeds in none of its 72")
    refused(run(root, *five, "--planners", "always,react"), "always succeeds in all of its 72")
    refused(run(root, "--difference", 80, "--planners", "react,never"), r"=80.0: must be less than .* of react")
    refused(run(root, *five, "dataset=slat"), r"dataset='slat': one of slate \(did you mean slate\?\)")
    refused(run(pilot(tmp_path / "one", {"react": 0.4}), *five), "planners='react': a pilot with two planners")
    once = pilot(tmp_path / "once", {"react": 0.4, "sh": 0.5}, trials=1)
    refused(
        run(once, *five, "--trials", "1,3"), "trials='1,3': must be 1, because the pilot has no case with two trials"
    )
    cluster = pilot(tmp_path / "cluster", {"react": 0.4, "sh": 0.5}, cluster="same")
    refused(run(cluster, *five), "1 clusters")
    null = pilot(tmp_path / "null", {"react": 0.4, "sh": 0.5}, config=to_json({"dataset": shipped("null_cases")}))
    refused(
        run(null, *five), "dataset='slate': must have several clusters of cases, but all 1,000 cases are in one cluster"
    )
    apart = tmp_path / "apart"
    store.write(apart, {"episodes": [searched.episode(*cell) for cell in (("react", 0, True), ("sh", 1, False))]})
    refused(run(apart, *five), "planners='react,sh': two planners with a case in common")
    other = pilot(tmp_path / "two", {"react": 0.4, "sh": 0.5})
    pilot(other, {"react": 0.4, "sh": 0.5}, dataset="gta")
    refused(run(other, *five), "dataset=None: must be given as dataset=NAME, with one of gta, slate")


def test_it_is_a_command() -> None:
    assert COMMANDS["power"].module == power.__name__
