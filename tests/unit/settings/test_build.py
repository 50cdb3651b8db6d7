"""From config to objects: what is refused, and how it is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grid.core.errors import ConfigError
from grid.core.types import ToolSpec
from grid.datasets import null
from grid.engines.null import Null
from grid.planners.egb import EGBSampling
from grid.settings.build import build
from grid.settings.check import Job, check_sweep, invalid_reason
from grid.settings.config import BudgetConfig, sweep_config
from grid.settings.make import load_class, make
from grid.settings.setting import GROUPS, Setting
from tests.support.configs import SHARED, setting_of

EGB = "grid.planners.egb.EGBSampling"
SETTING: dict[str, Any] = {
    "model": {"_target_": "grid.engines.null.Null"},
    "planner": {"_target_": "grid.planners.egb.EGBLogits"},
    "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "path": "/nonexistent"},
    "robustness": {},
    "retriever": {"_target_": "grid.retrievers.scored.BM25"},
    "pool": {"_target_": "grid.pools.whole.Whole"},
}
LABELS = {
    "model": "null_engine",
    "planner": "egb_logits",
    "dataset": "slate",
    "robustness": "none",
    "retriever": "bm25",
    "pool": "all",
}


def refused(use: Callable[[], object]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        use()
    error = caught.value
    assert str(error) == f"{error.key}={error.value!r}: {error.allowed}"
    assert "\n" not in str(error)
    return error


def planner(**values: object) -> ConfigError:
    return refused(lambda: make("planner", {"_target_": EGB, **values}))


def shared(**values: object) -> ConfigError:
    return refused(lambda: sweep_config(SHARED | values))


def test_good_values_are_built() -> None:
    assert make("planner", {"_target_": EGB, "samples": 3}) == EGBSampling(samples=3)
    assert sweep_config(SHARED | {group: {} for group in GROUPS}).name == "test"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("samples", 0, "greater than or equal to 1"),
        ("samples", 1001, "less than or equal to 1000"),
        ("samples", "ten", "integer"),
        ("samples", "10", "integer"),
        ("samples", 1.5, "integer"),
        ("samples", None, "integer"),
        ("temperature", -0.5, "greater than or equal to 0"),
        ("temperature", float("inf"), "finite"),
        ("temperature", float("nan"), ""),
    ],
)
def test_wrong_values_name_key_value_and_what_is_allowed(key: str, value: object, allowed: str) -> None:
    error = planner(**{key: value})
    assert error.key == f"planner.{key}"
    assert error.value is value
    assert allowed in error.allowed


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    error = planner(sampels=3)
    assert (error.key, error.value) == ("planner.sampels", 3)
    assert "did you mean samples?" in error.allowed
    assert "trajectories" in error.allowed, "all keys are listed"


def test_only_keys_that_can_be_given_are_listed() -> None:
    assert not re.search(r"\bneeds\b", planner(nosuch=1).allowed)


def test_a_key_of_robustness_names_its_part() -> None:
    part = {"_target_": "grid.robustness.extraneous.Extraneous", "k": 3}
    error = refused(lambda: make("robustness.extraneous", part, "robustness"))
    assert (error.key, error.value) == ("robustness.extraneous.k", 3)
    assert "10" in error.allowed


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "subprocess.Popen",
        "grid.store.write",
        "grid.engines.null.Null",
        "grid.planners",
        "grid.plannersx.Egb",
        "grid.planners.nosuch.Planner",
        "grid.planners.egb.NoSuch",
        "grid.episode.episode.derive_seed",
        "grid.planners.egb.",
        "grid.planners..store.write",
        "",
        7,
        None,
    ],
)
def test_only_classes_of_the_own_room_are_loaded(target: object) -> None:
    error = refused(lambda: make("planner", {"_target_": target}))
    assert (error.key, error.value) == ("planner._target_", target)
    assert "grid.planners" in error.allowed


@pytest.mark.parametrize(
    ("group", "target"),
    [("dataset", "grid.datasets.slate.dataset.Path"), ("model", "grid.engines.lexical.engine.Counter")],
)
def test_classes_that_a_room_only_imports_are_not_loaded(group: str, target: str) -> None:
    assert refused(lambda: load_class(group, {"_target_": target})).key == f"{group}._target_"


def test_an_abstract_class_is_refused() -> None:
    error = refused(lambda: make("planner", {"_target_": "grid.planners.egb.EntropyGuidedBranching"}))
    assert error.key == "planner._target_"


def test_a_missing_target_is_refused() -> None:
    error = refused(lambda: make("planner", {"samples": 3}))
    assert (error.key, error.value) == ("planner._target_", None)
    assert "grid.planners" in error.allowed


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("trials", 0, "greater than or equal to 1"),
        ("trials", "3", "integer"),
        ("trials", True, "integer"),
        ("seed", -1, "greater than or equal to 0"),
        ("seed", 2**63, "less than"),
        ("name", "../x", "pattern"),
        ("name", "a/b", "pattern"),
        ("name", "a\\b", "pattern"),
        ("name", ".hidden", "pattern"),
        ("name", "", "pattern"),
        ("name", "line\n", "pattern"),
        ("name", 7, "string"),
        ("dry_run", "yes", "true or false"),
        ("trails", 3, "did you mean trials?"),
    ],
)
def test_shared_keys_are_checked(key: str, value: object, allowed: str) -> None:
    error = shared(**{key: value})
    assert (error.key, error.value) == (key, value)
    assert allowed in error.allowed


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("cluster", "cpus", 0), ("cluster", "kind", "cloud"), ("budget", "llm_calls", 0), ("store", "root", "")],
)
def test_keys_of_sections_are_dotted(section: str, key: str, value: object) -> None:
    error = shared(**{section: SHARED[section] | {key: value}})
    assert (error.key, error.value) == (f"{section}.{key}", value)


def test_a_missing_shared_key_is_named() -> None:
    error = refused(lambda: sweep_config({key: value for key, value in SHARED.items() if key != "trials"}))
    assert (error.key, error.value) == ("trials", None)


def test_retry_failed_names_its_key_and_all_that_it_takes() -> None:
    error = shared(retry_failed="maybe")
    assert error.key == "retry_failed"
    assert "all" in error.allowed


def test_files_are_read_when_a_setting_is_built() -> None:
    error = refused(lambda: build(Setting(SETTING, LABELS, 0), BudgetConfig(llm_calls=1, steps=1)))
    assert (error.key, error.value) == ("dataset.path", "/nonexistent")


def test_a_pair_that_goes_together_has_no_reason() -> None:
    assert invalid_reason(Setting(SETTING, LABELS, 0)) is None


def test_a_pair_that_cannot_go_together_names_both_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Null, "provides", frozenset({"sample"}))
    reason = invalid_reason(Setting(SETTING, LABELS, 0))
    assert reason is not None
    for part in ("conf/planner/egb_logits.yaml", "conf/model/null_engine.yaml", "choose"):
        assert part in reason
    assert "sample" not in reason, "only what is missing"


def test_a_choice_by_name_over_http_needs_what_one_by_number_needs() -> None:
    for planner in ("egb_logits", "egb_names"):
        setting = setting_of(model="openai_http", dataset="slate", planner=planner)
        assert f"conf/planner/{planner}.yaml needs choose, which conf/model/openai_http.yaml" in str(
            invalid_reason(setting)
        )
        setting.config["model"]["exact_choice"] = True
        assert invalid_reason(setting) is None


def test_the_files_are_named_as_they_are_called_also_with_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Null, "provides", frozenset({"sample"}))
    labels = LABELS | {"planner": "egb_logits[trajectories=3]"}
    assert "conf/planner/egb_logits.yaml" in str(invalid_reason(Setting(SETTING, labels, 0)))


def test_a_sweep_leaves_out_such_pairs_and_runs_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Null, "provides", frozenset({"sample"}))
    base = (
        SHARED
        | SETTING
        | {"store": {"root": str(tmp_path)}, "dataset": SETTING["dataset"] | {"path": None, "limit": 2}}
    )
    invalid = Job(base, LABELS)
    valid = Job(base | {"planner": {"_target_": EGB}}, LABELS | {"planner": "egb_sampling"})
    checked = check_sweep([invalid, valid])
    assert [setting.labels["planner"] for setting, _ in checked.invalid] == ["egb_logits"]
    assert [setting.labels["planner"] for setting in checked.plan.settings] == ["egb_sampling"]
    assert checked.plan.total() == 2
    error = refused(lambda: check_sweep([invalid]))
    assert "conf/model/null_engine.yaml" in error.allowed


@pytest.mark.parametrize("name", ["finish", "no_tool"])
def test_a_tool_may_not_be_named_as_an_option_of_every_choice(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It would be shadowed, and in the tables nobody could tell the two apart."""
    shadowed = {name: ToolSpec(name, "", ())}
    dataset = SimpleNamespace(tools=dict(null.Null.tools) | shadowed)
    for module in ("parts", "pooled"):
        monkeypatch.setattr(f"grid.settings.{module}.dataset_of", lambda key: dataset)
    setting = Setting(SETTING | {"dataset": {"named": name}}, LABELS, 0)
    error = refused(lambda: build(setting, BudgetConfig(llm_calls=1, steps=1)))
    assert (error.key, error.value) == ("dataset", [name])


@pytest.mark.parametrize(
    "wrong", [{"gpu_memory_utilization": 0.6}, {"tensor_parallel": 2}, {"engine_args": {"pipeline_parallel_size": 2}}]
)
def test_a_share_of_a_gpu_has_no_more_than_its_share_of_memory(wrong: dict[str, Any]) -> None:
    assert vllm({"gpus": 0.5}).gpus == 0.5
    assert [vllm(serving).serving.memory for serving in ({}, {"gpus": 0.5}, {"gpu_memory_utilization": 0.3})] == [
        0.9,
        0.45,
        0.3,
    ]
    with pytest.raises(ConfigError, match=r"gpus=0\.5 needs tensor_parallel=1"):
        vllm({"gpus": 0.5} | wrong)


def vllm(serving: dict[str, Any]) -> Any:
    return make("model", {"_target_": "grid.engines.vllm.engine.VLLM", "path": "x", "serving": serving})


def test_a_replica_over_machines_has_a_process_for_each_gpu() -> None:
    assert vllm({"tensor_parallel": 4}).bundles == (4,)
    over = vllm({"tensor_parallel": 2, "engine_args": {"pipeline_parallel_size": 2}})
    assert (over.bundles, over.gpus) == ((1.0,) * 4, 4)
    assert over._arguments()["distributed_executor_backend"] == "ray"
    assert vllm({"device": "cpu"}).bundles == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dtype": "float16"}, r"engine_args\.dtype cannot be given, because its value comes from model\.dtype"),
        ({"trust_remote_code": True}, "it would run code that is neither ours"),
        (
            {"hf_token": "secret"},
            r"engine_args\.hf_token cannot be given, because its value comes from the variable HF_TOKEN",
        ),
        ({"data_parallel_size": 2}, r"its value comes from model\.serving\.replicas"),
        ({"pipeline_parallel_size": "2"}, "not a whole number from 1 to 64"),
        ({"pipeline_parallel_size": True}, "not a whole number from 1 to 64"),
    ],
)
def test_arguments_of_vllms_that_have_a_key_of_ours_or_run_code_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        vllm({"engine_args": given})
    assert caught.value.key == "model.serving"


def test_arguments_of_vllms_are_in_the_id_where_they_change_an_answer() -> None:
    def id_with(**serving: Any) -> str:
        model = {**SETTING["model"], "serving": {"max_batch": 4, **serving}}
        return Setting(SETTING | {"model": model}, LABELS, 0).id

    plain = Setting(SETTING, LABELS, 0).id
    assert id_with() == id_with(engine_args={}) == plain
    assert id_with(engine_args={"pipeline_parallel_size": 2, "enforce_eager": True}) == plain
    others: list[dict[str, Any]] = [
        {"quantization": "fp8"},
        {"quantization": "awq"},
        {"kv_cache_dtype": "fp8"},
        {"load_format": "dummy"},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    ]
    assert len({plain, *(id_with(engine_args=one) for one in others)}) == 6
    assert id_with(engine_args=others[0] | {"enforce_eager": True}) == id_with(engine_args=others[0])
