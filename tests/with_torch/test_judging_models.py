"""A judge that is a language model: digits against brute force, and words under the schema."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.core.engine import JUDGE
from grid.text.answers import read_score
from tests.support.extras import needs
from tests.support.judged import ASKED, a_prompt, asking, brute_force
from tests.support.models import PAIRS, make_model

pytestmark = needs("torch")


@pytest.mark.parametrize(("numbers", "form"), [((), "natural"), (PAIRS, "natural"), ((), "terminated"), ((), "padded")])
def test_digits_is_the_expectation_by_brute_force(tmp_path: Path, numbers: tuple[str, ...], form: Any) -> None:
    from grid.engines.transformers.engine import HuggingFace

    folder = make_model(tmp_path / "model", numbers)
    run = asking(HuggingFace(path=str(folder), dtype="float32", labels=form, mass_bound=0.0), "digits")

    async def all_of_them() -> list[float]:
        return list(await asyncio.gather(*(run.judge(prompt, place) for place, prompt in enumerate(ASKED))))

    found = asyncio.run(all_of_them())
    assert np.abs(np.array(found) - brute_force(folder, run, form)).max() < 1e-4
    assert max(found) - min(found) > 1e-3, "they are not all alike"
    spent = run.spent[JUDGE]
    assert (spent.llm_calls, spent.output_tokens) == (0, 0), "no sampled text"
    assert spent.forward_passes >= len(ASKED)


def test_a_model_that_speaks_no_language_gives_a_score_under_the_schema(tmp_path: Path) -> None:
    pytest.importorskip("xgrammar")
    from grid.engines.transformers.engine import HuggingFace

    folder = make_model(tmp_path / "model")
    run = asking(HuggingFace(path=str(folder), dtype="float32"), max_retries=0)
    for text in asyncio.run(run.sample(a_prompt(), n=8, max_tokens=600, role=JUDGE)).texts:
        found = json.loads(text)
        assert list(found) == ["score", "explanation"]
        assert found["score"] in range(11)
        assert read_score(text) == found["score"] / 10
