"""`choose` of the transformers engine against brute force: teacher forcing of every label."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from grid.core.engine import Choice, ChoiceAnswer, Prompt
from grid.core.errors import ConfigError
from grid.engines.language_model import Renderer
from grid.engines.wheels import Wheels, from_wheels
from tests.support.choosing import choices, distance
from tests.support.extras import needs
from tests.support.models import PAIRS, make_model
from tests.support.teacher_forcing import COUNTS, teacher_forced, varied_prompts

pytestmark = needs("torch", "transformers")

PROMPTS = varied_prompts()
FEW = 30  # five of each number of options
YAML = Path(__file__).parents[2] / "conf" / "model" / "smollm2-135m.yaml"
ROUNDING = 1e-5  # float32, batches of other shapes


@dataclass(frozen=True)
class Case:
    """A model, and for its prompts the brute-force distributions and what `choose` answers with nothing left out."""

    folder: Path
    prompts: list[Prompt]
    expected: list[np.ndarray]
    exact: list[Choice]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((numbers, count), id=f"{name}-{count}", marks=marks)
        for count, marks in ((FEW, ()), (len(PROMPTS), pytest.mark.slow))
        for name, numbers in (("a token a digit", ()), ("tokens of several digits", PAIRS))
    ],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    numbers, count = request.param
    folder, prompts = make_model(tmp_path_factory.mktemp("model"), numbers), PROMPTS[:count]
    return Case(folder, prompts, teacher_forced(folder, prompts), choices(folder, prompts, mass_bound=0.0))


def tokenizer_of(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.long
def test_the_prompts_are_as_varied_as_they_should_be(case: Case) -> None:
    renderer = Renderer(tokenizer_of(case.folder))
    lengths = [len(renderer.encode(prompt)) for prompt in case.prompts]
    assert len(set(case.prompts)) == len(case.prompts) >= FEW
    assert (len(PROMPTS), len(set(PROMPTS))) == (200, 200)
    assert {len(expected) for expected in case.expected} == set(COUNTS)
    assert 50 < min(lengths) < 150
    assert 500 < max(lengths) < 650
    sharpest = [expected.max() for expected in case.expected]
    assert min(sharpest) < 0.5 < 0.95 < max(sharpest)


@pytest.mark.long
def test_a_label_is_what_its_number_adds_to_the_prompt(case: Case) -> None:
    tokenizer = tokenizer_of(case.folder)
    renderer = Renderer(tokenizer)
    labels = renderer.labels(100)
    several = any(len(label) == 1 for label in labels[10:])
    assert several == (len(renderer.digits) > 10)
    assert len({len(label) for label in labels}) == 2, "some labels are prefixes of others under both tokenizers"
    for prompt in PROMPTS[3:7]:
        for number, label in enumerate(labels):
            whole = tokenizer(renderer.text(prompt) + str(number), add_special_tokens=False)["input_ids"]
            assert whole == [*renderer.encode(prompt), *label]


@pytest.mark.long
def test_brute_force_needs_no_cache(case: Case) -> None:
    few = PROMPTS[:6]
    for whole, continued in zip(teacher_forced(case.folder, few, cached=False), case.expected, strict=False):
        assert distance(whole, continued) < ROUNDING


def test_choose_equals_teacher_forcing(case: Case) -> None:
    worst = max(distance(one.probabilities, forced) for one, forced in zip(case.exact, case.expected, strict=True))
    assert worst < 1e-4
    assert {one.error_bound for one in case.exact} == {0.0}
    assert all(one.unassigned is not None and 0 < one.unassigned < 1 for one in case.exact)


@pytest.mark.parametrize("form", ["natural", "terminated", "padded"])
def test_every_form_of_labels_equals_teacher_forcing(case: Case, form: str) -> None:
    prompts = varied_prompts(12, seed=4, options=(2, 8, 10, 11, 100, 101))
    found = choices(case.folder, prompts, mass_bound=0.0, labels=form)
    forced = teacher_forced(case.folder, prompts, form=form)
    for one, expected in zip(found, forced, strict=True):
        assert distance(one.probabilities, expected) < 1e-5


@pytest.mark.long
@pytest.mark.parametrize("bound", [1e-6, 1e-2])
def test_a_bound_costs_no_more_than_it_says(case: Case, bound: float) -> None:
    found = choices(case.folder, case.prompts, mass_bound=bound)
    costs, saved = [], 0
    for one, exact in zip(found, case.exact, strict=True):
        assert one.error_bound is not None
        assert one.error_bound <= 10 * bound / (1 - 10 * bound), "ten nodes at most, each below the bound"
        costs.append(distance(one.probabilities, exact.probabilities))
        assert costs[-1] <= one.error_bound + ROUNDING
        saved += exact.usage.forward_passes - one.usage.forward_passes
    if bound == 1e-2:  # wide enough that the comparison could fail
        assert max(costs) > 10 * ROUNDING
        assert saved > 0.15 * len(found)


@pytest.mark.long
def test_who_shares_the_batch_does_not_matter(case: Case) -> None:
    some = PROMPTS[:20]
    together, alone = choices(case.folder, some), choices(case.folder, some, serving={"max_batch": 1})
    for one, other in zip(together, alone, strict=True):
        assert distance(one.probabilities, other.probabilities) < ROUNDING
        assert one.usage == other.usage


def test_numbers_are_scored_and_not_texts(case: Case) -> None:
    prompt = PROMPTS[5]
    assert isinstance(prompt.answer, ChoiceAnswer)
    renamed = dataclasses.replace(prompt, answer=ChoiceAnswer(prompt.answer.options[::-1]))
    reordered = dataclasses.replace(prompt, sections=(prompt.sections[0], *prompt.sections[:0:-1]))
    one, other, third = choices(case.folder, [prompt, renamed, reordered])
    assert distance(one.probabilities, other.probabilities) < ROUNDING
    assert distance(one.probabilities, third.probabilities) > 0.01


def test_the_printed_form_gives_no_number_of_one_digit_any_mass(case: Case) -> None:
    prompts = varied_prompts(30, options=(11, 37, 100))
    for one in choices(case.folder, prompts, printed_form=True):
        assert set(one.probabilities[:10]) == {0.0}
    with pytest.raises(ConfigError, match=r"\(here 10\): as printed"):
        choices(case.folder, varied_prompts(1, options=(10,)), printed_form=True)


@pytest.mark.slow
def test_choose_equals_teacher_forcing_on_smollm2() -> None:
    folder = from_wheels(Wheels.model_validate(yaml.safe_load(YAML.read_text(encoding="utf-8"))["wheels"]))
    found = choices(folder, PROMPTS, mass_bound=0.0)
    worst = max(distance(one.probabilities, f) for one, f in zip(found, teacher_forced(folder, PROMPTS), strict=True))
    assert worst < 1e-4
    for one, other in zip(choices(folder, PROMPTS[:60], mass_bound=1e-6), found, strict=False):
        assert one.error_bound is not None
        assert distance(one.probabilities, other.probabilities) <= one.error_bound + ROUNDING
