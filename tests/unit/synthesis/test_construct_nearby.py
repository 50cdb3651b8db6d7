"""Tools that are near a text, as SLATE's construction offers them; and how its library is divided and merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from omegaconf import OmegaConf

from grid import CONF
from grid.core.errors import ConfigError
from grid.datasets.slate.drafts import ToolRecord
from grid.retrievers import scored as dense
from grid.retrievers.scored import Embedder
from grid.synthesis import by_queries, plans
from grid.synthesis.by_queries import ByMeaning, by_words


def tool(name: str, description: str = "", category: str = "Repairs") -> ToolRecord:
    return ToolRecord(name=name, category=category, description=description, arguments=[], results=["code"])


def config(name: str) -> dict[str, object]:
    return cast(dict[str, object], OmegaConf.to_container(OmegaConf.load(CONF / "retriever" / f"{name}.yaml")))


class Meanings:
    """An embedder whose texts have two directions: how often they say water, and how often fire."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        found = np.array([[one.count("water") + 0.1, one.count("fire") + 0.1] for one in texts], dtype=np.float32)
        unit: np.ndarray = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit


def test_by_meaning_the_nearest_are_first_and_each_tool_is_embedded_once() -> None:
    embedder = Meanings()
    near = ByMeaning(cast(Embedder, embedder), "query: ")
    library = [tool("a_one", "fire"), tool("b_two", "water"), tool("c_three", "water fire"), tool("d_four", "water")]
    assert [one.name for one in near("water", library[:2], 5)] == ["b_two", "a_one"]
    assert [one.name for one in near("water", library, 3)] == ["b_two", "d_four", "c_three"], "ties as in the library"
    assert [one.name for one in near("fire", library, 1)] == ["a_one"]
    assert near("fire", [], 3) == []
    documents = [text for text in embedder.asked if not text.startswith("query: ")]
    assert len(documents) == len(set(documents)) == len(library)
    assert len(embedder.asked) == len(library) + 3


def test_by_words_the_nearest_are_first() -> None:
    library = [tool(f"open_door_{number}", "Opens a door of the house") for number in range(plans.OFFERED)]
    library.append(tool("mend_bicycle_wheel", "Mends the wheel of a bicycle"))
    assert by_words("A wheel of my bicycle is bent", library, plans.OFFERED)[0].name == "mend_bicycle_wheel"
    assert len(by_words("A wheel", library, plans.OFFERED)) == plans.OFFERED
    assert by_words("A wheel", [], 3) == []


def test_retrievers_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    assert by_queries.nearby(config("bm25"), said.append) is by_words
    for name in ("oracle", "none", "hybrid"):
        with pytest.raises(ConfigError, match="dense or bm25"):
            by_queries.nearby(config(name), said.append)
    with pytest.raises(ConfigError, match="no such key"):
        by_queries.nearby({**config("bm25"), "nosuch": 1}, said.append)
    assert said == []

    def lacking(self: object, key: str) -> Embedder:
        raise ConfigError("retriever.hub", "x", "a model that can be fetched")

    monkeypatch.setattr(dense.Dense, "check", lambda self, key: None)
    monkeypatch.setattr(dense.Dense, "embedder", lacking)
    assert by_queries.nearby(config("dense"), said.append) is by_words
    assert len(said) == 1
    assert said[0].startswith(
        "tools are found by the words that they share with a query, because embeddings cannot be used: "
    )
    assert "retriever.hub" in said[0]


def test_a_category_is_divided_into_near_ones_and_each_is_seen_once() -> None:
    library = [tool(f"open_door_{number}", "Opens a door") for number in range(30)]
    library += [tool(f"mend_wheel_{number}", "Mends a wheel") for number in range(30)]
    library += [
        tool("sing_songs", "Sings", "Music"),
        tool("play_songs", "Plays", "Music"),
        tool("one_alone", "", "Hire"),
    ]
    groups = dict(by_queries.together(library, by_words))
    assert [*groups] == ["repairs-000", "repairs-001", "music-000"], "one alone is no group"
    seen = [one.name for group in groups.values() for one in group]
    assert len(seen) == len(set(seen)) == len(library) - 1
    assert all(len(group) <= by_queries.TOGETHER for group in groups.values())
    assert {f"open_door_{number}" for number in range(30)} <= {one.name for one in groups["repairs-000"]}
