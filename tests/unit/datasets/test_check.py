"""What the check of a whole sweep refuses before anything starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grid.core.errors import ConfigError
from grid.datasets.null import Null
from grid.datasets.slate.dataset import Slate, generate
from grid.datasets.slate.drafts import CASES
from grid.settings.check import Job, check_sweep
from tests.support.configs import LABELS, job


def refused(*jobs: Job) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check_sweep(jobs)
    return caught.value


def test_equal_settings_count_once(tmp_path: Path) -> None:
    assert len(check_sweep([job(tmp_path), job(tmp_path)]).plan.settings) == 1


@pytest.mark.parametrize("nothing", ["", " ", None])
def test_a_case_without_a_cluster_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing: object) -> None:
    monkeypatch.setattr(Slate, "cluster", lambda self, case_id: nothing)
    error = refused(job(tmp_path))
    assert error.key == "dataset"
    assert f"every case must have a cluster, but the cluster of case '{Slate().case_ids()[0]}' is {nothing!r}" in str(
        error
    )


def test_a_dataset_that_knows_no_clusters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Null, "cluster")
    refusal = str(refused(job(tmp_path, dataset={"_target_": "grid.datasets.null.Null"})))
    assert "every case must have a cluster, but the cluster of case '0000000' is None" in refusal


def test_limits_and_paths_cannot_be_swept(tmp_path: Path) -> None:
    error = refused(job(tmp_path), job(tmp_path, dataset__limit=3))
    assert error.key == "dataset.limit"
    assert "2" in str(error)
    assert "3" in str(error)


def test_a_key_that_all_settings_share_is_named_with_its_values(tmp_path: Path) -> None:
    error = refused(job(tmp_path), job(tmp_path, seed=1))
    assert (error.key, error.value) == ("seed", [0, 1])


@pytest.mark.parametrize("group", sorted(LABELS))
def test_a_group_that_is_missing_or_no_mapping_is_named(tmp_path: Path, group: str) -> None:
    assert refused(job(tmp_path, **{group: ...})).key == group
    assert refused(job(tmp_path, **{group: 3})).key == group


@pytest.mark.parametrize(
    ("group", "target"),
    [
        ("model", "grid.core.engine.Engine"),
        ("planner", "grid.episode.progress.Budget"),
        ("planner", "grid.episode.episode.Planner"),
        ("retriever", "grid.retrievers.scored.BM25Index"),
    ],
)
def test_a_class_of_the_room_that_is_not_what_the_room_is_for(tmp_path: Path, group: str, target: str) -> None:
    error = refused(job(tmp_path, **{group: {"_target_": target}}))
    assert (error.key, error.value) == (f"{group}._target_", target)


def test_a_robustness_part_that_is_no_mapping(tmp_path: Path) -> None:
    assert refused(job(tmp_path, robustness={"foo": 3})).key == "robustness.foo._target_"


def test_a_path_too_long_for_the_file_system(tmp_path: Path) -> None:
    assert refused(job(tmp_path, dataset__path="x" * 5000)).key == "dataset.path"


def test_a_reference_that_cannot_be_read(tmp_path: Path) -> None:
    generate(tmp_path, 0, 3)
    text = (tmp_path / CASES).read_text()
    (tmp_path / CASES).write_text(re.sub(r"(OUTPUT_FROM_STEP_\d)\.\d\.", r"\1_", text, count=1))
    with pytest.raises(Exception, match=r"cases\.jsonl:\d+: .*not a reference of the form"):
        check_sweep([job(tmp_path / "results", dataset__path=str(tmp_path))])


@pytest.mark.parametrize(("group", "key", "value"), [("model", "temperature", -1.0), ("retriever", "top_k", 0)])
def test_values_of_every_group_are_checked_before_the_run(tmp_path: Path, group: str, key: str, value: float) -> None:
    error = refused(job(tmp_path, **{f"{group}__{key}": value}))
    assert (error.key, error.value) == (f"{group}.{key}", value)
