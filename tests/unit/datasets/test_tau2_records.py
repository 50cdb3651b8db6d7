"""τ²-bench's files: tasks of another form, files of another version, and which tasks are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from grid.core.errors import ConfigError, DataError
from tests.support.tau2 import dataset_at, mock_files, mock_task


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ticket": None}, "ticket"),
        ({"ticket": 3}, "ticket"),
        ({"user_scenario": {}}, "instructions"),
        ({"user_scenario": "x"}, "user_scenario"),
        ({"initial_state": {"message_history": [{"role": "user", "content": "x"}]}}, "message_history, which is not"),
        ({"initial_state": {"initialization_data": {"agent_data": {"tasks": {"task_1": 3}}}}}, "database"),
        (
            {
                "initial_state": {
                    "initialization_actions": [{"env_type": "assistant", "func_name": "use_tool", "arguments": {}}]
                }
            },
            "use_tool",
        ),
        (
            {
                "initial_state": {
                    "initialization_actions": [{"env_type": "user", "func_name": "create_task", "arguments": {}}]
                }
            },
            "create_task",
        ),
        (
            {
                "initial_state": {
                    "initialization_actions": [
                        {
                            "env_type": "assistant",
                            "func_name": "create_task",
                            "arguments": {"user_id": "nobody", "title": ""},
                        }
                    ]
                }
            },
            "initial actions fail in create_task: User nobody not found",
        ),
        ({"evaluation_criteria": {"actions": []}}, "gold actions"),
        ({"evaluation_criteria": {"actions": [{"name": "fly", "arguments": {}}]}}, "fly"),
        ({"evaluation_criteria": {"actions": [{"name": "create_task", "arguments": []}]}}, "arguments"),
        ({"evaluation_criteria": {"actions": {}}}, "actions"),
    ],
)
def test_a_task_of_another_form_is_left_out_with_its_reason(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    dataset = dataset_at(mock_files(tmp_path, [mock_task(), mock_task("bad") | change]), "mock")
    assert dataset.case_ids() == ["tau2-mock-one"]
    assert len(dataset.skipped) == 1
    assert why in dataset.skipped[0].reason


@pytest.mark.parametrize(
    "criteria", [{"reward_basis": ["MOOD"]}, {"communicate_info": [3]}, {"env_assertions": [{"func_name": "__init__"}]}]
)
def test_criteria_that_are_not_known_are_told(tmp_path: Path, criteria: dict[str, Any]) -> None:
    dataset = dataset_at(mock_files(tmp_path, [mock_task(), mock_task("bad", **criteria)]), "mock")
    assert dataset.case_ids() == ["tau2-mock-one"]
    assert len(dataset.skipped) == 1


def test_files_of_another_version_are_named(tmp_path: Path) -> None:
    root = mock_files(tmp_path, [mock_task()])
    with pytest.raises(ConfigError, match=r"tasks\.json"):
        dataset_at(root, "airline").case_ids()
    (root / "domains/mock/db.json").write_text('{"tasks": {}, "people": {}}')
    with pytest.raises(DataError, match=r"db\.json"):
        dataset_at(root, "mock").case_ids()


def test_only_the_base_split_is_read(tmp_path: Path) -> None:
    root = mock_files(tmp_path, [mock_task(), mock_task("other")])
    (root / "domains/mock/split_tasks.json").write_text('{"base": ["other"]}')
    assert dataset_at(root, "mock").case_ids() == ["tau2-mock-other"]
    (root / "domains/mock/split_tasks.json").write_text('{"base": 3}')
    with pytest.raises(DataError, match="base"):
        dataset_at(root, "mock").case_ids()
