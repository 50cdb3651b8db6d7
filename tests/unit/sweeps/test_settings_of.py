"""The settings that a command line asks for: the product of values and points, and what is none of either."""

from __future__ import annotations

from itertools import product

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra_plugins.grid_sweeper import MAX_SETTINGS, settings

from grid.core.errors import ConfigError


def asked(*words: str, together: tuple[tuple[tuple[str, ...], ...], ...] = ()) -> list[tuple[str, ...]]:
    parser = OverridesParser.create()
    found: list[tuple[str, ...]] = settings(
        parser.parse_overrides([*words]),
        [[parser.parse_overrides([*point]) for point in points] for points in together],
    )
    return found


def test_the_product_of_all_values_the_last_of_a_key_counting() -> None:
    found = asked("planner=a,b", "trials=1", "seed=range(3)", "planner=c,d", "store={root:x}")
    wanted = [("trials=1", f"seed={seed}", f"planner={planner}") for planner, seed in product("cd", range(3))]
    assert sorted(sorted(one) for one in found) == sorted(sorted((*one, "store={root:x}")) for one in wanted)


def test_points_go_together_and_values_choose_among_them() -> None:
    points = (("dataset=slate", "pool=domain"), ("dataset=gta", "pool=all"), ("dataset=gta", "pool=domain"))
    assert len(asked("planner=a,b", together=(points,))) == 6
    assert asked("dataset=gta", together=(points,)) == [points[1], points[2]]
    assert asked("dataset=gta", "pool=all", together=(points,)) == [points[1]]
    told = "one of these points: dataset=slate pool=domain; dataset=gta pool=all"
    with pytest.raises(ConfigError, match=told):
        asked("dataset=other", together=(points,))


@pytest.mark.parametrize("lists", [((),), ((("dataset=slate",),), ())])
def test_a_list_without_points_is_refused(lists: tuple[tuple[tuple[str, ...], ...], ...]) -> None:
    with pytest.raises(ConfigError, match="at least one point") as caught:
        asked("planner=a,b", together=lists)
    assert caught.value.key == "hydra.sweeper.together"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("seed=interval(0,1)", "values that can be listed"),
        ("seed=range(0,inf)", "with finite numbers and a step that is not 0"),
        ("seed=range(0,5,0)", "with finite numbers and a step that is not 0"),
        (f"seed=range(0,{MAX_SETTINGS + 1})", "at most 20,000 settings"),
        ("seed=range(5,5)", "at least one value"),
    ],
)
def test_values_that_cannot_be_listed_are_refused_by_their_key(word: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        asked(word)
    assert caught.value.key == "seed"


def test_a_product_beyond_the_most_is_refused() -> None:
    assert len(asked("a=range(100)", "b=range(200)")) == MAX_SETTINGS
    with pytest.raises(ConfigError, match="'20,100 settings': at most 20,000 settings in one sweep"):
        asked("a=range(100)", "b=range(201)")
