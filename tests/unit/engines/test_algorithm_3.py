"""Algorithm 3 of egb_slate, line by line, and every form of the labels by brute force, for all of 2 to 120 options."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grid.core.engine import option_numbers
from grid.core.errors import ConfigError
from grid.engines.choice import Distribution, NumberSearch, Prefix
from grid.engines.language_model import number_search
from tests.unit.engines.test_choice import (
    DIGITS,
    PAIRS,
    Model,
    logs_of,
    one_digit_a_token,
    searched,
    two_digits_a_token,
)

SHARPNESS = 1.5
SEEDS = (3, 8)
OPTIONS = range(2, 121)
Tokens = Callable[[str], Prefix]
TOKENIZERS: dict[str, tuple[Tokens, list[int]]] = {
    "a token a digit": (one_digit_a_token, DIGITS),
    "tokens of two digits": (two_digits_a_token, DIGITS + PAIRS),
}


def search_of(options: int, tokens: Tokens, digits: list[int], form: str, printed: bool = False) -> NumberSearch:
    """As engines make it."""
    how: Any = SimpleNamespace(mass_bound=0.0, printed_form=printed, labels=form)
    return number_search(how, [tokens(number) for number in option_numbers(options, form == "padded")], digits)


def found_by(seed: int, *asked: Any) -> Distribution:
    return searched(search_of(*asked), Model(seed, SHARPNESS))


def softmax_over_digits(seed: int, prefix: Prefix) -> np.ndarray:
    row = np.exp(logs_of(seed, prefix, SHARPNESS)[DIGITS])
    share: np.ndarray = row / row.sum()
    return share


def algorithm_3(seed: int, options: int, printed: bool) -> np.ndarray:
    """Lines 5 to 22: P before it is normalised. Not as printed, line 11's softmax is over the whole vocabulary."""
    first, found = softmax_over_digits(seed, ()), np.zeros(options)
    for one in range(10):
        whole = np.exp(logs_of(seed, (one,), SHARPNESS))[DIGITS]
        second = softmax_over_digits(seed, (one,)) if printed else whole
        ends = 1 - second.sum()
        if one < options:
            found[one] += first[one] * ends
        for two in range(10):
            if 10 <= one * 10 + two < options:
                found[one * 10 + two] += first[one] * second[two]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_natural_form_is_algorithm_3_with_the_second_softmax_over_the_vocabulary(seed: int) -> None:
    for options in range(2, 101):
        expected = algorithm_3(seed, options, printed=False)
        found = found_by(seed, options, one_digit_a_token, DIGITS, "natural").probabilities
        assert np.abs(np.array(found) - expected / expected.sum()).max() < 1e-12, options


@pytest.mark.parametrize("seed", SEEDS)
def test_the_printed_form_is_algorithm_3_as_printed(seed: int) -> None:
    for options in range(11, 101):
        expected = algorithm_3(seed, options, printed=True)
        found = found_by(seed, options, one_digit_a_token, DIGITS, "natural", True).probabilities
        assert np.abs(np.array(found) - expected / expected.sum()).max() < 1e-12, options
        assert found[:10] == (0.0,) * 10, "not a little, of rounding"


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_as_printed_ten_options_or_fewer_have_no_probabilities(tokenizer: str) -> None:
    for options in range(2, 11):
        assert algorithm_3(SEEDS[0], options, printed=True).sum() < 1e-12, "which line 23 divides by"
        with pytest.raises(ConfigError, match=rf"model\.printed_form=True: .* \(here {options}\): as printed"):
            search_of(options, *TOKENIZERS[tokenizer], "natural", True)


class Numbers:
    """Brute force: of each number, token by token, its probability, that with printed softmaxes, and its end's."""

    def __init__(self, seed: int, tokens: Tokens, digits: list[int], numbers: tuple[str, ...]) -> None:
        labels = [tokens(number) for number in numbers]
        rows = {node: np.exp(logs_of(seed, node, SHARPNESS)) for x in labels for node in (x[:1], x[:2], x[:3], ())}
        every = {node: row[digits].sum() for node, row in rows.items()}
        self.spelled = np.array([np.prod([rows[x[:at]][x[at]] for at in range(len(x))]) for x in labels])
        self.ends = np.array([1 - every[x] for x in labels])
        self.printed = self.spelled / [np.prod([every[x[:at]] for at in range(1, len(x))]) for x in labels]
        self.long = np.array([len(number) for number in numbers])

    def scores(self, options: int, form: str, printed: bool) -> np.ndarray:
        """Of the first numbers; the end of those counts that are shorter than two digits, or than the last."""
        spelled, ends, long = (self.printed if printed else self.spelled)[:options], self.ends, self.long[:options]
        must = {"natural": long < max(2, long[-1]), "terminated": long > 0, "padded": long < 0}[form]
        scores: np.ndarray = np.where(must, 0.0 if printed else spelled * ends[:options], spelled)
        return scores


@pytest.mark.long
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("form", ["natural", "terminated", "padded", "printed"])
def test_every_form_is_exact_for_2_to_120_options(form: str, tokenizer: str) -> None:
    tokens, digits = TOKENIZERS[tokenizer]
    printed, labels = form == "printed", "natural" if form == "printed" else form
    for seed in SEEDS:
        widths = (10, 100, 120) if form == "padded" else (120,)
        known = {most: Numbers(seed, tokens, digits, option_numbers(most, form == "padded")) for most in widths}
        for options in OPTIONS[9:] if printed else OPTIONS:
            numbers = known[min(most for most in widths if most >= options)]
            expected = numbers.scores(options, labels, printed)
            found = found_by(seed, options, tokens, digits, labels, printed)
            apart = np.abs(np.array(found.probabilities) - expected / expected.sum())
            assert apart.max() < 1e-12, (options, seed)
            assert apart.sum() / 2 < 1e-12, (options, seed)
            assert found.unassigned == pytest.approx(1 - expected.sum())


def test_of_eleven_options_as_printed_the_last_is_certain_however_little_it_has() -> None:
    """No node is left out that alone leads to an option, whatever `mass_bound` is."""
    how: Any = SimpleNamespace(mass_bound=0.5, printed_form=True, labels="natural")
    search = number_search(how, [one_digit_a_token(number) for number in range(11)], DIGITS)
    search.feed(np.full((1, len(search.tokens)), -30.0))
    search.feed(np.full((1, len(search.tokens)), -3.0))
    assert search.result().probabilities == (*[0.0] * 10, 1.0)
