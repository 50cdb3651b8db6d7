"""The pages that list a paper item by item hold what conf has: every published table, every preset of a paper."""

from __future__ import annotations

import pytest

from analysis.papers import files
from docs import facts
from docs.facts import papers
from grid import CONF
from tests.support.documented import ROOT

NO_PAPERS = {"bfcl", "one_gpu", "smoke_models", "smoke_planners", "tau2", "two_cores", "workbench"}
"""Presets of no table of the five papers."""


@pytest.mark.parametrize("paper", papers.every())
def test_a_page_has_every_published_table(paper: str) -> None:
    items = papers.every()[paper]
    listed = {item.table for item in items if item.table}
    assert listed == {one.file for one in files.every() if one.paper == paper}
    names = [item.item for item in items if item.item != "beyond the paper"]
    assert len(names) == len(set(names))
    page = (ROOT / "docs" / f"paper-{paper.replace('_', '-')}.md").read_text(encoding="utf-8")
    assert facts.asked(page, "paper") == [paper]
    rendered = papers.render(paper)
    assert len(rendered.splitlines()) == 2 + len(items)
    assert all(note.split()[0] in rendered for one in files.every() if one.paper == paper for note in one.notes[:1])


def test_every_preset_of_a_paper_is_named_and_there() -> None:
    there = {path.stem for path in (CONF / "experiment").glob("*.yaml")}
    named = {name for items in papers.every().values() for item in items for name in item.presets}
    assert named == there - NO_PAPERS


def test_an_item_is_here_or_says_why_not() -> None:
    with pytest.raises(ValueError, match="either it is here"):
        papers.Item(item="table 1", about="x")
    with pytest.raises(ValueError, match="either it is here"):
        papers.Item(item="table 1", about="x", where="y", absent="z")
    with pytest.raises(ValueError, match="`about` says"):
        papers.Item(item="table 1", absent="z")
    with pytest.raises(ValueError, match="one of egb_slate"):
        papers.render("other")
