"""Composing once what settings share gives what Hydra gives, for whatever overrides."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from grid.core.errors import ConfigError
from grid.sweeps.arguments import refusal
from grid.sweeps.composing import Composed, Composer, of_hydra, prepared

ROOT = Path(__file__).parents[3]
PARTS = (
    "planner=react", "planner=egb_sampling", "planner=egb_logits", "planner=fh", "dataset=slate", "dataset=null_cases",
    "model=null_engine", "model=smollm2-135m-vllm", "robustness=none", "robustness=[inaccurate_plan,extraneous]",
    "robustness=extraneous", "cluster=address", "+experiment=smoke_models", "+experiment=planning_horizon",
    "planner.temperature=0.5", "planner.temperature=${seed}", "++planner.trajectories=3", "+planner.new={a:[1,{b:2}]}",
    "~planner.temperature", "planner={temperature:0.25}", "dataset.limit=7", "dataset.limit=null", "dataset.path='a b'",
    "robustness.extraneous.k=4", "++robustness.extraneous.k=6", "+robustness.extraneous={k:2}", "trials=2", "seed=5",
    "store.root=x", "store={root:y}", "cluster.replicas=2", "budget.llm_calls=10", "budget={llm_calls:11}",
    "model.serving.tensor_parallel=2", "model.tool_skill=0.5", "model=lexical", "~retriever", "retriever.top_k=3",
    "name=n", "++name=m", "+model.deep.er.est=1", "planner._target_=x.y", "nosuch=1", "planner.nosuch=1",
    "planner=nosuch", "model@judge=lexical", "model@judge=smollm2-135m", "judge.form=digits", "judge.temperature=0.5",
    "judge={form:digits}", "model@evaluator=lexical", "evaluator.form=digits",
    "dataset.equivalence=judge", "+planner@x.y=react", "planner@dataset=react", "~planner=react", "~planner=fh",
    "options.order=ranked", "options={order:ranked}",
)  # fmt: skip


@pytest.fixture(scope="module")
def hydra() -> Iterator[tuple[Composer, DictConfig]]:
    """A composer, and the config of a sweep as Hydra gives it to a sweeper."""
    sys.path.insert(0, str(ROOT / "launch"))
    try:
        from hydra_plugins.grid_sweeper import register
    finally:
        sys.path.remove(str(ROOT / "launch"))
    register()
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", [], RunMode.MULTIRUN)
        yield Composer(loader, master), master


def told(composed: Composed) -> object:
    return OmegaConf.to_container(composed.config), composed.choices, composed.overrides


def compare(composer: Composer, master: DictConfig, overrides: list[str]) -> bool:
    """Whether both compose it, and equally; that neither does is equal too (of two wrong ones, each its own)."""
    loader = GlobalHydra.instance().config_loader()
    hydras = attempt(lambda: of_hydra(loader.load_sweep_config(master, overrides), overrides))
    ours = attempt(lambda: composer.compose(overrides))
    if isinstance(hydras, str) and isinstance(ours, str):
        assert ours.partition(":")[0] == hydras.partition(":")[0], overrides
    else:
        assert ours == hydras, overrides
    return not isinstance(hydras, str)


def attempt(compose: Callable[[], Composed]) -> object:
    """What was composed, or what was raised instead."""
    try:
        return told(compose())
    except Exception as error:  # noqa: BLE001 - whatever Hydra raises
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("count", [25, pytest.param(600, marks=pytest.mark.slow)])
def test_a_setting_is_what_hydra_composes(hydra: tuple[Composer, DictConfig], count: int) -> None:
    draw = random.Random(count)
    composed = 0
    for _ in range(count):
        composed += compare(*hydra, draw.sample(PARTS, draw.choice((1, 2, 2, 3, 4, 5))))
    assert 0 < composed < count, "both kinds are met"


CHOICES = {
    "planner": ("react", "fh", "sampled/tooltree", "asking/tooltree", "released/tooltree"),
    "dataset": ("slate", "null_cases", "kqa_synthetic"),
    "robustness": ("none", "extraneous", "[inaccurate_plan,extraneous]"), "budget": ("{steps:3}", "{steps:4}"),
    "model@judge": ("null", "lexical", "smollm2-135m"), "refine": ("none", "critic"), "trials": ("1", "2"),
    "retriever": ("bm25", "none"), "+experiment": ("smoke_models", "planning_horizon"),
    "judge": ("{form:text}", "{form:digits}"),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_choices_that_are_put_together_are_what_hydra_composes(
    hydra: tuple[Composer, DictConfig], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of whole products, as a sweep has them; Hydra itself composes some of them."""
    draw, (_, master) = random.Random(count), hydra
    found = Composer._put_together
    put_together: list[bool] = []

    def seen(*given: Any) -> Any:
        one = found(*given)
        put_together.append(one is not None)
        return one

    monkeypatch.setattr(Composer, "_put_together", seen)
    asked = 0
    for _ in range(count):
        keys = draw.sample(list(CHOICES), 3)
        settings = [*product(*([f"{key}={value}" for value in CHOICES[key]] for key in keys))]
        composer = Composer(GlobalHydra.instance().config_loader(), master)
        for overrides in draw.sample(settings, min(len(settings), 10)):
            asked += compare(composer, master, list(overrides))
    print(f"{asked} settings, {sum(put_together)} of them put together")
    assert sum(put_together) > asked / 4


def test_settings_do_not_share_what_they_change(hydra: tuple[Composer, DictConfig]) -> None:
    composer, _ = hydra
    first = composer.compose(["planner=react", "planner.temperature=0.1"])
    second = composer.compose(["planner=react", "planner.temperature=0.2"])
    third = composer.compose(["planner=react"])
    assert [one.config.planner.temperature for one in (first, second, third)] == [0.1, 0.2, 1.0]


@pytest.mark.parametrize(
    ("overrides", "label", "target"),
    [
        ([], "simulated", None),
        (["judge.form=digits"], "simulated[form=digits]", None),
        (["model.tool_skill=0.5", "judge.form=digits"], "simulated[tool_skill=0.5,form=digits]", None),
        (["model@judge=smollm2-135m", "judge.serving.max_batch=2"], "smollm2-135m", "HuggingFace"),
        (["model@judge=lexical", "judge.temperature=0.5", "judge.max_retries=1"],
         "lexical[temperature=0.5,max_retries=1]", "Lexical"),
    ],
)  # fmt: skip
def test_a_judge_is_called_as_its_model_and_as_it_is_asked(
    hydra: tuple[Composer, DictConfig], overrides: list[str], label: str, target: str | None
) -> None:
    from grid.sweeps.jobs import resolved

    config, labels = resolved(hydra[0].compose(overrides))
    assert labels["judge"] == label
    assert config["judge"].get("_target_", "None").rpartition(".")[2] == str(target)
    assert config["model"]["_target_"].endswith("Simulated")


@pytest.mark.parametrize(
    ("overrides", "label"),
    [
        ([], "none"),
        (["model@evaluator=lexical"], "lexical"),
        (["model@evaluator=lexical", "evaluator.temperature=0.5", "evaluator.form=digits", "judge.max_retries=1"],
         "lexical[temperature=0.5,form=digits]"),
    ],
)  # fmt: skip
def test_an_evaluator_is_whoever_is_named_and_nobody_else(
    hydra: tuple[Composer, DictConfig], overrides: list[str], label: str
) -> None:
    from grid.sweeps.jobs import resolved

    config, labels = resolved(hydra[0].compose([*overrides, "model.tool_skill=0.5", "dataset.equivalence=judge"]))
    assert labels["evaluator"] == label
    assert labels["dataset"] == "slate[equivalence=judge]"
    assert config["evaluator"].get("_target_", "").endswith("Lexical") == bool(overrides)


def test_a_path_in_a_label_is_shown_by_its_last_part(hydra: tuple[Composer, DictConfig]) -> None:
    from grid.sweeps.jobs import resolved

    given = [
        "planner=react",
        "dataset=mcp",
        "dataset.path=/t",
        "dataset.args=[/home/me/desk.py,-v]",
        "model=local",
        "model.path=/home/q",
    ]
    config, labels = resolved(hydra[0].compose(given))
    assert (labels["dataset"], labels["model"]) == ("mcp[args=[desk.py,-v]]", "local[path=q]")
    assert config["dataset"]["args"] == ["/home/me/desk.py", "-v"]


def test_a_mapping_takes_keys_that_its_file_does_not_have(hydra: tuple[Composer, DictConfig]) -> None:
    """Hydra alone refuses `model.extra={top_p: 0.9}`, since openai_http.yaml has `extra: {}`."""
    from grid.sweeps.jobs import resolved

    given = prepared(["model=openai_http", "model.extra={top_p: 0.9}", "dataset.limit=3", "planner=react"])
    assert given[1:3] == ["++model.extra={top_p: 0.9}", "dataset.limit=3"]
    config, labels = resolved(hydra[0].compose([*given, "model.base_url=http://127.0.0.1:1/v1", "model.model=m"]))
    assert config["model"]["extra"] == {"top_p": 0.9}
    assert "extra={top_p: 0.9}" in labels["model"]
    with pytest.raises(HydraException) as caught:
        hydra[0].compose(["planner=react", "model=openai_http", "model.extra.top_p=0.9"])
    told = refusal(caught.value, ["model.extra.top_p=0.9"])
    assert "model.extra={top_p: VALUE} adds this one" in told


def test_the_engines_arguments_stand_in_the_label_if_they_can_change_answers(
    hydra: tuple[Composer, DictConfig],
) -> None:
    """Two settings whose cells have different ids also have different names in the tables."""
    from grid.sweeps.jobs import resolved

    for given, label in (
        ("{quantization: fp8, enforce_eager: true}", "smollm2-135m-vllm[quantization=fp8]"),
        ("{enforce_eager: true}", "smollm2-135m-vllm"),
        ("{quantization_param_path: /home/me/scales.json}", "smollm2-135m-vllm[quantization_param_path=scales.json]"),
    ):
        overrides = prepared(["planner=react", "model=smollm2-135m-vllm", f"model.serving.engine_args={given}"])
        assert resolved(hydra[0].compose(overrides))[1]["model"] == label


def test_the_order_of_options_stands_in_the_retrievers_label(hydra: tuple[Composer, DictConfig]) -> None:
    from grid.sweeps.jobs import resolved

    for given, label in (([], "bm25"), (["options.order=ranked"], "bm25[options.order=ranked]")):
        config, labels = resolved(hydra[0].compose([*given, "planner=react"]))
        assert labels["retriever"] == label
        assert config["options"] == {"order": "ranked" if given else "shuffled"}


def test_judges_and_their_forms_fan_out(hydra: tuple[Composer, DictConfig]) -> None:
    from hydra_plugins.grid_sweeper import settings

    parse = OverridesParser.create(hydra[0]._loader).parse_overrides
    given = parse(["model@judge=lexical,smollm2-135m", "judge.form=text,digits"])
    found = [hydra[0].compose(overrides).config.judge for overrides in settings(given)]
    assert [(judge._target_.rpartition(".")[2], judge.form, judge.max_retries) for judge in found] == [
        (target, form, 3) for target in ("Lexical", "HuggingFace") for form in ("text", "digits")
    ]


def test_the_grid_is_a_product_in_which_the_last_override_of_a_key_counts() -> None:
    from hydra_plugins.grid_sweeper import settings

    given = OverridesParser.create().parse_overrides(["a=1,2", "b=range(0,2)", "a=3,4", "c=x"])
    assert settings(given) == [(f"a={a}", f"b={b}", "c=x") for a in (3, 4) for b in (0, 1)]


POINTS = (["kind=parallel", "level=simple"], ["kind=parallel", "level=hard"], ["kind=sequential"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [0, 1, 2]),
        (["kind=parallel"], [0, 1]),
        (["kind=parallel,sequential"], [0, 1, 2]),
        (["level=hard"], [1]),
        (["level=hard,simple", "kind=parallel"], [0, 1]),
    ],
)
def test_values_that_go_together_are_one_axis_of_the_grid(given: list[str], expected: list[int]) -> None:
    from hydra_plugins.grid_sweeper import settings

    parse = OverridesParser.create().parse_overrides
    found = settings(parse(["a=1,2", *given]), [[parse(point) for point in POINTS]])
    assert found == [(f"a={a}", *POINTS[place]) for a in (1, 2) for place in expected]


def test_lists_of_points_multiply() -> None:
    from hydra_plugins.grid_sweeper import settings

    parse = OverridesParser.create().parse_overrides
    lists = [[parse([f"{key}={value}", f"of.{key}={value}"]) for value in (1, 2)] for key in "xy"]
    assert settings(parse(["y=2"]), lists) == [(f"x={x}", f"of.x={x}", "y=2", "of.y=2") for x in (1, 2)]


def test_values_that_no_point_has_are_refused() -> None:
    from hydra_plugins.grid_sweeper import settings

    parse = OverridesParser.create().parse_overrides
    for given in (["kind=other"], ["level=hard", "kind=sequential"]):
        with pytest.raises(ConfigError, match="kind=parallel level=simple; kind=parallel level=hard; kind=sequential"):
            settings(parse(given), [[parse(point) for point in POINTS]])


def test_a_sweep_has_a_bound() -> None:
    from hydra_plugins.grid_sweeper import MAX_SETTINGS, settings

    parse = OverridesParser.create().parse_overrides
    assert len(settings(parse([f"a=range(0,{MAX_SETTINGS})"]))) == MAX_SETTINGS
    with pytest.raises(ConfigError, match="20,000"):
        settings(parse([f"a=range(0,{MAX_SETTINGS})", "b=1,2"]))
