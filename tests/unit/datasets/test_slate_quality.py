"""SLATE's quality: each measure finds what is planted, and nothing where nothing is."""

from __future__ import annotations

import random
from itertools import chain

import numpy as np
import pytest

from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.drafts import ArgumentRecord, ToolRecord
from grid.datasets.slate.quality import Figure, _look, _Output, figures, read_source, separated, told_by_word

WORDS = ("order", "invoice", "stock", "price", "parcel", "review", "member", "coupon")


def tool(name: str, **arguments: str) -> ToolRecord:
    described = [ArgumentRecord(name=one, type="string", description=text) for one, text in arguments.items()]
    return ToolRecord(name=name, category="x", description=f"Does {name}.", arguments=described, results=["a_id"])


@pytest.mark.parametrize("planted", ["nothing", "a word", "a length"])
def test_style_tells_groups_apart_only_where_it_differs(planted: str) -> None:
    rng = random.Random(1)
    labels = np.array([rng.random() < 0.3 for _ in range(600)])
    texts = [" ".join(rng.choices(WORDS, k=8)) for _ in labels]
    shapes = np.array([[rng.gauss(0, 1)] for _ in labels])
    if planted == "a word":
        texts = [f"{text} identifier" if own else text for text, own in zip(texts, labels, strict=True)]
    if planted == "a length":
        shapes += 3 * labels[:, None]
    auc = separated(texts, shapes, labels)
    assert auc > 0.95 if planted != "nothing" else 0.4 < auc < 0.6


@pytest.mark.parametrize("value", [False, True])
def test_a_value_in_a_text_is_seen_where_only_one_kind_has_it(value: bool) -> None:
    rng = random.Random(2)
    calls = np.array([rng.random() < 0.4 for _ in range(400)])
    texts = [
        f"Look at the parcel{' of 3 May 2024' if (call if value else rng.random() < 0.5) else ''}" for call in calls
    ]
    looks = np.array([_look(text) for text in texts])
    auc = separated([], looks, calls, [str(index % 40) for index in range(400)])
    assert auc > 0.95 if value else 0.4 < auc < 0.6


def test_first_words_are_learned_on_other_workflows() -> None:
    told = [[("check", True), ("consider", False)] for _ in range(20)]
    groups = [str(number) for number, pairs in enumerate(told) for _ in pairs]
    assert told_by_word(list(chain(*told)), groups) == 1
    own = [[(f"word{number}", True), (f"word{number}", True), (f"other{number}", False)] for number in range(20)]
    groups = [str(number) for number, pairs in enumerate(own) for _ in pairs]
    assert told_by_word(list(chain(*own)), groups) == pytest.approx(2 / 3), "words of one workflow help with no other"


def test_a_source_is_read_from_words_and_else_is_the_latest() -> None:
    taking = tool("send_link", proof="Proof that the person is the owner")
    outputs = [
        _Output("1.1", "proof_id", "PRF-1", tool("verify_owner")),
        _Output("1.2", "receipt_id", "RCP-1", tool("fetch_receipt")),
    ]
    assert read_source(taking, "proof", outputs).step == "1.1"
    assert read_source(tool("send_link", target="What"), "target", outputs).step == "1.2"


def test_all_figures_of_a_small_slate() -> None:
    found = figures(Slate(cases=40))
    assert len({one.name for one in found}) == len(found)
    assert all(0 <= one.value <= 100 for one in found if one.unit == "%")
    named = {one.name: one for one in found}
    assert named["workflows"].value <= 40
    assert named["workflows"].holds is False
    assert 0.5 <= named["plan tools told from distractors by words and shape"].value <= 1


@pytest.mark.parametrize(
    ("least", "most", "holds"), [(None, None, None), (1, None, True), (None, 1, False), (1, 3, True)]
)
def test_targets(least: float | None, most: float | None, holds: bool | None) -> None:
    one = Figure("a", 2, least=least, most=most)
    assert one.holds is holds
    assert bool(one.target) is (holds is not None)
