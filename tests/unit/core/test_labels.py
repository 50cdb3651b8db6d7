"""A label is no longer than it must be to tell a setting from the others."""

from __future__ import annotations

import json

import pytest

from grid.core.labels import differences, of_config, plain, short

URL = r"base_url=http\://127.0.0.1\:8795/v1"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([rf"openai_http[model=fake-1,{URL}]"], ["fake-1"]),
        ([rf"openai_http[{URL},model=fake-1]", rf"openai_http[model=fake-2,{URL}]"], ["fake-1", "fake-2"]),
        (
            [rf"openai_http[model=fake-1,{URL}]", r"openai_http[model=fake-1,base_url=http\://h\:1/v1]"],
            ["fake-1[base_url=http://127.0.0.1:8795/v1]", "fake-1[base_url=http://h:1/v1]"],
        ),
        (
            ["openai_http[model=m,omit=[seed,top_p],tools=native]", "openai_http[model=m,tools=native]"],
            ["m[omit=[seed,top_p]]", "m"],
        ),
        (["openai_http[model=m]", "litellm[model=m]"], ["m[openai_http]", "m[litellm]"]),
        (["litellm[model=anthropic/x]", "smollm2-135m"], ["anthropic/x", "smollm2-135m"]),
        (["simulated", "simulated[tool_skill=0.25]"], ["simulated", "simulated[tool_skill=0.25]"]),
        (["[bold]", "", "lexical[a=b"], ["[bold]", "", "lexical[a=b"]),
    ],
)
def test_a_model_behind_an_interface_has_its_own_name(labels: list[str], names: list[str]) -> None:
    assert short(labels) == dict(zip(labels, names, strict=True))


def test_escapes_are_of_the_command_line_alone() -> None:
    assert plain(r"slate[order=a\,b\:c]") == "slate[order=a,b:c]"


def test_settings_are_told_apart_by_as_few_keys_as_do_it() -> None:
    one = {"planner": {"a": 1, "b": 1}, "seed": 0}
    assert differences([one, {**one, "seed": 1}]) == ["seed=0", "seed=1"]
    assert differences([one, {"planner": {"a": 1}, "seed": 0}]) == ["planner.b=1", ""]
    grid = [{"planner": {"a": a, "b": b}, "c": a} for a in (1, 2) for b in (1, 2)]
    told = differences(grid)
    assert told == [
        "planner.a=1,planner.b=1",
        "planner.a=1,planner.b=2",
        "planner.a=2,planner.b=1",
        "planner.a=2,planner.b=2",
    ]
    assert differences([one, {**one}]) is None
    long = differences([{"prompt": "x" * 200}, {"prompt": "y" * 200}])
    assert long is not None
    assert all(len(text) < 50 for text in long)
    assert differences([{"prompt": "x" * 200 + "1"}, {"prompt": "x" * 200 + "2"}]) is None


def test_keys_that_change_no_result_tell_nothing_apart() -> None:
    config = {"model": {"serving": {"tries": 3}, "model": "m"}, "seed": 4}
    assert of_config(json.dumps(config)) == {"model": {"model": "m"}, "seed": 4}
    assert of_config(None) == {}
