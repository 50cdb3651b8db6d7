"""`choose` by names: against brute force, and against the votes of sampled calls, whose limit it is."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from grid.core.engine import Choice, ChoiceAnswer, Prompt, Section, ToolCallAnswer
from grid.core.types import NO_TOOL, ToolSpec
from grid.engines.language_model import Renderer
from grid.engines.transformers.engine import HuggingFace
from tests.support.choosing import choices, distance
from tests.support.extras import needs
from tests.support.models import make_model
from tests.support.teacher_forcing import named_prompts, teacher_forced_names

pytestmark = needs("torch", "transformers")

PROMPTS = named_prompts(12)
NAMES = ("find", "find_all", "fund", "file_it", "send", "no")
AT_ONCE = 100
LONGEST = len('{"action": {"tool": "find_all"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a token for the quote and a comma, so that a name ends in two ways."""
    return make_model(tmp_path_factory.mktemp("model"), ('",',))


@pytest.mark.long
def test_choose_equals_teacher_forcing(folder: Path) -> None:
    found, forced = choices(folder, PROMPTS, mass_bound=0.0), teacher_forced_names(folder, PROMPTS)
    for choice, expected in zip(found, forced, strict=True):
        assert expected.sum() == pytest.approx(1)
        assert distance(choice.probabilities, expected) < 1e-4
        assert choice.error_bound == 0.0
        assert choice.usage.forward_passes <= max(len(expected) - 1, 1)
    sharpest = [expected.max() for expected in forced]
    assert min(sharpest) < 0.5 < max(sharpest)
    few = teacher_forced_names(folder, PROMPTS[:3], cached=False)
    assert all(distance(one, other) < 1e-5 for one, other in zip(few, forced, strict=False))


@pytest.mark.long
def test_a_bound_costs_no_more_than_it_says_and_who_shares_the_batch_nothing(folder: Path) -> None:
    exact = choices(folder, PROMPTS, mass_bound=0.0)
    bounded = choices(folder, PROMPTS, mass_bound=1e-2)
    saved = 0
    for one, other in zip(bounded, exact, strict=True):
        assert one.error_bound is not None
        assert distance(one.probabilities, other.probabilities) <= one.error_bound + 1e-5
        saved += other.usage.forward_passes - one.usage.forward_passes
    assert saved > 10
    for one, other in zip(choices(folder, PROMPTS, mass_bound=0.0, serving={"max_batch": 1}), exact, strict=True):
        assert distance(one.probabilities, other.probabilities) < 1e-5
        assert one.usage == other.usage


def test_what_is_counted_is_what_is_computed(folder: Path) -> None:
    """A pass is sent with prompt and label so far, of which all but the prompt and each node's own tokens is cached."""
    from transformers import AutoTokenizer

    renderer = Renderer(AutoTokenizer.from_pretrained(folder))
    names = ("track", "track_order", "verify")
    prompt = Prompt((Section("tools", ("Tools:",), names),), ChoiceAnswer(names, names))
    (choice,) = choices(folder, [prompt], mass_bound=0.0)
    stem = len(renderer.tokenizer('{"action": {"tool": "', add_special_tokens=False)["input_ids"])
    tokens, track = len(renderer.encode(prompt)) + stem, len(renderer.names(names)[0][0]) - 1 - stem
    assert track > 1, "a level of several tokens one behind the other"
    assert choice.usage.forward_passes == 2
    assert choice.usage.input_tokens == tokens + tokens + track
    assert choice.usage.input_tokens - choice.usage.cached_input_tokens == tokens + track


@pytest.mark.long
@pytest.mark.parametrize("samples", [800, pytest.param(2000, marks=pytest.mark.slow)])
def test_votes_over_sampled_calls_tend_to_it(tmp_path: Path, samples: int) -> None:
    """With a token a byte there is one way to write a call: what is sampled under the schema is what is scored."""
    engine = HuggingFace(path=str(make_model(tmp_path, most=256)), dtype="float32", mass_bound=0.0)
    tools = tuple(ToolSpec(name, "A tool.", ()) for name in NAMES)
    options = (*NAMES, NO_TOOL)
    sections = (Section("tools", ("Tools:",), options),)
    asked = Prompt(sections, ToolCallAnswer(tools, may_decline=True))

    async def ask() -> tuple[Choice, list[str]]:
        chosen = await engine.choose(Prompt(sections, ChoiceAnswer(options, options)), seed=0)
        parts = await asyncio.gather(
            *(
                engine.sample(asked, n=AT_ONCE, temperature=1.0, max_tokens=LONGEST, seed=part)
                for part in range(samples // AT_ONCE)
            )
        )
        return chosen, [text for part in parts for text in part.completions]

    chosen, texts = asyncio.run(ask())
    votes = Counter(json.JSONDecoder().raw_decode(text, len('{"action": {"tool": '))[0] for text in texts)
    assert votes.total() == samples
    assert votes.keys() <= set(options)
    shares = np.array([votes[name] / samples for name in options])
    exact = np.array(chosen.probabilities)
    assert (np.abs(shares - exact) <= 3 * np.sqrt(exact * (1 - exact) / samples)).all()
    assert np.sort(exact)[-2] > 0.05, "not all on one"
    assert chosen.unassigned is not None
    assert chosen.unassigned > 0.5, "a free sampler would seldom write a name: the votes are those under the schema"
