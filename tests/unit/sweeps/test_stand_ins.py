"""Retrievers that stand in for one which is not installed: of the two one runs, and a line says which."""

from __future__ import annotations

import pytest

from grid.retrievers.scored import EmbeddingModel
from grid.sweeps.jobs import Setting, one_retriever
from tests.support.configs import yaml


def settings(*retrievers: str, stand_ins: dict[str, str] | None = None) -> list[Setting]:
    return [
        (
            {"retriever": yaml("retriever", name.partition("[")[0]), "stand_ins": stand_ins or {}},
            {"retriever": name, "planner": planner},
        )
        for planner in ("react", "egb_logits")
        for name in retrievers
    ]


@pytest.mark.parametrize("installed", [True, False])
def test_one_of_the_two_runs(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr(EmbeddingModel, "installed", installed)
    given = settings("dense[query_top_k=20]", "bm25", stand_ins={"bm25": "dense"})
    kept, (line,) = one_retriever(given)
    taken, left = ("dense[query_top_k=20]", "bm25") if installed else ("bm25", "dense")
    assert [labels["retriever"] for _, labels in kept] == [taken] * 2
    assert line.startswith(f"left out retriever {left}: ")
    assert f"{taken.partition('[')[0]} runs in its place" in line


def test_who_asks_for_one_of_them_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddingModel, "installed", False)
    for names, stand_ins in ((("bm25",), {"bm25": "dense"}), (("dense",), {"bm25": "dense"}), (("dense", "bm25"), {})):
        given = settings(*names, stand_ins=stand_ins)
        assert one_retriever(given) == (given, [])
